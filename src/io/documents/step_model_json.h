// Step models as JSON, "plimsoll.step_model/1": what a step takes, as data (embedding::StepModel).
// Keys are its field names; what is absent has its default, and a model that is read is not
// `assumed`. Strictness as in model_json.h.
#pragma once

#include <string>
#include <string_view>

#include "plimsoll/core/result.h"
#include "plimsoll/embedding/placement_bridge.h"

namespace plimsoll::io {

Result<embedding::StepModel> read_step_model(std::string_view text, std::string_view file);
std::string write_step_model(const embedding::StepModel& model);

}  // namespace plimsoll::io
