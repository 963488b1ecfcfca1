// A placement problem as its searches see it: choices that can be of use, in flat arrays.
//
// Charged safely: a block's or a uniform choice's largest piece stands for all of its pieces, so a
// placement that these numbers allow is allowed, and its objective is at most what they say. (The
// pieces of a cut by rows differ by one row block.) Left out, exactly:
//   - choices that cannot fit on empty ranks, that their unit's allowed ranks exclude, that want
//     more distinct ranks than those, or whose causes are not allowed here;
//   - dominated choices: of two with equal spread and number of pieces, one no better in any load,
//     in the bytes of any resource (largest piece and sum), in its causes or in the ranks it wants.
// Source: docs/mathematics/balanced-sharding.md#exact-reductions.
#pragma once

#include <cstdint>
#include <vector>

#include "plimsoll/balance/placement_problem.h"

namespace plimsoll::balance {

struct PlacementItems {
  struct Choice {
    int index = 0;  // in Unit::choices
    Spread spread = Spread::kDevice;
    int num_pieces = 1;    // device: pieces; host: blocks; uniform: 0
    int first_record = 0;  // of its pieces, one each where num_records > 1
    int num_records = 1;
    double peak = 0;  // ms, the largest piece: sum over barriers, largest over classes
    double work = 0;  // ms, what it adds to the mean load over all ranks
    Amounts bytes{};  // of all pieces together
    bool distinct_ranks = false;
  };

  const PlacementProblem* problem = nullptr;  // not owned; outlives the items
  int num_units = 0;
  int num_ranks = 1;
  int width = 1;  // ranks a host
  int num_hosts = 0;
  int stride = 1;                 // loads of a record: num_rank_classes * num_barriers
  std::vector<int> first_choice;  // [num_units + 1]
  std::vector<Choice> choices;    // by unit, ascending work, then index
  std::vector<double> load;       // [records * stride]
  std::vector<Amounts> bytes;     // [records]
  std::vector<int> first_slot;    // [num_units + 1], room for the most pieces of any choice
  std::vector<int> unit_of_slot;  // [slots]
  std::vector<int> resources;     // those where any choice has bytes
  // Are all pieces of every block and uniform choice equal, so that nothing is charged too much?
  bool has_exact_loads = true;
  bool has_exact_bytes = true;
  std::vector<int> empty_units;  // units left without a choice: nothing fits

  int num_choices(int unit) const { return first_choice[unit + 1] - first_choice[unit]; }
  static int record_of(const Choice& choice, int piece) {
    return choice.first_record + (choice.num_records == 1 ? 0 : piece);
  }
  // The choice of a unit that stands for Unit::choices[index], itself or one that dominates it
  // with equal spread and pieces; -1 if there is none.
  int find_choice(int unit, int index) const;
  // The placement with these choices (indices into `choices`), its slots at these ranks or hosts.
  UnitPlacements placements(const std::vector<int>& choice_of,
                            const std::vector<int>& place_of) const;
  std::vector<int> stand_in;        // [sum of Unit::choices], unit by unit; -1: none
  std::vector<int> first_stand_in;  // [num_units]
};

// What searches may use; empty: everything.
struct ItemFilter {
  std::vector<bool> is_cause_allowed;                // [charges]
  std::vector<std::vector<char>> is_choice_allowed;  // [num_units][choices]
  bool keeps_dominated = false;  // as where choices differ in what they move (move_costs.h)
};

// O(sum of choices^2 + pieces). Precondition: a valid problem.
PlacementItems make_placement_items(const PlacementProblem& problem, const ItemFilter& filter = {});

}  // namespace plimsoll::balance
