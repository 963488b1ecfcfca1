// Plans drawn shard by shard, for the tests of the checker. Nothing of the planner is used here.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/check/sharding_check.h"
#include "plimsoll/embedding/sharding_plan.h"

namespace plimsoll::check {

using embedding::ComputeKernel;
using embedding::ModuleKind;
using embedding::ShardingType;

// A shard as one would draw it.
struct ToyShard {
  std::int64_t rows = 0, columns = 0, row = 0, column = 0;
  std::int32_t rank = 0;
};

// Runs of one, or with `merged` of as many equal shards on consecutive ranks as follow one another.
inline void set_shards(embedding::TableSharding& sharding, const std::vector<ToyShard>& shards,
                       bool merged = false) {
  sharding.ranks.clear();
  sharding.shards.clear();
  for (const ToyShard& s : shards) {
    if (merged && !sharding.ranks.empty()) {
      embedding::RankRun& ranks = sharding.ranks.back();
      if (ranks.first + ranks.count == s.rank) {
        ++ranks.count;
      } else {
        sharding.ranks.push_back({s.rank, 1});
      }
      embedding::ShardSizeRun& run = sharding.shards.back();
      const bool is_like = run.rows == s.rows && run.columns == s.columns && run.column == s.column;
      if (is_like && run.count == 1) {
        run.row_stride = s.row - run.row;
        run.count = 2;
      } else if (is_like && run.row + run.count * run.row_stride == s.row) {
        ++run.count;
      } else {
        sharding.shards.push_back({1, s.rows, s.columns, s.row, s.column, 0});
      }
      continue;
    }
    sharding.ranks.push_back({s.rank, 1});
    sharding.shards.push_back({1, s.rows, s.columns, s.row, s.column, 0});
  }
}

inline embedding::TableSharding make_sharding(std::string module_path, std::string table,
                                              ShardingType type, ComputeKernel kernel,
                                              const std::vector<ToyShard>& shards) {
  embedding::TableSharding sharding;
  sharding.module_path = std::move(module_path);
  sharding.table = std::move(table);
  sharding.sharding_type = type;
  sharding.compute_kernel = kernel;
  set_shards(sharding, shards);
  return sharding;
}

// Everything a check needs: a machine of `world_size` ranks in hosts of `local_world_size`, no
// reservation, an empty model and plan.
struct Toy {
  embedding::Model model;
  embedding::ShardingPlan plan;
  topology::Topology topology;
  embedding::CostModel cost_model = embedding::default_cost_model();
  embedding::RunMode mode;
  CheckOptions options;

  Toy(int world_size, int local_world_size,
      topology::ComputeDevice device = topology::ComputeDevice::kCuda) {
    topology.world_size = plan.world_size = world_size;
    topology.local_world_size = plan.local_world_size = local_world_size;
    topology.compute_device = plan.compute_device = device;
    topology.devices.assign(static_cast<std::size_t>(world_size), {kTiB, kTiB, kTiB});
    options.reservation.kind = embedding::ReservationKind::kFixedPercentage;
    options.reservation.percentage = 0;
  }

  embedding::Module& add_module(std::string path,
                                ModuleKind kind = ModuleKind::kEmbeddingBagCollection) {
    embedding::Module module;
    module.path = std::move(path);
    module.kind = kind;
    model.modules.push_back(std::move(module));
    return model.modules.back();
  }

  // To the last module.
  embedding::Table& add_table(std::string name, std::int64_t rows, std::int64_t columns) {
    embedding::Table table;
    table.name = std::move(name);
    table.num_embeddings = rows;
    table.embedding_dim = columns;
    model.modules.back().tables.push_back(std::move(table));
    return model.modules.back().tables.back();
  }

  // Of the last module's table of that name.
  embedding::TableSharding& place(std::string table, ShardingType type, ComputeKernel kernel,
                                  const std::vector<ToyShard>& shards) {
    plan.tables.push_back(
        make_sharding(model.modules.back().path, std::move(table), type, kernel, shards));
    return plan.tables.back();
  }

  Result<ShardingReport> try_check() const {
    return check_sharding(model, plan, topology, cost_model, mode, options);
  }
};

}  // namespace plimsoll::check
