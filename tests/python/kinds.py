"""Random models of every kind of module that TorchRec's sharders know, with whatever their sharders and tables may be
told. Imported by tests that have torchrec."""

import random
from dataclasses import dataclass

import cases
import torch
from fbgemm_gpu.split_table_batched_embeddings_ops_common import BoundsCheckMode
from torch.distributed.optim import _apply_optimizer_in_backward
from torchrec.distributed.embedding import EmbeddingCollectionSharder
from torchrec.distributed.embedding_tower_sharding import EmbeddingTowerCollectionSharder, EmbeddingTowerSharder
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder, EmbeddingBagSharder
from torchrec.distributed.fbgemm_qcomm_codec import CommType, QCommsConfig, get_qcomm_codecs_registry
from torchrec.distributed.fp_embeddingbag import FeatureProcessedEmbeddingBagCollectionSharder
from torchrec.distributed.fused_embedding import FusedEmbeddingCollectionSharder
from torchrec.distributed.fused_embeddingbag import FusedEmbeddingBagCollectionSharder
from torchrec.distributed.mc_embedding import ManagedCollisionEmbeddingCollectionSharder
from torchrec.distributed.mc_embeddingbag import ManagedCollisionEmbeddingBagCollectionSharder
from torchrec.distributed.planner import Topology
from torchrec.distributed.planner.types import ParameterConstraints
from torchrec.distributed.quant_embedding import QuantEmbeddingCollectionSharder
from torchrec.distributed.quant_embeddingbag import (
    QuantEmbeddingBagCollectionSharder,
    QuantFeatureProcessedEmbeddingBagCollectionSharder,
)
from torchrec.distributed.types import CacheParams, CacheStatistics, CommOp, KeyValueParams
from torchrec.modules.embedding_configs import DataType, EmbeddingBagConfig, EmbeddingConfig, PoolingType
from torchrec.modules.embedding_modules import EmbeddingBagCollection, EmbeddingCollection
from torchrec.modules.embedding_tower import EmbeddingTower, EmbeddingTowerCollection
from torchrec.modules.feature_processor_ import PositionWeightedModuleCollection
from torchrec.modules.fp_embedding_modules import FeatureProcessedEmbeddingBagCollection
from torchrec.modules.fused_embedding_modules import FusedEmbeddingBagCollection, FusedEmbeddingCollection
from torchrec.modules.mc_embedding_modules import (
    ManagedCollisionEmbeddingBagCollection,
    ManagedCollisionEmbeddingCollection,
)
from torchrec.modules.mc_modules import (
    DistanceLFU_EvictionPolicy,
    ManagedCollisionCollection,
    MCHManagedCollisionModule,
)
from torchrec.optim.rowwise_adagrad import RowWiseAdagrad
from torchrec.quant import embedding_modules as quant

META = torch.device("meta")
KINDS = (
    "bags",
    "sequences",
    "virtual_bags",
    "bag",
    "processed",
    "collision_bags",
    "collision_sequences",
    "fused_bags",
    "fused_sequences",
    "tower",
    "towers",
    "quant_bags",
    "quant_sequences",
    "quant_processed",
)
BUCKETS = 48  # of every collision module: a multiple of the ranks of any topology here


@dataclass
class Statistics(CacheStatistics):
    """Misses fall as the cache grows."""

    expected_lookups: float = 1000.0
    cacheability: float = 0.3

    def expected_miss_rate(self, clf):
        return 0.9 * (1 - clf) ** 2


class Net(torch.nn.Module):
    """Modules side by side."""

    def __init__(self, parts):
        super().__init__()
        for i, part in enumerate(parts):
            self.add_module(f"part{i}", part)


class Passes:
    """Of a multi-pass prefetch."""

    num_passes = 3


