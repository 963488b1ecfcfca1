// Two frontiers of thousands of break points under one cap: the split of that cap alone, and the
// whole curve with its splits. Counters: break points of the parts and of the whole, ms of the
// split, how far its lower bound is below.

#include <benchmark/benchmark.h>

#include "checkpoint/random_trees.h"
#include "math/composition.h"
#include "plimsoll/checkpoint/frontier_search.h"

namespace plimsoll::bench {
namespace {

using math::Composition;
using math::Frontier;
using math::MemorySplit;

constexpr int kLayers = 512;  // frontiers of 6,000 to 7,000 break points

// The exact frontiers of two seeded trees.
const std::vector<Frontier>& parts() {
  static const std::vector<Frontier> kParts = [] {
    std::vector<Frontier> made;
    for (const Family family : {Family::kPlain, Family::kMoe}) {
      made.push_back(*checkpoint::plan_frontier(layered_tree(kLayers, family, 1))->plan);
    }
    return made;
  }();
  return kParts;
}

Bytes cap_at(double share) {
  Bytes least = 0, range = 0;
  for (const Frontier& part : parts()) {
    least += part.min_bytes();
    range += part.saturation_bytes() - part.min_bytes();
  }
  return least + static_cast<Bytes>(share * static_cast<double>(range));
}

void count(benchmark::State& state, const MemorySplit& split) {
  state.counters["ms"] = split.ms;
  state.counters["gap"] = split.ms / split.lower_bound - 1;
  state.counters["breakpoints_a"] = static_cast<double>(parts()[0].num_breakpoints());
  state.counters["breakpoints_b"] = static_cast<double>(parts()[1].num_breakpoints());
}

void split_between(benchmark::State& state) {
  const Bytes cap = cap_at(static_cast<double>(state.range(0)) / 100);
  MemorySplit split;
  for (auto _ : state) split = *math::split_between(parts()[0], parts()[1], cap);
  count(state, split);
}
BENCHMARK(split_between)->Arg(5)->Arg(50)->Arg(95)->Unit(benchmark::kMicrosecond);

void whole_curve(benchmark::State& state) {
  for (auto _ : state) {
    const Composition whole(parts());
    state.counters["breakpoints"] = static_cast<double>(whole.whole().num_breakpoints());
    count(state, *whole.split_at(cap_at(.5)));
  }
}
BENCHMARK(whole_curve)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace plimsoll::bench

BENCHMARK_MAIN();
