#include "plimsoll/io/replan_json.h"

#include <utility>

#include "io/documents/plan_tree.h"
#include "io/documents/replan_descriptions.h"
#include "io/json/json_writer.h"

namespace plimsoll::io {

bool is_replan_tree(const JsonValue& root) {
  const JsonValue* schema = root.find("schema");
  const auto* name = schema == nullptr ? nullptr : schema->as<std::string>();
  return name != nullptr && *name == kReplanSchema;
}

std::string write_replan(const study::Replan& replan) {
  WrittenReplan all;
  all.document.replan = replan;
  all.document.gap = replan.gap();
  all.document.written.answer = replan.answer;
  if (replan.answer.certificate) {
    all.document.written.certificate = BoundedCertificateEntry{
        make_certificate_entry(*replan.answer.certificate), replan.answer.bound};
  }
  return write_document(all);
}

Result<study::Replan> read_replan_tree(const JsonValue& root, std::string_view file) {
  PLIMSOLL_RETURN_IF_ERROR(check_schema(root, file, kReplanSchema));
  PLIMSOLL_ASSIGN(ReadReplan all, read_tree<ReadReplan>(root, file));
  study::Replan replan = std::move(all.document.replan);
  PLIMSOLL_ASSIGN(replan.answer, read_plan_tree(all.document.answer, file));
  return replan;
}

Result<study::Replan> read_replan(std::string_view text, std::string_view file) {
  PLIMSOLL_ASSIGN(const JsonValue root, parse_json(text, file));
  return read_replan_tree(root, file);
}

}  // namespace plimsoll::io
