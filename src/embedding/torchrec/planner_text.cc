#include "embedding/torchrec/planner_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "embedding/model/sharder.h"
#include "embedding/torchrec/reference_text.h"

namespace plimsoll::embedding {
namespace {

Error planner_error(std::string kind, std::string message) {
  Error error;
  error.code = ErrorCode::kPlanner;
  error.kind = std::move(kind);
  error.message = std::move(message);
  return error;
}

std::string dense_and_kjt_text(const Reservation& reservation) {
  return fmt::format(
      "\n\t  Per rank reservation for dense storage: {}, \n\t  Per rank reservation for kjt "
      "storage: {}, ",
      storage_in_gb(reservation.dense.value_or(Storage{})),
      storage_in_gb(reservation.kjt.value_or(Storage{})));
}

std::string reservation_text(const Reservation& reservation) {
  const ReservationOptions& options = reservation.options;
  const auto gb = [](Bytes bytes) { return gigabytes(static_cast<double>(bytes)); };
  switch (options.kind) {
    case ReservationKind::kHeuristical:
      return fmt::format("\n\t  Storage reservation percentage: {}, {}",
                         python_repr(options.percentage), dense_and_kjt_text(reservation));
    case ReservationKind::kFixedPercentage:
    case ReservationKind::kInference:
      return fmt::format("\n\t  Storage reservation percentage: {}, ",
                         python_repr(options.percentage));
    case ReservationKind::kFixedAbsolute:
      return fmt::format("\n\t  Storage reservation: {} GB per device, ",
                         gb(options.absolute_bytes));
    case ReservationKind::kSkuAware:
      return fmt::format("\n\t  {}, {}\n\t  Runtime overhead: {} GB",
                         options.base_bytes
                             ? fmt::format("Measured model base: {} GB", gb(*options.base_bytes))
                             : fmt::format("Home-anchored margin: {} GB", gb(options.margin_bytes)),
                         dense_and_kjt_text(reservation), gb(options.overhead_bytes));
  }
  return "";
}

}  // namespace

Error no_plan_error(const PlanningProblem& problem, const Reservation& reservation,
                    const FailedSearch& search) {
  constexpr Bytes kMax = std::numeric_limits<Bytes>::max();
  const Storage lowest = search.lowest.value_or(Storage{kMax, kMax, kMax});
  const Storage available = reservation.topology.total_storage();
  const bool is_insufficient = !lowest.fits_in(available);
  const bool has_group = !search.device_group.empty();

  // The blanks are the reference's, two of them before "because" in one of the four cases.
  std::string message = "Unable to find a plan for this model ";
  if (has_group) message += fmt::format("in device_group {} ", search.device_group);
  if (has_group && is_insufficient) message += " ";
  message += is_insufficient ? "because of insufficient storage. \n"
                             : "because of the strict constraints. \n";
  message += fmt::format("Planner evaluated {} proposals", search.num_proposals);
  if (has_group) message += fmt::format(" for device group {}", search.device_group);
  message += fmt::format(
      ".\nPossible solutions:\n  1) Increase the number of devices ({})\n  2) Reduce the model "
      "size "
      "(\n\t  Global storage: {} GB, \n\t  Per rank hardware memory: {}, {}\n\t  Global storage "
      "available for model parallel: {}, \n\t  Global storage requirement for model parallel: "
      "{})\n  3) Reduce local batch size ({})\n  4) Remove planner constraints that might be "
      "reducing search space or available storage\nLast planner error: \n\t{}\n",
      problem.topology.world_size,
      gigabytes(static_cast<double>(problem.topology.total_storage().hbm)),
      storage_in_gb(problem.topology.devices.front()), reservation_text(reservation),
      storage_in_gb(available), storage_in_gb(lowest),
      problem.batch_size > 0 ? problem.batch_size : 512,
      search.last_planner_error.empty() ? "None" : search.last_planner_error);
  Error error = planner_error(is_insufficient ? "insufficient_storage" : "strict_constraints",
                              std::move(message));
  return error;
}

std::optional<Error> find_rank_error(const OptionSet& options, const PlacedProposal& best) {
  for (const std::int32_t rank : best.ranks) {
    if (rank >= 0 && rank < options.world_size) continue;
    return planner_error(
        "invalid_rank_assignment",
        fmt::format("rank {} of a shard lies outside 0..{}", rank, options.world_size - 1));
  }
  return std::nullopt;
}

std::optional<Error> find_plan_error(const PlanningProblem& problem, const Enumeration& enumeration,
                                     const PlacedProposal& best) {
  const CostModel& cost_model = problem.cost_model;
  const OptionSet& options = enumeration.options;
  if (!cost_model.checks_modules_and_kernels) return std::nullopt;

  std::set<std::string> planned;
  for (const std::int32_t option : best.options) {
    const auto table =
        static_cast<std::size_t>(options.options[static_cast<std::size_t>(option)].table);
    planned.insert(options.tables[table].module_path);
  }
  std::set<std::string> missing;
  for (const Module& module : problem.model.modules) {
    if (!module.tables.empty() && !planned.contains(module.path)) missing.insert(module.path);
  }
  if (!missing.empty()) {
    std::string list;
    for (const std::string& path : missing) {
      list += fmt::format("{}'{}'", list.empty() ? "" : ", ", path);
    }
    return planner_error("missing_module_in_plan",
                         fmt::format("The following shardable modules are not present in the "
                                     "sharding plan: [{}].",
                                     list));
  }

  std::vector<std::string> violations;
  for (const std::int32_t index : best.options) {
    const Option& option = options.options[static_cast<std::size_t>(index)];
    const std::string& fqn = options.tables[static_cast<std::size_t>(option.table)].fqn;
    const std::string_view kernel = to_string(option.compute_kernel);
    if (cost_model.checks_dense_is_data_parallel &&
        option.compute_kernel == ComputeKernel::kDense &&
        option.sharding_type != ShardingType::kDataParallel) {
      violations.push_back(fmt::format("{}: DENSE kernel requires DATA_PARALLEL sharding, got '{}'",
                                       fqn, to_string(option.sharding_type)));
    }
    const auto& factor = option.cache_load_factor;
    if (is_uvm_caching(option.compute_kernel) && factor && (*factor <= 0 || *factor >= 1)) {
      violations.push_back(
          fmt::format("{}: {} requires cache_load_factor strictly between 0 and 1, got {}", fqn,
                      kernel, python_repr(*factor)));
    }
    const Storage total = options.shards(option).total_storage();
    if (total.hbm < 0) {
      violations.push_back(
          fmt::format("{}: {} has negative HBM storage ({})", fqn, kernel, total.hbm));
    }
    if (total.ddr < 0) {
      violations.push_back(
          fmt::format("{}: {} has negative DDR storage ({})", fqn, kernel, total.ddr));
    }
  }
  if (violations.empty()) return std::nullopt;
  std::string message =
      fmt::format("Compute kernel validation failed with {} violation(s):", violations.size());
  for (const std::string& violation : violations) message += "\n  - " + violation;
  return planner_error("invalid_compute_kernel", std::move(message));
}

}  // namespace plimsoll::embedding
