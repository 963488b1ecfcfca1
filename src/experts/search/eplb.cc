#include "plimsoll/experts/eplb.h"

#include <algorithm>
#include <numeric>

namespace plimsoll::experts {
namespace {

struct Packing {
  std::vector<int> pack;  // [items]
  std::vector<int> rank;  // [items] within the pack
};

Packing pack_balanced(const std::vector<float>& weight, int num_packs) {
  const auto num_items = weight.size();
  const auto a_pack = num_items / static_cast<std::size_t>(num_packs);
  Packing packing{std::vector<int>(num_items), std::vector<int>(num_items, 0)};
  std::vector<int> order(num_items);
  std::iota(order.begin(), order.end(), 0);
  if (a_pack == 1) {
    packing.pack = order;
    return packing;
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return weight[a] > weight[b]; });
  std::vector<float> sums(static_cast<std::size_t>(num_packs), 0);
  std::vector<std::size_t> counts(static_cast<std::size_t>(num_packs), 0);
  for (const int item : order) {
    int best = -1;
    for (int pack = 0; pack < num_packs; ++pack) {
      if (counts[pack] < a_pack && (best < 0 || sums[pack] < sums[best])) best = pack;
    }
    packing.pack[item] = best;
    packing.rank[item] = static_cast<int>(counts[best]++);
    sums[best] += weight[item];
  }
  return packing;
}

// Experts of the slots, and the numbers of their replicas.
struct Replicas {
  std::vector<int> expert;  // [slots]
  std::vector<int> count;   // [experts]
};

Replicas replicate(const std::vector<float>& weight, int num_slots) {
  Replicas replicas{std::vector<int>(weight.size()), std::vector<int>(weight.size(), 1)};
  std::iota(replicas.expert.begin(), replicas.expert.end(), 0);
  while (std::ssize(replicas.expert) < num_slots) {
    std::size_t most = 0;
    const auto load = [&](std::size_t e) {
      return weight[e] / static_cast<float>(replicas.count[e]);
    };
    for (std::size_t e = 1; e < weight.size(); ++e) {
      if (load(e) > load(most)) most = e;
    }
    replicas.expert.push_back(static_cast<int>(most));
    ++replicas.count[most];
  }
  return replicas;
}

std::vector<int> rebalance_layer(const std::vector<double>& loads, int num_slots, int num_groups,
                                 int num_hosts, int num_ranks) {
  const std::vector<float> weight(loads.begin(), loads.end());
  const int group_size = static_cast<int>(weight.size()) / num_groups;
  std::vector<float> groups;
  for (int g = 0; g < num_groups; ++g) {
    const auto first = weight.begin() + std::ptrdiff_t{g} * group_size;
    groups.push_back(std::accumulate(first, first + group_size, 0.0F));
  }
  const Packing of_group = pack_balanced(groups, num_hosts);
  const int a_host = static_cast<int>(weight.size()) / num_hosts;
  std::vector<int> expert_at(weight.size());  // host by host
  for (int g = 0; g < num_groups; ++g) {
    const int place = of_group.pack[g] * (num_groups / num_hosts) + of_group.rank[g];
    for (int i = 0; i < group_size; ++i) {
      expert_at[static_cast<std::size_t>(place) * static_cast<std::size_t>(group_size) +
                static_cast<std::size_t>(i)] = g * group_size + i;
    }
  }
  std::vector<int> slots(static_cast<std::size_t>(num_slots));
  for (int host = 0; host < num_hosts; ++host) {
    std::vector<float> here;
    for (int i = 0; i < a_host; ++i) here.push_back(weight[expert_at[host * a_host + i]]);
    const Replicas replicas = replicate(here, num_slots / num_hosts);
    std::vector<float> shares;
    for (const int e : replicas.expert) {
      shares.push_back(here[e] / static_cast<float>(replicas.count[e]));
    }
    const Packing of_replica = pack_balanced(shares, num_ranks / num_hosts);
    for (std::size_t i = 0; i < shares.size(); ++i) {
      const int slot = host * (num_slots / num_hosts) +
                       of_replica.pack[i] * (num_slots / num_ranks) + of_replica.rank[i];
      slots[slot] = expert_at[host * a_host + replicas.expert[i]];
    }
  }
  return slots;
}

}  // namespace

ExpertSlots rebalance_experts(const ExpertModel& model) {
  ExpertSlots slots;
  const bool keeps_groups = model.num_groups % model.num_hosts == 0;  // also on one host
  for (const std::vector<double>& loads : model.loads) {
    slots.push_back(rebalance_layer(loads, model.num_slots, keeps_groups ? model.num_groups : 1,
                                    keeps_groups ? model.num_hosts : 1, model.num_ranks));
  }
  return slots;
}

}  // namespace plimsoll::experts
