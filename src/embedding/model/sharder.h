// What each kind of module allows: sharding types and compute kernels by device, the classes'
// names, and a whole table's bytes by tier. Source:
// docs/mathematics/torchrec-planner.md#options-of-a-table.
#pragma once

#include <string_view>
#include <vector>

#include "plimsoll/embedding/cost_model.h"
#include "plimsoll/embedding/model.h"
#include "plimsoll/topology/topology.h"

namespace plimsoll::embedding {

using topology::ComputeDevice;

// In the sharder's declared order, which is also the canonical order of the filters.
std::vector<ShardingType> allowed_sharding_types(const CostModel& cost_model, ModuleKind kind,
                                                 ComputeDevice device);
// Types that only an explicit constraint brings in (grid_shard; the row types of feature-processed
// modules).
bool needs_type_constraint(const CostModel& cost_model, ModuleKind kind, ShardingType type);

std::vector<ComputeKernel> allowed_compute_kernels(const CostModel& cost_model, ModuleKind kind,
                                                   ShardingType type, ComputeDevice device);
// Kernels that only an explicit constraint brings in (key_value and the virtual tables).
bool needs_kernel_constraint(const CostModel& cost_model, ComputeKernel kernel);

// "torchrec.modules.embedding_modules.EmbeddingBagCollection", "EmbeddingBagCollection",
// "EmbeddingBagCollectionSharder".
std::string_view module_qualified_name(ModuleKind kind);
std::string_view module_class_name(ModuleKind kind);
std::string_view sharder_class_name(ModuleKind kind);

// Part of the reference's default sharder list? The others must be named to be sharded there; here
// every module of the model is.
bool has_default_sharder(const CostModel& cost_model, ModuleKind kind);

// The same for one table: a dynamic embedding table (docs/embedding.md#torcheasyrec) is row_wise
// with kernel customized_kernel, on cuda alone.
std::vector<ShardingType> allowed_sharding_types(const CostModel& cost_model, const Module& module,
                                                 const Table& table, ComputeDevice device);
std::vector<ComputeKernel> allowed_compute_kernels(const CostModel& cost_model,
                                                   const Module& module, const Table& table,
                                                   ShardingType type, ComputeDevice device);

bool is_quantised(ModuleKind kind);
bool is_fused(ModuleKind kind);  // optimizer and look-up in one module
bool is_embedding_bag_interface(
    ModuleKind kind);  // implements the EmbeddingBagCollection interface
bool is_embedding_collection_interface(ModuleKind kind);

// What the estimators see of a module's sharder. Sharders of ITEP modules do not pass on the cache
// parameters of the sharder they wrap, those of quantised modules know no quantised communication.
SharderParams visible_sharder_params(const Module& module);

// Do the estimators see the tables' optimizers? Sharders of fused and quantised modules hand out
// detached copies of the parameters, which have lost theirs.
bool shows_optimizers(ModuleKind kind);

// The device whose memory a table on `device` takes: a cpu's, of an mtia in release 1.2.
ComputeDevice memory_device(const CostModel& cost_model, ComputeDevice device);

// A whole table's bytes by tier, before caching. `device` is a memory_device.
topology::Storage table_storage(ModuleKind kind, const TableShape& shape, ComputeKernel kernel,
                                ComputeDevice device);

}  // namespace plimsoll::embedding
