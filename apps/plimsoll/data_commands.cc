// plimsoll hardware, models, schema: what comes with the program.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <vector>

#include "core/suggest.h"
#include "io/documents/report_json.h"
#include "plimsoll/common.h"
#include "plimsoll/help.h"
#include "plimsoll/io/shipped.h"
#include "plimsoll/io/topology_json.h"
#include "plimsoll/text/text_layout.h"
#include "plimsoll/text/text_table.h"
#include "plimsoll/topology/presets.h"

namespace plimsoll::app {
namespace {

struct DataFlags {
  GlobalFlags global;
  std::string name;
  bool prints_topology = false;
};

int run_models(const DataFlags& flags) {
  const std::span<const io::ShippedDocument> models = io::shipped_models();
  const std::span<const io::ShippedDocument> stats = io::shipped_module_stats();
  const std::span<const io::ShippedDocument> graphs = io::shipped_graphs();
  if (!flags.name.empty()) {
    for (const auto& documents : {models, stats, graphs}) {
      for (const io::ShippedDocument& document : documents) {
        if (document.id != flags.name) continue;
        print(document.text);
        return kExitOk;
      }
    }
    return report(io::load_shipped_model(flags.name).error(), flags.global);
  }
  if (flags.global.json) {
    print(io::write_model_list(models, stats, graphs));
    return kExitOk;
  }
  const auto table_of = [](const char* heading, std::span<const io::ShippedDocument> documents) {
    TextTable table({heading, "what it is"});
    for (const io::ShippedDocument& document : documents) {
      table.add({std::string(document.id), std::string(document.description)});
    }
    return table.text();
  };
  print(table_of("model", models) + "\n" + table_of("module statistics", stats) + "\n" +
        table_of("operator graph", graphs));
  return kExitOk;
}

std::string rate(const std::optional<double>& gb_per_s) {
  return gb_per_s ? fmt::format("{:g}", *gb_per_s) : "-";
}

// A preset as a topology file to edit.
int print_topology(const DataFlags& flags) {
  const auto spec = topology::find_preset(flags.name);
  if (!spec) return report(spec.error(), flags.global);
  print(io::write_topology(*spec));
  return kExitOk;
}

// What is known of the machines' times (--machine); of a name that is asked for, each source.
std::string machines_text(const std::string& name) {
  TextTable kinds({"machine", "kernels", "collectives", "step"});
  std::string sources;
  for (const io::ShippedDocument& document : io::shipped_machines()) {
    const auto machine = io::load_shipped_machine(document.id);
    if (document.id.find(name) == std::string_view::npos || !machine) continue;
    const auto kind = [&machine](const char* part) {
      const auto source = machine->sources.find(part);
      return source == machine->sources.end() ? "-" : std::string(to_string(source->second.kind));
    };
    kinds.add({std::string(document.id), kind("kernels"), kind("collectives"), kind("step")});
    for (const auto& [part, source] : machine->sources) {
      sources += wrapped(fmt::format("{}, {}: {}: {}", document.id, part, to_string(source.kind),
                                     source.source),
                         text_columns(), 2) +
                 "\n";
    }
  }
  if (kinds.empty()) return "";
  return kinds.text() + (name.empty() ? "" : "\n" + sources);
}

int run_hardware(const DataFlags& flags) {
  if (flags.prints_topology) return print_topology(flags);
  const auto is_wanted = [&flags](std::string_view id) {
    return id.find(flags.name) != std::string_view::npos;
  };
  std::vector<std::string> ids;
  for (const topology::HardwareNode& node : topology::nodes()) ids.emplace_back(node.id);
  for (const topology::Accelerator& a : topology::accelerators()) ids.emplace_back(a.id);
  for (const auto& preset : topology::planner_presets()) ids.emplace_back(preset.id);
  for (const io::ShippedDocument& machine : io::shipped_machines()) ids.emplace_back(machine.id);
  if (std::none_of(ids.begin(), ids.end(), is_wanted)) {
    return report({ErrorCode::kNotFound, flags.name, "no hardware has this name",
                   suggest(flags.name, ids), ""},
                  flags.global);
  }
  if (flags.global.json) {
    print(io::write_hardware(flags.name));
    return kExitOk;
  }
  TextTable nodes({"node", "accelerators", "DDR GB", "NICs", "GB/s out, each"},
                  {false, false, true, true, true});
  for (const topology::HardwareNode& node : topology::nodes()) {
    if (!is_wanted(node.id)) continue;
    nodes.add({std::string(node.id),
               fmt::format("{} x {}", node.num_accelerators, node.accelerator),
               fmt::format("{:g}", node.ddr_nominal_gb),
               fmt::format("{} x {:g} Gb/s", node.num_nics, node.nic_gbit_per_s),
               fmt::format("{:g}", node.scaleout_per_direction_gb_per_s_per_accelerator)});
  }
  TextTable accelerators(
      {"accelerator", "HBM GB", "HBM GB/s", "scale-up GB/s, each way", "host GB/s"},
      {false, true, true, true, true});
  for (const topology::Accelerator& a : topology::accelerators()) {
    if (!is_wanted(a.id)) continue;
    accelerators.add({std::string(a.id), fmt::format("{:g}", a.hbm_nominal_gb),
                      rate(a.hbm_gb_per_s), rate(a.scaleup_per_direction_gb_per_s),
                      rate(a.host_per_direction_gb_per_s)});
  }
  TextTable presets({"planner preset", "source"});
  for (const topology::PlannerPreset& preset : topology::planner_presets()) {
    if (is_wanted(preset.id)) presets.add({std::string(preset.id), std::string(preset.source)});
  }
  std::string text;
  for (const TextTable* table : {&nodes, &accelerators, &presets}) {
    if (!table->empty()) text += (text.empty() ? "" : "\n") + table->text();
  }
  const std::string machines = machines_text(flags.name);
  if (!machines.empty()) text += (text.empty() ? "" : "\n") + machines;
  print(text);
  return kExitOk;
}

int run_schema(const DataFlags& flags) {
  if (!flags.name.empty()) {
    const auto schema = io::find_schema(flags.name);
    if (!schema) return report(schema.error(), flags.global);
    print(*schema);
    return kExitOk;
  }
  if (flags.global.json) {
    print(io::write_schema_list(io::schemas()));
    return kExitOk;
  }
  for (const io::Schema& schema : io::schemas()) print(fmt::format("{}\n", schema.name));
  return kExitOk;
}

std::shared_ptr<DataFlags> add(CLI::App& app, Run& run, const std::string& name,
                               const std::string& description, const std::string& argument,
                               int (*body)(const DataFlags&),
                               std::initializer_list<std::string_view> lines) {
  auto flags = std::make_shared<DataFlags>();
  CLI::App* command = app.add_subcommand(name, description);
  command->footer(examples(lines));
  command->option_defaults()->group(kCommonGroup);
  command->add_option("NAME", flags->name, argument);
  command->add_flag("--json", flags->global.json, "Print the answer as JSON instead of text");
  command->add_flag("-q,--quiet", flags->global.quiet, "Print the answer alone, as always here");
  set_help(*command, {});
  command->callback([flags, &run, body] { run = [flags, body] { return body(*flags); }; });
  return flags;
}

}  // namespace

void add_data_commands(CLI::App& app, Run& run) {
  add(app, run, "models", "List the shipped models, module statistics and graphs, or print one",
      "Print this one", run_models,
      {"plimsoll models", "plimsoll models mlperf-dlrm-dcnv2 > model.json"});
  const auto hardware =
      add(app, run, "hardware", "List nodes, accelerators, planner presets and machines",
          "Only entries whose name contains this", run_hardware,
          {"plimsoll hardware", "plimsoll hardware h100 --json",
           "plimsoll hardware dgx-h100:2 --topology > topology.json"});
  CLI::App* const command = app.get_subcommand("hardware");
  command->option_defaults()->group(kCommonGroup);
  command->add_flag("--topology", hardware->prints_topology,
                    "Print this hardware as a topology file to edit");
  add(app, run, "schema", "List the JSON Schemas of Plimsoll's documents, or print one",
      "Print this schema", run_schema, {"plimsoll schema", "plimsoll schema model"});
}

}  // namespace plimsoll::app
