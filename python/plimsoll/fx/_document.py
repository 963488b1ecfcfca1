"""A module and its configuration as a document (plimsoll.fx_graph/1), which the native planner reads."""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Mapping
from typing import Any, Union

import torch
from torch.fx.experimental.partitioner_utils import PartitionerConfig
from torch.fx.graph_module import GraphModule
from torch.fx.node import Node
from torch.fx.passes.shape_prop import ShapeProp

from plimsoll._errors import Error
from plimsoll.fx._config import CERTIFIED, mode_name
from plimsoll.fx._helpers import SOURCES
from plimsoll.fx._sizes import get_size_of_all_nodes, has_value, size_every_value

Traced = Union[GraphModule, "torch.export.ExportedProgram"]


def graph_module_of(module: Traced, mode: str) -> GraphModule:
    """The graph that is partitioned: of an exported program the module that runs it, with its weights.

    Raises:
        Error: Neither, or an exported program in one of torch's modes.
    """
    if isinstance(module, GraphModule):
        return module
    if not isinstance(module, torch.export.ExportedProgram):
        kind = type(module).__name__
        raise Error("value", "fx_module", f"a {kind} has no graph", "give torch.fx.symbolic_trace(module)")
    if mode != CERTIFIED:
        raise Error(
            "value", "fx_module", f"mode {mode} takes no torch.export program", "give PartitionMode.certified instead"
        )
    unlift = module.module
    quiet = {"check_guards": False} if "check_guards" in inspect.signature(unlift).parameters else {}
    return unlift(**quiet)


class _Embeddings:
    """Which called modules speak of an embedding, by torch's rule: the printed text of any module on their path.

    A container prints its children, so what stands beside an embedding counts as one.
    """

    def __init__(self, module: GraphModule) -> None:
        self._module = module
        self._speaks: dict[str, bool] = {}

    def has(self, target: str) -> bool:
        """Is the module at this path an embedding?"""
        part: Any = self._module
        path = ""
        for atom in target.split("."):
            if not hasattr(part, atom):
                raise RuntimeError(f"Module {part} has no attribute {atom}")  # torch's words
            part = getattr(part, atom)
            path = f"{path}.{atom}"
            if path not in self._speaks:
                self._speaks[path] = "Embedding" in str(part)
            if self._speaks[path]:
                return True
        return False


def _whole(value: Any, place: str, what: str) -> int:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    try:
        return operator.index(value)
    except TypeError:
        raise Error("value", place, f"{value!r} is not a whole number", f"give {what}") from None


