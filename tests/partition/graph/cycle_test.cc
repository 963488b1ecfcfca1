#include "partition/graph/cycle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace plimsoll::partition {
namespace {

using Edges = std::vector<std::pair<int, int>>;

//   0 → 1 → 2 ⇄ 3 → 4     only 2 and 3 wait for themselves; 4 waits for them
TEST(Cycle, IsFoundAmongWhatWaitsForIt) {
  EXPECT_EQ(find_cycle(5, Edges{{0, 1}, {1, 2}, {2, 3}, {3, 2}, {3, 4}}), (std::vector<int>{2, 3}));
  EXPECT_EQ(find_cycle(4, Edges{{3, 0}, {3, 1}, {1, 2}, {2, 1}}), (std::vector<int>{1, 2}));
  EXPECT_EQ(find_cycle(3, Edges{{2, 1}, {1, 0}, {0, 2}}), (std::vector<int>{0, 2, 1}));
  EXPECT_EQ(find_cycle(2, Edges{{1, 1}}), (std::vector<int>{1}));
  EXPECT_TRUE(find_cycle(3, Edges{{0, 1}, {0, 1}, {1, 2}, {0, 2}}).empty());
  EXPECT_TRUE(find_cycle(0, Edges{}).empty());
}

TEST(Cycle, FollowsEdgesInRandomGraphs) {
  int num_cyclic = 0;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    std::uint64_t state = seed * 2 + 1;
    const auto next = [&](int bound) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      return static_cast<int>((state >> 33) % static_cast<std::uint64_t>(bound));
    };
    const int n = 2 + next(8);
    Edges edges;
    for (int i = next(2 * n); i > 0; --i) edges.emplace_back(next(n), next(n));
    const std::vector<int> cycle = find_cycle(n, edges);
    // By squaring: who reaches itself?
    std::vector<std::vector<bool>> reaches(n, std::vector<bool>(n));
    for (const auto& [from, to] : edges) reaches[from][to] = true;
    for (int k = 0; k < n; ++k) {
      for (int i = 0; i < n; ++i) {
        for (int j = 0; j < n; ++j) {
          if (reaches[i][k] && reaches[k][j]) reaches[i][j] = true;
        }
      }
    }
    bool is_cyclic = false;
    for (int i = 0; i < n; ++i) is_cyclic = is_cyclic || reaches[i][i];
    ASSERT_EQ(!cycle.empty(), is_cyclic);
    num_cyclic += is_cyclic ? 1 : 0;
    for (std::size_t i = 0; i < cycle.size(); ++i) {
      const std::pair<int, int> edge(cycle[i], cycle[(i + 1) % cycle.size()]);
      EXPECT_NE(std::find(edges.begin(), edges.end(), edge), edges.end());
      EXPECT_EQ(std::count(cycle.begin(), cycle.end(), cycle[i]), 1);
      EXPECT_LE(cycle.front(), cycle[i]);
    }
  }
  EXPECT_GT(num_cyclic, 100);
}

TEST(Cycle, IsToldByName) {
  const auto name_of = [](int node) { return "n" + std::to_string(node); };
  EXPECT_EQ(cycle_text(std::vector<int>{3, 4}, name_of), "n3 -> n4 -> n3");
  std::vector<int> ring(10);
  for (int i = 0; i < 10; ++i) ring[i] = i;
  EXPECT_EQ(cycle_text(ring, name_of),
            "n0 -> n1 -> n2 -> n3 -> n4 -> n5 -> n6 -> n7 -> ... (2 more) -> n0");
}

}  // namespace
}  // namespace plimsoll::partition
