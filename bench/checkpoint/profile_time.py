"""What it takes to profile and to plan a step of Llama-3-8B with 8,192 tokens on the meta device: time and memory.

Usage: PYTHONPATH=build/python build/python-env/bin/python bench/checkpoint/profile_time.py [--quick]

Needs transformers. With --quick the model has eight layers.
"""

from __future__ import annotations

import pathlib
import resource
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "python" / "checkpointing"))

import live_models

from plimsoll import checkpointing as ck

layers = 8 if "--quick" in sys.argv[1:] else 32
model, batch = live_models.llama_3_8b(layers)
before, begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
stats = ck.profile(model, batch)
profiled = time.process_time()
plan = ck.plan(stats, "70%")
planned = time.process_time()
grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20
print(
    f"{layers} layers, peak {stats.peak_bytes / 2**30:.1f} GiB: profiled in "
    f"{profiled - begin:.2f} s, planned within 70 % in {planned - profiled:.2f} s of processor time; "
    f"{grown:.2f} GiB of memory; gap {100 * plan.gap:.2f} %"
)
