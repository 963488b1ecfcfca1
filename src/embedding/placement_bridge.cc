#include "plimsoll/embedding/placement_bridge.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <numeric>
#include <set>

#include "embedding/option_hazards.h"

namespace plimsoll::embedding {
namespace {

using solve::PieceRun;
using solve::Spread;
using solve::TierBytes;
using solve::UnitChoice;

constexpr int kMaxCombinations = 4096;  // of the options of one unit's tables

TierBytes to_tiers(const Storage& storage) { return {storage.hbm, storage.ddr, storage.ssd}; }

TierBytes operator+(TierBytes a, const TierBytes& b) {
  for (std::size_t t = 0; t < a.size(); ++t) a[t] += b[t];
  return a;
}

// Pieces run by run of both, one on top of the other. Precondition: equal counts.
std::vector<PieceRun> stack(const std::vector<PieceRun>& a, const std::vector<PieceRun>& b) {
  std::vector<PieceRun> runs;
  std::size_t i = 0, j = 0;
  std::int64_t used_a = 0, used_b = 0;
  while (i < a.size() && j < b.size()) {
    const std::int64_t count = std::min(a[i].count - used_a, b[j].count - used_b);
    PieceRun run{count, a[i].load, a[i].bytes + b[j].bytes};
    for (std::size_t g = 0; g < run.load.size(); ++g) run.load[g] += b[j].load[g];
    runs.push_back(std::move(run));
    used_a += count;
    used_b += count;
    if (used_a == a[i].count) ++i, used_a = 0;
    if (used_b == b[j].count) ++j, used_b = 0;
  }
  return runs;
}

double total_load(const UnitChoice& choice) {
  double sum = 0;
  for (const PieceRun& run : choice.runs) {
    for (const double load : run.load) sum += load * static_cast<double>(run.count);
  }
  return sum * static_cast<double>(choice.spread == Spread::kHost ? choice.num_blocks : 1);
}

// Is every piece of a no heavier, on any barrier or tier, than every piece of b?
bool is_no_heavier(const std::vector<PieceRun>& a, const std::vector<PieceRun>& b) {
  return std::all_of(a.begin(), a.end(), [&b](const PieceRun& x) {
    return std::all_of(b.begin(), b.end(), [&x](const PieceRun& y) {
      const bool is_lighter = std::equal(x.load.begin(), x.load.end(), y.load.begin(),
                                         [](double p, double q) { return p <= q; });
      return is_lighter && x.bytes[0] <= y.bytes[0] && x.bytes[1] <= y.bytes[1] &&
             x.bytes[2] <= y.bytes[2];
    });
  });
}

struct Candidate {
  UnitChoice choice;
  std::vector<std::int32_t> options;
};

class Builder {
 public:
  Builder(const BridgeInput& input, const BridgeOptions& settings)
      : options_(*input.options), input_(input), settings_(settings) {}

  Result<PlacementBridge> build() {
    PLIMSOLL_RETURN_IF_ERROR(check_step_model());
    PLIMSOLL_RETURN_IF_ERROR(start_problem());
    find_hazards();
    PLIMSOLL_RETURN_IF_ERROR(make_units());
    find_rating_tier();
    for (std::size_t u = 0; u < bridge_.tables.size(); ++u) {
      PLIMSOLL_RETURN_IF_ERROR(add_unit(u));
    }
    PLIMSOLL_RETURN_IF_ERROR(limit_ranks());
    PLIMSOLL_RETURN_IF_ERROR(keep_apart());
    PLIMSOLL_RETURN_IF_ERROR(solve::validate(bridge_.problem));
    return std::move(bridge_);
  }

 private:
  Result<void> check_step_model() const {
    const StepModel& m = settings_.step_model;
    for (const double value : {m.kernel_weight, m.collective_weight, m.ms_per_sharding_type,
                               m.ms_per_output_byte, m.ms_per_table, m.floor_ms}) {
      if (!(value >= 0) || !std::isfinite(value)) {
        return fail(ErrorCode::kValue, "step_model", "a weight or charge below 0 or not finite",
                    "give finite values of at least 0");
      }
    }
    return {};
  }

