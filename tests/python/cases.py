"""Models to plan, and how TorchRec's own planner does on them. Imported by tests that have torchrec."""

import json
import logging
import random
import warnings

warnings.filterwarnings("ignore")

import torch  # noqa: E402
from torchrec.distributed.embedding import EmbeddingCollectionSharder  # noqa: E402
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder  # noqa: E402
from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology  # noqa: E402
from torchrec.distributed.planner.enumerators import EmbeddingEnumerator  # noqa: E402
from torchrec.distributed.planner.perf_models import NoopPerfModel  # noqa: E402
from torchrec.distributed.planner.types import ParameterConstraints  # noqa: E402
from torchrec.distributed.types import ShardingType  # noqa: E402
from torchrec.modules.embedding_configs import EmbeddingBagConfig, EmbeddingConfig, PoolingType  # noqa: E402
from torchrec.modules.embedding_modules import EmbeddingBagCollection, EmbeddingCollection  # noqa: E402

import plimsoll  # noqa: E402

logging.getLogger("torchrec").setLevel(logging.CRITICAL)

GIB = 2**30
TYPES = [kind.value for kind in ShardingType]
# What constraints say of every table, by turns.
CONSTRAINTS = {
    "nothing": {},
    "narrow": {"min_partition": 8},
    "every type": {"sharding_types": TYPES},
    "two features": {"pooling_factors": [3.0, 20.0], "num_poolings": [1.0, 2.0], "batch_sizes": [256, 512]},
    "weighted": {"is_weighted": True},
    "kernels": {"compute_kernels": ["fused_uvm_caching", "dense"]},
    "in hbm": {"enforce_hbm": True, "stochastic_rounding": True},
}


class AllTypes(EmbeddingBagCollectionSharder):
    """The types that the runtime carries; on CPU the sharder's own list is shorter."""

    def sharding_types(self, compute_device_type):
        return TYPES


class AllSequenceTypes(EmbeddingCollectionSharder):
    def sharding_types(self, compute_device_type):
        return ["table_wise", "row_wise", "column_wise"]


def bags(tables, device="meta", pooling=PoolingType.SUM):
    """A collection of (name, rows, columns) or configurations."""
    configs = [
        table
        if isinstance(table, EmbeddingBagConfig)
        else EmbeddingBagConfig(
            name=table[0],
            num_embeddings=table[1],
            embedding_dim=table[2],
            feature_names=[f"f_{table[0]}"],
            pooling=pooling,
        )
        for table in tables
    ]
    return EmbeddingBagCollection(tables=configs, device=torch.device(device))


def sequences(tables, device="meta"):
    configs = [
        table
        if isinstance(table, EmbeddingConfig)
        else EmbeddingConfig(
            name=table[0], num_embeddings=table[1], embedding_dim=table[2], feature_names=[f"f_{table[0]}"]
        )
        for table in tables
    ]
    return EmbeddingCollection(tables=configs, device=torch.device(device))


def dcnv2():
    """(module, constraints) of MLPerf's DLRM-DCNv2."""
    tables = plimsoll.models("mlperf-dlrm-dcnv2")["modules"][0]["tables"]
    module = bags([(t["name"], t["num_embeddings"], t["embedding_dim"]) for t in tables])
    constraints = {
        t["name"]: ParameterConstraints(pooling_factors=list(map(float, t["constraints"]["pooling_factors"])))
        for t in tables
    }
    return module, constraints


DCNV2_CASES = {8: (80, 8192), 16: (40, 4096)}  # ranks: GiB, batch


def dcnv2_arguments(ranks):
    gib, batch_size = DCNV2_CASES[ranks]
    module, constraints = dcnv2()
    topology = Topology(world_size=ranks, local_world_size=8, compute_device="cuda", hbm_cap=gib * GIB)
    return module, {"topology": topology, "batch_size": batch_size, "constraints": constraints, "stats": []}


def random_arguments(seed, count=12, ranks=4, room=1.6, max_rows=7.0):
    """Rows log-uniform from 1e3, dims of 16 to 256, pooling log-uniform to 100; HBM `room` times what tables take."""
    rng = random.Random(seed)
    tables, constraints, size = [], {}, 0
    for i in range(count):
        rows, columns = int(10 ** rng.uniform(3, max_rows)), rng.choice([16, 32, 64, 128, 256])
        tables.append((f"t{i}", rows, columns))
        constraints[f"t{i}"] = ParameterConstraints(pooling_factors=[round(100 ** rng.random(), 1)])
        size += rows * columns * 4
    cap = int(room * size / ranks / 0.85) + GIB
    topology = Topology(world_size=ranks, local_world_size=min(8, ranks), compute_device="cuda", hbm_cap=cap)
    return bags(tables), {"topology": topology, "batch_size": 1024, "constraints": constraints, "stats": []}


