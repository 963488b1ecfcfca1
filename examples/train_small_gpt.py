"""Trains a small GPT in two pipeline stages, each checkpointed within a budget, beside the unsplit model.

    python train_small_gpt.py --steps 50 --budget 70%

Embedding and head are tied across the stages, which run in one process each. Every stage is profiled with the
microbatches that it has in flight under 1F1B. Prints predicted beside measured peaks and times of a step; the measured
peak holds what torch's schedule keeps as well, and the measured time is that of a process on its own processor without
waiting. Every loss must be that of the unsplit model.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.pipelining import Schedule1F1B

from plimsoll import checkpointing as ck
from plimsoll import graphs
from plimsoll.checkpointing._memory import LiveBytes

VOCABULARY, WIDTH, LENGTH, LAYERS = 512, 64, 64, 6
STAGES, MICROBATCHES, ROWS = 2, 4, 4  # rows of each microbatch


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (y.unflatten(-1, (4, -1)).transpose(1, 2) for y in self.qkv(self.norms[0](x)).chunk(3, -1))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).flatten(-2))
        return x + self.mlp(self.norms[1](x))


class Gpt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Parameter(torch.zeros(LENGTH, WIDTH))
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        nn.init.normal_(self.tokens.weight, std=0.02)
        self.head.weight = self.tokens.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids) + self.places
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def loss_of(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    loss = F.cross_entropy(output.flatten(0, 1), target.flatten())
    loss.output = output  # torch's schedule keeps it until the next microbatch, so a profile has to
    return loss


def make_model() -> Gpt:
    torch.manual_seed(0)
    return Gpt()


def make_batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Text of a small grammar: most tokens follow from the one before."""
    generator = torch.Generator().manual_seed(step)
    ids = torch.randint(VOCABULARY, (MICROBATCHES * ROWS, LENGTH + 1), generator=generator)
    for place in range(1, LENGTH + 1):
        follows = torch.rand(len(ids), generator=generator) < 0.9
        ids[:, place] = torch.where(follows, (5 * ids[:, place - 1] + 1) % VOCABULARY, ids[:, place])
    return ids[:, :-1], ids[:, 1:]


class Whole:
    """The unsplit model, trained alike."""

    def __init__(self) -> None:
        self.model = make_model()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-3)

    def step(self, ids: torch.Tensor, target: torch.Tensor) -> float:
        self.optimizer.zero_grad()
        loss = loss_of(self.model(ids), target)
        loss.backward()
        self.optimizer.step()
        return loss.item()


def plan_stages() -> graphs.Plan:
    """By times that are measured here; every process must plan alike, so the first one's times are for all."""
    ids = torch.zeros(ROWS, LENGTH, dtype=torch.long)
    graph = [graphs.capture(make_model(), (ids,), loss=loss_of, target=ids, times="measured")]
    told = [graph[0].nodes if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(told)
    graph[0].nodes[:] = told[0]
    return graphs.partition(graph[0], STAGES, on="h100-sxm", objective="pipeline", microbatches=MICROBATCHES)


def checkpoint_stage(plan: graphs.Plan, stage: nn.Module, budget: str) -> ck.Plan:
    """Within the budget, with the microbatches in flight under 1F1B; gradients are there from the second one on."""
    index = stage.meta["stage_index"]
    target = torch.zeros(ROWS, LENGTH, dtype=torch.long)
    is_last = index == STAGES - 1
    batch = tuple(
        torch.zeros_like(given, device="cpu", requires_grad=given.is_floating_point() and index > 0)
        for given in stage.meta["input_args"]
    )
    ends = (
        {"loss": lambda output: loss_of(output, target)}
        if is_last
        else {"gradients": tuple(torch.zeros_like(made, device="cpu") for made in stage.meta["output_args"])}
    )
    in_flight = STAGES - index
    return ck.fit(
        stage, batch, budget=budget, accumulate=True, times="measured", fake=False, in_flight=in_flight, **ends
    )


def kept_by_schedule(stage: nn.Module) -> int:
    """Buffers to receive into, one for each microbatch, and outputs of the last stage, which it returns at the end."""
    received = stage.meta["output_args" if stage.meta["stage_index"] == 0 else "input_args"]
    outputs = stage.meta["output_args"] if stage.meta["stage_index"] == STAGES - 1 else ()
    kept = MICROBATCHES * sum(tensor.nbytes for tensor in received)
    return kept + (MICROBATCHES - 1) * sum(tensor.nbytes for tensor in outputs)


def train(steps: int, budget: str) -> None:
    rank = dist.get_rank()
    plan = plan_stages()
    stage = plan.split(make_model())[rank]
    stage.requires_grad_(True)
    fitted = checkpoint_stage(plan, stage, budget)
    schedule = Schedule1F1B(plan.pipeline_stage(stage), MICROBATCHES, loss_fn=loss_of)
    optimizer = torch.optim.AdamW(stage.parameters(), lr=3e-3)
    whole = Whole() if rank == STAGES - 1 else None
    planned = plan.stages[rank]
    # A microbatch takes what the stage's operators take, and what checkpointing adds to one of those in flight.
    predicted = MICROBATCHES * (planned.ms - planned.transfer_ms + fitted.recompute_ms / (STAGES - rank))
    peaks, times = [], []
    for step in range(steps):
        ids, target = make_batch(step)
        for parameter in stage.parameters():
            parameter.grad = torch.zeros_like(parameter)
        gradients = [parameter.grad for parameter in stage.parameters()]
        losses: list[torch.Tensor] = []
        live = LiveBytes([*stage.parameters(), *stage.buffers(), ids, target, *gradients])
        start = time.thread_time()
        with live if step % 2 == 0 else contextlib.nullcontext():  # counting takes time
            if rank == 0:
                schedule.step(ids)
            else:
                schedule.step(target=target, losses=losses)
        if step % 2 == 0:
            peaks.append(live.peak)
        else:
            times.append(1000 * (time.thread_time() - start))
        plan.sync_tied(stage)
        optimizer.step()
        if whole is not None:
            own, expected = sum(loss.item() for loss in losses) / MICROBATCHES, whole.step(ids, target)
            if abs(own - expected) > 1e-4:
                raise AssertionError(f"step {step}: loss {own}, of the unsplit model {expected}")
            if step in (0, steps - 1):
                print(f"step {step}: loss {own:.4f}, of the unsplit model {expected:.4f}", flush=True)
    print(
        f"stage {rank}: peak {fitted.peak_bytes} B predicted ({fitted.baseline_bytes} B without checkpointing), "
        f"{max(peaks)} B measured, of these {kept_by_schedule(stage)} B by torch's schedule; "
        f"a step takes {predicted:.1f} ms predicted, {statistics.median(times):.1f} measured",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--budget", default="70%")
    asked = parser.parse_args()
    torch.multiprocessing.spawn(work, (asked.steps, asked.budget), nprocs=STAGES)


def work(rank: int, steps: int, budget: str) -> None:
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29577")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=STAGES)
    train(steps, budget)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
