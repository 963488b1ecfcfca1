"""`import plimsoll`: plans on plain data."""

import copy
import json
import math
import pathlib
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


def two_layers():
    """Statistics that torch's own program plans at once."""
    gb = 10**9

    def module(fqn, kept, total):
        return {
            "fqn": fqn,
            "is_leaf": False,
            "param_per_module": gb // 2,
            "grad_total": gb // 3,
            "act_fw_per_module": kept * gb // 10,
            "act_grad_per_module": gb // 10,
            "act_total": total * gb // 10,
            "output_per_module": gb // 10,
            "fw_runtime_per_module": 1.0,
            "bw_runtime_per_module": 2.0,
            "sac_runtime": 4.0,
            "sac_memory": kept * gb // 10,
            "n_segments": 2,
            "slopes": [0.5, 2.0],
            "intercepts": [0.0, -1.0],
            "breakpoints": [0.0, 0.6, 1.0],
        }

    modules = [module("R", 60, 62), module("R.a", 30, 31), module("R.b", 29, 61)]
    return {
        "schema": "plimsoll.module_stats/1",
        "mod_order": {"fw_pre_order": ["R", "R.a", "R.b"], "fw_post_order": ["R.a", "R.b", "R"]},
        "mod_stats": modules,
        "total_step_peak": 8 * gb,
        "total_before_root_bw": 7 * gb,
    }


@pytest.fixture(scope="module")
def plan():
    return plimsoll.shard(MODEL, on="4x16GiB", batch_size=256)


def run_python(program, *flags):
    return subprocess.run([sys.executable, *flags, "-c", program], capture_output=True, text=True, timeout=120)


def test_import_leaves_torch_out():
    done = run_python(
        "import sys, plimsoll, plimsoll.graphs; assert not {'torch', 'torchrec', 'matplotlib'} & set(sys.modules)"
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("module", "use", "extra"),
    [
        ("torchrec", "import plimsoll.torchrec", "torchrec"),
        ("torchrec", "import plimsoll; plimsoll.torchrec.Planner", "torchrec"),
        ("torch", "import plimsoll; plimsoll.graphs.capture", "torch"),
        ("matplotlib", "import plimsoll; plimsoll.Frontier({'frontier': []}).plot()", "plot"),
    ],
)
def test_a_missing_extra_is_one_import_error_that_names_it(module, use, extra):
    done = run_python(f"import sys; sys.modules['{module}'] = None\n{use}")
    assert done.returncode == 1
    assert f"pip install 'plimsoll-planner[{extra}]'" in done.stderr.splitlines()[-1]
    assert done.stderr.splitlines()[-1].startswith("ImportError")


def test_the_version_is_the_programs():
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


EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.parametrize(
    "make",
    [
        lambda: plimsoll.checkpoint("llama-3-8b", "70%"),
        lambda: plimsoll.checkpoint(EXAMPLES / "operator_table.json", "50%"),
        lambda: plimsoll.frontier("llama-3-8b"),
        lambda: plimsoll.partition(EXAMPLES / "graph.json"),
        lambda: plimsoll.check("llama-3-8b", plimsoll.checkpoint("llama-3-8b", "70%")),
        lambda: plimsoll.partition(GRAPH, objective="pipeline", microbatches=4, memory="30B"),
        lambda: plimsoll.partition(FX_GRAPH),
        lambda: plimsoll.partition(GRAPH, memory="14B"),
        lambda: plimsoll.shard(MODEL, on="4x1MiB", reservation="fixed_percentage:0"),
        lambda: plimsoll.checkpoint("llama-3-8b", 0, costs="fit"),
    ],
    ids=[
        "policy",
        "save_policy",
        "frontier",
        "placement",
        "report",
        "pipeline",
        "fx",
        "infeasible_placement",
        "no_plan",
        "infeasible_policy",
    ],
)
def test_every_answer_travels(make, tmp_path):
    answer = make()
    for again in (
        pickle.loads(pickle.dumps(answer)),
        copy.deepcopy(answer),
        type(answer).from_json(answer.to_json()),
    ):
        assert again == answer and type(again) is type(answer)
    answer.save(tmp_path / "answer.json")
    assert type(answer).load(tmp_path / "answer.json") == answer
    assert "<table>" in answer._repr_html_() and len(repr(answer).splitlines()) == 1


def test_arrays_that_were_looked_at_travel_too(plan):
    again = plimsoll.ShardingPlan(plan.document)
    first = again.ms["total"]
    assert again.ms["total"] is first  # made once
    copied = pickle.loads(pickle.dumps(again))
    assert copied == again and (copied.ms["total"] == first).all()


