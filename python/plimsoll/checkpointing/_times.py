"""What an operator takes: by a roofline, or measured on this machine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.checkpoint import SAC_IGNORED_OPS, checkpoint
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

from plimsoll._operator_times import Machine, OperatorTimes
from plimsoll.checkpointing._memory import storages_of, tensors_of
from plimsoll.checkpointing._recorder import operator_name
from plimsoll.checkpointing._trace import Costs

aten = torch.ops.aten


def _flash_for_cpu(query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> int:
    return int(sdpa_flop_count(query, key, value))


def _flash_for_cpu_backward(grad: Any, query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> int:
    return int(sdpa_backward_flop_count(grad, query, key, value))


_MORE_FLOPS = {  # torch's registry lacks attention on a CPU
    aten._scaled_dot_product_flash_attention_for_cpu: _flash_for_cpu,
    aten._scaled_dot_product_flash_attention_for_cpu_backward: _flash_for_cpu_backward,
}


@dataclass(frozen=True)
class Roofline:
    """An operator takes what moving its tensors takes, or its arithmetic at 75 % of the peak, if that is longer.

    The default is an A100 with 80 GB: NVIDIA's data sheet, 2,039 GB/s, 312 TFLOP/s in 16 bits, 19.5 in 32.
    """

    gb_per_s: float = 2039.0
    tflops: float = 19.5
    tflops_16: float = 312.0

    def record(self, parameter: torch.Tensor | None) -> dict[str, Any]:
        """As module statistics hold it, for a model of such parameters."""
        if _sixteen_bits(parameter):
            return {"dram_gb_per_s": self.gb_per_s, "tflops": {"bfloat16": self.tflops_16}}
        return {"dram_gb_per_s": self.gb_per_s, "tflops": {"float32": self.tflops}}

    def __call__(self, func: Any, args: Any, kwargs: Any, out: Any) -> float:
        """Milliseconds."""
        outputs = tensors_of(out)
        inputs = tensors_of(args, kwargs)
        if not func._schema.is_mutable and _is_view(inputs, outputs):
            return 0.0
        moved = sum(_moved_bytes(tensor) for tensor in inputs + outputs)
        is_16 = any(t.is_floating_point() and t.element_size() == 2 for t in outputs)
        tflops = self.tflops_16 if is_16 else self.tflops
        return max(moved / (self.gb_per_s * 1e6), _flops(func, args, kwargs, out) / (tflops * 1e9 * 0.75))


def _sixteen_bits(tensor: torch.Tensor | None) -> bool:
    return tensor is not None and tensor.is_floating_point() and tensor.element_size() == 2


class MachineTimes:
    """An operator takes what the roofline of a machine document says, with its launch; views take nothing."""

    def __init__(self, machine: Machine) -> None:
        self.times = OperatorTimes.of(machine)

    def __call__(self, func: Any, args: Any, kwargs: Any, out: Any) -> float:
        """Milliseconds."""
        outputs = tensors_of(out)
        inputs = tensors_of(args, kwargs)
        if not func._schema.is_mutable and _is_view(inputs, outputs):
            return 0.0
        moved = sum(_moved_bytes(tensor) for tensor in inputs + outputs)
        dtype = next((str(t.dtype) for t in outputs if t.is_floating_point()), "float32")
        return self.times.ms(_flops(func, args, kwargs, out), moved, dtype)


def _is_view(inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> bool:
    known = {storage._cdata for tensor in inputs for storage in storages_of(tensor)}
    return all(storage._cdata in known for tensor in outputs for storage in storages_of(tensor))


def fresh_bytes(func: Any, args: Any, kwargs: Any, out: Any) -> int:
    """What an operator allocates for its outputs."""
    outputs = tensors_of(out)
    is_fresh = not func._schema.is_mutable and not _is_view(tensors_of(args, kwargs), outputs)
    return sum(tensor.nbytes for tensor in outputs) if is_fresh else 0


def _moved_bytes(tensor: torch.Tensor) -> int:
    size = tensor.element_size()
    if tensor.layout is torch.strided:
        for length, stride in zip(tensor.shape, tensor.stride()):
            size *= length if stride or length == 0 else 1
        return size
    return size * tensor.numel()


def _flops(func: Any, args: Any, kwargs: Any, out: Any) -> float:
    packet = getattr(func, "overloadpacket", None)
    if packet in flop_registry:
        return float(flop_registry[packet](*args, **kwargs, out_val=out))
    if packet in _MORE_FLOPS:
        shapes = [value.shape if isinstance(value, torch.Tensor) else value for value in args]
        return float(_MORE_FLOPS[packet](*shapes))
    return 0.0


def wide_step(layers: int, rows: int, width: int, device: torch.device) -> Callable[[], None]:
    """Forward and backward of a perceptron, each layer with a norm and an activation."""
    # Made and freed: from then on glibc keeps what smaller tensors leave, as it does in a job after its first steps.
    torch.empty(1 << 24, dtype=torch.uint8, device="cpu")
    with torch.random.fork_rng():
        blocks = [
            torch.nn.Sequential(torch.nn.LayerNorm(width), torch.nn.Linear(width, width), torch.nn.GELU())
            for _ in range(layers)
        ]
    return _step_of(torch.nn.Sequential(*blocks).to(device), torch.ones(rows, width, device=device))


def narrow_step(layers: int, device: torch.device) -> Callable[[], None]:
    """Forward and backward of transformer layers with next to no arithmetic: launches, views, modules."""
    return _step_of(*transformer_layers(layers, 8, 2, device))


def transformer_layers(
    layers: int, width: int, rows: int, device: torch.device
) -> tuple[torch.nn.Module, torch.Tensor]:
    """Such layers, and what they take."""
    with torch.random.fork_rng():
        blocks = [
            torch.nn.TransformerEncoderLayer(
                width, max(2, width // 64), 2 * width, dropout=0.0, batch_first=True, device=device
            )
            for _ in range(layers)
        ]
    return torch.nn.Sequential(*blocks), torch.ones(1, rows, width, device=device)


def _step_of(model: torch.nn.Module, batch: torch.Tensor) -> Callable[[], None]:
    def step() -> None:
        model.zero_grad(set_to_none=True)
        model(batch).sum().backward()

    return step


class Operators(TorchDispatchMode):
    """Notes the operators that run, what they take and what they give."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.calls.append((func, args, kwargs or {}, out))
        return out

    def work(self) -> list[tuple[float, float]]:
        """(floating-point operations, bytes moved) of every operator that makes no view."""
        found = []
        for func, args, kwargs, out in self.calls:
            outputs, inputs = tensors_of(out), tensors_of(args, kwargs)
            if func._schema.is_mutable or not _is_view(inputs, outputs):
                moved = float(sum(_moved_bytes(tensor) for tensor in inputs + outputs))
                found.append((_flops(func, args, kwargs, out), moved))
        return found


