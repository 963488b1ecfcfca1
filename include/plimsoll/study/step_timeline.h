// The step that a plan's cost model predicts, as a timeline: processes are ranks, devices or
// stages, threads are streams. Which phases there are, and how they follow each other, is what the
// cost model knows and no more: docs/trace.md#what-is-drawn.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "plimsoll/checkpoint/module_stats.h"
#include "plimsoll/core/result.h"
#include "plimsoll/core/units.h"
#include "plimsoll/partition/cost_graph.h"
#include "plimsoll/study/checkpoint_answer.h"
#include "plimsoll/study/placement_answer.h"
#include "plimsoll/study/sharding_answer.h"

#pragma GCC visibility push(default)
namespace plimsoll::study {

struct PipelineAnswer;  // of a profile (study/partition/pipeline_answer.h)

struct TimelineProcess {
  std::string name;                  // "rank 0"
  std::vector<std::string> threads;  // "compute", "communication"
  bool operator==(const TimelineProcess&) const = default;
};

// On one thread, events follow each other or lie within each other.
struct TimelineEvent {
  int process = 0, thread = 0;
  std::string name;
  double start_ms = 0, duration_ms = 0;  // >= 0
  bool operator==(const TimelineEvent&) const = default;
};

// From this moment on a process holds so many bytes, by cause.
struct TimelineMemory {
  int process = 0;
  std::string tier;  // "HBM", "DDR", "memory"
  double at_ms = 0;
  std::vector<std::pair<std::string, Bytes>> bytes;
  bool operator==(const TimelineMemory&) const = default;
};

struct StepTimeline {
  std::vector<TimelineProcess> processes;
  std::vector<TimelineEvent> events;
  std::vector<TimelineMemory> memory;
  std::string what;   // "step", "batch of 8 microbatches", "one sample"
  double end_ms = 0;  // of what is named; events of other batches may end later
};

// Errors of all, at "plan": kValue for an answer without a plan, without times, or with more than
// 2^20 events.

// Ranks wait for each other after each phase, so that it ends with the plan's step.
Result<StepTimeline> predict_step(const ShardingAnswer& answer);

// Forward and backward pass of the modules one after another, units run again before their
// backward pass; memory while each module's backward pass runs. Error kValue where statistics and
// plan do not belong together.
Result<StepTimeline> predict_step(const CheckpointAnswer& answer,
                                  const checkpoint::ModuleStats& stats);

// Microbatches or samples through the stages, each as soon as the stage is free; of a placement for
// latency the pieces of its devices, which need its graph (else null; `names` are its nodes').
// Error kUsage, at "--model": a placement for latency without its graph; at "plan": one of
// torch.fx's, for which no schedule is predicted.
Result<StepTimeline> predict_step(const PlacementAnswer& answer, const partition::CostGraph* graph,
                                  const std::vector<std::string>& names);
Result<StepTimeline> predict_step(const PipelineAnswer& answer);

}  // namespace plimsoll::study
#pragma GCC visibility pop
