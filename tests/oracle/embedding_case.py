"""Every plan of a few tables over a few ranks, with its hazards and times, by the documentation alone.

docs/embedding.md says what is placed where and what is minimised, docs/check.md what a hazard is, docs/formats.md what
a dump, a step model and placement rules mean. What a shard takes is given (`dump`).
"""

import itertools
import math

from campaign import require

BY_ROWS = ("row_wise", "table_row_wise", "grid_shard")
ROWS_ALONE = ("row_wise", "table_row_wise")  # what counts as cut by rows beside a mean-pooled table
OF_HOSTS = ("table_row_wise", "table_column_wise", "grid_shard")
EVERYWHERE = ("row_wise", "data_parallel")
NUM_COLUMNS = 13  # hbm, ddr, ssd; total; five components; shards; output bytes; a machine's kernels, collectives


def module_of(option):
    return option.get("module_path", option["fqn"].rsplit(".", 1)[0])


class Case:
    def __init__(self, dump, *, rules, step_model, pools_ddr, speeds=None, machine=None):
        self.dump, self.rules, self.pools_ddr = dump, rules, pools_ddr
        self.model = {"kernel_weight": 1, "collective_weight": 1, "ms_per_sharding_type": 0.5, "ms_per_table": 0}
        self.model |= {"ms_per_output_byte": 0, "floor_ms": 0}
        self.machine = machine  # MachineTimes
        if machine is not None:
            self.model |= {"ms_per_sharding_type": 0} | machine.document["step"]
        self.model |= step_model or {}
        self.world, self.per_host = dump["world_size"], dump["local_world_size"]
        self.per_domain = dump.get("group_size", self.per_host)  # ranks of a fast domain
        self.speeds = speeds or [1] * self.world
        self.tables = list(dict.fromkeys(o["fqn"] for o in dump["options"]))

    def domain(self, index):
        return list(range(index * self.per_domain, (index + 1) * self.per_domain))

    def placements(self, option):
        """The ranks of its shards, in shard order; those of equal shards in one order only."""
        kind, count = option["sharding_type"], len(option["shards"])
        ranks, domains = range(self.world), range(self.world // self.per_domain)
        if kind == "table_wise":
            yield from ((r,) for r in ranks)
        elif kind == "column_wise":
            yield from itertools.combinations_with_replacement(ranks, count)
        elif kind == "table_column_wise":
            for d in domains:
                yield from itertools.combinations_with_replacement(self.domain(d), count)
        elif kind in EVERYWHERE:
            yield tuple(ranks)
        elif kind == "table_row_wise":
            yield from (tuple(self.domain(d)) for d in domains)
        else:
            for chosen in itertools.combinations_with_replacement(domains, count // self.per_domain):
                yield tuple(r for d in chosen for r in self.domain(d))

    def num_placements(self, option):
        """An upper bound, found without listing them."""
        if option["sharding_type"] in ("column_wise", "table_column_wise"):
            return math.comb(self.world + len(option["shards"]) - 1, len(option["shards"]))
        return self.world

    def wants_distinct_ranks(self, option):
        """TorchRec demands it of column_wise with kernel key_value, from release 1.5 on."""
        release = self.dump.get("torchrec", "1.9.0")
        is_asked = self.dump.get("key_value_columns_on_distinct_ranks", release >= "1.5")
        return is_asked and option["compute_kernel"] == "key_value" and option["sharding_type"] == "column_wise"

    def is_allowed(self, option, ranks):
        fqn = option["fqn"]
        allowed = self.rules.get("allowed_ranks", {}).get(fqn)
        forbidden = self.rules.get("forbidden_ranks", {}).get(fqn, [])
        if any(r in forbidden or (allowed is not None and r not in allowed) for r in ranks):
            return False
        return not self.wants_distinct_ranks(option) or len(set(ranks)) == len(ranks)

    def own_hazards(self, option):
        if "hazards" in option:
            return sum(code != "optimizer_state_per_block" for code in option["hazards"])  # of numbers alone
        kind, rows = option["sharding_type"], [size[0] for size in option["sizes"]]
        hazards = 0
        if kind == "grid_shard" and option["pooling"] == "mean":
            hazards += 1
        if kind in BY_ROWS:
            count = self.world if kind == "row_wise" else self.per_domain
            step = -(-option["rows"] // count)
            wanted = [max(0, min(step, option["rows"] - i * step)) for i in range(count)]
            hazards += any(r != w for r, w in zip(rows, itertools.cycle(wanted), strict=False))
            hazards += any(r == 0 for r in rows)
        return hazards + (kind in OF_HOSTS and not option["is_pooled"])  # runtime_cannot_hold

    def mixed_hazards(self, options):
        def collection(option):
            return option.get("collection", module_of(option))

        hazards = 0
        for option in options:
            if option["pooling"] != "mean" or not option["is_pooled"] or option["sharding_type"] not in ROWS_ALONE:
                continue
            hazards += any(
                collection(o) == collection(option) and o["sharding_type"] not in ROWS_ALONE for o in options
            )
        return hazards + self.width_hazards(options, collection)

    def width_hazards(self, options, collection):
        """Tables of sequences cut by columns of another width than most of their collection; of equals the first's."""
        widths = {}
        for option in options:
            is_of_tower = option.get("group", option["fqn"]) != option["fqn"]
            if option["sharding_type"] == "column_wise" and not option["is_pooled"] and not is_of_tower:
                widths.setdefault(collection(option), []).append([size[1] for size in option["sizes"]])
        hazards = 0
        for tables in widths.values():
            first = [table[0] for table in tables]
            usual = max(first, key=lambda width: (first.count(width), -first.index(width)))
            hazards += sum(any(width != usual for width in table) for table in tables)
        return hazards

    def place_of(self, option, ranks):
        """What `together` compares: one rank, one fast domain, everywhere; None of a table in several places."""
        kind = option["sharding_type"]
        if kind in EVERYWHERE:
            return "everywhere"
        if kind in OF_HOSTS:
            domains = {r // self.per_domain for r in ranks}
            return ("domain", *domains) if len(domains) == 1 else None
        return ("rank", ranks[0]) if len(ranks) == 1 else None

    def sees_fewer_plans(self):
        """Does the search, by its documentation?"""
        has_towers = any(o.get("group", o["fqn"]) != o["fqn"] for o in self.dump["options"])
        has_host_columns = any(o["sharding_type"] == "table_column_wise" for o in self.dump["options"])
        if "together" in self.rules:
            return has_towers or has_host_columns
        return self.world > self.per_domain and (has_towers or has_host_columns)

    def breaks_rule(self, options, places):
        """Of tables with each other."""
        ranks_of = {o["fqn"]: set(p) for o, p in zip(options, places, strict=True)}
        place_of = {o["fqn"]: self.place_of(o, p) for o, p in zip(options, places, strict=True)}
        for names in self.rules.get("apart", []):
            if any(ranks_of[a] & ranks_of[b] for a, b in itertools.combinations(names, 2)):
                return True
        for names in self.rules.get("together", []):
            kept = {place_of[name] for name in names}
            if len(names) > 1 and (len(kept) > 1 or None in kept):
                return True
        return self.parts_tower(options, places)

    def parts_tower(self, options, places):
        """Tables of one tower stand on one fast domain."""
        home = {}
        for option, ranks in zip(options, places, strict=True):
            group = option.get("group", option["fqn"])
            if group == option["fqn"]:
                continue
            home.setdefault(group, set()).update(r // self.per_domain for r in ranks)
        return any(len(domains) > 1 for domains in home.values())

    def loads(self, option, ranks):
        """By rank: bytes of three tiers, total, ms of five components, shards, output bytes."""
        sums = [[0] * NUM_COLUMNS for _ in range(self.world)]
        for i, (shard, rank) in enumerate(zip(option["shards"], ranks, strict=True)):
            c = self.dump["shard_classes"][shard]
            kernels, collectives = (c[4], c[6], c[8]), (c[5], c[7])
            k = [ms / self.speeds[rank] for ms in kernels]
            row = [c[0], c[1], c[2], sum(k) + sum(collectives), k[0], c[5], k[1], c[7], k[2], 1]
            row.append(self.dump["output_bytes"][shard] if "output_bytes" in self.dump else 0)
            row += self.machine_ms(option, option["sizes"][i], c[8], self.speeds[rank])
            sums[rank] = [a + b for a, b in zip(sums[rank], row, strict=True)]
        return sums

    def machine_ms(self, option, size, prefetch, speed):
        if self.machine is None:
            return [0, 0]
        kernels = self.machine.kernels(option, *size, prefetch)
        return [kernels / speed, self.machine.collectives(option, option["sharding_type"], *size)]

    def fits(self, sums):
        room = self.dump["room"]
        for tier in range(3):
            pools = [[r] for r in range(self.world)]
            if tier == 1 and self.pools_ddr:
                pools = [list(range(h, h + self.per_host)) for h in range(0, self.world, self.per_host)]
            if any(sum(sums[r][tier] for r in p) > sum(room[r][tier] for r in p) for p in pools):
                return False
        return True

    def times(self, options, sums):
        def slowest(*columns):
            return max(sum(rank[4 + c] for c in columns) for rank in sums)

        model = self.model
        present = {(module_of(o), o["sharding_type"]) for o in options}
        kernels, collectives = slowest(0, 2, 4), slowest(1, 3)
        charges = model["ms_per_sharding_type"] * len(present)
        if self.machine is not None:
            kernels, collectives = slowest(7), slowest(8)
            charges = sum(self.machine.charge(model, *one) for one in present)
        return {
            "rating": max(rank[3] for rank in sums),
            "step": sum(slowest(c) for c in range(5)),
            "time": model["kernel_weight"] * kernels
            + model["collective_weight"] * collectives
            + charges
            + model["ms_per_table"] * slowest(5)
            + model["ms_per_output_byte"] * slowest(6)
            + model["floor_ms"],
        }

    def add_loads(self, loads):
        return [[sum(v) for v in zip(*(load[r] for load in loads), strict=True)] for r in range(self.world)]

    def num_plans(self):
        """An upper bound."""
        of_table = [sum(self.num_placements(o) for o in self.dump["options"] if o["fqn"] == fqn) for fqn in self.tables]
        return math.prod(of_table)

    def plans(self):
        """(hazards, times, hbm) of every plan that rules and room allow; hbm: most bytes on a rank."""
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
            sums = self.add_loads([c[2] for c in chosen])
            options = [c[0] for c in chosen]
            if self.fits(sums) and not self.breaks_rule(options, [c[1] for c in chosen]):
                hazards = sum(c[3] for c in chosen) + self.mixed_hazards(options)
                yield hazards, self.times(options, sums), max(rank[0] for rank in sums)

    def judge_plan(self, chosen):
        """Hazards and times of a plan: (option, ranks in shard order) of every table."""
        for option, ranks in chosen:
            legal = {tuple(sorted(p)) for p in self.placements(option) if self.is_allowed(option, p)}
            require(tuple(sorted(ranks)) in legal, option["sharding_type"], "on ranks", ranks)
            if option["sharding_type"] in ("row_wise", "data_parallel", "table_row_wise"):
                require(list(ranks) == sorted(ranks), "permuted ranks", ranks)
        options = [o for o, _ in chosen]
        require(sorted(o["fqn"] for o in options) == sorted(self.tables), "not every table once")
        require(not self.breaks_rule(options, [r for _, r in chosen]), "tables stand where a rule forbids it")
        sums = self.add_loads([self.loads(o, r) for o, r in chosen])
        require(self.fits(sums), "the plan does not fit")
        return sum(map(self.own_hazards, options)) + self.mixed_hazards(options), self.times(options, sums)
