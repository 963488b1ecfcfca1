// Is there a plan? A short search that says so.
#pragma once

#include "plimsoll/core/outcome.h"
#include "plimsoll/core/run_context.h"
#include "study/embedding/sharding_run.h"

namespace plimsoll::study {

struct Trial {
  SolveStatus status = SolveStatus::kLimit;  // kLimit too where the search fails or is stopped
  double ms = 0;  // of the plan, in the question's objective; NaN without one
  bool has_plan() const {
    return status == SolveStatus::kOptimal || status == SolveStatus::kFeasible;
  }
};

// The question's own search with a small effort, without TorchRec's plan beside it, and silent.
Trial try_question(const ShardingQuestion& question, const RunContext& context);

// Our own search whatever the question's, for a plan of any time.
SolveStatus find_whether_possible(const ShardingQuestion& question, const RunContext& context);

}  // namespace plimsoll::study
