// Placements that the reference's own unit tests assert, and placements made by executing it
// (pytorch/torchrec a48cef79).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "embedding/option_set_builder.h"
#include "embedding/vectors.h"
#include "plimsoll/embedding/partitioner.h"
#include "plimsoll/embedding/perf_model.h"

namespace plimsoll::embedding::partitioner_vectors {
namespace {

using ::testing::ElementsAre;
using Ranks = std::vector<std::vector<int>>;  // table by table, shard by shard

constexpr auto kTW = ShardingType::kTableWise;
constexpr auto kCW = ShardingType::kColumnWise;
constexpr auto kRW = ShardingType::kRowWise;
constexpr auto kTWRW = ShardingType::kTableRowWise;
constexpr auto kTWCW = ShardingType::kTableColumnWise;
constexpr auto kGrid = ShardingType::kGridShard;

const CostModel& reference() {
  static const CostModel kModel = cost_model_named("torchrec-ref");
  return kModel;
}

Topology ranks_with(int world_size, int local_world_size, Bytes hbm, Bytes ddr) {
  TopologySpec spec = cluster(world_size, local_world_size);
  spec.hbm_cap = hbm;
  spec.ddr_cap = ddr;
  return build(spec, reference());
}

// Ranks of every table; of uniform options none are recorded. Empty if the partitioner fails.
Ranks place(Partitioner& partitioner, const OptionSet& options, const Topology& topology,
            PlacedProposal* placed = nullptr) {
  PlacedProposal plan;
  if (partitioner.partition(options, first_options(options), topology, plan)) return {};
  Ranks result;
  for (std::size_t i = 0; i < plan.options.size(); ++i) {
    result.emplace_back(plan.ranks.begin() + plan.first_rank[i],
                        plan.ranks.begin() + plan.first_rank[i + 1]);
  }
  if (placed != nullptr) *placed = plan;
  return result;
}

Ranks place_greedily(const OptionSet& options, const Topology& topology,
                     const GreedyPerfOptions& greedy = {}) {
  return place(*make_greedy_perf_partitioner(reference(), greedy), options, topology);
}

std::vector<int> range(int first, int last) {
  std::vector<int> ranks;
  for (int rank = first; rank <= last; ++rank) ranks.push_back(rank);
  return ranks;
}

const Topology& pair() {
  static const Topology kPair = build(cluster(2, 2), reference());
  return kPair;
}
const Topology& two_hosts() {
  static const Topology kHosts = build(cluster(16, 8), reference());
  return kHosts;
}

constexpr Storage kThousand = {1000, 1000, 0};

TEST(PartitionerVectors, TableWiseGoesToTheLeastLoadedRank) {
  OptionSetBuilder equal(2, 2);
  for (const char* name : {"t0", "t1", "t2", "t3"})
    equal.table(name).option(kTW, 1, kThousand, 100);
  EXPECT_EQ(place_greedily(equal.set(), pair()), (Ranks{{0}, {1}, {0}, {1}}));

  OptionSetBuilder one_heavy(2, 2);
  one_heavy.table("t0").option(kTW, 1, kThousand, 300);
  for (const char* name : {"t1", "t2", "t3"}) one_heavy.table(name).option(kTW, 1, kThousand, 100);
  EXPECT_EQ(place_greedily(one_heavy.set(), pair()), (Ranks{{0}, {1}, {1}, {1}}));
}

TEST(PartitionerVectors, TableRowWiseTakesWholeHosts) {
  OptionSetBuilder builder(16, 8);
  for (const char* name : {"t0", "t1", "t2", "t3"}) {
    builder.table(name).option(kTWRW, 8, kThousand, 100);
  }
  EXPECT_EQ(place_greedily(builder.set(), two_hosts()),
            (Ranks{range(0, 7), range(8, 15), range(0, 7), range(8, 15)}));
}

TEST(PartitionerVectors, TableColumnWiseStaysWithinAHost) {
  OptionSetBuilder builder(16, 8);
  int i = 0;
  for (const int shards : {10, 4, 12, 10}) {
    builder.table("t" + std::to_string(i++)).option(kTWCW, shards, kThousand, 100);
  }
  EXPECT_EQ(place_greedily(builder.set(), two_hosts()),
            (Ranks{{8, 9, 10, 11, 12, 13, 14, 15, 8, 9},
                   {4, 5, 6, 7},
                   {0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3},
                   {10, 11, 12, 13, 14, 15, 8, 9, 10, 11}}));
}

TEST(PartitionerVectors, HostOptionsMixAndDependenciesShareAHost) {
  for (const bool is_tower : {false, true}) {
    SCOPED_TRACE(is_tower);
    const std::string tower = is_tower ? "host" : "";
    OptionSetBuilder builder(16, 8);
    builder.table("t0", "m", tower).option(kTWRW, 8, kThousand, 100);
    builder.table("t1", "m", tower).option(kTWCW, 5, kThousand, 100);
    builder.table("t2", "m", tower).option(kTWCW, 6, kThousand, 100);
    builder.table("t3").option(kTWRW, 8, kThousand, 100);
    const Ranks apart = {range(0, 7), range(8, 12), range(0, 5), range(8, 15)};
    const Ranks together = {range(0, 7), range(0, 4), {5, 6, 7, 0, 1, 2}, range(8, 15)};
    EXPECT_EQ(place_greedily(builder.set(), two_hosts()), is_tower ? together : apart);
  }
}

// Four tables of half a rank each that must share a host of one rank.
TEST(PartitionerVectors, AGroupThatFitsOnNoHostIsAFailure) {
  const Topology topology = build(cluster(2, 1), reference());
  const Storage half = {topology.devices[0].hbm / 2, topology.devices[0].ddr / 2, 0};
  OptionSetBuilder builder(2, 1);
  for (const char* name : {"t0", "t1", "t2", "t3"}) {
    builder.table(name, "m", "host").option(kTWRW, 1, half, 100);
  }
  PlacedProposal plan;
  const auto failure = make_greedy_perf_partitioner(reference())
                           ->partition(builder.set(), first_options(builder.set()), topology, plan);
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->reason, PartitionFailure::Reason::kNoHostForGroup);
  const Error error = describe(*failure, reference(), builder.set());
  EXPECT_EQ(error.code, ErrorCode::kPlanner);
  EXPECT_EQ(error.kind, "partition");
}

TEST(PartitionerVectors, BalancedModulesPutSmallModulesFirst) {
  OptionSetBuilder builder(2, 2);
  for (const char* name : {"w0", "w1", "w2"})
    builder.table(name, "w").option(kTW, 1, kThousand, 100);
  builder.table("t0", "e").option(kTW, 1, kThousand, 100);
  GreedyPerfOptions greedy;
  EXPECT_EQ(place_greedily(builder.set(), pair(), greedy), (Ranks{{0}, {1}, {0}, {1}}));
  greedy.balance_modules = true;
  EXPECT_EQ(place_greedily(builder.set(), pair(), greedy), (Ranks{{1}, {0}, {1}, {0}}));
}

// Three hosts of two ranks, ten bytes of either tier each.
TEST(PartitionerVectors, GridsTakeHostsInARow) {
  const Topology topology = ranks_with(6, 2, 10, 10);
  OptionSetBuilder small(6, 2);
  small.table("a").option(kTW, 1, {1, 0, 0}, 5).table("g").option(kGrid, 4, {1, 1, 0}, 1);
  EXPECT_EQ(place_greedily(small.set(), topology), (Ranks{{4}, {0, 1, 2, 3}}));

  OptionSetBuilder large(6, 2);
  large.table("a").option(kTW, 1, {9, 0, 0}, 5).table("g").option(kGrid, 4, {2, 1, 0}, 1);
  EXPECT_EQ(place_greedily(large.set(), topology), (Ranks{{0}, {2, 3, 4, 5}}));

  OptionSetBuilder cyclic(6, 2);
  cyclic.table("g").option(kGrid, 8, {1, 1, 0}, 1);
  EXPECT_EQ(place_greedily(cyclic.set(), topology), (Ranks{{0, 1, 2, 3, 4, 5, 0, 1}}));
}

TEST(PartitionerVectors, UniformOptionsComeFirst) {
  OptionSetBuilder builder(6, 2);
  builder.table("a").option(kTW, 1, {3, 0, 0}, 5);
  builder.table("b").option(kTW, 1, {3, 0, 0}, 4);
  builder.table("c").option(kCW, 4, {1, 0, 0}, 3);
  builder.table("u").option(kRW, 6, {2, 1, 0}, 1);
  EXPECT_EQ(place_greedily(builder.set(), ranks_with(6, 2, 10, 10)),
            (Ranks{{3}, {5}, {0, 2, 4, 1}, {}}));
}

TEST(PartitionerVectors, GroupsOfHostsAreOrderedByTheirSums) {
  OptionSetBuilder builder(6, 2);
  builder.table("x").option(kTWRW, 2, {3, 1, 0}, 4);
  builder.table("y").option(kTWCW, 3, {2, 1, 0}, 1);
  builder.table("z", "m", "tw").option(kTWRW, 2, {3, 0, 0}, 4);
  builder.table("w", "m", "tw").option(kTWCW, 2, {2, 0, 0}, 1);
  EXPECT_EQ(place_greedily(builder.set(), ranks_with(6, 2, 10, 10)),
            (Ranks{{4, 5}, {2, 3, 2}, {0, 1}, {0, 1}}));
}

TEST(PartitionerVectors, UniformOptionsNeedAShardForEveryRank) {
  OptionSetBuilder builder(6, 2);
  builder.table("u").option(kRW, 4, {1, 1, 0}, 1);
  PlacedProposal plan;
  const auto failure = make_greedy_perf_partitioner(reference())
                           ->partition(builder.set(), {0}, ranks_with(6, 2, 10, 10), plan);
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->reason, PartitionFailure::Reason::kUniformShardCount);
}

