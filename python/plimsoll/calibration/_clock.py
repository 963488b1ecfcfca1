"""Times of repeated calls, and what other programs took meanwhile."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

CONTENDED_CORES = 0.1  # of other programs
TRIES = 3


def busy_seconds() -> float | None:
    """Of all cores since boot, with what the hypervisor took; None where /proc/stat is not there."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
    except (OSError, ValueError):
        return None
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


class Window:
    """What other programs take between `start` and `foreign`."""

    def __init__(self) -> None:
        self._busy = busy_seconds()
        self._begin = time.perf_counter()
        self._own = time.process_time()

    def seconds(self) -> float:
        return time.perf_counter() - self._begin

    def foreign(self, others: float = 0.0) -> float:
        """Cores, without this process and `others` processor seconds; 0 where that is not known."""
        busy, seconds = busy_seconds(), self.seconds()
        if busy is None or self._busy is None or seconds <= 0:
            return 0.0
        own = time.process_time() - self._own + others
        return max(0.0, (busy - self._busy - own) / seconds)


@dataclass
class Sample:
    """Of one call, repeated.

    Attributes:
        ms, low_ms: Median and 10th percentile on the clock.
        cpu_ms: 10th percentile of the process's processor time.
        samples: How many calls.
        foreign: Cores that other programs took.
    """

    ms: float
    low_ms: float
    cpu_ms: float
    samples: int
    foreign: float

    @property
    def contended(self) -> bool:
        return self.foreign > CONTENDED_CORES

    def document(self) -> dict[str, Any]:
        return {
            "ms": self.ms,
            "low_ms": self.low_ms,
            "cpu_ms": self.cpu_ms,
            "samples": self.samples,
            "foreign_share": self.foreign,
            "contended": self.contended,
        }


def summarize(clock: Sequence[float], cpu: Sequence[float], foreign: float) -> Sample:
    """Of seconds of every call."""
    low, middle = np.quantile(clock, [0.1, 0.5]) * 1e3
    return Sample(float(middle), float(low), float(np.quantile(cpu, 0.1) * 1e3), len(clock), foreign)


def repeat(
    calls: Sequence[Callable[[], Any]],
    synchronize: Callable[[], None],
    seconds: float,
    least: int = 4,
    most: int = 40,
) -> list[Sample]:
    """Of every one of `calls`, which are made in turn; one round of warm-up, then `least` to `most` in `seconds`."""
    for call in calls:
        call()
    synchronize()
    clock: list[list[float]] = [[] for _ in calls]
    cpu: list[list[float]] = [[] for _ in calls]
    window = Window()
    while len(clock[0]) < least or (len(clock[0]) < most and window.seconds() < seconds):
        for i, call in enumerate(calls):
            begin, begin_cpu = time.perf_counter(), time.process_time()
            call()
            synchronize()
            clock[i].append(time.perf_counter() - begin)
            cpu[i].append(time.process_time() - begin_cpu)
    foreign = window.foreign()
    return [summarize(clock[i], cpu[i], foreign) for i in range(len(calls))]


def fitted_ms(point: dict[str, Any], is_processor: bool) -> float:
    """What is fitted of a measured point: the 10th percentile, of processor time where others took the clock."""
    return float(point["cpu_ms"] if is_processor and point["contended"] else point["low_ms"])


def synchronizer(device: Any) -> Callable[[], None]:
    """Waits for the torch.device."""
    if device.type == "cpu":
        return lambda: None
    import torch

    wait: Callable[[], None] = torch.cuda.synchronize
    return wait
