"""Command lines that make no sense: the flag, what is wrong with it and what to write, exit code 1."""

import re
import subprocess

import program
import pytest
from program import Plimsoll, table

# What is wrong: arguments after `shard`, place, a word of message or remedy.
SHARD = {
    "no model": ([], "", "MODEL"),
    "no hardware": (["model.json"], "--on", "no hardware"),
    "an empty hardware": (["model.json", "--on", ""], "--on", "dgx-h100:2"),
    "an unknown flag": (
        ["model.json", "--on", "2x40GiB", "--batchsize", "4"],
        "--batchsize",
        "did you mean '--batch-size'",
    ),
    "an argument too many": (["model.json", "more", "--on", "2x40GiB"], "more", "--help"),
    "a flag without its value": (["--json", "model.json", "--on"], "", "--on"),
    "an unknown model": (
        ["mlperf-dlrm-dcnv", "--on", "2x40GiB"],
        "mlperf-dlrm-dcnv",
        "did you mean 'mlperf-dlrm-dcnv2'",
    ),
    "a name too long for a file": (["a" * 5000, "--on", "2x40GiB"], "a" * 5000, "known: "),
    "an unknown node": (["model.json", "--on", "dgx-h10:2"], "--on", "did you mean 'dgx-h100'"),
    "an unknown accelerator": (["model.json", "--on", "4xh1000"], "--on", ""),
    "no ranks": (["model.json", "--on", "0x40GiB"], "--on", "0"),
    "too many ranks": (["model.json", "--on", "9999999x40GiB"], "--on", "1048576"),
    "no memory": (["model.json", "--on", "4x"], "--on", ""),
    "memory without a unit that is": (["model.json", "--on", "4x40Gib"], "--on", ""),
}

# Flags of `shard` on a model and hardware that are right: flag, value, a word of message or remedy.
FLAGS = [
    ("--batch-size", "0", "1"),
    ("--batch-size", "-5", "negative"),
    ("--batch-size", "4kB", "4kB"),
    ("--batch-size", "1e-3", "1e-3"),
    ("--batch-size", "9223372036854775808", ""),
    ("--time-limit", "0", "5s"),
    ("--time-limit", "-1s", "5s"),
    ("--time-limit", "soon", "5s"),
    ("--time-limit", "5 parsec", "5s"),
    ("--time-limit", "nan", "5s"),
    ("--effort", "-1", "0"),
    ("--tolerance", "nan", "between 0 and 1"),
    ("--tolerance", "-0.1", "between 0 and 1"),
    ("--tolerance", "1%", "'1%' is not a number"),
    ("--effort", "1e9", "'1e9' is not a number in the range 0 to"),
    ("--objective", "ratng", "'ratng' is not supported; did you mean 'rating'?"),
    ("--widths", "some", "'some' is not supported; known: default, all"),
    ("--seed", "-1", "2^64"),
    ("--seed", "18446744073709551616", "2^64"),
    ("--color", "red", "auto"),
    ("--cost-model", "torchrec-1.6", "did you mean 'torchrec-1."),
    ("--optimizer", "adm", "adam"),
    ("--optimizer", "magic", "rowwise_adagrad"),
    ("--proposer", "greedy_dept", "did you mean 'greedy_depth'"),
    ("--proposer", "greedy_depth+", ""),
    ("--partitioner", "greedy", "did you mean 'greedy_perf' or"),
    ("--perf-model", "speed", "storage"),
    ("--search", "torchrek", "did you mean 'torchrec'"),
    ("--pipeline-type", "train", "train_base"),
    ("--reservation", "heuristic", "did you mean 'heuristical'"),
    ("--reservation", "heuristical:x", "'x'"),
    ("--reservation", "heuristical:1.5", "0 to 1"),
    ("--reservation", "heuristical:nan", "0 to 1"),
    ("--reservation", "fixed_absolute:much", "80GiB"),
    ("--dense-tensor-estimate", "much", "80GiB"),
    ("--parameter-multiplier", "-1", "at least 0"),
    ("--parameter-multiplier", "nan", "at least 0"),
    ("--parameter-multiplier", "six", "number"),
    ("--hbm-cap", "-1", "80GiB"),
    ("--hbm-cap", "80", "'80' is a size without a unit; write 80GiB"),
    ("--hbm-cap", "16EiB", "2^63"),
    ("--ddr-cap", "1.5 B", ""),
    ("--host-memory", "much", "80GiB"),
    ("--host-memory", "-8", "80GiB"),
    ("--intra-host-bw", "5 parsec", "parsec"),
    ("--intra-host-bw", "0", ""),
    ("--intra-host-bw", "600", "'600' is a bandwidth without a unit; write 600GB/s"),
    ("--inter-host-bw", "inf", ""),
    ("--local-world-size", "-2", ""),
    ("--local-world-size", "0", ""),
    ("--pod-size", "-1", ""),
    ("--pod-size", "9", ""),
]


