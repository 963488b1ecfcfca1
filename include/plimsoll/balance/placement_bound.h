// A certified lower bound of a placement problem, with what proves it: data alone, that
// verify_bound (verify_bound.h) checks without the searches that found it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/core/numbers.h"
#include "plimsoll/core/proof.h"
#include "plimsoll/core/units.h"

#pragma GCC visibility push(default)
namespace plimsoll::balance {

enum class BoundMethod {
  kNone,      // loads are never negative
  kAverage,   // a weighted average of the ranks
  kFiltered,  // that, of what a target leaves
  kWindows,   // dual feasible functions in windows of the slowest load
  kPatterns,  // contents of hosts and ranks in such windows
  kBranched,  // that, branched on the numbers of uniform units, or the blocks of few hosts
  kChoices,   // averages and largest pieces, branched on the choices of units
  kBarriers,  // of several barriers: the bounds of each one alone, added up
  kBoxes,     // contents of ranks in windows of the slowest loads at all barriers at once
  kMemory,    // infeasible: bytes
};
std::string_view to_string(BoundMethod method);  // "average", "filtered", ...

// Functions f: [0, 1] -> [0, 1] with sum f(x_i) <= 1 wherever sum x_i <= 1.
enum class DualFunctionKind {
  kIdentity,   // x
  kThreshold,  // parameter e in [0, 1/2]: 0 below e, 1 above 1 - e, else x            [Martello,
               // Toth]
  kStep,       // parameter k >= 1: x where (k + 1) x is whole, else floor((k + 1) x) / k    [u^(k)]
  kRounding,   // parameter e in (0, 1/2]: with n = floor(1 / e), floor(x / e) / n below 1/2, 1/2 at
               // 1/2, 1 - floor((1 - x) / e) / n above             [Carlier, Clautiaux, Moukrim]
};
std::string_view to_string(DualFunctionKind kind);  // "identity", "threshold", ...
struct DualFunction {
  DualFunctionKind kind = DualFunctionKind::kIdentity;
  double parameter = 0;
  bool operator==(const DualFunction&) const = default;
};

// f at x in [0, 1]. No f ever falls.
double dual_value(const DualFunction& function, double x);

// Why the uniform load is at least `uniform_load` where no rank carries more than `room` of pieces
// and blocks. With `value` >= 0 of each unit (by class) and prices of bytes: what a unit that is
// not uniform carries on ranks is worth `value`; either no bin of ranks holds more than the best
// pattern (patterns), or a piece of load x is worth multiplier f(x / room) and a rank holds at most
// `multiplier` (windows; `value` is empty).
struct RoomProof {
  double room = 0;
  double uniform_load = 0;
  std::vector<double> value;  // [classes of the witness]
  std::vector<double> price;  // [accounts; in a witness kinds * resources] ms a byte; empty: 0
  DualFunction function;
  double multiplier = 0;
  bool operator==(const RoomProof&) const = default;
};

// A node covers the placements whose slowest load of pieces and blocks is in a window [low, high]
// and in which some numbers of units of some classes are uniform and some hosts' block loads are
// in windows, too; the root covers [0, top] and all. (A block loads the ranks of its host with its
// smallest piece at least.)
// A leaf proves low + uniform_load of its proof, whose room is >= high.
struct WindowNode {
  int first_child = -1;  // of two; -1: a leaf
  double split = 0;      // the first child covers up to here, the second from here on
  int class_index = -1;  // >= 0: a split of the number of uniform units instead: the first child
                         // has at most `split`, the second at least split + 1
  int proof = -1;        // of a leaf
  int host = -1;         // >= 0: a split of what the blocks on a host load its ranks with, of the
                         // host of that place when hosts are sorted by falling block load
  bool operator==(const WindowNode&) const = default;
};

struct WindowWitness {
  double target = 0;               // holds for placements of at most that (after the filter)
  double top = 0;                  // of the root's window
  std::vector<int> class_of_unit;  // [units]
  std::vector<RoomProof> proofs;
  std::vector<WindowNode> nodes;  // the root first; children after their parents
  int cells = 0;                  // of the knapsack tables; 0: dual feasible functions
  bool operator==(const WindowWitness&) const = default;
};

struct PriceWitness {
  double target = 0;          // no placement has less: kFiltered
  std::vector<double> theta;  // [kinds] of one rank
  std::vector<double> price;  // [kinds * resources] ms a byte, one price in all ranks of a pool
  std::vector<std::int64_t> weight;  // [kinds * resources] of bytes, for kMemory
  bool operator==(const PriceWitness&) const = default;
};

// A resource of the rank that holds the largest piece of a unit: at least that piece and what all
// other units put on every rank.
struct Anchor {
  int unit = 0;
  int resource = -1;  // -1: its load
  double weight = 0;  // >= 0; of the load, in all weights of loads; else ms a byte
  bool operator==(const Anchor&) const = default;
};

// Why placements of at most `target` (after the filter) take at least that, or what weights >= 0 of
// the mean load over all ranks and of anchors and prices of bytes of all ranks together show.
struct ChoiceProof {
  double target = 0;
  double mean = 0;
  std::vector<double> price;  // [resources] ms a byte
  std::vector<Anchor> anchors;
  bool operator==(const ChoiceProof&) const = default;
};

// A node covers placements whose units take allowed choices; the root allows all. The first child
// allows `unit` those of `choices` alone, the second the others.
struct ChoiceNode {
  int first_child = -1;      // of two; -1: a leaf
  int unit = -1;             // of nodes with children
  std::vector<int> choices;  // ascending, into the unit's
  int proof = -1;            // of a leaf
  bool operator==(const ChoiceNode&) const = default;
};

struct ChoiceWitness {
  std::vector<ChoiceNode> nodes;  // the root first; children after their parents
  std::vector<ChoiceProof> proofs;
  bool operator==(const ChoiceWitness&) const = default;
};

// A lower bound of the slowest load at one barrier, and its proof: of the problem with the loads of
// that barrier alone.
struct BarrierProof {
  BoundMethod method = BoundMethod::kNone;  // kAverage to kBranched
  PriceWitness prices;                      // kAverage, kFiltered
  WindowWitness windows;                    // kWindows, kPatterns, kBranched
  bool operator==(const BarrierProof&) const = default;
};

// Why the loads of uniform choices, added up over the barriers, are at least `uniform_load` where
// no rank carries more than `room` of pieces and blocks: with `value` >= 0 of each unit (by class)
// and prices of bytes, what a unit that is not uniform carries on ranks is worth `value`, and no
// host or rank holds more than its best content. For each byte of a limit that uniform choices
// leave on every rank, their loads are `uniform_price` more.
struct BoxProof {
  std::vector<double> room;           // [barriers] ms, then [limits] bytes
  double uniform_load = 0;            // ms
  std::vector<double> value;          // [classes of the witness] ms
  std::vector<double> price;          // [resources] ms a byte, of all ranks
  std::vector<double> uniform_price;  // [limits] ms a byte, of uniform units on a rank
  bool operator==(const BoxProof&) const = default;
};

// A node covers the placements whose slowest load of pieces and blocks at each barrier is in a
// window of that barrier, and what uniform choices leave of each limit in a window of that; the
// root covers [0, top] of each barrier and [0, cap] of each limit. A leaf proves the sum of its
// barriers' lower ends plus the uniform load of its proof, whose rooms are no smaller than the
// upper ends, plus the limits' lower ends at their `uniform_price`.
struct BoxNode {
  int first_child = -1;  // of two; -1: a leaf
  int barrier = -1;  // whose window is split: the first child up to `split`, the second from it;
                     // num_barriers + i: that of limit i
  double split = 0;  // ms, or bytes
  int proof = -1;    // of a leaf
  bool operator==(const BoxNode&) const = default;
};

struct BoxWitness {
  double top = 0;                  // ms; a placement with a slower load takes at least as long
  std::vector<int> limits;         // resources whose caps count on every rank
  std::vector<int> class_of_unit;  // [units]
  std::vector<BoxProof> proofs;
  std::vector<BoxNode> nodes;  // the root first; children after their parents
  bool operator==(const BoxWitness&) const = default;
};

// A part of all placements: those that name no cause of `forbidden` and pay for all of `paid`.
struct BoundCase {
  std::uint64_t paid = 0;  // bits of the first 64 causes
  std::uint64_t forbidden = 0;
  double value = 0;  // ms, charges and floor included; kInfinity where it has no placement
  BoundMethod method = BoundMethod::kNone;
  // No placement keeps the caps of this resource: the witness is of the problem whose loads are its
  // bytes, and shows that some rank needs more than any has. `value` is kInfinity.
  std::optional<int> load_resource;
  PriceWitness prices;                 // kAverage, kFiltered, kMemory
  WindowWitness windows;               // kWindows, kPatterns, kBranched
  ChoiceWitness choices;               // kChoices
  std::vector<BarrierProof> barriers;  // [barriers] kBarriers: what they prove is added up
  BoxWitness boxes;                    // kBoxes
  bool operator==(const BoundCase&) const = default;
};

struct PlacementBound {
  double value = 0;  // ms, the least of the cases; kInfinity: no placement exists
  BoundMethod method = BoundMethod::kNone;  // of the case with the least value
  std::vector<int> kind_of_rank;            // [ranks], for the witnesses
  std::vector<BoundCase> cases;             // together all placements
  // Where nothing fits: the resource that binds and the bytes missing.
  int binding_resource = -1;
  Bytes missing = 0;
  int stuck_unit = -1;  // or a unit that can stand nowhere
  // Of the case with the least value.
  double room = 0;                   // where the slowest load of a good placement is; 0: not known
  std::int64_t num_evaluations = 0;  // of prices
  std::int64_t num_pricings = 0;
  std::int64_t num_windows = 0;

  bool is_infeasible() const { return value == kInfinity; }
  bool operator==(const PlacementBound&) const = default;
};

// What proves a case of the bound, for people: "dual feasible functions in 12 windows of ...".
Proof proof_of(BoundMethod method, const PlacementBound& bound);

}  // namespace plimsoll::balance
#pragma GCC visibility pop
