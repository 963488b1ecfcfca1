#include <fmt/format.h>

#include "models.h"
#include "operators.h"

namespace plimsoll::module_stats {
namespace {

using checkpoint::StepOperator;

constexpr Bytes kBf16 = 2;
constexpr Bytes kFloat = 4;
constexpr Bytes kNumTables = 26;
constexpr Bytes kEmbedding = 128;
constexpr Bytes kInteraction = (kNumTables + 1) * kEmbedding;
constexpr Bytes kRank = 512;
constexpr int kCrossLayers = 3;

class Dlrm {
 public:
  Dlrm(const DlrmShape& shape, Bytes batch, const checkpoint::Variant& variant)
      : shape_(shape), rows_(batch), ops_("dlrm-deep-towers", kBf16, variant) {}

  checkpoint::StepProgram build() {
    const int dense = step().input(bytes(13));
    const int target = step().input(rows_ * kFloat);
    step().open("DLRM");
    const int bottom = mlp("bottom", dense, 13, {512, 256, kEmbedding}, true);
    const int sparse = embeddings();
    int x = concatenate({bottom, sparse}, kInteraction);
    x = cross(x);
    std::vector<int> tower_outputs;
    step().open("towers");
    for (int tower = 0; tower < shape_.towers; ++tower) {
      const std::vector<Bytes> widths(static_cast<std::size_t>(shape_.depth), shape_.width);
      tower_outputs.push_back(mlp(fmt::format("{}", tower), x, kInteraction, widths, true));
    }
    const Bytes width = shape_.towers * shape_.width;
    x = concatenate(tower_outputs, width);
    step().close();
    const int logits = mlp("top", x, width, {1024, 1024, 512, 256, 1}, false);
    step().close();
    StepOperator loss;
    loss.name = "binary_cross_entropy_with_logits";
    loss.inputs = loss.saved = {logits, target};
    loss.gradients = {{logits}};
    step().add(std::move(loss), {kFloat});
    return ops_.take();
  }

 private:
  const DlrmShape shape_;
  const Bytes rows_;
  Operators ops_;

  checkpoint::StepBuilder& step() { return ops_.step(); }
  Bytes bytes(Bytes width) const { return rows_ * width * kBf16; }

  // Linear layers with relu between them, and behind the last where `ends_in_relu`.
  int mlp(const std::string& name, int x, Bytes in, const std::vector<Bytes>& widths,
          bool ends_in_relu) {
    step().open(name);
    for (std::size_t i = 0; i < widths.size(); ++i) {
      step().open(fmt::format("{}", i));
      step().open("linear");
      x = ops_.linear(x, rows_, in, widths[i], true);
      step().close();
      if (ends_in_relu || i + 1 < widths.size()) {
        step().open("relu");
        x = ops_.unary_by_output("relu", x, bytes(widths[i]));
        step().close();
      }
      step().close();
      in = widths[i];
    }
    step().close();
    return x;
  }

  // The tables' planner keeps their weights, and their optimizer takes the gradient away.
  int embeddings() {
    step().open("sparse");
    StepOperator op;
    op.name = "pooled_embeddings";
    op.parameters = {step().parameter(0, false)};
    const int x = step().add(std::move(op), {bytes(kNumTables * kEmbedding)})[0];
    step().close();
    return x;
  }

  int concatenate(const std::vector<int>& parts, Bytes width) {
    StepOperator op;
    op.name = "cat";
    op.inputs = parts;
    for (int part : parts) op.gradients.push_back({part});
    return step().add(std::move(op), {bytes(width)})[0];
  }

  // x0 * (W (V x)) + x, layer by layer.
  int cross(int x0) {
    step().open("cross");
    int x = x0;
    for (int layer = 0; layer < kCrossLayers; ++layer) {
      step().open(fmt::format("{}", layer));
      step().open("v");
      const int low = ops_.linear(x, rows_, kInteraction, kRank, false);
      step().close();
      step().open("w");
      const int high = ops_.linear(low, rows_, kRank, kInteraction, true);
      step().close();
      const int product = ops_.multiply(x0, high, bytes(kInteraction), true, true);
      x = ops_.add(product, x, bytes(kInteraction));
      step().close();
    }
    step().close();
    return x;
  }
};

}  // namespace

checkpoint::StepProgram dlrm_deep_towers(const DlrmShape& shape, Bytes batch,
                                         const checkpoint::Variant& variant) {
  return Dlrm(shape, batch, variant).build();
}

}  // namespace plimsoll::module_stats
