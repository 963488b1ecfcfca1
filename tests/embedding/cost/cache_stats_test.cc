#include <gtest/gtest.h>

#include <vector>

#include "plimsoll/embedding/model.h"

namespace plimsoll::embedding {
namespace {

CacheStats stats_of(std::vector<double> histogram, double height) {
  CacheStats stats;
  stats.histogram = std::move(histogram);
  stats.height = height;
  return stats;
}

// The load factor at which the cache holds `size` rows.
double rate_at_size(const CacheStats& stats, double size) {
  return stats.expected_miss_rate(size / stats.height);
}

TEST(CacheStats, ReadsTheMissRateOffTheHistogram) {
  const CacheStats stats = stats_of({99, 98, 97}, 92);
  EXPECT_EQ(stats.expected_miss_rate(0), 1.0);
  EXPECT_EQ(stats.expected_miss_rate(1), 0.0);
  EXPECT_NEAR(stats.expected_miss_rate(.5), 1 - (99.0 + 98.0) / 294, 1e-7);
  const std::vector<double> load_factors = {.01, .1, .34, .5, .67, .7};
  const std::vector<double> rates = {
      1.0, .6632653474807739, .6632653474807739, .32993197441101074, .32993197441101074, 0.0};
  for (std::size_t i = 0; i < rates.size(); ++i) {
    EXPECT_EQ(stats.expected_miss_rate(load_factors[i]), rates[i]) << load_factors[i];
  }
}

TEST(CacheStats, CountsReuseDistancesBelowTheSize) {
  const CacheStats stats = stats_of({0, 6, 0, 8}, 4);
  const std::vector<double> rates = {1, 1, 4.0 / 7, 4.0 / 7, 0};
  for (std::size_t size = 0; size < rates.size(); ++size) {
    EXPECT_NEAR(rate_at_size(stats, static_cast<double>(size)), rates[size], 1e-7) << size;
  }
}

TEST(CacheStats, FallsEvenlyForAnEvenHistogram) {
  const CacheStats stats = stats_of(std::vector<double>(10, 1), 100);
  const std::vector<std::pair<double, double>> rates = {{0, 1},   {9, .9}, {10, .9}, {11, .8},
                                                        {89, .1}, {99, 0}, {100, 0}};
  for (const auto& [size, rate] : rates) EXPECT_NEAR(rate_at_size(stats, size), rate, 1e-6) << size;
}

TEST(CacheStats, MissesNothingWithoutLookups) {
  EXPECT_EQ(stats_of({0, 0, 0}, 10).expected_miss_rate(.1), 0);
  EXPECT_EQ(CacheStats{}.expected_miss_rate(.1), 0);
}

TEST(CacheStats, PrefersAConstant) {
  CacheStats stats = stats_of({1, 2}, 10);
  stats.constant_miss_rate = .25;
  EXPECT_EQ(stats.expected_miss_rate(0), .25);
}

}  // namespace
}  // namespace plimsoll::embedding
