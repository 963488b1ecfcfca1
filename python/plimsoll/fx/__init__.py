"""torch.fx's accelerator partitioner, planned natively: one import changed in a program written for it.

    >>> from plimsoll.fx import Device, Partitioner, PartitionerConfig, PartitionMode
    >>> partitioner = Partitioner()
    >>> dag, module = partitioner.partition_graph(traced, model, PartitionerConfig(devices, PartitionMode.size_based))

Everything that programs import from `torch.fx.experimental.accelerator_partitioner`,
`torch.fx.experimental.partitioner_utils` and `torch.fx.passes.graph_manipulation` has the same name here. Classes of
data are torch's own, so that both may be mixed. `PartitionMode.certified` finds the least critical path of torch's cost
model, with a bound, also of torch.export programs; `to_document` writes what `plimsoll partition` reads.
"""

from __future__ import annotations

from plimsoll._extras import need

need("torch", "torch")

from torch.fx.experimental.accelerator_partitioner import (  # noqa: E402
    DAG,
    DAGNode,
    PartitionResult,
    check_dependency,
    combine_two_partitions,
    get_device_partition_stats,
    get_device_to_partitions_mapping,
    get_logical_id_to_device,
    get_node_to_partition_mapping,
    reset_partition_device,
)
from torch.fx.experimental.partitioner_utils import (  # noqa: E402
    Device,
    NodeLatency,
    Partition,
    PartitionLatency,
    get_comm_latency_between,
    get_extra_size_of,
)
from torch.fx.passes.graph_manipulation import (  # noqa: E402
    get_size_of_node,
    get_tensor_meta,
    replace_target_nodes_with,
    size_bytes,
)

from plimsoll.fx._config import PartitionerConfig, PartitionMode  # noqa: E402
from plimsoll.fx._document import to_document  # noqa: E402
from plimsoll.fx._helpers import (  # noqa: E402
    get_bfs_level_partition,
    get_latency_of_one_partition,
    get_latency_of_partitioned_graph,
    get_partition_to_latency_mapping,
    reorganize_partitions,
    set_parents_and_children,
)
from plimsoll.fx._partitioner import Partitioner  # noqa: E402
from plimsoll.fx._sizes import get_size_of_all_nodes  # noqa: E402

__all__ = [
    "DAG",
    "DAGNode",
    "Device",
    "NodeLatency",
    "Partition",
    "PartitionLatency",
    "PartitionMode",
    "PartitionResult",
    "Partitioner",
    "PartitionerConfig",
    "check_dependency",
    "combine_two_partitions",
    "get_bfs_level_partition",
    "get_comm_latency_between",
    "get_device_partition_stats",
    "get_device_to_partitions_mapping",
    "get_extra_size_of",
    "get_latency_of_one_partition",
    "get_latency_of_partitioned_graph",
    "get_logical_id_to_device",
    "get_node_to_partition_mapping",
    "get_partition_to_latency_mapping",
    "get_size_of_all_nodes",
    "get_size_of_node",
    "get_tensor_meta",
    "reorganize_partitions",
    "replace_target_nodes_with",
    "reset_partition_device",
    "set_parents_and_children",
    "size_bytes",
    "to_document",
]
