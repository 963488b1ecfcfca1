// The keys of pipeline plans, by the rules of descriptions.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/documents/descriptions.h"
#include "io/documents/names.h"
#include "io/documents/pipeline_plan_json.h"
#include "io/json/json_reader.h"
#include "io/json/json_writer.h"

namespace plimsoll::io {

inline constexpr std::string_view kPipelinePlanSchema = "plimsoll.pipeline_plan/1";

inline constexpr Rule kPipelineDevices{.min = 1, .max = partition::kMaxPipelineDevices};
inline constexpr Rule kPipelineBytes{
    .form = Rule::Form::kBytes, .min = 0, .max = static_cast<double>(Bytes{1} << 62)};

struct PipelinePlanDocument {
  std::string schema{kPipelinePlanSchema};
  PipelineAnswer answer;  // without certificate
  std::optional<CertificateEntry> certificate;
};

template <class Fields, SameAs<PipelineStageEntry> T>
void describe(Fields& fields, T& stage) {
  fields.required("operators", stage.operators, kNonNegative);
  fields.required("choices", stage.choices);
  fields.required("data_parallel", stage.data_parallel, kPipelineDevices);
  fields.required("tensor_parallel", stage.tensor_parallel, kPipelineDevices);
  fields.optional("time_ms", stage.time_ms, kNonNegative);
  fields.optional("in_flight", stage.in_flight, kPositive);
  fields.optional("memory_bytes", stage.memory, kPipelineBytes);
}

template <class Fields, SameAs<PipelinePlanDocument> T>
void describe(Fields& fields, T& document) {
  auto& answer = document.answer;
  fields.stated("schema", document.schema);
  fields.optional("status", answer.status);
  fields.optional("stop", answer.stop);
  fields.optional("input_hash", answer.input_hash);
  fields.optional("objective", answer.objective);
  fields.optional("num_devices", answer.num_devices, kPipelineDevices);
  fields.optional("slowest_ms", answer.slowest_ms, kNonNegative);
  fields.optional("stages", answer.plan);
  describe_claims(fields, document);
}

}  // namespace plimsoll::io
