"""What capture writes down of a model, and that it leaves the model alone."""

import copy
import json

import pytest
import small_models
import torch
import torch.nn.functional as F
from torch import nn

import plimsoll
from plimsoll import graphs


def perceptron():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def test_a_forward_graph_has_the_operators_and_weights_of_the_model():
    graph = graphs.capture(perceptron(), (torch.randn(3, 8),))
    assert [(n.name, n.target, n.module) for n in graph.nodes if n.is_operator] == [
        ("linear", "aten.linear.default", "0"),
        ("relu", "aten.relu.default", "1"),
        ("linear_1", "aten.linear.default", "2"),
    ]
    weights = {n.target: n.output_bytes for n in graph.nodes if n.is_parameter}
    assert weights == {"0.weight": 512, "0.bias": 64, "2.weight": 256, "2.bias": 16}
    assert graph.parameter_bytes == 848 and not graph.is_training
    linear = next(n for n in graph.nodes if n.name == "linear")
    assert linear.flops == 2 * 3 * 8 * 16 and linear.output_bytes == 4 * 3 * 16
    assert linear.bytes_moved == 512 + 64 + 4 * 3 * 8 + 4 * 3 * 16
    assert {graph.nodes[i].target for i in linear.inputs} == {"0.weight", "0.bias", "input"}


def test_a_training_graph_has_the_backward_pass_of_every_operator():
    graph = graphs.capture(perceptron(), (torch.randn(3, 8),), loss=F.mse_loss, target=torch.randn(3, 4))
    passes = {
        name: {n.module for n in graph.nodes if n.is_backward and n.origin == name} for name in ("linear", "relu")
    }
    assert passes == {"linear": {"0"}, "relu": {"1"}}
    flops = {b: sum(n.flops for n in graph.nodes if n.is_backward == b) for b in (False, True)}
    first, second = 2 * 3 * 8 * 16, 2 * 3 * 16 * 4
    assert flops == {False: first + second, True: first + 2 * second}  # inputs have no gradient
    returned = [graph.nodes[i] for i in graph.nodes[-1].inputs]
    assert [n.output_bytes for n in returned if n.is_backward] == [512, 64, 256, 16]


@pytest.mark.parametrize("family", small_models.FAMILIES)
def test_every_backward_operator_belongs_to_one_of_the_forward_pass(family):
    graph = small_models.captured(family, True)
    forward = {n.name for n in graph.nodes if n.is_operator and not n.is_backward}
    stems = {n.origin for n in graph.nodes if n.is_backward}
    assert stems <= {name.partition(".")[0] for name in forward}
    work = [sum(n.flops for n in graph.nodes if n.is_backward == b) for b in (False, True)]
    assert 1.5 * work[0] < work[1] <= 2.5 * work[0]  # attention's backward pass has five products for two


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_attention_counts_two_products_forward_and_five_backward(device):
    class Attend(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(1))

        def forward(self, x):
            return F.scaled_dot_product_attention(x * self.scale, x, x)

    with torch.device(device):
        model = Attend()
    product = 2 * 2 * 3 * 5 * 5 * 7
    graph = graphs.capture(model, (torch.randn(2, 3, 5, 7),))
    assert graph.flops == 2 * product
    graph = graphs.capture(model, (torch.randn(2, 3, 5, 7),), training=True)
    assert sum(n.flops for n in graph.nodes if n.is_backward) == 5 * product


def test_views_cost_nothing_and_gathers_what_they_take():
    class Look(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(1000, 4)

        def forward(self, ids):
            return self.table(ids).transpose(0, 1) + 1

    nodes = {n.name: n for n in graphs.capture(Look(), (torch.zeros(2, 3, dtype=torch.long),)).nodes}
    assert nodes["embedding"].bytes_moved == 2 * 96 + 48
    assert nodes["transpose"].is_view and nodes["transpose"].bytes_moved == 0
    assert nodes["transpose"].output_bytes == 96 and not nodes["add"].is_view


def test_tied_weights_are_one():
    graph = small_models.captured("gpt")
    model, _ = small_models.make("gpt")
    assert graph.parameter_bytes == 4 * sum(p.numel() for p in model.parameters())
    assert ("tokens.weight", "head.weight") in graph.aliases


def test_no_weight_is_allocated():
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(1 << 18, 1 << 18, bias=False), nn.Linear(1 << 18, 8))  # 256 GiB
    for training in (False, True):
        graph = graphs.capture(model, (torch.randn(2, 1 << 18),), training=training)
        assert graph.parameter_bytes > 256 << 30
    assert all(p.is_meta for p in model.parameters())


