// Option sets made by hand, shard by shard, for tests of proposers and partitioners.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/embedding/option_set.h"
#include "plimsoll/embedding/proposer.h"

namespace plimsoll::embedding {

class OptionSetBuilder {
 public:
  OptionSetBuilder(int world_size, int local_world_size) {
    set_.world_size = world_size;
    set_.local_world_size = local_world_size;
    set_.group_size = local_world_size;
  }

  // Later options belong to this table.
  OptionSetBuilder& table(std::string name, std::string module_path = "m",
                          std::string dependency = "") {
    TableOptions table;
    table.fqn = module_path + "." + name;
    table.name = std::move(name);
    table.module_path = std::move(module_path);
    table.dependency = std::move(dependency);
    table.first_option = static_cast<std::int32_t>(set_.options.size());
    table.shape = {100, 64, 4, 25600};
    table.pooling_factors = {1.0};
    set_.tables.push_back(std::move(table));
    return *this;
  }

  // `num_shards` equal shards in all; a cut by columns has a block for each, a grid for each host.
  OptionSetBuilder& option(ShardingType type, std::int64_t num_shards, Storage storage, double perf,
                           ComputeKernel kernel = ComputeKernel::kFused) {
    std::int64_t per_block = num_shards;
    if (type == ShardingType::kColumnWise || type == ShardingType::kTableColumnWise) per_block = 1;
    if (type == ShardingType::kGridShard) per_block = set_.group_size;
    ShardRun run;
    run.count = per_block;
    run.rows = 10;
    run.columns = 64;
    run.row_stride = type == ShardingType::kDataParallel ? 0 : 10;
    run.storage = storage;
    run.perf.fwd_compute = perf;

    Option option;
    option.table = static_cast<std::int32_t>(set_.tables.size()) - 1;
    option.sharding_type = type;
    option.compute_kernel = kernel;
    option.partition_by = partition_by(type);
    option.first_run = static_cast<std::int64_t>(set_.runs.size());
    option.num_runs = 1;
    option.column_blocks = static_cast<std::int32_t>(num_shards / per_block);
    set_.runs.push_back(run);
    set_.options.push_back(option);
    ++set_.tables.back().num_options;
    return *this;
  }

  const OptionSet& set() const { return set_; }

 private:
  OptionSet set_;
};

// The first option of every table, tables in order.
inline Proposal first_options(const OptionSet& options) {
  Proposal proposal;
  for (const TableOptions& table : options.tables) proposal.push_back(table.first_option);
  return proposal;
}

}  // namespace plimsoll::embedding
