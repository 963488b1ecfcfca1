// Is a stated curve of memory against time right, as far as its plan, its bound and its own points
// tell?
//
// Every point of the upper curve is a plan that the answer does not show, but for the plan itself;
// every point of the lower one a bound. Judged here: both rise in bytes and fall in time, in steps;
// the upper curve is nowhere below the lower one and says exactly where both meet; at the plan's
// own bytes it is no higher than the plan's objective, and nowhere below the certificate's bound;
// the lower curve ends at that bound. Bounds of the lower curve are proved again by the caller.
#pragma once

#include <optional>
#include <vector>

#include "plimsoll/check/sharding_check.h"
#include "plimsoll/core/units.h"
#include "plimsoll/solve/frontier.h"

namespace plimsoll::check {

struct StatedFrontier {
  std::vector<solve::FrontierPoint> upper, lower;
  bool is_empty() const { return upper.empty() && lower.empty(); }
};

// Of the plan beside the curve.
struct FrontierPlan {
  Bytes hbm = 0;         // of the fullest rank
  double objective = 0;  // ms
  std::optional<double> lower_bound;
};

std::vector<Violation> check_frontier(const StatedFrontier& stated, const FrontierPlan& plan);

}  // namespace plimsoll::check
