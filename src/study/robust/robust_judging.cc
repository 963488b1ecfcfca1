// Checks robust plans: scenarios are drawn again, each is judged as a plan of its own by
// check::check_sharding, measures are sorted sums, and bounds are those of their witnesses.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "check/tolerances.h"
#include "core/search_record.h"
#include "plimsoll/check/sharding_check.h"
#include "study/robust/scenario_bound.h"
#include "study/robust/scenario_costs.h"
#include "study/robust/scenes.h"

namespace plimsoll::study {
namespace {

class Judge {
 public:
  Judge(const embedding::PlanningProblem& problem, const RobustPlan& stated, const Scenes& scenes)
      : problem_(problem), stated_(stated), scenes_(scenes) {}

  Result<RobustVerdict> judge() {
    PLIMSOLL_RETURN_IF_ERROR(judge_room(*stated_.plan, "the plan"));
    PLIMSOLL_ASSIGN(const std::vector<double> values,
                    judge_figures(*stated_.plan, stated_.figures, "the plan"));
    if (stated_.means_plan) {
      PLIMSOLL_RETURN_IF_ERROR(judge_room(*stated_.means_plan, "the plan for the means"));
      PLIMSOLL_RETURN_IF_ERROR(
          judge_figures(*stated_.means_plan, stated_.means_figures, "the plan for the means"));
    }
    const bool are_stated = std::equal(values.begin(), values.end(), stated_.scenario_ms.begin(),
                                       stated_.scenario_ms.end(), check::is_close);
    if (!are_stated) find("the times of the scenarios are not those computed here");
    PLIMSOLL_RETURN_IF_ERROR(judge_bound());
    judge_status();
    return std::move(verdict_);
  }

 private:
  void find(std::string fault) { verdict_.faults.push_back(std::move(fault)); }
  void find_in_bound(std::string fault) { verdict_.bound_faults.push_back(std::move(fault)); }

  Result<check::ShardingReport> report_of(const embedding::PlanningProblem& problem,
                                          const embedding::ShardingPlan& plan) const {
    check::CheckOptions options;
    options.batch_size = problem.batch_size;
    options.reservation = problem.reservation;
    options.fqn_constraints = problem.enumeration.fqn_constraints;
    options.global_constraints = problem.enumeration.global_constraints;
    return check::check_sharding(problem.model, plan, problem.topology, problem.cost_model,
                                 problem.mode, options);
  }

  // It must be right where all factors are largest.
  Result<void> judge_room(const embedding::ShardingPlan& plan, const char* who) {
    PLIMSOLL_ASSIGN(const check::ShardingReport report, report_of(scenes_.largest, plan));
    for (const check::Finding& violation : report.violations()) {
      find(fmt::format("{}, at the largest pooling factors: {}", who, violation.message));
    }
    return {};
  }

  double charges(const embedding::ShardingPlan& plan) const {
    std::set<std::pair<std::string, embedding::ShardingType>> types;
    for (const embedding::TableSharding& table : plan.tables) {
      types.emplace(table.module_path, table.sharding_type);
    }
    return stated_.options.step_model.ms_per_sharding_type * static_cast<double>(types.size());
  }

  // Of the objective, from the sums of every rank.
  double value_of(const check::ShardingReport& report, const embedding::ShardingPlan& plan) const {
    if (stated_.options.objective == embedding::BalanceObjective::kRating) return report.rating;
    embedding::Perf slowest;
    double kernels = 0, collectives = 0;
    for (const embedding::Perf& perf : report.perf) {
      slowest.fwd_compute = std::max(slowest.fwd_compute, perf.fwd_compute);
      slowest.fwd_comms = std::max(slowest.fwd_comms, perf.fwd_comms);
      slowest.bwd_compute = std::max(slowest.bwd_compute, perf.bwd_compute);
      slowest.bwd_comms = std::max(slowest.bwd_comms, perf.bwd_comms);
      slowest.prefetch_compute = std::max(slowest.prefetch_compute, perf.prefetch_compute);
      kernels = std::max(kernels, perf.fwd_compute + perf.bwd_compute + perf.prefetch_compute);
      collectives = std::max(collectives, perf.fwd_comms + perf.bwd_comms);
    }
    if (stated_.options.objective == embedding::BalanceObjective::kStep) return slowest.total();
    const embedding::StepModel& model = stated_.options.step_model;
    return model.kernel_weight * kernels + model.collective_weight * collectives + charges(plan) +
           model.floor_ms;
  }

