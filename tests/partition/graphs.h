// Graphs written down by names, and random ones.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/partition/graph.h"
#include "plimsoll/partition/partitioner_config.h"

namespace plimsoll::partition {

class GraphBuilder {
 public:
  // A total size below the output's means the output's.
  GraphBuilder& add(const std::string& name, OpKind op, const std::vector<std::string>& inputs,
                    Bytes output = 0, Bytes total = 0) {
    Node node;
    node.name = name;
    node.op = op;
    for (const std::string& input : inputs) node.inputs.push_back(find(input));
    node.size = {output, std::max(output, total)};
    nodes_.push_back(std::move(node));
    return *this;
  }
  GraphBuilder& input(const std::string& name, Bytes bytes) {
    return add(name, OpKind::kPlaceholder, {}, bytes);
  }
  GraphBuilder& constant(const std::string& name, Bytes bytes) {
    return add(name, OpKind::kGetAttr, {}, bytes);
  }
  GraphBuilder& call(const std::string& name, const std::vector<std::string>& inputs,
                     Bytes output) {
    return add(name, OpKind::kCallFunction, inputs, output);
  }
  GraphBuilder& module(const std::string& name, const std::vector<std::string>& inputs,
                       Bytes output, Bytes total, bool is_embedding = false) {
    add(name, OpKind::kCallModule, inputs, output, total);
    nodes_.back().is_embedding = is_embedding;
    return *this;
  }
  GraphBuilder& output(const std::vector<std::string>& inputs) {
    return add("output", OpKind::kOutput, inputs);
  }
  const std::vector<Node>& nodes() const { return nodes_; }
  Graph build() const { return make_graph(nodes_).value(); }

  // -1 if there is none.
  int find(const std::string& name) const {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].name == name) return static_cast<int>(i);
    }
    return -1;
  }

 private:
  std::vector<Node> nodes_;
};

// One device for each memory, logical ids 0, 1, ...
inline std::vector<Device> devices(const std::vector<Bytes>& memories) {
  std::vector<Device> list;
  for (const Bytes memory : memories) {
    const int id = static_cast<int>(list.size());
    list.push_back({"dev_" + std::to_string(id), memory, id});
  }
  return list;
}

inline std::vector<std::string> names(const Graph& graph, const std::vector<int>& nodes) {
  std::vector<std::string> list;
  for (const int node : nodes) list.push_back(graph.nodes[static_cast<std::size_t>(node)].name);
  return list;
}

// The same latency for every operator.
inline std::vector<std::optional<NodeLatency>> equal_latencies(const Graph& graph, double memory,
                                                               double computation) {
  std::vector<std::optional<NodeLatency>> latencies(graph.nodes.size());
  for (int node = 0; node < graph.num_nodes(); ++node) {
    if (graph.is_operator(node)) latencies[node] = NodeLatency{memory, computation};
  }
  return latencies;
}

// From a lower bound up to an upper one, both included; the same on every machine.
inline int draw(std::mt19937_64& random, int low, int high) {
  return low + static_cast<int>(random() % static_cast<std::uint64_t>(high - low + 1));
}

// Two inputs, then operators of one to three inputs each, with a constant now and then; what nobody
// reads is returned.
inline Graph random_graph(std::mt19937_64& random, int num_operators) {
  GraphBuilder builder;
  builder.input("x0", draw(random, 0, 60)).input("x1", draw(random, 1, 60));
  for (int i = 0; i < num_operators; ++i) {
    if (draw(random, 0, 4) == 0) builder.constant("c" + std::to_string(i), draw(random, 1, 60));
    const int known = static_cast<int>(builder.nodes().size());
    std::vector<std::string> inputs;
    for (int k = draw(random, 1, 3); k > 0; --k) {
      inputs.push_back(
          builder.nodes()[static_cast<std::size_t>(draw(random, std::max(0, known - 9), known - 1))]
              .name);
    }
    const Bytes output = draw(random, 0, 60);
    if (draw(random, 0, 1) == 0) {
      builder.call("f" + std::to_string(i), inputs, output);
    } else {
      builder.module("m" + std::to_string(i), inputs, output, output + draw(random, 0, 200),
                     draw(random, 0, 2) == 0);
    }
  }
  std::vector<bool> is_read(builder.nodes().size());
  for (const Node& node : builder.nodes()) {
    for (const int input : node.inputs) is_read[static_cast<std::size_t>(input)] = true;
  }
  std::vector<std::string> ends;
  for (std::size_t i = 0; i < is_read.size(); ++i) {
    if (!is_read[i] && is_operator(builder.nodes()[i].op)) ends.push_back(builder.nodes()[i].name);
  }
  return builder.output(ends).build();
}

// Latencies that no double holds exactly, so that the order of sums shows.
inline std::vector<std::optional<NodeLatency>> random_latencies(std::mt19937_64& random,
                                                                const Graph& graph, int ticks) {
  std::vector<std::optional<NodeLatency>> latencies(graph.nodes.size());
  for (int node = 0; node < graph.num_nodes(); ++node) {
    if (!graph.is_operator(node)) continue;
    const double memory = 0.1 * draw(random, 0, ticks);
    const double computation = 0.1 * draw(random, 0, ticks);
    latencies[node] = NodeLatency{memory, computation};
  }
  return latencies;
}

}  // namespace plimsoll::partition
