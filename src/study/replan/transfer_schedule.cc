#include "study/replan/transfer_schedule.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

#include "plimsoll/core/checked.h"

namespace plimsoll::study {
namespace {

using embedding::PlacedShard;
using embedding::ScheduleStatus;
using embedding::TablePart;
using embedding::TableSharding;
using embedding::TransferKind;
using embedding::TransferSchedule;
using embedding::TransferStep;
using topology::Storage;

constexpr int kHbm = 0, kDdr = 1;
using Tiers = std::array<Bytes, 3>;  // hbm, ddr, ssd

Tiers tiers_of(const Storage& storage) { return {storage.hbm, storage.ddr, storage.ssd}; }
Bytes sum_of(const Tiers& tiers) {
  return saturated_add(saturated_add(tiers[0], tiers[1]), tiers[2]);
}

// What stands on a rank: a shard of the old plan, or a staged one.
struct Held {
  std::string table;
  PlacedShard shard;  // its rank: where it is now
  Tiers bytes{};
  Bytes copied = 0;  // weights and optimizer state, as they cross links
  int needed = 0;    // copies that read it
  bool stays = false;
  bool is_staged = false;
  bool is_staged_in_ddr = false;
  bool is_gone = false;
};

struct Copy {
  std::string table;
  PlacedShard shard;
  Tiers bytes{};
  const TableWeight* weight = nullptr;
  std::vector<std::pair<std::size_t, std::int64_t>> from;  // held, values
  bool is_done = false;
};

// What a shard holds while nothing is trained.
Result<Tiers> resident_bytes(const embedding::Estimator& estimator,
                             const embedding::TableProfile& profile, const TableSharding& sharding,
                             std::int64_t rows, std::int64_t columns) {
  embedding::Option option;
  option.sharding_type = sharding.sharding_type;
  option.compute_kernel = sharding.compute_kernel;
  if (sharding.cache_params) option.cache_load_factor = sharding.cache_params->load_factor;
  if (sharding.dynamic_embedding) {
    option.cache_load_factor = sharding.dynamic_embedding->load_factor;
    option.dynamic_embedding_mode = sharding.dynamic_embedding->mode;
  }
  PLIMSOLL_ASSIGN(embedding::StorageParts parts,
                  estimator.shard_storage_parts(profile_of(profile, option), sharding.sharding_type,
                                                sharding.compute_kernel, rows, columns));
  parts.input_output = {};
  Storage all = parts.weights;
  all += parts.optimizer_state;
  all += parts.cache_state;
  return tiers_of(all);
}

class Scheduler {
 public:
  Scheduler(const topology::Topology& room, bool pools_ddr, int ranks_per_host)
      : num_ranks_(static_cast<int>(room.devices.size())),
        ranks_per_host_(std::max(ranks_per_host, 1)),
        pools_ddr_(pools_ddr) {
    for (const Storage& device : room.devices) caps_.push_back(tiers_of(device));
  }

  void hold(Held held) { held_.push_back(std::move(held)); }
  void want(Copy copy) { copies_.push_back(std::move(copy)); }
  std::vector<Held>& held() { return held_; }

  TransferSchedule run() {
    rank_copies();
    TransferSchedule schedule;
    Bytes spare = 0;
    constexpr int kMostTries = 64;
    for (int attempt = 0; attempt < kMostTries; ++attempt) {
      Run run(*this, spare);
      const bool is_done = run.run();
      if (is_done) {
        schedule = std::move(run.schedule);
        schedule.status = spare == 0 ? ScheduleStatus::kComplete : ScheduleStatus::kNeedsSpare;
        schedule.spare_bytes = spare;
        schedule.is_spare_proved = is_spare_proved_;
        return schedule;
      }
      if (attempt == 0) is_spare_proved_ = !run.has_moved;
      if (run.shortage <= 0) break;  // of another tier than HBM
      spare = saturated_add(spare, run.shortage);
    }
    return schedule;
  }

 private:
  // Those that free most for what they take come first.
  void rank_copies() {
    std::vector<int> readers(held_.size(), 0);
    for (const Copy& copy : copies_) {
      for (const auto& [held, values] : copy.from) ++readers[held];
    }
    for (std::size_t h = 0; h < held_.size(); ++h) held_[h].needed = readers[h];
    const auto gain = [&](const Copy& copy) {
      Bytes freed = 0;
      for (const auto& [held, values] : copy.from) {
        if (!held_[held].stays && readers[held] == 1) {
          freed = saturated_add(freed, sum_of(held_[held].bytes));
        }
      }
      return saturated_subtract(freed, sum_of(copy.bytes));
    };
    std::vector<std::pair<Bytes, std::size_t>> order;
    for (std::size_t c = 0; c < copies_.size(); ++c) order.emplace_back(-gain(copies_[c]), c);
    std::sort(order.begin(), order.end());
    std::vector<Copy> sorted;
    for (const auto& [less, c] : order) sorted.push_back(std::move(copies_[c]));
    copies_ = std::move(sorted);
  }

