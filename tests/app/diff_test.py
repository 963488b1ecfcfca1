"""plimsoll diff: what differs between two plans of any planner, and why."""

import json

import pytest
from program import constrained, table

HARDWARE = ("--on", "4x40GiB", "--local-world-size", "2")
ROWS, COLUMNS = 1000, 64
BYTES = 4  # of an fp32 value


def plan(*tables):
    return {"schema": "plimsoll.plan/1", "world_size": 4, "local_world_size": 2, "tables": list(tables)}


def sharding(name, sharding_type, ranks, shards, kernel="fused"):
    return {
        "module_path": "",
        "table": name,
        "sharding_type": sharding_type,
        "compute_kernel": kernel,
        "ranks": [{"first": rank} for rank in ranks],
        "shards": [
            {"rows": rows, "columns": columns, "row": row, "column": column} for rows, columns, row, column in shards
        ],
    }


def whole(name, rank):
    return sharding(name, "table_wise", [rank], [(ROWS, COLUMNS, 0, 0)])


def by_rows(name, ranks):
    rows = ROWS // len(ranks)
    shards = [(rows, COLUMNS, i * rows, 0) for i in range(len(ranks))]
    return sharding(name, "row_wise", ranks, shards)


def by_columns(name, ranks):
    columns = COLUMNS // len(ranks)
    return sharding(name, "column_wise", ranks, [(ROWS, columns, 0, i * columns) for i in range(len(ranks))])


def replicated(name):
    return sharding(name, "data_parallel", range(4), [(ROWS, COLUMNS, 0, 0)] * 4, "dense")


@pytest.fixture
def diff(plimsoll):
    def run(before, after, *arguments, code=0):
        plimsoll.write("before.json", before)
        plimsoll.write("after.json", after)
        return plimsoll.run("diff", "before.json", "after.json", "--json", *arguments, code=code).document

    return run


def received(document):
    return {
        (traffic["rank"], traffic["is_between_hosts"]): traffic["received_values"]
        for traffic in document["traffic"]
        if traffic["received_values"]
    }


class TestDecisions:
    def test_equal_plans_are_not_different(self, diff):
        document = diff(plan(whole("t", 0)), plan(whole("t", 0)), "--exit-code")
        assert not document["is_different"]
        assert document["changes"] == [] and document["reasons"] == [] and "traffic" not in document

    def test_runs_of_ranks_may_be_written_otherwise(self, diff):
        joined = by_rows("t", [0, 1, 2, 3]) | {"ranks": [{"first": 0, "count": 4}]}
        joined["shards"] = [{"count": 4, "rows": 250, "columns": COLUMNS, "row_stride": 250}]
        assert not diff(plan(by_rows("t", [0, 1, 2, 3])), plan(joined))["is_different"]

    def test_shards_in_another_order_are_different(self, diff):
        swapped = by_rows("t", [0, 1])
        swapped["shards"].reverse()
        document = diff(plan(by_rows("t", [0, 1])), plan(swapped))
        assert [change["change"] for change in document["changes"]] == ["split"]
        assert document["changes"][0]["moved_values"] == ROWS * COLUMNS

    @pytest.mark.parametrize(
        ("before", "after", "change"),
        [
            (whole("t", 0), whole("t", 1), "moved"),
            (whole("t", 0), by_rows("t", [0, 1, 2, 3]), "split"),
            (whole("t", 0), whole("t", 0) | {"compute_kernel": "fused_uvm"}, "changed"),
            (whole("t", 0), whole("t", 0) | {"cache_params": {"load_factor": 0.5}}, "changed"),
            (whole("t", 0), whole("t", 0) | {"output_dtype": "fp16"}, "changed"),
        ],
    )
    def test_kinds_of_changes(self, diff, before, after, change):
        document = diff(plan(before), plan(after), "--exit-code", code=6)
        assert [entry["change"] for entry in document["changes"]] == [change]

    def test_added_and_removed_tables(self, diff):
        document = diff(plan(whole("a", 0), whole("b", 1)), plan(whole("c", 2), whole("b", 1)), "--exit-code", code=6)
        assert [(entry["name"], entry["change"]) for entry in document["changes"]] == [
            (".c", "added"),
            (".a", "removed"),
        ]
        assert document["changes"][0]["before"] == {} and document["changes"][1]["after"] == {}

    def test_another_number_of_ranks_is_different(self, diff):
        larger = plan(whole("t", 0)) | {"world_size": 6}
        document = diff(plan(whole("t", 0)), larger, "--exit-code", code=6)
        assert document["changes"] == []
        assert document["places"] == [f"rank {rank}" for rank in range(6)]


