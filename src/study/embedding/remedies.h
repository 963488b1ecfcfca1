// What would help where no plan of embedding tables exists.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "plimsoll/core/run_context.h"
#include "plimsoll/core/units.h"
#include "plimsoll/embedding/planner.h"
#include "study/embedding/sharding_run.h"

namespace plimsoll::study {

enum class RemedyKind {
  // Named as causes by the search.
  kLooserRules,
  kLooserConstraints,
  kNumerics,  // columns may be cut under row-wise Adagrad
  kAllWidths,
  // Where reservations leave nothing.
  kSmallerBatch,
  kOtherReservation,
  // Tried by a short search that found a plan.
  kMoreHbm,       // `bytes` on each rank
  kMoreDdr,       // likewise
  kMoreRanks,     // `count` in the unit of the caller's
  kSmallerShare,  // `share` of the memory reserved
};

struct Remedy {
  RemedyKind kind = RemedyKind::kMoreHbm;
  Bytes bytes = 0;
  int count = 0;
  double share = 0;
  bool operator==(const Remedy&) const = default;
};

// The problem on other hardware of the same kind: `count` hosts, or ranks, where there are `now`.
struct ScaledProblem {
  int now = 1;
  std::function<std::optional<embedding::PlanningProblem>(int count)> with;
};

// Empty where there is a plan, or no proof that there is none. Sizes are rounded up to read well.
std::vector<Remedy> find_remedies(const ShardingQuestion& question, const ShardingRun& run,
                                  const std::optional<ScaledProblem>& scaled,
                                  const RunContext& context);

}  // namespace plimsoll::study
