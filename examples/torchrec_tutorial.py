"""TorchRec's tutorial "Exploring TorchRec sharding" with Plimsoll's planner, on as many processes as there are ranks.

Usage: python examples/torchrec_tutorial.py [--backend gloo|nccl]

Four tables are sharded by one type after another: table-wise, row-wise, column-wise and data-parallel on two ranks,
then table-row-wise, table-column-wise and grid on two hosts of two ranks each. Every rank prints the plan, trains five
steps, and compares its outputs, before and after each, with those of the unsharded model. The tutorial's one changed
line is `planner = ...`.

With gloo all runs on the CPU; with nccl each rank has a GPU of its own, and the two hosts are both this one.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
import torchrec
from torch.distributed.optim import _apply_optimizer_in_backward
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.distributed.planner import Topology
from torchrec.distributed.planner.types import ParameterConstraints
from torchrec.distributed.types import ShardingEnv, ShardingType

import plimsoll.torchrec

LARGE_TABLES = {f"large_table_{i}": 4096 for i in range(2)}  # rows
SMALL_TABLES = {f"small_table_{i}": 1024 for i in range(2)}
TABLES = LARGE_TABLES | SMALL_TABLES
DIMENSION = 64
BATCH_SIZE = 8  # of a rank
STEPS = 5
LEARNING_RATE = 0.1

ON_TWO_RANKS = [
    ShardingType.TABLE_WISE,
    ShardingType.ROW_WISE,
    ShardingType.COLUMN_WISE,
    ShardingType.DATA_PARALLEL,
]
ON_TWO_HOSTS = [ShardingType.TABLE_ROW_WISE, ShardingType.TABLE_COLUMN_WISE, ShardingType.GRID_SHARD]


def make_collection(device: str) -> torchrec.EmbeddingBagCollection:
    """Two large and two small tables; on "meta" they take no memory yet."""
    return torchrec.EmbeddingBagCollection(
        device=torch.device(device),
        tables=[
            torchrec.EmbeddingBagConfig(
                name=name,
                embedding_dim=DIMENSION,
                num_embeddings=rows,
                feature_names=[f"{name}_feature"],
                pooling=torchrec.PoolingType.SUM,
            )
            for name, rows in TABLES.items()
        ],
    )


def gen_constraints(sharding_type: ShardingType) -> dict[str, ParameterConstraints]:
    """One type for all tables. TorchRec cuts columns into blocks of at least 128 unless `min_partition` says less."""
    return {
        name: ParameterConstraints(sharding_types=[sharding_type.value], min_partition=DIMENSION // 2)
        for name in TABLES
    }


class Sharder(EmbeddingBagCollectionSharder):
    """On CPU TorchRec's own sharder leaves out types that the runtime carries well."""

    def sharding_types(self, compute_device_type: str) -> list[str]:
        """All that the tutorial shows."""
        return [kind.value for kind in ShardingType]


def make_features(rank: int, step: int, device: torch.device) -> torchrec.KeyedJaggedTensor:
    """Bags of up to four ids for every feature."""
    random = torch.Generator().manual_seed(1000 * step + rank)
    lengths = torch.randint(0, 5, (len(TABLES), BATCH_SIZE), generator=random)
    values = [
        torch.randint(0, rows, (int(of_table.sum()),), generator=random)
        for rows, of_table in zip(TABLES.values(), lengths)
    ]
    return torchrec.KeyedJaggedTensor(
        keys=[f"{name}_feature" for name in TABLES], values=torch.cat(values), lengths=lengths.flatten()
    ).to(device)


def loss_of(pooled: dict[str, torch.Tensor]) -> torch.Tensor:
    """A number that every output moves."""
    return sum((pooled[key] ** 2 + pooled[key]).sum() for key in sorted(pooled)) / BATCH_SIZE


def train_beside_unsharded(model: DistributedModelParallel, rank: int, world_size: int, device: torch.device) -> float:
    """Five steps of both; the largest difference of their outputs and weights, from the first forward on.

    Every rank looks its own batch up. The unsharded model sees the batches of all, and its loss is the mean of theirs.
    """
    torch.manual_seed(0)
    whole = make_collection(str(device))
    model.load_state_dict(whole.state_dict())
    outside = [p for p in model.parameters() if not hasattr(p, "_in_backward_optimizers")]  # of data-parallel tables
    differences = []
    for step in range(STEPS):
        pooled = model(make_features(rank, step, device)).wait().to_dict()
        expected = [whole(make_features(r, step, device)).to_dict() for r in range(world_size)]
        differences += [float((pooled[key] - expected[rank][key]).abs().max()) for key in pooled]
        loss_of(pooled).backward()
        whole.zero_grad()
        (sum(map(loss_of, expected)) / world_size).backward()
        with torch.no_grad():
            for parameter in [*outside, *whole.parameters()]:
                if parameter.grad is not None:
                    parameter -= LEARNING_RATE * parameter.grad
        model.zero_grad()
    features = make_features(rank, STEPS, device)
    pooled, expected_pooled = model(features).wait().to_dict(), whole(features).to_dict()
    return max(*differences, *(float((pooled[key] - expected_pooled[key]).abs().max()) for key in pooled))


