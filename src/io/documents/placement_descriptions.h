// The keys of the graph partitioner's documents, by the rules of descriptions.h.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/documents/descriptions.h"
#include "io/documents/fx_graph_json.h"
#include "io/documents/names.h"
#include "io/json/json_reader.h"
#include "io/json/json_writer.h"
#include "plimsoll/io/placement_json.h"
#include "plimsoll/partition/cost_graph.h"

namespace plimsoll::io {

inline constexpr std::string_view kPlacementSchema = "plimsoll.placement/1";
inline constexpr std::string_view kFxGraphSchema = "plimsoll.fx_graph/1";
inline constexpr std::string_view kCostGraphSchema = "plimsoll.cost_graph/1";

inline constexpr Rule kDeviceCount{.min = 0, .max = kMaxRanks};
inline constexpr Rule kRate{.min = 0, .excludes_min = true};

struct ClassEntry {
  partition::DeviceClass devices;   // without its rate
  std::optional<double> link_rate;  // absent: moving is free
};

struct PlacementDocument {
  std::string schema{kPlacementSchema};
  PlacementAnswer answer;  // without classes and certificate
  std::vector<ClassEntry> classes;
  std::optional<CertificateEntry> certificate;
};

template <class Fields, SameAs<ClassEntry> T>
void describe(Fields& fields, T& entry) {
  fields.required("name", entry.devices.name);
  fields.required("count", entry.devices.count, kDeviceCount);
  fields.optional("memory_cap", entry.devices.memory_cap, kBytes);
  fields.optional("link_rate", entry.link_rate, kRate);
}

template <class Fields, SameAs<PlacedStage> T>
void describe(Fields& fields, T& stage) {
  fields.optional("id", stage.id);
  fields.required("devices", stage.devices);
  fields.optional("logical_device_ids", stage.logical_device_ids);
  fields.optional("class", stage.device_class);
  fields.optional("compute_ms", stage.compute_ms, kNonNegative);
  fields.optional("transfer_ms", stage.transfer_ms, kNonNegative);
  fields.optional("load_ms", stage.load_ms, kNonNegative);
  fields.optional("sync_ms", stage.sync_ms, kNonNegative);
  fields.optional("in_flight", stage.in_flight, kPositive);
  fields.required("memory_bytes", stage.memory, kBytes);
  fields.optional("memory_cap", stage.memory_cap, kBytes);
  fields.required("nodes", stage.nodes);
}

template <class Fields, SameAs<PlacedCut> T>
void describe(Fields& fields, T& cut) {
  fields.required("producer", cut.producer);
  fields.required("from", cut.from);
  fields.required("to", cut.to);
  fields.required("amount", cut.amount, kNonNegative);
  fields.required("ms", cut.ms, kNonNegative);
}

template <class Fields, SameAs<partition::DagNode> T>
void describe(Fields& fields, T& call) {
  fields.required("submodule", call.submodule);
  fields.required("inputs", call.inputs);
  fields.required("outputs", call.outputs);
  fields.required("devices", call.logical_device_ids);
  fields.required("size_bytes", call.size_bytes, kBytes);
}

template <class Fields, SameAs<PlacementDocument> T>
void describe(Fields& fields, T& document) {
  auto& answer = document.answer;
  fields.stated("schema", document.schema);
  fields.optional("status", answer.status);
  fields.optional("stop", answer.stop);
  fields.required("objective", answer.objective);
  fields.optional("is_contiguous", answer.is_contiguous);
  fields.optional("classes", document.classes);
  fields.optional("stages", answer.plan);
  fields.optional("cuts", answer.cuts);
  fields.optional("node_to_partition", answer.node_to_partition);
  fields.optional("calls", answer.calls);
  describe_claims(fields, document);
  fields.optional("failure", answer.failure);
}

// ---------------------------------------------------------------- graphs

struct CostNodeEntry {
  partition::CostNode node;               // without its times
  std::map<std::string, double> time_ms;  // by class; one that is left out cannot run it
};

struct NetEntry {
  std::string producer;
  std::vector<std::string> consumers;
  double amount = 0;
};

struct WeightEntry {
  std::string name;
  Bytes bytes = 0;
  std::vector<std::string> readers;
};

struct CostGraphDocument {
  std::string schema{kCostGraphSchema};
  std::string name, description;  // for people
  std::vector<ClassEntry> classes;
  std::vector<std::vector<double>> pair_rates;
  std::vector<CostNodeEntry> nodes;
  std::vector<NetEntry> nets;
  std::vector<WeightEntry> weights;
};

template <class Fields, SameAs<CostNodeEntry> T>
void describe(Fields& fields, T& entry) {
  fields.required("name", entry.node.name);
  fields.required("time_ms", entry.time_ms, kNonNegative);
  fields.optional("memory_bytes", entry.node.memory, kBytes);
  fields.optional("colour", entry.node.colour);
  fields.optional("is_backward", entry.node.is_backward);
  fields.optional("pinned_device", entry.node.pinned_device, kNonNegative);
  fields.optional("forbidden_devices", entry.node.forbidden_devices, kNonNegative);
}

template <class Fields, SameAs<NetEntry> T>
void describe(Fields& fields, T& net) {
  fields.required("producer", net.producer);
  fields.required("consumers", net.consumers);
  fields.required("amount", net.amount, kNonNegative);
}

template <class Fields, SameAs<WeightEntry> T>
void describe(Fields& fields, T& weight) {
  fields.optional("name", weight.name);
  fields.required("bytes", weight.bytes, kBytes);
  fields.required("readers", weight.readers);
}

template <class Fields, SameAs<CostGraphDocument> T>
void describe(Fields& fields, T& document) {
  fields.stated("schema", document.schema);
  fields.optional("name", document.name);
  fields.optional("description", document.description);
  fields.required("classes", document.classes);
  fields.optional("pair_rates", document.pair_rates, kNonNegative);
  fields.required("nodes", document.nodes);
  fields.optional("nets", document.nets);
  fields.optional("weights", document.weights);
}

// An object whose order counts.
template <class T>
struct Entries {
  std::vector<std::pair<std::string, T>> list;
  bool empty() const { return list.empty(); }
};

template <class T>
bool read(const Cursor& cursor, Entries<T>& out, const Rule& rule) {
  const auto* object = cursor.value.as<JsonValue::Object>();
  if (object == nullptr) return cursor.fail_kind("an object");
  for (const JsonMember& member : *object) {
    const Place place{&cursor.place, member.key, {}};
    T value{};
    if (!read(Cursor{member.value, place, cursor.context}, value, rule)) return false;
    out.list.emplace_back(member.key, std::move(value));
  }
  return true;
}

template <class T>
JsonValue to_json(const Entries<T>& entries, const Rule& rule) {
  JsonValue::Object object;
  for (const auto& [key, value] : entries.list) object.push_back({key, to_json(value, rule)});
  return {std::move(object)};
}

struct FxNode {
  partition::Node node;  // without inputs
  std::vector<std::string> args;
};

struct FxGraphDocument {
  std::string schema{kFxGraphSchema};
  std::string name, description;  // for people
  std::vector<FxNode> nodes;
  partition::PartitionerConfig config;  // without the mappings
  Entries<std::pair<double, double>> latency;
  Entries<int> node_to_partition;
  Entries<std::vector<int>> partition_to_devices;
};

template <class Fields, SameAs<FxNode> T>
void describe(Fields& fields, T& entry) {
  fields.required("name", entry.node.name);
  fields.required("op", entry.node.op);
  fields.optional("target", entry.node.target);
  fields.optional("args", entry.args);
  fields.optional("output_size", entry.node.size.output, kBytes);
  fields.optional("total_size", entry.node.size.total, kBytes);
  fields.optional("embedding", entry.node.is_embedding);
}

template <class Fields, SameAs<partition::Device> T>
void describe(Fields& fields, T& device) {
  fields.stated("name", device.name);
  fields.required("mem", device.available_mem_bytes, kBytes);
  fields.required("id", device.logical_id);
}

template <class Fields, SameAs<FxGraphDocument> T>
void describe(Fields& fields, T& document) {
  auto& config = document.config;
  fields.stated("schema", document.schema);
  fields.optional("name", document.name);
  fields.optional("description", document.description);
  fields.required("nodes", document.nodes);
  fields.required("devices", config.devices);
  fields.stated("mode", config.mode);
  fields.optional("transfer_rate", config.transfer_rate_bytes_per_sec, kNonNegative);
  fields.optional("saturate_host", config.saturate_host);
  fields.optional("latency", document.latency, kNonNegative);
  fields.optional("node_to_partition", document.node_to_partition);
  fields.optional("partition_to_devices", document.partition_to_devices);
}

}  // namespace plimsoll::io
