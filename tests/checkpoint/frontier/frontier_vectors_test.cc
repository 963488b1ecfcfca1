// Frontiers and plans against golden records, which independent solvers made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "checkpoint/vectors.h"
#include "plimsoll/checkpoint/frontier_search.h"

namespace plimsoll::checkpoint {
namespace {

// Breakpoints of the records are not whole bytes, and their bases are not rounded up.
constexpr double kRelative = 1e-6;

void expect_frontier(const nlohmann::json& rows, const math::Frontier& frontier) {
  for (std::size_t k = 0; k < rows.size(); ++k) {
    const double from = rows[k][0], ms = rows[k][1], slope = rows[k][2];
    const auto bytes = static_cast<Bytes>(std::ceil(from)) + 2;
    SCOPED_TRACE(from);
    const auto found = frontier.ms_at(bytes);
    ASSERT_TRUE(found);
    EXPECT_NEAR(*found, ms + slope * (static_cast<double>(bytes) - from), kRelative * (1 + ms));
    // Ends of pieces lie a few bytes off; the middle does not.
    const double to = k + 1 < rows.size() ? rows[k + 1][0].get<double>() : 2 * from;
    if (to - from < 100) continue;
    EXPECT_NEAR(frontier.price_at(static_cast<Bytes>((from + to) / 2)), -slope,
                1e-6 * std::fabs(slope));
  }
  EXPECT_NEAR(static_cast<double>(frontier.min_bytes()), rows[0][0].get<double>(), 1.0);
}

void expect_budgets(const nlohmann::json& instance, const CheckpointProblem& problem,
                    bool has_unique_plans) {
  for (const auto& expected : instance.at("expected")) {
    const double gib = expected.at("budget_gib");
    const auto budget = static_cast<Bytes>(std::floor(gib * static_cast<double>(kGiB)));
    SCOPED_TRACE(gib);
    const auto outcome = plan_for_budget(problem, budget);
    ASSERT_TRUE(outcome) << format_error(outcome.error());
    if (expected.at("obj") == -1.0) {
      EXPECT_EQ(outcome->status, SolveStatus::kInfeasible);
      EXPECT_GT(outcome->explanation.missing, 0);
      continue;
    }
    ASSERT_EQ(outcome->status, SolveStatus::kOptimal);
    const double ms = expected.at("obj");
    EXPECT_NEAR(outcome->certificate.objective, ms, kRelative * (1 + ms));
    EXPECT_LE(outcome->plan->figures.peak, budget);
    if (!has_unique_plans) continue;
    std::map<std::string, double> ratios;
    for (const CheckpointUnit& unit : outcome->plan->policy.units) {
      ratios[unit.fqns.front()] = std::round(unit.discard_ratio * 1e4) / 1e4;
    }
    const auto solution = expected.at("a_solution").get<std::map<std::string, double>>();
    ASSERT_EQ(ratios.size(), solution.size());
    for (const auto& [fqn, ratio] : solution) EXPECT_NEAR(ratios[fqn], ratio, 1.5e-4) << fqn;
  }
}

TEST(FrontierVectors, EqualTheGoldenInstances) {
  for (const auto& instance : golden().at("sac_instances")) {
    SCOPED_TRACE(instance.at("name").get<std::string>());
    MemoryModel model;
    model.world_size = instance.at("world_size");
    const CheckpointProblem problem = problem_from(stats_from_instance(instance), model);
    const auto frontier = plan_frontier(problem);
    ASSERT_TRUE(frontier);
    ASSERT_EQ(frontier->status, SolveStatus::kOptimal);
    expect_frontier(instance.at("frontier"), *frontier->plan);
    expect_budgets(instance, problem, true);
  }
}

TEST(FrontierVectors, EqualTheGoldenRandomTrees) {
  for (const auto& instance : golden().at("sac_random_trees")) {
    SCOPED_TRACE(instance.at("name").get<std::string>());
    MemoryModel model;
    model.world_size = instance.at("world_size");
    const CheckpointProblem problem = problem_from(stats_from_instance(instance), model);
    const auto frontier = plan_frontier(problem);
    ASSERT_TRUE(frontier);
    expect_frontier(instance.at("frontier"), *frontier->plan);
    expect_budgets(instance, problem, false);
  }
}

}  // namespace
}  // namespace plimsoll::checkpoint
