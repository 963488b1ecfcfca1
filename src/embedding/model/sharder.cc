#include "embedding/model/sharder.h"

#include <algorithm>

namespace plimsoll::embedding {
namespace {

using enum ShardingType;
using enum ComputeKernel;
using enum ModuleKind;

using Types = std::vector<ShardingType>;
using Kernels = std::vector<ComputeKernel>;

bool is_managed_collision(ModuleKind kind) {
  return kind == kManagedCollisionEmbeddingBagCollection ||
         kind == kManagedCollisionEmbeddingCollection;
}

// Types of a sharder on cuda or cpu; mtia and tpu lists are derived from it below.
Types embedding_bag_types(ComputeDevice device) {
  switch (device) {
    case ComputeDevice::kCpu:
      return {kDataParallel, kTableWise, kColumnWise, kTableColumnWise};
    case ComputeDevice::kMtia:
      return {kTableWise, kColumnWise, kTableColumnWise, kRowWise, kTableRowWise, kGridShard};
    case ComputeDevice::kCuda:
    case ComputeDevice::kTpu:  // as mtia with data_parallel
      return {kDataParallel, kTableWise,    kColumnWise, kTableColumnWise,
              kRowWise,      kTableRowWise, kGridShard};
  }
  return {};
}

Types feature_processed_types(const CostModel& cost_model, ComputeDevice device) {
  if (device == ComputeDevice::kMtia) return {kTableWise, kColumnWise};
  Types types{kDataParallel, kTableWise, kColumnWise, kTableColumnWise};
  if (cost_model.feature_processed_row_types) {
    types.insert(types.end(), {kTableRowWise, kRowWise, kGridShard});
  }
  return types;
}

}  // namespace

bool is_quantised(ModuleKind kind) {
  return kind == kQuantEmbeddingBagCollection || kind == kQuantEmbeddingCollection ||
         kind == kQuantFeatureProcessedEmbeddingBagCollection ||
         kind == kQuantManagedCollisionEmbeddingBagCollection ||
         kind == kQuantManagedCollisionEmbeddingCollection;
}

bool is_fused(ModuleKind kind) {
  return kind == kFusedEmbeddingBagCollection || kind == kFusedEmbeddingCollection;
}

bool is_embedding_bag_interface(ModuleKind kind) {
  return kind == kEmbeddingBagCollection || kind == kFusedEmbeddingBagCollection ||
         kind == kQuantEmbeddingBagCollection ||
         kind == kQuantFeatureProcessedEmbeddingBagCollection ||
         kind == kQuantManagedCollisionEmbeddingBagCollection;
}

bool is_embedding_collection_interface(ModuleKind kind) {
  return kind == kEmbeddingCollection || kind == kFusedEmbeddingCollection ||
         kind == kQuantEmbeddingCollection || kind == kQuantManagedCollisionEmbeddingCollection;
}

SharderParams visible_sharder_params(const Module& module) {
  SharderParams params = module.sharder;
  if (module.kind == kItepEmbeddingBagCollection || module.kind == kItepEmbeddingCollection) {
    params.cache_load_factor.reset();
    params.prefetch_pipeline = false;
    params.multipass_num_passes.reset();
  }
  if (is_quantised(module.kind)) {
    params.forward_comms.reset();
    params.backward_comms.reset();
    params.codec_bytes.reset();
  }
  return params;
}

bool shows_optimizers(ModuleKind kind) { return !is_quantised(kind) && !is_fused(kind); }

Types allowed_sharding_types(const CostModel& cost_model, ModuleKind kind, ComputeDevice device) {
  switch (kind) {
    case kEmbeddingBagCollection:
    case kEmbeddingBag:
      return embedding_bag_types(device);
    case kEmbeddingCollection:
    case kFusedEmbeddingCollection:
      return {kDataParallel, kTableWise, kColumnWise, kRowWise};
    case kFeatureProcessedEmbeddingBagCollection:
      return feature_processed_types(cost_model, device);
    case kFusedEmbeddingBagCollection: {
      Types types{kDataParallel, kTableWise, kColumnWise, kTableColumnWise};
      if (device == ComputeDevice::kCuda) types.insert(types.end(), {kRowWise, kTableRowWise});
      return types;
    }
    case kQuantEmbeddingBagCollection:
    case kQuantEmbeddingCollection:
      return {kTableWise, kRowWise, kColumnWise};
    case kQuantFeatureProcessedEmbeddingBagCollection:
      return {kTableWise, kColumnWise};
    case kManagedCollisionEmbeddingBagCollection: {
      // What the wrapped collection's sharder has in common with row_wise.
      const Types types = embedding_bag_types(device);
      if (std::find(types.begin(), types.end(), kRowWise) == types.end()) return {};
      return {kRowWise};
    }
    case kManagedCollisionEmbeddingCollection:
    case kQuantManagedCollisionEmbeddingBagCollection:
    case kQuantManagedCollisionEmbeddingCollection:
    case kPecEmbeddingCollection:
      return {kRowWise};
    case kEmbeddingTower:
    case kEmbeddingTowerCollection:
      return {kTableRowWise, kTableColumnWise};
    case kItepEmbeddingBagCollection:
    case kItepEmbeddingCollection:
      return {kRowWise, kTableRowWise, kColumnWise, kTableWise};
  }
  return {};
}

bool needs_type_constraint(const CostModel& cost_model, ModuleKind kind, ShardingType type) {
  if (type == kGridShard) return true;
  return cost_model.feature_processed_row_types &&
         kind == kFeatureProcessedEmbeddingBagCollection &&
         (type == kTableRowWise || type == kRowWise);
}

Kernels allowed_compute_kernels(const CostModel& cost_model, ModuleKind kind, ShardingType type,
                                ComputeDevice device) {
  const bool on_cuda = device == ComputeDevice::kCuda;
  if (kind == kQuantFeatureProcessedEmbeddingBagCollection ||
      kind == kQuantManagedCollisionEmbeddingBagCollection ||
      kind == kQuantManagedCollisionEmbeddingCollection) {
    return {kQuant};
  }
  if (is_quantised(kind)) {
    if (on_cuda) return {kQuant, kQuantUvm, kQuantUvmCaching};
    return {kQuant};
  }
  // Any device, any type; the order differs from every other sharder's.
  if (is_managed_collision(kind)) {
    Kernels kernels{kFused, kFusedUvmCaching, kFusedUvm};
    if (cost_model.managed_collision_key_value) kernels.push_back(kKeyValue);
    return kernels;
  }
  if (type == kDataParallel) return {kDense};
  Kernels kernels{kFused};
  if (on_cuda) {
    kernels.insert(kernels.end(), {kFusedUvm, kFusedUvmCaching});
    if (!is_fused(kind)) {
      kernels.push_back(kKeyValue);
      if (cost_model.virtual_tables) {
        kernels.insert(kernels.end(), {kSsdVirtualTable, kDramVirtualTable});
      }
      if (cost_model.dram_ssd_virtual_table) kernels.push_back(kDramSsdVirtualTable);
    }
  }
  if (device == ComputeDevice::kTpu && !is_fused(kind)) kernels.push_back(kUnfusedTpu);
  return kernels;
}

Types allowed_sharding_types(const CostModel& cost_model, const Module& module, const Table& table,
                             ComputeDevice device) {
  if (!table.dynamic_embedding) return allowed_sharding_types(cost_model, module.kind, device);
  return device == ComputeDevice::kCuda ? Types{kRowWise} : Types{};
}

Kernels allowed_compute_kernels(const CostModel& cost_model, const Module& module,
                                const Table& table, ShardingType type, ComputeDevice device) {
  if (!table.dynamic_embedding) {
    return allowed_compute_kernels(cost_model, module.kind, type, device);
  }
  const bool is_offered = device == ComputeDevice::kCuda && type == kRowWise;
  return is_offered ? Kernels{kCustomizedKernel} : Kernels{};
}

bool needs_kernel_constraint(const CostModel& cost_model, ComputeKernel kernel) {
  return kernel == kKeyValue || kernel == kSsdVirtualTable || kernel == kDramVirtualTable ||
         (cost_model.dram_ssd_virtual_table && kernel == kDramSsdVirtualTable);
}

std::string_view module_class_name(ModuleKind kind) {
  const std::string_view qualified = module_qualified_name(kind);
  return qualified.substr(qualified.rfind('.') + 1);
}

std::string_view module_qualified_name(ModuleKind kind) {
  switch (kind) {
    case kEmbeddingBagCollection:
      return "torchrec.modules.embedding_modules.EmbeddingBagCollection";
    case kEmbeddingBag:
      return "torch.nn.modules.sparse.EmbeddingBag";
    case kEmbeddingCollection:
      return "torchrec.modules.embedding_modules.EmbeddingCollection";
    case kFeatureProcessedEmbeddingBagCollection:
      return "torchrec.modules.fp_embedding_modules.FeatureProcessedEmbeddingBagCollection";
    case kFusedEmbeddingBagCollection:
      return "torchrec.modules.fused_embedding_modules.FusedEmbeddingBagCollection";
    case kFusedEmbeddingCollection:
      return "torchrec.modules.fused_embedding_modules.FusedEmbeddingCollection";
    case kQuantEmbeddingBagCollection:
      return "torchrec.quant.embedding_modules.EmbeddingBagCollection";
    case kQuantEmbeddingCollection:
      return "torchrec.quant.embedding_modules.EmbeddingCollection";
    case kQuantFeatureProcessedEmbeddingBagCollection:
      return "torchrec.quant.embedding_modules.FeatureProcessedEmbeddingBagCollection";
    case kManagedCollisionEmbeddingBagCollection:
      return "torchrec.modules.mc_embedding_modules.ManagedCollisionEmbeddingBagCollection";
    case kManagedCollisionEmbeddingCollection:
      return "torchrec.modules.mc_embedding_modules.ManagedCollisionEmbeddingCollection";
    case kQuantManagedCollisionEmbeddingBagCollection:
      return "torchrec.quant.embedding_modules.QuantManagedCollisionEmbeddingBagCollection";
    case kQuantManagedCollisionEmbeddingCollection:
      return "torchrec.quant.embedding_modules.QuantManagedCollisionEmbeddingCollection";
    case kEmbeddingTower:
      return "torchrec.modules.embedding_tower.EmbeddingTower";
    case kEmbeddingTowerCollection:
      return "torchrec.modules.embedding_tower.EmbeddingTowerCollection";
    case kItepEmbeddingBagCollection:
      return "torchrec.modules.itep_embedding_modules.ITEPEmbeddingBagCollection";
    case kItepEmbeddingCollection:
      return "torchrec.modules.itep_embedding_modules.ITEPEmbeddingCollection";
    case kPecEmbeddingCollection:
      return "torchrec.modules.pec_embedding_modules.PECEmbeddingCollection";
  }
  return "";
}

std::string_view sharder_class_name(ModuleKind kind) {
  switch (kind) {
    case kEmbeddingBagCollection:
      return "EmbeddingBagCollectionSharder";
    case kEmbeddingBag:
      return "EmbeddingBagSharder";
    case kEmbeddingCollection:
      return "EmbeddingCollectionSharder";
    case kFeatureProcessedEmbeddingBagCollection:
      return "FeatureProcessedEmbeddingBagCollectionSharder";
    case kFusedEmbeddingBagCollection:
      return "FusedEmbeddingBagCollectionSharder";
    case kFusedEmbeddingCollection:
      return "FusedEmbeddingCollectionSharder";
    case kQuantEmbeddingBagCollection:
      return "QuantEmbeddingBagCollectionSharder";
    case kQuantEmbeddingCollection:
      return "QuantEmbeddingCollectionSharder";
    case kQuantFeatureProcessedEmbeddingBagCollection:
      return "QuantFeatureProcessedEmbeddingBagCollectionSharder";
    case kManagedCollisionEmbeddingBagCollection:
      return "ManagedCollisionEmbeddingBagCollectionSharder";
    case kManagedCollisionEmbeddingCollection:
      return "ManagedCollisionEmbeddingCollectionSharder";
    case kQuantManagedCollisionEmbeddingBagCollection:
      return "QuantManagedCollisionEmbeddingBagCollectionSharder";
    case kQuantManagedCollisionEmbeddingCollection:
      return "QuantManagedCollisionEmbeddingCollectionSharder";
    case kEmbeddingTower:
      return "EmbeddingTowerSharder";
    case kEmbeddingTowerCollection:
      return "EmbeddingTowerCollectionSharder";
    case kItepEmbeddingBagCollection:
      return "ITEPEmbeddingBagCollectionSharder";
    case kItepEmbeddingCollection:
      return "ITEPEmbeddingCollectionSharder";
    case kPecEmbeddingCollection:
      return "PECEmbeddingCollectionSharder";
  }
  return "";
}

bool has_default_sharder(const CostModel& cost_model, ModuleKind kind) {
  switch (kind) {
    case kEmbeddingBagCollection:
    case kFeatureProcessedEmbeddingBagCollection:
    case kEmbeddingCollection:
    case kFusedEmbeddingBagCollection:
    case kQuantEmbeddingBagCollection:
    case kQuantEmbeddingCollection:
    case kManagedCollisionEmbeddingBagCollection:
    case kManagedCollisionEmbeddingCollection:
    case kQuantManagedCollisionEmbeddingCollection:
      return true;
    case kPecEmbeddingCollection:
      return cost_model.pec;
    case kEmbeddingBag:
    case kFusedEmbeddingCollection:
    case kQuantFeatureProcessedEmbeddingBagCollection:
    case kQuantManagedCollisionEmbeddingBagCollection:
    case kEmbeddingTower:
    case kEmbeddingTowerCollection:
    case kItepEmbeddingBagCollection:
    case kItepEmbeddingCollection:
      return false;
  }
  return false;
}

ComputeDevice memory_device(const CostModel& cost_model, ComputeDevice device) {
  const bool is_host = device == ComputeDevice::kMtia && cost_model.mtia_is_host;
  return is_host ? ComputeDevice::kCpu : device;
}

topology::Storage table_storage(ModuleKind kind, const TableShape& shape, ComputeKernel kernel,
                                ComputeDevice device) {
  if (is_quantised(kind)) {
    const Bytes bytes = shape.bytes + shape.rows * 4;
    const bool in_hbm = (device == ComputeDevice::kCuda || device == ComputeDevice::kTpu) &&
                        kernel != kQuantUvm && kernel != kQuantUvmCaching;
    return in_hbm ? topology::Storage{bytes, 0, 0} : topology::Storage{0, bytes, 0};
  }
  const bool in_ddr =
      kernel == kFusedUvm || kernel == kFusedUvmCaching || device == ComputeDevice::kCpu;
  return in_ddr ? topology::Storage{0, shape.bytes, 0} : topology::Storage{shape.bytes, 0, 0};
}

}  // namespace plimsoll::embedding
