"""`fit` and `verify`: from a model to a checkpointed one, and what its step really takes."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from plimsoll.checkpointing._apply import apply, planned, remove
from plimsoll.checkpointing._memory import LiveBytes, tensors_of
from plimsoll.checkpointing._plan import Plan, plan, size_text
from plimsoll.checkpointing._profile import (
    Loss,
    autocast_of,
    call_model,
    loss_of,
    outside_autocast,
    profile,
    restored,
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
    times: str | OperatorTime = "roofline",
    fake: bool = True,
) -> Plan:
    """Profiles a step, plans it within the budget and applies the plan: `profile`, `plan` and `apply` in one call.

    Args:
        budget: As of `plan`: "6GiB", "70%", 0.7, or bytes. All else is as of `profile`.
    """
    made = plan(profile(model, batch, loss, optimizer, accumulate, times, fake), budget)
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
        verdict = "within" if self.is_within_budget else "ABOVE"
        equal = "equal to the bit" if not self.different else f"{len(self.different)} differ: {self.different[0]}, ..."
        return "\n".join(
            [
                f"peak        {size_text(self.measured_bytes)} measured, {size_text(self.predicted_bytes)} predicted, "
                f"{size_text(self.plain_bytes)} without checkpointing",
                f"budget      {size_text(self.budget_bytes)}: {verdict} it",
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
) -> Report:
    """Runs a step without the plan and one with it, and compares peaks and gradients.

    The steps run on the model itself; its gradients, buffers, optimizer and random state are restored, and the plan is
    on afterwards if it was before. Arguments are as of `profile`.
    """
    was_applied = planned(model) is not None
    if was_applied:
        remove(model)
    try:
        plain = _measure(model, batch, loss or loss_of, optimizer, accumulate)
        apply(model, plan)
        with_plan = _measure(model, batch, loss or loss_of, optimizer, accumulate)
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


def _measure(model: nn.Module, batch: Any, loss: Loss, optimizer: Any, accumulate: bool) -> _Measured:
    autocast = autocast_of(model)
    with contextlib.ExitStack() as stack:
        stack.enter_context(outside_autocast())
        stack.enter_context(restored(model, optimizer))
        stack.enter_context(without_cache(model))
        constant = 0
        if optimizer is not None or sharded_modules(model):  # what comes with the first step: state, buffers of FSDP
            with autocast():
                value = loss(call_model(model, batch))
            value.backward()
        if optimizer is not None:
            optimizer.step()
            constant = LiveBytes(tensors_of([list(state.values()) for state in optimizer.state.values()])).base
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter) if accumulate and parameter.requires_grad else None
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        with LiveBytes([*model.parameters(), *model.buffers(), *tensors_of(batch), *gradients]) as live:
            start = time.perf_counter()
            with autocast():
                value = loss(call_model(model, batch))
            value.backward()
            ms = 1000 * (time.perf_counter() - start)
            if optimizer is not None:
                optimizer.step()
        results: dict[str, torch.Tensor | None] = {
            name: None if parameter.grad is None else parameter.grad.detach().clone()
            for name, parameter in model.named_parameters()
        }
        results |= {name: buffer.detach().clone() for name, buffer in model.named_buffers()}
        return _Measured(live.peak + constant, ms, results)