  Result<void> start_problem() {
    solve::PlacementProblem& problem = bridge_.problem;
    problem.num_ranks = options_.world_size;
    problem.ranks_per_host = std::max(options_.group_size, 1);
    problem.num_barriers = num_barriers();
    for (const Storage& device : input_.room->devices) {
      const Bytes hbm = std::max<Bytes>(device.hbm, 0);
      problem.caps.push_back({std::min(hbm, settings_.max_hbm.value_or(hbm)),
                              std::max<Bytes>(device.ddr, 0), std::max<Bytes>(device.ssd, 0)});
    }
    if (settings_.objective == BalanceObjective::kTime) {
      problem.floor_ms = settings_.step_model.floor_ms;
    }
    if (!settings_.pools_ddr) return {};
    if (options_.group_size != options_.local_world_size) {
      return fail(ErrorCode::kConflict, "pools_ddr",
                  fmt::format("fast domains of {} ranks in hosts of {}: a pool is a host's",
                              options_.group_size, options_.local_world_size),
                  "give every rank its DDR, or plan without pods");
    }
    problem.is_pooled[1] = true;
    return {};
  }

  int num_barriers() const {
    switch (settings_.objective) {
      case BalanceObjective::kRating:
        return 1;
      case BalanceObjective::kStep:
        return 5;
      case BalanceObjective::kTime:
        return 2 + (has_outputs() ? 1 : 0) + (settings_.step_model.ms_per_table > 0 ? 1 : 0);
    }
    return 1;
  }

  bool has_outputs() const { return settings_.step_model.ms_per_output_byte > 0; }

  std::vector<double> load_of(const Option& option, const ShardRun& run) const {
    const Perf& perf = run.perf;
    switch (settings_.objective) {
      case BalanceObjective::kRating:
        return {perf.total()};
      case BalanceObjective::kStep:
        return {perf.fwd_compute, perf.fwd_comms, perf.bwd_compute, perf.bwd_comms,
                perf.prefetch_compute};
      case BalanceObjective::kTime:
        break;
    }
    const StepModel& model = settings_.step_model;
    std::vector<double> load{
        model.kernel_weight * (perf.fwd_compute + perf.bwd_compute + perf.prefetch_compute),
        model.collective_weight * (perf.fwd_comms + perf.bwd_comms)};
    if (has_outputs()) load.push_back(model.ms_per_output_byte * output_bytes(input_, option, run));
    if (model.ms_per_table > 0) load.push_back(model.ms_per_table);
    return load;
  }

  void find_hazards() {
    is_left_out_.assign(options_.options.size(), false);
    if (!settings_.keeps_hazards) {
      is_left_out_ = find_hazardous_options(options_, *input_.room,
                                            input_.model != nullptr ? *input_.model : Model{});
    }
    for (const TableOptions& table : options_.tables) {
      const auto begin = is_left_out_.begin() + table.first_option;
      const auto end = begin + table.num_options;
      if (std::find(begin, end, false) != end) continue;
      std::fill(begin, end, false);
      bridge_.warnings.push_back(
          {"hazard_unavoidable", table.fqn, "every option of the table is a hazard; all are kept"});
    }
  }

  // Tables that one dependency or one rule holds together, directly or by a third.
  Result<void> make_units() {
    std::vector<std::size_t> leader(options_.tables.size());  // the first table of its unit
    for (std::size_t t = 0; t < leader.size(); ++t) leader[t] = t;
    const auto join = [&leader](std::size_t a, std::size_t b) {
      const std::size_t first = std::min(leader[a], leader[b]);
      const std::size_t second = std::max(leader[a], leader[b]);
      std::replace(leader.begin(), leader.end(), second, first);
      return first != second;
    };
    std::map<std::string, std::size_t> first_of;  // by dependency
    for (std::size_t t = 0; t < leader.size(); ++t) {
      const std::string& dependency = options_.tables[t].dependency;
      if (dependency.empty()) continue;
      const auto [entry, is_new] = first_of.try_emplace(dependency, t);
      if (!is_new && join(entry->second, t)) bridge_.is_tighter = true;
    }
    for (const std::vector<std::string>& fqns : settings_.together) {
      for (const std::string& fqn : fqns) {
        PLIMSOLL_ASSIGN(const std::size_t table, find_table(fqn));
        PLIMSOLL_ASSIGN(const std::size_t first, find_table(fqns.front()));
        join(first, table);
      }
    }
    std::map<std::size_t, std::size_t> unit_of;  // by leader
    for (std::size_t t = 0; t < leader.size(); ++t) {
      const auto [entry, is_new] = unit_of.try_emplace(leader[t], bridge_.tables.size());
      if (is_new) bridge_.tables.emplace_back();
      bridge_.tables[entry->second].push_back(static_cast<std::int32_t>(t));
    }
    return {};
  }

