// The reference planner's loop: reserve, enumerate, propose, partition, rate, keep the best.
// Source: docs/mathematics/torchrec-planner.md#rating-and-main-loop.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/core/outcome.h"
#include "plimsoll/core/proof.h"
#include "plimsoll/core/run_context.h"
#include "plimsoll/embedding/enumerator.h"
#include "plimsoll/embedding/partitioner.h"
#include "plimsoll/embedding/perf_model.h"
#include "plimsoll/embedding/planning_problem.h"
#include "plimsoll/embedding/proposer.h"
#include "plimsoll/embedding/reservation.h"
#include "plimsoll/embedding/sharding_plan.h"

#pragma GCC visibility push(default)
namespace plimsoll::embedding {

// Plans stored elsewhere (docs/mathematics/torchrec-planner.md#stored-plans).
struct LoadedOption {
  std::vector<ShardRun> runs;  // as stored; sizes, perf and storage are trusted
  std::int32_t column_blocks = 1;
  std::vector<std::int32_t> ranks;  // [num_shards]
};
using LoadedOptions = std::map<std::uint64_t, LoadedOption>;  // by storage_hash

// Derive from it to bring plans from where you keep them.
class PlanLoader {
 public:
  virtual ~PlanLoader() = default;
  virtual std::string plan_id() const = 0;  // for messages
  // Hash of what the plan was made from, which must equal the problem's (context_hash), else the
  // plan is not loaded; nothing: not compared.
  virtual std::optional<std::string> plan_context_hash() = 0;
  // One option of every table; empty: plan normally. An error ends the planning.
  virtual Result<LoadedOptions> load() = 0;
};

struct PlanningResult;

// What is told of every search that went through its proposals, with a plan or without, and of
// every plan that was loaded. Derive from it to keep figures of your own.
class Stats {
 public:
  virtual ~Stats() = default;
  virtual void log(const PlanningProblem& problem, const PlanningResult& result,
                   double run_time_s) = 0;
};

struct ReferenceOptions {
  std::string proposers = "default";                             // make_proposers
  EasyRecDynamicProgrammingOptions easyrec_dynamic_programming;  // of the proposers so named
  std::string partitioner = "greedy_perf";                       // make_partitioner
  bool balance_modules = false;                                  // of the partitioner so named
  // In place of those that are named above; empty, null: those. As in the reference, what an object
  // has learnt in one search it brings into the next.
  std::vector<std::shared_ptr<Proposer>> own_proposers;
  std::shared_ptr<Partitioner> own_partitioner;
  PerfModelKind perf_model = PerfModelKind::kPerf;
  std::shared_ptr<PlanLoader> loader;         // null: none
  std::vector<std::shared_ptr<Stats>> stats;  // of plan_like_torchrec
  std::vector<std::function<PlacedProposal(const OptionSet&, PlacedProposal)>> callbacks;
};

// Everything the search learnt, for reports, checks and tests.
struct PlanningResult {
  Outcome<ShardingPlan> outcome;
  std::optional<Error> failure;  // kPlanner with the reference's type and text, where no plan was
                                 // found or a check after planning failed
  std::int64_t num_proposals = 0;
  std::int64_t num_plans = 0;
  double rating = 0;  // NaN without a plan
  Enumeration enumeration;
  std::optional<Reservation> reservation;  // absent where reserving failed
  PlacedProposal best;                     // plan order; without a plan the last proposal, ranks -1
  std::string context_hash;                // of all inputs, our own canonical form
  Provenance provenance;

