"""plimsoll shard's own search: objectives, certificates, limits, rules, dumps; and check of what it makes."""

import json
import os
import pty
import re
import signal
import subprocess
import time

import program
from program import ProgramTest, table

ON = ("--on", "4x8GiB", "--local-world-size", "2")
QUICK = ("--effort", "20000")


def open_terminal(test):
    try:
        return pty.openpty()
    except OSError as error:  # a sandbox without /dev/pts
        return test.skipTest(f"no pseudo-terminals here: {error}")


class Balanced(ProgramTest):
    def setUp(self):
        super().setUp()
        tables = [
            table(f"t{i}", rows, 128 if i % 2 == 0 else 64, constraints={"pooling_factors": [3 + 7 * i]})
            for i, rows in enumerate((4000000, 1000000, 200000, 4096, 4096, 1000))
        ]
        self.write("model.json", {"modules": [{"path": "ebc", "tables": tables}]})

    def shard(self, *arguments, code=0, on=ON):
        return self.run_program("shard", "model.json", *on, *QUICK, "-o", "plan.json", *arguments, code=code)

    def check(self, *arguments, code=0, on=ON):
        return self.run_program("check", "model.json", "plan.json", *on, *arguments, code=code)

    def answer(self):
        return program.parse(self.read("plan.json"))

    def change(self, change):
        answer = self.answer()
        change(answer)
        self.write("plan.json", answer)