def test_single_values_are_chosen_of_an_operator_table():
    policy = plimsoll.checkpoint(EXAMPLES / "operator_table.json", "50%")
    assert isinstance(policy, plimsoll.SavePolicy) and policy.values
    kept = sum(value["memory"] for value in policy.values if value["save"])
    assert policy.saved_memory == pytest.approx(kept)
    assert policy.recompute_runtime == policy.certificate.objective > 0
    frontier = plimsoll.frontier(EXAMPLES / "operator_table.json")
    assert (np.diff(frontier.peak) > 0).all() and (np.diff(frontier.ms) < 0).all()


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
    with pytest.raises(TypeError, match="'batch_sise'; did you mean 'batch_size'"):
        plimsoll.shard(MODEL, on="4x16GiB", batch_sise=3)


def test_checkpointing_gives_policy_and_frontier():
    policy = plimsoll.checkpoint("llama-3-8b", "70%")
    assert policy.units and policy.peak_bytes > 0 and policy.recompute_ms >= 0
    frontier = plimsoll.frontier("llama-3-8b")
    assert len(frontier.peak) > 2
    assert (np.diff(frontier.peak) > 0).all() and (np.diff(frontier.ms) <= 0).all()
    assert pickle.loads(pickle.dumps(frontier)) == frontier
    assert plimsoll.check("llama-3-8b", policy).is_right


def test_checkpointing_answers_every_question():
    frontier = plimsoll.frontier("llama-3-8b", costs="fit")
    assert (frontier.ms_per_byte <= 0).all() and frontier.is_exact.all()
    at = frontier.peak[1]
    policy = plimsoll.checkpoint("llama-3-8b", int(at), costs="fit")
    assert math.isclose(policy.recompute_ms, frontier.ms[1], rel_tol=1e-9) and policy.smallest_budget is None
    assert plimsoll.checkpoint("llama-3-8b", overhead="5%").peak_bytes > 0
    assert plimsoll.checkpoint("llama-3-8b", knee=True).units
    none = plimsoll.checkpoint("llama-3-8b", 0, costs="fit")
    assert none.status == "infeasible" and none.smallest_budget == frontier.peak[0] and none.binding
    assert not none.units and "smallest feasible budget" in none.explanation[0]
    assert plimsoll.checkpoint("llama-3-8b", none.smallest_budget, costs="fit").peak_bytes == none.smallest_budget
    reference = plimsoll.checkpoint(two_layers(), "7GB", search="torch")
    assert reference.status == "optimal" and reference.units


def test_operator_tables_and_logs_give_a_save_policy():
    table = {
        "func_names": ["mm", "gelu", "dropout", "add"],
        "runtimes": [15, 5, 7, 5],
        "memory": [120, 100, 100, 0],
        "view_like_ops": [],
        "rand_ops": [2],
        "saved_autograd_ops": [],
        "inplace_ops": [],
        "force_store_random": False,
    }
    kept = plimsoll.checkpoint(table, 0.5, search="torch")
    assert isinstance(kept, plimsoll.SavePolicy) and kept.is_saved.tolist() == [True, False, False, True]
    choices = plimsoll.frontier(table).peak.tolist()
    assert choices == sorted(choices) and choices[0] == 0
    log = {
        "Joint Graph Node Information": {name: {"index": i} for i, name in enumerate(["mm", "gelu", "mm_1"])},
        "Joint Graph Edges": {"Total": 2, "Edges": [["mm", "gelu"], ["gelu", "mm_1"]]},
        "Recomputable Banned Nodes Order": ["mm", "gelu", "mm_1"],
        "Knapsack Input Memories": [0.4, 0.4, 0.1],
        "Knapsack Input Runtimes": [32768, 512, 8192],
    }
    for search in ("exact", "dp", "greedy", "ilp"):
        kept = plimsoll.checkpoint(log, 0.51, search=search)
        assert kept.is_saved.tolist() == [True, False, True] and "keep" in kept._repr_html_()


def test_partitioning_gives_a_placement():
    graph = plimsoll.models()["graphs"][0]["id"]
    placement = plimsoll.partition(graph)
    assert placement.stages and placement.certificate.lower_bound <= placement.certificate.objective
    assert plimsoll.check(graph, placement).is_right


