"""Planning a dump without torch."""

import copy
import gc
import itertools
import json

import numpy as np
import pytest

import plimsoll
from plimsoll import _native, options

# Two ranks on one host, two tables; every option's cost by hand.
#   a: table_wise 4 ms, 10 B; row_wise 2.5 ms, 5 B on both ranks
#   b: table_wise 3 ms, 10 B; column_wise in two blocks of 1.6 ms, 5 B
DUMP = {
    "schema": "plimsoll.torchrec_options/1",
    "world_size": 2,
    "local_world_size": 2,
    "group_size": 2,
    "compute_device": "cuda",
    "context_hash": "abc",
    "capacity": [[100, 0, 0]] * 2,
    "room": [[100, 0, 0]] * 2,
    "shard_classes": [[10, 0, 0, 4.0], [5, 0, 0, 2.5], [10, 0, 0, 3.0], [5, 0, 0, 1.6]],
    "options": [
        {"fqn": "m.a", "sharding_type": "table_wise", "compute_kernel": "fused", "shards": [0],
         "sizes": [[100, 8]], "rows": 100, "columns": 8},
        {"fqn": "m.a", "sharding_type": "row_wise", "compute_kernel": "fused", "shards": [1, 1],
         "sizes": [[50, 8], [50, 8]], "rows": 100, "columns": 8},
        {"fqn": "m.b", "sharding_type": "table_wise", "compute_kernel": "fused", "shards": [2],
         "sizes": [[100, 8]], "rows": 100, "columns": 8},
        {"fqn": "m.b", "sharding_type": "column_wise", "compute_kernel": "fused", "shards": [3, 3],
         "sizes": [[100, 4], [100, 4]], "rows": 100, "columns": 8},
    ],
}  # fmt: skip


def brute_force(dump):
    """Least rating over all options and ranks."""
    costs = [entry[3] for entry in dump["shard_classes"]]
    best = float("inf")
    for a, b in itertools.product((0, 1), (2, 3)):
        places_a = [(0,), (1,)] if a == 0 else [(0, 1)]
        places_b = [(0,), (1,)] if b == 2 else list(itertools.product((0, 1), repeat=2))
        for ranks_a, ranks_b in itertools.product(places_a, places_b):
            load = [0.0, 0.0]
            for option, ranks in ((a, ranks_a), (b, ranks_b)):
                for shard, rank in zip(dump["options"][option]["shards"], ranks):
                    load[rank] += costs[shard]
            best = min(best, max(load))
    return best


def test_the_best_plan_by_hand():
    answer = options.plan(DUMP, objective="rating")
    assert answer["status"] == "optimal"
    assert answer["rating"] == pytest.approx(brute_force(DUMP)) == pytest.approx(4.0)
    assert answer["bound"] == pytest.approx(4.0)
    assert [entry["fqn"] for entry in answer["plan"]] == ["m.a", "m.b"]


def test_uniform_options_stand_on_every_rank():
    dump = copy.deepcopy(DUMP)
    del dump["options"][0]
    answer = options.plan(dump, objective="rating")
    assert answer["plan"][0] == {"fqn": "m.a", "option": 0, "ranks": [0, 1]}
    assert answer["rating"] == pytest.approx(2.5 + 1.6)


def test_arrays_come_without_copies_and_outlive_the_search():
    space, *_ = _native.read_space(json.dumps(DUMP))
    room = np.array(DUMP["room"], dtype=np.int64)
    proposal = np.array([1, 3], dtype=np.int32)
    room.flags.writeable = proposal.flags.writeable = False  # what is only read may be read-only
    placed = space.place(room, proposal, 100)
    arrays = [space.least_options(), *placed.values()]
    kept = [array.copy() for array in arrays]
    del space, placed
    gc.collect()
    for array, values in zip(arrays, kept):
        assert not array.flags.owndata and array.base is not None and array.flags.c_contiguous
        assert array.dtype in (np.int32, np.int64) and (array == values).all()
    assert arrays[0].tolist() == [0, 2]


