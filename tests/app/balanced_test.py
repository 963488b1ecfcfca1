"""plimsoll shard's own search: objectives, certificates, limits, rules, dumps; and check of what it makes."""

import json
import math
import os
import pty
import re
import signal
import subprocess
import time
import typing

import program
from program import ProgramTest, constrained, table

ON = ("--on", "4x8GiB", "--local-world-size", "2")
QUICK = ("--effort", "20000")


def open_terminal(test):
    try:
        return pty.openpty()
    except OSError as error:  # a sandbox without /dev/pts
        return test.skipTest(f"no pseudo-terminals here: {error}")


class Balanced(ProgramTest):
    def setUp(self):
        super().setUp()
        tables = [
            table(f"t{i}", rows, 128 if i % 2 == 0 else 64, constraints={"pooling_factors": [3 + 7 * i]})
            for i, rows in enumerate((4000000, 1000000, 200000, 4096, 4096, 1000))
        ]
        self.write("model.json", {"modules": [{"path": "ebc", "tables": tables}]})

    def shard(self, *arguments, code=0, on=ON):
        return self.run_program("shard", "model.json", *on, *QUICK, "-o", "plan.json", *arguments, code=code)

    def check(self, *arguments, code=0, on=ON):
        return self.run_program("check", "model.json", "plan.json", *on, *arguments, code=code)

    def answer(self):
        return program.parse(self.read("plan.json"))

    def change(self, change):
        answer = self.answer()
        change(answer)
        self.write("plan.json", answer)


