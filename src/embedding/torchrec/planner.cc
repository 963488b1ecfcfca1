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
#include <chrono>
#include <cmath>
#include <iterator>
#include <limits>
#include <span>
#include <unordered_map>

#include "embedding/torchrec/own_objects.h"
#include "embedding/torchrec/plan_loading.h"
#include "embedding/torchrec/planner_text.h"
#include "embedding/torchrec/proposal_keys.h"
#include "plimsoll/core/numbers.h"
#include "plimsoll/core/version.h"

namespace plimsoll::embedding {
namespace {

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

using Proposers = std::vector<std::shared_ptr<Proposer>>;

Result<Proposers> find_proposers(const ReferenceOptions& options) {
  if (!options.own_proposers.empty()) return options.own_proposers;
  PLIMSOLL_ASSIGN(auto named,
                  make_proposers(options.proposers, options.easyrec_dynamic_programming));
  return Proposers(std::make_move_iterator(named.begin()), std::make_move_iterator(named.end()));
}

Result<std::shared_ptr<Partitioner>> find_partitioner(const ReferenceOptions& options,
                                                      const CostModel& cost_model) {
  if (options.own_partitioner) return options.own_partitioner;
  return make_partitioner(options.partitioner, cost_model, options.balance_modules);
}

// The search proper: state of one run over all proposers.
class Search {
 public:
  Search(const PlanningProblem& problem, const ReferenceOptions& options,
         const SearchOptions& limits, const RunContext& context, PlanningResult& result)
      : problem_(problem), options_(options), limits_(limits), context_(context), result_(result) {}

