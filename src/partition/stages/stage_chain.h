// The best pipeline whose stages end at given downsets.
//
// Problem. A pipeline is a chain of downsets from the empty to the full one; each step is a stage,
// which takes one device of some kind or none. Make the largest load of a stage small.
// Method. Dynamic programming over (devices used of each kind, downset): the best largest load of a
// pipeline that has done the downset with those devices. A stage is tried only while its time alone
// undercuts what is known. Given a limit on the answer, a downset can stand after a set of devices
// only if its work (and bytes) fits these devices and the rest fits the others: the window.
// Cost. O(states * pairs of downsets in windows * (words + cut nets)) at worst.
// Promises. Finds the least largest load among these chains if that is at most `limit`; says so if
// there is none. Loads are compared as sums, so answers that differ by rounding are equal.
// Source: docs/mathematics/placements.md#contiguous-splits.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "partition/graph/downsets.h"
#include "plimsoll/core/outcome.h"
#include "plimsoll/core/run_context.h"

namespace plimsoll::partition {

struct ChainStage {
  int kind = 0;
  int begin = 0, end = 0;  // downsets; the stage is end \ begin
};

struct StageChain {
  double largest_load = 0;
  std::vector<ChainStage> stages;  // in pipeline order
};

enum class ChainStop { kFinished, kEffort, kDeadline, kCancelled };
StopReason reason_of(ChainStop stop);

// Counts pairs that were tried down from what is left, if that is limited; says whether it is used
// up or `context` wants an end.
ChainStop count_pairs(std::int64_t num_pairs, std::int64_t* pairs_left, const RunContext& context);

struct ChainAnswer {
  std::optional<StageChain> chain;
  ChainStop stop = ChainStop::kFinished;  // else nothing is known
};

struct ChainSearch {
  double limit = kUnlimited;  // of the largest load
  double floor = 0;           // no pipeline is better than that: no need to look below it
  bool uses_windows = true;
  std::int64_t* pairs_left = nullptr;  // counted down; at 0 the search stops
};

ChainAnswer find_best_chain(const GroupGraph& groups, const Downsets& downsets,
                            const ChainSearch& search, const RunContext& context);

}  // namespace plimsoll::partition