class Answers(Balanced):
    def test_the_default_keeps_the_rating_and_states_everything(self):
        text = self.shard().out
        for part in (
            "reference plan",
            "rating",
            "step",
            "time",
            "no plan that rates at most",
            "gap",
            "proof: ",
            "assumed",
        ):
            self.assertIn(part, text)
        answer = self.answer()
        self.assertEqual((answer["objective"], answer["provenance"]["options"]["search"]), ("time", "balanced"))
        self.assertLessEqual(answer["times"]["rating"], answer["reference"]["rating"] * (1 + 1e-9))
        self.assertLessEqual(answer["times"]["time"], answer["reference"]["time"] * (1 + 1e-9))
        self.assertEqual(answer["certificate"]["objective"], answer["times"]["time"])
        self.assertEqual(answer["rating"], answer["times"]["rating"])
        self.assertIn("the prices prove that no plan is below", self.check("--strict").out)

    def test_every_objective_and_width_passes_the_check(self):
        for objective in ("rating", "step", "time"):
            for widths in ("default", "all"):
                with self.subTest(f"{objective}, {widths}"):
                    self.shard("--objective", objective, "--widths", widths)
                    answer = self.answer()
                    self.assertEqual(answer["objective"], objective)
                    value, least = answer["times"][objective], answer["reference"][objective]
                    self.assertLessEqual(value, least * (1 + 1e-12))
                    self.assertLessEqual(answer["certificate"]["lower_bound"], value)
                    report = self.check("--strict", "--json").document
                    self.assertTrue(report["is_right"])
                    self.assertAlmostEqual(report["times"][objective], value, delta=1e-9 * value)

    def test_the_step_model_is_the_files(self):
        self.write("step.json", {"ms_per_sharding_type": 0, "floor_ms": 7, "ms_per_table": 0.25})
        self.assertNotIn("assumed", self.shard("--objective", "time", "--step-model", "step.json").out)
        self.assertGreater(self.answer()["times"]["time"], 7)
        self.check("--strict")
        self.write("step.json", {"floor": 1})
        place = self.shard("--step-model", "step.json", "--json", code=1).error["place"]
        self.assertEqual(place, "step.json#/floor")

    def test_equal_input_gives_equal_bytes_on_any_number_of_threads(self):
        first = self.shard("--json").out
        self.assertEqual(self.shard("--json", "--threads", "4").out, first)

    def test_rules_are_kept_and_judged(self):
        self.write(
            "rules.json",
            {
                "allowed_ranks": {"ebc.t3": [2]},
                "forbidden_ranks": {"ebc.t4": [0, 1, 2]},
                "apart": [["ebc.t3", "ebc.t5"]],
            },
        )
        self.shard("--rules", "rules.json", "--objective", "rating")
        tables = {t["table"]: t for t in self.answer()["plan"]["tables"]}
        self.assertEqual({r["first"] for r in tables["t3"]["ranks"]}, {2})
        self.assertEqual({r["first"] for r in tables["t4"]["ranks"]}, {3})
        self.check("--strict")
        self.write("rules.json", {"apart": [["ebc.t3", "ebc.t9"]]})
        self.assertEqual(self.shard("--rules", "rules.json", "--json", code=1).error["code"], "not_found")

    def test_a_plan_that_breaks_its_rules_is_found(self):
        self.write("rules.json", {"allowed_ranks": {"ebc.t3": [2]}, "apart": [["ebc.t3", "ebc.t5"]]})
        self.shard("--rules", "rules.json", "--objective", "rating")
        here = next(t for t in self.answer()["plan"]["tables"] if t["table"] == "t5")["ranks"][0]["first"]

        def move(answer):  # onto t5, wherever that is
            taken = next(t for t in answer["plan"]["tables"] if t["table"] == "t3")
            taken["ranks"] = [{"first": here, "count": 1}]

        self.change(move)
        broken = [v for v in self.check("--json", code=5).document["violations"] if v["code"] == "rule_broken"]
        self.assertEqual([v["rank"] for v in broken], [here, here])

    def test_slow_ranks_get_less(self):
        for speeds in ([1, 1, 1, 0.25], [0.25, 1, 1, 1]):
            self.write(
                "machine.json", {"world_size": 4, "local_world_size": 2, "hbm_cap": "8 GiB", "device_speeds": speeds}
            )
            on = ("--on", "machine.json")
            for objective in ("rating", "step", "time"):
                self.shard("--objective", objective, on=on)
                answer = self.answer()
                self.assertLessEqual(answer["times"][objective], answer["reference"][objective] * (1 + 1e-12))
                report = self.check("--strict", "--json", on=on).document
                self.assertAlmostEqual(report["rating"], answer["times"]["rating"], delta=1e-9 * report["rating"])
            self.assertIn("rating_cap_left_out", self.shard("--json", on=on).out)
            self.check("--strict", on=on)
            self.assertLessEqual(self.answer()["times"]["rating"], self.answer()["reference"]["rating"] * (1 + 1e-9))
            self.assertIn("equally fast", self.shard("--search", "torchrec", on=on).err)
            self.check(on=on)

    def test_the_reference_search_states_all_three_times_too(self):
        text = self.run_program("shard", "model.json", *ON, "--search", "torchrec", "-o", "plan.json").out
        times = self.answer()["times"]
        self.assertIn(f"step {times['step']:.6g} ms, time {times['time']:.6g} ms", text)
        self.assertEqual(times["rating"], self.answer()["rating"])
        self.shard()
        self.assertEqual(self.answer()["reference"], times)

    def test_pooled_ddr_is_recorded_and_judged(self):
        self.shard("--pool-ddr")
        self.assertEqual(self.answer()["provenance"]["options"]["pools_ddr"], "true")
        self.check("--strict")
        error = self.shard("--pool-ddr", "--pod-size", "2", "--json", code=1).error
        self.assertEqual((error["code"], error["place"]), ("conflict", "--pool-ddr"))

    def test_flags_of_the_other_search_are_refused(self):
        for arguments, place in (
            (("--search", "torchrec", "--objective", "rating"), "--objective"),
            (("--search", "torchrec", "--frontier"), "--frontier"),
            (("--perf-model", "storage"), "--perf-model"),
            (("--search", "balanced", "--load-plan", "plan.json"), "--load-plan"),
        ):
            self.assertEqual(self.shard(*arguments, "--json", code=1).error["place"], place)

    def test_the_frontier_falls_and_is_bounded(self):
        self.assertIn("no plan below", self.shard("--frontier", "--objective", "rating").out)
        answer = self.answer()
        upper, lower = answer["frontier"], answer["frontier_bound"]
        self.assertGreater(len(upper), 1)
        for curve in (upper, lower):
            self.assertEqual(sorted(curve, key=lambda p: p["bytes"]), curve)
            self.assertEqual(sorted((p["ms"] for p in curve), reverse=True), [p["ms"] for p in curve])
        for point in upper:
            bound = [p["ms"] for p in lower if p["bytes"] <= point["bytes"]]
            self.assertLessEqual(bound[-1], point["ms"] * (1 + 1e-9))
        self.assertAlmostEqual(upper[-1]["ms"], answer["times"]["rating"], delta=1e-12)
        self.assertLessEqual(max(answer["bill"]["bytes"]["hbm"]), upper[-1]["bytes"])


