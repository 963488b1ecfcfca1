"""Times of operators by a machine document, and what measured times add to operators alone."""

import json
import pathlib

import pytest
import torch
from torch import nn

import plimsoll
from plimsoll import checkpointing as ck
from plimsoll.checkpointing._times import MeasuredTimes, Operators, _Unit, fresh_bytes

LAUNCH_US = 7.0
ROOT = pathlib.Path(__file__).resolve().parents[3]


def machine(**operators):
    known = {"launch_us": LAUNCH_US, "memory_gb_per_s": 1.0, "peak_tflops": {"fp32": 0.001}}
    return {"schema": "plimsoll.machine/1", "name": "mine", "operators": known | operators}


def model_and_batch():
    return nn.Sequential(nn.Linear(64, 32, bias=False), nn.ReLU()), torch.ones(16, 64)


def loss(output):
    return output.sum()


def operators_of(model, batch):
    """[(flops, bytes)] of a forward with its loss, by hand: a product, an activation, a sum."""
    product = (2.0 * 16 * 64 * 32, 4.0 * (16 * 64 + 64 * 32 + 16 * 32))
    return [product, (0.0, 4.0 * 2 * 16 * 32), (0.0, 4.0 * (16 * 32 + 1))]


def test_an_operator_takes_a_launch_and_the_longer_of_arithmetic_and_memory():
    model, batch = model_and_batch()
    stats = ck.profile(model, batch, loss=loss, times=machine())
    expected = sum(LAUNCH_US * 1e-3 + max(flops / 1e6, moved / 1e6) for flops, moved in operators_of(model, batch))
    assert stats.trace.forward_ms == pytest.approx(expected)


def test_a_path_and_a_dict_are_the_same(tmp_path):
    model, batch = model_and_batch()
    path = tmp_path / "machine.json"
    path.write_text(json.dumps(machine()))
    by = [ck.profile(model, batch, loss=loss, times=times) for times in (path, str(path), machine())]
    assert by[0].step_ms == by[1].step_ms == by[2].step_ms > 0


def test_a_shipped_machine_goes_by_its_name():
    model, batch = model_and_batch()
    stats = ck.profile(model, batch, loss=loss, times="a100-sxm4-80gb")
    document = json.loads((ROOT / "data/machines/a100-sxm4-80gb.json").read_text())
    assert stats.step_ms == ck.profile(model, batch, loss=loss, times=document).step_ms > 0
    with pytest.raises(plimsoll.Error, match=r"times: 'a100-sxm4-80g' is unknown; .*'a100-sxm4-80gb'"):
        ck.profile(model, batch, loss=loss, times="a100-sxm4-80g")
    with pytest.raises(plimsoll.Error, match=r"none\.json: No such file"):
        ck.profile(model, batch, loss=loss, times="none.json")


def test_without_work_a_step_is_its_launches():
    model, batch = model_and_batch()
    free = machine(memory_gb_per_s=1e12, peak_tflops={"bf16": 1e12})
    stats = ck.profile(model, batch, loss=loss, times=free)
    assert stats.trace.forward_ms == pytest.approx(3 * LAUNCH_US * 1e-3)
    assert stats.trace.backward_ms >= 3 * LAUNCH_US * 1e-3
    assert "roofline" not in stats.module_stats  # the command line keeps these times


def test_statistics_say_which_roofline_they_were_computed_by():
    model, batch = model_and_batch()
    stats = ck.profile(model, batch, loss=loss)
    assert stats.module_stats["roofline"] == {"dram_gb_per_s": 2039.0, "tflops": {"float32": 19.5}}
    again = ck.profile(model.bfloat16(), batch.bfloat16(), loss=loss)
    assert again.module_stats["roofline"]["tflops"] == {"bfloat16": 312.0}
    scaled = plimsoll.checkpoint(stats.module_stats, "100%", machine="a100-sxm4-80gb")
    assert scaled.document["provenance"]["options"]["operator_times"].startswith("operators published")


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"schema": "plimsoll.model/1"}, "is not a machine document"),
        ({"schema": "plimsoll.machine/1"}, "no times of dense operators"),
        (machine(peak_tflops={}), "no times of dense operators"),
    ],
)
def test_other_documents_are_refused(document, said):
    model, batch = model_and_batch()
    with pytest.raises(plimsoll.Error, match=said):
        ck.profile(model, batch, loss=loss, times=document)


def test_measured_operators_get_their_share_of_a_step(monkeypatch):
    """Of a machine on which an operator takes 1 ms, in a step 3 ms and a nanosecond for each byte that it makes."""

    def least(self, run, is_cuda, repeats=0):
        with Operators() as seen:
            run()
        made = sum(fresh_bytes(*call) for call in seen.calls)
        return len(seen.calls) * 3.0 + made * 1e-6 if run.__name__ == "step" else 1.0

    monkeypatch.setattr(MeasuredTimes, "_least", least)
    times = MeasuredTimes()
    assert times._operator_ms == pytest.approx(2.0, rel=0.01)
    assert times._byte_ms == pytest.approx(1e-6, rel=0.05)
    x = torch.ones(1000)
    out = torch.add(x, x)
    assert times(torch.ops.aten.add.Tensor, (x, x), {}, out) == pytest.approx(1 + 2 + 4000e-6, rel=0.01)
    assert fresh_bytes(torch.ops.aten.add.Tensor, (x, x), {}, out) == 4000
    assert fresh_bytes(torch.ops.aten.add_.Tensor, (x, out), {}, x) == 0
    assert times(torch.ops.aten.view.default, (x, [10, 100]), {}, x.view(10, 100)) == pytest.approx(3, rel=0.01)


def test_what_checkpointing_costs_by_itself_is_told_from_operators(monkeypatch):
    """On a machine where an operator takes 1 ms, a call of a unit 20, a saved tensor 3, a call under a policy 7, and an
    operator under one 0.5 in small layers and 2 in wide ones."""
    seen = []

    def steps_ms(self, unit, *options):
        seen.append((unit.saved, len(unit.operators)))
        told = []
        for given in options:
            ms = 100.0
            if given:
                ms += 20 + 3 * unit.saved + len(unit.operators)
            if "context_fn" in given:
                ms += 7 + (2.0 if unit.x.shape[-1] > 8 else 0.5) * 2 * len(unit.operators)
            told.append(ms)
        return told

    times = MeasuredTimes(repeats=1)
    monkeypatch.setattr(MeasuredTimes, "_steps_ms", steps_ms)
    monkeypatch.setattr(MeasuredTimes, "__call__", lambda *_: 1.0)
    costs = times.checkpoint_costs(torch.device("cpu"))
    assert (costs.unit, costs.save, costs.selective, costs.operator) == pytest.approx((20, 3, 7, 2), rel=1e-9)
    assert seen[1][0] == 6 * seen[0][0] > 0 and seen[1][1] == 6 * seen[0][1] > 0


def test_steps_with_checkpoint_are_measured():
    times = MeasuredTimes(repeats=3)
    unit = _Unit(1, 8, 2, torch.device("cpu"))
    without, checkpointed = times._steps_ms(unit, {}, {"preserve_rng_state": True})
    assert 0 < without < checkpointed
