"""Models to plan, and how TorchRec's own planner does on them. Imported by tests that have torchrec."""

import logging
import random
import warnings

warnings.filterwarnings("ignore")

import torch  # noqa: E402
from torchrec.distributed.embedding import EmbeddingCollectionSharder  # noqa: E402
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder  # noqa: E402
from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology  # noqa: E402
from torchrec.distributed.planner.perf_models import NoopPerfModel  # noqa: E402
from torchrec.distributed.planner.types import ParameterConstraints  # noqa: E402
from torchrec.distributed.types import ShardingType  # noqa: E402
from torchrec.modules.embedding_configs import EmbeddingBagConfig, EmbeddingConfig, PoolingType  # noqa: E402
from torchrec.modules.embedding_modules import EmbeddingBagCollection, EmbeddingCollection  # noqa: E402

import plimsoll  # noqa: E402

logging.getLogger("torchrec").setLevel(logging.CRITICAL)

GIB = 2**30
TYPES = [kind.value for kind in ShardingType]


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
        EmbeddingConfig(name=name, num_embeddings=rows, embedding_dim=columns, feature_names=[f"f_{name}"])
        for name, rows, columns in tables
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
