"""A calibration run from its first measurement to its document, on a machine whose times are known."""

import json

import machines
import pytest

import plimsoll
from plimsoll import calibration
from plimsoll.calibration import _machine, _program
from plimsoll.calibration._machine import fit_step

QUICK = {"ranks": 2, "optimizers": ["sgd"], "data_types": ["fp32"]}


@pytest.fixture
def machine(monkeypatch):
    return machines.Machine().install(monkeypatch)


def cut_after(count):
    """A progress that interrupts before the measurement of that number."""

    def progress(_, done, __, ___):
        if done == count:
            raise KeyboardInterrupt

    return progress


def without_date(document):
    return {key: value for key, value in document.items() if key not in ("created", "sources")}


@pytest.mark.parametrize(("cores", "contended", "time"), [(2, 0, "low_ms"), (2, 2, "cpu_ms"), (1, 0, "cpu_ms")])
def test_steps_of_ranks_that_share_cores_are_fitted_to_processor_time(machine, cores, contended, time):
    document = plimsoll.calibrate(budget="standard", **QUICK)
    points = document["step"]["points"]
    document["host"]["cores"] = cores
    for i, point in enumerate(points):
        point["low_ms"] = 3 * point["cpu_ms"]
        point["contended"] = i % 3 < contended
    _machine.finish(document)
    fitted = fit_step(points, [point[time] for point in points], document["seed"])
    assert document["step"]["kernel_weight"] == pytest.approx(fitted["kernel_weight"])
    assert _machine.are_steps_processor_time(document) == (time == "cpu_ms")


def test_permuted_outputs_of_cut_columns_are_part_of_the_kernels():
    document = {"kernels": [], "collectives": [], "operators": {"memory_gb_per_s": 2.0}}
    groups = [
        {"rank": 0, "sharding_type": "table_wise", "lookups": 1, "output_bytes": 9e9},
        {"rank": 0, "sharding_type": "column_wise", "lookups": 1, "output_bytes": 1e6},
        {"rank": 1, "sharding_type": "column_wise", "lookups": 1, "output_bytes": 3e6},
    ]
    assert _machine.plan_parts(document, {"groups": groups})["kernel_ms"] == pytest.approx(4 * 3e6 / 2e6)
    assert _machine.plan_parts(document | {"operators": {}}, {"groups": groups})["kernel_ms"] == 0


def test_the_document_predicts_the_machine(machine):
    document = plimsoll.calibrate(budget="standard", **QUICK)
    assert document["schema"] == "plimsoll.machine/1" and document["complete"]
    for entry in document["kernels"]:
        true = machines.TERMS[entry["kernel"], entry["direction"]]
        assert len(entry["points"]) == (8 if entry["kernel"] == "dense" else 12)
        assert entry["held_out"]["mean"] < 0.02
        for point in entry["points"]:
            assert calibration.kernel_ms(entry["terms"], point) == pytest.approx(point["ms"], rel=0.02)
        assert entry["terms"]["lookup_ns"] == pytest.approx(true["lookup_ns"], rel=0.2)
    assert {table["operation"] for table in document["collectives"]} == {
        "all_to_all",
        "reduce_scatter",
        "all_gather",
        "all_reduce",
    }
    assert calibration.collective_ms(document, "all_to_all", 3000) == pytest.approx(machines.message_ms(3000), rel=0.01)
    assert document["operators"]["launch_us"] == pytest.approx(machines.STEP_LAUNCH_US)
    assert document["operators"]["memory_gb_per_s"] == pytest.approx(machines.STEP_GB_PER_S, rel=0.01)
    assert document["operators"]["peak_tflops"] == pytest.approx(machines.TFLOPS, rel=0.01)
    for term, value in machines.STEP.items():
        assert document["step"][term] == pytest.approx(value, rel=0.05), term
    assert document["step"]["held_out_models"]["mean"] < 0.05 and document["step"]["rank_correlation"] > 0.95
    assert document["noise"]["contended"] == 0


