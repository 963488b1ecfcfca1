"""plimsoll check and plimsoll convert: plans of three forms, right, hazardous and broken."""

import copy
import json

import program
from program import ProgramTest, constrained, table

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


class CheckTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write("model.json", MODEL)
        self.answer = self.run_program(
            "shard", "model.json", *HARDWARE, "--batch-size", "64", "-o", "plan.json", "--search", "torchrec", "--json"
        ).document

    def check(self, plan, *arguments, code=0):
        return self.run_program("check", "model.json", plan, *HARDWARE, *arguments, code=code)

    def convert(self, to, *arguments):
        return self.run_program("convert", "model.json", "plan.json", *HARDWARE, "--to", to, *arguments)


class RightPlans(CheckTest):
    def test_our_own(self):
        answer = self.check("plan.json")
        self.assertTrue(answer.out.startswith("right: 0 violation(s), 0 hazard(s), rating "), answer.out)
        self.assertEqual(answer.err, "")

    def test_the_report_as_a_document(self):
        report = self.check("plan.json", "--json").document
        self.assertTrue(report["is_right"])
        self.assertAlmostEqual(report["rating"], self.answer["rating"], delta=1e-12)
        self.assertEqual([r["rank"] for r in report["ranks"]], [0, 1, 2, 3])
        self.assertEqual([r["used"]["hbm"] for r in report["ranks"]], self.answer["bill"]["bytes"]["hbm"])

    def test_from_standard_input(self):
        text = self.read("plan.json")
        self.run_program("check", "model.json", "-", *HARDWARE, stdin=text)
        self.run_program("check", "-", "plan.json", *HARDWARE, stdin=self.read("model.json"))
        answer = self.run_program("check", "-", "-", *HARDWARE, "--json", stdin=text, code=1)
        self.assertEqual(answer.error["place"], "-")

    def test_verbose_lists_the_ranks(self):
        self.assertEqual(len(self.check("plan.json", "-v").out.splitlines()), 1 + 2 + 4 + 2)

    def test_every_converted_form(self):
        for form in ("torchrec", "easyrec", "plimsoll"):
            with self.subTest(form):
                printed = self.convert(form)
                self.convert(form, "-o", "converted.json")
                self.assertEqual(self.read("converted.json"), printed.out)
                both = self.convert(form, "-o", "converted.json", "--json")
                self.assertEqual(both.out, printed.out)
                report = self.check("converted.json", "--batch-size", "64", "--json").document
                self.assertAlmostEqual(report["rating"], self.answer["rating"], delta=1e-12)
                again = self.run_program("convert", "model.json", "converted.json", *HARDWARE, "--to", "plimsoll")
                self.assertEqual(again.document["tables"], self.answer["plan"]["tables"])

    def test_torchrec_has_every_shard_and_easyrec_none(self):
        modules = program.parse(self.convert("torchrec").out)
        self.assertEqual(
            modules["sparse.ebc"]["rw"]["shards"][3],
            {"shard_offsets": [3000, 0], "shard_sizes": [1000, 64], "placement": "rank:3/cuda:1"},
        )
        self.assertNotIn("shards", modules["sparse.ebc"]["dp"])
        self.assertNotIn("shards", self.convert("easyrec").out)

    def test_shipped_models(self):
        for name in ("criteo-kaggle", "deeprecsys-rm2", "dlrmv3-hstu-debug", "taobao-multitower-din"):
            with self.subTest(name):
                self.run_program(
                    "shard", name, "--search", "torchrec", "--on", "dgx-a100-640gb", "-o", "answer.json", "-q"
                )
                self.run_program("check", name, "answer.json", "--on", "dgx-a100-640gb", "--strict")

    def test_what_the_plan_records_is_used_where_a_flag_is_absent(self):
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
        self.run_program("shard", "model.json", *HARDWARE, *made, "-o", "made.json")
        self.check("made.json")
        given = self.check("made.json", "--batch-size", "512", "--json", code=5).document
        self.assertEqual([v["code"] for v in given["violations"]], ["rating_mismatch"])
        reserved = self.check("made.json", "--reservation", "fixed_percentage:0.5", "--json").document
        self.assertEqual(reserved["ranks"][0]["capacity"]["hbm"], 20 << 30)
        dense = self.check("made.json", "--reservation", "heuristical:0", "--dense-tensor-estimate", "1GiB", "--json")
        self.assertLess(dense.document["ranks"][0]["capacity"]["hbm"], 39 << 30)

    def test_a_rating_by_storage_is_no_time(self):
        self.run_program(
            "shard", "model.json", *HARDWARE, "--search", "torchrec", "--perf-model", "storage", "-o", "storage.json"
        )
        self.check("storage.json")


