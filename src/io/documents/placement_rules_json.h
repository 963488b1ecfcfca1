// Rules of where tables may stand as JSON, "plimsoll.placement_rules/1": ranks allowed and
// forbidden by table, tables that stand together and apart. Strictness as in model_json.h.
#pragma once

#include <string>
#include <string_view>

#include "plimsoll/core/result.h"
#include "plimsoll/embedding/placement_bridge.h"

namespace plimsoll::io {

// Replaces the rules of `options`; ranks are sorted. Error kValue: an empty list of ranks.
Result<void> read_placement_rules(std::string_view text, std::string_view file,
                                  embedding::BridgeOptions& options);
// Of `options` the rules alone; "" where there are none.
std::string write_placement_rules(const embedding::BridgeOptions& options);

}  // namespace plimsoll::io
