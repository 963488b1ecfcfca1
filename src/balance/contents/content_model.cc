#include "balance/contents/content_model.h"

#include <algorithm>

namespace plimsoll::balance {
namespace {

// The largest bytes of any piece.
Amounts largest_bytes(const UnitChoice& choice) {
  Amounts largest{};
  for (const PieceRun& run : choice.runs) largest.raise_to(run.bytes);
  return largest;
}

double largest_load_of(const UnitChoice& choice) {
  double largest = 0;
  for (const PieceRun& run : choice.runs) largest = std::max(largest, run.load[0]);
  return largest;
}

// Blocks on the only host there is stand everywhere; `times` of them are one choice.
std::int64_t times_everywhere(const UnitChoice& choice) {
  return choice.spread == Spread::kHost ? choice.num_blocks : 1;
}

class ContentModelMaker {
 public:
  ContentModelMaker(const PlacementProblem& problem, const PlacementGroups& groups)
      : problem_(problem), groups_(groups) {}

  ContentModel make(const Survivors& survivors, const std::vector<double>& price) {
    const PatternModel patterns = make_pattern_model(groups_, survivors);
    result_.problem = &problem_;
    result_.num_ranks = problem_.num_ranks;
    result_.width = problem_.ranks_per_host;
    result_.num_hosts = problem_.num_hosts();
    result_.cap = problem_.caps.front();
    for (std::size_t a = 0; a < price.size(); ++a) {
      result_.byte_price[groups_.ranks.accounts[a].resource] = price[a];
    }
    survivors_ = &survivors;
    for (const PatternClass& c : patterns.classes) result_.classes.push_back(make_class(c));
    for (const PatternItem& item : patterns.items) add_item(item);
    for (const PatternClass& c : patterns.forced) {
      const ContentClass forced = make_class(c);
      result_.forced_load += forced.uniform_load.back();
      result_.forced_bytes.add(forced.uniform_bytes.back(), 1);
      for (std::size_t i = 0; i < forced.units.size(); ++i) {
        result_.forced.emplace_back(forced.units[i], forced.uniform_choice[i]);
      }
    }
    return std::move(result_);
  }

 private:
  ContentClass make_class(const PatternClass& of) const {
    struct Entry {
      double load = kInfinity;
      int unit = 0;
      int choice = -1;
      std::vector<int> placed;
    };
    std::vector<Entry> entries;
    for (const int group : of.groups) {
      Entry entry;
      entry.placed = placed_choices(group);
      double least = kInfinity;
      for (const PatternStep& step : of.steps) {
        if (step.group != group) continue;
        const int choice = groups_.choices[step.choice].choice;
        const UnitChoice& c = choice_of(group, choice);
        const Amounts bytes = largest_bytes(c);
        const auto times = static_cast<double>(times_everywhere(c));
        double cost = step.load;
        for (int resource = 0; resource < problem_.num_resources(); ++resource) {
          cost += result_.byte_price[resource] * static_cast<double>(bytes[resource]) * times *
                  problem_.num_ranks;
        }
        if (cost >= least) continue;
        least = cost;
        entry.load = largest_load_of(c) * times;
        entry.choice = choice;
      }
      for (const int unit : groups_.groups[group].units) {
        entry.unit = unit;
        entries.push_back(entry);
      }
    }
    std::stable_sort(entries.begin(), entries.end(),
                     [](const Entry& a, const Entry& b) { return a.load < b.load; });
    ContentClass result;
    result.uniform_load = {0};
    result.uniform_bytes = {Amounts{}};
    for (const Entry& entry : entries) {
      result.units.push_back(entry.unit);
      result.uniform_choice.push_back(entry.choice);
      result.item_choice.push_back(entry.placed);
      result.uniform_load.push_back(result.uniform_load.back() + entry.load);
      Amounts bytes = result.uniform_bytes.back();
      if (entry.choice >= 0) {
        ++result.num_uniform_at_most;
        const UnitChoice& choice = problem_.units[entry.unit].choices[entry.choice];
        bytes.add(largest_bytes(choice), times_everywhere(choice));
      }
      result.uniform_bytes.push_back(bytes);
    }
    return result;
  }

  // Surviving choices with something to place, in order: those of groups of one class are equal one
  // by one, though they may have other numbers.
  std::vector<int> placed_choices(int group) const {
    const PlacementGroup& g = groups_.groups[group];
    std::vector<int> result;
    for (int c = g.first_choice; c < g.first_choice + g.num_choices; ++c) {
      const GroupChoice& choice = groups_.choices[c];
      if (survivors_->choice[c] && !choice.is_everywhere) result.push_back(choice.choice);
    }
    return result;
  }

  const UnitChoice& choice_of(int group, int choice) const {
    return problem_.units[groups_.groups[group].units.front()].choices[choice];
  }

  void add_item(const PatternItem& item) {
    const GroupChoice& choice = groups_.choices[item.choice];
    if (choice.num_part_runs != 1) return;
    ContentClass& c = result_.classes[item.class_index];
    const auto number = static_cast<std::size_t>(number_of(item));
    const UnitChoice& given =
        problem_.units[c.units.front()].choices[c.item_choice.front()[number]];
    c.items.push_back(static_cast<int>(result_.items.size()));
    result_.items.push_back({item.class_index, static_cast<int>(number), item.is_block,
                             static_cast<int>(choice.num_parts), largest_load_of(given),
                             largest_bytes(given)});
  }

  // Of the item's choice among those of the class's first group.
  int number_of(const PatternItem& item) const {
    int number = 0;
    for (int c = item.choice; c-- > 0;) {
      if (c < first_choice_of(item)) break;
      number += survivors_->choice[c] && !groups_.choices[c].is_everywhere;
    }
    return number;
  }

  int first_choice_of(const PatternItem& item) const {
    const auto after = std::upper_bound(
        groups_.groups.begin(), groups_.groups.end(), item.choice,
        [](int choice, const PlacementGroup& group) { return choice < group.first_choice; });
    return (after - 1)->first_choice;
  }

  const PlacementProblem& problem_;
  const PlacementGroups& groups_;
  const Survivors* survivors_ = nullptr;
  ContentModel result_;
};

}  // namespace

std::optional<ContentModel> make_content_model(const PlacementProblem& problem,
                                               const PlacementGroups& groups,
                                               const Survivors& survivors,
                                               const std::vector<double>& price) {
  if (problem.num_barriers != 1 || problem.num_rank_classes != 1 || survivors.is_dead()) {
    return std::nullopt;
  }
  const auto is_equal = [&](const Amounts& caps) { return caps == problem.caps.front(); };
  const auto is_free = [](const Unit& unit) { return unit.allowed_ranks.empty(); };
  const auto is_alone = [](const std::vector<int>& set) { return set.size() < 2; };
  if (!std::all_of(problem.caps.begin(), problem.caps.end(), is_equal) ||
      !std::all_of(problem.units.begin(), problem.units.end(), is_free) ||
      !std::all_of(problem.apart.begin(), problem.apart.end(), is_alone)) {
    return std::nullopt;
  }
  Survivors free = survivors;  // whose pieces may stand together
  for (std::size_t c = 0; c < groups.choices.size(); ++c) {
    if (groups.choices[c].distinct_ranks) free.choice[c] = 0;
  }
  ContentModel model = ContentModelMaker(problem, groups).make(free, price);
  // A unit without any choice left.
  if (!(model.forced_load < kInfinity)) return std::nullopt;
  return model;
}

}  // namespace plimsoll::balance
