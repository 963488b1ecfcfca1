// What would help where no plan of embedding tables exists.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/core/run_context.h"
#include "plimsoll/core/units.h"
#include "plimsoll/embedding/planner.h"
#include "study/embedding/conflict.h"
#include "study/embedding/sharding_run.h"
#include "study/embedding/user_constraints.h"

namespace plimsoll::study {

enum class RemedyKind {
  kMoreHbm,            // `bytes` on each rank
  kMoreDdr,            // as above
  kMoreRanks,          // `count` in the unit of the caller's
  kSmallerShare,       // `share` of the memory reserved, by the kind of reservation that there is
  kUncountedDense,     // fixed_percentage of `share`, which does not count the dense part
  kSmallerDense,       // of a rank the dense part takes `bytes`
  kSmallerBatch,       // `batch_size` a rank
  kAllWidths,          // of column shards
  kHalfPrecision,      // of `tables`, which are fp32: fp16
  kRowWiseOptimizer,   // of `tables`: row-wise Adagrad
  kKeyValueKernel,     // of `tables`, which then lie on SSD
  kDroppedConstraint,  // all of `dropped`
};

// A change with which a short search found a plan; of other kinds than kDroppedConstraint two
// changes, where `dropped` holds constraints: without them, and then as the kind says.
struct Remedy {
  RemedyKind kind = RemedyKind::kMoreHbm;
  Bytes bytes = 0;
  int count = 0;
  double share = 0;
  std::int64_t batch_size = 0;
  std::vector<std::string> tables;  // fqns
  std::vector<UserConstraint> dropped;
  double ms = 0;  // of that plan, in the question's objective
  bool operator==(const Remedy&) const = default;
};

// The problem on other hardware of the same kind: `count` hosts, or ranks, where there are `now`.
struct ScaledProblem {
  int now = 1;
  std::function<std::optional<embedding::PlanningProblem>(int count)> with;
};

// The question with the change made. Precondition: a number of ranks needs `scaled`, which has a
// problem of that number.
void apply_remedy(const Remedy& remedy, const std::optional<ScaledProblem>& scaled,
                  ShardingQuestion& question);

// Each was planned; the least ms for a batch of the question's size first. Two changes are tried
// where no single one gives a plan. Sizes are rounded up to read well. Empty where there is a plan.
// Of tables the fewest are changed that a bisection finds, the largest first. The searches are
// counted, and few where there are many tables and ranks.
std::vector<Remedy> find_remedies(const ShardingQuestion& question, const ShardingRun& run,
                                  const TableConflict& conflict,
                                  const std::optional<ScaledProblem>& scaled,
                                  const RunContext& context);

}  // namespace plimsoll::study
