#include "plimsoll/embedding/transfer.h"

namespace plimsoll::embedding {

std::string_view to_string(TransferKind kind) {
  switch (kind) {
    case TransferKind::kCopy:
      return "copy";
    case TransferKind::kStage:
      return "stage";
    case TransferKind::kFree:
      return "free";
  }
  return "";
}

std::string_view to_string(ScheduleStatus status) {
  switch (status) {
    case ScheduleStatus::kComplete:
      return "complete";
    case ScheduleStatus::kNeedsSpare:
      return "needs_spare";
    case ScheduleStatus::kNone:
      return "none";
  }
  return "";
}

}  // namespace plimsoll::embedding
