#include "io/import/foreign_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "core/suggest.h"
#include "io/documents/descriptions.h"
#include "io/documents/plan_tree.h"
#include "io/json/json_writer.h"
#include "plimsoll/embedding/enumerator.h"

namespace plimsoll::io {

using embedding::Cut;
using embedding::Model;
using embedding::Module;
using embedding::PlacedShard;
using embedding::RankRun;
using embedding::ShardingPlan;
using embedding::ShardingType;
using embedding::ShardRun;
using embedding::ShardSizeRun;
using embedding::Table;
using embedding::TableSharding;

// One shard as TorchRec lists it.
struct ForeignShard {
  std::vector<std::int64_t> shard_offsets;  // [2] row, column
  std::vector<std::int64_t> shard_sizes;    // [2] rows, columns
  std::string placement;                    // "rank:3/cuda:3"
};

struct ForeignTable {
  ShardingType sharding_type = ShardingType::kTableWise;
  embedding::ComputeKernel compute_kernel = embedding::ComputeKernel::kFused;
  std::vector<std::int32_t> ranks;
  std::optional<std::vector<ForeignShard>> shards;
};

template <class Fields, SameAs<ForeignShard> T>
void describe(Fields& fields, T& shard) {
  fields.required("shard_offsets", shard.shard_offsets, kNonNegative);
  fields.required("shard_sizes", shard.shard_sizes, kNonNegative);
  fields.required("placement", shard.placement);
}

template <class Fields, SameAs<ForeignTable> T>
void describe(Fields& fields, T& table) {
  fields.required("sharding_type", table.sharding_type);
  fields.required("compute_kernel", table.compute_kernel);
  fields.required("ranks", table.ranks, kRank);
  fields.optional("shards", table.shards, kNullable);
}

namespace {

std::vector<std::int32_t> expand_ranks(const TableSharding& sharding) {
  std::vector<std::int32_t> ranks;
  for (const RankRun& run : sharding.ranks) {
    for (std::int32_t i = 0; i < run.count; ++i) ranks.push_back(run.first + i);
  }
  return ranks;
}

std::vector<RankRun> compress_ranks(const std::vector<std::int32_t>& ranks) {
  std::vector<RankRun> runs;
  for (const std::int32_t rank : ranks) {
    if (!runs.empty() && runs.back().first + runs.back().count == rank) {
      ++runs.back().count;
    } else {
      runs.push_back({rank, 1});
    }
  }
  return runs;
}

// Equal shards below one another become one run, as the enumerator cuts them.
std::vector<ShardSizeRun> compress_shards(const std::vector<PlacedShard>& shards) {
  std::vector<ShardSizeRun> runs;
  for (const PlacedShard& shard : shards) {
    if (!runs.empty()) {
      ShardSizeRun& run = runs.back();
      const bool is_alike =
          run.rows == shard.rows && run.columns == shard.columns && run.column == shard.column;
      if (is_alike && Int128{run.row} + Int128{run.count} * run.rows == shard.row) {
        ++run.count;
        continue;
      }
    }
    runs.push_back({1, shard.rows, shard.columns, shard.row, shard.column, shard.rows});
  }
  return runs;
}

std::vector<ShardSizeRun> to_size_runs(const Cut& cut) {
  std::vector<ShardSizeRun> runs;
  for (std::int32_t block = 0; block < cut.column_blocks; ++block) {
    for (const ShardRun& run : cut.runs) {
      runs.push_back(
          {run.count, run.rows, run.columns, run.first_row, block * run.columns, run.row_stride});
    }
  }
  return runs;
}

std::int64_t shards_per_block(const Cut& cut) {
  std::int64_t count = 0;
  for (const ShardRun& run : cut.runs) count += run.count;
  return count;
}

Result<const JsonValue::Object*> object_of(const JsonValue& value, std::string_view file,
                                           const std::string& pointer) {
  if (const auto* object = value.as<JsonValue::Object>()) return object;
  return fail(ErrorCode::kSchema, document_place(file, pointer),
              fmt::format("expected an object, found {}", value.kind()));
}

Result<ForeignTable> read_table(const JsonValue& value, std::string_view file,
                                std::string_view path, std::string_view name) {
  ReadContext context{file, {}};
  const Place root;
  const Place module{&root, path, {}};
  const Place place{&module, name, {}};
  ForeignTable table;
  if (!read(Cursor{value, place, context}, table, kAnyValue)) {
    return tl::unexpected<Error>(*std::move(context.error));
  }
  return table;
}

// Shows every table of a document to `visit(table, path, name, pointer)`, which returns a
// Result<void>.
template <class Visit>
Result<void> for_each_table(const JsonValue& root, std::string_view file, const Visit& visit) {
  PLIMSOLL_ASSIGN(const JsonValue::Object* modules, object_of(root, file, ""));
  for (const auto& [path, module] : *modules) {
    const std::string pointer = fmt::format("/{}", escape_pointer(path));
    PLIMSOLL_ASSIGN(const JsonValue::Object* tables, object_of(module, file, pointer));
    for (const auto& [name, value] : *tables) {
      PLIMSOLL_ASSIGN(ForeignTable table, read_table(value, file, path, name));
      PLIMSOLL_RETURN_IF_ERROR(
          visit(std::move(table), path, name, fmt::format("{}/{}", pointer, escape_pointer(name))));
    }
  }
  return {};
}

// What such a plan leaves unsaid is as the constraints have it, which TorchRec's planner passes on.
void pass_through(const Model& model, const std::string& table, TableSharding& sharding) {
  const auto found = model.constraints.find(table);
  if (found == model.constraints.end()) return;
  sharding.cache_params = found->second.cache_params;
  sharding.enforce_hbm = found->second.enforce_hbm;
  sharding.stochastic_rounding = found->second.stochastic_rounding;
  sharding.bounds_check_mode = found->second.bounds_check_mode;
  sharding.output_dtype = found->second.output_dtype;
  sharding.key_value_params = found->second.key_value_params;
}

class ForeignPlanReader {
 public:
  ForeignPlanReader(std::string_view file, const ForeignPlanContext& context)
      : file_(file), context_(context) {
    for (const Module& module : context.model.modules) {
      for (const Table& table : module.tables) {
        tables_.emplace(embedding::table_fqn(module.path, table.name), std::pair(&module, &table));
      }
    }
  }

