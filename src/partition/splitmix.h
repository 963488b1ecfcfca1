// Steele, Lea and Flood's generator: the same numbers on every machine.
#pragma once

#include <cstdint>

namespace plimsoll::partition {

class SplitMix {
 public:
  explicit SplitMix(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t x = state_ += 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
  }
  // In [0, bound). Precondition: bound > 0.
  int below(int bound) {
    return static_cast<int>((next() >> 32) * static_cast<std::uint64_t>(bound) >> 32);
  }
  // In [0, 1).
  double fraction() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

}  // namespace plimsoll::partition
