// Which search is meant by the flags, and the forms in which it writes a placement.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/core/result.h"
#include "plimsoll/partition/partition_case.h"
#include "plimsoll/study/placement_answer.h"
#include "study/partition/placement_searches.h"

namespace plimsoll::app {

// The search that is meant; empty names leave the choice to the graph and, of several searches for
// one objective, to their order. Errors kNotFound, kUsage, the flag as their place.
Result<study::PlacementSearch> find_partition_search(const PartitionCase& made,
                                                     const std::string& objective,
                                                     const std::string& name);

struct PlacementExport {
  std::string_view name;
  std::string_view help;
  // Error kUsage where the form cannot say it.
  Result<std::string> (*write)(const PartitionCase& made, const study::PlacementAnswer& answer);
};
std::span<const PlacementExport> placement_exports();
std::vector<std::string> placement_export_names();
// Precondition: one of those names.
Result<std::string> write_placement_export(std::string_view name, const PartitionCase& made,
                                           const study::PlacementAnswer& answer);

}  // namespace plimsoll::app
