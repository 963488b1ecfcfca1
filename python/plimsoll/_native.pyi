from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__version__: str

class Cancel:
    def __init__(self) -> None: ...
    def set(self) -> None: ...

Progress = Callable[[int, float | None, float | None], None]

def run(arguments: Sequence[str], cancel: Cancel, progress: Progress | None) -> tuple[int, str, str]: ...
def main(arguments: Sequence[str]) -> int: ...
def check_machine(text: str, name: str) -> None: ...
def shipped_machine(name: str) -> str: ...

class OptionSpace:
    @property
    def num_options(self) -> int: ...
    @property
    def num_tables(self) -> int: ...
    def add_table(
        self,
        fqn: str,
        name: str,
        module_path: str,
        dependency: str,
        rows: int,
        columns: int,
        is_pooled: bool,
    ) -> int: ...
    def add_option(
        self,
        table: int,
        sharding_type: str,
        compute_kernel: str,
        column_blocks: int,
        runs: Sequence[Sequence[int]],
        perfs: Sequence[Sequence[float]],
    ) -> int: ...
    def describe(self, option: int) -> tuple[str, str, str, int, int]: ...
    def runs(self, option: int) -> list[tuple[int, int, int, int, float]]: ...
    def least_options(self) -> npt.NDArray[np.int32]: ...
    def set_machine(self, text: str, name: str) -> None: ...
    def search(
        self,
        room: npt.NDArray[np.int64],
        objective: str,
        step_model: Sequence[float] | None,
        keeps_hazards: bool,
        strict_numerics: bool,
        effort: int,
        time_limit_s: float | None,
        seed: int,
        tolerance: float,
        cancel: Cancel,
        progress: Progress | None,
    ) -> dict[str, Any]: ...
    def judge(
        self,
        options: npt.NDArray[np.int32],
        ranks: Sequence[Sequence[int]],
        step_model: Sequence[float] | None,
    ) -> dict[str, Any]: ...
    def easyrec_proposals(
        self,
        room: npt.NDArray[np.int64],
        form: str,
        hbm_bins_per_device: int,
        ddr_bins_per_device: int,
        by_hbm: bool,
        cancel: Cancel,
    ) -> list[list[int]]: ...
    def place(
        self, room: npt.NDArray[np.int64], options: npt.NDArray[np.int32], effort: int
    ) -> dict[str, npt.NDArray[Any]] | None: ...

def make_space(
    world_size: int,
    local_world_size: int,
    group_size: int,
    compute_device: str,
    model: str,
    distinct_columns: bool = True,
    buckets: bool = False,
) -> OptionSpace: ...
def read_space(
    text: str,
) -> tuple[OptionSpace, list[str], list[int], list[list[int]], str | None]: ...
def enumerate_space(model: str, topology: str, cost_model: str, batch_size: int) -> OptionSpace: ...
