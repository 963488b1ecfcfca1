// Greedy placement by performance, the reference's default partitioner.
//
// Problem. Give every shard of a proposal a rank within every rank's memory so that loads are even.
// Method. Uniform options first; then groups of the others, largest storage (or perf) first: device
// shards to the least loaded rank with room, host options to the least loaded host where everything
// fits, grids to a window of hosts consecutive in load order. Costs. O(tables + shards log W + W) a
// proposal. Uniform options are booked as runs, never rank by rank. Groups stay sorted from one
// proposal to the next: a proposer changes one table at a time, and only changed groups are moved.
// Promises. The same ranks and the same failures as the reference: device loads are added component
// by component in its order, totals formed from the component sums. What it misses it misses too:
// no backtracking, and windows of hosts are contiguous in the sorted list, so a feasible scattered
// set is not seen (a quirk). Source: docs/mathematics/torchrec-planner.md#partitioners.

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "embedding/torchrec/group_order.h"
#include "embedding/torchrec/rank_queue.h"
#include "plimsoll/embedding/partitioner.h"

namespace plimsoll::embedding {
namespace {

using topology::Topology;

class GreedyPerf : public Partitioner {
 public:
  GreedyPerf(const CostModel& cost_model, const GreedyPerfOptions& options)
      : cost_model_(cost_model), config_(options) {}

  std::string_view name() const override { return "greedy_perf"; }

  std::optional<PartitionFailure> partition(const OptionSet& options, const Proposal& proposal,
                                            const Topology& storage_constraint,
                                            PlacedProposal& plan) override {
    options_ = &options;
    proposal_ = &proposal;
    plan_ = &plan;
    start(storage_constraint);
    if (auto failure = place_uniform()) return failure;
    make_keys();
    for (const std::int32_t leader : order_.sort(keys_)) {
      if (auto failure = place_group(leader)) return failure;
    }
    return std::nullopt;
  }

 private:
  const Option& option_at(std::int32_t position) const {
    return options_
        ->options[static_cast<std::size_t>((*proposal_)[static_cast<std::size_t>(position)])];
  }
  ShardRuns shards_at(std::int32_t position) const { return options_->shards(option_at(position)); }
  const TableOptions& table_at(std::int32_t position) const {
    return options_->tables[static_cast<std::size_t>(option_at(position).table)];
  }
  std::int32_t* ranks_at(std::int32_t position) {
    return plan_->ranks.data() + plan_->first_rank[static_cast<std::size_t>(position)];
  }
  Storage& room(int rank) { return room_[static_cast<std::size_t>(rank)]; }
  double total(int rank) const { return load_[static_cast<std::size_t>(rank)].total(); }

  void start(const Topology& topology) {
    world_size_ = topology.world_size;
    local_world_size_ = topology.local_world_size;
    group_size_ = topology.group_size();
    room_ = topology.devices;
    if (config_.hbm_per_device != 0) {
      for (Storage& device : room_) device.hbm = config_.hbm_per_device;
    }
    load_.assign(static_cast<std::size_t>(world_size_), Perf{});
    queue_is_built_ = false;
    hosts_are_built_ = false;

    plan_->options = *proposal_;
    plan_->first_rank.assign(proposal_->size() + 1, 0);
    std::int64_t next = 0;
    for (std::size_t p = 0; p < proposal_->size(); ++p) {
      plan_->first_rank[p] = next;
      const auto position = static_cast<std::int32_t>(p);
      if (option_at(position).partition_by != PartitionBy::kUniform) {
        next += shards_at(position).num_shards();
      }
    }
    plan_->first_rank.back() = next;
    plan_->ranks.assign(static_cast<std::size_t>(next), -1);
  }

