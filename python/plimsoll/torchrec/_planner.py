"""The planner that stands where EmbeddingShardingPlanner stood."""

from __future__ import annotations

import inspect
import logging
import math
import os
import pickle
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch.distributed as dist
from torch import nn
from torchrec.distributed.planner import EmbeddingShardingPlanner
from torchrec.distributed.planner.perf_models import NoopPerfModel, NoopStorageModel
from torchrec.distributed.planner.types import (
    PlannerError,
    PlannerErrorType,
    ShardingOption,
    StorageReservation,
    Topology,
)
from torchrec.distributed.sharding_plan import get_default_sharders
from torchrec.distributed.types import ModuleSharder, ShardingPlan, ShardingType

from plimsoll._answer import Certificate
from plimsoll._command import Progress
from plimsoll._errors import Error
from plimsoll.options import Found, Refusal, Settings
from plimsoll.torchrec._constraints import with_current_kernels
from plimsoll.torchrec._native_enumerator import NativeEnumerator
from plimsoll.torchrec._no_plan import NoPlan, explain_no_plan
from plimsoll.torchrec._options import device_tier, room_after
from plimsoll.torchrec._plugins import OF_THE_PLAN, Partitioner, Proposer, Search, Watcher, taken_of

logger: logging.Logger = logging.getLogger("plimsoll")

EFFORT = 1_000_000  # moves: 1,000 tables on 128 ranks are searched within two seconds

_PARENT = inspect.signature(EmbeddingShardingPlanner.__init__)


