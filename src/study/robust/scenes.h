// Everything that a robust plan, and the judgement of one, are made from.
#pragma once

#include <cstdint>
#include <vector>

#include "plimsoll/embedding/planner.h"
#include "plimsoll/study/robust.h"
#include "study/robust/pooling_draws.h"

namespace plimsoll::study {

struct Scenes {
  std::vector<DrawnTable> tables;  // in the order of the options
  std::vector<Factors> scenarios, fresh;
  std::vector<Factors> tried;          // what moves are judged in: others, if there are many
  embedding::PlanningProblem largest;  // where all factors are largest
  embedding::PlanningResult prepared;  // of that; without tables where there are none to place
  Provenance provenance;               // of the problem as it is given
};

// Errors: plan_robustly's.
Result<Scenes> make_scenes(const embedding::PlanningProblem& problem,
                           const PoolingForecast& forecast, const RobustOptions& options,
                           std::uint64_t seed);

}  // namespace plimsoll::study
