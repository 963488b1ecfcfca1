"""What it takes to profile and to plan a step of Llama-3-8B with 8,192 tokens on the meta device: time and memory.

Usage: PYTHONPATH=build/python build/python-env/bin/python bench/checkpoint/profile_time.py [--quick]

Needs transformers. With --quick the model has two layers.
"""

from __future__ import annotations

import resource
import sys
import time

import torch
import transformers

from plimsoll import checkpointing as ck

config = transformers.LlamaConfig(
    vocab_size=128256,
    hidden_size=4096,
    intermediate_size=14336,
    num_hidden_layers=2 if "--quick" in sys.argv[1:] else 32,
    num_attention_heads=32,
    num_key_value_heads=8,
    max_position_embeddings=8192,
)
with torch.device("meta"):
    model = transformers.LlamaForCausalLM(config).to(torch.bfloat16).train()
    ids = torch.zeros(1, 8192, dtype=torch.long)

before, begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
stats = ck.profile(model, {"input_ids": ids, "labels": ids})
profiled = time.process_time()
plan = ck.plan(stats, "70%")
planned = time.process_time()
grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20
print(
    f"{config.num_hidden_layers} layers, peak {stats.peak_bytes / 2**30:.1f} GiB: profiled in "
    f"{profiled - begin:.2f} s, planned within 70 % in {planned - profiled:.2f} s of processor time; "
    f"{grown:.2f} GiB of memory; gap {100 * plan.gap:.2f} %"
)
