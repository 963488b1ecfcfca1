// What an answer claims of its pipeline over a profile, held against the judges of the room check.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/check/pipeline_check.h"
#include "plimsoll/core/result.h"
#include "study/partition/pipeline_answer.h"

namespace plimsoll::study {

inline constexpr const char* kSlowestStage = "slowest_stage";  // objectives
inline constexpr const char* kBatch = "batch";

// `contradictions`: what it says of its making and is not so. By its own record or by `is_straight`
// no stage is replicated.
Result<check::PipelineReport> judge_profile_plan(const partition::PipelineModel& model,
                                                 const PipelineAnswer& answer,
                                                 std::vector<std::string> contradictions,
                                                 bool is_straight, bool is_strict);

}  // namespace plimsoll::study
