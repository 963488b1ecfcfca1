#include "plimsoll/check/transfer_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "check/embedding/held_parts.h"
#include "plimsoll/core/checked.h"
#include "plimsoll/embedding/estimator.h"

namespace plimsoll::check {
namespace {

using embedding::PlacedShard;
using embedding::TablePart;
using embedding::TableSharding;
using embedding::TransferKind;
using embedding::TransferStep;
using topology::Storage;

// Something that stands on a rank.
struct Item {
  TablePart part;
  int rank = 0;
  bool is_new = false;     // a shard of the new plan
  bool is_staged = false;  // a copy of an old one
  bool in_ddr = false;
  Storage bytes;
};

// A table in both plans, and what its shards weigh.
struct Table {
  const TableSharding* before = nullptr;
  const TableSharding* after = nullptr;
  std::optional<embedding::TableProfile> profile;
  Bytes weight = 0;  // weights and optimizer state of all of it
  std::vector<Item> items;
  std::vector<TablePart> held_at_start;  // replicas once
};

class Simulation {
 public:
  Simulation(const TransferCase& given, const embedding::TransferSchedule& schedule)
      : given_(given),
        schedule_(schedule),
        estimator_(given.cost_model, *given.topology, given.mode) {}

  Result<std::vector<Finding>> run() {
    PLIMSOLL_ASSIGN(const embedding::Reservation reservation,
                    embedding::reserve(given_.cost_model, given_.options.reservation,
                                       *given_.topology, *given_.model, given_.options.batch_size));
    caps_ = reservation.topology.devices;
    for (Storage& cap : caps_) cap.hbm = saturated_add(cap.hbm, schedule_.spare_bytes);
    used_.assign(caps_.size(), Storage{});
    PLIMSOLL_RETURN_IF_ERROR(begin());
    Bytes moved = 0, staged = 0;
    for (std::size_t i = 0; i < schedule_.steps.size(); ++i) {
      const TransferStep& step = schedule_.steps[i];
      step_ = i;
      PLIMSOLL_ASSIGN(const bool is_made, make(step));
      if (!is_made) return std::move(violations_);
      (step.kind == TransferKind::kStage ? staged : moved) += step.bytes;
    }
    judge_end(moved, staged);
    return std::move(violations_);
  }

  Result<Bytes> count() {
    PLIMSOLL_RETURN_IF_ERROR(begin());
    Bytes sum = 0;
    for (const auto& [fqn, table] : tables_) {
      if (table.after == nullptr || !table.profile) continue;
      for (const PlacedShard& shard : embedding::expand_shards(*table.after)) {
        const TablePart part{shard.rows, shard.columns, shard.row, shard.column};
        std::vector<TablePart> own;
        for (const Item& item : table.items) {
          if (item.rank == shard.rank) own.push_back(item.part);
        }
        sum += bytes_of(table, covered(part, table.held_at_start) - covered(part, own));
      }
    }
    return sum;
  }

 private:
  bool refuse(const std::string& table, int rank, const std::string& message) {
    violations_.push_back({FindingCode::kTransferMismatch, table,
                           FindingUnit{FindingUnit::kRank, rank}, "", "",
                           fmt::format("step {} of the schedule: {}", step_, message)});
    return false;
  }

  Result<void> begin() {
    for (const TableSharding& table : given_.before.tables) tables_[table.fqn()].before = &table;
    for (const TableSharding& table : given_.after.tables) tables_[table.fqn()].after = &table;
    for (const embedding::Module& module : given_.model->modules) {
      for (const embedding::Table& table : module.tables) {
        const auto found = tables_.find(embedding::table_fqn(module.path, table.name));
        if (found == tables_.end()) continue;
        PLIMSOLL_ASSIGN(
            found->second.profile,
            embedding::make_table_profile(given_.cost_model, *given_.topology, *given_.model,
                                          module, table, given_.options.batch_size));
        PLIMSOLL_ASSIGN(found->second.weight, table_weight(estimator_, *found->second.profile));
      }
    }
    for (auto& [fqn, table] : tables_) {
      if (table.before == nullptr) continue;
      for (const PlacedShard& shard : embedding::expand_shards(*table.before)) {
        Item item;
        item.part = {shard.rows, shard.columns, shard.row, shard.column};
        item.rank = shard.rank;
        if (table.profile && table.after != nullptr) {
          PLIMSOLL_ASSIGN(item.bytes, resident(table, *table.before, item.part));
        }
        add(item, 1);
        const bool is_known = std::find(table.held_at_start.begin(), table.held_at_start.end(),
                                        item.part) != table.held_at_start.end();
        if (!is_known) table.held_at_start.push_back(item.part);
        table.items.push_back(item);
      }
    }
    return {};
  }

