#include "io/documents/torchrec_options_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>

#include "io/documents/torchrec_options_description.h"
#include "io/json/json_document.h"

namespace plimsoll::io {
namespace {

using embedding::Option;
using embedding::Perf;
using embedding::ShardingType;
using embedding::TableOptions;
using topology::Storage;

constexpr std::size_t kTotalOnly = 4;  // hbm, ddr, ssd, total
constexpr std::size_t kWithComponents = 9;
constexpr double kMaxExact = 9007199254740992;  // bytes of a class are read as doubles
constexpr Bytes kMaxRoom = Bytes{1} << 62;      // of all ranks, so that differences have 64 bits

struct ShardClass {
  Storage storage;
  Perf perf;
};

// The cost model of a release "major.minor", or of the one before that is known; "": the default.
embedding::CostModel cost_model_of(std::string_view release) {
  constexpr std::pair<int, std::string_view> kFrom[] = {{9, "torchrec-1.9"}, {8, "torchrec-1.8"},
                                                        {6, "torchrec-1.7"}, {5, "torchrec-1.5"},
                                                        {3, "torchrec-1.4"}, {0, "torchrec-1.2"}};
  int major = 0, minor = 0;
  const char* end = release.data() + release.size();
  const auto [dot, fault] = std::from_chars(release.data(), end, major);
  const bool is_known = fault == std::errc{} && dot != end && *dot == '.' &&
                        std::from_chars(dot + 1, end, minor).ec == std::errc{};
  if (!is_known || major > 1) return embedding::default_cost_model();
  if (major < 1) minor = 0;
  for (const auto& [from, name] : kFrom) {
    if (minor < from) continue;
    if (auto found = embedding::find_cost_model(name)) return *std::move(found);
  }
  return embedding::default_cost_model();
}

class Reader {
 public:
  Reader(TorchrecOptionsDocument document, std::string_view file)
      : document_(std::move(document)), file_(file) {}

  Result<TorchrecOptions> read() {
    embedding::OptionSet& set = result_.options;
    set.world_size = document_.world_size;
    set.local_world_size = document_.local_world_size;
    set.group_size = document_.group_size.value_or(document_.local_world_size);
    result_.cost_model = cost_model_of(document_.torchrec);
    set.key_value_columns_on_distinct_ranks =
        result_.cost_model.key_value_columns_on_distinct_ranks;
    PLIMSOLL_RETURN_IF_ERROR(read_machine());
    PLIMSOLL_RETURN_IF_ERROR(read_classes());
    PLIMSOLL_RETURN_IF_ERROR(read_tables());
    result_.batch_size = document_.batch_size > 0 ? document_.batch_size : 512;
    result_.torchrec = document_.torchrec;
    result_.context_hash = document_.context_hash;
    return std::move(result_);
  }

 private:
  tl::unexpected<Error> wrong(ErrorCode code, const std::string& pointer, std::string message,
                              std::string remedy = {}) const {
    return fail(code, document_place(file_, pointer), std::move(message), std::move(remedy));
  }

  Result<std::vector<Storage>> read_devices(const std::vector<std::vector<std::int64_t>>& rows,
                                            const std::string& key) const {
    if (rows.size() != static_cast<std::size_t>(document_.world_size)) {
      return wrong(ErrorCode::kValue, "/" + key,
                   fmt::format("{} entries for {} rank(s)", rows.size(), document_.world_size),
                   "give one a rank");
    }
    std::vector<Storage> devices;
    std::array<Int128, 3> total{};  // of magnitudes: what a reservation left may be negative
    for (std::size_t r = 0; r < rows.size(); ++r) {
      if (rows[r].size() != total.size()) {
        return wrong(ErrorCode::kSchema, fmt::format("/{}/{}", key, r),
                     "not a list of hbm, ddr and ssd");
      }
      for (std::size_t tier = 0; tier < total.size(); ++tier) {
        const Int128 bytes = rows[r][tier];
        total[tier] += bytes < 0 ? -bytes : bytes;
        if (total[tier] <= kMaxRoom) continue;
        return wrong(ErrorCode::kOverflow, fmt::format("/{}/{}/{}", key, r, tier),
                     "all ranks together have more than 2^62 bytes", "give the bytes of one rank");
      }
      devices.push_back({rows[r][0], rows[r][1], rows[r][2]});
    }
    return devices;
  }

