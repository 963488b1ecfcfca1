// Costs that somebody measured, laid over a graph: CSV of `node,device_class,time_ms,mem_bytes`.
//
// The first line is that header. A row gives a node's time on a class of devices, and what the node
// holds; an empty field gives nothing. Names with commas or quotes stand in quotes, as in RFC 4180.
// Source: docs/formats.md#operator-graphs.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/core/result.h"
#include "plimsoll/partition/cost_graph.h"
#include "plimsoll/partition/operator_graph.h"

namespace plimsoll::io {

struct OverlayRow {
  std::string node;
  std::string device_class;
  std::optional<double> time_ms;  // >= 0, finite
  std::optional<Bytes> memory;    // >= 0
  std::string place;              // "file.csv:3", for errors
};

struct CostOverlay {
  std::vector<OverlayRow> rows;
};

// Errors at "file.csv:<line>": kSchema (another header, another number of fields, an empty name),
// kSyntax (a quote that does not end), kValue (no number, below 0, not finite), kOverflow.
Result<CostOverlay> read_cost_overlay(std::string_view text, std::string_view file);

// Nodes by name. A class becomes a time column, new ones in order of appearance; memory becomes the
// node's measured memory. Errors, at the row, the graph then unchanged: kNotFound (no such node),
// kConflict (a node's time on a class twice, two memories of a node that differ).
Result<void> apply_overlay(const CostOverlay& overlay, partition::OperatorGraph& graph);
// The same for a cost graph, whose classes must exist (kNotFound). Nodes by key, such as their
// number in a file, or by a name that is one node's alone (kConflict). `keys`: [num_nodes]
// distinct.
Result<void> apply_overlay(const CostOverlay& overlay, std::span<const std::string> keys,
                           partition::CostGraph& graph);

}  // namespace plimsoll::io
