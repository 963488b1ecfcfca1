// The reference planner's loop: reserve, enumerate, propose, partition, rate, keep the best.
//
// Costs. One partition a distinct proposal. The exact rating costs O(uniform options x W), so it is
// formed only where a rough one says that the plan may be the best, or where the proposer reads it.
// Promises. The reference's plan, counts and texts: proposals are told apart by their options, a
// duplicate is answered from the cache and not counted, and the first proposal to reach a rating
// wins (strict <). Source: docs/mathematics/torchrec-planner.md#rating-and-main-loop.

#include "plimsoll/embedding/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "embedding/torchrec/plan_loading.h"
#include "embedding/torchrec/planner_text.h"
#include "embedding/torchrec/proposal_keys.h"
#include "plimsoll/core/version.h"

namespace plimsoll::embedding {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Sum over the proposal's shards; saturates, since sums of many virtual tables may pass 63 bits.
Storage total_storage(const OptionSet& options, const Proposal& proposal) {
  Int128 hbm = 0;
  Int128 ddr = 0;
  Int128 ssd = 0;
  for (const std::int32_t option : proposal) {
    const Storage storage = options.shards(option).total_storage();
    hbm += storage.hbm;
    ddr += storage.ddr;
    ssd += storage.ssd;
  }
  const auto saturate = [](Int128 value) {
    return static_cast<Bytes>(std::min<Int128>(value, std::numeric_limits<Bytes>::max()));
  };
  return {saturate(hbm), saturate(ddr), saturate(ssd)};
}

// The search proper: state of one run over all proposers.
class Search {
 public:
  Search(const PlanningProblem& problem, const ReferenceOptions& options,
         const SearchOptions& limits, const RunContext& context, PlanningResult& result)
      : problem_(problem), options_(options), limits_(limits), context_(context), result_(result) {}

  Result<void> run(const SearchSpace& space) {
    PLIMSOLL_ASSIGN(const auto proposers,
                    make_proposers(options_.proposers, options_.easyrec_dynamic_programming));
    PLIMSOLL_ASSIGN(partitioner_, make_partitioner(options_.partitioner, problem_.cost_model,
                                                   options_.balance_modules));
    for (const auto& proposer : proposers) PLIMSOLL_RETURN_IF_ERROR(proposer->load(space));
    for (const auto& proposer : proposers) PLIMSOLL_RETURN_IF_ERROR(drain(*proposer));
    return {};
  }

  bool has_plan() const { return has_plan_; }
  const std::optional<PartitionFailure>& last_failure() const { return last_failure_; }
  const Proposal& last_proposal() const { return last_proposal_; }
  const std::optional<Storage>& lowest() const { return lowest_; }

 private:
  struct Answer {
    bool partitionable = false;
    std::optional<double> rating;
  };

  OptionSet& options() { return result_.enumeration.options; }

  Result<void> drain(Proposer& proposer) {
    for (const Proposal* proposal = proposer.propose(); proposal != nullptr && !proposal->empty();
         proposal = proposer.propose()) {
      if (is_stopped()) return {};
      auto [entry, is_new] = answers_.try_emplace(keys_.key_of(*proposal));
      if (is_new) {
        entry->second = answer(*proposal, proposer.needs_rating());
      } else if (proposer.needs_rating() && entry->second.partitionable && !entry->second.rating) {
        partitioner_->partition(options(), *proposal, result_.reservation->topology, plan_);
        entry->second.rating = rate(options_.perf_model, options(), plan_);
      } else if (proposer.needs_plan()) {
        partitioner_->partition(options(), *proposal, result_.reservation->topology, plan_);
      }
      Feedback feedback;
      feedback.partitionable = entry->second.partitionable;
      feedback.plan = &plan_;
      feedback.perf_rating = entry->second.rating;
      feedback.storage_constraint = &result_.reservation->topology;
      PLIMSOLL_RETURN_IF_ERROR(proposer.feedback(feedback));
    }
    if (proposer.is_cut()) is_stopped();
    return {};
  }

