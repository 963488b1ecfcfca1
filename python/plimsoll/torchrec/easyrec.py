"""TorchEasyRec's planner: `tzrec.utils.plan_util` with the import changed.

    >>> from plimsoll.torchrec.easyrec import create_planner, get_default_sharders
    >>> planner = create_planner(device=device, batch_size=batch_size, model=model)
    >>> plan = planner.collective_plan(model, get_default_sharders(), pg)

The plan is TorchEasyRec's, and `planner.certificate` says how far it is from the best; `search="balanced"` plans by our
own search. Source: docs/mathematics/torchrec-planner.md#torcheasyrecs-setting.
"""

from __future__ import annotations

import json
import logging
import os
from collections import deque
from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torchrec.distributed.comm import get_local_size
from torchrec.distributed.planner import Topology
from torchrec.distributed.planner.partitioners import GreedyPerfPartitioner
from torchrec.distributed.planner.proposers import UniformProposer
from torchrec.distributed.planner.storage_reservations import HeuristicalStorageReservation
from torchrec.distributed.planner.types import Enumerator as TorchRecEnumerator
from torchrec.distributed.planner.types import ParameterConstraints, ShardingOption, Storage
from torchrec.distributed.planner.types import Proposer as TorchRecProposer
from torchrec.distributed.sharding_plan import get_default_sharders as get_torchrec_sharders
from torchrec.distributed.types import ModuleSharder, ShardingType

from plimsoll._errors import Error
from plimsoll._extras import need
from plimsoll._interrupt import interruptible
from plimsoll.torchrec._by_fqn import EnumeratorByFqn
from plimsoll.torchrec._options import Space, room_of
from plimsoll.torchrec._planner import Planner

__all__ = ["DynamicProgrammingProposer", "create_planner", "get_default_sharders"]

logger: logging.Logger = logging.getLogger("plimsoll")

FORMS = ("v1", "v2", "v3")
PROPOSERS = {"easyrec": "v3", "easyrec_v2": "v2", "easyrec_v1": "v1"}  # as `plimsoll shard --proposer` names them
SEARCHES = ("torchrec", "balanced")


class DynamicProgrammingProposer(TorchRecProposer):
    """TorchEasyRec's dynamic program over binned memory, for TorchRec's planner or for ours.

    Proposes the options of least memory, then for every amount of memory the options of the least summed time. Form
    "v3" has bins of HBM and of DDR. "v1" and "v2" have one kind, HBM where CUDA is available and DDR elsewhere; "v2"
    leaves out options whose largest shard fits on no device. It serves every call of a planner's `plan`, where
    TorchEasyRec's proposes nothing from the second call on.

    Args:
        hbm_bins_per_device: Bins of HBM a device; of "v1" and "v2" the bins of the one kind.
        ddr_bins_per_device: Bins of DDR a device, of "v3" alone.
        form: "v1", "v2" or "v3", TorchEasyRec's latest; "v1" where mem_bins_per_device is given.
        mem_bins_per_device: What "v1" and "v2" call their bins.
        by_hbm: Which memory "v1" and "v2" count; whether CUDA is available where not given.
    """

    def __init__(
        self,
        hbm_bins_per_device: int = 100,
        ddr_bins_per_device: int = 25,
        *,
        form: str | None = None,
        mem_bins_per_device: int | None = None,
        by_hbm: bool | None = None,
    ) -> None:
        if form is None:
            form = "v3" if mem_bins_per_device is None else "v1"
        if form not in FORMS:
            raise Error("not_found", "form", f"no form '{form}'", "choose v1, v2 or v3")
        self._form = form
        self._hbm_bins = hbm_bins_per_device if mem_bins_per_device is None else mem_bins_per_device
        self._ddr_bins = ddr_bins_per_device
        self._by_hbm = torch.cuda.is_available() if by_hbm is None else by_hbm
        self._tables: list[list[ShardingOption]] = []
        self._rest: deque[list[ShardingOption]] | None = None  # proposals after the first

    def load(self, search_space: list[ShardingOption], enumerator: TorchRecEnumerator | None = None) -> None:
        """Orders tables and options by their memory."""
        tables: dict[str, list[ShardingOption]] = {}
        for option in sorted(search_space, key=lambda option: self._memory(option.total_storage)):
            tables.setdefault(option.fqn, []).append(option)
        self._tables = list(tables.values())
        self._rest = None

    def _memory(self, storage: Storage) -> int:
        if self._form == "v3":
            return storage.hbm + storage.ddr
        return storage.hbm if self._by_hbm else storage.ddr

    def propose(self) -> list[ShardingOption] | None:
        """The next proposal; None after the last."""
        if self._rest is None:
            return [options[0] for options in self._tables]
        return self._rest[0] if self._rest else None

    def feedback(
        self,
        partitionable: bool,
        plan: list[ShardingOption] | None = None,
        perf_rating: float | None = None,
        storage_constraint: Topology | None = None,
    ) -> None:
        """Solves at the first, which tells how much memory there is."""
        if self._rest is None:
            assert storage_constraint is not None
            self._rest = self._solve(storage_constraint)
        elif self._rest:
            self._rest.popleft()

    def _solve(self, room: Topology) -> deque[list[ShardingOption]]:
        if not self._tables:
            return deque()
        space = Space(room)
        space.add_all([option for options in self._tables for option in options])
        proposals = interruptible(
            lambda cancel: space.native.easyrec_proposals(
                room_of(room), self._form, self._hbm_bins, self._ddr_bins, self._by_hbm, cancel
            )
        )
        return deque([space.options[index] for index in proposal] for proposal in proposals[1:])


