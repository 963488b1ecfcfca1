#include "embedding/option_hazards.h"

#include <algorithm>
#include <map>
#include <utility>

#include "plimsoll/embedding/sharder.h"

namespace plimsoll::embedding {
namespace {

bool is_row_wise_kind(ShardingType type) {
  return type == ShardingType::kRowWise || type == ShardingType::kTableRowWise;
}

// Cut within or over hosts: of pooled tables alone.
bool is_host_cut(ShardingType type) {
  return type == ShardingType::kTableRowWise || type == ShardingType::kTableColumnWise ||
         type == ShardingType::kGridShard;
}

// What the model says of a table of the option set; null pointers where there is no model.
struct Given {
  const Module* module = nullptr;
  const Table* table = nullptr;
  bool is_mean_pooled = false;
};

Given find_given(const Model& model, const TableOptions& table) {
  Given given;
  if (table.module < 0 || static_cast<std::size_t>(table.module) >= model.modules.size()) {
    return given;
  }
  given.module = &model.modules[static_cast<std::size_t>(table.module)];
  given.table = &given.module->tables[static_cast<std::size_t>(table.table)];
  given.is_mean_pooled = given.table->pooling == Pooling::kMean && table.is_pooled &&
                         !is_quantised(given.module->kind);
  return given;
}

bool is_in_tower(const TableOptions& table, const Given& given) {
  return !table.dependency.empty() ||
         (given.module != nullptr && (given.module->kind == ModuleKind::kEmbeddingTower ||
                                      given.module->kind == ModuleKind::kEmbeddingTowerCollection));
}

// Blocks of ceil(rows / parts), none of them empty: the only cut that the runtime knows, but for
// buckets.
bool is_plain_row_cut(const ShardRuns& shards, std::int64_t rows) {
  const std::int64_t parts = shards.shards_per_block();
  const std::int64_t block = rows / parts + (rows % parts != 0);
  std::int64_t left = rows;
  for (const ShardRun& run : shards.runs) {
    for (std::int64_t i = 0; i < std::min<std::int64_t>(run.count, 2); ++i) {  // equal shards
      const std::int64_t at = left - i * run.rows;
      if (run.rows == 0 || run.rows != std::min(block, at)) return false;
    }
    left -= run.count * run.rows;
  }
  return left == 0;
}

class HazardFinder {
 public:
  HazardFinder(const OptionSet& options, const topology::Topology& topology, const Model& model)
      : options_(options), topology_(topology), model_(model) {}

  OptionHazards find() {
    is_hazardous_.assign(options_.options.size(), false);
    for (const TableOptions& table : options_.tables) {
      const Given given = find_given(model_, table);
      for_each_option(table, [&](const Option& option) { return is_bad(table, given, option); });
    }
    find_mixed_rows();
    return {std::move(is_hazardous_), std::move(row_choices_)};
  }

 private:
  template <class Test>
  void for_each_option(const TableOptions& table, const Test& is_out) {
    for (std::int32_t o = table.first_option; o < table.first_option + table.num_options; ++o) {
      const auto index = static_cast<std::size_t>(o);
      if (is_out(options_.options[index])) is_hazardous_[index] = true;
    }
  }

  bool is_bad(const TableOptions& table, const Given& given, const Option& option) const {
    const ShardRuns shards = options_.shards(option);
    if (is_key_value(option.compute_kernel) && option.sharding_type == ShardingType::kColumnWise &&
        option.column_blocks > 1) {
      return true;  // two column shards on one rank are refused
    }
    if (!table.is_pooled && is_host_cut(option.sharding_type) && !is_in_tower(table, given)) {
      return true;  // a sequence module has no such cut; of towers that is not known
    }
    if (given.module == nullptr) {
      return is_row_cut(option.sharding_type) && !is_plain_row_cut(shards, table.shape.rows);
    }
    if (given.is_mean_pooled && option.sharding_type == ShardingType::kGridShard) return true;
    return is_refused(table, given, option) || is_cut_badly(table, given, option, shards);
  }

  bool is_refused(const TableOptions& table, const Given& given, const Option& option) const {
    const bool on_cpu = topology_.compute_device == topology::ComputeDevice::kCpu;
    const ComputeKernel kernel = option.compute_kernel;
    const Optimizer optimizer =
        given.table->optimizer.value_or(model_.optimizer.value_or(Optimizer::kNone));
    const bool is_fused = kernel == ComputeKernel::kFused || kernel == ComputeKernel::kFusedUvm ||
                          kernel == ComputeKernel::kFusedUvmCaching;
    if (on_cpu && kernel == ComputeKernel::kDense && !table.is_pooled) return true;
    if (on_cpu && is_fused && optimizer == Optimizer::kAdam) return true;
    return is_key_value(kernel) && (on_cpu || optimizer == Optimizer::kSgd);
  }