class BadUsage(Plimsoll):
    def __init__(self, path, folder):
        super().__init__(path, folder)
        self.write("model.json", {"tables": [table()]})

    def assert_refused(self, arguments, place, word):
        plain = [argument for argument in arguments if argument != "--json"]
        error = self.run(*arguments, *([] if "--json" in arguments else ["--json"]), code=1).error
        assert error.get("place", "") == place, error
        assert word in error["message"] + "; " + error.get("remedy", "")
        text = self.run(*plain, code=1).err
        assert text.count("\n") == 1, text

    def run_help(self, *arguments, code=0):
        # Help for somebody who gave no command is the one error text that does not begin with our name.
        done = subprocess.run([self.path, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == code
        return program.Answer(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def plimsoll(program_path, tmp_path):
    return BadUsage(program_path, tmp_path)


@pytest.mark.parametrize(("arguments", "place", "word"), SHARD.values(), ids=SHARD)
def test_shard(plimsoll, arguments, place, word):
    plimsoll.assert_refused(["shard", *arguments], place, word)


@pytest.mark.parametrize(("flag", "value", "word"), FLAGS)
def test_values_of_flags(plimsoll, flag, value, word):
    plimsoll.assert_refused(["shard", "model.json", "--on", "4x40GiB", f"{flag}={value}"], flag, word)


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (["--pod-size", "2", "--local-world-size", "2", "--cost-model", "torchrec-1.4"], "--on"),
        (["--reservation", "sku_aware:6GiB", "--cost-model", "torchrec-1.4"], "--reservation"),
        (["--reservation", "fixed_percentage", "--parameter-multiplier", "2"], "--parameter-multiplier"),
    ],
)
def test_values_that_do_not_go_together(plimsoll, arguments, place):
    plimsoll.assert_refused(["shard", "model.json", "--on", "4x40GiB", *arguments], place, "")


@pytest.mark.parametrize(
    ("arguments", "place", "word"),
    [
        (["shrad", "model.json", "--on", "4x40GiB"], "shrad", "did you mean 'shard'"),
        (["--versoin"], "--versoin", "did you mean '--version'"),
        (["models", "nothing"], "nothing", "known: "),
        (["models", "a", "b"], "b", ""),
        (["hardware", "abacus"], "abacus", "known: "),
        (["schema", "modle"], "modle", "did you mean 'model'"),
        (["completion"], "", "SHELL"),
        (["completion", "tcsh"], "SHELL", "zsh"),
        (["check", "model.json", "--on", "4x40GiB"], "", "PLAN"),
        (["convert", "model.json", "plan.json", "--on", "4x40GiB", "--to", "xml"], "--to", "torchrec"),
        (["size", "model.json", "--on", "dgx-h100:2"], "--on", "give the kind alone: --on dgx-h100"),
        (["whatif", "model.json", "--on", "8x80GiB", "--ranks", "8:16"], "--on", "give the kind alone: --on 80GiB"),
        (["diff", "a.json", "b.json", "model.json"], "model.json", "--model model.json"),
        (["size", "model.json", "--on", "dgx-h100", "--within", "5"], "--within", "write 5ms or 5s"),
        (["check", "mlperf-dlrm-dcnv2", "model.json", "--on", "4x40GiB"], "model.json", "this is not a plan"),
        (["help", "shrad"], "shrad", "did you mean 'shard'?"),
    ],
)
def test_commands(plimsoll, arguments, place, word):
    plimsoll.assert_refused(arguments, place, word)


def test_help_and_version_as_words(plimsoll):
    assert plimsoll.run_help("help").out == plimsoll.run_help("--help").out
    assert plimsoll.run_help("help", "size").out == plimsoll.run_help("size", "--help").out
    assert plimsoll.run_help("version").out == plimsoll.run_help("--version").out


def test_no_command(plimsoll):
    assert "Commands:" in plimsoll.run_help(code=1).err
    assert plimsoll.run("--json", code=1).error["code"] == "usage"


@pytest.mark.parametrize("command", ["shard", "check", "convert", "models", "hardware", "schema", "completion"])
def test_help(plimsoll, command):
    assert "Commands:" in plimsoll.run_help("--help").out
    answer = plimsoll.run_help(command, "--help")
    assert re.search(r"  Example: plimsoll |Examples:\n  \w", answer.out)
    assert max(map(len, answer.out.splitlines())) <= 100
    assert answer.err == ""
