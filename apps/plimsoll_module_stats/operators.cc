#include "operators.h"

namespace plimsoll::module_stats {

using checkpoint::StepOperator;

namespace {

constexpr Bytes kFloat = 4;

double product(Bytes a, Bytes b, Bytes c, Bytes d = 1) {
  return static_cast<double>(a) * static_cast<double>(b) * static_cast<double>(c) *
         static_cast<double>(d);
}

}  // namespace

int Operators::linear(int x, Bytes rows, Bytes in, Bytes out, bool bias) {
  std::vector<int> parameters = {step_.parameter(in * out * element_)};
  if (bias) parameters.push_back(step_.parameter(out * element_));
  return linear(x, rows, in, out, bias, parameters);
}

int Operators::linear(int x, Bytes rows, Bytes in, Bytes out, bool bias,
                      const std::vector<int>& parameters) {
  step_.view(bias ? "view" : "t", x);
  step_.view(bias ? "t" : "view", x);
  StepOperator mm;
  mm.name = bias ? "addmm" : "mm";
  mm.inputs = mm.saved = {x};
  mm.parameters = parameters;
  mm.gradients = {{x}};
  mm.flops = 2 * product(rows, in, out);
  mm.backward_flops = 2 * mm.flops;
  const int y = step_.add(std::move(mm), {rows * out * element_})[0];
  step_.view(bias ? "view" : "_unsafe_view", y);
  return y;
}

int Operators::unary(const std::string& name, int x, Bytes bytes, const std::vector<int>& saved) {
  StepOperator op;
  op.name = name;
  op.inputs = {x};
  op.saved = saved;
  op.gradients = {{x}};
  return step_.add(std::move(op), {bytes})[0];
}

int Operators::unary_by_output(const std::string& name, int x, Bytes bytes) {
  StepOperator op;
  op.name = name;
  op.inputs = {x};
  op.gradients = {{x}};
  return step_.add(std::move(op), {bytes}, {0})[0];
}

int Operators::add(int a, int b, Bytes bytes) {
  StepOperator op;
  op.name = "add";
  op.inputs = {a, b};
  op.gradients = {{a, true}, {b, true}};
  return step_.add(std::move(op), {bytes})[0];
}

int Operators::multiply(int a, int b, Bytes bytes, bool a_grad, bool b_grad) {
  StepOperator op;
  op.name = "mul";
  op.inputs = {a, b};
  if (b_grad) op.saved.push_back(a);
  if (a_grad) op.saved.push_back(b);
  if (a_grad) op.gradients.push_back({a});
  if (b_grad) op.gradients.push_back({b});
  return step_.add(std::move(op), {bytes})[0];
}

int Operators::attention(const std::string& name, int q, int k, int v, Bytes batch, Bytes heads,
                         Bytes sequence, Bytes head, Bytes extra_bytes) {
  StepOperator op;
  op.name = name;
  op.inputs = op.saved = {q, k, v};
  op.gradients = {{q}, {k}, {v}};
  op.is_random = name == "_scaled_dot_product_efficient_attention";
  op.flops = 4 * product(batch, heads, sequence * sequence, head);
  op.backward_flops = 2.5 * op.flops;
  std::vector<Bytes> made = {batch * heads * sequence * head * element_,
                             batch * heads * sequence * kFloat};
  std::vector<int> kept = {0, 1};
  if (extra_bytes > 0) {
    made.push_back(extra_bytes);
    kept.push_back(2);
  }
  return step_.add(std::move(op), made, kept)[0];
}

void Operators::cross_entropy(int logits, int target, Bytes rows, Bytes vocab) {
  if (element_ != kFloat) logits = unary("_to_copy", logits, rows * vocab * kFloat, {});
  step_.view("view", logits);
  const int scores = unary_by_output("_log_softmax", logits, rows * vocab * kFloat);
  StepOperator loss;
  loss.name = "nll_loss_forward";
  loss.inputs = loss.saved = {scores, target};
  loss.gradients = {{scores}};
  step_.add(std::move(loss), {kFloat, kFloat});
}

}  // namespace plimsoll::module_stats
