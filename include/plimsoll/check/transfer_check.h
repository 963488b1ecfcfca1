// What makes a transfer schedule right: its steps, simulated one by one. Estimates of bytes are
// shared with the planner, everything else is computed again.
//
// At the start every rank holds the shards of the old plan. A step allocates a shard and copies
// into it, from the ranks it names and from its own, every value that some rank held at the start;
// or drops one. No rank may hold more of a tier than its cap (and the spare buffer, of HBM) after a
// step that adds to what it holds. At the end every rank holds its shards of the new plan, and
// nothing else. Source: docs/replan.md#the-schedule.
#pragma once

#include <vector>

#include "plimsoll/check/sharding_check.h"
#include "plimsoll/core/result.h"
#include "plimsoll/embedding/transfer.h"

#pragma GCC visibility push(default)
namespace plimsoll::check {

struct TransferCase {
  const embedding::Model* model = nullptr;       // the new one; never null
  const topology::Topology* topology = nullptr;  // before reservation; never null
  embedding::CostModel cost_model;
  embedding::RunMode mode;
  CheckOptions options;  // batch, reservation, pools
  embedding::ShardingPlan before, after;
};

// Violations of code kTransferMismatch, the first of each step. Of a schedule that states none
// (kNone) nothing is judged. Errors: those of estimating and reserving.
Result<std::vector<Finding>> check_transfers(const TransferCase& given,
                                             const embedding::TransferSchedule& schedule);

// Of the new plan's shards, the weights and optimizer state that some rank holds by the old plan
// and the shard's own does not. Errors as above.
Result<Bytes> count_moved_bytes(const TransferCase& given);

}  // namespace plimsoll::check
#pragma GCC visibility pop
