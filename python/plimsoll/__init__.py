"""Plans how a distributed model is loaded onto its machines, and proves how good the plan is.

    >>> import plimsoll
    >>> plan = plimsoll.shard("mlperf-dlrm-dcnv2", on="dgx-h100:2", batch_size=4096)
    >>> print(plan.rating, plan.certificate.gap)

Every function takes what the command of its name takes (`plimsoll shard --help`): documents as dicts, paths or names
of what comes along, flags as keywords with underscores. The first Ctrl-C ends a search with the best plan so far, the
second raises. `progress(effort, incumbent, lower_bound)` is called while a search runs; what it raises ends the search.

`plimsoll.torchrec` has the planner for TorchRec; neither torch nor torchrec is imported here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from plimsoll._command import Document, Progress, call
from plimsoll._errors import Error
from plimsoll._native import __version__
from plimsoll.plans import (
    Answer,
    Certificate,
    CheckpointPolicy,
    CheckReport,
    Frontier,
    Placement,
    ShardingPlan,
)

if TYPE_CHECKING:
    from plimsoll import torchrec as torchrec

__all__ = [
    "Answer",
    "Certificate",
    "CheckReport",
    "CheckpointPolicy",
    "Error",
    "Frontier",
    "Placement",
    "ShardingPlan",
    "__version__",
    "check",
    "checkpoint",
    "frontier",
    "hardware",
    "models",
    "partition",
    "schema",
    "shard",
]


def __getattr__(name: str) -> Any:
    if name == "torchrec":  # on first use: it imports torch
        return import_module("plimsoll.torchrec")
    raise AttributeError(f"module 'plimsoll' has no attribute '{name}'")


def shard(model: Document, on: Document, *, progress: Progress | None = None, **flags: object) -> ShardingPlan:
    """Plans which rank holds which shard of which embedding table.

    Args:
        model: A model (plimsoll.model/1) as a dict or a path, or the name of one that comes along.
        on: Hardware: "dgx-h100:2", "16x40GiB", a topology (plimsoll.topology/1).
        progress: Called with (effort, objective, lower bound or None).
        flags: Those of `plimsoll shard`: batch_size, search, constraints, reservation, time_limit, effort, seed, ...
    """
    return ShardingPlan(call("shard", {"model": model}, {"on": on, **flags}, progress))


def checkpoint(
    stats: Document, budget: object, *, progress: Progress | None = None, **flags: object
) -> CheckpointPolicy:
    """Plans which activations are recomputed under a budget ("40 GiB", "70%").

    Args:
        stats: Module statistics (plimsoll.module_stats/1), or the name of some that come along.
        budget: Peak memory.
        progress: Called with (effort, ms, bound).
        flags: Those of `plimsoll checkpoint`: peak, costs, world_size, search, ...
    """
    return CheckpointPolicy(call("checkpoint", {"stats": stats}, {"budget": budget, **flags}, progress))


def frontier(stats: Document, *, progress: Progress | None = None, **flags: object) -> Frontier:
    """The least time of recomputing for every peak, exactly; arguments as of `checkpoint`."""
    return Frontier(call("checkpoint", {"stats": stats}, {"frontier": True, **flags}, progress))


def partition(graph: Document, *, progress: Progress | None = None, **flags: object) -> Placement:
    """Places the operators of a graph on devices; flags are those of `plimsoll partition`."""
    return Placement(call("partition", {"graph": graph}, flags, progress))


def check(model: Document, plan: Document | Answer, **flags: object) -> CheckReport:
    """Judges a plan without any of the code that searches.

    Args:
        model: What the plan is for: a model, module statistics or a graph.
        plan: A plan of any of the planners, TorchRec's own as JSON too.
        flags: Those of `plimsoll check`: on, batch_size, strict, ...
    """
    return CheckReport(call("check", {"model": model, "plan": plan}, flags))  # type: ignore[dict-item]


def models(name: str | None = None) -> dict[str, Any]:
    """The documents that come along, or one of them."""
    return call("models", {"name": name} if name else {}, {})


def hardware(name: str | None = None) -> dict[str, Any]:
    """Nodes, accelerators and planner presets whose id contains `name`."""
    return call("hardware", {"name": name} if name else {}, {})


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema of a document."""
    return call("schema", {"name": name}, {})
