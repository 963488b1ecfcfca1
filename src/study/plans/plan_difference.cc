#include "plimsoll/study/plan_difference.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>
#include <set>
#include <unordered_map>
#include <utility>

#include "plimsoll/core/checked.h"
#include "study/plans/shard_moves.h"

namespace plimsoll::study {
namespace {

using embedding::RankRun;

constexpr std::size_t kMostReasons = 5;  // of milliseconds, and as many of bytes

ChangeKind kind_of(const PartChange& change) {
  const auto differs = [&change](const char* choice) {
    return change.before.contains(choice) || change.after.contains(choice);
  };
  if (differs("shards") || differs("sharding_type")) return ChangeKind::kSplit;
  const std::size_t num_places = differs("ranks") + differs("devices") + differs("stage");
  const std::size_t num_choices = std::max(change.before.size(), change.after.size());
  return num_places > 0 && num_places == num_choices ? ChangeKind::kMoved : ChangeKind::kOther;
}

// A name that occurs several times, which no planner writes, is compared in order.
std::vector<PartChange> compare_parts(const PlanOutline& before, const PlanOutline& after) {
  std::unordered_map<std::string_view, std::deque<const PlanPart*>> old_of;
  for (const PlanPart& part : before.parts) old_of[part.name].push_back(&part);
  std::vector<PartChange> changes;
  for (const PlanPart& part : after.parts) {
    const auto found = old_of.find(part.name);
    if (found == old_of.end() || found->second.empty()) {
      changes.push_back({part.name, ChangeKind::kAdded, {}, part.choices, 0, {}});
      continue;
    }
    const PlanPart& old = *found->second.front();
    found->second.pop_front();
    PartChange change{part.name, ChangeKind::kOther, {}, {}, 0, {}};
    for (const auto& [choice, value] : old.choices) {
      const auto is = part.choices.find(choice);
      if (is == part.choices.end() || is->second != value) change.before.emplace(choice, value);
    }
    for (const auto& [choice, value] : part.choices) {
      const auto was = old.choices.find(choice);
      if (was == old.choices.end() || was->second != value) change.after.emplace(choice, value);
    }
    if (change.before.empty() && change.after.empty()) continue;
    change.kind = kind_of(change);
    changes.push_back(std::move(change));
  }
  for (const PlanPart& part : before.parts) {
    std::deque<const PlanPart*>& left = old_of[part.name];
    if (left.empty() || left.front() != &part) continue;
    left.pop_front();
    changes.push_back({part.name, ChangeKind::kRemoved, part.choices, {}, 0, {}});
  }
  return changes;
}

// Every list of `bill` over the places of a difference.
template <class T>
std::map<std::string, std::vector<T>> aligned(const std::map<std::string, std::vector<T>>& lists,
                                              const std::vector<std::size_t>& place_of,
                                              std::size_t num_places) {
  std::map<std::string, std::vector<T>> result;
  for (const auto& [name, values] : lists) {
    std::vector<T>& over = result[name];
    over.resize(num_places, 0);
    for (std::size_t p = 0; p < std::min(values.size(), place_of.size()); ++p) {
      over[place_of[p]] = values[p];
    }
  }
  return result;
}

std::vector<FigureChange> compare_figures(const std::map<std::string, double>& before,
                                          const std::map<std::string, double>& after) {
  std::set<std::string> names;
  for (const auto& [name, value] : before) names.insert(name);
  for (const auto& [name, value] : after) names.insert(name);
  std::vector<FigureChange> changes;
  for (const std::string& name : names) {
    FigureChange change{name, {}, {}};
    if (const auto was = before.find(name); was != before.end()) change.before = was->second;
    if (const auto is = after.find(name); is != after.end()) change.after = is->second;
    changes.push_back(std::move(change));
  }
  return changes;
}

std::vector<LinkChange> compare_links(const PlanOutline& before, const PlanOutline& after) {
  std::map<std::pair<int, int>, LinkChange> links;
  for (const PlanLink& link : before.links) {
    links[{link.from, link.to}] = {link.from, link.to, link.amount, 0};
  }
  for (const PlanLink& link : after.links) {
    LinkChange& change = links[{link.from, link.to}];
    change.from = link.from;
    change.to = link.to;
    change.after = link.amount;
  }
  std::vector<LinkChange> changes;
  for (const auto& [ends, change] : links) {
    if (change.before != change.after) changes.push_back(change);
  }
  return changes;
}

// ---------------------------------------------------------------- reasons

double difference_of(const FigureChange& change) {
  return std::abs(change.after.value_or(0) - change.before.value_or(0));
}

template <class T>
double value_at(const std::map<std::string, std::vector<T>>& lists, const std::string& name,
                std::size_t place) {
  const auto found = lists.find(name);
  return found == lists.end() ? 0 : static_cast<double>(found->second[place]);
}

bool stands_at(const std::vector<RankRun>& runs, std::size_t place) {
  return std::any_of(runs.begin(), runs.end(), [place](const RankRun& run) {
    const auto at = static_cast<std::int64_t>(place);
    return run.first <= at && at < std::int64_t{run.first} + run.count;
  });
}

// What a total consists of. Input distribution is counted in no total.
bool is_cause(const std::string& name, const std::string& total) {
  if (total == "total") return name != "total" && name != "input_dist_comms";
  return name.starts_with(total + "_") && name != "memory_cap";
}

class ReasonFinder {
 public:
  ReasonFinder(const PlanOutline& before, const PlanOutline& after, PlanDifference& difference)
      : difference_(difference) {
    std::unordered_map<std::string_view, std::int32_t> place_of;
    for (std::size_t p = 0; p < difference.places.size(); ++p) {
      place_of.emplace(difference.places[p], static_cast<std::int32_t>(p));
    }
    put_places(before, place_of, old_places_);
    put_places(after, place_of, new_places_);
    order_.resize(difference.changes.size());
    std::iota(order_.begin(), order_.end(), 0);
    std::stable_sort(order_.begin(), order_.end(), [this](std::size_t a, std::size_t b) {
      return difference_.changes[a].moved_values > difference_.changes[b].moved_values;
    });
  }

