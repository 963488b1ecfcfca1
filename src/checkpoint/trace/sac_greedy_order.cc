#include "checkpoint/trace/sac_greedy_order.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>

#include "core/python_set.h"
#include "core/python_text.h"

namespace plimsoll::checkpoint {
namespace {

constexpr double kShift = 1e-2;  // upstream's margin on the discarded fraction

// Operators that go together, in sets that are filled as upstream fills its own: it walks them.
struct Groups {
  std::vector<std::pair<int, PythonIntSet>> inplace;  // by head, as they first occur
  PythonIntSet random;
};

Groups make_groups(const SACStats& stats) {
  Groups groups;
  std::map<int, std::size_t> place_of;  // by head
  for (const auto& [op, head] : stats.inplace_ops) {
    const auto [place, is_new] = place_of.emplace(head, groups.inplace.size());
    if (is_new) groups.inplace.emplace_back(head, PythonIntSet()).second.add(head);
    groups.inplace[place->second].second.add(op);
  }
  groups.random = PythonIntSet(stats.rand_ops);
  return groups;
}

int head_of_random(const SACStats& stats) {
  return stats.rand_ops.empty() ? -1 : *std::ranges::min_element(stats.rand_ops);
}

// `op`, and its in-place group if it heads one.
void add_with_inplace(int op, const Groups& groups, PythonIntSet& ops) {
  ops.add(op);
  for (const auto& [head, group] : groups.inplace) {
    if (head == op) ops.update(group);
  }
}

struct Sums {
  Int128 memory = 0;
  double runtime = 0;
};

Sums sum_of(const PythonIntSet& ops, const SACStats& stats) {
  Sums sums;
  for (const int op : ops.keys()) {
    sums.memory += stats.memory[op];
    sums.runtime += stats.runtimes[op];
  }
  return sums;
}

// All that goes with these heads.
Sums sum_of_heads(const PythonIntSet& heads, const Groups& groups, const SACStats& stats) {
  PythonIntSet ops;
  for (const int head : heads.keys()) {
    add_with_inplace(head, groups, ops);
    if (head == head_of_random(stats)) ops.update(groups.random);
  }
  return sum_of(ops, stats);
}

PythonIntSet find_stored_ops(const SACStats& stats, const Groups& groups,
                             const PythonIntSet& inplace) {
  PythonIntSet stored;
  if (!stats.rand_ops.empty() && stats.force_store_random) stored.add(head_of_random(stats));
  for (const auto& [head, group] : groups.inplace) {
    if (inplace.contains(head)) stored.add(head);
    // Quirk, kept: a group with random operators is stored under force_store_random only where
    // their number is odd; upstream's test is a bitwise `and` of flag and count.
    const std::vector<int> ops = group.keys();
    const auto num_random = std::ranges::count_if(
        ops, [&groups = groups](int op) { return groups.random.contains(op); });
    if (stats.force_store_random && num_random % 2 == 1) stored.add(head);
  }
  return stored;
}

struct GroupFates {
  PythonIntSet inplace, recomputed, stored;
};

GroupFates make_fates(const SACStats& stats, const Groups& groups) {
  GroupFates fates;
  for (const auto& [op, head] : stats.inplace_ops) fates.inplace.add(op);
  fates.recomputed.update(PythonIntSet(stats.view_like_ops));
  fates.stored = find_stored_ops(stats, groups, fates.inplace);
  return fates;
}

// Quirk, kept: an operator of an in-place group that is random, too, is counted in both places, and
// so is an in-place group whose head is a view.
PythonIntSet find_candidates(const SACStats& stats, const Groups& groups, const GroupFates& fates) {
  const auto& [inplace, recomputed, stored] = fates;
  PythonIntSet candidates;
  if (const int head = head_of_random(stats); head >= 0 && !stored.contains(head)) {
    candidates.add(head);
  }
  PythonIntSet heads, all;
  for (const auto& [head, group] : groups.inplace) heads.add(head);
  candidates.update(heads.without(stored));
  for (int op = 0; op < static_cast<int>(stats.memory.size()); ++op) all.add(op);
  candidates.update(
      all.without(recomputed).without(stored).without(inplace).without(groups.random));
  return candidates;
}

std::vector<int> sorted(std::vector<int> ops) {
  std::ranges::sort(ops);
  return ops;
}

}  // namespace

SACGreedyOrder make_greedy_order(const SACStats& stats) {
  const Groups groups = make_groups(stats);
  const GroupFates fates = make_fates(stats, groups);
  SACGreedyOrder order;
  for (const auto& [head, group] : groups.inplace) {
    order.inplace_groups.push_back({head, sorted(group.keys())});
  }
  std::ranges::sort(order.inplace_groups, {}, &InplaceGroup::head);
  order.random_ops = sorted(groups.random.keys());
  order.stored_ops = sorted(fates.stored.keys());
  order.recomputed_ops = sorted(fates.recomputed.keys());
  for (const int op : find_candidates(stats, groups, fates).keys()) {
    PythonIntSet ops;
    add_with_inplace(op, groups, ops);
    if (op == head_of_random(stats)) {
      for (const int random : stats.rand_ops) ops.add(random);
    }
    const Sums sums = sum_of(ops, stats);
    const double msps = sums.runtime > 0 ? static_cast<double>(sums.memory) / sums.runtime
                                         : std::numeric_limits<double>::max();
    order.order.push_back({op, static_cast<Bytes>(sums.memory), sums.runtime, msps});
  }
  std::ranges::stable_sort(order.order, std::greater{}, &RecomputeCandidate::msps);
  return order;
}

Result<TradeoffCurve> make_tradeoff_curve(const SACStats& stats, const SACGreedyOrder& order) {
  Sums total;
  for (std::size_t op = 0; op < stats.memory.size(); ++op) {
    total.memory += stats.memory[op];
    total.runtime += stats.runtimes[op];
  }
  if (total.memory > std::numeric_limits<Bytes>::max()) {
    return fail(ErrorCode::kOverflow, "memory", "the operators' sizes sum to 2^63 bytes or more",
                "give sizes in bytes");
  }
  if (total.memory == 0 || total.runtime == 0) {
    return fail(ErrorCode::kZeroDivision, total.memory == 0 ? "memory" : "runtimes",
                total.memory == 0 ? "no operator takes memory" : "no operator takes time",
                "a module without a trade-off cannot be a unit of the fitted mode");
  }

  TradeoffCurve curve;
  curve.sac_memory = static_cast<Bytes>(total.memory);
  curve.sac_runtime = total.runtime;
  Sums discarded;
  const auto discard = [&](const Sums& more) {
    discarded.memory += more.memory;
    discarded.runtime += more.runtime;
    const double x =
        divide_exactly(static_cast<Uint128>(discarded.memory), static_cast<Uint128>(total.memory)) +
        kShift;
    const double y = discarded.runtime / total.runtime;
    // Quirk, kept: a step that discards nothing moves the point before it.
    if (!curve.points.empty() && curve.points.back().first == x) {
      curve.points.back().second = y;
    } else {
      curve.points.emplace_back(x, y);
    }
  };
  const Groups groups = make_groups(stats);
  const GroupFates fates = make_fates(stats, groups);
  discard(sum_of_heads(fates.recomputed, groups, stats));
  for (const RecomputeCandidate& candidate : order.order) {
    discard({candidate.memory, candidate.runtime});
  }
  discard(sum_of_heads(fates.stored, groups, stats));
  return curve;
}

}  // namespace plimsoll::checkpoint
