#include "io/import/dnn_partitioning_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "core/check.h"
#include "io/documents/descriptions.h"
#include "io/json/json_writer.h"
#include "partition/graph/assignment_figures.h"
#include "partition/graph/cycle.h"

namespace plimsoll::io {

using partition::CostGraph;
using partition::CostNode;
using partition::DeviceAssignment;
using partition::Net;

// A boolean that some files write as 0 or 1.
struct Flag {
  bool value = false;
  bool operator==(const Flag&) const = default;
};

// Whole bytes that the files write as floating point.
struct WholeBytes {
  Bytes value = 0;
  bool operator==(const WholeBytes&) const = default;
};

bool read(const Cursor& cursor, Flag& out, const Rule& rule) {
  const auto* number = cursor.value.as<std::int64_t>();
  if (number == nullptr) return read(cursor, out.value, rule);
  if (*number != 0 && *number != 1) {
    return cursor.fail(ErrorCode::kValue, fmt::format("{} is neither true nor false", *number),
                       "give true, false, 1 or 0");
  }
  out.value = *number == 1;
  return true;
}

bool read(const Cursor& cursor, WholeBytes& out, const Rule& rule) {
  const auto* number = cursor.value.as<double>();
  if (number == nullptr) return read(cursor, out.value, rule);
  constexpr double kTooBig = 9223372036854775808.0;
  if (*number >= kTooBig) {
    return cursor.fail(ErrorCode::kOverflow, fmt::format("{} does not fit", *number),
                       fmt::format("give at most {}", INT64_MAX));
  }
  if (*number < rule.min || *number != std::floor(*number)) {
    return cursor.fail(ErrorCode::kValue, fmt::format("{} is not a number of bytes", *number),
                       "give a whole number of at least 0");
  }
  out.value = static_cast<Bytes>(*number);
  return true;
}

JsonValue to_json(Flag flag, const Rule& rule) { return to_json(flag.value, rule); }
JsonValue to_json(WholeBytes bytes, const Rule& rule) { return to_json(bytes.value, rule); }

namespace {

constexpr Rule kDevices{.min = 0, .max = kMaxRanks};
constexpr double kEqualCosts = 1e-6;

}  // namespace

struct DnnNode {
  std::int64_t id = 0;
  Flag supported_on_fpga;
  double cpu_latency = 0;
  double fpga_latency = 0;
  Flag is_backward;
  std::optional<std::int64_t> color_class;
  WholeBytes size;
  std::string name;
  std::optional<std::int64_t> layer_id;
};

struct DnnEdge {
  std::int64_t source_id = 0;
  std::int64_t dest_id = 0;
  double cost = 0;
  std::optional<double> size;
  Flag is_artificial;
};

struct DnnDocument {
  std::string name, description, source;  // ours, for people
  WholeBytes max_size_per_fpga;
  int max_fpgas = 0;
  int max_cpus = 0;
  std::vector<DnnNode> nodes;
  std::vector<DnnEdge> edges;
};

struct DnnDevice {
  double load = 0;
  std::vector<std::int64_t> nodes;
};

struct DnnSplitDocument {
  std::optional<double> max_load;
  std::vector<DnnDevice> fpgas, cpus;
};

template <class Fields, SameAs<DnnNode> T>
void describe(Fields& fields, T& node) {
  fields.required("id", node.id);
  fields.required("supportedOnFpga", node.supported_on_fpga);
  fields.required("cpuLatency", node.cpu_latency, kNonNegative);
  fields.required("fpgaLatency", node.fpga_latency, kNonNegative);
  fields.required("isBackwardNode", node.is_backward);
  fields.optional("colorClass", node.color_class);
  fields.stated("size", node.size, kNonNegative);
  fields.optional("name", node.name);
  fields.optional("layerId", node.layer_id);
}

template <class Fields, SameAs<DnnEdge> T>
void describe(Fields& fields, T& edge) {
  fields.required("sourceId", edge.source_id);
  fields.required("destId", edge.dest_id);
  fields.required("cost", edge.cost, kNonNegative);
  fields.optional("size", edge.size, kNonNegative);
  fields.optional("isArtificial", edge.is_artificial);
}

template <class Fields, SameAs<DnnDocument> T>
void describe(Fields& fields, T& document) {
  fields.optional("name", document.name);
  fields.optional("description", document.description);
  fields.optional("source", document.source);
  fields.required("maxSizePerFPGA", document.max_size_per_fpga, kNonNegative);
  fields.required("maxFPGAs", document.max_fpgas, kDevices);
  fields.required("maxCPUs", document.max_cpus, kDevices);
  fields.required("nodes", document.nodes);
  fields.required("edges", document.edges);
}

template <class Fields, SameAs<DnnDevice> T>
void describe(Fields& fields, T& device) {
  fields.stated("load", device.load);
  fields.required("nodes", device.nodes);
}

template <class Fields, SameAs<DnnSplitDocument> T>
void describe(Fields& fields, T& split) {
  fields.optional("maxLoad", split.max_load);
  fields.required("fpgas", split.fpgas);
  fields.required("cpus", split.cpus);
}

namespace {

std::string id_text(std::int64_t id) { return std::to_string(id); }

tl::unexpected<Error> fail_edge(std::string_view file, std::size_t edge, std::string_view key,
                                ErrorCode code, std::string message, std::string remedy) {
  const std::string pointer = "/edges/" + std::to_string(edge) + std::string(key);
  return fail(code, document_place(file, pointer), std::move(message), std::move(remedy));
}

class InputReader {
 public:
  InputReader(const DnnDocument& document, std::string_view file)
      : document_(document), file_(file) {}

