#include "plimsoll/embedding/balanced_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "plimsoll/core/clock_share.h"
#include "plimsoll/embedding/balanced_record.h"
#include "plimsoll/solve/balanced_placement.h"
#include "plimsoll/solve/effort_clock.h"

namespace plimsoll::embedding {
namespace {

constexpr int kNarrowShare = 10;  // the default options take one in so many of the wide's effort
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

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

class BalancedSearch {
 public:
  BalancedSearch(const PlanningProblem& problem, const BalancedOptions& options,
                 const SearchOptions& search, const RunContext& context)
      : problem_(problem),
        options_(options),
        search_(search),
        context_(context),
        estimator_(problem.cost_model, problem.topology, problem.mode) {}

  void take(const GivenOptions& given) { given_ = &given; }

  Result<BalancedResult> run() {
    PLIMSOLL_RETURN_IF_ERROR(start());
    PlanningResult& planning = result_.planning;
    if (!planning.reservation || planning.enumeration.options.tables.empty()) {
      return std::move(result_);
    }
    const bool is_wide = options_.max_column_blocks > 0 && given_ == nullptr;
    // Most is the wide space's, which starts from the best plan of the narrow one.
    PLIMSOLL_RETURN_IF_ERROR(search_space(is_wide ? 1.0 / kNarrowShare : 1, !is_wide));
    if (is_wide) {
      PLIMSOLL_ASSIGN(const bool has_begun, widen());
      if (has_begun) PLIMSOLL_RETURN_IF_ERROR(search_space(1, true));
    }
    finish();
    return std::move(result_);
  }

 private:
  // The reference's run gives the reservation, the options and, often, a plan.
  Result<void> start() {
    PlanningProblem narrow = problem_;
    narrow.enumeration.max_column_blocks = 0;
    RunContext context = share_clock(context_, .5);
    context.progress = {};  // its ratings are no objective of ours
    PlanningResult prepared;
    if (given_ != nullptr) {
      prepared = given_->prepared;
    } else {
      PLIMSOLL_ASSIGN(prepared, prepare_like_torchrec(narrow, options_.reference, search_));
    }
    SearchOptions limits = reference_limits(prepared.enumeration.options.tables.size());
    if (prepared.reservation &&
        simple_bound(prepared.enumeration.options, prepared.reservation->topology).is_infeasible) {
      limits.effort = 0;  // it would find nothing
    }
    PLIMSOLL_ASSIGN(result_.planning, search_like_torchrec(narrow, estimator(), std::move(prepared),
                                                           options_.reference, limits, context));
    PlanningResult& planning = result_.planning;
    planning.provenance.options["search"] = "balanced";
    planning.provenance.options["effort"] = fmt::format("{}", std::int64_t{search_.effort});
    if (!planning.reservation || planning.enumeration.options.tables.empty()) return {};
    const StopReason stop = planning.outcome.stop;
    result_.is_reference_whole = options_.uses_reference && stop == StopReason::kFinished;
    const bool is_replayed = !options_.stops.empty() && options_.stops.front() >= 0;
    const bool is_cut = stop == StopReason::kDeadline || stop == StopReason::kCancelled ||
                        (stop == StopReason::kEffort && is_replayed);
    result_.stops.push_back(is_cut ? planning.num_proposals : -1);
    if (is_cut) stop_ = stop;
    planning.failure.reset();
    if (planning.outcome.plan) {
      result_.reference = plan_times(input(), options_.bridge.step_model, planning.best);
      reference_ = planning.best;
    }
    planning.outcome.plan.reset();
    return {};
  }

  SearchOptions reference_limits(std::size_t tables) const {
    SearchOptions limits = search_;
    // What a proposal costs, about.
    const std::int64_t size = problem_.topology.world_size + static_cast<std::int64_t>(tables);
    constexpr std::int64_t kReferenceSteps = 40000000;  // about two seconds on 1,000 tables
    limits.effort = options_.uses_reference ? std::max<std::int64_t>(kReferenceSteps / size, 1) : 0;
    if (!options_.stops.empty() && options_.stops.front() >= 0) {
      limits.effort = options_.stops.front();
    }
    return limits;
  }

