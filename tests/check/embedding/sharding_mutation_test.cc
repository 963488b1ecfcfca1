// Random legal plans of every module kind, type and device are right; every way to spoil one is
// found, with its table and rank. Plans are drawn shard by shard, by rules written here once more.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "check/toy_plan.h"
#include "embedding/model/sharder.h"

namespace plimsoll::check {
namespace {

using topology::ComputeDevice;
using enum ShardingType;
using enum ComputeKernel;

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  std::int64_t roll(std::int64_t low, std::int64_t high) {  // both included
    return low + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(high - low + 1));
  }
  int rank(int low, int high) { return static_cast<int>(roll(low, high)); }
  bool coin(int percent = 50) { return roll(0, 99) < percent; }
  template <class T>
  const T& pick(const std::vector<T>& list) {
    return list[static_cast<std::size_t>(roll(0, static_cast<std::int64_t>(list.size()) - 1))];
  }

 private:
  std::mt19937_64 engine_;
};

std::vector<ToyShard> drawn_shards(const embedding::TableSharding& sharding) {
  std::vector<ToyShard> shards;
  for (const embedding::PlacedShard& s : embedding::expand_shards(sharding)) {
    shards.push_back({s.rows, s.columns, s.row, s.column, s.rank});
  }
  return shards;
}

// Rows of ceil(rows / parts), then what is left, then nothing.
std::vector<ToyShard> row_blocks(std::int64_t rows, int parts, std::int64_t columns,
                                 std::int64_t column, int first_rank) {
  const std::int64_t block = (rows + parts - 1) / parts;
  std::vector<ToyShard> shards;
  std::int64_t row = 0;
  for (int i = 0; i < parts; ++i) {
    const std::int64_t height = std::min(block, rows - row);
    shards.push_back({height, columns, row, column, first_rank + i});
    row += height;
  }
  return shards;
}

// Widths that are multiples of 4 and add up to `columns` (itself one).
std::vector<std::int64_t> column_widths(Dice& dice, std::int64_t columns, std::int64_t max_parts) {
  std::vector<std::int64_t> widths;
  for (std::int64_t left = columns; left > 0; left -= widths.back()) {
    const bool is_last = static_cast<std::int64_t>(widths.size()) + 1 == max_parts;
    widths.push_back(is_last ? left : 4 * dice.roll(1, left / 4));
  }
  return widths;
}

// Which ranks a host type may use.
struct Hosts {
  int size, count;
};

std::vector<ToyShard> draw_shards(Dice& dice, const Toy& toy, const embedding::TableShape& shape,
                                  ShardingType type, ComputeKernel kernel, Hosts hosts, int host,
                                  std::optional<std::int64_t> buckets) {
  const int world_size = toy.topology.world_size;
  std::vector<ToyShard> shards;
  switch (type) {
    case kDataParallel:
      for (int r = 0; r < world_size; ++r) shards.push_back({shape.rows, shape.columns, 0, 0, r});
      break;
    case kTableWise:
      shards.push_back({shape.rows, shape.columns, 0, 0, dice.rank(0, world_size - 1)});
      break;
    case kRowWise:
      if (!buckets) return row_blocks(shape.rows, world_size, shape.columns, 0, 0);
      for (std::int64_t r = 0, row = 0; r < world_size; ++r) {
        const std::int64_t more = r < *buckets % world_size ? 1 : 0;
        const std::int64_t rows = (*buckets / world_size + more) * (shape.rows / *buckets);
        shards.push_back({rows, shape.columns, row, 0, static_cast<std::int32_t>(r)});
        row += rows;
      }
      break;
    case kTableRowWise:
      return row_blocks(shape.rows, hosts.size, shape.columns, 0, host * hosts.size);
    case kColumnWise:
    case kTableColumnWise: {
      const bool in_host = type == kTableColumnWise;
      const int low = in_host ? host * hosts.size : 0;
      const int high = in_host ? low + hosts.size - 1 : world_size - 1;
      const int first = dice.rank(low, high);
      std::int64_t column = 0;
      for (const std::int64_t width : column_widths(dice, shape.columns, world_size)) {
        // key_value wants every shard on another rank.
        const int n = static_cast<int>(shards.size());
        const int rank =
            kernel == kKeyValue && !in_host ? (first + n) % world_size : dice.rank(low, high);
        shards.push_back({shape.rows, width, 0, column, rank});
        column += width;
      }
      if (dice.coin(20)) std::reverse(shards.begin(), shards.end());
      break;
    }
    case kGridShard: {
      std::int64_t column = 0;
      for (const std::int64_t width : column_widths(dice, shape.columns, 5)) {
        const auto block = row_blocks(shape.rows, hosts.size, width, column,
                                      dice.rank(0, hosts.count - 1) * hosts.size);
        shards.insert(shards.end(), block.begin(), block.end());
        column += width;
      }
      if (dice.coin(30)) {
        std::stable_sort(shards.begin(), shards.end(),
                         [](const ToyShard& a, const ToyShard& b) { return a.row < b.row; });
      }
      break;
    }
  }
  return shards;
}

