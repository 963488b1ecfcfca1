"""DistributedModelParallel with our plans, on 2 and 4 gloo ranks, against the unsharded module."""

import cases
import pytest
import ranks
import torch
import torch.distributed as dist
from torch.distributed.optim import _apply_optimizer_in_backward
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.distributed.planner import Topology
from torchrec.distributed.planner.types import ParameterConstraints, PlannerError
from torchrec.distributed.types import ShardingEnv
from torchrec.modules.embedding_configs import PoolingType
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

import plimsoll
from plimsoll.torchrec import Planner

BATCH = 6
TABLES = [("a", 400, 64), ("b", 96, 64), ("c", 1000, 64)]


def features(rank, step, names, rows):
    """Bags of 0 to 4 ids."""
    generator = torch.Generator().manual_seed(1000 * step + rank)
    lengths = torch.randint(0, 5, (len(names) * BATCH,), generator=generator)
    counts = lengths.view(len(names), BATCH).sum(1).tolist()
    values = torch.cat([torch.randint(0, r, (n,), generator=generator) for r, n in zip(rows, counts)])
    return KeyedJaggedTensor(keys=[f"f_{name}" for name in names], values=values, lengths=lengths)


def outputs(module, batch):
    out = module(batch)
    if hasattr(out, "wait"):
        out = out.wait()
    if hasattr(out, "to_dict"):
        return out.to_dict()
    return {key: value.values() for key, value in out.items()}


def loss_of(out):
    return sum((value * value).sum() + value.sum() for _, value in sorted(out.items())) / 100


def train(rank, world, local, make, sharder, constraints):
    """Two steps of the sharded module; (largest difference to the unsharded one, local bytes, planned bytes)."""
    module = make("meta")
    _apply_optimizer_in_backward(torch.optim.SGD, module.parameters(), {"lr": 0.5})
    topology = Topology(world_size=world, local_world_size=local, compute_device="cpu")
    planner = Planner(topology=topology, batch_size=BATCH, constraints=constraints, stats=[], effort=2000)
    plan = planner.collective_plan(module, [sharder], dist.GroupMember.WORLD)
    assert planner.certificate.lower_bound is None or planner.certificate.lower_bound > 0
    judged = plimsoll.torchrec.check(plan, module, topology, sharders=[sharder], constraints=constraints)
    assert judged.is_right, judged.violations
    return train_plan(rank, world, module, plan, make, sharder)


def train_plan(rank, world, module, plan, make, sharder):
    """As `train`, by a plan that is there."""
    sharded = DistributedModelParallel(
        module, env=ShardingEnv.from_process_group(dist.GroupMember.WORLD), plan=plan, sharders=[sharder],
        device=torch.device("cpu"), init_data_parallel=True,
    )  # fmt: skip
    torch.manual_seed(0)
    whole = make("cpu")
    sharded.load_state_dict(whole.state_dict())
    configs = whole.embedding_bag_configs() if hasattr(whole, "embedding_bag_configs") else whole.embedding_configs()
    names, rows = [c.name for c in configs], [c.num_embeddings for c in configs]
    error = 0.0
    for step in range(2):
        batch = features(rank, step, names, rows)
        theirs = outputs(sharded, batch)
        ours = [outputs(whole, features(r, step, names, rows)) for r in range(world)]
        error = max(error, *(float((theirs[k] - ours[rank][k]).abs().max()) for k in theirs if theirs[k].numel()))
        loss_of(theirs).backward()
        whole.zero_grad()
        (sum(loss_of(out) for out in ours) / world).backward()
        with torch.no_grad():
            for parameter in whole.parameters():
                parameter -= 0.5 * parameter.grad
            for parameter in sharded.parameters():  # fused ones have stepped, and have no gradient
                if parameter.grad is not None:
                    parameter -= 0.5 * parameter.grad
        sharded.zero_grad()
    local_bytes = planned = 0
    for value in sharded.state_dict().values():
        if hasattr(value, "local_shards"):
            local_bytes += sum(shard.tensor.numel() * 4 for shard in value.local_shards())
        elif isinstance(value, torch.Tensor):
            local_bytes += value.numel() * 4
    for tables in plan.plan.values():
        for name, sharding in tables.items():
            config = next(c for c in configs if c.name == name)
            if sharding.sharding_spec is None:
                planned += config.num_embeddings * config.embedding_dim * 4
            else:
                planned += sum(
                    4 * s.shard_sizes[0] * s.shard_sizes[1]
                    for s in sharding.sharding_spec.shards
                    if s.placement.rank() == rank
                )
    return error, local_bytes, planned, sorted(s.sharding_type for t in plan.plan.values() for s in t.values())


def run_case(world, local, make, sharder, constraints):
    answers = ranks.run(world, train_in_rank, world, local, make, sharder, constraints, local_world_size=local)
    for error, local_bytes, planned, _ in answers:
        assert error < 1e-4
        assert local_bytes == planned
    return answers[0][3]


def train_in_rank(rank, *arguments):
    return train(rank, *arguments)


BAG_TYPES = [
    "data_parallel",
    "table_wise",
    "row_wise",
    "column_wise",
    "table_row_wise",
    "table_column_wise",
    "grid_shard",
]


