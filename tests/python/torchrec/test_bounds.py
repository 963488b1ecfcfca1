"""What is proved of plans that proposers and partitioners of the caller's own find."""

import copy
import math

import cases
import pytest
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.planner import EmbeddingShardingPlanner
from torchrec.distributed.planner.enumerators import EmbeddingEnumerator
from torchrec.distributed.planner.partitioners import GreedyPerfPartitioner, MemoryBalancedPartitioner
from torchrec.distributed.planner.perf_models import NoopStorageModel
from torchrec.distributed.planner.planners import to_sharding_plan
from torchrec.distributed.planner.proposers import GreedyProposer, UniformProposer
from torchrec.distributed.planner.types import (
    Enumerator,
    ParameterConstraints,
    Partitioner,
    PerfModel,
    PlanLoader,
    Proposer,
    Topology,
)

from plimsoll.torchrec import Partitioner as OurPartitioner
from plimsoll.torchrec import Planner
from plimsoll.torchrec.easyrec import DynamicProgrammingProposer

SHARDERS = [EmbeddingBagCollectionSharder()]
THEIRS = {
    "uniform": lambda: {"proposer": [UniformProposer()]},
    "greedy": lambda: {"proposer": GreedyProposer(), "partitioner": GreedyPerfPartitioner()},
    "dynamic programming": lambda: {"proposer": DynamicProgrammingProposer(form="v1", by_hbm=True)},
    "memory balanced": lambda: {"partitioner": MemoryBalancedPartitioner()},
    "our placement": lambda: {"partitioner": OurPartitioner()},
}


@pytest.mark.parametrize("search", THEIRS)
@pytest.mark.parametrize("seed", range(3))
def test_a_bound_beside_every_search(search, seed):
    module, arguments = cases.random_arguments(seed + 20, count=5, room=1.3)
    planner, _ = cases.plan_with(Planner, module, arguments, **THEIRS[search](), effort=20000)
    certificate = planner.certificate
    rating = cases.rating_of(planner)
    assert certificate.objective == pytest.approx(rating, rel=1e-12)
    assert certificate.gap == pytest.approx(max(rating / certificate.lower_bound - 1, 0))
    assert planner.times["rating"] == pytest.approx(rating, rel=1e-12) and planner.times["step"] > 0
    assert planner.status == ("optimal" if certificate.gap <= 1e-6 else "feasible")
    best, _ = cases.plan_with(Planner, module, arguments, objective="rating", effort=20000, strict=False)
    assert certificate.lower_bound == pytest.approx(best.certificate.lower_bound, rel=1e-9)
    assert certificate.lower_bound <= best.certificate.objective * (1 + 1e-9)
    assert planner.reference["rating"] == pytest.approx(best.reference["rating"], rel=1e-12)


def test_one_table_alone_is_optimal():
    module = cases.bags([("a", 1000, 64)])
    topology = Topology(world_size=2, compute_device="cuda")
    planner = Planner(topology=topology, proposer=[GreedyProposer()], stats=[])
    planner.plan(module, SHARDERS)
    assert planner.status == "optimal" and planner.certificate.gap < 1e-6


def test_the_step_where_it_is_asked_for():
    differ = 0
    for seed in range(4):
        module, arguments = cases.random_arguments(seed + 30, count=5)
        given = {"proposer": [GreedyProposer()], "objective": "step", "effort": 5000}
        planner, _ = cases.plan_with(Planner, module, arguments, **given)
        assert planner.certificate.objective == planner.times["step"]
        assert 0 < planner.certificate.lower_bound <= planner.times["step"] * (1 + 1e-9)
        differ += planner.times["step"] > planner.times["rating"]
    assert differ


def test_bytes_where_storage_is_rated():
    module, arguments = cases.random_arguments(22, count=4)
    arguments["performance_model"] = NoopStorageModel(arguments["topology"])
    planner, _ = cases.plan_with(Planner, module, arguments, proposer=[UniformProposer()])
    held = [0] * 4
    for option in planner._best_plan:
        for shard in option.shards:
            held[shard.rank] += shard.storage.hbm
    best, _ = cases.plan_with(Planner, module, arguments, strict=False)
    assert planner.certificate.objective == max(held)
    assert planner.certificate.lower_bound == pytest.approx(best.certificate.lower_bound, rel=1e-9)
    assert planner.certificate.lower_bound > 2**20 and planner.certificate.gap > 1  # all tables may go to the host


