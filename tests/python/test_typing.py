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
from plimsoll import checkpointing, options


def layers(info: checkpointing.ModuleInfo, table: checkpointing.SACStats) -> dict[str, float]:
    graph = checkpointing.parse_module_info(info)
    decisions, ms, peak = checkpointing.sac_milp(graph, 1.6, world_size=4, ac_units=["R.a"], fsdp_units=None)
    bits: list[int] = checkpointing.get_optimal_checkpointing_policy_per_module(table, 0.5)
    curve: checkpointing.SACTradeOffStats = checkpointing.fit_tradeoff_curve(table, n_segments=2)
    shown = checkpointing.TradeOffs({"R": table})
    shown.display_modulewise_sac_stats(depth=2, print_tabular=False)
    policy = plimsoll.checkpoint(graph, "70%")
    print(ms + peak, bits, curve.slopes, checkpointing.greedy_order(table).msps_meta[0].msps, policy.units)
    return decisions


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


TORCHREC_PROGRAM = """
from __future__ import annotations

import torch
from torchrec.distributed.planner import Topology

import plimsoll.torchrec
from plimsoll.torchrec.easyrec import DynamicProgrammingProposer, create_planner, get_default_sharders


def main(module: torch.nn.Module) -> float:
    planner = plimsoll.torchrec.Planner(
        topology=Topology(world_size=2, compute_device="cuda"),
        batch_size=512,
        objective="rating",
        time_limit_s=0.2,
        step_model={"ms_per_table": 0.1},
    )
    plan = planner.collective_plan(module)
    gap: float | None = planner.certificate.gap
    report = plimsoll.torchrec.check(plan, module, planner._topology, strict=False)
    print(gap, report.is_right, planner.reference, planner.warnings)
    document = plimsoll.torchrec.model_document(module, planner._topology, path="model.json")
    answer = plimsoll.shard(document, on=plimsoll.torchrec.topology_document(planner._topology))
    print(plimsoll.torchrec.to_sharding_plan(answer, module, planner._topology))
    other = create_planner(torch.device("cpu"), 512, model=module, search="balanced", objective="rating")
    print(other.collective_plan(module, get_default_sharders()), DynamicProgrammingProposer(form="v1"))
    return planner.times["rating"]
"""


FX_PROGRAM = """
from __future__ import annotations

import torch
from torch.fx.experimental import partitioner_utils

import plimsoll.fx


def tell(effort: int, incumbent: float | None, bound: float | None) -> None:
    print(effort, incumbent, bound)


def main(traced: torch.fx.GraphModule, program: torch.export.ExportedProgram) -> float:
    devices = [plimsoll.fx.Device("dev_0", 1 << 20, 0)]
    latencies = {node: plimsoll.fx.NodeLatency(1e-6, 2e-6) for node in traced.graph.nodes}
    config = plimsoll.fx.PartitionerConfig(devices, plimsoll.fx.PartitionMode.certified, 1e9, latencies)
    plimsoll.fx.Partitioner().partition_graph(
        traced, traced, partitioner_utils.PartitionerConfig(devices, partitioner_utils.PartitionMode.kl_based)
    )
    partitioner = plimsoll.fx.Partitioner(time_limit="5s", effort=1000, tolerance=1e-3, seed=1, progress=tell)
    dag, module = partitioner.partition_graph(program, None, config)
    plimsoll.fx.get_size_of_all_nodes(traced, [torch.ones(4)])
    document: dict[str, object] = plimsoll.fx.to_document(traced, config, [torch.ones(4)])
    times = plimsoll.fx.get_partition_to_latency_mapping(partitioner.partitions, latencies)
    path: float = plimsoll.fx.get_latency_of_partitioned_graph(partitioner.partitions, times, 1e9)
    gap: float | None = partitioner.certificate.gap
    print(document, path, gap, module, [node.size_bytes for node in dag.nodes])
    return partitioner.certificate.objective
"""


GRAPHS_PROGRAM = """
import torch
from plimsoll import graphs


def main(model: torch.nn.Module, tokens: torch.Tensor) -> list[str]:
    graph = graphs.capture(model, (tokens,), {"scale": 1.0}, loss=lambda output: output.sum(), times="measured")
    graph.save("graph.json")
    plan = graphs.partition(graph, 4, on="h100-sxm", memory="16GiB", objective="pipeline", microbatches=8, seed=1)
    gap: float | None = plan.certificate.gap
    copies: list[graphs.TiedWeight] = plan.tied
    devices: dict[str, object] = plan.device_map(model, ["cpu"] * plan.num_stages)
    stages = plan.split(model, device="cpu")
    plan.sync_tied(stages[0])
    print(gap, copies, devices, plan.split_spec(), plan.step_ms(8), graphs.load("graph.json").flops)
    return plan.module_fqns_per_model_part()[0]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("typing")  # with one cache


def check(program, folder):
    path = folder / "program.py"
    path.write_text(program)
    package = pathlib.Path(plimsoll.__file__).parent
    assert (package / "py.typed").exists()
    skipped = folder / "mypy.ini"  # torch is large, torchrec has no types
    skipped.write_text("[mypy]\n[mypy-torch.*,torchrec.*]\nfollow_imports = skip\nignore_missing_imports = True\n")
    words = ["--strict", "--follow-imports=silent", "--config-file", str(skipped)]
    words += ["--cache-dir", str(folder / "cache"), str(path)]
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


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("batch_size=256, progress=tell", "batch_sise=256, progress=tell", 'Unexpected keyword argument "batch_sise"'),
        ("batch_size=256, progress=tell", 'objective="ratng", progress=tell', "incompatible type"),
    ],
)
def test_a_wrong_keyword_does_not(folder, right, wrong, message):
    assert right in PROGRAM
    done = check(PROGRAM.replace(right, wrong), folder)
    assert done.returncode == 1 and message in done.stdout, done.stdout


def test_a_right_torchrec_program_passes(folder):
    pytest.importorskip("torchrec", reason="torchrec is not installed")
    done = check(TORCHREC_PROGRAM, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    done = check(TORCHREC_PROGRAM.replace("return planner.times", "return planner.warnings"), folder)
    assert done.returncode == 1 and "No overload variant" in done.stdout, done.stdout


def test_a_right_fx_program_passes(folder):
    pytest.importorskip("torch", reason="torch is not installed")
    done = check(FX_PROGRAM, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    for right, wrong in (
        ("effort=1000", 'effort="1000"'),
        ("path: float", "path: str"),
        ("return partitioner.certificate.objective", "return partitioner.status"),
    ):
        done = check(FX_PROGRAM.replace(right, wrong), folder)
        assert done.returncode == 1 and "ncompatible" in done.stdout, done.stdout


def test_a_right_program_of_graphs_passes(folder):
    pytest.importorskip("torch", reason="torch is not installed")
    done = check(GRAPHS_PROGRAM, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    done = check(GRAPHS_PROGRAM.replace("microbatches=8,", 'microbatches="8",'), folder)
    assert done.returncode == 1 and "ncompatible" in done.stdout, done.stdout


def test_a_wrong_program_does_not(folder):
    done = check(PROGRAM.replace("return plan.rating", "return plan.tables"), folder)
    assert done.returncode == 1 and "Incompatible return value type" in done.stdout
    done = check(PROGRAM.replace("world_size=4", "world=4"), folder)
    assert done.returncode == 1 and 'Unexpected keyword argument "world"' in done.stdout
