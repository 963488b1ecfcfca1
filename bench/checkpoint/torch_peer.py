"""torch's sac_milp (PuLP with its own Cbc) and ours on the same statistics, in the same run.

Usage: python bench/checkpoint/torch_peer.py PLIMSOLL [LIMIT_S]

PLIMSOLL is the program; the Python that runs this script has torch 2.13.0 and PuLP 3.3.2 (scripts/make_peer_environment.sh makes one). Prints one row per case:
recompute time and seconds of torch's planner, of our reference of it (--search torch) and of our exact search, whole programs with reading and writing JSON for
ours, the call alone for torch's. Cbc is stopped after LIMIT_S elapsed seconds (default 30); its answer is then the best it had.
"""

import copy
import json
import logging
import pathlib
import subprocess
import sys
import time
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)

import pulp  # noqa: E402
from torch.distributed._tools import sac_ilp  # noqa: E402
from torch.distributed._tools.ilp_utils import parse_module_info  # noqa: E402

DATA = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "checkpointing"
CASES = [("gpt-native-12l", 0.6), ("gpt-native-12l", 0.45), ("gpt2-small", 0.45), ("llama-1b", 0.45), ("gpt2-small", 0.8), ("resnet-50", 0.8)]
GIB = 2**30


def run_torch(stats, budget, limit):
    solver = pulp.PULP_CBC_CMD

    def capped(**options):
        return solver(**(options | {"timeLimit": limit}))

    sac_ilp.PULP_CBC_CMD = capped
    graph = parse_module_info(copy.deepcopy(stats))
    begin = time.perf_counter()
    decisions, ms, _ = sac_ilp.sac_milp(graph, memory_budget=budget / GIB)
    return len(decisions), ms, time.perf_counter() - begin


def run_ours(program, path, budget, *arguments):
    begin = time.perf_counter()
    done = subprocess.run([program, "checkpoint", str(path), "--budget", str(budget), "--costs", "fit", "--json", *arguments],
                          capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["predicted"]["recompute_ms"], time.perf_counter() - begin


def main():
    program, limit = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 30
    print("| model | share of peak | torch ms | torch s | --search torch ms | s | exact ms | s | times faster | torch above exact |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, share in CASES:
        path = DATA / f"{name}.json"
        stats = json.loads(path.read_text())
        budget = int(stats["baseline_peak_bytes"] * share)
        _, torch_ms, torch_s = run_torch(stats, budget, limit)
        reference_ms, reference_s = run_ours(program, path, budget, "--search", "torch")
        exact_ms, exact_s = min((run_ours(program, path, budget) for _ in range(5)), key=lambda row: row[1])
        if exact_ms > torch_ms + 0.01:
            raise SystemExit(f"{name}: {exact_ms} is above torch's {torch_ms}")
        print(f"| {name} | {share} | {torch_ms} | {torch_s:.2f} | {reference_ms:.4f} | {reference_s:.2f} | {exact_ms:.4f} | {exact_s:.3f} | "
              f"{torch_s / exact_s:.0f} | {100 * (torch_ms / exact_ms - 1):.1f} % |", flush=True)


main()
