#include "study/embedding/conflict.h"

#include <algorithm>
#include <cstddef>

#include "math/least_conflict.h"
#include "study/embedding/trial.h"

namespace plimsoll::study {
namespace {

constexpr int kMaxQuestions = 200;
constexpr int kLeastQuestions = 12;
constexpr std::size_t kMaxConflictWork = 3'000'000;  // tables times ranks, of all questions

int num_questions(const ShardingQuestion& question) {
  std::size_t tables = 0;
  for (const embedding::Module& module : question.problem.model.modules) {
    tables += module.tables.size();
  }
  if (question.given) tables = question.given->prepared.enumeration.options.tables.size();
  const std::size_t size = std::max<std::size_t>(
      tables * static_cast<std::size_t>(question.problem.topology.world_size), 1);
  return std::clamp(static_cast<int>(std::min<std::size_t>(kMaxConflictWork / size, kMaxQuestions)),
                    kLeastQuestions, kMaxQuestions);
}

}  // namespace

TableConflict find_table_conflict(const ShardingQuestion& question, const RunContext& context) {
  using math::Possibility;
  const std::vector<UserConstraint> constraints = find_constraints(question);
  const auto ask = [&](const std::vector<bool>& holds) {
    ShardingQuestion asked = question;
    for (std::size_t i = 0; i < constraints.size(); ++i) {
      if (!holds[i]) drop_constraint(constraints[i], asked);
    }
    switch (find_whether_possible(asked, context)) {
      case SolveStatus::kOptimal:
      case SolveStatus::kFeasible:
        return Possibility::kPossible;
      case SolveStatus::kInfeasible:
        return Possibility::kImpossible;
      case SolveStatus::kLimit:
        return Possibility::kUnknown;
    }
    return Possibility::kUnknown;
  };
  TableConflict conflict;
  std::vector<bool> holds(constraints.size(), true);
  if (ask(holds) != Possibility::kImpossible) return conflict;
  for (std::size_t i = constraints.size(); i-- > 0 && !conflict.cap;) {
    if (!constraints[i].is_cap()) continue;
    holds[i] = false;
    if (ask(holds) == Possibility::kPossible) conflict.cap = constraints[i].kind;
    holds[i] = true;
  }
  const math::LeastConflict least =
      math::find_least_conflict(constraints.size(), num_questions(question), ask);
  for (const std::size_t i : least.members) conflict.members.push_back(constraints[i]);
  conflict.is_irreducible = least.is_irreducible && !least.members.empty();
  return conflict;
}

}  // namespace plimsoll::study
