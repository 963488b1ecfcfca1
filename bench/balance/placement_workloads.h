// Placement problems of the public embedding models, as balanced sharding sees them.
#pragma once

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "embedding/workloads.h"
#include "plimsoll/balance/placement_problem.h"
#include "plimsoll/embedding/enumerator.h"
#include "plimsoll/embedding/reservation.h"
#include "plimsoll/io/shipped.h"

namespace plimsoll::bench {

// The options of one enumeration, appended to the units' choices. Table-column-wise options cost
// what column-wise ones do and are left out.
inline void add_choices(const embedding::OptionSet& set, bool column_cuts_alone,
                        std::vector<balance::Unit>& units) {
  units.resize(set.tables.size());
  for (const embedding::Option& option : set.options) {
    using embedding::PartitionBy;
    using embedding::ShardingType;
    const bool is_column = option.sharding_type == ShardingType::kColumnWise ||
                           option.sharding_type == ShardingType::kGridShard;
    if (option.sharding_type == ShardingType::kTableColumnWise) continue;
    if (column_cuts_alone && !is_column) continue;
    balance::UnitChoice choice;
    choice.spread = option.partition_by == PartitionBy::kUniform  ? balance::Spread::kUniform
                    : option.partition_by == PartitionBy::kDevice ? balance::Spread::kDevice
                                                                  : balance::Spread::kHost;
    if (choice.spread == balance::Spread::kHost) choice.num_blocks = option.column_blocks;
    const std::int64_t copies =
        choice.spread == balance::Spread::kDevice ? option.column_blocks : 1;
    for (const embedding::ShardRun& run : set.shards(option).runs) {
      choice.runs.push_back({run.count * copies,
                             {run.perf.total()},
                             {run.storage.hbm, run.storage.ddr, run.storage.ssd}});
    }
    balance::Unit& unit = units[static_cast<std::size_t>(option.table)];
    unit.name = set.tables[static_cast<std::size_t>(option.table)].name;
    unit.choices.push_back(std::move(choice));
  }
}

// `wide`: besides the default options every width that divides a table's, is a multiple of 4 and
// gives at most 8 column blocks. Ends the program where the model cannot be enumerated.
inline balance::PlacementProblem make_placement_problem(const embedding::PlanningProblem& planning,
                                                        bool wide) {
  const auto fail = [](const Error& error) {
    std::fprintf(stderr, "%s\n", format_error(error).c_str());
    std::exit(1);
  };
  const auto reservation =
      embedding::reserve(planning.cost_model, planning.reservation, planning.topology,
                         planning.model, planning.batch_size);
  if (!reservation) fail(reservation.error());
  const embedding::Estimator estimator(planning.cost_model, planning.topology, planning.mode);
  embedding::EnumerationOptions options;
  options.batch_size = planning.batch_size;
  balance::PlacementProblem problem;
  problem.num_ranks = planning.topology.world_size;
  problem.ranks_per_host = planning.topology.local_world_size;
  problem.resources = {{.name = "hbm"}, {.name = "ddr"}, {.name = "ssd"}};
  for (const topology::Storage& device : reservation->topology.devices) {
    problem.caps.push_back({device.hbm, device.ddr, device.ssd});
  }
  for (int blocks = 0; blocks <= (wide ? 8 : 0); ++blocks) {
    embedding::Model model = planning.model;
    if (blocks > 0) {
      for (embedding::Module& module : model.modules) {
        for (embedding::Table& table : module.tables) {
          const std::int64_t width = table.embedding_dim / blocks;
          const bool divides = width * blocks == table.embedding_dim && width % 4 == 0;
          embedding::ParameterConstraints& constraints = model.constraints[table.name];
          constraints.min_partition = divides ? width : table.embedding_dim;
          constraints.sharding_types = {embedding::ShardingType::kColumnWise,
                                        embedding::ShardingType::kGridShard};
        }
      }
    }
    const auto enumeration = embedding::enumerate(estimator, model, options);
    if (!enumeration) fail(enumeration.error());
    add_choices(enumeration->options, blocks > 0, problem.units);
  }
  return problem;
}

// The set-up of docs/benchmarks.md#the-balanced-search: hosts of 8, Adagrad for DCNv2 and the
// NVIDIA ladder, none for HugeCTR, local batches by the number of ranks.
inline balance::PlacementProblem shipped_placement(const std::string& id, int ranks, int hbm_gib,
                                                   bool wide, embedding::Optimizer optimizer) {
  const auto shipped = io::load_shipped_model(id);
  if (!shipped) std::exit(1);
  embedding::Model model = *shipped;
  model.optimizer = optimizer;
  for (embedding::Module& module : model.modules) {
    for (embedding::Table& table : module.tables) table.optimizer.reset();
  }
  static const std::map<int, std::int64_t> kBatch = {{8, 8192},  {16, 4096}, {32, 2048},
                                                     {64, 1024}, {128, 512}, {4096, 64}};
  return make_placement_problem(make_problem(std::move(model), ranks, hbm_gib, kBatch.at(ranks)),
                                wide);
}

}  // namespace plimsoll::bench
