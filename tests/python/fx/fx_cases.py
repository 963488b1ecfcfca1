"""Random modules and configurations for torch.fx's partitioner, and what a partitioner makes of them as plain data."""

import contextlib
import dataclasses
import io
import random
from unittest import mock

import torch
import torch.nn.functional as F
from torch import nn
from torch.fx.experimental import accelerator_partitioner, partitioner_utils
from torch.fx.graph_module import GraphModule
from torch.fx.passes.graph_manipulation import get_size_of_all_nodes

MODES = ("size_based", "sparse_nn", "cost_aware", "kl_based", "aot_based")
BATCH, WIDTH = 4, 8


class Tower(nn.Module):
    """A container whose printed text speaks of an embedding, so that its dense layer counts as one."""

    def __init__(self, rows):
        super().__init__()
        self.table = nn.EmbeddingBag(rows, WIDTH, mode="sum")
        self.dense = nn.Linear(WIDTH, WIDTH)

    def forward(self, ids):
        return self.dense(self.table(ids))


class RandomModule(nn.Module):
    """Steps drawn once; `forward` repeats them."""

    def __init__(self, rng, num_steps, tables, rows):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(WIDTH))
        self.register_buffer("shift", torch.rand(BATCH, WIDTH))
        self.inner = nn.ModuleDict()
        self.steps = []
        reach = rng.choice([1, 2, 4, 30])
        kinds = ["linear", "relu", "norm", "block", "add", "mul", "cat", "method", "scale", "shift", "twice", "keyword"]
        for i in range(num_steps):
            kind = "table" if rng.random() < tables else rng.choice(kinds)
            if kind == "table" and rng.random() < 0.3:
                kind = "tower"
            if rng.random() < 0.02:
                kind = rng.choice(["chunk", "size", "empty", "double", "dead", "again"])
            if kind == "linear":
                self.inner[f"m{i}"] = nn.Linear(WIDTH, WIDTH, bias=rng.random() < 0.5)
            elif kind == "relu":
                self.inner[f"m{i}"] = rng.choice([nn.ReLU, nn.GELU, nn.Dropout, nn.Identity])()
            elif kind == "norm":
                self.inner[f"m{i}"] = rng.choice([nn.LayerNorm, nn.BatchNorm1d])(WIDTH)
            elif kind == "block":
                self.inner[f"m{i}"] = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.Tanh(), nn.Linear(2 * WIDTH, WIDTH))
            elif kind == "cat":
                self.inner[f"m{i}"] = nn.Linear(2 * WIDTH, WIDTH)
            elif kind == "table":
                self.inner[f"m{i}"] = nn.EmbeddingBag(rng.choice(rows), WIDTH, mode="sum")
            elif kind == "tower":
                self.inner[f"m{i}"] = Tower(rng.choice(rows))
            recent = [-rng.randint(1, reach) for _ in range(2)]
            self.steps.append((kind, f"m{i}", *recent))
        self.num_outputs = rng.choice([1, 1, 1, 2, 3])
        self.form = rng.choice([tuple, list, lambda values: {f"y{i}": value for i, value in enumerate(values)}])
        self.sums = rng.random() < 0.5  # nothing is left unread

    def forward(self, x, y, ids):
        values = [x, y]
        for kind, name, i, j in self.steps:
            a, b = values[max(i, -len(values))], values[max(j, -len(values))]
            inner = self.inner[name] if name in self.inner else None
            if kind in ("linear", "relu", "norm", "block"):
                value = inner(a)
            elif kind in ("table", "tower"):
                value = inner(ids)
            elif kind == "add":
                value = torch.add(a, b)
            elif kind == "mul":
                value = a * b
            elif kind == "cat":
                value = inner(torch.cat((a, b), dim=1))
            elif kind == "method":
                value = a.sigmoid().add(b)
            elif kind == "scale":
                value = F.relu(a) * self.scale
            elif kind == "shift":
                value = a - self.shift
            elif kind == "twice":
                value = a + a
            elif kind == "keyword":
                value = torch.sub(input=a, other=b, alpha=2)
            elif kind == "chunk":  # several values: torch reads no size off them
                value = torch.chunk(a, 2, dim=1)[0].repeat(1, 2)
            elif kind == "size":  # a number: the same
                value = a.reshape(a.size(0), WIDTH)
            elif kind == "empty":  # no bytes
                value = a + torch.sum(torch.relu(b[:0]))
            elif kind == "double":
                value = a.double().float()
            elif kind == "dead":
                torch.exp(a)
                value = b
            elif kind == "again":  # one module, two calls
                value = self.inner[next(iter(self.inner))](ids if isinstance(inner, nn.EmbeddingBag) else a)
            values.append(value)
        outputs = values[-self.num_outputs :]
        if self.sums:
            for value in values[2 : -self.num_outputs]:
                outputs[0] = outputs[0] + value
        return outputs[0] if len(outputs) == 1 else self.form(outputs)


