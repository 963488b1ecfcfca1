// plimsoll partition: which device runs which operators of a graph.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

#include "plimsoll/common.h"
#include "plimsoll/core/version.h"
#include "plimsoll/partition/dialect.h"
#include "plimsoll/partition_advice.h"
#include "plimsoll/partition_case.h"
#include "plimsoll/partition_flags.h"
#include "plimsoll/partition_searches.h"
#include "plimsoll/planning_run.h"
#include "plimsoll/text_table.h"

namespace plimsoll::app {
namespace {

using io::PlacedStage;
using io::PlacementAnswer;

struct Flags {
  GlobalFlags global;
  PartitionFlags partition;
  std::string objective;
  std::string search;
  bool contiguous = false;
  bool general = false;
  std::string variant = partition::default_dialect().name;
  std::string form;
  std::string output;
  std::string time_limit;
  std::int64_t effort = -1;
  double tolerance = SearchOptions{}.tolerance;
};

void put_provenance(const PartitionCase& made, const study::PlacementSearch& search,
                    const Flags& flags, PlacementAnswer& answer) {
  if (!answer.provenance) answer.provenance.emplace();  // else it says where it was stopped
  Provenance& provenance = *answer.provenance;
  provenance.version = kVersion;
  provenance.options = provenance_options(flags.partition);
  provenance.options["search"] = search.name;
  if (made.fx) provenance.options["variant"] = flags.variant;
  put_limits(flags.effort, flags.tolerance, provenance);
  provenance.inputs["graph"] = made.input_hash;
  provenance.seed = flags.global.seed;
  answer.warnings.insert(answer.warnings.begin(), made.warnings.begin(), made.warnings.end());
}

// ---------------------------------------------------------------- text

std::string percent(double gap) { return gap < 1e-9 ? "0 %" : fmt::format("{:.3g} %", gap * 100); }

std::string devices_text(const std::vector<int>& devices) {
  std::string text;
  for (const int device : devices) text += fmt::format("{}{}", text.empty() ? "" : ",", device);
  return text.empty() ? "-" : text;
}

std::string ms_text(const std::optional<double>& ms) {
  return ms ? fmt::format("{:.4f}", *ms) : "-";
}

std::string graph_line(const PartitionCase& made) {
  if (made.fx) {
    return fmt::format("{}: {} nodes, {}; {} devices\n", made.name, made.fx->graph.num_nodes(),
                       format_bytes(made.fx->graph.total_size), made.fx->config.devices.size());
  }
  std::string devices;
  for (const partition::DeviceClass& one : made.costs->classes) {
    devices += fmt::format("{}{} x {}{}", devices.empty() ? "" : ", ", one.count, one.name,
                           one.memory_cap ? " of " + format_bytes(*one.memory_cap) : "");
  }
  return fmt::format("{}: {} nodes, {} values; {}\n", made.name, made.costs->num_nodes(),
                     made.costs->nets.size(), devices);
}

// "largest load 17.8 ms, on device 3".
std::string objective_line(const PlacementAnswer& answer) {
  const double value = answer.certificate->objective;
  std::string text;
  switch (answer.objective) {
    case partition::Objective::kThroughput: {
      text = fmt::format("largest load {:.6g} ms", value);
      const auto& stages = *answer.stages;
      const auto largest = std::max_element(stages.begin(), stages.end(),
                                            [](const PlacedStage& a, const PlacedStage& b) {
                                              return a.load_ms.value_or(0) < b.load_ms.value_or(0);
                                            });
      if (largest != stages.end()) text += ", on device " + devices_text(largest->devices);
      break;
    }
    case partition::Objective::kLatency:
      text = fmt::format("one sample takes {:.6g} ms", value);
      break;
    case partition::Objective::kPipeline:
      text = fmt::format("a batch takes {:.6g} ms", value);
      break;
    case partition::Objective::kFx:
      if (std::isnan(value)) return "";  // without latencies nothing is known
      text = fmt::format("critical path {:.6g} ms", value);
      break;
  }
  if (answer.certificate->lower_bound) {
    text += fmt::format("; none is below {:.6g} ms", *answer.certificate->lower_bound);
    if (const auto gap = answer.certificate->gap()) text += fmt::format(" (gap {})", percent(*gap));
  }
  return text + "\n";
}

std::string stages_text(const PlacementAnswer& answer, const Flags& flags) {
  const bool is_pipeline = answer.objective == partition::Objective::kPipeline;
  std::vector<std::string> heads = {"stage",       "device",  "class",  "nodes", "compute ms",
                                    "transfer ms", "load ms", "memory", "of"};
  std::vector<bool> is_number = {true, false, false, true, true, true, true, true, true};
  if (is_pipeline) {
    heads.insert(heads.begin() + 6, {"sync ms"});
    heads.insert(heads.begin() + 8, {"in flight"});
    is_number.insert(is_number.begin() + 6, {true, true});
  }
  TextTable table(heads, is_number);
  const auto& stages = *answer.stages;
  constexpr std::size_t kMaxRows = 64;
  for (std::size_t s = 0; s < stages.size() && s < kMaxRows; ++s) {
    const PlacedStage& stage = stages[s];
    std::vector<std::string> row = {fmt::format("{}", stage.id.value_or(static_cast<int>(s))),
                                    devices_text(stage.devices),
                                    stage.device_class.empty() ? "-" : stage.device_class,
                                    fmt::format("{}", stage.nodes.size()),
                                    ms_text(stage.compute_ms),
                                    ms_text(stage.transfer_ms),
                                    ms_text(stage.load_ms),
                                    format_bytes(stage.memory),
                                    stage.memory_cap ? format_bytes(*stage.memory_cap) : "-"};
    if (is_pipeline) {
      row.insert(row.begin() + 6, ms_text(stage.sync_ms));
      row.insert(row.begin() + 8, fmt::format("{}", stage.in_flight.value_or(1)));
    }
    table.add(std::move(row));
  }
  std::string text = table.text();
  if (stages.size() > kMaxRows) {
    text += fmt::format("... {} more stages (all of them with --json)\n", stages.size() - kMaxRows);
  }
  if (flags.global.verbosity > 0) {
    for (std::size_t s = 0; s < stages.size(); ++s) {
      text += fmt::format("\nstage {}: {}\n", stages[s].id.value_or(static_cast<int>(s)),
                          fmt::join(stages[s].nodes, " "));
    }
  }
  return text;
}

std::string cuts_text(const PlacementAnswer& answer) {
  if (answer.cuts.empty()) return "";
  double total = 0;
  std::vector<const io::PlacedCut*> order;
  for (const io::PlacedCut& cut : answer.cuts) {
    total += cut.ms;
    order.push_back(&cut);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* a, const auto* b) { return a->ms > b->ms; });
  constexpr std::size_t kMaxRows = 12;
  TextTable table({"value of", "from", "to", "ms"}, {false, true, false, true});
  for (std::size_t i = 0; i < order.size() && i < kMaxRows; ++i) {
    table.add({order[i]->producer, fmt::format("{}", order[i]->from), devices_text(order[i]->to),
               fmt::format("{:.4f}", order[i]->ms)});
  }
  std::string text =
      fmt::format("\n{} values move between devices, {:.6g} ms in all\n", order.size(), total) +
      table.text();
  if (order.size() > kMaxRows) {
    text += fmt::format("... {} more values (all of them with --json)\n", order.size() - kMaxRows);
  }
  return text;
}

std::string calls_text(const PlacementAnswer& answer) {
  if (answer.calls.empty()) return "";
  TextTable table({"call", "device", "reads", "gives"});
  for (const partition::DagNode& call : answer.calls) {
    table.add({call.submodule, devices_text(call.logical_device_ids),
               fmt::format("{}", fmt::join(call.inputs, " ")),
               fmt::format("{}", fmt::join(call.outputs, " "))});
  }
  return "\n" + table.text();
}

std::string summary(const PartitionCase& made, const PlacementAnswer& answer, double seconds,
                    const Flags& flags) {
  const bool has_plan = answer.stages.has_value();
  const std::string proof = to_string(answer.certificate->proof);
  std::string text = graph_line(made);
  text += fmt::format(
      "{}  {}{}{:.3f} s\n",
      paint(to_string(*answer.status), has_plan ? Tone::kGood : Tone::kBad, flags.global), proof,
      proof.empty() ? "" : ", ", seconds);
  if (!has_plan) {
    const auto& bound = answer.certificate->lower_bound;
    return bound ? text + fmt::format("none is below {:.6g} ms\n", *bound) : text;
  }
  return text + objective_line(answer) + "\n" + stages_text(answer, flags) + cuts_text(answer) +
         calls_text(answer);
}

std::vector<std::string> remarks_of(const PlacementAnswer& answer) {
  std::vector<std::string> remarks;
  if (answer.failure) {
    remarks.push_back(fmt::format("plimsoll: no plan: {}{}{}", answer.failure->kind,
                                  answer.failure->kind.empty() ? "" : ": ",
                                  answer.failure->message));
  }
  if (!answer.explanation) return remarks;
  for (std::string& line : explanation_remarks(*answer.explanation, *answer.status)) {
    remarks.push_back(std::move(line));
  }
  if (answer.explanation->missing > 0) {
    remarks.push_back(fmt::format("{} bytes are missing", answer.explanation->missing));
  }
  return remarks;
}

Result<study::PlacementSearch> choose_search(const PartitionCase& made, const Flags& flags) {
  const std::string kind = flags.general ? "general" : flags.contiguous ? "contiguous" : "";
  if (!kind.empty() && !flags.search.empty() && flags.search != kind) {
    return fail(ErrorCode::kUsage, "--" + kind, fmt::format("--search names '{}'", flags.search),
                "leave one of them out");
  }
  return find_partition_search(made, flags.objective, kind.empty() ? flags.search : kind);
}

Result<Answered> plan_graph(const PartitionCase& made, const Flags& flags,
                            const SearchOptions& limits) {
  PLIMSOLL_ASSIGN(const study::PlacementSearch search, choose_search(made, flags));
  const RunContext context = watch_search(limits, flags.global);
  const auto begin = std::chrono::steady_clock::now();
  PLIMSOLL_ASSIGN(PlacementAnswer answer, search.run(made, {limits, flags.variant}, context));
  put_memory_advice(
      made, find_memory_advice(made, search, {limits, flags.variant}, context, answer), answer);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  put_provenance(made, search, flags, answer);
  Answered answered{io::write_placement(answer), "", *answer.status, *answer.stop, answer.warnings,
                    remarks_of(answer)};
  if (!flags.form.empty() && answer.stages) {
    answered.text = write_placement_export(flags.form, made, answer);
  } else if (!prints_document(flags.global, flags.output)) {
    answered.text = summary(made, answer, seconds, flags);
  }
  return answered;
}

Result<Answered> plan_input(const Flags& flags) {
  if (!flags.form.empty() && prints_document(flags.global, flags.output)) {
    return fail(ErrorCode::kUsage, "--export", "two documents would stand on standard output",
                "leave out --json, or write the answer to a file with -o");
  }
  PLIMSOLL_ASSIGN(const SearchOptions limits, make_search_options(flags.global, flags.time_limit,
                                                                  flags.effort, flags.tolerance));
  PartitionFlags asked = flags.partition;
  asked.is_pipeline = flags.objective == "pipeline" || flags.search == "replicated";
  PLIMSOLL_ASSIGN(const PartitionCase made, load_partition_case(asked));
  if (!made.pipeline) return plan_graph(made, flags, limits);
  if (flags.general) {
    return fail(ErrorCode::kUsage, "--general", "stages of a pipeline stand in a line",
                "leave it out");
  }
  return plan_pipeline_case(*made.pipeline, flags.partition,
                            {flags.global, limits, flags.objective, flags.search, flags.form,
                             !prints_document(flags.global, flags.output)});
}

int run_partition(const Flags& flags) {
  return run_planning(flags.global, flags.output, [&] { return plan_input(flags); });
}

std::string search_help() {
  std::string text = "How a placement is found; by default the first for the objective:";
  for (const study::PlacementSearch& search : study::placement_searches()) {
    text += fmt::format(" {} ({}: {});", search.name, to_string(search.objective), search.help);
  }
  text += " of profiles: replicated (exact, or with a bound); pipedream (its published optimizer);";
  text.back() = '.';
  return text;
}

std::vector<std::string> export_names() {
  std::vector<std::string> names = placement_export_names();
  names.insert(names.end(), {"pipedream", "piper"});
  return names;
}

std::string export_help() {
  std::string text = "Print the placement in another form instead of a report:";
  for (const PlacementExport& form : placement_exports()) {
    text += fmt::format(" {} ({});", form.name, form.help);
  }
  text += " pipedream, piper (of such profiles, with their stages);";
  text.back() = '.';
  return text;
}

}  // namespace

