"""TorchEasyRec's planner on small models: what it plans, and a way to ask any of its revisions.

    PYTHONHASHSEED=0 python easyrec_cases.py v1=a5dc7754/plan_util.py v3=ee3ef097/plan_util.py

prints what the planners of these files (tzrec/utils/plan_util.py of TorchEasyRec at these commits) answer, under the
installed torchrec: tests/data/easyrec_plans.json. With `v1=plimsoll` it prints what ours answers. TorchRec keeps a
table's options in the order of a set of names, on which ties depend: hence the seed.
"""

import contextlib
import importlib.util
import json
import logging
import os
import random
import sys
import tempfile
import types
from unittest import mock

import cases
import torch
from torchrec.distributed.planner.perf_models import NoopPerfModel
from torchrec.distributed.planner.types import ParameterConstraints

HOST_MEMORY = 96 * 10**9
VARIABLES = (
    "INTRA_NODE_BANDWIDTH",
    "CROSS_NODE_BANDWIDTH",
    "STORAGE_RESERVE_PERCENT",
    "TZREC_DP_HBM_BINS_PER_DEVICE",
    "TZREC_DP_DDR_BINS_PER_DEVICE",
    "FORCE_LOAD_SHARDING_PLAN",
)


class Constrained(torch.nn.Module):
    """A module that says what its tables are constrained to, as TorchEasyRec's embedding groups do."""

    def __init__(self, tables, types_of):
        super().__init__()
        self.bags = cases.bags(tables)
        self._types_of = types_of

    def parameter_constraints(self, prefix):
        return {
            f"{prefix}bags.{name}": ParameterConstraints(sharding_types=list(types))
            for name, types in self._types_of.items()
        }


def _tables(seed, count, largest=6.5):
    rng = random.Random(seed)
    return [(f"t{i}", int(10 ** rng.uniform(2, largest)), rng.choice([16, 32, 64, 128])) for i in range(count)]


def _two_groups(seed):
    """Two groups whose tables have the same names; one is constrained."""
    tables = _tables(seed, 3)
    return torch.nn.ModuleDict(
        {
            "user": Constrained(tables, {"t0": ["row_wise"], "t1": ["column_wise"]}),
            "item": Constrained(_tables(seed + 1, 3), {"t1": ["table_wise"]}),
            "head": torch.nn.Linear(8, 4, device="meta"),
        }
    )


MODELS = {
    "small": lambda: cases.bags(_tables(1, 4)),
    "mixed": lambda: torch.nn.Sequential(cases.bags(_tables(2, 5)), torch.nn.Linear(64, 32, device="meta")),
    "large": lambda: cases.bags(_tables(3, 7, largest=8.2)),
    "sequences": lambda: torch.nn.ModuleDict(
        {"bags": cases.bags(_tables(4, 2)), "steps": cases.sequences([("s0", 4000, 32), ("s1", 900_000, 32)])}
    ),
    "groups": lambda: _two_groups(5),
}
# Arguments of all revisions; "ckpt_plan", "global" and the bins came with later ones.
CASES = {
    "a host of two": {"model": "small", "world": 2, "local": 2, "device": "cpu"},
    "for CUDA": {"model": "mixed", "world": 4, "local": 2, "device": "cuda"},
    "bandwidths": {
        "model": "mixed",
        "world": 8,
        "local": 4,
        "device": "cuda",
        "environment": {"INTRA_NODE_BANDWIDTH": "3e8", "CROSS_NODE_BANDWIDTH": "2500000.5"},
    },
    "a large reserve": {
        "model": "large",
        "world": 4,
        "local": 4,
        "device": "cuda",
        "environment": {"STORAGE_RESERVE_PERCENT": "0.6"},
    },
    "large tables": {"model": "large", "world": 2, "local": 1, "device": "cuda", "batch_size": 8192},
    "sequences": {"model": "sequences", "world": 2, "local": 2, "device": "cpu"},
}
LATER_CASES = {
    "few bins": {
        "model": "large",
        "world": 4,
        "local": 4,
        "device": "cuda",
        "environment": {"TZREC_DP_HBM_BINS_PER_DEVICE": "3", "TZREC_DP_DDR_BINS_PER_DEVICE": "0"},
    },
    "constraints by fqn": {"model": "groups", "world": 4, "local": 2, "device": "cuda"},
    "for all tables": {
        "model": "groups",
        "world": 4,
        "local": 2,
        "device": "cuda",
        "global": {"sharding_types": ["row_wise"], "compute_kernels": ["fused"]},
    },
    "a checkpoint": {
        "model": "groups",
        "world": 4,
        "local": 2,
        "device": "cuda",
        "checkpoint": {
            "user.bags": {"t0": {"sharding_type": "data_parallel"}, "t2": {"sharding_type": "data_parallel"}},
            "item.bags": {"t0": {"sharding_type": "row_wise"}},
        },
    },
    "a forced checkpoint": {
        "model": "groups",
        "world": 4,
        "local": 2,
        "device": "cuda",
        "checkpoint": {"item.bags": {"t0": {"sharding_type": "row_wise"}, "t1": {"sharding_type": "row_wise"}}},
        "environment": {"FORCE_LOAD_SHARDING_PLAN": "1"},
    },
}


