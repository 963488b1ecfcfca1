"""The pair that answers TorchRec's loop: a proposer that proposes once, a partitioner that answers with the plan.

TorchRec's planner keeps and rates whatever list a partitioner returns; it need not be the proposal. So the proposer
remembers the search space and proposes a probe, the option of least storage of every table, and the partitioner answers
the probe with the plan of its search. The probe being the least makes TorchRec's own verdict right where there is none.

By a performance model of the caller's own, TorchRec's proposers and partitioner come first: what they find is rated as
they find it, and the plan of our search is one more to choose from.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from torch import nn
from torchrec.distributed.planner.types import Enumerator as TorchRecEnumerator
from torchrec.distributed.planner.types import Partitioner as TorchRecPartitioner
from torchrec.distributed.planner.types import PlannerError, PlannerErrorType, ShardingOption, Topology
from torchrec.distributed.planner.types import Proposer as TorchRecProposer
from torchrec.distributed.types import ModuleSharder

from plimsoll._answer import Certificate
from plimsoll._command import plain
from plimsoll.options import TIERS, UNIFORM, Found, Refusal, Settings, choice_of, explain, search, step_model_values
from plimsoll.torchrec._model import sharded_document
from plimsoll.torchrec._options import Space, cost_of, device_tier, in_declared_order, place, room_of

NUMERIC_HAZARDS = frozenset({"optimizer_state_per_block"})  # TorchRec trains so, too: strict alone allows them
# Warnings of the plan that the search found, not of its inputs.
OF_THE_PLAN = frozenset(
    {
        "hazard_unavoidable",
        "optimizer_state_per_block",
        "rating_cap_dropped",
        "no_reference_rating",
        "worse_than_reference",
    }
)
PLACEMENT_EFFORT = 2000  # moves of a placement alone: a millisecond


def total_storage(option: ShardingOption) -> tuple[int, int, int]:
    """Bytes over all shards: hbm, ddr, ssd."""
    storages = [shard.storage for shard in option.shards]
    return (
        sum(s.hbm for s in storages),
        sum(s.ddr for s in storages),
        sum(getattr(s, "ssd", 0) for s in storages),
    )


Taken = tuple[str, str, str, list[tuple[int, ...]], list[int]]


def taken_of(plan: Sequence[ShardingOption]) -> list[Taken]:
    """What a plan decides: of every table type, kernel, sizes of shards and their ranks."""
    return sorted(
        (
            option.fqn,
            option.sharding_type,
            option.compute_kernel,
            [(*shard.size, *shard.offset) for shard in option.shards],
            [shard.rank for shard in option.shards],
        )
        for option in plan
    )


def _what_it_costs(option: ShardingOption) -> tuple[object, ...]:
    shards = tuple((*shard.size, *shard.offset, *cost_of(shard)) for shard in option.shards)
    return option.fqn, option.sharding_type, option.compute_kernel, shards


class Search:
    """What a proposer and a partitioner share: the search space, and what was found in it."""

    def __init__(self, settings: Settings, by_storage: bool = False) -> None:
        self.settings = settings
        self.by_storage = by_storage
        self.module: tuple[nn.Module, Sequence[ModuleSharder[nn.Module]]] | None = None  # for its hazards
        self.found: Found | None = None
        self.refusal = Refusal()
        self.probe: list[ShardingOption] = []
        self.room: Topology | None = None
        self.taken: list[Taken] | None = None  # the plan as it was found
        self._space: list[ShardingOption] = []
        self._ready: dict[str, tuple[ShardingOption, list[int]]] | None = None

    def start(self, space: list[ShardingOption]) -> None:
        """A new search space, in TorchRec's order."""
        self._space = in_declared_order(space, self.module[1] if self.module else ())
        least: dict[str, ShardingOption] = {}
        for option in self._space:
            known = least.get(option.fqn)
            if known is None or total_storage(option) < total_storage(known):
                least[option.fqn] = option
        self.probe = list(least.values())

    def forget(self) -> None:
        """What an earlier search left."""
        self.found, self._ready, self.refusal, self.taken = None, None, Refusal(), None
        self._space, self.probe = [], []

    def answer_with(self, found: Found, ready: dict[str, tuple[ShardingOption, list[int]]]) -> None:
        """What a search outside of TorchRec's loop found; the space has the plan's options alone."""
        self.found, self._ready = found, ready

    def plan(self, topology: Topology) -> list[ShardingOption]:
        """The plan, in the order of the search space.

        Raises:
            PlannerError: There is none, or none without a hazard.
        """
        self.room = topology
        if self._ready is None:
            space = self._native_space(topology, self._space)
            self.found = search(space.native, space.fqns, room_of(topology), self.settings)
            self._ready = {fqn: (space.options[option], ranks) for fqn, (option, ranks) in self.found.choice.items()}
        assert self.found is not None
        if not self.found.choice:
            self._refuse(self._explain(self.found, topology))
        if self.found.hazards and self.settings.strict:
            self._refuse(hazards_refusal(self.found.named_hazards))
        plan = [place(option, ranks) for option, ranks in self._ready.values()]
        self.taken = taken_of(plan)
        return plan

    @property
    def has_space(self) -> bool:
        """Has the planner shown its options?"""
        return bool(self._space)

    def told_of(self, plan: Sequence[ShardingOption], topology: Topology) -> Found:
        """Times and hazards of a plan that a search of others made.

        The objective is TorchRec's rating, or `step` where that is asked for: "time" is of plans that rate no worse
        than TorchRec's, which others' need not be.
        """
        self.room = topology
        judged = self.judge(plan, topology)
        certificate = Certificate(judged["times"][self._objective_of_others])
        return Found("feasible", "", certificate, judged["times"], None, {}, warnings=list(judged["hazards"]))

    def bound(self, plan: Sequence[ShardingOption], topology: Topology) -> Found:
        """The same, and a bound of all plans of the search space; none is ruled out for its hazards."""
        told = self.told_of(plan, topology)
        if not self._holds(plan):
            return told
        settings = replace(
            self.settings, objective=self._objective_of_others, strict=False, strict_numerics=False, machine=None
        )
        space = self._native_space(topology, self._space)
        found = search(space.native, space.fqns, room_of(topology), settings)
        warnings = [*told.warnings, *(warning for warning in found.warnings if warning[0] not in OF_THE_PLAN)]
        told = replace(told, reference=found.reference, warnings=warnings)
        value, lower_bound = told.certificate.objective, found.certificate.lower_bound
        if lower_bound is None or value < lower_bound * (1 - 1e-9):  # the plan breaks a rule that the bound keeps
            return told
        gap = max(value / lower_bound - 1, 0.0) if lower_bound > 0 else None
        is_optimal = gap is not None and gap <= settings.tolerance
        return replace(
            told,
            status="optimal" if is_optimal else "feasible",
            certificate=Certificate(value, lower_bound, gap, found.certificate.proof),
        )

    @property
    def _objective_of_others(self) -> str:
        return "step" if self.settings.objective == "step" else "rating"

    def _native_space(self, topology: Topology, options: Sequence[ShardingOption]) -> Space:
        model = json.dumps(sharded_document(*self.module), default=plain) if self.module else ""
        space = Space(topology, model, self.by_storage)
        space.add_all(options)
        return space

    def _holds(self, plan: Sequence[ShardingOption]) -> bool:
        """Is all of the plan in the search space? A proposer may make options of its own."""
        chosen = {(option.fqn, option.sharding_type, option.compute_kernel) for option in plan}
        known = {
            _what_it_costs(option)
            for option in self._space
            if (option.fqn, option.sharding_type, option.compute_kernel) in chosen
        }
        return all(_what_it_costs(option) in known for option in plan)

    def judge(self, plan: Sequence[ShardingOption], topology: Topology) -> dict[str, Any]:
        """{"times", "hazards": [(code, fqn, message)]} of a plan, whoever made it."""
        space = self._native_space(topology, plan)
        ranks = [[] if o.sharding_type in UNIFORM else [shard.rank for shard in o.shards] for o in space.options]
        indices = np.arange(len(space.options), dtype=np.int32)
        return space.native.judge(indices, ranks, step_model_values(self.settings.step_model))

    def refuse_hazards(self, plan: Sequence[ShardingOption], topology: Topology) -> None:
        """Where a plan of others is one that the settings rule out.

        Raises:
            PlannerError: It names hazards and tables.
        """
        if not self.settings.strict and not self.settings.strict_numerics:
            return
        is_asked = {True: self.settings.strict_numerics, False: self.settings.strict}
        named = [
            (code, fqn) for code, fqn, _ in self.judge(plan, topology)["hazards"] if is_asked[code in NUMERIC_HAZARDS]
        ]
        if named:
            self._refuse(hazards_refusal(named))

    def _explain(self, found: Found, topology: Topology) -> Refusal:
        binding = found.binding
        if binding not in TIERS:  # nothing was proved: most likely the device's own memory
            binding = device_tier(topology)
        tier = TIERS.index(binding)
        least = {option.fqn: total_storage(option)[tier] for option in self.probe}
        return explain(found, binding, least, int(room_of(topology)[:, tier].sum()))

    def _refuse(self, refusal: Refusal) -> None:
        self.refusal = refusal
        raise PlannerError(message=refusal.text, error_type=PlannerErrorType.PARTITION)


