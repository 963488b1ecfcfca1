#include "plimsoll/embedding/balanced_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "embedding/option_hazards.h"
#include "plimsoll/solve/balanced_placement.h"

namespace plimsoll::embedding {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double value_of(const PlanTimes& times, BalanceObjective objective) {
  switch (objective) {
    case BalanceObjective::kRating:
      return times.rating;
    case BalanceObjective::kStep:
      return times.step;
    case BalanceObjective::kTime:
      return times.time;
  }
  return times.rating;
}

// The same options in another, larger set of the same tables; nothing where one is missing.
std::optional<PlacedProposal> translate(const OptionSet& from, const PlacedProposal& plan,
                                        const OptionSet& to) {
  PlacedProposal result = plan;
  for (std::int32_t& index : result.options) {
    const Option& option = from.options[static_cast<std::size_t>(index)];
    const TableOptions& table = to.tables[static_cast<std::size_t>(option.table)];
    std::int32_t found = -1;
    for (std::int32_t o = table.first_option;
         o < table.first_option + table.num_options && found < 0; ++o) {
      const Option& other = to.options[static_cast<std::size_t>(o)];
      if (other.sharding_type == option.sharding_type &&
          other.compute_kernel == option.compute_kernel &&
          other.column_blocks == option.column_blocks &&
          other.cache_load_factor == option.cache_load_factor &&
          other.dynamic_embedding_mode == option.dynamic_embedding_mode) {
        found = o;
      }
    }
    if (found < 0) return std::nullopt;
    index = found;
  }
  return result;
}

// Names tiers as people do.
std::string tier_name(const std::string& binding) {
  if (binding == "tier 0") return "hbm";
  if (binding == "tier 1") return "ddr";
  if (binding == "tier 2") return "ssd";
  return binding;
}

class BalancedSearch {
 public:
  BalancedSearch(const PlanningProblem& problem, const BalancedOptions& options,
                 const SearchOptions& search, const RunContext& context)
      : problem_(problem),
        options_(options),
        search_(search),
        context_(context),
        estimator_(problem.cost_model, problem.topology, problem.mode) {}

  Result<BalancedResult> run() {
    PLIMSOLL_RETURN_IF_ERROR(start());
    PlanningResult& planning = result_.planning;
    if (!planning.reservation || planning.enumeration.options.tables.empty()) {
      return std::move(result_);
    }
    PLIMSOLL_RETURN_IF_ERROR(search_space());
    if (options_.max_column_blocks > 0 && planning.outcome.status != SolveStatus::kLimit) {
      PLIMSOLL_RETURN_IF_ERROR(widen());
      PLIMSOLL_RETURN_IF_ERROR(search_space());
    }
    finish();
    return std::move(result_);
  }

 private:
  // The reference's run gives the reservation, the options and, often, a plan.
  Result<void> start() {
    SearchOptions limits = search_;
    PlanningProblem narrow = problem_;
    narrow.enumeration.max_column_blocks = 0;
    std::int64_t num_tables = 1;
    for (const Module& module : problem_.model.modules) {
      num_tables += static_cast<std::int64_t>(module.tables.size());
    }
    constexpr std::int64_t kReferenceSteps = 4000000;  // tables proposed; about a second
    limits.effort =
        options_.uses_reference ? std::max<std::int64_t>(kReferenceSteps / num_tables, 1) : 0;
    PLIMSOLL_ASSIGN(result_.planning,
                    plan_like_torchrec(narrow, options_.reference, limits, context_));
    PlanningResult& planning = result_.planning;
    planning.provenance.options["search"] = "balanced";
    planning.provenance.options["effort"] = fmt::format("{}", std::int64_t{search_.effort});
    if (!planning.reservation || planning.enumeration.options.tables.empty()) return {};
    planning.failure.reset();
    planning.provenance.stopped_at.clear();
    if (planning.outcome.plan) {
      result_.reference = plan_times(input(), options_.bridge.step_model, planning.best);
      best_ = planning.best;
      reference_ = planning.best;
    }
    planning.outcome.plan.reset();
    return {};
  }

  Result<void> widen() {
    EnumerationOptions wide = problem_.enumeration;
    wide.batch_size = problem_.batch_size;
    wide.max_column_blocks = options_.max_column_blocks;
    PLIMSOLL_ASSIGN(Enumeration enumeration, enumerate(estimator_, problem_.model, wide));
    const OptionSet& old = result_.planning.enumeration.options;
    if (best_) best_ = translate(old, *best_, enumeration.options);
    if (reference_) reference_ = translate(old, *reference_, enumeration.options);
    result_.planning.enumeration = std::move(enumeration);
    return {};
  }

