"""Measures whole steps of TorchRec's DistributedModelParallel under random plans, on every rank of a job."""

from __future__ import annotations

import copy
import random
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.optim import (
    _apply_optimizer_in_backward as apply_optimizer_in_backward,
)
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
from torchrec.distributed.planner.planners import to_sharding_plan
from torchrec.distributed.planner.types import ParameterConstraints, ShardingOption
from torchrec.distributed.types import ShardingType
from torchrec.modules.embedding_configs import EmbeddingBagConfig
from torchrec.modules.embedding_modules import EmbeddingBagCollection
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from plimsoll.calibration._clock import Window, summarize, synchronizer
from plimsoll.calibration._forms import Shard, kernel_variables

BATCH_SIZE = 512
BATCHES = 4
# Tables as (rows, columns, ids a sample): models that differ in the number of tables and in what dominates their steps.
MODELS: dict[str, list[tuple[int, int, int]]] = {
    "middle": [(4_000 * (1 + 3 * i % 29), 32 + 32 * (i % 2), 2 + 7 * i % 18) for i in range(20)],
    "narrow": [(2_000 + 9_000 * (5 * i % 29), 16, 1 + 11 * i % 30) for i in range(30)],
    "broad": [(8_000 * (1 + i), 128 + 64 * (i % 2), 1 + 3 * i % 10) for i in range(8)],
    "pair": [(300_000, 64, 40), (200_000, 128, 20), *[(5_000 + 4_000 * i, 32, 1 + i % 4) for i in range(12)]],
    "few": [(40_000 * (1 + i), 64 + 64 * (i % 2), 5 + 8 * i) for i in range(5)],
    "many": [(500 + 800 * i, 16 << i % 3, 1 + i % 3) for i in range(60)],
}
# Shares of the sharding types in a plan.
STYLES: list[dict[str, int]] = [
    {"table_wise": 1},
    {"table_wise": 1},
    {"table_wise": 1},
    {"column_wise": 1},
    {"row_wise": 1},
    {"data_parallel": 1},
    {"table_wise": 1, "column_wise": 1, "row_wise": 1, "data_parallel": 1},
    {"table_wise": 17, "row_wise": 3},
    {"table_wise": 7, "column_wise": 3},
]


class Sharder(EmbeddingBagCollectionSharder):
    """All types that the runtime carries: on CPU the sharder's own list is shorter."""

    def sharding_types(self, compute_device_type: str) -> list[str]:
        return [kind.value for kind in ShardingType]


def make_module(tables: list[tuple[int, int, int]]) -> EmbeddingBagCollection:
    module = EmbeddingBagCollection(
        tables=[
            EmbeddingBagConfig(name=f"t{i}", num_embeddings=rows, embedding_dim=columns, feature_names=[f"f{i}"])
            for i, (rows, columns, _) in enumerate(tables)
        ],
        device=torch.device("meta"),
    )
    apply_optimizer_in_backward(torch.optim.SGD, module.parameters(), {"lr": 0.01})
    return module


def make_topology(ranks: int, device: str) -> Topology:
    return Topology(world_size=ranks, local_world_size=ranks, compute_device=device)


