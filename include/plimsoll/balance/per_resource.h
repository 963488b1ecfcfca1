// A value for each resource of a placement problem, in the problem's order; zero for those that
// were never set. The first few stand in place, so that most problems allocate nothing.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#pragma GCC visibility push(default)
namespace plimsoll::balance {

template <class T>
class PerResource {
 public:
  PerResource() = default;
  PerResource(std::initializer_list<T> values) {
    std::size_t resource = 0;
    for (const T& value : values) (*this)[resource++] = value;
  }

  T& operator[](std::size_t resource) {
    if (resource < kNumInPlace) return in_place_[resource];
    if (resource - kNumInPlace >= others_.size()) others_.resize(resource - kNumInPlace + 1);
    return others_[resource - kNumInPlace];
  }
  T operator[](std::size_t resource) const {
    if (resource < kNumInPlace) return in_place_[resource];
    return resource - kNumInPlace < others_.size() ? others_[resource - kNumInPlace] : T{};
  }

  // One more than the last resource whose value is not zero.
  std::size_t num_set() const {
    std::size_t count = num_in_all();
    while (count > 0 && (*this)[count - 1] == T{}) --count;
    return count;
  }

  // Adds `times` as much of every resource.
  void add(const PerResource& other, std::int64_t times) {
    for (std::size_t r = 0; r < kNumInPlace; ++r) in_place_[r] += times * other.in_place_[r];
    for (std::size_t r = 0; r < other.others_.size(); ++r) {
      (*this)[kNumInPlace + r] += times * other.others_[r];
    }
  }

  // Raises every value to the other's, where that is larger.
  void raise_to(const PerResource& other) {
    for (std::size_t r = 0; r < other.num_in_all(); ++r) {
      if ((*this)[r] < other[r]) (*this)[r] = other[r];
    }
  }

  // Is every value at most the other's?
  bool is_at_most(const PerResource& other) const {
    for (std::size_t r = 0; r < std::max(num_in_all(), other.num_in_all()); ++r) {
      if ((*this)[r] > other[r]) return false;
    }
    return true;
  }

  // Value by value, in order.
  std::compare_three_way_result_t<T> operator<=>(const PerResource& other) const {
    for (std::size_t r = 0; r < std::max(num_in_all(), other.num_in_all()); ++r) {
      if (const auto order = (*this)[r] <=> other[r]; order != 0) return order;
    }
    return std::strong_ordering::equal;
  }
  bool operator==(const PerResource& other) const { return *this <=> other == 0; }

 private:
  std::size_t num_in_all() const { return kNumInPlace + others_.size(); }

  static constexpr std::size_t kNumInPlace = 4;
  std::array<T, kNumInPlace> in_place_{};
  std::vector<T> others_;
};

}  // namespace plimsoll::balance
#pragma GCC visibility pop