  // Was there something to shard, and a search or a loaded plan to report? Not where reserving
  // failed or a stored plan was refused.
  bool has_search() const {
    return reservation && !enumeration.options.tables.empty() && !best.first_rank.empty();
  }
};

// Errors that the reference raises outside its planner errors (no option for a table, division by
// zero, bad features) come back as Error; planner errors and "no plan" as PlanningResult with
// `failure` set and status kInfeasible (only where a bound proves it) or kLimit. Error kValue: an
// object of the caller's own proposes or places what is not one option of every table, or a shard
// on no rank. The bound is of the enumerated options; a plan that takes others has none.
Result<PlanningResult> plan_like_torchrec(const PlanningProblem& problem,
                                          const ReferenceOptions& options,
                                          const SearchOptions& search, const RunContext& context);

// Its two halves: reserving and enumerating (`failure` and no reservation where that leaves
// nothing), and the search over the options that are prepared, which may come from elsewhere.
// `estimator` may be null: proposers that scale caches then fail. Neither tells `stats`.
Result<PlanningResult> prepare_like_torchrec(const PlanningProblem& problem,
                                             const ReferenceOptions& options,
                                             const SearchOptions& search);
Result<PlanningResult> search_like_torchrec(const PlanningProblem& problem,
                                            const ShardEstimator* estimator,
                                            PlanningResult prepared,
                                            const ReferenceOptions& options,
                                            const SearchOptions& search, const RunContext& context);

// A plan as loaders give it: every table takes the option of the search space that the plan names,
// on the plan's ranks. Errors: those of enumerating; kPlanner "plan_loading_failed" for a table or
// a cut that the search space lacks.
Result<LoadedOptions> make_loaded_options(const PlanningProblem& problem, const ShardingPlan& plan);

// A loader of options that are at hand.
struct StoredPlan {
  std::string plan_id;
  std::optional<std::string> context_hash;
  LoadedOptions options;
};
std::unique_ptr<PlanLoader> make_plan_loader(StoredPlan stored);

// Plan loading key of an option (docs/mathematics/torchrec-planner.md#stored-plans).
std::uint64_t storage_hash(const OptionSet& options, std::int32_t option);

// Hash of all inputs in our own canonical form (sorted, numbers in full), hexadecimal.
std::string context_hash(const PlanningProblem& problem, const ReferenceOptions& options);

// Version, options, seed and the hash of every input.
Provenance make_provenance(const PlanningProblem& problem, const ReferenceOptions& options,
                           const SearchOptions& search);

// Bytes per rank: "hbm", "ddr", "ssd" of the shards, each split by cause where any rank has some
// ("hbm_weights", "hbm_optimizer_state", "hbm_cache_state", "hbm_input_output", ...); "dense",
// "kjt" and "reserve" (the margin) taken before. Milliseconds per rank by component and "total".
// Empty without a plan. Errors: those of estimating.
Result<Bill> make_bill(const PlanningProblem& problem, const PlanningResult& result);

// A lower bound on the rating of any plan of these options on these ranks, ignoring memory: every
// table at its cheapest total spread evenly, and the cheapest largest shard of any one table
// (docs/embedding.md#what-the-reference-search-proves). With memory: infeasibility is proved where
// the least storage of all tables exceeds the room, exactly.
struct SimpleBound {
  double lower_bound = 0;
  bool is_infeasible = false;
  ProofKind proof = ProofKind::kNone;  // of the bound or of infeasibility
};
SimpleBound simple_bound(const OptionSet& options, const topology::Topology& room);

// The smallest reason why that proves that nothing fits (balance/bounds/missing_bytes.h): `binding`
// is the tier that all tables together lack, or the table that fits on no rank; `missing` the bytes
// of all ranks, or of one. Precondition: it does.
Explanation explain_by_totals(const OptionSet& options, const topology::Topology& room);

// One planner per device group; plans are merged. Error kUsage where the cost model has no such
// planner.
struct HeterogeneousProblem {
  Model model;  // constraints name each table's device_group
  std::vector<std::pair<std::string, topology::Topology>>
      topologies;  // by device group, in this order
  CostModel cost_model;
  RunMode mode;
  std::int64_t batch_size = 512;
  ReservationOptions reservation;
};
struct HeterogeneousResult {
  std::vector<std::pair<std::string, PlanningResult>>
      groups;  // in the order planned; ends at the first failure
  std::optional<Error> failure;
};
Result<HeterogeneousResult> plan_heterogeneous(const HeterogeneousProblem& problem,
                                               const ReferenceOptions& options,
                                               const SearchOptions& search,
                                               const RunContext& context);

}  // namespace plimsoll::embedding
#pragma GCC visibility pop
