"""plimsoll replan: a good plan that moves few bytes, its bound, and the copies that lead there."""

import json

import pytest

HARDWARE = ("--on", "4x2GiB", "--local-world-size", "2", "--batch-size", "2048")
MIB = 1 << 20


def model(pooling):
    tables = [
        {
            "name": f"t{i}",
            "num_embeddings": 20000 * (1 + i % 5),
            "embedding_dim": 64,
            "feature_names": [f"f{i}"],
            "constraints": {"pooling_factors": [pooling[i]], "sharding_types": ["table_wise", "row_wise"]},
        }
        for i in range(len(pooling))
    ]
    modules = [{"path": "m", "kind": "embedding_bag_collection", "tables": tables}]
    return {"modules": modules, "optimizer": "rowwise_adagrad"}


BEFORE = [1 + 3 * (i % 7) for i in range(16)]
FAR = [p * (4 if i % 2 else 0.3) for i, p in enumerate(BEFORE)]
AFTER = [p * (1.6 if i % 3 == 0 else 0.8) for i, p in enumerate(BEFORE)]


@pytest.fixture
def replan(plimsoll):
    plimsoll.write("old_model.json", model(BEFORE))
    plimsoll.write("model.json", model(AFTER))
    plimsoll.write("far.json", model(FAR))
    plimsoll.run("shard", "old_model.json", *HARDWARE, "-o", "old.json")

    def run(*arguments, code=0, on=HARDWARE, model="model.json"):
        return plimsoll.run("replan", model, "old.json", *on, "--effort", "100000", *arguments, code=code)

    return run


def change(plimsoll, edit):
    document = json.loads(plimsoll.read("new.json"))
    edit(document)
    plimsoll.write("new.json", document)


class TestReplan:
    def test_moves_no_more_than_allowed_and_says_how_good_that_is(self, plimsoll, replan):
        whole = replan("--max-moved", "100%", "--json").document
        assert whole["ms"] == pytest.approx(whole["fresh_ms"], rel=2e-3)
        last = None
        for limit in ("0", "8MiB", "40MiB", "100%"):
            answer = replan("--max-moved", limit, "--json").document
            assert answer["moved_bytes"] <= answer["max_moved_bytes"]
            assert answer["schedule"]["moved_bytes"] == answer["moved_bytes"]
            assert answer["lower_bound"] <= answer["ms"] * (1 + 1e-9)
            assert last is None or answer["ms"] <= last * (1 + 1e-9)
            last = answer["ms"]
        kept = replan("--max-moved", "0", "--json").document
        assert kept["ms"] == pytest.approx(kept["before_ms"]) and kept["schedule"]["steps"] == []

    def test_a_price_weighs_time_against_bytes(self, replan):
        free = replan("--price-of-move", "0", "--json").document
        dear = replan("--price-of-move", "1000", "--json").document
        assert dear["moved_bytes"] == 0
        assert free["ms"] <= dear["ms"]

    def test_the_text_says_what_is_gained(self, replan):
        text = replan("--max-moved", "40MiB").out
        for part in ("predicted step", "old plan", "planned from scratch", "lower bound", "moved", "schedule"):
            assert part in text

    def test_a_rank_less_is_read_once_more(self, plimsoll, replan):
        fewer = ("--on", "2x2GiB", "--local-world-size", "2", "--batch-size", "2048")
        answer = replan("--max-moved", "100%", "--json", "-o", "new.json", on=fewer).document
        assert answer["least_moved_bytes"] > 0
        assert {source["rank"] for step in answer["schedule"]["steps"] for source in step.get("from", [])} >= {2, 3}
        plimsoll.run("check", "model.json", "new.json", *fewer)
        refused = replan("--max-moved", "0", "--json", code=2, on=fewer).document
        assert refused["status"] == "infeasible" and refused["least_moved_bytes"] == answer["least_moved_bytes"]

    def test_wrong_arguments_are_named(self, plimsoll, replan):
        assert "max-moved" in replan("--max-moved", "-1GiB", code=1).err
        assert "price" in replan("--price-of-move", "-1", code=1).err
        assert replan("--max-moved", "1GiB", "--price-of-move", "1", code=None).code in (0, 1)
        plimsoll.write("old.json", {"schema": "plimsoll.checkpoint_policy/1"})
        assert plimsoll.run("replan", "model.json", "old.json", *HARDWARE, code=1).err


