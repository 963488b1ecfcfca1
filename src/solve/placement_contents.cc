#include "plimsoll/solve/placement_contents.h"

#include <algorithm>
#include <array>

namespace plimsoll::solve {
namespace {

void add_bytes(TierBytes& sum, const TierBytes& bytes, std::int64_t times) {
  for (int tier = 0; tier < kNumTiers; ++tier) sum[tier] += times * bytes[tier];
}

// The largest bytes of any piece.
TierBytes largest_bytes(const UnitChoice& choice) {
  TierBytes largest{};
  for (const PieceRun& run : choice.runs) {
    for (int tier = 0; tier < kNumTiers; ++tier) {
      largest[tier] = std::max(largest[tier], run.bytes[tier]);
    }
  }
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

bool is_everywhere(const ContentModel& model, const UnitChoice& choice) {
  return choice.spread == Spread::kUniform ||
         (choice.spread == Spread::kHost && model.width == model.num_ranks);
}

void place_everywhere(const ContentModel& model, int unit, int choice, UnitPlacements& result) {
  const UnitChoice& c = model.problem->units[unit].choices[choice];
  result.units[unit].choice = choice;
  if (c.spread == Spread::kHost) {
    result.units[unit].slots.assign(static_cast<std::size_t>(c.num_blocks), 0);
  }
}

class Maker {
 public:
  Maker(const PlacementProblem& problem, const PlacementGroups& groups)
      : problem_(problem), groups_(groups) {}

  ContentModel make(const Survivors& survivors, const std::vector<double>& price) {
    const PatternModel patterns = make_pattern_model(groups_, survivors);
    result_.problem = &problem_;
    result_.num_ranks = problem_.num_ranks;
    result_.width = problem_.ranks_per_host;
    result_.num_hosts = problem_.num_hosts();
    result_.cap = problem_.caps.front();
    for (std::size_t a = 0; a < price.size(); ++a) {
      result_.byte_price[groups_.ranks.accounts[a].tier] = price[a];
    }
    survivors_ = &survivors;
    for (const PatternClass& c : patterns.classes) result_.classes.push_back(make_class(c));
    for (const PatternItem& item : patterns.items) add_item(item);
    for (const PatternClass& c : patterns.forced) {
      const ContentClass forced = make_class(c);
      result_.forced_load += forced.uniform_load.back();
      add_bytes(result_.forced_bytes, forced.uniform_bytes.back(), 1);
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
        const TierBytes bytes = largest_bytes(c);
        const auto times = static_cast<double>(times_everywhere(c));
        double cost = step.load;
        for (int tier = 0; tier < kNumTiers; ++tier) {
          cost += result_.byte_price[tier] * static_cast<double>(bytes[tier]) * times *
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
    result.uniform_bytes = {TierBytes{}};
    for (const Entry& entry : entries) {
      result.units.push_back(entry.unit);
      result.uniform_choice.push_back(entry.choice);
      result.item_choice.push_back(entry.placed);
      result.uniform_load.push_back(result.uniform_load.back() + entry.load);
      TierBytes bytes = result.uniform_bytes.back();
      if (entry.choice >= 0) {
        ++result.num_uniform_at_most;
        const UnitChoice& choice = problem_.units[entry.unit].choices[entry.choice];
        add_bytes(bytes, largest_bytes(choice), times_everywhere(choice));
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
  const auto is_equal = [&](const TierBytes& caps) { return caps == problem.caps.front(); };
  const auto is_free = [](const Unit& unit) { return unit.allowed_ranks.empty(); };
  const auto is_alone = [](const std::vector<int>& set) { return set.size() < 2; };
  if (!std::all_of(problem.caps.begin(), problem.caps.end(), is_equal) ||
      !std::all_of(problem.units.begin(), problem.units.end(), is_free) ||
      !std::all_of(problem.apart.begin(), problem.apart.end(), is_alone)) {
    return std::nullopt;
  }
  ContentModel model = Maker(problem, groups).make(survivors, price);
  // A unit without any choice left.
  if (!(model.forced_load < kInfinity)) return std::nullopt;
  return model;
}

Contents::Contents(const ContentModel& model)
    : model_(&model),
      uniform_(model.forced_load),
      uniform_bytes_(model.forced_bytes),
      load_(static_cast<std::size_t>(model.num_ranks), 0),
      bytes_(load_.size()),
      on_rank_(load_.size()),
      on_host_(static_cast<std::size_t>(model.num_hosts)),
      parts_(model.items.size(), 0),
      started_(model.items.size(), 0),
      num_uniform_(model.classes.size(), 0) {
  for (const ContentClass& c : model.classes) left_.push_back(c.count());
}

std::optional<Contents> Contents::from(const ContentModel& model,
                                       const UnitPlacements& placements) {
  Contents result(model);
  for (std::size_t c = 0; c < model.classes.size(); ++c) {
    const ContentClass& of = model.classes[c];
    int num_uniform = 0;
    for (std::size_t u = 0; u < of.units.size(); ++u) {
      const int unit = of.units[u];
      const UnitPlacement& placement = placements.units[unit];
      if (is_everywhere(model, model.problem->units[unit].choices[placement.choice])) {
        ++num_uniform;
        continue;
      }
      const auto item = std::find_if(of.items.begin(), of.items.end(), [&](int i) {
        return of.item_choice[u][static_cast<std::size_t>(model.items[i].number)] ==
               placement.choice;
      });
      if (item == of.items.end()) return std::nullopt;
      for (const int place : placement.slots) {
        if (!result.fits(*item, place)) return std::nullopt;
        result.put(*item, place);
      }
    }
    if (num_uniform > of.num_uniform_at_most ||
        !result.set_uniform(static_cast<int>(c), num_uniform)) {
      return std::nullopt;
    }
  }
  if (!result.is_complete()) return std::nullopt;
  return result;
}

UnitPlacements Contents::placements() const {
  UnitPlacements result;
  result.units.resize(model_->problem->units.size());
  for (const auto& [unit, choice] : model_->forced) {
    place_everywhere(*model_, unit, choice, result);
  }
  std::vector<std::vector<int>> places(model_->items.size());
  for (std::size_t host = 0; host < on_host_.size(); ++host) {
    for (const int item : on_host_[host]) places[item].push_back(static_cast<int>(host));
  }
  for (std::size_t rank = 0; rank < on_rank_.size(); ++rank) {
    for (const int item : on_rank_[rank]) places[item].push_back(static_cast<int>(rank));
  }
  for (std::size_t c = 0; c < model_->classes.size(); ++c) {
    const ContentClass& of = model_->classes[c];
    auto next = static_cast<std::size_t>(num_uniform_[c]);
    for (std::size_t i = 0; i < next; ++i) {
      place_everywhere(*model_, of.units[i], of.uniform_choice[i], result);
    }
    for (const int item : of.items) {
      const auto n = static_cast<std::size_t>(model_->items[item].num_parts);
      for (std::size_t first = 0; first + n <= places[item].size(); first += n) {
        UnitPlacement& placement = result.units[of.units[next]];
        placement.choice =
            of.item_choice[next][static_cast<std::size_t>(model_->items[item].number)];
        ++next;
        const auto begin = places[item].begin() + static_cast<std::ptrdiff_t>(first);
        placement.slots.assign(begin, begin + static_cast<std::ptrdiff_t>(n));
      }
    }
  }
  return result;
}

bool Contents::is_complete() const {
  if (std::any_of(left_.begin(), left_.end(), [](int left) { return left > 0; })) return false;
  for (std::size_t item = 0; item < parts_.size(); ++item) {
    if (owed(static_cast<int>(item)) > 0) return false;
  }
  return true;
}

double Contents::largest_load() const { return *std::max_element(load_.begin(), load_.end()); }

Bytes Contents::free_bytes(int tier) const {
  Bytes sum = model_->num_ranks * (model_->cap[tier] - uniform_bytes_[tier]);
  for (const TierBytes& bytes : bytes_) sum -= bytes[tier];
  return sum;
}

bool Contents::fits(int item, int place) const {
  const ContentItem& i = model_->items[item];
  const int first = i.is_block ? place * model_->width : place;
  const int end = i.is_block ? first + model_->width : first + 1;
  for (int tier = 0; tier < kNumTiers; ++tier) {
    if (i.bytes[tier] == 0) continue;
    const Bytes room = model_->cap[tier] - uniform_bytes_[tier] - i.bytes[tier];
    for (int rank = first; rank < end; ++rank) {
      if (bytes_[rank][tier] > room) return false;
    }
  }
  return true;
}

void Contents::add(int item, int place, int sign) {
  const ContentItem& i = model_->items[item];
  const int first = i.is_block ? place * model_->width : place;
  const int end = i.is_block ? first + model_->width : first + 1;
  for (int rank = first; rank < end; ++rank) {
    load_[rank] += sign * i.load;
    add_bytes(bytes_[rank], i.bytes, sign);
  }
}

void Contents::put(int item, int place) {
  const ContentItem& i = model_->items[item];
  if (owed(item) == 0) {
    --left_[i.class_index];
    ++started_[item];
  }
  ++parts_[item];
  add(item, place, 1);
  (i.is_block ? on_host_ : on_rank_)[place].push_back(item);
}

void Contents::take(int item, int place) {
  const ContentItem& i = model_->items[item];
  std::vector<int>& list = (i.is_block ? on_host_ : on_rank_)[place];
  list.erase(std::find(list.begin(), list.end(), item));
  add(item, place, -1);
  --parts_[item];
  if (owed(item) >= i.num_parts) {
    --started_[item];
    ++left_[i.class_index];
  }
}

void Contents::clear_rank(int rank) {
  while (!on_rank_[rank].empty()) take(on_rank_[rank].back(), rank);
}

void Contents::clear_host(int host) {
  while (!on_host_[host].empty()) take(on_host_[host].back(), host);
}

bool Contents::has_uniform_room(const TierBytes& more) const {
  for (int tier = 0; tier < kNumTiers; ++tier) {
    if (more[tier] <= 0) continue;
    const Bytes room = model_->cap[tier] - uniform_bytes_[tier] - more[tier];
    if (std::any_of(bytes_.begin(), bytes_.end(),
                    [&](const TierBytes& bytes) { return bytes[tier] > room; })) {
      return false;
    }
  }
  return true;
}

bool Contents::set_uniform(int class_index, int count) {
  const ContentClass& c = model_->classes[class_index];
  const int now = num_uniform_[class_index];
  TierBytes more = c.uniform_bytes[count];
  add_bytes(more, c.uniform_bytes[now], -1);
  if (!has_uniform_room(more)) return false;
  uniform_ += c.uniform_load[count] - c.uniform_load[now];
  add_bytes(uniform_bytes_, more, 1);
  num_uniform_[class_index] = count;
  left_[class_index] -= count - now;
  return true;
}

void Contents::free_uniform() {
  for (std::size_t c = 0; c < num_uniform_.size(); ++c) set_uniform(static_cast<int>(c), 0);
  uniform_ = model_->forced_load;
}

void Contents::give_up_owed(int item) {
  std::vector<std::vector<int>>& lists = model_->items[item].is_block ? on_host_ : on_rank_;
  for (int rank = static_cast<int>(lists.size()); rank-- > 0;) {
    while (owed(item) > 0 &&
           std::find(lists[rank].begin(), lists[rank].end(), item) != lists[rank].end()) {
      take(item, rank);
    }
  }
}

}  // namespace plimsoll::solve
