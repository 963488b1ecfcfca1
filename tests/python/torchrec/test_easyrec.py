"""TorchEasyRec's planner with one import changed: its plans, its dynamic program, its set-up."""

import copy
import json
import os
import pathlib
import random
import subprocess
import sys
import types
from unittest import mock

import cases
import easyrec_cases
import pytest
import torch
import torchrec
from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
from torchrec.distributed.planner.enumerators import EmbeddingEnumerator
from torchrec.distributed.planner.proposers import UniformProposer
from torchrec.distributed.planner.types import ParameterConstraints, Perf, Shard, ShardingOption, Storage
from torchrec.distributed.sharding_plan import get_default_sharders as get_torchrec_sharders

import plimsoll
from plimsoll.torchrec import Planner
from plimsoll.torchrec.easyrec import DynamicProgrammingProposer, create_planner, get_default_sharders

DATA = pathlib.Path(__file__).resolve().parents[2] / "data"
RECORDED = json.loads((DATA / "easyrec_plans.json").read_text())
# TorchEasyRec's own files (tzrec/utils/plan_util.py), to be compared with as they stand.
THEIRS = [path for path in os.environ.get("PLIMSOLL_TZREC_PLAN_UTIL", "").split(os.pathsep) if path]


def plan(case, folder, form="v3", **settings):
    create, sharders = easyrec_cases.ours(form, **settings)
    return easyrec_cases.plan(create, sharders, case, folder, model=easyrec_cases.MODELS[case["model"]]())


