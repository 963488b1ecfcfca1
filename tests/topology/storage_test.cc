#include "plimsoll/topology/storage.h"

#include <gtest/gtest.h>

namespace plimsoll::topology {
namespace {

TEST(Storage, OrdersByHbmThenDdrThenSsd) {
  EXPECT_LT((Storage{1, 9, 9}), (Storage{2, 0, 0}));
  EXPECT_LT((Storage{1, 1, 9}), (Storage{1, 2, 0}));
  EXPECT_LT((Storage{1, 1, 1}), (Storage{1, 1, 2}));
  EXPECT_EQ((Storage{1, 2, 3}), (Storage{1, 2, 3}));
}

TEST(Storage, AddsAndSubtractsTierByTier) {
  EXPECT_EQ((Storage{1, 2, 3} + Storage{10, 20, 30}), (Storage{11, 22, 33}));
  EXPECT_EQ((Storage{1, 2, 3} - Storage{10, 20, 30}), (Storage{-9, -18, -27}));
}

TEST(Storage, FitsOnlyWhereEveryTierFits) {
  const Storage room{10, 20, 30};
  EXPECT_TRUE(room.fits_in(room));
  EXPECT_TRUE((Storage{0, 0, 0}).fits_in(room));
  EXPECT_FALSE((Storage{11, 0, 0}).fits_in(room));
  EXPECT_FALSE((Storage{0, 21, 0}).fits_in(room));
  EXPECT_FALSE((Storage{0, 0, 31}).fits_in(room));
}

TEST(Storage, SumsThatLeave64BitsStopThereAndFitNowhere) {
  const Storage half{Bytes{1} << 62, 1, 1};
  const Storage whole = half + half;
  EXPECT_EQ(whole, (Storage{kSaturated, 2, 2}));
  EXPECT_EQ(half.times(3), (Storage{kSaturated, 3, 3}));
  EXPECT_EQ((Storage{} - whole - half).hbm, std::numeric_limits<Bytes>::min());
  EXPECT_FALSE(whole.fits_in({kSaturated, kSaturated, kSaturated}));
  EXPECT_TRUE(half.fits_in({kSaturated, kSaturated, kSaturated}));
}

}  // namespace
}  // namespace plimsoll::topology