  template <class T>
  void add_reasons(const std::map<std::string, std::vector<T>>& before,
                   const std::map<std::string, std::vector<T>>& after, const std::string& total,
                   bool is_bytes) {
    if (!before.contains(total) || !after.contains(total)) return;
    std::vector<std::size_t> places;
    for (std::size_t p = 0; p < difference_.places.size(); ++p) {
      if (value_at(before, total, p) != value_at(after, total, p)) places.push_back(p);
    }
    const auto size_at = [&](std::size_t p) {
      return std::abs(value_at(after, total, p) - value_at(before, total, p));
    };
    std::stable_sort(places.begin(), places.end(),
                     [&](std::size_t a, std::size_t b) { return size_at(a) > size_at(b); });
    places.resize(std::min(places.size(), kMostReasons));
    for (const std::size_t p : places) {
      DifferenceReason reason{difference_.places[p],     is_bytes, value_at(before, total, p),
                              value_at(after, total, p), {},       {}};
      std::set<std::string> names;
      for (const auto& [name, values] : before) names.insert(name);
      for (const auto& [name, values] : after) names.insert(name);
      for (const std::string& name : names) {
        if (!is_cause(name, total)) continue;
        FigureChange cause{name, value_at(before, name, p), value_at(after, name, p)};
        if (difference_of(cause) > 0) reason.causes.push_back(std::move(cause));
      }
      std::stable_sort(reason.causes.begin(), reason.causes.end(),
                       [](const FigureChange& a, const FigureChange& b) {
                         return difference_of(a) > difference_of(b);
                       });
      reason.parts = parts_at(p);
      difference_.reasons.push_back(std::move(reason));
    }
  }

 private:
  using Places = std::unordered_map<std::string, std::vector<RankRun>>;

  // Of the parts that are changed, by place of the difference.
  void put_places(const PlanOutline& outline,
                  const std::unordered_map<std::string_view, std::int32_t>& place_of,
                  Places& places) const {
    std::vector<std::int32_t> at;
    for (const std::string& place : outline.places) at.push_back(place_of.at(place));
    std::set<std::string_view> changed;
    for (const PartChange& change : difference_.changes) changed.insert(change.name);
    for (const PlanPart& part : outline.parts) {
      if (!changed.contains(part.name)) continue;
      std::vector<RankRun>& runs = places[part.name];
      for (const RankRun& run : part.places) {
        const auto end =
            std::min(std::int64_t{run.first} + run.count, static_cast<std::int64_t>(at.size()));
        for (std::int64_t p = std::max(run.first, 0); p < end; ++p) {
          const std::int32_t place = at[static_cast<std::size_t>(p)];
          if (!runs.empty() && runs.back().first + runs.back().count == place) {
            ++runs.back().count;
          } else {
            runs.push_back({place, 1});
          }
        }
      }
    }
  }

