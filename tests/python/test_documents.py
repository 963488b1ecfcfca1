"""What travels into a call and out of an answer."""

import subprocess
import sys

import numpy as np
import pytest

import plimsoll

TABLE = {"name": "a", "num_embeddings": 1000, "embedding_dim": 64, "feature_names": ["f"]}
MODEL = {"tables": [TABLE]}


def shard(model, **flags):
    return plimsoll.shard(model, on="2x16GiB", effort=1000, **flags)


def test_numpys_numbers_and_arrays_are_numbers_and_lists():
    given = {
        "name": np.str_("a"),
        "num_embeddings": np.int64(1000),
        "embedding_dim": np.int32(64),
        "feature_names": np.array(["f"]),
    }
    plan = shard({"tables": [given]}, batch_size=np.int64(16), seed=np.uint64(3), pool_ddr=np.bool_(True))
    assert plan == shard(MODEL, batch_size=16, seed=3, pool_ddr=True)


@pytest.mark.parametrize(
    ("call", "code", "words"),
    [
        (lambda: shard({"tables": [TABLE | {"feature_names": {"f"}}]}), "value", "model: set has no form in JSON"),
        (lambda: shard({"tables": [TABLE | {"num_embeddings": 1j}]}), "value", "complex has no form"),
        (lambda: shard("caf\udce9.json"), "value", "is not UTF-8"),
        (lambda: shard("--help"), "not_found", "no shipped model"),
        (lambda: shard("-x.json"), "not_found", "cannot open"),
        (lambda: shard(MODEL, seed="-1"), "usage", "is not a whole number"),
        (lambda: shard(MODEL, batch_size=True), "usage", "batch-size"),
    ],
)
def test_what_cannot_be_given_is_an_error(call, code, words):
    with pytest.raises(plimsoll.Error, match=words) as caught:
        call()
    assert caught.value.code == code


def test_nothing_is_printed():
    program = """
import plimsoll
from plimsoll import _native
for call in (
    lambda: plimsoll.shard("--help", on="2x16GiB"),
    lambda: plimsoll.shard({}, on="2x16GiB", help=True),
    lambda: plimsoll.models("nobody"),
):
    try:
        call()
    except (plimsoll.Error, TypeError):
        pass
code, output, errors = _native.run(["shard", "--help"], _native.Cancel(), None)
assert code == 0 and "--batch-size" in output and not errors
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("kind", [plimsoll.ShardingPlan, plimsoll.Placement, plimsoll.CheckReport, plimsoll.SavePolicy])
def test_an_answer_of_another_kind_is_refused(kind, tmp_path):
    path = tmp_path / "answer.json"
    plimsoll.checkpoint("llama-3-8b", "70%").save(path)
    with pytest.raises(plimsoll.Error, match=r'expected .*, found "plimsoll.checkpoint_policy/1"') as caught:
        kind.load(path)
    assert caught.value.place == f"{path}#/schema"
    for text, code in (("[]", "schema"), ("3", "schema"), ("nope", "syntax"), ("", "syntax")):
        with pytest.raises(plimsoll.Error) as caught:
            kind.from_json(text)
        assert caught.value.code == code


@pytest.mark.parametrize("rows", [10_000, 8_000_000])
def test_bounds_of_mean_pooled_collections_pass_the_judge(rows):
    tables = [
        {"name": name, "num_embeddings": rows, "embedding_dim": 128, "feature_names": [name], "pooling": pooling}
        for name, pooling in (("a", "mean"), ("b", "sum"), ("c", "mean"))
    ]
    arguments = {"on": "4x4GiB", "ddr_cap": "1MiB", "objective": "rating"}
    plan = plimsoll.shard({"tables": tables}, effort=20000, **arguments)
    cut = {table["sharding_type"] for table in plan.tables}
    assert cut <= {"row_wise", "table_row_wise"} or rows < 8_000_000
    assert plan.certificate.lower_bound > 0
    report = plimsoll.check({"tables": tables}, plan, on="4x4GiB", ddr_cap="1MiB")
    assert report.is_right and not report.hazards, report.violations


def test_checkpoint_without_a_question_answers_the_frontier():
    assert plimsoll.checkpoint("llama-3-8b") == plimsoll.frontier("llama-3-8b")
    assert not isinstance(plimsoll.checkpoint("llama-3-8b", "70%"), plimsoll.Frontier)
