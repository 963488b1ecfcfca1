"""Measures dense operators: matrix products, and additions that memory bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from plimsoll.calibration._clock import fitted_ms, repeat, synchronizer
from plimsoll.calibration._fit import errors_of, fit_relative
from plimsoll.calibration._forms import operator_ms

DATA_TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
MATMULS = {"cpu": (64, 96, 128, 192, 256, 384, 512, 768, 1024), "cuda": (256, 512, 1024, 2048, 3072, 4096, 6144, 8192)}
NARROW_LAYERS, WIDE_LAYERS = 20, 8  # of models that a step is measured of
WIDE = {"cpu": (512, 128), "cuda": (8192, 1024)}  # rows and columns
ADDITIONS = tuple(1 << power for power in range(14, 26))  # elements


def operator_designs(device: str) -> list[tuple[str, str, int]]:
    """(operation, data type, size): sides of square matrices, elements of vectors; a single element is a launch."""
    sides = MATMULS["cuda" if device == "cuda" else "cpu"]
    matmuls = [("matmul", data_type, side) for data_type in DATA_TYPES for side in sides]
    steps = [("step", "fp32", layers) for layers in (NARROW_LAYERS, WIDE_LAYERS)]
    return [*steps, ("add", "fp32", 1), *(("add", "fp32", size) for size in ADDITIONS), *matmuls]


def measure_operator(operation: str, data_type: str, size: int, device_name: str, seconds: float) -> dict[str, Any]:
    """A point of the machine document's operators."""
    device, dtype = torch.device(device_name), DATA_TYPES[data_type]
    if operation == "step":
        return _measure_step(size, device, seconds)
    shape = (size, size) if operation == "matmul" else (size,)
    first, second = torch.rand(shape, device=device).to(dtype), torch.rand(shape, device=device).to(dtype)
    out = torch.empty(shape, device=device, dtype=dtype)
    if operation == "matmul":
        flops, call = 2.0 * size**3, lambda: torch.mm(first, second, out=out)
    else:
        flops, call = float(size), lambda: torch.add(first, second, out=out)
    (sample,) = repeat([call], synchronizer(device), seconds, most=1000)
    moved = 3 * out.numel() * out.element_size()
    return {
        "operation": operation,
        "data_type": data_type,
        "size": size,
        "flops": flops,
        "bytes": moved,
        **sample.document(),
    }


def _measure_step(layers: int, device: torch.device, seconds: float) -> dict[str, Any]:
    """A training step of layers so narrow that they cost launches only, or wide enough that memory counts."""
    from plimsoll.checkpointing._times import Operators, narrow_step, wide_step

    if layers == NARROW_LAYERS:
        step = narrow_step(layers, device)
    else:
        step = wide_step(layers, *WIDE["cuda" if device.type == "cuda" else "cpu"], device)
    step()
    with Operators() as seen:
        step()
    work = seen.work()
    (sample,) = repeat([step], synchronizer(device), seconds, most=1000)
    about = {
        "operation": "step",
        "data_type": "fp32",
        "size": layers,
        "flops": sum(flops for flops, _ in work),
        "bytes": sum(moved for _, moved in work),
        "work": [list(pair) for pair in work],
    }
    return {**about, **sample.document()}


def _step_bandwidth(step: dict[str, Any], ms: float, launch: float, peak: float | None, most: float) -> float:
    """Bytes a ms, at most `most`, with which the roofline takes `ms` for the operators of a step; by bisection."""

    def roofline(bandwidth: float) -> float:
        return sum(launch + max(flops / peak if peak else 0.0, moved / bandwidth) for flops, moved in step["work"])

    low, high = most / 1e3, most
    for _ in range(60):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if roofline(middle) > ms else (low, middle)
    return high


def fit_operators(points: list[dict[str, Any]], is_processor: bool) -> dict[str, Any]:
    """launch_us, memory_gb_per_s and peak_tflops, each by the points that it bounds.

    Rates are fitted to operators alone. Where steps were measured, launch and bandwidth are then those of a step.
    """
    steps = {p["size"]: p for p in points if p["operation"] == "step"}
    points = [point for point in points if point["operation"] != "step"]
    times = [fitted_ms(point, is_processor) for point in points]
    launch = min(times)

    def rate(operation: str, data_type: str, what: str) -> float | None:
        pairs = [
            (point[what], ms - launch)
            for point, ms in zip(points, times)
            if (point["operation"], point["data_type"]) == (operation, data_type) and ms > 3 * launch
        ]
        if not pairs:
            return None
        amounts, spent = np.array(pairs).T
        return 1 / float(fit_relative(amounts[:, None], spent)[0])  # a millisecond

    peaks = {name: rate("matmul", name, "flops") for name in DATA_TYPES}
    bandwidth = rate("add", "fp32", "bytes")
    if NARROW_LAYERS in steps:
        narrow = steps[NARROW_LAYERS]
        launch = max(launch, fitted_ms(narrow, is_processor) / len(narrow["work"]))
    if WIDE_LAYERS in steps and bandwidth is not None:
        wide = steps[WIDE_LAYERS]
        bandwidth = _step_bandwidth(wide, fitted_ms(wide, is_processor), launch, peaks["fp32"], bandwidth)
    return {
        "launch_us": launch * 1e3,
        **({} if bandwidth is None else {"memory_gb_per_s": bandwidth * 1e-6}),
        "peak_tflops": {name: peak * 1e-9 for name, peak in peaks.items() if peak is not None},
    }


def held_out_operators(points: list[dict[str, Any]], is_processor: bool) -> dict[str, Any]:
    """Errors of every second operator alone, from the others; additions of a vector in cache are among them."""
    points = [point for point in points if point["operation"] != "step"]
    ordered = sorted(points, key=lambda point: (point["operation"], point["data_type"], point["size"]))
    predicted, times = [], []
    for half in (0, 1):
        launch = [point for point in ordered if point["size"] == 1]
        fit = fit_operators(
            launch + [p for i, p in enumerate(ordered) if i % 2 == half and p["size"] > 1], is_processor
        )
        if "memory_gb_per_s" not in fit or not fit["peak_tflops"]:
            continue
        for point in (p for i, p in enumerate(ordered) if i % 2 != half and p["size"] > 1):
            predicted.append(operator_ms(fit, point["data_type"], point["flops"], point["bytes"]))
            times.append(fitted_ms(point, is_processor))
    return errors_of(predicted, times)
