"""How far beyond its time limit every search of every command runs, from outside.

    python3 bench/time_limits.py build/bin/plimsoll [--limits 0.2 1] [--only WORD] [--workloads FOLDER]

A run may take 1.1 times its limit and 0.2 s more. Both wall time and processor time are printed; on a machine that is
shared the smaller of them tells (a search uses one thread). Exit code 1 where a run took longer than that and the
slack of `--slack` seconds besides.
"""

import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "checkpoint"))
from random_stats import layered_stats


def tables(number, columns=(16, 32, 64, 128), rows=10**6, mean=0.0, seed=0):
    dice = random.Random(f"{number} {seed}")
    return {
        "tables": [
            {
                "name": f"t{i}",
                "num_embeddings": int(10 ** dice.uniform(2, 6) * rows / 10**6) + 1,
                "embedding_dim": dice.choice(columns),
                "feature_names": [f"f{i}"],
                **({"pooling": "mean"} if dice.random() < mean else {}),
                "constraints": {"pooling_factors": [dice.randint(1, 60)]},
            }
            for i in range(number)
        ]
    }


def towers(number):
    """Every module a collection of its own."""
    entries = tables(2 * number)["tables"]
    return {
        "modules": [{"path": f"m{i}", "tables": entries[2 * i : 2 * i + 2]} for i in range(number)],
    }