TEST(PartitionerVectors, GridsMustFillHosts) {
  OptionSetBuilder builder(4, 2);
  builder.table("g").option(kGrid, 4, {1, 1, 0}, 1);
  PlacedProposal plan;
  const auto failure = make_greedy_perf_partitioner(reference())
                           ->partition(builder.set(), {0}, ranks_with(12, 3, 10, 10), plan);
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->reason, PartitionFailure::Reason::kGridShardCount);
}

// From release 1.5 on the column shards of a key_value table lie on ranks of their own.
TEST(PartitionerVectors, KeyValueColumnsTakeDistinctRanks) {
  for (const std::string_view release : kReleases) {
    SCOPED_TRACE(release);
    const CostModel cost_model = cost_model_named(release);
    const auto partitioner = make_greedy_perf_partitioner(cost_model);
    OptionSetBuilder builder(4, 2);
    builder.table("big").option(kTW, 1, {100, 0, 0}, 10);
    builder.table("kv").option(kCW, 4, {1, 0, 0}, 1, ComputeKernel::kKeyValue);
    const Ranks ranks = place(*partitioner, builder.set(), build(cluster(4, 2), cost_model));
    EXPECT_EQ(ranks, (cost_model.key_value_columns_on_distinct_ranks ? Ranks{{0}, {2, 1, 3, 0}}
                                                                     : Ranks{{0}, {2, 1, 3, 2}}));

    OptionSetBuilder wide(4, 2);
    wide.table("kv").option(kCW, 8, {1, 0, 0}, 1, ComputeKernel::kKeyValue);
    PlacedProposal plan;
    const Topology topology = build(cluster(4, 2), cost_model);
    const auto failure = partitioner->partition(wide.set(), {0}, topology, plan);
    EXPECT_EQ(failure.has_value(), cost_model.key_value_columns_on_distinct_ranks);
    if (failure) {
      EXPECT_EQ(describe(*failure, cost_model, wide.set()).message,
                "COLUMN_WISE sharding requires num_shards (8) <= num_devices (4)");
    }
  }
}

