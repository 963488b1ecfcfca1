// Pooling factors of every table in every scenario: seeded draws from their distributions.
//
// Two quantiles: p50 exp(z s) with s = ln(p95 / p50) / 1.6449 for a normal deviate z of the table,
// the same for its features. Samples: one of them, each as likely. Deviates come from uniform ones
// by the inverse of the normal distribution [1].
// [1] M. J. Wichura, "Algorithm AS 241: The percentage points of the normal distribution",
//     Applied Statistics 37(3), 1988, routine PPND16.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plimsoll/core/result.h"
#include "plimsoll/embedding/planner.h"
#include "plimsoll/study/robust.h"

namespace plimsoll::study {

// z with P(Z <= z) = p of a normal Z. Precondition: 0 < p < 1.
double normal_quantile(double p);

using Factors = std::vector<std::vector<double>>;  // [tables][features]

// Whose factors are drawn: tables of the options, in their order, with the model's own factors.
struct DrawnTable {
  std::string name;
  std::vector<double> factors;
};

// Errors as plan_robustly's.
Result<void> validate_forecast(const PoolingForecast& forecast,
                               const std::vector<DrawnTable>& tables);

// [scenarios]. `stream` tells the scenarios of the search (0) from fresh ones (1). Precondition: a
// valid forecast.
std::vector<Factors> draw_factors(const PoolingForecast& forecast,
                                  const std::vector<DrawnTable>& tables, int num_scenarios,
                                  std::uint64_t seed, std::uint64_t stream);

Factors mean_of(const std::vector<Factors>& scenarios);
Factors largest_of(const std::vector<Factors>& scenarios);
// The p95, or the largest sample, of one table.
std::vector<double> high_factors(const PoolingForecast& forecast, const DrawnTable& table);
// Of every table and feature the level's quantile over the scenarios.
Factors quantile_of(const std::vector<Factors>& scenarios, double level);

// The problem at other factors of its tables, given by their fqn.
embedding::PlanningProblem with_factors(const embedding::PlanningProblem& problem,
                                        const embedding::OptionSet& options,
                                        const Factors& factors);

}  // namespace plimsoll::study