@contextlib.contextmanager
def machine(case):
    """The machine of a case: its ranks, memory and environment, without a process group."""
    given = {"LOCAL_WORLD_SIZE": str(case["local"]), **case.get("environment", {})}
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, given))
        for variable in set(VARIABLES) - set(given):
            os.environ.pop(variable, None)
        stack.enter_context(mock.patch("torch.distributed.get_world_size", return_value=case["world"]))
        memory = types.SimpleNamespace(total=HOST_MEMORY)
        stack.enter_context(mock.patch("psutil.virtual_memory", return_value=memory))
        yield


def plan(create_planner, get_default_sharders, case, folder, **more):
    """(planner, plan) of a case."""
    model = MODELS[case["model"]]()
    if "checkpoint" in case:
        path = os.path.join(folder, "plan")
        with open(path, "w") as file:
            json.dump(case["checkpoint"], file)
        more["ckpt_plan_path"] = path
    if "global" in case:
        more["global_constraints_cfg"] = types.SimpleNamespace(**case["global"])
    with machine(case):
        planner = create_planner(torch.device(case["device"]), case.get("batch_size", 512), **more)
        return planner, planner.plan(model, get_default_sharders())


def told(planner, plan):
    """What is compared: all that the planner decided, and how it rates it."""
    return {
        "tables": {
            f"{path}.{name}": [sharding.sharding_type, sharding.compute_kernel, list(sharding.ranks)]
            for path, tables in plan.plan.items()
            for name, sharding in tables.items()
        },
        "rating": NoopPerfModel(planner._topology).rate(planner._best_plan),
        "proposals": planner._num_proposals,
        "plans": planner._num_plans,
        "ddr_cap": planner._topology.devices[0].storage.ddr,
    }


def load(path):
    """TorchEasyRec's plan_util.py as it stands, with stand-ins for what else it imports of tzrec."""
    stand_ins = {
        "tzrec": {},
        "tzrec.protos": {"feature_pb2": types.SimpleNamespace(ParameterConstraints=object)},
        "tzrec.utils": {
            "env_util": types.SimpleNamespace(
                force_load_sharding_plan=lambda: os.environ.get("FORCE_LOAD_SHARDING_PLAN", "0") == "1"
            )
        },
        "tzrec.utils.dynamicemb_util": {"has_dynamicemb": False},
        "tzrec.utils.logging_util": {"logger": logging.getLogger("tzrec")},
    }
    for name, members in stand_ins.items():
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__dict__.update(members)
    try:
        spec = importlib.util.spec_from_file_location("tzrec_plan_util", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        for name in stand_ins:
            del sys.modules[name]


def ours(form, **settings):
    """(create_planner, get_default_sharders) of ours, for a form of the dynamic program."""
    from plimsoll.torchrec import easyrec

    def create_planner(*arguments, **given):
        proposer = "easyrec" if form == "v3" else f"easyrec_{form}"
        return easyrec.create_planner(*arguments, proposer=proposer, stats=[], **settings, **given)

    return create_planner, easyrec.get_default_sharders


def main():
    recorded = {}
    sources = []
    for argument in sys.argv[1:]:
        form, path = argument.split("=")
        if path == "plimsoll":
            create_planner, get_default_sharders = ours(form)
        else:
            theirs = load(path)
            create_planner, get_default_sharders = theirs.create_planner, theirs.get_default_sharders
        sources.append(f"{form} {path}")
        with tempfile.TemporaryDirectory() as folder:
            for name, case in {**CASES, **(LATER_CASES if form == "v3" else {})}.items():
                more = {} if form == "v1" else {"model": MODELS[case["model"]]()}
                planner, made = plan(create_planner, get_default_sharders, case, folder, **more)
                recorded.setdefault(form, {})[name] = told(planner, made)
    import torchrec

    source = (
        f"made by tests/python/easyrec_cases.py with Python 3.{sys.version_info.minor} and torchrec "
        f"{torchrec.__version__}: {', '.join(sources)}"
    )
    print(json.dumps({"source": source, **recorded}))


if __name__ == "__main__":
    main()
