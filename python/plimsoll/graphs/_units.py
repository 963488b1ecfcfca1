"""What a pipeline may be cut into: runs of operators, and a graph in which each is one operator.

A *step* is a traced operator with all that it runs; steps are numbered in graph order. A *cut* p lies before step p. A
*unit* holds the steps between two neighbouring cuts that are allowed. Three rules forbid cuts:

1. Storage that is written to stays within one unit, from where it is made to the last write. Parts of a value stay with
   the operator that makes it.
2. With "submodules" and "modules", a cut lies where a module begins.
3. With "modules", no operator of a module that is cut apart reads values of both sides, as the addition behind a
   residual branch does, and the layers of a list stay whole. Modules on different devices then receive all they read as
   arguments, so that accelerate's device maps and torchtitan's lists of modules can express every cut. Where too few
   cuts are left, this rule is given up.

Operators that depend on nothing, not even on weights, run again in every stage that reads them; they are not steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from plimsoll.graphs._graph import Graph, Operator

_RANDOM = ("rand", "randn", "randint", "randperm", "empty", "normal", "bernoulli")


def parents(module: str) -> list[str]:
    """The module's path and those above it, innermost first; the model itself, "", last."""
    paths = [module] if module else []
    while "." in module:
        module = module.rpartition(".")[0]
        paths.append(module)
    return [*paths, ""]


def _base_name(target: str) -> str:
    parts = target.split(".")
    return parts[1] if len(parts) > 1 else target


@dataclass
class Steps:
    """The steps of a graph and what they read."""

    graph: Graph
    names: list[str] = field(default_factory=list)  # of the traced operators, in graph order
    modules: list[str] = field(default_factory=list)
    rows: list[list[int]] = field(default_factory=list)  # of each step, of both passes
    step_of: dict[int, int] = field(default_factory=dict)  # by row
    roots: list[int] = field(default_factory=list)  # by row: the row that made its storage
    constants: dict[int, int] = field(default_factory=dict)  # by row: the first step that needs it

    @classmethod
    def of(cls, graph: Graph) -> Steps:
        steps = cls(graph)
        steps.roots = _storage_roots(graph.nodes)
        constants = _constants(graph.nodes, steps.roots)
        read = {source for node in graph.nodes for source in node.inputs}
        at: dict[str, int] = {}
        for i, node in enumerate(graph.nodes):
            is_idle = node.output_bytes == 0 and i not in read
            if not node.is_operator or node.is_backward or i in constants or is_idle:
                continue
            if node.origin not in at:
                at[node.origin] = len(steps.names)
                steps.names.append(node.origin)
                steps.modules.append(node.module)
                steps.rows.append([])
            steps._put(i, at[node.origin])
        steps._put_backward(at)
        for i in sorted(constants, reverse=True):
            if i in steps.constants:
                for source in graph.nodes[i].inputs:
                    if source in constants:
                        steps._need(source, steps.constants[i])
        return steps

    def _put(self, row: int, step: int) -> None:
        self.rows[step].append(row)
        self.step_of[row] = step
        for source in self.graph.nodes[row].inputs:
            if source not in self.step_of and self.graph.nodes[source].is_operator:
                self._need(source, step)

    def _need(self, constant: int, step: int) -> None:
        self.constants[constant] = min(step, self.constants.get(constant, step))

    def _put_backward(self, at: dict[str, int]) -> None:
        """A backward operator stands with its forward operator, or, where names do not say which that is, with the last
        run of its module that is not behind the run before; never behind the gradients that it reads."""
        runs: dict[str, list[int]] = {}  # of modules: first steps of their runs
        for step, module in enumerate(self.modules):
            if step == 0 or self.modules[step - 1] != module:
                runs.setdefault(module, []).append(step)
        previous = len(self.names) - 1
        for i, node in enumerate(self.graph.nodes):
            if not node.is_backward or not node.is_operator:
                continue
            if node.origin in at:
                own = at[node.origin]
            else:
                starts = runs.get(node.module, [previous])
                own = previous = max((s for s in starts if s <= previous), default=starts[0])
            behind = [self.step_of[s] for s in node.inputs if self.graph.nodes[s].is_backward and s in self.step_of]
            self._put(i, min([own, *behind]))

    def __len__(self) -> int:
        return len(self.names)

    def sources(self, step: int) -> list[int]:
        """Steps whose forward values the step's forward operators read."""
        nodes = self.graph.nodes
        read = [s for row in self.rows[step] if not nodes[row].is_backward for s in nodes[row].inputs]
        return [self.step_of[s] for s in read if s in self.step_of and self.step_of[s] != step]


