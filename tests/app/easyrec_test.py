"""TorchEasyRec's set-up from outside: its environment, checkpoint plans, constraints by fqn, dynamic tables."""

import program
from program import ProgramTest, table

ON = ("--on", "4x40GiB", "--local-world-size", "2")


class EasyRecTest(ProgramTest):
    def plan(self, *arguments, on=ON, **variables):
        return self.run_program(
            "shard", "model.json", *on, "--search", "torchrec", "--json", *arguments, **variables
        ).document

    @staticmethod
    def types(answer):
        return {f"{t.get('module_path', '')}.{t['table']}": t["sharding_type"] for t in answer["plan"]["tables"]}


class Environment(EasyRecTest):
    def setUp(self):
        super().setUp()
        self.write("model.json", {"tables": [table("a"), table("b", rows=2_000_000)]})

    def test_bins_reach_the_search(self):
        coarse = self.plan("--easyrec-environment", TZREC_DP_HBM_BINS_PER_DEVICE="1", TZREC_DP_DDR_BINS_PER_DEVICE="1")
        self.assertEqual(coarse["provenance"]["options"]["easyrec_bins_per_device"], "1,1")
        fine = self.plan("--easyrec-environment")
        self.assertEqual(fine["provenance"]["options"]["easyrec_bins_per_device"], "100,25")
        self.assertNotEqual(coarse["provenance"]["inputs"]["context"], fine["provenance"]["inputs"]["context"])

    def test_broken_bins_are_named(self):
        for variable in ("TZREC_DP_HBM_BINS_PER_DEVICE", "TZREC_DP_DDR_BINS_PER_DEVICE"):
            answer = self.run_program(
                "shard", "model.json", *ON, "--easyrec-environment", "--json", code=1, **{variable: "ten"}
            )
            self.assertEqual(answer.error["place"], variable)

    def test_sequences_stay_whole_without_cuda(self):
        self.write(
            "model.json",
            {
                "modules": [
                    {"path": "bags", "tables": [table("a")]},
                    {"path": "sequence", "kind": "embedding_collection", "tables": [table("b")]},
                ]
            },
        )
        self.write("cpu.json", {"world_size": 2, "compute_device": "cpu"})
        on = ("--on", "cpu.json")
        self.assertEqual(set(self.types(self.plan(on=on))), {"bags.a", "sequence.b"})
        answer = self.plan("--easyrec-environment", "-o", "plan.json", on=on)
        self.assertEqual(set(self.types(answer)), {"bags.a"})
        self.run_program("check", "model.json", "plan.json", *on, "--easyrec-environment")
        self.run_program("check", "model.json", "plan.json", *on, code=5)


class CheckpointPlans(EasyRecTest):
    def setUp(self):
        super().setUp()
        self.write("model.json", {"modules": [{"path": "m", "tables": [table("a"), table("b")]}]})
        # Of a larger machine, as TorchEasyRec writes it.
        self.write(
            "checkpoint",
            {
                "m": {
                    "a": {"sharding_type": "data_parallel", "compute_kernel": "dense", "ranks": list(range(16))},
                    "b": {"sharding_type": "row_wise", "compute_kernel": "fused", "ranks": list(range(16))},
                }
            },
        )
        self.assertNotEqual(self.types(self.plan("--easyrec-environment"))["m.b"], "row_wise")

    def kept(self, *arguments, **variables):
        return self.types(
            self.plan("--easyrec-environment", "--checkpoint-plan", "checkpoint", *arguments, **variables)
        )

    def test_data_parallel_tables_stay_so(self):
        kept = self.kept()
        self.assertEqual(kept["m.a"], "data_parallel")
        self.assertNotEqual(kept["m.b"], "row_wise")

    def test_all_tables_stay_where_forced(self):
        forced = {"m.a": "data_parallel", "m.b": "row_wise"}
        self.assertEqual(self.kept("--force-checkpoint-plan"), forced)
        self.assertEqual(self.kept(FORCE_LOAD_SHARDING_PLAN="1"), forced)
        self.assertNotEqual(self.kept(FORCE_LOAD_SHARDING_PLAN="true"), forced)

    def test_constraints_win(self):
        self.write("constraints.json", {"constraints": {"m.a": {"sharding_types": ["table_wise"]}}})
        self.assertEqual(self.kept("--constraints", "constraints.json")["m.a"], "table_wise")

    def test_a_broken_checkpoint_is_named(self):
        arguments = (
            "shard",
            "model.json",
            *ON,
            "--search",
            "torchrec",
            "--json",
            "--easyrec-environment",
            "--checkpoint-plan",
        )
        self.assertEqual(self.run_program(*arguments, "none", code=1).error["place"], "none")
        self.write("checkpoint", {"m": {"a": {"sharding_type": "rows", "compute_kernel": "fused", "ranks": [0]}}})
        self.assertEqual(
            self.run_program(*arguments, "checkpoint", code=1).error["place"], "checkpoint#/m/a/sharding_type"
        )

    def test_it_needs_the_set_up(self):
        self.run_program("shard", "model.json", *ON, "--checkpoint-plan", "checkpoint", code=1)
        self.run_program("shard", "model.json", *ON, "--force-checkpoint-plan", code=1)


