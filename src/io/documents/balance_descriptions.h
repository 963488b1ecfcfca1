// The keys of what the balanced search reads beside a model, by the rules of descriptions.h.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "io/documents/descriptions.h"
#include "plimsoll/embedding/placement_bridge.h"

namespace plimsoll::io {

inline constexpr std::string_view kStepModelSchema = "plimsoll.step_model/1";
inline constexpr std::string_view kPlacementRulesSchema = "plimsoll.placement_rules/1";

struct StepModelDocument {
  std::string schema{kStepModelSchema};
  std::string name, source, notes;  // for people
  embedding::StepModel model;
};

template <class Fields, SameAs<StepModelDocument> T>
void describe(Fields& fields, T& document) {
  auto& model = document.model;
  fields.stated("schema", document.schema);
  fields.optional("name", document.name);
  fields.optional("source", document.source);
  fields.optional("notes", document.notes);
  fields.stated("kernel_weight", model.kernel_weight, kNonNegative);
  fields.stated("collective_weight", model.collective_weight, kNonNegative);
  fields.stated("ms_per_sharding_type", model.ms_per_sharding_type, kNonNegative);
  fields.stated("ms_per_output_byte", model.ms_per_output_byte, kNonNegative);
  fields.stated("ms_per_table", model.ms_per_table, kNonNegative);
  fields.stated("floor_ms", model.floor_ms, kNonNegative);
}

struct PlacementRulesDocument {
  std::string schema{kPlacementRulesSchema};
  std::map<std::string, std::vector<int>> allowed_ranks, forbidden_ranks;
  std::vector<std::vector<std::string>> together, apart;
};

template <class Fields, SameAs<PlacementRulesDocument> T>
void describe(Fields& fields, T& document) {
  fields.stated("schema", document.schema);
  fields.optional("allowed_ranks", document.allowed_ranks, kRank);
  fields.optional("forbidden_ranks", document.forbidden_ranks, kRank);
  fields.optional("together", document.together);
  fields.optional("apart", document.apart);
}

}  // namespace plimsoll::io
