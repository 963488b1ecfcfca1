"""What it costs that pipeline stages begin with modules, for graphs in files.

Usage: PYTHONPATH=build/python build/python-env/bin/python bench/graphs/alignment.py FILE...

On 2, 4 and 8 H100: the slowest stage, and by how much it is slower at most than the best with stages that begin with
any operator, for whole layers and for submodules; then the processor time of all four searches.
"""

from __future__ import annotations

import pathlib
import sys
import time

from plimsoll import graphs


def main():
    for path in map(pathlib.Path, sys.argv[1:]):
        graph = graphs.load(path)
        for stages in (2, 4, 8):
            start = time.process_time()
            costs = []
            for align in ("modules", "submodules"):
                plan = graphs.partition(graph, stages, on="h100-sxm", activations="none", memory="1TiB", align=align)
                costs.append(f"{plan.certificate.objective:.2f} ms, {plan.alignment_cost:.1%}")
            print(f"{path.stem} {stages}: {'; '.join(costs)}; {time.process_time() - start:.2f} s", flush=True)


if __name__ == "__main__":
    main()
