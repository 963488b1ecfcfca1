"""Every kind of module, whatever its sharder and its tables are told, is counted as TorchRec counts it."""

import random

import cases
import kinds
import pytest
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.fbgemm_qcomm_codec import CommType, QCommsConfig, get_qcomm_codecs_registry
from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
from torchrec.distributed.planner.storage_reservations import (
    FixedPercentageStorageReservation,
    HeuristicalStorageReservation,
    InferenceStorageReservation,
)
from torchrec.distributed.planner.types import CustomTopologyData, ParameterConstraints, PlannerError
from torchrec.distributed.types import CacheParams, CommOp
from torchrec.modules.embedding_configs import DataType

from plimsoll import Error
from plimsoll.torchrec import Planner, check
from plimsoll.torchrec._model import Unknown, exact_model_document

NAMES = [f"t{i}" for i in range(4)]
STATED = {  # (constraints, arguments of the sharder)
    "nothing": ({}, {}),
    "output_dtype": ({"output_dtype": DataType.FP16}, {}),
    "a small cache": (
        {"compute_kernels": ["fused_uvm_caching"], "cache_params": CacheParams(load_factor=0.05)},
        {},
    ),
    "a large cache": ({"compute_kernels": ["fused_uvm_caching"], "cache_params": CacheParams(load_factor=0.9)}, {}),
    "cache statistics": (
        {
            "compute_kernels": ["fused_uvm_caching"],
            "cache_params": CacheParams(load_factor=0.3, stats=kinds.Statistics(), prefetch_pipeline=True),
        },
        {},
    ),
    "a sharder's small cache": (
        {"compute_kernels": ["fused_uvm_caching"]},
        {"fused_params": {"cache_load_factor": 0.05}},
    ),
    "a sharder's large cache": (
        {"compute_kernels": ["fused_uvm_caching"]},
        {"fused_params": {"cache_load_factor": 0.9}},
    ),
    "quantised communication": (
        {},
        {"qcomm_codecs_registry": get_qcomm_codecs_registry(QCommsConfig(CommType.FP16, CommType.FP16))},
    ),
    "quantised communication of one collective": (
        {},
        {
            "qcomm_codecs_registry": get_qcomm_codecs_registry(
                QCommsConfig(CommType.INT8, CommType.BF16), [CommOp.POOLED_EMBEDDINGS_REDUCE_SCATTER]
            )
        },
    ),
}


def stated(name, ranks=2, **topology):
    """(module, sharders, arguments of a planner) of one line of STATED."""
    constraint, sharder = STATED[name]
    constraints = {table: ParameterConstraints(**constraint) for table in NAMES}
    arguments = {
        "topology": Topology(ranks, "cuda", **topology),
        "batch_size": 4096,
        "constraints": constraints,
        "stats": [],
        "storage_reservation": FixedPercentageStorageReservation(0.0),
    }
    return cases.bags([(table, 200000, 64) for table in NAMES]), [EmbeddingBagCollectionSharder(**sharder)], arguments


def used_by(planner):
    """Bytes of HBM that TorchRec counts on every rank."""
    used = [0] * planner._topology.world_size
    for option in planner._best_plan:
        for shard in option.shards:
            used[shard.rank] += shard.storage.hbm
    return used


def judged(plan, module, sharders, arguments, **topology):
    return check(
        plan,
        module,
        Topology(arguments["topology"].world_size, "cuda", **topology),
        sharders=sharders,
        constraints=arguments["constraints"],
        batch_size=arguments["batch_size"],
    )


@pytest.mark.parametrize("name", STATED)
def test_the_judge_counts_as_the_planner(name):
    module, sharders, arguments = stated(name)
    planner = Planner(**arguments, objective="rating", effort=5000)
    plan = planner.plan(module, sharders)
    assert planner._enumerator.is_native, planner._enumerator.reason
    used = used_by(planner)
    report = judged(plan, module, sharders, arguments, hbm_cap=max(used))  # exactly what TorchRec counts
    assert report.is_right, report.violations
    assert [rank["used"]["hbm"] for rank in report.document["ranks"]] == used
    assert report.document["rating"] == pytest.approx(cases.rating_of(planner), rel=1e-12)
    assert planner.times["rating"] == pytest.approx(cases.rating_of(planner), rel=1e-12)
    overfull = judged(plan, module, sharders, arguments, hbm_cap=max(used) - 1)
    assert "over_capacity" in {violation["code"] for violation in overfull.violations}


@pytest.mark.parametrize("kind", kinds.KINDS)
def test_native_options_of_every_kind_are_torchrecs_one_by_one(kind):
    compared = cases.compare_options(kind, range(12))
    assert compared >= 6, compared


def forced_back(planner):
    planner._enumerator.wants_all = True
    return planner


PLANNED = [kind for kind in kinds.KINDS if not kind.startswith("quant")]


@pytest.mark.parametrize("seed", range(16))
def test_native_and_fallback_give_the_same_plan(seed):
    module, sharders, topology, constraints = kinds.random_case(seed, kinds=kinds.KINDS if seed % 3 else PLANNED)
    arguments = {"topology": topology, "constraints": constraints, "stats": [], "strict": bool(seed % 2)}
    told = []
    for planner in (Planner(**arguments, effort=3000), forced_back(Planner(**arguments, effort=3000))):
        try:
            plan = planner.plan(module, sharders)
        except (PlannerError, RuntimeError, ValueError, AssertionError) as error:
            told.append((type(error), getattr(error, "explanation", str(error))))
        else:
            told.append((str(plan), planner.certificate, planner.times, planner.status, planner.reference))
        if len(told) == 1 and isinstance(told[0][0], str):
            assert planner._enumerator.is_native, planner._enumerator.reason
        elif len(told) == 2:
            assert not planner._enumerator.is_native
    assert told[0] == told[1]


