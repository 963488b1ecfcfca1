"""`apply` and `remove`: a plan's units run their forward under torch's non-reentrant checkpoint."""

from __future__ import annotations

import contextlib
import warnings
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
            raise Error("value", unit.fqn, "is no module of this model", "profile this model, and plan again")
    for unit in plan.units:
        module = modules[unit.fqn]
        module._plimsoll_unit = unit  # type: ignore[assignment]
        module.forward = UnitForward(module, unit)  # type: ignore[method-assign, assignment]
    for config in configs_with_cache(model):
        config.use_cache = False
        config._plimsoll_use_cache = True
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
        config = getattr(module, "config", None)
        if getattr(config, "_plimsoll_use_cache", False):
            config.use_cache = True
            del config._plimsoll_use_cache
    return model


def planned(model: nn.Module) -> list[str] | None:
    """The units of the plan that is on; None without one."""
    units = [name for name, module in model.named_modules() if isinstance(vars(module).get("forward"), UnitForward)]
    return units or None


class UnitForward:
    """A module's forward under checkpoint. An object and no function, so that copies of the module have their own."""

    def __init__(self, module: nn.Module, unit: Unit) -> None:
        self.before = vars(module).get("forward")
        self.module, self.unit = module, unit
        self.has_warned = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        forward = self.before or self.module.__class__.forward.__get__(self.module)
        if not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        if not self.unit.keep and not self.unit.buffers:
            return checkpoint(forward, *args, use_reentrant=False, **kwargs)
        return checkpoint(forward, *args, use_reentrant=False, context_fn=self.contexts, **kwargs)

    def contexts(self) -> tuple[Any, Any]:
        """For the forward and for its second run."""
        forward: Any = contextlib.nullcontext()
        again: Any = contextlib.nullcontext()
        if self.unit.keep:
            policy = _Policy(self)
            forward, again = create_selective_checkpoint_contexts(policy, allow_cache_entry_mutation=True)
        if self.unit.buffers and not torch.compiler.is_compiling():
            again = _BuffersRestored(self.module, again)
        return forward, again


class _Policy:
    """Keeps what the plan keeps, by place and name."""

    def __init__(self, owner: UnitForward) -> None:
        self.owner = owner
        self.operators, self.keep = owner.unit.operators, frozenset(owner.unit.keep)
        self.at = 0

    def __call__(self, context: Any, func: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        at, name = self.at, operator_name(func)
        self.at += 1
        if at >= len(self.operators) or self.operators[at] != name:
            self._warn(at, name)
            self.at = len(self.operators) + 1  # the rest is recomputed
            return CheckpointPolicy.PREFER_RECOMPUTE
        return CheckpointPolicy.MUST_SAVE if at in self.keep else CheckpointPolicy.PREFER_RECOMPUTE

    def _warn(self, at: int, name: str) -> None:
        if self.owner.has_warned or at > len(self.operators):
            return
        self.owner.has_warned = True
        profiled = self.operators[at] if at < len(self.operators) else "nothing more"
        warnings.warn(
            f"{self.owner.unit.fqn}: operator {at} is {name}, {profiled} was profiled; from here on the unit keeps "
            "nothing, and takes longer than planned. Profile the step that you train",
            stacklevel=2,
        )


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