class Hazards(ProgramTest):
    ON = ("--on", "16x40GiB")

    def setUp(self):
        super().setUp()
        tables = [constrained("t", "grid_shard", rows=100000, columns=256) | {"pooling": "mean"}]
        self.write("model.json", {"tables": tables})
        self.run_program("shard", "model.json", *self.ON, "-o", "plan.json")

    def test_are_named_and_legal(self):
        answer = self.run_program("check", "model.json", "plan.json", *self.ON)
        self.assertIn("hazard mean_pooling_grid, .t: ", answer.out)
        report = self.run_program("check", "model.json", "plan.json", *self.ON, "--json").document
        self.assertTrue(report["is_right"])
        self.assertEqual([(h["code"], h["table"]) for h in report["hazards"]], [("mean_pooling_grid", ".t")])

    def test_are_violations_under_strict(self):
        answer = self.run_program("check", "model.json", "plan.json", *self.ON, "--strict", code=5)
        self.assertIn("violation hazard, .t: ", answer.out)
        report = self.run_program("check", "model.json", "plan.json", *self.ON, "--strict", "--json", code=5).document
        self.assertFalse(report["is_right"])
        self.assertEqual([(v["code"], v["found"]) for v in report["violations"]], [("hazard", "mean_pooling_grid")])


class BrokenPlans(CheckTest):
    def judge(self, change, *arguments):
        """The violations (code, table, rank) of the plan after `change`, as text and as a document."""
        answer = copy.deepcopy(self.answer)
        change(answer)
        self.write("broken.json", answer)
        report = self.check("broken.json", "--json", *arguments, code=5).document
        self.assertFalse(report["is_right"])
        found = [(v["code"], v.get("table"), v.get("rank")) for v in report["violations"]]
        text = self.check("broken.json", *arguments, code=5).out
        for code, fqn, rank in found:
            where = [code] + ([fqn] if fqn else []) + ([f"rank {rank}"] if rank is not None else [])
            self.assertIn("violation " + ", ".join(where) + ": ", text)
        return found

    def edit(self, name, **keys):
        def change(answer):
            for entry in answer["plan"]["tables"]:
                if entry["table"] == name:
                    entry.update(copy.deepcopy(keys))

        return change

    def test_name_what_is_wrong_with_table_and_rank(self):
        tables = self.answer["plan"]["tables"]
        rows = {"count": 4, "rows": 1000, "columns": 64, "row_stride": 1000}
        cases = {
            "a rank that does not exist": (
                self.edit("tw", ranks=[{"first": 9}]),
                ("rank_out_of_range", "sparse.ebc.tw", 9),
            ),
            "a table left out": (lambda a: a["plan"]["tables"].pop(0), ("missing_table", "sparse.ebc.tw", None)),
            "a table twice": (
                lambda a: a["plan"]["tables"].append(tables[0]),
                ("duplicate_table", "sparse.ebc.tw", None),
            ),
            "a table of another model": (self.edit("tw", table="wt"), ("unknown_table", "sparse.ebc.wt", None)),
            "a missing row": (self.edit("rw", shards=[rows | {"rows": 999}]), ("not_covered", "sparse.ebc.rw", None)),
            "rows held twice": (
                self.edit("rw", shards=[rows | {"row_stride": 900}]),
                ("covered_twice", "sparse.ebc.rw", 1),
            ),
            "rows beyond the table": (
                self.edit("rw", shards=[rows | {"rows": 1001}]),
                ("shard_out_of_table", "sparse.ebc.rw", 3),
            ),
            "a rank without a replica": (
                self.edit("dp", ranks=[{"first": 0, "count": 3}], shards=[{"count": 3, "rows": 100, "columns": 64}]),
                ("wrong_group", "sparse.ebc.dp", 3),
            ),
            "rows of a host on two hosts": (
                self.edit("twrw", ranks=[{"first": 1, "count": 2}]),
                ("wrong_group", "sparse.ebc.twrw", 2),
            ),
            "a width that no kernel takes": (
                self.edit(
                    "cw",
                    ranks=[{"first": 0, "count": 2}],
                    shards=[{"rows": 1000, "columns": 130}, {"rows": 1000, "columns": 126, "column": 130}],
                ),
                ("width_not_divisible", "sparse.ebc.cw", 0),
            ),
            "kernel dense off data_parallel": (
                self.edit("tw", compute_kernel="dense"),
                ("dense_off_data_parallel", "sparse.ebc.tw", None),
            ),
            "a type that the constraint forbids": (
                self.edit("tw", sharding_type="column_wise"),
                ("type_not_allowed", "sparse.ebc.tw", None),
            ),
            "a rating that is not the plan's": (lambda a: a.update(rating=1.0), ("rating_mismatch", None, None)),
            "a plan for another machine": (lambda a: a["plan"].update(world_size=8), ("wrong_machine", None, None)),
        }
        for name, (change, expected) in cases.items():
            with self.subTest(name):
                self.assertIn(expected, self.judge(change))

    def test_what_does_not_fit_names_every_rank(self):
        found = self.judge(lambda a: None, "--hbm-cap", "100KiB", "--reservation", "fixed_percentage:0")
        others = [("inputs_mismatch", None, None)]  # the plan was made for ranks with more room
        self.assertEqual(found, [("over_capacity", None, rank) for rank in range(4)] + others)

    def test_a_foreign_plan_is_judged_too(self):
        modules = program.parse(self.convert("torchrec").out)
        modules["sparse.ebc"]["rw"]["shards"][1]["shard_offsets"] = [900, 0]
        self.write("broken.json", modules)
        report = self.check("broken.json", "--json", code=5).document
        self.assertIn(
            ("covered_twice", "sparse.ebc.rw", 1),
            [(v["code"], v["table"], v.get("rank")) for v in report["violations"]],
        )


