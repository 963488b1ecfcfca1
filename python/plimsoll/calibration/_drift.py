"""Has a machine drifted since it was calibrated?"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from plimsoll._errors import Error
from plimsoll.calibration._clock import fitted_ms
from plimsoll.calibration._machine import expect_machine, new_document, read_document
from plimsoll.calibration._run import BUDGETS, SETTINGS, Calibration, Progress, expect_engines, with_threads

SHARE = 0.1
LEAST = 4  # measurements of a part


def check(
    machine: Mapping[str, Any] | str | os.PathLike[str], *, tolerance: float = 0.15, progress: Progress | None = None
) -> dict[str, Any]:
    """Measures a tenth of a machine document again: kernels, collectives and dense operators, not whole steps.

    Args:
        machine: The document, or its file.
        tolerance: A part has drifted if the geometric mean of its times moved by more than this share, beyond what the
            scatter of the single ratios explains (95 %).
        progress: As of `calibrate`.

    Returns:
        The plimsoll.machine_check/1: `has_drifted`; `parts`, each with `part`, `ratio` (now over then), `low`, `high`,
        `count`, `has_drifted`; `changed`, what of the host and the packages differs; `contended`.

    Raises:
        Error: Another kind of document, or one that holds no measurements.
    """
    if isinstance(machine, Mapping):
        document, place = expect_machine(machine, "machine"), "machine"
    else:
        document, place = read_document(machine), os.fspath(machine)
    is_ours = all(key in document for key in SETTINGS) and document["budget"] in BUDGETS
    if not is_ours or not any(entry.get("points") for entry in document.get("kernels", [])):
        raise Error(
            "value", place, "holds no measurements of plimsoll calibrate", "calibrate, and check what that wrote"
        )
    settings = {key: document[key] for key in SETTINGS}
    expect_engines(settings["device"], settings["ranks"], settings["optimizers"], settings["data_types"])
    fresh = new_document(**settings)
    fresh["sources"] = {k: v for k, v in document.get("sources", {}).items() if k.startswith("collectives/")}
    calibration = Calibration(fresh, BUDGETS[settings["budget"]], progress, None)
    calibration.restrict(SHARE, LEAST)
    with_threads(settings["threads"], calibration.measure)
    return compare(document, calibration.document, tolerance)


def compare(then: Mapping[str, Any], now: Mapping[str, Any], tolerance: float) -> dict[str, Any]:
    """The plimsoll.machine_check/1 of two documents, by the measurements that both have."""
    old = dict(_times(then))
    ratios: dict[str, list[float]] = {}
    for key, ms in _times(now):
        if key in old:
            ratios.setdefault(key[0], []).append(math.log(ms / old[key]))
    parts = [_part(name, np.array(logs), tolerance) for name, logs in ratios.items()]
    changed = [
        f"{section}/{key}: {then.get(section, {}).get(key)} -> {now.get(section, {}).get(key)}"
        for section in ("host", "versions")
        for key in sorted({*then.get(section, {}), *now.get(section, {})})
        if then.get(section, {}).get(key) != now.get(section, {}).get(key)
    ]
    return {
        "schema": "plimsoll.machine_check/1",
        "has_drifted": any(part["has_drifted"] for part in parts),
        "tolerance": tolerance,
        "parts": parts,
        "changed": changed,
        "contended": any(_contended(now)),
    }


def _part(name: str, logs: Any, tolerance: float) -> dict[str, Any]:
    mean, count = float(logs.mean()), len(logs)
    spread = _t_quantile(count - 1) * float(logs.std(ddof=1)) / math.sqrt(count) if count > 1 else math.inf
    low, high = math.exp(mean - min(spread, 50)), math.exp(mean + min(spread, 50))
    return {
        "part": name,
        "ratio": math.exp(mean),
        "low": low,
        "high": high,
        "count": count,
        "has_drifted": low > 1 + tolerance or high < 1 / (1 + tolerance),
    }


def _t_quantile(freedom: int) -> float:
    """97.5 % of Student's distribution: the expansion about the normal's (Abramowitz and Stegun, 26.7.5)."""
    if freedom <= 2:
        return {1: 12.706, 2: 4.303}[freedom]
    z = 1.959964
    terms = ((z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384)
    return z + sum(term / freedom**power for power, term in enumerate(terms, 1))


def _times(document: Mapping[str, Any]) -> Iterator[tuple[tuple[Any, ...], float]]:
    """((part, measurement), ms) of everything that was measured."""
    is_processor = document["device"] == "cpu"
    for entry in document["kernels"]:
        words = (entry["kernel"], entry["direction"], entry.get("optimizer"), entry["data_type"])
        part = "kernels/" + "/".join(filter(None, words))
        for point in entry["points"]:
            ms = fitted_ms(point, is_processor and document["threads"] == 1)
            yield (part, point["design"], point["measured_with"]), ms
    for table in document["collectives"]:
        for size, ms in zip(table["bytes"], table.get("low_ms", table["ms"])):
            yield (f"collectives/{table['operation']}", size), ms
    for point in document.get("operators", {}).get("points", []):
        key = (f"operators/{point['operation']}/{point['data_type']}", point["size"])
        yield key, fitted_ms(point, is_processor)


def _contended(document: Mapping[str, Any]) -> Iterator[bool]:
    yield from (point["contended"] for entry in document["kernels"] for point in entry["points"])
    yield from (table["contended"] for table in document["collectives"])
    yield from (point["contended"] for point in document.get("operators", {}).get("points", []))
