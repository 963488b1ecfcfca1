// Devices and rules that the flags lay over a graph that names devices of its own.
#pragma once

#include "plimsoll/core/result.h"
#include "plimsoll/partition/partition_case.h"
#include "plimsoll/partition/partition_flags.h"
#include "plimsoll/partition/partitioner_config.h"

namespace plimsoll::app {

// Errors of all: the flag as their place.
Result<void> check_repetition(const std::vector<std::string>& given, const std::string& flag);

// Number and memory of a cost graph's devices.
Result<void> set_devices(const PartitionFlags& flags, PartitionCase& made);
// Pins and forbidden devices of a cost graph.
Result<void> set_rules(const PartitionFlags& flags, PartitionCase& made);
// torch's devices have no classes: --on and --devices make equal ones.
Result<void> set_fx_devices(const PartitionFlags& flags, partition::PartitionerConfig& config);

}  // namespace plimsoll::app
