"""What TorchRec keeps on every rank between two steps, beside the bill of the plan. For the test and for the bench."""

import copy
import gc
import resource
from dataclasses import dataclass

import cases
import ranks
import torch
import torch.distributed as dist
import torchrec.distributed.train_pipeline as pipelines
from fbgemm_gpu.split_table_batched_embeddings_ops_training import SplitTableBatchedEmbeddingBagsCodegen
from torch.distributed.optim import _apply_optimizer_in_backward
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.distributed.planner import Topology
from torchrec.distributed.planner.types import ParameterConstraints
from torchrec.distributed.types import ShardingEnv
from torchrec.modules.embedding_configs import DataType, EmbeddingBagConfig
from torchrec.optim.rowwise_adagrad import RowWiseAdagrad
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

import plimsoll
from plimsoll.torchrec import model_document, to_sharding_plan, topology_document

CAUSES = ("weights", "optimizer_state", "gradients", "input_output")
IDS = 4  # of a sample
TABLES = [("a", 4000, 64), ("b", 2400, 64), ("c", 8000, 32), ("d", 3000, 16)]
PIPELINES = {"train_base": "TrainPipelineBase", "train_sparse_dist": "TrainPipelineSparseDist"}
OPTIMIZERS = {"sgd": torch.optim.SGD, "adagrad": torch.optim.Adagrad, "rowwise_adagrad": RowWiseAdagrad}


@dataclass(frozen=True)
class Case:
    """Sharding types of the tables, in turn; the tables' optimizer; the pipeline that trains them."""

    types: tuple[str, ...]
    optimizer: str = "sgd"
    pipeline: str = "none"
    data_type: str = "fp32"
    world_size: int = 2
    local_world_size: int = 2
    batch_size: int = 1024

    def type_of(self, table):
        return self.types[table % len(self.types)]


class Model(torch.nn.Module):
    def __init__(self, data_type):
        super().__init__()
        configs = [
            EmbeddingBagConfig(
                name=name,
                num_embeddings=rows,
                embedding_dim=columns,
                feature_names=[f"f_{name}"],
                data_type=DataType[data_type.upper()],
            )
            for name, rows, columns in TABLES
        ]
        self.ebc = cases.bags(configs)
        self.over = torch.nn.Linear(1, 1, bias=False)  # a pipeline wants something dense

    def forward(self, features):
        out = self.ebc(features).values().float().sum()
        loss = self.over(out.view(1, 1)).sum()
        return loss, loss.detach()


def topology_of(case, device):
    return Topology(world_size=case.world_size, local_world_size=case.local_world_size, compute_device=device)


def plan_of(case):
    """(plan with its bill, TorchRec's form of it for these ranks).

    Planned for GPUs: TorchRec's sharder offers fewer types for a CPU than its runtime carries there. What a shard
    keeps is as much on both.
    """
    model, topology = Model(case.data_type), topology_of(case, "cuda")
    constraints = {
        name: ParameterConstraints(sharding_types=[case.type_of(i)], pooling_factors=[float(IDS)], min_partition=16)
        for i, (name, _, _) in enumerate(TABLES)
    }
    document = model_document(model, topology, constraints)
    on = topology_document(topology)
    flags = {"optimizer": case.optimizer, "pipeline_type": case.pipeline, "batch_size": case.batch_size}
    answer = plimsoll.shard(document, on=on, effort=500, **flags)
    judged = plimsoll.check(document, answer, on=on, **flags)
    assert judged.is_right, judged.violations
    here = copy.deepcopy(answer.document["plan"]) | {"compute_device": "cpu"}
    plan = to_sharding_plan(here, model, topology_of(case, "cpu"), sharders=[cases.AllTypes()])
    return answer, plan


def batch_of(case, rank, step):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    count = case.batch_size * IDS
    return KeyedJaggedTensor(
        keys=[f"f_{name}" for name, _, _ in TABLES],
        values=torch.cat([torch.randint(0, rows, (count,), generator=generator) for _, rows, _ in TABLES]),
        lengths=torch.full((len(TABLES) * case.batch_size,), IDS),
    )


def resident_bytes():
    """Of this process, by the kernel."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def storages(tensors):
    """{storage: its bytes}."""
    found = (tensor.untyped_storage() for tensor in tensors)
    return {storage._cdata: storage.nbytes() for storage in found}


def living():
    """Every tensor that Python reaches; DTensors and the like are wrappers of those."""
    gc.collect()
    kinds = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
    return [thing for thing in gc.get_objects() if type(thing) in kinds and thing.device.type == "cpu"]


def states_of(kernel):
    return [state for states in kernel.split_optimizer_states() for state in states]


def work(rank, case, plan):
    """Bytes by cause on this rank."""
    before, process = set(storages(living())), resident_bytes()
    model = Model(case.data_type)
    optimizer = OPTIMIZERS[case.optimizer]
    fused = [p for i, p in enumerate(model.ebc.parameters()) if case.type_of(i) != "data_parallel"]
    _apply_optimizer_in_backward(optimizer, fused, {"lr": 0.01})
    sharded = DistributedModelParallel(
        model,
        env=ShardingEnv.from_process_group(dist.group.WORLD),
        plan=plan,
        sharders=[cases.AllTypes()],
        device=torch.device("cpu"),
    )
    over = [p for name, p in sharded.named_parameters() if "over" in name]
    replicas = [
        p for i, (name, _, _) in enumerate(TABLES) if case.type_of(i) == "data_parallel"
        for key, p in sharded.named_parameters() if key.endswith(f"{name}.weight")
    ]  # fmt: skip
    kernels = [thing for thing in gc.get_objects() if isinstance(thing, SplitTableBatchedEmbeddingBagsCodegen)]
    of_weights = {
        **storages(w for kernel in kernels for w in kernel.split_embedding_weights()),
        **storages(replicas),
    }
    built = storages(living())
    dense = optimizer([*over, *replicas], lr=0.01)
    if case.pipeline == "none":
        for step in range(3):
            dense.zero_grad()
            loss, _ = sharded(batch_of(case, rank, step))
            loss.backward()
            dense.step()
        del loss
    else:
        pipeline = getattr(pipelines, PIPELINES[case.pipeline])(sharded, dense, torch.device("cpu"))
        batches = (batch_of(case, rank, step) for step in range(9))
        for _ in range(5):
            pipeline.progress(batches)
    dist.barrier()
    kept = {key: size for key, size in storages(living()).items() if key not in before}
    state = storages(s for kernel in kernels for s in states_of(kernel))
    state |= storages(s for p in replicas for s in dense.state.get(p, {}).values() if isinstance(s, torch.Tensor))
    state = {key: size for key, size in state.items() if key not in of_weights}
    gradients = storages(p.grad for p in replicas if p.grad is not None)
    known = {*of_weights, *state, *gradients}
    constant = {key: size for key, size in built.items() if key in kept and key not in known}
    known |= set(constant)  # tables of offsets, and what is beside the tables
    return {
        "weights": sum(of_weights.values()),
        "optimizer_state": sum(state.values()) if case.optimizer != "sgd" else 0,
        "gradients": sum(gradients.values()),
        "input_output": sum(size for key, size in kept.items() if key not in known),
        "all": sum(kept.values()),
        "process": resident_bytes() - process,
    }


def measure(case):
    """(the bill's bytes, what each rank keeps)."""
    answer, plan = plan_of(case)
    found = ranks.run(case.world_size, work, case, plan, local_world_size=case.local_world_size)
    return answer.bytes, found
