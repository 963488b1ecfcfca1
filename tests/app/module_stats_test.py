"""The statistics that are kept are those that the program writes, byte for byte."""

import json
import pathlib
import shlex
import subprocess

import pytest

DATA = pathlib.Path(__file__).resolve().parents[2] / "data" / "module_stats"


@pytest.fixture
def run(program_path):
    """Runs plimsoll-module-stats, which stands beside plimsoll."""
    path = pathlib.Path(program_path).with_name("plimsoll-module-stats")
    return lambda *arguments: subprocess.run([path, *arguments], capture_output=True, text=True, check=False)


def commands():
    """The commands of the readme, by the file that they write."""
    lines = (DATA / "README.md").read_text().splitlines()
    found = {}
    for line in lines:
        if line.startswith("    plimsoll-module-stats "):
            command, name = line.split(" > ")
            found[name] = shlex.split(command)[1:]
    return found


def test_the_readme_names_every_file():
    assert sorted(commands()) == sorted(p.name for p in DATA.glob("*.json"))


@pytest.mark.parametrize(("name", "arguments"), commands().items())
def test_regenerating_gives_equal_bytes(run, name, arguments):
    answer = run(*arguments)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout == (DATA / name).read_text(), f"{name} differs"


def test_leaves_beside_units_only(run):
    few = json.loads(run("gpt", "--batch", "2").stdout)
    every = json.loads(run("gpt", "--batch", "2", "--all-leaves").stdout)
    kept = {module["fqn"] for module in few["mod_stats"]}
    assert "Transformer.layers.0.ffn_norm" in kept
    assert "Transformer.layers.0.attention.wq" not in kept
    assert few["mod_stats"] == [m for m in every["mod_stats"] if m["fqn"] in kept]
    for order in ("fw_pre_order", "fw_post_order"):
        assert few["mod_order"][order] == [fqn for fqn in every["mod_order"][order] if fqn in kept]


def test_times_follow_the_release(run):
    model = ("dlrm-deep-towers", "--batch", "100")  # of sizes that are not blocks of 512 bytes
    newest = json.loads(run(*model).stdout)["mod_stats"][0]
    reference = json.loads(run(*model, "--variant", "reference").stdout)["mod_stats"][0]
    assert newest["fw_runtime_per_module"] != reference["fw_runtime_per_module"]
    for key in ("act_total", "act_grad_per_module", "param_per_module", "total_peak_fw", "sac_memory"):
        assert newest[key] == reference[key]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["gpt-5"],
        ["gpt", "--batch", "0"],
        ["gpt", "--gb-per-s", "1"],
        ["gpt", "--hardware", "h1000"],
        ["gpt", "--variant", "torch-3"],
        ["gpt", "--hardware", "a100", "--gb-per-s", "1", "--tflops", "1"],
    ],
)
def test_bad_usage(run, arguments):
    answer = run(*arguments)
    assert answer.returncode == 1
    assert answer.stdout == ""
    assert answer.stderr
