#include "plimsoll/partition/partition_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "core/suggest.h"
#include "plimsoll/common.h"
#include "plimsoll/io/files.h"
#include "plimsoll/io/topology_json.h"

namespace plimsoll::app {
namespace {

using partition::OperatorCosts;
using partition::OperatorDevices;
using partition::OperatorGraph;

// The accelerator in a preset's full name: "4xh100-sxm", "dgx-h100:2".
const topology::Accelerator* find_accelerator(const std::string& name) {
  const std::string node = name.substr(0, name.find(':'));
  std::string_view id = std::string_view(name).substr(name.find('x') + 1);
  for (const topology::HardwareNode& known : topology::nodes()) {
    if (known.id == node) id = known.accelerator;
  }
  for (const topology::Accelerator& known : topology::accelerators()) {
    if (known.id == id) return &known;
  }
  return nullptr;
}

// The graph's column of times for hardware: "h100" for "h100-sxm".
std::string column_of(const Hardware& hardware, const OperatorGraph& graph) {
  if (hardware.accelerator == nullptr) return "";
  const std::string_view id = hardware.accelerator->id;
  for (const std::string_view name : {id, id.substr(0, id.find('-'))}) {
    if (graph.find_time_column(name)) return std::string(name);
  }
  return "";
}

Result<void> set_times(const PartitionFlags& flags, const Hardware& hardware,
                       const OperatorGraph& graph, OperatorDevices& devices) {
  devices.time_column = flags.times.empty() ? column_of(hardware, graph) : flags.times;
  if (devices.time_column == "roofline") devices.time_column.clear();
  const topology::Accelerator* accelerator = hardware.accelerator;
  const bool has_roofline = accelerator != nullptr && accelerator->hbm_gb_per_s;
  if (has_roofline) {
    devices.roofline = {accelerator->bf16_dense_tflops * 1e9, *accelerator->hbm_gb_per_s * 1e6};
  }
  if (!devices.time_column.empty()) {
    devices.devices.name = devices.time_column;
    if (!flags.machine.empty() && accelerator != nullptr) devices.devices.name = accelerator->id;
    if (flags.cost_overlay.empty()) devices.roofline = {};  // what the graph states is all of it
    if (graph.find_time_column(devices.time_column)) return {};
    return refuse("--times", fmt::format("the graph has no times of '{}'", devices.time_column),
                  suggest(devices.time_column, graph.time_columns));
  }
  if (!has_roofline) {
    return refuse("--on", "the speed of these devices is not known",
                  "name accelerators, such as 4xh100-sxm, or give --times");
  }
  devices.devices.name = accelerator->id;
  return {};
}

Result<partition::ActivationMemory> find_activations(const PartitionFlags& flags) {
  const std::string_view unless = flags.is_pipeline ? "stashed" : "none";
  const std::string_view name = flags.activations.empty() ? unless : flags.activations;
  std::vector<std::string> names;
  for (const auto kind : {partition::ActivationMemory::kNone, partition::ActivationMemory::kStashed,
                          partition::ActivationMemory::kAll}) {
    if (to_string(kind) == name) return kind;
    names.emplace_back(to_string(kind));
  }
  return refuse("--activations", fmt::format("'{}' is not known", name),
                suggest(std::string(name), names));
}

// What --activations counts, for one microbatch, in the place of what is stashed.
Result<void> count_per_microbatch(const OperatorGraph& graph,
                                  partition::OperatorCostOptions options,
                                  partition::ActivationMemory activations, OperatorCosts& costs) {
  if (activations == partition::ActivationMemory::kStashed) return {};
  options.activations = activations;
  PLIMSOLL_ASSIGN(const OperatorCosts counted, make_cost_graph(graph, options));
  for (std::size_t i = 0; i < costs.stashed.size(); ++i) {
    costs.stashed[i] = counted.graph.nodes[i].memory - costs.graph.nodes[i].memory;
  }
  return {};
}

// Accelerators of one host talk at their own rate, of two hosts at the slower network's.
void set_pair_rates(const Hardware& hardware, int num_accelerators, partition::CostGraph& graph) {
  if (num_accelerators <= hardware.local_world_size) return;
  const auto n = static_cast<std::size_t>(graph.num_devices());
  graph.pair_rates.assign(n, std::vector<double>(n, hardware.intra_host_bw));
  for (int a = 0; a < num_accelerators; ++a) {
    for (int b = 0; b < num_accelerators; ++b) {
      if (a / hardware.local_world_size == b / hardware.local_world_size) continue;
      graph.pair_rates[a][b] = hardware.inter_host_bw;
    }
  }
}

std::string class_of(const std::string& device_flag) {
  const std::size_t equals = device_flag.find('=');
  return equals == std::string::npos ? "" : device_flag.substr(0, equals);
}

// The accelerators' class where --on does not say it: the one that --devices or --times names, or
// the only one that the graph has times of.
Result<std::string> find_accelerator_class(const PartitionFlags& flags,
                                           const OperatorGraph& graph) {
  constexpr const char* kForm = "name the hardware, such as --on 4xh100-sxm";
  if (flags.devices.empty()) {
    return refuse(
        "--on", "the graph names no devices",
        fmt::format("{}{}", kForm, graph.time_columns.empty() ? "" : ", or --devices h100=4"));
  }
  for (const std::string& text : flags.devices) {
    if (const std::string name = class_of(text); !name.empty() && name != "cpu") return name;
  }
  if (!flags.times.empty() && flags.times != "roofline") return flags.times;
  std::vector<std::string> known = graph.time_columns;
  std::erase(known, "cpu");
  if (known.size() == 1) return known.front();
  if (known.empty()) {
    return refuse("--devices", "the graph's costs name no class of devices", kForm);
  }
  return refuse("--devices",
                fmt::format("the graph's costs name several classes: {}", fmt::join(known, ", ")),
                fmt::format("say which, such as --devices {}=4", known.back()));
}

Result<Hardware> load_named_hardware(const PartitionFlags& flags, const OperatorGraph& graph) {
  PLIMSOLL_ASSIGN(const std::string name, find_accelerator_class(flags, graph));
  auto hardware = load_hardware("1x" + name);
  if (!hardware) {
    return refuse(
        "--devices", hardware.error().message,
        "name the hardware with --on, such as --on 4xh100-sxm, and its times with --times");
  }
  return hardware;
}

}  // namespace

Result<Hardware> load_hardware(const std::string& on) {
  topology::TopologySpec spec;
  if (is_file_name(on)) {
    PLIMSOLL_ASSIGN(const std::string text, io::read_text_file(on));
    PLIMSOLL_ASSIGN(spec, io::read_topology(text, on));
  } else {
    auto preset = topology::find_preset(on);
    if (!preset) {
      preset.error().place = "--on";
      return tl::unexpected<Error>(std::move(preset).error());
    }
    spec = *preset;
  }
  auto topology = topology::make_topology(spec, false, true);
  if (!topology) {
    topology.error().place = "--on";
    return tl::unexpected<Error>(std::move(topology).error());
  }
  if (topology->compute_device == topology::ComputeDevice::kCpu) {
    return refuse("--on", "it has no accelerators", "name hardware with accelerators");
  }
  const Bytes memory = topology->devices.front().hbm;
  for (const topology::Storage& device : topology->devices) {
    if (device.hbm != memory) {
      return refuse("--on", "its ranks differ in memory",
                    "give hardware of one kind, or the classes in a plimsoll.cost_graph/1");
    }
  }
  return Hardware{topology->world_size,          memory,
                  topology->local_world_size,    topology->comms.intra_host_bw,
                  topology->comms.inter_host_bw, find_accelerator(spec.name)};
}

Result<int> parse_device_count(std::string_view text) {
  int count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error == std::errc() && end == text.data() + text.size() && count >= 0 &&
      count <= topology::kMaxWorldSize) {
    return count;
  }
  return refuse("--devices", fmt::format("'{}' is not a number of devices", text),
                fmt::format("give a whole number from 0 to {}", int{topology::kMaxWorldSize}));
}

