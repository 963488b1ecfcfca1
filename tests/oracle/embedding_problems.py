"""Random problems of embedding tables: dumps (plimsoll.torchrec_options/1), models with hardware, rules."""

COMPONENTS = ("fwd_compute", "fwd_comms", "bwd_compute", "bwd_comms", "prefetch_compute")


class DumpMaker:
    """A dump, option by option."""

    def __init__(self, random, *, has_hazards, has_key_values):
        self.random = random
        self.num_hosts, self.per_host = random.choice([(1, 1), (1, 2), (1, 3), (2, 1), (2, 2)])
        self.world = self.num_hosts * self.per_host
        self.has_hazards, self.has_key_values = has_hazards, has_key_values
        self.sequences = {"m1"} if has_hazards and random.randrange(2) == 0 else set()  # modules
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
                "is_pooled": table["fqn"].split(".")[0] not in self.sequences,
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
        if table["fqn"].split(".")[0] in self.sequences:
            table["pooling"] = "sum"
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
            "torchrec": random.choice(["1.4.0", "1.8.0"]),
            "world_size": self.world,
            "local_world_size": self.per_host,
            "room": room,
            "shard_classes": self.classes,
            "options": self.options,
        }


class ModelMaker:
    """A model whose options the estimator prices, and the hardware for it."""

    WAYS = (
        "table_wise",
        "column_wise",
        "row_wise",
        "data_parallel",
        "table_row_wise",
        "table_column_wise",
        "grid_shard",
    )

    def __init__(self, random, *, has_hazards, has_key_values, has_speeds):
        self.random = random
        self.num_hosts, self.per_host = random.choice([(1, 1), (1, 2), (1, 2), (1, 3), (2, 1), (2, 2)])
        self.world = self.num_hosts * self.per_host
        self.has_hazards, self.has_key_values, self.has_speeds = has_hazards, has_key_values, has_speeds
        self.bytes = 0
        self.optimizer = random.choice(["none", "sgd", "rowwise_adagrad", "adam"])

    def constraints(self, rows):
        random = self.random
        kernels = [["fused"]] * 4 + [["fused", "fused_uvm"], ["fused_uvm_caching"], ["fused", "dense"], []]
        if self.has_key_values:
            kernels = [["key_value"], ["key_value"], ["key_value", "fused"]]
        elif self.has_hazards:
            kernels = [["fused"]]
        made = {"compute_kernels": random.choice(kernels), "pooling_factors": [random.choice([1, 4, 20.5])]}
        if self.has_hazards or random.randrange(5):
            made["sharding_types"] = random.sample(
                self.WAYS, random.choice([1, 2] if self.has_hazards else [1, 2, 2, 3, 4])
            )
        if random.randrange(2):
            made["min_partition"] = random.choice([4, 8, 12])
        if random.randrange(5) == 0:
            made["num_poolings"] = [random.choice([0.5, 2])]
        return made

    def table(self, index):
        random = self.random
        few = self.has_hazards and random.randrange(2) == 0  # rows that do not cut evenly
        rows = random.randint(1, 9) if few else random.choice([1, 2, 5]) * 12000
        columns = random.choice([8, 12, 16] if self.has_hazards else [8, 12, 16, 16, 24])
        self.bytes += rows * columns * 4
        made = {
            "name": f"t{index}",
            "num_embeddings": rows,
            "embedding_dim": columns,
            "feature_names": [f"f{index}"],
            "pooling": "mean" if self.has_hazards and random.randrange(3) else "sum",
        }
        made["constraints"] = self.constraints(rows)
        return made

    def modules(self):
        random = self.random
        kinds = ["embedding_bag_collection"] * 4 + [
            "embedding_collection",
            "embedding_tower",
            "embedding_tower_collection",
        ]
        modules, index = [], 0
        for m in range(random.choice([1, 1, 2])):
            module = {"path": f"m{m}", "kind": random.choice(kinds), "tables": []}
            for _ in range(random.choice([2, 3] if self.has_hazards else [1, 1, 2, 2, 3]) if m == 0 else 1):
                module["tables"].append(self.table(index))
                index += 1
                if module["kind"].startswith("embedding_tower"):
                    del module["tables"][-1]["constraints"]["compute_kernels"]
                    module["tables"][-1]["constraints"].pop("sharding_types", None)
                    module["tables"][-1]["constraints"]["compute_kernels"] = ["fused"]
                if module["kind"] == "embedding_tower_collection":
                    module["tables"][-1]["tower"] = random.randrange(2)
            modules.append(module)
        return modules

    def caps(self, least):
        """Of every rank, so that all tables together often do not fit easily."""
        random = self.random
        share = random.choice([100, random.uniform(0.7, 3), random.uniform(0.7, 3)])
        copies = 3 if self.optimizer == "adam" else 1
        return least + int(self.bytes * copies * share / self.world)

    def make(self):
        """Model and topology."""
        random = self.random
        model = {"modules": self.modules(), "optimizer": self.optimizer}
        topology = {
            "schema": "plimsoll.topology/1",
            "world_size": self.world,
            "local_world_size": self.per_host,
            "hbm_cap": self.caps(random.choice([20000, 10**6])),
            "ddr_cap": random.choice([10**9, self.caps(20000)]),
        }
        if random.randrange(3) == 0:
            topology["inter_host_bw"] = random.choice(["1 GiB/s", "100 MiB/s"])
        if random.randrange(4) == 0:
            topology["hbm_mem_bw"] = "2 GiB/s"
        if random.randrange(5) == 0:
            topology["hbm_caps"] = [random.choice([1, 2]) * topology["hbm_cap"] for _ in range(self.world)]
        if self.has_speeds:
            topology["device_speeds"] = [random.choice([1, 1, 0.5, 2]) for _ in range(self.world)]
        return model, topology

    def allow_replicas(self, model):
        """Half of the tables may be data_parallel; towers may not."""
        for module in model["modules"]:
            for table in module["tables"]:
                if self.random.randrange(2) and not module["kind"].startswith("embedding_tower"):
                    types = ["data_parallel", self.random.choice(self.WAYS)]
                    table["constraints"] |= {"compute_kernels": ["fused", "dense"], "sharding_types": types}


def random_rules(random, tables, world):
    """`tables`: fqns."""
    rules = {}
    ranks = list(range(world))
    for key in ("allowed_ranks", "forbidden_ranks"):
        if random.randrange(3) == 0:
            chosen = sorted(random.sample(ranks, random.randint(1, len(ranks))))
            rules[key] = {random.choice(tables): chosen}
    for key in ("apart", "together"):
        if len(tables) > 1 and random.randrange(3) == 0:
            rules[key] = [sorted(random.sample(tables, 2))]
    return rules


def random_step_model(random, *, has_output_bytes):
    return {
        "kernel_weight": random.choice([1, 0.5, 2]),
        "collective_weight": random.choice([1, 0.25, 3]),
        "ms_per_sharding_type": random.choice([0, 0.5, 2]),
        "ms_per_output_byte": random.choice([0, 1e-6]) if has_output_bytes else 0,
        "ms_per_table": random.choice([0, 0.25]),
        "floor_ms": random.choice([0, 1.5]),
    }