@dataclasses.dataclass
class Case:
    """One module, traced, and what a partitioner is asked of it."""

    model: nn.Module
    traced: GraphModule
    inputs: tuple
    mode: str
    devices: list
    rate: float
    latencies: dict
    node_to_partition: dict
    partition_to_devices: dict
    saturate_host: bool

    def config(self, modes=partitioner_utils.PartitionMode, make=partitioner_utils.PartitionerConfig, mode=None):
        """The configuration in torch's classes, or ours."""
        return make(
            list(self.devices),
            modes[mode or self.mode],
            self.rate,
            self.latencies,
            self.node_to_partition,
            self.partition_to_devices,
            self.saturate_host,
        )


def make_case(seed):
    """The same for the same seed; sizes are noted, but for what has none."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    mode = MODES[seed % len(MODES)]
    most = {"cost_aware": 8, "kl_based": 16}.get(mode, 24)
    tables, rows = (rng.choice([0.3, 0.6]), [500, 1000]) if mode == "sparse_nn" else (0.05, [10, 50, 200])
    while True:
        model = RandomModule(rng, rng.randint(1, most), tables, rows).eval()
        inputs = (torch.rand(BATCH, WIDTH), torch.rand(BATCH, WIDTH), torch.randint(10, (BATCH, 3)))
        try:
            model(*inputs)
            break
        except Exception:  # a table where a tensor was expected
            continue
    traced = torch.fx.symbolic_trace(model)
    with contextlib.suppress(RuntimeError, AttributeError):
        get_size_of_all_nodes(traced, list(inputs))
    nodes = list(traced.graph.nodes)
    operators = [node for node in nodes if node.op.startswith("call")]
    total = sum(node.size_bytes.total_size for node in nodes if hasattr(node, "size_bytes"))

    count = rng.choice([1, 2, 3, 3, 4, 4, 5, 6])
    room = rng.choice([1.3, 2.0, 2.6, 3.5] if mode == "sparse_nn" else [0.95, 1.3, 1.6, 2.0])
    share = total * (1.2 if rng.random() < 0.1 else room / count)
    equal = mode == "sparse_nn" and rng.random() < 0.9
    devices = [
        partitioner_utils.Device(
            f"dev_{i}",
            int(share if equal else share * rng.uniform(0.6, 1.4)) + 1,
            i if rng.random() < 0.9 else 10 + i,
        )
        for i in range(count)
    ]
    if rng.random() < 0.05:
        devices[-1] = devices[-1]._replace(logical_id=devices[0].logical_id)
    if rng.random() < 0.05:
        devices.append(devices[0])
    if rng.random() < 0.02:
        devices = []
    rate = rng.choice([1.0, 100.0, 1e4, 1e9]) if rng.random() < 0.95 else 0
    scale = rng.choice([1.0, 0.1, 1e-3])
    latencies = {
        node: partitioner_utils.NodeLatency(rng.randint(0, 60) * scale, rng.randint(0, 60) * scale)
        for node in operators
        if rng.random() < 0.998
    }
    node_to_partition, partition_to_devices = {}, {}
    if mode == "aot_based":
        parts = rng.randint(1, 4)
        for place, node in enumerate(operators):
            node_to_partition[node] = min(parts - 1, place * parts // len(operators))
        if rng.random() < 0.2:  # ids that are not places, or a cycle
            node_to_partition[rng.choice(operators)] = rng.randint(0, parts)
        if rng.random() < 0.1:
            node_to_partition.pop(operators[-1])
        lists = [[rng.choice([d.logical_id for d in devices] or [0])] for _ in range(2)]
        for part in sorted(set(node_to_partition.values())):
            if rng.random() < 0.98:  # some share a list
                partition_to_devices[part] = rng.choice([*lists, [rng.randint(0, count)]])
    saturate = rng.random() < 0.3
    return Case(
        model, traced, inputs, mode, devices, rate, latencies, node_to_partition, partition_to_devices, saturate
    )


class InOrder:
    """A set that is iterated in graph order, or by the partitions' numbers, as the native engine does."""

    def __init__(self, members=()):
        self.members = dict.fromkeys(members)

    def __iter__(self):
        def key(member):
            return member._sort_key if hasattr(member, "_sort_key") else (member.partition_id,)

        return iter(sorted(self.members, key=key))

    def __len__(self):
        return len(self.members)

    def __contains__(self, member):
        return member in self.members

    def add(self, member):
        self.members[member] = None

    def remove(self, member):
        del self.members[member]

    def pop(self):
        member = next(iter(self))
        del self.members[member]
        return member

    def copy(self):
        return InOrder(self.members)

    def union(self, other):
        return InOrder([*self.members, *other])

    def intersection(self, other):
        return InOrder(m for m in self.members if m in other)


