"""Times of a machine document in TorchRec's own estimator, for programs that keep its planner.

    >>> bandwidths = plimsoll.torchrec.comms_bandwidths("machine.json")
    >>> topology = Topology(world_size=8, compute_device="cuda", generalized_comms_bandwidths=bandwidths)
    >>> config = plimsoll.torchrec.perf_config("machine.json", topology)
    >>> estimator = EmbeddingPerfEstimatorV2(topology, constraints, config=config)
    >>> enumerator = EmbeddingEnumerator(topology, batch_size, constraints, estimator=[estimator, storage_estimator])

What TorchRec's formulas have no place for is left out or fixed: what a call and a sharding type cost, distinct rows
(all ids are distinct), the size of a shard beside the cache (`shard_bytes`) and of a message (`message_bytes`).
"""

from __future__ import annotations

import math
from typing import Any

from torchrec.distributed.planner.constants import kernel_bw_lookup
from torchrec.distributed.planner.types import Perf, Topology
from torchrec.distributed.types import ShardingType

from plimsoll._errors import Error
from plimsoll._operator_times import Machine, read_machine
from plimsoll.calibration._forms import ELEMENT_BYTES, KERNEL_VARIABLES, MIB, collective_ms, find_kernel, kernel_ms

try:
    from torchrec.distributed.planner.types import CollectiveType, GeneralizedCommsBandwidth
except ImportError:  # TorchRec 1.2
    GeneralizedCommsBandwidth = object  # type: ignore[assignment, misc]
try:
    from torchrec.distributed.planner.constants import DP_ELEMENTWISE_KERNELS_PERF_FACTOR
    from torchrec.distributed.planner.estimator import (
        EstimatorPerfCoefficients,
        HardwarePerfConfig,
        PerfCoefficient,
        PerfCoefficientConfig,
    )
except ImportError:  # before TorchRec 1.8
    HardwarePerfConfig = object  # type: ignore[assignment, misc]

_ID_BYTES = 8
_MS = 1e-6  # of a ns
_INSTEAD = {  # of a collective without a table (docs/mathematics/calibrated-times.md#collectives)
    "all_to_all": ("all_gather", "reduce_scatter"),
    "reduce_scatter": ("all_gather", "all_to_all"),
    "all_gather": ("reduce_scatter", "all_to_all"),
    "all_reduce": (),
}


def _terms(document: Any, kernel: str, data_type: str, direction: str, optimizer: str | None) -> dict[str, float]:
    entry = find_kernel(document, kernel, data_type, direction, optimizer)
    if entry is None or not entry.get("terms"):
        what = f"has no {kernel} kernel for {data_type}, {direction}" + (f" with {optimizer}" if optimizer else "")
        raise Error("value", document.get("name", "machine"), what, "calibrate with this optimizer and data type")
    return dict(entry["terms"])


class _Config(HardwarePerfConfig):  # type: ignore[misc, valid-type]
    """Coefficients by kernel, and what a shard costs by itself.

    Attributes:
        mean_error: Of the exported look-ups and updates against the document's forms, over the calls it measured.
    """

    _use_block_usage_penalty = False
    _use_min_dim_for_lookup = False
    _use_bytes_for_input_read_size = True
    name = "plimsoll"
    coefficients = None

    def __init__(
        self, coefficients: Any, shard_ms: dict[str, tuple[float, float]], weight_ms: float, optimizer_ms: float
    ) -> None:
        self.coefficients = coefficients
        self.mean_error: float | None = None
        self._shard_ms = shard_ms
        self._weight_ms = weight_ms  # of a replica's element, backward
        self._optimizer_ms = optimizer_ms  # which TorchRec counts of it as communication

    def post_process_perfs(
        self,
        shard_perfs: list[Perf],
        shard_sizes: list[list[int]],
        sharding_type: str,
        uneven_sharding_perf_multiplier: float = 1.0,
    ) -> list[Perf]:
        """Adds what a shard costs whatever it looks up; of replicas the document's optimizer replaces TorchRec's."""
        is_replica = sharding_type == ShardingType.DATA_PARALLEL.value
        forward, backward = self._shard_ms["dense" if is_replica else "fused"]
        for perf, (rows, columns) in zip(shard_perfs, shard_sizes):
            perf.fwd_compute += forward
            perf.bwd_compute += backward
            if is_replica:
                perf.bwd_compute += rows * columns * self._weight_ms
                perf.bwd_comms = max(0.0, perf.bwd_comms - rows * columns * self._optimizer_ms)
        return shard_perfs


