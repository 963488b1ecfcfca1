// Checkpointing plans as JSON: "plimsoll.checkpoint_policy/1".
//
// A unit is named by `fqn`, or by `fqns` where it spans several modules; its `memory_budget` is
// 1 - `discard_ratio`, as torch.compile and torch's own policy take it, and is read only to be
// compared. Strictness as in model_json.h. Source: docs/formats.md#checkpointing-plan.
#pragma once

#include <string>
#include <string_view>

#include "plimsoll/core/result.h"
#include "plimsoll/study/checkpoint_answer.h"

#pragma GCC visibility push(default)
namespace plimsoll::io {

using study::CheckpointAnswer;
using study::CheckpointPrediction;
using study::ProfileEntry;

// Is this such a document, by its "schema" or, where it has none, by a list "units"?
bool is_checkpoint_policy(std::string_view text);

// Besides the shape: a policy or a status; every unit has modules and no module is in two;
// operators ascend; a unit of kind full keeps none; on the frontier more bytes cost no more time.
// Whether the plan suits a model is the checker's question. Errors: kSyntax, kSchema, kValue,
// kOverflow, kConflict.
Result<CheckpointAnswer> read_checkpoint_answer(std::string_view text, std::string_view file);
std::string write_checkpoint_answer(const CheckpointAnswer& answer);

}  // namespace plimsoll::io
#pragma GCC visibility pop
