// The least time of any plan of a model, and the least peak, by a search of the checker's own.
//
// Problem. Of all units that do not hold one another, each keeping what some choice of operators
// keeps, find what takes least time within a budget. Runs of modules and units within units are
// left out.
// Method. Positions are walked in forward post-order with labels (bytes gone, height so far, ms),
// of which only those that no other beats are kept. In a nested order a unit leads from the labels
// before its first position to those behind its last; in any other order the sets of units are
// walked one by one. Choices of operators are built group by group, by rules of the checker's own.
// A fitted price is taken at every whole byte where these are few; else each set of units buys its
// bytes where they are cheapest, which is exact for convex prices.
// Told that only plans below some time matter, it drops labels and choices that a price on bytes
// (checkpoint_price_bound.h) shows to end above it.
// Cost. Exponential at worst; given up beyond `max_labels` that are kept, or 32 times as many made.
// Promises. `least_ms` is exact; of fitted prices bought by the piece, exact except for what a byte
// or two cost.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "check/checkpoint/checkpoint_rules.h"

namespace plimsoll::check {

inline constexpr std::int64_t kMaxLabels = 1 << 20;

struct CheckpointOptimum {
  std::string obstacle;            // why there are no plans here; empty: these are all
  std::vector<PeakAndTime> plans;  // by peak; of a budget only those within, in ms the least last
  std::int64_t num_labels = 0;
};

// Plans within the budget; absent: all. A plan's peak is what the checker would find.
CheckpointOptimum find_checkpoint_plans(const JudgedCheckpoint& given, std::optional<Bytes> budget,
                                        std::int64_t max_labels = kMaxLabels);

// Those within the budget that take less than `ms`, and perhaps others; may be none.
CheckpointOptimum find_plans_below(const JudgedCheckpoint& given, Bytes budget, double ms,
                                   std::int64_t max_labels = 8 * kMaxLabels);

// The least peak of any plan; absent where that was not found out.
std::optional<Bytes> find_least_peak(const JudgedCheckpoint& given,
                                     std::int64_t max_labels = kMaxLabels);

}  // namespace plimsoll::check
