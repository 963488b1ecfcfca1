"""plimsoll shard: exit codes, streams, files, limits."""

import json
import math
import os
import re
import resource
import signal
import subprocess

import program
import pytest
from program import Plimsoll, constrained, table

# Searches for seconds, and has a plan early.
LARGE = ("nv-synthetic-jumbo", "--on", "512x80GiB", "--search", "torchrec")


class TestExitCodes:
    def test_0_for_a_plan(self, plimsoll):
        answer = plimsoll.run("shard", "mlperf-dlrm-dcnv2", "--search", "torchrec", "--on", "dgx-h100:2")
        assert answer.out.startswith("mlperf-dlrm-dcnv2 on 2 x dgx-h100 (16 GPUs), 512 samples per GPU (the default), ")
        assert "  slowest rank " in answer.out
        assert re.search(r"(?m)^ +\d+  all +data_parallel +dense +cat_5, ", answer.out)
        assert answer.err == ""

    def test_0_for_a_model_without_tables(self, plimsoll):
        plimsoll.write("model.json", {"tables": []})
        plimsoll.run("shard", "model.json", "--on", "8x80GiB")
        answer = plimsoll.run("shard", "model.json", "--on", "8x80GiB", "--json").document
        assert (answer["status"], answer["plan"]["tables"]) == ("optimal", [])

    def test_0_when_the_effort_runs_out_with_a_plan(self, plimsoll):
        answer = plimsoll.run(
            "shard", "mlperf-dlrm-dcnv2", "--search", "torchrec", "--on", "dgx-h100:2", "--effort", "5", "--json"
        ).document
        assert (answer["status"], answer["stop"]) == ("feasible", "effort")

    def test_2_for_what_is_proved_infeasible_with_the_explanation(self, plimsoll):
        # Three tables of 4.8 GiB; two ranks of 6.8 GiB after reservation lack 0.7 GiB in all. Ranks of 4.2 hold none,
        # and still lack more in all; but of one table alone they lack 0.5 GiB on a rank.
        tables = [constrained("t", "table_wise", rows=10**7, columns=128) | {"count": 3}]
        plimsoll.write("model.json", {"tables": tables})
        answer = plimsoll.run("shard", "model.json", "--search", "torchrec", "--on", "2x8GiB", code=2)
        assert "Does not fit (proved infeasible)" in answer.out
        assert "insufficient_storage" in answer.err
        assert "proved infeasible: hbm: " in answer.err
        document = plimsoll.run(
            "shard", "model.json", "--search", "torchrec", "--on", "2x8GiB", "--json", code=2
        ).document
        assert document["status"] == "infeasible"
        assert "plan" not in document
        assert document["rating"] is None
        assert document["explanation"]["binding"] == "hbm"
        assert document["explanation"]["missing"] > 0
        small = ("shard", "model.json", "--search", "torchrec", "--on", "2x5GiB", "--json")
        explanation = plimsoll.run(*small, code=2).document["explanation"]
        assert explanation["binding"] == "hbm"
        assert explanation["missing"] > 5 << 30
        plimsoll.write("model.json", {"tables": [constrained("t", "table_wise", rows=10**7, columns=128)]})
        explanation = plimsoll.run(*small, code=2).document["explanation"]
        assert explanation["binding"] == "table .t"
        cap = (5 << 30) + math.ceil(explanation["missing"] / 0.85)
        plimsoll.run(*small, "--hbm-cap", f"{cap + 64}B")
        plimsoll.run(*small, "--hbm-cap", f"{cap - 64}B", code=2)

    def test_3_when_the_clock_cuts_the_search_and_the_effort_it_names_gives_the_same_plan(self, plimsoll):
        cut = plimsoll.run_cut("shard", *LARGE).document
        assert (cut["status"], cut["stop"]) == ("feasible", "deadline")
        stopped_at = cut["provenance"]["stopped_at"]
        effort = "".join(c for c in stopped_at if c.isdigit())
        again = plimsoll.run("shard", *LARGE, "--effort", effort, "--json").document
        assert again["plan"] == cut["plan"]
        assert again["rating"] == cut["rating"]

    def test_3_when_the_search_is_interrupted(self, plimsoll, terminal):
        document, _ = plimsoll.interrupt(terminal, "shard", *LARGE, told=rb"effort \d+: [\d.]+ ms")
        assert (document["status"], document["stop"]) == ("feasible", "cancelled")
        assert document["provenance"]["stopped_at"]

    def test_4_for_no_plan_and_no_proof(self, plimsoll):
        # Three tables of 4.8 GiB fit two ranks of 8.5 GiB in sum, and in no two of them.
        tables = [constrained("t", "table_wise", rows=10**7, columns=128) | {"count": 3}]
        plimsoll.write("model.json", {"tables": tables})
        answer = plimsoll.run("shard", "model.json", "--search", "torchrec", "--on", "2x10GiB", code=4)
        assert "strict_constraints" in answer.err
        document = plimsoll.run(
            "shard", "model.json", "--search", "torchrec", "--on", "2x10GiB", "--json", code=4
        ).document
        assert (document["status"], document["failure"]["kind"]) == ("limit", "strict_constraints")
        assert document["failure"]["message"]


