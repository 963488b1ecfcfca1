#include "checkpoint/frontier/stage_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <queue>

#include "checkpoint/frontier/interval_program.h"

namespace plimsoll::checkpoint {
namespace {

tl::unexpected<Error> too_large_stage() {
  return fail(ErrorCode::kOverflow, "max_segments", "the search made too large a function",
              "allow more, or allow fewer units by ac_units");
}

// Plans that discard between `low` and `high` bytes; none of them is cheaper than `bound`.
struct Node {
  double bound = 0;
  Bytes low = 0;
  Bytes high = 0;
  std::vector<UnitDecision> decisions;  // of the relaxed problem, which `bound` is the time of
};

struct ByBound {
  bool operator()(const Node& a, const Node& b) const {
    return a.bound != b.bound ? a.bound > b.bound : a.low > b.low;
  }
};

Bytes discarded(const std::vector<UnitDecision>& decisions) {
  Bytes total = 0;
  for (const UnitDecision& decision : decisions) total += decision.discarded;
  return total;
}

// The most that any plan discards: the longest path along positions.
Bytes most_discarded(const CheckpointProblem& problem) {
  std::vector<Bytes> most(problem.num_modules() + 1, 0);
  int position = 0;
  const auto advance_to = [&](int to) {
    for (; position < to; ++position)
      most[position + 1] = std::max(most[position + 1], most[position]);
  };
  for (const CandidateUnit& unit : problem.units) {
    advance_to(unit.first);
    Bytes bytes = unit.price.capacity();
    for (const math::CostPoint& point : unit.points) bytes = std::max(bytes, point.bytes);
    most[unit.last + 1] = std::max(most[unit.last + 1], most[unit.first] + bytes);
  }
  advance_to(problem.num_modules());
  return most.back();
}

class StageSearch {
 public:
  StageSearch(const CheckpointProblem& problem, Bytes budget, const StageOptions& options,
              const RunContext& context)
      : problem_(problem),
        relaxed_(problem),
        budget_(budget),
        options_(options),
        search_(options.search),
        context_(context) {
    search_.max_made = std::numeric_limits<std::int64_t>::max();  // max_nodes is the limit here
  }

  Result<Outcome<StagePlan>> run() {
    PLIMSOLL_RETURN_IF_ERROR(open(0, most_discarded(problem_)));
    while (!queue_.empty() && !is_stopped_ && nodes_ < options_.max_nodes) {
      const Node node = queue_.top();
      if (best_ && node.bound >= best_->recompute_ms * (1 - 1e-9)) break;
      queue_.pop();
      ++nodes_;
      // A relaxed plan that does not fit discards less than `high`. Near an end of the interval it
      // would be cut byte by byte: then halve it.
      const Bytes quarter = (node.high - node.low) / 4;
      Bytes middle = std::min(discarded(node.decisions), node.high - 1);
      if (middle < node.low + quarter || middle > node.high - 1 - quarter) {
        middle = node.low + (node.high - node.low) / 2;
      }
      PLIMSOLL_RETURN_IF_ERROR(open(node.low, middle));
      PLIMSOLL_RETURN_IF_ERROR(open(middle + 1, node.high));
    }
    return outcome();
  }

 private:
  Bytes in_flight_need(Bytes gone) const {
    return (options_.in_flight - 1) * (problem_.total_activations - gone);
  }

  // Bounds plans that discard between low and high; keeps the relaxed plan if it fits.
  Result<void> open(Bytes low, Bytes high) {
    if (low > high || is_stopped_) return {};
    const Bytes slack = budget_ - in_flight_need(high);
    relaxed_.end_base = std::max(problem_.end_base.value_or(slack + low), slack + low);
    SearchWork work;
    IntervalProgram program(relaxed_, search_, context_, work);
    if (slack < program.smallest_slack()) return {};
    Boundaries kept;
    math::PiecewiseLinear first;
    switch (program.solve(slack, kept, first)) {
      case SweepEnd::kStopped:
        is_stopped_ = true;
        return {};
      case SweepEnd::kTooLarge:
      case SweepEnd::kTooLong:
        return too_large_stage();
      case SweepEnd::kDone:
        break;
    }
    Node node{value_at(first, slack), low, high, program.recover(kept, slack)};
    const PlanFigures figures = replay(problem_, node.decisions);
    const Bytes peak = figures.peak + in_flight_need(discarded(node.decisions));
    if (peak > budget_) {
      queue_.push(std::move(node));
      return {};
    }
    // Nothing else in the interval is cheaper.
    closed_ = std::min(closed_.value_or(node.bound), node.bound);
    if (!best_ || figures.recompute_ms < best_->recompute_ms) {
      best_.emplace();
      best_->plan.decisions = node.decisions;
      best_->plan.policy = make_policy(problem_, node.decisions);
      best_->plan.figures = figures;
      best_->plan.price_ms_per_gib =
          -math::find_segment(first, slack)->slope * static_cast<double>(kGiB);
      best_->peak = peak;
      best_->recompute_ms = figures.recompute_ms;
      if (context_.progress) context_.progress({nodes_, best_->recompute_ms, {}});
    }
    return {};
  }

