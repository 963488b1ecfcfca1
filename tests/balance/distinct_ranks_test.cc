// Choices whose pieces want distinct ranks: every search keeps them apart, no bound is above what
// they allow, and what has too few ranks is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "balance/balanced_placement.h"
#include "balance/contents/content_model.h"
#include "balance/moves/annealing_moves.h"
#include "balance/moves/placement_annealing.h"
#include "balance/moves/placement_backtracking.h"
#include "balance/moves/placement_completion.h"
#include "balance/moves/placement_construction.h"
#include "balance/moves/placement_dive.h"
#include "balance/moves/placement_exchange.h"
#include "balance/moves/placement_shake.h"
#include "balance/moves/rank_dealing.h"
#include "balance/prices/target_filter.h"
#include "balance/problem/placement_judge.h"
#include "balance/problem/placement_state.h"
#include "balance/random_placements.h"
#include "balance/verify/verify_bound.h"

namespace plimsoll::balance::distinct_ranks {
namespace {

using ::testing::Contains;
using testing::Enumerator;
using ::testing::HasSubstr;
using testing::InstanceKind;
using ::testing::IsEmpty;
using testing::kind_of_seed;
using testing::random_problem;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

UnitChoice pieces(std::int64_t count, double load, bool distinct, Bytes bytes = 1) {
  UnitChoice choice{Spread::kDevice, {{count, {load}, {bytes, 0, 0}}}, 1, {}};
  choice.distinct_ranks = distinct;
  return choice;
}

PlacementProblem problem_of(int num_ranks, std::vector<UnitChoice> choices) {
  PlacementProblem problem;
  problem.num_ranks = num_ranks;
  problem.ranks_per_host = num_ranks;
  problem.resources = testing::three_memories();
  problem.caps.assign(static_cast<std::size_t>(num_ranks), {100, 0, 0});
  for (UnitChoice& choice : choices) problem.units.push_back({"", {std::move(choice)}, {}});
  return problem;
}

BalanceOutcome solve(const PlacementProblem& problem, const BalanceOptions& options = {}) {
  SearchOptions search;
  search.effort = 20000;
  return balance(problem, options, search, {});
}

InstanceKind distinct_kind(std::uint64_t seed) {
  InstanceKind kind = kind_of_seed(seed);
  kind.distinct = true;
  return kind;
}

//   rank 0  |aaaaa|bbbbbbbbbb|        together  |aaaaa|aaaaa|
//   rank 1  |aaaaa|                             |bbbbbbbbbb|
TEST(DistinctRanks, CostWhatTheyCost) {
  for (const bool distinct : {false, true}) {
    const BalanceOutcome found =
        solve(problem_of(2, {pieces(2, 5, distinct), pieces(1, 10, false)}));
    EXPECT_EQ(found.outcome.status, SolveStatus::kOptimal);
    EXPECT_EQ(found.outcome.certificate.objective, distinct ? 15 : 10);
  }
}

//   rank 0  |aaaa|bbbb|cc|      rank 1  |aaaa|bbbb|cc|
TEST(DistinctRanks, AreOfEveryUnitAlone) {
  const PlacementProblem problem =
      problem_of(2, {pieces(2, 4, true), pieces(2, 4, true), pieces(2, 2, false)});
  const BalanceOutcome found = solve(problem);
  ASSERT_TRUE(found.outcome.plan);
  EXPECT_EQ(found.outcome.certificate.objective, 10);
  EXPECT_THAT(evaluate(problem, *found.outcome.plan).faults, IsEmpty());
}

//   rank 0  |aa|     rank 1  |aa|     and no third one: the whole unit, |aaaaaa|, is what is left
TEST(DistinctRanks, LeaveOutWhatHasMorePieces) {
  PlacementProblem problem = problem_of(2, {pieces(3, 2, true)});
  problem.units[0].choices.push_back(pieces(1, 7, false));
  const BalanceOutcome found = solve(problem);
  EXPECT_EQ(found.outcome.status, SolveStatus::kOptimal);
  EXPECT_EQ(found.outcome.certificate.objective, 7);
  EXPECT_EQ(make_placement_items(problem).num_choices(0), 1);
  problem.units[0].choices.push_back(pieces(3, 2, false));
  EXPECT_EQ(solve(problem).outcome.certificate.objective, 4);
}

// A lighter choice that wants ranks does not stand for a heavier one that does not.
TEST(DistinctRanks, DominateNoneThatMayShare) {
  PlacementProblem problem = problem_of(2, {pieces(2, 4, true), pieces(1, 10, false)});
  problem.units[0].choices.push_back(pieces(2, 5, false));
  EXPECT_EQ(solve(problem).outcome.certificate.objective, 10);
  problem = problem_of(2, {pieces(3, 2, true)});  // which cannot stand
  const PlacementBound refusal = solve(problem).bound;
  EXPECT_EQ(verify_bound(problem, refusal).value, kInfinity);
  problem.units[0].choices.push_back(pieces(3, 2.5, false));
  EXPECT_EQ(solve(problem).outcome.certificate.objective, 5);
  EXPECT_LE(verify_bound(problem, refusal).value, 5);
}

// Units that differ in nothing else are none that may change places.
TEST(DistinctRanks, TellGroupsApart) {
  PlacementProblem problem =
      problem_of(2, {pieces(3, 2, true), pieces(3, 2, false), pieces(1, 14, false)});
  problem.units[0].choices.push_back(pieces(1, 20, false));
  problem.units[1].choices.push_back(pieces(1, 20, false));
  const BalanceOutcome found = solve(problem);
  EXPECT_EQ(found.outcome.certificate.objective, 20);
  EXPECT_LE(found.bound.value, 20 * (1 + 1e-9));
}

TEST(DistinctRanks, AreNoContents) {
  PlacementProblem problem = problem_of(2, {pieces(2, 4, true), pieces(2, 3, false)});
  problem.units[0].choices.push_back(pieces(1, 9, false));
  const PlacementGroups groups = make_placement_groups(problem);
  const auto model = make_content_model(problem, groups, filter_by_target(groups, 1e9),
                                        std::vector<double>(groups.ranks.accounts.size(), 0));
  ASSERT_TRUE(model);
  EXPECT_EQ(model->items.size(), 2);
  for (const ContentItem& item : model->items) {
    const ContentClass& c = model->classes[static_cast<std::size_t>(item.class_index)];
    const auto choice =
        static_cast<std::size_t>(c.item_choice.front()[static_cast<std::size_t>(item.number)]);
    const auto unit = static_cast<std::size_t>(c.units.front());
    EXPECT_FALSE(problem.units[unit].choices[choice].distinct_ranks);
  }
}

TEST(DistinctRanks, AreRefusedWhereRanksAreTooFew) {
  PlacementProblem problem = problem_of(2, {pieces(3, 2, true)});
  const auto expect_refused = [&](const std::string& why) {
    const BalanceOutcome found = solve(problem);
    EXPECT_EQ(found.outcome.status, SolveStatus::kInfeasible);
    EXPECT_EQ(found.bound.stuck_unit, 0);
    EXPECT_TRUE(verify_bound(problem, found.bound).holds);
    EXPECT_EQ(verify_bound(problem, found.bound).value, kInfinity);
    ASSERT_FALSE(found.outcome.explanation.lines.empty());
    EXPECT_THAT(found.outcome.explanation.lines, Contains(HasSubstr(why)));
  };
  expect_refused("3 pieces need a rank each, and it may use 2");
  problem = problem_of(4, {pieces(3, 2, true)});
  problem.units[0].allowed_ranks = {1, 3};
  expect_refused("3 pieces need a rank each, and it may use 2");
  // Ranks enough, and on the third fullest 20 bytes are missing.
  problem = problem_of(4, {pieces(3, 2, true, 70)});
  problem.caps[1][0] = 50;
  problem.caps[2][0] = 10;
  expect_refused("needs 20 B (20 bytes) more of hbm");
}

TEST(DistinctRanks, AreJudged) {
  PlacementProblem problem = problem_of(3, {pieces(2, 5, true)});
  EXPECT_THAT(evaluate(problem, {{{0, {1, 2}}}}).faults, IsEmpty());
  EXPECT_THAT(evaluate(problem, {{{0, {1, 1}}}}).faults,
              ::testing::ElementsAre(HasSubstr("several on rank 1")));
  EXPECT_TRUE(validate(problem));
  problem.units[0].choices[0] = {Spread::kUniform, {{3, {1}, {}}}, 1, {}, true};
  EXPECT_EQ(validate(problem).error().code, ErrorCode::kConflict);
}

TEST(DistinctRanks, TakeStartsThatKeepThem) {
  const PlacementProblem problem =
      problem_of(2, {pieces(2, 5, true), pieces(1, 10, false), pieces(1, 1, false)});
  BalanceOptions options;
  options.starts = {{{{0, {0, 1}}, {0, {0}}, {0, {1}}}}, {{{0, {0, 0}}, {0, {1}}, {0, {0}}}}};
  options.uses_constructions = options.uses_annealing = options.uses_dives = false;
  options.uses_patterns = options.uses_exchanges = false;
  const BalanceOutcome found = solve(problem, options);
  ASSERT_TRUE(found.outcome.plan);
  EXPECT_EQ(*found.outcome.plan, options.starts[0]);
}

// Whoever places pieces: what comes out is allowed.
TEST(DistinctRanks, AreKeptByEverySearch) {
  int num_placed[6] = {};
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    InstanceKind kind = distinct_kind(seed);
    kind.charges = false;
    kind.tight_memory = kind.tight_memory && seed % 2 == 0;
    const PlacementProblem problem = random_problem(seed, kind);
    const PlacementItems items = make_placement_items(problem);
    if (!items.empty_units.empty()) continue;
    EffortClock clock{RunContext{}};
    const auto judge = [&](int search, const std::optional<UnitPlacements>& placements) {
      if (!placements) return;
      ++num_placed[search];
      EXPECT_THAT(evaluate(problem, *placements).faults, IsEmpty()) << search;
    };
    ConstructionOptions of_construction;
    of_construction.target = 5;
    judge(0, construct(items, of_construction));
    CompletionOptions of_completion;
    of_completion.target = 5;
    if (items.stride == 1) judge(1, complete_bins(items, of_completion));
    const auto first = find_by_backtracking(items, 10000, clock);
    judge(2, first);
    if (!first) continue;
    const Start start{*first, evaluate(problem, *first).objective};
    AnnealingOptions of_annealing;
    of_annealing.max_moves = 3000;
    of_annealing.moves_a_round = 300;
    judge(3, anneal(items, start, of_annealing, clock).best.placements);
    if (!is_exchangeable(items)) continue;
    ExchangeOptions of_exchange;
    of_exchange.max_effort = 200;
    judge(4, exchange(items, start, of_exchange, clock).placements);
    judge(5, shake(items, start, of_exchange, clock).placements);
  }
  for (const int count : num_placed) EXPECT_GT(count, 100);
}

// What moves leave behind is allowed at every step, not only where it is better.
TEST(DistinctRanks, AreKeptByTheState) {
  const PlacementProblem problem = problem_of(3, {pieces(2, 5, true), pieces(2, 5, false)});
  const PlacementItems items = make_placement_items(problem);
  PlacementState state(items);
  state.take(0, 0);
  state.take(1, 1);
  state.put(0, 0, 1);
  state.put(1, 0, 1);
  EXPECT_FALSE(state.can_put(0, 0, 1, 1));
  EXPECT_TRUE(state.can_put(0, 0, 1, 2));
  EXPECT_TRUE(state.can_put(1, 1, 1, 1));
  EXPECT_TRUE(state.can_put(0, 0, 0, 1));  // itself is no other
}

// Problems with a placement of many pieces that want ranks, some of them without bytes.
std::optional<std::pair<PlacementProblem, UnitPlacements>> placed_problem(std::uint64_t seed,
                                                                          int num_barriers) {
  InstanceKind kind;
  kind.distinct = true;
  kind.barriers = num_barriers > 1;
  PlacementProblem problem = random_problem(seed, kind);
  for (Unit& unit : problem.units) {
    for (UnitChoice& choice : unit.choices) {
      for (PieceRun& run : choice.runs) {
        if (seed % 2 == 0) run.bytes = {};
      }
    }
    UnitChoice pair = unit.choices.front();
    pair.runs.front().count = 2;
    pair.distinct_ranks = true;
    unit.choices.insert(unit.choices.begin(), std::move(pair));
  }
  EffortClock clock{RunContext{}};
  const PlacementItems items = make_placement_items(problem);
  std::optional<UnitPlacements> placements = find_by_backtracking(items, 10000, clock);
  if (!placements) return std::nullopt;
  return std::pair(std::move(problem), *std::move(placements));
}

TEST(DistinctRanks, AreKeptByEveryMove) {
  int num_moves = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    const auto placed = placed_problem(seed, 1 + static_cast<int>(seed / 2 % 2));
    if (!placed) continue;
    const auto& [problem, placements] = *placed;
    const PlacementItems items = make_placement_items(problem);
    AnnealingMoves moves(items, seed, -1);
    moves.state().assign(placements);
    moves.energy().aim(evaluate(problem, placements).objective, 3e-3);
    for (int i = 0; i < 300; ++i) {
      if (!moves.propose(1e9)) continue;  // so hot that all are accepted
      ++num_moves;
      ASSERT_THAT(evaluate(problem, moves.state().placements()).faults, IsEmpty());
    }
  }
  EXPECT_GT(num_moves, 1000);
}

