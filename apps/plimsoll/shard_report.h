// What `plimsoll shard` says: text for people, and the answer's document.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plimsoll/balance/placement_bound.h"
#include "plimsoll/embedding/balanced_search.h"
#include "plimsoll/io/plan_json.h"
#include "plimsoll/math/frontier.h"
#include "plimsoll/shard_flags.h"

namespace plimsoll::app {

struct ShardRun {
  bool is_balanced = false;
  embedding::BalancedResult balanced;  // of the reference search only `planning`
  // Where it was asked for: curves, plans and proofs, as in embedding::BalancedFrontier.
  math::Frontier frontier;
  std::vector<embedding::PlacedProposal> frontier_plans;
  std::vector<std::optional<balance::PlacementBound>> frontier_proofs;
  Bill bill;
  std::vector<std::string> remedies;  // where there is no plan (shard_remedies.h)
  double seconds = 0;

  const embedding::PlanningResult& planning() const { return balanced.planning; }
};

std::string summary(const ShardFlags& flags, const ShardRequest& request, const ShardRun& run);

io::ShardingAnswer make_answer(const ShardFlags& flags, const ShardRequest& request,
                               const ShardRun& run);

}  // namespace plimsoll::app