  // A tier that no option needs can stand for the rating: a piece needs its total, in units that
  // all pieces of a plan together keep within 60 bits, and every rank has the cap's.
  void find_rating_tier() {
    if (!settings_.rating_cap || !(*settings_.rating_cap > 0)) return;
    TierBytes largest{};
    std::int64_t num_pieces = options_.world_size;
    for (const TableOptions& table : options_.tables) {
      std::int64_t most = 0;
      for (std::int32_t o = table.first_option; o < table.first_option + table.num_options; ++o) {
        if (is_left_out_[static_cast<std::size_t>(o)]) continue;
        const ShardRuns shards = options_.shards(o);
        most = std::max(most, shards.num_shards());
        for (const ShardRun& run : shards.runs) {
          const TierBytes bytes = to_tiers(run.storage);
          for (std::size_t t = 0; t < bytes.size(); ++t)
            largest[t] = std::max(largest[t], bytes[t]);
        }
      }
      num_pieces += most;
    }
    const auto free = std::find(largest.rbegin(), largest.rend(), 0);
    if (free == largest.rend()) {
      bridge_.warnings.push_back({"rating_cap_left_out", "",
                                  "the options need every tier, so none can stand for the rating"});
      return;
    }
    bridge_.rating_tier = static_cast<int>(largest.rend() - free) - 1;
    const auto width = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(num_pieces)));
    const int bits = std::clamp(60 - width, 20, 48);
    rating_units_ = std::int64_t{1} << bits;
    const Bytes slack = std::max<Bytes>(rating_units_ >> 44, 1);  // for the order of sums
    for (TierBytes& cap : bridge_.problem.caps) {
      cap[static_cast<std::size_t>(bridge_.rating_tier)] = rating_units_ + slack;
    }
  }

  TierBytes bytes_of(const ShardRun& run) const {
    TierBytes bytes = to_tiers(run.storage);
    if (bridge_.rating_tier < 0) return bytes;
    const double share = run.perf.total() / *settings_.rating_cap;
    bytes[static_cast<std::size_t>(bridge_.rating_tier)] =
        share < 1.5 ? static_cast<Bytes>(share * static_cast<double>(rating_units_))
                    : 3 * (rating_units_ / 2);  // on no rank
    return bytes;
  }

  std::vector<PieceRun> runs_of(const Option& option) const {
    std::vector<PieceRun> runs;
    for (const ShardRun& run : options_.shards(option).runs) {
      runs.push_back({run.count, load_of(option, run), bytes_of(run)});
    }
    return runs;
  }

  // All column shards on the ranks of a host in turn.
  std::vector<PieceRun> spread_over_host(const PieceRun& shard, std::int64_t num_shards) const {
    std::vector<PieceRun> runs;
    const std::int64_t ranks = bridge_.problem.ranks_per_host;
    const auto add = [&](std::int64_t count, std::int64_t shards) {
      if (count == 0) return;
      PieceRun run{count, shard.load, {}};
      for (double& load : run.load) load *= static_cast<double>(shards);
      for (std::size_t t = 0; t < run.bytes.size(); ++t) run.bytes[t] = shard.bytes[t] * shards;
      runs.push_back(std::move(run));
    };
    add(num_shards % ranks, num_shards / ranks + 1);
    add(ranks - num_shards % ranks, num_shards / ranks);
    return runs;
  }