//   rank 0  |aaaaa|bbbbbbbbbb|      rank 1  |aaaaa|      and not    |bbbbbbbbbb|   |aaaaa|aaaaa|
TEST(DistinctRanks, AreKeptByEveryDeal) {
  for (const bool distinct : {false, true}) {
    const PlacementProblem problem = problem_of(2, {pieces(2, 5, distinct), pieces(1, 10, false)});
    const PlacementItems items = make_placement_items(problem);
    PlacementState state(items);
    state.assign({{{0, {0, 1}}, {0, {0}}}});
    EffortClock clock{RunContext{}};
    RankDealing dealing(state, clock);
    dealing.aim(10);
    EXPECT_EQ(dealing.deal(0, 1), !distinct);
    EXPECT_EQ(state.place(0) == state.place(1), !distinct);
  }
}

// Units that have such a choice have no other.
void leave_no_other(PlacementProblem& problem) {
  for (Unit& unit : problem.units) {
    const auto is_free = [](const UnitChoice& choice) { return !choice.distinct_ranks; };
    if (std::all_of(unit.choices.begin(), unit.choices.end(), is_free)) continue;
    std::erase_if(unit.choices, [](const UnitChoice& choice) {
      return !choice.distinct_ranks || choice.runs.front().count == 1;
    });
    if (unit.choices.empty()) unit.choices = {pieces(2, 1, true)};
  }
}

