"""Runs a calibration: what is to be measured, in turn, resumed where it was cut; and the check for drift."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from plimsoll._errors import Error
from plimsoll._extras import need
from plimsoll.calibration._clock import TRIES
from plimsoll.calibration._designs import Design, draw_designs
from plimsoll.calibration._machine import (
    finish,
    kernel_entry,
    new_document,
    read_document,
    versions,
    write_document,
)
from plimsoll.calibration._nccl import read_nccl
from plimsoll.calibration._ranks import run_ranks


class Progress(Protocol):
    """Called while a calibration runs."""

    def __call__(self, part: str, done: int, total: int, seconds_left: float) -> None:
        """`done` of `total` measurements are made; the next one is of `part`."""


@dataclass(frozen=True)
class Budget:
    """What is measured, and in about how many seconds.

    Attributes:
        designs: Random inputs of fused kernels, over all data types.
        dense_designs: Of dense kernels.
        max_bytes, max_lookups: Of a design.
        kernel_s, collective_s, operator_s, plan_s: Seconds of each part.
        max_collective_bytes: The largest message.
        models, styles: Of the plans: how many models, and how many plans of each.
    """

    designs: int
    dense_designs: int
    max_bytes: int
    max_lookups: int
    kernel_s: float
    collective_s: float
    operator_s: float
    plan_s: float = 0.0
    max_collective_bytes: int = 1 << 26
    models: int = 0
    styles: int = 9


BUDGETS = {
    "quick": Budget(40, 20, 1 << 26, 1 << 19, kernel_s=36, collective_s=12, operator_s=5),
    "standard": Budget(160, 40, 1 << 29, 1 << 21, kernel_s=260, collective_s=50, operator_s=20, plan_s=240, models=6),
}
DEFAULT_OPTIMIZERS = {"quick": ("sgd", "rowwise_adagrad"), "standard": ("sgd", "rowwise_adagrad", "adagrad")}
DEFAULT_DATA_TYPES = {"quick": ("fp32",), "standard": ("fp32", "fp16")}
SAVE_EVERY_S = 2.0
SETTINGS = ("device", "ranks", "threads", "backend", "budget", "seed", "optimizers", "data_types")
T = TypeVar("T")


@dataclass(frozen=True)
class _Kernel:
    """A measurement of a kernel."""

    kernel: str
    optimizer: str | None
    data_type: str
    number: int
    design: Design


class Calibration:
    """A document, and what is missing in it."""

    def __init__(self, document: dict[str, Any], budget: Budget, progress: Progress | None, out: str | None) -> None:
        self.document = document
        self.budget = budget
        self._progress = progress
        self._out = out
        self._saved = time.monotonic()
        self._begin = time.monotonic()
        self._planned_done = 0.0
        self._done = 0
        self._kernels = self._missing_kernels()
        self._collectives = self._missing_collectives()
        self._operators = self._missing_operators()
        self._models = self._missing_models()
        self._total = len(self._kernels) + len(self._collectives) + len(self._operators) + len(self._models)
        self._planned = {
            "kernels": budget.kernel_s / max(1, len(self._all_kernels())),
            "collectives": budget.collective_s / max(1, len(self._all_collectives())),
            "operators": budget.operator_s / max(1, len(self._all_operators())),
            "steps": budget.plan_s / max(1, budget.models),
        }

    def run(self) -> dict[str, Any]:
        """Measures what is missing, and fits."""
        try:
            self.measure()
        except BaseException:
            self._save()
            raise
        self._fit_operators()
        finish(self.document)
        self.document["complete"] = True
        self._note_sources()
        self._save()
        return self.document

    def measure(self) -> None:
        """Measures what is missing."""
        for part, measure in self._measurements():
            self._tell(part)
            measure()
            self._done += 1
            self._planned_done += self._planned[part]
            self._save_now_and_then()

    def restrict(self, share: float, least: int) -> None:
        """Leaves only a share of the kernels, collectives and operators to be measured, of each kind at least some."""
        draw = random.Random(self.document["seed"])

        def some(jobs: list[T], kind_of: Callable[[T], object]) -> list[T]:
            kinds: dict[object, list[T]] = {}
            for job in jobs:
                kinds.setdefault(kind_of(job), []).append(job)
            chosen = [
                job
                for of in kinds.values()
                for job in draw.sample(of, min(len(of), max(least, round(share * len(of)))))
            ]
            return [job for job in jobs if job in chosen]

        self._kernels = some(self._kernels, lambda job: (job.kernel, job.optimizer, job.data_type))
        self._collectives = some(self._collectives, lambda job: job[0])
        self._operators = some(self._operators, lambda job: job[:2])
        self._models = []
        self._total = len(self._kernels) + len(self._collectives) + len(self._operators)

    def _measurements(self) -> Iterator[tuple[str, Callable[[], None]]]:
        for job in self._kernels:
            yield "kernels", lambda job=job: self._measure_kernel(job)  # type: ignore[misc]
        for job in self._operators:
            yield "operators", lambda job=job: self._measure_operator(job)  # type: ignore[misc]
        self._repeat_contended()
        if self._collectives:
            arguments = {"wanted": self._collectives, "seconds": self._planned["collectives"] * 0.6}
            for sample in self._on_ranks("collectives", arguments):
                yield "collectives", lambda sample=sample: self._note_collective(sample)  # type: ignore[misc]
        if self._models:
            arguments = {
                "models": self._models,
                "seed": self.document["seed"],
                "seconds": self._planned["steps"] * 0.7,
                "styles": self.budget.styles,
            }
            for sample in self._on_ranks("plans", arguments):
                yield "steps", lambda sample=sample: self._note_plans(sample)  # type: ignore[misc]

    def _on_ranks(self, job: str, arguments: dict[str, Any]) -> Iterator[Any]:
        return run_ranks(
            job,
            self.document["ranks"],
            self.document["backend"],
            self.document["device"],
            self.document["threads"],
            arguments,
        )

    # Kernels.

    def _all_kernels(self) -> list[_Kernel]:
        document, budget = self.document, self.budget
        jobs = []
        data_types = document["data_types"]
        for data_type in data_types:
            count = max(1, budget.designs // len(data_types))
            designs = draw_designs(count, document["seed"], data_type, budget.max_bytes, budget.max_lookups)
            jobs += [
                _Kernel("fused", optimizer, data_type, number, design)
                for number, design in enumerate(designs)
                for optimizer in document["optimizers"]
            ]
        if budget.dense_designs:
            most = min(budget.max_bytes, 1 << 24)
            designs = draw_designs(budget.dense_designs, document["seed"] + 1, "fp32", most, budget.max_lookups)
            jobs += [_Kernel("dense", None, "fp32", number, design) for number, design in enumerate(designs)]
        return jobs

    def _missing_kernels(self) -> list[_Kernel]:
        done = {
            (entry["kernel"], entry.get("optimizer"), entry["data_type"], point["design"])
            for entry in self.document["kernels"]
            if entry["direction"] == "backward"
            for point in entry["points"]
        }
        return [
            job for job in self._all_kernels() if (job.kernel, job.optimizer, job.data_type, job.number) not in done
        ]

    def _measure_kernel(self, job: _Kernel) -> None:
        from plimsoll.calibration._kernels import measure_kernel
        from plimsoll.calibration._torchrec import torchrec_ms

        seconds = min(0.8, self._planned["kernels"] * 0.5)
        measured = measure_kernel(
            job.design, job.kernel, job.optimizer, job.data_type, self.document["device"], seconds
        )
        reference = torchrec_ms(job.design, job.kernel, job.data_type, self.document["device"])
        for direction in ("forward", "backward"):
            optimizer = job.optimizer if direction == "backward" else None
            entry = kernel_entry(self.document, job.kernel, optimizer, job.data_type, direction)
            point = {
                "design": job.number,
                "measured_with": job.optimizer or "",
                **measured["variables"],
                "torchrec_ms": reference[direction],
                **measured[direction],
            }
            _put(entry["points"], point, ("design", "measured_with"))

    def _repeat_contended(self) -> None:
        """Measures again, while the part's seconds last, what other programs disturbed; the quieter one is kept."""
        tries = dict.fromkeys(self._kernels, 1)
        while True:
            again = [job for job in self._kernels if tries[job] < TRIES and self._is_contended(job)]
            left = self._begin + self.budget.kernel_s + self.budget.operator_s - time.monotonic()
            if not again or left < self._planned["kernels"]:
                return
            job = min(again, key=lambda job: tries[job])
            tries[job] += 1
            self._measure_kernel(job)

    def _is_contended(self, job: _Kernel) -> bool:
        entry = kernel_entry(self.document, job.kernel, job.optimizer, job.data_type, "backward")
        return any(point["contended"] for point in entry["points"] if point["design"] == job.number)

    # Operators.

    def _all_operators(self) -> list[tuple[str, str, int]]:
        from plimsoll.calibration._operators import operator_designs

        return operator_designs(self.document["device"]) if self.budget.operator_s else []

    def _missing_operators(self) -> list[tuple[str, str, int]]:
        points = self.document.get("operators", {}).get("points", [])
        done = {(point["operation"], point["data_type"], point["size"]) for point in points}
        return [job for job in self._all_operators() if job not in done]

    def _measure_operator(self, job: tuple[str, str, int]) -> None:
        from plimsoll.calibration._operators import measure_operator

        seconds = self._planned["operators"] * 0.8
        operators = self.document.setdefault("operators", {"points": []})
        operators["points"].append(measure_operator(*job, self.document["device"], seconds))

    def _fit_operators(self) -> None:
        operators = self.document.get("operators")
        if operators:
            from plimsoll.calibration._operators import fit_operators, held_out_operators

            points, is_processor = operators["points"], self.document["device"] == "cpu"
            operators |= fit_operators(points, is_processor)
            operators["held_out"] = held_out_operators(points, is_processor)
            operators["contended"] = any(point["contended"] for point in points)

    # Collectives and steps.

    def _all_collectives(self) -> list[list[Any]]:
        if self.document["ranks"] < 2 or not self.budget.collective_s:
            return []
        from plimsoll.calibration._collectives import OPERATIONS, SIZES

        sizes = [size for size in SIZES if size <= self.budget.max_collective_bytes]
        return [[operation, size] for operation in OPERATIONS for size in sizes]

    def _missing_collectives(self) -> list[list[Any]]:
        measured = {table["operation"]: table["bytes"] for table in self.document["collectives"]}
        imported = {name for name in self.document["sources"] if name.startswith("collectives/")}
        return [
            [operation, size]
            for operation, size in self._all_collectives()
            if f"collectives/{operation}" not in imported and size not in measured.get(operation, [])
        ]

    def _note_collective(self, sample: dict[str, Any]) -> None:
        tables = self.document["collectives"]
        found = [table for table in tables if table["operation"] == sample["operation"]]
        if not found:
            empty: dict[str, Any] = {"bytes": [], "ms": [], "low_ms": [], "samples": [], "contended": False}
            made = {"operation": sample["operation"], "group": "host", "ranks": self.document["ranks"], **empty}
            found = [made]
            tables.append(made)
        table = found[0]
        place = sum(size < sample["bytes"] for size in table["bytes"])
        table["bytes"].insert(place, sample["bytes"])
        table["ms"].insert(place, sample["low_ms"] if sample["contended"] else sample["ms"])
        table["low_ms"].insert(place, sample["low_ms"])
        table["samples"].insert(place, sample["samples"])
        table["contended"] = table["contended"] or sample["contended"]

    def _missing_models(self) -> list[str]:
        if self.document["ranks"] < 2 or not self.budget.models:
            return []
        from plimsoll.calibration._plans import MODELS

        done = {point["model"] for point in self.document.get("step", {}).get("points", [])}
        return [name for name in list(MODELS)[: self.budget.models] if name not in done]

    def _note_plans(self, sample: dict[str, Any]) -> None:
        self.document.setdefault("step", {"points": []})["points"] += sample["plans"]

    # The file.

    def _tell(self, part: str) -> None:
        if self._progress is None:
            return
        planned = sum(
            self._planned[name] * len(jobs)
            for name, jobs in (
                ("kernels", self._kernels),
                ("collectives", self._collectives),
                ("operators", self._operators),
                ("steps", self._models),
            )
        )
        pace = (time.monotonic() - self._begin) / self._planned_done if self._planned_done else 1.0
        self._progress(part, self._done, self._total, max(0.0, planned - self._planned_done) * pace)

    def _save_now_and_then(self) -> None:
        if time.monotonic() - self._saved > SAVE_EVERY_S:
            self._save()

    def _save(self) -> None:
        if self._out is not None:
            write_document(self._out, self.document)
        self._saved = time.monotonic()

    def _note_sources(self) -> None:
        told = f"plimsoll calibrate --budget {self.document['budget']}, {self.document['created']}"
        for part, kind in (
            ("kernels", "fitted"),
            ("collectives", "measured"),
            ("step", "fitted"),
            ("operators", "fitted"),
        ):
            if self.document.get(part):
                self.document["sources"].setdefault(part, {"kind": kind, "source": told})


