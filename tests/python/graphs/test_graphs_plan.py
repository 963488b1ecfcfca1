"""Stages: where they may begin, how good they are, and what they are called elsewhere."""

import dataclasses
import functools
import itertools
import json
import pathlib
import warnings

import pytest
import small_models
import torch
from torch import nn

import plimsoll
from plimsoll import graphs

FAR = "h100-sxm"  # transfers between devices take next to nothing beside times of whole milliseconds


def timed(graph, ms):
    """The graph with given times of its forward operators."""
    nodes = [dataclasses.replace(n, ms={"given": ms.get(n.name, 0.0)}) if n.is_operator else n for n in graph.nodes]
    return dataclasses.replace(graph, nodes=nodes)


@functools.cache
def linears(count):
    model = nn.Sequential(*[nn.Sequential(nn.Linear(4, 4)) for _ in range(count)])
    return graphs.capture(model, (torch.randn(2, 4),))


def chain(times):
    graph = linears(len(times))
    names = [n.name for n in graph.nodes if n.is_operator]
    return timed(graph, dict(zip(names, times)))


def least_largest(times, stages):
    """By trying every way to cut."""
    cuts = itertools.combinations(range(1, len(times)), stages - 1)
    return min(max(sum(times[a:b]) for a, b in zip((0, *cut), (*cut, len(times)))) for cut in cuts)


@pytest.mark.parametrize("stages", [1, 2, 3, 5, 8])
def test_the_slowest_stage_is_as_fast_as_can_be(stages):
    times = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0]
    plan = graphs.partition(chain(times), stages, on=FAR, times="given")
    assert plan.status == "optimal" and plan.num_stages == stages
    assert max(s.ms - s.transfer_ms for s in plan.stages) == pytest.approx(least_largest(times, stages))
    assert plan.certificate.objective == max(s.ms for s in plan.stages)
    assert plan.certificate.lower_bound == pytest.approx(plan.certificate.objective, rel=1e-6)
    assert [name for stage in plan.stages for name in stage.operators] == list(plan.stage_of)
    assert list(plan.stage_of.values()) == sorted(plan.stage_of.values())


def test_a_batch_takes_what_the_formula_of_pipelines_says():
    graph = chain([3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0])
    plan = graphs.partition(graph, 3, on=FAR, times="given", objective="pipeline", microbatches=6)
    assert plan.status == "optimal" and plan.certificate.objective == pytest.approx(plan.step_ms(6))
    times = [s.ms for s in plan.stages]
    assert plan.step_ms(6) == sum(times) + 5 * max(times)


def test_as_many_stages_as_asked_for_where_one_would_be_faster():
    graph = chain([1e-9] * 6)  # sending costs more than computing
    assert len(graphs.partition(graph, on="4xh100-sxm", times="given").stages) == 1
    plan = graphs.partition(graph, 4, on=FAR, times="given")
    assert plan.num_stages == 4 and plan.certificate.gap > 1 and plan.status == "feasible"
    assert plan.certificate.objective == max(s.ms for s in plan.stages)


def test_stages_that_are_given_are_priced():
    times = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0]
    graph = chain(times)
    given = graphs.partition(graph, starts=["2", "6"], times="given")
    assert [len(s.operators) for s in given.stages] == [2, 4, 2] and list(given.split_spec()) == ["2", "6"]
    assert max(s.ms - s.transfer_ms for s in given.stages) == pytest.approx(4 + 1 + 5 + 9)
    best = graphs.partition(graph, 3, times="given")
    assert given.certificate.lower_bound == pytest.approx(best.certificate.objective, rel=1e-6)
    assert given.certificate.gap == pytest.approx(19 / least_largest(times, 3) - 1, rel=1e-3)
    with pytest.raises(plimsoll.Error, match="starts: no stage can begin with 'x'; give some of these, in order: 1, 2"):
        graphs.partition(graph, starts=["x"], times="given")
    with pytest.raises(plimsoll.Error, match="starts: '2' does not come after the stage before"):
        graphs.partition(graph, starts=["6", "2"], times="given")


