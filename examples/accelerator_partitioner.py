"""What torch.fx's accelerator partitioner does, in every mode, planned natively.

Usage: python examples/accelerator_partitioner.py [--torch]

A module that fits on no device is cut into submodules, one for each partition: by size, with embeddings apart, by cost,
by swaps, by a mapping made before; then copies run on devices that stay idle. Each cut module is run and compared with
the module that was traced. With --torch the same program runs torch's own partitioner, by other imports, and prints the
same; without, the certified search comes last, also of a torch.export program.
"""

from __future__ import annotations

import contextlib
import io
import sys

import torch
from torch import nn
from torch.fx import GraphModule, symbolic_trace

if "--torch" in sys.argv[1:]:
    from torch.fx.experimental.accelerator_partitioner import Partitioner
    from torch.fx.experimental.partitioner_utils import (
        Device,
        NodeLatency,
        PartitionerConfig,
        PartitionMode,
        get_latency_of_partitioned_graph,
        get_partition_to_latency_mapping,
    )
    from torch.fx.passes.graph_manipulation import get_size_of_all_nodes
else:
    from plimsoll.fx import (  # the imports that change
        Device,
        NodeLatency,
        Partitioner,
        PartitionerConfig,
        PartitionMode,
        get_latency_of_partitioned_graph,
        get_partition_to_latency_mapping,
        get_size_of_all_nodes,
    )


class Network(nn.Module):
    """Dense layers, a branch, and a sum."""

    def __init__(self) -> None:
        super().__init__()
        self.bottom = nn.Sequential(nn.Linear(16, 16), nn.ReLU())
        self.left, self.right = nn.Linear(16, 16), nn.Linear(16, 16)
        self.top = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[batch, 16] to [batch, 4]."""
        x = self.bottom(x)
        return self.top(self.left(x) + self.right(x))


class SparseNetwork(nn.Module):
    """Embedding tables between dense layers."""

    def __init__(self) -> None:
        super().__init__()
        self.bottom = nn.Linear(16, 8)
        self.tables = nn.ModuleList(nn.EmbeddingBag(1000, 8, mode="sum") for _ in range(4))
        self.top = nn.Linear(40, 1)

    def forward(self, x: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        """Dense features and a bag of ids for each sample."""
        pooled = [table(ids) for table in self.tables]
        return self.top(torch.cat([self.bottom(x), *pooled], dim=1))


def trace(module: nn.Module, *inputs: torch.Tensor) -> GraphModule:
    """The module as a graph whose nodes know their bytes."""
    traced = symbolic_trace(module)
    get_size_of_all_nodes(traced, list(inputs))
    return traced


def devices(*memory: int) -> list[Device]:
    """Devices of so many bytes."""
    return [Device(f"dev_{i}", size, i) for i, size in enumerate(memory)]


def show(title: str, traced: GraphModule, inputs: tuple[torch.Tensor, ...], config: PartitionerConfig) -> Partitioner:
    """Partitions, prints the DAG, and compares outputs with those of the whole."""
    partitioner = Partitioner()
    with contextlib.redirect_stdout(io.StringIO()):  # saturate_host prints
        dag, module = partitioner.partition_graph(traced, traced, config)
    print(f"{title}: {len(dag.nodes)} submodules")
    for node in dag.nodes:
        reads = ", ".join(map(str, node.input_nodes))
        print(f"  {node}({reads}) on {node.logical_device_ids}, {node.size_bytes} bytes")
    assert torch.equal(module(*inputs), traced(*inputs))
    return partitioner


def main() -> None:
    """Every mode in turn."""
    torch.manual_seed(0)
    x = torch.rand(8, 16)
    network = Network()
    traced = trace(network, x)
    operators = [node for node in traced.graph.nodes if node.op.startswith("call")]
    latencies = {
        node: NodeLatency(4e-6, 9e-6) if node.op == "call_module" else NodeLatency(1e-6, 1e-6) for node in operators
    }
    rate = 1e8  # bytes a second
    costs = {"transfer_rate_bytes_per_sec": rate, "node_to_latency_mapping": latencies}
    unequal = devices(5000, 4000, 3000)

    show("single", traced, (x,), PartitionerConfig(devices(4000, 20000)))
    sized = show("size_based", traced, (x,), PartitionerConfig(devices(3000, 3000, 3000, 3000)))
    for mode in (PartitionMode.cost_aware, PartitionMode.kl_based):
        partitioner = show(mode.name, traced, (x,), PartitionerConfig(unequal, mode, **costs))
        times = get_partition_to_latency_mapping(partitioner.partitions, latencies)
        path = get_latency_of_partitioned_graph(partitioner.partitions, times, rate)
        print(f"  critical path {path * 1e6:.3f} us")

    ahead = {node: sized.node_to_partition[node] for node in operators}  # what another run found
    config = PartitionerConfig(
        devices(3000, 3000, 3000, 3000),
        PartitionMode.aot_based,
        node_to_partition_mapping=ahead,
        partition_to_logical_device_mapping={p.partition_id: [p.partition_id] for p in sized.partitions},
    )
    show("aot_based", traced, (x,), config)
    show("saturate_host", traced, (x,), PartitionerConfig(devices(*[3000] * 9), saturate_host=True))

    sparse = SparseNetwork()
    inputs = (x, torch.randint(1000, (8, 5)))
    tables = PartitionerConfig(devices(75000, 75000, 75000), PartitionMode.sparse_nn)
    show("sparse_nn", trace(sparse, *inputs), inputs, tables)

    try:
        Partitioner().partition_graph(traced, network, PartitionerConfig(devices(1000, 1000)))
    except RuntimeError as error:
        print(f"error: {error}")

    if "--torch" in sys.argv[1:]:
        return
    config = PartitionerConfig(unequal, PartitionMode.certified, **costs)
    partitioner = show("certified", traced, (x,), config)
    print(f"  critical path {partitioner.certificate.objective * 1e3:.3f} us, {partitioner.status}")
    program = torch.export.export(network, (x,))
    by_name = {
        node.name: NodeLatency(4e-6, 9e-6) if "linear" in node.name else NodeLatency(1e-6, 1e-6)
        for node in program.graph.nodes
        if node.op == "call_function"
    }
    config = PartitionerConfig(unequal, PartitionMode.certified, rate, by_name)
    dag, module = partitioner.partition_graph(program, network, config)
    assert torch.equal(module(x), network(x))
    print(
        f"exported: {len(dag.nodes)} submodules, {partitioner.certificate.objective * 1e3:.3f} us, {partitioner.status}"
    )


if __name__ == "__main__":
    main()
