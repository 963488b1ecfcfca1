#include "partition/pipeline/choice_knapsack.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/check.h"
#include "core/rounding.h"
#include "plimsoll/core/numbers.h"

namespace plimsoll::partition {
namespace {

struct Candidate {
  ChoiceItem item;
  int place;           // in its group
  double reduced = 0;  // how much dearer than the group's cheapest at the best price
};
using Group = std::vector<Candidate>;  // bytes fall, times rise

// From fastest to smallest, without items that another one beats in both.
Group useful_items(const std::vector<ChoiceItem>& items) {
  Group group;
  for (std::size_t i = 0; i < items.size(); ++i) group.push_back({items[i], static_cast<int>(i)});
  std::sort(group.begin(), group.end(), [](const Candidate& a, const Candidate& b) {
    if (a.item.time != b.item.time) return a.item.time < b.item.time;
    return a.item.bytes != b.item.bytes ? a.item.bytes < b.item.bytes : a.place < b.place;
  });
  Group kept;
  for (const Candidate& candidate : group) {
    if (kept.empty() || candidate.item.bytes < kept.back().item.bytes) kept.push_back(candidate);
  }
  return kept;
}

// A step along a group's lower convex hull towards fewer bytes.
struct Step {
  double price;  // ms for each byte saved
  int group;
  int to;
};

class Solver {
 public:
  Solver(const std::vector<std::vector<ChoiceItem>>& groups, Bytes capacity,
         const KnapsackLimits& limits)
      : capacity_(capacity), limits_(limits) {
    for (const auto& items : groups) groups_.push_back(useful_items(items));
  }

  KnapsackAnswer run() {
    std::vector<int> fastest(groups_.size(), 0);
    std::vector<int> smallest;
    for (const Group& group : groups_) smallest.push_back(static_cast<int>(group.size()) - 1);
    if (bytes_of(smallest) > capacity_) return {kInfinity, kInfinity, {}};
    best_time_ = limits_.limit;
    if (bytes_of(fastest) <= capacity_) {
      offer(fastest);
      return answer(time_of(fastest));
    }
    const double price = relax();
    const double bound = bound_at(price);
    if (is_enough() || !is_useful(bound)) return answer(bound);
    if (limits_.uses_reduced_costs) drop_items(bound);
    branch(bound);
    return answer(has_run_out_ ? bound : best_time_);
  }

 private:
  Bytes bytes_of(const std::vector<int>& chosen) const {
    Bytes bytes = 0;
    for (std::size_t g = 0; g < groups_.size(); ++g) bytes += groups_[g][chosen[g]].item.bytes;
    return bytes;
  }
  double time_of(const std::vector<int>& chosen) const {
    double time = 0;
    for (std::size_t g = 0; g < groups_.size(); ++g) time += groups_[g][chosen[g]].item.time;
    return time;
  }
  bool is_useful(double bound) const { return bound <= best_time_ * (1 + kFineRounding); }
  bool is_enough() const { return !choice_.empty() && best_time_ <= limits_.enough; }

  void offer(const std::vector<int>& chosen) {
    const double time = time_of(chosen);
    if (choice_.empty() ? time > best_time_ : time >= best_time_) return;
    best_time_ = time;
    choice_.clear();
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      choice_.push_back(groups_[g][chosen[g]].place);
    }
  }

  KnapsackAnswer answer(double bound) const {
    if (choice_.empty()) {
      return {kInfinity, has_run_out_ ? bound : kInfinity, {}, num_nodes_};
    }
    return {best_time_, std::min(bound, best_time_), choice_, num_nodes_};
  }

  // Walks from the fastest plan to one that fits, cheapest steps first; returns the price of the
  // last step. Steps that turn out to be needless are undone, the dearest first.
  double relax() {
    std::vector<Step> steps;
    for (std::size_t g = 0; g < groups_.size(); ++g) add_hull(static_cast<int>(g), steps);
    std::stable_sort(steps.begin(), steps.end(),
                     [](const Step& a, const Step& b) { return a.price < b.price; });
    std::vector<int> chosen(groups_.size(), 0);
    Bytes bytes = bytes_of(chosen);
    std::size_t last = 0;
    for (; last < steps.size() && bytes > capacity_; ++last) {
      const Step& step = steps[last];
      bytes += item(step.group, step.to).bytes - item(step.group, chosen[step.group]).bytes;
      chosen[step.group] = step.to;
    }
    for (std::size_t i = last; i-- > 0;) {
      const Step& step = steps[i];
      if (chosen[step.group] != step.to) continue;
      int to = step.to;  // the fastest item that still fits
      while (to > 0 && bytes + item(step.group, to - 1).bytes - item(step.group, step.to).bytes <=
                           capacity_) {
        --to;
      }
      bytes += item(step.group, to).bytes - item(step.group, step.to).bytes;
      chosen[step.group] = to;
    }
    offer(chosen);
    return steps[last - 1].price;
  }