  // One attempt with so much HBM more on every rank.
  struct Run {
    Run(const Scheduler& all, Bytes spare_bytes)
        : scheduler(all), held(all.held_), copies(all.copies_), spare(spare_bytes) {
      used.assign(static_cast<std::size_t>(all.num_ranks_), {});
      for (const Held& one : held) add(one.shard.rank, one.bytes, 1);
    }

    bool run() {
      for (std::size_t h = 0; h < held.size(); ++h) drop_if_free(h);
      std::size_t left = copies.size();
      while (left > 0) {
        const std::size_t before = left;
        for (Copy& copy : copies) {
          if (copy.is_done || !fits(copy.shard.rank, copy.bytes)) continue;
          make(copy);
          --left;
        }
        if (left < before) continue;
        if (!stage_something()) return false;
      }
      return true;
    }

    bool is_here(int rank) const { return rank >= 0 && rank < scheduler.num_ranks_; }

    void add(int rank, const Tiers& bytes, int sign) {
      if (!is_here(rank)) return;
      for (std::size_t t = 0; t < bytes.size(); ++t) used[rank][t] += sign * bytes[t];
    }

    // Bytes that the rank, or its pool, has left.
    Bytes room(int rank, std::size_t tier) const {
      int first = rank, end = rank + 1;
      if (tier == kDdr && scheduler.pools_ddr_) {
        const int host = rank / scheduler.ranks_per_host_;
        if ((host + 1) * scheduler.ranks_per_host_ <= scheduler.num_ranks_) {
          first = host * scheduler.ranks_per_host_;
          end = first + scheduler.ranks_per_host_;
        }
      }
      Bytes left = tier == kHbm ? spare : 0;
      for (int r = first; r < end; ++r) {
        left = saturated_add(left, scheduler.caps_[r][tier] - used[r][tier]);
      }
      return left;
    }

    bool fits(int rank, const Tiers& bytes) const {
      for (std::size_t t = 0; t < bytes.size(); ++t) {
        if (bytes[t] > 0 && bytes[t] > room(rank, t)) return false;
      }
      return true;
    }

    void make(Copy& copy) {
      std::map<int, std::int64_t> values;
      std::int64_t crossing = 0;
      for (const auto& [h, count] : copy.from) {
        if (held[h].shard.rank == copy.shard.rank) continue;
        values[held[h].shard.rank] += count;
        crossing += count;
      }
      TransferStep step{TransferKind::kCopy,
                        copy.table,
                        part_of(copy.shard),
                        copy.shard.rank,
                        false,
                        {},
                        copy.weight->bytes_of(crossing)};
      for (const auto& [rank, count] : values) step.from.push_back({rank, count});
      schedule.moved_bytes = saturated_add(schedule.moved_bytes, step.bytes);
      schedule.steps.push_back(std::move(step));
      add(copy.shard.rank, copy.bytes, 1);
      copy.is_done = true;
      has_moved = true;
      for (const auto& [h, count] : copy.from) {
        --held[h].needed;
        drop_if_free(h);
      }
    }

    void drop_if_free(std::size_t h) {
      Held& one = held[h];
      if (one.needed > 0 || one.stays || one.is_gone) return;
      one.is_gone = true;
      add(one.shard.rank, one.bytes, -1);
      schedule.steps.push_back({TransferKind::kFree,
                                one.table,
                                part_of(one.shard),
                                one.shard.rank,
                                one.is_staged_in_ddr,
                                {},
                                0});
    }

