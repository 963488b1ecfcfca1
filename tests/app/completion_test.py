"""plimsoll completion: the scripts, in the shells themselves."""

import re
import shutil
import subprocess
import unittest

import program
from program import ProgramTest


class Bash(ProgramTest):
    def complete(self, *words):
        """What bash offers for the last of these words."""
        script = """
            source completion
            COMP_WORDS=("$@")
            COMP_CWORD=$(($# - 1))
            _plimsoll
            printf '%s\\n' "${COMPREPLY[@]}"
        """
        done = subprocess.run(
            ["bash", "-c", script, "bash", "plimsoll", *words],
            capture_output=True,
            text=True,
            cwd=self.folder,
            check=True,
        )
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def setUp(self):
        super().setUp()
        self.write("completion", self.run_program("completion", "bash").out)

    def test_the_script_is_bash(self):
        subprocess.run(["bash", "-n", "completion"], cwd=self.folder, check=True)
        said = subprocess.run(
            ["bash", "-c", "source completion; complete -p plimsoll"],
            capture_output=True,
            text=True,
            cwd=self.folder,
            check=True,
        ).stdout
        self.assertIn("-F _plimsoll plimsoll", said)

    def test_commands(self):
        self.assertEqual(self.complete("sh"), ["shard"])
        self.assertEqual(self.complete("c"), ["checkpoint", "check", "convert", "completion"])
        self.assertIn("--version", self.complete("--"))

    def test_flags_of_the_command(self):
        self.assertEqual(self.complete("shard", "model.json", "--batch"), ["--batch-size"])
        self.assertEqual(self.complete("check", "--stri"), ["--strict", "--strict-numerics"])
        self.assertEqual(self.complete("shard", "--stri"), ["--strict-numerics"])

    def test_every_flag_that_help_names(self):
        for command in ("shard", "partition", "check", "convert", "models", "hardware", "schema"):
            text = self.run_program(command, "--help").out
            offered = self.complete(command, "--")
            for flag in re.findall(r"^  (?:-\w,)?(--[a-z-]+)", text, re.MULTILINE):
                self.assertIn(flag, offered)


@unittest.skipIf(shutil.which("zsh") is None, "zsh is not installed")
class Zsh(ProgramTest):
    def test_the_script_is_zsh(self):
        self.write("_plimsoll", self.run_program("completion", "zsh").out)
        subprocess.run(["zsh", "-n", "_plimsoll"], cwd=self.folder, check=True)

    def complete(self, how, *words):
        self.write("_plimsoll", self.run_program("completion", "zsh").out)
        script = f"""
            compdef() {{ print "compdef $*" }}
            compadd() {{ shift; print -l -- "$@" }}
            _files() {{ }}
            words=(plimsoll {" ".join(words)})
            CURRENT={len(words) + 1}
            {how}
        """
        done = subprocess.run(["zsh", "-f", "-c", script], capture_output=True, text=True, cwd=self.folder, check=True)
        self.assertEqual(done.stderr, "")
        return done.stdout.split("\n")

    def test_commands_and_flags(self):
        autoloaded = "fpath=(. $fpath); autoload -Uz _plimsoll; _plimsoll"
        self.assertIn("shard", self.complete(autoloaded, "sh"))
        self.assertIn("--batch-size", self.complete(autoloaded, "shard", "--batch"))
        self.assertNotIn("--strict", self.complete(autoloaded, "shard", "--"))
        sourced = "source ./_plimsoll; _plimsoll"
        self.assertEqual(self.complete(sourced, "sh")[0], "compdef _plimsoll plimsoll")
        self.assertIn("shard", self.complete(sourced, "sh"))


if __name__ == "__main__":
    program.main()
