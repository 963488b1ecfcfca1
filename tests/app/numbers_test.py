"""Sizes, sums and reservations at the ends of 64 bits: an error that names the field, or a plan that keeps every
capacity in Python's integers, never a sum that wrapped."""

import json
import random

import program
from program import ProgramTest, constrained, table

GIB = 1 << 30
ON = ("--on", "8x40GiB")
SEARCHES = ((), ("--search", "torchrec"), ("--search", "torchrec", "--partitioner", "memory_balanced"))


def model(*tables, **more):
    return {"tables": list(tables)} | more


class Numbers(ProgramTest):
    def assert_no_plan(self, document, *flags, word=""):
        """An error of the input, or no plan: of every search, and of the judge."""
        self.write("model.json", document)
        for search in SEARCHES:
            with self.subTest(search=search):
                answer = self.run_program("shard", "model.json", *ON, *search, *flags, "--json", code=None)
                self.assertIn(answer.code, (1, 2, 4), answer.err)
                if answer.code == 1:
                    self.assertEqual(answer.error["code"], "overflow", answer.err)
                    self.assertTrue(answer.error["place"] and answer.error["remedy"], answer.err)
                    self.assertIn(word, answer.err)
        return answer

    def test_ids_of_a_batch_beyond_64_bits_are_refused(self):
        document = model(constrained("t", "table_wise"))
        document["tables"][0]["constraints"]["pooling_factors"] = [2e14]
        self.assert_no_plan(document, word="ids of a batch")
        for reservation in ("inference:0.1", "fixed_percentage:0.1"):
            self.assert_no_plan(document, "--reservation", reservation)
        # The judge does not take such a plan for right either.
        self.write("small.json", model(constrained("t", "table_wise")))
        self.run_program("shard", "small.json", *ON, "-o", "plan.json")
        self.assertIn("ids of a batch", self.run_program("check", "model.json", "plan.json", *ON, code=1).err)

    def test_tables_that_leave_64_bits_together_fit_nowhere(self):
        """Each alone is 2^62 bytes, and so are 8 of them on each of 8 ranks."""
        for sharding_type, count in (("table_wise", 2), ("table_wise", 4), ("row_wise", 16), ("row_wise", 32)):
            with self.subTest(sharding_type=sharding_type, count=count):
                self.assert_no_plan(model(constrained("t", sharding_type, 2**54) | {"count": count}))
        self.assert_no_plan(model(table("t", 2**53, count=2)))

    def test_a_plan_of_such_tables_is_over_every_capacity(self):
        self.write("small.json", model(table("t", 1000, count=2)))
        self.run_program("shard", "small.json", *ON, "--search", "torchrec", "-o", "plan.json")
        answer = json.loads(self.read("plan.json"))
        rows = 2**53
        for sharding in answer["plan"]["tables"]:
            sharding["sharding_type"], sharding["compute_kernel"] = "table_wise", "fused"
            sharding["ranks"] = [{"first": 0, "count": 1}]
            sharding["shards"] = [{"count": 1, "rows": rows, "columns": 64}]
        self.write("plan.json", answer["plan"])
        self.write("model.json", model(table("t", rows, count=2)))
        report = self.run_program("check", "model.json", "plan.json", *ON, "--json", code=5).document
        self.assertIn("over_capacity", {violation["code"] for violation in report["violations"]})

    def test_dense_parts_beyond_what_a_rank_sums_are_refused(self):
        for dense in (
            {"dense_parameter_bytes": 2**61},
            {"dense_parameter_bytes": 2**60, "dense_buffer_bytes": 2**62},
            {"dense_parameter_bytes": 2**60},
        ):
            self.assert_no_plan(model(table()) | dense, word="dense parts")
        # Tables that hide in the sum do not matter: it has 128 bits.
        self.write("model.json", model(constrained("t", "table_wise", 2**54) | {"count": 16}, table("u")))
        answer = self.run_program("shard", "model.json", *ON, "--search", "torchrec", "--json", code=None)
        self.assertIn(answer.code, (2, 4), answer.err)

    def test_hosts_and_pods_beyond_the_limits_are_refused(self):
        self.write("model.json", model(table()))
        for document, place in (
            ({"world_size": 8, "local_world_size": 2**31 - 1}, "topology.json#/local_world_size"),
            ({"world_size": 2**20, "local_world_size": 2**20, "pod_size": 2**20}, "topology.json#/pod_size"),
        ):
            self.write("topology.json", document)
            answer = self.run_program("shard", "model.json", "--on", "topology.json", "--json", code=1)
            self.assertEqual(answer.error["place"], place)
            self.assertIn("10", answer.err)  # the largest value

    def test_dumps_beyond_the_limits_are_refused(self):
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
            self.write("dump.json", document)
            answer = self.run_program("shard", "dump.json", "--json", code=1)
            self.assertTrue(answer.error["place"].startswith("dump.json#" + place), answer.error)

    def test_plans_of_random_numbers_keep_every_capacity(self):
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
            self.write("model.json", model(*tables))
            self.write("topology.json", {"world_size": world, "hbm_cap": cap, "ddr_cap": cap})
            arguments = ("model.json", "--on", "topology.json", "--batch-size", 1 << numbers.randint(0, 20))
            search = SEARCHES[seed % len(SEARCHES)]
            with self.subTest(seed=seed):
                answer = self.run_program("shard", *arguments, *search, "--effort", 2000, "--json", code=None)
                self.assertIn(answer.code, (0, 1, 2, 4), answer.err)
                if answer.code != 0:
                    continue
                num_plans += 1
                used = answer.document["bill"]["bytes"]
                for tier in ("hbm", "ddr"):
                    for rank in range(world):
                        self.assertGreaterEqual(used[tier][rank], 0)
                        self.assertLessEqual(used[tier][rank], cap)
                self.assertGreaterEqual(
                    sum(used["hbm"]) + sum(used["ddr"]),
                    sum(4 * entry["num_embeddings"] * entry["embedding_dim"] for entry in tables),
                )
        self.assertGreater(num_plans, 5)


program.main()
