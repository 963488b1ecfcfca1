"""torch's `sac_milp` and its policy of one module, solved by our own exact searches."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

from plimsoll._command import call
from plimsoll._errors import Error
from plimsoll._records import GraphLike, SACStatsLike, to_document
from plimsoll.checkpointing._graph import is_submodule

logger = logging.getLogger("plimsoll.checkpointing")

GIB = 2**30
MOST_BYTES = 2**50  # that a budget may have


class SACDecision(IntEnum):
    """What becomes of an operator's output."""

    RECOMPUTE = 0
    SAVE = 1


def sac_milp(
    graph: GraphLike,
    memory_budget: float,
    world_size: int = 1,
    ac_units: list[str] | None = None,
    fsdp_units: list[str] | None = None,
) -> tuple[dict[str, float], float, int]:
    """Which modules to checkpoint, and which share of its activations each discards.

    The program is that of torch 2.13; the answer is its optimum, where torch's solver stops within 5 % of it or after
    180 s. As torch's function it raises a module's `sac_memory` to its `act_fw_per_module` in the graph.

    Args:
        graph: From `parse_module_info`, ours or torch's.
        memory_budget: GiB.
        world_size: Ranks that parameters and gradients are sharded over.
        ac_units: Modules that may be units; None or an empty list: all.
        fsdp_units: FSDP's units, which no unit may hold inside.

    Returns:
        The share of `sac_memory` that each unit discards; the milliseconds of recomputation; the peak in bytes, where
        torch returns any number between it and the budget. ({}, 0, -1) where nothing fits.

    Raises:
        ZeroDivisionError: A module that is not a leaf keeps nothing and has no `sac_memory`; or `world_size` is 0.
        Error: A module that could be a unit has no price: no slopes, and no curve or operator table to fit them to.
    """
    ranks = _whole_ranks(world_size)
    if not math.isfinite(memory_budget):
        raise Error("value", "memory_budget", f"memory_budget is {memory_budget}", "give a finite number of GiB")
    _raise_sac_memory(graph)
    _warn_of_strangers(graph, ac_units, "ac_units")
    _warn_of_strangers(graph, fsdp_units, "fsdp_units")
    document = to_document(graph)
    for record, node in zip(document["mod_stats"], graph.nodes):
        record["is_leaf"] = not _may_be_unit(node, ac_units, fsdp_units)  # torch makes no leaf a unit
    # Our bytes are whole, and shares of ranks are rounded up: so is the budget.
    budget = math.ceil(min(max(memory_budget, -1), MOST_BYTES // GIB) * GIB)
    if budget < 0 or ranks < 0:
        return _no_plan("Infeasible")
    rules: dict[str, Any] = {"budget": budget, "world_size": ranks, "costs": "fit", "peak": "torch"}
    answer = call("checkpoint", {"stats": document}, rules) if _is_tree(graph) else {}
    if answer and "units" not in answer:
        return _no_plan("Infeasible" if answer["status"] == "infeasible" else "Not Solved")
    if not answer or not _keeps_upstreams_rows(graph, answer["units"]):
        # Rules that only torch's own program has: its big-M, activations that are not negative, odd trees.
        answer = call("checkpoint", {"stats": document}, {**rules, "costs": None, "peak": None, "search": "torch"})
        if "units" not in answer:
            return _no_plan("Infeasible" if answer["status"] == "infeasible" else "Not Solved")
    units = {unit["fqn"]: round(unit["discard_ratio"], 4) for unit in answer["units"]}
    predicted = answer["predicted"]
    return (
        {node["fqn"]: units[node["fqn"]] for node in graph.nodes if node["fqn"] in units},
        round(predicted["recompute_ms"], 2),
        min(predicted["peak_bytes"], math.floor(memory_budget * GIB)),
    )


def _no_plan(status: str) -> tuple[dict[str, float], float, int]:
    logger.error("Solver failed to find a solution: %s", status)
    return {}, 0, -1


def _whole_ranks(world_size: float) -> int:
    if world_size == 0:
        raise ZeroDivisionError("world_size is 0")
    if world_size != int(world_size):
        raise Error("value", "world_size", f"world_size is {world_size}", "give a whole number of ranks")
    return int(world_size)


def _raise_sac_memory(graph: GraphLike) -> None:
    """Of modules that keep more than their operators make; torch logs five lines for each, we one for all."""
    raised: list[str] = []
    for node in graph.nodes:
        if node["is_leaf"]:
            continue
        if node["sac_memory"] < node["act_fw_per_module"]:
            raised.append(f"{node['fqn']} ({node['sac_memory']} to {node['act_fw_per_module']} bytes)")
            node["sac_memory"] = node["act_fw_per_module"]  # type: ignore[index]
        if node["sac_memory"] == 0:
            raise ZeroDivisionError(f"{node['fqn']} is not a leaf, and its operators take no memory; mark it as a leaf")
    if raised:
        more = f" and {len(raised) - 3} more" if len(raised) > 3 else ""
        logger.warning(
            "The activation memory from the memory tracker is larger than that from the SAC estimator and replaces it: "
            "%s%s",
            ", ".join(raised[:3]),
            more,
        )


def _warn_of_strangers(graph: GraphLike, units: Sequence[str] | None, name: str) -> None:
    strangers = [unit for unit in units or () if unit not in graph.name2node]
    if strangers:
        logger.warning("%s name no module that ran: %s", name, ", ".join(strangers))


def _may_be_unit(node: Mapping[str, Any], ac_units: Sequence[str] | None, fsdp_units: Sequence[str] | None) -> bool:
    fqn = node["fqn"]
    is_asked = not ac_units or fqn in ac_units
    return not node["is_leaf"] and is_asked and not any(is_submodule(unit, fqn) for unit in fsdp_units or ())


def _is_tree(graph: GraphLike) -> bool:
    """Does the matrix say what the names say, so that our own search sees the same tree?"""
    pairs = 0
    for node in graph.nodes:
        above = node["fqn"]
        while above:
            if above in graph.name2node:
                if graph.ad_matrix[graph.name2node[above]["index"]][node["index"]] != 1:
                    return False
                pairs += 1
            above = above.rpartition(".")[0]
    return bool(graph.ad_matrix.sum() == pairs)


def _keeps_upstreams_rows(graph: GraphLike, units: Sequence[Mapping[str, Any]]) -> bool:
    """Is our optimum a point of torch's program, which has rows that ours leaves out? Then it is its optimum, too."""
    discarded = {unit["fqn"]: unit["discarded_bytes"] for unit in units}
    recompute_ms = {unit["fqn"]: unit["recompute_ms"] for unit in units}
    big_m = max(100, 2 * max((node["sac_runtime"] for node in graph.nodes), default=1))
    for node in graph.nodes:
        if node["fqn"] in discarded:
            ms = recompute_ms[node["fqn"]]
        else:
            ms = node["sac_runtime"] * max(0, *node["intercepts"][: node["n_segments"]], 0)
        if ms > big_m:
            return False
    gone = 0
    for fqn in graph.fw_post_order:
        node = graph.name2node[fqn]
        if node["act_total"] + node["act_grad_per_module"] < gone:
            return False
        gone += discarded.get(fqn, 0)
    return True


def get_optimal_checkpointing_policy_per_module(
    sac_stats: SACStatsLike | Mapping[str, Any], memory_budget: float
) -> list[int]:
    """Which operators of a module to save (1) and which to recompute (0) within a share of their memory.

    The program is that of torch 2.13; the answer is its optimum, where torch's solver stops within 5 % of it.

    Args:
        sac_stats: The module's `SACStats`, ours or torch's, or the same as a dict.
        memory_budget: From 0 to 1; one less what `sac_milp` discards.

    Returns:
        A decision an operator; [] where what must be saved does not fit.

    Raises:
        ValueError: The budget is not such a share.
    """
    if not (0 <= memory_budget <= 1):
        raise ValueError(f"`memory_budget` must be a float between 0 and 1. Got {memory_budget}.")
    table = to_document(sac_stats)
    if not table["func_names"]:
        return []
    answer = call("checkpoint", {"table": table}, {"budget": repr(float(memory_budget)), "search": "torch"})
    if "values" not in answer:
        logger.error("Solver failed to find a solution: %s", "Infeasible")
        return []
    return [int(value["save"]) for value in answer["values"]]