def test_the_model_is_left_as_it_was():
    model, args = small_models.make("resnet")
    before, mode, forward = copy.deepcopy(model.state_dict()), model.training, model.forward
    graphs.capture(model, args, training=True)
    assert model.training == mode and model.forward == forward and all(p.grad is None for p in model.parameters())
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in before.items())


def test_a_cache_is_switched_off_while_capturing():
    class Caching(nn.Module):
        def __init__(self):
            super().__init__()
            self.config = type("Config", (), {"use_cache": True})()
            self.linear = nn.Linear(4, 4)

        def forward(self, x):
            y = self.linear(x)
            return (y, x * 2) if self.config.use_cache else (y,)

    model = Caching()
    graph = graphs.capture(model, (torch.randn(2, 4),))
    assert [n.name for n in graph.nodes if n.is_operator] == ["linear"] and model.config.use_cache is True


@pytest.mark.parametrize("training", [False, True])
def test_a_graph_is_saved_and_loaded(tmp_path, training):
    graph = small_models.captured("gpt", training)
    graph.save(tmp_path / "gpt.json")
    loaded = graphs.load(tmp_path / "gpt.json")
    assert loaded.nodes == graph.nodes and loaded.ties == graph.ties and loaded.program is None
    placement = plimsoll.partition(str(tmp_path / "gpt.json"), on="2xh100-sxm")  # as the command reads it
    assert placement.status == "optimal" and plimsoll.check(str(tmp_path / "gpt.json"), placement).is_right


def test_keyword_arguments_and_outputs_with_names():
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x, *, scale, unused=None):
            return {"loss": (self.linear(x) * scale).sum(), "other": x}

    graph = graphs.capture(Named(), (torch.randn(2, 4),), {"scale": torch.ones(4)}, training=True)
    assert any(n.is_backward for n in graph.nodes)
    assert {n.name for n in graph.nodes if n.op == "placeholder"} == {"x", "scale"}


def test_errors_say_what_to_do(tmp_path):
    class Reads(nn.Module):
        def forward(self, x):
            return x + 1 if x.sum().item() > 0 else x

    with pytest.raises(plimsoll.Error, match=r"Reads: torch.export cannot trace it: .*; let forward depend on shapes"):
        graphs.capture(Reads(), (torch.randn(2),))
    with pytest.raises(plimsoll.Error, match="args: a Tensor is not a tuple; give the positional arguments"):
        graphs.capture(perceptron(), torch.randn(3, 8))
    with pytest.raises(plimsoll.Error, match="loss: is not a number that depends on the parameters"):
        graphs.capture(perceptron(), (torch.randn(3, 8),), loss=lambda output: output)
    with pytest.raises(plimsoll.Error, match="model: has no parameter that is trained"):
        graphs.capture(nn.ReLU(), (torch.randn(3, 8),), training=True)
    (tmp_path / "odd.json").write_text("[")
    with pytest.raises(plimsoll.Error, match="is not JSON"):
        graphs.load(tmp_path / "odd.json")
    (tmp_path / "odd.json").write_text(json.dumps({"format": "other"}))
    with pytest.raises(plimsoll.Error, match="is not an operator graph"):
        graphs.load(tmp_path / "odd.json")
    with pytest.raises(plimsoll.Error, match=r"missing\.json: No such file"):
        graphs.load(tmp_path / "missing.json")
    document = graphs.capture(perceptron(), (torch.randn(3, 8),)).to_document()
    document["rows"][2] = document["rows"][2][:3]
    (tmp_path / "odd.json").write_text(json.dumps(document))
    with pytest.raises(plimsoll.Error, match="row 2 cannot be read"):
        graphs.load(tmp_path / "odd.json")
