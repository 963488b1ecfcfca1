"""Time that plans add to steps of GPT-2 and ViT on one thread: predicted by measured operators, and measured.

Usage: PYTHONPATH=build/python build/python-env/bin/python bench/checkpoint/extra_times.py [--quick]

transformers' models from configurations, two sizes each, plans for 90, 70 and 50 % of the peak. In each of three rounds
operators are measured anew, and then steps without and with every plan run by turns, three each, of which the first
does not count. Which of the two begins alternates from turn to turn. A plan runs in four turns of a round, and in more
if it adds less than a sixth of a step: in twice as many for half of that. What a plan adds is measured in its parts:
the time of the units' forwards, less that of the same modules in steps of the same turn without the plan, and the time
in which the backward asks checkpoint for saved tensors, running units again included. The difference of whole steps is
printed beside it: the mean of all turns without the highest and the lowest tenth, and its 90 % interval (percentiles of
2,000 bootstrap samples of the turns). All are processor time. Medians are printed of steps without a plan, of what a
plan adds in its parts, over all turns, and of what is predicted, over rounds; then the ratio of predicted to parts, its
range over rounds, and the ratio of predicted to whole steps, at both ends of the interval, too. The allocator (glibc)
returns no memory to the system, so that no step waits for fresh pages. With --quick the small GPT-2, one round of two
turns or more. Needs transformers.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import random
import statistics
import sys
import time
import warnings

import torch
import torch.utils.checkpoint
import transformers

from plimsoll import checkpointing as ck

TURNS, ROUNDS = (2, 1) if "--quick" in sys.argv else (4, 3)


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


class Spent:
    """Processor ms of some modules' forwards, and of what checkpoint does in the backward."""

    ms = 0.0

    @classmethod
    def within(cls, function):
        """The function, whose time counts."""

        def timed(*args, **kwargs):
            begin = time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                cls.ms += 1000 * (time.thread_time() - begin)

        return timed


class TimedHook(torch.utils.checkpoint._checkpoint_hook):
    """In the place of torch's: unpacking counts."""

    def __init__(self, frame):
        super().__init__(frame)
        self.unpack_hook = Spent.within(self.unpack_hook)


@contextlib.contextmanager
def parts_timed(model, fqns):
    """While it holds, the forwards of these modules count; checkpoint runs what is inside them again uncounted."""
    modules = [model.get_submodule(fqn) for fqn in fqns]
    before = [vars(module).get("forward") for module in modules]
    for module in modules:
        module.forward = Spent.within(module.forward)
    try:
        yield
    finally:
        for module, forward in zip(modules, before):
            del module.forward
            if forward is not None:
                module.forward = forward


def processor_ms(model, batch, fqns):
    """Of a step, and of the parts of it that a plan for these modules changes."""
    model.zero_grad(set_to_none=True)
    Spent.ms = 0.0
    with parts_timed(model, fqns):
        begin = time.thread_time()
        model(**batch).loss.backward()
        return 1000 * (time.thread_time() - begin), Spent.ms


def keep_memory():
    """From now on glibc keeps what is freed, tensors of any size included (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD)."""
    with contextlib.suppress(AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(-3, 1 << 30)
        libc.mallopt(-1, (1 << 31) - 1)


def run_round(model, batch, plans):
    """(ms of steps without a plan, what each plan adds by steps and by parts, and is predicted to add); makes `plans`
    if there are none."""
    stats = ck.profile(model, batch, times="measured")
    if not plans:
        for share in (0.9, 0.7, 0.5):
            with contextlib.suppress(ck.InfeasibleBudget):
                plans[share] = ck.plan(stats, share)
    told = [
        stats.replay.step({unit.fqn: frozenset(unit.keep) for unit in plan.units}).recompute_ms
        for plan in plans.values()
    ]
    turns = [round(TURNS * max(1.0, stats.step_ms / (6 * ms))) for ms in told]
    plain, added = [], [[] for _ in plans]
    gc.disable()
    for turn in range(max(turns)):
        for plan, count, rows in zip(plans.values(), turns, added):
            if turn * count % max(turns) < count:  # spread over the round
                fqns = [unit.fqn for unit in plan.units]
                steps = {}
                for is_planned in (False, True) if len(rows) % 2 == 0 else (True, False):
                    if is_planned:
                        ck.apply(model, plan)
                    steps[is_planned] = two_steps(model, batch, fqns)
                    ck.remove(model)
                plain.append(steps[False][0])
                rows.append([ms - less for ms, less in zip(steps[True], steps[False])])
        gc.collect()
    gc.enable()
    return plain, added, told


def two_steps(model, batch, fqns):
    """Means of two steps, after one, since the step before left other memory to the allocator."""
    steps = [processor_ms(model, batch, fqns) for _ in range(3)][1:]
    return [statistics.mean(column) for column in zip(*steps)]


def trimmed(values):
    """The mean without the highest and the lowest tenth."""
    cut = len(values) // 10
    return statistics.mean(sorted(values)[cut : len(values) - cut])


def interval(values):
    """90 % of the trimmed means of bootstrap samples."""
    rng = random.Random(0)
    means = sorted(trimmed(rng.choices(values, k=len(values))) for _ in range(2000))
    return means[99], means[1899]


def main():
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    keep_memory()
    torch.utils.checkpoint._checkpoint_hook = TimedHook
    print(
        "| model | step ms | plan for | adds ms | predicted ms | ratio | of rounds | by steps, 90 % interval | ratio |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for name, make in list(MODELS.items())[: 1 if "--quick" in sys.argv else None]:
        model, batch = make()
        model.train()
        model.config.use_cache = False
        plans = {}
        rounds = [run_round(model, batch, plans) for _ in range(ROUNDS)]
        step_ms = statistics.median(ms for steps, _, _ in rounds for ms in steps)
        for i, share in enumerate(plans):
            turns = [turn for _, added, _ in rounds for turn in added[i]]
            by_steps, extra = trimmed([turn[0] for turn in turns]), statistics.median(turn[1] for turn in turns)
            low, high = interval([turn[0] for turn in turns])
            told = statistics.median(row[2][i] for row in rounds)
            ratios = sorted(row[2][i] / statistics.median(turn[1] for turn in row[1][i]) for row in rounds)
            print(
                f"| {name} | {step_ms:.1f} | {share:.0%} | {extra:.2f} | {told:.2f} | {told / extra:.2f} "
                f"| {ratios[0]:.2f} to {ratios[-1]:.2f} | {by_steps:.2f} ({low:.2f} to {high:.2f}), {len(turns)} turns "
                f"| {told / by_steps:.2f} ({told / high:.2f} to {told / low:.2f}) |",
                flush=True,
            )


if __name__ == "__main__":
    main()