  bool is_cut_badly(const TableOptions& table, const Given& given, const Option& option,
                    const ShardRuns& shards) const {
    const bool has_width_rule = topology_.compute_device == topology::ComputeDevice::kCuda ||
                                topology_.compute_device == topology::ComputeDevice::kCpu;
    if (is_quantised(given.module->kind)) return false;
    if (has_width_rule && option.compute_kernel != ComputeKernel::kDense && !shards.runs.empty() &&
        shards.runs.front().columns % 4 != 0) {
      return true;
    }
    if (!is_row_cut(option.sharding_type) || given.table->dynamic_embedding) return false;
    const bool has_buckets = given.table->use_virtual_table && given.table->total_num_buckets &&
                             option.sharding_type == ShardingType::kRowWise;
    if (!has_buckets) return !is_plain_row_cut(shards, table.shape.rows);
    return topology_.has_custom_hbm || topology_.has_custom_ddr ||
           std::any_of(shards.runs.begin(), shards.runs.end(),
                       [](const ShardRun& run) { return run.rows == 0; });
  }

  void find_mixed_rows() {
    // Tables by collection; every tower wraps one of its own.
    std::map<std::pair<std::int32_t, int>, std::vector<const TableOptions*>> collections;
    for (const TableOptions& table : options_.tables) {
      const Given given = find_given(model_, table);
      if (given.module != nullptr) {
        collections[{table.module, given.table->tower.value_or(0)}].push_back(&table);
      }
    }
    for (const auto& [collection, tables] : collections) {
      const auto is_mean = [&](const auto* table) {
        return find_given(model_, *table).is_mean_pooled;
      };
      if (tables.size() < 2 || std::none_of(tables.begin(), tables.end(), is_mean)) continue;
      const bool needs_rows = std::any_of(tables.begin(), tables.end(), [&](const auto* table) {
        return is_mean(table) && has_only(*table, true);
      });
      const bool has_rows = std::none_of(
          tables.begin(), tables.end(), [&](const auto* table) { return has_only(*table, false); });
      RowChoice choice;
      for (const TableOptions* table : tables) {
        for_each_option(*table, [&](const Option& option) {
          const auto index = static_cast<std::size_t>(&option - options_.options.data());
          const bool is_row = is_row_wise_kind(option.sharding_type);
          if (is_row && !is_mean(table)) return false;
          if (needs_rows || !has_rows) return is_row != needs_rows;
          auto& side = is_row ? choice.rows : choice.others;
          if (!is_hazardous_[index]) side.push_back(static_cast<std::int32_t>(index));
          return false;
        });
      }
      if (!choice.rows.empty()) row_choices_.push_back(std::move(choice));
    }
  }

  // Are all options that are left cut by rows, or none of them?
  bool has_only(const TableOptions& table, bool rows) const {
    for (std::int32_t o = table.first_option; o < table.first_option + table.num_options; ++o) {
      const auto index = static_cast<std::size_t>(o);
      if (!is_hazardous_[index] &&
          is_row_wise_kind(options_.options[index].sharding_type) != rows) {
        return false;
      }
    }
    return true;
  }

  const OptionSet& options_;
  const topology::Topology& topology_;
  const Model& model_;
  std::vector<bool> is_hazardous_;
  std::vector<RowChoice> row_choices_;
};

}  // namespace

OptionHazards find_option_hazards(const OptionSet& options, const topology::Topology& topology,
                                  const Model& model) {
  return HazardFinder(options, topology, model).find();
}

bool holds_hazard(const OptionHazards& hazards, std::span<const std::int32_t> taken) {
  const auto takes = [&taken](const std::vector<std::int32_t>& options) {
    return std::any_of(taken.begin(), taken.end(), [&options](std::int32_t option) {
      return std::binary_search(options.begin(), options.end(), option);
    });
  };
  return std::any_of(taken.begin(), taken.end(),
                     [&](std::int32_t option) {
                       return hazards.is_hazardous[static_cast<std::size_t>(option)];
                     }) ||
         std::any_of(
             hazards.row_choices.begin(), hazards.row_choices.end(),
             [&](const RowChoice& choice) { return takes(choice.rows) && takes(choice.others); });
}

}  // namespace plimsoll::embedding
