// Robust plans from trees that are already parsed.
#pragma once

#include <string_view>

#include "io/json/json_document.h"
#include "plimsoll/core/result.h"
#include "plimsoll/study/robust.h"

namespace plimsoll::io {

bool is_robust_tree(const JsonValue& root);
Result<study::RobustPlan> read_robust_tree(const JsonValue& root, std::string_view file);

}  // namespace plimsoll::io