class Answers(Balanced):
    def test_the_default_keeps_the_rating_and_states_everything(self):
        text = self.shard().out
        for part in (
            "reference plan",
            "rating",
            "step",
            "time",
            "no plan that rates at most",
            "gap",
            "proof: ",
            "assumed",
        ):
            self.assertIn(part, text)
        answer = self.answer()
        self.assertEqual((answer["objective"], answer["provenance"]["options"]["search"]), ("time", "balanced"))
        self.assertLessEqual(answer["times"]["rating"], answer["reference"]["rating"] * (1 + 1e-9))
        self.assertLessEqual(answer["times"]["time"], answer["reference"]["time"] * (1 + 1e-9))
        self.assertEqual(answer["certificate"]["objective"], answer["times"]["time"])
        self.assertEqual(answer["rating"], answer["times"]["rating"])
        self.assertIn("the prices prove that no plan is below", self.check("--strict").out)

    def test_every_objective_and_width_passes_the_check(self):
        for objective in ("rating", "step", "time"):
            for widths in ("default", "all"):
                with self.subTest(f"{objective}, {widths}"):
                    self.shard("--objective", objective, "--widths", widths)
                    answer = self.answer()
                    self.assertEqual(answer["objective"], objective)
                    value, least = answer["times"][objective], answer["reference"][objective]
                    self.assertLessEqual(value, least * (1 + 1e-12))
                    self.assertLessEqual(answer["certificate"]["lower_bound"], value)
                    report = self.check("--strict", "--json").document
                    self.assertTrue(report["is_right"])
                    self.assertAlmostEqual(report["times"][objective], value, delta=1e-9 * value)

    def test_the_step_model_is_the_files(self):
        self.write("step.json", {"ms_per_sharding_type": 0, "floor_ms": 7, "ms_per_table": 0.25})
        self.assertNotIn("assumed", self.shard("--objective", "time", "--step-model", "step.json").out)
        self.assertGreater(self.answer()["times"]["time"], 7)
        self.check("--strict")
        self.write("step.json", {"floor": 1})
        place = self.shard("--step-model", "step.json", "--json", code=1).error["place"]
        self.assertEqual(place, "step.json#/floor")

    def test_equal_input_gives_equal_bytes(self):
        first = self.shard("--json").out
        self.assertEqual(self.shard("--json").out, first)

    def test_rules_are_kept_and_judged(self):
        self.write(
            "rules.json",
            {
                "allowed_ranks": {"ebc.t3": [2]},
                "forbidden_ranks": {"ebc.t4": [0, 1, 2]},
                "apart": [["ebc.t3", "ebc.t5"]],
            },
        )
        self.shard("--rules", "rules.json", "--objective", "rating")
        tables = {t["table"]: t for t in self.answer()["plan"]["tables"]}
        self.assertEqual({r["first"] for r in tables["t3"]["ranks"]}, {2})
        self.assertEqual({r["first"] for r in tables["t4"]["ranks"]}, {3})
        self.check("--strict")
        self.write("rules.json", {"apart": [["ebc.t3", "ebc.t9"]]})
        self.assertEqual(self.shard("--rules", "rules.json", "--json", code=1).error["code"], "not_found")

    def test_rules_that_only_plans_with_hazards_keep_are_kept(self):
        held = {"name": "a", "num_embeddings": 9000, "embedding_dim": 16, "feature_names": ["a"]}
        mean = held | {"name": "b", "feature_names": ["b"], "pooling": "mean"}
        held["constraints"] = {"compute_kernels": ["fused"], "sharding_types": ["table_row_wise"]}
        mean["constraints"] = {"compute_kernels": ["fused"], "sharding_types": ["grid_shard", "column_wise"]}
        self.write("model.json", {"modules": [{"path": "m", "tables": [mean]}, {"path": "n", "tables": [held]}]})
        self.write("rules.json", {"together": [["m.b", "n.a"]]})
        asked = ("model.json", "--on", "2x1GiB", "--rules", "rules.json", "-o", "plan.json", "--json")
        answer = self.run_program("shard", *asked).document
        types = {t["table"]: t["sharding_type"] for t in answer["plan"]["tables"]}
        self.assertEqual(types, {"a": "table_row_wise", "b": "grid_shard"})
        self.assertIn("hazard_unavoidable", [warning["code"] for warning in answer["warnings"]])
        self.run_program("check", "model.json", "plan.json", "--on", "2x1GiB")
        self.write("rules.json", {"allowed_ranks": {"m.b": [0]}, "forbidden_ranks": {"m.b": [0]}})
        self.assertEqual(self.run_program("shard", *asked, code=1).error["code"], "conflict")

    def test_the_bound_is_of_the_cap_that_the_answer_records(self):
        """The search sees none of the plans that keep the rule; the reference's is one."""

        def fused(name, rows, columns, **constraints):
            made = {"name": name, "num_embeddings": rows, "embedding_dim": columns, "feature_names": [name]}
            return made | {"constraints": constraints}

        towers = [
            fused("a", 60000, 24, compute_kernels=["fused"], pooling_factors=[4], num_poolings=[2]),
            fused("b", 60000, 16, compute_kernels=["fused"], pooling_factors=[20.5]),
            fused("c", 24000, 16, compute_kernels=["fused"], pooling_factors=[4], min_partition=4),
        ]
        cut = fused(
            "d", 24000, 24, pooling_factors=[1], sharding_types=["grid_shard", "data_parallel"], min_partition=8
        )
        modules = [{"path": "m", "kind": "embedding_tower", "tables": towers}, {"path": "n", "tables": [cut]}]
        self.write("model.json", {"modules": modules})
        room = {"world_size": 1, "local_world_size": 1, "hbm_cap": 1344020000, "ddr_cap": 1344020000}
        self.write("topology.json", room | {"inter_host_bw": "100MiB/s", "hbm_mem_bw": "2GiB/s"})
        self.write("rules.json", {"together": [["m.a", "n.d"]]})
        on = ("--on", "topology.json")
        asked = ("--batch-size", "1", "--effort", "20000", "--rules", "rules.json", "-o", "plan.json", "--json")
        answer = self.run_program("shard", "model.json", *on, *asked).document
        self.assertIsNotNone(answer["certificate"]["lower_bound"])
        report = self.run_program("check", "model.json", "plan.json", *on, "--json").document
        self.assertEqual(report["certificate_status"], "proved")

    def test_a_plan_whose_hazards_may_not_be_the_fewest_is_feasible_at_any_gap(self):
        def mean(name, rows, columns, *types):
            made = {"name": name, "num_embeddings": rows, "embedding_dim": columns, "feature_names": [name]}
            constraints = {"compute_kernels": ["fused"], "sharding_types": list(types)}
            return made | {"pooling": "mean", "constraints": constraints}

        tables = [mean("a", 60000, 12, "row_wise"), mean("b", 2, 8, "row_wise", "table_row_wise")]
        tables.append(mean("c", 24000, 8, "table_row_wise", "grid_shard"))
        self.write("model.json", {"modules": [{"path": "m", "tables": tables}], "optimizer": "adam"})
        caps = [7238946, 7238946, 3619473]
        self.write("topology.json", {"world_size": 3, "hbm_caps": caps, "hbm_mem_bw": "2GiB/s"})
        on = ("--on", "topology.json")
        asked = ("--reservation", "fixed_percentage:0", "--batch-size", "64", "-o", "plan.json", "--json")
        answer = self.run_program("shard", "model.json", *on, *asked).document
        self.assertEqual(answer["status"], "feasible")
        self.assertLess(answer["certificate"]["gap"], 1e-6)
        self.run_program("check", "model.json", "plan.json", *on)

    def test_a_plan_that_breaks_its_rules_is_found(self):
        self.write("rules.json", {"allowed_ranks": {"ebc.t3": [2]}, "apart": [["ebc.t3", "ebc.t5"]]})
        self.shard("--rules", "rules.json", "--objective", "rating")
        here = next(t for t in self.answer()["plan"]["tables"] if t["table"] == "t5")["ranks"][0]["first"]

        def move(answer):  # onto t5, wherever that is
            taken = next(t for t in answer["plan"]["tables"] if t["table"] == "t3")
            taken["ranks"] = [{"first": here, "count": 1}]

        self.change(move)
        broken = [v for v in self.check("--json", code=5).document["violations"] if v["code"] == "rule_broken"]
        self.assertEqual([v["rank"] for v in broken], [here, here])

    def test_a_plan_worse_than_the_reference_says_why_first(self):
        tables = [
            table(
                name,
                1000000,
                128,
                pooling="mean",
                constraints={"compute_kernels": ["fused"], "sharding_types": types, "pooling_factors": [1]},
            )
            for name, types in (("a", ["row_wise", "table_wise"]), ("b", ["grid_shard", "row_wise"]))
        ]
        self.write("model.json", {"modules": [{"path": "m", "tables": tables}]})
        slow = ("--inter-host-bw", "1GiB/s", "--local-world-size", "2")
        lines = self.shard(*slow, on=("--on", "4x40GiB")).out.splitlines()
        self.assertRegex(
            lines[2], r"worse than the reference's plan: rating .* step .* time .*mean_pooling_grid of m\.b"
        )
        warnings = self.answer()["warnings"]
        self.assertEqual(warnings[0]["code"], "worse_than_reference")
        self.assertIn(warnings[0]["message"], lines[2])
        self.check("--strict", *slow, on=("--on", "4x40GiB"))

    def test_slow_ranks_get_less(self):
        for speeds in ([1, 1, 1, 0.25], [0.25, 1, 1, 1]):
            self.write(
                "machine.json", {"world_size": 4, "local_world_size": 2, "hbm_cap": "8 GiB", "device_speeds": speeds}
            )
            on = ("--on", "machine.json")
            for objective in ("rating", "step", "time"):
                self.shard("--objective", objective, on=on)
                answer = self.answer()
                self.assertLessEqual(answer["times"][objective], answer["reference"][objective] * (1 + 1e-12))
                report = self.check("--strict", "--json", on=on).document
                self.assertAlmostEqual(report["rating"], answer["times"]["rating"], delta=1e-9 * report["rating"])
            self.assertIn("rating_cap_left_out", self.shard("--json", on=on).out)
            self.check("--strict", on=on)
            self.assertLessEqual(self.answer()["times"]["rating"], self.answer()["reference"]["rating"] * (1 + 1e-9))
            self.assertIn("equally fast", self.shard("--search", "torchrec", on=on).err)
            self.check(on=on)

    def test_the_reference_search_states_all_three_times_too(self):
        text = self.run_program("shard", "model.json", *ON, "--search", "torchrec", "-o", "plan.json").out
        times = self.answer()["times"]
        self.assertIn(f"step {times['step']:.6g} ms, time {times['time']:.6g} ms", text)
        self.assertEqual(times["rating"], self.answer()["rating"])
        self.shard()
        self.assertEqual(self.answer()["reference"], times)

    def test_pooled_ddr_is_recorded_and_judged(self):
        self.shard("--pool-ddr")
        self.assertEqual(self.answer()["provenance"]["options"]["pools_ddr"], "true")
        self.check("--strict")
        error = self.shard("--pool-ddr", "--pod-size", "2", "--json", code=1).error
        self.assertEqual((error["code"], error["place"]), ("conflict", "--pool-ddr"))

    def test_flags_of_the_other_search_are_refused(self):
        for arguments, place in (
            (("--search", "torchrec", "--objective", "rating"), "--objective"),
            (("--search", "torchrec", "--frontier"), "--frontier"),
            (("--perf-model", "storage"), "--perf-model"),
            (("--search", "balanced", "--load-plan", "plan.json"), "--load-plan"),
        ):
            self.assertEqual(self.shard(*arguments, "--json", code=1).error["place"], place)

    def test_the_frontier_falls_and_is_bounded(self):
        self.assertIn("no plan below", self.shard("--frontier", "--objective", "rating").out)
        answer = self.answer()
        upper, lower = answer["frontier"], answer["frontier_bound"]
        self.assertGreater(len(upper), 1)
        for curve in (upper, lower):
            self.assertEqual(sorted(curve, key=lambda p: p["bytes"]), curve)
            self.assertEqual(sorted((p["ms"] for p in curve), reverse=True), [p["ms"] for p in curve])
        for point in upper:
            bound = [p["ms"] for p in lower if p["bytes"] <= point["bytes"]]
            self.assertLessEqual(bound[-1], point["ms"] * (1 + 1e-9))
        self.assertAlmostEqual(upper[-1]["ms"], answer["times"]["rating"], delta=1e-12)
        self.assertLessEqual(max(answer["bill"]["bytes"]["hbm"]), upper[-1]["bytes"])


