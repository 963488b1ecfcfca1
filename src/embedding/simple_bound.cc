// A bound on every plan's rating and a proof that no plan fits, both from totals alone.
//
// Bound. The ranks' times sum to the tables' totals, and the largest is at least the mean: rating
// >= sum_t min_o total(o) / W. And some rank holds the largest shard of each table: rating >= max_t
// min_o largest(o). Only options that fit on empty ranks count, each on the fastest rank.
// O(options). Infeasibility. A table none of whose options fits on empty ranks; or, for weights u
// >= 0 of the tiers, sum_t min_o u.bytes(o) > u.room. Tried: each tier alone and HBM with DDR.
// Promises. Exact integers for memory (128 bits). The rating's bound is lowered by 1e-12 relative,
// more than its sums can be off.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "plimsoll/embedding/planner.h"

namespace plimsoll::embedding {
namespace {

using topology::Topology;

struct TierSet {
  std::string_view name;
  bool hbm, ddr, ssd;

  Int128 bytes(const Storage& storage) const {
    Int128 sum = 0;
    if (hbm) sum += storage.hbm;
    if (ddr) sum += storage.ddr;
    if (ssd) sum += storage.ssd;
    return sum;
  }
};
constexpr std::array<TierSet, 4> kTierSets{{{"hbm", true, false, false},
                                            {"ddr", false, true, false},
                                            {"ssd", false, false, true},
                                            {"hbm and ddr", true, true, false}}};

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

Bytes to_bytes(Int128 value) {
  return static_cast<Bytes>(std::min<Int128>(value, std::numeric_limits<Bytes>::max()));
}

}  // namespace

SimpleBound simple_bound(const OptionSet& options, const Topology& room) {
  SimpleBound bound;
  double sum = 0;
  double largest = 0;
  const std::vector<double>& speeds = options.rank_speeds;
  const double speed = speeds.empty() ? 1 : *std::max_element(speeds.begin(), speeds.end());
  std::array<Int128, kTierSets.size()> needed{};
  const bool has_equal_ranks =
      std::all_of(room.devices.begin(), room.devices.end(),
                  [&room](const Storage& device) { return device == room.devices.front(); });
  for (const TableOptions& table : options.tables) {
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
      bound.is_infeasible = true;
      bound.proof = "a table fits on no rank, whichever option it takes";
      bound.explanation.binding = "table " + table.fqn;
      bound.explanation.lines.push_back(
          fmt::format("table {}: every one of its {} options has a shard that fits on no rank, "
                      "even an empty one",
                      table.fqn, table.num_options));
      return bound;
    }
    sum += least_total;
    largest = std::max(largest, least_shard);
    for (std::size_t k = 0; k < kTierSets.size(); ++k) needed[k] += least_bytes[k];
  }
  for (std::size_t k = 0; k < kTierSets.size(); ++k) {
    Int128 available = 0;
    for (const Storage& device : room.devices) {
      available += std::max<Int128>(0, kTierSets[k].bytes(device));
    }
    if (needed[k] <= available) continue;
    bound.is_infeasible = true;
    bound.proof = "the least that all tables need exceeds the room of all ranks";
    bound.explanation.binding = kTierSets[k].name;
    bound.explanation.missing = to_bytes(needed[k] - available);
    bound.explanation.lines.push_back(fmt::format(
        "{}: the least that all tables need is {}, the ranks have {} left together, {} too little",
        kTierSets[k].name, format_bytes(to_bytes(needed[k])), format_bytes(to_bytes(available)),
        format_bytes(bound.explanation.missing)));
    return bound;
  }
  const double mean = sum / static_cast<double>(options.world_size);
  bound.lower_bound = std::max(mean, largest) * (1 - 1e-12);
  bound.proof = mean >= largest ? "mean over ranks of the tables' cheapest options"
                                : "largest shard of a table's cheapest option";
  return bound;
}

}  // namespace plimsoll::embedding
