#include "balance/patterns/pattern_model.h"

#include <algorithm>
#include <map>
#include <string>

namespace plimsoll::balance {
namespace {

class PatternModelMaker {
 public:
  PatternModelMaker(const PlacementGroups& groups, const Survivors& survivors)
      : groups_(groups), survivors_(survivors) {}

  PatternModel make() {
    for (int group = 0; group < groups_.num_groups(); ++group) {
      PatternClass& target = class_of(group);
      target.groups.push_back(group);
      target.count += groups_.groups[group].count();
      add_steps(group, target);
    }
    for (std::vector<PatternClass>* classes : {&result_.classes, &result_.forced}) {
      for (PatternClass& c : *classes) {
        std::stable_sort(c.steps.begin(), c.steps.end(),
                         [](const auto& a, const auto& b) { return a.load < b.load; });
      }
    }
    for (std::size_t c = 0; c < result_.classes.size(); ++c) add_items(static_cast<int>(c));
    add_bins();
    return std::move(result_);
  }

 private:
  template <class Visit>
  void for_choices(int group, bool is_uniform, const Visit& visit) const {
    const PlacementGroup& g = groups_.groups[group];
    for (int c = g.first_choice; c < g.first_choice + g.num_choices; ++c) {
      const bool matches = groups_.choices[c].is_everywhere == is_uniform;
      if (survivors_.choice[c] && matches) visit(c);
    }
  }

  // Equal for groups with equal surviving device and host choices; empty without any.
  std::string key(int group) const {
    std::string key;
    const auto put = [&](const auto& value) {
      key.append(reinterpret_cast<const char*>(&value), sizeof value);
    };
    for_choices(group, false, [&](int c) {
      put(groups_.choices[c].spread);
      put(groups_.choices[c].num_parts);
      for (const ChoicePart& part : groups_.parts_of(groups_.choices[c])) {
        put(part.count);
        for (int p = part.first_place; p < part.first_place + part.num_places; ++p) {
          if (!survivors_.place[p]) continue;
          put(groups_.places[p].host_kind);
          for (const ChoiceShare& share : groups_.shares_of(groups_.places[p])) {
            put(share.kind);
            put(share.load);
            put(share.least_load);
            put(share.bytes);
          }
        }
      }
    });
    return key;
  }

  PatternClass& class_of(int group) {
    std::string k = key(group);
    if (k.empty()) return result_.forced.emplace_back();
    const auto [at, is_new] = known_.emplace(std::move(k), result_.classes.size());
    if (is_new) result_.classes.emplace_back();
    return result_.classes[at->second];
  }

  void add_steps(int group, PatternClass& target) const {
    for_choices(group, true, [&](int c) {
      const ChoicePart& part = groups_.parts[groups_.choices[c].first_part];
      PatternStep step{group, c, kInfinity, groups_.groups[group].count(), {}};
      step.bytes.assign(groups_.ranks.accounts.size(), 0);
      for (const ChoiceShare& share : groups_.shares_of(groups_.places[part.first_place])) {
        step.load = std::min(step.load, share.least_load);
        for (int resource = 0; resource < groups_.ranks.num_resources; ++resource) {
          step.bytes[groups_.ranks.kinds[share.kind].account[resource]] +=
              static_cast<double>(share.bytes[resource]);
        }
      }
      target.steps.push_back(std::move(step));
    });
  }

