#include "study/robust/scenario_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "balance/bounds/bound_placement.h"
#include "balance/verify/verify_bound.h"

namespace plimsoll::study {
namespace {

struct BoundInput {
  const ScenarioCosts& costs;
  const std::vector<Factors>& scenarios;
  const embedding::BridgeOptions& rules;
};

// The problem of all plans at the mean loads of the scenarios; nothing where it lacks plans.
Result<std::optional<balance::PlacementProblem>> problem_of(const BoundInput& input,
                                                            const std::vector<int>& scenarios) {
  std::vector<Factors> factors;
  for (const int s : scenarios) factors.push_back(input.scenarios[static_cast<std::size_t>(s)]);
  PLIMSOLL_ASSIGN(const embedding::OptionSet set, input.costs.averaged(factors));
  auto bridge = embedding::make_bounded_bridge(input.costs.input(set), input.rules);
  if (!bridge || bridge->is_tighter) return std::nullopt;
  return std::move(bridge->problem);
}

// Scenarios by what is known of them, the worst first; `count` of these, ascending.
std::vector<int> worst(const std::vector<double>& values, int count) {
  std::vector<int> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return values[a] > values[b]; });
  order.resize(static_cast<std::size_t>(count));
  std::sort(order.begin(), order.end());
  return order;
}

balance::BoundOptions bounds_below(double incumbent) {
  balance::BoundOptions options = balance::cheap_bounds();
  options.use_windows = true;
  options.incumbent = incumbent;
  return options;
}

Result<std::optional<ScenarioBound>> bound_of(const BoundInput& input,
                                              const std::vector<int>& scenarios, double incumbent,
                                              const RunContext& context) {
  PLIMSOLL_ASSIGN(const auto problem, problem_of(input, scenarios));
  if (!problem) return std::nullopt;
  return ScenarioBound{scenarios, bound_placement(*problem, bounds_below(incumbent), context)};
}

double mean_over(const std::vector<double>& values, const std::vector<int>& scenarios) {
  double sum = 0;
  for (const int s : scenarios) sum += values[static_cast<std::size_t>(s)];
  return sum / static_cast<double>(scenarios.size());
}

}  // namespace

int num_proving(RiskMeasure measure, double level, int num_scenarios) {
  const double n = num_scenarios;
  constexpr double kSlack = 1e-9;  // of products of the level
  if (measure == RiskMeasure::kCvar) {
    return std::max(1, static_cast<int>(std::ceil((1 - level) * n - kSlack)));
  }
  const int kth = std::clamp(static_cast<int>(std::ceil(level * n - kSlack)), 1, num_scenarios);
  return num_scenarios - kth + 1;
}

Result<std::vector<ScenarioBound>> bound_risk(const ScenarioCosts& costs,
                                              const std::vector<Factors>& scenarios,
                                              const embedding::BridgeOptions& rules,
                                              const RobustOptions& options,
                                              const ScenarioCosts::Values& values,
                                              const RunContext& context) {
  const BoundInput input{costs, scenarios, rules};
  const int count = num_proving(options.measure, options.level, options.num_scenarios);
  // Where the plan's shards take longest together, so do those of all plans, about.
  const std::vector<int> heavy = worst(values.work, count);
  std::vector<ScenarioBound> bounds;
  if (options.measure == RiskMeasure::kQuantile) {
    for (const int s : heavy) {
      PLIMSOLL_ASSIGN(auto bound,
                      bound_of(input, {s}, values.objective[static_cast<std::size_t>(s)], context));
      if (!bound) return std::vector<ScenarioBound>{};
      bounds.push_back(*std::move(bound));
    }
    return bounds;
  }
  for (const std::vector<int>& tail : {worst(values.objective, count), heavy}) {
    PLIMSOLL_ASSIGN(auto bound, bound_of(input, tail, mean_over(values.objective, tail), context));
    if (!bound) return std::vector<ScenarioBound>{};
    const bool is_better = bounds.empty() || bound->bound.value > bounds.front().bound.value;
    if (is_better) bounds = {*std::move(bound)};
  }
  return bounds;
}

Result<std::optional<double>> proved_risk(const ScenarioCosts& costs,
                                          const std::vector<Factors>& scenarios,
                                          const embedding::BridgeOptions& rules,
                                          const RobustOptions& options,
                                          const std::vector<ScenarioBound>& bounds) {
  const BoundInput input{costs, scenarios, rules};
  const int count = num_proving(options.measure, options.level, options.num_scenarios);
  const bool is_tail = options.measure == RiskMeasure::kCvar;
  if (static_cast<int>(bounds.size()) != (is_tail ? 1 : count)) return std::nullopt;
  std::set<std::vector<int>> seen;
  double least = std::numeric_limits<double>::infinity();
  for (const ScenarioBound& part : bounds) {
    const std::set<int> distinct(part.scenarios.begin(), part.scenarios.end());
    const bool is_right_size = static_cast<int>(distinct.size()) == (is_tail ? count : 1) &&
                               distinct.size() == part.scenarios.size();
    if (!is_right_size || *distinct.begin() < 0 || *distinct.rbegin() >= options.num_scenarios ||
        !seen.insert(part.scenarios).second) {
      return std::nullopt;
    }
    PLIMSOLL_ASSIGN(const auto problem, problem_of(input, part.scenarios));
    if (!problem) return std::nullopt;
    const balance::BoundVerdict verdict = balance::verify_bound(*problem, part.bound);
    if (!(verdict.value > -std::numeric_limits<double>::infinity())) return std::nullopt;
    least = std::min(least, verdict.value);
  }
  return least;
}

}  // namespace plimsoll::study
