#include "plimsoll/io/experts_json.h"

#include <utility>

#include "io/documents/experts_descriptions.h"
#include "io/json/json_writer.h"

namespace plimsoll::io {
namespace {

struct ViolationEntry {
  std::string code;
  std::optional<int> layer;
  std::string message;
};
struct ReportDocument {
  std::string schema{"plimsoll.expert_check_report/1"};
  bool is_right = false;
  std::string certificate_status;
  double objective = 0;
  std::vector<ViolationEntry> violations;
};

}  // namespace

template <class Fields, SameAs<ViolationEntry> T>
void describe(Fields& fields, T& entry) {
  fields.required("code", entry.code);
  fields.optional("layer", entry.layer);
  fields.required("message", entry.message);
}
template <class Fields, SameAs<ReportDocument> T>
void describe(Fields& fields, T& report) {
  fields.required("schema", report.schema);
  fields.required("is_right", report.is_right);
  fields.required("certificate_status", report.certificate_status);
  fields.required("objective", report.objective);
  fields.required("violations", report.violations);
}

namespace {

// The keys come in any order; no string of such a document holds the word.
bool names(std::string_view text, std::string_view schema) {
  return text.find(schema) != std::string_view::npos;
}

}  // namespace

bool is_experts(std::string_view text) { return names(text, "\"plimsoll.experts/1\""); }
bool is_expert_plan(std::string_view text) {
  return names(text, "\"plimsoll.expert_plan/1\"") || names(text, "\"physical_to_logical_map\"");
}

Result<experts::ExpertModel> read_experts(std::string_view text, std::string_view file) {
  PLIMSOLL_ASSIGN(ExpertsDocument document,
                  read_document<ExpertsDocument>(text, file, kExpertsSchema));
  auto valid = validate(document.model);
  if (!valid) {
    valid.error().place = std::string(file) + ": " + valid.error().place;
    return tl::unexpected<Error>(valid.error());
  }
  return std::move(document.model);
}

std::string write_experts(const experts::ExpertModel& model) {
  return write_document(ExpertsDocument{std::string(kExpertsSchema), model});
}

Result<ExpertAnswer> read_expert_plan(std::string_view text, std::string_view file) {
  PLIMSOLL_ASSIGN(ExpertPlanDocument document,
                  read_document<ExpertPlanDocument>(text, file, kExpertPlanSchema));
  return std::move(document.answer);
}

std::string write_expert_plan(const ExpertAnswer& answer) {
  return write_document(ExpertPlanDocument{std::string(kExpertPlanSchema), answer});
}

std::string write_expert_report(const check::ExpertReport& report) {
  ReportDocument document;
  document.is_right = report.is_right();
  document.certificate_status = report.is_bound_proved ? "proved" : "absent";
  if (!report.is_right()) document.certificate_status = "refuted";
  document.objective = report.objective;
  for (const check::ExpertViolation& violation : report.violations) {
    document.violations.push_back(
        {std::string(to_string(violation.code)), violation.layer, violation.message});
  }
  return write_document(document);
}

}  // namespace plimsoll::io