  std::vector<Candidate> candidates_of(const TableOptions& table) {
    const bool has_hosts = bridge_.problem.num_hosts() > 0;
    std::vector<Candidate> candidates;
    bool has_columns = false;
    for (std::int32_t o = table.first_option; o < table.first_option + table.num_options; ++o) {
      has_columns |=
          !is_left_out_[static_cast<std::size_t>(o)] &&
          options_.options[static_cast<std::size_t>(o)].sharding_type == ShardingType::kColumnWise;
    }
    for (std::int32_t o = table.first_option; o < table.first_option + table.num_options; ++o) {
      if (is_left_out_[static_cast<std::size_t>(o)]) continue;
      const Option& option = options_.options[static_cast<std::size_t>(o)];
      Candidate candidate{{Spread::kDevice, runs_of(option), 1, {}}, {o}};
      UnitChoice& choice = candidate.choice;
      switch (option.sharding_type) {
        case ShardingType::kTableWise:
        case ShardingType::kColumnWise:
          for (PieceRun& run : choice.runs) run.count *= option.column_blocks;
          break;
        case ShardingType::kTableRowWise:
        case ShardingType::kGridShard:
          choice.spread = Spread::kHost;
          choice.num_blocks = option.column_blocks;
          break;
        case ShardingType::kTableColumnWise:
          if (has_columns) continue;
          choice.spread = Spread::kHost;
          choice.runs = spread_over_host(choice.runs.front(), option.column_blocks);
          break;
        case ShardingType::kRowWise:
        case ShardingType::kDataParallel:
          choice.spread = Spread::kUniform;
          break;
      }
      if (choice.spread == Spread::kHost && !has_hosts) continue;
      if (settings_.objective == BalanceObjective::kTime) {
        choice.causes = {cause_of(table, option.sharding_type)};
      }
      candidates.push_back(std::move(candidate));
    }
    if (bridge_.problem.num_hosts() == 1 &&
        bridge_.problem.ranks_per_host == bridge_.problem.num_ranks) {
      drop_host_choices(candidates);
    }
    return candidates;
  }

  // One host is all there is: a block is no better than the same rows cut over all ranks.
  static void drop_host_choices(std::vector<Candidate>& candidates) {
    const std::vector<Candidate> all = candidates;
    std::erase_if(candidates, [&all](const Candidate& host) {
      if (host.choice.spread != Spread::kHost) return false;
      return std::any_of(all.begin(), all.end(), [&host](const Candidate& other) {
        return other.choice.spread == Spread::kUniform &&
               (host.choice.causes.empty() || other.choice.causes == host.choice.causes) &&
               is_no_heavier(other.choice.runs, host.choice.runs);
      });
    });
  }

  int cause_of(const TableOptions& table, ShardingType type) {
    const auto [entry, is_new] = causes_.try_emplace(
        {table.module_path, type}, static_cast<int>(bridge_.problem.charges.size()));
    if (is_new) bridge_.problem.charges.push_back(settings_.step_model.ms_per_sharding_type);
    return entry->second;
  }

  // Options of all tables that agree in spread and stand on one rank, one host or everywhere.
  static std::vector<Candidate> combine(const std::vector<Candidate>& first,
                                        const std::vector<Candidate>& second) {
    std::vector<Candidate> combined;
    for (const Candidate& a : first) {
      for (const Candidate& b : second) {
        if (a.choice.spread != b.choice.spread || !is_whole(a.choice) || !is_whole(b.choice)) {
          continue;
        }
        Candidate both = a;
        both.choice.runs = stack(a.choice.runs, b.choice.runs);
        std::vector<int> causes;
        std::set_union(a.choice.causes.begin(), a.choice.causes.end(), b.choice.causes.begin(),
                       b.choice.causes.end(), std::back_inserter(causes));
        both.choice.causes = std::move(causes);
        both.options.insert(both.options.end(), b.options.begin(), b.options.end());
        combined.push_back(std::move(both));
      }
    }
    std::stable_sort(combined.begin(), combined.end(), [](const Candidate& a, const Candidate& b) {
      return total_load(a.choice) < total_load(b.choice);
    });
    return combined;
  }

  static bool is_whole(const UnitChoice& choice) {
    switch (choice.spread) {
      case Spread::kDevice:
        return choice.runs.size() == 1 && choice.runs.front().count == 1;
      case Spread::kHost:
        return choice.num_blocks == 1;
      case Spread::kUniform:
        return true;
    }
    return false;
  }

  Result<void> add_unit(std::size_t u) {
    const std::vector<std::int32_t>& tables = bridge_.tables[u];
    std::vector<Candidate> candidates;
    for (std::size_t i = 0; i < tables.size(); ++i) {
      const TableOptions& table = options_.tables[static_cast<std::size_t>(tables[i])];
      std::vector<Candidate> own = candidates_of(table);
      candidates = i == 0 ? std::move(own) : combine(candidates, own);
      if (candidates.size() > kMaxCombinations) {
        candidates.resize(kMaxCombinations);
        bridge_.is_tighter = true;
      }
    }
    const TableOptions& table = options_.tables[static_cast<std::size_t>(tables.front())];
    solve::Unit unit;
    unit.name = tables.size() == 1 ? table.fqn : table.dependency;
    std::vector<std::vector<std::int32_t>> taken;
    for (Candidate& candidate : candidates) {
      unit.choices.push_back(std::move(candidate.choice));
      taken.push_back(std::move(candidate.options));
    }
    if (unit.choices.empty()) {
      return fail(ErrorCode::kConflict, "table " + table.fqn,
                  "no option can be placed on these ranks",
                  "allow more sharding types, or use whole hosts");
    }
    bridge_.problem.units.push_back(std::move(unit));
    bridge_.options.push_back(std::move(taken));
    return {};
  }

