#include "checkpoint/milp/unit_milp.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "checkpoint/milp/unit_milp_problem.h"

namespace plimsoll::checkpoint {
namespace {

using math::MilpProblem;
using math::MilpTerm;

// Cbc looks for no objective that is better by less than 1e-5. A peak in units of the largest base
// is far too small for that, and so may be times.
constexpr double kPeakWeight = 1e4;
constexpr double kTimeWeight = 1e4;  // of the prices of all units together
// A byte of more than this is nothing to the solver, and whole numbers cost it dearly.
constexpr double kMostWholeBytes = 1 << 16;

// [n] a node's candidates above it, itself included where it is one, from below.
std::vector<std::vector<int>> find_candidate_paths(const UnitMilpProblem& problem) {
  std::vector<std::vector<int>> paths(problem.base.size());
  for (int i = 0; i < static_cast<int>(paths.size()); ++i) {
    for (int above = i; above >= 0; above = problem.parent[above]) {
      if (problem.cost[above]) paths[i].push_back(above);
    }
  }
  return paths;
}

std::vector<int> by_position(const std::vector<int>& position) {
  std::vector<int> order(position.size());
  for (std::size_t i = 0; i < position.size(); ++i) order[position[i]] = static_cast<int>(i);
  return order;
}

// What the other microbatches hold where nothing is discarded.
double held_by_others(const UnitMilpProblem& problem) { return problem.others * problem.kept; }

// What a node as a unit needs for itself, where it discards `point` (-1: on pieces).
double need_of(const DiscardCost& cost, int point) {
  return point < 0 || cost.point_needs.empty() ? cost.need
                                               : std::max(cost.need, cost.point_needs[point]);
}

bool has_needs(const UnitMilpProblem& problem) {
  return std::any_of(problem.cost.begin(), problem.cost.end(), [](const auto& cost) {
    return cost && (cost->need > -kInfinity || !cost->point_needs.empty());
  });
}

// Everything that a node could discard, and for points which one, the cheapest.
ChosenUnit discard_most(const DiscardCost& cost, int node) {
  ChosenUnit unit{.node = node};
  if (cost.points.empty()) {
    unit.discarded = cost.capacity;
    unit.recompute_ms = cost.at(cost.capacity);
  }
  for (std::size_t k = 0; k < cost.points.size(); ++k) {
    const auto& [bytes, ms] = cost.points[k];
    if (unit.point >= 0 &&
        (bytes < unit.discarded || (bytes == unit.discarded && ms >= unit.recompute_ms))) {
      continue;
    }
    unit.point = static_cast<int>(k);
    unit.discarded = bytes;
    unit.recompute_ms = ms;
  }
  return unit;
}

// The peak of units that are in the order of positions.
double peak_of(const UnitMilpProblem& problem, const std::vector<ChosenUnit>& units) {
  double peak = -kInfinity, discarded_before = 0;
  auto next = units.begin();
  for (const int node : by_position(problem.position)) {
    peak = std::max(peak, problem.base[node] - discarded_before);
    if (next == units.end() || next->node != node) continue;
    peak = std::max(peak, need_of(*problem.cost[node], next->point) - discarded_before);
    discarded_before += (next++)->discarded;
  }
  return peak + held_by_others(problem) - problem.others * discarded_before;
}

double scale_of(const UnitMilpProblem& problem) {
  double scale = 1;
  for (const double base : problem.base) {
    scale = std::max(scale, std::abs(base + held_by_others(problem)));
  }
  return scale;
}

// No plan's peak is below: nothing is discarded before the first position.
double floor_of(const UnitMilpProblem& problem) {
  if (problem.base.empty()) return 0;
  double floor = held_by_others(problem) + problem.base[by_position(problem.position).front()];
  for (const auto& cost : problem.cost) {
    if (cost) floor -= problem.others * cost->capacity;
  }
  return floor;
}

// The program, its memory in units of `scale` bytes so that the solver's tolerances mean something.
class Program {
 public:
  // With whole units each discards all it can, and has no cost.
  Program(const UnitMilpProblem& problem, bool has_whole_units)
      : problem_(problem),
        scale_(scale_of(problem)),
        is_whole_(has_whole_units),
        chosen_(problem.base.size(), -1),
        discarded_(chosen_),
        first_point_(chosen_) {
    double most_ms = 0;
    for (std::size_t i = 0; i < problem.base.size(); ++i) {
      if (!problem.cost[i]) continue;
      chosen_[i] = milp_.add_binary();
      if (is_whole_) continue;
      most_ms += discard_most(*problem.cost[i], 0).recompute_ms;
      add_cost(*problem.cost[i], i);
    }
    if (most_ms > 0) time_weight_ = kTimeWeight / most_ms;
    add_clique_rows();
  }