// Brute force: never above the bound, and mostly found and proved.
TEST(DistinctRanks, AgreeWithEnumeration) {
  int num_feasible = 0, num_best = 0, num_refused = 0, num_dearer = 0;
  for (std::uint64_t seed = 1000; seed < 1200; ++seed) {
    SCOPED_TRACE(seed);
    InstanceKind kind = distinct_kind(seed);
    kind.uneven_pieces = false;
    if (seed % 2 == 0) kind.charges = kind.classes = kind.barriers = false;
    PlacementProblem problem = random_problem(seed, kind);
    if (seed % 2 == 0) leave_no_other(problem);
    const double optimum = Enumerator(problem).find();
    const BalanceOutcome found = solve(problem);
    const Certificate& certificate = found.outcome.certificate;
    EXPECT_LE(certificate.lower_bound.value_or(0), optimum * (1 + 1e-9));
    const BoundVerdict verdict = verify_bound(problem, found.bound);
    EXPECT_TRUE(verdict.holds) << verdict.fault;
    EXPECT_LE(verdict.value, optimum * (1 + 1e-9));
    EXPECT_TRUE(found.outcome.status != SolveStatus::kInfeasible || optimum == kInfinity);
    num_refused += found.outcome.status == SolveStatus::kInfeasible;
    num_feasible += optimum < kInfinity;
    for (Unit& unit : problem.units) {
      for (UnitChoice& choice : unit.choices) choice.distinct_ranks = false;
    }
    const double relaxed = Enumerator(problem).find();  // a law: more is allowed, no less is best
    EXPECT_LE(relaxed, optimum);
    num_dearer += relaxed < optimum * (1 - 1e-9);
    if (!found.outcome.plan) continue;
    EXPECT_GE(certificate.objective, optimum * (1 - 1e-9));
    const bool is_best = certificate.objective <= optimum * (1 + 1e-6);
    EXPECT_TRUE(is_best || found.outcome.status != SolveStatus::kOptimal);
    num_best += is_best;
  }
  EXPECT_GE(num_best * 100, num_feasible * 90);
  EXPECT_GT(num_refused, 5);
  EXPECT_GT(num_dearer, 10);
}

