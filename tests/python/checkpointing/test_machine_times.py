"""Times of operators by a machine document, and what measured times add to operators alone."""

import itertools
import json
import pathlib
import sys

import pytest
import torch
from torch import nn

import plimsoll
from plimsoll import checkpointing as ck
from plimsoll.checkpointing._times import MeasuredTimes, Operators, _Units, fresh_bytes
from plimsoll.checkpointing._trace import Trace

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


def test_what_checkpointing_costs_by_itself_is_told_from_second_forwards(monkeypatch):
    """On a machine where a call of a unit takes 20 ms, a saved tensor 3, a call under a policy 7, an operator under one
    0.5 in each run and a kept operator 1, all of it twice as long between large operators, or as long as there."""
    seen = []

    def step(self, options, timed):
        seen.append((len(self.modules), self.saved, len(self.operators), tuple(self.x.shape)))
        slow = self.x.shape[-1] // 64 or 1  # the larger, the slower
        forward, backward = 100.0, 200.0
        if options is not None:
            forward += slow * 3 * self.saved * len(self.modules)
            backward += 100 * 1 + slow * 20 * len(self.modules)
        if options:
            kept = options["context_fn"].__closure__[0].cell_contents.keep
            each = slow * 0.5 * len(self.operators) * len(self.modules)
            forward += each + slow * 1.0 * len(kept) * len(self.modules)
            backward += each + slow * 7 * len(self.modules)
        return forward, backward

    times = MeasuredTimes(repeats=1)
    monkeypatch.setattr(_Units, "step", step)
    for made, width in ((0, 64), (2 * 43691, 128), (10**9, 384)):
        seen.clear()
        costs = times.checkpoint_costs(torch.device("cpu"), made)
        small, large, sized = sorted(set(seen), key=seen.index)
        assert large[:3] == (1, 6 * small[1], 6 * small[2]) and small[1] > 0
        assert sized[0] == 2 and sized[3] == (1, 512, width)
        expected = [width / 64 * ms for ms in (20, 3, 7, 0.5, 1)]
        found = [costs.unit, costs.save, costs.selective, costs.operator, costs.kept]
        assert found == pytest.approx(expected, rel=1e-9)
        assert costs.kept_byte == 2 * times._byte_ms


def test_one_slow_turn_changes_no_cost(monkeypatch):
    """Costs are medians of differences within a turn."""
    counts = itertools.count()

    def step(self, options, timed):
        slow = 100.0 if next(counts) == 5 else 0.0  # with checkpoint, in the first turn that counts
        return 10.0 + slow, 20.0 + (15.0 if options is not None else 0.0) + (2.0 if options else 0.0)

    times = MeasuredTimes(repeats=2)
    monkeypatch.setattr(_Units, "step", step)
    call, policy, kept = times._added(_Units(1, 1, 8, (1, 2), torch.device("cpu")))
    assert (call, policy, kept) == pytest.approx((5.0, 2.0, 0.0))


def _python_calls(run, is_cuda, count):
    """How many functions of Python run, in place of MeasuredTimes._timed."""
    calls = []
    sys.setprofile(lambda frame, event, arg: calls.append(event == "call"))
    try:
        for _ in range(count):
            run()
    finally:
        sys.setprofile(None)
    return sum(calls) / count


def test_steps_with_checkpoint_are_measured(monkeypatch):
    """Python's calls stand for time: checkpoint and its policies make some, and machines that are busy none."""
    times = MeasuredTimes(repeats=3)
    units = _Units(2, 1, 8, (1, 2), torch.device("cpu"))
    assert units.products and units.saved and all(module.training for module in units.modules)
    with monkeypatch.context() as patch:
        patch.setattr(times, "_timed", _python_calls)
        call, policy, kept = times._added(units)
        assert call > 50 and policy > 50 and kept > 0
        assert (call, policy, kept) == times._added(units)
    ran = []
    asked = {"context_fn": lambda: ran.append(1) or units.policy(units.products)["context_fn"]()}
    forward, backward = units.step(asked, times._timed)
    assert forward > 0 and backward > 0 and len(ran) == 2  # units
    for keep, runs in (([], 2), (units.products, 1)):  # what is kept does not run again
        with Operators() as seen:
            units.step(units.policy(keep), times._timed)
        products = [call for call in seen.calls if call[0] is torch.ops.aten.addmm.default]
        assert len(products) == runs * 2 * len(units.products)


def test_the_mean_operator_of_a_forward_is_told():
    trace = Trace(num_forward=3, storages=[(600, 0, -1, -1), (300, 2, -1, -1), (5000, 3, -1, -1)], operators=[0, 1, 2])
    assert trace.mean_bytes() == 300
    assert Trace().mean_bytes() == 0
