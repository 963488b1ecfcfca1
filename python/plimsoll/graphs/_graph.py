"""The operators of a traced model, what each reads and costs: the document that `plimsoll partition` reads."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from plimsoll._errors import Error
from plimsoll._extras import need
from plimsoll._files import read_object, write_object

_FLAGS = {"is_parameter": 1, "is_buffer": 2, "is_view": 4, "is_backward": 8, "is_mutating": 32}
_TIED = 16
_ORIGIN = re.compile(r"([^.]+)(?:\.backward)?(?:\.\d+)?")
_FIELDS = ["name", "op", "target", "module", "inputs", "output_size", "flops", "bytes_moved"]


@dataclass(frozen=True)
class Operator:
    """One node of a traced graph.

    Attributes:
        name: Of the node; unique. In a captured training graph `linear.1` is a further operator that the traced
            operator `linear` runs, and `linear.backward`, `linear.backward.1` are those of its backward pass.
        op: "placeholder", "get_attr", "call_function", "output", ...
        target: The operator ("aten.linear.default"); of a get_attr what it fetches.
        module: The innermost module that runs it; "" for the model itself.
        inputs: Positions of the nodes that it reads.
        output_bytes: Of its value; of a weight its size.
        flops: Of matrix products and convolutions, 2 per multiply-add.
        bytes_moved: Read and written.
        ms: Times by class of device, where they are known.
        is_parameter: A get_attr of a parameter.
        is_buffer: A get_attr of a buffer or a constant.
        is_view: Its value is a view of what it reads.
        is_backward: Of the backward pass.
        is_mutating: Writes into its first input.
        dtype: Of its value.
    """

    name: str
    op: str
    target: str
    module: str
    inputs: tuple[int, ...]
    output_bytes: int
    flops: float = 0
    bytes_moved: int = 0
    ms: dict[str, float] = field(default_factory=dict)
    is_parameter: bool = False
    is_buffer: bool = False
    is_view: bool = False
    is_backward: bool = False
    is_mutating: bool = False
    dtype: str = ""

    @property
    def is_weight(self) -> bool:
        """A parameter, buffer or constant?"""
        return self.is_parameter or self.is_buffer

    @property
    def is_operator(self) -> bool:
        """Does it compute?"""
        return self.op in ("call_function", "call_method", "call_module")

    @property
    def origin(self) -> str:
        """The traced operator that it belongs to."""
        found = _ORIGIN.fullmatch(self.name)
        return found[1] if found else self.name


@dataclass
class Graph:
    """The operators of a model in the order in which they run.

    Attributes:
        nodes: In graph order.
        ties: Pairs of positions: two weights that are one tensor, the earlier one first.
        name: For people.
        modules: Paths of all modules of the model, in the order of their definition; empty of a loaded graph.
        called: Those that run, other than lists of modules; empty of a loaded graph.
        aliases: All names of every tensor that has several.
        program: What was captured (`torch.export.ExportedProgram`); None of a loaded graph.
    """

    nodes: list[Operator]
    ties: list[tuple[int, int]] = field(default_factory=list)
    name: str = ""
    modules: tuple[str, ...] = ()
    called: frozenset[str] = frozenset()
    aliases: tuple[tuple[str, ...], ...] = ()
    program: Any = field(default=None, repr=False, compare=False)

    @property
    def is_training(self) -> bool:
        """With a backward pass?"""
        return any(node.is_backward for node in self.nodes)

    @property
    def parameter_bytes(self) -> int:
        """Of all parameters, tied ones once."""
        tied = {second for _, second in self.ties}
        return sum(node.output_bytes for i, node in enumerate(self.nodes) if node.is_parameter and i not in tied)

    @property
    def flops(self) -> float:
        """Of all operators."""
        return sum(node.flops for node in self.nodes)

    def __repr__(self) -> str:
        count = sum(node.is_operator for node in self.nodes)
        passes = "forward and backward" if self.is_training else "forward"
        return (
            f"<plimsoll.graphs.Graph {self.name}: {count} operators, {passes}, "
            f"{self.parameter_bytes / 2**20:.4g} MiB of parameters, {self.flops / 1e9:.4g} GFLOP>"
        )

    def to_document(self) -> dict[str, Any]:
        """As `plimsoll partition` reads it."""
        return write(self.nodes, self.ties, self.name)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the document. What was captured is not part of it: a loaded graph is planned, not split."""
        write_object(path, self.to_document())


