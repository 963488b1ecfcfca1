#include "checkpoint/milp/milp_units.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace plimsoll::checkpoint {
namespace {

constexpr Bytes kNoNeed = std::numeric_limits<Bytes>::min();

double need_of(Bytes bytes) { return bytes == kNoNeed ? -kInfinity : static_cast<double>(bytes); }

// A convex price is the largest of the lines through its pieces.
DiscardCost cost_of(const CandidateUnit& unit) {
  DiscardCost cost;
  cost.need = need_of(unit.own_need);
  for (const math::CostPoint& point : unit.points) {
    cost.points.emplace_back(static_cast<double>(point.bytes), point.price);
    cost.point_needs.push_back(need_of(point.needs));
    cost.capacity = std::max(cost.capacity, static_cast<double>(point.bytes));
  }
  if (std::all_of(unit.points.begin(), unit.points.end(),
                  [](const math::CostPoint& point) { return point.needs == kNoNeed; })) {
    cost.point_needs.clear();
  }
  if (!unit.points.empty()) return cost;
  cost.capacity = static_cast<double>(unit.price.capacity());
  double x = 0, y = unit.price.fixed;
  cost.pieces.push_back({0, y});
  for (const math::CostPiece& piece : unit.price.pieces) {
    cost.pieces.push_back({piece.slope, y - piece.slope * x});
    x += static_cast<double>(piece.length);
    y += piece.slope * static_cast<double>(piece.length);
  }
  return cost;
}

}  // namespace

Result<void> check_single_units(const CheckpointProblem& problem) {
  const auto refuse = [](const char* option, const char* what) {
    return fail(ErrorCode::kConflict, option, std::string("the MILP does not support ") + what,
                "leave the option out, or plan a model that returns in the order of its names by "
                "the exact search");
  };
  if (problem.model.max_segment_length > 1) return refuse("max_segment_length", "runs of modules");
  if (problem.model.nested_units) return refuse("nested_units", "units within units");
  if (problem.model.saved_copies && !problem.tree.is_nested) {
    return refuse("repairs", "copies that bind at modules that return out of order");
  }
  return {};
}

UnitMilpProblem make_program(const CheckpointProblem& problem, Bytes budget, int in_flight) {
  UnitMilpProblem program;
  program.budget = static_cast<double>(budget);
  program.base.assign(problem.base.begin(), problem.base.end());
  program.parent = problem.tree.parent;
  program.position = problem.tree.position;
  program.others = in_flight - 1;
  program.kept = static_cast<double>(problem.total_activations);
  program.has_whole_bytes = true;
  program.cost.resize(problem.base.size());
  for (const CandidateUnit& unit : problem.units) program.cost[unit.nodes[0]] = cost_of(unit);
  if (problem.end_base) {
    program.base.push_back(static_cast<double>(*problem.end_base));
    program.parent.push_back(-1);
    program.position.push_back(problem.num_modules());
    program.cost.emplace_back();
  }
  return program;
}

FixedUnits fix_units(const CheckpointProblem& problem, const UnitMilpPlan& plan) {
  FixedUnits fixed;
  fixed.problem = problem;
  fixed.problem.tree.is_nested = true;
  fixed.problem.thinned.clear();
  fixed.problem.units.clear();
  for (const ChosenUnit& chosen : plan.units) {  // by position
    const auto found =
        std::find_if(problem.units.begin(), problem.units.end(),
                     [&chosen](const CandidateUnit& unit) { return unit.nodes[0] == chosen.node; });
    CandidateUnit unit = *found;
    unit.first = unit.last = problem.tree.position[chosen.node];
    unit.threshold = std::max(unit.own_need, problem.base[chosen.node]);
    fixed.problem.units.push_back(std::move(unit));
    fixed.original.push_back(static_cast<int>(found - problem.units.begin()));
  }
  return fixed;
}

Bytes tolerance_of(const CheckpointProblem& problem) {
  Bytes largest = problem.end_base.value_or(0);
  for (const Bytes base : problem.base) largest = std::max(largest, std::abs(base));
  return largest / 5'000'000;
}

Warning planned_by_milp(const CheckpointProblem& problem) {
  return {"order_of_return", problem.fqn[0],
          "a module returns among the modules of another; planned by mixed-integer programming"};
}

}  // namespace plimsoll::checkpoint
