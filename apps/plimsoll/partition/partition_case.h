// A graph on its devices, whatever its format, as `partition`, `check` and `convert` see it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/import/plan_file.h"
#include "plimsoll/core/outcome.h"
#include "plimsoll/core/result.h"
#include "plimsoll/io/placement_json.h"
#include "plimsoll/partition/device_assignment.h"
#include "plimsoll/partition/operator_costs.h"
#include "plimsoll/partition/operator_graph.h"
#include "plimsoll/partition/partition_flags.h"
#include "plimsoll/partition/partition_pipeline.h"
#include "study/partition/graph_case.h"

namespace plimsoll::app {

// A traced model, beside the cost graph that was made of it.
struct OperatorCase {
  partition::OperatorGraph graph;
  partition::OperatorCosts costs;  // without its graph
};

// A graph with its devices, ready to be placed: one of `costs`, `fx` and `pipeline`.
struct PartitionCase : study::GraphCase {
  std::string name;                                  // for people
  std::string input_hash;                            // of the graph as it was read
  std::optional<std::vector<std::int64_t>> dnn_ids;  // [num_nodes] of a dnn-partitioning graph
  std::optional<OperatorCase> operators;             // of a traced model
  std::optional<PipelineCase> pipeline;              // a profile, with nothing of the above
  std::string times;         // what operators' times rest on, with a machine
  std::string machine_hash;  // of the machine document
  std::vector<Warning> warnings;
};

// The graph, a file ("-": standard input) or the name of a shipped one, on the devices that the
// flags name. Errors carry the flag as their place.
Result<PartitionCase> load_partition_case(const PartitionFlags& flags);

// A placement that was read, of a graph that is there.
struct ReadPlacement {
  study::PlacementAnswer answer;  // of another program's split: stages alone
  partition::DeviceAssignment assignment;
};

// What a plan of a graph says of itself; of the benchmark's split, whose nodes are numbers,
// nothing.
Result<study::PlacementAnswer> read_placement_answer(const io::PlanFile& plan);

// Objective, devices and rules that an answer was made for, where `flags` does not say otherwise.
void fill_from_answer(const study::PlacementAnswer& answer, PartitionFlags& flags);

// Any of them as an assignment of the case's cost graph. Error kUsage for torch.fx's graphs.
Result<ReadPlacement> read_any_placement(const io::PlanFile& plan, const PartitionCase& made);

}  // namespace plimsoll::app