  void add_items(int class_index) {
    const PatternClass& c = result_.classes[class_index];
    for_choices(c.groups[0], false, [&](int choice) {
      const GroupChoice& of = groups_.choices[choice];
      for (int part = of.first_part; part < of.first_part + of.num_part_runs; ++part) {
        const bool is_block = of.spread == Spread::kHost;
        const std::size_t places =
            is_block ? groups_.ranks.host_kinds.size() : groups_.ranks.kinds.size();
        PatternItem item{class_index,
                         choice,
                         part,
                         is_block,
                         1.0 / static_cast<double>(of.num_parts),
                         static_cast<std::int64_t>(c.count) * groups_.parts[part].count,
                         std::vector<int>(places, -1),
                         std::vector<double>(places, -1)};
        const ChoicePart& p = groups_.parts[part];
        for (int place = p.first_place; place < p.first_place + p.num_places; ++place) {
          if (!survivors_.place[place]) continue;
          const auto shares = groups_.shares_of(groups_.places[place]);
          const int at = is_block ? groups_.places[place].host_kind : shares[0].kind;
          item.place[at] = place;
          double load = kInfinity;
          for (const ChoiceShare& share : shares) load = std::min(load, share.least_load);
          item.load[at] = load;
        }
        result_.items.push_back(std::move(item));
      }
    });
  }

  void add_bins() {
    // Ranks on which every device item has the same load, and bytes the same price, are alike.
    std::map<std::vector<double>, int> known;
    std::vector<int> table_of_kind;
    for (int kind = 0; kind < groups_.ranks.num_kinds(); ++kind) {
      std::vector<double> loads;
      for (int r = 0; r < groups_.ranks.num_resources; ++r) {
        loads.push_back(groups_.ranks.kinds[kind].account[r]);
      }
      for (const PatternItem& item : result_.items) {
        if (!item.is_block) loads.push_back(item.load[kind]);
      }
      const auto [at, is_new] =
          known.emplace(std::move(loads), static_cast<int>(result_.table_kinds.size()));
      if (is_new) result_.table_kinds.push_back(kind);
      table_of_kind.push_back(at->second);
    }
    const auto add_rank = [](PatternBin& bin, int table) {
      for (std::size_t i = 0; i < bin.tables.size(); ++i) {
        if (bin.tables[i] == table) {
          bin.ranks[i] += 1;
          return;
        }
      }
      bin.tables.push_back(table);
      bin.ranks.push_back(1);
    };
    for (std::size_t h = 0; h < groups_.ranks.host_kinds.size(); ++h) {
      const HostKind& host = groups_.ranks.host_kinds[h];
      PatternBin bin{static_cast<double>(host.hosts.size()), static_cast<int>(h), {}, {}};
      for (const int kind : host.kinds) add_rank(bin, table_of_kind[kind]);
      result_.bins.push_back(std::move(bin));
    }
    for (int kind = 0; kind < groups_.ranks.num_kinds(); ++kind) {
      const RankKind& k = groups_.ranks.kinds[kind];
      if (k.host_kind >= 0) continue;
      result_.bins.push_back(
          {static_cast<double>(k.ranks.size()), -1, {table_of_kind[kind]}, {1.0}});
    }
  }

  const PlacementGroups& groups_;
  const Survivors& survivors_;
  std::map<std::string, std::size_t> known_;
  PatternModel result_;
};

}  // namespace

PatternModel make_pattern_model(const PlacementGroups& groups, const Survivors& survivors) {
  return PatternModelMaker(groups, survivors).make();
}

std::vector<int> classes_of_units(const PlacementGroups& groups, const PatternModel& model) {
  std::size_t num_units = 0;
  for (const PlacementGroup& group : groups.groups) num_units += group.units.size();
  std::vector<int> result(num_units, static_cast<int>(model.classes.size()));
  for (std::size_t c = 0; c < model.classes.size(); ++c) {
    for (const int group : model.classes[c].groups) {
      for (const int unit : groups.groups[group].units) result[unit] = static_cast<int>(c);
    }
  }
  return result;
}

double bytes_cost(const PlacementGroups& groups, int place, const std::vector<double>& price) {
  double cost = 0;
  for (const ChoiceShare& share : groups.shares_of(groups.places[place])) {
    for (int resource = 0; resource < groups.ranks.num_resources; ++resource) {
      cost += price[groups.ranks.kinds[share.kind].account[resource]] *
              static_cast<double>(share.bytes[resource]);
    }
  }
  return cost;
}

}  // namespace plimsoll::balance