class Make:
    """Makes modules out of one random generator; collects the constraints of their tables."""

    def __init__(self, rng):
        self.rng = rng
        self.constraints = {}
        self._count = 0

    def configs(self, kind, count=3, width=None, types=None, **more):
        configs = []
        for _ in range(self.rng.randint(1, count)):
            name = f"t{self._count}"
            self._count += 1
            self.constrain(name)
            configs.append(
                kind(
                    name=name,
                    num_embeddings=self.rng.choice([3, 9, 40, 1009, 50000, 1000000]),
                    embedding_dim=width or self.rng.choice([4, 12, 64, 128, 256]),
                    feature_names=[f"f_{name}"],
                    data_type=self.rng.choice(
                        types or [DataType.FP32, DataType.FP32, DataType.FP16, DataType.BF16, DataType.INT8]
                    ),
                    **more,
                )
            )
        return configs

    def constrain(self, name):
        rng = self.rng
        fields = {
            "sharding_types": [*rng.sample(cases.TYPES, 4), "table_wise", "row_wise", "table_row_wise"],
            "compute_kernels": [
                "fused",
                "quant",
                "dense",
                *rng.sample(["fused_uvm", "fused_uvm_caching", "key_value"], 2),
            ],
            "min_partition": rng.choice([4, 8, 32, 64]),
            "pooling_factors": [rng.choice([0.25, 1.0, 7.5, 40.0])],
            "num_poolings": [rng.choice([1.0, 2.0])],
            "batch_sizes": [rng.choice([16, 4096])],
            "is_weighted": True,
            "enforce_hbm": rng.choice([True, False]),
            "stochastic_rounding": True,
            "bounds_check_mode": rng.choice(list(BoundsCheckMode)),
            "output_dtype": rng.choice([DataType.FP16, DataType.BF16, DataType.INT8, DataType.FP32]),
            "cache_params": CacheParams(
                load_factor=rng.choice([None, 0.05, 0.5, 0.9]),
                prefetch_pipeline=rng.choice([None, True, False]),
                reserved_memory=rng.choice([None, 8.0]),
                precision=rng.choice([None, DataType.FP16]),
                stats=rng.choice([None, Statistics()]),
            ),
            "key_value_params": KeyValueParams(max_l1_cache_size=rng.choice([None, 1, 400]), l2_cache_size=2),
        }
        if hasattr(ParameterConstraints, "use_virtual_table"):
            fields["use_virtual_table"] = True
        chosen = {field: value for field, value in fields.items() if rng.random() < 0.3}
        if chosen or rng.random() < 0.5:
            self.constraints[name] = ParameterConstraints(**chosen)

    def bags(self, **more):
        configs = self.configs(EmbeddingBagConfig, pooling=self.rng.choice(list(PoolingType)[:2]), **more)
        return EmbeddingBagCollection(tables=configs, is_weighted=self.rng.random() < 0.3, device=META)

    def sequences(self):
        return EmbeddingCollection(
            tables=self.configs(EmbeddingConfig, width=self.rng.choice([4, 64, 256])), device=META
        )

    def virtual_bags(self):
        configs = self.configs(EmbeddingBagConfig)
        for config in configs:
            config.num_embeddings = BUCKETS * self.rng.choice([1, 5, 400])
            if hasattr(config, "use_virtual_table") and self.rng.random() < 0.7:
                config.use_virtual_table = True
                config.total_num_buckets = BUCKETS
        return EmbeddingBagCollection(tables=configs, device=META)

    def bag(self):
        self.constrain("weight")
        return torch.nn.EmbeddingBag(self.rng.choice([40, 5000]), 64, device=META)

    def processed(self):
        configs = self.configs(EmbeddingBagConfig)
        collection = EmbeddingBagCollection(tables=configs, is_weighted=True, device=META)
        lengths = {config.feature_names[0]: 8 for config in configs}
        return FeatureProcessedEmbeddingBagCollection(
            collection, PositionWeightedModuleCollection(lengths, device=META)
        )

    def _collision(self, kind, collection, configs):
        modules = {
            config.name: MCHManagedCollisionModule(
                zch_size=config.num_embeddings,
                device=META,
                eviction_policy=DistanceLFU_EvictionPolicy(),
                eviction_interval=1,
                **({"buckets": BUCKETS} if hasattr(ManagedCollisionCollection, "table_to_number_buckets") else {}),
            )
            for config in configs
        }
        return kind(collection, ManagedCollisionCollection(modules, configs), return_remapped_features=True)

    def collision_bags(self):
        collection = self.bags()
        configs = collection.embedding_bag_configs()
        return self._collision(ManagedCollisionEmbeddingBagCollection, collection, configs)

    def collision_sequences(self):
        collection = self.sequences()
        return self._collision(ManagedCollisionEmbeddingCollection, collection, collection.embedding_configs())

    def fused_bags(self):
        configs = self.configs(EmbeddingBagConfig, types=[DataType.FP32, DataType.FP16])
        return FusedEmbeddingBagCollection(configs, torch.optim.SGD, {"lr": 0.1}, device=META)

    def fused_sequences(self):
        configs = self.configs(EmbeddingConfig, width=64, types=[DataType.FP32])
        return FusedEmbeddingCollection(configs, torch.optim.SGD, {"lr": 0.1}, device=META)

    def tower(self):
        return EmbeddingTower(self.bags(), torch.nn.Linear(2, 2))

    def towers(self):
        return EmbeddingTowerCollection([self.tower(), EmbeddingTower(self.sequences(), torch.nn.Linear(2, 2))])

    def quant_bags(self):
        types = [DataType.INT8, DataType.FP16, DataType.INT4, DataType.INT2]
        return quant.EmbeddingBagCollection(self.configs(EmbeddingBagConfig, types=types), False, device=META)

    def quant_sequences(self):
        configs = self.configs(EmbeddingConfig, width=64, types=[DataType.INT8, DataType.FP16, DataType.INT4])
        return quant.EmbeddingCollection(configs, device=META)

    def quant_processed(self):
        configs = self.configs(EmbeddingBagConfig, types=[DataType.INT8])
        lengths = {config.feature_names[0]: 8 for config in configs}
        processors = PositionWeightedModuleCollection(lengths, device=META)
        return quant.FeatureProcessedEmbeddingBagCollection(configs, True, device=META, feature_processor=processors)


