// Problem. A rank needs the values of its new shards; some it holds already, the others lie on one
// rank, or, of a replicated table, on all. Method. Old and new shards of a table, sorted by their
// first row, are swept together, so that only shards whose rows overlap meet. What a new shard
// shares with an old one on its own rank stays; what it shares with one elsewhere is fetched from
// there. From replicas it is fetched from one in the same host where there is one, of equal
// distance from the lowest rank. A link is that of a rank within its host, or that between hosts;
// hosts are the new plan's. Cost. O(n log n) for n shards of a table, and the pairs that overlap.
// Source: docs/diff.md#bytes-over-each-link.
#include "study/plans/shard_moves.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "plimsoll/core/checked.h"

namespace plimsoll::study {
namespace {

using embedding::PlacedShard;
using embedding::ShardingPlan;
using embedding::ShardingType;
using embedding::TableSharding;

struct Fetch {
  std::int32_t from = 0, to = 0;
  std::int64_t values = 0;
};

std::vector<Fetch> fetch_from_replicas(const TableSharding& before,
                                       const std::vector<PlacedShard>& needed, int ranks_per_host) {
  std::vector<PlacedShard> replicas = expand_shards(before);
  std::sort(replicas.begin(), replicas.end(),
            [](const PlacedShard& a, const PlacedShard& b) { return a.rank < b.rank; });
  std::vector<Fetch> fetches;
  if (replicas.empty()) return fetches;
  const auto first_from = [&replicas](std::int64_t rank) {
    return std::lower_bound(
        replicas.begin(), replicas.end(), rank,
        [](const PlacedShard& replica, std::int64_t at) { return replica.rank < at; });
  };
  for (const PlacedShard& shard : needed) {
    const std::int64_t host = shard.rank / ranks_per_host;
    auto source = first_from(shard.rank);
    if (source == replicas.end() || source->rank != shard.rank) {
      source = first_from(host * ranks_per_host);
      if (source == replicas.end() || source->rank / ranks_per_host != host) {
        source = replicas.begin();
      }
      fetches.push_back({source->rank, shard.rank, shared_values(shard, *source)});
    }
  }
  return fetches;
}

std::vector<Fetch> fetch_from_shards(const TableSharding& before, std::vector<PlacedShard> needed) {
  std::vector<PlacedShard> held = expand_shards(before);
  const auto by_row = [](const PlacedShard& a, const PlacedShard& b) { return a.row < b.row; };
  std::stable_sort(held.begin(), held.end(), by_row);
  std::stable_sort(needed.begin(), needed.end(), by_row);
  std::vector<Fetch> fetches;
  std::vector<const PlacedShard*> open;  // old shards that may overlap what follows
  std::size_t next = 0;
  for (const PlacedShard& shard : needed) {
    std::erase_if(open, [&shard](const PlacedShard* old) {
      return Int128{old->row} + old->rows <= shard.row;
    });
    for (; next < held.size() && held[next].row < Int128{shard.row} + shard.rows; ++next) {
      open.push_back(&held[next]);
    }
    for (const PlacedShard* old : open) {
      if (old->rank == shard.rank) continue;
      const std::int64_t values = shared_values(shard, *old);
      if (values > 0) fetches.push_back({old->rank, shard.rank, values});
    }
  }
  return fetches;
}

// Bytes of so many values of a table, all its values `shape.bytes`.
Bytes bytes_of(std::int64_t values, const embedding::TableShape& shape) {
  const Int128 all = Int128{shape.rows} * shape.columns;
  if (all <= 0) return 0;
  const Int128 bytes = (Int128{values} * shape.bytes + all - 1) / all;
  return bytes > kSaturated ? kSaturated : static_cast<Bytes>(bytes);
}

using Shapes = std::unordered_map<std::string, embedding::TableShape>;

Result<Shapes> shapes_of(const embedding::Model& model) {
  Shapes shapes;
  for (const embedding::Module& module : model.modules) {
    for (const embedding::Table& table : module.tables) {
      PLIMSOLL_ASSIGN(const embedding::TableShape shape, table_shape(module, table));
      shapes.emplace(embedding::table_fqn(module.path, table.name), shape);
    }
  }
  return shapes;
}

void add(std::int64_t values, std::optional<Bytes> bytes, std::int64_t& sum,
         std::optional<Bytes>& byte_sum) {
  sum = saturated_add(sum, values);
  if (bytes) byte_sum = saturated_add(byte_sum.value_or(0), *bytes);
}

}  // namespace

Result<void> put_moves(const ShardingPlan& before, const ShardingPlan& after,
                       const embedding::Model* model, PlanDifference& difference) {
  std::optional<Shapes> shapes;
  if (model != nullptr) {
    PLIMSOLL_ASSIGN(shapes, shapes_of(*model));
  }
  const int ranks_per_host = std::max(after.local_world_size, 1);
  std::unordered_map<std::string, const TableSharding*> old_of;
  for (const TableSharding& table : before.tables) old_of.emplace(table.fqn(), &table);
  std::unordered_map<std::string, PartChange*> change_of;
  for (PartChange& change : difference.changes) change_of.emplace(change.name, &change);
  std::map<std::pair<int, bool>, RankTraffic> traffic;
  for (const TableSharding& table : after.tables) {
    const std::string fqn = table.fqn();
    const auto old = old_of.find(fqn);
    const auto change = change_of.find(fqn);
    if (old == old_of.end() || change == change_of.end()) continue;
    std::vector<PlacedShard> needed = expand_shards(table);
    const bool was_replicated = old->second->sharding_type == ShardingType::kDataParallel;
    const std::vector<Fetch> fetches =
        was_replicated ? fetch_from_replicas(*old->second, needed, ranks_per_host)
                       : fetch_from_shards(*old->second, std::move(needed));
    const embedding::TableShape* shape = nullptr;
    if (shapes) {
      if (const auto found = shapes->find(fqn); found != shapes->end()) shape = &found->second;
    }
    for (const Fetch& fetch : fetches) {
      std::optional<Bytes> bytes;
      if (shape != nullptr) bytes = bytes_of(fetch.values, *shape);
      add(fetch.values, bytes, change->second->moved_values, change->second->moved_bytes);
      const bool is_between = fetch.from / ranks_per_host != fetch.to / ranks_per_host;
      RankTraffic& sender = traffic[{fetch.from, is_between}];
      add(fetch.values, bytes, sender.sent_values, sender.sent_bytes);
      RankTraffic& receiver = traffic[{fetch.to, is_between}];
      add(fetch.values, bytes, receiver.received_values, receiver.received_bytes);
    }
    if (shape != nullptr && !change->second->moved_bytes) change->second->moved_bytes = 0;
  }
  for (auto& [link, at] : traffic) {
    at.rank = link.first;
    at.is_between_hosts = link.second;
    if (at.sent_values + at.received_values > 0) difference.traffic.push_back(at);
  }
  return {};
}

}  // namespace plimsoll::study
