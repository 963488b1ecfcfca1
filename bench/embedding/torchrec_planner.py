"""plimsoll.torchrec.Planner beside TorchRec's own planner, in the same run.

Usage: PYTHONPATH=build/python build/python-env/bin/python bench/embedding/torchrec_planner.py [REPEATS | --quick]

Prints one row a case: processor seconds of the whole plan() and of our search within it (medians over REPEATS), the
rating, and what is proved of it. TorchRec's own planner is left out where it has no answer in two minutes. With
--quick one small model, once.
"""

from __future__ import annotations

import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "python"))

import cases
from torchrec.distributed.planner import EmbeddingShardingPlanner

from plimsoll.torchrec import Partitioner, Planner, _native_enumerator


def seconds_of(work, repeats):
    """(median processor seconds, the last answer)."""
    spent = []
    for _ in range(repeats):
        begin = time.process_time()
        answer = work()
        spent.append(time.process_time() - begin)
    return statistics.median(spent), answer


def main():
    is_quick = sys.argv[1:] == ["--quick"]
    repeats = 1 if is_quick else int(sys.argv[1]) if len(sys.argv) > 1 else 3
    searches = []
    search = _native_enumerator.search

    def timed(*arguments):
        begin = time.process_time()
        found = search(*arguments)
        searches.append(time.process_time() - begin)
        return found

    _native_enumerator.search = timed
    models = {
        "DCNv2 8 x 80 GiB": cases.dcnv2_arguments(8),
        "DCNv2 16 x 40 GiB": cases.dcnv2_arguments(16),
        "500 x 64": cases.random_arguments(1, count=500, ranks=64, max_rows=8.0),
        "1,000 x 128": cases.random_arguments(1, count=1000, ranks=128, max_rows=8.0),
    }
    if is_quick:
        models = {"10 x 4": cases.random_arguments(1, count=10)}
    settings = {
        "rating": {"objective": "rating"},
        "rating, 0.2 s": {"objective": "rating", "time_limit_s": 0.2},
        "time": {},
        "time, 0.2 s": {"time_limit_s": 0.2},
    }
    print("| case | planner | plan() s | search s | rating | gap |")
    print("|---|---|---|---|---|---|")
    for name, (module, arguments) in models.items():
        if is_quick or name.startswith("DCNv2"):
            seconds, (planner, _) = seconds_of(
                lambda m=module, a=arguments: cases.plan_with(EmbeddingShardingPlanner, m, a), repeats
            )
            print(f"| {name} | torchrec | {seconds:.2f} | | {cases.rating_of(planner):.6f} | |", flush=True)
            seconds, (planner, _) = seconds_of(
                lambda m=module, a=arguments: cases.plan_with(
                    EmbeddingShardingPlanner, m, a, partitioner=Partitioner()
                ),
                repeats,
            )
            print(
                f"| {name} | torchrec with our Partitioner | {seconds:.2f} | | {cases.rating_of(planner):.6f} | |",
                flush=True,
            )
        for label, keywords in settings.items():
            if "time_limit_s" in keywords and not name.startswith("DCNv2"):
                continue
            searches.clear()
            seconds, (planner, _) = seconds_of(
                lambda m=module, a=arguments, k=keywords: cases.plan_with(Planner, m, a, **k), repeats
            )
            searched = statistics.median(searches) if searches else float("nan")
            gap = planner.certificate.gap
            print(
                f"| {name} | ours, {label} | {seconds:.2f} | {searched:.2f} | {cases.rating_of(planner):.6f}"
                f" | {'none' if gap is None else format(gap, '.3%')} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
