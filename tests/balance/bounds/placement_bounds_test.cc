#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "balance/bounds/bound_placement.h"
#include "balance/expected_bound.h"
#include "balance/problem/one_load.h"
#include "balance/random_placements.h"
#include "balance/verify/verify_bound.h"

namespace plimsoll::balance {
namespace {

using testing::Enumerator;
using testing::expect_bound;
using testing::InstanceKind;
using testing::kind_of_seed;
using testing::random_problem;

TEST(PlacementBounds, NeverExceedTheOptimum) {
  double sum[5] = {};
  int count = 0, infeasible = 0, proved = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    PlacementProblem problem = random_problem(seed, kind_of_seed(seed));
    ASSERT_TRUE(validate(problem).has_value());
    const double optimum = Enumerator(problem).find();
    double values[5];
    for (int level = 0; level < 4; ++level) {
      BoundOptions options;
      options.coarse_cells = 300;
      options.cells = 1000;
      options.window_tolerance = 1e-3;
      options.use_windows = level == 1 || level == 3;
      options.use_patterns = level >= 2;
      options.use_branching = level == 3;
      const PlacementBound bound = bound_placement(problem, options, {});
      values[level] = bound.value;
      EXPECT_LE(bound.value, optimum * (1 + 1e-9)) << level;
      const BoundVerdict verdict = verify_bound(problem, bound);
      EXPECT_TRUE(verdict.holds) << level << " " << verdict.fault << " " << verdict.value << " of "
                                 << bound.value << " " << to_string(bound.method);
      EXPECT_LE(verdict.value, optimum * (1 + 1e-9)) << level;
      infeasible += level == 0 && optimum == kInfinity;
      proved += level == 0 && bound.value == kInfinity;
    }
    if (optimum < kInfinity) {
      for (int level = 0; level < 4; ++level) sum[level] += optimum / values[level] - 1;
      ++count;
    }
  }
  // What each further bound is worth: the mean distance falls.
  ASSERT_GT(count, 100);
  EXPECT_LT(sum[1], sum[0]);
  EXPECT_LT(sum[2], sum[0]);
  EXPECT_LE(sum[3], sum[2]);
  EXPECT_LT(sum[3] / count, 0.05);
  EXPECT_GT(proved, 0);
  EXPECT_LE(proved, infeasible);
}

// The best that names one cause or none is the better of two parts.
TEST(PlacementBounds, KnowCausesThatExcludeEachOther) {
  int num_higher = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    InstanceKind kind = kind_of_seed(seed);
    kind.charges = true;
    PlacementProblem problem = random_problem(seed, kind);
    problem.charges[0] = problem.charges[1] = 0;
    double optimum = kInfinity;
    for (const int absent : {0, 1}) {
      PlacementProblem part = problem;
      bool is_empty = false;
      for (Unit& unit : part.units) {
        std::erase_if(unit.choices, [absent](const UnitChoice& choice) {
          return std::find(choice.causes.begin(), choice.causes.end(), absent) !=
                 choice.causes.end();
        });
        is_empty |= unit.choices.empty();
      }
      if (!is_empty) optimum = std::min(optimum, Enumerator(part).find());
    }
    BoundOptions options;
    options.coarse_cells = 300;
    options.cells = 1000;
    const double free = bound_placement(problem, options, {}).value;
    problem.exclusive = {{0, 1}};
    ASSERT_TRUE(validate(problem));
    EXPECT_EQ(Enumerator(problem).find(), optimum);
    const PlacementBound bound = bound_placement(problem, options, {});
    EXPECT_GE(bound.value, free * (1 - 1e-3));
    EXPECT_LE(bound.value, optimum * (1 + 1e-9));
    const BoundVerdict verdict = verify_bound(problem, bound);
    EXPECT_TRUE(verdict.holds) << verdict.fault;
    if (bound.value <= free * 1.01) continue;
    ++num_higher;
    problem.exclusive.clear();  // then the two cases leave placements out
    EXPECT_FALSE(verify_bound(problem, bound).holds);
  }
  EXPECT_GT(num_higher, 5);
}

// Bytes of the last resource are total loads: a cap on the slowest rank's. Every spread has its
// charge.
PlacementProblem with_capped_total(PlacementProblem problem, Bytes cap) {
  constexpr double kUnitsAMs = 1000;
  for (Unit& unit : problem.units) {
    for (UnitChoice& choice : unit.choices) {
      choice.causes = {static_cast<int>(choice.spread)};
      for (PieceRun& run : choice.runs) {
        const double total = std::accumulate(run.load.begin(), run.load.end(), 0.0);
        run.bytes[2] = static_cast<Bytes>(kUnitsAMs * total);
      }
    }
  }
  problem.charges = {1, 1, 1};
  for (Amounts& caps : problem.caps) caps[2] = cap;
  return problem;
}

bool is_refuted(const BoundVerdict& verdict, std::size_t number) {
  return verdict.fault.empty() && verdict.case_values[number] == kInfinity;
}

