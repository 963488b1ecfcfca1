#include "plimsoll/io/cost_graph_json.h"

#include <fmt/format.h>

#include <cmath>
#include <unordered_map>
#include <utility>

#include "io/documents/placement_descriptions.h"

namespace plimsoll::io {

using partition::CostGraph;
using partition::CostNode;
using partition::kUnlimited;
using partition::Net;
using partition::Weight;

namespace {

class CostGraphReader {
 public:
  CostGraphReader(const CostGraphDocument& document, std::string_view file)
      : document_(document), file_(file) {}

  Result<CostGraph> read() {
    for (const ClassEntry& entry : document_.classes) {
      graph_.classes.push_back(entry.devices);
      graph_.classes.back().link_rate = entry.link_rate.value_or(kUnlimited);
    }
    graph_.pair_rates = document_.pair_rates;
    for (std::size_t i = 0; i < document_.nodes.size(); ++i) {
      PLIMSOLL_RETURN_IF_ERROR(add_node(i));
    }
    for (std::size_t i = 0; i < document_.nets.size(); ++i) {
      const NetEntry& entry = document_.nets[i];
      Net& net = graph_.nets.emplace_back();
      net.amount = entry.amount;
      PLIMSOLL_ASSIGN(net.producer, find_node(entry.producer, fmt::format("/nets/{}/producer", i)));
      PLIMSOLL_ASSIGN(net.consumers,
                      find_nodes(entry.consumers, fmt::format("/nets/{}/consumers", i)));
    }
    for (std::size_t i = 0; i < document_.weights.size(); ++i) {
      const WeightEntry& entry = document_.weights[i];
      PLIMSOLL_ASSIGN(std::vector<int> readers,
                      find_nodes(entry.readers, fmt::format("/weights/{}/readers", i)));
      graph_.weights.push_back({entry.name, entry.bytes, std::move(readers)});
    }
    if (auto valid = partition::validate(graph_); !valid) {
      Error error = valid.error();
      error.message = error.place + ": " + error.message;
      error.place = document_place(file_, "");
      return tl::unexpected<Error>(std::move(error));
    }
    return std::move(graph_);
  }

 private:
  Result<void> add_node(std::size_t i) {
    const CostNodeEntry& entry = document_.nodes[i];
    const std::string pointer = fmt::format("/nodes/{}", i);
    if (entry.node.name.empty()) {
      return fail(ErrorCode::kValue, document_place(file_, pointer + "/name"), "is empty",
                  "give every node a name");
    }
    if (!index_.emplace(entry.node.name, static_cast<int>(i)).second) {
      return fail(ErrorCode::kConflict, document_place(file_, pointer + "/name"),
                  fmt::format("the name '{}' occurs twice", entry.node.name),
                  "give every node its own name");
    }
    CostNode& node = graph_.nodes.emplace_back(entry.node);
    node.time_ms.assign(graph_.classes.size(), kUnlimited);
    for (const auto& [name, ms] : entry.time_ms) {
      std::size_t c = 0;
      while (c < graph_.classes.size() && graph_.classes[c].name != name) ++c;
      if (c == graph_.classes.size()) {
        return fail(ErrorCode::kValue,
                    document_place(file_, pointer + "/time_ms/" + escape_pointer(name)),
                    fmt::format("there is no class '{}'", name), "name one of the classes");
      }
      node.time_ms[c] = ms;
    }
    return {};
  }

  Result<int> find_node(const std::string& name, const std::string& pointer) const {
    const auto found = index_.find(name);
    if (found != index_.end()) return found->second;
    return fail(ErrorCode::kValue, document_place(file_, pointer),
                fmt::format("there is no node '{}'", name), "name a node of the graph");
  }

  Result<std::vector<int>> find_nodes(const std::vector<std::string>& names,
                                      const std::string& pointer) const {
    std::vector<int> nodes;
    for (std::size_t i = 0; i < names.size(); ++i) {
      PLIMSOLL_ASSIGN(const int node, find_node(names[i], fmt::format("{}/{}", pointer, i)));
      nodes.push_back(node);
    }
    return nodes;
  }

  const CostGraphDocument& document_;
  std::string_view file_;
  std::unordered_map<std::string_view, int> index_;
  CostGraph graph_;
};

}  // namespace

Result<CostGraph> read_cost_graph(std::string_view text, std::string_view file) {
  PLIMSOLL_ASSIGN(const CostGraphDocument document,
                  read_document<CostGraphDocument>(text, file, kCostGraphSchema));
  return CostGraphReader(document, file).read();
}

Result<std::string> write_cost_graph(const CostGraph& graph) {
  PLIMSOLL_RETURN_IF_ERROR(partition::validate(graph));
  CostGraphDocument document;
  for (const partition::DeviceClass& devices : graph.classes) {
    ClassEntry entry{devices, {}};
    if (std::isfinite(devices.link_rate)) entry.link_rate = devices.link_rate;
    document.classes.push_back(std::move(entry));
  }
  document.pair_rates = graph.pair_rates;
  std::unordered_map<std::string_view, int> seen;
  for (int i = 0; i < graph.num_nodes(); ++i) {
    const CostNode& node = graph.nodes[i];
    if (node.name.empty() || !seen.emplace(node.name, i).second) {
      return fail(ErrorCode::kUsage, place_of(graph, i), "has no name of its own",
                  "give every node its own name");
    }
    CostNodeEntry& entry = document.nodes.emplace_back();
    entry.node = node;
    for (std::size_t c = 0; c < graph.classes.size(); ++c) {
      if (std::isfinite(node.time_ms[c])) entry.time_ms[graph.classes[c].name] = node.time_ms[c];
    }
  }
  const auto names_of = [&graph](const std::vector<int>& nodes) {
    std::vector<std::string> names;
    for (const int node : nodes) names.push_back(graph.nodes[node].name);
    return names;
  };
  for (const Net& net : graph.nets) {
    document.nets.push_back({graph.nodes[net.producer].name, names_of(net.consumers), net.amount});
  }
  for (const Weight& weight : graph.weights) {
    document.weights.push_back({weight.name, weight.bytes, names_of(weight.readers)});
  }
  return write_document(document);
}

}  // namespace plimsoll::io
