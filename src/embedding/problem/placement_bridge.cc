#include "plimsoll/embedding/placement_bridge.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>

#include "core/suggest.h"
#include "embedding/problem/option_choices.h"
#include "embedding/problem/option_hazards.h"
#include "embedding/problem/piece_loads.h"

namespace plimsoll::embedding {
namespace {

constexpr int kMaxCombinations = 4096;    // of the options of one unit's tables
constexpr std::size_t kMaxExclusive = 3;  // collections whose ways a bound tells apart
constexpr std::size_t kMaxWays = 8;       // of each of them

class Builder {
 public:
  Builder(const BridgeInput& input, const BridgeOptions& settings)
      : options_(*input.options), input_(input), settings_(settings), loads_(input, settings) {}

  Result<PlacementBridge> build() {
    PLIMSOLL_RETURN_IF_ERROR(check_step_model(settings_.step_model));
    if (settings_.objective == BalanceObjective::kTime) {
      PLIMSOLL_RETURN_IF_ERROR(make_calibrated_times(input_));
    }
    PLIMSOLL_RETURN_IF_ERROR(start_problem());
    PLIMSOLL_RETURN_IF_ERROR(find_hazards());
    PLIMSOLL_RETURN_IF_ERROR(make_units());
    cap_rating();
    PLIMSOLL_RETURN_IF_ERROR(add_units());
    PLIMSOLL_RETURN_IF_ERROR(limit_ranks());
    PLIMSOLL_RETURN_IF_ERROR(keep_apart());
    PLIMSOLL_RETURN_IF_ERROR(balance::validate(bridge_.problem));
    return std::move(bridge_);
  }

 private:
  Result<void> start_problem() {
    balance::PlacementProblem& problem = bridge_.problem;
    loads_.describe_ranks(problem);
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
    problem.resources[kDdr].is_pooled = true;
    return {};
  }

  Result<void> find_hazards() {
    static const Model kNone;
    const Model& model = input_.model != nullptr ? *input_.model : kNone;
    is_left_out_ = settings_.left_out;
    bridge_.is_tighter =
        std::find(is_left_out_.begin(), is_left_out_.end(), true) != is_left_out_.end();
    is_left_out_.resize(options_.options.size(), false);
    causes_of_option_.resize(options_.options.size());
    std::vector<bool> is_barred;
    if (settings_.strict_numerics) {
      is_barred = find_numeric_options(options_, model);
      if (auto error = find_numeric_refusal(options_, model)) {
        return tl::unexpected<Error>(*std::move(error));
      }
      for (std::size_t o = 0; o < is_barred.size(); ++o) {
        if (is_barred[o]) is_left_out_[o] = true;
      }
    }
    if (settings_.keeps_hazards) return {};
    const OptionHazards hazards = find_option_hazards(options_, *input_.room, model, is_barred);
    for (std::size_t o = 0; o < is_left_out_.size(); ++o) {
      if (!hazards.is_left_out[o]) continue;
      is_left_out_[o] = true;
      bridge_.leaves_hazards_out = true;
    }
    choose_ways(hazards.way_choices);
    for (const auto& [hazard, is_certain] : hazards.unavoidable) {
      bridge_.warnings.push_back({"hazard_unavoidable",
                                  options_.tables[static_cast<std::size_t>(hazard.table)].fqn,
                                  fmt::format("{}: every plan has hazards; those with the fewest "
                                              "are searched, and they {} this one",
                                              hazard.name, is_certain ? "have" : "may have")});
    }
    return {};
  }

  // Of each collection with several ways the options of one are left, or those of any two exclude
  // each other.
  void choose_ways(const std::vector<WayChoice>& choices) {
    if (choices.empty()) return;
    bridge_.leaves_hazards_out = true;
    bridge_.is_tighter |= !settings_.is_for_bound;
    for (std::size_t i = 0; i < choices.size(); ++i) {
      const std::vector<std::vector<std::int32_t>>& ways = choices[i].left_out;
      bridge_.num_ways.push_back(static_cast<int>(ways.size()));
      if (settings_.is_for_bound) {
        if (i < kMaxExclusive && ways.size() <= kMaxWays) exclude_each_other(ways);
        continue;
      }
      const auto way = static_cast<std::size_t>(i < settings_.ways.size() ? settings_.ways[i] : 0);
      for (const std::int32_t o : ways[way]) is_left_out_[static_cast<std::size_t>(o)] = true;
    }
  }

