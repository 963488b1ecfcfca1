#include "plimsoll/balance/placement_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace plimsoll::balance {

std::string_view to_string(BoundMethod method) {
  switch (method) {
    case BoundMethod::kNone:
      return "none";
    case BoundMethod::kAverage:
      return "average";
    case BoundMethod::kFiltered:
      return "filtered";
    case BoundMethod::kWindows:
      return "windows";
    case BoundMethod::kPatterns:
      return "patterns";
    case BoundMethod::kBranched:
      return "branched_patterns";
    case BoundMethod::kChoices:
      return "branched_choices";
    case BoundMethod::kMemory:
      return "memory";
  }
  return "";
}

std::string_view to_string(DualFunctionKind kind) {
  switch (kind) {
    case DualFunctionKind::kIdentity:
      return "identity";
    case DualFunctionKind::kThreshold:
      return "threshold";
    case DualFunctionKind::kStep:
      return "step";
    case DualFunctionKind::kRounding:
      return "rounding";
  }
  return "";
}

double dual_value(const DualFunction& function, double x) {
  const double e = function.parameter;
  switch (function.kind) {
    case DualFunctionKind::kIdentity:
      return x;
    case DualFunctionKind::kThreshold:
      return x < e ? 0 : x > 1 - e ? 1 : x;
    case DualFunctionKind::kStep: {
      const double scaled = (e + 1) * x;
      return scaled == std::floor(scaled) ? x : std::floor(scaled) / e;
    }
    case DualFunctionKind::kRounding: {
      const double n = std::floor(1 / e);
      if (x < 0.5) return std::floor(x / e) / n;
      return x > 0.5 ? 1 - std::floor((1 - x) / e) / n : 0.5;
    }
  }
  return 0;
}

std::string describe(BoundMethod method, const PlacementBound& bound) {
  switch (method) {
    case BoundMethod::kNone:
      return "";
    case BoundMethod::kAverage:
      return "the average over ranks";
    case BoundMethod::kFiltered:
      return "the average over ranks of what a target leaves";
    case BoundMethod::kWindows:
      return fmt::format("dual feasible functions in {} windows of the slowest load",
                         std::int64_t{bound.num_windows});
    case BoundMethod::kPatterns:
      return fmt::format("contents of hosts and ranks in {} windows of the slowest load",
                         std::int64_t{bound.num_windows});
    case BoundMethod::kBranched:
      return fmt::format(
          "contents of hosts and ranks in {} windows of the slowest load and of the "
          "numbers of uniform units or the blocks of hosts",
          std::int64_t{bound.num_windows});
    case BoundMethod::kChoices:
      return fmt::format(
          "averages and largest pieces, branched on the choices of units in {} nodes",
          std::int64_t{bound.num_windows});
    case BoundMethod::kMemory:
      return "weighted bytes that all units need exceed the weighted caps";
  }
  return "";
}

}  // namespace plimsoll::balance
