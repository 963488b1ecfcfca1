// Which operators of a unit to keep: every choice that is worth having, by operator tables.
//
// Problem. A checkpointing unit keeps the outputs of some of its operators and runs the rest again.
// Find all choices for which no other keeps fewer bytes and recomputes no longer; where copies
// count, and none that keeps fewer of what autograd would not have kept.
// Method. Operators that must be treated alike form groups: an in-place operator with what it
// changes, and all random ones. Groups are added one at a time to the set of undominated (kept
// bytes, saved time) pairs.
// Cost. O(g p) time for g groups and p points of the answer at most at any stage, O(g p^2) where
// copies count; of a transformer block about a dozen groups and 20 points.
// Promises. Every point has a bit for each operator; the points are a function of the table alone.
// They are all the undominated ones unless these come to more than `max_options` after some group:
// then choices go that save hardly more time than one that keeps fewer bytes, and `is_complete` is
// false. The vertices of the lower convex hull of (kept bytes, time) stay, so that a price of bytes
// has its best choice there.
// Departures from the reference's policy, each needed by a plan that really runs: the operator that
// makes the module's output is never saved and costs nothing to recompute (recomputation stops
// before it); in-place groups are never saved (a cached tensor must not be changed afterwards); an
// operator that changes a tensor from outside the module is saved, because running it again would
// change it twice.
// Random operators that must be stored are saved except for the one that makes the output; where
// another of them cannot be saved, all of them run again.
// Sources: docs/mathematics/checkpointing.md#choices-of-operators,
// docs/mathematics/torch-checkpointing.md#applying-a-policy.
#pragma once

#include <optional>
#include <vector>

#include "plimsoll/checkpoint/checkpoint_policy.h"
#include "plimsoll/checkpoint/module_stats.h"

#pragma GCC visibility push(default)
namespace plimsoll::checkpoint {

struct OperatorOption {
  Bytes kept = 0;           // memory of the saved operators
  Bytes kept_extra = 0;     // of these, what autograd would not have saved
  double recompute_ms = 0;  // of the operators that run again
  std::vector<char> save;   // [n] 1 = save
  bool operator==(const OperatorOption&) const = default;
};

struct OperatorRules {
  // Recomputation ends with the last operator that autograd saves: what follows is free. Off: all
  // that is not saved runs again, except for the operator that makes the output.
  bool early_stop = false;
  // A choice that keeps less beside what autograd keeps may be better in that alone (saved_copies).
  bool counts_copies = false;
  // Beyond this many choices some are left out. >= 2
  std::size_t max_options = 256;
};

struct OperatorOptions {
  // By kept bytes, ascending; recompute_ms descends unless copies count.
  std::vector<OperatorOption> options;
  bool is_complete = true;  // every undominated choice is there
  // A choice left out recomputes at most this much less than one that is there and keeps no more,
  // of copies neither where these count.
  double loss_ms = 0;
};

// `stats` is valid and may be empty (one option).
OperatorOptions operator_options(const SACStats& stats, const OperatorRules& rules = {});

// All undominated choices with recompute_ms + price * kept <= most, where `price` is of a kept
// byte, >= 0; absent where they are more than `max_options` after some group.
std::optional<OperatorOptions> operator_options_within(const SACStats& stats, double price,
                                                       double most, const OperatorRules& rules);

// One choice for each operator of the table, occurrences of a name counted. `save` is [n].
std::vector<OperatorChoice> make_operator_choices(const SACStats& stats,
                                                  const std::vector<int>& save);

// Gives the unit these choices, and the kind and the handling of random operators that follow.
void keep_operators(const SACStats& stats, const std::vector<int>& save, CheckpointUnit& unit);

// The operator whose output is the module's, -1 without one: the last that is neither view-like
// nor in-place. The tables charge no memory for it.
int output_operator(const SACStats& stats);

}  // namespace plimsoll::checkpoint
#pragma GCC visibility pop
