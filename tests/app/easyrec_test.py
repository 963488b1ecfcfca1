"""TorchEasyRec's set-up from outside: its environment, checkpoint plans, constraints by fqn, dynamic tables."""

import pytest
from program import Plimsoll, table

ON = ("--on", "4x40GiB", "--local-world-size", "2")


class EasyRec(Plimsoll):
    def plan(self, *arguments, on=ON, **variables):
        return self.run("shard", "model.json", *on, "--search", "torchrec", "--json", *arguments, **variables).document

    @staticmethod
    def types(answer):
        return {f"{t.get('module_path', '')}.{t['table']}": t["sharding_type"] for t in answer["plan"]["tables"]}


@pytest.fixture
def plimsoll(program_path, tmp_path):
    return EasyRec(program_path, tmp_path)


class TestEnvironment:
    @pytest.fixture
    def plimsoll(self, plimsoll):
        plimsoll.write("model.json", {"tables": [table("a"), table("b", rows=2_000_000)]})
        return plimsoll

    def test_bins_reach_the_search(self, plimsoll):
        coarse = plimsoll.plan(
            "--easyrec-environment", TZREC_DP_HBM_BINS_PER_DEVICE="1", TZREC_DP_DDR_BINS_PER_DEVICE="1"
        )
        assert coarse["provenance"]["options"]["easyrec_bins_per_device"] == "1,1"
        fine = plimsoll.plan("--easyrec-environment")
        assert fine["provenance"]["options"]["easyrec_bins_per_device"] == "100,25"
        assert coarse["provenance"]["inputs"]["context"] != fine["provenance"]["inputs"]["context"]

    @pytest.mark.parametrize("name", ["easyrec", "easyrec_v1", "easyrec_v2"])
    def test_the_lists_of_every_revision(self, plimsoll, name):
        long = f"easyrec_dynamic_programming_{name.partition('_')[2] or 'v3'}+uniform"
        short, spelled = (plimsoll.plan("--proposer", proposers) for proposers in (name, long))
        assert short["plan"] == spelled["plan"] and short["rating"] == spelled["rating"]

    def test_the_first_revision_counts_ddr_without_cuda(self, plimsoll):
        plimsoll.write("cpu.json", {"world_size": 2, "compute_device": "cpu"})
        answer = plimsoll.plan("--proposer", "easyrec_v1", on=("--on", "cpu.json"))  # no HBM to be divided into bins
        assert answer["status"] == "optimal"
        assert answer["provenance"]["options"]["easyrec_has_cuda"] == "false"
        assert "easyrec_has_cuda" not in plimsoll.plan("--proposer", "easyrec_v1")["provenance"]["options"]

    @pytest.mark.parametrize("variable", ["TZREC_DP_HBM_BINS_PER_DEVICE", "TZREC_DP_DDR_BINS_PER_DEVICE"])
    def test_broken_bins_are_named(self, plimsoll, variable):
        answer = plimsoll.run(
            "shard", "model.json", *ON, "--easyrec-environment", "--json", code=1, **{variable: "ten"}
        )
        assert answer.error["place"] == variable

    def test_sequences_stay_whole_without_cuda(self, plimsoll):
        plimsoll.write(
            "model.json",
            {
                "modules": [
                    {"path": "bags", "tables": [table("a")]},
                    {"path": "sequence", "kind": "embedding_collection", "tables": [table("b")]},
                ]
            },
        )
        plimsoll.write("cpu.json", {"world_size": 2, "compute_device": "cpu"})
        on = ("--on", "cpu.json")
        assert set(plimsoll.types(plimsoll.plan(on=on))) == {"bags.a", "sequence.b"}
        answer = plimsoll.plan("--easyrec-environment", "-o", "plan.json", on=on)
        assert set(plimsoll.types(answer)) == {"bags.a"}
        plimsoll.run("check", "model.json", "plan.json", *on, "--easyrec-environment")
        plimsoll.run("check", "model.json", "plan.json", *on, code=5)


class CheckpointPlans(EasyRec):
    def __init__(self, path, folder):
        super().__init__(path, folder)
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
        assert self.types(self.plan("--easyrec-environment"))["m.b"] != "row_wise"

    def kept(self, *arguments, **variables):
        return self.types(
            self.plan("--easyrec-environment", "--checkpoint-plan", "checkpoint", *arguments, **variables)
        )


