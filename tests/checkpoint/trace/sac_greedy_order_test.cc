#include "checkpoint/trace/sac_greedy_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

namespace plimsoll::checkpoint {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

SACStats stats_of(std::vector<Bytes> memory, std::vector<double> runtimes) {
  SACStats stats;
  stats.func_names.assign(memory.size(), "op");
  stats.memory = std::move(memory);
  stats.runtimes = std::move(runtimes);
  return stats;
}

std::vector<int> heads(const SACGreedyOrder& order) {
  std::vector<int> ops;
  for (const RecomputeCandidate& candidate : order.order) ops.push_back(candidate.op);
  return ops;
}

//   op       0     1    2     3        4       5     6
//            mm    t    relu_ dropout  dropout add   free
//   bytes    100   0    100   50       30      90    10
//   ms       10    0    1     2        2       3     0
//            in-place: 2 on 0;  view: 1;  random: 3, 4
SACStats block() {
  SACStats stats = stats_of({100, 0, 100, 50, 30, 90, 10}, {10, 0, 1, 2, 2, 3, 0});
  stats.view_like_ops = {1};
  stats.rand_ops = {3, 4};
  stats.inplace_ops = {{2, 0}};
  return stats;
}

TEST(SACGreedyOrder, GathersWhatGoesTogetherAndSortsByBytesPerMs) {
  const SACGreedyOrder order = make_greedy_order(block());
  EXPECT_THAT(order.recomputed_ops, ElementsAre(1));
  EXPECT_THAT(order.stored_ops, IsEmpty());
  EXPECT_THAT(order.inplace_groups, ElementsAre(InplaceGroup{0, {0, 2}}));
  EXPECT_THAT(order.random_ops, ElementsAre(3, 4));
  EXPECT_THAT(order.order,
              ElementsAre(RecomputeCandidate{6, 10, 0, std::numeric_limits<double>::max()},
                          RecomputeCandidate{5, 90, 3, 30}, RecomputeCandidate{3, 80, 4, 20},
                          RecomputeCandidate{0, 200, 11, 200.0 / 11}));
}

TEST(SACGreedyOrder, KeepsTheOrderOfEqualRatios) {
  const SACGreedyOrder order = make_greedy_order(stats_of({2, 9, 4, 6}, {1, 3, 2, 2}));
  EXPECT_THAT(heads(order), ElementsAre(1, 3, 0, 2));
}

TEST(SACGreedyOrder, StoresTheRandomHeadUnderForceStoreRandom) {
  SACStats stats = block();
  stats.force_store_random = true;
  const SACGreedyOrder order = make_greedy_order(stats);
  EXPECT_THAT(order.stored_ops, ElementsAre(3));
  EXPECT_THAT(heads(order), ElementsAre(6, 5, 0));
  EXPECT_THAT(make_tradeoff_curve(stats, order)->points.back(),
              Pair(DoubleNear(1.01, 1e-12), DoubleNear(1, 1e-12)));
}

// A group headed by an in-place operator is stored; one with random operators only where they are
// odd in number.
TEST(SACGreedyOrder, StoresInplaceGroupsAsUpstreamDoes) {
  SACStats stats = stats_of({1, 1, 1, 1, 1}, {1, 1, 1, 1, 1});
  stats.inplace_ops = {{0, 0}, {2, 1}, {4, 3}};
  EXPECT_THAT(make_greedy_order(stats).stored_ops, ElementsAre(0));
  EXPECT_THAT(heads(make_greedy_order(stats)), ElementsAre(1, 3));

  stats.force_store_random = true;
  EXPECT_THAT(make_greedy_order(stats).stored_ops, ElementsAre(0));
  stats.rand_ops = {2, 3, 4};  // one in the group of 1, two in that of 3
  EXPECT_THAT(make_greedy_order(stats).stored_ops, ElementsAre(0, 1, 2));
  EXPECT_THAT(heads(make_greedy_order(stats)), ElementsAre(3));
  stats.force_store_random = false;
  EXPECT_THAT(make_greedy_order(stats).stored_ops, ElementsAre(0));
}

TEST(SACGreedyOrder, CountsARandomOperatorOfAnInplaceGroupTwice) {
  SACStats stats = stats_of({4, 4}, {1, 1});
  stats.inplace_ops = {{1, 0}};
  stats.rand_ops = {1};
  const SACGreedyOrder order = make_greedy_order(stats);
  EXPECT_THAT(heads(order), ElementsAre(0, 1));
  // x ends at 1.5 of the memory.
  EXPECT_THAT(make_tradeoff_curve(stats, order)->points.back(),
              Pair(DoubleNear(1.51, 1e-12), DoubleNear(1.5, 1e-12)));
}

TEST(TradeoffCurve, DrawsAPointAfterEachStep) {
  const auto curve = make_tradeoff_curve(block(), make_greedy_order(block()));
  ASSERT_TRUE(curve);
  EXPECT_EQ(curve->sac_memory, 380);
  EXPECT_EQ(curve->sac_runtime, 18);
  EXPECT_THAT(curve->points, ElementsAre(Pair(0.01, 0), Pair(10 / 380.0 + 0.01, 0),
                                         Pair(100 / 380.0 + 0.01, 3 / 18.0),
                                         Pair(180 / 380.0 + 0.01, 7 / 18.0), Pair(1.01, 1)));
}

TEST(TradeoffCurve, LetsAStepWithoutBytesMoveThePointBefore) {
  const SACStats stats = stats_of({8, 0, 2}, {1, 5, 4});
  EXPECT_THAT(make_tradeoff_curve(stats, make_greedy_order(stats))->points,
              ElementsAre(Pair(0.01, 0), Pair(0.81, 0.1), Pair(1.01, 1)));
}

TEST(TradeoffCurve, FailsWhereUpstreamDividesByZero) {
  const auto fails = [](const SACStats& stats) {
    const auto curve = make_tradeoff_curve(stats, make_greedy_order(stats));
    return curve ? std::string("drawn") : curve.error().place;
  };
  EXPECT_EQ(fails(stats_of({0, 0}, {1, 2})), "memory");
  EXPECT_EQ(fails(stats_of({1, 2}, {0, 0})), "runtimes");
  EXPECT_EQ(fails(stats_of({}, {})), "memory");
  const Bytes most = std::numeric_limits<Bytes>::max();
  const SACStats huge = stats_of({most, 1}, {1, 2});
  EXPECT_EQ(make_tradeoff_curve(huge, make_greedy_order(huge)).error().code, ErrorCode::kOverflow);
  EXPECT_EQ(fails(stats_of({most, 0}, {1, 2})), "drawn");
}

// Upstream sorts a set of ints, which CPython walks as 8, 2: of equal ratios 8 goes first.
TEST(SACGreedyOrder, BreaksTiesAsPythonWalksItsSets) {
  SACStats stats = stats_of(std::vector<Bytes>(9, 8), std::vector<double>(9, 1));
  for (const int op : {0, 1, 3, 4, 5, 6, 7}) stats.view_like_ops.push_back(op);
  EXPECT_THAT(heads(make_greedy_order(stats)), ElementsAre(8, 2));
  stats.view_like_ops = {1, 3};
  EXPECT_THAT(heads(make_greedy_order(stats)), ElementsAre(0, 2, 4, 5, 6, 7, 8));
}

}  // namespace
}  // namespace plimsoll::checkpoint
