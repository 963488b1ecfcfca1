"""Tables of dumps (plimsoll.torchrec_options/1) over few ranks: rating, step and time, caps, hosts, rules, hazards.

A dump says what every option of every table costs, so that everything about a plan follows from the documentation:
docs/embedding.md, docs/formats.md (options of TorchRec, step model, placement rules) and docs/check.md (hazards).
"""

import itertools
import math

from campaign import is_near, judge_answer, main, require

INFINITY = math.inf
COMPONENTS = ("fwd_compute", "fwd_comms", "bwd_compute", "bwd_comms", "prefetch_compute")
EFFORT = 20000  # small instances with a gap would use the default up
BY_ROWS = ("row_wise", "table_row_wise", "grid_shard")
ROWS_ALONE = ("row_wise", "table_row_wise")  # what counts as cut by rows beside a mean-pooled table


class Maker:
    """A dump, option by option."""

    def __init__(self, random, *, has_hazards, has_key_values):
        self.random = random
        self.num_hosts, self.per_host = random.choice([(1, 1), (1, 2), (1, 3), (2, 1), (2, 2)])
        self.world = self.num_hosts * self.per_host
        self.has_hazards, self.has_key_values = has_hazards, has_key_values
        self.classes, self.options = [], []

    def shard_class(self, rows, columns, kernel):
        random = self.random
        size = rows * columns * 4
        hbm, ddr = (0, size) if kernel in ("fused_uvm", "key_value") else (size, 0)
        ms = [random.randint(1, 40) / 16 for _ in COMPONENTS[:4]] + [random.choice([0, 0, 0.125])]
        self.classes.append([hbm + random.choice([0, 64]), ddr, 0, sum(ms), *ms])
        return len(self.classes) - 1

    def add(self, table, kind, kernel, blocks):
        """`blocks`: (rows, columns) in shard order; shards of one size cost the same."""
        by_size = {}
        for block in blocks:
            if block not in by_size:
                by_size[block] = self.shard_class(*block, kernel)
        self.options.append(
            {
                "fqn": table["fqn"],
                "sharding_type": kind,
                "compute_kernel": kernel,
                "shards": [by_size[block] for block in blocks],
                "sizes": [list(block) for block in blocks],
                "rows": table["rows"],
                "columns": table["columns"],
                "pooling": table["pooling"],
                "is_pooled": True,
            }
        )

    def blocks_of_rows(self, rows, count):
        step = -(-rows // count)
        return [max(0, min(step, rows - i * step)) for i in range(count)]

    def add_table(self, index):
        random = self.random
        rows = random.randint(1, 9) if self.has_hazards else 12 * random.randint(1, 3)
        table = {
            "fqn": f"m{random.randrange(2)}.t{index}",
            "rows": rows,
            "columns": random.choice([8, 16]),
            "pooling": "mean" if self.has_hazards and random.randrange(3) == 0 else "sum",
        }
        columns, kernels = table["columns"], ["fused", random.choice(["fused", "fused_uvm"])]
        ways = [("table_wise", 3), ("column_wise", 3), ("row_wise", 3), ("data_parallel", 2), ("table_row_wise", 2)]
        ways += [("table_column_wise", 1), ("grid_shard", 1)]
        count = len(self.options)
        while len(self.options) == count:
            for kind, weight in ways:
                if random.randrange(5) >= weight:
                    continue
                kernel = "dense" if kind == "data_parallel" else random.choice(kernels)
                if kind == "table_wise":
                    blocks = [(rows, columns)]
                elif kind in ("column_wise", "table_column_wise"):
                    pieces = random.choice([1, 2, 2, columns // 4 if columns == 8 else 2])
                    blocks = [(rows, columns // pieces)] * pieces
                    if self.has_key_values and kind == "column_wise" and random.randrange(2) == 0:
                        kernel = "key_value"
                elif kind == "row_wise":
                    blocks = [(r, columns) for r in self.blocks_of_rows(rows, self.world)]
                elif kind == "data_parallel":
                    blocks = [(rows, columns)] * self.world
                elif kind == "table_row_wise":
                    blocks = [(r, columns) for r in self.blocks_of_rows(rows, self.per_host)]
                else:
                    cut = self.blocks_of_rows(rows, self.per_host)
                    blocks = [(r, columns // 2) for _ in range(2) for r in cut]
                self.add(table, kind, kernel, blocks)

    def make(self):
        random = self.random
        for index in range(random.randint(1, 3 if self.world > 2 else 4)):
            self.add_table(index)
        largest = max(c[0] for c in self.classes)
        roomy = random.randrange(3) == 0
        room = []
        for _ in range(self.world):
            hbm = 10**6 if roomy else random.randint(largest // 2, 3 * largest)
            ddr = random.choice([10**6, random.randint(0, 2000)])
            room.append([hbm, ddr, 0])
        if random.randrange(2) == 0:
            room = [room[0]] * self.world
        return {
            "schema": "plimsoll.torchrec_options/1",
            "torchrec": "1.8.0",
            "world_size": self.world,
            "local_world_size": self.per_host,
            "room": room,
            "shard_classes": self.classes,
            "options": self.options,
        }


def random_rules(random, dump):
    tables = sorted({o["fqn"] for o in dump["options"]})
    rules = {}
    ranks = list(range(dump["world_size"]))
    for key in ("allowed_ranks", "forbidden_ranks"):
        if random.randrange(3) == 0:
            chosen = sorted(random.sample(ranks, random.randint(1, len(ranks))))
            rules[key] = {random.choice(tables): chosen}
    if len(tables) > 1 and random.randrange(3) == 0:
        rules["apart"] = [sorted(random.sample(tables, 2))]
    return rules


class Case:
    def __init__(self, dump, rules, step_model, pools_ddr):
        self.dump, self.rules, self.pools_ddr = dump, rules, pools_ddr
        self.model = {"kernel_weight": 1, "collective_weight": 1, "ms_per_sharding_type": 0.5, "ms_per_table": 0}
        self.model |= {"floor_ms": 0} | (step_model or {})
        self.world, self.per_host = dump["world_size"], dump["local_world_size"]
        self.num_hosts = self.world // self.per_host
        self.tables = list(dict.fromkeys(o["fqn"] for o in dump["options"]))

    def host(self, index):
        return list(range(index * self.per_host, (index + 1) * self.per_host))

    def placements(self, option):
        """The ranks of its shards, in shard order; those of equal shards in one order only."""
        kind, count = option["sharding_type"], len(option["shards"])
        ranks = range(self.world)
        if kind == "table_wise":
            yield from ((r,) for r in ranks)
        elif kind == "column_wise":
            yield from itertools.combinations_with_replacement(ranks, count)
        elif kind == "table_column_wise":
            for h in range(self.num_hosts):
                yield from itertools.combinations_with_replacement(self.host(h), count)
        elif kind in ("row_wise", "data_parallel"):
            yield tuple(ranks)
        elif kind == "table_row_wise":
            yield from (tuple(self.host(h)) for h in range(self.num_hosts))
        else:
            for hosts in itertools.combinations_with_replacement(range(self.num_hosts), count // self.per_host):
                yield tuple(r for h in hosts for r in self.host(h))

    def is_allowed(self, option, ranks):
        fqn = option["fqn"]
        allowed = self.rules.get("allowed_ranks", {}).get(fqn)
        forbidden = self.rules.get("forbidden_ranks", {}).get(fqn, [])
        if any(r in forbidden or (allowed is not None and r not in allowed) for r in ranks):
            return False
        # TorchRec demands distinct ranks of key_value column cuts from release 1.5 on.
        if option["compute_kernel"] == "key_value" and option["sharding_type"] == "column_wise":
            return len(set(ranks)) == len(ranks)
        return True

    def own_hazards(self, option):
        kind, rows = option["sharding_type"], [size[0] for size in option["sizes"]]
        hazards = 0
        if kind == "grid_shard" and option["pooling"] == "mean":
            hazards += 1
        if kind in BY_ROWS:
            count = self.world if kind == "row_wise" else self.per_host
            step = -(-option["rows"] // count)
            wanted = [max(0, min(step, option["rows"] - i * step)) for i in range(count)]
            hazards += any(r != w for r, w in zip(rows, itertools.cycle(wanted), strict=False))
            hazards += any(r == 0 for r in rows)
        return hazards

    def mixed_hazards(self, options):
        hazards = 0
        for option in options:
            if option["pooling"] != "mean" or option["sharding_type"] not in ROWS_ALONE:
                continue
            module = option["fqn"].rsplit(".", 1)[0]
            hazards += any(
                o["fqn"].rsplit(".", 1)[0] == module and o["sharding_type"] not in ROWS_ALONE for o in options
            )
        return hazards

    def breaks_apart(self, options, places):
        for names in self.rules.get("apart", []):
            seen = [set(p) for o, p in zip(options, places, strict=True) if o["fqn"] in names]
            if any(a & b for a, b in itertools.combinations(seen, 2)):
                return True
        return False

    def loads(self, option, ranks):
        """Bytes by rank and tier; ms by rank and component; total; shards."""
        sums = [[0] * 10 for _ in range(self.world)]
        for shard, rank in zip(option["shards"], ranks, strict=True):
            c = self.dump["shard_classes"][shard]
            for i, value in enumerate(c):
                sums[rank][i] += value
            sums[rank][9] += 1
        return sums

    def fits(self, sums):
        room = self.dump["room"]
        for tier in range(3):
            groups = [[r] for r in range(self.world)]
            if tier == 1 and self.pools_ddr:
                groups = [self.host(h) for h in range(self.num_hosts)]
            if any(sum(sums[r][tier] for r in g) > sum(room[r][tier] for r in g) for g in groups):
                return False
        return True

    def times(self, options, sums):
        def slowest(*columns):
            return max(sum(rank[4 + c] for c in columns) for rank in sums)

        model = self.model
        present = {(o["fqn"].rsplit(".", 1)[0], o["sharding_type"]) for o in options}
        return {
            "rating": max(rank[3] for rank in sums),
            "step": sum(slowest(c) for c in range(5)),
            "time": model["kernel_weight"] * slowest(0, 2, 4)
            + model["collective_weight"] * slowest(1, 3)
            + model["ms_per_sharding_type"] * len(present)
            + model["ms_per_table"] * max(rank[9] for rank in sums)
            + model["floor_ms"],
        }

    def plans(self):
        """(hazards, times) of every plan that rules and room allow."""
        choices = []
        for fqn in self.tables:
            choices.append(
                [
                    (option, ranks, self.loads(option, ranks), self.own_hazards(option))
                    for option in self.dump["options"]
                    if option["fqn"] == fqn
                    for ranks in self.placements(option)
                    if self.is_allowed(option, ranks)
                ]
            )
        for chosen in itertools.product(*choices):
            sums = [[sum(v) for v in zip(*(c[2][r] for c in chosen), strict=True)] for r in range(self.world)]
            if not self.fits(sums):
                continue
            options = [c[0] for c in chosen]
            if self.breaks_apart(options, [c[1] for c in chosen]):
                continue
            yield sum(c[3] for c in chosen) + self.mixed_hazards(options), self.times(options, sums)

    def judge_plan(self, answer):
        """Hazards and times of the answer's plan."""
        chosen = []
        for entry in answer["options"]:
            option = self.dump["options"][entry["option"]]
            require(option["fqn"] == entry["fqn"], "the option is another table's:", entry)
            ranks = entry["ranks"]
            legal = {tuple(sorted(p)) for p in self.placements(option) if self.is_allowed(option, p)}
            require(tuple(sorted(ranks)) in legal, option["sharding_type"], "on ranks", ranks)
            if option["sharding_type"] in ("row_wise", "data_parallel", "table_row_wise"):
                require(ranks == sorted(ranks), "permuted ranks", ranks)
            chosen.append((option, ranks))
        require(sorted(o["fqn"] for o, _ in chosen) == sorted(self.tables), "not every table once")
        options = [o for o, _ in chosen]
        require(not self.breaks_apart(options, [r for _, r in chosen]), "tables stand together")
        loads = [self.loads(o, r) for o, r in chosen]
        sums = [[sum(v) for v in zip(*(load[r] for load in loads), strict=True)] for r in range(self.world)]
        require(self.fits(sums), "the plan does not fit")
        return sum(map(self.own_hazards, options)) + self.mixed_hazards(options), self.times(options, sums)


def random_step_model(random):
    return {
        "kernel_weight": random.choice([1, 0.5, 2]),
        "collective_weight": random.choice([1, 0.25, 3]),
        "ms_per_sharding_type": random.choice([0, 0.5, 2]),
        "ms_per_table": random.choice([0, 0.25]),
        "floor_ms": random.choice([0, 1.5]),
    }


def oracle(program, random):
    has_hazards = random.randrange(3) == 0
    dump = Maker(random, has_hazards=has_hazards, has_key_values=random.randrange(3) == 0).make()
    rules = random_rules(random, dump) if random.randrange(3) == 0 else {}
    objective = random.choice(["rating", "step", "time"])
    step_model = random_step_model(random) if objective == "time" and random.randrange(2) else None
    pools_ddr = random.randrange(6) == 0
    flags = ["--objective", objective, "--effort", str(EFFORT)]
    program.write("dump.json", dump)
    if rules:
        program.write("rules.json", rules)
        flags += ["--rules", "rules.json"]
    if step_model:
        program.write("step.json", step_model)
        flags += ["--step-model", "step.json"]
    if pools_ddr:
        flags += ["--pool-ddr"]
    case = Case(dump, rules, step_model, pools_ddr)
    plans = list(case.plans())
    code, answer = program.run("shard", "dump.json", *flags, "-o", "answer.json")
    if code == 1 and answer["error"]["code"] == "conflict":
        require(not plans and rules, "a conflict, though", len(plans), "plans keep the rules")
        return ["rules leave no rank"]
    found, hazards = None, 0
    if "options" in answer:
        hazards, times = case.judge_plan(answer)
        found = times[objective]
        require(answer["objective"] == objective, "another objective")
        for name, ms in times.items():
            if name != "time" or objective == "time":
                require(is_near(answer["times"][name], ms), name, "is", ms, "not", answer["times"])
        check_code, report = program.run("check", "dump.json", "answer.json")
        require(check_code == 0 and report["is_right"], "check:", report)
    # First the hazards, then the objective; where plans of as few are not found, the bound is of all plans.
    fewest = min((h for h, _ in plans), default=0)
    if found is not None and hazards > fewest:
        bound = answer["certificate"]["lower_bound"] or 0
        least = min(times[objective] for _, times in plans)
        require(answer["status"] == "feasible", answer["status"], "with", hazards, "hazards,", fewest, "would do")
        require(is_near(answer["certificate"]["objective"], found), "objective", answer["certificate"], "not", found)
        require(bound <= least * (1 + 1e-9), "bound", bound, "above the least of all plans", least)
        return ["more hazards than need be"]
    best = min((times[objective] for h, times in plans if h == fewest), default=None)
    judge_answer(code, answer, value_of_plan=found, optimum=best, is_complete=False)
    word = "with hazards" if hazards else "with rules" if rules else "free"
    return [f"{objective} {word} {answer['status']}"]


if __name__ == "__main__":
    main(oracle, [f"{objective} free optimal" for objective in ("rating", "step", "time")])
