"""Steps of DistributedModelParallel under our default plan and under TorchRec's own, on 2 gloo ranks.

Usage: PYTHONPATH=build/python build/python-env/bin/python bench/embedding/torchrec_steps.py [STEPS [STEP_MODEL]]

Without STEP_MODEL, a file of `step_charges.py`, our planner has its default charges.

Each plan is made into two modules, ours first, TorchRec's twice, ours again, since what is made first runs slower by
some percent; all live in the same processes, and their steps (forward, backward, the tables' optimizer) come in one
random order. Of every step the processor seconds of its slower rank count; printed are the 10th percentiles of each
plan (the mean of its two modules'), their ratio, and as noise how far two modules of one plan are apart.
"""

from __future__ import annotations

import functools
import json
import pathlib
import random
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "python"))

import cases
import ranks
import torch
import torch.distributed as dist
from torch.distributed.optim import _apply_optimizer_in_backward
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
from torchrec.distributed.planner.types import ParameterConstraints
from torchrec.distributed.types import ShardingEnv
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from plimsoll.options import STEP_MODEL
from plimsoll.torchrec import Planner

BATCH_SIZE = 512
# Tables as (rows, columns, ids a sample).
MODELS = {
    "heavy look-ups": [(200_000, 64, 20 + 4 * i) for i in range(10)],
    "wide outputs": [(100_000, 256, 1 + i % 2) for i in range(14)],
    "many small": [(2_000 + 400 * i, 32, 1 + i % 5) for i in range(44)],
    "one dominant": [(2_000_000, 128, 30), *[(50_000, 32, 2)] * 7],
}


def make(kind, tables):
    module = cases.bags([(f"t{i}", rows, columns) for i, (rows, columns, _) in enumerate(tables)])
    _apply_optimizer_in_backward(torch.optim.SGD, module.parameters(), {"lr": 0.01})
    planner = kind(
        topology=Topology(world_size=2, local_world_size=2, compute_device="cpu"),
        batch_size=BATCH_SIZE,
        constraints={f"t{i}": ParameterConstraints(pooling_factors=[float(ids)]) for i, (*_, ids) in enumerate(tables)},
        stats=[],
    )
    sharders = [EmbeddingBagCollectionSharder()]
    plan = planner.collective_plan(module, sharders, dist.group.WORLD)
    model = DistributedModelParallel(
        module,
        env=ShardingEnv.from_process_group(dist.group.WORLD),
        plan=plan,
        sharders=sharders,
        device=torch.device("cpu"),
    )
    types = [sharding.sharding_type for sharding in plan.plan[""].values()]
    return model, {kind: types.count(kind) for kind in sorted(set(types))}


def batch_of(tables, seed):
    generator = torch.Generator().manual_seed(seed)
    return KeyedJaggedTensor(
        keys=[f"f_t{i}" for i in range(len(tables))],
        values=torch.cat([torch.randint(0, r, (BATCH_SIZE * ids,), generator=generator) for r, _, ids in tables]),
        lengths=torch.cat([torch.full((BATCH_SIZE,), ids) for *_, ids in tables]),
    )


def run_steps(rank, tables, models, steps):
    """[(model, processor seconds)] of `steps` steps of every model, in one random order."""
    order = [i % len(models) for i in range(len(models) * steps)]
    random.Random(7).shuffle(order)
    batches = [batch_of(tables, 10 * i + rank) for i in range(4)]
    spent = []
    for step, which in enumerate([*range(len(models)), *order]):
        dist.barrier()
        begin = time.process_time()
        out = models[which](batches[step % 4]).wait()
        out.values().sum().backward()
        spent.append((which, time.process_time() - begin))
    return spent[len(models) :]


def low_ms(spent, num_models):
    """[10th percentile of the slower rank's processor time of each model], ms; `spent` of both ranks."""
    of = [[] for _ in range(num_models)]
    for (which, a), (_, b) in zip(*spent, strict=True):
        of[which].append(1000 * max(a, b))
    return [statistics.quantiles(values, n=10)[0] for values in of]


def work(rank, tables, steps, kinds):
    made = [make(kind, tables) for kind in kinds]
    return run_steps(rank, tables, [model for model, _ in made], steps), [types for _, types in made]


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    ours = Planner
    if len(sys.argv) > 2:
        charges = json.loads(pathlib.Path(sys.argv[2]).read_text())
        ours = functools.partial(Planner, step_model={name: charges[name] for name in STEP_MODEL})
    kinds = (ours, EmbeddingShardingPlanner, EmbeddingShardingPlanner, ours)
    print("| model | ours ms | TorchRec's ms | ratio | noise | ours | TorchRec's |")
    print("|---|---|---|---|---|---|---|")
    for name, tables in MODELS.items():
        (first, types), (second, _) = ranks.run(2, work, tables, steps, kinds)
        ms = low_ms((first, second), len(kinds))
        mine, own = (ms[0] + ms[3]) / 2, (ms[1] + ms[2]) / 2
        noise = max(abs(ms[0] / ms[3] - 1), abs(ms[1] / ms[2] - 1))
        print(
            f"| {name} | {mine:.2f} | {own:.2f} | {mine / own:.3f} | {noise:.3f}"
            f" | {types[0]} | {types[1]} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
