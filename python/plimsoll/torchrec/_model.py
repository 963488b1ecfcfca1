"""A module, its sharders, constraints and topology as Plimsoll's documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import nn
from torchrec.distributed.embedding import EmbeddingCollectionSharder
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.planner.types import ParameterConstraints, Topology
from torchrec.distributed.types import ModuleSharder
from torchrec.modules.embedding_modules import EmbeddingBagCollection, EmbeddingCollection

# Module classes by name, so that a release without one is no trouble. Those of the first list hold their tables'
# configurations themselves.
KINDS = {
    "EmbeddingBagCollection": "embedding_bag_collection",
    "EmbeddingCollection": "embedding_collection",
    "FusedEmbeddingBagCollection": "fused_embedding_bag_collection",
    "FusedEmbeddingCollection": "fused_embedding_collection",
    "FeatureProcessedEmbeddingBagCollection": "feature_processed_embedding_bag_collection",
}
CONSTRAINT_FIELDS = (
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
)
# What the native enumerator is not told of; a constraint that sets one is left to TorchRec's own.
OTHER_FIELDS = ("cache_params", "bounds_check_mode", "output_dtype", "device_group", "key_value_params")


class Unknown(Exception):
    """Something that the native enumerator does not know; TorchRec's own does."""


def sharded_modules(
    module: nn.Module, sharders: Sequence[ModuleSharder[nn.Module]]
) -> Iterator[tuple[str, nn.Module, ModuleSharder[nn.Module]]]:
    """(path, module, its sharder), in the order of TorchRec's enumerator."""
    by_type = {sharder.module_type: sharder for sharder in sharders}
    queue: list[tuple[str, nn.Module]] = [("", module)]
    while queue:
        path, child = queue.pop()
        sharder = by_type.get(type(child))
        if sharder is not None:
            yield path, child, sharder
            continue
        queue += [(f"{path}.{name}" if path else name, m) for name, m in child.named_children()]


def _configs(module: nn.Module) -> Sequence[Any]:
    inner = getattr(module, "_embedding_bag_collection", module)
    for name in ("embedding_bag_configs", "embedding_configs"):
        if hasattr(inner, name):
            return getattr(inner, name)()
    return []


def _table(config: Any, parameter: nn.Parameter | None) -> dict[str, Any]:
    table: dict[str, Any] = {
        "name": config.name,
        "num_embeddings": config.num_embeddings,
        "embedding_dim": config.embedding_dim,
        "data_type": config.data_type.name.lower(),
        "feature_names": list(config.feature_names),
    }
    pooling = getattr(config, "pooling", None)
    if pooling is not None and pooling.name == "MEAN":
        table["pooling"] = "mean"
    classes = getattr(parameter, "_optimizer_classes", None)
    if classes:
        table["optimizer"] = optimizer_name(classes[0])
    return table


def optimizer_name(optimizer: type) -> str:
    """As Plimsoll names it; classes that cost nothing special are "other"."""
    known = {"SGD": "sgd", "Adam": "adam", "RowWiseAdagrad": "rowwise_adagrad"}
    return known.get(optimizer.__name__, "other")


def model_document(module: nn.Module, sharders: Sequence[ModuleSharder[nn.Module]]) -> dict[str, Any]:
    """plimsoll.model/1 of the modules whose kind is known; others are left out."""
    modules = []
    for path, child, sharder in sharded_modules(module, sharders):
        kind = KINDS.get(type(child).__name__)
        if kind is None:
            continue
        parameters = sharder.shardable_parameters(child)
        tables = [_table(config, parameters.get(config.name)) for config in _configs(child)]
        if not tables:
            continue
        entry: dict[str, Any] = {"path": path, "kind": kind, "tables": tables}
        if getattr(child, "is_weighted", None) is not None and callable(child.is_weighted) and child.is_weighted():
            entry["is_weighted"] = True
        modules.append(entry)
    return {"schema": "plimsoll.model/1", "modules": modules}


