#include "checkpoint/milp/unit_milp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "checkpoint/models.h"
#include "checkpoint/random.h"
#include "plimsoll/checkpoint/sac_milp.h"

namespace plimsoll::checkpoint {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Outcome<UnitMilpPlan> solve(const UnitMilpProblem& problem) {
  const auto outcome = solve_unit_milp(problem);
  EXPECT_TRUE(outcome) << format_error(outcome.error());
  return outcome.value_or(Outcome<UnitMilpPlan>{});
}

UnitMilpProblem problem_of(const ModuleStats& stats, const UnitMilpOptions& options) {
  const auto problem = make_module_tree(stats).and_then(
      [&](const ModuleTree& tree) { return make_unit_milp_problem(stats, tree, options); });
  EXPECT_TRUE(problem) << format_error(problem.error());
  return problem.value_or(UnitMilpProblem{});
}

// The judge: units are candidates, none above another, within capacity, and every base less what
// came before it within the budget.
void expect_sound(const UnitMilpProblem& problem, const UnitMilpPlan& plan) {
  const double tolerance = 1e-6 * (1 + std::abs(problem.budget));
  double recompute_ms = 0;
  for (const ChosenUnit& unit : plan.units) {
    ASSERT_TRUE(problem.cost[unit.node]);
    EXPECT_GE(unit.discarded, 0);
    EXPECT_LE(unit.discarded, problem.cost[unit.node]->capacity);
    EXPECT_EQ(unit.recompute_ms, problem.cost[unit.node]->at(unit.discarded));
    recompute_ms += unit.recompute_ms;
    for (int above = problem.parent[unit.node]; above >= 0; above = problem.parent[above]) {
      for (const ChosenUnit& other : plan.units) EXPECT_NE(other.node, above);
    }
  }
  EXPECT_EQ(plan.recompute_ms, recompute_ms);
  double peak = -1e300;
  for (std::size_t i = 0; i < problem.base.size(); ++i) {
    double need = problem.base[i];
    for (const ChosenUnit& unit : plan.units) {
      if (problem.position[unit.node] < problem.position[i]) need -= unit.discarded;
    }
    EXPECT_LE(need, problem.budget + tolerance);
    peak = std::max(peak, need);
  }
  EXPECT_NEAR(plan.peak, peak, tolerance);
}

// Two leaves and a root; the budget is 10.
//
//   position   0     1     2           a discards at 1 a byte, up to 4;
//   node       a     b     root        b at 2 a byte and 3 for being a unit, up to 9
//   base       9     12    16
//   needs            2     6           2 before b, of a; 6 before the root: 4 of a, 2 of b
TEST(UnitMilp, BuysCheapBytesFirstAndPaysTheFixedPrice) {
  UnitMilpProblem problem;
  problem.budget = 10;
  problem.base = {16, 9, 12};
  problem.parent = {-1, 0, 0};
  problem.position = {2, 0, 1};
  problem.cost = {std::nullopt, DiscardCost{4, {{1, 0}}}, DiscardCost{9, {{2, 3}}}};
  const auto outcome = solve(problem);
  ASSERT_EQ(outcome.status, SolveStatus::kOptimal);
  EXPECT_NEAR(outcome.plan->recompute_ms, 4 + 3 + 2 * 2, 1e-6);
  EXPECT_THAT(outcome.plan->units, ElementsAre(Field(&ChosenUnit::discarded, DoubleNear(4, 1e-6)),
                                               Field(&ChosenUnit::discarded, DoubleNear(2, 1e-6))));
  expect_sound(problem, *outcome.plan);

  problem.budget = 16;
  EXPECT_THAT(solve(problem).plan->units, IsEmpty());
  problem.budget = 12;  // a alone
  EXPECT_NEAR(solve(problem).plan->recompute_ms, 4, 1e-6);
  problem.budget = 7.9;  // 4 of a are not enough before b
  EXPECT_EQ(solve(problem).status, SolveStatus::kInfeasible);
  EXPECT_FALSE(solve(problem).plan);
}

// As above: 0 ms at 16 bytes, 4 at 12, 11 at 10.
TEST(UnitMilp, AsksForEveryBudgetOfARangeAtOnce) {
  UnitMilpProblem problem;
  problem.base = {16, 9, 12};
  problem.parent = {-1, 0, 0};
  problem.position = {2, 0, 1};
  problem.cost = {std::nullopt, DiscardCost{4, {{1, 0}}}, DiscardCost{9, {{2, 3}}}};
  const auto least = [&problem](double low, double high, double ms_per_byte) {
    const auto outcome = solve_over_budgets(problem, {low, high, ms_per_byte});
    EXPECT_EQ(outcome->status, SolveStatus::kOptimal);
    EXPECT_NEAR(outcome->certificate.objective, *outcome->certificate.lower_bound, 1e-6);
    return outcome->certificate.objective;
  };
  EXPECT_NEAR(least(10, 16, 0), 0, 1e-6);
  EXPECT_NEAR(least(10, 15, 0), 1, 1e-6);
  EXPECT_NEAR(least(10, 16, 0.5), 3, 1e-6);    // 16
  EXPECT_NEAR(least(10, 16, 3), 4 + 6, 1e-6);  // 12
  EXPECT_NEAR(least(10, 16, 4), 11, 1e-6);     // 10
  EXPECT_NEAR(least(16, 16, 4), 0, 1e-6);
  EXPECT_EQ(solve_over_budgets(problem, {2, 7, 1})->status, SolveStatus::kInfeasible);

  // The same choices by the time that they may take.
  const auto peak = [&problem](double max_ms) {
    return minimise_peak(problem, {}, max_ms)->plan->peak;
  };
  EXPECT_NEAR(peak(0), 16, 1e-6);
  EXPECT_NEAR(peak(1), 15, 1e-6);
  EXPECT_NEAR(peak(4), 12, 1e-6);
  EXPECT_NEAR(peak(11), 10, 1e-6);
  EXPECT_EQ(peak(kInfinity), 9);
}

// Before b, its own need of 14 is there where b is a unit; a has discarded 4.
TEST(UnitMilp, HoldsWhatAUnitNeedsForItself) {
  UnitMilpProblem problem;
  problem.budget = 10;
  problem.base = {16, 9, 12};
  problem.parent = {-1, 0, 0};
  problem.position = {2, 0, 1};
  problem.cost = {std::nullopt, DiscardCost{4, {{1, 0}}}, DiscardCost{9, {{2, 3}}}};
  problem.cost[2]->need = 14;
  const auto outcome = solve(problem);
  EXPECT_NEAR(outcome.plan->recompute_ms, 4 + 3 + 2 * 2, 1e-6);
  problem.cost[2]->need = 14.5;
  EXPECT_EQ(solve(problem).status, SolveStatus::kInfeasible);
  EXPECT_NEAR(minimise_peak(problem)->plan->peak, 10.5, 1e-6);
  problem.cost[2] = DiscardCost{9, {}, {{2, 1}, {9, 1}}};
  problem.cost[2]->point_needs = {14, 15};
  EXPECT_NEAR(solve(problem).plan->recompute_ms, 4 + 1, 1e-6);
  problem.cost[2]->point_needs = {15, 15};
  EXPECT_EQ(solve(problem).status, SolveStatus::kInfeasible);
}

// Two microbatches more hold 20 each, less all that is discarded: 16 + 40 = 56 without a plan, and
// every byte of a counts three times before the root.
TEST(UnitMilp, CountsWhatOtherMicrobatchesHold) {
  UnitMilpProblem problem;
  problem.base = {16, 9, 12};
  problem.parent = {-1, 0, 0};
  problem.position = {2, 0, 1};
  problem.cost = {std::nullopt, DiscardCost{4, {{1, 0}}}, std::nullopt};
  problem.others = 2;
  problem.kept = 20;
  problem.budget = 56;
  EXPECT_THAT(solve(problem).plan->units, IsEmpty());
  problem.budget = 50;
  EXPECT_NEAR(solve(problem).plan->recompute_ms, 2, 1e-6);
  EXPECT_NEAR(solve(problem).plan->peak, 50, 1e-6);
  problem.budget = 43;
  EXPECT_EQ(solve(problem).status, SolveStatus::kInfeasible);
  EXPECT_EQ(minimise_peak(problem)->plan->peak, 44);
}

// Whole bytes, and costs that bend at whole bytes: an optimum in whole bytes exists, since prefix
// sums make an interval matrix. Brute force tries them all.
struct BruteForce {
  const UnitMilpProblem& problem;
  std::vector<int> order;         // node by position
  std::vector<double> discarded;  // by node, -1: no unit
  double best = 1e300;

