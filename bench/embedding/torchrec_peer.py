"""TorchRec's own planner and ours on the same inputs, in the same run.

Usage: python bench/embedding/torchrec_peer.py PLIMSOLL [REPEATS] [--quick]

PLIMSOLL is the program; the Python that runs this script has torchrec 1.8.0 (scripts/make_peer_environment.sh makes
one). Prints one row per case: processor seconds of TorchRec's plan() and of our whole program (reading the model and
writing JSON included), medians over REPEATS, and both ratings, proposals and plans. Ours is
`--search torchrec`: the run fails where the ratings differ. With --quick one small model, once.
"""

import json
import logging
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)

import torch  # noqa: E402
import torchrec  # noqa: E402
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder  # noqa: E402
from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology  # noqa: E402
from torchrec.distributed.planner.proposers import DynamicProgrammingProposer  # noqa: E402
from torchrec.distributed.planner.types import ParameterConstraints  # noqa: E402
from torchrec.modules.embedding_configs import EmbeddingBagConfig  # noqa: E402
from torchrec.modules.embedding_modules import EmbeddingBagCollection  # noqa: E402

GIB = 2**30


def collection(tables):
    return EmbeddingBagCollection(
        device=torch.device("meta"),
        tables=[
            EmbeddingBagConfig(
                name=table["name"],
                num_embeddings=table["num_embeddings"],
                embedding_dim=table["embedding_dim"],
                feature_names=[table["name"]],
            )
            for table in tables
        ],
    )


def run_torchrec(model, ranks, gib, batch_size, proposer):
    tables = model["tables"]
    constraints = {
        table["name"]: ParameterConstraints(pooling_factors=table["constraints"]["pooling_factors"]) for table in tables
    }
    planner = EmbeddingShardingPlanner(
        topology=Topology(world_size=ranks, local_world_size=min(8, ranks), compute_device="cuda", hbm_cap=gib * GIB),
        batch_size=batch_size,
        constraints=constraints,
        proposer=DynamicProgrammingProposer() if proposer == "dynamic_programming" else None,
    )
    module = collection(tables)
    begin = time.process_time()
    planner.plan(module, [EmbeddingBagCollectionSharder()])
    seconds = time.process_time() - begin
    rating = planner._perf_model.rate(planner._best_plan)
    return seconds, rating, planner._num_proposals, planner._num_plans


def run_plimsoll(program, model, ranks, gib, batch_size, proposer):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(model, file)
        file.flush()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [
                program,
                "shard",
                file.name,
                "--on",
                f"{ranks}x{gib}GiB",
                "--cost-model",
                "torchrec-1.8",
                "--search",
                "torchrec",
                "--batch-size",
                str(batch_size),
                "--proposer",
                proposer,
                "--json",
                "-q",
            ],
            capture_output=True,
            text=True,
            check=True,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    answer = json.loads(done.stdout)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, answer["rating"]


def dcnv2(program):
    text = subprocess.run([program, "models", "mlperf-dlrm-dcnv2"], capture_output=True, text=True, check=True).stdout
    module = json.loads(text)["modules"][0]
    # TorchRec's collection is the root module here; so is ours.
    return {
        "tables": [
            {key: table[key] for key in ("name", "num_embeddings", "embedding_dim", "constraints")}
            for table in module["tables"]
        ]
    }


def random_tables(count):
    # The generator's state is ours, so every run sees the same tables.
    state = 1
    tables = []
    for t in range(count):
        values = []
        for _ in range(3):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            values.append((state >> 11) / 2**53)
        tables.append(
            {
                "name": f"t{t}",
                "num_embeddings": int(10 ** (3 + 4 * values[0])),
                "embedding_dim": 16 << int(5 * values[1]),
                "constraints": {"pooling_factors": [round(100 ** values[2], 1)]},
            }
        )
    return {"tables": tables}


def main():
    arguments = [word for word in sys.argv[1:] if word != "--quick"]
    is_quick = len(arguments) < len(sys.argv) - 1
    program = arguments[0]
    repeats = int(arguments[1]) if len(arguments) > 1 else 1 if is_quick else 3
    cases = [
        ("DCNv2 8 x 80 GiB, batch 8192", dcnv2(program), 8, 80, 8192, "default"),
        ("DCNv2 8 x 80 GiB, batch 8192", dcnv2(program), 8, 80, 8192, "dynamic_programming"),
        ("DCNv2 16 x 40 GiB, batch 4096", dcnv2(program), 16, 40, 4096, "default"),
        ("DCNv2 16 x 40 GiB, batch 4096", dcnv2(program), 16, 40, 4096, "dynamic_programming"),
        ("random 100 x 8 x 32 GiB", random_tables(100), 8, 32, 1024, "default"),
        ("random 100 x 8 x 32 GiB", random_tables(100), 8, 32, 1024, "dynamic_programming"),
    ]
    if is_quick:
        kinds = ("default", "dynamic_programming")
        cases = [("random 10 x 4 x 32 GiB", random_tables(10), 4, 32, 1024, kind) for kind in kinds]
    print(f"torch {torch.__version__}, torchrec {torchrec.__version__}; processor seconds, medians of {repeats}")
    print(
        "| case | proposer | TorchRec s | Plimsoll s | ratio | TorchRec rating | Plimsoll rating | proposals / plans |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name, model, ranks, gib, batch_size, proposer in cases:
        theirs = [run_torchrec(model, ranks, gib, batch_size, proposer) for _ in range(repeats)]
        ours = [run_plimsoll(program, model, ranks, gib, batch_size, proposer) for _ in range(repeats)]
        a = statistics.median(run[0] for run in theirs)
        b = statistics.median(run[0] for run in ours)
        print(
            f"| {name} | {proposer} | {a:.3f} | {b:.4f} | {a / b:.0f} | {theirs[0][1]!r} | {ours[0][1]!r} | "
            f"{theirs[0][2]} / {theirs[0][3]} |",
            flush=True,
        )
        if theirs[0][1] != ours[0][1]:
            print("ratings differ", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