  Result<ShardingPlan> read_plan(const JsonValue& root) const {
    ShardingPlan plan;
    plan.world_size = context_.topology.world_size;
    plan.local_world_size = context_.topology.local_world_size;
    plan.compute_device = context_.topology.compute_device;
    PLIMSOLL_RETURN_IF_ERROR(for_each_table(
        root, file_,
        [&](ForeignTable table, const std::string& path, const std::string& name,
            const std::string& pointer) -> Result<void> {
          if (table.shards && !table.shards->empty()) {
            const auto device = device_of(table.shards->front().placement);
            if (device && *device != plan.compute_device) plan.compute_device = *device;
          }
          PLIMSOLL_ASSIGN(TableSharding sharding, convert(std::move(table), path, name, pointer));
          plan.tables.push_back(std::move(sharding));
          return {};
        }));
    return plan;
  }

 private:
  tl::unexpected<Error> fail_at(ErrorCode code, const std::string& pointer, std::string message,
                                std::string remedy = {}) const {
    return fail(code, document_place(file_, pointer), std::move(message), std::move(remedy));
  }

  Result<TableSharding> convert(ForeignTable table, const std::string& path,
                                const std::string& name, const std::string& pointer) const {
    TableSharding sharding;
    sharding.module_path = path;
    sharding.table = name;
    sharding.sharding_type = table.sharding_type;
    sharding.compute_kernel = table.compute_kernel;
    sharding.ranks = compress_ranks(table.ranks);
    if (table.shards && !table.shards->empty()) {
      PLIMSOLL_ASSIGN(sharding.shards, stated_shards(table, pointer));
    } else {
      PLIMSOLL_ASSIGN(sharding.shards, cut_anew(table, path, name, pointer));
    }
    pass_through(context_.model, name, sharding);
    return sharding;
  }

