#include "plimsoll/checkpoint/operator_choices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "checkpoint/model/unit_points.h"
#include "checkpoint/random_trees.h"
#include "checkpoint/vectors.h"
#include "plimsoll/checkpoint/frontier_search.h"

namespace plimsoll::checkpoint {
namespace {

using bench::Random;
using ::testing::ElementsAre;

SACStats table(std::vector<double> runtimes, std::vector<Bytes> memory) {
  SACStats stats;
  stats.func_names.assign(runtimes.size(), "mm");
  stats.runtimes = std::move(runtimes);
  stats.memory = std::move(memory);
  return stats;
}

//  op       0   1   2   3        3 makes the output: never saved, and recomputed by nobody.
//  ms       4   2   5   9        Of {0, 1, 2} saving 2 (8 B) is beaten by saving 0 and 1 (6 B, 6
//  ms). bytes    4   2   8   0
TEST(OperatorChoices, KeepsWhatNothingBeats) {
  const OperatorOptions found = operator_options(table({4, 2, 5, 9}, {4, 2, 8, 0}));
  EXPECT_TRUE(found.is_complete);
  std::vector<std::pair<Bytes, double>> points;
  for (const OperatorOption& option : found.options) {
    points.emplace_back(option.kept, option.recompute_ms);
    EXPECT_EQ(option.save[3], 0);
  }
  EXPECT_THAT(points,
              ElementsAre(std::pair(0, 11.), std::pair(2, 9.), std::pair(4, 7.), std::pair(6, 5.),
                          std::pair(10, 4.), std::pair(12, 2.), std::pair(14, 0.)));
  EXPECT_THAT(found.options[3].save, ElementsAre(1, 1, 0, 0));
}

TEST(OperatorChoices, SaveTheEarlierOfTwoAlike) {
  const OperatorOptions found = operator_options(table({3, 3, 1}, {5, 5, 0}));
  ASSERT_EQ(found.options.size(), 3u);
  EXPECT_THAT(found.options[1].save, ElementsAre(1, 0, 0));
}

TEST(OperatorChoices, TreatsAlikeWhatMustBe) {
  SACStats stats = table({1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1});
  stats.rand_ops = {0, 3};
  stats.inplace_ops = {{2, 1}, {4, 4}};  // 2 changes 1's output, 4 something from outside
  stats.view_like_ops = {5};
  stats.saved_autograd_ops = {0, 4};
  for (const OperatorOption& option : operator_options(stats).options) {
    EXPECT_EQ(option.save[0], option.save[3]);
    EXPECT_EQ(option.save[1], 0);
    EXPECT_EQ(option.save[2], 0);
    EXPECT_EQ(option.save[4], 1);
    EXPECT_EQ(option.save[5], 0);
    EXPECT_EQ(option.save[6], 0);
    Bytes kept = 0, extra = 0;
    double ms = 0;
    for (int op = 0; op < 7; ++op) {
      kept += option.save[op];
      extra += option.save[op] != 0 && op != 0 && op != 4 ? 1 : 0;
      ms += op != 6 && option.save[op] == 0 ? 1 : 0;
    }
    EXPECT_EQ(option.kept, kept);
    EXPECT_EQ(option.kept_extra, extra);
    EXPECT_EQ(option.recompute_ms, ms);
  }
  EXPECT_EQ(operator_options(stats).options.size(), 2u);  // the random ones are the only choice
  stats.force_store_random = true;
  ASSERT_EQ(operator_options(stats).options.size(), 1u);
  EXPECT_THAT(operator_options(stats).options[0].save, ElementsAre(1, 0, 0, 1, 1, 0, 0));
  OperatorRules rules;
  rules.early_stop = true;  // nothing after operator 4 is needed again, view 5 neither
  EXPECT_EQ(operator_options(stats, rules).options[0].recompute_ms, 2);
  EXPECT_EQ(operator_options(SACStats{}).options.size(), 1u);
}

// 3 makes the output and never runs again; 1 changes what 0 made, and must.
TEST(OperatorChoices, StoreRandomOperatorsWhereThatGivesThemTheirNumbersBack) {
  SACStats stats = table({1, 1, 1, 1}, {1, 1, 1, 1});
  stats.force_store_random = true;
  stats.rand_ops = {2, 3};
  for (const OperatorOption& option : operator_options(stats).options) {
    EXPECT_EQ(option.save[2], 1);
    EXPECT_EQ(option.save[3], 0);
  }
  stats.rand_ops = {1, 2};
  stats.inplace_ops = {{1, 0}};
  for (const OperatorOption& option : operator_options(stats).options) {
    EXPECT_THAT(option.save, ElementsAre(0, 0, 0, 0));
  }
}

TEST(OperatorChoices, EndAnEarlyStopWithTheLastSavedOperatorWhereverItIsListed) {
  SACStats stats = table({1, 2, 4, 8}, {1, 1, 1, 0});
  stats.saved_autograd_ops = {2, 0};
  OperatorRules rules;
  rules.early_stop = true;
  EXPECT_EQ(operator_options(stats, rules).options[0].recompute_ms, 1 + 2 + 4);
}

//  op       0   1   2        2 makes the output. Saving 0 keeps fewer bytes than saving 1 and saves
//  ms       4   4   9        as much time, but autograd would not have kept it.
//  bytes    2   3   0
TEST(OperatorChoices, KeepThoseOfFewerCopiesWhereCopiesCount) {
  SACStats stats = table({4, 4, 9}, {2, 3, 0});
  stats.saved_autograd_ops = {1};
  const auto points = [&stats](bool counts_copies) {
    OperatorRules rules;
    rules.counts_copies = counts_copies;
    std::vector<std::tuple<Bytes, Bytes, double>> found;
    for (const OperatorOption& option : operator_options(stats, rules).options) {
      found.emplace_back(option.kept, option.kept_extra, option.recompute_ms);
    }
    return found;
  };
  EXPECT_THAT(points(false),
              ElementsAre(std::tuple(0, 0, 8.), std::tuple(2, 2, 4.), std::tuple(5, 2, 0.)));
  EXPECT_THAT(points(true), ElementsAre(std::tuple(0, 0, 8.), std::tuple(2, 2, 4.),
                                        std::tuple(3, 0, 4.), std::tuple(5, 2, 0.)));
}

TEST(OperatorChoices, ThinOnlyBesideWhatKeepsNoMoreCopies) {
  Random random(5);
  SACStats stats;
  for (int op = 0; op < 12; ++op) {
    stats.func_names.push_back("op");
    stats.memory.push_back(random.whole(1000, 9000));
    stats.runtimes.push_back(1e-4 * static_cast<double>(stats.memory.back()) * random.in(1, 1.05));
    if (op % 2 == 0) stats.saved_autograd_ops.push_back(op);
  }
  OperatorRules rules;
  rules.counts_copies = true;
  rules.max_options = 1u << 20;
  const OperatorOptions all = operator_options(stats, rules);
  ASSERT_TRUE(all.is_complete);
  rules.max_options = 100;
  const OperatorOptions some = operator_options(stats, rules);
  EXPECT_FALSE(some.is_complete);
  ASSERT_LE(some.options.size(), 100u + 13);  // and vertices
  ASSERT_LT(some.options.size(), all.options.size());
  for (const OperatorOption& option : all.options) {
    EXPECT_TRUE(std::any_of(some.options.begin(), some.options.end(), [&](const auto& kept) {
      return kept.kept <= option.kept && kept.kept_extra <= option.kept_extra &&
             kept.recompute_ms <= option.recompute_ms + some.loss_ms;
    }));
  }
}

TEST(OperatorChoices, EqualTryingEverySetOfOperators) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const int n = static_cast<int>(random.whole(1, 10));
    SACStats stats;
    for (int op = 0; op < n; ++op) {
      stats.func_names.push_back("op");
      stats.runtimes.push_back(.125 * static_cast<double>(random.whole(0, 20)));
      stats.memory.push_back(op + 1 == n ? 0 : random.whole(0, 6));
      if (op > 0 && op + 1 < n && random.chance(.15)) {
        stats.inplace_ops.emplace_back(op, static_cast<int>(random.whole(0, op)));
      } else if (random.chance(.2)) {
        stats.rand_ops.push_back(op);
      }
    }
    stats.force_store_random = random.chance(.2);
    // In-place classes, by repeated relaxation.
    std::vector<int> head(n);
    for (int op = 0; op < n; ++op) head[op] = op;
    for (const auto& [op, parent] : stats.inplace_ops) head[op] = head[parent];
    std::map<int, int> size;
    for (int op = 0; op < n; ++op) ++size[head[op]];
    const int output = output_operator(stats);
    const auto is_random = [&](int op) {
      return std::find(stats.rand_ops.begin(), stats.rand_ops.end(), op) != stats.rand_ops.end();
    };
    bool random_is_discarded = false;  // one of them cannot be saved
    bool stores_random = stats.force_store_random;
    for (int op : stats.rand_ops) {
      random_is_discarded |= size[head[op]] > 1 || op == output;
      stores_random &= size[head[op]] == 1 || op == output;
    }
    const auto is_legal = [&](unsigned set) {
      bool has_saved = false, has_discarded = false;
      for (int op = 0; op < n; ++op) {
        const bool is_saved = (set >> op & 1) != 0;
        bool is_bound = size[head[op]] > 1 || op == output;
        // In-place operators tie random ones that they share a class with to all random ones.
        if (is_random(op) && !stores_random) is_bound |= random_is_discarded;
        if (is_bound && is_saved) return false;
        const bool is_own_parent = std::find(stats.inplace_ops.begin(), stats.inplace_ops.end(),
                                             std::pair(op, op)) != stats.inplace_ops.end();
        if (!is_bound && !is_saved && (is_own_parent || (stores_random && is_random(op)))) {
          return false;
        }
        if (is_random(op) && !stores_random) {
          (is_saved ? has_saved : has_discarded) = true;
        }
      }
      return !(has_saved && has_discarded);
    };
    std::map<Bytes, double> fastest;
    for (unsigned set = 0; set < 1u << n; ++set) {
      if (!is_legal(set)) continue;
      Bytes kept = 0;
      double ms = 0;
      for (int op = 0; op < n; ++op) {
        if ((set >> op & 1) != 0) {
          kept += stats.memory[op];
        } else if (op != output) {
          ms += stats.runtimes[op];
        }
      }
      const auto [at, is_new] = fastest.emplace(kept, ms);
      if (!is_new) at->second = std::min(at->second, ms);
    }
    std::vector<std::pair<Bytes, double>> expected, found;
    for (const auto& [kept, ms] : fastest) {
      if (expected.empty() || ms < expected.back().second - 1e-12) expected.emplace_back(kept, ms);
    }
    for (const OperatorOption& option : operator_options(stats).options) {
      found.emplace_back(option.kept, option.recompute_ms);
    }
    EXPECT_EQ(found, expected);
  }
}

