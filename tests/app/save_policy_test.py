"""plimsoll checkpoint of one operator table, and of the log of torch's partitioner."""

import json
import pathlib

import pytest
from program import Plimsoll

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


class SavePolicy(Plimsoll):
    def plan(self, *arguments, code=0):
        return self.run("checkpoint", *arguments, "--json", code=code).document


@pytest.fixture
def plimsoll(program_path, tmp_path):
    return SavePolicy(program_path, tmp_path)


class TestOperatorTables:
    @pytest.fixture
    def plimsoll(self, plimsoll):
        plimsoll.write("table.json", TABLE)
        return plimsoll

    @pytest.mark.parametrize(
        ("budget", "bits", "saved_runtime"),
        [
            (0, "10001000", 20),
            (100 / 420, "10001101", 34),
            (120 / 420, "10011000", 35),
            (200 / 420, "10101101", 42),
            (220 / 420, "10011101", 49),
            (320 / 420, "10111101", 57),
            (1, "11111101", 62),
        ],
    )
    def test_torchs_policy_at_every_published_budget(self, plimsoll, budget, bits, saved_runtime):
        answer = plimsoll.plan("table.json", "--budget", repr(budget), "--search", "torch")
        assert answer["schema"] == "plimsoll.save_policy/1"
        assert "".join(str(int(value["save"])) for value in answer["values"]) == bits
        assert answer["predicted"]["saved_runtime"] == saved_runtime
        assert answer["status"] == "optimal"
        assert answer["certificate"]["gap"] == 0

    def test_our_choices_hold_the_rules_of_plans_that_run(self, plimsoll):
        points = plimsoll.plan("table.json")["frontier"]
        assert [point["memory"] for point in points] == [0, 100, 120, 220, 320]
        for point in points:
            answer = plimsoll.plan("table.json", "--budget", repr(point["memory"] / 420))
            assert answer["predicted"]["recompute_runtime"] == point["recompute_runtime"]
            assert answer["predicted"]["saved_memory"] == point["memory"]
            # The operator that makes the output, and in-place groups, are never kept.
            assert not (answer["values"][5]["save"] or answer["values"][7]["save"])
        assert plimsoll.plan("table.json", "--frontier")["frontier"] == points

    @pytest.mark.parametrize("search", ["exact", "torch"])
    def test_a_budget_of_nothing_is_legal_and_may_be_infeasible(self, plimsoll, search):
        assert plimsoll.plan("table.json", "--budget", "0")["predicted"]["saved_memory"] == 0
        plimsoll.write("stored.json", TABLE | {"memory": [10, 100, 100, 120, 0, 100, 0, 0]})
        answer = plimsoll.run("checkpoint", "stored.json", "--budget", "0", "--search", search, code=2)
        assert "proved infeasible: what must be kept takes 10 bytes" in answer.err
        document = plimsoll.plan("stored.json", "--budget", "0", "--search", search, code=2)
        assert document["explanation"]["missing"] == 10
        assert "values" not in document
        plimsoll.plan("stored.json", "--budget", "2.326%", "--search", search)  # ceil(.02326 * 430) = 11

    def test_text(self, plimsoll):
        text = plimsoll.run("checkpoint", "table.json", "--budget", "50%", "--search", "torch").out
        for part in (
            "table.json: 8 values, memory 420, runtime 63\n",
            "optimal",
            "budget 0.5: 5 of 8 kept",
            "recompute 21 (33.33 %)",
        ):
            assert part in text

    @pytest.mark.parametrize(
        ("arguments", "place"),
        [
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
        ],
    )
    def test_bad_questions(self, plimsoll, arguments, place):
        assert plimsoll.run("checkpoint", "table.json", *arguments, "--json", code=1).error["place"] == place

    @pytest.mark.parametrize(
        ("change", "place"),
        [
            ({"runtimes": [1]}, "bad.json#/func_names"),
            ({"memory": [-1] * 8}, "bad.json#/memory/0"),
            ({"view_like_ops": [8]}, "bad.json#/view_like_ops"),
            (
                {key: [value] * 8200 for key, value in (("func_names", "mm"), ("runtimes", 1), ("memory", 1 << 50))},
                "bad.json#/memory",
            ),
            ({"inplace_ops": [[7, 9]]}, "bad.json#/inplace_ops"),
        ],
    )
    def test_bad_tables(self, plimsoll, change, place):
        plimsoll.write("bad.json", TABLE | change)
        error = plimsoll.run("checkpoint", "bad.json", "--budget", "1", "--json", code=1).error
        assert error["place"].startswith(place), error


