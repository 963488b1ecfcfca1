// DeepSeek's expert-parallelism load balancer, to the last digit.
//
// Problem and notation: expert_model.h. Method. Loads are rounded to float. Groups are packed on
// hosts, equally many each: by falling load, each on the lightest host with room. Within a host the
// expert with the largest load a replica gets the next spare slot, until none is left. Replicas
// are packed on ranks as groups on hosts. Where groups do not divide evenly over hosts, all is one
// host of one group. Ties go to the first.
// Quirks kept. Packs of one item each are not sorted: item i goes to pack i. Sums are floats.
// Departures. torch sorts experts of equal load, and adds up the loads of a group, in an order that
// depends on processor and release. Here equal ones stay in order, as with `stable=True`, and loads
// are added in order; token counts whose sums are below 2^24 are exact in any.
// Source: https://github.com/deepseek-ai/EPLB, eplb.py, `rebalance_experts`.
#pragma once

#include "plimsoll/experts/expert_model.h"

#pragma GCC visibility push(default)
namespace plimsoll::experts {

// `physical_to_logical_map`. Precondition: validate(model).
ExpertSlots rebalance_experts(const ExpertModel& model);

}  // namespace plimsoll::experts
#pragma GCC visibility pop
