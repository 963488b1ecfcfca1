"""TorchRec's plans before a judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn
from torchrec.distributed.planner.types import ParameterConstraints, Topology
from torchrec.distributed.sharding_plan import get_default_sharders
from torchrec.distributed.types import ModuleSharder, ShardingPlan

from plimsoll._command import call
from plimsoll.plans import CheckReport
from plimsoll.torchrec._model import (
    drop_other_devices,
    is_own,
    known_cost_model,
    sharded_document,
    sharded_modules,
    topology_document,
)


def plan_document(plan: ShardingPlan, world_size: int) -> dict[str, Any]:
    """A plan as plain data: {module: {table: {sharding_type, compute_kernel, ranks, shards}}}."""
    document: dict[str, Any] = {}
    for path, module_plan in plan.plan.items():
        tables = document[path] = {}
        for name, sharding in module_plan.items():
            ranks = sharding.ranks
            if ranks is None:  # TorchRec reads the placements, and a replica has none
                spec = sharding.sharding_spec
                ranks = range(world_size) if spec is None else [shard.placement.rank() for shard in spec.shards]
            entry = tables[name] = {
                "sharding_type": sharding.sharding_type,
                "compute_kernel": sharding.compute_kernel,
                "ranks": list(ranks),
            }
            if sharding.sharding_spec is not None:
                entry["shards"] = [
                    {
                        "shard_offsets": list(shard.shard_offsets),
                        "shard_sizes": list(shard.shard_sizes),
                        "placement": str(shard.placement),
                    }
                    for shard in sharding.sharding_spec.shards
                ]
    return document


def check(
    plan: ShardingPlan,
    module: nn.Module,
    topology: Topology,
    *,
    sharders: Sequence[ModuleSharder[nn.Module]] | None = None,
    constraints: Mapping[str, ParameterConstraints] | None = None,
    strict: bool = True,
    **flags: object,
) -> CheckReport:
    """Judges a plan, whoever made it, without any of the code that searches.

    Args:
        plan: TorchRec's plan.
        module: What it shards.
        topology: The machine, before anything is reserved on it.
        sharders: TorchRec's default ones where not given. What one of the caller's own allows is allowed. Their fused
            parameters and quantised communication count as TorchRec counts them.
        constraints: As the planner got them; caches and output types count, too.
        strict: What is legal and still trains wrongly is a violation, too.
        flags: Those of `plimsoll check`; `batch_size`, `reservation` (default: nothing is reserved), `cost_model`
            (the installed release's).
    """
    sharders = list(sharders) if sharders is not None else get_default_sharders()
    model = sharded_document(module, sharders, constraints)
    model = drop_other_devices(model, constraints, topology)
    report = call(
        "check",
        {"model": model, "plan": plan_document(plan, topology.world_size)},
        {
            "on": topology_document(topology),
            "strict": strict,
            "reservation": "fixed_percentage:0",
            "cost_model": known_cost_model(),
            **flags,
        },
    )
    allowed = _allowed_types(module, sharders, topology.compute_device)
    report["violations"] = [
        violation
        for violation in report.get("violations", [])
        if not (
            violation["code"] == "type_not_allowed"
            and violation.get("found") in allowed.get(violation.get("place", ""), ())
        )
    ]
    return CheckReport(report)


def _allowed_types(
    module: nn.Module, sharders: Sequence[ModuleSharder[nn.Module]], device: str
) -> dict[str, list[str]]:
    """Sharding types of every table by fqn, where a sharder is the caller's own."""
    allowed: dict[str, list[str]] = {}
    for path, child, sharder in sharded_modules(module, sharders):
        if not is_own(sharder):
            continue
        for name in sharder.shardable_parameters(child):
            allowed[f"{path}.{name}"] = list(sharder.sharding_types(device))
    return allowed
