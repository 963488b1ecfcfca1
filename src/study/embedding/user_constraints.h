// What the user demands of a plan, constraint by constraint, and questions without one of them.
#pragma once

#include <string>
#include <vector>

#include "study/embedding/sharding_run.h"

namespace plimsoll::study {

enum class ConstraintKind {
  kShardingTypes,   // of a table, as the two below
  kComputeKernels,  //
  kMinPartition,    //
  kAllowedRanks,    // rules, of one table or of several
  kForbiddenRanks,  //
  kTogether,        //
  kApart,           //
  kNumerics,        // no optimizer state per block
  kReservation,
  kDdrCap,
  kHbmCap,
};

struct UserConstraint {
  ConstraintKind kind = ConstraintKind::kHbmCap;
  std::vector<std::string> tables;  // keys of constraints, or fqns of rules; empty: of all
  bool is_by_fqn = false;           // the key is that of EnumerationOptions::fqn_constraints
  bool operator==(const UserConstraint&) const = default;

  bool is_of_table() const { return kind <= ConstraintKind::kMinPartition; }
  bool is_rule() const {
    return kind >= ConstraintKind::kAllowedRanks && kind <= ConstraintKind::kApart;
  }
  bool is_cap() const { return kind == ConstraintKind::kDdrCap || kind == ConstraintKind::kHbmCap; }
};

// Those of tables first, then rules, the reservation and the caps. Of given options, which were
// made with constraints and reservation already, rules and caps alone.
std::vector<UserConstraint> find_constraints(const ShardingQuestion& question);

// The question without it: an uncapped tier has more bytes than any model asks for, and without
// the reservation nothing is kept free.
void drop_constraint(const UserConstraint& constraint, ShardingQuestion& question);

// What constraints say of a table, to be read or changed: by fqn where there are such, else by
// name.
embedding::ParameterConstraints& constraints_of_table(embedding::PlanningProblem& problem,
                                                      const embedding::Module& module,
                                                      const embedding::Table& table);

}  // namespace plimsoll::study
