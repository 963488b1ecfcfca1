#include "io/documents/placement_rules_json.h"

#include <fmt/format.h>

#include <algorithm>

#include "io/documents/balance_descriptions.h"
#include "io/json/json_writer.h"

namespace plimsoll::io {
namespace {

using RanksByTable = std::map<std::string, std::vector<int>>;

Result<void> tidy(RanksByTable& rules, std::string_view key, std::string_view file) {
  for (auto& [fqn, ranks] : rules) {
    if (ranks.empty()) {
      return fail(ErrorCode::kValue, document_place(file, fmt::format("/{}/{}", key, fqn)),
                  "the list of ranks is empty", "name a rank, or leave the table out");
    }
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  }
  return {};
}

}  // namespace

Result<void> read_placement_rules(std::string_view text, std::string_view file,
                                  embedding::BridgeOptions& options) {
  PLIMSOLL_ASSIGN(PlacementRulesDocument document,
                  read_document<PlacementRulesDocument>(text, file, kPlacementRulesSchema));
  PLIMSOLL_RETURN_IF_ERROR(tidy(document.allowed_ranks, "allowed_ranks", file));
  PLIMSOLL_RETURN_IF_ERROR(tidy(document.forbidden_ranks, "forbidden_ranks", file));
  options.allowed_ranks = std::move(document.allowed_ranks);
  options.forbidden_ranks = std::move(document.forbidden_ranks);
  options.together = std::move(document.together);
  options.apart = std::move(document.apart);
  return {};
}

std::string write_placement_rules(const embedding::BridgeOptions& options) {
  if (options.allowed_ranks.empty() && options.forbidden_ranks.empty() &&
      options.together.empty() && options.apart.empty()) {
    return "";
  }
  return write_document(PlacementRulesDocument{std::string(kPlacementRulesSchema),
                                               options.allowed_ranks, options.forbidden_ranks,
                                               options.together, options.apart});
}

}  // namespace plimsoll::io