  // The clock is looked at between proposals only; each later proposer still proposes once.
  bool is_stopped() {
    StopReason reason = StopReason::kFinished;
    if (limits_.effort >= 0 && result_.num_proposals >= limits_.effort) {
      reason = StopReason::kEffort;
    } else if (context_.is_cancelled()) {
      reason = StopReason::kCancelled;
    } else if (context_.is_past_deadline()) {
      reason = StopReason::kDeadline;
    }
    if (reason == StopReason::kFinished) return false;
    if (result_.outcome.stop == StopReason::kFinished) result_.outcome.stop = reason;
    return true;
  }

  Answer answer(const Proposal& proposal, bool needs_rating) {
    ++result_.num_proposals;
    const auto failure =
        partitioner_->partition(options(), proposal, result_.reservation->topology, plan_);
    if (failure) {
      last_failure_ = failure;
      last_proposal_ = proposal;
      const Storage storage = total_storage(options(), proposal);
      if (!lowest_ || storage < *lowest_) lowest_ = storage;
      plan_.options = proposal;
      return {};
    }
    ++result_.num_plans;
    Answer answer{true, std::nullopt};
    const bool may_be_best =
        !has_plan_ || rate_roughly(options_.perf_model, options(), plan_) < result_.rating;
    if (may_be_best || needs_rating) {
      answer.rating = rate(options_.perf_model, options(), plan_);
      if (!has_plan_ || *answer.rating < result_.rating) {
        has_plan_ = true;
        result_.rating = *answer.rating;
        result_.best = plan_;
        if (context_.progress) {
          context_.progress({result_.num_proposals, result_.rating, std::nullopt});
        }
      }
    }
    return answer;
  }