def _put(points: list[dict[str, Any]], point: dict[str, Any], keys: Sequence[str]) -> None:
    """Adds the point, or replaces one of equal keys that was disturbed more."""
    for i, other in enumerate(points):
        if all(other[key] == point[key] for key in keys):
            if point["foreign_share"] < other["foreign_share"]:
                points[i] = point
            return
    points.append(point)


def calibrate(
    out: str | os.PathLike[str] | None = None,
    *,
    device: str = "cpu",
    ranks: int = 1,
    backend: str | None = None,
    budget: str = "quick",
    seed: int = 0,
    threads: int = 1,
    optimizers: Sequence[str] | None = None,
    data_types: Sequence[str] | None = None,
    import_nccl: Sequence[str | os.PathLike[str]] | str | os.PathLike[str] = (),
    overwrite: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Measures this machine: kernels, collectives, whole steps and dense operators, and fits what predicts them.

    Args:
        out: File of the machine document. One that a cut run left there is continued.
        device: "cpu" or "cuda".
        ranks: Processes of the collectives and steps; with one, neither is measured.
        backend: Of torch.distributed; "gloo" on a CPU, "nccl" on GPUs where not given.
        budget: "quick" (about a minute: kernels, collectives, operators) or "standard" (about ten, with whole steps).
        seed: Of the random inputs.
        threads: Of each rank.
        optimizers: Of the tables: "sgd", "rowwise_adagrad", "adagrad", "adam".
        data_types: Of the tables: "fp32", "fp16".
        import_nccl: Texts that programs of nccl-tests printed; these collectives are not measured.
        overwrite: Replace what is in `out`, complete or not.
        progress: Called with (part, measurements made, of how many, seconds left).

    Returns:
        The plimsoll.machine/1.

    Raises:
        Error: Arguments that do not fit each other or the file; a rank that failed.
    """
    document, size = _prepare(
        out, device, ranks, backend, budget, seed, threads, optimizers, data_types, import_nccl, overwrite
    )
    calibration = Calibration(document, size, progress, None if out is None else os.fspath(out))
    return with_threads(threads, calibration.run)


def with_threads(threads: int, run: Callable[[], T]) -> T:
    """What `run` returns, run with so many threads of torch."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return run()
    finally:
        torch.set_num_threads(before)


def _prepare(
    out: str | os.PathLike[str] | None,
    device: str,
    ranks: int,
    backend: str | None,
    budget: str,
    seed: int,
    threads: int,
    optimizers: Sequence[str] | None,
    data_types: Sequence[str] | None,
    import_nccl: Sequence[str | os.PathLike[str]] | str | os.PathLike[str],
    overwrite: bool,
) -> tuple[dict[str, Any], Budget]:
    if budget not in BUDGETS:
        raise Error("usage", "budget", f"'{budget}' is not known", f"give {' or '.join(BUDGETS)}")
    for name, number in (("ranks", ranks), ("threads", threads)):
        if number < 1:
            raise Error("usage", name, f"{number} is below 1", "give 1 or more")
    if device not in ("cpu", "cuda"):
        raise Error("usage", "device", f"'{device}' cannot be measured", "give cpu or cuda")
    optimizers = list(optimizers or DEFAULT_OPTIMIZERS.get(budget, ("sgd",)))
    data_types = list(data_types or DEFAULT_DATA_TYPES.get(budget, ("fp32",)))
    settings: dict[str, Any] = {
        "device": device,
        "ranks": ranks,
        "threads": threads,
        "backend": backend or ("nccl" if device == "cuda" else "gloo"),
        "budget": budget,
        "seed": seed,
        "optimizers": optimizers,
        "data_types": data_types,
    }
    expect_engines(device, ranks, optimizers, data_types)
    document = None
    if out is not None and os.path.exists(out) and not overwrite:
        document = _resume(out, settings)
    if document is None:
        document = new_document(**settings)
        paths = [import_nccl] if isinstance(import_nccl, (str, os.PathLike)) else list(import_nccl)
        for path in paths:
            for table in read_nccl(path):
                names = ("operation", "group", "ranks")
                if any(all(table[name] == other[name] for name in names) for other in document["collectives"]):
                    told = f"a second table of {table['operation']} on {table['ranks']} ranks"
                    raise Error("conflict", os.fspath(path), told, "import one of them")
                document["collectives"].append(table)
                source = {"kind": "measured", "source": f"nccl-tests, {os.path.basename(os.fspath(path))}"}
                document["sources"][f"collectives/{table['operation']}"] = source
    return document, BUDGETS[budget]


def expect_engines(device: str, ranks: int, optimizers: Sequence[str], data_types: Sequence[str]) -> None:
    torch = need("torch", "torchrec")
    need("torchrec", "torchrec")
    need("fbgemm_gpu", "torchrec")
    from plimsoll.calibration._kernels import DATA_TYPES, OPTIMIZERS

    for name, words, known in (("optimizers", optimizers, OPTIMIZERS), ("data_types", data_types, DATA_TYPES)):
        for word in words:
            if word not in known:
                raise Error("usage", name, f"'{word}' cannot be measured", f"give some of {', '.join(known)}")
    if device == "cuda":
        found = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if found < ranks:
            raise Error(
                "usage",
                "ranks",
                f"{ranks} ranks need as many GPUs, torch sees {found}",
                "lower --ranks, or give --device cpu",
            )


def _resume(out: str | os.PathLike[str], settings: dict[str, Any]) -> dict[str, Any]:
    place = os.fspath(out)
    document = read_document(out)
    remedy = "give another file, or overwrite"
    if document.get("complete", True):
        raise Error("conflict", place, "is a complete machine document already", remedy)
    for key, value in settings.items():
        if document.get(key) != value:
            told = f"was begun with {document.get(key)!r}, this run has {value!r}"
            raise Error("conflict", f"{place}#/{key}", told, remedy)
    if document.get("versions") != versions():
        raise Error("conflict", f"{place}#/versions", "was begun with other packages", remedy)
    return document
