"""Plans for a live model: native plans, each judged by the replayed step; needs no torch.

Problem. Choose units and the operators that they keep so that the measured peak of the step is within a budget and the
least time is added.
Method. The native planner is exact for its model of the step, in which a unit's discarded bytes are missing until its
backward begins. The replay knows the step to the byte. So the native planner is asked for a budget, the replay says
what its plan would really take, and the budget is moved by the difference until the plan is within the real one. Then
units are dropped while the replay allows it.
Promises. The stated peak is the replay's. The lower bound is the native planner's under the real budget: its model
leaves out what recomputation needs for itself, so no plan is faster where that model is not above the replay.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from plimsoll import _plot
from plimsoll._command import call
from plimsoll._errors import Error
from plimsoll._files import read_as, write_object
from plimsoll.checkpointing._least import least_peak
from plimsoll.checkpointing._simulate import Step, Units
from plimsoll.checkpointing._stats import Stats

GIB = 2**30
SCHEMA = "plimsoll.checkpointing_plan/1"
_SIZE = re.compile(r"^\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([kMGT]i?B|B|%)\s*$", re.IGNORECASE)
_ROUNDS = 12  # of asking the native planner; each is 0.1 s on Llama-3-8B


class InfeasibleBudget(Error):
    """No plan is within the budget.

    Attributes:
        budget_bytes: What was asked for.
        smallest_bytes: The least peak that a plan was found for.
        binding_module: Whose backward needs it; "" for the loss.
        lower_bound_bytes: No plan needs less; 0 if that is not known, as of compiled steps.
    """

    def __init__(self, budget: int, smallest_bytes: int, binding_module: str, lower_bound_bytes: int) -> None:
        where = f"in the backward of {binding_module}" if binding_module else "at the loss"
        super().__init__(
            "infeasible",
            "budget",
            f"{size_text(budget)} is too small: the best plan found needs {size_text(smallest_bytes)}, {where}"
            + (f", and every plan at least {size_text(lower_bound_bytes)}" if lower_bound_bytes else ""),
            f"give budget={smallest_bytes}, or a smaller batch",
        )
        self.budget_bytes = budget
        self.smallest_bytes = smallest_bytes
        self.binding_module = binding_module
        self.lower_bound_bytes = lower_bound_bytes

    @property
    def is_proved(self) -> bool:
        """Is it proved that no plan exists? Else the budget is between the bound and the best plan found."""
        return self.budget_bytes < self.lower_bound_bytes


def size_text(count: int) -> str:
    """Bytes for people."""
    for unit, name in ((GIB, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if count >= unit:
            return f"{count / unit:.2f} {name}"
    return f"{count} B"


@dataclass
class Unit:
    """A module whose activations are recomputed, except for the outputs of some operators.

    Attributes:
        fqn: Its name, as `named_modules` has it.
        operators: Names of all its operators, in order.
        keep: Which of them keep their outputs.
        buffers: Does its forward change buffers?
    """

    fqn: str
    operators: list[str]
    keep: list[int]
    buffers: bool = False


@dataclass
class Plan:
    """What `apply` does to a model, and what it was predicted to take.

    Attributes:
        units: In forward order.
        peak_bytes: Of the step; at most `budget_bytes`.
        recompute_ms: What recomputation adds to the step, in the statistics' times.
        lower_bound_ms: No plan under this budget adds less, by the planner's model.
        baseline_bytes: The peak without checkpointing, and
        baseline_ms: forward and backward without it.
        compiled_bytes: The peak that `fit(compile=...)` measured of the compiled step; else None.
    """

    name: str
    budget_bytes: int
    peak_bytes: int
    recompute_ms: float
    lower_bound_ms: float
    baseline_bytes: int
    baseline_ms: float
    units: list[Unit]
    live: list[int] = field(default_factory=list, repr=False)  # bytes over the step, for `plot`
    marks: dict[str, int] = field(default_factory=dict, repr=False)
    compiled_bytes: int | None = None

    @property
    def overhead(self) -> float:
        """Share of the step's time that recomputation adds."""
        return self.recompute_ms / self.baseline_ms if self.baseline_ms else 0.0

    @property
    def gap(self) -> float:
        """By how much the added time is above the lower bound at most, as a share of the step."""
        return max(0.0, self.recompute_ms - self.lower_bound_ms) / self.baseline_ms if self.baseline_ms else 0.0

    def save(self, path: str | os.PathLike[str]) -> None:
        """As JSON."""
        write_object(path, {"schema": SCHEMA, **vars(self), "units": [vars(unit) for unit in self.units]})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Plan:
        """What `save` wrote."""
        return read_as(
            path,
            SCHEMA,
            "Plan.save",
            lambda document: cls(**{**document, "units": [Unit(**unit) for unit in document["units"]]}),
        )

    def __str__(self) -> str:
        lines = [
            f"{self.name}: peak {size_text(self.peak_bytes)} of {size_text(self.budget_bytes)} allowed "
            f"({size_text(self.baseline_bytes)} without checkpointing)"
            + ("" if self.compiled_bytes is None else f"; {size_text(self.compiled_bytes)} compiled"),
            f"{self.overhead:.1%} more time per step ({self.recompute_ms:.4g} ms); "
            f"at most {self.gap:.1%} of a step above the best possible plan",
        ]
        groups = list(self._groups())
        shown = groups if len(groups) <= 8 else groups[:7]
        lines += [
            f"  {count} x {pattern}: " + (f"keep {kept} of {total} operators" if kept else "keep nothing")
            for count, pattern, kept, total in shown
        ]
        if len(groups) > len(shown):
            rest = sum(count for count, *_ in groups[len(shown) :])
            lines.append(f"  {rest} more in {len(groups) - len(shown)} groups; plan.units has them all")
        return "\n".join(lines)

    def _groups(self) -> Iterable[tuple[int, str, int, int]]:
        """Units that are alike except for a number in their names: how many, the pattern, kept and all operators."""

        def key(unit: Unit) -> tuple[str, int, int]:
            pattern = ".".join("N" if part.isdigit() else part for part in unit.fqn.split("."))
            return pattern, len(unit.keep), len(unit.operators)

        for (pattern, kept, total), units in groupby(sorted(self.units, key=key), key=key):
            members = list(units)
            yield len(members), pattern if len(members) > 1 else members[0].fqn, kept, total

    def plot(self, axes: Any = None) -> Any:
        """Memory over the step, and the budget; returns matplotlib's axes."""
        panel = _plot.make_axes(axes)[0]
        panel.plot([value / GIB for value in self.live], linewidth=1)
        panel.axhline(self.budget_bytes / GIB, color="black", linestyle="--", label="budget")
        for what, at in self.marks.items():
            panel.axvline(at, color="0.8", linewidth=1)
            panel.annotate(what, (at, 0), rotation=90, ha="right", va="bottom", fontsize="small", color="0.4")
        panel.legend(frameon=False)
        panel.set(xlabel="operators of the step", ylabel="GiB", title=str(self).splitlines()[0], ylim=(0, None))
        return panel


