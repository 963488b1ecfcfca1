// A placement problem of one or more barriers as contents of ranks see it: pieces and blocks of
// classes of units, with a load at every barrier.
//
// Units with equal choices are a class, and may change places. Only of problems with equal ranks
// and whole hosts, nothing to be kept apart and units that may stand on all ranks. A run of unequal
// uniform or block loads counts with its least load of each barrier, so that what is proved of the
// model holds of the problem.
// Source: docs/mathematics/balanced-sharding.md#contents-at-several-barriers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plimsoll/balance/placement_problem.h"

namespace plimsoll::balance {

// A piece, or a block, of one choice of a class.
struct BarrierItem {
  int class_index = 0;
  int choice = 0;  // into the choices of the class's units
  bool is_block = false;
  std::int64_t parts = 1;    // that a unit of the choice has
  std::int64_t copies = 0;   // of all units of the class together
  std::vector<double> load;  // [barriers] on its rank, of a block on each rank of its host
  Amounts bytes{};           // on its rank, of a block the least of a rank
  Amounts all_bytes{};       // of a block on all ranks of its host
};

// A uniform choice of a class, or blocks on the only host there is.
struct BarrierStep {
  int class_index = 0;
  int choice = 0;
  std::vector<double> load;  // [barriers] on every rank at least
  double cost = 0;           // their sum
  std::int64_t blocks = 0;   // on the only host; 0: uniform
  Amounts bytes{};           // the largest of a rank
  Amounts least_bytes{};     // the least of a rank
  Amounts all_bytes{};       // on all ranks together
};

struct BarrierClass {
  std::vector<int> units;
  double count() const { return static_cast<double>(units.size()); }
};

struct BarrierModel {
  int num_barriers = 1;
  int num_ranks = 1;
  int width = 1;  // ranks of a host
  std::vector<BarrierClass> classes;
  std::vector<BarrierItem> items;
  std::vector<BarrierStep> steps;
  std::vector<int> rows;   // resources whose caps some placement may exceed
  std::vector<int> times;  // those of them that are times
  bool has_blocks = false;
  Amounts cap{};  // of every rank
  int num_hosts() const { return num_ranks / width; }
};

// Of more barriers or classes nothing is tried: contents are then too many.
inline constexpr int kMaxBarriersOfBoxes = 5;
inline constexpr int kMaxClassesOfBoxes = 64;

// Without the choices that name a cause of `forbidden` (a bit each). Nothing where contents do not
// describe the problem, or its units are of too many classes.
std::optional<BarrierModel> make_barrier_model(const PlacementProblem& problem,
                                               std::uint64_t forbidden);

}  // namespace plimsoll::balance
