"""plimsoll check and plimsoll convert: plans of three forms, right, hazardous and broken."""

import copy
import json

import program
import pytest
from program import Plimsoll, constrained, table

# One table of every placement, on two hosts of two ranks.
HARDWARE = ("--on", "4x40GiB", "--local-world-size", "2")
MODEL = {
    "name": "five",
    "optimizer": "sgd",
    "modules": [
        {
            "path": "sparse.ebc",
            "tables": [
                constrained("tw", "table_wise"),
                constrained("rw", "row_wise", rows=4000),
                constrained("cw", "column_wise", columns=256, min_partition=64),
                constrained("dp", "data_parallel", rows=100, kernel="dense"),
                constrained("twrw", "table_row_wise", rows=4000),
            ],
        }
    ],
}


class Checks(Plimsoll):
    def __init__(self, path, folder):
        super().__init__(path, folder)
        self.write("model.json", MODEL)
        self.answer = self.run(
            "shard", "model.json", *HARDWARE, "--batch-size", "64", "-o", "plan.json", "--search", "torchrec", "--json"
        ).document

    def check(self, plan, *arguments, code=0):
        return self.run("check", "model.json", plan, *HARDWARE, *arguments, code=code)

    def convert(self, to, *arguments):
        return self.run("convert", "model.json", "plan.json", *HARDWARE, "--to", to, *arguments)


@pytest.fixture
def plimsoll(program_path, tmp_path):
    return Checks(program_path, tmp_path)


