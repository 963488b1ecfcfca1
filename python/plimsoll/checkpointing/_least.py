"""A bound on the peak of every plan, which proves that a budget is too small; needs no torch.

Problem. A plan is a set of modules, none within another, whose forward runs again in the backward. How small can the
peak of the step be?
Method. Whatever the plan, what Python holds lives as in the plain step. A tensor that autograd saves lives until its
release: from its birth, unless a unit has both made and saved it, and else at the latest from where the backward first
asks for a tensor of the innermost such unit, since a unit around it is asked no later. Kept outputs only add. So there
is a least number of bytes at each step for any choice among some units, and one for the choices with a certain unit.
Units whose least peak is above a budget are out of question within it, and without them the others need more: a budget
is refuted if in the end not even all that are left together are enough. Halving finds the largest refuted budget.
Promises. No choice of units and kept operators has a replayed peak below the bound. O(units * saves * log) for each
round of a budget.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from plimsoll.checkpointing._simulate import Replay
from plimsoll.checkpointing._trace import Call

_PRECISION = 1e-3  # of the peak
_Steps = npt.NDArray[np.int64]


def least_peak(replay: Replay, units: Collection[str], found: int) -> int:
    """Bytes that every plan with some of these units needs; a plan was found that needs `found`."""
    bounds = _Bounds(replay)
    alone = {unit: bounds.peak(units, unit) for unit in units}
    bound, above = bounds.peak(units), found
    while above - bound > _PRECISION * found:
        middle = (bound + above) // 2
        if bounds.refute([unit for unit in units if alone[unit] <= middle], middle):
            bound = middle + 1
        else:
            above = middle
    return min(bound, found)


class _Bounds:
    def __init__(self, replay: Replay) -> None:
        trace = self.trace = replay.trace
        self.replay = replay
        self.end = trace.num_steps
        self.calls: dict[str, list[Call]] = {}
        for call in trace.calls:
            self.calls.setdefault(call.fqn, []).append(call)
        # What lives: storages that Python holds, and then every pair of a save and a storage of it.
        storages = np.arange(len(replay.bytes))
        deaths = self._until(replay.deaths)
        ends = np.concatenate([self._until(replay.held), self._until(replay.releases)[replay.save]])
        self.storage = np.concatenate([storages, replay.saved])
        is_freed = np.isin(self.storage, replay.freed)
        self.ends = np.where(is_freed, np.minimum(ends, deaths[self.storage]), ends)
        self.births = replay.births[self.storage]

    def _until(self, deaths: _Steps) -> _Steps:
        return np.where(deaths < 0, self.end, deaths)

    def refute(self, allowed: Collection[str], budget: int) -> bool:
        """Is every plan with some of these units above the budget?"""
        while self.peak(allowed) <= budget:
            left = [unit for unit in allowed if self.peak(allowed, unit) <= budget]
            if len(left) == len(allowed):
                return False
            allowed = left
        return True

    def peak(self, allowed: Collection[str], surely: str | None = None) -> int:
        """The least peak of plans with some of these units, or of those with a certain one."""
        pairs = len(self.replay.saved)
        starts = np.full(pairs, -1, np.int64)  # from when on a saved tensor lives at the latest; -1: from its birth
        width = np.full(pairs, self.end + 1, np.int64)  # of the innermost unit so far
        for unit in allowed:
            for call in self.calls[unit]:
                own, is_made = self._of(call)
                is_inner = is_made & (call.last - call.first < width[own])
                starts[own] = np.where(is_inner, self._asked(call), starts[own])
                width[own] = np.where(is_inner, call.last - call.first, width[own])
        for call in self.calls[surely] if surely is not None else ():
            own, is_made = self._of(call)
            starts[own] = np.where(is_made, np.minimum(starts[own], self._asked(call)), -1)
        return self._peak(starts)

    def _of(self, call: Call) -> tuple[slice, npt.NDArray[np.bool_]]:
        """The pairs that a call saves, and which of their storages it made."""
        own = slice(*np.searchsorted(self.replay.save, call.saves))
        return own, self.replay.births[self.replay.saved[own]] >= call.first

    def _asked(self, call: Call) -> int:
        """When the backward first takes back a tensor of a call; the end if it never does."""
        return min((save[2] for save in self.trace.saves[slice(*call.saves)] if save[2] >= 0), default=self.end)

    def _peak(self, starts: _Steps) -> int:
        """Of the union of each storage's lives."""
        begins = np.maximum(self.births, np.concatenate([np.full(len(self.replay.bytes), -1), starts]))
        lives = self.ends > begins
        begins, ends, storage = begins[lives], self.ends[lives], self.storage[lives]
        order = np.lexsort((begins, storage))
        begins, ends, storage = begins[order], ends[order], storage[order]
        far = self.end + 1
        reached = np.maximum.accumulate(ends + storage * far)  # by the lives before; storages are apart
        begins[1:] = np.maximum(begins[1:], reached[:-1] - storage[1:] * far)
        lives = ends > begins
        delta = np.zeros(far + 1, np.int64)
        np.add.at(delta, begins[lives], self.replay.bytes[storage[lives]])
        np.add.at(delta, ends[lives], -self.replay.bytes[storage[lives]])
        return self.trace.base_bytes + self.trace.constant_bytes + int(np.cumsum(delta[: self.end]).max())
