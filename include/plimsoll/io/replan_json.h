// Replans as JSON: "plimsoll.replan/1", which holds both plans, the schedule and its figures.
// Strictness as in model_json.h. Where a plan is read (plan_json.h), such a document is its new
// plan.
#pragma once

#include <string>
#include <string_view>

#include "plimsoll/core/result.h"
#include "plimsoll/study/replan.h"

#pragma GCC visibility push(default)
namespace plimsoll::io {

std::string write_replan(const study::Replan& replan);
Result<study::Replan> read_replan(std::string_view text, std::string_view file);

}  // namespace plimsoll::io
#pragma GCC visibility pop
