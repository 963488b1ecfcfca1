// plimsoll partition: which device runs which operators of a graph.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "plimsoll/common.h"
#include "plimsoll/core/version.h"
#include "plimsoll/help.h"
#include "plimsoll/partition/dialect.h"
#include "plimsoll/partition/partition_advice.h"
#include "plimsoll/partition/partition_case.h"
#include "plimsoll/partition/partition_flags.h"
#include "plimsoll/partition/partition_searches.h"
#include "plimsoll/planning_run.h"
#include "plimsoll/text/no_plan_text.h"
#include "plimsoll/text/text_table.h"

namespace plimsoll::app {
namespace {

using study::PlacedStage;
using study::PlacementAnswer;

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
  if (!made.times.empty()) provenance.options["operator_times"] = made.times;
  if (made.fx) provenance.options["variant"] = flags.variant;
  put_limits(flags.effort, flags.tolerance, provenance);
  provenance.inputs["graph"] = made.input_hash;
  if (!made.machine_hash.empty()) provenance.inputs["machine"] = made.machine_hash;
  provenance.seed = flags.global.seed;
  answer.warnings.insert(answer.warnings.begin(), made.warnings.begin(), made.warnings.end());
}

// ---------------------------------------------------------------- text

std::string devices_text(const std::vector<int>& devices) {
  std::string text;
  for (const int device : devices) text += fmt::format("{}{}", text.empty() ? "" : ",", device);
  return text.empty() ? "-" : text;
}

std::string figure(const std::optional<double>& ms) {
  return ms ? fmt::format("{:.4f}", *ms) : "-";
}

// "bert24-training: 64 nodes on 6 x accelerator (16 GiB each), 1 x cpu".
std::string title(const PartitionCase& made) {
  std::string devices;
  int num_nodes = 0;
  if (made.fx) {
    num_nodes = made.fx->graph.num_nodes();
    devices =
        counted(static_cast<std::int64_t>(made.fx->config.devices.size()), "device", "devices");
  } else {
    num_nodes = made.costs->num_nodes();
    for (const partition::DeviceClass& one : made.costs->classes) {
      if (one.count == 0) continue;
      devices += fmt::format("{}{} x {}", devices.empty() ? "" : ", ", one.count, one.name);
      if (one.memory_cap) devices += fmt::format(" ({} each)", size_text(*one.memory_cap));
    }
  }
  return fmt::format("{}: {} on {}", made.name, counted(num_nodes, "node", "nodes"), devices);
}

// What is minimized, and what it is.
std::pair<std::string_view, std::string> objective_row(const PlacementAnswer& answer) {
  const std::string value = fmt::format("{:<13}", ms_text(answer.certificate->objective));
  switch (answer.objective) {
    case partition::Objective::kThroughput: {
      const auto& stages = *answer.plan;
      const auto largest = std::max_element(stages.begin(), stages.end(),
                                            [](const PlacedStage& a, const PlacedStage& b) {
                                              return a.load_ms.value_or(0) < b.load_ms.value_or(0);
                                            });
      const std::string where =
          largest == stages.end() ? "" : "on device " + devices_text(largest->devices);
      return {"slowest stage", value + where};
    }
    case partition::Objective::kLatency:
      return {"one sample", value};
    case partition::Objective::kPipeline:
      return {"one batch", value};
    case partition::Objective::kFx:
      return {"critical path", value};
  }
  return {"", value};
}

// What the figures are of, and what they leave out.
std::string scope_text(const PartitionCase& made, const Flags& flags) {
  if (made.fx) return "latencies of operators and transfers as the graph states them";
  std::string times = "compute and transfers";
  if (made.operators) {
    times += !made.times.empty() ? "; times: " + made.times
             : flags.partition.launch_floor.empty()
                 ? "; launches of operators are left out (--launch-floor 5us adds them)"
                 : "; an operator takes at least " + flags.partition.launch_floor;
  }
  std::string memory = "memory is that of weights and of what nodes hold";
  if (made.operators) {
    std::string activations = flags.partition.activations;
    if (activations.empty()) activations = flags.objective == "pipeline" ? "stashed" : "none";
    memory = activations == "none"      ? "memory is that of weights, without activations "
                                          "(--activations stashed or all adds them)"
             : activations == "stashed" ? "memory is that of weights and of what the backward reads"
                                        : "memory is that of weights and of all activations";
  }
  return times + "; " + memory;
}

// "model.layers.3" of "model.layers.3.self_attn.q_proj": up to the first number.
std::string layer_of(const std::string& module) {
  for (std::size_t begin = 0; begin < module.size();) {
    const std::size_t end = std::min(module.find('.', begin), module.size());
    const bool is_number =
        end > begin && std::all_of(module.begin() + static_cast<std::ptrdiff_t>(begin),
                                   module.begin() + static_cast<std::ptrdiff_t>(end),
                                   [](char c) { return c >= '0' && c <= '9'; });
    if (is_number) return module.substr(0, end);
    begin = end + 1;
  }
  return module;
}

// Names that are numbers, in their order, so that they fold; others as they are.
std::vector<std::string> in_order(std::vector<std::string> names) {
  const auto is_number = [](const std::string& name) {
    return !name.empty() && name.size() < 10 && name.find_first_not_of("0123456789") == name.npos;
  };
  if (std::all_of(names.begin(), names.end(), is_number)) {
    std::stable_sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
      return std::stoi(a) < std::stoi(b);
    });
  }
  return names;
}