@dataclass
class Frontier:
    """Plans for falling budgets.

    Attributes:
        plans: With falling peaks and rising times; the first is the step without checkpointing.
        lower_bound_bytes: No plan has a smaller peak.
    """

    plans: list[Plan]
    lower_bound_bytes: int = 0

    @property
    def peak_bytes(self) -> list[int]:
        """Of every plan."""
        return [plan.peak_bytes for plan in self.plans]

    @property
    def recompute_ms(self) -> list[float]:
        """Of every plan."""
        return [plan.recompute_ms for plan in self.plans]

    def at(self, budget: str | int | float) -> Plan:
        """The fastest of the plans within a budget."""
        limit = parse_budget(budget, self.plans[0].baseline_bytes)
        for plan in self.plans:
            if plan.peak_bytes <= limit:
                return plan
        raise InfeasibleBudget(limit, self.plans[-1].peak_bytes, "", self.lower_bound_bytes)

    def plot(self, axes: Any = None) -> Any:
        """Peak against time, and what is proved; returns matplotlib's axes."""
        panel = _plot.make_axes(axes)[0]
        gib = [peak / GIB for peak in self.peak_bytes]
        panel.plot(gib, self.recompute_ms, marker=".", drawstyle="steps-pre", label="plans")
        panel.plot(
            [plan.budget_bytes / GIB for plan in self.plans],
            [plan.lower_bound_ms for plan in self.plans],
            linestyle=":",
            label="lower bound",
        )
        panel.legend(frameon=False)
        panel.set(xlabel="peak GiB", ylabel="recompute ms", title=self.plans[0].name)
        return panel