  Result<void> read_machine() {
    topology::Topology& room = result_.room;
    room.world_size = document_.world_size;
    room.local_world_size = document_.local_world_size;
    room.compute_device = document_.compute_device;
    if (result_.options.group_size % document_.local_world_size != 0) {
      return wrong(ErrorCode::kValue, "/group_size",
                   fmt::format("{} is not a multiple of hosts of {}", result_.options.group_size,
                               document_.local_world_size));
    }
    if (document_.group_size) room.pod_size = *document_.group_size / document_.local_world_size;
    PLIMSOLL_ASSIGN(room.devices, read_devices(document_.room, "room"));
    result_.topology = room;
    if (!document_.capacity.empty()) {
      PLIMSOLL_ASSIGN(result_.topology.devices, read_devices(document_.capacity, "capacity"));
    }
    return {};
  }

  Result<void> read_classes() {
    result_.has_components = true;
    for (std::size_t i = 0; i < document_.shard_classes.size(); ++i) {
      const std::vector<double>& row = document_.shard_classes[i];
      const std::string pointer = fmt::format("/shard_classes/{}", i);
      if (row.size() != kTotalOnly && row.size() != kWithComponents) {
        return wrong(ErrorCode::kSchema, pointer,
                     "not hbm, ddr, ssd and the total, with or without the five components");
      }
      for (std::size_t tier = 0; tier < 3; ++tier) {
        if (row[tier] == std::floor(row[tier]) && row[tier] <= kMaxExact) continue;
        return wrong(ErrorCode::kValue, fmt::format("{}/{}", pointer, tier),
                     "not a whole number of bytes up to 2^53");
      }
      ShardClass entry;
      entry.storage = {static_cast<Bytes>(row[0]), static_cast<Bytes>(row[1]),
                       static_cast<Bytes>(row[2])};
      if (row.size() == kTotalOnly) {
        entry.perf.fwd_compute = row[3];
        result_.has_components = false;
      } else {
        entry.perf = {row[4], row[5], row[6], row[7], row[8], 0};
        if (std::abs(entry.perf.total() - row[3]) > 1e-9 * row[3]) {
          return wrong(ErrorCode::kConflict, pointer,
                       fmt::format("the components add up to {}, the total is {}",
                                   entry.perf.total(), row[3]));
        }
      }
      classes_.push_back(entry);
    }
    return {};
  }

  Result<void> read_tables() {
    std::map<std::string, std::vector<std::size_t>> options_of;  // by fqn
    std::vector<std::string> fqns;
    for (std::size_t i = 0; i < document_.options.size(); ++i) {
      auto& options = options_of[document_.options[i].fqn];
      if (options.empty()) fqns.push_back(document_.options[i].fqn);
      options.push_back(i);
    }
    for (const std::string& fqn : fqns) {
      const std::vector<std::size_t>& options = options_of[fqn];
      PLIMSOLL_RETURN_IF_ERROR(read_table(options));
    }
    return {};
  }

  Result<void> read_table(const std::vector<std::size_t>& options) {
    embedding::OptionSet& set = result_.options;
    const DumpedOption& first = document_.options[options.front()];
    TableOptions table = make_table(first);
    table.first_option = static_cast<std::int32_t>(set.options.size());
    table.num_options = static_cast<std::int32_t>(options.size());
    for (const std::size_t i : options) {
      const DumpedOption& dumped = document_.options[i];
      if (dumped.rows != first.rows || dumped.columns != first.columns ||
          dumped.group != first.group || dumped.pooling != first.pooling) {
        return wrong(ErrorCode::kConflict, fmt::format("/options/{}", i),
                     fmt::format("table {} is described otherwise before", dumped.fqn));
      }
      PLIMSOLL_RETURN_IF_ERROR(read_option(dumped, fmt::format("/options/{}", i)));
      result_.position.push_back(static_cast<std::int64_t>(i));
      result_.storage_hash.push_back(dumped.storage_hash);
    }
    set.tables.push_back(std::move(table));
    return {};
  }

