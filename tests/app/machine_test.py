"""plimsoll --machine: plans, judgements and explanations by the times of a machine."""

import json

import pytest
from program import Plimsoll, constrained, table

MODEL = {"modules": [{"path": "ebc", "tables": [table(f"t{i}", rows=10**5 * (i + 1), columns=64) for i in range(5)]}]}
ON = ("--on", "4x1GiB")
H100 = ("--machine", "h100-sxm5-80gb")


FALLING = {"operation": "all_to_all", "group": "host", "ranks": 2, "bytes": [2, 1], "ms": [1, 1]}


def machine(**more):
    """Look-ups cost next to nothing, calls a lot: types of sharding are not mixed."""
    document = {
        "schema": "plimsoll.machine/1",
        "name": "mine",
        "kernels": [
            {
                "kernel": "fused",
                "data_type": "fp32",
                "direction": direction,
                "terms": {"call_ns": 2e6, "lookup_ns": 5},
                "ranges": {"lookups": [10, 10**9]},
            }
            for direction in ("forward", "backward")
        ],
        "collectives": [
            {"operation": "all_to_all", "group": "host", "ranks": 4, "bytes": [1024, 2**30], "ms": [0.1, 100]}
        ],
        "step": {"floor_ms": 3},
        "sources": {
            "kernels": {"kind": "measured", "source": "a test"},
            "collectives": {"kind": "published", "source": "a table"},
            "step": {"kind": "assumed", "source": "a guess"},
        },
    }
    return document | more


@pytest.fixture
def plimsoll(program_path, tmp_path):
    program = Plimsoll(program_path, tmp_path)
    program.write("model.json", MODEL)
    program.write("machine.json", machine())
    return program


class TestPlans:
    def test_the_text_says_what_the_times_rest_on(self, plimsoll):
        text = plimsoll.run("shard", "model.json", *ON, "--machine", "machine.json").out
        assert "kernels measured, collectives published, step assumed (mine)" in " ".join(text.split())
        assert "times of mine" in " ".join(text.split())

    def test_the_bill_has_the_times_of_every_rank(self, plimsoll):
        plan = plimsoll.run("shard", "model.json", *ON, "--machine", "machine.json", "--json").document
        ms = plan["bill"]["ms"]
        assert all(len(ms[key]) == 4 for key in ("machine_kernels", "machine_collectives"))
        kernels, collectives = max(ms["machine_kernels"]), max(ms["machine_collectives"])
        assert kernels >= 4  # two calls of 2 ms
        assert plan["times"]["time"] == pytest.approx(kernels + collectives + 3, rel=1e-9)
        assert plan["provenance"]["options"]["machine"] == "mine" and plan["provenance"]["inputs"]["machine"]

    def test_ratings_stay_torchrecs(self, plimsoll):
        for objective in ("rating", "step"):
            plans = [
                plimsoll.run("shard", "model.json", *ON, *flags, "--objective", objective, "--json").document
                for flags in ((), ("--machine", "machine.json"))
            ]
            assert plans[0]["plan"] == plans[1]["plan"]
            assert plans[0]["rating"] == plans[1]["rating"] and plans[0]["certificate"] == plans[1]["certificate"]

    def test_what_was_not_measured_is_named(self, plimsoll):
        narrow = machine()
        for entry in narrow["kernels"]:
            entry["ranges"] = {"lookups": [1, 2]}
        plimsoll.write("narrow.json", narrow)
        run = plimsoll.run("shard", "model.json", *ON, "--machine", "narrow.json")
        assert "lookups of fused" in " ".join(run.out.split())
        plan = plimsoll.run("shard", "model.json", *ON, "--machine", "narrow.json", "--json").document
        names = {(entry["variable"], entry["of"]) for entry in plan["extrapolated"]}
        assert ("lookups", "fused forward") in names
        wide = plimsoll.run("shard", "model.json", *ON, "--machine", "machine.json", "--json").document
        assert "lookups" not in {entry["variable"] for entry in wide.get("extrapolated", [])}

    def test_a_type_that_costs_a_call_is_avoided(self, plimsoll):
        """Without the call a mixed plan is faster."""
        mixed = {
            "modules": [
                {
                    "path": "ebc",
                    "tables": [constrained("large", "row_wise", rows=10**6), table("small", rows=1000, columns=16)],
                }
            ]
        }
        plimsoll.write("mixed.json", mixed)
        plan = plimsoll.run("shard", "mixed.json", *ON, "--machine", "machine.json", "--json").document
        assert {t["sharding_type"] for t in plan["plan"]["tables"]} == {"row_wise"}

    def test_verbs_that_plan_take_it(self, plimsoll):
        """Each predicts another time with it."""
        plimsoll.run("shard", "model.json", *ON, *H100, "-o", "plan.json")
        explained = plimsoll.run("explain", "model.json", "plan.json", *ON, *H100, "--json").document
        assert explained["times"]["time"] == json.loads(plimsoll.read("plan.json"))["times"]["time"]
        plimsoll.run("explain", "model.json", "plan.json", *ON, code=1)
        kept = plimsoll.run("replan", "model.json", "plan.json", *ON, *H100, "--max-moved", "0", "--json").document
        assert kept["ms"] == pytest.approx(explained["times"]["time"])
        plimsoll.write("kept.json", kept)
        plimsoll.run("check", "model.json", "kept.json", *ON, *H100)

        def swept(*flags):
            words = ("whatif", "model.json", "--on", "dgx-h100", "--ranks", "2:4", *flags, "--json")
            return [row["ms"] for row in plimsoll.run(*words).document["rows"]]

        assert all(a != b for a, b in zip(swept(), swept("--machine", "machine.json")))

        def smallest(*flags):
            words = ("size", "model.json", "--accelerator", "h100-sxm", "--max-ranks", "4", *flags, "--json")
            return plimsoll.run(*words).document["machines"][0]["ms"]

        assert smallest() != smallest("--machine", "machine.json")


