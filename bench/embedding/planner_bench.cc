// The reference search: time with rating, proposals and plans beside it.
//
// The names say model, ranks x GiB and proposers; counters: rating_ms, proposals, plans.

#include <benchmark/benchmark.h>

#include "embedding/workloads.h"

namespace plimsoll::bench {
namespace {

using embedding::PlanningProblem;

void plan(benchmark::State& state, const PlanningProblem& problem, const std::string& proposers) {
  embedding::ReferenceOptions options;
  options.proposers = proposers;
  for (auto _ : state) {
    const auto result = embedding::plan_like_torchrec(problem, options, {}, {});
    if (!result) {
      state.SkipWithError(format_error(result.error()).c_str());
      return;
    }
    state.counters["rating_ms"] = result->rating;
    state.counters["proposals"] = static_cast<double>(result->num_proposals);
    state.counters["plans"] = static_cast<double>(result->num_plans);
  }
}

void enumerate(benchmark::State& state, const PlanningProblem& problem) {
  const embedding::Estimator estimator(problem.cost_model, problem.topology, problem.mode);
  for (auto _ : state) {
    embedding::EnumerationOptions options;
    options.batch_size = problem.batch_size;
    const auto result = embedding::enumerate(estimator, problem.model, options);
    if (!result) {
      state.SkipWithError(format_error(result.error()).c_str());
      return;
    }
    state.counters["options"] = static_cast<double>(result->options.options.size());
    state.counters["runs"] = static_cast<double>(result->options.runs.size());
  }
}

const auto kDcnv2On8 = make_problem(dcnv2(), 8, 80, 8192);
const auto kDcnv2On16 = make_problem(dcnv2(), 16, 40, 4096);
const auto kT510On8 = make_problem(t510(), 8, 80, 8192);
const auto kThousand = make_problem(random_model(1000, 1), 128, 80, 512);
const auto kTenThousand = make_problem(random_model(10000, 1), 4096, 80, 64);

BENCHMARK_CAPTURE(plan, dcnv2_8x80_default, kDcnv2On8, "default")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(plan, dcnv2_16x40_default, kDcnv2On16, "default")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(plan, dcnv2_8x80_dynamic_programming, kDcnv2On8, "dynamic_programming")
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(plan, t510_8x80_default, kT510On8, "default")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(plan, random1000_128x80_default, kThousand, "default")
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(plan, random1000_128x80_dynamic_programming, kThousand, "dynamic_programming")
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(enumerate, random10000_4096x80, kTenThousand)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace plimsoll::bench

BENCHMARK_MAIN();
