"""The real engines, briefly: fbgemm's kernels, gloo's collectives, TorchRec's steps. Times are not asserted."""

import random

import pytest

import plimsoll
from plimsoll import calibration
from plimsoll.calibration import _plans, _run
from plimsoll.calibration._run import Budget

MODEL = {
    "modules": [
        {
            "path": "ebc",
            "kind": "embedding_bag_collection",
            "tables": [{"name": "t", "num_embeddings": 1000, "embedding_dim": 16, "feature_names": ["f"]}],
        }
    ]
}


def test_kernels_and_operators_are_measured(monkeypatch, tmp_path):
    small = Budget(2, 1, 1 << 16, 1 << 8, kernel_s=0.02, collective_s=0, operator_s=0.02)
    monkeypatch.setitem(_run.BUDGETS, "quick", small)
    file = tmp_path / "machine.json"
    document = plimsoll.calibrate(file, optimizers=["rowwise_adagrad"])
    assert [len(entry["points"]) for entry in document["kernels"]] == [2, 2, 1, 1]
    for entry in document["kernels"]:
        for point in entry["points"]:
            assert 0 < point["low_ms"] <= point["ms"] and point["distinct_rows"] <= point["lookups"]
    assert not document["collectives"] and "step" not in document
    plan = plimsoll.shard(MODEL, on="1x1GiB", machine=str(file))
    assert plan.status == "optimal" and max(plan.document["bill"]["ms"]["machine_kernels"]) > 0


@pytest.mark.long
def test_every_engine_is_measured(monkeypatch, tmp_path):
    small = Budget(
        3, 2, 1 << 18, 1 << 10, kernel_s=0.1, collective_s=0.1, operator_s=0.1, plan_s=0.1, max_collective_bytes=2048,
        models=1, styles=9,
    )  # fmt: skip
    monkeypatch.setitem(_run.BUDGETS, "standard", small)
    file = tmp_path / "machine.json"
    document = plimsoll.calibrate(file, ranks=2, budget="standard", optimizers=["sgd"], data_types=["fp32", "fp16"])
    assert {(e["kernel"], e["direction"], e["data_type"]) for e in document["kernels"]} == {
        ("fused", "forward", "fp32"),
        ("fused", "backward", "fp32"),
        ("fused", "forward", "fp16"),
        ("fused", "backward", "fp16"),
        ("dense", "forward", "fp32"),
        ("dense", "backward", "fp32"),
    }
    points = [point for entry in document["kernels"] for point in entry["points"]]
    assert all(point["ms"] > 0 and point["distinct_rows"] <= point["lookups"] for point in points)
    assert [table["bytes"] for table in document["collectives"]] == [[1024, 2048]] * 4
    plans = document["step"]["points"]
    assert len(plans) == 9 and all(plan["ms"] > 0 and plan["kernel_ms"] > 0 for plan in plans)
    assert len({plan["sharding_types"] for plan in plans}) > 1
    plan = plimsoll.shard(MODEL, on="2x1GiB", machine=str(file))
    assert plan.status == "optimal" and plan.document["extrapolated"]
    assert calibration.check(file, tolerance=1e9)["parts"]


def test_what_a_plan_sends_and_looks_up():
    """Column halves look up every id, row halves half of them, copies those of their own samples."""
    tables = [(1000, 64, 4)]
    options = _plans.table_options(tables, _plans.make_topology(2, "cpu"))
    batch = _plans.BATCH_SIZE
    expected = {"table_wise": 8 * batch, "column_wise": 8 * batch, "row_wise": 4 * batch, "data_parallel": 4 * batch}
    for kind, lookups in expected.items():
        plan = _plans.draw_plan(options, {kind: 1}, 2, random.Random(0))
        found = _plans.variables_of(plan, tables, 2)
        assert {group["lookups"] for group in found["groups"]} == {lookups}, kind
        assert len(found["groups"]) == (1 if kind == "table_wise" else 2)
        assert found["sharding_types"] == 1


@pytest.mark.parametrize("words", [["calibrate", "--help"]])
def test_the_module_runs_it(words, capsys):
    from plimsoll import _command

    monkey = pytest.MonkeyPatch()
    monkey.setattr("sys.argv", ["plimsoll", *words])
    with pytest.raises(SystemExit) as ended:
        _command.main()
    monkey.undo()
    assert ended.value.code == 0 and "--import-nccl" in capsys.readouterr().out