  // The table, in a module of the model that has the dump's path.
  TableOptions make_table(const DumpedOption& dumped) {
    TableOptions table;
    table.fqn = dumped.fqn;
    const std::size_t dot = dumped.fqn.rfind('.');
    table.name = dot == std::string::npos ? dumped.fqn : dumped.fqn.substr(dot + 1);
    table.module_path = dot == std::string::npos ? "" : dumped.fqn.substr(0, dot);
    if (!dumped.module_path.empty() && dumped.fqn.starts_with(dumped.module_path + ".")) {
      table.module_path = dumped.module_path;
      table.name = dumped.fqn.substr(dumped.module_path.size() + 1);
    }
    if (dumped.group != dumped.fqn) table.dependency = dumped.group;
    table.shape.rows = dumped.rows;
    table.shape.columns = dumped.columns;
    table.is_pooled = dumped.is_pooled;
    table.is_weighted = dumped.is_weighted;
    table.pooling_factors = dumped.input_lengths;
    const auto [entry, is_new] =
        modules_.try_emplace(table.module_path, result_.model.modules.size());
    if (is_new) {
      embedding::Module module;
      module.path = table.module_path;
      module.kind = dumped.is_pooled ? embedding::ModuleKind::kEmbeddingBagCollection
                                     : embedding::ModuleKind::kEmbeddingCollection;
      result_.model.modules.push_back(std::move(module));
    }
    embedding::Module& module = result_.model.modules[entry->second];
    embedding::Table given;
    given.name = table.name;
    given.num_embeddings = dumped.rows;
    given.embedding_dim = dumped.columns;
    given.pooling = dumped.pooling;
    table.module = static_cast<std::int32_t>(entry->second);
    table.table = static_cast<std::int32_t>(module.tables.size());
    module.tables.push_back(std::move(given));
    return table;
  }

  std::int64_t shards_per_block(ShardingType type) const {
    switch (type) {
      case ShardingType::kDataParallel:
      case ShardingType::kRowWise:
        return document_.world_size;
      case ShardingType::kTableRowWise:
      case ShardingType::kGridShard:
        return result_.options.group_size;
      case ShardingType::kTableWise:
      case ShardingType::kColumnWise:
      case ShardingType::kTableColumnWise:
        return 1;
    }
    return 1;
  }

  Result<void> read_option(const DumpedOption& dumped, const std::string& pointer) {
    const auto num_shards = static_cast<std::int64_t>(dumped.shards.size());
    const std::int64_t height = shards_per_block(dumped.sharding_type);
    const bool is_one_block = !is_column_cut(dumped.sharding_type);
    if (num_shards == 0 || num_shards % height != 0 || (is_one_block && num_shards != height)) {
      return wrong(ErrorCode::kValue, pointer + "/shards",
                   fmt::format("{} shard(s) of {}, which takes {}{}", num_shards,
                               to_string(dumped.sharding_type),
                               is_one_block ? "" : "a multiple of ", height));
    }
    if (dumped.sizes.size() != dumped.shards.size()) {
      return wrong(ErrorCode::kValue, pointer + "/sizes",
                   fmt::format("{} size(s) for {} shard(s)", dumped.sizes.size(), num_shards));
    }
    for (std::size_t i = 0; i < dumped.shards.size(); ++i) {
      if (dumped.shards[i] >= static_cast<std::int64_t>(classes_.size())) {
        return wrong(ErrorCode::kValue, fmt::format("{}/shards/{}", pointer, i),
                     fmt::format("class {} of {}", dumped.shards[i], classes_.size()));
      }
      if (dumped.sizes[i].size() != 2) {
        return wrong(ErrorCode::kSchema, fmt::format("{}/sizes/{}", pointer, i),
                     "not a list of rows and columns");
      }
      const std::size_t twin = i % static_cast<std::size_t>(height);
      if (dumped.shards[i] != dumped.shards[twin] || dumped.sizes[i] != dumped.sizes[twin]) {
        return wrong(ErrorCode::kValue, fmt::format("{}/shards/{}", pointer, i),
                     "a column block unlike the first", "leave the option out");
      }
    }
    PLIMSOLL_RETURN_IF_ERROR(check_tiling(dumped, height, pointer));
    return append_option(dumped, height, pointer);
  }