class TestChecks:
    def test_a_plan_is_judged_by_its_machine(self, plimsoll):
        plimsoll.run("shard", "model.json", *ON, "--machine", "machine.json", "-o", "plan.json")
        check = ("check", "model.json", "plan.json", *ON)
        report = plimsoll.run(*check, "--machine", "machine.json", "--strict", "--json").document
        assert report["certificate_status"] == "proved"
        error = plimsoll.run(*check, "--json", code=1).error
        assert error["place"] == "--machine" and "mine" in error["message"]
        report = plimsoll.run(*check, *H100, "--json", code=5).document
        assert "inputs_mismatch" in {violation["code"] for violation in report["violations"]}

    def test_other_times_are_refuted(self, plimsoll):
        plan = plimsoll.run("shard", "model.json", *ON, "--machine", "machine.json", "--json").document
        plan["bill"]["ms"]["machine_kernels"][0] *= 1.01
        plimsoll.write("plan.json", plan)
        report = plimsoll.run("check", "model.json", "plan.json", *ON, "--machine", "machine.json", "--json", code=5)
        assert "bill_mismatch" in {violation["code"] for violation in report.document["violations"]}

    def test_a_replay_needs_the_machine(self, plimsoll):
        plimsoll.run("shard", "model.json", *ON, "--machine", "machine.json", "-o", "plan.json")
        replay = ("shard", "model.json", *ON, "--replay", "plan.json", "--json")
        again = plimsoll.run(*replay, "--machine", "machine.json").document
        assert again["plan"] == json.loads(plimsoll.read("plan.json"))["plan"]
        assert plimsoll.run(*replay, code=1).error["place"] == "--machine"
        assert "machine" in plimsoll.run(*replay, *H100, code=1).error["message"]


class TestMachines:
    def test_hardware_names_machines_and_their_sources(self, plimsoll):
        text = " ".join(plimsoll.run("hardware", "h100-sxm5-80gb").out.split())
        assert "h100-sxm5-80gb, collectives: published: https://github.com/ai-dynamo/" in text
        assert "h100-sxm5-80gb, kernels/call_ns: assumed: " in text
        every = plimsoll.run("hardware").out
        assert "gb200-186gb" in every and "ai-dynamo" not in every
        assert "l40s" in plimsoll.run("hardware", "--json").document["machines"]

    @pytest.mark.parametrize(
        "change, place",
        [
            ({"schema": "plimsoll.machine/2"}, "machine.json#/schema"),
            ({"kernels": []}, "machine.json"),
            ({"kernels": [{"kernel": "fused"}]}, "machine.json#/kernels/0"),
            ({"colour": "red"}, "machine.json#/colour"),
            ({"collectives": [FALLING]}, "machine.json#/collectives/0/bytes/1"),
        ],
    )
    def test_bad_documents_are_refused_with_their_place(self, plimsoll, change, place):
        plimsoll.write("machine.json", machine(**change))
        error = plimsoll.run("shard", "model.json", *ON, "--machine", "machine.json", "--json", code=1).error
        assert error["place"].startswith(place) and error["remedy"]

    def test_an_unknown_name_has_a_suggestion(self, plimsoll):
        error = plimsoll.run("shard", "model.json", *ON, "--machine", "h100-sxm5", "--json", code=1).error
        assert error["place"] == "--machine" and "h100-sxm5-80gb" in error["remedy"]

    def test_calibrate_is_the_python_packages(self, plimsoll):
        error = plimsoll.run("calibrate", "-o", "machine.json", "--json", code=1).error
        assert "python -m plimsoll calibrate" in error["remedy"]


