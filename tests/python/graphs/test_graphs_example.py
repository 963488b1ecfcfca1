"""The example trains as the unsplit model does."""

import os
import pathlib
import re
import socket
import subprocess
import sys

import pytest

EXAMPLE = pathlib.Path(__file__).resolve().parents[3] / "examples" / "pipeline_stages.py"


def run(stages, schedule):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", EXAMPLE, "--stages", str(stages), "--schedule", schedule],
        env=os.environ | {"MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"Gpt: {stages} stages, batch of 4" in done.stdout and "tied: tokens.weight in stage 0" in done.stdout
    apart = re.findall(r"^step \d: .* apart (\S+)$", done.stdout, re.MULTILINE)
    assert len(apart) == 5 and all(float(value) < 1e-5 for value in apart), done.stdout


def test_two_stages():
    run(2, "1f1b")


@pytest.mark.long
def test_four_stages():
    run(4, "gpipe")
