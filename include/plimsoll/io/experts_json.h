// Experts of mixture-of-experts models as JSON: "plimsoll.experts/1" (loads, slots, groups, hosts,
// ranks) and "plimsoll.expert_plan/1" (where replicas stand, what ranks carry, the bound).
// Strictness as in model_json.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/check/expert_check.h"
#include "plimsoll/core/outcome.h"
#include "plimsoll/core/result.h"
#include "plimsoll/experts/expert_model.h"

#pragma GCC visibility push(default)
namespace plimsoll::io {

// Does the text name its schema as that?
bool is_experts(std::string_view text);
bool is_expert_plan(std::string_view text);

// Errors: those of reading and of experts::validate.
Result<experts::ExpertModel> read_experts(std::string_view text, std::string_view file);
std::string write_experts(const experts::ExpertModel& model);

// A plan of experts with what it states.
struct ExpertAnswer {
  StopReason stop = StopReason::kFinished;
  check::StatedExperts stated;       // its plan is empty where there is none
  std::optional<double> eplb_load;   // the objective of EPLB's placement
  std::optional<double> fresh_load;  // of a replan
  std::optional<std::int64_t> fresh_moved;
  std::optional<Provenance> provenance;
  bool has_plan() const { return !stated.plan.slots.empty(); }
};

// `physical_to_logical_map` alone, as EPLB returns it, with `num_ranks`, is a plan, too.
Result<ExpertAnswer> read_expert_plan(std::string_view text, std::string_view file);
std::string write_expert_plan(const ExpertAnswer& answer);

}  // namespace plimsoll::io
#pragma GCC visibility pop
