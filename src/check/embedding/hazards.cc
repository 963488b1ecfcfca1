// What TorchRec's runtime does with plans that pass its checks: rows looked up in the wrong shard,
// sums for means, refusals on one rank while the others wait. Measured on torchrec 1.8.0 for
// training modules; the rules about rows and pooling are silent on quantised ones, whose runtime is
// another. Source: docs/check.md#hazards.

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "check/embedding/rules.h"
#include "embedding/model/sharder.h"

namespace plimsoll::check {
namespace {

using embedding::ComputeKernel;
using embedding::ModuleKind;
using embedding::Optimizer;
using embedding::ShardingType;

bool is_sequence(const embedding::Module& module) {
  switch (module.kind) {
    case ModuleKind::kEmbeddingCollection:
    case ModuleKind::kFusedEmbeddingCollection:
    case ModuleKind::kQuantEmbeddingCollection:
    case ModuleKind::kManagedCollisionEmbeddingCollection:
    case ModuleKind::kQuantManagedCollisionEmbeddingCollection:
    case ModuleKind::kItepEmbeddingCollection:
    case ModuleKind::kPecEmbeddingCollection:
      return true;
    case ModuleKind::kEmbeddingTower:
    case ModuleKind::kEmbeddingTowerCollection:
      return module.holds_embedding_collection;
    case ModuleKind::kEmbeddingBagCollection:
    case ModuleKind::kEmbeddingBag:
    case ModuleKind::kFeatureProcessedEmbeddingBagCollection:
    case ModuleKind::kFusedEmbeddingBagCollection:
    case ModuleKind::kQuantEmbeddingBagCollection:
    case ModuleKind::kQuantFeatureProcessedEmbeddingBagCollection:
    case ModuleKind::kManagedCollisionEmbeddingBagCollection:
    case ModuleKind::kQuantManagedCollisionEmbeddingBagCollection:
    case ModuleKind::kItepEmbeddingBagCollection:
      return false;
  }
  return false;
}

// How the runtime cuts rows: in equal blocks, the last ones shorter or empty; or, with buckets, in
// whole buckets, the first `longer` parts holding one more than the others.
struct RowCut {
  std::int64_t rows = 0;
  std::int64_t parts = 1;
  std::int64_t block = 0;
  std::int64_t bucket = 0;  // rows; 0 without buckets
  std::int64_t longer = 0;

