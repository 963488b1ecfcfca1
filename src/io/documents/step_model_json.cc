#include "io/documents/step_model_json.h"

#include "io/documents/balance_descriptions.h"
#include "io/json/json_writer.h"

namespace plimsoll::io {

Result<embedding::StepModel> read_step_model(std::string_view text, std::string_view file) {
  PLIMSOLL_ASSIGN(StepModelDocument document,
                  read_document<StepModelDocument>(text, file, kStepModelSchema));
  document.model.is_assumed = false;
  return document.model;
}

std::string write_step_model(const embedding::StepModel& model) {
  return write_document(StepModelDocument{std::string(kStepModelSchema), "", "", "", model});
}

}  // namespace plimsoll::io
