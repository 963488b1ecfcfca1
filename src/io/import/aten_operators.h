// What torch's operators work, move and share, told from the shapes they read and give.
//
// Flops count 2 for a multiply-add of matrix products, convolutions, attention and recurrent
// layers, and nothing else. Bytes moved are distinct inputs and outputs; gathers move twice their
// output and their indices; views nothing. An operator is a view where its output shares the
// storage of its input: by name, and where that depends (reshape, to, contiguous, dropout) by
// strides, data type and mode. Source: docs/mathematics/placements.md#costs-of-traced-models.
#pragma once

#include <string_view>
#include <vector>

#include "io/import/tensor_value.h"

namespace plimsoll::io {

struct AtenCall {
  std::string_view target;                 // "aten.linear.default"
  std::vector<const TensorValue*> inputs;  // tensors in the order of arguments, repeated as there
  std::vector<const TensorValue*> outputs;
  bool is_training = true;     // the argument `train`
  bool is_transposed = false;  // the argument `transposed`
};

double flops_of(const AtenCall& call);
bool is_view(const AtenCall& call);
// Precondition: `call` is not a view.
Bytes bytes_moved_by(const AtenCall& call);

}  // namespace plimsoll::io
