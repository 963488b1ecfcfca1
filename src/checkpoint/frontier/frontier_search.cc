#include "plimsoll/checkpoint/frontier_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "checkpoint/frontier/interval_program.h"
#include "checkpoint/frontier/near_choices.h"
#include "math/fewer_pieces.h"

namespace plimsoll::checkpoint {
namespace {

using math::Frontier;
using math::PiecewiseLinear;

tl::unexpected<Error> too_large(const FrontierOptions& options) {
  return fail(ErrorCode::kOverflow, "max_segments",
              "the frontier has more than " + std::to_string(options.max_segments) + " pieces",
              "allow more, or allow fewer units by ac_units");
}

bool has_steps(const CheckpointProblem& problem) {
  return std::any_of(problem.units.begin(), problem.units.end(),
                     [](const CandidateUnit& unit) { return !unit.points.empty(); });
}

StopReason stop_reason(const RunContext& context) {
  return context.is_cancelled() ? StopReason::kCancelled : StopReason::kDeadline;
}

template <class Plan>
Outcome<Plan> stopped(const RunContext& context) {
  Outcome<Plan> outcome;
  outcome.certificate.objective = std::nan("");
  outcome.stop = stop_reason(context);
  return outcome;
}

CheckpointPlan make_plan(const CheckpointProblem& problem, std::vector<UnitDecision> decisions) {
  CheckpointPlan plan;
  plan.decisions = std::move(decisions);
  plan.figures = replay(problem, plan.decisions);
  plan.policy = make_policy(problem, plan.decisions);
  return plan;
}

std::string binding_name(const CheckpointProblem& problem, const PlanFigures& figures) {
  return figures.binding_node < 0 ? std::string() : problem.fqn[figures.binding_node];
}

Result<Outcome<CheckpointPlan>> infeasible(const CheckpointProblem& problem, Bytes budget) {
  PLIMSOLL_ASSIGN(const SmallestBudget smallest, smallest_budget(problem));
  Outcome<CheckpointPlan> outcome;
  outcome.status = SolveStatus::kInfeasible;
  outcome.certificate.objective = std::nan("");
  outcome.certificate.proof = ProofKind::kLeastSlack;
  outcome.explanation = explain_infeasible(smallest, budget);
  return outcome;
}

void add_work(const SearchWork& part, SearchWork& work) {
  work.segments += part.segments;
  work.convolved += part.convolved;
  work.largest = std::max(work.largest, part.largest);
  work.passes += part.passes;
}

// What a frontier of fewer points is made of: found on the statistics that docs/benchmarks.md
// names.
constexpr std::size_t kCoarsePieces = 1024;
constexpr std::size_t kCoarseChoices = 16;  // of a unit

double widest_gap(const Frontier& frontier) {
  const Certificate widest = certificate_of(frontier, ProofKind::kNone);
  return widest.objective - *widest.lower_bound;
}

// A curve above its bound: the convex one, which prices prove line by line, or with `other` where
// that is nearer. No time is below 0, where sums of lines may end by their rounding.
Frontier with_bound(PiecewiseLinear upper, PiecewiseLinear convex, PiecewiseLinear other) {
  for (PiecewiseLinear* curve : {&convex, &other}) {
    for (math::Segment& piece : *curve) piece.y = std::max(piece.y, 0.0);
  }
  if (other.empty()) return {std::move(upper), std::move(convex)};
  Frontier both(upper, math::upper_envelope(convex, std::move(other)));
  Frontier by_prices(std::move(upper), std::move(convex));
  return widest_gap(by_prices) <= widest_gap(both) ? by_prices : both;
}

// The same units with fewer choices: those on the convex hull of each list, and a few between.
CheckpointProblem with_fewer_choices(const CheckpointProblem& problem, std::size_t count) {
  CheckpointProblem fewer = problem;
  for (CandidateUnit& unit : fewer.units) {
    if (unit.points.size() <= count) continue;
    // Seen from the most bytes down the price never increases.
    std::vector<std::size_t> order(unit.points.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      const math::CostPoint& one = unit.points[a];
      const math::CostPoint& other = unit.points[b];
      return one.bytes != other.bytes ? one.bytes > other.bytes : one.price < other.price;
    });
    PiecewiseLinear prices;
    std::map<Bytes, std::size_t> at;
    for (std::size_t k : order) {
      const math::CostPoint& point = unit.points[k];
      if (!prices.empty() && prices.back().y <= point.price) continue;
      prices.push_back({-point.bytes, point.price, 0});
      at[-point.bytes] = k;
    }
    math::raise_to_fewer(prices, count);
    CandidateUnit chosen = unit;
    chosen.points.clear();
    chosen.saves.clear();
    for (const math::Segment& price : prices) {
      chosen.points.push_back(unit.points[at.at(price.x)]);
      if (!unit.saves.empty()) chosen.saves.push_back(unit.saves[at.at(price.x)]);
    }
    unit = std::move(chosen);
  }
  return fewer;
}

// One budget: the listed choices exactly, and where choices were left out, all that could matter.
class BudgetSearch {
 public:
  BudgetSearch(const CheckpointProblem& problem, Bytes budget, const FrontierOptions& options,
               const RunContext& context, SearchWork& work)
      : problem_(problem),
        budget_(budget),
        options_(options),
        context_(context),
        work_(work),
        program_(problem, options, context, work) {}

