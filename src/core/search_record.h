// What a plan records of the search that made it, beside its planner's own options.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/option_record.h"
#include "plimsoll/core/outcome.h"

namespace plimsoll {

// Absent: not recorded.
struct SearchRecord {
  std::optional<std::string> search;   // its name
  std::optional<std::string> variant;  // of the search, by name
  std::optional<std::int64_t> effort;  // >= 0
  std::optional<double> tolerance;     // relative gap, >= 0
};

void put_search_record(const SearchRecord& record, OptionTexts& texts);

// What is not a text that put_search_record() writes is as if it were not recorded.
SearchRecord read_search_record(const OptionTexts& texts);
SearchRecord search_record_of(const std::optional<Provenance>& provenance);

}  // namespace plimsoll
