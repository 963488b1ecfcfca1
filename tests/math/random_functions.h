// Small functions to compare with trying every integer.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "plimsoll/math/infimal_convolution.h"
#include "plimsoll/math/piecewise_linear.h"

namespace plimsoll::math {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::int64_t whole(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(high - low + 1));
  }

 private:
  std::mt19937_64 engine_;
};

// Non-increasing, with jumps down, flat at the end; values are multiples of 1/8.
inline PiecewiseLinear random_function(Random& random, int most_pieces = 8) {
  PiecewiseLinear f;
  const auto pieces = random.whole(1, most_pieces);
  Bytes x = random.whole(-20, 20);
  double y = .125 * static_cast<double>(random.whole(200, 800));
  for (std::int64_t k = 0; k + 1 < pieces; ++k) {
    const double slope = -.125 * static_cast<double>(random.whole(0, 12));
    f.push_back({x, y, slope});
    const Bytes length = random.whole(1, 15);
    x += length;
    y += slope * static_cast<double>(length);
    if (random.whole(0, 2) == 0) y -= .125 * static_cast<double>(random.whole(1, 60));
  }
  f.push_back({x, y, 0});
  return f;
}

inline ConvexCost random_cost(Random& random) {
  ConvexCost cost;
  cost.fixed = .125 * static_cast<double>(random.whole(0, 20));
  double slope = .125 * static_cast<double>(random.whole(0, 4));
  for (std::int64_t k = random.whole(1, 4); k > 0; --k) {
    cost.pieces.push_back({random.whole(1, 12), slope});
    slope += .125 * static_cast<double>(random.whole(1, 8));
  }
  return cost;
}

}  // namespace plimsoll::math
