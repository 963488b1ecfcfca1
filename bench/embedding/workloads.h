// Inputs of the embedding benchmarks: public models by name and seeded random ones.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <string>

#include "plimsoll/embedding/planner.h"
#include "plimsoll/topology/topology.h"

namespace plimsoll::bench {

// A uniform double in [0, 1) from 53 bits of the generator.
inline double unit(std::mt19937_64& random) {
  return static_cast<double>(random() >> 11) * 0x1p-53;
}

// Rows log-uniform from 1e2 to 3e7, widths 16 to 256, pooling factors log-uniform from 1 to 60; one
// collection, row-wise Adagrad.
inline embedding::Model random_model(int num_tables, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  embedding::Model model;
  model.name = "random";
  model.optimizer = embedding::Optimizer::kRowWiseAdagrad;
  embedding::Module module;
  module.path = "ebc";
  for (int t = 0; t < num_tables; ++t) {
    embedding::Table table;
    table.name = "t" + std::to_string(t);
    table.num_embeddings = static_cast<std::int64_t>(std::pow(10.0, 2 + 5.5 * unit(random)));
    table.embedding_dim = std::int64_t{16} << (random() % 5);
    model.constraints[table.name].pooling_factors = {std::floor(std::pow(60.0, unit(random)) * 10) /
                                                     10};
    module.tables.push_back(table);
  }
  model.modules.push_back(module);
  return model;
}

// HugeCTR's 510-table benchmark ("110B"): groups of rows and ids, all 128 wide, no optimizer.
inline embedding::Model t510() {
  embedding::Model model;
  model.name = "hugectr-t510";
  embedding::Module module;
  module.path = "ebc";
  struct Group {
    int count;
    std::int64_t rows;
    double ids;
  };
  constexpr Group kGroups[] = {{100, 1000, 1},    {150, 100000, 1},  {20, 1000000, 1},
                               {50, 2000000, 1},  {150, 4000000, 1}, {20, 4000000, 10},
                               {20, 4000000, 100}};
  for (const Group& group : kGroups) {
    for (int i = 0; i < group.count; ++i) {
      embedding::Table table;
      table.name = "t" + std::to_string(module.tables.size());
      table.num_embeddings = group.rows;
      table.embedding_dim = 128;
      model.constraints[table.name].pooling_factors = {group.ids};
      module.tables.push_back(table);
    }
  }
  model.modules.push_back(module);
  return model;
}

// MLPerf DLRM-DCNv2: the 40M-capped Criteo tables with the benchmark's multi-hot sizes, Adagrad.
inline embedding::Model dcnv2() {
  constexpr std::int64_t kRows[] = {40000000, 39060,  17295,    7424,    20265,  3,        7122,
                                    1543,     63,     40000000, 3067956, 405282, 10,       2209,
                                    11938,    155,    4,        976,     14,     40000000, 40000000,
                                    40000000, 590152, 12973,    108,     36};
  constexpr double kIds[] = {3, 2, 1, 2, 6, 1, 1,  1,   1,  7,  3, 8, 1,
                             6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1};
  embedding::Model model;
  model.name = "mlperf-dlrm-dcnv2";
  model.optimizer = embedding::Optimizer::kOther;
  embedding::Module module;
  for (int t = 0; t < 26; ++t) {
    embedding::Table table;
    table.name = "t_cat_" + std::to_string(t);
    table.num_embeddings = kRows[t];
    table.embedding_dim = 128;
    model.constraints[table.name].pooling_factors = {kIds[t]};
    module.tables.push_back(table);
  }
  model.modules.push_back(module);
  return model;
}

inline embedding::PlanningProblem make_problem(embedding::Model model, int world_size, int hbm_gib,
                                               std::int64_t batch_size) {
  embedding::PlanningProblem problem;
  problem.model = std::move(model);
  problem.cost_model = *embedding::find_cost_model("torchrec-ref");
  problem.batch_size = batch_size;
  topology::TopologySpec spec;
  spec.world_size = world_size;
  spec.local_world_size = world_size < 8 ? world_size : 8;
  spec.hbm_cap = hbm_gib * kGiB;
  problem.topology = *topology::make_topology(spec, true, false);
  return problem;
}

}  // namespace plimsoll::bench