  void minimise_time() {
    for (const int cost : costs_) milp_.columns[cost].cost = time_weight_;
  }

  void limit_time(double max_ms) {
    std::vector<MilpTerm> terms;
    for (const int cost : costs_) terms.push_back({cost, 1});
    if (!terms.empty()) milp_.add_row(-kInfinity, std::move(terms), max_ms);
  }

  // What a budget of `low` bytes, and what is spent on it beyond that, does not cover has been
  // discarded before. The weight is of a whole `scale` of bytes.
  void add_memory_rows(double low, double high, double weight) {
    const double held = held_by_others(problem_);
    if (high > low) excess_ = milp_.add_column(0, (high - low) / scale_, weight);
    if (problem_.others > 0) add_total();
    double highest = low;
    for (const int node : by_position(problem_.position)) {
      if (const double need = problem_.base[node] + held; need > highest) {
        highest = need;
        add_row((highest - low) / scale_, {});
      }
      if (chosen_[node] < 0) continue;
      if (auto terms = own_need(node, low - held); !terms.empty()) add_row(0, std::move(terms));
      since_.push_back(gone_with(node));
    }
  }

  // Memory of the budget beyond its `low`, in units of bytes, of a weight of 1 a millisecond.
  double weight_of(double ms_per_byte) const { return ms_per_byte * scale_ * time_weight_; }
  double time_weight() const { return time_weight_; }
  double scale() const { return scale_; }
  const MilpProblem& milp() const { return milp_; }

  std::vector<ChosenUnit> read_units(const std::vector<double>& values) const {
    std::vector<ChosenUnit> units;
    for (const int node : by_position(problem_.position)) {
      if (chosen_[node] < 0 || values[chosen_[node]] < 0.5) continue;
      const DiscardCost& cost = *problem_.cost[node];
      ChosenUnit unit{.node = node};
      if (is_whole_) {
        unit = discard_most(cost, node);
      } else if (cost.points.empty()) {
        unit.discarded = std::clamp(values[discarded_[node]] * scale_, 0.0, cost.capacity);
        unit.recompute_ms = cost.at(unit.discarded);
      } else {
        unit.point = 0;
        while (values[first_point_[node] + unit.point] < 0.5) ++unit.point;
        std::tie(unit.discarded, unit.recompute_ms) = cost.points[unit.point];
      }
      if (unit.discarded != 0) units.push_back(unit);  // else a unit for nothing
    }
    return units;
  }