def hazards_refusal(named: Sequence[tuple[str, str]]) -> Refusal:
    """Of (hazard, table)."""
    listed = ", ".join(f"{code} of {fqn}" for code, fqn in named)
    text = (
        f"plimsoll: no plan without a hazard was found: {listed}; loosen the constraints of these tables, or plan with "
        f"{'strict_numerics' if all(code in NUMERIC_HAZARDS for code, _ in named) else 'strict'}=False"
    )
    return Refusal(text, tables=tuple(dict.fromkeys(fqn for _, fqn in named)))


class Proposer(TorchRecProposer):
    """Proposes once, for a `Partitioner` of the same `Search`: the option of least storage of each table."""

    def __init__(self, search: Search | None = None) -> None:
        self._search = search or Search(Settings())
        self._is_done = False

    def load(self, search_space: list[ShardingOption], enumerator: TorchRecEnumerator | None = None) -> None:
        """Remembers the search space."""
        self._search.start(search_space)
        self._is_done = False

    def propose(self) -> list[ShardingOption] | None:
        """The probe, then nothing."""
        return None if self._is_done else list(self._search.probe)

    def feedback(
        self,
        partitionable: bool,
        plan: list[ShardingOption] | None = None,
        perf_rating: float | None = None,
        storage_constraint: Topology | None = None,
    ) -> None:
        """One proposal was all."""
        self._is_done = True