  // Books all uniform options, equal loads once for all ranks.
  std::optional<PartitionFailure> place_uniform() {
    uniform_.clear();
    Perf everywhere;
    bool is_equal = true;
    for (std::size_t p = 0; p < proposal_->size(); ++p) {
      const auto position = static_cast<std::int32_t>(p);
      if (option_at(position).partition_by != PartitionBy::kUniform) continue;
      uniform_.push_back(position);
      const ShardRuns shards = shards_at(position);
      if (shards.num_shards() != world_size_) {
        return failure_at(position, PartitionFailure::Reason::kUniformShardCount, world_size_);
      }
      const Perf& first = shards.runs.front().perf;
      for (const ShardRun& run : shards.runs) is_equal = is_equal && run.perf == first;
      everywhere += first;
    }
    if (uniform_.empty()) return std::nullopt;
    if (!add_up(uniform_)) return find_uniform_failure();
    for (int rank = 0; rank < world_size_; ++rank) {
      room(rank) -= used_[static_cast<std::size_t>(rank)];
    }
    if (is_equal) {
      load_.assign(load_.size(), everywhere);
    } else {
      add_unequal_uniform_loads();
    }
    return std::nullopt;
  }

  // What the uniform options at the positions hold on every rank, into used_; false where that does
  // not fit. Memory is booked as differences along the ranks. Up to the first rank that lacks room
  // all sums are exact: each prefix fits in a room.
  bool add_up(std::span<const std::int32_t> positions) {
    used_.assign(static_cast<std::size_t>(world_size_) + 1, Storage{});
    for (const std::int32_t position : positions) {
      std::int64_t rank = 0;
      for (const ShardRun& run : shards_at(position).runs) {
        used_[static_cast<std::size_t>(rank)] += run.storage;
        rank += run.count;
        used_[static_cast<std::size_t>(rank)] -= run.storage;
      }
    }
    Storage used;
    for (int rank = 0; rank < world_size_; ++rank) {
      used += used_[static_cast<std::size_t>(rank)];
      if (!used.fits_in(room(rank))) return false;
      used_[static_cast<std::size_t>(rank)] = used;
    }
    return true;
  }

  void add_unequal_uniform_loads() {
    for (const std::int32_t position : uniform_) {
      std::size_t rank = 0;
      for (const ShardRun& run : shards_at(position).runs) {
        for (std::int64_t i = 0; i < run.count; ++i) load_[rank++] += run.perf;
      }
    }
  }

  // The first shard that does not fit where all were placed option by option, by bisection: what is
  // placed only grows. room_ holds what there is before all of them.
  PartitionFailure find_uniform_failure() {
    const std::span all(uniform_);
    std::size_t fits = 0, fails = all.size();
    while (fails - fits > 1) {
      const std::size_t middle = fits + (fails - fits) / 2;
      (add_up(all.first(middle)) ? fits : fails) = middle;
    }
    add_up(all.first(fits));
    PartitionFailure failure =
        failure_at(all[fits], PartitionFailure::Reason::kUniformDoesNotFit, world_size_);
    int rank = 0;
    for (const ShardRun& run : shards_at(all[fits]).runs) {
      for (std::int64_t i = 0; i < run.count; ++i, ++rank) {
        const Storage left = room(rank) - used_[static_cast<std::size_t>(rank)];
        if (run.storage.fits_in(left)) continue;
        failure.shard = rank;
        failure.rank = rank;
        failure.room = left;
        return failure;
      }
    }
    return failure;
  }

  // --- groups
  // -------------------------------------------------------------------------------------------------------------------------------------------------

