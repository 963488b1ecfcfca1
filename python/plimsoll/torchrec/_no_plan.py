"""Why TorchRec's planner has no plan, and what would: what `plimsoll explain` says of the module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn
from torchrec.distributed.planner.storage_reservations import (
    FixedPercentageStorageReservation,
    HeuristicalStorageReservation,
    InferenceStorageReservation,
)
from torchrec.distributed.planner.types import ParameterConstraints, StorageReservation, Topology
from torchrec.distributed.types import ModuleSharder

from plimsoll._command import call
from plimsoll._errors import Error
from plimsoll.torchrec._model import known_cost_model, topology_document
from plimsoll.torchrec._offline import model_document

_RESERVATIONS: dict[type[StorageReservation], str] = {
    HeuristicalStorageReservation: "heuristical",
    FixedPercentageStorageReservation: "fixed_percentage",
    InferenceStorageReservation: "inference",
}
_CLASSES = {name: kind.__name__ for kind, name in _RESERVATIONS.items()}


@dataclass(frozen=True)
class NoPlan:
    """Attributes as of an answer without a plan, changes in the words of a TorchRec program."""

    cap: str = ""
    conflict: list[dict[str, str]] = field(default_factory=list)
    fixes: list[dict[str, Any]] = field(default_factory=list)

    @property
    def text(self) -> str:
        lines = []
        if self.conflict:
            names = "; ".join(member["name"] for member in self.conflict)
            lines.append(f"these conflict, and without any one of them a plan fits, the others left out: {names}")
        if self.fixes:
            lines.append("a plan was found with each of these, the fastest first:")
            lines += [f"  {fix['change']}: {fix['ms']:.4g} ms" for fix in self.fixes]
        return "\n".join(lines)


def _in_program(change: str) -> str:
    """What to write in a program instead of the flag; "" where no keyword says it."""
    flag, _, value = change.partition(" ")
    name, _, rest = value.partition(":")
    if flag == "--reservation":
        return f"storage_reservation={_CLASSES[name]}(percentage={rest})"
    if flag == "--data-type":
        return f"data_type {name} for {rest.replace(',', ', ')}"
    if flag == "--optimizer":
        return f"optimizer {name} for {rest.replace(',', ', ')}"
    words = {
        "--hbm-cap": "hbm_cap of the topology: ",
        "--ddr-cap": "ddr_cap of the topology: ",
        "--dense-tensor-estimate": "dense_tensor_estimate of the reservation: ",
        "--batch-size": "batch_size=",
        "constraints": "constraints ",
        "without": "without ",
    }
    if flag not in words:
        return ""
    return words[flag] + value.replace("--strict-numerics", "strict_numerics")


def _of_program(member: dict[str, str]) -> dict[str, str]:
    """A constraint as a program has it: its hardware is a topology, and no file."""
    for tier in ("HBM", "DDR"):
        if member["name"].startswith(f"{tier} of "):
            return {**member, "name": f"{tier.lower()}_cap of the topology"}
    if member["kind"] == "reservation":
        return {**member, "name": "storage_reservation"}
    return {
        **member,
        "name": member["name"].removeprefix("--").replace("-", "_") if member["kind"] == "option" else member["name"],
    }


def explain_no_plan(
    module: nn.Module,
    sharders: Sequence[ModuleSharder[nn.Module]],
    topology: Topology,
    constraints: Mapping[str, ParameterConstraints] | None,
    reservation: StorageReservation,
    batch_size: int,
    flags: Mapping[str, object],
) -> NoPlan:
    """Empty where the reservation is none of TorchRec's, or where the module as a document has a plan, which can be
    where estimators or enumerators are the caller's own."""
    kind = _RESERVATIONS.get(type(reservation))
    if kind is None:
        return NoPlan()
    percentage = float(reservation._percentage)
    asked = {
        "on": topology_document(topology),
        "batch_size": batch_size,
        "cost_model": known_cost_model(),
        "reservation": f"{kind}:{percentage}",
        **flags,
    }
    estimate = getattr(reservation, "_dense_tensor_estimate", None)
    if estimate:
        asked["dense_tensor_estimate"] = int(estimate)
    try:
        model = model_document(module, topology, constraints, sharders=sharders)
        answer = call("explain", {"model": model}, asked)
    except Error:  # a module that no document says
        return NoPlan()
    if answer.get("status") not in ("infeasible", "limit"):
        return NoPlan()
    explanation = answer.get("explanation", {})
    fixes = [{**fix, "change": _in_program(fix["change"])} for fix in explanation.get("fixes", [])]
    return NoPlan(
        explanation.get("cap", ""),
        [_of_program(member) for member in explanation.get("conflict", [])],
        [fix for fix in fixes if fix["change"]],
    )
