#include "balance/contents/content_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "balance/bounds/bound_placement.h"
#include "balance/moves/placement_completion.h"
#include "balance/prices/filtered_bound.h"
#include "balance/problem/lightest_place.h"
#include "balance/problem/placement_judge.h"
#include "balance/random_placements.h"

namespace plimsoll::balance::content_search {
namespace {

using testing::Enumerator;
using testing::InstanceKind;
using testing::random_problem;

InstanceKind plain_kind(std::uint64_t seed) {
  InstanceKind kind;
  kind.tight_memory = seed % 3 == 0;
  kind.repeated = seed % 2 == 0;
  kind.uneven_hosts = seed % 7 == 0;
  return kind;
}

// A problem, its groups and what all of it may use.
struct Instance {
  explicit Instance(const PlacementProblem& given)
      : problem(given),
        groups(make_placement_groups(problem)),
        bound(filtered_bound(groups)),
        all(filter_by_target(groups, kInfinity)),
        model(bound.infeasible ? std::nullopt
                               : make_content_model(problem, groups, all, bound.prices.price)) {}
  const PlacementProblem problem;
  const PlacementGroups groups;
  const FilteredBound bound;
  const Survivors all;
  const std::optional<ContentModel> model;
};

// Two ranks; a unit of 4, whole or in halves of 3, and one of 5, whole or 2 on each rank.
PlacementProblem small_problem() {
  PlacementProblem problem;
  problem.num_ranks = 2;
  problem.ranks_per_host = 2;
  problem.resources = testing::three_memories();
  problem.caps.assign(2, {100, 0, 0});
  const auto device = [](std::int64_t pieces, double load) {
    return UnitChoice{Spread::kDevice, {{pieces, {load}, {10, 0, 0}}}, 1, {}};
  };
  problem.units.push_back({"halves", {device(1, 4), device(2, 3)}, {}});
  problem.units.push_back(
      {"rows", {device(1, 5), {Spread::kUniform, {{2, {2}, {5, 0, 0}}}, 1, {}}}, {}});
  return problem;
}

TEST(Contents, CountsWhatStandsWhere) {
  const Instance instance(small_problem());
  ASSERT_TRUE(instance.model);
  Contents contents(*instance.model);
  const auto halves = std::find_if(instance.model->items.begin(), instance.model->items.end(),
                                   [](const ContentItem& item) { return item.num_parts == 2; });
  ASSERT_NE(halves, instance.model->items.end());
  const int item = static_cast<int>(halves - instance.model->items.begin());
  const int of_class = halves->class_index;
  EXPECT_EQ(contents.left(of_class), 1);
  EXPECT_EQ(contents.open_parts(item), 2);
  contents.put(item, 1);
  EXPECT_EQ(contents.left(of_class), 0);
  EXPECT_EQ(contents.owed(item), 1);
  EXPECT_EQ(contents.load(1), 3);
  EXPECT_FALSE(contents.is_complete());
  contents.put(item, 0);
  EXPECT_EQ(contents.owed(item), 0);
  contents.take(item, 1);
  EXPECT_EQ(contents.owed(item), 1);
  contents.give_up_owed(item);
  EXPECT_EQ(contents.left(of_class), 1);
  EXPECT_EQ(contents.load(0), 0);
  for (int c = 0; c < 2; ++c) {
    if (instance.model->classes[c].num_uniform_at_most == 0) continue;
    EXPECT_TRUE(contents.set_uniform(c, 1));
    EXPECT_EQ(contents.objective(), 2);
    contents.free_uniform();
    EXPECT_EQ(contents.left(c), 1);
    EXPECT_EQ(contents.objective(), 0);
  }
}

TEST(ContentDive, FillsTwoRanks) {
  const Instance instance(small_problem());
  SplitMix64 random(1);
  EffortClock clock{RunContext{}};
  Contents contents(*instance.model);
  FillingPool fillings;
  ContentDive dive(*instance.model, 5, 1000, 100, fillings, random, clock);
  ASSERT_TRUE(dive.fill_ranks(contents, {0, 1}));
  ASSERT_TRUE(ContentDive::finish(contents));
  // 4 on one rank, 5 on the other.
  EXPECT_EQ(contents.objective(), 5);
  EXPECT_EQ(evaluate(instance.problem, contents.placements()).objective, 5);
}

// Through contents and back: the judge sees the same objective.
TEST(Contents, StandForPlacements) {
  int num_checked = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const Instance instance(random_problem(seed, plain_kind(seed)));
    if (!instance.model) continue;
    Enumerator enumerator(instance.problem);
    if (enumerator.find() == kInfinity) continue;
    const auto contents = Contents::from(*instance.model, enumerator.best());
    if (!contents) continue;  // a dominated choice
    ++num_checked;
    const PlacementValue value = evaluate(instance.problem, contents->placements());
    EXPECT_THAT(value.faults, ::testing::IsEmpty());
    EXPECT_NEAR(value.objective, contents->objective() + instance.problem.floor_ms, 1e-9);
    EXPECT_LE(value.objective,
              evaluate(instance.problem, enumerator.best()).objective * (1 + 1e-12) + 1e-9);
  }
  EXPECT_GT(num_checked, 100);
}

TEST(ContentSearch, FindsPlansThatTheJudgeAllows) {
  int num_feasible = 0, num_found = 0, num_best = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const Instance instance(random_problem(seed, plain_kind(seed)));
    if (!instance.model) continue;
    const double optimum = Enumerator(instance.problem).find();
    if (optimum == kInfinity) continue;
    ++num_feasible;
    ContentSearchOptions options;
    const PlacementBound bound = bound_placement(instance.problem, {}, {});
    const double base = instance.problem.floor_ms;
    options.room = bound.room > 0 ? bound.room : bound.value - base;
    options.lower_bound = bound.value - base;
    options.max_effort = 20000;
    options.seed = seed;
    double best = kInfinity;
    UnitPlacements last;
    const auto offer = [&](const UnitPlacements& placements) {
      const PlacementValue value = evaluate(instance.problem, placements);
      EXPECT_THAT(value.faults, ::testing::IsEmpty());
      EXPECT_LT(value.objective, best);
      best = value.objective;
      last = placements;
    };
    EffortClock clock{RunContext{}};
    search_contents(*instance.model, nullptr, options, clock, offer);
    EXPECT_GE(best, optimum * (1 - 1e-9));
    num_found += best < kInfinity;
    num_best += best <= optimum * (1 + 1e-6);
    // The same again.
    const double first = best;
    const UnitPlacements plan = last;
    best = kInfinity;
    EffortClock again{RunContext{}};
    search_contents(*instance.model, nullptr, options, again, offer);
    EXPECT_EQ(best, first);
    EXPECT_EQ(last, plan);
    EXPECT_EQ(clock.effort(), again.effort());
  }
  ASSERT_GT(num_feasible, 200);
  EXPECT_GE(num_found, num_feasible * 95 / 100) << num_found << " of " << num_feasible;
  EXPECT_GE(num_best, num_feasible * 65 / 100) << num_best << " of " << num_feasible;
}