  // One key a position: of its group if the position is the group's first, else not placed.
  void make_keys() {
    keys_.assign(proposal_->size(), GroupKey{});
    members_.clear();
    std::map<std::string_view, std::int64_t> tables_of_module;
    if (config_.balance_modules) {
      for (std::size_t p = 0; p < proposal_->size(); ++p) {
        ++tables_of_module[table_at(static_cast<std::int32_t>(p)).module_path];
      }
    }
    std::map<std::string_view, std::int32_t> leader_of;
    for (std::size_t p = 0; p < proposal_->size(); ++p) {
      const auto position = static_cast<std::int32_t>(p);
      if (option_at(position).partition_by == PartitionBy::kUniform) continue;
      const std::string& dependency = table_at(position).dependency;
      std::int32_t leader = position;
      if (!dependency.empty()) {
        leader = leader_of.try_emplace(dependency, position).first->second;
        members_[leader].push_back(position);
      }
      GroupKey& key = keys_[static_cast<std::size_t>(leader)];
      if (leader == position) {
        key.is_placed = true;
        if (config_.balance_modules) {
          key.param_count = -tables_of_module[table_at(position).module_path];
        }
      }
      if (config_.sort_by == SortBy::kStorage) {
        key.storage += shards_at(position).total_storage();
      } else {
        key.perf += shards_at(position).total_perf();
      }
    }
  }

  // Valid until the next call.
  std::span<const std::int32_t> members_of(std::int32_t leader) const {
    const auto found = members_.find(leader);
    if (found != members_.end()) return found->second;
    alone_ = leader;
    return {&alone_, 1};
  }

  std::optional<PartitionFailure> place_group(std::int32_t leader) {
    switch (option_at(leader).partition_by) {
      case PartitionBy::kDevice: {
        const Option& option = option_at(leader);
        const bool needs_distinct_ranks = cost_model_.key_value_columns_on_distinct_ranks &&
                                          option.compute_kernel == ComputeKernel::kKeyValue &&
                                          option.sharding_type == ShardingType::kColumnWise;
        return needs_distinct_ranks ? place_on_distinct_ranks(leader) : place_on_devices(leader);
      }
      case PartitionBy::kHost:
        return place_on_host(leader);
      case PartitionBy::kMultiHost:
        return place_on_hosts(leader);
      case PartitionBy::kUniform:
        break;
    }
    return std::nullopt;
  }

  // --- device
  // -------------------------------------------------------------------------------------------------------------------------------------------------

  void build_queue() {
    if (queue_is_built_) return;
    queue_.reset(world_size_, local_world_size_);
    queue_.build([this](int rank) { return total(rank); });
    queue_is_built_ = true;
  }

  void take(int rank, const ShardRun& shard) {
    room(rank) -= shard.storage;
    load_[static_cast<std::size_t>(rank)] += shard.perf;
  }

  // After loads of a rank changed.
  void touch(int rank) {
    if (queue_is_built_) queue_.update(rank, total(rank));
    if (hosts_are_built_ && rank < num_hosts() * group_size_) {
      is_stale_[static_cast<std::size_t>(rank / group_size_)] = true;
    }
  }

  std::optional<PartitionFailure> place_on_devices(std::int32_t position) {
    build_queue();
    const ShardRuns shards = shards_at(position);
    std::int32_t* ranks = ranks_at(position);
    std::int64_t shard = 0;
    for (std::int64_t block = 0; block < shards.column_blocks; ++block) {
      for (const ShardRun& run : shards.runs) {
        for (std::int64_t i = 0; i < run.count; ++i, ++shard) {
          const int rank = queue_.find([&](int r) { return run.storage.fits_in(room(r)); });
          if (rank < 0) {
            PartitionFailure failure =
                failure_at(position, PartitionFailure::Reason::kNoRankForShard, world_size_);
            failure.shard = shard;
            failure.room = *std::max_element(room_.begin(), room_.end());
            return failure;
          }
          take(rank, run);
          touch(rank);
          ranks[shard] = rank;
        }
      }
    }
    return std::nullopt;
  }

