"""`import plimsoll`: plans on plain data."""

import json
import math
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import plimsoll
from plimsoll import _interrupt

MODEL = {
    "tables": [
        {"name": f"t{i}", "num_embeddings": 1000 * (i + 1), "embedding_dim": 64, "feature_names": [f"f{i}"]}
        for i in range(6)
    ]
}


@pytest.fixture(scope="module")
def plan():
    return plimsoll.shard(MODEL, on="4x16GiB", batch_size=256)


def run_python(program, *flags):
    return subprocess.run([sys.executable, *flags, "-c", program], capture_output=True, text=True, timeout=120)


def test_import_leaves_torch_out():
    done = run_python(
        "import sys, plimsoll; assert not {'torch', 'torchrec', 'matplotlib'} & set(sys.modules), sys.modules"
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("module", "use", "extra"),
    [
        ("torchrec", "import plimsoll.torchrec", "torchrec"),
        ("torchrec", "import plimsoll; plimsoll.torchrec.Planner", "torchrec"),
        ("matplotlib", "import plimsoll; plimsoll.Frontier({'frontier': []}).plot()", "plot"),
    ],
)
def test_a_missing_extra_is_one_import_error_that_names_it(module, use, extra):
    done = run_python(f"import sys; sys.modules['{module}'] = None\n{use}")
    assert done.returncode == 1
    assert f"pip install 'plimsoll[{extra}]'" in done.stderr.splitlines()[-1]
    assert done.stderr.splitlines()[-1].startswith("ImportError")


def test_the_version_is_the_programs():
    import pathlib

    root = pathlib.Path(__file__).resolve().parents[2]
    assert plimsoll.__version__ == (root / "VERSION").read_text().strip()


def test_a_plan_says_what_the_program_says(plan):
    assert plan.status in ("optimal", "feasible")
    assert plan.rating > 0 and plan.certificate.lower_bound <= plan.certificate.objective
    assert math.isclose(
        plan.certificate.gap, plan.certificate.objective / plan.certificate.lower_bound - 1, abs_tol=1e-12
    )
    assert sorted(table["table"] for table in plan.tables) == [f"t{i}" for i in range(6)]
    assert plan.ms["total"].shape == (4,) and np.isclose(plan.ms["total"].max(), plan.rating)
    assert plan.bytes["hbm"].dtype == np.int64


def test_a_plan_survives_pickle_json_and_file(plan, tmp_path):
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert plimsoll.ShardingPlan.from_json(plan.to_json()) == plan
    plan.save(tmp_path / "plan.json")
    assert plimsoll.ShardingPlan.load(tmp_path / "plan.json") == plan


def test_the_judge_takes_plan_and_file(plan, tmp_path):
    assert plimsoll.check(MODEL, plan, on="4x16GiB", batch_size=256).is_right
    plan.save(tmp_path / "plan.json")
    report = plimsoll.check(MODEL, tmp_path / "plan.json", on="4x1MiB", batch_size=256)
    assert {finding["code"] for finding in report.violations} >= {"over_capacity"}
    assert "over_capacity" in report._repr_html_()


def test_bad_input_is_an_error_with_place_and_remedy():
    with pytest.raises(plimsoll.Error, match="num_embeddings") as caught:
        plimsoll.shard({"tables": [{"name": "t", "embedding_dim": 64}]}, on="4x16GiB")
    assert caught.value.place.startswith("model.json#")  # no path of ours
    assert pickle.loads(pickle.dumps(caught.value)).place == caught.value.place
    with pytest.raises(plimsoll.Error, match="--batch-sise"):
        plimsoll.shard(MODEL, on="4x16GiB", batch_sise=3)


def test_checkpointing_gives_policy_and_frontier():
    policy = plimsoll.checkpoint("llama-3-8b", "70%")
    assert policy.units and policy.peak_bytes > 0 and policy.recompute_ms >= 0
    frontier = plimsoll.frontier("llama-3-8b")
    assert len(frontier.peak) > 2
    assert (np.diff(frontier.peak) > 0).all() and (np.diff(frontier.ms) <= 0).all()
    assert pickle.loads(pickle.dumps(frontier)) == frontier
    assert plimsoll.check("llama-3-8b", policy).is_right


