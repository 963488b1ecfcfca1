"""A module, its sharders, constraints and topology as Plimsoll's documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torchrec
from torch import nn
from torchrec.distributed.embedding import EmbeddingCollectionSharder
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.planner.types import ParameterConstraints, ShardingOption, Topology
from torchrec.distributed.types import ModuleSharder
from torchrec.modules.embedding_modules import EmbeddingBagCollection, EmbeddingCollection

from plimsoll.options import TIERS

# Classes that sharders shard, by name, so that a release without one is no trouble.
KINDS = {
    "EmbeddingBag": "embedding_bag",
    "EmbeddingBagCollection": "embedding_bag_collection",
    "EmbeddingCollection": "embedding_collection",
    "FusedEmbeddingBagCollection": "fused_embedding_bag_collection",
    "FusedEmbeddingCollection": "fused_embedding_collection",
    "FeatureProcessedEmbeddingBagCollection": "feature_processed_embedding_bag_collection",
    "ManagedCollisionEmbeddingBagCollection": "managed_collision_embedding_bag_collection",
    "ManagedCollisionEmbeddingCollection": "managed_collision_embedding_collection",
    "ITEPEmbeddingBagCollection": "itep_embedding_bag_collection",
    "ITEPEmbeddingCollection": "itep_embedding_collection",
    "QuantManagedCollisionEmbeddingBagCollection": "managed_collision_embedding_bag_collection",
    "QuantManagedCollisionEmbeddingCollection": "managed_collision_embedding_collection",
    "EmbeddingTower": "embedding_tower",
    "EmbeddingTowerCollection": "embedding_tower_collection",
}
DATA_TYPES = {torch.float16: "fp16", torch.bfloat16: "bf16", torch.int8: "int8", torch.uint8: "uint8"}
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


def cost_model() -> str:
    """The release of TorchRec whose numbers the installed one has.

    Raises:
        Unknown: A release whose numbers were not compared.
    """
    version = tuple(int(part) for part in torchrec.__version__.split("+")[0].split(".")[:2] if part.isdigit())
    if version in ((1, 2), (1, 3), (1, 4)):
        return "torchrec-1.4"
    if version == (1, 8):
        return "torchrec-1.8"
    if version == (1, 9):
        return "torchrec-1.9"
    raise Unknown(f"torchrec {torchrec.__version__}")


def sharded_modules(
    module: nn.Module, sharders: Sequence[ModuleSharder[nn.Module]]
) -> Iterator[tuple[str, nn.Module, ModuleSharder[nn.Module]]]:
    """(path, module, its sharder), as they are registered."""
    by_type = {sharder.module_type: sharder for sharder in sharders}

    def visit(path: str, child: nn.Module) -> Iterator[tuple[str, nn.Module, ModuleSharder[nn.Module]]]:
        sharder = by_type.get(type(child))
        if sharder is not None:
            yield path, child, sharder
            return
        for name, below in child.named_children():
            yield from visit(f"{path}.{name}" if path else name, below)

    return visit("", module)


def kind_of(module: nn.Module) -> str:
    """Of the nearest class that is known; of others whether they pool."""
    for known in type(module).__mro__:
        kind = KINDS.get(known.__name__)
        if kind is not None:
            return f"quant_{kind}" if known.__module__.startswith("torchrec.quant") else kind
    return "embedding_bag_collection" if ShardingOption.module_pooled(module, "") else "embedding_collection"


def _collections(module: nn.Module) -> list[nn.Module]:
    """What holds the tables' configurations: the module itself, or what is below it."""
    module = getattr(module, "_embedding_module", module)  # what remaps ids beside it names the tables once more
    if hasattr(module, "embedding_bag_configs") or hasattr(module, "embedding_configs"):
        return [module]
    return [found for child in module.children() for found in _collections(child)]