Result<Bytes> parse_device_memory(std::string_view text) {
  auto bytes = parse_bytes(text);
  if (!bytes) bytes.error().place = "--memory";
  return bytes;
}

Result<OperatorCosts> make_operator_costs(const PartitionFlags& flags, const OperatorGraph& graph) {
  PLIMSOLL_ASSIGN(const Hardware hardware,
                  flags.on.empty() ? load_named_hardware(flags, graph) : load_hardware(flags.on));
  partition::OperatorCostOptions options;
  OperatorDevices accelerators;
  accelerators.devices = {"", hardware.count, hardware.memory, hardware.intra_host_bw};
  PLIMSOLL_RETURN_IF_ERROR(set_times(flags, hardware, graph, accelerators));
  if (!flags.launch_floor.empty()) {
    const auto seconds = parse_seconds(flags.launch_floor);
    if (!seconds || !(*seconds >= 0)) {
      return refuse("--launch-floor", fmt::format("'{}' is not a duration", flags.launch_floor),
                    "give one such as 5us");
    }
    accelerators.launch_floor_ms = *seconds * 1000;
  }
  // A CPU's own end of a transfer is free: the accelerator's end is what counts.
  OperatorDevices cpus;
  cpus.devices = {"cpu", 0, {}, partition::kUnlimited};
  cpus.time_column = "cpu";
  const auto find_class = [&](const std::string& text, const std::string& flag,
                              std::string& value) -> Result<OperatorDevices*> {
    const std::size_t equals = text.find('=');
    value = equals == std::string::npos ? text : text.substr(equals + 1);
    const std::string name = text.substr(0, equals);
    if (equals == std::string::npos || name == accelerators.devices.name) return &accelerators;
    if (hardware.accelerator != nullptr && hardware.accelerator->id.starts_with(name)) {
      return &accelerators;
    }
    if (name == "cpu" && graph.find_time_column("cpu")) return &cpus;
    return refuse(flag, fmt::format("there are no devices of class '{}'", name),
                  fmt::format("leave the class out, which means {}", accelerators.devices.name));
  };
  std::string value;
  for (const std::string& text : flags.devices) {
    PLIMSOLL_ASSIGN(OperatorDevices* const devices, find_class(text, "--devices", value));
    PLIMSOLL_ASSIGN(devices->devices.count, parse_device_count(value));
  }
  for (const std::string& text : flags.memory) {
    PLIMSOLL_ASSIGN(OperatorDevices* const devices, find_class(text, "--memory", value));
    PLIMSOLL_ASSIGN(devices->devices.memory_cap, parse_device_memory(value));
  }
  options.classes = {accelerators};
  if (cpus.devices.count > 0) options.classes.push_back(cpus);
  if (accelerators.devices.count + cpus.devices.count == 0) {
    return refuse("--devices", "there are no devices", "give at least one");
  }
  PLIMSOLL_ASSIGN(const partition::ActivationMemory activations, find_activations(flags));
  if (!flags.is_pipeline) options.activations = activations;
  PLIMSOLL_ASSIGN(OperatorCosts costs, make_cost_graph(graph, options));
  if (flags.is_pipeline) {
    PLIMSOLL_RETURN_IF_ERROR(count_per_microbatch(graph, options, activations, costs));
  }
  if (!flags.on.empty()) set_pair_rates(hardware, accelerators.devices.count, costs.graph);
  return costs;
}

}  // namespace plimsoll::app
