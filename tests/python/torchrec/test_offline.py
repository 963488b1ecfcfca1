"""Plans made by the command line, from what is written of a module, for the training job."""

import json
import subprocess
import sys

import cases
import pytest
import ranks
import torch
from test_runtime import TABLES, train_plan
from torch.distributed.optim import _apply_optimizer_in_backward
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
from torchrec.distributed.planner.types import ParameterConstraints
from torchrec.distributed.types import BoundsCheckMode, CacheParams
from torchrec.modules.embedding_configs import DataType

import plimsoll
from plimsoll.torchrec import PlanFile, Planner, check, model_document, to_sharding_plan, topology_document
from plimsoll.torchrec._model import cost_model

SHARDERS = [EmbeddingBagCollectionSharder()]
MAIN = "import sys; from plimsoll._command import main; sys.exit(main())"


def shard(folder, *flags):
    """`plimsoll shard model.json --on topology.json -o plan.json` in the folder."""
    words = ["shard", "model.json", "--on", "topology.json", "--cost-model", cost_model(), "-q", "-o", "plan.json"]
    done = subprocess.run([sys.executable, "-c", MAIN, *words, *flags], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "plan.json"


def write(folder, module, topology, constraints=None, **more):
    model_document(module, topology, constraints, path=folder / "model.json", **more)
    (folder / "topology.json").write_text(json.dumps(topology_document(topology)))


@pytest.mark.parametrize("seed", range(3))
def test_the_command_line_plans_what_the_planner_plans(seed, tmp_path):
    bags, arguments = cases.random_arguments(seed + 30, count=5)
    module = torch.nn.Sequential(bags, torch.nn.Linear(512, 100, device="meta"), torch.nn.BatchNorm1d(100))
    topology, constraints = arguments["topology"], arguments["constraints"]
    write(tmp_path, module, topology, constraints)
    path = shard(tmp_path, "--batch-size", "1024", "--effort", "20000")
    _, planned = cases.plan_with(Planner, module, arguments, effort=20000)
    told = to_sharding_plan(path, module, topology, constraints=constraints)
    assert str(told) == str(planned)
    assert told.plan["0"] == planned.plan["0"]
    report = check(told, module, topology, constraints=constraints, batch_size=1024)
    assert report.is_right
    answer = json.loads(path.read_text())
    bill = answer["bill"]["bytes"]
    reserved = EmbeddingShardingPlanner(**arguments)._storage_reservation
    reserved.reserve(topology=topology, batch_size=1024, module=module, sharders=SHARDERS, constraints=constraints)
    assert bill["dense"] == [reserved._dense_storage.hbm] * 4
    assert bill["kjt"] == [reserved._kjt_storage.hbm] * 4
    for kind in (Planner, EmbeddingShardingPlanner):
        planner = kind(**arguments)
        loaded = kind(**arguments, plan_loader=PlanFile(path, planner, module, SHARDERS))
        assert str(loaded.plan(module, SHARDERS)) == str(planned)
        assert loaded._num_proposals == 0


def test_every_sharding_type_is_cut_as_torchrec_cuts_it(tmp_path):
    module = cases.bags([(f"t{i}", 1000 + i, 64) for i in range(7)])
    topology = Topology(world_size=4, local_world_size=2, compute_device="cuda")
    constraints = {
        f"t{i}": ParameterConstraints(sharding_types=[kind], min_partition=16) for i, kind in enumerate(cases.TYPES)
    }
    write(tmp_path, module, topology, constraints)
    path = shard(tmp_path, "--search", "torchrec")
    planner = EmbeddingShardingPlanner(topology=topology, constraints=constraints, stats=[])
    planned = planner.plan(module, SHARDERS)
    told = to_sharding_plan(path, module, topology, constraints=constraints)
    assert {name: s.sharding_type for name, s in told.plan[""].items()} == {
        f"t{i}": kind for i, kind in enumerate(cases.TYPES)
    }
    assert told.plan[""] == planned.plan[""]
    answer = plimsoll.ShardingPlan(json.loads(path.read_text()))
    assert to_sharding_plan(answer, module, topology, constraints=constraints).plan[""] == planned.plan[""]


def test_what_constraints_pass_on(tmp_path):
    module = cases.bags([("a", 100_000, 64), ("b", 100, 64)])
    topology = Topology(world_size=2, compute_device="cuda")
    constraints = {
        "a": ParameterConstraints(
            compute_kernels=["fused_uvm_caching"],
            cache_params=CacheParams(load_factor=0.25, reserved_memory=2.0),
            bounds_check_mode=BoundsCheckMode.IGNORE,
            output_dtype=DataType.FP16,
            enforce_hbm=True,
        )
    }
    write(tmp_path, module, topology, constraints)
    path = shard(tmp_path)
    given = to_sharding_plan(path, module, topology, constraints=constraints).plan[""]["a"]
    assert given.cache_params is not None and given.cache_params == constraints["a"].cache_params
    read = to_sharding_plan(path, module, topology).plan[""]["a"]
    for sharding in (given, read):
        assert sharding.compute_kernel == "fused_uvm_caching"
        assert sharding.cache_params.load_factor == 0.25 and sharding.cache_params.reserved_memory == 2
        assert sharding.bounds_check_mode is BoundsCheckMode.IGNORE
        assert sharding.output_dtype is DataType.FP16 and sharding.enforce_hbm is True
    answer = json.loads(path.read_text())  # a search may choose another load factor
    (entry,) = (table for table in answer["plan"]["tables"] if table["table"] == "a")
    entry["cache_params"]["load_factor"] = 0.5
    chosen = to_sharding_plan(answer, module, topology, constraints=constraints).plan[""]["a"].cache_params
    assert (chosen.load_factor, chosen.reserved_memory) == (0.5, 2)
    planner = Planner(topology=topology, constraints=constraints, stats=[])
    loaded = Planner(
        topology=topology, constraints=constraints, stats=[], plan_loader=PlanFile(path, planner, module, SHARDERS)
    )
    assert loaded.plan(module, SHARDERS).plan[""]["a"] == given


@pytest.fixture
def planned(tmp_path):
    module = cases.bags([("a", 1000, 64), ("b", 100, 64)])
    topology = Topology(world_size=2, compute_device="cuda")
    write(tmp_path, module, topology)
    return module, topology, shard(tmp_path)


def test_plans_for_others_are_refused(planned, tmp_path):
    module, topology, path = planned
    for arguments, message in (
        ({"world_size": 4, "compute_device": "cuda"}, "world_size: 2 in the plan, 4 in the topology"),
        ({"world_size": 2, "local_world_size": 1, "compute_device": "cuda"}, "local_world_size: 2 in the plan, 1"),
        ({"world_size": 2, "compute_device": "cpu"}, "compute_device: cuda in the plan, cpu in the topology"),
    ):
        with pytest.raises(plimsoll.Error, match=message):
            to_sharding_plan(path, module, Topology(**arguments))
    with pytest.raises(plimsoll.Error, match=r"\.c: the plan lacks this table"):
        to_sharding_plan(path, cases.bags([("a", 1000, 64), ("b", 100, 64), ("c", 100, 64)]), topology)
    with pytest.raises(plimsoll.Error, match=r"\.b: the module has no such table"):
        to_sharding_plan(path, cases.bags([("a", 1000, 64)]), topology)
    answer = json.loads(path.read_text())
    answer["plan"]["tables"][0]["sharding_type"] = "column_wise"
    planner = Planner(topology=topology, stats=[], constraints={"a": ParameterConstraints(min_partition=16)})
    with pytest.raises(plimsoll.Error, match="the planner has no option column_wise"):
        PlanFile(answer, planner, module, SHARDERS)
    with pytest.raises(plimsoll.Error, match="holds no plan"):
        PlanFile({**answer, "plan": None}, planner, module, SHARDERS)


@pytest.mark.parametrize("form", ["torchrec", "easyrec"])
def test_plans_of_early_releases(planned, form):
    """Their kernels have other names: batched_fused, batched_dense."""
    module, topology, path = planned
    model = model_document(module, topology)
    document = plimsoll.convert(model, path, form, on=topology_document(topology))
    text = json.dumps(document)
    early = text.replace('"fused"', '"batched_fused"').replace('"dense"', '"batched_dense"')
    assert early != text
    told = to_sharding_plan(json.loads(early), module, topology)
    assert told.plan[""] == to_sharding_plan(path, module, topology).plan[""]
    quantised = json.loads(text)
    for table in quantised[""].values():
        table["compute_kernel"] = "batched_quant"
    kernels = [s.compute_kernel for s in to_sharding_plan(quantised, module, topology).plan[""].values()]
    assert kernels == ["quant", "quant"]
    quantised[""]["a"]["compute_kernel"] = "batched_key_value"  # never was
    with pytest.raises(plimsoll.Error, match="compute_kernel"):
        to_sharding_plan(quantised, module, topology)


def test_constraints_of_early_releases():
    module = cases.bags([("a", 1000, 64), ("b", 1000, 64)])
    topology = Topology(world_size=2, compute_device="cuda")
    constraints = {
        "a": ParameterConstraints(compute_kernels=["batched_fused_uvm"]),
        "b": ParameterConstraints(compute_kernels=["batched_dense"], sharding_types=["data_parallel"]),
    }
    for more in ({}, {"proposer": [cases_proposer()]}):
        planner = Planner(topology=topology, constraints=constraints, stats=[], effort=1000, **more)
        tables = planner.plan(module, SHARDERS).plan[""]
        assert {name: s.compute_kernel for name, s in tables.items()} == {"a": "fused_uvm", "b": "dense"}
    assert constraints["a"].compute_kernels == ["batched_fused_uvm"]  # the caller's own stay


def cases_proposer():
    from torchrec.distributed.planner.proposers import GreedyProposer

    return GreedyProposer()


class Narrow(EmbeddingBagCollectionSharder):
    def sharding_types(self, compute_device_type):
        return ["row_wise", "grid_shard"]


def test_a_sharder_of_ones_own_narrows_the_types():
    module = cases.bags([("a", 1000, 64), ("b", 1000, 64)])
    topology = Topology(world_size=2, compute_device="cuda")
    constraints = {"b": ParameterConstraints(sharding_types=["grid_shard", "table_wise"])}
    document = model_document(module, topology, constraints, sharders=[Narrow()])
    types = {name: constraint["sharding_types"] for name, constraint in document["constraints"].items()}
    assert types == {"a": ["row_wise"], "b": ["grid_shard"]}
    assert "constraints" not in model_document(module, topology)


def test_tables_of_other_devices_are_left_out():
    module = cases.bags([("a", 1000, 64), ("b", 1000, 64)])
    constraints = {"a": ParameterConstraints(device_group="cpu"), "b": ParameterConstraints(device_group="cuda")}
    document = model_document(module, Topology(world_size=2, compute_device="cuda"), constraints)
    assert [table["name"] for entry in document["modules"] for table in entry["tables"]] == ["b"]


def train_from_file(rank, path):
    module = cases.bags(TABLES)
    _apply_optimizer_in_backward(torch.optim.SGD, module.parameters(), {"lr": 0.5})
    topology = Topology(world_size=2, compute_device="cpu")
    plan = to_sharding_plan(path, module, topology)
    return train_plan(rank, 2, module, plan, lambda device: cases.bags(TABLES, device), SHARDERS[0])


def test_a_plan_of_the_command_line_trains(tmp_path):
    module = cases.bags(TABLES)
    _apply_optimizer_in_backward(torch.optim.SGD, module.parameters(), {"lr": 0.5})
    write(tmp_path, module, Topology(world_size=2, compute_device="cpu"))
    path = shard(tmp_path)
    for error, local_bytes, planned, _ in ranks.run(2, train_from_file, path):
        assert error < 1e-4
        assert local_bytes == planned > 0
