"""A DLRM trained for a hundred steps on click logs like Criteo's, sharded by Plimsoll's plan and not sharded at all.

Usage: python examples/dlrm.py [WORLD_SIZE [STEPS]]

Every rank trains on its own part of each batch; the unsharded model, on rank 0, sees the whole batch. Both start from
the same weights and must lose the same, step by step. The clicks are synthetic: ids are skewed, and the label follows
from one of them and from a dense feature. TorchRec's reader of Criteo (torchrec.datasets.criteo) could stand in
`make_batch`'s place.
"""

from __future__ import annotations

import os
import socket
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch.distributed.optim import _apply_optimizer_in_backward
from torchrec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.distributed.planner import Topology
from torchrec.distributed.types import ShardingEnv
from torchrec.models.dlrm import DLRM

import plimsoll.torchrec

ROWS = [40000, 30000, 20000, 12000, 6000, 2000, 500, 100]  # one table a categorical feature
FEATURES = [f"cat_{i}" for i in range(len(ROWS))]
DENSE_FEATURES = 13
DIMENSION = 32
BATCH_SIZE = 64  # of a rank
LEARNING_RATE = 0.5


def make_model(device: str) -> DLRM:
    """Bottom and top towers around an interaction of the embeddings."""
    bags = EmbeddingBagCollection(
        device=torch.device(device),
        tables=[
            EmbeddingBagConfig(name=f"t_{name}", embedding_dim=DIMENSION, num_embeddings=rows, feature_names=[name])
            for name, rows in zip(FEATURES, ROWS)
        ],
    )
    return DLRM(
        embedding_bag_collection=bags,
        dense_in_features=DENSE_FEATURES,
        dense_arch_layer_sizes=[64, DIMENSION],
        over_arch_layer_sizes=[64, 1],
        dense_device=torch.device("cpu"),
    )


def make_batch(rank: int, step: int) -> tuple[torch.Tensor, KeyedJaggedTensor, torch.Tensor]:
    """(dense features, ids, clicks) of one rank."""
    random = torch.Generator().manual_seed(100003 * step + rank)
    dense = torch.rand(BATCH_SIZE, DENSE_FEATURES, generator=random)
    columns = [(torch.rand(BATCH_SIZE, generator=random) ** 3 * rows).long() for rows in ROWS]
    clicks = ((columns[6] % 5 == 0) | (dense[:, 0] > 0.7)).float()
    ids = KeyedJaggedTensor.from_lengths_sync(
        keys=FEATURES,
        values=torch.cat(columns),
        lengths=torch.ones(len(ROWS) * BATCH_SIZE, dtype=torch.int64),
    )
    return dense, ids, clicks


def loss_of(model: torch.nn.Module, batch: tuple[torch.Tensor, KeyedJaggedTensor, torch.Tensor]) -> torch.Tensor:
    """Mean log-loss of the batch."""
    dense, ids, clicks = batch
    return torch.nn.functional.binary_cross_entropy_with_logits(model(dense, ids).squeeze(1), clicks)


def train(rank: int, world_size: int, steps: int) -> tuple[list[float], list[float]]:
    """Losses of the sharded and, on rank 0, of the unsharded model."""
    group = dist.GroupMember.WORLD
    torch.manual_seed(0)
    unsharded = make_model("cpu")

    model = make_model("meta")
    _apply_optimizer_in_backward(
        torch.optim.SGD, model.sparse_arch.parameters(), {"lr": LEARNING_RATE}
    )  # the tables' optimizer runs within backward
    sharders = [EmbeddingBagCollectionSharder()]
    planner = plimsoll.torchrec.Planner(
        topology=Topology(world_size=world_size, compute_device="cpu"), batch_size=BATCH_SIZE, stats=[]
    )
    plan = planner.collective_plan(model, sharders, group)
    if rank == 0:
        print(plan)
        print(planner.certificate)
    sharded = DistributedModelParallel(
        model,
        env=ShardingEnv.from_process_group(group),
        plan=plan,
        sharders=sharders,
        device=torch.device("cpu"),
    )
    sharded.load_state_dict(unsharded.state_dict())
    # The rest steps outside: towers, and tables that every rank holds.
    rest = [p for p in sharded.parameters() if not hasattr(p, "_in_backward_optimizers")]
    optimizer = torch.optim.SGD(unsharded.parameters(), lr=LEARNING_RATE)

    losses: list[float] = []
    expected: list[float] = []
    for step in range(steps):
        loss = loss_of(sharded, make_batch(rank, step))
        loss.backward()
        with torch.no_grad():
            for parameter in rest:
                if parameter.grad is not None:
                    parameter -= LEARNING_RATE * parameter.grad
        sharded.zero_grad()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(mean.item() / world_size)
        if rank == 0:
            optimizer.zero_grad()
            whole = sum(loss_of(unsharded, make_batch(r, step)) for r in range(world_size)) / world_size
            whole.backward()
            optimizer.step()
            expected.append(whole.item())
    return losses, expected


def run_rank(rank: int, world_size: int, port: int, steps: int) -> None:
    """One rank; rank 0 compares the losses."""
    os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port), "LOCAL_WORLD_SIZE": str(world_size)}
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    losses, expected = train(rank, world_size, steps)
    if rank == 0:
        worst = max(abs(a - b) for a, b in zip(losses, expected))
        print(f"{steps} steps: loss {losses[0]:.4f} to {losses[-1]:.4f}, unsharded {expected[-1]:.4f}")
        print(f"largest difference: {worst:.2g}")
        if worst > 1e-4 or losses[-1] >= losses[0]:
            sys.exit("the sharded model does not train as the unsharded one")
    dist.destroy_process_group()


def main() -> None:
    """Forks the ranks."""
    world_size = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    multiprocessing.start_processes(run_rank, args=(world_size, port, steps), nprocs=world_size, start_method="fork")


if __name__ == "__main__":
    main()
