#include "math/bounded_knapsack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "math/random_functions.h"

namespace plimsoll::math {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Values at every room, from all fillings one by one.
class BruteForce {
 public:
  BruteForce(const std::vector<KnapsackItem>& items, int room, double pour)
      : items_(items), best_(static_cast<std::size_t>(room) + 1, 0.0) {
    fill(0, 0, 0);
    for (std::size_t x = 1; x < best_.size(); ++x) {
      best_[x] = std::max(best_[x], best_[x - 1] + pour);
    }
  }
  const std::vector<double>& values() const { return best_; }

 private:
  void fill(std::size_t number, std::size_t size, double value) {
    if (number == items_.size()) {
      best_[size] = std::max(best_[size], value);
      return;
    }
    const KnapsackItem& item = items_[number];
    for (std::int64_t count = 0; count <= item.copies; ++count) {
      if (size >= best_.size()) break;
      fill(number + 1, size, value);
      size += static_cast<std::size_t>(item.size);
      value += item.value;
    }
  }

  const std::vector<KnapsackItem>& items_;
  std::vector<double> best_;
};

// The table has these values, and at every room a filling that reaches them.
void expect_table(KnapsackTable& table, const std::vector<KnapsackItem>& items, double pour,
                  const std::vector<double>& values) {
  EXPECT_EQ(table.values(), values);
  for (int room = 0; room < static_cast<int>(values.size()); ++room) {
    SCOPED_TRACE(room);
    EXPECT_EQ(table.value(room), values[room]);
    const int poured = table.poured(room);
    EXPECT_GE(poured, 0);
    std::int64_t size = poured;
    double value = pour * poured;
    int last = -1;
    for (const KnapsackCount& count : table.filling(room)) {
      ASSERT_GT(count.item, last);
      ASSERT_LT(count.item, static_cast<int>(items.size()));
      last = count.item;
      EXPECT_GT(count.count, 0);
      EXPECT_LE(count.count, items[count.item].copies);
      size += count.count * items[count.item].size;
      value += static_cast<double>(count.count) * items[count.item].value;
    }
    EXPECT_LE(size, room);
    EXPECT_EQ(value, values[room]);
  }
}

// Values are whole, so that sums are exact in any order.
std::vector<KnapsackItem> random_items(Random& random, int count, int least, int most,
                                       std::int64_t most_copies) {
  std::vector<KnapsackItem> items;
  for (int i = 0; i < count; ++i) {
    const auto size = static_cast<int>(random.whole(least, most));
    items.push_back({size, static_cast<double>(random.whole(-2, 4) + random.whole(0, 2) * size),
                     random.whole(0, most_copies)});
  }
  return items;
}

TEST(KnapsackTable, HasTheValueOfTheBestFillingAtEveryRoom) {
  KnapsackTable used;  // filled again and again: other rooms, items and pours
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const auto count = static_cast<int>(random.whole(0, 5));
    const auto room = static_cast<int>(random.whole(0, 24));
    const double pour = std::max(0.0, static_cast<double>(random.whole(-2, 3)));
    const std::vector<KnapsackItem> items = random_items(random, count, 0, 7, 6);
    const BruteForce expected(items, room, pour);
    KnapsackTable table(items, room, pour);
    expect_table(table, items, pour, expected.values());
    used.fill(items, room, pour);
    expect_table(used, items, pour, expected.values());
  }
}

// Items of 32 cells and more are taken by stretches.
TEST(KnapsackTable, FillsLargeRooms) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const auto room = static_cast<int>(random.whole(200, 400));
    const std::vector<KnapsackItem> items = random_items(random, 5, 20, 150, 5);
    KnapsackTable table(items, room);
    expect_table(table, items, 0, BruteForce(items, room, 0).values());
  }
}

