"""The tree of a model's modules, as torch's `ilp_utils` makes it."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypedDict, cast

import numpy as np
import numpy.typing as npt

from plimsoll._records import GraphLike


class ModOrder(TypedDict):
    """Modules by name as their forwards and backwards begin and end."""

    fw_pre_order: list[str]
    bw_pre_order: list[str]
    fw_post_order: list[str]
    bw_post_order: list[str]


class ModRuntime(TypedDict):
    """What torch's runtime estimator records of one module, in milliseconds."""

    fw: float
    bw: float


class ModStats(TypedDict):
    """What torch's trackers record of one module; bytes and milliseconds."""

    fqn: str
    param_per_module: int
    grad_per_module: int
    grad_total: int
    act_fw_per_module: int
    act_bw_per_module: int
    act_grad_per_module: int
    act_total: int
    input_per_module: int
    output_per_module: int
    fw_runtime_per_module: float
    bw_runtime_per_module: float
    is_leaf: bool
    sac_runtime: float
    sac_memory: int
    n_segments: int
    slopes: list[float]
    intercepts: list[float]
    breakpoints: list[float]
    tradeoff_curve: OrderedDict[float, float]


class ModuleInfo(TypedDict):
    """What `aggregate_stats` returns."""

    mod_order: ModOrder
    mod_stats: list[ModStats]


class Node(ModStats):
    """A module in a `Graph`."""

    index: int  # place in mod_stats
    pos_fw_post_order: int


class Graph:
    """The modules of a model as a tree.

    Attributes:
        nodes: In the order of `mod_stats`; the first is the root.
        name2node: By name.
        ad_matrix: [i, j] is 1 where j is i or below it.
        fw_post_order: Names as their forwards end.
    """

    def __init__(self, n: int) -> None:
        self.nodes: list[Node] = []
        self.name2node: dict[str, Node] = {}
        self.ad_matrix: npt.NDArray[np.float64] = np.zeros((n, n))
        self.fw_post_order: list[str] = []

    def add_node(self, node: Node) -> None:
        """Appends a module."""
        self.nodes.append(node)
        self.name2node[node["fqn"]] = node


def parse_module_info(module_info: ModuleInfo) -> Graph:
    """The tree of the modules.

    As torch's function it writes `index` and `pos_fw_post_order` into the records, which become the graph's nodes, and
    sorts the list in `module_info` by the order of the forwards.

    Raises:
        AssertionError: A module ran twice, or one that ran has no record.
    """
    mod_stats = module_info["mod_stats"]
    fw_pre_order = module_info["mod_order"]["fw_pre_order"]
    if len(mod_stats) != len(fw_pre_order):
        raise AssertionError(
            f"{len(mod_stats)} modules in mod_stats, {len(fw_pre_order)} entries in fw_pre_order: "
            "a module ran twice, or one that ran has no record"
        )
    graph = Graph(len(mod_stats))
    graph.fw_post_order = module_info["mod_order"]["fw_post_order"]
    module_info["mod_stats"] = sorted(mod_stats, key=lambda stats: fw_pre_order.index(stats["fqn"]))
    for index, stats in enumerate(mod_stats):
        node = cast(Node, stats)
        node["index"] = index
        node["pos_fw_post_order"] = graph.fw_post_order.index(node["fqn"])
        graph.add_node(node)
    for i, above in enumerate(graph.nodes):
        for j in range(i, len(graph.nodes)):
            if not is_self_or_submodule(graph.nodes[j]["fqn"], above["fqn"]):
                break  # a subtree is an unbroken run
            graph.ad_matrix[i][j] = 1
    return graph


def is_self_or_submodule(name_descendant: str, name_ancestor: str) -> bool:
    """Is the one module below the other, or the same? By torch's test: anywhere in the name."""
    return name_descendant == name_ancestor or name_ancestor + "." in name_descendant


def is_submodule(name_descendant: str, name_ancestor: str) -> bool:
    """Is the one module below the other? As above."""
    return name_ancestor + "." in name_descendant


def display_bytes(b: int, unit: str = "MiB") -> str:
    """A size in KiB, MiB, GiB, or in bytes where the unit is another."""
    sizes = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
    return f"{b / sizes[unit]:.2f} {unit}" if unit in sizes else f"{b:.2f} bytes"


def get_peak_memory_runtime_baseline(graph: GraphLike) -> tuple[int, float]:
    """Peak bytes and milliseconds of a step without checkpointing, on one rank.

    Parameters, gradients, activations and their gradients count, optimizer state does not.
    """
    root = graph.nodes[0]
    peaks = (
        root["param_per_module"] + node["grad_total"] + node["act_grad_per_module"] + node["act_total"]
        for node in graph.nodes
    )
    return max(0, *peaks), root["fw_runtime_per_module"] + root["bw_runtime_per_module"]
