// The exact search against trying everything, against itself with its rules turned off, and against
// what must hold of any frontier.
#include "plimsoll/checkpoint/frontier_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "checkpoint/brute_force.h"
#include "checkpoint/frontier/stage_search.h"
#include "checkpoint/random_trees.h"
#include "checkpoint/vectors.h"

namespace plimsoll::checkpoint {
namespace {

using bench::Family;
using bench::layered_tree;
using bench::Random;
using bench::small_tree;
using bench::SmallTree;
using math::Frontier;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Frontier frontier_of(const CheckpointProblem& problem, const FrontierOptions& options = {},
                     SearchWork* work = nullptr) {
  const auto outcome = plan_frontier(problem, options, {}, work);
  EXPECT_TRUE(outcome) << format_error(outcome.error());
  EXPECT_EQ(outcome->status, SolveStatus::kOptimal);
  EXPECT_TRUE(outcome->plan && outcome->plan->is_exact());
  return outcome->plan.value_or(Frontier());
}

Outcome<CheckpointPlan> plan_of(const CheckpointProblem& problem, Bytes budget,
                                const FrontierOptions& options = {}, SearchWork* work = nullptr) {
  const auto outcome = plan_for_budget(problem, budget, options, {}, work);
  EXPECT_TRUE(outcome) << format_error(outcome.error());
  return outcome.value_or(Outcome<CheckpointPlan>{});
}

// The plan fits, costs what it says, and is the frontier's.
void expect_plan(const CheckpointProblem& problem, const Frontier& frontier, Bytes budget) {
  const Outcome<CheckpointPlan> outcome = plan_of(problem, budget);
  const auto ms = frontier.ms_at(budget);
  ASSERT_EQ(outcome.plan.has_value(), ms.has_value());
  if (!ms) return;
  EXPECT_EQ(outcome.status, SolveStatus::kOptimal);
  const PlanFigures figures = replay(problem, outcome.plan->decisions);
  EXPECT_EQ(figures, outcome.plan->figures);
  EXPECT_LE(figures.peak, budget);
  EXPECT_EQ(figures.recompute_ms, outcome.certificate.objective);
  EXPECT_NEAR(figures.recompute_ms, *ms, 1e-8 * (1e-3 + *ms));
  EXPECT_LE(*outcome.certificate.lower_bound, outcome.certificate.objective);
}

//   R  base 2704, IA 1700          post-order (base in MiB, one rank; four ranks)
//   ├─ R.a  1724, IA 768            R.a.x 1670  1136
//   │   └─ R.a.x  1670              R.a   1724  1199
//   ├─ R.b  2456, IA 768            R.b.x 2402  1943
//   │   └─ R.b.x  2402              R.b   2456  2006
//   └─ R.c  2576                    R.c   2576  2276
//                                   R     2704  2404
// At 2662.4 MiB on one rank 41.6 MiB are missing before R alone. R.a discards them from the 256 MiB
// on that its operators hold beyond autograd's: ratio (41.6 + 256) / 1024 = .290625, and
// 4 ms * .4 * .290625 = .465 ms. R.b costs half as much again a byte.
MemoryModel ranks(int world_size) {
  MemoryModel model;
  model.world_size = world_size;
  return model;
}

ModuleStats tiny6() { return stats_from_instance(golden().at("sac_instances").at(0)); }

TEST(FrontierSearch, SolvesTheTinyTreeAsByHand) {
  const CheckpointProblem problem = problem_from(tiny6(), ranks(1));
  std::vector<Bytes> bases;
  for (int p = 0; p < 6; ++p) bases.push_back(problem.base_at(p) / kMiB);
  EXPECT_THAT(bases, ElementsAre(1670, 1724, 2402, 2456, 2576, 2704));

  struct Row {
    int world_size;
    double gib;
    double ms;  // < 0: infeasible
    std::vector<std::pair<std::string, double>> ratios;
  };
  const Row rows[] = {
      {1, 2.7, 0, {}},
      {1, 2.6, .465, {{"R.a", .2906}}},
      {1, 2.5, .625, {{"R.a", .3906}}},
      {1, 2.25, 1.7, {{"R.a", .6406}}},
      {1, 2.0, 2.93125, {{"R.a", .6484}, {"R.b", .4922}}},
      {1, 1.75, 4.53125, {{"R.a", .8984}, {"R.b", .4922}}},
      {1, 1.5, -1, {}},
      {1, 1.25, -1, {}},
      {1, 1.0, -1, {}},
      {4, 2.7, 0, {}},
      {4, 2.6, 0, {}},
      {4, 2.5, 0, {}},
      {4, 2.25, .55625, {{"R.a", .3477}}},
      {4, 2.0, 1.425, {{"R.a", .5977}}},
      {4, 1.75, 2.625, {{"R.a", .5977}, {"R.b", .5}}},
      {4, 1.5, 4.225, {{"R.a", .8477}, {"R.b", .5}}},
      {4, 1.25, 6.1375, {{"R.a", 1}, {"R.b", .5977}}},
      {4, 1.0, -1, {}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(std::to_string(row.world_size) + " ranks, " + std::to_string(row.gib));
    const CheckpointProblem tree = problem_from(tiny6(), ranks(row.world_size));
    const auto budget = static_cast<Bytes>(row.gib * static_cast<double>(kGiB));
    const Outcome<CheckpointPlan> outcome = plan_of(tree, budget);
    expect_plan(tree, frontier_of(tree), budget);
    if (row.ms < 0) {
      EXPECT_EQ(outcome.status, SolveStatus::kInfeasible);
      continue;
    }
    ASSERT_TRUE(outcome.plan);
    EXPECT_NEAR(outcome.certificate.objective, row.ms, 1e-6);
    ASSERT_EQ(outcome.plan->policy.units.size(), row.ratios.size());
    for (std::size_t k = 0; k < row.ratios.size(); ++k) {
      EXPECT_EQ(outcome.plan->policy.units[k].fqns, std::vector{row.ratios[k].first});
      EXPECT_NEAR(outcome.plan->policy.units[k].discard_ratio, row.ratios[k].second, 1e-4);
    }
  }
}

TEST(FrontierSearch, GivesTheWholeFrontierOfTheTinyTree) {
  const double one_rank[][3] = {{1.683594, 4.95625, -6.4},
                                {2.148438, 1.98125, -2.4},
                                {2.240625, 1.76, -6.4},
                                {2.390625, .8, -1.6},
                                {2.640625, 0, 0}};
  const double four_ranks[][3] = {{1.208984, 6.53125, -9.6}, {1.347656, 5.2, -6.4},
                                  {1.847656, 2.0, -2.4},     {1.947656, 1.76, -6.4},
                                  {2.097656, .8, -1.6},      {2.347656, 0, 0}};
  const auto expect_rows = [](const auto& rows, const std::vector<math::FrontierPoint>& points) {
    ASSERT_EQ(points.size(), std::size(rows));
    for (std::size_t k = 0; k < points.size(); ++k) {
      EXPECT_NEAR(static_cast<double>(points[k].bytes) / static_cast<double>(kGiB), rows[k][0],
                  1e-6);
      EXPECT_NEAR(points[k].ms, rows[k][1], 1e-6);
      EXPECT_NEAR(points[k].slope * static_cast<double>(kGiB), rows[k][2], 1e-6);
    }
  };
  expect_rows(one_rank, frontier_of(problem_from(tiny6(), ranks(1))).breakpoints());
  expect_rows(four_ranks, frontier_of(problem_from(tiny6(), ranks(4))).breakpoints());
}

TEST(FrontierSearch, SaysWhatAnInfeasibleBudgetLacksAndWhere) {
  const CheckpointProblem problem = problem_from(tiny6(), ranks(1));
  const auto smallest = smallest_budget(problem);
  ASSERT_TRUE(smallest);
  EXPECT_EQ(smallest->bytes, 1724 * kMiB);  // nothing ends before R.a
  EXPECT_EQ(smallest->binding, "R.a");
  const Outcome<CheckpointPlan> outcome = plan_of(problem, 1724 * kMiB - 7);
  EXPECT_EQ(outcome.status, SolveStatus::kInfeasible);
  EXPECT_EQ(outcome.explanation.binding, "R.a");
  EXPECT_EQ(outcome.explanation.missing, 7);
  EXPECT_THAT(outcome.explanation.lines.front(), HasSubstr(std::to_string(1724 * kMiB)));
  EXPECT_EQ(plan_of(problem, 1724 * kMiB).status, SolveStatus::kOptimal);
  EXPECT_EQ(plan_of(problem, 0).status, SolveStatus::kInfeasible);
}

TEST(FrontierSearch, NamesThePeaksPlaceAndThePriceOfMemory) {
  const CheckpointProblem problem = problem_from(tiny6(), ranks(1));
  const auto budget = static_cast<Bytes>(2.5 * static_cast<double>(kGiB));
  const Outcome<CheckpointPlan> outcome = plan_of(problem, budget);
  EXPECT_EQ(outcome.plan->figures.peak, budget);
  EXPECT_EQ(problem.fqn[outcome.plan->figures.binding_node], "R");
  EXPECT_NEAR(outcome.plan->price_ms_per_gib, 1.6, 1e-6);
  EXPECT_THAT(outcome.plan->figures.profile[0], 1670 * kMiB);

  const Frontier frontier = frontier_of(problem);
  const auto again = plan_for_time(problem, frontier, 1.7);
  ASSERT_TRUE(again);
  EXPECT_NEAR(static_cast<double>(again->plan->figures.peak), 2.25 * static_cast<double>(kGiB), 2);
  EXPECT_LE(again->certificate.objective, 1.7);
  EXPECT_EQ(plan_for_time(problem, frontier, -1)->status, SolveStatus::kInfeasible);
  const auto knee = plan_at_knee(problem, frontier);
  ASSERT_TRUE(knee);
  EXPECT_NEAR(knee->certificate.objective, *frontier.ms_at(*frontier.knee()), 1e-9);
}

TEST(FrontierSearch, EqualsTryingEverything) {
  for (std::uint64_t seed = 1; seed <= 2500; ++seed) {
    SCOPED_TRACE(seed);
    SmallTree shape;
    shape.most_nodes = seed % 5 == 0 ? 14 : 9;
    shape.has_segments = seed % 3 == 0;
    shape.has_end = seed % 4 == 0;
    const CheckpointProblem problem = small_tree(seed, shape);
    const Frontier frontier = frontier_of(problem);
    const auto bound = bound_frontier(problem);
    ASSERT_TRUE(bound);
    Random random(seed);
    std::vector<Bytes> budgets{0, frontier.min_bytes() - 1, frontier.min_bytes(),
                               frontier.saturation_bytes()};
    for (int k = 0; k < 4; ++k) budgets.push_back(random.whole(0, 160));
    const auto breakpoints = frontier.breakpoints();
    const Bytes at = breakpoints[seed % breakpoints.size()].bytes;
    budgets.insert(budgets.end(), {at - 1, at, at + 1});
    for (const Bytes budget : budgets) {
      if (budget < 0) continue;
      SCOPED_TRACE(budget);
      const auto expected = least_time(problem, budget);
      const auto found = frontier.ms_at(budget);
      ASSERT_EQ(found.has_value(), expected.has_value());
      if (expected) {
        EXPECT_NEAR(*found, *expected, 1e-9);
        EXPECT_LE(value_at(*bound, budget), *expected + 1e-9);
      }
      expect_plan(problem, frontier, budget);
    }
    if (HasFailure()) break;
  }
}

TEST(FrontierSearch, EqualsTryingEveryPoint) {
  int num_nested = 0;
  for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
    SCOPED_TRACE(seed);
    SmallTree shape;
    shape.most_nodes = 8;
    shape.has_points = true;
    shape.has_segments = seed % 3 == 0;
    shape.has_end = seed % 4 == 0;
    CheckpointProblem problem = small_tree(seed, shape);
    // Late positions need more, as they do in models; so inner units are of use to outer ones.
    for (int p = 0; seed % 2 == 0 && p < problem.num_modules(); ++p) {
      problem.base[problem.tree.post_order[p]] = problem.base_at(p) / 4 + 15 * p;
    }
    for (CandidateUnit& unit : problem.units) {
      unit.threshold = bench::unit_over(problem, unit.nodes).threshold;
    }
    problem.model.nested_units = seed % 4 < 2;
    const auto plans = all_plans(problem);
    const Frontier frontier = frontier_of(problem);
    const auto bound = bound_frontier(problem);
    for (Bytes budget = 0; budget <= 150; budget += 1 + static_cast<Bytes>(seed % 7)) {
      SCOPED_TRACE(budget);
      const auto expected = least_time(plans, budget);
      const auto found = frontier.ms_at(budget);
      ASSERT_EQ(found.has_value(), expected.has_value());
      if (!expected) continue;
      EXPECT_NEAR(*found, *expected, 1e-9);
      EXPECT_LE(value_at(*bound, budget), *expected + 1e-9);
      if (budget % 3 != 0) continue;
      expect_plan(problem, frontier, budget);
      const Outcome<CheckpointPlan> outcome = plan_of(problem, budget);
      for (const UnitDecision& decision : outcome.plan->decisions) {
        num_nested += decision.nested.empty() ? 0 : 1;
      }
    }
    if (HasFailure()) break;
  }
  EXPECT_GT(num_nested, 10);
}

//   R            base 100          post-order  1 ─ 2 ─ 3 ─ 4 ─ 5 ─ 6
//   ├─ A          base  60, discards 60 for 5 ms
//   │   ├─ x      base  30, discards 20 for 1 ms
//   │   │   └─ l  base  10
//   │   └─ y      base  60
//   └─ z          base 100
// A alone needs 60 on entry, and 100 - 60 after. With x inside its recomputed forward y needs but
// 60 - 20, and x 30; so 40 is enough for all, at 5 + 1 ms.
TEST(FrontierSearch, NestsAUnitWhereNothingElseFits) {
  CheckpointProblem problem = bench::problem_over({-1, 0, 1, 2, 1, 0});
  problem.base = {100, 60, 30, 10, 60, 100};
  for (const auto& [node, bytes, ms] : {std::tuple{1, 60, 5.0}, std::tuple{2, 20, 1.0}}) {
    CandidateUnit unit = bench::unit_over(problem, {node});
    unit.kept_inside = unit.sac_memory = bytes;
    unit.points = {{bytes, ms}};
    problem.units.push_back(unit);
  }
  bench::sort_units(problem);
  using Rows = std::vector<std::pair<Bytes, double>>;
  const auto rows = [](const Frontier& frontier) {
    Rows out;
    for (const auto& point : frontier.breakpoints()) out.emplace_back(point.bytes, point.ms);
    return out;
  };
  EXPECT_EQ(rows(frontier_of(problem)), (Rows{{60, 5}, {80, 1}, {100, 0}}));
  problem.model.nested_units = true;
  EXPECT_EQ(rows(frontier_of(problem)), (Rows{{40, 6}, {60, 5}, {80, 1}, {100, 0}}));

  const Outcome<CheckpointPlan> outcome = plan_of(problem, 45);
  ASSERT_EQ(outcome.plan->policy.units.size(), 1u);
  const CheckpointUnit& outer = outcome.plan->policy.units.front();
  EXPECT_THAT(outer.fqns, ElementsAre("R.m1"));
  EXPECT_EQ(outer.kind, UnitKind::kFull);
  EXPECT_EQ(outer.recompute_ms, 5);
  ASSERT_EQ(outer.nested.size(), 1u);
  EXPECT_THAT(outer.nested.front().fqns, ElementsAre("R.m2"));
  EXPECT_EQ(outer.nested.front().recompute_ms, 1);
  EXPECT_EQ(outcome.plan->figures.peak, 40);
  EXPECT_THAT(outcome.plan->figures.profile, ElementsAre(10, 30, 40, 40, 40, 40));
  EXPECT_EQ(problem.fqn[outcome.plan->figures.binding_node], "R.m4");  // the first of four
}

// R ─┬─ A ── x      A and x discard 20 at the same price but for a tie, in the end w does too. No
//    ├─ w ── l      unit goes before a unit, so w's is taken; an inner one before an outer, so
//    └─ z           x's without w; and the most bytes of equal price.
TEST(FrontierSearch, BreaksTiesAsItPromises) {
  CheckpointProblem problem = bench::problem_over({-1, 0, 1, 2, 0, 4, 0});
  problem.base = {100, 10, 10, 10, 10, 10, 100};
  const auto add = [&](int node, double ms) {
    CandidateUnit unit = bench::unit_over(problem, {node});
    unit.kept_inside = unit.sac_memory = 20;
    unit.price = {ms, {{20, 0}}};
    problem.units.push_back(unit);
  };
  add(1, 1 - 4e-10);
  add(2, 1);
  bench::sort_units(problem);
  Outcome<CheckpointPlan> outcome = plan_of(problem, 95);
  ASSERT_EQ(outcome.plan->policy.units.size(), 1u);
  EXPECT_THAT(outcome.plan->policy.units[0].fqns, ElementsAre("R.m2"));
  EXPECT_EQ(outcome.plan->policy.units[0].discarded, 20);
  EXPECT_EQ(plan_of(problem, 100).plan->policy.units.size(), 0u);
  add(4, 1);
  bench::sort_units(problem);
  outcome = plan_of(problem, 95);
  ASSERT_EQ(outcome.plan->policy.units.size(), 1u);
  EXPECT_THAT(outcome.plan->policy.units[0].fqns, ElementsAre("R.m4"));
}

TEST(FrontierSearch, PlansAPipelineStageAsTryingEverything) {
  int feasible = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(seed);
    SmallTree shape;
    shape.most_nodes = 7;
    shape.has_points = true;
    shape.has_end = seed % 4 == 0;
    CheckpointProblem problem = small_tree(seed, shape);
    problem.total_activations = 60;
    StageOptions options;
    options.in_flight = static_cast<int>(1 + seed % 4);
    const auto plans = all_plans(problem, [&](const std::vector<UnitDecision>& decisions) {
      Bytes gone = 0;
      for (const UnitDecision& decision : decisions) gone += decision.discarded;
      return (options.in_flight - 1) * (problem.total_activations - gone);
    });
    for (const Bytes budget : {40, 80, 120, 160, 200, 260}) {
      SCOPED_TRACE(budget);
      const auto expected = least_time(plans, budget);
      const auto outcome = plan_pipeline_stage(problem, budget, options);
      ASSERT_TRUE(outcome);
      ASSERT_EQ(outcome->plan.has_value(), expected.has_value());
      if (!expected) {
        EXPECT_EQ(outcome->status, SolveStatus::kInfeasible);
        // What it names as the smallest budget fits, and a byte less does not.
        const Bytes least = budget + outcome->explanation.missing;
        EXPECT_TRUE(least_time(plans, least));
        EXPECT_FALSE(least_time(plans, least - 1)) << least;
        EXPECT_FALSE(outcome->explanation.binding.empty());
        const auto tight = plan_pipeline_stage(problem, least, options);
        EXPECT_EQ(tight->status, SolveStatus::kOptimal);
        continue;
      }
      ++feasible;
      EXPECT_EQ(outcome->status, SolveStatus::kOptimal);
      EXPECT_NEAR(outcome->certificate.objective, *expected, 1e-8);
      EXPECT_LE(outcome->plan->peak, budget);
      if (problem.units.empty()) continue;
      // As if choices half a millisecond cheaper had been left out: these.
      CheckpointProblem thinned = problem;
      thinned.thinned = {thinned.units[0].nodes[0]};
      for (CandidateUnit& unit : thinned.units) {
        unit.loss_ms = .5;
        for (math::CostPoint& point : unit.points) point.price += .5;
      }
      const auto dearer = plan_pipeline_stage(thinned, budget, options);
      ASSERT_TRUE(dearer && dearer->plan);
      EXPECT_GE(dearer->certificate.objective, *expected - 1e-9);
      ASSERT_TRUE(dearer->certificate.lower_bound);
      EXPECT_NEAR(*dearer->certificate.lower_bound, *expected, 1e-8);
      const bool is_tight = dearer->certificate.objective <= *expected * (1 + 1e-6);
      EXPECT_EQ(dearer->status, is_tight ? SolveStatus::kOptimal : SolveStatus::kFeasible);
      EXPECT_EQ(dearer->warnings.size(), 1u);
    }
  }
  EXPECT_GT(feasible, 500);
}

// R ─┬─ A  keeps 40, base 60     Three microbatches in flight hold 60 each but for what A discards.
//    └─ B  base 70               A needs 60 + 2 * 60 - 2 d when its own backward comes, B and R
//    what
//                                d leaves of 70 and 100: with all 40 gone A's 100 is the most.
TEST(FrontierSearch, SaysWhatAPipelineStageLacksAndWhere) {
  CheckpointProblem problem = bench::problem_over({-1, 0, 0});
  problem.base = {100, 60, 70};
  problem.total_activations = 60;
  CandidateUnit unit = bench::unit_over(problem, {1});
  unit.kept_inside = unit.sac_memory = 40;
  unit.price = {0, {{40, .5}}};
  problem.units.push_back(unit);
  StageOptions options;
  options.in_flight = 3;
  const auto smallest = smallest_stage_budget(problem, options);
  ASSERT_TRUE(smallest);
  EXPECT_EQ(smallest->bytes, 100);
  EXPECT_EQ(smallest->binding, "R.m1");
  const auto outcome = plan_pipeline_stage(problem, 93, options);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->status, SolveStatus::kInfeasible);
  EXPECT_EQ(outcome->explanation.missing, 7);
  EXPECT_EQ(outcome->explanation.binding, "R.m1");
  EXPECT_EQ(plan_pipeline_stage(problem, 100, options)->status, SolveStatus::kOptimal);
  // The shallowest stage that fits one microbatch: as without a pipeline.
  options.in_flight = 1;
  EXPECT_EQ(smallest_stage_budget(problem, options)->bytes, smallest_budget(problem)->bytes);
}

