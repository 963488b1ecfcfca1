// Plans by mixed-integer programming against the exact search where both go, against trying every
// choice where only this one does.
#include "checkpoint/milp/milp_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "checkpoint/any_order.h"

namespace plimsoll::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Outcome<CheckpointPlan> plan(const CheckpointProblem& problem, Bytes budget) {
  const auto outcome = plan_by_milp(problem, budget);
  EXPECT_TRUE(outcome) << format_error(outcome.error());
  return outcome.value_or(Outcome<CheckpointPlan>{});
}

SmallestBudget smallest(const CheckpointProblem& problem) {
  const auto outcome = smallest_budget_by_milp(problem);
  EXPECT_TRUE(outcome) << format_error(outcome.error());
  EXPECT_EQ(outcome->status, SolveStatus::kOptimal);
  return outcome->plan.value_or(SmallestBudget{});
}

// The judge: no unit above another, and every base less what returned before it within the peak.
void expect_sound(const CheckpointProblem& problem, const CheckpointPlan& plan) {
  Bytes peak = std::numeric_limits<Bytes>::min(), gone = 0;
  double ms = 0;
  for (int p = 0; p < problem.num_modules(); ++p) {
    peak = std::max(peak, problem.base_at(p) - gone);
    for (const UnitDecision& decision : plan.decisions) {
      const int node = problem.units[decision.unit].nodes.front();
      if (problem.tree.position[node] == p) gone += decision.discarded;
      for (const UnitDecision& other : plan.decisions) {
        const int below = problem.units[other.unit].nodes.front();
        EXPECT_TRUE(below == node || !is_above(problem, node, below));
      }
    }
  }
  if (problem.end_base) peak = std::max(peak, *problem.end_base - gone);
  for (const UnitDecision& decision : plan.decisions) ms += price_of(problem, decision);
  EXPECT_EQ(plan.figures.peak, peak);
  EXPECT_NEAR(plan.figures.recompute_ms, ms, 1e-12);
}

Bytes most_bytes(const CandidateUnit& unit) {
  Bytes most = unit.price.capacity();
  for (const math::CostPoint& point : unit.points) most = std::max(most, point.bytes);
  return most;
}

// The least peak over every set of units none above another, each discarding all that it may.
struct LeastPeak {
  const CheckpointProblem& problem;
  Bytes best = std::numeric_limits<Bytes>::max();
  std::vector<int> chosen;

  void search(std::size_t next) {
    if (next == problem.units.size()) {
      Bytes peak = std::numeric_limits<Bytes>::min(), gone = 0;
      for (int p = 0; p < problem.num_modules(); ++p) {
        peak = std::max(peak, problem.base_at(p) - gone);
        for (const int u : chosen) {
          const int node = problem.units[u].nodes.front();
          if (problem.tree.position[node] == p) gone += most_bytes(problem.units[u]);
        }
      }
      if (problem.end_base) peak = std::max(peak, *problem.end_base - gone);
      best = std::min(best, peak);
      return;
    }
    search(next + 1);
    const int node = problem.units[next].nodes.front();
    for (const int u : chosen) {
      const int other = problem.units[u].nodes.front();
      if (is_above(problem, node, other) || is_above(problem, other, node)) return;
    }
    chosen.push_back(static_cast<int>(next));
    search(next + 1);
    chosen.pop_back();
  }
};