def test_times_are_measured():
    model, args = small_models.make("resnet")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    graph = graphs.capture(model, args, training=True, times="measured")
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in before.items())
    ms = {n.name: n.ms["measured"] for n in graph.nodes if n.is_operator}
    assert all(value >= 0 for value in ms.values()) and max(ms.values()) > 0
    plan = graphs.partition(graph, 1)
    assert plan.stages[0].ms == pytest.approx(sum(ms.values()), rel=1e-9)
    with pytest.raises(plimsoll.Error, match="times: a model on meta cannot be measured"):
        graphs.capture(model.to("meta"), args, times="measured")


def test_an_operator_may_be_called_as_a_module_is():
    class Names(nn.Module):
        def __init__(self):
            super().__init__()
            self.relu = nn.Linear(4, 4)
            self.add_module("0", nn.Linear(4, 4))

        def forward(self, x):
            return self.get_submodule("0")(self.relu(x.relu()))

    graph = graphs.capture(Names(), (torch.randn(2, 4),))
    plan = graphs.partition(timed(graph, {"relu": 1e-9, "linear": 1e-9, "linear_1": 1e-9}), 3, times="given")
    assert [s.operators for s in plan.stages] == [("relu",), ("linear",), ("linear_1",)]


def test_what_alignment_costs_is_told():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(4, 4)
            self.second = nn.Linear(4, 4)

        def forward(self, x):
            return self.second(self.first(x).relu().tanh())

    graph = timed(graphs.capture(Two(), (torch.randn(2, 4),)), {"linear": 4, "relu": 1, "tanh": 1, "linear_1": 4})
    plan = graphs.partition(graph, 2, on=FAR, times="given")
    free = graphs.partition(graph, 2, on=FAR, times="given", align=None)
    assert [s.operators for s in plan.stages] == [("linear", "relu", "tanh"), ("linear_1",)]
    assert [s.operators for s in free.stages] == [("linear", "relu"), ("tanh", "linear_1")]
    assert plan.alignment_cost == pytest.approx(6 / 5 - 1, rel=1e-4) and free.alignment_cost is None
    assert list(plan.split_spec()) == ["second"]
    for form in (free.split_spec, lambda: free.device_map(Two()), free.module_fqns_per_model_part):
        with pytest.raises(plimsoll.Error, match="stage 1: begins with operator tanh within the model itself"):
            form()


def test_residual_branches_and_layers_stay_whole():
    model, graph = small_models.make("gpt")[0], small_models.captured("gpt")
    graph = timed(graph, dict.fromkeys([n.name for n in graph.nodes], 1.0))
    for stages in range(2, 8):
        starts = list(graphs.partition(graph, stages, times="given").split_spec())
        assert set(starts) <= {"blocks.0", "blocks.1", "blocks.2", "blocks.3", "norm", "head"}
    plan = graphs.partition(graph, 9, times="given")  # more than that
    assert plan.num_stages == 9 and any(".attention" in name or ".mlp" in name for name in plan.split_spec())
    assert plan.warnings == [
        "stages begin within residual branches: device_map and module_fqns_per_model_part cannot express them"
    ]
    with pytest.raises(plimsoll.Error, match="operators of a module around it read values of both stages"):
        plan.device_map(model)


def test_stages_may_begin_within_layers_if_asked_to():
    names = [n.name for n in small_models.captured("gpt").nodes]
    graph = timed(small_models.captured("gpt"), dict.fromkeys(names, 1.0))
    whole, fine, free = (graphs.partition(graph, 5, times="given", align=a) for a in ("modules", "submodules", None))
    assert free.certificate.objective <= fine.certificate.objective < whole.certificate.objective
    assert 0 <= fine.alignment_cost < whole.alignment_cost and len(fine.split_spec()) == 4 and not fine.warnings
    with pytest.raises(plimsoll.Error, match="read values of both stages"):
        fine.device_map(small_models.make("gpt")[0])


