// What operators and groups add to pipelines of replicated stages, one by one: the items of
// batch_bound.h.
//
// An item is charged for what is its own wherever it runs: its time, what replicas must agree on,
// its bytes with one microbatch in flight. Left out is what depends on its stage: what is moved,
// and more microbatches in flight. A weight of several groups is charged to the first of them.
#pragma once

#include "partition/graph/group_graph.h"
#include "partition/pipeline/batch_bound.h"
#include "partition/pipeline/replica_chain.h"
#include "plimsoll/partition/pipeline_model.h"

namespace plimsoll::partition {

// [num_groups] items. Precondition: groups of one operator each; num_microbatches is given.
BatchItems share_items(const PipelineModel& model, const GroupGraph& groups, int max_data_parallel);

// What an operator adds at least to its stage's time, in the stage that suits it best. Infinite: it
// fits none.
double least_stage_ms(const PipelineModel& model, int op, int max_data_parallel);

// [num_groups] items. Devices count as what they do in a ms, of the fastest kind 1. Precondition:
// every group may run somewhere.
BatchItems share_items(const GroupGraph& groups, const ReplicaTerms& terms);

// [num_kinds] the share of one device in BatchItems::devices.
std::vector<double> speeds_of_kinds(const GroupGraph& groups);

// [cuts] what the groups outside each cut add to the sum at least, at these prices, before what is
// paid for the devices left. Precondition: one item for each group; `cuts` is finished.
std::vector<double> least_after_cuts(const BatchBound& bound, const BatchPrices& prices,
                                     const Downsets& cuts);

}  // namespace plimsoll::partition
