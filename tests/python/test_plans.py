"""`plimsoll.diff`, `trace` and `report`: plans of all planners, from Python."""

import html
import json
import re

import pytest

import plimsoll

MODEL = {
    "tables": [
        {"name": f"t{i}", "num_embeddings": 100_000 * (i + 1), "embedding_dim": 64, "feature_names": [f"f{i}"]}
        for i in range(4)
    ]
}
ON = {"on": "4x40GiB", "batch_size": 256}


@pytest.fixture(scope="module")
def plans():
    return [plimsoll.shard(MODEL, **ON, search=search) for search in ("torchrec", "balanced")]


def with_first_table_on(rank, plan):
    """The plan alone, its first table whole on that rank."""
    bare = json.loads(json.dumps(plan.document["plan"]))
    table = bare["tables"][0]
    table["sharding_type"], table["compute_kernel"] = "table_wise", "fused"
    table["shards"] = [{"rows": 100_000, "columns": 64}]
    table["ranks"] = [{"first": rank}]
    return bare


def test_diff(plans):
    same = plimsoll.diff(plans[1], plans[1])
    assert not same.is_different and same.changes == [] and "the same decisions" in repr(same)
    before, after = (with_first_table_on(rank, plans[0]) for rank in (0, 3))
    different = plimsoll.diff(before, after, model=MODEL, **ON)
    assert different.is_different and different.kind == "sharding"
    assert [change["name"] for change in different.changes] == [".t0"]
    assert different.changes[0]["moved_bytes"] == 100_000 * 64 * 4
    rating = plimsoll.check(MODEL, after, **ON).document["rating"]
    assert different.figures["rating"][1] == rating
    assert {reason["place"] for reason in different.reasons} == {"rank 0", "rank 3"}
    assert sum(t["received_values"] for t in different.traffic) == different.changes[0]["moved_values"]
    assert ".t0" in different._repr_html_()
    assert plimsoll.Difference.from_json(different.to_json()) == different


def test_diff_refuses_two_kinds(plans):
    with pytest.raises(plimsoll.Error, match="one kind"):
        plimsoll.diff(plans[0], plimsoll.partition("bert24-training"))


def test_trace(plans, tmp_path):
    trace = plimsoll.trace(plans[1])
    spans = [event for event in trace["traceEvents"] if event["ph"] == "X" and "input" not in event["name"]]
    end = max(event["ts"] + event["dur"] for event in spans)
    assert end / 1000 == pytest.approx(plans[1].document["times"]["step"])
    path = tmp_path / "recorded.json"
    path.write_text(json.dumps({"traceEvents": [{"ph": "X", "name": "a", "pid": 9, "tid": 1, "ts": 7, "dur": 1}]}))
    for recorded in (path, json.loads(path.read_text())):
        beside = plimsoll.trace(plans[1], beside=recorded)
        assert len(beside["traceEvents"]) == len(trace["traceEvents"]) + 2  # the event, and a process's name
    with pytest.raises(plimsoll.Error) as raised:
        plimsoll.trace(plans[1], beside=path, step=4)
    assert raised.value.code == "not_found"
    policy = plimsoll.checkpoint("llama-3-8b", "70%")
    assert plimsoll.trace(policy, model="llama-3-8b")["traceEvents"]


def test_report(plans, tmp_path):
    path = tmp_path / "plan.html"
    page = plimsoll.report(plans[1], path, against=plans[0], title="A <plan>")
    assert path.read_text() == page
    assert page.startswith("<!doctype html>") and "A &lt;plan&gt;" in page and "Difference from against.json" in page
    assert "<script" not in plimsoll.report(plans[1], fragment=True)


def test_notebooks_show_pages(plans):
    for answer in (plans[1], plimsoll.checkpoint("llama-3-8b", "70%"), plimsoll.partition("bert24-training")):
        shown = answer._repr_html_()
        assert "plimsoll-" not in shown
        page = html.unescape(re.fullmatch(r'<iframe sandbox="allow-scripts" [^>]*srcdoc="([^"]*)"></iframe>', shown)[1])
        assert page == plimsoll.report(answer, title=answer._summary())
        assert page.count("<figure") == page.count('<div class="chart">') > 0 and "vegaEmbed" in page
    impossible = plimsoll.shard(MODEL, on="4x40GiB", hbm_cap="1MiB", ddr_cap="0B")
    assert impossible.status == "infeasible" and "<table>" in impossible._repr_html_()


