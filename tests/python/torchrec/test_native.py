"""Where options are enumerated natively, and where they must not be."""

import copy
import json
import pickle
import random

import cases
import numpy as np
import pytest
import torch
from torch.distributed.optim import _apply_optimizer_in_backward
from torchrec.distributed.embedding import EmbeddingCollectionSharder
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
from torchrec.distributed.planner.enumerators import EmbeddingEnumerator
from torchrec.distributed.planner.proposers import GreedyProposer
from torchrec.distributed.planner.storage_reservations import HeuristicalStorageReservation
from torchrec.distributed.planner.types import CustomTopologyData, ParameterConstraints
from torchrec.modules.embedding_configs import DataType, EmbeddingBagConfig, EmbeddingConfig, PoolingType
from torchrec.modules.embedding_modules import EmbeddingBagCollection, EmbeddingCollection
from torchrec.optim.rowwise_adagrad import RowWiseAdagrad

from plimsoll import _native
from plimsoll.torchrec import Planner, check
from plimsoll.torchrec._model import exact_model_document, exact_topology_document
from plimsoll.torchrec._native_enumerator import cost_model
from plimsoll.torchrec._options import cost_of, room_of

SHARDERS = [EmbeddingBagCollectionSharder()]


class Net(torch.nn.Module):
    """Modules side by side and below each other, as a model has them."""

    def __init__(self, *parts):
        super().__init__()
        for i, part in enumerate(parts):
            self.add_module(f"part{i}", part)


def random_net(rng):
    """(module, constraints): several collections of both kinds, whatever a table may be."""
    constraints = {}

    def config(kind, name, columns, **more):
        features = [f"{name}_{i}" for i in range(rng.choice([1, 1, 2]))]
        each = rng.choice([1, len(features)])
        fields = {
            "sharding_types": [*rng.sample(cases.TYPES, 4), "table_wise"],
            "compute_kernels": ["fused", "dense", *rng.sample(["fused_uvm", "fused_uvm_caching"], 1)],
            "min_partition": rng.choice([4, 8, 32, 64]),
            "num_poolings": [rng.choice([1.0, 2.0])] * each,
            "batch_sizes": [rng.choice([16, 4096])] * each,
            "is_weighted": True,
            "enforce_hbm": rng.choice([True, False]),
            "feature_names": features,
        }
        chosen = {field: value for field, value in fields.items() if rng.random() < 0.3}
        constraints[name] = ParameterConstraints(
            pooling_factors=[round(rng.uniform(0.2, 40), 2) for _ in range(each)], **chosen
        )
        if each == 1 and not chosen and rng.random() < 0.5:
            del constraints[name]
        return kind(
            name=name,
            num_embeddings=rng.choice([1, 3, 9, 40, 1009, 50000]),
            embedding_dim=columns,
            feature_names=features,
            data_type=rng.choice([DataType.FP32, DataType.FP16, DataType.BF16, DataType.INT8]),
            **more,
        )

    names = iter(f"t{i}" for i in range(99))

    def bags():
        pooling = rng.choice([PoolingType.SUM, PoolingType.MEAN])
        width = [rng.choice([4, 12, 64, 128, 256, 10]) for _ in range(rng.randint(1, 3))]
        return EmbeddingBagCollection(
            tables=[config(EmbeddingBagConfig, next(names), columns, pooling=pooling) for columns in width],
            is_weighted=rng.random() < 0.3,
            device=torch.device("meta"),
        )

    def sequences():
        columns = rng.choice([4, 64, 256])
        configs = [config(EmbeddingConfig, next(names), columns) for _ in range(rng.randint(1, 2))]
        return EmbeddingCollection(tables=configs, device=torch.device("meta"))

    module = Net(bags(), Net(sequences(), torch.nn.ReLU(), bags()), torch.nn.Sequential(bags(), sequences()))
    optimizer = rng.choice([None, torch.optim.SGD, torch.optim.Adam, RowWiseAdagrad, torch.optim.Adagrad])
    if optimizer is not None:
        _apply_optimizer_in_backward(optimizer, module.parameters(), {"lr": 0.1})
    return module, constraints


def costs(runs, blocks):
    return [cost for count, *cost in runs for _ in range(count)] * blocks


@pytest.mark.parametrize("seed", range(12))
def test_native_options_are_torchrecs_one_by_one(seed):
    rng = random.Random(seed)
    module, constraints = random_net(rng)
    sharders = [*SHARDERS, EmbeddingCollectionSharder()]
    world, local = rng.choice([(1, 1), (2, 2), (4, 2), (6, 4), (8, 4)])
    topology = Topology(
        world, rng.choice(["cuda", "cuda", "cpu"]), local_world_size=local, ssd_cap=rng.choice([0, 2**40])
    )
    if rng.random() < 0.5:
        unequal(topology)
    space = _native.enumerate_space(
        json.dumps(exact_model_document(module, sharders, constraints)),
        json.dumps(exact_topology_document(topology)),
        cost_model(),
        512,
    )
    natively = {}
    for option in range(space.num_options):
        fqn, sharding_type, kernel, _, blocks = space.describe(option)
        natively[fqn, sharding_type, kernel] = costs(space.runs(option), blocks)
    theirs = {
        (o.fqn, o.sharding_type, o.compute_kernel): [[*cost_of(s)[0], s.perf.total] for s in o.shards]
        for o in EmbeddingEnumerator(topology, 512, constraints).enumerate(module, sharders)
    }
    assert natively.keys() == theirs.keys() and len(theirs) > 10
    assert list(dict.fromkeys(key[0] for key in natively)) == list(dict.fromkeys(key[0] for key in theirs))
    for key, shards in theirs.items():
        assert [cost[:3] for cost in natively[key]] == [cost[:3] for cost in shards], key
        assert [cost[3] for cost in natively[key]] == pytest.approx([cost[3] for cost in shards], rel=1e-12), key