TEST(OperatorChoices, ThinOnlyWhatSavesLittle) {
  Random random(3);
  SACStats stats;
  for (int op = 0; op < 16; ++op) {
    stats.func_names.push_back("op");
    stats.memory.push_back(random.whole(1000, 9000));
    stats.runtimes.push_back(1e-4 * static_cast<double>(stats.memory.back()) * random.in(1, 1.05));
  }
  const OperatorOptions all = operator_options(stats, {.max_options = 1u << 20});
  ASSERT_TRUE(all.is_complete);
  ASSERT_GT(all.options.size(), 200u);
  OperatorRules rules;
  rules.max_options = 100;
  const OperatorOptions some = operator_options(stats, rules);
  EXPECT_FALSE(some.is_complete);
  EXPECT_LE(some.options.size(), 100u + 17);  // and vertices
  EXPECT_EQ(some.options.front(), all.options.front());
  for (const OperatorOption& option : all.options) {
    double best = all.options.front().recompute_ms;
    for (const OperatorOption& kept : some.options) {
      if (kept.kept <= option.kept) best = kept.recompute_ms;
    }
    EXPECT_LT(best - option.recompute_ms, .08 * all.options.front().recompute_ms);
  }
}

// The four layers of PyTorch's own test model with their operator tables, at 1.6 GiB.
TEST(OperatorChoices, PlanTheTestModelBetterThanItsFit) {
  ModuleStats stats = stats_from_instance(golden().at("sac_instances").at(2));
  SACStats block;
  for (const auto& op : golden().at("block_op_stats").at("ops")) {
    const int index = static_cast<int>(block.func_names.size());
    block.func_names.push_back(op.at(0));
    block.runtimes.push_back(op.at(1));
    block.memory.push_back(op.at(2));
    if (op.at(3) != 0) block.view_like_ops.push_back(index);
    if (op.at(4) != 0) block.rand_ops.push_back(index);
  }
  EXPECT_EQ(operator_options(block).options.size(), 21u);
  stats.sac_stats = {block};
  MemoryModel model;
  model.world_size = 4;
  model.costs = DiscardModel::kOperators;
  for (int layer = 0; layer < 4; ++layer) {
    model.ac_units.push_back("Transformer.layers." + std::to_string(layer));
    stats.sac_stats_of[model.ac_units.back()] = 0;
  }
  const CheckpointProblem problem = problem_from(stats, model);
  const auto budget = static_cast<Bytes>(1.6 * static_cast<double>(kGiB));
  const auto outcome = plan_for_budget(problem, budget);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->status, SolveStatus::kOptimal);
  EXPECT_NEAR(outcome->certificate.objective, 6.1905, 1e-4);
  EXPECT_LE(outcome->plan->figures.peak, budget);
  for (const CheckpointUnit& unit : outcome->plan->policy.units) {
    EXPECT_EQ(unit.kind, UnitKind::kSelective);
    ASSERT_EQ(unit.ops.size(), 40u);
    Bytes kept = 0, inside = 0;
    double ms = 0;
    for (const OperatorChoice& op : unit.ops) {
      EXPECT_EQ(op.op, block.func_names[op.index]);
      if (op.save) kept += block.memory[op.index];
      if (!op.save && op.index != output_operator(block)) ms += block.runtimes[op.index];
    }
    for (const ModuleInfo& module : stats.mod_stats) {
      if (module.fqn == unit.fqns.front()) inside = module.act_fw_per_module;
    }
    EXPECT_EQ(unit.discarded, inside - kept);
    EXPECT_NEAR(unit.recompute_ms, ms, 1e-12);
    EXPECT_EQ(unit.ops[39].op, "add");
    EXPECT_EQ(unit.ops[39].nth, 1);
  }
}

