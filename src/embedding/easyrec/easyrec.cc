#include "plimsoll/embedding/easyrec.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "embedding/model/sharder.h"
#include "plimsoll/core/checked.h"
#include "plimsoll/topology/presets.h"

namespace plimsoll::embedding {
namespace {

template <class Number>
Result<void> read_number(const EnvironmentLookup& environment, std::string_view variable,
                         std::string_view remedy, Number& value) {
  const std::optional<std::string> text = environment(variable);
  if (!text) return {};
  const char* const end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  if (error == std::errc{} && stop == end) return {};
  return fail(ErrorCode::kValue, std::string(variable), fmt::format("'{}' is not a number", *text),
              std::string(remedy));
}

// What stops at the end of 64 bits is refused by the reservation.
void add_bytes(Bytes& sum, Bytes bytes) { sum = saturated_add(sum, bytes); }

// The sharders whose printed form contains "EmbeddingCollection" do not work without CUDA. What
// they leave is dense.
void drop_unsharded_modules(Model& model) {
  std::vector<Module> kept;
  for (Module& module : model.modules) {
    if (sharder_class_name(module.kind).find("EmbeddingCollection") == std::string_view::npos) {
      kept.push_back(std::move(module));
      continue;
    }
    add_bytes(model.dense_parameter_bytes, module.dense_parameter_bytes);
    add_bytes(model.dense_buffer_bytes, module.dense_buffer_bytes);
    for (const Table& table : module.tables) {
      if (const auto shape = table_shape(module, table)) {
        add_bytes(model.dense_parameter_bytes, shape->bytes);
      }
    }
  }
  model.modules = std::move(kept);
}

// TorchEasyRec constrains the types of a table by its fqn alone, which hides the constraint for all
// tables. It knows none by name; here a table constrained by name keeps what is said there.
void keep_checkpoint_types(const EasyRecSetup& setup, bool is_forced, PlanningProblem& problem) {
  ConstraintMap& constraints = problem.enumeration.fqn_constraints;
  for (const Module& module : problem.model.modules) {
    for (const Table& table : module.tables) {
      const std::string fqn = table_fqn(module.path, table.name);
      const auto type = setup.checkpoint_types.find(fqn);
      if (type == setup.checkpoint_types.end() || constraints.contains(fqn) ||
          table.dynamic_embedding) {
        continue;
      }
      if (!is_forced && type->second != ShardingType::kDataParallel) continue;
      ParameterConstraints kept;
      const auto named = problem.model.constraints.find(table.name);
      if (!setup.global_constraints && named != problem.model.constraints.end()) {
        if (!named->second.sharding_types.empty()) continue;
        kept = named->second;
      }
      kept.sharding_types = {type->second};
      constraints[fqn] = std::move(kept);
    }
  }
}

}  // namespace

Result<EasyRecEnvironment> read_easyrec_environment(const EnvironmentLookup& environment) {
  constexpr std::string_view kReserve = "STORAGE_RESERVE_PERCENT";
  constexpr std::string_view kShare = "give a number from 0 to 1, such as 0.15";
  constexpr std::string_view kBins = "give a whole number of bins, such as 100";
  EasyRecEnvironment result;
  double& share = result.reservation.percentage;
  PLIMSOLL_RETURN_IF_ERROR(read_number(environment, kReserve, kShare, share));
  if (!(share >= 0 && share <= 1)) {
    return fail(ErrorCode::kValue, std::string(kReserve),
                fmt::format("{} is not a share of the memory", share), std::string(kShare));
  }
  EasyRecDynamicProgrammingOptions& program = result.dynamic_programming;
  PLIMSOLL_RETURN_IF_ERROR(
      read_number(environment, "TZREC_DP_HBM_BINS_PER_DEVICE", kBins, program.hbm_bins_per_device));
  PLIMSOLL_RETURN_IF_ERROR(
      read_number(environment, "TZREC_DP_DDR_BINS_PER_DEVICE", kBins, program.ddr_bins_per_device));
  result.forces_checkpoint_plan = environment("FORCE_LOAD_SHARDING_PLAN") == "1";
  return result;
}

Result<EasyRecPlanner> make_easyrec_planner(const EasyRecSetup& setup,
                                            const EnvironmentLookup& environment) {
  PLIMSOLL_ASSIGN(const EasyRecEnvironment variables, read_easyrec_environment(environment));
  EasyRecPlanner planner;
  PlanningProblem& problem = planner.problem;

  topology::TopologySpec spec = setup.topology;
  if (setup.host_memory) topology::share_host_memory(*setup.host_memory, spec);
  PLIMSOLL_RETURN_IF_ERROR(topology::apply_easyrec_overrides(environment, spec));
  PLIMSOLL_ASSIGN(problem.topology,
                  make_topology(spec, setup.cost_model.zero_cap_is_default,
                                setup.cost_model.ssd_tier, !setup.cost_model.mtia_is_host));
  const bool has_cuda = spec.compute_device == ComputeDevice::kCuda;

  problem.model = setup.model;
  if (!has_cuda) drop_unsharded_modules(problem.model);
  problem.cost_model = setup.cost_model;
  problem.mode = setup.mode;
  problem.batch_size = setup.batch_size;
  problem.reservation = variables.reservation;
  problem.enumeration.fqn_constraints = setup.fqn_constraints;
  problem.enumeration.global_constraints = setup.global_constraints;
  keep_checkpoint_types(setup, setup.forces_checkpoint_plan || variables.forces_checkpoint_plan,
                        problem);

  planner.options.proposers = "easyrec";
  planner.options.easyrec_dynamic_programming = variables.dynamic_programming;
  planner.options.easyrec_dynamic_programming.has_cuda = has_cuda;
  return planner;
}

}  // namespace plimsoll::embedding
