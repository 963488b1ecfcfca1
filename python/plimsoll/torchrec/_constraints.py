"""Constraints and sharders as Plimsoll's documents: what of them the planner counts or passes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torchrec.distributed.planner.types import ParameterConstraints
from torchrec.distributed.types import CacheParams, CommOp, ModuleSharder

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
