"""What torch's trackers leave, gathered and planned with; the example."""

import copy
import json
import os
import pathlib
import pickle
import re
import subprocess
import sys

import pytest

import plimsoll
from plimsoll import checkpointing

torch = pytest.importorskip("torch", reason="torch is not installed")
import profiles  # noqa: E402
from torch.distributed._tools import ilp_utils  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]
FIT = ("slopes", "intercepts", "breakpoints")


@pytest.fixture(scope="module")
def info(gpt):
    return checkpointing.aggregate_stats(*gpt, torch.device("cpu"))


def test_records_are_torchs(gpt, info):
    pytest.importorskip("pwlf", reason="pwlf, by which torch fits, is not installed")
    module, memory, times, operators = gpt
    curves = dict(operators.sac_mod_tradeoff_stats)
    expected = ilp_utils.aggregate_stats(module, memory, times, operators, torch.device("cpu"))
    assert info["mod_order"] == expected["mod_order"]
    assert len(info["mod_stats"]) == len(expected["mod_stats"]) > 15
    for ours, theirs in zip(info["mod_stats"], expected["mod_stats"]):
        assert list(ours) == list(theirs)
        assert {key: ours[key] for key in ours if key not in FIT} == {
            key: theirs[key] for key in ours if key not in FIT
        }
        # pwlf's search is random, and the best fit may be one of many.
        curve = ours["tradeoff_curve"]
        fits = [profiles.squares(curve, *(stats[key] for key in FIT)) for stats in (ours, theirs)]
        assert fits[0] <= fits[1] + 1e-9 and fits[1] <= 1.2 * fits[0] + 1e-3, ours["fqn"]
    assert {fqn: vars(curve).keys() for fqn, curve in curves.items()} == {
        fqn: vars(curve).keys() for fqn, curve in operators.sac_mod_tradeoff_stats.items()
    }


def test_models_that_torchs_function_fails_on():
    """A part without gradients (KeyError there), and one that keeps nothing (ZeroDivisionError)."""
    gathered = profiles.profile(profiles.Frozen, 8, 16)
    info = checkpointing.aggregate_stats(*gathered, torch.device("cpu"))
    stats = {record["fqn"]: record for record in info["mod_stats"]}
    assert stats["Frozen.lone"]["is_leaf"] and not stats["Frozen.body"]["is_leaf"]
    assert stats["Frozen.table"]["grad_total"] == stats["Frozen.table"]["act_grad_per_module"] == 0
    graph = checkpointing.parse_module_info(info)
    peak, _ = checkpointing.get_peak_memory_runtime_baseline(graph)
    assert checkpointing.sac_milp(graph, peak / 2**30)[:2] == ({}, 0)


def test_torchs_objects_are_taken_as_they_are(gpt, info):
    """A ModuleInfo before and after torch's parse_module_info has written into it, a Graph, ours and torch's."""
    operators = gpt[3]
    parsed = copy.deepcopy(info)
    graph = ilp_utils.parse_module_info(parsed)
    assert all("index" in record for record in parsed["mod_stats"])
    ours = checkpointing.parse_module_info(copy.deepcopy(info))
    answers = [plimsoll.checkpoint(stats, "80%") for stats in (info, parsed, graph, ours)]
    assert answers[0].status == "optimal" and answers[0].units
    for answer in answers[1:]:
        assert answer.units == answers[0].units and answer.peak_bytes == answers[0].peak_bytes
    frontier = plimsoll.frontier(graph)
    assert frontier.ms_at(answers[0].peak_bytes) == pytest.approx(answers[0].recompute_ms)
    assert plimsoll.check(graph, answers[2]).is_right
    # With the estimator's tables plans choose operators.
    document = checkpointing.to_document(parsed, operators)
    assert document == checkpointing.to_document(parsed, operators.sac_mod_stats)
    assert len(document["sac_stats"]) < len(document["sac_stats_of"]) == len(operators.sac_mod_stats)
    by_operators = plimsoll.checkpoint(document, "80%")
    assert all("ops" in unit for unit in by_operators.units) and by_operators.units
    curves = plimsoll.checkpoint(document, tradeoff=True)
    assert isinstance(curves, plimsoll.TradeOffCurves)
    assert {module["fqn"] for module in curves.modules} == set(operators.sac_mod_stats)
    # A table alone.
    table = operators.sac_mod_stats["GPT.layers.0"]
    assert plimsoll.checkpoint(table, 0.5).values == plimsoll.checkpoint(checkpointing.to_document(table), 0.5).values
    with pytest.raises(plimsoll.Error, match="is not a ModuleInfo, Graph or SACStats"):
        checkpointing.to_document(gpt[0])


