"""How far does the slowest of two stages fall if a plan replaces halves of equally many layers?

Usage: PYTHONPATH=build/python build/python-env/bin/python bench/graphs/balanced_stages.py [--quick]

Two models whose layers differ: MLP blocks of width 256 to 2,048, and transformers' GPT-2, eight layers of 256 with a
vocabulary of 12,000; microbatches of 256 tokens. Operators are measured one by one on the CPU; from these times come
the plan and what it predicts. Then both stages of both splits run forward and backward in one process, by turns, and
the least processor time of each counts; and two processes with gloo train eight microbatches by torch's GPipe and 1F1B,
of which the least processor time of each process counts. With --quick few runs. Needs transformers.
"""

from __future__ import annotations

import copy
import pathlib
import sys
import time
import warnings

import torch
import transformers
from torch import nn
from torch.distributed.pipelining import Schedule1F1B, ScheduleGPipe

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/python"))
import ranks

from plimsoll import graphs

IS_QUICK = "--quick" in sys.argv
RUNS, STEPS = (4, 3) if IS_QUICK else (10, 6)
MICROBATCHES = 8
SCHEDULES = {"GPipe": ScheduleGPipe, "1F1B": Schedule1F1B}


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(256, width), nn.Linear(width, 256)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(x)))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block(256 * (i + 1)) for i in range(8))
        self.head = nn.Linear(256, 1000)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def gpt2():
    config = transformers.GPT2Config(
        vocab_size=12000, n_positions=128, n_embd=256, n_layer=8, n_head=4, bos_token_id=1, eos_token_id=2,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False,
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config)


def measure(splits, args):
    """The least processor time of every stage of every split, in ms."""
    least = [[float("inf")] * len(stages) for stages in splits]
    for _ in range(RUNS):
        for times, stages in zip(least, splits):
            given = args
            for i, stage in enumerate(stages):
                given = tuple(t.detach().requires_grad_(t.is_floating_point() and i > 0) for t in given)
                start = time.process_time()
                output = stage(*given)
                output.backward(torch.ones_like(output))
                times[i] = min(times[i], (time.process_time() - start) * 1000)
                given = (output,)
    return least


def loss_of(output, target):
    return nn.functional.cross_entropy(output.flatten(0, -2), target.flatten())


def run_schedules(rank, splits, args, targets):
    """The least processor ms of a step on this rank, of every schedule and split."""
    least = {}
    for name, kind in SCHEDULES.items():
        schedules = [kind(plan.pipeline_stage(stages[rank]), MICROBATCHES, loss_of) for plan, stages in splits]
        for _ in range(STEPS):
            for i, (plan, stages) in enumerate(splits):
                stages[rank].zero_grad()
                start = time.thread_time()
                schedules[i].step(*((args,) if rank == 0 else ()), **({"target": targets} if rank else {}))
                spent = (time.thread_time() - start) * 1000
                least[name, i] = min(spent, least.get((name, i), float("inf")))
                plan.sync_tied(stages[rank])
    return least


def main():
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for name, model, args, start, classes in (
        ("MLP", Mlp(), torch.randn(MICROBATCHES * 256, 256), "blocks.4", 1000),
        ("GPT-2", gpt2(), torch.randint(12000, (MICROBATCHES * 2, 128)), "transformer.h.4", 12000),
    ):
        one = (args[: len(args) // MICROBATCHES],)
        graph = graphs.capture(model, one, training=True, times="measured")
        plans = {
            "even": graphs.partition(graph, starts=[start], memory="64GiB"),
            "planned": graphs.partition(graph, 2, memory="64GiB"),
        }
        splits = [(plan, plan.split(copy.deepcopy(model))) for plan in plans.values()]
        times = measure([stages for _, stages in splits], one)
        for (what, plan), ms in zip(plans.items(), times):
            predicted = " / ".join(f"{stage.ms:.1f}" for stage in plan.stages)
            print(f"{name} {what:8} from {plan.split_start(1):16} predicted {predicted} ms, measured", end=" ")
            print(" / ".join(f"{one:.1f}" for one in ms), "ms")
        slowest = [max(stage.ms for stage in plan.stages) for plan in plans.values()]
        predicted = 1 - slowest[1] / slowest[0]
        measured = 1 - max(times[1]) / max(times[0])
        print(f"{name} slowest stage falls by {predicted:.1%} predicted, {measured:.1%} measured", flush=True)
        targets = torch.randint(classes, args.shape if name == "GPT-2" else (len(args),))
        told = ranks.run(2, run_schedules, splits, args, targets)
        for kind in SCHEDULES:
            even, planned = (max(rank[kind, i] for rank in told) for i in range(2))
            print(
                f"{name} {kind}: slowest process {even:.0f} ms of a step, {planned:.0f} planned: "
                f"falls by {predicted:.1%} predicted, {1 - planned / even:.1%} measured",
                flush=True,
            )


if __name__ == "__main__":
    main()
