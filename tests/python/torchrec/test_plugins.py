"""Enumerator and Partitioner in TorchRec's own planner."""

import time

import cases
import pytest
from torch.distributed.optim import _apply_optimizer_in_backward
from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
from torchrec.distributed.planner.enumerators import EmbeddingEnumerator
from torchrec.distributed.planner.types import ParameterConstraints, Perf, PlannerError, ShardEstimator, Storage
from torchrec.optim.rowwise_adagrad import RowWiseAdagrad

import plimsoll
from plimsoll.torchrec import Enumerator, Partitioner, Proposer

import torch  # isort: skip


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
    theirs = EmbeddingEnumerator(**arguments).enumerate(module, [cases.AllTypes()])
    assert len(ours) == len(theirs) > 30
    for a, b in zip(ours, theirs):
        assert (a.fqn, a.sharding_type, a.compute_kernel) == (b.fqn, b.sharding_type, b.compute_kernel)
        assert [s.size for s in a.shards] == [s.size for s in b.shards]
        assert [s.storage for s in a.shards] == [s.storage for s in b.shards]
        assert [s.perf.total for s in a.shards] == [s.perf.total for s in b.shards]
        assert [s.perf for s in a.shards] == [s.perf for s in b.shards]


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


@pytest.mark.parametrize(("ranks", "greedy"), [(8, 4.173343109845318), (16, 8.116421040351042)])
def test_the_partitioner_on_dcnv2_in_torchrecs_loop(ranks, greedy):
    module, arguments = cases.dcnv2_arguments(ranks)
    spent = []

    class Timed(Partitioner):
        def partition(self, proposal, storage_constraint):
            begin = time.process_time()
            try:
                return super().partition(proposal, storage_constraint)
            finally:
                spent.append(time.process_time() - begin)

    planner, _ = cases.plan_with(EmbeddingShardingPlanner, module, arguments, partitioner=Timed())
    assert len(spent) == planner._num_proposals > 700
    assert sum(spent) < 1  # processor seconds
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
