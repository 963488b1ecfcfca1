// What torch's partitioner logs of a compiled graph, as a knapsack: the artifact
// "min_cut_information" that AOT_PARTITIONER_DEBUG leaves beside torch's structured trace.
//
// Read are the joint graph, the candidates, their normalised memory and runtimes, and what that run
// chose. Keys of other releases and of other tools are passed over. Source:
// docs/mathematics/torch-checkpointing.md#the-log-of-the-partitioner.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/torch/graph_info.h"
#include "plimsoll/core/result.h"
#include "plimsoll/core/units.h"

namespace plimsoll::io {

struct AotPartition {
  checkpoint::GraphInfo graph;
  std::optional<double> memory_budget;     // in [0, 1]: the knapsack's max_memory
  std::optional<double> expected_runtime;  // of what was saved, as the solver summed it
  std::vector<int> saved, recomputed;      // candidates, as that run chose; may be empty
  std::vector<Bytes> absolute_memory;      // [candidates], or empty
  std::vector<std::string> saved_values;   // nodes that the final cut saved
  bool operator==(const AotPartition&) const = default;
};

// Errors: kSyntax, kSchema (a missing key, a name that no node has, indices that are not a
// numbering), kValue, kConflict, and those of checkpoint::validate, placed in the document.
Result<AotPartition> read_aot_partition(std::string_view text, std::string_view file);

}  // namespace plimsoll::io