  Outcome<StagePlan> outcome() {
    Outcome<StagePlan> out;
    if (is_stopped_) {
      out.stop = context_.is_cancelled() ? StopReason::kCancelled : StopReason::kDeadline;
    }
    if (!is_stopped_ && nodes_ >= options_.max_nodes && !queue_.empty()) {
      out.stop = StopReason::kEffort;
    }
    std::optional<double> bound = closed_;
    if (!queue_.empty()) bound = std::min(bound.value_or(queue_.top().bound), queue_.top().bound);
    if (!best_) {
      out.certificate.objective = std::nan("");
      const bool is_proved = queue_.empty() && !is_stopped_;
      out.status = is_proved ? SolveStatus::kInfeasible : SolveStatus::kLimit;
      if (is_proved) out.certificate.proof = ProofKind::kInfeasibleRanges;
      return out;
    }
    out.certificate.objective = best_->recompute_ms;
    if (!is_stopped_) {
      out.certificate.lower_bound = std::min(*bound, best_->recompute_ms);
      out.certificate.proof = ProofKind::kBranchedRanges;
    }
    const auto gap = out.certificate.gap();
    out.status = gap && *gap <= kTolerance ? SolveStatus::kOptimal : SolveStatus::kFeasible;
    out.plan = std::move(best_);
    return out;
  }

  const CheckpointProblem& problem_;
  CheckpointProblem relaxed_;
  const Bytes budget_;
  const StageOptions& options_;
  FrontierOptions search_;
  const RunContext& context_;
  std::priority_queue<Node, std::vector<Node>, ByBound> queue_;
  std::optional<StagePlan> best_;
  std::optional<double> closed_;  // least bound of the intervals that are done
  int nodes_ = 0;
  bool is_stopped_ = false;
};

// Where choices of operators were left out, the bound is that of a second search.
Result<Outcome<StagePlan>> plan_feasible_stage(const CheckpointProblem& problem, Bytes budget,
                                               const StageOptions& options,
                                               const RunContext& context) {
  PLIMSOLL_ASSIGN(Outcome<StagePlan> outcome, StageSearch(problem, budget, options, context).run());
  if (problem.thinned.empty() || !outcome.plan) return outcome;
  outcome.certificate.lower_bound.reset();
  const CheckpointProblem low = lowered(problem);
  PLIMSOLL_ASSIGN(const Outcome<StagePlan> bound, StageSearch(low, budget, options, context).run());
  if (bound.certificate.lower_bound) {
    note_thinned(problem, std::min(*bound.certificate.lower_bound, outcome.plan->recompute_ms),
                 outcome);
  } else {
    outcome.status = SolveStatus::kFeasible;
    outcome.certificate.proof = {};
    outcome.warnings.push_back(choices_left_out(problem));
  }
  return outcome;
}

Result<void> check_options(const CheckpointProblem& problem, const StageOptions& options) {
  PLIMSOLL_RETURN_IF_ERROR(check_nested(problem));
  if (options.in_flight < 1) {
    return fail(ErrorCode::kValue, "in_flight", "fewer than one microbatch in flight",
                "give at least 1");
  }
  Int128 most = 0;  // no plan discards more
  for (const CandidateUnit& unit : problem.units) most += unit.kept_inside;
  most = std::max<Int128>(most, problem.total_activations);
  if (options.in_flight * most > Int128{1} << 50) {
    return fail(ErrorCode::kOverflow, "in_flight",
                "the microbatches in flight hold more than 2^50 bytes",
                "give the figures of one microbatch");
  }
  return {};
}

}  // namespace

Result<SmallestBudget> smallest_stage_budget(const CheckpointProblem& problem,
                                             const StageOptions& options) {
  PLIMSOLL_RETURN_IF_ERROR(check_options(problem, options));
  const RunContext context;
  SearchWork work;
  IntervalProgram program(problem, options.search, context, work);
  if (program.insides() != SweepEnd::kDone) return too_large_stage();
  return program.smallest_stage(options.in_flight - 1);
}

Result<Outcome<StagePlan>> plan_pipeline_stage(const CheckpointProblem& problem, Bytes budget,
                                               const StageOptions& options,
                                               const RunContext& context) {
  PLIMSOLL_RETURN_IF_ERROR(check_options(problem, options));
  PLIMSOLL_ASSIGN(const SmallestBudget smallest, smallest_stage_budget(problem, options));
  if (budget >= smallest.bytes) return plan_feasible_stage(problem, budget, options, context);
  Outcome<StagePlan> outcome;
  outcome.status = SolveStatus::kInfeasible;
  outcome.certificate.objective = std::nan("");
  outcome.certificate.proof = ProofKind::kLeastNeed;
  outcome.explanation = explain_infeasible(smallest, budget);
  return outcome;
}

}  // namespace plimsoll::checkpoint
