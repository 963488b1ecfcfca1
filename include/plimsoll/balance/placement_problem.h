// Placing units on ranks so that nobody waits long: the problem behind balanced sharding, without
// its domain.
//
// Every unit takes one of its choices. A choice is made of pieces, each with a load for every
// barrier and an amount of every resource, and its spread says where they go:
//   device   every piece on a rank of its own choosing; several may share one, unless the choice
//            wants distinct ranks;
//   host     a block has one piece for each rank of a host; every block goes to a host;
//   uniform  one piece for each rank: nothing to place.
// Minimise   sum over barriers g of max over ranks r of load(r, g)
//          + the charges of all causes that some taken choice names + floor_ms
// subject to the amounts of every rank and resource within its cap (where it is pooled: those of
// every host within the sum of its ranks' caps; a rank without host is its own pool), the ranks
// that a unit allows, and units that must stay apart. One barrier is the slowest rank; several
// are a step with a wait after each. Sources: docs/mathematics/balanced-sharding.md#the-problem,
// docs/mathematics/balanced-sharding.md#several-barriers-and-charges.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/balance/per_resource.h"
#include "plimsoll/core/result.h"
#include "plimsoll/core/units.h"

#pragma GCC visibility push(default)
namespace plimsoll::balance {

// What a rank has of: bytes of a memory, or the milliseconds of a cap on times, in whole units.
struct Resource {
  std::string name;        // "hbm", "ddr", "rating", ...; for people
  bool is_pooled = false;  // the ranks of a host share what each has
  // A cap on times, not on bytes: searches may exceed it on their way, for it is often met by what
  // they minimize.
  bool is_time = false;
  bool operator==(const Resource&) const = default;
};

using Amounts = PerResource<Bytes>;

enum class Spread { kDevice, kHost, kUniform };

// `count` equal pieces.
struct PieceRun {
  std::int64_t count = 0;    // >= 1
  std::vector<double> load;  // [num_rank_classes * num_barriers] >= 0 ms, class by class
  Amounts bytes{};           // >= 0, of every resource
  bool operator==(const PieceRun&) const = default;
};

struct UnitChoice {
  Spread spread = Spread::kDevice;
  // Device: all pieces. Host: the pieces of one block, on the ranks of the host in order. Uniform:
  // the pieces of all ranks in order.
  std::vector<PieceRun> runs;
  std::int64_t num_blocks = 1;  // >= 1; of host choices
  std::vector<int> causes;      // ascending, into PlacementProblem::charges
  bool distinct_ranks = false;  // of device choices: no two pieces share a rank
  bool operator==(const UnitChoice&) const = default;
};

struct Unit {
  std::string name;                 // for people
  std::vector<UnitChoice> choices;  // at least one
  // Ascending; empty: every rank. A block goes only to hosts all of whose ranks are allowed, a
  // uniform choice needs all ranks.
  std::vector<int> allowed_ranks;
  bool operator==(const Unit&) const = default;
};

struct PlacementProblem {
  int num_ranks = 1;            // >= 1
  int ranks_per_host = 1;       // >= 1; ranks beyond the last whole host belong to none
  int num_barriers = 1;         // >= 1
  int num_rank_classes = 1;     // >= 1
  std::vector<int> rank_class;  // [num_ranks], or empty: all of class 0
  std::vector<Resource> resources;
  std::vector<Amounts> caps;  // [num_ranks] >= 0
  std::vector<Unit> units;
  std::vector<std::vector<int>> apart;  // sets of units, no two of which share a rank
  std::vector<double> charges;          // ms >= 0, each paid once if any taken choice names it
  // Pairs of causes that no placement names both. Bounds and their judge know them; searches do
  // not, and want problems without.
  std::vector<std::array<int, 2>> exclusive;
  double floor_ms = 0;  // >= 0

  int num_resources() const { return static_cast<int>(resources.size()); }
  int num_units() const { return static_cast<int>(units.size()); }
  int num_hosts() const { return num_ranks / ranks_per_host; }
  int class_of(int rank) const { return rank_class.empty() ? 0 : rank_class[rank]; }
  bool operator==(const PlacementProblem&) const = default;
};

// A unit's choice, and where its pieces (a rank each, runs in order) or blocks (a host each) stand;
// nothing for uniform choices.
struct UnitPlacement {
  int choice = -1;
  std::vector<int> slots;
  bool operator==(const UnitPlacement&) const = default;
};

struct UnitPlacements {
  std::vector<UnitPlacement> units;  // [num_units]
  bool operator==(const UnitPlacements&) const = default;
};

// Errors, at "unit 3 'name'", "unit 3 'name', choice 2", "caps", ...: kValue for counts, loads,
// bytes, ranks or charges out of range or no number; kSchema for lists of another length, pieces
// that do not add up to the ranks of a host or of the problem; kConflict for a unit without
// choices, lists that are not ascending, distinct ranks of blocks; kOverflow where all bytes
// together exceed 63 bits.
Result<void> validate(const PlacementProblem& problem);

// "unit 3 'name'".
std::string place_of(const PlacementProblem& problem, int unit);

}  // namespace plimsoll::balance
#pragma GCC visibility pop
