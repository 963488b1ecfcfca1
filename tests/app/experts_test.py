"""Experts in shard, replan and check: EPLB's placement and ours, the bound, moves, and what is refused."""

import pytest

LOADS = [
    [90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86],
    [20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27],
]
# What EPLB's own page prints for these loads.
PUBLISHED = [
    [5, 6, 5, 7, 8, 4, 3, 4, 10, 9, 10, 2, 0, 1, 11, 1],
    [7, 10, 6, 8, 6, 11, 8, 9, 2, 4, 5, 1, 5, 0, 3, 1],
]
NOW = [[190, 32, *LOADS[0][2:]], LOADS[1]]
SHAPE = {"num_slots": 16, "num_groups": 4, "num_hosts": 2, "num_ranks": 8}


@pytest.fixture
def experts(plimsoll):
    def write(name="experts.json", **changes):
        plimsoll.write(name, {"schema": "plimsoll.experts/1", **SHAPE, "loads": LOADS, **changes})
        return name

    write()
    return write


class TestShard:
    def test_eplb_gives_the_published_placement(self, plimsoll, experts):
        answer = plimsoll.run("shard", "experts.json", "--search", "eplb", "--json", "-o", "plan.json").document
        assert answer["physical_to_logical_map"] == PUBLISHED
        assert answer["objective"] == answer["eplb_load"]
        plimsoll.run("check", "experts.json", "plan.json")

    def test_ours_is_not_above_eplbs_and_judged(self, plimsoll, experts):
        loads = [[(37 * e * e + 11 * layer) % 997 for e in range(64)] for layer in range(3)]
        for hosts in (1, 4):
            experts("many.json", loads=loads, num_slots=80, num_groups=8, num_hosts=hosts, num_ranks=16)
            command = ("shard", "many.json", "--effort", "200000", "--json", "-o", "plan.json")
            answer = plimsoll.run(*command).document
            assert answer["lower_bound"] <= answer["objective"] <= answer["eplb_load"]
            assert answer["objective"] < answer["eplb_load"]
            assert answer == plimsoll.run(*command).document
            report = plimsoll.run("check", "many.json", "plan.json", "--json").document
            assert report["is_right"] and report["certificate_status"] == "proved"

    def test_the_text_names_loads_and_bound(self, plimsoll, experts):
        text = plimsoll.run("shard", "experts.json", "-v").out
        for part in ("slowest ranks", "EPLB", "lower bound", "layer"):
            assert part in text

    @pytest.mark.parametrize(
        ("changes", "place"),
        [
            ({"num_slots": 17}, "num_slots"),
            ({"num_hosts": 3}, "num_hosts"),
            ({"num_groups": 5}, "num_groups"),
            ({"num_ranks": 0}, "num_ranks"),
            ({"loads": []}, "loads"),
            ({"loads": [[1, 2], [1]]}, "loads/1"),
            ({"loads": [[-1] * 12]}, "loads/0"),
        ],
    )
    def test_wrong_models_are_named(self, plimsoll, experts, changes, place):
        experts("wrong.json", **changes)
        assert place in plimsoll.run("shard", "wrong.json", code=1).err

    def test_wrong_flags_are_named(self, plimsoll, experts):
        assert "--on" in plimsoll.run("shard", "experts.json", "--on", "8x80GiB", code=1).err
        assert "eplb" in plimsoll.run("shard", "experts.json", "--search", "torchrec", code=1).err


