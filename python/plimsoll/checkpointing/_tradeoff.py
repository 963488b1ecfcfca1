"""The greedy order of a module's operators, its trade-off curve and the fit, as torch's `SACEstimator` has them."""

from __future__ import annotations

import math
import os
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from plimsoll._command import call
from plimsoll._errors import Error
from plimsoll._extras import need
from plimsoll._plot import make_axes
from plimsoll._records import SACStatsLike, to_document

FOLDER = "tradeoff_graphs"  # of pictures, as torch's


@dataclass
class SACStats:
    """The operators of one module's forward; index lists name places in the parallel ones.

    Attributes:
        func_names: Names.
        runtimes: Milliseconds.
        memory: Bytes of the outputs.
        view_like_ops: Views.
        rand_ops: Random operators.
        saved_autograd_ops: Operators whose outputs autograd saves.
        inplace_ops: (operator, the operator whose output it changes).
        force_store_random: Must outputs of random operators be stored?
    """

    func_names: list[str]
    runtimes: list[float]
    memory: list[int]
    view_like_ops: list[int]
    rand_ops: list[int]
    saved_autograd_ops: list[int]
    inplace_ops: list[tuple[int, int]]
    force_store_random: bool


class MSPS(NamedTuple):
    """Operators that are discarded together: names, head, bytes, milliseconds, bytes per millisecond."""

    func_names: set[str]
    op_idx: int
    memory: int
    runtime: float
    msps: float


@dataclass
class SACTradeOffStats:
    """A trade-off curve and its fit.

    Attributes:
        n_segments: Straight pieces of the fit.
        slopes: Of each piece.
        intercepts: Of each piece.
        fit_breaks: Where the pieces begin, and the end of the last.
        tradeoff_curve: Share of the memory that is discarded (plus 0.01) -> share of the time that is recomputed.
        sac_memory: Bytes of all operators.
        sac_runtime: Milliseconds of all operators.
    """

    n_segments: int
    slopes: list[float]
    intercepts: list[float]
    fit_breaks: list[float]
    tradeoff_curve: OrderedDict[float, float]
    sac_memory: int
    sac_runtime: float


@dataclass
class SACGreedyOrderMeta:
    """In which order operators are discarded.

    Attributes:
        recomputed_ops: Operators that are always recomputed.
        stored_ops: Heads of what is always stored.
        inplace_op_groups: Operators by the one whose output they change.
        random_ops_group: Random operators by the first of them.
        msps_meta: What is discarded, the most bytes per millisecond first.
    """

    recomputed_ops: set[int]
    stored_ops: set[int]
    inplace_op_groups: dict[int, set[int]]
    random_ops_group: dict[int, set[int]]
    msps_meta: list[MSPS]


class GreedyOrderLike(Protocol):
    """A `SACGreedyOrderMeta`, ours or torch's."""

    recomputed_ops: set[int]
    stored_ops: set[int]
    inplace_op_groups: dict[int, set[int]]
    random_ops_group: dict[int, set[int]]
    msps_meta: Any  # a list of MSPS


def _solve(sac_stats: SACStatsLike, n_segments: int = 2) -> dict[str, Any]:
    """What `plimsoll checkpoint TABLE --tradeoff` says of the table."""
    flags = {"tradeoff": True, "fit_segments": n_segments}
    module: dict[str, Any] = call("checkpoint", {"table": to_document(sac_stats)}, flags)["modules"][0]
    return module


def greedy_order(sac_stats: SACStatsLike) -> SACGreedyOrderMeta:
    """The order in which torch's greedy rule discards the operators of a module."""
    module = _solve(sac_stats)
    # Sets are filled as torch fills them, so that they print alike.
    recomputed: set[int] = set()
    recomputed.update(set(sac_stats.view_like_ops))
    groups: dict[int, set[int]] = {}
    for op, head in dict(sac_stats.inplace_ops).items():
        groups.setdefault(head, {head}).add(op)
    rand_ops = module["rand_ops"]
    random_group = {rand_ops[0]: set(sac_stats.rand_ops)} if rand_ops else {}
    stored: set[int] = set()
    for head in (*random_group, *groups):
        if head in module["stored_ops"]:
            stored.add(head)
    steps = [
        MSPS(
            {sac_stats.func_names[op] for op in _together({step["op"]}, step["op"], groups, random_group)},
            step["op"],
            step["memory"],
            step["runtime"],
            step["msps"],
        )
        for step in module["order"]
    ]
    return SACGreedyOrderMeta(recomputed, stored, groups, random_group, steps)


