"""The examples run, on 2 and 4 ranks."""

import pathlib
import re
import subprocess
import sys

import pytest
import torch

EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "examples"


def run(name, *arguments):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", EXAMPLES / name, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


# Of the tutorial's printed plans: how its tables are cut, and on how many ranks.
CUTS = {
    "table_wise": (2, {"[4096, 64]", "[1024, 64]"}),
    "row_wise": (2, {"[2048, 64]", "[512, 64]"}),
    "column_wise": (2, {"[4096, 32]", "[1024, 32]"}),
    "data_parallel": (2, set()),
    "table_row_wise": (4, {"[2048, 64]", "[512, 64]"}),
    "table_column_wise": (4, {"[4096, 32]", "[1024, 32]"}),
    "grid_shard": (4, {"[2048, 32]", "[512, 32]"}),
}


def test_the_tutorial():
    out = run("torchrec_tutorial.py", "--backend", "gloo")
    for kind, (ranks, sizes) in CUTS.items():
        assert f"\n{kind}: optimal, " in out
        printed = re.findall(rf"^rank:(\d),sharding plan: (.*sharding_type='{kind}'.*)$", out, re.MULTILINE)
        assert [rank for rank, _ in printed] == [str(rank) for rank in range(ranks)]
        assert len({plan for _, plan in printed}) == 1  # the same on every rank
        assert set(re.findall(r"shard_sizes=(\[.*?\])", printed[0][1])) == sizes
    differences = re.findall(r"5 steps as unsharded, largest difference (\S+)", out)
    assert len(differences) == len(CUTS) and all(float(value) < 1e-5 for value in differences)


def test_the_tutorial_says_what_nccl_needs():
    if torch.cuda.device_count() >= 2:
        pytest.skip("there are GPUs")
    out = run("torchrec_tutorial.py", "--backend", "nccl")
    assert out.splitlines() == [
        "left out, 2 GPUs are needed: table_wise, row_wise, column_wise, data_parallel",
        "left out, 4 GPUs are needed: table_row_wise, table_column_wise, grid_shard",
    ]


def test_easyrec():
    out = run("easyrec_planner.py")
    ratings = [float(value) for value in re.findall(r"rating (\S+) ms", out)]
    assert len(ratings) == 2 and ratings[1] <= ratings[0]
    assert "pooled: 8 features of (4, 32)" in out
    gaps = [float(value) for value in re.findall(r"form v\d: .*gap=([^,]+),", out)]
    assert len(gaps) == 3 and all(gap >= 0 for gap in gaps)


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_dlrm_loses_the_same_sharded_and_not(ranks):
    out = run("dlrm.py", ranks)
    assert "100 steps" in out and float(out.rpartition("largest difference: ")[2]) < 1e-4
