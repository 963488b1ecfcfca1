#include "plimsoll/partition/replicated_stages.h"

#include <algorithm>
#include <string>

#include "core/check.h"

namespace plimsoll::partition {
namespace {

// Whatever a search adds up stays in 63 bits below this.
constexpr Bytes kMaxStageMemory = Bytes{1} << 62;

// The slowest way between devices of one stage and of another.
double rate_between(const CostGraph& graph, const ReplicatedStage& stage,
                    const ReplicatedStage& other) {
  double rate = graph.classes[graph.class_of(stage.devices.front())].link_rate;
  if (graph.pair_rates.empty()) return rate;
  for (const int a : stage.devices) {
    for (const int b : other.devices) {
      if (a != b) rate = std::min(rate, graph.pair_rates[a][b]);
    }
  }
  return rate;
}

bool is_placement_of(const CostGraph& graph, const ReplicatedStages& placement) {
  std::vector<bool> is_placed(graph.nodes.size());
  std::size_t num_placed = 0;
  for (const ReplicatedStage& stage : placement.stages) {
    if (stage.devices.empty()) return false;
    for (const int device : stage.devices) {
      if (device < 0 || device >= graph.num_devices()) return false;
    }
    for (const int node : stage.nodes) {
      if (node < 0 || node >= graph.num_nodes() || is_placed[node]) return false;
      is_placed[node] = true;
      ++num_placed;
    }
  }
  return num_placed == graph.nodes.size();
}

}  // namespace

Result<void> validate(const CostGraph& graph, const PipelineTerms& terms) {
  PLIMSOLL_DCHECK(validate(graph).has_value(), "the graph is valid");
  if (terms.num_microbatches < 1) {
    return fail(ErrorCode::kValue, "num_microbatches",
                std::to_string(terms.num_microbatches) + " microbatches", "give at least 1");
  }
  if (terms.max_replicas < 1) {
    return fail(ErrorCode::kValue, "max_replicas", "fewer than one replica", "give at least 1");
  }
  if (!terms.per_microbatch.empty() && terms.per_microbatch.size() != graph.nodes.size()) {
    return fail(ErrorCode::kSchema, "per_microbatch",
                std::to_string(terms.per_microbatch.size()) + " entries for " +
                    std::to_string(graph.nodes.size()) + " nodes",
                "give one for each node, or none");
  }
  Int128 total = 0;
  for (const CostNode& node : graph.nodes) total += node.memory;
  for (const Weight& weight : graph.weights) total += weight.bytes;
  const Int128 most = std::min(terms.num_microbatches, std::max(1, graph.num_devices()));
  for (std::size_t i = 0; i < terms.per_microbatch.size(); ++i) {
    if (terms.per_microbatch[i] < 0) {
      return fail(ErrorCode::kValue, place_of(graph, static_cast<int>(i)),
                  "a negative number of bytes for a microbatch", "give at least 0");
    }
    total += most * terms.per_microbatch[i];
  }
  if (total <= kMaxStageMemory) return {};
  return fail(ErrorCode::kOverflow, "per_microbatch",
              "the memory of all nodes for all microbatches in flight exceeds 2^62 bytes",
              "give smaller sizes");
}

bool is_training(const CostGraph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const CostNode& node) { return node.is_backward; });
}

int replica_limit(const CostGraph& graph, const PipelineTerms& terms) {
  const bool is_priced = !is_training(graph) || !graph.weights.empty();
  return is_priced ? std::min(terms.max_replicas, std::max(1, graph.num_devices())) : 1;
}

int microbatches_in_flight(bool is_training, int num_microbatches, int replicas, int count) {
  if (!is_training) return 1;
  const int of_batch = (num_microbatches - 1) / replicas + 1;  // at least one microbatch
  return std::min((count + replicas - 1) / replicas, of_batch);
}

double transfer_ms(const CostGraph& graph, const Net& net, const ReplicatedStages& placement,
                   int source, std::span<const int> holders, int stage) {
  const ReplicatedStage& own = placement.stages[stage];
  double rate = graph.classes[graph.class_of(own.devices.front())].link_rate;
  for (const int other : holders) {
    if (other == stage || (stage != source && other != source)) continue;
    rate = std::min(rate, rate_between(graph, own, placement.stages[other]));
  }
  return net.amount / rate;
}

std::vector<ReplicatedStageFigures> figures_of_stages(const CostGraph& graph,
                                                      const PipelineTerms& terms,
                                                      const ReplicatedStages& placement) {
  PLIMSOLL_DCHECK(validate(graph, terms).has_value(), "graph and terms are valid");
  PLIMSOLL_DCHECK(is_placement_of(graph, placement),
                  "every node is in one stage, on devices that exist");
  const bool trains = is_training(graph);
  const std::size_t num_stages = placement.stages.size();
  std::vector<ReplicatedStageFigures> figures(num_stages);
  std::vector<Bytes> weights(num_stages);
  DeviceAssignment stage_of;  // stages in the place of devices
  stage_of.device.resize(graph.nodes.size());
  int count = 0;
  for (std::size_t s = num_stages; s-- > 0;) {
    const ReplicatedStage& stage = placement.stages[s];
    const int replicas = static_cast<int>(stage.devices.size());
    count += replicas;
    ReplicatedStageFigures& own = figures[s];
    own.in_flight = microbatches_in_flight(trains, terms.num_microbatches, replicas, count);
    const auto device_class = static_cast<std::size_t>(graph.class_of(stage.devices.front()));
    for (const int node : stage.nodes) {
      stage_of.device[node] = static_cast<int>(s);
      own.compute_ms += graph.nodes[node].time_ms[device_class];
      own.memory += graph.nodes[node].memory;
      if (!terms.per_microbatch.empty()) own.memory += own.in_flight * terms.per_microbatch[node];
    }
  }
  for (const Net& net : graph.nets) {
    const std::vector<int> holders = holders_of(net, stage_of);
    if (holders.size() == 1) continue;
    const int source = stage_of.device[net.producer];
    for (const int s : holders) {
      figures[s].transfer_ms += transfer_ms(graph, net, placement, source, holders, s);
    }
  }
  for (const Weight& weight : graph.weights) {
    std::vector<int> holders;
    for (const int reader : weight.readers) holders.push_back(stage_of.device[reader]);
    std::sort(holders.begin(), holders.end());
    holders.erase(std::unique(holders.begin(), holders.end()), holders.end());
    for (const int s : holders) weights[s] += weight.bytes;
  }
  for (std::size_t s = 0; s < num_stages; ++s) {
    const ReplicatedStage& stage = placement.stages[s];
    const auto d = static_cast<double>(stage.devices.size());
    ReplicatedStageFigures& own = figures[s];
    own.memory += weights[s];
    own.compute_ms /= d;
    own.transfer_ms /= d;
    if (trains && stage.devices.size() > 1) {
      own.sync_ms = 4 * (d - 1) * static_cast<double>(weights[s]) /
                    (d * terms.num_microbatches * rate_between(graph, stage, stage));
    }
  }
  return figures;
}

double batch_ms(const std::vector<ReplicatedStageFigures>& figures, int num_microbatches) {
  double sum = 0;
  double slowest = 0;
  for (const ReplicatedStageFigures& stage : figures) {
    sum += stage.time_ms();
    slowest = std::max(slowest, stage.time_ms());
  }
  return sum + (num_microbatches - 1.0) * slowest;
}

}  // namespace plimsoll::partition