class TestReferencePlanner:
    """Options of TorchRec's planner that both searches share."""

    def test_the_multiplier_of_parameters(self, plimsoll):
        model = {"tables": [table()], "dense_parameter_bytes": 100 << 20}
        plimsoll.write("model.json", model)
        made = ("shard", "model.json", "--on", "4x8GiB", "--search", "torchrec", "-o", "plan.json", "--json")
        dense = {}
        for multiplier in (None, "6", "2.5"):
            flags = ["--parameter-multiplier", multiplier] if multiplier else []
            answer = plimsoll.run(*made, *flags).document
            dense[multiplier] = answer["bill"]["bytes"]["dense"]
        assert dense[None] == dense["6"] == [600 << 20] * 4
        assert dense["2.5"] == [250 << 20] * 4
        again = plimsoll.run("shard", "model.json", "--on", "4x8GiB", "--replay", "plan.json", "--json").document
        assert again["bill"]["bytes"]["dense"] == dense["2.5"]
        report = plimsoll.run("check", "model.json", "plan.json", "--on", "4x8GiB", "--json").document
        assert report["ranks"][0]["capacity"]["hbm"] == answer["bill"]["bytes"]["capacity_hbm"][0] - sum(
            answer["bill"]["bytes"][cause][0] for cause in ("dense", "kjt", "reserve")
        )

    def test_the_order_of_enumeration(self, plimsoll):
        paths = ["a.x", "b", "a.y"]
        modules = [{"path": path, "tables": [table(path[-1])]} for path in paths]
        plimsoll.write("model.json", {"modules": modules})
        made = ("shard", "model.json", "--on", "2x8GiB", "--search", "torchrec", "-o", "plan.json", "--json")

        def order(*flags):
            tables = plimsoll.run(*made, *flags).document["plan"]["tables"]
            return [entry["module_path"] for entry in tables]

        assert order() == ["b", "a.y", "a.x"]
        assert order("--use-exact-enumerate-order") == ["b", "a.x", "a.y"]
        again = plimsoll.run("shard", "model.json", "--on", "2x8GiB", "--replay", "plan.json", "--json").document
        assert [entry["module_path"] for entry in again["plan"]["tables"]] == ["b", "a.x", "a.y"]


