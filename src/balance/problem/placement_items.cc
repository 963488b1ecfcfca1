#include "balance/problem/placement_items.h"

#include <algorithm>

#include "core/check.h"

namespace plimsoll::balance {
namespace {

struct Draft {
  PlacementItems::Choice choice;
  std::vector<double> load;    // [num_records * stride]
  std::vector<Amounts> bytes;  // [num_records]
};

// A choice with its largest piece in place of all, or piece by piece.
Draft draft_choice(const PlacementProblem& problem, const UnitChoice& given, int index) {
  const auto stride = static_cast<std::size_t>(problem.num_rank_classes) *
                      static_cast<std::size_t>(problem.num_barriers);
  Draft draft;
  PlacementItems::Choice& choice = draft.choice;
  choice.index = index;
  choice.spread = given.spread;
  choice.distinct_ranks = given.distinct_ranks;
  const auto append = [&](const PieceRun& run) {
    draft.load.insert(draft.load.end(), run.load.begin(), run.load.end());
    draft.bytes.push_back(run.bytes);
  };
  if (given.spread == Spread::kDevice) {
    choice.num_pieces = 0;
    for (const PieceRun& run : given.runs) {
      const auto count = static_cast<int>(run.count);
      choice.num_pieces += count;
      for (int i = 0; i < (given.runs.size() == 1 ? 1 : count); ++i) append(run);
    }
  } else {
    choice.num_pieces = given.spread == Spread::kHost ? static_cast<int>(given.num_blocks) : 0;
    append(given.runs.front());
    for (const PieceRun& run : given.runs) {
      for (std::size_t g = 0; g < stride; ++g) draft.load[g] = std::max(draft.load[g], run.load[g]);
      draft.bytes.front().raise_to(run.bytes);
    }
  }
  choice.num_records = static_cast<int>(draft.bytes.size());
  const int num_copies =
      given.spread == Spread::kDevice && choice.num_records == 1 ? choice.num_pieces
      : given.spread == Spread::kHost    ? choice.num_pieces * problem.ranks_per_host
      : given.spread == Spread::kUniform ? problem.num_ranks
                                         : 1;
  double work = 0;
  for (int r = 0; r < choice.num_records; ++r) {
    double peak = 0;
    double least = -1;
    for (int k = 0; k < problem.num_rank_classes; ++k) {
      double sum = 0;
      for (int g = 0; g < problem.num_barriers; ++g) {
        sum += draft.load[static_cast<std::size_t>(r) * stride +
                          static_cast<std::size_t>(k * problem.num_barriers + g)];
      }
      peak = std::max(peak, sum);
      least = least < 0 ? sum : std::min(least, sum);
    }
    choice.peak = std::max(choice.peak, peak);
    work += least * num_copies;
    choice.bytes.add(draft.bytes[static_cast<std::size_t>(r)], num_copies);
  }
  choice.work = work / problem.num_ranks;
  return draft;
}

class Builder {
 public:
  Builder(const PlacementProblem& problem, const ItemFilter& filter)
      : problem_(problem), filter_(filter) {}

  PlacementItems build() {
    items_.problem = &problem_;
    items_.num_units = problem_.num_units();
    items_.num_ranks = problem_.num_ranks;
    items_.width = problem_.ranks_per_host;
    items_.num_hosts = problem_.num_hosts();
    items_.stride = problem_.num_rank_classes * problem_.num_barriers;
    items_.first_choice.push_back(0);
    items_.first_slot.push_back(0);
    for (const Amounts& caps : problem_.caps) largest_cap_.raise_to(caps);
    is_apart_.assign(static_cast<std::size_t>(items_.num_units), false);
    for (const std::vector<int>& set : problem_.apart) {
      for (const int unit : set) is_apart_[unit] = is_apart_[unit] || set.size() > 1;
    }
    for (int unit = 0; unit < items_.num_units; ++unit) add_unit(unit);
    for (int t = 0; t < problem_.num_resources(); ++t) {
      if (std::any_of(items_.bytes.begin(), items_.bytes.end(),
                      [t](const Amounts& bytes) { return bytes[t] > 0; })) {
        items_.resources.push_back(t);
      }
    }
    return std::move(items_);
  }

