#include "embedding/option_hazards.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
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

// Whole buckets, the first parts with one more than the others.
bool is_plain_bucket_cut(const ShardRuns& shards, std::int64_t rows, std::int64_t buckets) {
  const std::int64_t parts = shards.shards_per_block();
  std::int64_t part = 0;
  for (const ShardRun& run : shards.runs) {
    for (std::int64_t i = 0; i < run.count; ++i, ++part) {
      const std::int64_t of_part = buckets / parts + (part < buckets % parts ? 1 : 0);
      if (run.rows != of_part * (rows / buckets)) return false;
    }
  }
  return true;
}

// Blocks of ceil(rows / parts), the last ones shorter or empty: the only cut that the runtime
// knows, but for buckets.
bool is_plain_row_cut(const ShardRuns& shards, std::int64_t rows) {
  const std::int64_t parts = shards.shards_per_block();
  const std::int64_t block = rows / parts + (rows % parts != 0);
  std::int64_t left = rows;
  for (const ShardRun& run : shards.runs) {
    for (std::int64_t i = 0; i < std::min<std::int64_t>(run.count, 2); ++i) {  // equal shards
      const std::int64_t at = left - i * run.rows;
      if (run.rows != std::clamp<std::int64_t>(at, 0, block)) return false;
    }
    left -= run.count * run.rows;
  }
  return left == 0;
}

using Names = std::vector<std::string_view>;

class HazardFinder {
 public:
  HazardFinder(const OptionSet& options, const topology::Topology& topology, const Model& model)
      : options_(options), topology_(topology), model_(model) {}

  OptionHazards find() {
    result_.num_hazards.assign(options_.options.size(), 0);
    for (const TableOptions& table : options_.tables) {
      const Given given = find_given(model_, table);
      for_each_option(table, [&](const Option& option) {
        result_.num_hazards[index_of(option)] =
            static_cast<int>(hazards_of(table, given, option).size());
      });
    }
    result_.is_left_out.assign(options_.options.size(), false);
    result_.group_of_table.assign(options_.tables.size(), -1);
    for (const std::vector<const TableOptions*>& tables : find_collections()) add_group(tables);
    for (const TableOptions& table : options_.tables) {
      if (group_of(table) < 0) add_group({&table});
    }
    return std::move(result_);
  }

  std::vector<TableHazard> find(std::span<const std::int32_t> taken) {
    std::vector<const Option*> of_table(options_.tables.size());
    for (const std::int32_t o : taken) {
      const Option& option = options_.options[static_cast<std::size_t>(o)];
      of_table[static_cast<std::size_t>(option.table)] = &option;
    }
    std::vector<bool> is_mixed(options_.tables.size());  // cut by rows beside tables that are not
    for (const std::vector<const TableOptions*>& tables : find_collections()) {
      const auto is_cut = [&](const TableOptions* table) {
        const Option* option = of_table[position_of(*table)];
        return option == nullptr || is_row_wise_kind(option->sharding_type);
      };
      if (std::all_of(tables.begin(), tables.end(), is_cut)) continue;
      for (const TableOptions* table : tables) {
        is_mixed[position_of(*table)] = is_cut(table) && is_mean(*table);
      }
    }
    std::vector<TableHazard> found;
    for (std::size_t t = 0; t < of_table.size(); ++t) {
      if (of_table[t] == nullptr) continue;
      const TableOptions& table = options_.tables[t];
      for (const auto& name : hazards_of(table, find_given(model_, table), *of_table[t])) {
        found.push_back({static_cast<std::int32_t>(t), name});
      }
      if (is_mixed[t]) found.push_back({static_cast<std::int32_t>(t), kMixedRows});
    }
    return found;
  }

 private:
  static constexpr std::string_view kRefused = "runtime_cannot_hold";
  static constexpr std::string_view kMixedRows = "mean_pooling_mixed_rows";
  static constexpr std::int64_t kNever = std::numeric_limits<std::int32_t>::max();

  template <class Visit>
  void for_each_option(const TableOptions& table, const Visit& visit) const {
    for (std::int32_t o = table.first_option; o < table.first_option + table.num_options; ++o) {
      visit(options_.options[static_cast<std::size_t>(o)]);
    }
  }