def test_robust():
    pooling = {"tables": {"t0": {"p50": 5, "p95": 20}}, "others_p95_over_p50": 1.5}
    few = {"scenarios": 40, "fresh_scenarios": 40, "effort": 2000}
    model = json.loads(json.dumps(MODEL))
    pooling["tables"] = {model["tables"][0]["name"]: pooling["tables"]["t0"]}
    plan = plimsoll.robust(model, **ON, pooling=pooling, cvar=0.9, **few)
    assert isinstance(plan, plimsoll.RobustPlan) and len(plan.scenario_ms) == 40
    worst = sorted(plan.scenario_ms)[-4:]
    assert plan.risk_ms == pytest.approx(sum(worst) / 4)
    assert plan.lower_bound <= plan.risk_ms * (1 + 1e-9)
    assert plimsoll.check(model, plan, **ON).is_right
    assert f"{plan.risk_ms:.4g} ms" in repr(plan) and len(plan.tables) == len(model["tables"])
    assert plimsoll.RobustPlan.from_json(plan.to_json()) == plan
    with pytest.raises(plimsoll.Error, match="no such table"):
        plimsoll.robust(model, **ON, pooling={"tables": {"nobody": {"p50": 1, "p95": 2}}}, **few)


def test_replan(plans):
    grown = json.loads(json.dumps(MODEL))
    grown["tables"][3]["constraints"] = {"pooling_factors": [40.0]}
    replanned = plimsoll.replan(grown, plans[1], **ON, max_moved="100%", effort=20_000)
    assert isinstance(replanned, plimsoll.Replan) and replanned.ms <= replanned.fresh_ms * 1.001
    assert replanned.moved_bytes == sum(step.get("bytes", 0) for step in replanned.steps)
    assert replanned.lower_bound <= replanned.ms * (1 + 1e-9)
    assert plimsoll.check(grown, replanned.plan, **ON).is_right
    assert plimsoll.check(grown, replanned.document, **ON).is_right
    assert f"{replanned.ms:.4g} ms" in repr(replanned) and "copy" in replanned._repr_html_()
    kept = plimsoll.replan(grown, plans[1], **ON, max_moved="0", effort=20_000)
    assert kept.steps == [] and kept.ms == pytest.approx(kept.before_ms)
    assert plimsoll.Replan.from_json(kept.to_json()) == kept


def test_experts(tmp_path):
    loads = [[float((37 * e * e) % 97 + 1) for e in range(16)]]
    model = {"num_slots": 20, "num_ranks": 4, "loads": loads, "schema": "plimsoll.experts/1"}
    plan = plimsoll.place_experts(model, effort=20_000)
    eplb = plimsoll.place_experts(model, search="eplb")
    assert plan.lower_bound <= plan.slowest_load <= plan.eplb_load == eplb.slowest_load
    assert sorted(set(plan.physical_to_logical_map[0])) == list(range(16))
    assert plimsoll.check(model, plan).is_right and plimsoll.check(model, plan).certificate_status == "proved"
    model["loads"] = [loads[0][::-1]]
    moved = plimsoll.replan_experts(model, eplb, max_moved=3, effort=20_000)
    assert moved.moved_replicas <= 3 and moved.slowest_load <= moved.document["before_load"]
    assert plimsoll.check(model, moved).is_right and not plimsoll.check(model, plan).is_right
    assert "EPLB" in repr(moved) and "slowest rank" in moved._repr_html_()
    assert plimsoll.ExpertPlan.from_json(moved.to_json()) == moved
    with pytest.raises(plimsoll.Error, match="num_ranks"):
        plimsoll.place_experts({**model, "num_ranks": 0})