  // Do the shards hold every cell of the table once, cut as the type cuts? (Of data_parallel every
  // shard holds all.) Column blocks are equal by now.
  Result<void> check_tiling(const DumpedOption& dumped, std::int64_t height,
                            const std::string& pointer) const {
    const bool is_replica = dumped.sharding_type == ShardingType::kDataParallel;
    const auto num_blocks = static_cast<Int128>(dumped.shards.size()) / height;
    const auto refuse = [&](Int128 held, std::int64_t all, std::string_view what) {
      return wrong(
          ErrorCode::kValue, pointer + "/sizes",
          fmt::format("the {} shards of table {} hold {} of {} {}", to_string(dumped.sharding_type),
                      dumped.fqn, static_cast<std::int64_t>(std::min<Int128>(held, INT64_MAX)), all,
                      what),
          "give shards that hold every row and column once, or leave the option out");
    };
    Int128 rows = 0;
    for (std::int64_t i = 0; i < height; ++i) {
      const std::vector<std::int64_t>& size = dumped.sizes[static_cast<std::size_t>(i)];
      const Int128 columns = num_blocks * size[1];
      if (columns != dumped.columns) return refuse(columns, dumped.columns, "columns");
      if (is_replica && size[0] != dumped.rows) return refuse(size[0], dumped.rows, "rows");
      rows += size[0];
    }
    if (!is_replica && rows != dumped.rows) return refuse(rows, dumped.rows, "rows");
    return {};
  }

  Result<void> append_option(const DumpedOption& dumped, std::int64_t height,
                             const std::string& pointer) {
    embedding::OptionSet& set = result_.options;
    Option option;
    option.table = static_cast<std::int32_t>(set.tables.size());
    option.sharding_type = dumped.sharding_type;
    option.compute_kernel = dumped.compute_kernel;
    option.partition_by = partition_by(dumped.sharding_type);
    option.first_run = static_cast<std::int64_t>(set.runs.size());
    option.column_blocks =
        static_cast<std::int32_t>(static_cast<std::int64_t>(dumped.shards.size()) / height);
    option.cache_load_factor = dumped.cache_load_factor;
    const bool is_replica = dumped.sharding_type == ShardingType::kDataParallel;
    std::int64_t row = 0;
    for (std::int64_t i = 0; i < height; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const std::vector<std::int64_t>& size = dumped.sizes[at];
      if (i > 0 && dumped.shards[at] == dumped.shards[at - 1] && size == dumped.sizes[at - 1]) {
        ++set.runs.back().count;
      } else {
        const ShardClass& costs = classes_[static_cast<std::size_t>(dumped.shards[at])];
        set.runs.push_back({1, size[0], size[1], is_replica ? 0 : row, is_replica ? 0 : size[0],
                            costs.storage, costs.perf});
      }
      if (!is_replica && __builtin_add_overflow(row, size[0], &row)) {
        return wrong(ErrorCode::kOverflow, fmt::format("{}/sizes/{}/0", pointer, i),
                     "the shards have more than 2^63 - 1 rows together",
                     "give the rows of one shard");
      }
    }
    option.num_runs =
        static_cast<std::int32_t>(static_cast<std::int64_t>(set.runs.size()) - option.first_run);
    set.options.push_back(option);
    return {};
  }

  const TorchrecOptionsDocument document_;
  const std::string_view file_;
  TorchrecOptions result_;
  std::vector<ShardClass> classes_;
  std::map<std::string, std::size_t> modules_;  // by path
};

}  // namespace

bool is_torchrec_options(std::string_view text) {
  // The key comes first in what is written; a model never has the word.
  return text.substr(0, 4096).find(kTorchrecOptionsSchema) != std::string_view::npos;
}

Result<TorchrecOptions> read_torchrec_options(std::string_view text, std::string_view file) {
  PLIMSOLL_ASSIGN(TorchrecOptionsDocument document,
                  read_document<TorchrecOptionsDocument>(text, file, kTorchrecOptionsSchema));
  return Reader(std::move(document), file).read();
}

}  // namespace plimsoll::io
