"""A budget in loops of one's own: plain, DistributedDataParallel, and FSDP2, on one process each.

Every loop trains a small GPT with and without a plan, and compares weights and peaks.
"""

import os
import tempfile
from typing import Callable

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.fsdp import fully_shard

from plimsoll import checkpointing as ck


class Block(nn.Module):
    """Attention and a perceptron."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[batch, length, width]."""
        q, k, v = (y.unflatten(-1, (4, -1)).transpose(1, 2) for y in self.qkv(self.norms[0](x)).chunk(3, -1))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2)
        x = x + self.dropout(self.out(attended))
        return x + self.dropout(self.mlp(self.norms[1](x)))


class GPT(nn.Module):
    """Logits of token ids; its embedding is its head."""

    def __init__(self, layers: int = 4, width: int = 64, vocabulary: int = 256) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """[batch, length] to [batch, length, vocabulary]."""
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def loss_of(logits: torch.Tensor) -> torch.Tensor:
    """The next token's cross entropy."""
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), batch[:, 1:].flatten())


def plain(model: GPT) -> nn.Module:
    """Nothing around it."""
    return model


def data_parallel(model: GPT) -> nn.Module:
    """Wrapped after the plan is applied."""
    return nn.parallel.DistributedDataParallel(model)


def sharded(model: GPT) -> nn.Module:
    """Sharded before the plan is made: the budget is that of a rank."""
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    return model


def train(wrap: Callable[[GPT], nn.Module], budget: str | None) -> tuple[nn.Module, int, ck.Plan | None]:
    """Three steps; the peak is that of the last."""
    torch.manual_seed(0)
    model, plan = GPT(), None
    if wrap is sharded:
        model = wrap(model)
    if budget:
        plan = ck.fit(model, batch, budget, loss=loss_of)
    if wrap is not sharded:
        model = wrap(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    peak = 0
    for _ in range(3):
        with ck.LiveBytes([*model.parameters(), batch]) as live:
            loss_of(model(batch)).backward()
        peak = live.peak
        optimizer.step()
        optimizer.zero_grad()
    return model, peak, plan


with tempfile.TemporaryDirectory() as folder:
    dist.init_process_group("gloo", init_method=f"file://{os.path.join(folder, 'store')}", rank=0, world_size=1)
    batch = torch.randint(0, 256, (8, 64), generator=torch.Generator().manual_seed(0))
    for wrap in (plain, data_parallel, sharded):
        (model, peak, _), (planned, planned_peak, plan) = train(wrap, None), train(wrap, "60%")
        print(f"{wrap.__name__}: measured {planned_peak / 2**20:.2f} MiB, {peak / 2**20:.2f} without a plan")
        print(plan)
        for a, b in zip(model.parameters(), planned.parameters()):
            a, b = (getattr(p, "to_local", lambda p=p: p)() for p in (a, b))
            assert torch.equal(a, b), "the weights are the same to the last bit"
        if wrap is not data_parallel:  # whose buckets come on top, as large as the gradients
            assert abs(planned_peak - plan.peak_bytes) <= 1024
    dist.destroy_process_group()
