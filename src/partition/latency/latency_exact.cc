#include "partition/latency/latency_exact.h"

#include <algorithm>

#include "partition/latency/latency_bound.h"
#include "partition/latency/latency_state.h"
#include "partition/latency/sample_latency.h"

namespace plimsoll::partition {
namespace {

constexpr double kBetter = 1 - 1e-12;
constexpr int kClockSteps = 256;  // between two checks of the clock

class Tree {
 public:
  Tree(const CostGraph& graph, const LatencyGroups& groups, LatencyTree& tree,
       std::vector<int>& plan, double& value, const RunContext& context)
      : graph_(graph),
        groups_(groups),
        tree_(tree),
        plan_(plan),
        value_(value),
        context_(context),
        latency_(graph),
        state_(graph, groups),
        num_groups_on_(static_cast<std::size_t>(graph.num_devices())),
        choice_(graph.nodes.size(), -1),
        has_pairs_(!graph.pair_rates.empty()),
        place_(graph.nodes.size()),
        readers_(graph.nodes.size()),
        tails_(least_tails(graph, latency_.order())) {
    for (std::size_t i = 0; i < place_.size(); ++i) {
      place_[latency_.order()[i]] = static_cast<int>(i);
    }
    for (const Net& net : graph.nets) {
      for (const int consumer : net.consumers) readers_[net.producer].push_back(consumer);
    }
    state_.clear();
  }

  void run() {
    const int num_nodes = graph_.num_nodes();
    int depth = 0;
    std::vector<char> leads(graph_.nodes.size());  // the node is its group's first in the order
    std::vector<char> is_met(groups_.nodes.size());
    for (int i = 0; i < num_nodes; ++i) {
      char& met = is_met[groups_.group_of[latency_.order()[i]]];
      leads[i] = met == 0 ? 1 : 0;
      met = 1;
    }
    while (depth >= 0) {
      if (depth == num_nodes) {
        take();
        --depth;
      } else if (!advance(depth, leads[depth] != 0)) {
        choice_[depth] = -1;
        --depth;
      } else {
        ++depth;
      }
      if (depth >= 0 && is_over()) return;
    }
    tree_.is_complete = true;
  }

 private:
  // The clock is looked at when a number of evaluations is met for the first time: where it stops
  // the search, this number as the limit stops it again.
  bool is_over() {
    if (tree_.num_evaluations >= tree_.max_evaluations) return true;
    if (tree_.num_evaluations < next_look_) return false;
    next_look_ = tree_.num_evaluations + kClockSteps;
    return context_.is_cancelled() || context_.is_past_deadline();
  }

  // The next choice for the node at this depth that may lead to something better.
  bool advance(int depth, bool leads) {
    const int group = groups_.group_of[latency_.order()[depth]];
    if (!leads) {  // where its group is
      if (choice_[depth] >= 0) return false;
      choice_[depth] = 0;
      return may_be_better(depth + 1);
    }
    if (choice_[depth] >= 0) {
      --num_groups_on_[choice_[depth]];
      state_.move(group, -1);
    }
    while (++choice_[depth] < graph_.num_devices()) {
      const int device = choice_[depth];
      if (!state_.is_allowed(group, device) || has_twin(device)) continue;
      state_.move(group, device);
      if (state_.fits(device) && may_be_better(depth + 1)) {
        ++num_groups_on_[device];
        return true;
      }
      state_.move(group, -1);
    }
    return false;
  }

  // An empty device of the same kind stands before it.
  bool has_twin(int device) const {
    if (has_pairs_ || num_groups_on_[device] != 0) return false;
    for (int other = 0; other < device; ++other) {
      if (groups_.kind_of[other] == groups_.kind_of[device] && num_groups_on_[other] == 0)
        return true;
    }
    return false;
  }

  bool may_be_better(int count) {
    ++tree_.num_evaluations;
    const double latency = latency_.evaluate(state_.device(), count);
    if (latency == kUnlimited) return false;
    if (!(latency < value_ * kBetter)) return false;
    for (int i = 0; i < count; ++i) {
      const int node = latency_.order()[i];
      for (const int reader : readers_[node]) {
        if (place_[reader] < count) continue;  // its time may be in the node's task
        if (!(latency_.finish(node) + tails_[reader] < value_ * kBetter)) return false;
      }
    }
    last_latency_ = latency;
    return true;
  }

  void take() {
    value_ = last_latency_;
    plan_ = state_.device();
    if (context_.progress) context_.progress({tree_.num_evaluations, value_, std::nullopt});
  }

  const CostGraph& graph_;
  const LatencyGroups& groups_;
  LatencyTree& tree_;
  std::vector<int>& plan_;
  double& value_;
  const RunContext& context_;
  SampleLatency latency_;
  LatencyState state_;
  std::vector<int> num_groups_on_;  // [num_devices]
  std::vector<int> choice_;         // [depth]
  bool has_pairs_ = false;
  std::vector<int> place_;                 // [num_nodes] in the order
  std::vector<std::vector<int>> readers_;  // [num_nodes]
  std::vector<double> tails_;              // [num_nodes]
  double last_latency_ = 0;
  std::int64_t next_look_ = kClockSteps;  // at the clock
};

}  // namespace

void search_latency_tree(const CostGraph& graph, const LatencyGroups& groups, LatencyTree& tree,
                         std::vector<int>& plan, double& value, const RunContext& context) {
  Tree(graph, groups, tree, plan, value, context).run();
}

}  // namespace plimsoll::partition
