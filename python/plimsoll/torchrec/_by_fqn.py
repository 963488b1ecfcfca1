"""TorchRec's enumerator with constraints by fqn, as TorchEasyRec has them."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from torch import nn
from torchrec.distributed.planner.types import ParameterConstraints, ShardingOption, Topology
from torchrec.distributed.types import ModuleSharder

from plimsoll.torchrec._constraints import with_current_kernels
from plimsoll.torchrec._enumerator import Enumerator
from plimsoll.torchrec._model import sharded_modules

Sharder = ModuleSharder[nn.Module]


@dataclass
class _Pass:
    """Tables that TorchRec's enumerator, which knows constraints by name, enumerates at once."""

    by_name: dict[str, ParameterConstraints | None] = field(default_factory=dict)
    tables: set[tuple[int, str]] = field(default_factory=set)  # id of the module, name

    def takes(self, name: str, constraint: ParameterConstraints | None) -> bool:
        return self.by_name.get(name, constraint) is constraint


def _partly(sharder: Sharder, tables: Collection[tuple[int, str]]) -> Sharder:
    """A sharder like this one that shards some tables alone."""
    partly = copy.copy(sharder)  # of the same class, which TorchRec asks for

    def shardable_parameters(module: nn.Module) -> dict[str, nn.Parameter]:
        found = sharder.shardable_parameters(module)
        return {name: tensor for name, tensor in found.items() if (id(module), name) in tables}

    partly.shardable_parameters = shardable_parameters  # type: ignore[method-assign]
    return partly


class EnumeratorByFqn(Enumerator):
    """Constraints of a table are those of its fqn, else those for all tables.

    The estimators see neither, as TorchEasyRec's do not: what they read of constraints (`num_poolings`, `batch_sizes`,
    `is_weighted`, `use_virtual_table`) has no effect here.
    """

    def __init__(
        self,
        topology: Topology,
        batch_size: int,
        fqn_constraints: Mapping[str, ParameterConstraints],
        global_constraints: ParameterConstraints | None = None,
    ) -> None:
        super().__init__(topology, batch_size)
        self._by_fqn = with_current_kernels(fqn_constraints)
        for_all = {} if global_constraints is None else with_current_kernels({"": global_constraints})
        self._for_all = for_all.get("")

    def enumerate(self, module: nn.Module, sharders: list[Sharder]) -> list[ShardingOption]:
        """All options, in TorchRec's order; several passes where constraints of tables of one name differ."""
        passes: list[_Pass] = []
        position: dict[str, int] = {}
        for path, child, sharder in reversed(list(sharded_modules(module, sharders))):  # TorchRec's order
            for name in sharder.shardable_parameters(child):
                fqn = f"{path}.{name}"
                position[fqn] = len(position)
                constraint = self._by_fqn.get(fqn, self._for_all)
                one = next((one for one in passes if one.takes(name, constraint)), None)
                if one is None:
                    one = _Pass()
                    passes.append(one)
                one.by_name[name] = constraint
                one.tables.add((id(child), name))
        options: list[ShardingOption] = []
        for one in passes:
            self._constraints = {name: given for name, given in one.by_name.items() if given is not None}
            self._last_stored_module = None  # the options of another pass are not these
            partly = sharders if len(passes) == 1 else [_partly(sharder, one.tables) for sharder in sharders]
            options += super().enumerate(module, partly)
        options.sort(key=lambda option: position[option.fqn])
        self._constraints = None
        if len(passes) > 1:
            self._last_stored_search_space = copy.deepcopy(options)  # TorchRec's has those of the last pass
        return options
