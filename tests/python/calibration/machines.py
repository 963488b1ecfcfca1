"""A machine whose times are known, in the places where calibration measures."""

import random

from plimsoll.calibration import _kernels, _operators, _plans, _run, _torchrec
from plimsoll.calibration._forms import ELEMENT_BYTES, Shard, kernel_ms, kernel_variables
from plimsoll.calibration._run import Budget

TERMS = {
    ("fused", "forward"): {"call_ns": 50000, "table_ns": 3000, "lookup_ns": 3, "read_byte_ns": 0.02},
    ("fused", "backward"): {"call_ns": 20000, "lookup_ns": 7, "read_byte_ns": 0.03, "distinct_row_ns": 11},
    ("dense", "forward"): {"call_ns": 40000, "lookup_ns": 4, "output_byte_ns": 0.05},
    ("dense", "backward"): {"call_ns": 30000, "lookup_ns": 5, "weight_byte_ns": 0.1},
}
LATENCY_MS, GB_PER_S = 0.05, 2.0
STEP_GB_PER_S = 5.0  # of operators within a step
STEP = {"kernel_weight": 1.5, "collective_weight": 1.2, "ms_per_sharding_type": 0.4}
LAUNCH_US, STEP_LAUNCH_US, MEMORY_GB_PER_S, TFLOPS = 2.0, 7.0, 10.0, {"fp32": 0.1, "bf16": 0.2}
BUDGET = Budget(
    12, 8, 1 << 20, 1 << 12, kernel_s=1, collective_s=1, operator_s=1, plan_s=1, max_collective_bytes=1 << 26, models=3
)


def message_ms(size):
    return LATENCY_MS + size / GB_PER_S * 1e-6


def sample(ms):
    return {"ms": ms, "low_ms": ms, "cpu_ms": ms, "samples": 9, "foreign_share": 0.0, "contended": False}


class Machine:
    """What was measured, and times `pace` as long."""

    def __init__(self, pace=1.0):
        self.pace = pace
        self.calls = []

    def kernel(self, design, kernel, optimizer, data_type, device, seconds):
        self.calls.append(("kernel", kernel, optimizer, data_type, design))
        element = ELEMENT_BYTES[data_type]
        variables = kernel_variables(
            Shard(rows, columns, element, ids * design.samples, design.samples) for rows, columns, ids in design.tables
        )
        of = {d: sample(self.pace * kernel_ms(TERMS[kernel, d], variables)) for d in ("forward", "backward")}
        return {"variables": variables, **of}

    def operator(self, operation, data_type, size, device, seconds):
        self.calls.append(("operator", operation, data_type, size))
        flops = 2.0 * size**3 if operation == "matmul" else float(size)
        moved = 12.0 * size ** (2 if operation == "matmul" else 1)
        peak = TFLOPS[data_type]
        ms = LAUNCH_US * 1e-3 + (flops / peak * 1e-9 if operation == "matmul" else moved / MEMORY_GB_PER_S * 1e-6)
        if size == 1:
            ms = LAUNCH_US * 1e-3
        if operation == "step":  # ten operators; wide ones move 1 MB each
            moved = 0.0 if size == _operators.NARROW_LAYERS else 1e6
            one = STEP_LAUNCH_US * 1e-3 + moved / STEP_GB_PER_S * 1e-6
            about = {"operation": operation, "data_type": data_type, "size": size, "work": [[0.0, moved]] * 10}
            return {**about, "flops": 0.0, "bytes": 10 * moved, **sample(self.pace * 10 * one)}
        about = {"operation": operation, "data_type": data_type, "size": size, "flops": flops, "bytes": moved}
        return {**about, **sample(self.pace * ms)}

    def ranks(self, job, ranks, backend, device, threads, arguments):
        if job == "collectives":
            for operation, size in arguments["wanted"]:
                self.calls.append(("collective", operation, size))
                yield {"operation": operation, "bytes": size, **sample(self.pace * message_ms(size))}
            return
        for name in arguments["models"]:
            self.calls.append(("model", name))
            yield {"model": name, "plans": [self.plan(name, number, ranks) for number in range(arguments["styles"])]}

    def plan(self, model, number, ranks):
        """Every table of the model on a random rank, some cut by rows."""
        draw = random.Random(f"{model} {number}")
        groups = {}
        for rows, columns, ids in _plans.MODELS[model]:
            kind = draw.choice(["table_wise", "row_wise"] if number % 2 else ["table_wise"])
            on = range(ranks) if kind == "row_wise" else [draw.randrange(ranks)]
            samples = _plans.BATCH_SIZE * ranks
            for rank in on:
                shard = Shard(rows // len(on), columns, 4, ids * samples / len(on), samples)
                groups.setdefault((rank, kind), []).append(shard)
        of = [{"rank": r, "sharding_type": k, **kernel_variables(s)} for (r, k), s in sorted(groups.items())]
        kernels, collectives = [0.0] * ranks, [0.0] * ranks
        for group in of:
            for direction in ("forward", "backward"):
                kernels[group["rank"]] += kernel_ms(TERMS["fused", direction], group)
            out = group["output_bytes"]
            collectives[group["rank"]] += message_ms(8 * group["lookups"]) + 2 * message_ms(out)
        types = len({kind for _, kind in groups})
        ms = self.pace * (
            STEP["kernel_weight"] * max(kernels)
            + STEP["collective_weight"] * max(collectives)
            + STEP["ms_per_sharding_type"] * types
        )
        return {
            "model": model,
            "plan": number,
            "groups": of,
            "sharding_types": types,
            "output_bytes": max(sum(g["output_bytes"] for g in of if g["rank"] == r) for r in range(ranks)),
            "tables": float(max(sum(g["tables"] for g in of if g["rank"] == r) for r in range(ranks))),
            "torchrec_kernel_ms": max(kernels) / 10,
            "torchrec_collective_ms": max(collectives) / 20,
            "halves_ms": [ms, ms],
            **sample(ms),
        }

    def install(self, monkeypatch):
        monkeypatch.setattr(_kernels, "measure_kernel", self.kernel)
        monkeypatch.setattr(_torchrec, "torchrec_ms", lambda *_: {"forward": 0.01, "backward": 0.02})
        monkeypatch.setattr(_operators, "measure_operator", self.operator)
        monkeypatch.setattr(_run, "run_ranks", self.ranks)
        for name in ("quick", "standard"):
            monkeypatch.setitem(_run.BUDGETS, name, BUDGET)
        return self