    // Of the copy that lacks least, what stands in its way.
    bool stage_something() {
      std::vector<std::tuple<Bytes, std::size_t, std::size_t>> lacking;  // bytes, tier, copy
      for (std::size_t c = 0; c < copies.size(); ++c) {
        const Copy& copy = copies[c];
        if (copy.is_done) continue;
        Bytes most = 0;
        std::size_t where = 0;
        for (std::size_t t = 0; t < copy.bytes.size(); ++t) {
          const Bytes missing = saturated_subtract(copy.bytes[t], room(copy.shard.rank, t));
          if (copy.bytes[t] > 0 && missing > most) most = missing, where = t;
        }
        lacking.emplace_back(most, where, c);
      }
      std::sort(lacking.begin(), lacking.end());
      shortage = 0;
      for (const auto& [missing, tier, c] : lacking) {
        if (tier == kHbm) {
          shortage = missing;
          break;
        }
      }
      return std::any_of(lacking.begin(), lacking.end(), [&](const auto& one) {
        const auto& [missing, tier, c] = one;
        return make_room(copies[c].shard.rank, tier, missing);
      });
    }

    // Stages the smallest shard that is large enough, else the largest.
    bool make_room(int rank, std::size_t tier, Bytes missing) {
      std::vector<std::tuple<bool, Bytes, std::size_t>> order;
      for (std::size_t h = 0; h < held.size(); ++h) {
        const Held& one = held[h];
        if (one.is_gone || one.stays || one.is_staged || one.shard.rank != rank) continue;
        if (one.bytes[tier] <= 0) continue;
        const bool is_small = one.bytes[tier] < missing;
        order.emplace_back(is_small, is_small ? -one.bytes[tier] : one.bytes[tier], h);
      }
      std::sort(order.begin(), order.end());
      return std::any_of(order.begin(), order.end(),
                         [&](const auto& one) { return stage(std::get<2>(one), tier); });
    }

    bool stage(std::size_t h, std::size_t tier) {
      Held& one = held[h];
      const int from = one.shard.rank;
      int to = -1;
      bool in_ddr = true;
      if (tier == kHbm && room(from, kDdr) >= one.copied) {
        to = from;
      } else {
        for (const std::size_t other : {std::size_t{kHbm}, std::size_t{kDdr}}) {
          Bytes most = -1;
          for (int rank = 0; rank < scheduler.num_ranks_; ++rank) {
            const Bytes left = room(rank, other);
            if (rank == from || left < one.copied || left <= most) continue;
            to = rank, most = left;
          }
          in_ddr = other == kDdr;
          if (to >= 0) break;
        }
      }
      if (to < 0) return false;
      TransferStep step{TransferKind::kStage, one.table, part_of(one.shard), to, in_ddr, {}, 0};
      const std::int64_t values = saturated_multiply(one.shard.rows, one.shard.columns);
      step.from.push_back({from, values});
      if (to != from) {
        step.bytes = one.copied;
        schedule.staged_bytes = saturated_add(schedule.staged_bytes, one.copied);
      }
      schedule.steps.push_back(std::move(step));
      add(from, one.bytes, -1);
      one.bytes = in_ddr ? Tiers{0, one.copied, 0} : Tiers{one.copied, 0, 0};
      one.shard.rank = to;
      one.is_staged = true;
      one.is_staged_in_ddr = in_ddr;
      add(to, one.bytes, 1);
      has_moved = true;
      return true;
    }

    static TablePart part_of(const PlacedShard& shard) {
      return {shard.rows, shard.columns, shard.row, shard.column};
    }

    const Scheduler& scheduler;
    std::vector<Held> held;
    std::vector<Copy> copies;
    Bytes spare;
    std::vector<Tiers> used;
    TransferSchedule schedule;
    bool has_moved = false;
    Bytes shortage = 0;
  };

