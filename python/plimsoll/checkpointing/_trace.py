"""A training step as events: which storages live when, who keeps them, and what would keep them under a plan.

A *step* is an operator, a tensor that autograd saves (pack), or one that it takes back (unpack), in the order in which
they happen; a death is the number of steps that were done when something ended. Two runs are recorded. One is the
plain training step. In the other, the forward alone, autograd saves nothing: what still lives is held by Python.
Together they say when each storage would die under any plan.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Call:
    """One call of a module's forward."""

    fqn: str  # as `named_modules` has it
    first: int  # steps, one past the last one
    last: int
    saves: tuple[int, int]  # indices into `Trace.saves`, one past the last one
    operators: tuple[int, int]  # as above
    inputs: list[int]  # numbers of storages
    written_buffers: int = 0  # bytes that the call changes


@dataclass
class Costs:
    """Milliseconds of checkpointing itself, beside the operators that run again."""

    unit: float = 0.0  # a call of a unit,
    save: float = 0.0  # a tensor that autograd saves in it,
    selective: float = 0.0  # a call of a unit that keeps something,
    operator: float = 0.0  # an operator in such a call, in the forward and again,
    kept: float = 0.0  # in the forward, an operator whose output it keeps,
    kept_byte: float = 0.0  # and a byte of that output: fresh memory in the forward, cold when it is read again


@dataclass
class Trace:
    """Every event of a step that memory depends on."""

    base_bytes: int = 0  # parameters, buffers, the batch, gradients that are there
    constant_bytes: int = 0  # optimizer state, the same all the time
    num_steps: int = 0
    num_forward: int = 0  # steps of the forward, the loss included
    num_backward: int = 0  # steps until the end of the backward; then the optimizer's
    storages: list[tuple[int, int, int, int]] = field(default_factory=list)
    """In order of birth: bytes, step of birth, death in the forward without autograd (-1: alive at its end), death
    (-1: never)."""
    saves: list[tuple[list[int], int, int, int]] = field(default_factory=list)
    """Storages (those of the base left out), step of the pack, step of the first unpack (-1: none), death."""
    freed: list[int] = field(default_factory=list)  # storages that FSDP frees while tensors still point to them
    operators: list[int] = field(default_factory=list)  # the step of each operator of the forward that policies see
    milliseconds: list[float] = field(default_factory=list)  # and its time
    calls: list[Call] = field(default_factory=list)  # as they began
    forward_ms: float = 0.0
    backward_ms: float = 0.0
    costs: Costs = field(default_factory=Costs)

    def to_document(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def mean_bytes(self) -> int:
        """What an operator of the forward makes in the mean, views included."""
        made = sum(size for size, birth, _, _ in self.storages if birth < self.num_forward)
        return made // max(1, len(self.operators))

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Trace:
        """Reads what `to_document` wrote, after JSON made lists of tuples."""
        trace = cls(**document)
        trace.storages = [tuple(row) for row in trace.storages]  # type: ignore[misc]
        trace.saves = [tuple(row) for row in trace.saves]  # type: ignore[misc]
        trace.costs = Costs(**trace.costs)  # type: ignore[arg-type]
        trace.calls = [Call(**call) for call in trace.calls]  # type: ignore[arg-type]
        for call in trace.calls:
            call.saves, call.operators = tuple(call.saves), tuple(call.operators)  # type: ignore[assignment]
        return trace