class TestStreams:
    @pytest.fixture
    def plimsoll(self, plimsoll):
        plimsoll.write("model.json", {"name": "small", "tables": [table(count=3)]})
        return plimsoll

    def test_json_is_one_document_whatever_is_asked_besides(self, plimsoll):
        answer = plimsoll.run("shard", "model.json", "--on", "4x40GiB", "--json", "--stats", "--plan", "-v")
        assert answer.document["schema"] == "plimsoll.plan/1"
        assert answer.err == ""

    def test_text_holds_the_plan_and_the_statistics_where_asked(self, plimsoll):
        answer = plimsoll.run("shard", "model.json", "--on", "4x40GiB", "--stats", "--plan")
        for part in ("param | sharding type | compute kernel", "--- Planner Statistics ---"):
            assert part in answer.out, part

    def test_output_is_the_document_that_json_prints(self, plimsoll):
        answer = plimsoll.run("shard", "model.json", "--on", "4x40GiB", "--json", "-o", "plan.json")
        assert plimsoll.read("plan.json") == answer.out
        text = plimsoll.run("shard", "model.json", "--on", "4x40GiB", "-o", "again.json")
        assert plimsoll.read("again.json") == answer.out
        assert "  slowest rank " in text.out

    def test_equal_input_gives_equal_bytes(self, plimsoll):
        arguments = ("shard", "mlperf-dlrm-dcnv2", "--search", "torchrec", "--on", "dgx-h100:2", "--json")
        assert plimsoll.run(*arguments).out == plimsoll.run(*arguments).out

    def test_warnings_go_to_stderr_unless_quiet(self, plimsoll):
        arguments = ("shard", "model.json", "--on", "6x40GiB", "--local-world-size", "4")
        loud = plimsoll.run(*arguments)
        assert loud.err.startswith("warning: "), loud.err
        assert "warning" not in loud.out
        quiet = plimsoll.run(*arguments, "-q")
        assert quiet.err == ""
        seconds = r"found in .*"
        assert re.sub(seconds, "", loud.out) == re.sub(seconds, "", quiet.out)
        document = plimsoll.run(*arguments, "--json", "-q").document
        assert [w["code"] for w in document["warnings"]] == ["uneven_hosts"]

    def test_colour_only_where_asked(self, plimsoll):
        arguments = ("shard", "model.json", "--on", "4x40GiB")
        assert "\x1b" not in plimsoll.run(*arguments).out
        assert "\x1b" not in plimsoll.run(*arguments, "--color", "never").out
        assert "\x1b[" in plimsoll.run(*arguments, "--color", "always").out
        assert "\x1b[" in plimsoll.run(*arguments, "--color", "always", NO_COLOR="1").out
        assert "\x1b" not in plimsoll.run(*arguments, "--color", "always", "--json").out

    @pytest.mark.parametrize(("variables", "is_coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
    def test_no_color_wins_over_a_terminal(self, plimsoll, terminal, variables, is_coloured):
        ours, theirs = terminal
        subprocess.run(
            [plimsoll.path, "shard", "model.json", "--on", "4x40GiB"],
            stdout=theirs,
            stderr=subprocess.DEVNULL,
            cwd=plimsoll.folder,
            check=True,
            env=program.environment(**variables),
        )
        os.close(theirs)
        said = os.read(ours, 1 << 16)
        assert (b"\x1b[" in said) == is_coloured

    def test_the_model_may_come_from_standard_input(self, plimsoll):
        piped = plimsoll.run("shard", "-", "--on", "4x40GiB", "--json", stdin=plimsoll.read("model.json"))
        named = plimsoll.run("shard", "model.json", "--on", "4x40GiB", "--json")
        assert piped.out == named.out

    def test_a_folder_does_not_hide_a_shipped_model_or_a_preset(self, plimsoll):
        (plimsoll.folder / "mlperf-dlrm-dcnv2").mkdir()
        (plimsoll.folder / "dgx-h100:2").mkdir()
        plimsoll.run("shard", "mlperf-dlrm-dcnv2", "--search", "torchrec", "--on", "dgx-h100:2", "--json")


class Files(Plimsoll):
    def __init__(self, path, folder):
        super().__init__(path, folder)
        self.write("model.json", {"tables": [table()]})
        self.write("plan.json", "what was there")

    def assert_untouched(self):
        assert self.read("plan.json") == "what was there"
        assert sorted(p.name for p in self.folder.iterdir()) == ["model.json", "plan.json"]


class TestFiles:
    """A failure leaves what was there, and nothing beside it."""

    @pytest.fixture
    def plimsoll(self, program_path, tmp_path):
        return Files(program_path, tmp_path)

    def test_bad_input_writes_nothing(self, plimsoll):
        plimsoll.run("shard", "nothing.json", "--on", "4x40GiB", "-o", "plan.json", code=1)
        plimsoll.run("shard", "model.json", "--on", "4x40GiB", "--bogus", "-o", "plan.json", code=1)
        plimsoll.assert_untouched()

    @pytest.mark.parametrize("path", ["missing/plan.json", ".", "plan.json/plan.json", "/dev/full"])
    def test_paths_that_cannot_be_written(self, plimsoll, path):
        answer = plimsoll.run("shard", "model.json", "--on", "4x40GiB", "-o", path, "--json", code=1)
        assert answer.error["place"] == path
        assert answer.error["message"]
        plimsoll.assert_untouched()

    def test_a_disk_that_fills_up_leaves_the_old_file(self, plimsoll):
        def limit_file_size():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

        done = subprocess.run(
            [plimsoll.path, "shard", "model.json", "--on", "4x40GiB", "-o", "plan.json"],
            capture_output=True,
            text=True,
            cwd=plimsoll.folder,
            check=False,
            preexec_fn=limit_file_size,
            restore_signals=False,
        )
        assert (done.returncode, done.stdout) == (1, ""), done.stderr
        assert "plimsoll: plan.json: cannot write" in done.stderr
        plimsoll.assert_untouched()

    def test_a_full_standard_output_is_an_error(self, plimsoll):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run(
                [plimsoll.path, "models"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
            )
        assert done.returncode == 1
        assert "standard output" in done.stderr


ON = ("--on", "4x40GiB", "--local-world-size", "2")


class StoredPlans(Plimsoll):
    def __init__(self, path, folder):
        super().__init__(path, folder)
        self.write("model.json", {"tables": [table(count=3), constrained("rows", "table_row_wise", rows=4000)]})
        self.run("shard", "model.json", *ON, "-o", "plan.json")
        self.answer = program.parse(self.read("plan.json"))

    def load(self, *arguments, code=0):
        return self.run("shard", "model.json", "--load-plan", *arguments, "--json", code=code).document


class TestStoredPlans:
    """--load-plan: taken where it fits what it was made from, else refused."""

    @pytest.fixture
    def plimsoll(self, program_path, tmp_path):
        return StoredPlans(program_path, tmp_path)

    def test_gives_the_plan_back(self, plimsoll):
        again = plimsoll.load("plan.json", *ON)
        assert (again["plan"], again["rating"]) == (plimsoll.answer["plan"], plimsoll.answer["rating"])
        plimsoll.run("convert", "model.json", "plan.json", *ON, "-o", "torchrec.json")
        again = plimsoll.load("torchrec.json", *ON)
        assert again["plan"] == plimsoll.answer["plan"]

    def test_other_inputs_are_refused(self, plimsoll):
        answer = plimsoll.load("plan.json", *ON, "--batch-size", "99", code=4)
        assert answer["failure"]["kind"] == "planner_input_context_mismatch"
        plimsoll.load("plan.json", "--on", "4x40GiB", code=1)  # table_row_wise is cut otherwise there

    def test_no_plan_at_all(self, plimsoll):
        assert plimsoll.load("none.json", *ON, code=1)["error"]["place"] == "none.json"
        assert "model.json#" in plimsoll.load("model.json", *ON, code=1)["error"]["place"]
        error = plimsoll.run("shard", "-", "--load-plan", "-", *ON, "--json", code=1).error
        assert error["place"] == "-"


class Choices(Plimsoll):
    def __init__(self, path, folder):
        super().__init__(path, folder)
        self.write("model.json", {"tables": [table(count=3, rows=100000)]})

    def plan(self, *arguments, **more):
        return self.run("shard", "model.json", "--on", "8x40GiB", "--json", *arguments, **more).document


class TestChoices:
    """Every flag that takes a name takes each of its names."""

    @pytest.fixture
    def plimsoll(self, program_path, tmp_path):
        return Choices(program_path, tmp_path)

    @pytest.mark.parametrize(
        "name",
        [
            "torchrec-1.2",
            "torchrec-1.4",
            "torchrec-ref",
            "torchrec-1.5",
            "torchrec-1.7",
            "torchrec-1.8",
            "torchrec-1.9",
        ],
    )
    def test_cost_models(self, plimsoll, name):
        assert plimsoll.plan("--cost-model", name)["provenance"]["options"]["cost_model"] == name

    def test_the_newest_cost_model_is_the_default(self, plimsoll):
        assert plimsoll.plan()["provenance"]["options"]["cost_model"] == "torchrec-1.9"

    @pytest.mark.parametrize("mode", ["fatal", "warning", "ignore", "none", "v2_fatal", "v2_warning", "v2_ignore"])
    def test_bounds_check_modes_are_passed_on(self, plimsoll, mode):
        plimsoll.write("model.json", {"tables": [table(rows=100000) | {"constraints": {"bounds_check_mode": mode}}]})
        assert plimsoll.plan()["plan"]["tables"][0]["bounds_check_mode"] == mode

    @pytest.mark.parametrize(
        "name",
        [
            "default",
            "easyrec",
            "easyrec_v1",
            "easyrec_v2",
            "grid_search",
            "greedy_depth",
            "greedy_sum",
            "uniform",
            "dynamic_programming",
            "easyrec_dynamic_programming_v1",
            "easyrec_dynamic_programming_v2",
            "easyrec_dynamic_programming_v3",
            "greedy_depth+uniform",
        ],
    )
    def test_proposers(self, plimsoll, name):
        assert plimsoll.plan("--proposer", name)["provenance"]["options"]["proposers"] == name

    @pytest.mark.parametrize("name", ["greedy_perf", "greedy_perf_by_perf", "memory_balanced"])
    def test_partitioners(self, plimsoll, name):
        assert plimsoll.plan("--partitioner", name)["provenance"]["options"]["partitioner"] == name

    @pytest.mark.parametrize(
        "name",
        [
            "heuristical",
            "heuristical:0.05",
            "fixed_percentage:0.1",
            "inference",
            "fixed_absolute:4GiB",
            "sku_aware:6GiB",
        ],
    )
    def test_reservations(self, plimsoll, name):
        assert plimsoll.plan("--reservation", name)["status"] in ("optimal", "feasible")

    def test_optimizers_change_the_bytes(self, plimsoll):
        def hbm(name):
            return sum(plimsoll.plan("--optimizer", name, "--proposer", "greedy_sum")["bill"]["bytes"]["hbm"])

        assert hbm("sgd") < hbm("rowwise_adagrad")
        assert hbm("rowwise_adagrad") < hbm("adam")
        plimsoll.plan("--optimizer", "none")

    def test_constraints_replace_those_of_the_model(self, plimsoll):
        plimsoll.write("constraints.json", {"constraints": {"t_1": {"sharding_types": ["data_parallel"]}}})
        tables = plimsoll.plan("--constraints", "constraints.json")["plan"]["tables"]
        assert [t["sharding_type"] for t in tables if t["table"] == "t_1"] == ["data_parallel"]

    def test_constraints_without_a_table_are_warned_of(self, plimsoll):
        plimsoll.write("constraints.json", {"constraints": {"u": {"sharding_types": ["data_parallel"]}}})
        places = [w["place"] for w in plimsoll.plan("--constraints", "constraints.json")["warnings"]]
        assert any("u" in place for place in places), places

    @pytest.mark.parametrize("pipeline", ["none", "train_base", "train_sparse_dist", "train_prefetch_sparse_dist"])
    def test_pipelines(self, plimsoll, pipeline):
        plimsoll.plan("--pipeline-type", pipeline, "--run-embedding-at-peak-memory")

    def test_batch_size_and_inference(self, plimsoll):
        small = plimsoll.plan("--batch-size", "64")["rating"]
        assert small < plimsoll.plan("--batch-size", "65536")["rating"]
        assert plimsoll.plan("--inference", "--batch-size", "64")["rating"] < small

    def test_the_easyrec_environment_counts_only_when_asked(self, plimsoll):
        variables = {"INTRA_NODE_BANDWIDTH": "1000", "CROSS_NODE_BANDWIDTH": "500", "STORAGE_RESERVE_PERCENT": "0.5"}
        plain = plimsoll.plan()
        assert plimsoll.plan(**variables) == plain
        asked = plimsoll.plan("--easyrec-environment", **variables)
        assert asked["provenance"]["options"]["proposers"] == "easyrec"
        assert asked["provenance"]["options"]["reservation"].startswith("heuristical,0.5,")
        assert asked["provenance"]["inputs"]["topology"] != plain["provenance"]["inputs"]["topology"]
        assert asked["rating"] > plain["rating"]
        given = plimsoll.plan(
            "--easyrec-environment", "--proposer", "uniform", "--reservation", "heuristical:0.1", **variables
        )["provenance"]["options"]
        assert given["proposers"] == "uniform"
        assert given["reservation"].startswith("heuristical,0.1,")

    @pytest.mark.parametrize(
        ("variable", "value"),
        [
            ("INTRA_NODE_BANDWIDTH", "fast"),
            ("CROSS_NODE_BANDWIDTH", "-1"),
            ("STORAGE_RESERVE_PERCENT", "7"),
            ("STORAGE_RESERVE_PERCENT", "x"),
        ],
    )
    def test_a_broken_easyrec_environment_is_named(self, plimsoll, variable, value):
        answer = plimsoll.run(
            "shard", "model.json", "--on", "8x40GiB", "--easyrec-environment", "--json", code=1, **{variable: value}
        )
        assert answer.error["place"] == variable

    def test_a_dash_is_standard_output(self, plimsoll):
        asked = plimsoll.run("shard", "mlperf-dlrm-dcnv2", "--search", "torchrec", "--on", "dgx-h100:2", "-o", "-")
        assert asked.document["status"] == "feasible"
        assert not (plimsoll.folder / "-").exists()

    def test_every_bill_adds_up(self, plimsoll):
        answer = plimsoll.plan("--search", "torchrec")
        for tier in ("hbm", "ddr", "ssd"):
            causes = [bytes_ for name, bytes_ in answer["bill"]["bytes"].items() if name.startswith(tier + "_")]
            total = [sum(ranks) for ranks in zip(*causes)] if causes else [0] * 8
            assert answer["bill"]["bytes"][tier] == total, tier
        assert len(answer["bill"]["bytes"]["hbm"]) == 8
        assert max(answer["bill"]["bytes"]["hbm_weights"]) > 0
        sizes = answer["bill"]["bytes"]
        for rank, capacity in enumerate(sizes["capacity_hbm"]):
            assert sum(sizes[name][rank] for name in ("hbm", "dense", "kjt", "reserve")) <= capacity
        assert max(answer["bill"]["ms"]["total"]) == pytest.approx(answer["rating"], abs=1e-9)
        certificate = answer["certificate"]
        assert certificate["lower_bound"] <= certificate["objective"]
        assert json.dumps(certificate["objective"]) == json.dumps(answer["rating"])
