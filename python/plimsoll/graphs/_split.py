"""A plan's stages as modules of their own."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.node import Node
from torch.utils import _pytree as pytree

from plimsoll._errors import Error
from plimsoll.graphs import _costs
from plimsoll.graphs._capture import fetch, graph_module, is_dropped
from plimsoll.graphs._fold import fold

if TYPE_CHECKING:
    from plimsoll.graphs._plan import Plan


def _constants(nodes: Sequence[Node]) -> set[Node]:
    """Operators that depend on nothing, not even on weights."""
    found: set[Node] = set()
    for node in nodes:
        is_known = all(source in found for source in node.all_input_nodes)
        is_written = any(_costs.is_mutating(reader.target) for reader in node.users)
        is_plain = not _costs.is_random(node.target) or bool(node.all_input_nodes)
        if node.op == "call_function" and is_known and is_plain and not is_written:
            if not _costs.is_mutating(node.target):
                found.add(node)
    return found


def _place(nodes: Sequence[Node], constants: set[Node], stage_of: dict[str, int]) -> dict[Node, int]:
    """The stage of every operator and input; what the plan does not name stands behind what it reads."""
    stage: dict[Node, int] = {}
    for node in nodes:
        if node.op == "placeholder":
            stage[node] = 0
        elif node.op == "call_function" and node not in constants:
            behind = max((stage[source] for source in node.all_input_nodes if source in stage), default=0)
            stage[node] = max(stage_of.get(node.name, behind), behind)
    return stage


def _travel_order(node: Node) -> list[int] | None:
    """The dimensions of a value as they lie in memory, in which order it is sent from stage to stage.

    None if that is their own order. Empty if values share memory or leave gaps: then it is copied, and arrives in
    another layout.
    """
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.is_contiguous():
        return None
    strides = value.stride()
    order = sorted(range(value.dim()), key=lambda dim: (-strides[dim], value.shape[dim] == 1, dim))
    return order if value.permute(order).is_contiguous() else []


def _device_of(tensors: Sequence[torch.Tensor]) -> torch.device | None:
    return next((tensor.device for tensor in tensors), None)


def _on(device: torch.device | None, value: Any) -> Any:
    if device is None:
        return value
    return pytree.tree_map_only(torch.device, lambda _: device, value)


def _subgraph(module: torch.fx.GraphModule, device: torch.device | None) -> torch.fx.GraphModule:
    """The body of a higher-order operator, on the device."""
    module = copy.deepcopy(module)
    for node in module.graph.nodes:
        node.args, node.kwargs = _on(device, node.args), _on(device, node.kwargs)
        if node.op == "get_attr" and isinstance(fetch(module, node.target), torch.fx.GraphModule):
            setattr(module, node.target, _subgraph(fetch(module, node.target), device))
    for node in list(module.graph.nodes):
        if is_dropped(node):
            module.graph.erase_node(node)
    module.recompile()
    return module


class _Weights:
    """Tensors by their names in the model, or else in the captured program."""

    def __init__(self, program: torch.fx.GraphModule, model: torch.nn.Module | None) -> None:
        self._program = program
        self._model = model
        self.constants: set[str] = set()  # that tracing made
        whose = program if model is None else model
        self.transient = {
            f"{path}.{name}".lstrip(".") for path, m in whose.named_modules() for name in m._non_persistent_buffers_set
        }

    def __call__(self, target: str, name: str) -> torch.Tensor:
        captured = fetch(self._program, target)
        if self._model is None:
            return captured
        try:
            value = fetch(self._model, name)
        except AttributeError:
            if isinstance(captured, torch.nn.Parameter) or captured.device.type == "meta":
                raise Error(
                    "not_found", "model", f"has no {name}", "give the model that was captured, or one like it"
                ) from None
            self.transient.add(name)
            self.constants.add(name)
            return captured
        if value.shape != captured.shape or value.dtype != captured.dtype:
            what = f"{name} is {tuple(value.shape)} {value.dtype}, not {tuple(captured.shape)} {captured.dtype}"
            raise Error("value", "model", what, "give the model that was captured, or one like it")
        return value


def split(plan: Plan, model: torch.nn.Module | None, device: Any) -> list[torch.fx.GraphModule]:
    """As `Plan.split`."""
    if plan.graph.program is None:
        raise Error("value", "graph", "was loaded, so it has no code", "capture the model, and plan that")
    program = graph_module(plan.graph.program)
    nodes = [node for node in program.graph.nodes if not is_dropped(node)]
    constants = _constants(nodes)
    stage_of = _place(nodes, constants, plan.stage_of)
    last_read: dict[Node, int] = {}
    for node in nodes:
        reader = plan.num_stages - 1 if node.op == "output" else stage_of.get(node)
        if reader is not None:
            for source in node.all_input_nodes:
                last_read[source] = max(reader, last_read.get(source, 0))
    weights = _Weights(program, model)
    made = []
    for stage in range(plan.num_stages):
        arrives = [n for n in nodes if n in stage_of and stage_of[n] < stage <= last_read.get(n, -1)]
        leaves = [n for n in nodes if n in stage_of and stage_of[n] <= stage < last_read.get(n, -1)]
        if stage == 0:
            arrives = [node for node in nodes if node.op == "placeholder"]
        builder = _Builder(plan, stage, weights, program, constants, device)
        made.append(builder.build([n for n in nodes if stage_of.get(n) == stage], arrives, leaves))
    _describe(made, [node.meta.get("val") for node in nodes if node.op == "placeholder"])
    return made


def _describe(stages: Sequence[torch.fx.GraphModule], inputs: Sequence[Any]) -> None:
    """Sets what each stage takes and returns, as tensors on meta: torch's stages need not try it out then."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)

    def as_meta(tensor: torch.Tensor) -> torch.Tensor:
        like = torch.empty_strided(tuple(tensor.shape), tensor.stride(), dtype=tensor.dtype, device="meta")
        return like.requires_grad_(tensor.requires_grad)

    def fake(tensor: Any, device: torch.device) -> Any:
        if not isinstance(tensor, torch.Tensor):
            return tensor
        like = torch.empty_strided(tuple(map(int, tensor.shape)), tensor.stride(), dtype=tensor.dtype, device=device)
        return like.requires_grad_(tensor.requires_grad and tensor.is_floating_point())

    given: Any = tuple(inputs)
    for stage in stages:
        with mode, torch.enable_grad():
            device = _device_of([*stage.parameters(), *stage.buffers()]) or torch.device("cpu")
            owned = {n: fake(t, t.device) for n, t in [*stage.named_parameters(), *stage.named_buffers()]}
            given = tuple(fake(one, device) for one in given)
            returned = torch.func.functional_call(stage, owned, given)
        stage.meta["input_args"] = tuple(as_meta(one) for one in given if isinstance(one, torch.Tensor))
        given = returned if isinstance(returned, tuple) else (returned,)
        stage.meta["output_args"] = tuple(as_meta(one) for one in given)


