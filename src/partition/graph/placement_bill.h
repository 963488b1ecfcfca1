// What an assignment of operators to devices costs, device by device and value by value.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "plimsoll/core/units.h"
#include "plimsoll/partition/cost_graph.h"
#include "plimsoll/partition/device_assignment.h"

namespace plimsoll::partition {

// A device that runs something.
struct Stage {
  int device = 0;
  std::vector<int> nodes;  // ascending
  double compute_ms = 0;
  double transfer_ms = 0;
  double load_ms = 0;  // as device_loads() adds it up
  Bytes memory = 0;
  bool operator==(const Stage&) const = default;
};

// A net with nodes on more than one device.
struct CutValue {
  int net = 0;
  int from = 0;         // the producer's device
  std::vector<int> to;  // the others, ascending
  double ms = 0;        // what it takes the device that needs longest for it
  bool operator==(const CutValue&) const = default;
};

struct PlacementBill {
  bool is_line = true;  // no value of the forward pass travels backwards, see pipeline_order()
  std::vector<Stage> stages;   // in a line's order; without a line by device
  std::vector<CutValue> cuts;  // by net
  bool operator==(const PlacementBill&) const = default;
};

// Devices in an order in which no edge leads backwards, of those that could come next the one whose
// entry of `first` is least; those with a negative one stay out. Where devices wait for each other,
// they and what is behind them are missing. Edges join different devices that run something.
std::vector<int> line_up(std::span<const int> first, std::vector<std::pair<int, int>> edges);

// The devices that run something, in an order in which no forward value travels backwards; of
// those that could come next the one with the first node. Nothing where devices wait for each
// other. Precondition as below.
std::optional<std::vector<int>> find_line(const CostGraph& graph,
                                          const DeviceAssignment& assignment);

// Precondition: a valid graph, an assignment of its length to devices that exist.
PlacementBill make_placement_bill(const CostGraph& graph, const DeviceAssignment& assignment);

}  // namespace plimsoll::partition
