"""Placements of small operator graphs: throughput (any placement, and a line of devices), latency, pipelines, torch.fx.

Rules: docs/partition.md, docs/formats.md (cost_graph, placement), and the headers cost_graph.h, sample_latency.h and
replicated_stages.h. Profiles and torch.fx's critical path have files of their own.
"""

import itertools
import math

from campaign import is_near, judge_answer, main, require
from partition_fx import critical_path
from partition_profiles import profile

INFINITY = math.inf


def random_graph(random, max_nodes, *, has_pair_rates, has_backward):
    classes = [{"name": "big", "count": random.randint(1, 3), "link_rate": random.choice([1, 1, 2])}]
    if random.randrange(3) == 0:
        classes.append({"name": "small", "count": 1, "link_rate": 0.5})
    elif random.randrange(2) == 0:
        classes.append({"name": "host", "count": 1})
    num_nodes = random.randint(1, max_nodes)
    num_forward = random.randint((num_nodes + 1) // 2, num_nodes) if has_backward else num_nodes
    nodes = []
    for i in range(num_nodes):
        node = {"name": f"n{i}", "time_ms": {}}
        for c in classes:
            if len(classes) == 1 or random.randrange(8) != 0:
                node["time_ms"][c["name"]] = 0 if random.randrange(5) == 0 else random.randint(1, 30) / 8
        if not node["time_ms"]:
            node["time_ms"]["big"] = 1
        node["memory_bytes"] = random.choice([0, random.randint(1, 9)])
        if i >= num_forward:
            node["is_backward"] = True
            if random.randrange(4):
                mate = nodes[random.randrange(num_forward)]
                node["colour"] = mate.setdefault("colour", int(mate["name"][1:]))
        elif random.randrange(6) == 0:
            node["colour"] = 50
        nodes.append(node)
    num_devices = sum(c["count"] for c in classes)
    if random.randrange(4) == 0:
        random.choice(nodes)["pinned_device"] = random.randrange(num_devices)
    if random.randrange(4) == 0:
        random.choice(nodes)["forbidden_devices"] = [random.randrange(num_devices)]
    nets = []
    density = random.choice([0.2, 0.4, 0.7])
    for i in range(num_nodes):
        readers = [f"n{k}" for k in range(i + 1, num_nodes) if random.random() < density]
        if readers:
            nets.append({"producer": f"n{i}", "consumers": readers, "amount": random.randint(0, 12) / 8})
    weights = []
    for w in range(random.choice([0, 0, 1, 2])):
        readers = [n["name"] for n in nodes if random.randrange(3) == 0]
        weights.append({"name": f"w{w}", "bytes": random.randint(1, 8), "readers": readers})
    for c in classes:
        if random.randrange(2) == 0:
            c["memory_cap"] = random.randint(4, 30)
    graph = {"schema": "plimsoll.cost_graph/1", "classes": classes, "nodes": nodes, "nets": nets, "weights": weights}
    if has_pair_rates:
        rates = [[1.0] * num_devices for _ in range(num_devices)]
        for a in range(num_devices):
            for b in range(a):
                rates[a][b] = rates[b][a] = random.randint(1, 8) / 4
        graph["pair_rates"] = rates
    return graph


class Graph:
    """The document with numbers instead of names."""

    def __init__(self, document):
        self.nodes = document["nodes"]
        self.number = {node["name"]: i for i, node in enumerate(self.nodes)}
        self.devices = [c for c in document["classes"] for _ in range(c["count"])]
        self.nets = [
            (self.number[net["producer"]], [self.number[c] for c in net["consumers"]], net["amount"])
            for net in document["nets"]
        ]
        self.weights = [(w["bytes"], [self.number[r] for r in w["readers"]]) for w in document["weights"]]
        self.pair_rates = document.get("pair_rates")
        self.num_nodes, self.num_devices = len(self.nodes), len(self.devices)

    def may_run(self, node, device):
        n = self.nodes[node]
        return (
            self.devices[device]["name"] in n["time_ms"]
            and n.get("pinned_device", device) == device
            and device not in n.get("forbidden_devices", [])
        )

    def time(self, node, device):
        return self.nodes[node]["time_ms"][self.devices[device]["name"]]

    def rate(self, device):
        return self.devices[device].get("link_rate", INFINITY)

    def pair_rate(self, a, b):
        return self.pair_rates[a][b] if self.pair_rates else INFINITY

    def assignments(self):
        """All that permissions and colours allow."""
        groups = {}
        for i, node in enumerate(self.nodes):
            groups.setdefault(("colour", node["colour"]) if "colour" in node else i, []).append(i)
        groups = list(groups.values())
        allowed = [[d for d in range(self.num_devices) if all(self.may_run(i, d) for i in g)] for g in groups]
        for choice in itertools.product(*allowed):
            place = [0] * self.num_nodes
            for group, device in zip(groups, choice, strict=True):
                for i in group:
                    place[i] = device
            yield place

    def bytes_of(self, nodes):
        held = set(nodes)
        total = sum(self.nodes[i].get("memory_bytes", 0) for i in held)
        return total + sum(b for b, readers in self.weights if held.intersection(readers))

    def fits(self, place):
        for d in range(self.num_devices):
            held = self.bytes_of([i for i in range(self.num_nodes) if place[i] == d])
            if held > self.devices[d].get("memory_cap", held):
                return False
        return True

    def order(self):
        """(a, b): a's device may not stand behind b's."""
        has_forward = {n["colour"] for n in self.nodes if "colour" in n and not n.get("is_backward")}

        def is_backward(i):
            return bool(self.nodes[i].get("is_backward"))

        def is_alone(i):
            return is_backward(i) and self.nodes[i].get("colour") not in has_forward

        for producer, consumers, _ in self.nets:
            for consumer in consumers:
                if not is_backward(producer) and not is_backward(consumer):
                    yield producer, consumer
                if is_backward(producer) and is_backward(consumer) and (is_alone(producer) or is_alone(consumer)):
                    yield consumer, producer

    def is_line(self, place):
        """Can the parts stand in an order in which nothing travels backwards?"""
        edges = {(place[a], place[b]) for a, b in self.order() if place[a] != place[b]}
        left = set(place)
        while left:
            first = [p for p in left if not any(b == p and a in left for a, b in edges)]
            if not first:
                return False
            left.difference_update(first)
        return True

    def largest_load(self, place):
        load = [0.0] * self.num_devices
        for i, d in enumerate(place):
            load[d] += self.time(i, d)
        for producer, consumers, amount in self.nets:
            source = place[producer]
            holders = {source, *(place[c] for c in consumers)}
            if len(holders) < 2:
                continue
            for d in holders:
                others = [o for o in holders if o != source] if d == source else [source]
                load[d] += amount / min([self.rate(d), *(self.pair_rate(d, o) for o in others)])
        return max(load)

    def latency(self, place):
        """Of one sample; infinite where pieces wait for each other."""
        before = [[] for _ in range(self.num_nodes)]
        for producer, consumers, _ in self.nets:
            for consumer in consumers:
                before[consumer].append(producer)
        is_host = [math.isinf(self.rate(d)) for d in range(self.num_devices)]
        piece = [0] * self.num_nodes
        last = [{} for _ in range(self.num_nodes)]  # of each accelerator, on the paths to the node
        for i in range(self.num_nodes):  # nodes stand in topological order
            d = place[i]
            for p in before[i]:
                for device, k in last[p].items():
                    last[i][device] = max(last[i].get(device, 0), k)
            if is_host[d]:
                continue
            piece[i] = 1
            for p in before[i]:
                piece[i] = max(piece[i], last[p].get(d, 0) + (0 if place[p] == d else 1))
            last[i][d] = max(last[i].get(d, 0), piece[i])
        task = [("host", i) if is_host[place[i]] else (place[i], piece[i]) for i in range(self.num_nodes)]
        duration = {t: 0.0 for t in task}
        for i in range(self.num_nodes):
            duration[task[i]] += self.time(i, place[i])
        waits = {t: set() for t in task}
        for producer, consumers, amount in self.nets:
            source = place[producer]
            readers = {task[c]: place[c] for c in consumers if task[c] != task[producer]}
            for t in readers:
                waits[t].add(task[producer])
            if not readers:
                continue
            if not is_host[source]:
                rates = [self.rate(source), *(self.pair_rate(source, d) for d in readers.values() if d != source)]
                duration[task[producer]] += amount / min(rates)
            for t, d in readers.items():
                if not is_host[d]:
                    pair = self.pair_rate(d, source) if d != source else INFINITY
                    duration[t] += amount / min(self.rate(d), pair)
        finish = {}
        while len(finish) < len(duration):
            ready = [t for t in duration if t not in finish and all(w in finish for w in waits[t])]
            if not ready:
                return INFINITY
            for t in ready:
                finish[t] = max([finish[w] for w in waits[t]], default=0.0) + duration[t]
        return max(finish.values())


def place_of(graph, answer):
    place = [None] * graph.num_nodes
    for stage in answer["stages"]:
        require(len(stage["devices"]) == 1, "a stage on", stage["devices"])
        for name in stage["nodes"]:
            require(place[graph.number[name]] is None, name, "twice")
            place[graph.number[name]] = stage["devices"][0]
    require(None not in place, "a node on no device")
    return place


def judge_placement(program, random, flags, value, is_legal, **shape):
    document = random_graph(random, **shape)
    graph = Graph(document)
    program.write("graph.json", document)
    code, answer = program.run("partition", "graph.json", *flags, "-o", "answer.json")
    values = [value(graph, p) for p in graph.assignments() if graph.fits(p) and is_legal(graph, p)]
    best = min(values, default=INFINITY)
    optimum = None if math.isinf(best) else best
    found = None
    if "stages" in answer:
        place = place_of(graph, answer)
        require(place in list(graph.assignments()) and graph.fits(place), "an illegal placement", place)
        require(is_legal(graph, place), "no line of devices", place)
        found = value(graph, place)
        check_code, report = program.run("check", "graph.json", "answer.json")
        require(check_code == 0 and report["is_right"], "check:", report)
    judge_answer(code, answer, value_of_plan=found, optimum=optimum)
    require(answer["status"] != "feasible", "twelve operators at most, and not proved:", answer["certificate"])
    return answer["status"]


def throughput(program, random):
    has_pair_rates = random.randrange(4) == 0
    is_line = random.randrange(2) == 0
    return ("throughput line " if is_line else "throughput ") + judge_placement(
        program,
        random,
        ["--contiguous" if is_line else "--general"],
        Graph.largest_load,
        Graph.is_line if is_line else lambda graph, place: True,
        max_nodes=6,
        has_pair_rates=has_pair_rates,
        has_backward=random.randrange(2) == 0,
    )


def latency(program, random):
    return "latency " + judge_placement(
        program,
        random,
        ["--objective", "latency"],
        Graph.latency,
        lambda graph, place: True,
        max_nodes=6,
        has_pair_rates=random.randrange(4) == 0,
        has_backward=random.randrange(2) == 0,
    )


class Pipeline:
    """Lines of stages on equal devices, for batches of n microbatches."""

    def __init__(self, graph, num_microbatches):
        self.graph, self.n = graph, num_microbatches
        self.is_training = any(node.get("is_backward") for node in graph.nodes)
        self.names_weights = bool(graph.weights)

    def stage_ms(self, nodes, devices):
        graph, held, d = self.graph, set(nodes), len(devices)
        rate = graph.rate(devices[0])
        cut = 0.0
        for producer, consumers, amount in graph.nets:
            sides = {i in held for i in (producer, *consumers)}
            cut += amount if len(sides) == 2 else 0
        shared = sum(b for b, readers in graph.weights if held.intersection(readers)) if self.is_training else 0
        time = sum(graph.time(i, devices[0]) for i in nodes)
        return time / d + cut / (rate * d) + 4 * (d - 1) * shared / (d * self.n * rate)

    def batch_ms(self, stages):
        """Infinite where a rule is broken."""
        graph = self.graph
        place = [None] * graph.num_nodes
        used = [d for _, devices in stages for d in devices]
        if len(set(used)) < len(used):
            return INFINITY
        for s, (nodes, devices) in enumerate(stages):
            if not nodes or not devices or self.n % len(devices):
                return INFINITY
            if len({graph.devices[d]["name"] for d in devices}) > 1:
                return INFINITY
            if len(devices) > 1 and self.is_training and not self.names_weights:
                return INFINITY
            if not all(graph.may_run(i, d) for i in nodes for d in devices):
                return INFINITY
            held = graph.bytes_of(nodes)  # nothing is said of single microbatches
            if held > graph.devices[devices[0]].get("memory_cap", held):
                return INFINITY
            for i in nodes:
                place[i] = s
        if None in place or any(place[a] > place[b] for a, b in graph.order()):
            return INFINITY
        colours = {}
        if any(
            colours.setdefault(n["colour"], place[i]) != place[i] for i, n in enumerate(graph.nodes) if "colour" in n
        ):
            return INFINITY
        times = [self.stage_ms(nodes, devices) for nodes, devices in stages]
        return sum(times) + (self.n - 1) * max(times)

    def best(self):
        graph = self.graph
        best = INFINITY
        for num_stages in range(1, min(graph.num_nodes, graph.num_devices) + 1):
            owners = [
                o
                for o in itertools.product(range(num_stages + 1), repeat=graph.num_devices)
                if set(range(num_stages)) <= set(o)
            ]
            for place in itertools.product(range(num_stages), repeat=graph.num_nodes):
                if len(set(place)) < num_stages or any(place[a] > place[b] for a, b in graph.order()):
                    continue
                nodes = [[i for i in range(graph.num_nodes) if place[i] == s] for s in range(num_stages)]
                for owner in owners:
                    devices = [[d for d in range(graph.num_devices) if owner[d] == s] for s in range(num_stages)]
                    best = min(best, self.batch_ms(list(zip(nodes, devices, strict=True))))
        return best


def pipeline(program, random):
    document = random_graph(random, 4, has_pair_rates=False, has_backward=random.randrange(2) == 0)
    graph = Graph(document)
    made = Pipeline(graph, random.randint(1, 6))
    program.write("graph.json", document)
    flags = ["--objective", "pipeline", "--microbatches", str(made.n)]
    code, answer = program.run("partition", "graph.json", *flags, "-o", "answer.json")
    best = made.best()
    found = None
    if "stages" in answer:
        stages = [([graph.number[n] for n in s["nodes"]], s["devices"]) for s in answer["stages"]]
        found = made.batch_ms(stages)
        require(not math.isinf(found), "an illegal pipeline", stages)
        for stage, (nodes, devices) in zip(answer["stages"], stages, strict=True):
            require(is_near(stage["load_ms"], made.stage_ms(nodes, devices)), "a stage's time", stage)
        check_code, report = program.run("check", "graph.json", "answer.json")
        require(check_code == 0 and report["is_right"], "check:", report)
    judge_answer(code, answer, value_of_plan=found, optimum=None if math.isinf(best) else best)
    return "pipeline " + answer["status"]


def oracle(program, random):
    kind = random.choice([throughput, throughput, latency, pipeline, profile, profile, critical_path])
    return [kind(program, random)]


if __name__ == "__main__":
    profiles = [f"{file} {objective}" for file in ("graph.txt", "piper.json") for objective in ("throughput", "batch")]
    kinds = ("throughput line", "throughput", "latency")
    needed = [f"{kind} {status}" for kind in kinds for status in ("optimal", "infeasible")]
    main(oracle, [*needed, *(f"{kind} optimal" for kind in ("pipeline", "fx", *profiles))])
