#include "balance/bounds/choice_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "balance/random_placements.h"
#include "balance/verify/verify_bound.h"

namespace plimsoll::balance {
namespace {

using testing::Enumerator;
using testing::InstanceKind;
using testing::random_problem;

constexpr GroupRules kUnitByUnit{.drop_dominated = true, .merge_units = false};

// Tight memory, ranks all alike; sometimes pools, several barriers, repeated units.
PlacementProblem tight_problem(std::uint64_t seed) {
  InstanceKind kind;
  kind.tight_memory = true;
  kind.repeated = seed % 3 == 0;
  kind.pools = seed % 5 == 0;
  kind.barriers = seed % 4 == 0;
  return random_problem(seed, kind);
}

PlacementBound as_bound(const PlacementProblem& problem, const ChoiceTreeBound& tree) {
  PlacementBound bound;
  bound.kind_of_rank.assign(static_cast<std::size_t>(problem.num_ranks), 0);
  bound.value = tree.value + problem.floor_ms;
  bound.method = BoundMethod::kChoices;
  BoundCase all;
  all.value = bound.value;
  all.method = BoundMethod::kChoices;
  all.choices = tree.witness;
  bound.cases = {all};
  return bound;
}

UnitChoice uniform(double load, Bytes first, Bytes second) {
  UnitChoice choice;
  choice.spread = Spread::kUniform;
  choice.runs = {{2, {load}, {first, second, 0}}};
  return choice;
}

// Of two tables one alone has room in the fast resource of two ranks. A mean gives both a part of
// it.
PlacementProblem one_of_two() {
  PlacementProblem problem;
  problem.num_ranks = 2;
  problem.resources = testing::three_memories();
  problem.caps = {{10, 100, 0}, {10, 100, 0}};
  problem.units = {{"a", {uniform(.1, 6, 0), uniform(5, 0, 6)}, {}},
                   {"b", {uniform(.1, 6, 0), uniform(5, 0, 6)}, {}}};
  return problem;
}

TEST(ChoiceTree, GivesNoUnitAMixture) {
  const PlacementProblem problem = one_of_two();
  ASSERT_TRUE(validate(problem));
  EXPECT_DOUBLE_EQ(Enumerator(problem).find(), 5.1);
  const PlacementGroups units = make_placement_groups(problem, kUnitByUnit);
  ChoiceTreeOptions options;
  options.max_nodes = 1;
  const ChoiceTreeBound root = choice_tree_bound(units, options, {});
  EXPECT_LT(root.value, 5.05);  // half of b in the fast resource
  options.max_nodes = 10;
  const ChoiceTreeBound tree = choice_tree_bound(units, options, {});
  EXPECT_NEAR(tree.value, 5.1, 1e-6);
  EXPECT_EQ(tree.num_nodes, 3);
  const BoundVerdict verdict = verify_bound(problem, as_bound(problem, tree));
  EXPECT_TRUE(verdict.holds) << verdict.fault;
}

// The largest piece stands on top of what is everywhere.
TEST(ChoiceTree, AnchorsLargestPieces) {
  PlacementProblem problem;
  problem.num_ranks = 4;
  problem.ranks_per_host = 4;
  problem.resources = testing::three_memories();
  problem.caps.assign(4, {10, 0, 0});
  UnitChoice whole;
  whole.runs = {{1, {8}, {1, 0, 0}}};
  problem.units = {{"whole", {whole}, {}}};
  for (const char* name : {"a", "b"}) {
    UnitChoice everywhere;
    everywhere.spread = Spread::kUniform;
    everywhere.runs = {{4, {3}, {1, 0, 0}}};
    UnitChoice device;
    device.runs = {{1, {20}, {1, 0, 0}}};
    problem.units.push_back({name, {everywhere, device}, {}});
  }
  ASSERT_TRUE(validate(problem));
  EXPECT_DOUBLE_EQ(Enumerator(problem).find(), 14);
  ChoiceTreeOptions options;
  options.target = 19;
  const PlacementGroups units = make_placement_groups(problem, kUnitByUnit);
  const ChoiceTreeBound tree = choice_tree_bound(units, options, {});
  EXPECT_NEAR(tree.value, 14, 1e-6);
  EXPECT_TRUE(verify_bound(problem, as_bound(problem, tree)).holds);
}

TEST(ChoiceTree, NeverExceedsTheOptimum) {
  int num_used = 0, num_gained = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    const PlacementProblem problem = tight_problem(seed);
    const PlacementGroups units = make_placement_groups(problem, kUnitByUnit);
    if (units.ranks.num_kinds() != 1) continue;
    ++num_used;
    const double optimum = Enumerator(problem).find() - problem.floor_ms;
    for (const double target : {kInfinity, optimum * 1.01, optimum * .9}) {
      if (!(target > 0)) continue;
      ChoiceTreeOptions options;
      options.target = target;
      double before = 0;
      for (const std::int64_t nodes : {1, 10, 300}) {
        options.max_nodes = nodes;
        const ChoiceTreeBound tree = choice_tree_bound(units, options, {});
        EXPECT_LE(tree.value, std::min(target, optimum) * (1 + 1e-9));
        EXPECT_GE(tree.value, before * (1 - 1e-9));  // more nodes prove no less
        const BoundVerdict verdict = verify_bound(problem, as_bound(problem, tree));
        EXPECT_TRUE(verdict.holds) << verdict.fault << " " << verdict.value << " of " << tree.value;
        EXPECT_LE(verdict.value, (optimum + problem.floor_ms) * (1 + 1e-9));
        num_gained += nodes == 300 && tree.value > before * 1.001;
        before = tree.value;
      }
    }
  }
  EXPECT_GT(num_used, 200);
  EXPECT_GT(num_gained, 15);
}

// The order of units means nothing.
TEST(ChoiceTree, ProvesTheSameInAnyOrder) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    PlacementProblem problem = tight_problem(seed);
    if (!problem.apart.empty()) continue;
    const auto value = [&] {
      const PlacementGroups units = make_placement_groups(problem, kUnitByUnit);
      return units.ranks.num_kinds() == 1 ? choice_tree_bound(units, {}, {}).value : 0;
    };
    const double first = value();
    std::reverse(problem.units.begin(), problem.units.end());
    if (first < kInfinity) {
      EXPECT_NEAR(value(), first, 1e-6 * first);
    } else {
      EXPECT_EQ(value(), kInfinity);
    }
  }
}

