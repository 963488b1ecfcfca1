#include "plimsoll/embedding/machine_model.h"

namespace plimsoll::embedding {

std::string_view to_string(PassDirection direction) {
  return direction == PassDirection::kForward ? "forward" : "backward";
}

std::string_view to_string(CollectiveGroup group) {
  switch (group) {
    case CollectiveGroup::kHost:
      return "host";
    case CollectiveGroup::kFastDomain:
      return "fast_domain";
    case CollectiveGroup::kWorld:
      return "world";
  }
  return "world";
}

std::string_view to_string(FigureKind kind) {
  switch (kind) {
    case FigureKind::kMeasured:
      return "measured";
    case FigureKind::kFitted:
      return "fitted";
    case FigureKind::kPublished:
      return "published";
    case FigureKind::kAssumed:
      return "assumed";
  }
  return "assumed";
}

}  // namespace plimsoll::embedding
