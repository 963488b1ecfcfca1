// What `plimsoll checkpoint` was given, told by the document itself.
#pragma once

#include <string_view>

namespace plimsoll::io {

enum class CheckpointInput {
  kModuleStats,   // module_stats_json.h; whatever is none of the others, too
  kSACStats,      // one operator table, module_stats_json.h
  kAotPartition,  // the log of torch's partitioner, aot_partition_json.h
};

// By "schema" or, where there is none, by a key that only that document has.
CheckpointInput find_checkpoint_input(std::string_view text);

}  // namespace plimsoll::io