def test_records_travel_as_json(info, tmp_path):
    """json.dump of what parse_module_info leaves is read by the command line's reader."""
    parsed = copy.deepcopy(info)
    graph = checkpointing.parse_module_info(parsed)
    path = tmp_path / "info.json"
    path.write_text(json.dumps(parsed))
    assert plimsoll.checkpoint(path, "80%").units == plimsoll.checkpoint(graph, "80%").units


def test_planning_needs_no_torch(gpt, info, tmp_path):
    """Import, plan and print with torch, PuLP and pwlf out of reach."""
    tables = {
        fqn: checkpointing.SACStats(**vars(table)) for fqn, table in gpt[3].sac_mod_stats.items() if fqn.count(".") == 2
    }
    (tmp_path / "records.pkl").write_bytes(pickle.dumps((info, tables)))
    program = """
import pickle, sys
sys.modules.update(dict.fromkeys(("torch", "pulp", "pwlf", "scipy", "pandas"), None))
from plimsoll import checkpointing
info, tables = pickle.load(open("records.pkl", "rb"))
graph = checkpointing.parse_module_info(info)
budget = 0.8 * checkpointing.get_peak_memory_runtime_baseline(graph)[0] / 2**30
decisions, ms, peak = checkpointing.sac_milp(graph, budget)
print(sorted(decisions), peak <= budget * 2**30)
for fqn in tables:
    print(checkpointing.get_optimal_checkpointing_policy_per_module(tables[fqn], 0.5))
shown = checkpointing.TradeOffs(tables)
shown.pwlf_sac_tradeoff_curve()
shown.display_modulewise_sac_stats(3)
try:
    checkpointing.SACEstimator
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "GPT.layers" in done.stdout and "True" in done.stdout.partition("\n")[0]
    assert "AC Trade-off for Module: GPT.layers.1" in done.stdout and "torch" in done.stdout.splitlines()[-1]


def test_the_example_plans_as_torchs_own_test(tmp_path):
    """Budgets of torch's test_sac_ilp: nothing at 2.4 GiB, all four layers at 1.6 GiB."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", ROOT / "examples" / "sac_ilp.py", "2.4", "1.6", "0.3"],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = done.stdout.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("without checkpointing"))
    assert lines[start].startswith("without checkpointing, on one rank: 2.3")
    assert re.match(r"2\.4 GiB on each of 4 ranks: peak 2\.\d\d GiB, 0\.0 ms more", lines[start + 1])
    assert re.match(r"1\.6 GiB on each of 4 ranks: peak 1\.60 GiB, 1\.\d+ ms more", lines[start + 2])
    units = [line.split(":")[0].strip() for line in lines[start + 3 : start + 7]]
    assert [unit.split(".")[:3] for unit in units] == [["Transformer", "layers", str(i)] for i in range(4)]
    for line in lines[start + 3 : start + 7]:
        share, of, kept = (float(x) for x in re.search(r"discard (\S+) of (\S+) MiB.*, (\S+) MiB", line).groups())
        assert kept <= (1 - share) * of + 1  # what is saved fits what the plan leaves
    assert lines[start + 7] == "0.3 GiB on each of 4 ranks: does not fit"
