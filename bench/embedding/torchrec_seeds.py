"""Ratings of plimsoll.torchrec.Planner beside those of TorchRec's own planner on seeded random models, in one run.

Usage: PYTHONPATH=build/python build/python-env/bin/python bench/embedding/torchrec_seeds.py [SEEDS | --quick]

Sum-pooled tables of 1e3 to 1e8 rows, hosts of 8 ranks, 1,024 samples a rank, room of 1.6 times what the tables take
(`tests/python/cases.py`). Prints a row for each size of model and objective: how many seeds, our rating over TorchRec's
(the least, the median, the largest), and the median of TorchRec's processor seconds over ours. The run fails where a
rating is above TorchRec's. With --quick one seed of the smallest size.
"""

from __future__ import annotations

import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "python"))

import cases
from torchrec.distributed.planner import EmbeddingShardingPlanner

from plimsoll.torchrec import Planner

SIZES = [(10, 8), (20, 8), (20, 16), (40, 16)]  # tables, ranks
OBJECTIVES = {"default": {}, "default, 0.2 s": {"time_limit_s": 0.2}, "rating": {"objective": "rating"}}


def plan(kind, module, arguments, **more):
    """(rating, processor seconds)."""
    begin = time.process_time()
    planner, _ = cases.plan_with(kind, module, arguments, **more)
    return cases.rating_of(planner), time.process_time() - begin


def main():
    is_quick = sys.argv[1:] == ["--quick"]
    seeds = 1 if is_quick else int(sys.argv[1]) if len(sys.argv) > 1 else 10
    worst = 0.0
    print("| tables | ranks | objective | seeds | rating over TorchRec's: least | median | largest | times faster |")
    print("|---|---|---|---|---|---|---|---|")
    for tables, ranks in SIZES[:1] if is_quick else SIZES:
        told = {name: [] for name in OBJECTIVES}
        for seed in range(seeds):
            module, arguments = cases.random_arguments(1000 * ranks + seed, count=tables, ranks=ranks, max_rows=8.0)
            own, own_seconds = plan(EmbeddingShardingPlanner, module, arguments)
            for name, more in OBJECTIVES.items():
                rating, seconds = plan(Planner, module, arguments, **more)
                told[name].append((rating / own, own_seconds / seconds))
        for name, pairs in told.items():
            ratios, speeds = zip(*pairs, strict=True)
            worst = max(worst, *ratios)
            print(
                f"| {tables} | {ranks} | {name} | {seeds} | {min(ratios):.4f} | {statistics.median(ratios):.4f}"
                f" | {max(ratios):.4f} | {statistics.median(speeds):.1f} |",
                flush=True,
            )
    return 1 if worst > 1 + 1e-12 else 0


if __name__ == "__main__":
    sys.exit(main())
