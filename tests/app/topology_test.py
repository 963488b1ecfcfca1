"""Hardware by name and by file: caps rank by rank, rules of bandwidth, hosts that do not divide the ranks."""

import program
import pytest
from program import Plimsoll, constrained, table


class Topologies(Plimsoll):
    def __init__(self, path, folder):
        super().__init__(path, folder)
        self.write("model.json", {"tables": [table(count=3)]})

    def plan(self, on, *arguments, model="model.json", code=0):
        on = on if isinstance(on, str) else self.write("topology.json", {"schema": "plimsoll.topology/1"} | on)
        if on.endswith(".json") and program.jsonschema is not None:
            errors = list(self.schema_validator("topology").iter_errors(program.parse(self.read(on))))
            assert errors == []
        return self.run("shard", model, "--on", on, "--search", "torchrec", "--json", *arguments, code=code).document

    def capacity(self, on, *arguments):
        """HBM by rank after no reservation, as the judge sees it."""
        self.plan(on, "--reservation", "fixed_percentage:0", "-o", "plan.json", *arguments)
        name = on if isinstance(on, str) else "topology.json"
        report = self.run("check", "model.json", "plan.json", "--on", name, "--json", *arguments).document
        return [rank["capacity"]["hbm"] for rank in report["ranks"]]


@pytest.fixture
def plimsoll(program_path, tmp_path):
    return Topologies(program_path, tmp_path)


@pytest.mark.parametrize(
    ("on", "ranks", "host"),
    [
        ("dgx-h100:2", 16, 8),
        ("dgx-h100", 8, 8),
        ("16x40GiB", 16, 8),
        ("4x40GiB", 4, 4),
        ("4xh100-sxm", 4, 4),
        ("torchrec-defaults:16", 16, 16),
        ("DGX-H100", 8, 8),
    ],
)
def test_the_four_ways_to_name_hardware(plimsoll, on, ranks, host):
    plan = plimsoll.plan(on)["plan"]
    assert plan["world_size"] == ranks
    assert plan["local_world_size"] == host


def test_hardware_of_a_file(plimsoll):
    assert plimsoll.plan({"world_size": 6, "local_world_size": 3})["plan"]["local_world_size"] == 3


def test_a_file_without_the_suffix_and_a_pipe_are_files(plimsoll):
    text = '{"world_size": 6, "local_world_size": 3}'
    plimsoll.write("topology", text)
    assert plimsoll.plan("topology")["plan"]["world_size"] == 6
    piped = plimsoll.run("shard", "model.json", "--on", "-", "--json", stdin=text)
    assert piped.document["plan"]["world_size"] == 6


def test_caps_rank_by_rank(plimsoll):
    caps = [4 << 30, 3 << 30, 2 << 30, 1 << 30]
    assert plimsoll.capacity({"world_size": 4, "hbm_caps": ["4 GiB", "3 GiB", 2 << 30, "1024 MiB"]}) == caps
    # A flag wins over the file's scalar and over its list.
    assert plimsoll.capacity("topology.json", "--hbm-cap", "5GiB") == [5 << 30] * 4
    assert plimsoll.capacity({"world_size": 2, "hbm_cap": "4 GiB"}, "--hbm-cap", "5GiB") == [5 << 30] * 2


def test_rows_are_cut_by_the_caps(plimsoll):
    plimsoll.write("rows.json", {"tables": [constrained("t", "row_wise", rows=3000)]})
    shards = plimsoll.plan({"world_size": 2, "hbm_caps": ["20 GiB", "10 GiB"]}, model="rows.json")["plan"]["tables"][0]
    assert [run["rows"] for run in shards["shards"] for _ in range(run.get("count", 1))] == [2000, 1000]


def test_a_rank_without_room_stays_empty(plimsoll):
    plimsoll.write("one.json", {"tables": [constrained("t", "table_wise", rows=10**6) | {"count": 4}]})
    answer = plimsoll.plan({"world_size": 2, "hbm_caps": ["40 GiB", "100 MiB"]}, model="one.json")
    assert answer["bill"]["bytes"]["hbm"][1] == 0


