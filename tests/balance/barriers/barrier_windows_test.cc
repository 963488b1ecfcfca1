// Contents at several barriers beside plain enumeration: what is proved holds, and is proved again;
// what is found is allowed.

#include "balance/barriers/barrier_windows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "balance/barriers/box_search.h"
#include "balance/bounds/bound_placement.h"
#include "balance/expected_bound.h"
#include "balance/problem/placement_judge.h"
#include "balance/random_placements.h"
#include "balance/verify/verify_bound.h"

namespace plimsoll::balance {
namespace {

using testing::Enumerator;
using testing::expect_bound;
using testing::InstanceKind;
using testing::kind_of_seed;
using testing::random_problem;

// Of equal ranks, with units that may change places, and loads that differ between barriers.
PlacementProblem barrier_problem(std::uint64_t seed, bool has_several = true,
                                 bool is_tight = false) {
  InstanceKind kind = kind_of_seed(seed);
  kind.tight_memory |= is_tight;
  kind.barriers = has_several;
  kind.repeated = true;
  kind.unequal_caps = kind.classes = kind.allowed = kind.apart = kind.uneven_hosts = false;
  PlacementProblem problem = random_problem(seed, kind);
  EXPECT_EQ(problem.num_barriers > 1, has_several);
  for (Unit& unit : problem.units) {
    for (std::size_t c = 0; c < unit.choices.size(); ++c) {
      for (PieceRun& run : unit.choices[c].runs) {
        for (std::size_t b = 0; b < run.load.size(); ++b) {
          if ((b + c) % 2 == 0) run.load[b] /= 8;
        }
      }
    }
  }
  return problem;
}

// Equal units of one piece on 4 ranks, 5 ms at the second barrier and little at the first, that may
// be uniform for 3 ms.
PlacementProblem whole_pieces(int num_units) {
  PlacementProblem problem;
  problem.num_ranks = 4;
  problem.ranks_per_host = 4;
  problem.num_barriers = 2;
  problem.resources = testing::three_memories();
  problem.caps.assign(4, {1000, 1000, 1000});
  for (int u = 0; u < num_units; ++u) {
    Unit unit{"unit" + std::to_string(u), {}, {}};
    unit.choices.push_back({Spread::kDevice, {{1, {.25, 5}, {1, 0, 0}}}, 1, {}});
    unit.choices.push_back({Spread::kUniform, {{4, {0, 3}, {1, 0, 0}}}, 1, {}});
    problem.units.push_back(std::move(unit));
  }
  return problem;
}

BoundOptions bound_options(double incumbent) {
  BoundOptions options;
  options.coarse_cells = 300;
  options.cells = 1000;
  options.incumbent = incumbent;
  return options;
}

PlacementProblem several_barriers(std::uint64_t seed) { return barrier_problem(seed); }
PlacementProblem one_barrier(std::uint64_t seed) { return barrier_problem(seed, false); }

// Memory is tight, and the first resource is a cap on times, which windows tell apart rank by rank.
PlacementProblem capped_problem(std::uint64_t seed) {
  PlacementProblem problem = barrier_problem(seed, true, true);
  problem.resources[0].is_pooled = false;
  problem.resources[0].is_time = true;
  return problem;
}

int count_splits_of_limits(const PlacementProblem& problem, const PlacementBound& bound) {
  int count = 0;
  for (const BoundCase& c : bound.cases) {
    for (const BoxNode& node : c.boxes.nodes) count += node.barrier >= problem.num_barriers;
  }
  return count;
}

struct Proved {
  int num_models = 0, num_higher = 0, num_split = 0;
};

// How many problems have boxes, for how many these prove 1 % more than the rest of `options`, and
// in how many of them limits are split; no bound may be above the optimum.
template <class MakeProblem>
Proved prove_by_boxes(std::uint64_t num_seeds, const MakeProblem& make, BoundOptions options) {
  Proved proved;
  for (std::uint64_t seed = 0; seed < num_seeds; ++seed) {
    SCOPED_TRACE(seed);
    const PlacementProblem problem = make(seed);
    const double optimum = Enumerator(problem).find();
    if (optimum == kInfinity || !make_barrier_model(problem, 0)) continue;
    ++proved.num_models;
    options.incumbent = 1.1 * optimum;
    options.use_boxes = false;
    const double without = bound_placement(problem, options, {}).value;
    options.use_boxes = true;
    const PlacementBound bound = bound_placement(problem, options, {});
    expect_bound(problem, bound, without, optimum);
    proved.num_higher += bound.method == BoundMethod::kBoxes && bound.value > without * 1.01;
    proved.num_split += count_splits_of_limits(problem, bound) > 0;
  }
  return proved;
}

TEST(BarrierWindows, ProveNoMoreThanTheOptimum) {
  const Proved proved = prove_by_boxes(400, several_barriers, bound_options(kInfinity));
  EXPECT_GT(proved.num_models, 250);
  EXPECT_GT(proved.num_higher, 20);
}

// Of one barrier, where contents keep exact loads instead of cells.
TEST(BarrierWindows, ProveNoMoreThanTheOptimumOfOneBarrier) {
  BoundOptions options = bound_options(kInfinity);
  options.use_patterns = options.use_choices = false;
  EXPECT_GT(prove_by_boxes(300, one_barrier, options).num_higher, 20);
}

TEST(BarrierWindows, ProveNoMoreThanTheOptimumUnderACapOnTimes) {
  BoundOptions options = bound_options(kInfinity);
  options.use_patterns = options.use_choices = false;
  const Proved proved = prove_by_boxes(600, capped_problem, options);
  EXPECT_GT(proved.num_models, 200);
  EXPECT_GT(proved.num_split, 15);
}

// A piece takes 40 of a cap of 100, a uniform unit 12 of every rank: beside more than five of these
// no piece stands, and pieces and five of these are seven units at most. So all eight are uniform.
// The caps of all ranks together have room for half a piece.
TEST(BarrierWindows, SeeWhatUniformUnitsTakeOfACap) {
  PlacementProblem problem = whole_pieces(8);
  problem.num_ranks = problem.ranks_per_host = 2;
  problem.resources[0].is_time = true;
  problem.caps.assign(2, {100, 1000, 1000});
  for (Unit& unit : problem.units) {
    unit.choices[0].runs = {{1, {.25, 1}, {40, 0, 0}}};
    unit.choices[1].runs = {{2, {0, 3}, {12, 0, 0}}};
  }
  EXPECT_EQ(Enumerator(problem).find(), 24);
  const auto model = make_barrier_model(problem, 0);
  ASSERT_TRUE(model);
  ASSERT_EQ(model->times.size(), 1U);
  BarrierWindowOptions options;
  options.goal = 25;
  EffortClock clock{RunContext{}};
  const auto prove = [&] {
    return search_barrier_windows(*model, problem.num_units(), options, clock).value;
  };
  EXPECT_NEAR(prove(), 23.75, 1e-2);
  options.limits = model->times;
  EXPECT_NEAR(prove(), 24, 1e-2);
}

// Whichever case it is of, a box that is proved by less is found.
TEST(BarrierWindows, AreProvedAgainBoxByBox) {
  int num_boxes = 0, num_split = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const PlacementProblem problem = seed % 2 == 0 ? several_barriers(seed) : capped_problem(seed);
    const double optimum = Enumerator(problem).find();
    if (optimum == kInfinity || !make_barrier_model(problem, 0)) continue;
    BoundOptions options = bound_options(1.1 * optimum);
    options.use_patterns = options.use_choices = seed % 2 == 0;
    const PlacementBound bound = bound_placement(problem, options, {});
    if (bound.method != BoundMethod::kBoxes) continue;
    ++num_boxes;
    num_split += count_splits_of_limits(problem, bound) > 0;
    for (int change = 0; change < 4; ++change) {
      PlacementBound other = bound;
      for (BoundCase& c : other.cases) {
        if (c.method != BoundMethod::kBoxes) continue;
        if (change == 0) c.boxes.proofs.clear();
        if (change == 1) {
          for (BoxProof& proof : c.boxes.proofs) proof.value.assign(proof.value.size(), 0);
        }
        if (change == 2) {
          for (BoxNode& node : c.boxes.nodes) node.split *= 2;
        }
        if (change == 3) {
          for (BoxProof& proof : c.boxes.proofs) proof.uniform_price.push_back(1);
        }
      }
      EXPECT_LT(verify_bound(problem, other).value, bound.value * (1 + 1e-9)) << change;
      EXPECT_TRUE((change > 0 && change < 3) || !verify_bound(problem, other).holds) << change;
    }
  }
  EXPECT_GT(num_boxes, 10);
  EXPECT_GT(num_split, 3);
}

// Six pieces a rank are 30 ms at the second barrier, and the mean of 25 pieces is 31.25; one
// uniform unit more is better than a seventh piece on some rank.
TEST(BarrierWindows, SeeThatPiecesAreWhole) {
  const PlacementProblem problem = whole_pieces(25);
  const double best = 6 * .25 + 6 * 5 + 3;
  const auto model = make_barrier_model(problem, 0);
  ASSERT_TRUE(model);
  BarrierWindowOptions options;
  options.goal = best * 1.1;
  EffortClock clock{RunContext{}};
  const BarrierWindowResult result =
      search_barrier_windows(*model, problem.num_units(), options, clock);
  EXPECT_LE(result.value, best * (1 + 1e-9));
  EXPECT_GE(result.value, best * (1 - 1e-3));
}

TEST(BarrierWindows, TurnOnWhatTheyGetAlone) {
  EXPECT_FALSE(make_barrier_model(PlacementProblem{}, 0));
  PlacementProblem problem = whole_pieces(3);
  EXPECT_TRUE(make_barrier_model(problem, 0));
  problem.caps[2] = {999, 1000, 1000};
  EXPECT_FALSE(make_barrier_model(problem, 0)) << "unequal ranks";
  problem = whole_pieces(3);
  problem.apart = {{0, 1}};
  EXPECT_FALSE(make_barrier_model(problem, 0)) << "units that stay apart";
  problem = whole_pieces(3);
  problem.units[1].allowed_ranks = {0};
  EXPECT_FALSE(make_barrier_model(problem, 0)) << "a unit that may not stand everywhere";
  problem = whole_pieces(kMaxClassesOfBoxes + 1);
  for (int u = 0; u < problem.num_units(); ++u) problem.units[u].choices[0].runs[0].load[0] += u;
  EXPECT_FALSE(make_barrier_model(problem, 0)) << "too many classes";
}

TEST(BoxSearch, FindsWhatWholePiecesAllow) {
  const PlacementProblem problem = whole_pieces(25);
  double best = kInfinity;
  BoxSearchOptions options;
  options.incumbent = 40;
  EffortClock clock{RunContext{}};
  search_boxes(problem, options, clock, [&](const UnitPlacements& found, double& below) {
    const PlacementValue value = evaluate(problem, found);
    EXPECT_TRUE(value.is_allowed());
    best = std::min(best, value.objective);
    below = std::min(below, best);
    return true;
  });
  EXPECT_NEAR(best, 6 * .25 + 6 * 5 + 3, 1e-9);
}

// Every placement is one of the problem, none is better than the optimum, and twice the same comes
// of the same.
TEST(BoxSearch, OffersPlacementsOfTheProblem) {
  int num_found = 0, num_best = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const PlacementProblem problem = barrier_problem(seed);
    const double optimum = Enumerator(problem).find();
    if (optimum == kInfinity || !make_barrier_model(problem, 0)) continue;
    BoxSearchOptions options;
    options.constant = problem.floor_ms;
    options.incumbent = 2 * optimum + 1;
    std::vector<double> objectives[2];
    double best = kInfinity;
    for (std::vector<double>& of : objectives) {
      EffortClock clock{RunContext{}};
      search_boxes(problem, options, clock, [&](const UnitPlacements& found, double&) {
        const PlacementValue value = evaluate(problem, found);
        of.push_back(value.objective);
        if (value.is_allowed()) {
          EXPECT_GE(value.objective, optimum * (1 - 1e-9));
          best = std::min(best, value.objective);
        }
        return value.is_allowed();
      });
    }
    EXPECT_EQ(objectives[0], objectives[1]);
    num_found += best < kInfinity;
    num_best += best < optimum * (1 + 1e-9);
  }
  EXPECT_GT(num_found, 100);
  EXPECT_GT(num_best, 40);
}

}  // namespace
}  // namespace plimsoll::balance
