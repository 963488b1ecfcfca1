#include "plimsoll/experts/expert_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "core/rounding.h"

namespace plimsoll::experts {
namespace {

tl::unexpected<Error> refuse(std::string place, std::string message, std::string remedy) {
  return fail(ErrorCode::kValue, std::move(place), std::move(message), std::move(remedy));
}

double total(const std::vector<double>& loads) {
  return std::accumulate(loads.begin(), loads.end(), 0.0);
}

// Slots that the experts need where no replica carries more than `most`; above `limit`: limit + 1.
std::int64_t slots_needed(const std::vector<double>& loads, double most, std::int64_t limit) {
  std::int64_t sum = 0;
  for (const double load : loads) {
    const double replicas = std::ceil(load / most);
    if (!(replicas <= static_cast<double>(limit))) return limit + 1;
    sum += std::max<std::int64_t>(1, static_cast<std::int64_t>(replicas));
    if (sum > limit) return limit + 1;
  }
  return sum;
}

// Below what no placement has its largest replica: bisection from below, which never passes it.
double least_replica(const std::vector<double>& loads, int num_slots) {
  double high = *std::max_element(loads.begin(), loads.end()), low = 0;
  if (high <= 0) return 0;
  for (int i = 0; i < 100 && low < high * (1 - 1e-15); ++i) {
    const double middle = .5 * (low + high);
    if (middle <= low || middle >= high) break;
    (slots_needed(loads, middle * (1 + kFineRounding), num_slots) > num_slots ? low : high) =
        middle;
  }
  return low;
}

// Groups go to hosts, equally many each: what the heaviest host carries at least.
double heaviest_host(const ExpertModel& model, const std::vector<double>& loads) {
  const int size = model.num_experts() / model.num_groups;
  std::vector<double> groups;
  for (int g = 0; g < model.num_groups; ++g) {
    const auto first = loads.begin() + std::ptrdiff_t{g} * size;
    groups.push_back(std::accumulate(first, first + size, 0.0));
  }
  std::sort(groups.begin(), groups.end(), std::greater<>());
  // The host of the heaviest group has the lightest of the others at least.
  const int a_host = model.num_groups / model.num_hosts;
  double host = groups.front();
  for (int i = 1; i < a_host; ++i) host += groups[groups.size() - static_cast<std::size_t>(i)];
  // Of the first hosts * k + 1 groups some host has k + 1.
  for (int k = 1; k < a_host; ++k) {
    const int count = model.num_hosts * k + 1;
    double least = 0;
    for (int i = count - 1 - k; i < count; ++i) least += groups[static_cast<std::size_t>(i)];
    for (int i = 1; i < a_host - k; ++i)
      least += groups[groups.size() - static_cast<std::size_t>(i)];
    host = std::max(host, least);
  }
  return host;
}

}  // namespace

Result<void> validate(const ExpertModel& model) {
  if (model.loads.empty() || model.loads.front().empty()) {
    return refuse("loads", "there are no experts", "give a list of loads for every layer");
  }
  const auto num_experts = model.loads.front().size();
  for (std::size_t layer = 0; layer < model.loads.size(); ++layer) {
    const std::string place = "loads/" + std::to_string(layer);
    if (model.loads[layer].size() != num_experts) {
      return refuse(place, "layers have different numbers of experts",
                    "give as many loads as for layer 0, " + std::to_string(num_experts));
    }
    for (const double load : model.loads[layer]) {
      if (!(load >= 0) || load > 1e30) {
        return refuse(place, "a load is negative or too large", "give tokens, from 0 to 1e30");
      }
    }
  }
  if (model.num_ranks < 1) {
    return refuse("num_ranks", "there are no ranks", "give 1 or more");
  }
  if (model.num_hosts < 1 || model.num_ranks % model.num_hosts != 0) {
    return refuse("num_hosts", "hosts do not have equally many ranks",
                  "give a divisor of num_ranks, " + std::to_string(model.num_ranks));
  }
  if (model.num_slots > kMaxSlots || model.num_slots < static_cast<std::int64_t>(num_experts) ||
      model.num_slots % model.num_ranks != 0) {
    return refuse("num_slots",
                  "slots are fewer than experts, too many, or not a multiple of num_ranks",
                  "give a multiple of " + std::to_string(model.num_ranks) + " from " +
                      std::to_string(num_experts) + " to " + std::to_string(kMaxSlots));
  }
  if (model.num_groups < 1 || num_experts % static_cast<std::size_t>(model.num_groups) != 0) {
    return refuse("num_groups", "groups do not have equally many experts",
                  "give a divisor of " + std::to_string(num_experts));
  }
  return {};
}

std::vector<double> rank_loads(const ExpertModel& model, int layer, const std::vector<int>& slots) {
  const std::vector<double>& loads = model.loads[static_cast<std::size_t>(layer)];
  std::vector<int> replicas(loads.size(), 0);
  for (const int expert : slots) ++replicas[static_cast<std::size_t>(expert)];
  std::vector<double> sums(static_cast<std::size_t>(model.num_ranks), 0);
  for (std::size_t s = 0; s < slots.size(); ++s) {
    const auto expert = static_cast<std::size_t>(slots[s]);
    sums[s / static_cast<std::size_t>(model.slots_a_rank())] += loads[expert] / replicas[expert];
  }
  return sums;
}

double slowest_load(const ExpertModel& model, int layer, const std::vector<int>& slots) {
  const std::vector<double> sums = rank_loads(model, layer, slots);
  return *std::max_element(sums.begin(), sums.end());
}

std::int64_t count_moved(const std::vector<int>& before, int slots_a_rank_before,
                         const std::vector<int>& after, int slots_a_rank) {
  std::int64_t moved = 0;
  for (std::size_t s = 0; s < after.size(); ++s) {
    const std::size_t rank = s / static_cast<std::size_t>(slots_a_rank);
    const auto first_of = [&](const std::vector<int>& slots, int width) {
      return slots.begin() + static_cast<std::ptrdiff_t>(
                                 std::min(rank * static_cast<std::size_t>(width), slots.size()));
    };
    const auto was = first_of(before, slots_a_rank_before);
    const auto was_end = was + std::min<std::ptrdiff_t>(slots_a_rank_before, before.end() - was);
    // Of several replicas on one rank the first is fetched.
    const auto now = first_of(after, slots_a_rank);
    const auto here = after.begin() + static_cast<std::ptrdiff_t>(s);
    if (std::find(was, was_end, after[s]) == was_end && std::find(now, here, after[s]) == here) {
      ++moved;
    }
  }
  return moved;
}

double least_load(const ExpertModel& model, int layer) {
  const std::vector<double>& loads = model.loads[static_cast<std::size_t>(layer)];
  double least = total(loads) / model.num_ranks;
  least = std::max(least, least_replica(loads, model.num_slots));
  if (model.keeps_groups()) {
    const double host = heaviest_host(model, loads);
    const int a_host = model.num_ranks / model.num_hosts;
    least = std::max(least, host / a_host);
  }
  return least * (1 - kFineRounding);
}

double total_load(const ExpertModel& model, const ExpertSlots& slots) {
  double sum = 0;
  for (int layer = 0; layer < model.num_layers(); ++layer) {
    sum += slowest_load(model, layer, slots[static_cast<std::size_t>(layer)]);
  }
  return sum;
}

double total_bound(const ExpertModel& model) {
  double sum = 0;
  for (int layer = 0; layer < model.num_layers(); ++layer) sum += least_load(model, layer);
  return sum;
}

std::int64_t count_moved(const ExpertPlan& before, const ExpertPlan& after) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < std::min(before.slots.size(), after.slots.size()); ++i) {
    sum +=
        count_moved(before.slots[i], before.slots_a_rank(), after.slots[i], after.slots_a_rank());
  }
  return sum;
}

