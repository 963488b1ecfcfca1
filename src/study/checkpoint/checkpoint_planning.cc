#include "study/checkpoint/checkpoint_planning.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "checkpoint/frontier/stage_search.h"
#include "checkpoint/milp/milp_frontier.h"
#include "checkpoint/milp/milp_search.h"
#include "checkpoint/model/baseline.h"
#include "checkpoint/torch/policy_per_module.h"
#include "plimsoll/checkpoint/frontier_search.h"
#include "plimsoll/checkpoint/operator_choices.h"
#include "plimsoll/checkpoint/sac_milp.h"
#include "plimsoll/core/version.h"
#include "study/checkpoint/checkpoint_judging.h"
#include "study/checkpoint/memory_record.h"

namespace plimsoll::study {
namespace {

using checkpoint::CheckpointPlan;
using checkpoint::CheckpointProblem;
using checkpoint::CheckpointUnit;
using checkpoint::ModuleStats;
using math::Frontier;
using math::MilpOptions;

CheckpointAnswer start_answer(const CheckpointCase& made, const CheckpointQuestion& question) {
  CheckpointAnswer answer;
  answer.input_hash = made.input_hash;
  answer.torch = made.stats.torch;
  answer.world_size = made.problem.model.world_size;
  Provenance& provenance = answer.provenance.emplace();
  provenance.version = kVersion;
  provenance.options = record_of(made.problem.model, question.in_flight);
  provenance.options["search"] = to_string(question.search);
  if (question.search == CheckpointSearch::kTorch) provenance.options["variant"] = question.variant;
  if (question.effort >= 0) provenance.options["effort"] = fmt::format("{}", question.effort);
  provenance.inputs["module_stats"] = answer.input_hash;
  provenance.seed = question.seed;
  return answer;
}

// `bytes` by position in forward post-order.
void take_profile(const CheckpointCase& made, const std::vector<Bytes>& bytes,
                  CheckpointAnswer& answer) {
  answer.profile.clear();
  for (std::size_t position = 0; position < bytes.size(); ++position) {
    const int node = made.problem.tree.post_order[position];
    answer.profile.push_back({made.problem.fqn[node], bytes[position]});
  }
}

void take_plan(const CheckpointCase& made, const CheckpointPlan& plan, CheckpointAnswer& answer) {
  answer.plan = plan.policy;
  const checkpoint::PlanFigures& figures = plan.figures;
  answer.predicted =
      CheckpointPrediction{figures.peak, figures.recompute_ms, made.baseline,
                           figures.binding_node < 0 ? "" : made.problem.fqn[figures.binding_node],
                           plan.price_ms_per_gib};
  take_profile(made, figures.profile, answer);
}

// Upstream's planner decides ratios; which operators that means is decided module by module.
Result<void> choose_operators(const ModuleStats& stats, checkpoint::CheckpointPolicy& policy) {
  for (CheckpointUnit& unit : policy.units) {
    const auto table = stats.sac_stats_of.find(unit.fqns.front());
    if (!unit.ops.empty() || table == stats.sac_stats_of.end()) continue;
    const checkpoint::SACStats& operators = stats.sac_stats[table->second];
    PLIMSOLL_ASSIGN(const Outcome<checkpoint::ModulePolicy> chosen,
                    checkpoint::optimal_policy_per_module(operators, 1 - unit.discard_ratio));
    if (!chosen.plan) continue;  // upstream's planner logs it and leaves the unit to itself
    checkpoint::keep_operators(operators, chosen.plan->save, unit);
  }
  return {};
}

// Torch's search proves that nothing fits, and not how much would; our own memory model says that.
// Its big-M forbids units, too.
Result<void> explain_infeasible(const CheckpointProblem& problem, const MilpOptions& options,
                                CheckpointAnswer& answer) {
  if (answer.status != SolveStatus::kInfeasible) return {};
  std::optional<checkpoint::SmallestBudget> smallest;
  if (problem.tree.is_nested) {
    PLIMSOLL_ASSIGN(smallest, checkpoint::smallest_budget(problem));
  } else {
    PLIMSOLL_ASSIGN(const auto found, smallest_budget_by_milp(problem, options));
    if (found.status == SolveStatus::kOptimal) smallest = found.plan;
  }
  if (!smallest) return {};
  const Bytes budget = answer.budget_bytes.value_or(0);
  if (smallest->bytes > budget) {
    answer.explanation = checkpoint::explain_infeasible(*smallest, budget);
  } else {
    answer.explanation = Explanation{
        "big_m", 0, {"units that would fit cost more than the big-M of this release allows"}};
  }
  return {};
}

// Upstream's problem as our own search sees it. Upstream knows no notes, no module without a
// backward, and of the model these three fields alone.
Result<CheckpointProblem> make_upstreams_problem(const ModuleStats& stats,
                                                 const checkpoint::MemoryModel& model) {
  ModuleStats plain = stats;
  plain.repeated.clear();
  for (checkpoint::ModuleInfo& module : plain.mod_stats) module.requires_grad = true;
  checkpoint::MemoryModel upstream;
  upstream.peak = checkpoint::PeakModel::kTorch;
  upstream.costs = checkpoint::DiscardModel::kFit;
  upstream.world_size = model.world_size;
  upstream.ac_units = model.ac_units;
  upstream.fsdp_units = model.fsdp_units;
  PLIMSOLL_ASSIGN(const checkpoint::ModuleTree tree, checkpoint::make_module_tree(plain));
  return make_checkpoint_problem(plain, tree, upstream);
}

// No plan of upstream's program takes less: our problem leaves out rows of it (the big-M, that
// activations are not negative) and has no others where both see the same tree.
Result<std::optional<double>> bound_of_upstream(const ModuleStats& stats,
                                                const CheckpointProblem& problem, Bytes budget,
                                                const RunContext& context) {
  if (!problem.tree.is_nested) return std::nullopt;
  PLIMSOLL_ASSIGN(const checkpoint::ModuleTree upstream,
                  checkpoint::make_module_tree(stats, checkpoint::Ancestry::kSubstring));
  if (upstream.descendants != problem.tree.descendants) return std::nullopt;
  PLIMSOLL_ASSIGN(const auto outcome, plan_for_budget(problem, budget, {}, context));
  if (!outcome.plan) return std::nullopt;
  return outcome.certificate.lower_bound;
}

// The larger of two bounds; rows that hold to a tolerance may let the plan cost less than either.
void raise_bound(const std::optional<double>& bound, ProofKind proof, Certificate& certificate) {
  if (!bound || *bound <= certificate.lower_bound.value_or(-1)) return;
  certificate.lower_bound =
      std::isnan(certificate.objective) ? *bound : std::min(certificate.objective, double{*bound});
  certificate.proof = proof;
}

Result<CheckpointAnswer> plan_like_torch(const CheckpointCase& made, Bytes budget,
                                         const CheckpointQuestion& question,
                                         const MilpOptions& limits) {
  checkpoint::SACMilpOptions options;
  PLIMSOLL_ASSIGN(options.variant, checkpoint::find_variant(question.variant));
  options.memory_budget = static_cast<double>(budget) / static_cast<double>(kGiB);
  options.world_size = made.problem.model.world_size;
  options.ac_units = made.problem.model.ac_units;
  options.fsdp_units = made.problem.model.fsdp_units;
  options.context = limits.context;
  PLIMSOLL_ASSIGN(const CheckpointProblem problem,
                  make_upstreams_problem(made.stats, made.problem.model));
  // First, for the program may use up all the time.
  PLIMSOLL_ASSIGN(const std::optional<double> bound,
                  bound_of_upstream(made.stats, problem, budget, limits.context));
  PLIMSOLL_ASSIGN(checkpoint::SACMilpResult result,
                  checkpoint::plan_like_sac_milp(made.stats, options));
  CheckpointAnswer answer = start_answer(made, question);
  answer.budget_bytes = budget;
  take_end(result.outcome, answer);
  raise_bound(bound, ProofKind::kSlackProgram, *answer.certificate);
  // CBC calls optimal what is within its gap of 5 %.
  if (const auto gap = answer.certificate->gap();
      answer.status == SolveStatus::kOptimal && !(gap && *gap <= check::kCertificateTolerance)) {
    answer.status = SolveStatus::kFeasible;
  }
  if (result.outcome.plan) {
    answer.plan = std::move(result.outcome.plan);
    PLIMSOLL_RETURN_IF_ERROR(choose_operators(made.stats, *answer.plan));
    // Unrounded, so that a judge finds the same; upstream's answer has two digits. Discards are
    // whole bytes in a plan, so that its peak may be a byte above that of upstream's fractions.
    PLIMSOLL_ASSIGN(const check::CheckpointReport judged,
                    check::check_checkpointing(made.stats, *answer.plan,
                                               make_check_options(made.problem, true, 1)));
    answer.predicted = CheckpointPrediction{std::max(result.peak_bytes, judged.peak),
                                            answer.certificate->objective,
                                            make_baseline(made.stats).peak_bytes,
                                            judged.binding,
                                            {}};
    take_profile(made, judged.profile, answer);
  }
  PLIMSOLL_RETURN_IF_ERROR(explain_infeasible(problem, limits, answer));
  return answer;
}

// Only mixed-integer programming plans a model that returns in another order than its names'.
bool is_for_milp(const CheckpointCase& made, const CheckpointQuestion& question) {
  return question.search == CheckpointSearch::kMilp || !made.problem.tree.is_nested;
}

Result<CheckpointAnswer> plan_pipeline(const CheckpointCase& made, Bytes budget,
                                       const CheckpointQuestion& question,
                                       const MilpOptions& limits, const RunContext& context) {
  checkpoint::StageOptions options;
  options.in_flight = question.in_flight;
  PLIMSOLL_ASSIGN(const Outcome<checkpoint::StagePlan> outcome,
                  is_for_milp(made, question)
                      ? plan_stage_by_milp(made.problem, budget, options.in_flight, limits)
                      : plan_pipeline_stage(made.problem, budget, options, context));
  CheckpointAnswer answer = start_answer(made, question);
  answer.budget_bytes = budget;
  take_end(outcome, answer);
  if (outcome.plan) {
    take_plan(made, outcome.plan->plan, answer);
    answer.predicted->peak_bytes = outcome.plan->peak;
    answer.predicted->price_ms_per_gib.reset();
    // What the other microbatches keep is there all the time.
    const Bytes others = outcome.plan->peak - outcome.plan->plan.figures.peak;
    for (ProfileEntry& entry : answer.profile) entry.bytes += others;
  }
  return answer;
}

CheckpointAnswer answer_of(const CheckpointCase& made, const Outcome<CheckpointPlan>& outcome,
                           std::optional<Bytes> budget, const CheckpointQuestion& question) {
  CheckpointAnswer answer = start_answer(made, question);
  answer.budget_bytes = budget;
  take_end(outcome, answer);
  if (outcome.plan) take_plan(made, *outcome.plan, answer);
  return answer;
}

// It gives no price: that of its units is not what others would offer.
CheckpointAnswer answer_of_milp(const CheckpointCase& made, const Outcome<CheckpointPlan>& outcome,
                                std::optional<Bytes> budget, const CheckpointQuestion& question) {
  CheckpointAnswer answer = answer_of(made, outcome, budget, question);
  if (answer.predicted) answer.predicted->price_ms_per_gib.reset();
  return answer;
}

CheckpointAnswer answer_of_frontier(const CheckpointCase& made, const Outcome<Frontier>& found,
                                    const CheckpointQuestion& question) {
  CheckpointAnswer answer = start_answer(made, question);
  take_end(found, answer);
  if (!found.plan) return answer;
  answer.frontier = found.plan->breakpoints();
  if (!found.plan->is_exact()) {
    answer.frontier_bound = Frontier(found.plan->lower()).breakpoints();
  }
  return answer;
}

Result<CheckpointAnswer> plan_on_milp_frontier(const CheckpointCase& made,
                                               const CheckpointQuestion& question,
                                               const MilpOptions& limits,
                                               const RunContext& context) {
  if (question.overhead_ms) {
    const double ms = *question.overhead_ms;
    PLIMSOLL_ASSIGN(const auto outcome, plan_for_time_by_milp(made.problem, ms, limits));
    return answer_of_milp(made, outcome, {}, question);
  }
  PLIMSOLL_ASSIGN(const Outcome<Frontier> found, plan_frontier_by_milp(made.problem, {}, context));
  if (!question.is_knee || !found.plan) return answer_of_frontier(made, found, question);
  const Bytes knee = found.plan->knee().value_or(found.plan->min_bytes());
  PLIMSOLL_ASSIGN(Outcome<CheckpointPlan> outcome, plan_by_milp(made.problem, knee, limits));
  outcome.warnings = found.warnings;  // of the curve that the knee is of
  return answer_of_milp(made, outcome, {}, question);
}

// Everything but one budget needs the frontier.
Result<CheckpointAnswer> plan_on_frontier(const CheckpointCase& made,
                                          const CheckpointQuestion& question,
                                          const RunContext& context) {
  checkpoint::FrontierOptions options;
  // A curve to read: steps of a thousandth of its width or height are fine enough.
  if (!question.is_knee && !question.overhead_ms) options.max_points = 2048;
  PLIMSOLL_ASSIGN(const Outcome<Frontier> found, plan_frontier(made.problem, options, context));
  if (!found.plan) return answer_of_frontier(made, found, question);
  if (question.is_knee) {
    PLIMSOLL_ASSIGN(const auto outcome, plan_at_knee(made.problem, *found.plan, {}, context));
    return answer_of(made, outcome, {}, question);
  }
  if (question.overhead_ms) {
    const double ms = *question.overhead_ms;
    PLIMSOLL_ASSIGN(const auto outcome, plan_for_time(made.problem, *found.plan, ms, {}, context));
    return answer_of(made, outcome, {}, question);
  }
  return answer_of_frontier(made, found, question);
}

}  // namespace

std::string_view to_string(CheckpointSearch search) {
  switch (search) {
    case CheckpointSearch::kExact:
      return "exact";
    case CheckpointSearch::kMilp:
      return "milp";
    case CheckpointSearch::kTorch:
      return "torch";
  }
  return "";
}

Result<CheckpointCase> make_checkpoint_case(ModuleStats stats, std::string input_hash,
                                            const checkpoint::MemoryModel& model) {
  CheckpointCase made;
  made.stats = std::move(stats);
  made.input_hash = std::move(input_hash);
  PLIMSOLL_ASSIGN(const checkpoint::ModuleTree tree, checkpoint::make_module_tree(made.stats));
  PLIMSOLL_ASSIGN(made.problem, make_checkpoint_problem(made.stats, tree, model));
  made.baseline = replay(made.problem, {}).peak;
  made.compute_ms = make_baseline(made.stats).compute_ms;
  return made;
}

Result<CheckpointAnswer> plan_checkpointing(const CheckpointCase& made,
                                            const CheckpointQuestion& question,
                                            const MilpOptions& limits, const RunContext& context) {
  const bool by_milp = is_for_milp(made, question);
  if (!question.budget) {
    return by_milp ? plan_on_milp_frontier(made, question, limits, context)
                   : plan_on_frontier(made, question, context);
  }
  const Bytes budget = *question.budget;
  if (question.search == CheckpointSearch::kTorch)
    return plan_like_torch(made, budget, question, limits);
  if (question.in_flight > 1) return plan_pipeline(made, budget, question, limits, context);
  if (by_milp) {
    PLIMSOLL_ASSIGN(const auto outcome, plan_by_milp(made.problem, budget, limits));
    return answer_of_milp(made, outcome, budget, question);
  }
  PLIMSOLL_ASSIGN(const auto outcome, plan_for_budget(made.problem, budget, {}, context));
  return answer_of(made, outcome, budget, question);
}

}  // namespace plimsoll::study
