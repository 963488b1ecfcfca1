// What documents of experts look like (json_reader.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/documents/descriptions.h"
#include "plimsoll/io/experts_json.h"

namespace plimsoll::io {

inline constexpr std::string_view kExpertsSchema = "plimsoll.experts/1";
inline constexpr std::string_view kExpertPlanSchema = "plimsoll.expert_plan/1";

struct ExpertsDocument {
  std::string schema{kExpertsSchema};
  experts::ExpertModel model;
};

template <class Fields, SameAs<ExpertsDocument> T>
void describe(Fields& fields, T& document) {
  auto& model = document.model;
  fields.stated("schema", document.schema);
  fields.optional("name", model.name);
  fields.required("num_slots", model.num_slots, kNonNegative);
  fields.required("num_ranks", model.num_ranks, kNonNegative);
  fields.optional("num_hosts", model.num_hosts, kNonNegative);
  fields.optional("num_groups", model.num_groups, kNonNegative);
  fields.required("loads", model.loads);
}

template <class Fields, SameAs<experts::ExpertPlan> T>
void describe(Fields& fields, T& plan) {
  fields.required("num_ranks", plan.num_ranks, kNonNegative);
  fields.required("physical_to_logical_map", plan.slots);
}

struct ExpertPlanDocument {
  std::string schema{kExpertPlanSchema};
  ExpertAnswer answer;
};

template <class Fields, SameAs<ExpertPlanDocument> T>
void describe(Fields& fields, T& document) {
  auto& answer = document.answer;
  auto& stated = answer.stated;
  fields.stated("schema", document.schema);
  fields.stated("status", stated.status);
  fields.stated("stop", answer.stop);
  fields.optional("objective", stated.objective, kNonNegative);
  fields.optional("lower_bound", stated.lower_bound, kNonNegative);
  fields.optional("gap", stated.gap);
  fields.optional("eplb_load", answer.eplb_load, kNonNegative);
  fields.optional("before_load", stated.before_load, kNonNegative);
  fields.optional("fresh_load", answer.fresh_load, kNonNegative);
  fields.optional("moved_replicas", stated.moved, kNonNegative);
  fields.optional("max_moved_replicas", stated.max_moved, kNonNegative);
  fields.optional("fresh_moved_replicas", answer.fresh_moved, kNonNegative);
  fields.required("num_ranks", stated.plan.num_ranks, kNonNegative);
  fields.optional("slowest_loads", stated.slowest_loads, kNonNegative);
  fields.optional("lower_bounds", stated.lower_bounds, kNonNegative);
  fields.required("physical_to_logical_map", stated.plan.slots);
  fields.optional("before", stated.before);
  fields.optional("provenance", answer.provenance);
}

}  // namespace plimsoll::io
