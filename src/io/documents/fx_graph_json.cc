#include "io/documents/fx_graph_json.h"

#include <fmt/format.h>

#include <charconv>
#include <unordered_map>

#include "io/documents/placement_descriptions.h"

namespace plimsoll::io {
namespace {

using partition::PartitionerConfig;

class FxReader {
 public:
  FxReader(const FxGraphDocument& document, std::string_view file)
      : document_(document), file_(file) {}

  Result<FxInput> read() {
    std::vector<partition::Node> nodes;
    for (std::size_t i = 0; i < document_.nodes.size(); ++i) {
      const FxNode& entry = document_.nodes[i];
      partition::Node& node = nodes.emplace_back(entry.node);
      for (std::size_t a = 0; a < entry.args.size(); ++a) {
        PLIMSOLL_ASSIGN(const int input,
                        find_node(entry.args[a], fmt::format("/nodes/{}/args/{}", i, a)));
        node.inputs.push_back(input);
      }
      if (index_.emplace(entry.node.name, static_cast<int>(i)).second) continue;
      return fail(ErrorCode::kConflict, place(fmt::format("/nodes/{}/name", i)),
                  fmt::format("the name '{}' occurs twice", entry.node.name),
                  "give every node its own name");
    }
    auto graph = partition::make_graph(std::move(nodes));
    if (!graph) return in_document(std::move(graph).error());
    FxInput input{*std::move(graph), document_.config};
    PLIMSOLL_RETURN_IF_ERROR(take_mappings(input));
    if (auto valid = partition::validate(input.config, input.graph); !valid) {
      return in_document(std::move(valid).error());
    }
    return input;
  }

 private:
  Result<int> find_node(const std::string& name, const std::string& pointer) const {
    const auto found = index_.find(name);
    if (found != index_.end()) return found->second;
    return fail(ErrorCode::kValue, place(pointer), fmt::format("there is no node '{}' here", name),
                "name a node of the graph; as an argument, an earlier one");
  }

  Result<void> take_mappings(FxInput& input) const {
    PartitionerConfig& config = input.config;
    if (!document_.latency.empty()) {
      config.node_to_latency_mapping.resize(input.graph.nodes.size());
    }
    for (const auto& [name, seconds] : document_.latency.list) {
      PLIMSOLL_ASSIGN(const int node, find_node(name, "/latency/" + escape_pointer(name)));
      config.node_to_latency_mapping[static_cast<std::size_t>(node)] =
          partition::NodeLatency{seconds.first, seconds.second};
    }
    for (const auto& [name, id] : document_.node_to_partition.list) {
      PLIMSOLL_ASSIGN(const int node,
                      find_node(name, "/node_to_partition/" + escape_pointer(name)));
      config.node_to_partition_mapping.emplace_back(node, id);
    }
    for (const auto& [text, devices] : document_.partition_to_devices.list) {
      int id = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
      if (error != std::errc() || end != text.data() + text.size()) {
        return fail(ErrorCode::kValue, place("/partition_to_devices/" + escape_pointer(text)),
                    fmt::format("'{}' is not the number of a partition", text),
                    "give a whole number");
      }
      if (!config.partition_to_logical_device_mapping.emplace(id, devices).second) {
        return fail(ErrorCode::kConflict, place("/partition_to_devices/" + escape_pointer(text)),
                    fmt::format("partition {} occurs twice", id), "give each partition once");
      }
    }
    return {};
  }

  std::string place(const std::string& pointer) const { return document_place(file_, pointer); }
  tl::unexpected<Error> in_document(Error error) const {
    error.message = error.place + ": " + error.message;
    error.place = place("");
    return tl::unexpected<Error>(std::move(error));
  }

  const FxGraphDocument& document_;
  std::string_view file_;
  std::unordered_map<std::string, int> index_;
};

}  // namespace

Result<FxInput> read_fx_graph(std::string_view text, std::string_view file) {
  PLIMSOLL_ASSIGN(const FxGraphDocument document,
                  read_document<FxGraphDocument>(text, file, kFxGraphSchema));
  return FxReader(document, file).read();
}

std::string write_fx_graph(const FxInput& input) {
  FxGraphDocument document;
  document.config = input.config;
  const auto name_of = [&input](int node) {
    return input.graph.nodes[static_cast<std::size_t>(node)].name;
  };
  for (const partition::Node& node : input.graph.nodes) {
    FxNode& entry = document.nodes.emplace_back();
    entry.node = node;
    for (const int source : node.inputs) entry.args.push_back(name_of(source));
  }
  const auto& latencies = input.config.node_to_latency_mapping;
  for (std::size_t i = 0; i < latencies.size(); ++i) {
    if (!latencies[i]) continue;
    document.latency.list.emplace_back(
        input.graph.nodes[i].name,
        std::pair(latencies[i]->mem_latency_sec, latencies[i]->computer_latency_sec));
  }
  for (const auto& [node, id] : input.config.node_to_partition_mapping) {
    document.node_to_partition.list.emplace_back(name_of(node), id);
  }
  for (const auto& [id, devices] : input.config.partition_to_logical_device_mapping) {
    document.partition_to_devices.list.emplace_back(fmt::format("{}", id), devices);
  }
  return write_document(document);
}

}  // namespace plimsoll::io