 private:
  void add_unit(int unit) {
    const Unit& given = problem_.units[unit];
    std::vector<Draft> drafts;
    for (std::size_t c = 0; c < given.choices.size(); ++c) {
      const UnitChoice& choice = given.choices[c];
      note_uneven_runs(choice);
      if (!has_allowed_causes(choice)) continue;
      if (!filter_.is_choice_allowed.empty() && filter_.is_choice_allowed[unit][c] == 0) continue;
      Draft draft = draft_choice(problem_, choice, static_cast<int>(c));
      if (can_stand(unit, draft)) drafts.push_back(std::move(draft));
    }
    std::stable_sort(drafts.begin(), drafts.end(),
                     [](const Draft& a, const Draft& b) { return a.choice.work < b.choice.work; });
    items_.first_stand_in.push_back(static_cast<int>(items_.stand_in.size()));
    items_.stand_in.resize(items_.stand_in.size() + given.choices.size(), -1);
    int most_pieces = 0;
    std::vector<const Draft*> kept;
    for (const Draft& draft : drafts) {
      const auto better = std::find_if(kept.begin(), kept.end(), [&](const Draft* other) {
        return !filter_.keeps_dominated && dominates(given, *other, draft);
      });
      int& stand_in = items_.stand_in[items_.first_stand_in.back() + draft.choice.index];
      if (better != kept.end()) {
        stand_in = items_.first_choice.back() + static_cast<int>(better - kept.begin());
        continue;
      }
      stand_in = items_.first_choice.back() + static_cast<int>(kept.size());
      kept.push_back(&draft);
      most_pieces = std::max(most_pieces, draft.choice.num_pieces);
    }
    for (const Draft* draft : kept) {
      PlacementItems::Choice choice = draft->choice;
      choice.first_record = static_cast<int>(items_.bytes.size());
      items_.load.insert(items_.load.end(), draft->load.begin(), draft->load.end());
      items_.bytes.insert(items_.bytes.end(), draft->bytes.begin(), draft->bytes.end());
      items_.choices.push_back(choice);
    }
    if (kept.empty()) items_.empty_units.push_back(unit);
    items_.first_choice.push_back(static_cast<int>(items_.choices.size()));
    items_.first_slot.push_back(items_.first_slot.back() + most_pieces);
    items_.unit_of_slot.resize(static_cast<std::size_t>(items_.first_slot.back()), unit);
  }

  void note_uneven_runs(const UnitChoice& choice) {
    if (choice.spread == Spread::kDevice) return;
    for (const PieceRun& run : choice.runs) {
      items_.has_exact_loads = items_.has_exact_loads && run.load == choice.runs.front().load;
      items_.has_exact_bytes = items_.has_exact_bytes && run.bytes == choice.runs.front().bytes;
    }
  }

  bool has_allowed_causes(const UnitChoice& choice) const {
    return filter_.is_cause_allowed.empty() ||
           std::all_of(choice.causes.begin(), choice.causes.end(),
                       [this](int cause) { return filter_.is_cause_allowed[cause]; });
  }

  bool can_stand(int unit, const Draft& draft) const {
    const Spread spread = draft.choice.spread;
    const std::vector<int>& allowed = problem_.units[unit].allowed_ranks;
    const int num_allowed = allowed.empty() ? items_.num_ranks : static_cast<int>(allowed.size());
    if (spread == Spread::kHost && items_.num_hosts == 0) return false;
    if (spread == Spread::kUniform && (is_apart_[unit] || num_allowed < items_.num_ranks)) {
      return false;
    }
    if (draft.choice.distinct_ranks && draft.choice.num_pieces > num_allowed) return false;
    for (const Amounts& bytes : draft.bytes) {
      for (int t = 0; t < problem_.num_resources(); ++t) {
        if (!problem_.resources[t].is_pooled && bytes[t] > largest_cap_[t]) return false;
      }
    }
    return true;
  }

  static bool dominates(const Unit& unit, const Draft& a, const Draft& b) {
    if (a.choice.spread != b.choice.spread || a.choice.num_pieces != b.choice.num_pieces ||
        a.choice.num_records != b.choice.num_records ||
        (a.choice.distinct_ranks && !b.choice.distinct_ranks)) {
      return false;
    }
    for (std::size_t i = 0; i < a.load.size(); ++i) {
      if (a.load[i] > b.load[i]) return false;
    }
    for (std::size_t r = 0; r < a.bytes.size(); ++r) {
      if (!a.bytes[r].is_at_most(b.bytes[r])) return false;
    }
    const std::vector<int>& causes = unit.choices[a.choice.index].causes;
    const std::vector<int>& others = unit.choices[b.choice.index].causes;
    return std::includes(others.begin(), others.end(), causes.begin(), causes.end());
  }

  const PlacementProblem& problem_;
  const ItemFilter& filter_;
  PlacementItems items_;
  Amounts largest_cap_{};
  std::vector<bool> is_apart_;
};

}  // namespace

int PlacementItems::find_choice(int unit, int index) const {
  return stand_in[first_stand_in[unit] + index];
}

UnitPlacements PlacementItems::placements(const std::vector<int>& choice_of,
                                          const std::vector<int>& place_of) const {
  UnitPlacements placements;
  placements.units.resize(static_cast<std::size_t>(num_units));
  for (int unit = 0; unit < num_units; ++unit) {
    const Choice& choice = choices[choice_of[unit]];
    UnitPlacement& placement = placements.units[unit];
    placement.choice = choice.index;
    const int first = first_slot[unit];
    for (int i = 0; i < choice.num_pieces; ++i) placement.slots.push_back(place_of[first + i]);
  }
  return placements;
}

PlacementItems make_placement_items(const PlacementProblem& problem, const ItemFilter& filter) {
  PLIMSOLL_DCHECK(validate(problem).has_value(), "the problem is valid");
  return Builder(problem, filter).build();
}

}  // namespace plimsoll::balance
