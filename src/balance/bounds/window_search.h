// From bounds of the uniform load to a bound of the slowest rank: best first over windows.
//
// Problem. A(c) is at least a(c) where no rank carries more than c of pieces and blocks; a never
// rises with c. The slowest rank takes at least min over c of c + A(c).
// Method. In a window [c1, c2] of the slowest load it takes at least c1 + a(c2). Windows stand in
// a heap by that value; the least one is split: the upper part keeps the proof of c2, the lower one
// asks for a new one. With a goal the split is where the upper part reaches it, if it can, else the
// middle. A window under `branch_width` may instead be branched where the proof says so: on the
// number of uniform units of a class (B7), or on what the blocks of a host load its ranks with,
// hosts in the order of falling block load.
// It ends when the least window reaches the goal, is narrower than the tolerance with nothing to
// branch on, or the effort is spent; the least value is the bound at any time.
// Sources: docs/mathematics/balanced-sharding.md#windows-of-the-slowest-load,
// docs/mathematics/balanced-sharding.md#branching.
#pragma once

#include <cstdint>
#include <functional>

#include "balance/patterns/pattern_master.h"
#include "plimsoll/balance/placement_bound.h"
#include "plimsoll/core/run_context.h"

namespace plimsoll::balance {

// What to branch on, if anything: the number of uniform units of a class, or the blocks of a host.
struct RoomBranch {
  int class_index = -1;  // the number of its uniform units is a fraction, `at`
  int host = -1;         // its blocks are a mixture of contents, of the mean load `at`
  double at = 0;
};

struct RoomAnswer {
  RoomProof proof;
  RoomBranch branch;
};

// The proof for a room; `goal`: a uniform load above it is enough.
using RoomOracle = std::function<RoomAnswer(double room, const RoomLimits& limits, double goal)>;

struct WindowOptions {
  double top = 0;                  // > 0; placements with a slower load are not looked at
  double goal = kInfinity;         // values from here on are as good
  double tolerance = 1e-6;         // > 0, relative width of windows that are not split
  double branch_width = 0;         // >= 0, relative; 0: never branched
  double host_width = 0;           // >= 0, as above, on blocks of hosts
  int num_hosts = 0;               // that may be branched on
  std::int64_t max_nodes = 1000;   // >= 1, asked proofs
  std::function<bool()> is_spent;  // may be empty; asked between nodes
};

struct WindowResult {
  double value = 0;       // placements whose slowest load is at most top take at least that
  double room = 0;        // c2 of the least window
  WindowWitness witness;  // its target, classes and cells are left to the caller
  std::int64_t num_nodes = 0;
  bool has_branched = false;
};

WindowResult search_windows(const RoomOracle& oracle, int num_classes,
                            const WindowOptions& options);

}  // namespace plimsoll::balance
