"""Pipeline stages for PyTorch models: capture a module, plan its stages natively, split it.

    >>> from plimsoll import graphs
    >>> graph = graphs.capture(model, (tokens,), loss=loss, target=targets)  # of one microbatch
    >>> plan = graphs.partition(graph, 4, on="h100-sxm", objective="pipeline", microbatches=8)
    >>> stages = plan.split()  # modules for torch.distributed.pipelining.PipelineStage

`capture` needs torch, and so does what a plan makes for it; `load` and `partition` do not.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from plimsoll._extras import need
from plimsoll.graphs._graph import Graph, Operator, load
from plimsoll.graphs._partition import partition
from plimsoll.graphs._plan import Plan, Stage, TiedWeight

if TYPE_CHECKING:
    from plimsoll.graphs._capture import capture

__all__ = ["Graph", "Operator", "Plan", "Stage", "TiedWeight", "capture", "load", "partition"]


def __getattr__(name: str) -> Any:
    if name == "capture":  # the only one that imports torch
        need("torch", "torch")
        return import_module("plimsoll.graphs._capture").capture
    raise AttributeError(f"module 'plimsoll.graphs' has no attribute '{name}'")
