// Why no policy keeps a budget, and which changes would: of CheckpointAnswer::explanation.
//
// Problem. A budget, the choice of units and the memory model leave no policy. Find those of them
// that have none together (math/least_conflict.h), and changes with which one exists. Method. Every
// question is planned by the exact search; the changes by the question's own. Promises. As of
// NoPlan: each fix was planned, and the budget is the cap where a larger one alone is enough.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "plimsoll/study/no_plan.h"
#include "study/checkpoint/checkpoint_planning.h"

namespace plimsoll::study {

// How the fields of MemoryModel and CheckpointQuestion are written ("ac_units", "in_flight"); a
// repair by its name (checkpoint_record.h).
struct PolicyWords {
  std::function<std::string(const std::string& field)> without;  // it left out
  std::function<std::string(const std::string& field, const std::string& value)> with;
};
PolicyWords library_policy_words();  // "ac_units", "budget = 1024"

// Nothing where there is a policy, or no proof that there is none. `answer` is the question's.
std::optional<NoPlan> explain_no_policy(const CheckpointCase& made,
                                        const CheckpointQuestion& question,
                                        const CheckpointAnswer& answer, const PolicyWords& words,
                                        const math::MilpOptions& limits, const RunContext& context);

}  // namespace plimsoll::study
