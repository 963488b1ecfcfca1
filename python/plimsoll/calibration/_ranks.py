"""Jobs on several ranks of this machine: one process each, joined by torch.distributed.

Run as a program, this is one rank: `python -m plimsoll.calibration._ranks FOLDER RANK`. Rank 0 prints what the job
yields, one JSON value a line.
"""

from __future__ import annotations

import importlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from plimsoll._errors import Error

JOBS = {
    "collectives": ("plimsoll.calibration._collectives", "measure_collectives"),
    "plans": ("plimsoll.calibration._plans", "measure_plans"),
}


def run_ranks(
    job: str, ranks: int, backend: str, device: str, threads: int, arguments: dict[str, Any]
) -> Iterator[Any]:
    """What rank 0's job yields, as it does.

    Raises:
        Error: A rank failed; its last line says why.
    """
    with tempfile.TemporaryDirectory(prefix="plimsoll-") as name:
        folder = pathlib.Path(name)
        task = {"job": job, "ranks": ranks, "backend": backend, "device": device, "arguments": arguments}
        (folder / "task.json").write_text(json.dumps(task))
        paths = [str(pathlib.Path(__file__).parents[2]), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "OMP_NUM_THREADS": str(threads),
            "LOCAL_WORLD_SIZE": str(ranks),
            "WORLD_SIZE": str(ranks),
            "TORCHREC_RESOLVED_POD_SIZE": "1",
            "PYTHONWARNINGS": "ignore",
        }
        processes = []
        try:
            for rank in range(ranks):
                with open(folder / f"errors_{rank}", "wb") as errors:
                    processes.append(
                        subprocess.Popen(
                            [sys.executable, "-m", "plimsoll.calibration._ranks", name, str(rank)],
                            env=environment | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
                            stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
                            stderr=errors,
                            text=True,
                        )
                    )
            output = processes[0].stdout
            assert output is not None
            for line in output:
                if line.startswith("{"):
                    yield json.loads(line)
            for rank, process in enumerate(processes):
                if process.wait():
                    said = (folder / f"errors_{rank}").read_text(errors="replace").strip().splitlines()
                    why = said[-1] if said else f"ended with {process.returncode}"
                    raise Error("internal", f"{job}, rank {rank}", why, f"try {job} with another backend or device")
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
                process.wait()
                if process.stdout:
                    process.stdout.close()


def _work(folder: str, rank: int) -> None:
    import torch
    import torch.distributed as dist

    task = json.loads((pathlib.Path(folder) / "task.json").read_text())
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    device = torch.device(task["device"], rank) if task["device"] != "cpu" else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    store = f"file://{folder}/store"
    dist.init_process_group(task["backend"], init_method=store, rank=rank, world_size=task["ranks"])
    module, function = JOBS[task["job"]]
    for value in getattr(importlib.import_module(module), function)(rank, task["ranks"], device, **task["arguments"]):
        if rank == 0:
            print(json.dumps(value), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    _work(sys.argv[1], int(sys.argv[2]))
