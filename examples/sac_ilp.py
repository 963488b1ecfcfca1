"""Automatic selective activation checkpointing of a GPT: profile a step, choose modules, choose operators.

    python examples/sac_ilp.py [BUDGET_GIB ...] [--print-tables] [--graphs]

What `sac_milp` and `get_optimal_checkpointing_policy_per_module` of torch.distributed._tools.sac_ilp do, on the model
of torch's own test of them: four blocks, 768 wide, 8 x 1,024 tokens, fp32, four ranks. Only the import of the planner
differs. No tensor is allocated and no GPU is needed: the step runs on fake tensors, and an operator takes the time that
an A100's roofline gives it.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker
from torch.distributed._tools.runtime_estimator import RuntimeEstimator
from torch.utils import _runtime_estimation

from plimsoll.checkpointing import (
    ModuleInfo,
    SACEstimator,
    aggregate_stats,
    display_bytes,
    get_optimal_checkpointing_policy_per_module,
    get_peak_memory_runtime_baseline,
    parse_module_info,
    sac_milp,
)

WORLD_SIZE = 4
A100_GB_PER_S = 1935.0
A100_TFLOPS = 19.5  # fp32


class Attention(nn.Module):
    """Causal self-attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.resid_dropout = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (w(x).view(batch, length, self.heads, -1).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.resid_dropout(self.wo(attended.transpose(1, 2).reshape(batch, length, width)))


class FeedForward(nn.Module):
    """Two layers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.w1, self.gelu, self.w2 = nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        self.resid_dropout = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.resid_dropout(self.w2(self.gelu(self.w1(x))))


class Block(nn.Module):
    """One layer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention_norm, self.attention = nn.LayerNorm(width), Attention(width, heads)
        self.ffn_norm, self.feed_forward = nn.LayerNorm(width), FeedForward(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.ffn_norm(x))


class Transformer(nn.Module):
    """A GPT."""

    def __init__(self, layers: int = 4, width: int = 768, heads: int = 12, vocabulary: int = 8192) -> None:
        super().__init__()
        self.tok_embeddings, self.pos_embeddings = nn.Embedding(vocabulary, width), nn.Embedding(1024, width)
        self.dropout = nn.Dropout(0.1)
        self.layers = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.output = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.dropout(self.tok_embeddings(tokens) + self.pos_embeddings(positions))
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))


@contextlib.contextmanager
def roofline(gb_per_s: float, tflops: float) -> Iterator[None]:
    """torch's cost model asks the GPU of this machine what it can do; within, it is told."""
    names = {"get_gpu_dram_gbps": lambda: gb_per_s, "get_device_tflops": lambda dtype: tflops}
    saved = {name: getattr(_runtime_estimation, name) for name in names}
    is_available = torch.cuda.is_available
    try:
        for name, value in names.items():
            setattr(_runtime_estimation, name, value)
        torch.cuda.is_available = lambda: True
        yield
    finally:
        torch.cuda.is_available = is_available
        for name, value in saved.items():
            setattr(_runtime_estimation, name, value)


def profile() -> tuple[ModuleInfo, SACEstimator]:
    """What torch's trackers record of a step."""
    with FakeTensorMode(), roofline(A100_GB_PER_S, A100_TFLOPS):
        model = Transformer()
        optimizer = torch.optim.Adam(model.parameters(), foreach=True)
        tokens = torch.randint(0, 8192, (8, 1024))

        def step() -> None:
            model(tokens).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

        memory = MemTracker()
        memory.track_external(model, optimizer)
        with memory:
            step()  # after the first step there is optimizer state
            memory.reset_mod_stats()
            step()
        times = RuntimeEstimator()
        with times("operator-level-cost-model"):
            step()
        operators = SACEstimator()
        with operators("operator-level-cost-model"):
            model(tokens)
    return aggregate_stats(model, memory, times, operators, torch.device("cpu")), operators


def main() -> None:
    """Plans for every budget."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("budgets", metavar="BUDGET_GIB", nargs="*", type=float, default=[2.4, 1.6, 0.8])
    parser.add_argument("--print-tables", action="store_true", help="operators and trade-off of every block")
    parser.add_argument("--graphs", action="store_true", help="pictures of the curves, in tradeoff_graphs")
    asked = parser.parse_args()

    module_info, operators = profile()
    graph = parse_module_info(module_info)
    if asked.print_tables:
        operators.display_modulewise_sac_stats(depth=3)
    if asked.graphs:
        operators.pwlf_sac_tradeoff_curve(save_tradeoff_graphs=True)
    peak, compute_ms = get_peak_memory_runtime_baseline(graph)
    print(f"without checkpointing, on one rank: {display_bytes(peak, 'GiB')}, {compute_ms:.2f} ms")

    for budget in asked.budgets:
        decisions, recompute_ms, peak = sac_milp(graph, memory_budget=budget, world_size=WORLD_SIZE)
        if peak < 0:
            print(f"{budget} GiB on each of {WORLD_SIZE} ranks: does not fit")
            continue
        print(f"{budget} GiB on each of {WORLD_SIZE} ranks: peak {display_bytes(peak, 'GiB')}, {recompute_ms} ms more")
        for fqn, discarded in decisions.items():
            stats = operators.sac_mod_stats[fqn]
            policy = get_optimal_checkpointing_policy_per_module(stats, 1 - discarded)
            kept = sum(bytes_ for bytes_, is_saved in zip(stats.memory, policy) if is_saved)
            print(
                f"  {fqn}: discard {discarded:.4f} of {display_bytes(sum(stats.memory))}; "
                f"save {sum(policy)} of {len(policy)} operators, {display_bytes(kept)}"
            )


if __name__ == "__main__":
    main()
