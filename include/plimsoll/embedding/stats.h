// The reference planner's statistics report, line for line. Source:
// docs/mathematics/torchrec-planner.md#statistics-report.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/embedding/planner.h"

#pragma GCC visibility push(default)
namespace plimsoll::embedding {

struct StatsOptions {
  bool debug = true;
  double seconds = 0;          // planning time to print, "ran for {t:.2f}s"
  std::int64_t min_width = 0;  // a report object that is used again never gets narrower
};

struct StatsReport {
  std::vector<std::string> lines;
  std::int64_t width = 0;
};
// No lines where the reference reports nothing: nothing to shard, reserving failed, or a stored
// plan did not match.
StatsReport make_stats_report(const PlanningProblem& problem, const PlanningResult& result,
                              const StatsOptions& options = {});

// The report as an object for ReferenceOptions::stats: every line goes to `print`, and no report is
// narrower than the one before.
std::unique_ptr<Stats> make_embedding_stats(std::function<void(std::string_view line)> print,
                                            bool debug = true);

// Imbalance metrics of a non-negative vector with positive sum, normalised to 0..1
// (docs/mathematics/torchrec-planner.md#statistics-report).
struct Imbalance {
  double total_variation = 0;
  double total_distance = 0;
  double chi_divergence = 0;
  double kl_divergence = 0;
};
Imbalance imbalance(const std::vector<double>& loads);

// The exact sum of the values over their number, rounded once. Precondition: not empty.
double exact_mean(const std::vector<double>& values);

}  // namespace plimsoll::embedding
#pragma GCC visibility pop
