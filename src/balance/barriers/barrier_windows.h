// A lower bound of all barriers at once: best first over windows of the slowest load at each.
//
// Problem. Let c_g be the largest load of pieces and blocks that a rank carries at barrier g, and A
// the loads of uniform choices, added up over the barriers. The objective is at least
// sum over g of c_g, plus A; A is at least a(c) (barrier_program.h), which never rises with c.
// Method. In a box of windows [low, high] it is at least sum of low + a(high). Boxes stand in a
// heap by that value; the least one is split at one barrier: the upper part keeps the proof, the
// lower one asks for a new one. The split is where the upper part reaches the goal, if it can,
// else in the middle of the widest window. A resource whose cap counts on every rank ("limit") is
// one more dimension: what uniform choices leave of the cap, on every rank. Contents take no more
// than the window's upper end, uniform choices no more than the cap less the lower end. It is split
// where the program's uniform choices leave off, and both parts ask for new proofs.
// Ends when the least box reaches the goal or is narrower than the tolerance, or the effort is
// spent; the least value is the bound at any time.
// Source: docs/mathematics/balanced-sharding.md#contents-at-several-barriers.
#pragma once

#include <cstdint>
#include <functional>

#include "balance/barriers/barrier_program.h"
#include "plimsoll/balance/placement_bound.h"

namespace plimsoll::balance {

struct BarrierWindowOptions {
  double goal = 0;          // ms > 0; values from here on are as good
  double tolerance = 1e-4;  // > 0, relative to goal and caps: boxes of less are not split
  std::vector<int> limits;  // resources whose caps contents keep on every rank
  std::int64_t max_boxes = 1000;
  std::int64_t max_pricings = 20000;
  std::int64_t max_effort = 1 << 30;  // of the clock's
  // Called with the rooms of a box and what was solved for it, where placements in it may be better
  // than the goal; the goal from then on.
  std::function<double(const std::vector<double>& room, const BarrierAnswer&)> visit;
};

struct BarrierWindowResult {
  double value = 0;  // ms, at most the goal
  BoxWitness witness;
  std::int64_t num_boxes = 0;
  std::int64_t num_pricings = 0;
};

BarrierWindowResult search_barrier_windows(const BarrierModel& model, int num_units,
                                           const BarrierWindowOptions& options, EffortClock& clock);

}  // namespace plimsoll::balance