  std::size_t index_of(const Option& option) const {
    return static_cast<std::size_t>(&option - options_.options.data());
  }
  std::size_t position_of(const TableOptions& table) const {
    return static_cast<std::size_t>(&table - options_.tables.data());
  }
  std::int32_t& group_of(const TableOptions& table) {
    return result_.group_of_table[position_of(table)];
  }
  bool is_mean(const TableOptions& table) const { return find_given(model_, table).is_mean_pooled; }

  // What the checker finds in the option alone.
  Names hazards_of(const TableOptions& table, const Given& given, const Option& option) const {
    const ShardRuns shards = options_.shards(option);
    Names names;
    if (!table.is_pooled && is_host_cut(option.sharding_type) && !is_in_tower(table, given)) {
      names.push_back(kRefused);  // a sequence module has no such cut; of towers that is not known
    }
    if (given.module == nullptr) {
      if (is_row_cut(option.sharding_type)) add_row_hazards(shards, table.shape.rows, names);
      return names;
    }
    if (given.is_mean_pooled && option.sharding_type == ShardingType::kGridShard) {
      names.push_back("mean_pooling_grid");
    }
    add_refusals(table, given, option, names);
    add_cut_hazards(table, given, option, shards, names);
    return names;
  }

  void add_refusals(const TableOptions& table, const Given& given, const Option& option,
                    Names& names) const {
    const bool on_cpu = topology_.compute_device == topology::ComputeDevice::kCpu;
    const ComputeKernel kernel = option.compute_kernel;
    const Optimizer optimizer =
        given.table->optimizer.value_or(model_.optimizer.value_or(Optimizer::kNone));
    const bool is_fused = kernel == ComputeKernel::kFused || kernel == ComputeKernel::kFusedUvm ||
                          kernel == ComputeKernel::kFusedUvmCaching;
    if (on_cpu && kernel == ComputeKernel::kDense && !table.is_pooled) names.push_back(kRefused);
    if (on_cpu && is_fused && optimizer == Optimizer::kAdam) names.push_back(kRefused);
    if (is_key_value(kernel) && (on_cpu || optimizer == Optimizer::kSgd)) names.push_back(kRefused);
  }

  void add_cut_hazards(const TableOptions& table, const Given& given, const Option& option,
                       const ShardRuns& shards, Names& names) const {
    const bool has_width_rule = topology_.compute_device == topology::ComputeDevice::kCuda ||
                                topology_.compute_device == topology::ComputeDevice::kCpu;
    if (is_quantised(given.module->kind)) return;
    if (has_width_rule && option.compute_kernel != ComputeKernel::kDense && !shards.runs.empty() &&
        shards.runs.front().columns % 4 != 0) {
      names.push_back(kRefused);
    }
    if (!is_row_cut(option.sharding_type) || given.table->dynamic_embedding) return;
    const std::int64_t rows = table.shape.rows;
    const ModuleKind kind = given.module->kind;
    const bool has_buckets =
        options_.buckets && given.table->use_virtual_table && given.table->total_num_buckets &&
        option.sharding_type == ShardingType::kRowWise &&
        (kind == ModuleKind::kEmbeddingBagCollection || kind == ModuleKind::kEmbeddingCollection);
    if (!has_buckets) return add_row_hazards(shards, rows, names);
    const std::int64_t buckets = *given.table->total_num_buckets;
    if (rows % buckets != 0) return names.push_back(kRefused);
    if (!is_plain_bucket_cut(shards, rows, buckets)) names.push_back("uneven_rows");
    add_empty_shards(shards, names);
  }

  static void add_row_hazards(const ShardRuns& shards, std::int64_t rows, Names& names) {
    if (!is_plain_row_cut(shards, rows)) names.push_back("uneven_rows");
    add_empty_shards(shards, names);
  }

  static void add_empty_shards(const ShardRuns& shards, Names& names) {
    if (std::any_of(shards.runs.begin(), shards.runs.end(),
                    [](const ShardRun& run) { return run.rows == 0; })) {
      names.push_back("empty_row_shards");
    }
  }

