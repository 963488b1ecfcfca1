"""The legal plans that TorchRec trains wrongly: named by `check`, never made by `Planner`."""

import cases
import pytest
import torch
from torchrec.distributed.embedding import EmbeddingCollectionSharder
from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
from torchrec.distributed.planner.types import ParameterConstraints, PlannerError
from torchrec.distributed.sharding_plan import construct_module_sharding_plan, row_wise, table_wise
from torchrec.distributed.types import ShardingPlan
from torchrec.modules.embedding_configs import PoolingType

from plimsoll.torchrec import Planner, check

SHARDERS = [cases.AllTypes()]
TOPOLOGY = Topology(world_size=4, local_world_size=2, compute_device="cpu")


def made_by_torchrec(module, constraints, topology=TOPOLOGY):
    planner = EmbeddingShardingPlanner(topology=topology, constraints=constraints, stats=[])
    return planner.plan(module, SHARDERS)


def only(kind, *names):
    return {name: ParameterConstraints(sharding_types=[kind], min_partition=16) for name in names}


def codes(report):
    return {hazard["code"] for hazard in report.hazards}


MEAN = {"pooling": PoolingType.MEAN}
CASES = {
    "mean_pooling_grid": (cases.bags([("a", 400, 64)], **MEAN), only("grid_shard", "a")),
    "mean_pooling_mixed_rows": (
        cases.bags([("a", 400, 64), ("b", 400, 64)], **MEAN),
        only("row_wise", "a") | only("table_wise", "b"),
    ),
    "empty_row_shards": (cases.bags([("a", 5, 64)]), only("row_wise", "a")),
}


@pytest.mark.parametrize("code", CASES)
def test_torchrecs_plan_is_named_and_ours_is_not_made(code):
    module, constraints = CASES[code]
    plan = made_by_torchrec(module, constraints)
    report = check(plan, module, TOPOLOGY, sharders=SHARDERS, constraints=constraints)
    assert code in codes(report) and not report.is_right
    lenient = check(plan, module, TOPOLOGY, sharders=SHARDERS, constraints=constraints, strict=False)
    assert code in codes(lenient) and lenient.is_right, lenient.violations
    with pytest.raises(PlannerError, match="trains wrongly"):
        Planner(topology=TOPOLOGY, constraints=constraints, stats=[]).plan(module, SHARDERS)
    planner = Planner(topology=TOPOLOGY, constraints=constraints, stats=[], strict=False)
    assert str(planner.plan(module, SHARDERS)) == str(plan) or planner.certificate.objective > 0


def test_uneven_row_cuts_are_named():
    module = cases.bags([("a", 100, 64)])
    topology = Topology(
        world_size=4, compute_device="cpu", custom_topology_data=_caps([4 * 2**30, 3 * 2**30, 2 * 2**30, 2**30])
    )
    plan = made_by_torchrec(module, only("row_wise", "a"), topology)
    assert [s.shard_sizes[0] for s in plan.plan[""]["a"].sharding_spec.shards] == [40, 30, 20, 10]
    assert "uneven_rows" in codes(check(plan, module, TOPOLOGY, sharders=SHARDERS))
    with pytest.raises(PlannerError, match="trains wrongly"):
        Planner(topology=topology, constraints=only("row_wise", "a"), stats=[]).plan(module, SHARDERS)


def _caps(caps):
    from torchrec.distributed.planner.types import CustomTopologyData

    return CustomTopologyData(data={"ddr_cap": caps, "hbm_cap": caps}, world_size=len(caps))


def test_what_the_runtime_cannot_hold_is_named():
    module = cases.sequences([("a", 400, 64)])  # a replicated sequence on CPU
    sharders = [EmbeddingCollectionSharder()]
    planner = EmbeddingShardingPlanner(topology=TOPOLOGY, constraints=only("data_parallel", "a"), stats=[])
    plan = planner.plan(module, sharders)
    assert "runtime_cannot_hold" in codes(check(plan, module, TOPOLOGY, sharders=sharders))
    with pytest.raises(PlannerError, match="fails at run time"):
        Planner(topology=TOPOLOGY, constraints=only("data_parallel", "a"), stats=[]).plan(module, sharders)


@pytest.mark.parametrize("seed", range(6))
def test_a_mean_pooled_table_never_gets_a_grid_nor_rows_beside_others(seed):
    tables = [(f"t{i}", 1000 * 4 ** ((i + seed) % 5), (64, 128)[(i * seed) % 2]) for i in range(5)]
    module = cases.bags(tables, pooling=PoolingType.MEAN)
    names = [name for name, *_ in tables]
    constraints = {name: ParameterConstraints(sharding_types=cases.TYPES, min_partition=16) for name in names}
    topology = Topology(world_size=4, local_world_size=2, compute_device="cuda")
    planner = Planner(topology=topology, constraints=constraints, stats=[], effort=5000)
    plan = planner.plan(module, SHARDERS)
    types = {sharding.sharding_type for sharding in plan.plan[""].values()}
    assert "grid_shard" not in types
    rows = {"row_wise", "table_row_wise"}
    assert not types & rows or types <= rows
    assert check(plan, module, topology, sharders=SHARDERS, constraints=constraints).is_right


def test_handmade_plans_are_judged():
    module = cases.bags([("a", 400, 64), ("b", 400, 64)])
    made = construct_module_sharding_plan(
        module, {"a": table_wise(rank=3), "b": row_wise()}, local_size=2, world_size=4, device_type="cpu",
        sharder=SHARDERS[0],
    )  # fmt: skip
    plan = ShardingPlan({"": made})
    for sharding in made.values():
        sharding.compute_kernel = "fused"
    assert check(plan, module, TOPOLOGY, sharders=SHARDERS).is_right
    del made["b"]
    assert "missing_table" in {v["code"] for v in check(plan, module, TOPOLOGY, sharders=SHARDERS).violations}
    tiny = Topology(world_size=4, local_world_size=2, compute_device="cpu", ddr_cap=2**10)
    assert "over_capacity" in {v["code"] for v in check(plan, module, tiny, sharders=SHARDERS).violations}


def test_adam_on_cpu_is_known_to_fail():
    from torch.distributed.optim import _apply_optimizer_in_backward

    module = cases.bags([("a", 400, 64)])
    _apply_optimizer_in_backward(torch.optim.Adam, module.parameters(), {"lr": 0.1})
    plan = made_by_torchrec(module, only("table_wise", "a"))
    plan.plan[""]["a"].compute_kernel = "fused"
    assert "runtime_cannot_hold" in codes(check(plan, module, TOPOLOGY, sharders=SHARDERS))