class MeasuredTimes:
    """An operator takes what it takes here: the least of several runs on tensors of the same shapes and strides.

    On a CPU a step takes more than its operators alone: autograd and modules around them, and fresh memory. This is
    measured once, of narrow and of wide layers, and every operator gets its share.

    Operators with equal arguments are measured once. Floating numbers are drawn, whole ones are 0, since they may be
    indices. Collectives, and what does not run on such numbers, count as nothing.
    """

    def __init__(self, repeats: int = 7) -> None:
        self.repeats = repeats
        self._known: dict[str, float] = {}
        # Now: within a profile, operators run below autograd.
        with (
            _disable_current_modes(),
            torch.enable_grad(),
            torch.autocast("cpu", enabled=False),
            torch.random.fork_rng(),
        ):
            self._operator_ms, self._byte_ms = self._measure_around()  # on a CPU, beside what operators take alone

    def __call__(self, func: Any, args: Any, kwargs: Any, out: Any) -> float:
        """Milliseconds."""
        if func.namespace in ("c10d", "_c10d_functional", "fsdp"):
            return 0.0
        key = f"{func}{[_signature(leaf) for leaf in tree_leaves((args, kwargs))]}"
        if key not in self._known:
            with _disable_current_modes(), torch.no_grad(), torch.random.fork_rng():
                self._known[key] = self._measure(func, args, kwargs)
        if any(tensor.device.type == "cuda" for tensor in tensors_of(args, kwargs, out)):
            return self._known[key]  # which runs beside what surrounds it
        if self._known[key] == 0:
            return 0.0
        return self._known[key] + self._operator_ms + fresh_bytes(func, args, kwargs, out) * self._byte_ms

    def _measure_step(self, step: Callable[[], None]) -> tuple[float, int, int]:
        """Of a step: ms that its operators do not take alone, how many they are, bytes that they make."""
        ms = self._least(step, False, 3 * self.repeats)
        with Operators() as seen:
            step()
        made = sum(fresh_bytes(*call) for call in seen.calls)
        with torch.no_grad():
            alone = sum(self._alone(func, args, kwargs) for func, args, kwargs, _ in seen.calls)
        return ms - alone, len(seen.calls), made

    def _measure_around(self) -> tuple[float, float]:
        """ms of an operator, from narrow layers; and of a byte that it makes, from wide ones.

        Memory for what operators make is fresh in a step, and used again when an operator runs by itself.
        """
        cpu = torch.device("cpu")
        (less, few, _), (more, many, _) = (self._measure_step(narrow_step(layers, cpu)) for layers in (2, 14))
        operator = max(0.0, more - less) / (many - few)
        rest, count, made = self._measure_step(wide_step(8, 512, 128, cpu))
        return operator, max(0.0, rest - count * operator) / made

    def _alone(self, func: Any, args: Any, kwargs: Any) -> float:
        key = f"{func}{[_signature(leaf) for leaf in tree_leaves((args, kwargs))]}"
        if key not in self._known:
            self._known[key] = self._measure(func, args, kwargs)
        return self._known[key]

    def _measure(self, func: Any, args: Any, kwargs: Any) -> float:
        real_args, real_kwargs = tree_map(_made_real, (args, kwargs))
        devices = {t.device.type for t in tensors_of(real_args, real_kwargs)}
        try:
            return self._least(lambda: func(*real_args, **real_kwargs), "cuda" in devices)
        except (RuntimeError, IndexError):
            return 0.0

    def _least(self, run: Callable[[], Any], is_cuda: bool, repeats: int = 0) -> float:
        # Small operators run ten times at once.
        self._timed(run, is_cuda, 1)
        count = 10 if self._timed(run, is_cuda, 1) < 5e-2 else 1
        return min(self._timed(run, is_cuda, count) for _ in range(repeats or self.repeats))

    def _timed(self, run: Callable[[], Any], is_cuda: bool, count: int) -> float:
        # One thread's own time where there is one: other programs do not count.
        clock = time.perf_counter if is_cuda or torch.get_num_threads() > 1 else time.thread_time
        if is_cuda:
            torch.cuda.synchronize()
        start = clock()
        for _ in range(count):
            run()
        if is_cuda:
            torch.cuda.synchronize()
        return 1000 * (clock() - start) / count

    def checkpoint_costs(self, device: torch.device, made: int) -> Costs:
        """What checkpoint costs for a call, a saved tensor, a call under a policy, an operator under one, a kept one.

        A unit of n transformer layers saves tensors and runs operators in proportion to n. Of layers with next to no
        arithmetic, the time with checkpoint, less that without and that of a second forward, is a line in the saved
        tensors: the intercept is a call's, the slope a tensor's. What a policy adds is a line in the operators that it
        is asked about, whose intercept is a call's.

        All of this is Python code, which takes two to four times as long where the operators between have the
        processor's caches. So both lines are scaled to meet what units take whose operators make as much memory as
        those of the model, `made` bytes in the mean. A kept operator costs what keeping products adds to the forward
        of small layers, a product, and is scaled as the policy. On a CPU each byte of its output costs what a fresh
        byte does, twice: in the forward later operators get other memory, which they would have got from it, and in
        the backward it is read from memory, where an operator that runs again leaves it in the caches.
        """
        calls, policies = [], []  # (saved tensors, ms), (operators in both runs, ms)
        with _disable_current_modes(), torch.enable_grad():
            for layers in (1, 6):
                units = _Units(1, layers, 8, (1, 2), device)
                call, policy, kept = self._added(units)
                calls.append((units.saved, call))
                policies.append((2 * len(units.operators), policy))
            # A layer makes 14 times its output in 42 operators. Wider than 384, it leaves as little in the caches.
            width = 64 * max(1, min(6, round(made / (512 * 64 * 4 * 14 / 42))))
            units = _Units(2, 1, width, (1, 512), device)
            call, policy, _ = self._added(units)
        unit, save = _line(calls)
        selective, operator = _line(policies)
        for_checkpoint = _scale(call, unit + units.saved * save)
        for_policy = _scale(policy, selective + 2 * len(units.operators) * operator)
        return Costs(
            unit * for_checkpoint,
            save * for_checkpoint,
            selective * for_policy,
            operator * for_policy,
            max(0.0, kept) * for_policy,
            2 * self._byte_ms if device.type == "cpu" else 0.0,
        )

    def _added(self, units: _Units) -> tuple[float, float, float]:
        """ms that a unit adds with checkpoint beside a second forward, with a policy beside checkpoint, and that a
        kept operator adds to the forward: medians over turns, in which all meet the same machine."""
        options: list[dict[str, Any] | None] = [None, {}, units.policy([]), units.policy(units.products)]
        turns = [[units.step(given, self._timed) for given in options] for _ in range(2 * self.repeats + 1)][1:]
        count = len(units.modules)
        return (
            statistics.median(sum(call) - sum(plain) - plain[0] for plain, call, _, _ in turns) / count,
            statistics.median(sum(asked) - sum(call) for _, call, asked, _ in turns) / count,
            statistics.median(kept[0] - asked[0] for _, _, asked, kept in turns) / count / len(units.products),
        )


