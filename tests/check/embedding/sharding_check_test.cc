#include "plimsoll/check/sharding_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <ostream>
#include <set>

#include "check/toy_plan.h"

namespace plimsoll::check {

void PrintTo(const Finding& finding, std::ostream* out) {
  *out << to_text(finding) << " (expected " << finding.expected << ", found " << finding.found
       << ")";
}

namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using topology::ComputeDevice;
using enum ShardingType;
using enum ComputeKernel;

MATCHER_P3(FindingAt, code, table, rank, "") {
  return arg.code == code && arg.place == table && arg.unit == find_unit(FindingUnit::kRank, rank);
}
constexpr auto kNoRank = std::nullopt;

ShardingReport judge(const Toy& toy) {
  auto report = toy.try_check();
  if (!report) {
    ADD_FAILURE() << format_error(report.error());
    return {};
  }
  return *std::move(report);
}

// 10 x 8 on 4 ranks in hosts of 2, cut by rows: 3, 3, 3, 1.
std::vector<ToyShard> rows_of_ten() {
  return {{3, 8, 0, 0, 0}, {3, 8, 3, 0, 1}, {3, 8, 6, 0, 2}, {1, 8, 9, 0, 3}};
}

Toy row_wise_toy() {
  Toy toy(4, 2);
  toy.add_module("ebc");
  toy.add_table("t", 10, 8);
  toy.place("t", kRowWise, kFused, rows_of_ten());
  return toy;
}

Toy table_wise_toy() {
  Toy toy(4, 2);
  toy.add_module("ebc");
  toy.add_table("t", 10, 8);
  toy.place("t", kTableWise, kFused, {{10, 8, 0, 0, 2}});
  return toy;
}

Toy column_wise_toy() {
  Toy toy(4, 2);
  toy.add_module("ebc");
  toy.add_table("t", 10, 16);
  toy.place("t", kColumnWise, kFused, {{10, 8, 0, 0, 1}, {10, 8, 0, 8, 3}});
  return toy;
}

//            host 0   host 1
//  rank      0   1    2   3
//  columns   0..8     8..16      rows 5 + 5
Toy grid_toy() {
  Toy toy(4, 2);
  toy.add_module("ebc");
  toy.add_table("t", 10, 16);
  toy.place("t", kGridShard, kFused,
            {{5, 8, 0, 0, 0}, {5, 8, 5, 0, 1}, {5, 8, 0, 8, 2}, {5, 8, 5, 8, 3}});
  return toy;
}

Toy data_parallel_toy() {
  Toy toy(4, 2);
  toy.add_module("ebc");
  toy.add_table("t", 10, 8);
  toy.place("t", kDataParallel, kDense,
            {{10, 8, 0, 0, 0}, {10, 8, 0, 0, 1}, {10, 8, 0, 0, 2}, {10, 8, 0, 0, 3}});
  return toy;
}

// Two tables of one tower on host 1.
Toy tower_toy() {
  Toy toy(4, 2);
  toy.add_module("tower", ModuleKind::kEmbeddingTower);
  toy.add_table("a", 10, 8);
  toy.add_table("b", 10, 8);
  toy.place("a", kTableRowWise, kFused, {{5, 8, 0, 0, 2}, {5, 8, 5, 0, 3}});
  toy.place("b", kTableColumnWise, kFused, {{10, 4, 0, 0, 3}, {10, 4, 0, 4, 2}});
  return toy;
}

void expect_clean(const Toy& toy) {
  const ShardingReport report = judge(toy);
  EXPECT_THAT(report.violations(), IsEmpty());
  EXPECT_THAT(report.hazards(), IsEmpty());
  EXPECT_TRUE(report.is_right());
}

TEST(ShardingCheck, AcceptsEverySimplePlan) {
  for (const Toy& toy : {row_wise_toy(), table_wise_toy(), column_wise_toy(), grid_toy(),
                         data_parallel_toy(), tower_toy()}) {
    expect_clean(toy);
  }
}

TEST(ShardingCheck, AcceptsTheEmptyPlanOfAnEmptyModel) {
  const ShardingReport report = judge(Toy(2, 2));
  EXPECT_TRUE(report.is_right());
  EXPECT_EQ(report.rating, 0);
  EXPECT_EQ(report.used.size(), 2U);
}

TEST(ShardingCheck, NamesEveryCodeOnce) {
  std::set<std::string> names;
  for (int code = 0; code <= static_cast<int>(FindingCode::kMoveMismatch); ++code) {
    EXPECT_TRUE(names.emplace(to_string(static_cast<FindingCode>(code))).second) << code;
  }
  EXPECT_FALSE(names.contains(""));
}

// Errors: bad arguments, not bad plans.

TEST(ShardingCheck, RefusesAnInvalidModel) {
  Toy toy = table_wise_toy();
  toy.model.modules[0].tables[0].embedding_dim = 0;
  EXPECT_FALSE(toy.try_check());
}

TEST(ShardingCheck, RefusesDevicesThatAreNotOneARank) {
  Toy toy = table_wise_toy();
  toy.topology.devices.pop_back();
  EXPECT_EQ(toy.try_check().error().code, ErrorCode::kValue);
}

TEST(ShardingCheck, RefusesANegativeBatch) {
  Toy toy = table_wise_toy();
  toy.options.batch_size = -1;
  EXPECT_EQ(toy.try_check().error().code, ErrorCode::kValue);
}

TEST(ShardingCheck, RefusesAReservationThatTheReleaseHasNot) {
  Toy toy = table_wise_toy();
  toy.cost_model = *embedding::find_cost_model("torchrec-1.4");
  toy.options.reservation.kind = embedding::ReservationKind::kSkuAware;
  EXPECT_FALSE(toy.try_check());
}

// Which tables.

TEST(ShardingCheck, FindsAPlanForAnotherMachine) {
  Toy toy = table_wise_toy();
  toy.plan.world_size = 8;
  toy.plan.local_world_size = 8;
  toy.plan.compute_device = ComputeDevice::kCpu;
  EXPECT_THAT(judge(toy).violations(),
              ElementsAre(FindingAt(FindingCode::kWrongMachine, "", kNoRank),
                          FindingAt(FindingCode::kWrongMachine, "", kNoRank),
                          FindingAt(FindingCode::kWrongMachine, "", kNoRank)));
}

TEST(ShardingCheck, FindsUnknownMissingAndDuplicateTables) {
  Toy toy = table_wise_toy();
  toy.add_table("forgotten", 10, 8);
  toy.plan.tables.push_back(toy.plan.tables[0]);
  toy.plan.tables.push_back(toy.plan.tables[0]);
  toy.plan.tables.back().table = "stranger";
  EXPECT_THAT(judge(toy).violations(),
              ElementsAre(FindingAt(FindingCode::kDuplicateTable, "ebc.t", kNoRank),
                          FindingAt(FindingCode::kUnknownTable, "ebc.stranger", kNoRank),
                          FindingAt(FindingCode::kMissingTable, "ebc.forgotten", kNoRank)));
}

TEST(ShardingCheck, FindsAMissingModuleWhereTheReleaseLooksForIt) {
  Toy toy = table_wise_toy();
  toy.add_module("sparse.lost");
  toy.add_table("u", 10, 8);
  EXPECT_THAT(judge(toy).violations(),
              ElementsAre(FindingAt(FindingCode::kMissingTable, "sparse.lost.u", kNoRank),
                          FindingAt(FindingCode::kMissingModule, "sparse.lost", kNoRank)));
  toy.cost_model = *embedding::find_cost_model("torchrec-1.4");
  EXPECT_THAT(judge(toy).violations(),
              ElementsAre(FindingAt(FindingCode::kMissingTable, "sparse.lost.u", kNoRank)));
}

TEST(ShardingCheck, LeavesTablesOfAnotherDeviceGroupOut) {
  Toy toy = table_wise_toy();
  toy.add_table("host", 10, 8);
  toy.model.constraints["host"].device_group = "cpu";
  expect_clean(toy);

  toy.place("host", kTableWise, kFused, {{10, 8, 0, 0, 0}});
  EXPECT_THAT(judge(toy).violations(),
              ElementsAre(FindingAt(FindingCode::kWrongDeviceGroup, "ebc.host", kNoRank)));
}

// Types and kernels.

TEST(ShardingCheck, FindsATypeThatTheSharderHasNot) {
  Toy toy(4, 2);
  toy.add_module("ec", ModuleKind::kEmbeddingCollection);
  toy.add_table("t", 10, 8);
  toy.place("t", kTableRowWise, kFused, {{5, 8, 0, 0, 0}, {5, 8, 5, 0, 1}});
  EXPECT_THAT(judge(toy).violations(),
              ElementsAre(FindingAt(FindingCode::kTypeNotAllowed, "ec.t", kNoRank)));
}

TEST(ShardingCheck, FindsATypeThatTheConstraintForbids) {
  Toy toy = table_wise_toy();
  toy.model.constraints["t"].sharding_types = {kRowWise, kColumnWise};
  const ShardingReport report = judge(toy);
  ASSERT_THAT(report.violations(),
              ElementsAre(FindingAt(FindingCode::kTypeNotAllowed, "ebc.t", kNoRank)));
  EXPECT_EQ(report.violations()[0].expected, "row_wise, column_wise");
  EXPECT_EQ(report.violations()[0].found, "table_wise");
}

TEST(ShardingCheck, FindsAKernelThatTheSharderHasNot) {
  Toy toy = table_wise_toy();
  toy.plan.tables[0].compute_kernel = kQuant;
  EXPECT_THAT(judge(toy).violations(),
              ElementsAre(FindingAt(FindingCode::kKernelNotAllowed, "ebc.t", kNoRank)));
  toy = data_parallel_toy();
  toy.plan.tables[0].compute_kernel = kFused;
  EXPECT_THAT(judge(toy).violations(),
              ElementsAre(FindingAt(FindingCode::kKernelNotAllowed, "ebc.t", kNoRank)));
}

TEST(ShardingCheck, FindsAKernelThatTheConstraintForbids) {
  Toy toy = table_wise_toy();
  toy.model.constraints["t"].compute_kernels = {kFusedUvm};
  EXPECT_THAT(judge(toy).violations(),
              ElementsAre(FindingAt(FindingCode::kKernelNotAllowed, "ebc.t", kNoRank)));
}

TEST(ShardingCheck, FindsKeyValueWithoutSsd) {
  Toy toy = table_wise_toy();
  toy.plan.tables[0].compute_kernel = kKeyValue;
  expect_clean(toy);
  for (auto& cap : toy.topology.devices) cap.ssd = 0;
  EXPECT_THAT(judge(toy).violations(),
              ElementsAre(FindingAt(FindingCode::kKernelNotAllowed, "ebc.t", kNoRank),
                          FindingAt(FindingCode::kOverCapacity, "", 2)));
}

TEST(ShardingCheck, FindsDenseOffDataParallel) {
  Toy toy = table_wise_toy();
  toy.plan.tables[0].compute_kernel = kDense;
  EXPECT_THAT(judge(toy).violations(),
              ElementsAre(FindingAt(FindingCode::kDenseOffDataParallel, "ebc.t", kNoRank)));
}

TEST(ShardingCheck, HoldsAPlanToWhatTheConstraintPassesOn) {
  Toy toy = table_wise_toy();
  embedding::ParameterConstraints& wanted = toy.options.fqn_constraints["ebc.t"];
  embedding::TableSharding& stated = toy.plan.tables[0];
  wanted.enforce_hbm = stated.enforce_hbm = true;
  wanted.stochastic_rounding = stated.stochastic_rounding = false;
  wanted.bounds_check_mode = stated.bounds_check_mode = embedding::BoundsCheckMode::kFatal;
  wanted.output_dtype = stated.output_dtype = embedding::DataType::kBf16;
  wanted.cache_params.emplace().multipass_num_passes = 2;
  stated.cache_params = wanted.cache_params;
  stated.cache_params->load_factor = 0.25;  // the planner's own choice
  wanted.key_value_params.emplace().l2_cache_size = 3;
  stated.key_value_params = wanted.key_value_params;
  using Change = std::function<void(embedding::TableSharding&)>;
  struct Case {
    Change change, leave_out;
    bool is_held_alone;  // where a plan need not say everything
  };
  const Case cases[] = {
      {[](auto& s) { s.enforce_hbm = false; }, [](auto& s) { s.enforce_hbm.reset(); }, true},
      {[](auto& s) { s.stochastic_rounding = true; },
       [](auto& s) { s.stochastic_rounding.reset(); }, true},
      {[](auto& s) { s.bounds_check_mode = embedding::BoundsCheckMode::kNone; },
       [](auto& s) { s.bounds_check_mode.reset(); }, true},
      {[](auto& s) { s.output_dtype = embedding::DataType::kFp16; },
       [](auto& s) { s.output_dtype.reset(); }, true},
      {[](auto& s) { s.cache_params->multipass_num_passes = 3; },
       [](auto& s) { s.cache_params.reset(); }, false},
      {[](auto& s) { s.key_value_params->l2_cache_size = 4; },
       [](auto& s) { s.key_value_params.reset(); }, false}};
  const auto refused = ElementsAre(FindingAt(FindingCode::kNotPassedOn, "ebc.t", kNoRank));
  for (const bool is_whole : {false, true}) {
    toy.options.is_whole = is_whole;
    const embedding::TableSharding genuine = toy.plan.tables[0];
    expect_clean(toy);
    for (const Case& c : cases) {
      c.change(toy.plan.tables[0]);
      EXPECT_EQ(judge(toy).is_right(), !is_whole && !c.is_held_alone);
      if (is_whole) {
        EXPECT_THAT(judge(toy).violations(), refused);
      }
      toy.plan.tables[0] = genuine;
      c.leave_out(toy.plan.tables[0]);
      EXPECT_EQ(judge(toy).is_right(), !is_whole);
      toy.plan.tables[0] = genuine;
    }
  }
  toy.options.fqn_constraints.clear();  // what no constraint says is no planner's to pass on
  EXPECT_THAT(judge(toy).violations(),
              testing::Each(FindingAt(FindingCode::kNotPassedOn, "ebc.t", kNoRank)));
  EXPECT_EQ(judge(toy).violations().size(), std::size(cases));
}

TEST(ShardingCheck, WantsLoadFactorsStrictlyInsideWhereTheReleaseDoes) {
  Toy toy = table_wise_toy();
  toy.plan.tables[0].compute_kernel = kFusedUvmCaching;
  auto& cache = toy.plan.tables[0].cache_params.emplace();
  expect_clean(toy);
  for (const double factor : {0.0, 1.0}) {
    cache.load_factor = factor;
    toy.cost_model = embedding::default_cost_model();
    EXPECT_THAT(judge(toy).violations(),
                ElementsAre(FindingAt(FindingCode::kLoadFactor, "ebc.t", kNoRank)));
    toy.cost_model = *embedding::find_cost_model("torchrec-1.4");
    expect_clean(toy);
  }
  for (const double factor : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()}) {
    cache.load_factor = factor;
    EXPECT_THAT(judge(toy).violations(),
                ElementsAre(FindingAt(FindingCode::kLoadFactor, "ebc.t", kNoRank)));
  }
  cache.load_factor = 0.5;
  toy.cost_model = embedding::default_cost_model();
  expect_clean(toy);
  cache.load_factor = 1.0;
  toy.plan.tables[0].compute_kernel = kFused;  // no cache to fill
  expect_clean(toy);
}