void add_partition_command(CLI::App& app, Run& run) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command =
      app.add_subcommand("partition", "Plan which device runs which operators of a graph");
  command->footer(
      examples({"plimsoll partition bert24-inference",
                "plimsoll partition graph.json --devices 4 --memory 16GiB -o placement.json",
                "plimsoll partition graph.json --devices 4 --devices cpu=0 --pin 17=0",
                "plimsoll partition bert24-training --export dnn_partitioning > split.json",
                "plimsoll partition model.pt2 --on 4xh100-sxm --general --export dot > model.dot",
                "plimsoll partition fx_graph.json --search torch_cost_aware --json"}));
  command
      ->add_option("GRAPH", flags->partition.graph,
                   "An operator graph: a file, '-' for standard input, or a name that `plimsoll "
                   "models` lists")
      ->required();
  command->add_option("--on", flags->partition.on,
                      "Hardware: a preset and how many (dgx-h100:2), ranks x memory (16x40GiB), "
                      "ranks x accelerator (4xh100-sxm), or a topology file; the devices that the "
                      "graph names unless given");
  add_partition_flags(*command, flags->partition);
  command
      ->add_option("--objective", flags->objective,
                   "What is made small: throughput (the largest load of a device, the default), "
                   "latency (the time of one sample), pipeline (the time of a batch of "
                   "--microbatches through all stages, replicas of them and what is in flight "
                   "included), or fx (torch.fx's critical path; without "
                   "an objective, its graphs are partitioned in the mode that they name)")
      ->check(CLI::IsMember({"throughput", "latency", "pipeline", "fx"}));
  command->add_option("--search", flags->search, search_help());
  CLI::Option* const contiguous = command->add_flag(
      "--contiguous", flags->contiguous, "Stages that stand in a line: --search contiguous");
  command->add_flag("--general", flags->general, "Any placement: --search general")
      ->excludes(contiguous);
  command->add_option("--variant", flags->variant, "Release of torch that its searches follow")
      ->capture_default_str();
  command->add_option("--export", flags->form, export_help())->check(CLI::IsMember(export_names()));
  command->add_option("-o,--output", flags->output,
                      "Write the answer as JSON to this file (-: to stdout, as --json)");
  command->add_option("--time-limit", flags->time_limit,
                      "Stop the search after this time (5s, 200ms) with the best plan so far");
  command->add_option("--effort", flags->effort, "Stop after this many units of the search's own")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 60));
  command->add_option("--tolerance", flags->tolerance, "A gap up to this counts as optimal")
      ->capture_default_str();
  add_global_flags(*command, flags->global);
  command->callback([flags, &run] { run = [flags] { return run_partition(*flags); }; });
}

}  // namespace plimsoll::app