TEST(FrontierSearch, GivesEqualAnswersWithoutAnyOfItsRules) {
  std::int64_t all = 0, without_bounds = 0, without_truncation = 0, without_drop = 0;
  std::int64_t linear = 0, by_copies = 0;
  const auto expect_equal = [&](const CheckpointProblem& problem, double share) {
    const Frontier reference = frontier_of(problem);
    const Bytes budget =
        reference.min_bytes() +
        static_cast<Bytes>(
            share * static_cast<double>(reference.saturation_bytes() - reference.min_bytes()));
    const Outcome<CheckpointPlan> plan = plan_of(problem, budget);
    for (int rules = 0; rules < 16; ++rules) {
      SCOPED_TRACE(rules);
      FrontierOptions options;
      options.prune_by_bounds = (rules & 1) == 0;
      options.truncate_below = (rules & 2) == 0;
      options.drop_useless_units = (rules & 4) == 0;
      options.linear_convolution = (rules & 8) == 0;
      SearchWork whole, one;
      const Frontier frontier = frontier_of(problem, options, &whole);
      EXPECT_EQ(frontier.min_bytes(), reference.min_bytes());
      for (int k = 0; k <= 40; ++k) {
        const Bytes at =
            reference.min_bytes() + (reference.saturation_bytes() - reference.min_bytes()) * k / 40;
        EXPECT_NEAR(*frontier.ms_at(at), *reference.ms_at(at), 1e-8 * (1 + *reference.ms_at(at)));
      }
      const Outcome<CheckpointPlan> same = plan_of(problem, budget, options, &one);
      EXPECT_EQ(same.plan->decisions, plan.plan->decisions);
      if (rules == 0) all += whole.segments + one.segments;
      if (rules == 1) without_bounds += whole.segments + one.segments;
      if (rules == 2) without_truncation += whole.segments + one.segments;
      if (rules == 4) without_drop += whole.segments + one.segments;
      if (rules == 0) linear += whole.convolved + one.convolved;
      if (rules == 8) by_copies += whole.convolved + one.convolved;
    }
  };
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(seed);
    expect_equal(small_tree(seed, {}), static_cast<double>(seed % 10) / 10);
  }
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    SCOPED_TRACE(seed);
    expect_equal(layered_tree(10, Family::kMoe, seed), .3);
  }
  EXPECT_LT(all, without_bounds);
  EXPECT_LT(all, without_truncation);
  EXPECT_LT(all, without_drop);
  EXPECT_LT(linear, by_copies);
}

