"""The legal plans that TorchRec trains wrongly: named by `check`, never made by `Planner`."""

import copy

import cases
import pytest
import torch
from torchrec.distributed.embedding import EmbeddingCollectionSharder
from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
from torchrec.distributed.planner.types import ParameterConstraints, PlannerError
from torchrec.distributed.sharding_plan import construct_module_sharding_plan, row_wise, table_wise
from torchrec.distributed.types import EnumerableShardingSpec, ParameterSharding, ShardingPlan, ShardMetadata
from torchrec.modules.embedding_configs import PoolingType
from torchrec.modules.embedding_modules import EmbeddingBagCollection

from plimsoll.torchrec import Planner, check
from plimsoll.torchrec._model import kind_of

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
    with pytest.raises(PlannerError, match=f"{code} of "):
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
    for judged_on in (TOPOLOGY, topology):
        assert "uneven_rows" in codes(check(plan, module, judged_on, sharders=SHARDERS))
    with pytest.raises(PlannerError, match="without a hazard"):
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
    with pytest.raises(PlannerError, match="runtime_cannot_hold of"):
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


def made(kind, shards, kernel="fused", device="cpu"):
    """A plan of table "a" drawn by hand: shards as (row, column, rows, columns, rank); none of data_parallel."""
    metadata = [
        ShardMetadata(shard_offsets=[r, c], shard_sizes=[rows, columns], placement=f"rank:{rank}/{device}")
        for r, c, rows, columns, rank in shards
    ]
    sharding = ParameterSharding(
        sharding_type=kind,
        compute_kernel=kernel,
        ranks=[shard[-1] for shard in shards] or [0, 1, 2, 3],
        sharding_spec=EnumerableShardingSpec(metadata) if shards else None,
    )
    return ShardingPlan({"": {"a": sharding}})


def rows(*ranks, width=64, column=0):
    """Table "a", 400 x 64, in even blocks of rows."""
    size = 400 // len(ranks)
    return [(size * i, column, size, width, rank) for i, rank in enumerate(ranks)]


def columns(*widths, ranks):
    starts = [sum(widths[:i]) for i in range(len(widths))]
    return [(0, start, 400, width, rank) for start, width, rank in zip(starts, widths, ranks)]


