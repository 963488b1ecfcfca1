"""A stage's operators, folded into the modules of the model that run them.

Problem. The traced operators of a stage are one flat list; checkpointing, `named_modules` and hooks want the model's
modules.
Method. A module becomes a module of the stage if its operators stand next to each other in the list and are more than
one. Modules within modules are folded in turn. Operators that depend on nothing stand before the outermost module that
they need not be in.
Promises. The operators run in the order in which they stood, except for those constants; weights keep their names.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

import torch
from torch.fx.node import Node

from plimsoll.graphs._capture import module_stack

Path = tuple[str, ...]  # modules, each within the one before


def fold(owned: Mapping[str, Any], graph: torch.fx.Graph, constants: set[Node], name: str) -> torch.fx.GraphModule:
    """The module of a flat graph.

    Args:
        owned: What its get_attr nodes name.
        graph: In the order in which it runs.
        constants: Its operators that depend on nothing.
        name: Of the module's class.
    """
    return _Folder(owned, graph, constants).make(name)


def _common(paths: Sequence[Path]) -> Path:
    shared = []
    for level in zip(*paths):
        if len(set(level)) > 1:
            break
        shared.append(level[0])
    return tuple(shared)


class _Folder:
    def __init__(self, owned: Mapping[str, Any], graph: torch.fx.Graph, constants: set[Node]) -> None:
        self._owned = owned
        self._inputs = [node for node in graph.nodes if node.op == "placeholder"]
        self._output = next(node for node in graph.nodes if node.op == "output")
        operators = [node for node in graph.nodes if node.op == "call_function" and node not in constants]
        self._path = self._paths(operators)
        self._order = operators
        for node in reversed([node for node in graph.nodes if node in constants]):
            self._place(node)

    def make(self, name: str) -> torch.fx.GraphModule:
        returned = self._output.args[0]
        made = self._build(self._order, (), self._inputs, self._output.all_input_nodes, name, returned)
        made.graph.lint()
        return made

    def _paths(self, operators: Sequence[Node]) -> dict[Node, Path]:
        """The modules that each operator is folded into, outermost first."""
        stacks = {node: list(dict.fromkeys(module_stack(node))) for node in operators}
        at: dict[str, list[int]] = {}
        for i, node in enumerate(operators):
            for module in stacks[node]:
                at.setdefault(module, []).append(i)
        whole = {module for module, places in at.items() if 1 < len(places) == places[-1] - places[0] + 1} - {""}
        while True:
            paths: dict[Node, Path] = {}
            above: dict[str, set[Path]] = {}
            for node in operators:
                path: Path = ()
                for module in stacks[node]:
                    if module in whole and (not path or module.startswith(f"{path[-1]}.")):
                        above.setdefault(module, set()).add(path)
                        path = (*path, module)
                paths[node] = path
            shared = {module for module, places in above.items() if len(places) > 1}  # called from two modules
            if not shared:
                return paths
            whole -= shared

    def _place(self, node: Node) -> None:
        """Before its first reader, in the modules that all its readers are in."""
        readers = [user for user in node.users if user in self._path]
        if not readers:  # it is returned
            self._path[node] = ()
            self._order.insert(0, node)
            return
        shared = _common([self._path[user] for user in readers])
        if any(user.op == "output" for user in node.users):
            shared = ()
        self._path[node] = shared
        at = min(self._order.index(user) for user in readers)
        around = self._path[self._order[at]][: len(shared) + 1]
        while at > 0 and len(around) > len(shared) and self._path[self._order[at - 1]][: len(around)] == around:
            at -= 1
        self._order.insert(at, node)

    def _build(
        self,
        nodes: Sequence[Node],
        path: Path,
        takes: Sequence[Node],
        gives: Sequence[Node],
        name: str,
        returned: Any = None,
    ) -> torch.fx.GraphModule:
        """The module that runs these; `returned` is what it gives if that is not `gives` alone."""
        prefix = len(path[-1]) + 1 if path else 0
        graph = torch.fx.Graph()
        of = {node: graph.placeholder(node.name) for node in takes}
        own: dict[str, Any] = {}

        def fetch(node: Node) -> Node:
            if node not in of:
                target = str(node.target)[prefix:] if self._is_below(node, path) else str(node.target)
                own[target] = self._owned[str(node.target)]
                of[node] = graph.get_attr(target)
                of[node].meta = dict(node.meta)
            return of[node]

        at = 0
        while at < len(nodes):
            node, inner = nodes[at], self._path[nodes[at]]
            if len(inner) == len(path):
                for source in node.all_input_nodes:
                    fetch(source)
                of[node] = graph.node_copy(node, of.__getitem__)
                at += 1
                continue
            inner = inner[: len(path) + 1]
            run = list(takewhile(lambda n, inner=inner: self._path[n][: len(inner)] == inner, nodes[at:]))
            at += len(run)
            inside = set(run)
            sources = dict.fromkeys(source for n in run for source in n.all_input_nodes if source not in inside)
            given = [s for s in sources if s.op != "get_attr" or not (self._is_below(s, inner) or self._is_code(s))]
            results = [n for n in run if any(user not in inside for user in n.users)]
            target = inner[-1][prefix:]
            own[target] = self._build(run, inner, given, results, target.rpartition(".")[2])
            named = "self_" if target == "self" else None  # in the code that torch.fx writes `self` is the module
            call = graph.create_node("call_module", target, tuple(fetch(source) for source in given), {}, name=named)
            if len(results) == 1:
                of[results[0]] = call
            else:
                for i, result in enumerate(results):
                    of[result] = graph.call_function(operator.getitem, (call, i))
        for node in gives:
            fetch(node)
        values = tuple(of[node] for node in gives)
        if returned is not None:
            graph.output(torch.fx.node.map_arg(returned, of.__getitem__))
        else:
            graph.output(values[0] if len(values) == 1 else values)
        return torch.fx.GraphModule(own, graph, name if name.isidentifier() else f"Module{name}")

    def _is_below(self, node: Node, path: Path) -> bool:
        return bool(path) and str(node.target).startswith(f"{path[-1]}.")

    def _is_code(self, node: Node) -> bool:
        """The body of an operator, which is not an argument."""
        return isinstance(self._owned[str(node.target)], torch.fx.GraphModule)
