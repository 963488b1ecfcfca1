"""Enumerating and searching natively, and making TorchRec's objects for the plan's options alone.

Only where enumerator, estimators, modules and sharders are TorchRec's own and known (`Unknown` otherwise), and only if
TorchRec's own enumerator and estimators, asked for the plan's options and for all options of a few tables, say of every
shard what ours said.
"""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import nn
from torchrec.distributed.planner.shard_estimators import EmbeddingStorageEstimator
from torchrec.distributed.planner.types import ParameterConstraints, ShardingOption, StorageReservation, Topology
from torchrec.distributed.types import ModuleSharder

from plimsoll import _native
from plimsoll._command import plain
from plimsoll._errors import Error
from plimsoll.options import search
from plimsoll.torchrec._enumerator import Enumerator
from plimsoll.torchrec._model import Unknown, cost_model, exact_model_document, exact_topology_document
from plimsoll.torchrec._options import cost_of, room_after, room_of
from plimsoll.torchrec._plugins import Search

logger: logging.Logger = logging.getLogger("plimsoll")

Choice = dict[str, tuple[int, list[int]]]

SAMPLED_TABLES = 4  # whose options are all compared with TorchRec's


class NativeEnumerator(Enumerator):
    """The enumerator of a `Planner` whose user gave none."""

    def __init__(
        self,
        topology: Topology,
        batch_size: int,
        constraints: Mapping[str, ParameterConstraints] | None,
        reservation: StorageReservation,
        shared: Search,
    ) -> None:
        super().__init__(topology, batch_size, dict(constraints) if constraints else None)
        self._topology = topology
        self._reservation = reservation
        self._shared = shared
        self.is_native = False  # was the last search space enumerated natively?
        self._of: tuple[nn.Module, list[ModuleSharder[nn.Module]]] | None = None  # then of what
        self.reason = ""  # why it was not
        self.wants_all = False  # somebody reads the whole search space

    def enumerate(self, module: nn.Module, sharders: list[ModuleSharder[nn.Module]]) -> list[ShardingOption]:
        """While its planner plans, the plan's options where the native way is open; else all."""
        if self._shared.module is None:
            return super().enumerate(module, sharders)
        self._shared.forget()
        self.is_native = False
        self._of = None
        try:
            options = self._enumerate_natively(module, sharders)
            self.is_native = True
            self._of = (module, sharders)
            return options
        except (Unknown, Error) as error:
            self.reason = str(error)
            logger.debug("plimsoll: TorchRec's enumerator is used: %s", error)
            self._shared.forget()
        return super().enumerate(module, sharders)

    @property
    def last_stored_search_space(self) -> list[ShardingOption] | None:
        """All options of what was enumerated last, which TorchRec's planner hashes; now they are needed."""
        if self._of is not None:
            super().enumerate(*self._of)
        return self._last_stored_search_space

    def _room(self, module: nn.Module, sharders: Sequence[ModuleSharder[nn.Module]]) -> Topology:
        if self.wants_all or self._shared.by_storage:
            raise Unknown("the whole search space is wanted")
        if not type(self._reservation).reserve.__module__.startswith("torchrec."):
            raise Unknown("a reservation of the caller's own")  # what it left is known to its caller alone
        return room_after(self._reservation, self._topology, self._batch_size, module, sharders, self._constraints)

    def _enumerate_natively(
        self, module: nn.Module, sharders: Sequence[ModuleSharder[nn.Module]]
    ) -> list[ShardingOption]:
        room = self._room(module, sharders)
        if type(self._estimators[-1]) is not EmbeddingStorageEstimator:
            raise Unknown("estimators")
        document = exact_model_document(module, sharders, self._constraints)
        space = _native.enumerate_space(
            json.dumps(document, default=plain),
            json.dumps(exact_topology_document(self._topology), default=plain),
            cost_model(),
            self._batch_size,
        )
        if not space.num_tables:
            raise Unknown("no tables")
        least = space.least_options().tolist()
        fqns = [space.describe(option)[0] for option in least]
        found = search(space, fqns, room_of(room), self._shared.settings)
        choice: Choice = found.choice or {fqn: (option, []) for fqn, option in zip(fqns, least)}
        names = {
            f"{entry['path']}.{table['name']}": table["name"]
            for entry in document["modules"]
            for table in entry["tables"]
        }
        options = self._compared(space, choice, names, module, sharders)
        self._shared.answer_with(found, {option.fqn: (option, choice[option.fqn][1]) for option in options})
        return options

    def _compared(
        self,
        space: _native.OptionSpace,
        choice: Choice,
        names: Mapping[str, str],
        module: nn.Module,
        sharders: Sequence[ModuleSharder[nn.Module]],
    ) -> list[ShardingOption]:
        """TorchRec's options of the choice, once these and all of a few tables are found to be the native ones."""
        fqns = list(choice)
        step = max(1, len(fqns) // SAMPLED_TABLES)
        sampled = dict.fromkeys(fqns[::step][:SAMPLED_TABLES])
        wanted: dict[tuple[str, str, str], int] = {}  # to be compared
        winners = set()
        for fqn, (index, _) in choice.items():
            for option in _options_of(space, fqn, index) if fqn in sampled else (index,):
                wanted[space.describe(option)[:3]] = option
            winners.add(space.describe(index)[:3])
        spared = {names[fqn] for fqn in sampled}
        allowed: dict[str, tuple[set[str], set[str]]] = {}
        for fqn, sharding_type, compute_kernel in wanted:
            if names[fqn] not in spared:
                types, kernels = allowed.setdefault(names[fqn], (set(), set()))
                types.add(sharding_type)
                kernels.add(compute_kernel)
        theirs = self._narrowed(allowed, module, sharders)
        found = {}
        for option in theirs:
            key = option.fqn, option.sharding_type, option.compute_kernel
            if key in wanted:
                if key in found:
                    raise Unknown(f"{option.fqn} twice")
                found[key] = option
                _compare(option, space, wanted[key])
            elif option.fqn in sampled:
                raise Unknown(f"{option.fqn}: TorchRec has {option.sharding_type} with {option.compute_kernel}, too")
        if found.keys() != wanted.keys() or {option.fqn for option in theirs} != choice.keys():
            raise Unknown("other tables or options than TorchRec's")
        return [option for key, option in found.items() if key in winners]

    def _narrowed(
        self,
        allowed: Mapping[str, tuple[set[str], set[str]]],
        module: nn.Module,
        sharders: Sequence[ModuleSharder[nn.Module]],
    ) -> list[ShardingOption]:
        """TorchRec's own enumerator where tables, by name, have these types and kernels alone."""
        narrowed = dict(self._constraints or {})
        for name, (types, kernels) in allowed.items():
            narrowed[name] = replace(
                narrowed.get(name) or ParameterConstraints(),
                sharding_types=sorted(types),
                compute_kernels=sorted(kernels),
            )
        whole, self._constraints = self._constraints, narrowed
        self._last_stored_module = None
        try:
            return super().enumerate(module, list(sharders))
        except (RuntimeError, ValueError) as error:
            raise Unknown(f"an option that TorchRec lacks: {error}") from error
        finally:
            self._constraints = whole
            self._last_stored_module = self._last_stored_search_space = None  # that is not the search space

    def __deepcopy__(self, memo: dict[int, Any]) -> NativeEnumerator:
        twin = copy.copy(self)  # the module that was enumerated is large and stays shared
        for name in ("_topology", "_reservation", "_shared", "_constraints", "_estimators"):
            setattr(twin, name, copy.deepcopy(getattr(self, name), memo))
        return twin


def _options_of(space: _native.OptionSpace, fqn: str, index: int) -> range:
    """Of the table that option `index` belongs to."""
    first = last = index
    while first > 0 and space.describe(first - 1)[0] == fqn:
        first -= 1
    while last + 1 < space.num_options and space.describe(last + 1)[0] == fqn:
        last += 1
    return range(first, last + 1)


def _compare(option: ShardingOption, space: _native.OptionSpace, index: int) -> None:
    runs = [cost for count, *cost in space.runs(index) for _ in range(count)]
    ours = runs * space.describe(index)[4]
    shards = option.shards
    if len(ours) != len(shards):
        raise Unknown(f"{option.fqn}: {len(ours)} shards, TorchRec has {len(shards)}")
    known: dict[tuple[int, int], tuple[int, int, int, float]] = {}
    for shard, cost in zip(shards, ours):
        key = (id(shard.storage), id(shard.perf))
        theirs = known.get(key)
        if theirs is None:
            theirs = known[key] = (*cost_of(shard)[0], shard.perf.total)
        if theirs[:3] != tuple(cost[:3]) or abs(theirs[3] - cost[3]) > 1e-9 * abs(theirs[3]):
            raise Unknown(f"{option.fqn}: {cost}, TorchRec has {theirs}")