def create_planner(
    device: torch.device,
    batch_size: int,
    ckpt_plan_path: str | os.PathLike[str] | None = None,
    global_constraints_cfg: Any = None,
    model: nn.Module | None = None,
    *,
    proposer: str = "easyrec",
    search: str = "torchrec",
    **settings: Any,
) -> Planner:
    """A planner for this job's ranks, set up as TorchEasyRec's.

    GPU memory is the device's, host memory the machine's divided by its ranks. Of the environment count
    INTRA_NODE_BANDWIDTH and CROSS_NODE_BANDWIDTH (bytes a millisecond), STORAGE_RESERVE_PERCENT (a share, 0.15),
    TZREC_DP_HBM_BINS_PER_DEVICE and TZREC_DP_DDR_BINS_PER_DEVICE (100 and 25), and FORCE_LOAD_SHARDING_PLAN.

    Args:
        device: The rank's.
        batch_size: Of a rank.
        ckpt_plan_path: A checkpoint's plan, {module: {table: {"sharding_type": ...}}}: tables that are data_parallel
            there stay so, all tables keep their type where FORCE_LOAD_SHARDING_PLAN is 1. A path without a file counts
            as none.
        global_constraints_cfg: Whose `sharding_types` and `compute_kernels`, where not empty, hold for every table that
            has no constraint of its own.
        model: Its modules that have `parameter_constraints(prefix)` give constraints by fqn.
        proposer: "easyrec", or "easyrec_v1" and "easyrec_v2" for earlier revisions' dynamic program.
        search: "torchrec": TorchEasyRec's proposers and TorchRec's partitioner; "balanced": our own search.
        settings: Further keywords of `Planner`: objective, effort, stats, ...

    Raises:
        Error: A variable that is not a number; a dynamic embedding table.
    """
    if proposer not in PROPOSERS:
        raise Error("not_found", "proposer", f"no proposer '{proposer}'", f"choose {', '.join(PROPOSERS)}")
    if search not in SEARCHES:
        raise Error("not_found", "search", f"no search '{search}'", f"choose {' or '.join(SEARCHES)}")
    topology = _topology(device)
    by_fqn = _constraints_of(model) if model is not None else {}
    _keep_types(by_fqn, ckpt_plan_path)
    if search == "torchrec":
        settings |= {
            "proposer": [_program(PROPOSERS[proposer]), UniformProposer()],
            "partitioner": GreedyPerfPartitioner(),
        }
    return Planner(
        topology=topology,
        batch_size=batch_size,
        enumerator=EnumeratorByFqn(topology, batch_size, by_fqn, _for_all_tables(global_constraints_cfg)),
        storage_reservation=HeuristicalStorageReservation(percentage=_number("STORAGE_RESERVE_PERCENT", 0.15)),
        debug=True,
        **settings,
    )


