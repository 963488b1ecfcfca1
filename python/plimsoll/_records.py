"""torch's records as our documents: no torch is needed to read them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Union

import numpy as np
import numpy.typing as npt

from plimsoll._errors import Error

MODULE_KEYS = (
    "fqn",
    "is_leaf",
    "param_per_module",
    "grad_per_module",
    "grad_total",
    "act_fw_per_module",
    "act_bw_per_module",
    "act_grad_per_module",
    "act_total",
    "input_per_module",
    "output_per_module",
    "fw_runtime_per_module",
    "bw_runtime_per_module",
    "sac_runtime",
    "sac_memory",
    "requires_grad",
    "total_peak_fw",
    "total_post_fw",
    "total_pre_bw",
    "total_peak_bw",
)
TABLE_KEYS = ("func_names", "runtimes", "memory", "view_like_ops", "rand_ops", "saved_autograd_ops", "inplace_ops")


class GraphLike(Protocol):
    """A `Graph`, ours or torch's."""

    @property
    def nodes(self) -> Sequence[Mapping[str, Any]]: ...
    @property
    def name2node(self) -> Mapping[str, Mapping[str, Any]]: ...
    @property
    def ad_matrix(self) -> npt.NDArray[np.float64]: ...
    @property
    def fw_post_order(self) -> Sequence[str]: ...


class SACStatsLike(Protocol):
    """A `SACStats`, ours or torch's."""

    func_names: list[str]
    runtimes: list[float]
    memory: list[int]
    view_like_ops: list[int]
    rand_ops: list[int]
    saved_autograd_ops: list[int]
    inplace_ops: list[tuple[int, int]]
    force_store_random: bool


Records = Union[GraphLike, SACStatsLike]


def is_graph(value: object) -> bool:
    """A `Graph`, ours or torch's?"""
    return all(hasattr(value, name) for name in ("nodes", "name2node", "fw_post_order"))


def is_module_info(value: object) -> bool:
    """A `ModuleInfo`, as torch's functions leave it?"""
    return isinstance(value, Mapping) and "mod_stats" in value and "mod_order" in value


def is_table(value: object) -> bool:
    """An operator table (`SACStats`), ours or torch's, or the same as a dict?"""
    if isinstance(value, Mapping):
        return all(name in value for name in TABLE_KEYS[:3])
    return all(hasattr(value, name) for name in TABLE_KEYS)


def table_document(table: Any) -> dict[str, Any]:
    """One operator table (plimsoll.sac_stats/1)."""
    if isinstance(table, Mapping):
        return dict(table)
    return {name: list(getattr(table, name)) for name in TABLE_KEYS} | {
        "force_store_random": bool(table.force_store_random)
    }


def has_finite_fit(node: Mapping[str, Any]) -> bool:
    """Are there pieces, and none of them NaN or infinite?"""
    pieces = [*node.get("slopes", ()), *node.get("intercepts", ())]
    return bool(pieces) and all(map(math.isfinite, pieces))


def module_record(node: Mapping[str, Any]) -> dict[str, Any]:
    """One module as our documents have it, without what is derived.

    A fit that failed (pwlf returns NaN for a curve of one point) is left out.
    """
    record = {key: node[key] for key in MODULE_KEYS if key in node}
    if has_finite_fit(node):
        record["slopes"] = list(node["slopes"])[: node["n_segments"]]
        record["intercepts"] = list(node["intercepts"])[: node["n_segments"]]
        record["n_segments"] = len(record["slopes"])
        breakpoints = list(node.get("breakpoints", ()))
        if len(breakpoints) == len(record["slopes"]) + 1 and all(map(math.isfinite, breakpoints)):
            record["breakpoints"] = breakpoints
    curve = node.get("tradeoff_curve") or {}
    points = curve.items() if isinstance(curve, Mapping) else curve
    if points:
        record["tradeoff_curve"] = [[float(x), float(y)] for x, y in points]
    return record


def _pre_order(nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names as their forwards begin, which a `Graph` does not keep: parents first, siblings as they return."""
    known = {node["fqn"] for node in nodes}
    children: dict[str, list[str]] = {}
    for node in sorted(nodes, key=lambda node: node["pos_fw_post_order"]):
        above = node["fqn"].rpartition(".")[0]
        while above and above not in known:
            above = above.rpartition(".")[0]
        children.setdefault(above, []).append(node["fqn"])
    order: list[str] = []
    ahead = children.get("", [])[::-1]
    while ahead:
        order.append(ahead.pop())
        ahead += children.get(order[-1], [])[::-1]
    return order


def _put_tables(document: dict[str, Any], tables: Mapping[str, Any]) -> None:
    """Operator tables of the modules that have a record, equal ones once."""
    known = {record["fqn"] for record in document["mod_stats"]}
    distinct: dict[str, int] = {}
    document["sac_stats"], document["sac_stats_of"] = [], {}
    for fqn, table in tables.items():
        if fqn not in known:  # "Global"
            continue
        found = table_document(table)
        place = distinct.setdefault(repr(found), len(distinct))
        if place == len(document["sac_stats"]):
            document["sac_stats"].append(found)
        document["sac_stats_of"][fqn] = place


def to_document(stats: Any, sac_stats: Any = None) -> dict[str, Any]:
    """Records of torch as a document that `plimsoll.checkpoint` and the command line read.

    Args:
        stats: A `ModuleInfo`, also one that `parse_module_info` has written into; a `Graph`; or a `SACStats`. Ours or
            torch's, the last also as a dict.
        sac_stats: Operator tables by module: a dict, or an estimator that has one (`sac_mod_stats`). With them, plans
            choose whole operators (docs/checkpoint.md), without them shares of each module by its fit.

    Raises:
        Error: It is none of these.
    """
    if is_table(stats):
        return {"schema": "plimsoll.sac_stats/1", **table_document(stats)}
    if is_graph(stats):
        nodes: Sequence[Mapping[str, Any]] = stats.nodes
        order: Mapping[str, Any] = {
            "fw_pre_order": _pre_order(nodes),
            "fw_post_order": list(stats.fw_post_order),
        }
        rest: Mapping[str, Any] = {}
    elif is_module_info(stats):
        nodes = stats["mod_stats"]
        if all("index" in node for node in nodes):  # parse_module_info sorted them
            nodes = sorted(nodes, key=lambda node: node["index"])
        order = stats["mod_order"]
        rest = {key: value for key, value in stats.items() if key not in ("mod_stats", "mod_order")}
    else:
        raise Error(
            "value",
            "stats",
            f"{type(stats).__name__} is not a ModuleInfo, Graph or SACStats",
            "give what aggregate_stats or parse_module_info returned",
        )
    document: dict[str, Any] = {**rest, "mod_order": dict(order), "mod_stats": [module_record(node) for node in nodes]}
    if sac_stats is not None:
        _put_tables(document, getattr(sac_stats, "sac_mod_stats", sac_stats))
    return document


def as_argument(value: Any) -> Any:
    """torch's objects as documents, everything else as it is."""
    if is_graph(value) or (is_table(value) and not isinstance(value, Mapping)):
        return to_document(value)
    if is_module_info(value) and any(node.get("slopes") and not has_finite_fit(node) for node in value["mod_stats"]):
        return to_document(value)  # JSON has no NaN
    return value
