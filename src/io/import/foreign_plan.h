// Sharding plans in the forms that other programs write.
//
// TorchRec: {module: {table: {sharding_type, compute_kernel, ranks, shards: [{shard_offsets,
// shard_sizes, placement}]}}}, without `shards` where a table is replicated. TorchEasyRec's
// checkpoints: the same without any `shards`. Source:
// docs/mathematics/torchrec-planner.md#the-plan.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "io/json/json_document.h"
#include "plimsoll/core/result.h"
#include "plimsoll/embedding/cost_model.h"
#include "plimsoll/embedding/model.h"
#include "plimsoll/embedding/sharding_plan.h"
#include "plimsoll/io/plan_json.h"
#include "plimsoll/topology/topology.h"

namespace plimsoll::io {

std::string write_torchrec_plan(const embedding::ShardingPlan& plan);
std::string write_easyrec_plan(const embedding::ShardingPlan& plan);

// What such a file leaves unsaid: the tables, the ranks, and how a release cuts.
struct ForeignPlanContext {
  const embedding::Model& model;
  const topology::Topology& topology;
  const embedding::CostModel& cost_model;
};

// Both forms, table by table: a table without `shards` is cut again by the rules of the release,
// column cuts into as many columns as its ranks ask for. Errors: kNotFound (a table without shards
// that the model lacks), kConflict (ranks that contradict the placements or the cut), and those of
// cutting.
Result<embedding::ShardingPlan> read_foreign_plan(std::string_view text, std::string_view file,
                                                  const ForeignPlanContext& context);

// Any of the three forms: ours is known by "schema", a list "tables", or the keys of an answer.
Result<ShardingAnswer> read_any_plan(std::string_view text, std::string_view file,
                                     const ForeignPlanContext& context);

// The same of a tree. Only other programs' forms need a context: our own is read first, and says
// what it was made for.
bool is_own_plan(const JsonValue& root);
Result<embedding::ShardingPlan> read_foreign_plan(const JsonValue& root, std::string_view file,
                                                  const ForeignPlanContext& context);

// How each table of a plan in any of the three forms is cut, by fqn, whatever machine and model the
// plan was made for: all that TorchEasyRec takes from a checkpoint. Error kValue: an answer without
// a plan.
Result<std::map<std::string, embedding::ShardingType>> read_sharding_types(std::string_view text,
                                                                           std::string_view file);

}  // namespace plimsoll::io
