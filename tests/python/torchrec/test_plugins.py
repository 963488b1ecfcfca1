"""Enumerator and Partitioner in TorchRec's own planner."""

import json
import pathlib

import cases
import pytest
from torch.distributed.optim import _apply_optimizer_in_backward
from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
from torchrec.distributed.planner.enumerators import EmbeddingEnumerator
from torchrec.distributed.planner.partitioners import GreedyPerfPartitioner
from torchrec.distributed.planner.perf_models import NoopPerfModel
from torchrec.distributed.planner.proposers import GreedyProposer, UniformProposer
from torchrec.distributed.planner.types import ParameterConstraints, Perf, PlannerError, ShardEstimator, Storage
from torchrec.distributed.types import CacheParams
from torchrec.modules.embedding_configs import DataType
from torchrec.optim.rowwise_adagrad import RowWiseAdagrad

import plimsoll
from plimsoll.torchrec import Enumerator, Partitioner, Proposer

import torch  # isort: skip


def assert_equal_options(ours, theirs):
    assert len(ours) == len(theirs) > 3
    for a, b in zip(ours, theirs):
        assert (a.fqn, a.sharding_type, a.compute_kernel) == (b.fqn, b.sharding_type, b.compute_kernel)
        assert [s.size for s in a.shards] == [s.size for s in b.shards]
        assert [s.storage for s in a.shards] == [s.storage for s in b.shards]
        assert [s.perf.total for s in a.shards] == [s.perf.total for s in b.shards]
        assert [s.perf for s in a.shards] == [s.perf for s in b.shards]


@pytest.mark.parametrize("optimizer", [None, torch.optim.SGD, torch.optim.Adam, RowWiseAdagrad])
@pytest.mark.parametrize("min_partition", [None, 8])
def test_every_shard_costs_what_torchrec_says(optimizer, min_partition):
    module = cases.bags([("a", 10007, 128), ("b", 1000003, 32), ("c", 40, 256), ("d", 5, 64)])
    if optimizer is not None:
        _apply_optimizer_in_backward(optimizer, module.parameters(), {"lr": 0.1})
    constraints = {
        name: ParameterConstraints(sharding_types=cases.TYPES, min_partition=min_partition, pooling_factors=[factor])
        for name, factor in {"a": 3.0, "b": 20.0, "c": 1.0}.items()
    }
    topology = Topology(world_size=8, local_world_size=4, compute_device="cuda")
    arguments = {"topology": topology, "batch_size": 512, "constraints": constraints}
    ours = Enumerator(**arguments).enumerate(module, [cases.AllTypes()])
    assert len(ours) > 30
    assert_equal_options(ours, EmbeddingEnumerator(**arguments).enumerate(module, [cases.AllTypes()]))


MORE_CONSTRAINTS = cases.CONSTRAINTS | {
    "cache": {"cache_params": CacheParams(load_factor=0.3), "compute_kernels": ["fused_uvm_caching", "fused_uvm"]},
    "half outputs": {"output_dtype": DataType.FP16},
}


@pytest.mark.parametrize("name", MORE_CONSTRAINTS)
@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_constraints_cost_what_torchrec_says(name, device):
    if device == "cpu" and name in ("cache", "kernels"):
        pytest.skip("a CPU has no kernel with a cache")
    tables = [("a", 10007, 64), ("b", 1000003, 64), ("c", 5, 64)]
    constraints = {table: ParameterConstraints(**MORE_CONSTRAINTS[name]) for table in ("a", "b")}
    topology = Topology(world_size=6, local_world_size=3, compute_device=device)
    arguments = {"topology": topology, "batch_size": 512, "constraints": constraints}
    for module, sharder in (
        (cases.bags(tables), cases.AllTypes()),
        (cases.sequences(tables), cases.AllSequenceTypes()),
    ):
        ours, theirs = (kind(**arguments).enumerate(module, [sharder]) for kind in (Enumerator, EmbeddingEnumerator))
        assert_equal_options(ours, theirs)


def test_the_native_enumerator_says_what_torchrec_says():
    for name, told in cases.parity_cases():
        assert not cases.native_differences(*told), name


def test_each_distinct_size_is_estimated_once():
    seen = []

    class Estimator(ShardEstimator):
        def __init__(self, topology=None, constraints=None):
            pass

        def estimate(self, sharding_options, *_, **__):
            for option in sharding_options:
                sizes = [tuple(shard.size) for shard in option.shards]
                assert len(sizes) == len(set(sizes))
                seen.append(len(sizes))
                for shard in option.shards:
                    shard.perf = Perf(float(shard.size[0]), 0, 0, 0)
                    shard.storage = Storage(hbm=shard.size[0] * shard.size[1], ddr=0)

    module = cases.bags([("a", 10007, 128), ("b", 40, 256)])
    topology = Topology(world_size=8, local_world_size=4, compute_device="cuda")
    options = Enumerator(topology, 512, estimator=Estimator()).enumerate(module, [cases.AllTypes()])
    assert len(seen) == len(options) and sum(seen) < sum(len(option.shards) for option in options)
    for option in options:
        for shard in option.shards:
            assert shard.perf.total == shard.size[0] and shard.storage.hbm == shard.size[0] * shard.size[1]
            assert shard.rank is None


