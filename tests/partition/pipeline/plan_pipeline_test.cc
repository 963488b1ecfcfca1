#include "plimsoll/partition/plan_pipeline.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>

#include "partition/pipelines.h"
#include "plimsoll/check/pipeline_check.h"
#include "plimsoll/core/numbers.h"

namespace plimsoll::partition {
namespace {

OperatorVariant make_choice(double time_ms, Bytes parameters = 0, Bytes per_microbatch = 0,
                            Bytes memory = 0) {
  return {"vanilla", time_ms, parameters, per_microbatch, memory, {}};
}

PipelineModel make_chain(const std::vector<OperatorVariant>& choices, int num_devices) {
  PipelineModel model;
  model.num_devices = num_devices;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    model.operators.push_back({"", {{1, {choices[i]}}}});
    if (i > 0) model.edges.push_back({static_cast<int>(i) - 1, static_cast<int>(i), 0});
  }
  return model;
}

double batch_value(const PipelineModel& model, const check::PipelineReport& report) {
  return report.sum_ms + (*model.num_microbatches - 1.0) * report.slowest_ms;
}

double least_by_force(const PipelineModel& model, const PipelineOptions& options) {
  double best = kInfinity;
  for_each_plan(model, [&](const PipelinePlan& plan) {
    int num_devices = 0;
    for (const PipelineStage& stage : plan.stages) {
      if (stage.data_parallel > options.max_data_parallel) return;
      num_devices += stage.num_devices();
    }
    if (options.must_use_all_devices && num_devices != model.num_devices) return;
    const auto report = check::check_pipeline(model, plan);
    if (!report->is_right()) return;
    best =
        std::min(best, options.objective == PipelineObjective::kBatch ? batch_value(model, *report)
                                                                      : report->slowest_ms);
  });
  return best;
}

PipelineOptions random_options(const PipelineModel& model, std::uint64_t seed) {
  PipelineOptions options;
  if (model.num_microbatches && seed % 3 == 0) options.objective = PipelineObjective::kBatch;
  if (seed % 5 == 0) options.max_data_parallel = 1;
  options.must_use_all_devices = seed % 4 == 0;
  return options;
}

void expect_solved(const PipelineModel& model, const PipelineOptions& options, double expected) {
  const auto search = plan_pipeline(model, options);
  ASSERT_TRUE(search.has_value()) << format_error(search.error());
  const auto& outcome = search->outcome;
  if (expected == kInfinity) {
    EXPECT_EQ(to_string(outcome.status), "infeasible");
    EXPECT_FALSE(outcome.plan.has_value());
    EXPECT_TRUE(outcome.certificate.proof.is_given());
    EXPECT_FALSE(outcome.explanation.lines.empty());
    return;
  }
  ASSERT_EQ(to_string(outcome.status), "optimal") << expected;
  EXPECT_NEAR(outcome.certificate.objective, expected, 1e-8 * (1 + expected));
  EXPECT_LE(*outcome.certificate.lower_bound, expected * (1 + 1e-9));
  const auto report = check::check_pipeline(model, *outcome.plan);
  EXPECT_TRUE(report->is_right()) << report->violations().front().message;
  const double value = options.objective == PipelineObjective::kBatch ? batch_value(model, *report)
                                                                      : report->slowest_ms;
  EXPECT_NEAR(outcome.certificate.objective, value, 1e-9 * (1 + value));
}

//   a(4) -> b(6) -> c(2)   on 3 devices: {a}, {b}, {c} takes 6; {a b} on 2, {c} takes 5;
//                          all on 3 takes 4.
TEST(PlanPipeline, ReplicatesStages) {
  const PipelineModel model = make_chain({make_choice(4), make_choice(6), make_choice(2)}, 3);
  expect_solved(model, {}, 4);
  PipelineOptions straight;
  straight.max_data_parallel = 1;
  expect_solved(model, straight, 6);
}

//   a(4) -> b(4)   b has 6 bytes of parameters, 1 byte a ms. Replicating b costs 4 * 1 * 6 / 2 / 2
//   = 6 ms more.
TEST(PlanPipeline, PaysForWhatReplicasAgreeOn) {
  const PipelineModel model = make_chain({make_choice(4), make_choice(4, 6)}, 3);
  // a on 1, b on 1: 4. All on 3 would take 8 / 3 + 4 * 2 * 6 / 3 / 3.
  expect_solved(model, {}, 4);
  PipelineModel batched = model;
  batched.num_microbatches = 24;  // agreeing once in 24 microbatches: 8 / 3 + 8 * 6 / 3 / 24
  expect_solved(batched, {}, 8 / 3.0 + 8 * 6 / 3.0 / 24);
}

//   a(3) -> b(3): the first of two stages holds two microbatches in flight.
TEST(PlanPipeline, CountsMicrobatchesInFlight) {
  PipelineModel model = make_chain({make_choice(3, 0, 5), make_choice(3, 0, 5)}, 2);
  model.memory_cap = 10;
  expect_solved(model, {}, 3);
  // Two replicas of everything hold 10 bytes too; with 9 neither fits.
  model.memory_cap = 9;
  expect_solved(model, {}, kInfinity);
  model.operators[0].degrees[0].choices.push_back({"recompute", 5, 0, 2, 0, {}});
  expect_solved(model, {}, 4);  // both, a recomputed, twice: 8 / 2, 5 + 2 bytes
}

//   a(2) -> b(2), 3 bytes between them at 1 byte a ms: cut, each pays 2 * 3.
TEST(PlanPipeline, PaysForCutEdgesAtBothEnds) {
  PipelineModel model = make_chain({make_choice(2), make_choice(2)}, 2);
  model.edges[0].bytes = 3;
  PipelineOptions straight;
  straight.max_data_parallel = 1;
  expect_solved(model, straight, 4);
  model.edges[0].bytes = 0.5;
  model.operators[1].degrees[0].choices[0].sync = {0.25};
  expect_solved(model, straight, 2 + 2 * 0.75);
}

// Batches weigh all stages: {a}, {b} takes 3 + 5 + 3 * 5, {a b} on both devices takes 4 + 3 * 4.
TEST(PlanPipeline, MinimisesBatches) {
  PipelineModel model = make_chain({make_choice(3), make_choice(5)}, 2);
  model.num_microbatches = 4;
  PipelineOptions options;
  options.objective = PipelineObjective::kBatch;
  expect_solved(model, options, 16);
  options.max_data_parallel = 1;
  expect_solved(model, options, 23);
}

TEST(PlanPipeline, AgreesWithAllPlans) {
  int num_infeasible = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    const PipelineModel model = random_pipeline(seed);
    const PipelineOptions options = random_options(model, seed);
    const double expected = least_by_force(model, options);
    num_infeasible += expected == kInfinity ? 1 : 0;
    expect_solved(model, options, expected);
  }
  EXPECT_GT(num_infeasible, 20);
  EXPECT_LT(num_infeasible, 300);
}

