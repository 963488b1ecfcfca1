"""Planning over the options of another planner, as plain data: what `plimsoll.torchrec.dump` writes.

    >>> answer = plimsoll.options.plan(json.load(open("options.json")), objective="rating")

The document is "plimsoll.torchrec_options/1"; neither torch nor torchrec is needed to plan it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from plimsoll import _native
from plimsoll._answer import GIB, Certificate
from plimsoll._command import Document, Progress, plain
from plimsoll._errors import Error
from plimsoll._interrupt import interruptible

SCHEMA = "plimsoll.torchrec_options/1"
ROW_CUTS = frozenset({"row_wise", "table_row_wise", "grid_shard"})
COLUMN_CUTS = frozenset({"column_wise", "table_column_wise", "grid_shard"})
UNIFORM = frozenset({"row_wise", "data_parallel"})
# Weights of the slowest rank's kernels and collectives; ms for every sharding type in a module, every output byte and
# every table of the fullest rank, every step.
STEP_MODEL = {
    "kernel_weight": 1.0,
    "collective_weight": 1.0,
    "ms_per_sharding_type": 0.5,
    "ms_per_output_byte": 0.0,
    "ms_per_table": 0.0,
    "floor_ms": 0.0,
}
TIERS = ("hbm", "ddr", "ssd")
_LOOSER = {
    "strict": "of options that TorchRec's runtime trains wrongly or refuses",
    "strict_numerics": "of columns with an optimizer state for each block, as TorchRec trains them",
}
OBJECTIVES = ("time", "rating", "step")

Shape = tuple[int, int, int, int]  # rows, columns, first row, first column
Cost = tuple[tuple[int, int, int], tuple[float, ...]]  # hbm, ddr, ssd; the six components of perf


@dataclass(frozen=True)
class Settings:
    """What a search is asked for.

    Attributes:
        objective: "time" (a step, with rating at most that of TorchRec's own plan), "rating" (the slowest rank, what
            TorchRec's planner minimizes) or "step" (the slowest rank of each phase).
        strict: Never plan what TorchRec's runtime trains wrongly.
        strict_numerics: Never plan what keeps an optimizer state for each block of columns either.
        time_limit_s: Clock of the search; None: none.
        effort: Moves of the search; None: its default.
        seed: Of the search.
        tolerance: A gap up to this counts as optimal.
        progress: Called with (effort, incumbent, lower bound).
        step_model: What a step takes, by the names of `STEP_MODEL`; those that are left out keep their defaults.
        machine: Times of shards and steps (plimsoll.machine/1): a dict, a path or the name of a shipped one.
    """

    objective: str = "time"
    strict: bool = True
    strict_numerics: bool = False
    time_limit_s: float | None = None
    effort: int | None = None
    seed: int = 0
    tolerance: float = 1e-6
    progress: Progress | None = None
    step_model: Mapping[str, float] | None = None
    machine: Mapping[str, Any] | str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise Error("not_found", "objective", f"no objective '{self.objective}'", f"choose {_listed(OBJECTIVES)}")
        if self.machine is not None:
            _native.check_machine(*machine_text(self.machine))
        unknown = sorted(set(self.step_model or ()) - set(STEP_MODEL))
        if unknown:
            raise Error("not_found", "step_model", f"no charge '{unknown[0]}'", f"choose {_listed(STEP_MODEL)}")
        if self.time_limit_s is not None and not self.time_limit_s > 0:
            raise Error("value", "time_limit_s", f"{self.time_limit_s} is not above 0", "give seconds, or None")
        if self.effort is not None and not 0 <= self.effort <= 2**60:
            raise Error("value", "effort", f"{self.effort} is not from 0 to 2^60", "give moves, or None")
        if not 0 <= self.seed < 2**64:
            raise Error("value", "seed", f"{self.seed} is not from 0 to 2^64 - 1")
        if not self.tolerance >= 0:
            raise Error("value", "tolerance", f"{self.tolerance} is below 0", "give a gap, 1e-6 say")


def _listed(names: Iterable[str]) -> str:
    """ "a, b or c"."""
    *first, last = names
    return f"{', '.join(first)} or {last}"


@dataclass(frozen=True)
class Found:
    """What a search found.

    Attributes:
        status: "optimal", "feasible", "infeasible" (proved) or "limit".
        certificate: Of the objective that was asked for.
        times: {"rating", "step", "time"} of the plan, ms.
        reference: The same of TorchRec's own search; None where it found no plan.
        choice: {fqn: (option, ranks of its shards)}; empty without a plan.
        binding: The tier that is short; may be empty.
        missing_bytes: How short it is over all ranks, or on a rank where one table fits on none; 0 if unknown.
        explanation: Sentences for people.
        warnings: (code, place, message) of remarks.
    """

    status: str
    stop: str
    certificate: Certificate
    times: dict[str, float]
    reference: dict[str, float] | None
    choice: dict[str, tuple[int, list[int]]]
    effort: int = 0
    binding: str = ""
    missing_bytes: int = 0
    explanation: list[str] = field(default_factory=list)
    warnings: list[tuple[str, str, str]] = field(default_factory=list)

    @property
    def hazards(self) -> list[str]:
        """Tables that hold the hazards of plans with the fewest, where no plan is free of them."""
        return list(dict.fromkeys(fqn for _, fqn in self.named_hazards))

    @property
    def named_hazards(self) -> list[tuple[str, str]]:
        """The same as (hazard, table)."""
        named = [
            (message.partition(":")[0], place) for code, place, message in self.warnings if code == "hazard_unavoidable"
        ]
        return list(dict.fromkeys(named))


def total_of(perf: Sequence[float]) -> float:
    """fwd_compute, fwd_comms, bwd_compute, bwd_comms, prefetch_compute, added up as TorchRec does."""
    return perf[0] + perf[2] + perf[1] + perf[3] + perf[4]


def runs_of(
    sharding_type: str, shapes: Sequence[Shape], costs: Iterable[Cost]
) -> tuple[int, list[tuple[int, ...]], list[tuple[float, ...]]]:
    """(column blocks, runs, perfs) as the native space takes them, of shards in TorchRec's order.

    Raises:
        Error: Column blocks that are cut or cost unlike.
    """
    costs = list(costs)
    blocks = 1
    if sharding_type in COLUMN_CUTS:
        blocks = len({shape[3] for shape in shapes})
    per_block = len(shapes) // blocks
    if blocks > 1:
        head = [(*shape[:2], cost) for shape, cost in zip(shapes[:per_block], costs)]
        for start in range(per_block, len(shapes), per_block):
            stop = start + per_block
            if [(*shape[:2], cost) for shape, cost in zip(shapes[start:stop], costs[start:stop])] != head:
                raise Error("value", "shards", f"{sharding_type} with unlike column blocks is not known")
    runs: list[tuple[int, ...]] = []
    perfs: list[tuple[float, ...]] = []
    is_row_cut = sharding_type in ROW_CUTS
    first = 0
    for (rows, columns, (storage, perf)), group in groupby(
        (shape[0], shape[1], cost) for shape, cost in zip(shapes[:per_block], costs)
    ):
        count = sum(1 for _ in group)
        runs.append((count, rows, columns, shapes[first][2], rows if is_row_cut else 0, *storage))
        perfs.append(perf)
        first += count
    return blocks, runs, perfs


def step_model_values(given: Mapping[str, float] | None) -> list[float] | None:
    return None if given is None else [float(value) for value in {**STEP_MODEL, **given}.values()]


def machine_text(machine: Mapping[str, Any] | str | os.PathLike[str]) -> tuple[str, str]:
    """(the document, its name) of a dict or a path that ends with .json; of another name ("", the name)."""
    if isinstance(machine, Mapping):
        return json.dumps(machine), "machine"
    name = os.fspath(machine)
    if not name.endswith(".json"):
        return "", name
    try:
        with open(name, encoding="utf-8") as file:
            return file.read(), name
    except OSError as why:
        raise Error("not_found", name, why.strerror or str(why), "give a file that can be read") from None


def search(space: _native.OptionSpace, fqns: Sequence[str], room: npt.NDArray[np.int64], settings: Settings) -> Found:
    """Searches the space; `fqns` are its tables', `room` [world_size, 3] the bytes left of each rank and tier."""
    found = _search(space, fqns, room, settings)
    if found.choice or found.stop == "cancelled":
        return found
    for is_asked, keyword in ((settings.strict, "strict"), (settings.strict_numerics, "strict_numerics")):
        looser = replace(settings, **{keyword: False}, effort=0, progress=None)
        if is_asked and _search(space, fqns, room, looser).choice:
            found.explanation.append(f"{keyword}=False has a plan, {_LOOSER[keyword]}")
            break
    return found


def _search(space: _native.OptionSpace, fqns: Sequence[str], room: npt.NDArray[np.int64], settings: Settings) -> Found:
    if settings.machine is not None:
        space.set_machine(*machine_text(settings.machine))
    step_model = step_model_values(settings.step_model)
    found = interruptible(
        lambda cancel: space.search(
            room=np.ascontiguousarray(room, dtype=np.int64),
            objective=settings.objective,
            step_model=step_model,
            keeps_hazards=not settings.strict,
            strict_numerics=settings.strict_numerics,
            effort=-1 if settings.effort is None else int(settings.effort),
            time_limit_s=settings.time_limit_s,
            seed=int(settings.seed),
            tolerance=settings.tolerance,
            cancel=cancel,
            progress=settings.progress,
        )
    )
    return Found(
        status=found["status"],
        stop=found["stop"],
        certificate=Certificate(found["objective"], found["lower_bound"], found["gap"], found["proof"]),
        times=found["times"],
        reference=found["reference"],
        choice=choice_of(fqns, found["plan"]),
        effort=found["effort"],
        binding=found["binding"],
        missing_bytes=found["missing_bytes"],
        explanation=found["explanation"],
        warnings=found["warnings"],
    )


def choice_of(fqns: Sequence[str], plan: Mapping[str, npt.NDArray[Any]] | None) -> dict[str, tuple[int, list[int]]]:
    """{fqn: (option, ranks)}; uniform options have no ranks here."""
    if plan is None:
        return {}
    options, first, ranks = plan["options"].tolist(), plan["first_rank"].tolist(), plan["ranks"].tolist()
    return {fqn: (options[t], ranks[first[t] : first[t + 1]]) for t, fqn in enumerate(fqns)}


@dataclass(frozen=True)
class Refusal:
    """Why there is no plan.

    Attributes:
        text: For people.
        binding: The tier that is short: "hbm", "ddr" or "ssd"; may be empty.
        missing_bytes: How short it is over all ranks, or on a rank where it is one table that fits on none, as the text
            says; 0 where that is not known.
        tables: Those that need most of it, at most five, or that have no option left.
    """

    text: str = ""
    binding: str = ""
    missing_bytes: int = 0
    tables: tuple[str, ...] = ()


def explain(found: Found, tier: str, least: Mapping[str, int], capacity: int) -> Refusal:
    """The tier that binds, the bytes that are missing, the tables that need most of it.

    Args:
        found: A search without a plan.
        tier: That binds.
        least: Bytes that each table needs at least in that tier.
        capacity: Bytes of all ranks in that tier.
    """
    if found.binding.startswith("table "):  # no bytes would help it
        text = "\n".join(("plimsoll: proved infeasible", *(f"{found.binding}: {line}" for line in found.explanation)))
        return Refusal(text, tables=(found.binding.removeprefix("table "),))
    missing = found.missing_bytes or max(sum(least.values()) - capacity, 0)
    largest = [(fqn, size) for fqn, size in sorted(least.items(), key=lambda item: (-item[1], item[0]))[:5] if size]
    is_proved = found.status == "infeasible"
    proved = (
        "proved infeasible; "
        if is_proved
        else "no plan was found, and it is not proved that there is none; most likely "
    )
    lines = [f"plimsoll: {proved}{tier} binds", *found.explanation]
    if missing and not found.missing_bytes:  # else the explanation says which bytes
        lines.append(f"{missing} bytes ({missing / GIB:.3g} GiB) of {tier} are missing over all ranks")
    if largest:
        sizes = ", ".join(f"{fqn} {size / GIB:.3g} GiB" for fqn, size in largest)
        lines.append(f"the tables that need most of it, at the least: {sizes}")
    return Refusal("\n".join(lines), tier, missing, tuple(fqn for fqn, _ in largest))


def _text(document: Document) -> str:
    if not isinstance(document, Mapping):
        with open(document, encoding="utf-8") as file:
            return file.read()
    try:
        return json.dumps(document, default=plain)
    except (TypeError, ValueError) as error:
        raise Error("value", "options", str(error), "write it by plimsoll.torchrec.dump") from None


def plan(document: Document, **settings: Any) -> dict[str, Any]:
    """Plans a dump, a document or its path; keywords are those of `Settings`.

    Returns:
        {"status", "plan": [{"fqn", "option": index into the dump's, "ranks"}], "rating", "bound", "certificate", ...};
        "plan" is absent where there is none.

    Raises:
        Error: Another kind of document, or what docs/formats.md does not allow in one.
    """
    wanted = Settings(**settings)
    space, fqns, position, room, context_hash = _native.read_space(_text(document))
    found = search(space, fqns, np.array(room, dtype=np.int64), wanted)
    answer: dict[str, Any] = {
        "schema": "plimsoll.torchrec_answer/1",
        "status": found.status,
        "certificate": vars(found.certificate),
        "explanation": found.explanation,
        "warnings": [{"code": code, "place": place, "message": message} for code, place, message in found.warnings],
        "context_hash": context_hash,
    }
    if found.choice:
        everywhere = list(range(len(room)))
        answer["plan"] = [
            {
                "fqn": fqn,
                "option": position[option],
                "ranks": everywhere if space.describe(option)[1] in UNIFORM else ranks,
            }
            for fqn, (option, ranks) in found.choice.items()
        ]
        answer["rating"] = found.times["rating"]
        answer["bound"] = found.certificate.lower_bound
    return answer