  BridgeInput input() const {
    const PlanningResult& planning = result_.planning;
    return {&planning.enumeration.options, &planning.reservation->topology, &problem_.model,
            &estimator_, planning.enumeration.profiles};
  }

  Result<void> search_space() {
    PLIMSOLL_RETURN_IF_ERROR(search_objective(options_.bridge.objective));
    if (!best_ || !keeps_rating()) return {};
    // The plan of least time rates worse than the reference's: the plan of least rating may not.
    const PlanTimes found = plan_times(input(), options_.bridge.step_model, *best_);
    if (found.rating <= result_.reference->rating) return {};
    const Outcome<ShardingPlan> of_time = std::move(result_.planning.outcome);
    best_ = reference_;
    PLIMSOLL_RETURN_IF_ERROR(search_objective(BalanceObjective::kRating));
    const PlanTimes rated = plan_times(input(), options_.bridge.step_model, *best_);
    if (is_reference_safe() && rated.time > result_.reference->time) best_ = reference_;
    result_.planning.outcome = of_time;
    return {};
  }

  // Is there a plan of the reference, without hazards?
  bool is_reference_safe() const {
    if (!reference_) return false;
    if (options_.bridge.keeps_hazards) return true;
    const OptionSet& options = result_.planning.enumeration.options;
    const std::vector<bool> is_hazardous =
        find_hazardous_options(options, result_.planning.reservation->topology, problem_.model);
    return std::none_of(
        reference_->options.begin(), reference_->options.end(),
        [&](std::int32_t option) { return is_hazardous[static_cast<std::size_t>(option)]; });
  }

  bool keeps_rating() const {
    return options_.keeps_reference_rating && result_.reference &&
           options_.bridge.objective == BalanceObjective::kTime;
  }

  Result<void> search_objective(BalanceObjective objective) {
    PlanningResult& planning = result_.planning;
    BridgeOptions settings = options_.bridge;
    settings.objective = objective;
    PLIMSOLL_ASSIGN(const PlacementBridge bridge, make_placement_bridge(input(), settings));
    solve::BalanceOptions balance;
    for (const auto* plan : {&best_, &reference_}) {
      if (!*plan) continue;
      auto placements = find_placements(bridge, planning.enumeration.options, **plan);
      if (placements) balance.starts.push_back(*std::move(placements));
    }
    if (options_.stop_at >= 0) {
      balance.stop_at = std::max<std::int64_t>(options_.stop_at - result_.effort, 1);
    }
    solve::BalanceOutcome found = solve::balance(bridge.problem, balance, search_, context_);
    result_.effort += found.effort;
    for (const Warning& warning : bridge.warnings) planning.outcome.warnings.push_back(warning);
    Outcome<ShardingPlan>& outcome = planning.outcome;
    outcome.status = found.outcome.status;
    outcome.certificate = found.outcome.certificate;
    outcome.stop = found.outcome.stop;
    outcome.explanation = found.outcome.explanation;
    outcome.explanation.binding = tier_name(outcome.explanation.binding);
    if (outcome.stop != StopReason::kFinished && planning.provenance.stopped_at.empty()) {
      planning.provenance.stopped_at = fmt::format("effort {}", std::int64_t{result_.effort});
    }
    if (found.outcome.plan) {
      best_ = to_proposal(bridge, planning.enumeration.options, *found.outcome.plan);
    }
    const bool is_together =
        std::any_of(bridge.tables.begin(), bridge.tables.end(),
                    [](const std::vector<std::int32_t>& tables) { return tables.size() > 1; });
    if (!is_together) return {};
    // Tables of a tower were held together, tighter than the rules do: the bound is not of all
    // plans, and the reference's may be better.
    outcome.certificate.lower_bound.reset();
    outcome.certificate.proof.clear();
    if (outcome.status == SolveStatus::kInfeasible) outcome.status = SolveStatus::kLimit;
    if (is_reference_safe() &&
        (!best_ || objective_of(*reference_, objective) < objective_of(*best_, objective))) {
      best_ = reference_;
      outcome.status = SolveStatus::kFeasible;
    }
    return {};
  }

  double objective_of(const PlacedProposal& plan, BalanceObjective objective) const {
    return value_of(plan_times(input(), options_.bridge.step_model, plan), objective);
  }

