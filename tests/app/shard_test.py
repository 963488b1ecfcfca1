"""plimsoll shard: exit codes, streams, files, limits."""

import json
import math
import os
import pty
import resource
import signal
import subprocess
import threading

import program
from program import ProgramTest, constrained, table


def open_terminal(test):
    try:
        return pty.openpty()
    except OSError as error:  # a sandbox without /dev/pts
        return test.skipTest(f"no pseudo-terminals here: {error}")


# Searches for seconds, and has a plan early.
LARGE = ("nv-synthetic-jumbo", "--on", "512x80GiB", "--search", "torchrec")


class ExitCodes(ProgramTest):
    def test_0_for_a_plan(self):
        answer = self.run_program("shard", "mlperf-dlrm-dcnv2", "--search", "torchrec", "--on", "dgx-h100:2")
        self.assertIn("mlperf-dlrm-dcnv2 on dgx-h100:2: 16 ranks in 2 host(s)", answer.out)
        self.assertIn("rating ", answer.out)
        self.assertIn("ebc.cat_25", answer.out)
        self.assertEqual(answer.err, "")

    def test_0_for_a_model_without_tables(self):
        self.write("model.json", {"tables": []})
        self.run_program("shard", "model.json", "--on", "8x80GiB")
        answer = self.run_program("shard", "model.json", "--on", "8x80GiB", "--json").document
        self.assertEqual((answer["status"], answer["plan"]["tables"]), ("optimal", []))

    def test_0_when_the_effort_runs_out_with_a_plan(self):
        answer = self.run_program(
            "shard", "mlperf-dlrm-dcnv2", "--search", "torchrec", "--on", "dgx-h100:2", "--effort", "5", "--json"
        ).document
        self.assertEqual((answer["status"], answer["stop"]), ("feasible", "effort"))

    def test_2_for_what_is_proved_infeasible_with_the_explanation(self):
        # Three tables of 4.8 GiB; two ranks of 6.8 GiB after reservation lack 0.7 GiB in all. Ranks of 4.2 hold none,
        # and still lack more in all; but of one table alone they lack 0.5 GiB on a rank.
        tables = [constrained("t", "table_wise", rows=10**7, columns=128) | {"count": 3}]
        self.write("model.json", {"tables": tables})
        answer = self.run_program("shard", "model.json", "--search", "torchrec", "--on", "2x8GiB", code=2)
        self.assertIn("infeasible", answer.out)
        self.assertIn("insufficient_storage", answer.err)
        self.assertIn("proved infeasible: hbm: ", answer.err)
        document = self.run_program(
            "shard", "model.json", "--search", "torchrec", "--on", "2x8GiB", "--json", code=2
        ).document
        self.assertEqual(document["status"], "infeasible")
        self.assertNotIn("plan", document)
        self.assertIsNone(document["rating"])
        self.assertEqual(document["explanation"]["binding"], "hbm")
        self.assertGreater(document["explanation"]["missing"], 0)
        small = ("shard", "model.json", "--search", "torchrec", "--on", "2x5GiB", "--json")
        explanation = self.run_program(*small, code=2).document["explanation"]
        self.assertEqual(explanation["binding"], "hbm")
        self.assertGreater(explanation["missing"], 5 << 30)
        self.write("model.json", {"tables": [constrained("t", "table_wise", rows=10**7, columns=128)]})
        explanation = self.run_program(*small, code=2).document["explanation"]
        self.assertEqual(explanation["binding"], "table .t")
        cap = (5 << 30) + math.ceil(explanation["missing"] / 0.85)
        self.run_program(*small, "--hbm-cap", str(cap + 64))
        self.run_program(*small, "--hbm-cap", str(cap - 64), code=2)

    def test_3_when_the_clock_cuts_the_search_and_the_effort_it_names_gives_the_same_plan(self):
        cut = self.run_cut("shard", *LARGE, limits=("300ms", "2s", "10s"))
        self.assertEqual((cut["status"], cut["stop"]), ("feasible", "deadline"))
        stopped_at = cut["provenance"]["stopped_at"]
        effort = "".join(c for c in stopped_at if c.isdigit())
        again = self.run_program("shard", *LARGE, "--effort", effort, "--json").document
        self.assertEqual(again["plan"], cut["plan"])
        self.assertEqual(again["rating"], cut["rating"])

    def test_3_when_the_search_is_interrupted(self):
        # Progress stands on a terminal only, so standard error is one.
        ours, theirs = open_terminal(self)
        self.addCleanup(os.close, ours)
        process = subprocess.Popen(
            [program.PROGRAM, "shard", *LARGE, "--json"], stdout=subprocess.PIPE, stderr=theirs, text=True
        )
        os.close(theirs)
        said = b""

        def read_progress():
            nonlocal said
            try:
                while chunk := os.read(ours, 4096):
                    said += chunk
                    if b"rating " in said and process.poll() is None:
                        process.send_signal(signal.SIGINT)
                        break
            except OSError:
                pass

        reader = threading.Thread(target=read_progress)
        reader.start()
        out, _ = process.communicate(timeout=program.TIMEOUT_S)
        reader.join()
        self.assertIn(b"proposal ", said)
        self.assertEqual(process.returncode, 3)
        document = program.parse(out)
        self.assertEqual((document["status"], document["stop"]), ("feasible", "cancelled"))
        self.assertTrue(document["provenance"]["stopped_at"])

    def test_4_for_no_plan_and_no_proof(self):
        # Three tables of 4.8 GiB fit two ranks of 8.5 GiB in sum, and in no two of them.
        tables = [constrained("t", "table_wise", rows=10**7, columns=128) | {"count": 3}]
        self.write("model.json", {"tables": tables})
        answer = self.run_program("shard", "model.json", "--search", "torchrec", "--on", "2x10GiB", code=4)
        self.assertIn("strict_constraints", answer.err)
        document = self.run_program(
            "shard", "model.json", "--search", "torchrec", "--on", "2x10GiB", "--json", code=4
        ).document
        self.assertEqual((document["status"], document["failure"]["kind"]), ("limit", "strict_constraints"))
        self.assertTrue(document["failure"]["message"])


