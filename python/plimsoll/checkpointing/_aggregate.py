"""The records of torch's trackers, gathered: needs torch, whose objects it reads."""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from plimsoll._errors import Error
from plimsoll._records import to_document
from plimsoll.checkpointing._graph import ModStats, ModuleInfo
from plimsoll.checkpointing._tradeoff import SACTradeOffStats, fit_tradeoff_curve

if TYPE_CHECKING:
    import torch
    from torch.distributed._tools.mem_tracker import MemTracker
    from torch.distributed._tools.runtime_estimator import RuntimeEstimator
    from torch.distributed._tools.sac_estimator import SACEstimator

logger = logging.getLogger("plimsoll.checkpointing")


def aggregate_stats(
    model: torch.nn.Module,
    mem_tracker: MemTracker,
    runtime_estimator: RuntimeEstimator,
    sac_estimator: SACEstimator,
    dev: torch.device,
) -> ModuleInfo:
    """Memory, times and trade-off of every module that ran.

    As torch's function, with three differences: curves are fitted here, without pwlf; a module whose curve cannot be
    fitted is recorded as a leaf, and one without a backward has no gradients, where torch's function fails.

    Args:
        model: The module that ran.
        mem_tracker: torch's trackers of a step, memory,
        runtime_estimator: times,
        sac_estimator: and operators; its `sac_mod_tradeoff_stats` are filled.
        dev: The device that the model ran on.
    """
    tracked: Any = mem_tracker.memory_tracking
    runtimes = runtime_estimator.mod_runtimes
    curves = _fit_curves(sac_estimator)
    module_info: ModuleInfo = {
        "mod_order": {
            "fw_pre_order": list(runtime_estimator.mod_fw_pre_order),
            "bw_pre_order": list(runtime_estimator.mod_bw_pre_order),
            "fw_post_order": list(runtime_estimator.mod_fw_post_order),
            "bw_post_order": list(runtime_estimator.mod_bw_post_order),
        },
        "mod_stats": [],
    }
    for module in model.modules():
        memory = tracked.get(module)
        if memory is not None:
            curve = curves.get(memory.mod_fqn)
            module_info["mod_stats"].append(_stats_of(memory, runtimes[memory.mod_fqn], curve, dev))
    return module_info


def _fit_curves(sac_estimator: SACEstimator) -> dict[str, SACTradeOffStats]:
    fitted: dict[str, SACTradeOffStats | None] = {}  # by table: layers are alike
    failed: list[str] = []
    curves: dict[str, SACTradeOffStats] = {}
    for fqn, table in sac_estimator.sac_mod_stats.items():
        key = repr(to_document(table))
        if key not in fitted:
            try:
                fitted[key] = fit_tradeoff_curve(table)
            except (ZeroDivisionError, Error):
                fitted[key] = None
        curve = fitted[key]
        if curve is None:
            failed.append(fqn)
        else:
            curves[fqn] = curve
            sac_estimator.sac_mod_tradeoff_stats[fqn] = curve  # type: ignore[assignment]
    if failed:
        logger.warning("No trade-off curve can be fitted for %s: recorded as leaves, never units", ", ".join(failed))
    return curves


def _stats_of(memory: Any, runtime: Any, curve: SACTradeOffStats | None, dev: torch.device) -> ModStats:
    from torch.distributed._tools.mem_tracker import _MemRefType, _ModState

    def bytes_at(state: _ModState, category: _MemRefType) -> int:
        snapshots = memory.snapshots.get(state)  # none: it had no backward
        held: int = snapshots[-1].get(dev, {}).get(category, 0) if snapshots else 0
        return held

    act, temp = _MemRefType.ACT, _MemRefType.TEMP
    kept = bytes_at(_ModState.POST_FW, act) - bytes_at(_ModState.PRE_FW, act) - memory.output_mem
    return {
        "fqn": memory.mod_fqn,
        "param_per_module": memory.parameter_mem,
        "grad_per_module": memory.parameter_mem,
        "grad_total": bytes_at(_ModState.PRE_BW, _MemRefType.GRAD),
        "act_fw_per_module": max(0, kept),
        "act_bw_per_module": max(0, bytes_at(_ModState.PEAK_BW, act)),
        "act_grad_per_module": bytes_at(_ModState.PEAK_BW, temp) - bytes_at(_ModState.PRE_BW, temp),
        "act_total": bytes_at(_ModState.POST_FW, act),
        "input_per_module": memory.input_mem,
        "output_per_module": memory.output_mem,
        "fw_runtime_per_module": runtime["fw"],
        "bw_runtime_per_module": runtime["bw"],
        "is_leaf": curve is None,
        "sac_runtime": curve.sac_runtime if curve else 0,
        "sac_memory": curve.sac_memory if curve else 0,
        "n_segments": curve.n_segments if curve else 0,
        "slopes": list(curve.slopes) if curve else [],
        "intercepts": list(curve.intercepts) if curve else [],
        "breakpoints": list(curve.fit_breaks) if curve else [],
        "tradeoff_curve": OrderedDict(curve.tradeoff_curve) if curve else OrderedDict(),
    }
