"""Stages run as the model does: alone, under torch's schedules, and as other programs cut the model."""

import copy

import pytest
import ranks
import small_models
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.pipelining import Schedule1F1B, ScheduleGPipe, pipeline

import plimsoll
from plimsoll import graphs


def run(stages, args):
    """What the stages return one after another."""
    for stage in stages:
        args = stage(*args)
        args = args if isinstance(args, tuple) else (args,)
    return args[0] if len(args) == 1 else args


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("family", small_models.FAMILIES)
def test_stages_compute_what_the_model_computes(family, training):
    model, args = small_models.make(family)
    model.train(training)
    graph = small_models.captured(family, training)
    for stages, align in ((1, "modules"), (2, "modules"), (4, "modules"), (7, None)):
        whole, parts = copy.deepcopy(model), copy.deepcopy(model)
        plan = graphs.partition(graph, stages, align=align)
        made = plan.split(parts)
        assert len(made) == stages
        expected, output = whole(*args), run(made, args)
        assert torch.equal(output, expected)
        if not training:
            continue
        small_models.loss_of(expected).backward()
        small_models.loss_of(output).backward()
        for name, parameter in whole.named_parameters():
            assert torch.allclose(parts.get_parameter(name).grad, parameter.grad, rtol=0, atol=1e-7), name
        for name, buffer in whole.named_buffers():  # of batch norm
            assert torch.equal(parts.get_buffer(name), buffer), name


def test_stages_own_the_weights_of_the_model():
    model, _ = small_models.make("llama")
    plan = graphs.partition(small_models.captured("llama"), 4)
    stages = plan.split(model)
    owned = [{name for name, _ in stage.named_parameters()} for stage in stages]
    assert set.union(*owned) == {name for name, _ in model.named_parameters()}
    assert sum(map(len, owned)) == len(list(model.parameters()))
    for stage, part in zip(stages, plan.module_fqns_per_model_part()):
        assert all(value is model.get_parameter(name) for name, value in stage.named_parameters())
        assert all(any(name.startswith(f"{m}.") for m in part) for name, _ in stage.named_parameters())
    assert sorted(name for stage in stages for name in stage.state_dict()) == sorted(model.state_dict())
    assert [name for name, _ in stages[0].named_buffers()] == ["rotary.frequencies"]  # not persistent, as in the model


def test_a_model_captured_without_weights_is_split_with_them():
    with torch.device("meta"):
        empty = small_models.Llama()
    _, args = small_models.make("llama")
    model, _ = small_models.make("llama")
    plan = graphs.partition(graphs.capture(empty, args), 3)
    assert torch.equal(run(plan.split(model), args), model(*args))
    assert all(p.is_meta for stage in plan.split() for p in stage.parameters())
    with pytest.raises(plimsoll.Error, match=r"model: has no \S+; give the model that was captured"):
        plan.split(nn.Linear(2, 2))
    model.norm = nn.RMSNorm(3)
    with pytest.raises(plimsoll.Error, match=r"norm.weight is \(3,\) torch.float32, not \(32,\) torch.float32"):
        plan.split(model)


def test_an_exported_program_is_loaded_and_split(tmp_path):
    model, args = small_models.make("llama")
    torch.export.save(torch.export.export(model, args), tmp_path / "llama.pt2")
    graph = graphs.load(tmp_path / "llama.pt2")
    plan = graphs.partition(graph, 3)
    assert plan.stage_of == graphs.partition(small_models.captured("llama"), 3).stage_of
    assert set(plan.split_spec()) <= {f"layers.{i}" for i in range(4)} and graph.parameter_bytes > 0
    assert torch.equal(run(plan.split(), args), model(*args))
    (tmp_path / "odd.pt2").write_text("odd")
    with pytest.raises(plimsoll.Error, match=r"odd\.pt2: torch.export cannot load it"):
        graphs.load(tmp_path / "odd.pt2")


