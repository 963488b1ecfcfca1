// plimsoll check: judges a plan from outside.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "check/embedding/bill_check.h"
#include "check/embedding/move_bound_check.h"
#include "check/embedding/plan_space.h"
#include "embedding/balanced/balanced_record.h"
#include "embedding/torchrec/planning_record.h"
#include "io/documents/plan_tree.h"
#include "io/documents/report_json.h"
#include "io/documents/robust_tree.h"
#include "io/import/foreign_plan.h"
#include "plimsoll/check/balance_check.h"
#include "plimsoll/check/options_check.h"
#include "plimsoll/check/sharding_check.h"
#include "plimsoll/check/transfer_check.h"
#include "plimsoll/checkpoint/checkpoint_flags.h"
#include "plimsoll/common.h"
#include "plimsoll/help.h"
#include "plimsoll/partition/partition_case.h"
#include "plimsoll/partition/partition_flags.h"
#include "plimsoll/plans/checkpoint_check.h"
#include "plimsoll/plans/explanation_check.h"
#include "plimsoll/plans/partition_check.h"
#include "plimsoll/shard/expert_commands.h"
#include "plimsoll/shard/planning_flags.h"
#include "plimsoll/shard/shard_dump.h"
#include "plimsoll/shard/shard_flags.h"
#include "plimsoll/study/search_aid.h"
#include "plimsoll/text/certificate_text.h"
#include "plimsoll/text/text_table.h"

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
  double tolerance = SearchOptions{}.tolerance;
  bool strict = false;
  bool strict_numerics = false;
};

std::map<std::string, std::string> recorded_options(const study::ShardingAnswer& answer) {
  return answer.provenance ? answer.provenance->options : std::map<std::string, std::string>();
}

std::string ranks_of(const check::ShardingReport& report, const CheckFlags& flags) {
  if (flags.global.verbosity == 0) return "";
  TextTable ranks({"rank", "HBM", "of", "DDR", "of", "ms"}, {true, true, true, true, true, true});
  for (std::size_t r = 0; r < report.used.size(); ++r) {
    ranks.add({fmt::format("{}", r), format_bytes(report.used[r].hbm),
               format_bytes(report.capacity[r].hbm), format_bytes(report.used[r].ddr),
               format_bytes(report.capacity[r].ddr), fmt::format("{:.4f}", report.rank_ms[r])});
  }
  return ranks.text();
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
                : fmt::format("the prices prove a bound of {:.6g} ms\n", *balance.proved_bound);
  }
  return text;
}

struct Claims : check::StatedBalance {
  embedding::BalancedOptions made_with;  // with those of the reference's search
};

// What the plan states beside itself, whatever search is said to have made it.
Result<Claims> read_claims(const CheckFlags& flags, const study::ShardingAnswer& answer) {
  const std::map<std::string, std::string> recorded = recorded_options(answer);
  PLIMSOLL_ASSIGN(const embedding::PlanningRecord record,
                  embedding::read_planning_record(recorded));
  Claims stated;
  embedding::BalancedOptions& made_with = stated.made_with;
  PLIMSOLL_ASSIGN(made_with, read_recorded_balance(recorded));
  PLIMSOLL_ASSIGN(made_with.reference, embedding::read_reference_record(recorded));
  embedding::BridgeOptions& bridge = made_with.bridge;
  const bool is_balanced = record.search == "balanced";
  if (!is_balanced) bridge.keeps_hazards = true;  // the reference knows none
  if (recorded.contains("objective")) stated.recorded_objective = bridge.objective;
  if (answer.objective) bridge.objective = *answer.objective;
  if (answer.provenance) {
    PLIMSOLL_ASSIGN(made_with.stops, embedding::read_stops(answer.provenance->stopped_at));
  }
  stated.options = static_cast<const embedding::BoundedOptions&>(made_with);
  stated.status = answer.status;
  if (record.tolerance) stated.tolerance = *record.tolerance;
  stated.accepted_tolerance = flags.tolerance;
  stated.rating = answer.rating;
  stated.times = answer.times;
  stated.certificate = answer.certificate;
  stated.bound = answer.bound;
  stated.reference = answer.reference;
  stated.frontier = {answer.frontier, answer.frontier_bound, {}, {}};
  for (const study::FrontierProof& proof : answer.frontier_proofs) {
    stated.frontier.proofs.push_back(proof.bound);
  }
  stated.rates_storage = !is_balanced && record.perf_model == embedding::PerfModelKind::kStorage;
  for (const Warning& warning : answer.warnings) stated.warnings.push_back(warning.code);
  return stated;
}

