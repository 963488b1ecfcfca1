#include "checkpoint/milp/milp_frontier.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <vector>

#include "checkpoint/frontier/interval_program.h"
#include "checkpoint/milp/milp_units.h"

namespace plimsoll::checkpoint {
namespace {

using math::PiecewiseLinear;
using math::Segment;

// A line over the whole bytes from line.x to last.
struct Piece {
  Segment line;
  Bytes last = 0;
  double at(Bytes bytes) const { return line.y + line.slope * static_cast<double>(bytes - line.x); }
};

std::vector<Piece> pieces_of(const PiecewiseLinear& curve) {
  std::vector<Piece> pieces;
  for (std::size_t k = 0; k < curve.size(); ++k) {
    pieces.push_back({curve[k], k + 1 < curve.size() ? curve[k + 1].x - 1 : curve[k].x});
  }
  return pieces;
}

// The part of a piece from one byte to another.
Piece part_of(const Piece& piece, Bytes from, Bytes to) {
  return {{from, piece.at(from), piece.line.slope}, to};
}

class FrontierProof {
 public:
  FrontierProof(const CheckpointProblem& problem, const MilpFrontierOptions& options,
                const RunContext& context)
      : problem_(problem),
        options_(options),
        context_(context),
        program_(make_program(problem, 0)),
        tolerance_(tolerance_of(problem)) {}

  Result<Outcome<math::Frontier>> run() {
    PLIMSOLL_RETURN_IF_ERROR(draw({}));
    PLIMSOLL_RETURN_IF_ERROR(start_at_least_peak());
    for (auto piece = next_piece(); piece && may_go_on(); piece = next_piece()) {
      PLIMSOLL_RETURN_IF_ERROR(prove(*piece));
    }
    return outcome();
  }

 private:
  struct Asked {
    Bytes first = 0, last = 0;
    bool is_proved = false;
  };

  // Everything that these units can do; false where it is known.
  Result<bool> draw(const UnitMilpPlan& plan) {
    std::vector<int> nodes;
    for (const ChosenUnit& unit : plan.units) nodes.push_back(unit.node);
    if (!drawn_.insert(std::move(nodes)).second) return false;
    PLIMSOLL_ASSIGN(const auto own, plan_frontier(fix_units(problem_, plan).problem));
    PiecewiseLinear both;
    lower_envelope(curve_, own.plan->upper(), both);
    curve_ = std::move(both);
    return true;
  }

  math::MilpOptions limits() {
    ++programs_;
    if (context_.progress) context_.progress({programs_, {}, {}});
    math::MilpOptions limits;
    limits.max_nodes = options_.max_nodes_of_program;
    limits.context = context_.inner();
    return limits;
  }

  Result<void> start_at_least_peak() {
    PLIMSOLL_ASSIGN(const Outcome<UnitMilpPlan> least, minimise_peak(program_, limits()));
    starts_proved_ = least.status == SolveStatus::kOptimal;
    if (least.stop == StopReason::kDeadline || least.stop == StopReason::kCancelled) {
      stop_ = least.stop;
    }
    if (!least.plan) return {};
    PLIMSOLL_RETURN_IF_ERROR(draw(*least.plan));
    return {};
  }

  bool may_go_on() {
    if (context_.is_cancelled()) {
      stop_ = StopReason::kCancelled;
    } else if (context_.is_past_deadline()) {
      stop_ = StopReason::kDeadline;
    } else if (programs_ >= options_.max_programs) {
      stop_ = StopReason::kEffort;
    }
    return stop_ == StopReason::kFinished;
  }

  // Cuts a piece at the ends of what was asked.
  template <class Visit>
  void for_each_part(const Piece& piece, const Visit& visit) const {
    Bytes from = piece.line.x;
    for (const Asked& asked : asked_) {
      if (asked.last < from || asked.first > piece.last) continue;
      if (asked.first > from) visit(part_of(piece, from, asked.first - 1), nullptr);
      from = std::max(from, asked.first);
      const Bytes to = std::min(piece.last, asked.last);
      visit(part_of(piece, from, to), &asked);
      from = to + 1;
    }
    if (from <= piece.last) visit(part_of(piece, from, piece.last), nullptr);
  }

  // What could be lost at most, as an area, by the piece that was not asked for yet. Where nothing
  // is above 0 there is nothing to ask.
  std::optional<Piece> next_piece() const {
    std::optional<Piece> best;
    double most = -1;
    for (const Piece& piece : pieces_of(curve_)) {
      for_each_part(piece, [&](const Piece& part, const Asked* asked) {
        if (asked != nullptr || part.line.y <= 0) return;
        const double area =
            (part.line.y - floor_at(part.last)) * static_cast<double>(part.last - part.line.x + 1);
        if (area > most) {
          most = area;
          best = part;
        }
      });
    }
    return best;
  }

