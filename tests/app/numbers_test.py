"""Sizes, sums and reservations at the ends of 64 bits: an error that names the field, or a plan that keeps every
capacity in Python's integers, never a sum that wrapped."""

import json
import random

import pytest
from program import Plimsoll, constrained, table

GIB = 1 << 30
ON = ("--on", "8x40GiB")
SEARCHES = ((), ("--search", "torchrec"), ("--search", "torchrec", "--partitioner", "memory_balanced"))


def model(*tables, **more):
    return {"tables": list(tables)} | more


class Numbers(Plimsoll):
    def assert_no_plan(self, document, *flags, word=""):
        """An error of the input, or no plan: of every search, and of the judge."""
        self.write("model.json", document)
        for search in SEARCHES:
            answer = self.run("shard", "model.json", *ON, *search, *flags, "--json", code=None)
            assert answer.code in (1, 2, 4), answer.err
            if answer.code == 1:
                assert answer.error["code"] == "overflow", answer.err
                assert answer.error["place"] and answer.error["remedy"], answer.err
                assert word in answer.err
        return answer


@pytest.fixture
def plimsoll(program_path, tmp_path):
    return Numbers(program_path, tmp_path)


def test_ids_of_a_batch_beyond_64_bits_are_refused(plimsoll):
    document = model(constrained("t", "table_wise"))
    document["tables"][0]["constraints"]["pooling_factors"] = [2e14]
    plimsoll.assert_no_plan(document, word="ids of a batch")
    for reservation in ("inference:0.1", "fixed_percentage:0.1"):
        plimsoll.assert_no_plan(document, "--reservation", reservation)
    # The judge does not take such a plan for right either.
    plimsoll.write("small.json", model(constrained("t", "table_wise")))
    plimsoll.run("shard", "small.json", *ON, "-o", "plan.json")
    assert "ids of a batch" in plimsoll.run("check", "model.json", "plan.json", *ON, code=1).err


@pytest.mark.parametrize(
    ("sharding_type", "count"), [("table_wise", 2), ("table_wise", 4), ("row_wise", 16), ("row_wise", 32)]
)
def test_tables_that_leave_64_bits_together_fit_nowhere(plimsoll, sharding_type, count):
    """Each alone is 2^62 bytes, and so are 8 of them on each of 8 ranks."""
    plimsoll.assert_no_plan(model(constrained("t", sharding_type, 2**54) | {"count": count}))


def test_tables_that_may_stand_anywhere_fit_nowhere_either(plimsoll):
    plimsoll.assert_no_plan(model(table("t", 2**53, count=2)))


def test_a_plan_of_such_tables_is_over_every_capacity(plimsoll):
    plimsoll.write("small.json", model(table("t", 1000, count=2)))
    plimsoll.run("shard", "small.json", *ON, "--search", "torchrec", "-o", "plan.json")
    answer = json.loads(plimsoll.read("plan.json"))
    rows = 2**53
    for sharding in answer["plan"]["tables"]:
        sharding["sharding_type"], sharding["compute_kernel"] = "table_wise", "fused"
        sharding["ranks"] = [{"first": 0, "count": 1}]
        sharding["shards"] = [{"count": 1, "rows": rows, "columns": 64}]
    plimsoll.write("plan.json", answer["plan"])
    plimsoll.write("model.json", model(table("t", rows, count=2)))
    report = plimsoll.run("check", "model.json", "plan.json", *ON, "--json", code=5).document
    assert "over_capacity" in {violation["code"] for violation in report["violations"]}


@pytest.mark.parametrize(
    "dense",
    [
        {"dense_parameter_bytes": 2**61},
        {"dense_parameter_bytes": 2**60, "dense_buffer_bytes": 2**62},
        {"dense_parameter_bytes": 2**60},
    ],
)
def test_dense_parts_beyond_what_a_rank_sums_are_refused(plimsoll, dense):
    plimsoll.assert_no_plan(model(table()) | dense, word="dense parts")


