"""Steps of DistributedModelParallel under our default plan and under TorchRec's own, on 2 gloo ranks.

Usage: PYTHONPATH=build/python build/python-env/bin/python bench/embedding/torchrec_steps.py
           [STEPS [MODEL]] [--quick]

MODEL is what our planner predicts with: a machine document of `plimsoll calibrate`, or a step model of
`step_charges.py`; without it the default charges. *Predicted* is what that says of a step under both plans. With
--quick one model, two rounds.

Where a module lies in memory, and whether it was made first, is worth some percent of a step, and stays the same for as
long as the module lives. So the steps are taken in rounds, each in new processes. In a round each plan is made into two
modules, in the order ours, TorchRec's, TorchRec's, ours or the other way round by turns, and their steps (forward,
backward, the tables' optimizer) come in one random order. Of each rank the 10th percentile of a step's processor time
counts, which leaves out what else the machine did; the slower rank is the module's, the mean of its two modules the
plan's. Printed are the geometric mean of the rounds' ratios and, as noise, half its 95 % interval: a ratio within
1 +- noise tells no difference. *Every step* is the same with the slower rank taken step by step before the percentile:
there both ranks' disturbances count, which costs a plan of two equally busy ranks most.
"""

from __future__ import annotations

import functools
import json
import math
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
ROUNDS = 12
T_QUANTILE = 2.201  # of Student, 97.5 %, ROUNDS - 1 degrees of freedom
# Tables as (rows, columns, ids a sample).
MODELS = {
    "heavy look-ups": [(200_000, 64, 20 + 4 * i) for i in range(10)],
    "wide outputs": [(100_000, 256, 1 + i % 2) for i in range(14)],
    "many small": [(2_000 + 400 * i, 32, 1 + i % 5) for i in range(44)],
    "one dominant": [(2_000_000, 128, 30), *[(50_000, 32, 2)] * 7],
    "two large": [(1_000_000, 64, 20), (800_000, 128, 10), *[(20_000, 64, 4)] * 10],
    "narrow": [(30_000 + 5_000 * i, 16, 10 + i % 8) for i in range(24)],
    "mixed widths": [(60_000 + 3_000 * i, (16, 64, 256)[i % 3], 2 + i % 6) for i in range(18)],
    "few": [(150_000 * (1 + i), 128, 8 + 8 * i) for i in range(4)],
}


def make_module(tables):
    module = cases.bags([(f"t{i}", rows, columns) for i, (rows, columns, _) in enumerate(tables)])
    _apply_optimizer_in_backward(torch.optim.SGD, module.parameters(), {"lr": 0.01})
    return module


def make_plan(kind, tables):
    """(planner, plan)."""
    planner = kind(
        topology=Topology(world_size=2, local_world_size=2, compute_device="cpu"),
        batch_size=BATCH_SIZE,
        constraints={f"t{i}": ParameterConstraints(pooling_factors=[float(ids)]) for i, (*_, ids) in enumerate(tables)},
        stats=[],
    )
    return planner, planner.plan(make_module(tables), [EmbeddingBagCollectionSharder()])


def make_model(plan, tables):
    return DistributedModelParallel(
        make_module(tables),
        env=ShardingEnv.from_process_group(dist.group.WORLD),
        plan=plan,
        sharders=[EmbeddingBagCollectionSharder()],
        device=torch.device("cpu"),
    )


def types_of(plan):
    types = [sharding.sharding_type for sharding in plan.plan[""].values()]
    return ", ".join(f"{types.count(kind)} {kind}" for kind in sorted(set(types)))


def batch_of(tables, seed):
    generator = torch.Generator().manual_seed(seed)
    return KeyedJaggedTensor(
        keys=[f"f_t{i}" for i in range(len(tables))],
        values=torch.cat([torch.randint(0, r, (BATCH_SIZE * ids,), generator=generator) for r, _, ids in tables]),
        lengths=torch.cat([torch.full((BATCH_SIZE,), ids) for *_, ids in tables]),
    )


def run_steps(rank, tables, models, steps, seed=7):
    """[(model, processor seconds)] of `steps` steps of every model, in one random order."""
    order = [i % len(models) for i in range(len(models) * steps)]
    random.Random(seed).shuffle(order)
    batches = [batch_of(tables, 10 * i + rank) for i in range(4)]
    spent = []
    for step, which in enumerate([*range(len(models)), *order]):
        dist.barrier()
        begin = time.process_time()
        out = models[which](batches[step % 4]).wait()
        out.values().sum().backward()
        spent.append((which, time.process_time() - begin))
    return spent[len(models) :]


def low(values):
    return statistics.quantiles(values, n=10)[0]


def low_ms(spent, num_models):
    """[(ms of the slower rank, ms of every step's slower rank)] of each model, 10th percentiles; `spent` of both."""
    of = [([], []) for _ in range(num_models)]
    for (which, first), (_, second) in zip(*spent, strict=True):
        of[which][0].append(1000 * first)
        of[which][1].append(1000 * second)
    return [(max(low(first), low(second)), low(list(map(max, first, second)))) for first, second in of]


def work(rank, tables, plans, steps, seed):
    return run_steps(rank, tables, [make_model(plan, tables) for plan in plans], steps, seed)


def run_round(number, tables, ours, own, steps):
    """((ours, TorchRec's) by slower rank, the same by every step), ms."""
    outer, inner = (ours, own) if number % 2 == 0 else (own, ours)
    ms = low_ms(ranks.run(2, work, tables, [outer, inner, inner, outer], steps, number), 4)
    pairs = [((a + d) / 2, (b + c) / 2) for a, b, c, d in zip(*ms, strict=True)]
    return pairs if number % 2 == 0 else [pair[::-1] for pair in pairs]


def ratio_and_noise(pairs):
    logs = [math.log(ours / own) for ours, own in pairs]
    noise = T_QUANTILE * statistics.stdev(logs) / math.sqrt(len(logs))
    return f"{math.exp(statistics.fmean(logs)):.3f} | {noise:.3f}"


def main():
    arguments = [word for word in sys.argv[1:] if word != "--quick"]
    is_quick = len(arguments) < len(sys.argv) - 1
    steps = int(arguments[0]) if arguments else 100
    models = {"many small": MODELS["many small"]} if is_quick else MODELS
    num_rounds = 2 if is_quick else ROUNDS
    planner = Planner
    if len(arguments) > 1:
        document = json.loads(pathlib.Path(arguments[1]).read_text())
        if document["schema"] == "plimsoll.machine/1":
            planner = functools.partial(Planner, machine=document)
        else:
            planner = functools.partial(Planner, step_model={name: document[name] for name in STEP_MODEL})
    print("| model | ours ms | TorchRec's ms | predicted | ratio | noise | every step | noise | ours | TorchRec's |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, tables in models.items():
        made, ours = make_plan(planner, tables)
        _, own = make_plan(EmbeddingShardingPlanner, tables)
        predicted = f"{made.times['time']:.2f}, {made.reference['time']:.2f}"
        rounds = [run_round(number, tables, ours, own, max(steps // ROUNDS, 10)) for number in range(num_rounds)]
        by_rank, by_step = zip(*rounds, strict=True)
        mine, torchrecs = (statistics.median(ms) for ms in zip(*by_rank, strict=True))
        print(
            f"| {name} | {mine:.2f} | {torchrecs:.2f} | {predicted} | {ratio_and_noise(by_rank)}"
            f" | {ratio_and_noise(by_step)} | {types_of(ours)} | {types_of(own)} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
