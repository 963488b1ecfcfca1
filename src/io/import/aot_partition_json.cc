#include "io/import/aot_partition_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "core/suggest.h"
#include "io/json/json_reader.h"

namespace plimsoll::io {

using checkpoint::GraphInfo;

constexpr std::string_view kNodes = "Joint Graph Node Information";
constexpr std::string_view kEdges = "Joint Graph Edges";
constexpr std::string_view kCandidates = "Recomputable Banned Nodes Order";
constexpr std::string_view kMemory = "Knapsack Input Memories";
constexpr std::string_view kRuntimes = "Knapsack Input Runtimes";
constexpr std::string_view kSaved = "Knapsack Saved Nodes";
constexpr std::string_view kRecomputed = "Knapsack Recomputed Nodes";
constexpr std::string_view kAbsolute = "Absolute Memories";

constexpr Rule kFigure{.min = 0};
constexpr Rule kBudget{.min = 0, .max = 1};

struct AotNode {
  int index = 0;
};
struct AotEdges {
  std::optional<std::int64_t> total;
  std::vector<std::pair<std::string, std::string>> edges;
};
struct AotPayload {
  std::optional<std::int64_t> size;
  AotEdges edges;
  std::map<std::string, AotNode> nodes;
  std::vector<std::string> candidates;
  AotPartition partition;  // without graph.nodes, graph.edges and graph.candidates
};

template <class Fields, SameAs<AotNode> T>
void describe(Fields& fields, T& node) {
  fields.required("index", node.index, kFigure);
}

template <class Fields, SameAs<AotEdges> T>
void describe(Fields& fields, T& edges) {
  fields.optional("Total", edges.total, kFigure);
  fields.required("Edges", edges.edges);
}

template <class Fields, SameAs<AotPayload> T>
void describe(Fields& fields, T& payload) {
  auto& partition = payload.partition;
  fields.optional("Joint Graph Size", payload.size, kFigure);
  fields.required(kEdges, payload.edges);
  fields.required(kNodes, payload.nodes);
  fields.required(kCandidates, payload.candidates);
  fields.optional("Expected Runtime", partition.expected_runtime, kFigure);
  fields.optional(kSaved, partition.saved, kFigure);
  fields.optional(kRecomputed, partition.recomputed, kFigure);
  fields.optional(kAbsolute, partition.absolute_memory, kFigure);
  fields.required(kMemory, partition.graph.memory, kFigure);
  fields.required(kRuntimes, partition.graph.runtimes, kFigure);
  fields.optional("Min Cut Solution Saved Values", partition.saved_values);
  fields.optional("Memory Budget", partition.memory_budget, kBudget);
}

namespace {

// Another release logs other keys: what T does not describe goes.
template <class T>
void drop_unknown(JsonValue& value) {
  static const std::vector<KeyInfo> keys = keys_of<T>();
  if (auto* object = std::get_if<JsonValue::Object>(&value.data)) {
    std::erase_if(*object, [](const JsonMember& member) {
      return std::none_of(keys.begin(), keys.end(),
                          [&](const KeyInfo& key) { return key.key == member.key; });
    });
  }
}

void drop_unknown_keys(JsonValue& root) {
  drop_unknown<AotPayload>(root);
  auto* members = std::get_if<JsonValue::Object>(&root.data);
  if (members == nullptr) return;
  for (JsonMember& member : *members) {
    if (member.key == kEdges) drop_unknown<AotEdges>(member.value);
    if (member.key != kNodes) continue;
    if (auto* nodes = std::get_if<JsonValue::Object>(&member.value.data)) {
      for (JsonMember& node : *nodes) drop_unknown<AotNode>(node.value);
    }
  }
}

class PartitionBuilder {
 public:
  PartitionBuilder(AotPayload payload, std::string_view file)
      : payload_(std::move(payload)), file_(file) {}

