"""What a machine document predicts: kernels, collectives, whole steps and dense operators.

The forms are those of docs/formats.md#machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from plimsoll.calibration._fit import Array

MIB = 2**20
KERNEL_VARIABLES = {  # term: variable; the call's is 1
    "call_ns": "",
    "table_ns": "tables",
    "lookup_ns": "lookups",
    "read_byte_ns": "read_bytes",
    "output_byte_ns": "output_bytes",
    "distinct_row_ns": "distinct_rows",
    "distinct_byte_miss_ns": "distinct_byte_misses",
    "weight_byte_ns": "weight_bytes",
}
UNITS = {
    "call_ns": "ns per call",
    "table_ns": "ns per shard",
    "lookup_ns": "ns per id",
    "read_byte_ns": "ns per byte read",
    "output_byte_ns": "ns per byte of output",
    "distinct_row_ns": "ns per distinct row",
    "distinct_byte_miss_ns": "ns per byte of a distinct row and log2 of the shard's MiB",
    "weight_byte_ns": "ns per byte of weights",
    "kernel_weight": "1",
    "collective_weight": "1",
    "ms_per_sharding_type": "ms per sharding type in a module",
    "ms_per_output_byte": "ms per byte of output",
    "ms_per_table": "ms per shard",
    "floor_ms": "ms per step",
    "launch_us": "microseconds per operator",
    "memory_gb_per_s": "10^9 bytes per second",
    "peak_tflops": "10^12 operations per second",
}
_COMMON = ["call_ns", "table_ns", "lookup_ns", "read_byte_ns", "output_byte_ns"]
FORMS = {  # kernel, direction: terms
    ("fused", "forward"): [*_COMMON, "distinct_byte_miss_ns"],
    ("fused", "backward"): [*_COMMON, "distinct_row_ns", "distinct_byte_miss_ns"],
    ("dense", "forward"): [*_COMMON, "distinct_byte_miss_ns"],
    ("dense", "backward"): [*_COMMON, "distinct_row_ns", "weight_byte_ns"],
}
STEP_TERMS = {  # coefficient: variable of a plan
    "kernel_weight": "kernel_ms",
    "collective_weight": "collective_ms",
    "ms_per_sharding_type": "sharding_types",
    "ms_per_output_byte": "output_bytes",
    "floor_ms": "one",
    "ms_per_table": "tables",
}
ELEMENT_BYTES = {"fp32": 4, "fp16": 2, "bf16": 2}


@dataclass(frozen=True)
class Shard:
    """What a kernel sees of a shard in one call.

    Attributes:
        rows, columns, element_bytes: Of its weights.
        lookups: Ids that are looked up.
        samples: That it pools, over all features.
        distinct: Distinct rows among them; where not counted, of uniform ids.
    """

    rows: int
    columns: int
    element_bytes: int
    lookups: float
    samples: float
    distinct: float | None = None


def distinct_rows(rows: float, lookups: float) -> float:
    """Expected, of uniform ids."""
    return rows * -math.expm1(-lookups / rows)


def kernel_variables(shards: Iterable[Shard]) -> dict[str, float]:
    """The sums that the terms of a kernel multiply."""
    sums = dict.fromkeys(list(KERNEL_VARIABLES.values())[1:], 0.0)
    for shard in shards:
        width = shard.columns * shard.element_bytes
        distinct = distinct_rows(shard.rows, shard.lookups) if shard.distinct is None else shard.distinct
        sums["tables"] += 1
        sums["lookups"] += shard.lookups
        sums["read_bytes"] += shard.lookups * width
        sums["output_bytes"] += 4 * shard.columns * shard.samples
        sums["distinct_rows"] += distinct
        sums["distinct_byte_misses"] += distinct * width * max(0.0, math.log2(shard.rows * width / MIB))
        sums["weight_bytes"] += shard.rows * width
    return sums


def kernel_ms(terms: Mapping[str, float], variables: Mapping[str, float]) -> float:
    """Of a call with these sums."""
    ns = sum(
        value * (variables[KERNEL_VARIABLES[name]] if KERNEL_VARIABLES[name] else 1) for name, value in terms.items()
    )
    return ns * 1e-6


def find_kernel(
    document: Mapping[str, Any], kernel: str, data_type: str, direction: str, optimizer: str | None = None
) -> dict[str, Any] | None:
    """The entry of a machine document that fits; one without an optimizer fits any."""
    for entry in document.get("kernels", []):
        if (entry["kernel"], entry["data_type"], entry["direction"]) == (kernel, data_type, direction):
            if entry.get("optimizer") in (None, optimizer):
                return dict(entry)
    return None


def interpolate(sizes: Sequence[float], times: Sequence[float], size: float) -> float:
    """Linear between the logarithms; beyond the ends with the slope of the nearest two points, or level if they fall.

    A single point is a latency up to its size, and a bandwidth beyond.
    """
    if size <= 0:
        return 0.0
    if len(sizes) == 1:
        return float(times[0]) * max(size / float(sizes[0]), 1.0)
    x, y = np.log(np.asarray(sizes, dtype=float)), np.log(np.asarray(times, dtype=float))
    right = min(max(int(np.searchsorted(x, math.log(size))), 1), len(x) - 1)
    slope = (y[right] - y[right - 1]) / (x[right] - x[right - 1])
    known = right if size > sizes[-1] else right - 1
    if not sizes[0] <= size <= sizes[-1]:
        slope = max(slope, 0.0)
    return math.exp(y[known] + slope * (math.log(size) - x[known]))


def collective_ms(document: Mapping[str, Any], operation: str, size: float, group: str = "world") -> float | None:
    """By the table of the group; of the world where that group has none. None without a table."""
    tables = [entry for entry in document.get("collectives", []) if entry["operation"] == operation]
    for wanted in (group, "world", "host", "fast_domain"):
        for table in tables:
            if table["group"] == wanted:
                return interpolate(table["bytes"], table["ms"], size)
    return None


def step_factors(points: Sequence[Mapping[str, Any]], terms: Sequence[str], prefix: str = "") -> Array:
    """[plan, term] variables; `prefix` is "torchrec_" for TorchRec's figures of kernels and collectives."""
    rows = []
    for point in points:
        values = {**point, "one": 1.0}
        values |= {name: point[prefix + name] for name in ("kernel_ms", "collective_ms")}
        rows.append([float(values[STEP_TERMS[term]]) for term in terms])
    return np.array(rows)


def permute_ms(operators: Mapping[str, Any], size: float) -> float:
    """Of putting pooled outputs of `size` bytes in the order of their columns, forward and backward."""
    bandwidth = operators.get("memory_gb_per_s", 0.0)
    return 4 * size / bandwidth * 1e-6 if bandwidth > 0 else 0.0  # read and written twice


def operator_ms(operators: Mapping[str, Any], data_type: str, flops: float, size: float) -> float:
    """Of a dense operator: the launch, and what takes longer of arithmetic and memory."""
    peak = operators["peak_tflops"].get(data_type) or max(operators["peak_tflops"].values())
    return operators["launch_us"] * 1e-3 + max(flops / peak * 1e-9, size / operators["memory_gb_per_s"] * 1e-6)
