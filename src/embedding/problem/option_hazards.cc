#include "embedding/problem/option_hazards.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "embedding/model/sharder.h"

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

bool is_fused_kernel(ComputeKernel kernel) {
  return kernel == ComputeKernel::kFused || kernel == ComputeKernel::kFusedUvm ||
         kernel == ComputeKernel::kFusedUvmCaching;
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
// knows, except for buckets.
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

using TypeNames = std::vector<std::string_view>;

class HazardFinder {
 public:
  HazardFinder(const OptionSet& options, const topology::Topology& topology, const Model& model,
               std::vector<bool> is_barred = {})
      : options_(options), topology_(topology), model_(model), is_barred_(std::move(is_barred)) {}

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
    for (const Tables& tables : find_collections()) {
      const std::vector<Way> ways = ways_of(tables);
      if (ways.size() > 1) add_group(tables, ways);
    }
    for (const TableOptions& table : options_.tables) {
      if (group_of(table) < 0) add_group({&table}, {Way{}});
    }
    return std::move(result_);
  }

  std::vector<TableHazard> find(std::span<const std::int32_t> taken) {
    std::vector<const Option*> of_table(options_.tables.size());
    for (const std::int32_t o : taken) {
      const Option& option = options_.options[static_cast<std::size_t>(o)];
      of_table[static_cast<std::size_t>(option.table)] = &option;
    }
    std::vector<std::string_view> mixed(options_.tables.size());  // what beside others is wrong
    for (const Tables& tables : find_collections()) {
      find_mixed_rows(tables, of_table, mixed);
      if (is_of_sequences(tables)) find_mixed_widths(tables, of_table, mixed);
    }
    std::vector<TableHazard> found;
    for (std::size_t t = 0; t < of_table.size(); ++t) {
      if (of_table[t] == nullptr) continue;
      const TableOptions& table = options_.tables[t];
      for (const auto& name : hazards_of(table, find_given(model_, table), *of_table[t])) {
        found.push_back({static_cast<std::int32_t>(t), name});
      }
      if (!mixed[t].empty()) found.push_back({static_cast<std::int32_t>(t), mixed[t]});
    }
    return found;
  }

 private:
  static constexpr std::string_view kRefused = "runtime_cannot_hold";
  static constexpr std::string_view kMixedRows = "mean_pooling_mixed_rows";
  static constexpr std::string_view kMixedWidths = "mixed_column_widths";
  static constexpr std::int64_t kNever = std::numeric_limits<std::int32_t>::max();

  template <class Visit>
  void for_each_option(const TableOptions& table, const Visit& visit) const {
    for (std::int32_t o = table.first_option; o < table.first_option + table.num_options; ++o) {
      const auto index = static_cast<std::size_t>(o);
      if (is_barred_.empty() || !is_barred_[index]) visit(options_.options[index]);
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
  TypeNames hazards_of(const TableOptions& table, const Given& given, const Option& option) const {
    const ShardRuns shards = options_.shards(option);
    TypeNames names;
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
    add_refusals(table, given, option, shards, names);
    add_cut_hazards(table, given, option, shards, names);
    return names;
  }

  void add_refusals(const TableOptions& table, const Given& given, const Option& option,
                    const ShardRuns& shards, TypeNames& names) const {
    const bool on_cpu = topology_.compute_device == topology::ComputeDevice::kCpu;
    const ComputeKernel kernel = option.compute_kernel;
    const Optimizer optimizer = find_trained_optimizer(model_, *given.module, *given.table);
    const bool is_fused = is_fused_kernel(kernel);
    const bool is_trained = is_fused || kernel == ComputeKernel::kDense;
    const DataType data_type = given.table->data_type;
    if (on_cpu && kernel == ComputeKernel::kDense && !table.is_pooled) names.push_back(kRefused);
    if (on_cpu && is_trained && data_type != DataType::kFp32 && data_type != DataType::kFp16) {
      names.push_back(kRefused);
    }
    if (on_cpu && is_fused && optimizer == Optimizer::kAdam) names.push_back(kRefused);
    if (on_cpu && is_fused && optimizer == Optimizer::kRowWiseAdagrad &&
        has_too_many_rows(shards)) {
      names.push_back(kRefused);
    }
    if (is_key_value(kernel) && (on_cpu || optimizer == Optimizer::kSgd)) names.push_back(kRefused);
  }

  static bool has_too_many_rows(const ShardRuns& shards) {
    return std::any_of(shards.runs.begin(), shards.runs.end(), [](const ShardRun& run) {
      return run.rows > std::numeric_limits<std::int32_t>::max();
    });
  }

  void add_cut_hazards(const TableOptions& table, const Given& given, const Option& option,
                       const ShardRuns& shards, TypeNames& names) const {
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

  static void add_row_hazards(const ShardRuns& shards, std::int64_t rows, TypeNames& names) {
    if (!is_plain_row_cut(shards, rows)) names.push_back("uneven_rows");
    add_empty_shards(shards, names);
  }

  static void add_empty_shards(const ShardRuns& shards, TypeNames& names) {
    if (std::any_of(shards.runs.begin(), shards.runs.end(),
                    [](const ShardRun& run) { return run.rows == 0; })) {
      names.push_back("empty_row_shards");
    }
  }

  using Tables = std::vector<const TableOptions*>;

  // Of several tables; every tower wraps a collection of its own.
  std::vector<Tables> find_collections() const {
    std::map<std::pair<std::int32_t, int>, Tables> collections;
    for (const TableOptions& table : options_.tables) {
      const Given given = find_given(model_, table);
      if (given.module != nullptr) {
        collections[{table.module, given.table->tower.value_or(0)}].push_back(&table);
      }
    }
    std::vector<Tables> found;
    for (auto& [collection, tables] : collections) {
      if (tables.size() > 1) found.push_back(std::move(tables));
    }
    return found;
  }

  bool is_of_sequences(const Tables& tables) const {
    const TableOptions& first = *tables.front();
    return !first.is_pooled && !is_in_tower(first, find_given(model_, first));
  }

  using WidthCounts = std::vector<std::pair<std::int64_t, int>>;  // tables by width, as first met

  static void add_table(std::int64_t width, WidthCounts& counts) {
    const auto same = std::find_if(counts.begin(), counts.end(),
                                   [width](const auto& count) { return count.first == width; });
    if (same != counts.end()) {
      ++same->second;
    } else {
      counts.emplace_back(width, 1);
    }
  }

  std::int64_t width_of(const Option& option) const {
    const ShardRuns shards = options_.shards(option);
    return shards.runs.empty() ? 0 : shards.runs.front().columns;
  }

  using OfTable = std::vector<const Option*>;  // [tables] taken options, or null

  // Mean-pooled tables cut by rows beside tables that are not.
  void find_mixed_rows(const Tables& tables, const OfTable& taken,
                       std::vector<std::string_view>& mixed) const {
    const auto is_cut = [&](const TableOptions* table) {
      const Option* option = taken[position_of(*table)];
      return option == nullptr || is_row_wise_kind(option->sharding_type);
    };
    if (std::all_of(tables.begin(), tables.end(), is_cut)) return;
    for (const TableOptions* table : tables) {
      if (is_cut(table) && is_mean(*table)) mixed[position_of(*table)] = kMixedRows;
    }
  }

  // Column_wise tables of another width than most of them, or than the first of as many.
  void find_mixed_widths(const Tables& tables, const OfTable& taken,
                         std::vector<std::string_view>& mixed) const {
    WidthCounts counts;
    const auto width_at = [&](const TableOptions* table) {
      const Option* option = taken[position_of(*table)];
      const bool is_cut = option != nullptr && option->sharding_type == ShardingType::kColumnWise;
      return is_cut ? width_of(*option) : 0;
    };
    for (const TableOptions* table : tables) {
      const std::int64_t width = width_at(table);
      if (width != 0) add_table(width, counts);
    }
    if (counts.size() < 2) return;
    const auto most =
        std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
          return a.second < b.second;  // the first of several
        });
    for (const TableOptions* table : tables) {
      const std::int64_t width = width_at(table);
      if (width != 0 && width != most->first) mixed[position_of(*table)] = kMixedWidths;
    }
  }

  // A way of a collection to few hazards.
  struct Way {
    enum class Kind { kAlone, kMixedRows, kByRows, kWidth } kind = Kind::kAlone;
    std::int64_t width = 0;  // of kWidth
  };

  // One where tables do not depend on each other.
  std::vector<Way> ways_of(const Tables& tables) const {
    if (std::any_of(tables.begin(), tables.end(),
                    [this](const auto* table) { return is_mean(*table); })) {
      return {{Way::Kind::kMixedRows, 0}, {Way::Kind::kByRows, 0}};
    }
    if (!is_of_sequences(tables)) return {Way{}};
    WidthCounts counts;
    for (const TableOptions* table : tables) {
      std::set<std::int64_t> widths;
      for_each_option(*table, [&](const Option& option) {
        if (option.sharding_type == ShardingType::kColumnWise) widths.insert(width_of(option));
      });
      for (const std::int64_t width : widths) add_table(width, counts);
    }
    if (counts.size() < 2) return {Way{}};
    // First the width of most tables, of equal ones the wider.
    std::sort(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
      return a.second != b.second ? a.second > b.second : a.first > b.first;
    });
    std::vector<Way> ways;
    for (const auto& [width, count] : counts) ways.push_back({Way::Kind::kWidth, width});
    return ways;
  }

  // What a way of its collection makes of an option, beside its own hazards.
  std::string_view hazard_in(const Way& way, const TableOptions& table,
                             const Option& option) const {
    const bool is_row = is_row_wise_kind(option.sharding_type);
    if (way.kind == Way::Kind::kMixedRows && is_row && is_mean(table)) return kMixedRows;
    const bool is_column = option.sharding_type == ShardingType::kColumnWise;
    if (way.kind == Way::Kind::kWidth && is_column && width_of(option) != way.width) {
      return kMixedWidths;
    }
    return {};
  }

  std::int64_t cost_in(const Way& way, const TableOptions& table, const Option& option) const {
    if (way.kind == Way::Kind::kByRows && !is_row_wise_kind(option.sharding_type)) return kNever;
    return result_.num_hazards[index_of(option)] + (hazard_in(way, table, option).empty() ? 0 : 1);
  }

  void add_group(const Tables& tables, const std::vector<Way>& ways) {
    const auto group = static_cast<std::int32_t>(result_.least_of_group.size());
    std::vector<std::vector<std::int64_t>> least(ways.size());  // [ways][tables]
    std::vector<std::int64_t> totals(ways.size());
    for (std::size_t w = 0; w < ways.size(); ++w) {
      for (const TableOptions* table : tables) {
        group_of(*table) = group;
        std::int64_t& of_table = least[w].emplace_back(-1);
        for_each_option(*table, [&](const Option& option) {
          const std::int64_t cost = cost_in(ways[w], *table, option);
          if (of_table < 0 || cost < of_table) of_table = cost;
        });
        totals[w] += std::max<std::int64_t>(of_table, 0);
      }
    }
    const std::int64_t fewest = *std::min_element(totals.begin(), totals.end());
    result_.least_of_group.push_back(fewest);
    std::vector<std::size_t> kept;  // ways of the fewest hazards
    for (std::size_t w = 0; w < ways.size(); ++w) {
      if (totals[w] == fewest) kept.push_back(w);
    }
    WayChoice choice{std::vector<std::vector<std::int32_t>>(kept.size()), group};
    for (std::size_t i = 0; i < tables.size(); ++i) {
      // [kept] does the way take the option?
      const auto takes = [&, i](const Option& option) {
        std::vector<bool> taking(kept.size());
        for (std::size_t k = 0; k < kept.size(); ++k) {
          taking[k] = cost_in(ways[kept[k]], *tables[i], option) == least[kept[k]][i];
        }
        return taking;
      };
      std::map<std::string_view, int> named;  // by options and ways that are kept
      int num_kept = 0;                       // pairs of an option and a way
      for_each_option(*tables[i], [&](const Option& option) {
        const std::vector<bool> taking = takes(option);
        const std::size_t o = index_of(option);
        result_.is_left_out[o] = std::find(taking.begin(), taking.end(), true) == taking.end();
        if (result_.is_left_out[o]) return;
        const TypeNames own = hazards_of(*tables[i], find_given(model_, *tables[i]), option);
        for (std::size_t k = 0; k < kept.size(); ++k) {
          if (!taking[k]) {
            choice.left_out[k].push_back(static_cast<std::int32_t>(o));
            continue;
          }
          ++num_kept;
          std::set<std::string_view> names(own.begin(), own.end());
          names.insert(hazard_in(ways[kept[k]], *tables[i], option));
          for (const std::string_view name : names) ++named[name];
        }
      });
      named.erase(std::string_view());
      for (const auto& [name, count] : named) {
        const TableHazard hazard{static_cast<std::int32_t>(position_of(*tables[i])), name};
        result_.unavoidable.push_back({hazard, count == num_kept});
      }
    }
    const bool is_open = std::any_of(choice.left_out.begin(), choice.left_out.end(),
                                     [](const auto& options) { return !options.empty(); });
    if (is_open) result_.way_choices.push_back(std::move(choice));
  }

  const OptionSet& options_;
  const topology::Topology& topology_;
  const Model& model_;
  const std::vector<bool> is_barred_;  // [options], or empty
  OptionHazards result_;
};

}  // namespace

