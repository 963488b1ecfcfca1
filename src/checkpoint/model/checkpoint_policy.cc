#include "plimsoll/checkpoint/checkpoint_policy.h"

namespace plimsoll::checkpoint {

std::string_view to_string(UnitKind kind) {
  switch (kind) {
    case UnitKind::kFull:
      return "full";
    case UnitKind::kSelective:
      return "selective";
  }
  return "";
}

std::string_view to_string(RngHandling handling) {
  switch (handling) {
    case RngHandling::kRecompute:
      return "recompute";
    case RngHandling::kSave:
      return "save";
  }
  return "";
}

}  // namespace plimsoll::checkpoint
