// Times of dense operators by a machine document, for graphs and for module statistics.
#pragma once

#include <string>
#include <string_view>

#include "plimsoll/checkpoint/module_stats.h"
#include "plimsoll/core/result.h"
#include "plimsoll/core/units.h"
#include "plimsoll/embedding/machine_model.h"
#include "plimsoll/partition/operator_graph.h"

namespace plimsoll::app {

// A machine document or a shipped one. Errors: those of reading; kNotFound at --machine for a name
// that nothing has.
Result<embedding::MachineModel> read_machine_model(const std::string& name);

struct OperatorTimes {
  std::string machine;  // its name
  embedding::DenseOperators operators;
  std::string sources;  // "operators published, launches assumed"
  std::string hash;     // of the document

  // launch + max(operations / peak, bytes / bandwidth). A data type without a peak has the highest.
  double operator_ms(double flops, double bytes, std::string_view data_type) const;
};

// Errors: those of read_machine_model; kValue for a machine without dense operators.
Result<OperatorTimes> load_operator_times(const std::string& machine);

// The column of add_times().
inline constexpr std::string_view kMachineColumn = "machine";

// Gives the graph a column of times: those of column `measured` where it has them, but at least a
// launch, else the machine's; views take none. Error kConflict where the graph has such a column
// already, kNotFound without the column `measured`.
Result<void> add_times(const OperatorTimes& times, const std::string& measured,
                       partition::OperatorGraph& graph);

// Statistics that were computed by a roofline are scaled to the machine: an operator that
// multiplies matrices by the peaks, any other by the bandwidths, and each gets a launch. Modules
// follow their operators, those without a table the module around them. Measured statistics stay as
// they are; returns whether they were scaled.
bool scale_times(const OperatorTimes& times, checkpoint::ModuleStats& stats);

}  // namespace plimsoll::app