class Certificates(Balanced):
    def test_a_changed_claim_is_a_violation(self):
        def bound(answer):
            return answer["certificate"]["bound"]

        def raise_prices(answer):
            for case in bound(answer)["cases"]:
                prices = case.get("prices", {}).get("theta", [])
                prices[:] = [1000 * (1 + i) for i in range(len(prices))]
                for proof in case.get("windows", {}).get("proofs", []):
                    proof["room"] = 0

        changes = {
            "bound_not_proved": [
                lambda a: a["certificate"].update(lower_bound=a["certificate"]["lower_bound"] * 1.01, gap=None),
                lambda a: a["certificate"].pop("bound"),
                lambda a: bound(a).update(value=bound(a)["value"] * 1.01),
                lambda a: bound(a)["cases"].pop(0),
            ],
            "times_mismatch": [
                lambda a: a["times"].update(time=a["times"]["time"] * 0.99),
                lambda a: a["times"].update(step=a["times"]["step"] * 0.99),
            ],
            "rating_above_cap": [lambda a: a["provenance"]["options"].update(rating_cap="1e-9")],
        }
        for code, list_of in changes.items():
            for change in list_of:
                self.shard()
                self.change(change)
                report = self.check("--json", code=5).document
                self.assertIn(code, [v["code"] for v in report["violations"]])

    def test_nothing_fits_is_proved_with_prices(self):
        self.write("model.json", {"tables": [table(rows=500000, columns=128, count=8)]})  # 2 GB
        on = ("--on", "2x1GiB", "--ddr-cap", "0.01GiB")
        answer = self.shard(code=2, on=on)
        self.assertIn("proved infeasible: ", answer.err)
        self.assertIn("weights of a byte", answer.err)
        document = self.answer()
        self.assertEqual(document["status"], "infeasible")
        self.assertGreater(document["explanation"]["missing"], 0)
        self.assertIn(document["explanation"]["binding"], ("hbm", "ddr"))
        self.assertIn("no plan exists", self.check(on=on).out)
        report = self.check("--json", on=("--on", "2x8GiB"), code=5).document  # more room: the proof falls
        self.assertEqual([v["code"] for v in report["violations"]], ["bound_not_proved"])


