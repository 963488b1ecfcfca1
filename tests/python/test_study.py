"""plimsoll.explain, plimsoll.size, plimsoll.whatif, and what answers without a plan say."""

import concurrent.futures
import json
import math
import pathlib
import pickle
import subprocess
import sys

import pytest

import plimsoll

DLRM = "mlperf-dlrm-dcnv2"
TABLES = [{"name": f"t{i}", "num_embeddings": 20_000 * (i + 1), "embedding_dim": 64} for i in range(6)]
MODEL = {"modules": [{"path": "ebc", "tables": TABLES}]}
SWEEP = {"ranks": [4, 8, 16], "batch_size": "256:1024"}
POINTS = 9


def test_an_answer_without_a_plan_has_cap_conflict_and_fixes():
    none = plimsoll.shard(DLRM, on="8x28GiB", ddr_cap="0", batch_size=4096)
    assert none.status == "infeasible" and none.cap == "hbm" and none.missing_bytes > 0
    assert {member["kind"] for member in none.conflict} == {"cap", "reservation"}
    times = [fix["ms"] for fix in none.fixes]
    assert len(times) >= 4 and times == sorted(times)
    reservation = next(fix["change"] for fix in none.fixes if fix["kind"] == "reservation")
    plan = plimsoll.shard(DLRM, on="8x28GiB", ddr_cap="0", batch_size=4096, reservation=reservation.split(" ")[1])
    assert plan.tables and plan.cap == "" and plan.conflict == [] and plan.fixes == [] and plan.missing_bytes == 0


def test_checkpointing_and_partitioning_without_a_plan():
    none = plimsoll.checkpoint("llama-3-8b", 30 << 30)
    assert none.cap == "budget" and none.fixes[0]["ms"] > 0
    placement = plimsoll.partition("bert24-training", memory="256MiB", devices="cpu=0")
    assert [member["name"] for member in placement.conflict] == ["--memory 256MiB"]
    assert placement.fixes


def test_a_plan_is_explained():
    plan = plimsoll.shard(MODEL, on="2x1GiB")
    told = plimsoll.explain(MODEL, plan, on="2x1GiB")
    assert isinstance(told, plimsoll.Explanation)
    assert math.isclose(sum(table["ms"] for table in told.tables), plan.rating)
    assert plan.ms["total"][told.slowest_rank] == plan.rating
    assert told.certificate.lower_bound == plan.certificate.lower_bound
    assert [rate["ms_per_gb_per_s"] for rate in told.rates] == sorted(
        (rate["ms_per_gb_per_s"] for rate in told.rates), reverse=True
    )
    assert all(change["ms"] < told.ms for change in told.faster)
    assert pickle.loads(pickle.dumps(told)) == told and "slowest rank" in repr(told) and "<table>" in told._repr_html_()
    made = plimsoll.explain(MODEL, on="2x1GiB")
    assert made.ms == told.ms


def test_what_has_no_plan_is_explained():
    none = plimsoll.explain(DLRM, on="8x28GiB", ddr_cap="0", batch_size=4096)
    assert isinstance(none, plimsoll.ShardingPlan) and none.fixes


def test_the_smallest_machine_is_found():
    calls = []
    size = plimsoll.size(DLRM, "dgx-h100", ddr_cap="0", progress=lambda *call: calls.append(call))
    assert size.is_smallest and size.machine["verdict"] == "enough"
    assert len(calls) == len(size.machines)
    assert plimsoll.shard(DLRM, on=size.machine["on"], ddr_cap="0").tables
    cheapest = plimsoll.size(
        DLRM,
        ["dgx-h100", "dgx-a100-320gb"],
        ddr_cap="0",
        price={"prices": {"dgx-h100": {"per_host": 90}, "dgx-a100-320gb": {"per_rank": 1}}},
    )
    assert cheapest.machine["on"].startswith("dgx-a100") and "rank" in repr(cheapest)
    none = plimsoll.size(DLRM, accelerator="h100-sxm", within="1us", max_ranks=8)
    assert none.machine is None
    assert plimsoll.size("bert24-training", within="60ms").machine["ranks"] > 1


