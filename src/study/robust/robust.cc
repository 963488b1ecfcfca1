#include "plimsoll/study/robust.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "core/effort_clock.h"
#include "plimsoll/embedding/balanced_search.h"
#include "plimsoll/embedding/perf_model.h"
#include "study/robust/pooling_draws.h"
#include "study/robust/risk_search.h"
#include "study/robust/scenario_bound.h"
#include "study/robust/scenario_costs.h"
#include "study/robust/scenes.h"

namespace plimsoll::study {
namespace {

using embedding::OptionSet;
using embedding::PlacedProposal;
using embedding::PlacementBridge;

constexpr double kHighLevels[] = {.8, .9, .95, .98};  // of each table, for plans to begin with
constexpr double kShares[] = {1, .1, .01};            // of 1 - level, at which moments are judged
constexpr int kNumLevels = 3;
constexpr std::int64_t kStartEffort = 200'000;  // of each of these
constexpr int kTails = 3;                // plans for the worst scenarios, each of the best yet
constexpr double kLoadsOfSearch = 6e9;   // loads that all moves look at, about
constexpr double kLoadsOfDrift = 1e8;    // of each table's drift
constexpr std::size_t kMostDrifts = 20;  // tables
constexpr std::int64_t kMostMoves = 400'000, kMostDriftMoves = 10'000;
constexpr double kWorthTelling = 1e-3;  // relative; a smaller gain does not count

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Where both bridges have the same choice: of these options, beginning at that rank of the host.
using ChoiceKey = std::pair<std::vector<std::int32_t>, int>;
std::map<ChoiceKey, std::size_t> choices_of(const PlacementBridge& bridge, std::size_t unit) {
  std::map<ChoiceKey, std::size_t> choices;
  for (std::size_t c = 0; c < bridge.options[unit].size(); ++c) {
    choices.emplace(ChoiceKey{bridge.options[unit][c], bridge.first_rank[unit][c]}, c);
  }
  return choices;
}

// Loads [runs][classes * barriers] of one scenario, put among those of all.
void put_loads(const balance::PlacementProblem& problem, const balance::UnitChoice& choice,
               int scenario, int num_scenarios, std::vector<std::vector<double>>& loads) {
  const auto barriers = static_cast<std::size_t>(problem.num_barriers);
  const auto classes = static_cast<std::size_t>(problem.num_rank_classes);
  const std::size_t width = static_cast<std::size_t>(num_scenarios) * barriers;
  for (std::size_t run = 0; run < choice.runs.size(); ++run) {
    loads[run].resize(classes * width);
    for (std::size_t k = 0; k < classes; ++k) {
      std::copy_n(
          choice.runs[run].load.begin() + static_cast<std::ptrdiff_t>(k * barriers), barriers,
          loads[run].begin() + static_cast<std::ptrdiff_t>(
                                   k * width + static_cast<std::size_t>(scenario) * barriers));
    }
  }
}

bool has_runs_of(const balance::UnitChoice& a, const balance::UnitChoice& b) {
  return a.spread == b.spread && a.num_blocks == b.num_blocks &&
         std::equal(a.runs.begin(), a.runs.end(), b.runs.begin(), b.runs.end(),
                    [](const auto& x, const auto& y) { return x.count == y.count; });
}

class RobustPlanner {
 public:
  RobustPlanner(const PoolingForecast& forecast, const RobustOptions& options,
                const SearchOptions& search, const RunContext& context, const Scenes& scenes)
      : options_(options),
        search_(search),
        context_(context),
        scenes_(scenes),
        costs_(scenes.largest, scenes.prepared, options),
        clock_(context) {
    robust_.options = options;
    robust_.forecast = forecast;
    robust_.provenance = scenes.provenance;
    robust_.provenance.options["search"] = "robust";
  }