  Result<Outcome<CheckpointPlan>> run() {
    if (budget_ < program_.smallest_slack()) return infeasible(problem_, budget_);
    problem_.thinned.empty() ? find_optimum() : find_near_optimum();
    if (end_ == SweepEnd::kTooLong) find_some_plan();
    if (end_ == SweepEnd::kTooLarge || end_ == SweepEnd::kTooLong) return too_large(options_);
    if (end_ == SweepEnd::kStopped) return stopped<CheckpointPlan>(context_);
    return outcome();
  }

 private:
  void find_optimum() {
    Boundaries kept;
    PiecewiseLinear first;
    end_ = program_.solve(budget_, kept, first);
    if (end_ != SweepEnd::kDone) return;
    take(problem_, program_, kept);
    bound_ = value_at(first, budget_);
    is_exact_ = true;
    // Choices of operators make steps; what memory is worth there is the slope of the convex bound.
    if (!has_steps(problem_)) slope_ = find_segment(first, budget_)->slope;
  }

  // Raises the bound by ceilings below which there is no plan, each twice as far above the convex
  // bound, until there is one (it is optimal) or the effort is spent; then goes on with the listed
  // choices alone.
  void find_near_optimum() {
    Boundaries rest;
    bound_ = value_at(program_.convex_sweep(budget_, &rest), budget_);
    const std::vector<UnitPrice> prices =
        find_unit_prices(problem_, program_.forward_sweep(budget_), rest);
    const double start = bound_;
    double gap = kFirstNearGap * std::max(start, 1e-3);
    for (; !plan_; gap *= 2) {
      const auto near = near_problem(problem_, prices, start + gap);
      if (!near || !search_below(*near, start + gap, kNearEffort)) break;
      is_exact_ = plan_.has_value();
      bound_ = plan_ ? plan_->figures.recompute_ms : start + gap;
    }
    while (
        !plan_ && end_ != SweepEnd::kStopped &&
        search_below(near_listed(problem_, prices, start + gap), start + gap, options_.max_made)) {
      gap *= 2;
    }
  }

  // Takes the best plan of the problem if it is at most the ceiling; false: the search was cut.
  bool search_below(const CheckpointProblem& problem, double ceiling, std::int64_t effort) {
    FrontierOptions limited = options_;
    limited.max_made = std::min(effort, options_.max_made);
    SearchWork work;
    IntervalProgram program(problem, limited, context_, work);
    Boundaries kept;
    PiecewiseLinear first;
    end_ = program.solve_within(budget_, ceiling, kept, first);
    add_work(work, work_);
    if (end_ == SweepEnd::kDone && value_at(first, budget_) <= ceiling) {
      take(problem, program, kept);
      plan_->decisions.clear();  // of units and points that are not those of the whole problem
    }
    return end_ == SweepEnd::kDone;
  }

  // Beyond the effort: a plan by functions of fewer pieces.
  void find_some_plan() {
    program_.coarsen(kCoarsePieces);
    Boundaries kept;
    PiecewiseLinear first;
    end_ = program_.sweep(budget_, first, &kept);
    if (end_ != SweepEnd::kDone) return;
    take(problem_, program_, kept);
    bound_ = std::max(bound_, value_at(program_.convex_sweep(budget_), budget_));
  }

  void take(const CheckpointProblem& problem, IntervalProgram& program, const Boundaries& kept) {
    plan_ = make_plan(problem, program.recover(kept, budget_));
  }

  Outcome<CheckpointPlan> outcome() {
    Outcome<CheckpointPlan> outcome;
    const double slope =
        slope_.value_or(find_segment(program_.convex_sweep(budget_), budget_)->slope);
    plan_->price_ms_per_gib = std::abs(slope) * static_cast<double>(kGiB);
    Certificate& certificate = outcome.certificate;
    certificate.objective = plan_->figures.recompute_ms;
    certificate.lower_bound = std::min(bound_, plan_->figures.recompute_ms);
    certificate.proof = ProofKind::kSlackProgram;
    outcome.status = SolveStatus::kOptimal;
    const auto gap = certificate.gap();
    if (!is_exact_ && !(gap && *gap <= kTolerance)) {
      outcome.status = SolveStatus::kFeasible;
      if (problem_.thinned.empty()) outcome.stop = StopReason::kEffort;
      outcome.warnings.push_back(within_text(problem_, certificate));
    }
    outcome.plan = std::move(plan_);
    return outcome;
  }

