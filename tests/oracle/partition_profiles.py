"""Pipelines of replicated stages from small profiles, Piper's JSON and PipeDream's graph.txt: every pipeline is tried.

Rules: docs/partition.md#pipelines-of-replicated-stages, docs/formats.md#pipeline-plan, and the headers pipeline_model.h
and pipedream_graph.h.
"""

import itertools
import math
import os

from campaign import is_near, judge_answer, require

INFINITY = math.inf


class Profile:
    """Operators with choices by tensor-parallel degree: (name, ms, parameters, bytes a microbatch, bytes, sync)."""

    def __init__(self, random):
        self.num_operators = random.randint(1, 4)
        self.edges = [
            (a, b, random.randint(0, 8))
            for b in range(self.num_operators)
            for a in range(b)
            if random.randrange(3) or a == b - 1
        ]
        self.num_devices = random.randint(1, 4)
        self.cap = random.choice([None, random.randint(5, 60)])
        self.rate = random.choice([1, 2, 8])  # bytes a ms
        self.microbatches = random.choice([None, 1, 2, 3, 4, 6])
        self.is_straight = random.randrange(5) == 0

    def times(self, stage, num_behind):
        """Ms of one microbatch, infinite where it does not fit; bytes of a device; microbatches that it holds.

        `stage`: (operators, choices, data-parallel, tensor-parallel degree).
        """
        operators, chosen, d, _ = stage
        s = d + num_behind
        ms, held = 0.0, 0
        in_flight = -(-s // d)
        share = self.microbatches or d
        for op, choice in zip(operators, chosen, strict=True):
            _, time, parameters, per_microbatch, memory, sync = choice
            ms += time / d + 4 * (d - 1) * parameters / (d * share * self.rate)
            held += per_microbatch * in_flight + memory
            for e, (a, b, size) in enumerate(self.edges):
                if op in (a, b) and not (a in operators and b in operators):
                    ms += 2 * (size + sync.get(e, 0)) / (d * self.rate)
        if self.cap is not None and held > self.cap:
            return INFINITY, held, in_flight
        return ms, held, in_flight

    def value(self, stages, is_batch):
        """Of a plan, infinite where a rule is broken."""
        place = {op: s for s, stage in enumerate(stages) for op in stage[0]}
        replicas = [stage[2] for stage in stages]
        if sum(stage[2] * stage[3] for stage in stages) > self.num_devices:
            return INFINITY
        if any(place[a] > place[b] for a, b, _ in self.edges):
            return INFINITY
        if self.is_straight and max(replicas) > 1:
            return INFINITY
        if self.microbatches and (any(self.microbatches % d for d in replicas) or sum(replicas) > self.microbatches):
            return INFINITY
        times = [self.times(stage, sum(replicas[s + 1 :]))[0] for s, stage in enumerate(stages)]
        if INFINITY in times:
            return INFINITY
        return sum(times) + (self.microbatches - 1) * max(times) if is_batch else max(times)

    def plans(self):
        degrees = range(1, self.num_devices + 1)
        for num_stages in range(1, min(self.num_operators, self.num_devices) + 1):
            for place in itertools.product(range(num_stages), repeat=self.num_operators):
                if len(set(place)) < num_stages or any(place[a] > place[b] for a, b, _ in self.edges):
                    continue
                sets = [[i for i in range(self.num_operators) if place[i] == s] for s in range(num_stages)]
                for shape in itertools.product([(d, t) for d in degrees for t in degrees], repeat=num_stages):
                    if sum(d * t for d, t in shape) <= self.num_devices:
                        yield from self.with_choices(sets, shape)

    def with_choices(self, sets, shape):
        ways = []
        for operators, (d, t) in zip(sets, shape, strict=True):
            choices = [self.choices_of(op).get(t, []) for op in operators]
            ways.append([(operators, chosen, d, t) for chosen in itertools.product(*choices)])
        yield from itertools.product(*ways)


class PiperProfile(Profile):
    file = "piper.json"

    def __init__(self, random):
        super().__init__(random)
        self.microbatches = self.microbatches or 4
        self.cap = self.cap or 1000
        self.operators = [self.random_choices(random, op) for op in range(self.num_operators)]

    def random_choices(self, random, op):
        degrees = {}
        for t in random.choice([[1], [1], [1, 2], [2]]):
            names = ["vanilla", "activation recomp"][: random.randint(1, 2)]
            degrees[t] = []
            for name in names:
                sync = {e: random.randint(0, 3) for e, edge in enumerate(self.edges) if op in edge[:2]}
                degrees[t].append(
                    (
                        name,
                        random.randint(0, 30) / 8,
                        random.randint(0, 6),
                        random.randint(0, 8),
                        random.randint(0, 6),
                        sync,
                    )
                )
        return degrees

    def choices_of(self, op):
        return self.operators[op]

    def write(self, program):
        nodes = []
        for op, degrees in enumerate(self.operators):
            node = {"id": op, "name": f"op{op}", "TMPCs": {}}
            for t, choices in degrees.items():
                node["TMPCs"][str(t)] = [self.choice_document(op, choice) for choice in choices]
            nodes.append(node)
        document = {
            "maxMemoryPerDevice": self.cap,
            "maxDevices": self.num_devices,
            "bandwidth": self.rate * 1000,
            "mbsInBatch": self.microbatches,
            "nodes": nodes,
            "edges": [{"sourceId": a, "destId": b, "communicationCost": size} for a, b, size in self.edges],
        }
        program.write(self.file, document)
        return []

    def choice_document(self, op, choice):
        name, time, parameters, per_microbatch, memory, sync = choice
        return {
            "id": name,
            "timePerSample": time / 1000,
            "parameterSize": parameters,
            "memoryUsageA": per_microbatch,
            "memoryUsageB": memory,
            "syncTimeFw": {str(self.edges[e][0]): size for e, size in sync.items() if self.edges[e][1] == op},
            "syncTimeBw": {str(self.edges[e][1]): size for e, size in sync.items() if self.edges[e][0] == op},
        }

    def choice_named(self, op, t, name):
        return next(choice for choice in self.operators[op][t] if choice[0] == name)


class PipeDreamProfile(Profile):
    """One choice, nothing for edges, and of a stage's own microbatch nothing held."""

    file = "graph.txt"

    def __init__(self, random):
        super().__init__(random)
        self.edges = [(a, b, 0) for a, b, _ in self.edges]
        self.nodes = [
            (random.randint(0, 16) / 8, random.randint(0, 16) / 8, random.randint(0, 9), random.randint(0, 6))
            for _ in range(self.num_operators)
        ]

    def choices_of(self, op):
        forward, backward, activations, parameters = self.nodes[op]
        per_microbatch = activations + parameters
        return {1: [("", forward + backward, parameters, per_microbatch, -per_microbatch, {})]}

    def choice_named(self, op, t, name):
        return self.choices_of(op)[t][0]

    def write(self, program):
        lines = [
            f"node{i} -- Conv2d({i}) -- forward_compute_time={f:.3f}, backward_compute_time={b:.3f}, "
            f"activation_size={a}.000, parameter_size={p}.000\n"
            for i, (f, b, a, p) in enumerate(self.nodes)
        ]
        lines += [f"\tnode{a} -- node{b}\n" for a, b, _ in self.edges]
        with open(os.path.join(program.folder, self.file), "w", encoding="utf-8") as file:
            file.writelines(lines)
        flags = ["--devices", str(self.num_devices), "--bandwidth", f"{self.rate * 1000}B/s"]
        flags += ["--memory", f"{self.cap}B"] if self.cap is not None else []
        return flags + (["--microbatches", str(self.microbatches)] if self.microbatches else [])


def profile(program, random):
    made = random.choice([PiperProfile, PipeDreamProfile])(random)
    is_batch = made.microbatches is not None and random.randrange(2) == 0
    flags = made.write(program) + (["--straight"] if made.is_straight else [])
    flags += ["--objective", "pipeline" if is_batch else "throughput"]
    code, answer = program.run("partition", made.file, *flags, "-o", "plan.json")
    best = min((made.value(stages, is_batch) for stages in made.plans()), default=INFINITY)
    found = None
    if "stages" in answer:
        stages = []
        for s in answer["stages"]:
            t = s["tensor_parallel"]
            chosen = [made.choice_named(op, t, name) for op, name in zip(s["operators"], s["choices"], strict=True)]
            stages.append((s["operators"], chosen, s["data_parallel"], t))
        require(sorted(op for s in stages for op in s[0]) == list(range(made.num_operators)), "not every operator once")
        found = made.value(stages, is_batch)
        require(not math.isinf(found), "an illegal pipeline", stages)
        for s, stage in enumerate(answer["stages"]):
            figures = made.times(stages[s], sum(later[2] for later in stages[s + 1 :]))
            require(is_near(stage["time_ms"], figures[0]), "a stage's time", stage, figures)
            require((stage["memory_bytes"], stage["in_flight"]) == figures[1:], "a stage's bytes", stage, figures)
        check_code, report = program.run("check", made.file, "plan.json")
        require(check_code == 0 and report["is_right"], "check:", report)
    judge_answer(code, answer, value_of_plan=found, optimum=None if math.isinf(best) else best)
    require(answer["status"] != "feasible", "a small profile, and not proved:", answer["certificate"])
    return f"{made.file} {'batch' if is_batch else 'throughput'} {answer['status']}"
