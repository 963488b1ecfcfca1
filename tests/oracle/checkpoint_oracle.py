"""Activation checkpointing of small trees of modules: both costs, both peaks; budget, overhead, frontier.

Rules: docs/checkpoint.md, docs/formats.md (module statistics, checkpointing plan) and the headers checkpoint_problem.h
and operator_choices.h. Bytes are few, so that every discard of every unit can be tried.
"""

import itertools

from campaign import is_near, judge_answer, main, require

MANY_PLANS = 20000  # instances with more are left out


class Maker:
    def __init__(self, random, costs):
        self.random, self.costs = random, costs
        self.modules, self.tables, self.pre, self.post = [], {}, [], []

    def operators(self):
        """Own operators: (memory, ms, is a view, is random, is kept by autograd)."""
        random = self.random
        made = []
        for _ in range(random.randint(1, 2)):
            is_view = random.randrange(6) == 0
            memory = 0 if is_view else random.randint(0, 5)
            is_random = not is_view and random.randrange(6) == 0
            ms = 0 if is_view else random.randint(0, 16) / 8
            made.append((memory, ms, is_view, is_random, not is_view and random.randrange(4) != 0))
        return made

    def module(self, fqn, depth):
        random = self.random
        index = len(self.modules)
        self.modules.append(None)
        self.pre.append(fqn)
        children = random.randint(1, 3) if depth == 0 else random.choice([0, 0, 2]) if depth == 1 else 0
        operators = []
        for c in range(children):
            operators += self.module(f"{fqn}.c{c}", depth + 1)
        operators += self.operators() if children == 0 or random.randrange(2) else []
        if all(op[2] for op in operators) or operators[-1][2] or operators[-1][3]:
            operators = [*operators, (random.randint(1, 3), random.randint(1, 8) / 8, False, False, True)]
        self.modules[index] = self.statistics(fqn, operators)
        self.post.append(fqn)
        return operators

    def statistics(self, fqn, operators):
        random = self.random
        last = max(i for i, op in enumerate(operators) if not op[2])
        memory = [0 if i == last else op[0] for i, op in enumerate(operators)]
        inside = sum(m for m, op in zip(memory, operators, strict=True) if op[4])
        ms = sum(op[1] for op in operators)
        made = {
            "fqn": fqn,
            "is_leaf": False,
            "param_per_module": random.randint(0, 20),
            "grad_total": random.randint(0, 20),
            "act_fw_per_module": inside,
            "act_total": inside + random.randint(0, 30),
            "act_grad_per_module": random.randint(-2, 10),
            "fw_runtime_per_module": ms,
            "bw_runtime_per_module": 2 * ms,
            "sac_runtime": ms,
            "sac_memory": sum(memory),
            "total_peak_fw": 0,
            "total_post_fw": 0,
            "total_pre_bw": random.randint(0, 10),
            "total_peak_bw": random.randint(30, 80),
        }
        if self.costs == "operators":
            self.tables[fqn] = {
                "func_names": [f"op{i % 3}" for i in range(len(operators))],
                "runtimes": [op[1] for op in operators],
                "memory": memory,
                "view_like_ops": [i for i, op in enumerate(operators) if op[2]],
                "rand_ops": [i for i, op in enumerate(operators) if op[3]],
                "saved_autograd_ops": [i for i, op in enumerate(operators) if op[4]],
                "inplace_ops": [],
                "force_store_random": random.randrange(8) == 0,
            }
        else:
            # A power of two: bends are at whole bytes then, in floating point too. Others are rounded down to a byte.
            made["sac_memory"] = max(4, 1 << (inside - 1).bit_length()) if inside else 0
            if made["sac_memory"] == 0:
                made["is_leaf"] = True
            made |= self.fit()
        return made

    def fit(self):
        """A convex curve of one or two pieces."""
        random = self.random
        first = random.randint(0, 8) / 8
        if random.randrange(2):
            first, intercept = random.choice([(first, 0), (1, -0.25), (0.5, -0.25)])
            return {"n_segments": 1, "slopes": [first], "intercepts": [intercept], "breakpoints": [0, 1]}
        bend, second = random.choice([0.25, 0.5]), first + random.randint(1, 8) / 8
        return {
            "n_segments": 2,
            "slopes": [first, second],
            "intercepts": [0, (first - second) * bend],
            "breakpoints": [0, bend, 1],
        }

    def make(self):
        self.module("M", 0)
        document = {
            "schema": "plimsoll.module_stats/1",
            "mod_order": {"fw_pre_order": self.pre, "fw_post_order": self.post},
            "mod_stats": self.modules,
            "total_step_peak": max(m["total_peak_bw"] for m in self.modules) + self.random.randint(1, 20),
            "total_before_root_bw": 0,
        }
        if self.tables:
            names = list(self.tables)
            document["sac_stats"] = [self.tables[name] for name in names]
            document["sac_stats_of"] = {name: i for i, name in enumerate(names)}
        return document