def test_hazards_rule_no_plan_out():
    """A plan of the caller's search that TorchRec trains wrongly is told of, and the bound is of such plans, too."""
    module = cases.bags([("a", 100, 64), ("b", 5000, 64)])
    constraints = {name: ParameterConstraints(sharding_types=["row_wise"]) for name in ("a", "b")}
    topology = Topology(world_size=64, local_world_size=8, compute_device="cuda")  # "a" has ranks without rows
    planner = Planner(topology=topology, constraints=constraints, proposer=[UniformProposer()], stats=[])
    planner.plan(module, SHARDERS)
    assert ("empty_row_shards", ".a") in [warning[:2] for warning in planner.warnings]
    assert planner.status == "optimal" and planner.certificate.lower_bound > 0


def test_the_bound_is_of_plans_with_hazards_too():
    """Cut by rows, nine rows on eight ranks train wrongly now and then, and are rated faster than in one piece."""
    module = cases.bags([("a", 9, 128)])
    constraints = {"a": ParameterConstraints(sharding_types=["row_wise", "table_wise"], pooling_factors=[200.0])}
    arguments = {"constraints": constraints, "stats": []}
    arguments["topology"] = Topology(world_size=8, compute_device="cuda")
    bounds = [
        cases.plan_with(Planner, module, arguments, objective="rating", strict=strict)[0].certificate.lower_bound
        for strict in (False, True)
    ]
    assert bounds[0] < bounds[1]
    planner, _ = cases.plan_with(Planner, module, arguments, proposer=[UniformProposer()])
    assert planner.certificate.lower_bound == pytest.approx(bounds[0])


class Doctored(Proposer):
    """Proposes options that the enumerator does not have: their computing takes `factor` times as long."""

    def __init__(self, factor):
        self._factor = factor

    def load(self, search_space, enumerator=None):
        self._options = {}
        for option in search_space:
            if option.sharding_type == "table_wise" and option.compute_kernel == "fused":
                option = copy.deepcopy(option)
                option.shards[0].perf.fwd_compute *= self._factor
                self._options[option.fqn] = option
        self._is_done = False

    def propose(self):
        return None if self._is_done else list(self._options.values())

    def feedback(self, partitionable, plan=None, perf_rating=None, storage_constraint=None):
        self._is_done = True


@pytest.mark.parametrize("factor", [0.0, 50.0])
def test_no_bound_of_options_that_are_in_no_search_space(factor):
    module, arguments = cases.random_arguments(23, count=4)
    planner, _ = cases.plan_with(Planner, module, arguments, proposer=[Doctored(factor)])
    assert planner.certificate.objective == pytest.approx(cases.rating_of(planner))
    assert planner.certificate.lower_bound is None and planner.certificate.gap is None
    assert planner.status == "feasible" and planner.times


class Crowding(Partitioner):
    """Asks no rank whether there is room."""

    def partition(self, proposal, storage_constraint):
        load = [0.0] * storage_constraint.world_size
        for option in proposal:
            for shard in option.shards:
                shard.rank = load.index(min(load))
                load[shard.rank] += shard.perf.total
        return proposal


def test_no_bound_above_a_plan_that_keeps_no_rules():
    module = cases.bags([(name, 10**7, 64) for name in "abc"])  # 2.56 GB each, which only the host's memory holds
    topology = Topology(world_size=2, compute_device="cuda", hbm_cap=2 * cases.GIB)
    constraints = {name: ParameterConstraints(sharding_types=["table_wise"]) for name in "abc"}
    arguments = {"topology": topology, "constraints": constraints, "stats": []}
    kept, _ = cases.plan_with(Planner, module, arguments, proposer=[GreedyProposer()])
    assert kept.certificate.lower_bound > 0
    broken, _ = cases.plan_with(Planner, module, arguments, proposer=[UniformProposer()], partitioner=Crowding())
    assert broken.certificate.objective < kept.certificate.lower_bound
    assert broken.certificate.lower_bound is None and broken.certificate.gap is None
    assert broken.status == "feasible"


class Unlike(Proposer):
    """Proposes columns in blocks of several widths, which TorchRec's enumerator never cuts."""

    def load(self, search_space, enumerator=None):
        option = copy.deepcopy(next(o for o in search_space if o.sharding_type == "column_wise"))
        columns = option.tensor.shape[1]
        first, second = (copy.deepcopy(option.shards[0]) for _ in range(2))
        first.size[1], second.size[1], second.offset[1] = 16, columns - 16, 16
        option.shards = [first, second]
        self._proposals = [[option]]

    def propose(self):
        return self._proposals[0] if self._proposals else None

    def feedback(self, partitionable, plan=None, perf_rating=None, storage_constraint=None):
        self._proposals.clear()


def test_a_plan_that_cannot_be_judged_stands():
    module = cases.bags([("a", 1000, 128)])
    planner = Planner(
        topology=Topology(world_size=2, compute_device="cuda"),
        constraints={"a": ParameterConstraints(sharding_types=["column_wise"])},
        proposer=[Unlike()],
        partitioner=GreedyPerfPartitioner(),
        stats=[],
    )
    plan = planner.plan(module, SHARDERS)
    assert [list(s.shard_sizes) for s in plan.plan[""]["a"].sharding_spec.shards] == [[1000, 16], [1000, 112]]
    assert math.isnan(planner.certificate.objective) and planner.warnings[0][0] == "plan_not_judged"


