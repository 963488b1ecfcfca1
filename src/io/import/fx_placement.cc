#include "io/import/fx_placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <unordered_map>
#include <utility>

#include "io/json/json_document.h"
#include "plimsoll/core/units.h"

namespace plimsoll::io {
namespace {

// A list of torch's result, every entry by `take`, which refuses what it cannot read.
template <class Take>
Result<void> read_list(const JsonValue* list, const std::string& place, Take take) {
  const auto* array = list == nullptr ? nullptr : list->as<JsonValue::Array>();
  if (array == nullptr) {
    return fail(ErrorCode::kSchema, place, list == nullptr ? "the key is missing" : "is not a list",
                "give a list, as torch's partitions have it");
  }
  for (std::size_t i = 0; i < array->size(); ++i) {
    if (take((*array)[i])) continue;
    return fail(ErrorCode::kSchema, fmt::format("{}/{}", place, i),
                fmt::format("{} does not belong here", (*array)[i].kind()),
                "give names of nodes, numbers of devices");
  }
  return {};
}

bool take_integer(const JsonValue* value, std::int64_t least, std::int64_t most,
                  std::int64_t& out) {
  const auto* number = value == nullptr ? nullptr : value->as<std::int64_t>();
  if (number == nullptr || *number < least || *number > most) return false;
  out = *number;
  return true;
}

constexpr std::int64_t kMaxInt = std::numeric_limits<int>::max();

Result<PlacedStage> read_partition(const JsonValue& value, const std::string& place) {
  PlacedStage stage;
  std::int64_t number = 0;
  if (!take_integer(value.find("id"), 0, kMaxInt, number)) {
    return fail(ErrorCode::kSchema, place + "/id", "is not the number of a partition",
                "give a whole number of at least 0");
  }
  stage.id = static_cast<int>(number);
  PLIMSOLL_RETURN_IF_ERROR(
      read_list(value.find("nodes"), place + "/nodes", [&](const JsonValue& entry) {
        const auto* name = entry.as<std::string>();
        if (name != nullptr) stage.nodes.push_back(*name);
        return name != nullptr;
      }));
  std::vector<int> ids;
  const auto take_id = [&](const JsonValue& entry) {
    if (!take_integer(&entry, -kMaxInt, kMaxInt, number)) return false;
    ids.push_back(static_cast<int>(number));
    return true;
  };
  PLIMSOLL_RETURN_IF_ERROR(
      read_list(value.find("logical_device_ids"), place + "/logical_device_ids", take_id));
  put_logical_devices(ids, stage);
  if (value.find("used_mem_bytes") != nullptr &&
      !take_integer(value.find("used_mem_bytes"), 0, INT64_MAX, stage.memory)) {
    return fail(ErrorCode::kSchema, place + "/used_mem_bytes", "is not a number of bytes",
                "give a whole number of at least 0");
  }
  return stage;
}

}  // namespace

bool is_fx_partition(const JsonValue& root) {
  return root.find("schema") == nullptr && root.find("partitions") != nullptr;
}

Result<PlacementAnswer> read_fx_partition(std::string_view text, std::string_view file) {
  PLIMSOLL_ASSIGN(const JsonValue root, parse_json(text, file));
  return read_fx_partition_tree(root, file);
}

Result<PlacementAnswer> read_fx_partition_tree(const JsonValue& root, std::string_view file) {
  PlacementAnswer answer;
  answer.objective = partition::Objective::kFx;
  answer.plan.emplace();
  std::size_t index = 0;
  std::optional<Error> error;
  PLIMSOLL_RETURN_IF_ERROR(read_list(
      root.find("partitions"), document_place(file, "/partitions"), [&](const JsonValue& entry) {
        auto stage =
            read_partition(entry, document_place(file, fmt::format("/partitions/{}", index++)));
        if (stage) {
          answer.plan->push_back(*std::move(stage));
        } else if (!error) {
          error = std::move(stage).error();
        }
        return true;
      }));
  if (error) return tl::unexpected<Error>(*std::move(error));
  if (const JsonValue* mapping = root.find("node_to_partition")) {
    const auto* object = mapping->as<JsonValue::Object>();
    for (const JsonMember& member : object == nullptr ? JsonValue::Object{} : *object) {
      std::int64_t id = -1;
      if (!take_integer(&member.value, 0, kMaxInt, id)) object = nullptr;
      answer.node_to_partition[member.key] = static_cast<int>(id);
      if (object == nullptr) break;
    }
    if (object == nullptr) {
      return fail(ErrorCode::kSchema, document_place(file, "/node_to_partition"),
                  "does not map names to numbers", "give {node: id of its partition}");
    }
  }
  if (const JsonValue* path = root.find("critical_path_latency")) {
    const auto* real = path->as<double>();
    const auto* whole = path->as<std::int64_t>();
    const double seconds = real != nullptr    ? *real
                           : whole != nullptr ? static_cast<double>(*whole)
                                              : std::nan("");
    if (!(seconds >= 0) || !std::isfinite(seconds)) {
      return fail(ErrorCode::kValue, document_place(file, "/critical_path_latency"),
                  "is not a time", "give seconds, 0 or more");
    }
    answer.certificate = Certificate{seconds * kMsPerSecond, {}, {}};
  }
  return answer;
}

Result<partition::Placement> take_fx_placement(const PlacementAnswer& answer,
                                               const partition::Graph& graph,
                                               std::string_view file) {
  if (!answer.plan) {
    return fail(ErrorCode::kValue, std::string(file), "the answer holds no placement",
                "plan again");
  }
  if (answer.objective != partition::Objective::kFx) {
    return fail(ErrorCode::kUsage, std::string(file),
                fmt::format("a placement for {}, of a graph with costs by class of device",
                            to_string(answer.objective)),
                "give the graph that it places");
  }
  std::unordered_map<std::string_view, int> index;
  for (int node = 0; node < graph.num_nodes(); ++node) index.emplace(graph.nodes[node].name, node);
  const auto find_node = [&](const std::string& name, const std::string& pointer) -> Result<int> {
    const auto node = index.find(name);
    if (node != index.end()) return node->second;
    return fail(ErrorCode::kValue, document_place(file, pointer),
                fmt::format("the graph has no node '{}'", name),
                "give the placement of this graph");
  };
  partition::Placement placement;
  placement.node_to_partition.resize(graph.nodes.size());
  for (std::size_t s = 0; s < answer.plan->size(); ++s) {
    const PlacedStage& stage = (*answer.plan)[s];
    partition::Partition& partition = placement.partitions.emplace_back();
    partition.id = stage.id.value_or(static_cast<int>(s));
    partition.used_mem_bytes = stage.memory;
    partition.logical_device_ids =
        stage.logical_device_ids.empty() ? stage.devices : stage.logical_device_ids;
    for (const std::string& name : stage.nodes) {
      PLIMSOLL_ASSIGN(const int node, find_node(name, fmt::format("/stages/{}/nodes", s)));
      partition.nodes.push_back(node);
      if (answer.node_to_partition.empty()) placement.node_to_partition[node] = partition.id;
    }
    std::sort(partition.nodes.begin(), partition.nodes.end());
  }
  for (const auto& [name, id] : answer.node_to_partition) {
    PLIMSOLL_ASSIGN(const int node, find_node(name, "/node_to_partition"));
    placement.node_to_partition[node] = id;
  }
  return placement;
}

}  // namespace plimsoll::io
