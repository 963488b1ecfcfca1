// An order in which shards of one plan become those of another, within all caps.
//
// Problem. A shard of the new plan is allocated whole and filled from ranks that hold its values; a
// shard of the old plan is dropped once all that is needed of it is copied. At no step may a rank
// hold more than its cap; one that holds more at the start may only hold less. A shard that stays
// as it is costs nothing. Training stands still, so that only weights, optimizer state and caches
// count.
// Method. Copies in passes over all that are left, those that free most first; each that fits is
// made, and what nobody needs any more is dropped at once. Where none fits, a shard makes room: it
// is copied to the DDR of its rank, else to the rank that has most room, once. Where that does not
// help either, the same begins again with as much HBM more on every rank as the copy lacks that
// lacks least, until all is done.
// Cost. O(passes * copies); a pass makes one copy at least.
// Promises. Deterministic. It may ask for a spare buffer where another order needs none;
// `is_spare_proved` where no shard can be moved at all without. Source:
// docs/replan.md#the-schedule.
#pragma once

#include <vector>

#include "plimsoll/core/result.h"
#include "plimsoll/embedding/planner.h"
#include "plimsoll/embedding/transfer.h"
#include "study/replan/held_tables.h"

namespace plimsoll::study {

// `enumeration` of the new model, `room` after reservation; `pools_ddr`: the ranks of a host share
// their DDR. Errors: those of estimating.
Result<embedding::TransferSchedule> schedule_transfers(const embedding::Estimator& estimator,
                                                       const embedding::Enumeration& enumeration,
                                                       const topology::Topology& room,
                                                       bool pools_ddr,
                                                       const embedding::ShardingPlan& before,
                                                       const embedding::ShardingPlan& after);

}  // namespace plimsoll::study
