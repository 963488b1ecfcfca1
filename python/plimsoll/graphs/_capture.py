"""A module's operator graph, forward or with its backward pass, without weights being allocated."""

from __future__ import annotations

import bisect
import contextlib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot, make_fx
from torch.fx.node import Node
from torch.utils import _pytree as pytree

from plimsoll._errors import Error
from plimsoll.graphs import _costs
from plimsoll.graphs._graph import Graph, Operator
from plimsoll.graphs._measure import measure
from plimsoll.graphs._units import parents

Loss = Callable[..., torch.Tensor]


@contextlib.contextmanager
def _without_cache(model: torch.nn.Module) -> Iterator[None]:
    """transformers' models return keys and values of every layer by default; a pipeline would carry them along."""
    configs = {id(c): c for m in model.modules() if (c := getattr(m, "config", None)) is not None}
    changed = [config for config in configs.values() if getattr(config, "use_cache", False) is True]
    for config in changed:
        config.use_cache = False
    try:
        yield
    finally:
        for config in changed:
            config.use_cache = True


def _is_meta(model: torch.nn.Module) -> bool:
    return any(tensor.device.type == "meta" for tensor in (*model.parameters(), *model.buffers()))


def _move(value: Any, device: str) -> Any:
    return pytree.tree_map(lambda leaf: leaf.to(device) if isinstance(leaf, torch.Tensor) else leaf, value)


def module_stack(node: Node) -> list[str]:
    """The modules that run a traced operator, innermost last."""
    paths = [str(path) for path, _ in (node.meta.get("nn_module_stack") or {}).values()]
    paths = [re.sub(r"@\d+", "", path) for path in paths]  # of a second call
    return [re.sub(r"^L\['self'\]\.?", "", path) for path in paths]


def module_of(node: Node) -> str:
    """The innermost module that runs a traced operator."""
    return (module_stack(node) or [""])[-1]


def _aliases(model: torch.nn.Module) -> tuple[tuple[str, ...], ...]:
    names: dict[int, list[str]] = {}
    for name, tensor in [
        *model.named_parameters(remove_duplicate=False),
        *model.named_buffers(remove_duplicate=False),
    ]:
        names.setdefault(id(tensor), []).append(name)
    return tuple(tuple(group) for group in names.values() if len(group) > 1)


def graph_module(program: torch.export.ExportedProgram) -> torch.fx.GraphModule:
    """The program's graph with its weights in place."""
    unlift = program.module
    quiet = {"check_guards": False} if "check_guards" in inspect.signature(unlift).parameters else {}
    return unlift(**quiet)


def fetch(module: torch.nn.Module, path: str) -> Any:
    """What a get_attr fetches."""
    value: Any = module
    for atom in path.split("."):
        value = getattr(value, atom)
    return value


def is_dropped(node: Node) -> bool:
    """An assertion that torch.export adds, without value and without readers."""
    if node.op == "call_module":
        return not node.users
    return node.op == "call_function" and not node.users and _costs.base_name(node.target) == "_assert_tensor_metadata"


def _forward(module: torch.fx.GraphModule) -> list[Node]:
    return [node for node in module.graph.nodes if not is_dropped(node)]


def _target(node: Node) -> str:
    if isinstance(node.target, str):
        return node.target
    return str(node.target) if isinstance(node.target, torch._ops.OpOverload) else _costs.base_name(node.target)


def _operator(
    node: Node,
    name: str,
    inputs: tuple[int, ...],
    module: str,
    ms: Mapping[Node, float],
    is_backward: bool = False,
) -> Operator:
    """The costs of a node that computes."""
    value = node.meta.get("val")
    sources = [one.meta.get("val") for one in node.all_input_nodes]
    args, kwargs = pytree.tree_map_only(Node, lambda one: one.meta.get("val"), (node.args, node.kwargs))
    is_mutating = _costs.is_mutating(node.target)
    is_part = _costs.base_name(node.target) == "getitem"
    is_view = not is_mutating and not is_part and _costs.is_view(sources, value)
    is_free = is_view or is_part
    found = _costs.tensors(value)
    return Operator(
        name=name,
        op=node.op,
        target=_target(node),
        module=module,
        inputs=inputs,
        output_bytes=_costs.byte_size(value),
        flops=0.0 if is_free else _costs.flops(node.target, args, kwargs, value),
        bytes_moved=0 if is_free else _costs.bytes_moved(node.target, sources, value),
        ms={"measured": 0.0 if is_free else ms.get(node, 0.0)} if ms else {},
        is_view=is_view and bool(inputs),
        is_backward=is_backward,
        is_mutating=is_mutating and bool(inputs),
        dtype=str(found[0].dtype).removeprefix("torch.") if found else "",
    )


