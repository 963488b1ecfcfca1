// The searches that `partition` knows by name, and the forms in which it writes a placement.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/core/result.h"
#include "plimsoll/core/run_context.h"
#include "plimsoll/io/placement_json.h"
#include "plimsoll/partition/objective.h"
#include "plimsoll/partition_case.h"

namespace plimsoll::app {

struct PartitionSearchOptions {
  SearchOptions search;
  std::string variant;  // torch release of torch's searches
};

struct PartitionSearch {
  std::string_view name;
  partition::Objective objective;
  std::string_view help;
  bool (*suits)(const PartitionCase& made);  // has the graph what it needs?
  // Status, stop, certificate, plan, warnings, explanation, failure and where it was stopped.
  Result<io::PlacementAnswer> (*run)(const PartitionCase& made,
                                     const PartitionSearchOptions& options,
                                     const RunContext& context);
};
std::span<const PartitionSearch> partition_searches();

// The search that is meant; empty names leave the choice to the graph and, of several searches for
// one objective, to their order. Errors kNotFound, kUsage, the flag as their place.
Result<PartitionSearch> find_partition_search(const PartitionCase& made,
                                              const std::string& objective,
                                              const std::string& name);

struct PlacementExport {
  std::string_view name;
  std::string_view help;
  // Error kUsage where the form cannot say it.
  Result<std::string> (*write)(const PartitionCase& made, const io::PlacementAnswer& answer);
};
std::span<const PlacementExport> placement_exports();
std::vector<std::string> placement_export_names();
// Precondition: one of those names.
Result<std::string> write_placement_export(std::string_view name, const PartitionCase& made,
                                           const io::PlacementAnswer& answer);

}  // namespace plimsoll::app
