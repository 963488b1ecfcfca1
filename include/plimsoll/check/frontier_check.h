// Is a stated curve of memory against time right, as far as its plan, its bound and its own points
// tell?
//
// Every point of the upper curve is a plan, every point of the lower one a bound. Judged here: both
// rise in bytes and fall in time, in steps; the upper curve is nowhere below the lower one and says
// exactly where both meet; at the plan's own bytes it is no higher than the plan's objective, and
// nowhere below the certificate's bound; the lower curve ends at that bound. Plans and proofs of
// the points are judged by check_balance.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "plimsoll/balance/placement_bound.h"
#include "plimsoll/check/options_check.h"
#include "plimsoll/check/sharding_check.h"
#include "plimsoll/core/units.h"
#include "plimsoll/math/frontier.h"

#pragma GCC visibility push(default)
namespace plimsoll::check {

// The whole plan of a point; of a dump's options `options` alone.
struct PointPlan {
  embedding::ShardingPlan plan;
  std::vector<StatedOption> options;
};

struct StatedFrontier {
  std::vector<math::FrontierPoint> upper, lower;
  std::vector<PointPlan> plans;  // [upper], or empty
  // [lower], or empty. What proves that no plan of fewer bytes than the point's is below the point
  // before, or, of the first point, that there is none.
  std::vector<std::optional<balance::PlacementBound>> proofs;
  bool is_empty() const { return upper.empty() && lower.empty(); }
};

// Of the plan beside the curve.
struct JudgedFrontierPlan {
  Bytes hbm = 0;         // of the fullest rank
  double objective = 0;  // ms
  std::optional<double> lower_bound;
  std::size_t num_hazards = 0;
};

std::vector<Finding> check_frontier(const StatedFrontier& stated, const JudgedFrontierPlan& plan);

}  // namespace plimsoll::check
#pragma GCC visibility pop