class Twice(PerfModel):
    def __init__(self, topology):
        self._topology = topology

    def rate(self, plan):
        return 2.0 * sum(shard.perf.total for option in plan for shard in option.shards)


def test_nothing_is_proved_of_a_model_of_the_callers_own():
    module, arguments = cases.random_arguments(24, count=4)
    model = Twice(arguments["topology"])
    planner, _ = cases.plan_with(Planner, module, arguments, performance_model=model, proposer=[UniformProposer()])
    assert planner.certificate.objective == model.rate(planner._best_plan)
    assert planner.certificate.lower_bound is None and planner.warnings[0][0] == "objective_not_searched"


class Stored(PlanLoader):
    """A plan in memory."""

    def __init__(self, plan, change=lambda option: None):
        self._options = {option.storage_hash(): copy.deepcopy(option) for option in plan}
        for option in self._options.values():
            change(option)

    def load(self):
        return self._options

    def plan_context_hash(self):
        return None

    def get_plan_id(self):
        return "stored"


def theirs(seed):
    """A module, arguments, and the plan of TorchRec's own planner."""
    module, arguments = cases.random_arguments(seed, count=5, room=1.3)
    planner = EmbeddingShardingPlanner(**arguments)
    planner.plan(module, SHARDERS)
    return module, arguments, planner._best_plan


@pytest.mark.parametrize("given", [{}, {"proposer": [UniformProposer()]}, {"enumerator": True}])
def test_a_bound_of_a_plan_from_a_loader(given):
    module, arguments, plan = theirs(40)
    if given.get("enumerator"):
        topology, batch_size = arguments["topology"], arguments.get("batch_size", 512)
        given = {"enumerator": EmbeddingEnumerator(topology, batch_size, arguments.get("constraints"))}
    planner, made = cases.plan_with(Planner, module, arguments, plan_loader=Stored(plan), effort=20000, **given)
    assert planner._num_proposals == 0 and str(made) == str(to_sharding_plan(plan, arguments["topology"]))
    best, _ = cases.plan_with(Planner, module, arguments, objective="rating", effort=20000, strict=False)
    certificate = planner.certificate
    assert certificate.objective == pytest.approx(cases.rating_of(planner), rel=1e-12)
    assert certificate.lower_bound == pytest.approx(best.certificate.lower_bound, rel=1e-9)
    assert certificate.gap == pytest.approx(max(certificate.objective / certificate.lower_bound - 1, 0))
    assert planner.times["step"] > 0 and planner.reference["rating"] == pytest.approx(best.reference["rating"])
    assert planner.status == ("optimal" if certificate.gap <= 1e-6 else "feasible")


def test_no_bound_of_stored_costs_that_nobody_else_finds():
    def hasten(option):
        for shard in option.shards:
            shard.perf.fwd_compute /= 50

    module, arguments, plan = theirs(41)
    planner, _ = cases.plan_with(Planner, module, arguments, plan_loader=Stored(plan, hasten), effort=5000)
    assert planner.certificate.objective == pytest.approx(cases.rating_of(planner))
    assert planner.certificate.lower_bound is None and planner.status == "feasible"


class Forgetful(Enumerator):
    """Keeps no search space."""

    def __init__(self, topology, batch_size, constraints):
        self._inner = EmbeddingEnumerator(topology, batch_size, constraints)

    def enumerate(self, module, sharders):
        return self._inner.enumerate(module, sharders)

    def populate_estimates(self, sharding_options):
        self._inner.populate_estimates(sharding_options)


def test_an_enumerator_that_keeps_nothing_leaves_the_plan_alone(monkeypatch):
    module, arguments, plan = theirs(42)
    enumerator = Forgetful(arguments["topology"], arguments.get("batch_size", 512), arguments.get("constraints"))
    monkeypatch.setattr(Planner, "hash_planner_context_inputs_str", lambda self: "context")
    planner, made = cases.plan_with(Planner, module, arguments, plan_loader=Stored(plan), enumerator=enumerator)
    assert str(made) == str(to_sharding_plan(plan, arguments["topology"]))
    assert math.isnan(planner.certificate.objective) and planner.status == "feasible"


def test_nothing_is_left_of_an_earlier_plan():
    module, arguments = cases.random_arguments(25, count=4)
    planner, _ = cases.plan_with(Planner, module, arguments, proposer=[UniformProposer()])
    assert planner.certificate.lower_bound > 0
    planner.plan(cases.bags([]), SHARDERS)  # no tables
    assert math.isnan(planner.certificate.objective)
