#include <fmt/format.h>

#include "models.h"
#include "operators.h"

namespace plimsoll::module_stats {
namespace {

using checkpoint::StepOperator;

constexpr Bytes kFloat = 4;
constexpr Bytes kIndex = 8;

class Gpt {
 public:
  Gpt(const GptShape& shape, Bytes batch, Bytes sequence, const checkpoint::Variant& variant)
      : shape_(shape),
        batch_(batch),
        sequence_(sequence),
        rows_(batch * sequence),
        ops_("gpt", kFloat, variant) {}

  checkpoint::StepProgram build() {
    const int tokens = step().input(rows_ * kIndex);
    const int target = step().input(rows_ * kIndex);
    const int embedding = step().parameter(shape_.vocab * shape_.dim * kFloat);
    step().open("Transformer");
    step().open("tok_embeddings");
    const int token = look_up(tokens, embedding);
    step().close();
    step().open("pos_embeddings");
    const int place = look_up(tokens, step().parameter(sequence_ * shape_.dim * kFloat));
    step().close();
    int x = ops_.add(token, place, bytes(shape_.dim));
    x = dropout(x);
    for (int layer = 0; layer < shape_.layers; ++layer) {
      step().open(fmt::format("layers.{}", layer));
      x = block(x);
      step().close();
    }
    x = norm("norm", x);
    step().open("output");
    const int logits = ops_.linear(x, rows_, shape_.dim, shape_.vocab, false, {embedding});
    step().close();
    step().close();
    ops_.cross_entropy(logits, target, rows_, shape_.vocab);
    return ops_.take();
  }

 private:
  const GptShape shape_;
  const Bytes batch_, sequence_, rows_;
  Operators ops_;

  checkpoint::StepBuilder& step() { return ops_.step(); }
  Bytes bytes(Bytes width) const { return rows_ * width * kFloat; }

  int look_up(int tokens, int table) {
    StepOperator op;
    op.name = "embedding";
    op.inputs = op.saved = {tokens};
    op.parameters = {table};
    op.bytes_moved = 2 * bytes(shape_.dim);
    return step().add(std::move(op), {bytes(shape_.dim)})[0];
  }

  int linear(const std::string& name, int x, Bytes in, Bytes out, bool bias) {
    step().open(name);
    const int y = ops_.linear(x, rows_, in, out, bias);
    step().close();
    return y;
  }

  int norm(const std::string& name, int x) {
    step().open(name);
    StepOperator op;
    op.name = "native_layer_norm";
    op.inputs = op.saved = {x};
    op.parameters = {step().parameter(shape_.dim * kFloat), step().parameter(shape_.dim * kFloat)};
    op.gradients = {{x}};
    const auto made = step().add(std::move(op), {bytes(shape_.dim), bytes(1), bytes(1)}, {1, 2});
    step().close();
    return made[0];
  }

  // Keeps a mask of one byte an element.
  int dropout(int x) {
    if (!shape_.dropout) return x;
    StepOperator op;
    op.name = "native_dropout";
    op.is_random = true;
    op.inputs = {x};
    op.gradients = {{x}};
    return step().add(std::move(op), {bytes(shape_.dim), bytes(shape_.dim) / kFloat}, {1})[0];
  }

  int attention(int x) {
    step().open("attention");
    const Bytes head = shape_.dim / shape_.heads;
    const int q = linear("wq", x, shape_.dim, shape_.dim, false);
    const int k = linear("wk", x, shape_.dim, shape_.dim, false);
    const int v = linear("wv", x, shape_.dim, shape_.dim, false);
    for (int value : {q, k, v}) step().view("view", value);
    for (int value : {q, k, v}) step().view("transpose", value);
    // The kernel also returns two random states of 512 bytes each.
    int out = ops_.attention("_scaled_dot_product_efficient_attention", q, k, v, batch_,
                             shape_.heads, sequence_, head, 1024);
    step().view("transpose", out);
    step().view("view", out);
    out = linear("wo", out, shape_.dim, shape_.dim, false);
    out = dropout(out);
    step().close();
    return out;
  }

  int feed_forward(int x) {
    step().open("feed_forward");
    int h = linear("w1", x, shape_.dim, 4 * shape_.dim, true);
    step().open("gelu");
    h = ops_.unary("gelu", h, bytes(4 * shape_.dim), {h});
    step().close();
    h = linear("w2", h, 4 * shape_.dim, shape_.dim, true);
    h = dropout(h);
    step().close();
    return h;
  }

  int block(int x) {
    x = ops_.add(x, attention(norm("attention_norm", x)), bytes(shape_.dim));
    return ops_.add(x, feed_forward(norm("ffn_norm", x)), bytes(shape_.dim));
  }
};

}  // namespace

checkpoint::StepProgram gpt(const GptShape& shape, Bytes batch, Bytes sequence,
                            const checkpoint::Variant& variant) {
  return Gpt(shape, batch, sequence, variant).build();
}

}  // namespace plimsoll::module_stats
