// A bound on every plan's rating and a proof that no plan fits, both from totals alone.
//
// Bound. The ranks' times sum to the tables' totals, and the largest is at least the mean: rating
// >= sum_t min_o total(o) / W. And some rank holds the largest shard of each table: rating >= max_t
// min_o largest(o). Only options that fit on empty ranks count, each on the fastest rank.
// O(options). Infeasibility. A table none of whose options fits on empty ranks; or, for weights u
// >= 0 of the tiers, sum_t min_o u.bytes(o) > u.room. Tried: each tier alone and HBM with DDR.
// Explained by the fewest bytes with which neither is proved (balance/bounds/missing_bytes.h).
// Promises. Exact integers for memory (128 bits). The rating's bound is lowered by 1e-12 relative,
// more than its sums can be off.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "balance/bounds/explain_infeasible.h"
#include "core/check.h"
#include "plimsoll/embedding/planner.h"

namespace plimsoll::embedding {
namespace {

using topology::Topology;

constexpr std::size_t kNumTiers = 3;  // hbm, ddr, ssd

struct TierSet {
  bool hbm, ddr, ssd;

  Int128 bytes(const Storage& storage) const {
    Int128 sum = 0;
    if (hbm) sum += storage.hbm;
    if (ddr) sum += storage.ddr;
    if (ssd) sum += storage.ssd;
    return sum;
  }
};
constexpr std::array<TierSet, 4> kTierSets{
    {{true, false, false}, {false, true, false}, {false, false, true}, {true, true, false}}};

// Could the option be placed if it were the only one? Exact for uniform options, a relaxation for
// the others: every shard fits on some rank.
bool fits_alone(const OptionSet& options, const Option& option, const Topology& room,
                bool has_equal_ranks) {
  const ShardRuns shards = options.shards(option);
  if (has_equal_ranks) {
    return std::all_of(shards.runs.begin(), shards.runs.end(), [&room](const ShardRun& run) {
      return run.storage.fits_in(room.devices.front());
    });
  }
  if (option.partition_by == PartitionBy::kUniform) {
    std::size_t rank = 0;
    for (const ShardRun& run : shards.runs) {
      for (std::int64_t i = 0; i < run.count && rank < room.devices.size(); ++i) {
        if (!run.storage.fits_in(room.devices[rank++])) return false;
      }
    }
    return true;
  }
  return std::all_of(shards.runs.begin(), shards.runs.end(), [&room](const ShardRun& run) {
    return std::any_of(room.devices.begin(), room.devices.end(),
                       [&run](const Storage& device) { return run.storage.fits_in(device); });
  });
}

struct Totals {
  int stuck_table = -1;  // none of whose options fits on empty ranks
  double time = 0;       // of the tables' cheapest options that fit alone
  double largest = 0;    // shard
  std::array<Int128, kTierSets.size()> needed{};
};

Totals total_up(const OptionSet& options, const Topology& room) {
  Totals totals;
  const std::vector<double>& speeds = options.rank_speeds;
  const double speed = speeds.empty() ? 1 : *std::max_element(speeds.begin(), speeds.end());
  const bool has_equal_ranks =
      std::all_of(room.devices.begin(), room.devices.end(),
                  [&room](const Storage& device) { return device == room.devices.front(); });
  for (std::size_t t = 0; t < options.tables.size(); ++t) {
    const TableOptions& table = options.tables[t];
    double least_total = std::numeric_limits<double>::infinity();
    double least_shard = std::numeric_limits<double>::infinity();
    std::array<Int128, kTierSets.size()> least_bytes{};
    bool fits = false;
    for (std::int32_t o = table.first_option; o < table.first_option + table.num_options; ++o) {
      const Option& option = options.options[static_cast<std::size_t>(o)];
      if (!fits_alone(options, option, room, has_equal_ranks)) continue;
      const ShardRuns shards = options.shards(option);
      double total = 0;
      double shard = 0;
      for (const ShardRun& run : shards.runs) {
        const double perf = at_speed(run.perf, speed).total();
        total += static_cast<double>(run.count * shards.column_blocks) * perf;
        shard = std::max(shard, perf);
      }
      least_total = std::min(least_total, total);
      least_shard = std::min(least_shard, shard);
      const Storage storage = shards.total_storage();
      for (std::size_t k = 0; k < kTierSets.size(); ++k) {
        const Int128 bytes = kTierSets[k].bytes(storage);
        least_bytes[k] = fits ? std::min(least_bytes[k], bytes) : bytes;
      }
      fits = true;
    }
    if (!fits) {
      totals.stuck_table = static_cast<int>(t);
      return totals;
    }
    totals.time += least_total;
    totals.largest = std::max(totals.largest, least_shard);
    for (std::size_t k = 0; k < kTierSets.size(); ++k) totals.needed[k] += least_bytes[k];
  }
  return totals;
}

// Of a set of tiers in which all tables need more than all ranks have; 0 where there is none.
Int128 find_excess(const Totals& totals, const Topology& room, const TierSet*& of) {
  for (std::size_t k = 0; k < kTierSets.size(); ++k) {
    Int128 available = 0;
    for (const Storage& device : room.devices) {
      available += std::max<Int128>(0, kTierSets[k].bytes(device));
    }
    if (totals.needed[k] <= available) continue;
    of = &kTierSets[k];
    return totals.needed[k] - available;
  }
  return 0;
}

std::optional<balance::Shortage> prove_shortage(const OptionSet& options, const Topology& room,
                                                const balance::Amounts& added) {
  Topology larger = room;
  for (Storage& device : larger.devices) device += {added[0], added[1], added[2]};
  const Totals totals = total_up(options, larger);
  if (totals.stuck_table >= 0) return balance::Shortage{{}, totals.stuck_table};
  const TierSet* tiers = nullptr;
  const Int128 excess = find_excess(totals, larger, tiers);
  if (excess == 0) return std::nullopt;
  const Int128 ranks = options.world_size;
  const auto each = static_cast<Bytes>(
      std::min<Int128>((excess + ranks - 1) / ranks, std::numeric_limits<Bytes>::max()));
  return balance::Shortage{{tiers->hbm ? each : 0, tiers->ddr ? each : 0, tiers->ssd ? each : 0},
                           -1};
}

// The most that any plan may put of a tier on a rank, within what sums can hold.
balance::Amounts most_bytes(const OptionSet& options) {
  std::array<Int128, kNumTiers> most{};
  for (const TableOptions& table : options.tables) {
    std::array<Int128, kNumTiers> largest{};
    for (std::int32_t o = table.first_option; o < table.first_option + table.num_options; ++o) {
      const Storage storage =
          options.shards(options.options[static_cast<std::size_t>(o)]).total_storage();
      largest[0] = std::max<Int128>(largest[0], storage.hbm);
      largest[1] = std::max<Int128>(largest[1], storage.ddr);
      largest[2] = std::max<Int128>(largest[2], storage.ssd);
    }
    for (std::size_t tier = 0; tier < kNumTiers; ++tier) most[tier] += largest[tier];
  }
  balance::Amounts result{};
  for (std::size_t tier = 0; tier < kNumTiers; ++tier) {
    result[tier] =
        static_cast<Bytes>(std::min<Int128>(most[tier], (Bytes{1} << 62) / options.world_size));
  }
  return result;
}

}  // namespace

SimpleBound simple_bound(const OptionSet& options, const Topology& room) {
  SimpleBound bound;
  const Totals totals = total_up(options, room);
  const TierSet* tiers = nullptr;
  if (totals.stuck_table >= 0) {
    bound.is_infeasible = true;
    bound.proof = ProofKind::kTableFitsNowhere;
    return bound;
  }
  if (find_excess(totals, room, tiers) > 0) {
    bound.is_infeasible = true;
    bound.proof = ProofKind::kTotalBytes;
    return bound;
  }
  const double mean = totals.time / static_cast<double>(options.world_size);
  bound.lower_bound = std::max(mean, totals.largest) * (1 - 1e-12);
  bound.proof = mean >= totals.largest ? ProofKind::kMeanOfOptions : ProofKind::kLargestShard;
  return bound;
}

Explanation explain_by_totals(const OptionSet& options, const Topology& room) {
  PLIMSOLL_DCHECK(prove_shortage(options, room, {}), "the bound proves that nothing fits");
  balance::MissingBytesOptions search;
  search.num_resources = kNumTiers;
  search.most = most_bytes(options);
  search.max_proofs = balance::kMaxExplainingProofs;
  const balance::MissingBytes missing = balance::find_missing_bytes(
      [&](const balance::Amounts& added) { return prove_shortage(options, room, added); }, search);
  const auto name_of_table = [&options](int table) {
    return options.tables[static_cast<std::size_t>(table)].fqn;
  };
  Explanation explanation = describe(missing, {options.world_size, name_of_table},
                                     {{"hbm", "ddr", "ssd"}, "table", "tables"});
  for (std::size_t tier = 0; tier < kNumTiers; ++tier) {
    const int table = missing.unit[tier];
    if (table >= 0) explanation.binding = "table " + name_of_table(table);
  }
  explanation.lines.front() = explanation.binding + ": " + explanation.lines.front();
  return explanation;
}

}  // namespace plimsoll::embedding
