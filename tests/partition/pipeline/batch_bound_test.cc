#include "partition/pipeline/batch_bound.h"

#include <gtest/gtest.h>

#include <cmath>

#include "partition/pipeline/composition_bound.h"
#include "partition/pipeline/operator_groups.h"
#include "partition/pipeline/pipeline_shares.h"
#include "partition/pipelines.h"
#include "plimsoll/check/pipeline_check.h"
#include "plimsoll/core/numbers.h"
#include "plimsoll/partition/plan_pipeline.h"

namespace plimsoll::partition {
namespace {

// Two items of 4 ms on stages of one device or two, four devices in all; two replicas of the second
// item agree on something for 3 ms.
BatchItems two_items() {
  BatchItems items;
  items.kinds = {{0, 1, kInfinity}, {0, 2, kInfinity}};
  items.class_devices = {4};
  items.devices = 4;
  items.bytes = kInfinity;
  items.options = {{0, 1, 4, 1}, {1, 2, 2, 2}, {0, 1, 4, 1}, {1, 2, 5, 2}};
  items.first = {0, 2, 4};
  return items;
}

TEST(BatchBound, SharesOutAllDevices) {
  const BatchBound bound(two_items());
  // At no price the first takes 2 and the second 4; that is 8 of device time: within 2 ms on four
  // devices. Within 1.9 ms there is no such pipeline.
  EXPECT_NEAR(bound.sum_within(10), 6, 1e-6);
  EXPECT_NEAR(bound.sum_within(2), 6, 1e-6);
  EXPECT_EQ(bound.sum_within(1.9), kInfinity);
  EXPECT_NEAR(bound.batch(10, 0), 6 + 10 * 2, 1e-5);
  EXPECT_NEAR(bound.batch(10, 3), 6 + 10 * 3, 1e-5);
}

TEST(BatchBound, SharesOutAllBytes) {
  BatchItems items = two_items();
  items.bytes = 2;  // one copy of each: 4 + 4
  EXPECT_NEAR(BatchBound(items).sum_within(10), 8, 1e-5);
  items.bytes = 2.5;  // and half of a second copy
  EXPECT_NEAR(BatchBound(items).sum_within(10), 7, 1e-5);
  items.bytes = 1.9;
  EXPECT_EQ(BatchBound(items).sum_within(10), kInfinity);
  EXPECT_EQ(BatchBound(items).batch(10, 0), kInfinity);
}

// Four devices are 4 x 1, 2 x 1 + 2 or 2 x 2. Of the first both items take 4, at four stages at
// least 2 ms each: 8 + 10 * 2. Of the second the first item takes 2 on two devices, or part of it
// 4 on one: x of it on two devices gives the slowest max(2 x, (8 - 4 x) / 2), least at x = 1.
TEST(CompositionBound, CountsWholeStages) {
  CompositionSearch search;
  search.weight = 10;
  search.goal = 1000;
  EXPECT_NEAR(bound_by_compositions(two_items(), search), 6 + 10 * 2, 0.01);
  search.slowest = 3;
  EXPECT_NEAR(bound_by_compositions(two_items(), search), 6 + 10 * 3, 0.01);
  search.goal = 30;
  EXPECT_NEAR(bound_by_compositions(two_items(), search), 30, 0.01);
  search.max_compositions = 2;
  EXPECT_EQ(bound_by_compositions(two_items(), search), 0);
}

// Three devices: one item on two of them and one on one. Devices shared out freely say less.
TEST(CompositionBound, SaysMoreThanSharesOfDevices) {
  BatchItems items = two_items();
  items.class_devices = {3};
  items.devices = 3;
  items.options[3].time_ms = 2;  // both are fastest on two
  CompositionSearch search;
  search.weight = 10;
  search.goal = 1000;
  // Shared: 8 / 3 the slowest, 2 + 2 the sum. One stage on two and one on one, x in the first:
  // x = 16 / 3 of 8 there takes 8 / 3, and the sum is 2 * 8 / 3.
  EXPECT_NEAR(BatchBound(items).batch(10, 0), 4 + 80 / 3.0, 0.01);
  EXPECT_NEAR(bound_by_compositions(items, search), 16 / 3.0 + 80 / 3.0, 0.01);
}

TEST(CompositionBound, NeverExceedsTheBestPipeline) {
  int num_met = 0;
  int num_better = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(seed);
    PipelineModel model = random_pipeline(seed, {5, 5, true, true});
    model.num_microbatches = std::vector<int>{2, 4, 6, 12}[seed % 4];
    double best = kInfinity;
    double slowest = kInfinity;
    std::vector<std::pair<double, double>> sums;
    for_each_plan(model, [&](const PipelinePlan& plan) {
      const auto report = check::check_pipeline(model, plan);
      if (!report->is_right()) return;
      const double value = report->sum_ms + (*model.num_microbatches - 1) * report->slowest_ms;
      best = std::min(best, value);
      slowest = std::min(slowest, report->slowest_ms);
      sums.emplace_back(report->slowest_ms, report->sum_ms);
    });
    const GroupGraph groups = make_replicated_groups(model);
    const BatchItems items = share_items(model, groups, kMaxPipelineDevices);
    const BatchBound bound(items);
    const double weight = *model.num_microbatches - 1;
    const double batch = bound.batch(weight, 0);
    EXPECT_LE(batch, best * (1 + 1e-9));
    for (const auto& [limit, sum] : sums) {
      EXPECT_LE(bound.sum_within(limit), sum * (1 + 1e-9));
      const BatchPrices prices = bound.prices_within(limit);
      EXPECT_GE(prices.device_ms, 0);
      EXPECT_GE(prices.byte, 0);
    }
    if (best == kInfinity || best == 0) continue;
    EXPECT_LE(bound.batch(weight, slowest), best * (1 + 1e-9));
    CompositionSearch search;
    search.weight = weight;
    search.goal = 2 * best;
    const double whole = bound_by_compositions(items, search);
    EXPECT_LE(whole, best * (1 + 1e-9));
    search.slowest = slowest;
    EXPECT_LE(bound_by_compositions(items, search), best * (1 + 1e-9));
    num_better += whole > batch * 1.001 ? 1 : 0;
    num_met += whole > 0.995 * best ? 1 : 0;
  }
  EXPECT_GT(num_better, 100);
  EXPECT_GT(num_met, 50);
}

}  // namespace
}  // namespace plimsoll::partition
