"""What a person sees: first screens, help, the manual page, and what is typed without a thought."""

import copy
import fcntl
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import termios
import unicodedata

import pytest
from program import Plimsoll, constrained, environment, table

PLANNING = [
    "shard",
    "checkpoint",
    "partition",
    "explain",
    "size",
    "whatif",
    "check",
    "convert",
    "replan",
    "diff",
    "robust",
]
PLANNING += ["trace", "report"]
COMMANDS = [*PLANNING, "models", "hardware", "schema", "completion"]
ON = ("--on", "2x8GiB")


def at_terminal(plimsoll, columns, *arguments):
    """What stands on a terminal of so many columns after a command."""
    main, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    command = [plimsoll.path, *arguments, "--color", "never"]
    with subprocess.Popen(command, cwd=plimsoll.folder, env=environment(), stdout=other, stderr=other) as run:
        os.close(other)
        text = b""
        try:
            while part := os.read(main, 4096):
                text += part
        except OSError:  # Linux tells the end of a terminal so
            pass
    os.close(main)
    shown = re.sub(r"\x1b\[K", "", text.decode()).replace("\r\n", "\n")
    return run.returncode, [line.rpartition("\r")[2] for line in shown.splitlines()]


@pytest.fixture
def plimsoll(program_path, tmp_path):
    made = Plimsoll(program_path, tmp_path)
    made.write("model.json", {"name": "small", "tables": [table(count=12)]})
    return made