@pytest.mark.parametrize("seed", range(100, 116))
def test_the_judge_counts_random_models_as_torchrec(seed):
    module, sharders, topology, constraints = kinds.random_case(seed)
    planner = Planner(topology=topology, constraints=constraints, stats=[], strict=False, effort=2000)
    try:
        plan = planner.plan(module, sharders)
    except (RuntimeError, ValueError, AssertionError):
        pytest.skip("TorchRec cannot enumerate it")
    report = check(plan, module, topology, sharders=sharders, constraints=constraints, batch_size=512, strict=False)
    for tier in ("hbm", "ddr"):
        used = [0] * topology.world_size
        for option in planner._best_plan:
            for shard in option.shards:
                used[shard.rank] += getattr(shard.storage, tier)
        assert [rank["used"][tier] for rank in report.document["ranks"]] == used
    assert report.document["rating"] == pytest.approx(cases.rating_of(planner), rel=1e-12)
    assert report.is_right, report.violations


@pytest.mark.parametrize("reservation", [InferenceStorageReservation, HeuristicalStorageReservation])
def test_every_reservation_of_torchrecs_is_native(reservation):
    module, sharders, arguments = stated("nothing")
    arguments["storage_reservation"] = reservation(0.1)
    planner = Planner(**arguments, effort=2000)
    planner.plan(module, sharders)
    assert planner._enumerator.is_native, planner._enumerator.reason
    own = EmbeddingShardingPlanner(**arguments)
    own.plan(module, sharders)
    assert planner.reference["rating"] == pytest.approx(cases.rating_of(own), rel=1e-9)


def test_rows_cut_by_memory_are_native():
    data = CustomTopologyData({"hbm_cap": [2**34, 2**33, 2**32, 2**31]}, 4)
    topology = Topology(4, "cuda", custom_topology_data=data)
    module = cases.bags([(table, 200000, 64) for table in NAMES])
    constraints = {table: ParameterConstraints(sharding_types=["row_wise"]) for table in NAMES}
    planner = Planner(topology=topology, constraints=constraints, stats=[], strict=False, effort=2000)
    planner.plan(module, [EmbeddingBagCollectionSharder()])
    assert planner._enumerator.is_native, planner._enumerator.reason
    rows = [shard.size[0] for shard in planner._best_plan[0].shards]
    assert rows[0] > rows[1] > rows[2] > rows[3]


def test_tables_of_one_name_are_native():
    module = kinds.Net([cases.bags([("a", 5000, 64), ("b", 700, 32)]), cases.bags([("a", 90000, 128)])])
    planner = Planner(topology=Topology(4, "cuda"), stats=[], effort=2000)
    planner.plan(module, [EmbeddingBagCollectionSharder()])
    assert planner._enumerator.is_native, planner._enumerator.reason
    assert {option.fqn for option in planner._best_plan} == {"part0.a", "part0.b", "part1.a"}


class Fewer(EmbeddingBagCollectionSharder):
    def sharding_types(self, compute_device_type):
        return ["table_wise"]


def test_what_is_not_torchrecs_own_is_not_native():
    module = cases.bags([("a", 5000, 64)])
    with pytest.raises(Unknown, match="Fewer"):
        exact_model_document(module, [Fewer()], None)
    own = kinds.FeatureProcessedEmbeddingBagCollectionSharder(Fewer())
    with pytest.raises(Unknown, match="FeatureProcessed"):
        exact_model_document(kinds.Make(random.Random(1)).processed(), [own], None)


def test_an_option_that_torchrec_counts_otherwise_is_noticed_where_no_plan_takes_it(monkeypatch):
    from torchrec.distributed.planner import shard_estimators

    module, sharders, arguments = stated("nothing")
    planner = Planner(**arguments, effort=2000)
    plan = planner.plan(module, sharders)
    assert planner._enumerator.is_native
    taken = {option.compute_kernel for option in planner._best_plan}
    assert "fused_uvm" not in taken
    counted = shard_estimators.EmbeddingStorageEstimator.estimate

    def dearer(self, sharding_options, *args, **more):
        counted(self, sharding_options, *args, **more)
        for option in sharding_options:
            if option.compute_kernel == "fused_uvm":
                for shard in option.shards:
                    shard.storage.ddr += 1

    monkeypatch.setattr(shard_estimators.EmbeddingStorageEstimator, "estimate", dearer)
    again = Planner(**arguments, effort=2000)
    assert str(again.plan(module, sharders)) == str(plan)
    assert not again._enumerator.is_native and "TorchRec has" in again._enumerator.reason


def test_what_the_document_cannot_say_is_left_to_torchrec():
    module, sharders, arguments = stated("nothing")
    arguments["constraints"]["t0"] = ParameterConstraints(cache_params=CacheParams(load_factor=1.5))
    planner = Planner(**arguments, effort=2000)
    with pytest.raises((Error, PlannerError, ValueError, AssertionError)) as raised:
        planner._enumerator._enumerate_natively(module, sharders)
    assert "load_factor" in str(raised.value)
