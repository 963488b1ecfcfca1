#include "plimsoll/io/robust_json.h"

#include <utility>

#include "io/documents/plan_tree.h"
#include "io/documents/robust_tree.h"
#include "io/json/json_writer.h"
// Behind the writer, whose templates find its numbers of features.
#include "io/documents/robust_descriptions.h"

namespace plimsoll::io {
namespace {

study::PoolingForecast to_forecast(const PoolingFactorsDocument& document) {
  study::PoolingForecast forecast;
  for (const auto& [name, entry] : document.tables) {
    study::PoolingDistribution& distribution = forecast.tables[name];
    distribution.p50 = entry.p50.values;
    distribution.p95 = entry.p95.values;
    for (const FeatureNumbers& sample : entry.samples) {
      distribution.samples.push_back(sample.values);
    }
  }
  forecast.others_p95_over_p50 = document.others_p95_over_p50;
  forecast.joint_samples = document.joint_samples;
  return forecast;
}

PoolingFactorsDocument to_document(const study::PoolingForecast& forecast) {
  PoolingFactorsDocument document;
  for (const auto& [name, distribution] : forecast.tables) {
    DistributionEntry& entry = document.tables[name];
    entry.p50.values = distribution.p50;
    entry.p95.values = distribution.p95;
    for (const auto& sample : distribution.samples) entry.samples.push_back({sample});
  }
  document.others_p95_over_p50 = forecast.others_p95_over_p50;
  document.joint_samples = forecast.joint_samples;
  return document;
}

}  // namespace

Result<study::PoolingForecast> read_pooling_factors(std::string_view text, std::string_view file) {
  PLIMSOLL_ASSIGN(PoolingFactorsDocument document,
                  read_document<PoolingFactorsDocument>(text, file, kPoolingFactorsSchema));
  return to_forecast(document);
}

std::string write_pooling_factors(const study::PoolingForecast& forecast) {
  return write_document(to_document(forecast));
}

bool is_robust_tree(const JsonValue& root) {
  const JsonValue* schema = root.find("schema");
  const auto* name = schema == nullptr ? nullptr : schema->as<std::string>();
  return name != nullptr && *name == kRobustPlanSchema;
}

std::string write_robust_plan(const study::RobustPlan& robust) {
  RobustDocument document;
  document.robust = robust;
  document.gap = robust.gap();
  document.pooling_factors = to_document(robust.forecast);
  return write_document(document);
}

Result<study::RobustPlan> read_robust_tree(const JsonValue& root, std::string_view file) {
  PLIMSOLL_ASSIGN(RobustDocument document,
                  read_tree<RobustDocument>(root, file, kRobustPlanSchema));
  study::RobustPlan robust = std::move(document.robust);
  robust.forecast = to_forecast(document.pooling_factors);
  for (study::ScenarioBound& part : robust.bounds) restore_infinities(part.bound);
  return robust;
}

Result<study::RobustPlan> read_robust_plan(std::string_view text, std::string_view file) {
  PLIMSOLL_ASSIGN(const JsonValue root, parse_json(text, file));
  return read_robust_tree(root, file);
}

}  // namespace plimsoll::io
