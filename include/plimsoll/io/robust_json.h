// Pooling factors as distributions, "plimsoll.pooling_factors/1", and robust plans,
// "plimsoll.robust_plan/1", as JSON. Strictness as in model_json.h. Where a plan is read
// (plan_json.h), a robust plan is one without figures.
#pragma once

#include <string>
#include <string_view>

#include "plimsoll/core/result.h"
#include "plimsoll/study/robust.h"

#pragma GCC visibility push(default)
namespace plimsoll::io {

Result<study::PoolingForecast> read_pooling_factors(std::string_view text, std::string_view file);
std::string write_pooling_factors(const study::PoolingForecast& forecast);

std::string write_robust_plan(const study::RobustPlan& robust);
Result<study::RobustPlan> read_robust_plan(std::string_view text, std::string_view file);

}  // namespace plimsoll::io
#pragma GCC visibility pop