def unequal(topology, step=0.05):
    """Ranks of less and less memory; rows are still cut evenly."""
    for rank, device in enumerate(topology.devices):
        device.storage.hbm = int(device.storage.hbm * (1 - step * rank))
    return topology


@pytest.mark.parametrize("seed", range(4))
def test_ranks_of_unequal_memory_have_torchrecs_options(seed):
    module, arguments = cases.random_arguments(seed, count=6, room=2.0)
    unequal(arguments["topology"])
    planner, _ = cases.plan_with(Planner, module, arguments, objective="rating", effort=20000)
    assert planner._enumerator.is_native, planner._enumerator.reason
    own = cases.reference_rating(module, arguments)
    assert planner.reference["rating"] == pytest.approx(own, rel=1e-9)
    assert cases.rating_of(planner) <= own * (1 + 1e-12)


class Sparing(HeuristicalStorageReservation):
    """Leaves rank 0 nothing, which `last_reserved_topology` does not know."""

    def reserve(self, *args, **kwargs):
        left = super().reserve(*args, **kwargs)
        left.devices[0].storage.hbm = left.devices[0].storage.ddr = 0
        return left


def test_what_a_reservation_of_the_users_own_leaves_is_kept():
    module, arguments = cases.random_arguments(3, count=5, room=3.0)
    planner, _ = cases.plan_with(Planner, module, arguments, storage_reservation=Sparing(0.15), effort=5000)
    assert not planner._enumerator.is_native
    assert not [option for option in planner._best_plan for shard in option.shards if shard.rank == 0]


def test_a_copy_of_a_planner_searches_for_itself():
    module, arguments = cases.random_arguments(3, count=5)
    planner, plan = cases.plan_with(Planner, module, arguments, objective="rating", effort=5000)
    for again in (copy.deepcopy(planner), pickle.loads(pickle.dumps(planner))):
        again._topology.devices[0].storage.hbm //= 2
        again.plan(module, SHARDERS)
        assert again._enumerator.is_native, again._enumerator.reason
        assert (room_of(again._search.room)[0] < room_of(planner._search.room)[0]).any()
        assert str(planner.plan(module, SHARDERS)) == str(plan)
    twin = copy.deepcopy(planner)
    twin.plan(module, SHARDERS)
    assert twin.certificate == planner.certificate  # of the whole search space, not of the first plan's options


def test_the_judge_takes_every_topology():
    module, arguments = cases.random_arguments(3, count=4)
    caps = [2**34, 2**33, 2**34, 2**33]
    data = CustomTopologyData(data={"hbm_cap": caps, "ddr_cap": caps}, world_size=4)
    for topology in (Topology(4, "cuda", custom_topology_data=data), unequal(Topology(4, "cuda"))):
        planner = Planner(topology=topology, constraints=arguments["constraints"], stats=[], effort=2000)
        plan = planner.plan(module, SHARDERS)
        assert check(plan, module, topology, constraints=arguments["constraints"]).is_right


def test_a_plan_that_was_not_searched_for_is_told_as_such():
    module, arguments = cases.random_arguments(3, count=4)
    planner, _ = cases.plan_with(Planner, module, arguments, effort=2000)
    assert planner.times
    planner.plan(torch.nn.Linear(2, 2), SHARDERS)
    assert planner.status == "feasible" and not planner.times and planner.certificate.lower_bound is None
    own = Planner(**arguments, proposer=GreedyProposer(), effort=2000)
    assert own.status == "limit"
    own.plan(module, SHARDERS)
    assert own.status == "optimal" and own.certificate.lower_bound > 0  # a caller's proposer has a bound, too


def test_a_timeout_that_torchrec_refuses_is_refused_as_it_does():
    _, arguments = cases.random_arguments(3, count=2)
    for kind in (EmbeddingShardingPlanner, Planner):
        with pytest.raises(AssertionError, match="Timeout must be positive"):
            kind(**arguments, timeout_seconds=0)


def test_numpys_numbers_are_numbers():
    tables = [("a", 5000, 64), ("b", 9000, 32)]
    plans = []
    for number in (int, np.int64):
        module = cases.bags([(name, number(rows), number(columns)) for name, rows, columns in tables])
        topology = Topology(world_size=2, compute_device="cuda", hbm_cap=number(2**30))
        constraints = {"a": ParameterConstraints(min_partition=number(32), pooling_factors=[number(3)])}
        planner = Planner(topology=topology, batch_size=number(64), constraints=constraints, stats=[], effort=2000)
        plans.append(str(planner.plan(module, SHARDERS)))
        assert planner._enumerator.is_native, planner._enumerator.reason
    assert plans[0] == plans[1]
