"""The examples run, on 2 and 4 ranks."""

import pathlib
import subprocess
import sys

import pytest

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


@pytest.mark.parametrize("ranks", [2, 4])
def test_the_tutorial(ranks):
    out = run("torchrec_tutorial.py", ranks)
    for kind in ("table_wise", "row_wise", "column_wise", "data_parallel"):
        assert f"\n{kind}: optimal" in "\n" + out
    assert out.count("pooled: (2, 256)") == 4
    assert "large_table_0 | [0, 0]" in out


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_dlrm_loses_the_same_sharded_and_not(ranks):
    out = run("dlrm.py", ranks)
    assert "100 steps" in out and float(out.rpartition("largest difference: ")[2]) < 1e-4