  std::vector<std::string> parts_at(std::size_t place) const {
    std::vector<std::string> names;
    for (const std::size_t c : order_) {
      const std::string& name = difference_.changes[c].name;
      for (const Places* places : {&old_places_, &new_places_}) {
        const auto found = places->find(name);
        if (found == places->end() || !stands_at(found->second, place)) continue;
        names.push_back(name);
        break;
      }
    }
    return names;
  }

  PlanDifference& difference_;
  Places old_places_, new_places_;
  std::vector<std::size_t> order_;  // of changes, most values moved first
};

void put_reasons(const PlanOutline& before, const PlanOutline& after, PlanDifference& difference) {
  ReasonFinder finder(before, after, difference);
  finder.add_reasons(difference.before.ms, difference.after.ms, std::string(total_ms_name(after)),
                     false);
  finder.add_reasons(difference.before.bytes, difference.after.bytes,
                     std::string(total_bytes_name(after)), true);
}

// All but reasons, which rest on what is moved.
Result<PlanDifference> compare_outlines(const PlanOutline& before, const PlanOutline& after) {
  if (before.kind != after.kind) {
    return fail(ErrorCode::kUsage, "plans",
                "one plan is of " + std::string(to_string(before.kind)) + ", the other of " +
                    std::string(to_string(after.kind)),
                "give two plans of one kind");
  }
  PlanDifference difference;
  difference.kind = after.kind;
  difference.figures = compare_figures(before.figures, after.figures);
  difference.changes = compare_parts(before, after);
  difference.num_parts = after.parts.size();
  for (const PartChange& change : difference.changes) {
    difference.num_parts += change.kind == ChangeKind::kRemoved;
  }
  std::unordered_map<std::string_view, std::size_t> place_of;
  const auto places_of = [&](const PlanOutline& outline) {
    std::vector<std::size_t> places;
    for (const std::string& name : outline.places) {
      const auto [entry, is_new] = place_of.try_emplace(name, difference.places.size());
      if (is_new) difference.places.push_back(name);
      places.push_back(entry->second);
    }
    return places;
  };
  const std::vector<std::size_t> old_places = places_of(before);
  const std::vector<std::size_t> new_places = places_of(after);
  const std::size_t num_places = difference.places.size();
  difference.before = {aligned(before.bill.bytes, old_places, num_places),
                       aligned(before.bill.ms, old_places, num_places)};
  difference.after = {aligned(after.bill.bytes, new_places, num_places),
                      aligned(after.bill.ms, new_places, num_places)};
  difference.links = compare_links(before, after);
  difference.is_different = !difference.changes.empty() || before.places != after.places;
  return difference;
}

}  // namespace

std::string_view to_string(ChangeKind kind) {
  switch (kind) {
    case ChangeKind::kAdded:
      return "added";
    case ChangeKind::kRemoved:
      return "removed";
    case ChangeKind::kMoved:
      return "moved";
    case ChangeKind::kSplit:
      return "split";
    case ChangeKind::kOther:
      return "changed";
  }
  return "";
}

Result<PlanDifference> compare_plans(const PlanOutline& before, const PlanOutline& after) {
  PLIMSOLL_ASSIGN(PlanDifference difference, compare_outlines(before, after));
  put_reasons(before, after, difference);
  return difference;
}

Result<PlanDifference> compare_plans(const ShardingAnswer& before, const ShardingAnswer& after,
                                     const embedding::Model* model) {
  PLIMSOLL_ASSIGN(const PlanOutline old_outline, outline_plan(before));
  PLIMSOLL_ASSIGN(const PlanOutline new_outline, outline_plan(after));
  PLIMSOLL_ASSIGN(PlanDifference difference, compare_outlines(old_outline, new_outline));
  PLIMSOLL_RETURN_IF_ERROR(put_moves(*before.plan, *after.plan, model, difference));
  put_reasons(old_outline, new_outline, difference);
  return difference;
}

}  // namespace plimsoll::study