class TestRightPlans:
    def test_our_own(self, plimsoll):
        answer = plimsoll.check("plan.json")
        assert answer.out.startswith("right: no violations, no hazards, slowest rank "), answer.out
        assert answer.err == ""

    def test_the_report_as_a_document(self, plimsoll):
        report = plimsoll.check("plan.json", "--json").document
        assert report["is_right"]
        assert report["rating"] == pytest.approx(plimsoll.answer["rating"], abs=1e-12)
        assert [r["rank"] for r in report["ranks"]] == [0, 1, 2, 3]
        assert [r["used"]["hbm"] for r in report["ranks"]] == plimsoll.answer["bill"]["bytes"]["hbm"]

    def test_from_standard_input(self, plimsoll):
        text = plimsoll.read("plan.json")
        plimsoll.run("check", "model.json", "-", *HARDWARE, stdin=text)
        plimsoll.run("check", "-", "plan.json", *HARDWARE, stdin=plimsoll.read("model.json"))
        answer = plimsoll.run("check", "-", "-", *HARDWARE, "--json", stdin=text, code=1)
        assert answer.error["place"] == "-"

    def test_verbose_lists_the_ranks(self, plimsoll):
        assert len(plimsoll.check("plan.json", "-v").out.splitlines()) == 1 + 2 + 4 + 2

    @pytest.mark.parametrize("form", ["torchrec", "easyrec", "plimsoll"])
    def test_every_converted_form(self, plimsoll, form):
        printed = plimsoll.convert(form)
        plimsoll.convert(form, "-o", "converted.json")
        assert plimsoll.read("converted.json") == printed.out
        both = plimsoll.convert(form, "-o", "converted.json", "--json")
        assert both.out == printed.out
        report = plimsoll.check("converted.json", "--batch-size", "64", "--json").document
        assert report["rating"] == pytest.approx(plimsoll.answer["rating"], abs=1e-12)
        again = plimsoll.run("convert", "model.json", "converted.json", *HARDWARE, "--to", "plimsoll")
        assert again.document["tables"] == plimsoll.answer["plan"]["tables"]

    @pytest.mark.parametrize("form", ["torchrec", "easyrec"])
    def test_kernels_by_the_names_of_early_releases(self, plimsoll, form):
        text = plimsoll.convert(form).out
        early = text.replace('"fused"', '"batched_fused"').replace('"dense"', '"batched_dense"')
        assert early.count("batched_") >= 2
        plimsoll.write("early.json", early)
        again = plimsoll.run("convert", "model.json", "early.json", *HARDWARE, "--to", "plimsoll")
        assert again.document["tables"] == plimsoll.answer["plan"]["tables"]

    def test_torchrec_has_every_shard_and_easyrec_none(self, plimsoll):
        modules = program.parse(plimsoll.convert("torchrec").out)
        assert modules["sparse.ebc"]["rw"]["shards"][3] == {
            "shard_offsets": [3000, 0],
            "shard_sizes": [1000, 64],
            "placement": "rank:3/cuda:1",
        }
        assert "shards" not in modules["sparse.ebc"]["dp"]
        assert "shards" not in plimsoll.convert("easyrec").out

    @pytest.mark.parametrize("name", ["criteo-kaggle", "deeprecsys-rm2", "dlrmv3-hstu-debug", "taobao-multitower-din"])
    def test_shipped_models(self, plimsoll, name):
        plimsoll.run("shard", name, "--search", "torchrec", "--on", "dgx-a100-640gb", "-o", "answer.json", "-q")
        plimsoll.run("check", name, "answer.json", "--on", "dgx-a100-640gb", "--strict")

    def test_what_the_plan_records_is_used_where_a_flag_is_absent(self, plimsoll):
        made = (
            "--batch-size",
            "77",
            "--cost-model",
            "torchrec-1.8",
            "--optimizer",
            "adam",
            "--inference",
            "--reservation",
            "fixed_percentage:0.3",
            "--pipeline-type",
            "train_prefetch_sparse_dist",
            "--run-embedding-at-peak-memory",
        )
        plimsoll.run("shard", "model.json", *HARDWARE, *made, "-o", "made.json")
        plimsoll.check("made.json")
        given = plimsoll.check("made.json", "--batch-size", "512", "--json", code=5).document
        assert [v["code"] for v in given["violations"]] == ["rating_mismatch"]
        reserved = plimsoll.check("made.json", "--reservation", "fixed_percentage:0.5", "--json").document
        assert reserved["ranks"][0]["capacity"]["hbm"] == 20 << 30
        dense = plimsoll.check(
            "made.json", "--reservation", "heuristical:0", "--dense-tensor-estimate", "1GiB", "--json"
        )
        assert dense.document["ranks"][0]["capacity"]["hbm"] < 39 << 30

    def test_a_rating_by_storage_is_no_time(self, plimsoll):
        plimsoll.run(
            "shard", "model.json", *HARDWARE, "--search", "torchrec", "--perf-model", "storage", "-o", "storage.json"
        )
        plimsoll.check("storage.json")


ON = ("--on", "16x40GiB")


class TestHazards:
    @pytest.fixture
    def plimsoll(self, plimsoll):
        tables = [constrained("t", "grid_shard", rows=100000, columns=256) | {"pooling": "mean"}]
        plimsoll.write("model.json", {"tables": tables})
        plimsoll.run("shard", "model.json", *ON, "-o", "plan.json")
        return plimsoll

    def test_are_named_and_legal(self, plimsoll):
        answer = plimsoll.run("check", "model.json", "plan.json", *ON)
        assert "hazard mean_pooling_grid, .t: " in answer.out
        report = plimsoll.run("check", "model.json", "plan.json", *ON, "--json").document
        assert report["is_right"]
        assert [(h["code"], h["place"]) for h in report["hazards"]] == [("mean_pooling_grid", ".t")]

    def test_are_violations_under_strict(self, plimsoll):
        answer = plimsoll.run("check", "model.json", "plan.json", *ON, "--strict", code=5)
        assert "violation hazard, .t: " in answer.out
        report = plimsoll.run("check", "model.json", "plan.json", *ON, "--strict", "--json", code=5).document
        assert not report["is_right"]
        assert [(v["code"], v["found"]) for v in report["violations"]] == [("hazard", "mean_pooling_grid")]