def _attribute(node: Node, module: torch.nn.Module) -> Operator:
    value = fetch(module, str(node.target))
    is_tensor = isinstance(value, torch.Tensor)
    is_parameter = isinstance(value, torch.nn.Parameter)
    return Operator(
        name=node.name,
        op="get_attr",
        target=str(node.target),
        module=str(node.target).rpartition(".")[0],
        inputs=(),
        output_bytes=_costs.byte_size(value) if is_tensor else 0,
        is_parameter=is_parameter,
        is_buffer=is_tensor and not is_parameter,
        dtype=str(value.dtype).removeprefix("torch.") if is_tensor else "",
    )


class _Rows:
    """Operators in graph order, by the node that each describes."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        self.rows: list[Operator] = []
        self.at: dict[Node, int] = {}
        self.ties: list[tuple[int, int]] = []
        self._module = module
        self._first: dict[int, int] = {}

    def add(self, node: Node, row: Operator) -> None:
        self.at[node] = len(self.rows)
        self.rows.append(row)

    def inputs(self, node: Node) -> tuple[int, ...]:
        return tuple(dict.fromkeys(self.at[one] for one in node.all_input_nodes if one in self.at))

    def add_source(self, node: Node, as_node: Node) -> None:
        """A weight or an input; `as_node` is what operators know it by."""
        if node.op != "get_attr":
            value = node.meta.get("val")
            self.add(as_node, Operator(node.name, node.op, str(node.target), "", (), _costs.byte_size(value)))
            return
        row = _attribute(node, self._module)
        if row.is_weight:
            first = self._first.setdefault(id(fetch(self._module, str(node.target))), len(self.rows))
            if first != len(self.rows):
                self.ties.append((first, len(self.rows)))
        self.add(as_node, row)


def _forward_rows(module: torch.fx.GraphModule, inputs: list[Any], is_measured: bool) -> _Rows:
    ms = measure(module, inputs) if is_measured else {}
    table = _Rows(module)
    for node in _forward(module):
        if node.op in ("get_attr", "placeholder"):
            table.add_source(node, node)
        elif node.op == "output":
            table.add(node, Operator(node.name, "output", "output", "", table.inputs(node), 0))
        else:
            table.add(node, _operator(node, node.name, table.inputs(node), module_of(node), ms))
    return table


class _Tracer(torch.fx.Interpreter):
    """Runs the traced graph within make_fx and notes which nodes each traced operator leaves there."""

    def __init__(
        self, module: torch.nn.Module, attributes: Mapping[str, Any], device: torch.device, notes: _Notes | None
    ) -> None:
        super().__init__(module)
        self._attributes = attributes
        self._device = device
        self._notes = notes

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        return self._attributes[target] if target in self._attributes else super().get_attr(target, args, kwargs)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        name = _costs.base_name(target)
        if name == "wrap_with_set_grad_enabled":
            with torch.set_grad_enabled(args[0]):
                return _Tracer(args[1], self._attributes, self._device, None).run(*args[2:])
        if name == "wrap_with_autocast":
            with torch.autocast(*args[:4]):
                return _Tracer(args[4], self._attributes, self._device, None).run(*args[5:])
        args, kwargs = pytree.tree_map_only(torch.device, lambda _: self._device, (args, kwargs))
        return super().call_function(target, args, kwargs)

    def run_node(self, n: Node) -> Any:
        if self._notes is None or n.op != "call_function":
            return super().run_node(n)
        with self._notes.of(n):
            value = super().run_node(n)
        self._notes.end_of(n, value)
        return value


class _Notes:
    """Which traced operator each node of the joint graph belongs to."""

    def __init__(self, tracer: Any) -> None:
        self.value_of: dict[str, Node] = {}  # which node makes a traced operator's value
        self.forward: dict[Node, str] = {}
        self.backward: dict[Node, str] = {}
        self._tracer = tracer
        self._graph = tracer.graph
        self._last = self._end()
        self._sequence: list[tuple[int, str]] = []  # first number of autograd's functions, operator

    def _end(self) -> Node:
        return self._graph._root.prev

    def _take(self, into: dict[Node, str], name: str) -> None:
        """All nodes since the last call belong to that operator."""
        node = self._last.next
        while node is not self._graph._root:
            into[node] = name
            node = node.next
        self._last = self._end()

    @contextlib.contextmanager
    def of(self, node: Node) -> Iterator[None]:
        self._take(self.forward, node.name)  # constants that tracing put there
        self._sequence.append((torch._C._autograd._get_sequence_nr(), node.name))
        yield
        self._take(self.forward, node.name)

    def end_of(self, node: Node, value: Any) -> None:
        for tensor in _costs.tensors(value)[:1]:
            made = get_proxy_slot(tensor, self._tracer, None)
            if made is not None:
                self.value_of[node.name] = made.proxy.node

    def end_forward(self, name: str) -> None:
        self._take(self.forward, name)

    def watch(self, loss: torch.Tensor) -> Callable[[], None]:
        """Follows the backward pass: what autograd runs for an operator's function is that operator's."""
        current = [self._sequence[-1][1]]
        numbers = [number for number, _ in self._sequence]

        def begin(name: str) -> Callable[[Any], None]:
            def hook(_: Any) -> None:
                self._take(self.backward, current[0])
                current[0] = name

            return hook

        seen, ahead, handles = {loss.grad_fn}, [loss.grad_fn], []
        while ahead:
            function = ahead.pop()
            if function is None:
                continue
            if function.name() != "torch::autograd::AccumulateGrad":
                place = bisect.bisect_right(numbers, function._sequence_nr()) - 1
                handles.append(function.register_prehook(begin(self._sequence[max(place, 0)][1])))
            for following, _ in function.next_functions:
                if following is not None and following not in seen:
                    seen.add(following)
                    ahead.append(following)

        def end() -> None:
            self._take(self.backward, current[0])
            for handle in handles:
                handle.remove()

        return end


def _default_loss(output: Any) -> torch.Tensor:
    """The output's `loss`, or the sum of all that it holds: what the backward pass costs is the same."""
    loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if isinstance(loss, torch.Tensor):
        return loss
    return torch.stack([t.float().sum() for t in _costs.tensors(output) if t.is_floating_point()]).sum()