def fused_params(rng):
    """What a sharder may be told."""
    fields = {
        "learning_rate": 0.1,
        "cache_load_factor": rng.choice([0.0, 0.1, 0.7]),
        "prefetch_pipeline": True,
        "multipass_prefetch_config": Passes(),
    }
    return {name: value for name, value in fields.items() if rng.random() < 0.4}


def codecs(rng):
    """A registry of quantised communication, whole or of some collectives alone."""
    chosen = rng.random()
    if chosen < 0.4:
        return None
    codec = QCommsConfig(
        forward_precision=rng.choice([CommType.FP16, CommType.BF16, CommType.FP8, CommType.INT8]),
        backward_precision=rng.choice([CommType.FP32, CommType.FP16, CommType.BF16]),
    )
    operations = [CommOp.POOLED_EMBEDDINGS_ALL_TO_ALL] if chosen < 0.55 else None
    return get_qcomm_codecs_registry(codec, operations)


def sharders(rng):
    """One of every kind."""

    def told():
        return {"fused_params": fused_params(rng), "qcomm_codecs_registry": codecs(rng)}

    return [
        EmbeddingBagCollectionSharder(**told()),
        EmbeddingCollectionSharder(**told()),
        EmbeddingBagSharder(**told()),
        FeatureProcessedEmbeddingBagCollectionSharder(EmbeddingBagCollectionSharder(**told())),
        ManagedCollisionEmbeddingBagCollectionSharder(EmbeddingBagCollectionSharder(**told())),
        ManagedCollisionEmbeddingCollectionSharder(EmbeddingCollectionSharder(**told())),
        FusedEmbeddingBagCollectionSharder(**told()),
        FusedEmbeddingCollectionSharder(**told()),
        EmbeddingTowerSharder(**told()),
        EmbeddingTowerCollectionSharder(**told()),
        QuantEmbeddingBagCollectionSharder(fused_params=fused_params(rng)),
        QuantEmbeddingCollectionSharder(fused_params=fused_params(rng)),
        QuantFeatureProcessedEmbeddingBagCollectionSharder(fused_params=fused_params(rng)),
    ]


def random_case(seed, kinds=KINDS, devices=("cuda", "cuda", "cuda", "cpu", "mtia")):
    """(module, sharders, topology, constraints)."""
    rng = random.Random(seed)
    make = Make(rng)
    module = Net([getattr(make, kind)() for kind in rng.choices(kinds, k=rng.randint(1, 4))])
    optimizer = rng.choice([None, torch.optim.SGD, torch.optim.Adam, RowWiseAdagrad, torch.optim.Adagrad])
    if optimizer is not None:
        trained = [p for p in module.parameters() if p.dim() == 2 and p.requires_grad]
        _apply_optimizer_in_backward(optimizer, trained, {"lr": 0.1})
    world, local = rng.choice([(1, 1), (2, 2), (4, 2), (8, 4), (16, 8), (12, 8)])
    return module, sharders(rng), Topology(world, rng.choice(devices), local_world_size=local), make.constraints
