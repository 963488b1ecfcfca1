// What a placement's document states besides where nodes stand: classes and caps of devices, the
// values that travel, whether stages stand in a line, what it was made from. Computed again from
// the graph.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plimsoll/check/placement_check.h"
#include "plimsoll/partition/cost_graph.h"
#include "plimsoll/partition/device_assignment.h"

namespace plimsoll::check {

struct StatedCut {
  int producer = -1;    // node; -1: one that does not exist
  int from = 0;         // device
  std::vector<int> to;  // devices, ascending
  double amount = 0, ms = 0;
};

struct StatedPlace {
  std::vector<int> devices;
  std::string device_class;  // "": not stated
  std::optional<Bytes> memory_cap;
  bool has_pipeline_figures = false;  // microbatches in flight, or what replicas agree on
};

struct StatedPlacement {
  std::vector<StatedPlace> places;
  std::vector<StatedCut> cuts;
  bool has_cuts = false;  // else nothing is said of them
  std::optional<bool> is_contiguous;
  bool is_pipeline = false;
  std::vector<std::string> contradictions;  // what it says of its making and is not so
};

// `judged` is what check_placement(), or of a pipeline check_replicated_stages(), found;
// `stage_of` has the place of every node. Of pipelines the time of a cut is not looked at with pair
// rates.
std::vector<Finding> check_stated_placement(const partition::CostGraph& graph,
                                            const std::vector<int>& stage_of,
                                            const PlacementReport& judged,
                                            const StatedPlacement& stated);

}  // namespace plimsoll::check