  // Weights, optimizer state and cache: nothing of the batches.
  Result<Storage> resident(const Table& table, const TableSharding& sharding,
                           const TablePart& part) const {
    embedding::TableProfile profile = *table.profile;
    if (sharding.cache_params) profile.cache_params = sharding.cache_params;
    if (sharding.dynamic_embedding) profile.dynamic_embedding = sharding.dynamic_embedding;
    PLIMSOLL_ASSIGN(
        const embedding::StorageParts parts,
        estimator_.shard_storage_parts(profile, sharding.sharding_type, sharding.compute_kernel,
                                       part.rows, part.columns));
    return parts.weights + parts.optimizer_state + parts.cache_state;
  }

  bool is_here(int rank) const { return rank >= 0 && rank < static_cast<int>(used_.size()); }

  void add(const Item& item, int sign) {
    if (!is_here(item.rank)) return;
    if (sign > 0) {
      used_[static_cast<std::size_t>(item.rank)] += item.bytes;
    } else {
      used_[static_cast<std::size_t>(item.rank)] -= item.bytes;
    }
  }

  // After something was added: every tier that it takes is within its cap.
  bool is_within_cap(const Item& item) const {
    const auto rank = static_cast<std::size_t>(item.rank);
    Bytes ddr = used_[rank].ddr, ddr_cap = caps_[rank].ddr;
    if (given_.options.pools_ddr) {
      const int width = std::max(given_.after.local_world_size, 1);
      const std::size_t first = rank / static_cast<std::size_t>(width) * width;
      if (first + static_cast<std::size_t>(width) <= used_.size()) {
        ddr = ddr_cap = 0;
        for (std::size_t r = first; r < first + static_cast<std::size_t>(width); ++r) {
          ddr += used_[r].ddr;
          ddr_cap += caps_[r].ddr;
        }
      }
    }
    return (item.bytes.hbm == 0 || used_[rank].hbm <= caps_[rank].hbm) &&
           (item.bytes.ddr == 0 || ddr <= ddr_cap) &&
           (item.bytes.ssd == 0 || used_[rank].ssd <= caps_[rank].ssd);
  }

  Result<bool> make(const TransferStep& step) {
    const auto found = tables_.find(step.table);
    if (found == tables_.end()) return refuse(step.table, step.rank, "the plans lack the table");
    Table& table = found->second;
    switch (step.kind) {
      case TransferKind::kCopy:
        return copy(step, table);
      case TransferKind::kStage:
        return stage(step, table);
      case TransferKind::kFree:
        return drop(step, table);
    }
    return false;
  }

  static Bytes bytes_of(const Table& table, Int128 values) {
    return share_of_weight(table.weight, table.profile->shape, values);
  }

  Result<bool> copy(const TransferStep& step, Table& table) {
    if (table.after == nullptr || !table.profile || !is_wanted(step, table)) {
      return refuse(step.table, step.rank, "the new plan has no such shard there");
    }
    for (const Item& item : table.items) {
      if (item.is_new && item.rank == step.rank && item.part == step.part) {
        return refuse(step.table, step.rank, "the shard is there already");
      }
    }
    // What the named ranks and the shard's own hold, of what anybody held.
    std::vector<TablePart> read;
    Int128 named = 0, crossing = 0;
    for (const Item& item : table.items) {
      if (!item.is_new && item.rank == step.rank) read.push_back(item.part);
    }
    for (const embedding::TransferSource& source : step.from) {
      std::vector<TablePart> there;
      for (const Item& item : table.items) {
        if (!item.is_new && item.rank == source.rank) there.push_back(item.part);
      }
      if (source.rank == step.rank || source.values <= 0 ||
          source.values > covered(step.part, there)) {
        return refuse(
            step.table, step.rank,
            fmt::format("rank {} does not hold the values that are read there", source.rank));
      }
      read.insert(read.end(), there.begin(), there.end());
      crossing += source.values;
    }
    const Int128 wanted = covered(step.part, table.held_at_start);
    named = covered(step.part, read);
    std::vector<TablePart> own;
    for (const Item& item : table.items) {
      if (!item.is_new && item.rank == step.rank) own.push_back(item.part);
    }
    if (named < wanted || crossing < wanted - covered(step.part, own)) {
      return refuse(step.table, step.rank, "values that some rank held are copied from nowhere");
    }
    if (step.bytes != bytes_of(table, crossing)) {
      return refuse(
          step.table, step.rank,
          fmt::format("it states {} bytes and copies {}", step.bytes, bytes_of(table, crossing)));
    }
    Item item{step.part, step.rank, true, false, false, {}};
    PLIMSOLL_ASSIGN(item.bytes, resident(table, *table.after, step.part));
    return put(step, table, item);
  }

