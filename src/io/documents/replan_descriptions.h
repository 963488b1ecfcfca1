// What the document of a replan looks like (json_reader.h).
#pragma once

#include <optional>
#include <string>

#include "io/documents/balance_descriptions.h"
#include "io/documents/descriptions.h"
#include "plimsoll/embedding/transfer.h"
#include "plimsoll/study/replan.h"

namespace plimsoll::io {

template <>
struct Values<embedding::TransferKind> {
  static constexpr embedding::TransferKind kAll[] = {embedding::TransferKind::kCopy,
                                                     embedding::TransferKind::kStage,
                                                     embedding::TransferKind::kFree};
};
template <>
struct Values<embedding::ScheduleStatus> {
  static constexpr embedding::ScheduleStatus kAll[] = {embedding::ScheduleStatus::kComplete,
                                                       embedding::ScheduleStatus::kNeedsSpare,
                                                       embedding::ScheduleStatus::kNone};
};

inline constexpr std::string_view kReplanSchema = "plimsoll.replan/1";

struct ReplanDocument {
  std::string schema{kReplanSchema};
  study::Replan replan;  // without its answer
  std::optional<double> gap;
  JsonValue answer;        // read only, by read_plan_tree
  AnswerDocument written;  // written only
};

template <class Fields, SameAs<embedding::TransferSource> T>
void describe(Fields& fields, T& source) {
  fields.required("rank", source.rank, kRank);
  fields.required("values", source.values, kNonNegative);
}

template <class Fields, SameAs<embedding::TransferStep> T>
void describe(Fields& fields, T& step) {
  fields.required("kind", step.kind);
  fields.required("table", step.table);
  fields.required("rank", step.rank, kRank);
  fields.required("rows", step.part.rows, kNonNegative);
  fields.required("columns", step.part.columns, kNonNegative);
  fields.optional("row", step.part.row, kNonNegative);
  fields.optional("column", step.part.column, kNonNegative);
  fields.optional("in_ddr", step.in_ddr);
  fields.optional("from", step.from);
  fields.optional("bytes", step.bytes, kNonNegative);
}

template <class Fields, SameAs<embedding::TransferSchedule> T>
void describe(Fields& fields, T& schedule) {
  fields.required("status", schedule.status);
  fields.optional("spare_bytes", schedule.spare_bytes, kNonNegative);
  fields.optional("is_spare_proved", schedule.is_spare_proved);
  fields.required("moved_bytes", schedule.moved_bytes, kNonNegative);
  fields.optional("staged_bytes", schedule.staged_bytes, kNonNegative);
  fields.required("steps", schedule.steps);
}

template <class Fields, SameAs<balance::RelocationPrices> T>
void describe(Fields& fields, T& prices) {
  fields.required("moved", prices.moved, kNonNegative);
  fields.required("weight", prices.weight);
  fields.required("memory", prices.memory);
  fields.required("share", prices.share);
}

template <class Fields, SameAs<ReplanDocument> T>
void describe(Fields& fields, T& document) {
  auto& replan = document.replan;
  fields.stated("schema", document.schema);
  fields.required("status", replan.status);
  fields.required("stop", replan.stop);
  fields.required("objective", replan.objective);
  fields.optional("ms", replan.ms, kNonNegative);
  fields.optional("before_ms", replan.before_ms, kNonNegative);
  fields.optional("fresh_ms", replan.fresh_ms, kNonNegative);
  fields.required("total_bytes", replan.total_bytes, kNonNegative);
  fields.optional("max_moved_bytes", replan.max_moved, kNonNegative);
  fields.optional("price_of_move", replan.price_of_move, kNonNegative);
  fields.required("moved_bytes", replan.moved_bytes, kNonNegative);
  fields.required("fresh_moved_bytes", replan.fresh_moved_bytes, kNonNegative);
  fields.optional("lower_bound", replan.lower_bound);
  fields.optional("gap", document.gap);
  fields.optional("is_bound_of_all", replan.is_bound_of_all);
  fields.optional("prices", replan.prices);
  fields.optional("least_moved_bytes", replan.least_moved, kNonNegative);
  fields.required("schedule", replan.schedule);
  fields.required("before", replan.before);
}

// As it is written, with the new plan; as it is read, the answer is a tree.
struct WrittenReplan {
  ReplanDocument document;
};
template <class Fields, SameAs<WrittenReplan> T>
void describe(Fields& fields, T& all) {
  describe(fields, all.document);
  fields.required("answer", all.document.written);
}
struct ReadReplan {
  ReplanDocument document;
};
template <class Fields, SameAs<ReadReplan> T>
void describe(Fields& fields, T& all) {
  describe(fields, all.document);
  fields.required("answer", all.document.answer);
}

}  // namespace plimsoll::io
