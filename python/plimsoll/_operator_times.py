"""Times of dense operators by a machine document (plimsoll.machine/1); needs no torch."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from plimsoll import _native
from plimsoll._errors import Error
from plimsoll._files import read_object

Machine = Mapping[str, Any] | str | os.PathLike[str]

_SHORT = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float64": "fp64", "double": "fp64"}


@dataclass(frozen=True)
class OperatorTimes:
    """What `plimsoll calibrate` knows of dense operators.

    Attributes:
        machine: Its name.
        launch_us: Of every operator, beside its work.
        gb_per_s: Of memory.
        tflops: By data type, "fp32".
        sources: "operators measured, launches assumed".
    """

    machine: str
    launch_us: float
    gb_per_s: float
    tflops: dict[str, float]
    sources: str

    @classmethod
    def of(cls, machine: Machine) -> OperatorTimes:
        """Of a document, the path of one, or the name of one that comes with Plimsoll ("h100-sxm5-80gb").

        Raises:
            Error: Nothing has that name; it is another document, or has no dense operators.
        """
        document, place = read_machine(machine)
        if document.get("schema") != "plimsoll.machine/1":
            raise Error("schema", place, "is not a machine document", "give what plimsoll calibrate wrote")
        operators = document.get("operators") or {}
        if not operators.get("memory_gb_per_s") or not operators.get("peak_tflops"):
            raise Error("value", place, "has no times of dense operators", "measure them: plimsoll calibrate")
        kinds = {part: entry["kind"] for part, entry in document.get("sources", {}).items()}
        sources = f"operators {kinds.get('operators', 'of an unstated source')}"
        launches = kinds.get("operators/launch_us")
        if launches and launches != kinds.get("operators"):
            sources += f", launches {launches}"
        return cls(
            machine=document.get("name") or place,
            launch_us=operators.get("launch_us", 0.0),
            gb_per_s=operators["memory_gb_per_s"],
            tflops=dict(operators["peak_tflops"]),
            sources=sources,
        )

    def ms(self, flops: float, moved: float, data_type: str) -> float:
        """launch + max(operations / peak, bytes / bandwidth); a data type without a peak has the highest.

        Args:
            flops: Operations, two for a multiply-add.
            moved: Bytes read and written.
            data_type: As torch names it, "torch.bfloat16", "float32".
        """
        name = data_type.rpartition(".")[2].lower()
        peak = self.tflops.get(_SHORT.get(name, "fp32")) or max(self.tflops.values())
        return self.launch_us * 1e-3 + max(flops / (peak * 1e9), moved / (self.gb_per_s * 1e6))


def read_machine(machine: Machine) -> tuple[Mapping[str, Any], str]:
    """The document and its place, whatever it holds.

    Raises:
        Error: Nothing has that name, or the file cannot be read.
    """
    if isinstance(machine, Mapping):
        return machine, "machine"
    is_file = not isinstance(machine, str) or "/" in machine or machine.endswith(".json") or os.path.isfile(machine)
    if is_file:
        return read_object(machine, "plimsoll calibrate"), os.fspath(machine)
    return json.loads(_native.shipped_machine(machine)), machine
