"""plimsoll explain, size and whatif, and what every command says where nothing fits."""

import csv
import io
import itertools
import json
import math

import pytest
from program import Plimsoll, constrained, table

DLRM = ("mlperf-dlrm-dcnv2", "--batch-size", "4096")
SMALL = ("--on", "8x28GiB", "--ddr-cap", "0")
QUICK = ("--effort", "50000")


class Study(Plimsoll):
    def __init__(self, path, folder):
        super().__init__(path, folder)
        tables = [table(f"t{i}", 20000 * (i + 1), 64) for i in range(6)]
        self.write("model.json", {"modules": [{"path": "ebc", "tables": tables}]})

    def explanation(self, *arguments):
        """Of what does not fit."""
        return self.run(*arguments, "--json", code=2).document["explanation"]


@pytest.fixture
def plimsoll(request, tmp_path):
    return Study(request.config.getoption("--program"), tmp_path)


class TestNoPlan:
    def test_shard_names_cap_conflict_and_fixes_and_each_fix_gives_a_plan(self, plimsoll):
        said = plimsoll.explanation("shard", *DLRM, *SMALL)
        assert said["cap"] == "hbm" and said["missing"] > 0
        names = {member["name"] for member in said["conflict"]}
        assert names == {"HBM of --on 8x28GiB", "--ddr-cap 0", "reservation heuristical:0.15 (the default)"}
        assert said["is_irreducible"]
        kinds = {fix["kind"] for fix in said["fixes"]}
        assert {"ranks", "memory", "reservation", "data_type", "optimizer", "kernel"} <= kinds
        assert [fix["ms"] for fix in said["fixes"]] == sorted(fix["ms"] for fix in said["fixes"])
        for fix in said["fixes"]:
            name, _, value = fix["change"].partition(" ")
            if name == "constraints":
                document = {"schema": "plimsoll.constraints/1", "constraints": json.loads(value)}
                name, value = "--constraints", plimsoll.write("c.json", document)
            arguments = [*DLRM, *SMALL, name, value]
            if name == "--on":
                arguments = [*DLRM, "--on", value, "--ddr-cap", "0"]
            plimsoll.run("shard", *arguments, "-q", *QUICK)

    def test_a_fix_of_tables_is_recorded_and_checked(self, plimsoll):
        for name, kind in (("--data-type", "fp16"), ("--optimizer", "rowwise_adagrad")):
            plimsoll.run("shard", *DLRM, *SMALL, name, f"{kind}:ebc.cat_0,cat_20", *QUICK, "-o", "plan.json")
            plimsoll.run("check", *DLRM, "plan.json", *SMALL)
            plimsoll.run("shard", *DLRM, *SMALL[:2], *SMALL[2:], name, f"{kind}:cat_nil", code=1)

    def test_changes_are_suggested_where_nothing_is_proved(self, plimsoll):
        # 41 tables of which two fit on a rank, and 20 ranks
        tables = [constrained(f"t{i}", "table_wise", 4096 * (22 + i * 37 % 9), 64, "fused") for i in range(41)]
        plimsoll.write("uneven.json", {"modules": [{"path": "ebc", "tables": tables}]})
        flags = ("--on", "20x64MiB", "--ddr-cap", "0", "--reservation", "fixed_percentage:0", "--batch-size", "1")
        answer = plimsoll.run("shard", "uneven.json", *flags, "-o", "none.json", code=4)
        assert "not proved that there is none.\nTry one of (a plan was found with each):\n" in answer.out
        said = json.loads(plimsoll.read("none.json"))
        assert said["status"] == "limit" and "conflict" not in said["explanation"]
        changes = {fix["kind"]: fix["change"] for fix in said["explanation"]["fixes"]}
        assert {"ranks", "memory", "data_type"} <= changes.keys()
        for kind in ("ranks", "memory", "data_type"):
            name, value = changes[kind].split(" ", 1)
            kept = [word for pair in zip(flags[::2], flags[1::2]) if pair[0] != name for word in pair]
            plimsoll.run("shard", "uneven.json", *kept, name, value)

    def test_constraints_and_rules_are_named_as_they_were_written(self, plimsoll):
        pinned = {f"t{i}": {"sharding_types": ["table_wise"], "compute_kernels": ["fused"]} for i in range(6)}
        constraints = plimsoll.write("c.json", {"schema": "plimsoll.constraints/1", "constraints": pinned})
        rules = {"schema": "plimsoll.placement_rules/1", "allowed_ranks": {f"ebc.t{i}": [1] for i in (0, 4, 5)}}
        question = ("shard", "model.json", "--on", "2x64MiB", "--ddr-cap", "0", "--reservation", "fixed_percentage:0")
        rules = ("--rules", plimsoll.write("r.json", rules))
        plimsoll.run(*question, "--constraints", constraints)
        plimsoll.run(*question, *rules)
        tight = ("--hbm-cap", "55MiB")
        said = plimsoll.explanation(*question, *tight, "--constraints", constraints, *rules)
        names = [member["name"] for member in said["conflict"]]
        assert "--hbm-cap 55MiB" in names
        assert {f"allowed_ranks ebc.t{i}: 1" for i in (0, 4, 5)} <= set(names)
        assert any(fix["change"].startswith("rules {") for fix in said["fixes"])

    def test_checkpoint_names_the_budget_and_what_restricts_the_units(self, plimsoll):
        said = plimsoll.explanation("checkpoint", "llama-3-8b", "--budget", "30GiB")
        assert said["cap"] == "budget"
        assert [member["name"] for member in said["conflict"]] == [f"--budget {30 << 30}B"]
        budget = next(fix["change"] for fix in said["fixes"] if fix["kind"] == "budget")
        plimsoll.run("checkpoint", "llama-3-8b", *budget.split(" "))
        ranks = next(fix["change"] for fix in said["fixes"] if fix["kind"] == "ranks")
        plimsoll.run("checkpoint", "llama-3-8b", "--budget", "30GiB", *ranks.split(" "))
        question = ("checkpoint", "llama-3-8b", "--budget", "70%", "--ac-unit", "LlamaForCausalLM.model.layers.0")
        said = plimsoll.explanation(*question)
        assert {member["kind"] for member in said["conflict"]} == {"constraint", "cap"}
        assert "without --ac-unit" in [fix["change"] for fix in said["fixes"]]
        plimsoll.run(*question[:4])

    def test_partition_names_caps_and_pins(self, plimsoll):
        question = ("partition", "bert24-training", "--devices", "cpu=0", "--memory", "256MiB")
        said = plimsoll.explanation(*question)
        assert [member["name"] for member in said["conflict"]] == ["--memory 256MiB"]
        assert said["is_irreducible"] and said["cap"]
        for fix in said["fixes"]:
            flag, value = fix["change"].split(" ")
            base = question[:4] if flag == "--memory" else question
            plimsoll.run(*base, flag, value)
        assert {fix["kind"] for fix in said["fixes"]} >= {"memory"}


