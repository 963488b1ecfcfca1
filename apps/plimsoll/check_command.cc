// plimsoll check: judges a plan from outside.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <map>
#include <memory>

#include "plimsoll/check/balance_check.h"
#include "plimsoll/check/checkpoint_check.h"
#include "plimsoll/check/options_check.h"
#include "plimsoll/check/sharding_check.h"
#include "plimsoll/checkpoint_flags.h"
#include "plimsoll/common.h"
#include "plimsoll/io/checkpoint_policy_json.h"
#include "plimsoll/io/foreign_plan.h"
#include "plimsoll/io/pipeline_plan_json.h"
#include "plimsoll/io/report_json.h"
#include "plimsoll/partition_case.h"
#include "plimsoll/partition_check.h"
#include "plimsoll/partition_flags.h"
#include "plimsoll/planning_flags.h"
#include "plimsoll/shard_dump.h"
#include "plimsoll/shard_flags.h"
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

std::string text_of(const check::BalanceReport& balance) {
  std::string text;
  if (balance.times) {
    text +=
        fmt::format("step {:.6g} ms, time {:.6g} ms\n", balance.times->step, balance.times->time);
  }
  if (balance.proved_bound) {
    text += std::isinf(*balance.proved_bound)
                ? std::string("the prices prove that no plan exists\n")
                : fmt::format("the prices prove that no plan is below {:.6g} ms\n",
                              *balance.proved_bound);
  }
  if (balance.is_search_repeated) {
    text += fmt::format(
        "the stated bound rests on a search to its end; another one, of {} states, agrees\n",
        balance.num_repeated_nodes);
  } else if (balance.is_bound_searched) {
    text +=
        "the stated bound rests on a search to its end, which is too long to be repeated here\n";
  }
  return text;
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
  // Upstream's program holds its rows, which are in GiB, to 1e-6.
  if (options.budget && recorded["search"] == "torch") *options.budget += kGiB / 1'000'000;
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

// What a plan of the balanced search claims; nothing of others.
Result<std::optional<check::StatedBalance>> read_claims(
    const io::ShardingAnswer& answer, const std::map<std::string, std::string>& recorded) {
  const auto search = recorded.find("search");
  if (search == recorded.end() || search->second != "balanced" || !answer.objective) {
    return std::nullopt;
  }
  check::StatedBalance stated;
  PLIMSOLL_ASSIGN(stated.options, read_recorded_balance(recorded));
  stated.options.bridge.objective = *answer.objective;
  stated.status = answer.status;
  if (const auto tolerance = recorded.find("tolerance"); tolerance != recorded.end()) {
    PLIMSOLL_ASSIGN(stated.tolerance,
                    parse_number<double>(tolerance->second, "provenance/options/tolerance"));
  }
  stated.times = answer.times;
  stated.certificate = answer.certificate;
  stated.bound = answer.bound;
  return stated;
}

// An answer without a plan that says why there is none.
bool is_refusal(const io::ShardingAnswer& answer,
                const std::optional<check::StatedBalance>& claims) {
  return claims && !answer.plan && answer.status == SolveStatus::kInfeasible && answer.bound;
}

tl::unexpected<Error> nothing_to_judge(const io::ShardingAnswer& answer, std::string place) {
  if (answer.status == SolveStatus::kInfeasible) {
    return fail(ErrorCode::kValue, std::move(place),
                "the answer holds neither a plan nor prices that prove that there is none",
                "see its explanation, or plan with --search balanced");
  }
  return fail(ErrorCode::kValue, std::move(place), "the answer holds no plan",
              "plan again, with more time, memory or ranks");
}

struct ShardingJudgement {
  check::CheckReport report;
  std::optional<check::BalanceReport> balance;
};

Result<ShardingJudgement> judge_sharding(const CheckFlags& flags, std::string_view text) {
  std::map<std::string, std::string> recorded;
  if (const auto own = io::read_plan(text, flags.plan); own && own->provenance) {
    recorded = own->provenance->options;
  }
  PLIMSOLL_ASSIGN(const embedding::PlanningProblem problem, make_problem(flags.planning, recorded));
  PLIMSOLL_ASSIGN(
      const io::ShardingAnswer answer,
      io::read_any_plan(text, flags.plan, {problem.model, problem.topology, problem.cost_model}));
  PLIMSOLL_ASSIGN(const auto claims, read_claims(answer, recorded));
  if (!answer.plan && !is_refusal(answer, claims)) return nothing_to_judge(answer, flags.plan);
  ShardingJudgement judgement;
  if (answer.plan) {
    check::CheckOptions options;
    options.strict = flags.strict;
    options.batch_size = problem.batch_size;
    options.reservation = problem.reservation;
    options.fqn_constraints = problem.enumeration.fqn_constraints;
    options.global_constraints = problem.enumeration.global_constraints;
    options.pools_ddr = claims && claims->options.bridge.pools_ddr;
    // A rating by storage is no time.
    if (recorded["perf_model"] != "storage") options.stated_rating = answer.rating;
    PLIMSOLL_ASSIGN(judgement.report,
                    check::check_sharding(problem.model, *answer.plan, problem.topology,
                                          problem.cost_model, problem.mode, options));
  }
  if (claims) {
    PLIMSOLL_ASSIGN(judgement.balance,
                    check::check_balance(problem, answer.plan ? &*answer.plan : nullptr,
                                         &judgement.report, *claims));
    for (const check::Violation& violation : judgement.balance->violations) {
      judgement.report.violations.push_back(violation);
    }
  }
  return judgement;
}

// A plan of a dump's options: those that it says its tables take.
Result<ShardingJudgement> judge_options(const CheckFlags& flags, const io::TorchrecOptions& dump,
                                        std::string_view text) {
  PLIMSOLL_ASSIGN(const io::ShardingAnswer answer, io::read_plan(text, flags.plan));
  std::map<std::string, std::string> recorded;
  if (answer.provenance) recorded = answer.provenance->options;
  PLIMSOLL_ASSIGN(const auto claims, read_claims(answer, recorded));
  const embedding::BridgeInput input{&dump.options, &dump.room, &dump.model, nullptr, {}};
  ShardingJudgement judgement;
  if (is_refusal(answer, claims)) {
    PLIMSOLL_ASSIGN(judgement.balance, check::check_balance(input, nullptr, nullptr, *claims));
    judgement.report.violations = judgement.balance->violations;
    return judgement;
  }
  if (!answer.plan) return nothing_to_judge(answer, flags.plan);
  if (answer.options.empty() || !answer.provenance) {
    return fail(ErrorCode::kValue, flags.plan, "the answer does not say which options are taken",
                "give a plan that was made from this dump");
  }
  std::map<std::int64_t, std::int64_t> index_of;  // by position in the dump
  for (std::size_t i = 0; i < dump.position.size(); ++i) {
    index_of[dump.position[i]] = static_cast<std::int64_t>(i);
  }
  std::vector<check::StatedOption> stated;
  for (const io::TakenOption& taken : answer.options) {
    const auto index = index_of.find(taken.option);
    stated.push_back({taken.fqn, index == index_of.end() ? -1 : index->second, taken.ranks});
  }
  judgement.report = check::check_options(
      dump.options, dump.room, stated, claims && claims->options.bridge.pools_ddr, answer.rating);
  if (!claims) return judgement;
  PLIMSOLL_ASSIGN(judgement.balance,
                  check::check_balance(input, &*answer.plan, &judgement.report, *claims));
  for (const check::Violation& violation : judgement.balance->violations) {
    judgement.report.violations.push_back(violation);
  }
  return judgement;
}

int run_sharding_check(const CheckFlags& flags, std::string_view text) {
  const auto dump = load_dump(flags.planning);
  if (!dump) return report(dump.error(), flags.global);
  if (!*dump && flags.planning.on.empty()) {
    return report({ErrorCode::kUsage, "--on", "a sharding plan is judged on its hardware",
                   "name it, such as --on dgx-h100:2", ""},
                  flags.global);
  }
  const auto judged = *dump ? judge_options(flags, **dump, text) : judge_sharding(flags, text);
  if (!judged) return report(with_flag_as_place(judged.error()), flags.global);
  const auto& balance = judged->balance;
  print(flags.global.json
            ? io::write_check_report(judged->report, balance ? &*balance : nullptr)
            : text_of(judged->report, flags) + (balance ? text_of(*balance) : std::string()));
  return judged->report.is_right() ? kExitOk : kExitViolations;
}

int run_check(const CheckFlags& flags) {
  // The plan says what it was made with; flags win over that. A first reading, without the model,
  // finds it.
  const PlanningFlags& planning = flags.planning;
  const auto text = read_plan_text(planning, flags.plan);
  if (!text) return report(text.error(), flags.global);
  if (io::is_checkpoint_policy(*text)) return run_checkpoint_check(flags, *text);
  if (is_pipeline_plan(*text)) {
    PartitionFlags partition = flags.partition;
    partition.graph = planning.model;
    partition.on = planning.on;
    return run_pipeline_check(std::move(partition), *text, flags.plan, flags.global);
  }
  if (is_any_placement(*text)) {
    PartitionFlags partition = flags.partition;
    partition.graph = planning.model;
    partition.on = planning.on;
    return run_placement_check({flags.global, std::move(partition), flags.contiguous, flags.plan},
                               *text);
  }
  return run_sharding_check(flags, *text);
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
          "checkpointing plan, a placement of operators, a split of the placement benchmark, "
          "torch.fx's partition result, or a plan of a profile, Piper's or PipeDream's too; "
          "'-' for standard input. What it records of its making is used where "
          "a flag is absent")
      ->required();
  command->add_flag("--strict", flags->strict, "Count hazards as violations");
  add_global_flags(*command, flags->global);
  command->callback([flags, &run] { run = [flags] { return run_check(*flags); }; });
}

}  // namespace plimsoll::app
