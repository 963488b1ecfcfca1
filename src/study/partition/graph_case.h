// A graph on its devices, in the forms that the searches take.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plimsoll/partition/cost_graph.h"
#include "plimsoll/partition/graph.h"
#include "plimsoll/partition/partitioner_config.h"
#include "plimsoll/partition/replicated_stages.h"

namespace plimsoll::study {

// What torch.fx's Partitioner is given.
struct FxInput {
  partition::Graph graph;
  partition::PartitionerConfig config;
  bool operator==(const FxInput&) const = default;
};

// One of `costs` and `fx`.
struct GraphCase {
  std::optional<partition::CostGraph> costs;      // for our own searches
  std::vector<std::string> names;                 // [num_nodes] distinct, of the cost graph
  std::optional<partition::PipelineTerms> terms;  // of a cost graph, for objective pipeline
  std::optional<FxInput> fx;                      // for torch's
};

}  // namespace plimsoll::study
