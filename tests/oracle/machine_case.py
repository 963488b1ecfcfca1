"""Times of shards by a machine document, by docs/mathematics/calibrated-times.md and docs/formats.md#machine alone."""

import math

MIB = 2**20
INTER_HOST = {"1 GiB/s": 2**30 / 1000, "100 MiB/s": 100 * 2**20 / 1000, None: 12.5 * 2**30 / 1000}  # bytes per ms
OF_COLUMNS = ("table_wise", "column_wise", "table_column_wise")
OF_DOMAINS = ("table_row_wise", "grid_shard")
PERMUTED = ("column_wise", "table_column_wise", "grid_shard")
BY_ROWS = ("row_wise", *OF_DOMAINS)
STAND_INS = {
    "all_to_all": (["all_gather"], ["reduce_scatter"]),
    "reduce_scatter": (["all_gather"], ["all_to_all"]),
    "all_gather": (["reduce_scatter"], ["all_to_all"]),
    "all_reduce": (["reduce_scatter", "all_gather"], ["all_to_all", "all_to_all"]),
}


def random_machine(random, *, per_domain, optimizer):
    """Every kernel has forms; collectives within a domain, some of them across."""
    names = ("call_ns", "table_ns", "lookup_ns", "read_byte_ns", "output_byte_ns", "distinct_row_ns")
    scale = random.choice([1, 100, 10000])

    def terms(kernel):
        of_kernel = scale / random.choice([1, 100]) if kernel == "dense" else scale  # replicas must be worth it
        made = {name: random.choice([0, 1, 3, 10]) / 1000 * of_kernel for name in names if random.randrange(3)}
        made["call_ns"] = random.choice([0, 10000, 10**6])
        made["distinct_byte_miss_ns"] = random.choice([0, 0.25])
        if kernel == "dense":
            made["weight_byte_ns"] = random.choice([0, 0, 0.001, 0.5])
        return made

    kernels = []
    for kernel in ("fused", "fused_uvm", "fused_uvm_caching", "dense", "key_value"):
        for direction in ("forward", "backward"):
            keys = {(kernel, direction, random.choice(["fp32", "fp16"]), random.choice([None, "sgd", optimizer]))}
            keys |= {(kernel, direction, random.choice(["fp32", "fp16"]), o) for o in (None, "adam", optimizer)}
            for *_, data_type, own in random.sample(sorted(keys, key=str), random.randint(1, len(keys))):
                form = {"kernel": kernel, "direction": direction, "data_type": data_type, "terms": terms(kernel)}
                kernels.append(form | ({"optimizer": own} if own else {}))
    random.shuffle(kernels)
    document = {"name": "random", "ranks": 4, "ranks_per_host": 2, "kernels": kernels, "collectives": []}
    for operation in STAND_INS if random.randrange(4) else ():
        for group, is_there in (("host", random.randrange(4)), ("world", random.randrange(2))):
            if is_there:
                document["collectives"].append(random_table(random, operation, group, per_domain))
    if random.randrange(3):
        document["operators"] = {"memory_gb_per_s": random.choice([0.1, 1, 10])}
    document["step"] = {"kernel_weight": random.choice([1, 1.5]), "ms_per_sharding_type": random.choice([0, 0.25])}
    document["step"] |= {"collective_weight": random.choice([0.5, 1]), "floor_ms": random.choice([0, 2])}
    return document


def random_table(random, operation, group, per_domain):
    sizes = sorted(random.sample([2**k for k in range(8, 28)], random.choice([1, 2, 5])))
    ms, times = random.choice([0.01, 1]), []
    for size in sizes:
        ms = max(ms * random.choice([0.7, 1, 1.1, 2]), size / 1e8)  # noise makes some fall
        times.append(ms)
    ranks = 4 if group == "world" else random.choice([2, 8, max(per_domain, 2)])
    return {"operation": operation, "group": group, "ranks": ranks, "bytes": sizes, "ms": times}


def interpolate(table, size):
    sizes, times = table["bytes"], table["ms"]
    if len(sizes) == 1:
        return times[0] * max(size / sizes[0], 1)
    right = next((i for i in range(1, len(sizes)) if size < sizes[i]), len(sizes) - 1)
    x0, x1, y0, y1 = (math.log(v) for v in (sizes[right - 1], sizes[right], times[right - 1], times[right]))
    if size > sizes[-1] and y1 < y0:
        return times[-1]
    if size < sizes[0] and y1 < y0:
        return times[0]
    return math.exp(y0 + (y1 - y0) / (x1 - x0) * (math.log(size) - x0))


