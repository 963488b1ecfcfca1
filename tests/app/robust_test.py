"""plimsoll robust: a plan for uncertain pooling factors, its bound, and what check says of it."""

import json
import math

import pytest

ON = ("--on", "2x1GiB", "--batch-size", "512")
FEW = ("--scenarios", "60", "--fresh-scenarios", "60", "--effort", "2000")
POOLING = {
    "tables": {"t0": {"p50": 5, "p95": 25}, "t1": {"samples": [1, 2, 30]}, "t2": {"p50": [4], "p95": [9]}},
    "others_p95_over_p50": 1.2,
}


@pytest.fixture
def robust(plimsoll):
    tables = [
        {
            "name": f"t{i}",
            "num_embeddings": 20000 * (1 + i % 3),
            "embedding_dim": 64,
            "feature_names": [f"f{i}"],
            "constraints": {"pooling_factors": [1 + 3 * i], "sharding_types": ["table_wise", "row_wise"]},
        }
        for i in range(6)
    ]
    plimsoll.write("model.json", {"modules": [{"path": "m", "kind": "embedding_bag_collection", "tables": tables}]})
    plimsoll.write("pooling.json", POOLING)

    def run(*arguments, code=0, pooling="pooling.json"):
        return plimsoll.run("robust", "model.json", *ON, "--pooling", pooling, *FEW, *arguments, code=code)

    return run


def test_the_answer_is_what_it_says_it_is(robust):
    answer = robust("--quantile", "90%", "--json").document
    values = sorted(answer["scenario_ms"])
    assert len(values) == 60 and answer["figures"]["risk_ms"] == values[math.ceil(0.9 * 60) - 1]
    assert answer["figures"]["risk_ms"] <= answer["means_figures"]["risk_ms"]
    assert answer["lower_bound"] <= answer["figures"]["risk_ms"] * (1 + 1e-9)
    assert answer["gap"] == pytest.approx(answer["figures"]["risk_ms"] / answer["lower_bound"] - 1)
    worst = robust("--cvar", "0.9", "--json").document
    assert worst["figures"]["risk_ms"] == pytest.approx(sum(sorted(worst["scenario_ms"])[-6:]) / 6)
    assert robust("--json").document == robust("--json").document


def test_the_text_says_what_is_gained(robust):
    text = " ".join(robust().out.split())
    for part in ("95 % quantile", "slowest rank", "planned for the means", "over 60 new ones", "best possible"):
        assert part in text


@pytest.mark.parametrize("measure", ["--quantile", "--cvar"])
def test_check_finds_the_same_and_what_is_changed(plimsoll, robust, measure):
    robust(measure, "90%", "-o", "robust.json")
    check = ("check", "model.json", "robust.json", "--on", "2x1GiB")
    assert plimsoll.run(*check, "--json").document["certificate_status"] == "proved"
    document = json.loads(plimsoll.read("robust.json"))
    for change, code in (
        (lambda d: d["figures"].update(risk_ms=d["figures"]["risk_ms"] * 0.999), "times_mismatch"),
        (lambda d: d["means_figures"].update(fresh_mean_ms=0.5), "times_mismatch"),
        (lambda d: d.update(lower_bound=d["lower_bound"] * 1.0001), "bound_not_proved"),
        (lambda d: d["bounds"][0].update(scenarios=[0]), "bound_not_proved"),
        (lambda d: d["bounds"].pop(), "bound_not_proved"),
    ):
        changed = json.loads(json.dumps(document))
        change(changed)
        plimsoll.write("robust.json", changed)
        report = plimsoll.run(*check, "--json", code=5).document
        assert code in {violation["code"] for violation in report["violations"]}


def test_other_commands_read_its_plan(plimsoll, robust):
    robust("-o", "robust.json")
    assert plimsoll.run("diff", "robust.json", "robust.json", "--exit-code").code == 0


@pytest.mark.parametrize(
    ("pooling", "message"),
    [
        ({"tables": {"t9": {"p50": 1, "p95": 2}}}, "no such table"),
        ({"tables": {"t0": {"p50": 3, "p95": 2}}}, "0 < p50 <= p95"),
        ({"tables": {"t0": {"p50": [1, 2], "p95": [1, 2]}}}, "one number for each feature"),
        ({"tables": {"t0": {}}}, "give p50 and p95, or samples"),
        ({"tables": {"t0": {"median": 3}}}, "median"),
    ],
)
def test_bad_pooling_factors_are_refused(plimsoll, robust, pooling, message):
    plimsoll.write("bad.json", pooling)
    assert message in robust(code=1, pooling="bad.json").err


def test_bad_flags_are_refused(robust):
    assert "--quantile" in robust("--quantile", "120%", code=1).err
    assert "--scenarios" in robust("--scenarios", "0", code=1).err
