// TorchEasyRec's planner: what its create_planner sets up around TorchRec's search. Source:
// docs/mathematics/torchrec-planner.md#torcheasyrecs-setting.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "plimsoll/core/result.h"
#include "plimsoll/embedding/planner.h"

#pragma GCC visibility push(default)
namespace plimsoll::embedding {

// Looks an environment variable up.
using EnvironmentLookup = std::function<std::optional<std::string>(std::string_view)>;

// What the environment says beside the bandwidths (topology::apply_easyrec_overrides).
struct EasyRecEnvironment {
  ReservationOptions reservation;  // heuristical; STORAGE_RESERVE_PERCENT, a share of 1, else 0.15
  // TZREC_DP_HBM_BINS_PER_DEVICE, TZREC_DP_DDR_BINS_PER_DEVICE
  EasyRecDynamicProgrammingOptions dynamic_programming;
  bool forces_checkpoint_plan = false;  // FORCE_LOAD_SHARDING_PLAN is 1
};
// Error kValue, the variable as its place, where one is not a number or not a share.
Result<EasyRecEnvironment> read_easyrec_environment(const EnvironmentLookup& environment);

struct EasyRecSetup {
  Model model;
  topology::TopologySpec topology;
  std::optional<Bytes> host_memory;  // of one host; its ranks share it in place of their ddr_cap
  CostModel cost_model = default_cost_model();
  RunMode mode;
  std::int64_t batch_size = 512;  // per rank; 0 means 512
  ConstraintMap fqn_constraints;
  std::optional<ParameterConstraints> global_constraints;
  // Types of an existing plan by fqn. Tables that are data_parallel there, or all where the plan is
  // forced, keep their type unless constrained.
  std::map<std::string, ShardingType> checkpoint_types;
  bool forces_checkpoint_plan = false;  // the environment may, too
};

struct EasyRecPlanner {
  PlanningProblem problem;
  ReferenceOptions options;
};

// Where there is no CUDA the modules that TorchEasyRec leaves unsharded are gone from the problem's
// model, their tables counted as dense parameters. Errors: those of the environment and of
// make_topology.
Result<EasyRecPlanner> make_easyrec_planner(const EasyRecSetup& setup,
                                            const EnvironmentLookup& environment);

}  // namespace plimsoll::embedding
#pragma GCC visibility pop
