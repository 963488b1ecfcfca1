// Machine models as JSON, "plimsoll.machine/1" (embedding::MachineModel): what `plimsoll calibrate`
// writes. Strictness as in model_json.h: unknown keys are errors, and of what tells how things were
// measured (points, intervals, held-out errors, versions, noise) keys and types are read, and
// nothing else of it is kept.
#pragma once

#include <string>
#include <string_view>

#include "plimsoll/core/result.h"
#include "plimsoll/embedding/machine_model.h"

#pragma GCC visibility push(default)
namespace plimsoll::io {

// Errors: those of documents; kSchema for another version of the schema; kValue at a table of
// collectives whose sizes do not ascend or are not as many as its times, at a range that is empty,
// and at a second form of one kernel, optimizer, data type and direction or a second table of one
// operation, group and number of ranks. A document without a name has that of the file.
Result<embedding::MachineModel> read_machine(std::string_view text, std::string_view file);
// Without what tells how things were measured.
std::string write_machine(const embedding::MachineModel& machine);

}  // namespace plimsoll::io
#pragma GCC visibility pop
