// Every option of every table, in the reference's order: modules as it visits them, tables as
// registered, types as declared, kernels as declared.
//
// Cost. O(options x features) time and O(options) memory: the ranks never enter, except for cuts in
// proportion to custom memory. Source: docs/mathematics/torchrec-planner.md#options-of-a-table.
// Order of types and kernels under a constraint is the sharder's declared one; before 1.9 the
// reference leaves it to the string hash.

#include "plimsoll/embedding/enumerator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

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

// Times and bytes that searches can add up and compare.
Result<void> check_estimates(const ShardEstimator& estimator, std::span<const ShardRun> runs,
                             bool allows_negative_times) {
  for (const ShardRun& run : runs) {
    const Perf& perf = run.perf;
    const double least = std::min({perf.fwd_compute, perf.fwd_comms, perf.bwd_compute,
                                   perf.bwd_comms, perf.prefetch_compute});
    const bool has_times = std::isfinite(perf.total()) && (least >= 0 || allows_negative_times);
    if (has_times && std::min({run.storage.hbm, run.storage.ddr, run.storage.ssd}) >= 0) continue;
    return fail(ErrorCode::kValue, "",
                fmt::format("the estimator {} gives a shard of {} x {} {} ms and {} bytes of hbm, "
                            "{} of ddr, {} of ssd",
                            estimator.name(), run.rows, run.columns, perf.total(), run.storage.hbm,
                            run.storage.ddr, run.storage.ssd),
                "give finite numbers that are not negative");
  }
  return {};
}

Result<void> check_totals(const Cut& cut, ShardingType type) {
  Int128 hbm = 0;
  Int128 ddr = 0;
  Int128 ssd = 0;
  for (const ShardRun& run : cut.runs) {
    const Int128 copies = Int128{run.count} * cut.column_blocks;
    hbm += copies * run.storage.hbm;
    ddr += copies * run.storage.ddr;
    ssd += copies * run.storage.ssd;
  }
  if (std::max({hbm, ddr, ssd}) <= std::numeric_limits<Bytes>::max()) return {};
  return fail(
      ErrorCode::kOverflow, "",
      fmt::format("all shards of {} together do not fit in 2^63 - 1 bytes", to_string(type)),
      "give fewer rows or ranks, or constrain the sharding types");
}

// Appends one option of the table with its estimates to the set.
Result<void> append_option(const ShardEstimator& estimator, const TableOptions& table,
                           const TableProfile& profile, Cut cut, Option option,
                           bool allows_negative_times, OptionSet& set) {
  option.partition_by = partition_by(option.sharding_type);
  option.first_run = static_cast<std::int64_t>(set.runs.size());
  option.num_runs = static_cast<std::int32_t>(cut.runs.size());
  option.column_blocks = cut.column_blocks;
  PLIMSOLL_RETURN_IF_ERROR(estimator.estimate(table, profile, option, cut.runs));
  PLIMSOLL_RETURN_IF_ERROR(check_estimates(estimator, cut.runs, allows_negative_times));
  PLIMSOLL_RETURN_IF_ERROR(check_totals(cut, option.sharding_type));
  set.runs.insert(set.runs.end(), cut.runs.begin(), cut.runs.end());
  set.options.push_back(option);
  return {};
}

// One table and its options.
//
// The reference estimates when all tables are enumerated, so a later table that cannot be cut goes
// before the first one that cannot be estimated: the latter is left in `estimate_error`.
class TableEnumeration {
 public:
  TableEnumeration(const Estimator& estimator, const Model& model, int module, int table,
                   const EnumerationOptions& options, Enumeration& result,
                   std::optional<Error>& estimate_error)
      : estimator_(estimator),
        cost_model_(estimator.cost_model()),
        topology_(estimator.topology()),
        model_(model),
        module_(model.modules[static_cast<std::size_t>(module)]),
        table_(module_.tables[static_cast<std::size_t>(table)]),
        options_(options),
        constraints_(find_constraints(model, options.fqn_constraints, options.global_constraints,
                                      module_.path, table_)),
        result_(result),
        estimate_error_(estimate_error) {
    entry_.fqn = table_fqn(module_.path, table_.name);
    entry_.name = table_.name;
    entry_.module_path = module_.path;
    entry_.dependency = dependency_of(module_, table_);
    entry_.module = module;
    entry_.table = table;
    entry_.first_option = static_cast<std::int32_t>(result.options.options.size());
  }

  Result<void> run() {
    PLIMSOLL_ASSIGN(const bool is_of_device, check_device_group());
    if (!is_of_device) return {};
    PLIMSOLL_RETURN_IF_ERROR(make_profile());
    PLIMSOLL_ASSIGN(const std::optional<std::int64_t> num_buckets,
                    find_num_buckets(cost_model_, topology_, module_, table_));
    const std::size_t first_run = set().runs.size();
    PLIMSOLL_ASSIGN(const bool has_option, append_types(num_buckets));
    if (!has_option) return no_option();
    keep(first_run);
    return {};
  }

 private:
  OptionSet& set() { return result_.options; }

  // Is the table one of this device's?
  Result<bool> check_device_group() const {
    const auto& group = constraints_.device_group;
    if (group && !group->empty() && *group != topology::to_string(topology_.compute_device)) {
      return false;
    }
    if (options_.device_group && !model_.constraints.contains(table_.name)) {
      return fail(ErrorCode::kRuntime, "table " + entry_.fqn,
                  "a heterogeneous plan needs a device_group for every table",
                  "add a constraint with the table's device_group");
    }
    return true;
  }

