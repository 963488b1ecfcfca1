#include "io/import/aten_operators.h"

#include <algorithm>
#include <array>
#include <string>

#include "core/check.h"

namespace plimsoll::io {
namespace {

// "linear" of "aten.linear.default"; empty for what is not an aten operator.
std::string_view base_name(std::string_view target) {
  constexpr std::string_view kAten = "aten.";
  if (!target.starts_with(kAten)) return {};
  target.remove_prefix(kAten.size());
  return target.substr(0, target.find('.'));
}

template <std::size_t N>
bool is_one_of(std::string_view name, const std::array<std::string_view, N>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

constexpr std::array<std::string_view, 32> kViews = {"view",
                                                     "_unsafe_view",
                                                     "t",
                                                     "transpose",
                                                     "permute",
                                                     "numpy_T",
                                                     "squeeze",
                                                     "unsqueeze",
                                                     "expand",
                                                     "expand_as",
                                                     "select",
                                                     "slice",
                                                     "narrow",
                                                     "split",
                                                     "chunk",
                                                     "unbind",
                                                     "alias",
                                                     "detach",
                                                     "diagonal",
                                                     "as_strided",
                                                     "unfold",
                                                     "swapaxes",
                                                     "swapdims",
                                                     "movedim",
                                                     "view_as",
                                                     "mT",
                                                     "mH",
                                                     "tensor_split",
                                                     "split_with_sizes",
                                                     "view_as_real",
                                                     "view_as_complex",
                                                     "lift_fresh"};
constexpr std::array<std::string_view, 10> kGathers = {
    "embedding",    "embedding_bag",  "_embedding_bag",
    "index",        "index_select",   "gather",
    "take",         "take_along_dim", "_embedding_bag_forward_only",
    "masked_select"};
constexpr std::array<std::string_view, 11> kConvolutions = {"convolution",
                                                            "_convolution",
                                                            "conv1d",
                                                            "conv2d",
                                                            "conv3d",
                                                            "conv_transpose1d",
                                                            "conv_transpose2d",
                                                            "conv_transpose3d",
                                                            "cudnn_convolution",
                                                            "mkldnn_convolution",
                                                            "convolution_overrideable"};
constexpr std::array<std::string_view, 6> kRecurrent = {
    "lstm", "gru", "rnn_tanh", "rnn_relu", "_cudnn_rnn", "mkldnn_rnn_layer"};

bool is_contiguous(const TensorValue& value) {
  if (value.strides.size() != value.sizes.size() || value.num_elements() == 0) return true;
  std::int64_t expected = 1;
  for (std::size_t i = value.sizes.size(); i-- > 0;) {
    if (value.sizes[i] == 1) continue;
    if (value.strides[i] != expected) return false;
    expected *= value.sizes[i];
  }
  return true;
}

// Whether strides exist under which a tensor has other sizes in the same storage: its dimensions
// fall into runs that lie without a gap, and no new dimension may cross two of them.
bool can_be_viewed(const TensorValue& value, const std::vector<std::int64_t>& sizes) {
  if (value.strides.size() != value.sizes.size() || is_contiguous(value)) return true;
  std::ptrdiff_t next = static_cast<std::ptrdiff_t>(sizes.size()) - 1;
  std::int64_t innermost = value.strides.back();  // the run's own stride
  std::int64_t run = 1;                           // elements of the old run
  Int128 covered = 1;                             // of them by new dimensions
  for (std::size_t i = value.sizes.size(); i-- > 0;) {
    run *= value.sizes[i];
    if (i > 0 && (value.sizes[i - 1] == 1 ||
                  Int128{value.strides[i - 1]} == Int128{run} * Int128{innermost})) {
      continue;
    }
    while (next >= 0 && (covered < run || sizes[static_cast<std::size_t>(next)] == 1)) {
      covered *= sizes[static_cast<std::size_t>(next)];
      --next;
    }
    if (covered != run) return false;
    run = 1;
    covered = 1;
    if (i > 0) innermost = value.strides[i - 1];
  }
  return next < 0;
}

double conv_flops(const TensorValue& input, const TensorValue& weight, const TensorValue& output,
                  bool is_transposed) {
  if (weight.num_dims() == 0 || weight.sizes[0] == 0) return 0;
  const double per_channel = weight.num_elements() / weight.size(0);
  return 2 * (is_transposed ? input : output).num_elements() * per_channel;
}

// `q`, `k`, `v` by heads: [..., sequence, width]; else [batch, sequence, heads, width].
double attention_flops(const TensorValue& q, const TensorValue& k, const TensorValue& v,
                       bool is_by_heads, bool is_backward) {
  const double keys = k.size(is_by_heads ? -2 : 1);
  const double forward_pass = q.num_elements() * keys;  // q k'
  const double value_pass = q.num_elements() / std::max(1.0, q.size(-1)) * v.size(-1) * keys;
  return 2 * (is_backward ? 3 * forward_pass + 2 * value_pass : forward_pass + value_pass);
}

}  // namespace

double flops_of(const AtenCall& call) {
  const std::string_view name = base_name(call.target);
  const auto& in = call.inputs;
  if (in.empty() || call.outputs.empty()) return 0;
  const TensorValue& out = *call.outputs[0];
  const auto has_inputs = [&](std::size_t count) { return in.size() >= count; };

  if ((name == "mm" || name == "bmm" || name == "matmul" || name == "linear" || name == "mv" ||
       name == "dot" || name == "_int_mm" || name == "_scaled_mm" || name == "inner") &&
      has_inputs(2)) {
    return 2 * out.num_elements() * in[0]->size(-1);
  }
  if ((name == "addmm" || name == "baddbmm" || name == "addbmm" || name == "addmv" ||
       name == "_addmm_activation") &&
      has_inputs(3)) {
    const double products = name == "addbmm" ? in[1]->size(0) : 1;
    return 2 * out.num_elements() * in[1]->size(-1) * products;
  }
  if (name == "_grouped_mm" && has_inputs(2)) {
    // Rows of the one belong to groups of the other: every row meets one matrix.
    const bool is_by_columns = in[0]->num_dims() == 3 && in[1]->num_dims() == 2;
    return 2 * (is_by_columns ? out.num_elements() * in[0]->size(-1)
                              : in[0]->num_elements() * in[1]->size(-1));
  }
  if (is_one_of(name, kConvolutions) && has_inputs(2)) {
    const bool is_transposed =
        call.is_transposed || name.find("transpose") != std::string_view::npos;
    return conv_flops(*in[0], *in[1], out, is_transposed);
  }
  if (name == "convolution_backward" && has_inputs(3)) {
    // One convolution for each gradient but the bias's.
    const double forward = conv_flops(*in[1], *in[2], *in[0], call.is_transposed);
    double num_gradients = 0;
    for (const TensorValue* gradient : call.outputs) {
      num_gradients += gradient->num_dims() > 1 ? 1 : 0;
    }
    return forward * num_gradients;
  }
  const bool is_sdpa =
      name == "scaled_dot_product_attention" || name.starts_with("_scaled_dot_product_");
  const bool is_raw_attention =
      name.starts_with("_flash_attention_") || name.starts_with("_efficient_attention_");
  if (is_sdpa || is_raw_attention) {
    const bool is_backward = name.find("backward") != std::string_view::npos;
    const std::size_t first = is_backward ? 1 : 0;
    if (!has_inputs(first + 3)) return 0;
    return attention_flops(*in[first], *in[first + 1], *in[first + 2], is_sdpa, is_backward);
  }
  if (is_one_of(name, kRecurrent)) {
    // Every weight matrix meets every step of every sequence.
    double weights = 0;
    for (std::size_t i = 1; i < in.size(); ++i) {
      if (in[i]->num_dims() == 2) weights += in[i]->num_elements();
    }
    return 2 * in[0]->num_elements() / std::max(1.0, in[0]->size(-1)) * weights;
  }
  return 0;
}

bool is_view(const AtenCall& call) {
  const std::string_view name = base_name(call.target);
  if (call.inputs.empty() || call.outputs.empty()) return false;
  if (is_one_of(name, kViews)) return true;
  const TensorValue& in = *call.inputs[0];
  const TensorValue& out = *call.outputs[0];
  if (name == "reshape" || name == "flatten" || name == "unflatten" || name == "reshape_as") {
    return can_be_viewed(in, out.sizes);
  }
  if (name == "contiguous") return is_contiguous(in);
  if (name == "to" || name == "type_as") return in.dtype == out.dtype && in.bytes == out.bytes;
  if (name == "dropout" || name == "feature_dropout" || name == "alpha_dropout") {
    return !call.is_training;
  }
  return false;
}

Bytes bytes_moved_by(const AtenCall& call) {
  PLIMSOLL_CHECK(!is_view(call), "the call is not a view");
  const bool is_gather = is_one_of(base_name(call.target), kGathers);
  Bytes total = 0;
  for (const TensorValue* output : call.outputs) {
    total = add_bytes(total, output->bytes);
    if (is_gather) total = add_bytes(total, output->bytes);
  }
  std::vector<const TensorValue*> distinct;
  for (const TensorValue* input : call.inputs) {
    if (std::find(distinct.begin(), distinct.end(), input) == distinct.end()) {
      distinct.push_back(input);
    }
  }
  for (std::size_t i = is_gather ? 1 : 0; i < distinct.size(); ++i) {
    total = add_bytes(total, distinct[i]->bytes);
  }
  return total;
}

}  // namespace plimsoll::io
