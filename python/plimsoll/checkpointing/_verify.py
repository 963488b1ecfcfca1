"""`fit` and `verify`: from a model to a checkpointed one, and what its step really takes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from plimsoll._operator_times import Machine
from plimsoll.checkpointing._apply import apply, planned, remove
from plimsoll.checkpointing._memory import LiveBytes, count_allocations_of_compiled_code, tensors_of
from plimsoll.checkpointing._plan import InfeasibleBudget, Plan, parse_budget, plan, size_text
from plimsoll.checkpointing._profile import (
    Call,
    Loss,
    autocast_of,
    outside_autocast,
    profile,
    refuse_compiled,
    restored,
    run_backward,
    set_gradients,
    step_call,
    without_cache,
)
from plimsoll.checkpointing._recorder import OperatorTime
from plimsoll.checkpointing._stats import sharded_modules


def fit(
    model: nn.Module,
    batch: Any,
    budget: str | int | float,
    loss: Loss | None = None,
    optimizer: Any = None,
    accumulate: bool = False,
    times: Machine | OperatorTime = "roofline",
    fake: bool = True,
    in_flight: int = 1,
    gradients: Any = None,
    compile: str | None = None,
) -> Plan:
    """Profiles a step, plans it within the budget and applies the plan: `profile`, `plan` and `apply` in one call.

    Args:
        budget: As of `plan`: "6GiB", "70%", 0.7, or bytes.
        compile: The backend of `torch.compile` that the model will be compiled with afterwards, such as "inductor".
            Compiled steps are run and measured, and planned for less until they are within the budget, too;
            the plan's `compiled_bytes` is what the last one took. All else is as of `profile`.

    Raises:
        InfeasibleBudget: No plan is within the budget, or none that is within it compiled was found.
    """
    stats = profile(model, batch, loss, optimizer, accumulate, times, fake, in_flight, gradients)
    limit = parse_budget(budget, stats.peak_bytes)
    made = plan(stats, limit)
    least = None
    while compile is not None:
        report = verify(model, made, batch, loss, optimizer, accumulate, in_flight, gradients, compile)
        made.budget_bytes, made.compiled_bytes = limit, report.measured_bytes
        over = report.measured_bytes - limit
        if over <= 0:
            break
        least = report.measured_bytes if least is None else min(least, report.measured_bytes)
        try:
            made = plan(stats, made.peak_bytes - max(over, limit // 100))  # which falls, so this ends
        except InfeasibleBudget as error:
            raise InfeasibleBudget(limit, least, error.binding_module, 0) from None
    apply(model, made)
    return made


@dataclass
class Report:
    """What two steps of the model took, one without the plan and one with it.

    Attributes:
        budget_bytes, predicted_bytes: Of the plan.
        measured_bytes: The peak of the step with the plan, and
        plain_bytes: without it.
        different: Parameters whose gradients, and buffers whose values, differ in any bit.
        plain_ms, planned_ms: Forward and backward by the clock, counted as well, so larger than in training.
    """

    budget_bytes: int
    predicted_bytes: int
    measured_bytes: int
    plain_bytes: int
    different: list[str]
    plain_ms: float
    planned_ms: float

    @property
    def is_within_budget(self) -> bool:
        """Is the measured peak at most 1,024 bytes above the budget?"""
        return self.measured_bytes <= self.budget_bytes + 1024

    def __str__(self) -> str:
        verdict = "within it"
        if not self.is_within_budget:
            over = self.measured_bytes - self.budget_bytes
            verdict = (
                f"ABOVE it by {size_text(over)}; plan for {max(0, self.budget_bytes - over)} bytes to be within it"
            )
        equal = "equal to the bit" if not self.different else f"{len(self.different)} differ: {self.different[0]}, ..."
        return "\n".join(
            [
                f"peak        {size_text(self.measured_bytes)} measured, {size_text(self.predicted_bytes)} predicted, "
                f"{size_text(self.plain_bytes)} without checkpointing",
                f"budget      {size_text(self.budget_bytes)}: {verdict}",
                f"gradients   {equal}",
                f"time        {self.planned_ms:.4g} ms, {self.plain_ms:.4g} without checkpointing",
            ]
        )


def verify(
    model: nn.Module,
    plan: Plan,
    batch: Any,
    loss: Loss | None = None,
    optimizer: Any = None,
    accumulate: bool = False,
    in_flight: int = 1,
    gradients: Any = None,
    compile: str | None = None,
) -> Report:
    """Runs a step without the plan and one with it, and compares peaks and gradients.

    The steps run on the model itself; its gradients, buffers, optimizer and random state are restored, and the plan is
    on afterwards if it was before. Modules that `Module.compile` compiled run compiled.

    Args:
        compile: The steps are those of `torch.compile(model, backend=compile)`, such as "inductor"; each runs once
            before it is measured. All else is as of `profile`.
    """
    refuse_compiled(model)
    was_applied = planned(model) is not None
    if was_applied:
        remove(model)
    step = _Step(model, batch, step_call(loss, gradients), optimizer, accumulate, in_flight, gradients, compile)
    try:
        plain = step.measure()
        apply(model, plan)
        with_plan = step.measure()
    finally:
        if not was_applied:
            remove(model)
        elif planned(model) is None:
            apply(model, plan)
    return Report(
        budget_bytes=plan.budget_bytes,
        predicted_bytes=plan.peak_bytes,
        measured_bytes=with_plan.peak,
        plain_bytes=plain.peak,
        different=[name for name, value in with_plan.results.items() if not _equal(value, plain.results[name])],
        plain_ms=plain.ms,
        planned_ms=with_plan.ms,
    )


def _equal(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    if one is None or other is None:
        return one is other
    if hasattr(one, "to_local"):  # a shard
        one, other = one.to_local(), other.to_local()  # type: ignore[attr-defined]
    return torch.equal(one, other)


@dataclass
class _Measured:
    peak: int
    ms: float
    results: dict[str, torch.Tensor | None]


@dataclass
class _Step:
    model: nn.Module
    batch: Any
    call: Call
    optimizer: Any
    accumulate: bool
    in_flight: int
    gradients: Any
    backend: str | None

    def __post_init__(self) -> None:
        self.called: Any = self.model

    def measure(self) -> _Measured:
        """Runs it."""
        model, optimizer = self.model, self.optimizer
        is_compiled = self.backend is not None or any(m._compiled_call_impl is not None for m in model.modules())
        if is_compiled:
            count_allocations_of_compiled_code()
            torch.compiler.reset()  # what was compiled with the plan, or without it
        if self.backend is not None:
            self.called = torch.compile(model, backend=self.backend)
        autocast = autocast_of(model)
        with contextlib.ExitStack() as stack:
            stack.enter_context(outside_autocast())
            stack.enter_context(restored(model, optimizer))
            stack.enter_context(without_cache(model))
            constant = 0
            # What comes with the first step: state, FSDP's buffers, compiled code.
            if optimizer is not None or is_compiled or sharded_modules(model):
                self._run(autocast, self.in_flight if is_compiled else 1)
            if optimizer is not None:
                optimizer.step()
                constant = LiveBytes(tensors_of([list(state.values()) for state in optimizer.state.values()])).base
            present = [*set_gradients(model, self.batch, self.accumulate), *tensors_of(self.gradients)]
            with LiveBytes([*model.parameters(), *model.buffers(), *tensors_of(self.batch), *present]) as live:
                start = time.perf_counter()
                self._run(autocast, self.in_flight)
                ms = 1000 * (time.perf_counter() - start)
                if optimizer is not None:
                    optimizer.step()
            results: dict[str, torch.Tensor | None] = {
                name: None if parameter.grad is None else parameter.grad.detach().clone()
                for name, parameter in model.named_parameters()
            }
            results |= {name: buffer.detach().clone() for name, buffer in model.named_buffers()}
            set_gradients(model, self.batch, False)
            return _Measured(live.peak + constant, ms, results)

    def _run(self, autocast: Callable[[], Any], count: int) -> None:
        """Forwards, and then their backwards."""
        ends = []
        for _ in range(count):
            with autocast():
                ends.append(self.call(self.called, self.batch))
        while ends:
            run_backward(ends.pop(0), self.gradients)
