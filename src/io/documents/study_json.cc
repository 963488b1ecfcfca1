#include "io/documents/study_json.h"

#include <fmt/format.h>

#include <utility>

#include "io/documents/plan_tree.h"
#include "io/documents/study_descriptions.h"
#include "io/json/json_writer.h"

namespace plimsoll::io {

std::string write_explanation(const study::PlanExplanation& told) {
  ExplanationDocument document;
  document.told = told;
  document.components = {{"fwd_compute", told.slowest.fwd_compute},
                         {"fwd_comms", told.slowest.fwd_comms},
                         {"bwd_compute", told.slowest.bwd_compute},
                         {"bwd_comms", told.slowest.bwd_comms},
                         {"prefetch_compute", told.slowest.prefetch_compute}};
  if (told.certificate) document.certificate = make_certificate_entry(*told.certificate);
  return write_document(document);
}

std::string write_machine_size(const study::MachineSize& size) {
  MachineSizeDocument document;
  document.size = size;
  return write_document(document);
}

std::string write_what_if(const study::WhatIf& answer, const std::string& inputs) {
  WhatIfDocument document;
  document.inputs = inputs;
  document.answer = answer;
  return write_document(document);
}

Result<ReadWhatIf> read_what_if(std::string_view text, std::string_view file) {
  PLIMSOLL_ASSIGN(const JsonValue root, parse_json(text, file));
  return read_what_if_tree(root, file);
}

Result<ReadWhatIf> read_what_if_tree(const JsonValue& root, std::string_view file) {
  PLIMSOLL_RETURN_IF_ERROR(check_schema(root, file, kWhatIfSchema));
  PLIMSOLL_ASSIGN(WhatIfDocument document, read_tree<WhatIfDocument>(root, file));
  return ReadWhatIf{std::move(document.answer), std::move(document.inputs)};
}

bool is_what_if_tree(const JsonValue& root) {
  const JsonValue* const schema = root.find("schema");
  const auto* const name = schema == nullptr ? nullptr : schema->as<std::string>();
  return name != nullptr && *name == kWhatIfSchema;
}

std::optional<double> Prices::price_of(const std::string& kind, int ranks, int hosts) const {
  const auto found = prices_.find(kind);
  if (found == prices_.end()) return std::nullopt;
  return found->second.per_host * hosts + found->second.per_rank * ranks;
}

Result<Prices> read_prices(std::string_view text, std::string_view file) {
  PLIMSOLL_ASSIGN(const JsonValue root, parse_json(text, file));
  PLIMSOLL_RETURN_IF_ERROR(check_schema(root, file, kPricesSchema));
  PLIMSOLL_ASSIGN(const PricesDocument document, read_tree<PricesDocument>(root, file));
  std::map<std::string, Prices::Price> prices;
  for (const auto& [kind, entry] : document.prices) {
    if (!entry.per_host && !entry.per_rank) {
      return fail(ErrorCode::kValue, document_place(file, "/prices/" + escape_pointer(kind)),
                  "neither per_host nor per_rank is given", "give one of them");
    }
    prices[kind] = {entry.per_host.value_or(0), entry.per_rank.value_or(0)};
  }
  return Prices(std::move(prices));
}

}  // namespace plimsoll::io
