// Plans for uncertain pooling factors of t200, against the plan for their means.
//
// robust_bench [--effort N] [--model NAME] [--ranks N] [--scenarios N] [--objective rating|time]
// [RATIO...] Every table's pooling factor is log-normal: the model's is the p50, and RATIO times it
// the p95.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/embedding/cost_model.h"
#include "plimsoll/io/shipped.h"
#include "plimsoll/study/robust.h"
#include "plimsoll/topology/presets.h"

namespace plimsoll::bench {
namespace {

struct Asked {
  SearchOptions search;
  study::RobustOptions options;
  std::string model = "hugectr-t200";
  int num_ranks = 16;
  std::vector<double> ratios;
};

embedding::PlanningProblem make_problem(embedding::Model model, int num_ranks) {
  embedding::PlanningProblem problem;
  problem.model = std::move(model);
  problem.cost_model = embedding::default_cost_model();
  const topology::TopologySpec spec = *topology::find_preset(std::to_string(num_ranks) + "x80GiB");
  problem.topology = *topology::make_topology(spec, problem.cost_model.zero_cap_is_default,
                                              problem.cost_model.ssd_tier);
  return problem;
}

int fail(const Error& error) {
  std::fprintf(stderr, "%s\n", format_error(error).c_str());
  return 1;
}

int run(const Asked& asked) {
  const auto model = io::load_shipped_model(asked.model);
  if (!model) return fail(model.error());
  const embedding::PlanningProblem problem = make_problem(*model, asked.num_ranks);
  for (const double ratio : asked.ratios) {
    study::PoolingForecast forecast;
    forecast.others_p95_over_p50 = ratio;
    for (const study::RiskMeasure measure :
         {study::RiskMeasure::kQuantile, study::RiskMeasure::kCvar}) {
      study::RobustOptions options = asked.options;
      options.measure = measure;
      const auto start = std::chrono::steady_clock::now();
      const auto found = study::plan_robustly(problem, forecast, options, asked.search);
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      if (!found) return fail(found.error());
      if (!found->plan) return 1;
      const study::RiskFigures& ours = *found->figures;
      const study::RiskFigures& means = *found->means_figures;
      std::printf(
          "p95/p50 %.3g %-8s ours %.4g means %.4g (%+.1f%%) fresh %.4g means %.4g (%+.1f%%) "
          "fresh mean %.4g means %.4g bound %.4g gap %.1f%% drifts %zu time %.2f s\n",
          ratio, std::string(to_string(measure)).c_str(), ours.risk_ms, means.risk_ms,
          100 * (means.risk_ms / ours.risk_ms - 1), ours.fresh_risk_ms, means.fresh_risk_ms,
          100 * (means.fresh_risk_ms / ours.fresh_risk_ms - 1), ours.fresh_mean_ms,
          means.fresh_mean_ms, found->lower_bound.value_or(0), 100 * found->gap().value_or(0),
          found->drifts.size(), seconds.count());
      std::fflush(stdout);
    }
  }
  return 0;
}

}  // namespace
}  // namespace plimsoll::bench

int main(int argc, char** argv) {
  plimsoll::bench::Asked asked;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool has_value = i + 1 < argc;
    if (word == "--effort" && has_value) {
      asked.search.effort = std::atoll(argv[++i]);
    } else if (word == "--model" && has_value) {
      asked.model = argv[++i];
    } else if (word == "--ranks" && has_value) {
      asked.num_ranks = std::atoi(argv[++i]);
    } else if (word == "--scenarios" && has_value) {
      asked.options.num_scenarios = std::atoi(argv[++i]);
    } else if (word == "--objective" && has_value) {
      asked.options.objective = std::string(argv[++i]) == "time"
                                    ? plimsoll::embedding::BalanceObjective::kTime
                                    : plimsoll::embedding::BalanceObjective::kRating;
    } else {
      asked.ratios.push_back(std::atof(word.c_str()));
    }
  }
  if (asked.ratios.empty()) asked.ratios = {1.5, 2, 4};
  return plimsoll::bench::run(asked);
}
