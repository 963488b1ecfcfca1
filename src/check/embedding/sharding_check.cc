// The checker of embedding plans.
//
// Problem. Say whether a sharding plan, whoever made it, runs on a machine, fits there, holds every
// row and column once, and is as fast as it claims.
// Method. Each table of the plan is laid beside its entry in the model and shown to every rule in
// turn (rules.h); then the estimator's cost of each shard is added to its rank, shard by shard in
// plan order, and the sums are compared with what the reservation left and with the stated rating.
// Cost. O(shards) additions; estimates and coverage once for each run of equal shards.
// Promises. No search, no cutting code and no sum of the planner is used; findings come in plan
// order, capacity and rating last. Nothing in the plan is trusted, sizes and counts included.
// Sources: docs/check.md#violations, docs/check.md#hazards,
// docs/mathematics/torchrec-planner.md#cutting-shards.

#include "plimsoll/check/sharding_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "check/embedding/rules.h"
#include "plimsoll/core/checked.h"

namespace plimsoll::check {
namespace {

using embedding::Perf;
using topology::Storage;

constexpr double kRatingTolerance = 1e-9;  // relative

using TableKey = std::pair<std::string_view, std::string_view>;  // module path, table name
struct ModelEntry {
  const embedding::Module* module;
  const embedding::Table* table;
};

void check_machine(const embedding::ShardingPlan& plan, const topology::Topology& topology,
                   Findings& findings) {
  const auto compare = [&](std::string_view what, const auto& expected, const auto& found) {
    if (expected == found) return;
    findings.add(FindingCode::kWrongMachine, "", std::nullopt, fmt::format("{}", expected),
                 fmt::format("{}", found),
                 fmt::format("the plan is for {} {}, the machine has {}", what, found, expected));
  };
  compare("world size", topology.world_size, plan.world_size);
  compare("local world size", topology.local_world_size, plan.local_world_size);
  compare("compute device", to_string(topology.compute_device), to_string(plan.compute_device));
}

embedding::ParameterConstraints constraints_of(const embedding::Model& model,
                                               const CheckOptions& options,
                                               const embedding::Module& module,
                                               const embedding::Table& table) {
  return embedding::find_constraints(model, options.fqn_constraints, options.global_constraints,
                                     module.path, table);
}

// Tables of another device group are planned elsewhere, so their absence is not a fault; a release
// that checks modules still wants one table of each.
void check_completeness(const embedding::Model& model, const std::set<TableKey>& planned,
                        const topology::Topology& topology, const embedding::CostModel& cost_model,
                        const CheckOptions& options, Findings& findings) {
  for (const embedding::Module& module : model.modules) {
    bool is_planned = false;
    for (const embedding::Table& table : module.tables) {
      if (planned.contains({module.path, table.name})) {
        is_planned = true;
        continue;
      }
      const auto group = constraints_of(model, options, module, table).device_group;
      if (group && *group != to_string(topology.compute_device)) continue;
      findings.add(FindingCode::kMissingTable, embedding::table_fqn(module.path, table.name),
                   std::nullopt, "a sharding", "none", "the plan leaves the table out");
    }
    if (!is_planned && !module.tables.empty() && cost_model.checks_modules_and_kernels) {
      findings.add(FindingCode::kMissingModule, module.path, std::nullopt, "at least one table",
                   "none", fmt::format("the plan leaves module '{}' out", module.path));
    }
  }
}

// The tables of the plan that the model knows, in plan order.
Result<std::vector<TableCase>> match_tables(const embedding::Model& model,
                                            const embedding::ShardingPlan& plan,
                                            const topology::Topology& topology,
                                            const embedding::CostModel& cost_model,
                                            const CheckOptions& options, Findings& findings) {
  std::map<TableKey, ModelEntry> entries;
  for (const embedding::Module& module : model.modules) {
    for (const embedding::Table& table : module.tables) {
      entries[{module.path, table.name}] = {&module, &table};
    }
  }
  std::vector<TableCase> cases;
  std::set<TableKey> planned;
  for (const embedding::TableSharding& sharding : plan.tables) {
    const TableKey key{sharding.module_path, sharding.table};
    const auto entry = entries.find(key);
    if (entry == entries.end()) {
      findings.add(FindingCode::kUnknownTable, sharding.fqn(), std::nullopt, "a table of the model",
                   sharding.fqn(), "the model has no such table");
      continue;
    }
    if (!planned.insert(key).second) {
      findings.add(FindingCode::kDuplicateTable, sharding.fqn(), std::nullopt, "one sharding",
                   "several", "the plan lists the table more than once");
    }
    const auto& [module, table] = entry->second;
    TableCase matched{&cost_model, &topology, &model, module, table, &sharding, {}, {}, {}};
    matched.constraints = constraints_of(model, options, *module, *table);
    matched.fqn = sharding.fqn();
    matched.is_whole = options.is_whole;
    PLIMSOLL_ASSIGN(matched.shape, embedding::table_shape(*module, *table));
    cases.push_back(std::move(matched));
  }
  check_completeness(model, planned, topology, cost_model, options, findings);
  return cases;
}

// What the plan says of caches and outputs counts; the statistics of a cache describe the table and
// are the model's where the plan does not repeat them.
Result<embedding::TableProfile> profile_of(const TableCase& table, std::int64_t batch_size) {
  PLIMSOLL_ASSIGN(auto profile, embedding::make_table_profile(
                                    *table.cost_model, *table.topology, table.model->optimizer,
                                    *table.module, *table.table, table.constraints, batch_size));
  const auto& known = table.constraints.cache_params;
  profile.cache_params = table.sharding->cache_params;
  if (profile.cache_params && !profile.cache_params->stats && known) {
    profile.cache_params->stats = known->stats;
  }
  profile.key_value_params = table.sharding->key_value_params;
  if (profile.dynamic_embedding) profile.dynamic_embedding = table.sharding->dynamic_embedding;
  profile.output_element_size.reset();
  if (table.sharding->output_dtype) {
    if (const auto bits = embedding::bit_width(*table.sharding->output_dtype)) {
      profile.output_element_size = *bits / 8.0;
    }
  }
  return profile;
}

struct ShardCost {
  Perf perf;
  Storage storage;
  embedding::StorageParts parts;
};

Result<ShardCost> estimate(const embedding::Estimator& estimator,
                           const embedding::TableProfile& profile,
                           const embedding::TableSharding& sharding, const ShardBlock& block) {
  ShardCost cost;
  PLIMSOLL_ASSIGN(cost.perf,
                  estimator.shard_perf(profile, sharding.sharding_type, sharding.compute_kernel,
                                       block.rows, block.columns));
  PLIMSOLL_ASSIGN(cost.storage,
                  estimator.shard_storage(profile, sharding.sharding_type, sharding.compute_kernel,
                                          block.rows, block.columns));
  PLIMSOLL_ASSIGN(cost.parts, estimator.shard_storage_parts(profile, sharding.sharding_type,
                                                            sharding.compute_kernel, block.rows,
                                                            block.columns));
  return cost;
}

// Adds every shard of the table to its rank. False if a shard could not be estimated.
Result<bool> add_costs(const embedding::Estimator& estimator, const TableCase& table,
                       const PlacedTable& placed, std::int64_t batch_size, ShardingReport& report,
                       Findings& findings) {
  PLIMSOLL_ASSIGN(const auto profile, profile_of(table, batch_size));
  const auto& cache = table.sharding->cache_params;
  if (cache && cache->load_factor && !(*cache->load_factor >= 0 && *cache->load_factor <= 1)) {
    return false;  // reported already, and no ratio to reckon with
  }
  const auto& dynamic = table.sharding->dynamic_embedding;
  if (dynamic &&
      (dynamic->bucket_capacity < 1 ||
       (dynamic->load_factor && !(*dynamic->load_factor >= 0 && *dynamic->load_factor <= 1)))) {
    return false;  // as above
  }
  std::map<std::pair<std::int64_t, std::int64_t>, ShardCost> cost_by_size;
  for (const ShardBlock& block : placed.blocks) {
    const std::pair size{block.rows, block.columns};
    auto known = cost_by_size.find(size);
    if (known == cost_by_size.end()) {
      auto cost = estimate(estimator, profile, *table.sharding, block);
      if (!cost) {
        findings.add(FindingCode::kCannotEstimate, table.fqn, block.first_rank,
                     "shards that the estimator knows",
                     fmt::format("{} with kernel {}", to_string(table.sharding->sharding_type),
                                 to_string(table.sharding->compute_kernel)),
                     format_error(cost.error()));
        return false;
      }
      known = cost_by_size.emplace(size, *cost).first;
    }
    const ShardCost& cost = known->second;
    const std::vector<double>& speeds = table.topology->device_speeds;
    for (std::int64_t i = 0; i < block.count; ++i) {
      const auto rank = static_cast<std::size_t>(block.first_rank + i);
      report.used[rank] += cost.storage;
      for (const auto part :
           {&embedding::StorageParts::weights, &embedding::StorageParts::optimizer_state,
            &embedding::StorageParts::cache_state, &embedding::StorageParts::input_output}) {
        report.parts[rank].*part += cost.parts.*part;
      }
      const Perf perf = speeds.empty() ? cost.perf : embedding::at_speed(cost.perf, speeds[rank]);
      report.perf[rank] += perf;
      report.rank_ms[rank] += perf.total();
    }
  }
  return true;
}

void check_tier(std::string_view tier, std::size_t rank, Bytes cap, Bytes used,
                Findings& findings) {
  if (used <= cap && used < kSaturated) return;
  findings.add(FindingCode::kOverCapacity, "", static_cast<int>(rank),
               fmt::format("at most {} bytes of {}", cap, tier),
               fmt::format("{} bytes of {}", used, tier),
               fmt::format("rank {} has {} left for {} and needs {}", rank, format_bytes(cap), tier,
                           format_bytes(used)));
}

// DDR host by host, named by the host's first rank; a rank without a whole host has its own.
void check_pools(int local_world_size, const ShardingReport& report, Findings& findings) {
  const std::size_t num_ranks = report.used.size();
  const auto width = static_cast<std::size_t>(local_world_size);
  for (std::size_t first = 0; first < num_ranks;) {
    const std::size_t end = first + width <= num_ranks ? first + width : first + 1;
    Bytes cap = 0, used = 0;
    for (std::size_t rank = first; rank < end; ++rank) {
      cap = saturated_add(cap, report.capacity[rank].ddr);
      used = saturated_add(used, report.used[rank].ddr);
    }
    check_tier("ddr", first, cap, used, findings);
    first = end;
  }
}

Result<void> check_capacity(const embedding::Model& model, const topology::Topology& topology,
                            const embedding::CostModel& cost_model, const CheckOptions& options,
                            std::int64_t batch_size, ShardingReport& report, Findings& findings) {
  report.capacity = topology.devices;
  auto reservation =
      embedding::reserve(cost_model, options.reservation, topology, model, batch_size);
  if (reservation) {
    report.capacity = std::move(reservation->topology.devices);
  } else if (reservation.error().code == ErrorCode::kPlanner) {
    findings.add(FindingCode::kOverCapacity, "", 0, "room left after the reservation", "none",
                 "the reservation alone takes more than rank 0 has");
  } else {
    return tl::unexpected<Error>(std::move(reservation).error());
  }
  for (std::size_t rank = 0; rank < report.used.size(); ++rank) {
    const Storage& cap = report.capacity[rank];
    const Storage& used = report.used[rank];
    check_tier("hbm", rank, cap.hbm, used.hbm, findings);
    if (!options.pools_ddr) check_tier("ddr", rank, cap.ddr, used.ddr, findings);
    check_tier("ssd", rank, cap.ssd, used.ssd, findings);
  }
  if (options.pools_ddr) check_pools(topology.local_world_size, report, findings);
  return {};
}

void check_rating(double stated, const ShardingReport& report, Findings& findings) {
  const double scale = std::max(std::abs(stated), std::abs(report.rating));
  if (std::abs(stated - report.rating) <= kRatingTolerance * scale) return;
  findings.add(FindingCode::kRatingMismatch, "", std::nullopt, fmt::format("{} ms", report.rating),
               fmt::format("{} ms", stated),
               fmt::format("the plan states {} ms, but takes {} ms", stated, report.rating));
}

Result<void> check_arguments(const embedding::Model& model, const topology::Topology& topology,
                             const CheckOptions& options) {
  PLIMSOLL_RETURN_IF_ERROR(embedding::validate(model));
  const auto num_ranks = static_cast<std::size_t>(topology.world_size);
  const std::size_t num_speeds = topology.device_speeds.size();
  if (topology.world_size < 1 || topology.local_world_size < 1 ||
      topology.devices.size() != num_ranks || (num_speeds != 0 && num_speeds != num_ranks)) {
    return fail(ErrorCode::kValue, "topology",
                fmt::format("{} devices for a world of {} in hosts of {}", topology.devices.size(),
                            topology.world_size, topology.local_world_size),
                "make the topology with make_topology");
  }
  if (options.batch_size < 0) {
    return fail(ErrorCode::kValue, "batch_size",
                fmt::format("must be at least 0, not {}", options.batch_size));
  }
  return {};
}

}  // namespace

Result<ShardingReport> check_sharding(const embedding::Model& model,
                                      const embedding::ShardingPlan& plan,
                                      const topology::Topology& topology,
                                      const embedding::CostModel& cost_model,
                                      const embedding::RunMode& mode, const CheckOptions& options) {
  PLIMSOLL_RETURN_IF_ERROR(check_arguments(model, topology, options));
  const std::int64_t batch_size = options.batch_size > 0 ? options.batch_size : 512;
  const auto world_size = static_cast<std::size_t>(topology.world_size);
  ShardingReport report;
  report.used.resize(world_size);
  report.parts.resize(world_size);
  report.perf.resize(world_size);
  report.rank_ms.resize(world_size);

  Findings findings;
  check_machine(plan, topology, findings);
  PLIMSOLL_ASSIGN(const std::vector<TableCase> cases,
                  match_tables(model, plan, topology, cost_model, options, findings));

  const embedding::Estimator estimator(cost_model, topology, mode);
  std::vector<PlacedTable> placements;
  bool is_rated = cases.size() == plan.tables.size();
  for (const TableCase& table : cases) {
    check_permission(table, findings);
    const PlacedTable placed = place_shards(table, findings);
    const bool is_covered = placed.shapes_are_sound && check_coverage(table, placed, findings);
    check_placement(table, placed, findings);
    find_hazards(table, placed, is_covered, findings);
    PLIMSOLL_ASSIGN(const bool is_estimated,
                    add_costs(estimator, table, placed, batch_size, report, findings));
    is_rated = is_rated && placed.is_sound() && is_estimated;
    placements.push_back(placed);
  }
  check_colocation(cases, placements, findings);
  find_collection_hazards(cases, findings);
  PLIMSOLL_RETURN_IF_ERROR(
      check_capacity(model, topology, cost_model, options, batch_size, report, findings));
  report.rating = *std::max_element(report.rank_ms.begin(), report.rank_ms.end());
  if (is_rated && options.stated_rating) check_rating(*options.stated_rating, report, findings);
  count_hazards_as_violations(options.strict, options.strict_numerics, findings);

  report.findings = std::move(findings.all);
  return report;
}

}  // namespace plimsoll::check
