// Where the units of a tiny problem stand, from a seed, and what every placement moves.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "balance/problem/move_costs.h"
#include "balance/random_placements.h"

namespace plimsoll::balance::testing {

inline InstanceKind kind_of_move_seed(std::uint64_t seed) {
  InstanceKind kind;
  kind.tight_memory = seed % 3 == 0;
  kind.barriers = seed % 2 == 0;
  kind.charges = seed % 5 == 0;
  kind.unequal_caps = seed % 7 == 0;
  return kind;
}

inline int num_slots(const UnitChoice& choice) {
  if (choice.spread == Spread::kUniform) return 0;
  if (choice.spread == Spread::kHost) return static_cast<int>(choice.num_blocks);
  int count = 0;
  for (const PieceRun& run : choice.runs) count += static_cast<int>(run.count);
  return count;
}

// Every placement, allowed or not.
inline void for_each_placement(const PlacementProblem& problem,
                               const std::function<void(const UnitPlacements&)>& visit) {
  UnitPlacements placements;
  placements.units.resize(problem.units.size());
  const std::function<void(std::size_t, int)> place = [&](std::size_t u, int slot) {
    if (u == problem.units.size()) return visit(placements);
    UnitPlacement& unit = placements.units[u];
    if (slot < 0) {
      for (std::size_t c = 0; c < problem.units[u].choices.size(); ++c) {
        unit = {static_cast<int>(c), {}};
        place(u, 0);
      }
      return;
    }
    const UnitChoice& choice = problem.units[u].choices[static_cast<std::size_t>(unit.choice)];
    if (slot == num_slots(choice)) return place(u + 1, -1);
    const int end = choice.spread == Spread::kHost ? problem.num_hosts() : problem.num_ranks;
    for (int at = 0; at < end; ++at) {
      unit.slots.push_back(at);
      place(u, slot + 1);
      unit.slots.pop_back();
    }
  };
  place(0, -1);
}

// Every unit stands somewhere, and a piece moves some bytes unless it stays there.
inline MoveCosts random_costs(const PlacementProblem& problem, std::uint64_t seed) {
  Random random(seed + 31);
  MoveCosts costs;
  for (const Unit& unit : problem.units) {
    UnitPlacement home{random.below(static_cast<int>(unit.choices.size())), {}};
    std::vector<ChoiceMoves>& moves = costs.units.emplace_back();
    for (std::size_t c = 0; c < unit.choices.size(); ++c) {
      const UnitChoice& choice = unit.choices[c];
      const bool is_home = home.choice == static_cast<int>(c);
      ChoiceMoves& of_choice = moves.emplace_back();
      of_choice.everywhere =
          choice.spread == Spread::kUniform && !is_home ? 1 + random.below(20) : 0;
      const int end = choice.spread == Spread::kHost ? problem.num_hosts() : problem.num_ranks;
      for (int slot = 0; slot < num_slots(choice); ++slot) {
        SlotMoves& of_slot = of_choice.slots.emplace_back();
        of_slot.elsewhere = 1 + random.below(20);
        const int at = random.below(end);
        of_slot.at = {{at, is_home ? 0 : random.below(static_cast<int>(of_slot.elsewhere))}};
        if (is_home) home.slots.push_back(at);
      }
    }
    costs.home.push_back(home);
  }
  return costs;
}

}  // namespace plimsoll::balance::testing
