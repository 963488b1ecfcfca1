#include "plimsoll/check/options_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace plimsoll::check {
namespace {

using embedding::Option;
using embedding::ShardingType;

class Judge {
 public:
  Judge(const embedding::OptionSet& options, const topology::Topology& room)
      : options_(options), room_(room) {
    const auto num_ranks = static_cast<std::size_t>(options.world_size);
    report_.used.resize(num_ranks);
    report_.perf.resize(num_ranks);
    report_.rank_ms.resize(num_ranks);
    report_.capacity = room.devices;
  }

  CheckReport judge(const std::vector<StatedOption>& plan, bool pools_ddr,
                    std::optional<double> stated_rating) {
    for (const StatedOption& stated : plan) add(stated);
    for (const embedding::TableOptions& table : options_.tables) {
      if (!seen_.contains(table.fqn)) {
        find(ViolationCode::kMissingTable, table.fqn, "the plan leaves the table out");
      }
    }
    check_room(pools_ddr);
    report_.rating = *std::max_element(report_.rank_ms.begin(), report_.rank_ms.end());
    if (stated_rating && std::abs(*stated_rating - report_.rating) > 1e-9 * report_.rating) {
      find(ViolationCode::kRatingMismatch, "",
           fmt::format("the plan is said to take {} ms and takes {} ms", *stated_rating,
                       report_.rating));
    }
    return std::move(report_);
  }

 private:
  void find(ViolationCode code, std::string table, std::string message,
            std::optional<int> rank = std::nullopt) {
    report_.violations.push_back({code, std::move(table), rank, "", "", std::move(message)});
  }

  void add(const StatedOption& stated) {
    if (!seen_.insert(stated.fqn).second) {
      return find(ViolationCode::kDuplicateTable, stated.fqn, "the plan lists the table twice");
    }
    const auto table = std::find_if(options_.tables.begin(), options_.tables.end(),
                                    [&](const auto& t) { return t.fqn == stated.fqn; });
    if (table == options_.tables.end()) {
      return find(ViolationCode::kUnknownTable, stated.fqn, "the dump has no such table");
    }
    if (stated.option < table->first_option ||
        stated.option >= table->first_option + table->num_options) {
      return find(ViolationCode::kTypeNotAllowed, stated.fqn, "the option is not one of the table");
    }
    const Option& option = options_.options[static_cast<std::size_t>(stated.option)];
    const embedding::ShardRuns shards = options_.shards(option);
    if (static_cast<std::int64_t>(stated.ranks.size()) != shards.num_shards()) {
      return find(
          ViolationCode::kWrongShardCount, stated.fqn,
          fmt::format("{} rank(s) for {} shard(s)", stated.ranks.size(), shards.num_shards()));
    }
    for (const std::int32_t rank : stated.ranks) {
      if (rank >= 0 && rank < options_.world_size) continue;
      return find(ViolationCode::kRankOutOfRange, stated.fqn,
                  fmt::format("rank {} does not exist", rank));
    }
    if (!is_legal(option.sharding_type, stated.ranks)) {
      find(ViolationCode::kWrongGroup, stated.fqn, "the ranks do not suit the sharding type");
    }
    std::size_t shard = 0;
    for (std::int64_t block = 0; block < shards.column_blocks; ++block) {
      for (const embedding::ShardRun& run : shards.runs) {
        for (std::int64_t i = 0; i < run.count; ++i) {
          const auto rank = static_cast<std::size_t>(stated.ranks[shard++]);
          report_.used[rank] += run.storage;
          const embedding::Perf perf = options_.perf_on(run, rank);
          report_.perf[rank] += perf;
          report_.rank_ms[rank] += perf.total();
        }
      }
    }
  }

  // Uniform: shard i on rank i. Of a host: the ranks of a fast domain, in order for rows.
  bool is_legal(ShardingType type, const std::vector<std::int32_t>& ranks) const {
    const int width = options_.group_size;
    const auto is_row = [&](std::size_t first, std::int32_t rank, std::size_t count) {
      for (std::size_t i = 0; i < count; ++i) {
        if (ranks[first + i] != rank + static_cast<std::int32_t>(i)) return false;
      }
      return true;
    };
    switch (type) {
      case ShardingType::kTableWise:
      case ShardingType::kColumnWise:
        return true;
      case ShardingType::kRowWise:
      case ShardingType::kDataParallel:
        return is_row(0, 0, ranks.size());
      case ShardingType::kTableColumnWise:
        return std::all_of(ranks.begin(), ranks.end(), [&](std::int32_t rank) {
          return rank / width == ranks.front() / width && is_of_a_host(rank);
        });
      case ShardingType::kTableRowWise:
      case ShardingType::kGridShard:
        for (std::size_t block = 0; block < ranks.size();
             block += static_cast<std::size_t>(width)) {
          if (ranks[block] % width != 0 || !is_of_a_host(ranks[block]) ||
              !is_row(block, ranks[block], static_cast<std::size_t>(width))) {
            return false;
          }
        }
        return true;
    }
    return false;
  }

  bool is_of_a_host(std::int32_t rank) const {
    return rank / options_.group_size < options_.world_size / options_.group_size;
  }

  void check_room(bool pools_ddr) {
    const auto width = static_cast<std::size_t>(options_.local_world_size);
    Bytes used = 0, cap = 0;
    for (std::size_t rank = 0; rank < report_.used.size(); ++rank) {
      const topology::Storage& bytes = report_.used[rank];
      const topology::Storage& room = room_.devices[rank];
      check_tier("hbm", rank, bytes.hbm, room.hbm);
      check_tier("ssd", rank, bytes.ssd, room.ssd);
      const bool is_of_whole_host = (rank / width + 1) * width <= report_.used.size();
      if (!pools_ddr || !is_of_whole_host) {
        check_tier("ddr", rank, bytes.ddr, room.ddr);
        continue;
      }
      used += bytes.ddr;
      cap += room.ddr;
      if ((rank + 1) % width != 0) continue;
      check_tier("ddr", rank, used, cap);
      used = cap = 0;
    }
  }

  void check_tier(std::string_view tier, std::size_t rank, Bytes used, Bytes cap) {
    if (used <= cap) return;
    find(ViolationCode::kOverCapacity, "",
         fmt::format("{} left for {}, {} needed", format_bytes(cap), tier, format_bytes(used)),
         static_cast<int>(rank));
  }

  const embedding::OptionSet& options_;
  const topology::Topology& room_;
  std::set<std::string> seen_;
  CheckReport report_;
};

}  // namespace

CheckReport check_options(const embedding::OptionSet& options, const topology::Topology& room,
                          const std::vector<StatedOption>& plan, bool pools_ddr,
                          std::optional<double> stated_rating) {
  return Judge(options, room).judge(plan, pools_ddr, stated_rating);
}

}  // namespace plimsoll::check
