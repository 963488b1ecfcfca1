"""A module, its sharders, constraints and topology as Plimsoll's documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torchrec
from torch import nn
from torchrec.distributed.planner.types import ParameterConstraints, ShardingOption, Topology
from torchrec.distributed.types import ModuleSharder

from plimsoll.options import TIERS
from plimsoll.torchrec._constraints import constraint_document, fused_params, sharder_document

# Classes that sharders shard, by name, so that a release may lack one.
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
    "PECEmbeddingCollection": "pec_embedding_collection",
}
DATA_TYPES = {torch.float16: "fp16", torch.bfloat16: "bf16", torch.int8: "int8", torch.uint8: "uint8"}
RELEASES = {  # of torchrec 1.x, those whose numbers were compared
    2: "torchrec-1.2",
    3: "torchrec-1.4",
    4: "torchrec-1.4",
    5: "torchrec-1.5",
    7: "torchrec-1.7",
    8: "torchrec-1.8",
    9: "torchrec-1.9",
}


class Unknown(Exception):
    """Something that the native enumerator does not know; TorchRec's own does."""


def cost_model() -> str:
    """The release of TorchRec whose numbers the installed one has.

    Raises:
        Unknown: A release whose numbers were not compared.
    """
    version = [int(part) for part in torchrec.__version__.split("+")[0].split(".")[:2] if part.isdigit()]
    if version[:1] == [1] and version[1:] and version[1] in RELEASES:
        return RELEASES[version[1]]
    raise Unknown(f"torchrec {torchrec.__version__}")


def known_cost_model() -> str | None:
    """The same; None of a release whose numbers were not compared."""
    try:
        return cost_model()
    except Unknown:
        return None


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


def _table(config: Any, parameter: nn.Parameter, buckets: int | None, kind: str) -> dict[str, Any]:
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
    usual = 4 if table["data_type"] == "fp32" or kind.startswith("fused") else 2
    if not kind.startswith("quant") and parameter.element_size() != usual:
        table["element_size"] = parameter.element_size()
    if getattr(config, "use_virtual_table", False):
        table["use_virtual_table"] = True
    buckets = getattr(config, "total_num_buckets", None) if buckets is None else buckets
    if buckets is not None:
        table["total_num_buckets"] = buckets
    return table | _optimizer(parameter)


def _bare_table(module: nn.Module, name: str, parameter: nn.Parameter) -> dict[str, Any]:
    """A table that has no configuration."""
    rows, columns = parameter.shape
    table: dict[str, Any] = {
        "name": name,
        "num_embeddings": rows,
        "embedding_dim": columns,
        "data_type": DATA_TYPES.get(parameter.dtype, "fp32"),
        "element_size": parameter.element_size(),
        "feature_names": [name],
    }
    if getattr(module, "mode", "sum") == "mean":  # nn.EmbeddingBag's
        table["pooling"] = "mean"
    return table | _optimizer(parameter)


def _optimizer(parameter: nn.Parameter) -> dict[str, str]:
    classes = getattr(parameter, "_optimizer_classes", None)
    return {"optimizer": optimizer_name(classes[0])} if classes else {}


def optimizer_name(optimizer: type) -> str:
    """As Plimsoll names it; classes that cost nothing special are "other"."""
    known = {"SGD": "sgd", "Adam": "adam", "RowWiseAdagrad": "rowwise_adagrad"}
    is_theirs = optimizer.__module__.startswith(("torch.", "torchrec."))
    return known.get(optimizer.__name__, "other") if is_theirs else "other"


def _fused_optimizer_name(optimizer: object) -> str:
    """Of fbgemm's EmbOptimType, as Plimsoll names it."""
    name = str(getattr(optimizer, "name", optimizer)).lower().removeprefix("exact_").replace("_", "")
    return {"sgd": "sgd", "adam": "adam", "rowwiseadagrad": "rowwise_adagrad", "none": "none"}.get(name, "other")


def _tables(child: nn.Module, kind: str, sharder: ModuleSharder[nn.Module]) -> list[dict[str, Any]]:
    """What the sharder shards, in its order."""
    collision = getattr(child, "_managed_collision_collection", None)
    counted = getattr(collision, "table_to_number_buckets", None)  # release 1.8 on
    buckets = counted() if counted is not None else {}
    configs = {
        config.name: (tower, config)
        for tower, collection in enumerate(_collections(child))
        for config in _configs(collection)
    }
    tables = []
    for name, parameter in sharder.shardable_parameters(child).items():
        if name in configs:
            tower, config = configs[name]
            table = _table(config, parameter, buckets.get(name), kind)
            tables.append(table | ({"tower": tower} if kind == "embedding_tower_collection" else {}))
        elif parameter.dim() == 2:
            tables.append(_bare_table(child, name, parameter))
    return tables


