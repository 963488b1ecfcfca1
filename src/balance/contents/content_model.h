// A placement problem as a search by contents sees it: pieces and blocks of classes of units, not
// of units.
//
// Units of a class (pattern_model.h) may change places, so such a search counts pieces.
// Only of problems with equal ranks, one barrier and nothing to be kept apart; choices whose parts
// differ or want distinct ranks are left out.
// Source: docs/mathematics/balanced-sharding.md#dives-by-contents.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "balance/patterns/pattern_model.h"
#include "plimsoll/balance/placement_problem.h"

namespace plimsoll::balance {

struct ContentItem {
  int class_index = 0;
  int number = 0;  // of the choice among its class's, into ContentClass::item_choice
  bool is_block = false;
  int num_parts = 1;  // of a unit
  double load = 0;    // of a piece, or of a block on each rank of its host
  Amounts bytes{};    // as above
};

struct ContentClass {
  std::vector<int> items;
  // By rising uniform load; units without a uniform choice come last.
  std::vector<int> units;
  std::vector<std::vector<int>> item_choice;  // [units][choices] into Unit::choices
  std::vector<int> uniform_choice;            // [units] into Unit::choices, -1: none
  std::vector<double> uniform_load;           // [units + 1] of the first so many; kInfinity
  std::vector<Amounts> uniform_bytes;         // [units + 1]
  int num_uniform_at_most = 0;                // units with a uniform choice
  int count() const { return static_cast<int>(units.size()); }
};

struct ContentModel {
  const PlacementProblem* problem = nullptr;  // not owned
  int num_ranks = 1;
  int width = 1;  // ranks a host
  int num_hosts = 0;
  std::vector<ContentItem> items;  // classes in order
  std::vector<ContentClass> classes;
  Amounts cap{};                     // of every rank
  PerResource<double> byte_price{};  // ms a byte of one rank
  double forced_load = 0;            // of units with uniform choices alone
  Amounts forced_bytes{};
  std::vector<std::pair<int, int>> forced;  // (unit, choice)
};

// Nothing where contents do not describe the problem. `price`: [accounts] of an average bound.
std::optional<ContentModel> make_content_model(const PlacementProblem& problem,
                                               const PlacementGroups& groups,
                                               const Survivors& survivors,
                                               const std::vector<double>& price);

}  // namespace plimsoll::balance