class TestExplain:
    def test_figures_are_those_of_the_checker(self, plimsoll):
        plimsoll.run("shard", "model.json", "--on", "2x1GiB", "-o", "plan.json")
        said = plimsoll.run("explain", "model.json", "plan.json", "--on", "2x1GiB", "--json").document
        judged = plimsoll.run("check", "model.json", "plan.json", "--on", "2x1GiB", "--json").document
        assert said["times"]["rating"] == judged["rating"]
        rank = judged["ranks"][said["slowest_rank"]]
        assert rank["ms"] == judged["rating"]
        for name, ms in said["components"].items():
            assert ms == rank["perf"][name]
        assert math.isclose(sum(entry["ms"] for entry in said["tables"]), rank["ms"])
        assert said["fullest_bytes"] == max(entry["used"]["hbm"] for entry in judged["ranks"])
        plan = json.loads(plimsoll.read("plan.json"))
        assert said["certificate"]["lower_bound"] == plan["certificate"]["lower_bound"]
        assert said["objective"] == plan["objective"]

    def test_more_bandwidth_saves_what_it_says(self, plimsoll):
        plimsoll.run("shard", "model.json", "--on", "2x1GiB", "-o", "plan.json")
        on = ("--on", "2x1GiB")
        said = plimsoll.run("explain", "model.json", "plan.json", *on, "--json").document
        rate = next(entry for entry in said["rates"] if entry["rate"] == "intra_host_bw")
        assert rate["ms_per_gb_per_s"] > 0
        faster = ("--intra-host-bw", f"{rate['gb_per_s'] + 1}GB/s")
        then = plimsoll.run("explain", "model.json", "plan.json", *on, *faster, "--json").document
        saved = said["times"][said["objective"]] - then["times"][said["objective"]]
        assert math.isclose(saved, rate["ms_per_gb_per_s"], rel_tol=1e-6)

    def test_a_faster_change_is_faster(self, plimsoll):
        tables = [constrained(f"t{i}", "table_wise", 200000, 64, "fused_uvm") for i in range(4)]
        plimsoll.write("slow.json", {"modules": [{"path": "ebc", "tables": tables}]})
        said = plimsoll.run("explain", "slow.json", "--on", "2x1GiB", "--json").document
        now = said["times"][said["objective"]]
        changes = [fix for fix in said["faster"] if fix["kind"] == "constraint"]
        assert changes and all(fix["ms"] < now for fix in said["faster"])
        document = {
            "schema": "plimsoll.constraints/1",
            "constraints": json.loads(changes[0]["change"].removeprefix("constraints ")),
        }
        again = plimsoll.run(
            "shard", "slow.json", "--on", "2x1GiB", "--constraints", plimsoll.write("c.json", document), "--json"
        ).document
        assert again["times"][said["objective"]] <= changes[0]["ms"] * (1 + 1e-9)

    def test_without_a_plan_it_plans_or_says_why_there_is_none(self, plimsoll):
        answer = plimsoll.run("explain", "model.json", "--on", "2x1GiB")
        assert "slowest rank" in answer.out and "one more GB/s" in answer.out
        answer = plimsoll.run("explain", *DLRM, *SMALL, code=2)
        assert "Conflict" in answer.out and "Try one of" in answer.out

    def test_bad_input(self, plimsoll):
        plimsoll.run("explain", "model.json", "missing.json", "--on", "2x1GiB", code=1)
        plimsoll.run("partition", "bert24-training", "-o", "placement.json")
        answer = plimsoll.run("explain", "model.json", "placement.json", "--on", "2x1GiB", code=1)
        assert "not a plan of embedding tables" in answer.err
        plimsoll.run("shard", "movielens-two-tower", "--on", "2x1GiB", "-o", "plan.json")
        answer = plimsoll.run("explain", "model.json", "plan.json", "--on", "2x1GiB", code=1)
        assert "the plan lacks this table" in answer.err