def perf_config(
    machine: Machine,
    topology: Topology,
    *,
    optimizer: str | None = "sgd",
    data_type: str = "fp32",
    shard_bytes: int = 256 * MIB,
) -> Any:
    """A `HardwarePerfConfig` with the kernels of a machine document, for TorchRec's `EmbeddingPerfEstimatorV2`.

    Args:
        machine: A document of `plimsoll calibrate`, the path of one, or the name of one that comes with Plimsoll.
        topology: Of the planner: kernels without a form of their own are as much slower than `fused` as its bandwidths
            say.
        optimizer: Of the tables: "sgd", "rowwise_adagrad", ...
        data_type: Of their weights: "fp32", "fp16".
        shard_bytes: Of a typical shard, which says how far it exceeds a cache.

    Raises:
        Error: TorchRec before 1.8, whose estimator cannot be changed; the document lacks such kernels.
    """
    if HardwarePerfConfig is object:
        raise Error("usage", "torchrec", "has an estimator that takes no coefficients", "install TorchRec 1.8 or later")
    document, _ = read_machine(machine)
    weight = document.get("step", {}).get("kernel_weight", 1.0)
    misses = max(0.0, math.log2(shard_bytes / MIB))
    by_kernel, shard_ms, forms = {}, {}, {}
    for kernel in ("fused", "dense"):
        bandwidth = kernel_bw_lookup(
            topology.compute_device, kernel, topology.hbm_mem_bw, topology.ddr_mem_bw, topology.hbm_to_ddr_mem_bw
        )
        assert bandwidth is not None
        of_direction = []
        for direction in ("forward", "backward"):
            terms = _terms(document, kernel, data_type, direction, optimizer if kernel == "fused" else None)
            forms[kernel, direction] = terms
            per_byte = terms.get("read_byte_ns", 0.0) + misses * terms.get("distinct_byte_miss_ns", 0.0)
            scale = weight * _MS * bandwidth
            of_direction.append(
                PerfCoefficient(
                    scale * (terms.get("lookup_ns", 0.0) + terms.get("distinct_row_ns", 0.0)) / _ID_BYTES,
                    scale * per_byte,
                    scale * terms.get("output_byte_ns", 0.0),
                    0.0,
                )
            )
        coefficients = EstimatorPerfCoefficients(*of_direction)
        shard_ms[kernel] = tuple(
            weight * _MS * forms[kernel, direction].get("table_ns", 0.0) for direction in ("forward", "backward")
        )
        if kernel == "dense":
            per_byte = forms[kernel, "backward"].get("weight_byte_ns", 0.0)
            weight_ms = weight * _MS * per_byte * ELEMENT_BYTES[data_type]
            optimizer_ms = DP_ELEMENTWISE_KERNELS_PERF_FACTOR * ELEMENT_BYTES[data_type] / bandwidth
            by_kernel[ShardingType.DATA_PARALLEL.value, "dense"] = coefficients
        else:
            default = coefficients
    config = _Config(PerfCoefficientConfig(by_kernel=by_kernel, default=default), shard_ms, weight_ms, optimizer_ms)
    config.mean_error = _export_error(document, data_type, optimizer, misses)
    return config


def _export_error(document: Any, data_type: str, optimizer: str | None, misses: float) -> float | None:
    """Of calls of the fused kernel without what TorchRec's formulas have no place for; None without measured calls."""
    errors = []
    for direction in ("forward", "backward"):
        entry = find_kernel(document, "fused", data_type, direction, optimizer) or {}
        for point in entry.get("points", []):
            known = point["variables"]
            uniform = {**known, "distinct_rows": known["lookups"]}
            uniform["distinct_byte_misses"] = misses * known["read_bytes"]
            terms = {name: value for name, value in entry["terms"].items() if KERNEL_VARIABLES[name]}
            errors.append(abs(kernel_ms(terms, uniform) / kernel_ms(entry["terms"], known) - 1))
    return sum(errors) / len(errors) if errors else None


class _Bandwidths(GeneralizedCommsBandwidth):
    def __init__(self, document: Any, message_bytes: int, weight: float) -> None:
        self._document, self._bytes, self._weight = document, message_bytes, weight

    def _ms(self, operation: str, group: str) -> float:
        for known in (operation, *_INSTEAD[operation]):
            ms = collective_ms(self._document, known, self._bytes, group)
            if ms is not None:
                return ms
        if operation == "all_reduce":
            return self._ms("reduce_scatter", group) + self._ms("all_gather", group)
        what = f"has no times of {operation}"
        raise Error("value", self._document.get("name", "machine"), what, "calibrate with --ranks above 1")

    def _bandwidth(self, operation: str, group: str) -> float:
        return self._bytes / (self._ms(operation, group) * self._weight)

    def get_bw(self, local_world_size: int, world_size: int, collective_type: CollectiveType) -> float:
        """Bytes a ms of a message of the given size, within a host or among all ranks."""
        return self._bandwidth(collective_type.value, "host" if world_size <= local_world_size else "world")

    @property
    def intra_host_bw(self) -> float:
        """Of all_to_all within a host."""
        return self._bandwidth("all_to_all", "host")

    @property
    def inter_host_bw(self) -> float:
        """Of all_to_all among all ranks."""
        return self._bandwidth("all_to_all", "world")


def comms_bandwidths(machine: Machine, *, message_bytes: int = 4 * MIB) -> GeneralizedCommsBandwidth:
    """What a machine document says of collectives, for `Topology(generalized_comms_bandwidths=...)`.

    Args:
        machine: As in `perf_config`.
        message_bytes: Of a typical message of a rank.

    Raises:
        Error: TorchRec 1.2, whose topology takes no such object; the document lacks collectives.
    """
    if GeneralizedCommsBandwidth is object:
        raise Error("usage", "torchrec", "takes no bandwidths by collective", "install TorchRec 1.3 or later")
    document, _ = read_machine(machine)
    return _Bandwidths(document, message_bytes, document.get("step", {}).get("collective_weight", 1.0))