// So many passes that fillings go from snapshot to snapshot: one an item, none of which makes
// others needless.
TEST(KnapsackTable, FindsFillingsOfManyItems) {
  KnapsackTable used;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::vector<KnapsackItem> items = random_items(random, 90, 9, 15, 1);
    items.push_back({0, 3, 2});
    KnapsackTable table(items, 31);
    const std::vector<double> expected = BruteForce(items, 31, 0).values();
    expect_table(table, items, 0, expected);
    used.fill(items, 31);
    expect_table(used, items, 0, expected);
    used.fill({}, 3);
    EXPECT_THAT(used.values(), ElementsAre(0, 0, 0, 0));
    EXPECT_THAT(used.filling(3), IsEmpty());
  }
}

TEST(KnapsackTable, KeepsToTheCopies) {
  // Five of 3 and 2: 3 3 2, then 3 3 2 2.
  const std::vector<KnapsackItem> items = {{3, 4, 2}, {2, 2, 3}};
  KnapsackTable table(items, 12);
  EXPECT_THAT(table.values(), ElementsAre(0, 0, 2, 4, 4, 6, 8, 8, 10, 10, 12, 12, 14));
  EXPECT_THAT(table.filling(8), ElementsAre(KnapsackCount{0, 2}, KnapsackCount{1, 1}));
  EXPECT_THAT(table.filling(12), ElementsAre(KnapsackCount{0, 2}, KnapsackCount{1, 3}));
  EXPECT_THAT(table.filling(1), IsEmpty());
}

TEST(KnapsackTable, CountsManyCopiesWithoutOverflow) {
  const std::vector<KnapsackItem> items = {{1, 1, std::int64_t{1} << 60}, {7, 8, 3}};
  KnapsackTable table(items, 30);
  EXPECT_EQ(table.value(30), 3 * 8 + 9);
  EXPECT_THAT(table.filling(30), ElementsAre(KnapsackCount{0, 9}, KnapsackCount{1, 3}));
}

TEST(KnapsackTable, TakesAllItemsWithoutSize) {
  const std::vector<KnapsackItem> items = {{0, 2, 5}, {1, 1, 1}, {0, -1, 4}, {0, 0, 4}};
  KnapsackTable table(items, 2);
  EXPECT_THAT(table.values(), ElementsAre(10, 11, 11));
  EXPECT_THAT(table.filling(0), ElementsAre(KnapsackCount{0, 5}));
  EXPECT_THAT(table.filling(2), ElementsAre(KnapsackCount{0, 5}, KnapsackCount{1, 1}));
}

TEST(KnapsackTable, LeavesLaterOnesOfEqualItemsOut) {
  const std::vector<KnapsackItem> items = {{2, 3, 1}, {2, 3, 1}, {2, 3, 1}};
  KnapsackTable table(items, 5);
  EXPECT_THAT(table.filling(2), ElementsAre(KnapsackCount{0, 1}));
  EXPECT_THAT(table.filling(5), ElementsAre(KnapsackCount{0, 1}, KnapsackCount{1, 1}));
  const std::vector<KnapsackItem> endless = {{2, 3, 9}, {2, 3, 9}};
  table.fill(endless, 5);
  EXPECT_THAT(table.filling(5), ElementsAre(KnapsackCount{0, 2}));
}

TEST(KnapsackTable, PoursWhatItemsLeaveOrDoNotBeat) {
  const std::vector<KnapsackItem> items = {{4, 10, 1}, {3, 5, 1}};
  KnapsackTable table(items, 8, 2);
  // 3 cells poured are worth more than the item of 3.
  EXPECT_THAT(table.values(), ElementsAre(0, 2, 4, 6, 10, 12, 14, 16, 18));
  EXPECT_EQ(table.poured(3), 3);
  EXPECT_THAT(table.filling(3), IsEmpty());
  EXPECT_EQ(table.poured(4), 0);
  EXPECT_EQ(table.poured(8), 4);
  EXPECT_THAT(table.filling(8), ElementsAre(KnapsackCount{0, 1}));
  table.fill(items, 8);
  EXPECT_EQ(table.poured(8), 0);
  EXPECT_EQ(table.value(8), 15);
}

}  // namespace
}  // namespace plimsoll::math