// Layers that a stage holds, of a traced model by module, in the order of the graph.
std::string layers_text(const PartitionCase& made, const PlacedStage& stage) {
  std::vector<std::string> names;
  if (made.operators) {
    std::map<std::string_view, const partition::OperatorNode*> node_of;
    for (const partition::OperatorNode& node : made.operators->graph.nodes) {
      node_of.emplace(node.name, &node);
    }
    std::set<std::string> seen;
    for (const std::string& node : stage.nodes) {
      const auto found = node_of.find(node);
      if (found == node_of.end() || found->second->module.empty()) continue;
      std::string layer = layer_of(found->second->module);
      if (seen.insert(layer).second) names.push_back(std::move(layer));
    }
  }
  if (names.empty()) names = in_order(stage.nodes);
  std::string text;
  for (const FoldedName& name : fold_names(names)) {
    text += (text.empty() ? "" : ", ") + name.range();
  }
  return text;
}

// Columns of a table of stages.
struct StageColumns {
  bool parts = false;     // of the load
  bool pipeline = false;  // what only stages of pipelines have
  bool layers = false;
};

TextTable start_stages(const StageColumns& shown) {
  std::vector<std::string> heads;
  std::vector<bool> is_number;
  const auto head = [&](const char* name, bool number) {
    heads.emplace_back(name);
    is_number.push_back(number);
  };
  head("stage", true);
  head("device", false);
  head("class", false);
  head("nodes", true);
  if (shown.parts) {
    head("compute", true);
    head("transfer", true);
    if (shown.pipeline) head("sync", true);
  }
  head("load ms", true);
  if (shown.pipeline) head("in flight", true);
  head("memory", true);
  head("of", true);
  if (shown.layers) head("layers", false);
  return TextTable(std::move(heads), std::move(is_number));
}

std::vector<std::string> stage_row(const PartitionCase& made, const PlacedStage& stage, int number,
                                   const StageColumns& shown) {
  std::vector<std::string> row = {
      fmt::format("{}", stage.id.value_or(number)), devices_text(stage.devices),
      stage.device_class.empty() ? "-" : stage.device_class, fmt::format("{}", stage.nodes.size())};
  if (shown.parts) {
    row.push_back(figure(stage.compute_ms));
    row.push_back(figure(stage.transfer_ms));
    if (shown.pipeline) row.push_back(figure(stage.sync_ms));
  }
  row.push_back(figure(stage.load_ms ? stage.load_ms : stage.compute_ms));
  if (shown.pipeline) row.push_back(fmt::format("{}", stage.in_flight.value_or(1)));
  row.push_back(size_text(stage.memory));
  row.push_back(stage.memory_cap ? size_text(*stage.memory_cap) : "-");
  if (shown.layers) row.push_back(layers_text(made, stage));
  return row;
}

std::string stages_text(const PartitionCase& made, const PlacementAnswer& answer,
                        const Flags& flags) {
  const bool is_verbose = flags.global.verbosity > 0;
  StageColumns columns;
  columns.parts = is_verbose;
  columns.pipeline = answer.objective == partition::Objective::kPipeline;
  columns.layers = made.operators || !is_verbose;  // else -v lists them as nodes
  TextTable table = start_stages(columns);
  const auto& stages = *answer.plan;
  constexpr std::size_t kMaxRows = 64;
  const std::size_t rows = is_verbose ? stages.size() : std::min(stages.size(), kMaxRows);
  for (std::size_t s = 0; s < rows; ++s) {
    table.add(stage_row(made, stages[s], static_cast<int>(s), columns));
  }
  table.drop_equal({"sync", "of", "class"}, 2);  // the title names classes and memory
  std::string text = table.text(2);
  if (rows < stages.size()) {
    text += fmt::format("  ... {} more stages (-v prints them)\n", stages.size() - rows);
  }
  if (is_verbose) {
    for (std::size_t s = 0; s < stages.size(); ++s) {
      text +=
          in_lines(shown(fmt::format("\nstage {}: {}", stages[s].id.value_or(static_cast<int>(s)),
                                     fmt::join(stages[s].nodes, " "))),
                   2);
    }
  }
  return text;
}

