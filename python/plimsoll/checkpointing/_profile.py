"""`profile`: what a training step of a model allocates, and when, without running it."""

from __future__ import annotations

import contextlib
import copy
import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode
from torch.distributed._composable.contract import _get_registry
from torch.utils._pytree import tree_map

from plimsoll._errors import Error
from plimsoll._operator_times import Machine
from plimsoll.checkpointing._memory import tensors_of
from plimsoll.checkpointing._recorder import OperatorTime, Recorder
from plimsoll.checkpointing._stats import Stats, make_stats, sharded_modules
from plimsoll.checkpointing._times import MachineTimes, MeasuredTimes, Roofline
from plimsoll.checkpointing._values import KnownValues

Loss = Callable[[Any], torch.Tensor]
Call = Callable[[nn.Module, Any], Any]


def call_model(model: nn.Module, batch: Any) -> Any:
    """The model's output: a mapping is keywords, a tuple or list arguments, all else one argument."""
    if isinstance(batch, Mapping):
        return model(**batch)
    if isinstance(batch, (tuple, list)):
        return model(*batch)
    return model(batch)


def loss_of(output: Any) -> torch.Tensor:
    """`output.loss`, `output["loss"]`, or the output itself if it is one number."""
    loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if loss is None and isinstance(output, torch.Tensor) and output.numel() == 1:
        loss = output
    if loss is None:
        raise Error(
            "value", "loss", f"the model returns {type(output).__name__} without a loss", "pass loss=, a function of it"
        )
    return loss


def run_backward(ends: Any, gradients: Any) -> None:
    """Of a loss, or of outputs whose gradients are given."""
    if gradients is None:
        ends.backward()
        return
    given = tensors_of(gradients)
    outputs = tensors_of(ends)
    if [tensor.shape for tensor in given] != [tensor.shape for tensor in outputs]:
        raise Error(
            "value",
            "gradients",
            f"have shapes {[tuple(t.shape) for t in given]}, the outputs {[tuple(t.shape) for t in outputs]}",
            "give a tensor like each output",
        )
    pairs = [(output, gradient) for output, gradient in zip(outputs, given) if output.requires_grad]
    torch.autograd.backward([output for output, _ in pairs], [gradient for _, gradient in pairs])


def set_gradients(model: nn.Module, batch: Any, accumulate: bool) -> list[torch.Tensor]:
    """Those that a step begins with: of parameters, and of inputs that have one, as a pipeline's stages have."""
    leaves = [*model.parameters(), *(tensor for tensor in tensors_of(batch) if tensor.requires_grad)]
    for leaf in leaves:
        leaf.grad = torch.zeros_like(leaf) if accumulate and leaf.requires_grad else None
    return [leaf.grad for leaf in leaves if leaf.grad is not None]


def profile(
    model: nn.Module,
    batch: Any,
    loss: Loss | None = None,
    optimizer: Any = None,
    accumulate: bool = False,
    times: Machine | OperatorTime = "roofline",
    fake: bool = True,
    in_flight: int = 1,
    gradients: Any = None,
) -> Stats:
    """Records the memory and the operators of one training step.

    Nothing is allocated, and model, optimizer and random state stay as they are: the step runs on a copy of fake
    tensors. Inside `torch.autocast` the forward is recorded as it runs there, the backward outside of it.

    Args:
        model: In training mode, on any device, `meta` included; sharded by FSDP2, too.
        batch: What the model is called with: a tensor, a tuple of arguments, a dict of keywords.
        loss: Of the model's output; `output.loss` by default.
        optimizer: Whose state is counted all the time, and whose step's temporaries in that step.
        accumulate: Gradients are there when the step begins: every step but the first of an accumulation.
        times: "roofline" (an A100), a `Roofline` of other hardware, a machine document of `plimsoll calibrate`, the
            path of one or the name of one that comes with Plimsoll ("h100-sxm5-80gb"), or "measured": each operator
            runs on this machine on tensors of its shapes, and what a step takes around operators and what checkpointing
            costs by itself are measured as well.
        fake: False runs the step on the model itself, for a forward that reads values; a model that FSDP2 shards
            always does. Gradients, buffers and random state are restored.
        in_flight: Forwards before the first backward, as a stage of a pipeline runs them under 1F1B. With
            accumulate=True the step is one amid the others.
        gradients: Of the outputs, like these, where they come from elsewhere, as from the next stage of a pipeline:
            takes the place of a loss, and is there all the time.

    Raises:
        Error: The forward reads values of fake tensors; the model is not in training mode, or is checkpointed already.
    """
    call = step_call(loss, gradients)
    return profile_call(model, call, batch, optimizer, accumulate, times, fake, in_flight, gradients)


