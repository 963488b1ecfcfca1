"""Machine documents (plimsoll.machine/1): made, written whole or not at all, read, and fitted."""

from __future__ import annotations

import datetime
import json
import os
import platform
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

import numpy as np

from plimsoll._errors import Error
from plimsoll._files import read_object, write_text
from plimsoll._native import __version__
from plimsoll.calibration._clock import fitted_ms
from plimsoll.calibration._fit import (
    Fit,
    cross_validate,
    errors_of,
    fit_form,
    fit_relative,
    kept_terms,
    rank_correlation,
)
from plimsoll.calibration._forms import (
    FORMS,
    KERNEL_VARIABLES,
    STEP_TERMS,
    UNITS,
    collective_ms,
    find_kernel,
    interpolate,
    kernel_ms,
    permute_ms,
    step_factors,
)

SCHEMA = "plimsoll.machine/1"
WRITER = "plimsoll calibrate"
NESTED = (  # each with the terms before it
    ("kernel_weight", "collective_weight"),
    ("ms_per_sharding_type",),
    ("ms_per_output_byte",),
    ("floor_ms",),
    ("ms_per_table",),
)
PLANS_PER_TERM = 6


def versions() -> dict[str, str]:
    """Of this package and of what it measures."""
    found = {"plimsoll": __version__, "python": platform.python_version()}
    for name in ("torch", "torchrec", "fbgemm-gpu", "fbgemm-gpu-cpu"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def describe_host(device: str) -> dict[str, Any]:
    """Names and sizes of this host and of its first accelerator."""
    host: dict[str, Any] = {"cpu": _processor(), "cores": os.cpu_count() or 1}
    host["memory_bytes"] = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    cache = _last_level_cache()
    if cache:
        host["cache_bytes"] = cache
    if device == "cuda":
        import torch

        properties = torch.cuda.get_device_properties(0)
        host |= {"gpu": properties.name, "gpu_memory_bytes": properties.total_memory}
        if getattr(properties, "L2_cache_size", 0):
            host["cache_bytes"] = properties.L2_cache_size
    return host


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _last_level_cache() -> int:
    sizes = []
    folder = "/sys/devices/system/cpu/cpu0/cache"
    try:
        for index in os.listdir(folder):
            with open(f"{folder}/{index}/size", encoding="ascii") as file:
                text = file.read().strip()
            sizes.append(int(text[:-1]) << {"K": 10, "M": 20, "G": 30}[text[-1]])
    except (OSError, ValueError, KeyError, IndexError):
        pass
    return max(sizes, default=0)


def new_document(**settings: Any) -> dict[str, Any]:
    """A document of which nothing is measured yet; `settings` are keys of it."""
    device, ranks = settings["device"], settings["ranks"]
    host = describe_host(device)
    return {
        "schema": SCHEMA,
        "name": f"{ranks} x {host.get('gpu', host['cpu'])}",
        "created": datetime.date.today().isoformat(),
        **settings,
        "ranks_per_host": ranks,
        "complete": False,
        "host": host,
        "versions": versions(),
        "units": UNITS,
        "kernels": [],
        "collectives": [],
        "sources": {},
    }


def write_document(path: str | os.PathLike[str], document: Mapping[str, Any]) -> None:
    """A machine document, to be read by people, too."""
    write_text(path, json.dumps(document, indent=1) + "\n")


def read_document(path: str | os.PathLike[str]) -> dict[str, Any]:
    """A machine document.

    Raises:
        Error: Another kind of file, with its place.
    """
    document = read_object(path, WRITER)
    return expect_machine(document, os.fspath(path))


def expect_machine(document: Mapping[str, Any], place: str = "") -> dict[str, Any]:
    """The document, if it is a machine's."""
    found = document.get("schema")
    if found != SCHEMA:
        raise Error(
            "schema", f"{place}#/schema", f'expected "{SCHEMA}", found {json.dumps(found)}', f"give what {WRITER} wrote"
        )
    for key in ("kernels", "collectives"):
        if not isinstance(document.get(key, []), list):
            raise Error("schema", f"{place}#/{key}", "is not a list", f"give what {WRITER} wrote")
    return dict(document)


def kernel_entry(
    document: dict[str, Any], kernel: str, optimizer: str | None, data_type: str, direction: str
) -> dict[str, Any]:
    """The entry, made where it is missing."""
    wanted = {"kernel": kernel, "optimizer": optimizer, "data_type": data_type, "direction": direction}
    for entry in document["kernels"]:
        if all(entry.get(key) == value for key, value in wanted.items()):
            found: dict[str, Any] = entry
            return found
    made: dict[str, Any] = {key: value for key, value in wanted.items() if value is not None}
    made |= {"terms": {}, "points": []}
    document["kernels"].append(made)
    return made


def fit_kernel(entry: dict[str, Any], seed: int, is_processor: bool) -> None:
    """Fits the entry's form to its points, in place."""
    names = FORMS[entry["kernel"], entry["direction"]]
    points = entry["points"]
    variables = [KERNEL_VARIABLES[name] for name in names]
    factors = np.array([[point[variable] if variable else 1.0 for variable in variables] for point in points])
    times = np.array([fitted_ms(point, is_processor) for point in points]) * 1e6
    designs = [point["design"] for point in points]
    distinct = sorted(set(designs))
    fold = dict(zip(distinct, np.random.default_rng(seed).permutation(len(distinct)) % 10))
    groups = [int(fold[design]) for design in designs]
    if len(set(groups)) > 1:
        fit = fit_form(names, factors, times, seed=seed, groups=groups)
    else:
        fit = Fit(dict(zip(names, map(float, fit_relative(factors, times)))), {}, [], {"count": 0})
    for point, ns in zip(points, fit.predicted):
        point["predicted_ms"] = ns * 1e-6
    entry |= fit.document()
    entry["ranges"] = {
        variable: [float(factors[:, i].min()), float(factors[:, i].max())]
        for i, variable in enumerate(variables)
        if variable
    }
    entry["contended"] = any(point["contended"] for point in points)


def held_out_collective(sizes: Sequence[float], times: Sequence[float]) -> dict[str, Any]:
    """Errors of every second size, interpolated between its neighbours."""
    odd = range(1, len(sizes) - 1, 2)
    kept = [i for i in range(len(sizes)) if i not in odd]
    predicted = [interpolate([sizes[i] for i in kept], [times[i] for i in kept], sizes[i]) for i in odd]
    return errors_of(predicted, [times[i] for i in odd])


def plan_parts(document: Mapping[str, Any], point: Mapping[str, Any]) -> dict[str, float]:
    """The slowest rank's kernels and collectives of a measured plan, by the document's kernels and collectives."""
    kernels: dict[int, float] = {}
    collectives: dict[int, float] = {}
    for group in point["groups"]:
        rank, kind = group["rank"], group["sharding_type"]
        kernel = "dense" if kind == "data_parallel" else "fused"
        for direction in ("forward", "backward"):
            entry = find_kernel(document, kernel, "fp32", direction, "sgd")
            kernels[rank] = kernels.get(rank, 0.0) + (kernel_ms(entry["terms"], group) if entry else 0.0)
        if kind == "column_wise":  # of the types that are measured the one that cuts columns
            kernels[rank] += permute_ms(document.get("operators", {}), group["output_bytes"])
        if kind == "data_parallel":
            calls = [("all_reduce", group["weight_bytes"])]
        else:
            there, back = ("reduce_scatter", "all_gather") if kind == "row_wise" else ("all_to_all", "all_to_all")
            size = group["output_bytes"]
            calls = [("all_to_all", 8 * group["lookups"]), (there, size), (back, size)]
        spent = sum(collective_ms(document, operation, size) or 0.0 for operation, size in calls)
        collectives[rank] = collectives.get(rank, 0.0) + spent
    return {"kernel_ms": max(kernels.values()), "collective_ms": max(collectives.values())}


def fit_step(
    points: Sequence[Mapping[str, Any]], times: Sequence[float], seed: int, prefix: str = ""
) -> dict[str, Any]:
    """The nested form that predicts models best that are left out; at most one term for six plans."""
    spent = np.array(times)
    models = sorted({point["model"] for point in points})
    by_model = [models.index(point["model"]) for point in points]
    folds = [int(fold) for fold in np.random.default_rng(seed).permutation(len(points)) % min(10, len(points))]
    names: list[str] = []
    forms: list[dict[str, Any]] = []
    fits: list[tuple[float, dict[str, Any]]] = []
    for more in NESTED:
        names = [*names, *more]
        if len(names) > max(len(points) // PLANS_PER_TERM, 1):
            break
        factors = step_factors(points, names, prefix)
        fit = fit_form(names, factors, spent, seed=seed, groups=folds)
        found: dict[str, Any] = {**fit.terms, "intervals": fit.intervals, "dropped": fit.dropped}
        found["held_out_plans"] = fit.held_out
        score = fit.held_out["mean"]
        if len(models) > 1:

            def fit_rest(rows: Any, factors: Any = factors) -> Any:
                kept = kept_terms(factors[rows], spent[rows], 50, seed)
                values = fit_relative(factors[rows][:, kept], spent[rows])
                return lambda out: factors[out][:, kept] @ values

            predicted = cross_validate(by_model, fit_rest)
            found["held_out_models"] = errors_of(predicted, spent)
            score = found["held_out_models"]["mean"]
            of = [[i for i, model in enumerate(by_model) if model == number] for number in range(len(models))]
            ranks = [rank_correlation(predicted[rows], spent[rows]) for rows in of]
            found["rank_correlation"] = float(np.mean(ranks))
        kept = ("dropped", "held_out_plans", "held_out_models", "rank_correlation")
        forms.append({"terms": list(names), **{key: found[key] for key in kept if key in found}})
        fits.append((float(score), found))
    if not fits:
        return {}
    chosen = min(range(len(fits)), key=lambda i: fits[i][0])
    return {**fits[chosen][1], "forms": forms}


def are_steps_processor_time(document: Mapping[str, Any]) -> bool:
    """Are steps fitted to processor time? If others, or its own ranks, took the cores that a rank would have alone."""
    points = document["step"]["points"]
    if document["device"] != "cpu":
        return False
    if document["ranks"] * document["threads"] > document["host"]["cores"]:
        return True
    return 2 * sum(point["contended"] for point in points) > len(points)


def finish(document: dict[str, Any]) -> None:
    """Fits everything that was measured, in place."""
    is_processor = document["device"] == "cpu"
    seed = document["seed"]
    for entry in document["kernels"]:
        if entry["points"]:
            fit_kernel(entry, seed, is_processor and document["threads"] == 1)
    for table in document["collectives"]:
        table["held_out"] = held_out_collective(table["bytes"], table["ms"])
    step = document.get("step")
    if step:
        points = step["points"]
        for point in points:
            point |= plan_parts(document, point)
        time = "cpu_ms" if are_steps_processor_time(document) else "low_ms"
        times = [point[time] for point in points]
        torchrec = fit_step(points, times, seed, "torchrec_")
        torchrec.pop("forms", None)
        fit = fit_step(points, times, seed)
        fit |= {"torchrec": torchrec, "points": points, "contended": any(point["contended"] for point in points)}
        document["step"] = fit
    _note_noise(document)


def _note_noise(document: dict[str, Any]) -> None:
    points = [point for entry in document["kernels"] for point in entry["points"]]
    points += document.get("operators", {}).get("points", [])
    plans = document.get("step", {}).get("points", [])
    every = [*points, *plans]
    if not every:
        return
    foreign = [point["foreign_share"] for point in every]
    document["noise"] = {
        "foreign_share": float(np.mean(foreign)),
        "worst_foreign_share": float(max(foreign)),
        "median_over_low": float(np.mean([point["ms"] / point["low_ms"] for point in every])),
        "measurements": len(every),
        "contended": sum(bool(point["contended"]) for point in every),
    }
    if plans:
        document["noise"]["halves_agreement"] = rank_correlation(*zip(*[point["halves_ms"] for point in plans]))


def step_model(document: Mapping[str, Any], name: str | None = None) -> dict[str, Any]:
    """The machine as a plimsoll.step_model/1, for `plimsoll shard --step-model` and `Planner(step_model=...)`.

    The charges multiply TorchRec's own kernels and collectives, by TorchRec's default bandwidths. They are fitted to
    whole steps where the document has them. Else they come from the parts: the weights from kernels and collectives
    beside TorchRec's figures, the charge of a sharding type from what a call and three collectives of the least size
    take.

    Raises:
        Error: A document with neither, such as one that was cut.
    """
    expect_machine(document)
    charges = document.get("step", {}).get("torchrec")
    if charges:
        told = _told(charges)
        found = {term: float(charges.get(term, 0.0)) for term in STEP_TERMS}
    else:
        found, told = _charges_of_parts(document)
    return {
        "schema": "plimsoll.step_model/1",
        "name": name or f"{document.get('name', 'machine')}, calibrated",
        "source": f"{WRITER}, {document.get('created', 'no date')}",
        "notes": told,
        **{term: found[term] for term in sorted(found)},
    }


def _told(charges: Mapping[str, Any]) -> str:
    errors = charges.get("held_out_models") or charges["held_out_plans"]
    what = "model" if charges.get("held_out_models") else "plan"
    return f"fitted to measured steps; a left-out {what}: mean error {errors['mean']:.1%}, worst {errors['worst']:.1%}"


def _charges_of_parts(document: Mapping[str, Any]) -> tuple[dict[str, float], str]:
    forms = [find_kernel(document, "fused", "fp32", direction, "sgd") for direction in ("forward", "backward")]
    if not all(form and form["terms"] and "torchrec_ms" in (form.get("points") or [{}])[0] for form in forms):
        remedy = "calibrate with --budget standard, or to the end"
        raise Error("value", "kernels", "neither steps nor kernels are measured to the end", remedy)
    found = dict.fromkeys(STEP_TERMS, 0.0)
    rows = [
        (
            point["torchrec_ms"],
            max(fitted_ms(point, document["device"] == "cpu") - form["terms"]["call_ns"] * 1e-6, 1e-6),
        )
        for form in forms
        if form
        for point in form["points"]
    ]
    of_torchrec, spent = np.array(rows).T
    found["kernel_weight"] = float(fit_relative(of_torchrec[:, None], spent)[0])
    found["ms_per_sharding_type"] = sum(form["terms"]["call_ns"] * 1e-6 for form in forms if form)
    tables = [
        table for table in document.get("collectives", []) if "all_to_all" == table["operation"] and table["bytes"]
    ]
    if tables:
        latency = min(tables[0]["ms"])
        found["ms_per_sharding_type"] += 3 * latency
        found["collective_weight"] = _collective_weight(tables[0], latency, document["device"])
    return found, "from kernels and collectives, not from measured steps"


def _collective_weight(table: Mapping[str, Any], latency: float, device: str) -> float:
    from torchrec.distributed.planner import Topology

    bandwidth = Topology(world_size=1, compute_device=device).intra_host_bw  # bytes a millisecond
    rows = [(size / bandwidth, ms - latency) for size, ms in zip(table["bytes"], table["ms"]) if ms > 2 * latency]
    if not rows:
        return 0.0
    of_torchrec, spent = np.array(rows).T
    return float(fit_relative(of_torchrec[:, None], spent)[0])