TEST(FrontierSearch, AgreesOnLargeTreesByTwoConvolutions) {
  for (const Family family : {Family::kPlain, Family::kMoe}) {
    const CheckpointProblem problem = layered_tree(64, family, 3);
    FrontierOptions slow;
    slow.linear_convolution = false;
    const Frontier a = frontier_of(problem), b = frontier_of(problem, slow);
    EXPECT_EQ(a.min_bytes(), b.min_bytes());
    for (int k = 0; k <= 5000; ++k) {
      const Bytes at = a.min_bytes() + (a.saturation_bytes() - a.min_bytes()) / 5000 * k;
      ASSERT_NEAR(*a.ms_at(at), *b.ms_at(at), 1e-8 * (1 + *a.ms_at(at))) << at;
    }
    for (int k = 0; k <= 10; ++k) {
      expect_plan(problem, a, a.min_bytes() + (a.saturation_bytes() - a.min_bytes()) / 10 * k);
    }
  }
}

// Without the tie rule of the minimum the same frontier has several times as many pieces.
TEST(FrontierSearch, MakesNoSlivers) {
  const std::size_t pieces = frontier_of(layered_tree(32, Family::kPlain, 1)).num_breakpoints();
  EXPECT_EQ(pieces, 259u);
  EXPECT_EQ(frontier_of(layered_tree(64, Family::kPlain, 1)).num_breakpoints(), 507u);
}