class Planner(EmbeddingShardingPlanner):
    """`EmbeddingShardingPlanner` whose plans are certified; takes every keyword of it.

    A `proposer` or `partitioner` of the caller's own is used as TorchRec would. Then the search is theirs, and our own
    search proves how far the rating of its plan is from the best; so it does for a plan of a `plan_loader`. By a
    `performance_model` of the caller's own TorchRec's loop runs as without us, and the plan of our search is one more
    that it rates: never worse by that model, and nothing is proved. A plan of our search that a callback changed has
    times of its own and no bound.

    Compute kernels in `constraints` may have the names of early releases ("batched_fused").

    Args:
        objective: "time" (least time of a step among plans that TorchRec rates no worse than its own), "rating" (what
            TorchRec's planner minimizes: the slowest rank) or "step".
        time_limit_s: Clock of the search; `timeout_seconds` where it is not given.
        effort: Moves of the search; `EFFORT`, a million, where it is not given.
        seed: Of the search.
        tolerance: A gap up to this counts as optimal.
        strict: Never plan what TorchRec's runtime trains wrongly or refuses late; raise where nothing else is left.
        strict_numerics: Never plan columns whose blocks have an optimizer state each (row-wise Adagrad), which train
            otherwise than the unsharded table; TorchRec plans them.
        progress: Called with (effort, incumbent, lower bound).
        step_model: What a step takes on your machine (`plimsoll.options.STEP_MODEL`).
        machine: Times of a machine (plimsoll.machine/1), as `plimsoll calibrate` measures them: a dict, a path, or the
            name of a shipped one. Ratings stay TorchRec's; options must be the planner's own enumerator's.

    Attributes:
        certificate: Objective, lower bound, gap and proof of the last plan.
        times: {"rating", "step", "time"} of the last plan, ms.
        reference: The same of the plan that TorchRec's own search finds; None where it finds none.
        status: "optimal", "feasible", "infeasible" (proved) or "limit".
        warnings: Remarks of the last search: code, place, message.
        explanation: Why there was no plan.
    """

    def __init__(
        self,
        *args: Any,
        objective: str = "time",
        time_limit_s: float | None = None,
        effort: int | None = None,
        seed: int = 0,
        tolerance: float = 1e-6,
        strict: bool = True,
        strict_numerics: bool = False,
        progress: Progress | None = None,
        step_model: Mapping[str, float] | None = None,
        machine: Mapping[str, Any] | str | os.PathLike[str] | None = None,
        **kwargs: Any,
    ) -> None:
        given = _PARENT.bind(self, *args, **kwargs).arguments
        given.pop("self")
        if given.get("constraints"):
            given["constraints"] = with_current_kernels(given["constraints"])
        model = given.get("performance_model")
        by_storage = type(model) is NoopStorageModel
        self._is_model_theirs = model is not None and type(model) not in (NoopPerfModel, NoopStorageModel)
        timeout = given.get("timeout_seconds") or 0  # one that is not above 0 is the parent's to refuse
        settings = Settings(
            objective="rating" if by_storage else objective,
            strict=strict,
            strict_numerics=strict_numerics,
            time_limit_s=timeout if time_limit_s is None and timeout > 0 else time_limit_s,
            effort=EFFORT if effort is None else effort,
            seed=seed,
            tolerance=tolerance,
            progress=progress,
            step_model=step_model,
            machine=machine,
        )
        self._search = Search(settings, by_storage)
        is_ours = self._is_search_ours = not given.get("proposer") and not given.get("partitioner")
        if is_ours and not self._is_model_theirs:
            given["proposer"], given["partitioner"] = Proposer(self._search), Partitioner(self._search)
        elif not is_ours and not given.get("partitioner"):
            given["partitioner"] = Partitioner()
        super().__init__(**given)
        if is_ours and self._is_model_theirs:  # last, so that a clock stops TorchRec's no earlier than without us
            self._proposers = [*self._proposers, Proposer(self._search)]
            self._partitioner = Partitioner(self._search, other=self._partitioner)
        if not is_ours:
            self._proposers = [*self._proposers, Watcher(self._search)]
        if is_ours and not given.get("enumerator"):
            self._enumerator = NativeEnumerator(
                self._topology, self._batch_size, self._constraints, self._storage_reservation, self._search
            )
            self._enumerator.wants_all = given.get("plan_loader") is not None or self._is_model_theirs
        self._shared_state: dict[str, Any] | None = None  # of rank 0, where it planned
        self._has_plan = False  # made by the last plan(), by whichever search

    def plan(self, module: nn.Module, sharders: list[ModuleSharder[nn.Module]]) -> ShardingPlan:
        """The plan, as TorchRec's own planner returns it.

        Raises:
            PlannerError: There is none. Its text says which cap binds, the bytes that are missing and the tables that
                need them, as do its attributes `explanation`, `binding`, `missing_bytes` and `tables`; and which
                constraints conflict and which changes have a plan, as do `cap`, `conflict` and `fixes`.
        """
        self._shared_state = None
        self._has_plan = False
        self._search.forget()
        self._search.module = (module, sharders)
        try:
            plan = super().plan(module, sharders)
            if plan.plan and getattr(self, "plan_loader", None) is not None and not self._search.has_space:
                self._tell_of_loaded_plan(module, sharders)
            elif self._is_search_ours:
                self._tell_of_other_plans()
            else:
                self._tell_of_their_search(module, sharders)
        except PlannerError as error:
            self._describe(error)
            raise
        except AttributeError as error:  # TorchRec's own account of a reservation that it does not know
            if not self._search.refusal.text:
                raise
            told = PlannerError(self._search.refusal.text, PlannerErrorType.STRICT_CONSTRAINTS)
            self._describe(told)
            raise told from error
        finally:
            self._search.module = None
        self._has_plan = True
        self._warn_of_gradients()
        self._log()
        return plan

    def _tell_of_other_plans(self) -> None:
        """Of a plan that is not the one that was found and proved, only what is computed again is told."""
        search, room, plan = self._search, self._search.room, self._best_plan
        if room is None or not plan:
            return
        if not self._is_model_theirs and (search.found is None or taken_of(plan) == search.taken):
            return
        found = search.found or Found("feasible", "", Certificate(math.nan), {}, None, {})
        judged = search.judge(plan, room)
        warnings = [warning for warning in found.warnings if warning[0] not in OF_THE_PLAN]
        warnings += [(code, fqn, message) for code, fqn, message in judged["hazards"]]
        if self._is_model_theirs:
            objective = float(self._perf_model.rate(plan=plan))
            warnings.insert(0, self._not_searched())
        else:
            objective = judged["times"][search.settings.objective]
            warnings.insert(0, ("plan_changed", "", "a callback changed the plan: its times are told, and no bound"))
        search.refusal = Refusal()
        search.found = replace(
            found,
            status="feasible",
            certificate=Certificate(objective),
            times=judged["times"],
            warnings=warnings,
        )

    def _tell_of_loaded_plan(self, module: nn.Module, sharders: list[ModuleSharder[nn.Module]]) -> None:
        """Of a plan that a loader brought, for which no proposer was asked: as of one that others found."""
        space = self.get_search_space() or getattr(self._enumerator, "last_stored_search_space", None)
        if space:  # an enumerator of the caller's own need not keep it
            self._search.start(space)
            self._tell_of_their_search(module, sharders)

    def _tell_of_their_search(self, module: nn.Module, sharders: list[ModuleSharder[nn.Module]]) -> None:
        """Of a plan that others found: its times, and a bound of all plans."""
        search, plan = self._search, self._best_plan
        if not search.has_space or not plan:
            return
        reservation, room = self._storage_reservation, self._topology
        if type(reservation).reserve.__module__.startswith("torchrec."):
            room = room_after(reservation, room, self._batch_size, module, sharders, self._constraints)
        # Of one of the caller's own all memory is taken to be left: what is proved then holds for less, too.
        try:
            if not self._is_model_theirs:
                search.found = search.bound(plan, room)
                return
            told = search.told_of(plan, room)
        except Error as error:  # options that no enumerator of TorchRec's makes; their plan stands
            warning = ("plan_not_judged", error.place, error.message)
            search.found = Found("feasible", "", Certificate(math.nan), {}, None, {}, warnings=[warning])
            return
        certificate = Certificate(float(self._perf_model.rate(plan=plan)))
        search.found = replace(told, certificate=certificate, warnings=[self._not_searched(), *told.warnings])

    def _not_searched(self) -> tuple[str, str, str]:
        name = type(self._perf_model).__name__
        return "objective_not_searched", "", f"{name} rates plans: nothing is proved of its figures"

    def _warn_of_gradients(self) -> None:
        """Says where what no planner counts need not fit: tables that every rank holds train outside of the kernels."""
        room = self._search.room
        if self._search.found is None or room is None or not self._best_plan:
            return
        replicated = sum(
            option.tensor.numel() * option.tensor.element_size()
            for option in self._best_plan
            if option.sharding_type == ShardingType.DATA_PARALLEL.value
        )
        tier = device_tier(room)
        left = [getattr(device.storage, tier) for device in room.devices]
        for option in self._best_plan:
            for shard in option.shards:
                left[shard.rank] -= getattr(shard.storage, tier)
        rank = min(range(len(left)), key=left.__getitem__)
        if 2 * replicated > left[rank]:
            message = (
                f"data_parallel tables take {replicated} bytes of {tier} on every rank; their gradients take as many "
                "again, and so may their optimizer's state, which no planner counts; "
                f"{left[rank]} bytes are left"
            )
            self._search.found.warnings.append(("gradients_not_counted", f"rank {rank}", message))

    def _describe(self, error: PlannerError) -> None:
        if not self._search.refusal.text:
            self._search.refusal = reservation_refusal(self._storage_reservation, self._topology)
        refusal = self._search.refusal
        error.explanation = refusal.text
        error.binding = refusal.binding
        error.missing_bytes = refusal.missing_bytes
        error.tables = refusal.tables
        none = self._explain_no_plan()
        error.cap, error.conflict, error.fixes = none.cap, none.conflict, none.fixes
        if none.text:
            error.args = (f"{error}\n{none.text}", *error.args[1:])

    def _explain_no_plan(self) -> NoPlan:
        if self._search.module is None or not self._is_search_ours or self._is_model_theirs:
            return NoPlan()
        module, sharders = self._search.module
        settings = self._search.settings
        return explain_no_plan(
            module,
            sharders,
            self._topology,
            self._constraints,
            self._storage_reservation,
            self._batch_size,
            {
                "strict_numerics": settings.strict_numerics,
                "objective": settings.objective,
                "effort": settings.effort,
                "time_limit": "10s",
            },
        )

    def _log(self) -> None:
        for code, place, message in self.warnings:
            logger.warning("plimsoll: %s%s (%s)", f"{place}: " if place else "", message, code)
        certificate = self.certificate
        if certificate.gap is not None:
            logger.info(
                "plimsoll: %s, objective %.6g ms, no plan below %.6g ms, gap %.3g %%",
                self.status,
                certificate.objective,
                certificate.lower_bound,
                100 * certificate.gap,
            )

    def collective_plan(
        self,
        module: nn.Module,
        sharders: list[ModuleSharder[nn.Module]] | None = None,
        pg: dist.ProcessGroup | None = None,
    ) -> ShardingPlan:
        """`plan` on rank 0, for all; what it raises there is raised on every rank at once."""
        if pg is None:
            assert dist.is_initialized(), "call torch.distributed.init_process_group() first, or plan()"
            pg = dist.group.WORLD
        assert pg is not None
        if sharders is None:
            sharders = get_default_sharders()
        answer: list[Any] = [None]
        error: BaseException | None = None
        if dist.get_rank(pg) == 0:
            try:
                answer = [(self.plan(module, sharders), None, self._state())]
            except BaseException as raised:
                error = raised
                answer = [(None, _sendable(raised), self._state())]
        dist.broadcast_object_list(answer, src=dist.get_global_rank(pg, 0), group=pg)
        if error is not None:
            raise error
        plan, told, state = answer[0]
        self._shared_state = state
        if told is not None:
            raise told
        return plan

    def get_search_space(self) -> list[ShardingOption] | None:
        """All options that the last `plan` chose from, as TorchRec's planner has it from release 1.9 on."""
        if isinstance(self._enumerator, NativeEnumerator) and self._enumerator.is_native:
            return self._enumerator.last_stored_search_space
        return getattr(self, "_search_space", None)

    def _state(self) -> dict[str, Any]:
        """What the attributes tell, by their names."""
        found = self._search.found
        if found is None:  # there was no search of ours: no plan yet, one that was loaded, no tables
            return {
                "certificate": Certificate(math.nan),
                "times": {},
                "reference": None,
                "status": "feasible" if self._has_plan else "limit",
                "warnings": [],
                "explanation": self._search.refusal.text,
            }
        return {
            "certificate": found.certificate,
            "times": found.times,
            "reference": found.reference,
            "status": found.status,
            "warnings": found.warnings,
            "explanation": self._search.refusal.text,
        }

    def _told(self, name: str) -> Any:
        return (self._shared_state or self._state())[name]

    @property
    def certificate(self) -> Certificate:
        """Of the last plan; NaN and no bound before one, and of a plan that others made."""
        return self._told("certificate")

    @property
    def times(self) -> dict[str, float]:
        """{"rating", "step", "time"} of the last plan, ms."""
        return self._told("times")

    @property
    def reference(self) -> dict[str, float] | None:
        """The same of the plan that TorchRec's own search finds."""
        return self._told("reference")

    @property
    def status(self) -> str:
        """How the last search ended; "feasible" where a plan was not ours."""
        return self._told("status")

    @property
    def warnings(self) -> list[tuple[str, str, str]]:
        """Remarks of the last search: code, place, message."""
        return self._told("warnings")

    @property
    def explanation(self) -> str:
        """Why there was no plan; empty where there was one."""
        return self._told("explanation")