  bool put(const TransferStep& step, Table& table, const Item& item) {
    if (!is_here(item.rank)) return refuse(step.table, step.rank, "there is no such rank");
    add(item, 1);
    if (!is_within_cap(item)) {
      return refuse(step.table, step.rank, "the rank would hold more than its cap");
    }
    table.items.push_back(item);
    return true;
  }

  static bool is_wanted(const TransferStep& step, const Table& table) {
    const auto shards = embedding::expand_shards(*table.after);
    return std::any_of(shards.begin(), shards.end(), [&](const PlacedShard& shard) {
      return shard.rank == step.rank &&
             TablePart{shard.rows, shard.columns, shard.row, shard.column} == step.part;
    });
  }

  bool stage(const TransferStep& step, Table& table) {
    if (step.from.size() != 1) return refuse(step.table, step.rank, "one rank is staged from");
    const int from = step.from.front().rank;
    const auto found = std::find_if(table.items.begin(), table.items.end(), [&](const Item& item) {
      return !item.is_new && !item.is_staged && item.rank == from && item.part == step.part;
    });
    if (found == table.items.end() || !table.profile) {
      return refuse(step.table, step.rank, "the old plan has no shard there");
    }
    const Bytes bytes = bytes_of(table, area(step.part));
    if (step.bytes != (from == step.rank ? 0 : bytes) ||
        Int128{step.from.front().values} != area(step.part)) {
      return refuse(step.table, step.rank, fmt::format("staging it sends {} bytes", bytes));
    }
    Item item{step.part, step.rank, false, true, step.in_ddr, {}};
    (step.in_ddr ? item.bytes.ddr : item.bytes.hbm) = bytes;
    const Item old = *found;
    if (!put(step, table, item)) return false;  // both stand for a moment
    add(old, -1);
    table.items.erase(std::find_if(table.items.begin(), table.items.end(), [&](const Item& one) {
      return !one.is_new && !one.is_staged && one.rank == from && one.part == step.part;
    }));
    return true;
  }

  bool drop(const TransferStep& step, Table& table) {
    const auto found = std::find_if(table.items.begin(), table.items.end(), [&](const Item& item) {
      return !item.is_new && item.rank == step.rank && item.part == step.part;
    });
    if (found == table.items.end()) {
      return refuse(step.table, step.rank, "there is no such shard to drop");
    }
    add(*found, -1);
    table.items.erase(found);
    return true;
  }

  // A shard that stays was never copied: old ones count where the new plan wants the same.
  void judge_end(Bytes moved, Bytes staged) {
    step_ = schedule_.steps.size();
    for (auto& [fqn, table] : tables_) {
      std::vector<PlacedShard> wanted;
      if (table.after != nullptr) wanted = embedding::expand_shards(*table.after);
      std::vector<Item> left = table.items;
      const bool stays = is_kept(table);
      for (const PlacedShard& shard : wanted) {
        const TablePart part{shard.rows, shard.columns, shard.row, shard.column};
        const auto found = std::find_if(left.begin(), left.end(), [&](const Item& item) {
          return item.rank == shard.rank && item.part == part && !item.is_staged &&
                 (item.is_new || stays);
        });
        if (found == left.end()) {
          refuse(fqn, shard.rank, "at the end a shard of the new plan is missing");
          break;
        }
        left.erase(found);
      }
      if (!left.empty()) {
        refuse(fqn, left.front().rank, "at the end a rank holds what the new plan does not want");
      }
    }
    if (moved != schedule_.moved_bytes || staged != schedule_.staged_bytes) {
      refuse("", 0,
             fmt::format("the steps move {} and stage {} bytes, the schedule states {} and "
                         "{}",
                         moved, staged, schedule_.moved_bytes, schedule_.staged_bytes));
    }
  }

  static bool is_kept(const Table& table) {
    return table.before != nullptr && table.after != nullptr &&
           table.before->compute_kernel == table.after->compute_kernel &&
           table.before->cache_params == table.after->cache_params &&
           table.before->dynamic_embedding == table.after->dynamic_embedding;
  }

  const TransferCase& given_;
  const embedding::TransferSchedule& schedule_;
  embedding::Estimator estimator_;
  std::map<std::string, Table> tables_;
  std::vector<Storage> caps_, used_;
  std::vector<Finding> violations_;
  std::size_t step_ = 0;
};

}  // namespace

Result<std::vector<Finding>> check_transfers(const TransferCase& given,
                                             const embedding::TransferSchedule& schedule) {
  if (schedule.status == embedding::ScheduleStatus::kNone) return std::vector<Finding>();
  return Simulation(given, schedule).run();
}

Result<Bytes> count_moved_bytes(const TransferCase& given) { return Simulation(given, {}).count(); }

}  // namespace plimsoll::check
