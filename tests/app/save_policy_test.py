"""plimsoll checkpoint of one operator table, and of the log of torch's partitioner."""

import json
import pathlib

import program
from program import ProgramTest

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
LOG = str(DATA / "checkpointing" / "min_cut_information.json")
SEARCHES = ("exact", "greedy", "ilp", "dp", "dp_knapsack_sliding_hirschberg", "fixed_hirschberg")

# Upstream's own test of its policy: operators, ms, bytes.
TABLE = {
    "func_names": ["copy_", "add", "div", "mm", "native_dropout", "linear", "t", "relu_"],
    "runtimes": [5, 5, 8, 15, 15, 9, 1, 5],
    "memory": [0, 100, 100, 120, 0, 100, 0, 0],
    "view_like_ops": [6],
    "rand_ops": [4],
    "inplace_ops": [[0, 0], [7, 5]],
    "force_store_random": False,
}


def log(memory, runtimes, edges=(), **more):
    """Candidates c0, c1, ... of a graph that ends in `output`."""
    n = len(memory)
    names = [f"c{i}" for i in range(n)]
    return {
        "Joint Graph Edges": {"Edges": [[f"c{a}", f"c{b}"] for a, b in edges]},
        "Joint Graph Node Information": {name: {"index": i} for i, name in enumerate([*names, "output"])},
        "Recomputable Banned Nodes Order": names,
        "Knapsack Input Memories": memory,
        "Knapsack Input Runtimes": runtimes,
    } | more


class SavePolicyTest(ProgramTest):
    def plan(self, *arguments, code=0):
        return self.run_program("checkpoint", *arguments, "--json", code=code).document


class OperatorTables(SavePolicyTest):
    def setUp(self):
        super().setUp()
        self.write("table.json", TABLE)

    def test_torchs_policy_at_every_published_budget(self):
        rows = (
            (0, "10001000", 20),
            (100 / 420, "10001101", 34),
            (120 / 420, "10011000", 35),
            (200 / 420, "10101101", 42),
            (220 / 420, "10011101", 49),
            (320 / 420, "10111101", 57),
            (1, "11111101", 62),
        )
        for budget, bits, saved_runtime in rows:
            with self.subTest(budget):
                answer = self.plan("table.json", "--budget", repr(budget), "--search", "torch")
                self.assertEqual(answer["schema"], "plimsoll.save_policy/1")
                self.assertEqual("".join(str(int(value["save"])) for value in answer["values"]), bits)
                self.assertEqual(answer["predicted"]["saved_runtime"], saved_runtime)
                self.assertEqual(answer["status"], "optimal")
                self.assertEqual(answer["certificate"]["gap"], 0)

    def test_our_choices_hold_the_rules_of_plans_that_run(self):
        points = self.plan("table.json")["frontier"]
        self.assertEqual([point["memory"] for point in points], [0, 100, 120, 220, 320])
        for point in points:
            answer = self.plan("table.json", "--budget", repr(point["memory"] / 420))
            self.assertEqual(answer["predicted"]["recompute_runtime"], point["recompute_runtime"])
            self.assertEqual(answer["predicted"]["saved_memory"], point["memory"])
            # The operator that makes the output, and in-place groups, are never kept.
            self.assertFalse(answer["values"][5]["save"] or answer["values"][7]["save"])
        self.assertEqual(self.plan("table.json", "--frontier")["frontier"], points)

    def test_a_budget_of_nothing_is_legal_and_may_be_infeasible(self):
        self.assertEqual(self.plan("table.json", "--budget", "0")["predicted"]["saved_memory"], 0)
        self.write("stored.json", TABLE | {"memory": [10, 100, 100, 120, 0, 100, 0, 0]})
        for search in ("exact", "torch"):
            answer = self.run_program("checkpoint", "stored.json", "--budget", "0", "--search", search, code=2)
            self.assertIn("proved infeasible: what must be kept takes 10 bytes", answer.err)
            document = self.plan("stored.json", "--budget", "0", "--search", search, code=2)
            self.assertEqual(document["explanation"]["missing"], 10)
            self.assertNotIn("values", document)
            self.plan("stored.json", "--budget", "2.326%", "--search", search)  # ceil(.02326 * 430) = 11

    def test_text(self):
        text = self.run_program("checkpoint", "table.json", "--budget", "50%", "--search", "torch").out
        for part in (
            "table.json: 8 values, memory 420, runtime 63\n",
            "optimal",
            "budget 0.5: 5 of 8 kept",
            "recompute 21 (33.33 %)",
        ):
            self.assertIn(part, text)

    def test_bad_questions(self):
        for arguments, place in (
            (("--budget", "1.5"), "--budget"),
            (("--budget", "-1"), "--budget"),
            (("--budget", "nan"), "--budget"),
            (("--budget", "inf"), "--budget"),
            (("--budget", "1GiB"), "--budget"),
            (("--search", "torch"), "--search"),
            (("--budget", "1", "--search", "milp"), "--search"),
            (("--budget", "1", "--search", "dp"), "--search"),
            (("--knee",), "--knee"),
            (("--budget", "1", "--peak", "torch"), "--peak"),
            (("--budget", "1", "--frontier"), "--budget"),
            (("--world-size", "2"), "--world-size"),
        ):
            with self.subTest(arguments):
                self.assertEqual(
                    self.run_program("checkpoint", "table.json", *arguments, "--json", code=1).error["place"], place
                )

    def test_bad_tables(self):
        for change, place in (
            ({"runtimes": [1]}, "bad.json#/func_names"),
            ({"memory": [-1] * 8}, "bad.json#/memory/0"),
            ({"view_like_ops": [8]}, "bad.json#/view_like_ops"),
            (
                {key: [value] * 8200 for key, value in (("func_names", "mm"), ("runtimes", 1), ("memory", 1 << 50))},
                "bad.json#/memory",
            ),
            ({"inplace_ops": [[7, 9]]}, "bad.json#/inplace_ops"),
        ):
            with self.subTest(change):
                self.write("bad.json", TABLE | change)
                error = self.run_program("checkpoint", "bad.json", "--budget", "1", "--json", code=1).error
                self.assertTrue(error["place"].startswith(place), error)


