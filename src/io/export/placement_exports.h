// A placement of operators in the forms that others read: Hugging Face's accelerate, torch's
// pipelining and fx, Graphviz.
//
// All take the device of every operator (partition::operator_devices), -1 for what is none.
// Source: docs/mathematics/placements.md#files-of-other-programs.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "plimsoll/core/outcome.h"
#include "plimsoll/core/result.h"
#include "plimsoll/partition/graph.h"
#include "plimsoll/partition/operator_graph.h"
#include "plimsoll/partition/placement.h"

namespace plimsoll::io {

// The stage of every operator: devices numbered from 0 in an order in which no forward value goes
// back, of those that may come next the one whose first operator stands first. [num_nodes] -1 where
// the device is. Error kConflict, naming two operators, where devices wait for each other in a
// circle. `device` as above, as everywhere here.
Result<std::vector<int>> number_stages(const partition::OperatorGraph& graph,
                                       const std::vector<int>& device);

// What split_module must tell apart: of a forward graph the stages themselves. In a joint graph the
// backward pass walks the stages back and cannot be one with their forward parts: of S stages, the
// backward operators of stage s are partition 2 S - 1 - s. [num_nodes] -1 where the stage is. Error
// kConflict, naming two operators, where partitions would wait for each other in a circle.
Result<std::vector<int>> number_partitions(const partition::OperatorGraph& graph,
                                           const std::vector<int>& stage);

// {"name": partition}, one line an operator, in graph order: the callback of torch.fx's
// split_module, the road for every placement whose stages stand in a line.
std::string write_callback_table(const partition::OperatorGraph& graph,
                                 const std::vector<int>& number);

// The same of torch.fx's graph and its partitions, by their ids.
std::string write_fx_callback_table(const partition::Graph& graph,
                                    const partition::Placement& placement);

// {"fqn": "BEGINNING"}, one line for each stage but the first: torch.distributed.pipelining's
// split_spec. A stage begins where a module is entered: the outermost one whose first operator is
// the stage's. Errors: kConflict, naming operator and module, where a stage begins inside one, or
// where an operator stands in graph order behind one of a later stage.
Result<std::string> write_split_spec(const partition::OperatorGraph& graph,
                                     const std::vector<int>& stage);

struct DeviceMap {
  std::vector<std::pair<std::string, int>> devices;  // module or weight by FQN, each covers what is
                                                     // below it; in order of first weights
  std::vector<Warning> warnings;  // `tied_weight`: a module that runs where its tied weight lies
};

// accelerate's device_map: every weight on the device of its reader (tied ones all on that of the
// first reader, unread ones with their module's operators or with their neighbours), a module whose
// weights agree as one key, "" for the whole model only where all agree. accelerate runs a module
// where its weights are. Error kConflict, naming the module, where that is not the placement: a
// weight read on two devices, an operator (no view) away from the weights of its module or of the
// module that the key names.
Result<DeviceMap> make_device_map(const partition::OperatorGraph& graph,
                                  const std::vector<int>& device);
std::string write_device_map(const DeviceMap& map);  // JSON

// Graphviz: one cluster a device, an edge a value that crosses is bold and carries its bytes.
std::string write_dot(const partition::OperatorGraph& graph, const std::vector<int>& device);

}  // namespace plimsoll::io
