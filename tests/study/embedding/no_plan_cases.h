// Seeded problems of embedding tables that have no plan, and what must be true of what is said of
// them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "embedding/small_models.h"
#include "study/embedding/conflict.h"
#include "study/embedding/remedies.h"

namespace plimsoll::study {

// A few tables on a few small ranks, some of them constrained, with rules; many do not fit.
inline ShardingQuestion random_question(std::mt19937& random) {
  const auto below = [&random](unsigned n) { return static_cast<int>(random() % n); };
  ShardingQuestion question;
  embedding::Module module;
  module.path = "ebc";
  const int num_tables = 2 + below(4);
  const int num_ranks = 1 + below(4);
  for (int t = 0; t < num_tables; ++t) {
    module.tables.push_back(embedding::make_table("t" + std::to_string(t), (1 + below(40)) * 8192,
                                                  64, embedding::Pooling::kSum));
  }
  question.problem.model.modules = {module};
  embedding::set_room(question.problem, num_ranks, num_ranks, (16 + below(48)) * kMiB, 1e6);
  for (auto& device : question.problem.topology.devices) device.ddr = below(2) * 32 * kMiB;
  question.problem.reservation.percentage = .1 * below(4);
  question.problem.batch_size = 16 << below(6);
  using embedding::ShardingType;
  for (int t = 0; t < num_tables; ++t) {
    embedding::ParameterConstraints& constraints =
        question.problem.model.constraints["t" + std::to_string(t)];
    if (below(3) == 0) constraints.sharding_types = {ShardingType::kTableWise};
    if (below(4) == 0) constraints.sharding_types = {ShardingType::kDataParallel};
    if (below(3) == 0) constraints.compute_kernels = {embedding::ComputeKernel::kFused};
    if (!constraints.sharding_types.empty() &&
        constraints.sharding_types.front() == ShardingType::kDataParallel) {
      constraints.compute_kernels = {};
    }
  }
  if (num_ranks > 1 && below(3) == 0) {
    question.balanced.bridge.allowed_ranks["ebc.t0"] = {0};
    question.balanced.bridge.allowed_ranks["ebc.t1"] = {0};
  }
  if (below(4) == 0) question.balanced.bridge.apart = {{"ebc.t0", "ebc.t1"}};
  return question;
}

// By a search of little effort: what is asked is whether there is a plan.
inline bool is_planned(ShardingQuestion question) {
  question.limits.effort = 50000;
  const auto run = plan_tables(question, {});
  EXPECT_TRUE(run) << (run ? "" : format_error(run.error()));
  return run && run->planning().outcome.plan;
}

inline SolveStatus status_of(const ShardingQuestion& question) {
  const auto run = plan_tables(question, {});
  EXPECT_TRUE(run) << (run ? "" : format_error(run.error()));
  return run ? run->planning().outcome.status : SolveStatus::kLimit;
}

// The question with these constraints alone.
inline ShardingQuestion with_only(const ShardingQuestion& question,
                                  const std::vector<UserConstraint>& members) {
  ShardingQuestion asked = question;
  for (const UserConstraint& constraint : find_constraints(question)) {
    if (std::find(members.begin(), members.end(), constraint) == members.end()) {
      drop_constraint(constraint, asked);
    }
  }
  return asked;
}

// What is said of problems without a plan: how many there were, and had fixes.
struct NoPlanCounts {
  int infeasible = 0, with_fix = 0, with_cap = 0;
};

inline NoPlanCounts check_no_plans(unsigned first_seed, int wanted) {
  NoPlanCounts counts;
  for (unsigned seed = first_seed; counts.infeasible < wanted; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const ShardingQuestion question = random_question(random);
    const auto run = plan_tables(question, {});
    if (!run) {
      ADD_FAILURE() << format_error(run.error());
      return counts;
    }
    if (run->planning().outcome.status != SolveStatus::kInfeasible) continue;
    ++counts.infeasible;
    const TableConflict conflict = find_table_conflict(question, {});

    // The conflict has no plan, and without any one member it has one.
    EXPECT_TRUE(conflict.is_irreducible);
    EXPECT_FALSE(conflict.members.empty());
    EXPECT_EQ(status_of(with_only(question, conflict.members)), SolveStatus::kInfeasible);
    for (std::size_t i = 0; i < conflict.members.size(); ++i) {
      std::vector<UserConstraint> rest = conflict.members;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
      EXPECT_TRUE(is_planned(with_only(question, rest)));
    }

    // The cap that binds is one without which alone there is a plan, where one is.
    bool has_such = false;
    for (const ConstraintKind kind : {ConstraintKind::kHbmCap, ConstraintKind::kDdrCap}) {
      ShardingQuestion uncapped = question;
      drop_constraint({kind, {}, false}, uncapped);
      const bool is_such = is_planned(uncapped);
      has_such = has_such || is_such;
      if (conflict.cap == kind) {
        EXPECT_TRUE(is_such);
      }
    }
    EXPECT_EQ(conflict.cap.has_value(), has_such);
    counts.with_cap += has_such ? 1 : 0;

    // Every fix gives a plan, and they are in order.
    const ScaledProblem scaled{question.problem.topology.world_size,
                               [&](int count) -> std::optional<embedding::PlanningProblem> {
                                 embedding::PlanningProblem larger = question.problem;
                                 const topology::Storage device = larger.topology.devices.front();
                                 embedding::set_room(larger, count, count, device.hbm, 1e6);
                                 for (auto& of : larger.topology.devices) of = device;
                                 larger.reservation = question.problem.reservation;
                                 return larger;
                               }};
    const auto remedies = find_remedies(question, *run, conflict, scaled, {});
    counts.with_fix += remedies.empty() ? 0 : 1;
    double cost = 0;
    for (const Remedy& remedy : remedies) {
      ShardingQuestion mended = question;
      apply_remedy(remedy, scaled, mended);
      EXPECT_TRUE(is_planned(mended)) << static_cast<int>(remedy.kind);
      EXPECT_GT(remedy.ms, 0);
      const double of_batch = remedy.kind == RemedyKind::kSmallerBatch
                                  ? static_cast<double>(question.problem.batch_size) /
                                        static_cast<double>(remedy.batch_size)
                                  : 1;
      EXPECT_GE(remedy.ms * of_batch, cost);
      cost = remedy.ms * of_batch;
    }
  }
  return counts;
}

}  // namespace plimsoll::study
