// Small random steps: a stack of residual blocks as transformers have them, or a wild tree.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "checkpoint/trace/step_builder.h"

namespace plimsoll::check {

class RandomStep {
 public:
  explicit RandomStep(std::uint32_t seed) : random_(seed), step_("random") {}

  // A number in [0, n).
  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint32_t>(n)); }

  // Blocks x + f(norm(x)), each f a chain of operators and leaf modules; a norm, a head and a loss.
  checkpoint::StepProgram residual_stack(int num_blocks) {
    const int tokens = step_.input(8);
    step_.open("Net");
    step_.open("embed");
    int x = embedding(tokens);
    step_.close();
    for (int b = 0; b < num_blocks; ++b) {
      step_.open("blocks." + std::to_string(b));
      const int normed = norm(x);
      step_.open("body");
      const int y = chain(normed, 2 + below(4), kWidth);
      step_.close();
      x = add(x, y);
      step_.close();
    }
    x = norm(x);
    step_.open("head");
    x = linear(x, 3 * kWidth);
    step_.close();
    step_.close();
    loss(x);
    return step_.program();
  }

  // Modules in modules, values read from far away, some without a gradient.
  checkpoint::StepProgram wild() {
    values_ = {step_.input(16), step_.input(24)};
    step_.open("Net");
    values_.push_back(embedding(values_[0]));
    tree(2);
    step_.close();
    int x = values_.back();
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (below(4) == 0 && values_[i] != x && differentiable(values_[i]))
        x = combine(x, values_[i]);
    }
    loss(x);
    return step_.program();
  }

 private:
  static constexpr Bytes kWidth = 64;
  std::mt19937 random_;
  checkpoint::StepBuilder step_;
  std::vector<int> values_;

  using Op = checkpoint::StepOperator;

  static Op op(const std::string& name, std::vector<int> inputs, std::vector<int> saved) {
    Op made;
    made.name = name;
    made.inputs = std::move(inputs);
    made.saved = std::move(saved);
    for (int value : made.inputs) made.gradients.push_back({value});
    return made;
  }
  Bytes size(int value) const { return step_.program().values[static_cast<std::size_t>(value)]; }

  bool differentiable(int value) const {
    for (const Op& made : step_.program().operators) {
      for (int output : made.outputs) {
        if (output == value && !(made.gradients.empty() && made.parameters.empty())) return true;
      }
    }
    return false;
  }

  int embedding(int tokens) {
    Op made = op("embedding", {tokens}, {tokens});
    made.parameters = {step_.parameter(5 * kWidth)};
    return step_.add(std::move(made), {kWidth})[0];
  }
  int norm(int x) {
    step_.open("norm" + std::to_string(step_.program().modules.size()));
    Op made = op("native_layer_norm", {x}, {x});
    made.parameters = {step_.parameter(8)};
    const int y = step_.add(std::move(made), {size(x), 4, 4}, {1, 2})[0];
    step_.close();
    return y;
  }
  int linear(int x, Bytes bytes) {
    step_.view("t", x);
    Op made = op("mm", {x}, {x});
    made.parameters = {step_.parameter(16 + 4 * below(5))};
    made.flops = 1000.0 * (1 + below(9));
    const int y = step_.add(std::move(made), {bytes})[0];
    step_.view("_unsafe_view", y);
    return y;
  }
  int add(int a, int b) {
    Op made = op("add", {a, b}, {});
    made.gradients = {{a, true}, {b, true}};
    return step_.add(std::move(made), {size(a)})[0];
  }
  int combine(int a, int b) { return step_.add(op("bilinear", {a, b}, {a, b}), {size(a)})[0]; }
  int link(int x) {
    switch (below(6)) {
      case 0:
        return step_.add(op("gelu", {x}, {x}), {size(x)})[0];
      case 1:
        return step_.add(op("relu", {x}, {}), {size(x)}, {0})[0];
      case 2: {
        Op made = op("native_dropout", {x}, {});
        made.is_random = true;
        return step_.add(std::move(made), {size(x), size(x) / 4}, {1})[0];
      }
      case 3:
        return step_.add(op("neg", {x}, {}), {size(x)})[0];
      case 4: {
        const int y = step_.add(op("mul", {x}, {x}), {size(x)})[0];
        Op made = op("relu_", {y}, {y});
        made.kind = checkpoint::OperatorKind::kInPlace;
        step_.add(std::move(made), {});
        return y;
      }
      default: {
        step_.open("linear" + std::to_string(step_.program().modules.size()));
        const int y = linear(x, kWidth * (1 + below(3)));
        step_.close();
        return y;
      }
    }
  }
  // Begins and ends with a linear layer.
  int chain(int x, int length, Bytes bytes) {
    step_.open("first");
    x = linear(x, kWidth * (1 + below(3)));
    step_.close();
    for (int i = 0; i < length; ++i) x = link(x);
    step_.open("last");
    x = linear(x, bytes);
    step_.close();
    return x;
  }
  void tree(int depth) {
    const int children = 1 + below(3);
    for (int c = 0; c < children; ++c) {
      step_.open("m" + std::to_string(step_.program().modules.size()));
      if (depth > 0 && below(3) > 0) tree(depth - 1);
      const int count = 1 + below(3);
      for (int i = 0; i < count; ++i) {
        const int a =
            values_[static_cast<std::size_t>(2 + below(static_cast<int>(values_.size()) - 2))];
        const int b = values_.back();
        if (below(8) == 0) {
          Op made = op("rand", {}, {});
          made.kind = checkpoint::OperatorKind::kCreation;
          const int noise = step_.add(std::move(made), {kWidth})[0];
          Op mul = op("mul", {b, noise}, {noise});
          mul.gradients = {{b}};
          values_.push_back(step_.add(std::move(mul), {size(b)})[0]);
        } else {
          values_.push_back(below(2) == 0 && a != b ? combine(b, a) : link(b));
        }
      }
      step_.close();
    }
  }
  void loss(int x) {
    const int target = step_.input(8);
    Op made = op("nll_loss_forward", {x, target}, {x, target});
    made.gradients = {{x}};
    step_.add(std::move(made), {4});
  }
};

}  // namespace plimsoll::check