  Result<std::vector<ShardSizeRun>> stated_shards(const ForeignTable& table,
                                                  const std::string& pointer) const {
    if (table.shards->size() != table.ranks.size()) {
      return fail_at(
          ErrorCode::kConflict, pointer + "/ranks",
          fmt::format("{} rank(s) for {} shard(s)", table.ranks.size(), table.shards->size()),
          "give every shard its rank");
    }
    std::vector<PlacedShard> shards;
    for (std::size_t i = 0; i < table.shards->size(); ++i) {
      const ForeignShard& shard = (*table.shards)[i];
      const std::string shard_pointer = fmt::format("{}/shards/{}", pointer, i);
      if (shard.shard_offsets.size() != 2 || shard.shard_sizes.size() != 2) {
        return fail_at(ErrorCode::kValue, shard_pointer,
                       "offsets and sizes need two entries: rows and columns");
      }
      const PlacedShard placed{shard.shard_sizes[0], shard.shard_sizes[1], shard.shard_offsets[0],
                               shard.shard_offsets[1], table.ranks[i]};
      if (Int128{placed.row} + placed.rows > INT64_MAX ||
          Int128{placed.column} + placed.columns > INT64_MAX) {
        return fail_at(ErrorCode::kOverflow, shard_pointer,
                       "the shard's end does not fit in 63 bits");
      }
      const std::optional<std::int32_t> rank = rank_of(shard.placement);
      if (!rank) {
        return fail_at(ErrorCode::kValue, shard_pointer + "/placement",
                       fmt::format("'{}' names no rank", shard.placement),
                       "write it as \"rank:0/cuda:0\"");
      }
      if (*rank != placed.rank) {
        return fail_at(ErrorCode::kConflict, shard_pointer + "/placement",
                       fmt::format("rank {}, but 'ranks' says {}", *rank, placed.rank));
      }
      shards.push_back(placed);
    }
    return compress_shards(shards);
  }

  static std::optional<std::int32_t> rank_of(std::string_view placement) {
    constexpr std::string_view kPrefix = "rank:";
    if (!placement.starts_with(kPrefix)) return std::nullopt;
    const char* const begin = placement.data() + kPrefix.size();
    const char* const end = placement.data() + placement.size();
    std::int32_t rank = 0;
    const auto [rest, code] = std::from_chars(begin, end, rank);
    const bool is_whole = rest == end || *rest == '/';
    return code == std::errc{} && is_whole ? std::optional(rank) : std::nullopt;
  }

  // Of "rank:3/cuda:3"; nothing where none is named.
  static std::optional<topology::ComputeDevice> device_of(std::string_view placement) {
    const std::size_t slash = placement.find('/');
    if (slash == std::string_view::npos) return std::nullopt;
    const std::string_view device = placement.substr(slash + 1);
    return topology::find_compute_device(device.substr(0, device.find(':')));
  }

  Result<std::vector<ShardSizeRun>> cut_anew(const ForeignTable& foreign, const std::string& path,
                                             const std::string& name,
                                             const std::string& pointer) const {
    const std::string fqn = embedding::table_fqn(path, name);
    const auto found = tables_.find(fqn);
    if (found == tables_.end()) {
      std::vector<std::string> known;
      for (const auto& entry : tables_) known.push_back(entry.first);
      return fail_at(ErrorCode::kNotFound, pointer, fmt::format("the model has no table '{}'", fqn),
                     suggest(fqn, known));
    }
    const auto& [module, table] = found->second;
    PLIMSOLL_ASSIGN(const embedding::TableShape shape, embedding::table_shape(*module, *table));
    PLIMSOLL_ASSIGN(
        const auto num_buckets,
        embedding::find_num_buckets(context_.cost_model, context_.topology, *module, *table));
    const auto constraints = context_.model.constraints.find(name);
    const std::optional<std::int64_t> min_partition =
        constraints == context_.model.constraints.end() ? std::nullopt
                                                        : constraints->second.min_partition;
    const auto cut_with = [&](std::optional<std::int64_t> width) -> Result<Cut> {
      Result<Cut> cut = embedding::cut_table(context_.cost_model, context_.topology,
                                             foreign.sharding_type, shape, width, num_buckets);
      if (!cut) cut.error().place = document_place(file_, pointer);
      return cut;
    };
    const auto num_ranks = static_cast<std::int64_t>(foreign.ranks.size());
    PLIMSOLL_ASSIGN(Cut cut, cut_with(min_partition));
    const std::int64_t rows = shards_per_block(cut);
    if (embedding::is_column_cut(foreign.sharding_type) && cut.column_blocks * rows != num_ranks &&
        num_ranks > 0 && num_ranks % rows == 0 && shape.columns % (num_ranks / rows) == 0) {
      PLIMSOLL_ASSIGN(cut, cut_with(shape.columns / (num_ranks / rows)));
    }
    if (cut.column_blocks * rows != num_ranks) {
      return fail_at(ErrorCode::kConflict, pointer + "/ranks",
                     fmt::format("{} rank(s) for the {} shard(s) that {} makes of {} x {}",
                                 num_ranks, cut.column_blocks * rows,
                                 to_string(foreign.sharding_type), shape.rows, shape.columns),
                     "check that the topology is that of the plan");
    }
    return to_size_runs(cut);
  }