class Constraints(EasyRecTest):
    def test_a_key_may_be_an_fqn(self):
        self.write(
            "model.json",
            {"modules": [{"path": "m", "tables": [table("a"), table("b")]}, {"path": "n", "tables": [table("a")]}]},
        )
        self.write(
            "constraints.json",
            {
                "constraints": {
                    "m.a": {"sharding_types": ["row_wise"], "pooling_factors": [9]},
                    "a": {"sharding_types": ["table_wise"]},
                }
            },
        )
        answer = self.plan("--constraints", "constraints.json", "-o", "plan.json")
        types = self.types(answer)
        self.assertEqual((types["m.a"], types["n.a"]), ("row_wise", "table_wise"))
        self.assertEqual([w for w in answer.get("warnings", []) if w["code"] == "constraint_without_table"], [])
        self.run_program("check", "model.json", "plan.json", *ON, "--constraints", "constraints.json")
        self.run_program("check", "model.json", "plan.json", *ON, code=5)  # another rating

    def test_a_tables_name_comes_before_an_fqn(self):
        self.write("model.json", {"modules": [{"path": "m", "tables": [table("a"), table("m.a")]}]})
        self.write("constraints.json", {"constraints": {"m.a": {"sharding_types": ["row_wise"]}}})
        types = self.types(self.plan("--constraints", "constraints.json"))
        self.assertEqual(types["m.m.a"], "row_wise")
        self.assertNotEqual(types["m.a"], "row_wise")


class DynamicTables(EasyRecTest):
    def test_from_model_to_checked_plan(self):
        self.write(
            "model.json",
            {
                "optimizer": "adam",
                "tables": [
                    table("a", rows=50_000_000, columns=128, dynamic_embedding={}),
                    table("b", rows=50_000_000, columns=128, dynamic_embedding={"mode": "hybrid", "load_factor": 0.25}),
                    table("c"),
                ],
            },
        )
        answer = self.plan("--easyrec-environment", "-o", "plan.json")
        planned = {t["table"]: t.get("dynamic_embedding") for t in answer["plan"]["tables"]}
        self.assertIn(planned["a"]["mode"], ("hybrid", "caching"))
        self.assertEqual(planned["b"], {"mode": "hybrid", "load_factor": 0.25, "bucket_capacity": 128})
        self.assertIsNone(planned["c"])
        self.run_program("check", "model.json", "plan.json", *ON, "--strict")
        again = self.plan("--easyrec-environment", "--load-plan", "plan.json")
        self.assertEqual(again["rating"], answer["rating"])
        text = self.read("plan.json").replace('"load_factor": 0.25', '"load_factor": 0.26')
        self.assertNotEqual(text, self.read("plan.json"))
        self.write("plan.json", text)
        found = self.run_program("check", "model.json", "plan.json", *ON, "--json", code=5).document
        self.assertIn("load_factor", {v["code"] for v in found["violations"]})


if __name__ == "__main__":
    program.main()
