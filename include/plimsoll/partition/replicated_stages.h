// Stages of replicated devices for any cost graph, and what a batch of microbatches takes on them.
//
// The forward pass runs through the stages in a line, as in a contiguous split; each stage runs on
// devices of one class, replicas that take turns with the microbatches. Nodes of one colour share a
// stage, so a forward node and its backward mates do. A stage with nodes S on d devices takes, for
// one of n microbatches,
//   time(S) / d                          the time of its nodes on that class
//   + sum of amounts of cut nets / (r d)   each net of which S holds a part, but not all, once
//   + 4 (d - 1) weights(S) / (d n r)      replicas agree on their gradients, where the graph trains
// with r the link rate, or that of the slowest pair of devices concerned where the graph has pair
// rates. Each of its devices holds
//   memory(S) + weights(S) + y * sum per_microbatch,   y = ceil(s / d), but at most n / d,
// where s counts the replicas of this stage and all behind it, for so many microbatches wait for
// their backward pass there (1F1B). Without a backward pass y is 1. The batch takes the sum of
// stage times + (n - 1) * the slowest one. d divides n. A training graph that names no weights does
// not say what replicas would have to agree on, so that none of its stages is replicated.
// Source: docs/partition.md#a-batch-through-replicated-stages. Departure from pipeline_model.h: a
// value is paid for once by each stage that holds a part of it, however many of its readers the
// stage runs; its way back is a net of its own, of the backward pass.
#pragma once

#include <span>
#include <vector>

#include "plimsoll/core/result.h"
#include "plimsoll/core/units.h"
#include "plimsoll/partition/cost_graph.h"

#pragma GCC visibility push(default)
namespace plimsoll::partition {

struct PipelineTerms {
  int num_microbatches = 1;           // >= 1, of a batch
  int max_replicas = 1 << 16;         // >= 1, of a stage; 1: straight pipelines
  std::vector<Bytes> per_microbatch;  // [num_nodes] >= 0, held for each in flight; empty: nothing
  bool operator==(const PipelineTerms&) const = default;
};

struct ReplicatedStage {
  std::vector<int> nodes;    // ascending, at least one
  std::vector<int> devices;  // ascending, of one class; each is a replica
  bool operator==(const ReplicatedStage&) const = default;
};

struct ReplicatedStages {
  std::vector<ReplicatedStage> stages;  // in the direction of the forward pass
  bool operator==(const ReplicatedStages&) const = default;
};

struct ReplicatedStageFigures {
  double compute_ms = 0, transfer_ms = 0, sync_ms = 0;  // of a microbatch
  int in_flight = 1;                                    // microbatches that a device holds
  Bytes memory = 0;                                     // of a device
  double time_ms() const { return compute_ms + transfer_ms + sync_ms; }
  bool operator==(const ReplicatedStageFigures&) const = default;
};

// Errors, at the field's name. kValue: fewer than one microbatch or replica, negative bytes;
// kSchema: bytes for another number of nodes; kOverflow: all bytes of all microbatches leave 62
// bits. Precondition: a valid graph.
Result<void> validate(const CostGraph& graph, const PipelineTerms& terms);

bool is_training(const CostGraph& graph);

// The most replicas that a stage may have.
int replica_limit(const CostGraph& graph, const PipelineTerms& terms);

// Microbatches in flight on a device of a stage with `replicas`, when it and all stages behind it
// have `count`.
int microbatches_in_flight(bool is_training, int num_microbatches, int replicas, int count);

// What a moved net, produced in stage `source`, takes one of its holders, stages too, before
// replicas share it.
double transfer_ms(const CostGraph& graph, const Net& net, const ReplicatedStages& placement,
                   int source, std::span<const int> holders, int stage);

// [num_stages]. Precondition: validated, every node in one stage, devices that exist.
std::vector<ReplicatedStageFigures> figures_of_stages(const CostGraph& graph,
                                                      const PipelineTerms& terms,
                                                      const ReplicatedStages& placement);

// Sum of stage times + (num_microbatches - 1) * the slowest.
double batch_ms(const std::vector<ReplicatedStageFigures>& figures, int num_microbatches);

}  // namespace plimsoll::partition
#pragma GCC visibility pop