  std::string_view file_;
  const ForeignPlanContext& context_;
  std::map<std::string, std::pair<const Module*, const Table*>> tables_;  // by fqn
};

// `convert` makes a table's entry; modules stand in the order of their first table.
template <class Convert>
std::string write_foreign_plan(const ShardingPlan& plan, const Convert& convert) {
  std::vector<std::pair<std::string, JsonValue::Object>> modules;
  for (const TableSharding& sharding : plan.tables) {
    auto module = std::find_if(modules.begin(), modules.end(), [&](const auto& candidate) {
      return candidate.first == sharding.module_path;
    });
    if (module == modules.end()) {
      module = modules.insert(modules.end(), {sharding.module_path, {}});
    }
    module->second.push_back({sharding.table, to_json(convert(sharding), kAnyValue)});
  }
  JsonValue::Object root;
  for (auto& [path, tables] : modules) root.push_back({path, {std::move(tables)}});
  return print_json({std::move(root)});
}

ForeignTable to_easyrec(const TableSharding& sharding) {
  return {sharding.sharding_type, sharding.compute_kernel, expand_ranks(sharding), {}};
}

}  // namespace

bool is_own_plan(const JsonValue& root) {
  const auto is = [&root](std::string_view key, auto type) {
    const JsonValue* value = root.find(key);
    return value != nullptr && value->as<decltype(type)>() != nullptr;
  };
  return is("schema", std::string{}) || is("status", std::string{}) ||
         is("tables", JsonValue::Array{});
}

std::string write_torchrec_plan(const ShardingPlan& plan) {
  return write_foreign_plan(plan, [&plan](const TableSharding& sharding) {
    ForeignTable table = to_easyrec(sharding);
    if (sharding.sharding_type == ShardingType::kDataParallel) return table;
    table.shards.emplace();
    for (const PlacedShard& shard : embedding::expand_shards(sharding)) {
      table.shards->push_back({{shard.row, shard.column},
                               {shard.rows, shard.columns},
                               embedding::placement_text(plan, shard.rank)});
    }
    return table;
  });
}

std::string write_easyrec_plan(const ShardingPlan& plan) {
  return write_foreign_plan(plan, to_easyrec);
}

Result<ShardingPlan> read_foreign_plan(std::string_view text, std::string_view file,
                                       const ForeignPlanContext& context) {
  PLIMSOLL_ASSIGN(const JsonValue root, parse_json(text, file));
  return read_foreign_plan(root, file, context);
}

Result<ShardingPlan> read_foreign_plan(const JsonValue& root, std::string_view file,
                                       const ForeignPlanContext& context) {
  return ForeignPlanReader(file, context).read_plan(root);
}

Result<ShardingAnswer> read_any_plan(std::string_view text, std::string_view file,
                                     const ForeignPlanContext& context) {
  PLIMSOLL_ASSIGN(const JsonValue root, parse_json(text, file));
  if (is_own_plan(root)) return read_plan_tree(root, file);
  ShardingAnswer answer;
  PLIMSOLL_ASSIGN(answer.plan, ForeignPlanReader(file, context).read_plan(root));
  return answer;
}

Result<std::map<std::string, ShardingType>> read_sharding_types(std::string_view text,
                                                                std::string_view file) {
  PLIMSOLL_ASSIGN(const JsonValue root, parse_json(text, file));
  std::map<std::string, ShardingType> types;
  if (!is_own_plan(root)) {
    PLIMSOLL_RETURN_IF_ERROR(
        for_each_table(root, file,
                       [&types](const ForeignTable& table, const std::string& path,
                                const std::string& name, const std::string&) -> Result<void> {
                         types[embedding::table_fqn(path, name)] = table.sharding_type;
                         return {};
                       }));
    return types;
  }
  PLIMSOLL_ASSIGN(const ShardingAnswer answer, read_plan_tree(root, file));
  if (!answer.plan) {
    return fail(ErrorCode::kValue, std::string(file), "the answer holds no plan", "plan again");
  }
  for (const TableSharding& table : answer.plan->tables) types[table.fqn()] = table.sharding_type;
  return types;
}

}  // namespace plimsoll::io