TEST(OperatorChoices, SayWhenSomeWereLeftOut) {
  ModuleStats stats = stats_from_instance(golden().at("sac_instances").at(0));
  Random random(3);
  SACStats big;
  for (int op = 0; op < 24; ++op) {
    big.func_names.push_back("op");
    big.memory.push_back(random.whole(1000, 9000) * kMiB / 400);
    big.runtimes.push_back(1e-8 * static_cast<double>(big.memory.back()) * random.in(1, 1.05));
  }
  stats.sac_stats = {big};
  stats.sac_stats_of["R.a"] = 0;
  MemoryModel model;
  model.costs = DiscardModel::kOperators;
  const CheckpointProblem problem = problem_from(stats, model);
  EXPECT_EQ(problem.thinned, std::vector{1});
  CheckpointProblem whole = problem;
  whole.thinned.clear();
  whole.units[0].loss_ms = 0;
  set_points(model, operator_options(big, {.max_options = 1u << 24}).options, whole.units[0]);
  ASSERT_GT(whole.units[0].points.size(), 4 * problem.units[0].points.size());
  for (Bytes budget = 2000 * kMiB; budget <= 2600 * kMiB; budget += 50 * kMiB) {
    SCOPED_TRACE(budget);
    const auto outcome = plan_for_budget(problem, budget);
    const auto best = plan_for_budget(whole, budget);
    ASSERT_TRUE(outcome && outcome->plan && best && best->plan);
    EXPECT_LE(*outcome->certificate.lower_bound, best->certificate.objective + 1e-9);
    EXPECT_GE(outcome->certificate.objective, best->certificate.objective - 1e-9);
    const bool is_proved = *outcome->certificate.gap() <= 1e-6;
    EXPECT_EQ(outcome->status, is_proved ? SolveStatus::kOptimal : SolveStatus::kFeasible);
    EXPECT_EQ(outcome->warnings.size(), is_proved ? 0u : 1u);  // silent where proved
  }
  const auto curve = plan_frontier(problem);
  ASSERT_TRUE(curve && curve->plan);
  EXPECT_EQ(curve->status, SolveStatus::kFeasible);
  EXPECT_GT(*curve->certificate.gap(), 0);
  ASSERT_EQ(curve->warnings.size(), 1u);
  EXPECT_EQ(curve->warnings[0].place, "R.a");
  EXPECT_EQ(curve->warnings[0].message.find("within "), 0u);
}