  Result<RobustPlan> run() {
    PLIMSOLL_ASSIGN(const bool has_plan, plan_for_means());
    if (!has_plan) return std::move(robust_);
    PLIMSOLL_RETURN_IF_ERROR(make_risk_problem());
    PLIMSOLL_RETURN_IF_ERROR(offer(means_));
    PLIMSOLL_RETURN_IF_ERROR(plan_for_high_factors());
    PLIMSOLL_RETURN_IF_ERROR(plan_for_tails());
    PLIMSOLL_RETURN_IF_ERROR(search_by_moments());
    PLIMSOLL_RETURN_IF_ERROR(search_by_moves());
    PLIMSOLL_RETURN_IF_ERROR(fill_figures());
    PLIMSOLL_RETURN_IF_ERROR(bound());
    PLIMSOLL_RETURN_IF_ERROR(find_drifts());
    finish();
    return std::move(robust_);
  }

 private:
  double measure(const std::vector<double>& values) const {
    return measure_risk(options_.measure, options_.level, values);
  }

  embedding::BridgeOptions rules() const {
    embedding::BridgeOptions rules;
    rules.objective = options_.objective;
    rules.step_model = options_.step_model;
    rules.keeps_hazards = robust_.keeps_hazards;
    return rules;
  }

  // Our own search over the options with these times.
  Result<embedding::BalancedResult> plan(const OptionSet& options, std::int64_t effort) const {
    embedding::GivenOptions given{scenes_.prepared, &costs_.estimator()};
    given.prepared.enumeration.options = options;
    auto balanced = embedding::BalancedOptions::minimizing(options_.objective);
    balanced.bridge = rules();
    balanced.uses_reference = balanced.certifies = false;
    SearchOptions search = search_;
    if (effort >= 0) search.effort = search.effort < 0 ? effort : std::min(search.effort, effort);
    return embedding::plan_balanced(scenes_.largest, given, balanced, search, context_.inner());
  }

  // False where there is none: the answer says why.
  Result<bool> plan_for_means() {
    const embedding::PlanningResult& prepared = scenes_.prepared;
    if (!prepared.reservation || prepared.enumeration.options.tables.empty()) {
      robust_.status = prepared.outcome.status;
      robust_.explanation = prepared.outcome.explanation;
      robust_.warnings = prepared.outcome.warnings;
      return false;
    }
    PLIMSOLL_ASSIGN(means_options_, costs_.at(mean_of(scenes_.scenarios)));
    PLIMSOLL_ASSIGN(const embedding::BalancedResult found, plan(means_options_, -1));
    const embedding::PlanningResult& planning = found.planning;
    robust_.stop = planning.outcome.stop;
    robust_.warnings = planning.outcome.warnings;
    robust_.keeps_hazards = found.keeps_hazards;
    if (!planning.outcome.plan) {
      robust_.status = planning.outcome.status;
      robust_.explanation = planning.outcome.explanation;
      return false;
    }
    means_ = planning.best;
    robust_.means_plan = planning.outcome.plan;
    return true;
  }

  // The search's problem with its loads in every scenario. A choice that a scenario's problem
  // leaves out, for another one that is better there, has the loads of the means.
  Result<void> make_risk_problem() {
    PLIMSOLL_ASSIGN(bridge_,
                    embedding::make_placement_bridge(costs_.input(means_options_), rules()));
    const auto count = static_cast<int>(scenes_.tried.size());
    risk_.placement = bridge_.problem;
    risk_.num_scenarios = count;
    for (const balance::Unit& unit : bridge_.problem.units) {
      auto& choices = risk_.load.emplace_back();
      for (const balance::UnitChoice& choice : unit.choices) {
        auto& runs = choices.emplace_back(choice.runs.size());
        for (int s = 0; s < count; ++s) put_loads(bridge_.problem, choice, s, count, runs);
      }
    }
    for (int s = 0; s < count; ++s) {
      PLIMSOLL_ASSIGN(const OptionSet options,
                      costs_.at(scenes_.tried[static_cast<std::size_t>(s)]));
      PLIMSOLL_RETURN_IF_ERROR(take_loads(options, s, s + 1, {}));
    }
    return {};
  }

