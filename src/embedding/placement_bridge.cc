#include "plimsoll/embedding/placement_bridge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
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
    start_problem();
    find_hazards();
    make_units();
    for (std::size_t u = 0; u < bridge_.tables.size(); ++u) {
      PLIMSOLL_RETURN_IF_ERROR(add_unit(u));
    }
    PLIMSOLL_RETURN_IF_ERROR(limit_ranks());
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

  void start_problem() {
    solve::PlacementProblem& problem = bridge_.problem;
    problem.num_ranks = options_.world_size;
    problem.ranks_per_host = std::max(options_.group_size, 1);
    problem.num_barriers = num_barriers();
    for (const Storage& device : input_.room->devices) {
      problem.caps.push_back({std::max<Bytes>(device.hbm, 0), std::max<Bytes>(device.ddr, 0),
                              std::max<Bytes>(device.ssd, 0)});
    }
    if (settings_.objective == BalanceObjective::kTime) {
      problem.floor_ms = settings_.step_model.floor_ms;
    }
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

  void make_units() {
    std::map<std::string, std::size_t> unit_of;  // by dependency
    for (std::size_t t = 0; t < options_.tables.size(); ++t) {
      const std::string& dependency = options_.tables[t].dependency;
      const auto [entry, is_new] = dependency.empty()
                                       ? std::pair(unit_of.end(), true)
                                       : unit_of.try_emplace(dependency, bridge_.tables.size());
      if (is_new) bridge_.tables.emplace_back();
      const std::size_t unit = is_new ? bridge_.tables.size() - 1 : entry->second;
      bridge_.tables[unit].push_back(static_cast<std::int32_t>(t));
    }
  }

  std::vector<PieceRun> runs_of(const Option& option) const {
    std::vector<PieceRun> runs;
    for (const ShardRun& run : options_.shards(option).runs) {
      runs.push_back({run.count, load_of(option, run), to_tiers(run.storage)});
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
    if (combined.size() > kMaxCombinations) combined.resize(kMaxCombinations);
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

  Result<int> find_unit(const std::string& fqn) const {
    for (std::size_t u = 0; u < bridge_.tables.size(); ++u) {
      for (const std::int32_t t : bridge_.tables[u]) {
        if (options_.tables[static_cast<std::size_t>(t)].fqn == fqn) return static_cast<int>(u);
      }
    }
    return fail(ErrorCode::kNotFound, "table " + fqn, "no such table", "name a table's fqn");
  }

  Result<void> limit_ranks() {
    for (const auto& [fqn, ranks] : settings_.allowed_ranks) {
      PLIMSOLL_ASSIGN(const int unit, find_unit(fqn));
      std::vector<int>& allowed =
          bridge_.problem.units[static_cast<std::size_t>(unit)].allowed_ranks;
      std::vector<int> both;
      std::set_intersection(allowed.begin(), allowed.end(), ranks.begin(), ranks.end(),
                            std::back_inserter(both));
      allowed = allowed.empty() ? ranks : both;
    }
    for (const std::vector<std::string>& fqns : settings_.apart) {
      std::set<int> units;
      for (const std::string& fqn : fqns) {
        PLIMSOLL_ASSIGN(const int unit, find_unit(fqn));
        units.insert(unit);
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
  std::map<std::pair<std::string, ShardingType>, int> causes_;
};

// Ranks of one table's shards, in shard order.
void append_ranks(const PlacementBridge& bridge, const Option& option,
                  const solve::UnitPlacement& placement, std::vector<std::int32_t>& ranks) {
  const int width = bridge.problem.ranks_per_host;
  switch (option.sharding_type) {
    case ShardingType::kTableWise:
    case ShardingType::kColumnWise:
      ranks.insert(ranks.end(), placement.slots.begin(), placement.slots.end());
      return;
    case ShardingType::kTableRowWise:
    case ShardingType::kGridShard:
      for (const int host : placement.slots) {
        for (int i = 0; i < width; ++i) ranks.push_back(host * width + i);
      }
      return;
    case ShardingType::kTableColumnWise:
      for (int i = 0; i < option.column_blocks; ++i) {
        ranks.push_back(placement.slots.front() * width + i % width);
      }
      return;
    case ShardingType::kRowWise:
    case ShardingType::kDataParallel:
      return;
  }
}

// Slots that put the choice where the ranks say; nothing where it cannot stand there.
std::optional<std::vector<int>> find_slots(const PlacementBridge& bridge, const UnitChoice& choice,
                                           std::span<const std::int32_t> ranks) {
  const int width = bridge.problem.ranks_per_host;
  if (choice.spread == Spread::kUniform) return std::vector<int>{};
  if (choice.spread == Spread::kDevice) return std::vector<int>(ranks.begin(), ranks.end());
  std::vector<int> hosts;
  for (std::int64_t block = 0; block < choice.num_blocks; ++block) {
    const auto at = static_cast<std::size_t>(block * width);
    if (at >= ranks.size()) return std::nullopt;
    hosts.push_back(ranks[at] / width);
    if (hosts.back() >= bridge.problem.num_hosts()) return std::nullopt;
  }
  return hosts;
}

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

PlacedProposal to_proposal(const PlacementBridge& bridge, const OptionSet& options,
                           const solve::UnitPlacements& placements) {
  struct Taken {
    std::size_t unit = 0;
    std::int32_t option = -1;
  };
  std::vector<Taken> of_table(options.tables.size());
  for (std::size_t u = 0; u < bridge.tables.size(); ++u) {
    const auto choice = static_cast<std::size_t>(placements.units[u].choice);
    for (std::size_t i = 0; i < bridge.tables[u].size(); ++i) {
      of_table[static_cast<std::size_t>(bridge.tables[u][i])] = {u, bridge.options[u][choice][i]};
    }
  }
  PlacedProposal plan;
  plan.first_rank.push_back(0);
  for (const Taken& taken : of_table) {
    plan.options.push_back(taken.option);
    append_ranks(bridge, options.options[static_cast<std::size_t>(taken.option)],
                 placements.units[taken.unit], plan.ranks);
    plan.first_rank.push_back(static_cast<std::int64_t>(plan.ranks.size()));
  }
  return plan;
}

std::optional<solve::UnitPlacements> find_placements(const PlacementBridge& bridge,
                                                     const OptionSet& options,
                                                     const PlacedProposal& plan) {
  std::vector<std::size_t> position(options.tables.size());
  for (std::size_t p = 0; p < plan.options.size(); ++p) {
    position[static_cast<std::size_t>(
        options.options[static_cast<std::size_t>(plan.options[p])].table)] = p;
  }
  const auto matches = [&](std::int32_t ours, std::int32_t theirs) {
    if (ours == theirs) return true;
    const Option& a = options.options[static_cast<std::size_t>(ours)];
    const Option& b = options.options[static_cast<std::size_t>(theirs)];
    const bool is_stand_in =
        (a.sharding_type == ShardingType::kColumnWise &&
         b.sharding_type == ShardingType::kTableColumnWise) ||
        (a.sharding_type == ShardingType::kRowWise &&
         b.sharding_type == ShardingType::kTableRowWise && bridge.problem.num_hosts() == 1);
    return is_stand_in && a.compute_kernel == b.compute_kernel &&
           a.cache_load_factor == b.cache_load_factor && a.column_blocks == b.column_blocks;
  };
  solve::UnitPlacements placements;
  for (std::size_t u = 0; u < bridge.tables.size(); ++u) {
    solve::UnitPlacement placement;
    for (std::size_t c = 0; c < bridge.options[u].size() && placement.choice < 0; ++c) {
      bool is_match = true;
      for (std::size_t i = 0; i < bridge.tables[u].size(); ++i) {
        const std::size_t p = position[static_cast<std::size_t>(bridge.tables[u][i])];
        is_match = is_match && matches(bridge.options[u][c][i], plan.options[p]);
      }
      if (!is_match) continue;
      const std::size_t p = position[static_cast<std::size_t>(bridge.tables[u].front())];
      const auto first = static_cast<std::size_t>(plan.first_rank[p]);
      const auto last = static_cast<std::size_t>(plan.first_rank[p + 1]);
      const auto slots = find_slots(bridge, bridge.problem.units[u].choices[c],
                                    std::span(plan.ranks).subspan(first, last - first));
      if (!slots) return std::nullopt;
      placement.choice = static_cast<int>(c);
      placement.slots = *slots;
    }
    if (placement.choice < 0) return std::nullopt;
    placements.units.push_back(std::move(placement));
  }
  return placements;
}

}  // namespace plimsoll::embedding