// ---------------------------------------------------------------------------------------------

struct SizedTable {
  Bytes mebibytes;
  double perf;
};

OptionSet sized_tables(std::initializer_list<SizedTable> tables) {
  OptionSetBuilder builder(2, 2);
  int i = 0;
  for (const SizedTable& table : tables) {
    builder.table("t" + std::to_string(i++))
        .option(kTW, 1, {table.mebibytes * kMiB, 0, 0}, table.perf);
  }
  return builder.set();
}

// Ranks of tables with one shard each, megabytes and milliseconds by rank.
struct Balance {
  std::vector<int> ranks;
  std::vector<Bytes> mebibytes;
  std::vector<double> perf;
  bool operator==(const Balance&) const = default;
};
void PrintTo(const Balance& balance, std::ostream* out) {
  *out << ::testing::PrintToString(balance.ranks) << ::testing::PrintToString(balance.mebibytes)
       << ::testing::PrintToString(balance.perf);
}

Balance balance(Partitioner& partitioner, const OptionSet& options, Bytes cap) {
  PlacedProposal plan;
  Balance result;
  for (const auto& ranks : place(partitioner, options, ranks_with(2, 2, cap, 0), &plan)) {
    result.ranks.push_back(ranks.front());
  }
  for (const Storage& storage : rank_storage(options, plan)) {
    result.mebibytes.push_back(storage.hbm / kMiB);
  }
  result.perf = rank_perf(options, plan);
  return result;
}