std::int64_t OptionHazards::least() const {
  return std::accumulate(least_of_group.begin(), least_of_group.end(), std::int64_t{0});
}

std::size_t WayChoice::way_of(std::span<const std::int32_t> taken) const {
  std::vector<std::int64_t> excluded;
  for (const std::vector<std::int32_t>& options : left_out) {
    excluded.push_back(std::count_if(taken.begin(), taken.end(), [&options](std::int32_t o) {
      return std::binary_search(options.begin(), options.end(), o);
    }));
  }
  return static_cast<std::size_t>(std::min_element(excluded.begin(), excluded.end()) -
                                  excluded.begin());
}

OptionHazards find_option_hazards(const OptionSet& options, const topology::Topology& topology,
                                  const Model& model, const std::vector<bool>& is_barred) {
  return HazardFinder(options, topology, model, is_barred).find();
}

std::vector<TableHazard> find_plan_hazards(const OptionSet& options,
                                           const topology::Topology& topology, const Model& model,
                                           std::span<const std::int32_t> taken) {
  return HazardFinder(options, topology, model).find(taken);
}

std::vector<bool> find_numeric_options(const OptionSet& options, const Model& model) {
  std::vector<bool> is_row_wise_state;  // [tables]
  for (const TableOptions& table : options.tables) {
    const Given given = find_given(model, table);
    is_row_wise_state.push_back(given.module != nullptr && !is_quantised(given.module->kind) &&
                                find_trained_optimizer(model, *given.module, *given.table) ==
                                    Optimizer::kRowWiseAdagrad);
  }
  std::vector<bool> is_numeric;
  for (const Option& option : options.options) {
    is_numeric.push_back(is_row_wise_state[static_cast<std::size_t>(option.table)] &&
                         option.compute_kernel != ComputeKernel::kDense &&
                         option.column_blocks > 1);
  }
  return is_numeric;
}

std::optional<Error> find_numeric_refusal(const OptionSet& options, const Model& model) {
  const std::vector<bool> is_numeric = find_numeric_options(options, model);
  for (const TableOptions& table : options.tables) {
    const auto first = is_numeric.begin() + table.first_option;
    const auto last = first + table.num_options;
    if (first == last || std::find(first, last, false) != last) continue;
    return Error{
        ErrorCode::kPlanner, "table " + table.fqn,
        "optimizer_state_per_block: every option of the table cuts its columns, and row-wise "
        "Adagrad keeps a state for each block",
        "allow the table another sharding type, or plan without strict_numerics",
        "strict_constraints"};
  }
  return std::nullopt;
}

}  // namespace plimsoll::embedding