  // Column shards of a key_value table, each on a rank of its own.
  std::optional<PartitionFailure> place_on_distinct_ranks(std::int32_t position) {
    build_queue();
    const ShardRuns shards = shards_at(position);
    if (shards.num_shards() > world_size_) {
      return failure_at(position, PartitionFailure::Reason::kTooManyColumnShards, world_size_);
    }
    const ShardRun& run = shards.runs.front();
    std::int32_t* ranks = ranks_at(position);
    for (std::int64_t shard = 0; shard < shards.num_shards(); ++shard) {
      const auto is_free = [&](int r) {
        return std::find(ranks, ranks + shard, r) == ranks + shard;
      };
      const int rank =
          queue_.find([&](int r) { return is_free(r) && run.storage.fits_in(room(r)); });
      if (rank < 0) {
        PartitionFailure failure = failure_at(
            position, PartitionFailure::Reason::kNoRankForColumnShard, world_size_ - shard);
        failure.shard = shard;
        return failure;
      }
      take(rank, run);
      touch(rank);
      ranks[shard] = rank;
    }
    return std::nullopt;
  }

  // --- host
  // ---------------------------------------------------------------------------------------------------------------------------------------------------

  int num_hosts() const { return world_size_ / group_size_; }

  // Hosts by the sum of their ranks' totals, ascending and stable; sums are formed afresh from rank
  // 0 of the host on.
  void sort_hosts() {
    const auto hosts = static_cast<std::size_t>(num_hosts());
    if (!hosts_are_built_) {
      host_load_.assign(hosts, 0);
      is_stale_.assign(hosts, true);
      host_order_.resize(hosts);
      for (std::size_t h = 0; h < hosts; ++h) host_order_[h] = static_cast<int>(h);
      hosts_are_built_ = true;
    }
    bool is_any_stale = false;
    for (std::size_t h = 0; h < hosts; ++h) {
      if (!is_stale_[h]) continue;
      double sum = 0;
      const int first = static_cast<int>(h) * group_size_;
      for (int rank = first; rank < first + group_size_; ++rank) sum += total(rank);
      host_load_[h] = sum;
      is_stale_[h] = false;
      is_any_stale = true;
    }
    if (!is_any_stale) return;
    // Nearly sorted already: insertion sort by (load, index).
    for (std::size_t i = 1; i < hosts; ++i) {
      const int host = host_order_[i];
      const double load = host_load_[static_cast<std::size_t>(host)];
      std::size_t j = i;
      for (; j > 0; --j) {
        const int before = host_order_[j - 1];
        const double before_load = host_load_[static_cast<std::size_t>(before)];
        if (before_load < load || (before_load == load && before < host)) break;
        host_order_[j] = before;
      }
      host_order_[j] = host;
    }
  }

  std::optional<PartitionFailure> place_on_host(std::int32_t leader) {
    sort_hosts();
    const bool is_alone = !members_.contains(leader);
    Storage needed;
    if (is_alone) {
      needed = shards_at(leader).total_storage();
    } else {
      for (const std::int32_t member : members_of(leader)) {
        needed += shards_at(member).total_storage();
      }
    }
    for (const int host : host_order_) {
      const int first = host * group_size_;
      Storage host_room;
      for (int rank = first; rank < first + group_size_; ++rank) host_room += room(rank);
      if (!needed.fits_in(host_room)) continue;
      if (is_alone && option_at(leader).sharding_type == ShardingType::kTableRowWise) {
        if (place_rows(leader, first)) return std::nullopt;
      } else if (place_members(leader, first)) {
        return std::nullopt;
      }
    }
    return group_failure(leader, PartitionFailure::Reason::kNoHostForGroup);
  }

  // All members of a group on one host, or nothing changed.
  bool place_members(std::int32_t leader, int first) {
    const auto first_room = room_.begin() + first;
    const auto first_load = load_.begin() + first;
    saved_room_.assign(first_room, first_room + group_size_);
    saved_load_.assign(first_load, first_load + group_size_);
    for (const std::int32_t member : members_of(leader)) {
      const ShardingType type = option_at(member).sharding_type;
      const bool is_placed =
          type == ShardingType::kTableRowWise
              ? place_rows(member, first)
              : type == ShardingType::kTableColumnWise && place_columns_in_host(member, first);
      if (is_placed) continue;
      std::copy(saved_room_.begin(), saved_room_.end(), first_room);
      std::copy(saved_load_.begin(), saved_load_.end(), first_load);
      for (int rank = first; rank < first + group_size_; ++rank) touch(rank);
      return false;
    }
    return true;
  }

