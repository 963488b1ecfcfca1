// Placements of torch.fx's graphs: our own documents and torch's partition results.
//
// torch's Partitioner leaves objects, no file; what is read here is what their fields say, as in
// recorded cases: "partitions", a list of {id, nodes, logical_device_ids, used_mem_bytes}, and
// "node_to_partition", {node: id}; "critical_path_latency" in seconds where somebody asked for it.
// Other keys are passed over. Source:
// docs/mathematics/torch-fx-partitioner.md#partitions-and-levels.
#pragma once

#include <string_view>

#include "io/json/json_document.h"
#include "plimsoll/core/result.h"
#include "plimsoll/io/placement_json.h"
#include "plimsoll/partition/graph.h"
#include "plimsoll/partition/placement.h"

namespace plimsoll::io {

// Is this such a result of torch's?
bool is_fx_partition(const JsonValue& root);

// As one of our answers, without status. Errors: kSyntax, kSchema, kValue.
Result<PlacementAnswer> read_fx_partition(std::string_view text, std::string_view file);
Result<PlacementAnswer> read_fx_partition_tree(const JsonValue& root, std::string_view file);

// The partitions that an answer names; of an answer without a mapping of nodes, the stages' own.
// Errors at the file: kValue (no stages, a name that no node has), kUsage (an answer for another
// objective).
Result<partition::Placement> take_fx_placement(const PlacementAnswer& answer,
                                               const partition::Graph& graph,
                                               std::string_view file);

}  // namespace plimsoll::io
