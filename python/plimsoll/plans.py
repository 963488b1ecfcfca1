"""What the planners answer: plans that pickle, travel as JSON, show themselves in a notebook and can be drawn."""

from __future__ import annotations

import html
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from plimsoll._extras import need

Self = TypeVar("Self", bound="Answer")
GIB = 2**30


@dataclass(frozen=True)
class Certificate:
    """What is known of the optimum: lower_bound <= optimum <= objective.

    Attributes:
        objective: Value of the plan, ms; NaN without a plan.
        lower_bound: No plan is below it, ms; None where nothing was proved.
        gap: objective / lower_bound - 1; None without a plan or a bound.
        proof: How the bound, or that there is no plan, was shown.
    """

    objective: float
    lower_bound: float | None = None
    gap: float | None = None
    proof: str = ""

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Certificate:
        """From a document's "certificate"."""
        objective = document.get("objective")
        return cls(
            math.nan if objective is None else objective,
            document.get("lower_bound"),
            document.get("gap"),
            document.get("proof", ""),
        )


@dataclass(frozen=True)
class Answer:
    """An answer of a planner, as the document that the command line writes."""

    document: dict[str, Any]
    SCHEMA: ClassVar[str] = ""

    @property
    def status(self) -> str:
        """ "optimal", "feasible", "infeasible" (proved) or "limit"."""
        return self.document.get("status", "feasible")

    @property
    def stop(self) -> str:
        """What ended the search: "finished", "effort", "deadline" or "cancelled"."""
        return self.document.get("stop", "finished")

    @property
    def certificate(self) -> Certificate:
        """Objective, lower bound, gap, proof."""
        return Certificate.of(self.document.get("certificate", {}))

    @property
    def warnings(self) -> list[dict[str, str]]:
        """Remarks: code, place, message."""
        return self.document.get("warnings", [])

    @property
    def explanation(self) -> list[str]:
        """Why there is no plan, for people."""
        return self.document.get("explanation", {}).get("lines", [])

    def to_json(self, indent: int | None = 1) -> str:
        """The document, which `plimsoll check` and `plimsoll convert` read, too."""
        return json.dumps(self.document, indent=indent)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the document to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.to_json() + "\n")

    @classmethod
    def from_json(cls: type[Self], text: str) -> Self:
        """The answer again."""
        return cls(json.loads(text))

    @classmethod
    def load(cls: type[Self], path: str | os.PathLike[str]) -> Self:
        """From a file."""
        with open(path, encoding="utf-8") as file:
            return cls.from_json(file.read())

    def _rows(self) -> tuple[list[str], list[list[object]]]:
        """Head and rows of the table that a notebook shows."""
        return [], []

    def _summary(self) -> str:
        certificate = self.certificate
        text = f"{self.status}: {certificate.objective:.6g} ms"
        if certificate.gap is not None:
            text += f", gap {certificate.gap:.2%}"
        return text

    def __repr__(self) -> str:
        return f"<plimsoll.{type(self).__name__} {self._summary()}>"

    def _repr_html_(self) -> str:
        head, rows = self._rows()
        cells = "".join(f"<th>{html.escape(name)}</th>" for name in head)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows[:200]
        )
        more = f"<p>{len(rows) - 200} more rows</p>" if len(rows) > 200 else ""
        return f"<p>{html.escape(self._summary())}</p><table><tr>{cells}</tr>{body}</table>{more}"


def _axes(axes: Any, **figure: Any) -> Any:
    pyplot = need("matplotlib.pyplot", "plot")
    return pyplot.subplots(**figure)[1] if axes is None else axes


def _ranks_text(ranks: list[dict[str, int]]) -> str:
    return ", ".join(
        str(run["first"]) if run["count"] == 1 else f"{run['first']}-{run['first'] + run['count'] - 1}" for run in ranks
    )