def _real(value: Any, place: str, what: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or number < 0:
        raise Error("value", place, f"{value!r} is not a number of at least 0", f"give {what}")
    return number


def _latencies(module: GraphModule, mapping: Mapping[Any, Any], mode: str) -> dict[str, list[float]]:
    """By name, of the graph's nodes.

    For our own search keys may be names, or nodes of an exported program, whose module has others of the same names;
    an operator without a value, such as an assertion that torch.export left, takes no time unless it is said.
    """
    by_name = {getattr(key, "name", key): latency for key, latency in mapping.items()} if mode == CERTIFIED else {}
    latencies = {}
    for node in module.graph.nodes:
        latency = mapping.get(node, by_name.get(node.name))
        if latency is not None:
            place = f"node_to_latency_mapping[{node.name}]"
            latencies[node.name] = [
                _real(latency.mem_latency_sec, place, "seconds"),
                _real(latency.computer_latency_sec, place, "seconds"),
            ]
        elif mode == CERTIFIED and node.op.startswith("call") and not node.users and not has_value(node):
            latencies[node.name] = [0.0, 0.0]
    return latencies


def _aot(module: GraphModule, config: Any) -> dict[str, Any]:
    names = {}
    nodes = set(module.graph.nodes)
    for node, partition in config.node_to_partition_mapping.items():
        if node not in nodes:
            raise Error(
                "value", "node_to_partition_mapping", f"{node} is not a node of the module", "give nodes of its graph"
            )
        names[node.name] = _whole(partition, f"node_to_partition_mapping[{node.name}]", "a partition's number")
    devices = {}
    for partition, ids in config.partition_to_logical_device_mapping.items():
        place = f"partition_to_logical_device_mapping[{partition}]"
        devices[str(_whole(partition, place, "a partition's number"))] = [
            _whole(i, place, "logical ids of devices") for i in ids
        ]
    return {"node_to_partition": names, "partition_to_devices": devices}


def _target(node: Node, mode: str) -> str:
    target = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
    if mode == CERTIFIED and node.op in SOURCES and target.startswith("submod_"):
        return f"attribute_{target}"  # the calls that the split leaves have such names
    return target


def describe(module: GraphModule, config: Any, mode: str, only_needed: bool) -> dict[str, Any]:
    """The document of a graph whose nodes have sizes; `only_needed`: without what the mode does not read."""
    embeddings = _Embeddings(module)
    flags_embeddings = mode == "sparse_nn" or not only_needed
    nodes = []
    is_sized = True  # nothing behind the output has a size
    for node in module.graph.nodes:
        entry = {"name": node.name, "op": node.op, "target": _target(node, mode)}
        entry["args"] = [source.name for source in node.all_input_nodes]
        is_sized = is_sized and node.op != "output"
        if is_sized:
            entry["output_size"] = int(node.size_bytes.output_size)
            entry["total_size"] = int(node.size_bytes.total_size)
        if flags_embeddings and node.op == "call_module" and embeddings.has(str(node.target)):
            entry["embedding"] = True
        nodes.append(entry)
    devices = [
        {
            "name": str(device.name),
            "mem": _whole(device.available_mem_bytes, f"devices[{i}].available_mem_bytes", "bytes"),
            "id": _whole(device.logical_id, f"devices[{i}].logical_id", "a whole number"),
        }
        for i, device in enumerate(config.devices)
    ]
    document: dict[str, Any] = {"schema": "plimsoll.fx_graph/1", "nodes": nodes, "devices": devices}
    if mode != CERTIFIED:
        document["mode"] = mode
        document["saturate_host"] = bool(config.saturate_host)
    if mode in ("cost_aware", "kl_based", CERTIFIED) or not only_needed:
        rate = config.transfer_rate_bytes_per_sec
        document["transfer_rate"] = _real(rate, "transfer_rate_bytes_per_sec", "bytes per second")
        document["latency"] = _latencies(module, config.node_to_latency_mapping, mode)
    if mode == "aot_based" or not only_needed:
        document.update(_aot(module, config))
    return {key: value for key, value in document.items() if value != {}}


def set_sizes(module: GraphModule, mode: str) -> None:
    """`size_bytes` of every node, by torch's rule; for our own search of several values, too."""
    if mode == CERTIFIED:
        size_every_value(module)
    else:
        get_size_of_all_nodes(module)


def to_document(
    graph_module: Traced,
    config: PartitionerConfig,
    args: list[torch.Tensor] | None = None,
) -> dict[str, Any]:
    """The graph, the devices and the mode as `plimsoll.fx_graph/1`, which `plimsoll partition` reads.

    Sizes and embedding flags are read off the module, all else off the configuration.

    Args:
        graph_module: A traced module whose nodes have tensor metadata, or with `certified` a torch.export program.
        config: torch's PartitionerConfig or ours.
        args: A sample input: shapes are propagated first.

    Raises:
        RuntimeError: A node without tensor metadata.
        Error: A configuration that no document can hold.
    """
    mode = mode_name(config.mode)
    module = graph_module_of(graph_module, mode)
    if args is not None:
        ShapeProp(module).propagate(*args)
    set_sizes(module, mode)
    return describe(module, config, mode, only_needed=False)
