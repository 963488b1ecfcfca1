// A cost graph's groups as pipelines of replicated stages see them: bytes of nodes, of weights and
// of microbatches apart.
#pragma once

#include <vector>

#include "partition/graph/group_graph.h"
#include "partition/pipeline/replica_chain.h"
#include "plimsoll/partition/replicated_stages.h"

namespace plimsoll::partition {

class PipelineGroups {
 public:
  // Both must outlive this. Precondition: valid.
  PipelineGroups(const CostGraph& graph, const PipelineTerms& terms);

  bool is_training() const { return is_training_; }
  int max_replicas() const { return max_replicas_; }

  // The graph with so many microbatches held everywhere.
  CostGraph with_microbatches(int in_flight) const;
  // Groups without what they hold for microbatches. `absorbs`: merged where that never costs
  // anything, however many microbatches are in flight.
  GroupGraph make(bool absorbs) const;
  // What replica_chain.h asks beside such groups, or clusters of them, in any order.
  ReplicaTerms terms_of(const GroupGraph& groups) const;
  // Stages that the bytes force, with one microbatch in flight. At least 1.
  int least_stages(const GroupGraph& groups) const;

 private:
  Bytes per_microbatch(const std::vector<int>& nodes) const;

  const CostGraph& graph_;
  const PipelineTerms& terms_;
  const bool is_training_;
  const int max_replicas_;
};

// The groups against the direction of data.
GroupGraph reverse(const GroupGraph& groups);

}  // namespace plimsoll::partition