std::string name_of(const embedding::TableSharding& table) { return table.fqn(); }
std::string name_of(const study::TakenOption& option) { return option.fqn; }

// `all` with `changes` in the places of the entries of their names; names that are unknown, or
// change twice, come last.
template <class T>
std::vector<T> with_changes(std::vector<T> all, const std::map<std::string, std::size_t>& places,
                            const std::vector<T>& changes) {
  std::set<std::string> changed;
  for (const T& change : changes) {
    const auto place = places.find(name_of(change));
    if (changed.insert(name_of(change)).second && place != places.end()) {
      all[place->second] = change;
    } else {
      all.push_back(change);
    }
  }
  return all;
}

template <class T>
std::map<std::string, std::size_t> places_of(const std::vector<T>& entries) {
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < entries.size(); ++i) places.emplace(name_of(entries[i]), i);
  return places;
}

// The plans of the frontier's points, whole: what a point leaves out stands as in the plan beside.
// `dump` is null where there is a model.
std::vector<check::PointPlan> read_points(const study::ShardingAnswer& answer,
                                          const io::TorchrecOptions* dump) {
  std::vector<check::PointPlan> points;
  if (!answer.plan) return points;
  const auto tables = places_of(answer.plan->tables);
  const auto options = places_of(answer.options);
  for (const study::FrontierPlan& stated : answer.frontier_plans) {
    check::PointPlan& point = points.emplace_back();
    if (dump == nullptr) {
      point.plan = *answer.plan;
      point.plan.tables = with_changes(std::move(point.plan.tables), tables, stated.tables);
      continue;
    }
    for (const study::TakenOption& taken : with_changes(answer.options, options, stated.options)) {
      point.options.push_back(stated_option(*dump, taken));
    }
  }
  return points;
}

// Nothing but a plan, as other programs write it.
bool is_bare(const study::ShardingAnswer& answer) {
  return !answer.status && !answer.provenance && answer.bill == Bill{};
}

tl::unexpected<Error> nothing_to_judge(std::string place) {
  return fail(ErrorCode::kValue, std::move(place), "the answer holds no plan",
              "plan again, with more time, memory or ranks");
}

struct ShardingJudgement {
  std::string batch;  // "512 samples per rank (the default)"
  check::ShardingReport report;
  std::optional<check::BalanceReport> balance;
};

// What the plan was made from, as far as it is given. Flags that win over what the plan records
// make another problem of it: then the hash of all inputs says nothing.
struct Inputs {
  std::map<std::string, std::string> hashes;
  std::map<std::string, std::string> options;  // as a plan records them
  bool are_as_recorded = true;
};

Result<Inputs> find_inputs(const PlanningFlags& flags, const embedding::PlanningProblem& problem,
                           const std::map<std::string, std::string>& recorded) {
  PLIMSOLL_ASSIGN(const embedding::ReferenceOptions reference,
                  embedding::read_reference_record(recorded));
  const Provenance made = embedding::make_provenance(problem, reference, SearchOptions{});
  Inputs inputs{made.inputs, made.options, true};
  inputs.hashes["context"] = embedding::context_hash(problem, reference);
  const std::pair<const char*, bool> decided[] = {
      {"batch_size", flags.batch_size.has_value()},
      {"cost_model", !flags.cost_model.empty()},
      {"reservation", !flags.reservation.empty() || !flags.dense_tensor_estimate.empty() ||
                          flags.parameter_multiplier.has_value()},
      {"breadth_first", flags.use_exact_enumerate_order},
      {"pipeline_type", !flags.pipeline_type.empty()},
      {"inference", flags.inference},
      {"run_embedding_at_peak_memory", flags.run_embedding_at_peak_memory}};
  for (const auto& [key, is_given] : decided) {
    if (!is_given) continue;
    const auto was = recorded.find(key);
    const auto is = inputs.options.extract(key);
    inputs.are_as_recorded &= was == recorded.end() || was->second == is.mapped();
  }
  return inputs;
}

