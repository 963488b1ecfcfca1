// What ONNX's operators work and move: the counterpart of aten_operators.h.
#pragma once

#include <vector>

#include "io/import/onnx_messages.h"
#include "io/import/tensor_value.h"

namespace plimsoll::io {

// Tensors by position; null where left out or of unknown shape.
struct OnnxCall {
  const OnnxNode& node;
  std::vector<const TensorValue*> inputs, outputs;
};

bool is_onnx_view(const OnnxNode& node);
double flops_of(const OnnxCall& call);
// Precondition: no view.
Bytes bytes_moved_by(const OnnxCall& call);

}  // namespace plimsoll::io
