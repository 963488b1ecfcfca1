"""What `profile` finds out: the step's trace, and the module statistics that the planner takes; needs no torch."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from plimsoll._files import read_as, write_object
from plimsoll.checkpointing._simulate import Replay
from plimsoll.checkpointing._trace import Call, Trace

if TYPE_CHECKING:
    from plimsoll.checkpointing._recorder import Recorder

SCHEMA = "plimsoll.training_step/1"


@dataclass
class Stats:
    """One training step.

    Attributes:
        module_stats: For `plimsoll.checkpoint` (plimsoll.module_stats/1).
        trace: Every birth and death of the step.
        tables: Names of the operators of modules, each list once.
        table_of: The table of each module that may be a unit, by name.
    """

    module_stats: dict[str, Any]
    trace: Trace
    tables: list[list[str]]
    table_of: dict[str, int]
    never_kept: list[list[int]] = field(default_factory=list)  # of each table: what works in place, and its results

    @cached_property
    def replay(self) -> Replay:
        """Steps under plans."""
        return Replay(self.trace)

    @property
    def peak_bytes(self) -> int:
        """Of the step without checkpointing."""
        return self.replay.step({}).peak

    @property
    def step_ms(self) -> float:
        """Forward and backward by the operators' times."""
        return self.trace.forward_ms + self.trace.backward_ms

    def save(self, path: str | os.PathLike[str]) -> None:
        """As JSON; equal statistics give equal bytes."""
        document = {
            "schema": SCHEMA,
            "module_stats": self.module_stats,
            "trace": self.trace.to_document(),
            "tables": self.tables,
            "table_of": self.table_of,
            "never_kept": self.never_kept,
        }
        write_object(path, document)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Stats:
        """What `save` wrote."""
        return read_as(
            path,
            SCHEMA,
            "Stats.save",
            lambda document: cls(**{**document, "trace": Trace.from_document(document["trace"])}),
        )

    def __repr__(self) -> str:
        gib = self.peak_bytes / 2**30
        return f"<Stats of {self.module_stats['name']}: peak {gib:.4g} GiB, {len(self.table_of)} modules may be units>"


def make_stats(model: Any, recorder: Recorder, trace: Trace) -> Stats:
    """Module statistics from a recorded step."""
    return _Maker(model, recorder, trace).make()


def sharded_modules(model: Any) -> dict[str, Any]:
    """The modules that FSDP2's `fully_shard` was called on, by name."""
    return {
        name: module
        for name, module in model.named_modules()
        if any(kind.__name__ == "FSDPModule" for kind in type(module).__mro__)
    }