class TestReplan:
    def test_copies_no_more_than_allowed(self, plimsoll, experts):
        plimsoll.run("shard", "experts.json", "-o", "old.json")
        experts("now.json", loads=NOW)
        last = None
        for limit in ("0", "2", "50%", "100%"):
            answer = plimsoll.run("replan", "now.json", "old.json", "--max-moved", limit, "--json").document
            assert answer["moved_replicas"] <= answer["max_moved_replicas"]
            assert answer["objective"] <= answer["before_load"]
            assert last is None or answer["objective"] <= last
            last = answer["objective"]
        assert last < answer["before_load"]

    def test_eplbs_map_is_a_plan_to_move_from(self, plimsoll, experts):
        experts("now.json", loads=NOW)
        plimsoll.write("map.json", {"num_ranks": 8, "physical_to_logical_map": PUBLISHED})
        answer = plimsoll.run("replan", "now.json", "map.json", "-o", "new.json", "--json").document
        assert answer["before"]["physical_to_logical_map"] == PUBLISHED
        plimsoll.run("check", "now.json", "new.json")

    @pytest.mark.parametrize("flags", [("--max-moved", "-1"), ("--max-moved", "x"), ("--price-of-move", "1")])
    def test_wrong_limits_are_named(self, plimsoll, experts, flags):
        plimsoll.run("shard", "experts.json", "-o", "old.json")
        assert flags[0] in plimsoll.run("replan", "experts.json", "old.json", *flags, code=1).err

    def test_a_plan_of_other_experts_is_refused(self, plimsoll, experts):
        plimsoll.write("other.json", {"num_ranks": 2, "physical_to_logical_map": [[0, 1], [0, 1]]})
        assert "other.json" in plimsoll.run("replan", "experts.json", "other.json", code=1).err


class TestCheck:
    @pytest.mark.parametrize(
        ("edit", "code"),
        [
            (lambda d: d["physical_to_logical_map"][0].__setitem__(0, 99), "shape"),
            (lambda d: d["physical_to_logical_map"][0].__setitem__(1, 5), "missing"),
            (lambda d: d["physical_to_logical_map"].pop(), "shape"),
            (lambda d: d["slowest_loads"].__setitem__(0, 1), "load_mismatch"),
            (lambda d: d.update(objective=d["objective"] - 1), "load_mismatch"),
            (lambda d: d["lower_bounds"].__setitem__(0, d["lower_bounds"][0] + 1), "bound_not_proved"),
            (lambda d: d.update(lower_bound=d["lower_bound"] + 1), "bound_not_proved"),
            (lambda d: d.update(status="optimal"), "status_mismatch"),
            (lambda d: d.update(status="infeasible"), "status_mismatch"),
            (lambda d: d.update(gap=0), "status_mismatch"),
            (lambda d: d.update(eplb_load=d["eplb_load"] * 2), "load_mismatch"),
            (lambda d: d.update(before_load=d["objective"]), "load_mismatch"),
            (lambda d: d.update(moved_replicas=0), "move_mismatch"),
            (lambda d: d["provenance"]["inputs"].update(experts="0"), "inputs_mismatch"),
        ],
    )
    def test_refuses_every_change(self, plimsoll, experts, edit, code):
        document = plimsoll.run("shard", "experts.json", "--search", "eplb", "--json").document
        edit(document)
        plimsoll.write("changed.json", document)
        report = plimsoll.run("check", "experts.json", "changed.json", "--json", code=5).document
        assert code in [violation["code"] for violation in report["violations"]]
        assert report["certificate_status"] == "refuted"

    def test_the_old_plans_load_is_added_up(self, plimsoll, experts):
        plimsoll.run("shard", "experts.json", "-o", "old.json")
        document = plimsoll.run("replan", "experts.json", "old.json", "--json").document
        plimsoll.write("new.json", document)
        plimsoll.run("check", "experts.json", "new.json")
        document["before_load"] *= 1.01
        plimsoll.write("new.json", document)
        report = plimsoll.run("check", "experts.json", "new.json", "--json", code=5).document
        assert [violation["code"] for violation in report["violations"]] == ["load_mismatch"]

    def test_a_group_on_two_hosts_is_refused(self, plimsoll, experts):
        slots = [list(layer) for layer in PUBLISHED]
        slots[0][0], slots[0][15] = slots[0][15], slots[0][0]
        plimsoll.write("map.json", {"num_ranks": 8, "physical_to_logical_map": slots})
        report = plimsoll.run("check", "experts.json", "map.json", "--json", code=5).document
        assert [violation["code"] for violation in report["violations"]] == ["group_split"]
        assert report["violations"][0]["layer"] == 0