// Shards and cells.

TEST(ShardingCheck, FindsARankThatDoesNotExistAndWhatItLoses) {
  for (const int rank : {-1, 4, 1000}) {
    Toy toy = table_wise_toy();
    toy.plan.tables[0].ranks[0].first = rank;
    EXPECT_THAT(judge(toy).violations(),
                ElementsAre(FindingAt(FindingCode::kRankOutOfRange, "ebc.t", rank),
                            FindingAt(FindingCode::kNotCovered, "ebc.t", kNoRank)));
  }
}

TEST(ShardingCheck, CutsARunAtTheLastRank) {
  Toy toy = row_wise_toy();
  toy.plan.tables[0].ranks = {{1, 4}};  // ranks 1, 2, 3 and 4
  const ShardingReport report = judge(toy);
  ASSERT_THAT(report.violations(),
              ElementsAre(FindingAt(FindingCode::kRankOutOfRange, "ebc.t", 4),
                          FindingAt(FindingCode::kNotCovered, "ebc.t", kNoRank)));
  EXPECT_EQ(report.violations()[1].found, "rows [9, 10) of columns [0, 8)");
}

TEST(ShardingCheck, CutsARunAtTheFirstRank) {
  Toy toy = row_wise_toy();
  toy.plan.tables[0].ranks = {{-1, 4}};
  toy.plan.tables[0].shards = {{3, 3, 8, 0, 0, 3}, {1, 1, 8, 9, 0, 0}};
  const ShardingReport report = judge(toy);
  ASSERT_THAT(report.violations(),
              ElementsAre(FindingAt(FindingCode::kRankOutOfRange, "ebc.t", -1),
                          FindingAt(FindingCode::kNotCovered, "ebc.t", kNoRank)));
  EXPECT_EQ(report.violations()[1].found, "rows [0, 3) of columns [0, 8)");
}

