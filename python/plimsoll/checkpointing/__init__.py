"""Activation checkpointing within a memory budget, and torch's planner of it under its own names.

    from plimsoll import checkpointing as ck
    plan = ck.fit(model, batch, budget="70%")  # profile, plan, apply

`profile` records a training step on fake tensors, `plan` chooses what is recomputed so that the measured peak of the
step is within the budget, `apply` and `remove` change the model, `verify` runs both steps and compares them.

torch's calls are planned natively, without PuLP, pwlf and GPU:

    from plimsoll.checkpointing import parse_module_info, sac_milp
    decisions, recompute_ms, peak_bytes = sac_milp(parse_module_info(module_info), memory_budget=1.6, world_size=4)

Names, arguments, answers and errors are those of torch 2.13's `torch.distributed._tools` (`sac_ilp`, `ilp_utils`,
`sac_estimator`), whose objects are taken as they are. torch is imported on first use of what needs it; plans and
frontiers are made without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from plimsoll._records import to_document
from plimsoll.checkpointing._aggregate import aggregate_stats
from plimsoll.checkpointing._graph import (
    Graph,
    ModOrder,
    ModRuntime,
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
from plimsoll.checkpointing._plan import Frontier, InfeasibleBudget, Plan, Unit, frontier, plan
from plimsoll.checkpointing._stats import Stats
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
    from plimsoll.checkpointing._apply import apply as apply
    from plimsoll.checkpointing._apply import remove as remove
    from plimsoll.checkpointing._estimator import SACEstimator as SACEstimator
    from plimsoll.checkpointing._memory import LiveBytes as LiveBytes
    from plimsoll.checkpointing._profile import profile as profile
    from plimsoll.checkpointing._times import Roofline as Roofline
    from plimsoll.checkpointing._verify import Report as Report
    from plimsoll.checkpointing._verify import fit as fit
    from plimsoll.checkpointing._verify import verify as verify

_NEEDS_TORCH = {  # found on first use
    "LiveBytes": "_memory",
    "Report": "_verify",
    "Roofline": "_times",
    "SACEstimator": "_estimator",  # a subclass of torch's
    "apply": "_apply",
    "fit": "_verify",
    "profile": "_profile",
    "remove": "_apply",
    "verify": "_verify",
}

__all__ = [
    "MSPS",
    "Frontier",
    "Graph",
    "InfeasibleBudget",
    "LiveBytes",
    "ModOrder",
    "ModRuntime",
    "ModStats",
    "ModuleInfo",
    "Node",
    "Plan",
    "Report",
    "Roofline",
    "SACDecision",
    "SACGreedyOrderMeta",
    "SACStats",
    "SACTradeOffStats",
    "Stats",
    "TradeOffs",
    "Unit",
    "aggregate_stats",
    "apply",
    "display_bytes",
    "display_sac_stats",
    "display_sac_tradeoff_stats",
    "fit",
    "fit_tradeoff_curve",
    "frontier",
    "get_optimal_checkpointing_policy_per_module",
    "get_peak_memory_runtime_baseline",
    "greedy_order",
    "is_self_or_submodule",
    "is_submodule",
    "parse_module_info",
    "plan",
    "plot_tradeoff_curve",
    "profile",
    "remove",
    "sac_milp",
    "to_document",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name == "integrations":
        return import_module("plimsoll.checkpointing.integrations")
    if name in _NEEDS_TORCH:
        return getattr(import_module(f"plimsoll.checkpointing.{_NEEDS_TORCH[name]}"), name)
    raise AttributeError(f"module 'plimsoll.checkpointing' has no attribute '{name}'")
