// Every option of every table, in the reference's order: modules as it visits them, tables as
// registered, types as declared, kernels as declared.
//
// Cost. O(options x features) time and O(options) memory: the ranks never enter, but for cuts in
// proportion to custom memory. Source: docs/mathematics/torchrec-planner.md#options-of-a-table.
// Order of types and kernels under a constraint is the sharder's declared one; before 1.9 the
// reference leaves it to the string hash.

#include "plimsoll/embedding/enumerator.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "embedding/cost/dynamic_embedding.h"
#include "embedding/model/sharder.h"

namespace plimsoll::embedding {
namespace {

template <class T>
bool contains(const std::vector<T>& values, T value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

std::vector<ShardingType> filter_types(const CostModel& cost_model, const Module& module,
                                       const Table& table, const ParameterConstraints& constraints,
                                       ComputeDevice device, bool is_wide) {
  std::vector<ShardingType> types = allowed_sharding_types(cost_model, module, table, device);
  std::erase_if(types, [&](ShardingType type) {
    if (!constraints.sharding_types.empty()) return !contains(constraints.sharding_types, type);
    return needs_type_constraint(cost_model, module.kind, type) &&
           !(is_wide && type == ShardingType::kGridShard);
  });
  return types;
}

std::vector<ComputeKernel> filter_kernels(const CostModel& cost_model, const Module& module,
                                          const Table& table,
                                          const ParameterConstraints& constraints,
                                          ShardingType type, const Topology& topology) {
  std::vector<ComputeKernel> kernels =
      allowed_compute_kernels(cost_model, module, table, type, topology.compute_device);
  const bool has_ssd = std::any_of(topology.devices.begin(), topology.devices.end(),
                                   [](const Storage& device) { return device.ssd > 0; });
  std::erase_if(kernels, [&](ComputeKernel kernel) {
    if (kernel == ComputeKernel::kKeyValue && cost_model.key_value_needs_ssd && !has_ssd) {
      return true;
    }
    return constraints.compute_kernels.empty() ? needs_kernel_constraint(cost_model, kernel)
                                               : !contains(constraints.compute_kernels, kernel);
  });
  if (contains(kernels, ComputeKernel::kFused)) std::erase(kernels, ComputeKernel::kDense);
  return kernels;
}

// Smallest widths of the column cuts to try: the constraint's, then those of the wide space.
std::vector<std::optional<std::int64_t>> min_partitions(ShardingType type, std::int64_t columns,
                                                        std::optional<std::int64_t> constrained,
                                                        std::int64_t max_column_blocks) {
  std::vector<std::optional<std::int64_t>> widths{constrained};
  if (!is_column_cut(type)) return widths;
  const std::int64_t given = column_width(columns, constrained);
  for (std::int64_t blocks = 1; blocks <= std::min(max_column_blocks, columns / 4); ++blocks) {
    const std::int64_t width = columns / blocks;
    if (columns % blocks == 0 && width > 0 && width % 4 == 0 && width != given) {
      widths.emplace_back(width);
    }
  }
  return widths;
}

std::string dependency_of(const Module& module, const Table& table) {
  if (module.kind == ModuleKind::kEmbeddingTower) return module.path;
  if (module.kind == ModuleKind::kEmbeddingTowerCollection) {
    return fmt::format("{}.tower_{}", module.path, table.tower.value_or(0));
  }
  return "";
}

// Names the table in an error that the estimators or the cut could not place.
Error at_table(Error error, const std::string& fqn) {
  if (error.place.empty()) error.place = "table " + fqn;
  return error;
}

// Appends one option with its estimates to the set.
Result<void> append_option(const Estimator& estimator, const TableProfile& profile, Cut cut,
                           Option option, OptionSet& set) {
  option.partition_by = partition_by(option.sharding_type);
  option.first_run = static_cast<std::int64_t>(set.runs.size());
  option.num_runs = static_cast<std::int32_t>(cut.runs.size());
  option.column_blocks = cut.column_blocks;
  // Shards of an option differ in rows alone, and rows enter the time of data_parallel only, whose
  // shards are all equal.
  PLIMSOLL_ASSIGN(const Perf perf,
                  estimator.shard_perf(profile, option.sharding_type, option.compute_kernel,
                                       cut.runs.front().rows, cut.runs.front().columns));
  Int128 total_hbm = 0;
  Int128 total_ddr = 0;
  Int128 total_ssd = 0;
  for (ShardRun& run : cut.runs) {
    run.perf = perf;
    PLIMSOLL_ASSIGN(run.storage,
                    estimator.shard_storage(profile, option.sharding_type, option.compute_kernel,
                                            run.rows, run.columns));
    const Int128 copies = Int128{run.count} * cut.column_blocks;
    total_hbm += copies * run.storage.hbm;
    total_ddr += copies * run.storage.ddr;
    total_ssd += copies * run.storage.ssd;
  }
  if (std::max({total_hbm, total_ddr, total_ssd}) > std::numeric_limits<Bytes>::max()) {
    return fail(ErrorCode::kOverflow, "",
                fmt::format("all shards of {} together do not fit in 2^63 - 1 bytes",
                            to_string(option.sharding_type)),
                "give fewer rows or ranks, or constrain the sharding types");
  }
  set.runs.insert(set.runs.end(), cut.runs.begin(), cut.runs.end());
  set.options.push_back(option);
  return {};
}

// The reference estimates when all tables are enumerated, so a later table that cannot be cut goes
// before the first one that cannot be estimated: the latter is left in `estimate_error`.
Result<void> enumerate_table(const Estimator& estimator, const Model& model, int module_index,
                             int table_index, const EnumerationOptions& options,
                             Enumeration& result, std::optional<Error>& estimate_error) {
  const CostModel& cost_model = estimator.cost_model();
  const Topology& topology = estimator.topology();
  const Module& module = model.modules[static_cast<std::size_t>(module_index)];
  const Table& table = module.tables[static_cast<std::size_t>(table_index)];
  const std::string fqn = table_fqn(module.path, table.name);
  const ParameterConstraints constraints = find_constraints(
      model, options.fqn_constraints, options.global_constraints, module.path, table);
  const ComputeDevice device = topology.compute_device;
  if (constraints.device_group && !constraints.device_group->empty() &&
      *constraints.device_group != topology::to_string(device)) {
    return {};
  }
  if (options.device_group) {
    if (!model.constraints.contains(table.name)) {
      return fail(ErrorCode::kRuntime, "table " + fqn,
                  "a heterogeneous plan needs a device_group for every table",
                  "add a constraint with the table's device_group");
    }
  }
  // Quirk: the heterogeneous planner drops a table without a group once it is enumerated, so its
  // errors count.
  const bool is_dropped = options.device_group && constraints.device_group != options.device_group;

  PLIMSOLL_ASSIGN(TableProfile profile,
                  make_table_profile(cost_model, topology, model.optimizer, module, table,
                                     constraints, options.batch_size));
  PLIMSOLL_ASSIGN(const std::optional<std::int64_t> num_buckets,
                  find_num_buckets(cost_model, topology, module, table));
  OptionSet& set = result.options;
  TableOptions entry;
  entry.fqn = fqn;
  entry.name = table.name;
  entry.module_path = module.path;
  entry.dependency = dependency_of(module, table);
  entry.module = module_index;
  entry.table = table_index;
  entry.first_option = static_cast<std::int32_t>(set.options.size());
  const std::size_t first_run = set.runs.size();
  entry.shape = profile.shape;
  entry.is_pooled = profile.is_pooled;
  entry.is_weighted = profile.is_weighted;
  entry.pooling_factors = profile.pooling_factors;

  const std::vector<ShardingType> types =
      filter_types(cost_model, module, table, constraints, device, options.max_column_blocks > 0);
  if (types.empty()) {
    result.warnings.push_back({"no_sharding_type", fqn, "no sharding type is left after filters"});
  }
  const auto append = [&](const Cut& cut, const Option& option) {
    if (estimate_error) return;
    auto appended = append_option(estimator, profile, cut, option, set);
    if (!appended) estimate_error = at_table(std::move(appended).error(), fqn);
  };
  const auto append_kernels = [&](ShardingType type, const std::vector<ComputeKernel>& kernels,
                                  const Cut& cut) {
    for (const ComputeKernel kernel : kernels) {
      Option option;
      option.table = static_cast<std::int32_t>(set.tables.size());
      option.sharding_type = type;
      option.compute_kernel = kernel;
      if (!table.dynamic_embedding) {
        if (profile.cache_params) option.cache_load_factor = profile.cache_params->load_factor;
        append(cut, option);
        continue;
      }
      for (const DynamicEmbedding& choice :
           dynamic_embedding_choices(*table.dynamic_embedding, constraints.cache_params)) {
        option.cache_load_factor = choice.load_factor;
        option.dynamic_embedding_mode = choice.mode;
        profile.dynamic_embedding = choice;
        append(cut, option);
      }
    }
  };
  bool has_option = false;
  for (const ShardingType type : types) {
    const std::vector<ComputeKernel> kernels =
        filter_kernels(cost_model, module, table, constraints, type, topology);
    if (kernels.empty()) {
      result.warnings.push_back(
          {"no_compute_kernel", fqn,
           fmt::format("no compute kernel is left for {} after filters", to_string(type))});
      continue;
    }
    for (const auto& min_partition : min_partitions(
             type, profile.shape.columns, constraints.min_partition, options.max_column_blocks)) {
      PLIMSOLL_ASSIGN(const Cut cut, cut_table(cost_model, topology, type, profile.shape,
                                               min_partition, num_buckets));
      has_option = true;
      append_kernels(type, kernels, cut);
    }
  }
  entry.num_options = static_cast<std::int32_t>(set.options.size()) - entry.first_option;
  if (!has_option) {
    return fail(
        ErrorCode::kRuntime, "table " + fqn,
        fmt::format("No available sharding type and compute kernel combination after applying "
                    "user provided constraints for {0}. Module: {1}, sharder: {2}, compute "
                    "device: {3}. To debug, search above for warning logs about no available "
                    "sharding types/compute kernels for table: {0}",
                    table.name, module_qualified_name(module.kind), sharder_class_name(module.kind),
                    topology::to_string(device)),
        "loosen its sharding_types or compute_kernels");
  }
  if (is_dropped) {
    set.options.resize(static_cast<std::size_t>(entry.first_option));
    set.runs.resize(first_run);
    return {};
  }
  set.tables.push_back(std::move(entry));
  result.profiles.push_back(std::move(profile));
  return {};
}

}  // namespace

Result<Enumeration> enumerate(const Estimator& estimator, const Model& model,
                              const EnumerationOptions& options, const RunContext& context) {
  const Topology& topology = estimator.topology();
  Enumeration result;
  std::optional<Error> estimate_error;
  result.options.world_size = topology.world_size;
  result.options.local_world_size = topology.local_world_size;
  result.options.group_size = topology.group_size();
  result.options.rank_speeds = topology.device_speeds;
  const CostModel& release = estimator.cost_model();
  result.options.key_value_columns_on_distinct_ranks = release.key_value_columns_on_distinct_ranks;
  result.options.buckets = release.buckets;
  for (const int module : visit_order(model, options.breadth_first)) {
    const Module& owner = model.modules[static_cast<std::size_t>(module)];
    for (const int table : table_order(owner)) {
      if (context.is_cancelled() || context.is_past_deadline()) {
        result.is_cut = true;
        return result;
      }
      auto done = enumerate_table(estimator, model, module, table, options, result, estimate_error);
      if (!done) {
        const Table& culprit = owner.tables[static_cast<std::size_t>(table)];
        return tl::unexpected<Error>(
            at_table(std::move(done).error(), table_fqn(owner.path, culprit.name)));
      }
    }
  }
  if (estimate_error) return tl::unexpected<Error>(*std::move(estimate_error));
  return result;
}

TableProfile profile_of(const TableProfile& table, const Option& option) {
  TableProfile profile = table;
  if (profile.cache_params || option.cache_load_factor) {
    if (!profile.cache_params) profile.cache_params.emplace();
    profile.cache_params->load_factor = option.cache_load_factor;
  }
  if (profile.dynamic_embedding) {
    profile.dynamic_embedding->mode = option.dynamic_embedding_mode;
    profile.dynamic_embedding->load_factor = option.cache_load_factor;
  }
  return profile;
}

Result<std::int32_t> intern_option(const Estimator& estimator, const TableProfile& profile,
                                   std::int32_t like, ComputeKernel kernel,
                                   std::optional<double> cache_load_factor, OptionSet& options) {
  Cut cut;
  const ShardRuns shards = options.shards(like);
  cut.runs.assign(shards.runs.begin(), shards.runs.end());
  Option option = options.options[static_cast<std::size_t>(like)];
  cut.column_blocks = option.column_blocks;
  option.compute_kernel = kernel;
  option.cache_load_factor = cache_load_factor;
  const auto index = static_cast<std::int32_t>(options.options.size());
  PLIMSOLL_RETURN_IF_ERROR(
      append_option(estimator, profile_of(profile, option), std::move(cut), option, options));

  // An equal option that is there already wins, so that equal proposals have equal options.
  const ShardRuns appended = options.shards(index);
  const auto is_equal = [&](std::int32_t other) {
    const Option& candidate = options.options[static_cast<std::size_t>(other)];
    return candidate.table == option.table && candidate.sharding_type == option.sharding_type &&
           candidate.compute_kernel == kernel && candidate.cache_load_factor == cache_load_factor &&
           candidate.dynamic_embedding_mode == option.dynamic_embedding_mode &&
           std::ranges::equal(options.shards(other).runs, appended.runs);
  };
  for (std::int32_t other = 0; other < index; ++other) {
    if (is_equal(other)) {
      options.runs.resize(options.runs.size() - appended.runs.size());
      options.options.pop_back();
      return other;
    }
  }
  return index;
}

}  // namespace plimsoll::embedding
