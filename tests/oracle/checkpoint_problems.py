"""Random statistics of small trees of modules. Bytes are few, so that every discard of every unit can be tried."""


class Maker:
    def __init__(self, random, costs):
        self.random, self.costs = random, costs
        self.modules, self.tables, self.pre, self.post = [], {}, [], []
        self.has_tables = random.randrange(2) == 0  # beside fitted costs

    def operators(self):
        """Own operators: (memory, ms, is a view, is random, is kept by autograd, in place on what is so far before)."""
        random = self.random
        made = []
        for i in range(random.randint(1, 3)):
            is_view = random.randrange(6) == 0
            changes = random.randint(0, i) if random.randrange(6) == 0 else None  # 0: a tensor from outside
            memory = 0 if is_view or changes is not None else random.randint(0, 5)
            is_random = not is_view and random.randrange(5) == 0
            ms = 0 if is_view else random.randint(0, 16) / 8
            made.append((memory, ms, is_view, is_random, not is_view and random.randrange(4) != 0, changes))
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
        if all(op[2] or op[5] is not None for op in operators):
            ms, is_random = random.randint(1, 8) / 8, random.randrange(4) == 0
            operators = [*operators, (random.randint(1, 3), ms, False, is_random, True, None)]
        self.modules[index] = self.statistics(fqn, operators, depth)
        self.post.append(fqn)
        return operators

    def statistics(self, fqn, operators, depth):
        random = self.random
        last = max(i for i, op in enumerate(operators) if not op[2] and op[5] is None)
        memory = [0 if i == last else op[0] for i, op in enumerate(operators)]
        inside = sum(m for m, op in zip(memory, operators, strict=True) if op[4])
        ms = sum(op[1] for op in operators)
        made = {
            "fqn": fqn,
            "is_leaf": False,
            "param_per_module": random.randint(*((20, 28), (3, 7), (0, 2))[depth]),
            "grad_total": random.randint(0, 20),
            "act_fw_per_module": inside,
            "act_total": inside + random.randint(0, 30),
            "act_grad_per_module": random.randint(-2, 10),
            "fw_runtime_per_module": ms,
            "bw_runtime_per_module": 2 * ms,
            "sac_runtime": ms,
            "sac_memory": sum(memory),
            "input_per_module": random.randint(0, 5),
            "output_per_module": random.randint(0, 5),
            "total_peak_fw": random.randint(20, 60),
            "total_post_fw": random.randint(10, 20),
            "total_pre_bw": random.randint(30, 60),
            "total_peak_bw": random.randint(30, 80),
        }
        if random.randrange(15) == 0:
            made["requires_grad"] = False
        if self.costs == "operators" or self.has_tables:
            self.tables[fqn] = {
                "func_names": [f"op{i % 3}" for i in range(len(operators))],
                "runtimes": [op[1] for op in operators],
                "memory": memory,
                "view_like_ops": [i for i, op in enumerate(operators) if op[2]],
                "rand_ops": [i for i, op in enumerate(operators) if op[3]],
                "saved_autograd_ops": [i for i, op in enumerate(operators) if op[4]],
                "inplace_ops": [[i, i - op[5]] for i, op in enumerate(operators) if op[5] is not None],
                "force_store_random": random.randrange(4) == 0,
            }
        if self.costs == "fit":
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
            "total_step_peak": max(30, max(m["total_peak_bw"] for m in self.modules) + self.random.randint(-10, 20)),
            "total_before_root_bw": self.random.randint(20, 80),
        }
        if self.random.randrange(8) == 0:
            document["notes"] = {"repeated": [self.random.choice(self.post)]}
        if self.tables:
            names = list(self.tables)
            document["sac_stats"] = [self.tables[name] for name in names]
            document["sac_stats_of"] = {name: i for i, name in enumerate(names)}
        return document


REPAIRS = (
    "unit_own_backward",
    "saved_copies",
    "recompute_working_set",
    "forward_peak",
    "keep_stored_operators",
    "early_stop",
)


def random_flags(random, document, costs):
    """As a dictionary, and as words of the command line."""
    names = [m["fqn"] for m in document["mod_stats"]]
    flags = {
        "costs": costs,
        "peak": random.choice(["torch", "step"]),
        "world_size": random.choice([1, 1, 2, 4]),
        "optimizer_bytes": random.choice([0, 0, random.randint(1, 9)]),
        "unit_overhead_ms": random.choice([0, 0, 0.25]),
        "segments": random.choice([1, 1, 1, 2, 3]),
        "ac_units": random.sample(names, random.randint(1, len(names))) if random.randrange(4) == 0 else [],
        "fsdp_units": random.sample(names, random.randint(1, 2)) if random.randrange(4) == 0 and len(names) > 1 else [],
        "repairs": random.sample(REPAIRS, random.choice([0, 0, 1, 1, 2, 3])),
        "fsdp_buffers": random.randrange(4) == 0,
        "nested": random.randrange(5) == 0,
    }
    words = ["--costs", costs, "--peak", flags["peak"], "--world-size", str(flags["world_size"])]
    words += ["--optimizer-bytes", f"{flags['optimizer_bytes']}B", "--segments", str(flags["segments"])]
    words += ["--unit-overhead-ms", str(flags["unit_overhead_ms"])]
    for flag, values in (("ac-unit", "ac_units"), ("fsdp-unit", "fsdp_units"), ("repair", "repairs")):
        for value in flags[values]:
            words += [f"--{flag}", value]
    for flag in ("fsdp_buffers", "nested"):
        words += [f"--{flag.replace('_', '-')}"] if flags[flag] else []
    return flags, words