def test_plans_are_made_from_the_document(machine, tmp_path):
    """What the planner counts is what the document predicts."""
    file = tmp_path / "machine.json"
    document = plimsoll.calibrate(file, budget="standard", **QUICK)
    table = {"name": "t", "num_embeddings": 4000, "embedding_dim": 64, "feature_names": ["f"]}
    table["constraints"] = {"pooling_factors": [10.0], "sharding_types": ["table_wise"]}
    model = {"modules": [{"path": "ebc", "kind": "embedding_bag_collection", "tables": [table]}], "optimizer": "sgd"}
    plans = [plimsoll.shard(model, on="2x1GiB", batch_size=512, machine=m) for m in (document, str(file))]
    assert plans[0].document["bill"] == plans[1].document["bill"]
    bill = plans[0].document["bill"]["ms"]
    shard = calibration.Shard(4000, 64, 4, 10 * 512 * 2, 512 * 2)
    expected = sum(
        calibration.kernel_ms(
            calibration.find_kernel(document, "fused", "fp32", direction, "sgd")["terms"],
            calibration.kernel_variables([shard]),
        )
        for direction in ("forward", "backward")
    )
    assert max(bill["machine_kernels"]) == pytest.approx(expected, rel=1e-9)
    sizes = [8 * 10 * 1024, 4 * 64 * 1024, 4 * 64 * 1024]
    told = sum(calibration.collective_ms(document, "all_to_all", size) for size in sizes)
    assert max(bill["machine_collectives_interpolated"]) == pytest.approx(told, rel=1e-9)
    report = plimsoll.check(model, plans[0], on="2x1GiB", machine=document)
    assert report.is_right and report.certificate_status == "proved"


def test_a_cut_run_is_continued(machine, tmp_path, monkeypatch):
    whole = plimsoll.calibrate(budget="standard", **QUICK)
    calls = len(machine.calls)
    file = tmp_path / "machine.json"
    again = machines.Machine().install(monkeypatch)
    for count in (5, 1, 30, 4, 2):
        with pytest.raises(KeyboardInterrupt):
            plimsoll.calibrate(file, budget="standard", progress=cut_after(count), **QUICK)
        assert not json.loads(file.read_text())["complete"]
    document = plimsoll.calibrate(file, budget="standard", **QUICK)
    assert json.loads(file.read_text()) == document
    assert without_date(document) == without_date(whole)
    assert calls <= len(again.calls) <= calls + 5  # what a cut interrupts may be measured twice


def test_what_does_not_continue_a_file_is_refused(machine, tmp_path):
    file = tmp_path / "machine.json"
    with pytest.raises(KeyboardInterrupt):
        plimsoll.calibrate(file, progress=cut_after(3), **QUICK)
    with pytest.raises(plimsoll.Error, match="was begun with 0, this run has 7") as error:
        plimsoll.calibrate(file, seed=7, **QUICK)
    assert error.value.place == f"{file}#/seed"
    document = json.loads(file.read_text())
    file.write_text(json.dumps(document | {"versions": {"plimsoll": "0"}}))
    with pytest.raises(plimsoll.Error, match="other packages"):
        plimsoll.calibrate(file, **QUICK)
    plimsoll.calibrate(file, overwrite=True, **QUICK)
    with pytest.raises(plimsoll.Error, match="complete"):
        plimsoll.calibrate(file, **QUICK)


@pytest.mark.parametrize(
    "arguments, told",
    [
        ({"budget": "long"}, "budget: 'long' is not known; give quick or standard"),
        ({"ranks": 0}, "ranks: 0 is below 1"),
        ({"device": "tpu"}, "device: 'tpu' cannot be measured"),
        ({"optimizers": ["lamb"]}, "optimizers: 'lamb' cannot be measured; give some of sgd"),
        ({"data_types": ["int4"]}, "data_types: 'int4' cannot be measured"),
    ],
)
def test_arguments_are_checked(machine, arguments, told):
    with pytest.raises(plimsoll.Error, match=told):
        plimsoll.calibrate(**arguments)
    assert not machine.calls


def test_a_document_that_cannot_be_written(machine, tmp_path):
    with pytest.raises(plimsoll.Error, match="No such file"):
        plimsoll.calibrate(tmp_path / "none" / "machine.json", **QUICK)


def test_imported_collectives_are_not_measured(machine, tmp_path):
    text = tmp_path / "all_reduce_perf.txt"
    text.write_text(
        "#  Rank  0 Group  0 Pid  9 on     n1 device  0 [0x07] A\n"
        "#  Rank  1 Group  0 Pid  9 on     n1 device  1 [0x07] A\n"
        "#   size  count   type  redop  root   time  algbw  busbw #wrong   time  algbw  busbw #wrong\n"
        "    1024    256  float    sum    -1  16.05   0.06   0.06      0  15.99   0.06   0.06      0\n"
    )
    document = plimsoll.calibrate(import_nccl=text, **QUICK)
    (table,) = [table for table in document["collectives"] if table["operation"] == "all_reduce"]
    assert (table["bytes"], table["ms"]) == ([1024], [pytest.approx(0.01605)])
    assert document["sources"]["collectives/all_reduce"]["source"] == "nccl-tests, all_reduce_perf.txt"
    assert not [call for call in machine.calls if call[:2] == ("collective", "all_reduce")]