def step_call(loss: Loss | None, gradients: Any) -> Call:
    """A forward, and the loss if there is one."""
    if gradients is None:
        ends = loss or loss_of
    elif loss is None:
        ends = tensors_of
    else:
        raise Error("value", "gradients", "and a loss were given", "give one of them")
    return lambda model, batch: ends(call_model(model, batch))


def profile_call(
    model: nn.Module,
    call: Call,
    batch: Any,
    optimizer: Any = None,
    accumulate: bool = False,
    times: Machine | OperatorTime = "roofline",
    fake: bool = True,
    in_flight: int = 1,
    gradients: Any = None,
) -> Stats:
    """As `profile`; `call` makes the loss of model and batch."""
    if not model.training:
        raise Error("value", "model", "is in evaluation mode, and a training step was asked for", "call model.train()")
    refuse_checkpointing(model)
    time = _operator_time(times)
    first = next(iter(model.parameters()), torch.empty(0))
    batch = dict(batch) if isinstance(batch, Mapping) else batch
    with contextlib.ExitStack() as stack:
        autocast = autocast_of(model)
        stack.enter_context(outside_autocast())
        if fake and not sharded_modules(model):  # which cannot be copied
            fakes = stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
            stack.enter_context(_transformers_do_not_trace())
            values = KnownValues()
            model, batch, optimizer, gradients = _fake_copies(model, batch, optimizer, gradients, fakes, values)
            stack.enter_context(values)
        else:
            stack.enter_context(restored(model, optimizer))
        stack.enter_context(without_cache(model))
        step = _Step(model, batch, call, optimizer, autocast, accumulate, time, in_flight, gradients)
        stats = step.record()
    if isinstance(time, MeasuredTimes):  # outside fake tensors, which slow hooks down
        device = first.device if first.device.type != "meta" else torch.device("cpu")
        stats.trace.costs = time.checkpoint_costs(device, stats.trace.mean_bytes())
    return stats


class _Step:
    """One training step, run as often as its records ask."""

    def __init__(
        self,
        model: nn.Module,
        batch: Any,
        call: Call,
        optimizer: Any,
        autocast: Callable[[], Any],
        accumulate: bool,
        time: OperatorTime,
        in_flight: int,
        gradients: Any,
    ) -> None:
        self.model, self.batch, self.call, self.optimizer = model, batch, call, optimizer
        self.autocast, self.accumulate, self.time = autocast, accumulate, time
        self.in_flight, self.gradients = in_flight, gradients
        self.names = {module: name for name, module in model.named_modules()}

    def record(self) -> Stats:
        constant: list[torch.Tensor] = []
        sharded = sharded_modules(self.model).values()
        if self.optimizer is not None or sharded:  # what comes with the first step: state, buffers of FSDP
            run_backward(self._forward(None), self.gradients)
        if self.optimizer is not None:
            self.optimizer.step()
            constant = [tensor for state in self.optimizer.state.values() for tensor in tensors_of(state)]
        set_gradients(self.model, self.batch, self.accumulate)
        state = torch.get_rng_state()
        forward_only = self._recorder(keeps=False)
        with forward_only:
            ends = [self._forward(forward_only) for _ in range(self.in_flight)]
            python_deaths = list(forward_only.deaths)  # what still lives is not known yet
        del ends
        for module in sharded:
            module.reshard()
        torch.set_rng_state(state)
        whole = self._recorder(keeps=True)
        with whole:
            ends = [self._forward(whole) for _ in range(self.in_flight)]
            num_forward = whole.steps
            if num_forward != forward_only.steps or whole.births != forward_only.births:
                raise Error("value", "model", "two forwards of one batch run different operators", "make it the same")
            whole.phase = "backward"
            while ends:
                run_backward(ends.pop(0), self.gradients)
            num_backward = whole.steps
            whole.phase = "optimizer"
            if self.optimizer is not None:
                self.optimizer.step()
        counter = Recorder(constant, {}, self.time, keeps=False)
        trace = whole.trace(python_deaths, num_forward, num_backward, counter.base)
        set_gradients(self.model, self.batch, False)
        stats = make_stats(self.model, whole, trace)
        if isinstance(self.time, Roofline):
            stats.module_stats["roofline"] = self.time.record(next(self.model.parameters(), None))
        return stats

    def _recorder(self, keeps: bool) -> Recorder:
        leaves = [*self.model.parameters(), *tensors_of(self.batch)]
        gradients = [*(leaf.grad for leaf in leaves if leaf.grad is not None), *tensors_of(self.gradients)]
        known = [*leaves, *self.model.buffers(), *gradients]
        return Recorder(known, self.names, self.time, keeps)

    def _forward(self, recorder: Recorder | None) -> Any:
        running: list[str] = []  # modules in which the forward is
        with contextlib.ExitStack() as stack:
            if recorder is not None:
                stack.enter_context(recorder.hooks())
            stack.enter_context(_wrapped_forwards(self.names, recorder, running))
            stack.enter_context(self.autocast())
            try:
                result = self.call(self.model, self.batch)
            except (DataDependentOutputException, DynamicOutputShapeException) as error:
                where = running[-1] if running else ""
                raise Error(
                    "value",
                    where or type(self.model).__name__,
                    f"its forward reads values of tensors ({error.func}), which fake tensors have not",
                    "profile with fake=False, which runs the step",
                ) from error
        return result