class _Maker:
    def __init__(self, model: Any, recorder: Recorder, trace: Trace) -> None:
        self.root = type(model).__name__
        self.trace, self.operators, self.known = trace, recorder.operators, recorder.num_known
        self.written, self.not_again = recorder.written, recorder.not_again
        self.modules = dict(model.named_modules())
        self.order = recorder.order
        self.sharded = sharded_modules(model)
        self.live = Replay(trace).step({}).live
        self.calls: dict[str, list[Call]] = {}
        for call in trace.calls:
            self.calls.setdefault(call.fqn, []).append(call)
        rows = np.asarray(trace.storages, np.int64).reshape(-1, 4)
        self.bytes, self.births, self.python, _ = rows.T
        self.freed = set(trace.freed)
        self.savers: dict[int, list[int]] = {}  # the saves of each storage
        for i, save in enumerate(trace.saves):
            for number in save[0]:
                self.savers.setdefault(number, []).append(i)
        self.inputs_of: dict[int, list[Call]] = {}
        for call in trace.calls:
            for number in call.inputs:
                self.inputs_of.setdefault(number, []).append(call)

    def make(self) -> Stats:
        documents: list[dict[str, Any]] = []  # the operator tables
        index: dict[str, int] = {}
        names: list[list[str]] = []
        kept: list[list[int]] = []
        table_of: dict[str, int] = {}
        sac_stats_of: dict[str, int] = {}
        mod_stats = []
        calls = {fqn: calls for fqn, calls in self.calls.items() if self._stands_in_its_parent(fqn)}
        for fqn in calls:
            row = self._row(fqn)
            mod_stats.append(row)
            if row["is_leaf"]:
                continue
            table, never = self._table(self.calls[fqn])
            key = json.dumps([table, never])
            if key not in index:
                index[key] = len(documents)
                documents.append(table)
                names.append([op["name"] for op in self._operators(self.calls[fqn][0])])
                kept.append(never)
            table_of[fqn] = index[key]
            sac_stats_of[self._native(fqn)] = index[key]
        last = {call.fqn: call for call in self.trace.calls}  # of a module that is called more than once
        pre = sorted(calls, key=lambda fqn: (last[fqn].first, self._depth(fqn)))
        at = {fqn: i for i, fqn in enumerate(self.order)}
        post = sorted(calls, key=lambda fqn: at[fqn])
        peak_at = int(self.live.argmax())
        module_stats = {
            "schema": "plimsoll.module_stats/1",
            "name": self.root,
            "mod_order": {
                "fw_pre_order": [self._native(fqn) for fqn in pre],
                "fw_post_order": [self._native(fqn) for fqn in post],
            },
            "mod_stats": mod_stats,
            "sac_stats": documents,
            "sac_stats_of": sac_stats_of,
            "total_step_peak": int(self.live[peak_at]),
            "total_before_root_bw": int(self.live[: self.trace.num_forward].max()),
        }
        return Stats(module_stats, self.trace, names, table_of, kept)

    def _native(self, fqn: str) -> str:
        return f"{self.root}.{fqn}" if fqn else self.root

    def _depth(self, fqn: str) -> int:
        return fqn.count(".") + (fqn != "")

    def _stands_in_its_parent(self, fqn: str) -> bool:
        """Are all its calls within calls of the modules that hold it, as the planner's tree has it?"""
        above = fqn
        while above:
            above = above.rpartition(".")[0]
            if above in self.calls:
                return all(
                    any(outer.first <= call.first and call.last <= outer.last for outer in self.calls[above])
                    for call in self.calls[fqn]
                ) and self._stands_in_its_parent(above)
        return True

    def _row(self, fqn: str) -> dict[str, Any]:
        calls = self.calls[fqn]
        module = self.modules[fqn]
        saves = [save for call in calls for save in self.trace.saves[slice(*call.saves)]]
        unpacks = [save[2] for save in saves if save[2] >= 0]
        operators = [op for call in calls for op in self._operators(call)]
        milliseconds = sum(op["ms"] for op in operators)
        discarded = sum(self._discarded(call) for call in calls)
        last = calls[-1]
        parameters = sum(p.numel() * p.element_size() for p in module.parameters())
        holds_sharded = any(name.startswith(f"{fqn}.") for name in self.sharded)  # gathered by hooks of its own
        can_run_again = fqn not in self.not_again and not holds_sharded
        may_be_unit = bool(unpacks) and fqn != "" and discarded > 0 and can_run_again
        row: dict[str, Any] = {
            "fqn": self._native(fqn),
            "is_leaf": not may_be_unit,
            "param_per_module": parameters,
            "grad_total": 0,
            "act_fw_per_module": max(0, discarded),
            "act_total": max(discarded, int(self.live[last.last - 1]) - self.trace.base_bytes if last.last else 0),
            "act_grad_per_module": 0,
            "input_per_module": sum(int(self.bytes[n]) for n in last.inputs),
            "output_per_module": 0,
            "fw_runtime_per_module": milliseconds,
            "bw_runtime_per_module": 2 * milliseconds,
            "sac_runtime": milliseconds,
            "sac_memory": max(discarded, sum(op["bytes"] for op in operators)),
            "total_peak_fw": int(self.live[last.first : max(last.last, last.first + 1)].max()),
            "total_post_fw": int(self.live[max(0, last.last - 1)]),
            "requires_grad": bool(unpacks),
        }
        if unpacks:
            # Of several calls the first: whether they are checkpointed or not, this is needed in its backward.
            first = [s for s in self.trace.saves[slice(*calls[0].saves)] if s[2] >= 0] or saves
            begin = min(save[2] for save in first if save[2] >= 0)
            end = max(save[3] if save[3] >= 0 else self.trace.num_backward for save in first)
            row["total_pre_bw"] = int(self.live[begin - 1])
            row["total_peak_bw"] = int(self.live[begin - 1 : max(end, begin)].max())
        return row

    def _discarded(self, call: Call) -> int:
        """Bytes that the call keeps for nobody but its own backward, less what it would keep as a unit's inputs."""
        gained = 0
        low, high = np.searchsorted(self.births, [call.first, call.last])
        for number in range(low, high):
            savers = self.savers.get(number, ())
            if not savers or self.python[number] < 0 or number in self.freed:
                continue
            is_own = all(call.saves[0] <= i < call.saves[1] for i in savers)
            if is_own and not any(user.first >= call.last for user in self.inputs_of.get(number, ())):
                gained += int(self.bytes[number])
        for number in call.inputs:
            if number not in self.savers and self.python[number] >= 0:
                gained -= int(self.bytes[number])
        return gained

    def _operators(self, call: Call) -> list[dict[str, Any]]:
        return self.operators[slice(*call.operators)]

    def _table(self, calls: list[Call]) -> tuple[dict[str, Any], list[int]]:
        """The operators of a module; if it is called several times, each stands for all of them."""
        call, count = calls[0], len(calls)
        first = call.operators[0]
        operators = self._operators(call)
        saved = {n for i in range(*call.saves) for n in self.trace.saves[i][0]}
        in_place: list[list[int]] = []
        for i, operator in enumerate(operators):
            if operator["is_in_place"]:
                changes = operator["changes"] - first
                in_place.append([i, changes if changes >= 0 else i])
        table = {
            "func_names": [operator["name"] for operator in operators],
            "runtimes": [count * operator["ms"] for operator in operators],
            "memory": [count * operator["bytes"] for operator in operators],
            "view_like_ops": [i for i, operator in enumerate(operators) if operator["is_view"]],
            "rand_ops": [i for i, operator in enumerate(operators) if operator["is_random"]],
            "saved_autograd_ops": [
                i for i, operator in enumerate(operators) if any(n - self.known in saved for n in operator["made"])
            ],
            "inplace_ops": in_place,
            "force_store_random": False,
        }
        changed = {parent for _, parent in in_place} | {i for i, _ in in_place}
        for call in calls:  # by whatever follows the module, too
            for i, operator in enumerate(self._operators(call)):
                if any(self.written.get(number, -1) > operator["step"] for number in operator["made"]):
                    changed.add(i)
        return table, sorted(changed)
