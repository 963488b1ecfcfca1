// The order in which upstream would give up a module's operators, and the curve of discarded memory
// against recomputed time that it draws.
//
// Method. Operators that go together are gathered behind a head: in-place operators behind the one
// whose output they change, random ones behind the first of them. What may be recomputed is sorted
// by bytes per millisecond, the most first; the curve has a point after each step. O(n (log n +
// g)) for n operators and g in-place groups.
// Promises. Sets, order and curve are upstream's, its quirks included; each is named where it is
// kept. Equal ratios, and times that are summed, come in the order in which CPython walks the sets
// that upstream keeps (python_set.h): ascending, except for sparse sets.
// Source: docs/mathematics/torch-checkpointing.md#greedy-order-and-trade-off-curve.
#pragma once

#include <utility>
#include <vector>

#include "plimsoll/checkpoint/module_stats.h"
#include "plimsoll/core/result.h"

namespace plimsoll::checkpoint {

struct InplaceGroup {
  int head = 0;
  std::vector<int> ops;  // ascending, the head among them
  bool operator==(const InplaceGroup&) const = default;
};

struct RecomputeCandidate {
  int op = 0;  // the head of what is recomputed together
  Bytes memory = 0;
  double runtime = 0;  // ms
  double msps = 0;     // memory / runtime; the largest double where runtime is 0
  bool operator==(const RecomputeCandidate&) const = default;
};

struct SACGreedyOrder {
  std::vector<int> stored_ops;               // ascending; heads of what is always kept
  std::vector<int> recomputed_ops;           // ascending; never kept
  std::vector<InplaceGroup> inplace_groups;  // by head
  std::vector<int> random_ops;               // ascending, the first is the head; may be empty
  std::vector<RecomputeCandidate> order;
  bool operator==(const SACGreedyOrder&) const = default;
};

// `stats` is valid.
SACGreedyOrder make_greedy_order(const SACStats& stats);

struct TradeoffCurve {
  Bytes sac_memory = 0;    // sum over all operators
  double sac_runtime = 0;  // ms, sum over all operators
  // (discarded / sac_memory + 0.01, recomputed / sac_runtime), x increasing.
  std::vector<std::pair<double, double>> points;
  bool operator==(const TradeoffCurve&) const = default;
};

// `order` is made from `stats`. Errors: kZeroDivision where the operators take no
// memory or no time at all, kOverflow where the sizes do not fit into 63 bits.
Result<TradeoffCurve> make_tradeoff_curve(const SACStats& stats, const SACGreedyOrder& order);

}  // namespace plimsoll::checkpoint
