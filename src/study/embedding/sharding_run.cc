#include "study/embedding/sharding_run.h"

#include <utility>

#include "embedding/problem/calibrated_input.h"
#include "plimsoll/embedding/balanced_frontier.h"

namespace plimsoll::study {
namespace {

using embedding::PlanningResult;

constexpr int kNumLimits = 12;  // of a frontier

// The reference's plan seen as the balanced search sees plans.
void add_times(const ShardingQuestion& question, ShardingRun& run) {
  const PlanningResult& planning = run.planning();
  if (!planning.outcome.plan || planning.enumeration.options.tables.empty()) return;
  const embedding::PlanningProblem& problem = question.problem;
  const embedding::Estimator estimator(problem.cost_model, problem.topology, problem.mode);
  run.balanced.times = embedding::plan_times(input_of(problem, planning, estimator),
                                             question.balanced.bridge.step_model, planning.best);
}

Result<void> search_frontier(const ShardingQuestion& question, const RunContext& context,
                             ShardingRun& run) {
  PLIMSOLL_ASSIGN(
      auto found,
      question.given
          ? embedding::plan_balanced_frontier(question.problem, *question.given, question.balanced,
                                              kNumLimits, question.limits, context)
          : embedding::plan_balanced_frontier(question.problem, question.balanced, kNumLimits,
                                              question.limits, context));
  run.balanced = std::move(found.unlimited);
  run.frontier = std::move(found.frontier);
  run.frontier_plans = std::move(found.plans);
  run.frontier_proofs = std::move(found.proofs);
  return {};
}

Result<void> search(const ShardingQuestion& question, const RunContext& context, ShardingRun& run) {
  if (question.is_frontier) return search_frontier(question, context, run);
  const embedding::PlanningProblem& problem = question.problem;
  const std::optional<embedding::GivenOptions>& given = question.given;
  if (question.is_balanced) {
    PLIMSOLL_ASSIGN(
        run.balanced,
        given
            ? embedding::plan_balanced(problem, *given, question.balanced, question.limits, context)
            : embedding::plan_balanced(problem, question.balanced, question.limits, context));
    return {};
  }
  PLIMSOLL_ASSIGN(
      run.balanced.planning,
      given ? embedding::search_like_torchrec(problem, nullptr, PlanningResult(given->prepared),
                                              question.reference, question.limits, context)
            : embedding::plan_like_torchrec(problem, question.reference, question.limits, context));
  add_times(question, run);
  return {};
}

// Bytes and milliseconds by rank of a plan of given options; components where they have them.
Bill make_bill_of_given(const ShardingQuestion& question, const PlanningResult& result) {
  Bill bill;
  if (!result.outcome.plan) return bill;
  for (const embedding::Storage& used : rank_storage(result.enumeration.options, result.best)) {
    bill.bytes["hbm"].push_back(used.hbm);
    bill.bytes["ddr"].push_back(used.ddr);
    bill.bytes["ssd"].push_back(used.ssd);
  }
  for (const embedding::Storage& device : question.problem.topology.devices) {
    bill.bytes["capacity_hbm"].push_back(device.hbm);
    bill.bytes["capacity_ddr"].push_back(device.ddr);
    bill.bytes["capacity_ssd"].push_back(device.ssd);
  }
  bill.ms["total"] = rank_perf(result.enumeration.options, result.best);
  if (!question.has_components) return bill;
  for (const embedding::Perf& perf :
       rank_perf_components(result.enumeration.options, result.best)) {
    bill.ms["fwd_compute"].push_back(perf.fwd_compute);
    bill.ms["fwd_comms"].push_back(perf.fwd_comms);
    bill.ms["bwd_compute"].push_back(perf.bwd_compute);
    bill.ms["bwd_comms"].push_back(perf.bwd_comms);
    bill.ms["prefetch_compute"].push_back(perf.prefetch_compute);
  }
  return bill;
}

// Entries of `all` that differ from those of the same place in `known`.
template <class T>
std::vector<T> find_differences(const std::vector<T>& known, std::vector<T> all) {
  std::vector<T> others;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i >= known.size() || !(known[i] == all[i])) others.push_back(std::move(all[i]));
  }
  return others;
}