class Certificates(Balanced):
    def test_a_changed_claim_is_a_violation(self):
        def bound(answer):
            return answer["certificate"]["bound"]

        def raise_prices(answer):
            for case in bound(answer)["cases"]:
                prices = case.get("prices", {}).get("theta", [])
                prices[:] = [1000 * (1 + i) for i in range(len(prices))]
                for proof in case.get("windows", {}).get("proofs", []):
                    proof["room"] = 0

        changes = {
            "bound_not_proved": [
                lambda a: a["certificate"].update(lower_bound=a["certificate"]["lower_bound"] * 1.01, gap=None),
                lambda a: a["certificate"].pop("bound"),
                lambda a: bound(a).update(value=bound(a)["value"] * 1.01),
                lambda a: bound(a)["cases"].pop(0),
            ],
            "times_mismatch": [
                lambda a: a["times"].update(time=a["times"]["time"] * 0.99),
                lambda a: a["times"].update(step=a["times"]["step"] * 0.99),
            ],
            "rating_above_cap": [lambda a: a["provenance"]["options"].update(rating_cap="1e-9")],
        }
        for code, list_of in changes.items():
            for change in list_of:
                self.shard()
                self.change(change)
                report = self.check("--json", code=5).document
                self.assertIn(code, [v["code"] for v in report["violations"]])

    def test_nothing_fits_is_proved_with_prices(self):
        self.write("model.json", {"tables": [table(rows=500000, columns=128, count=8)]})  # 2 GB
        on = ("--on", "2x1GiB", "--ddr-cap", "0.01GiB")
        answer = self.shard(code=2, on=on)
        self.assertIn("proved infeasible: ", answer.err)
        self.assertIn("weights of a byte", answer.err)
        document = self.answer()
        self.assertEqual(document["status"], "infeasible")
        self.assertGreater(document["explanation"]["missing"], 0)
        self.assertIn(document["explanation"]["binding"], ("hbm", "ddr"))
        self.assertIn("no plan exists", self.check(on=on).out)
        report = self.check("--json", on=("--on", "2x8GiB"), code=5).document  # more room: the proof falls
        self.assertEqual([v["code"] for v in report["violations"]], ["inputs_mismatch", "bound_not_proved"])