  // A cause for each way, of the options that this way alone takes. Options of some ways and not of
  // others have none: that allows more plans, never fewer.
  void exclude_each_other(const std::vector<std::vector<std::int32_t>>& ways) {
    balance::PlacementProblem& problem = bridge_.problem;
    const auto first = static_cast<int>(problem.charges.size());
    const auto num_ways = static_cast<int>(ways.size());
    problem.charges.insert(problem.charges.end(), ways.size(), 0.0);
    for (int b = 1; b < num_ways; ++b) {
      for (int a = 0; a < b; ++a) problem.exclusive.push_back({first + a, first + b});
    }
    std::map<std::int32_t, int> excluded;  // by how many ways
    for (const std::vector<std::int32_t>& options : ways) {
      for (const std::int32_t o : options) ++excluded[o];
    }
    for (const auto& [o, count] : excluded) {
      if (count + 1 != num_ways) continue;
      for (int w = 0; w < num_ways; ++w) {
        const std::vector<std::int32_t>& options = ways[static_cast<std::size_t>(w)];
        if (std::binary_search(options.begin(), options.end(), o)) continue;
        causes_of_option_[static_cast<std::size_t>(o)].push_back(first + w);
      }
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
    const auto has_columns = [this](std::size_t table) {
      return has_host_columns(options_, is_left_out_, options_.tables[table]);
    };
    std::map<std::string, std::size_t> first_of;  // by dependency
    const bool is_one_host = bridge_.problem.ranks_per_host >= bridge_.problem.num_ranks;
    for (std::size_t t = 0; t < leader.size(); ++t) {
      const std::string& dependency = options_.tables[t].dependency;
      if (dependency.empty() || is_one_host || settings_.is_for_bound) continue;
      const auto [entry, is_new] = first_of.try_emplace(dependency, t);
      if (!is_new && join(entry->second, t)) bridge_.is_tighter = true;
    }
    for (const std::vector<std::string>& fqns : settings_.together) {
      for (const std::string& fqn : fqns) {
        PLIMSOLL_ASSIGN(const std::size_t table, find_table(fqn));
        PLIMSOLL_ASSIGN(const std::size_t first, find_table(fqns.front()));
        const bool is_loose = settings_.is_for_bound && (has_columns(table) || has_columns(first));
        if (!is_loose) join(first, table);
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

  void cap_rating() {
    if (!settings_.rating_cap || !(*settings_.rating_cap > 0)) return;
    loads_.cap_rating(is_left_out_, bridge_.problem);
  }

  Result<void> add_units() {
    OptionChoices choices(options_, settings_, is_left_out_, causes_of_option_, loads_,
                          bridge_.problem);
    for (std::size_t u = 0; u < bridge_.tables.size(); ++u) {
      PLIMSOLL_RETURN_IF_ERROR(add_unit(u, choices));
    }
    bridge_.is_tighter |= choices.is_tighter();
    bridge_.plain_name = choices.take_plain_names();
    return {};
  }

  Result<void> add_unit(std::size_t u, OptionChoices& choices) {
    const std::vector<std::int32_t>& tables = bridge_.tables[u];
    std::vector<Candidate> candidates;
    for (std::size_t i = 0; i < tables.size(); ++i) {
      const TableOptions& table = options_.tables[static_cast<std::size_t>(tables[i])];
      std::vector<Candidate> own = choices.choices_of(table, tables.size() == 1);
      candidates = i == 0 ? std::move(own) : combine(candidates, own);
      if (candidates.size() > kMaxCombinations) {
        candidates.resize(kMaxCombinations);
        bridge_.is_tighter = true;
      }
    }
    const TableOptions& table = options_.tables[static_cast<std::size_t>(tables.front())];
    balance::Unit unit;
    unit.name = tables.size() > 1 && !table.dependency.empty() ? table.dependency : table.fqn;
    if (unit.name.starts_with('.')) unit.name.erase(0, 1);  // of a model without modules
    std::vector<std::vector<std::int32_t>> taken;
    std::vector<int> first_rank;
    for (Candidate& candidate : candidates) {
      unit.choices.push_back(std::move(candidate.choice));
      taken.push_back(std::move(candidate.options));
      first_rank.push_back(candidate.first_rank);
    }
    if (unit.choices.empty()) {
      const bool is_alone = tables.size() == 1;
      return fail(ErrorCode::kConflict, "table " + table.fqn,
                  is_alone ? "no option can be placed on these ranks"
                           : "the tables that must be together have no options on one rank, one "
                             "host or all ranks",
                  is_alone ? "allow more sharding types, or use whole hosts"
                           : "allow the tables sharding types in common, or drop the rule");
    }
    bridge_.problem.units.push_back(std::move(unit));
    bridge_.options.push_back(std::move(taken));
    bridge_.first_rank.push_back(std::move(first_rank));
    return {};
  }

  Result<std::size_t> find_table(const std::string& fqn) const {
    const auto found = std::find_if(options_.tables.begin(), options_.tables.end(),
                                    [&fqn](const TableOptions& table) { return table.fqn == fqn; });
    if (found != options_.tables.end()) {
      return static_cast<std::size_t>(found - options_.tables.begin());
    }
    std::vector<std::string> known;
    for (const TableOptions& table : options_.tables) known.push_back(table.fqn);
    return fail(ErrorCode::kNotFound, "table " + fqn, "no such table",
                "name a table's fqn; " + suggest(fqn, known));
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
      if (!ranks.empty() && ranks.back() >= options_.world_size) {
        return fail(ErrorCode::kValue, "table " + fqn,
                    fmt::format("a rule names rank {}, and there are {} ranks", ranks.back(),
                                options_.world_size),
                    fmt::format("name ranks from 0 to {}", options_.world_size - 1));
      }
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
                      "kept apart from a table that it must be together with",
                      "drop one of the rules");
        }
      }
      bridge_.problem.apart.emplace_back(units.begin(), units.end());
    }
    return {};
  }

  const OptionSet& options_;
  const BridgeInput& input_;
  const BridgeOptions& settings_;
  PieceLoads loads_;
  PlacementBridge bridge_;
  std::vector<bool> is_left_out_;                   // [options]
  std::vector<std::vector<int>> causes_of_option_;  // [options] that exclude others
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

Result<PlacementBridge> make_bounded_bridge(const BridgeInput& input, BridgeOptions options) {
  options.is_for_bound = false;
  Result<PlacementBridge> bridge = make_placement_bridge(input, options);
  const bool has_no_plan = !bridge && bridge.error().code == ErrorCode::kConflict;
  if (!has_no_plan && (!bridge || !bridge->is_tighter)) return bridge;
  options.is_for_bound = true;
  return make_placement_bridge(input, options);
}

}  // namespace plimsoll::embedding