class ShardingPlan(Answer):
    """Which rank holds which shard of which embedding table."""

    SCHEMA = "plimsoll.plan/1"

    @property
    def tables(self) -> list[dict[str, Any]]:
        """The plan's tables; empty without a plan."""
        return self.document.get("plan", self.document).get("tables", [])

    @property
    def rating(self) -> float:
        """Slowest rank's ms, as TorchRec rates the plan."""
        rating = self.document.get("rating")
        return math.nan if rating is None else rating

    @property
    def ms(self) -> dict[str, npt.NDArray[np.float64]]:
        """Milliseconds by component and "total", [world_size]."""
        return {name: np.asarray(values) for name, values in self.document.get("bill", {}).get("ms", {}).items()}

    @property
    def bytes(self) -> dict[str, npt.NDArray[np.int64]]:
        """Bytes by tier and cause, [world_size]."""
        bill = self.document.get("bill", {}).get("bytes", {})
        return {name: np.asarray(values, dtype=np.int64) for name, values in bill.items()}

    def _summary(self) -> str:
        return f"{super()._summary()}; {len(self.tables)} tables"

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

    def plot(self, axes: Any = None) -> Any:
        """Milliseconds and HBM of every rank; returns matplotlib's axes."""
        left = _axes(axes)
        total, hbm = self.ms.get("total", np.zeros(0)), self.bytes.get("hbm", np.zeros(0))
        ranks = np.arange(len(total))
        left.bar(ranks - 0.2, total, 0.4, label="ms")
        left.set(xlabel="rank", ylabel="ms a step", title=self._summary())
        right = left.twinx()
        right.bar(ranks + 0.2, hbm / GIB, 0.4, color="tab:orange", label="HBM")
        right.set_ylabel("HBM GiB")
        return left


class CheckpointPolicy(Answer):
    """Which activations are kept and which recomputed, under one budget."""

    SCHEMA = "plimsoll.checkpoint_policy/1"

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

    def _summary(self) -> str:
        return f"{super()._summary()}; peak {self.peak_bytes / GIB:.3g} GiB"

    def _rows(self) -> tuple[list[str], list[list[object]]]:
        rows: list[list[object]] = [
            [unit.get("fqn") or ", ".join(unit.get("fqns", [])), unit.get("kind", ""), unit.get("discard_ratio", "")]
            for unit in self.units
        ]
        return ["module", "kind", "discard ratio"], rows

    def plot(self, axes: Any = None) -> Any:
        """Memory while each module's backward runs; returns matplotlib's axes."""
        axes = _axes(axes)
        profile = self.document.get("profile", [])
        axes.plot([entry["bytes"] / GIB for entry in profile])
        axes.set(xlabel="module, in forward order", ylabel="GiB", title=self._summary())
        return axes


class Frontier(CheckpointPolicy):
    """The least time of recomputing for every peak."""

    @property
    def peak(self) -> npt.NDArray[np.int64]:
        """Peaks in bytes, ascending."""
        return np.asarray([point["bytes"] for point in self.document.get("frontier", [])], dtype=np.int64)

    @property
    def ms(self) -> npt.NDArray[np.float64]:
        """Least time at each peak."""
        return np.asarray([point["ms"] for point in self.document.get("frontier", [])], dtype=np.float64)

    def _summary(self) -> str:
        return f"frontier of {len(self.peak)} points"

    def _rows(self) -> tuple[list[str], list[list[object]]]:
        rows: list[list[object]] = [[f"{peak / GIB:.4g}", f"{ms:.6g}"] for peak, ms in zip(self.peak, self.ms)]
        return ["peak GiB", "recompute ms"], rows

    def plot(self, axes: Any = None) -> Any:
        """Peak against time; returns matplotlib's axes."""
        axes = _axes(axes)
        axes.step(self.peak / GIB, self.ms, where="post")
        axes.set(xlabel="peak GiB", ylabel="recompute ms", title=self._summary())
        return axes


class Placement(Answer):
    """Which device runs which operators."""

    SCHEMA = "plimsoll.placement/1"

    @property
    def stages(self) -> list[dict[str, Any]]:
        """What each device runs, or several that do the same."""
        return self.document.get("stages", [])

    def _rows(self) -> tuple[list[str], list[list[object]]]:
        rows: list[list[object]] = [
            [
                ", ".join(map(str, stage.get("devices", []))),
                len(stage.get("nodes", stage.get("operators", []))),
                stage.get("load_ms", stage.get("time_ms", "")),
                f"{stage.get('memory', 0) / GIB:.3g}",
            ]
            for stage in self.stages
        ]
        return ["devices", "operators", "ms", "memory GiB"], rows

    def plot(self, axes: Any = None) -> Any:
        """Load of every stage; returns matplotlib's axes."""
        axes = _axes(axes)
        axes.bar(range(len(self.stages)), [stage.get("load_ms", stage.get("time_ms", 0)) for stage in self.stages])
        axes.set(xlabel="stage", ylabel="ms", title=self._summary())
        return axes


class CheckReport(Answer):
    """What a judge that shares nothing with the searches says of a plan."""

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
        """What is legal and still trains wrongly or late."""
        return self.document.get("hazards", [])

    def _summary(self) -> str:
        return f"{len(self.violations)} violations, {len(self.hazards)} hazards"

    def _rows(self) -> tuple[list[str], list[list[object]]]:
        rows: list[list[object]] = [
            [finding["code"], finding.get("table", ""), finding.get("message", "")]
            for finding in self.violations + self.hazards
        ]
        return ["code", "table", "message"], rows
