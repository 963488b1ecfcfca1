"""Values of whole numbers under fake tensors, so that a forward may ask whether a mask is all ones.

What follows from integer and boolean tensors of the batch, and from tensors that an operator makes of nothing
(`arange`), is computed beside the fake tensors as long as it is small: masks and positions are, activations are not
whole numbers. What a forward reads of those is answered; all other reading stays an error of the fake tensors.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map
from torch.utils.weak import WeakIdKeyDictionary

from plimsoll.checkpointing._memory import tensors_of

MOST_NUMBERS = 1 << 20  # of a tensor: a mask of 128 sequences of 8,192 tokens


def has_small_whole_numbers(tensor: torch.Tensor) -> bool:
    """Is it worth computing?"""
    is_whole = not tensor.is_floating_point() and not tensor.is_complex()
    return is_whole and tensor.numel() <= MOST_NUMBERS and tensor.layout is torch.strided


class KnownValues(TorchDispatchMode):
    """Entered above a FakeTensorMode."""

    def __init__(self) -> None:
        super().__init__()
        self._values = WeakIdKeyDictionary()

    def tell(self, fake: torch.Tensor, value: torch.Tensor) -> None:
        """The value of a fake tensor."""
        if value.device.type != "meta" and has_small_whole_numbers(value):
            with unset_fake_temporarily():
                self._values[fake] = value.detach().to("cpu", copy=True)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        inputs = tensors_of(args, kwargs)
        is_known = all(tensor in self._values for tensor in inputs)
        if is_known and inputs and not any(isinstance(r.type, torch.TensorType) for r in func._schema.returns):
            return self._compute(func, args, kwargs)  # a number: item(), equal()
        out = func(*args, **kwargs)
        if func._schema.is_mutable and any(tensor in self._values for tensor in inputs) and not is_known:
            self._values.clear()  # views of what was changed are stale, too
        outputs = tensors_of(out)
        is_random = torch.Tag.nondeterministic_seeded in func.tags
        if is_known and isinstance(out, torch.Tensor) and not is_random and all(map(has_small_whole_numbers, outputs)):
            self._values[out] = self._compute(func, args, kwargs)
        return out

    def _compute(self, func: Any, args: Any, kwargs: Any) -> Any:
        def value(leaf: Any) -> Any:
            if isinstance(leaf, torch.Tensor):
                return self._values[leaf]
            return torch.device("cpu") if isinstance(leaf, torch.device) else leaf

        with unset_fake_temporarily():
            return func(*tree_map(value, args), **tree_map(value, kwargs))
