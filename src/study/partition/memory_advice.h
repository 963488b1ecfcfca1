// What would help where nothing fits: how many bytes more on which devices, and which pins go.
//
// The searches are asked again, with a small effort each, for graphs without times and transfers,
// so that what is advised was tried.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "plimsoll/core/outcome.h"
#include "plimsoll/core/run_context.h"
#include "plimsoll/core/units.h"
#include "plimsoll/partition/plan_pipeline.h"
#include "study/partition/placement_searches.h"

namespace plimsoll::study {

// How much a device needs, as far as it is known.
struct MemoryNeed {
  Bytes enough = 0;      // with so much there is a plan
  Bytes too_little = 0;  // with so much there is none, proved; 0: nothing is
  bool operator==(const MemoryNeed&) const = default;
};

// Bisects between the present cap and one that is larger than anything asks for, down to
// `precision` bytes. Nothing where not even the larger one is found to be enough, or the present
// one is.
std::optional<MemoryNeed> find_memory_need(Bytes cap, Bytes most, Bytes precision,
                                           const std::function<SolveStatus(Bytes)>& ask);

// Of what cannot hold together: the cap of a class, or the pin and forbidden devices of a node.
struct GraphConstraint {
  int device_class = -1;
  int node = -1;
  bool operator==(const GraphConstraint&) const = default;
};

// A change with which the search found a placement.
struct GraphRemedy {
  enum class Kind { kMemory, kMoreMemory, kDevices, kRules };
  Kind kind = Kind::kMemory;
  int device_class = -1;   // of kMemory and kDevices
  Bytes bytes = 0;         // of each device; of kMoreMemory what all with a cap get beside
  int count = 0;           // devices of the class
  std::vector<int> nodes;  // without their pins and forbidden devices; of any kind
  double ms = 0;           // of that placement
  bool operator==(const GraphRemedy&) const = default;
};

struct MemoryAdvice {
  std::vector<int> rules;          // nodes without whose pins and forbidden devices a plan fits
  std::optional<MemoryNeed> need;  // of a device
  Bytes cap = 0;                   // what it has now
  // The class of a cost graph whose devices need it; -1: torch.fx's devices with less; where
  // `is_added`, all devices with a cap need so much more.
  int device_class = -1;
  bool is_added = false;
  // Of cost graphs where it is proved that nothing fits. Without any one member of the conflict the
  // others have a placement where `is_irreducible`.
  std::vector<GraphConstraint> conflict;
  bool is_irreducible = false;
  int binding_class = -1;          // without whose cap alone a placement fits; -1: there is none
  std::vector<GraphRemedy> fixes;  // each was placed; the least ms first
};

// The graph with the change made.
void apply_remedy(const GraphRemedy& remedy, partition::CostGraph& graph);

// Of an answer that nothing fits, or that nothing was found where more memory helps; empty for any
// other.
MemoryAdvice find_memory_advice(const GraphCase& made, const PlacementSearch& search,
                                const PlacementSearchOptions& options, const RunContext& context,
                                const PlacementAnswer& answer);

// What each device of a profile needs. Nothing without a cap, or where nothing was found.
std::optional<MemoryNeed> find_memory_need(const partition::PipelineModel& model,
                                           const partition::PipelineOptions& options,
                                           const RunContext& context);

}  // namespace plimsoll::study
