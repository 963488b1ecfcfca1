#include "plimsoll/partition_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "plimsoll/common.h"
#include "plimsoll/core/digest.h"
#include "plimsoll/core/suggest.h"
#include "plimsoll/core/units.h"
#include "plimsoll/io/cost_overlay.h"
#include "plimsoll/io/dnn_partitioning_json.h"
#include "plimsoll/io/files.h"
#include "plimsoll/io/graph_formats.h"
#include "plimsoll/io/operator_graph_json.h"
#include "plimsoll/io/shipped.h"
#include "plimsoll/partition_devices.h"

namespace plimsoll::app {
namespace {

using partition::CostGraph;
using partition::DeviceClass;

constexpr const char* kNoActivations = "none";

// ---------------------------------------------------------------- formats

Result<PartitionCase> read_dnn(std::string_view text, const std::string& file) {
  PLIMSOLL_ASSIGN(io::DnnPartitioningInput input, io::read_dnn_partitioning(text, file));
  PartitionCase made;
  PLIMSOLL_ASSIGN(const std::string canonical, io::write_dnn_partitioning(input));
  made.input_hash = sha256_hex(canonical);
  for (const std::int64_t id : input.ids) made.names.push_back(fmt::format("{}", id));
  made.dnn_ids = std::move(input.ids);
  made.costs = std::move(input.graph);
  return made;
}

Result<PartitionCase> read_fx(std::string_view text, const std::string& file) {
  PartitionCase made;
  PLIMSOLL_ASSIGN(made.fx, io::read_fx_graph(text, file));
  made.input_hash = sha256_hex(io::write_fx_graph(*made.fx));
  return made;
}

// Operators have costs only on devices, which the flags name.
Result<PartitionCase> read_operators(const io::GraphFile& file, const PartitionFlags& flags) {
  PLIMSOLL_ASSIGN(io::ImportedGraph imported, io::read_operators(file));
  if (!flags.cost_overlay.empty()) {
    PLIMSOLL_ASSIGN(const std::string text, io::read_text_file(flags.cost_overlay));
    PLIMSOLL_ASSIGN(const io::CostOverlay overlay, io::read_cost_overlay(text, flags.cost_overlay));
    PLIMSOLL_RETURN_IF_ERROR(io::apply_overlay(overlay, imported.graph));
  }
  PartitionCase made;
  made.input_hash = sha256_hex(io::write_operator_graph(imported.graph));
  PLIMSOLL_ASSIGN(partition::OperatorCosts costs, make_operator_costs(flags, imported.graph));
  for (const partition::CostNode& node : costs.graph.nodes) made.names.push_back(node.name);
  made.costs = std::move(costs.graph);
  made.warnings = std::move(imported.warnings);
  made.operators = OperatorCase{std::move(imported.graph), std::move(costs)};
  return made;
}

Result<PartitionCase> read_graph(const PartitionFlags& flags) {
  io::GraphFile file;
  if (is_file_name(flags.graph)) {
    PLIMSOLL_ASSIGN(file, io::open_graph_file(flags.graph));
  } else {
    PLIMSOLL_ASSIGN(const std::string_view text, io::find_shipped_graph(flags.graph));
    PLIMSOLL_ASSIGN(file, io::recognize_graph(std::string(text), flags.graph));
  }
  switch (file.format) {
    case io::GraphFormat::kOperatorGraph:
    case io::GraphFormat::kExportedProgram:
    case io::GraphFormat::kOnnx:
      return read_operators(file, flags);
    case io::GraphFormat::kDnnPartitioning:
      return read_dnn(file.text, flags.graph);
    case io::GraphFormat::kFxPartitioner:
      return read_fx(file.text, flags.graph);
    case io::GraphFormat::kPipedream:
    case io::GraphFormat::kPiper:
      break;
  }
  PartitionCase made;
  PLIMSOLL_ASSIGN(made.pipeline, read_pipeline_case(file, flags));
  return made;
}

// ---------------------------------------------------------------- devices

tl::unexpected<Error> refuse(std::string flag, std::string message, std::string remedy) {
  return fail(ErrorCode::kUsage, std::move(flag), std::move(message), std::move(remedy));
}

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
    return refuse("--devices", "there is no device at all", "give at least one");
  }
  return {};
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
    return refuse(flag, fmt::format("'{}' is no NODE=DEVICE", text), "give such as 17=0");
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

// torch's devices have no classes: --on and --devices make equal ones.
Result<void> set_fx_devices(const PartitionFlags& flags, partition::PartitionerConfig& config) {
  for (const auto& [list, flag] :
       {std::pair(&flags.devices, "--devices"), std::pair(&flags.memory, "--memory"),
        std::pair(&flags.pins, "--pin"), std::pair(&flags.forbidden, "--forbid")}) {
    const bool is_rule = list == &flags.pins || list == &flags.forbidden;
    for (const std::string& text : *list) {
      if (!is_rule && text.find('=') == std::string::npos) continue;
      return refuse(flag,
                    is_rule ? "torch.fx's partitioner knows no such rule"
                            : "torch.fx's partitioner knows no classes of devices",
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
      return refuse("--devices", "the graph names no device whose like could be meant",
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

Result<void> refuse_traced_flags(const PartitionFlags& flags) {
  for (const auto& [flag, value] :
       {std::pair("--times", &flags.times), std::pair("--cost-overlay", &flags.cost_overlay),
        std::pair("--launch-floor", &flags.launch_floor)}) {
    if (!value->empty()) return refuse(flag, "the graph states its costs", "leave it out");
  }
  return {};
}

}  // namespace

void add_partition_flags(CLI::App& command, PartitionFlags& flags) {
  command.add_option("--devices", flags.devices,
                     "Number of devices of the class that the graph's costs name; or CLASS=N, "
                     "such as cpu=1 (repeatable)");
  command.add_option("--memory", flags.memory,
                     "Memory of each of them (16GiB); or CLASS=SIZE (repeatable)");
  command.add_option("--pin", flags.pins,
                     "NODE=DEVICE: only this device, by number, or this class, may run the node "
                     "(repeatable)");
  command.add_option("--forbid", flags.forbidden,
                     "NODE=DEVICE: this device, or this class, may not run the node (repeatable)");
  command.add_option("--times", flags.times,
                     "Of a traced model: the class of devices whose known times count (h100), or "
                     "roofline; by default what the graph knows of the accelerator, else roofline");
  command.add_option("--cost-overlay", flags.cost_overlay,
                     "Of a traced model: measured times and bytes, CSV of "
                     "node,device_class,time_ms,mem_bytes");
  command.add_option("--launch-floor", flags.launch_floor,
                     "Of a traced model: the least time of an operator (5us)");
  command
      .add_option("--activations", flags.activations,
                  "Of a traced model: activations that count as memory: none, stashed (what the "
                  "backward pass reads), all")
      ->check(CLI::IsMember({"none", "stashed", "all"}))
      ->capture_default_str();
  command.add_option("--bandwidth", flags.bandwidth,
                     "Of a profile (PipeDream's, Piper's): between devices (25GB/s)");
  command
      .add_option("--microbatches", flags.microbatches,
                  "Of a profile: microbatches in a batch; the replicas of all stages together")
      ->check(CLI::Range(1, 1 << 30));
  command.add_flag("--straight", flags.straight, "Of a profile: no stage is replicated");
}

Result<PartitionCase> load_partition_case(const PartitionFlags& flags) {
  PLIMSOLL_RETURN_IF_ERROR(check_standard_input({flags.graph, flags.on}));
  PLIMSOLL_RETURN_IF_ERROR(check_repetition(flags.devices, "--devices"));
  PLIMSOLL_RETURN_IF_ERROR(check_repetition(flags.memory, "--memory"));
  PLIMSOLL_ASSIGN(PartitionCase made, read_graph(flags));
  made.name = flags.graph;
  if (made.pipeline) {
    PLIMSOLL_RETURN_IF_ERROR(refuse_traced_flags(flags));
    return made;
  }
  if (!flags.bandwidth.empty() || flags.microbatches != 0 || flags.straight) {
    return refuse(!flags.bandwidth.empty() ? "--bandwidth"
                  : flags.straight         ? "--straight"
                                           : "--microbatches",
                  "only profiles of pipelines have replicated stages",
                  "leave it out, or give PipeDream's graph.txt or Piper's JSON");
  }
  if (made.fx) {
    PLIMSOLL_RETURN_IF_ERROR(set_fx_devices(flags, made.fx->config));
    return made;
  }
  if (!made.operators) {
    PLIMSOLL_RETURN_IF_ERROR(refuse_traced_flags(flags));
    PLIMSOLL_RETURN_IF_ERROR(set_devices(flags, made));
  }
  PLIMSOLL_RETURN_IF_ERROR(set_rules(flags, made));
  return made;
}

bool is_any_placement(std::string_view text) {
  return io::is_placement(text) || io::is_dnn_partitioning_split(text);
}

Result<ReadPlacement> read_any_placement(std::string_view text, const std::string& file,
                                         const PartitionCase& made) {
  if (!made.costs) {
    return refuse(made.name, "a placement of torch.fx's own graphs cannot be taken apart yet",
                  "give a graph with costs by class of device");
  }
  ReadPlacement placement;
  if (io::is_placement(text)) {
    PLIMSOLL_ASSIGN(placement.answer, io::read_placement(text, file));
    PLIMSOLL_ASSIGN(placement.assignment, io::take_assignment(placement.answer, made.names, file));
    return placement;
  }
  if (!made.dnn_ids) {
    return refuse(file, "a split of the placement benchmark, for a graph of another form",
                  "give the graph that it splits");
  }
  PLIMSOLL_ASSIGN(placement.assignment,
                  io::read_dnn_partitioning_split(text, file, {*made.costs, *made.dnn_ids}));
  return placement;
}

// "devices", or "devices/cpu" where a class is named; of rules "pin/17", devices joined by ','.
std::map<std::string, std::string> provenance_options(const PartitionFlags& flags) {
  std::map<std::string, std::string> options;
  const auto put_text = [&options](const char* key, const std::string& text, const char* unless) {
    if (text != unless) options[key] = text;
  };
  put_text("on", flags.on, "");
  put_text("times", flags.times, "");
  put_text("cost_overlay", flags.cost_overlay, "");
  put_text("launch_floor", flags.launch_floor, "");
  put_text("activations", flags.activations, kNoActivations);
  put_text("bandwidth", flags.bandwidth, "");
  if (flags.microbatches > 0) options["microbatches"] = fmt::format("{}", flags.microbatches);
  if (flags.straight) options["straight"] = "true";
  const auto put = [&options](const std::string& key, const std::vector<std::string>& list) {
    for (const std::string& text : list) {
      const std::size_t equals = text.rfind('=');
      std::string& value =
          options[equals == std::string::npos ? key : key + "/" + text.substr(0, equals)];
      value += (value.empty() ? "" : ",") +
               (equals == std::string::npos ? text : text.substr(equals + 1));
    }
  };
  put("devices", flags.devices);
  put("memory", flags.memory);
  put("pin", flags.pins);
  put("forbid", flags.forbidden);
  return options;
}

void fill_from_provenance(const std::map<std::string, std::string>& options,
                          PartitionFlags& flags) {
  const auto fill = [&options](const std::string& key, std::vector<std::string>& list) {
    if (!list.empty()) return;
    for (const auto& [name, value] : options) {
      if (name != key && !name.starts_with(key + "/")) continue;
      const std::string prefix = name == key ? "" : name.substr(key.size() + 1) + "=";
      for (std::size_t begin = 0; begin <= value.size();) {
        const std::size_t end = std::min(value.find(',', begin), value.size());
        list.push_back(prefix + value.substr(begin, end - begin));
        begin = end + 1;
      }
    }
  };
  if (flags.on.empty()) {  // else it is other hardware
    if (const auto on = options.find("on"); on != options.end()) flags.on = on->second;
    fill("devices", flags.devices);
    fill("memory", flags.memory);
  }
  const auto fill_text = [&options](const char* key, std::string& text, const char* unless) {
    const auto found = options.find(key);
    if (found != options.end() && text == unless) text = found->second;
  };
  fill_text("times", flags.times, "");
  fill_text("cost_overlay", flags.cost_overlay, "");
  fill_text("launch_floor", flags.launch_floor, "");
  fill_text("activations", flags.activations, kNoActivations);
  fill_text("bandwidth", flags.bandwidth, "");
  if (const auto found = options.find("microbatches");
      found != options.end() && flags.microbatches == 0) {
    std::from_chars(found->second.data(), found->second.data() + found->second.size(),
                    flags.microbatches);
  }
  if (options.count("straight") != 0) flags.straight = true;
  fill("pin", flags.pins);
  fill("forbid", flags.forbidden);
}

}  // namespace plimsoll::app