class BrokenPlans(Checks):
    def judge(self, change, *arguments):
        """The violations (code, table, rank) of the plan after `change`, as text and as a document."""
        answer = copy.deepcopy(self.answer)
        change(answer)
        self.write("broken.json", answer)
        report = self.check("broken.json", "--json", *arguments, code=5).document
        assert not report["is_right"]
        found = [(v["code"], v.get("place"), v.get("rank")) for v in report["violations"]]
        text = self.check("broken.json", *arguments, "-v", code=5).out
        for code, fqn, rank in found:
            where = [code] + ([fqn] if fqn else []) + ([f"rank {rank}"] if rank is not None else [])
            assert "violation " + ", ".join(where) + ": " in text
        return found

    def edit(self, name, **keys):
        def change(answer):
            for entry in answer["plan"]["tables"]:
                if entry["table"] == name:
                    entry.update(copy.deepcopy(keys))

        return change


class TestBrokenPlans:
    @pytest.fixture
    def plimsoll(self, program_path, tmp_path):
        return BrokenPlans(program_path, tmp_path)

    def test_name_what_is_wrong_with_table_and_rank(self, plimsoll):
        tables = plimsoll.answer["plan"]["tables"]
        rows = {"count": 4, "rows": 1000, "columns": 64, "row_stride": 1000}
        cases = {
            "a rank that does not exist": (
                plimsoll.edit("tw", ranks=[{"first": 9}]),
                ("rank_out_of_range", "sparse.ebc.tw", 9),
            ),
            "a table left out": (lambda a: a["plan"]["tables"].pop(0), ("missing_table", "sparse.ebc.tw", None)),
            "a table twice": (
                lambda a: a["plan"]["tables"].append(tables[0]),
                ("duplicate_table", "sparse.ebc.tw", None),
            ),
            "a table of another model": (plimsoll.edit("tw", table="wt"), ("unknown_table", "sparse.ebc.wt", None)),
            "a missing row": (
                plimsoll.edit("rw", shards=[rows | {"rows": 999}]),
                ("not_covered", "sparse.ebc.rw", None),
            ),
            "rows held twice": (
                plimsoll.edit("rw", shards=[rows | {"row_stride": 900}]),
                ("covered_twice", "sparse.ebc.rw", 1),
            ),
            "rows beyond the table": (
                plimsoll.edit("rw", shards=[rows | {"rows": 1001}]),
                ("shard_out_of_table", "sparse.ebc.rw", 3),
            ),
            "a rank without a replica": (
                plimsoll.edit(
                    "dp", ranks=[{"first": 0, "count": 3}], shards=[{"count": 3, "rows": 100, "columns": 64}]
                ),
                ("wrong_group", "sparse.ebc.dp", 3),
            ),
            "rows of a host on two hosts": (
                plimsoll.edit("twrw", ranks=[{"first": 1, "count": 2}]),
                ("wrong_group", "sparse.ebc.twrw", 2),
            ),
            "a width that no kernel takes": (
                plimsoll.edit(
                    "cw",
                    ranks=[{"first": 0, "count": 2}],
                    shards=[{"rows": 1000, "columns": 130}, {"rows": 1000, "columns": 126, "column": 130}],
                ),
                ("width_not_divisible", "sparse.ebc.cw", 0),
            ),
            "kernel dense off data_parallel": (
                plimsoll.edit("tw", compute_kernel="dense"),
                ("dense_off_data_parallel", "sparse.ebc.tw", None),
            ),
            "a type that the constraint forbids": (
                plimsoll.edit("tw", sharding_type="column_wise"),
                ("type_not_allowed", "sparse.ebc.tw", None),
            ),
            "a rating that is not the plan's": (lambda a: a.update(rating=1.0), ("rating_mismatch", None, None)),
            "a plan for another machine": (lambda a: a["plan"].update(world_size=8), ("wrong_machine", None, None)),
        }
        for name, (change, expected) in cases.items():
            assert expected in plimsoll.judge(change), name

    def test_what_does_not_fit_names_every_rank(self, plimsoll):
        found = plimsoll.judge(lambda a: None, "--hbm-cap", "100KiB", "--reservation", "fixed_percentage:0")
        others = [("inputs_mismatch", None, None)]  # the plan was made for ranks with more room
        assert found == [("over_capacity", None, rank) for rank in range(4)] + others

    def test_a_foreign_plan_is_judged_too(self, plimsoll):
        modules = program.parse(plimsoll.convert("torchrec").out)
        modules["sparse.ebc"]["rw"]["shards"][1]["shard_offsets"] = [900, 0]
        plimsoll.write("broken.json", modules)
        report = plimsoll.check("broken.json", "--json", code=5).document
        assert ("covered_twice", "sparse.ebc.rw", 1) in [
            (v["code"], v["place"], v.get("rank")) for v in report["violations"]
        ]


