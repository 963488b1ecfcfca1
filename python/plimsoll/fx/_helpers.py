"""torch's helpers on partitions, in time that grows with the graph and not with the number of its paths.

They take and give what torch's functions of the same names do, and the same numbers to the last bit: sums along a path
are taken in torch's order, and addition is monotone in floating point, so that of the paths to a node only the longest
counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from torch.fx.experimental.partitioner_utils import (
    NodeLatency,
    Partition,
    PartitionLatency,
    get_comm_latency_between,
)
from torch.fx.node import Node

SOURCES = frozenset({"placeholder", "get_attr"})
NO_LATENCY = PartitionLatency(mem_latency_sec=0.0, computer_latency_sec=0.0, overall_latency_sec=0.0)


def _longest(latencies: Iterable[PartitionLatency]) -> PartitionLatency:
    """The first of the longest; nothing where all are 0."""
    longest = NO_LATENCY
    for latency in latencies:
        if latency.overall_latency_sec > longest.overall_latency_sec:
            longest = latency
    return longest


def get_latency_of_one_partition(
    partition: Partition, node_to_latency_mapping: Mapping[Node, NodeLatency]
) -> PartitionLatency:
    """The critical path of a partition's operators.

    Raises:
        KeyError: An operator without latency.
    """
    ends: dict[Node, PartitionLatency] = {}  # the longest path that ends at a node
    for node in sorted(partition.nodes):
        if node.op in SOURCES:
            continue
        before = _longest(ends[i] for i in node.all_input_nodes if i in ends)
        latency = node_to_latency_mapping[node]
        ends[node] = PartitionLatency(
            before.mem_latency_sec + latency.mem_latency_sec,
            before.computer_latency_sec + latency.computer_latency_sec,
            before.overall_latency_sec + max(latency.computer_latency_sec, latency.mem_latency_sec),
        )
    return _longest(ends.values())


def get_partition_to_latency_mapping(
    partitions: Sequence[Partition], node_to_latency_mapping: Mapping[Node, NodeLatency]
) -> dict[Partition, PartitionLatency]:
    """The critical path of every partition."""
    return {p: get_latency_of_one_partition(p, node_to_latency_mapping) for p in partitions}


def _in_topological_order(roots: Sequence[Partition]) -> list[Partition]:
    """What the roots lead to.

    Raises:
        RecursionError: Partitions that wait for each other, as torch raises it.
    """
    waits: dict[Partition, int] = dict.fromkeys(roots, 0)  # parents that the roots lead to
    reached = list(roots)
    for partition in reached:
        for child in partition.children:
            if child not in waits:
                waits[child] = 0
                reached.append(child)
            waits[child] += 1
    order = [partition for partition in reached if waits[partition] == 0]
    for partition in order:
        for child in partition.children:
            waits[child] -= 1
            if waits[child] == 0:
                order.append(child)
    if len(order) < len(reached):
        raise RecursionError("maximum recursion depth exceeded")
    return order


def get_latency_of_partitioned_graph(
    partitions: Sequence[Partition],
    partition_to_latency_mapping: Mapping[Partition, PartitionLatency],
    transfer_rate_bytes_per_sec: float,
) -> float:
    """Seconds of the critical path through partitions and transfers; 0.0 where every partition has a parent.

    Raises:
        ZeroDivisionError: A transfer at a rate of 0.
        RecursionError: Partitions that wait for each other.
    """
    roots = [partition for partition in partitions if not partition.parents]
    before: dict[Partition, float] = dict.fromkeys(roots, 0.0)  # the longest path to it, without its own latency
    longest = 0.0
    for partition in _in_topological_order(roots):
        so_far = before[partition] + partition_to_latency_mapping[partition].overall_latency_sec
        longest = max(longest, so_far)
        for child in partition.children:
            arrival = so_far + get_comm_latency_between(partition, child, transfer_rate_bytes_per_sec)
            before[child] = max(before.get(child, 0.0), arrival)
    return longest


def set_parents_and_children(partitions: Sequence[Partition]) -> None:
    """Links partitions: a child reads a value of its parent that it does not hold itself."""
    owners: dict[Node, list[Partition]] = {}
    for partition in partitions:
        partition.parents, partition.children = set(), set()
        for node in partition.nodes:
            owners.setdefault(node, []).append(partition)
    for partition in partitions:
        for node in partition.nodes:
            for user in node.users:
                for reader in owners.get(user, ()):
                    if reader is not partition and node not in reader.nodes:
                        partition.children.add(reader)
                        reader.parents.add(partition)


def reorganize_partitions(partitions: Sequence[Partition]) -> None:
    """Numbers partitions by their places and links them."""
    for place, partition in enumerate(partitions):
        partition.partition_id = place
    set_parents_and_children(partitions)


def get_bfs_level_partition(partitions: Sequence[Partition]) -> None:
    """Sets `bfs_level`: the longest way from a partition without parents.

    Ways that lead in a circle, on which torch's function never ends, are followed for as many steps as there are
    partitions.
    """
    level = {partition for partition in partitions if not partition.parents}
    for depth in range(len(partitions)):
        for partition in level:
            partition.bfs_level = depth
        level = {child for partition in level for child in partition.children}