TEST(PartitionerVectors, MemoryBalancedTradesPerfForMemory) {
  const auto greedy = make_greedy_perf_partitioner(reference(), {.sort_by = SortBy::kPerf});
  MemoryBalancedOptions within;
  within.tolerance = 0.1;
  const auto balanced = make_memory_balanced_partitioner(reference(), within);

  OptionSet tables =
      sized_tables({{1000, 17}, {1200, 23}, {1300, 34}, {50, 30}, {1250, 16}, {1050, 4}});
  EXPECT_EQ(balance(*greedy, tables, 4000 * kMiB),
            (Balance{{0, 1, 0, 1, 0, 1}, {3550, 2300}, {67, 57}}));
  EXPECT_EQ(balance(*balanced, tables, 4000 * kMiB),
            (Balance{{0, 1, 0, 1, 1, 0}, {3350, 2500}, {55, 69}}));

  tables = sized_tables({{1450, 11}, {200, 24}, {800, 16}, {650, 35}, {200, 37}, {400, 1}});
  EXPECT_EQ(balance(*greedy, tables, 4000 * kMiB),
            (Balance{{0, 1, 0, 1, 0, 1}, {2450, 1250}, {64, 60}}));
  EXPECT_EQ(balance(*balanced, tables, 4000 * kMiB),
            (Balance{{1, 1, 0, 1, 0, 0}, {1400, 2300}, {54, 70}}));
}

TEST(PartitionerVectors, MemoryBalancedKeepsWhatCannotBeBetter) {
  MemoryBalancedOptions anything;
  anything.tolerance = 100;
  const OptionSet tables = sized_tables({{1500, 40}, {1000, 80}, {500, 120}});
  const auto greedy = make_greedy_perf_partitioner(reference());
  const auto balanced = make_memory_balanced_partitioner(reference(), anything);
  EXPECT_THAT(balance(*greedy, tables, 2000 * kMiB).ranks, ElementsAre(0, 1, 0));
  EXPECT_THAT(balance(*balanced, tables, 2000 * kMiB).ranks, ElementsAre(0, 1, 0));
}

// The largest sum over a rank, of milliseconds or of bytes.
TEST(PartitionerVectors, PlansAreRatedByTheirSlowestRank) {
  OptionSetBuilder builder(2, 2);
  builder.table("a").option(kTW, 1, {100, 0, 0}, 2).table("b").option(kTW, 1, {200, 0, 0}, 1);
  PlacedProposal plan;
  place(*make_greedy_perf_partitioner(reference()), builder.set(), pair(), &plan);
  EXPECT_EQ(rate(PerfModelKind::kPerf, builder.set(), plan), 2);
  EXPECT_EQ(rate(PerfModelKind::kStorage, builder.set(), plan), 200);
}

}  // namespace
}  // namespace plimsoll::embedding::partitioner_vectors
