"""A training job's module as what the command line plans, and the plan as what DistributedModelParallel takes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torchrec.distributed.planner.planners import to_sharding_plan as torchrec_sharding_plan
from torchrec.distributed.planner.types import ParameterConstraints, Shard, ShardingOption, Topology
from torchrec.distributed.sharding_plan import get_default_sharders
from torchrec.distributed.types import ModuleSharder, ShardingPlan, ShardingType

from plimsoll._answer import Answer
from plimsoll._command import Document, call_text, plain
from plimsoll._errors import Error
from plimsoll.torchrec._constraints import passed_on
from plimsoll.torchrec._model import (
    drop_other_devices,
    is_own,
    known_cost_model,
    sharded_document,
    sharded_modules,
    topology_document,
)

Sharders = Sequence[ModuleSharder[nn.Module]]


def model_document(
    module: nn.Module,
    topology: Topology,
    constraints: Mapping[str, ParameterConstraints] | None = None,
    *,
    sharders: Sharders | None = None,
    path: str | os.PathLike[str] | None = None,
) -> dict[str, Any]:
    """A module as `plimsoll shard` reads it (plimsoll.model/1); `topology_document` writes its hardware.

    Args:
        module: What is sharded; on "meta" it takes no memory.
        topology: For whose compute device it is planned.
        constraints: As a planner gets them.
        sharders: TorchRec's default ones where not given. Those of the caller's own may offer fewer sharding types than
            TorchRec's, not more.
        path: Written there, too, where given.
    """
    sharders = list(sharders) if sharders is not None else get_default_sharders()
    document = drop_other_devices(sharded_document(module, sharders, constraints), constraints, topology)
    sharded = list(sharded_modules(module, sharders))
    for _, child, sharder in sharded:
        if is_own(sharder):
            _narrow(document, sharder.shardable_parameters(child), sharder.sharding_types(topology.compute_device))
    inside = [child for _, child, _ in sharded]
    document["dense_parameter_bytes"] = _bytes_beside(module, inside, nn.Module.parameters)
    document["dense_buffer_bytes"] = _bytes_beside(module, inside, nn.Module.buffers)
    if path is not None:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(document, file, default=plain, indent=1)
    return document


def _narrow(document: dict[str, Any], tables: Iterable[str], offered: Sequence[str]) -> None:
    """Constrains the tables to sharding types that their sharder offers; grid_shard comes by constraint alone."""
    usual = [kind for kind in offered if kind != ShardingType.GRID_SHARD.value]
    for name in tables:
        constraint = document.setdefault("constraints", {}).setdefault(name, {})
        wanted = constraint.get("sharding_types") or usual
        constraint["sharding_types"] = [kind for kind in wanted if kind in offered]


def _bytes_beside(
    module: nn.Module,
    sharded: Sequence[nn.Module],
    tensors: Callable[[nn.Module], Iterable[torch.Tensor]],
) -> int:
    """Bytes of a module's tensors less those of its sharded modules, as TorchRec's reservations count them."""

    def size(part: nn.Module) -> int:
        return sum(tensor.element_size() * tensor.nelement() for tensor in tensors(part))

    return size(module) - sum(map(size, sharded))


def plan_tables(
    plan: Document | Answer,
    module: nn.Module,
    topology: Topology,
    sharders: Sharders,
    constraints: Mapping[str, ParameterConstraints] | None = None,
) -> dict[str, dict[str, Any]]:
    """A plan's entries (plimsoll.plan/1) by fqn: one for every table that the sharders shard.

    Raises:
        Error: A plan for other ranks or devices, or for other tables.
    """
    model = drop_other_devices(sharded_document(module, sharders, constraints), constraints, topology)
    text, _ = call_text(
        "convert",
        {"model": model, "plan": plan},
        # The checks below compare the plan with this module; its rules were those of whoever planned.
        {"to": "plimsoll", "on": topology_document(topology), "cost_model": known_cost_model(), "force": True},
    )
    document = json.loads(text)
    for name in ("world_size", "local_world_size", "compute_device"):
        planned, here = document.get(name), getattr(topology, name)
        if planned is not None and planned != here:
            message = f"{planned} in the plan, {here} in the topology"
            raise Error("conflict", name, message, "plan for this topology: --on what topology_document writes of it")
    entries = {f"{entry.get('module_path', '')}.{entry['table']}": entry for entry in document["tables"]}
    wanted = [f"{entry['path']}.{table['name']}" for entry in model["modules"] for table in entry["tables"]]
    for fqn in wanted:
        if fqn not in entries:
            raise Error("conflict", fqn, "the plan lacks this table", "plan what model_document writes of this module")
    for fqn in entries.keys() - set(wanted):
        raise Error("not_found", fqn, "the module has no such table", "plan what model_document writes of this module")
    return entries


def shards_of(entry: Mapping[str, Any]) -> list[Shard]:
    """Every shard of a plan's entry, with its rank."""
    ranks = [run["first"] + i for run in entry["ranks"] for i in range(run.get("count", 1))]
    cuts = [
        (
            [run["rows"], run["columns"]],
            [run.get("row", 0) + i * run.get("row_stride", 0), run.get("column", 0)],
        )
        for run in entry["shards"]
        for i in range(run.get("count", 1))
    ]
    return [Shard(size=size, offset=offset, rank=rank) for (size, offset), rank in zip(cuts, ranks)]


def to_sharding_plan(
    plan: Document | Answer,
    module: nn.Module,
    topology: Topology,
    *,
    sharders: Sharders | None = None,
    constraints: Mapping[str, ParameterConstraints] | None = None,
) -> ShardingPlan:
    """A plan that was made offline, as DistributedModelParallel takes it.

    Args:
        plan: What `plimsoll shard -o` wrote or `plimsoll.shard` returned, of `model_document` of this module; also
            TorchRec's or TorchEasyRec's plans as JSON, compute kernels by the names of early releases included.
        module: What is sharded.
        topology: Whose ranks the plan is for.
        sharders: TorchRec's default ones where not given.
        constraints: As they were given to `model_document`; what they pass on to the kernels (caches, output types) is
            the plan's where they are not given.

    Raises:
        Error: A plan for another module, other ranks or another device.
    """
    sharders = list(sharders) if sharders is not None else get_default_sharders()
    entries = plan_tables(plan, module, topology, sharders, constraints)
    tensors = {
        f"{where}.{name}": (where, child, name, tensor)
        for where, child, sharder in sharded_modules(module, sharders)
        for name, tensor in sharder.shardable_parameters(child).items()
    }
    options = []
    for fqn, entry in entries.items():
        where, child, name, tensor = tensors[fqn]
        option = ShardingOption(
            name=name,
            tensor=tensor,
            module=(where, child),
            input_lengths=[],
            batch_size=0,
            sharding_type=entry["sharding_type"],
            partition_by="",
            compute_kernel=entry["compute_kernel"],
            shards=shards_of(entry),
            is_pooled=ShardingOption.module_pooled(child, where),
            **passed_on(entry, (constraints or {}).get(name)),
        )
        options.append(option)
    return torchrec_sharding_plan(options, topology)
