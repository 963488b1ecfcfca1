#include "io/documents/checkpoint_input.h"

#include "io/documents/checkpoint_descriptions.h"
#include "io/json/json_reader.h"

namespace plimsoll::io {

CheckpointInput find_checkpoint_input(std::string_view text) {
  const auto root = parse_json(text, "");
  if (!root) return CheckpointInput::kModuleStats;  // its reader tells the error
  if (root->find("schema") != nullptr) {
    return check_schema(*root, "", kSACStatsSchema) ? CheckpointInput::kSACStats
                                                    : CheckpointInput::kModuleStats;
  }
  if (root->find("Joint Graph Node Information") != nullptr) return CheckpointInput::kAotPartition;
  return root->find("func_names") != nullptr ? CheckpointInput::kSACStats
                                             : CheckpointInput::kModuleStats;
}

}  // namespace plimsoll::io
