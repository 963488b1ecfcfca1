// Miss rate of a least-recently-used cache from a histogram of reuse distances.
//
// Problem. How many lookups miss a cache that holds a given share of a table's rows?
// Method. Bin i of the histogram counts the lookups that a cache of at least the i-th size serves;
// the miss rate is one minus the cumulated share up to the cache's size.
// Cost. O(bins) per call.
// Promises. The reference computes in single precision and so do we, operation for operation. Its
// bin borders are those of torch.linspace on processors with fused multiply-add: the lower half
// counts up from zero, the upper half down from the height.
// Source: docs/mathematics/torchrec-planner.md#hit-rate-of-a-cache.
#include <cmath>
#include <cstddef>

#include "plimsoll/embedding/model.h"

namespace plimsoll::embedding {
namespace {

// The number of borders among num_bins + 1 equally spaced ones over 0..height that are <= size.
std::size_t count_borders(std::size_t num_bins, float height, float size) {
  const float step = height / static_cast<float>(num_bins);
  const std::size_t num_borders = num_bins + 1;
  std::size_t count = 0;
  for (std::size_t i = 0; i < num_borders; ++i) {
    const float border = i < num_borders / 2
                             ? step * static_cast<float>(i)
                             : std::fma(-step, static_cast<float>(num_bins - i), height);
    if (!(border <= size)) break;
    ++count;
  }
  return count;
}

}  // namespace

double CacheStats::expected_miss_rate(double load_factor) const {
  if (constant_miss_rate) return *constant_miss_rate;
  double total = 0;
  for (const double hits : histogram) total += hits;
  if (total == 0) return 0;  // no lookups seen: nothing misses

  // A cache of k rows serves reuse distances up to k - 1.
  const float size = static_cast<float>(load_factor * height) - 1.0F;
  const std::size_t borders = count_borders(histogram.size(), static_cast<float>(height), size);
  if (borders == 0) return 1;
  if (borders > histogram.size()) return 0;
  double hits = 0;
  for (std::size_t i = 0; i < borders; ++i) hits += histogram[i];
  return 1.0F - static_cast<float>(hits) / static_cast<float>(total);
}

}  // namespace plimsoll::embedding