class _Builder:
    """One stage's graph and what it owns."""

    def __init__(
        self,
        plan: Plan,
        stage: int,
        weights: _Weights,
        program: torch.fx.GraphModule,
        constants: set[Node],
        device: Any,
    ) -> None:
        self._plan = plan
        self._stage = stage
        self._weights = weights
        self._program = program
        self._constants = constants
        self._device = None if device is None else torch.device(device)
        self._graph = torch.fx.Graph()
        self._of: dict[Node, Node] = {}
        self._sent: dict[Node, Node] = {}  # as they travel, of values that arrived
        self._owned: dict[str, Any] = {}

    def build(self, nodes: Sequence[Node], arrives: Sequence[Node], leaves: Sequence[Node]) -> torch.fx.GraphModule:
        """The stage that runs these; it takes what arrives and returns what leaves, the last one the model's output."""
        outputs: Any = list(leaves)
        if self._stage == self._plan.num_stages - 1:
            output = next(node for node in self._program.graph.nodes if node.op == "output")
            outputs = [leaf for leaf in pytree.tree_leaves(output.args) if isinstance(leaf, Node)]
        for node in arrives:
            self._of[node] = self._sent[node] = self._graph.placeholder(node.name)
        for node in arrives if self._stage > 0 else ():
            order = _travel_order(node)
            if order:
                back = [order.index(dim) for dim in range(len(order))]
                self._of[node] = self._graph.call_function(torch.ops.aten.permute.default, (self._of[node], back))
        for node in [*nodes, *outputs]:
            for source in [*node.all_input_nodes, node]:
                self._fetch(source)
        if self._device is None:
            tensors = [value for value in self._owned.values() if isinstance(value, torch.Tensor)]
            self._device = _device_of(tensors)
        for node in [*nodes, *outputs]:
            self._run(node)
        is_last = self._stage == self._plan.num_stages - 1
        returned = tuple(self._of[node] if is_last else self._send(node) for node in outputs)
        self._graph.output(returned[0] if len(returned) == 1 else returned)
        self._graph.lint()
        for name, value in self._owned.items():
            if isinstance(value, torch.fx.GraphModule):
                self._owned[name] = _subgraph(value, self._device)
            elif name in self._weights.constants and self._device is not None:
                self._owned[name] = value.to(self._device)
        constants = {made for node, made in self._of.items() if node in self._constants}
        module = fold(self._owned, self._graph, constants, f"Stage{self._stage}")
        for name in self._owned:
            if name in self._weights.transient:
                parent, _, leaf = name.rpartition(".")
                module.get_submodule(parent)._non_persistent_buffers_set.add(leaf)
        module.meta["stage_index"] = self._stage  # copies keep it
        return module

    def _send(self, node: Node) -> Node:
        """A value as the next stage takes it: processes send only what is contiguous."""
        if self._stage > 0 and node in self._sent:
            return self._sent[node]
        value, order = self._of[node], _travel_order(node)
        if order is None:
            return value
        if order:
            value = self._graph.call_function(torch.ops.aten.permute.default, (value, order))
        return self._graph.call_function(torch.ops.aten.contiguous.default, (value,))

    def _fetch(self, node: Node) -> None:
        """Owns what the operator reads of the model."""
        if node in self._constants:
            for source in node.all_input_nodes:
                self._fetch(source)
        if node.op != "get_attr" or node in self._of:
            return
        target = str(node.target)
        value = fetch(self._program, target)
        name = target
        if isinstance(value, torch.Tensor):
            name = self._plan.weight_name(target, self._stage)
            value = self._weights(target, name)
        self._owned[name] = value
        self._of[node] = self._graph.get_attr(name)

    def _run(self, node: Node) -> Node:
        """The stage's node for one of the program; constants are run here, too."""
        if node not in self._of:
            for source in node.all_input_nodes:
                if source in self._constants:
                    self._run(source)
            made = self._graph.node_copy(node, lambda source: self._of[source])
            made.args, made.kwargs = _on(self._device, made.args), _on(self._device, made.kwargs)
            self._of[node] = made
        return self._of[node]