bool has_equal_widths(ModuleKind kind) {
  return embedding::is_embedding_collection_interface(kind) ||
         kind == ModuleKind::kManagedCollisionEmbeddingCollection ||
         kind == ModuleKind::kItepEmbeddingCollection ||
         kind == ModuleKind::kPecEmbeddingCollection;
}

void add_random_table(Dice& dice, Toy& toy, Hosts hosts, std::map<int, int>& tower_hosts,
                      const std::string& name) {
  embedding::Module& module = toy.model.modules.back();
  const ComputeDevice device = toy.topology.compute_device;

  std::vector<ShardingType> types =
      embedding::allowed_sharding_types(toy.cost_model, module.kind, device);
  if (hosts.count == 0) {
    std::erase_if(types, [](ShardingType t) {
      return t == kTableRowWise || t == kTableColumnWise || t == kGridShard;
    });
  }
  if (types.empty()) return;
  const ShardingType type = dice.pick(types);
  std::vector<ComputeKernel> kernels =
      embedding::allowed_compute_kernels(toy.cost_model, module.kind, type, device);
  if (device != ComputeDevice::kCuda) {  // the others have no bandwidth there
    std::erase_if(kernels,
                  [](ComputeKernel k) { return k != kDense && k != kFused && k != kQuant; });
  }
  const ComputeKernel kernel = dice.pick(kernels);

  const std::int64_t width = has_equal_widths(module.kind) && !module.tables.empty()
                                 ? module.tables[0].embedding_dim
                                 : 4 * dice.roll(1, 16);
  embedding::Table& table = toy.add_table(name, dice.roll(1, 200), width);
  if (embedding::is_quantised(module.kind)) table.data_type = embedding::DataType::kInt8;
  if (dice.coin(30)) table.pooling = embedding::Pooling::kMean;
  if (dice.coin(30)) table.optimizer = embedding::Optimizer::kAdam;
  if (module.kind == ModuleKind::kEmbeddingTowerCollection) table.tower = dice.rank(0, 1);
  std::optional<std::int64_t> buckets;
  if (toy.cost_model.buckets && type == kRowWise && dice.coin() &&
      (module.kind == ModuleKind::kEmbeddingBagCollection ||
       module.kind == ModuleKind::kEmbeddingCollection)) {
    buckets = dice.roll(toy.topology.world_size, 3 * toy.topology.world_size);
    table.num_embeddings = *buckets * dice.roll(1, 5);
    table.use_virtual_table = true;
    table.total_num_buckets = buckets;
  }
  if (dice.coin(30)) {
    auto& constraints = toy.model.constraints[name];
    if (dice.coin()) constraints.sharding_types = {type, dice.pick(types)};
    if (dice.coin()) constraints.compute_kernels = {kernel};
    constraints.pooling_factors = {0.5, 7.0};
  }

  int host = hosts.count == 0 ? 0 : dice.rank(0, hosts.count - 1);
  if (module.kind == ModuleKind::kEmbeddingTower ||
      module.kind == ModuleKind::kEmbeddingTowerCollection) {
    host = tower_hosts.try_emplace(table.tower.value_or(0), host).first->second;
  }
  const embedding::TableShape shape = *embedding::table_shape(module, table);
  auto& sharding = toy.place(name, type, kernel, {});
  set_shards(sharding, draw_shards(dice, toy, shape, type, kernel, hosts, host, buckets),
             dice.coin());
  if (embedding::is_uvm_caching(kernel) && dice.coin()) {
    sharding.cache_params.emplace().load_factor = 0.3;
  }
}

