// What an answer claims of its placement, held against the judges of the room check.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/check/critical_path_check.h"
#include "plimsoll/check/placement_check.h"
#include "plimsoll/core/result.h"
#include "plimsoll/partition/device_assignment.h"
#include "plimsoll/partition/placement.h"
#include "plimsoll/study/placement_answer.h"
#include "study/partition/graph_case.h"

namespace plimsoll::study {

// What a document says besides, and under which rules it is judged.
struct PlanMaking {
  std::vector<std::string> contradictions;
  std::string missing;  // of what a planner says
  bool is_for_other_rules = false;
  bool is_strict = false;
  bool has_claims() const { return !is_for_other_rules; }
};

// "provenance", "status", ...: what the answer leaves out of what a planner says; empty: nothing.
std::string missing_in(const PlacementAnswer& answer);

// Precondition of all: a cost graph, and `answer` has stages where it is said to have a plan.
Result<check::PlacementReport> judge_assignment(const GraphCase& made,
                                                const PlacementAnswer& answer,
                                                const partition::DeviceAssignment& assignment,
                                                const PlanMaking& making, bool requires_contiguity);
// Of replicated stages; the case has terms. Errors at `file`, as take_pipeline() says.
Result<check::PlacementReport> judge_pipeline(const GraphCase& made, const PlacementAnswer& answer,
                                              const PlanMaking& making, const std::string& file);
// That there is no plan.
check::PlacementReport judge_no_placement(const GraphCase& made, const PlacementAnswer& answer,
                                          const PlanMaking& making);

// Has every operator a latency, so that partitions have a critical path?
bool has_latencies(const FxInput& input);
// Partitions of a graph of torch.fx's.
Result<check::CriticalPathReport> judge_fx(const FxInput& input, const PlacementAnswer& answer,
                                           const partition::Placement& placement,
                                           const PlanMaking& making);

}  // namespace plimsoll::study