class TestFirstScreens:
    def test_shard_begins_with_what_was_planned_and_what_was_gained(self, plimsoll):
        lines = plimsoll.run(
            "shard", "mlperf-dlrm-dcnv2", "--on", "dgx-h100:2", "--batch-size", "4096"
        ).out.splitlines()
        title = "mlperf-dlrm-dcnv2 on 2 x dgx-h100 (16 GPUs), 4,096 samples per GPU, TorchRec 1.9 cost model"
        assert lines[:2] == [title, ""]
        assert re.fullmatch(r"  slowest rank   [\d.]+ ms +TorchRec's planner: [\d.]+ ms \([\d.]+ % slower\)", lines[2])
        assert re.fullmatch(r"  predicted step [\d.]+ ms +TorchRec's planner: [\d.]+ ms \([\d.]+ % slower\)", lines[3])
        bound = r"(this plan is at most [\d.]+ % above it|no plan is better) \((verified|proved)\)"
        assert re.fullmatch(rf"  best step      [\d.]+ ms +{bound}", lines[4])
        among = r"plans whose slowest rank takes at most [\d.]+ ms \(--objective time: all plans\)"
        assert re.fullmatch(rf"  among          {among}", lines[5])
        assert re.fullmatch(r"  memory         [\d.]+ GiB +of [\d.]+ GiB usable on rank \d+, the fullest", lines[6])
        assert re.fullmatch(r"  found in       [\d.]+ s", lines[7])
        assert len(lines) < 17

    def test_a_best_step_of_all_plans_names_no_others(self, plimsoll):
        asked = ("shard", "mlperf-dlrm-dcnv2", "--on", "dgx-h100:2", "--batch-size", "4096", "--objective", "time")
        assert "among" not in plimsoll.run(*asked).out

    def test_equal_rows_are_folded_unless_all_are_asked_for(self, plimsoll):
        asked = ("checkpoint", "llama-3-8b", "--budget", "70%", "-q")
        short = plimsoll.run(*asked).out
        assert re.match(r"Llama-3-8B|llama-3-8b: peak 55\.28 GiB of 55\.29 GiB allowed", short)
        assert re.search(
            r"(?m)^  layers\.0-10\.mlp +recompute 12 of 14 operators +448 MiB each +0\.3506 ms each$", short
        )
        assert len(short.splitlines()) < 14
        long = plimsoll.run(*asked, "-v").out
        assert "layers.7.mlp" in long
        assert len(long.splitlines()) > 60

    def test_a_shard_row_names_its_tables_in_ranges(self, plimsoll):
        text = plimsoll.run("shard", "model.json", *ON, "--search", "torchrec").out
        assert re.search(r"(?m)^ +12 .*\bt_0 \.\. t_11$", text), text
        assert "t_5" in plimsoll.run("shard", "model.json", *ON, "--search", "torchrec", "-v").out
        named = [{**table(f"t{i:03}"), "feature_names": [f"f{i}"]} for i in range(7, 13)]
        plimsoll.write("padded.json", {"name": "padded", "tables": named})
        text = plimsoll.run("shard", "padded.json", *ON, "--search", "torchrec").out
        assert re.search(r"(?m)^ +6 .*\bt007 \.\. t012$", text), text

    def test_many_findings_of_one_kind_are_one_line(self, plimsoll):
        grids = [constrained(f"t{i}", "grid_shard", rows=100000, columns=256) | {"pooling": "mean"} for i in range(6)]
        plimsoll.write("model.json", {"tables": grids})
        on = ("--on", "16x40GiB")
        plimsoll.run("shard", "model.json", *on, "-o", "plan.json")
        asked = ("check", "model.json", "plan.json", *on)
        folded = [line for line in plimsoll.run(*asked).out.splitlines() if line.startswith("hazard")]
        every = [line for line in plimsoll.run(*asked, "-v").out.splitlines() if line.startswith("hazard")]
        assert len(every) == 6
        assert folded == [every[0] + " (and 5 more like it; -v prints them)"]

    def test_check_begins_with_the_verdict(self, plimsoll):
        plimsoll.run("shard", "model.json", *ON, "-o", "plan.json")
        answer = json.loads(plimsoll.read("plan.json"))
        assert plimsoll.run("check", "model.json", "plan.json", *ON).out.startswith("right: no violations")
        answer["plan"]["tables"].pop()
        plimsoll.write("plan.json", answer)
        broken = plimsoll.run("check", "model.json", "plan.json", *ON, code=5).out
        assert broken.startswith("wrong: ")
        assert "\nviolation missing_table" in broken

    @pytest.mark.parametrize("columns", [60, 80, 140])
    def test_tables_fit_the_terminal(self, plimsoll, columns):
        plimsoll.write("model.json", {"tables": [table(name="a_long_name_" * 6 + str(i) * 9) for i in range(4)]})
        for arguments in (("shard", "model.json", *ON, "-q"), ("shard", "model.json", *ON, "-vq"), ("models",)):
            text = subprocess.run(
                [plimsoll.path, *arguments],
                cwd=plimsoll.folder,
                env=environment(COLUMNS=str(columns)),
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            assert max(map(len, text.splitlines())) <= columns

    def test_escape_codes_are_shown_and_wide_characters_aligned(self, plimsoll):
        names = ["\x1b[31mred", "表格一", "plain"]
        plimsoll.write("model.json", {"tables": [table(name=name) for name in names]})
        text = plimsoll.run("shard", "model.json", *ON, "-v", "--search", "torchrec").out
        assert "\x1b" not in text
        assert r"\x1b[31mred" in text
        starts = set()
        for name in ("表格一", "plain"):
            row = next(line for line in text.splitlines() if name in line)
            before = row[: re.search(r"[a-z_]+_(wise|parallel)|grid_shard", row).start()]
            starts.add(sum(2 if unicodedata.east_asian_width(c) == "W" else 1 for c in before))
        assert len(starts) == 1

    @pytest.mark.parametrize("columns", [60, 80])
    def test_colors_take_no_columns(self, plimsoll, columns):
        plimsoll.run("shard", "model.json", *ON, "-o", "plan.json")
        check = ("check", "model.json", "plan.json", *ON, "--color")
        plain, colored = (plimsoll.run(*check, color, COLUMNS=str(columns)).out for color in ("never", "always"))
        assert plain.count("\n") > 2 and "\x1b[32m" in colored
        assert re.sub(r"\x1b\[\d*m", "", colored) == plain

    def test_the_statistics_may_go_to_a_file(self, plimsoll):
        answer = plimsoll.run("shard", "model.json", *ON, "--stats-file", "stats.txt")
        assert "--- Planner Statistics ---" in plimsoll.read("stats.txt")
        assert "Planner Statistics" not in answer.out
        plimsoll.run("shard", "model.json", *ON, "--stats-file", "no/such/folder.txt", code=1)

    @pytest.mark.parametrize("command", [("size",), ("whatif", "--ranks", "2")])
    def test_times_of_other_machines_say_how_they_differ_from_shards(self, plimsoll, command):
        name, *flags = command
        asked = (name, "model.json", "--on", "dgx-h100", *flags)
        assert "`plimsoll shard --objective time` predicts" in plimsoll.run(*asked).out
        assert "--objective time`" not in plimsoll.run(*asked, "--objective", "rating").out

    def test_the_details_fit_the_terminal_too(self, plimsoll):
        for arguments in (
            ("partition", "bert24-training", "-v"),
            ("partition", "bert-l3-inference", "-v"),
            ("partition", "bert24-training", "--objective", "pipeline", "--microbatches", "16", "-v"),
            ("checkpoint", "llama-3-8b", "--budget", "70%", "-v"),
        ):
            text = subprocess.run(
                [plimsoll.path, *arguments, "-q"],
                cwd=plimsoll.folder,
                env=environment(COLUMNS="80"),
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            assert max(map(len, text.splitlines())) <= 80

    def test_at_a_terminal_nothing_is_wider_and_nothing_said_twice(self, plimsoll):
        asked = ("shard", "mlperf-dlrm-dcnv2", "--on", "8x28GiB", "--ddr-cap", "0", "--batch-size", "4096")
        code, lines = at_terminal(plimsoll, 70, *asked)
        assert code == 2 and max(map(len, lines)) <= 70
        said = " ".join(" ".join(lines).split())
        assert said.count("no rank has room for table ebc.cat_2") == 1
        assert "these are the fewest bytes" in said
        plimsoll.run("shard", "mlperf-dlrm-dcnv2", "--on", "dgx-h100:2", "-o", "plan.json")
        code, lines = at_terminal(plimsoll, 60, "check", "mlperf-dlrm-dcnv2", "plan.json", "--on", "dgx-h100:1")
        assert code == 5 and max(map(len, lines)) <= 60

    def test_colours_are_not_shown_as_escape_codes(self, plimsoll):
        plimsoll.run("shard", "model.json", *ON, "-o", "plan.json")
        plimsoll.run("shard", "model.json", "--on", "4x8GiB", "-o", "other.json")
        for other in ("plan.json", "other.json"):
            text = plimsoll.run("diff", "plan.json", other, "--color", "always").out
            assert "\x1b[1m" in text and "\\x1b" not in text

    def test_numbered_nodes_are_folded(self, plimsoll):
        assert re.search(r"(?m) 1-8, 33-40$", plimsoll.run("partition", "bert24-training").out)

    def test_partition_says_what_it_counts_and_names_layers(self, plimsoll):
        text = plimsoll.run("partition", "bert24-training").out
        assert "  counted        compute and transfers; memory is that of" in text
        assert re.search(r"(?m)^  stage  device .* layers$", text)


class TestHelp:
    @pytest.mark.parametrize("command", COMMANDS)
    def test_is_grouped_and_fits_100_columns(self, plimsoll, command):
        text = plimsoll.run(command, "--help").out
        assert max(map(len, text.splitlines())) <= 100
        groups = re.findall(r"(?m)^([A-Z][^:\n]*):$", text)
        assert groups[0] == "Common options"
        # Values are named whole: "--optimizer NAME[:TABLES]".
        assert text.count("[") == text.count("]")

    @pytest.mark.parametrize("flag", ["--seed=7", "-v", "--color=never"])
    def test_a_flag_that_does_nothing_is_not_taken(self, plimsoll, flag):
        for command in ("models", "hardware", "schema"):
            assert plimsoll.run(command, flag, "--json", code=1).error["code"] == "usage"
        for command in ("check", "convert", "diff", "trace", "report"):
            assert "--seed" not in plimsoll.run(command, "--help").out
        for command in ("convert", "report"):
            assert "--verbose" not in plimsoll.run(command, "--help").out

    @pytest.mark.parametrize("command", PLANNING)
    def test_every_group_has_an_example_that_is_understood(self, plimsoll, command):
        text = plimsoll.run(command, "--help").out
        groups = re.findall(r"(?m)^([A-Z][^:\n]*):\n((?:  .*\n)+)", text)
        assert len(groups) >= 2
        for group, options in groups:
            assert options.count("  Example: plimsoll ") == 1, group
            words = options.partition("  Example: ")[2].split()
            assert words[:2] == ["plimsoll", command]
            flags = {word.partition("=")[0] for word in words if word.startswith("--")}
            assert flags <= set(re.findall(r"--[a-z-]+", text)), group

    def test_the_manual_page(self, plimsoll):
        page = plimsoll.run("manual").out
        assert page.startswith(".TH PLIMSOLL 1")
        for command in COMMANDS:
            assert f".SH PLIMSOLL {command}" in page
        assert r"\-\-batch\-size N" in page
        if shutil.which("mandoc"):
            subprocess.run(["mandoc", "-Tlint", "-Wsyserr"], input=page, text=True, check=True)


class TestFish:
    def test_models_flags_and_values(self, plimsoll):
        script = plimsoll.run("completion", "fish").out
        assert "mlperf-dlrm-dcnv2" in script
        assert "-l objective -x -a 'rating step time'" in script
        if shutil.which("fish"):
            subprocess.run(["fish", "-n", "-c", script], check=True)


class TestSmallTruths:
    @pytest.mark.parametrize(
        ("flag", "value"),
        [("--hbm-cap", "80"), ("--ddr-cap", "1e9"), ("--dense-tensor-estimate", "5"), ("--reservation", "sku_aware:6")],
    )
    def test_sizes_need_a_unit(self, plimsoll, flag, value):
        error = plimsoll.run("shard", "model.json", *ON, flag, value, "--json", code=1).error
        assert "without a unit" in error["message"]

    def test_sizes_of_other_commands_need_one_too(self, plimsoll):
        for arguments in (
            ("checkpoint", "llama-3-8b", "--budget", "70"),
            ("checkpoint", "llama-3-8b", "--budget", "70%", "--optimizer-bytes", "12"),
            ("partition", "bert24-inference", "--memory", "16"),
            ("partition", "bert24-inference", "--memory", "accelerator=16"),
        ):
            assert "without a unit" in str(plimsoll.run(*arguments, "--json", code=1).error)
        plimsoll.write("machine.json", {"world_size": 2, "hbm_cap": "80"})
        assert (
            "without a unit"
            in plimsoll.run("shard", "model.json", "--on", "machine.json", "--json", code=1).error["message"]
        )

    def test_40g_5m_and_4k_are_read(self, plimsoll):
        asked = ("shard", "model.json", "--on", "2x40G", "--time-limit", "5m", "--json")
        for text, number in (("4k", "4000"), ("4Ki", "4096"), ("64", "64")):
            answer = plimsoll.run(*asked, "--batch-size", text).document
            assert answer["provenance"]["options"]["batch_size"] == number
            assert (
                set(answer["bill"]["bytes"]["capacity_hbm"]) <= {40 * 10**9}
                if "capacity_hbm" in answer["bill"]
                else True
            )

    def test_a_models_own_batch_size_counts_unless_the_flag_is_given(self, plimsoll):
        plimsoll.write("model.json", {"batch_size": 2048, "tables": [table()]})
        own = plimsoll.run("shard", "model.json", *ON, "-o", "plan.json").out
        assert "2,048 samples per GPU (the model's own)" in own
        assert json.loads(plimsoll.read("plan.json"))["provenance"]["options"]["batch_size"] == "2048"
        given = plimsoll.run("shard", "model.json", *ON, "--batch-size", "64").out
        assert "64 samples per GPU, " in given
        plimsoll.run("convert", "model.json", "plan.json", *ON, "--to", "torchrec", "-o", "torchrec.json")
        foreign = plimsoll.run("check", "model.json", "torchrec.json", *ON).out
        assert "at 2,048 samples per rank (the model's own)" in " ".join(foreign.split())

    def test_two_pooling_factors_for_one_feature_are_an_error(self, plimsoll):
        wrong = table(feature_names=["f"], constraints={"pooling_factors": [1, 12.5]})
        plimsoll.write("model.json", {"tables": [wrong]})
        error = plimsoll.run("shard", "model.json", *ON, "--json", code=1).error
        assert (error["code"], error["place"]) == ("conflict", "model.json")
        assert "2 pooling factors for the 1 feature(s) of table" in error["message"]
        right = copy.deepcopy(wrong) | {"feature_names": ["f", "g"]}
        plimsoll.write("model.json", {"tables": [right]})
        plimsoll.run("shard", "model.json", *ON)

    @pytest.mark.parametrize(
        ("arguments", "what", "remedy"),
        [
            (("shard", "llama-3-8b", *ON), "module statistics", "plimsoll checkpoint llama-3-8b"),
            (("shard", "bert24-training", *ON), "an operator graph", "plimsoll partition bert24-training"),
            (("shard", "dgx-h100:2", *ON), "hardware", "--on dgx-h100:2"),
            (
                ("shard", "model.json", "--on", "mlperf-dlrm-dcnv2"),
                "an embedding model",
                "plimsoll shard mlperf-dlrm-dcnv2",
            ),
            (("checkpoint", "mlperf-dlrm-dcnv2"), "an embedding model", "plimsoll shard mlperf-dlrm-dcnv2"),
            (("partition", "llama-3-8b"), "module statistics", "plimsoll checkpoint llama-3-8b"),
        ],
    )
    def test_a_name_of_another_kind_says_which_command_takes_it(self, plimsoll, arguments, what, remedy):
        error = plimsoll.run(*arguments, "--json", code=1).error
        assert error["message"] == f"this is {what}"
        assert remedy in error["remedy"]

    def test_swapped_arguments_are_recognised(self, plimsoll):
        plimsoll.run("shard", "model.json", *ON, "-o", "plan.json")
        for command in ("check", "convert"):
            error = plimsoll.run(command, "plan.json", "model.json", *ON, "--json", code=1).error
            assert "swapped" in error["message"]
            assert "model.json plan.json" in error["remedy"]
        error = plimsoll.run("check", "plan.json", "mlperf-dlrm-dcnv2", *ON, "--json", code=1).error
        assert "swapped" in error["message"]
        error = plimsoll.run("explain", "plan.json", "model.json", *ON, "--json", code=1).error
        assert "swapped" in error["message"]

    def test_a_document_of_another_kind_says_which_command_takes_it(self, plimsoll):
        plimsoll.run("shard", "model.json", *ON, "-o", "plan.json")
        for command, remedy in (("shard", "this is a plan"), ("checkpoint", "this is a plan")):
            flags = ON if command == "shard" else ()
            error = plimsoll.run(command, "plan.json", *flags, "--json", code=1).error
            assert 'found "plimsoll.plan/1"' in error["message"]
            assert remedy in error["remedy"] and "`plimsoll check`" in error["remedy"]
        error = plimsoll.run("partition", "plan.json", "--json", code=1).error
        assert error["message"] == '"plimsoll.plan/1" is not an operator graph'
        assert "`plimsoll check`" in error["remedy"]
        error = plimsoll.run("check", "llama-3-8b", "plan.json", *ON, "--json", code=1).error
        assert error["message"] == "this is module statistics, and plan.json is a plan of an embedding model"

    def test_a_document_without_a_schema_is_known_by_its_keys(self, plimsoll):
        documents = {
            "stats.json": ({"name": "s", "mod_order": {}}, "these are module statistics"),
            "tables.json": ({"name": "m", "tables": []}, "this is an embedding model"),
            "graph.json": ({"maxFPGAs": 2, "nodes": []}, "this is an operator graph"),
        }
        takers = {"shard": "tables.json", "checkpoint": "stats.json", "partition": "graph.json"}
        for name, (document, remedy) in documents.items():
            plimsoll.write(name, document)
            for command, own in takers.items():
                if name == own:
                    continue
                flags = {"shard": ON, "checkpoint": ("--budget", "70%")}.get(command, ())
                error = plimsoll.run(command, name, *flags, "--json", code=1).error
                assert error["remedy"].startswith(remedy), (command, name, error)
        plimsoll.write("broken.json", {"nodes": []})
        assert "give a plimsoll-fx-graph" in plimsoll.run("partition", "broken.json", "--json", code=1).error["remedy"]

    def test_diff_says_at_which_batch_size_it_rates_another_programs_plan(self, plimsoll):
        plimsoll.run("shard", "model.json", *ON, "--batch-size", "2048", "-o", "plan.json")
        plimsoll.run("convert", "model.json", "plan.json", *ON, "--to", "torchrec", "-o", "torchrec.json")
        asked = ("--model", "model.json", *ON)
        for plans in (("plan.json", "torchrec.json"), ("torchrec.json", "plan.json")):
            text = plimsoll.run("diff", *plans, *asked).out
            assert "torchrec.json is rated at 2,048 samples per rank (as the other plan)" in text
            assert re.search(r"(?m)^  rating .* as before$", text), text
        text = plimsoll.run("diff", "torchrec.json", "torchrec.json", *asked).out
        assert text.count("torchrec.json is rated at 512 samples per rank (the default)") == 2
        text = plimsoll.run("diff", "plan.json", "torchrec.json", *asked, "--batch-size", "64").out
        assert "torchrec.json is rated at 64 samples per rank\n" in text

    def test_a_saved_plan_is_named_in_the_hint(self, plimsoll):
        assert "-o plan.json to save the plan" in plimsoll.run("shard", "model.json", *ON).out
        saved = plimsoll.run("shard", "model.json", *ON, "-o", "mine.json").out
        assert "`plimsoll report mine.json -o plan.html`" in saved and "to save the plan" not in saved

    def test_the_frontier_states_what_one_gib_more_saves(self, plimsoll):
        rows = re.findall(
            r"(?m)^ *([\d.]+) GiB +\d+ +([\d.]+) +[\d.]+ % +([\d.-]+)$", plimsoll.run("checkpoint", "llama-3-8b").out
        )
        assert len(rows) > 20
        for gib, _, saves in rows[:-1]:
            assert 0 < float(saves) < 10, gib
        assert float(rows[-1][2]) == 0  # nothing is recomputed there

    def test_hardware_prints_a_topology_to_edit(self, plimsoll):
        plimsoll.write("machine.json", plimsoll.run("hardware", "dgx-h100:2", "--topology").out)
        named = plimsoll.run("shard", "model.json", "--on", "dgx-h100:2", "--json").document
        file = plimsoll.run("shard", "model.json", "--on", "machine.json", "--json").document
        assert file["rating"] == named["rating"]
        assert file["plan"] == named["plan"]

    def test_documents_may_name_their_schema_for_editors(self, plimsoll):
        plimsoll.write("model.json", {"$schema": "model.schema.json", "tables": [table()]})
        plimsoll.run("shard", "model.json", *ON)
        plimsoll.write("model.json", {"tables": [table() | {"$schema": "x"}]})
        plimsoll.run("shard", "model.json", *ON, code=1)

    def test_yaml_is_named(self, plimsoll):
        plimsoll.write("model.yaml", "tables:\n- name: t\n")
        error = plimsoll.run("shard", "model.yaml", *ON, "--json", code=1).error
        assert "YAML is not read" in error["remedy"]

    def test_a_policy_of_checkpointing_has_no_other_form(self, plimsoll):
        plimsoll.run("checkpoint", "llama-3-8b", "--budget", "100%", "-o", "policy.json")
        error = plimsoll.run("convert", "llama-3-8b", "policy.json", "--json", code=1).error
        assert "checkpointing" in error["message"]
        assert "plimsoll.checkpointing" in error["remedy"]

    def test_convert_refuses_what_check_refuses_unless_it_is_forced(self, plimsoll):
        plimsoll.run("shard", "model.json", *ON, "-o", "plan.json")
        answer = json.loads(plimsoll.read("plan.json"))
        dropped = answer["plan"]["tables"].pop()["table"]
        plimsoll.write("plan.json", answer)
        asked = ("convert", "model.json", "plan.json", *ON, "--to", "torchrec")
        error = plimsoll.run(*asked, "--json", code=1).error
        assert error["code"] == "conflict"
        assert "--force" in error["remedy"]
        plan = json.loads(plimsoll.run(*asked, "--force").out)
        assert not any(dropped in tables for tables in plan.values())
        assert os.path.exists(plimsoll.folder / "plan.json")