# a → b → c, and c on no CPU; bytes in all 30.
GRAPH = {
    "maxSizePerFPGA": 20,
    "maxFPGAs": 2,
    "maxCPUs": 0,
    "nodes": [
        {"id": i, "supportedOnFpga": True, "cpuLatency": 9, "fpgaLatency": 1, "isBackwardNode": False, "size": 10}
        for i in range(3)
    ],
    "edges": [{"sourceId": i, "destId": i + 1, "cost": 0.25} for i in range(2)],
}
# torch.fx's: two modules on two devices.
FX_GRAPH = {
    "nodes": [
        {"name": "x", "op": "placeholder", "output_size": 4, "total_size": 4},
        {"name": "a", "op": "call_module", "args": ["x"], "output_size": 4, "total_size": 40},
        {"name": "b", "op": "call_module", "args": ["a"], "output_size": 4, "total_size": 40},
        {"name": "output", "op": "output", "args": ["b"]},
    ],
    "devices": [{"name": "d0", "mem": 50, "id": 0}, {"name": "d1", "mem": 50, "id": 1}],
    "mode": "size_based",
}


def test_a_placement_says_which_device_runs_what():
    placement = plimsoll.partition(GRAPH)
    assert (placement.objective, placement.status) == ("throughput", "optimal")
    assert placement.certificate.objective == 2.25
    assert placement.devices_of == {n: stage["devices"] for stage in placement.stages for n in stage["nodes"]}
    assert sorted(placement.devices_of) == ["0", "1", "2"]
    assert [(cut["from"], cut["to"]) for cut in placement.cuts] == [(0, [1])]
    batch = plimsoll.partition(GRAPH, objective="pipeline", microbatches=4, memory="30B")
    assert batch.objective == "pipeline"
    assert batch.devices_of == {str(i): [0, 1] for i in range(3)}  # copies
    assert plimsoll.check(GRAPH, batch).is_right


def test_where_nothing_fits_the_placement_says_why():
    for flags in ({"memory": "14B"}, {"pin": ["0=0", "1=1", "2=0"]}):
        placement = plimsoll.partition(GRAPH, **flags)
        assert placement.status == "infeasible" and not placement.stages
        assert placement.explanation and placement.certificate.proof
        assert math.isnan(placement.certificate.objective) and placement.certificate.gap is None
    with pytest.raises(plimsoll.Error, match="--memory"):
        plimsoll.partition(GRAPH, memory="-1")
    with pytest.raises(plimsoll.Error) as caught:
        plimsoll.partition(GRAPH | {"edges": [{"sourceId": 0, "destId": 7, "cost": 1}]})
    assert caught.value.place == "graph.json#/edges/0/destId"


def test_torchs_partitioner_on_plain_data():
    placement = plimsoll.partition(FX_GRAPH)
    assert placement.objective == "fx"
    assert placement.node_to_partition == {"x": 0, "a": 0, "b": 1}
    assert plimsoll.convert(FX_GRAPH, placement, to="callback") == {"a": 0, "b": 1}
    assert plimsoll.check(FX_GRAPH, placement).is_right
    failed = plimsoll.partition(FX_GRAPH, memory="43B")
    assert failed.failure["kind"] == "RuntimeError" and failed.failure["message"] == "a is too large to fit any device"


def test_placements_go_to_other_programs():
    placement = plimsoll.partition(GRAPH)
    split = plimsoll.convert(GRAPH, placement, to="dnn_partitioning")
    assert split["maxLoad"] == 2.25 and plimsoll.check(GRAPH, split).is_right
    assert plimsoll.convert(GRAPH, split, to="plimsoll")["stages"] == placement.stages
    traced = pathlib.Path(__file__).resolve().parents[1] / "data" / "graphs" / "tiny-conv.pt2"
    placement = plimsoll.partition(traced, on="2xh100-sxm", devices="1")
    assert set(plimsoll.convert(traced, placement, to="callback").values()) == {0}
    assert plimsoll.convert(traced, placement, to="device_map") == {"": 0}
    assert plimsoll.convert(traced, placement, to="dot").startswith("digraph")
    with pytest.raises(plimsoll.Error, match="callback"):
        plimsoll.convert(traced, placement, to="torchrec")


@pytest.fixture
def pyplot():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot

    yield matplotlib.pyplot
    matplotlib.pyplot.close("all")


def heights(axes):
    """[what][rank] heights of stacked outlines, and the capacity line."""
    from matplotlib.patches import StepPatch

    stack, caps = {}, None
    for patch in axes.patches:
        assert isinstance(patch, StepPatch)
        values, _, baseline = patch.get_data()
        if patch.get_label() == "capacity":
            caps = np.asarray(values)
        else:
            stack[patch.get_label()] = np.asarray(values) - np.asarray(baseline)
    return stack, caps


