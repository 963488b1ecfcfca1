"""plimsoll completion: the scripts, in the shells themselves."""

import re
import shutil
import subprocess

import pytest
from program import Plimsoll


class Bash(Plimsoll):
    def __init__(self, path, folder):
        super().__init__(path, folder)
        self.write("completion", self.run("completion", "bash").out)

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
        assert done.stderr == ""
        return done.stdout.split()


class TestBash:
    @pytest.fixture
    def plimsoll(self, program_path, tmp_path):
        return Bash(program_path, tmp_path)

    def test_the_script_is_bash(self, plimsoll):
        subprocess.run(["bash", "-n", "completion"], cwd=plimsoll.folder, check=True)
        said = subprocess.run(
            ["bash", "-c", "source completion; complete -p plimsoll"],
            capture_output=True,
            text=True,
            cwd=plimsoll.folder,
            check=True,
        ).stdout
        assert "-F _plimsoll plimsoll" in said

    def test_commands(self, plimsoll):
        assert plimsoll.complete("sh") == ["shard"]
        assert plimsoll.complete("c") == ["checkpoint", "check", "convert", "completion"]
        assert "--version" in plimsoll.complete("--")

    def test_flags_of_the_command(self, plimsoll):
        assert plimsoll.complete("shard", "model.json", "--batch") == ["--batch-size"]
        assert plimsoll.complete("check", "--stri") == ["--strict", "--strict-numerics"]
        assert plimsoll.complete("shard", "--stri") == ["--strict-numerics"]

    @pytest.mark.parametrize("command", ["shard", "partition", "check", "convert", "models", "hardware", "schema"])
    def test_every_flag_that_help_names(self, plimsoll, command):
        text = plimsoll.run(command, "--help").out
        offered = plimsoll.complete(command, "--")
        for flag in re.findall(r"^  (?:-\w, )?(--[a-z-]+)", text, re.MULTILINE):
            assert flag in offered


class Zsh(Plimsoll):
    def complete(self, how, *words):
        self.write("_plimsoll", self.run("completion", "zsh").out)
        script = f"""
            compdef() {{ print "compdef $*" }}
            compadd() {{ shift; print -l -- "$@" }}
            _files() {{ }}
            words=(plimsoll {" ".join(words)})
            CURRENT={len(words) + 1}
            {how}
        """
        done = subprocess.run(["zsh", "-f", "-c", script], capture_output=True, text=True, cwd=self.folder, check=True)
        assert done.stderr == ""
        return done.stdout.split("\n")


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
class TestZsh:
    @pytest.fixture
    def plimsoll(self, program_path, tmp_path):
        return Zsh(program_path, tmp_path)

    def test_the_script_is_zsh(self, plimsoll):
        plimsoll.write("_plimsoll", plimsoll.run("completion", "zsh").out)
        subprocess.run(["zsh", "-n", "_plimsoll"], cwd=plimsoll.folder, check=True)

    def test_commands_and_flags(self, plimsoll):
        autoloaded = "fpath=(. $fpath); autoload -Uz _plimsoll; _plimsoll"
        assert "shard" in plimsoll.complete(autoloaded, "sh")
        assert "--batch-size" in plimsoll.complete(autoloaded, "shard", "--batch")
        assert "--strict" not in plimsoll.complete(autoloaded, "shard", "--")
        sourced = "source ./_plimsoll; _plimsoll"
        assert plimsoll.complete(sourced, "sh")[0] == "compdef _plimsoll plimsoll"
        assert "shard" in plimsoll.complete(sourced, "sh")
