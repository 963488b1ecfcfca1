// The cheapest way to part a cost graph's nodes in two.
//
// Problem. Some nodes are in, some are out; choose for the others, so that the times of what is in
// and the amounts of the nets that are neither wholly in nor wholly out add up to least.
// Method. Maximum flow (Dinic) on a network with two vertices and one arc for each net (Lawler,
// "Cutsets and partitions of hypergraphs", 1973, https://doi.org/10.1002/net.3230030306), and an
// arc from each free node to the sink. Capacities are whole numbers, rounded down, so that the
// value is never above the least sum; it is below it by at most 2^-40 of the largest amount or time
// for each net and node.
// Cost. O(nodes + pins) to build; flows are few where the free nodes are few.
#pragma once

#include <cstdint>
#include <vector>

#include "plimsoll/partition/cost_graph.h"

namespace plimsoll::partition {

enum class Side : char { kFree, kIn, kOut };

class NetCut {
 public:
  // `root` is [num_nodes]: nodes of one root go together. Both outlive this.
  NetCut(const CostGraph& graph, const std::vector<int>& root) : graph_(graph), root_(root) {}

  // Sum over the free nodes that go in and over the cut nets, those between fixed nodes included;
  // kUnlimited where that asks for nodes of unlimited time or parts nodes of one root. `side` and
  // `time_ms` are [num_nodes]; a net's amount is divided by `rate`.
  double solve(const std::vector<Side>& side, const std::vector<double>& time_ms, double rate);

  // After solve(): the free nodes that go in, as few as possible.
  const std::vector<int>& chosen() const { return chosen_; }
  // Arcs looked at so far.
  std::int64_t num_steps() const { return num_steps_; }

 private:
  struct Arc {
    int to, next;
    std::int64_t room;
  };
  // false: nodes of one root are wanted on both sides.
  bool place_roots(const std::vector<Side>& side, const std::vector<double>& time_ms);
  int vertex_of(int pin);
  double add_net(const Net& net, double ms);
  std::int64_t push_flow();
  int add_vertex();
  void add_arc(int from, int to, std::int64_t capacity);
  bool level_vertices();
  std::int64_t push_path();

  const CostGraph& graph_;
  const std::vector<int>& root_;
  double scale_ = 1;          // capacity of a ms
  std::vector<Side> side_;    // [num_nodes] of roots
  std::vector<double> time_;  // [num_nodes] of roots, free nodes alone
  std::vector<Arc> arcs_;     // each beside its reverse
  std::vector<int> first_, level_, current_, queue_, path_;
  std::vector<int> vertex_;  // [num_nodes]
  std::vector<int> chosen_;
  std::int64_t num_steps_ = 0;
};

}  // namespace plimsoll::partition
