#include "plimsoll/embedding/balanced_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <utility>

#include "balance/balanced_placement.h"
#include "core/clock_share.h"
#include "core/effort_clock.h"
#include "embedding/balanced/balanced_record.h"
#include "embedding/balanced/explain_no_plan.h"
#include "embedding/problem/calibrated_input.h"
#include "embedding/problem/option_hazards.h"
#include "embedding/problem/plan_faults.h"
#include "plimsoll/core/checked.h"
#include "plimsoll/core/numbers.h"

namespace plimsoll::embedding {
namespace {

constexpr double kWorse = 1e-9;       // relative; figures nearer than that are equal
constexpr std::size_t kMaxNamed = 5;  // tables in a warning
constexpr int kNarrowShare = 10;  // the default options take one in so many of the wide's effort

// The option in another set of the same tables, or -1.
std::int32_t find_same(const Option& option, const OptionSet& to) {
  const auto is_same = [&option](const Option& other) {
    return other.table == option.table && other.sharding_type == option.sharding_type &&
           other.compute_kernel == option.compute_kernel &&
           other.column_blocks == option.column_blocks &&
           other.cache_load_factor == option.cache_load_factor &&
           other.dynamic_embedding_mode == option.dynamic_embedding_mode;
  };
  const auto all = to.options.begin();
  const TableOptions& table = to.tables[static_cast<std::size_t>(option.table)];
  const TableOptions& last = to.tables.back();
  const auto first = all + table.first_option;
  auto found = std::find_if(first, first + table.num_options, is_same);
  if (found == first + table.num_options) {
    found = std::find_if(all + last.first_option + last.num_options, to.options.end(), is_same);
  }
  return found == to.options.end() ? -1 : static_cast<std::int32_t>(found - all);
}

// An option that the other set lacks, such as a scaled cache that a proposer made, is added behind
// those of all tables.
std::int32_t adopt(const OptionSet& from, const Option& option, OptionSet& to) {
  if (const std::int32_t found = find_same(option, to); found >= 0) return found;
  const ShardRuns shards = from.shards(option);
  Option& added = to.options.emplace_back(option);
  added.first_run = static_cast<std::int64_t>(to.runs.size());
  to.runs.insert(to.runs.end(), shards.runs.begin(), shards.runs.end());
  return static_cast<std::int32_t>(to.options.size()) - 1;
}

PlacedProposal translate(const OptionSet& from, const PlacedProposal& plan, OptionSet& to) {
  PlacedProposal result = plan;
  for (std::int32_t& index : result.options) {
    index = adopt(from, from.options[static_cast<std::size_t>(index)], to);
  }
  return result;
}

// The plan of an earlier search in the options of this one; nothing where tables, ranks or options
// differ.
std::optional<PlacedProposal> find_near(const PlanningResult& near, const PlanningResult& here) {
  if (!near.outcome.plan || !near.reservation) return std::nullopt;
  const topology::Topology &there = near.reservation->topology, &ranks = here.reservation->topology;
  const OptionSet &from = near.enumeration.options, &to = here.enumeration.options;
  const bool is_same =
      there.world_size == ranks.world_size && there.local_world_size == ranks.local_world_size &&
      std::equal(from.tables.begin(), from.tables.end(), to.tables.begin(), to.tables.end(),
                 [](const TableOptions& a, const TableOptions& b) {
                   return a.fqn == b.fqn && a.shape == b.shape;
                 });
  if (!is_same) return std::nullopt;
  PlacedProposal plan = near.best;
  for (std::int32_t& index : plan.options) {
    index = find_same(from.options[static_cast<std::size_t>(index)], to);
    if (index < 0) return std::nullopt;
  }
  return plan;
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

  Result<BalancedResult> run_reference() {
    PLIMSOLL_RETURN_IF_ERROR(start());
    return std::move(result_);
  }

  Result<BalancedResult> run() {
    PLIMSOLL_RETURN_IF_ERROR(start());
    PlanningResult& planning = result_.planning;
    if (!planning.reservation || planning.enumeration.options.tables.empty()) {
      return std::move(result_);
    }
    if (const auto overdrawn = find_overdrawn_rank(planning.reservation->topology)) {
      refuse(overdrawn->error(), overdrawn->tier, overdrawn->missing, ProofKind::kReservation);
      return std::move(result_);
    }
    if (options_.bridge.strict_numerics) {
      if (auto error = find_numeric_refusal(planning.enumeration.options, problem_.model)) {
        error->message += "; " + error->remedy;
        refuse(*error, error->place, 0, ProofKind::kNoOption);
        return std::move(result_);
      }
    }
    const bool is_wide = options_.max_column_blocks > 0 && given_ == nullptr;
    // Most is the wide space's, which starts from the best plan of the narrow one.
    const Result<void> searched = search_space(is_wide ? 1.0 / kNarrowShare : 1, !is_wide);
    // Where rules leave none of the default widths, they may leave others.
    const bool may_widen = is_wide && (searched || searched.error().code == ErrorCode::kConflict);
    if (!searched && !may_widen) return tl::unexpected(searched.error());
    if (is_wide) {
      PLIMSOLL_ASSIGN(const bool has_begun, widen());
      if (has_begun) PLIMSOLL_RETURN_IF_ERROR(search_space(1, true));
    }
    finish();
    return std::move(result_);
  }

 private:
  // Whatever the plan, a rank is over its capacity before a table is placed, or a table has no
  // option.
  void refuse(const Error& error, std::string binding, Bytes missing, ProofKind proof) {
    PlanningResult& planning = result_.planning;
    Outcome<ShardingPlan>& outcome = planning.outcome;
    outcome.status = SolveStatus::kInfeasible;
    outcome.certificate = {kNaN, std::nullopt, proof};
    outcome.explanation = {};
    outcome.explanation.binding = std::move(binding);
    outcome.explanation.missing = missing;
    outcome.explanation.lines.push_back(error.message);
    std::erase_if(outcome.warnings, [](const Warning& warning) {
      return warning.code == "plan_exceeds_capacity";  // of the reference's plan
    });
    planning.failure = error;
    planning.rating = kNaN;
    result_.times = {kNaN, kNaN, kNaN};
    result_.reference.reset();  // its plan does not fit either
    planning.provenance.stopped_at = write_stops(result_.stops);
    record_balanced(options_, result_, planning.provenance.options);
  }

  // The reference's run gives the reservation, the options and, often, a plan.
  Result<void> start() {
    std::optional<PlanningProblem> copy;
    if (problem_.enumeration.max_column_blocks > 0) {
      copy.emplace(problem_).enumeration.max_column_blocks = 0;
    }
    const PlanningProblem& narrow = copy ? *copy : problem_;
    PlanningResult prepared;
    if (given_ != nullptr) {
      prepared = given_->prepared;
    } else {
      PLIMSOLL_ASSIGN(prepared, prepare_like_torchrec(narrow, options_.reference, search_));
    }
    reserve_time_to_answer();
    SearchOptions limits = reference_limits(prepared.enumeration.options.tables.size());
    if (prepared.reservation && !plimsoll::is_stopped(context_) &&
        simple_bound(prepared.enumeration.options, prepared.reservation->topology).is_infeasible) {
      limits.effort = 0;  // it would find nothing
    }
    RunContext context = share_clock(context_, .5);
    context.progress = {};  // its ratings are not an objective of ours
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
    PLIMSOLL_RETURN_IF_ERROR(make_calibrated_times(input()));
    if (planning.outcome.plan) {
      result_.reference = plan_times(input(), options_.bridge.step_model, planning.best);
      reference_ = planning.best;
    }
    planning.outcome.plan.reset();
    warnings_before_ = planning.outcome.warnings;
    return {};
  }

  // Making the plan and its certificate takes about as long as preparing did, and is not stopped.
  void reserve_time_to_answer() {
    if (!context_.deadline) return;
    using Duration = std::chrono::steady_clock::duration;
    const auto now = std::chrono::steady_clock::now();
    const Duration left = *context_.deadline - now;
    *context_.deadline -= std::clamp(Duration(left / 4), Duration::zero(), now - begin_);
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
    if (enumeration.is_cut || plimsoll::is_stopped(context_)) {
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
    outcome.certificate.proof = {};
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
    return {&planning.enumeration.options,
            &planning.reservation->topology,
            &problem_.model,
            estimator(),
            planning.enumeration.profiles,
            problem_.machine.get()};
  }

  // There may be none where the options are given.
  const Estimator* estimator() const { return given_ == nullptr ? &estimator_ : given_->estimator; }

  // With a share of the effort, and of what the clock leaves.
  Result<void> search_space(double part, bool is_last) {
    BalancedOptions options = options_;
    SearchOptions search = search_;
    const std::int64_t effort = search.effort < 0 ? balance::kDefaultBalanceEffort : search.effort;
    search.effort = saturated_cast(part * static_cast<double>(effort));
    if (keeps_rating()) options.bridge.rating_cap = result_.reference->rating;
    options.certifies = options_.certifies && is_last;
    const std::size_t num_done = std::min(result_.stops.size(), options_.stops.size());
    options.stops.erase(options.stops.begin(),
                        options.stops.begin() + static_cast<std::ptrdiff_t>(num_done));
    std::optional<PlacedProposal> near;
    if (options.near != nullptr) near = find_near(*options.near, result_.planning);
    if (!near) options.near = nullptr;
    std::vector<PlacedProposal> starts;
    for (const auto* plan : {&near, &best_, &reference_}) {
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
    outcome.warnings = warnings_before_;  // what holds of fewer widths need not hold of all
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

  // A plan worse than the reference's in every figure needs a reason, and names it.
  void warn_of_better_reference() {
    if (!best_ || !reference_ || !result_.reference) return;
    const PlanTimes& ours = result_.times;
    const PlanTimes& theirs = *result_.reference;
    const auto is_worse = [](double a, double b) { return a > b * (1 + kWorse); };
    if (!is_worse(ours.rating, theirs.rating) || !is_worse(ours.step, theirs.step) ||
        !is_worse(ours.time, theirs.time)) {
      return;
    }
    BridgeOptions rules = options_.bridge;
    rules.keeps_hazards = result_.keeps_hazards;
    result_.planning.outcome.warnings.insert(
        result_.planning.outcome.warnings.begin(),
        {"worse_than_reference", "",
         fmt::format("worse than TorchRec's plan: rating {:.6g} > {:.6g} ms, step {:.6g} > {:.6g} "
                     "ms, time {:.6g} > {:.6g} ms; TorchRec's plan {}",
                     ours.rating, theirs.rating, ours.step, theirs.step, ours.time, theirs.time,
                     why_not_taken(input(), rules, *reference_, *best_))});
  }

  // The reference says nothing of them and trains them alike, so that they are not a reason against
  // a plan by themselves.
  void warn_of_numerics() {
    if (!best_) return;
    const OptionSet& set = result_.planning.enumeration.options;
    const std::vector<bool> is_numeric = find_numeric_options(set, problem_.model);
    std::vector<std::string> fqns;
    for (const std::int32_t index : best_->options) {
      if (!is_numeric[static_cast<std::size_t>(index)]) continue;
      const Option& option = set.options[static_cast<std::size_t>(index)];
      fqns.push_back(set.tables[static_cast<std::size_t>(option.table)].fqn);
    }
    if (fqns.empty()) return;
    const std::size_t named = std::min(fqns.size(), kMaxNamed);
    result_.planning.outcome.warnings.push_back(
        {"optimizer_state_per_block", fqns.front(),
         fmt::format("{} table(s) cut by columns keep a state of row-wise Adagrad for each block "
                     "and train differently from the unsharded table: {}{}",
                     fqns.size(),
                     fmt::join(fqns.begin(), fqns.begin() + std::ptrdiff_t(named), ", "),
                     fqns.size() > named ? ", ..." : "")});
  }

  void warn_of_reference() {
    if (!best_ || !options_.keeps_reference_rating || !options_.uses_reference ||
        options_.bridge.objective != BalanceObjective::kTime) {
      return;
    }
    std::string message;
    if (!result_.is_reference_whole) {
      message = fmt::format(
          "TorchRec's own search was cut after {} proposals: this plan may rate worse than "
          "TorchRec's plan would",
          result_.planning.num_proposals);
    } else if (!result_.reference) {
      message = "TorchRec's own search finds no plan, so there is no rating to keep to";
    } else {
      return;
    }
    result_.planning.outcome.warnings.push_back({"no_reference_rating", "", std::move(message)});
  }

  void finish() {
    PlanningResult& planning = result_.planning;
    Outcome<ShardingPlan>& outcome = planning.outcome;
    warn_of_reference();
    warn_of_numerics();
    planning.provenance.stopped_at = write_stops(result_.stops);
    record_balanced(options_, result_, planning.provenance.options);
    if (!best_) {
      planning.rating = kNaN;
      result_.times = {kNaN, kNaN, kNaN};
      const bool is_proved = outcome.status == SolveStatus::kInfeasible;
      if (is_proved && options_.explains) explain();
      const bool lacks_bytes = is_proved && (!options_.explains || outcome.explanation.missing > 0);
      planning.failure = Error{
          ErrorCode::kPlanner, "",
          is_proved ? "no plan fits" : "no plan was found, and it is not proved that there is none",
          "loosen constraints, or give more ranks or memory",
          lacks_bytes ? "insufficient_storage" : "strict_constraints"};
      return;
    }
    planning.best = *best_;
    result_.times = plan_times(input(), options_.bridge.step_model, *best_);
    warn_of_better_reference();
    planning.rating = result_.times.rating;
    outcome.plan = make_sharding_plan(planning.enumeration.options, *best_, problem_.model,
                                      problem_.topology, problem_.enumeration);
  }

  void explain() {
    NoPlanQuestion question;
    question.problem = &problem_;
    question.options = &options_;
    question.input = input();
    question.is_given = given_ != nullptr;
    question.keeps_hazards = result_.keeps_hazards;
    result_.causes = explain_no_plan(question, context_, result_.planning.outcome.explanation);
  }

  const PlanningProblem& problem_;
  const BalancedOptions& options_;
  const SearchOptions& search_;
  RunContext context_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  Estimator estimator_;
  const GivenOptions* given_ = nullptr;
  BalancedResult result_;
  StopReason stop_ = StopReason::kFinished;         // of the first that was stopped
  std::optional<PlacedProposal> best_, reference_;  // of the options at hand
  std::vector<Warning> warnings_before_;            // of the searches of options
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

Result<BalancedResult> repeat_reference(const PlanningProblem& problem,
                                        const BalancedOptions& options) {
  const SearchOptions search;
  const RunContext context;
  return BalancedSearch(problem, options, search, context).run_reference();
}

Result<BalancedResult> repeat_reference(const PlanningProblem& problem, const GivenOptions& given,
                                        const BalancedOptions& options) {
  const SearchOptions search;
  const RunContext context;
  BalancedSearch run(problem, options, search, context);
  run.take(given);
  return run.run_reference();
}

}  // namespace plimsoll::embedding