Inputs find_inputs(const io::TorchrecOptions& dump) {
  const Provenance made = make_given(dump).prepared.provenance;
  Inputs inputs{made.inputs, made.options, true};
  // The reference's own, which its figures tell.
  for (const char* key : {"partitioner", "proposers", "balance_modules", "perf_model"}) {
    inputs.options.erase(key);
  }
  return inputs;
}

// One violation for every input that the plan names and that is not the one given. The hash of all
// inputs together says something new where the others agree.
std::vector<check::Finding> check_inputs(const study::ShardingAnswer& answer,
                                         const Inputs& inputs) {
  check::CheckReport found;
  const auto add = [&found](std::string message) {
    found.violate(check::FindingCode::kInputsMismatch, std::move(message));
  };
  const auto is_given = [&inputs](const std::string& name, const std::string& hash) {
    const auto given = inputs.hashes.find(name);
    return given != inputs.hashes.end() && given->second == hash;
  };
  std::map<std::string, std::string> stated;
  if (answer.provenance) stated = answer.provenance->inputs;
  const auto context = stated.extract("context");
  for (const auto& [name, hash] : stated) {
    if (is_given(name, hash)) continue;
    add(fmt::format("the plan was made from another {} than is given here", name));
  }
  // What the search decides is judged by itself.
  const std::set<std::string> of_search{"effort", "max_column_blocks", "search", "tolerance"};
  for (const auto& [name, value] : recorded_options(answer)) {
    const auto given = inputs.options.find(name);
    if (given == inputs.options.end() || given->second == value || of_search.contains(name))
      continue;
    add(fmt::format("the plan records {} '{}', but here it is '{}'", name, value, given->second));
  }
  if (!context.empty() && found.is_right() && inputs.are_as_recorded &&
      !is_given("context", context.mapped())) {
    add("the plan was made from other inputs or options than it records and is checked with");
  }
  return std::move(found.findings);
}

void judge_bill(const study::ShardingAnswer& answer, Bill found, bool has_reservation,
                check::ShardingReport& report) {
  Bill stated = answer.bill;
  if (!has_reservation) {
    for (const char* name : {"dense", "kjt", "reserve"}) {
      stated.bytes.erase(name);
      found.bytes.erase(name);
    }
  }
  report.add(check::check_bill(stated, found));
}

// What a replan states beside its plan: what moves, and the steps, one by one.
Result<std::vector<check::Finding>> judge_replan(const study::Replan& replan,
                                                 const embedding::PlanningProblem& problem,
                                                 const check::CheckOptions& options) {
  check::TransferCase given;
  given.model = &problem.model;
  given.topology = &problem.topology;
  given.cost_model = problem.cost_model;
  given.mode = problem.mode;
  given.options = options;
  given.before = replan.before;
  given.after = *replan.answer.plan;
  PLIMSOLL_ASSIGN(std::vector<check::Finding> violations,
                  check::check_transfers(given, replan.schedule));
  PLIMSOLL_ASSIGN(const Bytes moved, check::count_moved_bytes(given));
  const bool is_too_much = replan.max_moved && moved > *replan.max_moved;
  if (moved != replan.moved_bytes || is_too_much) {
    violations.push_back(
        {check::FindingCode::kTransferMismatch, "", std::nullopt, fmt::format("{}", moved),
         fmt::format("{}", replan.moved_bytes),
         fmt::format("the plan moves {} bytes, and it states {}{}", moved, replan.moved_bytes,
                     is_too_much ? " under a limit that is lower" : "")});
  }
  return violations;
}

// And what it states of all plans.
check::StatedMoveBound stated_moves(const study::Replan& replan) {
  check::StatedMoveBound stated;
  stated.before = &replan.before;
  stated.max_moved = replan.max_moved;
  stated.price_of_move = replan.price_of_move.value_or(0);
  stated.lower_bound = replan.lower_bound;
  stated.is_bound_of_all = replan.is_bound_of_all;
  if (replan.answer.certificate) stated.bound_of_all = replan.answer.certificate->lower_bound;
  stated.least_moved = replan.least_moved;
  if (replan.prices) stated.prices = &*replan.prices;
  return stated;
}