def _together(ops: set[int], head: int, *groups: Mapping[int, set[int]]) -> set[int]:
    """`ops` and all that goes with the head."""
    for group in groups:
        if head in group:
            ops.update(group[head])
    return ops


def fit_tradeoff_curve(sac_stats: SACStatsLike, n_segments: int = 2) -> SACTradeOffStats:
    """The trade-off curve of the greedy order and its fit.

    The fit is the best one, where torch's, by the package pwlf, is found by a random search and is near it.

    Args:
        sac_stats: The module's table, ours or torch's.
        n_segments: Straight pieces of the fit; fewer where the curve has fewer points.

    Raises:
        ZeroDivisionError: The operators take no memory, or no time.
        Error: The curve has fewer than three points.
    """
    module = _solve(sac_stats, n_segments)
    if "fit" not in module:
        failure = module["failure"]
        if failure["kind"] == "zero_division":
            raise ZeroDivisionError(failure["message"])
        raise Error(failure["kind"], failure.get("place", ""), failure["message"], "leave the module out")
    fit = module["fit"]
    return SACTradeOffStats(
        n_segments=len(fit["slopes"]),
        slopes=fit["slopes"],
        intercepts=fit["intercepts"],
        fit_breaks=fit["breakpoints"],
        tradeoff_curve=OrderedDict((x, y) for x, y in module["tradeoff_curve"]),
        sac_memory=module["sac_memory"],
        sac_runtime=module["sac_runtime"],
    )


def plot_tradeoff_curve(stats: Any, title: str = "", axes: Any = None) -> Any:
    """The curve, the same shifted to an upper bound, and the fit; returns matplotlib's axes."""
    panel = make_axes(axes)[0]
    x, y = np.asarray(list(stats.tradeoff_curve)), np.asarray(list(stats.tradeoff_curve.values()))
    heights = [slope * at + intercept for slope, intercept, at in zip(stats.slopes, stats.intercepts, stats.fit_breaks)]
    heights.append(stats.slopes[-1] * stats.fit_breaks[-1] + stats.intercepts[-1])
    at = np.linspace(min(x[:-1]), max(x[:-1]), num=10000)
    panel.plot(x[:-1], y[1:], "o", label="Shifted")
    panel.plot(at, np.interp(at, stats.fit_breaks, heights), "-", label="Predicted")
    panel.plot(x, y, "x", label="Original")
    panel.set(ylabel="Recomp time / Total recomp time", xlabel="Memory discarded / Total memory", title=title)
    panel.legend()
    panel.figure.suptitle(
        f"Total Memory = {stats.sac_memory} B Total Runtime = {stats.sac_runtime:.4f} ms", fontsize=10
    )
    return panel


def _save_picture(stats: SACTradeOffStats, name: str) -> None:
    figure = need("matplotlib.figure", "plot").Figure()
    plot_tradeoff_curve(stats, name, figure.subplots())
    os.makedirs(FOLDER, exist_ok=True)
    figure.savefig(os.path.join(FOLDER, f"{name}.png"))


def _print_table(headers: list[str], rows: list[list[str]], print_tabular: bool) -> None:
    if print_tabular:
        print(need("tabulate", "tabulate").tabulate(rows, headers=headers, tablefmt="rst"))
        return
    table = [headers, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(headers))]
    for row in table:
        print("\t".join(f"{cell:<{width}}" for cell, width in zip(row, widths)))


def display_sac_stats(sac_stats: SACStatsLike, print_tabular: bool = False) -> None:
    """Prints totals and operators of a module, as torch does."""
    print(
        f"Total Memory: {sum(sac_stats.memory)} B Total Runtime: {sum(sac_stats.runtimes)} ms"
        f" Store Random: {sac_stats.force_store_random}"
    )
    parents = dict(sac_stats.inplace_ops)
    rows = [
        [
            str(op),
            name,
            f"{sac_stats.runtimes[op]:.4f}",
            str(sac_stats.memory[op]),
            str(op in sac_stats.view_like_ops),
            str(op in sac_stats.rand_ops),
            str(op in sac_stats.saved_autograd_ops),
            str(parents.get(op)),
        ]
        for op, name in enumerate(sac_stats.func_names)
    ]
    headers = ["Op Idx", "Op Name", "Runtimes(ms)", "Memory (B)", "View-like", "Random", "Saved Autograd", "In-place"]
    _print_table(headers, rows, print_tabular)


