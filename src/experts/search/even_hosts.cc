#include "experts/search/even_hosts.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/rounding.h"
#include "plimsoll/experts/eplb.h"

namespace plimsoll::experts {
namespace {

using Groups = std::vector<std::vector<int>>;  // [hosts]

Groups groups_of_hosts(const ExpertModel& model, const std::vector<int>& slots) {
  const int size = model.num_experts() / model.num_groups;
  const auto slots_a_host = static_cast<std::size_t>(model.num_slots / model.num_hosts);
  Groups groups(static_cast<std::size_t>(model.num_hosts));
  std::vector<bool> is_known(static_cast<std::size_t>(model.num_groups), false);
  for (std::size_t s = 0; s < slots.size(); ++s) {
    const int group = slots[s] / size;
    if (is_known[group]) continue;
    is_known[group] = true;
    groups[s / slots_a_host].push_back(group);
  }
  return groups;
}

std::vector<double> group_loads(const ExpertModel& model, int layer) {
  const std::vector<double>& loads = model.loads[static_cast<std::size_t>(layer)];
  const int size = model.num_experts() / model.num_groups;
  std::vector<double> sums;
  for (auto first = loads.begin(); first != loads.end(); first += size) {
    sums.push_back(std::accumulate(first, first + size, 0.0));
  }
  return sums;
}

// Swaps two groups, one of the heaviest host, where the heavier of their hosts gets lightest; false
// where no swap makes it lighter.
bool swap_groups(const std::vector<double>& loads, std::vector<double>& sums, Groups& groups) {
  const auto slow =
      static_cast<std::size_t>(std::max_element(sums.begin(), sums.end()) - sums.begin());
  double best = sums[slow] * (1 - kFineRounding);
  int *from = nullptr, *to = nullptr;
  std::size_t other = 0;
  for (std::size_t host = 0; host < groups.size(); ++host) {
    if (host == slow) continue;
    for (int& a : groups[slow]) {
      for (int& b : groups[host]) {
        const double change = loads[a] - loads[b];
        const double pair = std::max(sums[slow] - change, sums[host] + change);
        if (change > 0 && pair < best) best = pair, from = &a, to = &b, other = host;
      }
    }
  }
  if (from == nullptr) return false;
  const double change = loads[*from] - loads[*to];
  std::swap(*from, *to);
  sums[slow] -= change;
  sums[other] += change;
  return true;
}

// Slots of a host as EPLB fills them: the host is a model of its own, of one group.
std::vector<int> place_host(const ExpertModel& model, int layer, const std::vector<int>& groups) {
  const std::vector<double>& loads = model.loads[static_cast<std::size_t>(layer)];
  const int size = model.num_experts() / model.num_groups;
  ExpertModel own;
  own.num_slots = model.num_slots / model.num_hosts;
  own.num_ranks = model.num_ranks / model.num_hosts;
  std::vector<int> experts;
  std::vector<double>& own_loads = own.loads.emplace_back();
  for (const int group : groups) {
    for (int i = 0; i < size; ++i) {
      experts.push_back(group * size + i);
      own_loads.push_back(loads[static_cast<std::size_t>(experts.back())]);
    }
  }
  std::vector<int> slots = rebalance_experts(own).front();
  for (int& slot : slots) slot = experts[slot];
  return slots;
}

}  // namespace

std::vector<int> place_with_even_hosts(const ExpertModel& model, int layer,
                                       const std::vector<int>& eplb) {
  const bool has_choice = model.keeps_groups() && model.num_groups > model.num_hosts;
  if (!has_choice) return eplb;
  Groups groups = groups_of_hosts(model, eplb);
  const std::vector<double> loads = group_loads(model, layer);
  std::vector<double> sums;
  for (const std::vector<int>& host : groups) {
    double sum = 0;
    for (const int group : host) sum += loads[group];
    sums.push_back(sum);
  }
  while (swap_groups(loads, sums, groups)) {
  }
  std::vector<int> slots;
  for (const std::vector<int>& host : groups) {
    const std::vector<int> placed = place_host(model, layer, host);
    slots.insert(slots.end(), placed.begin(), placed.end());
  }
  return slots;
}

}  // namespace plimsoll::experts