def _storage_roots(nodes: Sequence[Operator]) -> list[int]:
    roots: list[int] = []
    for i, node in enumerate(nodes):
        roots.append(roots[node.inputs[0]] if (node.is_view or node.is_mutating) and node.inputs else i)
    return roots


def _constants(nodes: Sequence[Operator], roots: Sequence[int]) -> set[int]:
    written = {roots[i] for i, node in enumerate(nodes) if node.is_mutating}
    found: set[int] = set()
    for i, node in enumerate(nodes):
        if not node.is_operator:
            continue
        is_known = all(s in found or (nodes[s].op == "get_attr" and not nodes[s].is_weight) for s in node.inputs)
        is_fresh = not node.inputs and _base_name(node.target) in _RANDOM
        if is_known and not is_fresh and not node.is_backward and roots[i] not in written and node.output_bytes:
            found.add(i)
    return found


def _forbid(count: list[int], after: int, through: int) -> None:
    """Forbids the cuts after < p <= through, as differences of counts."""
    if after < through:
        count[after + 1] += 1
        count[through + 1] -= 1


def _sums(count: list[int]) -> list[int]:
    total, sums = 0, []
    for one in count:
        total += one
        sums.append(total)
    return sums


def _whole_storage(steps: Steps) -> list[int]:
    """How often rule 1 forbids each cut."""
    nodes, n = steps.graph.nodes, len(steps)
    count = [0] * (n + 2)
    last_write: dict[int, int] = {}
    for step, rows in enumerate(steps.rows):
        for row in rows:
            if nodes[row].is_mutating and not nodes[row].is_backward:
                last_write[steps.roots[row]] = step
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for step, rows in enumerate(steps.rows):
        for row in rows:
            node = nodes[row]
            if node.is_backward:
                continue
            for touched in {steps.roots[row], *(steps.roots[source] for source in node.inputs)}:
                if touched in last_write:
                    first.setdefault(touched, step)
                    is_outside = not nodes[touched].is_operator  # a buffer is one for all who read it
                    if is_outside or step <= last_write[touched]:
                        last[touched] = step
            if _base_name(node.target) == "getitem" and node.inputs[0] in steps.step_of:
                _forbid(count, steps.step_of[node.inputs[0]], step)
    for storage, step in first.items():
        _forbid(count, step, last[storage])
    return _sums(count)


def _across_branches(steps: Steps) -> list[int]:
    """How often rule 3 forbids each cut."""
    n = len(steps)
    first, last = _spans(steps)
    count = [0] * (n + 2)
    for step in range(n):
        module = steps.modules[step]
        read = steps.sources(step)
        if read:
            _forbid(count, max(min(read), first[module]), min(max(read), last[module]))
    numbered = {path for path in first if path.rpartition(".")[2].isdigit()}
    around = {above for path in numbered for above in parents(path)[1:]}
    for layer in numbered - around:
        _forbid(count, first[layer], last[layer])
    return _sums(count)


def _spans(steps: Steps) -> tuple[dict[str, int], dict[str, int]]:
    """First and last step of every module, its children's included."""
    first: dict[str, int] = {"": 0}
    last: dict[str, int] = {"": len(steps) - 1}
    for step, module in enumerate(steps.modules):
        for path in parents(module):
            first.setdefault(path, step)
            last[path] = step
    return first, last


def module_starts(steps: Steps) -> dict[int, str]:
    """Steps with which modules begin, and the outermost of these that is called."""
    starts: dict[int, str] = {}
    for path, step in _spans(steps)[0].items():
        if path and is_called(steps.graph, path) and (step not in starts or len(path) < len(starts[step])):
            starts[step] = path
    return starts


def is_called(graph: Graph, module: str) -> bool:
    """Does the module run itself? A ModuleList does not; of a loaded graph, none whose children have numbers does."""
    if graph.called:
        return module in graph.called
    under = {node.module[len(module) + 1 :].partition(".")[0] for node in graph.nodes if _is_under(node.module, module)}
    return not under or not all(name.isdigit() for name in under)


