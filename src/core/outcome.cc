#include "plimsoll/core/outcome.h"

#include <cmath>

namespace plimsoll {

std::string_view to_string(SolveStatus status) {
  switch (status) {
    case SolveStatus::kOptimal:
      return "optimal";
    case SolveStatus::kFeasible:
      return "feasible";
    case SolveStatus::kInfeasible:
      return "infeasible";
    case SolveStatus::kLimit:
      return "limit";
  }
  return "limit";
}

std::string_view to_string(StopReason reason) {
  switch (reason) {
    case StopReason::kFinished:
      return "finished";
    case StopReason::kEffort:
      return "effort";
    case StopReason::kDeadline:
      return "deadline";
    case StopReason::kCancelled:
      return "cancelled";
  }
  return "finished";
}

std::optional<double> Certificate::gap() const {
  if (!lower_bound || std::isnan(objective) || std::isnan(*lower_bound)) return std::nullopt;
  if (objective == *lower_bound) return 0.0;  // also 0 / 0
  return objective / *lower_bound - 1;
}

}  // namespace plimsoll