GRAPH = {
    "format": "plimsoll-fx-graph",
    "version": 1,
    "name": "chain",
    "fields": ["name", "op", "target", "module", "inputs", "output_size", "flops", "bytes_moved", "ms_mine", "dtype",
               "flags"],
    "targets": ["x", "aten.mm.default"],
    "modules": [""],
    "dtypes": ["torch.float32", "torch.bfloat16"],
    "ties": [],
    "rows": [
        ["x", "placeholder", 0, 0, [], 8, 0, 0, None, 0, 0],
        ["a", "call_function", 1, 0, [0], 8, 4e9, 1000, 2, 0, 0],  # by arithmetic: 4 ms; measured 2
        ["b", "call_function", 1, 0, [1], 8, 4e9, 1000, None, 1, 0],  # in 16 bits: 2 ms
        ["c", "call_function", 1, 0, [2], 8, 0, 10**7, 0.001, 0, 0],  # by memory: 1 ms; measured less than a launch
        ["d", "call_function", 1, 0, [3], 8, 0, 10**7, None, 0, 4],  # a view
    ],
}  # fmt: skip
OPERATORS = {"launch_us": 500, "memory_gb_per_s": 10, "peak_tflops": {"fp32": 1, "bf16": 2}}
ONE = ("--on", "1x1GiB", "--machine", "operators.json")


class TestOperators:
    """Times of dense operators, of graphs and of module statistics."""

    @pytest.fixture
    def plimsoll(self, plimsoll):
        sources = {"operators": {"kind": "measured", "source": "a test"},
                   "operators/launch_us": {"kind": "assumed", "source": "a guess"}}  # fmt: skip
        plimsoll.write("operators.json", machine(operators=OPERATORS, sources=sources))
        plimsoll.write("graph.json", GRAPH)
        return plimsoll

    def test_an_operator_takes_a_launch_and_the_longer_of_arithmetic_and_memory(self, plimsoll):
        answer = plimsoll.run("partition", "graph.json", *ONE, "--json").document
        assert answer["certificate"]["objective"] == pytest.approx(4 + 2 + 1 + 3 * 0.5)
        options = answer["provenance"]["options"]
        assert options["machine"] == "operators.json"
        assert options["operator_times"] == "operators measured, launches assumed (mine)"
        assert set(answer["provenance"]["inputs"]) == {"graph", "machine"}

    def test_measured_times_come_first_and_take_a_launch_at_least(self, plimsoll):
        answer = plimsoll.run("partition", "graph.json", *ONE, "--times", "mine", "--json").document
        assert answer["certificate"]["objective"] == pytest.approx(2 + (2 + 0.5) + 0.5)

    def test_the_text_says_what_the_times_rest_on(self, plimsoll):
        text = " ".join(plimsoll.run("partition", "graph.json", *ONE).out.split())
        assert "times: operators measured, launches assumed (mine)" in text
        assert "--launch-floor" not in text

    def test_a_placement_is_judged_by_its_machine(self, plimsoll):
        plimsoll.run("partition", "graph.json", *ONE, "-o", "plan.json")
        plimsoll.run("check", "graph.json", "plan.json")
        plimsoll.write("other.json", machine(operators=OPERATORS | {"launch_us": 0}))
        judged = plimsoll.run("check", "graph.json", "plan.json", "--machine", "other.json", code=5)
        assert "load_mismatch" in judged.out

    @pytest.mark.parametrize("verb", ["partition", "checkpoint"])
    def test_a_document_that_changed_is_noticed(self, plimsoll, verb):
        """Even where the plan's figures are the same by both: the peak of a type that no operator has."""
        on = ("graph.json", *ONE) if verb == "partition" else ("llama-3-8b", "--budget", "70%", *ONE[2:])
        plimsoll.run(verb, *on, "-o", "plan.json")
        plimsoll.run("check", on[0], "plan.json", "--strict")
        same = OPERATORS | {"peak_tflops": OPERATORS["peak_tflops"] | {"fp64": 0.5}}
        plimsoll.write("operators.json", machine(operators=same))
        judged = plimsoll.run("check", on[0], "plan.json", "--json", code=5).document
        assert [violation["code"] for violation in judged["violations"]] == ["inputs_mismatch"]

    def test_statistics_by_a_roofline_are_scaled_and_launched(self, plimsoll):
        for on in ("a100-sxm4-80gb", "h100-sxm5-80gb"):
            slow = plimsoll.run("checkpoint", "llama-3-8b", "--budget", "70%", "--machine", on, "--json").document
            assert slow["provenance"]["options"]["operator_times"] == f"operators published, launches assumed ({on})"
            plimsoll.write("policy.json", slow)
            plimsoll.run("check", "llama-3-8b", "policy.json", "--strict")
        plain = plimsoll.run("checkpoint", "llama-3-8b", "--budget", "70%", "--json").document
        assert slow["predicted"]["recompute_ms"] > plain["predicted"]["recompute_ms"]  # by the launches
        assert slow["predicted"]["peak_bytes"] <= 0.7 * slow["predicted"]["baseline_peak_bytes"]

    def test_a_machine_without_operators_is_refused(self, plimsoll):
        for verb in (("partition", "graph.json", "--on", "1x1GiB"), ("checkpoint", "llama-3-8b", "--budget", "70%")):
            assert "plimsoll calibrate" in plimsoll.run(*verb, "--machine", "machine.json", code=1).err
