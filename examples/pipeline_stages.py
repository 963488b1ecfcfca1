"""Trains a GPT, its embedding and head tied, in pipeline stages, one process each, beside the unsplit model.

    python pipeline_stages.py --stages 2 --schedule 1f1b
    torchrun --nproc-per-node 4 pipeline_stages.py --stages 4 --schedule gpipe

Every process captures the model without weights and plans alike, so nothing but activations and gradients travels.
"""

from __future__ import annotations

import argparse
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.pipelining import Schedule1F1B, ScheduleGPipe

from plimsoll import graphs

VOCABULARY, WIDTH, LENGTH, LAYERS = 512, 64, 32, 6
MICROBATCHES, ROWS, STEPS = 4, 2, 5  # rows of each microbatch
SCHEDULES = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}


class Gpt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(LAYERS)
        )
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        nn.init.normal_(self.tokens.weight, std=0.02)
        self.head.weight = self.tokens.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1], device=ids.device)
        x = self.tokens(ids)
        for block in self.blocks:
            x = block(x, src_mask=mask, is_causal=True)
        return self.head(self.norm(x))


def loss_of(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(output.flatten(0, 1), target.flatten())


def plan_stages(stages: int) -> graphs.Plan:
    with torch.device("meta"):
        model = Gpt()
    ids = torch.zeros(ROWS, LENGTH, dtype=torch.long)
    graph = graphs.capture(model, (ids,), loss=loss_of, target=ids)
    return graphs.partition(graph, stages, on="h100-sxm", objective="pipeline", microbatches=MICROBATCHES)


def make_batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.randint(VOCABULARY, (MICROBATCHES * ROWS, LENGTH + 1), generator=torch.Generator().manual_seed(step))
    return ids[:, :-1], ids[:, 1:]


def train_whole(steps: int) -> list[float]:
    torch.manual_seed(0)
    model = Gpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for step in range(steps):
        ids, target = make_batch(step)
        optimizer.zero_grad()
        loss = loss_of(model(ids), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def train_stage(rank: int, options: argparse.Namespace) -> None:
    if "RANK" not in os.environ:
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "RANK": str(rank), "WORLD_SIZE": str(options.stages)}
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    plan = plan_stages(options.stages)
    torch.manual_seed(0)
    module = plan.split(Gpt())[rank]
    schedule = SCHEDULES[options.schedule](plan.pipeline_stage(module), MICROBATCHES, loss_fn=loss_of)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
    if rank == 0:
        print(plan)
    last = options.stages - 1
    expected = train_whole(STEPS) if rank == last else []
    for step in range(STEPS):
        ids, target = make_batch(step)
        losses = []
        optimizer.zero_grad()
        schedule.step(*((ids,) if rank == 0 else ()), **({"target": target, "losses": losses} if rank == last else {}))
        plan.sync_tied(module)
        optimizer.step()
        if rank == last:
            loss = torch.stack(losses).mean().item()
            print(f"step {step}: loss {loss:.5f}, unsplit {expected[step]:.5f}, apart {abs(loss - expected[step]):.1e}")
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--stages", type=int, default=2)
    parser.add_argument("--schedule", choices=SCHEDULES, default="1f1b")
    options = parser.parse_args()
    if "RANK" in os.environ:  # torchrun
        train_stage(int(os.environ["RANK"]), options)
    else:
        os.environ.setdefault("MASTER_PORT", "29511")
        torch.multiprocessing.spawn(train_stage, (options,), options.stages)


if __name__ == "__main__":
    main()