class _Table:
    """Texts in order of first use."""

    def __init__(self) -> None:
        self._index: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        return self._index.setdefault(text, len(self._index))

    def texts(self) -> list[str]:
        return list(self._index)


def write(nodes: Iterable[Operator], ties: Iterable[tuple[int, int]] = (), name: str = "") -> dict[str, Any]:
    """Operators as a document of the format plimsoll-fx-graph."""
    nodes, ties = list(nodes), list(ties)
    classes = sorted({name for node in nodes for name in node.ms})
    tied = {second for _, second in ties}
    targets, modules, dtypes = _Table(), _Table(), _Table()
    rows = []
    for i, node in enumerate(nodes):
        flags = sum(bit for flag, bit in _FLAGS.items() if getattr(node, flag)) + (_TIED if i in tied else 0)
        row: list[object] = [node.name, node.op, targets(node.target), modules(node.module), list(node.inputs)]
        row += [node.output_bytes, node.flops, node.bytes_moved]
        row += [node.ms.get(name) for name in classes]
        rows.append([*row, dtypes(node.dtype), flags])
    return {
        "format": "plimsoll-fx-graph",
        "version": 1,
        "name": name,
        "fields": [*_FIELDS, *(f"ms_{name}" for name in classes), "dtype", "flags"],
        "targets": targets.texts(),
        "modules": modules.texts(),
        "dtypes": dtypes.texts(),
        "ties": [list(tie) for tie in ties],
        "rows": rows,
    }


def read(document: dict[str, Any], place: str) -> Graph:
    """The graph of a document.

    Raises:
        Error: It is another kind of document, or not whole.
    """
    if document.get("format") != "plimsoll-fx-graph":
        raise Error(
            "schema",
            place,
            "is not an operator graph (plimsoll-fx-graph)",
            "give what Graph.save wrote, or a .pt2; plimsoll.partition also plans ONNX and other files",
        )
    nodes = []
    try:
        for i, row in enumerate(document["rows"]):
            entry = dict(zip(document["fields"], row))
            flags = entry.get("flags", 0)
            nodes.append(
                Operator(
                    name=entry["name"] or f"n{i}",
                    op=entry["op"],
                    target=document["targets"][entry["target"]],
                    module=document["modules"][entry["module"]] if "module" in entry else "",
                    inputs=tuple(entry["inputs"]),
                    output_bytes=entry["output_size"],
                    flops=entry.get("flops", 0),
                    bytes_moved=entry.get("bytes_moved", 0),
                    ms={key[3:]: ms for key, ms in entry.items() if key.startswith("ms_") and ms is not None},
                    dtype=document["dtypes"][entry["dtype"]] if "dtype" in entry else "",
                    **{flag: bool(flags & bit) for flag, bit in _FLAGS.items()},
                )
            )
        ties = [(first, second) for first, second in document.get("ties", [])]
    except (KeyError, IndexError, TypeError, ValueError) as why:
        what = f"row {len(nodes)} cannot be read ({type(why).__name__}: {why})"
        raise Error("schema", place, what, "docs/formats.md#operator-graphs has the columns") from None
    return Graph(nodes, ties, document.get("name", ""))


def load(path: str | os.PathLike[str]) -> Graph:
    """A graph that `Graph.save` wrote, or another of the format plimsoll-fx-graph; or torch.export's `.pt2`.

    The former can be planned, and the plan knows its stages' operators and modules; to split a model, capture it. A
    `.pt2` has its program and weights, and can be split as well; it has no backward pass.
    """
    if os.fspath(path).endswith(".pt2"):
        need("torch", "torch")
        from plimsoll.graphs._capture import load_program

        return load_program(os.fspath(path))
    return read(read_object(path, "Graph.save"), os.fspath(path))