@contextlib.contextmanager
def _wrapped_forwards(names: dict[nn.Module, str], recorder: Recorder | None, running: list[str]) -> Iterator[None]:
    """While it holds, every module's forward tells the recorder; hooks stay outside, as they do of a unit."""
    overridden = {module: vars(module)["forward"] for module in names if "forward" in vars(module)}

    def wrap(module: nn.Module, name: str) -> None:
        forward = module.forward

        def recorded(*args: Any, **kwargs: Any) -> Any:
            running.append(name)  # stays where an exception passes
            with recorder.call(module, args, kwargs) if recorder is not None else contextlib.nullcontext():
                result = forward(*args, **kwargs)
            running.pop()
            return result

        module.forward = recorded

    try:
        for module, name in names.items():
            wrap(module, name)
        yield
    finally:
        for module in names:
            vars(module).pop("forward", None)
            if module in overridden:
                module.forward = overridden[module]


def _operator_time(times: Machine | OperatorTime) -> OperatorTime:
    if callable(times):
        return times
    if times == "roofline":
        return Roofline()
    if times == "measured":
        return MeasuredTimes()
    try:
        return MachineTimes(times)
    except Error as why:
        is_word = isinstance(times, str) and "/" not in times and not times.endswith(".json")
        if why.code != "not_found" or not is_word:  # what is wrong with a file says more
            raise
        remedy = "choose 'roofline', 'measured', a Roofline, a machine document (machine.json), or the name of one"
        raise Error("value", "times", f"'{times}' is unknown", f"{remedy}; {why.remedy}") from None


# --- copies --------------------------------------------------------------------------------------------------------


