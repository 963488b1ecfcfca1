"""Hazards of pairs of tables and of numbers, plans of others' models and callbacks, and what is told of them."""

import cases
import pytest
import ranks
import torch
import torch.distributed as dist
from torch.distributed.optim import _apply_optimizer_in_backward
from torchrec.distributed.embedding import EmbeddingCollectionSharder
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
from torchrec.distributed.planner.perf_models import NoopPerfModel
from torchrec.distributed.planner.types import ParameterConstraints, PlannerError
from torchrec.distributed.types import ShardingEnv
from torchrec.optim.rowwise_adagrad import RowWiseAdagrad
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from plimsoll.torchrec import Planner, check

TOPOLOGY = Topology(world_size=2, compute_device="cpu")
SEQUENCES = [EmbeddingCollectionSharder()]
BAGS = [EmbeddingBagCollectionSharder()]
# a alone may be cut to other widths than b, or not at all.
WIDTHS = {
    "a": ParameterConstraints(sharding_types=["table_wise", "column_wise"]),
    "b": ParameterConstraints(sharding_types=["column_wise"], min_partition=32),
}


def codes(report):
    return {hazard["code"] for hazard in report.hazards}


def types_of(plan):
    return {name: sharding.sharding_type for name, sharding in plan.plan[""].items()}


def column_plan(module, sharders, topology=TOPOLOGY, **partitions):
    """TorchRec's plan of columns, of the widths that are given."""
    constraints = {
        name: ParameterConstraints(sharding_types=["column_wise"], min_partition=width)
        for name, width in partitions.items()
    }
    planner = EmbeddingShardingPlanner(topology=topology, constraints=constraints, stats=[])
    return planner.plan(module, sharders), constraints


def test_column_cuts_of_several_widths_in_one_collection_of_sequences():
    module = cases.sequences([("a", 1000, 64), ("b", 1000, 64)])
    plan, constraints = column_plan(module, SEQUENCES, a=32, b=16)
    report = check(plan, module, TOPOLOGY, sharders=SEQUENCES, constraints=constraints)
    assert codes(report) == {"mixed_column_widths"} and not report.is_right
    with pytest.raises(PlannerError, match=r"mixed_column_widths of \.[ab]"):
        Planner(topology=TOPOLOGY, constraints=constraints, stats=[]).plan(module, SEQUENCES)
    planner = Planner(topology=TOPOLOGY, constraints=constraints, stats=[], strict=False)
    planner.plan(module, SEQUENCES)
    # As pooled tables they are right, and so are sequences of one width.
    bags = cases.bags([("a", 1000, 64), ("b", 1000, 64)])
    pooled, _ = column_plan(bags, BAGS, a=32, b=16)
    assert not check(pooled, bags, TOPOLOGY, sharders=BAGS, constraints=constraints).hazards
    even, same = column_plan(module, SEQUENCES, a=16, b=16)
    assert not check(even, module, TOPOLOGY, sharders=SEQUENCES, constraints=same).hazards


def train_sequences(rank):
    module = cases.sequences([("a", 1000, 64), ("b", 1000, 64)])
    _apply_optimizer_in_backward(torch.optim.SGD, module.parameters(), {"lr": 0.1})
    planner = Planner(topology=TOPOLOGY, constraints=WIDTHS, stats=[])
    plan = planner.collective_plan(module, SEQUENCES, dist.GroupMember.WORLD)
    assert check(plan, module, TOPOLOGY, sharders=SEQUENCES, constraints=WIDTHS).is_right
    sharded = DistributedModelParallel(
        module, env=ShardingEnv.from_process_group(dist.GroupMember.WORLD), plan=plan, sharders=SEQUENCES,
        device=torch.device("cpu"),
    )  # fmt: skip
    torch.manual_seed(0)
    whole = cases.sequences([("a", 1000, 64), ("b", 1000, 64)], device="cpu")
    sharded.load_state_dict(whole.state_dict())
    batch = KeyedJaggedTensor(keys=["f_a", "f_b"], values=torch.arange(8), lengths=torch.ones(8, dtype=torch.int64))
    out, right = sharded(batch).wait(), whole(batch)
    error = max(float((out[key].values() - right[key].values()).abs().max()) for key in out)
    sum(value.values().sum() for value in out.values()).backward()
    return error, types_of(plan)


def test_sequences_beside_a_constrained_one_train():
    for error, types in ranks.run(2, train_sequences):
        assert error < 1e-6
        assert types == {"a": "table_wise", "b": "column_wise"}


def bags_with(optimizer, sharders=None, **given):
    module = cases.bags([("a", 1000, 64), ("b", 1000, 64)])
    if optimizer is not None:
        _apply_optimizer_in_backward(optimizer, module.parameters(), {"lr": 0.1})
    return module


def test_an_optimizer_state_for_each_block_is_named_and_may_be_ruled_out():
    module = bags_with(RowWiseAdagrad)
    plan, constraints = column_plan(module, BAGS, a=16, b=32)
    report = check(plan, module, TOPOLOGY, sharders=BAGS, constraints=constraints)
    assert codes(report) == {"optimizer_state_per_block"} and report.is_right
    assert not check(plan, module, TOPOLOGY, sharders=BAGS, constraints=constraints, strict_numerics=True).is_right
    planner = Planner(topology=TOPOLOGY, constraints=constraints, stats=[])
    planner.plan(module, BAGS)
    assert "optimizer_state_per_block" in {code for code, _, _ in planner.warnings}
    with pytest.raises(PlannerError, match=r"table \.a: optimizer_state_per_block") as raised:
        Planner(topology=TOPOLOGY, constraints=constraints, stats=[], strict_numerics=True).plan(module, BAGS)
    assert raised.value.tables == (".a",)
    assert "strict_numerics=False has a plan" in str(raised.value)
    constraints["a"].sharding_types = constraints["b"].sharding_types = ["column_wise", "table_wise"]
    strict = Planner(topology=TOPOLOGY, constraints=constraints, stats=[], strict_numerics=True)
    assert set(types_of(strict.plan(module, BAGS)).values()) == {"table_wise"}
    assert not strict.warnings
    # Adagrad keeps a number for each cell.
    other = bags_with(torch.optim.Adagrad)
    assert not check(column_plan(other, BAGS, a=16, b=32)[0], other, TOPOLOGY, sharders=BAGS).hazards