class TestSize:
    def test_the_smallest_machine_is_proved(self, plimsoll):
        question = ("size", *DLRM, "--on", "dgx-h100", "--ddr-cap", "0", "--json")
        said = plimsoll.run(*question).document
        assert said["is_found"] and said["is_smallest"]
        *below, chosen = said["machines"]
        assert chosen["verdict"] == "enough"
        assert [machine["verdict"] for machine in below] == ["infeasible"] * len(below)
        plimsoll.run("shard", *DLRM, "--on", chosen["on"], "--ddr-cap", "0")
        plimsoll.run("shard", *DLRM, "--on", below[-1]["on"], "--ddr-cap", "0", code=2)

    def test_a_time_is_kept_and_smaller_machines_are_too_slow(self, plimsoll):
        slow = plimsoll.run("size", *DLRM, "--accelerator", "h100-sxm", "--json").document["machines"][-1]
        within = slow["ms"] / 1.5
        said = plimsoll.run("size", *DLRM, "--accelerator", "h100-sxm", "--within", f"{within}ms", "--json").document
        assert said["machines"][-1]["ms"] <= within
        assert said["machines"][-1]["ranks"] > slow["ranks"]
        for machine in said["machines"][:-1]:
            if machine["verdict"] == "too_slow":
                assert machine["lower_bound"] > within
        assert said["is_smallest"] == all(m["verdict"] != "not_known" for m in said["machines"][:-1])

    def test_prices_decide(self, plimsoll):
        prices = {"prices": {"dgx-h100": {"per_host": 90}, "dgx-a100-320gb": {"per_rank": 1}}}
        question = ("size", *DLRM, "--on", "dgx-h100,dgx-a100-320gb", "--ddr-cap", "0", "--json")
        plain = plimsoll.run(*question).document["machines"][-1]
        cheap = plimsoll.run(*question, "--price", plimsoll.write("p.json", prices)).document["machines"]
        assert plain["on"].startswith("dgx-h100") and cheap[-1]["on"].startswith("dgx-a100")
        assert [machine["price"] for machine in cheap] == sorted(machine["price"] for machine in cheap)
        prices["prices"].pop("dgx-h100")
        answer = plimsoll.run(*question, "--price", plimsoll.write("p.json", prices), code=1)
        assert "no price of dgx-h100" in answer.err

    def test_none_is_enough(self, plimsoll):
        question = ("size", *DLRM, "--on", "dgx-h100", "--within", "1us", "--max-ranks", "16")
        answer = plimsoll.run(*question, "--json", code=None)
        assert not answer.document["is_found"]
        is_proved = all(machine["verdict"] != "not_known" for machine in answer.document["machines"])
        assert answer.code == (2 if is_proved else 4)

    def test_devices_of_a_graph(self, plimsoll):
        said = plimsoll.run("size", "bert24-training", "--within", "60ms", "--json").document
        assert said["is_found"] and said["is_smallest"]
        *below, chosen = said["machines"]
        assert len(below) > 1 and {machine["verdict"] for machine in below} == {"too_slow"}
        plan = plimsoll.run("partition", "bert24-training", "--devices", str(chosen["ranks"]), "--json").document
        assert plan["certificate"]["objective"] == chosen["ms"] <= 60

    def test_bad_usage(self, plimsoll):
        for arguments in (
            (),
            ("--on", "dgx-nil"),
            ("--accelerator", "nil"),
            ("--on", "dgx-h100", "--within", "soon"),
            ("--on", "dgx-h100,"),
            ("--on", "dgx-h100:2"),
        ):
            plimsoll.run("size", "model.json", *arguments, code=1)