def _fake_copies(
    model: nn.Module, batch: Any, optimizer: Any, gradients: Any, mode: FakeTensorMode, values: KnownValues
) -> tuple[nn.Module, Any, Any, Any]:
    memo: dict[int, Any] = {}

    def fake(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.device.type == "meta":  # as it will be when it is materialized
            made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")
            return made.requires_grad_(tensor.requires_grad)
        made = mode.from_tensor(tensor)
        values.tell(made, tensor)
        return made

    for tensor in [*model.parameters(), *model.buffers()]:
        if id(tensor) not in memo:
            made = fake(tensor.detach())
            is_parameter = isinstance(tensor, nn.Parameter)
            memo[id(tensor)] = nn.Parameter(made, requires_grad=tensor.requires_grad) if is_parameter else made
    for tensor in tensors_of(list(optimizer.state.values()) if isinstance(optimizer, torch.optim.Optimizer) else ()):
        memo.setdefault(id(tensor), fake(tensor))
    copied = copy.deepcopy(model, memo)
    if isinstance(optimizer, torch.optim.Optimizer):
        optimizer = copy.deepcopy(optimizer, memo)
    batch, gradients = tree_map(lambda leaf: fake(leaf) if isinstance(leaf, torch.Tensor) else leaf, (batch, gradients))
    return copied, batch, optimizer, gradients


@contextlib.contextmanager
def restored(model: nn.Module, optimizer: Any) -> Iterator[None]:
    """The model itself runs: afterwards gradients, buffers, parameters, optimizer and random state are as before."""
    gradients = [(parameter, parameter.grad) for parameter in model.parameters()]
    for parameter in model.parameters():
        parameter.grad = None
    changed = [*model.buffers(), *(model.parameters() if optimizer is not None else ())]
    values = [(tensor, tensor.detach().clone()) for tensor in changed]
    state = copy.deepcopy(optimizer.state_dict()) if optimizer is not None else None
    try:
        with torch.random.fork_rng():
            yield
    finally:
        with torch.no_grad():
            for parameter, gradient in gradients:
                parameter.grad = gradient
            for tensor, value in values:
                tensor.copy_(value)
        if optimizer is not None:
            optimizer.load_state_dict(state)


# --- what surrounds a step -----------------------------------------------------------------------------------------


def autocast_of(model: nn.Module) -> Callable[[], Any]:
    """A fresh context like the one that is active."""
    first = next(iter(model.parameters()), None)
    devices = {"cpu"} | ({first.device.type} if first is not None and first.device.type != "meta" else set())
    for device in devices:
        if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
            return functools.partial(torch.autocast, device, dtype=torch.get_autocast_dtype(device))
    return contextlib.nullcontext


@contextlib.contextmanager
def outside_autocast() -> Iterator[None]:
    """As if no autocast were active: casts of weights end with the contexts that are entered inside."""
    torch.autocast_increment_nesting()
    depth = torch.autocast_decrement_nesting()
    with contextlib.ExitStack() as stack:
        for device in ("cpu", "cuda"):
            if torch.is_autocast_enabled(device):
                stack.callback(torch.set_autocast_enabled, device, True)
                torch.set_autocast_enabled(device, False)
        for _ in range(depth):
            torch.autocast_decrement_nesting()
            stack.callback(torch.autocast_increment_nesting)
        torch.clear_autocast_cache()
        yield


@contextlib.contextmanager
def _transformers_do_not_trace() -> Iterator[None]:
    """transformers takes a fake tensor for tracing, and then runs other code than it trains."""
    changed: list[tuple[Any, Any]] = []
    try:
        original = getattr(sys.modules.get("transformers.utils.import_utils"), "is_fake_tensor", None)
        if original is not None:
            for module in [m for name, m in list(sys.modules.items()) if name.startswith("transformers")]:
                if vars(module).get("is_fake_tensor") is original:
                    module.is_fake_tensor = _is_not_fake  # type: ignore[attr-defined]
                    changed.append((module, original))
        yield
    finally:
        for module, original in changed:
            module.is_fake_tensor = original


def _is_not_fake(tensor: Any) -> bool:
    return False


def configs_with_cache(model: nn.Module) -> list[Any]:
    """The configurations of a transformers model that would keep keys and values for generation."""
    found: dict[int, Any] = {}
    for module in model.modules():
        config = getattr(module, "config", None)
        if getattr(config, "use_cache", False) is True:
            found[id(config)] = config
    return list(found.values())


@contextlib.contextmanager
def without_cache(model: nn.Module) -> Iterator[None]:
    """Keys and values for generation are not kept."""
    configs = configs_with_cache(model)
    try:
        for config in configs:
            config.use_cache = False
        yield
    finally:
        for config in configs:
            config.use_cache = True


def refuse_compiled(model: nn.Module) -> None:
    """An error, if it is what `torch.compile` returns."""
    if type(model).__name__ == "OptimizedModule":  # torch._dynamo takes a second to import
        inner = type(model._orig_mod).__name__
        raise Error("value", inner, "is compiled", "call this with the model itself, and then compile it")


def refuse_checkpointing(model: nn.Module) -> None:
    """An error that names the module, if any is checkpointed."""
    refuse_compiled(model)
    for name, module in model.named_modules():
        place = name or type(model).__name__
        if "_plimsoll_unit" in vars(module):
            raise Error("value", place, "has a plan already", "call checkpointing.remove(model) first")
        if getattr(module, "gradient_checkpointing", False) is True:
            raise Error(
                "value", place, "is checkpointed by transformers", "call model.gradient_checkpointing_disable() first"
            )
        kinds = {kind.__name__ for kind in type(module).__mro__}
        if "CheckpointWrapper" in kinds or "checkpoint" in (_get_registry(module) or {}):
            raise Error("value", place, "is checkpointed by torch", "make the model without it")
