#include "plimsoll/study/what_if.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <random>
#include <utility>

namespace plimsoll::study {
namespace {

std::vector<WhatIfPoint> points(int count) {
  std::vector<WhatIfPoint> all;
  for (int i = 0; i < count; ++i)
    all.push_back({"m" + std::to_string(i % 7), 8 * (i % 5 + 1), 100 + i});
  return all;
}

// A plan that is a function of its point.
Result<WhatIfRow> plan(const WhatIfPoint& point) {
  WhatIfRow row;
  row.status = point.batch_size % 4 == 0 ? SolveStatus::kInfeasible : SolveStatus::kFeasible;
  if (row.status == SolveStatus::kFeasible) {
    row.ms = 1 + static_cast<double>(point.batch_size % 13);
    row.lower_bound = 1;
  }
  return row;
}

// The same for every run.
std::function<PlanPoint()> always(PlanPoint plan) {
  return [plan = std::move(plan)] { return plan; };
}

std::optional<double> no_price(const WhatIfPoint&) { return {}; }

TEST(WhatIf, IsEqualForAnyNumberOfThreadsAndInTheOrderOfThePoints) {
  const auto all = points(200);
  const auto one = sweep(all, no_price, always(plan), {}, 1, {});
  ASSERT_TRUE(one.has_value());
  ASSERT_EQ(one->rows.size(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(one->rows[i].point, all[i]);
  for (const int threads : {2, 3, 8}) {
    const auto many = sweep(all, no_price, always(plan), {}, threads, {});
    ASSERT_TRUE(many.has_value());
    EXPECT_EQ(*many, *one) << threads;
  }
}

TEST(WhatIf, GoesOnWhereItWasCut) {
  const auto all = points(60);
  std::atomic<bool> cancel{false};
  RunContext context;
  context.cancel = &cancel;
  int count = 0;
  const auto stops = [&](const WhatIfPoint& point) {
    cancel = ++count == 20;
    return plan(point);
  };
  const auto cut = sweep(all, no_price, always(stops), {}, 1, context);
  ASSERT_TRUE(cut.has_value());
  EXPECT_EQ(cut->stop, StopReason::kCancelled);
  EXPECT_EQ(cut->rows.size(), 19U);  // what was planned while the cancel came is not kept
  count = 0;
  const auto counts = [&](const WhatIfPoint& point) {
    ++count;
    return plan(point);
  };
  const auto whole = sweep(all, no_price, always(counts), cut->rows, 1, {});
  ASSERT_TRUE(whole.has_value());
  EXPECT_EQ(count, 41);
  EXPECT_EQ(*whole, *sweep(all, no_price, always(plan), {}, 1, {}));
}

TEST(WhatIf, PlansTheBatchesOfAMachineInTurn) {
  std::vector<WhatIfPoint> all;
  for (const int ranks : {8, 16}) {
    for (int batch = 1; batch <= 12; ++batch) all.push_back({"m", ranks, batch});
  }
  all.push_back({"n", 16, 1});
  std::vector<std::size_t> sizes;
  for (const auto& run : runs_of(all)) sizes.push_back(run.size());
  EXPECT_EQ(sizes, (std::vector<std::size_t>{8, 4, 8, 4, 1}));

  // A row tells the points of its run until then.
  const auto begin_run = []() -> PlanPoint {
    return [first = std::int64_t{0}](const WhatIfPoint& point) mutable -> Result<WhatIfRow> {
      if (first == 0) first = point.batch_size;
      WhatIfRow row;
      row.status = SolveStatus::kFeasible;
      row.ms = static_cast<double>(first);
      return row;
    };
  };
  const auto whole = sweep(all, no_price, begin_run, {}, 1, {});
  ASSERT_TRUE(whole.has_value());
  for (const WhatIfRow& row : whole->rows) EXPECT_EQ(*row.ms, row.point.batch_size <= 8 ? 1 : 9);
  EXPECT_EQ(*sweep(all, no_price, begin_run, {}, 3, {}), *whole);
  // A run of which some rows are known is planned from its beginning.
  for (std::size_t known = 1; known < all.size(); known += 3) {
    const std::span<const WhatIfRow> rows(whole->rows.data(), known);
    EXPECT_EQ(*sweep(all, no_price, begin_run, rows, 2, {}), *whole) << known;
  }
}

TEST(WhatIf, TellsRatesAndPrices) {
  const auto price = [](const WhatIfPoint&) { return std::optional<double>(36); };  // an hour
  const auto made = sweep(std::vector<WhatIfPoint>{{"m", 8, 1000}}, price,
                          always([](const WhatIfPoint&) -> Result<WhatIfRow> {
                            WhatIfRow row;
                            row.status = SolveStatus::kFeasible;
                            row.ms = 4;
                            return row;
                          }),
                          {}, 1, {});
  ASSERT_TRUE(made.has_value());
  const WhatIfRow& row = made->rows.front();
  EXPECT_DOUBLE_EQ(*row.samples_per_s, 2e6);  // 8000 in 4 ms
  EXPECT_DOUBLE_EQ(*row.price_per_million, 0.005);
  EXPECT_TRUE(row.is_pareto);
}

TEST(WhatIf, MarksTheFrontAsDefined) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<WhatIfRow> rows(1 + random() % 12);
    const bool has_prices = random() % 2 == 0;
    for (WhatIfRow& row : rows) {
      row.point.ranks = 1 + static_cast<int>(random() % 4);
      if (random() % 5 > 0) row.samples_per_s = 1 + random() % 4;
      if (has_prices && random() % 4 > 0) row.price = 1 + random() % 3;
    }
    mark_pareto(rows);
    const bool is_priced = std::any_of(rows.begin(), rows.end(),
                                       [](const WhatIfRow& row) { return row.price.has_value(); });
    const auto cost = [&](const WhatIfRow& row) {
      return is_priced ? row.price.value_or(1e9) : static_cast<double>(row.point.ranks);
    };
    for (const WhatIfRow& row : rows) {
      bool is_front = row.samples_per_s && cost(row) < 1e9;
      for (const WhatIfRow& other : rows) {
        if (!other.samples_per_s || !is_front || !(cost(other) < 1e9)) continue;
        const bool is_better =
            cost(other) <= cost(row) && *other.samples_per_s >= *row.samples_per_s &&
            (cost(other) < cost(row) || *other.samples_per_s > *row.samples_per_s);
        if (is_better) is_front = false;
      }
      EXPECT_EQ(row.is_pareto, is_front);
    }
  }
}

TEST(WhatIf, PassesTheErrorOfTheFirstPointOn) {
  const auto all = points(20);
  const auto fails = [](const WhatIfPoint& point) -> Result<WhatIfRow> {
    if (point.batch_size < 105) return plan(point);
    return fail(ErrorCode::kValue, std::to_string(point.batch_size), "why", "");
  };
  const auto made = sweep(all, no_price, always(fails), {}, 3, {});
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().place, "105");
}

}  // namespace
}  // namespace plimsoll::study
