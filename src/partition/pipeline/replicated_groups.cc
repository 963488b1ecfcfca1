#include "partition/pipeline/replicated_groups.h"

#include <algorithm>

#include "core/check.h"
#include "partition/graph/group_absorption.h"

namespace plimsoll::partition {

PipelineGroups::PipelineGroups(const CostGraph& graph, const PipelineTerms& terms)
    : graph_(graph),
      terms_(terms),
      is_training_(partition::is_training(graph)),
      max_replicas_(replica_limit(graph, terms)) {
  PLIMSOLL_DCHECK(validate(graph).has_value() && validate(graph, terms).has_value(),
                  "graph and terms are valid");
}

CostGraph PipelineGroups::with_microbatches(int in_flight) const {
  CostGraph held = graph_;
  if (terms_.per_microbatch.empty()) return held;
  for (int node = 0; node < graph_.num_nodes(); ++node) {
    held.nodes[node].memory += in_flight * terms_.per_microbatch[node];
  }
  return held;
}

// Groups hold what most microbatches in flight would take, until they are merged: what costs
// nothing then never does. Replicas agree on weights, which then are no longer free to move.
GroupGraph PipelineGroups::make(bool absorbs) const {
  const int most_in_flight = microbatches_in_flight(is_training_, terms_.num_microbatches, 1,
                                                    std::max(1, graph_.num_devices()));
  const CostGraph held = with_microbatches(most_in_flight);
  GroupGraph groups = make_groups(held);
  if (absorbs) {
    if (is_training_ && max_replicas_ > 1) {
      for (DeviceKind& kind : groups.kinds) kind.memory_cap = 0;
    }
    groups = absorb_groups(held, groups);
  }
  for (DeviceKind& kind : groups.kinds) {
    kind.memory_cap = graph_.classes[kind.device_class].memory_cap;
  }
  for (int g = 0; g < groups.num_groups(); ++g) {
    groups.memory[g] -= most_in_flight * per_microbatch(groups.nodes[g]);
  }
  return groups;
}

ReplicaTerms PipelineGroups::terms_of(const GroupGraph& groups) const {
  ReplicaTerms terms{terms_.num_microbatches, max_replicas_, is_training_, {}, {}};
  for (const auto& nodes : groups.nodes) {
    Bytes bytes = 0;
    for (const int node : nodes) bytes += graph_.nodes[node].memory;
    terms.node_bytes.push_back(bytes);
    terms.per_microbatch.push_back(per_microbatch(nodes));
  }
  return terms;
}

int PipelineGroups::least_stages(const GroupGraph& groups) const {
  Int128 total = 0;
  for (int g = 0; g < groups.num_groups(); ++g) {
    total += groups.memory[g] + per_microbatch(groups.nodes[g]);
  }
  for (const GroupWeight& one : groups.weights) total += one.bytes;
  Bytes room = 0;
  for (const DeviceKind& kind : groups.kinds) {
    if (!kind.memory_cap) return 1;
    room = std::max(room, *kind.memory_cap);
  }
  if (room <= 0) return 1;
  const Int128 stages = (total + room - 1) / room;
  return static_cast<int>(std::clamp<Int128>(stages, 1, graph_.num_devices()));
}

Bytes PipelineGroups::per_microbatch(const std::vector<int>& nodes) const {
  Bytes bytes = 0;
  if (terms_.per_microbatch.empty()) return bytes;
  for (const int node : nodes) bytes += terms_.per_microbatch[node];
  return bytes;
}

GroupGraph reverse(const GroupGraph& groups) {
  GroupGraph reversed = groups;
  const int last = groups.num_groups() - 1;
  const auto turn = [last](std::vector<int>& list) {
    for (int& g : list) g = last - g;
    std::reverse(list.begin(), list.end());
  };
  std::reverse(reversed.nodes.begin(), reversed.nodes.end());
  for (auto& times : reversed.time_ms) std::reverse(times.begin(), times.end());
  std::reverse(reversed.memory.begin(), reversed.memory.end());
  reversed.predecessors.assign(groups.successors.rbegin(), groups.successors.rend());
  reversed.successors.assign(groups.predecessors.rbegin(), groups.predecessors.rend());
  for (auto* lists : {&reversed.predecessors, &reversed.successors}) {
    for (auto& list : *lists) turn(list);
  }
  for (GroupNet& net : reversed.nets) {
    turn(net.groups);
    if (net.producer >= 0) net.producer = last - net.producer;
  }
  for (GroupWeight& weight : reversed.weights) turn(weight.groups);
  return reversed;
}

}  // namespace plimsoll::partition