class Reasons(Balanced):
    """What is said where nothing fits, tried."""

    DLRM = ("shard", "mlperf-dlrm-dcnv2", "--on", "8x28GiB", "--ddr-cap", "1GiB", "--effort", "20000")
    CAP = 28 << 30
    LEFT = 0.85  # of HBM, after what is reserved

    def test_the_smallest_reason_is_named(self):
        # One table alone lacks 3.8 GiB of DDR on a rank; of HBM all together lack 0.6 GiB.
        answer = self.run_program(*self.DLRM, "--json", code=2).document
        explanation = answer["explanation"]
        self.assertEqual(explanation["binding"], "hbm")
        self.assertLess(explanation["missing"], 1 << 30)
        reference = self.run_program(*self.DLRM, "--search", "torchrec", "--json", code=2).document
        self.assertLess(abs(explanation["missing"] - reference["explanation"]["missing"]), 64)

        def status(share):
            cap = self.CAP + math.ceil(share * explanation["missing"] / 8 / self.LEFT)
            done = subprocess.run(
                [program.PROGRAM, *self.DLRM, "--hbm-cap", str(cap), "--json"],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                check=False,
            )
            return program.parse(done.stdout)["status"]

        self.assertEqual(status(0.5), "infeasible")
        self.assertEqual(status(0.999), "infeasible")
        self.assertNotEqual(status(1.0001), "infeasible")

    def test_the_first_lines_say_what_to_type_and_that_is_right(self):
        answer = self.run_program(*self.DLRM, code=2)
        lines = answer.out.splitlines()
        self.assertRegex(lines[1], "^does not fit: all tables together need .* more of hbm than the 8 ranks have")
        tried = [line.removeprefix("try ") for line in lines if line.startswith("try ")]
        flags = {line.split(" ")[0] for line in tried}
        self.assertLessEqual({"--hbm-cap", "--on", "--reservation"}, flags)
        for line in tried:
            flag, value = line.removesuffix(": a plan fits").split(" ")
            arguments = [*self.DLRM, flag, value]
            if flag == "--on":
                arguments = [value if word == "8x28GiB" else word for word in self.DLRM]
            self.run_program(*arguments)

    def test_constraints_and_rules_are_named_where_they_are_the_cause(self):
        tables = [table(name="a", rows=4000000, columns=64), table(name="b", rows=4000000, columns=64)]
        constraints = {"a": {"sharding_types": ["table_wise"]}, "b": {"sharding_types": ["table_wise"]}}
        self.write("model.json", {"tables": tables})
        self.write("constraints.json", {"schema": "plimsoll.constraints/1", "constraints": constraints})
        on = ("--on", "4x1GiB", "--ddr-cap", "0", "--reservation", "fixed_percentage:0.1")
        self.run_program("shard", "model.json", *on)
        answer = self.run_program("shard", "model.json", *on, "--constraints", "constraints.json", code=2)
        self.assertIn("constraints are the cause (sharding_types of a; sharding_types of b)", answer.out)
        self.assertIn("without them a plan fits", answer.out)
        self.assertIn("try loosen the constraints of --constraints constraints.json", answer.out)
        self.write("rules.json", {"schema": "plimsoll.placement_rules/1", "allowed_ranks": {".a": [0], ".b": [0]}})
        on = ("--on", "2x1.2GiB", "--ddr-cap", "0", "--reservation", "fixed_percentage:0.1")
        self.run_program("shard", "model.json", *on)
        answer = self.run_program("shard", "model.json", *on, "--rules", "rules.json", code=2)
        self.assertIn("placement rules are the cause", answer.out)

    def test_a_reservation_names_flags(self):
        answer = self.run_program(
            "shard", "nv-synthetic-medium", "--on", "2x1GiB", "--dense-tensor-estimate", "2GiB", code=2
        )
        self.assertIn("2.000 GiB of dense parameters", answer.out)
        self.assertIn("--dense-tensor-estimate", answer.out)
        for word in ("FixedPercentageStorageReservation", "HeuristicalStorageReservation"):
            self.assertNotIn(word, answer.out + answer.err)
        missing = self.run_program(
            "shard", "nv-synthetic-medium", "--on", "2x1GiB", "--dense-tensor-estimate", "2GiB", "--json", code=2
        ).document["explanation"]["missing"]
        self.assertGreater(missing, 1 << 30)

    def test_a_rank_that_lacks_what_is_reserved_is_named(self):
        # The reference looks at the HBM of rank 0 alone.
        caps = {"world_size": 3, "local_world_size": 3, "compute_device": "cpu", "ddr_caps": ["1 GiB", 0, "1 GiB"]}
        on = ("--on", self.write("caps.json", caps))
        self.run_program("shard", "movielens-two-tower", *on, "--search", "torchrec")
        answer = self.run_program("shard", "movielens-two-tower", *on, "-o", "plan.json", code=2)
        self.assertRegex(
            answer.out.splitlines()[1], "^does not fit: what is reserved takes .* more of ddr than rank 1 has"
        )
        self.assertNotIn("reference", answer.out)
        plan = program.parse(self.read("plan.json"))
        self.assertNotIn("reference", plan)
        self.assertEqual(plan["explanation"]["binding"], "ddr")
        missing = plan["explanation"]["missing"]
        # So many bytes more, and the rank has what is reserved; one less, and it lacks one.
        for more, lacks in ((missing, 0), (missing - 1, 1)):
            enough = ("--on", self.write("more.json", caps | {"ddr_caps": ["1 GiB", more, "1 GiB"]}))
            answer = self.run_program("shard", "movielens-two-tower", *enough, "--json", code=None).document
            self.assertEqual("reserved" in answer.get("failure", {}).get("message", ""), lacks == 1, answer)
        judged = self.run_program("check", "movielens-two-tower", "plan.json", *on, "--json").document
        self.assertEqual(judged["certificate_status"], "proved")

    def test_what_is_not_proved_was_not_found(self):
        # Three tables of 2 units on two ranks of 3: totals fit, whole tables do not.
        tables = [constrained(name, "table_wise", rows=8388608, columns=64) for name in ("a", "b", "c")]
        self.write("model.json", {"tables": tables})
        on = ("--on", "2x3.5GiB", "--ddr-cap", "0", "--reservation", "fixed_percentage:0")
        answer = self.run_program("shard", "model.json", *on, code=4)
        self.assertIn("no plan was found", answer.out)
        for word in ("infeasible", "does not fit"):
            self.assertNotIn(word, answer.out + answer.err)