class BadPlans(Checks):
    def assert_refused(self, text, place):
        self.write("bad.json", text)
        for command in ("check", "convert"):
            answer = self.run(command, "model.json", "bad.json", *HARDWARE, "--json", code=1)
            assert answer.error["place"].startswith(place), answer.error
            assert answer.error["message"]


class TestBadPlans:
    """What is not a plan at all is bad input."""

    @pytest.fixture
    def plimsoll(self, program_path, tmp_path):
        return BadPlans(program_path, tmp_path)

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "[]",
            "7",
            '"plan"',
            "{",
            "null",
            '{"x": 1}',
            '{"tables": 1}',
            '{"schema": "plimsoll.plan/2"}',
            '{"schema": "plimsoll.topology/1", "tables": []}',
        ],
    )
    def test_wrong_documents(self, plimsoll, text):
        plimsoll.assert_refused(text, "bad.json#")

    def test_wrong_fields_have_a_pointer(self, plimsoll):
        def edited(name, value):
            answer = copy.deepcopy(plimsoll.answer)
            answer["plan"]["tables"][1][name] = value
            return json.dumps(answer)

        place = "bad.json#/plan/tables/1/"
        plimsoll.assert_refused(edited("ranks", [{"first": 0, "count": 3}]), place + "ranks")
        plimsoll.assert_refused(edited("ranks", [{"first": -1, "count": 4}]), place + "ranks/0/first")
        plimsoll.assert_refused(edited("ranks", [{"first": 2**63, "count": 4}]), place + "ranks/0/first")
        plimsoll.assert_refused(edited("ranks", [{"first": 0, "count": 2**40}]), place + "ranks/0/count")
        plimsoll.assert_refused(edited("shards", [{"count": 4, "rows": 2**64, "columns": 1}]), place + "shards/0/rows")
        plimsoll.assert_refused(
            edited("shards", [{"count": 4, "rows": 2**62, "columns": 1, "row_stride": 2**62}]), place
        )
        plimsoll.assert_refused(edited("sharding_type", "rowwise"), place + "sharding_type")
        plimsoll.assert_refused(edited("shrads", []), place + "shrads")

    def test_an_answer_without_a_plan(self, plimsoll):
        plimsoll.write("huge.json", {"tables": [table(rows=10**10, columns=128)]})
        plimsoll.run("shard", "huge.json", *HARDWARE, "--search", "torchrec", "-o", "none.json", "-q", code=2)
        report = plimsoll.run("check", "huge.json", "none.json", *HARDWARE, "--json").document
        assert report["certificate_status"] == "proved"  # by prices of the judge's own
        document = program.parse(plimsoll.read("none.json"))
        plimsoll.write("none.json", document | {"status": "limit"})
        answer = plimsoll.run("check", "huge.json", "none.json", *HARDWARE, "--json", code=1)
        assert answer.error["place"] == "none.json"
        plimsoll.write("small.json", {"tables": [table(rows=10, columns=128)]})
        plimsoll.write("none.json", document)
        report = plimsoll.run("check", "small.json", "none.json", *HARDWARE, "--json", code=5).document
        assert report["certificate_status"] == "refuted"  # by a plan that the judge finds

    def test_recorded_options_that_are_none(self, plimsoll):
        recorded = plimsoll.answer["provenance"]["options"]
        kind, *figures = recorded["reservation"].split(",")
        cases = [
            ("batch_size", "x"),
            ("batch_size", "-5"),
            ("batch_size", "99999999999999999999"),
            ("cost_model", "torchrec-0"),
            ("pipeline_type", "x"),
            ("reservation", "x"),
            ("reservation", kind),
            ("reservation", ",".join([kind, "nan", *figures[1:]])),
            ("reservation", ",".join([kind, figures[0], "inf", *figures[2:]])),
            ("reservation", ",".join([kind, *figures[:2], "-5", *figures[3:]])),
        ]
        for key, value in cases:
            answer = copy.deepcopy(plimsoll.answer)
            answer["provenance"]["options"][key] = value
            plimsoll.write("bad.json", answer)
            plimsoll.check("bad.json", "--json", code=1)

    def test_a_truncated_plan(self, plimsoll):
        text = plimsoll.read("plan.json")
        for length in range(0, len(text) - 2, max(1, len(text) // 25)):
            plimsoll.assert_refused(text[:length], "bad.json#")

    def test_missing_files(self, plimsoll):
        answer = plimsoll.run("check", "model.json", "none.json", *HARDWARE, "--json", code=1)
        assert (answer.error["code"], answer.error["place"]) == ("not_found", "none.json")
        answer = plimsoll.run("convert", "model.json", "plan.json", *HARDWARE, "-o", "none/plan.json", "--json", code=1)
        assert answer.error["place"] == "none/plan.json"
        plimsoll.run("convert", "model.json", "plan.json", *HARDWARE, "--to", "xml", "--json", code=1)


class TestExplanations:
    """Why there is no plan is explained again by the judge."""

    TIGHT = ("--on", "2x1GiB", "--ddr-cap", "0.01GiB")

    @pytest.fixture
    def answer(self, plimsoll):
        model = {"modules": [{"path": "ebc", "tables": [table(f"t{i}", rows=10**7) for i in range(3)]}]}
        plimsoll.write("large.json", model)
        return plimsoll.run("shard", "large.json", *self.TIGHT, "--json", code=2).document

    def check(self, plimsoll, answer, *arguments, code=0):
        plimsoll.write("none.json", answer)
        return plimsoll.run("check", "large.json", "none.json", *arguments, "--json", code=code).document

    def test_a_right_one_is_proved(self, plimsoll, answer):
        assert answer["explanation"]["fixes"] and answer["explanation"]["conflict"]
        report = self.check(plimsoll, answer, *self.TIGHT, "--strict")
        assert (report["certificate_status"], report["explanation_status"]) == ("proved", "proved")

    def test_another_fix_is_refuted(self, plimsoll, answer):
        answer["explanation"]["fixes"][0]["ms"] /= 2
        report = self.check(plimsoll, answer, *self.TIGHT, code=5)
        assert report["explanation_status"] == "refuted"
        assert [violation["code"] for violation in report["violations"]] == ["explanation_mismatch"]
        assert "explanation/fixes/0" in report["explanation_reason"]

    def test_other_words_are_not_repeated(self, plimsoll, answer):
        """The judge is told of the same hardware by other flags."""
        same = ("--on", "2x1GiB", "--ddr-cap", "0.01GiB", "--hbm-cap", "1GiB")
        report = self.check(plimsoll, answer, *same)
        assert (report["certificate_status"], report["explanation_status"]) == ("proved", "not_repeated")
        assert "--hbm-cap 1GiB" in report["explanation_reason"]
        self.check(plimsoll, answer, *same, "--strict", code=5)

    def test_plans_explain_nothing(self, plimsoll):
        assert "explanation_status" not in plimsoll.check("plan.json", "--json").document
