"""How long this machine takes: kernels, collectives, whole steps, dense operators.

    >>> from plimsoll import calibration
    >>> machine = calibration.calibrate("machine.json", ranks=2)
    >>> plan = plimsoll.shard(model, on="2x16GiB", step_model=calibration.step_model(machine))

`calibrate` measures torch's and fbgemm's kernels, torch.distributed's collectives and TorchRec's sharded steps, and
writes a plimsoll.machine/1; it needs torch and torchrec. `check` measures a tenth again and says whether the machine
has drifted. `kernel_ms`, `collective_ms` and `operator_ms` compute what a document predicts. docs/calibrate.md has the
forms and what their errors mean.
"""

from __future__ import annotations

from plimsoll.calibration._drift import check
from plimsoll.calibration._forms import (
    Shard,
    collective_ms,
    find_kernel,
    kernel_ms,
    kernel_variables,
    operator_ms,
)
from plimsoll.calibration._machine import read_document as load
from plimsoll.calibration._machine import step_model
from plimsoll.calibration._nccl import read_nccl
from plimsoll.calibration._run import Progress, calibrate

__all__ = [
    "Progress",
    "Shard",
    "calibrate",
    "check",
    "collective_ms",
    "find_kernel",
    "kernel_ms",
    "kernel_variables",
    "load",
    "operator_ms",
    "read_nccl",
    "step_model",
]