 private:
  void add_cost(const DiscardCost& cost, std::size_t node) {
    const double capacity = cost.capacity / scale_;
    const int y = chosen_[node];
    const int d = milp_.add_column(0, capacity);
    const int t = milp_.add_column(0, kInfinity);
    milp_.add_row(-kInfinity, {{d, 1}, {y, -capacity}}, 0);
    if (problem_.has_whole_bytes && cost.points.empty() && scale_ <= kMostWholeBytes) {
      const int bytes = milp_.add_column(0, cost.capacity, 0, true);
      milp_.add_row(0, {{d, scale_}, {bytes, -1}}, 0);
    }
    for (const SlopePiece& piece : cost.pieces) {
      milp_.add_row(0, {{t, 1}, {d, -piece.slope * scale_}, {y, -piece.intercept}}, kInfinity);
    }
    if (!cost.points.empty()) {
      std::vector<MilpTerm> one{{y, -1}}, bytes{{d, -1}}, ms{{t, -1}};
      for (const auto& [discarded, price] : cost.points) {
        const int z = milp_.add_binary();
        if (first_point_[node] < 0) first_point_[node] = z;
        one.push_back({z, 1});
        bytes.push_back({z, discarded / scale_});
        ms.push_back({z, price});
      }
      milp_.add_row(0, std::move(one), 0);
      milp_.add_row(0, std::move(bytes), 0);
      milp_.add_row(0, std::move(ms), 0);
    }
    discarded_[node] = d;
    costs_.push_back(t);
  }

  void add_clique_rows() {
    const auto paths = find_candidate_paths(problem_);
    std::vector<bool> is_lowest(paths.size());
    for (std::size_t i = 0; i < paths.size(); ++i) is_lowest[i] = problem_.cost[i].has_value();
    for (const auto& path : paths) {
      for (std::size_t k = 1; k < path.size(); ++k) is_lowest[path[k]] = false;
    }
    for (std::size_t i = 0; i < paths.size(); ++i) {
      if (!is_lowest[i] || paths[i].size() < 2) continue;
      std::vector<MilpTerm> terms;
      for (const int node : paths[i]) terms.push_back({chosen_[node], 1});
      milp_.add_row(-kInfinity, std::move(terms), 1);
    }
  }

  MilpTerm gone_with(int node) const {
    if (!is_whole_) return {discarded_[node], 1};
    return {chosen_[node], discard_most(*problem_.cost[node], node).discarded / scale_};
  }

  // A column for all that is discarded.
  void add_total() {
    total_ = milp_.add_column(0, kInfinity);
    std::vector<MilpTerm> terms{{total_, -1}};
    for (const int node : by_position(problem_.position)) {
      if (chosen_[node] >= 0) terms.push_back(gone_with(node));
    }
    milp_.add_row(0, std::move(terms), 0);
  }

  // What the node needs as a unit beyond `low`, with the sign of what is needed.
  std::vector<MilpTerm> own_need(int node, double low) const {
    std::vector<MilpTerm> terms;
    const DiscardCost& cost = *problem_.cost[node];
    const auto add = [&](int column, double need) {
      if (need > low) terms.push_back({column, (low - need) / scale_});
    };
    if (is_whole_ || cost.points.empty()) {
      add(chosen_[node], cost.need);
      return terms;
    }
    for (int k = 0; k < static_cast<int>(cost.points.size()); ++k) {
      add(first_point_[node] + k, need_of(cost, k));
    }
    return terms;
  }

  // excess + discarded before + others * discarded in all + terms >= least. The running sum is
  // sum_k = sum_{k-1} + discards since.
  void add_row(double least, std::vector<MilpTerm> terms) {
    const bool is_bound = terms.empty() && excess_ < 0 && total_ < 0;
    const int sum = milp_.add_column(is_bound ? least : 0, kInfinity);
    std::vector<MilpTerm> parts = std::exchange(since_, {});
    if (sum_ >= 0) parts.push_back({sum_, 1});
    parts.push_back({sum, -1});
    milp_.add_row(0, std::move(parts), 0);
    sum_ = sum;
    if (is_bound) return;
    terms.push_back({sum, 1});
    if (excess_ >= 0) terms.push_back({excess_, 1});
    if (total_ >= 0) terms.push_back({total_, static_cast<double>(problem_.others)});
    milp_.add_row(least, std::move(terms), kInfinity);
  }

