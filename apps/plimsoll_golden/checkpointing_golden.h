// Golden records of the checkpointing planner.
//
//   sac_instances, sac_random_trees   a fitted model: the least recompute time by budget
//   block_op_stats                    one module's operators: curve and fit
//   per_module_knapsack               one module's operators: which are kept, by budget
//   trees                             a model that torch measured: positions, baseline
//   sac_milp                          one of `trees`: what torch's program answers
//   greedy_order, policy              one module's operators: what torch's estimator and its
//                                     program for one module answer
//
// tests/data/golden/README.md describes the fields, and how near an answer must come where torch's
// own is random or not exact.
#pragma once

#include <span>

#include "golden.h"

namespace plimsoll::golden {

std::span<const Kind> checkpointing_kinds();

}  // namespace plimsoll::golden
