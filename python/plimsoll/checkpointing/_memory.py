"""Bytes of live storages while a step runs: what a budget limits, counted on any device and under fake tensors.

Method. A dispatch mode sees the outputs of every operator. Storages are numbered when they are first seen, and a weak
reference tells when one dies; its address may then be used again. FSDP resizes storages behind the dispatcher, so
`UntypedStorage.resize_` is watched as well, and inductor's code allocates by functions of its own. Workspaces inside an
operator are not seen.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves


def tensors_of(*trees: Any) -> list[torch.Tensor]:
    """The tensors in nested lists, tuples, dicts and what else pytrees know."""
    return [leaf for leaf in tree_leaves(trees) if isinstance(leaf, torch.Tensor)]


def storages_of(tensor: torch.Tensor) -> Iterator[torch.UntypedStorage]:
    """The storages below a tensor; those of a subclass such as DTensor are those of the tensors that it wraps."""
    if is_traceable_wrapper_subclass(tensor):
        for name in tensor.__tensor_flatten__()[0]:
            inner = getattr(tensor, name)
            if isinstance(inner, torch.Tensor):
                yield from storages_of(inner)
    elif tensor.layout is torch.strided:
        yield tensor.untyped_storage()
    elif tensor.layout is torch.sparse_coo:
        yield from storages_of(tensor._indices())
        yield from storages_of(tensor._values())


_ALLOCATIONS = ("_empty_strided_cpu", "_empty_strided_cuda")  # those of inductor's code, which it looks up once
_counters: list[LiveBytes] = []  # that are entered


def _counted(allocate: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    @functools.wraps(allocate)
    def counted(*args: Any) -> torch.Tensor:
        tensor = allocate(*args)
        for counter in _counters:
            counter.see(tensor)
        return tensor

    counted._is_counted = True  # type: ignore[attr-defined]
    return counted


def count_allocations_of_compiled_code() -> None:
    """From now on counters see what code allocates that inductor makes."""
    from torch._C._dynamo import guards

    for name in _ALLOCATIONS:
        allocate = getattr(guards, name, None)
        if allocate is not None and not hasattr(allocate, "_is_counted"):
            setattr(guards, name, _counted(allocate))


class LiveBytes(TorchDispatchMode):
    """Counts live storages: `now`, and `peak` since the counter was made.

    Args:
        known: Tensors that are there from the beginning: parameters, buffers, the batch.
    """

    supports_higher_order_operators = True  # compiled code has some, that draw the same random numbers again

    def __init__(self, known: Iterable[torch.Tensor] = ()) -> None:
        super().__init__()
        self.now = self.peak = 0
        self.numbers: dict[int, int] = {}  # by address, of storages that are alive
        self.bytes: list[int] = []  # by number
        self.freed: set[int] = set()  # storages that died by a resize, whoever holds them
        self._watches: dict[int, weakref.ref[torch.UntypedStorage]] = {}
        self._resize = contextlib.ExitStack()
        for tensor in known:
            self.see(tensor)
        self.base = self.now

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Compiled code runs as it is, and its operators are seen where they are dispatched."""
        return True

    def see(self, tensor: torch.Tensor) -> int:
        """Counts a tensor's storages that are new; returns their bytes."""
        before = self.now
        for storage in storages_of(tensor):
            address = storage._cdata
            if address not in self.numbers:
                self._add(storage, address)
        self.peak = max(self.peak, self.now)
        return self.now - before

    def numbers_of(self, *trees: Any) -> list[int]:
        """Numbers of the known storages below tensors, each once."""
        found = (self.numbers.get(s._cdata) for tensor in tensors_of(*trees) for s in storages_of(tensor))
        return list(dict.fromkeys(number for number in found if number is not None))

    def born(self, number: int) -> None:
        """A storage came into being."""

    def died(self, number: int) -> None:
        """A storage ceased to be."""

    def _add(self, storage: torch.UntypedStorage, address: int) -> None:
        number = len(self.bytes)
        self.numbers[address] = number
        self.bytes.append(storage.nbytes())
        self.now += self.bytes[number]

        def drop(_: Any) -> None:
            if self.numbers.get(address) == number:
                del self.numbers[address], self._watches[number]
                self.now -= self.bytes[number]
                self.died(number)

        self._watches[number] = weakref.ref(storage, drop)
        self.born(number)

    def _resized(self, storage: torch.UntypedStorage) -> None:
        """What it held before is dead; what it holds now is a storage of its own."""
        address = storage._cdata
        number = self.numbers.pop(address, None)
        if number is not None:
            del self._watches[number]
            self.now -= self.bytes[number]
            self.died(number)
            self.freed.add(number)
        self._add(storage, address)
        self.peak = max(self.peak, self.now)

    def __enter__(self) -> LiveBytes:
        self._resize = contextlib.ExitStack()
        original = torch.UntypedStorage.resize_

        def resize_(storage: torch.UntypedStorage, size: int) -> Any:
            result = original(storage, size)
            if storage._cdata in self.numbers:
                self._resized(storage)
            return result

        torch.UntypedStorage.resize_ = resize_  # type: ignore[method-assign, assignment]
        self._resize.callback(setattr, torch.UntypedStorage, "resize_", original)
        _counters.append(self)
        self._resize.callback(_counters.remove, self)
        return super().__enter__()  # type: ignore[no-any-return]

    def __exit__(self, *error: Any) -> None:
        self._resize.close()
        super().__exit__(*error)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in tensors_of(out):
            self.see(tensor)
        return out