def _configs(collection: Any) -> Sequence[Any]:
    is_pooled = hasattr(collection, "embedding_bag_configs")
    return collection.embedding_bag_configs() if is_pooled else collection.embedding_configs()


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


def _bare_table(module: nn.Module, name: str, parameter: nn.Parameter) -> dict[str, Any]:
    """A table that has no configuration."""
    rows, columns = parameter.shape
    table: dict[str, Any] = {
        "name": name,
        "num_embeddings": rows,
        "embedding_dim": columns,
        "data_type": DATA_TYPES.get(parameter.dtype, "fp32"),
        "feature_names": [name],
    }
    if getattr(module, "mode", "sum") == "mean":  # nn.EmbeddingBag's
        table["pooling"] = "mean"
    return table


def optimizer_name(optimizer: type) -> str:
    """As Plimsoll names it; classes that cost nothing special are "other"."""
    known = {"SGD": "sgd", "Adam": "adam", "RowWiseAdagrad": "rowwise_adagrad"}
    return known.get(optimizer.__name__, "other")


def model_document(module: nn.Module, sharders: Sequence[ModuleSharder[nn.Module]]) -> dict[str, Any]:
    """plimsoll.model/1 of all that is sharded."""
    modules = []
    for path, child, sharder in sharded_modules(module, sharders):
        kind = kind_of(child)
        parameters = sharder.shardable_parameters(child)
        collections = _collections(child)
        tables = [
            _table(config, parameters.get(config.name)) | ({"tower": i} if kind == "embedding_tower_collection" else {})
            for i, collection in enumerate(collections)
            for config in _configs(collection)
        ]
        if not tables:
            tables = [_bare_table(child, name, table) for name, table in parameters.items() if table.dim() == 2]
        if not tables:
            continue
        entry: dict[str, Any] = {"path": path, "kind": kind, "tables": tables}
        if any(callable(getattr(c, "is_weighted", None)) and c.is_weighted() for c in collections):
            entry["is_weighted"] = True
        if kind.startswith("embedding_tower") and any(hasattr(c, "embedding_configs") for c in collections):
            entry["holds_embedding_collection"] = True
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


def exact_topology_document(topology: Topology) -> dict[str, Any]:
    """plimsoll.topology/1 for which the native enumerator makes TorchRec's options.

    The enumerator gets the largest cap for all: caps of every rank are CustomTopologyData there, by which rows are cut.

    Raises:
        Unknown: Bandwidths by a rule of their own, rows cut by memory.
    """
    comms = getattr(topology, "_comms_bandwidths", None)
    if comms is not None and type(comms).__name__ != "BasicCommsBandwidths":
        raise Unknown(type(comms).__name__)
    if getattr(topology, "_custom_topology_data", None):
        raise Unknown("custom_topology_data")
    document = topology_document(topology)
    for tier in TIERS:  # lists mean that rows are cut by memory; what is left of each rank the search is told
        if f"{tier}_caps" in document:
            document[f"{tier}_cap"] = max(document.pop(f"{tier}_caps"))
    return document


def topology_document(topology: Topology) -> dict[str, Any]:
    """plimsoll.topology/1, with the caps of every rank where they differ."""
    document: dict[str, Any] = {
        "schema": "plimsoll.topology/1",
        "world_size": topology.world_size,
        "local_world_size": topology.local_world_size,
        "compute_device": topology.compute_device,
    }
    intra_group = getattr(topology, "intra_group_size", topology.local_world_size)
    if intra_group != topology.local_world_size:
        document["pod_size"] = intra_group // topology.local_world_size
    storages = [device.storage for device in topology.devices]
    for tier in TIERS:
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
    comms = getattr(topology, "_comms_bandwidths", None)
    for name in ("intra_host_bw", "inter_host_bw"):
        value = getattr(topology, name, None)
        if value is None and comms is not None:
            value = getattr(comms, f"_{name}", None)
        if value is not None:
            document[name] = value
    return document