  Result<AotPartition> build() && {
    GraphInfo& graph = payload_.partition.graph;
    PLIMSOLL_RETURN_IF_ERROR(add_nodes(graph));
    const auto& edges = payload_.edges.edges;
    for (std::size_t i = 0; i < edges.size(); ++i) {
      const std::string pointer = fmt::format("/{}/Edges/{}", kEdges, i);
      PLIMSOLL_ASSIGN(const int from, find_node(edges[i].first, pointer + "/0"));
      PLIMSOLL_ASSIGN(const int to, find_node(edges[i].second, pointer + "/1"));
      graph.edges.emplace_back(from, to);
    }
    for (std::size_t i = 0; i < payload_.candidates.size(); ++i) {
      PLIMSOLL_ASSIGN(const int node,
                      find_node(payload_.candidates[i], fmt::format("/{}/{}", kCandidates, i)));
      graph.candidates.push_back(node);
    }
    if (auto valid = checkpoint::validate(graph); !valid) {
      Error error = std::move(valid).error();
      error.place = document_place(file_, pointer_of_list(error.place));
      return tl::unexpected<Error>(std::move(error));
    }
    PLIMSOLL_RETURN_IF_ERROR(check_choice());
    return std::move(payload_.partition);
  }

 private:
  Result<void> add_nodes(GraphInfo& graph) {
    const std::size_t n = payload_.nodes.size();
    if (payload_.size && static_cast<std::size_t>(*payload_.size) != n) {
      return fail(ErrorCode::kConflict, place("/Joint Graph Size"),
                  fmt::format("{} beside {} nodes", *payload_.size, n), "leave the key out");
    }
    graph.nodes.resize(n);
    std::vector<char> is_named(n, 0);
    for (const auto& entry : payload_.nodes) {
      const auto index = static_cast<std::size_t>(entry.second.index);
      if (index >= n || is_named[index]) {
        return fail(ErrorCode::kSchema,
                    place(fmt::format("/{}/{}/index", kNodes, escape_pointer(entry.first))),
                    fmt::format("index {} is taken, or beyond the {} nodes", index, n),
                    "number the nodes from 0 in graph order");
      }
      is_named[index] = 1;
      graph.nodes[index] = entry.first;
      index_of_.emplace(entry.first, entry.second.index);
    }
    return {};
  }

  Result<int> find_node(const std::string& name, const std::string& pointer) const {
    if (const auto found = index_of_.find(name); found != index_of_.end()) return found->second;
    return fail(ErrorCode::kSchema, place(pointer), fmt::format("no node is named '{}'", name),
                suggest(name, payload_.partition.graph.nodes));
  }

  static std::string pointer_of_list(std::string_view list) {
    if (list == "edges") return fmt::format("/{}/Edges", kEdges);
    if (list == "candidates") return fmt::format("/{}", kCandidates);
    if (list == "memory") return fmt::format("/{}", kMemory);
    return fmt::format("/{}", list == "runtimes" ? kRuntimes : kNodes);
  }

  // The logged choice, where there is one, names every candidate once.
  Result<void> check_choice() const {
    const AotPartition& partition = payload_.partition;
    const std::size_t n = partition.graph.candidates.size();
    if (!partition.absolute_memory.empty() && partition.absolute_memory.size() != n) {
      return fail(ErrorCode::kSchema, place(fmt::format("/{}", kAbsolute)),
                  fmt::format("{} figures for {} candidates", partition.absolute_memory.size(), n),
                  "give one figure a candidate");
    }
    if (partition.saved.empty() && partition.recomputed.empty()) return {};
    std::vector<int> named = partition.saved;
    named.insert(named.end(), partition.recomputed.begin(), partition.recomputed.end());
    std::sort(named.begin(), named.end());
    bool names_all = named.size() == n;
    for (std::size_t i = 0; names_all && i < n; ++i) names_all = named[i] == static_cast<int>(i);
    if (names_all) return {};
    return fail(ErrorCode::kConflict, place(fmt::format("/{}", kSaved)),
                fmt::format("saved and recomputed nodes do not name each of {} candidates once", n),
                "leave both lists out");
  }

  std::string place(const std::string& pointer) const { return document_place(file_, pointer); }

  AotPayload payload_;
  std::string_view file_;
  std::unordered_map<std::string, int> index_of_;
};

}  // namespace

Result<AotPartition> read_aot_partition(std::string_view text, std::string_view file) {
  PLIMSOLL_ASSIGN(JsonValue root, parse_json(text, file));
  drop_unknown_keys(root);
  PLIMSOLL_ASSIGN(AotPayload payload, read_tree<AotPayload>(root, file));
  return PartitionBuilder(std::move(payload), file).build();
}

}  // namespace plimsoll::io
