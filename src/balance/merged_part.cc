#include "balance/merged_part.h"

#include <algorithm>
#include <utility>

#include "balance/problem/one_load.h"

namespace plimsoll::balance {
namespace {

bool is_forbidden(const UnitChoice& choice, std::uint64_t forbidden) {
  return std::any_of(choice.causes.begin(), choice.causes.end(),
                     [&](int cause) { return cause < 64 && (forbidden >> cause & 1) != 0; });
}

void drop_times(const PlacementProblem& problem, PieceRun& run) {
  for (int r = 0; r < problem.num_resources(); ++r) {
    if (problem.resources[r].is_time) run.bytes[r] = 0;
  }
}

}  // namespace

UnitPlacements MergedPart::to_whole(UnitPlacements placements) const {
  for (std::size_t unit = 0; unit < choice.size(); ++unit) {
    int& taken = placements.units[unit].choice;
    taken = choice[unit][taken];
  }
  return placements;
}

std::optional<MergedPart> merge_part(const PlacementProblem& problem, std::uint64_t forbidden) {
  MergedPart merged;
  merged.problem = with_total_load(problem);
  merged.problem.charges.clear();
  merged.problem.exclusive.clear();
  for (Resource& resource : merged.problem.resources)
    resource.is_time = false;  // nothing needs any
  for (Unit& unit : merged.problem.units) {
    std::vector<UnitChoice> choices;
    std::vector<int>& index = merged.choice.emplace_back();
    for (std::size_t c = 0; c < unit.choices.size(); ++c) {
      UnitChoice& choice = unit.choices[c];
      if (is_forbidden(choice, forbidden)) continue;
      choice.causes.clear();
      for (PieceRun& run : choice.runs) drop_times(problem, run);
      index.push_back(static_cast<int>(c));
      choices.push_back(std::move(choice));
    }
    if (choices.empty()) return std::nullopt;
    unit.choices = std::move(choices);
  }
  return merged;
}

}  // namespace plimsoll::balance