TEST(ShardingCheck, FindsShardsOutsideTheirTable) {
  const std::vector<ToyShard> bad = {{11, 8, 0, 0, 2}, {10, 9, 0, 0, 2}, {10, 8, 1, 0, 2},
                                     {10, 8, 0, 1, 2}, {-1, 8, 0, 0, 2}, {10, 0, 0, 0, 2},
                                     {5, 8, -5, 0, 2}, {5, 4, 0, -4, 2}};
  for (const ToyShard& shard : bad) {
    Toy toy = table_wise_toy();
    set_shards(toy.plan.tables[0], {shard});
    EXPECT_THAT(judge(toy).violations(),
                ElementsAre(FindingAt(FindingCode::kShardOutOfTable, "ebc.t", 2)));
  }
}

TEST(ShardingCheck, FindsTheShardsOfARunThatLieOutside) {
  Toy toy = row_wise_toy();
  toy.plan.tables[0].ranks = {{0, 4}};
  toy.plan.tables[0].shards = {{4, 3, 8, 0, 0, 3}};  // the last one: rows 9..12 of 10
  EXPECT_THAT(judge(toy).violations(),
              ElementsAre(FindingAt(FindingCode::kShardOutOfTable, "ebc.t", 3)));
}

TEST(ShardingCheck, SurvivesHostileNumbers) {
  constexpr auto kHuge = std::numeric_limits<std::int64_t>::max();
  Toy toy = row_wise_toy();
  auto& sharding = toy.plan.tables[0];
  const embedding::ShardSizeRun runs[] = {{4, kHuge, 8, kHuge, 0, kHuge},
                                          {4, 3, 8, 0, 0, -kHuge},
                                          {4, 3, kHuge, 0, kHuge, 3},
                                          {kHuge, 0, 8, 0, 0, 0}};
  for (const auto& run : runs) {
    sharding.shards = {run};
    EXPECT_FALSE(judge(toy).is_right());
  }
  sharding.shards = {{1 << 30, 1, 8, 0, 0, 0}};
  sharding.ranks = {{0, 1 << 30}};
  EXPECT_FALSE(judge(toy).is_right());
  sharding.shards = {{-1, 1, 8, 0, 0, 0}};
  sharding.ranks = {{0, -1}};
  EXPECT_FALSE(judge(toy).is_right());
  sharding.shards = {{kHuge, 1, 8, 0, 0, 0}, {kHuge, 1, 8, 0, 0, 0}};
  EXPECT_FALSE(judge(toy).is_right());
}

//  row  0  1  2  3  4  5  6  7  8  9
//       0  0  0  1  1  .  2  2  2  3        row 5 lost
TEST(ShardingCheck, FindsAGap) {
  Toy toy = row_wise_toy();
  toy.plan.tables[0].shards[1].rows = 2;
  const ShardingReport report = judge(toy);
  ASSERT_THAT(report.violations(),
              ElementsAre(FindingAt(FindingCode::kNotCovered, "ebc.t", kNoRank)));
  EXPECT_EQ(report.violations()[0].found, "rows [5, 6) of columns [0, 8)");
  EXPECT_THAT(report.hazards(), IsEmpty());  // uneven, but that is not the trouble
}

//  row  0  1  2  3  4  5  6  7  8  9
//       0  0  0  1  1  1  2  2  2  3
//                         1                 row 6 twice
TEST(ShardingCheck, FindsAnOverlap) {
  Toy toy = row_wise_toy();
  toy.plan.tables[0].shards[1].rows = 4;
  const ShardingReport report = judge(toy);
  ASSERT_THAT(report.violations(), ElementsAre(FindingAt(FindingCode::kCoveredTwice, "ebc.t", 2)));
  EXPECT_EQ(report.violations()[0].found, "rows [6, 7) of columns [0, 8)");
  EXPECT_THAT(report.violations()[0].message, testing::HasSubstr("rank 1"));
}

//  row  0  1  2  3  4  5  6  7  8  9
//       1  1  1  1  1  1  1  1  1  1
//             3  3                          no gap behind it
TEST(ShardingCheck, FindsAShardInsideAnother) {
  Toy toy = table_wise_toy();
  toy.plan.tables[0].sharding_type = kColumnWise;
  set_shards(toy.plan.tables[0], {{10, 8, 0, 0, 1}, {2, 8, 2, 0, 3}});
  EXPECT_THAT(judge(toy).violations(),
              ElementsAre(FindingAt(FindingCode::kCoveredTwice, "ebc.t", 3),
                          FindingAt(FindingCode::kWrongCut, "ebc.t", 3)));
}