class Judgements(Balanced):
    """What the check says of certificates, in words and as a status."""

    # The bound of this model rests on a search to its end.
    SEARCHED: typing.ClassVar = {
        "modules": [
            {
                "path": "m0",
                "kind": "embedding_bag_collection",
                "tables": [
                    table(
                        "t0",
                        5000000,
                        512,
                        feature_names=["f0_0", "f0_1"],
                        constraints={
                            "pooling_factors": [1, 100.5],
                            "num_poolings": [2.0, 1],
                            "sharding_types": ["row_wise", "column_wise", "table_row_wise"],
                            "compute_kernels": ["fused_uvm"],
                        },
                    ),
                    table(
                        "t3",
                        1000,
                        192,
                        feature_names=["f3_0"],
                        data_type="bf16",
                        constraints={
                            "pooling_factors": [20],
                            "sharding_types": ["row_wise", "table_wise"],
                            "compute_kernels": ["fused"],
                        },
                    ),
                ],
            },
        ],
        "optimizer": "adam",
    }
    TWO: typing.ClassVar = {
        "world_size": 2,
        "local_world_size": 2,
        "hbm_cap": 10565218304,
        "inter_host_bw": 100000000.0,
    }

    def status(self, *arguments, code=0, on=ON):
        report = self.check("--json", *arguments, code=code, on=on).document
        self.assertTrue(report["certificate_reason"])
        return report["certificate_status"]

    def test_a_certificate_is_proved_or_absent(self):
        for arguments in ((), ("--objective", "step"), ("--search", "torchrec")):
            self.shard(*arguments)
            self.assertEqual(self.status("--strict"), "proved")
        self.assertIn("certificate proved: ", self.check().out)
        self.write("plan.json", self.answer()["plan"])
        self.assertEqual(self.status("--strict"), "absent")

    def test_a_bound_above_the_plan_is_refuted_whatever_search_is_named(self):
        for search in ("balanced", "torchrec", "other"):
            for proof in ("search to the end", "", "prices of 1 case(s), filtered"):

                def forge(answer, search=search, proof=proof):
                    del answer["objective"]
                    answer["provenance"]["options"]["search"] = search
                    certificate = answer["certificate"]
                    certificate.update(lower_bound=certificate["objective"] * 1.5, proof=proof)
                    for key in ("bound", "gap"):
                        certificate.pop(key, None)

                self.shard()
                self.change(forge)
                self.assertEqual(self.status(code=5), "refuted")

    def test_a_recorded_tolerance_is_no_licence(self):
        self.shard("--objective", "rating", "--tolerance", "0.5")
        answer = self.answer()
        gap = answer["certificate"]["gap"]
        self.assertEqual(answer["status"], "optimal")
        self.assertGreater(gap, 1e-6)
        self.assertEqual(self.status(code=5), "refuted")
        self.assertEqual(self.status("--tolerance", str(gap)), "proved")

    def test_words_prove_nothing(self):
        self.write("model.json", self.SEARCHED)
        on = ("--on", self.write("two.json", self.TWO))
        self.run_program("shard", "model.json", *on, "--objective", "rating", "-o", "plan.json")
        answer = self.answer()
        least = answer["certificate"]["objective"]
        self.assertEqual(answer["status"], "optimal")
        bound = answer["certificate"].pop("bound")
        for value, status, code in ((least * (1 - 1e-6), "proved", 0), (least * 1.5, "refuted", 5)):
            answer["certificate"].update(
                lower_bound=value, gap=least / value - 1, proof="search to the end for a plan of 1 ms, 1 nodes"
            )
            answer["status"] = "optimal" if code else answer["status"]
            self.write("plan.json", answer)
            self.assertEqual(self.status("--tolerance", "1e-5", on=on, code=code), status)
        # A plan that is worse by a tenth is not the best because its bound says so: the judge finds a better one.
        self.assertTrue(bound["cases"])

    def test_what_cannot_be_repeated_is_named(self):
        many = [table(f"t{i}", 100000 + 977 * i, 64, constraints={"pooling_factors": [1 + i % 13]}) for i in range(70)]
        self.write("model.json", {"modules": [{"path": "ebc", "tables": many}]})
        self.shard("--objective", "rating")

        def forge(answer):
            certificate = answer["certificate"]
            value = certificate["objective"] * (1 - 1e-7)
            certificate.update(lower_bound=value, gap=certificate["objective"] / value - 1)
            certificate.update(proof="search to the end for a plan of 1 ms, 1 nodes")
            answer["status"] = "optimal"

        self.change(forge)
        self.assertEqual(self.status(), "not_repeated")
        report = self.check("--json", "--strict", code=5).document
        self.assertEqual([v["code"] for v in report["violations"]], ["not_repeated"])

    def test_a_forged_curve_is_refuted(self):
        def faster(answer):
            answer["frontier"][0].update(ms=answer["frontier"][0]["ms"] * 0.999, is_exact=False)

        def another_plan(answer):
            answer["frontier_plans"][0] = {}  # that of the plan beside

        def below_the_first(answer):  # a size at which a plan exists
            answer["frontier_bound"][0]["bytes"] = answer["frontier"][0]["bytes"] - 1
            answer["frontier_proofs"] = []

        def above_the_second(answer):  # and at which a better one does
            lower = answer["frontier_bound"]
            lower[1]["bytes"] += (answer["frontier"][-1]["bytes"] - lower[1]["bytes"]) // 2

        def higher(answer):
            lower = answer["frontier_bound"]
            lower[0]["ms"] = min(lower[0]["ms"] * 1.01, answer["frontier"][0]["ms"])

        for objective in ("rating", "step", "time"):
            self.shard("--frontier", "--objective", objective)
            self.assertEqual(self.status(), "proved", objective)
            genuine = self.answer()
            self.assertGreater(len(genuine["frontier_bound"]), 2)
            for forge in (
                faster,
                another_plan,
                above_the_second,
                higher,
                lambda a: a["frontier"].pop(0),
                lambda a: a["frontier"][0].update(bytes=a["frontier"][0]["bytes"] + 1),
                lambda a: a["frontier_plans"].pop(),
                lambda a: a["frontier_proofs"].pop(0),
                lambda a: a["frontier_plans"][0]["tables"].pop(),
            ):
                self.write("plan.json", genuine)
                self.change(forge)
                report = self.check("--json", code=5).document
                self.assertIn("frontier_mismatch", [v["code"] for v in report["violations"]], objective)
            for left_out in ("frontier_plans", "frontier_proofs"):
                self.write("plan.json", genuine)
                self.change(lambda answer, key=left_out: answer.pop(key))
                self.assertIn(self.status(), ("proved", "not_repeated") if "proofs" in left_out else ("not_repeated",))
            self.write("plan.json", genuine)
            self.change(below_the_first)
            self.assertIn(self.status(code=None), ("not_repeated", "refuted"))

    def test_inputs_bill_reference_and_curve_are_judged(self):
        self.shard("--frontier", "--objective", "rating")
        self.assertEqual(self.status(), "proved")

        def curve(answer):
            answer["frontier"][0]["ms"] *= 0.01

        for code, change in (
            ("inputs_mismatch", lambda a: a["provenance"]["inputs"].update(model="00")),
            ("inputs_mismatch", lambda a: a["provenance"]["inputs"].update(context="00")),
            ("inputs_mismatch", lambda a: a["provenance"]["options"].update(batch_size="513")),
            ("bill_mismatch", lambda a: a["bill"]["bytes"]["hbm_weights"].__setitem__(0, 1)),
            ("bill_mismatch", lambda a: a["bill"]["ms"].pop("fwd_comms")),
            ("reference_mismatch", lambda a: a["reference"].update(step=1e9)),
            ("frontier_mismatch", curve),
            ("frontier_mismatch", lambda a: a["frontier_bound"][-1].update(ms=0)),
            ("status_mismatch", lambda a: a["provenance"]["options"].update(objective="step")),
        ):
            self.shard("--frontier", "--objective", "rating")
            self.change(change)
            report = self.check("--json", code=5).document
            codes = [v["code"] for v in report["violations"]]
            self.assertIn(code, codes)
            self.assertEqual(report["certificate_status"], "refuted")