std::string cuts_text(const PlacementAnswer& answer, bool is_verbose) {
  if (answer.cuts.empty()) return "";
  double total = 0;
  std::vector<const study::PlacedCut*> order;
  for (const study::PlacedCut& cut : answer.cuts) {
    total += cut.ms;
    order.push_back(&cut);
  }
  std::string text =
      fmt::format("\n  {} between devices, {} in all\n",
                  counted(static_cast<std::int64_t>(order.size()), "value moves", "values move"),
                  ms_text(total));
  if (!is_verbose) return text;
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* a, const auto* b) { return a->ms > b->ms; });
  constexpr std::size_t kMaxRows = 1000;
  TextTable table({"value of", "from", "to", "ms"}, {false, true, false, true});
  for (std::size_t i = 0; i < order.size() && i < kMaxRows; ++i) {
    table.add({order[i]->producer, fmt::format("{}", order[i]->from), devices_text(order[i]->to),
               fmt::format("{:.4f}", order[i]->ms)});
  }
  text += table.text(2);
  if (order.size() > kMaxRows) {
    text +=
        fmt::format("  ... {} more values (all of them with --json)\n", order.size() - kMaxRows);
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
  return "\n" + table.text(2);
}

struct PartitionText {
  std::string head, body;
};

PartitionText describe(const PartitionCase& made, const PlacementAnswer& answer, double seconds,
                       const Flags& flags) {
  const bool is_verbose = flags.global.verbosity > 0;
  const Certificate& certificate = *answer.certificate;
  PartitionText text;
  text.head =
      paint(wrapped(shown(title(made)), text_columns(), 2), Tone::kHeading, flags.global) + "\n";
  if (!answer.plan) {
    text.head += answer.status == SolveStatus::kInfeasible
                     ? "Does not fit (proved infeasible).\n"
                     : "No placement was found, and it is not proved that there is none.\n";
    if (answer.explanation) text.head += no_plan_text(*answer.explanation);
    if (certificate.lower_bound) {
      text.head += fmt::format("No placement is below {}.\n", ms_text(*certificate.lower_bound));
    }
    if (is_verbose) text.head += to_string(certificate.proof) + "\n";
    return text;
  }
  const auto row = [&text](std::string_view name, const std::string& what) {
    text.head += screen_row(name, what);
  };
  text.head += "\n";
  if (!std::isnan(certificate.objective)) {
    const auto [name, value] = objective_row(answer);
    row(name, value);
    row("best possible",
        certificate.lower_bound
            ? fmt::format("{:<13}{}", ms_text(*certificate.lower_bound), bound_words(certificate))
            : bound_words(certificate));
  }
  row("found in", fmt::format("{}{}", seconds_text(seconds),
                              answer.stop == StopReason::kDeadline ? ", when the time limit ended "
                                                                     "the search"
                              : answer.stop == StopReason::kCancelled ? ", when the search was "
                                                                        "interrupted"
                                                                      : ""));
  constexpr std::size_t kNear = 15;  // where the text of a row begins
  text.head += screen_row("counted", scope_text(made, flags), kNear);
  if (is_verbose) {
    text.body = in_lines(
        fmt::format("\n{}: {}\n", to_string(*answer.status), to_string(certificate.proof)), 2);
  }
  text.body +=
      "\n" + stages_text(made, answer, flags) + cuts_text(answer, is_verbose) + calls_text(answer);
  if (!is_verbose) {
    text.body +=
        hint(flags.output.empty() || flags.output == "-"
                 ? std::string("Use -v for the nodes of every stage, -o placement.json to save the "
                               "plan.")
                 : fmt::format("Use -v for the nodes of every stage, `plimsoll report {} -o "
                               "plan.html` for a page to look at.",
                               shown(flags.output)));
  }
  return text;
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
  PLIMSOLL_ASSIGN(const RunContext context, watch_search(flags.time_limit, flags.global));
  const auto begin = std::chrono::steady_clock::now();
  PLIMSOLL_ASSIGN(PlacementAnswer answer, search.run(made, {limits, flags.variant}, context));
  put_memory_advice(made, flags.partition,
                    find_memory_advice(made, search, {limits, flags.variant}, context, answer),
                    answer);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  put_provenance(made, search, flags, answer);
  Answered answered{
      io::write_placement(answer), "", "", *answer.status, *answer.stop, answer.warnings,
      remarks_of(answer)};
  if (!flags.form.empty() && answer.plan) {
    answered.text = write_placement_export(flags.form, made, answer);
  } else if (!prints_document(flags.global, flags.output)) {
    PartitionText text = describe(made, answer, seconds, flags);
    answered.text = std::move(text.head);
    answered.details = std::move(text.body);
  }
  return answered;
}

