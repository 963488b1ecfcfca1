"""What plimsoll.torchrec.Planner takes of a large model, by what its sharder is told.

Usage: PYTHONPATH=build/python build/python-env/bin/python bench/embedding/torchrec_settings.py [--all | --quick]

Prints one row a setting: whether options were enumerated natively, processor seconds of the whole plan(), and by how
much the process's peak memory grew in it. Each row is planned in a process of its own. With --all each again where
TorchRec's enumerator makes the whole search space; with --quick a small model.
"""

from __future__ import annotations

import os
import pathlib
import resource
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "python"))

import cases
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.fbgemm_qcomm_codec import CommType, QCommsConfig, get_qcomm_codecs_registry

from plimsoll.torchrec import Planner

SHARDERS = {
    "nothing": {},
    "fused_params": {"fused_params": {"learning_rate": 0.1}},
    "quantised communication": {
        "qcomm_codecs_registry": get_qcomm_codecs_registry(QCommsConfig(CommType.FP16, CommType.FP16))
    },
}


def plan_once(module, arguments, sharder, reads_all):
    """Prints "native | seconds | MB" of one plan."""
    planner = Planner(**arguments)
    planner._enumerator.wants_all = reads_all
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.process_time()
    planner.plan(module, [sharder])
    seconds = time.process_time() - begin
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f" {planner._enumerator.is_native} | {seconds:.2f} | {grown * 1024 / 1e6:.0f} |", flush=True)


def main():
    size = {"count": 10} if "--quick" in sys.argv else {"count": 1000, "ranks": 128, "max_rows": 8.0}
    module, arguments = cases.random_arguments(1, **size)
    print("| told | native | plan() s | MB |\n|---|---|---|---|")
    for reads_all in (False, True) if "--all" in sys.argv else (False,):
        for name, told in SHARDERS.items():
            print(f"| {name} |", end="", flush=True)
            child = os.fork()
            if child == 0:
                plan_once(module, arguments, EmbeddingBagCollectionSharder(**told), reads_all)
                os._exit(0)
            os.waitpid(child, 0)


if __name__ == "__main__":
    main()