class Limits(Balanced):
    MODEL = ("nv-synthetic-medium", "--on", "16x80GiB", "--optimizer", "adagrad", "--batch-size", "4096")

    def replay(self, name):
        return self.run_program("shard", *self.MODEL[:3], "--replay", name, "--json").document

    def test_a_replay_makes_the_same_plan(self):
        self.shard("--objective", "step", "--widths", "all", "--seed", "3")
        again = self.run_program("shard", "model.json", *ON, "--replay", "plan.json", "--json").document
        self.assertEqual(again, self.answer())

    def test_a_replay_wants_the_same_inputs(self):
        self.shard()
        self.write("model.json", {"tables": [table()]})
        error = self.run_program("shard", "model.json", *ON, "--replay", "plan.json", "--json", code=1).error
        self.assertEqual((error["code"], error["place"]), ("conflict", "plan.json"))
        self.write("bare.json", self.answer()["plan"])
        self.run_program("shard", "model.json", *ON, "--replay", "bare.json", code=1)

    def test_a_replay_refuses_what_the_plan_decides(self):
        self.shard()
        for arguments in (("--objective", "step"), ("--seed", "4"), ("--batch-size", "7"), ("--pool-ddr",)):
            error = self.run_program(
                "shard", "model.json", *ON, "--replay", "plan.json", *arguments, "--json", code=1
            ).error
            self.assertEqual((error["code"], error["place"]), ("usage", arguments[0]))

    def test_a_file_that_cannot_be_written_is_told_before_the_search(self):
        begin = time.monotonic()
        for path in (".", "missing/plan.json"):
            error = self.run_program(
                "shard", *self.MODEL, "--effort", "100000000000", "-o", path, "--json", code=1
            ).error
            self.assertEqual(error["place"], path)
        self.assertLess(time.monotonic() - begin, 60)

    def test_the_clock_cuts_and_a_replay_stops_there(self):
        limits = ("100ms", "500ms", "3s", "20s")
        cut = self.run_cut("shard", *self.MODEL, "--effort", "100000000000", limits=limits)
        self.assertEqual(cut["stop"], "deadline")
        self.assertTrue(cut["provenance"]["stopped_at"])
        self.assertLessEqual(cut["certificate"]["lower_bound"], cut["certificate"]["objective"])
        self.write("cut.json", cut)
        self.assertEqual(self.replay("cut.json")["plan"], cut["plan"])

    def test_without_the_references_rating_the_answer_says_so(self):
        model = ("nv-synthetic-jumbo", "--on", "512x80GiB")  # the reference searches for seconds
        for limit in ("400ms", "3s", "20s"):
            done = subprocess.run(
                [program.PROGRAM, "shard", *model, "--time-limit", limit, "-o", str(self.folder / "cut.json")],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode != 4:
                break
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("the reference's search was cut after ", done.stderr)
        cut = program.parse(self.read("cut.json"))
        self.assertIn("no_reference_rating", [warning["code"] for warning in cut["warnings"]])
        self.assertNotIn("rating_cap", cut["provenance"]["options"])
        self.assertRegex(cut["provenance"]["stopped_at"], r"^proposal \d+, effort ")

    def test_progress_is_told_on_a_terminal(self):
        ours, theirs = open_terminal(self)
        self.addCleanup(os.close, ours)
        process = subprocess.Popen(
            [program.PROGRAM, "shard", *self.MODEL, "--objective", "rating", "--effort", "100000000000", "--json"],
            stdout=subprocess.PIPE,
            stderr=theirs,
            text=True,
        )
        os.close(theirs)
        told = re.compile(rb"\reffort (\d+): ([\d.]+) ms, bound ([\d.]+) ms, gap [\d.e+-]+ %")
        said = b""
        try:
            while chunk := os.read(ours, 4096):
                said += chunk
                if told.search(said) and process.poll() is None:
                    process.send_signal(signal.SIGINT)
                    break
        except OSError:  # the program has ended
            pass
        out, _ = process.communicate(timeout=program.TIMEOUT_S)
        self.assertEqual(process.returncode, 3)
        lines = told.findall(said)
        self.assertTrue(lines, said)
        answer = program.parse(out)
        for _, incumbent, bound in lines:
            self.assertLessEqual(float(bound), float(incumbent))
            self.assertLessEqual(answer["certificate"]["objective"], float(incumbent) * (1 + 1e-5))
        efforts = [int(effort) for effort, _, _ in lines]
        self.assertEqual(efforts, sorted(efforts))

    def test_an_interrupt_returns_the_best_plan(self):
        process = subprocess.Popen(
            [program.PROGRAM, "shard", *self.MODEL, "--effort", "100000000000", "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        time.sleep(3)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=program.TIMEOUT_S)
        self.assertEqual(process.returncode, 3)
        cut = program.parse(out)
        self.assertEqual(cut["stop"], "cancelled")
        self.write("cut.json", cut)
        self.assertEqual(self.replay("cut.json")["plan"], cut["plan"])


class Dumps(ProgramTest):
    """MODEL as the options of one of TorchRec's planners."""

    def setUp(self):
        super().setUp()
        self.classes = []
        options = []
        for i, (rows, ms) in enumerate(((1000, 1.0), (64, 2.0), (4096, 5.0))):
            whole = rows * 256
            for kind, count, share, size in (
                ("table_wise", 1, 1, [rows, 64]),
                ("column_wise", 2, 2, [rows, 32]),
                ("row_wise", 4, 4, [rows // 4, 64]),
                ("table_row_wise", 2, 2, [rows // 2, 64]),
            ):
                self.classes.append([whole // share, 0, 0, ms / share + 0.1])
                options.append(
                    {
                        "fqn": f"m.t{i}",
                        "sharding_type": kind,
                        "compute_kernel": "fused",
                        "rows": rows,
                        "columns": 64,
                        "shards": [len(self.classes) - 1] * count,
                        "sizes": [size] * count,
                        "storage_hash": 2**60 + len(options),
                    }
                )
        self.dump = {
            "schema": "plimsoll.torchrec_options/1",
            "torchrec": "1.8.0",
            "world_size": 4,
            "local_world_size": 2,
            "room": [[2**29, 0, 0]] * 4,
            "context_hash": "abc",
            "shard_classes": self.classes,
            "options": options,
        }
        self.write("dump.json", self.dump)

    def test_the_answer_names_every_option_and_rank(self):
        answer = self.run_program("shard", "dump.json", "--json").document
        self.assertEqual((answer["objective"], answer["status"]), ("rating", "optimal"))
        self.assertEqual(answer["provenance"]["inputs"]["context"], "abc")
        self.assertEqual([t["fqn"] for t in answer["options"]], ["m.t0", "m.t1", "m.t2"])
        load = [0] * 4
        for taken, placed in zip(answer["options"], answer["plan"]["tables"]):
            option = self.dump["options"][taken["option"]]
            self.assertEqual((taken["fqn"], taken["storage_hash"]), (option["fqn"], option["storage_hash"]))
            self.assertEqual(len(taken["ranks"]), len(option["shards"]))
            self.assertEqual(placed["sharding_type"], option["sharding_type"])
            self.assertEqual(
                [[s["rows"], s["columns"]] for s in taken["shards"] for _ in range(s["count"])], option["sizes"]
            )
            for rank, shard in zip(taken["ranks"], option["shards"]):
                load[rank] += self.classes[shard][3]
        self.assertAlmostEqual(max(load), answer["rating"], delta=1e-9)

    def test_the_check_reads_the_dump(self):
        self.run_program("shard", "dump.json", "-o", "plan.json")
        self.assertIn("the prices prove", self.run_program("check", "dump.json", "plan.json", "--strict").out)
        answer = program.parse(self.read("plan.json"))
        for code, change in (
            ("wrong_shard_count", lambda t: t["ranks"].append(0)),
            ("duplicate_table", lambda t: t.update(fqn="m.t1")),
            ("type_not_allowed", lambda t: t.update(option=99)),
            ("rank_out_of_range", lambda t: t["ranks"].__setitem__(0, 9)),
        ):
            changed = json.loads(json.dumps(answer))
            change(changed["options"][0])
            self.write("changed.json", changed)
            report = self.run_program("check", "dump.json", "changed.json", "--json", code=5).document
            self.assertIn(code, [v["code"] for v in report["violations"]])

    def test_columns_of_a_key_value_table_stand_on_distinct_ranks(self):
        whole, half = {**self.dump["options"][0]}, {**self.dump["options"][0]}
        whole.update(sharding_type="table_wise", compute_kernel="key_value", shards=[0], sizes=[[1000, 64]])
        half.update(sharding_type="column_wise", compute_kernel="key_value", shards=[1] * 2, sizes=[[1000, 32]] * 2)
        self.dump.update(
            shard_classes=[[2**20, 0, 0, 12.0], [2**19, 0, 0, 5.0], [2**19, 0, 0, 10.0]],
            options=[whole, half, {**whole, "fqn": "m.t1", "shards": [2]}],
            **{"world_size": 2, "room": [[2**29, 0, 0]] * 2},
        )
        self.write("dump.json", self.dump)
        self.write("older.json", {**self.dump, "torchrec": "1.4.0"})
        # Beside t1 on the other rank: both columns on one rank, 10 ms, or the whole table.
        for name, ms in ("dump", 12.0), ("older", 10.0):
            answer = self.run_program("shard", f"{name}.json", "-o", "plan.json", "--json").document
            self.assertEqual((answer["status"], answer["rating"]), ("optimal", ms))
            self.run_program("check", f"{name}.json", "plan.json")
        report = self.run_program("check", "dump.json", "plan.json", "--json", code=5).document
        self.assertIn("columns_share_rank", [v["code"] for v in report["violations"]])

    def test_shards_of_a_dump_tile_the_table(self):
        for at, sizes, message in (
            (2, [[250, 64]] * 3 + [[200, 64]], "the row_wise shards of table m.t0 hold 950 of 1000 rows"),
            (1, [[1000, 16]] * 2, "the column_wise shards of table m.t0 hold 32 of 64 columns"),
            (0, [[1000, 128]], "the table_wise shards of table m.t0 hold 128 of 64 columns"),
        ):
            dump = json.loads(json.dumps(self.dump))
            dump["options"][at]["sizes"] = sizes
            self.write("dump.json", dump)
            error = self.run_program("shard", "dump.json", "--json", code=1).error
            self.assertEqual((error["place"], error["message"]), (f"dump.json#/options/{at}/sizes", message))

    def test_hazards_of_a_dump_are_those_of_a_model(self):
        classes = [[10, 0, 0, 5, 1, 1, 1, 1, 1], [5, 0, 0, 2.5, 0.5, 0.5, 0.5, 0.5, 0.5]]
        options = [
            ("m.a", "column_wise", "key_value", [[100, 32]] * 2, "sum"),
            ("m.b", "grid_shard", "fused", [[50, 64]] * 2, "mean"),
            ("m.c", "row_wise", "fused", [[90, 64], [10, 64]], "mean"),
        ]
        keys = ("fqn", "sharding_type", "compute_kernel", "sizes", "pooling")
        dump = {
            "schema": "plimsoll.torchrec_options/1",
            "torchrec": "1.9.2",
            "world_size": 2,
            "local_world_size": 2,
            "room": [[100, 100, 100]] * 2,
            "shard_classes": classes,
            "options": [dict(zip(keys, option)) | {"shards": [1, 1], "rows": 100, "columns": 64} for option in options],
        }
        self.write("dump.json", dump)
        self.run_program("shard", "dump.json", "--search", "torchrec", "-o", "plan.json")
        report = self.run_program("check", "dump.json", "plan.json", "--json", code=None).document
        found = {(h["code"], h["table"]) for h in report["hazards"]}
        expected = {("mean_pooling_grid", "m.b"), ("uneven_rows", "m.c"), ("mean_pooling_mixed_rows", "m.c")}
        self.assertEqual(found, expected)
        answer = program.parse(self.read("plan.json"))
        answer["options"][0]["ranks"] = [0, 0]
        answer["plan"]["tables"][0]["ranks"] = [{"first": 0, "count": 1}] * 2
        self.write("plan.json", answer)
        report = self.run_program("check", "dump.json", "plan.json", "--json", code=5).document
        self.assertIn("columns_share_rank", [v["code"] for v in report["violations"]])

    def test_a_plan_says_what_its_options_say(self):
        self.run_program("shard", "dump.json", "-o", "plan.json")
        for change in (
            lambda a: a["plan"]["tables"][0].update(compute_kernel="fused_uvm"),
            lambda a: a["plan"]["tables"][0]["ranks"][0].update(first=3, count=1),
            lambda a: a["options"][0].update(storage_hash=7),
            lambda a: a["options"][0]["shards"][0].update(hbm=7),
        ):
            answer = program.parse(self.read("plan.json"))
            change(answer)
            self.write("changed.json", answer)
            done = self.run_program("check", "dump.json", "changed.json", "--json", code=None)
            self.assertIn(done.code, (1, 5))
            if done.code == 5:
                self.assertIn("options_mismatch", [v["code"] for v in done.document["violations"]])

    def test_a_single_column_stands_beside_a_forbidden_rank(self):
        # Two hosts of two, the first rank of each forbidden: the column of 1 ms still has ranks 1 and 3.
        self.dump["shard_classes"] = [[1024, 0, 0, 2], [1024, 0, 0, 1]]
        self.dump["options"] = [
            {
                "fqn": "m.t0",
                "sharding_type": kind,
                "compute_kernel": "fused",
                "rows": 4,
                "columns": 64,
                "shards": [shard],
                "sizes": [[4, 64]],
            }
            for shard, kind in enumerate(("table_wise", "table_column_wise"))
        ]
        self.write("dump.json", self.dump)
        self.write("rules.json", {"forbidden_ranks": {"m.t0": [0, 2]}})
        answer = self.run_program("shard", "dump.json", "--rules", "rules.json", "-o", "plan.json", "--json").document
        self.assertEqual((answer["status"], answer["rating"]), ("optimal", 1))
        self.assertIn(answer["options"][0]["ranks"], ([1], [3]))
        self.run_program("check", "dump.json", "plan.json")

    def test_the_frontier_of_a_dump(self):
        for i, rows in enumerate((1000, 64, 4096)):  # replicas are fast, and take the most
            self.classes.append([rows * 256, 0, 0, 0.05])
            self.dump["options"].append(
                {
                    "fqn": f"m.t{i}",
                    "sharding_type": "data_parallel",
                    "compute_kernel": "dense",
                    "rows": rows,
                    "columns": 64,
                    "shards": [len(self.classes) - 1] * 4,
                    "sizes": [[rows, 64]] * 4,
                }
            )
        self.write("dump.json", self.dump)
        answer = self.run_program("shard", "dump.json", "--frontier", "--json").document
        upper, lower = answer["frontier"], answer["frontier_bound"]
        self.assertGreater(len(upper), 1)
        self.assertAlmostEqual(upper[-1]["ms"], answer["rating"], delta=1e-12)
        for point in upper:
            bound = [p["ms"] for p in lower if p["bytes"] <= point["bytes"]]
            self.assertLessEqual(bound[-1], point["ms"] * (1 + 1e-9))
        self.write("plan.json", answer)
        judged = self.run_program("check", "dump.json", "plan.json", "--json").document
        self.assertEqual(judged["certificate_status"], "proved")
        moved = next(p for p in answer["frontier_plans"] if p)["options"][0]
        moved["option"] = 0 if moved["option"] != 0 else 1
        self.write("plan.json", answer)
        judged = self.run_program("check", "dump.json", "plan.json", "--json", code=5).document
        self.assertEqual(judged["violations"][0]["code"], "frontier_mismatch")

    def test_the_check_reads_a_dump_that_nothing_fits(self):
        self.dump["room"] = [[1, 1, 0]] * len(self.dump["room"])
        self.write("dump.json", self.dump)
        self.run_program("shard", "dump.json", "-o", "plan.json", code=2)
        self.assertIn("no plan exists", self.run_program("check", "dump.json", "plan.json").out)
        answer = program.parse(self.read("plan.json"))
        answer["certificate"]["bound"]["cases"] = []
        self.write("plan.json", answer)
        self.run_program("check", "dump.json", "plan.json", code=5)

    def test_a_replay_and_the_reference(self):
        self.run_program("shard", "dump.json", "-o", "plan.json")
        again = self.run_program("shard", "dump.json", "--replay", "plan.json", "--json").out
        self.assertEqual(again, self.read("plan.json"))
        reference = self.run_program("shard", "dump.json", "--search", "torchrec", "--json").document
        self.assertGreaterEqual(reference["rating"], program.parse(again)["rating"])

    def test_what_a_dump_does_not_tell_is_refused(self):
        for arguments in (
            ("--on", "4x40GiB"),
            ("--batch-size", "3"),
            ("--objective", "step"),
            ("--widths", "all"),
            ("--stats",),
        ):
            error = self.run_program("shard", "dump.json", *arguments, "--json", code=1).error
            self.assertEqual((error["code"], error["place"]), ("usage", arguments[0]))
        self.dump["options"][0]["shards"] = [99]
        self.write("dump.json", self.dump)
        error = self.run_program("shard", "dump.json", "--json", code=1).error
        self.assertEqual(error["place"], "dump.json#/options/0/shards/0")


if __name__ == "__main__":
    program.main()
