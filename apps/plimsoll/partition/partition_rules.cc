#include "plimsoll/partition/partition_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "core/suggest.h"
#include "plimsoll/partition/partition_devices.h"

namespace plimsoll::app {
namespace {

using partition::CostGraph;
using partition::DeviceClass;

// "4" or "cpu=2": a class, the first where none is named, and a value.
Result<std::pair<DeviceClass*, std::string>> split_class(const std::string& text,
                                                         const std::string& flag,
                                                         CostGraph& graph) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) return std::pair(&graph.classes.front(), text);
  const std::string name = text.substr(0, equals);
  std::vector<std::string> names;
  for (DeviceClass& devices : graph.classes) {
    if (devices.name == name) return std::pair(&devices, text.substr(equals + 1));
    names.push_back(devices.name);
  }
  return refuse(flag, fmt::format("the graph has no devices of class '{}'", name),
                suggest(name, names));
}

// A node by its number in the file, or by a name that no other node has.
Result<int> find_node(const PartitionCase& made, const std::string& text, const std::string& flag) {
  const auto by_key = std::find(made.names.begin(), made.names.end(), text);
  if (by_key != made.names.end()) return static_cast<int>(by_key - made.names.begin());
  std::vector<int> found;
  std::vector<std::string> known = made.names;
  for (int node = 0; node < made.costs->num_nodes(); ++node) {
    const std::string& name = made.costs->nodes[node].name;
    if (!name.empty()) known.push_back(name);
    if (name == text) found.push_back(node);
  }
  if (found.size() == 1) return found.front();
  if (found.size() > 1) {
    return refuse(flag, fmt::format("{} nodes are named '{}'", found.size(), text),
                  fmt::format("say which by its number, such as {}", made.names[found.front()]));
  }
  return refuse(flag, fmt::format("the graph has no node '{}'", text), suggest(text, known));
}

// A device by number, or all of a class by name.
Result<std::vector<int>> find_devices(const CostGraph& graph, const std::string& text,
                                      const std::string& flag) {
  int first = 0;
  for (const DeviceClass& devices : graph.classes) {
    if (devices.name == text) {
      std::vector<int> all;
      for (int d = first; d < first + devices.count; ++d) all.push_back(d);
      return all;
    }
    first += devices.count;
  }
  int device = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), device);
  if (error == std::errc() && end == text.data() + text.size() && device >= 0 && device < first) {
    return std::vector<int>{device};
  }
  return refuse(flag, fmt::format("there is no device '{}'", text),
                fmt::format("give a number from 0 to {}, or the name of a class", first - 1));
}

Result<std::pair<int, std::vector<int>>> split_rule(const PartitionCase& made,
                                                    const std::string& text,
                                                    const std::string& flag) {
  const std::size_t equals = text.rfind('=');
  if (equals == std::string::npos) {
    return refuse(flag, fmt::format("'{}' is not NODE=DEVICE", text), "give a rule such as 17=0");
  }
  PLIMSOLL_ASSIGN(const int node, find_node(made, text.substr(0, equals), flag));
  PLIMSOLL_ASSIGN(auto devices, find_devices(*made.costs, text.substr(equals + 1), flag));
  return std::pair(node, std::move(devices));
}

void forbid(partition::CostNode& node, int device) {
  auto& forbidden = node.forbidden_devices;
  if (std::find(forbidden.begin(), forbidden.end(), device) == forbidden.end()) {
    forbidden.push_back(device);
  }
}

}  // namespace

Result<void> check_repetition(const std::vector<std::string>& given, const std::string& flag) {
  std::set<std::string> classes;
  for (const std::string& text : given) {
    const std::size_t equals = text.find('=');
    if (!classes.insert(equals == std::string::npos ? "" : text.substr(0, equals)).second) {
      return refuse(flag, "the same devices are given twice", "give each class once");
    }
  }
  return {};
}

