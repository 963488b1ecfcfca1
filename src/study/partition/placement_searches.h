// The searches for placements, by name.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "plimsoll/core/result.h"
#include "plimsoll/core/run_context.h"
#include "plimsoll/partition/objective.h"
#include "plimsoll/study/placement_answer.h"
#include "study/partition/graph_case.h"

namespace plimsoll::study {

struct PlacementSearchOptions {
  SearchOptions search;
  std::string variant;  // torch release of torch's searches
};

struct PlacementSearch {
  std::string_view name;
  partition::Objective objective;
  std::string_view help;
  bool (*suits)(const GraphCase& made);  // has the graph what it needs?
  // Status, stop, certificate, plan, warnings, explanation, failure and where it was stopped.
  // Precondition: suits().
  Result<PlacementAnswer> (*run)(const GraphCase& made, const PlacementSearchOptions& options,
                                 const RunContext& context);
};

// Of several searches for one objective the first is the default.
std::span<const PlacementSearch> placement_searches();

}  // namespace plimsoll::study