// Two modules of nine operators each and none, against every set of both.
TEST(OperatorChoices, LeftOutAreTriedWhereTheyCouldBeBetter) {
  int num_better = 0, num_optimal = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    CheckpointProblem problem = bench::problem_over({-1, 0, 0});
    problem.base = {30'000, 1'000, random.whole(15'000, 26'000)};
    problem.model.costs = DiscardModel::kOperators;
    problem.table_of = {-1, 0, 1};
    std::vector<std::vector<std::pair<Bytes, double>>> sets(2);
    CheckpointProblem listed = problem;
    for (int u = 0; u < 2; ++u) {
      SACStats stats;
      for (int op = 0; op < 9; ++op) {
        stats.func_names.push_back("op");
        stats.memory.push_back(op == 8 ? 0 : random.whole(500, 2000));
        stats.runtimes.push_back(1e-3 * static_cast<double>(stats.memory.back()) *
                                 random.in(.5, 1.5));
      }
      CandidateUnit unit = bench::unit_over(problem, {u + 1});
      for (Bytes bytes : stats.memory) unit.kept_inside += bytes;
      unit.sac_memory = unit.kept_inside;
      for (int set = 0; set < 256; ++set) {
        Bytes kept = 0;
        double ms = 0;
        for (int op = 0; op < 8; ++op) {
          if ((set >> op & 1) != 0) {
            kept += stats.memory[op];
          } else {
            ms += stats.runtimes[op];
          }
        }
        if (kept < unit.kept_inside) sets[u].emplace_back(unit.kept_inside - kept, ms);
      }
      const OperatorOptions some = operator_options(stats, {.max_options = 6});
      unit.loss_ms = some.loss_ms;
      ASSERT_FALSE(some.is_complete);
      set_points(problem.model, some.options, unit);
      problem.units.push_back(unit);
      problem.thinned.push_back(u + 1);
      problem.sac_stats.push_back(stats);
    }
    for (auto& of_unit : sets) of_unit.emplace_back(0, 0);
    const auto curve = plan_frontier(problem);
    ASSERT_TRUE(curve && curve->plan);
    for (const Bytes budget : {16'000, 20'000, 23'000, 26'000, 29'000}) {
      SCOPED_TRACE(budget);
      double least = kInfinity;
      for (const auto& [a, a_ms] : sets[0]) {
        for (const auto& [b, b_ms] : sets[1]) {
          const bool fits = problem.base[2] - a <= budget && problem.base[0] - a - b <= budget;
          if (fits) least = std::min(least, a_ms + b_ms);
        }
      }
      const auto found = plan_for_budget(problem, budget);
      ASSERT_TRUE(found);
      ASSERT_EQ(found->plan.has_value(), !std::isinf(least));
      if (!found->plan) continue;
      EXPECT_LE(found->plan->figures.peak, budget);
      EXPECT_NEAR(found->certificate.objective, least, 1e-9);
      EXPECT_EQ(found->status, SolveStatus::kOptimal);
      ++num_optimal;
      num_better += *curve->plan->ms_at(budget) > least + 1e-6 ? 1 : 0;
      EXPECT_GE(*curve->plan->ms_at(budget), least - 1e-9);
      EXPECT_LE(math::value_at(curve->plan->lower(), budget), least + 1e-9);
    }
  }
  EXPECT_GT(num_optimal, 150);
  EXPECT_GT(num_better, 50);  // than the listed ones
}

