// A plan that stays fast when tables are looked up more often than expected.
//
// Problem. Pooling factors are not known, only how they are distributed. Of all plans the one whose
// slowest rank is fast in bad scenarios: with V(s) the objective of a plan in scenario s of n, at
// level a, least is
//   quantile  the smallest v such that V(s) <= v in at least a n scenarios: the k-th smallest
//             V(s), k = ceil(a n);
//   cvar      the mean of the ceil((1 - a) n) largest V(s).
// Scenarios are seeded draws: of two quantiles from the log-normal distribution that has them, one
// normal deviate a table; of samples one of them. Tables are independent, unless samples are joint.
// A plan must fit where every table has the largest pooling factors of all scenarios.
// Method. Our search plans for the mean pooling factors, for high ones, and for the mean of the
// scenarios that are worst for the best plan so far; from the best of these, moves that are judged
// by means and variances of ranks, and by the measure itself (src/study/robust/risk_search.h). The
// best is the answer. A few hundred scenarios are easily fitted too well: of more than 200
// scenarios moves see 200 others, so that the choice of the best is not of what was fitted to it.
// Bound. A maximum over ranks is convex in the loads, so that for every plan and set T of scenarios
//   mean of V(s) over T >= objective at the mean loads of T >= a lower bound of that problem.
// The cvar is the mean over the T that is worst for the plan, so it is at least that of any other
// T of that size. More than n - k scenarios in which every plan takes at least B put the k-th
// smallest at B at least. Promises. Never worse in these scenarios than the plan for the means.
// Deterministic. Not promised: anything of other scenarios than the drawn ones; the answer states
// what the plan takes in fresh ones.
// Source: docs/robust.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/balance/placement_bound.h"
#include "plimsoll/core/outcome.h"
#include "plimsoll/core/result.h"
#include "plimsoll/core/run_context.h"
#include "plimsoll/embedding/placement_bridge.h"
#include "plimsoll/embedding/planner.h"
#include "plimsoll/embedding/sharding_plan.h"

#pragma GCC visibility push(default)
namespace plimsoll::study {

// Of one table: two quantiles of each feature, or samples.
struct PoolingDistribution {
  std::vector<double> p50, p95;              // [features] 0 < p50 <= p95, or both empty
  std::vector<std::vector<double>> samples;  // [samples][features] >= 0, or empty
  bool operator==(const PoolingDistribution&) const = default;
};

struct PoolingForecast {
  std::map<std::string, PoolingDistribution, std::less<>> tables;  // by name
  // Of tables without a distribution the model's factors are the p50, and so many times these the
  // p95 (>= 1); absent: they do not vary.
  std::optional<double> others_p95_over_p50;
  bool joint_samples = false;  // the i-th samples of all tables belong together
  bool operator==(const PoolingForecast&) const = default;
};

enum class RiskMeasure { kQuantile, kCvar };
std::string_view to_string(RiskMeasure measure);  // "quantile", "cvar"

// The measure of values of one scenario each. Precondition: values, and level in (0, 1).
double measure_risk(RiskMeasure measure, double level, std::vector<double> values);

struct RobustOptions {
  embedding::BalanceObjective objective = embedding::BalanceObjective::kRating;
  embedding::StepModel step_model = {};  // of kTime
  RiskMeasure measure = RiskMeasure::kQuantile;
  double level = .95;              // in (0, 1)
  int num_scenarios = 1000;        // in 1 .. 10000
  int num_fresh_scenarios = 1000;  // in 1 .. 100000; what plans are tried in once they are made
  int max_drifts = 5;              // >= 0; tables of `drifts`
  bool operator==(const RobustOptions&) const = default;
};

// What one plan takes.
struct RiskFigures {
  double risk_ms = 0;        // the measure over the scenarios of the search
  double mean_ms = 0;        // the mean over these
  double fresh_risk_ms = 0;  // the measure over fresh scenarios
  double fresh_mean_ms = 0;
  bool operator==(const RiskFigures&) const = default;
};

// If a table takes its p95, or its largest sample, in every scenario, a short search finds a plan
// that is better by kept_ms - replanned_ms than the one kept, beside what it gains without a drift.
struct PlanDrift {
  std::string table;  // fqn
  double kept_ms = 0, replanned_ms = 0;
  bool operator==(const PlanDrift&) const = default;
};

// At the mean loads of these scenarios no plan is below the bound's value.
struct ScenarioBound {
  std::vector<int> scenarios;  // ascending
  balance::PlacementBound bound;
  bool operator==(const ScenarioBound&) const = default;
};

struct RobustPlan {
  SolveStatus status = SolveStatus::kLimit;
  StopReason stop = StopReason::kFinished;
  RobustOptions options;
  PoolingForecast forecast;
  std::optional<embedding::ShardingPlan> plan;
  std::optional<RiskFigures> figures;                 // of the plan
  std::optional<embedding::ShardingPlan> means_plan;  // for the mean pooling factors
  std::optional<RiskFigures> means_figures;           // of that
  std::vector<double> scenario_ms;                    // [num_scenarios] of the plan
  std::optional<double> lower_bound;                  // of risk_ms of every plan
  std::vector<ScenarioBound> bounds;  // quantile: one of each scenario; cvar: of one set
  std::vector<PlanDrift> drifts;      // what gains most first
  bool keeps_hazards = false;  // no plan of the fewest hazards was found: plan and bound are of all
  std::vector<Warning> warnings;
  Provenance provenance;
  Explanation explanation;  // where nothing fits

  std::optional<double> gap() const;  // risk_ms / lower_bound - 1
};

// Errors: those of planning; kValue at "pooling/<table>", "level", "scenarios"; kNotFound at
// "pooling/<table>" for a table that the model lacks; kUsage at "machine": times of machine models
// are not estimated by scenario.
Result<RobustPlan> plan_robustly(const embedding::PlanningProblem& problem,
                                 const PoolingForecast& forecast, const RobustOptions& options = {},
                                 const SearchOptions& search = {}, const RunContext& context = {});

// What a robust plan states, computed again: its figures in all scenarios, whether it fits where
// all factors are largest, and what the bounds prove. Not judged: `drifts`, which a search found.
struct RobustVerdict {
  std::vector<std::string> faults;        // of figures and of the plan, one sentence each
  std::vector<std::string> bound_faults;  // of bound and status
  std::optional<double> proved_ms;        // the bound that the witnesses prove
};
Result<RobustVerdict> judge_robust_plan(const embedding::PlanningProblem& problem,
                                        const RobustPlan& stated);

}  // namespace plimsoll::study
#pragma GCC visibility pop