TEST(PlanPipeline, EveryRuleOnlySavesWork) {
  const std::vector<bool PipelineRules::*> rules = {
      &PipelineRules::drops_free_operators, &PipelineRules::starts_from_orders,
      &PipelineRules::uses_windows,         &PipelineRules::drops_dominated,
      &PipelineRules::prices_devices,       &PipelineRules::bounds_stages,
      &PipelineRules::balances_lines};
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const PipelineModel model = random_pipeline(seed, {7, 6, true, true});
    const PipelineOptions options = random_options(model, seed);
    const auto expected = plan_pipeline(model, options);
    for (std::size_t rule = 0; rule < rules.size(); ++rule) {
      SCOPED_TRACE(rule);
      PipelineOptions without = options;
      without.rules.*rules[rule] = false;
      const auto search = plan_pipeline(model, without);
      EXPECT_EQ(search->outcome.status, expected->outcome.status);
      if (!expected->outcome.plan) continue;
      EXPECT_NEAR(search->outcome.certificate.objective, expected->outcome.certificate.objective,
                  1e-8 * (1 + expected->outcome.certificate.objective));
    }
  }
}

// Models in which a straight pipeline is an assembly line.
PipelineModel random_line(std::uint64_t seed, int max_operators, int max_devices) {
  PipelineModel model = random_pipeline(seed, {max_operators, max_devices, false, false});
  for (PipelineEdge& edge : model.edges) edge.bytes = 0;
  for (PipelineOperator& op : model.operators) {
    for (OperatorVariant& choice : op.degrees[0].choices) choice.sync.clear();
  }
  return model;
}

TEST(PlanPipeline, BalancesLinesWithoutLoss) {
  PipelineOptions options;
  options.max_data_parallel = 1;
  PipelineOptions without = options;
  without.rules.balances_lines = false;
  int num_balanced = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    PipelineModel small = random_line(seed, 4, 4);
    expect_solved(small, options, least_by_force(small, options));
    small.num_microbatches = 1 + static_cast<int>(seed % 7);
    PipelineOptions batches = options;
    batches.objective = PipelineObjective::kBatch;
    expect_solved(small, batches, least_by_force(small, batches));
    const PipelineModel model = random_line(seed, 12, 5);
    const auto expected = plan_pipeline(model, without);
    expect_solved(model, options, expected->outcome.certificate.objective);
    num_balanced += plan_pipeline(model, options)->num_downsets > 0 ? 1 : 0;
  }
  EXPECT_GT(num_balanced, 50);
}