class TestCheckpointPlans:
    @pytest.fixture
    def plimsoll(self, program_path, tmp_path):
        return CheckpointPlans(program_path, tmp_path)

    def test_data_parallel_tables_stay_so(self, plimsoll):
        kept = plimsoll.kept()
        assert kept["m.a"] == "data_parallel"
        assert kept["m.b"] != "row_wise"

    def test_all_tables_stay_where_forced(self, plimsoll):
        forced = {"m.a": "data_parallel", "m.b": "row_wise"}
        assert plimsoll.kept("--force-checkpoint-plan") == forced
        assert plimsoll.kept(FORCE_LOAD_SHARDING_PLAN="1") == forced
        assert plimsoll.kept(FORCE_LOAD_SHARDING_PLAN="true") != forced

    def test_constraints_win(self, plimsoll):
        plimsoll.write("constraints.json", {"constraints": {"m.a": {"sharding_types": ["table_wise"]}}})
        assert plimsoll.kept("--constraints", "constraints.json")["m.a"] == "table_wise"

    def test_a_broken_checkpoint_is_named(self, plimsoll):
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
        assert plimsoll.run(*arguments, "none", code=1).error["place"] == "none"
        plimsoll.write("checkpoint", {"m": {"a": {"sharding_type": "rows", "compute_kernel": "fused", "ranks": [0]}}})
        assert plimsoll.run(*arguments, "checkpoint", code=1).error["place"] == "checkpoint#/m/a/sharding_type"

    def test_it_needs_the_set_up(self, plimsoll):
        plimsoll.run("shard", "model.json", *ON, "--checkpoint-plan", "checkpoint", code=1)
        plimsoll.run("shard", "model.json", *ON, "--force-checkpoint-plan", code=1)


class TestConstraints:
    def test_a_key_may_be_an_fqn(self, plimsoll):
        plimsoll.write(
            "model.json",
            {"modules": [{"path": "m", "tables": [table("a"), table("b")]}, {"path": "n", "tables": [table("a")]}]},
        )
        plimsoll.write(
            "constraints.json",
            {
                "constraints": {
                    "m.a": {"sharding_types": ["row_wise"], "pooling_factors": [9]},
                    "a": {"sharding_types": ["table_wise"]},
                }
            },
        )
        answer = plimsoll.plan("--constraints", "constraints.json", "-o", "plan.json")
        types = plimsoll.types(answer)
        assert (types["m.a"], types["n.a"]) == ("row_wise", "table_wise")
        assert [w for w in answer.get("warnings", []) if w["code"] == "constraint_without_table"] == []
        plimsoll.run("check", "model.json", "plan.json", *ON, "--constraints", "constraints.json")
        plimsoll.run("check", "model.json", "plan.json", *ON, code=5)  # another rating

    def test_a_tables_name_comes_before_an_fqn(self, plimsoll):
        plimsoll.write("model.json", {"modules": [{"path": "m", "tables": [table("a"), table("m.a")]}]})
        plimsoll.write("constraints.json", {"constraints": {"m.a": {"sharding_types": ["row_wise"]}}})
        types = plimsoll.types(plimsoll.plan("--constraints", "constraints.json"))
        assert types["m.m.a"] == "row_wise"
        assert types["m.a"] != "row_wise"


class TestDynamicTables:
    def test_from_model_to_checked_plan(self, plimsoll):
        plimsoll.write(
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
        answer = plimsoll.plan("--easyrec-environment", "-o", "plan.json")
        planned = {t["table"]: t.get("dynamic_embedding") for t in answer["plan"]["tables"]}
        assert planned["a"]["mode"] in ("hybrid", "caching")
        assert planned["b"] == {"mode": "hybrid", "load_factor": 0.25, "bucket_capacity": 128}
        assert planned["c"] is None
        plimsoll.run("check", "model.json", "plan.json", *ON, "--strict")
        again = plimsoll.plan("--easyrec-environment", "--load-plan", "plan.json")
        assert again["rating"] == answer["rating"]
        text = plimsoll.read("plan.json").replace('"load_factor": 0.25', '"load_factor": 0.26')
        assert text != plimsoll.read("plan.json")
        plimsoll.write("plan.json", text)
        found = plimsoll.run("check", "model.json", "plan.json", *ON, "--json", code=5).document
        assert "load_factor" in {v["code"] for v in found["violations"]}
