#include <fmt/format.h>

#include "models.h"
#include "operators.h"

namespace plimsoll::module_stats {
namespace {

using checkpoint::StepOperator;

constexpr Bytes kBf16 = 2;
constexpr Bytes kFloat = 4;
constexpr Bytes kIndex = 8;

class Llama {
 public:
  Llama(const LlamaShape& shape, Bytes batch, Bytes sequence, const checkpoint::Variant& variant)
      : shape_(shape),
        batch_(batch),
        sequence_(sequence),
        rows_(batch * sequence),
        head_(shape.hidden / shape.heads),
        ops_(shape.name, kBf16, variant) {}

  checkpoint::StepProgram build() {
    const int tokens = step().input(rows_ * kIndex);
    const int target = step().input(rows_ * kIndex);
    step().open("LlamaForCausalLM");
    step().open("model", false);
    int x = embed(tokens);
    rotary();
    for (int layer = 0; layer < shape_.layers; ++layer) {
      step().open(fmt::format("layers.{}", layer));
      x = block(x);
      step().close();
    }
    x = norm("norm", x);
    step().close();
    const int logits = linear("lm_head", x, shape_.hidden, shape_.vocab);
    step().close();
    ops_.cross_entropy(logits, target, rows_, shape_.vocab);
    return ops_.take();
  }

 private:
  const LlamaShape shape_;
  const Bytes batch_, sequence_, rows_, head_;
  Operators ops_;
  int cos_ = 0, sin_ = 0;

  checkpoint::StepBuilder& step() { return ops_.step(); }
  Bytes bytes(Bytes width) const { return rows_ * width * kBf16; }

  int linear(const std::string& name, int x, Bytes in, Bytes out) {
    step().open(name);
    const int y = ops_.linear(x, rows_, in, out, false);
    step().close();
    return y;
  }

  int embed(int tokens) {
    step().open("embed_tokens");
    StepOperator op;
    op.name = "embedding";
    op.inputs = op.saved = {tokens};
    op.parameters = {step().parameter(shape_.vocab * shape_.hidden * kBf16)};
    op.bytes_moved = 2 * bytes(shape_.hidden);
    const int x = step().add(std::move(op), {bytes(shape_.hidden)})[0];
    step().close();
    return x;
  }

  // Angles of one sequence, for all layers; without a gradient.
  void rotary() {
    step().open("rotary_emb");
    const Bytes size = sequence_ * head_;
    StepOperator angles;
    angles.name = "arange";
    angles.kind = checkpoint::OperatorKind::kCreation;
    const int table = step().add(std::move(angles), {size * kFloat})[0];
    const auto cast = [&](const std::string& name) {
      StepOperator op;
      op.name = name;
      op.inputs = {table};
      const int wide = step().add(std::move(op), {size * kFloat})[0];
      StepOperator copy;
      copy.name = "_to_copy";
      copy.inputs = {wide};
      return step().add(std::move(copy), {size * kBf16})[0];
    };
    cos_ = cast("cos");
    sin_ = cast("sin");
    step().close();
  }

  // x / sqrt(mean(x^2) + eps) in float32, times a weight.
  int norm(const std::string& name, int x) {
    step().open(name);
    const Bytes wide = rows_ * shape_.hidden * kFloat;
    const Bytes thin = rows_ * kFloat;
    const int x32 = ops_.unary("_to_copy", x, wide, {});
    const int squares = ops_.unary("pow", x32, wide, {x32});
    const int mean = ops_.unary("mean", squares, thin, {});
    StepOperator eps;
    eps.name = "add";
    eps.inputs = {mean};
    eps.gradients = {{mean, true}};
    const int shifted = step().add(std::move(eps), {thin})[0];
    const int scale = ops_.unary_by_output("rsqrt", shifted, thin);
    const int scaled = ops_.multiply(x32, scale, wide, true, true);
    const int narrow = ops_.unary("_to_copy", scaled, bytes(shape_.hidden), {});
    StepOperator weigh;
    weigh.name = "mul";
    weigh.inputs = weigh.saved = {narrow};
    weigh.parameters = {step().parameter(shape_.hidden * kBf16)};
    weigh.gradients = {{narrow}};
    const int y = step().add(std::move(weigh), {bytes(shape_.hidden)})[0];
    step().close();
    return y;
  }

