// A set of small whole numbers that is emptied in O(1).
#pragma once

#include <cstdint>
#include <vector>

namespace plimsoll {

class Marks {
 public:
  explicit Marks(int size) : stamps_(static_cast<std::size_t>(size)) {}

  void clear() { ++stamp_; }
  template <class Range>
  void assign(const Range& members) {
    clear();
    for (const int member : members) stamps_[member] = stamp_;
  }
  // False if it was there already.
  bool insert(int member) {
    if (stamps_[member] == stamp_) return false;
    stamps_[member] = stamp_;
    return true;
  }
  bool contains(int member) const { return stamps_[member] == stamp_; }

 private:
  std::vector<std::uint64_t> stamps_;
  std::uint64_t stamp_ = 1;
};

}  // namespace plimsoll
