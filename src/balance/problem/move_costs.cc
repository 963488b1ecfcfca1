#include "balance/problem/move_costs.h"

#include <algorithm>

#include "plimsoll/core/checked.h"

namespace plimsoll::balance {

Bytes SlotMoves::on(int place) const {
  const auto found =
      std::lower_bound(at.begin(), at.end(), place,
                       [](const auto& entry, int wanted) { return entry.first < wanted; });
  return found != at.end() && found->first == place ? found->second : elsewhere;
}

Bytes moved_bytes(const MoveCosts& costs, const UnitPlacements& placements) {
  Bytes sum = 0;
  for (std::size_t u = 0; u < placements.units.size(); ++u) {
    const UnitPlacement& placement = placements.units[u];
    const ChoiceMoves& moves = costs.units[u][static_cast<std::size_t>(placement.choice)];
    sum = saturated_add(sum, moves.everywhere);
    for (std::size_t s = 0; s < placement.slots.size(); ++s) {
      sum = saturated_add(sum, moves.slots[s].on(placement.slots[s]));
    }
  }
  return sum;
}

Bytes least_moved_bytes(const MoveCosts& costs) {
  Bytes sum = 0;
  for (const std::vector<ChoiceMoves>& choices : costs.units) {
    Bytes least = kSaturated;
    for (const ChoiceMoves& moves : choices) {
      Bytes all = moves.everywhere;
      for (const SlotMoves& slot : moves.slots) {
        Bytes best = slot.elsewhere;
        for (const auto& [place, bytes] : slot.at) best = std::min(best, bytes);
        all = saturated_add(all, best);
      }
      least = std::min(least, all);
    }
    sum = saturated_add(sum, choices.empty() ? 0 : least);
  }
  return sum;
}

}  // namespace plimsoll::balance
