"""What TorchRec's planner takes a call for."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Any

from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.planner import Topology
from torchrec.distributed.planner.enumerators import EmbeddingEnumerator
from torchrec.distributed.planner.types import ParameterConstraints
from torchrec.modules.embedding_configs import DataType, EmbeddingBagConfig
from torchrec.modules.embedding_modules import EmbeddingBagCollection

from plimsoll.calibration._designs import Design

DATA_TYPES = {"fp32": DataType.FP32, "fp16": DataType.FP16}


class _Sharder(EmbeddingBagCollectionSharder):
    def sharding_types(self, compute_device_type: str) -> list[str]:
        return ["table_wise", "data_parallel"]


@lru_cache(maxsize=8)
def torchrec_ms(design: Design, kernel: str, data_type: str, device: str) -> dict[str, float]:
    """{"forward": ms, "backward": ms} of the kernel alone, by TorchRec's default bandwidths."""
    import torch

    logging.getLogger("torchrec").setLevel(logging.ERROR)
    kind = "data_parallel" if kernel == "dense" else "table_wise"
    configs = [
        EmbeddingBagConfig(
            name=f"t{i}",
            num_embeddings=rows,
            embedding_dim=columns,
            feature_names=[f"f{i}"],
            data_type=DATA_TYPES[data_type],
        )
        for i, (rows, columns, _) in enumerate(design.tables)
    ]
    module = EmbeddingBagCollection(tables=configs, device=torch.device("meta"))
    sharders: list[Any] = [_Sharder()]
    enumerator = EmbeddingEnumerator(
        Topology(world_size=1, compute_device=device),
        batch_size=design.samples,
        constraints={
            f"t{i}": ParameterConstraints(pooling_factors=[float(ids)], sharding_types=[kind], compute_kernels=[kernel])
            for i, (*_, ids) in enumerate(design.tables)
        },
    )
    spent = {"forward": 0.0, "backward": 0.0}
    for option in enumerator.enumerate(module, sharders):
        perf = option.shards[0].perf
        assert perf is not None
        spent["forward"] += perf.fwd_compute
        spent["backward"] += perf.bwd_compute
    return spent
