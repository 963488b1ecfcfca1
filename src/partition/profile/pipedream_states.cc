#include "partition/profile/pipedream_states.h"

#include <algorithm>
#include <unordered_set>

#include "core/check.h"

namespace plimsoll::partition {
namespace {

// The antichains that advancing from the first source reaches, by size of their downsets.
class StateFinder {
 public:
  StateFinder(const PipeDreamGraph& graph, std::int64_t max_states)
      : graph_(graph), max_states_(max_states) {}

  // Empty where there are too many.
  std::vector<PipeDreamState> find() {
    const auto first = std::find_if(graph_.before.begin(), graph_.before.end(),
                                    [](const NodeSet& before) { return before.count() == 0; });
    NodeSet start(graph_.node.size());
    start.insert(static_cast<std::size_t>(first - graph_.before.begin()));
    add(start);
    for (std::size_t next = 0; next < found_.size(); ++next) {  // it grows on the way
      if (static_cast<std::int64_t>(found_.size()) > max_states_) return {};
      advance(next);
    }
    std::vector<PipeDreamState> states;
    for (std::size_t i = 0; i < found_.size(); ++i) states.push_back(make_state(i));
    std::stable_sort(states.begin(), states.end(),
                     [](const PipeDreamState& a, const PipeDreamState& b) {
                       return a.holds.count() < b.holds.count();
                     });
    return states;
  }
  std::int64_t num_found() const { return static_cast<std::int64_t>(found_.size()); }

 private:
  void add(const NodeSet& holds) {
    if (is_found_.insert(holds).second) found_.push_back(holds);
  }

  // The maximal nodes, and those that still seem to feed another branch. Ascending.
  std::vector<int> augmented_antichain(const NodeSet& holds) const {
    NodeSet is_in(graph_.node.size());
    holds.for_each([&](std::size_t a) {
      if (std::any_of(graph_.next[a].begin(), graph_.next[a].end(),
                      [&](int other) { return holds.contains(other); })) {
        return;
      }
      is_in.insert(a);
      graph_.before[a].for_each([&](std::size_t p) {
        for (const int other : graph_.next[p]) {
          if (!graph_.before[a].contains(other) && other != static_cast<int>(a)) is_in.insert(p);
        }
      });
    });
    std::vector<int> nodes;
    is_in.for_each([&](std::size_t i) { nodes.push_back(static_cast<int>(i)); });
    return nodes;
  }

  void advance(std::size_t state) {
    const NodeSet holds = found_[state];  // a copy: `found_` grows
    antichains_.push_back(augmented_antichain(holds));
    for (const int node : antichains_.back()) {
      for (const int next : graph_.next[node]) {
        if (holds.contains(next)) continue;
        NodeSet larger = holds;
        larger.insert(graph_.before[next]);
        larger.insert(static_cast<std::size_t>(next));
        add(larger);
      }
    }
  }

  PipeDreamState make_state(std::size_t i) const {
    PipeDreamState state;
    state.holds = found_[i];
    state.holds.for_each([&](std::size_t node) {
      state.compute_s += graph_.time_s[node];
      state.activation += graph_.activation[node];
      state.parameters += graph_.parameters[node];
    });
    for (const int node : antichains_[i]) state.output_activation += graph_.activation[node];
    return state;
  }

  const PipeDreamGraph& graph_;
  std::int64_t max_states_;
  std::vector<NodeSet> found_;
  std::vector<std::vector<int>> antichains_;  // [found, as far as they have been advanced]
  std::unordered_set<NodeSet, NodeSetHash> is_found_;
};

}  // namespace

PipeDreamGraph prepare_pipedream_graph(const PipeDreamProfile& profile) {
  PipeDreamGraph graph;
  graph.node = kept_nodes(profile);
  const std::size_t size = graph.node.size();
  std::vector<int> place(profile.nodes.size(), -1);
  for (std::size_t i = 0; i < size; ++i) {
    place[graph.node[i]] = static_cast<int>(i);
    const PipeDreamNode& node = profile.nodes[graph.node[i]];
    graph.time_s.push_back((node.forward_ms + node.backward_ms) / 1000.0);
    double activation = 0;
    for (const Bytes part : node.activations) activation += static_cast<double>(part);
    graph.activation.push_back(activation);
    graph.parameters.push_back(static_cast<double>(node.parameters));
  }
  graph.next.resize(size);
  graph.before.assign(size, NodeSet(size));
  std::vector<int> missing(size);
  for (const auto& [from, to] : profile.edges) {
    if (place[from] < 0 || place[to] < 0) continue;
    graph.next[place[from]].push_back(place[to]);
    ++missing[place[to]];
  }
  std::vector<int> ready;
  for (std::size_t i = 0; i < size; ++i) {
    if (missing[i] == 0) ready.push_back(static_cast<int>(i));
  }
  while (!ready.empty()) {
    const int node = ready.back();
    ready.pop_back();
    for (const int other : graph.next[node]) {
      graph.before[other].insert(graph.before[node]);
      graph.before[other].insert(static_cast<std::size_t>(node));
      if (--missing[other] == 0) ready.push_back(other);
    }
  }
  return graph;
}

std::vector<PipeDreamState> find_pipedream_states(const PipeDreamGraph& graph,
                                                  std::int64_t max_states,
                                                  std::int64_t& num_found) {
  PLIMSOLL_CHECK(!graph.node.empty(), "there is a node");
  StateFinder finder(graph, max_states);
  std::vector<PipeDreamState> states = finder.find();
  num_found = finder.num_found();
  return states;
}

}  // namespace plimsoll::partition