// R.b.x, below R.b, returns before R.a does: neither block is a run of positions.
//
//   position   0      1      2     3     4       R.a discards 30 at 1 ms a byte,
//   node       R.a.x  R.b.x  R.a   R.b   R       R.b discards 50 at 2 ms a byte,
//   base       60     90     80    100   160     R discards 500, which nobody needs
//   gone                           30    80
// 160 - 80 = 80 before R is less than the 90 of R.b.x, before which nothing returns but a leaf.
CheckpointProblem crossing_blocks() {
  CheckpointProblem problem = bench::problem_over({-1, 0, 1, 0, 3});
  problem.fqn = {"R", "R.a", "R.a.x", "R.b", "R.b.x"};
  problem.tree.post_order = {2, 4, 1, 3, 0};
  problem.tree.position = {4, 2, 0, 3, 1};
  problem.tree.is_nested = false;
  problem.base = {160, 80, 60, 100, 90};
  const auto add = [&problem](int node, Bytes kept, double slope) {
    CandidateUnit unit;
    unit.nodes = {node};
    unit.own_need = std::numeric_limits<Bytes>::min();
    unit.kept_inside = unit.sac_memory = kept;
    unit.price.pieces = {{kept, slope}};
    problem.units.push_back(unit);
  };
  add(1, 30, 1);
  add(3, 50, 2);
  add(0, 500, 0);
  return problem;
}

TEST(MilpSearch, NamesTheSmallestBudgetWhereOrdersDisagree) {
  CheckpointProblem problem = crossing_blocks();
  EXPECT_EQ(smallest(problem).bytes, 90);
  EXPECT_EQ(smallest(problem).binding, "R.b.x");
  const Outcome<CheckpointPlan> least = plan(problem, 90);
  ASSERT_EQ(least.status, SolveStatus::kOptimal);
  EXPECT_EQ(least.plan->figures.recompute_ms, 30 + 2 * 40);
  EXPECT_THAT(least.warnings, ElementsAre(::testing::Field(&Warning::code, "order_of_return")));

  const Outcome<CheckpointPlan> none = plan(problem, 89);
  EXPECT_EQ(none.status, SolveStatus::kInfeasible);
  EXPECT_FALSE(none.plan);
  EXPECT_EQ(none.explanation.binding, "R.b.x");
  EXPECT_EQ(none.explanation.missing, 1);
  EXPECT_THAT(none.explanation.lines.front(),
              HasSubstr("the smallest feasible budget is 90 B (90 bytes)"));

  problem.base[4] =
      0;  // now 80 at R.a, which nothing precedes, and 80 at the root: the first is it
  EXPECT_EQ(smallest(problem).bytes, 80);
  EXPECT_EQ(smallest(problem).binding, "R.a");
  problem.end_base = 400;  // every discard counts; the root's alone beats the two blocks'
  EXPECT_EQ(smallest(problem).bytes, 160);
  EXPECT_EQ(smallest(problem).binding, "R");
  problem.end_base = 700;
  EXPECT_EQ(smallest(problem).bytes, 200);
  EXPECT_EQ(smallest(problem).binding, "");
  EXPECT_EQ(plan(problem, 0).explanation.binding, "end of forward");
  problem.base = {-5, -6, -7, -8, -9};
  problem.end_base.reset();
  EXPECT_EQ(smallest(problem).bytes, 0);
  EXPECT_THAT(plan(problem, 0).plan->decisions, IsEmpty());
}

TEST(MilpSearch, EqualsTheExactSearchOnNestedTrees) {
  int num_infeasible = 0;
  for (int seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(seed);
    const CheckpointProblem problem = mixed_problem(seed);
    const SmallestBudget exact = *smallest_budget(problem);
    EXPECT_EQ(smallest(problem).bytes, exact.bytes);
    for (const Bytes budget : {exact.bytes - 1, exact.bytes, exact.bytes + 13, Bytes{90}}) {
      SCOPED_TRACE(budget);
      const Outcome<CheckpointPlan> found = plan(problem, budget);
      const auto right = plan_for_budget(problem, budget);
      ASSERT_EQ(found.status, right->status);
      num_infeasible += found.plan ? 0 : 1;
      if (!found.plan) {
        EXPECT_EQ(found.explanation.missing, exact.bytes - budget);
        continue;
      }
      EXPECT_LE(found.plan->figures.peak, budget);
      EXPECT_NEAR(found.certificate.objective, right->certificate.objective, 1e-4);
      expect_sound(problem, *found.plan);
    }
  }
  EXPECT_GT(num_infeasible, 120);
}

