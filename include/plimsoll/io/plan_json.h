// Sharding plans as JSON: "plimsoll.plan/1", alone or as part of the whole answer of a planning
// run. Ranks and shards are written in runs, so a plan for thousands of ranks stays small.
// Non-finite numbers are written as null. Strictness as in model_json.h.
#pragma once

#include <string>
#include <string_view>

#include "plimsoll/core/result.h"
#include "plimsoll/embedding/sharding_plan.h"
#include "plimsoll/study/sharding_answer.h"

#pragma GCC visibility push(default)
namespace plimsoll::io {

using study::FrontierPlan;
using study::FrontierProof;
using study::PlanFailure;
using study::ShardCosts;
using study::ShardingAnswer;
using study::TakenOption;

// Reads the bare plan or the whole answer. Besides the shape: every shard has a rank, and no run
// exceeds 63 bits. Whether the plan is right is the checker's question. Error kConflict: a stated
// gap that objective and lower bound contradict.
Result<ShardingAnswer> read_plan(std::string_view text, std::string_view file);

std::string write_plan(const embedding::ShardingPlan& plan);
// Without a status: the bare plan.
std::string write_answer(const ShardingAnswer& answer);

}  // namespace plimsoll::io
#pragma GCC visibility pop
