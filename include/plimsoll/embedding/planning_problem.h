// What every embedding search and every judge of sharding plans starts from.
#pragma once

#include <cstdint>
#include <memory>

#include "plimsoll/embedding/enumerator.h"
#include "plimsoll/embedding/machine_model.h"
#include "plimsoll/embedding/proposer.h"
#include "plimsoll/embedding/reservation.h"
#include "plimsoll/embedding/sharding_plan.h"

#pragma GCC visibility push(default)
namespace plimsoll::embedding {

// The inputs of every embedding search.
struct PlanningProblem {
  Model model;
  topology::Topology topology;  // before reservation
  CostModel cost_model = default_cost_model();
  RunMode mode;
  std::int64_t batch_size = 512;  // per rank; 0 means 512
  ReservationOptions reservation;
  EnumerationOptions enumeration;               // its batch_size is overwritten
  std::shared_ptr<const MachineModel> machine;  // null: times are the release's estimates
};

// Converts placed options to the plan that is written and checked.
ShardingPlan make_sharding_plan(const OptionSet& options, const PlacedProposal& placed,
                                const Model& model, const topology::Topology& topology,
                                const EnumerationOptions& enumeration = {});

}  // namespace plimsoll::embedding
#pragma GCC visibility pop
