"""The critical path of torch.fx's cost model on small graphs: every assignment of operators to devices is tried.

Rules: docs/partition.md#the-critical-path-of-torchfxs-model-shortened, docs/formats.md (fx_graph, placement), and the
header critical_path_check.h. No partition is faster than its operators by themselves, so that each operator is a
partition of its own in what is tried; what the answer merges is judged as it is.
"""

import itertools
import math

from campaign import judge_answer, require


def random_document(random):
    nodes, operators = [], []
    for i in range(random.randint(1, 2)):
        size = random.randint(1, 6)
        nodes.append({"name": f"x{i}", "op": random.choice(["placeholder", "get_attr"]), "output_size": size})
        nodes[-1]["total_size"] = size
    for i in range(random.randint(1, 6)):
        name = f"n{i}"
        args = [n["name"] for n in nodes if random.randrange(3) == 0] or [random.choice(nodes)["name"]]
        size = random.randint(0, 6)
        nodes.append({"name": name, "op": random.choice(["call_module", "call_function"]), "args": args})
        nodes[-1] |= {"output_size": size, "total_size": size + random.choice([0, random.randint(0, 9)])}
        operators.append(name)
    nodes.append({"name": "output", "op": "output", "args": [operators[-1]]})
    roomy = random.randrange(3) == 0
    devices = [
        {"name": f"dev_{d}", "mem": 1000 if roomy else random.randint(5, 40), "id": d}
        for d in range(random.choice([1, 2, 2, 3, 3]))
    ]
    return {
        "schema": "plimsoll.fx_graph/1",
        "nodes": nodes,
        "devices": devices,
        "transfer_rate": random.choice([1000, 4000]),
        "latency": {name: [random.randint(0, 16) / 8000, random.randint(0, 16) / 8000] for name in operators},
    }


class FxGraph:
    def __init__(self, document):
        self.document = document
        self.nodes = {n["name"]: n for n in document["nodes"]}
        self.operators = [n["name"] for n in document["nodes"] if n["op"].startswith("call")]
        self.reads = {name: list(dict.fromkeys(self.nodes[name]["args"])) for name in self.operators}

    def is_source(self, name):
        return self.nodes[name]["op"] in ("placeholder", "get_attr")

    def sources_of(self, operators):
        return {r for name in operators for r in self.reads[name] if self.is_source(r)}

    def bytes_of(self, operators):
        """Of a device: its operators, each source that they read, and each value from elsewhere, once."""
        read = {r for name in operators for r in self.reads[name]}
        held = set(operators) | {r for r in read if self.is_source(r)}
        return sum(self.nodes[n]["total_size"] for n in held) + sum(self.nodes[n]["output_size"] for n in read - held)

    def fits(self, device):
        """`device`: by operator."""
        return all(
            self.bytes_of([name for name in self.operators if device[name] == d]) <= made["mem"]
            for d, made in enumerate(self.document["devices"])
        )

    def seconds(self, name):
        return max(self.document["latency"][name])

    def own_path(self, operators):
        """The longest path within a partition."""
        longest = {}
        for name in self.operators:  # in graph order
            if name in operators:
                before = [longest[r] for r in self.reads[name] if r in longest]
                longest[name] = max(before, default=0.0) + self.seconds(name)
        return max(longest.values())

    def critical_path(self, partitions, device):
        """`partitions`: lists of operators; `device`: by operator. Infinite where partitions wait in a circle."""
        home = {name: p for p, names in enumerate(partitions) for name in names}
        sent = {}  # values by (from, to)
        for name in self.operators:
            for r in self.reads[name]:
                if not self.is_source(r) and home[r] != home[name]:
                    sent.setdefault((home[r], home[name]), set()).add(r)
        finish = {}
        while len(finish) < len(partitions):
            ready = [
                p for p in range(len(partitions)) if p not in finish and all(a in finish for a, b in sent if b == p)
            ]
            if not ready:
                return math.inf
            for p in ready:
                starts = [0.0]
                for (a, b), values in sent.items():
                    if b == p:
                        is_near = device[partitions[a][0]] == device[partitions[b][0]]
                        # torch counts what the reader reads and the sender holds: sources that both read, too.
                        shared = self.sources_of(partitions[a]) & self.sources_of(partitions[b])
                        size = sum(self.nodes[v]["output_size"] for v in values | shared)
                        starts.append(finish[a] + (0 if is_near else size / self.document["transfer_rate"]))
                finish[p] = max(starts) + self.own_path(partitions[p])
        return max(finish.values())

    def best(self):
        """Seconds; infinite where nothing fits."""
        best = math.inf
        for choice in itertools.product(range(len(self.document["devices"])), repeat=len(self.operators)):
            device = dict(zip(self.operators, choice, strict=True))
            if self.fits(device):
                best = min(best, self.critical_path([[name] for name in self.operators], device))
        return best


def critical_path(program, random):
    document = random_document(random)
    graph = FxGraph(document)
    program.write("fx.json", document)
    code, answer = program.run("partition", "fx.json", "--objective", "fx", "-o", "answer.json")
    found = None
    if "stages" in answer:
        partitions, device = [], {}
        for stage in answer["stages"]:
            operators = [name for name in stage["nodes"] if name in graph.reads]
            require(len(stage["devices"]) == 1 and operators, "a partition", stage)
            device |= {name: stage["devices"][0] for name in operators}
            partitions.append(operators)
        require(sorted(device) == sorted(graph.operators), "not every operator once", partitions)
        require(graph.fits(device), "the plan does not fit", partitions)
        found = graph.critical_path(partitions, device) * 1000
        require(not math.isinf(found), "partitions wait for each other", partitions)
        check_code, report = program.run("check", "fx.json", "answer.json")
        require(check_code == 0 and report["is_right"], "check:", report)
    best = graph.best()
    judge_answer(code, answer, value_of_plan=found, optimum=None if math.isinf(best) else best * 1000)
    return f"fx {answer['status']}"
