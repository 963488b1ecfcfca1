#!/usr/bin/env python3
"""Writes records of torch.fx's accelerator Partitioner on random graphs.

    make_torch_cases.py FIRST_SEED COUNT [MODE] > cases.json

One record for each seed, in the shape that tests/data/golden/README.md describes, under
`expected_torch_2_13`. Needs torch 2.13. Sets are iterated in graph order, as our own search does;
sizes are given as uint8 tensors and parameters on the meta device.
"""

import contextlib
import io
import json
import random
import signal
import sys

import torch
from torch.fx import Graph, GraphModule
from torch.fx.experimental import accelerator_partitioner, partitioner_utils
from torch.fx.passes.shape_prop import TensorMetadata


class InOrder:
    """A set that is iterated by `rank`, an attribute or a partition's id."""

    def __init__(self, members=()):
        self.members = dict.fromkeys(members)

    def __iter__(self):
        def key(m):
            return getattr(m, "_rank", None) if hasattr(m, "_rank") else m.partition_id

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
        member = next(iter(self.members))
        del self.members[member]
        return member

    def copy(self):
        return InOrder(self.members)

    def union(self, other):
        return InOrder([*self.members, *other])

    def intersection(self, other):
        return InOrder(m for m in self.members if m in other)


accelerator_partitioner.set = InOrder
partitioner_utils.set = InOrder


class Stub(torch.nn.Module):
    def __init__(self, num_bytes):
        super().__init__()
        self.w = torch.nn.Parameter(torch.empty(num_bytes, dtype=torch.uint8, device="meta"), requires_grad=False)


class EmbeddingStub(Stub):
    pass


def function(*args):
    return args[0]