class TestPartitionerLogs:
    @pytest.mark.parametrize("search", SEARCHES)
    def test_torchs_own_log_is_solved_as_torch_did(self, plimsoll, search):
        answer = plimsoll.plan(LOG, "--search", search)
        assert answer["memory_budget"] == 0.3  # the log's
        assert [value["save"] for value in answer["values"]] == [True, False, True]
        assert [value["was_saved"] for value in answer["values"]] == [True, False, True]
        assert answer["predicted"]["saved_runtime"] == 65536

    def test_only_exact_searches_prove(self, plimsoll):
        assert plimsoll.plan(LOG)["status"] == "optimal"
        assert plimsoll.plan(LOG, "--search", "dp")["status"] == "feasible"

    @pytest.mark.parametrize("search", ["exact", "greedy", "dp"])
    def test_the_whole_budget_keeps_all(self, plimsoll, search):
        assert plimsoll.plan(LOG, "--budget", "100%", "--search", search)["predicted"]["recompute_runtime"] == 0

    def test_no_budget_keeps_nothing(self, plimsoll):
        nothing = plimsoll.plan(LOG, "--budget", "0")
        assert nothing["predicted"]["saved_memory"] == 0

    def test_the_solvers_differ_where_upstream_errs(self, plimsoll):
        # Three steps' worth at a budget of one: half of a split leaks.
        plimsoll.write("leak.json", log([1e-4] * 3, [1, 1, 1]))
        saved = {}
        for search in SEARCHES:
            answer = plimsoll.plan("leak.json", "--budget", "1e-4", "--search", search)
            saved[search] = sum(value["save"] for value in answer["values"])
            assert [warning["code"] for warning in answer.get("warnings", [])] == (
                ["over_budget"] if saved[search] > 1 else []
            )
        assert saved.pop("dp_knapsack_sliding_hirschberg") == 2
        assert set(saved.values()) == {1}
        assert "over_budget" in json.dumps(
            plimsoll.plan("leak.json", "--budget", "1e-4", "--search", "dp_knapsack_sliding_hirschberg")
        )
        # A sum in float32 loses what is cheap.
        plimsoll.write("float.json", log([0.1, 0.1, 0.1], [1e12, 1, 1]))
        assert plimsoll.plan("float.json", "--budget", "1", "--search", "dp")["predicted"]["recompute_runtime"] == 2
        assert plimsoll.plan("float.json", "--budget", "1")["predicted"]["recompute_runtime"] == 0

    def test_the_backward_pass_step_by_step(self, plimsoll):
        # c0 -> c1 -> c2: c2 needs c1, whose predecessor is kept.
        plimsoll.write("chain.json", log([0.1, 0.2, 0.2], [100, 50, 51], [(0, 1), (1, 2)]))
        answer = plimsoll.plan("chain.json", "--budget", "0.1", "--search", "dp", "--profile")
        assert [value["save"] for value in answer["values"]] == [True, False, False]
        assert [(step["event"], step.get("name", "")) for step in answer["trace"]] == [
            ("start", ""),
            ("recompute", "c2"),
            ("recompute_for_user", "c1"),
            ("drop", "c2"),
            ("drop_kept", "c1"),
            ("drop_kept", "c0"),
        ]
        for step, memory in zip(answer["trace"], (0.1, 0.3, 0.5, 0.3, 0.1, 0)):
            assert step["memory"] == pytest.approx(memory, abs=5e-8)
        assert answer["predicted"]["backward_peak_memory"] == pytest.approx(0.5, abs=5e-8)
        assert answer["predicted"]["saved_memory"] == pytest.approx(0.1, abs=5e-8)
        assert "recompute_for_user" in plimsoll.run("checkpoint", "chain.json", "--budget", "0.1", "--profile").out

    @pytest.mark.parametrize("most", ["0.3", "0.5"])
    def test_the_knee(self, plimsoll, most):
        plimsoll.write("knee.json", log([0.1, 0.2, 0.2], [100, 50, 51]))
        knee = plimsoll.plan("knee.json", "--knee", "--budget", most, "--search", "dp")
        dynamic = plimsoll.plan("knee.json", "--budget", most, "--search", "dynamic_memory_budget_dp")
        assert knee["memory_budget"] == dynamic["memory_budget"]
        assert knee["values"] == dynamic["values"]
        assert knee["memory_budget"] <= float(most)

    @pytest.mark.parametrize(
        ("arguments", "place"),
        [
            ((), "--budget"),
            (("--budget", "-1"), "--budget"),
            (("--budget", "inf"), "--budget"),
            (("--budget", "x"), "--budget"),
            (("--frontier",), "--frontier"),
            (("--budget", "1", "--search", "torch"), "--search"),
            (("--budget", "1", "--costs", "fit"), "--costs"),
            (("--budget", "1", "--time-limit", "0"), "--time-limit"),
            (("--overhead", "5%"), "--overhead"),
        ],
    )
    def test_bad_questions(self, plimsoll, arguments, place):
        plimsoll.write("log.json", log([0.5], [1]))
        assert plimsoll.run("checkpoint", "log.json", *arguments, "--json", code=1).error["place"] == place

    @pytest.mark.parametrize(
        ("memory", "runtimes", "arguments", "place", "remedy"),
        [
            ([0, 0.5], [1, 1], ("--search", "greedy"), "Knapsack Input Memories", "another solver"),
            ([0, 0], [1, 1], ("--knee",), "Knapsack Input Memories", "one budget"),
            ([0.5, 0.5], [0, 0], ("--knee",), "Knapsack Input Runtimes", "one budget"),
            ([0, 0], [1, 1], ("--search", "dynamic_memory_budget_dp"), "Knapsack Input Memories", "one budget"),
        ],
    )
    def test_divisions_by_zero_name_their_place_and_remedy(self, plimsoll, memory, runtimes, arguments, place, remedy):
        plimsoll.write("zero.json", log(memory, runtimes))
        error = plimsoll.run("checkpoint", "zero.json", "--budget", "1", *arguments, "--json", code=1).error
        assert (error["code"], error["place"]) == ("zero_division", f"zero.json#/{place}")
        assert remedy in error["remedy"]

    def test_a_budget_beyond_all_numbers_is_refused(self, plimsoll):
        plimsoll.write("zero.json", log([0, 0], [1, 1]))
        huge = ("--budget", "1e300", "--search", "dp")
        assert plimsoll.run("checkpoint", "zero.json", *huge, "--json", code=1).error["place"] == "--budget"

    @pytest.mark.parametrize(
        "change",
        [
            {"Knapsack Input Memories": [-1]},
            {"Knapsack Input Runtimes": []},
            {"Recomputable Banned Nodes Order": ["x"]},
            {"Joint Graph Edges": {"Edges": [["output", "c0"]]}},
        ],
    )
    def test_bad_logs(self, plimsoll, change):
        plimsoll.write("bad.json", log([0.5], [1]) | change)
        error = plimsoll.run("checkpoint", "bad.json", "--budget", "1", "--json", code=1).error
        assert error["place"].startswith("bad.json#/"), error

    @pytest.mark.parametrize("search", ["dp", "greedy"])
    def test_searches_of_other_inputs(self, plimsoll, search):
        error = plimsoll.run("checkpoint", "llama-3-8b", "--budget", "60%", "--search", search, "--json", code=1).error
        assert error["place"] == "--search"
        assert "milp" in error["remedy"]
