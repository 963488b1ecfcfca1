#include "checkpoint/torch/policy_per_module.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "core/python_text.h"

namespace plimsoll::checkpoint {
namespace {

// Operators that are kept or dropped together.
struct Group {
  std::vector<int> ops;
  Int128 memory = 0;
  double runtime = 0;
  bool must_save = false;
  bool must_drop = false;
};

std::vector<Group> make_groups(const SACStats& stats) {
  const int n = static_cast<int>(stats.memory.size());
  std::vector<int> head(stats.memory.size());
  std::iota(head.begin(), head.end(), 0);
  const auto find = [&](int op) {
    while (head[op] != op) op = head[op] = head[head[op]];
    return op;
  };
  const auto join = [&](int a, int b) {
    const int head_a = find(a), head_b = find(b);
    head[std::max(head_a, head_b)] = std::min(head_a, head_b);
  };
  if (!stats.force_store_random) {
    for (const int op : stats.rand_ops) join(op, stats.rand_ops.front());
  }
  for (const auto& [op, parent] : stats.inplace_ops) join(op, parent);

  std::vector<Group> groups(stats.memory.size());
  for (int op = 0; op < n; ++op) {
    Group& group = groups[find(op)];
    group.ops.push_back(op);
    group.memory += stats.memory[op];
    group.runtime += stats.runtimes[op];
  }
  if (stats.force_store_random) {
    for (const int op : stats.rand_ops) groups[find(op)].must_save = true;
  }
  for (const auto& [op, parent] : stats.inplace_ops) {
    // The operator changes an argument of the module: nothing else here can bring its output back.
    if (op == parent) groups[find(op)].must_save = true;
  }
  for (const int op : stats.view_like_ops) groups[find(op)].must_drop = true;
  std::erase_if(groups, [](const Group& group) { return group.ops.empty(); });
  return groups;
}

// A knapsack of groups that may be kept or not, the densest first.
class Knapsack {
 public:
  Knapsack(std::vector<Group> groups, Int128 room) : groups_(std::move(groups)), room_(room) {
    std::stable_sort(groups_.begin(), groups_.end(), [](const Group& a, const Group& b) {
      return a.runtime * static_cast<double>(b.memory) > b.runtime * static_cast<double>(a.memory);
    });
  }

  // The groups to keep.
  std::vector<const Group*> solve() {
    fill_greedily();
    std::vector<State> states{{0, 0, -1}};
    for (std::size_t next = 0; next < groups_.size(); ++next) states = extend(states, next);
    std::vector<const Group*> kept;
    for (int step = states.back().last; step >= 0; step = steps_[step].before) {
      kept.push_back(&groups_[steps_[step].group]);
    }
    return kept;
  }

 private:
  struct State {
    Int128 memory;
    double runtime;
    int last;  // index into steps_, -1: nothing kept
  };
  struct Step {
    std::size_t group;
    int before;
  };

  void fill_greedily() {
    Int128 left = room_;
    for (const Group& group : groups_) {
      if (group.memory > left) continue;
      left -= group.memory;
      best_known_ += group.runtime;
    }
  }

  // What a state can reach at most with the groups from `next` on.
  double bound(const State& state, std::size_t next) const {
    Int128 left = room_ - state.memory;
    double runtime = state.runtime;
    for (; next < groups_.size(); ++next) {
      const Group& group = groups_[next];
      if (group.memory > left) {
        return runtime +
               group.runtime * (static_cast<double>(left) / static_cast<double>(group.memory));
      }
      left -= group.memory;
      runtime += group.runtime;
    }
    return runtime;
  }

  // Undominated states by increasing memory and runtime, with and without group `next`.
  std::vector<State> extend(const std::vector<State>& states, std::size_t next) {
    constexpr double kRounding = 1 + 1e-10;  // bounds are sums of doubles
    const Group& group = groups_[next];
    std::vector<State> merged;
    const auto add = [&](const State& state, bool takes_group) {
      if (!merged.empty() && state.runtime <= merged.back().runtime) return;
      if (bound(state, next + 1) * kRounding < best_known_) return;
      merged.push_back(state);
      if (!takes_group) return;
      steps_.push_back({next, state.last});
      merged.back().last = static_cast<int>(steps_.size()) - 1;
    };
    std::size_t with = 0;
    const auto taken = [&] {
      const State& state = states[with];
      return State{state.memory + group.memory, state.runtime + group.runtime, state.last};
    };
    const auto fits = [&] {
      return with < states.size() && states[with].memory + group.memory <= room_;
    };
    for (const State& state : states) {
      // Of equal memory the longer time first, so that the shorter one is dominated.
      while (fits() && (taken().memory < state.memory ||
                        (taken().memory == state.memory && taken().runtime > state.runtime))) {
        add(taken(), true);
        ++with;
      }
      add(state, false);
    }
    for (; fits(); ++with) add(taken(), true);
    return merged;
  }

  std::vector<Group> groups_;
  Int128 room_;
  double best_known_ = 0;
  std::vector<Step> steps_;
};

}  // namespace

Bytes policy_capacity(const SACStats& stats, double memory_budget) {
  const Bytes total = std::accumulate(stats.memory.begin(), stats.memory.end(), Bytes{0});
  const double capacity = std::ceil(memory_budget * static_cast<double>(total));
  return capacity >= 0x1p63 ? std::numeric_limits<Bytes>::max() : static_cast<Bytes>(capacity);
}

Result<Outcome<ModulePolicy>> optimal_policy_per_module(const SACStats& stats,
                                                        double memory_budget) {
  if (!(memory_budget >= 0 && memory_budget <= 1)) {
    return fail(
        ErrorCode::kValue, "memory_budget",
        "`memory_budget` must be a float between 0 and 1. Got " + python_repr(memory_budget) + ".",
        "give the share of the module's memory that may be kept");
  }
  PLIMSOLL_RETURN_IF_ERROR(validate(stats));

  Outcome<ModulePolicy> outcome;
  outcome.certificate.objective = std::nan("");
  Int128 room = policy_capacity(stats, memory_budget);
  ModulePolicy policy;
  policy.save.assign(stats.memory.size(), 0);
  std::vector<Group> optional;
  for (Group& group : make_groups(stats)) {
    if (group.must_save && group.must_drop) {
      outcome.status = SolveStatus::kInfeasible;
      outcome.certificate.proof = ProofKind::kKeptWithDiscarded;
      return outcome;
    }
    if (group.must_save) {
      room -= group.memory;
      for (const int op : group.ops) policy.save[op] = 1;
    } else if (!group.must_drop && group.runtime > 0) {
      optional.push_back(std::move(group));
    }
  }
  if (room < 0) {
    outcome.status = SolveStatus::kInfeasible;
    outcome.certificate.proof = ProofKind::kKeptTooLarge;
    outcome.explanation.missing = static_cast<Bytes>(-room);
    return outcome;
  }
  Knapsack knapsack(std::move(optional), room);
  for (const Group* group : knapsack.solve()) {
    for (const int op : group->ops) policy.save[op] = 1;
  }

  double recomputed = 0;
  for (std::size_t op = 0; op < policy.save.size(); ++op) {
    if (policy.save[op] == 0) {
      recomputed += stats.runtimes[op];
      continue;
    }
    policy.saved_memory += stats.memory[op];
    policy.saved_runtime += stats.runtimes[op];
  }
  outcome.status = SolveStatus::kOptimal;
  outcome.certificate = {recomputed, recomputed, ProofKind::kDynamicProgram};
  outcome.plan = std::move(policy);
  return outcome;
}

}  // namespace plimsoll::checkpoint
