// Small models, all plans of them and the best: what tests of hazards share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "embedding/every_plan.h"
#include "plimsoll/check/sharding_check.h"
#include "plimsoll/embedding/balanced_search.h"

namespace plimsoll::embedding {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

inline Table make_table(const std::string& name, std::int64_t rows, std::int64_t columns,
                        Pooling pooling) {
  Table table;
  table.name = name;
  table.num_embeddings = rows;
  table.embedding_dim = columns;
  table.pooling = pooling;
  return table;
}

inline void set_room(PlanningProblem& problem, int world_size, int local_world_size, Bytes hbm,
                     double inter_host_bw) {
  topology::TopologySpec spec;
  spec.world_size = world_size;
  spec.local_world_size = local_world_size;
  spec.hbm_cap = hbm;
  spec.inter_host_bw = inter_host_bw;
  problem.topology = *topology::make_topology(spec, true, true);
  problem.reservation.percentage = 0;
}

// Time by the assumed step model: kernels, collectives, half a millisecond a type.
inline double time_of(const ShardingPlan& plan, const check::ShardingReport& report) {
  double kernels = 0, collectives = 0;
  for (const Perf& perf : report.perf) {
    kernels = std::max(kernels, perf.fwd_compute + perf.bwd_compute + perf.prefetch_compute);
    collectives = std::max(collectives, perf.fwd_comms + perf.bwd_comms);
  }
  std::set<std::pair<std::string, ShardingType>> types;
  for (const TableSharding& table : plan.tables) {
    types.insert({table.module_path, table.sharding_type});
  }
  return kernels + collectives + .5 * static_cast<double>(types.size());
}

struct Judged {
  std::size_t num_hazards = 0;
  double rating = 0;
  double time = 0;
};

// Hazards that searches count: all but those of numbers alone.
inline std::size_t count_hazards(const check::ShardingReport& report) {
  const std::vector<check::Finding> hazards = report.hazards();
  return static_cast<std::size_t>(
      std::count_if(hazards.begin(), hazards.end(), [](const check::Finding& hazard) {
        return hazard.code != check::FindingCode::kOptimizerStatePerBlock;
      }));
}

// All plans that the checker lets pass; without those of an optimizer state per block where they
// are ruled out.
inline std::vector<Judged> all_plans(const PlanningProblem& problem, bool strict_numerics = false) {
  const Estimator estimator(problem.cost_model, problem.topology, problem.mode);
  EnumerationOptions enumeration = problem.enumeration;
  enumeration.batch_size = problem.batch_size;
  const auto enumerated = enumerate(estimator, problem.model, enumeration);
  EXPECT_TRUE(enumerated) << (enumerated ? "" : format_error(enumerated.error()));
  std::vector<Judged> plans;
  for_each_plan(enumerated->options, HostColumns::kAnywhere, [&](const PlacedProposal& placed) {
    const ShardingPlan plan =
        make_sharding_plan(enumerated->options, placed, problem.model, problem.topology);
    const check::ShardingReport report = judge(problem, plan);
    const std::size_t num_hazards = count_hazards(report);
    if (!report.is_right() || (strict_numerics && num_hazards < report.hazards().size())) return;
    plans.push_back({num_hazards, report.rating, time_of(plan, report)});
  });
  return plans;
}

struct Best {
  std::size_t num_hazards = 0;
  double value = kInfinity;
};

// First the fewest hazards, then the least objective, of plans that rate at most `cap`.
inline Best best_of(const std::vector<Judged>& plans, BalanceObjective objective,
                    double cap = kInfinity) {
  Best best{std::numeric_limits<std::size_t>::max(), kInfinity};
  for (const Judged& plan : plans) {
    if (plan.rating > cap * (1 + 1e-9)) continue;
    const double value = objective == BalanceObjective::kRating ? plan.rating : plan.time;
    if (plan.num_hazards > best.num_hazards) continue;
    if (plan.num_hazards < best.num_hazards) best = {plan.num_hazards, kInfinity};
    best.value = std::min(best.value, value);
  }
  return best;
}

inline BalancedResult plan(const PlanningProblem& problem, const BalancedOptions& options) {
  SearchOptions search;
  search.effort = 20000;
  auto result = plan_balanced(problem, options, search, {});
  EXPECT_TRUE(result) << (result ? "" : format_error(result.error()));
  return *std::move(result);
}

inline std::vector<Warning> warnings_of(const BalancedResult& result, std::string_view code) {
  std::vector<Warning> found;
  for (const Warning& warning : result.planning.outcome.warnings) {
    if (warning.code == code) found.push_back(warning);
  }
  return found;
}

}  // namespace plimsoll::embedding