TEST(OperatorChoices, WithinATimeAreThoseOfAllThatAreWithin) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    SACStats stats;
    for (int op = 0; op < 10; ++op) {
      stats.func_names.push_back("op");
      stats.memory.push_back(random.whole(0, 40));
      stats.runtimes.push_back(.125 * static_cast<double>(random.whole(0, 40)));
      if (op % 3 == 0) stats.saved_autograd_ops.push_back(op);
    }
    OperatorRules rules;
    rules.counts_copies = random.chance(.3);
    const double price = .25 * static_cast<double>(random.whole(0, 4));
    const OperatorOptions all =
        operator_options(stats, {.counts_copies = rules.counts_copies, .max_options = 1u << 20});
    const double most = .25 * static_cast<double>(random.whole(40, 160));
    std::vector<OperatorOption> expected;
    for (const OperatorOption& option : all.options) {
      if (option.recompute_ms + price * static_cast<double>(option.kept) <= most) {
        expected.push_back(option);
      }
    }
    rules.max_options = 1u << 20;
    const auto found = operator_options_within(stats, price, most, rules);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->options, expected);
    rules.max_options = 1;
    if (expected.size() > 1) {
      EXPECT_FALSE(operator_options_within(stats, price, most, rules));
    }
  }
}

// At every price some listed choice is the best of all.
TEST(OperatorChoices, KeepTheVerticesOfTheHullWhereSomeAreLeftOut) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    SACStats stats;
    for (int op = 0; op < 12; ++op) {
      stats.func_names.push_back("op");
      stats.memory.push_back(random.whole(1, 9000));
      stats.runtimes.push_back(1e-4 * static_cast<double>(stats.memory.back()) * random.in(.2, 3));
    }
    OperatorRules rules;
    rules.counts_copies = seed % 4 == 0;
    rules.max_options = 1u << 20;
    const OperatorOptions all = operator_options(stats, rules);
    rules.max_options = static_cast<std::size_t>(random.whole(2, 20));
    const OperatorOptions some = operator_options(stats, rules);
    ASSERT_LT(some.options.size(), all.options.size());
    for (double price = 1e-6; price < 1e-2; price *= 1.3) {
      const auto least = [price](const OperatorOptions& options) {
        double best = kInfinity;
        for (const OperatorOption& option : options.options) {
          best = std::min(best, option.recompute_ms + price * static_cast<double>(option.kept));
        }
        return best;
      };
      EXPECT_NEAR(least(some), least(all), 1e-9);
    }
  }
}