// A search to the end, with each of its rules off: nothing below the optimum, and the
// optimum itself.
TEST(DistinctRanks, AreSearchedToTheEnd) {
  std::int64_t nodes[4] = {};
  int num_refuted = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    InstanceKind kind;
    kind.distinct = true;
    kind.repeated = seed % 2 == 0;
    kind.tight_memory = seed % 3 == 0;
    kind.unequal_caps = seed % 5 == 0;
    const PlacementProblem problem = random_problem(seed, kind);
    const double optimum = Enumerator(problem).find();
    if (optimum == kInfinity) continue;
    for (const double factor : {1 - 1e-6, 1 + 1e-6}) {
      const double target = problem.floor_ms + (optimum - problem.floor_ms) * factor;
      for (int rule = 0; rule < 4; ++rule) {
        DiveOptions options;
        options.target = target;
        options.uses_mean_rule = rule != 1;
        options.uses_rank_symmetry = rule != 2;
        options.uses_unit_symmetry = rule != 3;
        EffortClock clock{RunContext{}};
        const DiveResult result = dive(problem, options, clock);
        nodes[rule] += result.num_nodes;
        EXPECT_EQ(result.end, factor > 1 ? DiveEnd::kFound : DiveEnd::kRefuted) << rule;
        EXPECT_TRUE(result.end != DiveEnd::kFound || result.is_allowed) << rule;
        num_refuted += result.end == DiveEnd::kRefuted;
      }
    }
  }
  EXPECT_GT(num_refuted, 100);
  for (int rule = 1; rule < 4; ++rule) EXPECT_GT(nodes[rule], nodes[0]) << rule;
}

