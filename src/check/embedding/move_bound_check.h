// What makes the bounds of a replan right: that of the bytes that any plan moves, and that of its
// objective.
//
// What every choice of a table would move is counted from the two plans' shards, part by part
// (transfer_check.h); a bound that prices moved bytes is computed from its prices on the problem
// that model, machine and options give. Source: docs/mathematics/balanced-sharding.md#moved-bytes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plimsoll/balance/relocation_prices.h"
#include "plimsoll/check/sharding_check.h"
#include "plimsoll/embedding/bounded_problem.h"

namespace plimsoll::check {

struct StatedMoveBound {
  const embedding::ShardingPlan* before = nullptr;  // never null
  std::optional<Bytes> max_moved;
  double price_of_move = 0;  // ms a GiB, >= 0
  std::optional<double> lower_bound;
  bool is_bound_of_all = false;
  std::optional<double> bound_of_all;  // of the certificate, judged by check_balance
  std::optional<Bytes> least_moved;
  const balance::RelocationPrices* prices = nullptr;  // null: none are stated
};

// Violations are of code kBoundNotProved, what is not repeated is a warning (kNotRepeated).
struct MoveBoundReport : CheckReport {
  std::optional<double> proved_bound;  // ms, by the prices
  std::optional<Bytes> least_moved;    // that every plan moves
};

// Errors: those of prepare_bounded_problem and of estimating.
Result<MoveBoundReport> check_move_bound(const embedding::PlanningProblem& problem,
                                         const embedding::BoundedOptions& options,
                                         const StatedMoveBound& stated);

}  // namespace plimsoll::check
