// Devices for operator graphs, as the flags name them.
#pragma once

#include <string>
#include <string_view>

#include "plimsoll/core/result.h"
#include "plimsoll/core/units.h"
#include "plimsoll/partition/operator_costs.h"
#include "plimsoll/partition/partition_flags.h"
#include "plimsoll/topology/presets.h"

namespace plimsoll::app {

// --on as equal accelerators in hosts.
struct Hardware {
  int count = 0;
  Bytes memory = 0;          // of each
  int local_world_size = 1;  // in a host
  double intra_host_bw = 0;  // bytes per ms
  double inter_host_bw = 0;
  const topology::Accelerator* accelerator = nullptr;  // null: not known
};

// Errors kUsage and those of presets and topologies, the flag as their place.
Result<Hardware> load_hardware(const std::string& on);

// Values of --devices and --memory without their class.
Result<int> parse_device_count(std::string_view text);
Result<Bytes> parse_device_memory(std::string_view text);

// The operators' costs on the devices that the flags name: with --on, or N of the class that
// --devices, --times or the graph's own times name. Of a pipeline without activations: `stashed` is
// then what --activations counts for each microbatch.
Result<partition::OperatorCosts> make_operator_costs(const PartitionFlags& flags,
                                                     const partition::OperatorGraph& graph);

}  // namespace plimsoll::app