class _Units:
    """Units of transformer layers in a row, the operators that a policy sees in one, how many tensors it saves."""

    def __init__(self, count: int, layers: int, width: int, rows: tuple[int, int], device: torch.device) -> None:
        self.modules = [transformer_layers(layers, width, 1, device)[0] for _ in range(count)]
        self.x = torch.ones(*rows, width, device=device, requires_grad=True)
        self.saved = 0
        with Operators() as seen, torch.autograd.graph.saved_tensors_hooks(self._count, lambda _: torch.empty(0)):
            self.modules[0](self.x)
        self.operators = [operator_name(call[0]) for call in seen.calls if call[0] not in SAC_IGNORED_OPS]
        self.products = [i for i, name in enumerate(self.operators) if name == "aten.addmm.default"]

    def _count(self, _: torch.Tensor) -> None:
        self.saved += 1

    def policy(self, keep: list[int]) -> dict[str, Any]:
        """The options of checkpoint under which a unit keeps these operators."""
        from plimsoll.checkpointing._apply import keeping

        return {"context_fn": keeping(self.operators, keep)}

    def step(self, options: dict[str, Any] | None, timed: Callable[..., float]) -> tuple[float, float]:
        """ms of forward and backward, under checkpoint with these options; None is without."""
        ends: list[torch.Tensor] = []

        def forward() -> None:
            y = self.x
            for module in self.modules:
                y = module(y) if options is None else checkpoint(module, y, use_reentrant=False, **options)
            ends.append(y.sum())

        for module in self.modules:
            module.zero_grad(set_to_none=True)
        ms = timed(forward, self.x.is_cuda, 1)
        return ms, timed(lambda: ends.pop().backward(), self.x.is_cuda, 1)


def _scale(ms: float, of_small: float) -> float:
    """How many times as long something takes as in small layers, at least once."""
    return max(1.0, ms / of_small) if of_small > 0 else 1.0


def _line(points: list[tuple[int, float]]) -> tuple[float, float]:
    """Intercept and slope of the line through two points, neither below zero."""
    (few, less), (many, more) = points
    slope = max(0.0, (more - less) / (many - few))
    return max(0.0, less - few * slope), slope


def _signature(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return tuple(leaf.shape), leaf.stride(), leaf.dtype, leaf.device.type
    return leaf


def _made_real(leaf: Any) -> Any:
    """A tensor of the same shape, strides and type."""
    if not isinstance(leaf, torch.Tensor):
        return leaf
    device = "cpu" if leaf.device.type == "meta" else leaf.device
    count = 1 + sum((size - 1) * stride for size, stride in zip(leaf.shape, leaf.stride())) if leaf.numel() else 0
    numbers = torch.zeros(count, dtype=leaf.dtype, device=device)
    if leaf.is_floating_point():
        numbers.uniform_(0.1, 1)
    return numbers.as_strided(leaf.shape, leaf.stride())
