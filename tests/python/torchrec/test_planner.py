"""`Planner` in EmbeddingShardingPlanner's place."""

import copy
import inspect
import math
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import threading

import cases
import pytest
import torch
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
from torchrec.distributed.planner.enumerators import EmbeddingEnumerator
from torchrec.distributed.planner.perf_models import NoopPerfModel, NoopStorageModel
from torchrec.distributed.planner.proposers import GreedyProposer
from torchrec.distributed.planner.storage_reservations import FixedPercentageStorageReservation
from torchrec.distributed.planner.types import (
    ParameterConstraints,
    PlannerError,
    PlannerErrorType,
    StorageReservation,
)

import plimsoll
from plimsoll import _interrupt
from plimsoll.torchrec import Planner
from plimsoll.torchrec._options import group_size, room_of

SHARDERS = [EmbeddingBagCollectionSharder()]


def legal_faults(options, topology, room):
    """What the plan breaks of where each type stands (docs/embedding.md#what-is-decided); and memory."""
    faults, world, width = [], topology.world_size, group_size(topology)
    used = [[0, 0, 0] for _ in range(world)]
    for option in options:
        ranks = [shard.rank for shard in option.shards]
        kind = option.sharding_type
        if any(type(rank) is not int or not 0 <= rank < world for rank in ranks):
            faults.append((option.fqn, "ranks", ranks))
            continue
        if kind in ("row_wise", "data_parallel") and ranks != list(range(world)):
            faults.append((option.fqn, kind, ranks))
        if kind in ("table_row_wise", "grid_shard"):
            for b in range(0, len(ranks), width):
                if ranks[b] % width or ranks[b : b + width] != list(range(ranks[b], ranks[b] + width)):
                    faults.append((option.fqn, kind, ranks))
        if kind == "table_column_wise" and len({rank // width for rank in ranks}) > 1:
            faults.append((option.fqn, kind, ranks))
        for shard in option.shards:
            for tier, size in enumerate((shard.storage.hbm, shard.storage.ddr)):
                used[shard.rank][tier] += size
    for rank in range(world):
        if any(used[rank][tier] > room[rank][tier] for tier in (0, 1)):
            faults.append((rank, used[rank], room[rank]))
    return faults


def room_left(planner):
    return room_of(planner._storage_reservation._last_reserved_topology)


def test_it_takes_every_keyword_of_torchrecs():
    parent = inspect.signature(EmbeddingShardingPlanner.__init__).parameters
    ours = inspect.signature(Planner.__init__).parameters
    assert [ours[name] for name in parent] == list(parent.values())
    with pytest.raises(TypeError, match="colour"):
        Planner(colour="blue")


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("objective", ["time", "rating", "step"])
def test_plans_are_legal_and_rated_as_said(seed, objective):
    module, arguments = cases.random_arguments(seed, count=4 + seed, ranks=(2, 4, 8, 16)[seed % 4])
    planner, plan = cases.plan_with(Planner, module, arguments, objective=objective, effort=50000)
    options = planner._best_plan
    assert [option.fqn for option in options] == sorted(
        {option.fqn for option in options}, key=[o.fqn for o in options].index
    )
    assert len(options) == len(module.embedding_bag_configs())
    assert set(plan.plan[""]) == {config.name for config in module.embedding_bag_configs()}
    assert not legal_faults(options, planner._topology, room_left(planner))
    assert planner.times["rating"] == pytest.approx(cases.rating_of(planner), rel=1e-9)
    certificate = planner.certificate
    assert certificate.objective == pytest.approx(planner.times[objective], rel=1e-9)
    assert certificate.lower_bound is None or certificate.lower_bound <= certificate.objective
    assert pickle.loads(pickle.dumps(plan)).plan.keys() == plan.plan.keys()
    report = plimsoll.torchrec.check(plan, module, planner._topology, constraints=arguments["constraints"],
                                     batch_size=arguments["batch_size"])  # fmt: skip
    assert report.is_right, report.violations


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("objective", ["time", "rating"])
def test_the_rating_is_never_above_torchrecs(seed, objective):
    module, arguments = cases.random_arguments(
        seed + 100, count=8, ranks=(4, 16)[seed % 2], room=(1.6, 1.1)[seed // 4], max_rows=(8.0, 7.0)[seed // 2 % 2]
    )
    planner, _ = cases.plan_with(Planner, module, arguments, objective=objective, effort=50000)
    own = cases.reference_rating(module, arguments)
    assert cases.rating_of(planner) <= own * (1 + 1e-12)
    assert planner.reference["rating"] == pytest.approx(own, rel=1e-9)


@pytest.mark.parametrize(("ranks", "own", "best"), [(8, 4.173343109845318, 4.0709), (16, 8.116421040351042, 7.0971)])
def test_dcnv2(ranks, own, best):
    module, arguments = cases.dcnv2_arguments(ranks)
    planner, _ = cases.plan_with(Planner, module, arguments, objective="rating")
    assert planner._enumerator.is_native, planner._enumerator.reason
    assert planner.reference["rating"] == pytest.approx(own, rel=1e-9)
    assert cases.rating_of(planner) <= best
    assert planner.certificate.gap <= 1e-4 and planner.certificate.proof
    assert ranks != 8 or planner.status == "optimal"


def test_natively_or_not_the_plan_is_the_same():
    for seed in range(4):
        module, arguments = cases.random_arguments(seed, ranks=8)
        planner, plan = cases.plan_with(Planner, module, arguments, effort=20000)
        assert planner._enumerator.is_native, planner._enumerator.reason
        slow = Planner(**arguments, effort=20000)
        slow._enumerator.wants_all = True
        other = slow.plan(module, SHARDERS)
        assert not slow._enumerator.is_native
        assert str(plan) == str(other)
        assert planner.certificate == slow.certificate


def test_ranks_of_unlike_memory_are_planned_natively():
    """Their row cuts stay even: only CustomTopologyData cuts by memory."""
    module, arguments = cases.random_arguments(3, ranks=4)
    for rank, device in enumerate(arguments["topology"].devices):
        device.storage.hbm = device.storage.hbm * (rank + 3) // 5
    planner, plan = cases.plan_with(Planner, module, arguments, objective="rating", effort=20000)
    assert planner._enumerator.is_native, planner._enumerator.reason
    slow = Planner(**arguments, objective="rating", effort=20000)
    slow._enumerator.wants_all = True
    assert str(slow.plan(module, SHARDERS)) == str(plan)
    assert slow.certificate == planner.certificate and slow.reference == planner.reference
    assert not legal_faults(planner._best_plan, planner._topology, room_left(planner))


HASHED = """
import sys; sys.path.insert(0, {here!r})
import cases
from plimsoll.torchrec import Planner
every = {{f"t{{i}}": cases.ParameterConstraints(sharding_types=cases.TYPES) for i in range(6)}}
topology = cases.Topology(world_size=4, local_world_size=2, compute_device="cuda")
problems = [cases.random_arguments(seed, count=6) for seed in range(3)]
problems.append((cases.bags([(f"t{{i}}", 3000 * (1 + i % 3), 128) for i in range(6)]), {{
    "topology": topology, "constraints": every, "stats": [],
}}))
for module, arguments in problems:
    for wants_all in (False, True):  # True: TorchRec's enumerator
        planner = Planner(**arguments, effort=20000)
        planner._enumerator.wants_all = wants_all
        print(planner.plan(module, [cases.EmbeddingBagCollectionSharder()]), planner.certificate)
        assert planner._enumerator.is_native != wants_all
"""


def test_the_plan_does_not_depend_on_the_order_of_a_tables_options():
    """TorchRec filters kernels through a set, whose order changes from run to run."""
    here = str(pathlib.Path(cases.__file__).parent)
    told = {
        subprocess.run(
            [sys.executable, "-c", HASHED.format(here=here)],
            env=os.environ | {"PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout
        for seed in (1, 2, 3)
    }
    assert len(told) == 1 and "table_wise" in told.pop()


def test_two_calls_give_one_plan():
    module, arguments = cases.random_arguments(3)
    planner, plan = cases.plan_with(Planner, module, arguments, effort=20000)
    assert str(planner.plan(module, SHARDERS)) == str(plan)


def test_a_wrong_parity_is_noticed(monkeypatch):
    """Where TorchRec's estimators say something else than ours, its own options are searched."""
    module, arguments = cases.random_arguments(5)
    planner = Planner(**arguments, effort=20000)
    storage = planner._enumerator._estimators[-1]
    estimate = storage.estimate

    def estimate_more(sharding_options, *args, **kwargs):
        estimate(sharding_options, *args, **kwargs)
        for option in sharding_options:
            for shard in option.shards:
                shard.storage.hbm += 1

    monkeypatch.setattr(storage, "estimate", estimate_more)
    planner.plan(module, SHARDERS)
    assert not planner._enumerator.is_native and "TorchRec has" in planner._enumerator.reason
    assert planner.times["rating"] == pytest.approx(cases.rating_of(planner), rel=1e-9)
    whole = EmbeddingEnumerator(arguments["topology"], arguments["batch_size"], arguments["constraints"])
    assert len(planner._enumerator.last_stored_search_space) == len(whole.enumerate(module, SHARDERS)) > 12


def test_what_follows_a_native_plan_sees_the_whole_search_space():
    module, arguments = cases.random_arguments(5, count=4)
    planner, _ = cases.plan_with(Planner, module, arguments, effort=5000)
    own, _ = cases.plan_with(EmbeddingShardingPlanner, module, arguments)
    assert planner._enumerator.is_native, planner._enumerator.reason
    assert planner.hash_planner_context_inputs_str() == own.hash_planner_context_inputs_str()
    ours, theirs = (planner._enumerator.last_stored_search_space, own._enumerator.last_stored_search_space)
    assert [(o.fqn, o.sharding_type, o.compute_kernel) for o in ours] == [
        (o.fqn, o.sharding_type, o.compute_kernel) for o in theirs
    ]
    cases.plan_with(lambda **_: planner, module, {})  # and the planner still plans natively
    assert planner._enumerator.is_native


def test_another_module_has_another_plan():
    module, arguments = cases.random_arguments(5, count=4)
    other = cases.bags([("t0", 5000, 64), ("t1", 8000, 32)])
    planner, first = cases.plan_with(Planner, module, arguments, effort=5000)
    second = planner.plan(other, SHARDERS)
    assert set(second.plan[""]) == {"t0", "t1"} and set(first.plan[""]) == {f"t{i}" for i in range(4)}
    assert str(planner.plan(module, SHARDERS)) == str(first)


def test_a_sharder_of_the_users_own_is_no_native_case():
    module, arguments = cases.random_arguments(5, count=4)

    class EmbeddingBagCollectionSharder_(EmbeddingBagCollectionSharder):
        def sharding_types(self, compute_device_type):
            return ["row_wise"]

    EmbeddingBagCollectionSharder_.__name__ = "EmbeddingBagCollectionSharder"
    planner = Planner(**arguments, effort=5000)
    plan = planner.plan(module, [EmbeddingBagCollectionSharder_()])
    assert not planner._enumerator.is_native
    assert {sharding.sharding_type for sharding in plan.plan[""].values()} == {"row_wise"}


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"objective": "speed"}, "no objective 'speed'"),
        ({"step_model": {"ms_per_tabel": 1}}, "no charge 'ms_per_tabel'"),
        ({"time_limit_s": -1}, "time_limit_s"),
    ],
)
def test_bad_keywords_are_errors_at_once(keywords, words):
    with pytest.raises(plimsoll.Error, match=words):
        Planner(topology=Topology(world_size=2, compute_device="cuda"), **keywords)


def test_a_planner_travels():
    module, arguments = cases.random_arguments(3, count=4)
    planner, plan = cases.plan_with(Planner, module, arguments, effort=5000)
    for again in (pickle.loads(pickle.dumps(planner)), copy.deepcopy(planner)):
        assert again.certificate == planner.certificate
        assert str(again.plan(module, SHARDERS)) == str(plan)


def test_times_of_a_machine():
    """The objective is the machine's time; ratings stay TorchRec's, and so does the plan of least rating."""
    module, arguments = cases.random_arguments(5, count=6)
    planner, _ = cases.plan_with(Planner, module, arguments, machine="h100-sxm5-80gb", effort=20000)
    plain, _ = cases.plan_with(Planner, module, arguments, effort=20000)
    assert planner.times["rating"] == pytest.approx(cases.rating_of(planner), rel=1e-9)
    assert planner.certificate.objective == planner.times["time"] != plain.times["time"]
    assert planner.certificate.lower_bound <= planner.times["time"]
    ratings = [
        cases.plan_with(Planner, module, arguments, objective="rating", effort=20000, **more)[0].times["rating"]
        for more in ({}, {"machine": "h100-sxm5-80gb"})
    ]
    assert ratings[0] == ratings[1]


def test_a_machine_that_cannot_be_used():
    module, arguments = cases.random_arguments(5, count=3)
    with pytest.raises(plimsoll.Error, match="h100-sxm5-80gb"):
        cases.plan_with(Planner, module, arguments, machine="h100")
    with pytest.raises(plimsoll.Error, match="No such file"):
        cases.plan_with(Planner, module, arguments, machine="none.json")


def test_progress_of_a_planner():
    module, arguments = cases.dcnv2_arguments(16)
    seen = []
    planner, _ = cases.plan_with(
        Planner, module, arguments, objective="rating", effort=200000, progress=lambda *told: seen.append(told)
    )
    efforts = [effort for effort, *_ in seen]
    assert len(seen) > 1 and efforts == sorted(efforts)
    assert seen[-1][1] == pytest.approx(planner.certificate.objective, rel=1e-6)

    def fail(*_):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        cases.plan_with(Planner, module, arguments, progress=fail)


def test_an_interrupt_gives_the_best_plan_so_far(monkeypatch):
    """The search stays in its progress until it is cancelled, since it could otherwise finish before."""
    cancelled = threading.Event()

    class ToldOf(_interrupt.Cancel):
        def set(self):
            super().set()
            cancelled.set()

    monkeypatch.setattr(_interrupt, "Cancel", ToldOf)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        module, arguments = cases.dcnv2_arguments(16)
        interrupts = []

        def interrupt(_, incumbent, __):
            if incumbent is not None and not interrupts:
                interrupts.append(incumbent)
                signal.raise_signal(signal.SIGINT)
                assert cancelled.wait(60)

        planner, plan = cases.plan_with(Planner, module, arguments, effort=10**12, progress=interrupt)
        assert interrupts and planner._search.found.stop == "cancelled"
        assert len(plan.plan[""]) == 26
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_second_interrupt_raises():
    """From a search that hears of none, since its progress does not return."""
    heard = threading.Semaphore(0)

    def hear(*arguments):
        heard.release()
        signal.default_int_handler(*arguments)

    before = signal.signal(signal.SIGINT, hear)
    begun, done = threading.Event(), threading.Event()

    def stay(*_):
        begun.set()
        done.wait(60)

    def interrupt():
        begun.wait(60)
        for _ in range(2):
            signal.raise_signal(signal.SIGINT)
            assert heard.acquire(timeout=60)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        module, arguments = cases.dcnv2_arguments(16)
        with pytest.raises(KeyboardInterrupt):
            cases.plan_with(Planner, module, arguments, effort=10**12, progress=stay)
    finally:
        done.set()
        thread.join()
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("objective", ["rating", "time"])
@pytest.mark.parametrize("ranks", [8, 16])
def test_a_short_clock_still_gives_no_worse_a_plan(ranks, objective):
    module, arguments = cases.dcnv2_arguments(ranks)
    planner, _ = cases.plan_with(Planner, module, arguments, objective=objective, time_limit_s=0.2)
    assert cases.rating_of(planner) <= planner.reference["rating"] * (1 + 1e-12)


def small(ranks=2, hbm=2**20 * 64, **constraints):
    module = cases.bags([(f"t{i}", 10000, 64) for i in range(4)])
    topology = Topology(world_size=ranks, local_world_size=ranks, compute_device="cuda", hbm_cap=hbm, ddr_cap=0)
    return module, {
        "topology": topology,
        "constraints": {f"t{i}": ParameterConstraints(**constraints) for i in range(4)},
    }


def test_too_little_memory_is_torchrecs_error_with_our_words():
    module, arguments = small(hbm=2**20 * 4, sharding_types=["table_wise", "row_wise"], compute_kernels=["fused"])
    logged = []

    class Stats:
        def log(self, **kwargs):
            logged.append(kwargs["num_plans"])

    planner = Planner(**arguments, stats=Stats(), batch_size=2)
    with pytest.raises(PlannerError) as caught:
        planner.plan(module, SHARDERS)
    assert caught.value.error_type == PlannerErrorType.INSUFFICIENT_STORAGE
    text = str(caught.value)
    assert "proved infeasible; hbm binds" in text and "bytes" in text and ".t0 " in text
    assert caught.value.explanation in text and planner.explanation == caught.value.explanation
    assert caught.value.binding == "hbm" and caught.value.missing_bytes > 0
    assert f"{caught.value.missing_bytes} bytes" in text
    assert caught.value.tables == (".t0", ".t1", ".t2", ".t3")
    assert pickle.loads(pickle.dumps(caught.value)).tables == caught.value.tables
    assert planner.status == "infeasible" and math.isnan(planner.certificate.objective)
    assert logged == [0]
    # Which constraints conflict, and changes with which a plan was found, in the words of a program.
    assert caught.value.cap == "hbm"
    assert "hbm_cap of the topology" in {member["name"] for member in caught.value.conflict}
    changes = {fix["kind"]: fix["change"] for fix in caught.value.fixes}
    assert changes["memory"].startswith("hbm_cap of the topology: ")
    assert not any("--" in change for change in changes.values())
    assert changes["memory"] in text and "these conflict" in text
    size = changes["memory"].rpartition(" ")[2]
    assert size.endswith("MiB")
    module, arguments = small(
        hbm=int(size.removesuffix("MiB")) << 20, sharding_types=["table_wise", "row_wise"], compute_kernels=["fused"]
    )
    Planner(**arguments, stats=[], batch_size=2).plan(module, SHARDERS)


def test_changes_are_suggested_where_nothing_is_proved():
    # 41 tables of which two fit on a rank, and 20 ranks.
    tables = [(f"t{i}", 4096 * (22 + i * 37 % 9), 64) for i in range(41)]
    whole = ParameterConstraints(sharding_types=["table_wise"], compute_kernels=["fused"])
    fixed = {name: whole for name, *_ in tables}

    def planner(hbm):
        topology = Topology(world_size=20, local_world_size=20, compute_device="cuda", hbm_cap=hbm, ddr_cap=0)
        reservation = FixedPercentageStorageReservation(0.0)
        return Planner(topology=topology, constraints=fixed, batch_size=1, storage_reservation=reservation, stats=[])

    with pytest.raises(PlannerError) as caught:
        planner(64 << 20).plan(cases.bags(tables), SHARDERS)
    assert "not proved" in str(caught.value) and not caught.value.conflict
    changes = {fix["kind"]: fix["change"] for fix in caught.value.fixes}
    assert changes["memory"] in str(caught.value)
    size = int(changes["memory"].removeprefix("hbm_cap of the topology: ").removesuffix("MiB"))
    planner(size << 20).plan(cases.bags(tables), SHARDERS)


def test_room_in_all_but_not_in_one_rank_is_strict_constraints():
    # Three ranks have room for everything together; one table as a whole fits on none.
    module = cases.bags([("big", 400000, 64)])
    topology = Topology(world_size=4, local_world_size=4, compute_device="cuda", hbm_cap=2**20 * 80, ddr_cap=0)
    constraints = {"big": ParameterConstraints(sharding_types=["table_wise"], compute_kernels=["fused"])}
    planner = Planner(topology=topology, constraints=constraints, batch_size=2, stats=[])
    with pytest.raises(PlannerError) as caught:
        planner.plan(module, SHARDERS)
    assert caught.value.error_type == PlannerErrorType.STRICT_CONSTRAINTS
    assert "plimsoll:" in str(caught.value)


def test_a_reservation_that_leaves_nothing_says_what_it_takes():
    module = cases.bags([("a", 400000, 64)])
    topology = Topology(world_size=2, local_world_size=2, compute_device="cuda", hbm_cap=2**18)
    planner = Planner(topology=topology, stats=[], batch_size=4096)
    with pytest.raises(PlannerError) as caught:
        planner.plan(module, SHARDERS)
    assert caught.value.error_type == PlannerErrorType.INSUFFICIENT_STORAGE
    assert caught.value.binding == "hbm" and caught.value.missing_bytes > 0
    assert "for input ids" in caught.value.explanation and "for the margin" in caught.value.explanation
    assert "storage_reservation=" in caught.value.explanation and "--" not in caught.value.explanation

    def reserved(missing):
        topology = Topology(world_size=2, local_world_size=2, compute_device="cuda", hbm_cap=2**18 + missing)
        planner = Planner(topology=topology, stats=[], batch_size=4096)
        with pytest.raises(PlannerError) as again:  # the table has no room yet
            planner.plan(module, SHARDERS)
        return "The reserved topology" not in str(again.value)

    assert reserved(caught.value.missing_bytes)
    assert not reserved(caught.value.missing_bytes - 1)


def test_a_reservation_of_the_users_own_does_not_hide_the_error():
    class Half(StorageReservation):
        def reserve(self, topology, batch_size, module, sharders, constraints=None):
            left = copy.deepcopy(topology)
            for device in left.devices:
                device.storage.hbm //= 2
            self.last = left
            return left

        @property
        def last_reserved_topology(self):
            return self.last

    module, arguments = small(hbm=2**20 * 4, sharding_types=["table_wise"], compute_kernels=["fused"])
    with pytest.raises(PlannerError, match="hbm binds") as caught:
        Planner(**arguments, storage_reservation=Half(), stats=[]).plan(module, SHARDERS)
    assert caught.value.tables
    arguments["topology"] = Topology(world_size=2, local_world_size=2, compute_device="cuda", hbm_cap=2**30)
    planner = Planner(**arguments, storage_reservation=Half(), stats=[])
    assert planner.plan(module, SHARDERS).plan[""]


def test_users_own_parts_are_used():
    module, arguments = cases.random_arguments(1, count=4)
    calls = []
    planner = Planner(
        **arguments,
        callbacks=[lambda plan: calls.append(len(plan)) or plan],
        performance_model=NoopPerfModel(arguments["topology"]),
        timeout_seconds=30,
    )
    assert planner._search.settings.time_limit_s == 30
    planner.plan(module, SHARDERS)
    assert calls == [4]
    own = Planner(**arguments, proposer=GreedyProposer())
    own.plan(module, SHARDERS)
    assert isinstance(own._proposers[0], GreedyProposer) and own._num_proposals > 1
    assert not cases.rating_of(own) < planner.reference["rating"] * 0.1


def test_storage_is_made_small_where_the_user_rates_by_it():
    module, arguments = cases.random_arguments(2, count=5, ranks=4)
    model = NoopStorageModel(arguments["topology"])
    planner = Planner(**arguments, performance_model=model)
    planner.plan(module, SHARDERS)
    own = EmbeddingShardingPlanner(**arguments, performance_model=model)
    own.plan(module, SHARDERS)
    assert model.rate(planner._best_plan) <= model.rate(own._best_plan)
    assert planner.certificate.objective == pytest.approx(model.rate(planner._best_plan))


def test_tables_on_every_rank_are_told_of_where_their_gradients_need_not_fit():
    def warnings_of(hbm):
        topology = Topology(world_size=2, compute_device="cuda", hbm_cap=hbm)
        constraints = {"a": ParameterConstraints(sharding_types=["data_parallel"])}
        planner = Planner(topology=topology, constraints=constraints, batch_size=2, stats=[])
        planner.plan(cases.bags([("a", 2**20, 64)]), SHARDERS)  # 256 MiB
        return [message for code, _, message in planner.warnings if code == "gradients_not_counted"]

    (message,) = warnings_of(7 * 2**27)  # 761 MiB without the margin
    assert f"take {2**28} bytes of hbm" in message
    assert not warnings_of(2**30 + 2**29)


def test_a_model_without_tables_has_an_empty_plan():
    planner = Planner(topology=Topology(world_size=2, compute_device="cuda"), stats=[])
    assert planner.plan(torch.nn.Linear(2, 2), SHARDERS).plan == {}


def test_tables_of_a_tower_stand_on_one_host():
    from torchrec.distributed.embedding_tower_sharding import EmbeddingTowerCollectionSharder, EmbeddingTowerSharder
    from torchrec.modules.embedding_tower import EmbeddingTower, EmbeddingTowerCollection

    class Interaction(torch.nn.Module):
        def forward(self, features):
            return features.values()

    towers = EmbeddingTowerCollection(
        [
            EmbeddingTower(cases.bags([(f"t{i}_{j}", 20000 * (i + j + 1), 64) for j in range(2)]), Interaction())
            for i in range(3)
        ]
    )
    topology = Topology(world_size=8, local_world_size=2, compute_device="cuda")
    planner = Planner(topology=topology, stats=[], objective="rating", effort=20000)
    planner.plan(towers, [EmbeddingTowerCollectionSharder()])
    assert planner._enumerator.is_native
    hosts = {}
    for option in planner._best_plan:
        hosts.setdefault(option.dependency, set()).update(shard.rank // 2 for shard in option.shards)
    assert len(hosts) == 3 and all(len(of_tower) == 1 for of_tower in hosts.values())
    assert not legal_faults(planner._best_plan, topology, room_left(planner))
    own = EmbeddingShardingPlanner(topology=topology, stats=[])
    own.plan(towers, [EmbeddingTowerCollectionSharder()])
    assert cases.rating_of(planner) <= cases.rating_of(own) * (1 + 1e-12)
    plan = planner.plan(towers, [EmbeddingTowerCollectionSharder()])
    assert plimsoll.torchrec.check(plan, towers, topology, sharders=[EmbeddingTowerCollectionSharder()]).is_right
    root = EmbeddingTower(cases.bags([(f"t{i}", 2000 * (i + 1), 64) for i in range(3)]), Interaction())
    plan = Planner(topology=topology, stats=[]).plan(root, [EmbeddingTowerSharder()])
    assert plimsoll.torchrec.check(plan, root, topology, sharders=[EmbeddingTowerSharder()]).is_right


def test_modules_below_the_root_and_of_both_kinds():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bags = cases.bags([("a", 4000, 64), ("b", 8000, 64)])
            self.rows = cases.sequences([("c", 4000, 32)])

    from torchrec.distributed.embedding import EmbeddingCollectionSharder

    planner = Planner(topology=Topology(world_size=4, compute_device="cuda"), stats=[], effort=10000)
    plan = planner.plan(Net(), [*SHARDERS, EmbeddingCollectionSharder()])
    assert planner._enumerator.is_native, planner._enumerator.reason
    assert {path: set(tables) for path, tables in plan.plan.items()} == {"bags": {"a", "b"}, "rows": {"c"}}


def test_statistics_are_printed_as_torchrec_prints_them(caplog):
    module, arguments = cases.random_arguments(1, count=4)
    arguments.pop("stats")
    with caplog.at_level("INFO", logger="torchrec"), caplog.at_level("INFO", logger="plimsoll"):
        planner, _ = cases.plan_with(Planner, module, arguments, effort=10000)
    assert planner._num_proposals == planner._num_plans == 1
    assert any("no plan below" in record.getMessage() for record in caplog.records)
