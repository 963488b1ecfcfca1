"""plimsoll checkpoint, and plimsoll check of its plans: questions, searches, streams, exit codes, bad input."""

import json
import math
import pathlib
import re

import pytest
from program import Plimsoll
from unlike_layers import unlike_layers

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


def squares(curve, fit):
    """Sum of squared distances of a fit from the curve whose every y moved to the x before it."""
    total = 0
    for (x, _), (_, y) in zip(curve, curve[1:]):
        piece = next(i for i, end in enumerate(fit["breakpoints"][1:]) if x <= end + 1e-9)
        total += (fit["slopes"][piece] * x + fit["intercepts"][piece] - y) ** 2
    return total


class Checkpoint(Plimsoll):
    def __init__(self, path, folder):
        super().__init__(path, folder)
        self.write("tiny.json", tiny())

    def plan(self, *arguments, code=0):
        return self.run("checkpoint", *arguments, "--json", code=code).document


class TestCheckpoint:
    @pytest.fixture
    def plimsoll(self, program_path, tmp_path):
        return Checkpoint(program_path, tmp_path)

    def test_one_budget(self, plimsoll):
        answer = plimsoll.plan("tiny.json", "--budget", "2.6GiB")
        assert answer["status"] == "optimal"
        assert [unit["fqn"] for unit in answer["units"]] == ["R.a"]
        assert answer["units"][0]["discard_ratio"] == pytest.approx(0.290625, abs=5e-7)
        assert answer["predicted"]["recompute_ms"] == pytest.approx(0.465, abs=5e-7)
        assert answer["predicted"]["peak_bytes"] <= int(2.6 * GIB)
        assert answer["predicted"]["binding"] == "R"
        assert answer["predicted"]["price_ms_per_gib"] == pytest.approx(1.6, abs=5e-7)
        assert [entry["fqn"] for entry in answer["profile"]] == tiny()["mod_order"]["fw_post_order"]
        assert answer["certificate"]["gap"] == 0
        assert len(answer["input_hash"]) == 64

    def test_text_says_the_same(self, plimsoll):
        answer = plimsoll.run("checkpoint", "tiny.json", "--budget", "2.6GiB", "--profile")
        for part in (
            "tiny6: peak 2.",
            "of 2.6 GiB allowed",
            "No plan is faster",
            "0.465 ms",
            "\n  R.a ",
            "backward of",
        ):
            assert part in answer.out
        assert answer.err == ""

    def test_text_names_the_peak_at_every_position(self, plimsoll):
        answer = plimsoll.run("checkpoint", "tiny.json", "--budget", "2GiB", "-v").out
        profile = answer.partition("\nbackward of ")[2]
        rows = [line.split() for line in profile.splitlines()[2:]]
        assert [row[0] for row in rows] == tiny()["mod_order"]["fw_post_order"]
        document = plimsoll.plan("tiny.json", "--budget", "2GiB")
        assert [int(row[-1]) for row in rows] == [entry["bytes"] for entry in document["profile"]]
        # Of a large model those that need the most, unless all are asked for.
        model = (stats_path("gpt-native-12l"), "--budget", "60%")
        document = plimsoll.plan(*model)
        most = sorted(document["profile"], key=lambda entry: -entry["bytes"])
        text = plimsoll.run("checkpoint", *model, "-v").out
        assert f"... {len(most) - 32} more that need at most" in text
        assert str(most[0]["bytes"]) in text
        whole = plimsoll.run("checkpoint", *model, "--profile").out
        for entry in most:
            assert f"{entry['fqn']} " in whole

    @pytest.mark.parametrize(
        "arguments",
        [
            ("--search", "torch", "--budget", "2GiB"),
            ("--search", "milp", "--budget", "2GiB"),
            ("--in-flight", "2", "--budget", "3GiB"),
        ],
    )
    def test_the_profile_holds_the_peak_whatever_made_the_plan(self, plimsoll, arguments):
        document = plimsoll.plan("tiny.json", *arguments)
        assert len(document["profile"]) == 6
        peak = max(entry["bytes"] for entry in document["profile"])
        assert abs(peak - document["predicted"]["peak_bytes"]) <= 1024

    @pytest.mark.parametrize("model", ["gpt-native-12l", "bert-large", "swin-base"])
    def test_units_say_what_becomes_of_random_operators(self, plimsoll, model):
        stats = json.loads(pathlib.Path(stats_path(model)).read_text())
        for budget in ("90%", "60%"):
            for unit in plimsoll.plan(stats_path(model), "--budget", budget)["units"]:
                table = stats["sac_stats"][stats["sac_stats_of"][unit["fqn"]]] if unit.get("ops") else {"rand_ops": []}
                keeps = table["rand_ops"] and all(unit["ops"][op]["save"] for op in table["rand_ops"])
                assert unit["rng"] == ("save" if keeps else "recompute")

    def test_a_share_is_of_the_peak_without_checkpointing(self, plimsoll):
        whole = plimsoll.plan("tiny.json", "--budget", "100%")
        assert whole["units"] == []
        assert whole["budget_bytes"] == 2704 << 20
        assert plimsoll.plan("tiny.json", "--budget", "75%")["budget_bytes"] == 2028 << 20

    def test_a_large_frontier_is_held_against_prices(self, plimsoll):
        honest = plimsoll.run("checkpoint", "llama-3-8b", "--frontier", "--json").document
        judged = []
        for share in (1, 0.95):  # of the time that a point in the middle states
            points = [point | {"is_exact": point["ms"] == 0} for point in honest["frontier"]]
            middle = len(points) // 2
            ms = share * points[middle]["ms"]
            points[middle:] = [point | {"ms": min(ms, point["ms"])} for point in points[middle:]]
            points = [p for p, before in zip(points, [{"ms": math.inf}, *points]) if p["ms"] < before["ms"]]
            lower = [honest["frontier_bound"][0] | {"ms": 0, "ms_per_byte": 0}]
            forged = {"frontier": points, "frontier_bound": lower}
            forged["certificate"] = honest["certificate"] | {
                "objective": points[0]["ms"],
                "lower_bound": 0,
                "gap": None,
            }
            plimsoll.write("curve.json", honest | forged)
            judged.append(plimsoll.run("check", "llama-3-8b", "curve.json", "--json", code=None).document)
        assert [report["certificate_status"] for report in judged] == ["proved", "refuted"]
        assert "prices prove" in judged[1]["certificate_reason"]
        honest["frontier"][0]["bytes"] -= 1
        honest["frontier_bound"][0]["bytes"] -= 2
        plimsoll.write("curve.json", honest)
        report = plimsoll.run("check", "llama-3-8b", "curve.json", "--json", code=5).document
        assert "no plan needs less" in report["certificate_reason"]

    def test_equal_layers_are_within_half_a_percent_of_the_best(self, plimsoll):
        answer = plimsoll.run("checkpoint", "llama-3-8b", "--budget", "70%", "-o", "plan.json")
        assert re.search(r"warning: \S+layers.0: within 0\.\d+ ms \(0\.[1-5] %\) of the best: it and 31", answer.err)
        plan = json.loads(plimsoll.read("plan.json"))
        assert plan["certificate"]["gap"] <= 0.005
        report = plimsoll.run("check", "llama-3-8b", "plan.json", "--json").document
        assert report["certificate_status"] == "proved"

    def test_unlike_layers_have_the_best_of_all_choices(self, plimsoll):
        plimsoll.write("large.json", unlike_layers(85, seed=1))
        answer = plimsoll.run("checkpoint", "large.json", "--budget", "70%", "--json")
        assert answer.document["status"] == "optimal" and "within" not in answer.err
        plimsoll.write("plan.json", answer.document)
        report = plimsoll.run("check", "large.json", "plan.json", "--json").document
        assert report["certificate_status"] == "proved"

    def test_a_frontier_of_684_modules_fits_a_megabyte(self, plimsoll):
        stats = unlike_layers(85, seed=1)
        assert len(stats["mod_stats"]) == 684 and len(stats["sac_stats"][-1]["func_names"]) == 79
        plimsoll.write("large.json", stats)
        answer = plimsoll.run("checkpoint", "large.json", "--frontier", "--json")
        assert len(answer.out) < 1 << 20
        curve = answer.document
        assert curve["status"] == "feasible" and 0 < curve["certificate"]["gap"] < 0.05
        for point in curve["frontier"][:: len(curve["frontier"]) // 5]:
            plan = plimsoll.plan("large.json", "--budget", f"{point['bytes']}B")
            assert plan["predicted"]["recompute_ms"] <= point["ms"] * (1 + 1e-9)

    def test_the_whole_frontier(self, plimsoll):
        points = plimsoll.plan("tiny.json", "--frontier")["frontier"]
        assert points == plimsoll.plan("tiny.json")["frontier"]
        assert points[0]["bytes"] / GIB == pytest.approx(1.683594, abs=5e-6)
        assert points[0]["ms"] == pytest.approx(4.95625, abs=5e-6)
        assert points[0]["ms_per_byte"] * GIB == pytest.approx(-6.4, abs=5e-5)
        assert (points[-1]["bytes"], points[-1]["ms"]) == (2704 << 20, 0)
        assert "budget" in plimsoll.run("checkpoint", "tiny.json").out

    def test_an_overhead_a_knee_and_ranks(self, plimsoll):
        cheap = plimsoll.plan("tiny.json", "--overhead", "1.7")
        assert cheap["predicted"]["peak_bytes"] / GIB == pytest.approx(2.25, abs=5e-5)
        share = plimsoll.plan("tiny.json", "--overhead", f"{100 * 1.7 / 33}%")
        assert share["predicted"]["recompute_ms"] == pytest.approx(1.7, abs=5e-7)
        knee = plimsoll.plan("tiny.json", "--knee")
        assert knee["status"] == "optimal"
        four = plimsoll.plan("tiny.json", "--budget", "1.25GiB", "--world-size", "4")
        assert four["predicted"]["recompute_ms"] == pytest.approx(6.1375, abs=5e-7)
        assert four["world_size"] == 4

    @pytest.mark.parametrize(("fraction", "ms"), [("80%", 4.403809), ("60%", 27.495305)])
    def test_every_search_finds_the_same_time(self, plimsoll, fraction, ms):
        asked = ("checkpoint", stats_path("gpt-native-12l"), "--budget", fraction, "--costs", "fit", "--json")
        exact = plimsoll.run(*asked).document
        milp = plimsoll.run(*asked, "--search", "milp").document
        assert exact["predicted"]["recompute_ms"] == pytest.approx(ms, abs=5e-6)
        assert milp["predicted"]["recompute_ms"] == pytest.approx(ms, abs=5e-5)
        for variant in ("reference", "torch-2.13"):
            torch = plimsoll.run(*asked, "--search", "torch", "--variant", variant).document
            assert torch["predicted"]["recompute_ms"] <= ms / 0.95
            assert torch["predicted"]["recompute_ms"] >= ms * (1 - 2e-3)  # its tolerances

    @pytest.mark.parametrize("model", ["llama-3-8b", "dlrm-deep-towers", "gpt-native-12l.json", "resnet-50.json"])
    @pytest.mark.parametrize(
        "extra",
        [
            ("--peak", "torch"),
            ("--costs", "fit"),
            ("--segments", "2"),
            ("--nested",),
            ("--world-size", "8"),
            ("--optimizer-bytes", "1GiB"),
            ("--repair", "early_stop", "--unit-overhead-ms", "0.1"),
        ],
    )
    def test_plans_pass_the_judge_whatever_was_asked(self, plimsoll, model, extra):
        model = stats_path(model.removesuffix(".json")) if model.endswith(".json") else model
        plimsoll.run("checkpoint", model, "--budget", "75%", *extra, "-q", "-o", "p.json")
        report = plimsoll.run("check", model, "p.json", "--json").document
        assert (report["violations"], report["hazards"]) == ([], [])
        assert report["peak_bytes"] <= json.loads(plimsoll.read("p.json"))["budget_bytes"]

    def test_the_room_of_copies_may_bind_at_the_last_module_of_a_unit(self, plimsoll):
        module = {"act_total": 9, "act_grad_per_module": 0, "grad_total": 0, "param_per_module": 0, "sac_runtime": 7}
        module |= {"fw_runtime_per_module": 7, "bw_runtime_per_module": 14, "sac_memory": 8, "total_peak_bw": 68}
        root = module | {"fqn": "R", "is_leaf": False, "act_fw_per_module": 8}
        leaf = module | {"fqn": "R.a", "is_leaf": True, "act_fw_per_module": 0}
        table = {"func_names": ["mm"] * 3, "runtimes": [1, 5, 1], "memory": [6, 2, 0], "saved_autograd_ops": [0, 2]}
        table |= {"view_like_ops": [], "rand_ops": [], "inplace_ops": [], "force_store_random": False}
        order = {"fw_pre_order": ["R", "R.a"], "fw_post_order": ["R.a", "R"]}
        stats = {"mod_order": order, "mod_stats": [root, leaf], "total_step_peak": 75, "sac_stats": [table]}
        plimsoll.write("copies.json", stats | {"sac_stats_of": {"R": 0}})
        asked = ("--budget", "70B", "--repair", "saved_copies", "-o", "p.json", "--json")
        predicted = plimsoll.run("checkpoint", "copies.json", *asked).document["predicted"]
        assert (predicted["peak_bytes"], predicted["recompute_ms"], predicted["binding"]) == (70, 1, "R")
        assert plimsoll.run("check", "copies.json", "p.json", "--json").document["violations"] == []

    def test_runs_of_modules_take_what_they_take_under_fitted_costs_too(self, plimsoll):
        stats = tiny()
        stats["mod_stats"][5]["act_grad_per_module"] = 1650 << 20  # R.c needs more than R.a and R.b by themselves free
        stats["mod_stats"][1]["act_grad_per_module"] = 948 << 20  # and R.a needs more than R.b
        plimsoll.write("runs.json", stats)
        asked = ("--segments", "2", "--budget", "2500MiB", "-o", "p.json", "--json")
        copies = ("--repair", "saved_copies")
        for extra in (("--costs", "operators", *copies), ("--costs", "fit", *copies), ("--costs", "fit")):
            (unit,) = plimsoll.run("checkpoint", "runs.json", *asked, *extra).document["units"]
            assert (unit["fqns"], unit["recompute_ms"]) == (["R.a", "R.b"], 10)
            assert plimsoll.run("check", "runs.json", "p.json", "--json").document["violations"] == []
        answer = json.loads(plimsoll.read("p.json"))
        answer["units"][0]["discarded_bytes"] -= 1
        plimsoll.write("p.json", answer)
        report = plimsoll.run("check", "runs.json", "p.json", "--json", code=5).document
        assert "discarded" in [violation["code"] for violation in report["violations"]]

    def test_plans_of_torchs_search_and_of_pipelines_pass_too(self, plimsoll):
        model = stats_path("gpt-native-12l")
        plimsoll.run("checkpoint", model, "--budget", "60%", "--search", "torch", "-o", "p.json")
        room = f"{json.loads(plimsoll.read('p.json'))['budget_bytes'] + 1024}B"  # for the tolerances of torch's solver
        report = plimsoll.run("check", model, "p.json", "--budget", room, "--json").document
        assert report["violations"] == []
        plimsoll.run("checkpoint", model, "--budget", "20GiB", "--in-flight", "4", "-o", "p.json")
        assert plimsoll.run("check", model, "p.json", "--json").document["violations"] == []

    def test_the_judge_finds_what_is_wrong(self, plimsoll):
        plimsoll.run("checkpoint", "tiny.json", "--budget", "2GiB", "-o", "p.json")
        assert "right" in plimsoll.run("check", "tiny.json", "p.json").out
        answer = plimsoll.run("check", "tiny.json", "p.json", "--budget", "1.9GiB", code=5)
        assert "violation over_budget" in answer.out
        plan = json.loads(plimsoll.read("p.json"))
        plan["units"][0]["fqn"] = "R.z"
        plimsoll.write("p.json", plan)
        report = plimsoll.run("check", "tiny.json", "p.json", "--json", code=5).document
        assert "unknown_module" in [violation["code"] for violation in report["violations"]]

    def test_operators_are_listed_one_by_one(self, plimsoll):
        answer = plimsoll.plan(stats_path("gpt-native-12l"), "--budget", "70%")
        assert answer["provenance"]["options"]["costs"] == "operators"
        for unit in answer["units"]:
            assert [op["i"] for op in unit["ops"]] == list(range(len(unit["ops"])))
            seen = {}
            for op in unit["ops"]:
                assert op["nth"] == seen.get(op["op"], 0)
                seen[op["op"]] = op["nth"] + 1

    def test_2_where_nothing_fits(self, plimsoll):
        answer = plimsoll.run("checkpoint", "tiny.json", "--budget", "1.5GiB", code=2)
        assert "the smallest feasible budget is" in answer.out
        named = int(re.search(r"^  --budget (\d+)B: ", answer.out, re.MULTILINE)[1])
        plimsoll.plan("tiny.json", "--budget", f"{named}B")
        plimsoll.plan("tiny.json", "--budget", f"{named - 1}B", code=2)
        document = plimsoll.plan("tiny.json", "--budget", "0", code=2)
        assert document["status"] == "infeasible"
        assert "units" not in document
        assert document["explanation"]["missing"] == 1724 << 20
        assert document["explanation"]["binding"] == "R.a"
        for search in ("torch", "milp"):
            other = plimsoll.plan("tiny.json", "--budget", "1.5GiB", "--search", search, code=2)
            assert other["status"] == "infeasible"
            assert other["explanation"]["binding"] == "R.a"
            assert other["explanation"]["missing"] == (1724 << 20) - 3 * GIB // 2
        for model in ("tiny.json", "llama-3-8b"):
            stage = plimsoll.plan(model, "--budget", "1GiB", "--in-flight", "4", code=2)["explanation"]
            least = GIB + stage["missing"]
            assert stage["binding"]
            plimsoll.plan(model, "--budget", f"{least - 1}B", "--in-flight", "4", code=2)
        plimsoll.plan("tiny.json", "--budget", f"{1724 << 20}B", "--in-flight", "1")
        stage = plimsoll.plan("tiny.json", "--budget", "1GiB", "--in-flight", "4", code=2)["explanation"]
        plimsoll.plan("tiny.json", "--budget", f"{GIB + stage['missing']}B", "--in-flight", "4")

    def test_models_whose_orders_disagree_go_to_the_milp(self, plimsoll):
        order = {
            "fw_pre_order": ["R", "R.a", "R.a.x", "R.b", "R.b.x", "R.c"],
            "fw_post_order": ["R.a.x", "R.b.x", "R.a", "R.b", "R.c", "R"],
        }
        plimsoll.write("odd.json", tiny(mod_order=order))
        answer = plimsoll.plan("odd.json", "--budget", "2.5GiB")
        assert answer["status"] == "optimal"
        assert [warning["code"] for warning in answer["warnings"]] == ["order_of_return"]
        assert answer["predicted"]["peak_bytes"] <= answer["budget_bytes"]
        assert "price_ms_per_gib" not in answer["predicted"]
        assert "order_of_return" in plimsoll.run("checkpoint", "odd.json", "--budget", "2.5GiB").err + json.dumps(
            answer["warnings"]
        )
        # Every question that other models may be asked.
        curve = plimsoll.plan("odd.json", "--frontier")
        assert (curve["status"], curve, [warning["code"] for warning in curve["warnings"]]) == (
            "optimal",
            plimsoll.plan("odd.json"),
            ["order_of_return"],
        )
        assert "frontier_bound" not in curve
        assert "mixed-integer programming" in plimsoll.run("checkpoint", "odd.json", "--frontier").err
        points = curve["frontier"]
        assert (points[0]["bytes"], points[-1]["bytes"], points[-1]["ms"]) == (2402 << 20, 2704 << 20, 0)
        assert all(point["is_exact"] for point in points)
        for point in points:
            found = plimsoll.plan("odd.json", "--budget", f"{point['bytes']}B")
            assert found["predicted"]["recompute_ms"] == pytest.approx(point["ms"], abs=5e-7)
            least = plimsoll.plan("odd.json", "--overhead", str(point["ms"] + 1e-9))["predicted"]
            assert abs(least["peak_bytes"] - point["bytes"]) <= 1024
        knee = plimsoll.plan("odd.json", "--knee")
        assert (knee["status"], [warning["code"] for warning in knee["warnings"]]) == ("optimal", ["order_of_return"])
        both = ("--in-flight", "3", "--ac-unit", "R.a", "--ac-unit", "R.b")
        missing = plimsoll.plan("odd.json", "--budget", "1GiB", *both, code=2)["explanation"]["missing"]
        both = ("--budget", f"{GIB + missing}B", *both)
        # Each returns amid the other.
        assert [unit["fqn"] for unit in plimsoll.plan("odd.json", *both)["units"]] == ["R.a", "R.b"]
        for question in (
            ("--knee",),
            ("--overhead", "5%"),
            ("--budget", "2.5GiB"),
            both,
            ("--budget", "4.5GiB", "--in-flight", "2"),
            ("--budget", "2.5GiB", "--world-size", "4", "--optimizer-bytes", "1GiB"),
        ):
            answer = plimsoll.run("checkpoint", "odd.json", *question, "-o", "p.json").err
            assert "mixed-integer programming" in answer
            judged = plimsoll.run("check", "odd.json", "p.json", "--json").document
            assert judged["violations"] == []
        stage = plimsoll.plan("odd.json", "--budget", "1GiB", "--in-flight", "3", code=2)["explanation"]
        plimsoll.plan("odd.json", "--budget", f"{GIB + stage['missing']}B", "--in-flight", "3")
        plimsoll.plan("odd.json", "--budget", f"{GIB + stage['missing'] - 4096}B", "--in-flight", "3", code=2)
        cut = plimsoll.plan("odd.json", "--frontier", "--time-limit", "0.000001s", code=3)
        assert (cut["status"], cut["stop"]) == ("feasible", "deadline")
        assert "smallest_budget_unproved" in [warning["code"] for warning in cut["warnings"]]
        assert cut["frontier"][-1]["ms"] == 0
        for flags, place in (
            (("--segments", "2"), "--segments"),
            (("--nested",), "--nested"),
            (("--repair", "saved_copies"), "--repair"),
        ):
            refused = plimsoll.run("checkpoint", "odd.json", *flags, "--json", code=1).error
            assert (refused["code"], refused["place"]) == ("conflict", place)
        # R.b.x finds nothing gone, for R.a returns after it.
        for search in ("exact", "milp", "torch"):
            none = plimsoll.plan("odd.json", "--budget", "1GiB", "--search", search, code=2)["explanation"]
            assert (none["binding"], none["missing"]) == ("R.b.x", (2402 << 20) - GIB)
        least = "2402MiB"
        plimsoll.run("checkpoint", "odd.json", "--budget", least, "-o", "p.json")
        assert plimsoll.run("check", "odd.json", "p.json", "--json").document["violations"] == []
        plimsoll.plan("odd.json", "--budget", f"{(2402 << 20) - 1}B", code=2)

    @pytest.mark.parametrize(
        ("arguments", "place"),
        [
            (("--budget", "-1"), "--budget"),
            (("--budget", "nan"), "--budget"),
            (("--budget", "inf"), "--budget"),
            (("--budget", "-5%"), "--budget"),
            (("--budget", "x%"), "--budget"),
            (("--budget", ""), "--budget"),
            (("--overhead", "-1"), "--overhead"),
            (("--overhead", "nan%"), "--overhead"),
            (("--budget", "1B", "--knee"), "--budget"),
            (("--search", "torch"), "--search"),
            (("--in-flight", "2"), "--in-flight"),
            (("--peak", "step"), "--peak"),
            (("--time-limit", "0"), "--time-limit"),
            (("--budget", "1", "--optimizer-bytes", "x"), "--optimizer-bytes"),
        ],
    )
    def test_bad_questions(self, plimsoll, arguments, place):
        answer = plimsoll.run("checkpoint", "tiny.json", *arguments, "--json", code=1)
        assert answer.error["place"] == place

    def test_unknown_names_have_a_remedy(self, plimsoll):
        unknown = plimsoll.run("checkpoint", "tiny.json", "--ac-unit", "R.zz", "--json", code=1)
        assert (unknown.error["code"], unknown.error["place"]) == ("not_found", "--ac-unit")
        near = plimsoll.run(
            "checkpoint",
            stats_path("gpt2-small"),
            "--budget",
            "60%",
            "--fsdp-unit",
            "GPT2LMHeadModel.transformer.h.00",
            "--json",
            code=1,
        )
        assert near.error["place"] == "--fsdp-unit"
        assert "GPT2LMHeadModel.transformer.h.0" in near.error["remedy"]
        missing = plimsoll.run("checkpoint", "llama-3-9b", "--json", code=1)
        assert "llama-3-8b" in missing.error["remedy"]

    @pytest.mark.parametrize(
        ("arguments", "place"),
        [
            (("--budget", "99999999%"), "--budget"),
            (("--budget", "1", "--optimizer-bytes", "7EiB"), "--optimizer-bytes"),
            (("--budget", "99999999999GiB"), "--budget"),
            (("--budget", f"{(1 << 63) - 1}B"), "--budget"),
            (("--budget", f"{(1 << 50) + 1}B"), "--budget"),
        ],
    )
    def test_absurd_sizes(self, plimsoll, arguments, place):
        answer = plimsoll.run("checkpoint", "tiny.json", *arguments, "--json", code=1)
        assert answer.error["place"] == place

    def test_absurd_numbers_of_microbatches(self, plimsoll):
        whole = plimsoll.plan("tiny.json", "--budget", f"{1 << 50}B")
        assert (whole["status"], whole["units"]) == ("optimal", [])
        stats = tiny()
        stats["mod_stats"][0]["act_total"] = 1 << 50
        plimsoll.write("huge.json", stats)
        many = ("--budget", "1B", "--in-flight", "1048576")
        assert plimsoll.run("checkpoint", "huge.json", *many, "--json", code=1).error["place"] == "--in-flight"
        plimsoll.run("checkpoint", "tiny.json", "--budget", "5GiB", "--in-flight", "2", "-o", "p.json")
        plan = json.loads(plimsoll.read("p.json"))
        for in_flight in ("0", "-3", "2147483647"):
            plan["provenance"]["options"]["in_flight"] = in_flight
            plimsoll.write("p.json", plan)
            error = plimsoll.run("check", "tiny.json", "p.json", "--json", code=1).error
            assert error["place"] == "provenance/options/in_flight"

    def test_records_that_torchs_parser_has_written_into(self, plimsoll):
        stats = tiny()
        order = stats["mod_order"]
        for index, module in enumerate(stats["mod_stats"]):
            module |= {"index": index, "pos_fw_post_order": order["fw_post_order"].index(module["fqn"])}
        stats["mod_stats"].sort(key=lambda module: -module["index"])
        plimsoll.write("parsed.json", stats)
        assert plimsoll.plan("parsed.json", "--frontier") == plimsoll.plan("tiny.json", "--frontier")
        stats["mod_stats"][0]["index"] = 9
        plimsoll.write("parsed.json", stats)
        assert plimsoll.run("checkpoint", "parsed.json", "--json", code=1).error["place"].endswith("/mod_stats/0/index")

    def test_modules_without_slopes_are_fitted_or_refused(self, plimsoll):
        stats = tiny()
        for module in stats["mod_stats"]:
            module |= {"n_segments": 0, "slopes": [], "intercepts": []}
        plimsoll.write("bare.json", stats)
        for search in ("exact", "milp", "torch"):
            refused = plimsoll.run("checkpoint", "bare.json", "--budget", "2GiB", "--search", search, "--json", code=1)
            assert (refused.error["code"], refused.error["place"]) == ("value", "R")
        # The same by the curve of a table, which is in the statistics: at 1.6 GiB all of R.a and R.b would go.
        table = {"func_names": ["mm"] * 4, "runtimes": [1, 1, 1, 0], "memory": [512 << 20, 256 << 20, 256 << 20, 0]}
        table |= {"view_like_ops": [], "rand_ops": [], "inplace_ops": [], "force_store_random": False}
        stats |= {"sac_stats": [table], "sac_stats_of": {"R": 0, "R.a": 0, "R.b": 0}}
        plimsoll.write("tables.json", stats)
        fit = plimsoll.plan("tables.json", "--tradeoff")["modules"][1]["fit"]
        for module in stats["mod_stats"]:
            if module["fqn"] in stats["sac_stats_of"]:
                module |= {"n_segments": len(fit["slopes"]), "slopes": fit["slopes"], "intercepts": fit["intercepts"]}
        plimsoll.write("fitted.json", stats)
        for search in ("exact", "torch"):
            asked = ("--budget", "2.2GiB", "--costs", "fit", "--search", search)
            found = plimsoll.run("checkpoint", "tables.json", *asked, "-o", "p.json", "--json").document
            assert found["units"] == plimsoll.plan("fitted.json", *asked)["units"]
            assert found["predicted"]["recompute_ms"] > 0.1
            assert plimsoll.run("check", "tables.json", "p.json", "--json").document["violations"] == []

    def test_many_warnings_of_one_kind_are_one(self, plimsoll):
        stats = tiny()
        for module in stats["mod_stats"][:4]:
            module["sac_memory"] = module["act_fw_per_module"] - 1
        plimsoll.write("less.json", stats)
        errors = plimsoll.run("checkpoint", "less.json", "--budget", "2.6GiB", "--search", "torch").err
        assert errors.count("warning: ") == 1 and "in 2 other module(s)" in errors

    def test_plans_of_torchs_search_have_the_bound_of_the_exact_one(self, plimsoll):
        model = stats_path("gpt-native-12l")
        asked = (model, "--budget", "60%", "--costs", "fit", "--peak", "torch")
        exact = plimsoll.plan(*asked)["predicted"]["recompute_ms"]
        torch = plimsoll.plan(*asked, "--search", "torch")["certificate"]
        assert torch["lower_bound"] == pytest.approx(min(exact, torch["objective"]), rel=1e-9)
        # Cut before it has a bound of its own, its plan has that one all the same.
        model = stats_path("qwen3-moe")
        asked = ("checkpoint", model, "--budget", "80%", "--search", "torch", "--time-limit", "1s")
        cut = plimsoll.run(*asked, "--json", code=None).document
        exact = plimsoll.plan(model, "--budget", "80%", "--costs", "fit", "--peak", "torch")["predicted"][
            "recompute_ms"
        ]
        assert (cut["stop"], cut["certificate"]["lower_bound"]) == ("deadline", pytest.approx(exact, rel=1e-6))

    def test_the_mixed_integer_program_ends_after_its_nodes(self, plimsoll):
        model = stats_path("gpt2-small")
        asked = ("checkpoint", model, "--budget", "80%", "--costs", "fit", "--search", "milp", "--effort", "20")
        answer = plimsoll.run(*asked, "-o", "p.json", "--json").document
        assert (answer["status"], answer["stop"]) in (("feasible", "effort"), ("limit", "effort"))
        assert answer["provenance"]["options"]["effort"] == "20"
        again = plimsoll.run(*asked, "--json").document
        assert again == answer
        if answer["status"] == "feasible":
            assert plimsoll.run("check", model, "p.json", "--json").document["violations"] == []
        for arguments in (("--effort", "20"), ("--effort", "20", "--search", "torch")):
            refused = plimsoll.run("checkpoint", model, "--budget", "80%", *arguments, "--json", code=1)
            assert refused.error["place"] == "--effort"

    def test_trade_off_curves(self, plimsoll):
        table = {
            "func_names": ["copy_", "add", "div", "mm", "native_dropout", "linear", "t", "relu_"],
            "runtimes": [5, 5, 8, 15, 15, 9, 1, 5],
            "memory": [0, 100, 100, 120, 0, 100, 0, 0],
            "view_like_ops": [6],
            "rand_ops": [4],
            "inplace_ops": [[0, 0], [7, 5]],
            "force_store_random": False,
        }
        plimsoll.write("table.json", table)
        (module,) = plimsoll.plan("table.json", "--tradeoff")["modules"]
        assert [step["ops"] for step in module["order"]] == [[1], [2], [3], [5, 7], [4]]
        assert (module["stored_ops"], module["recomputed_ops"], module["rand_ops"]) == ([0], [6], [4])
        # After each step: discarded of 420 bytes, recomputed of 63 ms. What takes no memory moves the point before it.
        bytes_ms = [(0, 1), (100, 6), (200, 14), (320, 29), (420, 63)]
        expected = [[b / 420 + 0.01, pytest.approx(ms / 63)] for b, ms in bytes_ms]
        assert module["tradeoff_curve"] == expected
        assert len(module["fit"]["slopes"]) == 2
        one = plimsoll.plan("table.json", "--tradeoff", "--fit-segments", "1")["modules"][0]["fit"]
        assert len(one["slopes"]) == 1
        text = plimsoll.run("checkpoint", "table.json", "--tradeoff").out
        for part in ("8 operators", "5 linear, 7 relu_", "(always recomputed)", "(always kept)", "100.00 %", "fit: "):
            assert part in text
        plimsoll.write("still.json", table | {"runtimes": [0] * 8})
        (still,) = plimsoll.plan("still.json", "--tradeoff")["modules"]
        assert still["failure"]["kind"] == "zero_division" and "fit" not in still
        assert "no curve: no operator takes time" in plimsoll.run("checkpoint", "still.json", "--tradeoff").out

    def test_trade_off_curves_of_every_module(self, plimsoll):
        path = stats_path("gpt-native-12l")
        stats = json.loads(pathlib.Path(path).read_text())
        modules = {module["fqn"]: module for module in plimsoll.plan(path, "--tradeoff")["modules"]}
        assert set(modules) == set(stats["sac_stats_of"])
        for record in stats["mod_stats"]:
            if record["fqn"] in modules and not record["is_leaf"]:
                found = modules[record["fqn"]]
                assert found["sac_memory"] == record["sac_memory"]
                assert found["sac_runtime"] == pytest.approx(record["sac_runtime"])
                # The recorded fit is pwlf's, whose search is random; none is nearer than ours.
                ours, pwlfs = (squares(found["tradeoff_curve"], fit) for fit in (found["fit"], record))
                assert ours <= pwlfs + 1e-9
        asked = plimsoll.plan(path, "--tradeoff", "--ac-unit", next(iter(modules)))["modules"]
        assert [module["fqn"] for module in asked] == [next(iter(modules))]
        for arguments, place in (
            (("tiny.json", "--tradeoff"), "--tradeoff"),
            ((path, "--tradeoff", "--ac-unit", "nobody"), "--ac-unit"),
            ((path, "--tradeoff", "--budget", "1GiB"), "--budget"),
            ((path, "--tradeoff", "--search", "torch"), "--search"),
        ):
            assert plimsoll.run("checkpoint", *arguments, "--json", code=1).error["place"] == place

    def test_bad_statistics(self, plimsoll):
        stats = tiny()
        stats["mod_stats"][1]["act_fw_per_module"] = -1
        plimsoll.write("bad.json", stats)
        answer = plimsoll.run("checkpoint", "bad.json", "--json", code=1)
        assert answer.error["place"] == "bad.json#/mod_stats/1/act_fw_per_module"
        stats = tiny()
        stats["mod_stats"][1]["act_fw_per_modul"] = stats["mod_stats"][1].pop("act_fw_per_module")
        plimsoll.write("bad.json", stats)
        answer = plimsoll.run("checkpoint", "bad.json", "--json", code=1)
        assert "act_fw_per_module" in answer.error["remedy"]


OPTIMA = json.loads((DATA / "optima.json").read_text())["rows"]


class TestRealModels:
    def test_enough_optima_are_recorded(self):
        assert len(OPTIMA) >= 26

    @pytest.mark.parametrize(("name", "fraction", "expected"), OPTIMA)
    def test_every_recorded_optimum(self, plimsoll, name, fraction, expected):
        baseline = json.loads(pathlib.Path(stats_path(name)).read_text())["baseline_peak_bytes"]
        budget = f"{int(baseline * fraction)}B"
        asked = ("checkpoint", stats_path(name), "--costs", "fit", "--budget", budget, "--json")
        if expected is None:
            plimsoll.run(*asked, code=2)
            return
        found = plimsoll.run(*asked).document["predicted"]["recompute_ms"]
        assert abs(found - expected) <= 1e-6 * expected
