"""Planning offline: the search space as a document, and its answer as a plan loader."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Mapping
from typing import Any

import torchrec
from torch import nn
from torchrec.distributed.planner import EmbeddingShardingPlanner
from torchrec.distributed.planner.types import ShardingOption
from torchrec.distributed.types import ModuleSharder

try:
    from torchrec.distributed.planner.types import PlanLoader
except ImportError:  # before release 1.4 there is none
    PlanLoader = object  # type: ignore[assignment,misc]

from plimsoll._answer import Answer
from plimsoll._command import Document, plain
from plimsoll._errors import Error
from plimsoll.options import SCHEMA, Cost, total_of
from plimsoll.torchrec._model import sharded_document
from plimsoll.torchrec._offline import plan_tables, shards_of
from plimsoll.torchrec._options import cost_of, group_of, group_size, room_of


def _search_space(
    planner: EmbeddingShardingPlanner, module: nn.Module, sharders: list[ModuleSharder[nn.Module]]
) -> list[ShardingOption]:
    """All options that the planner chooses from."""
    enumerator = planner._enumerator
    if hasattr(enumerator, "wants_all"):
        was, enumerator.wants_all = enumerator.wants_all, True
        try:
            return enumerator.enumerate(module, sharders)
        finally:
            enumerator.wants_all = was
    return enumerator.enumerate(module, sharders)


def dump(
    planner: EmbeddingShardingPlanner,
    module: nn.Module,
    sharders: list[ModuleSharder[nn.Module]],
    path: str | os.PathLike[str] | None = None,
) -> dict[str, Any]:
    """What the planner chooses from, as "plimsoll.torchrec_options/1"; written to `path` where one is given.

    `plimsoll.options.plan` plans it without torch, `plimsoll shard` in a shell; `PlanFile` brings the answer back.
    """
    topology = planner._topology
    room = planner._storage_reservation.reserve(
        topology=topology,
        batch_size=planner._batch_size,
        module=module,
        sharders=sharders,
        constraints=planner._constraints,
    )
    pooling = {
        f"{entry['path']}.{table['name']}": table.get("pooling", "sum")
        for entry in sharded_document(module, sharders)["modules"]
        for table in entry["tables"]
    }
    classes: dict[Cost, int] = {}
    options = []
    for option in _search_space(planner, module, sharders):
        rows, columns = option.tensor.shape
        entry: dict[str, Any] = {
            "fqn": option.fqn,
            "module_path": option.path,
            "group": group_of(option) or option.fqn,
            "sharding_type": option.sharding_type,
            "compute_kernel": option.compute_kernel,
            "partition_by": option.partition_by,
            "shards": [classes.setdefault(cost_of(shard), len(classes)) for shard in option.shards],
            "sizes": [list(shard.size) for shard in option.shards],
            "rows": rows,
            "columns": columns,
            "dtype": str(option.tensor.dtype).rpartition(".")[2],
            "input_lengths": list(option.input_lengths),
            "num_poolings": getattr(option, "num_poolings", None),
            "is_pooled": option.is_pooled,
            "is_weighted": bool(option.is_weighted),
            "pooling": pooling.get(option.fqn, "sum"),
            "cache_load_factor": option.cache_load_factor,
            "storage_hash": option.storage_hash() if hasattr(option, "storage_hash") else None,
        }
        options.append(entry)
    hashed = getattr(planner, "hash_planner_context_inputs_str", None)
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "torchrec": torchrec.__version__,
        "world_size": topology.world_size,
        "local_world_size": topology.local_world_size,
        "group_size": group_size(topology),
        "compute_device": topology.compute_device,
        "batch_size": planner._batch_size,
        "context_hash": hashed() if hashed else None,
        "capacity": room_of(topology).tolist(),
        "room": room_of(room).tolist(),
        "shard_classes": [[*storage, total_of(perf), *perf[:5]] for storage, perf in classes],
        "options": options,
    }
    if path is not None:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(document, file, default=plain)
    return document


class PlanFile(PlanLoader):  # type: ignore[misc]
    """A plan made offline, as TorchRec's `plan_loader=` (release 1.4 on).

    Args:
        answer: What `plimsoll.options.plan` or `plimsoll shard` answered of a `dump`, or `plimsoll shard` of
            `model_document`; a document or a path.
        planner: Whose search space the answer is of.
        module: What is sharded.
        sharders: Its sharders.
        check_context: Refuse an answer of other inputs; TorchRec's hash of them changes with PYTHONHASHSEED.
    """

    def __init__(
        self,
        answer: Document | Answer,
        planner: EmbeddingShardingPlanner,
        module: nn.Module,
        sharders: list[ModuleSharder[nn.Module]],
        check_context: bool = False,
    ) -> None:
        if PlanLoader is object:
            raise Error("value", "PlanFile", f"torchrec {torchrec.__version__} has no plan loaders", "1.4 or newer has")
        if isinstance(answer, (str, os.PathLike)):
            self._id = os.fspath(answer)
            with open(answer, encoding="utf-8") as file:
                document = json.load(file)
        else:
            self._id, document = "plimsoll", getattr(answer, "document", answer)
        context = document.get("context_hash") or document.get("provenance", {}).get("inputs", {}).get("context")
        self._context = context if check_context else None
        entries = document.get("options") or document.get("plan")  # of a dump: by the shell, by options.plan
        options = _search_space(planner, module, sharders)
        if "plan" in document and not entries:
            raise Error("value", self._id, "the answer holds no plan", "plan again")
        placed = (
            _of_dump(entries, options)
            if isinstance(entries, list)
            else _of_model(document, planner, module, sharders, options)
        )
        self._options = {}
        for chosen, ranks in placed:
            option = copy.copy(chosen)
            option.shards = copy.deepcopy(option.shards)
            for shard, rank in zip(option.shards, ranks):
                shard.rank = rank
            self._options[option.storage_hash()] = option

    def load(self) -> dict[int, ShardingOption]:
        """{storage hash: option with ranks}."""
        return self._options

    def plan_context_hash(self) -> str | None:
        """Of the inputs, where they are to be the same."""
        return self._context

    def get_plan_id(self) -> str:
        """The file."""
        return self._id


Placed = list[tuple[ShardingOption, list[int]]]


def _of_dump(entries: list[Any], options: list[ShardingOption]) -> Placed:
    """Entries that name options by their place in the dump."""
    try:
        taken = [(entry["fqn"], int(entry["option"]), list(map(int, entry["ranks"]))) for entry in entries]
    except (KeyError, TypeError, ValueError):
        raise Error("schema", "answer", "no list of fqn, option and ranks", "give what was answered") from None
    for fqn, index, ranks in taken:
        if not 0 <= index < len(options) or options[index].fqn != fqn or len(options[index].shards) != len(ranks):
            raise Error("conflict", fqn, "the answer is of another search space", "dump and plan again")
    return [(options[index], ranks) for _, index, ranks in taken]


def _of_model(
    document: Mapping[str, Any],
    planner: EmbeddingShardingPlanner,
    module: nn.Module,
    sharders: list[ModuleSharder[nn.Module]],
    options: list[ShardingOption],
) -> Placed:
    """The planner's options that a plan of a model takes."""
    found = []
    for fqn, entry in plan_tables(document, module, planner._topology, sharders, planner._constraints).items():
        shards = shards_of(entry)
        cut = [(list(shard.size), list(shard.offset)) for shard in shards]
        factor = (entry.get("cache_params") or {}).get("load_factor")
        alike = [
            option
            for option in options
            if (option.fqn, option.sharding_type, option.compute_kernel)
            == (fqn, entry["sharding_type"], entry["compute_kernel"])
            and [(list(shard.size), list(shard.offset)) for shard in option.shards] == cut
            and (factor is None or option.cache_load_factor in (None, factor))
        ]
        if not alike:
            what = f"{entry['sharding_type']} with {entry['compute_kernel']} in {len(shards)} shards"
            raise Error("conflict", fqn, f"the planner has no option {what}", "plan with the planner's constraints")
        found.append((alike[0], [shard.rank for shard in shards]))
    return found