class TestCheck:
    @pytest.fixture
    def made(self, plimsoll, replan):
        replan("--max-moved", "40MiB", "-o", "new.json")
        document = json.loads(plimsoll.read("new.json"))
        assert len(document["schedule"]["steps"]) >= 4
        return document

    def test_accepts_what_was_made(self, plimsoll, made):
        plimsoll.run("check", "model.json", "new.json", *HARDWARE)

    @pytest.mark.parametrize(
        "edit",
        [
            lambda d: d["schedule"]["steps"].pop(0),
            lambda d: d["schedule"]["steps"].pop(),
            lambda d: d["schedule"]["steps"].append(d["schedule"]["steps"][0]),
            lambda d: d["schedule"]["steps"][0].update(rank=(d["schedule"]["steps"][0]["rank"] + 1) % 4),
            lambda d: d["schedule"]["steps"][0].update(rows=d["schedule"]["steps"][0]["rows"] - 1),
            lambda d: next(s for s in d["schedule"]["steps"] if s.get("bytes")).update(bytes=1),
            lambda d: next(s for s in d["schedule"]["steps"] if s.get("from"))["from"][0].update(values=1),
            lambda d: d.update(moved_bytes=d["moved_bytes"] + 1),
            lambda d: d["schedule"].update(moved_bytes=d["moved_bytes"] + 1),
            lambda d: d.update(max_moved_bytes=d["moved_bytes"] - 1),
        ],
    )
    def test_refuses_a_changed_schedule(self, plimsoll, made, edit):
        change(plimsoll, edit)
        report = plimsoll.run("check", "model.json", "new.json", *HARDWARE, "--json", code=5).document
        assert "transfer_mismatch" in [violation["code"] for violation in report["violations"]]

    def test_a_bound_of_all_plans_is_that_of_the_certificate(self, plimsoll, made):
        assert made["is_bound_of_all"]
        change(plimsoll, lambda d: (d.update(lower_bound=d["lower_bound"] * 1.01), d.pop("gap")))
        report = plimsoll.run("check", "model.json", "new.json", *HARDWARE, "--json", code=5).document
        assert "bound_not_proved" in [violation["code"] for violation in report["violations"]]

    def test_repeats_a_bound_that_prices_moved_bytes(self, plimsoll, replan):
        for limit in ("--max-moved", "1MiB"), ("--price-of-move", "1000"):
            replan(*limit, "-o", "new.json", model="far.json")
            made = json.loads(plimsoll.read("new.json"))
            assert not made.get("is_bound_of_all") and made["prices"]["moved"] > 0
            report = plimsoll.run("check", "far.json", "new.json", *HARDWARE, "--strict", "--json").document
            assert report["certificate_status"] == "proved"

    @pytest.mark.parametrize(
        "edit",
        [
            lambda d: d.update(lower_bound=d["lower_bound"] * 1.00001),
            lambda d: d.pop("prices"),
            lambda d: d["prices"].update(moved=d["prices"]["moved"] * 10),
            lambda d: d["prices"]["weight"][0].__setitem__(0, d["prices"]["weight"][0][0] + 0.1),
            lambda d: d["prices"].update(weight=[]),
            lambda d: d.update(max_moved_bytes=d["max_moved_bytes"] * 2),
            lambda d: d.update(is_bound_of_all=True),
            lambda d: d.update(least_moved_bytes=1),
        ],
    )
    def test_refuses_a_bound_that_its_prices_do_not_prove(self, plimsoll, replan, edit):
        replan("--max-moved", "1MiB", "-o", "new.json", model="far.json")
        change(plimsoll, lambda d: (edit(d), d.pop("gap")))
        report = plimsoll.run("check", "far.json", "new.json", *HARDWARE, "--json", code=5).document
        assert "bound_not_proved" in [violation["code"] for violation in report["violations"]]
