// The best chain of replicated stages whose ends are given cuts.
//
// Problem. Cuts of a pipeline are sets of what the stages behind them do, from nothing to
// everything. A chain of cuts, each within the next, is a pipeline, built from its last stage
// forwards; each stage takes one of several options: so many devices, so many microbatches in
// flight. What a stage takes depends on its option and on the microbatches in flight over it and
// all stages behind it, its count. Find chains with every stage at most `limit` and, on demand, the
// least sum of times. Method. Labels (devices, count, sum) at every cut: whoever has more of each
// is dominated, for more in flight never makes a stage faster. With a limit on stages a cut can be
// reached only by as many devices as its work needs, and must leave enough for the rest: the
// window. Cost. Cuts * devices in the window * options * labels in the window. Promises. Finds such
// a chain, one with the least sum if sums count, or none if there is none; the latter proves it
// unless a time was unknown. Source: J. Tarnawski et al., "Piper: multidimensional planner for DNN
// parallelization", NeurIPS 2021 (docs/mathematics/placements.md#sources), whose value table over
// (devices, count) becomes a decision here; docs/mathematics/placements.md#piper.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "partition/graph/downsets.h"
#include "partition/stages/stage_chain.h"
#include "plimsoll/core/run_context.h"

namespace plimsoll::partition {

struct StageOption {
  int devices = 1;    // >= 1
  int in_flight = 1;  // >= 1, what it adds to the count
};

// A stage: the groups of cut `end` that cut `begin` has not, begin being a subset of end.
struct StageQuery {
  int begin = 0, end = 0;
  int option = 0;
  int count = 0;  // of this stage and all behind it
};

// What stages take; implemented for operator graphs and for tables.
class StageTimes {
 public:
  virtual ~StageTimes() = default;
  // More devices never come before fewer.
  virtual const std::vector<StageOption>& options() const = 0;
  // Infinite: impossible, or more than `limit`. With `is_any_enough` any plan of the stage within
  // the limit will do, else the least time is wanted.
  virtual double time_ms(const StageQuery& query, double limit, bool is_any_enough) = 0;
  // How often a time was taken as infinite without proof.
  virtual std::int64_t num_unknown() const = 0;
};

struct PipelineChainSearch {
  int num_devices = 1;
  int max_count = 1;
  double limit = kUnlimited;      // of every stage
  bool minimises_sum = false;     // else any chain will do
  double sum_limit = kUnlimited;  // larger sums are of no use
  // [cuts] or empty. A sum grows by at least rest[cut] less a credit for each device left, on the
  // way from a cut to the end.
  std::vector<double> rest;
  double credit = 0;
  bool must_use_all = false;  // devices
  bool uses_windows = true;
  bool drops_dominated = true;
  std::int64_t* pairs_left = nullptr;  // counted down; at 0 the search stops
};

struct PipelineChain {
  double sum = 0;                  // of stage times, if sums count
  std::vector<StageQuery> stages;  // in the direction of data: the last one ends the pipeline
};

struct PipelineChainAnswer {
  std::optional<PipelineChain> chain;
  ChainStop stop = ChainStop::kFinished;  // else nothing is known
  bool is_proof = true;                   // that there is none
};

// Precondition: `cuts` is finished, its work the least device time of a cut (or 0).
PipelineChainAnswer find_pipeline_chain(const Downsets& cuts, StageTimes& times,
                                        const PipelineChainSearch& search,
                                        const RunContext& context);

}  // namespace plimsoll::partition
