#include "checkpoint/trace/sac_greedy_order.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include "plimsoll/core/python_text.h"

namespace plimsoll::checkpoint {
namespace {

constexpr double kShift = 1e-2;  // upstream's margin on the discarded fraction

using Ops = std::set<int>;

std::vector<InplaceGroup> group_inplace_ops(const SACStats& stats) {
  std::map<int, Ops> ops_of;  // by head
  for (const auto& [op, head] : stats.inplace_ops) ops_of[head].insert({op, head});
  std::vector<InplaceGroup> groups;
  for (const auto& [head, ops] : ops_of) groups.push_back({head, {ops.begin(), ops.end()}});
  return groups;
}

// `op`, its in-place group if it heads one, and all random operators if it heads those.
void add_with_followers(int op, const SACGreedyOrder& order, Ops& ops) {
  ops.insert(op);
  for (const InplaceGroup& group : order.inplace_groups) {
    if (group.head == op) ops.insert(group.ops.begin(), group.ops.end());
  }
  if (!order.random_ops.empty() && order.random_ops.front() == op) {
    ops.insert(order.random_ops.begin(), order.random_ops.end());
  }
}

struct Sums {
  Int128 memory = 0;
  double runtime = 0;
};

Sums sum_of(const Ops& ops, const SACStats& stats) {
  Sums sums;
  for (const int op : ops) {
    sums.memory += stats.memory[op];
    sums.runtime += stats.runtimes[op];
  }
  return sums;
}

Ops find_stored_ops(const SACStats& stats, const SACGreedyOrder& order, const Ops& inplace) {
  Ops stored;
  if (!order.random_ops.empty() && stats.force_store_random) {
    stored.insert(order.random_ops.front());
  }
  for (const InplaceGroup& group : order.inplace_groups) {
    if (inplace.contains(group.head)) stored.insert(group.head);
    // Quirk, kept: a group with random operators is stored under force_store_random only where
    // their number is odd; upstream's test is a bitwise `and` of flag and count.
    const auto num_random = std::count_if(group.ops.begin(), group.ops.end(), [&](int op) {
      return std::binary_search(order.random_ops.begin(), order.random_ops.end(), op);
    });
    if (stats.force_store_random && num_random % 2 == 1) stored.insert(group.head);
  }
  return stored;
}

// Quirk, kept: an operator of an in-place group that is random, too, is counted in both places, and
// so is an in-place group whose head is a view.
Ops find_candidates(const SACStats& stats, const SACGreedyOrder& order, const Ops& inplace,
                    const Ops& stored, const Ops& recomputed) {
  Ops candidates;
  for (int op = 0; op < static_cast<int>(stats.memory.size()); ++op) {
    const bool is_random = std::binary_search(order.random_ops.begin(), order.random_ops.end(), op);
    if (!recomputed.contains(op) && !inplace.contains(op) && !is_random) candidates.insert(op);
  }
  for (const InplaceGroup& group : order.inplace_groups) candidates.insert(group.head);
  if (!order.random_ops.empty()) candidates.insert(order.random_ops.front());
  for (const int op : stored) candidates.erase(op);
  return candidates;
}

}  // namespace

SACGreedyOrder make_greedy_order(const SACStats& stats) {
  SACGreedyOrder order;
  order.inplace_groups = group_inplace_ops(stats);
  const Ops random(stats.rand_ops.begin(), stats.rand_ops.end());
  order.random_ops.assign(random.begin(), random.end());
  Ops inplace;
  for (const auto& [op, head] : stats.inplace_ops) inplace.insert(op);

  const Ops stored = find_stored_ops(stats, order, inplace);
  const Ops recomputed(stats.view_like_ops.begin(), stats.view_like_ops.end());
  order.stored_ops.assign(stored.begin(), stored.end());
  order.recomputed_ops.assign(recomputed.begin(), recomputed.end());
  for (const int op : find_candidates(stats, order, inplace, stored, recomputed)) {
    Ops ops;
    add_with_followers(op, order, ops);
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
                "a module without a trade-off is no unit of the fitted mode");
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
  Ops recomputed;
  for (const int op : order.recomputed_ops) add_with_followers(op, order, recomputed);
  discard(sum_of(recomputed, stats));
  for (const RecomputeCandidate& candidate : order.order) {
    discard({candidate.memory, candidate.runtime});
  }
  Ops stored;
  for (const int op : order.stored_ops) add_with_followers(op, order, stored);
  discard(sum_of(stored, stats));
  return curve;
}

}  // namespace plimsoll::checkpoint
