"""Pictures of plans, by matplotlib."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from plimsoll._answer import GIB
from plimsoll._extras import need

TIERS = {"hbm": "HBM", "ddr": "DDR", "ssd": "SSD"}
PARTS = ("weights", "optimizer_state", "cache_state", "input_output")
RESERVED = ("dense", "kjt", "reserve")
COMPONENTS = ("fwd_compute", "fwd_comms", "bwd_compute", "bwd_comms", "prefetch_compute")  # of the total

Stack = dict[str, npt.NDArray[Any]]  # [what][rank]


def make_axes(axes: Any, count: int = 1) -> list[Any]:
    """The caller's axes, one or a sequence, or a new figure's, one below the other."""
    pyplot = need("matplotlib.pyplot", "plot")
    if axes is None:
        figure, made = pyplot.subplots(
            count, squeeze=False, figsize=(8, 2.2 + 2.4 * count), layout="constrained", sharex=count > 1
        )
        del figure
        return list(made[:, 0])
    given = list(np.atleast_1d(np.asarray(axes, dtype=object)).ravel())
    if len(given) != count:
        raise ValueError(f"{count} axes are needed, {len(given)} were given")
    return given


def stack_of_bytes(used: Mapping[str, npt.NDArray[Any]], tier: str, device_tier: str) -> Stack:
    """GiB of every rank in one tier, by cause; what is reserved is of the device's own memory."""
    parts = {part.replace("_", " "): used[f"{tier}_{part}"] for part in PARTS if f"{tier}_{part}" in used}
    if not parts and tier in used:
        parts = {"shards": used[tier]}
    if tier == device_tier:
        parts |= {name: used[name] for name in RESERVED if name in used and np.any(used[name])}
    return {name: values / GIB for name, values in parts.items() if np.any(values)}


def stack_of_ms(ms: Mapping[str, npt.NDArray[Any]]) -> Stack:
    """Milliseconds of every rank by component, or in all where that is what is known."""
    parts = {name.replace("_", " "): ms[name] for name in COMPONENTS if name in ms and np.any(ms[name])}
    return parts or {"total": ms["total"]}


def draw_stack(axes: Any, stack: Stack) -> None:
    """Stacked bars, one outline a cause whatever the number of ranks."""
    base: npt.NDArray[Any] | None = None
    for name, values in stack.items():
        below = np.zeros(len(values)) if base is None else base
        base = below + values
        edges = np.arange(len(values) + 1) - 0.5
        axes.stairs(base, edges, baseline=below, fill=True, label=name, edgecolor="white", linewidth=0.4)
    if len(stack) > 0:
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)


def draw_caps(axes: Any, caps: npt.NDArray[Any]) -> None:
    """A line at every rank's memory, dashed."""
    edges = np.arange(len(caps) + 1) - 0.5
    axes.stairs(caps, edges, baseline=None, color="black", linestyle="--", label="capacity")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)


def whole_numbers(axes: Any) -> None:
    """Ticks at ranks."""
    ticker = need("matplotlib.ticker", "plot")
    axes.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))


def plot_ranks(
    used: Mapping[str, npt.NDArray[Any]],
    ms: Mapping[str, npt.NDArray[Any]],
    compute_device: str,
    title: str,
    axes: Any,
) -> list[Any]:
    """Memory by cause against capacity, one picture a tier that is in use, then time by cause."""
    device_tier = "ddr" if compute_device == "cpu" else "hbm"
    stacks = {tier: stack_of_bytes(used, tier, device_tier) for tier in TIERS}
    tiers = [tier for tier in TIERS if stacks[tier] or tier == device_tier]
    drawn = make_axes(axes, len(tiers) + 1)
    for panel, tier in zip(drawn, tiers):
        draw_stack(panel, stacks[tier])
        caps = used.get(f"capacity_{tier}")
        if caps is not None:
            draw_caps(panel, caps / GIB)
        panel.set_ylabel(f"{TIERS[tier]} GiB")
    draw_stack(drawn[-1], stack_of_ms(ms))
    drawn[-1].set(xlabel="rank", ylabel="ms a step")
    whole_numbers(drawn[-1])
    drawn[0].set_title(title)
    return drawn


def plot_frontier(
    gib: npt.NDArray[Any], ms: npt.NDArray[Any], ms_per_gib: npt.NDArray[Any], title: str, axes: Any
) -> Any:
    """Least time at every peak: falling lines, and drops between them; grey where nothing fits."""
    panel = make_axes(axes)[0]
    if len(gib) > 0:
        ends = ms + ms_per_gib * np.diff(gib, append=gib[-1])  # just below the next point
        panel.plot(np.repeat(gib, 2)[1:], np.column_stack([ms, ends]).ravel()[:-1])
        panel.plot(gib, ms, linestyle="", marker=".", color="C0", markersize=4 if len(gib) <= 100 else 1)
        panel.axvspan(gib[0] - 0.05 * max(gib[-1] - gib[0], 1e-9), gib[0], color="0.9", label="nothing fits")
        panel.legend(frameon=False)
    panel.set(xlabel="peak GiB", ylabel="recompute ms", title=title)
    return panel