class Streams(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write("model.json", {"name": "small", "tables": [table(count=3)]})

    def test_json_is_one_document_whatever_is_asked_besides(self):
        answer = self.run_program("shard", "model.json", "--on", "4x40GiB", "--json", "--stats", "--plan", "-v")
        self.assertEqual(answer.document["schema"], "plimsoll.plan/1")
        self.assertEqual(answer.err, "")

    def test_text_holds_the_plan_and_the_statistics_where_asked(self):
        answer = self.run_program("shard", "model.json", "--on", "4x40GiB", "--stats", "--plan")
        for part in ("param | sharding type | compute kernel", "--- Planner Statistics ---"):
            self.assertTrue(part in answer.out, part)

    def test_output_is_the_document_that_json_prints(self):
        answer = self.run_program("shard", "model.json", "--on", "4x40GiB", "--json", "-o", "plan.json")
        self.assertEqual(self.read("plan.json"), answer.out)
        text = self.run_program("shard", "model.json", "--on", "4x40GiB", "-o", "again.json")
        self.assertEqual(self.read("again.json"), answer.out)
        self.assertIn("rating ", text.out)

    def test_equal_input_gives_equal_bytes(self):
        arguments = ("shard", "mlperf-dlrm-dcnv2", "--search", "torchrec", "--on", "dgx-h100:2", "--json")
        self.assertEqual(self.run_program(*arguments).out, self.run_program(*arguments).out)

    def test_warnings_go_to_stderr_unless_quiet(self):
        arguments = ("shard", "model.json", "--on", "6x40GiB", "--local-world-size", "4")
        loud = self.run_program(*arguments)
        self.assertTrue(loud.err.startswith("warning: "), loud.err)
        self.assertNotIn("warning", loud.out)
        quiet = self.run_program(*arguments, "-q")
        self.assertEqual(quiet.err, "")
        self.assertEqual(loud.out.splitlines()[2:], quiet.out.splitlines()[2:])  # but for the seconds
        document = self.run_program(*arguments, "--json", "-q").document
        self.assertEqual([w["code"] for w in document["warnings"]], ["uneven_hosts"])

    def test_colour_only_where_asked(self):
        arguments = ("shard", "model.json", "--on", "4x40GiB")
        self.assertNotIn("\x1b", self.run_program(*arguments).out)
        self.assertNotIn("\x1b", self.run_program(*arguments, "--color", "never").out)
        self.assertIn("\x1b[", self.run_program(*arguments, "--color", "always").out)
        self.assertIn("\x1b[", self.run_program(*arguments, "--color", "always", NO_COLOR="1").out)
        self.assertNotIn("\x1b", self.run_program(*arguments, "--color", "always", "--json").out)

    def test_no_color_wins_over_a_terminal(self):
        for variables, is_coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
            ours, theirs = open_terminal(self)
            subprocess.run(
                [program.PROGRAM, "shard", "model.json", "--on", "4x40GiB"],
                stdout=theirs,
                stderr=subprocess.DEVNULL,
                cwd=self.folder,
                check=True,
                env=program.environment(**variables),
            )
            os.close(theirs)
            said = os.read(ours, 1 << 16)
            os.close(ours)
            self.assertEqual(b"\x1b[" in said, is_coloured)

    def test_the_model_may_come_from_standard_input(self):
        piped = self.run_program("shard", "-", "--on", "4x40GiB", "--json", stdin=self.read("model.json"))
        named = self.run_program("shard", "model.json", "--on", "4x40GiB", "--json")
        self.assertEqual(piped.out, named.out)

    def test_a_folder_does_not_hide_a_shipped_model_or_a_preset(self):
        (self.folder / "mlperf-dlrm-dcnv2").mkdir()
        (self.folder / "dgx-h100:2").mkdir()
        self.run_program("shard", "mlperf-dlrm-dcnv2", "--search", "torchrec", "--on", "dgx-h100:2", "--json")


class Files(ProgramTest):
    """A failure leaves what was there, and nothing beside it."""

    def setUp(self):
        super().setUp()
        self.write("model.json", {"tables": [table()]})
        self.write("plan.json", "what was there")

    def assert_untouched(self):
        self.assertEqual(self.read("plan.json"), "what was there")
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["model.json", "plan.json"])

    def test_bad_input_writes_nothing(self):
        self.run_program("shard", "nothing.json", "--on", "4x40GiB", "-o", "plan.json", code=1)
        self.run_program("shard", "model.json", "--on", "4x40GiB", "--bogus", "-o", "plan.json", code=1)
        self.assert_untouched()

    def test_paths_that_cannot_be_written(self):
        for path in ("missing/plan.json", ".", "plan.json/plan.json", "/dev/full"):
            with self.subTest(path):
                answer = self.run_program("shard", "model.json", "--on", "4x40GiB", "-o", path, "--json", code=1)
                self.assertEqual(answer.error["place"], path)
                self.assertTrue(answer.error["message"])
        self.assert_untouched()

    def test_a_disk_that_fills_up_leaves_the_old_file(self):
        def limit_file_size():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

        done = subprocess.run(
            [program.PROGRAM, "shard", "model.json", "--on", "4x40GiB", "-o", "plan.json"],
            capture_output=True,
            text=True,
            cwd=self.folder,
            check=False,
            preexec_fn=limit_file_size,
            restore_signals=False,
        )
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertIn("plimsoll: plan.json: cannot write", done.stderr)
        self.assert_untouched()

    def test_a_full_standard_output_is_an_error(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run(
                [program.PROGRAM, "models"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
            )
        self.assertEqual(done.returncode, 1)
        self.assertIn("standard output", done.stderr)


class StoredPlans(ProgramTest):
    """--load-plan: taken where it fits what it was made from, else refused."""

    ON = ("--on", "4x40GiB", "--local-world-size", "2")

    def setUp(self):
        super().setUp()
        self.write("model.json", {"tables": [table(count=3), constrained("rows", "table_row_wise", rows=4000)]})
        self.run_program("shard", "model.json", *self.ON, "-o", "plan.json")
        self.answer = program.parse(self.read("plan.json"))

    def load(self, *arguments, code=0):
        return self.run_program("shard", "model.json", "--load-plan", *arguments, "--json", code=code).document

    def test_gives_the_plan_back(self):
        again = self.load("plan.json", *self.ON)
        self.assertEqual((again["plan"], again["rating"]), (self.answer["plan"], self.answer["rating"]))
        self.run_program("convert", "model.json", "plan.json", *self.ON, "-o", "torchrec.json")
        again = self.load("torchrec.json", *self.ON)
        self.assertEqual(again["plan"], self.answer["plan"])

    def test_other_inputs_are_refused(self):
        answer = self.load("plan.json", *self.ON, "--batch-size", "99", code=4)
        self.assertEqual(answer["failure"]["kind"], "planner_input_context_mismatch")
        self.load("plan.json", "--on", "4x40GiB", code=1)  # table_row_wise is cut otherwise there

    def test_no_plan_at_all(self):
        self.assertEqual(self.load("none.json", *self.ON, code=1)["error"]["place"], "none.json")
        self.assertIn("model.json#", self.load("model.json", *self.ON, code=1)["error"]["place"])
        error = self.run_program("shard", "-", "--load-plan", "-", *self.ON, "--json", code=1).error
        self.assertEqual(error["place"], "-")


class Choices(ProgramTest):
    """Every flag that takes a name takes each of its names."""

    def setUp(self):
        super().setUp()
        self.write("model.json", {"tables": [table(count=3, rows=100000)]})

    def plan(self, *arguments, **more):
        return self.run_program("shard", "model.json", "--on", "8x40GiB", "--json", *arguments, **more).document

    def test_cost_models(self):
        for name in (
            "torchrec-1.2",
            "torchrec-1.4",
            "torchrec-ref",
            "torchrec-1.5",
            "torchrec-1.7",
            "torchrec-1.8",
            "torchrec-1.9",
        ):
            self.assertEqual(self.plan("--cost-model", name)["provenance"]["options"]["cost_model"], name)
        self.assertEqual(self.plan()["provenance"]["options"]["cost_model"], "torchrec-1.9")

    def test_bounds_check_modes_are_passed_on(self):
        for mode in ("fatal", "warning", "ignore", "none", "v2_fatal", "v2_warning", "v2_ignore"):
            self.write("model.json", {"tables": [table(rows=100000) | {"constraints": {"bounds_check_mode": mode}}]})
            self.assertEqual(self.plan()["plan"]["tables"][0]["bounds_check_mode"], mode)

    def test_proposers_and_partitioners(self):
        for name in (
            "default",
            "easyrec",
            "grid_search",
            "greedy_depth",
            "greedy_sum",
            "uniform",
            "dynamic_programming",
            "easyrec_dynamic_programming_v1",
            "easyrec_dynamic_programming_v2",
            "easyrec_dynamic_programming_v3",
            "greedy_depth+uniform",
        ):
            self.assertEqual(self.plan("--proposer", name)["provenance"]["options"]["proposers"], name)
        for name in ("greedy_perf", "greedy_perf_by_perf", "memory_balanced"):
            self.assertEqual(self.plan("--partitioner", name)["provenance"]["options"]["partitioner"], name)

    def test_reservations(self):
        for name in (
            "heuristical",
            "heuristical:0.05",
            "fixed_percentage:0.1",
            "inference",
            "fixed_absolute:4GiB",
            "sku_aware:6GiB",
        ):
            self.assertEqual(self.plan("--reservation", name)["status"] in ("optimal", "feasible"), True)

    def test_optimizers_change_the_bytes(self):
        def hbm(name):
            return sum(self.plan("--optimizer", name, "--proposer", "greedy_sum")["bill"]["bytes"]["hbm"])

        self.assertLess(hbm("sgd"), hbm("rowwise_adagrad"))
        self.assertLess(hbm("rowwise_adagrad"), hbm("adam"))
        self.plan("--optimizer", "none")

    def test_constraints_replace_those_of_the_model(self):
        self.write("constraints.json", {"constraints": {"t_1": {"sharding_types": ["data_parallel"]}}})
        tables = self.plan("--constraints", "constraints.json")["plan"]["tables"]
        self.assertEqual([t["sharding_type"] for t in tables if t["table"] == "t_1"], ["data_parallel"])

    def test_constraints_without_a_table_are_warned_of(self):
        self.write("constraints.json", {"constraints": {"u": {"sharding_types": ["data_parallel"]}}})
        places = [w["place"] for w in self.plan("--constraints", "constraints.json")["warnings"]]
        self.assertTrue(any("u" in place for place in places), places)

    def test_batch_size_and_modes(self):
        small = self.plan("--batch-size", "64")["rating"]
        self.assertLess(small, self.plan("--batch-size", "65536")["rating"])
        self.assertLess(self.plan("--inference", "--batch-size", "64")["rating"], small)
        for pipeline in ("none", "train_base", "train_sparse_dist", "train_prefetch_sparse_dist"):
            self.plan("--pipeline-type", pipeline, "--run-embedding-at-peak-memory")

    def test_the_easyrec_environment_counts_only_when_asked(self):
        variables = {"INTRA_NODE_BANDWIDTH": "1000", "CROSS_NODE_BANDWIDTH": "500", "STORAGE_RESERVE_PERCENT": "0.5"}
        plain = self.plan()
        self.assertEqual(self.plan(**variables), plain)
        asked = self.plan("--easyrec-environment", **variables)
        self.assertEqual(asked["provenance"]["options"]["proposers"], "easyrec")
        self.assertTrue(asked["provenance"]["options"]["reservation"].startswith("heuristical,0.5,"))
        self.assertNotEqual(asked["provenance"]["inputs"]["topology"], plain["provenance"]["inputs"]["topology"])
        self.assertGreater(asked["rating"], plain["rating"])
        given = self.plan(
            "--easyrec-environment", "--proposer", "uniform", "--reservation", "heuristical:0.1", **variables
        )["provenance"]["options"]
        self.assertEqual(given["proposers"], "uniform")
        self.assertTrue(given["reservation"].startswith("heuristical,0.1,"))

    def test_a_broken_easyrec_environment_is_named(self):
        for variable, value in (
            ("INTRA_NODE_BANDWIDTH", "fast"),
            ("CROSS_NODE_BANDWIDTH", "-1"),
            ("STORAGE_RESERVE_PERCENT", "7"),
            ("STORAGE_RESERVE_PERCENT", "x"),
        ):
            answer = self.run_program(
                "shard", "model.json", "--on", "8x40GiB", "--easyrec-environment", "--json", code=1, **{variable: value}
            )
            self.assertEqual(answer.error["place"], variable)

    def test_a_dash_is_standard_output(self):
        asked = self.run_program("shard", "mlperf-dlrm-dcnv2", "--search", "torchrec", "--on", "dgx-h100:2", "-o", "-")
        self.assertEqual(asked.document["status"], "feasible")
        self.assertFalse((self.folder / "-").exists())

    def test_every_bill_adds_up(self):
        answer = self.plan("--search", "torchrec")
        for tier in ("hbm", "ddr", "ssd"):
            causes = [bytes_ for name, bytes_ in answer["bill"]["bytes"].items() if name.startswith(tier + "_")]
            total = [sum(ranks) for ranks in zip(*causes)] if causes else [0] * 8
            self.assertEqual(answer["bill"]["bytes"][tier], total, tier)
        self.assertEqual(len(answer["bill"]["bytes"]["hbm"]), 8)
        self.assertGreater(max(answer["bill"]["bytes"]["hbm_weights"]), 0)
        sizes = answer["bill"]["bytes"]
        for rank, capacity in enumerate(sizes["capacity_hbm"]):
            self.assertLessEqual(sum(sizes[name][rank] for name in ("hbm", "dense", "kjt", "reserve")), capacity)
        self.assertAlmostEqual(max(answer["bill"]["ms"]["total"]), answer["rating"], delta=1e-9)
        certificate = answer["certificate"]
        self.assertLessEqual(certificate["lower_bound"], certificate["objective"])
        self.assertEqual(json.dumps(certificate["objective"]), json.dumps(answer["rating"]))


if __name__ == "__main__":
    program.main()