def random_case(seed, only_mode=None):
    rng = random.Random(seed)
    mode = only_mode or rng.choice(
        ["size_based", "sparse_nn", "cost_aware", "cost_aware", "kl_based", "kl_based", "aot_based"]
    )
    num_ops = rng.choice([1, 2, 3, 5, 8, 12, 16])
    if mode in ("size_based", "aot_based", "sparse_nn") and rng.random() < 0.5:
        num_ops = rng.choice([20, 30])
    grain = rng.choice([1, 10, 10, 100])
    zeros = 0.1 if rng.random() < 0.2 else 0.0

    def size(limit):
        return 0 if rng.random() < zeros else grain * rng.randint(1, limit)

    nodes = []
    reserved = rng.random() < 0.15

    def add(name, op, args, output, total=None, **more):
        nodes.append(
            {
                "name": name,
                "op": op,
                "args": args,
                "output_size": output,
                "total_size": output if total is None else total,
                **more,
            }
        )

    for i in range(rng.randint(1, 3)):
        if reserved and i == 0:
            add("input_1", "placeholder", [], size(6), target="input")
        else:
            add(f"x{i}", "placeholder", [], size(6))
    width = rng.choice([1, 2, 4, 30])
    for i in range(num_ops):
        if rng.random() < 0.2:
            add(f"c{i}", "get_attr", [], size(6))
        known = [n["name"] for n in nodes]
        ops = [n["name"] for n in nodes if n["op"].startswith("call")]
        args = [rng.choice(ops[-width:])] if ops and rng.random() < 0.85 else [rng.choice(known)]
        for _ in range(rng.choice([0, 0, 1, 1, 2])):
            args.append(rng.choice(known))
        kind = rng.choice(["call_function", "call_method", "call_module", "call_module"])
        output = size(6)
        if kind == "call_module" and mode == "sparse_nn" and rng.random() < 0.5:
            add(f"m{i}", kind, args, output, output + size(rng.choice([20, 200])), embedding=True)
        elif kind == "call_module":
            add(f"m{i}", kind, args, output, output + size(20))
        else:
            add(f"f{i}", kind, args, output)
    if rng.random() < 0.15:
        add("dead", "call_function", [nodes[0]["name"]], size(6))
    used = {a for n in nodes for a in n["args"]}
    ends = [n["name"] for n in nodes if n["name"] not in used and n["op"].startswith("call") and n["name"] != "dead"]
    if rng.random() < 0.3:
        ends.append(rng.choice([n["name"] for n in nodes]))
    nodes.append({"name": "output", "op": "output", "args": ends})

    total = sum(n["total_size"] for n in nodes[:-1])
    num_devices = rng.choice([1, 2, 3, 3, 4, 4, 5, 6])
    share = max(1, int(total * rng.choice([0.9, 1.3, 1.8, 1.8, 2.6, 2.6]) / num_devices))
    equal = mode == "sparse_nn" and rng.random() < 0.95
    devices = [
        {
            "name": f"d{i}",
            "mem": share if equal else max(1, int(share * rng.uniform(0.6, 1.4))),
            "id": rng.choice([i, i, i, 10 + i]),
        }
        for i in range(num_devices)
    ]
    if rng.random() < 0.05:
        devices.append(dict(devices[0]))
    if rng.random() < 0.05:
        devices[-1]["id"] = devices[0]["id"]
    case = {"nodes": nodes, "devices": devices, "mode": mode}
    op_names = [n["name"] for n in nodes if n["op"].startswith("call")]
    if mode in ("cost_aware", "kl_based") or rng.random() < 0.2:
        case["transfer_rate"] = rng.choice([0.3, 1.0, 7.0, 8.0, 1e9]) if rng.random() < 0.97 else 0.0
        scale = rng.choice([1.0, 0.1, 1e-3])
        tick = rng.choice([4, 40])
        case["latency"] = {
            n: [rng.randint(0, tick) * scale, rng.randint(0, tick) * scale] for n in op_names if rng.random() < 0.998
        }
    if mode == "aot_based":
        count = rng.randint(1, 4)
        order = list(op_names)
        rank = {n: i for i, n in enumerate(order)}
        if rng.random() < 0.3:
            rng.shuffle(order)
        mapping = {n: min(count - 1, rank[n] * count // len(op_names)) for n in order}
        if rng.random() < 0.3:
            mapping[rng.choice(order)] = rng.randint(0, count)
        if rng.random() < 0.1:
            mapping.pop(order[0])
        case["node_to_partition"] = mapping
        case["partition_to_devices"] = {
            str(k): rng.sample([d["id"] for d in devices], rng.randint(1, len(devices)))
            for k in sorted(set(mapping.values()))
            if rng.random() < 0.98
        }
    if rng.random() < 0.25:
        case["saturate_host"] = True
    return {"id": f"live-{seed}", "input": case}


def build(case):
    graph, root, nodes = Graph(), torch.nn.Module(), {}
    for rank, n in enumerate(case["nodes"]):
        args = tuple(nodes[a] for a in n["args"])
        target = n.get("target", n["name"])
        if n["op"] == "output":
            node = graph.output(args)
        else:
            if n["op"] == "call_module":
                target = "m_" + n["name"]
                stub = EmbeddingStub if n.get("embedding") else Stub
                setattr(root, target, stub(n["total_size"] - n["output_size"]))
            elif n["op"] == "call_function":
                target = function
            elif n["op"] == "get_attr":
                setattr(root, target, torch.nn.Parameter(torch.zeros(1), requires_grad=False))
            node = graph.create_node(n["op"], target, args, name=n["name"])
            assert node.name == n["name"], (node.name, n["name"])
            node.meta["tensor_meta"] = TensorMetadata(
                shape=torch.Size([n["output_size"]]),
                dtype=torch.uint8,
                requires_grad=False,
                stride=(1,),
                memory_format=None,
                is_quantized=False,
                qparams={},
            )
        node._rank = rank
        nodes[n["name"]] = node
    return GraphModule(root, graph), root, nodes


def run(case):
    module, root, nodes = build(case)
    expected = {"total_size_of_graph": sum(n.get("total_size", 0) for n in case["nodes"])}
    latency = {nodes[k]: partitioner_utils.NodeLatency(*v) for k, v in case.get("latency", {}).items()}
    config = partitioner_utils.PartitionerConfig(
        [partitioner_utils.Device(d["name"], d["mem"], d["id"]) for d in case["devices"]],
        partitioner_utils.PartitionMode[case["mode"]],
        case.get("transfer_rate", 0.0),
        latency,
        {nodes[k]: v for k, v in case.get("node_to_partition", {}).items()},
        {int(k): list(v) for k, v in case.get("partition_to_devices", {}).items()},
        case.get("saturate_host", False),
    )
    partitioner = accelerator_partitioner.Partitioner()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            result = partitioner.partition_graph(module, root, config)
    except Exception as error:  # what upstream raises is the answer
        text = error.args[0] if error.args else ""
        if isinstance(error, RecursionError):  # the rest of the text says where it was noticed
            text = "maximum recursion depth exceeded"
        expected["error"] = f"{type(error).__name__}: {text}"
        return expected
    parts = partitioner.partitions
    expected["partitions"] = [
        {
            "id": p.partition_id,
            "nodes": [n.name for n in p.nodes],
            "used_mem_bytes": p.used_mem_bytes,
            "logical_device_ids": p.logical_device_ids,
            "parents": [q.partition_id for q in p.parents],
            "children": [q.partition_id for q in p.children],
            "bfs_level": p.bfs_level,
        }
        for p in parts
    ]
    expected["node_to_partition"] = {n.name: k for n, k in partitioner.node_to_partition.items()}
    expected["dag"] = [
        {
            "name": d.submodule_node.name,
            "inputs": [n.name for n in d.input_nodes],
            "outputs": [n.name for n in d.output_nodes],
            "logical_device_ids": d.logical_device_ids,
            "size_bytes": d.size_bytes,
        }
        for d in result.dag.nodes
    ]
    base = result.module_with_submodules.graph
    expected["base_graph"] = [n.name for n in base.nodes]
    expected["num_nodes_in_split_module"] = len(base.nodes)
    if "latency" in case:
        with contextlib.suppress(KeyError, ZeroDivisionError, RecursionError):
            latencies = partitioner_utils.get_partition_to_latency_mapping(parts, latency)
            expected["partition_latency"] = [list(latencies[p]) for p in parts]
            expected["critical_path_latency"] = partitioner_utils.get_latency_of_partitioned_graph(
                parts, latencies, case["transfer_rate"]
            )
    return expected


class OutOfTime(BaseException):
    """Upstream loops for ever, or walks too many paths."""


def out_of_time(*_):
    raise OutOfTime


def main():
    first, count = int(sys.argv[1]), int(sys.argv[2])
    cases = []
    signal.signal(signal.SIGALRM, out_of_time)
    for seed in range(first, first + count):
        record = random_case(seed, sys.argv[3] if len(sys.argv) > 3 else None)
        signal.alarm(10)
        try:
            record["expected_torch_2_13"] = run(record["input"])
            cases.append(record)
        except OutOfTime:
            print(record["id"], "left out", file=sys.stderr)
        signal.alarm(0)
    print('{"cases":[')
    print(",\n".join(json.dumps(c, separators=(",", ":")) for c in cases))
    print("]}")


if __name__ == "__main__":
    main()