TEST(PlacementCompletion, FillsRanksWithWhatFitsTogether) {
  // 6 + 4, 5 + 3 + 2: largest first, lightest rank leaves 11 and 9.
  PlacementProblem problem;
  problem.num_ranks = 2;
  problem.resources = testing::three_memories();
  problem.caps.assign(2, {100, 0, 0});
  for (const double load : {6., 5., 4., 3., 2.}) {
    problem.units.push_back({"", {{Spread::kDevice, {{1, {load}, {1, 0, 0}}}, 1, {}}}, {}});
  }
  const PlacementItems items = make_placement_items(problem);
  CompletionOptions options;
  options.target = 10;
  const auto placements = complete_bins(items, options);
  ASSERT_TRUE(placements);
  EXPECT_EQ(evaluate(problem, *placements).objective, 10);
}

TEST(PlacementCompletion, PlacesWhatTheJudgeAllows) {
  int num_found = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const Instance instance(random_problem(seed, plain_kind(seed)));
    const PlacementItems items = make_placement_items(instance.problem);
    if (!items.empty_units.empty() || instance.bound.infeasible) continue;
    StartOptions options;
    options.lower_bound = std::max(instance.bound.value, 1e-9);
    EffortClock clock{RunContext{}};
    const std::optional<Start> start = complete_best(items, options, clock);
    if (!start) continue;
    ++num_found;
    const PlacementValue value = evaluate(instance.problem, start->placements);
    EXPECT_THAT(value.faults, ::testing::IsEmpty());
    EXPECT_EQ(value.objective, start->objective);
    EXPECT_GE(value.objective, Enumerator(instance.problem).find() * (1 - 1e-9));
  }
  EXPECT_GT(num_found, 100);
}

// A scan over all ranks finds the same one.
TEST(LightestPlace, IsTheLightestThatFits) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const PlacementProblem problem = random_problem(seed, plain_kind(seed));
    const PlacementItems items = make_placement_items(problem);
    if (!items.empty_units.empty()) continue;
    PlacementState state(items);
    LightestPlace lightest(state);
    testing::Random random(seed);
    for (int step = 0; step < 40; ++step) {
      const int unit = random.below(items.num_units);
      if (state.choice(unit) >= 0) {
        if (items.choices[state.choice(unit)].spread == Spread::kUniform) {
          state.remove(unit);
        } else {
          lightest.remove(unit);
        }
        continue;
      }
      const int c = items.first_choice[unit] + random.below(items.num_choices(unit));
      if (items.choices[c].spread != Spread::kDevice || items.choices[c].num_pieces != 1) continue;
      int expected = -1;
      for (int rank = 0; rank < items.num_ranks; ++rank) {
        if (expected >= 0 && lightest.height(rank) >= lightest.height(expected)) continue;
        if (state.can_put(unit, c, 0, rank)) expected = rank;
      }
      EXPECT_EQ(lightest.place(unit, c), expected >= 0);
      if (expected >= 0) {
        EXPECT_EQ(state.place(items.first_slot[unit]), expected);
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::balance::content_search