// Numbers nodes backwards; the tree is the same.
CheckpointProblem relabelled(const CheckpointProblem& problem) {
  const int n = problem.num_modules();
  const auto other = [n](int node) { return n - 1 - node; };
  CheckpointProblem out = problem;
  for (int node = 0; node < n; ++node) {
    out.fqn[other(node)] = problem.fqn[node];
    out.base[other(node)] = problem.base[node];
    out.tree.parent[other(node)] =
        problem.tree.parent[node] < 0 ? -1 : other(problem.tree.parent[node]);
    out.tree.position[other(node)] = problem.tree.position[node];
    out.tree.children[other(node)].clear();
    for (int child : problem.tree.children[node]) {
      out.tree.children[other(node)].push_back(other(child));
    }
    out.tree.post_order[problem.tree.position[node]] = other(node);
  }
  for (CandidateUnit& unit : out.units) {
    for (int& node : unit.nodes) node = other(node);
  }
  return out;
}

TEST(FrontierSearch, DependsOnTheProblemAlone) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    const CheckpointProblem problem =
        seed <= 25 ? small_tree(seed, {}) : layered_tree(12, Family::kPlain, seed);
    const Frontier frontier = frontier_of(problem);
    const CheckpointProblem other = relabelled(problem);
    EXPECT_EQ(frontier_of(problem).upper(), frontier.upper());
    EXPECT_EQ(frontier_of(other).upper(), frontier.upper());
    const Bytes budget = (frontier.min_bytes() + frontier.saturation_bytes()) / 2;
    const Outcome<CheckpointPlan> plan = plan_of(problem, budget);
    EXPECT_EQ(plan_of(problem, budget).plan->policy, plan.plan->policy);
    EXPECT_EQ(plan_of(other, budget).plan->policy, plan.plan->policy);
  }
}

