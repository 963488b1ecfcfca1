// What `plimsoll shard` says: text for people, and the answer's document.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/embedding/balanced_search.h"
#include "plimsoll/io/plan_json.h"
#include "plimsoll/shard_flags.h"
#include "plimsoll/solve/frontier.h"

namespace plimsoll::app {

struct ShardRun {
  bool is_balanced = false;
  embedding::BalancedResult balanced;  // of the reference search only `planning`
  solve::Frontier frontier;            // where it was asked for
  Bill bill;
  std::vector<std::string> remedies;  // where there is no plan (shard_remedies.h)
  double seconds = 0;

  const embedding::PlanningResult& planning() const { return balanced.planning; }
};

std::string summary(const ShardFlags& flags, const ShardRequest& request, const ShardRun& run);

io::ShardingAnswer make_answer(const ShardFlags& flags, const ShardRequest& request,
                               const ShardRun& run);

}  // namespace plimsoll::app