def test_what_is_written_to_stays_with_its_writers():
    class Writes(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.third = nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 4)

        def forward(self, x):
            x = self.first(x)
            self.second(x)
            return self.third(x)

    graph = timed(graphs.capture(Writes(), (torch.randn(2, 4),)), {"linear": 5, "relu_": 5, "linear_1": 1})
    for align in ("modules", None):
        plan = graphs.partition(graph, 2, times="given", align=align)
        assert [s.operators for s in plan.stages] == [("linear", "relu_"), ("linear_1",)]


def test_parts_of_a_value_stay_with_it():
    class Splits(nn.Module):
        def forward(self, x):
            a, b = torch.split(x * 2, 2)
            return a + b

    graph = timed(graphs.capture(Splits(), (torch.randn(4, 4),)), {"mul": 1, "split": 4, "getitem": 4, "add": 1})
    plan = graphs.partition(graph, 2, times="given", align=None)
    assert plan.stage_of["split"] == plan.stage_of["getitem"] == plan.stage_of["getitem_1"]


def test_what_depends_on_nothing_goes_with_its_readers():
    class Masks(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

        def forward(self, x):
            positions = torch.arange(4, device=x.device) * 2
            for layer in self.layers:
                x = layer(x) + positions
            return x

    model = Masks()
    graph = graphs.capture(model, (torch.randn(2, 4),))
    plan = graphs.partition(graph, 3)
    assert "arange" not in plan.stage_of and [len(s.operators) for s in plan.stages] == [2, 2, 2]
    assert all(cut["amount"] in (0, 32) for cut in plan.placement.cuts)  # never the positions, 32 bytes, too
    assert len(plan.placement.cuts) == 4
    stages = plan.split(model)
    assert all(any(n.name == "arange" for n in stage.graph.nodes) for stage in stages)
    assert all(sum(n.op == "placeholder" for n in stage.graph.nodes) == 1 for stage in stages)


def test_memory_that_is_too_small_is_proved_and_said():
    model, graph = small_models.make("gpt")[0], small_models.captured("gpt", True)
    plan = graphs.partition(graph, 2, memory="100KiB")
    assert plan.status == "infeasible" and "would be enough" in str(plan) and not plan.stages
    needed = int(next(line for line in plan.explanation if "would be enough" in line).split()[0])
    assert graphs.partition(graph, 2, memory=f"{needed}B").status == "optimal"
    assert graphs.partition(graph, 2, memory=f"{needed - 1}B").status == "infeasible"
    for form in (plan.split, plan.split_spec, lambda: plan.step_ms(2), lambda: plan.device_map(model)):
        with pytest.raises(plimsoll.Error, match=r"plan: there is none \(infeasible\); .*would be enough"):
            form()


def test_what_counts_as_memory_may_be_said():
    graph = small_models.captured("gpt", True)
    stashed, none = (graphs.partition(graph, 2, **flags).stages for flags in ({}, {"activations": "none"}))
    weights = graphs.partition(small_models.captured("gpt"), 2).stages
    assert [s.memory_bytes for s in none] == [2 * s.memory_bytes for s in weights]  # and gradients
    assert all(a.memory_bytes > 1.5 * b.memory_bytes for a, b in zip(stashed, none))


def test_microbatches_in_flight_count_as_memory():
    graph = small_models.captured("gpt", True)
    plan = graphs.partition(graph, 4, objective="pipeline", microbatches=8)
    assert [s.in_flight for s in plan.stages] == [4, 3, 2, 1]
    few = graphs.partition(graph, 4, objective="pipeline", microbatches=2)
    assert [s.in_flight for s in few.stages] == [2, 2, 2, 1]
    held = [a.memory_bytes - b.memory_bytes for a, b in zip(plan.stages, few.stages)]
    assert plan.stage_of == few.stage_of and held[0] > held[1] > 0 == held[2] == held[3]


def test_weights_are_counted_once_in_each_stage():
    model, _ = small_models.make("gpt")
    plan = graphs.partition(small_models.captured("gpt"), 2)
    size = {name: 4 * p.numel() for name, p in model.named_parameters(remove_duplicate=False)}
    for stage, part in enumerate(plan.module_fqns_per_model_part()):
        own = sum(n for name, n in size.items() if any(name.startswith(f"{m}.") for m in part))
        assert plan.stages[stage].memory_bytes == own
    assert [t.names for t in plan.tied] == [{0: "tokens.weight", 1: "head.weight"}]
    assert plan.tied[0].bytes == size["head.weight"] and plan.tied[0].stages == (0, 1)


def test_gradients_of_tied_weights_do_not_travel_with_microbatches():
    _, args = small_models.make("gpt")
    tied = graphs.partition(small_models.captured("gpt", True), 2)
    free = graphs.partition(graphs.capture(small_models.Gpt(tied=False), args, training=True), 2)
    assert tied.stage_of == free.stage_of and free.tied == []
    amounts = [sorted(c["amount"] for c in plan.placement.cuts if c["amount"]) for plan in (tied, free)]
    hidden = 4.0 * 2 * small_models.LENGTH * small_models.WIDTH
    assert amounts == [[hidden, hidden]] * 2


def test_tied_weights_together_if_asked_for():
    graph = small_models.captured("encoder_decoder")
    plan = graphs.partition(graph, 3, tied="together")
    assert plan.tied == [] and plan.num_stages == 3
    assert plan.module_fqns_per_model_part()[2][0] == "tokens"
    assert graphs.partition(graph, 4).tied != []
    with pytest.raises(plimsoll.Error, match=r"stages: 2 are more than the 1 parts .* or tied='copies'"):
        graphs.partition(small_models.captured("bert"), 2, tied="together")


@pytest.mark.parametrize("stages", [2, 4])
@pytest.mark.parametrize("family", small_models.FAMILIES)
def test_every_family_has_every_form(family, stages):
    model, _ = small_models.make(family)
    plan = graphs.partition(small_models.captured(family), stages)
    spec = plan.split_spec()
    modules = dict(model.named_modules())
    assert len(spec) == stages - 1 and set(spec) <= set(modules)
    parts = plan.module_fqns_per_model_part()
    named = [name for part in parts for name in part]
    assert len(named) == len(set(named)) and set(named) <= set(modules)
    assert all(not isinstance(modules[name], (nn.ModuleList, nn.ModuleDict)) for name in named)
    for module in (name for name, m in modules.items() if not list(m.children())):  # each leaf in one part
        assert sum(module == name or module.startswith(f"{name}.") for name in named) == 1
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        devices = plan.device_map(model)
        assert set(plan.device_map(model, ["cpu"] * stages).values()) == {"cpu"}
    assert bool(told) == bool(plan.tied)
    tensors = dict(model.named_parameters(remove_duplicate=False)) | dict(model.named_buffers())
    place = {}
    for name, tensor in tensors.items():
        above = [key for key in devices if name == key or name.startswith(f"{key}.")]
        assert len(above) == 1, name
        assert place.setdefault(id(tensor), devices[above[0]]) == devices[above[0]]  # tied ones together
    starts = {name: stage for stage, part in enumerate(parts) for name in part}
    tied = {name.rpartition(".")[0] for t in plan.tied for name in t.names.values()}
    for name, device in devices.items():
        if name in starts and name not in tied:
            assert starts[name] == device
    assert set(devices.values()) == set(range(stages))


def test_a_loaded_graph_is_planned_alike(tmp_path):
    for training in (False, True):
        graph = small_models.captured("llama", training)
        graph.save(tmp_path / "graph.json")
        plan, again = (graphs.partition(g, 3, on="a100-sxm4-80gb") for g in (graph, tmp_path / "graph.json"))
        assert plan.stage_of == again.stage_of and plan.certificate == again.certificate
        assert list(plan.split_spec()) == list(again.split_spec())
        with pytest.raises(plimsoll.Error, match="graph: was loaded, so it has no code; capture the model"):
            again.split()


def test_a_training_graph_of_another_program_is_planned_by_modules(tmp_path):
    """Whose names do not tell the forward operator of a backward one."""
    graph = small_models.captured("gpt", True)
    nodes = [dataclasses.replace(n, name=f"b{i}" if n.is_backward else n.name) for i, n in enumerate(graph.nodes)]
    dataclasses.replace(graph, nodes=nodes, called=frozenset()).save(tmp_path / "graph.json")
    plan, again = graphs.partition(graph, 2), graphs.partition(tmp_path / "graph.json", 2)
    assert plan.stage_of == again.stage_of and list(again.split_spec()) == ["blocks.2"]
    assert again.certificate.objective == pytest.approx(plan.certificate.objective, rel=1e-9)


def test_errors_say_what_to_do():
    graph = chain([1.0] * 3)
    for call, text in (
        (lambda: graphs.partition(graph, 5), "stages: 5 are more than the 3 parts .*; give fewer, or align=None"),
        (lambda: graphs.partition(graph), "stages: is missing; say how many stages, or how many devices: on='4xh100"),
        (lambda: graphs.partition(graph, 0), "stages: 0 is not a number of stages; give at least 1"),
        (lambda: graphs.partition(graph, 2, align="layers"), "align: 'layers' is not known; give one of: 'modules'"),
        (lambda: graphs.partition(graph, 2, tied="no"), "tied: 'no' is not known; give one of: 'copies', 'together'"),
        (lambda: graphs.partition(graph, 2, objective="latency"), "objective: 'latency' is not known"),
        (lambda: graphs.partition(graph, 2, objective="pipeline"), "microbatches: is missing"),
        (lambda: graphs.partition(graph, 2, times="h100"), "no times of 'h100'; give one of: roofline, given"),
        (lambda: graphs.partition(graph, 2, pin="0=1"), "pin: is not a flag of graphs.partition; plimsoll.partition"),
        (lambda: graphs.partition(graph, 2, on="abacus"), "on: the speed of 'abacus' is not known"),
        (lambda: graphs.partition(graph, 2).device_map(nn.Linear(1, 1), [0]), "devices: 1 for 2 stages"),
    ):
        with pytest.raises(plimsoll.Error, match=text):
            call()


def test_printed_a_plan_names_its_stages():
    lines = str(graphs.partition(small_models.captured("gpt"), 2)).splitlines()
    assert lines[0].startswith("Gpt: 2 stages, slowest stage ") and lines[0].endswith("at most 0.00% above the best")
    assert lines[1].startswith("stages begin with modules: at most ") and lines[3].startswith("  1  from blocks.2  ")
    assert lines[4] == "  tied: tokens.weight in stage 0, head.weight in stage 1"


def test_a_machine_gives_every_operator_its_launch(tmp_path):
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.0)
    model = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
    graph = graphs.capture(model, (torch.zeros(2, 8, 32),), training=True)
    operators = {"launch_us": 5.0, "memory_gb_per_s": 2000.0, "peak_tflops": {"fp32": 20.0, "bf16": 300.0}}
    document = {"schema": "plimsoll.machine/1", "name": "mine", "operators": operators}
    plain = graphs.partition(graph, 2)
    timed = graphs.partition(graph, 2, machine=document)
    count = sum(node.is_operator and not node.is_view and node.bytes_moved > 0 for node in graph.nodes)
    assert count > 140
    assert sum(stage.ms for stage in plain.stages) < 0.2  # of bytes and operations alone
    assert sum(stage.ms - stage.transfer_ms for stage in timed.stages) == pytest.approx(count * 5e-3, rel=0.05)
    path = tmp_path / "machine.json"
    path.write_text(json.dumps(document))
    assert graphs.partition(graph, 2, machine=path).certificate == timed.certificate
    shipped = json.loads(
        (pathlib.Path(__file__).resolve().parents[3] / "data/machines/b200-sxm-180gb.json").read_text()
    )
    by_name = graphs.partition(graph, 2, machine="b200-sxm-180gb")
    assert by_name.certificate == graphs.partition(graph, 2, machine=shipped).certificate != timed.certificate
    with pytest.raises(plimsoll.Error, match="no shipped machine model has this name"):
        graphs.partition(graph, 2, machine="b200-sxm")
