"""plimsoll checkpoint, and plimsoll check of its plans: questions, searches, streams, exit codes, bad input."""

import json
import math
import pathlib
import re

import program
from program import ProgramTest

DATA = pathlib.Path(__file__).resolve().parents[1] / "data" / "checkpointing"
GIB = 1 << 30


def stats_path(name):
    return str(DATA / f"{name}.json")


def tiny(**changes):
    """Six modules that can be worked out by hand: R over R.a, R.b (each over a leaf x) and R.c."""
    mib = 1 << 20

    def module(fqn, is_leaf, kept, total, grads, grad_total, param, sac_memory=0, runtime=0, slopes=(), intercepts=()):
        return {
            "fqn": fqn,
            "is_leaf": is_leaf,
            "act_fw_per_module": kept * mib,
            "act_total": total * mib,
            "act_grad_per_module": grads * mib,
            "grad_total": grad_total * mib,
            "param_per_module": param * mib,
            "fw_runtime_per_module": runtime,
            "bw_runtime_per_module": 2 * runtime,
            "sac_memory": sac_memory * mib,
            "sac_runtime": runtime,
            "n_segments": len(slopes),
            "slopes": list(slopes),
            "intercepts": list(intercepts),
        }

    half = {"sac_memory": 1024, "slopes": (0.4, 1.6), "intercepts": (0, -0.6)}
    stats = {
        "name": "tiny6",
        "mod_order": {
            "fw_pre_order": ["R", "R.a", "R.a.x", "R.b", "R.b.x", "R.c"],
            "fw_post_order": ["R.a.x", "R.a", "R.b.x", "R.b", "R.c", "R"],
        },
        "mod_stats": [
            module("R", False, 1700, 2048, 256, 0, 400, 2000, 11, (0.5, 2), (0, -0.9)),
            module("R.a", False, 768, 832, 192, 300, 100, runtime=4, **half),
            module("R.a.x", True, 700, 800, 150, 320, 80),
            module("R.b", False, 768, 1664, 192, 200, 100, runtime=6, **half),
            module("R.b.x", True, 700, 1632, 150, 220, 80),
            module("R.c", True, 100, 2048, 128, 0, 200),
        ],
    }
    return stats | changes


