// What the documents of robust plans look like (json_reader.h).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "io/documents/balance_descriptions.h"
#include "io/documents/bound_descriptions.h"
#include "io/documents/descriptions.h"
#include "plimsoll/study/robust.h"

namespace plimsoll::io {

template <>
struct Values<study::RiskMeasure> {
  static constexpr study::RiskMeasure kAll[] = {study::RiskMeasure::kQuantile,
                                                study::RiskMeasure::kCvar};
};

inline constexpr std::string_view kPoolingFactorsSchema = "plimsoll.pooling_factors/1";
inline constexpr std::string_view kRobustPlanSchema = "plimsoll.robust_plan/1";
inline constexpr Rule kPositiveNumber{.min = 0, .excludes_min = true};
inline constexpr Rule kLevel{.min = 0, .max = 1, .excludes_min = true};

// A number for each feature; of one feature the number alone.
struct FeatureNumbers {
  std::vector<double> values;
  bool empty() const { return values.empty(); }
  bool operator==(const FeatureNumbers&) const = default;
};
inline bool read(const Cursor& cursor, FeatureNumbers& out, const Rule& rule) {
  if (cursor.value.as<JsonValue::Array>() != nullptr) return read(cursor, out.values, rule);
  return read(cursor, out.values.emplace_back(), rule);
}
inline JsonValue to_json(const FeatureNumbers& numbers, const Rule& rule) {
  if (numbers.values.size() == 1) return to_json(numbers.values.front(), rule);
  return to_json(numbers.values, rule);
}

struct DistributionEntry {
  FeatureNumbers p50, p95;
  std::vector<FeatureNumbers> samples;
};
template <class Fields, SameAs<DistributionEntry> T>
void describe(Fields& fields, T& entry) {
  fields.optional("p50", entry.p50, kPositiveNumber);
  fields.optional("p95", entry.p95, kPositiveNumber);
  fields.optional("samples", entry.samples, kNonNegative);
}

struct PoolingFactorsDocument {
  std::string schema{kPoolingFactorsSchema};
  std::map<std::string, DistributionEntry> tables;
  std::optional<double> others_p95_over_p50;
  bool joint_samples = false;
};
template <class Fields, SameAs<PoolingFactorsDocument> T>
void describe(Fields& fields, T& document) {
  fields.stated("schema", document.schema);
  fields.optional("tables", document.tables);
  fields.optional("others_p95_over_p50", document.others_p95_over_p50, kPositive);
  fields.optional("joint_samples", document.joint_samples);
}

template <class Fields, SameAs<study::RiskFigures> T>
void describe(Fields& fields, T& figures) {
  fields.required("risk_ms", figures.risk_ms, kNonNegative);
  fields.required("mean_ms", figures.mean_ms, kNonNegative);
  fields.required("fresh_risk_ms", figures.fresh_risk_ms, kNonNegative);
  fields.required("fresh_mean_ms", figures.fresh_mean_ms, kNonNegative);
}

template <class Fields, SameAs<study::PlanDrift> T>
void describe(Fields& fields, T& drift) {
  fields.required("table", drift.table);
  fields.required("kept_ms", drift.kept_ms, kNonNegative);
  fields.required("replanned_ms", drift.replanned_ms, kNonNegative);
}

template <class Fields, SameAs<study::ScenarioBound> T>
void describe(Fields& fields, T& part) {
  fields.required("scenarios", part.scenarios, kNonNegative);
  fields.required("bound", part.bound);
}

struct RobustDocument {
  std::string schema{kRobustPlanSchema};
  study::RobustPlan robust;
  std::optional<double> gap;
  PoolingFactorsDocument pooling_factors;
};
template <class Fields, SameAs<RobustDocument> T>
void describe(Fields& fields, T& document) {
  auto& robust = document.robust;
  auto& options = robust.options;
  fields.stated("schema", document.schema);
  fields.required("status", robust.status);
  fields.required("stop", robust.stop);
  fields.required("objective", options.objective);
  fields.required("measure", options.measure);
  fields.required("level", options.level, kLevel);
  fields.required("num_scenarios", options.num_scenarios, kPositive);
  fields.required("num_fresh_scenarios", options.num_fresh_scenarios, kPositive);
  fields.optional("figures", robust.figures);
  fields.optional("means_figures", robust.means_figures);
  fields.optional("lower_bound", robust.lower_bound);
  fields.optional("gap", document.gap);
  fields.stated("drifts", robust.drifts);
  fields.optional("keeps_hazards", robust.keeps_hazards);
  fields.optional("reasons", robust.explanation.lines);
  fields.stated("warnings", robust.warnings);
  fields.required("provenance", robust.provenance);
  fields.required("pooling_factors", document.pooling_factors);
  fields.optional("scenario_ms", robust.scenario_ms, kNonNegative);
  fields.optional("bounds", robust.bounds);
  fields.optional("plan", robust.plan);
  fields.optional("means_plan", robust.means_plan);
}

}  // namespace plimsoll::io