def operators(number, seed=0, fanin=2, training=False):
    """A random acyclic graph in the form of the placement benchmark."""
    dice = random.Random(f"{number} {seed}")
    nodes = [
        {
            "id": i,
            "name": f"op{i}",
            "cpuLatency": dice.uniform(5, 50),
            "fpgaLatency": dice.uniform(0.1, 5),
            "supportedOnFpga": 1,
            "isBackwardNode": int(training and i >= number // 2),
            "size": dice.randint(1, 100),
        }
        for i in range(number)
    ]
    edges = []
    cost = [dice.uniform(0.01, 1) for _ in range(number)]
    for i in range(1, number):
        for j in {max(0, i - dice.randint(1, 30)) for _ in range(dice.randint(1, fanin))}:
            edges.append({"sourceId": j, "destId": i, "cost": cost[j]})
    return {
        "maxSizePerFPGA": 200.0 * number / 4,
        "maxFPGAs": 6,
        "maxCPUs": 1,
        "nodes": nodes,
        "edges": edges,
    }


def make_inputs(folder):
    def write(name, document):
        (folder / name).write_text(json.dumps(document), encoding="utf-8")

    write(
        "one.json", {"tables": [{"name": "t", "num_embeddings": 1000, "embedding_dim": 4096, "feature_names": ["f"]}]}
    )
    write("four.json", tables(4))
    write("m100.json", tables(100))
    write("m1000.json", tables(1000))
    write("mean1000.json", tables(1000, mean=1))
    write("mixed1000.json", tables(1000, mean=0.5))
    write("towers300.json", towers(300))
    write("m10000.json", tables(10000))
    write("g300.json", operators(300))
    write("g3000.json", operators(3000))
    write("g20000.json", operators(20000))
    write("t1000.json", operators(1000, training=True))
    for layers in (40, 150):
        write(f"s{layers}.json", layered_stats(layers, "moe", 0))


def cases(workloads):
    """(name, arguments)."""
    on = {
        "one.json": "3x40GiB",
        "four.json": "4x1GiB",
        "m100.json": "16x4GiB",
        "m1000.json": "128x8GiB",
        "mean1000.json": "128x8GiB",
        "mixed1000.json": "64x8GiB",
        "towers300.json": "64x8GiB",
        "m10000.json": "512x80GiB",
        "mlperf-dlrm-dcnv2": "dgx-h100:2",
        "nv-synthetic-colossal": "256x200GiB",
        "nv-synthetic-jumbo": "64x80GiB",
        "hugectr-t180": "64x80GiB",
        "hugectr-t510": "64x80GiB",
    }
    ways = [
        [],
        ["--objective", "rating"],
        ["--objective", "step"],
        ["--widths", "all"],
        ["--frontier"],
        ["--frontier", "--objective", "rating"],
        ["--search", "torchrec"],
        ["--search", "torchrec", "--proposer", "dynamic_programming"],
    ]
    for model, hardware in on.items():
        for way in ways:
            yield ["shard", model, "--on", hardware, *way]
    stats = ["s40.json", "s150.json", "llama-3-8b", "llama-3-70b", "dlrm-deep-towers"]
    questions = [["--budget", "60%"], ["--frontier"], ["--knee"], ["--overhead", "5%"]]
    for model in stats:
        for question in questions:
            yield ["checkpoint", model, *question]
            yield ["checkpoint", model, *question, "--search", "milp"]
        yield ["checkpoint", model, "--budget", "60%", "--search", "torch"]
        for search in ("exact", "milp"):
            yield ["checkpoint", model, "--budget", "70%", "--in-flight", "4", "--search", search]
    graphs = ["g300.json", "g3000.json", "g20000.json", "t1000.json", "bert24-training"]
    for graph in graphs:
        yield ["partition", graph]
        yield ["partition", graph, "--general"]
        yield ["partition", graph, "--objective", "latency"]
        yield ["partition", graph, "--objective", "pipeline", "--microbatches", "16"]
    if workloads:
        for path in sorted(pathlib.Path(workloads, "graphs").glob("*-*.json")):
            for more in (
                [],
                ["--general"],
                ["--objective", "latency"],
                ["--objective", "pipeline", "--microbatches", "8"],
            ):
                yield ["partition", str(path), "--on", "4xh100-sxm", *more]
        for path in sorted(pathlib.Path(workloads, "pipedream").glob("*.txt")):
            if "LICENSE" not in path.name:
                yield ["partition", str(path), "--devices", "8", "--bandwidth", "10GB/s", "--microbatches", "16"]
        for path in sorted(pathlib.Path(workloads, "checkpointing").glob("*-*.json")):
            for more in ([], ["--search", "milp"]):
                yield ["checkpoint", str(path), "--budget", "60%", *more]


def run(program, folder, arguments, timeout):
    begin = time.monotonic()
    with open(os.devnull, "wb") as sink, tempfile.TemporaryFile() as said:
        process = subprocess.Popen([program, *arguments, "--json", "-q"], cwd=folder, stdout=sink, stderr=said)
        try:
            while True:
                pid, status, usage = os.wait4(process.pid, os.WNOHANG)
                if pid:
                    break
                if time.monotonic() - begin > timeout:
                    process.kill()
                    _, status, usage = os.wait4(process.pid, 0)
                    break
                time.sleep(0.005)
        finally:
            process.returncode = 0
        wall = time.monotonic() - begin
        said.seek(0)
        text = said.read().decode(errors="replace").strip().splitlines()
    code = os.waitstatus_to_exitcode(status)
    return wall, usage.ru_utime + usage.ru_stime, code, text[0] if text and code not in (0, 2, 3, 4) else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--limits", nargs="+", type=float, default=[0.2, 1], help="seconds; 0: none, 10 s are allowed")
    parser.add_argument("--only", default="", help="runs whose arguments contain this")
    parser.add_argument("--workloads", default="", help="a folder of more graphs and module statistics")
    parser.add_argument("--slack", type=float, default=0, help="seconds that a run may take longer")
    parser.add_argument("--worst", action="store_true", help="print only runs that take too long")
    chosen = parser.parse_args()
    program = os.path.abspath(chosen.program)
    num_late = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_inputs(folder)
        for limit in chosen.limits:
            allowed = (1.1 * limit + 0.2 if limit else 10) + chosen.slack
            flags = ["--time-limit", f"{limit}s"] if limit else []
            for arguments in cases(chosen.workloads):
                if chosen.only not in " ".join(arguments):
                    continue
                wall, cpu, code, error = run(program, folder, arguments + flags, max(60, 10 * allowed))
                is_late = min(wall, cpu) > allowed
                num_late += is_late
                if is_late or not chosen.worst:
                    mark = "LATE" if is_late else "    "
                    print(
                        f"{mark} {limit:4g} {wall:7.2f} {cpu:7.2f} {code:3} {' '.join(arguments)} {error}", flush=True
                    )
    print(f"{num_late} too late")
    return 1 if num_late else 0


if __name__ == "__main__":
    sys.exit(main())
