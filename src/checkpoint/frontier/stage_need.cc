// The smallest budget of a pipeline stage: what completions need on entry against what they
// discard, position by position from the last.
#include <algorithm>
#include <limits>
#include <string_view>
#include <vector>

#include "checkpoint/frontier/interval_program.h"

namespace plimsoll::checkpoint {
namespace {

// One way to finish from a boundary on.
struct Finish {
  Bytes need = 0;          // slack on entry
  Bytes gone = 0;          // discarded from here on
  std::string_view where;  // whose need it is; empty: the end point's
};

// In the end a finish costs f(need) - others * gone, f being what earlier positions make of a need:
// it never falls and never grows by more than the need does. So a finish is beaten by one that
// needs no more and discards no less, and by one whose need is larger by no more than `others`
// times what it discards more.
std::vector<Finish> undominated(std::vector<Finish> all, Bytes others) {
  const auto worth = [others](const Finish& finish) { return Int128{others} * finish.gone; };
  const auto value = [&worth](const Finish& finish) { return finish.need - worth(finish); };
  std::stable_sort(all.begin(), all.end(), [&](const Finish& a, const Finish& b) {
    return a.need != b.need ? a.need < b.need : a.gone > b.gone;
  });
  std::vector<Finish> kept;
  for (const Finish& finish : all) {
    if (!kept.empty() && worth(kept.back()) >= worth(finish)) continue;
    while (!kept.empty() && value(kept.back()) >= value(finish)) kept.pop_back();
    kept.push_back(finish);
  }
  return kept;
}

}  // namespace

SmallestBudget IntervalProgram::smallest_stage(int others) const {
  const int n = problem_.num_modules();
  std::vector<std::vector<const CandidateUnit*>> starting(n);
  for (const CandidateUnit& unit : problem_.units) starting[unit.first].push_back(&unit);
  std::vector<std::vector<Finish>> finishes(n + 1);
  finishes[n] = {{problem_.end_base.value_or(std::numeric_limits<Bytes>::min() / 4), 0, ""}};
  for (int position = n - 1; position >= 0; --position) {
    std::vector<Finish> here;
    const auto add = [&here](const Finish& after, Bytes gone, Bytes entry, std::string_view where) {
      const Bytes left = after.need - gone;
      here.push_back(
          {std::max(left, entry), after.gone + gone, entry >= left ? where : after.where});
    };
    for (const Finish& after : finishes[position + 1]) {
      add(after, 0, problem_.base_at(position), problem_.fqn[problem_.tree.post_order[position]]);
    }
    for (const CandidateUnit* unit : starting[position]) {
      const int u = static_cast<int>(unit - problem_.units.data());
      const auto add_choice = [&](int point, Bytes gone) {
        const Bytes entry = entry_of(u, point);
        // The module inside that needs it; of a unit's own need the unit.
        std::string_view where = problem_.fqn[unit->nodes.back()];
        for (int p = unit->last; p >= unit->first; --p) {
          if (problem_.base_at(p) == entry) where = problem_.fqn[problem_.tree.post_order[p]];
        }
        for (const Finish& after : finishes[unit->last + 1]) add(after, gone, entry, where);
      };
      for (std::size_t point = 0; point < unit->points.size(); ++point) {
        add_choice(static_cast<int>(point), unit->points[point].bytes);
      }
      if (unit->points.empty()) add_choice(-1, unit->price.capacity());
    }
    finishes[position] = undominated(std::move(here), others);
  }
  const auto budget = [&](const Finish& finish) {
    return finish.need + others * (problem_.total_activations - finish.gone);
  };
  const Finish best =
      *std::min_element(finishes[0].begin(), finishes[0].end(),
                        [&](const Finish& a, const Finish& b) { return budget(a) < budget(b); });
  return {std::max<Bytes>(0, budget(best)), std::string(best.where)};
}

}  // namespace plimsoll::checkpoint
