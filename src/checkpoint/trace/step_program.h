// A training step as data: the operators of a model's forward in the order in which they run, what
// each reads, makes and leaves for its backward, and the modules they belong to.
//
// The rules that every reader of a program follows (the trace that turns it into statistics, the
// simulator that replays it under a plan):
// - A value is one storage. Views and in-place operators give back a value that they read.
// - In the forward a value lives until its last reader has run, and until every module that got it
//   from outside has returned, since the caller's frame holds a module's inputs. Values that no
//   operator makes (the batch) and the result (the first output of the last operator) live to the
//   end of the step.
// - Autograd keeps an operator's `saved` values until that operator's backward has run.
// - The backward takes the operators in reverse order, those only that a gradient reaches. At its
//   height one holds the gradients of its outputs, its saved values, the gradients it makes and its
//   temporaries. A gradient that `passes` is the output's own buffer under another name. Gradients
//   that meet are added in place where nobody else holds the one that came first, else into a new
//   buffer. A parameter's gradient stays.
// Departure: a module is called once. Source: docs/mathematics/checkpointing.md#what-a-step-holds;
// the order of frees is that of torch 2.13.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/core/result.h"
#include "plimsoll/core/units.h"

namespace plimsoll::checkpoint {

enum class OperatorKind {
  kCompute,   // makes its outputs
  kCreation,  // makes its outputs from nothing, in no time
  kView,      // gives an input back under another shape, in no time, in the backward too
  kInPlace,   // changes an input and gives it back
};

// What an operator's backward sends to one of the values it read.
struct StepGradient {
  int value = 0;
  bool passes = false;  // the gradient of the first output itself, which is as large
  bool operator==(const StepGradient&) const = default;
};

struct StepOperator {
  std::string name;  // as torch calls the overload packet: "mm", "_unsafe_view"
  int module = -1;   // innermost module, -1 outside the root: a loss
  OperatorKind kind = OperatorKind::kCompute;
  bool is_random = false;
  std::vector<int> inputs;      // values
  std::vector<int> outputs;     // values; made here, or for a view and in place: among the inputs
  std::vector<int> parameters;  // parameters read
  std::vector<int> saved;       // values kept for the backward; among the inputs and outputs
  std::vector<StepGradient> gradients;  // for values among the inputs, each at most once
  double flops = 0;                     // a multiply-add is two
  Bytes bytes_moved = 0;                // read and written
  double backward_flops = 0;
  Bytes backward_bytes_moved = 0;
  Bytes backward_temporary = 0;  // held while the backward runs, beside the gradients
  bool operator==(const StepOperator&) const = default;
};

struct StepModule {
  std::string fqn;
  int parent = -1;
  bool takes_tensors = true;  // a positional input is a tensor
  bool operator==(const StepModule&) const = default;
};

struct StepParameter {
  Bytes bytes = 0;
  bool requires_grad = true;
  bool operator==(const StepParameter&) const = default;
};

struct StepProgram {
  std::string name;
  std::vector<StepModule> modules;      // [0] is the root; a parent comes before its children
  std::vector<StepOperator> operators;  // in order of execution
  std::vector<Bytes> values;            // bytes of each storage
  std::vector<StepParameter> parameters;
  bool operator==(const StepProgram&) const = default;
};

// What follows from a program by its rules.
struct StepLayout {
  std::vector<int> first_operator;  // [modules] children included
  std::vector<int> last_operator;   // [modules]
  std::vector<int> producer;        // [values] -1 for the batch
  // [values] the operator after which the forward lets go, `num_operators` for what lives on.
  std::vector<int> last_reader;  // the last operator that reads the value
  std::vector<int> release;      // the same, or the return of a module that holds it, if later
  int result = 0;                // value
};

// Errors: kSchema (an index out of its list, a view of something it does not read, a saved value or
// gradient of something the operator does not see, a value made twice or read before it is made),
// kConflict (a module whose operators are not an unbroken run, or that has none; a name twice),
// kValue (a negative or non-finite figure, a passing gradient of another size, a gradient sent to a
// value whose maker has no backward).
Result<StepLayout> make_layout(const StepProgram& program);

// Whether the operator stands in the tables of the selective-checkpointing estimator, which leaves
// out copies and book-keeping.
bool is_in_operator_table(const StepOperator& op);

// How long operators take: the slower of arithmetic at three quarters of the peak, a multiply-add
// counted as one, and memory traffic. Views and creations take no time.
// Source: docs/mathematics/torch-checkpointing.md#module-statistics.
struct OperatorRoofline {
  double gb_per_s = 0;  // > 0, decimal
  double tflops = 0;    // > 0
  double forward_ms(const StepOperator& op) const;
  double backward_ms(const StepOperator& op) const;
  bool operator==(const OperatorRoofline&) const = default;
};

// Of an accelerator or node preset ("h100-sxm", "dgx-h100"). Error kNotFound for an unknown or
// ambiguous name, kValue where the preset lacks a rate.
Result<OperatorRoofline> find_roofline(std::string_view hardware);

}  // namespace plimsoll::checkpoint