def constraint_document(constraint: ParameterConstraints) -> dict[str, Any]:
    """One table's constraints."""
    values = {name: getattr(constraint, name, None) for name in CONSTRAINT_FIELDS}
    return {name: value for name, value in values.items() if value is not None and value is not False}


def exact_model_document(
    module: nn.Module,
    sharders: Sequence[ModuleSharder[nn.Module]],
    constraints: Mapping[str, ParameterConstraints] | None,
) -> dict[str, Any]:
    """plimsoll.model/1 from which the native enumerator makes TorchRec's options.

    Raises:
        Unknown: Modules, sharders or constraints that it is not told of.
    """
    names: set[str] = set()
    for path, child, sharder in sharded_modules(module, sharders):
        if type(child) not in (EmbeddingBagCollection, EmbeddingCollection):
            raise Unknown(f"{path}: {type(child).__name__}")
        if type(sharder) not in (EmbeddingBagCollectionSharder, EmbeddingCollectionSharder):
            raise Unknown(f"{path}: {type(sharder).__name__}")
        if sharder.fused_params or sharder.qcomm_codecs_registry:
            raise Unknown(f"{path}: fused_params or quantised communication")
        for config in _configs(child):
            if config.name in names:
                raise Unknown(f"{config.name} twice")  # constraints are by name
            if getattr(config, "use_virtual_table", False) or getattr(config, "total_num_buckets", None):
                raise Unknown(f"{config.name}: virtual")
            names.add(config.name)
    document = model_document(module, sharders)
    written = {}
    for name, constraint in (constraints or {}).items():
        for field in OTHER_FIELDS:
            if getattr(constraint, field, None) is not None:
                raise Unknown(f"{name}: {field}")
        if getattr(constraint, "use_virtual_table", False):
            raise Unknown(f"{name}: virtual")
        if name in names:
            written[name] = constraint_document(constraint)
    if written:
        document["constraints"] = written
    return document


def topology_document(topology: Topology) -> dict[str, Any]:
    """plimsoll.topology/1, with the caps of every rank where they differ.

    Raises:
        Unknown: Bandwidths by a rule of their own.
    """
    document: dict[str, Any] = {
        "schema": "plimsoll.topology/1",
        "world_size": topology.world_size,
        "local_world_size": topology.local_world_size,
        "compute_device": topology.compute_device,
    }
    comms = getattr(topology, "_comms_bandwidths", None)
    if comms is not None and type(comms).__name__ != "BasicCommsBandwidths":
        raise Unknown(type(comms).__name__)
    if getattr(topology, "_custom_topology_data", None):
        raise Unknown("custom_topology_data")
    intra_group = getattr(topology, "intra_group_size", topology.local_world_size)
    if intra_group != topology.local_world_size:
        document["pod_size"] = intra_group // topology.local_world_size
    storages = [device.storage for device in topology.devices]
    for tier in ("hbm", "ddr", "ssd"):
        caps = [getattr(storage, tier, 0) for storage in storages]
        if tier == "hbm" and not any(caps):
            continue
        if tier == "ssd" and not any(caps):
            document["ssd_cap"] = 0
        elif len(set(caps)) == 1:
            document[f"{tier}_cap"] = caps[0]
        else:
            document[f"{tier}_caps"] = caps
    for name in (
        "hbm_mem_bw",
        "ddr_mem_bw",
        "ssd_mem_bw",
        "hbm_to_ddr_mem_bw",
        "bwd_compute_multiplier",
        "weighted_feature_bwd_compute_multiplier",
    ):
        value = getattr(topology, name, None)
        if value is not None:
            document[name] = value
    for name in ("intra_host_bw", "inter_host_bw"):
        value = getattr(topology, name, None)
        if value is None and comms is not None:
            value = getattr(comms, f"_{name}", None)
        if value is not None:
            document[name] = value
    return document