  const UnitMilpProblem& problem_;
  const double scale_;
  const bool is_whole_;
  MilpProblem milp_;
  double time_weight_ = 1;
  std::vector<int> chosen_, discarded_;  // [n] columns, -1 where the node is not a candidate
  std::vector<int> first_point_;         // [n] column, -1 where it has none; the others follow
  std::vector<int> costs_;               // columns
  int excess_ = -1, total_ = -1, sum_ = -1;
  std::vector<MilpTerm> since_;  // discarded since the last sum
};

Result<Outcome<UnitMilpPlan>> solve(const UnitMilpProblem& problem, const Program& program,
                                    const math::MilpOptions& options,
                                    std::optional<double>& lower_bound) {
  PLIMSOLL_ASSIGN(const math::MilpOutcome solved, math::solve_milp(program.milp(), options));
  lower_bound = solved.lower_bound;
  Outcome<UnitMilpPlan> outcome;
  outcome.status = solved.status;
  outcome.stop = solved.stop;
  outcome.certificate = {std::nan(""), std::nullopt, ProofKind::kBranchAndCut};
  if (solved.values.empty()) return outcome;
  UnitMilpPlan& plan = outcome.plan.emplace();
  plan.units = program.read_units(solved.values);
  for (const ChosenUnit& unit : plan.units) plan.recompute_ms += unit.recompute_ms;
  plan.peak = peak_of(problem, plan.units);
  return outcome;
}

}  // namespace

double DiscardCost::at(double discarded) const {
  double ms = 0;
  for (const SlopePiece& piece : pieces) {
    ms = std::max(ms, piece.slope * discarded + piece.intercept);
  }
  return ms;
}

Result<Outcome<UnitMilpPlan>> solve_over_budgets(const UnitMilpProblem& problem,
                                                 const BudgetRange& range,
                                                 const math::MilpOptions& options) {
  PLIMSOLL_RETURN_IF_ERROR(check_unit_milp_problem(problem));
  if (!(range.high >= range.low) || !(range.ms_per_byte >= 0) || !std::isfinite(range.low) ||
      !std::isfinite(range.high) || !std::isfinite(range.ms_per_byte)) {
    return fail(ErrorCode::kValue, "budget", "the budgets are not a range",
                "give finite bytes, the lower end first, and a price of at least 0");
  }
  Program program(problem, false);
  program.minimise_time();
  program.add_memory_rows(range.low, range.high, program.weight_of(range.ms_per_byte));
  std::optional<double> bound;
  PLIMSOLL_ASSIGN(Outcome<UnitMilpPlan> outcome, solve(problem, program, options, bound));
  if (outcome.plan) {
    outcome.certificate.objective =
        outcome.plan->recompute_ms +
        range.ms_per_byte * std::max(0.0, outcome.plan->peak - range.low);
  }
  if (bound) outcome.certificate.lower_bound = *bound / program.time_weight();
  return outcome;
}

Result<Outcome<UnitMilpPlan>> solve_unit_milp(const UnitMilpProblem& problem,
                                              const math::MilpOptions& options) {
  return solve_over_budgets(problem, {problem.budget, problem.budget, 0}, options);
}

Result<Outcome<UnitMilpPlan>> minimise_peak(const UnitMilpProblem& problem,
                                            const math::MilpOptions& options, double max_ms) {
  PLIMSOLL_RETURN_IF_ERROR(check_unit_milp_problem(problem));
  const double low = floor_of(problem);
  // Where time does not count and room is asked of nobody, more discarded is never worse.
  const bool has_whole_units = max_ms == kInfinity && !has_needs(problem);
  Program program(problem, has_whole_units);
  if (max_ms < kInfinity) program.limit_time(max_ms);
  program.add_memory_rows(low, kInfinity, kPeakWeight);
  std::optional<double> bound;
  PLIMSOLL_ASSIGN(Outcome<UnitMilpPlan> outcome, solve(problem, program, options, bound));
  if (!outcome.plan) return outcome;
  outcome.certificate.objective = outcome.plan->peak;
  if (bound) {
    outcome.certificate.lower_bound =
        std::min(low + *bound / kPeakWeight * program.scale(), outcome.plan->peak);
  }
  return outcome;
}

}  // namespace plimsoll::checkpoint