TEST(ShardingCheck, TakesShardsWithoutRowsForNothingWhereverTheyLie) {
  Toy toy(4, 2);
  toy.add_module("ebc", ModuleKind::kQuantEmbeddingBagCollection);
  toy.add_table("t", 10, 12).data_type = embedding::DataType::kInt8;  // packs to 16 columns
  toy.place("t", kRowWise, kQuant,
            {{5, 16, 0, 0, 0}, {0, 16, 2, 0, 1}, {5, 16, 5, 0, 2}, {0, 16, 10, 0, 3}});
  expect_clean(toy);
}

//  columns  0..4   4..8
//  rows 0..5  0     0
//  rows 5..9  1     .     both a gap and an overlap, in other strips
//             0
TEST(ShardingCheck, FindsGapAndOverlapInDifferentStrips) {
  Toy toy(2, 2);
  toy.add_module("ebc");
  toy.add_table("t", 9, 8);
  toy.place("t", kColumnWise, kFused, {{9, 4, 0, 0, 0}, {5, 4, 0, 4, 0}, {4, 4, 5, 0, 1}});
  const ShardingReport report = judge(toy);
  ASSERT_THAT(report.violations(),
              ElementsAre(FindingAt(FindingCode::kCoveredTwice, "ebc.t", 1),
                          FindingAt(FindingCode::kNotCovered, "ebc.t", kNoRank),
                          FindingAt(FindingCode::kWrongCut, "ebc.t", 0)));
  EXPECT_EQ(report.violations()[0].found, "rows [5, 9) of columns [0, 4)");
  EXPECT_EQ(report.violations()[1].found, "rows [5, 9) of columns [4, 8)");
}

TEST(ShardingCheck, FindsAReplicaThatIsNotTheWholeTable) {
  Toy toy = data_parallel_toy();
  toy.plan.tables[0].shards[2].rows = 9;
  EXPECT_THAT(judge(toy).violations(),
              ElementsAre(FindingAt(FindingCode::kNotCovered, "ebc.t", 2)));
  toy = data_parallel_toy();
  toy.plan.tables[0].shards[1].columns = 4;
  EXPECT_THAT(judge(toy).violations(),
              ElementsAre(FindingAt(FindingCode::kNotCovered, "ebc.t", 1)));
}

TEST(ShardingCheck, JudgesRunsAsItJudgesSingleShards) {
  Toy toy = row_wise_toy();
  toy.plan.tables[0].ranks = {{0, 4}};
  toy.plan.tables[0].shards = {{3, 3, 8, 0, 0, 3}, {1, 1, 8, 9, 0, 0}};
  const ShardingReport runs = judge(toy), singles = judge(row_wise_toy());
  EXPECT_TRUE(runs.is_right());
  EXPECT_EQ(runs.used, singles.used);
  EXPECT_EQ(runs.rank_ms, singles.rank_ms);
  toy.plan.tables[0].ranks = {{0, 2}, {2, 2}};
  expect_clean(toy);
  toy.plan.tables[0].shards[0].row_stride = 2;  // rows 0..3, 2..5, 4..7
  EXPECT_THAT(judge(toy).violations(),
              ElementsAre(FindingAt(FindingCode::kCoveredTwice, "ebc.t", 1),
                          FindingAt(FindingCode::kNotCovered, "ebc.t", kNoRank)));
}

TEST(ShardingCheck, FindsACutThatIsNotTheTypes) {
  Toy rows = row_wise_toy();
  rows.plan.tables[0].sharding_type = kColumnWise;
  EXPECT_THAT(judge(rows).violations(), ElementsAre(FindingAt(FindingCode::kWrongCut, "ebc.t", 0)));

  Toy columns = column_wise_toy();
  columns.plan.tables[0].sharding_type = kTableRowWise;
  set_shards(columns.plan.tables[0], {{10, 8, 0, 0, 0}, {10, 8, 0, 8, 1}});
  EXPECT_THAT(judge(columns).violations(),
              ElementsAre(FindingAt(FindingCode::kWrongCut, "ebc.t", 0)));

  //  0 0 1 1     two widths begin in column 0
  //  2 2 2 2
  Toy grid = grid_toy();
  set_shards(grid.plan.tables[0], {{5, 8, 0, 0, 0}, {5, 8, 0, 8, 1}, {5, 16, 5, 0, 1}});
  EXPECT_THAT(judge(grid).violations(),
              ElementsAre(FindingAt(FindingCode::kWrongCut, "ebc.t", 1),
                          FindingAt(FindingCode::kWrongShardCount, "ebc.t", kNoRank),
                          FindingAt(FindingCode::kWrongGroup, "ebc.t", 0)));
}

// Numbers of shards and groups of ranks.

TEST(ShardingCheck, WantsOneRankAShard) {
  Toy toy = row_wise_toy();
  toy.plan.tables[0].ranks.pop_back();
  EXPECT_THAT(judge(toy).violations(),
              ElementsAre(FindingAt(FindingCode::kWrongShardCount, "ebc.t", kNoRank),
                          FindingAt(FindingCode::kNotCovered, "ebc.t", kNoRank)));
}

TEST(ShardingCheck, WantsOneShardOfATableWiseTable) {
  Toy toy = column_wise_toy();
  toy.plan.tables[0].sharding_type = kTableWise;
  EXPECT_THAT(judge(toy).violations(),
              ElementsAre(FindingAt(FindingCode::kWrongShardCount, "ebc.t", kNoRank)));
}

TEST(ShardingCheck, WantsAShardAtAll) {
  Toy toy = column_wise_toy();
  set_shards(toy.plan.tables[0], {});
  EXPECT_THAT(judge(toy).violations(),
              ElementsAre(FindingAt(FindingCode::kNotCovered, "ebc.t", kNoRank),
                          FindingAt(FindingCode::kWrongShardCount, "ebc.t", kNoRank)));
}

// The bug of a planner that cuts for more or fewer ranks than the group has.
TEST(ShardingCheck, WantsARowWiseShardOnEveryRank) {
  Toy toy = row_wise_toy();
  set_shards(toy.plan.tables[0], {{5, 8, 0, 0, 0}, {3, 8, 5, 0, 1}, {2, 8, 8, 0, 2}});
  EXPECT_THAT(judge(toy).violations(),
              ElementsAre(FindingAt(FindingCode::kWrongShardCount, "ebc.t", kNoRank),
                          FindingAt(FindingCode::kWrongGroup, "ebc.t", 3)));
  toy = row_wise_toy();
  toy.plan.tables[0].ranks[2].first = 1;
  EXPECT_THAT(judge(toy).violations(),
              ElementsAre(FindingAt(FindingCode::kWrongGroup, "ebc.t", 1),
                          FindingAt(FindingCode::kWrongGroup, "ebc.t", 2)));
}

TEST(ShardingCheck, WantsAReplicaOnEveryRank) {
  Toy toy = data_parallel_toy();
  set_shards(toy.plan.tables[0], {{10, 8, 0, 0, 0}});
  EXPECT_THAT(judge(toy).violations(),
              ElementsAre(FindingAt(FindingCode::kWrongShardCount, "ebc.t", kNoRank),
                          FindingAt(FindingCode::kWrongGroup, "ebc.t", 1)));
}

TEST(ShardingCheck, TakesReplicasInAnyOrder) {
  Toy toy = data_parallel_toy();
  std::reverse(toy.plan.tables[0].ranks.begin(), toy.plan.tables[0].ranks.end());
  expect_clean(toy);
}