  static constexpr double kFirstNearGap = 1e-5;
  static constexpr std::int64_t kNearEffort = 20'000'000;  // pieces under one ceiling

  const CheckpointProblem& problem_;
  const Bytes budget_;
  const FrontierOptions& options_;
  const RunContext& context_;
  SearchWork& work_;
  IntervalProgram program_;
  SweepEnd end_ = SweepEnd::kDone;
  std::optional<CheckpointPlan> plan_;
  std::optional<double> slope_;
  double bound_ = 0;
  bool is_exact_ = false;  // no plan is faster
};

}  // namespace

CheckpointProblem lowered(const CheckpointProblem& problem) {
  CheckpointProblem low = problem;
  for (CandidateUnit& unit : low.units) {
    for (math::CostPoint& point : unit.points) {
      point.price = std::max(0.0, point.price - unit.loss_ms);
    }
  }
  return low;
}

Certificate certificate_of(const Frontier& frontier, ProofKind proof) {
  Certificate widest{frontier.min_ms(), frontier.min_ms(), proof};
  if (frontier.is_exact()) return widest;
  std::vector<Bytes> ends;
  for (const auto* curve : {&frontier.upper(), &frontier.lower()}) {
    for (const math::Segment& piece : *curve) ends.insert(ends.end(), {piece.x - 1, piece.x});
  }
  for (const Bytes bytes : ends) {
    if (bytes < frontier.min_bytes()) continue;
    const double upper = value_at(frontier.upper(), bytes);
    const double lower = std::min(upper, value_at(frontier.lower(), bytes));
    if (upper - lower > widest.objective - *widest.lower_bound) {
      widest.objective = upper;
      widest.lower_bound = lower;
    }
  }
  return widest;
}

Warning within_text(const CheckpointProblem& problem, const Certificate& certificate) {
  const double ms = certificate.objective - *certificate.lower_bound;
  const auto gap = certificate.gap();
  std::string text = fmt::format("within {:.2g} ms", ms);
  if (gap) text += fmt::format(" ({:.1f} %)", 100 * *gap);
  text += " of the best";
  if (problem.thinned.empty()) {
    return {"fewer_points", problem.fqn[0],
            text + ", with fewer points than an exact search makes"};
  }
  const std::size_t count = problem.thinned.size();
  text += count == 1 ? ": it has too many choices of operators to try all of them"
                     : fmt::format(
                           ": it and {} other {} have too many choices of operators to "
                           "try all of them",
                           count - 1, count == 2 ? "module" : "modules");
  return {"choices_left_out", problem.fqn[problem.thinned.front()], std::move(text)};
}

Warning choices_left_out(const CheckpointProblem& problem) {
  const std::size_t num_others = problem.thinned.size() - 1;
  std::string others;
  if (num_others > 0) {
    others = ", and so have " + std::to_string(num_others) +
             (num_others == 1 ? " other module" : " other modules");
  }
  return {"choices_left_out", problem.fqn[problem.thinned.front()],
          "has too many choices of operators to try all of them" + others +
              "; the bound takes them into account"};
}

Result<void> check_nested(const CheckpointProblem& problem) {
  if (problem.tree.is_nested) return {};
  return fail(ErrorCode::kConflict, "fw_post_order",
              "a module returns among the modules of another, so its units are not consecutive",
              "plan one budget by plan_by_milp, which needs only positions and ancestors");
}

Explanation explain_infeasible(const SmallestBudget& smallest, Bytes budget) {
  Explanation explanation;
  explanation.binding = smallest.binding.empty() ? "end of forward" : smallest.binding;
  explanation.missing = smallest.bytes - budget;
  explanation.lines.push_back("the smallest feasible budget is " + format_bytes(smallest.bytes) +
                              " (" + std::to_string(smallest.bytes) + " bytes), " +
                              format_bytes(explanation.missing) + " more");
  explanation.lines.push_back(explanation.binding + " needs it, whatever else is recomputed");
  return explanation;
}