TEST(PlacementBounds, KnowCasesThatACapLeavesNoPlacement) {
  constexpr Bytes kNoCap = 1000000;
  int num_refuted = 0, num_higher = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    InstanceKind kind = kind_of_seed(seed);
    kind.barriers = kind.charges = true;
    kind.classes = kind.unequal_caps = false;
    const PlacementProblem free = with_capped_total(random_problem(seed, kind), kNoCap);
    const double least_total = Enumerator(with_resource_as_load(free, 2)).find();
    if (least_total == kInfinity) continue;
    const PlacementProblem problem =
        with_capped_total(free, static_cast<Bytes>(least_total * (seed % 2 == 0 ? 1 : 1.1)));
    const double optimum = Enumerator(problem).find();
    ASSERT_LT(optimum, kInfinity);
    BoundOptions options;
    options.coarse_cells = 300;
    options.cells = 1000;
    options.incumbent = optimum;
    const PlacementBound before = bound_placement(problem, options, {});
    options.load_resource = 2;
    PlacementBound bound = bound_placement(problem, options, {});
    EXPECT_GE(bound.value, before.value * (1 - 1e-3));
    EXPECT_LE(bound.value, optimum * (1 + 1e-9));
    num_higher += bound.value > before.value * 1.001;
    const BoundVerdict verdict = verify_bound(problem, bound);
    EXPECT_TRUE(verdict.holds) << verdict.fault;
    EXPECT_LE(verdict.value, optimum * (1 + 1e-9));
    for (std::size_t i = 0; i < bound.cases.size(); ++i) {
      BoundCase& c = bound.cases[i];
      if (!c.load_resource) continue;
      ++num_refuted;
      EXPECT_EQ(c.value, kInfinity);
      EXPECT_EQ(verdict.case_values[i], kInfinity);
      // With more room the same witness proves nothing of the case, nor does it of another
      // resource.
      EXPECT_FALSE(is_refuted(verify_bound(free, bound), i));
      c.load_resource = 1;
      EXPECT_FALSE(is_refuted(verify_bound(problem, bound), i));
      break;
    }
  }
  EXPECT_GT(num_refuted, 4);
  EXPECT_GT(num_higher, 3);
}

// Of two barriers each has units that are slow there alone.
TEST(PlacementBounds, AddWhatEveryBarrierTakes) {
  int num_added = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    InstanceKind kind = kind_of_seed(seed);
    kind.barriers = true;
    PlacementProblem problem = random_problem(seed, kind);
    for (std::size_t unit = 0; unit < problem.units.size(); ++unit) {
      for (UnitChoice& choice : problem.units[unit].choices) {
        for (PieceRun& run : choice.runs) {
          for (std::size_t i = 0; i < run.load.size(); ++i) {
            if ((i + unit) % 2 == 0) run.load[i] /= 16;
          }
        }
      }
    }
    const double optimum = Enumerator(problem).find();
    if (optimum == kInfinity) continue;
    BoundOptions options;
    options.coarse_cells = 300;
    options.cells = 1000;
    options.incumbent = 1.1 * optimum;
    options.use_barriers = false;
    const double together = bound_placement(problem, options, {}).value;
    options.use_barriers = true;
    PlacementBound bound = bound_placement(problem, options, {});
    expect_bound(problem, bound, together, optimum);
    if (bound.method != BoundMethod::kBarriers) continue;
    num_added += bound.value > together * 1.01;
    for (BoundCase& c : bound.cases) {
      if (!c.barriers.empty()) c.barriers.pop_back();
    }
    EXPECT_FALSE(verify_bound(problem, bound).holds);
  }
  EXPECT_GT(num_added, 10);
}

// Each rule off: what is proved holds, and no rule is without use: without it bounds are lower, or
// dearer.
TEST(PlacementBounds, HoldWithoutAnyOneRule) {
  struct Rule {
    const char* name;
    void (*turn_off)(BoundOptions&);
  };
  constexpr Rule kRules[] = {
      {"none", [](BoundOptions&) {}},
      {"dominated choices", [](BoundOptions& options) { options.groups.drop_dominated = false; }},
      {"groups", [](BoundOptions& options) { options.groups.merge_units = false; }},
      {"cascade", [](BoundOptions& options) { options.filter.cascade = false; }},
      {"choices", [](BoundOptions& options) { options.use_choices = false; }},
      {"windows", [](BoundOptions& options) { options.use_windows = false; }},
      {"patterns", [](BoundOptions& options) { options.use_patterns = false; }},
      {"fine cells", [](BoundOptions& options) { options.use_fine = false; }},
      {"branching", [](BoundOptions& options) { options.use_branching = false; }},
      {"hosts apart", [](BoundOptions& options) { options.max_apart_hosts = 0; }},
  };
  constexpr int kNumRules = std::size(kRules);
  double gap[kNumRules] = {};
  std::int64_t work[kNumRules] = {};
  for (std::uint64_t seed = 700; seed < 800; ++seed) {
    SCOPED_TRACE(seed);
    InstanceKind kind = kind_of_seed(seed);
    kind.tight_memory = seed % 2 == 0;
    kind.repeated = true;
    const PlacementProblem problem = random_problem(seed, kind);
    const double optimum = Enumerator(problem).find();
    for (int rule = 0; rule < kNumRules; ++rule) {
      BoundOptions options;
      options.coarse_cells = 200;
      options.cells = 1000;
      options.window_tolerance = 1e-3;
      kRules[rule].turn_off(options);
      const PlacementBound bound = bound_placement(problem, options, {});
      EXPECT_LE(bound.value, optimum * (1 + 1e-9)) << kRules[rule].name;
      const BoundVerdict verdict = verify_bound(problem, bound);
      EXPECT_TRUE(verdict.holds) << kRules[rule].name << " " << verdict.fault;
      if (optimum < kInfinity) gap[rule] += optimum / bound.value - 1;
      const PlacementGroups groups = make_placement_groups(problem, options.groups);
      work[rule] += (bound.num_evaluations + bound.num_pricings + bound.num_windows) *
                    static_cast<std::int64_t>(groups.choices.size());
    }
  }
  for (int rule = 1; rule < kNumRules; ++rule) {
    EXPECT_TRUE(gap[rule] > gap[0] || work[rule] > work[0])
        << kRules[rule].name << " gap " << gap[rule] << " of " << gap[0] << " work " << work[rule]
        << " of " << work[0];
  }
}

}  // namespace
}  // namespace plimsoll::balance