TEST(ShardingCheck, FindsATableRowWiseTableAcrossHosts) {
  Toy toy(4, 2);
  toy.add_module("ebc");
  toy.add_table("t", 10, 8);
  toy.place("t", kTableRowWise, kFused, {{5, 8, 0, 0, 1}, {5, 8, 5, 0, 2}});
  EXPECT_THAT(judge(toy).violations(),
              ElementsAre(FindingAt(FindingCode::kWrongGroup, "ebc.t", 2)));
  toy.topology.local_world_size = toy.plan.local_world_size = 4;
  EXPECT_THAT(judge(toy).violations(),
              ElementsAre(FindingAt(FindingCode::kWrongShardCount, "ebc.t", kNoRank),
                          FindingAt(FindingCode::kWrongGroup, "ebc.t", 0)));
}

TEST(ShardingCheck, TakesAPodForAHost) {
  Toy toy = row_wise_toy();
  toy.plan.tables[0].sharding_type = kTableRowWise;
  EXPECT_FALSE(judge(toy).is_right());
  toy.topology.pod_size = 2;
  expect_clean(toy);
}

TEST(ShardingCheck, LeavesLeftOverRanksToNoHost) {
  Toy toy(5, 2);
  toy.add_module("ebc");
  toy.add_table("t", 10, 8);
  toy.place("t", kTableRowWise, kFused, {{5, 8, 0, 0, 2}, {5, 8, 5, 0, 3}});
  expect_clean(toy);
  set_shards(toy.plan.tables[0], {{5, 8, 0, 0, 4}, {5, 8, 5, 0, 3}});
  EXPECT_THAT(judge(toy).violations(),
              ElementsAre(FindingAt(FindingCode::kWrongGroup, "ebc.t", 4)));
}

TEST(ShardingCheck, FindsAGridBlockAcrossHosts) {
  Toy toy = grid_toy();
  toy.plan.tables[0].ranks[3].first = 1;
  EXPECT_THAT(judge(toy).violations(),
              ElementsAre(FindingAt(FindingCode::kWrongGroup, "ebc.t", 1)));
}

TEST(ShardingCheck, TakesGridBlocksOnAnyHostsInAnyListing) {
  Toy toy = grid_toy();
  auto& sharding = toy.plan.tables[0];
  set_shards(sharding, {{5, 8, 0, 0, 2}, {5, 8, 5, 0, 3}, {5, 8, 0, 8, 0}, {5, 8, 5, 8, 1}});
  expect_clean(toy);  // hosts in reverse
  set_shards(sharding, {{5, 8, 0, 0, 2}, {5, 8, 5, 0, 3}, {5, 8, 0, 8, 2}, {5, 8, 5, 8, 3}});
  expect_clean(toy);  // one host
  set_shards(sharding, {{5, 8, 0, 0, 0}, {5, 8, 0, 8, 2}, {5, 8, 5, 0, 1}, {5, 8, 5, 8, 3}});
  expect_clean(toy);  // row-major
  set_shards(sharding, {{5, 4, 0, 0, 0}, {5, 4, 5, 0, 1}, {5, 12, 0, 4, 2}, {5, 12, 5, 4, 3}});
  expect_clean(toy);  // uneven widths
}

TEST(ShardingCheck, TakesColumnsOnAnyRanksInAnyWidths) {
  Toy toy = column_wise_toy();
  set_shards(toy.plan.tables[0], {{10, 12, 0, 4, 2}, {10, 4, 0, 0, 2}});
  expect_clean(toy);
}

TEST(ShardingCheck, WantsKeyValueColumnsOnDistinctRanksWhereTheReleaseDoes) {
  Toy toy = column_wise_toy();
  toy.plan.tables[0].compute_kernel = kKeyValue;
  expect_clean(toy);
  toy.plan.tables[0].ranks[0].first = 3;
  EXPECT_THAT(judge(toy).violations(),
              ElementsAre(FindingAt(FindingCode::kColumnsShareRank, "ebc.t", 3)));
  toy.cost_model = *embedding::find_cost_model("torchrec-1.4");
  expect_clean(toy);
}

TEST(ShardingCheck, WantsColumnCutsDivisibleByFour) {
  Toy toy = column_wise_toy();
  set_shards(toy.plan.tables[0], {{10, 8, 0, 0, 2}, {10, 2, 0, 8, 0}, {10, 6, 0, 10, 1}});
  EXPECT_THAT(judge(toy).violations(),
              ElementsAre(FindingAt(FindingCode::kWidthNotDivisible, "ebc.t", 0)));
}

TEST(ShardingCheck, KeepsATowerOnOneHost) {
  Toy toy = tower_toy();
  toy.plan.tables[1].ranks[0].first = 1;
  toy.plan.tables[1].ranks[1].first = 0;
  EXPECT_THAT(judge(toy).violations(),
              ElementsAre(FindingAt(FindingCode::kColocationBroken, "tower.b", 1)));
}

TEST(ShardingCheck, LetsTowersOfACollectionLiveApart) {
  Toy toy = tower_toy();
  toy.model.modules[0].kind = ModuleKind::kEmbeddingTowerCollection;
  toy.model.modules[0].tables[0].tower = 0;
  toy.model.modules[0].tables[1].tower = 1;
  toy.plan.tables[1].ranks[0].first = 1;
  toy.plan.tables[1].ranks[1].first = 0;
  expect_clean(toy);
  toy.model.modules[0].tables[1].tower = 0;
  EXPECT_THAT(judge(toy).violations(),
              ElementsAre(FindingAt(FindingCode::kColocationBroken, "tower.b", 1)));
}

// Sums.

TEST(ShardingCheck, AddsEveryShardToItsRank) {
  Toy toy = row_wise_toy();
  toy.add_table("u", 20, 16);
  toy.place("u", kColumnWise, kFused, {{20, 8, 0, 0, 1}, {20, 8, 0, 8, 1}});
  const ShardingReport report = judge(toy);
  const embedding::Estimator estimator(toy.cost_model, toy.topology, toy.mode);
  const auto profile = [&](std::size_t table) {
    return *embedding::make_table_profile(toy.cost_model, toy.topology, toy.model,
                                          toy.model.modules[0], toy.model.modules[0].tables[table],
                                          512);
  };
  const auto rows_perf = *estimator.shard_perf(profile(0), kRowWise, kFused, 3, 8);
  const auto last_rows = *estimator.shard_storage(profile(0), kRowWise, kFused, 1, 8);
  const auto rows_storage = *estimator.shard_storage(profile(0), kRowWise, kFused, 3, 8);
  const auto half_perf = *estimator.shard_perf(profile(1), kColumnWise, kFused, 20, 8);
  const auto half_storage = *estimator.shard_storage(profile(1), kColumnWise, kFused, 20, 8);
  EXPECT_EQ(report.used[0], rows_storage);
  EXPECT_EQ(report.used[1], rows_storage + half_storage + half_storage);
  EXPECT_EQ(report.used[3], last_rows);
  EXPECT_EQ(report.rank_ms[0], rows_perf.total());
  EXPECT_EQ(report.rank_ms[1], rows_perf.total() + half_perf.total() + half_perf.total());
  EXPECT_EQ(report.rating, report.rank_ms[1]);
  embedding::Perf sum = rows_perf;
  sum += half_perf;
  sum += half_perf;
  EXPECT_EQ(report.perf[1], sum);
}