def display_sac_tradeoff_stats(
    greedy_order_meta: GreedyOrderLike, sac_stats: SACStatsLike, print_tabular: bool = False
) -> None:
    """Prints what is discarded and recomputed after each step of the greedy order, as torch does."""
    groups = (greedy_order_meta.inplace_op_groups, greedy_order_meta.random_ops_group)
    total_memory, total_runtime = sum(sac_stats.memory), sum(sac_stats.runtimes)
    discarded, recomputed = 0, 0.0
    rows: list[list[str]] = []

    def add(ops: set[int], names: set[str], msps: float, stored: bool = False, is_recomputed: bool = False) -> None:
        shares = f"{discarded / total_memory:.4f}", f"{recomputed / total_runtime:.4f}"
        rate = str(msps) if math.isnan(msps) else f"{msps:.2e}"
        cells = [str(ops), str(names), shares[0], str(discarded), shares[1], str(recomputed), rate]
        rows.append([*cells, str(stored), str(is_recomputed)])

    def add_whole(heads: set[int], stored: bool) -> None:
        nonlocal discarded, recomputed
        for head in heads:
            ops = _together({head}, head, *groups)
            discarded += sum(sac_stats.memory[op] for op in ops)
            recomputed += sum(sac_stats.runtimes[op] for op in ops)
            add(ops, {sac_stats.func_names[op] for op in ops}, math.nan, stored, not stored)

    add_whole(greedy_order_meta.recomputed_ops, stored=False)
    for step in greedy_order_meta.msps_meta:
        discarded += step.memory
        recomputed += step.runtime
        add(_together({step.op_idx}, step.op_idx, *groups), step.func_names, step.msps)
    add_whole(greedy_order_meta.stored_ops, stored=True)
    headers = [
        "Op Id(s)",
        "Op Name(s)",
        "Discarded Mem (%)",
        "Discarded Mem (B)",
        "Recomp time (%)",
        "Recomp time (ms)",
        "MSPS",
        "Always Stored",
        "Always Recomputed",
    ]
    _print_table(headers, rows, print_tabular)


class Displays:
    """The methods of torch's `SACEstimator` that read its records."""

    sac_mod_stats: dict[str, Any]
    sac_mod_tradeoff_stats: dict[str, Any]
    sac_mod_greedy_order_meta: dict[str, Any]

    def display_sac_stats(self, sac_stats: Any, print_tabular: bool = False) -> None:
        """As the function of this name."""
        display_sac_stats(sac_stats, print_tabular)

    def display_sac_tradeoff_stats(self, greedy_order_meta: Any, sac_stats: Any, print_tabular: bool = False) -> None:
        """As the function of this name."""
        display_sac_tradeoff_stats(greedy_order_meta, sac_stats, print_tabular)

    def pwlf_sac_tradeoff_curve(self, n_segments: int = 2, save_tradeoff_graphs: bool = False) -> None:
        """Fits every module's curve, into `sac_mod_tradeoff_stats`; pictures go to the folder `tradeoff_graphs`."""
        fitted: dict[str, SACTradeOffStats] = {}  # layers are alike
        for fqn, sac_stats in self.sac_mod_stats.items():
            table = repr(to_document(sac_stats))
            if table not in fitted:
                fitted[table] = fit_tradeoff_curve(sac_stats, n_segments)
            self.sac_mod_tradeoff_stats[fqn] = fitted[table]
            if save_tradeoff_graphs:
                _save_picture(fitted[table], fqn)

    def display_modulewise_sac_stats(self, depth: int = 2, print_tabular: bool = False) -> None:
        """Prints operators and trade-off of every module whose name has at most `depth` parts."""
        for fqn, sac_stats in self.sac_mod_stats.items():
            if fqn.count(".") + 1 > depth:
                continue
            print(f"Module: {fqn}")
            display_sac_stats(sac_stats, print_tabular)
            print(f"AC Trade-off for Module: {fqn} MSPS = Memory/Runtime")
            display_sac_tradeoff_stats(self.sac_mod_greedy_order_meta[fqn], sac_stats, print_tabular)


class TradeOffs(Displays):
    """Operator tables of a model's modules, and what torch's `SACEstimator` makes of them; without torch.

    Args:
        sac_mod_stats: Tables by module, ours or torch's (`SACEstimator.sac_mod_stats`).

    Attributes:
        sac_mod_stats: The same.
        sac_mod_greedy_order_meta: The greedy order of each.
        sac_mod_tradeoff_stats: Curves and fits, once `pwlf_sac_tradeoff_curve` has been called.
    """

    def __init__(self, sac_mod_stats: Mapping[str, Any]) -> None:
        self.sac_mod_stats = dict(sac_mod_stats)
        self.sac_mod_greedy_order_meta = {fqn: greedy_order(stats) for fqn, stats in self.sac_mod_stats.items()}
        self.sac_mod_tradeoff_stats = {}
