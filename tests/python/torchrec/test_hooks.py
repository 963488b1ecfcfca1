"""A machine document in TorchRec's own estimator: what a shard costs is what the document says of it."""

import json
import math
import pathlib

import cases
import pytest
from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
from torchrec.distributed.planner.enumerators import EmbeddingEnumerator
from torchrec.distributed.planner.shard_estimators import EmbeddingStorageEstimator
from torchrec.distributed.planner.types import CollectiveType, ParameterConstraints

import plimsoll
from plimsoll.torchrec import comms_bandwidths, perf_config

estimators = pytest.importorskip("torchrec.distributed.planner.estimator")  # of TorchRec 1.8

MIB = 2**20
RANKS, BATCH, IDS, ROWS, COLUMNS = 2, 128, 5.0, 10_000, 16
FORWARD = {"call_ns": 9e5, "table_ns": 1e5, "lookup_ns": 40, "read_byte_ns": 2, "output_byte_ns": 3}
FORWARD_MISS = {**FORWARD, "distinct_byte_miss_ns": 0.5}
BACKWARD = {"table_ns": 3e5, "lookup_ns": 10, "read_byte_ns": 1, "output_byte_ns": 2, "distinct_row_ns": 70}


def kernel(name, direction, terms, **more):
    return {"kernel": name, "data_type": "fp32", "direction": direction, "terms": terms, **more}


def machine():
    sizes = [4 * MIB, 16 * MIB]
    tables = [
        {"operation": operation, "group": group, "ranks": RANKS, "bytes": sizes, "ms": [ms, 4 * ms]}
        for group, times in (("host", (1, 2, 4, 8)), ("world", (10, 20, 40, 80)))
        for operation, ms in zip(("all_to_all", "reduce_scatter", "all_gather", "all_reduce"), times)
    ]
    return {
        "schema": "plimsoll.machine/1",
        "name": "mine",
        "kernels": [
            kernel("fused", "forward", FORWARD_MISS),
            kernel("fused", "backward", BACKWARD, optimizer="sgd"),
            kernel("dense", "forward", FORWARD),
            kernel("dense", "backward", {**BACKWARD, "weight_byte_ns": 0.25}),
        ],
        "collectives": tables,
        "step": {"kernel_weight": 2.0, "collective_weight": 0.5},
    }


def options(document, **settings):
    """{(sharding type, kernel): the perf of the first shard} of one table, by TorchRec's enumerator."""
    topology = Topology(
        world_size=RANKS,
        local_world_size=RANKS,
        compute_device="cuda",
        generalized_comms_bandwidths=comms_bandwidths(document),
    )
    constraints = {"t": ParameterConstraints(pooling_factors=[IDS])}
    config = perf_config(document, topology, **settings)
    estimator = estimators.EmbeddingPerfEstimatorV2(topology, constraints, config=config)
    storage = EmbeddingStorageEstimator(topology, constraints)
    enumerator = EmbeddingEnumerator(topology, BATCH, constraints, estimator=[estimator, storage])
    found = enumerator.enumerate(cases.bags([("t", ROWS, COLUMNS)]), [cases.AllTypes()])
    return topology, enumerator, {(o.sharding_type, o.compute_kernel): o.shards[0].perf for o in found}


def by_hand(terms, lookups, samples, misses=0.0):
    """ms of a shard whose ids are all distinct, without its call."""
    read = lookups * COLUMNS * 4
    ns = terms["table_ns"] + (terms["lookup_ns"] + terms.get("distinct_row_ns", 0)) * lookups
    ns += (terms["read_byte_ns"] + misses * terms.get("distinct_byte_miss_ns", 0)) * read
    return 2.0 * 1e-6 * (ns + terms["output_byte_ns"] * 4 * COLUMNS * samples)


