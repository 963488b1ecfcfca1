#include "check/embedding/plan_space.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "check/embedding/placement_rules.h"
#include "core/check.h"
#include "plimsoll/embedding/perf_model.h"
#include "plimsoll/embedding/resident_memory.h"

namespace plimsoll::check {
namespace {

using embedding::Perf;
using embedding::PlanTimes;

template <class Of>
double largest(const std::vector<Perf>& perf, const Of& of) {
  double result = 0;
  for (const Perf& rank : perf) result = std::max(result, of(rank));
  return result;
}

// Sums over the shards of every rank; the largest.
template <class Of>
Result<double> largest_sum(const embedding::ShardingPlan& plan, const Of& of) {
  std::vector<double> sums(static_cast<std::size_t>(plan.world_size));
  for (const embedding::TableSharding& sharding : plan.tables) {
    for (const embedding::PlacedShard& shard : expand_shards(sharding)) {
      PLIMSOLL_ASSIGN(const double value, of(sharding, shard));
      sums[static_cast<std::size_t>(shard.rank)] += value;
    }
  }
  return *std::max_element(sums.begin(), sums.end());
}

// What is known of tables before they are cut, enumerated for the checker alone.
struct Tables {
  embedding::Estimator estimator;
  embedding::Enumeration enumeration;
  std::map<std::string, std::int32_t> index_of;  // by fqn

