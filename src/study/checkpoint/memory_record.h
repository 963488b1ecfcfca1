// Memory models by name: their repairs, and what plans record of them.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "plimsoll/checkpoint/checkpoint_problem.h"

namespace plimsoll::study {

// A repair of upstream's memory model.
struct MemoryRepair {
  std::string_view name;
  bool checkpoint::MemoryModel::*is_on;
  std::string_view help;
};
std::span<const MemoryRepair> memory_repairs();

// What a plan records of its model, and what it was made for: peak and costs always, anything else
// where it is not the default.
std::map<std::string, std::string> record_of(const checkpoint::MemoryModel& model, int in_flight);

}  // namespace plimsoll::study