Toy random_toy(std::uint64_t seed) {
  Dice dice(seed);
  const int local = dice.rank(1, 4);
  const int world = local * dice.rank(1, 4) + (dice.coin(20) ? dice.rank(0, local - 1) : 0);
  const ComputeDevice device = dice.pick<ComputeDevice>(
      {ComputeDevice::kCuda, ComputeDevice::kCuda, ComputeDevice::kCpu, ComputeDevice::kMtia});
  Toy toy(world, local, device);
  const auto models = embedding::cost_models();
  toy.cost_model =
      models[static_cast<std::size_t>(dice.roll(0, static_cast<std::int64_t>(models.size()) - 1))];
  if (toy.cost_model.pods && dice.coin(20)) toy.topology.pod_size = 2;
  const int group_size = toy.topology.group_size();
  const Hosts hosts{group_size, world / group_size};

  const auto kinds = static_cast<int>(ModuleKind::kPecEmbeddingCollection) + 1;
  for (int m = 0, modules = dice.rank(1, 4); m < modules; ++m) {
    auto kind = static_cast<ModuleKind>(dice.roll(0, kinds - 1));
    if (dice.coin(40)) kind = ModuleKind::kEmbeddingBagCollection;
    toy.add_module("m" + std::to_string(m), kind);
    std::map<int, int> tower_hosts;
    for (int t = 0, tables = dice.rank(1, 5); t < tables; ++t) {
      add_random_table(dice, toy, hosts, tower_hosts,
                       "t" + std::to_string(m) + "_" + std::to_string(t));
    }
    if (toy.model.modules.back().tables.empty()) toy.model.modules.pop_back();
  }
  // Plan order is anybody's choice.
  if (dice.coin()) std::reverse(toy.plan.tables.begin(), toy.plan.tables.end());
  return toy;
}

// The sums once more, over shards one by one.
struct Sums {
  std::vector<topology::Storage> used;
  std::vector<double> rank_ms;
};
Sums naive_sums(const Toy& toy) {
  const auto world_size = static_cast<std::size_t>(toy.topology.world_size);
  Sums sums{std::vector<topology::Storage>(world_size), std::vector<double>(world_size)};
  const embedding::Estimator estimator(toy.cost_model, toy.topology, toy.mode);
  for (const auto& sharding : toy.plan.tables) {
    for (const auto& module : toy.model.modules) {
      for (const auto& table : module.tables) {
        if (module.path != sharding.module_path || table.name != sharding.table) continue;
        auto profile = *embedding::make_table_profile(toy.cost_model, toy.topology, toy.model,
                                                      module, table, 512);
        profile.cache_params = sharding.cache_params;
        for (const ToyShard& s : drawn_shards(sharding)) {
          const auto rank = static_cast<std::size_t>(s.rank);
          sums.used[rank] += *estimator.shard_storage(profile, sharding.sharding_type,
                                                      sharding.compute_kernel, s.rows, s.columns);
          sums.rank_ms[rank] += estimator
                                    .shard_perf(profile, sharding.sharding_type,
                                                sharding.compute_kernel, s.rows, s.columns)
                                    ->total();
        }
      }
    }
  }
  return sums;
}

std::string describe(const ShardingReport& report) {
  std::string text;
  for (const Finding& v : report.violations()) {
    text += to_text(v) + "\n";
  }
  return text;
}

constexpr std::uint64_t kNumSeeds = 1000;

TEST(ShardingCheckProperty, AcceptsRandomLegalPlansAndAddsThemUp) {
  std::set<ShardingType> types;
  std::set<ComputeKernel> kernels;
  for (std::uint64_t seed = 0; seed < kNumSeeds; ++seed) {
    SCOPED_TRACE(seed);
    Toy toy = random_toy(seed);
    const Sums sums = naive_sums(toy);
    toy.options.stated_rating = *std::max_element(sums.rank_ms.begin(), sums.rank_ms.end());
    const auto report = toy.try_check();
    ASSERT_TRUE(report) << format_error(report.error());
    EXPECT_TRUE(report->is_right()) << describe(*report);
    EXPECT_EQ(report->used, sums.used);
    EXPECT_EQ(report->rank_ms, sums.rank_ms);
    EXPECT_EQ(report->rating, *toy.options.stated_rating);
    for (const Finding& h : report->hazards()) {
      EXPECT_NE(h.code, FindingCode::kUnevenRows) << h.place << ": " << h.message;
      EXPECT_NE(h.code, FindingCode::kPermutedRanks) << h.place << ": " << h.message;
      EXPECT_NE(h.code, FindingCode::kColumnsAcrossHosts) << h.place << ": " << h.message;
    }
    for (const auto& sharding : toy.plan.tables) {
      types.insert(sharding.sharding_type);
      kernels.insert(sharding.compute_kernel);
    }
  }
  EXPECT_EQ(types.size(), 7U);  // the plans are not all alike
  EXPECT_GE(kernels.size(), 10U);
}

