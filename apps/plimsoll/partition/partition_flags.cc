#include "plimsoll/partition/partition_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "core/option_record.h"
#include "core/search_record.h"
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

namespace {

// What a provenance records of a question, but where operators go.
template <class Fields, class Flags>
void describe_record(Fields& fields, Flags& flags) {
  fields.unusual("machine", flags.machine);
  fields.unusual("times", flags.times);
  fields.unusual("cost_overlay", flags.cost_overlay);
  fields.unusual("launch_floor", flags.launch_floor);
  fields.unusual("activations", flags.activations);
  fields.unusual("bandwidth", flags.bandwidth);
  fields.unusual("microbatches", flags.microbatches);
  fields.unusual("straight", flags.straight);
  fields.by_class("pin", flags.pins);
  fields.by_class("forbid", flags.forbidden);
}

template <class Fields, class Flags>
void describe_devices(Fields& fields, Flags& flags) {
  fields.unusual("on", flags.on);
  fields.by_class("devices", flags.devices);
  fields.by_class("memory", flags.memory);
}

}  // namespace

OptionTexts provenance_options(const PartitionFlags& flags) {
  OptionTexts options;
  RecordWriter writer(options);
  describe_devices(writer, flags);
  describe_record(writer, flags);
  return options;
}

// What is not a value of ours faults_of_options() names.
void fill_from_provenance(const OptionTexts& options, PartitionFlags& flags) {
  RecordReader reader(options, true);
  if (flags.on.empty()) describe_devices(reader, flags);  // else it is other hardware
  describe_record(reader, flags);
}

std::vector<std::string> faults_of_options(const OptionTexts& recorded, const PartitionFlags& own,
                                           std::span<const char* const> others) {
  OptionTexts of_search;
  put_search_record(read_search_record(recorded), of_search);
  if (const auto times = recorded.find("operator_times"); times != recorded.end()) {
    of_search.insert(*times);
  }
  OptionTexts canonical = provenance_options(own);
  for (const char* name : others) {
    if (const auto found = of_search.find(name); found != of_search.end()) canonical.insert(*found);
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
