"""An offline planner for distributed PyTorch models: every plan comes with a bound on how much better any could be.

    >>> import plimsoll
    >>> plan = plimsoll.shard("mlperf-dlrm-dcnv2", on="dgx-h100:2", batch_size=4096)
    >>> print(plan.rating, plan.certificate.gap)

Every function takes what the command of its name takes (`plimsoll shard --help`): documents as dicts, paths or names
of what Plimsoll ships, flags as keywords with underscores. The first Ctrl-C or SIGTERM ends a search with the best plan
so far, the second raises. `progress(effort, incumbent, lower_bound)` is called while a search runs; what it raises ends
the search.

`plimsoll.torchrec` has the planner for TorchRec, `plimsoll.options` plans what it dumps, `plimsoll.fx` is torch.fx's
accelerator partitioner, `plimsoll.graphs` captures a model and splits it into pipeline stages, `plimsoll.checkpointing`
makes a training step fit a memory budget and has torch's planner of activation checkpointing, `plimsoll.calibration`
measures a machine; neither torch nor torchrec is imported here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from concurrent.futures import Executor
from importlib import import_module
from typing import TYPE_CHECKING, Any

from plimsoll._command import Document, Progress, call, call_page, call_text
from plimsoll._errors import Error, OutOfMemory
from plimsoll._flags import (
    CheckFlags,
    CheckpointFlags,
    ConvertFlags,
    DiffFlags,
    ExpertFlags,
    ExpertReplanFlags,
    FrontierFlags,
    PartitionFlags,
    PlanFlags,
    ReplanFlags,
    RobustFlags,
    ShardFlags,
    SizeFlags,
    WhatIfFlags,
    check_keywords,
)
from plimsoll._native import __version__
from plimsoll._records import Records, as_argument
from plimsoll._sweep import Numbers, sweep
from plimsoll.plans import (
    Answer,
    Certificate,
    CheckpointPolicy,
    CheckReport,
    Difference,
    ExpertPlan,
    Explanation,
    Frontier,
    MachineSize,
    Placement,
    Replan,
    RobustPlan,
    SavePolicy,
    ShardingPlan,
    TradeOffCurves,
    WhatIf,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from plimsoll import calibration as calibration
    from plimsoll import checkpointing as checkpointing
    from plimsoll import fx as fx
    from plimsoll import graphs as graphs
    from plimsoll import options as options
    from plimsoll import torchrec as torchrec
    from plimsoll.calibration import calibrate as calibrate

__all__ = [
    "Answer",
    "Certificate",
    "CheckReport",
    "CheckpointPolicy",
    "Difference",
    "Error",
    "ExpertPlan",
    "Explanation",
    "Frontier",
    "MachineSize",
    "OutOfMemory",
    "Placement",
    "Replan",
    "RobustPlan",
    "SavePolicy",
    "ShardingPlan",
    "TradeOffCurves",
    "WhatIf",
    "__version__",
    "calibrate",
    "check",
    "checkpoint",
    "convert",
    "diff",
    "explain",
    "frontier",
    "hardware",
    "models",
    "partition",
    "place_experts",
    "replan",
    "replan_experts",
    "report",
    "robust",
    "schema",
    "shard",
    "size",
    "trace",
    "whatif",
]


def __getattr__(name: str) -> Any:
    if name == "calibrate":
        return import_module("plimsoll.calibration").calibrate
    # On first use: fx and torchrec import torch.
    if name in ("calibration", "checkpointing", "fx", "graphs", "options", "torchrec"):
        return import_module(f"plimsoll.{name}")
    raise AttributeError(f"module 'plimsoll' has no attribute '{name}'")


def shard(
    model: Document, on: Document | None = None, *, progress: Progress | None = None, **flags: Unpack[ShardFlags]
) -> ShardingPlan:
    """Plans which rank holds which shard of which embedding table.

    Args:
        model: A model (plimsoll.model/1) as a dict or a path, or the name of a shipped one; or a dump of another
            planner's options (plimsoll.torchrec_options/1).
        on: Hardware: "dgx-h100:2", "16x40GiB", a topology (plimsoll.topology/1). A dump has its own.
        progress: Called with (effort, objective, lower bound or None).
        flags: Those of `plimsoll shard`: batch_size, search, constraints, reservation, time_limit, effort, seed, ...
    """
    check_keywords(shard, flags, ShardFlags)
    return ShardingPlan(call("shard", {"model": model}, {"on": on, **flags}, progress))


def checkpoint(
    stats: Document | Records,
    budget: object = None,
    *,
    progress: Progress | None = None,
    **flags: Unpack[CheckpointFlags],
) -> CheckpointPolicy:
    """Plans which activations are recomputed under a budget ("40 GiB", "70%").

    Args:
        stats: Module statistics (plimsoll.module_stats/1), or the name of shipped ones; torch's own, as a
            `ModuleInfo` or a `Graph`; or an operator table (torch's `SACStats`, too) or a partitioner's log, of which
            single values are chosen (`SavePolicy`).
        budget: Peak memory; of a table or log the share or the amount that may be kept. None where overhead="5%" or
            knee=True asks; where nothing does, the answer is the `Frontier`; with tradeoff=True the `TradeOffCurves`.
        progress: Called with (effort, ms or None, bound or None).
        flags: Those of `plimsoll checkpoint`: peak, costs, world_size, search ("torch" is `sac_milp`), ...
    """
    check_keywords(checkpoint, flags, CheckpointFlags)
    answer = call("checkpoint", {"stats": as_argument(stats)}, {"budget": budget, **flags}, progress)
    if "frontier" in answer:
        return Frontier(answer)
    kinds = {schema: kind for kind in (SavePolicy, TradeOffCurves) for schema in kind.SCHEMAS}
    return kinds.get(answer.get("schema", ""), CheckpointPolicy)(answer)


def frontier(
    stats: Document | Records, *, progress: Progress | None = None, **flags: Unpack[FrontierFlags]
) -> Frontier:
    """The least time of recomputing for every peak, exactly; arguments as of `checkpoint`."""
    check_keywords(frontier, flags, FrontierFlags)
    return Frontier(call("checkpoint", {"stats": as_argument(stats)}, {"frontier": True, **flags}, progress))


def partition(graph: Document, *, progress: Progress | None = None, **flags: Unpack[PartitionFlags]) -> Placement:
    """Places the operators of a graph on devices.

    Args:
        graph: A traced model (`torch.export.save`'s .pt2, ONNX), a graph with costs, a profile: a path, a dict of its
            JSON, or the name of a shipped graph.
        progress: Called with (effort, ms, bound).
        flags: Those of `plimsoll partition`: on="4xh100-sxm", devices, memory, objective="throughput" | "latency" |
            "pipeline" | "fx", microbatches, general, search, pin, forbid, cost_overlay, time_limit, effort, seed, ...

    Without a plan `status` says whether that is proved ("infeasible") or not ("limit"), and `explanation` why.
    """
    check_keywords(partition, flags, PartitionFlags)
    return Placement(call("partition", {"graph": graph}, flags, progress))


def convert(model: Document, plan: Document | Answer, to: str, **flags: Unpack[ConvertFlags]) -> dict[str, Any] | str:
    """A plan in the form of another program, for the arguments that it was made with.

    Args:
        model: What the plan is for.
        plan: A sharding plan or a placement, also of another program.
        to: For a sharding plan "torchrec" or "easyrec"; for a placement "callback" (each operator's stage, for
            torch.fx's split_module), "device_map" (accelerate's), "split_spec" (of torch.distributed.pipelining),
            "dnn_partitioning", "dot" (Graphviz: a text) or "plimsoll".
        flags: Those of `plimsoll convert`; options that a placement records are used where one is not given.
    """
    check_keywords(convert, flags, ConvertFlags)
    text, _ = call_text("convert", {"model": model, "plan": plan}, {"to": to, **flags})  # type: ignore[dict-item]
    return text if to == "dot" else json.loads(text)


def check(model: Document | Records, plan: Document | Answer, **flags: Unpack[CheckFlags]) -> CheckReport:
    """Validates a plan independently of the searches.

    Args:
        model: What the plan is for: a model, module statistics or a graph.
        plan: A plan of any of the planners, TorchRec's own as JSON too.
        flags: Those of `plimsoll check`: on, batch_size, strict, ...
    """
    check_keywords(check, flags, CheckFlags)
    return CheckReport(call("check", {"model": as_argument(model), "plan": plan}, flags))  # type: ignore[dict-item]


def diff(
    before: Document | Answer,
    after: Document | Answer,
    *,
    model: Document | Records | None = None,
    on: Document | None = None,
    **flags: Unpack[DiffFlags],
) -> Difference:
    """What differs between two plans: decisions, times, memory, and what moves from the one to the other.

    Args:
        before: A plan of any of the planners, also another program's.
        after: Another plan of that kind.
        model: What the plans are of; another program's plan needs it, and of sharding plans it gives bytes to move.
        on: Hardware of a sharding plan that states no figures.
        flags: Those of `plimsoll diff`: batch_size, devices, ...
    """
    check_keywords(diff, flags, DiffFlags)
    arguments = {"before": before, "after": after}
    options = {"model": None if model is None else as_argument(model), "on": on, **flags}
    return Difference(call("diff", arguments, options))  # type: ignore[arg-type]


def report(
    plan: Document | Answer,
    path: str | os.PathLike[str] | None = None,
    *,
    model: Document | Records | None = None,
    against: Document | Answer | None = None,
    title: str | None = None,
    fragment: bool = False,
    **flags: Unpack[PlanFlags],
) -> str:
    """A page that shows a plan: one HTML document that loads nothing. Notebooks show plans as this page.

    Args:
        plan: A plan of any of the planners, also another program's, or a sweep.
        path: File to write the page to.
        model: What the plan is of; another program's plan needs it, and a checkpointing plan for its schedule.
        against: Another plan of that kind: the page shows what differs from it.
        title: Title of the page.
        fragment: The page's body only, without scripts and so without charts.
        flags: Those of `plimsoll report`: on, batch_size, ...
    """
    check_keywords(report, flags, PlanFlags)
    shown = None if model is None else as_argument(model)
    options = {"model": shown, "against": against, "title": title, "fragment": fragment, **flags}
    page = call_page({"plan": plan}, options)  # type: ignore[dict-item]
    if path is not None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(page)
    return page


def trace(
    plan: Document | Answer,
    *,
    model: Document | Records | None = None,
    beside: Document | None = None,
    step: int | None = None,
    **flags: Unpack[PlanFlags],
) -> dict[str, Any]:
    """The step that a plan predicts, as trace events: written as JSON, https://ui.perfetto.dev opens it.

    Args:
        plan: A plan of any of the planners, also another program's.
        model: What the plan is of; a checkpointing plan and a placement for latency need it.
        beside: A trace that torch's profiler recorded, to be drawn on the same axis.
        step: Number of the recorded ProfilerStep to begin at (default: the last one).
        flags: Those of `plimsoll trace`: on, batch_size, ...
    """
    check_keywords(trace, flags, PlanFlags)
    options = {"model": None if model is None else as_argument(model), "beside": beside, "step": step, **flags}
    return call("trace", {"plan": plan}, options)  # type: ignore[dict-item]


def explain(
    model: Document,
    plan: Document | Answer | None = None,
    on: Document | None = None,
    *,
    progress: Progress | None = None,
    **flags: Unpack[ShardFlags],
) -> Explanation | ShardingPlan:
    """Explains what makes the time of a sharding plan and what would lower it, or why nothing fits.

    Args:
        model: What the plan is for; as of `shard`.
        plan: A plan, of Plimsoll or another program (default: make one).
        on: Hardware, as of `shard`.
        progress: As of `shard`.
        flags: Those of `plimsoll explain`, which are those of `plimsoll shard`.

    Returns:
        The `Explanation` of a plan; where nothing fits the `ShardingPlan` without tables, whose `explanation`,
        `missing_bytes`, `cap`, `conflict` and `fixes` say why, and what to change.
    """
    check_keywords(explain, flags, ShardFlags)
    documents: dict[str, Document] = {"model": model}
    if plan is not None:
        documents["plan"] = plan  # type: ignore[assignment]
    answer = call("explain", documents, {"on": on, **flags}, progress)
    return (Explanation if answer["schema"] in Explanation.SCHEMAS else ShardingPlan)(answer)


def replan(
    model: Document,
    plan: Document | Answer,
    on: Document | None = None,
    *,
    max_moved: str | None = None,
    price_of_move: float | None = None,
    was_on: Document | None = None,
    progress: Progress | None = None,
    **flags: Unpack[ReplanFlags],
) -> Replan:
    """The best plan that moves few bytes of the embedding tables, and the copies that lead to it.

    Args:
        model: What is planned now, its pooling factors or tables perhaps changed; as of `shard`.
        plan: The plan that is in use now, of Plimsoll or another program.
        on: Hardware now, perhaps with ranks more or fewer, as of `shard`.
        max_moved: Most bytes of weights and optimizer state to copy between ranks: "50GiB", or "10%" of all (the
            default, if there is no price either).
        price_of_move: Instead of a limit: minimize the time plus this many milliseconds for each GiB moved.
        was_on: Hardware that the plan was made for, if another program made it and it is not `on`.
        progress: As of `shard`.
        flags: Those of `plimsoll replan`: batch_size, objective, time_limit, effort, ...
    """
    check_keywords(replan, flags, ReplanFlags)
    asked = {"on": on, "max_moved": max_moved, "price_of_move": price_of_move, "was_on": was_on}
    documents: dict[str, Document] = {"model": model, "plan": plan}  # type: ignore[dict-item]
    return Replan(call("replan", documents, {**asked, **flags}, progress))


def robust(
    model: Document,
    on: Document | None = None,
    *,
    pooling: Document,
    quantile: float | str | None = None,
    cvar: float | str | None = None,
    progress: Progress | None = None,
    **flags: Unpack[RobustFlags],
) -> RobustPlan:
    """Plans embedding tables whose pooling factors are known as quantiles or samples.

    Args:
        model: What is planned, as of `shard`.
        on: Hardware, as of `shard`.
        pooling: How pooling factors are distributed (plimsoll.pooling_factors/1): {"tables": {"t": {"p50": 10,
            "p95": 30}}}.
        quantile: Minimize this quantile over the scenarios: 0.95 (the default) or "95%".
        cvar: Instead minimize the mean of the worst scenarios: of the worst 5 % with 0.95.
        progress: As of `shard`.
        flags: Those of `plimsoll robust`: batch_size, objective, scenarios, seed, effort, ...
    """
    check_keywords(robust, flags, RobustFlags)
    levels = {"quantile": quantile, "cvar": cvar}
    asked = {"on": on, **{name: level if level is None else str(level) for name, level in levels.items()}}
    return RobustPlan(call("robust", {"model": model}, {**asked, "pooling": pooling, **flags}, progress))


def place_experts(model: Document, *, progress: Progress | None = None, **flags: Unpack[ExpertFlags]) -> ExpertPlan:
    """Places replicas of experts on ranks, so that the slowest ranks carry little.

    Args:
        model: Loads, slots, groups, hosts and ranks (plimsoll.experts/1).
        progress: As of `shard`.
        flags: Those of `plimsoll shard` that experts know: search ("eplb": EPLB's placement), time_limit, effort,
            seed, tolerance.
    """
    check_keywords(place_experts, flags, ExpertFlags)
    return ExpertPlan(call("shard", {"model": model}, flags, progress))


def replan_experts(
    model: Document,
    plan: Document | ExpertPlan,
    *,
    max_moved: str | int | None = None,
    progress: Progress | None = None,
    **flags: Unpack[ExpertReplanFlags],
) -> ExpertPlan:
    """A better placement of experts that copies few replicas.

    Args:
        model: The loads of now (plimsoll.experts/1), the ranks perhaps more or fewer.
        plan: The placement in use: Plimsoll's, or EPLB's `physical_to_logical_map` with `num_ranks`.
        max_moved: Most replicas to copy to ranks without the expert: 64, or "10%" of all slots (the default).
        progress: As of `shard`.
        flags: Those of `plimsoll replan` that experts know: time_limit, effort, seed, tolerance.
    """
    check_keywords(replan_experts, flags, ExpertReplanFlags)
    documents: dict[str, Document] = {"model": model, "plan": plan}  # type: ignore[dict-item]
    return ExpertPlan(call("replan", documents, {"max_moved": max_moved, **flags}, progress))


def size(
    model: Document,
    on: str | Sequence[str] | None = None,
    *,
    accelerator: str | Sequence[str] | None = None,
    within: str | None = None,
    price: Document | None = None,
    max_ranks: int | None = None,
    progress: Progress | None = None,
    **flags: Unpack[SizeFlags],
) -> MachineSize:
    """The smallest or cheapest machine that has a plan, or one within a time.

    Args:
        model: An embedding model or an operator graph.
        on: Kinds of hardware, without a number: "dgx-h100", ["dgx-h100", "dgx-a100-320gb"].
        accelerator: Accelerators instead of `on`: "h100-sxm".
        within: Largest time of the plan, such as "5ms".
        price: Prices per hour (plimsoll.prices/1).
        max_ranks: Ranks of the largest machine to try (default: 512).
        progress: Called with (machines tried, ms or None, bound or None).
        flags: Those of `plimsoll size`: batch_size, objective, memory, time_limit, effort, seed, ...
    """
    check_keywords(size, flags, SizeFlags)
    asked = {
        "on": _listed(on),
        "accelerator": _listed(accelerator),
        "within": within,
        "price": price,
        "max_ranks": max_ranks,
    }
    return MachineSize(call("size", {"model": model}, {**asked, **flags}, progress))


def whatif(
    model: Document,
    on: str | Sequence[str],
    *,
    ranks: Numbers | None = None,
    batch_size: Numbers | None = None,
    price: Document | None = None,
    objective: str = "time",
    threads: int | None = None,
    resume: Document | WhatIf | None = None,
    executor: Executor | None = None,
    parts: int | None = None,
    progress: Progress | None = None,
    **flags: Unpack[WhatIfFlags],
) -> WhatIf:
    """Plans for many machines and batch sizes.

    Args:
        model: As of `shard`.
        on: Kinds of hardware: ["dgx-a100-320gb", "dgx-h100"].
        ranks: "8:128" (powers of two), "8:128:8" (steps), a number, or a list of numbers.
        batch_size: Samples per rank, in the same form (default: the model's own).
        price: Prices per hour (plimsoll.prices/1).
        objective: "time", "step" or "rating".
        threads: Machines planned at once (default: all cores; 1 in each part of an executor).
        resume: An earlier answer whose rows are kept, such as one that was cut.
        executor: An executor of `concurrent.futures` that runs parts of the sweep; the rows are the same without one.
        parts: Number of parts (default: 8).
        progress: Called with (points planned, None, None); with an executor with (parts, None, None).
        flags: Those of `plimsoll whatif`: optimizer, reservation, hbm_cap, time_limit, effort, seed, ...
    """
    check_keywords(whatif, flags, WhatIfFlags)
    asked = {"on": _listed(on), "price": price, "objective": objective, "resume": resume, **flags}
    return WhatIf(sweep(model, asked, ranks, batch_size, threads, executor, parts, progress))


def _listed(names: str | Sequence[str] | None) -> str | None:
    return names if names is None or isinstance(names, str) else ",".join(names)


def models(name: str | None = None) -> dict[str, Any]:
    """The shipped documents, or one of them."""
    return call("models", {"name": name} if name else {}, {})


def hardware(name: str | None = None) -> dict[str, Any]:
    """Nodes, accelerators and planner presets whose id contains `name`."""
    return call("hardware", {"name": name} if name else {}, {})


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema of a document."""
    return call("schema", {"name": name}, {})
