#include "partition/stages/chain_splitter.h"

#include <algorithm>
#include <utility>

#include "partition/assignment/device_trading.h"
#include "partition/graph/assignment_figures.h"

namespace plimsoll::partition {
namespace {

constexpr int kMaxPrefixes = 1024;  // of one order; longer orders are thinned
// Measured on the wide graphs of the tests with two orders a round: 5.4 % above the optimum from
// the start alone, 2.3 % after 8 idle rounds, 1.0 % after 32.
constexpr int kIdleRounds = 32;
constexpr std::uint64_t kStageKeys = 8;
constexpr int kNumSpreads = 6;         // 1, 2, ... 32 keys: from within a stage to four of them
constexpr double kFirstGuess = 0.005;  // above the lower bound
constexpr double kGuessGrowth = 4;
constexpr std::int64_t kMaxEnumeration = 1'000'000'000;  // downsets times groups and pins
constexpr double kLargestGuess = 100;                    // beyond it the upper bound, or no limit

// Devices of a kind are handed out in pipeline order, the first one first.
DeviceAssignment assign(const CostGraph& graph, const GroupGraph& groups, const Downsets& downsets,
                        const StageChain& chain) {
  DeviceAssignment plan;
  plan.device.assign(graph.nodes.size(), -1);
  std::vector<std::size_t> num_used(groups.kinds.size());
  for (const ChainStage& stage : chain.stages) {
    const int device = groups.kinds[stage.kind].devices[num_used[stage.kind]++];
    for (int g = 0; g < groups.num_groups(); ++g) {
      if (!downsets.contains(stage.end, g) || downsets.contains(stage.begin, g)) continue;
      for (const int node : groups.nodes[g]) plan.device[node] = device;
    }
  }
  return plan;
}

}  // namespace

void ChainSplitter::start_from_orders() {
  search_prefixes(1);
  if (!budget_.is_spent()) search_prefixes(options_.num_orders);
}

void ChainSplitter::improve() {
  for (int idle = 0; idle < kIdleRounds && known_.plan && !budget_.is_spent(); ++idle) {
    const double before = known_.value;
    search_prefixes(options_.num_orders);
    if (known_.value < before) idle = -1;
  }
}

bool ChainSplitter::search_all(std::int64_t& num_downsets) {
  std::size_t size = groups_.nodes.size() + 1;
  for (const GroupNet& net : groups_.nets) size += net.groups.size();
  const std::int64_t max_downsets = std::min({options_.max_downsets, budget_.pairs_left,
                                              kMaxEnumeration / static_cast<std::int64_t>(size)});
  Downsets all(groups_);
  std::vector<char> holds(groups_.nodes.size(), 1);
  num_downsets = 0;
  do {
    if (++num_downsets > max_downsets) return false;
    if (num_downsets % 256 == 0 && is_interrupted()) return false;
    all.add(holds);
  } while (next_downset(groups_, holds));
  if (!all.finish(context_)) return !is_interrupted();
  search(all, !is_coarse_, budget_.pairs_left / 4 * 3);
  const bool is_cut = budget_.stop == ChainStop::kEffort;
  if (is_cut) budget_.stop = ChainStop::kFinished;
  return !is_cut && !budget_.is_spent() && !is_coarse_;
}

bool ChainSplitter::is_interrupted() {
  if (context_.is_past_deadline()) budget_.stop = ChainStop::kDeadline;
  if (context_.is_cancelled()) budget_.stop = ChainStop::kCancelled;
  return budget_.is_spent();
}

void ChainSplitter::search_prefixes(int num_orders) {
  const Downsets prefixes = prefixes_of_orders(num_orders);
  budget_.pairs_left -= prefixes.size();
  search(prefixes, false, budget_.pairs_left / 4);
  if (budget_.stop == ChainStop::kEffort) budget_.stop = ChainStop::kFinished;
}

Downsets ChainSplitter::prefixes_of_orders(int num_orders) {
  Downsets prefixes(groups_);
  const int num_groups = groups_.num_groups();
  const int step = num_groups / kMaxPrefixes + 1;
  std::vector<std::uint64_t> keys(groups_.nodes.size());
  for (int i = 0; i < num_orders; ++i, ++num_orders_made_) {
    for (int g = 0; g < num_groups; ++g) keys[g] = key_of(g);
    std::vector<char> holds(groups_.nodes.size());
    prefixes.add(holds);
    int done = 0;
    for (const int g : topological_order(groups_, keys)) {
      holds[g] = 1;
      if (++done % step == 0 || done == num_groups) prefixes.add(holds);
    }
  }
  prefixes.finish(context_);  // search() checks the clock before it asks anything
  return prefixes;
}

// The first order goes depth first, the second by number. The others follow the plan's stages,
// where there is a plan, shuffled within one to some of them.
std::uint64_t ChainSplitter::key_of(int group) {
  if (num_orders_made_ == 0) return 0;
  if (num_orders_made_ == 1) return static_cast<std::uint64_t>(group);
  const std::uint64_t spread = std::uint64_t{1} << (num_orders_made_ % kNumSpreads);
  const std::uint64_t shuffled = (random_.next() >> 32) % spread;
  if (!known_.plan) return shuffled;
  const int stage = known_.stage_of[groups_.nodes[group].front()];
  return kStageKeys * static_cast<std::uint64_t>(stage) + shuffled;
}

// Raises the limit from the lower bound until a chain meets it. What `downsets` refute is a lower
// bound for them, and for the instance where they are all there are.
void ChainSplitter::search(const Downsets& downsets, bool is_complete, std::int64_t max_pairs) {
  const double base = known_.lower_bound;
  double refuted = base;
  const bool guesses = options_.rules.guesses_from_below && base > 0;
  double gap = guesses ? kFirstGuess : kUnlimited;
  while (!is_interrupted()) {
    const double limit =
        gap > kLargestGuess ? known_.value : std::min(known_.value, base * (1 + gap));
    gap *= kGuessGrowth;
    std::int64_t pairs_left = max_pairs;
    const ChainAnswer answer = find_best_chain(
        groups_, downsets, {limit, refuted, options_.rules.uses_windows, &pairs_left}, context_);
    budget_.pairs_left -= max_pairs - pairs_left;
    max_pairs = pairs_left;
    budget_.stop = answer.stop;
    if (budget_.is_spent()) return;
    if (answer.chain) {
      const double value = take(downsets, *answer.chain);
      if (is_complete) known_.lower_bound = std::max(known_.lower_bound, value);
      return;
    }
    refuted = limit;
    if (is_complete && limit < kUnlimited) {
      known_.lower_bound = std::max(known_.lower_bound, limit);
    }
    if (is_complete && limit == kUnlimited) known_.is_infeasible = true;
    if (limit == known_.value) return;  // nothing, or nothing better
  }
}

double ChainSplitter::take(const Downsets& downsets, const StageChain& chain) {
  DeviceAssignment plan = assign(graph_, groups_, downsets, chain);
  if (!graph_.pair_rates.empty()) trade_devices(graph_, plan);
  const double value = largest_load(graph_, plan);
  if (value < known_.value || !known_.plan) {
    known_.value = value;
    known_.plan = std::move(plan);
    known_.stage_of = stages(downsets, chain);
    if (context_.progress) context_.progress({0, known_.value, known_.lower_bound});
  }
  return graph_.pair_rates.empty() ? value : std::min(value, chain.largest_load);
}

std::vector<int> ChainSplitter::stages(const Downsets& downsets, const StageChain& chain) const {
  std::vector<int> stage_of(graph_.nodes.size());
  for (int g = 0; g < groups_.num_groups(); ++g) {
    int stage = 0;
    while (!downsets.contains(chain.stages[stage].end, g)) ++stage;
    for (const int node : groups_.nodes[g]) stage_of[node] = stage;
  }
  return stage_of;
}

}  // namespace plimsoll::partition