// Four chains of six operators side by side: 2,401 downsets.
TEST(PlanPipeline, BalancingLinesSavesWork) {
  PipelineRandom random(5);
  PipelineModel model;
  model.num_devices = 12;
  for (int i = 0; i < 24; ++i) {
    model.operators.push_back({"", {{1, {make_choice(10 + 0.01 * random.below(5000))}}}});
    if (i >= 4) model.edges.push_back({i - 4, i, 0});
  }
  PipelineOptions options;
  options.max_data_parallel = 1;
  const auto search = plan_pipeline(model, options);
  options.rules.balances_lines = false;
  const auto slow = plan_pipeline(model, options);
  EXPECT_EQ(search->num_downsets, 2401);
  EXPECT_NEAR(search->outcome.certificate.objective, slow->outcome.certificate.objective, 1e-6);
  EXPECT_LT(5 * search->num_pairs, slow->num_pairs);
}

struct Work {
  std::int64_t downsets = 0, pairs = 0, stages = 0;
};

Work work_of(const PipelineRules& rules, const RandomPipeline& shape,
             PipelineObjective objective = PipelineObjective::kSlowestStage) {
  Work work;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    PipelineOptions options;
    options.rules = rules;
    options.objective = objective;
    PipelineModel model = random_pipeline(seed, shape);
    if (objective == PipelineObjective::kBatch) model.num_microbatches = 12;
    const auto search = plan_pipeline(model, options);
    work.downsets += search->num_downsets;
    work.pairs += search->num_pairs;
    work.stages += search->num_stages;
  }
  return work;
}

TEST(PlanPipeline, EveryRuleSavesWork) {
  const RandomPipeline shape{10, 12, true, true};
  const Work all = work_of({}, shape);
  PipelineRules rules;
  rules.drops_free_operators = false;
  EXPECT_GT(work_of(rules, shape).downsets, all.downsets);
  rules = {};
  rules.starts_from_orders = false;
  EXPECT_GT(work_of(rules, shape).downsets, all.downsets);
  rules = {};
  rules.uses_windows = false;
  EXPECT_GT(work_of(rules, shape).pairs, all.pairs);
  rules = {};
  rules.drops_dominated = false;
  EXPECT_GT(work_of(rules, shape).pairs, all.pairs);
  rules = {};
  rules.prices_devices = false;
  EXPECT_GT(work_of(rules, shape, PipelineObjective::kBatch).pairs,
            work_of({}, shape, PipelineObjective::kBatch).pairs);
  rules = {};
  rules.bounds_stages = false;
  EXPECT_GT(work_of(rules, shape).stages, all.stages);
}

TEST(PlanPipeline, GivesTheSameAnswerAgain) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    const PipelineModel model = random_pipeline(seed, {8, 8, true, true});
    PipelineOptions options = random_options(model, seed);
    const auto first = plan_pipeline(model, options);
    const auto second = plan_pipeline(model, options);
    EXPECT_EQ(first->outcome.plan, second->outcome.plan);
    EXPECT_EQ(first->num_pairs, second->num_pairs);
    options.search.seed = 77;  // other orders, another plan perhaps, never another value
    const auto third = plan_pipeline(model, options);
    EXPECT_EQ(third->outcome.status, first->outcome.status);
    if (!first->outcome.plan) continue;
    EXPECT_NEAR(third->outcome.certificate.objective, first->outcome.certificate.objective,
                1e-8 * (1 + first->outcome.certificate.objective));
  }
}

TEST(PlanPipeline, MoreDevicesOrMemoryNeverHurt) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const PipelineModel model = random_pipeline(seed, {6, 4, true, true});
    const auto search = plan_pipeline(model);
    if (!search->outcome.plan) continue;
    PipelineModel larger = model;
    ++larger.num_devices;
    if (larger.memory_cap) ++*larger.memory_cap;
    const auto other = plan_pipeline(larger);
    ASSERT_TRUE(other->outcome.plan.has_value());
    EXPECT_LE(other->outcome.certificate.objective,
              search->outcome.certificate.objective * (1 + 1e-8));
  }
}

// A search that is cut keeps a plan and a bound that hold.
TEST(PlanPipeline, KeepsItsBoundWhenCut) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    const PipelineModel model = random_pipeline(seed, {8, 6, true, false});
    const double best = plan_pipeline(model)->outcome.certificate.objective;
    std::vector<PipelineOptions> cuts(3);
    cuts[0].search.effort = static_cast<std::int64_t>(seed) * 3;
    cuts[1].max_downsets = 1;
    cuts[2].max_knapsack_nodes = 0;
    for (const PipelineOptions& options : cuts) {
      const auto search = plan_pipeline(model, options);
      EXPECT_LE(search->outcome.certificate.lower_bound.value_or(0), best * (1 + 1e-9));
      if (!search->outcome.plan) {
        EXPECT_EQ(to_string(search->outcome.status), "limit");
        continue;
      }
      EXPECT_GE(search->outcome.certificate.objective, best * (1 - 1e-9));
      EXPECT_TRUE(check::check_pipeline(model, *search->outcome.plan)->is_right());
    }
  }
}

