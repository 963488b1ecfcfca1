// Our own checkpointing search: time with the size of the answer beside it.
//
// frontier: the whole frontier; counters: segments of it, largest function on the way, nodes.
// bound: the convex curve below it. plan: one exact budget with its plan, at a share of the useful
// range; counters: gap of the convex bound at that budget, exact sweeps, units chosen.
// operator_choices: the undominated choices of a transformer block.
//
// The golden instance comes from the file named by PLIMSOLL_GOLDEN, by default the tests' copy.

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <fstream>
#include <list>
#include <nlohmann/json.hpp>

#include "checkpoint/random_trees.h"
#include "plimsoll/checkpoint/frontier_search.h"

namespace plimsoll::bench {
namespace {

using checkpoint::FrontierOptions;
using checkpoint::SearchWork;

const nlohmann::json& golden() {
  static const nlohmann::json kDocument = [] {
    const char* path = std::getenv("PLIMSOLL_GOLDEN");
    std::ifstream file(path != nullptr ? path : "tests/data/golden/checkpointing.json");
    return nlohmann::json::parse(file, nullptr, false);
  }();
  return kDocument;
}

// The 62 modules of PyTorch's own test, four transformer layers on four ranks.
CheckpointProblem small_gpt() {
  if (golden().is_discarded()) return {};
  const auto& instance = golden().at("sac_instances").at(2);
  checkpoint::ModuleStats stats;
  for (const auto& node : instance.at("nodes")) {
    checkpoint::ModuleInfo module;
    module.fqn = node.at("fqn");
    module.is_leaf = node.at("is_leaf");
    module.param_per_module = node.at("param_per_module");
    module.grad_total = node.at("grad_total");
    module.act_fw_per_module = node.at("act_fw_per_module");
    module.act_grad_per_module = node.at("act_grad_per_module");
    module.act_total = node.at("act_total");
    module.sac_runtime = node.at("sac_runtime");
    module.sac_memory = node.at("sac_memory");
    module.n_segments = node.at("n_segments");
    module.slopes = node.at("slopes").get<std::vector<double>>();
    module.intercepts = node.at("intercepts").get<std::vector<double>>();
    stats.mod_order.fw_pre_order.push_back(module.fqn);
    stats.mod_stats.push_back(std::move(module));
  }
  stats.mod_order.fw_post_order = instance.at("fw_post_order").get<std::vector<std::string>>();
  checkpoint::MemoryModel model;
  model.world_size = instance.at("world_size");
  const auto tree = checkpoint::make_module_tree(stats);
  return *checkpoint::make_checkpoint_problem(stats, *tree, model);
}

void frontier(benchmark::State& state, const CheckpointProblem& problem) {
  if (problem.base.empty()) {
    state.SkipWithError("no golden file: run from the root of the sources or set PLIMSOLL_GOLDEN");
    return;
  }
  for (auto _ : state) {
    SearchWork work;
    const auto outcome = checkpoint::plan_frontier(problem, {}, {}, &work);
    state.counters["segments"] = static_cast<double>(outcome->plan->num_breakpoints());
    state.counters["largest"] = static_cast<double>(work.largest);
  }
  state.counters["nodes"] = problem.num_modules();
}

void bound(benchmark::State& state, const CheckpointProblem& problem) {
  for (auto _ : state) {
    const auto curve = checkpoint::bound_frontier(problem);
    state.counters["segments"] = static_cast<double>(curve->size());
  }
  state.counters["nodes"] = problem.num_modules();
}

void plan(benchmark::State& state, const CheckpointProblem& problem, double share) {
  const auto whole = checkpoint::plan_frontier(problem);
  const auto curve = checkpoint::bound_frontier(problem);
  const auto range =
      static_cast<double>(whole->plan->saturation_bytes() - whole->plan->min_bytes());
  const Bytes budget = whole->plan->min_bytes() + static_cast<Bytes>(share * range);
  for (auto _ : state) {
    SearchWork work;
    const auto outcome = checkpoint::plan_for_budget(problem, budget, {}, {}, &work);
    const double ms = outcome->certificate.objective;
    state.counters["recompute_ms"] = ms;
    state.counters["convex_gap"] = ms / value_at(*curve, budget) - 1;
    state.counters["sweeps"] = work.passes;
    state.counters["largest"] = static_cast<double>(work.largest);
    state.counters["units"] = static_cast<double>(outcome->plan->policy.units.size());
  }
  state.counters["nodes"] = problem.num_modules();
}

void operator_choices(benchmark::State& state) {
  if (golden().is_discarded()) {
    state.SkipWithError("no golden file: run from the root of the sources or set PLIMSOLL_GOLDEN");
    return;
  }
  checkpoint::SACStats stats;
  for (const auto& op : golden().at("block_op_stats").at("ops")) {
    const int index = static_cast<int>(stats.func_names.size());
    stats.func_names.push_back(op.at(0));
    stats.runtimes.push_back(op.at(1));
    stats.memory.push_back(op.at(2));
    if (op.at(3) != 0) stats.view_like_ops.push_back(index);
    if (op.at(4) != 0) stats.rand_ops.push_back(index);
  }
  for (auto _ : state) {
    const auto options = checkpoint::operator_options(stats);
    state.counters["options"] = static_cast<double>(options.options.size());
  }
}

void register_tree(int layers, Family family, std::uint64_t seed) {
  static std::list<CheckpointProblem> problems;
  const CheckpointProblem& problem = problems.emplace_back(layered_tree(layers, family, seed));
  const std::string name = std::string(family == Family::kPlain ? "plain_" : "moe_") +
                           std::to_string(problem.num_modules()) + "/seed" + std::to_string(seed);
  benchmark::RegisterBenchmark(("frontier/" + name).c_str(), [&](benchmark::State& state) {
    frontier(state, problem);
  })->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark(("bound/" + name).c_str(), [&](benchmark::State& state) {
    bound(state, problem);
  })->Unit(benchmark::kMillisecond);
  for (const int percent : {2, 20, 50, 80, 95}) {
    benchmark::RegisterBenchmark(
        ("plan/" + name + "/" + std::to_string(percent)).c_str(),
        [&problem, percent](benchmark::State& state) { plan(state, problem, percent / 100.); })
        ->Unit(benchmark::kMillisecond);
  }
}

void register_all() {
  static const CheckpointProblem kGpt = small_gpt();
  benchmark::RegisterBenchmark("frontier/gpt_62", [](benchmark::State& state) {
    frontier(state, kGpt);
  })->Unit(benchmark::kMicrosecond);
  benchmark::RegisterBenchmark("operator_choices/block", operator_choices)
      ->Unit(benchmark::kMicrosecond);
  // Three trees of each family and size, one of the largest.
  for (const int layers : {32, 64, 128, 512}) {
    for (const Family family : {Family::kPlain, Family::kMoe}) {
      for (std::uint64_t seed = 1; seed <= (layers < 512 ? 3 : 1); ++seed) {
        register_tree(layers, family, seed);
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::bench

int main(int argc, char** argv) {
  plimsoll::bench::register_all();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