def _is_under(module: str, other: str) -> bool:
    return module.startswith(other + ".")


@dataclass
class Units:
    """The units, in graph order.

    Attributes:
        first: Their first steps.
        names: Distinct; modules where units begin with modules, else operators.
        has_whole_branches: Rule 3 holds.
    """

    first: list[int]
    names: list[str]
    has_whole_branches: bool = True

    @property
    def rows(self) -> list[str]:
        """Their names in the contracted graph: distinct, and none could be the number of another."""
        rows = [f"module {name}" if name.isdigit() else name for name in self.names]
        if rows[0] in rows[1:]:  # an operator with a module's name
            rows[0] = f"operator {rows[0]}"
        return rows


def forbidden_across_branches(steps: Steps) -> list[bool]:
    """Which cuts rule 3 forbids."""
    return [count > 0 for count in _across_branches(steps)]


def find_units(steps: Steps, align: str | None, wanted: int) -> Units:
    """All cuts that the rules allow: rule 1, with "submodules" also 2, with "modules" also 3.

    Rule 3 is given up where fewer than `wanted` units are left.
    """
    n = len(steps)
    storage = _whole_storage(steps)
    cuts = [p for p in range(1, n) if not storage[p]]
    if align is None:
        first = [0, *cuts]
        return Units(first, [steps.names[p] for p in first], False)
    starts = module_starts(steps)
    cuts = [p for p in cuts if p in starts]
    branches = _across_branches(steps)
    whole = [p for p in cuts if not branches[p]]
    has_whole_branches = align == "modules" and len(whole) + 1 >= wanted
    first = [0, *(whole if has_whole_branches else cuts)]
    return Units(first, [starts.get(p, steps.names[p]) for p in first], has_whole_branches)


def merge(units: Units, groups: list[tuple[int, int]]) -> Units:
    """Units from `first` through `last` of every group as one."""
    joined = {unit for first, last in groups for unit in range(first + 1, last + 1)}
    kept = [unit for unit in range(len(units.first)) if unit not in joined]
    return Units([units.first[u] for u in kept], [units.names[u] for u in kept], units.has_whole_branches)


def unit_of_steps(units: Units, num_steps: int) -> list[int]:
    """The unit of every step."""
    starts = set(units.first)
    unit, found = -1, []
    for step in range(num_steps):
        unit += step in starts
        found.append(unit)
    return found


def contract(steps: Steps, units: Units, ms: Callable[[Operator], float]) -> list[Operator]:
    """A graph with one operator for each unit and pass, whose values are parts of it.

    Times and bytes are those of all that a unit runs. Each unit waits for the one before: stages follow graph order.
    """
    return _Contraction(steps, units, ms).rows()