  // Of several tables, some of them mean-pooled; every tower wraps a collection of its own.
  std::vector<std::vector<const TableOptions*>> find_collections() const {
    std::map<std::pair<std::int32_t, int>, std::vector<const TableOptions*>> collections;
    for (const TableOptions& table : options_.tables) {
      const Given given = find_given(model_, table);
      if (given.module != nullptr) {
        collections[{table.module, given.table->tower.value_or(0)}].push_back(&table);
      }
    }
    std::vector<std::vector<const TableOptions*>> found;
    for (auto& [collection, tables] : collections) {
      if (tables.size() > 1 && std::any_of(tables.begin(), tables.end(),
                                           [this](const auto* table) { return is_mean(*table); })) {
        found.push_back(std::move(tables));
      }
    }
    return found;
  }

  // Hazards of an option by itself, and what a way of its collection makes of them.
  struct Costs {
    std::int64_t by_rows = 0;  // the collection is cut by rows as a whole
    std::int64_t mixed = 0;    // it is not; a table by itself has this way only
  };
  Costs costs_of(const Option& option, bool is_alone, bool is_mean) const {
    const std::int64_t own = result_.num_hazards[index_of(option)];
    const bool is_row = is_row_wise_kind(option.sharding_type);
    return {is_row && !is_alone ? own : kNever, is_row && is_mean && !is_alone ? own + 1 : own};
  }

  void add_group(const std::vector<const TableOptions*>& tables) {
    const bool is_alone = tables.size() == 1;
    const auto costs_in = [&](const TableOptions& table, const Option& option) {
      return costs_of(option, is_alone, is_mean(table));
    };
    const auto group = static_cast<std::int32_t>(result_.least_of_group.size());
    std::vector<Costs> least(tables.size());
    Costs all;
    for (std::size_t i = 0; i < tables.size(); ++i) {
      group_of(*tables[i]) = group;
      if (tables[i]->num_options > 0) least[i] = {kNever, kNever};
      for_each_option(*tables[i], [&](const Option& option) {
        const Costs costs = costs_in(*tables[i], option);
        least[i].by_rows = std::min(least[i].by_rows, costs.by_rows);
        least[i].mixed = std::min(least[i].mixed, costs.mixed);
      });
      all.by_rows += least[i].by_rows;
      all.mixed += least[i].mixed;
    }
    RowChoice choice{{}, {}, group};
    for (std::size_t i = 0; i < tables.size(); ++i) {
      int num_kept = 0;
      std::map<std::string_view, int> named;  // by options that are kept
      for_each_option(*tables[i], [&](const Option& option) {
        const Costs costs = costs_in(*tables[i], option);
        const bool in_rows = all.by_rows <= all.mixed && costs.by_rows == least[i].by_rows;
        const bool in_mixed = all.mixed <= all.by_rows && costs.mixed == least[i].mixed;
        const auto o = static_cast<std::int32_t>(index_of(option));
        if (in_rows && !in_mixed) choice.rows.push_back(o);
        if (in_mixed && !in_rows) choice.others.push_back(o);
        if (!in_rows && !in_mixed) {
          result_.is_left_out[index_of(option)] = true;
          return;
        }
        ++num_kept;
        Names names = hazards_of(*tables[i], find_given(model_, *tables[i]), option);
        if (in_mixed && costs.mixed > costs.by_rows) names.push_back(kMixedRows);
        for (const std::string_view name : std::set(names.begin(), names.end())) ++named[name];
      });
      for (const auto& [name, count] : named) {
        const TableHazard hazard{static_cast<std::int32_t>(position_of(*tables[i])), name};
        result_.unavoidable.push_back({hazard, count == num_kept});
      }
    }
    result_.least_of_group.push_back(std::min(all.by_rows, all.mixed));
    if (all.by_rows == all.mixed && !choice.rows.empty() && !choice.others.empty()) {
      result_.row_choices.push_back(std::move(choice));
    }
  }

  const OptionSet& options_;
  const topology::Topology& topology_;
  const Model& model_;
  OptionHazards result_;
};

}  // namespace

std::int64_t OptionHazards::least() const {
  return std::accumulate(least_of_group.begin(), least_of_group.end(), std::int64_t{0});
}

OptionHazards find_option_hazards(const OptionSet& options, const topology::Topology& topology,
                                  const Model& model) {
  return HazardFinder(options, topology, model).find();
}

std::vector<TableHazard> find_plan_hazards(const OptionSet& options,
                                           const topology::Topology& topology, const Model& model,
                                           std::span<const std::int32_t> taken) {
  return HazardFinder(options, topology, model).find(taken);
}

}  // namespace plimsoll::embedding
