// Shared by the tests that compare with printed numbers of the reference planner.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "plimsoll/embedding/cost_model.h"
#include "plimsoll/embedding/enumerator.h"
#include "plimsoll/embedding/estimator.h"
#include "plimsoll/embedding/option_set.h"
#include "plimsoll/topology/topology.h"

namespace plimsoll::embedding {

using topology::TopologySpec;

// Release 1.2, which lacks kernels, has tests of its own.
inline constexpr std::string_view kReleases[] = {"torchrec-ref", "torchrec-1.4", "torchrec-1.5",
                                                 "torchrec-1.7", "torchrec-1.8", "torchrec-1.9"};

inline CostModel cost_model_named(std::string_view name) {
  auto model = find_cost_model(name);
  EXPECT_TRUE(model.has_value()) << name;
  return model.value_or(default_cost_model());
}

inline Topology build(const TopologySpec& spec, const CostModel& cost_model) {
  auto topology = topology::make_topology(spec, cost_model.zero_cap_is_default, cost_model.ssd_tier,
                                          !cost_model.mtia_is_host);
  EXPECT_TRUE(topology.has_value()) << (topology ? "" : format_error(topology.error()));
  return topology.value_or(Topology{});
}

inline TopologySpec cluster(int world_size, int local_world_size,
                            ComputeDevice device = ComputeDevice::kCuda) {
  TopologySpec spec;
  spec.world_size = world_size;
  spec.local_world_size = local_world_size;
  spec.compute_device = device;
  return spec;
}

// A table of one feature, or of several once the lists are replaced; comms carry whole elements.
inline TableProfile table_of(std::int64_t rows, std::int64_t columns, int element_size = 4,
                             bool is_pooled = true) {
  TableProfile profile;
  profile.shape = {rows, columns, element_size, rows * columns * element_size};
  profile.is_pooled = is_pooled;
  profile.module_kind =
      is_pooled ? ModuleKind::kEmbeddingBagCollection : ModuleKind::kEmbeddingCollection;
  const double bytes = element_size;
  profile.comms = {bytes, bytes, bytes, bytes};
  return profile;
}

// `pooling_factors` for features of one pooling and one batch size each.
inline void set_features(TableProfile& profile, std::vector<double> pooling_factors,
                         std::int64_t batch_size) {
  profile.num_poolings.assign(pooling_factors.size(), 1.0);
  profile.batch_sizes.assign(pooling_factors.size(), batch_size);
  profile.pooling_factors = std::move(pooling_factors);
}

// The shards of one column block of an option, costed; `num_shards` counts those of all blocks.
inline std::vector<ShardRun> costed_runs(const Estimator& estimator, const TableProfile& profile,
                                         ShardingType type, ComputeKernel kernel,
                                         std::optional<std::int64_t> min_partition = {},
                                         std::int64_t* num_shards = nullptr) {
  auto cut = cut_table(estimator.cost_model(), estimator.topology(), type, profile.shape,
                       min_partition, std::nullopt);
  EXPECT_TRUE(cut.has_value()) << (cut ? "" : format_error(cut.error()));
  if (!cut) return {};
  if (num_shards != nullptr) *num_shards = 0;
  for (ShardRun& run : cut->runs) {
    const auto perf = estimator.shard_perf(profile, type, kernel, run.rows, run.columns);
    const auto storage = estimator.shard_storage(profile, type, kernel, run.rows, run.columns);
    EXPECT_TRUE(perf.has_value()) << (perf ? "" : format_error(perf.error()));
    EXPECT_TRUE(storage.has_value()) << (storage ? "" : format_error(storage.error()));
    run.perf = perf.value_or(Perf{});
    run.storage = storage.value_or(Storage{});
    if (num_shards != nullptr) *num_shards += run.count * cut->column_blocks;
  }
  return cut->runs;
}

}  // namespace plimsoll::embedding