  void finish() {
    PlanningResult& planning = result_.planning;
    Outcome<ShardingPlan>& outcome = planning.outcome;
    if (!best_ || outcome.status == SolveStatus::kInfeasible ||
        outcome.status == SolveStatus::kLimit) {
      planning.rating = kNaN;
      result_.times = {kNaN, kNaN, kNaN};
      planning.failure = Error{ErrorCode::kPlanner, "", "no plan was found",
                               "loosen constraints, or give more ranks or memory", "balanced"};
      return;
    }
    planning.best = *best_;
    result_.times = plan_times(input(), options_.bridge.step_model, *best_);
    planning.rating = result_.times.rating;
    outcome.certificate.objective = value_of(result_.times, options_.bridge.objective);
    if (outcome.certificate.lower_bound) {  // sums in plan order may differ in the last digit
      outcome.certificate.lower_bound =
          std::min(*outcome.certificate.lower_bound, outcome.certificate.objective);
    }
    const std::optional<double> gap = outcome.certificate.gap();
    outcome.status =
        gap && *gap <= search_.tolerance ? SolveStatus::kOptimal : SolveStatus::kFeasible;
    outcome.plan = make_sharding_plan(planning.enumeration.options, *best_, problem_.model,
                                      problem_.topology, problem_.enumeration);
  }

  const PlanningProblem& problem_;
  const BalancedOptions& options_;
  const SearchOptions& search_;
  const RunContext& context_;
  Estimator estimator_;
  BalancedResult result_;
  std::optional<PlacedProposal> best_, reference_;  // of the options at hand
};

}  // namespace

PlanTimes plan_times(const BridgeInput& input, const StepModel& step_model,
                     const PlacedProposal& plan) {
  PlanTimes times;
  times.rating = rate(PerfModelKind::kPerf, *input.options, plan);
  Perf slowest;
  double kernels = 0, collectives = 0;
  for (const Perf& perf : rank_perf_components(*input.options, plan)) {
    slowest.fwd_compute = std::max(slowest.fwd_compute, perf.fwd_compute);
    slowest.fwd_comms = std::max(slowest.fwd_comms, perf.fwd_comms);
    slowest.bwd_compute = std::max(slowest.bwd_compute, perf.bwd_compute);
    slowest.bwd_comms = std::max(slowest.bwd_comms, perf.bwd_comms);
    slowest.prefetch_compute = std::max(slowest.prefetch_compute, perf.prefetch_compute);
    kernels = std::max(kernels, perf.fwd_compute + perf.bwd_compute + perf.prefetch_compute);
    collectives = std::max(collectives, perf.fwd_comms + perf.bwd_comms);
  }
  times.step = slowest.total();
  double outputs = 0;
  double tables = 0;
  if (step_model.ms_per_output_byte > 0 || step_model.ms_per_table > 0) {
    std::vector<double> of_outputs(static_cast<std::size_t>(input.options->world_size));
    std::vector<double> of_tables(of_outputs.size());
    for (std::size_t p = 0; p < plan.options.size(); ++p) {
      const Option& option = input.options->options[static_cast<std::size_t>(plan.options[p])];
      for_each_shard(*input.options, plan, p, [&](const ShardView& shard) {
        const auto rank = static_cast<std::size_t>(shard.rank);
        of_outputs[rank] += output_bytes(input, option, *shard.run);
        of_tables[rank] += 1;
      });
    }
    outputs = *std::max_element(of_outputs.begin(), of_outputs.end());
    tables = *std::max_element(of_tables.begin(), of_tables.end());
  }
  std::set<std::pair<std::string, ShardingType>> types;
  for (const std::int32_t index : plan.options) {
    const Option& option = input.options->options[static_cast<std::size_t>(index)];
    types.emplace(input.options->tables[static_cast<std::size_t>(option.table)].module_path,
                  option.sharding_type);
  }
  times.time = step_model.kernel_weight * kernels + step_model.collective_weight * collectives +
               step_model.ms_per_output_byte * outputs + step_model.ms_per_table * tables +
               step_model.ms_per_sharding_type * static_cast<double>(types.size()) +
               step_model.floor_ms;
  return times;
}

Result<BalancedResult> plan_balanced(const PlanningProblem& problem, const BalancedOptions& options,
                                     const SearchOptions& search, const RunContext& context) {
  return BalancedSearch(problem, options, search, context).run();
}

}  // namespace plimsoll::embedding