def parse_budget(budget: str | int | float, peak: int) -> int:
    """Bytes: "6GiB", "8GB", a number of bytes, or a share of the peak as "70%" or 0.7."""
    if isinstance(budget, str):
        found = _SIZE.match(budget)
        if found is None:
            raise Error("value", "budget", f"'{budget}' is not a size", "give '6GiB', '70%', 0.7 or a number of bytes")
        number, unit = float(found[1]), found[2].lower()
        if unit == "%":
            return int(number / 100 * peak)
        base = 1024 if "i" in unit else 1000
        return int(number * base ** " kmgt".index(unit[0] if unit != "b" else " "))
    if isinstance(budget, bool) or not isinstance(budget, (int, float)):
        raise Error("value", "budget", f"{budget!r} is not a size", "give '6GiB', '70%', 0.7 or a number of bytes")
    if isinstance(budget, float):
        if not 0 < budget <= 1:
            raise Error(
                "value", "budget", f"{budget} is not a share of the peak", "give 0.7, or a whole number of bytes"
            )
        return int(budget * peak)
    return budget


def plan(stats: Stats, budget: str | int | float) -> Plan:
    """The plan that adds the least time to the step within the budget.

    Args:
        stats: From `profile`.
        budget: The peak of the whole step, parameters, gradients and batch included: "6GiB", "70%" of the peak without
            checkpointing, 0.7, or bytes.

    Raises:
        InfeasibleBudget: No plan is within it; it names the least peak that was found, and what every plan needs.
    """
    return _Search(stats).plan(parse_budget(budget, stats.peak_bytes))


def frontier(stats: Stats, points: int = 32) -> Frontier:
    """Plans from no checkpointing down to the smallest budget.

    Args:
        stats: From `profile`.
        points: Budgets that are planned for.
    """
    search = _Search(stats)
    top, bottom = stats.peak_bytes, search.smallest()
    budgets = [top - round((top - bottom.peak) * i / max(1, points - 1)) for i in range(points)]
    plans: list[Plan] = []
    for budget in budgets:
        made = search.plan(budget)
        while plans and plans[-1].recompute_ms >= made.recompute_ms and plans[-1].peak_bytes >= made.peak_bytes:
            plans.pop()
        if not plans or made.peak_bytes < plans[-1].peak_bytes:
            plans.append(made)
    return Frontier(plans, search.least(plans[-1].peak_bytes))


@dataclass
class _Candidate:
    units: dict[str, frozenset[int]]
    step: Step

    @property
    def peak(self) -> int:
        return self.step.peak

    @property
    def ms(self) -> float:
        return self.step.recompute_ms


