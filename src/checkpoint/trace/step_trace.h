// Module statistics of a training step, without running it: what torch's memory tracker, runtime
// estimator and selective-checkpointing estimator would record of a step program.
//
// Method. Every storage of the step is an interval of instants with a category: parameters,
// activations (made in the forward, the batch included), gradients of parameters, temporaries
// (made in the backward; a parameter's gradient is one until it is accumulated). Prefix sums over
// the instants give the resident bytes of each category at each; a module's records are differences
// and maxima of those. O(operators x depth + values + instants).
// Promises. All fields of ModuleInfo are filled but the piecewise-linear fit and the trade-off
// curve, which are left empty. Modules stand in the program's order.
// Departures from torch: sizes are not rounded; an instant is an operator, so what a kernel
// allocates and frees within is `backward_temporary` or nothing; all values that a module reads are
// its inputs, whether passed by position or by name, so that its backward always ends.
// Sources: docs/mathematics/torch-checkpointing.md#module-statistics,
// docs/mathematics/torch-checkpointing.md#operator-tables,
// docs/mathematics/checkpointing.md#what-a-step-holds (totals per phase).
#pragma once

#include "checkpoint/trace/step_program.h"
#include "plimsoll/checkpoint/module_stats.h"

namespace plimsoll::checkpoint {

// Errors as make_layout.
Result<ModuleStats> trace_step(const StepProgram& program, const OperatorRoofline& roofline);

// The operator table of one module, as the estimator leaves it: in-place operators charged their
// whole storage again, the last operator that makes something charged nothing.
SACStats operator_table(const StepProgram& program, const StepLayout& layout,
                        const OperatorRoofline& roofline, int module);

}  // namespace plimsoll::checkpoint