TEST(FrontierSearch, NeverCostsMoreWithMoreMemoryAndScalesWithBoth) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    const CheckpointProblem problem = small_tree(seed, {});
    const Frontier frontier = frontier_of(problem);
    CheckpointProblem scaled = problem;
    for (Bytes& base : scaled.base) base *= 1024;
    for (CandidateUnit& unit : scaled.units) {
      unit.threshold *= 1024;
      unit.price.fixed *= 8;
      for (math::CostPiece& piece : unit.price.pieces) {
        piece.length *= 1024;
        piece.slope *= 8.0 / 1024;
      }
    }
    const Frontier big = frontier_of(scaled);
    double before = kInfinity;
    for (Bytes budget = frontier.min_bytes(); budget <= 151; ++budget) {
      const double ms = *frontier.ms_at(budget);
      EXPECT_LE(ms, before);
      before = ms;
      EXPECT_NEAR(*big.ms_at(1024 * budget), 8 * ms, 1e-9 * (1 + ms));
    }
    EXPECT_EQ(before, 0);
  }
}

TEST(FrontierSearch, NeverLosesByAnotherCandidate) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    CheckpointProblem problem = small_tree(seed, {});
    const Frontier all = frontier_of(problem);
    if (problem.units.empty()) continue;
    problem.units.erase(problem.units.begin() +
                        static_cast<std::ptrdiff_t>(seed % problem.units.size()));
    const Frontier fewer = frontier_of(problem);
    EXPECT_LE(all.min_bytes(), fewer.min_bytes());
    for (Bytes budget = fewer.min_bytes(); budget <= 151; ++budget) {
      EXPECT_LE(*all.ms_at(budget), *fewer.ms_at(budget) + 1e-9);
    }
  }
}