TEST(ShardingCheck, FillsACapToTheByteAndNoFurther) {
  Toy toy = table_wise_toy();
  const topology::Storage used = judge(toy).used[2];
  ASSERT_GT(used.hbm, 0);
  toy.topology.devices[2] = used;
  expect_clean(toy);
  --toy.topology.devices[2].hbm;
  const ShardingReport report = judge(toy);
  ASSERT_THAT(report.violations(), ElementsAre(FindingAt(FindingCode::kOverCapacity, "", 2)));
  EXPECT_EQ(report.violations()[0].expected,
            "at most " + std::to_string(used.hbm - 1) + " bytes of hbm");
}

TEST(ShardingCheck, NamesEveryTierThatOverflows) {
  Toy toy = table_wise_toy();
  toy.plan.tables[0].compute_kernel = kFusedUvm;
  toy.topology.devices[2] = {};
  EXPECT_THAT(judge(toy).violations(), ElementsAre(FindingAt(FindingCode::kOverCapacity, "", 2),
                                                   FindingAt(FindingCode::kOverCapacity, "", 2)));
}

TEST(ShardingCheck, TakesTheReservationFromEveryRank) {
  Toy toy = table_wise_toy();
  toy.options.reservation.percentage = 0.5;
  EXPECT_EQ(judge(toy).capacity[3].hbm, kTiB / 2);
  toy.options.reservation.kind = embedding::ReservationKind::kHeuristical;
  toy.topology.devices[0].hbm = 1;
  EXPECT_THAT(judge(toy).violations(), ElementsAre(FindingAt(FindingCode::kOverCapacity, "", 0)));
}

TEST(ShardingCheck, ComparesTheStatedRating) {
  Toy toy = table_wise_toy();
  const double rating = judge(toy).rating;
  for (const double stated : {rating, rating * (1 + 5e-10), rating * (1 - 5e-10)}) {
    toy.options.stated_rating = stated;
    expect_clean(toy);
  }
  for (const double stated :
       {rating * (1 + 2e-9), rating * (1 - 2e-9), 0.0, std::numeric_limits<double>::quiet_NaN()}) {
    toy.options.stated_rating = stated;
    EXPECT_THAT(judge(toy).violations(),
                ElementsAre(FindingAt(FindingCode::kRatingMismatch, "", kNoRank)));
  }
}

TEST(ShardingCheck, JudgesNoRatingOfAPlanThatLosesShards) {
  Toy toy = row_wise_toy();
  toy.options.stated_rating = judge(toy).rating + 1;
  toy.plan.tables[0].ranks[3].first = 4;
  EXPECT_THAT(judge(toy).violations(),
              ElementsAre(FindingAt(FindingCode::kRankOutOfRange, "ebc.t", 4),
                          FindingAt(FindingCode::kNotCovered, "ebc.t", kNoRank)));
}

TEST(ShardingCheck, TakesBatchZeroForTheDefault) {
  Toy toy = table_wise_toy();
  const double rating = judge(toy).rating;
  toy.options.batch_size = 0;
  EXPECT_EQ(judge(toy).rating, rating);
  toy.options.batch_size = 1024;
  EXPECT_GT(judge(toy).rating, rating);
}

TEST(ShardingCheck, EstimatesWithThePlansOwnCache) {
  Toy toy = table_wise_toy();
  toy.plan.tables[0].compute_kernel = kFusedUvmCaching;
  embedding::CacheStats stats;
  stats.expected_lookups = 1e6;
  stats.constant_miss_rate = 0.5;
  auto& known = toy.model.constraints["t"].cache_params.emplace();
  known.load_factor = 0.9;
  known.stats = stats;
  EXPECT_EQ(judge(toy).perf[2].prefetch_compute, 0);  // the plan carries no cache at all
  toy.plan.tables[0].cache_params.emplace().load_factor = 0.1;
  const ShardingReport small = judge(toy);
  EXPECT_GT(small.perf[2].prefetch_compute, 0);  // statistics are the table's
  toy.plan.tables[0].cache_params->load_factor = 0.9;
  EXPECT_LT(judge(toy).rating, small.rating);
  EXPECT_GT(judge(toy).used[2].hbm, small.used[2].hbm);
}

TEST(ShardingCheck, EstimatesWithThePlansOwnOutputsAndKeyValueCaches) {
  Toy toy = table_wise_toy();
  toy.model.constraints["t"].output_dtype = embedding::DataType::kFp16;
  const Bytes full = judge(toy).used[2].hbm;
  toy.plan.tables[0].output_dtype = embedding::DataType::kFp16;
  EXPECT_LT(judge(toy).used[2].hbm, full);
  toy.model.constraints.clear();
  EXPECT_LT(judge(toy).used[2].hbm, full);

  toy = table_wise_toy();
  toy.plan.tables[0].compute_kernel = kKeyValue;
  const Bytes uncached = judge(toy).used[2].hbm;
  toy.plan.tables[0].key_value_params.emplace().max_l1_cache_size = 1;
  EXPECT_GT(judge(toy).used[2].hbm, uncached);
}

TEST(ShardingCheck, NeverLetsASumOfBytesWrapRound) {
  Toy toy(1, 1);
  toy.add_module("ebc");
  for (const char* name : {"a", "b"}) {
    toy.add_table(name, std::int64_t{1} << 58, 4);  // 2^62 bytes each
    toy.place(name, kTableWise, kFused, {{std::int64_t{1} << 58, 4, 0, 0, 0}});
  }
  EXPECT_THAT(judge(toy).violations(), ElementsAre(FindingAt(FindingCode::kOverCapacity, "", 0)));
}

TEST(ShardingCheck, ReportsWhatTheEstimatorRefuses) {
  // A managed collision module offers fused_uvm on any device, and no cpu has bandwidth for it.
  Toy toy(1, 1, ComputeDevice::kCpu);
  toy.add_module("ec", ModuleKind::kManagedCollisionEmbeddingCollection);
  toy.add_table("t", 10, 8);
  toy.place("t", kRowWise, kFusedUvm, {{10, 8, 0, 0, 0}});
  EXPECT_THAT(judge(toy).violations(),
              ElementsAre(FindingAt(FindingCode::kCannotEstimate, "ec.t", 0)));
}

// Hazards.

void expect_hazard(const Toy& toy, FindingCode code, const std::string& table,
                   std::optional<int> rank) {
  const ShardingReport report = judge(toy);
  EXPECT_THAT(report.violations(), IsEmpty());
  EXPECT_THAT(report.hazards(), ElementsAre(FindingAt(code, table, rank)));

  Toy strict = toy;
  strict.options.strict = true;
  const ShardingReport strict_report = judge(strict);
  ASSERT_THAT(strict_report.violations(),
              ElementsAre(FindingAt(FindingCode::kHazard, table, rank)));
  EXPECT_EQ(strict_report.violations()[0].found, to_string(code));
}

TEST(ShardingHazards, SeesMeansUnderGridShard) {
  Toy toy = grid_toy();
  toy.model.modules[0].tables[0].pooling = embedding::Pooling::kMean;
  expect_hazard(toy, FindingCode::kMeanPoolingGrid, "ebc.t", kNoRank);
}

TEST(ShardingHazards, SeesMeansCutByRowsBesideOtherTables) {
  Toy toy = row_wise_toy();
  toy.model.modules[0].tables[0].pooling = embedding::Pooling::kMean;
  expect_clean(toy);  // alone
  toy.add_table("u", 4, 8);
  toy.place("u", kTableRowWise, kFused, {{2, 8, 0, 0, 0}, {2, 8, 2, 0, 1}});
  expect_clean(toy);  // all cut by rows
  toy.plan.tables.back().sharding_type = kTableWise;
  set_shards(toy.plan.tables.back(), {{4, 8, 0, 0, 0}});
  expect_hazard(toy, FindingCode::kMeanPoolingMixedRows, "ebc.t", kNoRank);

  // In a collection of its own the other table does no harm.
  toy.model.modules[0].tables.pop_back();
  toy.add_module("other");
  toy.add_table("u", 4, 8);
  toy.plan.tables.back().module_path = "other";
  expect_clean(toy);
}

