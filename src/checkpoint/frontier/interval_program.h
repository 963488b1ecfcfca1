// The sweeps over positions that frontier_search.h describes, and the walk that reads a plan off
// them. Private to the searches.
#pragma once

#include <memory>
#include <vector>

#include "math/convex_function.h"
#include "plimsoll/checkpoint/frontier_search.h"

namespace plimsoll::checkpoint {

// Functions by boundary: [p] stands before position p. Absent ones are not needed.
using Boundaries = std::vector<std::shared_ptr<const math::PiecewiseLinear>>;

// Error kConflict where units are not runs of positions.
Result<void> check_nested(const CheckpointProblem& problem);

// Every choice as cheap as one that was left out could be: no plan beats its optimum.
CheckpointProblem lowered(const CheckpointProblem& problem);

Warning choices_left_out(const CheckpointProblem& problem);

// "within 0.17 ms (0.4 %) of the best", and why.
Warning within_text(const CheckpointProblem& problem, const Certificate& certificate);

// Of a frontier, where it is farthest above its bound.
Certificate certificate_of(const math::Frontier& frontier, ProofKind proof);

// A gap up to this counts as optimal.
inline constexpr double kTolerance = 1e-6;

// What the optimum of the lowered problem says of a plan of this one.
template <class Plan>
void note_thinned(const CheckpointProblem& problem, double lower_bound, Outcome<Plan>& outcome) {
  outcome.warnings.push_back(choices_left_out(problem));
  outcome.certificate.lower_bound = lower_bound;
  outcome.certificate.proof.is_lowered = true;
  const auto gap = outcome.certificate.gap();
  outcome.status = gap && *gap <= kTolerance ? SolveStatus::kOptimal : SolveStatus::kFeasible;
}

enum class SweepEnd {
  kDone,
  kTooLarge,  // a function has more than max_segments pieces
  kTooLong,   // more than max_made pieces were made
  kStopped,   // by the context
};

class IntervalProgram {
 public:
  IntervalProgram(const CheckpointProblem& problem, const FrontierOptions& options,
                  const RunContext& context, SearchWork& work);

  // How making the functions of nested units ended; unless done, no sweep will be.
  SweepEnd insides() const { return insides_; }

  // The least slack on entry that any plan can live with.
  Bytes smallest_slack() const { return least_slack_; }

  // The smallest budget of a pipeline stage where `others` more microbatches hold what they keep,
  // and what binds there. Only where the insides are done.
  SmallestBudget smallest_stage(int others) const;

  // V_0 for slacks of at least `floor`. With `kept`, every boundary's function is kept there. With
  // `entry`, lower bounds on the price of reaching a slack by boundary (mirrored: of -slack), what
  // costs more than `ceiling` in total is dropped.
  SweepEnd sweep(Bytes floor, math::PiecewiseLinear& out, Boundaries* kept = nullptr,
                 const Boundaries* entry = nullptr, double ceiling = 0);

  // Functions good enough to read the plan for `budget` off, and its exact time at first(budget).
  // `budget` is at least smallest_slack().
  SweepEnd solve(Bytes budget, Boundaries& kept, math::PiecewiseLinear& first);

  // The same if the optimum is at most `ceiling`; if first(budget) is above it, no plan is not.
  SweepEnd solve_within(Bytes budget, double ceiling, Boundaries& kept,
                        math::PiecewiseLinear& first);

  // From now on functions of more pieces are replaced by some of about so many, above the exact
  // ones (raise_to_fewer): plans that are read off them cost what they say or less.
  void coarsen(std::size_t pieces) { coarse_pieces_ = pieces; }

  // A convex function below V_0; with `kept`, one below every boundary's that a unit begins or
  // ends at.
  math::PiecewiseLinear convex_sweep(Bytes floor, Boundaries* kept = nullptr) const;

  // Lower bounds on the price of entering each boundary, from slack `budget`.
  Boundaries forward_sweep(Bytes budget) const;

  // The decisions behind V_0(budget), from kept functions.
  std::vector<UnitDecision> recover(const Boundaries& kept, Bytes budget);

 private:
  // Positions [first, end) and the units inside, except for `outer`.
  struct Range {
    int first = 0;
    int end = 0;
    int outer = -1;
  };

  Range whole() const { return {0, problem_.num_modules(), -1}; }
  bool is_inside(int unit, const Range& range) const;
  Bytes range_slack(const Range& range) const;
  // The least slack at which a unit may start with this point (-1: its convex price).
  Bytes entry_of(int unit, int point) const;
  math::PiecewiseLinear terminal(const Range& range, Bytes floor) const;
  math::PiecewiseLinear priced(int unit, const math::PiecewiseLinear& after) const;
  // What discarding all of the unit costs, with units inside it; nothing without nested units.
  math::PiecewiseLinear priced_nested(int unit, const math::PiecewiseLinear& after) const;
  // `now` becomes the lower of itself and of `with` from slack `least` on; `merged` is workspace.
  void offer(math::PiecewiseLinear with, Bytes least, math::PiecewiseLinear& now,
             math::PiecewiseLinear& merged);
  // The limit that a function of so many segments reaches; kDone: none.
  SweepEnd limit_reached(std::size_t size);
  SweepEnd sweep_range(const Range& range, Bytes floor, math::PiecewiseLinear& out,
                       Boundaries* kept, const Boundaries* entry, double ceiling);
  std::vector<UnitDecision> recover_range(const Range& range, const Boundaries& kept, Bytes slack);
  UnitDecision decide(int unit, const math::PiecewiseLinear& after, Bytes slack, double allowed,
                      double& cost);

  const CheckpointProblem& problem_;
  const FrontierOptions& options_;
  const RunContext& context_;
  SearchWork& work_;
  std::vector<std::vector<int>> starting_at_;    // [n] units by first position, inner before outer
  std::vector<Bytes> entry_need_;                // by unit: the least slack at which it may start
  std::vector<math::ConvexHullOfPoints> hulls_;  // by unit: a convex price below its own
  std::vector<math::PiecewiseLinear> inside_;    // by unit: V of its inside, with nested units
  SweepEnd insides_ = SweepEnd::kDone;
  std::size_t coarse_pieces_ = 0;  // 0: exact
  Bytes least_slack_ = 0;
  Bytes least_base_ = 0;
};

}  // namespace plimsoll::checkpoint