def sharded_document(
    module: nn.Module,
    sharders: Sequence[ModuleSharder[nn.Module]],
    constraints: Mapping[str, ParameterConstraints] | None = None,
) -> dict[str, Any]:
    """plimsoll.model/1 of all that is sharded, and what the planner counts of sharders and constraints."""
    modules = []
    sharder_of: dict[str, ModuleSharder[nn.Module]] = {}
    for path, child, sharder in sharded_modules(module, sharders):
        kind = kind_of(child)
        tables = _tables(child, kind, sharder)
        if not tables:
            continue
        entry: dict[str, Any] = {"path": path, "kind": kind, "tables": tables}
        collections = _collections(child)
        if any(callable(getattr(c, "is_weighted", None)) and c.is_weighted() for c in collections):
            entry["is_weighted"] = True
        if kind.startswith("embedding_tower") and any(hasattr(c, "embedding_configs") for c in collections):
            entry["holds_embedding_collection"] = True
        processed = getattr(getattr(child, "_feature_processor", None), "feature_processor_modules", None)
        if processed:
            entry["legacy_feature_processor_tables"] = [name for name in processed.keys()]
        told = sharder_document(sharder, ShardingOption.module_pooled(child, path))
        optimizer = fused_params(sharder).get("optimizer")
        if optimizer is not None:  # tables with one of their own are trained with that
            told["optimizer"] = _fused_optimizer_name(optimizer)
        if told:
            entry["sharder"] = told
        modules.append(entry)
        sharder_of |= {table["name"]: sharder for table in tables}
    document: dict[str, Any] = {"schema": "plimsoll.model/1", "modules": modules}
    written = {
        name: constraint_document(constraint, sharder_of[name])
        for name, constraint in (constraints or {}).items()
        if name in sharder_of
    }
    if written:
        document["constraints"] = written
    return document


def drop_other_devices(
    document: dict[str, Any], constraints: Mapping[str, ParameterConstraints] | None, topology: Topology
) -> dict[str, Any]:
    """The document without tables whose constraints name the planners of other devices."""
    elsewhere = {
        name
        for name, constraint in (constraints or {}).items()
        if getattr(constraint, "device_group", None) not in (None, "", topology.compute_device)
    }
    if not elsewhere:
        return document
    for entry in document["modules"]:
        entry["tables"] = [table for table in entry["tables"] if table["name"] not in elsewhere]
    document["modules"] = [entry for entry in document["modules"] if entry["tables"]]
    document["constraints"] = {
        name: constraint for name, constraint in document.get("constraints", {}).items() if name not in elsewhere
    }
    return document


def exact_model_document(
    module: nn.Module,
    sharders: Sequence[ModuleSharder[nn.Module]],
    constraints: Mapping[str, ParameterConstraints] | None,
) -> dict[str, Any]:
    """plimsoll.model/1 from which the native enumerator makes TorchRec's options.

    Raises:
        Unknown: Modules or sharders that it is not told of.
    """
    for path, child, sharder in sharded_modules(module, sharders):
        if type(child).__name__ not in {"EmbeddingBag", *KINDS} or not _is_theirs(child, "torch."):
            raise Unknown(f"{path}: {type(child).__name__}")
        if not path and type(child).__name__ == "EmbeddingTower":
            raise Unknown("a tower that is the whole model")  # its group has no name in the native space
        names = (f"{type(child).__name__}Sharder", f"Quant{type(child).__name__}Sharder")
        wrapped = [value for name, value in vars(sharder).items() if name.endswith("_sharder")]
        if type(sharder).__name__ not in names or not all(map(_is_theirs, (sharder, *wrapped))):
            raise Unknown(f"{path}: {type(sharder).__name__}")
    document = sharded_document(module, sharders, constraints)
    counts = Counter(table["name"] for entry in document["modules"] for table in entry["tables"])
    for name, constraint in (constraints or {}).items():
        cache = constraint.cache_params
        if counts[name] > 1 and cache is not None and cache.stats is not None and cache.load_factor is None:
            raise Unknown(f"{name}: tables of one name whose sharders may differ in their cache load factor")
    return document


def is_own(sharder: ModuleSharder[nn.Module]) -> bool:
    """Is the sharder of the caller's own?"""
    return not type(sharder).__module__.startswith("torchrec.")


def _is_theirs(thing: object, also: str = "torchrec.") -> bool:
    """Is it of a class of TorchRec's own, its test utilities left out?"""
    name = type(thing).__module__
    return name.startswith(("torchrec.", also)) and "test_utils" not in name


def exact_topology_document(topology: Topology) -> dict[str, Any]:
    """plimsoll.topology/1 for which the native enumerator makes TorchRec's options.

    The enumerator gets the largest cap for all: caps of every rank are CustomTopologyData there, by which rows are cut.

    Raises:
        Unknown: Bandwidths by a rule of their own.
    """
    comms = getattr(topology, "_comms_bandwidths", None)
    if comms is not None and type(comms).__name__ != "BasicCommsBandwidths":
        raise Unknown(type(comms).__name__)
    document = topology_document(topology)
    for tier in TIERS:  # lists mean that rows are cut by memory; what is left of each rank the search is told
        if f"{tier}_caps" in document:
            document[f"{tier}_cap"] = max(document.pop(f"{tier}_caps"))
    custom = getattr(topology, "_custom_topology_data", None)
    for tier in ("hbm", "ddr"):
        if custom is not None and custom.has_data(f"{tier}_cap"):
            document.pop(f"{tier}_cap", None)
            document[f"{tier}_caps"] = list(custom.get_data(f"{tier}_cap"))
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
