// The operators that the models are made of, with what autograd keeps for each.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/trace/step_builder.h"

namespace plimsoll::module_stats {

class Operators {
 public:
  // `element` bytes an element of activations and parameters.
  Operators(std::string name, Bytes element, const checkpoint::Variant& variant)
      : element_(element), step_(std::move(name), variant) {}

  checkpoint::StepBuilder& step() { return step_; }
  checkpoint::StepProgram take() { return step_.program(); }
  Bytes element() const { return element_; }

  // x [rows, in] by a weight of its own: t, view, mm, _unsafe_view; with a bias view, t, addmm,
  // view.
  int linear(int x, Bytes rows, Bytes in, Bytes out, bool bias);
  // The same by a given weight.
  int linear(int x, Bytes rows, Bytes in, Bytes out, bool bias, const std::vector<int>& parameters);

  // Element by element, [size] bytes: what is saved is the caller's to say.
  int unary(const std::string& name, int x, Bytes bytes, const std::vector<int>& saved);
  // Saves its own output.
  int unary_by_output(const std::string& name, int x, Bytes bytes);
  // a + b: keeps nothing, its gradient passes.
  int add(int a, int b, Bytes bytes);
  // a * b, each gradient sent where `a_grad`, `b_grad`; what the other's needs is saved.
  int multiply(int a, int b, Bytes bytes, bool a_grad, bool b_grad);
  // Scaled dot-product attention over [batch, heads, sequence, head], the mask inside the kernel;
  // all is saved. The memory-efficient kernel counts as random even without dropout, flash does
  // not.
  int attention(const std::string& name, int q, int k, int v, Bytes batch, Bytes heads,
                Bytes sequence, Bytes head, Bytes extra_bytes);
  // Cross-entropy of [rows, vocab] logits, in float32.
  void cross_entropy(int logits, int target, Bytes rows, Bytes vocab);

 private:
  Bytes element_;
  checkpoint::StepBuilder step_;
};

}  // namespace plimsoll::module_stats