  Result<std::vector<double>> values_in(const std::vector<Factors>& scenarios,
                                        const embedding::ShardingPlan& plan) const {
    std::vector<double> values;
    for (const Factors& factors : scenarios) {
      PLIMSOLL_ASSIGN(
          const check::ShardingReport report,
          report_of(with_factors(problem_, scenes_.prepared.enumeration.options, factors), plan));
      values.push_back(value_of(report, plan));
    }
    return values;
  }

  // Sorted, counted from the worst.
  double measure(std::vector<double> values) const {
    std::sort(values.begin(), values.end(), std::greater<>());
    const RobustOptions& options = stated_.options;
    const int count = num_proving(options.measure, options.level, static_cast<int>(values.size()));
    if (options.measure == RiskMeasure::kQuantile)
      return values[static_cast<std::size_t>(count - 1)];
    return std::accumulate(values.begin(), values.begin() + count, 0.0) / count;
  }

  Result<std::vector<double>> judge_figures(const embedding::ShardingPlan& plan,
                                            const std::optional<RiskFigures>& figures,
                                            const char* who) {
    PLIMSOLL_ASSIGN(std::vector<double> values, values_in(scenes_.scenarios, plan));
    PLIMSOLL_ASSIGN(const std::vector<double> fresh, values_in(scenes_.fresh, plan));
    const auto mean = [](const std::vector<double>& list) {
      return std::accumulate(list.begin(), list.end(), 0.0) / static_cast<double>(list.size());
    };
    const RiskFigures found{measure(values), mean(values), measure(fresh), mean(fresh)};
    const RiskFigures said = figures.value_or(RiskFigures{});
    const std::tuple<const char*, double, double> pairs[] = {
        {"risk_ms", said.risk_ms, found.risk_ms},
        {"mean_ms", said.mean_ms, found.mean_ms},
        {"fresh_risk_ms", said.fresh_risk_ms, found.fresh_risk_ms},
        {"fresh_mean_ms", said.fresh_mean_ms, found.fresh_mean_ms}};
    for (const auto& [name, a, b] : pairs) {
      if (check::is_close(a, b)) continue;
      find(fmt::format("{}: {} is stated as {:.9g} ms, and is {:.9g} ms", who, name, a, b));
    }
    return values;
  }

  Result<void> judge_bound() {
    if (!stated_.lower_bound) return {};
    const ScenarioCosts costs(scenes_.largest, scenes_.prepared, stated_.options);
    embedding::BridgeOptions rules;
    rules.objective = stated_.options.objective;
    rules.step_model = stated_.options.step_model;
    rules.keeps_hazards = stated_.keeps_hazards;
    PLIMSOLL_ASSIGN(verdict_.proved_ms,
                    proved_risk(costs, scenes_.scenarios, rules, stated_.options, stated_.bounds));
    const double bound = *stated_.lower_bound;
    if (!verdict_.proved_ms) {
      find_in_bound("the witnesses of the bound prove nothing");
    } else if (bound > *verdict_.proved_ms * (1 + check::kBoundTolerance)) {
      find_in_bound(fmt::format("a bound of {:.9g} ms is stated, and {:.9g} ms is proved", bound,
                                *verdict_.proved_ms));
    }
    if (stated_.figures && bound > stated_.figures->risk_ms * (1 + check::kTolerance)) {
      find_in_bound("the plan is below the bound");
    }
    return {};
  }

  void judge_status() {
    const double tolerance = read_search_record(stated_.provenance.options)
                                 .tolerance.value_or(SearchOptions{}.tolerance);
    const std::optional<double> gap = stated_.gap();
    const bool is_optimal = gap && *gap <= tolerance + check::kBoundTolerance;
    if (stated_.status == SolveStatus::kOptimal ? !is_optimal
                                                : stated_.status != SolveStatus::kFeasible) {
      find_in_bound(fmt::format("the status is {}, which its bound does not show",
                                to_string(stated_.status)));
    }
  }

  const embedding::PlanningProblem& problem_;
  const RobustPlan& stated_;
  const Scenes& scenes_;
  RobustVerdict verdict_;
};

}  // namespace

Result<RobustVerdict> judge_robust_plan(const embedding::PlanningProblem& problem,
                                        const RobustPlan& stated) {
  if (!stated.plan) return RobustVerdict{};
  PLIMSOLL_ASSIGN(const Scenes scenes,
                  make_scenes(problem, stated.forecast, stated.options, stated.provenance.seed));
  return Judge(problem, stated, scenes).judge();
}

}  // namespace plimsoll::study