class _Search:
    def __init__(self, stats: Stats) -> None:
        self.stats = stats
        self.prefix = stats.module_stats["name"]
        self._answers: dict[tuple[int, tuple[str, ...]], dict[str, Any]] = {}

    def plan(self, budget: int) -> Plan:
        plain = self._replay({})
        if plain.peak <= budget:
            return self._make(plain, budget, 0.0)
        best = self._best(budget)
        if best is None:
            smallest = self.smallest()
            if smallest.peak > budget:
                raise InfeasibleBudget(budget, smallest.peak, self._binding(smallest), self.least(smallest.peak))
            best = smallest
        best = self._use_room(best, budget)
        answer = self._ask(budget, ())
        bound = answer["certificate"]["lower_bound"] if "certificate" in answer else 0.0
        return self._make(best, budget, min(bound or 0.0, best.ms))

    def _best(self, budget: int) -> _Candidate | None:
        """The fastest plan that the native planner gives for some budget and that is within the real one."""
        best: _Candidate | None = None
        for repairs in ((), ("saved_copies", "unit_own_backward")):
            low, high, ask = 0, None, budget
            for _ in range(_ROUNDS):
                answer = self._ask(ask, repairs)
                if "units" not in answer:
                    low = max(low, ask)
                    if high is None or high - low < 4096:
                        break
                    ask = (low + high) // 2
                    continue
                found = self._replay(self._units(answer))
                over = found.peak - budget
                if over <= 0:
                    if best is None or found.ms < best.ms:
                        best = found
                    if high is None:
                        break  # the first question: what the native planner can do best
                    low = ask
                else:
                    high = ask if high is None else min(high, ask)
                if high - low < 4096:
                    break
                ask = max(ask - over, (low + high) // 2 if low else 0) if over > 0 else (low + high) // 2
        return best

    def smallest(self) -> _Candidate:
        """The plan of the least peak that is known."""
        tried = [self._replay({})]
        for repairs in ((), ("saved_copies", "unit_own_backward")):
            answer = self._ask(1, repairs)
            least = answer.get("budget_bytes", 0) + answer.get("explanation", {}).get("missing", 0)
            answer = self._ask(least, repairs)
            if "units" in answer:
                tried.append(self._replay(self._units(answer)))
        for depth in range(1, 12):  # and everything of one depth at once
            units = {fqn: frozenset[int]() for fqn in self._cover(depth)}
            tried.append(self._replay(units))
        return min(tried, key=lambda candidate: (candidate.peak, candidate.ms))

    def least(self, found: int) -> int:
        """What every plan needs; one was found that needs `found`."""
        return least_peak(self.stats.replay, self.stats.table_of, found)

    def _cover(self, depth: int) -> list[str]:
        """The units of a depth, and deeper ones beside them."""
        chosen: list[str] = []
        for fqn in sorted(self.stats.table_of, key=lambda name: name.count(".")):
            if fqn.count(".") + 1 >= depth and not any(fqn.startswith(f"{unit}.") for unit in chosen):
                chosen.append(fqn)
        return chosen

    def _use_room(self, start: _Candidate, budget: int) -> _Candidate:
        """Drops units, or the policy of one, while the replay allows it, what saves most time first."""
        best = start
        while True:
            tried = []
            for fqn in best.units:
                tried.append(self._replay({name: keep for name, keep in best.units.items() if name != fqn}))
                if best.units[fqn] and self.stats.trace.costs.operator > 0:  # a policy may cost more than it saves
                    tried.append(self._replay({**best.units, fqn: frozenset()}))
            better = [candidate for candidate in tried if candidate.peak <= budget and candidate.ms < best.ms]
            if not better:
                return best
            best = min(better, key=lambda candidate: candidate.ms)

    def _ask(self, budget: int, repairs: tuple[str, ...]) -> dict[str, Any]:
        key = (budget, repairs)
        if key not in self._answers:
            rules: dict[str, Any] = {"budget": max(1, budget), "peak": "step", "repair": ["early_stop", *repairs]}
            if self.stats.trace.costs.unit > 0:
                rules["unit_overhead_ms"] = self.stats.trace.costs.unit
            self._answers[key] = call("checkpoint", {"stats": self.stats.module_stats}, rules)
        return self._answers[key]

    def _units(self, answer: Mapping[str, Any]) -> dict[str, frozenset[int]]:
        units: dict[str, frozenset[int]] = {}
        for unit in answer["units"]:
            fqn = unit["fqn"][len(self.prefix) + 1 :]
            never = self.stats.never_kept[self.stats.table_of[fqn]]
            units[fqn] = frozenset(op["i"] for op in unit.get("ops", ()) if op["save"] and op["i"] not in never)
        return units

    def _replay(self, units: Units) -> _Candidate:
        return _Candidate(dict(units), self.stats.replay.step(units))

    def _binding(self, candidate: _Candidate) -> str:
        at = int(candidate.step.live.argmax())
        inside = [fqn for begin, end, fqn in candidate.step.recomputations if begin <= at]
        return inside[-1] if inside else ""

    def _make(self, candidate: _Candidate, budget: int, bound: float) -> Plan:
        stats = self.stats
        first = {}
        for module_call in stats.trace.calls:
            first.setdefault(module_call.fqn, module_call)
        units = [
            Unit(
                fqn=fqn,
                operators=stats.tables[stats.table_of[fqn]],
                keep=sorted(candidate.units[fqn]),
                buffers=first[fqn].written_buffers > 0,
            )
            for fqn in sorted(candidate.units, key=lambda name: first[name].first)
        ]
        step = candidate.step
        return Plan(
            name=stats.module_stats["name"],
            budget_bytes=budget,
            peak_bytes=step.peak,
            recompute_ms=step.recompute_ms,
            lower_bound_ms=bound,
            baseline_bytes=stats.peak_bytes,
            baseline_ms=stats.step_ms,
            units=units,
            live=[int(value) for value in step.live],
            marks={"backward": step.forward_end, "end of backward": step.backward_end},
        )