Result<void> set_devices(const PartitionFlags& flags, PartitionCase& made) {
  CostGraph& graph = *made.costs;
  if (!flags.on.empty()) {
    PLIMSOLL_ASSIGN(const Hardware hardware, load_hardware(flags.on));
    graph.classes.front().count = hardware.count;
    graph.classes.front().memory_cap = hardware.memory;
    made.warnings.push_back(
        {"measured_costs", "--on",
         "times and transfers stay those that the graph states; only number and memory of its "
         "devices are taken from the hardware"});
  }
  for (const std::string& text : flags.devices) {
    PLIMSOLL_ASSIGN(const auto split, split_class(text, "--devices", graph));
    PLIMSOLL_ASSIGN(split.first->count, parse_device_count(split.second));
  }
  for (const std::string& text : flags.memory) {
    PLIMSOLL_ASSIGN(const auto split, split_class(text, "--memory", graph));
    PLIMSOLL_ASSIGN(split.first->memory_cap, parse_device_memory(split.second));
  }
  if (graph.num_devices() == 0) {
    return refuse("--devices", "there are no devices", "give at least one");
  }
  return {};
}

Result<void> set_rules(const PartitionFlags& flags, PartitionCase& made) {
  CostGraph& graph = *made.costs;
  for (const std::string& text : flags.pins) {
    PLIMSOLL_ASSIGN(const auto rule, split_rule(made, text, "--pin"));
    partition::CostNode& node = graph.nodes[rule.first];
    if (rule.second.size() == 1) {
      if (node.pinned_device && *node.pinned_device != rule.second.front()) {
        return refuse("--pin", fmt::format("node '{}' is pinned twice", made.names[rule.first]),
                      "pin it to one device");
      }
      node.pinned_device = rule.second.front();
      continue;
    }
    for (int device = 0; device < graph.num_devices(); ++device) {
      if (std::find(rule.second.begin(), rule.second.end(), device) == rule.second.end()) {
        forbid(node, device);
      }
    }
  }
  for (const std::string& text : flags.forbidden) {
    PLIMSOLL_ASSIGN(const auto rule, split_rule(made, text, "--forbid"));
    for (const int device : rule.second) forbid(graph.nodes[rule.first], device);
  }
  return {};
}

Result<void> set_fx_devices(const PartitionFlags& flags, partition::PartitionerConfig& config) {
  for (const auto& [list, flag] :
       {std::pair(&flags.devices, "--devices"), std::pair(&flags.memory, "--memory"),
        std::pair(&flags.pins, "--pin"), std::pair(&flags.forbidden, "--forbid")}) {
    const bool is_rule = list == &flags.pins || list == &flags.forbidden;
    for (const std::string& text : *list) {
      if (!is_rule && text.find('=') == std::string::npos) continue;
      return refuse(flag,
                    is_rule ? "torch.fx's partitioner has no rules"
                            : "torch.fx's partitioner has no classes of devices",
                    is_rule ? "leave it out" : "give a value alone");
    }
  }
  std::optional<int> count;
  std::optional<Bytes> memory;
  if (!flags.on.empty()) {
    PLIMSOLL_ASSIGN(const Hardware hardware, load_hardware(flags.on));
    count = hardware.count;
    memory = hardware.memory;
    const bool is_one_host = hardware.count <= hardware.local_world_size;
    config.transfer_rate_bytes_per_sec =
        (is_one_host ? hardware.intra_host_bw : hardware.inter_host_bw) * 1000;
  }
  for (const std::string& text : flags.devices) {
    PLIMSOLL_ASSIGN(count, parse_device_count(text));
  }
  for (const std::string& text : flags.memory) {
    PLIMSOLL_ASSIGN(memory, parse_device_memory(text));
  }
  if (!count && !memory) return {};
  if (!memory) {
    if (config.devices.empty()) {
      return refuse("--devices", "the graph names no device whose memory could be taken over",
                    "give --memory, too");
    }
    memory = config.devices.front().available_mem_bytes;
  }
  const auto num_devices =
      static_cast<std::size_t>(count.value_or(static_cast<int>(config.devices.size())));
  config.devices.clear();
  for (std::size_t i = 0; i < num_devices; ++i) {
    config.devices.push_back({fmt::format("dev_{}", i), *memory, static_cast<int>(i)});
  }
  return {};
}

}  // namespace plimsoll::app