  Result<DnnPartitioningInput> read() {
    CostGraph& graph = input_.graph;
    graph.classes = {{"accelerator", document_.max_fpgas, document_.max_size_per_fpga.value, 1},
                     {"cpu", document_.max_cpus, {}, partition::kUnlimited}};
    for (std::size_t i = 0; i < document_.nodes.size(); ++i) {
      PLIMSOLL_RETURN_IF_ERROR(add_node(i));
    }
    net_of_.assign(graph.nodes.size(), -1);
    pairs_.reserve(document_.edges.size());
    for (std::size_t i = 0; i < document_.edges.size(); ++i) {
      PLIMSOLL_RETURN_IF_ERROR(add_edge(i));
    }
    PLIMSOLL_RETURN_IF_ERROR(check_order());
    if (auto valid = partition::validate(graph); !valid) {
      Error error = valid.error();
      error.message = error.place + ": " + error.message;
      error.place = document_place(file_, "");
      return tl::unexpected<Error>(std::move(error));
    }
    return std::move(input_);
  }

 private:
  Result<void> add_node(std::size_t i) {
    const DnnNode& entry = document_.nodes[i];
    if (!index_.emplace(entry.id, static_cast<int>(i)).second) {
      return fail(ErrorCode::kConflict,
                  document_place(file_, "/nodes/" + std::to_string(i) + "/id"),
                  "the id " + id_text(entry.id) + " occurs twice", "give every node its own id");
    }
    CostNode node;
    node.name = entry.name;
    node.time_ms = {entry.supported_on_fpga.value ? entry.fpga_latency : partition::kUnlimited,
                    entry.cpu_latency};
    node.memory = entry.size.value;
    node.colour = entry.color_class;
    node.is_backward = entry.is_backward.value;
    input_.graph.nodes.push_back(std::move(node));
    input_.ids.push_back(entry.id);
    return {};
  }

  Result<void> add_edge(std::size_t i) {
    const DnnEdge& edge = document_.edges[i];
    const auto source = index_.find(edge.source_id);
    const auto dest = index_.find(edge.dest_id);
    if (source == index_.end() || dest == index_.end()) {
      const bool is_source = source == index_.end();
      return fail_edge(file_, i, is_source ? "/sourceId" : "/destId", ErrorCode::kValue,
                       "there is no node " + id_text(is_source ? edge.source_id : edge.dest_id),
                       "give the id of a node");
    }
    if (edge.is_artificial.value) {
      return fail_edge(file_, i, "/isArtificial", ErrorCode::kValue,
                       "artificial edges are not supported", "leave the edge out");
    }
    if (edge.source_id == edge.dest_id) {
      return fail_edge(file_, i, "", ErrorCode::kConflict, "an edge from a node to itself",
                       "leave the edge out");
    }
    const CostGraph& graph = input_.graph;
    if (graph.nodes[source->second].is_backward && !graph.nodes[dest->second].is_backward) {
      return fail_edge(file_, i, "", ErrorCode::kConflict,
                       "an edge from a backward node to a forward one",
                       "mark both ends as the same pass, or reverse the edge");
    }
    const std::uint64_t pair =
        static_cast<std::uint64_t>(source->second) << 32 | static_cast<std::uint64_t>(dest->second);
    if (!pairs_.insert(pair).second) {
      return fail_edge(
          file_, i, "", ErrorCode::kConflict,
          "a second edge from " + id_text(edge.source_id) + " to " + id_text(edge.dest_id),
          "give each edge once");
    }
    int& net = net_of_[source->second];
    if (net < 0) {
      net = static_cast<int>(graph.nets.size());
      input_.graph.nets.push_back({source->second, {}, edge.cost});
    }
    if (std::abs(input_.graph.nets[net].amount - edge.cost) > kEqualCosts) {
      return fail_edge(file_, i, "/cost", ErrorCode::kConflict,
                       "another cost than an earlier edge out of node " + id_text(edge.source_id),
                       "give all edges out of a node the same cost");
    }
    input_.graph.nets[net].consumers.push_back(dest->second);
    return {};
  }

