// The best chain of replicated stages of a cost graph whose ends are given downsets.
//
// Problem. As in replicated_stages.h: cut the groups into a line of stages, give each devices of
// one kind, keep every stage within `limit`, and make the sum of stage times small.
// Method. Built from the last stage forwards, for what a stage holds depends on the replicas behind
// it: the groups are reversed, and a downset of them is what the last stages do. Every device is a
// replica, so the devices used say how many microbatches are in flight, and
//   sum(D, used) = min over E within D, kinds, d of  sum(E, used - d) + time(D \ E, d)
// over the stages that keep the limit and the caps. Kinds of one class may share a stage. A stage's
// cut nets and bytes are looked at only where its time alone would still improve a sum. Cost. Pairs
// of downsets * ways to have used up devices * options. Promises. Finds the least sum among these
// chains, or that none keeps limit and caps. Source: pipeline_chain.h, whose labels become a table,
// since devices and replicas are one number here, and devices have kinds.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "partition/graph/downsets.h"
#include "partition/stages/stage_chain.h"
#include "plimsoll/core/run_context.h"

namespace plimsoll::partition {

// What a stage of reversed groups costs beside their GroupGraph, whose memory is for one microbatch
// more than none: nodes' and weights' bytes alone.
struct ReplicaTerms {
  int num_microbatches = 1;
  int max_replicas = 1;
  bool is_training = false;
  std::vector<Bytes> node_bytes;      // [num_groups] of the nodes, without weights
  std::vector<Bytes> per_microbatch;  // [num_groups]
};

// Devices of a stage: how many of which kinds, all of one class.
struct ReplicaDevices {
  std::vector<std::pair<int, int>> of_kinds;  // kind, how many: at least 1
  int replicas = 0;                           // all together
};

struct ReplicaStage {
  ReplicaDevices devices;
  int begin = 0, end = 0;  // downsets; the stage is end \ begin
};

struct ReplicaChain {
  double sum = 0, slowest = 0;       // of stage times
  std::vector<ReplicaStage> stages;  // in the direction of data: the last one ends the pipeline
};

struct ReplicaChainSearch {
  double limit = kUnlimited;      // of every stage
  double sum_limit = kUnlimited;  // larger sums are of no use
  // [cuts], [num_kinds] or empty. A sum grows by at least rest[cut] less the credits of the devices
  // left, on the way from a cut to the end.
  std::vector<double> rest, credits;
  bool uses_windows = true;
  std::int64_t* pairs_left = nullptr;  // counted down; at 0 the search stops
};

struct ReplicaChainAnswer {
  std::optional<ReplicaChain> chain;
  ChainStop stop = ChainStop::kFinished;  // else nothing is known
};

// Precondition: `cuts` is finished and of `groups`.
ReplicaChainAnswer find_replica_chain(const GroupGraph& groups, const Downsets& cuts,
                                      const ReplicaTerms& terms, const ReplicaChainSearch& search,
                                      const RunContext& context);

// Ways to have used up devices.
double num_device_states(const GroupGraph& groups);

}  // namespace plimsoll::partition
