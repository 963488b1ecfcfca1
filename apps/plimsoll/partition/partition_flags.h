// What `partition`, `check` and `convert` ask of an operator graph.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "plimsoll/core/result.h"

namespace CLI {
class App;
}

namespace plimsoll::app {

struct PartitionFlags {
  std::string graph;
  std::string on;
  std::vector<std::string> devices;    // N, or CLASS=N
  std::vector<std::string> memory;     // SIZE, or CLASS=SIZE
  std::vector<std::string> pins;       // NODE=DEVICE
  std::vector<std::string> forbidden;  // NODE=DEVICE
  // Of traced models alone.
  std::string machine;       // a machine document or the name of one
  std::string times;         // a class of devices, or roofline
  std::string cost_overlay;  // a CSV file
  std::string launch_floor;
  std::string activations;  // none, stashed, all; empty: stashed for pipelines, else none
  // Of pipelines alone.
  std::string bandwidth;     // of profiles
  int microbatches = 0;      // 0: as the profile says
  bool straight = false;     // no stage is replicated
  bool is_pipeline = false;  // objective pipeline: no flag of its own
};

// Error kUsage with the flag as its place.
tl::unexpected<Error> refuse(std::string flag, std::string message, std::string remedy);

// All but the graph and --on, which other commands have already.
void add_partition_flags(CLI::App& command, PartitionFlags& flags);

// What was asked as the options of a provenance; and back, where `flags` does not say otherwise.
std::map<std::string, std::string> provenance_options(const PartitionFlags& flags);
void fill_from_provenance(const std::map<std::string, std::string>& options, PartitionFlags& flags);

// What of a plan's recorded options no planner would have recorded. `own` are the flags that were
// filled from them; `others` are the options of searches that the plan may name, where they read as
// a search writes them.
std::vector<std::string> faults_of_options(const std::map<std::string, std::string>& recorded,
                                           const PartitionFlags& own,
                                           std::span<const char* const> others);

}  // namespace plimsoll::app