def test_no_room_is_proved():
    dump = copy.deepcopy(DUMP)
    dump["room"] = [[6, 0, 0]] * 2
    answer = options.plan(dump, objective="rating")
    assert "plan" not in answer and answer["status"] == "infeasible"
    assert answer["certificate"]["proof"]


def test_mean_pooled_tables_make_no_hazard():
    dump = copy.deepcopy(DUMP)
    dump["shard_classes"][1][3] = 0.1  # rows would be best by far
    assert options.plan(dump, objective="rating")["plan"][0]["option"] == 1
    for entry in dump["options"]:
        entry["pooling"] = "mean"
    assert options.plan(dump, objective="rating")["plan"][0]["option"] == 0
    assert options.plan(dump, objective="rating", strict=False)["plan"][0]["option"] == 1


def test_components_count_by_phase():
    dump = copy.deepcopy(DUMP)
    dump["shard_classes"] = [[b, d, s, t, t / 2, 0, t / 2, 0, 0] for b, d, s, t in dump["shard_classes"]]
    answer = options.plan(dump, objective="step")
    assert answer["rating"] == pytest.approx(4.0) == pytest.approx(answer["certificate"]["objective"])


def test_rooms_are_kept():
    dump = copy.deepcopy(DUMP)
    dump["room"] = [[10, 0, 0]] * 2  # each table alone, or cut
    used = [0, 0]
    for entry in options.plan(dump, objective="rating")["plan"]:
        for shard, rank in zip(dump["options"][entry["option"]]["shards"], entry["ranks"]):
            used[rank] += dump["shard_classes"][shard][0]
    assert max(used) <= 10


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.update(schema="plimsoll.plan/1"), "expected .plimsoll.torchrec_options/1"),
        (lambda d: d["options"][3].update(shards=[3, 2]), "a column block unlike the first"),
        (lambda d: d["options"][0].update(sharding_type="sideways"), "sideways"),
        (lambda d: d.update(room=[[1, 2, 3]]), "1 entries for 2 rank"),
        (lambda d: d.update(local_world_size=0), "local_world_size"),
        (lambda d: d["options"][0].update(shards=[7]), "class 7 of 4"),
        (lambda d: d.pop("room"), "the key 'room' is missing"),
        (lambda d: d.update(room={1, 2}), "set has no form in JSON"),
    ],
)
def test_bad_dumps_are_errors(change, words):
    dump = copy.deepcopy(DUMP)
    change(dump)
    with pytest.raises(plimsoll.Error, match=words):
        options.plan(dump)


def test_options_of_a_table_may_stand_apart():
    dump = copy.deepcopy(DUMP)
    dump["options"] = [DUMP["options"][i] for i in (2, 0, 3, 1)]
    answer = options.plan(dump, objective="rating")
    for entry in answer["plan"]:
        assert dump["options"][entry["option"]]["fqn"] == entry["fqn"]
    assert answer["rating"] == pytest.approx(4.0)


def test_a_dump_may_be_a_path_and_hold_arrays(tmp_path):
    (tmp_path / "dump.json").write_text(json.dumps(DUMP))
    dump = DUMP | {"room": np.array(DUMP["room"]), "world_size": np.int64(2)}
    assert options.plan(tmp_path / "dump.json") == options.plan(str(tmp_path / "dump.json")) == options.plan(dump)


def parts(document, path=()):
    """Paths to all that a document holds."""
    entries = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in entries:
        yield (*path, key)
        if isinstance(value, (dict, list)):
            yield from parts(value, (*path, key))


WRONG = [None, -1, 0, 3, 2**31, 2**63, 10**30, 1.5, float("nan"), "x", "", [], {}, True, "grid_shard", "key_value"]