// Mutations. Each spoils a legal plan in one place and says what a judge must find there; nothing
// where it does not apply to this table.

struct Crime {
  std::vector<FindingCode> codes;  // any of these
  std::string table;
  std::optional<int> rank;  // where the crime has one
};
using Mutation = std::optional<Crime> (*)(Dice&, Toy&, embedding::TableSharding&);

bool is_replicated(const embedding::TableSharding& sharding) {
  return sharding.sharding_type == kDataParallel;
}

// A shard that holds something, by index into `shards`.
std::optional<std::size_t> pick_full_shard(Dice& dice, const std::vector<ToyShard>& shards) {
  std::vector<std::size_t> full;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (shards[i].rows > 0) full.push_back(i);
  }
  if (full.empty()) return std::nullopt;
  return dice.pick(full);
}

std::optional<Crime> drop_a_shard(Dice& dice, Toy&, embedding::TableSharding& sharding) {
  if (is_replicated(sharding)) return std::nullopt;
  auto shards = drawn_shards(sharding);
  const auto i = pick_full_shard(dice, shards);
  if (!i) return std::nullopt;
  shards.erase(shards.begin() + static_cast<std::ptrdiff_t>(*i));
  set_shards(sharding, shards, dice.coin());
  return Crime{{FindingCode::kNotCovered}, sharding.fqn(), std::nullopt};
}

// The lost shard of a row-wise table or a replica is known by its rank.
std::optional<Crime> drop_a_rank(Dice& dice, Toy&, embedding::TableSharding& sharding) {
  if (!is_replicated(sharding) && sharding.sharding_type != kRowWise) return std::nullopt;
  auto shards = drawn_shards(sharding);
  if (shards.size() < 2) return std::nullopt;
  const auto i = dice.roll(0, static_cast<std::int64_t>(shards.size()) - 1);
  const int rank = shards[static_cast<std::size_t>(i)].rank;
  shards.erase(shards.begin() + static_cast<std::ptrdiff_t>(i));
  set_shards(sharding, shards, dice.coin());
  return Crime{{FindingCode::kWrongGroup}, sharding.fqn(), rank};
}

std::optional<Crime> duplicate_a_shard(Dice& dice, Toy&, embedding::TableSharding& sharding) {
  auto shards = drawn_shards(sharding);
  const auto i = pick_full_shard(dice, shards);
  if (!i) return std::nullopt;
  const ToyShard copy = shards[*i];
  shards.push_back(copy);
  set_shards(sharding, shards, dice.coin());
  const auto code = is_replicated(sharding) ? FindingCode::kWrongGroup : FindingCode::kCoveredTwice;
  return Crime{{code}, sharding.fqn(), copy.rank};
}

std::optional<Crime> list_more_ranks(Dice& dice, Toy& toy, embedding::TableSharding& sharding) {
  sharding.ranks.push_back({dice.rank(0, toy.topology.world_size - 1), 1});
  return Crime{{FindingCode::kWrongShardCount}, sharding.fqn(), std::nullopt};
}

std::optional<Crime> shift_an_offset(Dice& dice, Toy&, embedding::TableSharding& sharding) {
  auto shards = drawn_shards(sharding);
  const auto i = pick_full_shard(dice, shards);
  if (!i) return std::nullopt;
  const std::int64_t by = dice.coin() ? 1 : -1;
  (dice.coin() ? shards[*i].row : shards[*i].column) += by;
  set_shards(sharding, shards, dice.coin());
  return Crime{
      {FindingCode::kShardOutOfTable, FindingCode::kNotCovered}, sharding.fqn(), std::nullopt};
}

std::optional<Crime> shrink_rows(Dice& dice, Toy&, embedding::TableSharding& sharding) {
  auto shards = drawn_shards(sharding);
  const auto i = pick_full_shard(dice, shards);
  if (!i) return std::nullopt;
  --shards[*i].rows;
  set_shards(sharding, shards, dice.coin());
  const std::optional<int> rank =
      is_replicated(sharding) ? std::optional<int>(shards[*i].rank) : std::nullopt;
  return Crime{{FindingCode::kNotCovered}, sharding.fqn(), rank};
}