  // One shard a rank of the host, or nothing changed.
  bool place_rows(std::int32_t position, int first) {
    const ShardRuns shards = shards_at(position);
    if (shards.num_shards() != group_size_) return false;
    int rank = first;
    for (const ShardRun& run : shards.runs) {
      for (std::int64_t i = 0; i < run.count; ++i, ++rank) {
        if (!run.storage.fits_in(room(rank))) return false;
      }
    }
    rank = first;
    std::int32_t* ranks = ranks_at(position);
    for (const ShardRun& run : shards.runs) {
      for (std::int64_t i = 0; i < run.count; ++i, ++rank) {
        take(rank, run);
        touch(rank);
        *ranks++ = rank;
      }
    }
    return true;
  }

  // Column shards on the least loaded ranks of one host with room. May leave some placed when it
  // fails; the caller restores.
  bool place_columns_in_host(std::int32_t position, int first) {
    const ShardRuns shards = shards_at(position);
    host_queue_.reset(group_size_, group_size_);
    host_queue_.build([&](int offset) { return total(first + offset); });
    std::int32_t* ranks = ranks_at(position);
    for (std::int64_t block = 0; block < shards.column_blocks; ++block) {
      for (const ShardRun& run : shards.runs) {
        for (std::int64_t i = 0; i < run.count; ++i) {
          const int offset =
              host_queue_.find([&](int o) { return run.storage.fits_in(room(first + o)); });
          if (offset < 0) return false;
          take(first + offset, run);
          touch(first + offset);
          host_queue_.update(offset, total(first + offset));
          *ranks++ = first + offset;
        }
      }
    }
    return true;
  }

  // --- several hosts
  // --------------------------------------------------------------------------------------------------------------------------------------------

  std::optional<PartitionFailure> place_on_hosts(std::int32_t leader) {
    if (members_of(leader).size() != 1) {
      return group_failure(leader, PartitionFailure::Reason::kGroupOfGrids);
    }
    const std::int64_t num_shards = shards_at(leader).num_shards();
    if (num_hosts() == 0) return group_failure(leader, PartitionFailure::Reason::kNoHostsForGrid);
    if (num_shards % group_size_ != 0) {
      return failure_at(leader, PartitionFailure::Reason::kGridShardCount, group_size_);
    }
    sort_hosts();
    const auto hosts_needed = static_cast<std::size_t>(num_shards / group_size_);
    const auto hosts = static_cast<std::size_t>(num_hosts());
    if (hosts_needed >= hosts) {
      if (place_grid(leader, 0, hosts_needed)) return std::nullopt;
    } else {
      for (std::size_t begin = 0; begin + hosts_needed <= hosts; ++begin) {
        if (place_grid(leader, begin, hosts_needed)) return std::nullopt;
      }
    }
    return group_failure(leader, PartitionFailure::Reason::kNoHostsForGrid);
  }