  Result<std::size_t> find_table(const std::string& fqn) const {
    const auto found = std::find_if(options_.tables.begin(), options_.tables.end(),
                                    [&fqn](const TableOptions& table) { return table.fqn == fqn; });
    if (found != options_.tables.end()) {
      return static_cast<std::size_t>(found - options_.tables.begin());
    }
    return fail(ErrorCode::kNotFound, "table " + fqn, "no such table", "name a table's fqn");
  }

  Result<std::size_t> find_unit(const std::string& fqn) const {
    PLIMSOLL_ASSIGN(const std::size_t table, find_table(fqn));
    const auto found =
        std::find_if(bridge_.tables.begin(), bridge_.tables.end(), [table](const auto& tables) {
          return std::find(tables.begin(), tables.end(), static_cast<std::int32_t>(table)) !=
                 tables.end();
        });
    return static_cast<std::size_t>(found - bridge_.tables.begin());
  }

  using Ranks = std::vector<int>;

  // Keeps of the unit's allowed ranks what `combine` makes of them and the rule's.
  template <class Combine>
  Result<void> limit(const std::map<std::string, Ranks>& rules, const Combine& combine) {
    Ranks all(static_cast<std::size_t>(options_.world_size));
    std::iota(all.begin(), all.end(), 0);
    for (const auto& [fqn, ranks] : rules) {
      PLIMSOLL_ASSIGN(const std::size_t unit, find_unit(fqn));
      Ranks& allowed = bridge_.problem.units[unit].allowed_ranks;
      Ranks left;
      combine(allowed.empty() ? all : allowed, ranks, std::back_inserter(left));
      if (left.empty()) {
        return fail(ErrorCode::kConflict, "table " + fqn, "no rank is left for the table",
                    "allow a rank that no rule forbids");
      }
      allowed = std::move(left);
    }
    return {};
  }

  Result<void> limit_ranks() {
    PLIMSOLL_RETURN_IF_ERROR(
        limit(settings_.allowed_ranks, [](const Ranks& a, const Ranks& b, auto out) {
          std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), out);
        }));
    return limit(settings_.forbidden_ranks, [](const Ranks& a, const Ranks& b, auto out) {
      std::set_difference(a.begin(), a.end(), b.begin(), b.end(), out);
    });
  }

  Result<void> keep_apart() {
    for (const std::vector<std::string>& fqns : settings_.apart) {
      std::set<int> units;
      for (const std::string& fqn : fqns) {
        PLIMSOLL_ASSIGN(const std::size_t unit, find_unit(fqn));
        if (!units.insert(static_cast<int>(unit)).second) {
          return fail(ErrorCode::kConflict, "table " + fqn,
                      "kept apart from a table that it must stand with", "drop one of the rules");
        }
      }
      bridge_.problem.apart.emplace_back(units.begin(), units.end());
    }
    return {};
  }

  const OptionSet& options_;
  const BridgeInput& input_;
  const BridgeOptions& settings_;
  PlacementBridge bridge_;
  std::vector<bool> is_left_out_;  // [options]
  std::int64_t rating_units_ = 0;  // that the rating cap is
  std::map<std::pair<std::string, ShardingType>, int> causes_;
};

}  // namespace

double output_bytes(const BridgeInput& input, const Option& option, const ShardRun& run) {
  if (input.estimator == nullptr || input.profiles.empty()) return 0;
  const TableProfile& profile = input.profiles[static_cast<std::size_t>(option.table)];
  const auto io =
      input.estimator->shard_io(profile, option.sharding_type, run.rows, run.columns,
                                profile.output_element_size.value_or(profile.shape.element_size));
  return io ? static_cast<double>(io->output) : 0;
}

Result<PlacementBridge> make_placement_bridge(const BridgeInput& input,
                                              const BridgeOptions& options) {
  return Builder(input, options).build();
}

}  // namespace plimsoll::embedding