TEST(ShardingHazards, TakesMeansThatAreNotCutByRows) {
  Toy toy = table_wise_toy();
  toy.model.modules[0].tables[0].pooling = embedding::Pooling::kMean;
  toy.add_table("u", 10, 8);
  toy.place("u", kRowWise, kFused, rows_of_ten());
  expect_clean(toy);
}

//  runtime's blocks 3, 3, 3, 1; planned in proportion to memory 4, 3, 2, 1
TEST(ShardingHazards, SeesRowsCutInProportionToMemory) {
  const std::vector<ToyShard> uneven = {
      {4, 8, 0, 0, 0}, {3, 8, 4, 0, 1}, {2, 8, 7, 0, 2}, {1, 8, 9, 0, 3}};
  Toy toy = row_wise_toy();
  set_shards(toy.plan.tables[0], uneven);
  expect_hazard(toy, FindingCode::kUnevenRows, "ebc.t", 0);

  Toy quantised(4, 2);
  quantised.add_module("ebc", ModuleKind::kQuantEmbeddingBagCollection);
  quantised.add_table("t", 10, 12).data_type = embedding::DataType::kInt8;  // packs to 16 columns
  quantised.place("t", kRowWise, kQuant,
                  {{4, 16, 0, 0, 0}, {3, 16, 4, 0, 1}, {2, 16, 7, 0, 2}, {1, 16, 9, 0, 3}});
  expect_clean(quantised);
}

TEST(ShardingHazards, SeesEvenRowsListedInAnotherOrder) {
  Toy toy = row_wise_toy();
  set_shards(toy.plan.tables[0],
             {{3, 8, 3, 0, 0}, {3, 8, 0, 0, 1}, {3, 8, 6, 0, 2}, {1, 8, 9, 0, 3}});
  expect_hazard(toy, FindingCode::kUnevenRows, "ebc.t", 0);
}

TEST(ShardingHazards, SeesUnevenGridRows) {
  Toy toy = grid_toy();
  set_shards(toy.plan.tables[0],
             {{5, 8, 0, 0, 0}, {5, 8, 5, 0, 1}, {6, 8, 0, 8, 2}, {4, 8, 6, 8, 3}});
  expect_hazard(toy, FindingCode::kUnevenRows, "ebc.t", 2);
}

// 10 rows in 5 buckets of 2 over 4 ranks: 4, 2, 2, 2.
TEST(ShardingHazards, WantsWholeBucketsOfVirtualTables) {
  const std::vector<ToyShard> buckets = {
      {4, 8, 0, 0, 0}, {2, 8, 4, 0, 1}, {2, 8, 6, 0, 2}, {2, 8, 8, 0, 3}};
  Toy toy = row_wise_toy();
  embedding::Table& table = toy.model.modules[0].tables[0];
  table.use_virtual_table = true;
  table.total_num_buckets = 5;
  expect_hazard(toy, FindingCode::kUnevenRows, "ebc.t", 0);  // 3, 3, 3, 1 splits buckets
  set_shards(toy.plan.tables[0], buckets);
  expect_clean(toy);
  toy.cost_model = *embedding::find_cost_model("torchrec-1.4");  // knows no buckets
  expect_hazard(toy, FindingCode::kUnevenRows, "ebc.t", 0);

  toy.cost_model = embedding::default_cost_model();
  table.total_num_buckets = 2;
  expect_hazard(toy, FindingCode::kRuntimeCannotHold, "ebc.t", kNoRank);
  table.total_num_buckets = 7;
  expect_hazard(toy, FindingCode::kRuntimeCannotHold, "ebc.t", kNoRank);
  table.use_virtual_table = false;  // then buckets are no matter
  expect_hazard(toy, FindingCode::kUnevenRows, "ebc.t", 0);
}

//  5 rows over 4 ranks: 2, 2, 1, 0
TEST(ShardingHazards, SeesShardsWithoutRows) {
  Toy toy(4, 2);
  toy.add_module("ebc");
  toy.add_table("t", 5, 8);
  toy.place("t", kRowWise, kFused,
            {{2, 8, 0, 0, 0}, {2, 8, 2, 0, 1}, {1, 8, 4, 0, 2}, {0, 8, 5, 0, 3}});
  expect_hazard(toy, FindingCode::kEmptyRowShards, "ebc.t", 3);
  toy.plan.tables[0].shards[3].row = 0;  // where nothing lies is no matter
  expect_hazard(toy, FindingCode::kEmptyRowShards, "ebc.t", 3);
}

TEST(ShardingHazards, SeesPermutedRanks) {
  Toy toy = row_wise_toy();
  std::swap(toy.plan.tables[0].ranks[1], toy.plan.tables[0].ranks[2]);
  expect_hazard(toy, FindingCode::kPermutedRanks, "ebc.t", 2);

  Toy tower = tower_toy();
  std::swap(tower.plan.tables[0].ranks[0], tower.plan.tables[0].ranks[1]);
  expect_hazard(tower, FindingCode::kPermutedRanks, "tower.a", 3);

  Toy grid = grid_toy();
  std::swap(grid.plan.tables[0].ranks[2], grid.plan.tables[0].ranks[3]);
  expect_hazard(grid, FindingCode::kPermutedRanks, "ebc.t", 3);
}

TEST(ShardingHazards, SeesTableColumnWiseAcrossHosts) {
  Toy toy = column_wise_toy();
  toy.plan.tables[0].sharding_type = kTableColumnWise;
  expect_hazard(toy, FindingCode::kColumnsAcrossHosts, "ebc.t", 3);
  toy.plan.tables[0].ranks[0].first = 2;
  expect_clean(toy);
}

TEST(ShardingHazards, SeesWidthsThatNoKernelTakes) {
  Toy toy = table_wise_toy();
  toy.model.modules[0].tables[0].embedding_dim = 10;
  toy.plan.tables[0].shards[0].columns = 10;
  expect_hazard(toy, FindingCode::kRuntimeCannotHold, "ebc.t", 2);
  toy.topology.compute_device = toy.plan.compute_device = ComputeDevice::kMtia;
  expect_clean(toy);
}

TEST(ShardingHazards, SeesWhatTheCpuRefuses) {
  Toy sequence(1, 1, ComputeDevice::kCpu);
  sequence.add_module("ec", ModuleKind::kEmbeddingCollection);
  sequence.add_table("t", 10, 8);
  sequence.place("t", kDataParallel, kDense, {{10, 8, 0, 0, 0}});
  expect_hazard(sequence, FindingCode::kRuntimeCannotHold, "ec.t", kNoRank);
  sequence.topology.compute_device = sequence.plan.compute_device = ComputeDevice::kCuda;
  expect_clean(sequence);

  Toy pooled(1, 1, ComputeDevice::kCpu);
  pooled.add_module("ebc");
  pooled.add_table("t", 10, 8);
  pooled.place("t", kDataParallel, kDense, {{10, 8, 0, 0, 0}});
  expect_clean(pooled);

  Toy adam(1, 1, ComputeDevice::kCpu);
  adam.add_module("ebc");
  adam.add_table("t", 10, 8).optimizer = embedding::Optimizer::kAdam;
  adam.place("t", kTableWise, kFused, {{10, 8, 0, 0, 0}});
  expect_hazard(adam, FindingCode::kRuntimeCannotHold, "ebc.t", kNoRank);
  adam.topology.compute_device = adam.plan.compute_device = ComputeDevice::kCuda;
  expect_clean(adam);
}

