"""How far does the slowest of two stages fall if a plan replaces halves of equally many layers?

Usage: PYTHONPATH=build/python build/python-env/bin/python bench/graphs/balanced_stages.py [--quick]

Two models whose layers differ: MLP blocks that become wider, and a GPT with a large vocabulary. Operators are measured
one by one on the CPU; from these times come the plan and what it predicts. Then both stages of both splits run forward
and backward in one process, by turns, and the least processor time of each counts. With --quick few runs.
"""

from __future__ import annotations

import sys
import time

import torch
from torch import nn

from plimsoll import graphs

RUNS = 2 if "--quick" in sys.argv else 10


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(256, 4 * width), nn.Linear(4 * width, 256)

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


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(12000, 256)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(256, 8, 1024, dropout=0.0, batch_first=True, norm_first=True) for _ in range(8)
        )
        self.norm, self.head = nn.LayerNorm(256), nn.Linear(256, 12000, bias=False)

    def forward(self, ids):
        x = self.tokens(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


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


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for name, model, args in (
        ("MLP", Mlp(), (torch.randn(256, 256),)),
        ("GPT", Gpt(), (torch.randint(12000, (2, 128)),)),
    ):
        graph = graphs.capture(model, args, training=True, times="measured")
        even = graphs.partition(graph, starts=["blocks.4"], memory="64GiB")
        best = graphs.partition(graph, 2, memory="64GiB")
        times = measure([even.split(model), best.split(model)], args)
        for what, plan, ms in (("even", even, times[0]), ("planned", best, times[1])):
            predicted = " / ".join(f"{stage.ms:.1f}" for stage in plan.stages)
            print(f"{name} {what:8} from {plan.split_start(1):10} predicted {predicted} ms, measured", end=" ")
            print(" / ".join(f"{one:.1f}" for one in ms), "ms")
        predicted = 1 - max(s.ms for s in best.stages) / max(s.ms for s in even.stages)
        print(
            f"{name} slowest stage falls by {predicted:.1%} predicted, {1 - max(times[1]) / max(times[0]):.1%} measured"
        )


if __name__ == "__main__":
    main()