  // To the options of every width; false where the clock leaves no time for them, and then what is
  // proved of the default options says nothing of all.
  Result<bool> widen() {
    EnumerationOptions wide = problem_.enumeration;
    wide.batch_size = problem_.batch_size;
    wide.max_column_blocks = options_.max_column_blocks;
    Enumeration enumeration;
    enumeration.is_cut = is_replayed_stop(0);
    if (!enumeration.is_cut) {
      PLIMSOLL_ASSIGN(enumeration, enumerate(estimator_, problem_.model, wide, context_));
    }
    if (enumeration.is_cut || solve::is_stopped(context_)) {
      leave_wide_options_out();
      return false;
    }
    const OptionSet& old = result_.planning.enumeration.options;
    if (best_) best_ = translate(old, *best_, enumeration.options);
    if (reference_) reference_ = translate(old, *reference_, enumeration.options);
    result_.planning.enumeration = std::move(enumeration);
    return true;
  }

  // Did the run that is replayed stop the next search there?
  bool is_replayed_stop(std::int64_t effort) const {
    const std::size_t next = result_.stops.size();
    return next < options_.stops.size() && options_.stops[next] == effort;
  }

  void leave_wide_options_out() {
    result_.stops.push_back(0);
    result_.bound.reset();
    Outcome<ShardingPlan>& outcome = result_.planning.outcome;
    outcome.certificate.lower_bound.reset();
    outcome.certificate.proof.clear();
    outcome.explanation = {};
    outcome.status = best_ ? SolveStatus::kFeasible : SolveStatus::kLimit;
    if (stop_ == StopReason::kFinished) {
      stop_ = context_.is_cancelled()       ? StopReason::kCancelled
              : context_.is_past_deadline() ? StopReason::kDeadline
                                            : StopReason::kEffort;
    }
    outcome.stop = stop_;
  }

  BridgeInput input() const {
    const PlanningResult& planning = result_.planning;
    return {&planning.enumeration.options, &planning.reservation->topology, &problem_.model,
            estimator(), planning.enumeration.profiles};
  }

  // There may be none where the options are given.
  const Estimator* estimator() const { return given_ == nullptr ? &estimator_ : given_->estimator; }

  // With a share of the effort, and of what the clock leaves.
  Result<void> search_space(double part, bool is_last) {
    BalancedOptions options = options_;
    SearchOptions search = search_;
    const std::int64_t effort = search.effort < 0 ? solve::kDefaultBalanceEffort : search.effort;
    search.effort = static_cast<std::int64_t>(part * static_cast<double>(effort));
    if (keeps_rating()) options.bridge.rating_cap = result_.reference->rating;
    options.certifies = options_.certifies && is_last;
    const std::size_t num_done = std::min(result_.stops.size(), options_.stops.size());
    options.stops.erase(options.stops.begin(),
                        options.stops.begin() + static_cast<std::ptrdiff_t>(num_done));
    std::vector<PlacedProposal> starts;
    for (const auto* plan : {&best_, &reference_}) {
      if (*plan) starts.push_back(**plan);
    }
    PLIMSOLL_ASSIGN(OptionSearchResult found,
                    balance_options(input(), options, starts, search, share_clock(context_, part)));
    result_.effort += found.effort;
    result_.rating_cap = found.rating_cap;
    result_.keeps_hazards = found.keeps_hazards;
    result_.bound = std::move(found.bound);
    result_.stops.insert(result_.stops.end(), found.stops.begin(), found.stops.end());
    best_ = found.outcome.plan;
    Outcome<ShardingPlan>& outcome = result_.planning.outcome;
    outcome.status = found.outcome.status;
    outcome.certificate = std::move(found.outcome.certificate);
    if (stop_ == StopReason::kFinished) stop_ = found.outcome.stop;
    outcome.stop = stop_;
    outcome.explanation = std::move(found.outcome.explanation);
    for (Warning& warning : found.outcome.warnings) {
      if (std::find(outcome.warnings.begin(), outcome.warnings.end(), warning) ==
          outcome.warnings.end()) {
        outcome.warnings.push_back(std::move(warning));
      }
    }
    return {};
  }