  Result<void> run(const SearchSpace& space) {
    PLIMSOLL_ASSIGN(const Proposers proposers, find_proposers(options_));
    PLIMSOLL_ASSIGN(partitioner_, find_partitioner(options_, problem_.cost_model));
    if (is_stopped()) return {};
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
      if (!options_.own_proposers.empty()) {
        PLIMSOLL_RETURN_IF_ERROR(check_choice(options(), *proposal, proposer.name()));
      }
      auto [entry, is_new] = answers_.try_emplace(keys_.key_of(*proposal));
      if (is_new) {
        PLIMSOLL_ASSIGN(entry->second, answer(*proposal, proposer.needs_rating()));
      } else if (proposer.needs_rating() && entry->second.partitionable && !entry->second.rating) {
        PLIMSOLL_ASSIGN(const auto failure, partition(*proposal));
        if (!failure) entry->second.rating = rate(options_.perf_model, options(), plan_);
      } else if (proposer.needs_plan()) {
        PLIMSOLL_RETURN_IF_ERROR(partition(*proposal));
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

  // Into `plan_`.
  Result<std::optional<PartitionFailure>> partition(const Proposal& proposal) {
    auto failure =
        partitioner_->partition(options(), proposal, result_.reservation->topology, plan_);
    if (options_.own_partitioner && !failure) {
      PLIMSOLL_RETURN_IF_ERROR(check_placement(options(), plan_, partitioner_->name()));
    }
    return failure;
  }

  Result<Answer> answer(const Proposal& proposal, bool needs_rating) {
    ++result_.num_proposals;
    PLIMSOLL_ASSIGN(const auto failure, partition(proposal));
    if (failure) {
      last_failure_ = failure;
      last_proposal_ = proposal;
      const Storage storage = total_storage(options(), proposal);
      if (!lowest_ || storage < *lowest_) lowest_ = storage;
      plan_.options = proposal;
      return Answer{};
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
  std::shared_ptr<Partitioner> partitioner_;
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

// Does the option at this position of the plan cost what an enumerated one costs, on ranks that one
// may have?
bool is_known(const OptionSet& options, const PlacedProposal& plan, std::size_t position) {
  const Option& taken = options.options[static_cast<std::size_t>(plan.options[position])];
  const TableOptions& table = options.tables[static_cast<std::size_t>(taken.table)];
  const std::span ranks = std::span(plan.ranks)
                              .subspan(static_cast<std::size_t>(plan.first_rank[position]),
                                       static_cast<std::size_t>(plan.first_rank[position + 1] -
                                                                plan.first_rank[position]));
  const bool is_one_for_each_rank =
      std::ranges::adjacent_find(ranks, [](auto a, auto b) { return b != a + 1; }) == ranks.end() &&
      (ranks.empty() || ranks.front() == 0);
  const auto first = options.options.begin() + table.first_option;
  return std::any_of(first, first + table.num_options, [&](const Option& known) {
    return known.sharding_type == taken.sharding_type &&
           known.column_blocks == taken.column_blocks &&
           (known.partition_by != PartitionBy::kUniform || is_one_for_each_rank) &&
           std::ranges::equal(options.shards(known).runs, options.shards(taken).runs);
  });
}

// Proposers that scale caches, loaders and callbacks bring in options and placements of which a
// bound over the enumerated ones says nothing.
bool is_bounded(const OptionSet& options, const PlacedProposal& plan) {
  if (plan.options.size() != options.tables.size()) return false;
  for (std::size_t position = 0; position < plan.options.size(); ++position) {
    if (!is_known(options, plan, position)) return false;
  }
  return true;
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
  if (fits && options.perf_model == PerfModelKind::kPerf &&
      is_bounded(result.enumeration.options, result.best)) {
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

// Nothing to shard: an empty plan, no report.
void plan_nothing(const PlanningProblem& problem, PlanningResult& result) {
  result.best.first_rank.push_back(0);
  result.outcome.status = SolveStatus::kOptimal;
  result.outcome.certificate = {0, 0, ProofKind::kNothingToPlace};
  result.outcome.plan =
      make_sharding_plan(result.enumeration.options, result.best, problem.model, problem.topology);
}

// Is there a stored plan? It skips the search and any test of fit. One that is refused is a
// failure of the planner.
Result<bool> take_stored_plan(const ReferenceOptions& options, PlanningResult& result) {
  if (!options.loader) return false;
  OptionSet& space = result.enumeration.options;
  auto loaded = load_plan(*options.loader, result.context_hash, space);
  if (!loaded && loaded.error().code != ErrorCode::kPlanner) {
    return tl::unexpected<Error>(std::move(loaded).error());
  }
  if (!loaded) {
    withdraw(std::move(loaded).error(), result);
    result.rating = kNaN;
    return false;
  }
  if (loaded->options.empty()) return false;
  result.best = *std::move(loaded);
  result.rating = rate(options.perf_model, space, result.best);
  return true;
}

// Does the search find a plan?
Result<bool> find_plan(const PlanningProblem& problem, const ShardEstimator* estimator,
                       const ReferenceOptions& options, const SearchOptions& limits,
                       const RunContext& context, PlanningResult& result) {
  Search search(problem, options, limits, context, result);
  PLIMSOLL_RETURN_IF_ERROR(
      search.run({&result.enumeration.options, estimator, result.enumeration.profiles, &context}));
  if (result.outcome.stop != StopReason::kFinished) {
    result.provenance.stopped_at = fmt::format("proposal {}", result.num_proposals);
  }
  if (!search.has_plan()) explain_failure(problem, search, result);
  return search.has_plan();
}

// The best plan as callbacks change it, certified, unless a check refuses it.
void finish(const PlanningProblem& problem, const ReferenceOptions& options,
            const SearchOptions& limits, PlanningResult& result) {
  const OptionSet& space = result.enumeration.options;
  for (const auto& callback : options.callbacks) {
    result.best = callback(space, std::move(result.best));
  }
  if (auto error = find_rank_error(space, result.best)) {
    withdraw(std::move(*error), result);
    result.best = unplaced(space, result.best.options);
    result.rating = kNaN;
    return;
  }
  certify(problem, options, limits, result);
  if (auto error = find_plan_error(problem, result.enumeration, result.best)) {
    withdraw(std::move(*error), result);
  }
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

Result<PlanningResult> search_like_torchrec(
    const PlanningProblem& problem, const ShardEstimator* estimator, PlanningResult prepared,
    const ReferenceOptions& options, const SearchOptions& search, const RunContext& context) {
  PlanningResult result = std::move(prepared);
  if (!result.reservation) return result;
  if (result.enumeration.options.tables.empty()) {
    plan_nothing(problem, result);
    return result;
  }
  PLIMSOLL_ASSIGN(const bool is_loaded, take_stored_plan(options, result));
  if (result.failure) return result;
  if (!is_loaded) {
    if (problem.enumeration.estimator) estimator = problem.enumeration.estimator.get();
    PLIMSOLL_ASSIGN(const bool is_found,
                    find_plan(problem, estimator, options, search, context, result));
    if (!is_found) return result;
  }
  finish(problem, options, search, result);
  return result;
}

Result<PlanningResult> plan_like_torchrec(const PlanningProblem& problem,
                                          const ReferenceOptions& options,
                                          const SearchOptions& search, const RunContext& context) {
  const auto begin = std::chrono::steady_clock::now();
  PLIMSOLL_ASSIGN(PlanningResult prepared, prepare_like_torchrec(problem, options, search));
  if (!problem.topology.device_speeds.empty()) {
    prepared.outcome.warnings.push_back(
        {"speeds_unknown_to_reference", "",
         "TorchRec's planner places tables as if all ranks were equally fast; its plans are rated "
         "with the ranks' own speeds"});
  }
  const Estimator estimator(problem.cost_model, problem.topology, problem.mode);
  PLIMSOLL_ASSIGN(
      PlanningResult result,
      search_like_torchrec(problem, &estimator, std::move(prepared), options, search, context));
  const std::chrono::duration<double> run_time = std::chrono::steady_clock::now() - begin;
  if (result.has_search()) {
    for (const auto& stats : options.stats) stats->log(problem, result, run_time.count());
  }
  return result;
}

}  // namespace plimsoll::embedding
