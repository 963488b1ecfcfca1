"""Constraints and sharders as Plimsoll's documents: what of them the planner counts or passes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import torch
from torch import nn
from torchrec.distributed.planner.types import ParameterConstraints
from torchrec.distributed.types import (
    BoundsCheckMode,
    CacheAlgorithm,
    CacheParams,
    CommOp,
    KeyValueParams,
    ModuleSharder,
)
from torchrec.modules.embedding_configs import DataType

# Fields that are the same here and there.
PLAIN_FIELDS = (
    "sharding_types",
    "compute_kernels",
    "min_partition",
    "pooling_factors",
    "num_poolings",
    "batch_sizes",
    "is_weighted",
    "enforce_hbm",
    "stochastic_rounding",
    "feature_names",
    "device_group",
    "use_virtual_table",
)
NAMED_FIELDS = ("bounds_check_mode", "output_dtype")  # enumerations there
# Kernels that early releases call "batched_dense", "batched_fused", ...
ONCE_BATCHED = ("dense", "fused", "fused_uvm", "fused_uvm_caching", "quant", "quant_uvm", "quant_uvm_caching")


def current_kernel(name: str) -> str:
    """A compute kernel's name in releases from 0.2 on."""
    short = name.removeprefix("batched_")
    return short if short in ONCE_BATCHED else name


def with_current_kernels(constraints: Mapping[str, ParameterConstraints]) -> dict[str, ParameterConstraints]:
    """The constraints with kernels by the names that TorchRec has now."""

    def current(constraint: ParameterConstraints) -> ParameterConstraints:
        kernels = constraint.compute_kernels
        names = [current_kernel(kernel) for kernel in kernels or []]
        return constraint if names == list(kernels or []) else replace(constraint, compute_kernels=names)

    return {name: current(constraint) for name, constraint in constraints.items()}


def passed_on(entry: Mapping[str, Any], constraint: ParameterConstraints | None) -> dict[str, Any]:
    """What a plan passes on to a table's kernels, as TorchRec's objects.

    Args:
        entry: The table's in a plan.
        constraint: The table's; what it has wins, except for the load factor of a cache, which a search may choose.
    """
    given: dict[str, Any] = {
        "enforce_hbm": entry.get("enforce_hbm"),
        "stochastic_rounding": entry.get("stochastic_rounding"),
        "bounds_check_mode": _member(BoundsCheckMode, entry.get("bounds_check_mode")),
        "output_dtype": _member(DataType, entry.get("output_dtype")),
        "cache_params": _cache_params(entry.get("cache_params")),
        "key_value_params": _key_value_params(entry.get("key_value_params")),
    }
    if constraint is not None:
        for name in given:
            value = getattr(constraint, name, None)
            if value is not None:
                given[name] = value
        chosen = (entry.get("cache_params") or {}).get("load_factor")
        if constraint.cache_params is not None and chosen is not None:
            given["cache_params"] = replace(constraint.cache_params, load_factor=chosen)
    return given


def _member(kind: Any, name: str | None) -> Any:
    return None if name is None else kind[name.upper()]


def _cache_params(document: Mapping[str, Any] | None) -> CacheParams | None:
    if document is None:
        return None
    params = CacheParams(
        algorithm=_member(CacheAlgorithm, document.get("algorithm")),
        load_factor=document.get("load_factor"),
        reserved_memory=document.get("reserved_memory"),
        precision=_member(DataType, document.get("precision")),
        prefetch_pipeline=document.get("prefetch_pipeline"),
    )
    passes = document.get("multipass_num_passes")
    if passes is not None:
        from torchrec.distributed.types import MultiPassPrefetchConfig

        params.multipass_prefetch_config = MultiPassPrefetchConfig(num_passes=passes)
    return params


def _key_value_params(document: Mapping[str, Any] | None) -> KeyValueParams | None:
    if document is None:
        return None
    known = {field.name for field in fields(KeyValueParams)}
    return KeyValueParams(**{name: value for name, value in document.items() if name in known})


def constraint_document(
    constraint: ParameterConstraints, sharder: ModuleSharder[nn.Module] | None = None
) -> dict[str, Any]:
    """One table's constraints; its sharder's cache load factor is the default of what the statistics are asked for."""
    document: dict[str, Any] = {name: getattr(constraint, name, None) for name in PLAIN_FIELDS}
    for name in NAMED_FIELDS:
        value = getattr(constraint, name, None)
        document[name] = None if value is None else value.name.lower()
    if constraint.cache_params is not None:
        document["cache_params"] = _cache_document(constraint.cache_params, sharder)
    key_value = getattr(constraint, "key_value_params", None)
    if key_value is not None:
        document["key_value_params"] = _given(
            {name: getattr(key_value, name, None) for name in ("max_l1_cache_size", "l2_cache_size")}
        )
    return {name: value for name, value in document.items() if value is not None and value is not False}


def _cache_document(cache: CacheParams, sharder: ModuleSharder[nn.Module] | None) -> dict[str, Any]:
    document = {
        "algorithm": None if cache.algorithm is None else cache.algorithm.name.lower(),
        "load_factor": cache.load_factor,
        "reserved_memory": cache.reserved_memory,
        "precision": None if cache.precision is None else cache.precision.name.lower(),
        "prefetch_pipeline": cache.prefetch_pipeline,
    }
    passes = getattr(cache, "multipass_prefetch_config", None)
    if passes is not None:
        document["multipass_num_passes"] = passes.num_passes
    load_factor = cache.load_factor
    if load_factor is None and sharder is not None:
        load_factor = fused_params(sharder).get("cache_load_factor")
    if cache.stats is not None and load_factor is not None:  # without one the planner does not ask
        document["stats"] = {
            "expected_lookups": float(cache.stats.expected_lookups),
            "constant_miss_rate": float(cache.stats.expected_miss_rate(load_factor)),
        }
    return _given(document)


def fused_params(sharder: ModuleSharder[nn.Module]) -> Mapping[str, Any]:
    """As the estimators see them."""
    return getattr(sharder, "fused_params", None) or {}


def sharder_document(sharder: ModuleSharder[nn.Module], is_pooled: bool) -> dict[str, Any]:
    """What the estimators read of a sharder: cached tables' defaults, and the bytes of quantised communication."""
    fused = fused_params(sharder)
    document: dict[str, Any] = {"cache_load_factor": fused.get("cache_load_factor")}
    if fused.get("prefetch_pipeline"):
        document["prefetch_pipeline"] = True
    passes = fused.get("multipass_prefetch_config")
    if passes is not None:
        document["multipass_num_passes"] = passes.num_passes
    all_to_all = CommOp.POOLED_EMBEDDINGS_ALL_TO_ALL if is_pooled else CommOp.SEQUENCE_EMBEDDINGS_ALL_TO_ALL
    codecs = _codec_bytes(sharder, all_to_all, "all_to_all")
    if is_pooled:
        codecs |= _codec_bytes(sharder, CommOp.POOLED_EMBEDDINGS_REDUCE_SCATTER, "reduce_scatter")
    document["codec_bytes"] = codecs or None
    return _given(document)


def _codec_bytes(sharder: ModuleSharder[nn.Module], operation: CommOp, name: str) -> dict[str, int]:
    codecs = (sharder.qcomm_codecs_registry or {}).get(operation.name)
    if codecs is None:
        return {}
    return {
        f"{way}_{name}": torch.tensor([], dtype=codec.quantized_dtype).element_size()
        for way, codec in (("forward", codecs.forward), ("backward", codecs.backward))
    }


def _given(document: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if value is not None}
