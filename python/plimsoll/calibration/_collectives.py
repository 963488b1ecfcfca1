"""Measures torch.distributed's collectives by size, on every rank of a job."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist

from plimsoll.calibration._clock import Window, summarize, synchronizer

OPERATIONS = ("all_to_all", "reduce_scatter", "all_gather", "all_reduce")
SIZES = tuple(1 << power for power in range(10, 27))  # 1 KiB to 64 MiB


def _call(operation: str, size: int, ranks: int, device: torch.device) -> Callable[[], Any]:
    """A call in which a rank's larger buffer has `size` bytes, rounded up to equal shares."""
    share = max(1, -(-size // (4 * ranks)))
    whole = torch.zeros(share * ranks, device=device)
    part = torch.zeros(share, device=device)
    if operation == "all_to_all":
        received = torch.empty_like(whole)
        return lambda: dist.all_to_all_single(received, whole)
    if operation == "reduce_scatter":
        return lambda: dist.reduce_scatter_tensor(part, whole)
    if operation == "all_gather":
        return lambda: dist.all_gather_into_tensor(whole, part)
    return lambda: dist.all_reduce(whole)


def measure_collectives(
    rank: int, ranks: int, device: torch.device, wanted: list[list[Any]], seconds: float, most: int = 200
) -> Iterator[dict[str, Any]]:
    """A sample for every (operation, bytes) of `wanted`: every call's slowest rank, 5 to `most` calls in `seconds`."""
    synchronize = synchronizer(device)
    for operation, size in wanted:
        call = _call(operation, size, ranks, device)
        call()
        begin = time.perf_counter()
        call()
        synchronize()
        slowest = torch.tensor([time.perf_counter() - begin], device=device)
        dist.all_reduce(slowest, dist.ReduceOp.MAX)
        count = min(most, max(5, int(seconds / max(float(slowest), 1e-7))))
        clock, cpu = [], []
        window, own = Window(), time.process_time()
        for _ in range(count):
            begin, begin_cpu = time.perf_counter(), time.process_time()
            call()
            synchronize()
            clock.append(time.perf_counter() - begin)
            cpu.append(time.process_time() - begin_cpu)
        answers: list[Any] = [None] * ranks
        dist.all_gather_object(answers, (clock, cpu, time.process_time() - own))
        foreign = window.foreign(sum(answer[2] for i, answer in enumerate(answers) if i != rank))
        of_all = [[max(values) for values in zip(*(answer[i] for answer in answers))] for i in (0, 1)]
        yield {"operation": operation, "bytes": size, **summarize(*of_all, foreign).document()}
