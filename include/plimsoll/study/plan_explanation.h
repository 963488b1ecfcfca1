// Why a plan of embedding tables takes the time that it takes, and what would lower it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plimsoll/core/outcome.h"
#include "plimsoll/core/result.h"
#include "plimsoll/core/run_context.h"
#include "plimsoll/embedding/balanced_search.h"
#include "plimsoll/embedding/option_set.h"
#include "plimsoll/embedding/plan_times.h"
#include "plimsoll/embedding/sharding_plan.h"
#include "plimsoll/study/no_plan.h"

#pragma GCC visibility push(default)
namespace plimsoll::study {

// What a table's shards take on one rank.
struct TableShare {
  std::string fqn;
  std::string sharding_type, compute_kernel;
  double ms = 0;
  Bytes hbm = 0;
  bool operator==(const TableShare&) const = default;
};

// What the same plan would take were one rate of the hardware 1 GB/s higher.
struct RateWorth {
  std::string rate;        // "intra_host_bw", ...: a topology's field
  double gb_per_s = 0;     // as it is
  double ms_per_gb_s = 0;  // >= 0, what the first GB/s more saves
  bool operator==(const RateWorth&) const = default;
};

struct PlanExplanation {
  embedding::BalanceObjective objective = embedding::BalanceObjective::kTime;
  embedding::PlanTimes times;
  int slowest_rank = 0;
  embedding::Perf slowest;         // its ms by component
  double mean_ms = 0;              // of the ranks' totals
  std::vector<TableShare> tables;  // on the slowest rank, most ms first
  std::string tier;                // "hbm" or "ddr", which the figures of memory are of
  int fullest_rank = 0;
  Bytes fullest = 0, room = 0;             // bytes there, and what is usable
  std::optional<Certificate> certificate;  // as the plan states it
  std::optional<double> rating_cap;  // ms; the certificate is of plans whose slowest rank keeps it
  double even_ms = 0;   // no plan rates below: every table's cheapest option, shared evenly
  double shard_ms = 0;  // as above: the cheapest largest shard of any one table
  std::vector<RateWorth> rates;  // what saves most first
  // By a short search, in the objective: planned again as it is, and with one GiB of HBM more on
  // every rank. Absent where that finds no plan.
  std::optional<double> planned_again_ms, with_one_gib_ms;
  std::vector<Fix> faster;  // changes with which a faster plan was found, the fastest first
  bool operator==(const PlanExplanation&) const = default;
};

// Errors: those of planning; kPlanner where the plan is none of the options of its model.
Result<PlanExplanation> explain_plan(const embedding::PlanningProblem& problem,
                                     const embedding::ShardingPlan& plan,
                                     const embedding::BalancedOptions& options = {},
                                     const RunContext& context = {});

// Why a problem has no plan; only `fixes` where that is not proved, and nothing where there is one.
// Constraints and fixes are named by the fields of the library.
Result<NoPlan> explain_no_plan(const embedding::PlanningProblem& problem,
                               const embedding::BalancedOptions& options = {},
                               const SearchOptions& search = {}, const RunContext& context = {});

}  // namespace plimsoll::study
#pragma GCC visibility pop
