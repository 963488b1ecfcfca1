// plimsoll check: judges a plan from outside.

#include <fmt/format.h>

#include <memory>

#include "plimsoll/check/checkpoint_check.h"
#include "plimsoll/check/latency_check.h"
#include "plimsoll/check/placement_check.h"
#include "plimsoll/check/sharding_check.h"
#include "plimsoll/checkpoint_flags.h"
#include "plimsoll/common.h"
#include "plimsoll/io/checkpoint_policy_json.h"
#include "plimsoll/io/files.h"
#include "plimsoll/io/foreign_plan.h"
#include "plimsoll/io/pipeline_plan_json.h"
#include "plimsoll/io/report_json.h"
#include "plimsoll/partition_flags.h"
#include "plimsoll/planning_flags.h"
#include "plimsoll/text_table.h"

namespace plimsoll::app {
namespace {

struct CheckFlags {
  GlobalFlags global;
  PlanningFlags planning;
  CheckpointFlags checkpoint;
  PartitionFlags partition;
  bool contiguous = false;
  std::string plan;
  std::string budget;
  bool strict = false;
};

// "violation covered_twice, sparse.ebc.t, rank 1: why"
template <class Finding>
std::string finding_line(std::string_view kind, const Finding& finding) {
  return fmt::format("{} {}{}{}: {}\n", kind, to_string(finding.code),
                     finding.table.empty() ? "" : ", " + finding.table,
                     finding.rank ? fmt::format(", rank {}", *finding.rank) : "", finding.message);
}

std::string text_of(const check::CheckReport& report, const CheckFlags& flags) {
  std::string text;
  for (const check::Violation& violation : report.violations) {
    text += finding_line(paint("violation", Tone::kBad, flags.global), violation);
  }
  for (const check::Hazard& hazard : report.hazards) {
    text += finding_line(paint("hazard", Tone::kNote, flags.global), hazard);
  }
  text += fmt::format("{}: {} violation(s), {} hazard(s), rating {:.6g} ms\n",
                      report.is_right() ? paint("right", Tone::kGood, flags.global)
                                        : paint("wrong", Tone::kBad, flags.global),
                      report.violations.size(), report.hazards.size(), report.rating);
  if (flags.global.verbosity == 0) return text;
  TextTable ranks({"rank", "HBM", "of", "DDR", "of", "ms"}, {true, true, true, true, true, true});
  for (std::size_t r = 0; r < report.used.size(); ++r) {
    ranks.add({fmt::format("{}", r), format_bytes(report.used[r].hbm),
               format_bytes(report.capacity[r].hbm), format_bytes(report.used[r].ddr),
               format_bytes(report.capacity[r].ddr), fmt::format("{:.4f}", report.rank_ms[r])});
  }
  return text + ranks.text();
}

std::string text_of(const check::CheckpointReport& report, const CheckFlags& flags) {
  std::string text;
  const auto add = [&text](const std::string& kind, const auto& finding) {
    text += fmt::format("{} {}{}{}: {}\n", kind, to_string(finding.code),
                        finding.fqn.empty() ? "" : ", ", finding.fqn, finding.message);
  };
  for (const auto& violation : report.violations) {
    add(paint("violation", Tone::kBad, flags.global), violation);
  }
  for (const auto& hazard : report.hazards) {
    add(paint("hazard", Tone::kNote, flags.global), hazard);
  }
  return text +
         fmt::format(
             "{}: {} violation(s), {} hazard(s), peak {} ({} bytes) {}, recompute {:.6g} ms\n",
             report.is_right() ? paint("right", Tone::kGood, flags.global)
                               : paint("wrong", Tone::kBad, flags.global),
             report.violations.size(), report.hazards.size(), format_bytes(report.peak),
             report.peak,
             report.binding.empty() ? "at the loss" : "in the backward of " + report.binding,
             report.recompute_ms);
}

// The plan says what it was made with; flags win over that.
Result<check::CheckpointReport> judge_checkpointing(const CheckFlags& flags,
                                                    std::string_view text) {
  PLIMSOLL_ASSIGN(const io::CheckpointAnswer answer, io::read_checkpoint_answer(text, flags.plan));
  if (!answer.policy) {
    return fail(ErrorCode::kValue, flags.plan, "the answer holds no plan", "plan again");
  }
  PLIMSOLL_ASSIGN(const checkpoint::ModuleStats stats, load_module_stats(flags.planning.model));
  CheckpointFlags filled = flags.checkpoint;
  std::map<std::string, std::string> recorded;
  if (answer.provenance) recorded = answer.provenance->options;
  PLIMSOLL_RETURN_IF_ERROR(fill_from_provenance(recorded, filled));
  PLIMSOLL_ASSIGN(const checkpoint::CheckpointProblem problem, make_problem(filled, stats));
  check::CheckpointCheckOptions options =
      make_check_options(problem, stats, *answer.policy, recorded["search"], filled.in_flight);
  options.strict = flags.strict;
  options.budget = answer.budget_bytes;
  if (!flags.budget.empty()) {
    PLIMSOLL_ASSIGN(options.budget,
                    parse_budget(flags.budget, replay(problem, {}).peak, "--budget"));
  }
  if (answer.predicted) {
    options.predicted_peak = answer.predicted->peak_bytes;
    options.recompute_ms = answer.predicted->recompute_ms;
  }
  return check::check_checkpointing(stats, *answer.policy, options);
}

int run_checkpoint_check(const CheckFlags& flags, std::string_view text) {
  const auto judged = judge_checkpointing(flags, text);
  if (!judged) return report(judged.error(), flags.global);
  print(flags.global.json ? io::write_checkpoint_report(*judged) : text_of(*judged, flags));
  return judged->is_right() ? kExitOk : kExitViolations;
}

std::string text_of(const check::PlacementReport& report, const PartitionCase& made,
                    const CheckFlags& flags) {
  std::string text;
  for (const check::PlacementViolation& violation : report.violations) {
    text += fmt::format(
        "{} {}{}{}: {}\n", paint("violation", Tone::kBad, flags.global), to_string(violation.code),
        violation.node ? ", node " + made.names[*violation.node] : "",
        violation.device ? fmt::format(", device {}", *violation.device) : "", violation.message);
  }
  text += fmt::format("{}: {} violation(s), largest load {:.6g} ms, {}\n",
                      report.is_right() ? paint("right", Tone::kGood, flags.global)
                                        : paint("wrong", Tone::kBad, flags.global),
                      report.violations.size(), report.max_load,
                      report.is_line ? "contiguous" : "not contiguous");
  if (flags.global.verbosity == 0) return text;
  TextTable devices({"device", "compute ms", "transfer ms", "load ms", "memory"},
                    {true, true, true, true, true});
  for (std::size_t d = 0; d < report.load_ms.size(); ++d) {
    devices.add({fmt::format("{}", d), fmt::format("{:.4f}", report.compute_ms[d]),
                 fmt::format("{:.4f}", report.transfer_ms[d]),
                 fmt::format("{:.4f}", report.load_ms[d]), format_bytes(report.memory[d])});
  }
  return text + devices.text();
}

// What a placement says of its devices; a stage on a device that does not exist says nothing.
std::vector<check::StatedDevice> stated_devices(const io::PlacementAnswer& answer,
                                                int num_devices) {
  std::vector<check::StatedDevice> stated(static_cast<std::size_t>(num_devices));
  for (const io::PlacedStage& stage : *answer.stages) {
    const int device = stage.devices.front();
    if (device < 0 || device >= num_devices) continue;
    stated[device] = {stage.compute_ms, stage.transfer_ms, stage.load_ms, stage.memory};
  }
  return stated;
}

// Devices and rules are those that the placement says it was made with; flags win over that.
int run_placement_check(const CheckFlags& flags, std::string_view text) {
  PartitionFlags filled = flags.partition;
  filled.graph = flags.planning.model;
  filled.on = flags.planning.on;
  std::string made_from;
  if (const auto own = io::read_placement(text, flags.plan); own && own->provenance) {
    fill_from_provenance(own->provenance->options, filled);
    const auto hash = own->provenance->inputs.find("graph");
    if (hash != own->provenance->inputs.end()) made_from = hash->second;
  }
  const auto made = load_partition_case(filled);
  if (!made) return report(made.error(), flags.global);
  const auto placement = read_any_placement(text, flags.plan, *made);
  if (!placement) return report(placement.error(), flags.global);
  const io::PlacementAnswer& answer = placement->answer;
  check::PlacementCheckOptions options;
  options.requires_contiguity = flags.contiguous || answer.is_contiguous.value_or(false);
  if (answer.stages) {
    options.stated = stated_devices(answer, made->costs->num_devices());
    options.stated_classes = answer.classes;
    if (answer.certificate && answer.objective == partition::Objective::kThroughput) {
      options.stated_max_load = answer.certificate->objective;
    }
  }
  auto judged = check::check_placement(*made->costs, placement->assignment, options);
  if (!judged) return report(judged.error(), flags.global);
  if (answer.objective == partition::Objective::kLatency) {
    std::optional<double> stated;
    if (answer.certificate) stated = answer.certificate->objective;
    const auto latency = check::check_latency(*made->costs, placement->assignment, stated);
    if (!latency) return report(latency.error(), flags.global);
    using Code = check::PlacementViolationCode;  // the others were found already
    for (const check::PlacementViolation& violation : latency->violations) {
      if (violation.code == Code::kTasksWait || violation.code == Code::kLatencyMismatch) {
        judged->violations.push_back(violation);
      }
    }
  }
  print(flags.global.json ? io::write_placement_report(*judged, made->names)
                          : text_of(*judged, *made, flags));
  if (!made_from.empty() && made_from != made->input_hash && !flags.global.quiet) {
    print_error_text(
        fmt::format("warning: {}: the placement was made from another graph\n", flags.plan));
  }
  return judged->is_right() ? kExitOk : kExitViolations;
}

int run_check(const CheckFlags& flags) {
  // The plan says what it was made with; flags win over that. A first reading, without the model,
  // finds it.
  const PlanningFlags& planning = flags.planning;
  if (const auto once = check_standard_input({planning.model, planning.on, planning.constraints,
                                              planning.checkpoint_plan, flags.plan});
      !once) {
    return report(once.error(), flags.global);
  }
  auto text = io::read_text_file(flags.plan);
  if (!text) return report(text.error(), flags.global);
  if (io::is_checkpoint_policy(*text)) return run_checkpoint_check(flags, *text);
  if (io::is_pipeline_answer(*text)) {
    PartitionFlags partition = flags.partition;
    partition.graph = planning.model;
    partition.on = planning.on;
    return run_pipeline_check(std::move(partition), *text, flags.plan, flags.global);
  }
  if (is_any_placement(*text)) return run_placement_check(flags, *text);
  if (planning.on.empty()) {
    return report({ErrorCode::kUsage, "--on", "a sharding plan is judged on its hardware",
                   "name it, such as --on dgx-h100:2", ""},
                  flags.global);
  }
  std::map<std::string, std::string> recorded;
  if (const auto own = io::read_plan(*text, flags.plan); own && own->provenance) {
    recorded = own->provenance->options;
  }
  auto problem = make_problem(flags.planning, recorded);
  if (!problem) return report(problem.error(), flags.global);
  const auto answer = io::read_any_plan(*text, flags.plan,
                                        {problem->model, problem->topology, problem->cost_model});
  if (!answer) return report(answer.error(), flags.global);
  if (!answer->plan) {
    return report({ErrorCode::kValue, flags.plan, "the answer holds no plan", "plan again", ""},
                  flags.global);
  }
  check::CheckOptions options;
  options.strict = flags.strict;
  options.batch_size = problem->batch_size;
  options.reservation = problem->reservation;
  options.fqn_constraints = problem->enumeration.fqn_constraints;
  options.global_constraints = problem->enumeration.global_constraints;
  // A rating by storage is no time.
  if (recorded["perf_model"] != "storage") options.stated_rating = answer->rating;
  const auto judged = check::check_sharding(problem->model, *answer->plan, problem->topology,
                                            problem->cost_model, problem->mode, options);
  if (!judged) return report(with_flag_as_place(judged.error()), flags.global);
  print(flags.global.json ? io::write_check_report(*judged) : text_of(*judged, flags));
  return judged->is_right() ? kExitOk : kExitViolations;
}

}  // namespace

void add_check_command(CLI::App& app, Run& run) {
  auto flags = std::make_shared<CheckFlags>();
  CLI::App* command = app.add_subcommand(
      "check", "Judge a plan: cuts, coverage, ranks, memory and rating, computed anew");
  command->footer(examples({"plimsoll check mlperf-dlrm-dcnv2 plan.json --on dgx-h100:2",
                            "plimsoll check model.json plan.json --on 16x40GiB --strict --json",
                            "plimsoll check stats.json policy.json --budget 1.6GiB",
                            "plimsoll check graph.json placement.json"}));
  add_planning_flags(*command, flags->planning);
  command->get_option("--on")->required(false);
  command->get_option("MODEL")->description(
      "A model file, '-' for standard input, or the name of a shipped model; of a checkpointing "
      "plan the module statistics, of a placement the operator graph");
  add_checkpoint_flags(*command, flags->checkpoint);
  add_partition_flags(*command, flags->partition);
  command->add_flag("--contiguous", flags->contiguous,
                    "A placement's devices must stand in a line; else only where it says so");
  command->add_option("--budget", flags->budget,
                      "Peak that a checkpointing plan must hold; the plan's own unless given");
  command
      ->add_option(
          "PLAN", flags->plan,
          "A sharding plan of this program, of TorchRec or of a TorchEasyRec checkpoint, a "
          "checkpointing plan, a placement of operators, or a split of the placement benchmark; "
          "'-' for standard input. What it records of its making is used where "
          "a flag is absent")
      ->required();
  command->add_flag("--strict", flags->strict, "Count hazards as violations");
  add_global_flags(*command, flags->global);
  command->callback([flags, &run] { run = [flags] { return run_check(*flags); }; });
}

}  // namespace plimsoll::app
