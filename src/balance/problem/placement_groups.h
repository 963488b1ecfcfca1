// A placement problem made small, without losing a best placement: dominated choices are dropped,
// units that may change places become one group, sums over pieces and ranks are closed forms.
//
// Reductions, each exact:
//   - a choice that can stand nowhere (a piece larger than every cap, no allowed host) goes; so
//   does
//     a uniform choice of a unit that must stay apart from another, which has a piece on some rank;
//   - within a unit, a choice whose every piece needs at least as much of everything (each load,
//     each resource) as that of another choice with the same spread and as many pieces or blocks,
//     and that names at least its causes, goes; of equals the first stays. Where all ranks are one
//     host, n blocks are a uniform choice n times as large and are compared with those too;
//   - units whose remaining choices are equal, with the same allowed ranks and in the same sets to
//     stay apart, may change places: one group, with a multiplicity.
// A choice consists of parts, a part is placed as one: a piece, a block, all of a uniform choice.
// What a part puts on the ranks of one kind is a share, its load summed over the barriers: since
// max_r sum_g <= sum_g max_r, what bounds the slowest rank by that sum bounds the step.
// Cost. O(choices^2 of each unit x runs) and O(shares); no loop over ranks.
// Source: docs/mathematics/balanced-sharding.md#exact-reductions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "balance/problem/rank_kinds.h"
#include "plimsoll/balance/placement_problem.h"

namespace plimsoll::balance {

struct ChoiceShare {
  int kind = 0;             // of ranks
  double load = 0;          // of all pieces on ranks of the kind together
  double least_load = 0;    // of one piece
  double largest_load = 0;  // of one piece
  Amounts bytes{};          // of all pieces
  Amounts least_bytes{};    // of one piece
  Amounts largest_bytes{};
};

// One way to place a part: a rank of one kind, a host of one kind, or every rank.
struct ChoicePlace {
  std::int32_t first_share = 0;
  std::int32_t num_shares = 0;
  int host_kind = -1;  // of blocks
};

struct ChoicePart {
  std::int64_t count = 0;  // equal parts
  std::int32_t first_place = 0;
  std::int32_t num_places = 0;  // >= 1
};

struct GroupChoice {
  int choice = 0;  // index into the choices of every unit of the group
  Spread spread = Spread::kDevice;
  std::int64_t num_parts = 0;  // pieces, blocks, or 1: the counts of its parts
  std::int32_t first_part = 0;
  std::int32_t num_part_runs = 0;
  std::uint64_t causes = 0;  // bits of the first 64 causes
  // On every rank: uniform, or blocks where all ranks are one host; then there is one part, all of
  // it.
  bool is_everywhere = false;
  bool distinct_ranks = false;
};

struct PlacementGroup {
  std::vector<int> units;  // ascending
  std::int32_t first_choice = 0;
  std::int32_t num_choices = 0;  // 0: proved that the unit can stand nowhere
  double count() const { return static_cast<double>(units.size()); }
};

struct PlacementGroups {
  RankKinds ranks;
  std::vector<PlacementGroup> groups;  // in order of their first units
  std::vector<GroupChoice> choices;    // groups in order
  std::vector<ChoicePart> parts;
  std::vector<ChoicePlace> places;
  std::vector<ChoiceShare> shares;

  int num_groups() const { return static_cast<int>(groups.size()); }
  std::span<const GroupChoice> choices_of(const PlacementGroup& group) const {
    return std::span(choices).subspan(group.first_choice, group.num_choices);
  }
  std::span<const ChoicePart> parts_of(const GroupChoice& choice) const {
    return std::span(parts).subspan(choice.first_part, choice.num_part_runs);
  }
  std::span<const ChoicePlace> places_of(const ChoicePart& part) const {
    return std::span(places).subspan(part.first_place, part.num_places);
  }
  std::span<const ChoiceShare> shares_of(const ChoicePlace& place) const {
    return std::span(shares).subspan(place.first_share, place.num_shares);
  }
};

// Each rule may be left out, to see what it is worth.
struct GroupRules {
  bool drop_dominated = true;
  bool merge_units = true;
};

// Precondition: a valid problem.
PlacementGroups make_placement_groups(const PlacementProblem& problem,
                                      const GroupRules& rules = {});

// The same with these choices alone ([choices], 0: without).
PlacementGroups with_choices(const PlacementGroups& groups, const std::vector<char>& kept);

// The same without the choices that name a cause of `forbidden` (a bit each): what is left once
// those charges are not to be paid.
PlacementGroups without_causes(const PlacementGroups& groups, std::uint64_t forbidden);

}  // namespace plimsoll::balance
