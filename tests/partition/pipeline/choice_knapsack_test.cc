#include "partition/pipeline/choice_knapsack.h"

#include <gtest/gtest.h>

#include "partition/pipelines.h"
#include "plimsoll/core/numbers.h"

namespace plimsoll::partition {
namespace {

using Groups = std::vector<std::vector<ChoiceItem>>;

Groups random_groups(PipelineRandom& random, int num_groups) {
  Groups groups(num_groups);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (g > 0 && random.below(3) == 0) {
      groups[g] = groups[g - 1];  // equal groups occur
      continue;
    }
    const int num_items = 1 + random.below(3);
    for (int i = 0; i < num_items; ++i) {
      groups[g].push_back({static_cast<double>(random.below(12)), random.below(12) - 2});
    }
  }
  return groups;
}

double least_by_force(const Groups& groups, Bytes capacity, std::size_t g = 0) {
  if (g == groups.size()) return capacity >= 0 ? 0 : kInfinity;
  double best = kInfinity;
  for (const ChoiceItem& item : groups[g]) {
    best = std::min(best, item.time + least_by_force(groups, capacity - item.bytes, g + 1));
  }
  return best;
}

// Saving 10 bytes: greedily by price 1 a byte for 6 bytes, then 8 for 5 more; better 12 for 10 at
// once.
TEST(ChoiceKnapsack, IsNotGreedy) {
  const Groups groups = {{{0, 6}, {6, 0}}, {{0, 5}, {8, 0}}, {{0, 10}, {12, 0}}};
  const auto answer = choose_fastest(groups, 11, {kInfinity});
  EXPECT_EQ(answer.time, 12);
  EXPECT_EQ(answer.choice, (std::vector<int>{0, 0, 1}));
}

TEST(ChoiceKnapsack, AgreesWithAllChoices) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    PipelineRandom random(seed);
    const Groups groups = random_groups(random, 1 + random.below(6));
    const Bytes capacity = random.below(40);
    const double best = least_by_force(groups, capacity);
    const double limit = random.below(2) == 0 ? kInfinity : random.below(40);
    for (int rules = 0; rules < 4; ++rules) {
      KnapsackLimits limits{limit};
      limits.uses_reduced_costs = (rules & 1) != 0;
      limits.breaks_symmetry = (rules & 2) != 0;
      const auto answer = choose_fastest(groups, capacity, limits);
      if (best > limit || best == kInfinity) {
        EXPECT_TRUE(answer.choice.empty());
        EXPECT_EQ(answer.bound, kInfinity);
        continue;
      }
      ASSERT_EQ(answer.choice.size(), groups.size());
      EXPECT_EQ(answer.time, best);
      EXPECT_LE(answer.bound, best);
      EXPECT_GE(answer.bound, best - 1e-6);
      double time = 0;
      Bytes bytes = 0;
      for (std::size_t g = 0; g < groups.size(); ++g) {
        time += groups[g][answer.choice[g]].time;
        bytes += groups[g][answer.choice[g]].bytes;
      }
      EXPECT_EQ(time, best);
      EXPECT_LE(bytes, capacity);
    }
  }
}

TEST(ChoiceKnapsack, EveryRuleSavesNodes) {
  std::int64_t all = 0;
  std::int64_t without_costs = 0;
  std::int64_t without_symmetry = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    PipelineRandom random(seed);
    const Groups groups = random_groups(random, 12);
    const auto nodes = [&](bool costs, bool symmetry) {
      KnapsackLimits limits{kInfinity};
      limits.uses_reduced_costs = costs;
      limits.breaks_symmetry = symmetry;
      return choose_fastest(groups, 40, limits).num_nodes;
    };
    all += nodes(true, true);
    without_costs += nodes(false, true);
    without_symmetry += nodes(true, false);
  }
  EXPECT_GT(without_costs, all);
  EXPECT_GT(without_symmetry, all);
}

TEST(ChoiceKnapsack, KeepsABoundWhenNodesRunOut) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    PipelineRandom random(seed);
    const Groups groups = random_groups(random, 6);
    const double best = least_by_force(groups, 20);
    KnapsackLimits limits{kInfinity};
    limits.max_nodes = 1;
    const auto answer = choose_fastest(groups, 20, limits);
    EXPECT_GE(answer.time, best);
    EXPECT_LE(answer.bound, best);
  }
}

}  // namespace
}  // namespace plimsoll::partition
