// The difference of two plans as JSON: "plimsoll.plan_difference/1". Written only.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/core/outcome.h"
#include "plimsoll/study/plan_difference.h"

#pragma GCC visibility push(default)
namespace plimsoll::io {

std::string write_difference(const study::PlanDifference& difference,
                             const std::vector<Warning>& warnings = {});

}  // namespace plimsoll::io
#pragma GCC visibility pop
