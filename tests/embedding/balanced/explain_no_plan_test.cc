// What is said of a problem without a plan, tried: bytes are given, rules and constraints dropped.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "balance/bounds/explain_infeasible.h"
#include "plimsoll/embedding/balanced_search.h"
#include "plimsoll/embedding/reservation.h"

namespace plimsoll::embedding::explain_no_plan {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Table make_table(const std::string& name, std::int64_t rows, std::int64_t columns = 64) {
  Table table;
  table.name = name;
  table.num_embeddings = rows;
  table.embedding_dim = columns;
  return table;
}

// Rooms are what the ranks have: nothing is reserved.
PlanningProblem make_problem(const std::vector<Table>& tables, int world_size, Bytes hbm,
                             Bytes ddr) {
  PlanningProblem problem;
  Module module;
  module.path = "m";
  module.tables = tables;
  problem.model.modules.push_back(module);
  topology::TopologySpec spec;
  spec.world_size = world_size;
  spec.hbm_cap = hbm;
  spec.ddr_cap = ddr;
  problem.topology = *topology::make_topology(spec, false, true);
  problem.reservation.kind = ReservationKind::kFixedPercentage;
  problem.reservation.percentage = 0;
  return problem;
}

const SearchOptions kSearch = [] {
  SearchOptions search;
  search.effort = 5000;
  return search;
}();

BalancedResult plan(const PlanningProblem& problem, const BalancedOptions& options = {}) {
  auto result = plan_balanced(problem, options, kSearch, {});
  EXPECT_TRUE(result) << (result ? "" : format_error(result.error()));
  return *std::move(result);
}

SolveStatus status_of(const PlanningProblem& problem, const BalancedOptions& options = {}) {
  return plan(problem, options).planning.outcome.status;
}

const NoPlanCause* find_cause(const BalancedResult& result, NoPlanCauseKind kind) {
  for (const NoPlanCause& cause : result.causes) {
    if (cause.kind == kind) return &cause;
  }
  return nullptr;
}

PlanningProblem with_more(PlanningProblem problem, Bytes hbm, Bytes ddr) {
  for (topology::Storage& device : problem.topology.devices) {
    device.hbm += hbm;
    device.ddr += ddr;
  }
  return problem;
}

PlanningProblem random_problem(std::mt19937_64& random) {
  std::vector<Table> tables;
  const auto num_tables = 2 + random() % 4;
  for (std::size_t t = 0; t < num_tables; ++t) {
    tables.push_back(make_table("t" + std::to_string(t),
                                static_cast<std::int64_t>(1000 + random() % 4000000),
                                std::int64_t{32} << random() % 3));
  }
  PlanningProblem problem =
      make_problem(tables, random() % 2 == 0 ? 2 : 4, static_cast<Bytes>(random() % 1024) * kMiB,
                   static_cast<Bytes>(random() % 256) * kMiB);
  for (const Table& table : tables) {
    ParameterConstraints& constraints = problem.model.constraints[table.name];
    constraints.pooling_factors = {static_cast<double>(1 + random() % 20)};
    if (random() % 3 == 0) constraints.sharding_types = {ShardingType::kTableWise};
    if (random() % 4 == 0) constraints.sharding_types = {ShardingType::kDataParallel};
    if (random() % 4 == 0) constraints.compute_kernels = {ComputeKernel::kFusedUvm};
    if (random() % 4 == 0) {
      constraints.compute_kernels = {ComputeKernel::kFused, ComputeKernel::kDense};
    }
  }
  return problem;
}

TEST(ExplainNoPlan, NamesBytesThatChangeTheVerdict) {
  std::mt19937_64 random(7);
  int num_infeasible = 0, num_hbm = 0, num_ddr = 0;
  for (int i = 0; i < 120; ++i) {
    SCOPED_TRACE(i);
    const PlanningProblem problem = random_problem(random);
    auto planned =
        plan_balanced(problem, BalancedOptions::minimizing(BalanceObjective::kRating), kSearch, {});
    if (!planned) continue;  // no options at all
    const Outcome<ShardingPlan>& outcome = planned->planning.outcome;
    if (outcome.status != SolveStatus::kInfeasible) {
      EXPECT_TRUE(planned->causes.empty());
      continue;
    }
    const Explanation& explanation = outcome.explanation;
    const bool is_hbm = explanation.binding == "hbm";
    if (!is_hbm && explanation.binding != "ddr") continue;  // both are missing
    ++num_infeasible;
    (is_hbm ? num_hbm : num_ddr) += 1;
    ASSERT_GT(explanation.missing, 0);
    const bool is_sum =
        std::any_of(explanation.lines.begin(), explanation.lines.end(),
                    [](const std::string& line) { return line.find("all tables together") == 0; });
    const auto world_size = static_cast<Bytes>(problem.topology.devices.size());
    const Bytes each = is_sum ? explanation.missing / world_size : explanation.missing;
    const auto with = [&](Bytes bytes) {
      return status_of(with_more(problem, is_hbm ? bytes : 0, is_hbm ? 0 : bytes));
    };
    EXPECT_NE(with(each), SolveStatus::kInfeasible);
    EXPECT_EQ(with(each - 1), SolveStatus::kInfeasible);
    EXPECT_EQ(with(each / 2), SolveStatus::kInfeasible);
  }
  EXPECT_GT(num_hbm, 10);
  EXPECT_GT(num_ddr, 5);
}

TEST(ExplainNoPlan, NamesTheReferencesBytesLikewise) {
  std::mt19937_64 random(11);
  int num_infeasible = 0;
  for (int i = 0; i < 120; ++i) {
    SCOPED_TRACE(i);
    const PlanningProblem problem = random_problem(random);
    const auto result = plan_like_torchrec(problem, {}, {}, {});
    if (!result || result->outcome.status != SolveStatus::kInfeasible) continue;
    const Explanation& explanation = result->outcome.explanation;
    ASSERT_FALSE(explanation.lines.empty());
    ASSERT_GT(explanation.missing, 0);
    const std::string& line = explanation.lines.front();
    const bool is_hbm = line.find(" of hbm") != line.npos;
    const bool is_ddr = line.find(" of ddr") != line.npos;
    if (explanation.lines.size() > 2) continue;  // both are missing
    ASSERT_NE(is_hbm, is_ddr) << line;
    ++num_infeasible;
    const auto world_size = static_cast<Bytes>(problem.topology.devices.size());
    const bool is_sum = line.find("all tables together") != line.npos;
    const Bytes each = is_sum ? explanation.missing / world_size : explanation.missing;
    const auto is_refuted = [&](Bytes bytes) {
      const PlanningProblem more = with_more(problem, is_hbm ? bytes : 0, is_hbm ? 0 : bytes);
      return simple_bound(result->enumeration.options, more.topology).is_infeasible;
    };
    EXPECT_FALSE(is_refuted(each));
    EXPECT_TRUE(is_refuted(each - 1));
  }
  EXPECT_GT(num_infeasible, 15);
}

// Of four tables each fits alone on half of a rank; constraints keep two of them where no room is.
TEST(ExplainNoPlan, NamesTheConstraintsThatAreTheCause) {
  PlanningProblem problem =
      make_problem({make_table("a", 4000000), make_table("b", 1000), make_table("c", 4000000)}, 4,
                   768 * kMiB, 0);
  problem.model.constraints["a"].sharding_types = {ShardingType::kTableWise};
  problem.model.constraints["b"].sharding_types = {ShardingType::kTableWise};  // harmless
  problem.model.constraints["c"].sharding_types = {ShardingType::kDataParallel};
  const BalancedResult result = plan(problem);
  ASSERT_EQ(result.planning.outcome.status, SolveStatus::kInfeasible);
  const NoPlanCause* cause = find_cause(result, NoPlanCauseKind::kConstraints);
  ASSERT_NE(cause, nullptr);
  EXPECT_TRUE(cause->has_plan);
  EXPECT_THAT(cause->text, HasSubstr("sharding_types of a"));
  EXPECT_THAT(cause->text, HasSubstr("sharding_types of c"));
  EXPECT_THAT(cause->text, Not(HasSubstr(" of b")));
  EXPECT_EQ(result.planning.outcome.explanation.lines.front(), cause->text);
}

// Whatever is named: all of it dropped, it is no longer proved that nothing fits; any one kept, it
// is.
TEST(ExplainNoPlan, NamesConstraintsOfWhichNoneCanStay) {
  std::mt19937_64 random(23);
  int num_named = 0, num_unnamed = 0;
  for (int i = 0; i < 80; ++i) {
    SCOPED_TRACE(i);
    const PlanningProblem problem = random_problem(random);
    const auto result =
        plan_balanced(problem, BalancedOptions::minimizing(BalanceObjective::kRating), kSearch, {});
    if (!result || result->planning.outcome.status != SolveStatus::kInfeasible) continue;
    const NoPlanCause* cause = find_cause(*result, NoPlanCauseKind::kConstraints);
    using Drop = std::function<void(ParameterConstraints&)>;
    const std::vector<std::pair<std::string, Drop>> fields{
        {"sharding_types", [](ParameterConstraints& c) { c.sharding_types.clear(); }},
        {"compute_kernels", [](ParameterConstraints& c) { c.compute_kernels.clear(); }}};
    std::vector<std::pair<std::string, Drop>> named;  // by table
    PlanningProblem free = problem;
    for (auto& [name, constraints] : free.model.constraints) {
      for (const auto& [field, drop] : fields) {
        if (cause == nullptr || cause->text.find(field + " of " + name) != std::string::npos) {
          drop(constraints);
          named.emplace_back(name, drop);
        }
      }
    }
    if (cause == nullptr) {
      ++num_unnamed;
      EXPECT_EQ(status_of(free), SolveStatus::kInfeasible);
      continue;
    }
    if (cause->text.find(" more)") != std::string::npos) continue;  // not all are listed
    ++num_named;
    EXPECT_NE(status_of(free), SolveStatus::kInfeasible);
    if (cause->has_plan) {
      EXPECT_TRUE(plan(free).planning.outcome.plan);
    }
    for (std::size_t kept = 0; kept < named.size(); ++kept) {
      PlanningProblem partly = problem;
      for (std::size_t other = 0; other < named.size(); ++other) {
        if (other == kept) continue;
        named[other].second(partly.model.constraints[named[other].first]);
      }
      EXPECT_EQ(status_of(partly), SolveStatus::kInfeasible) << kept;
    }
  }
  EXPECT_GT(num_named, 10);
  EXPECT_GT(num_unnamed, 3);
}

TEST(ExplainNoPlan, NamesTheRulesThatAreTheCause) {
  PlanningProblem problem =
      make_problem({make_table("a", 2000000), make_table("b", 2000000), make_table("c", 1000)}, 2,
                   768 * kMiB, 0);
  auto options = BalancedOptions::minimizing(BalanceObjective::kRating);
  options.bridge.allowed_ranks = {{"m.a", {0}}, {"m.c", {1}}};
  options.bridge.allowed_ranks["m.b"] = {0};
  const BalancedResult result = plan(problem, options);
  ASSERT_EQ(result.planning.outcome.status, SolveStatus::kInfeasible);
  const NoPlanCause* cause = find_cause(result, NoPlanCauseKind::kRules);
  ASSERT_NE(cause, nullptr);
  EXPECT_TRUE(cause->has_plan);
  EXPECT_THAT(cause->text, Not(HasSubstr("m.c")));
  const bool names_a = cause->text.find("m.a") != std::string::npos;
  const bool names_b = cause->text.find("m.b") != std::string::npos;
  EXPECT_NE(names_a, names_b) << cause->text;  // one of them suffices
  options.bridge.allowed_ranks.erase(names_a ? "m.a" : "m.b");
  EXPECT_TRUE(plan(problem, options).planning.outcome.plan);
}

TEST(ExplainNoPlan, NamesNoHazardsWhereBytesAreMissing) {
  const PlanningProblem problem =
      make_problem({make_table("a", 4000001), make_table("b", 4000001)}, 2, 256 * kMiB, 0);
  const BalancedResult result = plan(problem);
  ASSERT_EQ(result.planning.outcome.status, SolveStatus::kInfeasible);
  EXPECT_EQ(find_cause(result, NoPlanCauseKind::kHazards), nullptr);
}

TEST(ExplainNoPlan, SaysThatNoneWasFoundWhereNothingIsProved) {
  // Three tables of 2 units on two ranks of 3: totals fit, whole tables do not.
  std::vector<Table> tables;
  for (const char* name : {"a", "b", "c"}) tables.push_back(make_table(name, 8388608));
  PlanningProblem problem = make_problem(tables, 2, 3 * kGiB + 512 * kMiB, 0);
  for (const Table& table : tables) {
    problem.model.constraints[table.name].sharding_types = {ShardingType::kTableWise};
    problem.model.constraints[table.name].compute_kernels = {ComputeKernel::kFused};
  }
  const BalancedResult result = plan(problem);
  ASSERT_EQ(result.planning.outcome.status, SolveStatus::kLimit);
  ASSERT_TRUE(result.planning.failure);
  EXPECT_THAT(result.planning.failure->message, HasSubstr("no plan was found"));
  EXPECT_TRUE(result.planning.outcome.explanation.lines.empty());
}

TEST(Reservation, SaysHowMuchIsMissing) {
  for (const ReservationKind kind : {ReservationKind::kHeuristical, ReservationKind::kSkuAware}) {
    PlanningProblem problem = make_problem({make_table("a", 1000)}, 2, 300 * kMiB, 0);
    problem.reservation.kind = kind;
    problem.reservation.percentage = .15;
    problem.reservation.margin_bytes = 100 * kMiB;
    problem.reservation.dense_tensor_estimate = 290 * kMiB;
    const auto shortage = [&] {
      return find_reservation_shortage(problem.cost_model, problem.reservation, problem.topology,
                                       problem.model, problem.batch_size);
    };
    const auto now = shortage();
    ASSERT_TRUE(now);
    EXPECT_EQ(now->capacity, 300 * kMiB);
    EXPECT_EQ(now->dense, 290 * kMiB);
    const BalancedResult result = plan(problem);
    EXPECT_EQ(result.planning.outcome.explanation.missing, now->missing);
    problem = with_more(problem, now->missing - 1, 0);
    EXPECT_EQ(shortage()->missing, 1);
    problem = with_more(problem, 1, 0);
    EXPECT_FALSE(shortage());
  }
}

}  // namespace
}  // namespace plimsoll::embedding::explain_no_plan
