// What a choice of units costs and needs: one walk over the positions, no search.
#include <algorithm>

#include "plimsoll/checkpoint/checkpoint_problem.h"

namespace plimsoll::checkpoint {
namespace {

// Walks positions [from, to), `gone` bytes being discarded already; returns what is gone at the
// end.
Bytes walk(const CheckpointProblem& problem, const std::vector<UnitDecision>& decisions, int from,
           int to, Bytes gone, PlanFigures& figures) {
  std::size_t next = 0;
  const auto need = [&](Bytes bytes, int position) {
    figures.profile[position] = std::max(figures.profile[position], bytes);
    if (figures.binding_node < 0 || bytes > figures.peak) {
      figures.peak = bytes;
      figures.binding_node = problem.tree.post_order[position];
    }
  };
  for (int position = from; position < to;) {
    if (next == decisions.size() || problem.units[decisions[next].unit].first != position) {
      need(problem.base_at(position) - gone, position);
      ++position;
      continue;
    }
    const UnitDecision& decision = decisions[next++];
    const CandidateUnit& unit = problem.units[decision.unit];
    if (decision.nested.empty()) {
      for (int p = unit.first; p <= unit.last; ++p) need(problem.base_at(p) - gone, p);
      Bytes own = unit.own_need;
      if (decision.point >= 0) {
        own = std::max(own, unit.points[decision.point].needs);
      }
      if (own > std::numeric_limits<Bytes>::min()) need(own - gone, unit.last);
    } else {
      walk(problem, decision.nested, unit.first, unit.last + 1, gone, figures);
      if (unit.own_need > std::numeric_limits<Bytes>::min()) need(unit.own_need - gone, unit.last);
    }
    gone += decision.discarded;
    position = unit.last + 1;
  }
  return gone;
}

// The operators to save where a fitted price says no more than how many bytes may stay.
std::vector<char> fastest_within(const SACStats& stats, Bytes kept) {
  const OperatorOptions choices = operator_options(stats);
  std::size_t best = 0;
  while (best + 1 < choices.options.size() && choices.options[best + 1].kept <= kept) ++best;
  return choices.options[best].save;
}

CheckpointUnit make_unit(const CheckpointProblem& problem, const UnitDecision& decision) {
  const CandidateUnit& unit = problem.units[decision.unit];
  CheckpointUnit out;
  for (int node : unit.nodes) out.fqns.push_back(problem.fqn[node]);
  out.discarded = decision.discarded;
  out.kind = decision.discarded == unit.kept_inside ? UnitKind::kFull : UnitKind::kSelective;
  out.discard_ratio = static_cast<double>(decision.discarded + unit.sac_memory - unit.kept_inside) /
                      static_cast<double>(unit.sac_memory);
  out.recompute_ms = price_of(problem, decision);
  for (const UnitDecision& inner : decision.nested) {
    out.nested.push_back(make_unit(problem, inner));
    out.recompute_ms -= price_of(problem, inner);
  }
  const int table = unit.nodes.size() == 1 && !problem.table_of.empty()
                        ? problem.table_of[unit.nodes.front()]
                        : -1;
  if (table < 0) return out;
  const SACStats& stats = problem.sac_stats[table];
  const std::vector<char> save = decision.point >= 0
                                     ? unit.saves[decision.point]
                                     : fastest_within(stats, unit.kept_inside - decision.discarded);
  keep_operators(stats, {save.begin(), save.end()}, out);
  return out;
}

}  // namespace

PlanFigures replay(const CheckpointProblem& problem, const std::vector<UnitDecision>& decisions) {
  PlanFigures figures;
  figures.profile.assign(problem.num_modules(), std::numeric_limits<Bytes>::min());
  const Bytes gone = walk(problem, decisions, 0, problem.num_modules(), 0, figures);
  if (problem.end_base && *problem.end_base - gone > figures.peak) {
    figures.peak = *problem.end_base - gone;
    figures.binding_node = -1;
  }
  for (const UnitDecision& decision : decisions) {
    figures.recompute_ms += price_of(problem, decision);
  }
  return figures;
}

double price_of(const CheckpointProblem& problem, const UnitDecision& decision) {
  const CandidateUnit& unit = problem.units[decision.unit];
  double ms =
      decision.point < 0 ? unit.price.price(decision.discarded) : unit.points[decision.point].price;
  for (const UnitDecision& inner : decision.nested) ms += price_of(problem, inner);
  return ms;
}

CheckpointPolicy make_policy(const CheckpointProblem& problem,
                             const std::vector<UnitDecision>& decisions) {
  CheckpointPolicy policy;
  for (const UnitDecision& decision : decisions) {
    policy.units.push_back(make_unit(problem, decision));
  }
  return policy;
}

}  // namespace plimsoll::checkpoint
