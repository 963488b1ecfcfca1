#include "plimsoll/partition/throughput.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/clock_share.h"
#include "core/effort_clock.h"
#include "partition/throughput/placement_bounds.h"
#include "partition/throughput/share_bound.h"

namespace plimsoll::partition {
namespace {

// Shares of the clock, so that there is a plan when it ends.
constexpr double kThroughputBoundShare = 0.3;  // of all
constexpr double kStartShare = 0.3;            // of what the bound leaves

// A bound of all placements bounds the contiguous ones too.
void raise_bound(const ThroughputBound& bound, double tolerance,
                 Outcome<DeviceAssignment>& outcome) {
  Certificate& certificate = outcome.certificate;
  if (bound.lower_bound <= certificate.lower_bound.value_or(0)) return;
  certificate.lower_bound =
      outcome.plan ? std::min(bound.lower_bound, certificate.objective) : bound.lower_bound;
  certificate.proof = bound.proof;
  if (outcome.plan && certificate.objective <= bound.lower_bound * (1 + tolerance)) {
    outcome.status = SolveStatus::kOptimal;
  }
}

Result<ThroughputPlacement> search(const CostGraph& graph, const ThroughputOptions& options,
                                   const ThroughputBound& bound, const RunContext& context) {
  ThroughputPlacement result;
  ContiguousSplitOptions split_options;
  split_options.search = options.search;
  PLIMSOLL_ASSIGN(
      ContiguousSplit split,
      split_contiguously(graph, split_options,
                         options.is_contiguous ? context : share_clock(context, kStartShare)));
  result.num_groups = split.num_groups;
  result.num_pairs = split.num_pairs;
  if (options.is_contiguous || (split.outcome.plan && is_stopped(context))) {
    result.outcome = std::move(split.outcome);
    return result;
  }
  GeneralPlacementOptions general;
  general.search = options.search;
  general.start = std::move(split.outcome.plan);
  general.known_bound = bound.lower_bound;
  general.rules.starts_contiguously = false;
  PLIMSOLL_ASSIGN(GeneralPlacement placed, place_generally(graph, general, context));
  result.num_groups = placed.num_groups;
  result.num_moves = placed.num_moves;
  result.outcome = std::move(placed.outcome);
  // Its bound is the one handed in, or better.
  Certificate& certificate = result.outcome.certificate;
  if (certificate.lower_bound == bound.lower_bound) certificate.proof = bound.proof;
  return result;
}

// By the mixed-integer program, which has its own limit of time.
Result<void> prove_by_program(const CostGraph& graph, const ThroughputOptions& options,
                              PlacementBoundOptions bound_options, const RunContext& context,
                              Outcome<DeviceAssignment>& outcome) {
  RunContext untimed = context.inner();
  untimed.deadline.reset();
  if (outcome.plan && outcome.certificate.objective > 0) {
    bound_options.goal = outcome.certificate.objective;
  }
  PLIMSOLL_ASSIGN(ThroughputBound proved, bound_placement(graph, bound_options, untimed));
  if (proved.plan && !options.is_contiguous) {
    const std::vector<double> loads = device_loads(graph, *proved.plan);
    outcome.plan = std::move(proved.plan);
    outcome.certificate.objective = *std::max_element(loads.begin(), loads.end());
    outcome.status = SolveStatus::kFeasible;
  }
  raise_bound(proved, options.search.tolerance, outcome);
  return {};
}

}  // namespace

Result<ThroughputPlacement> place_for_throughput(const CostGraph& graph,
                                                 const ThroughputOptions& options,
                                                 const RunContext& context) {
  PlacementBoundOptions bound_options;
  bound_options.program_time_limit_s = options.program_time_limit_s;
  bound_options.tolerance = options.search.tolerance;
  PlacementBoundOptions cheap = bound_options;
  cheap.program_time_limit_s.reset();
  cheap.rules.uses_shares = !options.is_contiguous;  // paths say more of contiguous splits
  cheap.max_share_steps = share_steps(options.search);
  if (options.program_time_limit_s && !(*options.program_time_limit_s > 0)) {
    return fail(ErrorCode::kUsage, "throughput options", "a program time limit that is not above 0",
                "give more than 0, or leave it out");
  }
  PLIMSOLL_ASSIGN(const ThroughputBound bound,
                  bound_placement(graph, cheap, share_clock(context, kThroughputBoundShare)));
  if (bound.is_infeasible) {
    ThroughputPlacement result;
    result.outcome.status = SolveStatus::kInfeasible;
    result.outcome.certificate = {std::numeric_limits<double>::quiet_NaN(), {}, bound.proof};
    result.outcome.explanation = bound.explanation;
    return result;
  }
  PLIMSOLL_ASSIGN(ThroughputPlacement result, search(graph, options, bound, context));
  Outcome<DeviceAssignment>& outcome = result.outcome;
  if (outcome.status == SolveStatus::kInfeasible) return result;
  raise_bound(bound, options.search.tolerance, outcome);
  if (!options.program_time_limit_s || outcome.status == SolveStatus::kOptimal) return result;
  PLIMSOLL_RETURN_IF_ERROR(prove_by_program(graph, options, bound_options, context, outcome));
  return result;
}

}  // namespace plimsoll::partition
