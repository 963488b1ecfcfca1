"""Records a training step as a trace: what `profile` runs a model under."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import SAC_IGNORED_OPS

from plimsoll.checkpointing._memory import LiveBytes, storages_of, tensors_of
from plimsoll.checkpointing._trace import Call, Trace

OperatorTime = Callable[[Any, Any, Any, Any], float]  # operator, arguments, keywords, result -> ms

# One attention, whatever the device: a plan made on one is applied on another.
ATTENTION = {
    f"aten.{name}.default": "aten.scaled_dot_product_attention"
    for name in (
        "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_flash_attention_for_cpu",
        "_scaled_dot_product_efficient_attention",
        "_scaled_dot_product_cudnn_attention",
        "_scaled_dot_product_fused_attention_overrideable",
    )
}


@cache
def operator_name(func: Any) -> str:
    """The name by which plans know an operator."""
    name = str(func)
    return ATTENTION.get(name, name)


class _Saved:
    """A tensor that autograd keeps; its end is the release."""

    __slots__ = ("__weakref__", "index", "recorder", "tensor")

    def __init__(self, recorder: Recorder, index: int, tensor: torch.Tensor | None) -> None:
        self.recorder, self.index, self.tensor = weakref.ref(recorder), index, tensor

    def __del__(self) -> None:
        recorder = self.recorder()
        if recorder is not None:
            recorder.save_deaths[self.index] = recorder.steps


class Recorder(LiveBytes):
    """Counts live bytes and notes every event; `keeps` tells whether autograd's tensors are really kept.

    Without them no backward can follow, and storages die when Python drops them.
    """

    supports_higher_order_operators = False  # what is in them would not be recorded

    def __init__(self, known: Iterable[torch.Tensor], names: dict[Any, str], time: OperatorTime, keeps: bool) -> None:
        self.steps = 0
        self.births: list[int] = []
        self.deaths: list[int] = []
        super().__init__(known)
        self.num_known = len(self.bytes)
        self.names, self.time, self.keeps = names, time, keeps
        self.phase = "forward"
        self.ms = {"forward": 0.0, "backward": 0.0, "optimizer": 0.0}
        self.saves: list[list[Any]] = []  # numbers, pack, unpack
        self.save_deaths: list[int] = []
        self.operators: list[dict[str, Any]] = []
        self.calls: list[Call] = []
        self.stack: list[tuple[Call, Any]] = []  # with their modules
        self.written: dict[int, int] = {}  # storages that the forward changes in place: the last step that does
        self.not_again: set[str] = set()  # modules that change what they did not make, and can run but once
        self._maker: dict[int, int] = {}  # operator by storage
        self.order: list[str] = []  # modules as their calls end

    def born(self, number: int) -> None:
        self.births.append(self.steps - 1)
        self.deaths.append(-1)

    def died(self, number: int) -> None:
        self.deaths[number] = self.steps

    @contextmanager
    def hooks(self) -> Iterator[None]:
        """Within it autograd's saved tensors are noted."""
        with saved_tensors_hooks(self._pack, self._unpack):
            yield

    def _pack(self, tensor: torch.Tensor) -> _Saved:
        self.saves.append([self.numbers_of(tensor), self.steps, -1])
        self.save_deaths.append(-1)
        self.steps += 1
        return _Saved(self, len(self.saves) - 1, tensor if self.keeps else None)

    def _unpack(self, saved: _Saved) -> torch.Tensor:
        assert saved.tensor is not None, "a tensor was taken back in a forward that keeps none"
        if self.saves[saved.index][2] < 0:
            self.saves[saved.index][2] = self.steps
        self.steps += 1
        return saved.tensor

    @contextmanager
    def call(self, module: Any, args: Any, kwargs: Any) -> Iterator[None]:
        """A module's forward."""
        call = Call(
            fqn=self.names[module],
            first=self.steps,
            last=0,
            saves=(len(self.saves), 0),
            operators=(len(self.operators), 0),
            inputs=self.numbers_of(args, kwargs),
        )
        self.calls.append(call)
        self.stack.append((call, module))
        yield
        call.last = self.steps
        call.saves = (call.saves[0], len(self.saves))
        call.operators = (call.operators[0], len(self.operators))
        self.order.append(call.fqn)
        self.stack.pop()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        before = len(self.bytes)
        out = func(*args, **kwargs)
        self.steps += 1
        for tensor in tensors_of(out):
            self.see(tensor)
        if func in SAC_IGNORED_OPS:
            return out
        ms = self.time(func, args, kwargs, out)
        self.ms[self.phase] += ms
        if self.phase == "forward":
            self._note(func, args, kwargs, out, ms, before)
        return out

    def _note(self, func: Any, args: Any, kwargs: Any, out: Any, ms: float, before: int) -> None:
        index = len(self.operators)
        made = range(before, len(self.bytes))
        self._maker.update(dict.fromkeys(made, index))
        outputs = self.numbers_of(out)
        written = _written(func, args, kwargs)
        numbers = self.numbers_of(written)
        changes = self._maker.get(numbers[0], -1) if numbers else -1  # of which operator; -1: of none in the forward
        for number, tensor in ((n, t) for t in written for n in self.numbers_of(t)):
            self.written[number] = self.steps - 1
            for call, module in self.stack:
                if number < self.num_known:
                    call.written_buffers += sum(s.nbytes() for s in storages_of(tensor))
                if self.births[number] < call.first and number not in self.numbers_of(list(module.buffers())):
                    self.not_again.add(call.fqn)
        self.operators.append(
            {
                "step": self.steps - 1,
                "name": operator_name(func),
                "ms": ms,
                "bytes": sum(self.bytes[n] for n in made),
                "made": list(made),
                "is_view": bool(outputs) and not made and not written,
                "is_random": torch.Tag.nondeterministic_seeded in func.tags
                and not _is_attention_without_dropout(func, args, kwargs),
                "is_in_place": bool(numbers) and func._schema.is_mutable,
                "changes": changes,
            }
        )

    def trace(self, python: list[int], num_forward: int, num_backward: int, constant_bytes: int) -> Trace:
        """Of this step; `python` are the deaths in its forward without autograd's tensors."""
        known = self.num_known

        def own(numbers: Iterable[int]) -> list[int]:
            return [number - known for number in numbers if number >= known]

        for call in self.calls:
            if any(self.written.get(number, -1) >= call.first for number in call.inputs):
                self.not_again.add(call.fqn)
            call.inputs = own(call.inputs)
        return Trace(
            base_bytes=self.base,
            constant_bytes=constant_bytes,
            num_steps=self.steps,
            num_forward=num_forward,
            num_backward=num_backward,
            storages=[
                (self.bytes[n], self.births[n], python[n] if n < len(python) else -1, self.deaths[n])
                for n in range(known, len(self.bytes))
            ],
            saves=[(own(save[0]), save[1], save[2], end) for save, end in zip(self.saves, self.save_deaths)],
            freed=sorted(own(self.freed)),
            operators=[operator["step"] for operator in self.operators],
            milliseconds=[operator["ms"] for operator in self.operators],
            calls=self.calls,
            forward_ms=self.ms["forward"],
            backward_ms=self.ms["backward"],
        )


def _written(func: Any, args: Any, kwargs: Any) -> list[torch.Tensor]:
    """Tensors that an operator changes; batch normalization does not say so of its statistics."""
    written: list[torch.Tensor] = []
    for i, argument in enumerate(func._schema.arguments):
        is_written = argument.alias_info is not None and argument.alias_info.is_write
        if is_written or argument.name in ("running_mean", "running_var"):
            value = args[i] if i < len(args) else kwargs.get(argument.name)
            written += tensors_of(value)
    return written


def _is_attention_without_dropout(func: Any, args: Any, kwargs: Any) -> bool:
    names = [argument.name for argument in func._schema.arguments]
    if "dropout_p" not in names:
        return False
    at = names.index("dropout_p")
    return not (args[at] if at < len(args) else kwargs.get("dropout_p", 0.0))
