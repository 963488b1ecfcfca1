#include "io/import/onnx_operators.h"

#include <algorithm>
#include <string_view>

#include "core/check.h"

namespace plimsoll::io {
namespace {

const TensorValue* at(const std::vector<const TensorValue*>& list, std::size_t index) {
  return index < list.size() ? list[index] : nullptr;
}

double conv_flops(const TensorValue& weight, const TensorValue& per_position) {
  if (weight.num_dims() == 0 || weight.sizes[0] == 0) return 0;
  return 2 * per_position.num_elements() * weight.num_elements() / weight.size(0);
}

std::int64_t attribute(const OnnxNode& node, const char* name) {
  const auto found = node.ints.find(name);
  return found == node.ints.end() ? 0 : found->second;
}

}  // namespace

bool is_onnx_view(const OnnxNode& node) {
  const std::string_view type = node.op_type;
  const bool is_standard = node.domain.empty() || node.domain == "ai.onnx";
  return is_standard && !node.inputs.empty() && !node.inputs[0].empty() &&
         (type == "Reshape" || type == "Squeeze" || type == "Unsqueeze" || type == "Flatten" ||
          type == "Identity");
}

double flops_of(const OnnxCall& call) {
  const std::string_view type = call.node.op_type;
  const TensorValue* a = at(call.inputs, 0);
  const TensorValue* b = at(call.inputs, 1);
  const TensorValue* out = at(call.outputs, 0);
  if (a == nullptr || b == nullptr || out == nullptr) return 0;
  if (type == "MatMul" || type == "FusedMatMul" || type == "MatMulInteger") {
    const bool is_transposed = type == "FusedMatMul" && attribute(call.node, "transA") != 0;
    return 2 * out->num_elements() * a->size(is_transposed ? -2 : -1);
  }
  if (type == "Gemm") {
    return 2 * out->num_elements() * a->size(attribute(call.node, "transA") != 0 ? 0 : 1);
  }
  if (type == "QLinearMatMul") return 2 * out->num_elements() * a->size(-1);
  if (type == "Conv" || type == "ConvInteger" || type == "FusedConv") return conv_flops(*b, *out);
  if (type == "ConvTranspose") return conv_flops(*b, *a);
  if (type == "QLinearConv") {
    const TensorValue* weight = at(call.inputs, 3);
    return weight == nullptr ? 0 : conv_flops(*weight, *out);
  }
  if (type == "LSTM" || type == "GRU" || type == "RNN") {
    const TensorValue* recurrent = at(call.inputs, 2);
    if (recurrent == nullptr) return 0;
    return 2 * a->size(0) * a->size(1) * (b->num_elements() + recurrent->num_elements());
  }
  if (type == "Attention" && call.node.domain.empty()) {
    // By heads, or with the heads inside the width: the product is the same.
    const TensorValue* v = at(call.inputs, 2);
    if (v == nullptr) return 0;
    const double positions = a->num_elements() / std::max(1.0, a->size(-1));
    const double keys = b->size(-2);
    return 2 * keys * (a->num_elements() + positions * out->size(-1));
  }
  return 0;
}

Bytes bytes_moved_by(const OnnxCall& call) {
  PLIMSOLL_CHECK(!is_onnx_view(call.node), "the node is not a view");
  const std::string_view type = call.node.op_type;
  const bool is_gather = type == "Gather" || type == "GatherND" || type == "GatherElements";
  Bytes total = 0;
  for (const TensorValue* output : call.outputs) {
    if (output == nullptr) continue;
    total = add_bytes(total, output->bytes);
    if (is_gather) total = add_bytes(total, output->bytes);
  }
  for (std::size_t i = is_gather ? 1 : 0; i < call.inputs.size(); ++i) {
    const auto end = call.inputs.begin() + static_cast<std::ptrdiff_t>(i);
    const bool is_first = std::find(call.inputs.begin(), end, call.inputs[i]) == end;
    if (call.inputs[i] != nullptr && is_first) total = add_bytes(total, call.inputs[i]->bytes);
  }
  return total;
}

}  // namespace plimsoll::io
