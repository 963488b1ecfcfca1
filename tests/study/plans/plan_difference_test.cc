#include "plimsoll/study/plan_difference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll::study {
namespace {

using embedding::ShardingPlan;
using embedding::ShardingType;
using embedding::ShardSizeRun;
using embedding::TableSharding;

constexpr int kRanks = 6, kRanksPerHost = 2;

// A table of that size under a random cut, on random ranks.
TableSharding random_table(std::int64_t rows, std::int64_t columns, std::mt19937_64& random) {
  const auto below = [&random](std::uint64_t n) { return static_cast<std::int32_t>(random() % n); };
  TableSharding table;
  table.table = "t";
  switch (below(3)) {
    case 0: {
      table.sharding_type = ShardingType::kDataParallel;
      table.ranks = {{0, kRanks}};
      table.shards = {{kRanks, rows, columns, 0, 0, 0}};
      break;
    }
    case 1: {
      table.sharding_type = ShardingType::kRowWise;
      for (std::int64_t row = 0; row < rows;) {
        const std::int64_t count = std::min<std::int64_t>(1 + below(4), rows - row);
        table.shards.push_back({1, count, columns, row, 0, 0});
        table.ranks.push_back({below(kRanks), 1});
        row += count;
      }
      break;
    }
    default: {
      table.sharding_type = ShardingType::kColumnWise;
      for (std::int64_t column = 0; column < columns;) {
        const std::int64_t count = std::min<std::int64_t>(1 + below(3), columns - column);
        table.shards.push_back({1, rows, count, 0, column, 0});
        table.ranks.push_back({below(kRanks), 1});
        column += count;
      }
    }
  }
  return table;
}

ShardingAnswer answer_of(TableSharding table) {
  ShardingAnswer answer;
  answer.plan =
      ShardingPlan{kRanks, kRanksPerHost, topology::ComputeDevice::kCuda, {std::move(table)}};
  return answer;
}

// The ranks that hold each cell.
using Cells = std::map<std::pair<std::int64_t, std::int64_t>, std::set<int>>;
Cells cells_of(const TableSharding& table) {
  Cells cells;
  for (const embedding::PlacedShard& shard : expand_shards(table)) {
    for (std::int64_t r = shard.row; r < shard.row + shard.rows; ++r) {
      for (std::int64_t c = shard.column; c < shard.column + shard.columns; ++c) {
        cells[{r, c}].insert(shard.rank);
      }
    }
  }
  return cells;
}

// Cell by cell: what a rank does not hold it fetches from its own host where it can, of several
// ranks from the lowest.
TEST(PlanDifference, MovesWhatCellsSay) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const std::int64_t rows = 1 + static_cast<std::int64_t>(random() % 12);
    const std::int64_t columns = 1 + static_cast<std::int64_t>(random() % 8);
    const TableSharding before = random_table(rows, columns, random);
    const TableSharding after = random_table(rows, columns, random);
    std::map<std::pair<int, bool>, std::pair<std::int64_t, std::int64_t>> expected;
    std::int64_t moved = 0;
    const Cells held = cells_of(before);
    for (const auto& [cell, ranks] : cells_of(after)) {
      const std::set<int>& holders = held.at(cell);
      for (const int rank : ranks) {
        if (holders.contains(rank)) continue;
        int source = *holders.begin();
        for (const int holder : holders) {
          if (holder / kRanksPerHost != rank / kRanksPerHost) continue;
          source = holder;
          break;
        }
        const bool is_between = source / kRanksPerHost != rank / kRanksPerHost;
        ++expected[{source, is_between}].first;
        ++expected[{rank, is_between}].second;
        ++moved;
      }
    }
    const auto difference = compare_plans(answer_of(before), answer_of(after), nullptr);
    ASSERT_TRUE(difference) << format_error(difference.error());
    std::map<std::pair<int, bool>, std::pair<std::int64_t, std::int64_t>> found;
    for (const RankTraffic& traffic : difference->traffic) {
      found[{traffic.rank, traffic.is_between_hosts}] = {traffic.sent_values,
                                                         traffic.received_values};
    }
    EXPECT_EQ(found, expected);
    if (moved > 0) {
      ASSERT_EQ(difference->changes.size(), 1u);
      EXPECT_EQ(difference->changes[0].moved_values, moved);
    }
  }
}

TEST(PlanDifference, IsNoneOfAPlanWithItself) {
  std::mt19937_64 random(1);
  const TableSharding table = random_table(9, 4, random);
  const auto difference = compare_plans(answer_of(table), answer_of(table), nullptr);
  ASSERT_TRUE(difference);
  EXPECT_FALSE(difference->is_different);
  EXPECT_TRUE(difference->changes.empty() && difference->traffic.empty() &&
              difference->reasons.empty());
}

// A bill of one cause, "fwd_compute", beside its total.
ShardingAnswer with_ms(TableSharding table, std::vector<double> ms) {
  ShardingAnswer answer = answer_of(std::move(table));
  answer.bill.ms["fwd_compute"] = ms;
  answer.bill.ms["total"] = std::move(ms);
  return answer;
}

TEST(PlanDifference, GivesReasonsForTheFiveLargest) {
  TableSharding table;
  table.table = "t";
  table.ranks = {{0, 1}};
  table.shards = {{1, 4, 4, 0, 0, 0}};
  TableSharding moved = table;
  moved.ranks = {{5, 1}};
  const auto difference = compare_plans(with_ms(table, {6, 1, 1, 1, 1, 0}),
                                        with_ms(moved, {0, 1.5, 1.25, 1, 0.25, 7}), nullptr);
  ASSERT_TRUE(difference);
  std::vector<std::string> places;
  for (const DifferenceReason& reason : difference->reasons) places.push_back(reason.place);
  EXPECT_EQ(places, (std::vector<std::string>{"rank 5", "rank 0", "rank 4", "rank 1", "rank 2"}));
  EXPECT_EQ(difference->reasons[0].parts, (std::vector<std::string>{".t"}));
  EXPECT_EQ(difference->reasons[1].parts, (std::vector<std::string>{".t"}));
  EXPECT_TRUE(difference->reasons[2].parts.empty());
  EXPECT_EQ(difference->reasons[0].causes, (std::vector<FigureChange>{{"fwd_compute", 0.0, 7.0}}));
}

TEST(PlanDifference, RefusesPlansOfTwoKinds) {
  TableSharding table;
  table.table = "t";
  const auto sharding = outline_plan(answer_of(table));
  ASSERT_TRUE(sharding);
  PlanOutline other = *sharding;
  other.kind = PlanKind::kPlacement;
  const auto difference = compare_plans(*sharding, other);
  ASSERT_FALSE(difference);
  EXPECT_EQ(difference.error().code, ErrorCode::kUsage);
}

}  // namespace
}  // namespace plimsoll::study