  const PlanningProblem& problem_;
  const ReferenceOptions& options_;
  const SearchOptions& limits_;
  const RunContext& context_;
  PlanningResult& result_;
  std::unique_ptr<Partitioner> partitioner_;
  ProposalKeys keys_;
  std::unordered_map<ProposalKey, Answer, HashOfKey> answers_;
  PlacedProposal plan_;
  bool has_plan_ = false;
  std::optional<PartitionFailure> last_failure_;
  Proposal last_proposal_;
  std::optional<Storage> lowest_;
};

// A failed search reports its last proposal with every rank -1.
PlacedProposal unplaced(const OptionSet& options, const Proposal& proposal) {
  PlacedProposal plan;
  plan.options = proposal;
  plan.first_rank.push_back(0);
  for (const std::int32_t option : proposal) {
    const bool is_uniform =
        options.options[static_cast<std::size_t>(option)].partition_by == PartitionBy::kUniform;
    const std::int64_t count = is_uniform ? 0 : options.shards(option).num_shards();
    plan.first_rank.push_back(plan.first_rank.back() + count);
  }
  plan.ranks.assign(static_cast<std::size_t>(plan.first_rank.back()), -1);
  return plan;
}

void certify(const PlanningProblem& problem, const ReferenceOptions& options,
             const SearchOptions& limits, PlanningResult& result) {
  Outcome<ShardingPlan>& outcome = result.outcome;
  outcome.certificate.objective = result.rating;
  // Quirks of the reference: memory_balanced may pass a rank's own cap, and a stored plan is not
  // tested for fit. A bound for plans that fit says nothing of those.
  const std::vector<Storage> used = rank_storage(result.enumeration.options, result.best);
  bool fits = true;
  for (std::size_t rank = 0; rank < used.size(); ++rank) {
    if (used[rank].fits_in(result.reservation->topology.devices[rank])) continue;
    fits = false;
    outcome.warnings.push_back({"plan_exceeds_capacity", fmt::format("rank {}", rank),
                                "the plan needs more memory than the rank has left"});
  }
  if (fits && options.perf_model == PerfModelKind::kPerf) {
    const SimpleBound bound =
        simple_bound(result.enumeration.options, result.reservation->topology);
    outcome.certificate.lower_bound = bound.lower_bound;
    outcome.certificate.proof = bound.proof;
  }
  const std::optional<double> gap = outcome.certificate.gap();
  outcome.status = gap && *gap <= limits.tolerance ? SolveStatus::kOptimal : SolveStatus::kFeasible;
  outcome.plan = make_sharding_plan(result.enumeration.options, result.best, problem.model,
                                    problem.topology, problem.enumeration);
}

// No plan: infeasible if totals prove it, else merely not found.
void explain_failure(const PlanningProblem& problem, const Search& search, PlanningResult& result) {
  Outcome<ShardingPlan>& outcome = result.outcome;
  outcome.certificate.objective = kNaN;
  result.rating = kNaN;
  result.best = unplaced(result.enumeration.options, search.last_proposal());
  FailedSearch failed;
  failed.num_proposals = result.num_proposals;
  failed.lowest = search.lowest();
  failed.device_group = problem.enumeration.device_group.value_or("");
  std::string place;
  if (search.last_failure()) {
    const Error error =
        describe(*search.last_failure(), problem.cost_model, result.enumeration.options);
    failed.last_planner_error = error.message;
    place = error.place;
  }
  result.failure = no_plan_error(problem, *result.reservation, failed);
  result.failure->place = place;
  const SimpleBound bound = simple_bound(result.enumeration.options, result.reservation->topology);
  outcome.status = bound.is_infeasible ? SolveStatus::kInfeasible : SolveStatus::kLimit;
  if (!bound.is_infeasible) return;
  outcome.certificate.proof = bound.proof;
  outcome.explanation = explain_by_totals(result.enumeration.options, result.reservation->topology);
}

// A check after planning refuses the plan; the search does not go back.
void withdraw(Error error, PlanningResult& result) {
  result.failure = std::move(error);
  result.outcome.plan.reset();
  result.outcome.status = SolveStatus::kLimit;
  result.outcome.certificate = {kNaN, std::nullopt, {}};
}

// Reserving leaves nothing: whatever the plan, rank 0 is over its capacity before a table is
// placed.
void explain_reservation(const PlanningProblem& problem, Error error, PlanningResult& result) {
  Outcome<ShardingPlan>& outcome = result.outcome;
  outcome.status = SolveStatus::kInfeasible;
  outcome.certificate.objective = kNaN;
  outcome.certificate.proof = ProofKind::kReservationOfRankZero;
  outcome.explanation.binding = "hbm";
  const auto shortage = find_reservation_shortage(
      problem.cost_model, problem.reservation, problem.topology, problem.model, problem.batch_size);
  if (!shortage) {
    outcome.explanation.lines.emplace_back(
        "nothing is left of rank 0's HBM, however much it has: all of it is reserved");
  } else {
    outcome.explanation.missing = shortage->missing;
    outcome.explanation.lines.push_back(fmt::format(
        "rank 0 has {} of HBM, and before any table {} of margin, {} of dense parameters and {} of "
        "input ids are reserved: every rank needs {} ({} bytes) more",
        format_bytes(shortage->capacity), format_bytes(shortage->margin),
        format_bytes(shortage->dense), format_bytes(shortage->ids), format_bytes(shortage->missing),
        shortage->missing));
  }
  result.rating = kNaN;
  result.failure = std::move(error);
}

}  // namespace