// A plan beside what it is of.
struct JudgedSharding {
  study::ShardingAnswer answer;
  embedding::PlanningProblem problem;
  std::optional<study::Replan> replan;

  const embedding::ShardingPlan* plan() const { return answer.plan ? &*answer.plan : nullptr; }
};

// The plan says what it was made with; flags win over that. Another program's needs the problem to
// be read.
Result<JudgedSharding> read_sharding(const CheckFlags& flags, const io::PlanFile& plan) {
  JudgedSharding read;
  const bool is_own = io::is_own_plan(plan.root);
  if (is_own) {
    PLIMSOLL_ASSIGN(read.answer, io::read_plan_tree(plan.root, plan.name));
  }
  const std::map<std::string, std::string> recorded = recorded_options(read.answer);
  PLIMSOLL_RETURN_IF_ERROR(check_machine(flags.planning, recorded));
  PLIMSOLL_ASSIGN(read.problem, make_problem(flags.planning, recorded));
  if (io::is_replan_tree(plan.root)) {
    PLIMSOLL_ASSIGN(read.replan, io::read_replan_tree(plan.root, plan.name));
  }
  if (!is_own) {
    const embedding::PlanningProblem& problem = read.problem;
    PLIMSOLL_ASSIGN(read.answer.plan,
                    io::read_foreign_plan(plan.root, plan.name,
                                          {problem.model, problem.topology, problem.cost_model}));
  }
  if (!read.answer.plan && read.answer.status != SolveStatus::kInfeasible) {
    return nothing_to_judge(plan.name);
  }
  return read;
}

// The plan itself, and the steps that lead to it.
Result<check::ShardingReport> judge_plan(const CheckFlags& flags, const JudgedSharding& judged,
                                         const Claims& claims) {
  const embedding::PlanningProblem& problem = judged.problem;
  check::CheckOptions options;
  options.strict = flags.strict;
  options.strict_numerics = flags.strict_numerics || claims.options.bridge.strict_numerics;
  options.batch_size = problem.batch_size;
  options.reservation = problem.reservation;
  options.fqn_constraints = problem.enumeration.fqn_constraints;
  options.global_constraints = problem.enumeration.global_constraints;
  options.pools_ddr = claims.options.bridge.pools_ddr;
  options.is_whole = !is_bare(judged.answer);
  // A rating by storage is not a time.
  if (!claims.rates_storage) options.stated_rating = judged.answer.rating;
  PLIMSOLL_ASSIGN(check::ShardingReport report,
                  check::check_sharding(problem.model, *judged.plan(), problem.topology,
                                        problem.cost_model, problem.mode, options));
  if (judged.replan) {
    PLIMSOLL_ASSIGN(std::vector<check::Finding> moves,
                    judge_replan(*judged.replan, problem, options));
    report.add(std::move(moves));
  }
  return report;
}

// Bytes and times of every rank, by cause.
Result<void> judge_figures(const JudgedSharding& judged, bool has_reservation,
                           check::ShardingReport& report) {
  const embedding::PlanningProblem& problem = judged.problem;
  PLIMSOLL_ASSIGN(Bill found, check::make_judges_bill(problem, report));
  PLIMSOLL_RETURN_IF_ERROR(check::add_resident_bytes(problem, *judged.plan(), found));
  if (problem.machine) {
    PLIMSOLL_ASSIGN(const auto extrapolated,
                    check::add_machine_times(problem, *judged.plan(), found));
    report.add(check::check_extrapolated(judged.answer.extrapolated, extrapolated));
  }
  judge_bill(judged.answer, std::move(found), has_reservation, report);
  return {};
}