TEST(ShardingHazards, SeesWhatTheCpuDoesNotTrain) {
  Toy halves(1, 1, ComputeDevice::kCpu);
  halves.add_module("ebc");
  halves.add_table("t", 10, 8).data_type = embedding::DataType::kFp16;
  halves.place("t", kTableWise, kFused, {{10, 8, 0, 0, 0}});
  expect_clean(halves);
  halves.model.modules[0].tables[0].data_type = embedding::DataType::kBf16;
  expect_hazard(halves, FindingCode::kRuntimeCannotHold, "ebc.t", kNoRank);
  halves.topology.compute_device = halves.plan.compute_device = ComputeDevice::kCuda;
  expect_clean(halves);

  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  for (const std::int64_t rows : {kMost, kMost + 1}) {
    Toy large(1, 1, ComputeDevice::kCpu);
    large.add_module("ebc");
    large.add_table("t", rows, 8);
    large.place("t", kTableWise, kFused, {{rows, 8, 0, 0, 0}});
    expect_clean(large);
    // By the sharder's fused_params; an optimizer of the table wins over them.
    large.model.modules[0].sharder.optimizer = embedding::Optimizer::kRowWiseAdagrad;
    if (rows == kMost) {
      expect_clean(large);
    } else {
      expect_hazard(large, FindingCode::kRuntimeCannotHold, "ebc.t", kNoRank);
    }
    large.model.modules[0].tables[0].optimizer = embedding::Optimizer::kSgd;
    expect_clean(large);
  }
}

//            rank 0   rank 1
//  a         0..8     8..16      two blocks of 8 columns
//  b         0..8     8..16
//  c  0..4, 8..12     4..8, 12..16
TEST(ShardingHazards, SeesColumnsOfSeveralWidthsInACollectionOfSequences) {
  const auto make = [](ModuleKind kind) {
    Toy toy(2, 2);
    toy.add_module("ec", kind);
    for (const char* name : {"a", "b", "c"}) toy.add_table(name, 10, 16);
    toy.place("c", kColumnWise, kFused,
              {{10, 4, 0, 0, 0}, {10, 4, 0, 4, 1}, {10, 4, 0, 8, 0}, {10, 4, 0, 12, 1}});
    toy.place("a", kColumnWise, kFused, {{10, 8, 0, 0, 0}, {10, 8, 0, 8, 1}});
    toy.place("b", kColumnWise, kFused, {{10, 8, 0, 0, 1}, {10, 8, 0, 8, 0}});
    return toy;
  };
  Toy toy = make(ModuleKind::kEmbeddingCollection);
  expect_hazard(toy, FindingCode::kMixedColumnWidths, "ec.c",
                kNoRank);                                   // of another width than most
  expect_clean(make(ModuleKind::kEmbeddingBagCollection));  // pools bring their own widths

  // A whole table is of one block, and as wide as the table.
  toy.plan.tables[0].sharding_type = kTableWise;
  set_shards(toy.plan.tables[0], {{10, 16, 0, 0, 0}});
  expect_clean(toy);
  toy.plan.tables[0].sharding_type = kColumnWise;
  expect_hazard(toy, FindingCode::kMixedColumnWidths, "ec.c", kNoRank);
  // Of as many tables the first one's width is the collection's, as the module lists them.
  toy.plan.tables[2].sharding_type = kTableWise;
  set_shards(toy.plan.tables[2], {{10, 16, 0, 0, 0}});
  expect_hazard(toy, FindingCode::kMixedColumnWidths, "ec.c", kNoRank);
  // Unlike blocks of one table.
  set_shards(toy.plan.tables[0], {{10, 8, 0, 0, 0}, {10, 4, 0, 8, 1}, {10, 4, 0, 12, 1}});
  expect_hazard(toy, FindingCode::kMixedColumnWidths, "ec.c", kNoRank);
}

// A violation under strict_numerics alone.
TEST(ShardingHazards, SeesAnOptimizerStatePerBlock) {
  const auto expect_numeric = [](Toy toy) {
    toy.options.strict = true;
    const ShardingReport report = judge(toy);
    EXPECT_THAT(report.violations(), IsEmpty());
    EXPECT_THAT(report.hazards(),
                ElementsAre(FindingAt(FindingCode::kOptimizerStatePerBlock, "ebc.t", kNoRank)));
    toy.options.strict = false;
    toy.options.strict_numerics = true;
    EXPECT_THAT(judge(toy).violations(),
                ElementsAre(FindingAt(FindingCode::kHazard, "ebc.t", kNoRank)));
  };
  using embedding::Optimizer;
  for (Toy toy : {column_wise_toy(), grid_toy()}) {
    expect_clean(toy);
    toy.model.optimizer = Optimizer::kRowWiseAdagrad;
    expect_numeric(toy);
    toy.model.modules[0].tables[0].optimizer = Optimizer::kOther;
    expect_clean(toy);
    toy.model.optimizer.reset();
    toy.model.modules[0].tables[0].optimizer.reset();
    toy.model.modules[0].sharder.optimizer = Optimizer::kRowWiseAdagrad;
    expect_numeric(toy);
  }
  for (Toy toy : {table_wise_toy(), row_wise_toy(), data_parallel_toy()}) {
    toy.model.optimizer = Optimizer::kRowWiseAdagrad;
    expect_clean(toy);
  }
}

TEST(ShardingHazards, SeesSequencesCutOverAHost) {
  const auto codes_of = [](ModuleKind kind, bool holds_sequence) {
    Toy toy(4, 2);
    toy.add_module("m", kind);
    toy.model.modules[0].holds_embedding_collection = holds_sequence;
    toy.add_table("t", 10, 8);
    toy.place("t", kTableColumnWise, kFused, {{10, 4, 0, 0, 0}, {10, 4, 0, 4, 1}});
    std::vector<FindingCode> codes;
    for (const Finding& hazard : judge(toy).hazards()) codes.push_back(hazard.code);
    return codes;
  };
  // A sharder of the caller's own may offer the type; the runtime refuses it.
  EXPECT_THAT(codes_of(ModuleKind::kEmbeddingCollection, false),
              ElementsAre(FindingCode::kRuntimeCannotHold));
  EXPECT_THAT(codes_of(ModuleKind::kEmbeddingBagCollection, false), IsEmpty());
  EXPECT_THAT(codes_of(ModuleKind::kEmbeddingTower, true), IsEmpty());  // not known
}

TEST(ShardingHazards, SeesKeyValueUnderSgd) {
  Toy toy = table_wise_toy();
  toy.plan.tables[0].compute_kernel = kKeyValue;
  toy.model.optimizer = embedding::Optimizer::kSgd;
  expect_hazard(toy, FindingCode::kRuntimeCannotHold, "ebc.t", kNoRank);
  toy.model.modules[0].tables[0].optimizer = embedding::Optimizer::kRowWiseAdagrad;
  expect_clean(toy);
}

}  // namespace
}  // namespace plimsoll::check
