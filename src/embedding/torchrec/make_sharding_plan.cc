// From placed options to the plan that is written, checked and printed.

#include <algorithm>

#include "plimsoll/embedding/planning_problem.h"

namespace plimsoll::embedding {
namespace {

void append_rank(std::int32_t rank, std::vector<RankRun>& runs) {
  if (!runs.empty() && runs.back().first + runs.back().count == rank) {
    ++runs.back().count;
  } else {
    runs.push_back({rank, 1});
  }
}

void pass_through(const ParameterConstraints& constraints, const Option& option,
                  TableSharding& sharding) {
  sharding.cache_params = constraints.cache_params;
  if (sharding.cache_params) sharding.cache_params->load_factor = option.cache_load_factor;
  sharding.enforce_hbm = constraints.enforce_hbm;
  sharding.stochastic_rounding = constraints.stochastic_rounding;
  sharding.bounds_check_mode = constraints.bounds_check_mode;
  sharding.output_dtype = constraints.output_dtype;
  sharding.key_value_params = constraints.key_value_params;
}

}  // namespace

ShardingPlan make_sharding_plan(const OptionSet& options, const PlacedProposal& placed,
                                const Model& model, const topology::Topology& topology,
                                const EnumerationOptions& enumeration) {
  ShardingPlan plan;
  plan.world_size = topology.world_size;
  plan.local_world_size = topology.local_world_size;
  plan.compute_device = topology.compute_device;
  plan.tables.reserve(placed.options.size());
  for (std::size_t position = 0; position < placed.options.size(); ++position) {
    const Option& option = options.options[static_cast<std::size_t>(placed.options[position])];
    const TableOptions& table = options.tables[static_cast<std::size_t>(option.table)];
    TableSharding sharding;
    sharding.module_path = table.module_path;
    sharding.table = table.name;
    sharding.sharding_type = option.sharding_type;
    sharding.compute_kernel = option.compute_kernel;
    const ShardRuns shards = options.shards(option);
    for (std::int64_t block = 0; block < shards.column_blocks; ++block) {
      for (const ShardRun& run : shards.runs) {
        sharding.shards.push_back(
            {run.count, run.rows, run.columns, run.first_row, block * run.columns, run.row_stride});
      }
    }
    if (option.partition_by == PartitionBy::kUniform) {
      sharding.ranks.push_back({0, static_cast<std::int32_t>(shards.num_shards())});
    } else {
      for (std::int64_t i = placed.first_rank[position]; i < placed.first_rank[position + 1]; ++i) {
        append_rank(placed.ranks[static_cast<std::size_t>(i)], sharding.ranks);
      }
    }
    if (table.module >= 0) {  // else the options come from a dump, without a model
      const Table& given = model.modules[static_cast<std::size_t>(table.module)]
                               .tables[static_cast<std::size_t>(table.table)];
      pass_through(find_constraints(model, enumeration.fqn_constraints,
                                    enumeration.global_constraints, table.module_path, given),
                   option, sharding);
      if (option.dynamic_embedding_mode) {
        sharding.dynamic_embedding = given.dynamic_embedding;
        sharding.dynamic_embedding->mode = option.dynamic_embedding_mode;
        sharding.dynamic_embedding->load_factor = option.cache_load_factor;
      }
    }
    plan.tables.push_back(std::move(sharding));
  }
  return plan;
}

}  // namespace plimsoll::embedding