std::optional<Crime> widen_columns(Dice& dice, Toy&, embedding::TableSharding& sharding) {
  auto shards = drawn_shards(sharding);
  const auto i = pick_full_shard(dice, shards);
  if (!i) return std::nullopt;
  std::int64_t table_columns = 0;
  for (const ToyShard& s : shards) table_columns = std::max(table_columns, s.column + s.columns);
  shards[*i].columns += 4;
  set_shards(sharding, shards, dice.coin());
  if (shards[*i].column + shards[*i].columns > table_columns) {
    return Crime{{FindingCode::kShardOutOfTable}, sharding.fqn(), shards[*i].rank};
  }
  return Crime{{FindingCode::kCoveredTwice}, sharding.fqn(), std::nullopt};
}

std::optional<Crime> move_out_of_range(Dice& dice, Toy& toy, embedding::TableSharding& sharding) {
  auto shards = drawn_shards(sharding);
  const auto i = dice.roll(0, static_cast<std::int64_t>(shards.size()) - 1);
  const int rank = dice.coin() ? toy.topology.world_size + dice.rank(0, 5) : -dice.rank(1, 5);
  shards[static_cast<std::size_t>(i)].rank = rank;
  set_shards(sharding, shards, dice.coin());
  return Crime{{FindingCode::kRankOutOfRange}, sharding.fqn(), rank};
}

// A shard that is not the first of its block goes to a rank of another host.
std::optional<Crime> break_a_host(Dice& dice, Toy& toy, embedding::TableSharding& sharding) {
  const ShardingType type = sharding.sharding_type;
  const int size = toy.topology.group_size();
  if ((type != kTableRowWise && type != kGridShard) || size < 2 ||
      toy.topology.world_size <= size) {
    return std::nullopt;
  }
  auto shards = drawn_shards(sharding);
  std::vector<std::size_t> others;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (shards[i].row > 0 && shards[i].rows > 0) others.push_back(i);
  }
  if (others.empty()) return std::nullopt;
  ToyShard& shard = shards[dice.pick(others)];
  const int group = shard.rank / size;
  while (shard.rank / size == group) shard.rank = dice.rank(0, toy.topology.world_size - 1);
  set_shards(sharding, shards, dice.coin());
  const int rank = shard.rank;
  return Crime{{FindingCode::kWrongGroup}, sharding.fqn(), rank};
}

std::optional<Crime> lower_a_cap(Dice& dice, Toy& toy, embedding::TableSharding& sharding) {
  const auto shards = drawn_shards(sharding);
  const int rank = dice.pick(shards).rank;
  const auto used = toy.try_check()->used[static_cast<std::size_t>(rank)];
  topology::Storage& cap = toy.topology.devices[static_cast<std::size_t>(rank)];
  if (used.hbm > 0) {
    cap.hbm = used.hbm - 1;
  } else if (used.ddr > 0) {
    cap.ddr = used.ddr - 1;
  } else {
    return std::nullopt;
  }
  return Crime{{FindingCode::kOverCapacity}, "", rank};
}

std::optional<Crime> drop_a_table(Dice&, Toy& toy, embedding::TableSharding& sharding) {
  const std::string fqn = sharding.fqn();
  toy.plan.tables.erase(toy.plan.tables.begin() + (&sharding - toy.plan.tables.data()));
  return Crime{{FindingCode::kMissingTable}, fqn, std::nullopt};
}

std::optional<Crime> duplicate_a_table(Dice&, Toy& toy, embedding::TableSharding& sharding) {
  const embedding::TableSharding copy = sharding;
  toy.plan.tables.push_back(copy);
  return Crime{{FindingCode::kDuplicateTable}, copy.fqn(), std::nullopt};
}

std::optional<Crime> rename_a_table(Dice&, Toy&, embedding::TableSharding& sharding) {
  sharding.table += "_else";
  return Crime{{FindingCode::kUnknownTable}, sharding.fqn(), std::nullopt};
}

std::optional<Crime> lose_a_name(Dice&, Toy&, embedding::TableSharding& sharding) {
  const std::string fqn = sharding.fqn();
  sharding.module_path += ".else";
  return Crime{{FindingCode::kMissingTable}, fqn, std::nullopt};
}

