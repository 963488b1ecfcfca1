#include "plimsoll/partition/contiguous_split.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "partition/acyclic_coarsening.h"
#include "partition/downsets.h"
#include "partition/group_cut.h"
#include "partition/multilevel.h"
#include "partition/stage_chain.h"
#include "plimsoll/core/random.h"

namespace plimsoll::partition {
namespace {

constexpr std::int64_t kDefaultPairs = 2'000'000'000;
constexpr int kMaxPrefixes = 1024;  // of one order; longer orders are thinned
// Measured on the wide graphs of the tests with two orders a round: 5.4 % above the optimum from
// the start alone, 2.3 % after 8 idle rounds, 1.0 % after 32.
constexpr int kIdleRounds = 32;
constexpr std::uint64_t kStageKeys = 8;
constexpr int kNumSpreads = 6;          // 1, 2, ... 32 keys: from within a stage to four of them
constexpr double kMaxStates = 1 << 16;  // ways to have used up devices
constexpr double kFirstGuess = 0.005;   // above the lower bound
constexpr double kGuessGrowth = 4;
constexpr std::int64_t kMaxGroupCuts = 64;               // minimum cuts for the bound
constexpr std::int64_t kMaxEnumeration = 1'000'000'000;  // downsets times groups and pins
constexpr int kFirstRuns = 128;  // of a graph that is too large to begin with
constexpr int kIdleCycles = 3;   // of the refinement
constexpr std::int64_t kRefinementMoves = 4'000'000, kRefinementMovesPerGroup = 400;
constexpr std::int64_t kMaxTradeWork = 20'000'000;  // nodes looked at where devices trade theirs
constexpr double kLargestGuess = 100;               // beyond it the upper bound, or no limit

// The best plan known and what is proved, over all searches of one call.
struct Knowledge {
  std::optional<DeviceAssignment> plan;
  std::vector<int> stage_of;  // [num_nodes] the plan's stages in pipeline order
  double value = kUnlimited;
  double lower_bound = 0;
  bool is_infeasible = false;
};

struct Budget {
  std::int64_t pairs_left = 0;
  ChainStop stop = ChainStop::kFinished;
  bool is_spent() const { return stop != ChainStop::kFinished; }
};

// Total work over what all devices do in a ms; and the heaviest group.
double load_bound(const GroupGraph& groups) {
  const std::vector<double> work = work_of_groups(groups);
  const double heaviest = work.empty() ? 0 : *std::max_element(work.begin(), work.end());
  return std::max(heaviest, shared_work(groups));
}

double num_states(const GroupGraph& groups) {
  double states = 1;
  for (const DeviceKind& kind : groups.kinds)
    states *= 1.0 + static_cast<double>(kind.devices.size());
  return states;
}

bool fits_caps(const CostGraph& graph, const DeviceAssignment& plan) {
  const std::vector<Bytes> used = device_memory(graph, plan);
  for (int d = 0; d < graph.num_devices(); ++d) {
    const auto& cap = graph.classes[graph.class_of(d)].memory_cap;
    if (cap && used[d] > *cap) return false;
  }
  return true;
}

// Devices of a kind are handed out in pipeline order, the first one first.
DeviceAssignment assign(const CostGraph& graph, const GroupGraph& groups, const Downsets& downsets,
                        const StageChain& chain) {
  DeviceAssignment plan;
  plan.device.assign(graph.nodes.size(), -1);
  std::vector<std::size_t> num_used(groups.kinds.size());
  for (const Stage& stage : chain.stages) {
    const int device = groups.kinds[stage.kind].devices[num_used[stage.kind]++];
    for (int g = 0; g < groups.num_groups(); ++g) {
      if (!downsets.contains(stage.end, g) || downsets.contains(stage.begin, g)) continue;
      for (const int node : groups.nodes[g]) plan.device[node] = device;
    }
  }
  return plan;
}

double largest_load(const CostGraph& graph, const DeviceAssignment& plan) {
  const std::vector<double> loads = device_loads(graph, plan);
  return *std::max_element(loads.begin(), loads.end());
}

// Chains know only the fastest rate of each device. Here two devices that fit each other's nodes
// trade them, as long as the loads, the largest one first, become smaller.
void trade_devices(const CostGraph& graph, DeviceAssignment& plan) {
  const auto sorted_loads = [&](const DeviceAssignment& candidate) {
    std::vector<double> loads = device_loads(graph, candidate);
    std::sort(loads.begin(), loads.end(), std::greater<>());
    return loads;
  };
  std::vector<double> best = sorted_loads(plan);
  std::int64_t trades_left = kMaxTradeWork / std::max(1, graph.num_nodes());
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    for (int a = 0; a < graph.num_devices(); ++a) {
      for (int b = a + 1; b < graph.num_devices(); ++b) {
        if (--trades_left < 0) return;
        DeviceAssignment trade = plan;
        bool is_allowed = true;
        for (int node = 0; node < graph.num_nodes() && is_allowed; ++node) {
          int& device = trade.device[node];
          if (device != a && device != b) continue;
          device = device == a ? b : a;
          is_allowed = graph.is_allowed(node, device);
        }
        if (!is_allowed || !fits_caps(graph, trade)) continue;
        std::vector<double> loads = sorted_loads(trade);
        if (loads >= best) continue;
        best = std::move(loads);
        plan = std::move(trade);
        has_changed = true;
      }
    }
  }
}

// One instance, with its caps or without.
class Splitter {
 public:
  // `is_coarse`: the groups have been merged with loss, and nothing they refute is proved.
  Splitter(const CostGraph& graph, const GroupGraph& groups, bool is_coarse,
           const ContiguousSplitOptions& options, const RunContext& context, Knowledge& known,
           Budget& budget)
      : graph_(graph),
        groups_(groups),
        is_coarse_(is_coarse),
        options_(options),
        context_(context),
        known_(known),
        budget_(budget) {}