class _Contraction:
    def __init__(self, steps: Steps, units: Units, ms: Callable[[Operator], float]) -> None:
        self.nodes = steps.graph.nodes
        self.steps = steps
        self.units = units
        self.names = units.rows
        of_step = unit_of_steps(units, len(steps))
        self.unit = {row: of_step[step] for row, step in steps.step_of.items()}
        count = len(units.first)
        self.ms = [[0.0] * count, [0.0] * count]  # forward, backward
        self.flops = [[0.0] * count, [0.0] * count]
        self.moved = [[0] * count, [0] * count]
        for row, unit in [*self.unit.items(), *((c, of_step[s]) for c, s in steps.constants.items())]:
            node = self.nodes[row]
            self.ms[node.is_backward][unit] += ms(node)
            self.flops[node.is_backward][unit] += node.flops
            self.moved[node.is_backward][unit] += node.bytes_moved
        # What the unit's passes read of others: weights, and values of either pass.
        self.weights: list[list[dict[int, None]]] = [[{} for _ in range(count)] for _ in range(2)]
        self.values: list[list[dict[int, None]]] = [[{} for _ in range(count)] for _ in range(2)]
        self.returned: dict[int, None] = {}
        self._find_reads()

    def _is_sum_of_gradients(self) -> set[int]:
        """Rows that only add up a weight's gradients: each stage keeps its own until the end of a step."""
        readers: dict[int, list[int]] = {}
        for i, node in enumerate(self.nodes):
            for source in node.inputs:
                readers.setdefault(source, []).append(i)
        found: set[int] = set()
        for i in range(len(self.nodes) - 1, -1, -1):
            node = self.nodes[i]
            is_end = all(self.nodes[r].op == "output" or r in found for r in readers.get(i, []))
            if node.is_backward and _base_name(node.target) == "add" and readers.get(i) and is_end:
                found.add(i)
        return found

    def _find_reads(self) -> None:
        sums = self._is_sum_of_gradients()
        for row, unit in self.unit.items():
            node = self.nodes[row]
            for source in node.inputs:
                origin = self._made_by(source, node.is_backward)
                source_node = self.nodes[origin]
                if source_node.is_weight:
                    self.weights[node.is_backward][unit][origin] = None
                elif origin in self.unit:
                    is_own = self.unit[origin] == unit
                    if row in sums and source_node.is_backward and not is_own:
                        self.returned[origin] = None
                    elif not is_own or (node.is_backward and not source_node.is_backward):
                        self.values[node.is_backward][unit][origin] = None
        for node in self.nodes:
            if node.op == "output":
                for source in node.inputs:
                    origin = self._made_by(source, False)
                    if self.nodes[origin].is_backward and origin in self.unit:
                        self.returned[origin] = None

    def _made_by(self, row: int, is_saved: bool) -> int:
        """The row whose value is read: of a view as large as what it views that; of what is saved the storage."""
        if is_saved and not self.nodes[row].is_backward:
            return self.steps.roots[row]
        node = self.nodes[row]
        while node.is_view and node.inputs:
            source = node.inputs[0]
            if self.nodes[source].output_bytes != node.output_bytes or source not in self.unit:
                break
            row, node = source, self.nodes[source]
        return row

    def rows(self) -> list[Operator]:
        rows: list[Operator] = []
        at: dict[int, int] = {}
        wanted = [dict.fromkeys(v for reads in self.values for one in reads for v in one), self.returned]
        made: list[list[int]] = [[] for _ in self.units.first]
        for value in dict.fromkeys([*wanted[0], *wanted[1]]):
            made[self.unit[value]].append(value)
        for weight in dict.fromkeys(w for reads in self.weights for one in reads for w in one):
            at[weight] = len(rows)
            node = self.nodes[weight]
            rows.append(
                Operator(
                    f"weight {node.target}",  # names with blanks are not those of modules
                    "get_attr",
                    node.target,
                    node.module,
                    (),
                    node.output_bytes,
                    is_parameter=node.is_parameter,
                    is_buffer=node.is_buffer,
                    dtype=node.dtype,
                )
            )
        own: list[int] = []

        def put(unit: int, is_backward: bool, inputs: list[int]) -> None:
            module = self.names[unit]
            name = module + (" backward" if is_backward else "")
            place = len(rows)
            inputs += [at[w] for w in self.weights[is_backward][unit]]
            inputs += [at[v] for v in self.values[is_backward][unit]]
            costs = {
                "flops": self.flops[is_backward][unit],
                "bytes_moved": self.moved[is_backward][unit],
                "ms": {"unit": self.ms[is_backward][unit]},
            }
            distinct = tuple(dict.fromkeys(inputs))
            rows.append(
                Operator(name, "call_function", "unit", module, distinct, 0, is_backward=is_backward, **costs)  # type: ignore[arg-type]
            )
            for value in made[unit]:
                node = self.nodes[value]
                if node.is_backward == is_backward:
                    at[value] = len(rows)
                    part = f"{name}: {node.name}"
                    size = node.output_bytes
                    rows.append(
                        Operator(
                            part,
                            "call_function",
                            "getitem",
                            module,
                            (place,),
                            size,
                            ms={"unit": 0.0},
                            is_backward=is_backward,
                        )
                    )
            if not is_backward:
                own.append(place)

        for unit in range(len(self.units.first)):
            put(unit, False, own[-1:])
        if self.steps.graph.is_training:
            for unit in range(len(self.units.first) - 1, -1, -1):
                put(unit, True, [own[unit]])
        ends = [*own, *(at[value] for value in self.returned)]
        backward = [i for i, row in enumerate(rows) if row.is_backward and row.target == "unit"]
        rows.append(Operator("what is returned", "output", "output", "", tuple(dict.fromkeys([*ends, *backward])), 0))
        return rows
