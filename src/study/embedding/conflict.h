// Which constraints admit no plan of embedding tables together, and which cap binds.
//
// Problem. What the user demands (user_constraints.h) has no plan. Find constraints that have none
// together, though without any one of them the others have one; and the memory cap without which
// alone everything fits. Method. The deletion filter (math/least_conflict.h); each question is
// planned by a short search. Promises. The members have no plan together: that is proved. Where
// `is_irreducible`, a plan was found without each of them. At most kMaxQuestions searches.
#pragma once

#include <optional>
#include <vector>

#include "plimsoll/core/run_context.h"
#include "study/embedding/user_constraints.h"

namespace plimsoll::study {

struct TableConflict {
  std::optional<ConstraintKind> cap;  // kHbmCap or kDdrCap
  std::vector<UserConstraint> members;
  bool is_irreducible = false;
};

// Precondition: the question has no plan. Nothing where the searches are stopped before that is
// seen again.
TableConflict find_table_conflict(const ShardingQuestion& question, const RunContext& context);

}  // namespace plimsoll::study
