// What the answer of every planner says, whatever its plan is: how the search ended, what proves
// it, what it was made from, and why there is no plan. A file that holds a plan alone reads as an
// answer whose other fields are empty.
#pragma once

#include <optional>
#include <vector>

#include "plimsoll/core/outcome.h"
#include "plimsoll/study/no_plan.h"
#include "plimsoll/study/plan_failure.h"

#pragma GCC visibility push(default)
namespace plimsoll::study {

template <class Plan>
struct Answer {
  std::optional<SolveStatus> status;
  std::optional<StopReason> stop;
  std::optional<Plan> plan;  // absent: there is none, or none was asked for
  std::optional<Certificate> certificate;
  std::optional<Provenance> provenance;
  std::vector<Warning> warnings;
  std::optional<NoPlan> explanation;
  std::optional<PlanFailure> failure;  // in the words of the system that is reproduced
  bool operator==(const Answer&) const = default;
};

// How the search ended: all but its plan, which an answer states in a form of its own.
template <class Found, class Plan>
void take_end(const Outcome<Found>& outcome, Answer<Plan>& answer) {
  answer.status = outcome.status;
  answer.stop = outcome.stop;
  answer.certificate = outcome.certificate;
  answer.warnings = outcome.warnings;
  if (!(outcome.explanation == Explanation{})) answer.explanation = outcome.explanation;
}

}  // namespace plimsoll::study
#pragma GCC visibility pop