def test_partitioning_gives_a_placement():
    graph = plimsoll.models()["graphs"][0]["id"]
    placement = plimsoll.partition(graph)
    assert placement.stages and placement.certificate.lower_bound <= placement.certificate.objective
    assert plimsoll.check(graph, placement).is_right


def test_answers_show_themselves(plan):
    pytest.importorskip("matplotlib").use("Agg")
    frontier = plimsoll.frontier("llama-3-8b")
    placement = plimsoll.partition(plimsoll.models()["graphs"][0]["id"])
    for answer in (plan, frontier, placement):
        assert "<table>" in answer._repr_html_()
        axes = answer.plot()
        assert axes.get_title()
    assert "t3" in plan._repr_html_() and "&lt;" not in plan._repr_html_()
    assert (
        "&lt;b&gt;"
        in plimsoll.ShardingPlan(
            {"tables": [{"table": "<b>", "sharding_type": "", "compute_kernel": ""}]}
        )._repr_html_()
    )


def test_progress_is_told_and_what_it_raises_comes_back():
    seen = []
    plimsoll.shard(MODEL, on="4x16GiB", search="torchrec", progress=lambda *told: seen.append(told))
    assert seen and seen[0][0] >= 1 and seen[0][1] > 0

    def fail(*_):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        plimsoll.shard(MODEL, on="4x16GiB", search="torchrec", progress=fail)


def test_searches_run_beside_each_other():
    plans = [None] * 4

    def work(i):
        plans[i] = plimsoll.shard(MODEL, on="4x16GiB", batch_size=256)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(plan == plans[0] for plan in plans) and plans[0].tables


def test_the_lock_is_free_while_a_search_runs():
    done = threading.Event()
    ticks = []

    def tick():
        while not done.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        plimsoll.shard("mlperf-dlrm-dcnv2", on="dgx-h100:2", search="balanced", time_limit="300ms")
    finally:
        done.set()
        thread.join()
    assert len(ticks) > 20


@pytest.fixture
def hears_interrupts():
    """What is started in the background may have been told to ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("hears_interrupts")
def test_the_first_interrupt_returns_the_best_so_far():
    threading.Timer(0.5, lambda: signal.raise_signal(signal.SIGINT)).start()
    plan = plimsoll.shard("mlperf-dlrm-dcnv2", on="16x40GiB", search="balanced", effort=10**12, time_limit="60s")
    assert plan.stop == "cancelled" and plan.tables


@pytest.mark.usefixtures("hears_interrupts")
def test_the_second_interrupt_raises():
    cancelled = threading.Event()
    gone = threading.Event()

    def search(cancel):
        class Watch:
            def set(self):
                cancelled.set()

        call.cancel = Watch()
        gone.wait(20)  # a search that does not listen

    call = _interrupt._Call(search)

    def interrupt():
        time.sleep(0.2)
        signal.raise_signal(signal.SIGINT)
        assert cancelled.wait(5)
        time.sleep(0.1)
        signal.raise_signal(signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        call.run()
    gone.set()


def test_the_console_script_is_the_program():
    done = run_python("import sys; from plimsoll._command import main; sys.argv[1:] = ['--version']; sys.exit(main())")
    assert done.stdout == f"plimsoll {plimsoll.__version__}\n" and done.returncode == 0
    done = run_python("import sys; from plimsoll._command import main; sys.argv[1:] = ['shrad']; sys.exit(main())")
    assert done.returncode == 1 and "did you mean 'shard'" in done.stderr


def test_documents_that_come_along():
    assert plimsoll.models("mlperf-dlrm-dcnv2")["modules"]
    assert plimsoll.hardware()["schema"] == "plimsoll.hardware/1"
    assert plimsoll.schema("plan")["title"] == "plimsoll.plan/1"
    json.dumps(plimsoll.models())