def test_tables_that_hide_in_the_sum_do_not_matter(plimsoll):
    # It has 128 bits.
    plimsoll.write("model.json", model(constrained("t", "table_wise", 2**54) | {"count": 16}, table("u")))
    answer = plimsoll.run("shard", "model.json", *ON, "--search", "torchrec", "--json", code=None)
    assert answer.code in (2, 4), answer.err


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ({"world_size": 8, "local_world_size": 2**31 - 1}, "topology.json#/local_world_size"),
        ({"world_size": 2**20, "local_world_size": 2**20, "pod_size": 2**20}, "topology.json#/pod_size"),
    ],
)
def test_hosts_and_pods_beyond_the_limits_are_refused(plimsoll, document, place):
    plimsoll.write("model.json", model(table()))
    plimsoll.write("topology.json", document)
    answer = plimsoll.run("shard", "model.json", "--on", "topology.json", "--json", code=1)
    assert answer.error["place"] == place
    assert "10" in answer.err  # the largest value


def test_dumps_beyond_the_limits_are_refused(plimsoll):
    dump = {
        "schema": "plimsoll.torchrec_options/1",
        "world_size": 2,
        "local_world_size": 2,
        "room": [[100, 100, 100], [100, 100, 100]],
        "shard_classes": [[10, 0, 0, 5, 1, 1, 1, 1, 1]],
        "options": [
            {
                "fqn": "m.a",
                "sharding_type": "row_wise",
                "compute_kernel": "fused",
                "shards": [0, 0],
                "sizes": [[2**63 - 1, 64], [97, 64]],
                "rows": 97,
                "columns": 64,
            }
        ],
    }
    wide = json.loads(json.dumps(dump))
    wide["options"][0] |= {"columns": 2**31}
    rich = json.loads(json.dumps(dump))
    rich["room"] = [[2**61, 0, 0], [-(2**62), 0, 0]]
    for document, place in ((dump, "/options/0/"), (wide, "/options/0/columns"), (rich, "/room/1/0")):
        plimsoll.write("dump.json", document)
        answer = plimsoll.run("shard", "dump.json", "--json", code=1)
        assert answer.error["place"].startswith("dump.json#" + place), answer.error


def test_plans_of_random_numbers_keep_every_capacity(plimsoll):
    """Of plans that are found, no rank holds more than it has, and all ranks hold all rows, in whole numbers."""
    numbers = random.Random(14)
    num_plans = 0
    for seed in range(40):
        tables = []
        for i in range(numbers.randint(1, 4)):
            columns = 4 << numbers.randint(0, 6)
            rows = 1 << numbers.randint(0, 57)
            constraints = {"pooling_factors": [10.0 ** numbers.randint(0, 13)]}
            tables.append(table(f"t{i}", rows + numbers.randint(0, 3), columns, constraints=constraints))
        world = 1 << numbers.randint(0, 3)
        cap = 1 << numbers.randint(30, 62 - world.bit_length())
        plimsoll.write("model.json", model(*tables))
        plimsoll.write("topology.json", {"world_size": world, "hbm_cap": cap, "ddr_cap": cap})
        arguments = ("model.json", "--on", "topology.json", "--batch-size", 1 << numbers.randint(0, 20))
        search = SEARCHES[seed % len(SEARCHES)]
        answer = plimsoll.run("shard", *arguments, *search, "--effort", 2000, "--json", code=None)
        assert answer.code in (0, 1, 2, 4), answer.err
        if answer.code != 0:
            continue
        num_plans += 1
        used = answer.document["bill"]["bytes"]
        for tier in ("hbm", "ddr"):
            for rank in range(world):
                assert used[tier][rank] >= 0
                assert used[tier][rank] <= cap
        assert sum(used["hbm"]) + sum(used["ddr"]) >= sum(
            4 * entry["num_embeddings"] * entry["embedding_dim"] for entry in tables
        )
    assert num_plans > 5
