#include "plimsoll/partition/objective.h"

namespace plimsoll::partition {

std::string_view to_string(Objective objective) {
  switch (objective) {
    case Objective::kThroughput:
      return "throughput";
    case Objective::kLatency:
      return "latency";
    case Objective::kPipeline:
      return "pipeline";
    case Objective::kFx:
      return "fx";
  }
  return "";
}

}  // namespace plimsoll::partition