@pytest.mark.parametrize("seed", range(6))
def test_the_partitioner_is_never_worse_than_greedy(seed):
    module, arguments = cases.random_arguments(seed + 50, count=6, ranks=4, room=1.3)
    planner, _ = cases.plan_with(EmbeddingShardingPlanner, module, arguments, partitioner=Partitioner())
    assert cases.rating_of(planner) <= cases.reference_rating(module, arguments) * (1 + 1e-12)


class Compared(Partitioner):
    """Holds every placement against the greedy one of the same proposal."""

    def __init__(self, topology, most):
        super().__init__()
        self.rate = NoopPerfModel(topology).rate
        self.left = most
        self.faults = []
        self.better = self.compared = 0

    def partition(self, proposal, storage_constraint):
        if self.left == 0:
            return super().partition(proposal, storage_constraint)
        self.left -= 1
        try:
            greedy = self.rate(GreedyPerfPartitioner().partition(proposal, storage_constraint))
        except PlannerError:
            greedy = float("inf")
        try:
            plan = super().partition(proposal, storage_constraint)
        except PlannerError:
            if greedy < float("inf"):
                self.faults.append("no plan")
            raise
        self.compared += 1
        self.better += self.rate(plan) < greedy * (1 - 1e-9)
        if self.rate(plan) > greedy * (1 + 1e-12):
            self.faults.append((self.rate(plan), greedy))
        return plan


def golden_arguments(record):
    """(module, arguments) of a recorded run."""
    machine, reserved = record["topology"], record["reservation"]
    assert reserved == {"kind": "heuristical", "percentage": 0.15}
    tables = record["tables"]
    module = cases.bags([(t["name"], t["rows"], t["cols"]) for t in tables])
    optimizers = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "rowwise_adagrad": RowWiseAdagrad}
    if record["optimizer"] in optimizers:
        _apply_optimizer_in_backward(optimizers[record["optimizer"]], module.parameters(), {"lr": 0.1})
    constraints = {
        t["name"]: ParameterConstraints(pooling_factors=[t["pooling_factor"]], min_partition=t["min_partition"])
        for t in tables
    }
    topology, batch_size = Topology(**machine), record["batch_size"]
    return module, {
        "topology": topology,
        "batch_size": batch_size,
        "constraints": constraints,
        "enumerator": Enumerator(topology, batch_size, constraints),
        "stats": [],
    }


def test_no_placement_of_the_golden_set_is_worse_than_greedy():
    data = pathlib.Path(__file__).resolve().parents[2] / "data" / "golden" / "embedding.json"
    compared = better = 0
    for i, record in enumerate(json.loads(data.read_text())["plans"]):
        module, arguments = golden_arguments(record)
        partitioner = Compared(arguments["topology"], most=25)
        proposers = [GreedyProposer(), UniformProposer()]
        try:
            cases.plan_with(EmbeddingShardingPlanner, module, arguments, partitioner=partitioner, proposer=proposers)
        except PlannerError:
            pass
        assert not partitioner.faults, (i, partitioner.faults)
        compared, better = compared + partitioner.compared, better + partitioner.better
    assert compared > 400 and better > compared / 10


@pytest.mark.parametrize(("ranks", "greedy"), [(8, 4.173343109845318), (16, 8.116421040351042)])
def test_the_partitioner_on_dcnv2_in_torchrecs_loop(ranks, greedy):
    module, arguments = cases.dcnv2_arguments(ranks)
    calls = []

    class Counted(Partitioner):
        def partition(self, proposal, storage_constraint):
            calls.append(proposal)
            return super().partition(proposal, storage_constraint)

    planner, _ = cases.plan_with(EmbeddingShardingPlanner, module, arguments, partitioner=Counted())
    assert len(calls) == planner._num_proposals > 700
    assert cases.rating_of(planner) < greedy


def test_without_room_the_partitioner_says_so():
    module, arguments = cases.random_arguments(1, count=4, ranks=2)
    arguments["topology"] = Topology(world_size=2, compute_device="cuda", hbm_cap=2**30, ddr_cap=2**20)
    options = Enumerator(arguments["topology"], 512).enumerate(module, [cases.AllTypes()])
    proposal = [next(o for o in options if o.fqn == fqn) for fqn in dict.fromkeys(o.fqn for o in options)]
    tight = Topology(world_size=2, compute_device="cuda", hbm_cap=2**10, ddr_cap=2**10)
    with pytest.raises(PlannerError, match="no room was found"):
        Partitioner().partition(proposal=proposal, storage_constraint=tight)


def test_the_proposer_alone_proposes_the_least_of_every_table():
    module, arguments = cases.random_arguments(1, count=4)
    options = Enumerator(arguments["topology"], 512).enumerate(module, [cases.AllTypes()])
    proposer = Proposer()
    proposer.load(search_space=options)
    proposal = proposer.propose()
    for chosen in proposal:
        least = min(sum(s.storage.hbm for s in o.shards) for o in options if o.fqn == chosen.fqn)
        assert sum(s.storage.hbm for s in chosen.shards) == least
    proposer.feedback(True)
    assert proposer.propose() is None


def test_unlike_column_blocks_are_refused():
    from plimsoll.options import runs_of

    cost = ((1, 0, 0), (1.0, 0, 0, 0, 0, 0))
    with pytest.raises(plimsoll.Error, match="unlike column blocks"):
        runs_of("column_wise", [(10, 16, 0, 0), (10, 48, 0, 16)], [cost, cost])
