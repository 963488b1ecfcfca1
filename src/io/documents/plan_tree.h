// Plans of our own forms from trees that are already parsed; which of them a tree is.
#pragma once

#include <string_view>

#include "io/documents/pipeline_plan_json.h"
#include "io/json/json_document.h"
#include "plimsoll/io/checkpoint_policy_json.h"
#include "plimsoll/io/placement_json.h"
#include "plimsoll/io/plan_json.h"
#include "plimsoll/study/replan.h"

namespace plimsoll::io {

// By "schema" or, where there is none, by a key that only that document has.
bool is_checkpoint_policy_tree(const JsonValue& root);
bool is_pipeline_answer_tree(const JsonValue& root);
bool is_placement_tree(const JsonValue& root);

// A replan, which holds a plan: its new one is what is read of it as a sharding plan.
bool is_replan_tree(const JsonValue& root);
Result<study::Replan> read_replan_tree(const JsonValue& root, std::string_view file);

Result<ShardingAnswer> read_plan_tree(const JsonValue& root, std::string_view file);
Result<CheckpointAnswer> read_checkpoint_tree(const JsonValue& root, std::string_view file);
Result<PipelineAnswer> read_pipeline_tree(const JsonValue& root, std::string_view file);
Result<PlacementAnswer> read_placement_tree(const JsonValue& root, std::string_view file);

}  // namespace plimsoll::io
