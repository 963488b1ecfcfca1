// Experts of mixture-of-experts models in `shard`, `replan` and `check`.
#pragma once

#include <optional>
#include <string>

#include "plimsoll/common.h"
#include "plimsoll/shard/planning_flags.h"

namespace plimsoll::app {

// Is MODEL a file of experts (plimsoll.experts/1)? A file that cannot be read is none.
bool is_of_experts(const PlanningFlags& flags);

struct ExpertFlags {
  GlobalFlags global;
  PlanningFlags planning;  // the model alone counts; others are refused
  std::string search;      // balanced, eplb; empty: balanced
  std::string plan;        // of replan and check
  std::string max_moved;   // "64" replicas, or "10%" of all slots
  bool has_price = false;  // --price-of-move, which there is none of
  std::string output;
  std::string time_limit;
  std::int64_t effort = -1;
  double tolerance = SearchOptions{}.tolerance;
};

int run_expert_shard(const ExpertFlags& flags);
int run_expert_replan(const ExpertFlags& flags);
int run_expert_check(const ExpertFlags& flags);

}  // namespace plimsoll::app
