"""The memory of a training step under a plan, replayed from the record of a plain one; needs no torch.

Problem. Given a step's trace and, for each unit, the operators whose outputs it keeps, find the bytes that are alive at
every moment of the planned step.
Method. A unit's forward saves nothing for autograd: a storage dies when Python drops it, unless somebody outside the
unit keeps it, the unit keeps it as an input, or the policy caches it. When the backward first asks for a tensor of the
unit, the forward of the unit runs again until its last saved tensor is there (`early_stop`); those tensors die when the
plain step would have released them. The backward itself is the same. So every lifetime of the planned step follows from
the plain one. O(steps + storages + saves) time.
Promises. The peak is that of `LiveBytes` around the real step, as long as the step runs the recorded operators.
Source. torch.utils.checkpoint (non-reentrant) and create_selective_checkpoint_contexts of torch 2.13.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from plimsoll.checkpointing._trace import Call, Trace

Units = Mapping[str, frozenset[int]]  # by fqn: the operators, counted within a call, whose outputs are cached


@dataclass
class Step:
    """A planned step."""

    live: npt.NDArray[np.int64]  # bytes after each step, recomputation included
    recompute_ms: float  # what checkpointing adds in all
    forward_end: int  # in steps of `live`, as all that follows
    backward_end: int
    recomputations: list[tuple[int, int, str]]  # begin, end and unit

    @property
    def peak(self) -> int:
        """Bytes."""
        return int(self.live.max())


@dataclass
class _Segment:
    """A recomputation: the steps [first, stop) of a call once more, before step `before` of the plain step."""

    call: Call
    cached: frozenset[int]
    before: int
    stop: int
    start: int = 0  # where it begins in the planned step

    def again(self, step: int) -> int:
        """Where a step of the call is when it runs again."""
        return self.start + step - self.call.first

    @property
    def finish(self) -> int:
        return self.again(self.stop)


class Replay:
    """Steps of one trace under any number of plans."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        rows = np.asarray(trace.storages, np.int64).reshape(-1, 4)
        self.bytes, self.births, self._python, self.deaths = rows.T
        # Python's hold, in plain steps: what the forward's end finds alive lives as long as in the plain step.
        is_known = (self.births < trace.num_forward) & (self._python >= 0)
        self.held = np.where(is_known, self._python, self.deaths)
        pairs = [(number, i) for i, save in enumerate(trace.saves) for number in save[0]]
        self.saved, self.save = np.asarray(pairs, np.int64).reshape(-1, 2).T  # storage and save, save by save
        self.releases = np.asarray([save[3] for save in trace.saves], np.int64)
        self.freed = np.asarray(trace.freed, np.int64)
        self._pair_of = np.searchsorted(self.save, np.arange(len(trace.saves) + 1))

    def step(self, units: Units) -> Step:
        """The planned step; with no units the plain one."""
        trace = self.trace
        segments, idle = self._segments(units)
        shift = np.zeros(trace.num_steps + 1, np.int64)  # what runs again before a step
        offset = 0
        for segment in segments:
            segment.start = segment.before + offset
            offset += segment.stop - segment.call.first
            shift[segment.before] += segment.stop - segment.call.first
        shift = np.cumsum(shift)
        total = trace.num_steps + offset
        steps = np.arange(trace.num_steps + 1)
        begins = steps + shift  # of a plain step in the planned one
        ends = steps + np.concatenate([[0], shift[:-1]])  # a death before step n comes before what runs again there

        def until(deaths: Any) -> npt.NDArray[np.int64]:
            values = np.asarray(deaths, np.int64)
            return np.where(values < 0, total, ends[values])

        lives = until(self.held)
        in_unit = np.zeros(len(trace.saves), bool)
        for call in [segment.call for segment in segments] + idle:
            in_unit[slice(*call.saves)] = True
        outside = ~in_unit[self.save]
        releases = until(self.releases)
        np.maximum.at(lives, self.saved[outside], releases[self.save[outside]])

        delta = np.zeros(total + 1, np.int64)
        recompute_ms = 0.0
        for segment in segments:
            recompute_ms += self._run_again(segment, lives, releases, delta) + self._overhead(segment)
        lives[self.freed] = until(self.deaths[self.freed])
        np.add.at(delta, begins[self.births], self.bytes)
        np.add.at(delta, lives, -self.bytes)
        return Step(
            live=trace.base_bytes + trace.constant_bytes + np.cumsum(delta[:-1]),
            recompute_ms=recompute_ms,
            forward_end=trace.num_forward,
            backward_end=int(begins[trace.num_backward]),
            recomputations=[(segment.start, segment.finish, segment.call.fqn) for segment in segments],
        )

    def _segments(self, units: Units) -> tuple[list[_Segment], list[Call]]:
        """What runs again, in order; and calls of units whose tensors nothing asks for."""
        segments: list[_Segment] = []
        idle: list[Call] = []
        for call in self.trace.calls:
            saves = self.trace.saves[slice(*call.saves)] if call.fqn in units else []
            unpacks = [save[2] for save in saves if save[2] >= 0]
            if unpacks:  # early stop: the last pack ends it
                segments.append(_Segment(call, units[call.fqn], min(unpacks), saves[-1][1]))
            elif saves:
                idle.append(call)
        return sorted(segments, key=lambda segment: segment.before), idle

    def _run_again(
        self,
        segment: _Segment,
        lives: npt.NDArray[np.int64],
        releases: npt.NDArray[np.int64],
        delta: npt.NDArray[np.int64],
    ) -> float:
        """Adds what a recomputation makes, and what the unit holds until then; returns its milliseconds."""
        call, trace = segment.call, self.trace
        pairs = slice(self._pair_of[call.saves[0]], self._pair_of[call.saves[1]])
        released = releases[self.save[pairs]]
        last_release = int(releases[slice(*call.saves)].max())
        np.maximum.at(lives, np.asarray(call.inputs, np.int64), last_release)

        low, high = np.searchsorted(self.births, [call.first, call.last])
        middle = int(np.searchsorted(self.births, segment.stop))
        # What lives after the storage was made again: as long as Python holds it, at most to the end of the run,
        held = np.where(self._python < 0, segment.stop, np.minimum(self._python, segment.stop))[low:high]
        again = segment.start + held - call.first
        saved = self.saved[pairs]
        inside = (saved >= low) & (saved < high)
        np.maximum.at(again, saved[inside] - low, np.maximum(released[inside], segment.finish))  # or autograd does.
        np.maximum.at(lives, saved[~inside], released[~inside])  # made outside: the same storage

        is_cached = np.zeros(high - low, bool)
        milliseconds = 0.0
        for i in range(*call.operators):
            step = trace.operators[i]
            if i - call.operators[0] in segment.cached:
                mine = slice(*np.searchsorted(self.births[low:high], [step, step + 1]))
                is_cached[mine] = True
                if step >= segment.stop:  # never taken from the cache
                    again[mine] = last_release
            elif step < segment.stop:
                milliseconds += trace.milliseconds[i]
        cached = low + np.flatnonzero(is_cached)
        lives[cached] = np.maximum(lives[cached], again[is_cached])
        made = np.flatnonzero(~is_cached[: middle - low])
        np.add.at(delta, segment.start + self.births[low + made] - call.first, self.bytes[low + made])
        np.add.at(delta, np.maximum(again[made], segment.start), -self.bytes[low + made])
        delta[segment.start] += call.written_buffers
        delta[segment.finish] -= call.written_buffers
        return milliseconds

    def _overhead(self, segment: _Segment) -> float:
        """Milliseconds of checkpointing itself."""
        call, costs = segment.call, self.trace.costs
        ms = costs.unit + (call.saves[1] - call.saves[0]) * costs.save
        if segment.cached:
            first, last = call.operators
            again = sum(self.trace.operators[i] < segment.stop for i in range(first, last))
            ms += costs.selective + (last - first + again) * costs.operator + len(segment.cached) * costs.kept
            steps = [self.trace.operators[first + i] for i in segment.cached]
            ms += float(self.bytes[np.isin(self.births, steps)].sum()) * costs.kept_byte
        return ms