  Result<void> check_order() const {
    std::vector<std::pair<int, int>> edges;
    for (const Net& net : input_.graph.nets) {
      for (const int consumer : net.consumers) edges.emplace_back(net.producer, consumer);
    }
    const std::vector<int> cycle = partition::find_cycle(input_.graph.num_nodes(), edges);
    if (cycle.empty()) return {};
    const auto id_of = [&](int node) { return id_text(input_.ids[node]); };
    return fail(ErrorCode::kConflict, document_place(file_, "/edges"),
                "nodes wait for each other in a cycle: " + partition::cycle_text(cycle, id_of),
                "leave out an edge of the cycle");
  }

  const DnnDocument& document_;
  std::string_view file_;
  DnnPartitioningInput input_;
  std::unordered_map<std::int64_t, int> index_;
  std::unordered_set<std::uint64_t> pairs_;  // of the edges so far: source, then dest
  std::vector<int> net_of_;                  // [num_nodes] -1: none yet
};

Result<void> check_writable(const DnnPartitioningInput& input) {
  const auto refuse = [](std::string place, std::string message) {
    return fail(ErrorCode::kUsage, std::move(place), std::move(message),
                "write what the format can say");
  };
  const CostGraph& graph = input.graph;
  PLIMSOLL_RETURN_IF_ERROR(partition::validate(graph));
  if (input.ids.size() != graph.nodes.size()) return refuse("ids", "not one id a node");
  const std::set<std::int64_t> distinct(input.ids.begin(), input.ids.end());
  if (distinct.size() != input.ids.size()) return refuse("ids", "an id occurs twice");
  if (graph.classes.size() != 2 || !graph.classes[0].memory_cap ||
      graph.classes[0].link_rate != 1 || graph.classes[1].memory_cap ||
      graph.classes[1].link_rate != partition::kUnlimited) {
    return refuse("classes", "not accelerators with a cap and link rate 1, then free CPUs");
  }
  for (int node = 0; node < graph.num_nodes(); ++node) {
    const CostNode& n = graph.nodes[node];
    if (n.pinned_device || !n.forbidden_devices.empty()) {
      return refuse(partition::place_of(graph, node), "is pinned, or forbids devices");
    }
    if (!std::isfinite(n.time_ms[1])) {
      return refuse(partition::place_of(graph, node), "cannot run on a CPU");
    }
  }
  std::vector<bool> has_net(graph.nodes.size());
  for (const Net& net : graph.nets) {
    if (has_net[net.producer]) {
      return refuse(partition::place_of(graph, net.producer), "produces two nets");
    }
    has_net[net.producer] = true;
  }
  return {};
}

}  // namespace

bool is_dnn_partitioning_split(const JsonValue& root) { return root.find("fpgas") != nullptr; }

Result<DnnPartitioningInput> read_dnn_partitioning(std::string_view text, std::string_view file) {
  PLIMSOLL_ASSIGN(const JsonValue root, parse_json(text, file));
  PLIMSOLL_ASSIGN(const DnnDocument document, read_tree<DnnDocument>(root, file));
  return InputReader(document, file).read();
}

Result<std::string> write_dnn_partitioning(const DnnPartitioningInput& input) {
  PLIMSOLL_RETURN_IF_ERROR(check_writable(input));
  const CostGraph& graph = input.graph;
  DnnDocument document;
  document.max_size_per_fpga.value = *graph.classes[0].memory_cap;
  document.max_fpgas = graph.classes[0].count;
  document.max_cpus = graph.classes[1].count;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const CostNode& node = graph.nodes[i];
    const bool is_supported = std::isfinite(node.time_ms[0]);
    document.nodes.push_back({input.ids[i],
                              {is_supported},
                              node.time_ms[1],
                              is_supported ? node.time_ms[0] : 0,
                              {node.is_backward},
                              node.colour,
                              {node.memory},
                              node.name,
                              {}});
  }
  for (const Net& net : graph.nets) {
    for (const int consumer : net.consumers) {
      document.edges.push_back(
          {input.ids[net.producer], input.ids[consumer], net.amount, {}, {false}});
    }
  }
  return write_document(document);
}

