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
    case BoundMethod::kBarriers:
      return "barriers";
    case BoundMethod::kBoxes:
      return "barrier_patterns";
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

Proof proof_of(BoundMethod method, const PlacementBound& bound) {
  const auto in_windows = [&bound](ProofKind kind) {
    Proof proof = kind;
    proof.count = bound.num_windows;
    return proof;
  };
  switch (method) {
    case BoundMethod::kNone:
      return {};
    case BoundMethod::kAverage:
      return ProofKind::kAverage;
    case BoundMethod::kFiltered:
      return ProofKind::kFilteredAverage;
    case BoundMethod::kWindows:
      return in_windows(ProofKind::kWindows);
    case BoundMethod::kPatterns:
      return in_windows(ProofKind::kPatterns);
    case BoundMethod::kBranched:
      return in_windows(ProofKind::kBranchedPatterns);
    case BoundMethod::kChoices:
      return in_windows(ProofKind::kBranchedChoices);
    case BoundMethod::kBarriers:
      return ProofKind::kEveryBarrier;
    case BoundMethod::kBoxes:
      return in_windows(ProofKind::kBarrierPatterns);
    case BoundMethod::kMemory:
      return ProofKind::kWeightedBytes;
  }
  return {};
}

}  // namespace plimsoll::balance