  int num_ranks_, ranks_per_host_;
  bool pools_ddr_;
  std::vector<Tiers> caps_;
  std::vector<Held> held_;
  std::vector<Copy> copies_;
  bool is_spare_proved_ = false;
};

bool is_same_place(const PlacedShard& a, const PlacedShard& b) {
  return a.rank == b.rank && a.rows == b.rows && a.columns == b.columns && a.row == b.row &&
         a.column == b.column;
}

// The old shards that a new one is filled from: all that hold some of it; of replicas one, its own
// rank's, else the first of its host, else the first.
std::vector<std::size_t> sources_of(const PlacedShard& shard, const HeldTable& old,
                                    int ranks_per_host) {
  std::vector<std::size_t> sources;
  if (!old.is_replicated) {
    for (std::size_t i = 0; i < old.shards.size(); ++i) {
      if (shared_values(shard, old.shards[i]) > 0) sources.push_back(i);
    }
    return sources;
  }
  const auto distance = [&](const PlacedShard& replica) {
    return std::tuple(replica.rank != shard.rank,
                      replica.rank / ranks_per_host != shard.rank / ranks_per_host, replica.rank);
  };
  const auto nearest = std::min_element(
      old.shards.begin(), old.shards.end(),
      [&](const PlacedShard& a, const PlacedShard& b) { return distance(a) < distance(b); });
  if (nearest != old.shards.end() && shared_values(shard, *nearest) > 0) {
    sources.push_back(static_cast<std::size_t>(nearest - old.shards.begin()));
  }
  return sources;
}

// One table of both plans, as the scheduler takes it: what is held of it, and what is wanted.
struct MovedTable {
  const embedding::Estimator& estimator;
  const embedding::TableProfile& profile;
  const TableWeight& weight;
  std::string fqn;
  int ranks_per_host = 1;
};

Result<void> hold(const MovedTable& moved, const HeldTable& old, Scheduler& scheduler) {
  for (const PlacedShard& shard : old.shards) {
    Held held;
    held.table = moved.fqn;
    held.shard = shard;
    PLIMSOLL_ASSIGN(held.bytes, resident_bytes(moved.estimator, moved.profile, old.sharding,
                                               shard.rows, shard.columns));
    held.copied = moved.weight.bytes_of(saturated_multiply(shard.rows, shard.columns));
    scheduler.hold(std::move(held));
  }
  return {};
}

// Where its shards stand as they stood, nothing is copied. `first`: of what is held of the table.
Result<void> want(const MovedTable& moved, const TableSharding& table, const HeldTable* old,
                  std::size_t first, Scheduler& scheduler) {
  const bool is_alike = old != nullptr && old->sharding.compute_kernel == table.compute_kernel &&
                        old->sharding.cache_params == table.cache_params &&
                        old->sharding.dynamic_embedding == table.dynamic_embedding;
  for (const PlacedShard& shard : expand_shards(table)) {
    Copy copy;
    copy.table = moved.fqn;
    copy.shard = shard;
    copy.weight = &moved.weight;
    PLIMSOLL_ASSIGN(copy.bytes, resident_bytes(moved.estimator, moved.profile, table, shard.rows,
                                               shard.columns));
    bool stays = false;
    if (old != nullptr) {
      for (const std::size_t i : sources_of(shard, *old, moved.ranks_per_host)) {
        Held& held = scheduler.held()[first + i];
        if (is_alike && !held.stays && is_same_place(held.shard, shard)) {
          held.stays = stays = true;
        }
        copy.from.emplace_back(first + i, shared_values(shard, held.shard));
      }
    }
    if (!stays) scheduler.want(std::move(copy));
  }
  return {};
}

// A table that the model has no more holds what nobody knows; it is dropped first.
void hold_dropped(const embedding::ShardingPlan& before,
                  const std::map<std::string, const TableSharding*>& new_of, Scheduler& scheduler) {
  for (const TableSharding& table : before.tables) {
    if (new_of.contains(table.fqn())) continue;
    for (const PlacedShard& shard : expand_shards(table)) {
      Held held;
      held.table = table.fqn();
      held.shard = shard;
      scheduler.hold(std::move(held));
    }
  }
}

}  // namespace

Result<TransferSchedule> schedule_transfers(const embedding::Estimator& estimator,
                                            const embedding::Enumeration& enumeration,
                                            const topology::Topology& room, bool pools_ddr,
                                            const embedding::ShardingPlan& before,
                                            const embedding::ShardingPlan& after) {
  PLIMSOLL_ASSIGN(const std::vector<TableWeight> weights, weigh_tables(estimator, enumeration));
  const HeldTables old_tables(before);
  const int ranks_per_host = std::max(after.local_world_size, 1);
  Scheduler scheduler(room, pools_ddr, ranks_per_host);
  std::map<std::string, const TableSharding*> new_of;
  for (const TableSharding& table : after.tables) new_of.emplace(table.fqn(), &table);
  hold_dropped(before, new_of, scheduler);
  for (std::size_t t = 0; t < enumeration.options.tables.size(); ++t) {
    const std::string& fqn = enumeration.options.tables[t].fqn;
    const auto found = new_of.find(fqn);
    if (found == new_of.end()) continue;
    const MovedTable moved{estimator, enumeration.profiles[t], weights[t], fqn, ranks_per_host};
    const HeldTable* old = old_tables.find(fqn);
    const std::size_t first = scheduler.held().size();
    if (old != nullptr) PLIMSOLL_RETURN_IF_ERROR(hold(moved, *old, scheduler));
    PLIMSOLL_RETURN_IF_ERROR(want(moved, *found->second, old, first, scheduler));
  }
  return scheduler.run();
}

}  // namespace plimsoll::study
