"""Random modules through torch's own partitioner and ours: partitions, DAG, submodules, errors, outputs are equal."""

import collections

import pytest
from fx_cases import MODES, make_case, record, torch_record
from torch.fx.experimental import partitioner_utils

import plimsoll.fx as fx

NUM_SHORT, NUM_LONG = 75, 600


def our_record(seed):
    case = make_case(seed)
    if seed % 2:  # torch's own classes, or ours
        config = case.config()
        assert type(config) is partitioner_utils.PartitionerConfig
    else:
        config = case.config(fx.PartitionMode, fx.PartitionerConfig)
    return record(fx.Partitioner, fx, case, config)


def compare(seeds):
    """Compares, and counts what was met."""
    met = collections.Counter()
    for seed in seeds:
        mode = MODES[seed % len(MODES)]
        theirs, ours = torch_record(seed), our_record(seed)
        assert ours == theirs, f"seed {seed}, {mode}\n{make_case(seed).traced.graph}"
        if "error" in theirs:
            met[theirs["error"][0]] += 1
            continue
        assert ours["runs"], f"seed {seed}"
        met["plan"] += 1
        met[mode, "one" if len(ours["partitions"]) == 1 else "several"] += 1
        met["copies"] += any(len(devices) > 1 for _, _, _, devices, *_ in ours["partitions"])
        met["twice"] += any(len(set(devices)) < len(devices) for _, _, _, devices, *_ in ours["partitions"])
        met["printed"] += bool(ours["printed"])
        met["latency"] += "critical_path" in ours
    return met


def test_some_random_modules():
    met = compare(range(NUM_SHORT))
    assert met["plan"] > 40 and met["RuntimeError"] > 3 and met["printed"] > 3 and met["latency"] > 40, met
    for mode in MODES:
        assert met[mode, "several"] >= 1 and met[mode, "one"] >= 1, met


@pytest.mark.long
@pytest.mark.parametrize("tenth", range(10))
def test_six_hundred_random_modules(tenth):
    compare(range(tenth, NUM_LONG, 10))


@pytest.mark.long
def test_the_random_modules_meet_every_kind_of_answer():
    met = collections.Counter()
    for seed in range(NUM_LONG):
        theirs = torch_record(seed)
        kind = theirs["error"][0] if "error" in theirs else "one" if len(theirs["partitions"]) == 1 else "several"
        met[MODES[seed % len(MODES)], kind] += 1
        if kind == "several":
            lists = [devices for _, _, _, devices, *_ in theirs["partitions"]]
            met["copies"] += any(len(devices) > 1 for devices in lists)
            met["twice"] += any(len(set(devices)) < len(devices) for devices in lists)
    for mode in MODES:
        assert met[mode, "one"] >= 10 and met[mode, "several"] >= 10 and met[mode, "RuntimeError"] >= 3, met
    for kind in ("KeyError", "IndexError", "ZeroDivisionError", "AssertionError", "AttributeError", "RecursionError"):
        assert any(met[mode, kind] for mode in MODES) or kind == "RecursionError", (kind, met)
    assert met["copies"] >= 20 and met["twice"] >= 3, met
