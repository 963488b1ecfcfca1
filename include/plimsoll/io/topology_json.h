// Topologies as JSON: "plimsoll.topology/1". Keys are the field names of topology::TopologySpec;
// bandwidths are bytes per millisecond or strings ("600 GiB/s"), caps bytes or strings ("80 GiB").
// Strictness as in model_json.h.
#pragma once

#include <string>
#include <string_view>

#include "plimsoll/core/result.h"
#include "plimsoll/topology/topology.h"

#pragma GCC visibility push(default)
namespace plimsoll::io {

// Besides the shape: positive bandwidths, and lists of caps with one entry a rank.
Result<topology::TopologySpec> read_topology(std::string_view text, std::string_view file);
std::string write_topology(const topology::TopologySpec& spec);

}  // namespace plimsoll::io
#pragma GCC visibility pop