def in_turn(rank: int, world_size: int, text: str) -> None:
    """Prints the text of every rank, one after another."""
    for turn in range(world_size):
        if turn == rank:
            print(text, flush=True)
        dist.barrier()


def shard_and_train(rank: int, world_size: int, sharding_type: ShardingType, device: torch.device) -> None:
    """Plans together, shards, prints the plan, trains."""
    group = dist.GroupMember.WORLD
    module = make_collection("meta")
    _apply_optimizer_in_backward(torch.optim.SGD, module.parameters(), {"lr": LEARNING_RATE})
    sharders = [Sharder()]
    planner = plimsoll.torchrec.Planner(  # was: EmbeddingShardingPlanner(
        topology=Topology(
            world_size=world_size, local_world_size=int(os.environ["LOCAL_WORLD_SIZE"]), compute_device=device.type
        ),
        constraints=gen_constraints(sharding_type),
        batch_size=BATCH_SIZE,
        stats=[],
    )
    plan = planner.collective_plan(module, sharders, group)
    model = DistributedModelParallel(
        module, env=ShardingEnv.from_process_group(group), plan=plan, sharders=sharders, device=device
    )
    in_turn(rank, world_size, f"rank:{rank},sharding plan: {plan.plan}")
    difference = train_beside_unsharded(model, rank, world_size, device)
    worst = torch.tensor(difference, device=device)
    dist.all_reduce(worst, dist.ReduceOp.MAX)
    if rank == 0:
        certificate = planner.certificate
        print(
            f"{sharding_type.value}: {planner.status}, {certificate.objective:.6g} ms, gap {certificate.gap:.2%}; "
            f"{STEPS} steps as unsharded, largest difference {worst.item():.2g}\n",
            flush=True,
        )
    if worst.item() > 1e-5:
        sys.exit("the sharded model does not train as the unsharded one")


def run_rank(rank: int, world_size: int, ranks_per_host: int, port: int, backend: str, types: list[str]) -> None:
    """One rank's whole program."""
    os.environ |= {
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": str(port),
        "LOCAL_WORLD_SIZE": str(ranks_per_host),  # how TorchRec knows the hosts
        "LOCAL_RANK": str(rank % ranks_per_host),
        "TORCHREC_RESOLVED_POD_SIZE": "1",
    }
    torch.set_num_threads(1)
    device = torch.device(f"cuda:{rank}") if backend == "nccl" else torch.device("cpu")
    if backend == "nccl":
        torch.cuda.set_device(device)
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    for kind in types:
        shard_and_train(rank, world_size, ShardingType(kind), device)
    dist.destroy_process_group()


def spmd_sharding_simulation(types: list[ShardingType], world_size: int, ranks_per_host: int, backend: str) -> None:
    """Starts the ranks, and waits for them."""
    if backend == "nccl" and torch.cuda.device_count() < world_size:
        names = ", ".join(kind.value for kind in types)
        print(f"left out, {world_size} GPUs are needed: {names}")
        return
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    multiprocessing.start_processes(
        run_rank,
        args=(world_size, ranks_per_host, port, backend, [kind.value for kind in types]),
        nprocs=world_size,
        start_method="spawn" if backend == "nccl" else "fork",  # CUDA does not survive a fork
    )


def main() -> None:
    """Every sharding type in turn."""
    parser = argparse.ArgumentParser(description="Every sharding type of TorchRec, trained beside the unsharded model")
    parser.add_argument("--backend", choices=["gloo", "nccl"], default="gloo")
    backend = parser.parse_args().backend
    spmd_sharding_simulation(ON_TWO_RANKS, world_size=2, ranks_per_host=2, backend=backend)
    spmd_sharding_simulation(ON_TWO_HOSTS, world_size=4, ranks_per_host=2, backend=backend)


if __name__ == "__main__":
    main()