def rating_of(planner):
    return NoopPerfModel(planner._topology).rate(planner._best_plan)


def plan_with(kind, module, arguments, **more):
    """(planner, plan)."""
    planner = kind(**arguments, **more)
    return planner, planner.plan(module, [EmbeddingBagCollectionSharder()])


def reference_rating(module, arguments):
    return rating_of(plan_with(EmbeddingShardingPlanner, module, arguments)[0])


def native_differences(module, sharders, topology, batch_size, constraints):
    """{(fqn, type, kernel): (ours, theirs)} of the options that the native enumerator makes otherwise than TorchRec."""
    from plimsoll import _native
    from plimsoll.torchrec import _model

    space = _native.enumerate_space(
        json.dumps(_model.exact_model_document(module, sharders, constraints)),
        json.dumps(_model.exact_topology_document(topology)),
        _model.cost_model(),
        batch_size,
    )
    ours, theirs = {}, {}
    for index in range(space.num_options):
        fqn, kind, kernel, _, blocks = space.describe(index)
        ours[fqn, kind, kernel] = [
            (*tiers, round_to_12(total)) for count, *tiers, total in space.runs(index) for _ in range(count)
        ] * blocks
    for option in EmbeddingEnumerator(topology, batch_size, constraints).enumerate(module, sharders):
        theirs[option.fqn, option.sharding_type, option.compute_kernel] = [
            (s.storage.hbm, s.storage.ddr, getattr(s.storage, "ssd", 0), round_to_12(s.perf.total))
            for s in option.shards
        ]
    assert theirs
    return {
        key: (ours.get(key), theirs.get(key)) for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key)
    }


def native_options(module, sharders, topology, constraints):
    """{(fqn, type, kernel): bytes and ms of every shard}, tables in order."""
    from plimsoll import _native
    from plimsoll.torchrec import _model

    space = _native.enumerate_space(
        json.dumps(_model.exact_model_document(module, sharders, constraints)),
        json.dumps(_model.exact_topology_document(topology)),
        _model.cost_model(),
        512,
    )
    options = {}
    for index in range(space.num_options):
        fqn, kind, kernel, _, blocks = space.describe(index)
        options[fqn, kind, kernel] = [cost for count, *cost in space.runs(index) for _ in range(count)] * blocks
    return options


def compare_options(kind, seeds):
    """Of random models of one kind the native options with TorchRec's; how many models had options to compare."""
    import kinds

    from plimsoll import Error

    compared = 0
    for seed in seeds:
        module, sharders, topology, constraints = kinds.random_case(seed, kinds=(kind,))
        try:
            theirs = EmbeddingEnumerator(topology, 512, constraints).enumerate(module, sharders)
        except Exception as refused:  # ours refuses the same
            try:
                native_options(module, sharders, topology, constraints)
            except Error:
                continue
            raise AssertionError(f"{kind}, {seed}: TorchRec refuses, we do not") from refused
        compared += 1
        natively = native_options(module, sharders, topology, constraints)
        own = {
            (o.fqn, o.sharding_type, o.compute_kernel): [
                [s.storage.hbm, s.storage.ddr, getattr(s.storage, "ssd", 0), s.perf.total] for s in o.shards
            ]
            for o in theirs
        }
        assert natively.keys() == own.keys(), (kind, seed, natively.keys() ^ own.keys())
        assert list(dict.fromkeys(key[0] for key in natively)) == list(dict.fromkeys(key[0] for key in own))
        for key, costs in own.items():
            assert natively[key] == costs, (kind, seed, key, topology, natively[key][0], costs[0])
    return compared


def round_to_12(value):
    """To twelve digits."""
    return float(f"{value:.12g}")


def parity_cases():
    """(name, arguments of native_differences): modules, optimizers and constraints."""
    from torch.distributed.optim import _apply_optimizer_in_backward
    from torchrec.optim.rowwise_adagrad import RowWiseAdagrad

    topology = Topology(world_size=8, local_world_size=4, compute_device="cuda")
    tables = [("a", 10007, 128), ("b", 1000003, 32), ("c", 40, 256), ("d", 5, 64)]
    for optimizer in (None, torch.optim.SGD, torch.optim.Adam, RowWiseAdagrad):
        for name, fields in CONSTRAINTS.items():
            for module, sharder in (
                (bags(tables), EmbeddingBagCollectionSharder()),
                (sequences([(name, rows, 64) for name, rows, _ in tables]), EmbeddingCollectionSharder()),
            ):
                if optimizer is not None:
                    _apply_optimizer_in_backward(optimizer, module.parameters(), {"lr": 0.1})
                constraints = {table: ParameterConstraints(**fields) for table, *_ in tables[:3]}
                kind = type(module).__name__
                yield f"{kind}, {optimizer}, {name}", (module, [sharder], topology, 512, constraints)
