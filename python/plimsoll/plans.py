"""Plans and reports by kind, with arrays where they matter and pictures."""

from __future__ import annotations

import math
from collections import Counter
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from plimsoll import _plot
from plimsoll._answer import GIB, MOST_ROWS, Answer, Certificate
from plimsoll._errors import Error

__all__ = [
    "Answer",
    "Certificate",
    "CheckReport",
    "CheckpointPolicy",
    "Frontier",
    "Placement",
    "SavePolicy",
    "ShardingPlan",
    "TradeOffCurves",
]


def _ranks_text(ranks: list[dict[str, int]]) -> str:
    return ", ".join(
        str(run["first"]) if run["count"] == 1 else f"{run['first']}-{run['first'] + run['count'] - 1}" for run in ranks
    )


class ShardingPlan(Answer):
    """Which rank holds which shard of which embedding table."""

    SCHEMAS: ClassVar[tuple[str, ...]] = ("plimsoll.plan/1",)
    HAS_PAGE: ClassVar[bool] = True

    @property
    def tables(self) -> list[dict[str, Any]]:
        """The plan's tables; empty without a plan."""
        return self.document.get("plan", self.document).get("tables", [])

    @property
    def rating(self) -> float:
        """Slowest rank's ms, as TorchRec rates the plan."""
        rating = self.document.get("rating")
        return math.nan if rating is None else rating

    @cached_property
    def ms(self) -> dict[str, npt.NDArray[np.float64]]:
        """Milliseconds by component and "total", [world_size]."""
        return {name: np.asarray(values) for name, values in self.document.get("bill", {}).get("ms", {}).items()}

    @cached_property
    def bytes(self) -> dict[str, npt.NDArray[np.int64]]:
        """Bytes by tier and cause, [world_size]."""
        bill = self.document.get("bill", {}).get("bytes", {})
        return {name: np.asarray(values, dtype=np.int64) for name, values in bill.items()}

    def _summary(self) -> str:
        return f"{super()._summary()}; {len(self.tables)} tables"

    def _figures(self) -> list[str]:
        times, reference = self.document.get("times", {}), self.document.get("reference") or {}
        lines = []
        for name, title in (("rating", "slowest rank"), ("time", "predicted step")):
            own = times.get(name, self.rating if name == "rating" else math.nan)
            if math.isnan(own):
                continue
            beside = f" (TorchRec's planner: {reference[name]:.4g} ms)" if name in reference else ""
            lines.append(f"{title} {own:.4g} ms{beside}")
        tier = "hbm" if self.bytes.get("hbm", np.zeros(0)).any() else "ddr"
        used = self.bytes.get(tier, np.zeros(0))
        if used.size:
            lines.append(f"fullest rank {int(used.argmax())}: {used.max() / GIB:.4g} GiB of {tier.upper()}")
        return lines

    def _numbers(self) -> dict[str, Any]:
        numbers: dict[str, Any] = {"rank": np.arange(len(next(iter(self.ms.values()), [])))}
        numbers.update({f"ms_{name}": values for name, values in self.ms.items()})
        numbers.update({f"bytes_{name}": values for name, values in self.bytes.items()})
        return numbers

    def _rows(self) -> tuple[list[str], list[list[object]]]:
        rows = [
            [
                ".".join(part for part in (table.get("module_path", ""), table["table"]) if part),
                table["sharding_type"],
                table["compute_kernel"],
                _ranks_text(table.get("ranks", [])),
            ]
            for table in self.tables
        ]
        return ["table", "sharding type", "compute kernel", "ranks"], rows

    @property
    def compute_device(self) -> str:
        """What the plan is for: "cuda", "cpu", ..."""
        return self.document.get("plan", self.document).get("compute_device", "cuda")

    def plot(self, axes: Any = None) -> list[Any]:
        """Bytes of every rank by cause against its memory, tier by tier, and its milliseconds by cause.

        Args:
            axes: One of matplotlib's for every tier in use, and one for time; a figure of its own where not given.

        Returns:
            The axes, time last.
        """
        if not self.ms:
            raise Error("value", "plan", f"there is nothing to draw: {self.status}", "plot an answer of plimsoll.shard")
        return _plot.plot_ranks(self.bytes, self.ms, self.compute_device, self._summary(), axes)


