"""What an operator costs: floating-point operations, bytes that it moves, whether it makes a view."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import FlopCounterMode, flop_registry

_GATHERS = {"embedding", "embedding_bag", "_embedding_bag", "index", "index_select", "gather"}
_RANDOM = {"rand", "randn", "randint", "randperm", "empty", "normal", "bernoulli"}  # without inputs, too, not constant


def tensors(value: Any) -> list[torch.Tensor]:
    """The tensors within a value."""
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def byte_size(value: Any) -> int:
    """Of all tensors within a value; of a symbolic size its hint."""
    return sum(int(tensor.numel()) * tensor.element_size() for tensor in tensors(value))


def storages(value: Any) -> set[int]:
    """Identities of the storage of the tensors within a value."""
    return {tensor.untyped_storage()._cdata for tensor in tensors(value)}


def base_name(target: Any) -> str:
    """ "linear" for aten.linear.default."""
    packet = getattr(target, "_opname", None) or getattr(target, "__name__", str(target))
    return str(packet)


def is_random(target: Any) -> bool:
    """Does it give another value at every call although it reads nothing?"""
    tags = getattr(target, "tags", ())
    return torch.Tag.nondeterministic_seeded in tags or base_name(target) in _RANDOM


def is_mutating(target: Any) -> bool:
    """Does it write into what it reads?"""
    schema = getattr(target, "_schema", None)
    return schema is not None and bool(schema.is_mutable)


def is_view(inputs: Iterable[Any], value: Any) -> bool:
    """Is all of the value's storage that of inputs?"""
    own = storages(value)
    return bool(own) and own <= set().union(*(storages(one) for one in inputs))


def bytes_moved(target: Any, inputs: Iterable[Any], value: Any) -> int:
    """Distinct inputs and outputs; a gather touches only what it takes."""
    sizes = [byte_size(one) for one in inputs]
    if base_name(target) in _GATHERS and sizes:
        return 2 * byte_size(value) + sum(sizes[1:])
    return sum(sizes) + byte_size(value)


def _attention_flops(query: Any, key: Any, products: int) -> float:
    batch, heads, length, width = query.shape
    return float(2 * products * batch * heads * length * key.shape[-2] * width)


def flops(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], value: Any) -> float:
    """Of matrix products and convolutions, counted by torch's formulas; other operators have none.

    torch has no formula for attention as CPUs run it (two products forward, five backward) nor for grouped products.
    """
    name = base_name(target)
    if name == "_scaled_dot_product_flash_attention_for_cpu":
        return _attention_flops(args[0], args[1], 2)
    if name == "_scaled_dot_product_flash_attention_for_cpu_backward":
        return _attention_flops(args[1], args[2], 5)
    if name in ("_grouped_mm", "grouped_mm"):
        return float(2 * args[0].numel() * args[1].shape[-1])
    packet = getattr(target, "overloadpacket", None)
    if packet in flop_registry:
        return float(flop_registry[packet](*args, **kwargs, out_val=value))
    if not isinstance(target, torch._ops.OpOverload) or is_mutating(target):
        return 0.0
    if not torch._C._dispatch_has_kernel_for_dispatch_key(target.name(), "CompositeImplicitAutograd"):
        return 0.0
    if not any(tensor.is_floating_point() for tensor in tensors((args, kwargs))):
        return 0.0

    def as_meta(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return torch.empty_strided(tuple(map(int, leaf.shape)), leaf.stride(), dtype=leaf.dtype, device="meta")
        return torch.device("meta") if isinstance(leaf, torch.device) else leaf

    with torch.no_grad(), FlopCounterMode(display=False) as counter:  # it is made of operators with formulas
        target(*pytree.tree_map(as_meta, args), **pytree.tree_map(as_meta, kwargs))
    total = counter.get_total_flops()
    return float(total) if math.isfinite(total) else 0.0
