// What ranks have to fetch so that the shards of one plan stand as in another.
#pragma once

#include "plimsoll/embedding/model.h"
#include "plimsoll/embedding/sharding_plan.h"
#include "plimsoll/study/plan_difference.h"

namespace plimsoll::study {

// Sets the moved values of `difference.changes` and its traffic; bytes where there is a `model`,
// which may be null. Errors: those of table_shape.
Result<void> put_moves(const embedding::ShardingPlan& before, const embedding::ShardingPlan& after,
                       const embedding::Model* model, PlanDifference& difference);

}  // namespace plimsoll::study