// Bytes are few, so that a plan of whole ones costs more than the program's relaxation, and other
// units may be best: a status says what the bound proves.
TEST(MilpSearch, CallsOptimalWhatItsBoundProves) {
  int num_proved = 0, num_plans = 0;
  for (int seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(seed);
    const CheckpointProblem problem = mixed_problem(seed);
    const int in_flight = 1 + seed % 4;
    const Bytes least = smallest_stage_budget(problem, {in_flight, 10'000, {}})->bytes;
    for (const Bytes budget : {least, least + 3, least + 17, least + 40 * in_flight}) {
      SCOPED_TRACE(budget);
      const auto found = plan_stage_by_milp(problem, budget, in_flight);
      const auto exact = plan_pipeline_stage(problem, budget, {in_flight, 10'000, {}});
      ASSERT_TRUE(found && found->plan && exact && exact->plan);
      const double right = exact->plan->recompute_ms;
      EXPECT_NEAR(found->plan->recompute_ms, right, 1e-5 * (1 + right));
      const double bound = found->certificate.lower_bound.value_or(-1);
      EXPECT_LE(bound, right * (1 + 1e-6) + 1e-9);
      const auto gap = found->certificate.gap();
      EXPECT_EQ(found->status == SolveStatus::kOptimal, gap && *gap <= 1e-6);
      num_proved += found->status == SolveStatus::kOptimal ? 1 : 0;
      ++num_plans;
    }
  }
  EXPECT_GT(num_proved, num_plans * 9 / 10);
}

TEST(MilpSearch, FindsTheSmallestBudgetOfAnyOrderToTheByte) {
  int num_helped = 0;
  for (int seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const CheckpointProblem problem = scrambled(mixed_problem(seed), seed);
    LeastPeak brute_force{problem, std::numeric_limits<Bytes>::max(), {}};
    brute_force.search(0);
    const SmallestBudget least = smallest(problem);
    ASSERT_EQ(least.bytes, std::max<Bytes>(0, brute_force.best));
    Bytes without = std::numeric_limits<Bytes>::min();
    for (const Bytes base : problem.base) without = std::max(without, base);
    num_helped += least.bytes < without ? 1 : 0;

    const Outcome<CheckpointPlan> found = plan(problem, least.bytes);
    ASSERT_TRUE(found.plan);
    EXPECT_LE(found.plan->figures.peak, least.bytes);
    expect_sound(problem, *found.plan);
    if (least.bytes == 0) continue;
    const Outcome<CheckpointPlan> none = plan(problem, least.bytes - 1);
    EXPECT_EQ(none.status, SolveStatus::kInfeasible);
    EXPECT_EQ(none.explanation.missing, 1);
    EXPECT_EQ(none.explanation.binding, least.binding.empty() ? "end of forward" : least.binding);
  }
  EXPECT_GT(num_helped, 40);
}

// Bytes of real models, odd ones far within the solver's tolerance: the budget it names has a plan
// to the byte, and no smaller one has by more than that tolerance.
TEST(MilpSearch, HoldsBudgetsOfRealSizesToTheByte) {
  for (int seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    CheckpointProblem problem = scrambled(mixed_problem(seed), seed);
    // Peaks that differ by some 100 KiB are no ties.
    const auto large = [](Bytes bytes) {
      return bytes == 0 ? 0 : bytes * kGiB / 2 + std::abs(bytes) * 7919 % (1 << 18);
    };
    for (Bytes& base : problem.base) base = large(base);
    if (problem.end_base) problem.end_base = large(*problem.end_base);
    for (CandidateUnit& unit : problem.units) {
      unit.kept_inside = unit.sac_memory = large(unit.kept_inside);
      for (math::CostPiece& piece : unit.price.pieces) {
        piece.length = large(piece.length);
        piece.slope /= static_cast<double>(kGiB);
      }
      for (math::CostPoint& point : unit.points) point.bytes = large(point.bytes);
    }
    LeastPeak brute_force{problem, std::numeric_limits<Bytes>::max(), {}};
    brute_force.search(0);
    const SmallestBudget least = smallest(problem);
    const Bytes right = std::max<Bytes>(0, brute_force.best);
    constexpr Bytes kTolerance = 150 * kGiB / 2 / 10'000'000;
    EXPECT_GE(least.bytes, right);
    EXPECT_LE(least.bytes, right + kTolerance);
    const Outcome<CheckpointPlan> found = plan(problem, least.bytes);
    ASSERT_TRUE(found.plan);
    EXPECT_LE(found.plan->figures.peak, least.bytes);
    if (right == 0) continue;
    const Outcome<CheckpointPlan> none = plan(problem, right - 1);
    EXPECT_EQ(none.status, SolveStatus::kInfeasible);
    EXPECT_EQ(none.explanation.missing, least.bytes - (right - 1));
  }
}

// R.a.b frees 4 KiB less than R.a does, for nothing: by the solver's tolerance it fits, too.
TEST(MilpSearch, TakesNoPlanThatOnlyTheSolversToleranceLetsFit) {
  CheckpointProblem problem = bench::problem_over({-1, 0, 1, 2});
  problem.base = {75 * kGiB, 0, 0, 0};
  const auto add = [&problem](int node, Bytes kept, double slope) {
    CandidateUnit unit = bench::unit_over(problem, {node});
    unit.kept_inside = unit.sac_memory = kept;
    unit.price.pieces = {{kept, slope}};
    problem.units.push_back(unit);
  };
  add(2, 40 * kGiB - 4096, 0);
  add(1, 40 * kGiB, 1e-6);
  EXPECT_EQ(smallest(problem).bytes, 35 * kGiB);
  const Outcome<CheckpointPlan> found = plan(problem, 35 * kGiB);
  ASSERT_TRUE(found.plan);
  EXPECT_EQ(found.plan->figures.peak, 35 * kGiB);
  EXPECT_EQ(plan(problem, 35 * kGiB + 4096).certificate.objective, 0);
}

// Discards all count (N - 1) times more, wherever they stand.
TEST(MilpSearch, PlansStagesOfAnyOrder) {
  int num_infeasible = 0, num_harder = 0;
  for (int seed = 0; seed < 240; seed += 3) {  // points, so that trying everything is possible
    SCOPED_TRACE(seed);
    const CheckpointProblem problem = scrambled(mixed_problem(seed, seed % 2 == 0), seed);
    for (const int in_flight : {2, 4}) {
      const Bytes most = 175 + (in_flight - 1) * problem.total_activations;
      const std::vector<double> least = least_times(problem, most, in_flight);
      Bytes smallest = 0;
      while (least[smallest] == kInfinity) ++smallest;
      for (const Bytes budget : {smallest - 1, smallest, smallest + 9, smallest + 40}) {
        if (budget < 0 || budget > most) continue;
        SCOPED_TRACE(budget);
        const auto found = plan_stage_by_milp(problem, budget, in_flight);
        ASSERT_TRUE(found) << format_error(found.error());
        if (least[budget] == kInfinity) {
          ++num_infeasible;
          EXPECT_EQ(found->status, SolveStatus::kInfeasible);
          EXPECT_EQ(found->explanation.missing, smallest - budget);
          continue;
        }
        ASSERT_EQ(found->status, SolveStatus::kOptimal);
        EXPECT_NEAR(found->plan->recompute_ms, least[budget], 1e-6);
        EXPECT_EQ(found->plan->peak,
                  peak_in_any_order(problem, found->plan->plan.decisions, in_flight));
        EXPECT_LE(found->plan->peak, budget);
        num_harder += found->plan->recompute_ms > 0 ? 1 : 0;
      }
    }
  }
  EXPECT_GT(num_infeasible, 50);
  EXPECT_GT(num_harder, 100);
}

TEST(MilpSearch, PlansStagesAsTheExactSearchDoes) {
  for (int seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const CheckpointProblem problem = mixed_problem(seed);
    const StageOptions options{.in_flight = 3, .search = {}};
    const Bytes smallest = smallest_stage_budget(problem, options)->bytes;
    for (const Bytes budget : {smallest - 1, smallest, smallest + 11, smallest + 50}) {
      SCOPED_TRACE(budget);
      const auto right = plan_pipeline_stage(problem, budget, options);
      const auto found = plan_stage_by_milp(problem, budget, 3);
      ASSERT_EQ(found->status, right->status);
      EXPECT_EQ(found->explanation, right->explanation);
      if (!right->plan) continue;
      EXPECT_NEAR(found->plan->recompute_ms, right->plan->recompute_ms, 1e-5);
      EXPECT_LE(found->plan->peak, budget);
    }
  }
}

// What a unit needs for itself binds where it is one, and nowhere else.
TEST(MilpSearch, GivesUnitsTheRoomTheyNeed) {
  int num_bound = 0;
  for (int seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    CheckpointProblem problem = scrambled(mixed_problem(seed, true), seed);
    const std::vector<double> least = least_times(problem, 175);
    CheckpointProblem roomy = problem;
    for (CandidateUnit& unit : roomy.units) {
      unit.own_need = kNoNeed;
      for (math::CostPoint& point : unit.points) point.needs = kNoNeed;
    }
    const std::vector<double> without = least_times(roomy, 175);
    for (Bytes budget = 20; budget <= 170; budget += 15) {
      SCOPED_TRACE(budget);
      const Outcome<CheckpointPlan> found = plan(problem, budget);
      num_bound += least[budget] != without[budget] ? 1 : 0;
      ASSERT_EQ(found.plan.has_value(), least[budget] < kInfinity);
      if (!found.plan) continue;
      EXPECT_NEAR(found.plan->figures.recompute_ms, least[budget], 1e-5);
      EXPECT_LE(peak_in_any_order(problem, found.plan->decisions), budget);
    }
  }
  EXPECT_GT(num_bound, 10);
}

TEST(MilpSearch, BoundsWhatChoicesLeftOutCouldSave) {
  CheckpointProblem problem = bench::problem_over({-1, 0, 1});
  problem.base = {100, 0, 0};
  CandidateUnit unit = bench::unit_over(problem, {1});
  unit.kept_inside = unit.sac_memory = 40;
  unit.points = {{40, 5.0, kNoNeed}};
  unit.loss_ms = 2;
  problem.units = {unit};
  problem.thinned = {1};
  const Outcome<CheckpointPlan> found = plan(problem, 60);
  EXPECT_EQ(found.status, SolveStatus::kFeasible);
  EXPECT_EQ(found.certificate.objective, 5);
  EXPECT_NEAR(*found.certificate.lower_bound, 3, 1e-6);
  EXPECT_THAT(found.warnings, ElementsAre(::testing::Field(&Warning::code, "choices_left_out")));
}

TEST(MilpSearch, RefusesWhatItDoesNotKnow) {
  const auto place = [](auto change) {
    CheckpointProblem problem = crossing_blocks();
    change(problem);
    const auto planned = plan_by_milp(problem, 100);
    const auto least = smallest_budget_by_milp(problem);
    EXPECT_EQ(planned.has_value(), least.has_value());
    return planned ? std::string("none") : planned.error().place;
  };
  EXPECT_EQ(place([](CheckpointProblem&) {}), "none");
  EXPECT_EQ(place([](CheckpointProblem& p) { p.model.max_segment_length = 2; }),
            "max_segment_length");
  EXPECT_EQ(place([](CheckpointProblem& p) { p.model.nested_units = true; }), "nested_units");
  EXPECT_EQ(place([](CheckpointProblem& p) { p.model.saved_copies = true; }), "repairs");
  EXPECT_EQ(plan_stage_by_milp(crossing_blocks(), 100, 0).error().place, "in_flight");
}

}  // namespace
}  // namespace plimsoll::checkpoint