def test_whatever_is_wrong_with_a_dump_is_an_error():
    """Of every part each wrong value in turn: a plan or an error, never a crash."""
    for path in parts(DUMP):
        for value in WRONG:
            dump = copy.deepcopy(DUMP)
            parent = dump
            for key in path[:-1]:
                parent = parent[key]
            parent[path[-1]] = value
            try:
                options.plan(dump, objective="rating", effort=20)
            except plimsoll.Error as error:
                assert error.code != "internal", (path, value)


def test_the_step_model_is_what_time_is_made_of():
    # One sharding type costs nothing, then as much as all work.
    free = options.plan(DUMP, objective="time", step_model={"ms_per_sharding_type": 0, "floor_ms": 2})
    dear = options.plan(DUMP, objective="time", step_model={"ms_per_sharding_type": 100})
    types = {DUMP["options"][entry["option"]]["sharding_type"] for entry in dear["plan"]}
    assert types == {"table_wise"}
    assert dear["certificate"]["objective"] == pytest.approx(104.0)
    assert free["certificate"]["objective"] == pytest.approx(6.0)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"objective": "speed"}, "objective: no objective 'speed'; choose time, rating or step"),
        ({"step_model": {"ms_per_tabel": 1}}, "step_model: no charge 'ms_per_tabel'"),
        ({"step_model": {"ms_per_table": -1}}, "step_model: a weight or charge below 0"),
        ({"time_limit_s": 0}, "time_limit_s: 0 is not above 0"),
        ({"tolerance": -1}, "tolerance: -1 is below 0"),
        ({"effort": -1}, "effort: -1 is not from 0"),
        ({"seed": -1}, "seed: -1 is not from 0"),
    ],
)
def test_bad_settings_are_errors(settings, words):
    with pytest.raises(plimsoll.Error, match=words):
        options.plan(DUMP, **settings)


def test_the_command_line_plans_the_same_dump():
    answer = plimsoll.shard(DUMP, objective="rating")
    assert answer.status == "optimal" and answer.rating == pytest.approx(4.0)
    ours = options.plan(DUMP, objective="rating")
    taken = [{key: entry[key] for key in ("fqn", "option", "ranks")} for entry in answer.document["options"]]
    assert taken == ours["plan"]
    assert answer.certificate.lower_bound == ours["certificate"]["lower_bound"]
    assert answer.bytes["capacity_hbm"].tolist() == [100, 100]


def test_a_cut_reference_is_told():
    dump = copy.deepcopy(DUMP)
    dump["room"] = [[9, 0, 0]] * 2  # greedy in TorchRec's way finds nothing; rows and columns fit
    answer = options.plan(dump, objective="time")
    assert all(set(warning) == {"code", "place", "message"} for warning in answer["warnings"])


def test_the_same_input_gives_the_same_plan():
    assert options.plan(DUMP) == options.plan(copy.deepcopy(DUMP))


COST = ((5, 0, 0), (1.0, 0.0, 0.0, 0.0, 0.0, 0.0))
LAST = ((3, 0, 0), (0.5, 0.0, 0.0, 0.0, 0.0, 0.0))


def test_equal_neighbours_are_one_run():
    # Ten rows in blocks of four, four and two, then the same in a second column block.
    shapes = [(rows, 8, first, column) for column in (0, 8) for rows, first in ((4, 0), (4, 4), (2, 8))]
    blocks, runs, perfs = options.runs_of("grid_shard", shapes, [COST, COST, LAST] * 2)
    assert blocks == 2
    assert runs == [(2, 4, 8, 0, 4, 5, 0, 0), (1, 2, 8, 8, 2, 3, 0, 0)]
    assert perfs == [COST[1], LAST[1]]


def test_replicas_have_no_stride():
    assert options.runs_of("data_parallel", [(10, 8, 0, 0)] * 3, [COST] * 3)[1] == [(3, 10, 8, 0, 0, 5, 0, 0)]
