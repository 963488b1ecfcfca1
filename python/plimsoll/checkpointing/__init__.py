"""torch's planner of selective activation checkpointing, planned natively: no PuLP, no pwlf, no GPU.

    from plimsoll.checkpointing import parse_module_info, sac_milp
    decisions, recompute_ms, peak_bytes = sac_milp(parse_module_info(module_info), memory_budget=1.6, world_size=4)

Names, arguments, answers and errors are those of torch 2.13's `torch.distributed._tools` (`sac_ilp`, `ilp_utils`,
`sac_estimator`), whose objects are taken as they are. torch is imported by `aggregate_stats` and `SACEstimator` alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from plimsoll._records import to_document
from plimsoll.checkpointing._aggregate import aggregate_stats
from plimsoll.checkpointing._graph import (
    Graph,
    ModOrder,
    ModStats,
    ModuleInfo,
    Node,
    display_bytes,
    get_peak_memory_runtime_baseline,
    is_self_or_submodule,
    is_submodule,
    parse_module_info,
)
from plimsoll.checkpointing._milp import SACDecision, get_optimal_checkpointing_policy_per_module, sac_milp
from plimsoll.checkpointing._tradeoff import (
    MSPS,
    SACGreedyOrderMeta,
    SACStats,
    SACTradeOffStats,
    TradeOffs,
    display_sac_stats,
    display_sac_tradeoff_stats,
    fit_tradeoff_curve,
    greedy_order,
    plot_tradeoff_curve,
)

if TYPE_CHECKING:
    from plimsoll.checkpointing._estimator import SACEstimator as SACEstimator

__all__ = [
    "MSPS",
    "Graph",
    "ModOrder",
    "ModStats",
    "ModuleInfo",
    "Node",
    "SACDecision",
    "SACGreedyOrderMeta",
    "SACStats",
    "SACTradeOffStats",
    "TradeOffs",
    "aggregate_stats",
    "display_bytes",
    "display_sac_stats",
    "display_sac_tradeoff_stats",
    "fit_tradeoff_curve",
    "get_optimal_checkpointing_policy_per_module",
    "get_peak_memory_runtime_baseline",
    "greedy_order",
    "is_self_or_submodule",
    "is_submodule",
    "parse_module_info",
    "plot_tradeoff_curve",
    "sac_milp",
    "to_document",
]


def __getattr__(name: str) -> Any:
    if name == "SACEstimator":  # a subclass of torch's
        return import_module("plimsoll.checkpointing._estimator").SACEstimator
    raise AttributeError(f"module 'plimsoll.checkpointing' has no attribute '{name}'")