// Times, bound, reference and frontier, and of a replan the bounds of what moves.
Result<check::BalanceReport> judge_claims(const JudgedSharding& judged, const Claims& claims,
                                          check::ShardingReport& report) {
  PLIMSOLL_ASSIGN(check::BalanceReport balance,
                  check::check_balance(judged.problem, judged.plan(),
                                       judged.plan() != nullptr ? &report : nullptr, claims,
                                       study::make_search_aid(judged.problem, claims.made_with)));
  balance.is_anything_claimed |= judged.answer.rating || judged.answer.bill != Bill{};
  if (judged.replan) {
    PLIMSOLL_ASSIGN(
        const check::MoveBoundReport found,
        check::check_move_bound(judged.problem, claims.options, stated_moves(*judged.replan)));
    report.add(found.violations());
    balance.add(found.warnings());
  }
  return balance;
}

// A robust plan: right as a plan of the model, and what it states of its scenarios is true.
Result<ShardingJudgement> judge_robust(const CheckFlags& flags, const io::PlanFile& plan) {
  PLIMSOLL_ASSIGN(const study::ShardingAnswer answer, io::read_plan_tree(plan.root, plan.name));
  const std::map<std::string, std::string> recorded = recorded_options(answer);
  PLIMSOLL_RETURN_IF_ERROR(check_machine(flags.planning, recorded));
  PLIMSOLL_ASSIGN(const embedding::PlanningProblem problem, make_problem(flags.planning, recorded));
  PLIMSOLL_ASSIGN(const study::RobustPlan robust, io::read_robust_tree(plan.root, plan.name));
  if (!robust.plan) return nothing_to_judge(plan.name);
  ShardingJudgement judgement;
  judgement.batch = counted(problem.batch_size, "sample", "samples") + " per rank";
  check::CheckOptions options;
  options.strict = flags.strict;
  options.strict_numerics = flags.strict_numerics;
  options.batch_size = problem.batch_size;
  options.reservation = problem.reservation;
  options.fqn_constraints = problem.enumeration.fqn_constraints;
  options.global_constraints = problem.enumeration.global_constraints;
  PLIMSOLL_ASSIGN(judgement.report,
                  check::check_sharding(problem.model, *robust.plan, problem.topology,
                                        problem.cost_model, problem.mode, options));
  PLIMSOLL_ASSIGN(const study::RobustVerdict verdict, study::judge_robust_plan(problem, robust));
  check::BalanceReport claims;
  claims.is_anything_claimed = true;
  for (const std::string& fault : verdict.faults) {
    claims.violate(check::FindingCode::kTimesMismatch, fault);
  }
  for (const std::string& fault : verdict.bound_faults) {
    claims.violate(check::FindingCode::kBoundNotProved, fault);
  }
  if (verdict.proved_ms) {
    claims.proof =
        fmt::format("no plan is below {} in these scenarios", ms_text(*verdict.proved_ms));
  }
  check::conclude(std::move(claims), flags.strict, judgement.report);
  return judgement;
}

Result<ShardingJudgement> judge_sharding(const CheckFlags& flags, const io::PlanFile& plan) {
  if (io::is_robust_tree(plan.root)) return judge_robust(flags, plan);
  PLIMSOLL_ASSIGN(const JudgedSharding judged, read_sharding(flags, plan));
  const study::ShardingAnswer& answer = judged.answer;
  PLIMSOLL_ASSIGN(Claims claims, read_claims(flags, answer));
  claims.frontier.plans = read_points(answer, nullptr);
  const std::map<std::string, std::string> recorded = recorded_options(answer);
  ShardingJudgement judgement;
  judgement.batch = counted(judged.problem.batch_size, "sample", "samples") + " per rank";
  if (recorded.empty()) judgement.batch += batch_size_note(flags.planning, judged.problem);
  check::ShardingReport& report = judgement.report;
  if (answer.plan) {
    PLIMSOLL_ASSIGN(report, judge_plan(flags, judged, claims));
  }
  if (is_bare(answer)) {
    check::conclude({}, flags.strict, report);
    return judgement;
  }
  PLIMSOLL_ASSIGN(const Inputs inputs, find_inputs(flags.planning, judged.problem, recorded));
  std::vector<check::Finding> others = check_inputs(answer, inputs);
  claims.are_inputs_given = inputs.are_as_recorded && others.empty();
  if (answer.bill != Bill{} && answer.plan && report.is_right()) {
    PLIMSOLL_RETURN_IF_ERROR(judge_figures(judged, inputs.are_as_recorded, report));
  }
  PLIMSOLL_ASSIGN(judgement.balance, judge_claims(judged, claims, report));
  report.add(std::move(others));
  check::conclude(*judgement.balance, flags.strict, report);
  put_explanation(judge_explanation(flags.planning, answer), flags.strict, report);
  return judgement;
}

