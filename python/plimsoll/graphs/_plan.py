"""Pipeline stages of a captured graph, in the terms of modules and of other programs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from plimsoll._errors import Error
from plimsoll.graphs._graph import Graph
from plimsoll.graphs._units import Steps, forbidden_across_branches, is_called, module_starts, parents
from plimsoll.plans import Certificate, Placement

if TYPE_CHECKING:
    import torch
    import torch.distributed

GIB = 2**30


@dataclass(frozen=True)
class Stage:
    """What one device runs.

    Attributes:
        operators: Traced operators, in graph order.
        ms: Of a microbatch: compute and transfers, forward and, of a training graph, backward.
        transfer_ms: Part of it.
        memory_bytes: Weights, their gradients, and what the backward pass reads of `in_flight` microbatches.
        in_flight: Microbatches that the stage holds at once, as 1F1B runs them; 1 with objective="throughput".
    """

    operators: tuple[str, ...]
    ms: float
    transfer_ms: float
    memory_bytes: int
    in_flight: int = 1


@dataclass(frozen=True)
class TiedWeight:
    """A parameter of which several stages hold a copy.

    Attributes:
        names: In each stage, by its number.
        bytes: Of a copy.
    """

    names: dict[int, str]
    bytes: int

    @property
    def stages(self) -> tuple[int, ...]:
        """Those with a copy."""
        return tuple(sorted(self.names))


@dataclass
class Plan:
    """Stages of a graph, each a run of its operators.

    Attributes:
        graph: What was planned.
        status: "optimal", "feasible", "infeasible" (proved) or "limit".
        certificate: Of `objective` among plans that begin stages where this one may.
        objective: "throughput" (the slowest stage) or "pipeline" (a batch of `microbatches`), in ms.
        microbatches: In a batch, with objective="pipeline".
        stages: Empty without a plan.
        alignment_cost: What align="modules" costs at most beside align=None, as a share; else None.
        placement: The native planner's answer.
        explanation: Why there is no plan.
        warnings: What to know before the plan is used.
    """

    graph: Graph
    status: str
    certificate: Certificate
    objective: str
    microbatches: int | None
    stages: list[Stage]
    alignment_cost: float | None
    placement: Placement
    explanation: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    _steps: Steps = field(default=None, repr=False, compare=False)  # type: ignore[assignment]
    _first: list[int] = field(default_factory=list, repr=False, compare=False)  # step of each stage

    @property
    def num_stages(self) -> int:
        """How many there are."""
        return len(self.stages)

    @property
    def stage_of(self) -> dict[str, int]:
        """The stage of every traced operator; those that depend on nothing run in each stage that reads them."""
        return {name: stage for stage, one in enumerate(self.stages) for name in one.operators}

    def step_ms(self, microbatches: int) -> float:
        """Time of a batch through all stages, by GPipe or 1F1B alike."""
        self._require_stages()
        times = [stage.ms for stage in self.stages]
        return sum(times) + (microbatches - 1) * max(times)

    def __str__(self) -> str:
        if not self.stages:
            return "\n".join([f"{self.graph.name}: no plan ({self.status})", *self.explanation])
        gap = "" if self.certificate.gap is None else f", at most {self.certificate.gap:.2%} above the best"
        what = "slowest stage" if self.objective == "throughput" else f"batch of {self.microbatches}"
        lines = [f"{self.graph.name}: {self.num_stages} stages, {what} {self.certificate.objective:.6g} ms{gap}"]
        if self.alignment_cost is not None:
            lines.append(f"stages begin with modules: at most {self.alignment_cost:.2%} more than with operators")
        first = [self.split_start(stage) for stage in range(self.num_stages)]
        width = max(map(len, first))
        for stage, (one, name) in enumerate(zip(self.stages, first)):
            lines.append(
                f"  {stage}  from {name:{width}}  {one.ms:.4g} ms  {one.memory_bytes / GIB:.3g} GiB"
                f"  {one.in_flight} in flight"
            )
        lines += [f"  tied: {', '.join(f'{n} in stage {s}' for s, n in tied.names.items())}" for tied in self.tied]
        return "\n".join([*lines, *(f"  {text}" for text in self.warnings)])

    def split_start(self, stage: int) -> str:
        """The module with which a stage begins, or else its first operator."""
        first = self._first[stage]
        return module_starts(self._steps).get(first, self._steps.names[first])

    def _require_stages(self) -> None:
        if not self.stages:
            raise Error("infeasible", "plan", f"there is none ({self.status})", "; ".join(self.explanation))

    def _require_modules(self, is_apart: bool) -> None:
        """Do stages begin with modules, and, if asked, do the modules that are cut apart allow it?"""
        self._require_stages()
        starts = module_starts(self._steps)
        mixed = forbidden_across_branches(self._steps)
        for stage, first in enumerate(self._first[1:], 1):
            operator = self._steps.names[first]
            module = self._steps.modules[first] or "the model itself"
            if first not in starts:
                raise Error(
                    "value",
                    f"stage {stage}",
                    f"begins with operator {operator} within {module}, where no module begins",
                    'plan with align="modules", or use split()',
                )
            if is_apart and mixed[first]:
                raise Error(
                    "value",
                    f"stage {stage}",
                    f"begins with {starts[first]}, but operators of a module around it read values of both stages",
                    "use split() or split_spec(), or plan fewer stages",
                )

    def split_spec(self) -> dict[str, Any]:
        """For `torch.distributed.pipelining.pipeline(model, ..., split_spec=...)`.

        Raises:
            Error: A stage begins within a module.
        """
        from torch.distributed.pipelining import SplitPoint

        self._require_modules(is_apart=False)
        return {self.split_start(stage): SplitPoint.BEGINNING for stage in range(1, self.num_stages)}

    def _stages_of_modules(self) -> dict[str, set[int]]:
        """Stages in which each module, its children included, has operators."""
        stages: dict[str, set[int]] = {}
        of = self.stage_of
        for name, module in zip(self._steps.names, self._steps.modules):
            for path in parents(module):
                stages.setdefault(path, set()).add(of[name])
        return stages

    def _tree(self) -> tuple[list[str], dict[str, list[str]]]:
        """All modules, in the model's order, and the children of each."""
        ran = [path for module in self._steps.modules for path in reversed(parents(module)) if path]
        paths = list(dict.fromkeys(self.graph.modules or ran))
        children: dict[str, list[str]] = {}
        for path in paths:
            children.setdefault(path.rpartition(".")[0], []).append(path)
        return paths, children

    def module_fqns_per_model_part(self) -> list[list[str]]:
        """The modules of each stage, in torchtitan's form: a module stands for its children; of lists each entry.

        A module that computes nothing stands with the one before it. One that several stages run is in each of them.

        Raises:
            Error: Modules cannot express the stages.
        """
        self._require_modules(is_apart=True)
        ran = self._stages_of_modules()
        parts: list[list[str]] = [[] for _ in self.stages]
        paths, children = self._tree()
        first: dict[str, int] = {}
        for step, module in enumerate(self._steps.modules):
            for path in parents(module):
                first.setdefault(path, step)
        order: dict[str, int] = {}  # as modules run; one that computes nothing behind the one before it
        for previous, path in zip(["", *paths], paths):
            order[path] = first.get(path, order.get(previous, 0))

        def visit(module: str, before: int) -> int:
            for child in children.get(module, []):
                stages = ran.get(child, set())
                is_list = not is_called(self.graph, child) and bool(children.get(child))
                if is_list or (len(stages) > 1 and children.get(child)):
                    before = visit(child, before)
                    continue
                for stage in sorted(stages) or [before]:
                    parts[stage].append(child)
                before = max(stages, default=before)
            return before

        visit("", 0)
        return [sorted(part, key=order.__getitem__) for part in parts]

    def _weight_stages(self) -> dict[str, set[int]]:
        """Stages that read each weight, by all of its names."""
        nodes = self.graph.nodes
        original = dict((second, first) for first, second in self.graph.ties)
        same: dict[int, set[str]] = {}
        readers: dict[int, set[int]] = {}
        of = [self.stage_of[name] for name in self._steps.names]
        for row, node in enumerate(nodes):
            if node.is_weight:
                same.setdefault(original.get(row, row), set()).add(node.target)
        for step, rows in enumerate(self._steps.rows):
            for row in rows:
                for source in nodes[row].inputs:
                    if nodes[source].is_weight and not nodes[row].is_backward:
                        readers.setdefault(original.get(source, source), set()).add(of[step])
        found: dict[str, set[int]] = {}
        for weight, names in same.items():
            for group in self.graph.aliases:
                if names & set(group):
                    names |= set(group)
            for name in names:
                found[name] = readers.get(weight, set())
        return found

    @property
    def tied(self) -> list[TiedWeight]:
        """Parameters with copies in several stages; `sync_tied` keeps them equal."""
        nodes = self.graph.nodes
        stages = self._weight_stages()
        original = dict((second, first) for first, second in self.graph.ties)
        found = []
        for row, node in enumerate(nodes):
            if node.is_parameter and row not in original and len(stages[node.target]) > 1:
                names = {stage: self.weight_name(node.target, stage) for stage in sorted(stages[node.target])}
                found.append(TiedWeight(names, node.output_bytes))
        return found

    def weight_name(self, name: str, stage: int) -> str:
        """What a stage calls a weight that has several names: as the module does that reads it there."""
        group = next((group for group in self.graph.aliases if name in group), (name,))
        if len(group) == 1:
            return name
        of = self.stage_of
        ran = {m for operator, m in zip(self._steps.names, self._steps.modules) if of[operator] == stage}
        fitting = [alias for alias in group if alias.rpartition(".")[0] in ran]
        return fitting[0] if fitting else name

    def device_map(self, model: torch.nn.Module, devices: Sequence[Any] | None = None) -> dict[str, Any]:
        """The device of every module, in accelerate's form (transformers' `device_map`).

        A weight that several stages read is with the first of them, and so are the modules that read it: accelerate
        runs a module where its weights are.

        Args:
            model: That was captured, or one like it.
            devices: Of the stages; by default their numbers.

        Raises:
            Error: Modules cannot express the stages.
        """
        self._require_modules(is_apart=True)
        devices = list(range(self.num_stages)) if devices is None else list(devices)
        if len(devices) != self.num_stages:
            what = f"{len(devices)} for {self.num_stages} stages"
            raise Error("value", "devices", what, "give one for each stage")
        read = self._weight_stages()
        ran = self._stages_of_modules()
        names = [name for name, _ in model.named_parameters(remove_duplicate=False)]
        names += [name for name, _ in model.named_buffers(remove_duplicate=False)]
        groups = [set(group) & set(names) for group in self.graph.aliases]
        for module in (path for path, stages in ran.items() if len(stages) == 1):
            groups.append({name for name in names if name.rpartition(".")[0] == module})
        stage_of: dict[str, int] = {}
        for name in names:
            above = next((ran[path] for path in parents(name.rpartition(".")[0]) if path in ran), {0})
            stage_of[name] = min(read.get(name) or above)
        before: dict[str, int] = {}
        while before != stage_of:  # tensors of one module, or with one storage, are on one device
            before = dict(stage_of)
            for group in groups:
                stage_of.update(dict.fromkeys(group, min((stage_of[name] for name in group), default=0)))
        modules = {name: name.rpartition(".")[0] for name in names}
        moved = {m for name, m in modules.items() if m in ran and stage_of[name] < min(ran[m])}
        if moved:
            warnings.warn(
                f"{', '.join(sorted(moved))}: reads weights of an earlier stage, so the device map puts it there; the "
                "plan's times do not count that",
                stacklevel=2,
            )
        below: dict[str, set[int]] = {}
        for name, stage in stage_of.items():
            for path in parents(name.rpartition(".")[0]):
                below.setdefault(path, set()).add(stage)
        found: dict[str, Any] = {}
        for name in names:
            paths = list(reversed(parents(name.rpartition(".")[0])))
            whole = next((path for path in paths if len(below[path]) == 1 and (path or self.num_stages == 1)), name)
            found[whole] = devices[stage_of[name]]
        return found

    def split(self, model: torch.nn.Module | None = None, device: Any = None) -> list[torch.fx.GraphModule]:
        """The stages as modules that own their weights, under the names of the model, for `PipelineStage`.

        Stage 0 takes what the model takes; the others take, as positional arguments, what the stage before returns. The
        last returns what the model returns, flat: one tensor, or a tuple.

        Args:
            model: Whose weights the stages take, the same objects; by default those of what was captured.
            device: On which the stages make tensors, as masks; by default that of their weights.

        Raises:
            Error: A loaded graph, or a model with other weights than what was captured.
        """
        from plimsoll.graphs._split import split

        self._require_stages()
        return split(self, model, device)

    def pipeline_stage(
        self, stage: torch.fx.GraphModule, device: Any = "cpu", group: torch.distributed.ProcessGroup | None = None
    ) -> Any:
        """A stage of `split()` as a `PipelineStage`, with what it takes and returns.

        torch's stages otherwise try the stages before on memory that was never set, in which no embedding finds its
        rows if a later stage reads the tokens.
        """
        import torch
        from torch.distributed.pipelining import PipelineStage

        return PipelineStage(
            stage,
            stage.meta["stage_index"],
            self.num_stages,
            torch.device(device),
            input_args=stage.meta["input_args"],
            output_args=stage.meta["output_args"],
            group=group,
        )

    def sync_tied(
        self,
        stages: torch.nn.Module | Sequence[torch.nn.Module],
        group: torch.distributed.ProcessGroup | None = None,
        rank_of: Callable[[int], int] | None = None,
    ) -> None:
        """Sums the gradients of tied weights over their stages: after the backward passes, before the optimizer.

        Args:
            stages: Those of `split()` that this process runs.
            group: Of the processes that run the pipeline; by default all.
            rank_of: The process of a stage; by default stage modulo processes, as torch's schedules place them.
        """
        from plimsoll.graphs._split import sync_tied

        sync_tied(self, stages, group, rank_of)
