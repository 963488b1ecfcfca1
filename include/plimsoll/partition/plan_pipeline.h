// Pipelines of replicated stages, the best there are: PipeDream's, Piper's and Alpa's problem.
//
// Problem. Cut a pipeline model into stages in a line, give each a data-parallel and a
// tensor-parallel degree and every operator one of its choices, so that all devices hold what they
// must, microbatches in flight included. Minimise the time of the slowest stage (a saturated
// pipeline's time per sample), or sum of stage times + (n - 1) * the slowest (a batch of n
// microbatches). Method. Stages between two downsets, from the last one forwards, found by the
// labels of pipeline_chain.h for a guessed limit on stage times: first over prefixes of topological
// orders, then over all downsets. A guess that no pipeline meets is a bound; the interval between
// bound and best plan is halved until it is closed. For batches it is branched on, since the least
// sum under a limit falls as the limit rises, and bounded by prices on device time and bytes. The
// choices of a stage are a knapsack, solved exactly. Straight pipelines in which nothing but time
// counts are assembly lines (line_balancing.h), found group by group instead of stage by stage.
// Cost. The chain's, some twenty times, at worst proportional to the square of the downsets.
// Promises. A finished search is optimal to 1e-9 relative, or proves that no plan exists. Too many
// downsets, pairs or knapsack nodes, the clock or a cancel leave the best plan known with its
// bound. The answer is a function of model and options, unless a clock or a cancel cut it. Not
// promised. Stages that are not contiguous; several levels of bandwidth (pipedream.h has them).
// Sources: D. Narayanan et al., "PipeDream", SOSP 2019; J. Tarnawski et al., "Piper", NeurIPS 2021;
// L. Zheng et al., "Alpa", OSDI 2022: docs/mathematics/placements.md#piper,
// docs/mathematics/placements.md#sources.
// Departures: decisions instead of value tables, exact choices where Piper's are greedy, proofs.
#pragma once

#include <cstdint>
#include <string_view>

#include "plimsoll/core/outcome.h"
#include "plimsoll/core/result.h"
#include "plimsoll/core/run_context.h"
#include "plimsoll/partition/pipeline_model.h"
#include "plimsoll/partition/pipeline_plan.h"

#pragma GCC visibility push(default)
namespace plimsoll::partition {

enum class PipelineObjective {
  kSlowestStage,  // max
  kBatch,         // sum + (num_microbatches - 1) max
};
std::string_view to_string(PipelineObjective objective);

// Each only saves work: without it the optimum is the same.
struct PipelineRules {
  bool drops_free_operators = true;  // those that cost nothing anywhere
  bool starts_from_orders = true;    // an upper bound from topological orders
  bool uses_windows = true;          // cuts that a limit excludes after so many devices
  bool drops_dominated = true;       // labels that another one beats
  bool prices_devices = true;        // batches bounded by prices on device time and bytes
  bool bounds_stages = true;         // stages refused by sums, before their operators are looked at
  bool balances_lines = true;        // straight pipelines of times alone as assembly lines
};

struct PipelineOptions {
  // Effort: pairs of cuts looked at, by default 80,000,000. Seed: of the random orders.
  // Tolerance: the gap at which a plan counts as optimal.
  SearchOptions search;
  PipelineObjective objective = PipelineObjective::kSlowestStage;
  int max_data_parallel = kMaxPipelineDevices;  // >= 1; 1: straight pipelines
  bool must_use_all_devices = false;
  std::int64_t max_downsets = std::int64_t{1} << 19;        // >= 1; more are not enumerated
  std::int64_t max_knapsack_nodes = std::int64_t{1} << 16;  // >= 0, for each choice of a stage
  int num_orders = 4;                                       // >= 1; the start's topological orders
  PipelineRules rules;
};

struct PipelineSearch {
  Outcome<PipelinePlan> outcome;  // objective in ms
  std::int64_t num_downsets = 0;  // enumerated in the last search over all of them
  std::int64_t num_pairs = 0;     // looked at in all
  std::int64_t num_stages = 0;    // whose operators were looked at
};

// Errors: as validate() says; kUsage for options outside their ranges, and for batches of a model
// without num_microbatches.
Result<PipelineSearch> plan_pipeline(const PipelineModel& model,
                                     const PipelineOptions& options = {},
                                     const RunContext& context = {});

}  // namespace plimsoll::partition
#pragma GCC visibility pop