def one_type(kind, tables=TABLES):
    kernel = "dense" if kind == "data_parallel" else "fused"
    return {
        name: ParameterConstraints(sharding_types=[kind], compute_kernels=[kernel], min_partition=16)
        for name, *_ in tables
    }


@pytest.mark.parametrize("kind", BAG_TYPES)
def test_every_type_of_bags_on_two_hosts_of_two(kind):
    types = run_case(4, 2, lambda device: cases.bags(TABLES, device), cases.AllTypes(), one_type(kind))
    assert types == [kind] * 3


@pytest.mark.parametrize("kind", BAG_TYPES)
def test_every_type_of_bags_on_two_ranks(kind):
    local = 1 if kind == "grid_shard" else 2  # two hosts of one
    types = run_case(2, local, lambda device: cases.bags(TABLES, device), cases.AllTypes(), one_type(kind))
    assert types == [kind] * 3


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("kind", ["table_wise", "row_wise", "column_wise"])
def test_every_type_of_sequences(kind, world):
    types = run_case(world, 2, lambda device: cases.sequences(TABLES, device), cases.AllSequenceTypes(), one_type(kind))
    assert types == [kind] * 3


BESIDE_CUT = {
    "a": ParameterConstraints(sharding_types=["column_wise"], min_partition=32),
    **{name: ParameterConstraints(sharding_types=["table_wise", "column_wise"], min_partition=64) for name in "bc"},
}


def test_whole_bags_share_the_group_of_cut_ones():
    types = run_case(2, 2, lambda device: cases.bags(TABLES, device), cases.AllTypes(), BESIDE_CUT)
    assert types == ["column_wise"] * 3


def test_whole_sequences_beside_cut_ones_are_table_wise():
    """Their column shards would be of another width, which the runtime refuses."""
    types = run_case(2, 2, lambda device: cases.sequences(TABLES, device), cases.AllSequenceTypes(), BESIDE_CUT)
    assert types == ["column_wise", "table_wise", "table_wise"]


def test_a_free_plan_of_mean_pooled_bags_trains_rightly():
    make = lambda device: cases.bags(TABLES, device, PoolingType.MEAN)  # noqa: E731
    constraints = {name: ParameterConstraints(sharding_types=BAG_TYPES, min_partition=16) for name, *_ in TABLES}
    run_case(4, 2, make, cases.AllTypes(), constraints)


def fail_on_rank_0(rank):
    module = cases.bags(TABLES)
    topology = Topology(world_size=2, compute_device="cpu", ddr_cap=2**10)
    planner = Planner(topology=topology, stats=[])
    try:
        planner.collective_plan(module, [cases.AllTypes()], dist.GroupMember.WORLD)
    except PlannerError as error:
        return str(error), error.error_type.value, planner.explanation
    return None


def test_what_rank_0_raises_is_raised_on_every_rank():
    # The group's own time-out is half an hour, for which ranks.run() does not wait.
    first, *others = ranks.run(4, fail_on_rank_0)
    assert all(told == first for told in others)
    assert "plimsoll: proved infeasible; ddr binds" in first[0] and first[2]
    tables = first[0].partition("the tables that need most of it")[2]
    assert tables.index(".c ") < tables.index(".a ") < tables.index(".b ")  # by their bytes in ddr


class Unsendable(Exception):
    def __reduce__(self):
        raise TypeError("stays here")


def fail_in_other_ways(rank):
    def told(error, **keywords):
        def fail(*_):
            raise error

        topology = Topology(world_size=2, compute_device="cpu")
        planner = Planner(topology=topology, stats=[], progress=fail, **keywords)
        try:
            planner.collective_plan(cases.bags(TABLES), [cases.AllTypes()])
        except Exception as raised:
            return type(raised).__name__, str(raised)

    return [told(KeyError("mine")), told(Unsendable("far"))]


def test_any_error_is_raised_on_every_rank():
    first, second = ranks.run(2, fail_in_other_ways)
    assert first[0] == second[0] == ("KeyError", "'mine'")
    assert first[1] == ("Unsendable", "far") and second[1] == ("RuntimeError", "rank 0 raised Unsendable: far")


def tell_certificate(rank):
    planner = Planner(topology=Topology(world_size=2, compute_device="cpu"), stats=[], effort=1000)
    plan = planner.collective_plan(cases.bags(TABLES), [cases.AllTypes()])
    return str(plan), planner.certificate, planner.times, planner.reference, planner.status


def plan_in_halves(rank):
    halves = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    topology = Topology(world_size=2, compute_device="cpu", ddr_cap=2**40 if rank < 2 else 2**10)
    planner = Planner(topology=topology, stats=[], effort=1000)
    try:
        return str(planner.collective_plan(cases.bags(TABLES), [cases.AllTypes()], halves[rank // 2]))
    except PlannerError as error:
        return error.binding, error.tables


def test_each_group_of_ranks_plans_for_itself():
    first, second, third, fourth = ranks.run(4, plan_in_halves)
    assert first == second and "table_wise" in first
    assert third == fourth == ("ddr", (".c", ".a", ".b"))


def test_every_rank_has_the_plan_and_its_certificate():
    first, second = ranks.run(2, tell_certificate)
    assert first == second and first[1].lower_bound > 0