class Limits(Balanced):
    MODEL = ("nv-synthetic-medium", "--on", "16x80GiB", "--optimizer", "adagrad", "--batch-size", "4096")

    def replay(self, name):
        return self.run_program("shard", *self.MODEL[:3], "--replay", name, "--json").document

    def test_a_replay_makes_the_same_plan(self):
        self.shard("--objective", "step", "--widths", "all", "--seed", "3")
        again = self.run_program("shard", "model.json", *ON, "--replay", "plan.json", "--json").document
        self.assertEqual(again, self.answer())

    def test_a_replay_wants_the_same_inputs(self):
        self.shard()
        self.write("model.json", {"tables": [table()]})
        error = self.run_program("shard", "model.json", *ON, "--replay", "plan.json", "--json", code=1).error
        self.assertEqual((error["code"], error["place"]), ("conflict", "plan.json"))
        self.write("bare.json", self.answer()["plan"])
        self.run_program("shard", "model.json", *ON, "--replay", "bare.json", code=1)

    def test_a_replay_refuses_what_the_plan_decides(self):
        self.shard()
        for arguments in (("--objective", "step"), ("--seed", "4"), ("--batch-size", "7"), ("--pool-ddr",)):
            error = self.run_program(
                "shard", "model.json", *ON, "--replay", "plan.json", *arguments, "--json", code=1
            ).error
            self.assertEqual((error["code"], error["place"]), ("usage", arguments[0]))

    def test_a_file_that_cannot_be_written_is_told_before_the_search(self):
        begin = time.monotonic()
        for path in (".", "missing/plan.json"):
            error = self.run_program(
                "shard", *self.MODEL, "--effort", "100000000000", "-o", path, "--json", code=1
            ).error
            self.assertEqual(error["place"], path)
        self.assertLess(time.monotonic() - begin, 60)

    def test_the_clock_cuts_and_a_replay_stops_there(self):
        limits = ("100ms", "500ms", "3s", "20s")
        cut = self.run_cut("shard", *self.MODEL, "--effort", "100000000000", limits=limits)
        self.assertEqual(cut["stop"], "deadline")
        self.assertTrue(cut["provenance"]["stopped_at"])
        self.assertLessEqual(cut["certificate"]["lower_bound"], cut["certificate"]["objective"])
        self.write("cut.json", cut)
        self.assertEqual(self.replay("cut.json")["plan"], cut["plan"])

    def test_without_the_references_rating_the_answer_says_so(self):
        model = ("nv-synthetic-jumbo", "--on", "512x80GiB")  # the reference searches for seconds
        for limit in ("400ms", "3s", "20s"):
            done = subprocess.run(
                [program.PROGRAM, "shard", *model, "--time-limit", limit, "-o", str(self.folder / "cut.json")],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode != 4:
                break
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("the reference's search was cut after ", done.stderr)
        cut = program.parse(self.read("cut.json"))
        self.assertIn("no_reference_rating", [warning["code"] for warning in cut["warnings"]])
        self.assertNotIn("rating_cap", cut["provenance"]["options"])
        self.assertRegex(cut["provenance"]["stopped_at"], r"^proposal \d+, effort ")

    def test_progress_is_told_on_a_terminal(self):
        ours, theirs = open_terminal(self)
        self.addCleanup(os.close, ours)
        process = subprocess.Popen(
            [program.PROGRAM, "shard", *self.MODEL, "--objective", "rating", "--effort", "100000000000", "--json"],
            stdout=subprocess.PIPE,
            stderr=theirs,
            text=True,
        )
        os.close(theirs)
        told = re.compile(rb"\reffort (\d+): ([\d.]+) ms, bound ([\d.]+) ms, gap [\d.e+-]+ %")
        said = b""
        try:
            while chunk := os.read(ours, 4096):
                said += chunk
                if told.search(said) and process.poll() is None:
                    process.send_signal(signal.SIGINT)
                    break
        except OSError:  # the program has ended
            pass
        out, _ = process.communicate(timeout=program.TIMEOUT_S)
        self.assertEqual(process.returncode, 3)
        lines = told.findall(said)
        self.assertTrue(lines, said)
        answer = program.parse(out)
        for _, incumbent, bound in lines:
            self.assertLessEqual(float(bound), float(incumbent))
            self.assertLessEqual(answer["certificate"]["objective"], float(incumbent) * (1 + 1e-5))
        efforts = [int(effort) for effort, _, _ in lines]
        self.assertEqual(efforts, sorted(efforts))

    def test_an_interrupt_returns_the_best_plan(self):
        process = subprocess.Popen(
            [program.PROGRAM, "shard", *self.MODEL, "--effort", "100000000000", "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        time.sleep(3)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=program.TIMEOUT_S)
        self.assertEqual(process.returncode, 3)
        cut = program.parse(out)
        self.assertEqual(cut["stop"], "cancelled")
        self.write("cut.json", cut)
        self.assertEqual(self.replay("cut.json")["plan"], cut["plan"])


class Dumps(ProgramTest):
    """MODEL as the options of one of TorchRec's planners."""

    def setUp(self):
        super().setUp()
        self.classes = []
        options = []
        for i, (rows, ms) in enumerate(((1000, 1.0), (64, 2.0), (4096, 5.0))):
            whole = rows * 256
            for kind, count, share, size in (
                ("table_wise", 1, 1, [rows, 64]),
                ("column_wise", 2, 2, [rows, 32]),
                ("row_wise", 4, 4, [rows // 4, 64]),
                ("table_row_wise", 2, 2, [rows // 2, 64]),
            ):
                self.classes.append([whole // share, 0, 0, ms / share + 0.1])
                options.append(
                    {
                        "fqn": f"m.t{i}",
                        "sharding_type": kind,
                        "compute_kernel": "fused",
                        "rows": rows,
                        "columns": 64,
                        "shards": [len(self.classes) - 1] * count,
                        "sizes": [size] * count,
                        "storage_hash": 2**60 + len(options),
                    }
                )
        self.dump = {
            "schema": "plimsoll.torchrec_options/1",
            "torchrec": "1.8.0",
            "world_size": 4,
            "local_world_size": 2,
            "room": [[2**29, 0, 0]] * 4,
            "context_hash": "abc",
            "shard_classes": self.classes,
            "options": options,
        }
        self.write("dump.json", self.dump)

    def test_the_answer_names_every_option_and_rank(self):
        answer = self.run_program("shard", "dump.json", "--json").document
        self.assertEqual((answer["objective"], answer["status"]), ("rating", "optimal"))
        self.assertEqual(answer["provenance"]["inputs"]["context"], "abc")
        self.assertEqual([t["fqn"] for t in answer["options"]], ["m.t0", "m.t1", "m.t2"])
        load = [0] * 4
        for taken, placed in zip(answer["options"], answer["plan"]["tables"]):
            option = self.dump["options"][taken["option"]]
            self.assertEqual((taken["fqn"], taken["storage_hash"]), (option["fqn"], option["storage_hash"]))
            self.assertEqual(len(taken["ranks"]), len(option["shards"]))
            self.assertEqual(placed["sharding_type"], option["sharding_type"])
            self.assertEqual(
                [[s["rows"], s["columns"]] for s in taken["shards"] for _ in range(s["count"])], option["sizes"]
            )
            for rank, shard in zip(taken["ranks"], option["shards"]):
                load[rank] += self.classes[shard][3]
        self.assertAlmostEqual(max(load), answer["rating"], delta=1e-9)

    def test_the_check_reads_the_dump(self):
        self.run_program("shard", "dump.json", "-o", "plan.json")
        self.assertIn("the prices prove", self.run_program("check", "dump.json", "plan.json", "--strict").out)
        answer = program.parse(self.read("plan.json"))
        for code, change in (
            ("wrong_shard_count", lambda t: t["ranks"].append(0)),
            ("duplicate_table", lambda t: t.update(fqn="m.t1")),
            ("type_not_allowed", lambda t: t.update(option=99)),
            ("rank_out_of_range", lambda t: t["ranks"].__setitem__(0, 9)),
        ):
            changed = json.loads(json.dumps(answer))
            change(changed["options"][0])
            self.write("changed.json", changed)
            report = self.run_program("check", "dump.json", "changed.json", "--json", code=5).document
            self.assertIn(code, [v["code"] for v in report["violations"]])

    def test_the_frontier_of_a_dump(self):
        for i, rows in enumerate((1000, 64, 4096)):  # replicas are fast, and take the most
            self.classes.append([rows * 256, 0, 0, 0.05])
            self.dump["options"].append(
                {
                    "fqn": f"m.t{i}",
                    "sharding_type": "data_parallel",
                    "compute_kernel": "dense",
                    "rows": rows,
                    "columns": 64,
                    "shards": [len(self.classes) - 1] * 4,
                    "sizes": [[rows, 64]] * 4,
                }
            )
        self.write("dump.json", self.dump)
        answer = self.run_program("shard", "dump.json", "--frontier", "--json").document
        upper, lower = answer["frontier"], answer["frontier_bound"]
        self.assertGreater(len(upper), 1)
        self.assertAlmostEqual(upper[-1]["ms"], answer["rating"], delta=1e-12)
        for point in upper:
            bound = [p["ms"] for p in lower if p["bytes"] <= point["bytes"]]
            self.assertLessEqual(bound[-1], point["ms"] * (1 + 1e-9))

    def test_the_check_reads_a_dump_that_nothing_fits(self):
        self.dump["room"] = [[1, 1, 0]] * len(self.dump["room"])
        self.write("dump.json", self.dump)
        self.run_program("shard", "dump.json", "-o", "plan.json", code=2)
        self.assertIn("no plan exists", self.run_program("check", "dump.json", "plan.json").out)
        answer = program.parse(self.read("plan.json"))
        answer["certificate"]["bound"]["cases"] = []
        self.write("plan.json", answer)
        self.run_program("check", "dump.json", "plan.json", code=5)

    def test_a_replay_and_the_reference(self):
        self.run_program("shard", "dump.json", "-o", "plan.json")
        again = self.run_program("shard", "dump.json", "--replay", "plan.json", "--json").out
        self.assertEqual(again, self.read("plan.json"))
        reference = self.run_program("shard", "dump.json", "--search", "torchrec", "--json").document
        self.assertGreaterEqual(reference["rating"], program.parse(again)["rating"])

    def test_what_a_dump_does_not_tell_is_refused(self):
        for arguments in (
            ("--on", "4x40GiB"),
            ("--batch-size", "3"),
            ("--objective", "step"),
            ("--widths", "all"),
            ("--stats",),
        ):
            error = self.run_program("shard", "dump.json", *arguments, "--json", code=1).error
            self.assertEqual((error["code"], error["place"]), ("usage", arguments[0]))
        self.dump["options"][0]["shards"] = [99]
        self.write("dump.json", self.dump)
        error = self.run_program("shard", "dump.json", "--json", code=1).error
        self.assertEqual(error["place"], "dump.json#/options/0/shards/0")


if __name__ == "__main__":
    program.main()
