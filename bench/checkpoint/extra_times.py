"""Time that plans add to steps of GPT-2 and ViT on one thread: predicted by measured operators, and measured.

Usage: PYTHONPATH=build/python build/python-env/bin/python bench/checkpoint/extra_times.py [--quick]

transformers' models from configurations, two sizes each, plans for 90, 70 and 50 % of the peak. In each of five rounds
operators are measured anew, and then steps without and with every plan run by turns, twice each, of which the second
counts. Printed are medians over the rounds in processor milliseconds: of a step without a plan (the second least of
five), what a plan adds, what is predicted that it adds, and their ratio; and the range of the ratios of rounds. With
--quick the small GPT-2 and one round. Needs transformers.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import time
import warnings

import torch
import transformers

from plimsoll import checkpointing as ck

TURNS, ROUNDS = 5, 1 if "--quick" in sys.argv else 5


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


def run_round(model, batch, plans):
    """(ms of a step, what each plan adds, what is predicted that it adds); makes `plans` if it is empty."""
    stats = ck.profile(model, batch, times="measured")
    if not plans:
        for share in (0.9, 0.7, 0.5):
            with contextlib.suppress(ck.InfeasibleBudget):
                plans[share] = ck.plan(stats, share)
    spent = {share: [] for share in (None, *plans)}
    for _ in range(TURNS):
        for share, times in spent.items():
            if share is not None:
                ck.apply(model, plans[share])
            processor_ms(model, batch)  # the step before left other memory to the allocator
            times.append(processor_ms(model, batch))
            ck.remove(model)
            model.config.use_cache = False
    least = {share: sorted(times)[1] for share, times in spent.items()}
    told = [
        stats.replay.step({unit.fqn: frozenset(unit.keep) for unit in plan.units}).recompute_ms
        for plan in plans.values()
    ]
    return least[None], [least[share] - least[None] for share in plans], told


def main():
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print("| model | step ms | plan for | adds ms | predicted ms | ratio | of rounds |")
    print("|---|---|---|---|---|---|---|")
    for name, make in list(MODELS.items())[: 1 if "--quick" in sys.argv else None]:
        model, batch = make()
        model.train()
        model.config.use_cache = False
        plans = {}
        rounds = [run_round(model, batch, plans) for _ in range(ROUNDS)]
        step_ms = statistics.median(ms for ms, _, _ in rounds)
        for i, share in enumerate(plans):
            extra, told = (statistics.median(row[kind][i] for row in rounds) for kind in (1, 2))
            ratios = sorted(row[2][i] / row[1][i] for row in rounds)
            print(
                f"| {name} | {step_ms:.1f} | {share:.0%} | {extra:.2f} | {told:.2f} "
                f"| {told / extra:.2f} | {ratios[0]:.2f} to {ratios[-1]:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