// Bytes of all pieces of a choice, on all ranks.
Bytes all_bytes(const PlacementProblem& problem, const UnitChoice& choice, int resource) {
  Bytes sum = 0;
  for (const PieceRun& run : choice.runs) sum += run.count * run.bytes[resource];
  return choice.spread == Spread::kHost && problem.num_hosts() > 0 ? sum * choice.num_blocks : sum;
}

TEST(ChoiceTree, GuidesFitTogether) {
  int num_guides = 0, num_fitting = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const PlacementProblem problem = tight_problem(seed);
    const PlacementGroups units = make_placement_groups(problem, kUnitByUnit);
    if (!is_for_choice_tree(units) || Enumerator(problem).find() == kInfinity) continue;
    for (const std::vector<int>& guide : choice_guides(units, {}, {})) {
      ASSERT_EQ(guide.size(), problem.units.size());
      bool fits = true;
      for (int resource = 0; resource < problem.num_resources(); ++resource) {
        Bytes left = 0;
        for (const Amounts& cap : problem.caps) left += cap[resource];
        for (std::size_t unit = 0; unit < guide.size(); ++unit) {
          ASSERT_GE(guide[unit], 0);
          ASSERT_LT(guide[unit], std::ssize(problem.units[unit].choices));
          left -= all_bytes(problem, problem.units[unit].choices[guide[unit]], resource);
        }
        fits &= left >= 0;
      }
      ++num_guides;
      num_fitting += fits;
    }
  }
  EXPECT_GT(num_guides, 200);
  EXPECT_GT(num_fitting, num_guides * 9 / 10);
}

// A tree whose leaves are those of another one, or which leaves choices out, proves nothing.
TEST(ChoiceTree, IsRefusedWhereItLies) {
  const PlacementProblem problem = one_of_two();
  const PlacementGroups units = make_placement_groups(problem, kUnitByUnit);
  const PlacementBound honest = as_bound(problem, choice_tree_bound(units, {}, {}));
  ASSERT_EQ(honest.cases.front().choices.nodes.size(), 3);
  const auto holds = [&](const auto& change) {
    PlacementBound bound = honest;
    change(bound.cases.front().choices);
    return verify_bound(problem, bound).holds;
  };
  EXPECT_TRUE(holds([](ChoiceWitness&) {}));
  EXPECT_FALSE(holds([](ChoiceWitness& tree) { tree.nodes[0].unit = 2; }));
  EXPECT_FALSE(holds([](ChoiceWitness& tree) { tree.nodes[0].choices = {0, 1}; }));
  EXPECT_FALSE(holds([](ChoiceWitness& tree) { tree.nodes[0].choices.clear(); }));
  EXPECT_FALSE(holds([](ChoiceWitness& tree) { tree.nodes[0].first_child = 0; }));
  EXPECT_FALSE(holds([](ChoiceWitness& tree) { tree.nodes[0].first_child = 2; }));
  EXPECT_FALSE(holds([](ChoiceWitness& tree) { tree.nodes[1].proof = -1; }));
  EXPECT_FALSE(holds([](ChoiceWitness& tree) { tree.nodes.clear(); }));
  EXPECT_FALSE(holds([](ChoiceWitness& tree) { tree.proofs.front().price.clear(); }));
  EXPECT_FALSE(holds([](ChoiceWitness& tree) { tree.proofs.front().mean = -1; }));
  EXPECT_FALSE(holds([](ChoiceWitness& tree) {
    for (ChoiceProof& proof : tree.proofs) proof = {proof.target, 0, {}, {}};
  }));
}

}  // namespace
}  // namespace plimsoll::balance
