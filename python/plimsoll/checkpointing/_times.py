"""What an operator takes: by a roofline, or measured on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

from plimsoll.checkpointing._memory import storages_of, tensors_of

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


def _is_view(inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> bool:
    known = {storage._cdata for tensor in inputs for storage in storages_of(tensor)}
    return all(storage._cdata in known for tensor in outputs for storage in storages_of(tensor))


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
