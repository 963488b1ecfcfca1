// The JSON of the placement benchmark "dnn-partitioning",
// https://github.com/msr-fiddle/dnn-partitioning: operator graphs with their costs, and splits of
// them. Its "FPGA" is any accelerator.
//
// As a cost graph: class 0 is "accelerator" (count maxFPGAs, cap maxSizePerFPGA, link rate 1, so
// that a net's amount is its transfer in ms), class 1 is "cpu" (count maxCPUs, no cap, moving is
// free). A node that is not supported on accelerators takes unlimited time there. All edges out of
// a node are one net. A node's `layerId`, an edge's `size` and the latency of an unsupported node
// have no place in a cost graph: they are read over and not written, and so are `name`,
// `description` and `source` of the whole, which the shipped graphs have. Source:
// docs/mathematics/placements.md#files-of-other-programs. Strictness as in model_json.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/json/json_document.h"
#include "plimsoll/core/result.h"
#include "plimsoll/partition/cost_graph.h"
#include "plimsoll/partition/device_assignment.h"

namespace plimsoll::io {

struct DnnPartitioningInput {
  partition::CostGraph graph;
  std::vector<std::int64_t> ids;  // [num_nodes] distinct, the file's names of the nodes
  bool operator==(const DnnPartitioningInput&) const = default;
};

// Is this such a split, by its "fpgas"?
bool is_dnn_partitioning_split(const JsonValue& root);

// Besides the shape: distinct ids, edges between nodes that exist and at most one from node to
// node, equal costs (to 1e-6; the first one counts) on all edges out of a node, whole bytes, no
// artificial edge, no cycle, no edge from backward to forward.
Result<DnnPartitioningInput> read_dnn_partitioning(std::string_view text, std::string_view file);

// Error kUsage for what the format cannot say: other classes than above, pins, forbidden devices,
// two nets of one producer, ids of another number.
Result<std::string> write_dnn_partitioning(const DnnPartitioningInput& input);

// {"maxLoad", "fpgas": [{"load", "nodes"}], "cpus": [...]}, nodes by id. Loads that are read are
// not looked at. Besides the shape: every node on one device, no more devices than there are.
Result<partition::DeviceAssignment> read_dnn_partitioning_split(std::string_view text,
                                                                std::string_view file,
                                                                const DnnPartitioningInput& input);
Result<partition::DeviceAssignment> read_dnn_partitioning_split(const JsonValue& root,
                                                                std::string_view file,
                                                                const DnnPartitioningInput& input);
// Precondition: a valid assignment of the input's graph, whose classes are as above.
std::string write_dnn_partitioning_split(const DnnPartitioningInput& input,
                                         const partition::DeviceAssignment& assignment);

}  // namespace plimsoll::io
