"""Command lines that make no sense: the flag, what is wrong with it and what to write, exit code 1."""

import program
from program import ProgramTest, table

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
    ("--batch-size", "-5", "1"),
    ("--batch-size", "4k", "4k"),
    ("--batch-size", "1e3", "1e3"),
    ("--batch-size", "9223372036854775808", ""),
    ("--time-limit", "0", "5s"),
    ("--time-limit", "-1s", "5s"),
    ("--time-limit", "soon", "5s"),
    ("--time-limit", "5 parsec", "5s"),
    ("--time-limit", "nan", "5s"),
    ("--effort", "-1", "0"),
    ("--tolerance", "nan", "between 0 and 1"),
    ("--tolerance", "-0.1", "between 0 and 1"),
    ("--seed", "-1", "2^64"),
    ("--seed", "18446744073709551616", "2^64"),
    ("--color", "red", "auto"),
    ("--cost-model", "torchrec-1.6", "did you mean 'torchrec-1."),
    ("--optimizer", "adm", "adam"),
    ("--optimizer", "magic", "rowwise_adagrad"),
    ("--proposer", "greedy_dept", "did you mean 'greedy_depth'"),
    ("--proposer", "greedy_depth+", ""),
    ("--partitioner", "greedy", "memory_balanced"),
    ("--perf-model", "speed", "storage"),
    ("--search", "torchrek", "did you mean 'torchrec'"),
    ("--pipeline-type", "train", "train_base"),
    ("--reservation", "heuristic", "did you mean 'heuristical'"),
    ("--reservation", "heuristical:x", "'x'"),
    ("--reservation", "heuristical:1.5", "0 to 1"),
    ("--reservation", "heuristical:nan", "0 to 1"),
    ("--reservation", "fixed_absolute:much", "80GiB"),
    ("--dense-tensor-estimate", "much", "80GiB"),
    ("--hbm-cap", "-1", "80GiB"),
    ("--hbm-cap", "16EiB", "2^63"),
    ("--ddr-cap", "1.5 B", ""),
    ("--intra-host-bw", "5 parsec", "parsec"),
    ("--intra-host-bw", "0", ""),
    ("--inter-host-bw", "inf", ""),
    ("--local-world-size", "-2", ""),
    ("--local-world-size", "0", ""),
    ("--pod-size", "-1", ""),
    ("--pod-size", "9", ""),
]


class BadUsage(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write("model.json", {"tables": [table()]})

    def assert_refused(self, arguments, place, word):
        plain = [argument for argument in arguments if argument != "--json"]
        error = self.run_program(*arguments, *([] if "--json" in arguments else ["--json"]), code=1).error
        self.assertEqual(error.get("place", ""), place, error)
        self.assertIn(word, error["message"] + "; " + error.get("remedy", ""))
        text = self.run_program(*plain, code=1).err
        self.assertEqual(text.count("\n"), 1, text)

    def test_shard(self):
        for title, (arguments, place, word) in SHARD.items():
            with self.subTest(title):
                self.assert_refused(["shard", *arguments], place, word)

    def test_values_of_flags(self):
        for flag, value, word in FLAGS:
            with self.subTest(f"{flag} {value}"):
                self.assert_refused(["shard", "model.json", "--on", "4x40GiB", f"{flag}={value}"], flag, word)

    def test_values_that_do_not_go_together(self):
        for arguments, place in (
            (["--pod-size", "2", "--local-world-size", "2", "--cost-model", "torchrec-1.4"], "--on"),
            (["--reservation", "sku_aware:6GiB", "--cost-model", "torchrec-1.4"], "--reservation"),
        ):
            self.assert_refused(["shard", "model.json", "--on", "4x40GiB", *arguments], place, "")

    def test_commands(self):
        self.assert_refused(["shrad", "model.json", "--on", "4x40GiB"], "shrad", "did you mean 'shard'")
        self.assert_refused(["--versoin"], "--versoin", "did you mean '--version'")
        self.assert_refused(["models", "nothing"], "nothing", "known: ")
        self.assert_refused(["models", "a", "b"], "b", "")
        self.assert_refused(["hardware", "abacus"], "abacus", "known: ")
        self.assert_refused(["schema", "modle"], "modle", "did you mean 'model'")
        self.assert_refused(["completion"], "", "SHELL")
        self.assert_refused(["completion", "fish"], "SHELL", "zsh")
        self.assert_refused(["check", "model.json", "--on", "4x40GiB"], "", "PLAN")
        self.assert_refused(
            ["convert", "model.json", "plan.json", "--on", "4x40GiB", "--to", "xml"], "--to", "torchrec"
        )

    def test_no_command(self):
        self.assertIn("Subcommands:", self.run_help(code=1).err)
        self.assertEqual(self.run_program("--json", code=1).error["code"], "usage")

    def run_help(self, *arguments, code=0):
        # Help for somebody who gave no command is the one error text that does not begin with our name.
        done = program.subprocess.run([program.PROGRAM, *arguments], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, code)
        return program.Answer(done.returncode, done.stdout, done.stderr)

    def test_help(self):
        self.assertIn("Subcommands:", self.run_help("--help").out)
        for command in ("shard", "check", "convert", "models", "hardware", "schema", "completion"):
            answer = self.run_help(command, "--help")
            self.assertIn("Examples:\n  ", answer.out)
            self.assertEqual(answer.err, "")


if __name__ == "__main__":
    program.main()
