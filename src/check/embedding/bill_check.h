// Is a stated bill right? Bytes and milliseconds of every rank by cause, as embedding::make_bill
// writes them, from what the checker found on every rank: bytes exactly, times at 1e-9 relative. A
// bill that is stated is whole: what it leaves out is said to be nothing.
#pragma once

#include <vector>

#include "plimsoll/check/sharding_check.h"
#include "plimsoll/core/outcome.h"
#include "plimsoll/embedding/planning_problem.h"

namespace plimsoll::check {

// The bill of a plan without violations. Errors: those of reserving.
Result<Bill> make_judges_bill(const embedding::PlanningProblem& problem,
                              const ShardingReport& report);

// Of a dump: `topology` before reservation; times by component where the dump has them.
Bill make_judges_bill(const topology::Topology& topology, bool has_components,
                      const ShardingReport& report);

// One violation for each entry that differs, is missing or is not known.
std::vector<Finding> check_bill(const Bill& stated, const Bill& found);

// Is what a plan says of times that were not measured right? One violation for each entry that is
// missing, not known or another one.
std::vector<Finding> check_extrapolated(const std::vector<embedding::Extrapolation>& stated,
                                        const std::vector<embedding::Extrapolation>& found);

}  // namespace plimsoll::check