class CheckpointPolicy(Answer):
    """Which activations are kept and which recomputed, under one budget."""

    SCHEMAS: ClassVar[tuple[str, ...]] = ("plimsoll.checkpoint_policy/1",)
    HAS_PAGE: ClassVar[bool] = True

    @property
    def units(self) -> list[dict[str, Any]]:
        """The modules in forward order, each with its discard ratio."""
        return self.document.get("units", [])

    @property
    def peak_bytes(self) -> int:
        """Predicted peak."""
        return self.document.get("predicted", {}).get("peak_bytes", 0)

    @property
    def recompute_ms(self) -> float:
        """Predicted time of recomputing."""
        return self.document.get("predicted", {}).get("recompute_ms", math.nan)

    @property
    def smallest_budget(self) -> int | None:
        """Where the budget is proved infeasible, the least bytes that are not; else None."""
        missing = self.document.get("explanation", {}).get("missing", 0)
        return self.document["budget_bytes"] + missing if self.status == "infeasible" and missing else None

    @property
    def binding(self) -> str:
        """The module whose backward needs the peak, or what an infeasible budget lacks bytes for; "" at the loss."""
        source = "explanation" if self.status == "infeasible" else "predicted"
        return self.document.get(source, {}).get("binding", "")

    def _summary(self) -> str:
        return f"{super()._summary()}; peak {self.peak_bytes / GIB:.3g} GiB"

    def _rows(self) -> tuple[list[str], list[list[object]]]:
        keys = ("kind", "discard_ratio", "discarded_bytes", "recompute_ms")
        rows: list[list[object]] = [
            [unit.get("fqn") or ", ".join(unit.get("fqns", [])), *(unit.get(key, "") for key in keys)]
            for unit in self.units
        ]
        return ["module", "kind", "discard ratio", "discarded bytes", "recompute ms"], rows

    def plot(self, axes: Any = None) -> Any:
        """Memory while each module's backward runs, and the budget; returns matplotlib's axes."""
        panel = _plot.make_axes(axes)[0]
        profile = self.document.get("profile", [])
        panel.plot([entry["bytes"] / GIB for entry in profile])
        budget = self.document.get("budget_bytes")
        if budget is not None:
            panel.axhline(budget / GIB, color="black", linestyle="--", label="budget")
            panel.legend(frameon=False)
        panel.set(xlabel="module, in forward post-order", ylabel="GiB", title=self._summary(), ylim=(0, None))
        _plot.whole_numbers(panel)
        return panel


class SavePolicy(CheckpointPolicy):
    """Which single values are kept: of an operator table, or of a partitioner's log; in the input's own units."""

    SCHEMAS: ClassVar[tuple[str, ...]] = ("plimsoll.save_policy/1",)
    HAS_PAGE: ClassVar[bool] = False

    @property
    def values(self) -> list[dict[str, Any]]:
        """Every value in order: name, memory, runtime, save."""
        return self.document.get("values", [])

    @property
    def is_saved(self) -> npt.NDArray[np.bool_]:
        """Is each value kept?"""
        return np.asarray([value["save"] for value in self.values], np.bool_)

    @property
    def saved_memory(self) -> float:
        """What is kept."""
        return self.document.get("predicted", {}).get("saved_memory", math.nan)

    @property
    def recompute_runtime(self) -> float:
        """What is computed again."""
        return self.document.get("predicted", {}).get("recompute_runtime", math.nan)

    def _summary(self) -> str:
        return f"{self.status}: recompute {self.recompute_runtime:.6g}; kept {self.saved_memory:.6g}"

    def _rows(self) -> tuple[list[str], list[list[object]]]:
        rows: list[list[object]] = [
            [value["name"], value["memory"], value["runtime"], "keep" if value["save"] else "recompute"]
            for value in self.values
        ]
        return ["value", "memory", "runtime", ""], rows

    def plot(self, axes: Any = None) -> Any:
        """Memory of every value, kept or not; returns matplotlib's axes."""
        panel = _plot.make_axes(axes)[0]
        for is_saved, label in ((True, "kept"), (False, "computed again")):
            bars = [(i, value["memory"]) for i, value in enumerate(self.values) if value["save"] == is_saved]
            panel.bar([i for i, _ in bars], [memory for _, memory in bars], label=label)
        panel.legend(frameon=False)
        panel.set(xlabel="value, in the input's order", ylabel="memory", title=self._summary())
        return panel