def test_a_layer_that_is_called_again_has_copies():
    class Again(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            return self.layer(self.layer(x).relu()).relu()

    model, x = Again(), torch.randn(2, 4)
    plan = graphs.partition(graphs.capture(model, (x,), training=True), 2, align=None)
    assert {tuple(tied.names.items()) for tied in plan.tied} == {
        ((0, "layer.weight"), (1, "layer.weight")),
        ((0, "layer.bias"), (1, "layer.bias")),
    }
    copies = [copy.deepcopy(stage) for stage in plan.split(model)]
    small_models.loss_of(run(copies, (x,))).backward()
    small_models.loss_of(model(x)).backward()
    plan.sync_tied(copies)
    for stage in copies:
        assert torch.allclose(stage.get_parameter("layer.weight").grad, model.layer.weight.grad, rtol=0, atol=1e-7)


def test_what_later_stages_read_is_passed_on():
    model, _ = small_models.make("encoder_decoder")
    plan = graphs.partition(small_models.captured("encoder_decoder"), 4)
    inputs = [[n.name for n in stage.graph.nodes if n.op == "placeholder"] for stage in plan.split(model)]
    assert inputs[0] == ["frames", "ids"] and "ids" in inputs[1] and len(inputs[3]) == 2  # memory and hidden states


def test_stages_say_what_they_take_and_return():
    model, args = small_models.make("encoder_decoder")
    stages = graphs.partition(small_models.captured("encoder_decoder"), 4).split(model)
    given = args
    for stage in stages:
        for one, like in zip(given, stage.meta["input_args"]):
            assert (one.shape, one.stride(), one.dtype, one.requires_grad) == (
                like.shape,
                like.stride(),
                like.dtype,
                like.requires_grad,
            )
        assert len(given) == len(stage.meta["input_args"]) and all(like.is_meta for like in stage.meta["input_args"])
        given = stage(*given)
        given = given if isinstance(given, tuple) else (given,)
    assert [t.requires_grad for t in stages[1].meta["input_args"]] == [False, True]  # ids, memory
    assert stages[3].meta["output_args"][0].shape == given[0].shape


def test_what_travels_is_contiguous_and_arrives_as_it_was():
    """Processes send only contiguous tensors; the layout that operators see stays, unless values share memory."""

    class Turns(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.third = nn.Conv1d(4, 6, 3), nn.Linear(6, 6), nn.Linear(6, 6)

        def forward(self, x):
            y = self.first(x).transpose(1, 2)  # as Whisper's encoder does
            wide = y.sum(1, keepdim=True).expand(-1, 10, -1)
            return self.third(self.second(y) + wide) + y

    model, x = Turns(), torch.randn(2, 4, 12)
    graph = graphs.capture(model, (x,), training=True)
    plan = graphs.partition(graph, 3, align=None, times="roofline")
    whole, parts = copy.deepcopy(model), copy.deepcopy(model)
    stages = plan.split(parts)
    layouts = []
    given = (x,)
    for stage in stages:
        given = stage(*given)
        given = given if isinstance(given, tuple) else (given,)
        if stage is not stages[-1]:
            assert all(one.is_contiguous() for one in given)
        for like in stage.meta["output_args"][: len(given)]:
            assert stage is stages[-1] or like.is_contiguous()
        layouts.append([tuple(one.shape) for one in given])
    assert (2, 6, 10) in [shape for shapes in layouts[:-1] for shape in shapes]  # as it lies in memory
    expected = whole(x)
    assert torch.equal(given[0], expected)
    small_models.loss_of(expected).backward()
    small_models.loss_of(given[0]).backward()
    for name, parameter in whole.named_parameters():
        assert torch.allclose(parts.get_parameter(name).grad, parameter.grad, rtol=0, atol=1e-7), name


def test_several_outputs_come_as_a_tuple_and_constants_are_kept():
    class Several(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            y = self.first(x) + torch.tensor([1.0, 2.0, 3.0, 4.0])
            return {"early": y, "nothing": None, "late": self.second(y)}

    model, x = Several(), torch.randn(2, 4)
    stages = graphs.partition(graphs.capture(model, (x,)), 2).split(model)
    early, late = run(stages, (x,))
    expected = model(x)
    assert torch.equal(early, expected["early"]) and torch.equal(late, expected["late"])
    assert set(stages[0].state_dict()) == {"first.weight", "first.bias"}


def test_tied_weights_in_one_process():
    model, args = small_models.make("gpt")
    plan = graphs.partition(small_models.captured("gpt"), 2)
    copies = [copy.deepcopy(stage) for stage in plan.split(model)]  # as two processes have them
    small_models.loss_of(run(copies, args)).backward()
    small_models.loss_of(model(*args)).backward()
    first, last = copies[0].get_parameter("tokens.weight"), copies[1].get_parameter("head.weight")
    expected = model.tokens.weight.grad
    assert (first.grad - expected).abs().max() > 1e-5 and (last.grad - expected).abs().max() > 1e-5
    plan.sync_tied(copies)
    assert torch.equal(first.grad, last.grad) and torch.allclose(first.grad, expected, rtol=0, atol=1e-7)
    before, model.tokens.weight.grad = expected.clone(), None
    shared = plan.split(model)  # one tensor in both: nothing is counted twice
    small_models.loss_of(run(shared, args)).backward()
    plan.sync_tied(shared)
    assert torch.allclose(model.tokens.weight.grad, before, rtol=0, atol=1e-7)


def test_torchs_pipeline_takes_the_split_spec():
    for family in ("gpt", "resnet"):
        model, args = small_models.make(family)
        plan = graphs.partition(small_models.captured(family), 3)
        pipe = pipeline(copy.deepcopy(model).eval(), args, split_spec=plan.split_spec())
        assert pipe.num_stages == 3
        model.eval()
        assert torch.equal(run([pipe.get_stage_module(i) for i in range(3)], args), model(*args))


def test_torchtitan_takes_the_lists_of_modules():
    model, args = small_models.make("llama")
    plan = graphs.partition(small_models.captured("llama"), 4)
    x = args[0]
    for keep in plan.module_fqns_per_model_part():  # what pipeline_module_split does
        part = copy.deepcopy(model)
        for name, child in list(part.named_children()):
            if isinstance(child, nn.ModuleDict):
                for key in list(child):
                    if f"{name}.{key}" not in keep:
                        del child[key]
            elif name not in keep and name != "rotary":
                setattr(part, name, None)
        part.rotary.forward = lambda _: model.rotary(args[0])
        x = part(x)
    assert torch.equal(x, model(*args))


MICROBATCHES = 4
SCHEDULES = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}


def loss(output, target):
    return F.cross_entropy(output.flatten(0, 1), target.flatten())


def train(rank, stages, plan, args, target):
    """For both schedules: the output, of the last rank, and gradients."""
    answers = {}
    for name, kind in SCHEDULES.items():
        stage = plan.pipeline_stage(stages[rank])
        schedule = kind(stage, MICROBATCHES, loss_fn=loss)
        stages[rank].zero_grad()
        output = schedule.step(*(args if rank == 0 else ()), **({"target": target} if rank == len(stages) - 1 else {}))
        plan.sync_tied(stages[rank])
        gradients = {key: value.grad.numpy() for key, value in stages[rank].named_parameters()}
        answers[name] = (None if output is None else output.detach().numpy(), gradients)
    return answers


def check_schedules(family, stages, align="modules"):
    model, args = small_models.make(family, batch=2 * MICROBATCHES)
    # In float one last digit of a gradient above 1 is more than 1e-7, and sums are taken in another order.
    model.double()
    args = tuple(arg.double() if arg.is_floating_point() else arg for arg in args)
    target = torch.randint(0, small_models.VOCABULARY, (2 * MICROBATCHES, small_models.LENGTH))
    graph = graphs.capture(model, tuple(arg[:2] for arg in args), loss=loss, target=target[:2])
    plan = graphs.partition(graph, stages, objective="pipeline", microbatches=MICROBATCHES, align=align)
    outputs = []
    for i in range(0, 2 * MICROBATCHES, 2):
        outputs.append(model(*(arg[i : i + 2] for arg in args)))
        (loss(outputs[-1], target[i : i + 2]) / MICROBATCHES).backward()
    expected = {name: p.grad for name, p in model.named_parameters(remove_duplicate=False)}
    made = plan.split(copy.deepcopy(model))
    for stage in made:
        stage.requires_grad_(True)
    answers = ranks.run(stages, train, made, plan, args, target)
    for name in SCHEDULES:
        assert torch.equal(torch.from_numpy(answers[-1][name][0]), torch.cat(outputs)), name
        seen = set()  # tied weights in one stage have one of their names
        for answer in answers:
            for key, gradient in answer[name][1].items():
                seen.add(id(model.get_parameter(key)))
                difference = (torch.from_numpy(gradient) - expected[key]).abs().max().item()
                assert difference <= 1e-7, (name, key, difference)
        assert seen == {id(parameter) for parameter in model.parameters()}
    return plan


def test_gpipe_and_1f1b_on_two_processes():
    plan = check_schedules("gpt", 2)
    assert len(plan.tied) == 1


@pytest.mark.long
@pytest.mark.parametrize("family", ["gpt", "llama", "bert", "encoder_decoder"])
@pytest.mark.parametrize("stages", [2, 4])
def test_gpipe_and_1f1b_on_more_processes(family, stages):
    check_schedules(family, stages)
    check_schedules(family, stages, align=None)


@pytest.mark.parametrize("family", ["gpt", "llama"])
def test_stages_keep_the_modules_of_the_model(family):
    """Each block is a module of one stage, under its name, with its weights; so is what is in it."""
    model, args = small_models.make(family)
    plan = graphs.partition(small_models.captured(family), 2)
    stages = plan.split(copy.deepcopy(model))
    blocks = [name for name, module in model.named_modules() if type(module).__name__ in ("Block", "LlamaLayer")]
    assert len(blocks) > 1
    found = [name for stage in stages for name, _ in stage.named_modules() if name in blocks]
    assert found == blocks
    for stage in stages:
        inside = dict(stage.named_modules())
        for name in set(inside) & set(blocks):
            whole = model.get_submodule(name)
            assert dict(inside[name].named_parameters()).keys() == dict(whole.named_parameters()).keys()
    calls = []
    for stage in stages:
        for name, module in stage.named_modules():
            if name in blocks:
                module.register_forward_hook(lambda *_, name=name: calls.append(name))
    assert torch.equal(run(stages, args), model(*args)) and calls == blocks


def test_a_module_of_the_name_self_is_kept():
    """As BERT names its attention's parts; in the code that torch.fx writes `self` is the module around."""

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.self = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
            self.output = nn.Sequential(nn.Linear(8, 8), nn.Tanh())

        def forward(self, x):
            return self.output(self.self(x))

    model = nn.Sequential(Attention(), Attention())
    x = torch.rand(4, 8)
    stages = graphs.partition(graphs.capture(model, (x,)), 2).split(model)
    assert "0.self" in dict(stages[0].named_modules())
    assert torch.equal(run(stages, (x,)), model(x))
