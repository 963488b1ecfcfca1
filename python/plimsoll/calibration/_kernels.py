"""Measures fbgemm's embedding kernels as TorchRec's sharded modules call them: forward, backward with the optimizer."""

from __future__ import annotations

from typing import Any

import torch
from fbgemm_gpu.split_embedding_configs import EmbOptimType, SparseType
from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation, PoolingMode
from fbgemm_gpu.split_table_batched_embeddings_ops_training import (
    ComputeDevice,
    DenseTableBatchedEmbeddingBagsCodegen,
    SplitTableBatchedEmbeddingBagsCodegen,
)

from plimsoll.calibration._clock import repeat, synchronizer
from plimsoll.calibration._designs import Design
from plimsoll.calibration._forms import ELEMENT_BYTES, Shard, kernel_variables

DATA_TYPES = {"fp32": SparseType.FP32, "fp16": SparseType.FP16}
OPTIMIZERS = {
    "sgd": EmbOptimType.EXACT_SGD,
    "rowwise_adagrad": EmbOptimType.EXACT_ROWWISE_ADAGRAD,
    "adagrad": EmbOptimType.EXACT_ADAGRAD,
    "adam": EmbOptimType.ADAM,
}
Batch = tuple[torch.Tensor, torch.Tensor]  # ids and offsets, tables one after the other
BATCHES = 3


def _ids(design: Design, rows: int, count: int, generator: torch.Generator) -> torch.Tensor:
    if not design.zipf:
        return torch.randint(rows, (count,), generator=generator)
    share = torch.rand(count, generator=generator, dtype=torch.float64)
    power = 1 - design.zipf
    rank = ((rows**power - 1) * share + 1) ** (1 / power)  # inverse of the continuous distribution on [1, rows]
    return (rank.long().clamp(1, rows) * 2654435761) % rows  # popular rows are not neighbours


def _batches(design: Design, device: torch.device) -> tuple[list[Batch], list[float]]:
    """Batches of ids, and how many distinct rows of each table one of them reads."""
    generator = torch.Generator().manual_seed(design.seed)
    batches, distinct = [], [0.0] * len(design.tables)
    for _ in range(BATCHES):
        values = []
        for i, (rows, _, ids) in enumerate(design.tables):
            drawn = _ids(design, rows, ids * design.samples, generator)
            is_read = torch.zeros(rows, dtype=torch.bool)
            is_read[drawn] = True
            distinct[i] += float(is_read.sum()) / BATCHES
            values.append(drawn)
        lengths = torch.tensor([ids for _, _, ids in design.tables]).repeat_interleave(design.samples)
        offsets = torch.cat([torch.zeros(1, dtype=torch.long), lengths.cumsum(0)])
        batches.append((torch.cat(values).to(device), offsets.to(device)))
    return batches, distinct


def _kernel(
    design: Design, kernel: str, optimizer: str | None, data_type: str, device: torch.device
) -> torch.nn.Module:
    """With every page of its weights written."""
    is_cpu = device.type == "cpu"
    module: torch.nn.Module
    if kernel == "dense":
        module = DenseTableBatchedEmbeddingBagsCodegen(
            [(rows, columns) for rows, columns, _ in design.tables], pooling_mode=PoolingMode.SUM, use_cpu=is_cpu
        )
    else:
        place = EmbeddingLocation.HOST if is_cpu else EmbeddingLocation.DEVICE
        compute = ComputeDevice.CPU if is_cpu else ComputeDevice.CUDA
        module = SplitTableBatchedEmbeddingBagsCodegen(
            [(rows, columns, place, compute) for rows, columns, _ in design.tables],
            pooling_mode=PoolingMode.SUM,
            weights_precision=DATA_TYPES[data_type],
            optimizer=OPTIMIZERS[optimizer or "sgd"],
            learning_rate=0.01,
            device=device,
        )
    for weights in module.split_embedding_weights():
        weights.data.fill_(0.01)
    return module


def measure_kernel(
    design: Design, kernel: str, optimizer: str | None, data_type: str, device_name: str, seconds: float
) -> dict[str, Any]:
    """{"variables": of the call, "forward": a sample, "backward": a sample}."""
    device = torch.device(device_name)
    batches, distinct = _batches(design, device)
    module = _kernel(design, kernel, optimizer, data_type, device)
    width = sum(columns for _, columns, _ in design.tables)
    gradient = torch.ones(design.samples, width, device=device)
    state: dict[str, Any] = {"step": 0}

    def forward() -> None:
        state["out"] = module(*batches[state["step"] % BATCHES])
        state["step"] += 1

    def backward() -> None:
        for parameter in module.parameters():
            parameter.grad = None
        state["out"].backward(gradient)

    forward_ms, backward_ms = repeat([forward, backward], synchronizer(device), seconds)
    shards = [
        Shard(rows, columns, ELEMENT_BYTES[data_type], ids * design.samples, design.samples, distinct[i])
        for i, (rows, columns, ids) in enumerate(design.tables)
    ]
    return {
        "variables": kernel_variables(shards),
        "forward": forward_ms.document(),
        "backward": backward_ms.document(),
    }
