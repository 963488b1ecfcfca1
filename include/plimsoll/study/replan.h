// The plan to change to: as good as few moved bytes allow, and how to get there.
//
// Problem. Embedding tables stand as a plan says. The model has changed (pooling factors, batch,
// tables), or the machine (a rank or host more or fewer). Of the plans that move at most a number
// of bytes, the best one; with a lower bound of all of these; and an order of copies in which no
// rank ever holds more than it can.
// Moved bytes. Of every shard of the new plan, the weights and optimizer state that some rank
// holds, and the shard's own rank does not. Ranks keep their numbers; those that the new machine
// lacks are read once more. What no rank holds, as of a new table, is initialised and not moved.
// Promises. Never worse than a fresh plan that moves few enough bytes. The bound is one of all
// plans, or, where that gives more, one that prices moved bytes
// (docs/mathematics/balanced-sharding.md#moved-bytes). Deterministic.
// Source: docs/replan.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/balance/relocation_prices.h"
#include "plimsoll/core/outcome.h"
#include "plimsoll/core/result.h"
#include "plimsoll/core/run_context.h"
#include "plimsoll/embedding/balanced_search.h"
#include "plimsoll/embedding/sharding_plan.h"
#include "plimsoll/embedding/transfer.h"
#include "plimsoll/study/sharding_answer.h"

#pragma GCC visibility push(default)
namespace plimsoll::study {

struct ReplanOptions {
  embedding::BalancedOptions balanced;  // objective, rules
  // Bytes that may move; where neither this nor a price is given, a tenth of all.
  std::optional<Bytes> max_moved;             // >= 0
  std::optional<double> max_moved_share;      // of all bytes, >= 0; in place of it
  std::optional<double> price_of_move;        // ms a GiB, >= 0: objective + price * moved is least
  std::int64_t relocation_moves = 3'000'000;  // >= 0; of the search near the old plan
};

struct Replan {
  SolveStatus status = SolveStatus::kLimit;
  StopReason stop = StopReason::kFinished;
  embedding::BalanceObjective objective = embedding::BalanceObjective::kTime;
  // ms of the objective: of the new plan, of the old one where it may be kept as it is, of a fresh
  // plan.
  std::optional<double> ms, before_ms, fresh_ms;
  Bytes total_bytes = 0;                // of all tables, each once
  std::optional<Bytes> max_moved;       // that applied
  std::optional<double> price_of_move;  // ms a GiB
  Bytes moved_bytes = 0, fresh_moved_bytes = 0;
  // Of ms, or of ms + price * moved: no plan that moves few enough bytes is below.
  std::optional<double> lower_bound;
  bool is_bound_of_all = false;                     // of plans that move any number of bytes
  std::optional<balance::RelocationPrices> prices;  // that prove it; where it is not one of all
  std::optional<Bytes> least_moved;                 // proved: every plan moves that many
  ShardingAnswer answer;  // the new plan with its figures, as planning answers it
  embedding::ShardingPlan before;
  embedding::TransferSchedule schedule;

  // Of ms, or of ms + price * moved, above the bound; absent without a plan or a bound.
  std::optional<double> gap() const;
};

// `before` is a plan of whatever model and machine; tables are known by their names. Errors: those
// of planning; kValue at "max_moved", "price_of_move".
Result<Replan> replan_tables(const embedding::PlanningProblem& problem,
                             const embedding::ShardingPlan& before,
                             const ReplanOptions& options = {}, const SearchOptions& search = {},
                             const RunContext& context = {});

// An order of copies from one plan to the other. Errors: those of estimating.
Result<embedding::TransferSchedule> schedule_transfers(const embedding::PlanningProblem& problem,
                                                       const embedding::ShardingPlan& before,
                                                       const embedding::ShardingPlan& after);

}  // namespace plimsoll::study
#pragma GCC visibility pop