// A plan of a dump's options: those that it says its tables take.
Result<ShardingJudgement> judge_options(const CheckFlags& flags, const io::TorchrecOptions& dump,
                                        const io::PlanFile& plan) {
  PLIMSOLL_ASSIGN(const study::ShardingAnswer answer, io::read_plan_tree(plan.root, plan.name));
  if (!answer.plan && answer.status != SolveStatus::kInfeasible) {
    return nothing_to_judge(plan.name);
  }
  if (answer.plan && (answer.options.empty() || !answer.provenance)) {
    return fail(ErrorCode::kValue, plan.name, "the answer does not say which options are taken",
                "give a plan that was made from this dump");
  }
  PLIMSOLL_ASSIGN(Claims claims, read_claims(flags, answer));
  claims.frontier.plans = read_points(answer, &dump);
  std::vector<check::Finding> others = check_inputs(answer, find_inputs(dump));
  claims.are_inputs_given = others.empty();
  embedding::PlanningProblem problem = make_problem(dump);
  ShardingJudgement judgement;
  judgement.batch = counted(problem.batch_size, "sample", "samples") + " per rank";
  check::ShardingReport& report = judgement.report;
  if (answer.plan) {
    std::vector<check::StatedOption> stated;
    for (const study::TakenOption& taken : answer.options)
      stated.push_back(stated_option(dump, taken));
    std::optional<double> rating;
    if (!claims.rates_storage) rating = answer.rating;
    report = check::check_options({dump.options, dump.model, dump.room, problem.cost_model}, stated,
                                  &*answer.plan, claims.options.bridge.pools_ddr, flags.strict,
                                  flags.strict_numerics || claims.options.bridge.strict_numerics,
                                  rating);
    if (report.is_right() && answer.bill != Bill{}) {
      judge_bill(answer, check::make_judges_bill(dump.topology, dump.has_components, report), true,
                 report);
    }
  }
  const embedding::GivenOptions given = make_given(dump);
  PLIMSOLL_ASSIGN(
      judgement.balance,
      check::check_balance(problem, study::make_given_space(problem, given),
                           answer.plan ? &*answer.plan : nullptr, answer.plan ? &report : nullptr,
                           claims, study::make_search_aid(problem, claims.made_with, &given)));
  judgement.balance->is_anything_claimed |= answer.rating || answer.bill != Bill{};
  report.add(std::move(others));
  check::conclude(*judgement.balance, flags.strict, report);
  put_explanation(judge_explanation(flags.planning, answer), flags.strict, report);
  return judgement;
}

int run_sharding_check(const CheckFlags& flags, const io::PlanFile& plan) {
  const auto dump = load_dump(flags.planning);
  if (!dump) return report(dump.error(), flags.global);
  if (!*dump && flags.planning.on.empty()) {
    return report({ErrorCode::kUsage, "--on", "checking a sharding plan needs its hardware",
                   "name it, such as --on dgx-h100:2", ""},
                  flags.global);
  }
  const auto judged = *dump ? judge_options(flags, **dump, plan) : judge_sharding(flags, plan);
  if (!judged) return report(with_flag_as_place(judged.error()), flags.global);
  const auto& balance = judged->balance;
  if (flags.global.json) {
    print(io::write_sharding_report(judged->report, balance ? &*balance : nullptr));
  } else {
    const check::ShardingReport& report = judged->report;
    print(in_lines(
              verdict(report, true, flags.global) +
                  fmt::format(", slowest rank {} at {}\n", ms_text(report.rating), judged->batch),
              2) +
          judgement_lines(report, flags.global) +
          (balance && flags.global.verbosity > 0 ? text_of(*balance) : std::string()) +
          findings_text(report, flags.global) + ranks_of(report, flags));
  }
  return judged->report.is_right() ? kExitOk : kExitViolations;
}

PartitionFlags partition_flags(const CheckFlags& flags) {
  PartitionFlags partition = flags.partition;
  partition.graph = flags.planning.model;
  partition.on = flags.planning.on;
  if (!flags.planning.machine.empty()) partition.machine = flags.planning.machine;
  return partition;
}

