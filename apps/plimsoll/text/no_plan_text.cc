#include "plimsoll/text/no_plan_text.h"

#include <fmt/format.h>

#include "plimsoll/text/text_layout.h"

namespace plimsoll::app {

std::string no_plan_text(const study::NoPlan& none) {
  const auto line = [](const std::string& text, std::size_t indent) {
    return std::string(indent, ' ') + wrapped(shown(text), text_columns() - indent, indent + 2) +
           "\n";
  };
  std::string text;
  if (!none.conflict.empty()) {
    std::string names;
    for (const study::ConflictMember& member : none.conflict) {
      names += (names.empty() ? "" : "; ") + member.name;
    }
    const std::string_view what =
        none.conflict.size() == 1 ? "Cause: "
        : none.is_irreducible
            ? "Conflict (these alone rule out every plan; without any one of them a plan fits): "
            : "Conflict: ";
    text += line(std::string(what) + names, 0);
  }
  if (none.fixes.empty()) return text;
  text += "Try one of (a plan was found with each):\n";
  for (const study::Fix& fix : none.fixes) {
    text += line(fix.change + (fix.ms ? fmt::format(": {}", ms_text(*fix.ms)) : ""), 2);
  }
  return text;
}

}  // namespace plimsoll::app
