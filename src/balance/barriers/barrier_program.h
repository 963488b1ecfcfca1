// The least uniform load when no rank may carry more than a room at each of several barriers:
// column generation over contents of hosts or ranks.
//
// Problem. Choose how many bins (hosts with their ranks, or ranks) hold which pattern, and which
// units are uniform, so that all units are placed and the uniform loads, added up over the
// barriers, are least; a relaxation, counts may be fractions.
// Method. Rows: one a class, one a kind of bins, one a resource whose caps may be exceeded. At any
// prices pi of units and q of resources
//   A >= sum over classes of (units x min(pi, cheapest uniform cost + q bytes))
//        - sum over bins of V(pi, q) - sum over resources of q x caps
// (q also of what uniform units may take of a rank, where that is less than a cap),
// with V the worth of the best pattern that fits the room at every barrier: the exact filling of a
// vector knapsack (math/vector_knapsack.h), or its bound. The best value so far is kept, so a stop
// at any time leaves a valid bound. Cost. 5 to 30 pricings a room; patterns are kept from demand
// to demand. Sources: docs/mathematics/balanced-sharding.md#contents-at-several-barriers,
// pattern_master.h.
#pragma once

#include <cstdint>
#include <vector>

#include "balance/barriers/barrier_model.h"
#include "core/effort_clock.h"
#include "math/small_simplex.h"

namespace plimsoll::balance {

struct BarrierPrices {
  std::vector<double> pi;       // [classes] ms a unit, >= 0
  std::vector<double> price;    // [rows] ms, >= 0, of the caps of all ranks together
  std::vector<double> uniform;  // [limits] ms, >= 0, of a cap that uniform units take of a rank
};

// Bins that are filled alike: hosts, if blocks may stand in them, else ranks.
struct BinKind {
  double count = 0;          // >= 0
  int width = 1;             // ranks
  std::vector<double> room;  // of a rank: [barriers] ms, then [limits] of resources
  bool takes_blocks = true;  // else items that are blocks are left out
};

// What is to be placed, and where.
struct BarrierDemand {
  std::vector<double> count;  // [classes] units
  std::vector<BinKind> bins;
  // [rows] where not empty: the share of all caps together that uniform units may take. Patterns
  // then count for no row: their limits hold what uniform units leave.
  std::vector<double> uniform_share;
  // [limits] where not empty: the share of a rank's cap that uniform units may take.
  std::vector<double> most_uniform;
};

struct BarrierPattern {
  int bin = 0;
  std::vector<std::int64_t> count;  // [items] blocks of the bin, or pieces of each of its ranks
};

struct BarrierAnswer {
  double uniform_load = 0;  // proved: A is at least this
  BarrierPrices prices;     // of that bound
  double value = 0;         // of the last linear program
  bool is_complete = false;
  double missed = 0;                     // units that found no place
  std::vector<double> num_uniform;       // [steps]
  std::vector<BarrierPattern> patterns;  // in use
  std::vector<double> amounts;           // [patterns] > 0, bins
};

struct BarrierProgramOptions {
  double penalty = 100;            // ms > 0, for a unit without a place
  double tolerance = 1e-6;         // ms >= 0, of A
  std::vector<int> limits;         // resources that patterns keep the room of, too
  std::int64_t max_nodes = 20000;  // of each knapsack
};

class BarrierProgram {
 public:
  // `model` outlives it.
  BarrierProgram(const BarrierModel& model, const BarrierProgramOptions& options);

  // Until nothing better is left, A is above `goal`, `max_pricings` were made or the clock stops.
  BarrierAnswer solve(const BarrierDemand& demand, double goal, std::int64_t max_pricings,
                      EffortClock& clock);

  std::int64_t num_pricings() const { return num_pricings_; }

 private:
  class Room;
  struct Kept {
    BarrierPattern pattern;
    int width = 1;  // of its bin
    bool has_blocks = false;
  };

  void keep(const BarrierPattern& pattern, int width);

  const BarrierModel& model_;
  BarrierProgramOptions options_;
  std::vector<Kept> pool_;
  std::int64_t num_pricings_ = 0;
};

// The worth of the best content of a bin at these prices, at most; the best that was found.
struct BestContent {
  BarrierPattern pattern;
  double worth = 0;
  double bound = 0;
  std::int64_t num_nodes = 0;
};
BestContent price_bin(const BarrierModel& model, const BarrierDemand& demand, const BinKind& bin,
                      const BarrierPrices& prices, const BarrierProgramOptions& options);

// What the uniform choices of an answer take of a rank, in whole units.
Amounts uniform_bytes(const BarrierModel& model, const BarrierAnswer& answer);

// What uniform units of a class cost at least: the least of pi and its cheapest step.
double cheapest_unit(const BarrierModel& model, int class_index, const BarrierPrices& prices,
                     const std::vector<int>& limits);

}  // namespace plimsoll::balance
