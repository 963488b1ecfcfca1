"""Bytes that ranks keep between two steps: measured, by our bill, and as TorchRec counts them; on gloo ranks.

Usage: PYTHONPATH=build/python build/python-env/bin/python bench/embedding/resident_memory.py [--quick]

Four tables of 128 MB (32 with --quick), 1,024 samples a rank, 4 ids a feature; *sequences* are EmbeddingCollections.
*Built* are the weights, the optimizer state and the buckets of gradients before the first step. *Kept* are the storages
of all tensors that Python reaches after five steps of the pipeline, *process* is how much more of the process is
resident than before the model was built, which has the allocator's spare memory and the kernels' workspaces in it. MB
of 10^6 bytes, of the rank that keeps most.
"""

from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "python"))

import residents
from residents import Case

CASES = [
    Case(("table_wise",), "sgd"),
    Case(("table_wise",), "rowwise_adagrad", "train_sparse_dist"),
    Case(("row_wise",), "adagrad", "train_sparse_dist"),
    Case(("column_wise",), "rowwise_adagrad", "train_sparse_dist"),
    Case(("data_parallel",), "sgd", "train_base"),
    Case(("data_parallel",), "adagrad", "train_base"),
    Case(("data_parallel",), "adagrad", "train_base", data_type="fp16"),
    Case(("table_wise", "row_wise", "data_parallel", "column_wise"), "rowwise_adagrad", "train_sparse_dist"),
    Case(("table_wise",), "sgd", kind="sequences"),
    Case(("table_wise",), "rowwise_adagrad", "train_sparse_dist", kind="sequences"),
    Case(("row_wise",), "adagrad", "train_sparse_dist", kind="sequences"),
    Case(("column_wise",), "rowwise_adagrad", "train_sparse_dist", kind="sequences"),
    Case(("table_wise", "row_wise", "column_wise"), "sgd", "train_sparse_dist", kind="sequences"),
    Case(("table_row_wise",), "adagrad", "train_sparse_dist", world_size=4),
    Case(("grid_shard",), "rowwise_adagrad", "train_sparse_dist", world_size=4),
]


def main() -> None:
    rows = 62_500 if "--quick" in sys.argv else 250_000
    residents.TABLES = [(f"t{i}", rows, 128) for i in range(4)]
    print(
        "| types | optimizer, pipeline, weights | TorchRec | bill | built | kept | process | largest error of a cause |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for case in CASES:
        bill, found = residents.measure(case)
        rank = max(range(case.world_size), key=lambda r: found[r]["all"])
        worst = 0.0
        for r, kept in enumerate(found):
            for cause in residents.CAUSES:
                stated = int(bill.get(f"resident_hbm_{cause}", [0] * case.world_size)[r])
                worst = max(worst, abs(kept[cause] - stated) / max(kept[cause], 1) if kept[cause] != stated else 0.0)
        built = sum(found[rank]["built"][cause] for cause in ("weights", "optimizer_state", "gradients"))
        figures = [bill["hbm"][rank], bill["resident_hbm"][rank], built, found[rank]["all"], found[rank]["process"]]
        kinds = ("sequences: " if case.kind == "sequences" else "") + ", ".join(dict.fromkeys(case.types))
        about = f"{case.optimizer}, {case.pipeline}, {case.data_type}"
        print(
            f"| {kinds} | {about} | " + " | ".join(f"{v / 1e6:,.1f}" for v in figures) + f" | {worst:.2%} |", flush=True
        )


if __name__ == "__main__":
    main()
