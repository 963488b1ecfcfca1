#include "plimsoll/io/experts_json.h"

#include <utility>

#include "io/documents/experts_descriptions.h"
#include "io/json/json_writer.h"

namespace plimsoll::io {
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

}  // namespace plimsoll::io