  Result<void> prove(const Piece& piece) {
    // A plan for a byte more fits by the solver's tolerance, and costs less where the curve jumps.
    const Bytes last = std::max(piece.line.x, piece.last - tolerance_);
    const double price = std::max(0.0, -piece.line.slope);
    PLIMSOLL_ASSIGN(
        const Outcome<UnitMilpPlan> solved,
        solve_over_budgets(program_,
                           {static_cast<double>(piece.line.x), static_cast<double>(last), price},
                           limits()));
    const auto bound = solved.certificate.lower_bound;
    if (bound) bounds_.push_back({{piece.line.x, *bound, -price}, last});
    const double loss = price * static_cast<double>(tolerance_) + kTolerance * (1 + piece.line.y);
    const bool is_proved = bound && *bound >= piece.line.y - loss;
    bool has_learnt = false;
    if (!is_proved && solved.plan) {
      PLIMSOLL_ASSIGN(has_learnt, draw(*solved.plan));
    }
    if (has_learnt) return {};
    const auto after = std::find_if(asked_.begin(), asked_.end(),
                                    [&](const Asked& asked) { return asked.first > piece.line.x; });
    asked_.insert(after, {piece.line.x, piece.last, is_proved});
    return {};
  }

  // A bound on every plan for this budget: less memory takes no less time.
  double floor_at(Bytes budget) const {
    double floor = 0;
    for (const Piece& bound : bounds_) {
      if (budget <= bound.last) floor = std::max(floor, bound.at(std::max(budget, bound.line.x)));
    }
    return floor;
  }

  Outcome<math::Frontier> outcome() const {
    Outcome<math::Frontier> outcome;
    outcome.stop = stop_;
    if (!problem_.tree.is_nested) outcome.warnings.push_back(planned_by_milp(problem_));
    double loss_ms = 0;  // of choices that were left out
    for (const CandidateUnit& unit : problem_.units) loss_ms += unit.loss_ms;
    PiecewiseLinear lower;
    int num_pieces = 0, num_open = 0;
    double widest = 0;
    for (const Piece& piece : pieces_of(curve_)) {
      bool is_open = false;
      for_each_part(piece, [&](const Piece& part, const Asked* asked) {
        Segment line = part.line;
        if (line.y > 0 && (asked == nullptr || !asked->is_proved)) {
          line = {line.x, std::min(floor_at(part.last), part.at(part.last)), 0};
          widest = std::max(widest, part.line.y - line.y);
          is_open = true;
        }
        line.y -= loss_ms;
        if (line.y <= 0) line.y = line.slope = 0;
        lower.push_back(line);
      });
      num_pieces += 1;
      num_open += is_open ? 1 : 0;
    }
    if (num_open > 0) {
      outcome.warnings.push_back(
          {"frontier_unproved", problem_.fqn[0],
           fmt::format(
               "{} of {} pieces of the frontier are proved; elsewhere the least time may be "
               "up to {:.4g} ms less",
               num_pieces - num_open, num_pieces, widest)});
    }
    if (!starts_proved_) {
      outcome.warnings.push_back({"smallest_budget_unproved", problem_.fqn[0],
                                  "a smaller budget than the frontier's first may be feasible"});
    }
    const bool is_exact = num_open == 0 && loss_ms == 0;
    outcome.plan = is_exact ? math::Frontier(curve_) : math::Frontier(curve_, std::move(lower));
    outcome.certificate = certificate_of(*outcome.plan, ProofKind::kProgramsOfPieces);
    if (!problem_.thinned.empty()) outcome.warnings.push_back(choices_left_out(problem_));
    outcome.status = is_exact && starts_proved_ ? SolveStatus::kOptimal : SolveStatus::kFeasible;
    return outcome;
  }

  const CheckpointProblem& problem_;
  const MilpFrontierOptions& options_;
  const RunContext& context_;
  const UnitMilpProblem program_;
  const Bytes tolerance_;
  PiecewiseLinear curve_;
  std::set<std::vector<int>> drawn_;  // nodes of units, by position
  std::vector<Piece> bounds_;         // proved lines
  std::vector<Asked> asked_;          // by byte, apart from one another
  int programs_ = 0;
  bool starts_proved_ = false;
  StopReason stop_ = StopReason::kFinished;
};

}  // namespace

Result<Outcome<math::Frontier>> plan_frontier_by_milp(const CheckpointProblem& problem,
                                                      const MilpFrontierOptions& options,
                                                      const RunContext& context) {
  PLIMSOLL_RETURN_IF_ERROR(check_single_units(problem));
  return FrontierProof(problem, options, context).run();
}

}  // namespace plimsoll::checkpoint
