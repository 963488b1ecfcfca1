// A small generator of random numbers for tests: the same on every platform.
#pragma once

#include <cstdint>

namespace plimsoll::checkpoint {

class Random {
 public:
  explicit Random(int seed) : state_(static_cast<std::uint64_t>(seed) * 7919 + 3) {}
  int below(int limit) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int>((state_ >> 33) % static_cast<std::uint64_t>(limit));
  }
  bool one_in(int n) { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

}  // namespace plimsoll::checkpoint