def test_a_plan_is_drawn_by_cause_against_its_caps(plan, pyplot):
    *memory, time = plan.plot()
    assert [axes.get_ylabel() for axes in memory] == ["HBM GiB"]
    stack, caps = heights(memory[0])
    assert {"weights", "input output", "reserve"} <= set(stack)
    reserved = sum(plan.bytes[name] for name in ("dense", "kjt", "reserve"))
    assert np.allclose(sum(stack.values()), (plan.bytes["hbm"] + reserved) / 2**30)
    assert np.allclose(caps, 16)
    stack, _ = heights(time)
    assert np.allclose(sum(stack.values()), plan.ms["total"])
    assert {"fwd compute", "fwd comms"} <= set(stack) and time.get_ylabel() == "ms a step"
    assert str(plan.status) in memory[0].get_title()


def test_a_plan_of_two_tiers_has_a_picture_of_each(pyplot):
    model = {
        "tables": [
            {"name": f"t{i}", "num_embeddings": 4_000_000, "embedding_dim": 64, "feature_names": [f"f{i}"]}
            for i in range(4)
        ]
    }
    plan = plimsoll.shard(model, on="2x1GiB", batch_size=64)
    labels = [axes.get_ylabel() for axes in plan.plot()]
    assert labels == ["HBM GiB", "DDR GiB", "ms a step"]
    _, mine = pyplot.subplots(3)
    assert list(plan.plot(mine)) == list(mine)
    with pytest.raises(ValueError, match="3 axes are needed, 1 were given"):
        plan.plot(mine[0])


def test_without_a_plan_there_is_nothing_to_draw():
    with pytest.raises(plimsoll.Error, match="nothing to draw: limit"):
        plimsoll.shard(MODEL, on="4x1MiB", reservation="fixed_percentage:0").plot()


def test_a_frontier_is_drawn_as_it_falls(pyplot):
    frontier = plimsoll.frontier("llama-3-8b")
    axes = frontier.plot()
    x, y = axes.lines[0].get_data()
    assert len(x) == 2 * len(frontier.peak) - 1
    for i in range(0, len(frontier.peak) - 1, 97):  # the curve starts at every point, and may drop to the next
        assert x[2 * i] * 2**30 == pytest.approx(frontier.peak[i]) and y[2 * i] == pytest.approx(frontier.ms[i])
        assert y[2 * i + 1] == pytest.approx(frontier.ms_at(np.nextafter(frontier.peak[i + 1], 0)))
    assert frontier.ms_at(frontier.peak[0] - 1) == math.inf
    assert frontier.ms_at(2.0 * frontier.peak[-1]) == frontier.ms[-1]
    middle = int(frontier.peak[0] + frontier.peak[-1]) // 2
    exact = plimsoll.checkpoint("llama-3-8b", middle)
    # Of many modules the curve has few points: it is at most a little above the plan for one budget.
    assert exact.recompute_ms * (1 - 1e-6) <= frontier.ms_at(middle) <= exact.recompute_ms * 1.02


def test_answers_show_themselves(plan, pyplot):
    frontier = plimsoll.frontier("llama-3-8b")
    placement = plimsoll.partition(EXAMPLES / "graph.json")
    policy = plimsoll.checkpoint("llama-3-8b", "70%")
    saved = plimsoll.checkpoint(EXAMPLES / "operator_table.json", "50%")
    for answer in (plan, frontier, placement, policy, saved):
        assert "<table>" in answer._repr_html_()
        drawn = answer.plot()
        assert np.ravel(drawn)[0].get_title()
    held = max(stage["memory_bytes"] for stage in placement.stages)
    assert f"{held / 2**30:.3g}" in placement._repr_html_()
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


@pytest.mark.parametrize(
    "work",
    [
        lambda **more: plimsoll.shard("mlperf-dlrm-dcnv2", on="16x40GiB", objective="rating", **more),
        lambda **more: plimsoll.shard("mlperf-dlrm-dcnv2", on="16x40GiB", search="torchrec", **more),
        lambda **more: plimsoll.partition(EXAMPLES / "graph.json", **more),
        lambda **more: plimsoll.checkpoint("llama-3-8b", "70%", **more),
        lambda **more: plimsoll.checkpoint("llama-3-8b", "70%", in_flight=2, time_limit="2s", **more),
        lambda **more: plimsoll.frontier("llama-3-8b", **more),
    ],
    ids=["balanced", "torchrec", "partition", "checkpoint", "stage", "frontier"],
)
def test_every_search_tells_its_progress(work):
    seen = []
    work(progress=lambda *told: seen.append(told))
    assert seen and all(len(told) == 3 and told[0] >= 0 for told in seen)
    incumbents = [ms for _, ms, _ in seen if ms is not None]
    assert incumbents == sorted(incumbents, reverse=True)


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