Result<PlanningResult> prepare_like_torchrec(const PlanningProblem& problem,
                                             const ReferenceOptions& options,
                                             const SearchOptions& search) {
  PLIMSOLL_RETURN_IF_ERROR(validate(problem.model));
  PlanningResult result;
  result.context_hash = context_hash(problem, options);
  result.provenance = make_provenance(problem, options, search);
  result.provenance.inputs["context"] = result.context_hash;
  result.outcome.warnings = topology::find_topology_warnings(problem.topology);
  const std::vector<Warning> model_warnings = find_model_warnings(problem.model);
  result.outcome.warnings.insert(result.outcome.warnings.end(), model_warnings.begin(),
                                 model_warnings.end());

  auto reservation = reserve(problem.cost_model, problem.reservation, problem.topology,
                             problem.model, problem.batch_size);
  if (!reservation) {
    if (reservation.error().code != ErrorCode::kPlanner) {
      return tl::unexpected<Error>(std::move(reservation).error());
    }
    explain_reservation(problem, std::move(reservation).error(), result);
    return result;
  }
  result.reservation = *std::move(reservation);

  const Estimator estimator(problem.cost_model, problem.topology, problem.mode);
  EnumerationOptions enumeration = problem.enumeration;
  enumeration.batch_size = problem.batch_size;
  PLIMSOLL_ASSIGN(result.enumeration, enumerate(estimator, problem.model, enumeration));
  result.outcome.warnings.insert(result.outcome.warnings.end(), result.enumeration.warnings.begin(),
                                 result.enumeration.warnings.end());
  return result;
}

Result<PlanningResult> search_like_torchrec(const PlanningProblem& problem,
                                            const Estimator* estimator, PlanningResult prepared,
                                            const ReferenceOptions& options,
                                            const SearchOptions& search,
                                            const RunContext& context) {
  PlanningResult result = std::move(prepared);
  if (!result.reservation) return result;
  OptionSet& space = result.enumeration.options;
  if (space.tables.empty()) {  // nothing to shard: an empty plan, no report
    result.best.first_rank.push_back(0);
    result.outcome.status = SolveStatus::kOptimal;
    result.outcome.certificate = {0, 0, ProofKind::kNothingToPlace};
    result.outcome.plan = make_sharding_plan(space, result.best, problem.model, problem.topology);
    return result;
  }

  Search run(problem, options, search, context, result);
  bool is_loaded = false;
  if (options.loader) {
    auto loaded = load_plan(*options.loader, result.context_hash, space);
    if (!loaded) {
      result.failure = std::move(loaded).error();
      result.outcome.status = SolveStatus::kLimit;
      result.outcome.certificate.objective = kNaN;
      result.rating = kNaN;
      return result;
    }
    if (!loaded->options.empty()) {  // a stored plan skips the search and any test of fit
      is_loaded = true;
      result.best = *std::move(loaded);
      result.rating = rate(options.perf_model, space, result.best);
    }
  }
  if (!is_loaded) {
    PLIMSOLL_RETURN_IF_ERROR(run.run({&space, estimator, result.enumeration.profiles, &context}));
    if (result.outcome.stop != StopReason::kFinished) {
      result.provenance.stopped_at = fmt::format("proposal {}", result.num_proposals);
    }
    if (!run.has_plan()) {
      explain_failure(problem, run, result);
      return result;
    }
  }
  for (const auto& callback : options.callbacks) {
    result.best = callback(space, std::move(result.best));
  }
  if (auto error = find_rank_error(space, result.best)) {
    withdraw(std::move(*error), result);
    result.best = unplaced(space, result.best.options);
    result.rating = kNaN;
    return result;
  }
  certify(problem, options, search, result);
  if (auto error = find_plan_error(problem, result.enumeration, result.best)) {
    withdraw(std::move(*error), result);
  }
  return result;
}

Result<PlanningResult> plan_like_torchrec(const PlanningProblem& problem,
                                          const ReferenceOptions& options,
                                          const SearchOptions& search, const RunContext& context) {
  PLIMSOLL_ASSIGN(PlanningResult prepared, prepare_like_torchrec(problem, options, search));
  if (!problem.topology.device_speeds.empty()) {
    prepared.outcome.warnings.push_back(
        {"speeds_unknown_to_reference", "",
         "the reference places tables as if all ranks were equally fast; its plans are rated with "
         "the speeds that the ranks have"});
  }
  const Estimator estimator(problem.cost_model, problem.topology, problem.mode);
  return search_like_torchrec(problem, &estimator, std::move(prepared), options, search, context);
}

}  // namespace plimsoll::embedding
