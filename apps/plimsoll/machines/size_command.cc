// plimsoll size: the smallest machine, or the cheapest, on which a plan exists or keeps a time.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <utility>

#include "core/suggest.h"
#include "plimsoll/help.h"
#include "plimsoll/io/shipped.h"
#include "plimsoll/machines/machines_flags.h"
#include "plimsoll/partition/partition_case.h"
#include "plimsoll/planning_run.h"
#include "plimsoll/shard/planning_flags.h"
#include "plimsoll/text/text_table.h"
#include "plimsoll/topology/machine.h"
#include "study/embedding/machine_plans.h"
#include "study/partition/placement_searches.h"

namespace plimsoll::app {
namespace {

using study::JudgedMachine;
using study::Machine;
using study::MachinePlan;
using study::MachineSize;
using study::MachineVerdict;

struct SizeFlags {
  GlobalFlags global;
  PlanningFlags planning;
  PartitionFlags partition;
  std::string accelerators;
  std::string within;
  std::string price;
  std::string objective = "time";
  std::string time_limit;
  std::string output;
  std::int64_t effort = -1;
  int max_ranks = 512;
};

using Planner = std::function<Result<MachinePlan>(const Machine&)>;

// ---------------------------------------------------------------- machines

Result<std::vector<std::string>> find_kinds(const SizeFlags& flags) {
  std::vector<std::string> kinds;
  if (!flags.planning.on.empty()) {
    PLIMSOLL_ASSIGN(kinds, parse_kinds(flags.planning.on, "--on"));
  }
  if (!flags.accelerators.empty()) {
    PLIMSOLL_ASSIGN(const auto accelerators, parse_list(flags.accelerators, "--accelerator"));
    for (const std::string& accelerator : accelerators) {
      auto kind = topology::kind_of_accelerator(accelerator);
      if (!kind) kind.error().place = "--accelerator";
      PLIMSOLL_ASSIGN(std::string found, std::move(kind));
      kinds.push_back(std::move(found));
    }
  }
  if (!kinds.empty()) return kinds;
  return fail(ErrorCode::kUsage, "--on", "no hardware is given",
              "name kinds of it: --on dgx-h100,dgx-a100-320gb or --accelerator h100-sxm");
}

// The smallest, or cheapest, first.
Result<std::vector<Machine>> find_machines(const SizeFlags& flags) {
  PLIMSOLL_ASSIGN(const std::vector<std::string> kinds, find_kinds(flags));
  PLIMSOLL_ASSIGN(const auto prices, load_prices(flags.price, kinds));
  std::vector<Machine> machines;
  for (const std::string& kind : kinds) {
    auto sizes = topology::machine_sizes(kind, flags.max_ranks);
    if (!sizes) sizes.error().place = "--on";
    PLIMSOLL_ASSIGN(const std::vector<int> ranks, std::move(sizes));
    for (const int count : ranks) {
      PLIMSOLL_ASSIGN(Machine machine, make_machine(kind, count, prices));
      machines.push_back(std::move(machine));
    }
  }
  std::stable_sort(machines.begin(), machines.end(), [](const Machine& a, const Machine& b) {
    if (a.price != b.price) return a.price < b.price;
    return a.ranks < b.ranks;
  });
  return machines;
}

// Of a graph, devices: of an accelerator, or of the graph's own class.
Result<std::vector<Machine>> find_devices(const SizeFlags& flags) {
  if (!flags.price.empty()) {
    return fail(ErrorCode::kUsage, "--price", "devices of a graph have no price", "leave it out");
  }
  const std::string& kind = flags.accelerators.empty() ? flags.planning.on : flags.accelerators;
  constexpr int kMaxDevices = 64;
  std::vector<Machine> machines;
  for (int count = 1; count <= std::min(flags.max_ranks, kMaxDevices); ++count) {
    machines.push_back(
        {kind.empty() ? fmt::format("--devices {}", count) : fmt::format("{}x{}", count, kind),
         count, std::nullopt});
  }
  return machines;
}

// ---------------------------------------------------------------- plans

// A machine of which the quick search does not know is searched for longer.
Result<Planner> table_planner(const SizeFlags& flags, std::optional<double> within_ms,
                              const SearchOptions& limits, const RunContext& context) {
  constexpr std::int64_t kLongEffort = 500'000;
  PLIMSOLL_ASSIGN(const std::vector<std::string> kinds, find_kinds(flags));
  PlanningFlags planning = flags.planning;
  PLIMSOLL_ASSIGN(planning.on, topology::name_machine(kinds.front(), 1));
  PLIMSOLL_ASSIGN(embedding::PlanningProblem base, make_problem(planning));
  const embedding::BalanceObjective objective = objective_of(flags.objective);
  return Planner(
      [=, base = std::move(base)](const Machine& machine) mutable -> Result<MachinePlan> {
        planning.on = machine.on;
        PLIMSOLL_ASSIGN(base.topology, make_topology(planning, base.cost_model));
        PLIMSOLL_ASSIGN(const study::TablePlanOnMachine found,
                        study::plan_on_machine(base, objective, limits, context));
        const bool is_known = study::judge(found.plan, within_ms) != MachineVerdict::kNotKnown;
        if (is_known || limits.effort >= 0) return found.plan;
        SearchOptions longer = limits;
        longer.effort = kLongEffort;
        PLIMSOLL_ASSIGN(const study::TablePlanOnMachine again,
                        study::plan_on_machine(base, objective, longer, context));
        return again.plan;
      });
}

Result<MachinePlan> place_on_devices(const SizeFlags& flags, const Machine& machine,
                                     const SearchOptions& limits, const RunContext& context) {
  PartitionFlags asked = flags.partition;
  asked.graph = flags.planning.model;
  asked.machine = flags.planning.machine;
  if (machine.on.starts_with("--devices")) {
    asked.devices = {fmt::format("{}", machine.ranks)};
  } else {
    asked.on = machine.on;
  }
  PLIMSOLL_ASSIGN(const PartitionCase made, load_partition_case(asked));
  const auto searches = study::placement_searches();
  const auto search =
      std::find_if(searches.begin(), searches.end(), [&made](const study::PlacementSearch& one) {
        return one.objective == partition::Objective::kThroughput && !made.pipeline &&
               one.suits(made);
      });
  if (search == searches.end()) {
    return fail(ErrorCode::kUsage, flags.planning.model, "this graph has no times of operators",
                "size traced models and graphs with costs");
  }
  const RunContext silent = context.inner();
  PLIMSOLL_ASSIGN(const study::PlacementAnswer answer,
                  search->run(made, {limits, std::string()}, silent));
  MachinePlan plan;
  plan.status = answer.status.value_or(SolveStatus::kLimit);
  if (answer.plan && answer.certificate) plan.ms = answer.certificate->objective;
  if (answer.certificate) plan.lower_bound = answer.certificate->lower_bound;
  return plan;
}

// ---------------------------------------------------------------- text

std::string verdict_text(const JudgedMachine& judged) {
  switch (judged.verdict) {
    case MachineVerdict::kEnough:
      return "enough";
    case MachineVerdict::kInfeasible:
      return "nothing fits (proved)";
    case MachineVerdict::kTooSlow:
      return "too slow (proved)";
    case MachineVerdict::kNotKnown:
      return judged.plan.ms ? "too slow (not proved)" : "no plan was found";
  }
  return "";
}

std::string describe(const SizeFlags& flags, const MachineSize& size, const std::string& unit) {
  const std::string task = flags.within.empty() ? "a plan" : "a plan within " + flags.within;
  std::string text;
  if (size.is_found) {
    const Machine& machine = size.judged.back().machine;
    text = fmt::format("{}: {} ({}) is the {} {} with {}", flags.planning.model, machine.on,
                       counted(machine.ranks, unit, unit + "s"),
                       machine.price ? "cheapest" : "smallest",
                       size.is_smallest ? "machine (proved)" : "machine found", task);
    if (machine.price) text += fmt::format(", at {:.4g} an hour", *machine.price);
    text += "\n";
    if (!size.is_smallest) {
      text +=
          "Whether a smaller one is enough is not known: its search found neither such a plan nor "
          "a proof that there is none.\n";
    }
  } else {
    text = fmt::format("{}: no machine of up to {} has {}\n", flags.planning.model,
                       counted(flags.max_ranks, unit, unit + "s"), task);
  }
  text = in_lines(shown(text), 2) + "\n";
  TextTable table({"machine", unit + "s", "verdict", "ms", "no plan below"},
                  {false, true, false, true, true});
  const std::size_t shown_rows = flags.global.verbosity > 0 ? size.judged.size() : 8;
  const std::size_t first = size.judged.size() - std::min(shown_rows, size.judged.size());
  for (std::size_t i = first; i < size.judged.size(); ++i) {
    const JudgedMachine& judged = size.judged[i];
    table.add({judged.machine.on, fmt::format("{}", judged.machine.ranks), verdict_text(judged),
               short_figure(judged.plan.ms), short_figure(judged.plan.lower_bound)});
  }
  text += table.text(2);
  if (first > 0) text += fmt::format("  and {} smaller ones (-v lists them)\n", first);
  if (unit == "rank" && size.is_found) text += "\n" + time_note(flags.objective);
  return text;
}

// Not found: proved where every verdict is.
SolveStatus status_of(const MachineSize& size) {
  if (size.is_found) return SolveStatus::kFeasible;
  const bool is_proved =
      size.stop == StopReason::kFinished &&
      std::none_of(size.judged.begin(), size.judged.end(), [](const JudgedMachine& judged) {
        return judged.verdict == MachineVerdict::kNotKnown;
      });
  return is_proved ? SolveStatus::kInfeasible : SolveStatus::kLimit;
}

bool names_graph(const std::string& model) {
  const auto graphs = io::shipped_graphs();
  if (std::any_of(graphs.begin(), graphs.end(),
                  [&model](const io::ShippedDocument& graph) { return graph.id == model; })) {
    return true;
  }
  return model.ends_with(".pt2") || model.ends_with(".onnx");
}

Result<std::optional<double>> parse_within(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const auto seconds = parse_seconds(text);
  if (seconds && text.find_first_not_of("0123456789.") == text.npos) {
    return fail(ErrorCode::kUsage, "--within",
                fmt::format("'{}' is a duration without a unit", text),
                fmt::format("write {}ms or {}s", text, text));
  }
  if (!seconds || !(*seconds > 0)) {
    return fail(ErrorCode::kUsage, "--within", fmt::format("'{}' is not a duration", text),
                "give one above 0, such as 5ms");
  }
  return *seconds * 1000;
}

Result<Answered> size_machine(const SizeFlags& flags) {
  PLIMSOLL_ASSIGN(const std::optional<double> within_ms, parse_within(flags.within));
  PLIMSOLL_ASSIGN(const SearchOptions limits,
                  make_search_options(flags.global, flags.effort, SearchOptions{}.tolerance));
  const bool is_graph = names_graph(flags.planning.model) || !flags.partition.devices.empty() ||
                        !flags.partition.memory.empty();
  PLIMSOLL_ASSIGN(const std::vector<Machine> machines,
                  is_graph ? find_devices(flags) : find_machines(flags));
  PLIMSOLL_ASSIGN(const RunContext context, watch_search(flags.time_limit, flags.global));
  Planner plan = [&](const Machine& machine) {
    return place_on_devices(flags, machine, limits, context);
  };
  if (!is_graph) {
    PLIMSOLL_ASSIGN(plan, table_planner(flags, within_ms, limits, context));
  }
  PLIMSOLL_ASSIGN(const MachineSize size,
                  study::find_smallest_machine(machines, within_ms, plan, context));
  return Answered{io::write_machine_size(size),
                  describe(flags, size, is_graph ? "device" : "rank"),
                  "",
                  status_of(size),
                  size.stop,
                  {},
                  {}};
}

}  // namespace

void add_size_command(CLI::App& app, Run& run) {
  auto flags = std::make_shared<SizeFlags>();
  CLI::App* command = app.add_subcommand(
      "size", "Find the smallest or cheapest machine that has a plan, or one within a time");
  add_planning_flags(*command, flags->planning);
  command->get_option("MODEL")->description(
      "An embedding model or an operator graph: a file, or a name that `plimsoll models` lists");
  command->get_option("--on")->required(false)->description(
      "Kinds of hardware, without a number: dgx-h100,dgx-a100-320gb; for a graph, an accelerator");
  command->option_defaults()->group(kCommonGroup);
  command
      ->add_option("--accelerator", flags->accelerators,
                   "Accelerators instead of --on, in the nodes that have them: h100-sxm")
      ->type_name("NAMES");
  command
      ->add_option("--within", flags->within,
                   "Largest time of the plan, such as 5ms (default: any)")
      ->type_name("TIME");
  command
      ->add_option("--price", flags->price,
                   "Find the cheapest machine by these prices per hour (plimsoll.prices/1)")
      ->type_name("FILE");
  command->add_option("--max-ranks", flags->max_ranks, "Ranks of the largest machine to try")
      ->check(CLI::Range(1, 1 << 16))
      ->type_name("N")
      ->capture_default_str();
  command
      ->add_option("--objective", flags->objective,
                   "What --within limits, for tables: rating (the slowest rank), step or time")
      ->check(CLI::IsMember({"rating", "step", "time"}))
      ->capture_default_str();
  command
      ->add_option("-o,--output", flags->output,
                   "Write the answer as JSON to this file ('-': to standard output)")
      ->type_name("FILE");
  command->add_option("--time-limit", flags->time_limit, "Stop after this time, such as 5s or 2m")
      ->type_name("TIME");
  command
      ->add_option("--effort", flags->effort,
                   "Stop after this many units of search effort for each machine")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 60));
  add_partition_flags(*command, flags->partition);
  add_planning_globals(*command, flags->global);
  set_help(*command,
           {{kCommonGroup, "plimsoll size mlperf-dlrm-dcnv2 --accelerator h100-sxm --within 5ms"},
            {"Memory", "plimsoll size mlperf-dlrm-dcnv2 --on dgx-h100 --ddr-cap 0"},
            {"Devices and rules", "plimsoll size bert24-training --within 60ms --memory 1GiB"}},
           {"size model.json --on dgx-h100", "", "size model.pt2 --on h100-sxm"});
  command->callback([flags, &run] {
    run = [flags] {
      return run_planning(flags->global, flags->output, [&] { return size_machine(*flags); });
    };
  });
}

}  // namespace plimsoll::app
