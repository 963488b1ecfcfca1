// Our own search beside the reference planner, in the same run: value, bound, gap, effort, time.
//
// balanced_bench [--effort N] [--limit SECONDS] [--seed N] [--space s1|s2] [--no-reference]
//                [--objective rating|step|time|default] [--bounds] [NAME...]
//
// A line an instance; without names, all of them; `default` is what `plimsoll shard` does. Fails
// where a plan is worse than the reference's. With `--bounds` a second line: the bounds alone, in
// the order and with the effort of the search, but from the plan that it found. With
// BALANCED_BENCH_TRACE in the environment every report of the search goes to stderr.

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "balance/balanced_placement.h"
#include "embedding/workloads.h"
#include "plimsoll/embedding/balanced_search.h"
#include "plimsoll/io/shipped.h"

namespace plimsoll::bench {
namespace {

struct Instance {
  const char* name;
  const char* model;  // shipped, or "random:N"
  int num_ranks;
  int hbm_gib;
  std::int64_t batch_size;
  embedding::Optimizer optimizer;
};

constexpr auto kAdagrad = embedding::Optimizer::kOther;
constexpr auto kNone = embedding::Optimizer::kNone;
constexpr auto kRowWise = embedding::Optimizer::kRowWiseAdagrad;

constexpr Instance kInstances[] = {
    {"m1", "mlperf-dlrm-dcnv2", 8, 80, 8192, kAdagrad},
    {"m2", "mlperf-dlrm-dcnv2", 16, 40, 4096, kAdagrad},
    {"m3", "mlperf-dlrm-dcnv2", 8, 40, 8192, kAdagrad},
    {"m2_stateless", "mlperf-dlrm-dcnv2", 16, 40, 4096, kNone},
    {"t7", "hugectr-t7", 64, 80, 1024, kNone},
    {"t180_16", "hugectr-t180", 16, 80, 4096, kNone},
    {"t180_64", "hugectr-t180", 64, 80, 1024, kNone},
    {"t200_16", "hugectr-t200", 16, 80, 4096, kNone},
    {"t200_64", "hugectr-t200", 64, 80, 1024, kNone},
    {"t510_8", "hugectr-t510", 8, 80, 8192, kNone},
    {"t510_16", "hugectr-t510", 16, 80, 4096, kNone},
    {"t510_64", "hugectr-t510", 64, 80, 1024, kNone},
    {"tiny", "nv-synthetic-tiny", 8, 80, 8192, kAdagrad},
    {"small", "nv-synthetic-small", 8, 80, 8192, kAdagrad},
    {"medium", "nv-synthetic-medium", 16, 80, 4096, kAdagrad},
    {"large_32", "nv-synthetic-large", 32, 80, 2048, kAdagrad},
    {"large_128", "nv-synthetic-large", 128, 80, 512, kAdagrad},
    {"jumbo", "nv-synthetic-jumbo", 128, 80, 512, kAdagrad},
    {"colossal", "nv-synthetic-colossal", 128, 80, 512, kAdagrad},
    {"random_1000", "random:1000", 128, 80, 512, kRowWise},
    {"random_10000", "random:10000", 4096, 80, 64, kRowWise},
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Processor seconds until the first bound, the last better one, the first plan and the last better
// one were there.
struct Milestones {
  double bound_s = 0;
  double last_bound_s = 0;
  double best_bound = 0;
  double first_s = 0;
  double last_s = 0;
  double best = 0;
};

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

struct Limits {
  SearchOptions search;
  std::optional<double> seconds;
};

// All bounds of the search, and nothing else of it, from the plan found.
void bound_alone(const Instance& instance, const embedding::PlanningProblem& problem,
                 const embedding::BalancedOptions& options, const Limits& limits,
                 const embedding::BalancedResult& found) {
  const double start = processor_seconds();
  const auto bridge = embedding::make_bounded_problem(problem, options);
  if (!bridge || !found.planning.outcome.plan) return;
  balance::BalanceOptions alone;
  alone.uses_constructions = alone.uses_dives = alone.uses_contents = false;
  alone.uses_annealing = alone.uses_exchanges = false;
  const auto placements =
      embedding::find_placements(*bridge, found.planning.enumeration.options, found.planning.best);
  if (placements) alone.starts.push_back(*placements);
  const double prepared = processor_seconds();
  const balance::BalanceOutcome outcome =
      balance::balance(bridge->problem, alone, limits.search, RunContext::within(limits.seconds));
  std::printf("%-13s bounds alone: %.6f after %.2f s, and %.2f s to make the problem\n",
              instance.name, outcome.outcome.certificate.lower_bound.value_or(0),
              processor_seconds() - prepared, prepared - start);
  std::fflush(stdout);
}

bool run(const Instance& instance, const embedding::BalancedOptions& options, const Limits& limits,
         bool bounds_alone) {
  embedding::Model model;
  if (std::strncmp(instance.model, "random:", 7) == 0) {
    model = random_model(std::atoi(instance.model + 7), 1);
  } else {
    auto shipped = io::load_shipped_model(instance.model);
    if (!shipped) {
      std::fprintf(stderr, "%s\n", format_error(shipped.error()).c_str());
      return false;
    }
    model = *std::move(shipped);
  }
  model.optimizer = instance.optimizer;
  for (embedding::Module& module : model.modules) {
    for (embedding::Table& table : module.tables) table.optimizer.reset();
  }
  const auto problem =
      make_problem(std::move(model), instance.num_ranks, instance.hbm_gib, instance.batch_size);
  const auto start = std::chrono::steady_clock::now();
  const double processor_start = processor_seconds();
  Milestones milestones;
  RunContext context = RunContext::within(limits.seconds);
  context.progress = [&](const Progress& progress) {
    if (std::getenv("BALANCED_BENCH_TRACE") != nullptr) {
      std::fprintf(stderr, "  %8.3f s processor %8.3f s effort %lld incumbent %.6f bound %.6f\n",
                   seconds_since(start), processor_seconds() - processor_start,
                   static_cast<long long>(progress.effort), progress.incumbent.value_or(0),
                   progress.lower_bound.value_or(0));
    }
    const double now = processor_seconds() - processor_start;
    const double bound = progress.lower_bound.value_or(0);
    if (milestones.bound_s == 0 && bound > 0) milestones.bound_s = now;
    if (bound > milestones.best_bound) milestones.last_bound_s = now, milestones.best_bound = bound;
    if (!progress.incumbent || *progress.incumbent == milestones.best) return;
    milestones.last_s = now;
    if (milestones.best == 0) milestones.first_s = milestones.last_s;
    milestones.best = *progress.incumbent;
  };
  const auto result = embedding::plan_balanced(problem, options, limits.search, context);
  if (!result) {
    std::fprintf(stderr, "%s\n", format_error(result.error()).c_str());
    return false;
  }
  const auto& outcome = result->planning.outcome;
  const embedding::PlanTimes reference = result->reference.value_or(embedding::PlanTimes{});
  std::printf(
      "%-13s %-10s value %.6f bound %.6f gap %.4f%% | rating %.6f step %.6f time %.6f | "
      "reference %.6f %.6f %.6f | effort %lld wall %.2f s processor %.2f s (bound %.3f last "
      "%.2f, plan %.3f last %.2f) peak %.0f MiB | %s %s\n",
      instance.name, std::string(to_string(outcome.status)).c_str(), outcome.certificate.objective,
      outcome.certificate.lower_bound.value_or(0), 100 * outcome.certificate.gap().value_or(0),
      result->times.rating, result->times.step, result->times.time, reference.rating,
      reference.step, reference.time, static_cast<long long>(result->effort), seconds_since(start),
      processor_seconds() - processor_start, milestones.bound_s, milestones.last_bound_s,
      milestones.first_s, milestones.last_s, peak_mib(),
      to_string(outcome.certificate.proof).c_str(),
      outcome.explanation.lines.empty() ? "" : outcome.explanation.lines[0].c_str());
  std::fflush(stdout);
  if (bounds_alone) bound_alone(instance, problem, options, limits, *result);
  if (!outcome.plan || !result->reference) return true;
  const auto objective = options.bridge.objective;
  if (value_of(result->times, objective) <= value_of(reference, objective) * (1 + 1e-12)) {
    return true;
  }
  std::fprintf(stderr, "%s: worse than the reference's plan\n", instance.name);
  return false;
}

}  // namespace
}  // namespace plimsoll::bench

int main(int argc, char** argv) {
  auto options = plimsoll::embedding::BalancedOptions::minimizing(
      plimsoll::embedding::BalanceObjective::kRating);
  plimsoll::bench::Limits limits;
  std::vector<std::string> names;
  bool bounds_alone = false;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool has_value = i + 1 < argc;
    if (word == "--effort" && has_value) {
      limits.search.effort = std::atoll(argv[++i]);
    } else if (word == "--seed" && has_value) {
      limits.search.seed = static_cast<std::uint64_t>(std::atoll(argv[++i]));
    } else if (word == "--limit" && has_value) {
      limits.seconds = std::atof(argv[++i]);
    } else if (word == "--space" && has_value) {
      options.max_column_blocks = std::string(argv[++i]) == "s2" ? 8 : 0;
    } else if (word == "--bounds") {
      bounds_alone = true;
    } else if (word == "--no-reference") {
      options.uses_reference = false;
    } else if (word == "--objective" && has_value) {
      const std::string objective = argv[++i];
      using plimsoll::embedding::BalanceObjective;
      options.bridge.objective = objective == "step"     ? BalanceObjective::kStep
                                 : objective == "rating" ? BalanceObjective::kRating
                                                         : BalanceObjective::kTime;
      options.keeps_reference_rating = objective == "default";
    } else {
      names.push_back(word);
    }
  }
  bool is_right = true;
  for (const auto& instance : plimsoll::bench::kInstances) {
    if (names.empty() || std::find(names.begin(), names.end(), instance.name) != names.end()) {
      is_right &= plimsoll::bench::run(instance, options, limits, bounds_alone);
    }
  }
  return is_right ? 0 : 1;
}
