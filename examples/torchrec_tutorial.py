"""TorchRec's sharding tutorial with Plimsoll's planner: four tables, one sharding type after another, two ranks on CPU.

Usage: python examples/torchrec_tutorial.py [WORLD_SIZE]

The tutorial's one changed line is `planner = ...`. Ranks are processes that talk by gloo; plans are made for them
(compute_device="cpu").
"""

from __future__ import annotations

import os
import socket
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
import torchrec
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.distributed.planner import Topology
from torchrec.distributed.planner.types import ParameterConstraints
from torchrec.distributed.types import ShardingEnv, ShardingType

import plimsoll.torchrec

LARGE_TABLES = [f"large_table_{i}" for i in range(2)]
SMALL_TABLES = [f"small_table_{i}" for i in range(2)]


def make_collection() -> torchrec.EmbeddingBagCollection:
    """Two tables of 4,096 rows and two of 1,024; on "meta" they take no memory yet."""
    return torchrec.EmbeddingBagCollection(
        device=torch.device("meta"),
        tables=[
            torchrec.EmbeddingBagConfig(
                name=name,
                embedding_dim=64,
                num_embeddings=4096 if name in LARGE_TABLES else 1024,
                feature_names=[f"{name}_feature"],
                pooling=torchrec.PoolingType.SUM,
            )
            for name in LARGE_TABLES + SMALL_TABLES
        ],
    )


class Sharder(EmbeddingBagCollectionSharder):
    """On CPU TorchRec's own sharder leaves out types that the runtime carries well."""

    def sharding_types(self, compute_device_type: str) -> list[str]:
        """All that the tutorial shows."""
        return [kind.value for kind in ShardingType]


def run_rank(rank: int, world_size: int, port: int, sharding_type: ShardingType) -> None:
    """One rank: plan together, shard, look up."""
    os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port), "LOCAL_WORLD_SIZE": str(world_size)}
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    module = make_collection()
    sharders = [Sharder()]
    planner = plimsoll.torchrec.Planner(
        topology=Topology(world_size=world_size, compute_device="cpu"),
        constraints={
            name: ParameterConstraints(sharding_types=[sharding_type.value]) for name in LARGE_TABLES + SMALL_TABLES
        },
        stats=[],
    )
    plan = planner.collective_plan(module, sharders, dist.GroupMember.WORLD)
    model = DistributedModelParallel(
        module,
        env=ShardingEnv.from_process_group(dist.GroupMember.WORLD),
        plan=plan,
        sharders=sharders,
        device=torch.device("cpu"),
    )
    features = torchrec.KeyedJaggedTensor.from_lengths_sync(
        keys=[f"{name}_feature" for name in LARGE_TABLES + SMALL_TABLES],
        values=torch.arange(8),
        lengths=torch.ones(8, dtype=torch.int64),
    )
    pooled = model(features).wait()
    if rank == 0:
        certificate = planner.certificate
        print(f"{sharding_type.value}: {planner.status}, {certificate.objective:.6g} ms, gap {certificate.gap:.2%}")
        print(plan)
        print(f"pooled: {tuple(pooled.values().shape)}\n")
    dist.destroy_process_group()


def main() -> None:
    """Every sharding type of the tutorial in turn."""
    world_size = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    for kind in (
        ShardingType.TABLE_WISE,
        ShardingType.ROW_WISE,
        ShardingType.COLUMN_WISE,
        ShardingType.DATA_PARALLEL,
    ):
        with socket.socket() as free:
            free.bind(("localhost", 0))
            port = free.getsockname()[1]
        multiprocessing.start_processes(run_rank, args=(world_size, port, kind), nprocs=world_size, start_method="fork")


if __name__ == "__main__":
    main()
