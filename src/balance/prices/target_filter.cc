#include "balance/prices/target_filter.h"

#include <algorithm>

namespace plimsoll::balance {
namespace {

struct Floor {
  double load = 0;
  Amounts bytes{};
};

class Filter {
 public:
  Filter(const PlacementGroups& groups, double target)
      : groups_(groups), target_(target * (1 + 1e-12)), floor_(groups.ranks.kinds.size()) {
    result_.choice.assign(groups.choices.size(), 1);
    result_.place.assign(groups.places.size(), 1);
    own_.assign(groups.groups.size() * floor_.size(), {});
    is_forced_.assign(groups.groups.size(), 0);
  }

  Survivors run(const FilterRules& rules) {
    bool has_changed = true;
    while (has_changed && result_.dead_group < 0) {
      has_changed = false;
      for (int group = 0; group < groups_.num_groups(); ++group) {
        has_changed |= filter(group);
        if (result_.dead_group >= 0) break;
      }
      if (!rules.cascade) break;
      has_changed |= raise_floors();
    }
    for (const Floor& floor : floor_) {
      result_.floor_load.push_back(floor.load);
      result_.floor_bytes.push_back(floor.bytes);
    }
    result_.num_choices = std::count(result_.choice.begin(), result_.choice.end(), 1);
    result_.num_places = std::count(result_.place.begin(), result_.place.end(), 1);
    return std::move(result_);
  }

 private:
  bool fits(int group, const ChoicePlace& place) const {
    for (const ChoiceShare& share : groups_.shares_of(place)) {
      const Floor& floor = floor_[share.kind];
      const Floor& own = own_[static_cast<std::size_t>(group) * floor_.size() +
                              static_cast<std::size_t>(share.kind)];
      if (share.largest_load + (floor.load - own.load) > target_) return false;
      const Amounts& cap = groups_.ranks.kinds[share.kind].cap;
      for (int resource = 0; resource < groups_.ranks.num_resources; ++resource) {
        if (share.largest_bytes[resource] + (floor.bytes[resource] - own.bytes[resource]) >
            cap[resource]) {
          return false;
        }
      }
    }
    return true;
  }

  bool filter(int number) {
    const PlacementGroup& group = groups_.groups[number];
    bool has_changed = false;
    bool is_alive = false;
    for (int c = group.first_choice; c < group.first_choice + group.num_choices; ++c) {
      if (!result_.choice[c]) continue;
      for (const ChoicePart& part : groups_.parts_of(groups_.choices[c])) {
        bool has_place = false;
        for (int p = part.first_place; p < part.first_place + part.num_places; ++p) {
          if (!result_.place[p]) continue;
          if (fits(number, groups_.places[p])) {
            has_place = true;
          } else {
            result_.place[p] = 0;
            has_changed = true;
          }
        }
        if (!has_place) result_.choice[c] = 0;
      }
      is_alive |= result_.choice[c] != 0;
    }
    if (!is_alive) result_.dead_group = number;
    return has_changed;
  }

  // The least that a unit puts on a rank of the kind, over its surviving choices.
  Floor least(const PlacementGroup& group, int kind) const {
    Floor least;
    bool is_first = true;
    for (int c = group.first_choice; c < group.first_choice + group.num_choices; ++c) {
      if (!result_.choice[c]) continue;
      const ChoicePart& part = groups_.parts[groups_.choices[c].first_part];
      const ChoicePlace& place = groups_.places[part.first_place];
      for (const ChoiceShare& share : groups_.shares_of(place)) {
        if (share.kind != kind) continue;
        least.load = is_first ? share.least_load : std::min(least.load, share.least_load);
        for (int resource = 0; resource < groups_.ranks.num_resources; ++resource) {
          least.bytes[resource] =
              is_first ? share.least_bytes[resource]
                       : std::min(least.bytes[resource], share.least_bytes[resource]);
        }
        is_first = false;
      }
    }
    return least;
  }

  bool raise_floors() {
    bool has_changed = false;
    for (int number = 0; number < groups_.num_groups(); ++number) {
      const PlacementGroup& group = groups_.groups[number];
      bool is_uniform = true;
      for (int c = group.first_choice; c < group.first_choice + group.num_choices; ++c) {
        is_uniform &= !result_.choice[c] || groups_.choices[c].is_everywhere;
      }
      if (!is_uniform) continue;
      for (std::size_t kind = 0; kind < floor_.size(); ++kind) {
        Floor& own = own_[static_cast<std::size_t>(number) * floor_.size() + kind];
        const Floor now = least(group, static_cast<int>(kind));
        const auto count = static_cast<std::int64_t>(group.units.size());
        has_changed |= !is_forced_[number] || now.load > own.load || now.bytes != own.bytes;
        floor_[kind].load += group.count() * (now.load - own.load);
        for (int resource = 0; resource < groups_.ranks.num_resources; ++resource) {
          floor_[kind].bytes[resource] += count * (now.bytes[resource] - own.bytes[resource]);
        }
        own = now;
      }
      is_forced_[number] = 1;
    }
    return has_changed;
  }

  const PlacementGroups& groups_;
  const double target_;
  std::vector<Floor> floor_;  // [kinds]
  std::vector<Floor> own_;    // [groups * kinds] what one unit of the group has put there
  std::vector<char> is_forced_;
  Survivors result_;
};

}  // namespace

Survivors filter_by_target(const PlacementGroups& groups, double target, const FilterRules& rules) {
  return Filter(groups, target).run(rules);
}

}  // namespace plimsoll::balance