// To data_parallel and back is never a matter of names alone; nor is whole table to rows.
std::optional<Crime> swap_type(Dice&, Toy& toy, embedding::TableSharding& sharding) {
  if (toy.topology.world_size < 2) return std::nullopt;
  sharding.sharding_type = is_replicated(sharding) ? kTableWise : kDataParallel;
  return Crime{
      {FindingCode::kWrongShardCount, FindingCode::kNotCovered}, sharding.fqn(), std::nullopt};
}

std::optional<Crime> call_rows_columns(Dice&, Toy&, embedding::TableSharding& sharding) {
  const auto shards = drawn_shards(sharding);
  if (!is_row_cut(sharding.sharding_type) || shards[0].rows == 0 || shards.size() < 2 ||
      shards[1].rows == 0 || shards[1].row == 0) {
    return std::nullopt;
  }
  sharding.sharding_type = kColumnWise;
  return Crime{{FindingCode::kWrongCut}, sharding.fqn(), std::nullopt};
}

std::optional<Crime> forbid_a_type(Dice&, Toy& toy, embedding::TableSharding& sharding) {
  const ShardingType other = sharding.sharding_type == kRowWise ? kColumnWise : kRowWise;
  toy.model.constraints[sharding.table].sharding_types = {other};
  return Crime{{FindingCode::kTypeNotAllowed}, sharding.fqn(), std::nullopt};
}

std::optional<Crime> swap_kernel(Dice& dice, Toy&, embedding::TableSharding& sharding) {
  const bool is_quantised = sharding.compute_kernel == kQuant ||
                            sharding.compute_kernel == kQuantUvm ||
                            sharding.compute_kernel == kQuantUvmCaching;
  sharding.compute_kernel = is_quantised              ? kFused
                            : is_replicated(sharding) ? kFusedUvm
                            : dice.coin()             ? kQuant
                                                      : kDense;
  return Crime{{FindingCode::kKernelNotAllowed, FindingCode::kDenseOffDataParallel},
               sharding.fqn(),
               std::nullopt};
}

std::optional<Crime> break_colocation(Dice&, Toy& toy, embedding::TableSharding& sharding) {
  const int size = toy.topology.group_size(), groups = toy.topology.num_groups();
  const auto module = std::find_if(toy.model.modules.begin(), toy.model.modules.end(),
                                   [&](const auto& m) { return m.path == sharding.module_path; });
  const auto tower_of = [&](const embedding::TableSharding& s) {
    for (const auto& table : module->tables) {
      if (table.name == s.table) return table.tower;
    }
    return std::optional<int>();
  };
  if (groups < 2 || (module->kind != ModuleKind::kEmbeddingTower &&
                     module->kind != ModuleKind::kEmbeddingTowerCollection)) {
    return std::nullopt;
  }
  // The table that comes first says where the tower lives.
  const embedding::TableSharding* first = nullptr;
  for (const auto& other : toy.plan.tables) {
    if (other.module_path != module->path || tower_of(other) != tower_of(sharding)) continue;
    first = &other;
    break;
  }
  if (first == &sharding) return std::nullopt;
  auto shards = drawn_shards(sharding);
  for (ToyShard& s : shards) s.rank = (s.rank + size) % (size * groups);
  set_shards(sharding, shards);
  return Crime{{FindingCode::kColocationBroken}, sharding.fqn(), shards[0].rank};
}

std::optional<Crime> overstate_the_cache(Dice& dice, Toy&, embedding::TableSharding& sharding) {
  sharding.cache_params.emplace().load_factor = dice.coin() ? 1.5 : -0.5;
  return Crime{{FindingCode::kLoadFactor}, sharding.fqn(), std::nullopt};
}

std::optional<Crime> change_the_machine(Dice&, Toy& toy, embedding::TableSharding&) {
  ++toy.plan.world_size;
  return Crime{{FindingCode::kWrongMachine}, "", std::nullopt};
}

std::optional<Crime> misstate_the_rating(Dice& dice, Toy& toy, embedding::TableSharding&) {
  toy.options.stated_rating = toy.try_check()->rating * (dice.coin() ? 1.00001 : 0.99999);
  return Crime{{FindingCode::kRatingMismatch}, "", std::nullopt};
}