Result<DeviceAssignment> read_dnn_partitioning_split(std::string_view text, std::string_view file,
                                                     const DnnPartitioningInput& input) {
  PLIMSOLL_ASSIGN(const JsonValue root, parse_json(text, file));
  return read_dnn_partitioning_split(root, file, input);
}

Result<DeviceAssignment> read_dnn_partitioning_split(const JsonValue& root, std::string_view file,
                                                     const DnnPartitioningInput& input) {
  PLIMSOLL_ASSIGN(const DnnSplitDocument document, read_tree<DnnSplitDocument>(root, file));
  std::unordered_map<std::int64_t, std::size_t> index;
  for (std::size_t i = 0; i < input.ids.size(); ++i) index.emplace(input.ids[i], i);
  DeviceAssignment assignment;
  assignment.device.assign(input.ids.size(), -1);
  int first = 0;
  const std::pair<const char*, const std::vector<DnnDevice>*> lists[] = {
      {"/fpgas", &document.fpgas}, {"/cpus", &document.cpus}};
  for (std::size_t c = 0; c < 2; ++c) {
    const auto& [key, devices] = lists[c];
    const int count = c < input.graph.classes.size() ? input.graph.classes[c].count : 0;
    if (static_cast<std::int64_t>(devices->size()) > count) {
      return fail(
          ErrorCode::kConflict, document_place(file, key),
          std::to_string(devices->size()) + " devices, the graph has " + std::to_string(count),
          "leave out devices that do not exist");
    }
    for (std::size_t d = 0; d < devices->size(); ++d) {
      const std::vector<std::int64_t>& nodes = (*devices)[d].nodes;
      for (std::size_t i = 0; i < nodes.size(); ++i) {
        const std::string place = document_place(
            file, std::string(key) + "/" + std::to_string(d) + "/nodes/" + std::to_string(i));
        const auto node = index.find(nodes[i]);
        if (node == index.end()) {
          return fail(ErrorCode::kValue, place, "there is no node " + id_text(nodes[i]),
                      "give the id of a node of the graph");
        }
        if (assignment.device[node->second] >= 0) {
          return fail(ErrorCode::kConflict, place, "node " + id_text(nodes[i]) + " is placed twice",
                      "place every node once");
        }
        assignment.device[node->second] = first + static_cast<int>(d);
      }
    }
    first += count;
  }
  const auto missing = std::find(assignment.device.begin(), assignment.device.end(), -1);
  if (missing != assignment.device.end()) {
    const std::int64_t id =
        input.ids[static_cast<std::size_t>(missing - assignment.device.begin())];
    return fail(ErrorCode::kValue, document_place(file, ""),
                "node " + id_text(id) + " has no device", "place every node once");
  }
  return assignment;
}

std::string write_dnn_partitioning_split(const DnnPartitioningInput& input,
                                         const DeviceAssignment& assignment) {
  PLIMSOLL_CHECK(partition::is_assignment_of(input.graph, assignment),
                 "every node has a device that exists");
  const std::vector<double> loads = partition::device_loads(input.graph, assignment);
  DnnSplitDocument document;
  document.max_load = *std::max_element(loads.begin(), loads.end());
  for (std::size_t d = 0; d < loads.size(); ++d) {
    DnnDevice device{loads[d], {}};
    for (std::size_t i = 0; i < input.ids.size(); ++i) {
      if (assignment.device[i] == static_cast<int>(d)) device.nodes.push_back(input.ids[i]);
    }
    const bool is_accelerator = input.graph.class_of(static_cast<int>(d)) == 0;
    (is_accelerator ? document.fpgas : document.cpus).push_back(std::move(device));
  }
  return write_document(document);
}

}  // namespace plimsoll::io