class BadPlans(CheckTest):
    """What is no plan at all is bad input."""

    def assert_refused(self, text, place):
        self.write("bad.json", text)
        for command in ("check", "convert"):
            answer = self.run_program(command, "model.json", "bad.json", *HARDWARE, "--json", code=1)
            self.assertTrue(answer.error["place"].startswith(place), answer.error)
            self.assertTrue(answer.error["message"])

    def test_wrong_documents(self):
        for text in (
            "",
            "[]",
            "7",
            '"plan"',
            "{",
            "null",
            '{"x": 1}',
            '{"tables": 1}',
            '{"schema": "plimsoll.plan/2"}',
            '{"schema": "plimsoll.model/1", "tables": []}',
        ):
            with self.subTest(text):
                self.assert_refused(text, "bad.json#")

    def test_wrong_fields_have_a_pointer(self):
        def edited(name, value):
            answer = copy.deepcopy(self.answer)
            answer["plan"]["tables"][1][name] = value
            return json.dumps(answer)

        place = "bad.json#/plan/tables/1/"
        self.assert_refused(edited("ranks", [{"first": 0, "count": 3}]), place + "ranks")
        self.assert_refused(edited("ranks", [{"first": -1, "count": 4}]), place + "ranks/0/first")
        self.assert_refused(edited("ranks", [{"first": 2**63, "count": 4}]), place + "ranks/0/first")
        self.assert_refused(edited("ranks", [{"first": 0, "count": 2**40}]), place + "ranks/0/count")
        self.assert_refused(edited("shards", [{"count": 4, "rows": 2**64, "columns": 1}]), place + "shards/0/rows")
        self.assert_refused(edited("shards", [{"count": 4, "rows": 2**62, "columns": 1, "row_stride": 2**62}]), place)
        self.assert_refused(edited("sharding_type", "rowwise"), place + "sharding_type")
        self.assert_refused(edited("shrads", []), place + "shrads")

    def test_an_answer_without_a_plan(self):
        self.write("huge.json", {"tables": [table(rows=10**10, columns=128)]})
        self.run_program("shard", "huge.json", *HARDWARE, "--search", "torchrec", "-o", "none.json", "-q", code=2)
        report = self.run_program("check", "huge.json", "none.json", *HARDWARE, "--json").document
        self.assertEqual(report["certificate_status"], "proved")  # by prices of the judge's own
        document = program.parse(self.read("none.json"))
        self.write("none.json", document | {"status": "limit"})
        answer = self.run_program("check", "huge.json", "none.json", *HARDWARE, "--json", code=1)
        self.assertEqual(answer.error["place"], "none.json")
        self.write("small.json", {"tables": [table(rows=10, columns=128)]})
        self.write("none.json", document)
        report = self.run_program("check", "small.json", "none.json", *HARDWARE, "--json", code=5).document
        self.assertEqual(report["certificate_status"], "refuted")  # by a plan that the judge finds

    def test_recorded_options_that_are_none(self):
        recorded = self.answer["provenance"]["options"]
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
            with self.subTest(f"{key}: {value}"):
                answer = copy.deepcopy(self.answer)
                answer["provenance"]["options"][key] = value
                self.write("bad.json", answer)
                self.check("bad.json", "--json", code=1)

    def test_a_truncated_plan(self):
        text = self.read("plan.json")
        for length in range(0, len(text) - 2, max(1, len(text) // 25)):
            with self.subTest(length):
                self.assert_refused(text[:length], "bad.json#")

    def test_missing_files(self):
        answer = self.run_program("check", "model.json", "none.json", *HARDWARE, "--json", code=1)
        self.assertEqual((answer.error["code"], answer.error["place"]), ("not_found", "none.json"))
        answer = self.run_program(
            "convert", "model.json", "plan.json", *HARDWARE, "-o", "none/plan.json", "--json", code=1
        )
        self.assertEqual(answer.error["place"], "none/plan.json")
        self.run_program("convert", "model.json", "plan.json", *HARDWARE, "--to", "xml", "--json", code=1)


if __name__ == "__main__":
    program.main()
