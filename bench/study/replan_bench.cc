// Replanning: quality beside a fresh plan, the bound, the share of bytes moved, time.
//
// replan_bench [--effort N] [--max-moved SHARE] [--model NAME] [CHANGE...]
//
// A model (default: hugectr-t200) planned for 16 ranks of 80 GiB, then a line for every change:
// drift-SEED, which multiplies every pooling factor by a number from 0.9 to 1.1, drawn table by
// table; 17 or 15, so many ranks. Without changes those of docs/benchmarks.md.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "embedding/tight_workloads.h"
#include "plimsoll/core/units.h"
#include "plimsoll/embedding/cost_model.h"
#include "plimsoll/io/shipped.h"
#include "plimsoll/study/replan.h"
#include "plimsoll/topology/presets.h"

namespace plimsoll::bench {
namespace {

struct Asked {
  SearchOptions search;
  study::ReplanOptions replan;
  std::string model = "hugectr-t200";
  std::vector<std::string> changes;
};

embedding::Model drift(embedding::Model model, std::uint32_t seed) {
  PythonRandom random(seed);
  for (const embedding::Module& module : model.modules) {
    for (const embedding::Table& table : module.tables) {
      for (double& factor : model.constraints[table.name].pooling_factors) {
        factor *= .9 + .2 * random.unit();
      }
    }
  }
  return model;
}

embedding::PlanningProblem make_problem(embedding::Model model, int num_ranks) {
  embedding::PlanningProblem problem;
  problem.model = std::move(model);
  problem.cost_model = embedding::default_cost_model();
  topology::TopologySpec spec = *topology::find_preset(std::to_string(num_ranks) + "x80GiB");
  problem.topology = *topology::make_topology(spec, problem.cost_model.zero_cap_is_default,
                                              problem.cost_model.ssd_tier);
  return problem;
}

int fail(const Error& error) {
  std::fprintf(stderr, "%s\n", format_error(error).c_str());
  return 1;
}

double share(Bytes part, Bytes all) {
  return static_cast<double>(part) / static_cast<double>(std::max<Bytes>(all, 1));
}

int run(const Asked& asked) {
  const auto model = io::load_shipped_model(asked.model);
  if (!model) return fail(model.error());
  embedding::BalancedOptions options;  // those of `plimsoll shard`
  options.bridge.objective = asked.replan.balanced.bridge.objective;
  const auto old = embedding::plan_balanced(make_problem(*model, 16), options, asked.search, {});
  if (!old) return fail(old.error());
  if (!old->planning.outcome.plan) return 1;
  for (const std::string& change : asked.changes) {
    constexpr std::string_view kDrift = "drift-";
    const bool drifts = change.starts_with(kDrift);
    const int number = std::atoi(change.c_str() + (drifts ? kDrift.size() : 0));
    const embedding::PlanningProblem problem =
        drifts ? make_problem(drift(*model, static_cast<std::uint32_t>(number)), 16)
               : make_problem(*model, number);
    const auto start = std::chrono::steady_clock::now();
    const auto found =
        study::replan_tables(problem, *old->planning.outcome.plan, asked.replan, asked.search);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    if (!found) return fail(found.error());
    if (!found->ms) {
      std::printf("%-9s %-10s no plan, time %.2f s\n", change.c_str(),
                  std::string(to_string(found->status)).c_str(), seconds.count());
      continue;
    }
    std::printf(
        "%-9s %-10s new %.4g ms fresh %.4g ms (%+.2f%%) old %.4g ms bound %.4g ms moved "
        "%.2f%% fresh moves %.2f%% schedule %s time %.2f s\n",
        change.c_str(), std::string(to_string(found->status)).c_str(), found->ms.value_or(0),
        found->fresh_ms.value_or(0),
        100 * (found->ms.value_or(0) / found->fresh_ms.value_or(1) - 1),
        found->before_ms.value_or(0), found->lower_bound.value_or(0),
        100 * share(found->moved_bytes, found->total_bytes),
        100 * share(found->fresh_moved_bytes, found->total_bytes),
        std::string(to_string(found->schedule.status)).c_str(), seconds.count());
    std::fflush(stdout);
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
    } else if (word == "--max-moved" && has_value) {
      asked.replan.max_moved_share = std::atof(argv[++i]);
    } else if (word == "--model" && has_value) {
      asked.model = argv[++i];
    } else {
      asked.changes.push_back(word);
    }
  }
  asked.replan.balanced.uses_reference = false;
  asked.replan.balanced.bridge.objective = plimsoll::embedding::BalanceObjective::kTime;
  if (asked.changes.empty()) asked.changes = {"drift-1", "drift-2", "drift-3", "17", "15"};
  return plimsoll::bench::run(asked);
}
