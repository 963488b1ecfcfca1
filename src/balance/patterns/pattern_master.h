// The least uniform load when no rank may carry more than a room: column generation over contents
// of hosts and ranks (B6).
//
// Problem. Choose how many bins hold which pattern, and which units are uniform, so that all units
// are placed and the uniform load A is least; a relaxation, counts may be fractions.
// Method. Rows: one a class, one a kind of bins, and one a memory account whose price in the
// average bound is above 0. Columns: uniform steps, patterns. The dual prices pi value the units;
// at any prices pi, q >= 0
//   A >= sum over classes of (units x min(pi, uniform cost + q bytes)) - sum over bins of V(pi, q)
//        - sum over accounts of q x cap,
// with V the worth of the best pattern (pattern_pricing.h, sizes rounded down): pieces and blocks
// of a unit that is not uniform carry pi + q bytes together, and a bin carries at most V. The
// best such value is kept, so a stop at any time leaves a valid bound (Farley). Prices are smoothed
// (0.6 of the best so far), unsmoothed where that finds no column.
// Where at least `lo` and at most `hi` units of a class are uniform, the lo cheapest are paid for
// and those beyond hi are not open to it.
// Cost. 5 to 30 pricings a room; patterns are kept from room to room.
// Source: docs/mathematics/balanced-sharding.md#contents-of-hosts-and-ranks.
// [1] A. A. Farley, "A note on bounding a class of linear programming problems, including cutting
//     stock problems", Operations Research 38(5), 1990, https://doi.org/10.1287/opre.38.5.922.
#pragma once

#include <cstdint>
#include <vector>

#include "balance/patterns/pattern_pricing.h"
#include "math/small_simplex.h"
#include "plimsoll/core/run_context.h"

namespace plimsoll::balance {

// Prices of the units, and what they prove.
struct PatternPrices {
  std::vector<double> pi;     // [classes] >= 0
  std::vector<double> price;  // [accounts] ms a byte, >= 0
  bool operator==(const PatternPrices&) const = default;
};

struct RoomBound {
  double uniform_load = 0;   // proved: A is at least this
  PatternPrices prices;      // of that bound
  double master_value = 0;   // of the last linear program: what could be proved at most
  bool is_complete = false;  // no better column was left
  // Of the last linear program.
  std::vector<double> num_uniform;  // [classes]
  std::vector<Pattern> patterns;    // of those in use
  std::vector<double> amounts;      // [patterns] > 0, bins
  double missed = 0;                // units that found no place
};

struct MasterOptions {
  int cells = 16000;        // >= 1
  double tolerance = 1e-6;  // > 0; of uniform_load against master_value, times `scale`
  double scale = 1;         // ms, > 0; that of the objective
  double penalty = 100;     // ms, > 0, for a unit without place: no pi is larger
  bool smooth = true;
  const RunContext* context = nullptr;  // asked between pricings; null: none
};

class PatternMaster {
 public:
  // `price`: [accounts]; accounts with a price above 0 become rows.
  PatternMaster(const PlacementGroups& groups, const PatternModel& model,
                const std::vector<double>& price, const MasterOptions& options);

  // `goal`: stop once uniform_load is above. At most `max_pricings` pricings; num_pricings() counts
  // all.
  RoomBound solve(double room, const RoomLimits& limits, double goal, std::int64_t max_pricings);

  std::int64_t num_pricings() const { return num_pricings_; }

 private:
  class RoomProgram;

  const PlacementGroups& groups_;
  const PatternModel& model_;
  MasterOptions options_;
  PatternPricing pricing_;
  std::vector<int> accounts_;                           // that are rows
  std::vector<std::vector<const PatternStep*>> steps_;  // [classes] of the model that are columns
  std::vector<Pattern> pool_;
  std::int64_t num_pricings_ = 0;
};

// What uniform units cost at least: sum over the class's units of min(pi, load + price x bytes),
// with counts as RoomLimits says.
double uniform_value(const PatternClass& c, double units, double pi,
                     const std::vector<double>& price, double lo, double hi);

}  // namespace plimsoll::balance
