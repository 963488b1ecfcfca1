#include "plimsoll/io/plan_difference_json.h"

#include "io/documents/descriptions.h"
#include "io/json/json_writer.h"

namespace plimsoll::io {
namespace {

inline constexpr std::string_view kDifferenceSchema = "plimsoll.plan_difference/1";

struct BillPair {
  Bill before, after;
};

struct DifferenceDocument {
  std::string schema{kDifferenceSchema};
  study::PlanDifference difference;
  BillPair bill;
  std::vector<Warning> warnings;
};

}  // namespace

template <class Fields, SameAs<study::FigureChange> T>
void describe(Fields& fields, T& change) {
  fields.required("name", change.name);
  fields.required("before", change.before, kNullable);
  fields.required("after", change.after, kNullable);
}

template <class Fields, SameAs<study::PartChange> T>
void describe(Fields& fields, T& change) {
  fields.required("name", change.name);
  fields.required("change", change.kind);
  fields.required("before", change.before);
  fields.required("after", change.after);
  fields.optional("moved_values", change.moved_values);
  fields.optional("moved_bytes", change.moved_bytes);
}

template <class Fields, SameAs<study::RankTraffic> T>
void describe(Fields& fields, T& traffic) {
  fields.required("rank", traffic.rank);
  fields.required("is_between_hosts", traffic.is_between_hosts);
  fields.required("sent_values", traffic.sent_values);
  fields.required("received_values", traffic.received_values);
  fields.optional("sent_bytes", traffic.sent_bytes);
  fields.optional("received_bytes", traffic.received_bytes);
}

template <class Fields, SameAs<study::LinkChange> T>
void describe(Fields& fields, T& link) {
  fields.required("from", link.from);
  fields.required("to", link.to);
  fields.required("before", link.before);
  fields.required("after", link.after);
}

template <class Fields, SameAs<study::DifferenceReason> T>
void describe(Fields& fields, T& reason) {
  fields.required("place", reason.place);
  fields.required("is_bytes", reason.is_bytes);
  fields.required("before", reason.before);
  fields.required("after", reason.after);
  fields.required("causes", reason.causes);
  fields.required("parts", reason.parts);
}

namespace {

template <class Fields, SameAs<BillPair> T>
void describe(Fields& fields, T& bills) {
  fields.required("before", bills.before);
  fields.required("after", bills.after);
}

template <class Fields, SameAs<DifferenceDocument> T>
void describe(Fields& fields, T& document) {
  auto& difference = document.difference;
  fields.stated("schema", document.schema);
  fields.required("kind", difference.kind);
  fields.required("is_different", difference.is_different);
  fields.required("figures", difference.figures);
  fields.required("changes", difference.changes);
  fields.required("places", difference.places);
  fields.required("bill", document.bill);
  fields.optional("traffic", difference.traffic);
  fields.optional("links", difference.links);
  fields.required("reasons", difference.reasons);
  fields.optional("warnings", document.warnings);
}

}  // namespace

std::string write_difference(const study::PlanDifference& difference,
                             const std::vector<Warning>& warnings) {
  DifferenceDocument document;
  document.difference = difference;
  document.bill = {difference.before, difference.after};
  document.warnings = warnings;
  return write_document(document);
}

}  // namespace plimsoll::io
