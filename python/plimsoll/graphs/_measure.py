"""Times of operators, measured by running them one by one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx.node import Node

REPEATS = 5


class _Clock(torch.fx.Interpreter):
    """Runs a graph and keeps the least time of each operator."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module)
        self.ms: dict[Node, float] = {}
        self._copies: dict[str, Any] = {}

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        value = super().get_attr(target, args, kwargs)
        if not isinstance(value, torch.Tensor) or isinstance(value, torch.nn.Parameter):
            return value
        return self._copies.setdefault(target, value.clone())  # batch norm writes into its buffers

    def run_node(self, n: Node) -> Any:
        if n.op != "call_function":
            return super().run_node(n)
        start = _now()
        value = super().run_node(n)
        ms = (_now() - start) * 1000
        self.ms[n] = min(ms, self.ms.get(n, ms))
        return value


def _now() -> float:
    """Seconds: of this thread on a CPU, which leaves out what else the machine does; else when the device is done."""
    if not torch.cuda.is_available():
        return time.thread_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def measure(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> dict[Node, float]:
    """The least time of each operator in some runs, in ms; the state of random generators is kept."""
    clock = _Clock(module)
    with torch.random.fork_rng(), torch.no_grad():
        for _ in range(REPEATS):
            clock.run(*inputs, enable_io_processing=False)
    return clock.ms
