#include "partition/pipeline/operator_groups.h"

#include <algorithm>
#include <functional>
#include <set>
#include <vector>

namespace plimsoll::partition {
namespace {

// Operators so that each comes after all it feeds; of those that are ready the last one first.
std::vector<int> backward_order(const PipelineModel& model) {
  const auto touching = edges_of_operators(model);
  std::vector<int> missing(model.operators.size());
  for (const PipelineEdge& edge : model.edges) ++missing[edge.source];
  std::set<int, std::greater<>> ready;
  for (int op = 0; op < model.num_operators(); ++op) {
    if (missing[op] == 0) ready.insert(op);
  }
  std::vector<int> order;
  while (!ready.empty()) {
    const int op = *ready.begin();
    ready.erase(ready.begin());
    order.push_back(op);
    for (const int edge : touching[op]) {
      const int source = model.edges[edge].source;
      if (source != op && --missing[source] == 0) ready.insert(source);
    }
  }
  return order;
}

double least_device_ms(const PipelineOperator& op) {
  double least = kUnlimited;
  for (const TensorParallelChoices& degree : op.degrees) {
    for (const OperatorVariant& choice : degree.choices) {
      least = std::min(least, degree.degree * choice.time_ms);
    }
  }
  return least;
}

}  // namespace

GroupGraph make_replicated_groups(const PipelineModel& model) {
  GroupGraph groups;
  const std::vector<int> order = backward_order(model);
  std::vector<int> group_of(order.size());
  groups.kinds.push_back({});
  groups.time_ms.emplace_back();
  for (std::size_t g = 0; g < order.size(); ++g) {
    group_of[order[g]] = static_cast<int>(g);
    groups.nodes.push_back({order[g]});
    groups.time_ms[0].push_back(least_device_ms(model.operators[order[g]]));
  }
  groups.memory.assign(order.size(), 0);
  groups.predecessors.resize(order.size());
  groups.successors.resize(order.size());
  for (const PipelineEdge& edge : model.edges) {
    const int first = group_of[edge.dest];
    const int second = group_of[edge.source];
    groups.predecessors[second].push_back(first);
    groups.successors[first].push_back(second);
  }
  for (auto& list : groups.predecessors) std::sort(list.begin(), list.end());
  for (auto& list : groups.successors) std::sort(list.begin(), list.end());
  return groups;
}

}  // namespace plimsoll::partition
