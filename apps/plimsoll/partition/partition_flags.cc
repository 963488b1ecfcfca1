#include "plimsoll/partition/partition_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <utility>

#include "plimsoll/core/units.h"

namespace plimsoll::app {

tl::unexpected<Error> refuse(std::string flag, std::string message, std::string remedy) {
  return fail(ErrorCode::kUsage, std::move(flag), std::move(message), std::move(remedy));
}

void add_partition_flags(CLI::App& command, PartitionFlags& flags) {
  const auto group = [&command](const char* name) { command.option_defaults()->group(name); };
  group("Devices and rules");
  command
      .add_option("--devices", flags.devices,
                  "Number of devices of the class that the graph's costs name; or CLASS=N, such "
                  "as cpu=1 (repeatable)")
      ->type_name("N");
  command
      .add_option("--memory", flags.memory,
                  "Memory of each device, such as 16GiB; or CLASS=SIZE (repeatable)")
      ->type_name("SIZE")
      ->check([](const std::string& text) {  // plans may have recorded bare numbers
        const auto size = parse_size(std::string_view(text).substr(text.find('=') + 1));
        return size ? std::string() : size.error().message + "; " + size.error().remedy;
      });
  command
      .add_option("--pin", flags.pins,
                  "NODE=DEVICE: only this device, by number, or this class runs the node "
                  "(repeatable)")
      ->type_name("RULE");
  command
      .add_option("--forbid", flags.forbidden,
                  "NODE=DEVICE: this device, or this class, does not run the node (repeatable)")
      ->type_name("RULE");
  group("Traced models");
  if (command.get_option_no_throw("--machine") == nullptr) {
    command
        .add_option("--machine", flags.machine,
                    "Times of operators on this machine, measured by `plimsoll calibrate`: a file, "
                    "or a name that `plimsoll hardware` lists; times that --times names come first")
        ->type_name("MACHINE");
  }
  command
      .add_option("--times", flags.times,
                  "Class of devices whose measured times count (h100), or roofline (default: the "
                  "accelerator's times where the graph has them)")
      ->type_name("CLASS");
  command
      .add_option("--cost-overlay", flags.cost_overlay,
                  "Measured times and bytes: CSV of node,device_class,time_ms,mem_bytes")
      ->type_name("FILE");
  command
      .add_option("--launch-floor", flags.launch_floor,
                  "Least time of an operator, such as 5us (default: launches cost nothing)")
      ->type_name("TIME");
  command
      .add_option("--activations", flags.activations,
                  "Activations that count as memory: none, stashed (what the backward reads) or "
                  "all (default: none; stashed for --objective pipeline, for every microbatch in "
                  "flight)")
      ->check(CLI::IsMember({"none", "stashed", "all"}));
  group("Pipelines");
  command
      .add_option("--microbatches", flags.microbatches,
                  "Microbatches in a batch; for a profile, those of all replicas together")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 30));
  command.add_flag("--straight", flags.straight, "Do not replicate stages");
  command
      .add_option("--bandwidth", flags.bandwidth,
                  "Bandwidth between devices, for profiles of PipeDream and Piper, such as 25GB/s")
      ->type_name("RATE");
}

// "devices", or "devices/cpu" where a class is named; of rules "pin/17", devices joined by ','.
std::map<std::string, std::string> provenance_options(const PartitionFlags& flags) {
  std::map<std::string, std::string> options;
  const auto put_text = [&options](const char* key, const std::string& text, const char* unless) {
    if (text != unless) options[key] = text;
  };
  put_text("on", flags.on, "");
  put_text("machine", flags.machine, "");
  put_text("times", flags.times, "");
  put_text("cost_overlay", flags.cost_overlay, "");
  put_text("launch_floor", flags.launch_floor, "");
  put_text("activations", flags.activations, "");
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
  fill_text("machine", flags.machine, "");
  fill_text("times", flags.times, "");
  fill_text("cost_overlay", flags.cost_overlay, "");
  fill_text("launch_floor", flags.launch_floor, "");
  fill_text("activations", flags.activations, "");
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

std::vector<std::string> faults_of_options(const std::map<std::string, std::string>& recorded,
                                           const PartitionFlags& own,
                                           std::span<const char* const> others) {
  std::map<std::string, std::string> canonical = provenance_options(own);
  for (const char* name : others) {
    if (const auto found = recorded.find(name); found != recorded.end()) canonical.insert(*found);
  }
  std::vector<std::string> faults;
  for (const auto& [name, value] : recorded) {
    const auto same = canonical.find(name);
    if (same != canonical.end() && same->second == value) continue;
    faults.push_back(fmt::format("provenance/options/{}: no planner records '{}'", name, value));
  }
  return faults;
}

}  // namespace plimsoll::app