TEST(FrontierSearch, StandsTenThousandNodesInAChainOrInARow) {
  for (const bool is_deep : {true, false}) {
    SCOPED_TRACE(is_deep);
    std::vector<int> parent{-1};
    for (int node = 1; node < 10'000; ++node) parent.push_back(is_deep ? node - 1 : 0);
    CheckpointProblem problem = bench::problem_over(parent);
    Random random(5);
    for (int p = 0; p < 10'000; ++p) {
      problem.base[problem.tree.post_order[p]] = 1'000'000 + 100 * p + random.whole(0, 500);
    }
    for (int p = 100; p < 10'000; p += 100) {
      CandidateUnit unit = bench::unit_over(problem, {problem.tree.post_order[p]});
      unit.kept_inside = 40'000;
      unit.sac_memory = 40'000;
      unit.price.pieces = {{30'000, 1e-3}, {10'000, 2e-3}};
      problem.units.push_back(unit);
    }
    bench::sort_units(problem);
    const Frontier frontier = frontier_of(problem);
    expect_plan(problem, frontier, frontier.min_bytes());
    expect_plan(problem, frontier, (frontier.min_bytes() + frontier.saturation_bytes()) / 2);
  }
}

TEST(FrontierSearch, TakesTimesAndSizesOfZero) {
  ModuleStats stats = tiny6();
  for (ModuleInfo& module : stats.mod_stats) module.sac_runtime = 0;
  const Frontier free_of_charge = frontier_of(problem_from(stats));
  EXPECT_EQ(free_of_charge.max_ms(), 0);
  EXPECT_EQ(free_of_charge.min_bytes(), 1724 * kMiB);
  for (ModuleInfo& module : stats.mod_stats) module.act_fw_per_module = 0;
  const CheckpointProblem without_units = problem_from(stats);
  EXPECT_TRUE(without_units.units.empty());
  EXPECT_EQ(frontier_of(without_units).min_bytes(), 2704 * kMiB);
  // All shrinks before backward: no memory is needed, and a budget is not negative.
  for (ModuleInfo& module : stats.mod_stats) {
    module.act_grad_per_module = -module.act_total - 500 * kMiB;
    module.param_per_module = module.grad_total = 0;
  }
  EXPECT_EQ(frontier_of(problem_from(stats)).min_bytes(), 0);
  EXPECT_EQ(plan_of(problem_from(stats), 0).certificate.objective, 0);
}

// An effort of one piece: curves and plans by functions of few pieces, around the exact ones.
TEST(FrontierSearch, BoundsTheExactCurveWhereTheEffortEnds) {
  int num_open = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    const CheckpointProblem problem = layered_tree(
        static_cast<int>(4 + seed % 12), seed % 2 == 0 ? Family::kPlain : Family::kMoe, seed);
    const Frontier exact = frontier_of(problem);
    FrontierOptions options;
    options.max_frontier_made = options.max_made = 1;
    options.prune_by_bounds = false;
    options.max_points = 20;
    const auto found = plan_frontier(problem, options);
    ASSERT_TRUE(found && found->plan);
    EXPECT_EQ(found->status, SolveStatus::kFeasible);
    EXPECT_EQ(found->plan->min_bytes(), exact.min_bytes());
    double widest = 0;
    for (int k = 0; k <= 40; ++k) {
      const Bytes budget =
          exact.min_bytes() + k * (exact.saturation_bytes() - exact.min_bytes()) / 40;
      const double ms = *exact.ms_at(budget), upper = *found->plan->ms_at(budget);
      const double lower = math::value_at(found->plan->lower(), budget);
      EXPECT_GE(upper, ms - 1e-9);
      EXPECT_LE(lower, ms + 1e-9);
      widest = std::max(widest, upper - lower);
      const auto plan = plan_for_budget(problem, budget, options);
      ASSERT_TRUE(plan && plan->plan);
      EXPECT_LE(plan->plan->figures.peak, budget);
      EXPECT_GE(plan->certificate.objective, ms - 1e-9);
      EXPECT_LE(*plan->certificate.lower_bound, ms + 1e-9);
      if (plan->status == SolveStatus::kFeasible) {
        ++num_open;
        EXPECT_EQ(plan->stop, StopReason::kEffort);
        EXPECT_EQ(plan->warnings.size(), 1u);
      }
    }
    const Certificate& certificate = found->certificate;
    EXPECT_GE(certificate.objective - *certificate.lower_bound, widest - 1e-9);
  }
  EXPECT_GT(num_open, 100);
}

