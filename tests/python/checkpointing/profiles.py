"""Modules profiled by torch's trackers, and records like theirs made by chance; nothing here needs a GPU."""

import contextlib
import random

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker
from torch.distributed._tools.runtime_estimator import RuntimeEstimator
from torch.distributed._tools.sac_estimator import SACEstimator, SACStats
from torch.utils import _runtime_estimation


@contextlib.contextmanager
def roofline(gb_per_s=2039.0, tflops=0.5):
    """torch's cost model asks the GPU what it can do, and ends the process where there is none."""
    names = {"get_gpu_dram_gbps": lambda: gb_per_s, "get_device_tflops": lambda dtype: tflops}
    saved = {name: getattr(_runtime_estimation, name) for name in names}
    is_available = torch.cuda.is_available
    try:
        for name, value in names.items():
            setattr(_runtime_estimation, name, value)
        torch.cuda.is_available = lambda: True
        yield
    finally:
        torch.cuda.is_available = is_available
        for name, value in saved.items():
            setattr(_runtime_estimation, name, value)


class Block(nn.Module):
    """Views, softmax, in-place dropout."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.attention, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(0.1))
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.attention(self.norm(x)).chunk(3, -1)
        q, k, v = (part.view(batch, length, 2, width // 2).transpose(1, 2) for part in parts)
        attended = torch.softmax(q @ k.transpose(2, 3), -1) @ v
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(self.mlp(x))


class GPT(nn.Module):
    """Two blocks."""

    def __init__(self, width=64, vocabulary=128):
        super().__init__()
        self.embedding, self.layers = nn.Embedding(vocabulary, width), nn.ModuleList(Block(width) for _ in range(2))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class Frozen(nn.Module):
    """A tail that runs without gradients, and a module whose only operator is its last."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(16, 64), nn.ReLU(inplace=True), nn.Linear(64, 16), nn.GELU(), nn.Linear(16, 16)
        )
        self.lone = nn.Sequential(nn.Sigmoid())
        self.table = nn.Sequential(nn.Linear(16, 16))

    def forward(self, x):
        with torch.no_grad():
            scale = self.table(torch.ones(16))
        return self.lone(self.body(x)) * scale


def profile(make, *shape, estimator=SACEstimator):
    """(module, memory tracker, runtime estimator, SAC estimator) after a step; whole numbers are tokens."""
    with FakeTensorMode(), roofline():
        module = make()
        inputs = torch.randint(0, 128, shape) if isinstance(module, GPT) else torch.randn(*shape)
        optimizer = torch.optim.SGD(module.parameters())

        def step():
            module(inputs).float().mean().backward()
            optimizer.step()
            optimizer.zero_grad()

        memory = MemTracker()
        memory.track_external(module, optimizer)
        with memory:
            step()
            memory.reset_mod_stats()
            step()
        times = RuntimeEstimator()
        with times("operator-level-cost-model"):
            step()
        operators = estimator()
        with operators("operator-level-cost-model"):
            module(inputs)
    return module, memory, times, operators


def random_table(seed, of=SACStats):
    """An operator table with views, in-place and random operators."""
    rng = random.Random(seed)
    n = rng.randint(3, 14)
    kinds = ["mm", "add", "view", "relu_", "native_dropout"]
    names = [rng.choice(kinds) for _ in range(n)]
    memory = [0 if name == "view" else rng.choice([0, 1, 2, 3, 5, 8, 13]) * 64 for name in names]
    inplace = [(i, rng.randint(0, i)) for i in range(n) if names[i] == "relu_"]
    return of(
        func_names=names,
        runtimes=[0.0 if name == "view" else rng.choice([0.0, 0.25, 0.5, 1.0, 3.0]) for name in names],
        memory=memory,
        view_like_ops=[i for i in range(n) if names[i] == "view"],
        rand_ops=[i for i in range(n) if names[i] == "native_dropout"],
        saved_autograd_ops=sorted(rng.sample(range(n), n // 2)),
        inplace_ops=inplace,
        force_store_random=rng.random() < 0.3,
    )


def random_module_info(seed):
    """A tree of a root, layers and their parts, with figures as torch's trackers would leave them."""
    rng = random.Random(seed)
    mib = 2**20
    parts = {"R": [f"R.{i}" for i in range(rng.randint(2, 4))]}
    for layer in parts["R"]:
        parts[layer] = [f"{layer}.{name}" for name in "xyz"[: rng.randint(1, 3)]]
    pre = ["R", *(fqn for layer in parts["R"] for fqn in (layer, *parts[layer]))]
    post = [*(fqn for layer in parts["R"] for fqn in (*parts[layer], layer)), "R"]
    registered = ["R"]  # layers are registered in another order than they run
    for layer in rng.sample(parts["R"], len(parts["R"])):
        registered += [layer, *rng.sample(parts[layer], len(parts[layer]))]
    kept = {fqn: rng.randint(16, 256) * mib for layer in parts["R"] for fqn in parts[layer]}
    total, totals = rng.randint(1, 64) * mib, {}
    for fqn in post:
        if fqn in kept:
            total += kept[fqn] + 8 * mib
        totals[fqn] = total
    grads = {fqn: (len(post) - i) * 4 * mib for i, fqn in enumerate(post)}
    for fqn in (*parts["R"], "R"):
        kept[fqn] = sum(kept[part] for part in parts[fqn]) + rng.randint(0, 32) * mib
        totals[fqn] = max(totals[fqn], kept[fqn])

    def record(fqn):
        is_leaf = fqn not in parts or rng.random() < 0.1
        slope = rng.uniform(0.1, 0.6)
        bend = rng.uniform(0.2, 0.7)
        steeper = rng.uniform(slope, 2)
        return {
            "fqn": fqn,
            "param_per_module": 100 * mib if fqn == "R" else 10 * mib,
            "grad_per_module": 10 * mib,
            "grad_total": 0 if fqn == "R" else grads[fqn],
            "act_fw_per_module": kept[fqn],
            "act_bw_per_module": 0,
            "act_grad_per_module": rng.randint(-4, 64) * mib,
            "act_total": totals[fqn],
            "input_per_module": 8 * mib,
            "output_per_module": 8 * mib,
            "fw_runtime_per_module": rng.uniform(1, 9),
            "bw_runtime_per_module": rng.uniform(2, 18),
            "is_leaf": is_leaf,
            "sac_runtime": 0 if is_leaf else rng.uniform(0.5, 70),
            "sac_memory": 0 if is_leaf else int(kept[fqn] * rng.uniform(0.9, 1.5)),
            "n_segments": 0 if is_leaf else 2,
            "slopes": [] if is_leaf else [slope, steeper],
            "intercepts": [] if is_leaf else [-0.01, -0.01 - (steeper - slope) * bend],
            "breakpoints": [] if is_leaf else [0.01, bend, 1.0],
            "tradeoff_curve": {},
        }

    return {
        "mod_order": {"fw_pre_order": pre, "bw_pre_order": post[::-1], "fw_post_order": post, "bw_post_order": pre},
        "mod_stats": [record(fqn) for fqn in registered],
    }


def squares(tradeoff_curve, slopes, intercepts, breaks):
    """Sum of squared distances of a fit from the shifted curve, each piece within its breaks."""
    total = 0.0
    for x, y in zip(list(tradeoff_curve)[:-1], list(tradeoff_curve.values())[1:]):
        piece = next(i for i in range(len(slopes)) if x <= breaks[i + 1] + 1e-12)
        total += (slopes[piece] * x + intercepts[piece] - y) ** 2
    return total