std::string find_fault(const ExpertModel& model, const ExpertPlan& plan) {
  if (plan.num_ranks != model.num_ranks) return "the plan is for another number of ranks";
  if (std::ssize(plan.slots) != model.num_layers()) return "the plan has other layers";
  const auto num_experts = static_cast<std::size_t>(model.num_experts());
  const auto a_host = static_cast<std::size_t>(model.num_slots / model.num_hosts);
  const auto a_group = num_experts / static_cast<std::size_t>(model.num_groups);
  for (std::size_t layer = 0; layer < plan.slots.size(); ++layer) {
    const std::vector<int>& slots = plan.slots[layer];
    const std::string place = "layer " + std::to_string(layer) + ": ";
    if (std::ssize(slots) != model.num_slots) return place + "it has another number of slots";
    std::vector<bool> is_there(num_experts, false);
    std::vector<int> host_of(static_cast<std::size_t>(model.num_groups), -1);
    std::vector<int> num_groups(static_cast<std::size_t>(model.num_hosts), 0);
    for (std::size_t s = 0; s < slots.size(); ++s) {
      if (slots[s] < 0 || slots[s] >= model.num_experts()) {
        return place + "slot " + std::to_string(s) + " names no expert";
      }
      const auto expert = static_cast<std::size_t>(slots[s]);
      is_there[expert] = true;
      if (!model.keeps_groups()) continue;
      int& host = host_of[expert / a_group];
      const int here = static_cast<int>(s / a_host);
      if (host < 0) ++num_groups[static_cast<std::size_t>(here)];
      if (host >= 0 && host != here) {
        return place + "group " + std::to_string(expert / a_group) + " is on several hosts";
      }
      host = here;
    }
    const auto missing = std::find(is_there.begin(), is_there.end(), false);
    if (missing != is_there.end()) {
      return place + "expert " + std::to_string(missing - is_there.begin()) + " stands nowhere";
    }
    for (const int count : num_groups) {
      if (model.keeps_groups() && count != model.num_groups / model.num_hosts) {
        return place + "hosts have different numbers of groups";
      }
    }
  }
  return "";
}

}  // namespace plimsoll::experts
