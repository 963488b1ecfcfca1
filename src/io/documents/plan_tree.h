// A plan of our own form from a tree that is already parsed.
#pragma once

#include <string_view>

#include "io/json/json_document.h"
#include "plimsoll/io/plan_json.h"

namespace plimsoll::io {

Result<ShardingAnswer> read_plan_tree(const JsonValue& root, std::string_view file);

}  // namespace plimsoll::io
