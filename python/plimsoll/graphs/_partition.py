"""Plans pipeline stages: units of a graph, placed by the native planner."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import plimsoll
from plimsoll._command import Progress
from plimsoll._errors import Error
from plimsoll._operator_times import Machine, OperatorTimes
from plimsoll.graphs._graph import Graph, Operator, load, write
from plimsoll.graphs._plan import Plan, Stage
from plimsoll.graphs._units import Steps, Units, contract, find_units, merge, parents, unit_of_steps
from plimsoll.plans import Certificate, Placement


def _speed(on: str) -> tuple[float, float]:
    """Floating-point operations and bytes per ms of the accelerator that `on` names."""
    name = re.sub(r"^\d+x", "", on).partition(":")[0]
    known = plimsoll.hardware()
    wanted = {node["accelerator"] for node in known["nodes"] if node["id"] == name}
    for one in known["accelerators"]:
        if (one["id"] in wanted if wanted else one["id"].startswith(name)) and one.get("hbm_gb_per_s"):
            return one["bf16_dense_tflops"] * 1e9, one["hbm_gb_per_s"] * 1e6
    raise Error(
        "value",
        "on",
        f"the speed of {name!r} is not known",
        "name an accelerator, such as h100-sxm, or choose other times",
    )


def _timer(
    graph: Graph, on: str, times: str, launch_floor_us: float, machine: OperatorTimes | None
) -> Callable[[Operator], float]:
    floor = max(launch_floor_us, machine.launch_us if machine else 0.0) / 1000
    if times == "roofline" and machine is not None:
        by = machine

        def calibrated(node: Operator) -> float:
            if node.is_view or node.bytes_moved == 0:
                return 0.0
            return max(by.ms(node.flops, node.bytes_moved, node.dtype), floor)

        return calibrated
    if times == "roofline":
        flops, bandwidth = _speed(on)

        def roofline(node: Operator) -> float:
            if node.is_view or node.bytes_moved == 0:
                return 0.0
            return max(node.flops / flops, node.bytes_moved / bandwidth, floor)

        return roofline
    known = sorted({name for node in graph.nodes for name in node.ms})
    if times not in known:
        what = f"the graph has no times of {times!r}"
        raise Error("not_found", "times", what, f"give one of: {', '.join(['roofline', *known])}")
    return lambda node: max(node.ms.get(times, 0.0), floor if node.ms.get(times) else 0.0)


def _fill(runs: list[list[int]], ms: list[float], wanted: int) -> list[list[int]]:
    """Cuts the slowest stages in two until there are as many as wanted; no stage gets slower by that."""
    runs = [list(run) for run in runs]
    while len(runs) < wanted:
        slowest = max((i for i, run in enumerate(runs) if len(run) > 1), key=lambda i: sum(ms[u] for u in runs[i]))
        run = runs[slowest]
        best = min(range(1, len(run)), key=lambda c: max(sum(ms[u] for u in run[:c]), sum(ms[u] for u in run[c:])))
        runs[slowest : slowest + 1] = [run[:best], run[best:]]
    return runs


@dataclass
class _Case:
    """One graph and one set of devices, planned with units of one kind."""

    steps: Steps
    ms: Callable[[Operator], float]
    flags: dict[str, Any]
    wanted: int | None

    def plan(
        self, units: Units, given: list[list[int]] | None = None, progress: Progress | None = None
    ) -> tuple[Placement, list[list[int]], Certificate]:
        """The placement, the units of each stage, and what is known of it; of `given` stages what they cost."""
        rows = contract(self.steps, units, self.ms)
        document = write(rows, name=self.steps.graph.name)
        placement = plimsoll.partition(document, progress=progress, times="unit", **self.flags)
        runs = self._runs(placement, units)
        certificate = placement.certificate
        if runs and given is None and self.wanted is not None and len(runs) < self.wanted:
            passes = {name: sum(row.ms.get("unit", 0) for row in rows if row.module == name) for name in units.rows}
            given = _fill(runs, list(passes.values()), self.wanted)
        if runs and given is not None:
            runs = given
            names = units.rows
            pins = [f"{names[unit]}={stage}" for stage, run in enumerate(runs) for unit in run]
            bound = certificate.lower_bound
            placement = plimsoll.partition(document, times="unit", pin=pins, **self.flags)
            runs = self._runs(placement, units)
            value = placement.certificate.objective
            gap = None if not bound or not runs else value / bound - 1
            certificate = Certificate(value, bound, gap, certificate.proof)
        return placement, runs, certificate

    @staticmethod
    def _runs(placement: Placement, units: Units) -> list[list[int]]:
        stage_of = {name: stage for stage, one in enumerate(placement.stages) for name in one["nodes"]}
        runs: dict[int, list[int]] = {}
        for unit, name in enumerate(units.rows):
            if placement.stages:
                runs.setdefault(stage_of[name], []).append(unit)
        return sorted(runs.values())


def _tie_together(steps: Steps, units: Units) -> list[tuple[int, int]]:
    """First and last unit that read each parameter."""
    nodes = steps.graph.nodes
    original = dict((second, first) for first, second in steps.graph.ties)
    of = unit_of_steps(units, len(steps))
    spans: dict[int, list[int]] = {}
    for row, step in steps.step_of.items():
        for source in nodes[row].inputs:
            if nodes[source].is_parameter and not nodes[row].is_backward:
                spans.setdefault(original.get(source, source), []).append(of[step])
    return [(min(span), max(span)) for span in spans.values() if min(span) != max(span)]


def _given_runs(steps: Steps, units: Units, starts: Sequence[str]) -> list[list[int]]:
    """The units of stages that begin with these modules."""
    first: dict[str, int] = {}
    for step, module in enumerate(steps.modules):
        for path in parents(module):
            first.setdefault(path, step)
    known = {step: unit for unit, step in enumerate(units.first) if unit}
    cuts = [0]
    for name in starts:
        unit = known.get(first.get(name, -1))
        if unit is None or unit <= cuts[-1]:
            what = (
                f"no stage can begin with {name!r}"
                if unit is None
                else f"{name!r} does not come after the stage before"
            )
            raise Error("value", "starts", what, f"give some of these, in order: {', '.join(units.names[1:])}")
        cuts.append(unit)
    return [list(range(a, b)) for a, b in zip(cuts, [*cuts[1:], len(units.first)])]


def partition(
    graph: Graph | str | os.PathLike[str],
    stages: int | None = None,
    *,
    on: str = "h100-sxm",
    memory: str | int | None = None,
    objective: str = "throughput",
    microbatches: int | None = None,
    align: str | None = "modules",
    starts: Sequence[str] | None = None,
    tied: str = "copies",
    times: str | None = None,
    launch_floor_us: float = 0,
    machine: Machine | None = None,
    progress: Progress | None = None,
    **flags: Any,
) -> Plan:
    """Plans pipeline stages, each a run of operators in graph order, one stage a device.

    Args:
        graph: What `capture` returned, or a file that `Graph.save` wrote.
        stages: How many; by default at most as many as `on` has devices.
        on: Hardware: an accelerator ("h100-sxm"), or with a number of devices ("4xh100-sxm", "dgx-h100:2").
        memory: Of each device ("16GiB"); by default that of the hardware.
        objective: "throughput" makes the slowest stage fast, "pipeline" a batch of `microbatches`, and counts what is
            in flight as memory.
        microbatches: In a batch.
        align: "modules": stages begin where modules do, and layers stay whole, so that `split_spec`, `device_map` and
            `module_fqns_per_model_part` can express them. "submodules": also within layers, which `split_spec` can
            express. None: they begin with any operator.
        starts: Modules with which the second and later stages begin: prices these stages, and searches none.
        tied: "copies": stages that share a parameter have a copy each (`Plan.tied`). "together": one stage holds all
            that read it.
        times: "roofline", or a class of devices of which the graph has times; by default "measured" if it is captured
            so, else "roofline".
        launch_floor_us: The least time of an operator.
        machine: A document of `plimsoll calibrate`, the path of one, or the name of one that comes with Plimsoll
            ("h100-sxm5-80gb"): its roofline takes the place of that of `on`, and its launch is the least time of an
            operator, of measured ones too.
        progress: Called with (effort, ms, bound).
        flags: Of `plimsoll partition`: time_limit, effort, seed, ...

    Raises:
        Error: Bad input, or the model has fewer places to cut than stages need.
    """
    if not isinstance(graph, Graph):
        graph = load(graph)
    for name, value, allowed in (
        ("align", align, ("modules", "submodules", None)),
        ("tied", tied, ("copies", "together")),
        ("objective", objective, ("throughput", "pipeline")),
    ):
        if value not in allowed:
            what = f"{value!r} is not known"
            raise Error("value", name, what, f"give one of: {', '.join(map(repr, allowed))}")
    if objective == "pipeline" and microbatches is None:
        raise Error("usage", "microbatches", "is missing", "say how many microbatches a batch has")
    if stages is not None and stages < 1:
        raise Error("value", "stages", f"{stages} is not a number of stages", "give at least 1")
    if starts is not None:
        stages = len(starts) + 1
    if times is None:
        times = "measured" if any("measured" in node.ms for node in graph.nodes) else "roofline"
    for name in sorted({"contiguous", "forbid", "general", "pin", "search", "straight"} & set(flags)):
        raise Error(
            "usage", name, "is not a flag of graphs.partition", "plimsoll.partition(graph.to_document(), ...) has it"
        )
    by = None if machine is None else OperatorTimes.of(machine)
    has_count = bool(re.match(r"\d+x", on) or ":" in on)
    if stages is None and not has_count:
        raise Error("usage", "stages", "is missing", f"say how many stages, or how many devices: on='4x{on}'")
    steps = Steps.of(graph)
    if not len(steps):
        raise Error("value", "graph", "has no operator", "give a model that computes")
    native: dict[str, Any] = {"on": on if has_count else f"{stages}x{on}", "memory": memory, **flags}
    if has_count and stages is not None:
        native["devices"] = stages
    if objective == "pipeline":
        native |= {"objective": "pipeline", "straight": True, "microbatches": microbatches}
    elif graph.is_training:
        native.setdefault("activations", "stashed")
    case = _Case(steps, _timer(graph, on, times, launch_floor_us, by), native, stages)

    units = find_units(steps, align, stages or 1)
    if tied == "together":
        units = merge(units, _tie_together(steps, units))
    if stages is not None and len(units.first) < stages:
        raise Error(
            "value",
            "stages",
            f"{stages} are more than the {len(units.first)} parts that the model can be cut into",
            "give fewer" + (", or align=None" if align else "") + (", or tied='copies'" if tied == "together" else ""),
        )
    given = None if starts is None else _given_runs(steps, units, starts)
    placement, runs, certificate = case.plan(units, given, progress)
    plan = Plan(
        graph,
        placement.status if certificate == placement.certificate else _status(certificate),
        certificate,
        objective,
        microbatches if objective == "pipeline" else None,
        [],
        None,
        placement,
        placement.explanation,
        [warning["message"] for warning in placement.warnings],
        steps,
    )
    if not runs:
        return plan
    first = [units.first[run[0]] for run in runs]
    plan._first = first
    plan.stages = _stages(steps, units, runs, placement)
    if align == "modules" and not units.has_whole_branches and len(first) > 1:
        plan.warnings.append(
            "stages begin within residual branches: device_map and module_fqns_per_model_part cannot express them"
        )
    if align and starts is None:
        free = find_units(steps, None, 1)
        if tied == "together":
            free = merge(free, _tie_together(steps, free))
        bound = case.plan(free)[2].lower_bound
        plan.alignment_cost = None if not bound else max(certificate.objective / bound - 1, 0.0)
    return plan


def _status(certificate: Certificate) -> str:
    return "optimal" if certificate.gap is not None and certificate.gap <= 1e-6 else "feasible"


def _stages(steps: Steps, units: Units, runs: list[list[int]], placement: Placement) -> list[Stage]:
    record_of = {name: record for record in placement.stages for name in record["nodes"]}
    ends = [*units.first[1:], len(steps)]
    names = units.rows
    found = []
    for run in runs:
        record = record_of[names[run[0]]]
        found.append(
            Stage(
                tuple(steps.names[units.first[run[0]] : ends[run[-1]]]),
                record["load_ms"],
                record["transfer_ms"],
                record["memory_bytes"],
                record.get("in_flight", 1),
            )
        )
    return found
