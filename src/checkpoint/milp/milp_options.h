// Options that several mixed-integer programs have.
#pragma once

#include <fmt/format.h>

#include <cmath>

#include "plimsoll/core/result.h"

namespace plimsoll::checkpoint {

// Errors kValue at the option's name.
inline Result<void> check_world_size(int world_size) {
  if (world_size >= 1) return {};
  return fail(ErrorCode::kValue, "world_size", fmt::format("world_size is {}", int{world_size}),
              "give a number of ranks of at least 1");
}

inline Result<void> check_budget_in_gib(double memory_budget) {
  if (std::isfinite(memory_budget)) return {};
  return fail(ErrorCode::kValue, "memory_budget",
              fmt::format("memory_budget is {}", double{memory_budget}),
              "give a finite number of GiB");
}

}  // namespace plimsoll::checkpoint
