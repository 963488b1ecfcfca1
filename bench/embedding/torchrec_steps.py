"""Steps of DistributedModelParallel under our default plan and under TorchRec's own, on gloo ranks.

Usage: PYTHONPATH=build/python build/python-env/bin/python bench/embedding/torchrec_steps.py
           [--machine FILE] [--ranks N] [--steps N] [--rounds N] [--models NAME,NAME] [--quick]

FILE is what our planner predicts with: a machine document of `plimsoll calibrate`, or a step model of
`step_charges.py`; without it the default charges. *Predicted* is what that says of a step under both plans. Models with
equal plans are named and left out. With --quick one model, two rounds.

Where a module lies in memory, and whether it was made first, is worth some percent of a step, and stays the same for as
long as the module lives. So the steps are taken in rounds, each in new processes. In a round each plan is made into two
modules, in the order ours, TorchRec's, TorchRec's, ours or the other way round by turns, and their steps (forward,
backward, the tables' optimizer) come in one random order. Of each rank the 10th percentile of a step's processor time
counts, which leaves out what else the machine did; the slowest rank is the module's, the mean of its two modules the
plan's. Printed are the geometric mean of the rounds' ratios and, as noise, half its 95 % interval: a ratio within
1 +- noise tells no difference. *Every step* is the same with the slowest rank taken step by step before the percentile:
there all ranks' disturbances count, which costs a plan of equally busy ranks most. *Clock* is the 10th percentile of
every step's slowest rank on the clock, and means what it would on ranks with cores of their own only if the machine has
a core for each rank.

Below the table: the mean ratio of the models whose plans differ in sharding types, how far predictions are off, and
which are off by more than the machine document states of models that it did not see (the 90 % of `held_out_models`).
A prediction is compared with what the document's steps were fitted to: the clock, or processor time.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import pathlib
import random
import statistics
import sys
import time
from dataclasses import dataclass

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "python"))

import cases
import ranks
import torch
import torch.distributed as dist
from scipy.stats import spearmanr, t
from torch.distributed.optim import _apply_optimizer_in_backward
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
from torchrec.distributed.planner.types import ParameterConstraints
from torchrec.distributed.types import ShardingEnv
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

import plimsoll
from plimsoll.calibration._machine import are_steps_processor_time
from plimsoll.options import STEP_MODEL
from plimsoll.torchrec import Planner

BATCH_SIZE = 512
# Tables as (rows, columns, ids a sample).
MODELS = {
    "heavy look-ups": [(200_000, 64, 20 + 4 * i) for i in range(10)],
    "wide outputs": [(100_000, 256, 1 + i % 2) for i in range(14)],
    "many small": [(2_000 + 400 * i, 32, 1 + i % 5) for i in range(44)],
    "one dominant": [(2_000_000, 128, 30), *[(50_000, 32, 2)] * 7],
    "two large": [(1_000_000, 64, 20), (800_000, 128, 10), *[(20_000, 64, 4)] * 10],
    "narrow": [(30_000 + 5_000 * i, 16, 10 + i % 8) for i in range(24)],
    "mixed widths": [(60_000 + 3_000 * i, (16, 64, 256)[i % 3], 2 + i % 6) for i in range(18)],
    "few": [(150_000 * (1 + i), 128, 8 + 8 * i) for i in range(4)],
    "wide and one large": [(1_500_000, 128, 4), *[(40_000 + 5_000 * i, 256, 1) for i in range(9)]],
    "wide, many ids": [(60_000 + 9_000 * i, 256, 3 + 2 * i) for i in range(7)],
    "very wide": [(20_000 + 2_000 * i, 512, 1 + i % 3) for i in range(6)],
    "two widths": [(50_000, 16 if i % 2 else 384, 1 + i % 4) for i in range(12)],
    "odd tables": [(90_000 - 6_000 * i, 192, 1 + i % 2) for i in range(11)],
    "three wide": [(120_000, 320, 2), (90_000, 256, 5), (30_000, 448, 1)],
    "DLRM-DCNv2": [
        (min(table["num_embeddings"], 400_000), 128, int(table["constraints"]["pooling_factors"][0]))
        for table in plimsoll.models("mlperf-dlrm-dcnv2")["modules"][0]["tables"]
    ],
    "histories": [
        *[(400_000, 64, 100), (100_000, 64, 50), (50_000, 32, 50)],
        *[(2_000 * (i + 1), 32, 1 + i % 3) for i in range(20)],
    ],
    "skewed sizes": [
        (50 + int(1_000_000 / (i + 1) ** 1.3), (128, 64, 32)[i % 3], max(1, 40 // (i + 1))) for i in range(30)
    ],
    "news": [
        *[(250_000, 256, 10), (80_000, 256, 20), (30_000, 128, 5), (10_000, 128, 5)],
        *[(2_000, 64, 2), (400, 64, 1), (60, 32, 1)],
    ],
    "advertising": [
        (20_000 * (1 + 7 * i % 13), (32, 64, 128, 256)[i % 4], (1, 1, 2, 5, 10, 30)[i % 6]) for i in range(32)
    ],
}


def make_module(tables):
    module = cases.bags([(f"t{i}", rows, columns) for i, (rows, columns, _) in enumerate(tables)])
    _apply_optimizer_in_backward(torch.optim.SGD, module.parameters(), {"lr": 0.01})
    return module


def make_plan(kind, tables, world_size):
    """(planner, plan)."""
    planner = kind(
        topology=Topology(world_size=world_size, local_world_size=world_size, compute_device="cpu"),
        batch_size=BATCH_SIZE,
        constraints={f"t{i}": ParameterConstraints(pooling_factors=[float(ids)]) for i, (*_, ids) in enumerate(tables)},
        stats=[],
    )
    return planner, planner.plan(make_module(tables), [EmbeddingBagCollectionSharder()])


def fill(weights):
    """Random values would take longer than the steps."""
    return torch.nn.init.constant_(weights, 0.01)


def make_model(plan, tables):
    module = make_module(tables)
    for config in module.embedding_bag_configs():
        config.init_fn = fill
    return DistributedModelParallel(
        module,
        env=ShardingEnv.from_process_group(dist.group.WORLD),
        plan=plan,
        sharders=[EmbeddingBagCollectionSharder()],
        device=torch.device("cpu"),
    )


def types_of(plan):
    types = [sharding.sharding_type for sharding in plan.plan[""].values()]
    return ", ".join(f"{types.count(kind)} {kind}" for kind in sorted(set(types)))


def shards_of_ranks(plan, tables):
    """What each rank holds, whichever rank it is and whichever of equal tables."""
    found = {}
    for table, sharding in zip(tables, plan.plan[""].values(), strict=True):
        shards = getattr(sharding.sharding_spec, "shards", None)
        for shard in shards or [None]:
            rank = shard.placement.rank() if shard else "all"
            found.setdefault(rank, []).append(
                (table, sharding.sharding_type, tuple(shard.shard_sizes if shard else ()))
            )
    return sorted(sorted(held) for held in found.values())


def batch_of(tables, seed):
    generator = torch.Generator().manual_seed(seed)
    return KeyedJaggedTensor(
        keys=[f"f_t{i}" for i in range(len(tables))],
        values=torch.cat([torch.randint(0, r, (BATCH_SIZE * ids,), generator=generator) for r, _, ids in tables]),
        lengths=torch.cat([torch.full((BATCH_SIZE,), ids) for *_, ids in tables]),
    )


def run_steps(rank, tables, models, steps, seed=7):
    """[(model, processor seconds, seconds)] of `steps` steps of every model, in one random order."""
    order = [i % len(models) for i in range(len(models) * steps)]
    random.Random(seed).shuffle(order)
    batches = [batch_of(tables, 10 * i + rank) for i in range(4)]
    spent = []
    for step, which in enumerate([*range(len(models)), *order]):
        dist.barrier()
        begin, begin_clock = time.process_time(), time.perf_counter()
        out = models[which](batches[step % 4]).wait()
        out.values().sum().backward()
        spent.append((which, time.process_time() - begin, time.perf_counter() - begin_clock))
    return spent[len(models) :]


def low(values):
    return statistics.quantiles(values, n=10)[0]


def low_ms(spent, num_models):
    """[ms of the slowest rank, of every step's slowest rank, of that on the clock] of each model; `spent` by rank."""
    found = []
    for model in range(num_models):
        steps = [[1000 * s for which, s, _ in rank if which == model] for rank in spent]
        clock = [[1000 * s for which, _, s in rank if which == model] for rank in spent]
        found.append((max(map(low, steps)), low(list(map(max, *steps))), low(list(map(max, *clock)))))
    return found


def work(rank, tables, plans, steps, seed):
    return run_steps(rank, tables, [make_model(plan, tables) for plan in plans], steps, seed)


def run_round(number, world_size, tables, ours, own, steps):
    """[(ours, TorchRec's)], ms: by slowest rank, by every step, on the clock."""
    outer, inner = (ours, own) if number % 2 == 0 else (own, ours)
    plans = [outer, inner, inner, outer]
    ms = low_ms(ranks.run(world_size, work, tables, plans, steps, number), 4)
    pairs = [((a + d) / 2, (b + c) / 2) for a, b, c, d in zip(*ms, strict=True)]
    return pairs if number % 2 == 0 else [pair[::-1] for pair in pairs]


def ratio_and_noise(pairs):
    logs = [math.log(ours / own) for ours, own in pairs]
    quantile = t.ppf(0.975, len(logs) - 1)
    return math.exp(statistics.fmean(logs)), quantile * statistics.stdev(logs) / math.sqrt(len(logs))


@dataclass
class Row:
    """What was measured of a model; pairs are of our plan and of TorchRec's, ms.

    `measured` is what predictions are of.
    """

    name: str
    measured: tuple[float, float]
    predicted: tuple[float, float]
    ratio: float
    noise: float
    types: tuple[str, str]

    def errors(self):
        return [told / ms - 1 for told, ms in zip(self.predicted, self.measured)]


def medians(pairs):
    return tuple(statistics.median(ms) for ms in zip(*pairs, strict=True))


def compare(name, tables, planner, options, is_clock):
    """The Row; None where the plans are equal."""
    made, ours = make_plan(planner, tables, options.ranks)
    _, own = make_plan(EmbeddingShardingPlanner, tables, options.ranks)
    if shards_of_ranks(ours, tables) == shards_of_ranks(own, tables):
        return None
    steps = max(options.steps // options.rounds, 10)
    rounds = [run_round(number, options.ranks, tables, ours, own, steps) for number in range(options.rounds)]
    by_rank, by_step, by_clock = zip(*rounds, strict=True)
    spent, clock = medians(by_rank), medians(by_clock)
    predicted = (made.times["time"], made.reference["time"])
    measured = clock if is_clock else spent
    row = Row(name, measured, predicted, *ratio_and_noise(by_rank), (types_of(ours), types_of(own)))
    ratios = [f"{number:.3f}" for pairs in (by_step, by_clock) for number in ratio_and_noise(pairs)]
    cells = [f"{a:.2f}, {b:.2f}" for a, b in (spent, clock, predicted)]
    cells += [f"{row.ratio:.3f}", f"{row.noise:.3f}", f"{predicted[0] / predicted[1]:.3f}", *ratios, *row.types]
    print(f"| {name} | {' | '.join(cells)} |", flush=True)
    return row


def summarize(rows, stated):
    """What the rows say together; `stated` is the error that nine of ten predictions should keep, or None."""
    other = [row for row in rows if row.types[0] != row.types[1]]
    slower = [row.name for row in rows if row.ratio > 1 + row.noise]
    print(f"slower beyond the noise: {', '.join(slower) or 'none of'} {len(rows)} models")
    if other:
        mean = math.exp(statistics.fmean(math.log(row.ratio) for row in other))
        print(f"with other sharding types: {len(other)} models, mean ratio {mean:.3f}")
    errors = [error for row in rows for error in row.errors()]
    order = spearmanr(*zip(*[(told, ms) for row in rows for told, ms in zip(row.predicted, row.measured)])).statistic
    print(
        f"predictions: mean error {statistics.fmean(map(abs, errors)):.1%}, worst {max(errors, key=abs):+.1%},"
        f" rank correlation of all steps {order:.2f}"
    )
    if stated is not None:
        beyond = [
            f"{row.name} ({max(row.errors(), key=abs):+.0%})" for row in rows if max(map(abs, row.errors())) > stated
        ]
        print(f"off by more than the stated {stated:.0%}: {', '.join(beyond) or 'none'}")


def parse():
    parser = argparse.ArgumentParser(description="Steps under our plan and under TorchRec's, on gloo ranks.")
    parser.add_argument("--machine", type=pathlib.Path, help="a machine document, or a step model")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=120, help="of each module, in all rounds together")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--models", type=lambda text: text.split(","), default=list(MODELS))
    parser.add_argument("--quick", action="store_true", help="one model, two rounds")
    options = parser.parse_args()
    if options.quick:
        options.models, options.rounds = ["many small"], 2
    return options


def main():
    options = parse()
    planner, stated, is_clock = Planner, None, False
    if options.machine:
        document = json.loads(options.machine.read_text())
        if document["schema"] == "plimsoll.machine/1":
            planner = functools.partial(Planner, machine=document)
            if "step" in document:
                stated = document["step"].get("held_out_models", {}).get("p90")
                is_clock = not are_steps_processor_time(document)
        else:
            planner = functools.partial(Planner, step_model={name: document[name] for name in STEP_MODEL})
    print(
        "| model | ms: ours, TorchRec's | clock | predicted | ratio | noise | predicted ratio | every step | noise"
        " | clock | noise | ours | TorchRec's |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    rows = {name: compare(name, MODELS[name], planner, options, is_clock) for name in options.models}
    equal = [name for name, row in rows.items() if row is None]
    print(f"equal plans: {', '.join(equal) or 'none'}")
    found = [row for row in rows.values() if row is not None]
    if found:
        summarize(found, stated)


if __name__ == "__main__":
    main()
