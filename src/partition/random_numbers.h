// Random numbers of our own: the same on every machine.
#pragma once

#include <cstdint>

namespace plimsoll::partition {

// splitmix64. [1] G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number
// generators", OOPSLA 2014.
class RandomNumbers {
 public:
  explicit RandomNumbers(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t x = state_ += 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
  }
  // In [0, size), up to a bias of size / 2^32. Precondition: 0 < size < 2^31.
  int below(int size) {
    return static_cast<int>(((next() >> 32) * static_cast<std::uint64_t>(size)) >> 32);
  }
  // In [0, 1).
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

}  // namespace plimsoll::partition
