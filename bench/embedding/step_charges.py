"""Fits the charges of a step model to steps measured on 2 gloo ranks, for `torchrec_steps.py` and `--step-model`.

Usage: PYTHONPATH=build/python build/python-env/bin/python bench/embedding/step_charges.py FILE [STEPS | --quick]

Of each model, none of which `torchrec_steps.py` judges, random plans of nine styles run side by side, their steps in
one random order. The charges are fitted to the 10th percentiles of the slower rank's processor time, by non-negative
least squares on relative errors; how well they predict is told by models that are left out of the fit. With --quick
three steps of the two models of fewest tables.
"""

from __future__ import annotations

import copy
import json
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "python"))

import cases
import numpy as np
import ranks
import torch
import torchrec_steps
from scipy.optimize import nnls
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
from torchrec.distributed.planner.planners import to_sharding_plan
from torchrec.distributed.planner.types import ParameterConstraints

WORLD_SIZE = 2
# Tables as (rows, columns, ids a sample).
MODELS = {
    "middle": [(4_000 * (1 + 3 * i % 29), 32 + 32 * (i % 2), 2 + 7 * i % 18) for i in range(20)],
    "narrow": [(2_000 + 9_000 * (5 * i % 29), 16, 1 + 11 * i % 30) for i in range(30)],
    "broad": [(15_000 * (1 + i), 128 + 64 * (i % 2), 1 + 3 * i % 10) for i in range(8)],
    "pair": [(300_000, 64, 40), (200_000, 128, 20), *[(5_000 + 4_000 * i, 32, 1 + i % 4) for i in range(12)]],
    "few": [(40_000 * (1 + i), 64 + 64 * (i % 2), 5 + 8 * i) for i in range(5)],
    "many": [(500 + 800 * i, 16 << i % 3, 1 + i % 3) for i in range(60)],
}
# Shares of the sharding types in a plan.
STYLES = [
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
CHARGES = [
    "kernel_weight",
    "collective_weight",
    "ms_per_sharding_type",
    "ms_per_output_byte",
    "ms_per_table",
    "floor_ms",
]


def make_topology():
    return Topology(world_size=WORLD_SIZE, local_world_size=WORLD_SIZE, compute_device="cpu")


def options_of(tables):
    """[table][sharding type] the option of the kernel that the runtime carries on CPU."""
    planner = EmbeddingShardingPlanner(
        topology=make_topology(),
        batch_size=torchrec_steps.BATCH_SIZE,
        constraints={
            f"t{i}": ParameterConstraints(pooling_factors=[float(ids)], min_partition=columns // 2)
            for i, (_, columns, ids) in enumerate(tables)
        },
    )
    found = {}
    for option in planner._enumerator.enumerate(torchrec_steps.make_module(tables), [cases.AllTypes()]):
        if option.compute_kernel == ("dense" if option.sharding_type == "data_parallel" else "fused"):
            found.setdefault(option.name, {})[option.sharding_type] = option
    return found


def draw_plan(options, style, draw):
    plan = []
    for types in options.values():
        name = draw.choices(list(style), list(style.values()))[0]
        option = copy.deepcopy(types[name])
        for i, shard in enumerate(option.shards):
            shard.rank = draw.randrange(WORLD_SIZE) if name == "table_wise" else i % WORLD_SIZE
        plan.append(option)
    return plan


def factors_of(plan):
    """What every charge is multiplied by."""
    kernels, collectives, outputs, tables = np.zeros((4, WORLD_SIZE))
    for option in plan:
        samples = torchrec_steps.BATCH_SIZE * (1 if option.sharding_type == "data_parallel" else WORLD_SIZE)
        for shard in option.shards:
            perf = shard.perf
            kernels[shard.rank] += perf.fwd_compute + perf.bwd_compute + perf.prefetch_compute
            collectives[shard.rank] += perf.fwd_comms + perf.bwd_comms
            outputs[shard.rank] += 4 * samples * shard.size[1]
            tables[shard.rank] += 1
    types = {option.sharding_type for option in plan}
    return [kernels.max(), collectives.max(), len(types), outputs.max(), tables.max(), 1]


def work(rank, tables, plans, steps):
    models = [
        DistributedModelParallel(
            torchrec_steps.make_module(tables),
            device=torch.device("cpu"),
            plan=to_sharding_plan(plan, make_topology()),
            sharders=[cases.AllTypes()],
        )
        for plan in plans
    ]
    return torchrec_steps.run_steps(rank, tables, models, steps)


def fit(factors, times):
    scale = factors.max(axis=0)
    return nnls(factors / scale / times[:, None], np.ones(len(times)))[0] / scale


def main():
    target = sys.argv[1]
    is_quick = sys.argv[2:] == ["--quick"]
    steps = 3 if is_quick else int(sys.argv[2]) if len(sys.argv) > 2 else 30
    models = {name: MODELS[name] for name in ("broad", "few")} if is_quick else MODELS
    names, factors, times = [], [], []
    for name, tables in models.items():
        draw = random.Random(name)
        options = options_of(tables)
        plans = [draw_plan(options, style, draw) for style in STYLES]
        spent = ranks.run(WORLD_SIZE, work, tables, plans, steps)
        times += [ms for ms, _ in torchrec_steps.low_ms(spent, len(plans))]  # by slower rank
        factors += [factors_of(plan) for plan in plans]
        names += [name] * len(plans)
    factors, times, names = np.array(factors), np.array(times), np.array(names)
    errors = []
    for name in models:
        charges = fit(factors[names != name], times[names != name])
        errors += list(abs(factors[names == name] @ charges / times[names == name] - 1))
    charges = dict(zip(CHARGES, map(float, fit(factors, times)), strict=True))
    told = f"{len(times)} plans; a model left out: mean error {np.mean(errors):.1%}, worst {np.max(errors):.1%}"
    print(told)
    print(", ".join(f"{name} {value:.3g}" for name, value in charges.items()))
    document = {"schema": "plimsoll.step_model/1", "name": "2 gloo ranks, fitted", "notes": told, **charges}
    pathlib.Path(target).write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