def test_the_optimizer_of_fused_params_is_known():
    from fbgemm_gpu.split_embedding_configs import EmbOptimType

    for optimizer, wanted in (
        (EmbOptimType.EXACT_ROWWISE_ADAGRAD, {"optimizer_state_per_block"}),
        (EmbOptimType.EXACT_SGD, set()),
    ):
        sharders = [EmbeddingBagCollectionSharder(fused_params={"optimizer": optimizer})]
        module = bags_with(None)
        plan, constraints = column_plan(module, sharders, a=16, b=32)
        assert codes(check(plan, module, TOPOLOGY, sharders=sharders, constraints=constraints)) == wanted
    # A table's own optimizer wins.
    sharders = [EmbeddingBagCollectionSharder(fused_params={"optimizer": EmbOptimType.EXACT_ROWWISE_ADAGRAD})]
    module = bags_with(torch.optim.SGD)
    plan, constraints = column_plan(module, sharders, a=16, b=32)
    assert not check(plan, module, TOPOLOGY, sharders=sharders, constraints=constraints).hazards


class LargestShard:
    """A rating that has nothing to do with perf: rows on the fullest rank, and tables of odd names count twice."""

    def rate(self, plan):
        rows = [0] * 4
        for option in plan:
            for shard in option.shards:
                rows[shard.rank] += shard.size[0] * (2 if option.name[-1] in "13579" else 1)
        return float(max(rows))


@pytest.mark.parametrize("seed", range(5))
def test_a_performance_model_of_the_users_own_is_served_no_worse_than_by_torchrec(seed):
    generator = torch.Generator().manual_seed(seed)
    tables = [(f"t{i}", int(torch.randint(100, 100000, (1,), generator=generator)), 64) for i in range(6)]
    module = cases.bags(tables)
    topology = Topology(world_size=4, compute_device="cuda")
    theirs = EmbeddingShardingPlanner(topology=topology, performance_model=LargestShard(), stats=[])
    theirs.plan(module, BAGS)
    planner = Planner(topology=topology, performance_model=LargestShard(), stats=[], effort=5000)
    plan = planner.plan(module, BAGS)
    rating = LargestShard().rate(planner._best_plan)
    assert rating <= LargestShard().rate(theirs._best_plan)
    assert planner.status == "feasible"
    assert planner.certificate.objective == rating and planner.certificate.lower_bound is None
    assert planner.warnings[0][0] == "objective_not_searched"
    assert planner.explanation == ""
    assert abs(planner.times["rating"] - cases.rating_of(planner)) <= 1e-9 * planner.times["rating"]
    assert check(plan, module, topology, sharders=BAGS).is_right


def test_a_performance_model_of_the_users_own_rates_no_hazards():
    module = cases.sequences([("a", 1000, 64), ("b", 1000, 64)])
    constraints = {
        name: ParameterConstraints(sharding_types=["column_wise"], min_partition=width)
        for name, width in (("a", 16), ("b", 32))
    }
    arguments = {"topology": TOPOLOGY, "constraints": constraints, "performance_model": LargestShard(), "stats": []}
    with pytest.raises(PlannerError, match="mixed_column_widths of"):
        Planner(**arguments).plan(module, SEQUENCES)
    planner = Planner(**arguments, strict=False)
    planner.plan(module, SEQUENCES)
    assert "mixed_column_widths" in {code for code, _, _ in planner.warnings}


def test_what_a_callback_changes_is_told_anew():
    module = cases.bags([("a", 1000, 64), ("b", 1000, 64)])

    def onto_one_rank(plan):
        for option in plan:
            for shard in option.shards:
                shard.rank = 0
        return plan

    types = {name: ParameterConstraints(sharding_types=["table_wise"]) for name in "ab"}
    arguments = {"topology": TOPOLOGY, "constraints": types, "stats": [], "objective": "rating"}
    untouched = Planner(**arguments, callbacks=[lambda plan: plan])
    untouched.plan(module, BAGS)
    assert untouched.status == "optimal" and untouched.certificate.lower_bound > 0
    changed = Planner(**arguments, callbacks=[onto_one_rank])
    changed.plan(module, BAGS)
    rating = NoopPerfModel(TOPOLOGY).rate(changed._best_plan)
    assert changed.times["rating"] == pytest.approx(rating, rel=1e-12)
    assert rating > untouched.times["rating"]
    assert changed.status == "feasible"
    assert changed.certificate.objective == pytest.approx(rating, rel=1e-12)
    assert changed.certificate.lower_bound is None and changed.certificate.gap is None
    assert changed.warnings[0][0] == "plan_changed"


def test_the_enumerator_of_a_planner_has_the_whole_space_after_planning():
    module = cases.bags([("a", 1000, 64), ("b", 1000, 64)])
    topology = Topology(world_size=2, compute_device="cuda")
    planner = Planner(topology=topology, stats=[], effort=1000)
    planner.plan(module, BAGS)
    certificate = planner.certificate
    whole = EmbeddingShardingPlanner(topology=topology)._enumerator.enumerate(module, BAGS)
    assert len(planner._enumerator.enumerate(module, BAGS)) == len(whole) > 2
    assert planner.certificate == certificate