class Checkpoint(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write("tiny.json", tiny())

    def plan(self, *arguments, code=0):
        return self.run_program("checkpoint", *arguments, "--json", code=code).document

    def test_one_budget(self):
        answer = self.plan("tiny.json", "--budget", "2.6GiB")
        self.assertEqual(answer["status"], "optimal")
        self.assertEqual([unit["fqn"] for unit in answer["units"]], ["R.a"])
        self.assertAlmostEqual(answer["units"][0]["discard_ratio"], 0.290625, places=6)
        self.assertAlmostEqual(answer["predicted"]["recompute_ms"], 0.465, places=6)
        self.assertLessEqual(answer["predicted"]["peak_bytes"], int(2.6 * GIB))
        self.assertEqual(answer["predicted"]["binding"], "R")
        self.assertAlmostEqual(answer["predicted"]["price_ms_per_gib"], 1.6, places=6)
        self.assertEqual([entry["fqn"] for entry in answer["profile"]], tiny()["mod_order"]["fw_post_order"])
        self.assertEqual(answer["certificate"]["gap"], 0)
        self.assertEqual(len(answer["input_hash"]), 64)

    def test_text_says_the_same(self):
        answer = self.run_program("checkpoint", "tiny.json", "--budget", "2.6GiB", "--profile")
        for part in ("tiny6: 6 modules", "optimal", "0.465", "R.a ", "in the backward of R\n", "backward of"):
            self.assertIn(part, answer.out)
        self.assertEqual(answer.err, "")

    def test_text_names_the_peak_at_every_position(self):
        answer = self.run_program("checkpoint", "tiny.json", "--budget", "2GiB").out
        profile = answer.partition("\nbackward of ")[2]
        rows = [line.split() for line in profile.splitlines()[2:]]
        self.assertEqual([row[0] for row in rows], tiny()["mod_order"]["fw_post_order"])
        document = self.plan("tiny.json", "--budget", "2GiB")
        self.assertEqual([int(row[-1]) for row in rows], [entry["bytes"] for entry in document["profile"]])
        # Of a large model those that need the most, unless all are asked for.
        model = (stats_path("gpt-native-12l"), "--budget", "60%")
        document = self.plan(*model)
        most = sorted(document["profile"], key=lambda entry: -entry["bytes"])
        text = self.run_program("checkpoint", *model).out
        self.assertIn(f"... {len(most) - 32} more that need at most", text)
        self.assertIn(str(most[0]["bytes"]), text)
        whole = self.run_program("checkpoint", *model, "--profile").out
        for entry in most:
            self.assertIn(f"{entry['fqn']} ", whole)
        # Whatever made the plan.
        for extra in (("--search", "torch"), ("--search", "milp"), ("--in-flight", "2", "--budget", "3GiB")):
            arguments = ("tiny.json", *extra) if "--budget" in extra else ("tiny.json", "--budget", "2GiB", *extra)
            document = self.plan(*arguments)
            self.assertEqual(len(document["profile"]), 6)
            self.assertLessEqual(
                abs(max(entry["bytes"] for entry in document["profile"]) - document["predicted"]["peak_bytes"]), 1024
            )

    def test_units_say_what_becomes_of_random_operators(self):
        for model in ("gpt-native-12l", "bert-large", "swin-base"):
            stats = json.loads(pathlib.Path(stats_path(model)).read_text())
            for budget in ("90%", "60%"):
                for unit in self.plan(stats_path(model), "--budget", budget)["units"]:
                    table = (
                        stats["sac_stats"][stats["sac_stats_of"][unit["fqn"]]] if unit.get("ops") else {"rand_ops": []}
                    )
                    keeps = table["rand_ops"] and all(unit["ops"][op]["save"] for op in table["rand_ops"])
                    self.assertEqual(unit["rng"], "save" if keeps else "recompute")

    def test_a_share_is_of_the_peak_without_checkpointing(self):
        whole = self.plan("tiny.json", "--budget", "100%")
        self.assertEqual(whole["units"], [])
        self.assertEqual(whole["budget_bytes"], 2704 << 20)
        self.assertEqual(self.plan("tiny.json", "--budget", "75%")["budget_bytes"], 2028 << 20)

    def test_a_large_frontier_is_held_against_prices(self):
        honest = self.run_program("checkpoint", "llama-3-8b", "--frontier", "--json").document
        judged = []
        for share in (1, 0.95):  # of the time that a point in the middle states
            points = [point | {"is_exact": point["ms"] == 0} for point in honest["frontier"]]
            middle = len(points) // 2
            ms = share * points[middle]["ms"]
            points[middle:] = [point | {"ms": min(ms, point["ms"])} for point in points[middle:]]
            points = [p for p, before in zip(points, [{"ms": math.inf}, *points]) if p["ms"] < before["ms"]]
            lower = [honest["frontier_bound"][0] | {"ms": 0}]
            self.write("curve.json", honest | {"frontier": points, "frontier_bound": lower})
            judged.append(self.run_program("check", "llama-3-8b", "curve.json", "--json", code=None).document)
        self.assertEqual([report["certificate_status"] for report in judged], ["not_repeated", "refuted"])
        self.assertIn("prices prove", judged[1]["certificate_reason"])
        honest["frontier"][0]["bytes"] -= 1
        honest["frontier_bound"][0]["bytes"] -= 2
        self.write("curve.json", honest)
        report = self.run_program("check", "llama-3-8b", "curve.json", "--json", code=5).document
        self.assertIn("no plan needs less", report["certificate_reason"])

    def test_the_whole_frontier(self):
        points = self.plan("tiny.json", "--frontier")["frontier"]
        self.assertEqual(points, self.plan("tiny.json")["frontier"])
        self.assertAlmostEqual(points[0]["bytes"] / GIB, 1.683594, places=5)
        self.assertAlmostEqual(points[0]["ms"], 4.95625, places=5)
        self.assertAlmostEqual(points[0]["ms_per_byte"] * GIB, -6.4, places=4)
        self.assertEqual((points[-1]["bytes"], points[-1]["ms"]), (2704 << 20, 0))
        self.assertIn("budget", self.run_program("checkpoint", "tiny.json").out)

    def test_an_overhead_a_knee_and_ranks(self):
        cheap = self.plan("tiny.json", "--overhead", "1.7")
        self.assertAlmostEqual(cheap["predicted"]["peak_bytes"] / GIB, 2.25, places=4)
        share = self.plan("tiny.json", "--overhead", f"{100 * 1.7 / 33}%")
        self.assertAlmostEqual(share["predicted"]["recompute_ms"], 1.7, places=6)
        knee = self.plan("tiny.json", "--knee")
        self.assertEqual(knee["status"], "optimal")
        four = self.plan("tiny.json", "--budget", "1.25GiB", "--world-size", "4")
        self.assertAlmostEqual(four["predicted"]["recompute_ms"], 6.1375, places=6)
        self.assertEqual(four["world_size"], 4)

    def test_every_search_finds_the_same_time(self):
        for fraction, ms in (("80%", 4.403809), ("60%", 27.495305)):
            asked = ("checkpoint", stats_path("gpt-native-12l"), "--budget", fraction, "--costs", "fit", "--json")
            exact = self.run_program(*asked).document
            milp = self.run_program(*asked, "--search", "milp").document
            self.assertAlmostEqual(exact["predicted"]["recompute_ms"], ms, places=5)
            self.assertAlmostEqual(milp["predicted"]["recompute_ms"], ms, places=4)
            for variant in ("reference", "torch-2.13"):
                torch = self.run_program(*asked, "--search", "torch", "--variant", variant).document
                self.assertLessEqual(torch["predicted"]["recompute_ms"], ms / 0.95)
                self.assertGreaterEqual(torch["predicted"]["recompute_ms"], ms * (1 - 2e-3))  # its tolerances

    def test_plans_pass_the_judge_whatever_was_asked(self):
        models = ("llama-3-8b", "dlrm-deep-towers", stats_path("gpt-native-12l"), stats_path("resnet-50"))
        flags = (
            ("--peak", "torch"),
            ("--costs", "fit"),
            ("--segments", "2"),
            ("--nested",),
            ("--world-size", "8"),
            ("--optimizer-bytes", "1GiB"),
            ("--repair", "early_stop", "--unit-overhead-ms", "0.1"),
        )
        for model in models:
            for extra in flags:
                with self.subTest(model=model, extra=extra):
                    self.run_program("checkpoint", model, "--budget", "75%", *extra, "-q", "-o", "p.json")
                    report = self.run_program("check", model, "p.json", "--json").document
                    self.assertEqual((report["violations"], report["hazards"]), ([], []))
                    self.assertLessEqual(report["peak_bytes"], json.loads(self.read("p.json"))["budget_bytes"])

    def test_the_room_of_copies_may_bind_at_the_last_module_of_a_unit(self):
        module = {"act_total": 9, "act_grad_per_module": 0, "grad_total": 0, "param_per_module": 0, "sac_runtime": 7}
        module |= {"fw_runtime_per_module": 7, "bw_runtime_per_module": 14, "sac_memory": 8, "total_peak_bw": 68}
        root = module | {"fqn": "R", "is_leaf": False, "act_fw_per_module": 8}
        leaf = module | {"fqn": "R.a", "is_leaf": True, "act_fw_per_module": 0}
        table = {"func_names": ["mm"] * 3, "runtimes": [1, 5, 1], "memory": [6, 2, 0], "saved_autograd_ops": [0, 2]}
        table |= {"view_like_ops": [], "rand_ops": [], "inplace_ops": [], "force_store_random": False}
        order = {"fw_pre_order": ["R", "R.a"], "fw_post_order": ["R.a", "R"]}
        stats = {"mod_order": order, "mod_stats": [root, leaf], "total_step_peak": 75, "sac_stats": [table]}
        self.write("copies.json", stats | {"sac_stats_of": {"R": 0}})
        asked = ("--budget", "70B", "--repair", "saved_copies", "-o", "p.json", "--json")
        predicted = self.run_program("checkpoint", "copies.json", *asked).document["predicted"]
        self.assertEqual((predicted["peak_bytes"], predicted["recompute_ms"], predicted["binding"]), (70, 1, "R"))
        self.assertEqual(self.run_program("check", "copies.json", "p.json", "--json").document["violations"], [])

    def test_runs_of_modules_take_what_they_take_under_fitted_costs_too(self):
        stats = tiny()
        stats["mod_stats"][5]["act_grad_per_module"] = 1650 << 20  # R.c needs more than R.a and R.b by themselves free
        stats["mod_stats"][1]["act_grad_per_module"] = 948 << 20  # and R.a needs more than R.b
        self.write("runs.json", stats)
        asked = ("--segments", "2", "--budget", "2500MiB", "-o", "p.json", "--json")
        copies = ("--repair", "saved_copies")
        for extra in (("--costs", "operators", *copies), ("--costs", "fit", *copies), ("--costs", "fit")):
            (unit,) = self.run_program("checkpoint", "runs.json", *asked, *extra).document["units"]
            self.assertEqual((unit["fqns"], unit["recompute_ms"]), (["R.a", "R.b"], 10))
            self.assertEqual(self.run_program("check", "runs.json", "p.json", "--json").document["violations"], [])
        answer = json.loads(self.read("p.json"))
        answer["units"][0]["discarded_bytes"] -= 1
        self.write("p.json", answer)
        report = self.run_program("check", "runs.json", "p.json", "--json", code=5).document
        self.assertIn("discarded", [violation["code"] for violation in report["violations"]])

    def test_plans_of_torchs_search_and_of_pipelines_pass_too(self):
        model = stats_path("gpt-native-12l")
        self.run_program("checkpoint", model, "--budget", "60%", "--search", "torch", "-o", "p.json")
        room = str(json.loads(self.read("p.json"))["budget_bytes"] + 1024)  # for the tolerances of torch's solver
        report = self.run_program("check", model, "p.json", "--budget", room, "--json").document
        self.assertEqual(report["violations"], [])
        self.run_program("checkpoint", model, "--budget", "20GiB", "--in-flight", "4", "-o", "p.json")
        self.assertEqual(self.run_program("check", model, "p.json", "--json").document["violations"], [])

    def test_the_judge_finds_what_is_wrong(self):
        self.run_program("checkpoint", "tiny.json", "--budget", "2GiB", "-o", "p.json")
        self.assertIn("right", self.run_program("check", "tiny.json", "p.json").out)
        answer = self.run_program("check", "tiny.json", "p.json", "--budget", "1.9GiB", code=5)
        self.assertIn("violation over_budget", answer.out)
        plan = json.loads(self.read("p.json"))
        plan["units"][0]["fqn"] = "R.z"
        self.write("p.json", plan)
        report = self.run_program("check", "tiny.json", "p.json", "--json", code=5).document
        self.assertIn("unknown_module", [violation["code"] for violation in report["violations"]])

    def test_operators_are_listed_one_by_one(self):
        answer = self.plan(stats_path("gpt-native-12l"), "--budget", "70%")
        self.assertEqual(answer["provenance"]["options"]["costs"], "operators")
        for unit in answer["units"]:
            self.assertEqual([op["i"] for op in unit["ops"]], list(range(len(unit["ops"]))))
            seen = {}
            for op in unit["ops"]:
                self.assertEqual(op["nth"], seen.get(op["op"], 0))
                seen[op["op"]] = op["nth"] + 1

    def test_2_where_nothing_fits(self):
        answer = self.run_program("checkpoint", "tiny.json", "--budget", "1.5GiB", code=2)
        self.assertIn("the smallest feasible budget is", answer.err)
        named = int(re.search(r"^does not fit: .*; try --budget (\d+)$", answer.out, re.MULTILINE)[1])
        self.plan("tiny.json", "--budget", str(named))
        self.plan("tiny.json", "--budget", str(named - 1), code=2)
        document = self.plan("tiny.json", "--budget", "0", code=2)
        self.assertEqual(document["status"], "infeasible")
        self.assertNotIn("units", document)
        self.assertEqual(document["explanation"]["missing"], 1724 << 20)
        self.assertEqual(document["explanation"]["binding"], "R.a")
        for search in ("torch", "milp"):
            other = self.plan("tiny.json", "--budget", "1.5GiB", "--search", search, code=2)
            self.assertEqual(other["status"], "infeasible")
            self.assertEqual(other["explanation"]["binding"], "R.a")
            self.assertEqual(other["explanation"]["missing"], (1724 << 20) - 3 * GIB // 2)
        for model in ("tiny.json", "llama-3-8b"):
            stage = self.plan(model, "--budget", "1GiB", "--in-flight", "4", code=2)["explanation"]
            least = GIB + stage["missing"]
            self.assertTrue(stage["binding"])
            self.plan(model, "--budget", str(least - 1), "--in-flight", "4", code=2)
        self.plan("tiny.json", "--budget", str(1724 << 20), "--in-flight", "1")
        stage = self.plan("tiny.json", "--budget", "1GiB", "--in-flight", "4", code=2)["explanation"]
        self.plan("tiny.json", "--budget", str(GIB + stage["missing"]), "--in-flight", "4")

    def test_models_whose_orders_disagree_go_to_the_milp(self):
        order = {
            "fw_pre_order": ["R", "R.a", "R.a.x", "R.b", "R.b.x", "R.c"],
            "fw_post_order": ["R.a.x", "R.b.x", "R.a", "R.b", "R.c", "R"],
        }
        self.write("odd.json", tiny(mod_order=order))
        answer = self.plan("odd.json", "--budget", "2.5GiB")
        self.assertEqual(answer["status"], "optimal")
        self.assertEqual([warning["code"] for warning in answer["warnings"]], ["order_of_return"])
        self.assertLessEqual(answer["predicted"]["peak_bytes"], answer["budget_bytes"])
        self.assertNotIn("price_ms_per_gib", answer["predicted"])
        self.assertIn(
            "order_of_return",
            self.run_program("checkpoint", "odd.json", "--budget", "2.5GiB").err + json.dumps(answer["warnings"]),
        )
        # Every question that other models may be asked.
        curve = self.plan("odd.json", "--frontier")
        self.assertEqual(
            (curve["status"], curve, [warning["code"] for warning in curve["warnings"]]),
            ("optimal", self.plan("odd.json"), ["order_of_return"]),
        )
        self.assertNotIn("frontier_bound", curve)
        self.assertIn("mixed-integer programming", self.run_program("checkpoint", "odd.json", "--frontier").err)
        points = curve["frontier"]
        self.assertEqual((points[0]["bytes"], points[-1]["bytes"], points[-1]["ms"]), (2402 << 20, 2704 << 20, 0))
        self.assertTrue(all(point["is_exact"] for point in points))
        for point in points:
            found = self.plan("odd.json", "--budget", str(point["bytes"]))
            self.assertAlmostEqual(found["predicted"]["recompute_ms"], point["ms"], places=6)
            least = self.plan("odd.json", "--overhead", str(point["ms"] + 1e-9))["predicted"]
            self.assertLessEqual(abs(least["peak_bytes"] - point["bytes"]), 1024)
        knee = self.plan("odd.json", "--knee")
        self.assertEqual(
            (knee["status"], [warning["code"] for warning in knee["warnings"]]), ("optimal", ["order_of_return"])
        )
        both = ("--in-flight", "3", "--ac-unit", "R.a", "--ac-unit", "R.b")
        missing = self.plan("odd.json", "--budget", "1GiB", *both, code=2)["explanation"]["missing"]
        both = ("--budget", str(GIB + missing), *both)
        # Each returns amid the other.
        self.assertEqual([unit["fqn"] for unit in self.plan("odd.json", *both)["units"]], ["R.a", "R.b"])
        for question in (
            ("--knee",),
            ("--overhead", "5%"),
            ("--budget", "2.5GiB"),
            both,
            ("--budget", "4.5GiB", "--in-flight", "2"),
            ("--budget", "2.5GiB", "--world-size", "4", "--optimizer-bytes", "1GiB"),
        ):
            with self.subTest(question):
                answer = self.run_program("checkpoint", "odd.json", *question, "-o", "p.json").err
                self.assertIn("mixed-integer programming", answer)
                judged = self.run_program("check", "odd.json", "p.json", "--json").document
                self.assertEqual(judged["violations"], [])
        stage = self.plan("odd.json", "--budget", "1GiB", "--in-flight", "3", code=2)["explanation"]
        self.plan("odd.json", "--budget", str(GIB + stage["missing"]), "--in-flight", "3")
        self.plan("odd.json", "--budget", str(GIB + stage["missing"] - 4096), "--in-flight", "3", code=2)
        cut = self.plan("odd.json", "--frontier", "--time-limit", "0.000001s", code=3)
        self.assertEqual((cut["status"], cut["stop"]), ("feasible", "deadline"))
        self.assertIn("smallest_budget_unproved", [warning["code"] for warning in cut["warnings"]])
        self.assertEqual(cut["frontier"][-1]["ms"], 0)
        for flags, place in (
            (("--segments", "2"), "--segments"),
            (("--nested",), "--nested"),
            (("--repair", "saved_copies"), "--repair"),
        ):
            refused = self.run_program("checkpoint", "odd.json", *flags, "--json", code=1).error
            self.assertEqual((refused["code"], refused["place"]), ("conflict", place))
        # R.b.x finds nothing gone, for R.a returns after it.
        for search in ("exact", "milp", "torch"):
            none = self.plan("odd.json", "--budget", "1GiB", "--search", search, code=2)["explanation"]
            self.assertEqual((none["binding"], none["missing"]), ("R.b.x", (2402 << 20) - GIB))
        least = str(2402 << 20)
        self.run_program("checkpoint", "odd.json", "--budget", least, "-o", "p.json")
        self.assertEqual(self.run_program("check", "odd.json", "p.json", "--json").document["violations"], [])
        self.plan("odd.json", "--budget", str((2402 << 20) - 1), code=2)

    def test_bad_questions(self):
        for arguments, place in (
            (("--budget", "-1"), "--budget"),
            (("--budget", "nan"), "--budget"),
            (("--budget", "inf"), "--budget"),
            (("--budget", "-5%"), "--budget"),
            (("--budget", "x%"), "--budget"),
            (("--budget", ""), "--budget"),
            (("--overhead", "-1"), "--overhead"),
            (("--overhead", "nan%"), "--overhead"),
            (("--budget", "1", "--knee"), "--budget"),
            (("--search", "torch"), "--search"),
            (("--in-flight", "2"), "--in-flight"),
            (("--peak", "step"), "--peak"),
            (("--time-limit", "0"), "--time-limit"),
            (("--budget", "1", "--optimizer-bytes", "x"), "--optimizer-bytes"),
        ):
            with self.subTest(arguments):
                answer = self.run_program("checkpoint", "tiny.json", *arguments, "--json", code=1)
                self.assertEqual(answer.error["place"], place)
        unknown = self.run_program("checkpoint", "tiny.json", "--ac-unit", "R.zz", "--json", code=1)
        self.assertEqual((unknown.error["code"], unknown.error["place"]), ("not_found", "--ac-unit"))
        near = self.run_program(
            "checkpoint",
            stats_path("gpt2-small"),
            "--budget",
            "60%",
            "--fsdp-unit",
            "GPT2LMHeadModel.transformer.h.00",
            "--json",
            code=1,
        )
        self.assertEqual(near.error["place"], "--fsdp-unit")
        self.assertIn("GPT2LMHeadModel.transformer.h.0", near.error["remedy"])
        missing = self.run_program("checkpoint", "llama-3-9b", "--json", code=1)
        self.assertIn("llama-3-8b", missing.error["remedy"])

    def test_absurd_sizes(self):
        for arguments, place in (
            (("--budget", "99999999%"), "--budget"),
            (("--budget", "1", "--optimizer-bytes", "7EiB"), "--optimizer-bytes"),
            (("--budget", "99999999999GiB"), "--budget"),
            (("--budget", str((1 << 63) - 1)), "--budget"),
            (("--budget", str((1 << 50) + 1)), "--budget"),
        ):
            with self.subTest(arguments):
                answer = self.run_program("checkpoint", "tiny.json", *arguments, "--json", code=1)
                self.assertEqual(answer.error["place"], place)
        whole = self.plan("tiny.json", "--budget", str(1 << 50))
        self.assertEqual((whole["status"], whole["units"]), ("optimal", []))
        stats = tiny()
        stats["mod_stats"][0]["act_total"] = 1 << 50
        self.write("huge.json", stats)
        self.assertEqual(
            self.run_program(
                "checkpoint", "huge.json", "--budget", "1", "--in-flight", "1048576", "--json", code=1
            ).error["place"],
            "--in-flight",
        )
        self.run_program("checkpoint", "tiny.json", "--budget", "5GiB", "--in-flight", "2", "-o", "p.json")
        plan = json.loads(self.read("p.json"))
        for in_flight in ("0", "-3", "2147483647"):
            plan["provenance"]["options"]["in_flight"] = in_flight
            self.write("p.json", plan)
            self.assertEqual(
                self.run_program("check", "tiny.json", "p.json", "--json", code=1).error["place"],
                "provenance/options/in_flight",
            )

    def test_bad_statistics(self):
        stats = tiny()
        stats["mod_stats"][1]["act_fw_per_module"] = -1
        self.write("bad.json", stats)
        answer = self.run_program("checkpoint", "bad.json", "--json", code=1)
        self.assertEqual(answer.error["place"], "bad.json#/mod_stats/1/act_fw_per_module")
        stats = tiny()
        stats["mod_stats"][1]["act_fw_per_modul"] = stats["mod_stats"][1].pop("act_fw_per_module")
        self.write("bad.json", stats)
        answer = self.run_program("checkpoint", "bad.json", "--json", code=1)
        self.assertIn("act_fw_per_module", answer.error["remedy"])


class RealModels(ProgramTest):
    def test_every_recorded_optimum(self):
        rows = json.loads((DATA / "optima.json").read_text())["rows"]
        self.assertGreaterEqual(len(rows), 26)
        for name, fraction, expected in rows:
            with self.subTest(name=name, fraction=fraction):
                baseline = json.loads(pathlib.Path(stats_path(name)).read_text())["baseline_peak_bytes"]
                asked = (
                    "checkpoint",
                    stats_path(name),
                    "--costs",
                    "fit",
                    "--budget",
                    str(int(baseline * fraction)),
                    "--json",
                )
                if expected is None:
                    self.run_program(*asked, code=2)
                    continue
                found = self.run_program(*asked).document["predicted"]["recompute_ms"]
                self.assertLessEqual(abs(found - expected), 1e-6 * expected)


if __name__ == "__main__":
    program.main()
