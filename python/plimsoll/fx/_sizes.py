"""Bytes of every node, read off the module as torch's partitioner reads them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.fx.graph_module import GraphModule
from torch.fx.node import Node
from torch.fx.passes.graph_manipulation import get_tensor_meta, size_bytes
from torch.fx.passes.shape_prop import ShapeProp


class _Elements:
    """Elements of modules and bytes of types, each counted once."""

    def __init__(self, module: GraphModule) -> None:
        self._modules = dict(module.named_modules())
        self._parameters: dict[Any, int] = {}
        self._bytes: dict[torch.dtype, int] = {}

    def of_module(self, target: Any) -> int:
        """Elements of a called module's parameters; a KeyError where there is no such module, as torch raises it."""
        if target not in self._parameters:
            self._parameters[target] = sum(p.numel() for p in self._modules[target].parameters())
        return self._parameters[target]

    def bytes_of(self, dtype: torch.dtype, is_quantized: bool) -> int:
        """Bytes of one element."""
        if dtype not in self._bytes:
            if is_quantized:
                one = torch._empty_affine_quantized([], dtype=dtype)  # torch's own rule
            else:
                one = torch.tensor([], dtype=dtype)
            self._bytes[dtype] = one.element_size()
        return self._bytes[dtype]


def get_size_of_all_nodes(fx_module: GraphModule, args: list[torch.Tensor] | None = None) -> None:
    """Sets `size_bytes` of every node before the output.

    Equal to torch's function of this name, whose time grows with nodes times modules.

    Args:
        fx_module: A graph whose nodes have tensor metadata, unless `args` are given.
        args: A sample input: shapes are propagated first.

    Raises:
        RuntimeError: A node without tensor metadata.
    """
    if args is not None:
        ShapeProp(fx_module).propagate(*args)
    elements = _Elements(fx_module)
    for node in fx_module.graph.nodes:
        if node.op == "output":
            break
        parameters = elements.of_module(node.target) if node.op == "call_module" else 0
        meta = get_tensor_meta(node)
        output = meta.shape.numel()
        one = elements.bytes_of(meta.dtype, meta.is_quantized)
        node.size_bytes = size_bytes(one * output, one * (parameters + output))


def _tensors(value: Any) -> Iterable[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from _tensors(part)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


def _metas(value: Any) -> Iterable[Any]:
    """The TensorMetadata in what shape propagation left, which is a tuple itself."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        yield value
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from _metas(part)
    elif isinstance(value, dict):
        yield from _metas(list(value.values()))


def has_value(node: Node) -> bool:
    """Did torch.export or shape propagation note a value?"""
    return any(node.meta.get(key) is not None for key in ("val", "example_value", "tensor_meta"))


def _bytes_of_value(node: Node, elements: _Elements) -> tuple[int, int]:
    """Bytes of the node's value, and of one element of it; of several tensors the sum, and the first's."""
    value = node.meta.get("val", node.meta.get("example_value"))
    if value is not None:
        parts = [(int(tensor.numel()), tensor.element_size()) for tensor in _tensors(value)]
    else:
        parts = [
            (int(meta.shape.numel()), elements.bytes_of(meta.dtype, meta.is_quantized))
            for meta in _metas(node.meta.get("tensor_meta"))
        ]
    return sum(count * one for count, one in parts), parts[0][1] if parts else 0


def size_every_value(module: GraphModule) -> None:
    """Sets `size_bytes` where torch's rule has none, too: of several values the sum, of none 0.

    Where a node's value is one tensor, sizes are those of `get_size_of_all_nodes`. Values are those that torch.export
    or shape propagation noted.
    """
    elements = _Elements(module)
    for node in module.graph.nodes:
        if node.op == "output":
            break
        output, one = _bytes_of_value(node, elements)
        parameters = elements.of_module(node.target) if node.op == "call_module" else 0
        node.size_bytes = size_bytes(output, output + one * parameters)
