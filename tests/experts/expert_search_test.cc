#include "plimsoll/experts/expert_search.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "core/random.h"
#include "plimsoll/check/expert_check.h"
#include "plimsoll/experts/eplb.h"

namespace plimsoll::experts {
namespace {

ExpertModel random_model(std::uint64_t seed, int num_experts, int num_slots, int num_groups,
                         int num_hosts, int num_ranks, int num_layers = 1) {
  SplitMix64 random(seed);
  ExpertModel model;
  model.num_slots = num_slots;
  model.num_groups = num_groups;
  model.num_hosts = num_hosts;
  model.num_ranks = num_ranks;
  for (int layer = 0; layer < num_layers; ++layer) {
    std::vector<double>& loads = model.loads.emplace_back();
    for (int e = 0; e < num_experts; ++e) {
      const double unit = random.unit();
      loads.push_back(seed % 3 == 0 ? 1 + random.below(100) : 1000 * unit * unit * unit);
    }
  }
  return model;
}

SearchOptions with_effort(std::int64_t effort) {
  SearchOptions search;
  search.effort = effort;
  return search;
}

// The example of EPLB's own README.
ExpertModel example() {
  ExpertModel model;
  model.loads = {{90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86},
                 {20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27}};
  model.num_slots = 16;
  model.num_groups = 4;
  model.num_hosts = 2;
  model.num_ranks = 8;
  return model;
}

check::ExpertReport judge(const ExpertModel& model, const ExpertPlan& plan) {
  check::StatedExperts stated;
  stated.plan = plan;
  for (int layer = 0; layer < model.num_layers(); ++layer) {
    stated.slowest_loads.push_back(
        slowest_load(model, layer, plan.slots[static_cast<std::size_t>(layer)]));
    stated.lower_bounds.push_back(least_load(model, layer));
  }
  stated.objective = total_load(model, plan.slots);
  stated.lower_bound = total_bound(model);
  return check_experts(model, stated);
}

// Every filling of the slots of one layer, ranks in any order.
double least_of_all(const ExpertModel& model) {
  std::vector<int> slots(static_cast<std::size_t>(model.num_slots), 0);
  double least = std::numeric_limits<double>::infinity();
  const int width = model.slots_a_rank();
  const std::function<void(int)> fill = [&](int slot) {
    if (slot == model.num_slots) {
      if (find_fault(model, {{slots}, model.num_ranks}).empty()) {
        least = std::min(least, slowest_load(model, 0, slots));
      }
      return;
    }
    // Slots of a rank in rising order.
    const int first = slot % width == 0 ? 0 : slots[static_cast<std::size_t>(slot) - 1];
    for (int e = first; e < model.num_experts(); ++e) {
      slots[static_cast<std::size_t>(slot)] = e;
      fill(slot + 1);
    }
  };
  fill(0);
  return least;
}

// Two ranks of two slots, loads 6, 2, 2: 6 is replicated, and each rank carries 3 + 2.
//   rank 0: [0 1]   rank 1: [0 2]
TEST(ExpertSearch, SolvesALayerByHand) {
  ExpertModel model;
  model.loads = {{6, 2, 2}};
  model.num_slots = 4;
  model.num_ranks = 2;
  const auto outcome = place_experts(model);
  ASSERT_TRUE(outcome.has_value() && outcome->plan);
  EXPECT_DOUBLE_EQ(outcome->certificate.objective, 5);
  EXPECT_EQ(outcome->status, SolveStatus::kOptimal);
}

TEST(ExpertSearch, TheExampleIsNoHeavierThanEplbs) {
  const ExpertModel model = example();
  const auto outcome = place_experts(model, with_effort(100000));
  ASSERT_TRUE(outcome.has_value() && outcome->plan);
  EXPECT_TRUE(judge(model, *outcome->plan).is_right());
  const double eplb = total_load(model, rebalance_experts(model));
  EXPECT_LE(outcome->certificate.objective, eplb);
}

// All fillings of tiny layers: none is below the bound, and the search finds the best of nearly
// all.
TEST(ExpertSearch, AgreesWithEnumeration) {
  int num_best = 0, num_cases = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const bool has_hosts = seed % 4 == 3;
    const ExpertModel model = has_hosts       ? random_model(seed, 4, 8, 4, 2, 4)
                              : seed % 2 == 0 ? random_model(seed, 4, 6, 1, 1, 3)
                                              : random_model(seed, 5, 6, 1, 1, 2);
    const double least = least_of_all(model);
    EXPECT_LE(least_load(model, 0), least);
    const auto outcome = place_experts(model, with_effort(20000));
    ASSERT_TRUE(outcome.has_value() && outcome->plan);
    EXPECT_TRUE(judge(model, *outcome->plan).is_right());
    EXPECT_GE(outcome->certificate.objective, least * (1 - 1e-12));
    EXPECT_LE(outcome->certificate.objective,
              total_load(model, rebalance_experts(model)) * (1 + 1e-12));
    num_best += outcome->certificate.objective <= least * (1 + 1e-9) ? 1 : 0;
    ++num_cases;
  }
  EXPECT_GT(num_best, num_cases * 8 / 10);
}

TEST(ExpertSearch, IsNeverAboveEplbAndJudgedRight) {
  double ours = 0, eplb = 0, bound = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    const ExpertModel model = seed % 2 == 0 ? random_model(seed, 64, 80, 8, 4, 16, 2)
                                            : random_model(seed, 64, 72, 1, 1, 8, 2);
    const auto outcome = place_experts(model, with_effort(100000));
    ASSERT_TRUE(outcome.has_value() && outcome->plan);
    const check::ExpertReport report = judge(model, *outcome->plan);
    EXPECT_TRUE(report.is_right()) << report.violations().front().message;
    EXPECT_EQ(report.certificate.status, check::CertificateStatus::kProved);
    const ExpertSlots reference = rebalance_experts(model);
    for (int layer = 0; layer < 2; ++layer) {
      const auto i = static_cast<std::size_t>(layer);
      EXPECT_LE(slowest_load(model, layer, outcome->plan->slots[i]),
                slowest_load(model, layer, reference[i]) * (1 + 1e-12));
    }
    ours += outcome->certificate.objective;
    eplb += total_load(model, reference);
    bound += *outcome->certificate.lower_bound;
  }
  EXPECT_LT(ours, eplb);
  EXPECT_LT(ours, 1.05 * bound);
}

