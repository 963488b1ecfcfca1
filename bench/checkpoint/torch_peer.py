"""torch's sac_milp (PuLP with its own Cbc) and ours on the same statistics, in the same run.

Usage: python bench/checkpoint/torch_peer.py PLIMSOLL [LIMIT_S [models | trees]] [--quick]

PLIMSOLL is the program; the Python that runs this script has torch 2.13.0 and PuLP 3.3.2
(scripts/make_peer_environment.sh makes one). Two tables, quality beside time: recorded models, one row a case, with
our reference of torch's planner (--search torch) too; and seeded trees of unlike layers (random_stats.py), one row a
size with medians over seeds. Of ours the whole program is timed, with reading and writing JSON; of torch the call
alone. Cbc is stopped after LIMIT_S elapsed seconds (default 30); its answer is then the best it had. With --quick the
first model and the smallest tree alone.
"""

import copy
import json
import logging
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)

import pulp  # noqa: E402
from random_stats import layered_stats  # noqa: E402
from torch.distributed._tools import sac_ilp  # noqa: E402
from torch.distributed._tools.ilp_utils import parse_module_info  # noqa: E402

DATA = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "checkpointing"
CASES = [
    ("gpt-native-12l", 0.6),
    ("gpt-native-12l", 0.45),
    ("gpt2-small", 0.45),
    ("llama-1b", 0.45),
    ("gpt2-small", 0.8),
    ("resnet-50", 0.8),
]
LAYERS = [4, 8, 16, 32, 64]
FAMILIES = ["plain", "moe"]
SEEDS = [1, 2, 3]
SHARE = 0.5  # of the range between the smallest feasible budget and the largest that is of use
GIB = 2**30


def run_torch(stats, budget, limit):
    """Recompute ms, 0 with no decisions where torch found nothing, and seconds."""
    solver = pulp.PULP_CBC_CMD

    def capped(**options):
        return solver(**(options | {"timeLimit": limit}))

    sac_ilp.PULP_CBC_CMD = capped
    try:
        graph = parse_module_info(copy.deepcopy(stats))
        begin = time.perf_counter()
        decisions, ms, _ = sac_ilp.sac_milp(graph, memory_budget=budget / GIB)
        return decisions, ms, time.perf_counter() - begin
    finally:
        sac_ilp.PULP_CBC_CMD = solver


def run_ours(program, path, *arguments, repeats=1):
    """The answer, and the least seconds of some runs."""
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        done = subprocess.run(
            [program, "checkpoint", str(path), "--costs", "fit", "--peak", "torch", "--json", *arguments],
            capture_output=True,
            text=True,
        )
        if done.returncode not in (0, 3):  # 3: the clock of --search torch, 180 s as upstream's, cut it
            raise SystemExit(f"{path.name} {arguments}: {done.stderr}")
        seconds.append(time.perf_counter() - begin)
    return json.loads(done.stdout), min(seconds)


def compare_models(program, limit, cases):
    print(
        "| model | share of peak | torch ms | torch s | --search torch ms | s | exact ms | s | times faster"
        " | torch above exact |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, share in cases:
        path = DATA / f"{name}.json"
        stats = json.loads(path.read_text())
        budget = int(stats["baseline_peak_bytes"] * share)
        _, torch_ms, torch_s = run_torch(stats, budget, limit)
        reference, reference_s = run_ours(program, path, "--budget", f"{budget}B", "--search", "torch")
        exact, exact_s = run_ours(program, path, "--budget", f"{budget}B", "--search", "exact", repeats=5)
        reference_ms, exact_ms = reference["predicted"]["recompute_ms"], exact["predicted"]["recompute_ms"]
        if exact_ms > torch_ms + 0.01:
            raise SystemExit(f"{name}: {exact_ms} is above torch's {torch_ms}")
        print(
            f"| {name} | {share} | {torch_ms} | {torch_s:.2f} | {reference_ms:.4f} | {reference_s:.2f} | "
            f"{exact_ms:.4f} | {exact_s:.3f} | {torch_s / exact_s:.0f} | {100 * (torch_ms / exact_ms - 1):.1f} % |",
            flush=True,
        )


def compare_trees(program, limit, sizes, families, seeds):
    print(
        "| modules | trees | torch s | cut | no plan | above exact, median / worst | exact, one budget s"
        " | exact, whole frontier s | break points | times faster, one budget |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for layers in sizes:
        rows = []
        for family in families:
            for seed in seeds:
                rows.append(compare_tree(program, limit, layered_stats(layers, family, seed)))
        torch_s, exact_s, frontier_s, points = (statistics.median(row[k] for row in rows) for k in (0, 1, 2, 3))
        excess = [row[4] for row in rows if row[4] is not None]
        above = f"{100 * statistics.median(excess):.1f} % / {100 * max(excess):.1f} %" if excess else ""
        cut, without = sum(row[0] > limit for row in rows), sum(row[4] is None for row in rows)
        faster = statistics.median(row[0] / row[1] for row in rows)
        print(
            f"| {7 * layers + 2} | {len(rows)} | {torch_s:.2f} | {cut} | {without} | {above} | "
            f"{exact_s:.3f} | {frontier_s:.3f} | {points:.0f} | {faster:.0f} |",
            flush=True,
        )


def compare_tree(program, limit, stats):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "stats.json"
        path.write_text(json.dumps(stats))
        frontier, frontier_s = run_ours(program, path, "--frontier", "--search", "exact", repeats=3)
        least, most = frontier["frontier"][0]["bytes"], frontier["frontier"][-1]["bytes"]
        budget = int(least + SHARE * (most - least))
        exact, exact_s = run_ours(program, path, "--budget", f"{budget}B", "--search", "exact", repeats=3)
        exact_ms = exact["predicted"]["recompute_ms"]
        decisions, torch_ms, torch_s = run_torch(stats, budget, limit)
        if decisions and exact_ms > torch_ms + 0.01:
            raise SystemExit(f"{stats['name']}: {exact_ms} is above torch's {torch_ms}")
        return (
            torch_s,
            exact_s,
            frontier_s,
            len(frontier["frontier"]),
            max(0, torch_ms / exact_ms - 1) if decisions else None,
        )


def main():
    arguments = [word for word in sys.argv[1:] if word != "--quick"]
    most = 1 if len(arguments) < len(sys.argv) - 1 else None  # of everything
    program, limit = arguments[0], float(arguments[1]) if len(arguments) > 1 else 30
    what = arguments[2] if len(arguments) > 2 else "models trees"
    if "models" in what:
        compare_models(program, limit, CASES[:most])
        print()
    if "trees" in what:
        compare_trees(program, limit, LAYERS[:most], FAMILIES[:most], SEEDS[:most])


main()
