"""TorchRec's sharding options as a native space."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from torch import nn
from torchrec.distributed.embedding_types import EmbeddingComputeKernel
from torchrec.distributed.planner.enumerators import EmbeddingEnumerator
from torchrec.distributed.planner.partitioners import GreedyPerfPartitioner
from torchrec.distributed.planner.types import (
    ParameterConstraints,
    Shard,
    ShardingOption,
    StorageReservation,
    Topology,
)
from torchrec.distributed.types import ModuleSharder

from plimsoll import _native
from plimsoll.options import UNIFORM, Cost, Shape, runs_of


def group_size(topology: Topology) -> int:
    """Ranks of a fast domain: a host's, or a pod's from release 1.8 on."""
    return getattr(topology, "intra_group_size", topology.local_world_size)


def device_tier(topology: Topology) -> str:
    """The tier of a device's own memory; up to release 1.2 that of an mtia is the host's."""
    if topology.compute_device == "mtia":
        return "hbm" if hasattr(topology, "comms_bandwidths") else "ddr"  # both are of release 1.3
    return "ddr" if topology.compute_device == "cpu" else "hbm"


def room_of(topology: Topology) -> npt.NDArray[np.int64]:
    """[world_size, 3] bytes of every rank: hbm, ddr, ssd."""
    storages = [device.storage for device in topology.devices]
    return np.array([(s.hbm, s.ddr, getattr(s, "ssd", 0)) for s in storages], dtype=np.int64)


def room_after(
    reservation: StorageReservation,
    topology: Topology,
    batch_size: int,
    module: nn.Module,
    sharders: Sequence[ModuleSharder[nn.Module]],
    constraints: Mapping[str, ParameterConstraints] | None,
) -> Topology:
    """What the reservation leaves of the topology; asks it once more only where it has not kept that."""
    room = getattr(reservation, "last_reserved_topology", None)
    if callable(room):  # InferenceStorageReservation's is a method up to release 1.4
        room = room()
    if room is not None:
        return room
    return copy.deepcopy(reservation).reserve(
        topology=topology, batch_size=batch_size, module=module, sharders=list(sharders), constraints=constraints
    )


def group_of(option: ShardingOption) -> str:
    """Names the tower whose tables stand on one host with it; empty for a table without one."""
    if option.dependency is None:
        return ""
    return option.dependency or "."  # a tower that is the whole model has no path


def cost_of(shard: Shard) -> Cost:
    """Bytes by tier and milliseconds by component, whose sum is what TorchRec says it is."""
    storage, perf = shard.storage, shard.perf
    parts = (perf.fwd_compute, perf.fwd_comms, perf.bwd_compute, perf.bwd_comms, perf.prefetch_compute)
    total = perf.total
    if abs(sum(parts) - total) > 1e-9 * abs(total):  # another Perf than TorchRec's
        parts = (total, 0.0, 0.0, 0.0, 0.0)
    return (storage.hbm, storage.ddr, getattr(storage, "ssd", 0)), (*map(float, parts), 0.0)


class Space:
    """A native space that grows by options; knows its options by identity.

    `by_storage`: bytes of hbm stand for milliseconds, as TorchRec's NoopStorageModel has it.
    """

    def __init__(self, topology: Topology, model: str = "", by_storage: bool = False) -> None:
        self.native = _native.make_space(
            topology.world_size,
            topology.local_world_size,
            group_size(topology),
            topology.compute_device,
            model,
            hasattr(GreedyPerfPartitioner, "_column_wise_device_partition"),  # release 1.5 on
            hasattr(EmbeddingEnumerator, "_get_num_buckets"),  # release 1.5 on
        )
        self.options: list[ShardingOption] = []
        self._tables: dict[str, int] = {}
        self._index: dict[int, int] = {}
        self._by_storage = by_storage

    @property
    def fqns(self) -> list[str]:
        """Of the tables, in the order they came."""
        return list(self._tables)

    def add_all(self, options: Sequence[ShardingOption]) -> None:
        """Adds options, those of one table together, tables in order of their first."""
        by_fqn: dict[str, list[ShardingOption]] = {}
        for option in options:
            by_fqn.setdefault(option.fqn, []).append(option)
        for group in by_fqn.values():
            for option in group:
                self.index(option)

    def index(self, option: ShardingOption) -> int:
        """Of the option, which is added where it is new."""
        found = self._index.get(id(option))
        if found is None:
            found = self._index[id(option)] = self._add(option)
            self.options.append(option)  # keeps the identity from being given to another
        return found

    def _costs(self, shards: Sequence[Shard]) -> list[Cost]:
        known: dict[tuple[int, int], Cost] = {}
        costs = []
        for shard in shards:
            key = (id(shard.storage), id(shard.perf))
            cost = known.get(key)
            if cost is None:
                cost = known[key] = cost_of(shard)
                if self._by_storage:
                    cost = known[key] = (cost[0], (float(cost[0][0]), 0.0, 0.0, 0.0, 0.0, 0.0))
            costs.append(cost)
        return costs

    def _add(self, option: ShardingOption) -> int:
        shards = option.shards
        shapes: list[Shape] = [(s.size[0], s.size[1], s.offset[0], s.offset[1]) for s in shards]
        blocks, runs, perfs = runs_of(option.sharding_type, shapes, self._costs(shards))
        table = self._tables.get(option.fqn)
        if table is None:
            rows, columns = option.tensor.shape
            table = self._tables[option.fqn] = self.native.add_table(
                option.fqn, option.name, option.path, group_of(option), rows, columns, option.is_pooled
            )
        return self.native.add_option(table, option.sharding_type, option.compute_kernel, blocks, runs, perfs)


# Where a sharder names a set, which has no order: those of EmbeddingBagCollectionSharder.
_TYPES = (
    "data_parallel",
    "table_wise",
    "column_wise",
    "table_column_wise",
    "row_wise",
    "table_row_wise",
    "grid_shard",
)
_KERNELS = tuple(kernel.value for kernel in EmbeddingComputeKernel)
_DEVICES = ("cuda", "cpu")  # a sharder's lists for them agree in order


def _declared(lists: Sequence[Sequence[str]], otherwise: tuple[str, ...]) -> list[str]:
    has_order = all(isinstance(names, (list, tuple)) for names in lists)
    return list(dict.fromkeys([*(name for names in lists if has_order for name in names), *otherwise]))


def in_declared_order(
    options: Sequence[ShardingOption], sharders: Sequence[ModuleSharder[nn.Module]]
) -> list[ShardingOption]:
    """Each table's options in the order of its sharder's types and kernels, as native ones are.

    TorchRec intersects sets of names up to release 1.8, so that its own order changes with PYTHONHASHSEED.
    """
    sharder_of = {sharder.module_type: sharder for sharder in sharders}
    types_of: dict[type, list[str]] = {}
    kernels_of: dict[tuple[type, str], list[str]] = {}
    table_of: dict[str, int] = {}

    def key(option: ShardingOption) -> tuple[int, int, int, int, float]:
        kind, sharding_type = type(option.module[1]), option.sharding_type
        sharder = sharder_of.get(kind)
        if kind not in types_of:
            lists = [sharder.sharding_types(device) for device in _DEVICES] if sharder else []
            types_of[kind] = _declared(lists, _TYPES)
        if (kind, sharding_type) not in kernels_of:
            lists = [sharder.compute_kernels(sharding_type, device) for device in _DEVICES] if sharder else []
            kernels_of[kind, sharding_type] = _declared(lists, _KERNELS)
        types, kernels = types_of[kind], kernels_of[kind, sharding_type]
        return (
            table_of.setdefault(option.fqn, len(table_of)),
            types.index(sharding_type) if sharding_type in types else len(types),
            kernels.index(option.compute_kernel) if option.compute_kernel in kernels else len(kernels),
            len(option.shards),
            option.cache_load_factor or 0.0,
        )

    return sorted(options, key=key)


def place(option: ShardingOption, ranks: Sequence[int]) -> ShardingOption:
    """The option with its shards on these ranks; a uniform one has a shard on every rank."""
    if option.sharding_type in UNIFORM:
        ranks = range(len(option.shards))
    for shard, rank in zip(option.shards, ranks):
        shard.rank = int(rank)
    return option
