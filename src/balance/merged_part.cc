#include "balance/merged_part.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace plimsoll::balance {
namespace {

bool is_forbidden(const UnitChoice& choice, std::uint64_t forbidden) {
  return std::any_of(choice.causes.begin(), choice.causes.end(),
                     [&](int cause) { return cause < 64 && (forbidden >> cause & 1) != 0; });
}

UnitChoice merge_choice(UnitChoice choice, int num_barriers, int soft_tier) {
  choice.causes.clear();
  for (PieceRun& run : choice.runs) {
    std::vector<double> load;
    for (auto first = run.load.begin(); first != run.load.end(); first += num_barriers) {
      load.push_back(std::accumulate(first, first + num_barriers, 0.0));
    }
    run.load = std::move(load);
    if (soft_tier >= 0) run.bytes[soft_tier] = 0;
  }
  return choice;
}

}  // namespace

UnitPlacements MergedPart::to_whole(UnitPlacements placements) const {
  for (std::size_t unit = 0; unit < choice.size(); ++unit) {
    int& taken = placements.units[unit].choice;
    taken = choice[unit][taken];
  }
  return placements;
}

std::optional<MergedPart> merge_part(const PlacementProblem& problem, std::uint64_t forbidden,
                                     int soft_tier) {
  MergedPart merged;
  merged.problem = problem;
  merged.problem.num_barriers = 1;
  merged.problem.charges.clear();
  merged.problem.exclusive.clear();
  merged.problem.floor_ms = 0;
  for (Unit& unit : merged.problem.units) {
    std::vector<UnitChoice> choices;
    std::vector<int>& index = merged.choice.emplace_back();
    for (std::size_t c = 0; c < unit.choices.size(); ++c) {
      if (is_forbidden(unit.choices[c], forbidden)) continue;
      index.push_back(static_cast<int>(c));
      choices.push_back(merge_choice(std::move(unit.choices[c]), problem.num_barriers, soft_tier));
    }
    if (choices.empty()) return std::nullopt;
    unit.choices = std::move(choices);
  }
  return merged;
}

}  // namespace plimsoll::balance