class Watcher(Proposer):
    """Proposes nothing: behind proposers of the caller's own it sees what they choose from."""

    def propose(self) -> list[ShardingOption] | None:
        """Nothing."""
        return None


class Partitioner(TorchRecPartitioner):
    """Places one option of every table so that the slowest rank is fast, never worse than TorchRec's greedy placement.

    Alone it is for TorchRec's own planner, proposal by proposal: `EmbeddingShardingPlanner(partitioner=Partitioner())`.

    Args:
        search: Shared with a `Proposer`, whose probe it answers with the plan of the search.
        effort: Moves spent on a proposal.
        other: Places every proposal but the probe, in our stead.
    """

    def __init__(
        self,
        search: Search | None = None,
        effort: int = PLACEMENT_EFFORT,
        other: TorchRecPartitioner | None = None,
    ) -> None:
        self._search = search
        self._other = other
        self._effort = effort
        self._space: Space | None = None
        self._topology: Topology | None = None

    def partition(self, proposal: list[ShardingOption], storage_constraint: Topology) -> list[ShardingOption]:
        """The proposal with a rank for every shard; of the probe, the plan.

        Raises:
            PlannerError: No room was found.
        """
        search = self._search
        if (
            search is not None
            and len(proposal) == len(search.probe)
            and all(a is b for a, b in zip(proposal, search.probe))
        ):
            return search.plan(storage_constraint)
        if self._other is not None:
            if search is not None:
                search.room = storage_constraint
            plan = self._other.partition(proposal=proposal, storage_constraint=storage_constraint)
            if search is not None:
                search.refuse_hazards(plan, storage_constraint)
            return plan
        return self._place(proposal, storage_constraint)

    def _place(self, proposal: Sequence[ShardingOption], topology: Topology) -> list[ShardingOption]:
        if self._space is None or self._topology is not topology:
            self._space, self._topology = Space(topology), topology
        indices = np.array([self._space.index(option) for option in proposal], dtype=np.int32)
        plan = self._space.native.place(room_of(topology), indices, self._effort)
        if plan is None:
            raise PlannerError(
                message="plimsoll: no room was found for this proposal", error_type=PlannerErrorType.PARTITION
            )
        fqns = [option.fqn for option in proposal]
        ranks = [ranks for _, ranks in choice_of(fqns, plan).values()]
        return [place(option, on) for option, on in zip(proposal, ranks)]
