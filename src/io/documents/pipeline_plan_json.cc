#include "io/documents/pipeline_plan_json.h"

#include "io/documents/pipeline_descriptions.h"
#include "io/documents/plan_tree.h"

namespace plimsoll::io {

bool is_pipeline_answer_tree(const JsonValue& root) {
  return root.find("schema") != nullptr && check_schema(root, "", kPipelinePlanSchema).has_value();
}

Result<PipelineAnswer> read_pipeline_answer(std::string_view text, std::string_view file) {
  PLIMSOLL_ASSIGN(const JsonValue root, parse_json(text, file));
  return read_pipeline_tree(root, file);
}

Result<PipelineAnswer> read_pipeline_tree(const JsonValue& root, std::string_view file) {
  PLIMSOLL_ASSIGN(PipelinePlanDocument document,
                  read_tree<PipelinePlanDocument>(root, file, kPipelinePlanSchema));
  PipelineAnswer answer = std::move(document.answer);
  if (!answer.plan && !answer.status) {
    return fail(ErrorCode::kSchema, document_place(file, ""), "the key 'stages' is missing",
                "list the stages of the plan");
  }
  if (answer.plan) {
    for (std::size_t s = 0; s < answer.plan->size(); ++s) {
      const PipelineStageEntry& stage = (*answer.plan)[s];
      if (stage.operators.size() == stage.choices.size() && !stage.operators.empty()) continue;
      return fail(ErrorCode::kConflict, document_place(file, "/stages/" + std::to_string(s)),
                  stage.operators.empty() ? "a stage without operators"
                                          : "not one choice for each operator",
                  "give each stage operators, and a choice for each of them");
    }
  }
  if (document.certificate) {
    PLIMSOLL_ASSIGN(answer.certificate, take_certificate(*document.certificate, file));
  }
  return answer;
}

std::string write_pipeline_answer(const PipelineAnswer& answer) {
  PipelinePlanDocument document;
  document.answer = answer;
  if (answer.certificate) {
    document.certificate = make_certificate_entry(*answer.certificate);
  }
  return write_document(document);
}

}  // namespace plimsoll::io
