#include "plimsoll/balance/placement_problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "balance/problem/placement_judge.h"
#include "balance/random_placements.h"

namespace plimsoll::balance {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

PieceRun run(std::int64_t count, double load, Bytes bytes = 0) {
  return {count, {load}, {bytes, 0, 0}};
}

// Two hosts of two ranks and a fifth rank without host. Unit a: two pieces of 3, or a block of 1
// and 2; unit b: uniform, 0.5 everywhere but 0.25 on the last rank.
PlacementProblem two_hosts_and_a_rank() {
  PlacementProblem problem;
  problem.num_ranks = 5;
  problem.ranks_per_host = 2;
  problem.resources = testing::three_memories();
  problem.caps.assign(5, {10, 0, 0});
  problem.units.resize(2);
  problem.units[0] = {"a",
                      {{Spread::kDevice, {run(2, 3, 4)}, 1, {0}},
                       {Spread::kHost, {run(1, 1, 6), run(1, 2, 7)}, 2, {}}},
                      {}};
  problem.units[1] = {"b", {{Spread::kUniform, {run(4, 0.5, 1), run(1, 0.25, 1)}, 1, {0}}}, {}};
  problem.charges = {8};
  problem.floor_ms = 16;
  return problem;
}

TEST(PlacementProblem, AddsUpPiecesBlocksAndUniformLoads) {
  const PlacementProblem problem = two_hosts_and_a_rank();
  ASSERT_TRUE(validate(problem).has_value());
  const PlacementValue pieces = evaluate(problem, {{{0, {4, 1}}, {0, {}}}});
  EXPECT_TRUE(pieces.is_allowed());
  EXPECT_THAT(pieces.load, ElementsAre(0.5, 3.5, 0.5, 0.5, 3.25));
  EXPECT_EQ(pieces.bytes[1][0], 5);
  EXPECT_EQ(pieces.objective, 3.5 + 8 + 16);  // the charge is paid once
  const PlacementValue blocks = evaluate(problem, {{{1, {0, 1}}, {0, {}}}});
  EXPECT_THAT(blocks.load, ElementsAre(1.5, 2.5, 1.5, 2.5, 0.25));
  EXPECT_TRUE(blocks.is_allowed());
}

TEST(PlacementProblem, WaitsForTheSlowestRankOfEveryBarrier) {
  PlacementProblem problem;
  problem.num_ranks = 2;
  problem.num_barriers = 2;
  problem.num_rank_classes = 2;
  problem.rank_class = {0, 1};
  problem.resources = testing::three_memories();
  problem.caps.assign(2, {0, 0, 0});
  problem.units = {{"a", {{Spread::kDevice, {{1, {1, 4, 2, 8}, {}}}, 1, {}}}, {}},
                   {"b", {{Spread::kDevice, {{1, {3, 1, 6, 2}, {}}}, 1, {}}}, {}}};
  ASSERT_TRUE(validate(problem).has_value());
  EXPECT_EQ(evaluate(problem, {{{0, {0}}, {0, {0}}}}).objective, 4 + 5);
  EXPECT_EQ(evaluate(problem, {{{0, {0}}, {0, {1}}}}).objective, 6 + 4);
}

TEST(PlacementProblem, NamesWhatIsNotAllowed) {
  PlacementProblem problem = two_hosts_and_a_rank();
  const auto faults = [&](const UnitPlacements& placements) {
    return evaluate(problem, placements).faults;
  };
  EXPECT_THAT(faults({{{0, {1, 1}}, {0, {}}}}), ::testing::IsEmpty());
  problem.caps[1][0] = 8;
  EXPECT_THAT(faults({{{0, {1, 1}}, {0, {}}}}),
              ElementsAre(HasSubstr("rank 1 holds 9 of hbm under a cap of 8")));
  problem.resources[0].is_pooled = true;  // 10 + 8 for host 0
  EXPECT_THAT(faults({{{0, {1, 1}}, {0, {}}}}), ::testing::IsEmpty());
  EXPECT_THAT(faults({{{1, {0, 0}}, {0, {}}}}), ElementsAre(HasSubstr("rank 0 holds 28 of hbm")));
  problem.units[0].allowed_ranks = {0, 1};
  EXPECT_THAT(faults({{{0, {1, 2}}, {0, {}}}}),
              ElementsAre(HasSubstr("unit 0 'a' may not be on rank 2")));
  problem.units[0].allowed_ranks.clear();
  problem.apart = {{0, 1}};
  EXPECT_THAT(faults({{{0, {1, 2}}, {0, {}}}}),
              ElementsAre(HasSubstr("unit 1 'b' must stay apart from unit 0 'a'")));
  problem.apart.clear();
  EXPECT_THAT(faults({{{0, {1}}, {0, {}}}}),
              ElementsAre(HasSubstr("is not where its choice may be")));
  EXPECT_THAT(faults({{{1, {0, 2}}, {0, {}}}}),
              ElementsAre(HasSubstr("is not where its choice may be")));
  EXPECT_THAT(faults({{{2, {}}, {0, {}}}}), ElementsAre(HasSubstr("does not have")));
  EXPECT_THAT(faults({}), ElementsAre(HasSubstr("another number")));
}

TEST(PlacementProblem, RefusesWhatMakesNoSense) {
  const auto expect = [](ErrorCode code, const std::string& place,
                         const std::function<void(PlacementProblem&)>& damage) {
    PlacementProblem problem = two_hosts_and_a_rank();
    damage(problem);
    const auto result = validate(problem);
    SCOPED_TRACE(place);
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(to_string(result.error().code), to_string(code)) << format_error(result.error());
    EXPECT_EQ(result.error().place, place);
    EXPECT_FALSE(result.error().remedy.empty());
  };
  using P = PlacementProblem;
  const std::string first = "unit 0 'a', choice 0";
  expect(ErrorCode::kValue, "ranks", [](P& p) { p.num_ranks = 0; });
  expect(ErrorCode::kValue, "ranks", [](P& p) { p.num_barriers = 0; });
  expect(ErrorCode::kSchema, "caps", [](P& p) { p.caps.pop_back(); });
  expect(ErrorCode::kSchema, "caps", [](P& p) { p.rank_class = {0}; });
  expect(ErrorCode::kValue, "rank_class", [](P& p) { p.rank_class = {0, 0, 1, 0, 0}; });
  expect(ErrorCode::kValue, "caps", [](P& p) { p.caps[2][1] = -1; });
  expect(ErrorCode::kSchema, "caps", [](P& p) { p.caps[2][3] = 1; });
  expect(ErrorCode::kOverflow, "caps", [](P& p) { p.caps[0][0] = p.caps[1][0] = INT64_MAX; });
  expect(ErrorCode::kValue, "charges", [](P& p) { p.charges = {std::nan("")}; });
  expect(ErrorCode::kValue, "floor_ms", [](P& p) { p.floor_ms = -1; });
  expect(ErrorCode::kConflict, "unit 0 'a'", [](P& p) { p.units[0].choices.clear(); });
  expect(ErrorCode::kConflict, "unit 0 'a'", [](P& p) { p.units[0].allowed_ranks = {1, 1}; });
  expect(ErrorCode::kConflict, "unit 0 'a'", [](P& p) { p.units[0].allowed_ranks = {5}; });
  expect(ErrorCode::kValue, first, [](P& p) { p.units[0].choices[0].runs[0].count = 0; });
  expect(ErrorCode::kSchema, first, [](P& p) { p.units[0].choices[0].runs[0].load.clear(); });
  expect(ErrorCode::kValue, first, [](P& p) { p.units[0].choices[0].runs[0].load = {-1}; });
  expect(ErrorCode::kValue, first, [](P& p) { p.units[0].choices[0].runs[0].bytes[2] = -1; });
  expect(ErrorCode::kSchema, first, [](P& p) { p.units[0].choices[0].runs[0].bytes[5] = 1; });
  expect(ErrorCode::kSchema, first, [](P& p) { p.units[0].choices[0].runs.clear(); });
  expect(ErrorCode::kConflict, first, [](P& p) { p.units[0].choices[0].causes = {1}; });
  expect(ErrorCode::kValue, "unit 0 'a', choice 1",
         [](P& p) { p.units[0].choices[1].num_blocks = 0; });
  expect(ErrorCode::kSchema, "unit 0 'a', choice 1",
         [](P& p) { p.units[0].choices[1].runs.pop_back(); });
  expect(ErrorCode::kSchema, "unit 1 'b', choice 0",
         [](P& p) { p.units[1].choices[0].runs[0].count = 5; });
  expect(ErrorCode::kConflict, "apart", [](P& p) { p.apart = {{0, 2}}; });
  expect(ErrorCode::kOverflow, "units",
         [](P& p) { p.units[0].choices[0].runs[0].bytes[0] = INT64_MAX; });
}

}  // namespace
}  // namespace plimsoll::balance