  // x cos + rotate_half(x) sin.
  int rotate(int x, Bytes width) {
    const int straight = ops_.multiply(x, cos_, bytes(width), true, false);
    step().view("slice", x);
    step().view("slice", x);
    const int minus = ops_.unary("neg", x, bytes(width) / 2, {});
    StepOperator cat;
    cat.name = "cat";
    cat.inputs = {minus, x};
    cat.gradients = {{minus}, {x}};
    cat.bytes_moved = 2 * bytes(width);
    const int turned = step().add(std::move(cat), {bytes(width)})[0];
    const int across = ops_.multiply(turned, sin_, bytes(width), true, false);
    return ops_.add(straight, across, bytes(width));
  }

  // Each key and value head once for every query head that reads it: a copy that the estimator
  // does not list.
  int repeat(int x) {
    step().view("unsqueeze", x);
    step().view("expand", x);
    const int copy = ops_.unary("clone", x, bytes(shape_.hidden), {});
    step().view("_unsafe_view", copy);
    return copy;
  }

  int heads(const std::string& name, int x, Bytes width) {
    const int y = linear(name, x, shape_.hidden, width);
    step().view("view", y);
    step().view("transpose", y);
    return y;
  }

  int attention(int x) {
    // Called by keyword, so no positional input is a tensor.
    step().open("self_attn", false);
    const Bytes kv = shape_.kv_heads * head_;
    int q = heads("q_proj", x, shape_.hidden);
    int k = heads("k_proj", x, kv);
    int v = heads("v_proj", x, kv);
    step().view("unsqueeze", cos_);
    step().view("unsqueeze", sin_);
    q = rotate(q, shape_.hidden);
    k = rotate(k, kv);
    if (shape_.kv_heads < shape_.heads) {
      k = repeat(k);
      v = repeat(v);
    }
    const int out = ops_.attention("_scaled_dot_product_flash_attention", q, k, v, batch_,
                                   shape_.heads, sequence_, head_, 0);
    step().view("transpose", out);
    step().view("view", out);
    const int y = linear("o_proj", out, shape_.hidden, shape_.hidden);
    step().close();
    return y;
  }

  int mlp(int x) {
    step().open("mlp");
    const int gate = linear("gate_proj", x, shape_.hidden, shape_.ffn);
    step().open("act_fn");
    const int open = ops_.unary("silu", gate, bytes(shape_.ffn), {gate});
    step().close();
    const int up = linear("up_proj", x, shape_.hidden, shape_.ffn);
    const int both = ops_.multiply(open, up, bytes(shape_.ffn), true, true);
    const int y = linear("down_proj", both, shape_.ffn, shape_.hidden);
    step().close();
    return y;
  }

  int block(int x) {
    x = ops_.add(x, attention(norm("input_layernorm", x)), bytes(shape_.hidden));
    return ops_.add(x, mlp(norm("post_attention_layernorm", x)), bytes(shape_.hidden));
  }
};

}  // namespace

LlamaShape llama_3_8b() { return {"llama-3-8b", 32, 4096, 32, 8, 14336}; }
LlamaShape llama_3_70b() { return {"llama-3-70b", 80, 8192, 64, 8, 28672}; }

checkpoint::StepProgram llama(const LlamaShape& shape, Bytes batch, Bytes sequence,
                              const checkpoint::Variant& variant) {
  return Llama(shape, batch, sequence, variant).build();
}

}  // namespace plimsoll::module_stats
