"""`apply` and `remove`: a plan's units run their forward under torch's non-reentrant checkpoint."""

from __future__ import annotations

import contextlib
import warnings
from collections import Counter
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from plimsoll._errors import Error
from plimsoll.checkpointing._plan import Plan, Unit
from plimsoll.checkpointing._profile import configs_with_cache, refuse_checkpointing
from plimsoll.checkpointing._recorder import operator_name


def apply(model: nn.Module, plan: Plan) -> nn.Module:
    """Checkpoints the plan's units, in place; returns the model.

    Before or after `fully_shard`, before `torch.compile`. Names, `state_dict` and types of modules stay. transformers'
    `use_cache` is switched off.

    Raises:
        Error: A unit names no module of the model; another plan or checkpointing is on already.
    """
    refuse_checkpointing(model)
    modules = dict(model.named_modules())
    for unit in plan.units:
        if unit.fqn not in modules:
            raise Error("value", unit.fqn, "is not a module of this model", "profile this model, and plan again")
    for unit in plan.units:
        module = modules[unit.fqn]
        module._plimsoll_unit = unit  # type: ignore[assignment]
        module.forward = UnitForward(module, unit)  # type: ignore[method-assign, assignment]
    model._plimsoll_configs = configs_with_cache(model)  # type: ignore[assignment]
    for config in model._plimsoll_configs:
        config.use_cache = False
    return model


def remove(model: nn.Module) -> nn.Module:
    """Undoes `apply`; returns the model."""
    for module in model.modules():
        forward = vars(module).get("forward")
        if isinstance(forward, UnitForward):
            if forward.before is None:
                del module.forward
            else:
                module.forward = forward.before
            del module._plimsoll_unit
    for config in vars(model).pop("_plimsoll_configs", ()):
        config.use_cache = True
    return model


def planned(model: nn.Module) -> list[str] | None:
    """The units of the plan that is on; None without one."""
    units = [name for name, module in model.named_modules() if isinstance(vars(module).get("forward"), UnitForward)]
    return units or None


class UnitForward:
    """A module's forward under checkpoint. An object and no function, so that copies of the module have their own."""

    def __init__(self, module: nn.Module, unit: Unit) -> None:
        self.__setstate__({"before": vars(module).get("forward"), "module": module, "unit": unit})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        forward = self.before or self.module.__class__.forward.__get__(self.module)
        if not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        if self.contexts is None:
            return checkpoint(forward, *args, use_reentrant=False, **kwargs)
        return checkpoint(forward, *args, use_reentrant=False, context_fn=self.contexts, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "contexts"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.contexts = _make_contexts(self.module, self.unit)


def _make_contexts(module: nn.Module, unit: Unit) -> Any:
    """A function (torch.compile takes no bound method) that makes the contexts of a forward and its second run."""
    if not unit.keep and not unit.buffers:
        return None
    warned: set[str] = set()

    def contexts() -> tuple[Any, Any]:
        forward: Any = contextlib.nullcontext()
        again: Any = contextlib.nullcontext()
        if unit.keep:
            forward, again = create_selective_checkpoint_contexts(
                _Policy(unit, warned), allow_cache_entry_mutation=True
            )
        if unit.buffers and not _is_traced():  # a traced second run changes nothing
            again = _BuffersRestored(module, again)
        elif not unit.keep:
            forward, again = create_selective_checkpoint_contexts([])
        return forward, again

    return contexts


def _is_traced() -> bool:
    """Does a compiler trace the step?"""
    return torch._guards.TracingContext.try_get() is not None


class _Policy:
    """Keeps what the plan keeps: in a forward that runs, by place and name; in one that is traced, by occurrence."""

    def __init__(self, unit: Unit, warned: set[str]) -> None:
        self.unit, self.warned = unit, warned
        self.keep = frozenset(unit.keep)
        self.at = 0
        self.counts: Counter[str] = Counter()
        self.occurrences: set[tuple[str, int]] | None = None
        if _is_traced():  # other operators than those that run: changes in place are gone
            counts: Counter[str] = Counter()
            self.occurrences = set()
            for i, name in enumerate(unit.operators):
                if i in self.keep:
                    self.occurrences.add((name, counts[name]))
                counts[name] += 1

    def __call__(self, context: Any, func: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        at, name = self.at, operator_name(func)
        self.at += 1
        if self.occurrences is not None:
            is_kept = (name, self.counts[name]) in self.occurrences
            self.counts[name] += 1
        else:
            is_kept = at in self.keep
            if at >= len(self.unit.operators) or self.unit.operators[at] != name:
                self._warn(at, name)
                self.at, is_kept = len(self.unit.operators) + 1, False  # so is the rest
        return CheckpointPolicy.MUST_SAVE if is_kept else CheckpointPolicy.PREFER_RECOMPUTE

    def _warn(self, at: int, name: str) -> None:
        operators = self.unit.operators
        if self.warned or at > len(operators):
            return
        self.warned.add(name)
        profiled = operators[at] if at < len(operators) else "nothing more"
        warnings.warn(
            f"{self.unit.fqn}: operator {at} is {name}, {profiled} was profiled; from here on the unit keeps nothing, "
            "and takes longer than planned. Profile the step that you train",
            stacklevel=2,
        )


def keeping(operators: list[str], keep: list[int]) -> Any:
    """A function that makes the contexts of a unit of these operators that keeps some, to measure what that costs."""
    unit = Unit("", operators, keep)

    def contexts() -> tuple[Any, Any]:
        return create_selective_checkpoint_contexts(_Policy(unit, {"all"}), allow_cache_entry_mutation=True)

    return contexts


class _BuffersRestored(contextlib.AbstractContextManager[Any]):
    """Undoes what a second forward does to buffers, such as the statistics of batch normalization."""

    def __init__(self, module: nn.Module, inner: Any) -> None:
        self.module, self.inner = module, inner

    def __enter__(self) -> Any:
        self.values = [(buffer, buffer.detach().clone()) for buffer in self.module.buffers()]
        return self.inner.__enter__()

    def __exit__(self, *error: Any) -> Any:
        result = self.inner.__exit__(*error)
        buffers = tuple(buffer for buffer, _ in self.values)
        with torch.no_grad(), torch.autograd._unsafe_preserve_version_counter(buffers):
            for buffer, value in self.values:
                buffer.copy_(value)
        self.values = []
        return result