@pytest.mark.skipif(not torchrec.__version__.startswith("1.8"), reason="recorded with torchrec 1.8")
@pytest.mark.skipif(sys.version_info < (3, 11), reason="recorded with hashes of Python 3.11")
def test_the_plans_that_torcheasyrec_makes():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", easyrec_cases.__file__, "v1=plimsoll", "v3=plimsoll"],
        env=os.environ | {"PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads(done.stdout)
    for form in ("v1", "v3"):
        assert answer[form].keys() == RECORDED[form].keys()
        for name, told in RECORDED[form].items():
            assert answer[form][name] == told, (form, name)


@pytest.mark.parametrize("name", ["a host of two", "large tables", "constraints by fqn"])
def test_a_bound_beside_the_plan(name, tmp_path):
    planner, _ = plan({**easyrec_cases.CASES, **easyrec_cases.LATER_CASES}[name], tmp_path, effort=2000)
    certificate = planner.certificate
    assert certificate.objective == pytest.approx(cases.rating_of(planner), rel=1e-12)
    assert 0 < certificate.lower_bound <= certificate.objective * (1 + 1e-9)


def test_what_is_recorded_tells_the_arguments_apart():
    plans = {name: recorded["tables"] for name, recorded in RECORDED["v3"].items()}
    assert (
        plans["constraints by fqn"]["user.bags.t0"][0] == "row_wise" != plans["constraints by fqn"]["item.bags.t0"][0]
    )
    for name in ("for all tables", "a checkpoint", "a forced checkpoint"):
        assert plans[name] != plans["constraints by fqn"], name
    assert not any(fqn.startswith("steps.") for fqn in plans["sequences"])


@pytest.mark.skipif(not THEIRS, reason="PLIMSOLL_TZREC_PLAN_UTIL names no file of TorchEasyRec")
@pytest.mark.parametrize("path", THEIRS)
def test_side_by_side(path, tmp_path):
    theirs = easyrec_cases.load(path)
    assert [type(s) for s in theirs.get_default_sharders()] == [type(s) for s in get_default_sharders()]
    has_two_axes = "ddr_bins_per_device" in pathlib.Path(path).read_text()
    form = "v3" if has_two_axes else "v2" if "max_device_mem" in pathlib.Path(path).read_text() else "v1"
    compared = 0
    for seed in range(12):
        module, arguments = cases.random_arguments(seed, count=5, ranks=4, room=1.2)
        own, other = (
            EmbeddingShardingPlanner(**arguments, proposer=[proposer, UniformProposer()])
            for proposer in (DynamicProgrammingProposer(form=form), theirs.DynamicProgrammingProposer())
        )
        plans = [planner.plan(module, get_torchrec_sharders()) for planner in (own, other)]
        assert str(plans[0]) == str(plans[1])
        assert own._num_proposals == other._num_proposals and own._num_plans == other._num_plans
        compared += own._num_proposals
    assert compared > 12 * 5
    if form != "v2":  # the file of that form is for TorchRec 1.3
        for name, case in {**easyrec_cases.CASES, **(easyrec_cases.LATER_CASES if form == "v3" else {})}.items():
            more = {} if form == "v1" else {"model": easyrec_cases.MODELS[case["model"]]()}
            planner, made = easyrec_cases.plan(
                theirs.create_planner, theirs.get_default_sharders, case, tmp_path, **more
            )
            ours = plan(case, tmp_path, form, effort=1000)
            assert easyrec_cases.told(*ours) == easyrec_cases.told(planner, made), name


MODULE = cases.bags([(f"t{t}", 64, 8) for t in range(8)])


def options_of(record, swapped=False):
    """[[option]] of every table: [hbm, ddr, ms, shards] of one shard."""
    tables = []
    for t, table in enumerate(record["tables"]):
        tables.append([])
        for hbm, ddr, ms, count in table:
            storage = Storage(ddr, hbm) if swapped else Storage(hbm, ddr)
            shards = [Shard([8, 8], [8 * i, 0], storage, Perf(ms, 0, 0, 0)) for i in range(count)]
            tables[-1].append(
                ShardingOption(
                    name=f"t{t}",
                    tensor=MODULE.embedding_bags[f"t{t}"].weight,
                    module=("", MODULE),
                    input_lengths=[1.0],
                    batch_size=1,
                    sharding_type="row_wise",
                    partition_by="uniform",
                    compute_kernel="fused",
                    shards=shards,
                    is_pooled=True,
                )
            )
    return tables


def room_of(record, swapped=False):
    topology = Topology(world_size=len(record["devices"]), local_world_size=1, compute_device="cuda")
    topology._local_world_size = record["local_world_size"]
    for device, (hbm, ddr) in zip(topology.devices, record["devices"]):
        device.storage = Storage(ddr, hbm) if swapped else Storage(hbm, ddr)
    return topology


def drain(proposer, tables, room):
    """[[(table, option)]] of all proposals."""
    place = {id(option): (t, o) for t, table in enumerate(tables) for o, option in enumerate(table)}
    proposer.load([option for table in tables for option in table])
    proposals = []
    while proposal := proposer.propose():
        proposals.append([place[id(option)] for option in proposal])
        proposer.feedback(partitionable=True, storage_constraint=room)
    assert proposer.propose() is None
    return proposals


def expected(told):
    return [list(zip(told["table_order"], choices)) for choices in told["proposals"]]


CASES = json.loads((DATA / "dynamic_programming.json").read_text())["cases"]


def test_forms_one_and_three_propose_what_the_references_propose():
    for i, record in enumerate(CASES):
        bins, ddr_bins = record["hbm_bins"], record["ddr_bins"]
        two_axes = DynamicProgrammingProposer(bins, ddr_bins)
        assert drain(two_axes, options_of(record), room_of(record)) == expected(record["two_axes"]), i
        for swapped in (False, True):
            proposer = DynamicProgrammingProposer(mem_bins_per_device=bins, by_hbm=not swapped)
            tables, room = options_of(record, swapped), room_of(record, swapped)
            if record["error"]:
                with pytest.raises(plimsoll.Error) as raised:
                    drain(proposer, tables, room)
                assert raised.value.message == record["error"]
            else:
                assert drain(proposer, tables, room) == expected(record["one_axis"]), (i, swapped)


def test_form_two_is_form_one_without_shards_that_fit_on_no_device():
    pruned = 0
    for record in CASES:
        if record["error"]:
            continue
        largest = max(hbm for hbm, _ in record["devices"])
        tables, room = options_of(record), room_of(record)
        second = drain(DynamicProgrammingProposer(record["hbm_bins"], form="v2", by_hbm=True), tables, room)
        kept = [[o for o in table if o.shards[0].storage.hbm <= largest] for table in tables]
        if kept == tables:
            assert second == expected(record["one_axis"])
            continue
        pruned += 1
        assert second[0] == expected(record["one_axis"])[0]  # the first proposal has any
        for proposal in second[1:]:
            assert all(tables[t][o] in kept[t] for t, o in proposal)
        if not all(kept):
            assert len(second) == 1
    assert pruned > 3


def test_tables_of_equal_memory_keep_the_order_of_their_options():
    """Interleaved options, which a list of options by table could not tell: b's is met first."""
    record = {
        "tables": [[[5, 0, 1.0, 1], [3, 0, 2.0, 1]], [[3, 0, 1.0, 1]]],
        "devices": [[9, 9]],
        "local_world_size": 1,
    }
    (a5, a3), (b3,) = options_of(record)
    proposer = DynamicProgrammingProposer(form="v1", by_hbm=True)
    proposer.load([a5, b3, a3])
    assert [option.fqn for option in proposer.propose()] == [".t1", ".t0"]
    proposer.feedback(True, storage_constraint=room_of(record))
    assert [option.fqn for option in proposer.propose()] == [".t1", ".t0"]


@pytest.mark.parametrize("form", ["v1", "v2", "v3"])
@pytest.mark.parametrize("kind", [EmbeddingShardingPlanner, Planner])
def test_it_serves_both_planners_and_every_call(kind, form):
    module, arguments = cases.random_arguments(3, count=4)
    proposer = DynamicProgrammingProposer(form=form, by_hbm=True)
    planner = kind(**arguments, proposer=[proposer])
    first = planner.plan(module, get_torchrec_sharders())
    assert planner._num_proposals > 3
    proposals = planner._num_proposals
    assert str(planner.plan(module, get_torchrec_sharders())) == str(first)
    assert planner._num_proposals == proposals


def test_forms_have_names():
    with pytest.raises(plimsoll.Error, match="no form 'v4'; choose v1, v2 or v3"):
        DynamicProgrammingProposer(form="v4")
    with easyrec_cases.machine({"local": 1, "world": 1}):
        with pytest.raises(plimsoll.Error, match="no proposer 'greedy'; choose easyrec"):
            create_planner(torch.device("cpu"), 512, proposer="greedy")
        with pytest.raises(plimsoll.Error, match="no search 'best'; choose torchrec or balanced"):
            create_planner(torch.device("cpu"), 512, search="best")


def test_the_machine_is_read():
    case = {"local": 2, "world": 4, "environment": {"INTRA_NODE_BANDWIDTH": "2e8", "CROSS_NODE_BANDWIDTH": "1e7"}}
    with easyrec_cases.machine(case):
        topology = create_planner(torch.device("cpu"), 512)._topology
        assert (topology.world_size, topology.local_world_size, topology.compute_device) == (4, 2, "cpu")
        assert topology.devices[3].storage.ddr == easyrec_cases.HOST_MEMORY // 2
        comms = topology._comms_bandwidths
        assert (comms._intra_host_bw, comms._inter_host_bw) == (2e8, 1e7)
        properties = types.SimpleNamespace(total_memory=85 * 10**9)
        with (
            mock.patch("torch.cuda.is_available", return_value=True),
            mock.patch("torch.cuda.get_device_properties", return_value=properties) as asked,
        ):
            planner = create_planner(torch.device("cuda:1"), 512)
            assert [type(s) for s in get_default_sharders()] == [type(s) for s in get_torchrec_sharders()]
        asked.assert_called_once_with(torch.device("cuda:1"))
        assert planner._topology.devices[0].storage.hbm == 85 * 10**9
        assert planner._topology.compute_device == "cuda"
        assert planner._storage_reservation._percentage == 0.15
        assert planner._debug
    names = [type(sharder).__name__ for sharder in get_default_sharders()]
    assert "EmbeddingBagCollectionSharder" in names and not any("EmbeddingCollection" in name for name in names)


@pytest.mark.parametrize("variable", easyrec_cases.VARIABLES[:5])
def test_a_broken_variable_is_named(variable):
    with easyrec_cases.machine({"local": 1, "world": 1, "environment": {variable: "ten"}}):
        with pytest.raises(plimsoll.Error, match=f"{variable}: 'ten' is not a number"):
            create_planner(torch.device("cpu"), 512)


def test_dynamic_tables_are_refused():
    module = easyrec_cases.Constrained([("a", 100, 16)], {})
    constraint = ParameterConstraints()
    constraint.use_dynamicemb = True
    module.parameter_constraints = lambda prefix: {f"{prefix}bags.a": constraint}
    with easyrec_cases.machine({"local": 1, "world": 1}):
        with pytest.raises(plimsoll.Error, match=r"bags\.a: dynamic embedding tables"):
            create_planner(torch.device("cpu"), 512, model=module)


def test_our_own_search_is_no_worse(tmp_path):
    for name in ("large tables", "constraints by fqn", "for all tables"):
        case = {**easyrec_cases.CASES, **easyrec_cases.LATER_CASES}[name]
        theirs, _ = plan(case, tmp_path, effort=20000)
        ours, made = plan(case, tmp_path, effort=20000, search="balanced", objective="rating")
        assert ours.times["rating"] <= theirs.times["rating"] * (1 + 1e-9)
        assert theirs.certificate.lower_bound <= ours.certificate.objective * (1 + 1e-9)
        tables = {f"{path}.{table}": s for path, entries in made.plan.items() for table, s in entries.items()}
        if name == "constraints by fqn":
            assert tables["user.bags.t0"].sharding_type == "row_wise"
            assert tables["item.bags.t1"].sharding_type == "table_wise"
        if name == "for all tables":
            assert {s.compute_kernel for s in tables.values()} == {"fused"}


def test_constraints_by_fqn_are_those_of_single_tables():
    """In several passes, where tables of one name differ, the options are those of one enumeration each."""
    from plimsoll.torchrec._by_fqn import EnumeratorByFqn

    rng = random.Random(7)
    topology = Topology(world_size=4, local_world_size=2, compute_device="cuda")
    for _ in range(6):
        modules = {name: cases.bags([(f"t{i}", rng.randint(5, 5000), 64) for i in range(3)]) for name in "abc"}
        model = torch.nn.ModuleDict(modules)
        by_fqn = {
            f"{name}.t{i}": ParameterConstraints(
                sharding_types=rng.sample(cases.TYPES, 3), min_partition=rng.choice([16, 32])
            )
            for name in modules
            for i in range(3)
            if rng.random() < 0.6
        }
        for_all = rng.choice([None, ParameterConstraints(sharding_types=["table_wise"])])
        found = EnumeratorByFqn(topology, 512, by_fqn, for_all).enumerate(model, get_torchrec_sharders())
        alone = []
        for name in reversed(modules):
            constraints = {f"t{i}": by_fqn.get(f"{name}.t{i}", for_all) for i in range(3)}
            enumerator = EmbeddingEnumerator(topology, 512)
            enumerator._constraints = {table: c for table, c in constraints.items() if c is not None}
            single = torch.nn.ModuleDict({name: modules[name]})
            alone += enumerator.enumerate(single, get_torchrec_sharders())
        describe = lambda o: (o.fqn, o.sharding_type, o.compute_kernel, [(s.size, s.storage, s.perf) for s in o.shards])  # noqa: E731
        assert list(map(describe, found)) == list(map(describe, alone))
        assert [o.fqn for o in copy.deepcopy(found)] == [o.fqn for o in alone]


def test_kernels_of_early_releases():
    config = types.SimpleNamespace(sharding_types=["table_wise"], compute_kernels=["batched_fused"])
    with easyrec_cases.machine({"local": 2, "world": 2}):
        planner = create_planner(torch.device("cuda"), 512, global_constraints_cfg=config, stats=[], effort=1000)
        made = planner.plan(cases.bags([("a", 100, 16)]), get_default_sharders())
    assert made.plan[""]["a"].compute_kernel == "fused"