def test_rules_of_bandwidth_win_in_order(plimsoll):
    plimsoll.write("one.json", {"tables": [constrained("t", "table_wise")]})

    def forward_comms(*rules):
        answer = plimsoll.plan({"world_size": 4, "comms_rules": list(rules)}, model="one.json")
        return max(answer["bill"]["ms"]["fwd_comms"])

    plain = forward_comms()
    slow = {"collective": "all_to_all", "bandwidth": "1 GB/s"}
    half = {"collective": "all_to_all", "bandwidth": "0.5 GB/s"}
    assert forward_comms(slow) > plain
    assert forward_comms(half, slow) == pytest.approx(2 * forward_comms(slow, half), abs=5e-8)
    assert forward_comms(slow | {"min_world_size": 5}) == plain
    assert forward_comms(slow | {"collective": "all_reduce"}) == plain
    assert forward_comms(slow | {"max_world_size": 4}) == forward_comms(slow)


def test_the_ranks_of_a_host_share_its_memory(plimsoll):
    def ddr(*arguments, on="4x40GiB"):
        return plimsoll.plan(on, *arguments)["bill"]["bytes"]["capacity_ddr"]

    host = ("--host-memory", "1000003 B")
    assert ddr(*host, "--local-world-size", "2") == [500001] * 4
    assert ddr(*host) == [250000] * 4  # one host
    caps = {"world_size": 3, "local_world_size": 3, "ddr_caps": [1, 2, 3]}
    assert ddr(*host, on=caps) == [333334] * 3
    plimsoll.run("shard", "model.json", "--on", "4x40GiB", *host, "--ddr-cap", "1GiB", code=1)


def test_bandwidth_flags(plimsoll):
    plimsoll.write("one.json", {"tables": [constrained("t", "table_wise")]})
    slow = plimsoll.plan("4x40GiB", "--intra-host-bw", "1GB/s", model="one.json")
    assert slow["rating"] > plimsoll.plan("4x40GiB", model="one.json")["rating"]
    far = plimsoll.plan("4x40GiB", "--local-world-size", "2", "--inter-host-bw", "1GB/s", model="one.json")
    assert far["rating"] > plimsoll.plan("4x40GiB", "--local-world-size", "2", model="one.json")["rating"]


@pytest.mark.parametrize(
    ("on", "arguments", "code", "warning"),
    [
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
    ],
)
def test_oddities_are_taken_with_a_warning(plimsoll, on, arguments, code, warning):
    document = plimsoll.plan(on, *arguments, code=code)
    assert warning in [w["code"] for w in document["warnings"]]


def test_a_warning_names_the_rank(plimsoll):
    plimsoll.write("topology.json", {"world_size": 3, "hbm_caps": [0, "40 GiB", "40 GiB"]})
    text = plimsoll.run("shard", "model.json", "--on", "topology.json", "--reservation", "fixed_percentage:0")
    assert "warning: rank 0: " in text.err


def test_before_release_1_7_a_zero_cap_means_the_default(plimsoll):
    answer = plimsoll.plan("4x40GiB", "--hbm-cap", "0", "--cost-model", "torchrec-1.4")
    assert answer["status"] in ("optimal", "feasible")


def test_pods(plimsoll):
    plimsoll.plan("8x40GiB", "--local-world-size", "2", "--pod-size", "2")
    answer = plimsoll.plan("gb200-nvl72")
    assert answer["plan"]["world_size"] == 72


def test_other_devices(plimsoll):
    plimsoll.plan({"world_size": 2, "compute_device": "cpu", "ddr_cap": "64 GiB"})
    answer = plimsoll.run(
        "shard",
        "model.json",
        "--on",
        plimsoll.write("tpu.json", {"world_size": 4, "compute_device": "tpu", "hbm_cap": "16 GiB"}),
        "--cost-model",
        "torchrec-1.8",
        "--json",
        code=1,
    )
    assert "TPU" in answer.error["message"]
