"""A program of a user's passes a strict type checker."""

import pathlib
import subprocess
import sys

import pytest

import plimsoll

pytest.importorskip("mypy", reason="mypy is not installed")

PROGRAM = """
from __future__ import annotations

import plimsoll
from plimsoll import options


def tell(effort: int, incumbent: float | None, bound: float | None) -> None:
    print(effort, incumbent, bound)


def main(model: dict[str, object]) -> float:
    plan: plimsoll.ShardingPlan = plimsoll.shard(model, on="4x16GiB", batch_size=256, progress=tell)
    assert plimsoll.check(model, plan, on="4x16GiB", batch_size=256).is_right
    again = plimsoll.ShardingPlan.from_json(plan.to_json())
    gap: float | None = again.certificate.gap
    frontier = plimsoll.frontier("llama-3-8b")
    policy = plimsoll.checkpoint("llama-3-8b", "70%")
    time: float = frontier.ms_at(policy.peak_bytes)
    for stage in plimsoll.partition("bert24-training").stages:
        print(stage["devices"])
    answer = plimsoll.options.plan({}, objective="rating", progress=tell)
    settings = options.Settings(objective="time", time_limit_s=0.2)
    print(gap, time, answer["rating"], settings, plan.ms["total"].sum(), plan.plot())
    try:
        plimsoll.shard(model, on="nowhere")
    except plimsoll.Error as error:
        print(error.place, error.remedy)
    return plan.rating
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("typing")  # with one cache


def check(program, folder):
    path = folder / "program.py"
    path.write_text(program)
    package = pathlib.Path(plimsoll.__file__).parent
    assert (package / "py.typed").exists()
    words = ["--strict", "--follow-imports=silent", "--cache-dir", str(folder / "cache"), str(path)]
    return subprocess.run(
        [sys.executable, "-m", "mypy", *words],
        cwd=folder,
        env={"MYPYPATH": str(package.parent)},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_right_program_passes(folder):
    done = check(PROGRAM, folder)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_wrong_program_does_not(folder):
    done = check(PROGRAM.replace("return plan.rating", "return plan.tables"), folder)
    assert done.returncode == 1 and "Incompatible return value type" in done.stdout
