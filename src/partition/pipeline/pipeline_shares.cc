#include "partition/pipeline/pipeline_shares.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "core/check.h"
#include "partition/graph/shared_work.h"

namespace plimsoll::partition {
namespace {

// Numbers the kinds of stages as they come.
class KindNumbers {
 public:
  explicit KindNumbers(BatchItems& items) : items_(items) {}
  int number(const StageKind& kind) {
    const auto [place, is_new] = number_.try_emplace({kind.device_class, kind.devices},
                                                     static_cast<int>(items_.kinds.size()));
    if (is_new) items_.kinds.push_back(kind);
    return place->second;
  }

 private:
  BatchItems& items_;
  std::map<std::pair<int, int>, int> number_;
};

// Devices of one class, whatever else tells them apart.
struct ClassShare {
  std::vector<int> kinds;
  int num_devices = 0;
  double speed = 0;
  double link_rate = 0;  // of the fastest
  double bytes = 0;      // of the largest
};

double bytes_of(const DeviceKind& kind) {
  return kind.memory_cap ? static_cast<double>(*kind.memory_cap)
                         : std::numeric_limits<double>::infinity();
}

std::map<int, ClassShare> classes_of(const GroupGraph& groups) {
  const std::vector<double> speed = speeds_of_kinds(groups);
  std::map<int, ClassShare> classes;
  for (int k = 0; k < groups.num_kinds(); ++k) {
    const DeviceKind& kind = groups.kinds[k];
    ClassShare& share = classes[kind.device_class];
    share.kinds.push_back(k);
    share.num_devices += static_cast<int>(kind.devices.size());
    share.speed = speed[k];
    share.link_rate = std::max(share.link_rate, kind.link_rate);
    share.bytes = std::max(share.bytes, bytes_of(kind));
  }
  return classes;
}

}  // namespace

BatchItems share_items(const PipelineModel& model, const GroupGraph& groups,
                       int max_data_parallel) {
  PLIMSOLL_CHECK(model.num_microbatches.has_value(), "the number of microbatches is given");
  PLIMSOLL_DCHECK(std::all_of(groups.nodes.begin(), groups.nodes.end(),
                              [](const std::vector<int>& group) { return group.size() == 1; }),
                  "every group is one operator");
  BatchItems items;
  items.devices = model.num_devices;
  items.bytes = std::numeric_limits<double>::infinity();
  if (model.memory_cap) items.bytes = items.devices * static_cast<double>(*model.memory_cap);
  items.class_devices = {model.num_devices};
  KindNumbers kinds(items);
  const double cap = items.bytes / items.devices;
  const int n = *model.num_microbatches;
  for (const auto& nodes : groups.nodes) {
    for (const TensorParallelChoices& degree : model.operators[nodes[0]].degrees) {
      const int most = std::min(model.num_devices / degree.degree, max_data_parallel);
      for (int d = 1; d <= std::min(n, most); ++d) {
        if (n % d != 0) continue;
        const int devices = d * degree.degree;
        const int kind = kinds.number({0, devices, devices * cap});
        for (const OperatorVariant& choice : degree.choices) {
          const auto parameters = static_cast<double>(choice.parameters);
          items.options.push_back(
              {kind, static_cast<double>(devices),
               choice.time_ms / d + 4.0 * (d - 1) * parameters / d / n / model.bandwidth,
               devices * static_cast<double>(choice.per_microbatch + choice.memory)});
        }
      }
    }
    items.first.push_back(items.options.size());
  }
  return items;
}

double least_stage_ms(const PipelineModel& model, int op, int max_data_parallel) {
  double least = kUnlimited;
  for (const TensorParallelChoices& degree : model.operators[op].degrees) {
    const int most = std::min(model.num_devices / degree.degree, max_data_parallel);
    for (int d = 1; d <= most; ++d) {
      if (model.num_microbatches && *model.num_microbatches % d != 0) continue;
      const double n = model.num_microbatches.value_or(d);
      for (const OperatorVariant& choice : degree.choices) {
        const auto parameters = static_cast<double>(choice.parameters);
        least = std::min(least,
                         choice.time_ms / d + 4.0 * (d - 1) * parameters / d / n / model.bandwidth);
      }
    }
  }
  return least;
}

BatchItems share_items(const GroupGraph& groups, const ReplicaTerms& terms) {
  const std::map<int, ClassShare> classes = classes_of(groups);
  BatchItems items;
  for (const auto& [name, share] : classes) items.devices += share.num_devices * share.speed;
  if (!(items.devices > 0)) items.devices = 1;  // there is nothing to do
  items.bytes = 0;
  for (const DeviceKind& kind : groups.kinds) {
    items.bytes += static_cast<double>(kind.devices.size()) * bytes_of(kind);
  }
  for (const auto& [name, share] : classes) items.class_devices.push_back(share.num_devices);
  KindNumbers kinds(items);
  std::vector<Bytes> weights(groups.nodes.size());
  std::vector<Bytes> held(groups.nodes.size());
  for (std::size_t g = 0; g < weights.size(); ++g) {
    weights[g] = groups.memory[g] - terms.node_bytes[g];
    held[g] = groups.memory[g] + terms.per_microbatch[g];
  }
  for (const GroupWeight& weight : groups.weights) {
    weights[weight.groups.front()] += weight.bytes;
    held[weight.groups.front()] += weight.bytes;
  }
  const int n = terms.num_microbatches;
  for (std::size_t g = 0; g < weights.size(); ++g) {
    int place = -1;  // of the class
    for (const auto& [name, share] : classes) {
      ++place;
      double time_ms = kUnlimited;
      for (const int k : share.kinds) time_ms = std::min(time_ms, groups.time_ms[k][g]);
      if (time_ms == kUnlimited) continue;
      const int most = std::min({n, terms.max_replicas, share.num_devices});
      for (int d = 1; d <= most; ++d) {
        if (n % d != 0) continue;
        const double agreed = terms.is_training ? 4.0 * (d - 1) * static_cast<double>(weights[g]) /
                                                      (static_cast<double>(d) * n * share.link_rate)
                                                : 0;
        items.options.push_back({kinds.number({place, d, d * share.bytes}), d * share.speed,
                                 time_ms / d + agreed, d * static_cast<double>(held[g])});
      }
    }
    PLIMSOLL_CHECK(items.options.size() > items.first.back(), "every group may run somewhere");
    items.first.push_back(items.options.size());
  }
  return items;
}

std::vector<double> least_after_cuts(const BatchBound& bound, const BatchPrices& prices,
                                     const Downsets& cuts) {
  PLIMSOLL_CHECK(cuts.is_finished(), "the cuts are finished");
  PLIMSOLL_CHECK(bound.items().num_items() == static_cast<std::size_t>(cuts.num_groups()),
                 "there is one item for each group");
  std::vector<double> rest = cuts.add_up(bound.at(prices));
  const double all = rest.back();
  for (double& value : rest) value = all - value;
  return rest;
}

std::vector<double> speeds_of_kinds(const GroupGraph& groups) {
  // Kinds of one class count alike: the fastest of them says how fast.
  std::map<int, double> slowness_of_class;
  const std::vector<double> slowness = slowness_of_kinds(groups);
  for (int k = 0; k < groups.num_kinds(); ++k) {
    const auto [place, is_new] =
        slowness_of_class.try_emplace(groups.kinds[k].device_class, slowness[k]);
    place->second = std::min(place->second, slowness[k]);
  }
  std::vector<double> speeds;
  for (const DeviceKind& kind : groups.kinds) {
    speeds.push_back(1 / slowness_of_class.at(kind.device_class));
  }
  return speeds;
}

}  // namespace plimsoll::partition