def test_a_sweep_has_a_row_for_every_point():
    sweep = plimsoll.whatif(MODEL, "dgx-h100", **SWEEP)
    assert [(row["ranks"], row["batch_size"]) for row in sweep.rows] == [
        (ranks, batch) for ranks in (4, 8, 16) for batch in (256, 512, 1024)
    ]
    assert sweep.pareto and all(row["is_pareto"] for row in sweep.pareto)
    assert plimsoll.whatif(MODEL, ["dgx-h100"], threads=1, **SWEEP) == sweep
    half = {**sweep.document, "rows": sweep.rows[:4]}
    assert plimsoll.whatif(MODEL, "dgx-h100", resume=half, **SWEEP) == sweep
    assert plimsoll.whatif(MODEL, "dgx-h100", resume=sweep, **SWEEP) == sweep


@pytest.mark.parametrize("kind", [concurrent.futures.ThreadPoolExecutor, concurrent.futures.ProcessPoolExecutor])
def test_a_sweep_over_an_executor_is_the_same(kind):
    calls = []
    prices = {"prices": {"dgx-h100": {"per_host": 90}}}
    with kind(2) as executor:
        sweep = plimsoll.whatif(
            MODEL,
            "dgx-h100",
            price=prices,
            executor=executor,
            parts=4,
            progress=lambda *call: calls.append(call),
            **SWEEP,
        )
    assert sweep == plimsoll.whatif(MODEL, "dgx-h100", price=prices, **SWEEP)
    assert calls == [(done, None, None) for done in range(1, 5)]


def test_a_sweep_over_dask_is_the_same():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        sweep = plimsoll.whatif(MODEL, "dgx-h100", executor=client.get_executor(), parts=3, **SWEEP)
    assert sweep == plimsoll.whatif(MODEL, "dgx-h100", **SWEEP)


MPI_PROGRAM = """
import json, sys
from mpi4py.futures import MPIPoolExecutor
import plimsoll

if __name__ == "__main__":
    model, sweep = json.loads(sys.argv[1])
    with MPIPoolExecutor() as executor:
        made = plimsoll.whatif(model, "dgx-h100", executor=executor, parts=3, **sweep)
        workers = executor.num_workers
    print(json.dumps([workers, made.document]))
"""


def test_a_sweep_over_mpi_is_the_same(tmp_path):
    pytest.importorskip("mpi4py")
    launcher = pathlib.Path(sys.prefix, "bin", "mpiexec")
    program = tmp_path / "program.py"
    program.write_text(MPI_PROGRAM)
    made = subprocess.run(
        [launcher, "-n", "3", sys.executable, "-m", "mpi4py.futures", program, json.dumps([MODEL, SWEEP])],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert made.returncode == 0, made.stderr
    workers, document = json.loads(made.stdout)
    assert workers == 2
    assert document == plimsoll.whatif(MODEL, "dgx-h100", **SWEEP).document


def test_a_sweep_that_is_cut_over_an_executor_says_so():
    with concurrent.futures.ThreadPoolExecutor(2) as executor:
        cut = plimsoll.whatif(MODEL, "dgx-h100", executor=executor, parts=2, time_limit="0.001ms", **SWEEP)
    assert cut.stop == "deadline" and cut.rows == []


def test_errors_name_what_is_wrong():
    for call in (
        lambda: plimsoll.whatif(MODEL, "dgx-nil", ranks=8),
        lambda: plimsoll.whatif(MODEL, "dgx-h100", ranks="8:4"),
        lambda: plimsoll.size(MODEL),
        lambda: plimsoll.explain(MODEL, {"schema": "plimsoll.placement/1", "stages": []}, on="2x1GiB"),
    ):
        with pytest.raises(plimsoll.Error):
            call()
