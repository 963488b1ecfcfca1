// `partition` and `check` of profiles whose stages may be replicated: PipeDream's and Piper's.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "plimsoll/common.h"
#include "plimsoll/core/result.h"
#include "plimsoll/core/run_context.h"
#include "plimsoll/io/graph_formats.h"
#include "plimsoll/io/piper_json.h"
#include "plimsoll/partition/pipedream.h"
#include "plimsoll/partition/pipeline_model.h"

namespace plimsoll::app {

struct PartitionFlags;

// A profile on the devices that the flags name.
struct PipelineCase {
  std::string name;        // for people
  std::string input_hash;  // of the profile as it was read
  partition::PipelineModel model;
  std::optional<partition::PipeDreamProfile> pipedream;
  std::optional<io::PiperInput> piper;
};

// Precondition: a file of one of the two formats. Errors carry the flag as their place.
Result<PipelineCase> read_pipeline_case(const io::GraphFile& file, const PartitionFlags& flags);

struct PipelineRun {
  GlobalFlags global;
  SearchOptions search;
  std::string objective;  // throughput, the default, or pipeline
  std::string name;       // of the search: replicated, the default, or pipedream
  std::string form;       // of --export; empty: none
  std::string output;
};

// Plans, prints, and returns the exit code.
int run_pipeline(const PipelineCase& made, const PartitionFlags& flags, const PipelineRun& run);

// Judges a plimsoll.pipeline_plan/1, prints, and returns the exit code. The profile, its devices
// and memory are those that the plan names; flags win over that.
int run_pipeline_check(PartitionFlags flags, std::string_view text, const std::string& file,
                       const GlobalFlags& global);

}  // namespace plimsoll::app
