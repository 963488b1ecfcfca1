"""The keywords of the planning functions, typed: what the commands of the same names take as flags."""

from __future__ import annotations

import difflib
import inspect
import os
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Literal, TypedDict, Union

from plimsoll._command import Document

Size = Union[str, int]  # "80GiB"; an int counts bytes
Count = Union[str, int]  # 4096, "4Ki"
Words = Union[str, Sequence[str]]
OptionalDocument = Union[Document, None]


class OutputFlags(TypedDict, total=False):
    """Where the answer is also written."""

    output: str | os.PathLike[str] | None


class SearchFlags(OutputFlags, total=False):
    """How a search runs, and for how long."""

    seed: int
    time_limit: str | float | None
    effort: int | None


class MachineFlags(TypedDict, total=False):
    """Whose times count."""

    machine: OptionalDocument


class ProblemFlags(MachineFlags, total=False):
    """What describes a model of embedding tables and its hardware."""

    optimizer: Words | None
    data_type: Words | None
    constraints: OptionalDocument
    cost_model: str | None
    pipeline_type: str | None
    use_exact_enumerate_order: bool
    inference: bool
    run_embedding_at_peak_memory: bool
    reservation: str | None
    dense_tensor_estimate: Size | None
    parameter_multiplier: float | None
    hbm_cap: Size | None
    ddr_cap: Size | None
    host_memory: Size | None
    local_world_size: int | None
    pod_size: int | None
    intra_host_bw: str | None
    inter_host_bw: str | None
    easyrec_environment: bool
    checkpoint_plan: OptionalDocument
    force_checkpoint_plan: bool


class TableFlags(ProblemFlags, total=False):
    """The same for one batch size."""

    batch_size: Count | None


class DeviceFlags(MachineFlags, total=False):
    """What describes the devices of an operator graph and its costs."""

    devices: int | Words | None
    memory: Size | Sequence[str] | None
    pin: Words | None
    forbid: Words | None
    times: str | None
    cost_overlay: str | os.PathLike[str] | None
    launch_floor: str | None
    activations: Literal["none", "stashed", "all", None]
    microbatches: int | None
    straight: bool
    bandwidth: str | None


class ModuleFlags(MachineFlags, total=False):
    """Which memory and time modules have, and which of them may be checkpointed."""

    peak: Literal["step", "torch", None]
    costs: Literal["operators", "fit", None]
    repair: Words | None
    optimizer_bytes: Size | None
    unit_overhead_ms: float | None
    ac_unit: Words | None
    segments: int | None
    nested: bool
    in_flight: int | None
    world_size: int | None
    fsdp_unit: Words | None
    fsdp_buffers: bool
    param_dtype_ratio: float | None
    reduce_dtype_ratio: float | None


class ShardFlags(TableFlags, SearchFlags, total=False):
    """Of `shard`."""

    search: Literal["balanced", "torchrec", None]
    objective: Literal["rating", "step", "time", None]
    step_model: OptionalDocument
    frontier: bool
    widths: Literal["default", "all", None]
    rules: OptionalDocument
    pool_ddr: bool
    strict_numerics: bool
    proposer: str | None
    partitioner: str | None
    perf_model: Literal["perf", "storage", None]
    balance_modules: bool
    load_plan: OptionalDocument
    stats_file: str | os.PathLike[str] | None
    replay: OptionalDocument
    tolerance: float | None


class FrontierFlags(ModuleFlags, SearchFlags, total=False):
    """Of `frontier`."""

    search: str | None
    variant: str | None


class CheckpointFlags(FrontierFlags, total=False):
    """Of `checkpoint`."""

    overhead: str | float | None
    knee: bool
    frontier: bool
    tradeoff: bool
    fit_segments: int | None
    profile: bool


class PartitionFlags(DeviceFlags, SearchFlags, total=False):
    """Of `partition`."""

    on: OptionalDocument
    objective: Literal["throughput", "latency", "pipeline", "fx", None]
    search: str | None
    contiguous: bool
    general: bool
    variant: str | None
    tolerance: float | None


class PlanFlags(TableFlags, DeviceFlags, total=False):
    """Of `trace` and `report`, which take plans of several kinds."""

    on: OptionalDocument


class DiffFlags(TableFlags, DeviceFlags, total=False):
    """Of `diff`."""


class ConvertFlags(PlanFlags, OutputFlags, total=False):
    """Of `convert`."""

    force: bool


class CheckFlags(PlanFlags, ModuleFlags, total=False):
    """Of `check`."""

    strict: bool
    strict_numerics: bool
    tolerance: float | None
    budget: Size | float | None
    contiguous: bool


class ReplanFlags(TableFlags, SearchFlags, total=False):
    """Of `replan`."""

    objective: Literal["rating", "step", "time", None]
    tolerance: float | None


class RobustFlags(TableFlags, SearchFlags, total=False):
    """Of `robust`."""

    objective: Literal["rating", "step", "time", None]
    scenarios: int | None
    fresh_scenarios: int | None
    tolerance: float | None


class SizeFlags(TableFlags, DeviceFlags, SearchFlags, total=False):
    """Of `size`."""

    objective: Literal["rating", "step", "time", None]


class WhatIfFlags(ProblemFlags, SearchFlags, total=False):
    """Of `whatif`."""

    part: str | None


class ExpertFlags(SearchFlags, total=False):
    """Of `place_experts`."""

    search: Literal["balanced", "eplb", None]
    tolerance: float | None


class ExpertReplanFlags(SearchFlags, total=False):
    """Of `replan_experts`."""

    tolerance: float | None


def check_keywords(function: Callable[..., Any], flags: Mapping[str, object], kind: type) -> None:
    """Refuses keywords that the function does not have.

    Args:
        function: Whose keywords.
        flags: What it was called with beside its own parameters.
        kind: A TypedDict of the keywords that it takes.

    Raises:
        TypeError: A keyword that is unknown; the message names a similar one.
    """
    known = kind.__annotations__
    for name in flags:
        if name in known:
            continue
        parameters = inspect.signature(function).parameters.values()
        names = [parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD]
        similar = difflib.get_close_matches(name, [*names, *known], n=1)
        remedy = f"did you mean '{similar[0]}'?" if similar else f"plimsoll {function.__name__} --help lists the flags"
        raise TypeError(f"{function.__name__}() got an unexpected keyword argument '{name}'; {remedy}")
