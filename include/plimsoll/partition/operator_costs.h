// From the operators of a traced model to a cost graph: what the searches see of it.
//
// Operators become cost nodes; what else a traced graph holds does not:
//   parameter, buffer   a weight of its readers; tied ones are one weight
//   placeholder         nothing: every device that reads an input gets it from outside, for free
//   other get_attr      (the subgraph of a higher-order operator) stands with its first reader
//   output              nothing: what is returned stays where it is
//   operator without value and without reader (assertions)    nothing
//   getitem             one node with the operator whose parts it takes apart, if of the same pass
// Every value that another node reads is a net of its bytes. A view takes no time, holds nothing
// and its value is a net of its own: it costs the view's bytes where it is cut, else nothing.
//
// Colours, two reasons for operators to share a device:
//   * Storage that is written to. Views and in-place results with their base are one alias class;
//     where an operator writes into it, the class shares a device, with all who read it before the
//     last write, and, of a weight or an input, all who read that.
//   * Forward and backward of one piece of the model. A piece is a maximal run of forward operators
//     of one innermost module in graph order: a module called twice, or one that works before and
//     after its children, is several pieces, so that no colour ties a whole model together (runs of
//     a topological order never wait for each other in a circle). A backward operator belongs to
//     the last piece of its module that does not come after the piece before it in graph order (the
//     backward pass walks the pieces in reverse), or else to the first one. Pieces without backward
//     operators, and operators without a module, have no colour.
//
// Memory, beside weights: a gradient that the graph returns stays on its device; activations as
// asked for. Sources: docs/partition.md#real-models,
// docs/mathematics/placements.md#costs-of-traced-models.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/core/result.h"
#include "plimsoll/core/units.h"
#include "plimsoll/partition/cost_graph.h"
#include "plimsoll/partition/operator_graph.h"

#pragma GCC visibility push(default)
namespace plimsoll::partition {

// The time of an operator as max(flops / flops_per_ms, bytes_moved / bytes_per_ms).
struct Roofline {
  double flops_per_ms = 0;  // > 0
  double bytes_per_ms = 0;  // > 0
  bool operator==(const Roofline&) const = default;
};

struct OperatorDevices {
  DeviceClass devices;         // link rate in bytes / ms
  std::string time_column;     // of the graph, whose known times count; empty: the roofline's
  Roofline roofline;           // of operators without a known time; both 0: each must have one
  double launch_floor_ms = 0;  // >= 0, finite; the least time of an operator that is not a view
  bool operator==(const OperatorDevices&) const = default;
};

enum class ActivationMemory {
  kNone,     // what stays on the device: weights and returned gradients
  kStashed,  // and every forward storage that a backward operator reads, on the device that makes
             // it
  kAll,      // and every storage that an operator makes
};
std::string_view to_string(ActivationMemory activations);  // "none", "stashed", "all"

struct OperatorCostOptions {
  std::vector<OperatorDevices> classes;  // at least one device in all
  ActivationMemory activations = ActivationMemory::kNone;
};

struct OperatorCosts {
  CostGraph graph;
  std::vector<std::vector<int>> operators;  // [num cost nodes] the operators of each, ascending
  std::vector<int> cost_node;               // [num operators] -1: none, see above
  std::vector<Bytes> stashed;  // [num cost nodes] what kStashed adds to kNone, for one microbatch
};

// Nodes in the order of their first operators, nets in the order of their producers, weights in
// that of their first names. O(nodes + edges), sorting apart. Errors: as both validate() say;
// kNotFound where times are asked of a column that the graph lacks or in which an operator has
// none and there is no roofline; kValue for a roofline or a floor outside its range.
Result<OperatorCosts> make_cost_graph(const OperatorGraph& graph,
                                      const OperatorCostOptions& options);

// The device of every operator: that of its cost node; an operator that was dropped goes with its
// last placed input, or else with device 0. [num_nodes] -1 for what is not an operator (and for a
// subgraph's get_attr: as its reader). Precondition: a device for every node of the costs'
// graph; any numbers, as those of partitions, will do.
std::vector<int> operator_devices(const OperatorGraph& graph, const OperatorCosts& costs,
                                  const DeviceAssignment& assignment);

}  // namespace plimsoll::partition
#pragma GCC visibility pop
