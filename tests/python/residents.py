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
from torch.nn.parallel import DistributedDataParallel
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.distributed.planner import Topology
from torchrec.distributed.planner.types import ParameterConstraints
from torchrec.distributed.types import ShardingEnv
from torchrec.modules.embedding_configs import DataType, EmbeddingBagConfig, EmbeddingConfig
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
    """Sharding types of the tables, in turn; the tables' optimizer; the pipeline that trains them.

    `kind` is "bags" (EmbeddingBagCollection) or "sequences" (EmbeddingCollection, whose tables are all as wide as the
    first).
    """

    types: tuple[str, ...]
    optimizer: str = "sgd"
    pipeline: str = "none"
    data_type: str = "fp32"
    world_size: int = 2
    local_world_size: int = 2
    batch_size: int = 1024
    kind: str = "bags"

    def type_of(self, table):
        return self.types[table % len(self.types)]

    def tables(self):
        """(name, rows, columns)."""
        width = TABLES[0][2]
        return [(name, rows, columns if self.kind == "bags" else width) for name, rows, columns in TABLES]


SHARDERS = [cases.AllTypes(), cases.AllSequenceTypes()]


class Model(torch.nn.Module):
    def __init__(self, case):
        super().__init__()
        kind, make = {
            "bags": (EmbeddingBagConfig, cases.bags),
            "sequences": (EmbeddingConfig, cases.sequences),
        }[case.kind]
        data_type = DataType[case.data_type.upper()]
        configs = [
            kind(name=name, num_embeddings=rows, embedding_dim=columns, feature_names=[f"f_{name}"])
            for name, rows, columns in case.tables()
        ]
        for config in configs:
            config.data_type = data_type
        self.tables, self.kind = make(configs), case.kind
        self.over = torch.nn.Linear(1, 1, bias=False)  # a pipeline wants something dense

    def forward(self, features):
        found = self.tables(features)
        if self.kind == "bags":
            out = found.values().float().sum()
        else:
            out = sum(found[f"f_{name}"].values().float().sum() for name, _, _ in TABLES)
        loss = self.over(out.view(1, 1)).sum()
        return loss, loss.detach()


def topology_of(case, device):
    return Topology(world_size=case.world_size, local_world_size=case.local_world_size, compute_device=device)


def plan_of(case):
    """(plan with its bill, TorchRec's form of it for these ranks).

    Planned for GPUs: TorchRec's sharder offers fewer types for a CPU than its runtime carries there. What a shard
    keeps is as much on both.
    """
    model, topology = Model(case), topology_of(case, "cuda")
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
    plan = to_sharding_plan(here, model, topology_of(case, "cpu"), sharders=SHARDERS)
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


@dataclass
class Job:
    """A model on the ranks, as its plan shards it."""

    sharded: DistributedModelParallel
    replicas: list  # parameters of data_parallel tables
    kernels: list  # fbgemm's

    @classmethod
    def build(cls, case, plan):
        model = Model(case)
        fused = [p for i, p in enumerate(model.tables.parameters()) if case.type_of(i) != "data_parallel"]
        _apply_optimizer_in_backward(OPTIMIZERS[case.optimizer], fused, {"lr": 0.01})
        sharded = DistributedModelParallel(
            model,
            env=ShardingEnv.from_process_group(dist.group.WORLD),
            plan=plan,
            sharders=SHARDERS,
            device=torch.device("cpu"),
        )
        replicas = [
            p for i, (name, _, _) in enumerate(TABLES) if case.type_of(i) == "data_parallel"
            for key, p in sharded.named_parameters() if key.endswith(f"{name}.weight")
        ]  # fmt: skip
        kernels = [thing for thing in gc.get_objects() if isinstance(thing, SplitTableBatchedEmbeddingBagsCodegen)]
        return cls(sharded, replicas, kernels)

    def dense_optimizer(self, case):
        over = [p for name, p in self.sharded.named_parameters() if "over" in name]
        return OPTIMIZERS[case.optimizer]([*over, *self.replicas], lr=0.01)

    def weights(self):
        return {
            **storages(w for kernel in self.kernels for w in kernel.split_embedding_weights()),
            **storages(self.replicas),
        }

    def fused_state(self, case):
        if case.optimizer == "sgd":
            return {}
        return storages(s for kernel in self.kernels for states in kernel.split_optimizer_states() for s in states)

    def bucket_bytes(self):
        """Of DistributedDataParallel around the replicas; it makes them when it is made."""
        parallel = [thing for thing in gc.get_objects() if isinstance(thing, DistributedDataParallel)]
        return sum(
            int(size)
            for one in parallel
            if not isinstance(one.module, Model)
            for size in one._get_ddp_logging_data()["bucket_sizes"].split(",")
        )


def train(case, job, dense, rank):
    if case.pipeline == "none":
        for step in range(3):
            dense.zero_grad()
            loss, _ = job.sharded(batch_of(case, rank, step))
            loss.backward()
            dense.step()
        return None
    pipeline = getattr(pipelines, PIPELINES[case.pipeline])(job.sharded, dense, torch.device("cpu"))
    batches = (batch_of(case, rank, step) for step in range(9))
    for _ in range(5):
        pipeline.progress(batches)
    return pipeline


def work(rank, case, plan):
    """Bytes by cause on this rank, after steps and, as "built", before them; `process` is the process's growth."""
    before, process = set(storages(living())), resident_bytes()
    job = Job.build(case, plan)
    of_weights, state = job.weights(), job.fused_state(case)
    built = {key: size for key, size in storages(living()).items() if key not in before}
    at_build = {
        "weights": sum(of_weights.values()),
        "optimizer_state": sum(state.values()),
        "gradients": job.bucket_bytes(),
        "all": sum(built.values()) + job.bucket_bytes(),  # no tensor of Python's is a bucket
    }
    dense = job.dense_optimizer(case)
    pipeline = train(case, job, dense, rank)
    dist.barrier()
    kept = {key: size for key, size in storages(living()).items() if key not in before}
    of_replicas = storages(
        s for p in job.replicas for s in dense.state.get(p, {}).values() if isinstance(s, torch.Tensor)
    )
    state |= of_replicas
    gradients = storages(p.grad for p in job.replicas if p.grad is not None)
    known = {*of_weights, *state, *gradients}
    known |= {key for key in built if key in kept}  # tables of offsets, and what is beside the tables
    del pipeline
    return {
        "weights": sum(of_weights.values()),
        "optimizer_state": sum(state.values()),
        "optimizer_state_of_replicas": sum(of_replicas.values()),
        "gradients": sum(gradients.values()),
        "input_output": sum(size for key, size in kept.items() if key not in known),
        "all": sum(kept.values()),
        "built": at_build,
        "process": resident_bytes() - process,
    }


def measure(case):
    """(the bill's bytes, what each rank keeps)."""
    answer, plan = plan_of(case)
    found = ranks.run(case.world_size, work, case, plan, local_world_size=case.local_world_size)
    return answer.bytes, found
