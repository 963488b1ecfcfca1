#include "balance/bounds/explain_infeasible.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "balance/bounds/bound_placement.h"
#include "balance/random_placements.h"

namespace plimsoll::balance {
namespace {

using testing::Enumerator;
using testing::InstanceKind;
using testing::kind_of_seed;
using testing::Random;
using testing::random_problem;

PlacementProblem equal_ranks(int num_ranks, const Amounts& cap) {
  PlacementProblem problem;
  problem.num_ranks = problem.ranks_per_host = num_ranks;
  problem.resources = testing::three_memories();
  problem.caps.assign(static_cast<std::size_t>(num_ranks), cap);
  return problem;
}

Unit whole(std::string name, const std::vector<Amounts>& choices) {
  Unit unit{std::move(name), {}, {}};
  for (const Amounts& bytes : choices) {
    unit.choices.push_back({Spread::kDevice, {{1, {1}, bytes}}, 1, {}});
  }
  return unit;
}

UnitChoice everywhere(int num_ranks, const Amounts& bytes) {
  return {Spread::kUniform, {{num_ranks, {1}, bytes}}, 1, {}};
}

PlacementProblem with(const PlacementProblem& problem, const Amounts& added) {
  PlacementProblem larger = problem;
  for (Amounts& cap : larger.caps) cap.add(added, 1);
  return larger;
}

bool is_refuted(const PlacementProblem& problem) {
  BoundOptions cheap;
  cheap.use_windows = cheap.use_patterns = false;
  return bound_placement(problem, cheap, {}).is_infeasible();
}

bool fits(const PlacementProblem& problem) { return std::isfinite(Enumerator(problem).find()); }

// Whole in resource 1 a unit lacks 90 bytes on a rank, as the filter finds first; in resource 0 all
// of them lack 8 in sum.
//
//   rank 0  |a a a a|   rank 1  |b b b b|   a, b and c: 8 of resource 0, or 100 of resource 1
TEST(ExplainInfeasible, NamesTheSumWhereThatIsSmallerThanWhatAUnitLacks) {
  PlacementProblem problem = equal_ranks(2, {8, 10, 0});
  for (const char* name : {"a", "b", "c"}) {
    problem.units.push_back(whole(name, {{8, 0, 0}, {0, 100, 0}}));
  }
  const MissingBytes missing = find_missing_bytes(problem, {});
  EXPECT_EQ(missing.per_rank, (Amounts{4, 0, 0}));
  EXPECT_EQ(missing.unit[0], -1);
  EXPECT_TRUE(missing.is_least);
  const Explanation explanation = explain_infeasible(problem, {}, {});
  EXPECT_EQ(explanation.binding, "hbm");
  EXPECT_EQ(explanation.missing, 8);
  EXPECT_EQ(explanation.lines.front(),
            "all units together need 8 B (8 bytes) more of hbm than the 2 ranks have: 4 B (4 "
            "bytes) on each");
}

// What must be everywhere leaves 6 of 10; the unit of 9 lacks 3 on a rank, and half of it 2 more.
TEST(ExplainInfeasible, NamesAUnitBesideWhatMustBeEverywhere) {
  PlacementProblem problem = equal_ranks(4, {10, 0, 0});
  Unit uniform{"rows", {everywhere(4, {4, 0, 0})}, {}};
  problem.units = {uniform, whole("big", {{9, 0, 0}})};
  const Explanation explanation = explain_infeasible(problem, {}, {});
  EXPECT_EQ(explanation.missing, 3);  // on a rank
  EXPECT_EQ(explanation.lines.front(),
            "no rank has room for unit big: with what every rank must hold, it needs 3 B (3 bytes) "
            "more of hbm than a rank has");
}

TEST(ExplainInfeasible, NamesTwoResourcesThatAreBothMissing) {
  PlacementProblem problem = equal_ranks(1, {10, 10, 0});
  problem.units = {whole("a", {{12, 15, 0}})};
  const Explanation explanation =
      explain_infeasible(problem, {{{"hbm", "ddr", "ssd"}}, "table", "tables"}, {});
  EXPECT_EQ(explanation.binding, "hbm and ddr");
  EXPECT_EQ(explanation.missing, 7);
  ASSERT_EQ(explanation.lines.size(), 3u);
}

// Of resource 0 alone 100 bytes are missing; of both 2 and 5.
TEST(ExplainInfeasible, NamesTwoResourcesWhereThatTakesFewerBytesThanOne) {
  PlacementProblem problem = equal_ranks(1, {10, 10, 0});
  problem.units = {whole("a", {{110, 0, 0}, {12, 15, 0}})};
  EXPECT_EQ(find_missing_bytes(problem, {}).per_rank, (Amounts{2, 5, 0}));
}

// Of resource 1 alone 10 bytes are missing; of both 9 and 6, each fewer than 10.
TEST(ExplainInfeasible, NamesOneResourceWhereThatTakesFewerBytesThanTwo) {
  PlacementProblem problem = equal_ranks(1, {10, 10, 0});
  problem.units = {whole("a", {{0, 20, 0}, {19, 16, 0}})};
  const MissingBytes missing = find_missing_bytes(problem, {});
  EXPECT_EQ(missing.per_rank, (Amounts{0, 10, 0}));
  EXPECT_LE(missing.num_proofs, 60);
}

TEST(ExplainInfeasible, SaysWhereNoBytesHelp) {
  PlacementProblem problem = equal_ranks(2, {10, 0, 0});
  problem.units = {{"a", {everywhere(2, {1, 0, 0})}, {0}}};  // it may not use rank 1
  const MissingBytes missing = find_missing_bytes(problem, {});
  EXPECT_FALSE(missing.is_found());
  const Explanation explanation = explain_infeasible(problem, {}, {});
  EXPECT_EQ(explanation.binding, "unit a");
  EXPECT_EQ(explanation.missing, 0);
}

TEST(ExplainInfeasible, GivesUpWithTheClock) {
  PlacementProblem problem = equal_ranks(2, {8, 0, 0});
  problem.units.assign(3, whole("a", {{8, 0, 0}}));
  RunContext context;
  context.deadline = std::chrono::steady_clock::now() - std::chrono::seconds(1);
  const Explanation explanation = explain_infeasible(problem, {}, context);
  EXPECT_EQ(explanation.missing, 0);
  EXPECT_EQ(explanation.lines.size(), 1u);
}

// Proofs are counted: what is left out was found to be enough.
TEST(ExplainInfeasible, SaysWhereItStoppedEarly) {
  PlacementProblem problem = equal_ranks(2, {8, 0, 0});
  problem.units.assign(3, whole("a", {{8000, 0, 0}}));
  MissingBytesOptions options;
  options.num_resources = 3;
  options.most = {24000, 0, 0};
  options.max_proofs = 6;
  int num_asked = 0;
  const MissingBytes missing = find_missing_bytes(
      [&](const Amounts& added) {
        ++num_asked;
        std::optional<Shortage> shortage = prove_shortage(problem, added, {});
        if (shortage) shortage->hint = {};
        return shortage;
      },
      options);
  EXPECT_FALSE(missing.is_least);
  EXPECT_FALSE(is_refuted(with(problem, missing.per_rank)));
  EXPECT_LE(num_asked, 7);
}

PlacementProblem short_problem(std::uint64_t seed) {
  InstanceKind kind = kind_of_seed(seed);
  kind.tight_memory = true;
  kind.many_resources = false;
  PlacementProblem problem = random_problem(seed, kind);
  Random random(seed + 99);
  const int percent = 20 + random.below(60);
  for (Amounts& cap : problem.caps) {
    for (int r = 0; r < problem.num_resources(); ++r) cap[r] = cap[r] * percent / 100;
  }
  return problem;
}

// By enumeration nothing fits with fewer bytes, and with those that are named the proof is gone.
TEST(ExplainInfeasible, NamesBytesThatChangeTheVerdict) {
  int num_short = 0, num_fitting = 0, num_units = 0, num_sums = 0, num_double = 0;
  for (std::uint64_t seed = 0; seed < 250; ++seed) {
    SCOPED_TRACE(seed);
    const PlacementProblem problem = short_problem(seed);
    if (!is_refuted(problem)) continue;
    EXPECT_TRUE(prove_shortage(problem, {}, {}));
    const MissingBytes missing = find_missing_bytes(problem, {});
    if (!missing.is_found()) {
      ASSERT_TRUE(missing.beyond_bytes);
      EXPECT_FALSE(fits(with(problem, {100000, 100000, 100000})));
      continue;
    }
    ++num_short;
    EXPECT_TRUE(missing.is_least);
    EXPECT_FALSE(is_refuted(with(problem, missing.per_rank)));
    num_fitting += fits(with(problem, missing.per_rank));
    int num_resources = 0;
    Amounts half = missing.per_rank;
    for (int resource = 0; resource < problem.num_resources(); ++resource) {
      if (missing.per_rank[resource] == 0) continue;
      ++num_resources;
      half[resource] /= 2;
      Amounts fewer = missing.per_rank;
      --fewer[resource];
      EXPECT_TRUE(is_refuted(with(problem, fewer)));
      EXPECT_FALSE(fits(with(problem, fewer)));
      (missing.unit[resource] < 0 ? num_sums : num_units) += 1;
    }
    num_double += num_resources > 1;
    EXPECT_FALSE(fits(with(problem, half)));
  }
  EXPECT_GT(num_short, 100);
  EXPECT_GT(num_fitting, num_short / 2);
  EXPECT_GT(num_sums, 20);
  EXPECT_GT(num_units, 20);
  EXPECT_GT(num_double, 3);
}

// The fewest bytes of one resource by plain counting up.
Bytes least_of_resource(const PlacementProblem& problem, int resource, Bytes most) {
  for (Bytes bytes = 0; bytes <= most; ++bytes) {
    Amounts added{};
    added[resource] = bytes;
    if (!is_refuted(with(problem, added))) return bytes;
  }
  return most + 1;
}

TEST(ExplainInfeasible, NamesNoMoreBytesThanAnyResourceLacksAlone) {
  int num_short = 0;
  for (std::uint64_t seed = 400; seed < 460; ++seed) {
    SCOPED_TRACE(seed);
    const PlacementProblem problem = short_problem(seed);
    if (!is_refuted(problem)) continue;
    const MissingBytes missing = find_missing_bytes(problem, {});
    if (!missing.is_found()) continue;
    ++num_short;
    const Bytes sum = missing.per_rank[0] + missing.per_rank[1] + missing.per_rank[2];
    const Bytes least =
        std::min(least_of_resource(problem, 0, sum), least_of_resource(problem, 1, sum));
    EXPECT_LE(sum, least);
    const bool is_single = missing.per_rank[0] == 0 || missing.per_rank[1] == 0;
    if (is_single) {
      EXPECT_EQ(sum, least);
    }
  }
  EXPECT_GT(num_short, 15);
}

}  // namespace
}  // namespace plimsoll::balance
