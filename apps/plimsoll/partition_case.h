// A graph on its devices, whatever its format, as `partition`, `check` and `convert` see it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/documents/fx_graph_json.h"
#include "plimsoll/core/outcome.h"
#include "plimsoll/core/result.h"
#include "plimsoll/io/placement_json.h"
#include "plimsoll/partition/cost_graph.h"
#include "plimsoll/partition/device_assignment.h"
#include "plimsoll/partition/operator_costs.h"
#include "plimsoll/partition/operator_graph.h"
#include "plimsoll/partition/pipeline_placement.h"
#include "plimsoll/partition_flags.h"
#include "plimsoll/partition_pipeline.h"

namespace plimsoll::app {

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
  std::optional<partition::PipelineTerms> terms;     // of a cost graph, for objective pipeline
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

// Ours, the placement benchmark's split, or a partition result of torch's?
bool is_any_placement(std::string_view text);

// What such a document says of itself; of the benchmark's split, whose nodes are numbers, nothing.
Result<io::PlacementAnswer> read_placement_answer(std::string_view text, const std::string& file);

// Objective, devices and rules that an answer was made for, where `flags` does not say otherwise.
void fill_from_answer(const io::PlacementAnswer& answer, PartitionFlags& flags);

// Any of them as an assignment of the case's cost graph. Error kUsage for torch.fx's graphs.
Result<ReadPlacement> read_any_placement(std::string_view text, const std::string& file,
                                         const PartitionCase& made);

}  // namespace plimsoll::app
