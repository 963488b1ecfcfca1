"""What a partitioner is asked, and what it answers: torch's own classes, with one mode more."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Union

from torch.fx.experimental import partitioner_utils
from torch.fx.experimental.partitioner_utils import Device, NodeLatency
from torch.fx.node import Node

from plimsoll._errors import Error

CERTIFIED = "certified"


class PartitionMode(Enum):
    """torch's modes, and `certified`: the least critical path that our own search finds, with a bound.

    The first five equal torch's members of the same name, so that either is understood by either partitioner.
    """

    size_based = 0
    sparse_nn = 1
    cost_aware = 2
    kl_based = 3
    aot_based = 4
    certified = 5

    def __eq__(self, other: object) -> bool:
        if isinstance(other, partitioner_utils.PartitionMode):
            return bool(other.name == self.name)
        return self is other

    __hash__ = Enum.__hash__  # of the name, as torch's


AnyMode = Union[PartitionMode, partitioner_utils.PartitionMode]


class PartitionerConfig(partitioner_utils.PartitionerConfig):
    """torch's PartitionerConfig, for the modes of both.

    Attributes:
        devices: In the order in which they are tried.
        mode: How the graph is cut.
        transfer_rate_bytes_per_sec: Between devices (cost_aware, kl_based, certified).
        node_to_latency_mapping: What each operator takes (cost_aware, kl_based, certified).
        node_to_partition_mapping: aot_based: the partition of each operator.
        partition_to_logical_device_mapping: aot_based: the devices of each partition.
        saturate_host: Copies of all partitions on devices that stay idle; not of certified.
    """

    __slots__ = ()

    def __new__(
        cls,
        devices: list[Device],
        mode: AnyMode = PartitionMode.size_based,
        transfer_rate_bytes_per_sec: float = 0.0,
        node_to_latency_mapping: Mapping[Node, NodeLatency] | None = None,
        node_to_partition_mapping: Mapping[Node, int] | None = None,
        partition_to_logical_device_mapping: Mapping[int, list[int]] | None = None,
        saturate_host: bool = False,
    ) -> PartitionerConfig:
        """As torch's; mappings that are left out are empty."""
        return super().__new__(
            cls,
            devices,
            mode,  # type: ignore[arg-type]
            transfer_rate_bytes_per_sec,
            {} if node_to_latency_mapping is None else node_to_latency_mapping,  # type: ignore[arg-type]
            {} if node_to_partition_mapping is None else node_to_partition_mapping,  # type: ignore[arg-type]
            {} if partition_to_logical_device_mapping is None else partition_to_logical_device_mapping,  # type: ignore[arg-type]
            saturate_host,
        )


def mode_name(mode: Any) -> str:
    """The name of torch's mode or ours.

    Raises:
        Error: Neither.
    """
    if isinstance(mode, (PartitionMode, partitioner_utils.PartitionMode)):
        return mode.name
    names = ", ".join(f"PartitionMode.{known.name}" for known in PartitionMode)
    raise Error("value", "mode", f"{mode!r} is not a PartitionMode", f"give one of {names}")
