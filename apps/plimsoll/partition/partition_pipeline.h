// `partition` and `check` of profiles whose stages may be replicated: PipeDream's and Piper's.
#pragma once

#include <optional>
#include <string>

#include "io/import/piper_json.h"
#include "io/import/plan_file.h"
#include "plimsoll/core/result.h"
#include "plimsoll/io/graph_formats.h"
#include "plimsoll/planning_run.h"
#include "study/partition/pipeline_answer.h"
#include "study/partition/profile_planning.h"

namespace plimsoll::app {

struct PartitionFlags;

// A profile on the devices that the flags name.
struct PipelineCase : study::ProfileCase {
  std::string name;  // for people
  std::optional<io::PiperInput> piper;
};

// Precondition: a file of one of the two formats. Errors carry the flag as their place.
Result<PipelineCase> read_pipeline_case(const io::GraphFile& file, const PartitionFlags& flags);

struct PipelineRun {
  GlobalFlags global;
  std::string time_limit;
  SearchOptions search;
  std::string objective;  // throughput, the default, or pipeline
  std::string name;       // of the search: replicated, the default, or pipedream
  std::string form;       // of --export; empty: none
  bool wants_text = true;
};

// Plans as run_planning() asks. Errors: kUsage for names that do not go together, at their flags.
Result<Answered> plan_pipeline_case(const PipelineCase& made, const PartitionFlags& flags,
                                    const PipelineRun& run);

// The plan of a profile as plimsoll, piper or pipedream writes it. Error kUsage, at `flag`, where
// the form is of another profile.
Result<std::string> write_pipeline_export(const PipelineCase& made,
                                          const study::PipelineAnswer& answer,
                                          const std::string& form, const std::string& flag);

// The profile and the plan. Devices, memory and links are those that the plan names, and of a
// graph.txt as many devices as it has stages, one each; flags win over that.
struct ReadPipelinePlan {
  PipelineCase made;
  study::PipelineAnswer answer;  // of another program's plan: stages alone
};
Result<ReadPipelinePlan> read_pipeline_plan(PartitionFlags flags, const io::PlanFile& file);

// Judges such a plan, prints, and returns the exit code.
int run_pipeline_check(const PartitionFlags& flags, const io::PlanFile& plan, bool is_strict,
                       const GlobalFlags& global);

}  // namespace plimsoll::app
