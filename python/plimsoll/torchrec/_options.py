"""TorchRec's sharding options as a native space."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from torchrec.distributed.planner.partitioners import GreedyPerfPartitioner
from torchrec.distributed.planner.types import Shard, ShardingOption, Topology

from plimsoll import _native
from plimsoll.options import UNIFORM, Cost, Shape, runs_of


def group_size(topology: Topology) -> int:
    """Ranks of a fast domain: a host's, or a pod's from release 1.8 on."""
    return getattr(topology, "intra_group_size", topology.local_world_size)


def room_of(topology: Topology) -> npt.NDArray[np.int64]:
    """[world_size, 3] bytes of every rank: hbm, ddr, ssd."""
    storages = [device.storage for device in topology.devices]
    return np.array([(s.hbm, s.ddr, getattr(s, "ssd", 0)) for s in storages], dtype=np.int64)


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


def place(option: ShardingOption, ranks: Sequence[int]) -> ShardingOption:
    """The option with its shards on these ranks; a uniform one has a shard on every rank."""
    if option.sharding_type in UNIFORM:
        ranks = range(len(option.shards))
    for shard, rank in zip(option.shards, ranks):
        shard.rank = int(rank)
    return option