class TradeOffCurves(CheckpointPolicy):
    """In which order torch's greedy rule gives up operators, and the curves that follow; no policy is chosen."""

    SCHEMAS: ClassVar[tuple[str, ...]] = ("plimsoll.tradeoff_curves/1",)
    HAS_PAGE: ClassVar[bool] = False

    @property
    def modules(self) -> list[dict[str, Any]]:
        """Every module that has an operator table: its order, curve and fit."""
        return self.document["modules"]

    def _summary(self) -> str:
        return f"trade-off curves of {len(self.modules)} modules"

    def _rows(self) -> tuple[list[str], list[list[object]]]:
        rows: list[list[object]] = [
            [module.get("fqn", ""), len(module["order"]), module["sac_memory"], f"{module['sac_runtime']:.6g}"]
            for module in self.modules
        ]
        return ["module", "steps", "bytes", "ms"], rows

    def plot(self, axes: Any = None) -> Any:
        """Every module's curve; returns matplotlib's axes."""
        panel = _plot.make_axes(axes)[0]
        for module in self.modules:
            panel.plot(*zip(*module.get("tradeoff_curve", [(0, 0)])), label=module.get("fqn"))
        panel.set(xlabel="memory discarded", ylabel="time recomputed", title=self._summary())
        return panel