  const embedding::TableProfile& profile_of(const embedding::TableSharding& sharding) const {
    return enumeration.profiles[static_cast<std::size_t>(index_of.at(sharding.fqn()))];
  }
};

Result<Tables> enumerate_tables(const embedding::PlanningProblem& problem) {
  Tables tables{{problem.cost_model, problem.topology, problem.mode}, {}, {}};
  embedding::EnumerationOptions options = problem.enumeration;
  options.batch_size = problem.batch_size;
  PLIMSOLL_ASSIGN(tables.enumeration, enumerate(tables.estimator, problem.model, options));
  for (std::size_t t = 0; t < tables.enumeration.profiles.size(); ++t) {
    tables.index_of[tables.enumeration.options.tables[t].fqn] = static_cast<std::int32_t>(t);
  }
  return tables;
}

// The most that any rank sends out.
Result<double> output_bytes_of(const Tables& tables, const embedding::ShardingPlan& plan) {
  return largest_sum(
      plan,
      [&](const embedding::TableSharding& sharding,
          const embedding::PlacedShard& shard) -> Result<double> {
        const embedding::TableProfile& profile = tables.profile_of(sharding);
        const double element =
            profile.output_element_size.value_or(static_cast<double>(profile.shape.element_size));
        PLIMSOLL_ASSIGN(const auto io,
                        tables.estimator.shard_io(profile, sharding.sharding_type, shard.rows,
                                                  shard.columns, element));
        return static_cast<double>(io.output);
      });
}

// The option that a table of a plan takes, as far as times of a machine read it.
embedding::Option option_of(const Tables& tables, const embedding::TableSharding& sharding) {
  embedding::Option option;
  option.table = tables.index_of.at(sharding.fqn());
  option.sharding_type = sharding.sharding_type;
  option.compute_kernel = sharding.compute_kernel;
  if (sharding.cache_params) option.cache_load_factor = sharding.cache_params->load_factor;
  if (sharding.dynamic_embedding) {
    option.dynamic_embedding_mode = sharding.dynamic_embedding->mode;
    option.cache_load_factor = sharding.dynamic_embedding->load_factor;
  }
  return option;
}

// Kernels and collectives of every rank by the machine model, and its charges for sharding types.
struct MachineTimes {
  double kernels = 0, collectives = 0;  // of the slowest ranks
  double charges = 0;
};

Result<MachineTimes> machine_times_of(
    const embedding::PlanningProblem& problem, const Tables& tables,
    const embedding::ShardingPlan& plan, const embedding::StepModel& model,
    const std::set<std::pair<std::string, embedding::ShardingType>>& types) {
  PLIMSOLL_ASSIGN(
      const embedding::CalibratedTimes times,
      embedding::CalibratedTimes::make(*problem.machine, tables.estimator,
                                       tables.enumeration.options, tables.enumeration.profiles));
  const std::vector<double>& speeds = problem.topology.device_speeds;
  std::vector<double> kernels(static_cast<std::size_t>(plan.world_size));
  std::vector<double> collectives(kernels.size());
  for (const embedding::TableSharding& sharding : plan.tables) {
    const embedding::Option option = option_of(tables, sharding);
    std::map<std::pair<std::int64_t, std::int64_t>, embedding::CalibratedTimes::ShardTimes> known;
    for (const embedding::PlacedShard& shard : expand_shards(sharding)) {
      const auto [entry, is_new] = known.try_emplace({shard.rows, shard.columns});
      if (is_new) entry->second = times.shard_times(option, shard.rows, shard.columns);
      const auto rank = static_cast<std::size_t>(shard.rank);
      kernels[rank] += entry->second.kernels / (speeds.empty() ? 1 : speeds[rank]);
      collectives[rank] += entry->second.collectives;
    }
  }
  MachineTimes found;
  found.kernels = *std::max_element(kernels.begin(), kernels.end());
  found.collectives = *std::max_element(collectives.begin(), collectives.end());
  for (const auto& [module_path, type] : types) {
    found.charges += times.type_charge(model, module_path, type);
  }
  return found;
}

CheckOptions check_options_of(const embedding::PlanningProblem& problem,
                              const embedding::BridgeOptions& rules) {
  CheckOptions options;
  options.batch_size = problem.batch_size;
  options.reservation = problem.reservation;
  options.fqn_constraints = problem.enumeration.fqn_constraints;
  options.global_constraints = problem.enumeration.global_constraints;
  options.pools_ddr = rules.pools_ddr;
  options.strict_numerics = rules.strict_numerics;
  options.is_whole = true;
  return options;
}

// What the options say as a plan; nothing where they do not place every table once.
std::optional<embedding::PlacedProposal> place(const embedding::OptionSet& options,
                                               const std::vector<StatedOption>& stated) {
  std::map<std::string_view, const StatedOption*> by_fqn;
  for (const StatedOption& entry : stated) by_fqn[entry.fqn] = &entry;
  embedding::PlacedProposal placed;
  placed.first_rank.push_back(0);
  for (const embedding::TableOptions& table : options.tables) {
    const auto found = by_fqn.find(table.fqn);
    if (found == by_fqn.end()) return std::nullopt;
    placed.options.push_back(static_cast<std::int32_t>(found->second->option));
    placed.ranks.insert(placed.ranks.end(), found->second->ranks.begin(),
                        found->second->ranks.end());
    placed.first_rank.push_back(std::ssize(placed.ranks));
  }
  return placed;
}

embedding::ShardingPlan plan_of(const PlanSpace& space, const embedding::OptionSet& options,
                                const embedding::PlacedProposal& placed) {
  return make_sharding_plan(options, placed, space.problem->model, space.problem->topology,
                            space.problem->enumeration);
}

Result<OtherPlan> sum_up(const PlanSpace& space, const embedding::BridgeOptions& rules,
                         const embedding::ShardingPlan& plan, const ShardingReport& report) {
  OtherPlan other;
  other.num_hazards = count_avoided_hazards(report);
  for (const topology::Storage& used : report.used) other.hbm = std::max(other.hbm, used.hbm);
  std::vector<Finding> violations = report.violations();
  if (violations.empty()) {
    violations = find_broken_rules(plan, rules, space.bridge->problem.ranks_per_host);
  }
  if (!violations.empty()) {
    other.fault = violations.front().message;
    return other;
  }
  PLIMSOLL_ASSIGN(other.times, times_of(space, plan, report, rules.step_model));
  return other;
}

}  // namespace

std::size_t count_avoided_hazards(const ShardingReport& report) {
  return static_cast<std::size_t>(
      std::count_if(report.findings.begin(), report.findings.end(), [](const Finding& finding) {
        return finding.severity == Severity::kHazard &&
               finding.code != FindingCode::kOptimizerStatePerBlock;
      }));
}

Result<PlanTimes> times_of(const PlanSpace& space, const embedding::ShardingPlan& plan,
                           const ShardingReport& sharding, const embedding::StepModel& model) {
  PLIMSOLL_CHECK(sharding.is_right(), "the plan has no violations");
  const std::vector<Perf>& perf = sharding.perf;
  PlanTimes times;
  times.rating = sharding.rating;
  times.step = largest(perf, [](const Perf& p) { return p.fwd_compute; }) +
               largest(perf, [](const Perf& p) { return p.fwd_comms; }) +
               largest(perf, [](const Perf& p) { return p.bwd_compute; }) +
               largest(perf, [](const Perf& p) { return p.bwd_comms; }) +
               largest(perf, [](const Perf& p) { return p.prefetch_compute; });
  std::set<std::pair<std::string, embedding::ShardingType>> types;
  for (const embedding::TableSharding& table : plan.tables) {
    types.emplace(table.module_path, table.sharding_type);
  }
  MachineTimes parts;
  parts.kernels = largest(
      perf, [](const Perf& p) { return p.fwd_compute + p.bwd_compute + p.prefetch_compute; });
  parts.collectives = largest(perf, [](const Perf& p) { return p.fwd_comms + p.bwd_comms; });
  parts.charges = model.ms_per_sharding_type * static_cast<double>(types.size());
  const bool has_machine = space.problem->machine != nullptr && !space.is_given;
  const bool has_outputs = model.ms_per_output_byte > 0 && !space.is_given;
  if (has_machine || has_outputs) {
    PLIMSOLL_ASSIGN(const Tables tables, enumerate_tables(*space.problem));
    if (has_machine) {
      PLIMSOLL_ASSIGN(parts, machine_times_of(*space.problem, tables, plan, model, types));
    }
    if (has_outputs) {
      PLIMSOLL_ASSIGN(const double bytes, output_bytes_of(tables, plan));
      times.time += model.ms_per_output_byte * bytes;
    }
  }
  times.time += model.floor_ms + parts.charges + model.kernel_weight * parts.kernels +
                model.collective_weight * parts.collectives;
  if (model.ms_per_table > 0) {
    PLIMSOLL_ASSIGN(const double shards, largest_sum(plan, [](const auto&, const auto&) {
                      return Result<double>(1.0);
                    }));
    times.time += model.ms_per_table * shards;
  }
  return times;
}

Result<std::vector<embedding::Extrapolation>> add_machine_times(
    const embedding::PlanningProblem& problem, const embedding::ShardingPlan& plan, Bill& bill) {
  PLIMSOLL_CHECK(problem.machine != nullptr, "the problem has a machine model");
  PLIMSOLL_ASSIGN(const Tables tables, enumerate_tables(problem));
  PLIMSOLL_ASSIGN(
      const embedding::CalibratedTimes times,
      embedding::CalibratedTimes::make(*problem.machine, tables.estimator,
                                       tables.enumeration.options, tables.enumeration.profiles));
  embedding::CalibratedBillMaker maker(times);
  for (const embedding::TableSharding& sharding : plan.tables) {
    const embedding::Option option = option_of(tables, sharding);
    for (const embedding::PlacedShard& shard : expand_shards(sharding)) {
      maker.add(option, shard.rows, shard.columns, shard.rank);
    }
  }
  embedding::CalibratedBill found = maker.finish();
  std::vector<embedding::Extrapolation> extrapolated = std::move(found.extrapolated);
  embedding::add_to_bill(std::move(found), bill);
  return extrapolated;
}

Result<void> add_resident_bytes(const embedding::PlanningProblem& problem,
                                const embedding::ShardingPlan& plan, Bill& bill) {
  if (problem.mode.inference || plan.tables.empty()) return {};
  PLIMSOLL_ASSIGN(const Tables tables, enumerate_tables(problem));
  embedding::ResidentMemory resident(tables.estimator);
  for (const embedding::TableSharding& sharding : plan.tables) {
    const embedding::Option option = option_of(tables, sharding);
    const embedding::TableProfile profile = embedding::profile_of(
        tables.enumeration.profiles[static_cast<std::size_t>(option.table)], option);
    std::map<std::pair<std::int64_t, std::int64_t>, embedding::ResidentParts> known;
    std::vector<std::int32_t> first_ranks;
    std::set<std::int64_t> columns;
    for (const embedding::PlacedShard& shard : expand_shards(sharding)) {
      const auto [entry, is_new] = known.try_emplace({shard.rows, shard.columns});
      if (is_new) {
        PLIMSOLL_ASSIGN(const embedding::StorageParts counted,
                        tables.estimator.shard_storage_parts(profile, sharding.sharding_type,
                                                             sharding.compute_kernel, shard.rows,
                                                             shard.columns));
        PLIMSOLL_ASSIGN(entry->second, resident.shard_parts(profile, sharding.sharding_type,
                                                            sharding.compute_kernel, shard.rows,
                                                            shard.columns, counted));
      }
      resident.add(entry->second, shard.rank);
      if (columns.insert(shard.column).second) first_ranks.push_back(shard.rank);
    }
    const embedding::TableOptions& place =
        tables.enumeration.options.tables[static_cast<std::size_t>(option.table)];
    PLIMSOLL_RETURN_IF_ERROR(resident.add_table(profile, place.module_path, place.table,
                                                sharding.sharding_type, first_ranks));
  }
  embedding::add_to_bill(resident.finish(), bill);
  return {};
}

Result<OtherPlan> judge_other(const PlanSpace& space, const embedding::BridgeOptions& rules,
                              const embedding::ShardingPlan& plan,
                              const std::vector<StatedOption>& options) {
  if (!space.is_given) {
    PLIMSOLL_ASSIGN(const ShardingReport report,
                    check_sharding(space.problem->model, plan, space.problem->topology,
                                   space.problem->cost_model, space.problem->mode,
                                   check_options_of(*space.problem, rules)));
    return sum_up(space, rules, plan, report);
  }
  const ShardingReport report = check_options(
      {*space.input.options, space.problem->model, *space.input.room, space.problem->cost_model},
      options, nullptr, rules.pools_ddr, false, rules.strict_numerics, std::nullopt);
  if (!report.is_right()) return sum_up(space, rules, {}, report);
  const auto placed = place(*space.input.options, options);
  return sum_up(space, rules, plan_of(space, *space.input.options, *placed), report);
}

Result<OtherPlan> judge_other(const PlanSpace& space, const embedding::BridgeOptions& rules,
                              const embedding::OptionSet& options,
                              const embedding::PlacedProposal& placed) {
  std::vector<StatedOption> stated;
  for (std::size_t p = 0; space.is_given && p < placed.options.size(); ++p) {
    const auto index = static_cast<std::size_t>(placed.options[p]);
    const auto table = static_cast<std::size_t>(options.options[index].table);
    StatedOption& entry = stated.emplace_back();
    entry = {options.tables[table].fqn, placed.options[p], {}, std::nullopt};
    for_each_shard(options, placed, p,
                   [&](const embedding::ShardView& shard) { entry.ranks.push_back(shard.rank); });
  }
  return judge_other(space, rules, plan_of(space, options, placed), stated);
}

}  // namespace plimsoll::check