def test_a_collective_is_imported_once(machine, tmp_path):
    text = tmp_path / "all_reduce_perf.txt"
    text.write_text(
        "#  Rank  0 Group  0 Pid  9 on     n1 device  0 [0x07] A\n"
        "#   size  count   type  redop  root   time  algbw  busbw #wrong   time  algbw  busbw #wrong\n"
        "    1024    256  float    sum    -1  16.05   0.06   0.06      0  15.99   0.06   0.06      0\n"
    )
    with pytest.raises(plimsoll.Error, match="a second table of all_reduce on 1 ranks"):
        plimsoll.calibrate(import_nccl=[text, text], **QUICK)


def test_progress_tells_what_is_left(machine):
    told = []
    plimsoll.calibrate(budget="standard", progress=lambda *values: told.append(values), **QUICK)
    assert [done for _, done, _, _ in told] == list(range(len(told)))
    assert {total for _, _, total, _ in told} == {len(told)}
    assert {part for part, *_ in told} == {"kernels", "operators", "collectives", "steps"}
    assert all(left >= 0 for *_, left in told)


def test_drift_is_told_from_scatter(machine, monkeypatch):
    document = plimsoll.calibrate(**QUICK)
    assert not calibration.check(document)["has_drifted"]
    machines.Machine(pace=1.5).install(monkeypatch)
    report = calibration.check(document)
    assert report["has_drifted"] and all(part["ratio"] == pytest.approx(1.5) for part in report["parts"])
    assert not calibration.check(document, tolerance=0.6)["has_drifted"]
    with pytest.raises(plimsoll.Error, match="no measurements"):
        calibration.check({**document, "kernels": []})


def test_the_step_model_of_a_document(machine):
    document = plimsoll.calibrate(budget="standard", **QUICK)
    model = calibration.step_model(document)
    assert model["schema"] == "plimsoll.step_model/1"
    assert model["kernel_weight"] == pytest.approx(10 * machines.STEP["kernel_weight"], rel=0.05)
    assert model["collective_weight"] == pytest.approx(20 * machines.STEP["collective_weight"], rel=0.05)
    of_parts = calibration.step_model(plimsoll.calibrate(budget="quick", ranks=1))
    assert of_parts["ms_per_sharding_type"] == pytest.approx(0.07, rel=0.3)  # two calls


def run(words, capsys):
    code = _program.main(words)
    return code, *capsys.readouterr()


def test_the_program(machine, monkeypatch, tmp_path, capsys):
    file = tmp_path / "machine.json"
    words = ["-o", str(file), "--ranks", "2"]
    code, out, err = run(words, capsys)
    assert code == 0 and "error of what was left out" in out and "all_to_all, 2 ranks" in out
    assert "kernels: 0 of" in err
    code, out, err = run([*words, "--json"], capsys)
    assert code == 1 and json.loads(out)["error"]["code"] == "conflict" and "complete" in err
    code, out, _ = run(["--check", str(file), "-q", "--json"], capsys)
    assert code == 0 and json.loads(out)["schema"] == "plimsoll.machine_check/1"
    machines.Machine(pace=2).install(monkeypatch)
    code, out, _ = run(["--check", str(file)], capsys)
    assert code == 5 and "The machine has drifted" in out
    code, out, _ = run(["--to-step-model", str(file)], capsys)
    assert code == 0 and json.loads(out)["schema"] == "plimsoll.step_model/1"
    code, _, err = run(["--rank", "2"], capsys)
    assert code == 1 and "plimsoll calibrate --help" in err
    code, _, err = run(["--check", str(tmp_path / "none.json")], capsys)
    assert code == 1 and "none.json" in err
    code, _, err = run(["--to-step-model", str(file), "-o", str(tmp_path / "none" / "step.json")], capsys)
    assert code == 1 and "step.json" in err and "No such file" in err


class CutLine:
    """A line of progress that interrupts."""

    def __call__(self, part, done, total, left):
        cut_after(2)(part, done, total, left)

    def close(self):
        pass


def test_an_interrupt_says_how_to_continue(machine, monkeypatch, capsys):
    monkeypatch.setattr(_program, "_Line", CutLine)
    code, _, err = run([], capsys)
    assert code == 3 and "continues" in err
