"""Enumerating and searching natively, and making TorchRec's objects for the plan's options alone.

Only where enumerator, estimators, sharders and constraints are TorchRec's own and known (`Unknown` otherwise), and only
if TorchRec's own estimators, asked for the plan's options, say of every shard what ours said.
"""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
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
from plimsoll.torchrec._options import cost_of, room_of
from plimsoll.torchrec._plugins import Search

logger: logging.Logger = logging.getLogger("plimsoll")

Choice = dict[str, tuple[int, list[int]]]


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
        """The plan's options where the native way is open, else all."""
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
        room = getattr(self._reservation, "last_reserved_topology", None)
        if room is not None:
            return room
        return copy.deepcopy(self._reservation).reserve(  # older releases do not keep it
            topology=self._topology,
            batch_size=self._batch_size,
            module=module,
            sharders=list(sharders),
            constraints=self._constraints,
        )

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
        options = self._winners(space, choice, module, sharders)
        by_fqn = {option.fqn: option for option in options}
        if sorted(by_fqn) != sorted(choice) or len(options) != len(choice):
            raise Unknown("other tables or options than TorchRec's")
        for fqn, (index, _) in choice.items():
            self._compare(by_fqn[fqn], space, index)
        self._shared.answer_with(found, {option.fqn: (option, choice[option.fqn][1]) for option in options})
        return options

    def _winners(
        self,
        space: _native.OptionSpace,
        choice: Choice,
        module: nn.Module,
        sharders: Sequence[ModuleSharder[nn.Module]],
    ) -> list[ShardingOption]:
        """TorchRec's options of the choice: its own enumerator under constraints that leave nothing else."""
        narrowed = dict(self._constraints or {})
        for index, _ in choice.values():
            fqn, sharding_type, compute_kernel, _, _ = space.describe(index)
            name = fqn.rpartition(".")[2]
            narrowed[name] = replace(
                narrowed.get(name) or ParameterConstraints(),
                sharding_types=[sharding_type],
                compute_kernels=[compute_kernel],
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

    @staticmethod
    def _compare(option: ShardingOption, space: _native.OptionSpace, index: int) -> None:
        runs = _expand(space.runs(index))
        blocks = space.describe(index)[4]
        shards = option.shards
        ours = list(runs) * blocks
        if len(ours) != len(shards):
            raise Unknown(f"{option.fqn}: {len(ours)} shards, TorchRec has {len(shards)}")
        known: dict[tuple[int, int], tuple[int, int, int, float]] = {}
        for shard, cost in zip(shards, ours):
            key = (id(shard.storage), id(shard.perf))
            theirs = known.get(key)
            if theirs is None:
                theirs = known[key] = (*cost_of(shard)[0], shard.perf.total)
            if theirs[:3] != cost[:3] or abs(theirs[3] - cost[3]) > 1e-9 * abs(theirs[3]):
                raise Unknown(f"{option.fqn}: {cost}, TorchRec has {theirs}")

    def __deepcopy__(self, memo: dict[int, Any]) -> NativeEnumerator:
        twin = copy.copy(self)  # the module that was enumerated is large and stays shared
        for name in ("_topology", "_reservation", "_shared", "_constraints", "_estimators"):
            setattr(twin, name, copy.deepcopy(getattr(self, name), memo))
        return twin


def _expand(runs: Sequence[tuple[int, int, int, int, float]]) -> Iterator[tuple[int, int, int, float]]:
    for count, hbm, ddr, ssd, total in runs:
        for _ in range(count):
            yield hbm, ddr, ssd, total
