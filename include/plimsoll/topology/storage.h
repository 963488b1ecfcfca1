// Bytes by memory tier. Ordered lexicographically (hbm, ddr, ssd), as the reference orders them;
// "fits" asks every tier. Sums stop at the ends of 64 bits (checked.h); one that did fits nowhere.
#pragma once

#include <algorithm>
#include <compare>
#include <string>

#include "plimsoll/core/checked.h"
#include "plimsoll/core/units.h"

#pragma GCC visibility push(default)
namespace plimsoll::topology {

struct Storage {
  Bytes hbm = 0;
  Bytes ddr = 0;
  Bytes ssd = 0;

  auto operator<=>(const Storage&) const = default;
  Storage& operator+=(const Storage& other) {
    hbm = saturated_add(hbm, other.hbm);
    ddr = saturated_add(ddr, other.ddr);
    ssd = saturated_add(ssd, other.ssd);
    return *this;
  }
  Storage& operator-=(const Storage& other) {
    hbm = saturated_subtract(hbm, other.hbm);
    ddr = saturated_subtract(ddr, other.ddr);
    ssd = saturated_subtract(ssd, other.ssd);
    return *this;
  }
  // `count` times as much.
  Storage times(std::int64_t count) const {
    return {saturated_multiply(hbm, count), saturated_multiply(ddr, count),
            saturated_multiply(ssd, count)};
  }
  friend Storage operator+(Storage a, const Storage& b) { return a += b; }
  friend Storage operator-(Storage a, const Storage& b) { return a -= b; }
  bool fits_in(const Storage& room) const {
    return hbm <= room.hbm && ddr <= room.ddr && ssd <= room.ssd &&
           std::max({hbm, ddr, ssd}) < kSaturated;
  }
};

}  // namespace plimsoll::topology
#pragma GCC visibility pop
