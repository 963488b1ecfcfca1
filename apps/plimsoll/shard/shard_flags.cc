#include "plimsoll/shard/shard_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "core/suggest.h"
#include "embedding/balanced/balanced_record.h"
#include "embedding/torchrec/planning_record.h"
#include "io/documents/placement_rules_json.h"
#include "io/documents/step_model_json.h"
#include "io/import/foreign_plan.h"
#include "plimsoll/embedding/easyrec.h"
#include "plimsoll/help.h"
#include "plimsoll/io/files.h"
#include "plimsoll/io/plan_json.h"
#include "plimsoll/planning_run.h"
#include "plimsoll/shard/shard_dump.h"

namespace plimsoll::app {
namespace {

using embedding::BalancedOptions;
using embedding::BalanceObjective;
using embedding::PlanningProblem;

constexpr int kEveryWidth = 1 << 20;  // column blocks; no dimension has more

// A stored answer records the hash of what it was made from; the planner refuses it where that
// differs.
Result<std::unique_ptr<embedding::PlanLoader>> load_stored_plan(const ShardFlags& flags,
                                                                const PlanningProblem& problem) {
  PLIMSOLL_ASSIGN(const std::string text, io::read_text_file(flags.stored_plan));
  PLIMSOLL_ASSIGN(const io::ShardingAnswer stored,
                  io::read_any_plan(text, flags.stored_plan,
                                    {problem.model, problem.topology, problem.cost_model}));
  if (!stored.plan) {
    return fail(ErrorCode::kValue, flags.stored_plan, "the answer holds no plan", "plan again");
  }
  embedding::StoredPlan loaded;
  loaded.plan_id = flags.stored_plan;
  PLIMSOLL_ASSIGN(loaded.options, embedding::make_loaded_options(problem, *stored.plan));
  if (stored.provenance) {
    const auto hash = stored.provenance->inputs.find("context");
    if (hash != stored.provenance->inputs.end()) loaded.context_hash = hash->second;
  }
  return embedding::make_plan_loader(std::move(loaded));
}

Result<void> choose_search(ShardFlags& flags) {
  if (flags.search.empty()) flags.search = flags.stored_plan.empty() ? "balanced" : "torchrec";
  static const std::vector<std::string> kSearches{"torchrec", "balanced"};  // of tables
  if (std::find(kSearches.begin(), kSearches.end(), flags.search) == kSearches.end()) {
    return fail(ErrorCode::kNotFound, "--search", fmt::format("no search '{}'", flags.search),
                suggest(flags.search, kSearches));
  }
  const auto only = [&](bool is_given, std::string flag, std::string_view search) -> Result<void> {
    if (!is_given || flags.search == search) return {};
    return fail(ErrorCode::kUsage, std::move(flag),
                fmt::format("the {} search does not use it", flags.search),
                fmt::format("give --search {}", search));
  };
  PLIMSOLL_RETURN_IF_ERROR(only(!flags.stored_plan.empty(), "--load-plan", "torchrec"));
  PLIMSOLL_RETURN_IF_ERROR(only(flags.perf_model == "storage", "--perf-model", "torchrec"));
  PLIMSOLL_RETURN_IF_ERROR(only(!flags.objective.empty(), "--objective", "balanced"));
  PLIMSOLL_RETURN_IF_ERROR(only(!flags.step_model.empty(), "--step-model", "balanced"));
  PLIMSOLL_RETURN_IF_ERROR(only(!flags.rules.empty(), "--rules", "balanced"));
  PLIMSOLL_RETURN_IF_ERROR(only(!flags.widths.empty(), "--widths", "balanced"));
  PLIMSOLL_RETURN_IF_ERROR(only(flags.pools_ddr, "--pool-ddr", "balanced"));
  PLIMSOLL_RETURN_IF_ERROR(only(flags.strict_numerics, "--strict-numerics", "balanced"));
  return only(flags.is_frontier, "--frontier", "balanced");
}

Result<embedding::ReferenceOptions> make_reference(const ShardFlags& flags,
                                                   const PlanningProblem& problem) {
  embedding::ReferenceOptions options;
  if (flags.planning.easyrec_environment) {
    PLIMSOLL_ASSIGN(const auto easyrec, embedding::read_easyrec_environment(environment));
    options.proposers = "easyrec";
    options.easyrec_dynamic_programming = easyrec.dynamic_programming;
  }
  options.easyrec_dynamic_programming.has_cuda =
      problem.topology.compute_device == topology::ComputeDevice::kCuda;
  if (!flags.proposer.empty()) options.proposers = flags.proposer;
  if (!flags.partitioner.empty()) options.partitioner = flags.partitioner;
  options.balance_modules = flags.balance_modules;
  options.perf_model = flags.perf_model == "storage" ? embedding::PerfModelKind::kStorage
                                                     : embedding::PerfModelKind::kPerf;
  if (!flags.stored_plan.empty()) {
    PLIMSOLL_ASSIGN(options.loader, load_stored_plan(flags, problem));
  }
  return options;
}

Result<void> apply_balance_flags(const ShardFlags& flags, BalancedOptions& options) {
  if (!flags.objective.empty()) {
    options.bridge.objective = flags.objective == "rating" ? BalanceObjective::kRating
                               : flags.objective == "step" ? BalanceObjective::kStep
                                                           : BalanceObjective::kTime;
    options.keeps_reference_rating = false;
  }
  if (!flags.step_model.empty()) {
    PLIMSOLL_ASSIGN(const std::string text, io::read_text_file(flags.step_model));
    PLIMSOLL_ASSIGN(options.bridge.step_model, io::read_step_model(text, flags.step_model));
  }
  if (!flags.rules.empty()) {
    PLIMSOLL_ASSIGN(const std::string text, io::read_text_file(flags.rules));
    PLIMSOLL_RETURN_IF_ERROR(io::read_placement_rules(text, flags.rules, options.bridge));
  }
  if (!flags.widths.empty()) options.max_column_blocks = flags.widths == "all" ? kEveryWidth : 0;
  if (flags.pools_ddr) options.bridge.pools_ddr = true;
  if (flags.strict_numerics) options.bridge.strict_numerics = true;
  return {};
}

Result<RecordedRun> read_run(const std::string& file) {
  PLIMSOLL_ASSIGN(const std::string text, io::read_text_file(file));
  PLIMSOLL_ASSIGN(const io::ShardingAnswer answer, io::read_plan(text, file));
  if (!answer.provenance) {
    return fail(ErrorCode::kValue, file, "the plan does not record how it was made",
                "give a plan that `plimsoll shard` wrote with -o");
  }
  return RecordedRun{answer.provenance->options, answer.provenance->inputs,
                     answer.provenance->stopped_at, answer.provenance->seed};
}

Result<void> restore_flags(const RecordedRun& run, ShardFlags& flags) {
  PLIMSOLL_ASSIGN(const embedding::PlanningRecord record,
                  embedding::read_planning_record(run.options));
  flags.search = record.search.value_or(flags.search);
  flags.proposer = record.proposers.value_or(flags.proposer);
  flags.partitioner = record.partitioner.value_or(flags.partitioner);
  if (record.perf_model) {
    flags.perf_model = record.perf_model == embedding::PerfModelKind::kPerf ? "perf" : "storage";
  }
  flags.balance_modules = record.balance_modules.value_or(false);
  flags.effort = record.effort.value_or(flags.effort);
  flags.tolerance = record.tolerance.value_or(flags.tolerance);
  flags.global.seed = run.seed;
  return {};
}

Result<void> check_inputs(const ShardFlags& flags, const RecordedRun& run,
                          const ShardRequest& request) {
  std::map<std::string, std::string> now =
      embedding::make_provenance(request.problem, request.reference, request.limits).inputs;
  if (request.dump) now = {{"options", request.dump->hash}};
  for (const char* input : {"model", "topology", "options", "machine"}) {
    const auto was = run.inputs.find(input);
    const auto is = now.find(input);
    if (was == run.inputs.end() && is == now.end()) continue;
    if (was != run.inputs.end() && is != now.end() && was->second == is->second) continue;
    return fail(ErrorCode::kConflict, flags.replay,
                fmt::format("the plan was made from another {}", input),
                "give the inputs that it was made from");
  }
  return {};
}

// The efforts at which the searches stop, as the plan records them.
Result<void> restore_stops(const ShardFlags& flags, const RecordedRun& run, ShardRequest& request) {
  PLIMSOLL_ASSIGN(request.balanced.stops, embedding::read_stops(run.stopped_at));
  if (!flags.is_balanced() && !request.balanced.stops.empty()) {
    request.limits.effort = request.balanced.stops.front();
  }
  return {};
}

// What a dump does not tell cannot be asked for.
Result<void> fit_to_dump(const ShardFlags& flags, ShardRequest& request) {
  const auto refuse = [](std::string flag, std::string message) {
    return fail(ErrorCode::kUsage, std::move(flag), std::move(message),
                "leave the flag out, or plan from the model");
  };
  if (!flags.stored_plan.empty()) return refuse("--load-plan", "a dump of options is not a model");
  if (flags.prints_stats || !flags.stats_file.empty())
    return refuse("--stats", "a dump of options is not a model");
  embedding::BridgeOptions& bridge = request.balanced.bridge;
  if (request.balanced.max_column_blocks > 0) {
    return refuse("--widths", "the dump has the widths that its planner tried");
  }
  if (bridge.step_model.ms_per_output_byte > 0) {
    return refuse("--step-model", "the dump does not say how many bytes a shard sends out");
  }
  if (request.dump->has_components || bridge.objective == BalanceObjective::kRating) return {};
  if (!flags.objective.empty()) {
    return refuse("--objective", "the dump has total times alone, without their components");
  }
  bridge.objective = BalanceObjective::kRating;
  request.balanced.keeps_reference_rating = false;
  return {};
}

// Of the problem, the dump and the reference; `recorded`: what a plan says of its making.
Result<ShardRequest> begin_request(ShardFlags& flags,
                                   const std::map<std::string, std::string>& recorded) {
  PLIMSOLL_RETURN_IF_ERROR(choose_search(flags));
  ShardRequest request;
  request.is_balanced = flags.is_balanced();
  request.is_frontier = flags.is_frontier;
  PLIMSOLL_ASSIGN(request.dump, load_dump(flags.planning));
  if (request.dump && !flags.planning.machine.empty()) {
    return fail(ErrorCode::kUsage, "--machine", "a dump does not say what its tables look up",
                "plan from the model, or leave the flag out");
  }
  if (request.dump) {
    request.problem = make_problem(*request.dump);
    request.given = make_given(*request.dump);
    request.has_components = request.dump->has_components;
  } else {
    PLIMSOLL_ASSIGN(request.problem, make_problem(flags.planning, recorded));
  }
  PLIMSOLL_ASSIGN(request.reference, make_reference(flags, request.problem));
  PLIMSOLL_ASSIGN(request.limits, make_search_options(flags.global, flags.effort, flags.tolerance));
  return request;
}

Result<void> end_request(const ShardFlags& flags, ShardRequest& request) {
  if (request.dump) PLIMSOLL_RETURN_IF_ERROR(fit_to_dump(flags, request));
  request.balanced.reference = request.reference;
  request.rules = io::write_placement_rules(request.balanced.bridge);
  return {};
}

}  // namespace

Result<BalancedOptions> read_recorded_balance(const std::map<std::string, std::string>& recorded) {
  PLIMSOLL_ASSIGN(BalancedOptions options, embedding::read_balanced_record(recorded));
  if (const auto rules = recorded.find("rules"); rules != recorded.end()) {
    PLIMSOLL_RETURN_IF_ERROR(
        io::read_placement_rules(rules->second, "provenance/options/rules", options.bridge));
  }
  return options;
}

Result<ShardRequest> make_recorded_request(const RecordedRun& run, ShardFlags& flags) {
  PLIMSOLL_RETURN_IF_ERROR(restore_flags(run, flags));
  PLIMSOLL_RETURN_IF_ERROR(check_machine(flags.planning, run.options));
  PLIMSOLL_ASSIGN(ShardRequest request, begin_request(flags, run.options));
  PLIMSOLL_ASSIGN(request.balanced, read_recorded_balance(run.options));
  request.balanced.bridge.rating_cap.reset();  // the run gives both again
  request.balanced.bridge.keeps_hazards = false;
  PLIMSOLL_RETURN_IF_ERROR(check_inputs(flags, run, request));
  PLIMSOLL_RETURN_IF_ERROR(restore_stops(flags, run, request));
  PLIMSOLL_RETURN_IF_ERROR(end_request(flags, request));
  return request;
}

Result<ShardRequest> make_shard_request(ShardFlags& flags) {
  if (!flags.replay.empty()) {
    if (!flags.decided_twice.empty()) {
      return fail(ErrorCode::kUsage, flags.decided_twice, "the plan of --replay sets it already",
                  "leave the flag out");
    }
    PLIMSOLL_ASSIGN(const RecordedRun run, read_run(flags.replay));
    return make_recorded_request(run, flags);
  }
  PLIMSOLL_ASSIGN(ShardRequest request, begin_request(flags, {}));
  if (request.problem.machine) request.balanced.bridge.step_model = request.problem.machine->step;
  PLIMSOLL_RETURN_IF_ERROR(apply_balance_flags(flags, request.balanced));
  PLIMSOLL_RETURN_IF_ERROR(end_request(flags, request));
  return request;
}

std::string find_decided_twice(const CLI::App& command) {
  if (command.count("--replay") == 0) return "";
  for (const char* flag : {"--search",
                           "--objective",
                           "--step-model",
                           "--widths",
                           "--rules",
                           "--pool-ddr",
                           "--strict-numerics",
                           "--proposer",
                           "--partitioner",
                           "--perf-model",
                           "--balance-modules",
                           "--load-plan",
                           "--effort",
                           "--tolerance",
                           "--seed",
                           "--batch-size",
                           "--cost-model",
                           "--reservation",
                           "--dense-tensor-estimate",
                           "--parameter-multiplier",
                           "--use-exact-enumerate-order",
                           "--pipeline-type",
                           "--inference",
                           "--run-embedding-at-peak-memory"}) {
    if (command.count(flag) > 0) return flag;
  }
  return "";
}

void add_shard_flags(CLI::App& command, ShardFlags& flags) {
  const auto group = [&command](const char* name) { command.option_defaults()->group(name); };
  add_planning_flags(command, flags.planning);
  command.get_option("--on")->required(false);
  command.get_option("MODEL")->description(
      "A model: a file, '-' for standard input, or a name that `plimsoll models` lists; or a dump "
      "of TorchRec's options, which names its own hardware");
  group(kCommonGroup);
  command
      .add_option("--search", flags.search,
                  "balanced (Plimsoll's own search, with a lower bound) or torchrec (TorchRec's "
                  "planner); for experts balanced or eplb (default: balanced)")
      ->type_name("NAME");
  command
      .add_option("-o,--output", flags.output,
                  "Write the answer as JSON to this file ('-': to standard output)")
      ->type_name("FILE");
  command
      .add_option("--time-limit", flags.time_limit,
                  "Stop after this time, such as 500ms, 5s or 2m, with the best plan so far")
      ->type_name("TIME");
  group("What the balanced search minimizes");
  command
      .add_option("--objective", flags.objective,
                  "rating (the slowest rank), step or time (the predicted step); by default the "
                  "time of plans whose slowest rank is no slower than TorchRec's")
      ->check(CLI::IsMember({"rating", "step", "time"}));
  command
      .add_option("--step-model", flags.step_model,
                  "Time of a step outside the ranks' own work (default: that of --machine, else "
                  "0.5 ms for each sharding type of a module)")
      ->type_name("FILE");
  command.add_flag("--frontier", flags.is_frontier,
                   "Find the best plan for every HBM size per rank");
  group("Which plans the balanced search considers");
  command
      .add_option("--widths", flags.widths,
                  "Column widths: default, or all multiples of 4 that divide the dimension, and "
                  "grids")
      ->check(CLI::IsMember({"default", "all"}));
  command
      .add_option("--rules", flags.rules,
                  "Placement rules: allowed and forbidden ranks, tables together or apart")
      ->type_name("FILE");
  command.add_flag("--pool-ddr", flags.pools_ddr, "The ranks of a host share its DDR");
  command.add_flag("--strict-numerics", flags.strict_numerics,
                   "Do not cut columns under row-wise Adagrad, which keeps one state per block");
  group("TorchRec's planner");
  command
      .add_option(
          "--proposer", flags.proposer,
          fmt::format("Proposers, joined by '+': {}", fmt::join(embedding::proposer_names(), ", ")))
      ->type_name("NAMES");
  command
      .add_option("--partitioner", flags.partitioner,
                  fmt::format("Partitioner: {}", fmt::join(embedding::partitioner_names(), ", ")))
      ->type_name("NAME");
  command.add_option("--perf-model", flags.perf_model, "What plans are rated by (default: perf)")
      ->check(CLI::IsMember({"perf", "storage"}));
  command.add_flag("--balance-modules", flags.balance_modules,
                   "Place the tables of small modules first");
  command
      .add_option("--load-plan", flags.stored_plan,
                  "Rate this stored plan instead of searching; it must have been made from the "
                  "same inputs")
      ->type_name("FILE");
  group("Reports and replay");
  command.add_flag("--stats", flags.prints_stats, "Print TorchRec's statistics report");
  command
      .add_option("--stats-file", flags.stats_file,
                  "Write TorchRec's statistics report to this file")
      ->type_name("FILE");
  command.add_flag("--plan", flags.prints_plan, "Print the plan as TorchRec prints it");
  command
      .add_option("--replay", flags.replay,
                  "Repeat the search that made this plan, to the place where it stopped")
      ->type_name("PLAN");
  command
      .add_option("--effort", flags.effort,
                  "Stop after so many moves and nodes; for TorchRec's planner, proposals")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 60));
  command.add_option("--tolerance", flags.tolerance, "A gap up to this counts as optimal")
      ->type_name("SHARE")
      ->capture_default_str();
  add_planning_globals(command, flags.global);
  set_help(
      command,
      {{kCommonGroup, "plimsoll shard mlperf-dlrm-dcnv2 --on dgx-h100:2 -o plan.json"},
       {"Model", "plimsoll shard model.json --on 8x80GiB --optimizer rowwise_adagrad"},
       {"Cost model", "plimsoll shard model.json --on 8x80GiB --cost-model torchrec-1.8"},
       {"Memory", "plimsoll shard model.json --on dgx-h100:2 --reservation heuristical:0.1"},
       {"Hardware", "plimsoll shard model.json --on 16x40GiB --local-world-size 4"},
       {"TorchEasyRec", "plimsoll shard model.json --on 8x80GiB --easyrec-environment"},
       {"What the balanced search minimizes",
        "plimsoll shard model.json --on 8x80GiB --objective rating"},
       {"Which plans the balanced search considers",
        "plimsoll shard model.json --on 8x80GiB --widths all --time-limit 10s"},
       {"TorchRec's planner",
        "plimsoll shard model.json --on 8x80GiB --search torchrec --proposer "
        "dynamic_programming"},
       {"Reports and replay", "plimsoll shard model.json --on 8x80GiB --stats-file stats.txt"}},
      {"shard model.json --on 8x80GiB", "", ""});
}

}  // namespace plimsoll::app
