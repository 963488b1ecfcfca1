// Small operator graphs, written down node by node.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "plimsoll/partition/operator_costs.h"
#include "plimsoll/partition/operator_graph.h"

namespace plimsoll::partition {

class OperatorGraphBuilder {
 public:
  OperatorGraphBuilder() { graph.time_columns = {"fast"}; }

  OperatorNode& add(std::string name, OpKind op, std::vector<int> inputs, Bytes bytes) {
    OperatorNode& node = graph.nodes.emplace_back();
    node.name = std::move(name);
    node.op = op;
    node.target = op == OpKind::kCallFunction ? "aten.op.default" : node.name;
    node.inputs = std::move(inputs);
    node.output_bytes = bytes;
    node.time_ms = {op == OpKind::kCallFunction ? 1.0 : 0.0};
    return node;
  }
  int input(std::string name, Bytes bytes = 8) {
    add(std::move(name), OpKind::kPlaceholder, {}, bytes);
    return last();
  }
  int weight(std::string fqn, Bytes bytes) {
    add(std::move(fqn), OpKind::kGetAttr, {}, bytes).is_parameter = true;
    return last();
  }
  int op(std::string name, std::vector<int> inputs, Bytes bytes = 8, std::string module = "") {
    add(std::move(name), OpKind::kCallFunction, std::move(inputs), bytes).module =
        std::move(module);
    return last();
  }
  int view(std::string name, int base, Bytes bytes = 8, std::string module = "") {
    op(std::move(name), {base}, bytes, std::move(module));
    graph.nodes.back().is_view = true;
    return last();
  }
  int getitem(std::string name, int whole, Bytes bytes = 8) {
    view(std::move(name), whole, bytes, graph.nodes[whole].module);
    graph.nodes.back().target = "getitem";
    return last();
  }
  int backward(std::string name, std::vector<int> inputs, Bytes bytes = 8,
               std::string module = "") {
    op(std::move(name), std::move(inputs), bytes, std::move(module));
    graph.nodes.back().is_backward = true;
    return last();
  }
  int output(std::vector<int> inputs) {
    add("output", OpKind::kOutput, std::move(inputs), 0);
    return last();
  }
  int last() const { return graph.num_nodes() - 1; }

  OperatorGraph graph;
};

// Devices of one class without a cap that move `link_rate` bytes in a ms, by recorded times.
inline OperatorCostOptions fast_devices(int count, double link_rate = 1) {
  OperatorCostOptions options;
  OperatorDevices& devices = options.classes.emplace_back();
  devices.devices = {"fast", count, {}, link_rate};
  devices.time_column = "fast";
  return options;
}

}  // namespace plimsoll::partition
