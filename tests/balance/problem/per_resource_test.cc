#include "plimsoll/balance/per_resource.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace plimsoll::balance {
namespace {

using Amounts = PerResource<std::int64_t>;

TEST(PerResource, IsZeroWhereNothingWasSet) {
  const Amounts none;
  EXPECT_EQ(none[0], 0);
  EXPECT_EQ(none[40], 0);
  EXPECT_EQ(none.num_set(), 0);
}

TEST(PerResource, HoldsAnyNumberOfValues) {
  Amounts amounts{1, 2, 3, 4, 5, 6};
  amounts[9] = 7;
  EXPECT_EQ(amounts[3], 4);
  EXPECT_EQ(amounts[4], 5);
  EXPECT_EQ(amounts[8], 0);
  EXPECT_EQ(amounts[9], 7);
  EXPECT_EQ(amounts.num_set(), 10);
  amounts[9] = 0;
  EXPECT_EQ(amounts.num_set(), 6);
}

TEST(PerResource, IsEqualWhateverWasTouched) {
  Amounts touched{1, 2};
  touched[7] = 0;
  EXPECT_EQ(touched, (Amounts{1, 2}));
  EXPECT_NE(touched, (Amounts{1, 2, 0, 0, 0, 1}));
  EXPECT_LT((Amounts{1, 2}), (Amounts{1, 2, 0, 0, 0, 1}));
  EXPECT_GT((Amounts{1, 3}), (Amounts{1, 2, 0, 0, 0, 1}));
}

TEST(PerResource, AddsAndRaisesValueByValue) {
  Amounts sum{1, 2};
  sum.add({10, 0, 0, 0, 0, 4}, 3);
  EXPECT_EQ(sum, (Amounts{31, 2, 0, 0, 0, 12}));
  sum.add({1}, -1);
  EXPECT_EQ(sum, (Amounts{30, 2, 0, 0, 0, 12}));
  Amounts largest{5, 1};
  largest.raise_to({3, 4, 0, 0, 0, 0, 2});
  EXPECT_EQ(largest, (Amounts{5, 4, 0, 0, 0, 0, 2}));
}

TEST(PerResource, ComparesValueByValue) {
  EXPECT_TRUE((Amounts{1, 2}).is_at_most({1, 2}));
  EXPECT_TRUE((Amounts{1, 2}).is_at_most({1, 3, 0, 0, 0, 9}));
  EXPECT_FALSE((Amounts{1, 2, 0, 0, 0, 9}).is_at_most({1, 3}));
  EXPECT_FALSE((Amounts{2, 0}).is_at_most({1, 3}));
}

}  // namespace
}  // namespace plimsoll::balance