  // Shards in order over the ranks of hosts `begin`, begin + 1, ... of the load order, taken
  // cyclically; or nothing changed.
  bool place_grid(std::int32_t position, std::size_t begin, std::size_t hosts_needed) {
    const ShardRuns shards = shards_at(position);
    const std::vector<int> hosts = host_order_;  // loads change below, the order must not
    const auto rank_of = [&](std::int64_t shard) {
      const auto host = static_cast<std::size_t>(shard / group_size_) % hosts_needed;
      return hosts[(begin + host) % hosts.size()] * group_size_ +
             static_cast<int>(shard % group_size_);
    };
    // A rank may take several shards, so memory is taken as the test proceeds and given back on
    // failure.
    std::int64_t shard = 0;
    const auto for_each = [&](const auto& visit) {
      shard = 0;
      for (std::int64_t block = 0; block < shards.column_blocks; ++block) {
        for (const ShardRun& run : shards.runs) {
          for (std::int64_t i = 0; i < run.count; ++i, ++shard) {
            if (!visit(run)) return;
          }
        }
      }
    };
    std::int64_t num_taken = 0;
    for_each([&](const ShardRun& run) {
      Storage& left = room(rank_of(shard));
      if (!run.storage.fits_in(left)) return false;
      left -= run.storage;
      ++num_taken;
      return true;
    });
    const bool fits = num_taken == shards.num_shards();
    std::int32_t* ranks = ranks_at(position);
    for_each([&](const ShardRun& run) {
      if (shard >= num_taken) return false;
      const int rank = rank_of(shard);
      if (fits) {
        load_[static_cast<std::size_t>(rank)] += run.perf;
        touch(rank);
        ranks[shard] = rank;
      } else {
        room(rank) += run.storage;
      }
      return true;
    });
    return fits;
  }

  // --- failures
  // -------------------------------------------------------------------------------------------------------------------------------------------------

  PartitionFailure failure_at(std::int32_t position, PartitionFailure::Reason reason,
                              std::int64_t num_devices) const {
    PartitionFailure failure;
    failure.reason = reason;
    failure.option = (*proposal_)[static_cast<std::size_t>(position)];
    failure.num_devices = num_devices;
    return failure;
  }

  PartitionFailure group_failure(std::int32_t leader, PartitionFailure::Reason reason) const {
    PartitionFailure failure = failure_at(leader, reason, group_size_);
    const std::span<const std::int32_t> members = members_of(leader);
    failure.num_options = static_cast<std::int64_t>(members.size());
    for (const std::int32_t member : members) {
      failure.group_storage += shards_at(member).total_storage();
      failure.group_perf += shards_at(member).total_perf();
    }
    const std::string& path = table_at(leader).module_path;
    for (std::size_t p = 0; p < proposal_->size(); ++p) {
      if (table_at(static_cast<std::int32_t>(p)).module_path == path) --failure.param_count;
    }
    return failure;
  }

  CostModel cost_model_;
  GreedyPerfOptions config_;

  // Of the proposal at hand.
  const OptionSet* options_ = nullptr;
  const Proposal* proposal_ = nullptr;
  PlacedProposal* plan_ = nullptr;
  int world_size_ = 0;
  int local_world_size_ = 0;
  int group_size_ = 0;
  std::vector<Storage> room_;          // [world_size] left on every rank
  std::vector<Perf> load_;             // [world_size] component sums
  std::vector<Storage> used_;          // [world_size + 1] differences along the ranks
  std::vector<std::int32_t> uniform_;  // positions of uniform options, in order

  std::vector<GroupKey> keys_;  // [positions]
  GroupOrder order_;
  std::map<std::int32_t, std::vector<std::int32_t>> members_;  // of co-located groups, by leader
  mutable std::int32_t alone_ = 0;                             // the leader of a group of one
  std::vector<Storage> saved_room_;  // of one host, while a group is tried
  std::vector<Perf> saved_load_;

  RankQueue queue_;
  RankQueue host_queue_;
  bool queue_is_built_ = false;
  bool hosts_are_built_ = false;
  std::vector<double> host_load_;  // [hosts]
  std::vector<bool> is_stale_;     // [hosts]
  std::vector<int> host_order_;    // [hosts] least loaded first
};

}  // namespace

std::unique_ptr<Partitioner> make_greedy_perf_partitioner(const CostModel& cost_model,
                                                          const GreedyPerfOptions& options) {
  return std::make_unique<GreedyPerf>(cost_model, options);
}

}  // namespace plimsoll::embedding
