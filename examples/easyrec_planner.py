"""TorchEasyRec's planner with one import changed: planned, sharded and looked up on two gloo ranks.

Usage: python examples/easyrec_planner.py

First the set-up of TorchEasyRec's training: `create_planner` reads the machine and the environment, its plan is
TorchEasyRec's, and a bound says how far it is from the best; `search="balanced"` plans better where there is a better
plan. Then its dynamic program, in each of its three forms, in TorchRec's own planner for eight GPUs that need not be
here.
"""

from __future__ import annotations

import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
import torchrec
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
from torchrec.distributed.planner.proposers import UniformProposer
from torchrec.distributed.types import ShardingEnv

from plimsoll.torchrec import Planner
from plimsoll.torchrec.easyrec import (  # was: from tzrec.utils.plan_util import (
    DynamicProgrammingProposer,
    create_planner,
    get_default_sharders,
)

ROWS = [40_000, 25_000, 12_000, 9_000, 5_000, 1_200, 300, 40]
RANKS = 2
GIB = 2**30


def make_model(scale: int = 1) -> torch.nn.Module:
    """Tables of ids that are looked up and pooled."""
    return torchrec.EmbeddingBagCollection(
        device=torch.device("meta"),
        tables=[
            torchrec.EmbeddingBagConfig(
                name=f"table_{i}", num_embeddings=scale * rows, embedding_dim=32, feature_names=[f"feature_{i}"]
            )
            for i, rows in enumerate(ROWS)
        ],
    )


def run_rank(rank: int, port: int) -> None:
    """One rank of a training job, as torchrun starts it."""
    os.environ |= {
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": str(port),
        "RANK": str(rank),
        "LOCAL_WORLD_SIZE": str(RANKS),
    }
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    device, group = torch.device("cpu"), dist.GroupMember.WORLD
    model = make_model()
    sharders = get_default_sharders()
    plans = {}
    for search in ("torchrec", "balanced"):
        planner = create_planner(device=device, batch_size=512, model=model, search=search, stats=[])
        plans[search] = planner.collective_plan(model, sharders, group)
        if rank == 0:
            certificate = planner.certificate
            print(
                f"{search}: {planner.status}, rating {planner.times['rating']:.6g} ms, "
                f"no plan below {certificate.lower_bound:.6g} ms ({certificate.gap:.2%})"
            )
    sharded = DistributedModelParallel(
        model, env=ShardingEnv.from_process_group(group), plan=plans["balanced"], sharders=sharders, device=device
    )
    features = torchrec.KeyedJaggedTensor.from_lengths_sync(
        keys=[f"feature_{i}" for i in range(len(ROWS))],
        values=torch.arange(4 * len(ROWS)) % 40,
        lengths=torch.ones(4 * len(ROWS), dtype=torch.int64),
    )
    pooled = sharded(features).wait().to_dict()
    if rank == 0:
        print(plans["balanced"])
        print(f"pooled: {len(pooled)} features of {tuple(pooled['feature_0'].shape)}")
    dist.destroy_process_group()


def compare_forms() -> None:
    """The three forms in TorchRec's planner, and our bound on what any plan can reach."""
    topology = Topology(world_size=8, local_world_size=8, compute_device="cuda", hbm_cap=6 * GIB)
    model = make_model(scale=1000)
    for form in ("v1", "v2", "v3"):
        proposers = [DynamicProgrammingProposer(form=form, by_hbm=True), UniformProposer()]
        planner = EmbeddingShardingPlanner(topology=topology, batch_size=4096, proposer=proposers, stats=[])
        planner.plan(model, get_default_sharders())
        proved = Planner(topology=topology, batch_size=4096, proposer=proposers, stats=[])
        proved.plan(model, get_default_sharders())
        print(f"form {form}: {planner._num_proposals} proposals, {proved.certificate}")


def main() -> None:
    """Two ranks that train, then eight that are planned for."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    multiprocessing.start_processes(run_rank, args=(port,), nprocs=RANKS, start_method="fork")
    compare_forms()


if __name__ == "__main__":
    main()