  const ChoiceItem& item(int group, int place) const { return groups_[group][place].item; }

  void add_hull(int g, std::vector<Step>& steps) const {
    const Group& group = groups_[g];
    for (int from = 0; from + 1 < static_cast<int>(group.size());) {
      Step best{kInfinity, g, from + 1};
      for (int to = from + 1; to < static_cast<int>(group.size()); ++to) {
        const double price = (group[to].item.time - group[from].item.time) /
                             static_cast<double>(group[from].item.bytes - group[to].item.bytes);
        if (price <= best.price) best = {price, g, to};
      }
      steps.push_back(best);
      from = best.to;
    }
  }

  // Also fills in the reduced costs.
  double bound_at(double price) {
    double bound = -price * static_cast<double>(capacity_);
    double scale = -bound;
    for (Group& group : groups_) {
      double least = kInfinity;
      for (Candidate& candidate : group) {
        candidate.reduced = candidate.item.time + price * static_cast<double>(candidate.item.bytes);
        least = std::min(least, candidate.reduced);
      }
      for (Candidate& candidate : group) candidate.reduced -= least;
      bound += least;
      scale += least;
    }
    return bound - kFineRounding * scale;
  }

  void drop_items(double bound) {
    for (Group& group : groups_) {
      group.erase(std::remove_if(group.begin(), group.end(),
                                 [&](const Candidate& c) { return !is_useful(bound + c.reduced); }),
                  group.end());
    }
  }

  // Groups with a choice left, the most decided ones first; equal ones side by side.
  std::vector<int> branching_order() const {
    std::vector<int> order;
    for (int g = 0; g < static_cast<int>(groups_.size()); ++g) {
      if (groups_[g].size() > 1) order.push_back(g);
    }
    const auto spread = [&](int g) {
      double most = 0;
      for (const Candidate& candidate : groups_[g]) most = std::max(most, candidate.reduced);
      return most;
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return spread(a) > spread(b); });
    return order;
  }

  bool is_equal(int a, int b) const {
    return std::equal(groups_[a].begin(), groups_[a].end(), groups_[b].begin(), groups_[b].end(),
                      [](const Candidate& x, const Candidate& y) { return x.item == y.item; });
  }

  // Depth first with a stack of our own: `next[i]` is the item to try next at depth i.
  void branch(double bound) {
    if (std::any_of(groups_.begin(), groups_.end(), [](const Group& g) { return g.empty(); })) {
      return;
    }
    const std::vector<int> order = branching_order();
    const int depth = static_cast<int>(order.size());
    std::vector<int> chosen(groups_.size(), 0);
    Bytes fixed = bytes_of(chosen);
    std::vector<Bytes> least_bytes(order.size() + 1);  // of the groups from a depth on
    for (int i = depth; i-- > 0;) {
      fixed -= item(order[i], 0).bytes;
      least_bytes[i] = least_bytes[i + 1] + groups_[order[i]].back().item.bytes;
    }
    std::vector<int> next(order.size() + 1, 0);
    std::vector<double> reduced(order.size() + 1, bound);
    std::vector<Bytes> bytes(order.size() + 1, fixed);
    for (const Group& group : groups_) {
      if (group.size() == 1) reduced[0] += group.front().reduced;
    }
    for (int i = 0; i >= 0;) {
      if (i == depth) {
        offer(chosen);
        if (is_enough()) return;
        --i;
        continue;
      }
      const Group& group = groups_[order[i]];
      const int place = next[i];
      if (place == static_cast<int>(group.size())) {
        --i;
        continue;
      }
      ++next[i];
      if (++num_nodes_ > limits_.max_nodes) {
        has_run_out_ = true;
        return;
      }
      const double new_reduced = reduced[i] + group[place].reduced;
      const Bytes new_bytes = bytes[i] + group[place].item.bytes;
      if (new_bytes + least_bytes[i + 1] > capacity_ || !is_useful(new_reduced)) continue;
      chosen[order[i]] = place;
      reduced[i + 1] = new_reduced;
      bytes[i + 1] = new_bytes;
      const bool has_twin =
          limits_.breaks_symmetry && i + 1 < depth && is_equal(order[i], order[i + 1]);
      next[i + 1] = has_twin ? place : 0;
      ++i;
    }
  }

  Bytes capacity_;
  const KnapsackLimits& limits_;
  std::vector<Group> groups_;
  double best_time_ = kInfinity;
  std::vector<int> choice_;
  std::int64_t num_nodes_ = 0;
  bool has_run_out_ = false;
};

}  // namespace

KnapsackAnswer choose_fastest(const std::vector<std::vector<ChoiceItem>>& groups, Bytes capacity,
                              const KnapsackLimits& limits) {
  PLIMSOLL_DCHECK(std::none_of(groups.begin(), groups.end(),
                               [](const std::vector<ChoiceItem>& group) { return group.empty(); }),
                  "every group has an item");
  return Solver(groups, capacity, limits).run();
}

}  // namespace plimsoll::partition
