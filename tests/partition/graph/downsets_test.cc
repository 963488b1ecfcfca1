#include "partition/graph/downsets.h"

#include <gtest/gtest.h>

#include <set>

#include "partition/cost_graphs.h"

namespace plimsoll::partition {
namespace {

std::vector<std::vector<char>> all_downsets(const GroupGraph& groups) {
  std::vector<std::vector<char>> list;
  std::vector<char> holds(groups.nodes.size(), 1);
  do {
    list.push_back(holds);
  } while (next_downset(groups, holds));
  return list;
}

bool is_downset(const GroupGraph& groups, const std::vector<char>& holds) {
  for (int g = 0; g < groups.num_groups(); ++g) {
    for (const int before : groups.predecessors[g]) {
      if (holds[g] != 0 && holds[before] == 0) return false;
    }
  }
  return true;
}

TEST(Downsets, AreEachEnumeratedOnce) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const GroupGraph groups = make_groups(random_cost_graph(random, {.max_nodes = 9}));
    const auto list = all_downsets(groups);
    const std::set<std::vector<char>> distinct(list.begin(), list.end());
    EXPECT_EQ(distinct.size(), list.size());
    std::size_t expected = 0;
    for (unsigned bits = 0; bits < 1U << groups.nodes.size(); ++bits) {
      std::vector<char> holds;
      for (std::size_t g = 0; g < groups.nodes.size(); ++g) {
        holds.push_back(static_cast<char>(bits >> g & 1U));
      }
      if (!is_downset(groups, holds)) continue;
      ++expected;
      EXPECT_EQ(distinct.count(holds), 1u);
    }
    EXPECT_EQ(list.size(), expected);
  }
}

TEST(Downsets, ComeSortedWithoutRepetitions) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const GroupGraph groups = make_groups(random_cost_graph(random, {.max_nodes = 9}));
    const auto list = all_downsets(groups);
    Downsets downsets(groups);
    for (const auto& holds : list) downsets.add(holds);
    for (const auto& holds : list) downsets.add(holds);
    downsets.finish();
    ASSERT_EQ(downsets.size(), static_cast<int>(list.size()));
    for (int g = 0; g < groups.num_groups(); ++g) {
      EXPECT_FALSE(downsets.contains(0, g));
      EXPECT_TRUE(downsets.contains(downsets.size() - 1, g));
    }
    for (int a = 0; a < downsets.size(); ++a) {
      for (int b = 0; b < a; ++b) EXPECT_FALSE(downsets.is_subset(a, b));
    }
  }
}

TEST(Downsets, KnowWhatAStageBetweenTwoOfThemMoves) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const GroupGraph groups = make_groups(random_cost_graph(random, {.max_nodes = 9}));
    Downsets downsets(groups);
    for (const auto& holds : all_downsets(groups)) downsets.add(holds);
    downsets.finish();
    for (int b = 0; b < downsets.size(); ++b) {
      for (int a = 0; a < b; ++a) {
        if (!downsets.is_subset(a, b)) continue;
        double moved = 0;
        for (const GroupNet& net : groups.nets) {
          const auto inside = std::count_if(net.groups.begin(), net.groups.end(), [&](int g) {
            return downsets.contains(b, g) && !downsets.contains(a, g);
          });
          if (inside != 0 && inside != static_cast<std::ptrdiff_t>(net.groups.size())) {
            moved += net.amount;
          }
        }
        EXPECT_NEAR(downsets.cut_between(a, b), moved, 1e-9);
        EXPECT_LE(downsets.cut_at_least(a, b), moved + 1e-9);
      }
    }
  }
}

TEST(Downsets, LetOrdersFollowTheirKeys) {
  std::mt19937_64 random(5);
  const GroupGraph groups = make_groups(random_cost_graph(random, {.max_nodes = 9}));
  std::vector<std::uint64_t> keys(groups.nodes.size());
  for (std::size_t g = 0; g < keys.size(); ++g) keys[g] = g;
  std::vector<int> by_number(groups.nodes.size());
  for (int g = 0; g < groups.num_groups(); ++g) by_number[g] = g;
  EXPECT_EQ(topological_order(groups, keys), by_number);
}

}  // namespace
}  // namespace plimsoll::partition
