#include "math/vector_knapsack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/random.h"

namespace plimsoll::math {
namespace {

struct Instance {
  std::vector<VectorItem> items;
  std::vector<double> room;
};

// A few kinds of items with small whole sizes, some of them equal or dominated.
Instance random_instance(std::uint64_t seed) {
  SplitMix64 random(seed);
  Instance instance;
  const int num_limits = 1 + random.below(3);
  for (int d = 0; d < num_limits; ++d) instance.room.push_back(random.below(12));
  const int num_items = 1 + random.below(5);
  for (int i = 0; i < num_items; ++i) {
    if (i > 0 && random.below(4) == 0) {
      instance.items.push_back(instance.items.front());
      instance.items.back().value += random.below(2);
      continue;
    }
    VectorItem item{random.unit() * 10 - 1, random.below(4), {}};
    for (int d = 0; d < num_limits; ++d) item.size.push_back(random.below(5));
    instance.items.push_back(std::move(item));
  }
  return instance;
}

double best_by_enumeration(const Instance& instance, std::size_t at, std::vector<double> left) {
  if (std::any_of(left.begin(), left.end(), [](double room) { return room < 0; })) return -1e30;
  if (at == instance.items.size()) return 0;
  const VectorItem& item = instance.items[at];
  double best = -1e30;
  for (std::int64_t n = 0; n <= item.copies; ++n) {
    best = std::max(
        best, static_cast<double>(n) * item.value + best_by_enumeration(instance, at + 1, left));
    for (std::size_t d = 0; d < left.size(); ++d) left[d] -= item.size[d];
  }
  return best;
}

// What a filling is worth; it keeps the rooms and the copies.
double worth_of(const Instance& instance, const std::vector<std::int64_t>& count) {
  double value = 0;
  std::vector<double> left = instance.room;
  for (std::size_t i = 0; i < count.size(); ++i) {
    EXPECT_GE(count[i], 0);
    EXPECT_LE(count[i], instance.items[i].copies);
    value += static_cast<double>(count[i]) * instance.items[i].value;
    for (std::size_t d = 0; d < left.size(); ++d) {
      left[d] -= static_cast<double>(count[i]) * instance.items[i].size[d];
    }
  }
  for (const double room : left) EXPECT_GE(room, -1e-6);
  return value;
}

TEST(VectorKnapsack, FindsTheBestFilling) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    const Instance instance = random_instance(seed);
    const double best = best_by_enumeration(instance, 0, instance.room);
    const VectorFilling filling = fill_vector_knapsack(instance.items, instance.room, 1 << 20);
    ASSERT_EQ(filling.count.size(), instance.items.size());
    EXPECT_NEAR(filling.value, best, 1e-9);
    EXPECT_NEAR(filling.bound, best, 1e-6);
    EXPECT_NEAR(worth_of(instance, filling.count), filling.value, 1e-9);
  }
}

TEST(VectorKnapsack, BoundsAllFillingsWhereItIsCut) {
  int num_cut = 0;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    const Instance instance = random_instance(seed);
    const double best = best_by_enumeration(instance, 0, instance.room);
    for (const std::int64_t max_nodes : {1, 3, 8}) {
      const VectorFilling filling = fill_vector_knapsack(instance.items, instance.room, max_nodes);
      EXPECT_LE(filling.value, best + 1e-9);
      EXPECT_GE(filling.bound, best - 1e-9);
      EXPECT_NEAR(worth_of(instance, filling.count), filling.value, 1e-9);
      num_cut += filling.bound > filling.value * (1 + 1e-6);
    }
  }
  EXPECT_GT(num_cut, 100);
}

// Twenty-five pieces of 5 fit 129, and no twenty-sixth, whatever else there is.
TEST(VectorKnapsack, SeesWhatWholePiecesLeave) {
  std::vector<VectorItem> items;
  for (int i = 0; i < 5; ++i) items.push_back({10.0 + i, 150, {.2 + .01 * i, 5}});
  const VectorFilling filling = fill_vector_knapsack(items, {100, 129}, 20000);
  EXPECT_NEAR(filling.value, 25 * 14, 1e-6);
  EXPECT_NEAR(filling.bound, 25 * 14, 1e-6);
  EXPECT_LT(filling.num_nodes, 200);
}

TEST(VectorKnapsack, TakesWhatHasNoSize) {
  const VectorFilling filling = fill_vector_knapsack({{2, 7, {0, 0}}, {1, 3, {1, 9}}}, {0, 0}, 100);
  EXPECT_EQ(filling.value, 14);
  EXPECT_EQ(filling.count, (std::vector<std::int64_t>{7, 0}));
}

TEST(VectorKnapsack, HasNothingToFill) {
  const VectorFilling filling = fill_vector_knapsack({}, {3}, 100);
  EXPECT_EQ(filling.value, 0);
  EXPECT_EQ(filling.bound, 0);
}

}  // namespace
}  // namespace plimsoll::math