Result<Answered> plan_input(const Flags& flags) {
  if (!flags.form.empty() && prints_document(flags.global, flags.output)) {
    return fail(ErrorCode::kUsage, "--export", "it would print a second document",
                "leave out --json, or write the answer to a file with -o");
  }
  PLIMSOLL_ASSIGN(const SearchOptions limits,
                  make_search_options(flags.global, flags.effort, flags.tolerance));
  PartitionFlags asked = flags.partition;
  asked.is_pipeline = flags.objective == "pipeline" || flags.search == "replicated";
  PLIMSOLL_ASSIGN(const PartitionCase made, load_partition_case(asked));
  if (!made.pipeline) return plan_graph(made, flags, limits);
  if (flags.general) {
    return fail(ErrorCode::kUsage, "--general", "stages of a pipeline are always contiguous",
                "leave it out");
  }
  return plan_pipeline_case(*made.pipeline, flags.partition,
                            {flags.global, flags.time_limit, limits, flags.objective, flags.search,
                             flags.form, !prints_document(flags.global, flags.output)});
}

int run_partition(const Flags& flags) {
  return run_planning(flags.global, flags.output, [&] { return plan_input(flags); });
}

std::string search_help() {
  std::string text = "How placements are found (default: the first of the objective):";
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
  std::string text = "Print the placement in another form instead of text:";
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
  CLI::App* command = app.add_subcommand("partition", "Plan which device runs which operators");
  const auto group = [command](const char* name) { command->option_defaults()->group(name); };
  group(kCommonGroup);
  command
      ->add_option("GRAPH", flags->partition.graph,
                   "An operator graph: a file, '-' for standard input, or a name that `plimsoll "
                   "models` lists")
      ->required();
  command
      ->add_option("--on", flags->partition.on,
                   "Hardware: nodes (dgx-h100:2), ranks of equal memory (16x40GiB), ranks of one "
                   "accelerator (4xh100-sxm), or a topology file (default: the devices that the "
                   "graph names)")
      ->type_name("HARDWARE");
  command
      ->add_option("--objective", flags->objective,
                   "What is minimized: throughput (the largest load of a device, the default), "
                   "latency (of one sample), pipeline (the time of a batch of --microbatches, "
                   "with replicated stages), or fx (torch.fx's critical path)")
      ->check(CLI::IsMember({"throughput", "latency", "pipeline", "fx"}));
  command
      ->add_option("-o,--output", flags->output,
                   "Write the answer as JSON to this file ('-': to standard output)")
      ->type_name("FILE");
  command
      ->add_option("--time-limit", flags->time_limit,
                   "Stop after this time, such as 500ms, 5s or 2m, with the best plan so far")
      ->type_name("TIME");
  command->add_option("--export", flags->form, export_help())->check(CLI::IsMember(export_names()));
  group("Search");
  command->add_option("--search", flags->search, search_help())->type_name("NAME");
  CLI::Option* const contiguous = command->add_flag(
      "--contiguous", flags->contiguous, "Contiguous stages: the same as --search contiguous");
  command->add_flag("--general", flags->general, "Any placement: the same as --search general")
      ->excludes(contiguous);
  command->add_option("--variant", flags->variant, "Release of torch that its searches follow")
      ->type_name("NAME")
      ->capture_default_str();
  command->add_option("--effort", flags->effort, "Stop after this many units of search effort")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 60));
  command->add_option("--tolerance", flags->tolerance, "A gap up to this counts as optimal")
      ->type_name("SHARE")
      ->capture_default_str();
  add_partition_flags(*command, flags->partition);
  add_planning_globals(*command, flags->global);
  set_help(
      *command,
      {{kCommonGroup, "plimsoll partition model.pt2 --on 4xh100-sxm -o placement.json"},
       {"Search", "plimsoll partition graph.json --general --time-limit 10s"},
       {"Devices and rules", "plimsoll partition graph.json --devices 4 --memory 16GiB --pin 17=0"},
       {"Traced models", "plimsoll partition model.pt2 --on 4xh100-sxm --launch-floor 5us"},
       {"Pipelines", "plimsoll partition graph.json --objective pipeline --microbatches 16"}},
      {"", "", "partition graph.json"});
  command->callback([flags, &run] { run = [flags] { return run_partition(*flags); }; });
}

}  // namespace plimsoll::app