class Case:
    def __init__(self, document, flags):
        self.document, self.flags = document, flags
        self.modules = {m["fqn"]: m for m in document["mod_stats"]}
        self.post = document["mod_order"]["fw_post_order"]
        self.position = {fqn: i for i, fqn in enumerate(self.post)}
        root = document["mod_stats"][0]  # the last to return
        held = -(-flags["optimizer_bytes"] // flags["world_size"])
        self.base = []
        for fqn in self.post:
            m = self.modules[fqn]
            state = root["param_per_module"] + m["grad_total"]
            sharded = -(-state // flags["world_size"])
            if flags["peak"] == "torch":
                self.base.append(m["act_total"] + m["act_grad_per_module"] + sharded + held)
            else:
                self.base.append(0 if m is root else m["total_peak_bw"] - state + sharded + held)
        self.end = None
        if flags["peak"] == "step":
            self.end = document["total_step_peak"] - state + sharded + held

    def covered(self, fqn):
        return [i for i, name in enumerate(self.post) if name == fqn or name.startswith(fqn + ".")]

    def may_be_unit(self, fqn):
        allowed, walls = self.flags["ac_units"], self.flags["fsdp_units"]
        inside = any(wall.startswith(fqn + ".") for wall in walls)
        return not self.modules[fqn]["is_leaf"] and (not allowed or fqn in allowed) and not inside

    def fitted_ms(self, fqn, discarded):
        m = self.modules[fqn]
        share = (discarded + m["sac_memory"] - m["act_fw_per_module"]) / m["sac_memory"]
        lines = [s * share + i for s, i in zip(m["slopes"], m["intercepts"], strict=True)]
        return m["sac_runtime"] * max(0, *lines)

    def table(self, fqn):
        return self.document["sac_stats"][self.document["sac_stats_of"][fqn]]

    def operator_figures(self, fqn, save):
        """Discarded bytes and ms of a choice; None where a rule is broken."""
        t = self.table(fqn)
        count = len(save)
        last = max(i for i in range(count) if i not in t["view_like_ops"])
        if save[last] or any(save[i] for i in t["view_like_ops"]):
            return None
        randoms = {save[i] for i in t["rand_ops"]}
        if len(randoms) > 1 or (t["force_store_random"] and randoms == {False}):
            return None
        kept = sum(m for m, s in zip(t["memory"], save, strict=True) if s)
        stop = count
        if "early_stop" in self.flags["repairs"]:
            stop = max(t["saved_autograd_ops"], default=-1) + 1
        ms = sum(t["runtimes"][i] for i in range(min(count, stop)) if not save[i] and i != last)
        return self.modules[fqn]["act_fw_per_module"] - kept, ms

    def choices(self, fqn):
        """(discarded bytes, ms) of the unit, those that others beat left out."""
        if self.flags["costs"] == "fit":
            found = [(d, self.fitted_ms(fqn, d)) for d in range(self.modules[fqn]["act_fw_per_module"] + 1)]
        else:
            saves = itertools.product([False, True], repeat=len(self.table(fqn)["memory"]))
            found = [f for f in (self.operator_figures(fqn, save) for save in saves) if f]
        best = {}
        for discarded, ms in found:
            if discarded >= 0:
                best[discarded] = min(ms, best.get(discarded, ms))
        return sorted(best.items())

    def peak(self, units):
        """`units`: (fqn, discarded) without overlap."""
        need = []
        for position, base in enumerate(self.base):
            gone = 0
            for fqn, discarded in units:
                covered = self.covered(fqn)
                # Units before the position, or before the unit that holds it.
                holder = next((u for u, _ in units if position in self.covered(u)), None)
                first = self.covered(holder)[0] if holder else position
                gone += discarded if covered[-1] < first else 0
            need.append(base - gone)
        if self.end is not None:
            need.append(self.end - sum(d for _, d in units))
        return max(need)

    def plans(self):
        """(peak, ms) of every plan; None where they are too many."""
        names = [fqn for fqn in self.post if self.may_be_unit(fqn)]
        choices = {fqn: self.choices(fqn) for fqn in names}
        sets = [
            chosen
            for size in range(len(names) + 1)
            for chosen in itertools.combinations(names, size)
            if not any(b.startswith(a + ".") or a.startswith(b + ".") for a, b in itertools.combinations(chosen, 2))
        ]
        total = 0
        for chosen in sets:
            number = 1
            for fqn in chosen:
                number *= len(choices[fqn])
            total += number
        if total > MANY_PLANS:
            return None
        found = []
        for chosen in sets:
            for picks in itertools.product(*(choices[fqn] for fqn in chosen)):
                units = [(fqn, pick[0]) for fqn, pick in zip(chosen, picks, strict=True)]
                ms = sum(pick[1] for pick in picks) + self.flags["unit_overhead_ms"] * len(chosen)
                found.append((self.peak(units), ms))
        return found

    def judge_plan(self, answer):
        """Peak and ms of the answer's plan."""
        units, total = [], 0.0
        for unit in answer["units"]:
            fqn, discarded = unit["fqn"], unit["discarded_bytes"]
            require(self.may_be_unit(fqn), fqn, "may not be a unit")
            if self.flags["costs"] == "fit":
                ms = self.fitted_ms(fqn, discarded)
                require(0 <= discarded <= self.modules[fqn]["act_fw_per_module"], fqn, "discards", discarded)
            else:
                save = [op["save"] for op in sorted(unit["ops"], key=lambda op: op["i"])]
                figures = self.operator_figures(fqn, save)
                require(figures is not None, "a rule of operators is broken:", unit)
                require(figures[0] == discarded, fqn, "discards", figures[0], "not", discarded)
                ms = figures[1]
            ms += self.flags["unit_overhead_ms"]
            require(is_near(ms, unit["recompute_ms"]), fqn, "takes", ms, "not", unit["recompute_ms"])
            units.append((fqn, discarded))
            total += ms
        names = [fqn for fqn, _ in units]
        require(names == sorted(names, key=self.position.get), "units are not in forward order")
        for a, b in itertools.combinations(names, 2):
            require(not b.startswith(a + ".") and not a.startswith(b + "."), "a unit inside a unit")
        return self.peak(units), total


def random_flags(random, document, costs):
    names = [m["fqn"] for m in document["mod_stats"]]
    flags = {
        "costs": costs,
        "peak": random.choice(["torch", "step"]),
        "world_size": random.choice([1, 1, 2, 4]),
        "optimizer_bytes": random.choice([0, 0, random.randint(1, 9)]),
        "unit_overhead_ms": random.choice([0, 0, 0.25]),
        "ac_units": random.sample(names, random.randint(1, len(names))) if random.randrange(4) == 0 else [],
        "fsdp_units": random.sample(names, 1) if random.randrange(5) == 0 else [],
        "repairs": ["early_stop"] if costs == "operators" and random.randrange(3) == 0 else [],
    }
    words = ["--costs", costs, "--peak", flags["peak"], "--world-size", str(flags["world_size"])]
    words += ["--optimizer-bytes", str(flags["optimizer_bytes"])]
    words += ["--unit-overhead-ms", str(flags["unit_overhead_ms"])]
    for flag, values in (("ac-unit", "ac_units"), ("fsdp-unit", "fsdp_units"), ("repair", "repairs")):
        for value in flags[values]:
            words += [f"--{flag}", value]
    return flags, words


def least_ms(plans, budget):
    return min((ms for peak, ms in plans if peak <= budget), default=None)


def judge_budget(program, random, case, words, plans):
    budget = random.randint(min(p for p, _ in plans) - 2, max(*case.base, case.end or 0) + 1)
    search = random.choice(["exact", "exact", "exact", "milp"])
    words = [*words, "--budget", f"{budget}B", "--search", search]
    code, answer = program.run("checkpoint", "stats.json", *words, "-o", "policy.json")
    ms = None
    if "units" in answer:
        peak, ms = case.judge_plan(answer)
        require(peak <= budget, "peak", peak, "above the budget", budget)
        require(answer["predicted"]["peak_bytes"] == peak, "peak", peak, "not", answer["predicted"])
        check_code, report = program.run("check", "stats.json", "policy.json")
        require(check_code == 0 and report["is_right"], "check:", report)
    judge_answer(code, answer, value_of_plan=ms, optimum=least_ms(plans, budget))
    return f"{search} {answer['status']}"


def judge_overhead(program, random, case, words, plans):
    """The least memory whose recomputation takes at most this."""
    allowed = random.randint(0, 24) / 8 + 1 / 64
    code, answer = program.run("checkpoint", "stats.json", *words, "--overhead", str(allowed), "-o", "policy.json")
    require(code == 0, "exit code", code, answer)
    peak, ms = case.judge_plan(answer)
    require(ms <= allowed * (1 + 1e-9), "takes", ms, "more than", allowed)
    best = min(p for p, t in plans if t <= allowed)
    require(peak == best, "peak", peak, "the least is", best)
    check_code, report = program.run("check", "stats.json", "policy.json")
    require(check_code == 0 and report["is_right"], "check:", report)
    return "overhead"


def judge_frontier(program, random, case, words, plans):
    code, answer = program.run("checkpoint", "stats.json", *words, "--frontier")
    require(code == 0, "exit code", code, answer)
    points = answer["frontier"]
    least = min(p for p, _ in plans)
    require(points[0]["bytes"] == least, "begins at", points[0], "the least budget is", least)
    for budget in range(least, max(p for p, _ in plans) + 3):
        point = [p for p in points if p["bytes"] <= budget][-1]
        ms = point["ms"] + point.get("ms_per_byte", 0) * (budget - point["bytes"])
        best = least_ms(plans, budget)
        require(is_near(ms, best, 1e-8), "at", budget, "bytes", ms, "not", best)
    return "frontier"


def oracle(program, random):
    costs = random.choice(["operators", "fit"])
    document = Maker(random, costs).make()
    flags, words = random_flags(random, document, costs)
    case = Case(document, flags)
    plans = case.plans()
    if plans is None:
        return ["too many plans"]
    program.write("stats.json", document)
    judge = random.choice([judge_budget, judge_budget, judge_overhead, judge_frontier])
    return [f"{costs} {judge(program, random, case, words, plans)}"]


if __name__ == "__main__":
    main(oracle, [f"{costs} {word}" for costs in ("fit", "operators") for word in ("exact optimal", "frontier")])
