// Plans of profiles whose stages may be replicated, as answers.
#pragma once

#include <optional>
#include <string>

#include "partition/profile/pipedream.h"
#include "plimsoll/core/result.h"
#include "plimsoll/core/run_context.h"
#include "plimsoll/partition/pipeline_model.h"
#include "plimsoll/partition/plan_pipeline.h"
#include "study/partition/memory_advice.h"
#include "study/partition/pipeline_answer.h"

namespace plimsoll::study {

// A profile on its devices.
struct ProfileCase {
  std::string input_hash;  // of the profile as it was read
  partition::PipelineModel model;
  std::optional<partition::PipeDreamProfile> pipedream;  // where it is one of those
};

// By our own search. `need` where nothing fits and so much on each device would do.
struct ProfilePlan {
  PipelineAnswer answer;
  std::optional<MemoryNeed> need;
};
Result<ProfilePlan> plan_profile(const ProfileCase& made, const partition::PipelineOptions& options,
                                 const RunContext& context);

// By PipeDream's published optimizer. Precondition: one of its profiles.
Result<PipelineAnswer> plan_profile_like_pipedream(const ProfileCase& made, bool is_straight);

}  // namespace plimsoll::study
