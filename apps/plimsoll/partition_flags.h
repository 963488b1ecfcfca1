// What `partition`, `check` and `convert` ask of an operator graph, and the formats they read.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/core/outcome.h"
#include "plimsoll/core/result.h"
#include "plimsoll/io/fx_graph_json.h"
#include "plimsoll/io/placement_json.h"
#include "plimsoll/partition/cost_graph.h"
#include "plimsoll/partition/device_assignment.h"
#include "plimsoll/partition/operator_costs.h"
#include "plimsoll/partition/operator_graph.h"
#include "plimsoll/partition_pipeline.h"

namespace plimsoll::app {

struct PartitionFlags {
  std::string graph;
  std::string on;
  std::vector<std::string> devices;    // N, or CLASS=N
  std::vector<std::string> memory;     // SIZE, or CLASS=SIZE
  std::vector<std::string> pins;       // NODE=DEVICE
  std::vector<std::string> forbidden;  // NODE=DEVICE
  // Of traced models alone.
  std::string times;         // a class of devices, or roofline
  std::string cost_overlay;  // a CSV file
  std::string launch_floor;
  std::string activations = "none";  // none, stashed, all
  // Of profiles of pipelines alone.
  std::string bandwidth;
  int microbatches = 0;  // 0: as the profile says
  bool straight = false;
};

// All but the graph and --on, which other commands have already.
void add_partition_flags(CLI::App& command, PartitionFlags& flags);

// A traced model, beside the cost graph that was made of it.
struct OperatorCase {
  partition::OperatorGraph graph;
  partition::OperatorCosts costs;  // without its graph
};

// A graph with its devices, ready to be placed: one of `costs`, `fx` and `pipeline`.
struct PartitionCase {
  std::string name;                                  // for people
  std::string input_hash;                            // of the graph as it was read
  std::optional<partition::CostGraph> costs;         // for our own searches
  std::vector<std::string> names;                    // [num_nodes] distinct, of the cost graph
  std::optional<std::vector<std::int64_t>> dnn_ids;  // [num_nodes] of a dnn-partitioning graph
  std::optional<OperatorCase> operators;             // of a traced model
  std::optional<io::FxInput> fx;                     // for torch's
  std::optional<PipelineCase> pipeline;              // a profile, with nothing of the above
  std::vector<Warning> warnings;
};

// The graph, a file ("-": standard input) or the name of a shipped one, on the devices that the
// flags name. Errors carry the flag as their place.
Result<PartitionCase> load_partition_case(const PartitionFlags& flags);

// A placement that was read, of a graph that is there.
struct ReadPlacement {
  io::PlacementAnswer answer;  // of another program's split: stages alone
  partition::DeviceAssignment assignment;
};

// Ours, or the placement benchmark's split?
bool is_any_placement(std::string_view text);

// Either, as an assignment of the case's cost graph. Error kUsage for torch.fx's graphs.
Result<ReadPlacement> read_any_placement(std::string_view text, const std::string& file,
                                         const PartitionCase& made);

// What was asked as the options of a provenance; and back, where `flags` does not say otherwise.
std::map<std::string, std::string> provenance_options(const PartitionFlags& flags);
void fill_from_provenance(const std::map<std::string, std::string>& options, PartitionFlags& flags);

}  // namespace plimsoll::app