def table_options(tables: list[tuple[int, int, int]], topology: Topology) -> list[dict[str, ShardingOption]]:
    """Of each table by sharding type, the option of the kernel that the runtime carries."""
    planner = EmbeddingShardingPlanner(
        topology=topology,
        batch_size=BATCH_SIZE,
        constraints={
            f"t{i}": ParameterConstraints(pooling_factors=[float(ids)], min_partition=columns // 2)
            for i, (_, columns, ids) in enumerate(tables)
        },
    )
    found: dict[str, dict[str, ShardingOption]] = {f"t{i}": {} for i in range(len(tables))}
    for option in planner._enumerator.enumerate(make_module(tables), [Sharder()]):  # type: ignore[list-item]
        if option.compute_kernel == ("dense" if option.sharding_type == "data_parallel" else "fused"):
            found[option.name].setdefault(option.sharding_type, option)
    return list(found.values())


def draw_plan(
    options: list[dict[str, ShardingOption]], style: dict[str, int], ranks: int, draw: random.Random
) -> list[ShardingOption]:
    plan = []
    for types in options:
        name = draw.choices(list(style), list(style.values()))[0]
        option = copy.deepcopy(types[name])
        for i, shard in enumerate(option.shards):
            shard.rank = draw.randrange(ranks) if name == "table_wise" else i % ranks
        plan.append(option)
    return plan


def variables_of(plan: list[ShardingOption], tables: list[tuple[int, int, int]], ranks: int) -> dict[str, Any]:
    """What the forms of docs/formats.md#machine multiply, and TorchRec's own figures."""
    groups: dict[tuple[int, str], list[Shard]] = {}
    own = np.zeros((2, ranks))
    outputs, shards_of = np.zeros(ranks), np.zeros(ranks)
    for option, (rows, _, ids) in zip(plan, tables):
        kind = option.sharding_type
        samples = BATCH_SIZE * (1 if kind == "data_parallel" else ranks)
        for shard in option.shards:
            rank, perf = shard.rank, shard.perf
            assert rank is not None and perf is not None
            own[:, rank] += [
                perf.fwd_compute + perf.bwd_compute + perf.prefetch_compute,
                perf.fwd_comms + perf.bwd_comms,
            ]
            share = shard.size[0] / rows if kind == "row_wise" else 1.0
            groups.setdefault((rank, kind), []).append(
                Shard(shard.size[0], shard.size[1], 4, ids * samples * share, samples)
            )
            outputs[rank] += 4 * samples * shard.size[1]
            shards_of[rank] += 1
    return {
        "groups": [
            {"rank": rank, "sharding_type": kind, **kernel_variables(shards)}
            for (rank, kind), shards in sorted(groups.items())
        ],
        "sharding_types": len({kind for _, kind in groups}),
        "output_bytes": float(outputs.max()),
        "tables": float(shards_of.max()),
        "torchrec_kernel_ms": float(own[0].max()),
        "torchrec_collective_ms": float(own[1].max()),
    }


def _batch(tables: list[tuple[int, int, int]], seed: int, device: torch.device) -> KeyedJaggedTensor:
    generator = torch.Generator().manual_seed(seed)
    return KeyedJaggedTensor(
        keys=[f"f{i}" for i in range(len(tables))],
        values=torch.cat([torch.randint(0, rows, (BATCH_SIZE * ids,), generator=generator) for rows, _, ids in tables]),
        lengths=torch.cat([torch.full((BATCH_SIZE,), ids) for *_, ids in tables]),
    ).to(device)


def measure_plans(
    rank: int,
    ranks: int,
    device: torch.device,
    models: list[str],
    seed: int,
    seconds: float,
    styles: int = len(STYLES),
) -> Iterator[dict[str, Any]]:
    """{"model", "plans": a point for each style}: steps in one random order, at least 10 of each plan."""
    for name in models:
        yield {"model": name, "plans": _measure_model(name, rank, ranks, device, seed, seconds, styles)}


def _measure_model(
    name: str, rank: int, ranks: int, device: torch.device, seed: int, seconds: float, styles: int
) -> list[dict[str, Any]]:
    tables = MODELS[name]
    draw = random.Random(f"{seed} {name}")
    topology = make_topology(ranks, device.type)
    options = table_options(tables, topology)
    plans = [draw_plan(options, style, ranks, draw) for style in STYLES[:styles]]
    modules = [
        DistributedModelParallel(
            make_module(tables),
            device=device,
            plan=to_sharding_plan(plan, topology),
            sharders=[Sharder()],  # type: ignore[list-item]
        )
        for plan in plans
    ]
    batches = [_batch(tables, 1000 * seed + 10 * i + rank, device) for i in range(BATCHES)]
    synchronize = synchronizer(device)

    def step(which: int, number: int) -> tuple[float, float]:
        """Seconds on the clock and of the processor."""
        dist.barrier()
        begin, begin_cpu = time.perf_counter(), time.process_time()
        modules[which](batches[number % BATCHES]).wait().values().sum().backward()
        synchronize()
        return time.perf_counter() - begin, time.process_time() - begin_cpu

    for which in range(len(modules)):
        step(which, which)
    begin = time.perf_counter()
    for which in range(len(modules)):
        step(which, which + 1)
    spent = torch.tensor([time.perf_counter() - begin], device=device)
    dist.all_reduce(spent, dist.ReduceOp.MAX)
    rounds = min(100, max(10, int(seconds / float(spent))))
    order = [which for which in range(len(modules)) for _ in range(rounds)]
    draw.shuffle(order)
    window, own = Window(), time.process_time()
    times = [step(which, number) for number, which in enumerate(order)]
    answers: list[Any] = [None] * ranks
    dist.all_gather_object(answers, (times, time.process_time() - own))
    foreign = window.foreign(sum(answer[1] for i, answer in enumerate(answers) if i != rank))
    points = []
    for which, plan in enumerate(plans):
        mine = [number for number, chosen in enumerate(order) if chosen == which]
        clock = [max(answer[0][number][0] for answer in answers) for number in mine]
        sample = summarize(clock, clock, foreign).document()
        sample["cpu_ms"] = max(
            float(np.quantile([answer[0][number][1] for number in mine], 0.1)) * 1e3 for answer in answers
        )
        half = len(clock) // 2
        sample["halves_ms"] = [float(np.quantile(part, 0.1)) * 1e3 for part in (clock[:half], clock[half:])]
        points.append({"model": name, "plan": which, **variables_of(plan, tables, ranks), **sample})
    return points
