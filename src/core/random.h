// Whole random numbers for searches: SplitMix64 [1]. The same seed gives the same numbers on every
// machine and compiler; no distribution of the standard library is involved.
// [1] G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number generators",
//     OOPSLA 2014, https://doi.org/10.1145/2660193.2660195.
#pragma once

#include <cstdint>

namespace plimsoll {

class SplitMix64 {
 public:
  explicit SplitMix64(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t value = state_;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
    return value ^ (value >> 31);
  }

  // In [0, end), up to a bias of end / 2^32. Precondition: 0 < end.
  int below(int end) {
    return static_cast<int>(((next() >> 32) * static_cast<std::uint64_t>(end)) >> 32);
  }

  // In [0, 1), 53 bits.
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

}  // namespace plimsoll
