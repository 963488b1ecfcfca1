"""torch's Partitioner, planned natively."""

from __future__ import annotations

import builtins
import operator
from typing import Any, NoReturn

import torch
from torch.fx.experimental import accelerator_partitioner, partitioner_utils
from torch.fx.experimental.accelerator_partitioner import PartitionResult
from torch.fx.experimental.partitioner_utils import Partition
from torch.fx.graph_module import GraphModule
from torch.fx.node import Node
from torch.fx.passes.split_module import split_module

from plimsoll._answer import Certificate
from plimsoll._command import Progress, call
from plimsoll._errors import Error
from plimsoll.fx._config import CERTIFIED, mode_name
from plimsoll.fx._document import Traced, describe, graph_module_of, set_sizes
from plimsoll.fx._helpers import SOURCES, get_bfs_level_partition, set_parents_and_children
from plimsoll.plans import Placement

# What torch's modes leave: links between partitions, and levels where they merged any.
_LINKED = frozenset({"size_based", "sparse_nn", "cost_aware", "kl_based", CERTIFIED})
_LEVELLED = frozenset({"sparse_nn", "cost_aware", CERTIFIED})


class Partitioner(accelerator_partitioner.Partitioner):
    """torch's Partitioner; the five modes, and ours, are planned by the native engine.

    Partitions, devices, DAG, submodules and errors are those of torch, at any size: cost_aware takes time that grows
    with the graph, not with the number of its paths. Each call of `partition_graph` starts from nothing.

    Attributes:
        partitions: torch's Partition objects, after `partition_graph`.
        node_to_partition: What the graph is split by.
        placement: The engine's answer, as `plimsoll.partition` gives it.
        document: What the engine was given (plimsoll.fx_graph/1).
    """

    def __init__(
        self,
        *,
        time_limit: str | float | None = None,
        effort: int | None = None,
        tolerance: float | None = None,
        seed: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        """The arguments are of `PartitionMode.certified` alone.

        Args:
            time_limit: "500ms", "5s", "2m", or seconds.
            effort: Starts, devices and moves tried; by default 400,000, less for large graphs.
            tolerance: The gap that counts as optimal; by default 1e-6.
            seed: Of the annealing.
            progress: Called with (effort, ms or None, bound or None).
        """
        super().__init__()
        self.placement: Placement | None = None
        self.document: dict[str, Any] = {}
        self._limits: dict[str, object] = {
            "time_limit": f"{time_limit:g}s" if isinstance(time_limit, (int, float)) else time_limit,
            "effort": effort,
            "tolerance": tolerance,
            "seed": seed,
        }
        self._progress = progress

    @property
    def certificate(self) -> Certificate:
        """Objective (the critical path), lower bound and gap, in ms; without a bound in torch's modes."""
        return self._answer().certificate

    @property
    def status(self) -> str:
        """ "optimal" or "feasible"."""
        return self._answer().status

    def _answer(self) -> Placement:
        if self.placement is None:
            raise Error("value", "Partitioner", "nothing is planned yet", "call partition_graph first")
        return self.placement

    def partition_graph(
        self,
        fx_module: Traced,
        torch_module: torch.nn.Module | None,
        partitioner_config: partitioner_utils.PartitionerConfig,
    ) -> PartitionResult:
        """Partitions a traced module over devices.

        Args:
            fx_module: A GraphModule whose nodes have tensor metadata (`get_size_of_all_nodes` with a sample input notes
                it); in mode certified also a torch.export program.
            torch_module: The module that was traced; not looked at.
            partitioner_config: torch's, or ours.

        Returns:
            The DAG of partitions, and the module with a submodule for each of them.

        Raises:
            RuntimeError, KeyError, IndexError, TypeError, ZeroDivisionError, AssertionError: As torch does, in its
                words; in mode certified a RuntimeError where no plan was found.
            Error: What the engine cannot work with, such as a latency below 0.
        """
        config = partitioner_config
        mode = mode_name(config.mode)
        if mode == CERTIFIED and config.saturate_host:
            raise Error(
                "value", "saturate_host", "mode certified makes no copies", "leave it out, or use torch's modes"
            )
        self.graph_module: GraphModule = graph_module_of(fx_module, mode)
        self._is_certified, self._is_exported = mode == CERTIFIED, self.graph_module is not fx_module
        self.torch_module = torch_module  # type: ignore[assignment]
        self.devices = config.devices
        self.partitions, self.node_to_partition, self.placement = [], {}, None
        if not self.devices:
            raise RuntimeError("No devices")
        set_sizes(self.graph_module, mode)
        self.document = describe(self.graph_module, config, mode, only_needed=True)
        self.placement = self._plan(config, mode)
        self._take_partitions(config, mode)
        if config.saturate_host:
            for partition in self.partitions:
                print(partition.logical_device_ids)  # as torch does
        module = self.do_partition()
        return PartitionResult(self.dump_dag(module), module)

    def _plan(self, config: partitioner_utils.PartitionerConfig, mode: str) -> Placement:
        if mode == CERTIFIED:
            flags: dict[str, object] = {"objective": "fx", "search": "critical_path", **self._limits}
        else:
            flags = {"search": "torch"}
        try:
            placement = Placement(call("partition", {"graph": self.document}, flags, self._progress))
        except Error as error:
            if error.code == "zero_division":
                _ = 1 / config.transfer_rate_bytes_per_sec  # raises, in the words of its type
            if not error.kind:
                raise
            self._raise(error.kind, error.message, error.place, error)
        if "stages" in placement.document:
            return placement
        failure = placement.failure
        why = "; ".join(placement.explanation) or placement.status
        text = failure.get("message") or f"no plan was found: {why}"
        self._raise(failure.get("kind") or "RuntimeError", text, failure.get("place", ""), None)

    def _raise(self, kind: str, text: str, place: str, cause: Error | None) -> NoReturn:
        """Raises what torch raises: with the node itself where it is a key or an operand."""
        node = self._nodes().get(place)
        if kind == "TypeError" and node is not None:
            operator.add(node.target, " is too large to fit into a device")  # raises, in the words of its type
        if kind == "KeyError":
            raise KeyError(int(text) if node is None else node) from cause
        raise getattr(builtins, kind)(text) from cause

    def _nodes(self) -> dict[str, Node]:
        return {node.name: node for node in self.graph_module.graph.nodes}

    def _take_partitions(self, config: partitioner_utils.PartitionerConfig, mode: str) -> None:
        """torch's objects, from the engine's answer."""
        nodes = self._nodes()
        answer = self._answer()
        for stage in answer.stages:
            partition = Partition(stage["id"])
            partition.nodes = {nodes[name] for name in stage["nodes"]}
            partition.used_mem_bytes = stage["memory_bytes"]
            partition.logical_device_ids = list(stage.get("logical_device_ids", stage["devices"]))
            self.partitions.append(partition)
        self.node_to_partition = {nodes[name]: id for name, id in answer.node_to_partition.items()}
        if mode == "aot_based":
            self.node_to_partition = config.node_to_partition_mapping
            self._take_callers_lists(config)
        elif mode == "sparse_nn":
            self._share_lists()
        total = sum(entry.get("total_size", 0) for entry in self.document["nodes"])
        fits_one = mode != CERTIFIED and total <= max(device["mem"] for device in self.document["devices"])
        if mode in _LINKED:
            set_parents_and_children(self.partitions)
        if mode in _LEVELLED and not fits_one:
            get_bfs_level_partition(self.partitions)

    def _take_callers_lists(self, config: partitioner_utils.PartitionerConfig) -> None:
        """aot_based: partitions hold the caller's own lists, and copies are appended to these."""
        lists = config.partition_to_logical_device_mapping
        sharing: dict[int, list[Partition]] = {}
        for partition in self.partitions:
            sharing.setdefault(id(lists[partition.partition_id]), []).append(partition)
        for partitions in sharing.values():
            ids = lists[partitions[0].partition_id]
            copies = partitions[0].logical_device_ids[len(ids) :]
            ids.extend(copy for copy in copies for _ in partitions)  # a list is told of a copy by each that holds it
            for partition in partitions:
                partition.logical_device_ids = ids

    def _share_lists(self) -> None:
        """sparse_nn: partitions without embeddings hold one list."""
        embeddings = {entry["name"] for entry in self.document["nodes"] if entry.get("embedding")}
        shared: list[int] | None = None
        for partition in self.partitions:
            if any(node.name in embeddings for node in partition.nodes):
                continue
            if shared is None:
                shared = partition.logical_device_ids
            elif shared == partition.logical_device_ids:
                partition.logical_device_ids = shared

    def do_partition(self) -> GraphModule:
        """The module with a submodule for each partition, by torch's `split_module`."""
        if not self._is_certified:
            return super().do_partition()
        graph = self.graph_module.graph
        sources = {node.target for node in graph.nodes if node.op in SOURCES}
        is_taken = any(f"submod_{partition.partition_id}" in sources for partition in self.partitions)
        module = split_module(
            self.graph_module,
            self.torch_module,
            lambda node: self.node_to_partition[node],
            partition_affix="partition" if is_taken else None,  # torch.export calls the bodies of regions submod_K
        )
        if self._is_exported:  # arguments and results in the program's own form
            module.graph.set_codegen(graph._codegen)
            module.recompile()
        return module