class PartitionerLogs(SavePolicyTest):
    def test_torchs_own_log_is_solved_as_torch_did(self):
        for search in SEARCHES:
            answer = self.plan(LOG, "--search", search)
            self.assertEqual(answer["memory_budget"], 0.3)  # the log's
            self.assertEqual([value["save"] for value in answer["values"]], [True, False, True])
            self.assertEqual([value["was_saved"] for value in answer["values"]], [True, False, True])
            self.assertEqual(answer["predicted"]["saved_runtime"], 65536)
        self.assertEqual(self.plan(LOG)["status"], "optimal")
        self.assertEqual(self.plan(LOG, "--search", "dp")["status"], "feasible")

    def test_budgets(self):
        nothing = self.plan(LOG, "--budget", "0")
        self.assertEqual(nothing["predicted"]["saved_memory"], 0)
        for search in ("exact", "greedy", "dp"):
            self.assertEqual(
                self.plan(LOG, "--budget", "100%", "--search", search)["predicted"]["recompute_runtime"], 0
            )

    def test_the_solvers_differ_where_upstream_errs(self):
        # Three steps' worth at a budget of one: half of a split leaks.
        self.write("leak.json", log([1e-4] * 3, [1, 1, 1]))
        saved = {}
        for search in SEARCHES:
            answer = self.plan("leak.json", "--budget", "1e-4", "--search", search)
            saved[search] = sum(value["save"] for value in answer["values"])
            self.assertEqual(
                [warning["code"] for warning in answer.get("warnings", [])],
                ["over_budget"] if saved[search] > 1 else [],
            )
        self.assertEqual(saved.pop("dp_knapsack_sliding_hirschberg"), 2)
        self.assertEqual(set(saved.values()), {1})
        self.assertIn(
            "over_budget",
            json.dumps(self.plan("leak.json", "--budget", "1e-4", "--search", "dp_knapsack_sliding_hirschberg")),
        )
        # A sum in float32 loses what is cheap.
        self.write("float.json", log([0.1, 0.1, 0.1], [1e12, 1, 1]))
        self.assertEqual(
            self.plan("float.json", "--budget", "1", "--search", "dp")["predicted"]["recompute_runtime"], 2
        )
        self.assertEqual(self.plan("float.json", "--budget", "1")["predicted"]["recompute_runtime"], 0)

    def test_the_backward_pass_step_by_step(self):
        # c0 -> c1 -> c2: c2 needs c1, whose predecessor is kept.
        self.write("chain.json", log([0.1, 0.2, 0.2], [100, 50, 51], [(0, 1), (1, 2)]))
        answer = self.plan("chain.json", "--budget", "0.1", "--search", "dp", "--profile")
        self.assertEqual([value["save"] for value in answer["values"]], [True, False, False])
        self.assertEqual(
            [(step["event"], step.get("name", "")) for step in answer["trace"]],
            [
                ("start", ""),
                ("recompute", "c2"),
                ("recompute_for_user", "c1"),
                ("drop", "c2"),
                ("drop_kept", "c1"),
                ("drop_kept", "c0"),
            ],
        )
        for step, memory in zip(answer["trace"], (0.1, 0.3, 0.5, 0.3, 0.1, 0)):
            self.assertAlmostEqual(step["memory"], memory)
        self.assertAlmostEqual(answer["predicted"]["backward_peak_memory"], 0.5)
        self.assertAlmostEqual(answer["predicted"]["saved_memory"], 0.1)
        self.assertIn(
            "recompute_for_user", self.run_program("checkpoint", "chain.json", "--budget", "0.1", "--profile").out
        )

    def test_the_knee(self):
        self.write("knee.json", log([0.1, 0.2, 0.2], [100, 50, 51]))
        for most in ("0.3", "0.5"):
            knee = self.plan("knee.json", "--knee", "--budget", most, "--search", "dp")
            dynamic = self.plan("knee.json", "--budget", most, "--search", "dynamic_memory_budget_dp")
            self.assertEqual(knee["memory_budget"], dynamic["memory_budget"])
            self.assertEqual(knee["values"], dynamic["values"])
            self.assertLessEqual(knee["memory_budget"], float(most))

    def test_bad_questions(self):
        self.write("log.json", log([0.5], [1]))
        for arguments, place in (
            ((), "--budget"),
            (("--budget", "-1"), "--budget"),
            (("--budget", "inf"), "--budget"),
            (("--budget", "x"), "--budget"),
            (("--frontier",), "--frontier"),
            (("--budget", "1", "--search", "torch"), "--search"),
            (("--budget", "1", "--costs", "fit"), "--costs"),
            (("--budget", "1", "--time-limit", "0"), "--time-limit"),
            (("--overhead", "5%"), "--overhead"),
        ):
            with self.subTest(arguments):
                self.assertEqual(
                    self.run_program("checkpoint", "log.json", *arguments, "--json", code=1).error["place"], place
                )

    def test_divisions_by_zero_name_their_place_and_remedy(self):
        for memory, runtimes, arguments, place, remedy in (
            ([0, 0.5], [1, 1], ("--search", "greedy"), "Knapsack Input Memories", "another solver"),
            ([0, 0], [1, 1], ("--knee",), "Knapsack Input Memories", "one budget"),
            ([0.5, 0.5], [0, 0], ("--knee",), "Knapsack Input Runtimes", "one budget"),
            ([0, 0], [1, 1], ("--search", "dynamic_memory_budget_dp"), "Knapsack Input Memories", "one budget"),
        ):
            with self.subTest(arguments=arguments, place=place):
                self.write("zero.json", log(memory, runtimes))
                error = self.run_program("checkpoint", "zero.json", "--budget", "1", *arguments, "--json", code=1).error
                self.assertEqual((error["code"], error["place"]), ("zero_division", f"zero.json#/{place}"))
                self.assertIn(remedy, error["remedy"])
        self.assertEqual(
            self.run_program("checkpoint", "zero.json", "--budget", "1e300", "--search", "dp", "--json", code=1).error[
                "place"
            ],
            "--budget",
        )

    def test_bad_logs(self):
        for change in (
            {"Knapsack Input Memories": [-1]},
            {"Knapsack Input Runtimes": []},
            {"Recomputable Banned Nodes Order": ["x"]},
            {"Joint Graph Edges": {"Edges": [["output", "c0"]]}},
        ):
            with self.subTest(change):
                self.write("bad.json", log([0.5], [1]) | change)
                error = self.run_program("checkpoint", "bad.json", "--budget", "1", "--json", code=1).error
                self.assertTrue(error["place"].startswith("bad.json#/"), error)

    def test_searches_of_other_inputs(self):
        for search in ("dp", "greedy"):
            error = self.run_program(
                "checkpoint", "llama-3-8b", "--budget", "60%", "--search", search, "--json", code=1
            ).error
            self.assertEqual(error["place"], "--search")
            self.assertIn("milp", error["remedy"])


if __name__ == "__main__":
    program.main()
