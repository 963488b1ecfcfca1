"""plimsoll completion: the scripts, in the shells themselves."""

import os
import pty
import re
import shutil
import subprocess

import pytest
from program import Plimsoll, environment


class Terminal:
    """A shell at a terminal, where keys are pressed."""

    def __init__(self, command, folder):
        pid, self.file = pty.fork()
        if pid == 0:
            os.chdir(folder)
            os.execvpe(command[0], command, environment(PS1="", PS2="", TERM="dumb", COLUMNS="400", HOME=str(folder)))
        self.pid = pid

    def run(self, line):
        """What a line prints, after it was typed key by key."""
        os.write(self.file, f"{line}\r printf 'the %s\\n' end\r".encode())
        text = b""
        while b"\nthe end" not in text.replace(b"\r", b"\n"):
            text += os.read(self.file, 4096)
        return text.decode().replace("\r", "\n")

    def complete(self, line):
        """The words of the line after the tab key."""
        said = self.run(line + "\t\x01printf 'word <%s>\\n' \x05")
        return re.findall(r"(?m)^word <(.*)>$", said)

    def close(self):
        os.close(self.file)
        os.waitpid(self.pid, 0)


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

    def test_models_and_files_stand_where_the_first_argument_is(self, plimsoll):
        plimsoll.write("my_model.json", {})
        offered = plimsoll.complete("shard", "")
        assert "mlperf-dlrm-dcnv2" in offered and "my_model.json" in offered
        assert "llama-3-8b" not in offered
        assert plimsoll.complete("shard", "my") == ["my_model.json"]
        assert plimsoll.complete("checkpoint", "llama-3-8") == ["llama-3-8b"]
        assert plimsoll.complete("models", "my") == []
        assert plimsoll.complete("help", "sha") == ["shard"]

    @pytest.mark.parametrize(
        "before",
        [
            ("check", "mlperf-dlrm-dcnv2"),
            ("check", "model.json", "--strict"),
            ("check", "--strict", "model.json"),
            ("shard", "model.json", "--on", "dgx-h100", ":", "2"),
        ],
    )
    def test_no_model_is_offered_behind_the_first_argument(self, plimsoll, before):
        assert plimsoll.complete(*before, "") == []

    @pytest.mark.parametrize(
        ("before", "values"),
        [
            (("shard", "m.json", "--objective"), ["rating", "step", "time"]),
            (("shard", "m.json", "--objective", "="), ["rating", "step", "time"]),
            (("shard", "--on"), ["dgx-h100", "8xa10", "my_model.json"]),
            (("shard", "m.json", "--cost-model"), ["torchrec-1.9"]),
            (("shard", "m.json", "--machine"), ["h100-sxm5-80gb", "my_model.json"]),
            (("partition", "g.json", "--search"), ["contiguous", "pipedream"]),
        ],
    )
    def test_values_of_flags(self, plimsoll, before, values):
        plimsoll.write("my_model.json", {})
        offered = plimsoll.complete(*before, "")
        assert set(values) <= set(offered)
        assert "mlperf-dlrm-dcnv2" not in offered
        assert ("my_model.json" in offered) == ("my_model.json" in values)
        first = values[0]
        assert first in plimsoll.complete(*before, first[:3])

    def test_at_a_terminal(self, plimsoll):
        plimsoll.write("my_model.json", {})
        shell = Terminal(["bash", "--norc", "--noprofile", "-i"], plimsoll.folder)
        shell.run("source completion")
        assert shell.complete("plimsoll whati") == ["plimsoll", "whatif"]
        assert shell.complete("plimsoll shard my_") == ["plimsoll", "shard", "my_model.json"]
        assert shell.complete("plimsoll shard m.json --objective=ra")[-1] == "--objective=rating"
        assert shell.complete("plimsoll shard m.json --objective ti")[-1] == "time"
        assert shell.complete("plimsoll check mlperf-dlrm-dcnv2 my_")[-1] == "my_model.json"
        assert shell.complete("plimsoll check m.json p.json --stric")[-1] == "--strict"
        shell.close()


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

    def test_at_a_terminal(self, plimsoll):
        plimsoll.write("_plimsoll", plimsoll.run("completion", "zsh").out)
        plimsoll.write("my_model.json", {})
        shell = Terminal(["zsh", "-f", "-i"], plimsoll.folder)
        shell.run("unsetopt zle_bracketed_paste prompt_sp; PS1=; bindkey -e; fpath=($PWD $fpath)")
        shell.run("autoload -Uz compinit; compinit -u -D")
        assert shell.complete("plimsoll whati") == ["plimsoll", "whatif"]
        assert shell.complete("plimsoll shard my_") == ["plimsoll", "shard", "my_model.json"]
        assert shell.complete("plimsoll shard m.json --objective=ra")[-1] == "--objective=rating"
        assert shell.complete("plimsoll shard m.json --objective ti")[-1] == "time"
        assert shell.complete("plimsoll checkpoint llama-3-8")[-1] == "llama-3-8b"
        assert shell.complete("plimsoll check mlperf-dlrm-dcnv2 my_")[-1] == "my_model.json"
        assert shell.complete("plimsoll shard m.json --on dgx-h1")[-1] == "dgx-h100"
        assert shell.complete("plimsoll help sha") == ["plimsoll", "help", "shard"]
        shell.close()


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
class TestFish:
    @pytest.fixture
    def complete(self, program_path, tmp_path):
        plimsoll = Plimsoll(program_path, tmp_path)
        plimsoll.write("plimsoll.fish", plimsoll.run("completion", "fish").out)
        plimsoll.write("my_model.json", {})

        def offered(line):
            done = subprocess.run(
                ["fish", "--no-config", "-c", 'source plimsoll.fish; complete -C "$argv[1]"', line],
                capture_output=True,
                text=True,
                cwd=tmp_path,
                env=environment(HOME=str(tmp_path)),
                check=True,
            )
            assert done.stderr == ""
            return [row.partition("\t")[0] for row in done.stdout.splitlines()]

        return offered

    def test_commands_flags_and_values(self, complete):
        assert complete("plimsoll sha") == ["shard"]
        assert "--batch-size" in complete("plimsoll shard model.json --bat")
        assert complete("plimsoll shard model.json --objective ") == ["rating", "step", "time"]
        assert "--objective=rating" in complete("plimsoll shard model.json --objective=ra")
        assert complete("plimsoll help sha") == ["shard"]

    def test_models_hardware_and_files(self, complete):
        assert {"mlperf-dlrm-dcnv2", "my_model.json"} <= set(complete("plimsoll shard m"))
        assert "llama-3-8b" in complete("plimsoll checkpoint ll")
        assert {"dgx-h100", "my_model.json"} <= set(complete("plimsoll shard m.json --on "))
        assert "my_model.json" not in complete("plimsoll models m")
        assert "my_model.json" in complete("plimsoll report my")
