// Placing and moving experts: loads beside EPLB's and the bound, replicas copied, time.
//
// experts_bench [--effort N] [--layers N]
//
// Layers (58 by default) of 256 experts in 8 groups, loads exp(normal(0, .9)) x 1000, in two
// settings that EPLB was made for: 32 ranks on 4 hosts with 288 slots (groups stay on hosts), and
// 144 ranks with 288 slots (anywhere). Then every load changes by a factor from .7 to 1.3, and the
// placement is moved with a tenth and with half of the slots as limit.

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numbers>
#include <string>

#include "core/random.h"
#include "plimsoll/experts/eplb.h"
#include "plimsoll/experts/expert_search.h"

namespace plimsoll::bench {
namespace {

using experts::ExpertModel;

ExpertModel make_model(int num_layers, int num_hosts, int num_ranks) {
  SplitMix64 random(20);
  ExpertModel model;
  model.num_slots = 288;
  model.num_groups = 8;
  model.num_hosts = num_hosts;
  model.num_ranks = num_ranks;
  for (int layer = 0; layer < num_layers; ++layer) {
    std::vector<double>& loads = model.loads.emplace_back();
    for (int e = 0; e < 256; ++e) {
      const double radius = std::sqrt(-2 * std::log(1 - random.unit()));
      const double normal = radius * std::cos(2 * std::numbers::pi * random.unit());
      loads.push_back(std::floor(1000 * std::exp(.9 * normal)));
    }
  }
  return model;
}

template <class Run>
auto timed(const Run& run, double& seconds) {
  const auto start = std::chrono::steady_clock::now();
  auto result = run();
  seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

void run(const char* name, ExpertModel model, const SearchOptions& search) {
  double seconds = 0;
  const auto placed = timed([&] { return place_experts(model, search); }, seconds);
  const double ours = placed->certificate.objective;
  const double eplb = total_load(model, experts::rebalance_experts(model));
  std::printf("%-14s load %.6g EPLB %.6g (%+.2f%%) bound %.6g gap %.2f%% time %.2f s\n", name, ours,
              eplb, 100 * (eplb / ours - 1), *placed->certificate.lower_bound,
              100 * *placed->certificate.gap(), seconds);
  SplitMix64 random(21);
  for (std::vector<double>& loads : model.loads) {
    for (double& load : loads) load = std::floor(load * (.7 + .6 * random.unit()));
  }
  const experts::ExpertPlan eplb_plan{experts::rebalance_experts(model), model.num_ranks};
  const double slots = model.num_slots * static_cast<double>(model.num_layers());
  std::printf("%-14s EPLB afresh load %.6g copies %.1f%% of the slots\n", name,
              total_load(model, eplb_plan.slots),
              100 * static_cast<double>(count_moved(*placed->plan, eplb_plan)) / slots);
  for (const double share : {.1, .5}) {
    const auto moved = timed(
        [&] {
          return replan_experts(model, *placed->plan, static_cast<std::int64_t>(share * slots),
                                search);
        },
        seconds);
    std::printf("%-14s limit %.0f%% load %.6g before %.6g fresh %.6g copies %.1f%% time %.2f s\n",
                name, 100 * share, moved->outcome.certificate.objective, *moved->before_load,
                moved->fresh_load, 100 * static_cast<double>(moved->moved) / slots, seconds);
  }
  std::fflush(stdout);
}

}  // namespace
}  // namespace plimsoll::bench

int main(int argc, char** argv) {
  plimsoll::SearchOptions search;
  int num_layers = 58;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string word = argv[i];
    if (word == "--effort") search.effort = std::atoll(argv[i + 1]);
    if (word == "--layers") num_layers = std::atoi(argv[i + 1]);
  }
  using plimsoll::bench::make_model;
  plimsoll::bench::run("4 hosts, 32", make_model(num_layers, 4, 32), search);
  plimsoll::bench::run("anywhere, 144", make_model(num_layers, 18, 144), search);
  return 0;
}