class TestWhatIf:
    QUESTION = (
        "whatif",
        "model.json",
        "--on",
        "dgx-h100,gb200-nvl72",
        "--ranks",
        "4:16",
        "--batch-size",
        "256:1024",
    )

    def test_rows_are_those_of_single_plans_for_any_number_of_threads(self, plimsoll):
        answers = [plimsoll.run(*self.QUESTION, "--threads", str(n), "--json").out for n in (1, 2, 5)]
        assert len(set(answers)) == 1
        rows = json.loads(answers[0])["rows"]
        points = [(row["on"], row["ranks"], row["batch_size"]) for row in rows]
        names = {4: "@4", 8: ":1", 16: ":2"}
        assert points == [
            *((f"dgx-h100{names[ranks]}", ranks, batch) for ranks in (4, 8, 16) for batch in (256, 512, 1024)),
            *((f"gb200-nvl72@{ranks}", ranks, batch) for ranks in (4, 8, 16) for batch in (256, 512, 1024)),
        ]
        for row in rows[::4]:
            one = ("shard", "model.json", "--on", row["on"], "--batch-size", str(row["batch_size"]))
            plan = plimsoll.run(*one, "--objective", "time", "--json").document
            assert row["lower_bound"] <= plan["times"]["time"] * (1 + 1e-9)
            assert row["ms"] >= plan["certificate"]["lower_bound"] * (1 - 1e-9)
            assert math.isclose(row["samples_per_s"], row["ranks"] * row["batch_size"] / row["ms"] * 1000)

    def test_the_front_and_prices(self, plimsoll):
        prices = {"prices": {"dgx-h100": {"per_host": 80}, "gb200-nvl72": {"per_rank": 20}}}
        question = (*self.QUESTION, "--price", plimsoll.write("p.json", prices))
        rows = plimsoll.run(*question, "--json").document["rows"]
        for row in rows:
            hosts = math.ceil(row["ranks"] / 8)
            is_node = row["on"].startswith("dgx")
            assert row["price"] == (80 * hosts if is_node else 20 * row["ranks"])
            is_front = not any(
                other["price"] <= row["price"]
                and other["samples_per_s"] >= row["samples_per_s"]
                and (other["price"], other["samples_per_s"]) != (row["price"], row["samples_per_s"])
                for other in rows
            )
            assert row["is_pareto"] == is_front
        text = plimsoll.run(*question).out
        assert "18 of 18 points" in text and "front" in text
        table_of = list(csv.DictReader(io.StringIO(plimsoll.run(*question, "--csv").out)))
        assert [(row["on"], float(row["ms"])) for row in table_of] == [(row["on"], row["ms"]) for row in rows]

    def test_a_cut_sweep_is_resumed_and_parts_add_up(self, plimsoll):
        whole = plimsoll.run(*self.QUESTION, "--json").document
        fresh = [row["ms"] for row in whole["rows"]]
        first, second, *others = (fresh[i : i + 3] for i in range(0, 18, 3))  # three batch sizes of each machine
        half = {**whole, "stop": "deadline", "rows": whole["rows"][3:8]}  # one machine and most of the next
        for row in half["rows"]:
            row["ms"] = 1.0
        resumed = plimsoll.run(*self.QUESTION, "--resume", plimsoll.write("half.json", half), "--json").document
        assert [row["ms"] for row in resumed["rows"]] == [*first, 1.0, 1.0, 1.0, *itertools.chain(*others)]
        parts = [plimsoll.run(*self.QUESTION, "--part", f"{i}/4", "--json").document["rows"] for i in range(1, 5)]
        assert [row["ms"] for row in parts[1]] == second + others[-1]
        assert sum(map(len, parts)) == 18
        other = plimsoll.run(
            *self.QUESTION, "--objective", "rating", "--resume", plimsoll.write("half.json", half), code=1
        )
        assert "another model or of other flags" in other.err

    def test_a_sweep_that_is_cut_says_so(self, plimsoll):
        answer = plimsoll.run(*self.QUESTION, "--time-limit", "0.001ms", "--json", code=3)
        assert answer.document["stop"] == "deadline" and answer.document["rows"] == []

    def test_numbers_and_machines(self, plimsoll):
        question = ("whatif", "model.json", "--on", "dgx-h100", "--json", "-q")
        rows = plimsoll.run(*question, "--ranks", "8:24:8,2").document["rows"]
        assert [row["ranks"] for row in rows] == [8, 16, 24, 2]
        assert {row["batch_size"] for row in rows} == {512}
        answer = plimsoll.run("whatif", "model.json", "--on", "dgx-h100", "--ranks", "8,12", "--json")
        assert [row["ranks"] for row in answer.document["rows"]] == [8]
        assert "do not fill hosts of 8" in answer.err
        rows = plimsoll.run("whatif", "model.json", "--on", "2x1GiB,dgx-h100:2", "--json").document["rows"]
        assert [row["ranks"] for row in rows] == [2, 16]
        for arguments in (
            ("--ranks", "8:4"),
            ("--ranks", "0"),
            ("--ranks", "8:64:8:8"),
            ("--ranks", "12"),
            ("--batch-size", "x"),
            ("--part", "3/2"),
            ("--part", "1"),
            ("--csv",),
        ):
            ranks = () if "--ranks" in arguments else ("--ranks", "8")
            plimsoll.run(*question, *ranks, *arguments, code=1)
        plimsoll.run("whatif", "model.json", "--on", "dgx-nil", "--ranks", "8", code=1)