  bool keeps_rating() const {
    return options_.keeps_reference_rating && result_.is_reference_whole && result_.reference &&
           options_.bridge.objective == BalanceObjective::kTime;
  }

  void warn_of_reference() {
    if (!best_ || !options_.keeps_reference_rating || !options_.uses_reference ||
        options_.bridge.objective != BalanceObjective::kTime) {
      return;
    }
    std::string message;
    if (!result_.is_reference_whole) {
      message = fmt::format(
          "the reference's search was cut after {} proposals: the plan need not rate as well as "
          "its plan would",
          result_.planning.num_proposals);
    } else if (!result_.reference) {
      message = "the reference's search finds no plan: no rating is kept";
    } else {
      return;
    }
    result_.planning.outcome.warnings.push_back({"no_reference_rating", "", std::move(message)});
  }

  void finish() {
    PlanningResult& planning = result_.planning;
    Outcome<ShardingPlan>& outcome = planning.outcome;
    warn_of_reference();
    planning.provenance.stopped_at = write_stops(result_.stops);
    record_balanced(options_, result_, planning.provenance.options);
    if (!best_) {
      planning.rating = kNaN;
      result_.times = {kNaN, kNaN, kNaN};
      const bool is_short = outcome.status == SolveStatus::kInfeasible;
      planning.failure = Error{ErrorCode::kPlanner, "", "no plan was found",
                               "loosen constraints, or give more ranks or memory",
                               is_short ? "insufficient_storage" : "strict_constraints"};
      return;
    }
    planning.best = *best_;
    result_.times = plan_times(input(), options_.bridge.step_model, *best_);
    planning.rating = result_.times.rating;
    outcome.plan = make_sharding_plan(planning.enumeration.options, *best_, problem_.model,
                                      problem_.topology, problem_.enumeration);
  }

  const PlanningProblem& problem_;
  const BalancedOptions& options_;
  const SearchOptions& search_;
  const RunContext& context_;
  Estimator estimator_;
  const GivenOptions* given_ = nullptr;
  BalancedResult result_;
  StopReason stop_ = StopReason::kFinished;         // of the first that was stopped
  std::optional<PlacedProposal> best_, reference_;  // of the options at hand
};

}  // namespace

Result<BalancedResult> plan_balanced(const PlanningProblem& problem, const BalancedOptions& options,
                                     const SearchOptions& search, const RunContext& context) {
  return BalancedSearch(problem, options, search, context).run();
}

Result<BalancedResult> plan_balanced(const PlanningProblem& problem, const GivenOptions& given,
                                     const BalancedOptions& options, const SearchOptions& search,
                                     const RunContext& context) {
  BalancedSearch run(problem, options, search, context);
  run.take(given);
  return run.run();
}

Result<PlacementBridge> make_bounded_problem(const PlanningProblem& problem,
                                             const BalancedOptions& options) {
  PLIMSOLL_RETURN_IF_ERROR(validate(problem.model));
  PLIMSOLL_ASSIGN(const Reservation reservation,
                  reserve(problem.cost_model, problem.reservation, problem.topology, problem.model,
                          problem.batch_size));
  const Estimator estimator(problem.cost_model, problem.topology, problem.mode);
  EnumerationOptions enumeration = problem.enumeration;
  enumeration.batch_size = problem.batch_size;
  enumeration.max_column_blocks = options.max_column_blocks;
  PLIMSOLL_ASSIGN(const Enumeration options_of, enumerate(estimator, problem.model, enumeration));
  return make_bounded_bridge(
      {&options_of.options, &reservation.topology, &problem.model, &estimator, options_of.profiles},
      options.bridge);
}

}  // namespace plimsoll::embedding