// Ranks of equal load are not alike where one of them holds a piece of the unit:
//   rank 0  |ccccc|aa|
//   rank 1  |dddd|eee|a|
TEST(DistinctRanks, TellRanksOfEqualLoadApart) {
  PlacementProblem problem = problem_of(
      2, {pieces(1, 5, false), pieces(1, 4, false), pieces(1, 3, false), pieces(1, 2, true)});
  problem.units[3].choices[0].runs.push_back({1, {1}, {1, 0, 0}});
  DiveOptions options;
  options.target = 8;
  EffortClock clock{RunContext{}};
  EXPECT_EQ(dive(problem, options, clock).end, DiveEnd::kFound);
  options.target = 7.9;
  EXPECT_EQ(dive(problem, options, clock).end, DiveEnd::kRefuted);
}

// Nor may a unit that wants ranks change places with one that does not. Rank 1 has no room for the
// bytes of pairs:
//   rank 0  |cccccc|     rank 1  |uuuuuu|     rank 2  |vv+|vv+|e|
TEST(DistinctRanks, TellUnitsApart) {
  PlacementProblem problem = problem_of(3, {pieces(1, 6, false), pieces(1, 6, false, 0),
                                            pieces(1, 6, false, 0), pieces(1, 1, false)});
  problem.units[1].choices.push_back(pieces(2, 2.5, true, 40));
  problem.units[2].choices.push_back(pieces(2, 2.5, false, 40));
  problem.caps[0] = problem.caps[1] = {10, 0, 0};
  DiveOptions options;
  options.target = 6;
  EffortClock clock{RunContext{}};
  EXPECT_EQ(dive(problem, options, clock).end, DiveEnd::kFound);
}

TEST(DistinctRanks, GiveEqualPlansForEqualInput) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    const PlacementProblem problem = random_problem(seed, distinct_kind(seed));
    const BalanceOutcome first = solve(problem);
    EXPECT_EQ(solve(problem).outcome.plan, first.outcome.plan);
    EXPECT_EQ(solve(problem).effort, first.effort);
  }
}

}  // namespace
}  // namespace plimsoll::balance::distinct_ranks
