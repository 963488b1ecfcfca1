#include "checkpoint/torch/fsdp_milp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "checkpoint/random.h"

namespace plimsoll::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModuleInfo make_module(std::string fqn, Bytes parameters, Bytes activations, Bytes temporaries,
                       Bytes gradients_so_far, double forward_ms, double backward_ms) {
  ModuleInfo module;
  module.fqn = std::move(fqn);
  module.param_per_module = parameters;
  module.grad_per_module = parameters;
  module.act_total = activations;
  module.act_grad_per_module = temporaries;
  module.grad_total = gradients_so_far;
  module.fw_runtime_per_module = forward_ms;
  module.bw_runtime_per_module = backward_ms;
  return module;
}

// The transformer of upstream's own test.
ModuleStats transformer() {
  ModuleStats stats;
  const auto add = [&](ModuleInfo module) {
    stats.mod_order.fw_pre_order.push_back(module.fqn);
    stats.mod_stats.push_back(std::move(module));
  };
  add(make_module("Transformer", 1'960'000'000, 2'683'074'560, 402'665'472, 0, 115.515104,
                  262.839635));
  for (int k = 0; k < 4; ++k) {
    const std::string layer = "Transformer.layers." + std::to_string(k);
    const Bytes kept = 415'368'192 * Bytes{k}, reduced = 453'095'424 * Bytes{k};
    add(make_module(layer, 453'095'424, 526'525'440 + kept, 276'836'352, 2'265'501'696 - reduced,
                    18.586359, 42.314449));
    add(make_module(layer + ".attention", 150'994'944, 268'559'360 + kept, 100'663'296,
                    2'567'577'600 - reduced, 6.914146, 16.190205));
    // One figure of upstream's data is that of the first layer.
    add(make_module(layer + ".feed_forward", 302'051'328, 526'525'440 + (k == 1 ? 0 : kept),
                    276'836'352, 2'265'501'696 - reduced, 11.490126, 25.499871));
    for (const char* part : {".attention", ".feed_forward", ""}) {
      stats.mod_order.fw_post_order.push_back(layer + part);
    }
  }
  add(make_module("Transformer.output", 100'663'296, 2'695'657'472, 125'829'120, 0, 3.724933,
                  8.000337));
  stats.mod_order.fw_post_order.emplace_back("Transformer.output");
  stats.mod_order.fw_post_order.emplace_back("Transformer");
  return stats;
}

FSDPOptions options_for(double budget, double bandwidth = 1e8) {
  FSDPOptions options;
  options.memory_budget = budget;
  options.world_size = 4;
  options.all_gather = options.reduce_scatter = {0.01, bandwidth};
  return options;
}

std::vector<std::string> below_root(const std::vector<std::string>& names) {
  std::vector<std::string> units;
  for (const std::string& name : names) units.push_back("Transformer." + name);
  return units;
}

Outcome<FSDPPlan> plan(const ModuleStats& stats, const FSDPOptions& options) {
  const auto outcome = plan_fsdp_units(stats, options);
  EXPECT_TRUE(outcome) << format_error(outcome.error());
  return outcome.value_or(Outcome<FSDPPlan>{});
}

TEST(FSDPMilp, PricesNamedUnitsAsUpstreamDoes) {
  FSDPOptions options = options_for(4.75);
  options.fsdp_units = below_root({"layers.0", "layers.1", "layers.2", "layers.3", "output"});
  const auto outcome = plan(transformer(), options);
  ASSERT_EQ(outcome.status, SolveStatus::kOptimal);
  EXPECT_NEAR(outcome.plan->exposed_ms, 10.041, 5e-4);
  EXPECT_EQ(outcome.plan->peak_bytes, 4'672'311'936);
  EXPECT_EQ(outcome.plan->units.size(), 6u);
  EXPECT_EQ(price_fsdp_units(transformer(), options, options.fsdp_units), *outcome.plan);
  options.memory_budget = 4.35;  // the peak is 4.3514 GiB
  EXPECT_EQ(plan(transformer(), options).status, SolveStatus::kInfeasible);
}

// Upstream's answers lie within 5% of the optimum.
TEST(FSDPMilp, FindsWhatUpstreamFinds) {
  const ModuleStats stats = transformer();
  const auto free = plan(stats, options_for(4.75));
  ASSERT_EQ(free.status, SolveStatus::kOptimal);
  EXPECT_LE(free.plan->exposed_ms, 4.0005);
  EXPECT_GE(free.plan->exposed_ms, 0.95 * 4.0);
  EXPECT_LE(free.plan->peak_bytes, 4.75 * 0x1p30);

  const auto tight = plan(stats, options_for(4));
  ASSERT_EQ(tight.status, SolveStatus::kOptimal);
  EXPECT_LE(tight.plan->exposed_ms, 4.0029 + 5e-5);
  EXPECT_GE(tight.plan->exposed_ms, 0.95 * 4.0029);
  EXPECT_LE(tight.plan->peak_bytes, 4 * 0x1p30);
  EXPECT_EQ(plan(stats, options_for(3.5)).status, SolveStatus::kInfeasible);

  const auto slow = plan(stats, options_for(4.75, 1e7));
  ASSERT_EQ(slow.status, SolveStatus::kOptimal);
  EXPECT_LE(slow.plan->exposed_ms, 303.0618 + 5e-5);
  EXPECT_GE(slow.plan->exposed_ms, 0.95 * 303.0618);
}

TEST(FSDPMilp, PricesUpstreamsOwnAnswers) {
  const ModuleStats stats = transformer();
  const auto free = price_fsdp_units(stats, options_for(4.75),
                                     below_root({"layers.0.attention", "layers.0.feed_forward",
                                                 "layers.1", "layers.2", "layers.3", "output"}));
  EXPECT_NEAR(free->exposed_ms, 4.0, 0.005);
  EXPECT_NEAR(static_cast<double>(free->peak_bytes), 4'672'410'203.0, 1e5);
  std::vector<std::string> parts{"output"};
  for (int k = 0; k < 4; ++k) {
    parts.push_back("layers." + std::to_string(k) + ".attention");
    parts.push_back("layers." + std::to_string(k) + ".feed_forward");
  }
  const auto fine = price_fsdp_units(stats, options_for(4), below_root(parts));
  EXPECT_NEAR(fine->exposed_ms, 4.0029, 5e-5);
  EXPECT_NEAR(static_cast<double>(fine->peak_bytes), 4'274'145'874.0, 1e5);
  const auto slow = price_fsdp_units(stats, options_for(4.75, 1e7),
                                     below_root({"layers.0", "layers.1", "layers.2", "layers.3"}));
  EXPECT_NEAR(slow->exposed_ms, 303.0618, 0.03);  // upstream's columns have slack within its gap
  EXPECT_NEAR(static_cast<double>(slow->peak_bytes), 4'873'638'548.0, 1e5);
}

//  R ─┬─ R.a ─┬─ R.a.x      random figures
//     │       └─ R.a.y
//     ├─ R.b ─── R.b.x
//     └─ R.c
ModuleStats random_stats(int seed) {
  Random random(seed);
  ModuleStats stats;
  stats.mod_order.fw_pre_order = {"R", "R.a", "R.a.x", "R.a.y", "R.b", "R.b.x", "R.c"};
  stats.mod_order.fw_post_order = {"R.a.x", "R.a.y", "R.a", "R.b.x", "R.b", "R.c", "R"};
  for (const std::string& fqn : stats.mod_order.fw_pre_order) {
    const auto bytes = [&](int most) { return Bytes{random.below(most)} << 20; };
    stats.mod_stats.push_back(make_module(fqn, bytes(300), bytes(1000), bytes(200), bytes(500),
                                          random.below(100) / 10.0, random.below(200) / 10.0));
  }
  const auto parameters = [&](int i) -> Bytes& { return stats.mod_stats[i].param_per_module; };
  parameters(1) += parameters(2) + parameters(3);
  parameters(4) += parameters(5);
  parameters(0) += parameters(1) + parameters(4) + parameters(6);
  for (ModuleInfo& module : stats.mod_stats) module.grad_per_module = module.param_per_module;
  return stats;
}

TEST(FSDPMilp, AgreesWithBruteForce) {
  int num_infeasible = 0;
  for (int seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const ModuleStats stats = random_stats(seed);
    FSDPOptions options;
    options.world_size = 1 + seed % 4;
    options.all_gather = {0.05 * (seed % 3), 2e7 * (1 + seed % 5)};
    options.reduce_scatter = {0.02, 3e7 * (1 + seed % 3)};
    options.memory_budget = 1.5 + 0.25 * (seed % 11);
    std::optional<double> best;
    for (unsigned bits = 0; bits < 64; ++bits) {
      std::vector<std::string> units;
      for (std::size_t i = 0; i < 6; ++i) {
        if ((bits >> i & 1) != 0) units.push_back(stats.mod_stats[i + 1].fqn);
      }
      const auto priced = price_fsdp_units(stats, options, units);
      if (!priced || static_cast<double>(priced->peak_bytes) > options.memory_budget * 0x1p30) {
        continue;
      }
      best = std::min(best.value_or(priced->exposed_ms), priced->exposed_ms);
    }
    const auto outcome = plan(stats, options);
    ASSERT_EQ(outcome.status, best ? SolveStatus::kOptimal : SolveStatus::kInfeasible);
    num_infeasible += best ? 0 : 1;
    if (!best) continue;
    EXPECT_NEAR(outcome.plan->exposed_ms, *best, 1e-6 * *best);
    EXPECT_NEAR(*outcome.certificate.lower_bound, *best, 1e-6 * *best);
    if (seed % 20 == 0) {
      EXPECT_EQ(plan(stats, options).plan, outcome.plan);
    }
  }
  EXPECT_GT(num_infeasible, 5);
  EXPECT_LT(num_infeasible, 50);
}

TEST(FSDPMilp, RefusesUnitsThatItCannotUse) {
  FSDPOptions options = options_for(4);
  options.fsdp_units = {"Transformer.layer.0"};
  const auto unknown = plan_fsdp_units(transformer(), options);
  ASSERT_FALSE(unknown);
  EXPECT_THAT(format_error(unknown.error()), HasSubstr("did you mean 'Transformer.layers.0'"));
  options.fsdp_units = below_root({"layers.0", "layers.0.attention"});
  const auto nested = plan_fsdp_units(transformer(), options);
  ASSERT_FALSE(nested);
  EXPECT_EQ(nested.error().code, ErrorCode::kConflict);
  options = options_for(4, 0);
  EXPECT_THAT(format_error(plan_fsdp_units(transformer(), options).error()),
              HasSubstr("all_gather"));
  options = options_for(4);
  options.world_size = 0;
  EXPECT_FALSE(plan_fsdp_units(transformer(), options));
  EXPECT_THAT(price_fsdp_units(transformer(), options_for(4), {})->units,
              ElementsAre("Transformer"));
}

}  // namespace
}  // namespace plimsoll::checkpoint
