// Writes step programs: modules are opened and closed as the model calls them, operators follow one
// another.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/trace/step_program.h"
#include "plimsoll/checkpoint/variant.h"

namespace plimsoll::checkpoint {

class StepBuilder {
 public:
  // `variant` says how bytes moved are counted.
  explicit StepBuilder(std::string name, Variant variant = default_variant())
      : variant_(std::move(variant)) {
    program_.name = std::move(name);
  }

  // A value of the batch, there from the start; gradients for it are left out.
  int input(Bytes bytes);
  int parameter(Bytes bytes, bool requires_grad = true);

  // The root's name, or ".attr" is added to the name of the module that is open.
  void open(const std::string& name, bool takes_tensors = true);
  void close();

  // Adds `op` to the open module and returns new values of `made` bytes, its outputs; without any
  // it gives back its first input. `kept` lists places in `made` that autograd saves, besides what
  // `op` says. Where a figure of bytes moved is 0: all that is read and made, counted as the
  // variant does; in the backward the gradients that come and go, those of parameters and what was
  // saved.
  std::vector<int> add(StepOperator op, const std::vector<Bytes>& made,
                       const std::vector<int>& kept = {});

  void view(const std::string& name, int value);

  const StepProgram& program() const { return program_; }

 private:
  Variant variant_;
  StepProgram program_;
  std::vector<int> open_;  // modules, innermost last
  std::set<int> batch_;    // values

  int make(Bytes bytes);
  Bytes moved(Bytes storage) const;
  Bytes moved(std::vector<int> values) const;
};

}  // namespace plimsoll::checkpoint
