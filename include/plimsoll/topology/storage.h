// Bytes by memory tier. Ordered lexicographically (hbm, ddr, ssd), as the reference orders them;
// "fits" asks every tier.
#pragma once

#include <compare>
#include <string>

#include "plimsoll/core/units.h"

namespace plimsoll::topology {

struct Storage {
  Bytes hbm = 0;
  Bytes ddr = 0;
  Bytes ssd = 0;

  auto operator<=>(const Storage&) const = default;
  Storage& operator+=(const Storage& other) {
    hbm += other.hbm;
    ddr += other.ddr;
    ssd += other.ssd;
    return *this;
  }
  Storage& operator-=(const Storage& other) {
    hbm -= other.hbm;
    ddr -= other.ddr;
    ssd -= other.ssd;
    return *this;
  }
  friend Storage operator+(Storage a, const Storage& b) { return a += b; }
  friend Storage operator-(Storage a, const Storage& b) { return a -= b; }
  bool fits_in(const Storage& room) const {
    return hbm <= room.hbm && ddr <= room.ddr && ssd <= room.ssd;
  }
};

}  // namespace plimsoll::topology