@pytest.fixture
def hears_interrupts():
    """What is started in the background may have been told to ignore Ctrl-C. Released for each that is heard."""
    heard = threading.Semaphore(0)

    def hear(*arguments):
        heard.release()
        signal.default_int_handler(*arguments)

    before = signal.signal(signal.SIGINT, hear)
    yield heard
    signal.signal(signal.SIGINT, before)


def raise_at_the_first_plan(number):
    """A progress that raises the signal once, when the search has a plan."""
    raised = []

    def progress(_, incumbent, __):
        if incumbent is not None and not raised:
            raised.append(number)
            signal.raise_signal(number)

    return progress


# More than any search does; where it is not cancelled, the clock ends it, and the test fails.
ENDLESS = {"on": "16x80GiB", "search": "balanced", "effort": 10**12, "time_limit": "60s"}


@pytest.mark.usefixtures("hears_interrupts")
def test_the_lock_is_free_while_a_search_runs():
    """Another thread gets the lock many times while the search tells nothing, for which it takes the lock."""
    begun, done = threading.Event(), threading.Event()
    num_told = 0

    def tell(*_):
        nonlocal num_told
        num_told += 1
        begun.set()

    def tick():
        begun.wait(60)
        last, ticks = num_told, 0
        while ticks < 20 and not done.is_set():
            time.sleep(0)  # gives the lock away and takes it again
            last, ticks = num_told, ticks + 1 if num_told == last else 0
        if ticks == 20:
            signal.raise_signal(signal.SIGINT)

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        assert plimsoll.shard("hugectr-t200", **ENDLESS, progress=tell).stop == "cancelled"
    finally:
        done.set()
        thread.join()


@pytest.mark.usefixtures("hears_interrupts")
def test_the_first_interrupt_returns_the_best_so_far():
    plan = plimsoll.shard("hugectr-t200", **ENDLESS, progress=raise_at_the_first_plan(signal.SIGINT))
    assert plan.stop == "cancelled" and plan.tables


def test_sigterm_is_an_interrupt_while_a_search_runs():
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    plan = plimsoll.shard("hugectr-t200", **ENDLESS, progress=raise_at_the_first_plan(signal.SIGTERM))
    assert plan.stop == "cancelled" and plan.tables
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_handler_of_sigterm_is_left_alone():
    heard = []
    before = signal.signal(signal.SIGTERM, lambda *_: heard.append(True))
    try:
        call = _interrupt.interruptible(lambda _: signal.raise_signal(signal.SIGTERM))
        assert call is None and heard == [True]
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("hears_interrupts")
def test_an_interrupt_is_heard_from_the_first_moment_on():
    cancelled = threading.Event()

    def search(_):
        signal.raise_signal(signal.SIGINT)
        assert cancelled.wait(20)
        return "best so far"

    class Watch:
        set = staticmethod(cancelled.set)

    for _ in range(50):
        cancelled.clear()
        call = _interrupt._Call(search)
        call.cancel = Watch()
        assert call.run() == "best so far"


@pytest.mark.usefixtures("hears_interrupts")
def test_the_second_interrupt_raises():
    begun = threading.Event()
    cancelled = threading.Event()
    gone = threading.Event()

    def search(cancel):
        class Watch:
            def set(self):
                cancelled.set()

        call.cancel = Watch()
        begun.set()
        gone.wait(60)  # a search that does not listen

    call = _interrupt._Call(search)

    def interrupt():
        assert begun.wait(60)
        signal.raise_signal(signal.SIGINT)
        assert cancelled.wait(60)
        signal.raise_signal(signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        call.run()
    gone.set()


def test_the_second_interrupt_raises_from_a_search_that_goes_on(hears_interrupts):
    begun, done = threading.Event(), threading.Event()

    def stay(*_):
        begun.set()
        done.wait(60)

    def interrupt():
        begun.wait(60)
        for _ in range(2):
            signal.raise_signal(signal.SIGINT)
            assert hears_interrupts.acquire(timeout=60)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            plimsoll.shard("mlperf-dlrm-dcnv2", on="16x40GiB", objective="rating", progress=stay)
    finally:
        done.set()
        thread.join()


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