def get_default_sharders() -> list[ModuleSharder[nn.Module]]:
    """TorchRec's; without CUDA none of sequences, which TorchEasyRec does not shard there."""
    sharders = get_torchrec_sharders()
    if torch.cuda.is_available():
        return sharders
    return [sharder for sharder in sharders if "EmbeddingCollection" not in type(sharder).__name__]


def _topology(device: torch.device) -> Topology:
    psutil = need("psutil", "torchrec")
    local_world_size = get_local_size()
    known: dict[str, Any] = {"ddr_cap": int(float(psutil.virtual_memory().total) / local_world_size)}
    if torch.cuda.is_available():
        known["hbm_cap"] = torch.cuda.get_device_properties(device).total_memory
    for name, variable in (("intra_host_bw", "INTRA_NODE_BANDWIDTH"), ("inter_host_bw", "CROSS_NODE_BANDWIDTH")):
        if variable in os.environ:
            known[name] = _number(variable)
    return Topology(
        local_world_size=local_world_size, world_size=dist.get_world_size(), compute_device=device.type, **known
    )


def _number(variable: str, default: float = 0.0) -> float:
    text = os.environ.get(variable)
    if text is None:
        return default
    try:
        return float(text)
    except ValueError:
        raise Error("value", variable, f"'{text}' is not a number", "give a number, or unset it") from None


def _program(form: str) -> DynamicProgrammingProposer:
    if form != "v3":  # earlier revisions read no variables
        return DynamicProgrammingProposer(form=form)
    hbm = _number("TZREC_DP_HBM_BINS_PER_DEVICE", 100)
    ddr = _number("TZREC_DP_DDR_BINS_PER_DEVICE", 25)
    return DynamicProgrammingProposer(int(hbm), int(ddr))


def _constraints_of(model: nn.Module) -> dict[str, ParameterConstraints]:
    """What the model's modules say of their tables, by fqn."""
    found: dict[str, ParameterConstraints] = {}
    waiting = deque([("", model)])
    while waiting:
        prefix, module = waiting.popleft()
        if hasattr(module, "parameter_constraints"):
            found.update(module.parameter_constraints(prefix))
        else:
            waiting.extend((f"{prefix}{name}.", child) for name, child in module.named_children())
    for fqn, constraint in found.items():
        if getattr(constraint, "use_dynamicemb", False):
            raise Error(
                "value",
                fqn,
                "dynamic embedding tables are not planned from Python objects",
                "plan them by `plimsoll shard` from a model with `dynamic_embedding` (docs/embedding.md#torcheasyrec)",
            )
    return found


def _keep_types(by_fqn: dict[str, ParameterConstraints], path: str | os.PathLike[str] | None) -> None:
    """Constrains the tables of a checkpoint whose types must stay, except for those that are constrained.

    Optimizer states of data_parallel tables have other names than those of the other types, and could not be loaded.
    """
    if path is None or not os.path.exists(path):
        return
    with open(path, encoding="utf-8") as file:
        plan: Mapping[str, Mapping[str, Any]] = json.load(file)
    is_forced = os.environ.get("FORCE_LOAD_SHARDING_PLAN") == "1"
    for where, tables in plan.items():
        for name, sharding in tables.items():
            kind, fqn = sharding["sharding_type"], f"{where}.{name}"
            if fqn in by_fqn or not (is_forced or kind == ShardingType.DATA_PARALLEL.value):
                continue
            by_fqn[fqn] = ParameterConstraints(sharding_types=[kind])
            if int(os.environ.get("RANK", 0)) == 0:
                logger.info("plimsoll: %s stays %s, as in the checkpoint's plan", fqn, kind)


def _for_all_tables(config: Any) -> ParameterConstraints | None:
    if config is None:
        return None
    return ParameterConstraints(
        sharding_types=list(config.sharding_types) or None, compute_kernels=list(config.compute_kernels) or None
    )