TEST(PlanPipeline, StopsWhenCancelledOrLate) {
  const std::atomic<bool> cancel{true};
  RunContext cancelled;
  cancelled.cancel = &cancel;
  PipelineModel model = random_pipeline(3, {6, 4, true, false});
  EXPECT_EQ(to_string(plan_pipeline(model, {}, cancelled)->outcome.stop), "cancelled");
  RunContext late;
  late.deadline = std::chrono::steady_clock::now() - std::chrono::seconds(1);
  EXPECT_EQ(to_string(plan_pipeline(model, {}, late)->outcome.stop), "deadline");
}

TEST(PlanPipeline, RefusesBadOptionsAndModels) {
  const PipelineModel model = make_chain({make_choice(1)}, 1);
  PipelineOptions options;
  options.max_data_parallel = 0;
  EXPECT_EQ(plan_pipeline(model, options).error().code, ErrorCode::kUsage);
  options = {};
  options.objective = PipelineObjective::kBatch;
  EXPECT_EQ(plan_pipeline(model, options).error().place, "objective");
  options = {};
  options.max_downsets = 0;
  EXPECT_FALSE(plan_pipeline(model, options).has_value());
  EXPECT_FALSE(plan_pipeline({}, {}).has_value());
}

TEST(PipelineModel, RefusesWhatMakesNoSense) {
  const PipelineModel good = make_chain({make_choice(1), make_choice(1)}, 2);
  const auto expect_refused = [&](ErrorCode code, const std::string& place,
                                  const std::function<void(PipelineModel&)>& change) {
    PipelineModel bad = good;
    change(bad);
    const auto valid = validate(bad);
    ASSERT_FALSE(valid.has_value()) << place;
    EXPECT_EQ(to_string(valid.error().code), to_string(code));
    EXPECT_EQ(valid.error().place, place);
  };
  EXPECT_TRUE(validate(good).has_value());
  const auto choice = [](PipelineModel& m) -> OperatorVariant& {
    return m.operators[1].degrees[0].choices[0];
  };
  expect_refused(ErrorCode::kValue, "num_devices", [](auto& m) { m.num_devices = 0; });
  expect_refused(ErrorCode::kValue, "memory_cap", [](auto& m) { m.memory_cap = -1; });
  expect_refused(ErrorCode::kValue, "bandwidth", [](auto& m) { m.bandwidth = 0; });
  expect_refused(ErrorCode::kValue, "bandwidth", [](auto& m) { m.bandwidth = NAN; });
  expect_refused(ErrorCode::kValue, "num_microbatches", [](auto& m) { m.num_microbatches = 0; });
  expect_refused(ErrorCode::kValue, "operators", [](auto& m) { m.operators.clear(); });
  expect_refused(ErrorCode::kValue, "edge 0", [](auto& m) { m.edges[0].dest = 2; });
  expect_refused(ErrorCode::kValue, "edge 0", [](auto& m) { m.edges[0].bytes = -1; });
  expect_refused(ErrorCode::kConflict, "edge 1", [](auto& m) { m.edges.push_back(m.edges[0]); });
  expect_refused(ErrorCode::kConflict, "operator 0", [](auto& m) { m.edges.push_back({1, 0, 0}); });
  expect_refused(ErrorCode::kConflict, "operator 0", [](auto& m) { m.edges.push_back({0, 0, 0}); });
  expect_refused(ErrorCode::kValue, "operator 1", [&](auto& m) { choice(m).time_ms = -1; });
  expect_refused(ErrorCode::kValue, "operator 1", [&](auto& m) { choice(m).time_ms = NAN; });
  expect_refused(ErrorCode::kValue, "operator 1", [&](auto& m) { choice(m).parameters = -1; });
  expect_refused(ErrorCode::kValue, "operator 1", [&](auto& m) { choice(m).memory = -1; });
  expect_refused(ErrorCode::kOverflow, "operator 1",
                 [&](auto& m) { choice(m).memory = INT64_MAX; });
  expect_refused(ErrorCode::kSchema, "operator 1", [&](auto& m) { choice(m).sync = {1, 2}; });
  expect_refused(ErrorCode::kValue, "operator 1", [&](auto& m) { choice(m).sync = {-1}; });
  expect_refused(ErrorCode::kConflict, "operator 1",
                 [&](auto& m) { m.operators[1].degrees[0].choices.push_back(choice(m)); });
  expect_refused(ErrorCode::kConflict, "operator 1",
                 [&](auto& m) { m.operators[1].degrees.push_back(m.operators[1].degrees[0]); });
}

}  // namespace
}  // namespace plimsoll::partition