def test_kernels_cost_what_the_document_says():
    _, _, perfs = options(machine(), shard_bytes=8 * MIB)
    lookups, samples = IDS * BATCH * RANKS, BATCH * RANKS
    whole = perfs["table_wise", "fused"]
    assert whole.fwd_compute == pytest.approx(by_hand(FORWARD_MISS, lookups, samples, misses=3))
    assert whole.bwd_compute == pytest.approx(by_hand(BACKWARD, lookups, samples))
    replica = perfs["data_parallel", "dense"]
    step = 2.0 * 1e-6 * 0.25 * 4 * ROWS * COLUMNS
    assert replica.fwd_compute == pytest.approx(by_hand(FORWARD, lookups / RANKS, samples / RANKS))
    assert replica.bwd_comms == pytest.approx(4 * ROWS * COLUMNS / (4 * MIB / (8 * 0.5)))
    assert replica.bwd_compute == pytest.approx(by_hand(BACKWARD, lookups / RANKS, samples / RANKS) + step)


def test_collectives_take_as_long_as_the_tables_say():
    bandwidths = comms_bandwidths(machine(), message_bytes=16 * MIB)
    assert bandwidths.get_bw(8, 8, CollectiveType.ALL_TO_ALL) == pytest.approx(16 * MIB / (4 * 0.5))
    assert bandwidths.get_bw(8, 16, CollectiveType.ALL_GATHER) == pytest.approx(16 * MIB / (160 * 0.5))
    assert bandwidths.intra_host_bw == pytest.approx(10 * bandwidths.inter_host_bw)
    fewer = machine()
    fewer["collectives"] = [table for table in fewer["collectives"] if table["operation"] != "all_reduce"]
    summed = comms_bandwidths(fewer).get_bw(8, 8, CollectiveType.ALL_REDUCE)
    assert summed == pytest.approx(4 * MIB / ((2 + 4) * 0.5))
    with pytest.raises(plimsoll.Error, match="no times of all_to_all"):
        comms_bandwidths({**fewer, "collectives": []}).get_bw(8, 8, CollectiveType.ALL_TO_ALL)
    _, _, perfs = options(machine())
    sent = BATCH * RANKS * COLUMNS * 4
    assert perfs["table_wise", "fused"].fwd_comms == pytest.approx(sent / (4 * MIB / 0.5))


def test_torchrecs_planner_follows_the_times():
    """Where a look-up costs next to nothing and an exchange much, it replicates the table; else it does not."""
    slow = machine()
    for table in slow["collectives"]:
        table["ms"] = [1000 * ms if table["operation"] != "all_reduce" else ms / 1000 for ms in table["ms"]]
    slow["kernels"][3]["terms"]["weight_byte_ns"] = 0.0
    kinds = []
    for document in (slow, machine()):
        topology, enumerator, _ = options(document)
        planner = EmbeddingShardingPlanner(topology=topology, enumerator=enumerator, stats=[])
        plan = planner.plan(cases.bags([("t", ROWS, COLUMNS)]), [cases.AllTypes()])
        kinds.append(plan.plan[""]["t"].sharding_type)
    assert kinds[0] == "data_parallel" != kinds[1]


def test_the_error_of_the_export_is_stated():
    document = machine()
    for entry in document["kernels"][:2]:
        known = {"tables": 1, "lookups": 1000, "read_bytes": 64_000, "output_bytes": 6400, "distinct_rows": 500}
        entry["points"] = [{"variables": known | {"distinct_byte_misses": 0.0, "weight_bytes": 0}}]
    topology = Topology(world_size=RANKS, compute_device="cuda")
    config = perf_config(document, topology, shard_bytes=MIB)
    rest = 1e5 + 40 * 1000 + 2 * 64_000 + 3 * 6400
    forward = rest / (rest + 9e5) - 1
    rest = 3e5 + 10 * 1000 + 64_000 + 2 * 6400
    backward = (rest + 70 * 1000) / (rest + 70 * 500) - 1
    assert config.mean_error == pytest.approx((abs(forward) + abs(backward)) / 2)
    assert perf_config(machine(), topology).mean_error is None


def test_a_shipped_machine_and_one_that_lacks_a_kernel():
    root = pathlib.Path(__file__).resolve().parents[3]
    document = json.loads((root / "data/machines/h100-sxm5-80gb.json").read_text())
    by_name, by_document = (options(given)[2] for given in ("h100-sxm5-80gb", document))
    assert by_name == by_document and math.isfinite(by_name["row_wise", "fused"].total)
    with pytest.raises(plimsoll.Error, match="no fused kernel for fp16"):
        options(document, data_type="fp16")
