"""Every checkpointing plan of a small tree of modules, by docs/checkpoint.md and docs/formats.md alone.

A *way* to treat a run of positions is (bytes gone behind it, room it needs, ms); what units before it have discarded is
taken off the room. Of ways of the same positions those that another one beats in all three are left out.
"""

import itertools

from campaign import is_near, require


def undominated(ways):
    kept = []
    for gone, room, ms in sorted(set(ways), key=lambda way: (-way[0], way[1], way[2])):
        if not any(room >= r and ms >= m for _, r, m in kept):
            kept.append((gone, room, ms))
    return kept


class Case:
    def __init__(self, document, flags, in_flight=1):
        self.document, self.flags, self.in_flight = document, flags, in_flight
        self.modules = {m["fqn"]: m for m in document["mod_stats"]}
        self.root = document["mod_stats"][0]  # the last to return
        self.post = document["mod_order"]["fw_post_order"]
        self.position = {fqn: i for i, fqn in enumerate(self.post)}
        self.world = flags["world_size"]
        self.held = self.share(flags["optimizer_bytes"]) + self.fsdp_buffers()
        self.base = [self.base_of(self.modules[fqn]) for fqn in self.post]
        self.end = self.base_at_loss()

    # What memory counts.

    def share(self, size):
        return -(-size // self.world)

    def has(self, repair):
        return repair in self.flags["repairs"]

    def fsdp_buffers(self):
        walls = self.flags["fsdp_units"]
        if not self.flags["fsdp_buffers"] or not walls:
            return 0

        def own(wall):
            inside = [w for w in walls if w.startswith(wall + ".")]
            outermost = [w for w in inside if not any(w.startswith(v + ".") for v in inside)]
            return self.modules[wall]["param_per_module"] - sum(self.modules[w]["param_per_module"] for w in outermost)

        return 4 * max(0, *(own(wall) for wall in walls))

    def sharded(self, total, module):
        """A total with the parts of parameters and gradients that other ranks hold taken off."""
        state = self.root["param_per_module"] + module["grad_total"]
        return total - state + self.share(state) + self.held

    def has_backward(self, module):
        return module.get("requires_grad", True)

    def base_of(self, m):
        state = self.root["param_per_module"] + m["grad_total"]
        if self.flags["peak"] == "torch":
            base = m["act_total"] + m["act_grad_per_module"] + self.share(state) + self.held
        else:
            base = self.sharded(m["total_peak_bw"], m) if m is not self.root and self.has_backward(m) else 0
        if self.forward_binds():
            parameters = self.root["param_per_module"]
            base = max(base, m["total_peak_fw"] - parameters + self.share(parameters) + self.held)
        return base

    def forward_binds(self):
        step = self.document["total_step_peak"]
        by_itself = self.flags["peak"] == "step" and any(m["total_peak_fw"] >= step for m in self.modules.values())
        return self.has("forward_peak") or by_itself

    def base_at_loss(self):
        if self.flags["peak"] == "torch":
            return None
        total = self.document["total_step_peak"]
        for m in self.modules.values():
            backward = m["total_peak_bw"] if m is not self.root and self.has_backward(m) else 0
            if max(backward, m["total_peak_fw"]) >= self.document["total_step_peak"]:
                total = self.document["total_before_root_bw"]
        return self.sharded(total, self.root)

    # What units there are.

    def covered(self, fqns):
        inside = [i for i, name in enumerate(self.post) for f in fqns if name == f or name.startswith(f + ".")]
        return min(inside), max(inside)

    def may_be_unit(self, fqn):
        allowed, walls = self.flags["ac_units"], self.flags["fsdp_units"]
        inside = any(wall.startswith(fqn + ".") for wall in walls)
        is_repeated = fqn in self.document.get("notes", {}).get("repeated", [])
        is_able = self.has_backward(self.modules[fqn]) and not is_repeated
        return is_able and (not allowed or fqn in allowed) and not inside

    def runs(self):
        """Two or more children of one module, one after the other."""
        for parent in self.post:
            children = [f for f in self.post if f.rpartition(".")[0] == parent]
            for a, b in itertools.combinations(range(len(children)), 2):
                run = children[a : b + 1]
                ok = all(self.may_be_unit(f) and f not in self.flags["fsdp_units"] for f in run)
                if ok and len(run) <= self.flags["segments"]:
                    yield run

    def room(self, fqns, saved=0, copies=0, inside=None):
        """Of a unit, of a run at its last module; `inside`: the room of its positions where nested units change it."""
        first, last = self.covered(fqns)
        m = self.modules[fqns[-1]]
        before = self.sharded(m["total_pre_bw"], m)  # all of it is there again
        room = max(self.base[first : last + 1]) if inside is None else inside
        if self.has("unit_own_backward"):
            room = max(room, before)
        if self.has("saved_copies"):
            room += copies
        if self.has("recompute_working_set"):
            peak = max(self.modules[f]["total_peak_fw"] for f in fqns)
            room = max(room, before + peak - m["total_post_fw"] + m["output_per_module"] + saved)
        return room

    # What discarding costs.

    def table(self, fqn):
        return self.document["sac_stats"][self.document["sac_stats_of"][fqn]]

    def fitted_ms(self, fqn, discarded):
        m = self.modules[fqn]
        share = (discarded + m["sac_memory"] - m["act_fw_per_module"]) / m["sac_memory"]
        lines = [s * share + i for s, i in zip(m["slopes"], m["intercepts"], strict=True)]
        return m["sac_runtime"] * max(0, *lines)

    def output_operator(self, t):
        in_place = {i for i, _ in t["inplace_ops"]}
        return max(i for i in range(len(t["memory"])) if i not in t["view_like_ops"] and i not in in_place)

    def groups(self, t):
        """Operators that are treated alike; those that may not, and those that must be saved."""
        output = self.output_operator(t)
        changed = {i for pair in t["inplace_ops"] if pair[0] != pair[1] for i in pair}
        never = {*t["view_like_ops"], output, *changed}
        must = {i for i, parent in t["inplace_ops"] if i == parent}
        joined = [set(pair) for pair in t["inplace_ops"]] + [{i} for i in range(len(t["memory"]))]
        if t["force_store_random"] and not any(i in never and i != output for i in t["rand_ops"]):
            must |= set(t["rand_ops"])
        elif t["rand_ops"]:
            joined.append(set(t["rand_ops"]))
        groups = []
        for part in joined:
            touching = [g for g in groups if g & part]
            groups = [g for g in groups if not g & part] + [part.union(*touching)]
        return groups, never, must

    def operator_figures(self, fqn, save):
        """Discarded bytes, ms, saved bytes, copies; None where a rule is broken."""
        groups, never, must = self.groups(self.table(fqn))
        kept = {i for i, is_saved in enumerate(save) if is_saved}
        for group in groups:
            must_save, may_save = bool(group & must), not group & never
            if kept & group and not (may_save and group <= kept):
                return None
            if must_save and may_save and not group <= kept:
                return None
        return self.figures_of_saved(fqn, kept)

    def figures_of_saved(self, fqn, kept):
        t = self.table(fqn)
        saved = sum(t["memory"][i] for i in kept)
        copies = sum(t["memory"][i] for i in kept if i not in t["saved_autograd_ops"])
        stop = len(t["memory"])
        if self.has("early_stop") and t["saved_autograd_ops"]:
            stop = max(t["saved_autograd_ops"]) + 1
        output = self.output_operator(t)
        ms = sum(t["runtimes"][i] for i in range(stop) if i not in kept and i != output)
        return self.modules[fqn]["act_fw_per_module"] - saved, ms, saved, copies

    def operator_choices(self, fqn):
        t = self.table(fqn)
        groups, never, must = self.groups(t)
        always = {i for g in groups if g & must and not g & never for i in g}
        free = [g for g in groups if not g & (must | never)]
        for chosen in itertools.product([False, True], repeat=len(free)):
            kept = always.union(*(g for g, is_saved in zip(free, chosen, strict=True) if is_saved))
            yield self.figures_of_saved(fqn, kept)

    def most_discarded(self, fqn):
        """Of fitted costs."""
        inside = self.modules[fqn]["act_fw_per_module"]
        if self.has("keep_stored_operators") and "sac_stats" in self.document:
            return inside - min(f[2] for f in self.operator_choices(fqn))
        return inside

    def choices(self, fqn):
        """(discarded bytes, room, ms) of the module as a unit."""
        m, overhead = self.modules[fqn], self.flags["unit_overhead_ms"]
        if self.flags["costs"] == "fit":
            if m["is_leaf"]:
                return []
            room = self.room([fqn])
            found = [(d, room, self.fitted_ms(fqn, d) + overhead) for d in range(self.most_discarded(fqn) + 1)]
        else:
            found = [
                (d, self.room([fqn], saved, copies), ms + overhead)
                for d, ms, saved, copies in self.operator_choices(fqn)
            ]
        return undominated(way for way in found if way[0] > 0)

    def run_figures(self, run):
        """What a run discards, and its ms."""
        a, b = self.modules[run[0]], self.modules[run[-1]]
        gone = b["act_total"] - b["output_per_module"]
        gone -= a["act_total"] - a["act_fw_per_module"] - a["output_per_module"]
        members = [self.modules[f] for f in run]
        ms = sum(
            m["fw_runtime_per_module"] if m["is_leaf"] and m["sac_runtime"] == 0 else m["sac_runtime"] for m in members
        )
        return gone, ms + self.flags["unit_overhead_ms"]

    def units(self):
        """(modules, ways, bytes that all of it is) of every unit there may be."""
        for fqn in self.post:
            if self.may_be_unit(fqn):
                yield [fqn], self.choices(fqn), self.modules[fqn]["act_fw_per_module"]
        for run in self.runs():
            gone, ms = self.run_figures(run)
            if gone > 0:
                yield run, [(gone, self.room(run), ms)], gone

    # Plans.

    def plans(self):
        """(gone, room, ms) of all positions, those that others beat left out."""
        self.candidates = [(*self.covered(fqns), fqns, ways, whole) for fqns, ways, whole in self.units() if ways]
        if self.flags["nested"]:
            # Inner units first: what nests in one is known when its outer one comes.
            self.candidates.sort(key=lambda unit: (unit[1] - unit[0], unit[1]))
            for unit in self.candidates:
                self.nest(unit)
        return self.of_range(0, len(self.post), None)

    def nest(self, unit):
        first, last, fqns, ways, whole = unit
        full = min((ms for gone, _, ms in ways if gone == whole), default=None)
        if full is None:
            return
        for _, room, ms in self.of_range(first, last + 1, unit):
            ways.append((whole, self.room(fqns, inside=room), full + ms))
        ways[:] = undominated(ways)

    def of_range(self, begin, end, outer):
        after = {end: [(0, -(10**9), 0.0)]}
        for position in range(end - 1, begin - 1, -1):
            found = [self.joined((0, self.base[position], 0.0), way) for way in after[position + 1]]
            for unit in self.candidates:
                if unit[0] != position or unit[1] >= end or unit is outer:
                    continue
                found += [self.joined(way, rest) for way in unit[3] for rest in after[unit[1] + 1]]
            after[position] = undominated(found)
        return after[begin]

    def joined(self, first, second):
        return first[0] + second[0], max(first[1], second[1] - first[0]), first[2] + second[2]

    def peak(self, gone, room):
        if self.end is not None:
            room = max(room, self.end - gone)
        return room + (self.in_flight - 1) * (self.root["act_total"] - gone)

    def peaks(self):
        """(peak, ms) of plans."""
        return [(self.peak(gone, room), ms) for gone, room, ms in self.plans()]

    # The answer's plan.

    def judge_plan(self, answer):
        """Peak and ms."""
        gone, room, ms = self.judge_units(answer["units"], 0, len(self.post))
        return self.peak(gone, room), ms

    def judge_units(self, units, begin, end):
        whole, position = (0, -(10**9), 0.0), begin
        for unit in units:
            fqns = unit.get("fqns") or [unit["fqn"]]
            first, last = self.covered(fqns)
            require(position <= first and last < end, "units are not in order, or not inside:", fqns)
            for untouched in range(position, first):
                whole = self.joined(whole, (0, self.base[untouched], 0.0))
            whole = self.joined(whole, self.judge_unit(unit, fqns, first, last))
            position = last + 1
        for untouched in range(position, end):
            whole = self.joined(whole, (0, self.base[untouched], 0.0))
        return whole

    def judge_unit(self, unit, fqns, first, last):
        gone, ms, saved, copies = self.figures_of(unit, fqns)
        require(gone == unit["discarded_bytes"], fqns, "discards", gone, "not", unit["discarded_bytes"])
        require(is_near(ms, unit["recompute_ms"]), fqns, "takes", ms, "not", unit["recompute_ms"])
        if not unit.get("nested"):
            return gone, self.room(fqns, saved, copies), ms
        whole = self.run_figures(fqns)[0] if len(fqns) > 1 else self.modules[fqns[0]]["act_fw_per_module"]
        require(self.flags["nested"] and gone == whole, fqns, "holds units, and keeps something")
        _, inside, more = self.judge_units(unit["nested"], first, last + 1)
        return gone, self.room(fqns, saved, copies, inside=inside), ms + more

    def figures_of(self, unit, fqns):
        """Discarded bytes, ms, saved bytes, copies."""
        if len(fqns) > 1:
            require(fqns in list(self.runs()), fqns, "is no run")
            return *self.run_figures(fqns), 0, 0
        fqn, overhead = fqns[0], self.flags["unit_overhead_ms"]
        require(self.may_be_unit(fqn), fqn, "may not be a unit")
        if self.flags["costs"] == "fit":
            gone = unit["discarded_bytes"]
            require(0 <= gone <= self.most_discarded(fqn), fqn, "discards", gone)
            return gone, self.fitted_ms(fqn, gone) + overhead, 0, 0
        save = [op["save"] for op in sorted(unit["ops"], key=lambda op: op["i"])]
        figures = self.operator_figures(fqn, save)
        require(figures is not None, "a rule of operators is broken:", unit)
        return figures[0], figures[1] + overhead, *figures[2:]