  // For 0 <= i <= parts.
  std::int64_t first_row(std::int64_t i) const {
    return bucket > 0 ? i * block + std::min(i, longer) * bucket : std::min(i * block, rows);
  }
};

RowCut even_cut(std::int64_t rows, std::int64_t parts) {
  return {rows, parts, rows / parts + (rows % parts != 0), 0, 0};
}

RowCut bucket_cut(std::int64_t rows, std::int64_t parts, std::int64_t buckets) {
  const std::int64_t bucket = rows / buckets;
  return {rows, parts, buckets / parts * bucket, bucket, buckets % parts};
}

// Compares the shards of every column block, in listed order, with the runtime's own cut.
void find_uneven_rows(const TableCase& table, const PlacedTable& placed, const RowCut& cut,
                      Findings& findings) {
  std::map<std::int64_t, std::int64_t> listed;  // shards so far, by column
  std::optional<int> first_empty;
  bool is_even = true;
  for (const ShardBlock& block : placed.blocks) {
    std::int64_t& position = listed[block.column];
    if (block.rows == 0 && !first_empty) first_empty = block.first_rank;
    for (std::int64_t i = 0; i < block.count && is_even && position < cut.parts; ++i, ++position) {
      const std::int64_t row = block.row + i * block.row_stride;
      const std::int64_t right_row = cut.first_row(position);
      const std::int64_t right_rows = cut.first_row(position + 1) - right_row;
      is_even = block.rows == right_rows && (block.rows == 0 || row == right_row);
      if (is_even) continue;
      const int rank = block.first_rank + static_cast<int>(i);
      findings.warn(FindingCode::kUnevenRows, table.fqn, rank,
                    fmt::format("shard {} holds {} rows from row {}, and the runtime sends it the "
                                "ids of {} rows from row {}",
                                position, block.rows, row, right_rows, right_row));
    }
  }
  if (first_empty && table.rows() > 0) {
    findings.warn(
        FindingCode::kEmptyRowShards, table.fqn, first_empty,
        fmt::format("the shard on rank {} has no rows: outputs may be silently wrong, and the "
                    "backward pass may fail",
                    *first_empty));
  }
}

void find_row_hazards(const TableCase& table, const PlacedTable& placed, Findings& findings) {
  const ShardingType type = table.sharding->sharding_type;
  if (!is_row_cut(type) || embedding::is_quantised(table.module->kind)) return;
  if (table.table->dynamic_embedding) return;  // its keys go round the ranks, not to blocks of rows
  const std::int64_t parts =
      type == ShardingType::kRowWise ? table.topology->world_size : table.topology->group_size();
  RowCut cut = even_cut(table.rows(), parts);
  const ModuleKind kind = table.module->kind;
  const bool has_buckets =
      table.cost_model->buckets && type == ShardingType::kRowWise &&
      table.table->use_virtual_table && table.table->total_num_buckets &&
      (kind == ModuleKind::kEmbeddingBagCollection || kind == ModuleKind::kEmbeddingCollection);
  if (has_buckets) {
    const std::int64_t buckets = *table.table->total_num_buckets;
    if (table.rows() % buckets != 0 ||
        (buckets < parts && table.cost_model->fewer_buckets_than_ranks_is_error)) {
      findings.warn(FindingCode::kRuntimeCannotHold, table.fqn, std::nullopt,
                    fmt::format("{} rows in {} buckets cannot be cut over {} ranks", table.rows(),
                                buckets, parts));
      return;
    }
    cut = bucket_cut(table.rows(), parts, buckets);
  }
  find_uneven_rows(table, placed, cut, findings);
}

// Cuts narrower than the table are the plan's fault, the table's own width is the model's.
void find_width_faults(const TableCase& table, const PlacedTable& placed, Findings& findings) {
  const bool has_rule = table.topology->compute_device == topology::ComputeDevice::kCuda ||
                        table.topology->compute_device == topology::ComputeDevice::kCpu;
  if (!has_rule || embedding::is_quantised(table.module->kind) ||
      table.sharding->compute_kernel == ComputeKernel::kDense) {
    return;
  }
  for (const ShardBlock& block : placed.blocks) {
    if (block.columns % 4 == 0) continue;
    const std::string text = fmt::format(
        "a shard of {} columns: the look-up kernels want a multiple of 4", block.columns);
    if (block.columns == table.columns()) {
      findings.warn(FindingCode::kRuntimeCannotHold, table.fqn, block.first_rank, text);
    } else {
      findings.add(FindingCode::kWidthNotDivisible, table.fqn, block.first_rank, "a multiple of 4",
                   fmt::format("{}", block.columns), text);
    }
    return;
  }
}

bool is_fused_kernel(ComputeKernel kernel) {
  return kernel == ComputeKernel::kFused || kernel == ComputeKernel::kFusedUvm ||
         kernel == ComputeKernel::kFusedUvmCaching;
}

// By the table, the model or, where neither names one, the sharder's fused_params.
Optimizer trained_by(const TableCase& table) {
  const std::optional<Optimizer> named =
      table.table->optimizer ? table.table->optimizer : table.model->optimizer;
  return named ? *named : table.module->sharder.optimizer.value_or(Optimizer::kNone);
}

// One number a row is the state of row-wise Adagrad: of cut columns every block has its own.
void find_state_per_block(const TableCase& table, const PlacedTable& placed, Findings& findings) {
  if (table.sharding->compute_kernel == ComputeKernel::kDense ||
      embedding::is_quantised(table.module->kind) ||
      trained_by(table) != Optimizer::kRowWiseAdagrad) {
    return;
  }
  std::set<std::int64_t> blocks;
  for (const ShardBlock& block : placed.blocks) blocks.insert(block.column);
  if (blocks.size() < 2) return;
  findings.warn(FindingCode::kOptimizerStatePerBlock, table.fqn, std::nullopt,
                fmt::format("row-wise Adagrad keeps a state for each of {} blocks of columns: "
                            "training differs from that of the unsharded table",
                            blocks.size()));
}

// Look-ups of the CPU that were never written, or that fail.
void find_cpu_refusals(const TableCase& table, const PlacedTable& placed, Findings& findings) {
  if (table.topology->compute_device != topology::ComputeDevice::kCpu) return;
  const ComputeKernel kernel = table.sharding->compute_kernel;
  const auto refuse = [&](std::string message) {
    findings.warn(FindingCode::kRuntimeCannotHold, table.fqn, std::nullopt, std::move(message));
  };
  const bool is_fused = is_fused_kernel(kernel);
  const embedding::DataType data_type = table.table->data_type;
  if ((is_fused || kernel == ComputeKernel::kDense) && data_type != embedding::DataType::kFp32 &&
      data_type != embedding::DataType::kFp16) {
    refuse(fmt::format("the kernels of the cpu train fp32 and fp16, not {}", to_string(data_type)));
  }
  if (!is_fused) return;
  if (trained_by(table) == Optimizer::kAdam) refuse("the fused kernels of the cpu have no Adam");
  if (trained_by(table) != Optimizer::kRowWiseAdagrad) return;
  for (const ShardBlock& block : placed.blocks) {
    if (block.rows <= std::numeric_limits<std::int32_t>::max()) continue;
    refuse(
        fmt::format("row-wise Adagrad of the cpu does not train {} rows in one shard, more than "
                    "two billion",
                    block.rows));
    return;
  }
}

void find_refusals(const TableCase& table, Findings& findings) {
  const bool on_cpu = table.topology->compute_device == topology::ComputeDevice::kCpu;
  const ComputeKernel kernel = table.sharding->compute_kernel;
  const auto refuse = [&](std::string message) {
    findings.warn(FindingCode::kRuntimeCannotHold, table.fqn, std::nullopt, std::move(message));
  };
  if (on_cpu && kernel == ComputeKernel::kDense && is_sequence(*table.module)) {
    refuse("the dense kernel of the cpu pools its outputs, a sequence module must not");
  }
  const ShardingType type = table.sharding->sharding_type;
  const bool is_in_tower = table.module->kind == ModuleKind::kEmbeddingTower ||
                           table.module->kind == ModuleKind::kEmbeddingTowerCollection;
  if (is_sequence(*table.module) && !is_in_tower &&
      (type == ShardingType::kTableRowWise || type == ShardingType::kTableColumnWise ||
       type == ShardingType::kGridShard)) {
    refuse(fmt::format("a sequence module has no {}", to_string(type)));
  }
  if (is_key_value(kernel) && on_cpu) {
    refuse(fmt::format("kernel {} does not run on cpu", to_string(kernel)));
  } else if (is_key_value(kernel) && trained_by(table) == Optimizer::kSgd) {
    refuse(fmt::format("kernel {} has no SGD", to_string(kernel)));
  }
}

bool is_mean_pooled(const TableCase& table) {
  return table.table->pooling == embedding::Pooling::kMean && !is_sequence(*table.module) &&
         !embedding::is_quantised(table.module->kind);
}

bool is_row_wise_kind(const TableCase& table) {
  const ShardingType type = table.sharding->sharding_type;
  return type == ShardingType::kRowWise || type == ShardingType::kTableRowWise;
}

}  // namespace

void find_hazards(const TableCase& table, const PlacedTable& placed, bool is_covered,
                  Findings& findings) {
  find_width_faults(table, placed, findings);
  find_refusals(table, findings);
  find_cpu_refusals(table, placed, findings);
  find_state_per_block(table, placed, findings);
  if (is_mean_pooled(table) && table.sharding->sharding_type == ShardingType::kGridShard) {
    findings.warn(FindingCode::kMeanPoolingGrid, table.fqn, std::nullopt,
                  "a mean-pooled table under grid_shard comes out as sums");
  }
  if (is_covered && placed.is_sound()) find_row_hazards(table, placed, findings);
}

namespace {

// Every tower of a tower collection wraps a collection of its own.
auto collection_of(const TableCase& table) {
  return std::pair(table.module, table.table->tower.value_or(0));
}

void find_mean_pooling_hazards(const std::vector<TableCase>& cases, Findings& findings) {
  std::map<std::pair<const embedding::Module*, int>, const TableCase*> not_row_wise;  // the first
  for (const TableCase& table : cases) {
    if (!is_row_wise_kind(table)) not_row_wise.try_emplace(collection_of(table), &table);
  }
  for (const TableCase& table : cases) {
    if (!is_mean_pooled(table) || !is_row_wise_kind(table)) continue;
    const auto victim = not_row_wise.find(collection_of(table));
    if (victim == not_row_wise.end()) continue;
    findings.warn(
        FindingCode::kMeanPoolingMixedRows, table.fqn, std::nullopt,
        fmt::format("mean-pooled and cut by rows beside {}, which is {} and will be divided by "
                    "its bag lengths",
                    victim->second->fqn, to_string(victim->second->sharding->sharding_type)));
  }
}

// Columns of the first shard that the plan lists; 0 where it lists none.
std::int64_t width_of(const TableCase& table) {
  return table.sharding->shards.empty() ? 0 : table.sharding->shards.front().columns;
}

// TorchRec reads one width of column_wise shards for a whole collection of sequences.
void find_mixed_widths(const std::vector<TableCase>& cases, Findings& findings) {
  std::map<std::pair<const embedding::Module*, int>, std::vector<const TableCase*>> collections;
  for (const TableCase& table : cases) {
    const bool is_in_tower = table.module->kind == ModuleKind::kEmbeddingTower ||
                             table.module->kind == ModuleKind::kEmbeddingTowerCollection;
    if (is_sequence(*table.module) && !is_in_tower &&
        table.sharding->sharding_type == ShardingType::kColumnWise && width_of(table) > 0) {
      collections[collection_of(table)].push_back(&table);
    }
  }
  for (auto& [collection, tables] : collections) {
    std::sort(tables.begin(), tables.end(), [](const TableCase* a, const TableCase* b) {
      return a->table < b->table;  // as the module lists them
    });
    std::map<std::int64_t, int> counts;
    for (const TableCase* table : tables) ++counts[width_of(*table)];
    // The width of most tables, of several the first table's.
    const TableCase* usual = tables.front();
    for (const TableCase* table : tables) {
      if (counts[width_of(*table)] > counts[width_of(*usual)]) usual = table;
    }
    for (const TableCase* table : tables) {
      const auto& shards = table->sharding->shards;
      const auto other = std::find_if(shards.begin(), shards.end(), [usual](const auto& shard) {
        return shard.columns != width_of(*usual);
      });
      if (other == shards.end()) continue;
      findings.warn(FindingCode::kMixedColumnWidths, table->fqn, std::nullopt,
                    fmt::format("column_wise shards of {} columns beside those of {}, of {}: the "
                                "runtime reads one width for all of a collection of sequences, and "
                                "fails or crashes",
                                other->columns, usual->fqn, width_of(*usual)));
    }
  }
}

}  // namespace

void find_collection_hazards(const std::vector<TableCase>& cases, Findings& findings) {
  find_mean_pooling_hazards(cases, findings);
  find_mixed_widths(cases, findings);
}

void count_hazards_as_violations(bool strict, bool strict_numerics, Findings& findings) {
  findings.count_hazards([&](FindingCode code) {
    return code == FindingCode::kOptimizerStatePerBlock ? strict_numerics : strict;
  });
}

}  // namespace plimsoll::check