// mm, dropout, dropout, add: both random operators kept, one of them, none; and a table without
// any.
TEST(KeepOperators, SayWhatBecomesOfRandomOperators) {
  SACStats stats;
  stats.func_names = {"mm", "native_dropout", "native_dropout", "add"};
  stats.runtimes = {1, 1, 1, 1};
  stats.memory = {1, 1, 1, 1};
  stats.rand_ops = {1, 2};
  CheckpointUnit unit;
  unit.kind = UnitKind::kFull;
  keep_operators(stats, {0, 0, 0, 0}, unit);
  EXPECT_EQ(unit.kind, UnitKind::kFull);
  EXPECT_EQ(unit.rng, RngHandling::kRecompute);
  keep_operators(stats, {0, 1, 0, 0}, unit);
  EXPECT_EQ(unit.kind, UnitKind::kSelective);
  EXPECT_EQ(unit.rng, RngHandling::kRecompute);
  keep_operators(stats, {0, 1, 1, 0}, unit);
  EXPECT_EQ(unit.rng, RngHandling::kSave);
  EXPECT_EQ(unit.ops[2].nth, 1);
  stats.rand_ops = {};
  keep_operators(stats, {1, 0, 0, 0}, unit);
  EXPECT_EQ(unit.rng, RngHandling::kRecompute);
}

}  // namespace
}  // namespace plimsoll::checkpoint