TEST(FrontierSearch, RefusesWhatItCannotSweepAndStopsWhenTold) {
  CheckpointProblem problem = layered_tree(16, Family::kPlain, 1);
  FrontierOptions options;
  options.max_segments = 20;
  const auto too_large = plan_frontier(problem, options);
  ASSERT_FALSE(too_large);
  EXPECT_EQ(too_large.error().code, ErrorCode::kOverflow);
  EXPECT_THAT(too_large.error().message, HasSubstr("20 pieces"));

  CheckpointProblem nested = problem;
  nested.model.nested_units = true;
  for (CandidateUnit& unit : nested.units) unit.kept_inside = unit.price.capacity();
  options.max_segments = 1;
  EXPECT_EQ(plan_frontier(nested, options).error().code, ErrorCode::kOverflow);
  EXPECT_EQ(plan_for_budget(nested, 0, options).error().code, ErrorCode::kOverflow);

  const std::atomic<bool> cancel = true;
  RunContext context;
  context.cancel = &cancel;
  const auto cancelled = plan_frontier(problem, {}, context);
  ASSERT_TRUE(cancelled);
  EXPECT_EQ(cancelled->status, SolveStatus::kLimit);
  EXPECT_EQ(cancelled->stop, StopReason::kCancelled);
  EXPECT_EQ(plan_for_budget(problem, kTiB, {}, context)->status, SolveStatus::kLimit);
  EXPECT_EQ(plan_for_budget(nested, kTiB, {}, context)->status, SolveStatus::kLimit);

  problem.tree.is_nested = false;
  EXPECT_EQ(plan_frontier(problem).error().code, ErrorCode::kConflict);
  EXPECT_EQ(plan_for_budget(problem, kTiB).error().code, ErrorCode::kConflict);
  EXPECT_EQ(plan_pipeline_stage(problem, kTiB).error().code, ErrorCode::kConflict);
}

}  // namespace
}  // namespace plimsoll::checkpoint