def sync_tied(
    plan: Plan,
    stages: torch.nn.Module | Sequence[torch.nn.Module],
    group: dist.ProcessGroup | None,
    rank_of: Callable[[int], int] | None,
) -> None:
    """As `Plan.sync_tied`. The first stage's process sums, in the order of the stages, and sends the sum back."""
    modules: list[Any] = [stages] if isinstance(stages, torch.nn.Module) else list(stages)
    own = {module.meta["stage_index"]: module for module in modules}
    tied = plan.tied
    if not tied:
        return
    is_alone = all(stage in own for weight in tied for stage in weight.stages)
    size = 1 if is_alone else dist.get_world_size(group)
    rank = 0 if is_alone else dist.get_rank(group)

    def place(stage: int) -> int:
        if is_alone:
            return 0
        return stage % size if rank_of is None else rank_of(stage)

    def peer(stage: int) -> int:
        return place(stage) if group is None else dist.get_global_rank(group, place(stage))

    for weight in tied:
        if all(place(stage) != rank for stage in weight.stages):
            continue
        parameters = {stage: own[stage].get_parameter(weight.names[stage]) for stage in weight.stages if stage in own}
        gradients: dict[int, torch.Tensor] = {}
        for stage, parameter in parameters.items():
            is_counted = any(parameter is parameters[before] for before in gradients)  # stages of one process share it
            has_none = is_counted or parameter.grad is None
            gradients[stage] = torch.zeros_like(parameter) if has_none else parameter.grad
        owner = weight.stages[0]
        remote = [stage for stage in weight.stages[1:] if place(stage) != rank]
        if place(owner) == rank:
            total = gradients[owner].clone()
            for stage in weight.stages[1:]:
                part = gradients.get(stage)
                if part is None:
                    part = torch.empty_like(total)
                    dist.recv(part, peer(stage), group=group)
                total += part
            for other in dict.fromkeys(peer(stage) for stage in remote):
                dist.send(total, other, group=group)
        else:
            for stage in sorted(gradients):
                dist.send(gradients[stage].contiguous(), peer(owner), group=group)
            total = torch.empty_like(next(iter(gradients.values())))
            dist.recv(total, peer(owner), group=group)
        for parameter in parameters.values():
            if parameter.grad is None:
                parameter.grad = total.clone()
            else:
                parameter.grad.copy_(total)