TEST(ShardingCheckProperty, CatchesEveryMutation) {
  const std::vector<std::pair<std::string, Mutation>> mutations = {
      {"drop a shard", drop_a_shard},
      {"drop a rank", drop_a_rank},
      {"duplicate a shard", duplicate_a_shard},
      {"list more ranks", list_more_ranks},
      {"shift an offset", shift_an_offset},
      {"shrink rows", shrink_rows},
      {"widen columns", widen_columns},
      {"move out of range", move_out_of_range},
      {"break a host", break_a_host},
      {"lower a cap", lower_a_cap},
      {"drop a table", drop_a_table},
      {"duplicate a table", duplicate_a_table},
      {"rename a table", rename_a_table},
      {"lose a name", lose_a_name},
      {"swap type", swap_type},
      {"call rows columns", call_rows_columns},
      {"forbid a type", forbid_a_type},
      {"swap kernel", swap_kernel},
      {"break colocation", break_colocation},
      {"overstate the cache", overstate_the_cache},
      {"change the machine", change_the_machine},
      {"misstate the rating", misstate_the_rating},
  };
  std::map<std::string, int> applied;
  for (std::uint64_t seed = 0; seed < kNumSeeds; ++seed) {
    const Toy legal = random_toy(seed);
    for (std::size_t m = 0; m < mutations.size(); ++m) {
      const auto& [name, mutate] = mutations[m];
      SCOPED_TRACE(name + " seed " + std::to_string(seed));
      Toy toy = legal;
      if (toy.plan.tables.empty()) continue;
      Dice dice(seed * 1000 + m);
      const auto index = static_cast<std::size_t>(
          dice.roll(0, static_cast<std::int64_t>(toy.plan.tables.size()) - 1));
      const std::optional<Crime> crime = mutate(dice, toy, toy.plan.tables[index]);
      if (!crime) continue;
      ++applied[name];
      const auto report = toy.try_check();
      ASSERT_TRUE(report) << format_error(report.error());
      const bool is_caught =
          std::any_of(report->findings.begin(), report->findings.end(), [&](const Finding& v) {
            return std::count(crime->codes.begin(), crime->codes.end(), v.code) > 0 &&
                   v.place == crime->table &&
                   (!crime->rank || v.unit == find_unit(FindingUnit::kRank, crime->rank));
          });
      EXPECT_TRUE(is_caught) << crime->table << " rank " << crime->rank.value_or(-99) << "\n"
                             << describe(*report);
    }
  }
  for (const auto& [name, mutate] : mutations) EXPECT_GE(applied[name], 20) << name;
}

// Strictness only moves findings; it never hides one and never changes the sums.
TEST(ShardingCheckProperty, StrictnessTurnsEveryHazardIntoAViolation) {
  std::size_t num_hazards = 0;
  for (std::uint64_t seed = 0; seed < kNumSeeds; ++seed) {
    SCOPED_TRACE(seed);
    Toy toy = random_toy(seed);
    const auto lax = toy.try_check();
    toy.options.strict = true;
    const auto strict = toy.try_check();
    ASSERT_TRUE(lax && strict);
    EXPECT_EQ(strict->hazards(), lax->hazards());
    EXPECT_EQ(strict->violations().size(), lax->violations().size() + lax->hazards().size());
    EXPECT_EQ(strict->used, lax->used);
    EXPECT_EQ(strict->rating, lax->rating);
    num_hazards += lax->hazards().size();
  }
  EXPECT_GT(num_hazards, 0U);
}

// Row-wise tables of two runs each on 4,096 ranks.
TEST(ShardingCheckProperty, JudgesLongRunsWithoutWritingThemOut) {
  constexpr int kRanks = 4096, kTables = 200;
  Toy toy(kRanks, 8);
  toy.add_module("ebc");
  for (int t = 0; t < kTables; ++t) {
    const std::string name = "t" + std::to_string(t);
    toy.add_table(name, 4096 * 1000 - 1, 64);
    auto& sharding = toy.place(name, kRowWise, kFused, {});
    sharding.ranks = {{0, kRanks}};
    sharding.shards = {{kRanks - 1, 1000, 64, 0, 0, 1000}, {1, 999, 64, 4095 * 1000, 0, 0}};
  }
  auto report = toy.try_check();
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->is_right()) << describe(*report);
  EXPECT_TRUE(report->hazards().empty());

  toy.plan.tables[7].shards[1].rows = 998;
  report = toy.try_check();
  ASSERT_EQ(report->violations().size(), 1U);
  EXPECT_EQ(report->violations()[0].found, "rows [4095998, 4095999) of columns [0, 64)");
}

}  // namespace
}  // namespace plimsoll::check
