"""Fits the charges of a step model to steps measured on 2 gloo ranks, for `torchrec_steps.py` and `--step-model`.

Usage: PYTHONPATH=build/python build/python-env/bin/python bench/embedding/step_charges.py FILE [STEPS | --quick]

Of each model, none of which `torchrec_steps.py` judges, random plans of nine styles run side by side, their steps in
one random order. The charges are fitted to the 10th percentiles of the slower rank's processor time, by non-negative
least squares on relative errors; how well they predict is told by models that are left out of the fit. With --quick
three steps of the two models of fewest tables.
"""

from __future__ import annotations

import json
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "python"))

import numpy as np
import ranks
import torch
import torchrec_steps
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.distributed.planner.planners import to_sharding_plan

from plimsoll.calibration import _plans
from plimsoll.calibration._fit import fit_relative

WORLD_SIZE = 2
# Those of `plimsoll calibrate`, but one.
MODELS = {**_plans.MODELS, "broad": [(15_000 * (1 + i), 128 + 64 * (i % 2), 1 + 3 * i % 10) for i in range(8)]}
CHARGES = {  # what each is multiplied by, of `variables_of`
    "kernel_weight": "torchrec_kernel_ms",
    "collective_weight": "torchrec_collective_ms",
    "ms_per_sharding_type": "sharding_types",
    "ms_per_output_byte": "output_bytes",
    "ms_per_table": "tables",
    "floor_ms": "one",
}


def make_topology():
    return _plans.make_topology(WORLD_SIZE, "cpu")


def factors_of(plan, tables):
    variables = _plans.variables_of(plan, tables, WORLD_SIZE) | {"one": 1}
    return [variables[name] for name in CHARGES.values()]


def work(rank, tables, plans, steps):
    models = [
        DistributedModelParallel(
            torchrec_steps.make_module(tables),
            device=torch.device("cpu"),
            plan=to_sharding_plan(plan, make_topology()),
            sharders=[_plans.Sharder()],
        )
        for plan in plans
    ]
    return torchrec_steps.run_steps(rank, tables, models, steps)


def main():
    target = sys.argv[1]
    is_quick = sys.argv[2:] == ["--quick"]
    steps = 3 if is_quick else int(sys.argv[2]) if len(sys.argv) > 2 else 30
    models = {name: MODELS[name] for name in ("broad", "few")} if is_quick else MODELS
    names, factors, times = [], [], []
    for name, tables in models.items():
        draw = random.Random(name)
        options = _plans.table_options(tables, make_topology())
        plans = [_plans.draw_plan(options, style, WORLD_SIZE, draw) for style in _plans.STYLES]
        spent = ranks.run(WORLD_SIZE, work, tables, plans, steps)
        times += [ms for ms, *_ in torchrec_steps.low_ms(spent, len(plans))]  # by slower rank
        factors += [factors_of(plan, tables) for plan in plans]
        names += [name] * len(plans)
    factors, times, names = np.array(factors), np.array(times), np.array(names)
    errors = []
    for name in models:
        charges = fit_relative(factors[names != name], times[names != name])
        errors += list(abs(factors[names == name] @ charges / times[names == name] - 1))
    charges = dict(zip(CHARGES, map(float, fit_relative(factors, times)), strict=True))
    told = f"{len(times)} plans; a model left out: mean error {np.mean(errors):.1%}, worst {np.max(errors):.1%}"
    print(told)
    print(", ".join(f"{name} {value:.3g}" for name, value in charges.items()))
    document = {"schema": "plimsoll.step_model/1", "name": "2 gloo ranks, fitted", "notes": told, **charges}
    pathlib.Path(target).write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