class Frontier(CheckpointPolicy):
    """The least time of recomputing for every peak."""

    SCHEMAS: ClassVar[tuple[str, ...]] = CheckpointPolicy.SCHEMAS + SavePolicy.SCHEMAS

    def _points(self, *names: str) -> list[float]:
        points = self.document.get("frontier", [])
        return [next((point[name] for name in names if name in point), 0.0) for point in points]

    @cached_property
    def peak(self) -> npt.NDArray[Any]:
        """Peaks in bytes, ascending; of a table or log what is kept, in its own unit."""
        return np.asarray(self._points("bytes", "memory"))

    @cached_property
    def is_exact(self) -> npt.NDArray[np.bool_]:
        """Is nothing faster at each peak? Elsewhere the document's "frontier_bound" is what was proved."""
        return np.asarray([point.get("is_exact", True) for point in self.document.get("frontier", [])], np.bool_)

    @cached_property
    def ms(self) -> npt.NDArray[np.float64]:
        """Least time at each peak."""
        return np.asarray(self._points("ms", "recompute_runtime"), dtype=np.float64)

    @cached_property
    def ms_per_byte(self) -> npt.NDArray[np.float64]:
        """Slope from each peak to the next, at most 0."""
        return np.asarray(self._points("ms_per_byte"), dtype=np.float64)

    def ms_at(self, peak: float) -> float:
        """Least time under a peak; infinite where nothing fits."""
        at = int(np.searchsorted(self.peak, peak, side="right")) - 1
        if at < 0:
            return math.inf
        return float(self.ms[at] + self.ms_per_byte[at] * (peak - self.peak[at]))

    def _summary(self) -> str:
        return f"{len(self.peak):,} points"

    def _rows(self) -> tuple[list[str], list[list[object]]]:
        rows: list[list[object]] = [[f"{peak / GIB:.4g}", f"{ms:.6g}"] for peak, ms in zip(self.peak, self.ms)]
        return ["peak GiB", "recompute ms"], rows

    def _printed(self) -> tuple[list[str], list[list[object]], str]:
        head, rows = self._rows()
        step = -(-len(rows) // MOST_ROWS)
        if step <= 1:
            return head, rows, ""
        return head, rows[::step], f"... every {step}th of {len(rows)} points (to_dataframe() has all of them)"

    def _numbers(self) -> dict[str, Any]:
        return {"peak": self.peak, "recompute_ms": self.ms}

    def plot(self, axes: Any = None) -> Any:
        """Peak against time, and below what nothing fits; returns matplotlib's axes."""
        return _plot.plot_frontier(self.peak / GIB, self.ms, self.ms_per_byte * GIB, self._summary(), axes)


class Placement(Answer):
    """Which device runs which operators."""

    SCHEMAS: ClassVar[tuple[str, ...]] = ("plimsoll.placement/1", "plimsoll.pipeline_plan/1")
    HAS_PAGE: ClassVar[bool] = True

    @property
    def objective(self) -> str:
        """What is minimized: "throughput", "latency", "pipeline", "fx"; of a profile "slowest_stage" or "batch"."""
        return self.document.get("objective", "")

    @property
    def stages(self) -> list[dict[str, Any]]:
        """What each device runs, or several that do the same."""
        return self.document.get("stages", [])

    @property
    def devices_of(self) -> dict[str, list[int]]:
        """The devices of every node, by its name (of a dnn-partitioning graph its id); several run copies of it.

        A traced model's operators that cost nothing beside another one stand with it: `plimsoll.convert(graph,
        placement, to="callback")` names every operator.
        """
        devices: dict[str, list[int]] = {}
        for stage in self.stages:
            for node in stage.get("nodes", []):
                devices.setdefault(node, []).extend(stage.get("devices", []))
        return devices

    @property
    def cuts(self) -> list[dict[str, Any]]:
        """The values that devices move: producer, from, to, amount, ms."""
        return self.document.get("cuts", [])

    @property
    def node_to_partition(self) -> dict[str, int]:
        """Of torch.fx's partitioner: what it splits the graph by."""
        return self.document.get("node_to_partition", {})

    @property
    def failure(self) -> dict[str, str]:
        """Of torch.fx's partitioner, where it has no plan: its error as kind, place, message."""
        return self.document.get("failure", {})

    def _rows(self) -> tuple[list[str], list[list[object]]]:
        rows: list[list[object]] = [
            [
                ", ".join(map(str, stage.get("devices", []))),
                len(stage.get("nodes", stage.get("operators", []))),
                stage.get("load_ms", stage.get("time_ms", "")),
                f"{stage.get('memory_bytes', 0) / GIB:.3g}",
            ]
            for stage in self.stages
        ]
        return ["devices", "operators", "ms", "memory GiB"], rows

    def _numbers(self) -> dict[str, Any]:
        return {
            "devices": [stage.get("devices", []) for stage in self.stages],
            "operators": [len(stage.get("nodes", stage.get("operators", []))) for stage in self.stages],
            "ms": [stage.get("load_ms", stage.get("time_ms", math.nan)) for stage in self.stages],
            "memory_bytes": [stage.get("memory_bytes", 0) for stage in self.stages],
        }

    def plot(self, axes: Any = None) -> list[Any]:
        """Load of every stage, and its memory against what its devices hold; returns matplotlib's axes."""
        load, memory = _plot.make_axes(axes, 2)
        stages = range(len(self.stages))
        load.bar(stages, [stage.get("load_ms", stage.get("time_ms", 0)) for stage in self.stages])
        load.set(ylabel="ms", title=self._summary())
        memory.bar(stages, [stage.get("memory_bytes", 0) / GIB for stage in self.stages])
        caps = [(i, stage["memory_cap"] / GIB) for i, stage in enumerate(self.stages) if "memory_cap" in stage]
        if caps:
            memory.plot(*zip(*caps), linestyle="", marker="_", markersize=14, color="black", label="capacity")
            memory.legend(frameon=False)
        memory.set(xlabel="stage", ylabel="memory GiB")
        _plot.whole_numbers(memory)
        return [load, memory]


class CheckReport(Answer):
    """What the checker, which shares nothing with the searches, says of a plan."""

    SCHEMAS: ClassVar[tuple[str, ...]] = tuple(
        f"plimsoll.{kind}_report/1"
        for kind in (
            "check",
            "checkpoint_check",
            "expert_check",
            "placement_check",
            "partition_check",
            "pipeline_check",
        )
    )

    @property
    def is_right(self) -> bool:
        """Without violations?"""
        return not self.violations

    @property
    def violations(self) -> list[dict[str, Any]]:
        """Why the plan cannot run, does not fit or loses data."""
        return self.document.get("violations", [])

    @property
    def hazards(self) -> list[dict[str, Any]]:
        """What TorchRec accepts, but trains incorrectly or fails on after the start."""
        return self.document.get("hazards", [])

    @property
    def certificate_status(self) -> str | None:
        """What became of the plan's claims: "proved", "refuted", "not_repeated" or "absent"."""
        return self.document.get("certificate_status")

    @property
    def certificate_reason(self) -> str | None:
        """One sentence: what proves them, or what stands against them."""
        return self.document.get("certificate_reason")

    @property
    def explanation_status(self) -> str | None:
        """What became of the explanation of an answer without a plan: as `certificate_status`, or None without one."""
        return self.document.get("explanation_status")

    @property
    def explanation_reason(self) -> str | None:
        """One sentence: what was found again, or what stands against it."""
        return self.document.get("explanation_reason")

    def _summary(self) -> str:
        return f"{len(self.violations)} violations, {len(self.hazards)} hazards"

    def _rows(self) -> tuple[list[str], list[list[object]]]:
        rows: list[list[object]] = [
            [finding["code"], finding.get("place", ""), finding.get("message", "")]
            for finding in self.violations + self.hazards
        ]
        return ["code", "place", "message"], rows


class Difference(Answer):
    """What differs between two plans of one kind, and why."""

    SCHEMAS: ClassVar[tuple[str, ...]] = ("plimsoll.plan_difference/1",)

    @property
    def is_different(self) -> bool:
        """Do the plans decide differently, or name different places?"""
        return self.document["is_different"]

    @property
    def kind(self) -> str:
        """Of what both plans are: "sharding", "checkpointing", "placement" or "pipeline"."""
        return self.document["kind"]

    @property
    def changes(self) -> list[dict[str, Any]]:
        """Tables, units or operators that the plans treat differently: name, change, before, after."""
        return self.document["changes"]

    @property
    def figures(self) -> dict[str, tuple[float | None, float | None]]:
        """Numbers of both plans as a whole, by name."""
        return {figure["name"]: (figure["before"], figure["after"]) for figure in self.document["figures"]}

    @property
    def reasons(self) -> list[dict[str, Any]]:
        """The largest differences of a rank, device or stage: place, before, after, causes, parts."""
        return self.document["reasons"]

    @property
    def traffic(self) -> list[dict[str, Any]]:
        """Of sharding plans: what each rank sends and receives over each of its links."""
        return self.document.get("traffic", [])

    def _summary(self) -> str:
        counts = Counter(change["change"] for change in self.changes)
        text = ", ".join(f"{count} {change}" for change, count in counts.items())
        return f"{self.kind} plans: {text or ('other ranks' if self.is_different else 'the same decisions')}"

    def _rows(self) -> tuple[list[str], list[list[object]]]:
        rows: list[list[object]] = [
            [
                change["name"],
                change["change"],
                *(", ".join(f"{name} {value}" for name, value in change[side].items()) for side in ("before", "after")),
            ]
            for change in self.changes
        ]
        return ["what", "change", "before", "after"], rows


class Explanation(Answer):
    """What the time of a sharding plan is made of, and what would lower it."""

    SCHEMAS: ClassVar[tuple[str, ...]] = ("plimsoll.explanation/1",)

    @property
    def ms(self) -> float:
        """The plan's predicted time, in its objective."""
        return self.document["times"][self.document["objective"]]

    @property
    def slowest_rank(self) -> int:
        """The rank whose total is largest."""
        return self.document["slowest_rank"]

    @property
    def tables(self) -> list[dict[str, Any]]:
        """What its tables take there, most ms first: table, sharding_type, compute_kernel, ms, hbm_bytes."""
        return self.document["tables"]

    @property
    def rates(self) -> list[dict[str, Any]]:
        """What a rate of the hardware 1 GB/s higher saves: rate, gb_per_s, ms_per_gb_per_s."""
        return self.document["rates"]

    @property
    def faster(self) -> list[dict[str, Any]]:
        """Changes with which a faster plan was found, the fastest first: kind, change, ms."""
        return self.document.get("faster", [])

    def _summary(self) -> str:
        return f"{self.ms:.6g} ms, slowest rank {self.slowest_rank}"

    def _rows(self) -> tuple[list[str], list[list[object]]]:
        head = ["table", "sharding type", "compute kernel", "ms", "HBM GiB"]
        keys = ("table", "sharding_type", "compute_kernel")
        return head, [
            [
                table["table"].removeprefix("."),
                *(table[key] for key in keys[1:]),
                f"{table['ms']:.4g}",
                f"{table['hbm_bytes'] / GIB:.3g}",
            ]
            for table in self.tables
        ]

    def _numbers(self) -> dict[str, Any]:
        keys = ("table", "sharding_type", "compute_kernel", "ms", "hbm_bytes")
        return {key: [table[key] for table in self.tables] for key in keys}


class Replan(Answer):
    """A plan of embedding tables to change to, and the copies that lead there."""

    SCHEMAS: ClassVar[tuple[str, ...]] = ("plimsoll.replan/1",)

    @property
    def plan(self) -> ShardingPlan:
        """The new plan."""
        return ShardingPlan(self.document["answer"])

    @property
    def ms(self) -> float:
        """Objective of the new plan; NaN without one."""
        return self.document.get("ms", math.nan)

    @property
    def before_ms(self) -> float | None:
        """Objective of the old plan, where it may be kept as it is."""
        return self.document.get("before_ms")

    @property
    def fresh_ms(self) -> float | None:
        """Objective of a plan that may move anything."""
        return self.document.get("fresh_ms")

    @property
    def moved_bytes(self) -> int:
        """Weights and optimizer state that are copied between ranks."""
        return self.document["moved_bytes"]

    @property
    def lower_bound(self) -> float | None:
        """No plan within the limit is below it, ms; with a price, of ms and price together."""
        return self.document.get("lower_bound")

    @property
    def steps(self) -> list[dict[str, Any]]:
        """Copies in order: kind, table, rank, rows, columns, row, column, from, bytes."""
        return self.document["schedule"]["steps"]

    def _summary(self) -> str:
        total = self.document["total_bytes"]
        share = f"{self.moved_bytes / total:.1%} of all bytes" if total else "nothing"
        return f"{self.ms:.4g} ms, moves {share} in {len(self.steps)} steps"

    def _rows(self) -> tuple[list[str], list[list[object]]]:
        head = ["kind", "table", "rank", "bytes"]
        return head, [[step.get(key, "") for key in head] for step in self.steps]


class RobustPlan(Answer):
    """A plan of embedding tables for pooling factors that are known as distributions."""

    SCHEMAS: ClassVar[tuple[str, ...]] = ("plimsoll.robust_plan/1",)

    @property
    def risk_ms(self) -> float:
        """The measure (a quantile, or the mean of the worst) over the scenarios; NaN without a plan."""
        return self.document.get("figures", {}).get("risk_ms", math.nan)

    @property
    def fresh_risk_ms(self) -> float:
        """The same over fresh scenarios."""
        return self.document.get("figures", {}).get("fresh_risk_ms", math.nan)

    @property
    def means_fresh_risk_ms(self) -> float:
        """That of the plan for the mean pooling factors."""
        return self.document.get("means_figures", {}).get("fresh_risk_ms", math.nan)

    @property
    def lower_bound(self) -> float | None:
        """No plan's measure over the scenarios is below it, ms."""
        return self.document.get("lower_bound")

    @property
    def tables(self) -> list[dict[str, Any]]:
        """The plan's tables, as of a `ShardingPlan`."""
        return self.document.get("plan", {}).get("tables", [])

    @property
    def scenario_ms(self) -> list[float]:
        """What the plan takes in every scenario."""
        return self.document.get("scenario_ms", [])

    @property
    def drifts(self) -> list[dict[str, Any]]:
        """Tables whose drift would change the plan: table, kept_ms, replanned_ms."""
        return self.document.get("drifts", [])

    def _summary(self) -> str:
        return (
            f"{self.risk_ms:.4g} ms, in fresh scenarios {self.fresh_risk_ms:.4g} ms "
            f"(the plan for the means: {self.means_fresh_risk_ms:.4g} ms)"
        )

    def _rows(self) -> tuple[list[str], list[list[object]]]:
        head = ["table", "kept_ms", "replanned_ms"]
        return head, [[drift[key] for key in head] for drift in self.drifts]


class ExpertPlan(Answer):
    """Where the replicas of experts stand."""

    SCHEMAS: ClassVar[tuple[str, ...]] = ("plimsoll.expert_plan/1",)

    @property
    def physical_to_logical_map(self) -> list[list[int]]:
        """Of every layer the expert of every slot, rank by rank, as EPLB returns it; empty without a plan."""
        return self.document["physical_to_logical_map"]

    @property
    def slowest_load(self) -> float:
        """Of the slowest rank, summed over layers; NaN without a plan."""
        return self.document.get("objective", math.nan)

    @property
    def lower_bound(self) -> float | None:
        """No placement is below it."""
        return self.document.get("lower_bound")

    @property
    def eplb_load(self) -> float:
        """The load of EPLB's placement."""
        return self.document["eplb_load"]

    @property
    def moved_replicas(self) -> int | None:
        """Of a replan: replicas that are copied to a rank without the expert."""
        return self.document.get("moved_replicas")

    def _summary(self) -> str:
        return f"slowest ranks {self.slowest_load:.6g}, EPLB's {self.eplb_load:.6g}"

    def _rows(self) -> tuple[list[str], list[list[object]]]:
        loads = self.document.get("slowest_loads", [])
        bounds = self.document.get("lower_bounds", [])
        rows: list[list[object]] = [
            [layer, f"{load:.6g}", f"{bound:.6g}"] for layer, (load, bound) in enumerate(zip(loads, bounds))
        ]
        return ["layer", "slowest rank", "lower bound"], rows

    def _numbers(self) -> dict[str, Any]:
        loads = self.document.get("slowest_loads", [])
        return {
            "layer": range(len(loads)),
            "slowest_rank": loads,
            "lower_bound": self.document.get("lower_bounds", [math.nan] * len(loads)),
        }


class MachineSize(Answer):
    """The smallest or cheapest machine on which a plan exists, or keeps a time."""

    SCHEMAS: ClassVar[tuple[str, ...]] = ("plimsoll.machine_size/1",)

    @property
    def machines(self) -> list[dict[str, Any]]:
        """Those that were tried in turn: on, ranks, price, verdict, status, ms, lower_bound."""
        return self.document["machines"]

    @property
    def machine(self) -> dict[str, Any] | None:
        """The one that is enough; None where none is."""
        return self.machines[-1] if self.document["is_found"] else None

    @property
    def is_smallest(self) -> bool:
        """Is it proved that no smaller, or cheaper, one is enough?"""
        return self.document["is_smallest"]

    def _summary(self) -> str:
        machine = self.machine
        if machine is None:
            return f"none of {len(self.machines)} machines is enough"
        unit = "devices" if machine["on"].startswith("--devices") else "ranks"
        return f"{machine['on']} ({machine['ranks']} {unit})" + (", proved smallest" if self.is_smallest else "")

    def _rows(self) -> tuple[list[str], list[list[object]]]:
        head = ["on", "ranks", "verdict", "ms", "lower_bound"]
        return head, [[machine.get(key, "") for key in head] for machine in self.machines]


class WhatIf(Answer):
    """A sweep over machines and batch sizes."""

    HAS_PAGE: ClassVar[bool] = True
    SCHEMAS: ClassVar[tuple[str, ...]] = ("plimsoll.what_if/1",)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A point each: on, ranks, batch_size, status, ms, lower_bound, gap, memory_bytes, samples_per_s, price, ..."""
        return self.document["rows"]

    @property
    def pareto(self) -> list[dict[str, Any]]:
        """The rows of the front: no other point has more samples per second at most at its price."""
        return [row for row in self.rows if row["is_pareto"]]

    def _summary(self) -> str:
        return f"{len(self.rows)} points, {len(self.pareto)} on the front"

    def _rows(self) -> tuple[list[str], list[list[object]]]:
        head = ["on", "ranks", "batch_size", "status", "ms", "gap", "samples_per_s", "price", "is_pareto"]
        return head, [[row.get(key, "") for key in head] for row in self.rows]