class TestMoves:
    """Four ranks in two hosts of two, a table of 1,000 x 64."""

    def test_a_whole_table_within_the_host(self, diff):
        document = diff(plan(whole("t", 0)), plan(whole("t", 1)))
        assert document["traffic"] == [
            {"rank": 0, "is_between_hosts": False, "sent_values": ROWS * COLUMNS, "received_values": 0},
            {"rank": 1, "is_between_hosts": False, "sent_values": 0, "received_values": ROWS * COLUMNS},
        ]

    def test_what_a_rank_holds_stays(self, diff):
        document = diff(plan(whole("t", 0)), plan(by_rows("t", [0, 1, 2, 3])))
        quarter = ROWS * COLUMNS // 4
        assert received(document) == {(1, False): quarter, (2, True): quarter, (3, True): quarter}
        assert document["changes"][0]["moved_values"] == 3 * quarter

    def test_rows_to_columns(self, diff):
        """Of the columns of rank r, half the rows lie on the other rank."""
        document = diff(plan(by_rows("t", [0, 1])), plan(by_columns("t", [0, 1])))
        assert received(document) == {(0, False): ROWS * COLUMNS // 4, (1, False): ROWS * COLUMNS // 4}

    def test_rows_to_other_rows(self, diff):
        """From halves on 0 and 1 to quarters on 3, 2, 1, 0: each rank keeps nothing of its own."""
        document = diff(plan(by_rows("t", [0, 1])), plan(by_rows("t", [3, 2, 1, 0])))
        quarter = ROWS * COLUMNS // 4
        # Rank 1 holds the second half and is to hold the third quarter, which is in it.
        assert received(document) == {(3, True): quarter, (2, True): quarter, (0, False): quarter}

    def test_replicas_come_from_the_one_that_has_it(self, diff):
        document = diff(plan(whole("t", 2)), plan(replicated("t")))
        everything = ROWS * COLUMNS
        assert received(document) == {(0, True): everything, (1, True): everything, (3, False): everything}

    def test_from_replicas_nothing_moves(self, diff):
        document = diff(plan(replicated("t")), plan(by_rows("t", [0, 1, 2, 3])))
        assert "traffic" not in document

    def test_from_replicas_on_some_ranks_the_nearest_sends(self, diff):
        """Replicas on 0 and 2 alone: 1 asks 0, and 3 asks 2."""
        some = sharding("t", "data_parallel", [0, 2], [(ROWS, COLUMNS, 0, 0)] * 2, "dense")
        document = diff(plan(some), plan(replicated("t")))
        assert received(document) == {(1, False): ROWS * COLUMNS, (3, False): ROWS * COLUMNS}

    def test_bytes_with_the_model(self, diff, plimsoll):
        plimsoll.write("model.json", {"tables": [table("t", data_type="fp16")]})
        plans = [plan(whole("t", 0)), plan(whole("t", 1))]
        for entry in plans:
            entry["tables"][0]["module_path"] = ""
        document = diff(*plans, "--model", "model.json")
        assert document["changes"][0]["moved_bytes"] == ROWS * COLUMNS * 2
        assert [traffic["received_bytes"] for traffic in document["traffic"] if "received_bytes" in traffic] == [
            ROWS * COLUMNS * 2
        ]


class TestFigures:
    def model(self, plimsoll):
        tables = [constrained(f"t{i}", "table_wise", rows=100_000 * (i + 1)) for i in range(6)]
        return plimsoll.write("model.json", {"tables": tables, "optimizer": "sgd"})

    def plans(self, plimsoll):
        model = self.model(plimsoll)
        answers = []
        for name, search in (("before.json", "torchrec"), ("after.json", "balanced")):
            flags = ("--search", search, "--batch-size", "256", "-o", name, "--json")
            answers.append(plimsoll.run("shard", model, *HARDWARE, *flags).document)
        # The last table elsewhere, so that plans differ whatever the searches find.
        moved = json.loads(json.dumps(answers[0]))
        moved["plan"]["tables"][-1]["ranks"][0]["first"] ^= 1
        plimsoll.write("moved.json", {key: moved["plan"][key] for key in moved["plan"]})
        return answers

    def test_bills_stand_side_by_side(self, plimsoll):
        before, after = self.plans(plimsoll)
        document = plimsoll.run("diff", "before.json", "after.json", "--json").document
        assert document["bill"]["before"] == before["bill"]
        assert document["bill"]["after"] == after["bill"]
        figures = {figure["name"]: figure for figure in document["figures"]}
        assert figures["rating"] == {"name": "rating", "before": before["rating"], "after": after["rating"]}

    def test_figures_of_a_bare_plan_are_the_checkers(self, plimsoll):
        before, _ = self.plans(plimsoll)
        flags = ("--model", "model.json", *HARDWARE, "--batch-size", "256")
        document = plimsoll.run("diff", "before.json", "moved.json", *flags, "--json").document
        checked = plimsoll.run("check", "model.json", "moved.json", *HARDWARE, "--batch-size", "256", "--json").document
        assert [rank["used"]["hbm"] for rank in checked["ranks"]] == document["bill"]["after"]["bytes"]["hbm"]
        assert [rank["ms"] for rank in checked["ranks"]] == pytest.approx(document["bill"]["after"]["ms"]["total"])
        # One table left one rank for another: both are among the reasons, with its name.
        reasons = [reason for reason in document["reasons"] if not reason["is_bytes"]]
        assert {tuple(reason["parts"]) for reason in reasons} == {(".t5",)}
        assert len(reasons) == 2
        for reason in reasons:
            total = sum(cause["after"] - cause["before"] for cause in reason["causes"])
            assert total == pytest.approx(reason["after"] - reason["before"])
        sizes = [abs(cause["after"] - cause["before"]) for cause in reasons[0]["causes"]]
        assert sizes == sorted(sizes, reverse=True)
        figures = {figure["name"]: figure for figure in document["figures"]}
        assert (figures["rating"]["before"], figures["rating"]["after"]) == (before["rating"], checked["rating"])

    def test_torchrecs_form_is_the_same_plan(self, plimsoll):
        self.plans(plimsoll)
        plimsoll.run("convert", "model.json", "after.json", *HARDWARE, "--to", "torchrec", "-o", "torchrec.json")
        flags = ("--model", "model.json", *HARDWARE, "--batch-size", "256", "--exit-code", "--json")
        document = plimsoll.run("diff", "after.json", "torchrec.json", *flags).document
        assert document["bill"]["before"]["bytes"]["hbm"] == document["bill"]["after"]["bytes"]["hbm"]
        assert document["bill"]["before"]["ms"]["total"] == pytest.approx(document["bill"]["after"]["ms"]["total"])

    def test_a_wrong_plan_has_no_figures_and_a_warning(self, plimsoll):
        self.plans(plimsoll)
        wrong = json.loads(plimsoll.read("moved.json"))
        del wrong["tables"][0]
        plimsoll.write("wrong.json", wrong)
        flags = ("--model", "model.json", *HARDWARE)
        answer = plimsoll.run("diff", "moved.json", "wrong.json", *flags, "--json")
        assert [warning["code"] for warning in answer.document["warnings"]] == ["no_figures"]
        assert answer.document["bill"]["after"] == {"bytes": {}, "ms": {}}
        assert "the plan has violations" in answer.err


class TestOtherPlanners:
    def test_checkpointing(self, plimsoll):
        for name, budget in (("a.json", "70%"), ("b.json", "60%")):
            plimsoll.run("checkpoint", "llama-3-8b", "--budget", budget, "-o", name)
        a, b = (json.loads(plimsoll.read(name)) for name in ("a.json", "b.json"))
        document = plimsoll.run("diff", "a.json", "b.json", "--json", "--exit-code", code=6).document
        assert document["kind"] == "checkpointing"
        figures = {figure["name"]: (figure["before"], figure["after"]) for figure in document["figures"]}
        assert figures["peak_bytes"] == (a["predicted"]["peak_bytes"], b["predicted"]["peak_bytes"])
        of_a, of_b = ({unit["fqn"]: unit for unit in policy["units"]} for policy in (a, b))
        expected = {name for name in of_a | of_b if of_a.get(name) != of_b.get(name)}
        assert {change["name"] for change in document["changes"]} == expected
        assert document["bill"]["before"]["bytes"]["needed"] == [entry["bytes"] for entry in a["profile"]]

    def test_placements(self, plimsoll):
        plimsoll.run("partition", "bert24-training", "-o", "a.json")
        plimsoll.run("partition", "bert24-training", "--general", "-o", "b.json")
        a, b = (json.loads(plimsoll.read(name)) for name in ("a.json", "b.json"))
        document = plimsoll.run("diff", "a.json", "b.json", "--json").document
        device_of = [{n: s["devices"] for s in p["stages"] for n in s["nodes"]} for p in (a, b)]
        assert {change["name"] for change in document["changes"]} == {
            node for node in device_of[0] if device_of[0][node] != device_of[1][node]
        }
        totals = {f"device {stage['devices'][0]}": stage["load_ms"] for stage in b["stages"]}
        assert dict(zip(document["places"], document["bill"]["after"]["ms"]["total"])) == totals

        def sent(placement, source, target):
            return sum(cut["amount"] for cut in placement["cuts"] if cut["from"] == source and target in cut["to"])

        assert document["links"]
        for link in document["links"]:
            assert link["before"] == sent(a, link["from"], link["to"])
            assert link["after"] == sent(b, link["from"], link["to"])

    def test_a_split_of_the_benchmark_needs_its_graph(self, plimsoll):
        plimsoll.run("partition", "bert24-training", "-o", "a.json")
        flags = ("--to", "dnn_partitioning", "-o", "split.json")
        plimsoll.run("convert", "bert24-training", "a.json", *flags)
        error = plimsoll.run("diff", "a.json", "split.json", "--json", code=1).error
        assert error["place"] == "--model"
        flags = ("--model", "bert24-training", "--exit-code", "--json")
        document = plimsoll.run("diff", "a.json", "split.json", *flags).document
        before, after = (document["bill"][side]["ms"]["total"] for side in ("before", "after"))
        assert before == pytest.approx(after)

    def test_partitions_of_torch_fx(self, plimsoll):
        plan_of = {
            "stages": [
                {"id": 0, "devices": [0], "memory_bytes": 8, "nodes": ["a", "b"]},
                {"id": 1, "devices": [1], "memory_bytes": 8, "nodes": ["b", "c"]},
            ],
            "objective": "fx",
        }
        plimsoll.write("a.json", plan_of)
        plan_of["stages"][1]["nodes"] = ["c"]
        plimsoll.write("b.json", plan_of)
        document = plimsoll.run("diff", "a.json", "b.json", "--json").document
        assert [(change["before"], change["after"]) for change in document["changes"]] == [
            ({"devices": "0-1"}, {"devices": "0"})
        ]

    def test_profiles(self, plimsoll):
        stage = {"choices": ["c"], "tensor_parallel": 1, "time_ms": 1.5, "memory_bytes": 10}
        for name, replicas in (("a.json", 1), ("b.json", 2)):
            stages = [
                stage | {"operators": [0], "data_parallel": 1},
                stage | {"operators": [1], "data_parallel": replicas},
            ]
            plimsoll.write(name, {"schema": "plimsoll.pipeline_plan/1", "stages": stages})
        document = plimsoll.run("diff", "a.json", "b.json", "--json", "--exit-code", code=6).document
        assert [(change["name"], change["after"]) for change in document["changes"]] == [
            ("operator 1", {"data_parallel": "2"})
        ]


class TestText:
    def test_what_it_says(self, plimsoll):
        plimsoll.write("a.json", plan(*(whole(f"t{i}", 0) for i in range(30)), whole("last", 3)))
        plimsoll.write("b.json", plan(*(whole(f"t{i}", 1) for i in range(30)), by_rows("last", [0, 1, 2, 3])))
        text = plimsoll.run("diff", "a.json", "b.json").out
        assert text.startswith("a.json -> b.json (sharding plans)\n31 of 31 tables: 30 moved, 1 split\n")
        assert ".t0 .. .t29" in text and "within hosts" in text
        assert plimsoll.run("diff", "a.json", "b.json", "-v").out.count("moved") == 31
        assert "The same decisions" in plimsoll.run("diff", "a.json", "a.json", "--exit-code").out

    def test_it_begins_with_the_figure_that_plans_are_chosen_by(self, plimsoll):
        for name, step_ms in (("a.json", 4.0), ("b.json", 3.0)):
            plimsoll.write(
                name,
                {
                    "schema": "plimsoll.pipeline_plan/1",
                    "slowest_ms": step_ms,
                    "stages": [{"data_parallel": 1, "tensor_parallel": 1, "operators": [0], "choices": ["c"]}],
                },
            )
        lines = plimsoll.run("diff", "a.json", "b.json").out.splitlines()
        assert lines[1] == "slowest stage 4 ms -> 3 ms (-25.0 %)"
        assert plimsoll.run("diff", "a.json", "a.json").out.splitlines()[1] == "slowest stage 4 ms in both"

    def test_control_characters_stay_off_the_terminal(self, plimsoll):
        plimsoll.write("a.json", plan(whole("t\x1b[2J", 0)))
        plimsoll.write("b.json", plan(whole("t\x1b[2J", 1)))
        assert "\x1b" not in plimsoll.run("diff", "a.json", "b.json").out


class TestBadInput:
    def test_two_kinds(self, plimsoll):
        plimsoll.write("a.json", plan(whole("t", 0)))
        plimsoll.run("partition", "bert24-training", "-o", "b.json")
        error = plimsoll.run("diff", "a.json", "b.json", "--json", code=1).error
        assert "two plans of one kind" in error["remedy"]

    @pytest.mark.parametrize("name", ["mlperf-dlrm-dcnv2", "dgx-h100", "llama-3-8b"])
    def test_what_plans_are_of(self, plimsoll, name):
        plimsoll.write("a.json", plan(whole("t", 0)))
        assert plimsoll.run("diff", "a.json", name, "--json", code=1).error["place"] == name

    def test_a_file_that_holds_a_model(self, plimsoll):
        plimsoll.write("a.json", plan(whole("t", 0)))
        plimsoll.write("model.json", {"modules": [{"path": "", "tables": [constrained("t", "table_wise")]}]})
        assert "--model model.json" in plimsoll.run("diff", "a.json", "model.json", "--json", code=1).error["remedy"]

    def test_an_answer_without_a_plan(self, plimsoll):
        plimsoll.write("a.json", plan(whole("t", 0)))
        plimsoll.write("none.json", {"schema": "plimsoll.plan/1", "status": "limit"})
        assert plimsoll.run("diff", "a.json", "none.json", "--json", code=1).error["place"] == "none.json"

    def test_another_programs_plan_alone(self, plimsoll):
        plimsoll.write("a.json", plan(whole("t", 0)))
        plimsoll.write("foreign.json", {"m": {"t": {"sharding_type": "table_wise", "compute_kernel": "fused"}}})
        error = plimsoll.run("diff", "a.json", "foreign.json", "--json", code=1).error
        assert error["place"] == "--model" and "--on" in error["remedy"]

    def test_standard_input_once(self, plimsoll):
        assert "twice" in plimsoll.run("diff", "-", "-", "--json", code=1).error["message"]