TABLE = cases.bags([("a", 400, 64)])
REFUSED = {  # what the runtime refuses, often on one rank while the others wait
    "row_wise on two of four ranks": (made("row_wise", rows(0, 1)), "wrong_shard_count"),
    "more shards than ranks": (made("row_wise", rows(0, 1, 2, 3, 0)), "wrong_shard_count"),
    "rows that no shard holds": (made("row_wise", [*rows(0, 1, 2, 3)[:3], (300, 0, 50, 64, 3)]), "not_covered"),
    "table_row_wise across hosts": (made("table_row_wise", rows(1, 2)), "wrong_group"),
    "a width that 4 does not divide": (made("column_wise", columns(62, 2, ranks=[0, 1])), "width_not_divisible"),
    "a rank that is not there": (made("table_wise", rows(4)), "rank_out_of_range"),
    "placed on another device": (made("table_wise", rows(1), device="cuda:0"), "wrong_machine"),
    "dense beside data_parallel": (made("table_wise", rows(1), kernel="dense"), "dense_off_data_parallel"),
    "data_parallel in a fused kernel": (made("data_parallel", [], kernel="fused"), "kernel_not_allowed"),
    "a quantised kernel": (made("table_wise", rows(1), kernel="quant"), "kernel_not_allowed"),
    "a key-value store on cpu": (made("table_wise", rows(1), kernel="key_value"), "kernel_not_allowed"),
}
CARRIED = {  # what TorchRec's planner never makes, and its runtime carries rightly
    "columns on one rank": made("column_wise", columns(32, 32, ranks=[1, 1])),
    "uneven columns": made("column_wise", columns(16, 48, ranks=[3, 0])),
    "columns in any order": made("column_wise", columns(16, 16, 16, 16, ranks=[3, 0, 2, 0])),
    "columns of a host on one rank": made("table_column_wise", columns(32, 32, ranks=[2, 2])),
    "both blocks of a grid on one host": made("grid_shard", rows(0, 1, width=32) + rows(0, 1, width=32, column=32)),
    "blocks of a grid from host to host": made("grid_shard", rows(2, 3, width=32) + rows(0, 1, width=32, column=32)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_runtime_refuses_is_a_violation(name):
    plan, code = REFUSED[name]
    report = check(plan, TABLE, TOPOLOGY, sharders=SHARDERS, strict=False)
    assert code in {violation["code"] for violation in report.violations}, report.violations


@pytest.mark.parametrize("name", CARRIED)
def test_what_the_runtime_carries_is_right(name):
    report = check(CARRIED[name], TABLE, TOPOLOGY, sharders=SHARDERS)
    assert report.is_right, report.violations


@pytest.mark.parametrize("kind", ["table_row_wise", "table_column_wise", "grid_shard"])
def test_a_sequence_is_not_cut_over_a_host(kind):
    class Sharder(EmbeddingCollectionSharder):
        def sharding_types(self, compute_device_type):
            return cases.TYPES

    module = cases.sequences([("a", 400, 64)])
    shards = rows(0, 1) if kind == "table_row_wise" else columns(32, 32, ranks=[0, 1])
    assert "runtime_cannot_hold" in codes(check(made(kind, shards), module, TOPOLOGY, sharders=[Sharder()]))
    with pytest.raises(PlannerError, match="runtime_cannot_hold of"):
        Planner(topology=TOPOLOGY, constraints=only(kind, "a"), stats=[]).plan(module, [Sharder()])
    free = {"a": ParameterConstraints(sharding_types=cases.TYPES, min_partition=16)}
    plan = Planner(topology=TOPOLOGY, constraints=free, stats=[]).plan(module, [Sharder()])
    assert check(plan, module, TOPOLOGY, sharders=[Sharder()]).is_right


def test_bytes_are_those_that_torchrec_planned_with():
    module, arguments = cases.random_arguments(4, count=6, ranks=8)
    planner, plan = cases.plan_with(EmbeddingShardingPlanner, module, arguments)
    report = check(plan, module, planner._topology, constraints=arguments["constraints"], batch_size=1024)
    assert report.is_right, report.violations
    planned = [[0, 0] for _ in range(8)]
    for option in planner._best_plan:
        for shard in option.shards:
            planned[shard.rank][0] += shard.storage.hbm
            planned[shard.rank][1] += shard.storage.ddr
    assert [[rank["used"]["hbm"], rank["used"]["ddr"]] for rank in report.document["ranks"]] == planned


def test_caps_of_every_rank_are_kept():
    topology = copy.deepcopy(TOPOLOGY)
    for rank, device in enumerate(topology.devices):
        device.storage.ddr = 2**10 if rank == 2 else 2**30
    for rank in range(4):
        report = check(made("table_wise", rows(rank)), TABLE, topology, sharders=SHARDERS)
        assert report.is_right == (rank != 2)
    constraints = {"a": ParameterConstraints(sharding_types=["table_wise", "column_wise"], min_partition=32)}
    planner = Planner(topology=topology, constraints=constraints, stats=[])
    plan = planner.plan(TABLE, SHARDERS)
    assert 2 not in plan.plan[""]["a"].ranks and check(plan, TABLE, topology, sharders=SHARDERS).is_right


def test_modules_of_the_users_own():
    class Own(EmbeddingBagCollection):
        pass

    class OwnSharder(cases.AllTypes):
        @property
        def module_type(self):
            return Own

    module = Own(tables=cases.bags([("a", 400, 64)], **MEAN).embedding_bag_configs(), device=torch.device("meta"))
    plan = CARRIED["both blocks of a grid on one host"]
    assert codes(check(plan, module, TOPOLOGY, sharders=[OwnSharder()])) == {"mean_pooling_grid"}

    from torchrec.quant.embedding_modules import EmbeddingBagCollection as Quantised

    assert kind_of(Quantised.__new__(Quantised)) == "quant_embedding_bag_collection"  # of the same name


def towers(*pairs):
    from torchrec.modules.embedding_tower import EmbeddingTower, EmbeddingTowerCollection

    return EmbeddingTowerCollection(
        [EmbeddingTower(cases.bags(tables, **MEAN), torch.nn.Identity()) for tables in pairs]
    )


def managed(module):
    from torchrec.modules.mc_embedding_modules import ManagedCollisionEmbeddingBagCollection
    from torchrec.modules.mc_modules import (
        DistanceLFU_EvictionPolicy,
        ManagedCollisionCollection,
        MCHManagedCollisionModule,
    )

    configs = module.embedding_bag_configs()
    modules = {
        config.name: MCHManagedCollisionModule(
            zch_size=config.num_embeddings,
            device=torch.device("meta"),
            eviction_policy=DistanceLFU_EvictionPolicy(),
            eviction_interval=100,
            buckets=4,  # of four ranks
        )
        for config in configs
    }
    return ManagedCollisionEmbeddingBagCollection(module, ManagedCollisionCollection(modules, configs))


class Derived(EmbeddingBagCollection):
    pass


class DerivedSharder(cases.AllTypes):
    @property
    def module_type(self):
        return Derived


def derived(tables):
    return Derived(tables=cases.bags(tables, **MEAN).embedding_bag_configs(), device=torch.device("meta"))


@pytest.mark.parametrize("kind", ["towers", "derived"])
def test_mean_pooling_within_other_modules_is_known(kind):
    from torchrec.distributed.embedding_tower_sharding import EmbeddingTowerCollectionSharder

    tables = [("a", 400, 64), ("b", 400, 64)]
    if kind == "towers":
        module, sharder = towers(tables, [("c", 400, 64)]), EmbeddingTowerCollectionSharder()
        rows, columns = "table_row_wise", "table_column_wise"
    else:
        module, sharder = derived(tables), DerivedSharder()
        rows, columns = "row_wise", "column_wise"
    topology = Topology(world_size=4, local_world_size=2, compute_device="cuda")
    constraints = only(rows, "a") | only(columns, "b", "c")
    arguments = {"topology": topology, "stats": []}
    plan = EmbeddingShardingPlanner(**arguments, constraints=constraints).plan(module, [sharder])
    report = check(plan, module, topology, sharders=[sharder], constraints=constraints)
    assert codes(report) == {"mean_pooling_mixed_rows"}, report.violations
    with pytest.raises(PlannerError, match="without a hazard"):
        Planner(**arguments, constraints=constraints).plan(module, [sharder])
    del constraints["b"]  # then both are cut by rows, and the other tower as it was
    plan = Planner(**arguments, constraints=constraints).plan(module, [sharder])
    assert check(plan, module, topology, sharders=[sharder], constraints=constraints).is_right


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_a_plain_bag_of_torch_is_judged(mode):
    from torchrec.distributed.embeddingbag import EmbeddingBagSharder

    module = torch.nn.Sequential(torch.nn.EmbeddingBag(400, 64, mode=mode, device="meta"))
    topology = Topology(world_size=4, local_world_size=2, compute_device="cuda")
    constraints = only("grid_shard", "weight")
    arguments = {"topology": topology, "stats": []}
    plan = EmbeddingShardingPlanner(**arguments, constraints=constraints).plan(module, [EmbeddingBagSharder()])
    report = check(plan, module, topology, sharders=[EmbeddingBagSharder()], constraints=constraints)
    assert codes(report) == ({"mean_pooling_grid"} if mode == "mean" else set()), report.violations
    plan = Planner(**arguments).plan(module, [EmbeddingBagSharder()])
    assert check(plan, module, topology, sharders=[EmbeddingBagSharder()]).is_right


def test_a_tower_that_is_the_whole_model_stands_on_one_host():
    from torchrec.distributed.embedding_tower_sharding import EmbeddingTowerSharder
    from torchrec.modules.embedding_tower import EmbeddingTower

    module = EmbeddingTower(cases.bags([(f"t{i}", 4000 * (i + 1), 64) for i in range(4)]), torch.nn.Identity())
    topology = Topology(world_size=8, local_world_size=2, compute_device="cuda")
    plan = Planner(topology=topology, stats=[]).plan(module, [EmbeddingTowerSharder()])
    assert check(plan, module, topology, sharders=[EmbeddingTowerSharder()]).is_right


def test_managed_collisions_are_planned_and_judged():
    from torchrec.distributed.mc_embeddingbag import ManagedCollisionEmbeddingBagCollectionSharder

    module, sharders = (
        managed(cases.bags([("a", 400, 64), ("b", 400, 64)], **MEAN)),
        [ManagedCollisionEmbeddingBagCollectionSharder()],
    )
    topology = Topology(world_size=4, local_world_size=2, compute_device="cuda")
    plan = Planner(topology=topology, stats=[]).plan(module, sharders)
    assert {sharding.sharding_type for sharding in plan.plan[""].values()} == {"row_wise"}
    report = check(plan, module, topology, sharders=sharders)
    assert report.is_right and not report.hazards, report.violations


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_width_that_no_kernel_holds_is_replicated_or_refused(device):
    """FBGEMM's kernels want widths that are multiples of 4; the dense kernel of replicas takes any."""
    module = cases.bags([("a", 400, 10), ("b", 400, 64)])
    topology = Topology(world_size=4, local_world_size=2, compute_device=device)
    arguments = {"topology": topology, "stats": []}
    plan = EmbeddingShardingPlanner(**arguments, constraints=only("table_wise", "a")).plan(module, SHARDERS)
    assert codes(check(plan, module, topology, sharders=SHARDERS)) == {"runtime_cannot_hold"}
    plan = Planner(**arguments).plan(module, SHARDERS)
    assert plan.plan[""]["a"].sharding_type == "data_parallel"
    assert check(plan, module, topology, sharders=SHARDERS).is_right
    with pytest.raises(PlannerError, match="runtime_cannot_hold of"):
        Planner(**arguments, constraints=only("table_wise", "a")).plan(module, SHARDERS)


def test_what_fits_with_a_hazard_alone_says_so():
    module = cases.bags([("a", 4_000_000, 10)])
    topology = Topology(world_size=4, local_world_size=4, compute_device="cuda", hbm_cap=2**27, ddr_cap=1)
    arguments = {"topology": topology, "batch_size": 8, "stats": []}
    assert EmbeddingShardingPlanner(**arguments).plan(module, SHARDERS)
    with pytest.raises(PlannerError, match="strict=False has a plan"):
        Planner(**arguments).plan(module, SHARDERS)
    assert Planner(**arguments, strict=False).plan(module, SHARDERS).plan[""]


def test_mean_pooled_tables_are_cut_by_rows_where_nothing_else_fits():
    module = cases.bags([("a", 4_000_000, 128), ("b", 5000, 128)], **MEAN)
    topology = Topology(world_size=8, local_world_size=8, compute_device="cuda", hbm_cap=2**30, ddr_cap=1)
    planner = Planner(topology=topology, batch_size=8, stats=[], objective="rating", effort=5000)
    plan = planner.plan(module, SHARDERS)
    assert {sharding.sharding_type for sharding in plan.plan[""].values()} <= {"row_wise", "table_row_wise"}
    assert planner.certificate.lower_bound > 0
    report = check(plan, module, topology, sharders=SHARDERS, batch_size=8)
    assert report.is_right and not report.hazards, report.violations


def test_tables_of_other_devices_are_not_missed():
    module = cases.bags([("a", 400, 64), ("b", 400, 64)])
    constraints = {"a": ParameterConstraints(device_group="cuda")}
    plan = Planner(topology=TOPOLOGY, constraints=constraints, stats=[]).plan(module, SHARDERS)
    assert set(plan.plan[""]) == {"b"}
    assert check(plan, module, TOPOLOGY, sharders=SHARDERS, constraints=constraints).is_right
    assert not check(plan, module, TOPOLOGY, sharders=SHARDERS).is_right


def test_ranks_may_be_left_to_the_placements():
    module = cases.bags([("a", 400, 64)])
    plan = made_by_torchrec(module, only("row_wise", "a"))
    plan.plan[""]["a"].ranks = None
    assert check(plan, module, TOPOLOGY, sharders=SHARDERS).is_right