  Result<void> make_profile() {
    PLIMSOLL_ASSIGN(profile_, make_table_profile(cost_model_, topology_, model_.optimizer, module_,
                                                 table_, constraints_, options_.batch_size));
    entry_.shape = profile_.shape;
    entry_.is_pooled = profile_.is_pooled;
    entry_.is_weighted = profile_.is_weighted;
    entry_.pooling_factors = profile_.pooling_factors;
    return {};
  }

  // False where the filters leave nothing.
  Result<bool> append_types(std::optional<std::int64_t> num_buckets) {
    const std::vector<ShardingType> types =
        filter_types(cost_model_, module_, table_, constraints_, topology_.compute_device,
                     options_.max_column_blocks > 0);
    if (types.empty()) warn("no_sharding_type", "no sharding type is left after filters");
    bool has_option = false;
    for (const ShardingType type : types) {
      const std::vector<ComputeKernel> kernels =
          filter_kernels(cost_model_, module_, table_, constraints_, type, topology_);
      if (kernels.empty()) {
        warn("no_compute_kernel",
             fmt::format("no compute kernel is left for {} after filters", to_string(type)));
        continue;
      }
      for (const auto& min_partition :
           min_partitions(type, profile_.shape.columns, constraints_.min_partition,
                          options_.max_column_blocks)) {
        PLIMSOLL_ASSIGN(const Cut cut, cut_table(cost_model_, topology_, type, profile_.shape,
                                                 min_partition, num_buckets));
        has_option = true;
        append_kernels(type, kernels, cut);
      }
    }
    return has_option;
  }

  void append_kernels(ShardingType type, const std::vector<ComputeKernel>& kernels,
                      const Cut& cut) {
    for (const ComputeKernel kernel : kernels) {
      Option option;
      option.table = static_cast<std::int32_t>(set().tables.size());
      option.sharding_type = type;
      option.compute_kernel = kernel;
      if (!table_.dynamic_embedding) {
        if (profile_.cache_params) option.cache_load_factor = profile_.cache_params->load_factor;
        append(cut, option);
        continue;
      }
      for (const DynamicEmbedding& choice :
           dynamic_embedding_choices(*table_.dynamic_embedding, constraints_.cache_params)) {
        option.cache_load_factor = choice.load_factor;
        option.dynamic_embedding_mode = choice.mode;
        profile_.dynamic_embedding = choice;
        append(cut, option);
      }
    }
  }

  void append(const Cut& cut, const Option& option) {
    if (estimate_error_) return;
    const ShardEstimator& estimator = options_.estimator ? *options_.estimator : estimator_;
    auto appended =
        append_option(estimator, entry_, profile_, cut, option, !options_.estimator, set());
    if (!appended) estimate_error_ = at_table(std::move(appended).error(), entry_.fqn);
  }

  void warn(std::string code, std::string message) {
    result_.warnings.push_back({std::move(code), entry_.fqn, std::move(message)});
  }

  tl::unexpected<Error> no_option() const {
    return fail(
        ErrorCode::kRuntime, "table " + entry_.fqn,
        fmt::format("No available sharding type and compute kernel combination after applying "
                    "user provided constraints for {0}. Module: {1}, sharder: {2}, compute "
                    "device: {3}. To debug, search above for warning logs about no available "
                    "sharding types/compute kernels for table: {0}",
                    table_.name, module_qualified_name(module_.kind),
                    sharder_class_name(module_.kind),
                    topology::to_string(topology_.compute_device)),
        "loosen its sharding_types or compute_kernels");
  }

  // Quirk: the heterogeneous planner drops a table without a group once it is enumerated, so its
  // errors count.
  void keep(std::size_t first_run) {
    if (options_.device_group && constraints_.device_group != options_.device_group) {
      set().options.resize(static_cast<std::size_t>(entry_.first_option));
      set().runs.resize(first_run);
      return;
    }
    entry_.num_options = static_cast<std::int32_t>(set().options.size()) - entry_.first_option;
    set().tables.push_back(std::move(entry_));
    result_.profiles.push_back(std::move(profile_));
  }

  const Estimator& estimator_;
  const CostModel& cost_model_;
  const Topology& topology_;
  const Model& model_;
  const Module& module_;
  const Table& table_;
  const EnumerationOptions& options_;
  const ParameterConstraints constraints_;
  Enumeration& result_;
  std::optional<Error>& estimate_error_;
  TableOptions entry_;
  TableProfile profile_;
};

// So many tables say about how many options the others have: memory that grows is filled twice.
constexpr std::size_t kSample = 64;

void reserve_like_sample(std::size_t num_tables, OptionSet& set) {
  set.options.reserve(set.options.size() * num_tables / kSample);
  set.runs.reserve(set.runs.size() * num_tables / kSample);
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
  const std::vector<int> order = visit_order(model, options.breadth_first);
  std::size_t num_tables = 0;
  for (const int module : order) {
    num_tables += model.modules[static_cast<std::size_t>(module)].tables.size();
  }
  result.options.tables.reserve(num_tables);
  result.profiles.reserve(num_tables);
  for (const int module : order) {
    const Module& owner = model.modules[static_cast<std::size_t>(module)];
    for (const int table : table_order(owner)) {
      if (context.is_cancelled() || context.is_past_deadline()) {
        result.is_cut = true;
        return result;
      }
      auto done =
          TableEnumeration(estimator, model, module, table, options, result, estimate_error).run();
      if (result.profiles.size() == kSample) reserve_like_sample(num_tables, result.options);
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

Result<std::int32_t> intern_option(const ShardEstimator& estimator, const TableProfile& profile,
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
  const TableOptions& table = options.tables[static_cast<std::size_t>(option.table)];
  PLIMSOLL_RETURN_IF_ERROR(append_option(estimator, table, profile_of(profile, option),
                                         std::move(cut), option, true, options));

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