Result<Outcome<Frontier>> plan_frontier(const CheckpointProblem& problem,
                                        const FrontierOptions& options, const RunContext& context,
                                        SearchWork* work) {
  PLIMSOLL_RETURN_IF_ERROR(check_nested(problem));
  SearchWork own;
  SearchWork& done = work == nullptr ? own : *work;
  const IntervalProgram bounds(problem, options, context, done);
  const Bytes floor =
      options.truncate_below ? std::max<Bytes>(0, bounds.smallest_slack()) : Bytes{0};
  FrontierOptions limited = options;
  limited.max_made = options.max_frontier_made;
  const auto sweep_exactly = [&](const CheckpointProblem& some, PiecewiseLinear& curve) {
    SearchWork its_own;
    const SweepEnd end = IntervalProgram(some, limited, context, its_own).sweep(floor, curve);
    add_work(its_own, done);
    return end;
  };
  PiecewiseLinear first, lower;  // lower: of what was left out by its loss
  SweepEnd end = sweep_exactly(problem, first);
  if (end == SweepEnd::kDone && !problem.thinned.empty()) {
    end = sweep_exactly(lowered(problem), lower);
  }
  bool is_exact = end == SweepEnd::kDone && problem.thinned.empty();
  if (end == SweepEnd::kTooLong) {
    const CheckpointProblem fewer = with_fewer_choices(problem, kCoarseChoices);
    IntervalProgram coarse(fewer, options, context, done);
    coarse.coarsen(kCoarsePieces);
    end = coarse.sweep(floor, first);
    lower.clear();
  }
  if (end == SweepEnd::kTooLarge || end == SweepEnd::kTooLong) return too_large(options);
  if (end == SweepEnd::kStopped) return stopped<Frontier>(context);
  if (std::max(first.size(), lower.size()) > options.max_points) {
    if (is_exact) lower = first;
    is_exact = false;
    math::raise_to_fewer(first, options.max_points);
    math::lower_to_fewer(lower, options.max_points);
  }
  Outcome<Frontier> outcome;
  outcome.status = is_exact ? SolveStatus::kOptimal : SolveStatus::kFeasible;
  outcome.plan = is_exact
                     ? Frontier(std::move(first))
                     : with_bound(std::move(first), bounds.convex_sweep(floor), std::move(lower));
  outcome.certificate = certificate_of(*outcome.plan, ProofKind::kSlackProgramOfBudgets);
  if (!is_exact) outcome.warnings.push_back(within_text(problem, outcome.certificate));
  return outcome;
}

Result<PiecewiseLinear> bound_frontier(const CheckpointProblem& problem) {
  PLIMSOLL_RETURN_IF_ERROR(check_nested(problem));
  const FrontierOptions options;
  const RunContext context;
  SearchWork work;
  const IntervalProgram program(problem, options, context, work);
  if (program.insides() != SweepEnd::kDone) return too_large(options);
  return program.convex_sweep(std::max<Bytes>(0, program.smallest_slack()));
}

Result<Outcome<CheckpointPlan>> plan_for_budget(const CheckpointProblem& problem, Bytes budget,
                                                const FrontierOptions& options,
                                                const RunContext& context, SearchWork* work) {
  PLIMSOLL_RETURN_IF_ERROR(check_nested(problem));
  SearchWork own;
  return BudgetSearch(problem, budget, options, context, work == nullptr ? own : *work).run();
}

Result<Outcome<CheckpointPlan>> plan_for_time(const CheckpointProblem& problem,
                                              const Frontier& frontier, double ms,
                                              const FrontierOptions& options,
                                              const RunContext& context) {
  if (const auto bytes = frontier.bytes_for(ms)) {
    return plan_for_budget(problem, *bytes, options, context);
  }
  Outcome<CheckpointPlan> outcome;
  outcome.status = SolveStatus::kInfeasible;
  outcome.certificate.objective = std::nan("");
  outcome.certificate.proof = ProofKind::kNothingDiscarded;
  outcome.explanation.binding = "recompute_ms";
  return outcome;
}

Result<Outcome<CheckpointPlan>> plan_at_knee(const CheckpointProblem& problem,
                                             const Frontier& frontier,
                                             const FrontierOptions& options,
                                             const RunContext& context) {
  return plan_for_budget(problem, frontier.knee().value_or(frontier.min_bytes()), options, context);
}

Result<SmallestBudget> smallest_budget(const CheckpointProblem& problem) {
  PLIMSOLL_RETURN_IF_ERROR(check_nested(problem));
  const FrontierOptions options;
  const RunContext context;
  SearchWork work;
  IntervalProgram program(problem, options, context, work);
  const Bytes bytes = std::max<Bytes>(0, program.smallest_slack());
  PLIMSOLL_ASSIGN(const Outcome<CheckpointPlan> outcome, plan_for_budget(problem, bytes));
  return SmallestBudget{bytes, binding_name(problem, outcome.plan->figures)};
}

}  // namespace plimsoll::checkpoint
