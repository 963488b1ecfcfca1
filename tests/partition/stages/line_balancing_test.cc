#include "partition/stages/line_balancing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "partition/pipelines.h"

namespace plimsoll::partition {
namespace {

GroupGraph make_line(const std::vector<double>& times,
                     const std::vector<std::pair<int, int>>& order) {
  GroupGraph groups;
  groups.kinds.push_back({});
  groups.time_ms = {times};
  groups.predecessors.resize(times.size());
  groups.successors.resize(times.size());
  for (std::size_t g = 0; g < times.size(); ++g) groups.nodes.push_back({static_cast<int>(g)});
  for (const auto& [before, after] : order) {
    groups.predecessors[after].push_back(before);
    groups.successors[before].push_back(after);
  }
  return groups;
}

GroupGraph random_line(std::uint64_t seed, int max_groups) {
  PipelineRandom random(seed);
  std::vector<double> times(static_cast<std::size_t>(1 + random.below(max_groups)));
  for (double& time : times) time = random.below(10);
  std::vector<std::pair<int, int>> order;
  for (int b = 0; b < static_cast<int>(times.size()); ++b) {
    for (int a = 0; a < b; ++a) {
      if (random.below(3) == 0) order.emplace_back(a, b);
    }
  }
  return make_line(times, order);
}

// Stations by trying every set that may come next.
int fewest_by_force(const GroupGraph& groups, double limit) {
  const int all = (1 << groups.num_groups()) - 1;
  std::vector<int> fewest(static_cast<std::size_t>(all) + 1, 1000);
  fewest[0] = 0;
  const auto is_downset = [&](int set) {
    for (int g = 0; g < groups.num_groups(); ++g) {
      if ((set >> g & 1) == 0) continue;
      for (const int p : groups.predecessors[g]) {
        if ((set >> p & 1) == 0) return false;
      }
    }
    return true;
  };
  for (int end = 1; end <= all; ++end) {
    if (!is_downset(end)) continue;
    for (int stage = end; stage > 0; stage = (stage - 1) & end) {
      if (!is_downset(end & ~stage)) continue;
      double time = 0;
      for (int g = 0; g < groups.num_groups(); ++g) {
        if ((stage >> g & 1) != 0) time += groups.time_ms[0][g];
      }
      if (time <= limit) fewest[end] = std::min(fewest[end], fewest[end & ~stage] + 1);
    }
  }
  return fewest[all];
}

void expect_line(const GroupGraph& groups, const std::vector<int>& station_of, double limit,
                 int num_stations) {
  std::vector<double> times(static_cast<std::size_t>(num_stations));
  for (int g = 0; g < groups.num_groups(); ++g) {
    ASSERT_LT(station_of[g], num_stations);
    times[station_of[g]] += groups.time_ms[0][g];
    for (const int p : groups.predecessors[g]) EXPECT_LE(station_of[p], station_of[g]);
  }
  for (const double time : times) EXPECT_LE(time, limit * (1 + 1e-9));
}

//   a 4 → c 4      limit 6: {a b} {c} {d}, or {b d}, {a}, {c}: three, for 14 needs that many;
//   b 2 → d 4      limit 8: {a c} {b d}
TEST(LineBalancing, FillsStations) {
  const GroupGraph groups = make_line({4, 2, 4, 4}, {{0, 2}, {1, 3}});
  LineBalancer line(groups);
  ASSERT_EQ(line.find_downsets(100, {}), ChainStop::kFinished);
  EXPECT_EQ(line.num_downsets(), 9);
  EXPECT_EQ(line.num_steps(), 12);
  EXPECT_FALSE(line.find(6, 2).has_value());
  EXPECT_TRUE(line.find(6, 3).has_value());
  EXPECT_EQ(*line.find(8, 2), (std::vector<int>{0, 1, 0, 1}));
  EXPECT_FALSE(line.find(3.9, 9).has_value());
  EXPECT_EQ(*line.find(100, 9), (std::vector<int>{0, 0, 0, 0}));
}

TEST(LineBalancing, AgreesWithAllLines) {
  int num_answers = 0;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(seed);
    const GroupGraph groups = random_line(seed, 8);
    LineBalancer line(groups);
    ASSERT_EQ(line.find_downsets(1 << 10, {}), ChainStop::kFinished);
    const double limit = 9 + static_cast<double>(seed % 7);
    const int fewest = fewest_by_force(groups, limit);
    EXPECT_FALSE(line.find(limit, fewest - 1).has_value());
    const auto found = line.find(limit, fewest);
    ASSERT_TRUE(found.has_value());
    expect_line(groups, *found, limit, fewest);
    EXPECT_EQ(found, line.find(limit, fewest));
    num_answers += fewest > 2 ? 1 : 0;
  }
  EXPECT_GT(num_answers, 500);
}

// 20 groups without an order have 2^20 downsets.
TEST(LineBalancing, StopsWhereDownsetsAreTooMany) {
  const GroupGraph groups = make_line(std::vector<double>(20, 1), {});
  LineBalancer line(groups);
  EXPECT_EQ(line.find_downsets(1000, {}), ChainStop::kEffort);
  const std::atomic<bool> cancel{true};
  RunContext context;
  context.cancel = &cancel;
  LineBalancer cancelled(groups);
  EXPECT_EQ(cancelled.find_downsets(1000, context), ChainStop::kCancelled);
  RunContext late;
  late.deadline = std::chrono::steady_clock::now() - std::chrono::seconds(1);
  LineBalancer too_late(groups);
  EXPECT_EQ(too_late.find_downsets(1000, late), ChainStop::kDeadline);
}

}  // namespace
}  // namespace plimsoll::partition