// The curves, with what a judge needs to see that they are right.
void add_frontier(const ShardingQuestion& question, const ShardingRun& run,
                  const TakenOptions& taken_options, ShardingAnswer& answer) {
  const PlanningResult& result = run.planning();
  answer.frontier = run.frontier.breakpoints();
  answer.frontier_bound = math::Frontier(run.frontier.lower()).breakpoints();
  std::vector<TakenOption> own = answer.options;
  for (TakenOption& option : own) option.shards.clear();
  for (const embedding::PlacedProposal& plan : run.frontier_plans) {
    FrontierPlan& point = answer.frontier_plans.emplace_back();
    if (taken_options) {
      std::vector<TakenOption> taken = taken_options(plan);
      for (TakenOption& option : taken) option.shards.clear();
      point.options = find_differences(own, std::move(taken));
    } else {
      embedding::ShardingPlan whole =
          make_sharding_plan(result.enumeration.options, plan, question.problem.model,
                             question.problem.topology, question.problem.enumeration);
      point.tables = find_differences(answer.plan->tables, std::move(whole.tables));
    }
  }
  for (const auto& bound : run.frontier_proofs) answer.frontier_proofs.push_back({bound});
}

}  // namespace

embedding::BridgeInput input_of(const embedding::PlanningProblem& problem,
                                const PlanningResult& planning,
                                const embedding::Estimator& estimator) {
  embedding::BridgeInput input;
  input.options = &planning.enumeration.options;
  input.room = &planning.reservation->topology;
  if (!problem.machine) return input;
  input.estimator = &estimator;
  input.profiles = planning.enumeration.profiles;
  input.machine = problem.machine.get();
  return input;
}

Result<void> add_machine_times(const embedding::PlanningProblem& problem, ShardingRun& run) {
  const PlanningResult& planning = run.planning();
  if (!problem.machine || !planning.outcome.plan || planning.enumeration.options.tables.empty()) {
    return {};
  }
  const embedding::Estimator estimator(problem.cost_model, problem.topology, problem.mode);
  PLIMSOLL_ASSIGN(
      embedding::CalibratedBill bill,
      embedding::make_calibrated_bill(input_of(problem, planning, estimator), planning.best));
  run.extrapolated = std::move(bill.extrapolated);
  embedding::add_to_bill(std::move(bill), run.bill);
  return {};
}

Result<ShardingRun> plan_tables(const ShardingQuestion& question, const RunContext& context) {
  ShardingRun run;
  PLIMSOLL_RETURN_IF_ERROR(search(question, context, run));
  if (question.given) {
    run.bill = make_bill_of_given(question, run.planning());
  } else {
    PLIMSOLL_ASSIGN(run.bill, embedding::make_bill(question.problem, run.planning()));
    PLIMSOLL_RETURN_IF_ERROR(add_machine_times(question.problem, run));
  }
  return run;
}

ShardingAnswer make_answer(const ShardingQuestion& question, const ShardingRun& run,
                           const TakenOptions& taken) {
  const PlanningResult& result = run.planning();
  ShardingAnswer answer;
  take_end(result.outcome, answer);
  answer.rating = result.rating;
  answer.plan = result.outcome.plan;
  if (answer.plan) {
    answer.bill = run.bill;
    answer.extrapolated = run.extrapolated;
  }
  answer.provenance = result.provenance;
  if (answer.plan && taken) answer.options = taken(result.best);
  const bool has_tables = !result.enumeration.options.tables.empty();
  if (answer.plan && has_tables) answer.times = run.balanced.times;
  if (question.is_balanced && has_tables) {
    answer.objective = question.balanced.bridge.objective;
    answer.reference = run.balanced.reference;
    answer.bound = run.balanced.bound;
  }
  if (!run.frontier.is_empty()) add_frontier(question, run, taken, answer);
  if (result.failure) {
    answer.failure = {result.failure->kind, result.failure->place, result.failure->message};
  }
  return answer;
}

}  // namespace plimsoll::study
