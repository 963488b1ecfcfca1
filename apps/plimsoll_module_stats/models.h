// Published models as step programs. The variant says how the bytes that operators move are
// counted.
#pragma once

#include <string>

#include "checkpoint/trace/step_program.h"
#include "plimsoll/checkpoint/variant.h"

namespace plimsoll::module_stats {

// Activations and parameters are bfloat16, the loss and the norms' insides float32.
struct LlamaShape {
  std::string name;
  int layers = 0;
  Bytes hidden = 0;
  Bytes heads = 0;
  Bytes kv_heads = 0;
  Bytes ffn = 0;
  Bytes vocab = 128256;
};
LlamaShape llama_3_8b();
LlamaShape llama_3_70b();

// One training step of `batch` sequences of `sequence` tokens. Operators as transformers runs them,
// attention by the flash kernel with the causal mask inside it; cross-entropy outside the model.
checkpoint::StepProgram llama(const LlamaShape& shape, Bytes batch, Bytes sequence,
                              const checkpoint::Variant& variant = checkpoint::default_variant());

// The dense side of MLPerf's DLRM-DCNv2 (bottom MLP 13-512-256-128, 26 pooled embeddings of 128, a
// low-rank cross network of 3 layers and rank 512, top MLP 1024-1024-512-256-1), between whose
// cross network and top MLP `towers` towers of `depth` layers of `width` stand side by side. The
// embedding tables are another planner's: their outputs arrive, their gradients leave.
struct DlrmShape {
  int towers = 4;
  int depth = 8;
  Bytes width = 2048;
};
checkpoint::StepProgram dlrm_deep_towers(
    const DlrmShape& shape, Bytes batch,
    const checkpoint::Variant& variant = checkpoint::default_variant());

// The GPT of torch's own test of the planner, by default one of four layers with dropout: float32,
// tied embedding, memory-efficient attention.
struct GptShape {
  int layers = 4;
  Bytes dim = 768;
  Bytes heads = 12;
  Bytes vocab = 8192;
  bool dropout = true;
};
checkpoint::StepProgram gpt(const GptShape& shape, Bytes batch, Bytes sequence,
                            const checkpoint::Variant& variant = checkpoint::default_variant());

}  // namespace plimsoll::module_stats