class MachineTimes:
    """`model`, `topology` and `batch_size` as the program gets them; `dump` has the options of the tables."""

    def __init__(self, document, model, topology, batch_size, dump):
        self.document, self.dump, self.batch_size = document, dump, batch_size
        self.optimizer = model["optimizer"]
        self.world, self.domain = dump["world_size"], dump["group_size"]
        self.inter_host = INTER_HOST[topology.get("inter_host_bw")]
        self.intra_host = 600 * 2**30 / 1000
        self.constraints = {t["name"]: t["constraints"] for module in model["modules"] for t in module["tables"]}
        self.lines = {}

    def samples_and_ids(self, option):
        """Of one rank."""
        made = self.constraints[option["fqn"].rsplit(".", 1)[1]]
        samples = made.get("num_poolings", [1])[0] * self.batch_size
        return samples, samples * made["pooling_factors"][0]

    # Kernels.

    def variables(self, option, rows, columns):
        if rows == 0:
            return {}
        samples, ids = self.samples_and_ids(option)
        ranks = 1 if option["sharding_type"] == "data_parallel" else self.world
        share = rows / option["rows"] if option["sharding_type"] in BY_ROWS else 1
        n, weights = ids * ranks * share, rows * columns * 4
        distinct = rows * (1 - math.exp(-n / rows))
        return {
            "table_ns": 1,
            "lookup_ns": n,
            "read_byte_ns": n * columns * 4,
            "output_byte_ns": 4 * columns * (samples * ranks if option["is_pooled"] else n),
            "distinct_row_ns": distinct,
            "distinct_byte_miss_ns": distinct * columns * 4 * max(0, math.log2(weights / MIB)),
            "weight_byte_ns": weights,
        }

    def terms(self, kernel, direction):
        def fit(form):
            own = form.get("optimizer")
            of_optimizer = 2 if own == self.optimizer else 1 if own is None else 0
            return form["data_type"] == "fp32", of_optimizer

        forms = [f for f in self.document["kernels"] if (f["kernel"], f["direction"]) == (kernel, direction)]
        return max(forms, key=fit)["terms"]  # of equals the first

    def kernels(self, option, rows, columns, prefetch):
        """ms without the call; `prefetch` is TorchRec's."""
        variables = self.variables(option, rows, columns)
        ns = 0
        for direction in ("forward", "backward"):
            terms = self.terms(option["compute_kernel"], direction)
            ns += sum(terms.get(name, 0) * value for name, value in variables.items())
        ms = ns / 1e6 + self.permute(option, variables)
        return ms + (prefetch if option["compute_kernel"] == "fused_uvm_caching" else 0)

    def permute(self, option, variables):
        """Of pooled outputs whose columns were cut, forward and backward."""
        bandwidth = self.document.get("operators", {}).get("memory_gb_per_s", 0)
        if option["sharding_type"] not in PERMUTED or not option["is_pooled"] or not variables or not bandwidth:
            return 0
        summed = self.domain if option["sharding_type"] == "grid_shard" else 1
        return 4 * variables["output_byte_ns"] / summed / (bandwidth * 1e6)

    # Collectives.

    def messages(self, option, kind, rows, columns):
        """(operation, ranks, ranks of a domain, bytes) of a shard."""
        wide = (self.world, self.domain)
        if kind == "data_parallel":
            return [("all_reduce", *wide, rows * columns * 4)]
        samples, ids = self.samples_and_ids(option)
        n = ids * self.world * (rows / option["rows"] if kind in BY_ROWS else 1)
        is_pooled = option["is_pooled"]
        sent = 4 * columns * (samples * self.world if is_pooled else n)
        made = [("all_to_all", *wide, 8 * n)]
        if kind in OF_COLUMNS or (kind == "row_wise" and not is_pooled):
            return [*made, ("all_to_all", *wide, sent), ("all_to_all", *wide, sent)]
        if kind == "row_wise":
            return [*made, ("reduce_scatter", *wide, sent), ("all_gather", *wide, sent)]
        near, far = (self.domain, self.domain), (self.world // self.domain, 1)
        rest = sent / self.domain if is_pooled else sent
        made += [("reduce_scatter", *near, sent), ("all_to_all", *far, rest)]
        return [*made, ("all_gather", *near, sent), ("all_to_all", *far, rest)]

    def tables(self, operation):
        """Within a domain, and across: ((table, ranks, ranks of a domain) or None) twice."""
        found = [None, None]
        for table in self.document["collectives"]:
            if table["operation"] == operation:
                is_across = table["group"] == "world"
                per = self.document["ranks_per_host"] if is_across else table["ranks"]
                found[is_across] = (table, table["ranks"], per)
        return found

    def table_ms(self, operation, ranks, per, size):
        inside, outside = (min(per, ranks) - 1) / ranks, max(ranks - per, 0) / ranks
        within, across = self.tables(operation)
        if outside == 0:
            table, r, _ = within or across
            return interpolate(table, size if within and r == ranks else size * inside / ((r - 1) / r))
        if across and across[1:] == (ranks, per):
            return interpolate(across[0], size)
        ms = 0
        if within and inside > 0:
            ms = interpolate(within[0], size * inside / ((within[1] - 1) / within[1]))
        if across:
            return max(ms, interpolate(across[0], size * outside / ((across[1] - across[2]) / across[1])))
        return max(ms, size * outside / self.inter_host)

    def ms(self, operation, ranks, per, size):
        if ranks == 1 or size == 0:
            return 0
        for names in ([operation], *STAND_INS[operation]):
            if all(any(self.tables(name)) for name in names):
                return sum(self.table_ms(name, ranks, per, size) for name in names)
        inside, outside = (min(per, ranks) - 1) / ranks, max(ranks - per, 0) / ranks
        once = max(size * inside / self.intra_host, size * outside / self.inter_host)
        return once * (2 if operation == "all_reduce" else 1)

    def line(self, message, least, most):
        """(ms, ms of a byte)."""
        operation, ranks, per, size = message
        if size == 0:
            return 0, 0
        here = self.ms(operation, ranks, per, size)
        rise = self.ms(operation, ranks, per, most) - self.ms(operation, ranks, per, least)
        slope = max(rise, 0) / (most - least)
        return (here - slope * size, slope) if here >= slope * size else (0, here / size)

    def lines_of(self, module, kind):
        if (module, kind) not in self.lines:
            tables = {o["fqn"]: o for o in self.dump["options"] if o["module_path"] == module}
            draw = self.replica_lines if kind == "data_parallel" else self.balanced_lines
            self.lines[module, kind] = draw(kind, list(tables.values()))
        return self.lines[module, kind]

    def replica_lines(self, kind, tables):
        weights = {t["fqn"]: t["rows"] * t["columns"] * 4 for t in tables}
        small = 0
        for table in tables:
            samples, ids = self.samples_and_ids(table)
            out = 4 * table["columns"] * (samples if table["is_pooled"] else ids)
            small += weights[table["fqn"]] * (weights[table["fqn"]] <= out)
        size = small or min(weights.values())
        message = ("all_reduce", self.world, self.domain, size)
        return [self.line(message, size, max(sum(weights.values()), 2 * size))]

    def balanced_lines(self, kind, tables):
        ranks = self.world if kind == "row_wise" else self.domain if kind in OF_DOMAINS else 1
        share = ranks / self.world
        sums = None
        for table in tables:
            made = self.messages(table, kind, -(-table["rows"] // ranks), table["columns"])
            sums = made if sums is None else [(*s[:3], s[3] + m[3]) for s, m in zip(sums, made, strict=True)]
        messages = [(*s[:3], s[3] * share) for s in sums]
        return [self.line(message, message[3] / 2, 2 * message[3]) for message in messages]

    def collectives(self, option, charged, rows, columns):
        lines = self.lines_of(option["module_path"], charged)
        messages = self.messages(option, option["sharding_type"], rows, columns)
        return sum(line[1] * message[3] for line, message in zip(lines, messages, strict=True))

    def charge(self, model, module, kind):
        """What a plan pays once for a sharding type of a module; `model` is the step model."""
        kernel = "dense" if kind == "data_parallel" else "fused"
        calls = sum(self.terms(kernel, direction).get("call_ns", 0) for direction in ("forward", "backward")) / 1e6
        intercepts = sum(line[0] for line in self.lines_of(module, kind))
        return model["ms_per_sharding_type"] + model["kernel_weight"] * calls + model["collective_weight"] * intercepts
