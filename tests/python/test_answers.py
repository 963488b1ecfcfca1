"""Answers as people meet them: keywords that are checked, objects that are refused, tables that are printed."""

import re

import numpy as np
import pytest

import plimsoll
from plimsoll import _flags, _native

FUNCTIONS = {  # of each command: the function, and the type of its keywords
    "shard": (plimsoll.shard, _flags.ShardFlags),
    "checkpoint": (plimsoll.checkpoint, _flags.CheckpointFlags),
    "partition": (plimsoll.partition, _flags.PartitionFlags),
    "explain": (plimsoll.explain, _flags.ShardFlags),
    "size": (plimsoll.size, _flags.SizeFlags),
    "whatif": (plimsoll.whatif, _flags.WhatIfFlags),
    "check": (plimsoll.check, _flags.CheckFlags),
    "convert": (plimsoll.convert, _flags.ConvertFlags),
    "replan": (plimsoll.replan, _flags.ReplanFlags),
    "robust": (plimsoll.robust, _flags.RobustFlags),
    "diff": (plimsoll.diff, _flags.DiffFlags),
    "trace": (plimsoll.trace, _flags.PlanFlags),
    "report": (plimsoll.report, _flags.PlanFlags),
}
# Flags that only decide what is printed, or that a parameter of another name stands for.
PRINTED = {"help", "json", "verbose", "quiet", "color", "csv", "stats", "plan", "export", "exit_code"}
ELSEWHERE = {"trace": {"output"}, "report": {"output"}, "diff": {"output"}}


def parameters(function):
    code = function.__code__
    return set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


@pytest.mark.parametrize("command", FUNCTIONS)
def test_keywords_are_the_flags_of_the_command(command):
    function, kind = FUNCTIONS[command]
    text = _native.run([command, "--help"], _native.Cancel(), None)[1]
    flags = {name.replace("-", "_") for name in re.findall(r"^  (?:-\w, )?--([\w-]+)", text, re.MULTILINE)}
    assert "json" in flags
    unknown = set(kind.__annotations__) - flags
    assert unknown == set(), "keywords without a flag"
    missing = flags - set(kind.__annotations__) - parameters(function) - PRINTED - ELSEWHERE.get(command, set())
    assert missing == set(), "flags without a keyword"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: plimsoll.shard("t", on="2x40GiB", objectiv="rating"),
            "shard.*'objectiv'; did you mean 'objective'\\?",
        ),
        (lambda: plimsoll.shard("t", onn="2x40GiB"), "shard.*'onn'; did you mean 'on'\\?"),
        (lambda: plimsoll.checkpoint("s", buget="60%"), "checkpoint.*'buget'; did you mean 'budget'\\?"),
        (lambda: plimsoll.partition("g", zzz=1), "partition.*'zzz'; plimsoll partition --help lists the flags"),
        (lambda: plimsoll.check("m", "p", help=True), "check.*'help'"),
    ],
)
def test_an_unknown_keyword_is_a_type_error_with_a_suggestion(call, message):
    with pytest.raises(TypeError, match=message):
        call()


def test_objects_are_never_turned_to_strings():
    for call in (
        lambda: plimsoll.shard(object(), on="2x40GiB"),
        lambda: plimsoll.shard(None, on="2x40GiB"),
        lambda: plimsoll.shard("criteo-kaggle", on=object()),
        lambda: plimsoll.shard("criteo-kaggle", on="2x40GiB", constraints=object()),
        lambda: plimsoll.checkpoint(b"stats"),
        lambda: plimsoll.partition(3.5),
        lambda: plimsoll.diff({}, 7),
    ):
        with pytest.raises(
            TypeError, match=r"is of type (object|NoneType|bytes|float|int), not a document; give a dict"
        ):
            call()


