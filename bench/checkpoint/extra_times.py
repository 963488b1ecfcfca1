"""Time that plans add to steps of GPT-2 and ViT on one thread: predicted by measured operators, and measured.

Usage: PYTHONPATH=build/python build/python-env/bin/python bench/checkpoint/extra_times.py [--quick]

transformers' models from configurations, two sizes each, plans for 90, 70 and 50 % of the peak. In each of three rounds
operators are measured anew, and then steps without and with every plan run by turns, three each, of which the first
does not count. Printed are, in processor milliseconds: the median of steps without a plan; what a plan adds, by the
difference to the steps of the same turn, the mean of the middle half of all turns; what is predicted that it adds, the
median of rounds; the ratio; and the ratios of rounds. The allocator (glibc) returns no memory to the system, so that no
step waits for fresh pages: plans differ in that by as much as they add. With --quick the small GPT-2, one round of two
turns. Needs transformers.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import statistics
import sys
import time
import warnings

import torch
import transformers

from plimsoll import checkpointing as ck

TURNS, ROUNDS = (2, 1) if "--quick" in sys.argv else (6, 3)


def gpt2(layers, width, heads, length):
    config = transformers.GPT2Config(
        vocab_size=4096, n_positions=length, n_embd=width, n_layer=layers, n_head=heads, bos_token_id=1, eos_token_id=2
    )
    ids = torch.randint(0, 4096, (4, length))
    return transformers.GPT2LMHeadModel(config), {"input_ids": ids, "labels": ids}


def vit(layers, width, heads, side):
    config = transformers.ViTConfig(
        hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=4 * width,
        image_size=side, patch_size=16, num_labels=100,
    )  # fmt: skip
    batch = {"pixel_values": torch.randn(4, 3, side, side), "labels": torch.randint(0, 100, (4,))}
    return transformers.ViTForImageClassification(config), batch


MODELS = {
    "GPT-2, 4 layers of 256": lambda: gpt2(4, 256, 4, 128),
    "GPT-2, 8 layers of 512": lambda: gpt2(8, 512, 8, 128),
    "ViT, 4 layers of 192": lambda: vit(4, 192, 3, 160),
    "ViT, 8 layers of 384": lambda: vit(8, 384, 6, 160),
}


def processor_ms(model, batch):
    model.zero_grad(set_to_none=True)
    begin = time.thread_time()
    model(**batch).loss.backward()
    return 1000 * (time.thread_time() - begin)


def keep_memory():
    """From now on glibc keeps what is freed, tensors of any size included (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD)."""
    with contextlib.suppress(AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(-3, 1 << 30)
        libc.mallopt(-1, (1 << 31) - 1)


def run_round(model, batch, plans):
    """(ms of steps without a plan, what each plan adds in each turn, what is predicted); makes `plans` if empty."""
    stats = ck.profile(model, batch, times="measured")
    if not plans:
        for share in (0.9, 0.7, 0.5):
            with contextlib.suppress(ck.InfeasibleBudget):
                plans[share] = ck.plan(stats, share)
    spent = {share: [] for share in (None, *plans)}
    gc.disable()
    for _ in range(TURNS):
        for share, times in spent.items():
            if share is not None:
                ck.apply(model, plans[share])
            processor_ms(model, batch)  # the step before left other memory to the allocator
            times.append(statistics.mean(processor_ms(model, batch) for _ in range(2)))
            ck.remove(model)
            model.config.use_cache = False
        gc.collect()
    gc.enable()
    told = [
        stats.replay.step({unit.fqn: frozenset(unit.keep) for unit in plan.units}).recompute_ms
        for plan in plans.values()
    ]
    return spent[None], [[ms - least for ms, least in zip(spent[share], spent[None])] for share in plans], told


def middle(values):
    """The mean of the middle half."""
    values = sorted(values)
    cut = len(values) // 4
    return statistics.mean(values[cut : len(values) - cut])


def main():
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    keep_memory()
    print("| model | step ms | plan for | adds ms | predicted ms | ratio | of rounds |")
    print("|---|---|---|---|---|---|---|")
    for name, make in list(MODELS.items())[: 1 if "--quick" in sys.argv else None]:
        model, batch = make()
        model.train()
        model.config.use_cache = False
        plans = {}
        rounds = [run_round(model, batch, plans) for _ in range(ROUNDS)]
        step_ms = statistics.median(ms for steps, _, _ in rounds for ms in steps)
        for i, share in enumerate(plans):
            extra = middle([ms for row in rounds for ms in row[1][i]])
            told = statistics.median(row[2][i] for row in rounds)
            ratios = sorted(row[2][i] / middle(row[1][i]) for row in rounds)
            print(
                f"| {name} | {step_ms:.1f} | {share:.0%} | {extra:.2f} | {told:.2f} "
                f"| {told / extra:.2f} | {ratios[0]:.2f} to {ratios[-1]:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
