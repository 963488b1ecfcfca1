// Laws that plans and bounds keep, whatever the instance.
#include <gtest/gtest.h>

#include <algorithm>

#include "balance/balanced_placement.h"
#include "balance/bounds/bound_placement.h"
#include "balance/patterns/pattern_pricing.h"
#include "balance/random_placements.h"
#include "balance/verify/verify_bound.h"

namespace plimsoll::balance::placement_laws {
namespace {

using testing::Enumerator;
using testing::InstanceKind;
using testing::kind_of_seed;
using testing::random_problem;

BalanceOutcome solve(const PlacementProblem& problem, std::int64_t effort = 10000) {
  SearchOptions search;
  search.effort = effort;
  return balance(problem, {}, search, {});
}

TEST(PlacementLaws, ScaleWithTimes) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    PlacementProblem problem = random_problem(seed, kind_of_seed(seed));
    const BalanceOutcome one = solve(problem);
    for (Unit& unit : problem.units) {
      for (UnitChoice& choice : unit.choices) {
        for (PieceRun& run : choice.runs) {
          for (double& load : run.load) load *= 8;
        }
      }
    }
    for (double& charge : problem.charges) charge *= 8;
    problem.floor_ms *= 8;
    const BalanceOutcome eight = solve(problem);
    EXPECT_EQ(one.outcome.status, eight.outcome.status);
    if (!one.outcome.plan) continue;
    EXPECT_NEAR(eight.outcome.certificate.objective / one.outcome.certificate.objective, 8, 1e-4);
    EXPECT_NEAR(*eight.outcome.certificate.lower_bound / *one.outcome.certificate.lower_bound, 8,
                1e-4);
  }
}

TEST(PlacementLaws, PlansDoNotMindTheOrderOfUnits) {
  int num_checked = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    PlacementProblem problem = random_problem(seed, kind_of_seed(seed));
    if (!problem.apart.empty()) continue;
    const BalanceOutcome one = solve(problem);
    std::reverse(problem.units.begin(), problem.units.end());
    const BalanceOutcome other = solve(problem);
    if (one.outcome.status != SolveStatus::kOptimal ||
        other.outcome.status != SolveStatus::kOptimal) {
      continue;
    }
    ++num_checked;
    EXPECT_NEAR(other.outcome.certificate.objective / one.outcome.certificate.objective, 1, 5e-6);
  }
  EXPECT_GT(num_checked, 15);
}

// Tighter than what windows and cells leave would say nothing: the order decides which of equal
// prices the program meets first.
TEST(PlacementLaws, BoundsDoNotMindTheOrderOfUnits) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    PlacementProblem problem = random_problem(seed, kind_of_seed(seed));
    if (!problem.apart.empty()) continue;
    const double one = bound_placement(problem, {}, {}).value;
    std::reverse(problem.units.begin(), problem.units.end());
    const double other = bound_placement(problem, {}, {}).value;
    if (one == kInfinity) {
      EXPECT_EQ(other, kInfinity);
    } else {
      EXPECT_NEAR(other / one, 1, 1e-4);
    }
  }
}

// A choice or a byte more can only help.
TEST(PlacementLaws, BoundsNeverRiseWithMoreChoicesOrBytes) {
  int num_lower = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    PlacementProblem problem = random_problem(seed, kind_of_seed(seed));
    const double before = bound_placement(problem, {}, {}).value;
    PlacementProblem roomy = problem;
    for (Amounts& caps : roomy.caps) {
      for (int r = 0; r < roomy.num_resources(); ++r) caps[r] += caps[r] / 4;
    }
    const double with_bytes = bound_placement(roomy, {}, {}).value;
    UnitChoice lighter = problem.units[0].choices[0];
    for (PieceRun& run : lighter.runs) {
      for (double& load : run.load) load *= 0.7;
    }
    problem.units[0].choices.push_back(lighter);
    const double with_choice = bound_placement(problem, {}, {}).value;
    // Windows and cells leave a little room.
    EXPECT_LE(with_bytes, before * (1 + 1e-3));
    EXPECT_LE(with_choice, before * (1 + 1e-3));
    num_lower += with_choice < before;
  }
  EXPECT_GT(num_lower, 10);
}

