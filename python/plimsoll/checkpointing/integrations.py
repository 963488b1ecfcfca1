"""A budget where training loops have a place for it: transformers' Trainer, Lightning, torchtitan.

    trainer = Trainer(..., callbacks=[ck.integrations.TrainerBudget("60%")])
    trainer = lightning.Trainer(..., callbacks=[ck.integrations.LightningBudget("60%")])
    policy = ck.integrations.BudgetPolicy.Config(budget="60%", batch=batch).build(); policy.apply(model)

A plain loop, DistributedDataParallel and FSDP2 need no class: `ck.fit(model, batch, budget)` before the loop. None of
the packages is imported before its class is asked for.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils._pytree import tree_map

from plimsoll._errors import Error
from plimsoll.checkpointing._apply import apply, remove
from plimsoll.checkpointing._plan import Plan, plan
from plimsoll.checkpointing._profile import Loss, profile, profile_call


class BudgetPolicy:
    """Checkpoints a model within a budget, where torchtitan applies its `ActivationCheckpointing`: to the model on the
    meta device, before it is compiled block by block and sharded.

    Attributes:
        plan: What was applied; None before.
    """

    @dataclass
    class Config:
        """What the plan is for.

        Attributes:
            budget: As of `checkpointing.plan`.
            batch: What the model is called with, also on the meta device: only shapes matter.
            loss: Of the model's output.
            accumulate: Are gradients there when a step begins?
        """

        budget: str | int | float
        batch: Any
        loss: Loss | None = None
        accumulate: bool = False

        def build(self) -> BudgetPolicy:
            """The policy."""
            return BudgetPolicy(self)

    def __init__(self, config: BudgetPolicy.Config) -> None:
        self.config = config
        self.plan: Plan | None = None

    def apply(self, model: nn.Module) -> None:
        """Profiles the model, plans, and checkpoints it in place."""
        config = self.config
        stats = profile(model, config.batch, config.loss, accumulate=config.accumulate)
        self.plan = plan(stats, config.budget)
        apply(model, self.plan)


@contextlib.contextmanager
def _same_random_state() -> Iterator[None]:
    """What is drawn inside is drawn once more afterwards."""
    states = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng():
            yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])


def _first_batch(loader: Any, batch: Any, device: torch.device) -> Any:
    """The batch that was given, or the first examples of the loader's data, collated."""
    if batch is None:
        data, size = getattr(loader, "dataset", None), getattr(loader, "batch_size", None)
        if size is None:
            size = getattr(getattr(loader, "batch_sampler", None), "batch_size", None)
        if not hasattr(data, "__getitem__") or not hasattr(data, "__len__") or size is None:
            raise Error("value", "batch", "cannot be taken from this data loader", "pass batch= to the callback")
        with _same_random_state():
            batch = loader.collate_fn([data[i] for i in range(min(size, len(data)))])
    batch = dict(batch) if hasattr(batch, "keys") else batch
    return tree_map(lambda leaf: leaf.to(device) if isinstance(leaf, torch.Tensor) else leaf, batch)


@contextlib.contextmanager
def _in_training(model: nn.Module) -> Iterator[None]:
    modes = {module: module.training for module in model.modules()}
    model.train()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


@cache
def _trainer_budget() -> Any:
    callback: Any = import_module("transformers").TrainerCallback

    class TrainerBudget(callback):  # type: ignore[misc]
        """Checkpoints the model of a transformers Trainer within a budget while it trains.

        Accumulation and mixed precision are those of the Trainer's arguments, the batch is made of the first examples
        of its data; random state stays as it is.

        Args:
            budget: As of `checkpointing.plan`.
            batch: The largest batch that will come, where the first examples are not: a dict.
            loss: Of the model's output; `output.loss` by default.

        Attributes:
            plan: What was applied; None before training.
        """

        def __init__(self, budget: str | int | float, batch: Any = None, loss: Loss | None = None) -> None:
            self.budget, self.batch, self.loss = budget, batch, loss
            self.plan: Plan | None = None

        def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
            """Profiles, plans and applies."""
            model = given["model"]
            batch = _first_batch(given["train_dataloader"], self.batch, args.device)
            optimizer = given.get("optimizer")
            with _in_training(model), _precision_of(args):
                stats = profile(
                    model,
                    batch,
                    self.loss,
                    getattr(optimizer, "optimizer", optimizer),  # accelerate wraps it
                    accumulate=args.gradient_accumulation_steps > 1,
                )
            self.plan = plan(stats, self.budget)
            apply(model, self.plan)

        def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
            """The model is as it was."""
            if self.plan is not None:
                remove(given["model"])

    return TrainerBudget


def _precision_of(args: Any) -> Any:
    """Autocast as the Trainer's arguments ask for it."""
    dtype = torch.bfloat16 if args.bf16 else torch.float16 if args.fp16 else None
    return torch.autocast(args.device.type, dtype=dtype) if dtype else contextlib.nullcontext()


@cache
def _lightning_budget() -> Any:
    try:
        callback: Any = import_module("lightning.pytorch").Callback
    except ImportError:
        callback = import_module("pytorch_lightning").Callback

    class LightningBudget(callback):  # type: ignore[misc]
        """Checkpoints a LightningModule within a budget while it is fitted; the step is its `training_step`.

        Args:
            budget: As of `checkpointing.plan`.
            batch: The largest batch that will come, where the first examples are not.

        Attributes:
            plan: What was applied; None before training.
        """

        def __init__(self, budget: str | int | float, batch: Any = None) -> None:
            self.budget, self.batch = budget, batch
            self.plan: Plan | None = None

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            """Profiles, plans and applies."""
            batch = _first_batch(trainer.train_dataloader, self.batch, pl_module.device)
            optimizer = trainer.optimizers[0] if len(trainer.optimizers) == 1 else None
            with _in_training(pl_module), trainer.precision_plugin.train_step_context(), _detached(pl_module):
                stats = profile_call(
                    pl_module, _training_step, batch, optimizer, accumulate=trainer.accumulate_grad_batches > 1
                )
            self.plan = plan(stats, self.budget)
            apply(pl_module, self.plan)

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            """The module is as it was."""
            if self.plan is not None:
                remove(pl_module)

    return LightningBudget


def _training_step(module: Any, batch: Any) -> torch.Tensor:
    result = module.training_step(batch, 0)
    loss: torch.Tensor = result["loss"] if hasattr(result, "keys") else result
    return loss


@contextlib.contextmanager
def _detached(module: Any) -> Iterator[None]:
    """From its trainer, which is not copied and logs nothing."""
    trainer = module._trainer
    module._trainer = None
    module.log = module.log_dict = _log_nothing
    try:
        yield
    finally:
        module._trainer = trainer
        del module.log, module.log_dict


def _log_nothing(*args: Any, **kwargs: Any) -> None:
    pass


def __getattr__(name: str) -> Any:
    if name == "TrainerBudget":
        return _trainer_budget()
    if name == "LightningBudget":
        return _lightning_budget()
    raise AttributeError(f"module 'plimsoll.checkpointing.integrations' has no attribute '{name}'")
