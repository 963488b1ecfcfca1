#include "plimsoll/io/plan_report_json.h"

#include "io/documents/descriptions.h"
#include "io/json/json_writer.h"

namespace plimsoll::io {
namespace {

struct ReportDocument {
  std::string schema{"plimsoll.plan_report/1"};
  study::PlanReport report;
  std::optional<CertificateEntry> certificate;
  std::map<std::string, std::string> made_for;
};

}  // namespace

template <class Fields, SameAs<study::PlanPart> T>
void describe(Fields& fields, T& part) {
  fields.required("name", part.name);
  fields.required("choices", part.choices);
}

template <class Fields, SameAs<study::PlanLink> T>
void describe(Fields& fields, T& link) {
  fields.required("from", link.from);
  fields.required("to", link.to);
  fields.required("amount", link.amount);
}

template <class Fields, SameAs<study::ChosenPoint> T>
void describe(Fields& fields, T& point) {
  fields.required("bytes", point.bytes);
  fields.required("ms", point.ms);
}

namespace {

template <class Fields, SameAs<ReportDocument> T>
void describe(Fields& fields, T& document) {
  auto& report = document.report;
  fields.stated("schema", document.schema);
  fields.required("name", report.name);
  fields.required("kind", report.outline.kind);
  fields.optional("status", report.status);
  fields.optional("objective", report.objective);
  fields.optional("certificate", document.certificate);
  fields.required("made_for", document.made_for);
  fields.required("figures", report.outline.figures, kNullable);
  fields.required("places", report.outline.places);
  fields.required("bill", report.outline.bill);
  fields.required("parts", report.outline.parts);
  fields.optional("links", report.outline.links);
  fields.optional("frontier", report.frontier);
  fields.optional("frontier_bound", report.frontier_bound);
  fields.optional("chosen", report.chosen);
  fields.optional("warnings", report.warnings);
}

}  // namespace

std::string write_report(const study::PlanReport& report) {
  ReportDocument document;
  document.report = report;
  if (report.certificate) document.certificate = make_certificate_entry(*report.certificate);
  document.made_for = {report.made_for.begin(), report.made_for.end()};
  return write_document(document);
}

}  // namespace plimsoll::io