@contextlib.contextmanager
def sets_in_order():
    """torch's partitioner takes the first of equal swaps in the order of its sets, which is that of addresses."""
    with contextlib.ExitStack() as stack:
        for module in (accelerator_partitioner, partitioner_utils):
            stack.enter_context(mock.patch.object(module, "set", InOrder, create=True))
        yield


def same(ours, theirs):
    """Equal to the last bit, tensors too?"""
    if isinstance(ours, torch.Tensor):
        return torch.equal(ours, theirs)
    if isinstance(ours, dict):
        return ours.keys() == theirs.keys() and all(same(ours[key], theirs[key]) for key in ours)
    return type(ours) is type(theirs) and len(ours) == len(theirs) and all(map(same, ours, theirs))


def error_of(error):
    """Type and text; of a KeyError also what its key is."""
    key = error.args[0] if error.args else None
    if isinstance(error, RecursionError):  # the rest says where it was noticed
        return ["RecursionError"]
    return [type(error).__name__, type(key).__name__ if isinstance(error, KeyError) else "", str(error)]


def record(make_partitioner, helpers, case, config):
    """What the partitioner leaves: partitions, DAG, graphs, what it printed, the critical path; or its error."""
    partitioner = make_partitioner()
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            result = partitioner.partition_graph(case.traced, case.model, config)
    except Exception as error:
        return {"error": error_of(error)}
    split = result.module_with_submodules
    left = {
        "partitions": [
            (
                p.partition_id,
                sorted(node.name for node in p.nodes),
                p.used_mem_bytes,
                p.logical_device_ids,
                sorted(q.partition_id for q in p.parents),
                sorted(q.partition_id for q in p.children),
                p.bfs_level,
            )
            for p in partitioner.partitions
        ],
        "lists": [
            [p.logical_device_ids is q.logical_device_ids for p in partitioner.partitions]
            for q in partitioner.partitions
        ],
        "node_to_partition": {node.name: k for node, k in partitioner.node_to_partition.items()},
        "dag": [
            (
                str(d),
                d.submodule_node.name,
                [node.name for node in d.input_nodes],
                [node.name for node in d.output_nodes],
                d.logical_device_ids,
                d.size_bytes,
            )
            for d in result.dag.nodes
        ],
        "base": str(split.graph),
        "submodules": {name: str(inner.graph) for name, inner in split.named_children() if hasattr(inner, "graph")},
        "tags": [getattr(node, "_fx_partition", None) for node in case.traced.graph.nodes],
        "printed": printed.getvalue(),
        "runs": same(split(*case.inputs), case.traced(*case.inputs))
        and same(split(*case.inputs), case.model(*case.inputs)),
    }
    try:
        latencies = helpers.get_partition_to_latency_mapping(partitioner.partitions, config.node_to_latency_mapping)
        left["latencies"] = [latencies[p].overall_latency_sec for p in partitioner.partitions]
        left["critical_path"] = helpers.get_latency_of_partitioned_graph(
            partitioner.partitions, latencies, config.transfer_rate_bytes_per_sec
        )
    except (KeyError, ZeroDivisionError, RecursionError) as error:
        left["latency_error"] = error_of(error)
    return left


class TorchHelpers:
    """torch's own."""

    get_partition_to_latency_mapping = staticmethod(partitioner_utils.get_partition_to_latency_mapping)
    get_latency_of_partitioned_graph = staticmethod(partitioner_utils.get_latency_of_partitioned_graph)


def torch_record(seed):
    """What torch's own partitioner leaves."""
    case = make_case(seed)
    order = sets_in_order() if case.mode == "kl_based" else contextlib.nullcontext()
    with order:
        return record(accelerator_partitioner.Partitioner, TorchHelpers, case, case.config())


def tagged(seed):
    """For messages."""
    case = make_case(seed)
    return f"seed {seed}: {case.mode}\n{case.traced.graph}"