def reservation_refusal(reservation: StorageReservation, topology: Topology) -> Refusal:
    """Where a reservation, before any table, needs more than rank 0 has; empty where that is not so."""
    taken = []
    for name, what in (("_dense_storage", "dense parameters"), ("_kjt_storage", "input ids")):
        storage = getattr(reservation, name, None)
        if storage is not None:
            taken.append((what, storage.hbm or storage.ddr))
    tier = device_tier(topology)
    capacity = getattr(topology.devices[0].storage, tier)
    share = getattr(reservation, "_percentage", None) or 0
    kept_back = int(capacity * share)
    needed = sum(size for _, size in taken)
    if needed + kept_back <= capacity:
        return Refusal()
    # Of what is added a share is kept back, too, as TorchRec rounds it.
    missing = int(needed / (1 - share)) - capacity if share < 1 else 0
    while share < 1 and int((1 - share) * (capacity + missing)) < needed:
        missing += 1
    causes = ", ".join(f"{size} for {what}" for what, size in [*taken, ("the margin", kept_back)])
    text = (
        f"plimsoll: {tier} binds: before any table, every rank needs {missing} bytes more; of {capacity} bytes are "
        f"reserved {causes}\n"
        "give Planner a smaller batch_size=, a topology= of larger caps, or another storage_reservation=: "
        "HeuristicalStorageReservation(percentage=...) with a smaller margin, or FixedPercentageStorageReservation, "
        "which does not count dense parameters, where FSDP shards them"
    )
    return Refusal(text, tier, missing)


def _sendable(error: BaseException) -> BaseException:
    """The error, or where it cannot travel, one of its text."""
    if isinstance(error, Exception):
        try:
            pickle.loads(pickle.dumps(error))
            return error
        except Exception:
            pass
    return RuntimeError(f"rank 0 raised {type(error).__name__}: {error}")


def _signature() -> inspect.Signature:
    """The parent's parameters, then ours."""
    ours = [
        parameter
        for parameter in inspect.signature(Planner.__init__).parameters.values()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    ]
    return _PARENT.replace(parameters=[*_PARENT.parameters.values(), *ours])


Planner.__init__.__signature__ = _signature()  # type: ignore[attr-defined]
