// How a reference planner says that it has no plan.
#pragma once

#include <string>

#pragma GCC visibility push(default)
namespace plimsoll::study {

// Why there is no plan, in the reference's classes and texts.
struct PlanFailure {
  std::string kind;   // "insufficient_storage", "strict_constraints", ...
  std::string place;  // table and rank where known
  std::string message;
  bool operator==(const PlanFailure&) const = default;
};

}  // namespace plimsoll::study
#pragma GCC visibility pop
