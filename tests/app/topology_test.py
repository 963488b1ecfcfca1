"""Hardware by name and by file: caps rank by rank, rules of bandwidth, hosts that do not divide the ranks."""

import program
from program import ProgramTest, constrained, table


class Topologies(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write("model.json", {"tables": [table(count=3)]})

    def plan(self, on, *arguments, model="model.json", code=0):
        on = on if isinstance(on, str) else self.write("topology.json", {"schema": "plimsoll.topology/1"} | on)
        if on.endswith(".json") and program.jsonschema is not None:
            errors = list(program.schema_validator("topology").iter_errors(program.parse(self.read(on))))
            self.assertEqual(errors, [])
        return self.run_program(
            "shard", model, "--on", on, "--search", "torchrec", "--json", *arguments, code=code
        ).document

    def capacity(self, on, *arguments):
        """HBM by rank after no reservation, as the judge sees it."""
        self.plan(on, "--reservation", "fixed_percentage:0", "-o", "plan.json", *arguments)
        name = on if isinstance(on, str) else "topology.json"
        report = self.run_program("check", "model.json", "plan.json", "--on", name, "--json", *arguments).document
        return [rank["capacity"]["hbm"] for rank in report["ranks"]]

    def test_the_four_ways_to_name_hardware(self):
        for on, ranks, host in (
            ("dgx-h100:2", 16, 8),
            ("dgx-h100", 8, 8),
            ("16x40GiB", 16, 8),
            ("4x40GiB", 4, 4),
            ("4xh100-sxm", 4, 4),
            ("torchrec-defaults:16", 16, 16),
            ("DGX-H100", 8, 8),
        ):
            with self.subTest(on):
                plan = self.plan(on)["plan"]
                self.assertEqual(plan["world_size"], ranks)
                self.assertEqual(plan["local_world_size"], host)
        self.assertEqual(self.plan({"world_size": 6, "local_world_size": 3})["plan"]["local_world_size"], 3)

    def test_a_file_without_the_suffix_and_a_pipe_are_files(self):
        text = '{"world_size": 6, "local_world_size": 3}'
        self.write("topology", text)
        self.assertEqual(self.plan("topology")["plan"]["world_size"], 6)
        piped = self.run_program("shard", "model.json", "--on", "-", "--json", stdin=text)
        self.assertEqual(piped.document["plan"]["world_size"], 6)

    def test_caps_rank_by_rank(self):
        caps = [4 << 30, 3 << 30, 2 << 30, 1 << 30]
        self.assertEqual(self.capacity({"world_size": 4, "hbm_caps": ["4 GiB", "3 GiB", 2 << 30, "1024 MiB"]}), caps)
        # A flag wins over the file's scalar and over its list.
        self.assertEqual(self.capacity("topology.json", "--hbm-cap", "5GiB"), [5 << 30] * 4)
        self.assertEqual(self.capacity({"world_size": 2, "hbm_cap": "4 GiB"}, "--hbm-cap", "5GiB"), [5 << 30] * 2)

    def test_rows_are_cut_by_the_caps(self):
        self.write("rows.json", {"tables": [constrained("t", "row_wise", rows=3000)]})
        shards = self.plan({"world_size": 2, "hbm_caps": ["20 GiB", "10 GiB"]}, model="rows.json")["plan"]["tables"][0]
        self.assertEqual([run["rows"] for run in shards["shards"] for _ in range(run.get("count", 1))], [2000, 1000])

    def test_a_rank_without_room_stays_empty(self):
        self.write("one.json", {"tables": [constrained("t", "table_wise", rows=10**6) | {"count": 4}]})
        answer = self.plan({"world_size": 2, "hbm_caps": ["40 GiB", "100 MiB"]}, model="one.json")
        self.assertEqual(answer["bill"]["bytes"]["hbm"][1], 0)

    def test_rules_of_bandwidth_win_in_order(self):
        self.write("one.json", {"tables": [constrained("t", "table_wise")]})

        def forward_comms(*rules):
            answer = self.plan({"world_size": 4, "comms_rules": list(rules)}, model="one.json")
            return max(answer["bill"]["ms"]["fwd_comms"])

        plain = forward_comms()
        slow = {"collective": "all_to_all", "bandwidth": "1 GB/s"}
        half = {"collective": "all_to_all", "bandwidth": "0.5 GB/s"}
        self.assertGreater(forward_comms(slow), plain)
        self.assertAlmostEqual(forward_comms(half, slow), 2 * forward_comms(slow, half))
        self.assertEqual(forward_comms(slow | {"min_world_size": 5}), plain)
        self.assertEqual(forward_comms(slow | {"collective": "all_reduce"}), plain)
        self.assertEqual(forward_comms(slow | {"max_world_size": 4}), forward_comms(slow))

    def test_bandwidth_flags(self):
        self.write("one.json", {"tables": [constrained("t", "table_wise")]})
        slow = self.plan("4x40GiB", "--intra-host-bw", "1GB/s", model="one.json")
        self.assertGreater(slow["rating"], self.plan("4x40GiB", model="one.json")["rating"])
        far = self.plan("4x40GiB", "--local-world-size", "2", "--inter-host-bw", "1GB/s", model="one.json")
        self.assertGreater(far["rating"], self.plan("4x40GiB", "--local-world-size", "2", model="one.json")["rating"])

    def test_oddities_are_taken_with_a_warning(self):
        for on, arguments, code, warning in (
            ("6x40GiB", ("--local-world-size", "4"), 0, "uneven_hosts"),
            ("4x40GiB", ("--local-world-size", "8"), 0, "host_exceeds_world"),
            ("4x40GiB", ("--ddr-cap", "0"), 0, "zero_ddr"),
            ("4x40GiB", ("--hbm-cap", "0"), 2, "zero_hbm"),
            ("4x40GiB", ("--intra-host-bw", "1GB/s"), 0, "slow_intra_host"),
            (
                {"world_size": 3, "hbm_caps": [0, "40 GiB", "40 GiB"]},
                ("--reservation", "fixed_percentage:0"),
                0,
                "zero_hbm",
            ),
        ):
            with self.subTest(warning):
                document = self.plan(on, *arguments, code=code)
                self.assertIn(warning, [w["code"] for w in document["warnings"]])
        text = self.run_program("shard", "model.json", "--on", "topology.json", "--reservation", "fixed_percentage:0")
        self.assertIn("warning: rank 0: ", text.err)

    def test_before_release_1_7_a_zero_cap_means_the_default(self):
        answer = self.plan("4x40GiB", "--hbm-cap", "0", "--cost-model", "torchrec-1.4")
        self.assertIn(answer["status"], ("optimal", "feasible"))

    def test_pods(self):
        self.plan("8x40GiB", "--local-world-size", "2", "--pod-size", "2")
        answer = self.plan("gb200-nvl72")
        self.assertEqual(answer["plan"]["world_size"], 72)

    def test_other_devices(self):
        self.plan({"world_size": 2, "compute_device": "cpu", "ddr_cap": "64 GiB"})
        answer = self.run_program(
            "shard",
            "model.json",
            "--on",
            self.write("tpu.json", {"world_size": 4, "compute_device": "tpu", "hbm_cap": "16 GiB"}),
            "--cost-model",
            "torchrec-1.8",
            "--json",
            code=1,
        )
        self.assertIn("TPU", answer.error["message"])


if __name__ == "__main__":
    program.main()
