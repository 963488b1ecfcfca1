// What torch.fx's Partitioner is given, as JSON: "plimsoll.fx_graph/1", graph, devices and mode.
//
// Keys are those of recorded cases: a node {name, op, target, args, output_size, total_size,
// embedding}, `args` the names of earlier nodes; a device {name, mem, id}; `latency` {node: [memory
// seconds, computer seconds]}; `node_to_partition` and `partition_to_devices` of aot_based, the
// first in the caller's order. Strictness as in model_json.h. Source:
// docs/mathematics/torch-fx-partitioner.md#graph-and-sizes.
#pragma once

#include <string>
#include <string_view>

#include "plimsoll/core/result.h"
#include "study/partition/graph_case.h"

namespace plimsoll::io {

using study::FxInput;

// Besides the shape: what make_graph() and validate() ask; names that exist.
Result<FxInput> read_fx_graph(std::string_view text, std::string_view file);
std::string write_fx_graph(const FxInput& input);

}  // namespace plimsoll::io