  // Chains over the prefixes of topological orders: first of one, which is cheap, then of some.
  void start_from_orders() {
    search_prefixes(1);
    if (!budget_.is_spent()) search_prefixes(options_.num_orders);
  }

  // Chains over the prefixes of new orders around the plan's; until some rounds in a row bring
  // nothing.
  void improve() {
    for (int idle = 0; idle < kIdleRounds && known_.plan && !budget_.is_spent(); ++idle) {
      const double before = known_.value;
      search_prefixes(options_.num_orders);
      if (known_.value < before) idle = -1;
    }
  }

  // Chains over all downsets. False: not to the end, for there are too many downsets or pairs, or
  // the clock or a cancel came first.
  bool search_all(std::int64_t& num_downsets) {
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

 private:
  bool is_interrupted() {
    if (context_.is_past_deadline()) budget_.stop = ChainStop::kDeadline;
    if (context_.is_cancelled()) budget_.stop = ChainStop::kCancelled;
    return budget_.is_spent();
  }

  void search_prefixes(int num_orders) {
    const Downsets prefixes = prefixes_of_orders(num_orders);
    budget_.pairs_left -= prefixes.size();
    search(prefixes, false, budget_.pairs_left / 4);
    if (budget_.stop == ChainStop::kEffort) budget_.stop = ChainStop::kFinished;
  }

  Downsets prefixes_of_orders(int num_orders) {
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
    prefixes.finish(context_);  // search() looks at the clock before it asks anything
    return prefixes;
  }

  // The first order goes depth first, the second by number. The others follow the plan's stages,
  // where there is a plan, shuffled within one to some of them.
  std::uint64_t key_of(int group) {
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
  void search(const Downsets& downsets, bool is_complete, std::int64_t max_pairs) {
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

  double take(const Downsets& downsets, const StageChain& chain) {
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

  std::vector<int> stages(const Downsets& downsets, const StageChain& chain) const {
    std::vector<int> stage_of(graph_.nodes.size());
    for (int g = 0; g < groups_.num_groups(); ++g) {
      int stage = 0;
      while (!downsets.contains(chain.stages[stage].end, g)) ++stage;
      for (const int node : groups_.nodes[g]) stage_of[node] = stage;
    }
    return stage_of;
  }

  const CostGraph& graph_;
  const GroupGraph& groups_;
  const bool is_coarse_;
  const ContiguousSplitOptions& options_;
  const RunContext& context_;
  Knowledge& known_;
  Budget& budget_;
  SplitMix64 random_{options_.search.seed};
  int num_orders_made_ = 0;
};

bool is_proved(const Knowledge& known, double tolerance) {
  return known.is_infeasible || (known.plan && known.value <= known.lower_bound * (1 + tolerance));
}

StopReason stop_reason(ChainStop stop) {
  switch (stop) {
    case ChainStop::kFinished:
      return StopReason::kFinished;
    case ChainStop::kEffort:
      return StopReason::kEffort;
    case ChainStop::kDeadline:
      return StopReason::kDeadline;
    case ChainStop::kCancelled:
      return StopReason::kCancelled;
  }
  return StopReason::kFinished;
}

std::chrono::steady_clock::time_point middle_of(std::chrono::steady_clock::time_point deadline) {
  const auto now = std::chrono::steady_clock::now();
  return deadline < now ? deadline : now + (deadline - now) / 2;
}

// Orders, then all downsets, then orders around the best plan. What is left open stops for effort.
void search_chains(const CostGraph& graph, const GroupGraph& groups, bool is_coarse,
                   const ContiguousSplitOptions& options, const RunContext& context,
                   Knowledge& known, Budget& budget, ContiguousSplit& result) {
  Splitter splitter(graph, groups, is_coarse, options, context, known, budget);
  if (options.rules.starts_from_orders) splitter.start_from_orders();
  if (is_proved(known, options.search.tolerance) || budget.is_spent()) return;
  if (splitter.search_all(result.num_downsets) || budget.is_spent()) return;
  if (!options.rules.starts_from_orders) splitter.start_from_orders();
  splitter.improve();
  if (!budget.is_spent()) budget.stop = ChainStop::kEffort;
}

// Where chains were left open: multilevel annealing of the plan in which a group stands neither
// before its predecessors nor after its successors.
void refine_in_order(const CostGraph& graph, const GroupGraph& groups,
                     const ContiguousSplitOptions& options, const RunContext& context,
                     Knowledge& known, Budget& budget) {
  if (!options.rules.refines_in_order || !known.plan) return;
  MultilevelOptions refinement;
  refinement.num_idle_cycles = kIdleCycles;
  refinement.position.assign(static_cast<std::size_t>(graph.num_devices()), -1);
  int last = -1;
  for (int node = 0; node < graph.num_nodes(); ++node) {
    refinement.position[known.plan->device[node]] = known.stage_of[node];
    last = std::max(last, known.stage_of[node]);
  }
  for (int& position : refinement.position) {
    if (position < 0) position = ++last;
  }
  const auto plan_of = [&](const std::vector<int>& device) {
    DeviceAssignment plan;
    plan.device.resize(graph.nodes.size());
    for (int g = 0; g < groups.num_groups(); ++g) {
      for (const int node : groups.nodes[g]) plan.device[node] = device[g];
    }
    return plan;
  };
  refinement.on_better = [&](const std::vector<int>& device) {
    DeviceAssignment plan = plan_of(device);
    const double value = largest_load(graph, plan);
    if (value >= known.value || !fits_caps(graph, plan)) return false;
    known.plan = std::move(plan);
    known.value = value;
    for (int node = 0; node < graph.num_nodes(); ++node) {
      known.stage_of[node] = refinement.position[known.plan->device[node]];
    }
    if (context.progress) context.progress({0, known.value, known.lower_bound});
    return is_proved(known, options.search.tolerance);
  };
  std::vector<int> device;
  for (const auto& nodes : groups.nodes) device.push_back(known.plan->device[nodes.front()]);
  SplitMix64 random(options.search.seed);
  std::int64_t moves_left = std::min<std::int64_t>(
      budget.pairs_left, kRefinementMoves + kRefinementMovesPerGroup * groups.num_groups());
  budget.pairs_left -= moves_left;
  refine(groups, graph.pair_rates, refinement, random, context, moves_left, device);
  budget.pairs_left += moves_left;
  budget.stop = ChainStop::kEffort;
  if (context.is_past_deadline()) budget.stop = ChainStop::kDeadline;
  if (context.is_cancelled()) budget.stop = ChainStop::kCancelled;
}

// All of the search, for a graph with its caps or without them.
void solve(const CostGraph& graph, const ContiguousSplitOptions& options, const RunContext& context,
           Knowledge& known, Budget& budget, ContiguousSplit& result) {
  GroupGraph groups = make_groups(graph);
  if (groups.num_groups() > options.max_groups && !known.plan) {
    // A plan there must be, also where the clock leaves no time for a good one.
    const RunContext untimed{std::nullopt, context.cancel, context.progress};
    const GroupGraph runs = cut_into_runs(groups, kFirstRuns);
    if (num_states(runs) <= kMaxStates) {
      Splitter(graph, runs, true, options, untimed, known, budget).start_from_orders();
    }
  }
  if (options.rules.absorbs_groups) groups = absorb_groups(graph, groups);
  result.num_groups = groups.num_groups();
  result.num_downsets = 0;
  const double bound = load_bound(groups);
  if (bound == kUnlimited) {  // a group that no device may run
    known.is_infeasible = true;
    return;
  }
  known.lower_bound = std::max(known.lower_bound, bound);
  if (num_states(groups) > kMaxStates) {
    budget.stop = ChainStop::kEffort;
    return;
  }
  known.lower_bound = std::max(known.lower_bound,
                               heaviest_group_bound(groups, kMaxGroupCuts, known.value, context));
  const bool is_coarse = groups.num_groups() > options.max_groups;
  RunContext first = context;  // where refinement may come after, half the time is left to it
  if (options.rules.refines_in_order && context.deadline) {
    first.deadline = middle_of(*context.deadline);
  }
  const GroupGraph few =
      is_coarse ? coarsen_acyclically(groups, options.max_groups, first) : groups;
  search_chains(graph, few, is_coarse, options, first, known, budget, result);
  const bool is_cut = budget.stop == ChainStop::kDeadline && !context.is_past_deadline();
  if (is_proved(known, options.search.tolerance)) return;
  if (budget.stop != ChainStop::kEffort && !is_cut) return;
  refine_in_order(graph, groups, options, context, known, budget);
  if (is_cut && !is_proved(known, options.search.tolerance) &&
      budget.stop == ChainStop::kEffort) {  // it had an end, and there is time left
    budget.stop = ChainStop::kFinished;
    search_chains(graph, few, is_coarse, options, context, known, budget, result);
  }
}

Bytes total_memory(const CostGraph& graph) {
  Bytes total = 0;
  for (const CostNode& node : graph.nodes) total += node.memory;
  for (const Weight& weight : graph.weights) {
    if (!weight.readers.empty()) total += weight.bytes;
  }
  return total;
}

bool has_tight_caps(const CostGraph& graph) {
  const Bytes total = total_memory(graph);
  return std::any_of(graph.classes.begin(), graph.classes.end(), [&](const DeviceClass& devices) {
    return devices.memory_cap && *devices.memory_cap < total;
  });
}

Explanation explain_infeasible(const CostGraph& graph) {
  Explanation explanation;
  if (!has_tight_caps(graph)) {
    explanation.binding = "permissions";
    explanation.lines.emplace_back(
        "no line of devices may run all groups of nodes that must share a device");
    return explanation;
  }
  explanation.binding = "memory";
  Int128 room = 0;
  for (const DeviceClass& devices : graph.classes) {
    room += Int128{devices.count} * devices.memory_cap.value_or(total_memory(graph));
  }
  if (room < total_memory(graph)) {
    explanation.missing = static_cast<Bytes>(total_memory(graph) - room);
    explanation.lines.emplace_back("all devices together hold fewer bytes than the graph");
  } else {
    explanation.lines.emplace_back("no contiguous split keeps every device within its memory cap");
  }
  return explanation;
}

Result<void> check_options(const ContiguousSplitOptions& options) {
  if (options.max_downsets < 1 || options.num_orders < 1 || options.max_groups < 1) {
    return fail(ErrorCode::kUsage, "contiguous split options",
                "max_downsets, max_groups or num_orders below 1", "give at least 1");
  }
  if (!(options.search.tolerance >= 0)) {
    return fail(ErrorCode::kUsage, "contiguous split options", "a tolerance below 0 or no number",
                "give at least 0");
  }
  return {};
}

}  // namespace

Result<ContiguousSplit> split_contiguously(const CostGraph& graph,
                                           const ContiguousSplitOptions& options,
                                           const RunContext& context) {
  PLIMSOLL_RETURN_IF_ERROR(validate(graph));
  PLIMSOLL_RETURN_IF_ERROR(check_options(options));
  ContiguousSplit result;
  const std::int64_t num_pairs = options.search.effort < 0 ? kDefaultPairs : options.search.effort;
  Budget budget{num_pairs, ChainStop::kFinished};
  Knowledge known;
  if (options.rules.relaxes_memory && has_tight_caps(graph)) {
    CostGraph relaxed = graph;
    for (DeviceClass& devices : relaxed.classes) devices.memory_cap.reset();
    Knowledge bound;
    Budget half{budget.pairs_left / 2, ChainStop::kFinished};
    solve(relaxed, options, context, bound, half, result);
    budget.pairs_left -= num_pairs / 2 - half.pairs_left;
    if (half.stop != ChainStop::kEffort) budget.stop = half.stop;
    known.is_infeasible = bound.is_infeasible;
    known.lower_bound = bound.lower_bound;
    if (bound.plan && fits_caps(graph, *bound.plan)) {
      known.plan = std::move(bound.plan);
      known.stage_of = std::move(bound.stage_of);
      known.value = bound.value;
    }
  }
  if (!is_proved(known, options.search.tolerance) && !budget.is_spent()) {
    solve(graph, options, context, known, budget, result);
  }
  result.num_pairs = num_pairs - budget.pairs_left;

  Outcome<DeviceAssignment>& outcome = result.outcome;
  outcome.plan = std::move(known.plan);
  outcome.stop = stop_reason(budget.stop);
  outcome.certificate.objective =
      outcome.plan ? known.value : std::numeric_limits<double>::quiet_NaN();
  if (known.is_infeasible) {
    outcome.status = SolveStatus::kInfeasible;
    outcome.certificate.proof = "exhausted all chains of downsets";
    outcome.explanation = explain_infeasible(graph);
    return result;
  }
  outcome.certificate.lower_bound = std::min(known.lower_bound, known.value);
  outcome.certificate.proof =
      "limits refuted over all chains of downsets, or total work, or minimum cuts around groups";
  if (outcome.plan) {
    const bool is_optimal = known.value <= known.lower_bound * (1 + options.search.tolerance);
    outcome.status = is_optimal ? SolveStatus::kOptimal : SolveStatus::kFeasible;
  }
  return result;
}

}  // namespace plimsoll::partition