def test_modules_are_refused_with_what_to_call():
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Linear(2, 2))
    traced = torch.fx.symbolic_trace(module)
    exported = torch.export.export(module, (torch.zeros(1, 2),))
    for call, advice in (
        (lambda: plimsoll.shard(module, on="2x40GiB"), "plimsoll.torchrec.Planner"),
        (lambda: plimsoll.check(module, {}), "plimsoll.torchrec.Planner"),
        (lambda: plimsoll.checkpoint(module), "plimsoll.checkpointing.fit"),
        (lambda: plimsoll.frontier(module), "plimsoll.checkpointing.fit"),
        (lambda: plimsoll.partition(module), "plimsoll.graphs.capture"),
        (lambda: plimsoll.partition(traced), "plimsoll.fx.Partitioner"),
        (lambda: plimsoll.partition(exported), "torch.export.save"),
    ):
        with pytest.raises(TypeError, match=f"is of type (Sequential|GraphModule|ExportedProgram).*{advice}"):
            call()


@pytest.mark.parametrize("name", ["hbm_cap", "ddr_cap", "host_memory", "dense_tensor_estimate"])
def test_a_size_without_a_unit_is_refused(name):
    with pytest.raises(plimsoll.Error, match=f"{name}: 80 is 80 bytes; give a size with its unit, such as '80GiB'"):
        plimsoll.shard("criteo-kaggle", on="2x40GiB", **{name: 80})
    with pytest.raises(plimsoll.Error, match="'80' is a size without a unit"):
        plimsoll.shard("criteo-kaggle", on="2x40GiB", **{name: "80"})


@pytest.fixture(scope="module")
def plan():
    model = {
        "tables": [
            {"name": f"t{i}", "num_embeddings": 1000, "embedding_dim": 64, "feature_names": [f"f{i}"]} for i in range(6)
        ]
    }
    return plimsoll.shard(model, on="4x16GiB", batch_size=256)


def test_print_shows_figures_and_a_folded_table(plan):
    lines = str(plan).splitlines()
    assert lines[0].startswith(f"ShardingPlan, {plan.status}: ") and "6 tables" in lines[0]
    assert any(re.match(r"  slowest rank .* ms \(TorchRec's planner: .* ms\)$", line) for line in lines)
    assert lines[lines.index("") + 1].split() == ["table", "sharding", "type", "compute", "kernel", "ranks"]
    tables = [*(table(f"t{i}", 0) for i in range(3)), table("t3", 1), table("user", 2), table("item", 2)]
    rows = str(plimsoll.ShardingPlan({"plan": {"tables": tables}})).splitlines()[-3:]
    assert [row.split("  ")[0] for row in rows] == ["t0 .. t2 (3)", "t3", "user, item"]


def table(name, rank):
    ranks = [{"first": rank, "count": 1}]
    return {"table": name, "sharding_type": "table_wise", "compute_kernel": "fused", "ranks": ranks}


def test_a_long_table_is_cut():
    tables = [table(f"t{i}", i) for i in range(50)]
    assert "... 10 more rows" in str(plimsoll.ShardingPlan({"plan": {"tables": tables}}))


def test_a_frontier_is_printed_in_steps():
    frontier = plimsoll.frontier("llama-3-8b")
    text = str(frontier)
    assert len(text.splitlines()) < 50 and f"of {len(frontier.peak)} points" in text


def test_a_data_frame_holds_the_numbers(plan):
    pytest.importorskip("pandas")
    frame = plan.to_dataframe()
    assert len(frame) == 4 and np.array_equal(frame["ms_total"], plan.ms["total"])
    assert np.array_equal(frame["bytes_hbm"], plan.bytes["hbm"])
    policy = plimsoll.checkpoint("llama-3-8b", "70%")
    assert policy.to_dataframe()["recompute_ms"].sum() == pytest.approx(policy.recompute_ms)
    placement = plimsoll.partition("bert-l3-inference")
    frame = placement.to_dataframe()
    assert frame["ms"].max() == pytest.approx(placement.certificate.objective)
    assert frame["memory_bytes"].dtype == np.int64
    assert len(plimsoll.frontier("llama-3-8b").to_dataframe()) > 100