def _training_rows(
    program: torch.export.ExportedProgram,
    module: torch.fx.GraphModule,
    inputs: list[Any],
    loss: Loss | None,
    target: Any,
    is_measured: bool,
) -> _Rows:
    sources = [node for node in _forward(module) if node.op in ("get_attr", "placeholder")]
    fetched = {node.name: fetch(module, str(node.target)) for node in sources if node.op == "get_attr"}
    fed = dict(zip((node.name for node in sources if node.op == "placeholder"), inputs))
    targets = {str(node.target): node.name for node in sources if node.op == "get_attr"}
    device = next((t.device for t in _costs.tensors((fetched, fed)) if t.device.type != "meta"), torch.device("cpu"))
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    made: dict[int, torch.Tensor] = {}

    def fake(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in made:
            like = torch.empty_strided(tuple(value.shape), value.stride(), dtype=value.dtype, device=device)
            is_leaf = isinstance(value, torch.nn.Parameter) and value.requires_grad
            made[id(value)] = like.requires_grad_(is_leaf)
        return made[id(value)]

    real = {**fetched, **fed}
    with mode:
        feeds = pytree.tree_map(fake, real)
        target = pytree.tree_map(fake, target)
    names = [name for name, value in feeds.items() if isinstance(value, torch.Tensor)]
    parameters = [name for name in names if feeds[name].requires_grad]
    if not parameters:
        raise Error("value", "model", "has no parameter that is trained", "leave training and loss out")
    last = next(node.name for node in reversed(list(module.graph.nodes)) if node.op == "call_function")
    notes: list[_Notes] = []

    def run(*tensors: torch.Tensor) -> list[torch.Tensor]:
        given = {**feeds, **dict(zip(names, tensors))}
        proxies = get_proxy_mode()
        assert proxies is not None
        notes.append(note := _Notes(proxies.tracer))
        attributes = {path: given[name] for path, name in targets.items()}
        flat = _Tracer(module, attributes, device, note).run(*(given[name] for name in fed), enable_io_processing=False)
        output = pytree.tree_unflatten(flat, program.call_spec.out_spec)
        value = _default_loss(output) if loss is None else loss(output, *([] if target is None else [target]))
        note.end_forward(last)
        if not isinstance(value, torch.Tensor) or value.numel() != 1 or value.grad_fn is None:
            raise Error(
                "value", "loss", "is not a number that depends on the parameters", "return a tensor of one number"
            )
        end = note.watch(value)
        distinct = list({id(given[name]): given[name] for name in parameters}.values())
        gradients = torch.autograd.grad(value, distinct, allow_unused=True)
        end()
        return [value, *(one for one in gradients if one is not None)]

    with mode, torch.enable_grad():
        joint = make_fx(run)(*(feeds[name] for name in names))
    note = notes[-1]
    joint.graph.eliminate_dead_code()
    joint.recompile()
    ms = {}
    if is_measured:
        given = [real[name].detach() for name in names]
        buffers = {name for name, value in fetched.items() if not isinstance(value, torch.nn.Parameter)}
        ms = measure(joint, [t.clone() if name in buffers else t for name, t in zip(names, given)])

    table = _Rows(module)
    modules = {node.name: module_of(node) for node in module.graph.nodes}
    holders = dict(zip(names, (node for node in joint.graph.nodes if node.op == "placeholder")))
    for node in sources:
        table.add_source(node, holders.get(node.name, node))
    counts: dict[str, int] = {}
    taken = {name for name, node in note.value_of.items() if note.forward.get(node) == name}

    def name_for(stem: str, is_free: bool) -> str:
        number = counts.get(stem, 0 if is_free else 1)
        counts[stem] = number + 1
        return stem if number == 0 else f"{stem}.{number}"

    for node in joint.graph.nodes:
        if node.op == "placeholder":
            continue
        if node.op == "output":
            table.add(node, Operator("output", "output", "output", "", table.inputs(node), 0))
        elif node.op == "get_attr":
            table.add(node, Operator(f"constant.{node.name}", "get_attr", str(node.target), "", (), 0))
        else:
            is_backward = node in note.backward
            origin = note.backward[node] if is_backward else note.forward.get(node, last)
            if is_backward:
                name = name_for(f"{origin}.backward", True)
            elif note.value_of.get(origin) is node:
                name = origin
            else:
                name = name_for(origin, origin not in taken)
            table.add(node, _operator(node, name, table.inputs(node), modules.get(origin, ""), ms, is_backward))
    return table


def capture(
    model: torch.nn.Module,
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
    *,
    training: bool = False,
    loss: Loss | None = None,
    target: Any = None,
    times: str = "roofline",
    strict: bool = False,
) -> Graph:
    """Traces a module by torch.export; no weight is allocated, and none is needed (`with torch.device("meta")`).

    Args:
        model: In the mode, training or evaluation, that is captured; it is left as it is.
        args: Of one call, in the shapes of one microbatch.
        kwargs: Of that call.
        training: Capture the backward pass, too; a loss implies it.
        loss: Makes the loss of the output, `loss(output)` or `loss(output, target)`; by default the output's `loss`, or
            the sum of what it holds.
        target: Second argument of `loss`.
        times: "measured" runs every operator some times, on the devices of the weights, and keeps its least time.
        strict: Of torch.export.

    Raises:
        Error: The model cannot be traced.
    """
    if not isinstance(args, tuple):
        raise Error(
            "value", "args", f"a {type(args).__name__} is not a tuple", "give the positional arguments, (batch,)"
        )
    kwargs = dict(kwargs or {})
    if times not in ("roofline", "measured"):
        raise Error("value", "times", f"{times!r} is not known", "give 'roofline' or 'measured'")
    if times == "measured" and _is_meta(model):
        raise Error("value", "times", "a model on meta cannot be measured", "make its weights, or leave times out")
    if _is_meta(model):
        args, kwargs, target = _move((args, kwargs, target), "meta")
    with _without_cache(model):
        try:
            program = torch.export.export(model, args, kwargs, strict=strict)
        except Exception as why:
            raise Error(
                "value",
                type(model).__name__,
                f"torch.export cannot trace it: {str(why).strip().splitlines()[0] if str(why).strip() else why!r}",
                "let forward depend on shapes alone, not on values, and give every argument that it needs",
            ) from why
    module = graph_module(program)
    inputs, is_measured = pytree.tree_leaves((args, kwargs)), times == "measured"
    if training or loss is not None:
        table = _training_rows(program, module, inputs, loss, target, is_measured)
    else:
        table = _forward_rows(module, inputs, is_measured)
    modules = tuple(path for path, _ in model.named_modules() if path)
    return _make_graph(table, type(model).__name__, modules, _aliases(model), program, module)


def _make_graph(
    table: _Rows,
    name: str,
    modules: tuple[str, ...],
    aliases: tuple[tuple[str, ...], ...],
    program: torch.export.ExportedProgram,
    module: torch.fx.GraphModule,
) -> Graph:
    called = frozenset(path for node in module.graph.nodes for path in module_stack(node) if path)
    return Graph(table.rows, table.ties, name, modules, called, aliases, program)


def load_program(path: str) -> Graph:
    """The forward graph of what torch.export.save wrote."""
    try:
        program = torch.export.load(path)
    except Exception as why:
        raise Error("value", path, f"torch.export cannot load it: {why}", "give what torch.export.save wrote") from why
    module = graph_module(program)
    paths = [p for node in module.graph.nodes for path in module_stack(node) for p in reversed(parents(path)) if p]
    modules = tuple(dict.fromkeys(paths))
    return _make_graph(_forward_rows(module, [], False), "", modules, _aliases(module), program, module)