  explicit BruteForce(const UnitMilpProblem& p)
      : problem(p), order(p.base.size()), discarded(p.base.size(), -1) {
    for (std::size_t i = 0; i < order.size(); ++i) order[p.position[i]] = static_cast<int>(i);
  }
  bool is_clear(int node) const {
    for (std::size_t i = 0; i < discarded.size(); ++i) {
      if (discarded[i] < 0) continue;
      for (int above = problem.parent[i]; above >= 0; above = problem.parent[above]) {
        if (above == node) return false;
      }
      for (int above = problem.parent[node]; above >= 0; above = problem.parent[above]) {
        if (above == static_cast<int>(i)) return false;
      }
    }
    return true;
  }
  void search(std::size_t position, double before, double ms) {
    if (position == order.size()) {
      best = std::min(best, ms);
      return;
    }
    const int node = order[position];
    if (problem.base[node] - before > problem.budget) return;
    search(position + 1, before, ms);
    if (!problem.cost[node] || !is_clear(node)) return;
    for (int d = 0; d <= problem.cost[node]->capacity; ++d) {
      discarded[node] = d;
      search(position + 1, before + d, ms + problem.cost[node]->at(d));
    }
    discarded[node] = -1;
  }
};

UnitMilpProblem random_problem(int seed) {
  Random random(seed);
  const int n = 3 + random.below(5);
  UnitMilpProblem problem;
  problem.budget = 12 + random.below(8);
  problem.parent = {-1};
  for (int i = 1; i < n; ++i) problem.parent.push_back(random.below(i));
  // Any order of positions will do; every other problem has one that is nested.
  std::vector<int> order(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) order[i] = n - 1 - i;
  if (seed % 2 == 0) {
    for (int i = n - 1; i > 0; --i) std::swap(order[i], order[random.below(i + 1)]);
  }
  problem.position.resize(order.size());
  for (int i = 0; i < n; ++i) problem.position[order[i]] = i;
  for (int i = 0; i < n; ++i) {
    problem.base.push_back(8 + random.below(6) + 2 * problem.position[i]);
    if (random.one_in(4)) {
      problem.cost.emplace_back();
      continue;
    }
    DiscardCost cost;
    cost.capacity = random.below(6);
    double value = random.one_in(2) ? random.below(4) : 0, slope = random.below(3);
    for (int d = 0; d < std::max(cost.capacity, 1.0); ++d) {
      cost.pieces.push_back({slope, value - slope * d});
      value += slope;
      slope += random.below(3);
    }
    problem.cost.emplace_back(std::move(cost));
  }
  return problem;
}

TEST(UnitMilp, AgreesWithBruteForceOnAnyPostOrder) {
  int num_infeasible = 0, num_free = 0;
  for (int seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    const UnitMilpProblem problem = random_problem(seed);
    BruteForce brute_force(problem);
    brute_force.search(0, 0, 0);
    const auto outcome = solve(problem);
    const bool fits = brute_force.best < 1e300;
    ASSERT_EQ(outcome.status, fits ? SolveStatus::kOptimal : SolveStatus::kInfeasible);
    num_infeasible += fits ? 0 : 1;
    if (!fits) continue;
    num_free += brute_force.best == 0 ? 1 : 0;
    EXPECT_NEAR(outcome.plan->recompute_ms, brute_force.best, 1e-5);
    EXPECT_LE(*outcome.certificate.lower_bound, brute_force.best + 1e-5);
    expect_sound(problem, *outcome.plan);
    if (seed % 15 == 0) {
      EXPECT_EQ(solve(problem).plan, outcome.plan);
    }
  }
  EXPECT_GT(num_infeasible, 15);
  EXPECT_LT(num_infeasible, 110);
  EXPECT_LT(num_free, 60);
}

// Metamorphic: bytes in another unit, time in another unit, more budget.
TEST(UnitMilp, ScalesAndNeverLosesByABiggerBudget) {
  for (int seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    const UnitMilpProblem problem = random_problem(seed);
    const auto outcome = solve(problem);
    UnitMilpProblem scaled = problem;
    scaled.budget *= 0x1p30;
    for (double& base : scaled.base) base *= 0x1p30;
    for (auto& cost : scaled.cost) {
      if (!cost) continue;
      cost->capacity *= 0x1p30;
      for (SlopePiece& piece : cost->pieces)
        piece = {piece.slope * 3 / 0x1p30, piece.intercept * 3};
    }
    const auto other = solve(scaled);
    ASSERT_EQ(other.status, outcome.status);
    UnitMilpProblem richer = problem;
    richer.budget += 1;
    const auto rich = solve(richer);
    if (!outcome.plan) continue;
    EXPECT_NEAR(other.plan->recompute_ms, 3 * outcome.plan->recompute_ms, 1e-4);
    ASSERT_TRUE(rich.plan);
    EXPECT_LE(rich.plan->recompute_ms, outcome.plan->recompute_ms + 1e-5);
  }
}

TEST(UnitMilp, AgreesWithUpstreamsProgramAtGapZero) {
  const ModuleStats tiny = tiny6(), large = four_blocks();
  struct Case {
    const ModuleStats& stats;
    double budget;
    int world_size;
  };
  for (const Case& c :
       {Case{tiny, 2.25, 1}, Case{tiny, 1.25, 4}, Case{tiny, 1.5, 1}, Case{large, 2.2, 4},
        Case{large, 1.6, 4}, Case{large, 0.95, 4}, Case{large, 0.9, 4}}) {
    SCOPED_TRACE(c.stats.name + " " + std::to_string(c.budget));
    SACMilpOptions options;
    options.memory_budget = c.budget;
    options.world_size = c.world_size;
    options.relative_gap = 0;
    const auto upstream = plan_like_sac_milp(c.stats, options);
    ASSERT_TRUE(upstream);
    const UnitMilpProblem problem = problem_of(c.stats, {c.budget * 0x1p30, c.world_size, {}, {}});
    const auto ours = solve(problem);
    ASSERT_EQ(ours.status, upstream->outcome.status);
    if (!ours.plan) continue;
    EXPECT_NEAR(ours.plan->recompute_ms, upstream->outcome.certificate.objective, 2e-5);
    expect_sound(problem, *ours.plan);
  }
}

TEST(UnitMilp, FindsUpstreamsPublishedPlan) {
  const auto outcome = solve(problem_of(four_blocks(), {1.6 * 0x1p30, 4, {}, {}}));
  ASSERT_EQ(outcome.status, SolveStatus::kOptimal);
  EXPECT_NEAR(outcome.plan->recompute_ms, 6.972372, 1e-6);
  // The root lacks 2,477,633,024 - 1,717,986,918.4 bytes.
  double discarded = 0;
  for (const ChosenUnit& unit : outcome.plan->units) discarded += unit.discarded;
  EXPECT_EQ(outcome.plan->units.size(), 4u);
  EXPECT_NEAR(discarded, 759'646'105.6, 100);
}

TEST(UnitMilp, LeavesOutWhatCannotBeAUnit) {
  const auto candidates = [](const ModuleStats& stats, const UnitMilpOptions& options) {
    std::vector<int> nodes;
    const UnitMilpProblem problem = problem_of(stats, options);
    for (std::size_t i = 0; i < problem.cost.size(); ++i) {
      if (problem.cost[i]) nodes.push_back(static_cast<int>(i));
    }
    return nodes;
  };
  ModuleStats stats = tiny6();
  EXPECT_THAT(candidates(stats, {}), ElementsAre(0, 1, 3));
  UnitMilpOptions options;
  options.ac_units = {"R.b", "R.b.x"};
  EXPECT_THAT(candidates(stats, options), ElementsAre(3));
  options.ac_units = {};
  options.fsdp_units = {"R.a.x", "R.b"};
  EXPECT_THAT(candidates(stats, options), ElementsAre(3));

  stats.mod_stats[0].requires_grad = false;
  EXPECT_THAT(candidates(stats, {}), ElementsAre(1, 3));
  stats.repeated = {"R.a"};
  EXPECT_THAT(candidates(stats, {}), ElementsAre(3));
  stats.fit_failed = {"R.b"};
  EXPECT_THAT(candidates(stats, {}), IsEmpty());
  stats = tiny6();
  stats.mod_stats[1].act_fw_per_module = stats.mod_stats[1].sac_memory = 0;
  stats.mod_stats[3].n_segments = 0;
  stats.mod_stats[3].slopes = stats.mod_stats[3].intercepts = {};
  EXPECT_THAT(candidates(stats, {}), ElementsAre(0));
}

TEST(UnitMilp, RefusesWhatIsNoProblem) {
  const auto message = [](auto change) {
    UnitMilpProblem problem = random_problem(1);
    change(problem);
    const auto outcome = solve_unit_milp(problem);
    return outcome ? std::string("none") : format_error(outcome.error());
  };
  EXPECT_EQ(message([](UnitMilpProblem&) {}), "none");
  EXPECT_THAT(message([](UnitMilpProblem& p) { p.base.pop_back(); }), HasSubstr("bases beside"));
  EXPECT_THAT(message([](UnitMilpProblem& p) { p.budget = std::nan(""); }), HasSubstr("budget"));
  EXPECT_THAT(message([](UnitMilpProblem& p) { p.base[1] = kInfinity; }), HasSubstr("node 1"));
  EXPECT_THAT(message([](UnitMilpProblem& p) { p.position[0] = p.position[1]; }),
              HasSubstr("its position"));
  EXPECT_THAT(message([](UnitMilpProblem& p) { p.parent[1] = 99; }), HasSubstr("its parent is 99"));
  EXPECT_THAT(message([](UnitMilpProblem& p) {
                p.parent = {1, 0, 0, 0, 0, 0, 0, 0};
                p.parent.resize(p.base.size());
              }),
              HasSubstr("form a cycle"));
  EXPECT_THAT(message([](UnitMilpProblem& p) {
                p.cost[0] = DiscardCost{-1, {}};
              }),
              HasSubstr("a figure is negative"));
  EXPECT_THAT(message([](UnitMilpProblem& p) { p.others = -1; }), HasSubstr("others"));
  EXPECT_THAT(message([](UnitMilpProblem& p) { p.kept = kInfinity; }), HasSubstr("others"));
  EXPECT_THAT(message([](UnitMilpProblem& p) {
                p.cost[0] = DiscardCost{1, {}, {{1, 1}}, 0, {1, 2}};
              }),
              HasSubstr("not as many"));
  for (const BudgetRange& range :
       {BudgetRange{2, 1, 0}, BudgetRange{0, std::nan(""), 0}, BudgetRange{0, 1, -1}}) {
    EXPECT_EQ(solve_over_budgets(random_problem(1), range).error().place, "budget");
  }

  const auto tree = make_module_tree(tiny6());
  UnitMilpOptions options;
  options.fsdp_units = {"R.d"};
  EXPECT_EQ(make_unit_milp_problem(tiny6(), *tree, options).error().code, ErrorCode::kNotFound);
  options.fsdp_units = {};
  options.world_size = 0;
  EXPECT_EQ(make_unit_milp_problem(tiny6(), *tree, options).error().code, ErrorCode::kValue);
}

}  // namespace
}  // namespace plimsoll::checkpoint