// At the same prices, twice the cells tell sizes better: no bin is worth more, so that no bound
// falls.
TEST(PlacementLaws, MoreCellsNeverMakeABinWorthMore) {
  int num_less = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    InstanceKind kind = kind_of_seed(seed);
    kind.repeated = true;
    const PlacementProblem problem = random_problem(seed, kind);
    const PlacementGroups groups = make_placement_groups(problem);
    const Survivors survivors = filter_by_target(groups, kInfinity);
    if (survivors.is_dead()) continue;
    const PatternModel model = make_pattern_model(groups, survivors);
    testing::Random random(seed);
    std::vector<double> pi;
    for (std::size_t c = 0; c < model.classes.size(); ++c) pi.push_back(0.1 + random.real());
    const double room = 0.5 + 3 * random.real();
    for (const int cells : {10, 37, 500}) {
      PatternPricing coarse(groups, model, room, cells);
      PatternPricing fine(groups, model, room, 2 * cells);
      // Pieces of less than a cell are poured, which tells them better than a cell does.
      bool is_poured = false;
      for (std::size_t i = 0; i < model.items.size(); ++i) {
        const std::size_t places =
            model.items[i].is_block ? groups.ranks.host_kinds.size() : model.table_kinds.size();
        for (std::size_t place = 0; place < places; ++place) {
          is_poured |= coarse.size_of(static_cast<int>(i), static_cast<int>(place)) == 0;
        }
      }
      if (is_poured) continue;
      coarse.price(pi, {});
      fine.price(pi, {});
      for (int bin = 0; bin < static_cast<int>(model.bins.size()); ++bin) {
        EXPECT_LE(fine.value(bin), coarse.value(bin) * (1 + 1e-12));
        num_less += fine.value(bin) < coarse.value(bin);
      }
    }
  }
  EXPECT_GT(num_less, 20);
}

// Without leave to price choices the first cases stay whole, and bound all the same.
TEST(PlacementLaws, SplitsNoCaseOnceEnoughIsPriced) {
  int num_fewer = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const PlacementProblem problem = random_problem(seed, kind_of_seed(seed));
    BoundOptions options;
    options.use_windows = options.use_patterns = false;
    const PlacementBound all = bound_placement(problem, options, {});
    options.max_priced = 0;
    const PlacementBound few = bound_placement(problem, options, {});
    EXPECT_LE(few.value, all.value * (1 + 1e-9));
    EXPECT_LE(few.cases.size(), all.cases.size());
    EXPECT_TRUE(verify_bound(problem, few).holds);
    num_fewer += few.cases.size() < all.cases.size();
  }
  EXPECT_GT(num_fewer, 5);
}

// A program stopped at any time, and a tree of windows cut at any node, still bound.
TEST(PlacementLaws, BoundsHoldWhereverTheyAreStopped) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const PlacementProblem problem = random_problem(seed, kind_of_seed(seed));
    const double optimum = Enumerator(problem).find();
    for (const std::int64_t effort : {1, 2, 5, 20}) {
      BoundOptions options;
      options.use_windows = false;
      options.coarse_cells = 200;
      options.cells = 1000;
      options.max_pricings = effort;
      options.max_nodes = effort;
      if (seed % 2 == 0) options.max_priced = 10 * effort;
      const PlacementBound bound = bound_placement(problem, options, {});
      EXPECT_LE(bound.value, optimum * (1 + 1e-9)) << effort;
      const BoundVerdict verdict = verify_bound(problem, bound);
      EXPECT_TRUE(verdict.holds) << effort << " " << verdict.fault;
    }
  }
}

}  // namespace
}  // namespace plimsoll::balance::placement_laws