int run_check(const CheckFlags& flags) {
  if (is_of_experts(flags.planning)) {
    ExpertFlags asked;
    asked.global = flags.global;
    asked.planning = flags.planning;
    asked.plan = flags.plan;
    asked.tolerance = flags.tolerance;
    return run_expert_check(asked);
  }
  const auto plan = load_plan(flags.planning, flags.plan);
  if (!plan) return report(plan.error(), flags.global);
  switch (plan->format) {
    case io::PlanFormat::kCheckpointPolicy: {
      CheckpointFlags checkpoint = flags.checkpoint;
      if (!flags.planning.machine.empty()) checkpoint.machine = flags.planning.machine;
      return run_checkpoint_check(
          {flags.global, std::move(checkpoint), flags.planning.model, flags.budget, flags.strict},
          *plan);
    }
    case io::PlanFormat::kPipelinePlan:
    case io::PlanFormat::kPiperPlan:
    case io::PlanFormat::kStagedProfile:
      return run_pipeline_check(partition_flags(flags), *plan, flags.strict, flags.global);
    case io::PlanFormat::kPlacement:
    case io::PlanFormat::kPlacementSplit:
    case io::PlanFormat::kFxPartition:
      return run_placement_check(
          {flags.global, partition_flags(flags), flags.contiguous, flags.strict}, *plan);
    case io::PlanFormat::kShardingPlan:
      return run_sharding_check(flags, *plan);
  }
  return kExitInternal;
}

}  // namespace

void add_check_command(CLI::App& app, Run& run) {
  auto flags = std::make_shared<CheckFlags>();
  CLI::App* command = app.add_subcommand(
      "check", "Validate a plan independently: coverage, memory, ranks, times and bounds");
  add_planning_flags(*command, flags->planning);
  command->get_option("--on")->required(false);
  command->get_option("MODEL")->description(
      "What the plan is of: a model, module statistics or an operator graph; a file, '-' for "
      "standard input, or a name that `plimsoll models` lists");
  command->option_defaults()->group(kCommonGroup);
  command
      ->add_option("PLAN", flags->plan,
                   "A plan of this program; a sharding plan of TorchRec or of a TorchEasyRec "
                   "checkpoint; torch.fx's partition result; a plan of PipeDream, of Piper or of "
                   "the placement benchmark; '-' for standard input. Options that the plan records "
                   "are used where a flag is not given")
      ->required();
  command->add_flag("--strict", flags->strict,
                    "Count hazards, and claims that cannot be proved again, as violations");
  command->option_defaults()->group("Sharding plans");
  command->add_flag("--strict-numerics", flags->strict_numerics,
                    "Count optimizer states per block of columns as violations");
  command
      ->add_option("--tolerance", flags->tolerance,
                   "Largest gap of a plan that claims to be optimal")
      ->type_name("SHARE")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->option_defaults()->group("Checkpointing plans");
  command
      ->add_option("--budget", flags->budget,
                   "Peak memory that the plan must keep to (default: the plan's own budget)")
      ->type_name("SIZE|SHARE");
  add_checkpoint_flags(*command, flags->checkpoint);
  add_partition_flags(*command, flags->partition);
  command->option_defaults()->group("Devices and rules");
  command->add_flag("--contiguous", flags->contiguous,
                    "The stages of a placement must be contiguous");
  add_global_flags(*command, flags->global);
  set_help(
      *command,
      {{kCommonGroup, "plimsoll check mlperf-dlrm-dcnv2 plan.json --on dgx-h100:2"},
       {"Sharding plans", "plimsoll check model.json plan.json --on 8x80GiB --strict-numerics"},
       {"Checkpointing plans", "plimsoll check llama-3-8b policy.json --budget 60GiB"},
       {"Devices and rules", "plimsoll check graph.json placement.json --contiguous"}},
      {"check model.json plan.json --on 8x80GiB", "check stats.json policy.json",
       "check graph.json placement.json"});
  command->callback([flags, &run] { run = [flags] { return run_check(*flags); }; });
}

}  // namespace plimsoll::app