TEST(ExpertSearch, SameSeedSamePlanAndLoadsScale) {
  ExpertModel model = random_model(4, 32, 40, 4, 2, 8, 2);
  const auto first = place_experts(model, with_effort(50000));
  EXPECT_EQ(first->plan, place_experts(model, with_effort(50000))->plan);
  for (std::vector<double>& loads : model.loads) {
    for (double& load : loads) load *= 4;  // exact
  }
  const auto scaled = place_experts(model, with_effort(50000));
  EXPECT_EQ(first->plan, scaled->plan);
  EXPECT_DOUBLE_EQ(4 * first->certificate.objective, scaled->certificate.objective);
}

TEST(ExpertReplan, KeepsItsLimitAndGetsBetterWithMore) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(seed);
    ExpertModel model = seed % 2 == 0 ? random_model(seed, 32, 40, 4, 2, 8, 3)
                                      : random_model(seed, 32, 40, 1, 1, 8, 3);
    const ExpertPlan before = *place_experts(model, with_effort(20000))->plan;
    SplitMix64 random(seed);
    for (std::vector<double>& loads : model.loads) {
      for (double& load : loads) load *= .7 + .6 * random.unit();
    }
    double last = std::numeric_limits<double>::infinity();
    for (const std::int64_t limit : {0, 12, 120}) {
      const auto replan = replan_experts(model, before, limit, with_effort(50000));
      ASSERT_TRUE(replan.has_value() && replan->outcome.plan);
      EXPECT_LE(replan->moved, limit);
      EXPECT_EQ(replan->moved, count_moved(before, *replan->outcome.plan));
      EXPECT_LE(replan->outcome.certificate.objective, last * (1 + 1e-12));
      last = replan->outcome.certificate.objective;
      check::StatedExperts stated;
      stated.plan = *replan->outcome.plan;
      stated.before = before;
      stated.moved = replan->moved;
      stated.max_moved = limit;
      EXPECT_TRUE(check_experts(model, stated).is_right());
      if (limit == 0) {
        EXPECT_LE(last, *replan->before_load);
      }
    }
    EXPECT_LT(last, total_load(model, before.slots));
  }
}

TEST(ExpertReplan, ARankMoreOrFewerKeepsWhatStands) {
  const ExpertModel model = random_model(7, 32, 40, 1, 1, 8, 2);
  const ExpertPlan before = *place_experts(model, with_effort(20000))->plan;
  for (const int num_ranks : {10, 7}) {
    SCOPED_TRACE(num_ranks);
    ExpertModel now = model;
    now.num_ranks = num_ranks;
    now.num_slots = 5 * num_ranks;
    const auto replan = replan_experts(now, before, 30, with_effort(50000));
    ASSERT_TRUE(replan.has_value() && replan->outcome.plan);
    EXPECT_FALSE(replan->before_load.has_value());
    EXPECT_LE(replan->moved, 30);
    EXPECT_TRUE(judge(now, *replan->outcome.plan).is_right());
    EXPECT_FALSE(replan_experts(now, before, 0, with_effort(50000))->outcome.plan.has_value());
  }
  EXPECT_FALSE(replan_experts(random_model(7, 16, 40, 1, 1, 8, 2), before, 30).has_value());
}

