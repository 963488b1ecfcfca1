// Our own search beside the reference planner, in the same run: value, bound, gap, effort, time.
//
// balanced_bench [--effort N] [--space s1|s2] [--objective rating|step|time] [NAME...]: a line an
// instance; without names, all of them.

#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

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

bool run(const Instance& instance, const embedding::BalancedOptions& options,
         const SearchOptions& search) {
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
  const auto result = embedding::plan_balanced(problem, options, search, make_run_context(search));
  if (!result) {
    std::fprintf(stderr, "%s\n", format_error(result.error()).c_str());
    return false;
  }
  const auto& outcome = result->planning.outcome;
  const embedding::PlanTimes reference = result->reference.value_or(embedding::PlanTimes{});
  std::printf(
      "%-13s %-10s value %.6f bound %.6f gap %.4f%% | rating %.6f step %.6f time %.6f | "
      "reference %.6f %.6f %.6f | effort %lld time %.2f s | %s %s\n",
      instance.name, std::string(to_string(outcome.status)).c_str(), outcome.certificate.objective,
      outcome.certificate.lower_bound.value_or(0), 100 * outcome.certificate.gap().value_or(0),
      result->times.rating, result->times.step, result->times.time, reference.rating,
      reference.step, reference.time, static_cast<long long>(result->effort), seconds_since(start),
      outcome.certificate.proof.c_str(),
      outcome.explanation.lines.empty() ? "" : outcome.explanation.lines[0].c_str());
  std::fflush(stdout);
  return true;
}

}  // namespace
}  // namespace plimsoll::bench

int main(int argc, char** argv) {
  plimsoll::embedding::BalancedOptions options;
  plimsoll::SearchOptions search;
  std::vector<std::string> names;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool has_value = i + 1 < argc;
    if (word == "--effort" && has_value) {
      search.effort = std::atoll(argv[++i]);
    } else if (word == "--seed" && has_value) {
      search.seed = static_cast<std::uint64_t>(std::atoll(argv[++i]));
    } else if (word == "--limit" && has_value) {
      search.time_limit_s = std::atof(argv[++i]);
    } else if (word == "--space" && has_value) {
      options.max_column_blocks = std::string(argv[++i]) == "s2" ? 8 : 0;
    } else if (word == "--no-reference") {
      options.uses_reference = false;
    } else if (word == "--objective" && has_value) {
      const std::string objective = argv[++i];
      using plimsoll::embedding::BalanceObjective;
      options.bridge.objective = objective == "step"   ? BalanceObjective::kStep
                                 : objective == "time" ? BalanceObjective::kTime
                                                       : BalanceObjective::kRating;
    } else {
      names.push_back(word);
    }
  }
  bool is_right = true;
  for (const auto& instance : plimsoll::bench::kInstances) {
    if (names.empty() || std::find(names.begin(), names.end(), instance.name) != names.end()) {
      is_right &= plimsoll::bench::run(instance, options, search);
    }
  }
  return is_right ? 0 : 1;
}