  // Of scenarios first .. last - 1 the loads at the times of the options; of all units, or those
  // that hold a table.
  Result<void> take_loads(const OptionSet& options, int first, int last,
                          std::optional<std::int32_t> table) {
    PLIMSOLL_ASSIGN(const PlacementBridge bridge,
                    embedding::make_placement_bridge(costs_.input(options), rules()));
    for (std::size_t u = 0; u < bridge_.tables.size() && u < bridge.tables.size(); ++u) {
      const std::vector<std::int32_t>& tables = bridge_.tables[u];
      if (table && std::find(tables.begin(), tables.end(), *table) == tables.end()) continue;
      const std::map<ChoiceKey, std::size_t> known = choices_of(bridge, u);
      for (std::size_t c = 0; c < bridge_.options[u].size(); ++c) {
        const auto found = known.find({bridge_.options[u][c], bridge_.first_rank[u][c]});
        if (found == known.end()) continue;
        const balance::UnitChoice& choice = bridge.problem.units[u].choices[found->second];
        if (!has_runs_of(choice, bridge_.problem.units[u].choices[c])) continue;
        for (int s = first; s < last; ++s) {
          put_loads(bridge_.problem, choice, s, risk_.num_scenarios, risk_.load[u][c]);
        }
      }
    }
    return {};
  }

  // Keeps the plan where its measure is less.
  Result<void> offer(const PlacedProposal& plan) {
    PLIMSOLL_ASSIGN(ScenarioCosts::Values values, costs_.values(plan, scenes_.scenarios));
    const double risk = measure(values.objective);
    if (const auto placements = find_placements(bridge_, costs_.base(), plan)) {
      starts_.emplace_back(risk, *placements);
    }
    if (best_ && !(risk < best_risk_)) return {};
    best_ = plan;
    best_risk_ = risk;
    best_values_ = std::move(values);
    if (context_.progress) context_.progress({clock_.effort(), best_risk_, std::nullopt});
    return {};
  }

  Result<void> offer_plan_for(const OptionSet& options) {
    if (is_stopped(context_)) return {};
    PLIMSOLL_ASSIGN(const embedding::BalancedResult found, plan(options, kStartEffort));
    clock_.spend(found.effort);
    if (found.planning.outcome.plan) return offer(found.planning.best);
    return {};
  }

  Result<void> plan_for_high_factors() {
    for (const double level : kHighLevels) {
      PLIMSOLL_ASSIGN(const OptionSet options, costs_.at(quantile_of(scenes_.scenarios, level)));
      PLIMSOLL_RETURN_IF_ERROR(offer_plan_for(options));
    }
    return {};
  }

  std::vector<Factors> worst_scenarios() const {
    const std::vector<double>& values = best_values_.objective;
    std::vector<std::size_t> order(values.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return values[a] > values[b]; });
    order.resize(static_cast<std::size_t>(
        num_proving(options_.measure, options_.level, options_.num_scenarios)));
    std::vector<Factors> factors;
    for (const std::size_t s : order) factors.push_back(scenes_.scenarios[s]);
    return factors;
  }

  Result<void> plan_for_tails() {
    for (int i = 0; i < kTails; ++i) {
      PLIMSOLL_ASSIGN(const OptionSet options, costs_.averaged(worst_scenarios()));
      PLIMSOLL_RETURN_IF_ERROR(offer_plan_for(options));
    }
    return {};
  }

  RiskSearchOptions move_options(double loads, std::int64_t most) const {
    const balance::PlacementProblem& problem = bridge_.problem;
    const double a_move = static_cast<double>(problem.num_ranks) *
                          static_cast<double>(problem.num_barriers) * risk_.num_scenarios;
    RiskSearchOptions options;
    options.measure = options_.measure;
    options.level = options_.level;
    options.seed = search_.seed;
    options.max_moves = std::min(most, static_cast<std::int64_t>(loads / a_move));
    if (search_.effort >= 0) options.max_moves = std::min(options.max_moves, search_.effort);
    return options;
  }