TEST(ExpertModel, NamesWhatIsWrong) {
  const std::pair<std::function<void(ExpertModel&)>, const char*> edits[] = {
      {[](ExpertModel& m) { m.loads.clear(); }, "loads"},
      {[](ExpertModel& m) { m.loads[1].pop_back(); }, "loads/1"},
      {[](ExpertModel& m) { m.loads[0][0] = -1; }, "loads/0"},
      {[](ExpertModel& m) { m.num_ranks = 0; }, "num_ranks"},
      {[](ExpertModel& m) { m.num_hosts = 3; }, "num_hosts"},
      {[](ExpertModel& m) { m.num_slots = 8; }, "num_slots"},
      {[](ExpertModel& m) { m.num_slots = 17; }, "num_slots"},
      {[](ExpertModel& m) { m.num_groups = 5; }, "num_groups"},
  };
  for (const auto& [edit, place] : edits) {
    ExpertModel model = example();
    edit(model);
    const auto valid = validate(model);
    ASSERT_FALSE(valid.has_value()) << place;
    EXPECT_EQ(valid.error().place, place);
    EXPECT_FALSE(place_experts(model).has_value());
  }
}

// Loads 6, 2, 2 on two ranks of two slots: 5 is the mean; at 5.5 four slots still suffice.
TEST(ExpertCheck, TakesNoBoundThatSlotsAllow) {
  ExpertModel model;
  model.loads = {{6, 2, 2}};
  model.num_slots = 4;
  model.num_ranks = 2;
  check::StatedExperts stated;
  stated.plan = {{{0, 1, 0, 2}}, 2};
  stated.lower_bounds = {5};
  EXPECT_TRUE(check_experts(model, stated).is_right());
  stated.lower_bounds = {5.5};
  EXPECT_FALSE(check_experts(model, stated).is_right());
}

TEST(ExpertCheck, RefusesEveryChange) {
  const ExpertModel model = example();
  const ExpertPlan plan{rebalance_experts(model), 8};
  ASSERT_TRUE(judge(model, plan).is_right());
  check::StatedExperts right;
  right.plan = plan;
  right.slowest_loads = {slowest_load(model, 0, plan.slots[0]),
                         slowest_load(model, 1, plan.slots[1])};
  right.lower_bounds = {least_load(model, 0), least_load(model, 1)};
  right.objective = total_load(model, plan.slots);
  right.lower_bound = total_bound(model);
  using Code = check::FindingCode;
  const std::pair<std::function<void(check::StatedExperts&)>, Code> edits[] = {
      {[](auto& s) { s.plan.num_ranks = 4; }, Code::kShape},
      {[](auto& s) { s.plan.slots.pop_back(); }, Code::kShape},
      {[](auto& s) { s.plan.slots[0].pop_back(); }, Code::kShape},
      {[](auto& s) { s.plan.slots[0][0] = 12; }, Code::kShape},
      {[](auto& s) { s.plan.slots[0][1] = 5; }, Code::kMissing},
      {[](auto& s) { std::swap(s.plan.slots[0][0], s.plan.slots[0][15]); }, Code::kGroupSplit},
      {[](auto& s) { s.slowest_loads[0] += 1; }, Code::kLoadMismatch},
      {[](auto& s) { *s.objective -= 1; }, Code::kLoadMismatch},
      {[](auto& s) { s.lower_bounds[1] *= 1.01; }, Code::kBoundNotProved},
      {[](auto& s) { *s.lower_bound *= 1.01; }, Code::kBoundNotProved},
      {[](auto& s) { s.moved = 0; }, Code::kMoveMismatch},
      {[](auto& s) { s.before = s.plan, s.moved = 1; }, Code::kMoveMismatch},
  };
  int index = 0;
  for (const auto& [edit, code] : edits) {
    SCOPED_TRACE(index++);
    check::StatedExperts stated = right;
    edit(stated);
    const check::ExpertReport report = check_experts(model, stated);
    EXPECT_TRUE(std::any_of(report.findings.begin(), report.findings.end(),
                            [code = code](const auto& v) { return v.code == code; }));
  }
}

}  // namespace
}  // namespace plimsoll::experts
