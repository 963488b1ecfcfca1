// Plans of embedding tables over ranks, as answers: by our own search, its frontier, or TorchRec's.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "plimsoll/balance/placement_bound.h"
#include "plimsoll/core/result.h"
#include "plimsoll/core/run_context.h"
#include "plimsoll/embedding/balanced_search.h"
#include "plimsoll/math/frontier.h"
#include "plimsoll/study/sharding_answer.h"

namespace plimsoll::study {

struct ShardingQuestion {
  embedding::PlanningProblem problem;
  std::optional<embedding::GivenOptions> given;  // instead of those of the problem's model
  bool has_components = true;  // of the given options: times are known by component
  bool is_balanced = true;     // else the reference's search
  bool is_frontier = false;    // of the balanced search: the least objective for every size
  embedding::ReferenceOptions reference;
  embedding::BalancedOptions balanced;  // with `reference`
  SearchOptions limits;
};

struct ShardingRun {
  embedding::BalancedResult balanced;  // of the reference search `planning` and `times`
  // Of a frontier: curves, plans and proofs, as in embedding::BalancedFrontier.
  math::Frontier frontier;
  std::vector<embedding::PlacedProposal> frontier_plans;
  std::vector<std::optional<balance::PlacementBound>> frontier_proofs;
  Bill bill;
  std::vector<embedding::Extrapolation> extrapolated;  // ShardingAnswer::extrapolated

  const embedding::PlanningResult& planning() const { return balanced.planning; }
};

// Errors of the searches, at the fields of their options.
Result<ShardingRun> plan_tables(const ShardingQuestion& question, const RunContext& context);

// What times of a plan are read from: with a machine model also the estimator and the tables'
// profiles. All outlive it.
embedding::BridgeInput input_of(const embedding::PlanningProblem& problem,
                                const embedding::PlanningResult& planning,
                                const embedding::Estimator& estimator);

// Adds what the problem's machine model, if there is one, says of the plan to the run's bill, and
// what of that was not measured.
Result<void> add_machine_times(const embedding::PlanningProblem& problem, ShardingRun& run);

// `taken` tells which of the given options a plan takes; empty without given options.
using TakenOptions = std::function<std::vector<TakenOption>(const embedding::PlacedProposal&)>;
ShardingAnswer make_answer(const ShardingQuestion& question, const ShardingRun& run,
                           const TakenOptions& taken = {});

}  // namespace plimsoll::study