  void sort_starts() {
    std::stable_sort(starts_.begin(), starts_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
  }

  Result<void> offer_moves_from(const RiskProblem& problem, const balance::UnitPlacements& start,
                                const RiskSearchOptions& options) {
    const auto found = search_risk(problem, {start}, options, clock_);
    if (found) return offer(to_proposal(bridge_, costs_.base(), found->placements));
    return {};
  }

  // From the best start, judged by means and variances of ranks alone, at several levels.
  Result<void> search_by_moments() {
    const RiskProblem moments = moments_of(risk_);
    RiskSearchOptions options = move_options(kLoadsOfSearch, kMostMoves / kNumLevels);
    options.is_of_moments = true;
    for (const double share : kShares) {
      sort_starts();
      if (starts_.empty() || clock_.is_stopped()) return {};
      options.level = 1 - (1 - options_.level) * share;
      PLIMSOLL_RETURN_IF_ERROR(offer_moves_from(moments, starts_.front().second, options));
    }
    return {};
  }

  // By scenarios, from the best start.
  Result<void> search_by_moves() {
    sort_starts();
    if (starts_.empty() || clock_.is_stopped()) return {};
    const RiskSearchOptions options = move_options(kLoadsOfSearch, kMostMoves);
    return offer_moves_from(risk_, starts_.front().second, options);
  }

  Result<RiskFigures> figures_of(const PlacedProposal& plan) const {
    PLIMSOLL_ASSIGN(const auto values, costs_.values(plan, scenes_.scenarios));
    PLIMSOLL_ASSIGN(const auto fresh, costs_.values(plan, scenes_.fresh));
    return RiskFigures{measure(values.objective), mean(values.objective), measure(fresh.objective),
                       mean(fresh.objective)};
  }

  Result<void> fill_figures() {
    PLIMSOLL_ASSIGN(robust_.figures, figures_of(*best_));
    PLIMSOLL_ASSIGN(robust_.means_figures, figures_of(means_));
    robust_.scenario_ms = best_values_.objective;
    robust_.plan = make_sharding_plan(costs_.base(), *best_, scenes_.largest.model,
                                      scenes_.largest.topology, scenes_.largest.enumeration);
    return {};
  }

  Result<void> bound() {
    if (is_stopped(context_)) return {};
    PLIMSOLL_ASSIGN(robust_.bounds, bound_risk(costs_, scenes_.scenarios, rules(), options_,
                                               best_values_, context_));
    PLIMSOLL_ASSIGN(robust_.lower_bound,
                    proved_risk(costs_, scenes_.scenarios, rules(), options_, robust_.bounds));
    if (!robust_.lower_bound) robust_.bounds.clear();
    return {};
  }

  // Of every table that varies: what keeping the plan takes if it is always high, and what a short
  // search from there finds.
  Result<void> find_drifts() {
    const auto kept = find_placements(bridge_, costs_.base(), *best_);
    if (!kept) return {};
    const RiskSearchOptions options = move_options(kLoadsOfDrift, kMostDriftMoves);
    const OptionSet& base = costs_.base();
    const Factors means = mean_of(scenes_.scenarios);
    std::vector<Drift> all;
    for (std::size_t t = 0; t < base.tables.size() && !is_stopped(context_); ++t) {
      Drift drift{t, high_factors(robust_.forecast, scenes_.tables[t]), 0};
      if (drift.factors == means[t]) continue;
      PLIMSOLL_ASSIGN(drift.kept, with_drift(drift, [&] {
                        return measure(scenario_objectives(risk_, *kept));
                      }));
      all.push_back(std::move(drift));
    }
    // Those that cost the plan most.
    std::stable_sort(all.begin(), all.end(),
                     [](const Drift& a, const Drift& b) { return a.kept > b.kept; });
    if (all.size() > kMostDrifts) all.resize(kMostDrifts);
    // What such a search gains without a drift does not count.
    const double without = measure(scenario_objectives(risk_, *kept));
    const auto plain = search_risk(risk_, {*kept}, options, clock_);
    const double share = plain && without > 0 ? plain->risk / without : 1;
    for (const Drift& drift : all) {
      if (clock_.is_stopped()) break;
      PLIMSOLL_ASSIGN(const double replanned, with_drift(drift, [&] {
                        const auto found = search_risk(risk_, {*kept}, options, clock_);
                        return found ? found->risk / share : drift.kept;
                      }));
      if (!(replanned < drift.kept * (1 - kWorthTelling))) continue;
      robust_.drifts.push_back({base.tables[drift.table].fqn, drift.kept, replanned});
    }
    std::stable_sort(robust_.drifts.begin(), robust_.drifts.end(),
                     [](const PlanDrift& a, const PlanDrift& b) {
                       return a.kept_ms - a.replanned_ms > b.kept_ms - b.replanned_ms;
                     });
    if (static_cast<int>(robust_.drifts.size()) > options_.max_drifts) {
      robust_.drifts.resize(static_cast<std::size_t>(options_.max_drifts));
    }
    return {};
  }

  struct Drift {
    std::size_t table = 0;
    std::vector<double> factors;
    double kept = 0;  // what keeping the plan takes, ms
  };

  // What `judge` says where the table has these factors in every scenario.
  template <class Judge>
  Result<double> with_drift(const Drift& drift, const Judge& judge) {
    const auto index = static_cast<std::int32_t>(drift.table);
    const auto unit =
        std::find_if(bridge_.tables.begin(), bridge_.tables.end(), [index](const auto& tables) {
          return std::find(tables.begin(), tables.end(), index) != tables.end();
        });
    const auto u = static_cast<std::size_t>(unit - bridge_.tables.begin());
    const auto before = risk_.load[u];
    PLIMSOLL_ASSIGN(const OptionSet drifted,
                    costs_.with_table(means_options_, drift.table, drift.factors));
    PLIMSOLL_RETURN_IF_ERROR(take_loads(drifted, 0, risk_.num_scenarios, index));
    const double value = judge();
    risk_.load[u] = before;
    return value;
  }

  void finish() {
    if (is_stopped(context_)) {
      robust_.stop = context_.is_cancelled() ? StopReason::kCancelled : StopReason::kDeadline;
    }
    const std::optional<double> gap = robust_.gap();
    robust_.status =
        gap && *gap <= search_.tolerance ? SolveStatus::kOptimal : SolveStatus::kFeasible;
  }

  const RobustOptions& options_;
  const SearchOptions& search_;
  const RunContext& context_;
  const Scenes& scenes_;
  ScenarioCosts costs_;
  EffortClock clock_;
  OptionSet means_options_;
  PlacementBridge bridge_;  // of these
  RiskProblem risk_;        // of what moves are judged in
  PlacedProposal means_;
  std::optional<PlacedProposal> best_;
  double best_risk_ = 0;
  ScenarioCosts::Values best_values_;
  std::vector<std::pair<double, balance::UnitPlacements>> starts_;  // with their measure
  RobustPlan robust_;
};

}  // namespace

std::string_view to_string(RiskMeasure measure) {
  switch (measure) {
    case RiskMeasure::kQuantile:
      return "quantile";
    case RiskMeasure::kCvar:
      return "cvar";
  }
  return "";
}

double measure_risk(RiskMeasure measure, double level, std::vector<double> values) {
  // The worst so many scenarios, from the kth on.
  const auto count = num_proving(measure, level, static_cast<int>(values.size()));
  const auto kth = values.end() - count;
  std::nth_element(values.begin(), kth, values.end());
  if (measure == RiskMeasure::kQuantile) return *kth;
  std::sort(kth, values.end());  // a sum whatever the order of values
  return std::accumulate(kth, values.end(), 0.0) / count;
}

std::optional<double> RobustPlan::gap() const {
  if (!figures || !lower_bound) return std::nullopt;
  return Certificate{figures->risk_ms, lower_bound, {}}.gap();
}

Result<RobustPlan> plan_robustly(const embedding::PlanningProblem& problem,
                                 const PoolingForecast& forecast, const RobustOptions& options,
                                 const SearchOptions& search, const RunContext& context) {
  PLIMSOLL_ASSIGN(const Scenes scenes, make_scenes(problem, forecast, options, search.seed));
  return RobustPlanner(forecast, options, search, context, scenes).run();
}

}  // namespace plimsoll::study
