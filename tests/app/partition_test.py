"""plimsoll partition, and check and convert of its placements: graphs, devices, searches, exit codes, bad input."""

import json
import math
import pathlib
import subprocess

import program
import pytest
from program import Plimsoll

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
GOLDEN = DATA / "golden"
GRAPHS = ("bert-l3-inference", "bert24-inference", "bert24-training")
# The contiguous optima of the placement benchmark's shipped graphs, in ms.
OPTIMA = {"bert24-inference": 17.789906, "bert24-training": 41.745812, "bert-l3-inference": 27.918568}


def node(number, accelerator=1.0, cpu=10.0, size=0, **more):
    return {
        "id": number,
        "supportedOnFpga": True,
        "cpuLatency": cpu,
        "fpgaLatency": accelerator,
        "isBackwardNode": False,
        "size": size,
    } | more


def edge(source, dest, cost=0.5):
    return {"sourceId": source, "destId": dest, "cost": cost}


def graph(nodes, edges=(), accelerators=2, cpus=0, memory=100):
    return {
        "maxSizePerFPGA": memory,
        "maxFPGAs": accelerators,
        "maxCPUs": cpus,
        "nodes": list(nodes),
        "edges": list(edges),
    }


def chain(length=4, size=10, **more):
    return graph([node(i, size=size) for i in range(length)], [edge(i, i + 1) for i in range(length - 1)], **more)


class Placements(Plimsoll):
    def place(self, *arguments, code=0):
        return self.run("partition", *arguments, "--json", code=code).document


class TestPlacements:
    @pytest.fixture
    def plimsoll(self, program_path, tmp_path):
        return Placements(program_path, tmp_path)

    @pytest.mark.parametrize(("name", "optimum"), OPTIMA.items())
    def test_real_graphs_reach_their_known_optima(self, plimsoll, name, optimum):
        answer = plimsoll.place(name)
        assert answer["status"] == "optimal"
        assert answer["is_contiguous"]
        assert answer["certificate"]["objective"] == pytest.approx(optimum, abs=1e-6 * optimum)
        assert answer["certificate"]["gap"] <= 1e-6
        loads = [stage["load_ms"] for stage in answer["stages"]]
        assert max(loads) == answer["certificate"]["objective"]

    def test_the_text_says_what_the_document_says(self, plimsoll):
        text = plimsoll.run("partition", "bert24-inference").out
        assert "on 6 x accelerator (16 GiB each), 1 x cpu" in text
        assert "  slowest stage  17.79 ms     on device 4" in text
        assert "  best possible  17.79 ms     no plan is better (proved)" in text
        assert "6 values move between devices" in text
        assert "stage 0:" not in text
        assert "\nstage 0: 1 3 2 5 4 6 7 8\n" in plimsoll.run("partition", "bert24-inference", "-v").out

    @pytest.mark.parametrize("name", GRAPHS)
    def test_the_same_bytes_twice(self, plimsoll, name):
        first = plimsoll.run("partition", name, "--json").out
        assert first == plimsoll.run("partition", name, "--json").out
        plimsoll.run("partition", name, "-o", "p.json")
        assert first == plimsoll.read("p.json")
        assert first == plimsoll.run("partition", name, "-o", "-").out

    def test_standard_input(self, plimsoll):
        text = plimsoll.run("models", "bert24-inference").out
        answer = plimsoll.run("partition", "-", "--json", stdin=text).document
        assert answer == plimsoll.place("bert24-inference")

    def test_devices_and_memory(self, plimsoll):
        four = plimsoll.place("bert24-inference", "--devices", "4")
        assert [c["count"] for c in four["classes"]] == [4, 1]
        assert four["certificate"]["objective"] > OPTIMA["bert24-inference"]
        assert four["provenance"]["options"] == {"devices": "4", "search": "contiguous"}
        some = plimsoll.place(
            "bert24-inference",
            "--devices",
            "accelerator=4",
            "--devices",
            "cpu=0",
            "--memory",
            "1GiB",
            "--memory",
            "cpu=2GiB",
        )
        assert some["classes"] == [
            {"name": "accelerator", "count": 4, "memory_cap": 1 << 30, "link_rate": 1.0},
            {"name": "cpu", "count": 0, "memory_cap": 2 << 30},
        ]

    def test_hardware(self, plimsoll):
        answer = plimsoll.run("partition", "bert24-inference", "--on", "4xh100-sxm", "--json")
        assert answer.document["classes"][0] == {
            "name": "accelerator",
            "count": 4,
            "memory_cap": 80 * 10**9,
            "link_rate": 1.0,
        }
        assert [w["code"] for w in answer.document["warnings"]] == ["measured_costs"]
        assert "warning: --on" in answer.err
        plimsoll.write("topology.json", {"world_size": 2, "hbm_cap": "5 GiB"})
        two = plimsoll.place("bert24-inference", "--on", "topology.json")["classes"][0]
        assert (two["count"], two["memory_cap"]) == (2, 5 << 30)
        three = plimsoll.place("bert24-inference", "--on", "topology.json", "--devices", "3")["classes"][0]
        assert (three["count"], three["memory_cap"]) == (3, 5 << 30)

    @pytest.mark.parametrize("on", ["topology.json", "4xh1000", "cpu-server-none:2"])
    def test_hardware_that_is_none(self, plimsoll, on):
        plimsoll.write("topology.json", {"world_size": 2, "hbm_caps": [1, 2]})
        error = plimsoll.run("partition", "bert24-inference", "--on", on, "--json", code=1).error
        assert error["place"] == "--on"

    def test_pins_and_forbidden_devices(self, plimsoll):
        plimsoll.write("g.json", chain())
        pinned = plimsoll.place("g.json", "--pin", "0=1")
        assert [stage["devices"] for stage in pinned["stages"]] == [[1], [0]]
        assert pinned["stages"][0]["nodes"] == ["0", "1"]
        forbidden = plimsoll.place("g.json", "--forbid", "0=0", "--forbid", "3=1")
        assert [stage["devices"] for stage in forbidden["stages"]] == [[1], [0]]
        plimsoll.write("g.json", chain(cpus=1))
        cpu = plimsoll.place("g.json", "--pin", "3=cpu")
        assert (cpu["stages"][-1]["class"], cpu["stages"][-1]["nodes"]) == ("cpu", ["3"])
        assert (
            plimsoll.place("g.json", "--pin", "3=0", "--pin", "2=1", "--pin", "1=0", code=2)["status"] == "infeasible"
        )
        named = chain()
        named["nodes"][2]["name"] = "head"
        plimsoll.write("g.json", named)
        assert "2" in plimsoll.place("g.json", "--pin", "head=1")["stages"][-1]["nodes"]

    @pytest.mark.parametrize(
        "arguments",
        [
            ("bert24-inference",),
            ("bert24-training", "--devices", "3", "--memory", "3GiB"),
            ("bert-l3-inference", "--on", "2xh100-sxm"),
            ("g.json", "--pin", "0=cpu", "--forbid", "3=1"),
            ("g.json", "--forbid", "0=0", "--forbid", "0=1", "--devices", "cpu=2"),
        ],
    )
    def test_the_judge_accepts_what_is_planned(self, plimsoll, arguments):
        plimsoll.write("g.json", chain(cpus=1))
        plimsoll.run("partition", *arguments, "-o", "p.json")
        checked = plimsoll.run("check", arguments[0], "p.json", "--json").document
        assert checked["violations"] == []
        placement = json.loads(plimsoll.read("p.json"))
        assert checked["max_load_ms"] == pytest.approx(placement["certificate"]["objective"], abs=1e-9)

    def test_the_judge_finds_what_was_edited(self, plimsoll):
        plimsoll.run("partition", "bert24-inference", "-o", "p.json")
        good = json.loads(plimsoll.read("p.json"))

        def codes(edit, *flags):
            placement = json.loads(json.dumps(good))
            edit(placement)
            plimsoll.write("edited.json", placement)
            answer = plimsoll.run("check", "bert24-inference", "edited.json", *flags, "--json", code=5)
            return {violation["code"] for violation in answer.document["violations"]}

        def move(placement):
            placement["stages"][1]["nodes"].append(placement["stages"][0]["nodes"].pop())

        def swap(placement):
            one, two = placement["stages"][0]["nodes"], placement["stages"][2]["nodes"]
            one[3], two[3] = two[3], one[3]

        def claim(placement):
            placement["certificate"]["objective"] = placement["certificate"]["lower_bound"] = 10
            placement["certificate"]["gap"] = 0

        assert "time_mismatch" in codes(move)
        assert "not_contiguous" in codes(swap)
        assert codes(claim) == {"load_mismatch"}
        assert codes(lambda p: p["stages"][3].update(memory_bytes=1)) == {"memory_mismatch"}
        assert codes(lambda p: p["stages"][3].update(transfer_ms=1)) == {"time_mismatch"}
        assert codes(lambda p: p["classes"][0].update(memory_cap=1)) == {"wrong_devices"}
        assert "unknown_device" in codes(lambda p: p["stages"][0].update(devices=[9]))
        assert codes(lambda p: None, "--memory", "1MiB") == {"over_memory", "stated_mismatch", "wrong_devices"}
        assert codes(lambda p: None, "--pin", "1=5") == {"pin_broken"}
        assert codes(lambda p: None, "--forbid", "1=0") == {"forbidden_device"}
        assert "violation" in plimsoll.run("check", "bert24-inference", "edited.json", "--memory", "1MiB", code=5).out

    def test_placements_of_another_graph(self, plimsoll):
        plimsoll.run("partition", "bert24-inference", "-o", "p.json")
        refused = plimsoll.run("check", "bert24-training", "p.json", "--json", code=1)
        assert "has no device" in refused.error["message"]
        other = json.loads(plimsoll.run("models", "bert24-inference").out)
        other["nodes"][0]["size"] = 8.0
        plimsoll.write("g.json", other)
        answer = plimsoll.run("check", "g.json", "p.json", code=5)
        assert "another graph" in answer.out
        assert "memory_mismatch" in answer.out

    def test_splits_of_the_benchmark(self, plimsoll):
        split = plimsoll.run("partition", "bert24-training", "--export", "dnn_partitioning", "-o", "p.json").out
        plimsoll.write("split.json", split)
        assert json.loads(split)["maxLoad"] == pytest.approx(OPTIMA["bert24-training"], abs=1e-4)
        assert "right" in plimsoll.run("check", "bert24-training", "split.json", "--contiguous").out
        assert split == plimsoll.run("convert", "bert24-training", "p.json", "--to", "dnn_partitioning").out
        back = plimsoll.run("convert", "bert24-training", "split.json", "--to", "plimsoll", "--json").document
        assert back["stages"] == json.loads(plimsoll.read("p.json"))["stages"]
        moved = json.loads(split)
        first, last = moved["fpgas"][0]["nodes"], moved["fpgas"][5]["nodes"]
        first[3], last[3] = last[3], first[3]
        plimsoll.write("split.json", moved)
        plimsoll.run("check", "bert24-training", "split.json", "--contiguous", code=5)
        plimsoll.run("convert", "bert24-training", "p.json", "--to", "torchrec", code=1)
        plimsoll.run("partition", "bert24-training", "--export", "dnn_partitioning", "--json", code=1)

    def test_2_where_a_byte_is_missing(self, plimsoll):
        exact = chain(length=1, size=100, accelerators=1)
        plimsoll.write("g.json", exact)
        assert plimsoll.place("g.json")["status"] == "optimal"
        for arguments in ((), ("--memory", "99B")):
            plimsoll.write("g.json", exact if arguments else exact | {"maxSizePerFPGA": 99})
            answer = plimsoll.place("g.json", *arguments, code=2)
            assert answer["status"] == "infeasible"
            assert (answer["explanation"]["binding"], answer["explanation"]["missing"]) == ("memory", 1)
            assert "stages" not in answer
            assert answer["certificate"]["objective"] is None
        text = plimsoll.run("partition", "g.json", "--memory", "99B", code=2)
        assert "proved infeasible" in text.err
        assert "1 bytes are missing" in text.err

    def test_empty_graphs_and_single_nodes(self, plimsoll):
        plimsoll.write("g.json", graph([]))
        assert plimsoll.place("g.json")["stages"] == []
        plimsoll.write("g.json", chain(length=1))
        answer = plimsoll.place("g.json")
        assert answer["certificate"]["objective"] == 1
        assert [stage["nodes"] for stage in answer["stages"]] == [["0"]]

    def test_limits(self, plimsoll):
        answer = plimsoll.place("bert-l3-inference", "--effort", "0", code=4)
        assert (answer["status"], answer["stop"]) == ("limit", "effort")
        assert answer["certificate"]["lower_bound"] <= OPTIMA["bert-l3-inference"]
        answer = plimsoll.place("bert-l3-inference", "--time-limit", "1us", code=4)
        assert answer["stop"] == "deadline"
        assert "stopped_at" in answer["provenance"]


class TestGeneral:
    @pytest.mark.parametrize(("name", "best"), [("bert24-training", 39.789539), ("bert-l3-inference", 21.908376)])
    def test_any_placement_is_no_worse_than_a_contiguous_one(self, plimsoll, name, best):
        answer = plimsoll.run("partition", name, "--general", "--effort", "2000000", "--json").document
        assert answer["certificate"]["objective"] <= OPTIMA[name]
        assert answer["certificate"]["objective"] >= best * (1 - 1e-6)
        assert answer["certificate"]["lower_bound"] <= best * (1 + 1e-6)
        again = plimsoll.run("partition", name, "--search", "general", "--effort", "2000000", "--json").document
        assert again["stages"] == answer["stages"]
        plimsoll.write("p.json", answer)
        assert plimsoll.run("check", name, "p.json", "--json").document["violations"] == []
        plimsoll.run("check", name, "p.json", "--contiguous", code=0 if answer["is_contiguous"] else 5)

    def test_flags_that_contradict_each_other(self, plimsoll):
        plimsoll.run("partition", "bert24-training", "--general", "--contiguous", "--json", code=1)
        plimsoll.run("partition", "bert24-training", "--general", "--search", "contiguous", "--json", code=1)


TRACED_FILES = ("dlrm-forward.json", "tiny-attention.pt2", "tiny-attention.onnx", "tiny-conv.pt2", "tiny-conv.onnx")


class TracedModels(Plimsoll):
    def place(self, name, *arguments, code=0):
        return self.run("partition", DATA / "graphs" / name, *arguments, "--json", code=code)


class TestTracedModels:
    @pytest.fixture
    def plimsoll(self, program_path, tmp_path):
        return TracedModels(program_path, tmp_path)

    @pytest.mark.parametrize("name", TRACED_FILES)
    def test_every_format_is_placed_and_judged(self, plimsoll, name):
        answer = plimsoll.place(name, "--on", "2xh100-sxm").document
        assert answer["classes"][0]["count"] == 2
        plimsoll.write("p.json", answer)
        checked = plimsoll.run("check", DATA / "graphs" / name, "p.json", "--json").document
        assert checked["violations"] == []
        again = plimsoll.place(name, "--on", "2xh100-sxm").document
        assert answer == again

    def test_times(self, plimsoll):
        known = plimsoll.place("dlrm-forward.json", "--on", "2xh100-sxm").document
        assert known["classes"][0]["name"] == "h100"
        other = plimsoll.place("dlrm-forward.json", "--on", "2xh100-sxm", "--times", "a100").document
        assert other["certificate"]["objective"] > known["certificate"]["objective"]
        roofline = plimsoll.place("dlrm-forward.json", "--on", "2xh100-sxm", "--times", "roofline").document
        assert roofline["classes"][0]["name"] == "h100-sxm5-80gb"
        floored = plimsoll.place("dlrm-forward.json", "--on", "2xh100-sxm", "--launch-floor", "5us").document
        assert floored["certificate"]["objective"] > known["certificate"]["objective"]
        with_cpu = plimsoll.place("dlrm-forward.json", "--on", "2xh100-sxm", "--devices", "cpu=1").document
        assert [c["name"] for c in with_cpu["classes"]] == ["h100", "cpu"]

    @pytest.mark.parametrize(
        ("name", "arguments", "place"),
        [
            ("dlrm-forward.json", ("--on", "2xh100-sxm", "--times", "v100"), "--times"),
            ("dlrm-forward.json", ("--on", "2xh100-sxm", "--devices", "tpu=1"), "--devices"),
            ("dlrm-forward.json", ("--on", "2xh100-sxm", "--launch-floor", "-1"), "--launch-floor"),
            ("dlrm-forward.json", (), "--on"),
            ("tiny-conv.pt2", ("--on", "2x40GiB"), "--on"),
        ],
    )
    def test_times_that_are_none(self, plimsoll, name, arguments, place):
        assert plimsoll.place(name, *arguments, code=1).error["place"] == place

    def test_measured_costs(self, plimsoll):
        free = plimsoll.place("tiny-conv.pt2", "--on", "2xh100-sxm").document
        name = free["stages"][0]["nodes"][0]
        plimsoll.write("costs.csv", f"node,device_class,time_ms,mem_bytes\n{name},gpu,7.5,\n")
        measured = plimsoll.place(
            "tiny-conv.pt2", "--on", "2xh100-sxm", "--cost-overlay", "costs.csv", "--times", "gpu"
        ).document
        assert measured["certificate"]["objective"] >= 7.5
        assert measured["certificate"]["objective"] < 7.5 + free["certificate"]["objective"]
        assert [w["code"] for w in measured["warnings"]] == ["unmeasured"]  # all others: the roofline's
        plimsoll.write("p.json", measured)
        graph = DATA / "graphs" / "tiny-conv.pt2"
        assert plimsoll.run("check", graph, "p.json", "--json").document["violations"] == []
        error = plimsoll.place(
            "tiny-conv.pt2", "--on", "2x40GiB", "--cost-overlay", "costs.csv", "--times", "gpu", code=1
        ).error
        assert error["code"] == "not_found"  # of nameless devices there is no roofline

    def test_measured_costs_of_a_graph_that_states_its_own(self, plimsoll):
        plimsoll.write("g.json", chain(length=2))
        plimsoll.write("costs.csv", "node,device_class,time_ms,mem_bytes\n1,accelerator,5,\n")
        answer = plimsoll.run("partition", "g.json", "--cost-overlay", "costs.csv", "--json").document
        assert answer["certificate"]["objective"] == 5.5
        plimsoll.write("p.json", answer)
        assert plimsoll.run("check", "g.json", "p.json", "--json").document["is_right"]

    @pytest.mark.parametrize("row", ["2,accelerator,5,", "1,gpu,5,", "1,accelerator,-1,", "1,accelerator,nan,"])
    def test_measured_costs_that_are_none(self, plimsoll, row):
        plimsoll.write("g.json", chain(length=2))
        plimsoll.write("costs.csv", f"node,device_class,time_ms,mem_bytes\n{row}\n")
        error = plimsoll.run("partition", "g.json", "--cost-overlay", "costs.csv", "--json", code=1).error
        assert error["place"] == "costs.csv:2"

    def test_exports(self, plimsoll):
        name = "tiny-attention.pt2"
        graph = DATA / "graphs" / name
        asked = ("partition", graph, "--on", "2xh100-sxm", "--devices", "1")
        callback = json.loads(plimsoll.run(*asked, "--export", "callback").out)
        assert set(callback.values()) == {0}
        assert json.loads(plimsoll.run(*asked, "--export", "device_map").out) == {"": 0}
        assert json.loads(plimsoll.run(*asked, "--export", "split_spec").out) == {}
        dot = plimsoll.run(*asked, "--export", "dot", "-o", "p.json").out
        assert dot.startswith("digraph")
        assert dot == plimsoll.run("convert", graph, "p.json", "--to", "dot").out
        plimsoll.run(*asked, "--export", "dnn_partitioning", code=1)
        plimsoll.run("partition", "bert24-inference", "--export", "dot", code=1)

    def test_the_passes_of_a_joint_graph_are_partitions_of_their_own(self, plimsoll):
        graph = DATA / "graphs" / "gpt2-joint.json"
        callback = json.loads(plimsoll.run("partition", graph, "--on", "2xh100-sxm", "--export", "callback").out)
        assert set(callback.values()) == {0, 1, 2, 3}

    @pytest.mark.parametrize("name", ["tiny-conv.pt2", "tiny-conv.onnx"])
    def test_damaged_archives(self, plimsoll, name):
        whole = (DATA / "graphs" / name).read_bytes()
        for part in (whole[:100], whole[: len(whole) // 2], b""):
            (plimsoll.folder / name).write_bytes(part)
            plimsoll.run("partition", name, "--on", "2xh100-sxm", "--json", code=1)


class CostGraphs(Plimsoll):
    # a, b, c of 4 ms each on a fast class, 6 on a slow one; 2 units travel.
    @staticmethod
    def graph(**more):
        return {
            "classes": [
                {"name": "fast", "count": 2, "memory_cap": 100, "link_rate": 2},
                {"name": "slow", "count": 1, "link_rate": 2},
            ],
            "nodes": [{"name": name, "time_ms": {"fast": 4, "slow": 6}} for name in "abc"],
            "nets": [
                {"producer": "a", "consumers": ["b"], "amount": 2},
                {"producer": "b", "consumers": ["c"], "amount": 2},
            ],
        } | more

    def value(self, content, *arguments, is_proved=True):
        """The objective, after the judge agreed."""
        self.write("g.json", content)
        answer = self.run("partition", "g.json", *arguments, "-o", "p.json", "--json").document
        report = self.run("check", "g.json", "p.json", "--json").document
        assert report["violations"] == []
        if is_proved:
            assert answer["status"] == "optimal"
        assert answer["certificate"]["lower_bound"] <= answer["certificate"]["objective"]
        return answer["certificate"]["objective"]


class TestCostGraphs:
    """plimsoll.cost_graph/1: classes, rates between pairs, weights, pins, all stated."""

    @pytest.fixture
    def plimsoll(self, program_path, tmp_path):
        return CostGraphs(program_path, tmp_path)

    def test_by_hand(self, plimsoll):
        # Middle on one fast device: 4 + 1 + 1; the others 5 and, on the slow one, 7.
        assert plimsoll.value(plimsoll.graph()) == 7
        assert plimsoll.value(plimsoll.graph(), "--devices", "slow=0") == 9  # two together, and one transfer
        slow_pairs = [[0, 1, 2], [1, 0, 2], [2, 2, 0]]  # the two fast ones talk at half the rate
        assert plimsoll.value(plimsoll.graph(pair_rates=slow_pairs)) == 7
        assert (
            plimsoll.value(
                plimsoll.graph(pair_rates=slow_pairs),
                "--forbid",
                "a=slow",
                "--forbid",
                "b=slow",
                "--forbid",
                "c=slow",
                is_proved=False,
            )
            == 10
        )  # bound by each one's fastest rate
        # Two copies of a weight of 60 do not stop three nodes on three devices; of one with its node's 50 they do.
        weights = [{"name": "w", "bytes": 60, "readers": ["a", "b"]}]
        assert plimsoll.value(plimsoll.graph(weights=weights)) == 7
        heavy = [{"name": name, "time_ms": {"fast": 4, "slow": 6}, "memory_bytes": 50} for name in "abc"]
        assert plimsoll.value(plimsoll.graph(weights=weights, nodes=heavy)) == 13  # a and b on the slow one

    @pytest.mark.parametrize(
        "arguments",
        [
            (),
            ("--general",),
            ("--objective", "latency"),
            ("--objective", "pipeline", "--microbatches", "4"),
        ],
    )
    def test_every_objective(self, plimsoll, arguments):
        plimsoll.value(plimsoll.graph(), *arguments, is_proved="--general" not in arguments)

    def test_the_latency_by_hand(self, plimsoll):
        assert plimsoll.value(plimsoll.graph(), "--objective", "latency") == 12

    def test_rules_that_contradict_each_other(self, plimsoll):
        def infeasible(content, *arguments):
            plimsoll.write("g.json", content)
            for more in (
                (),
                ("--general",),
                ("--objective", "latency"),
                ("--objective", "pipeline", "--microbatches", "4"),
            ):
                answer = plimsoll.run("partition", "g.json", *arguments, *more, "--json", code=2).document
                assert answer["status"] == "infeasible"
                assert answer["certificate"]["proof"]
                assert answer["explanation"]["lines"]

        infeasible(plimsoll.graph(), "--pin", "a=0", "--forbid", "a=0")
        infeasible(plimsoll.graph(), "--forbid", "b=fast", "--forbid", "b=slow")
        infeasible(
            plimsoll.graph(
                nodes=[
                    {"name": name, "time_ms": {"fast": 1}, "colour": 1, "pinned_device": i}
                    for i, name in enumerate("abc")
                ]
            )
        )
        infeasible(plimsoll.graph(nodes=[{"name": name, "time_ms": {}} for name in "abc"]))
        infeasible(
            plimsoll.graph(nodes=[{"name": name, "time_ms": {"fast": 1}, "memory_bytes": 101} for name in "abc"])
        )
        infeasible(
            plimsoll.graph(
                nodes=[{"name": name, "time_ms": {"fast": 1}} for name in "abc"],
                weights=[{"bytes": 101, "readers": ["b"]}],
            )
        )

    @pytest.mark.parametrize(
        ("content", "place"),
        [
            (CostGraphs.graph(pair_rates=[[0, 1], [1, 0]]), "g.json#"),
            (CostGraphs.graph(nets=[{"producer": "a", "consumers": ["z"], "amount": 1}]), "g.json#/nets/0/consumers/0"),
            (CostGraphs.graph(classes=[]), "g.json#/nodes/0/time_ms/fast"),
            ({"schema": "plimsoll.cost_graph/1"}, "g.json#"),
            (CostGraphs.graph() | {"schema": "plimsoll.fx_graph/1"}, "g.json"),
        ],
    )
    def test_bad_documents(self, plimsoll, content, place):
        plimsoll.write("g.json", content)
        assert plimsoll.run("partition", "g.json", "--json", code=1).error["place"] == place

    def test_rates_of_devices_that_are_not_there_are_refused(self, plimsoll):
        plimsoll.write("g.json", plimsoll.graph(pair_rates=[[0, 1, 1], [1, 0, 1], [1, 1, 0]]))
        error = plimsoll.run("partition", "g.json", "--devices", "fast=1", "--json", code=1).error
        assert error["place"] == "pair_rates"


class BadInput(Plimsoll):
    def error(self, content, *arguments):
        self.write("g.json", content)
        return self.run("partition", "g.json", *arguments, "--json", code=1).error


class TestBadInput:
    @pytest.fixture
    def plimsoll(self, program_path, tmp_path):
        return BadInput(program_path, tmp_path)

    def test_bad_graphs(self, plimsoll):
        good = chain()

        def changed(**more):
            return good | more

        def with_node(**more):
            return changed(nodes=[good["nodes"][0] | more, *good["nodes"][1:]])

        def with_edge(**more):
            return changed(edges=[good["edges"][0] | more, *good["edges"][1:]])

        for content, code, place in (
            (changed(edges=[*good["edges"], edge(3, 0)]), "conflict", "g.json#/edges"),
            (with_edge(destId=9), "value", "g.json#/edges/0/destId"),
            (with_edge(cost=-1), "value", "g.json#/edges/0/cost"),
            (with_node(fpgaLatency=-1), "value", "g.json#/nodes/0/fpgaLatency"),
            (with_node(size=2**63), "overflow", "g.json#/nodes/0/size"),
            (with_node(size=-1), "value", "g.json#/nodes/0/size"),
            (with_node(size=2**63 - 1), "overflow", "g.json#"),
            (with_node(id=1), "conflict", "g.json#/nodes/1/id"),
            (with_node(weight=1), "schema", "g.json#/nodes/0/weight"),
            (changed(maxFPGAs=0), "value", "g.json#"),
            (json.dumps(with_node(fpgaLatency=math.nan)), "syntax", None),
            (json.dumps(good)[:-20], "syntax", None),
            ("", "schema", "g.json"),
            ([], "schema", "g.json"),
            ({"nodes": []}, "schema", "g.json"),
        ):
            error = plimsoll.error(content)
            assert error["code"] == code, error
            if place is not None:
                assert error["place"] == place

    @pytest.mark.parametrize(
        "line",
        [
            "--devices -1",
            "--devices two",
            "--devices gpu=2",
            "--devices 0",
            "--devices 1 --devices 2",
            "--devices 1048577",
            "--memory -1",
            "--memory nan",
            "--memory 9223372036854775808",
            "--pin 0",
            "--pin 9=0",
            "--pin 0=2",
            "--pin 0=gpu",
            "--pin 0=0 --pin 0=1",
            "--forbid 0=-1",
            "--search contigous",
            "--search torch",
            "--objective fx",
            "--objective speed",
            "--objective fx --search contiguous",
            "--time-limit 0",
            "--tolerance 2",
            "--export png",
        ],
    )
    def test_bad_flags(self, plimsoll, line):
        arguments = line.split()
        assert plimsoll.error(chain(), *arguments)["place"] == arguments[-2]

    def test_a_misspelt_search_has_a_remedy(self, plimsoll):
        assert "contiguous" in plimsoll.error(chain(), "--search", "contigous")["remedy"]

    def test_unknown_names(self, plimsoll):
        error = plimsoll.run("partition", "bert24-inferense", "--json", code=1).error
        assert "bert24-inference" in error["remedy"]
        for name in ("missing.json", "missing.pt2", "missing.onnx", "missing.txt"):
            error = plimsoll.run("partition", name, "--on", "2xh100-sxm", "--json", code=1).error
            assert (error["code"], error["place"]) == ("not_found", name)
        (plimsoll.folder / "folder.pt2").mkdir()
        assert plimsoll.run("partition", "folder.pt2", "--on", "2xh100-sxm", "--json", code=1).error["code"] == "io"


def torch_cases():
    return json.loads((GOLDEN / "graph-partition.json").read_text(encoding="utf-8"))["cases"]


class TestTorch:
    """torch.fx's partitioner: the recorded cases hold what the program must answer."""

    def test_recorded_cases(self, plimsoll):
        num_plans = num_failures = 0
        for case in torch_cases()[::4]:
            expected = case.get("expected_torch_2_13", case["expected"])
            plimsoll.write("g.json", case["input"])
            done = subprocess.run(
                [plimsoll.path, "partition", "g.json", "--json"],
                cwd=plimsoll.folder,
                capture_output=True,
                text=True,
                check=False,
            )
            document = program.parse(done.stdout)
            plimsoll.check_document(document)
            if "error" in expected:
                num_failures += 1
                assert done.returncode in (1, 4)
                said = (document["error"] if done.returncode == 1 else document["failure"])["message"]
                assert said in expected["error"]
                continue
            num_plans += 1
            assert done.returncode == 0
            assert document["objective"] == "fx"
            assert [(s["id"], s["nodes"], s["memory_bytes"], s["devices"]) for s in document["stages"]] == [
                (p["id"], p["nodes"], p["used_mem_bytes"], list(dict.fromkeys(p["logical_device_ids"])))
                for p in expected["partitions"]
            ]
            assert document["node_to_partition"] == expected["node_to_partition"]
            assert [c["submodule"] for c in document["calls"]] == [c["name"] for c in expected["dag"]]
            if "critical_path_latency" in expected:
                assert document["certificate"]["objective"] == pytest.approx(
                    1000 * expected["critical_path_latency"], abs=5e-7
                )
        assert num_plans > 20
        assert num_failures > 3

    def test_modes_and_releases(self, plimsoll):
        case = next(
            c
            for c in torch_cases()
            if c["input"].get("mode") == "cost_aware"
            and c["input"].get("latency")
            and len(c["expected"].get("partitions", [])) > 2
        )
        plimsoll.write("g.json", case["input"])
        asked = plimsoll.run("partition", "g.json", "--json").document
        named = plimsoll.run("partition", "g.json", "--search", "torch_cost_aware", "--json").document
        assert asked["stages"] == named["stages"]
        size = plimsoll.run("partition", "g.json", "--search", "torch_size_based", "--json").document
        assert asked["stages"] != size["stages"]
        assert size["provenance"]["options"] == {"search": "torch_size_based", "variant": "torch-2.13"}
        text = plimsoll.run("partition", "g.json").out
        assert "critical path" in text
        assert "submod_0" in text

        small = case["input"] | {"devices": [{"name": "d", "mem": 1, "id": 0}]}
        plimsoll.write("small.json", small)
        new = plimsoll.run("partition", "small.json", code=4)
        old = plimsoll.run("partition", "small.json", "--variant", "torch-1.13", code=4)
        assert "RuntimeError: Devices do not have enough memory for the module" in new.err
        assert "RuntimeError: Devices have no enough memory for the module" in old.err
        failure = plimsoll.run("partition", "small.json", "--json", code=4).document
        assert (failure["status"], failure["failure"]["kind"]) == ("limit", "RuntimeError")
        plimsoll.run("partition", "small.json", "--variant", "torch-3", "--json", code=1)

    @pytest.mark.parametrize(
        ("arguments", "place"),
        [
            (("--pin", "a=0"), "--pin"),
            (("--devices", "cpu=1"), "--devices"),
            (("--objective", "throughput"), "--objective"),
            (("--search", "contiguous"), "--search"),
        ],
    )
    def test_flags_of_other_searches_are_refused(self, plimsoll, arguments, place):
        case = next(c for c in torch_cases() if len(c["input"]["devices"]) > 1)
        plimsoll.write("g.json", case["input"])
        error = plimsoll.run("partition", "g.json", *arguments, "--json", code=1).error
        assert error["place"] == place

    def test_devices(self, plimsoll):
        case = next(c for c in torch_cases() if len(c["input"]["devices"]) > 1)
        plimsoll.write("g.json", case["input"])
        answer = plimsoll.run("partition", "g.json", "--devices", "1", "--memory", "1GiB", "--json").document
        assert [s["devices"] for s in answer["stages"]] == [[0]]
        assert answer["stages"][0]["memory_cap"] == 1 << 30
        answer = plimsoll.run("partition", "g.json", "--on", "2x40GiB", "--json").document
        assert answer["stages"][0]["memory_cap"] == 40 << 30


class TestOtherObjectives:
    def test_latency_is_placed_and_judged(self, plimsoll):
        document = plimsoll.run(
            "partition", "bert24-inference", "--objective", "latency", "-o", "p.json", "--json"
        ).document
        assert (document["objective"], document["status"]) == ("latency", "optimal")
        assert document["certificate"]["objective"] == pytest.approx(92.411, abs=0.01)  # all on one accelerator
        assert plimsoll.run("check", "bert24-inference", "p.json", "--json").document["is_right"]
        document["certificate"]["objective"] *= 0.9
        document["certificate"].pop("lower_bound")
        document["certificate"].pop("gap")
        plimsoll.write("wrong.json", document)
        codes = [
            v["code"]
            for v in plimsoll.run("check", "bert24-inference", "wrong.json", "--json", code=5).document["violations"]
        ]
        assert codes == ["latency_mismatch"]

    def test_our_critical_path_is_never_longer_than_torchs(self, plimsoll):
        num_better = 0
        for case in torch_cases():
            if case["input"].get("mode") != "cost_aware" or "error" in case["expected"]:
                continue
            if not case["input"].get("latency"):
                continue
            plimsoll.write("g.json", case["input"])
            theirs = plimsoll.run("partition", "g.json", "--json").document["certificate"]["objective"]
            ours = plimsoll.run("partition", "g.json", "--objective", "fx", "--json").document
            assert ours["provenance"]["options"]["search"] == "critical_path"
            assert ours["certificate"]["objective"] <= theirs * (1 + 1e-9)
            assert ours["certificate"]["lower_bound"] <= ours["certificate"]["objective"]
            num_better += ours["certificate"]["objective"] < theirs * (1 - 1e-9)
        assert num_better > 0


# Four operators of 1, 1, 1 and 3 ms, nothing to agree on.
PROFILE = "".join(
    f"node{i} -- Linear({i}) -- forward_compute_time={ms}, backward_compute_time=0, activation_size=8, "
    "parameter_size=0\n"
    for i, ms in enumerate((1, 1, 1, 3))
) + "".join(f"\tnode{i} -- node{i + 1}\n" for i in range(3))


class Pipelines(Plimsoll):
    def __init__(self, path, folder):
        super().__init__(path, folder)
        self.write("graph.txt", PROFILE)

    def plan(self, *arguments, code=0):
        return self.run("partition", "graph.txt", *arguments, "--json", code=code).document


class TestPipelines:
    """Profiles whose stages may be replicated."""

    @pytest.fixture
    def plimsoll(self, program_path, tmp_path):
        return Pipelines(program_path, tmp_path)

    def test_a_plan_records_the_limits_of_its_search(self, plimsoll):
        plan = plimsoll.plan("--devices", "3", "--effort", "1000", "--tolerance", "0.01")
        assert plan["provenance"]["options"]["effort"] == "1000"
        assert plan["provenance"]["options"]["tolerance"] == "0.01"
        plimsoll.write("p.json", plan)
        assert plimsoll.run("check", "graph.txt", "p.json", "--json").document["certificate_status"] == "proved"
        assert plimsoll.plan("--devices", "3")["provenance"]["options"].keys().isdisjoint({"effort", "tolerance"})
        plan["provenance"]["options"]["effort"] = "many"
        plimsoll.write("p.json", plan)
        checked = plimsoll.run("check", "graph.txt", "p.json", "--json", code=5).document
        assert "provenance/options/effort: no planner records 'many'" in str(checked["violations"])
        plan["provenance"]["options"] |= {"effort": "1000", "variant": "torch-2.13"}  # of torch.fx's alone
        plimsoll.write("p.json", plan)
        checked = plimsoll.run("check", "graph.txt", "p.json", "--json", code=5).document
        assert "provenance/options/variant: no planner records 'torch-2.13'" in str(checked["violations"])

    @pytest.mark.parametrize("command", [("partition",), ("checkpoint",), ("shard", "--on", "2x4GiB")])
    def test_a_file_that_cannot_be_written_is_told_before_anything_is_read(self, plimsoll, command):
        error = plimsoll.run(*command, "nothing.json", "-o", "missing/p.json", "--json", code=1).error
        assert error["place"] == "missing/p.json"

    @pytest.mark.parametrize(
        ("arguments", "value"),
        [
            (("--devices", "3"), 2),
            (("--devices", "3", "--straight"), 3),
            (("--devices", "2", "--straight"), 3),
            (("--devices", "1"), 6),
            (("--devices", "3", "--search", "pipedream"), 2),
            (("--devices", "3", "--objective", "pipeline", "--microbatches", "12"), 2 + 11 * 2),
        ],
    )
    def test_stages_are_replicated_unless_straight(self, plimsoll, arguments, value):
        answer = plimsoll.plan(*arguments, "-o", "p.json")
        assert answer["certificate"]["objective"] == pytest.approx(value, abs=1e-9)
        report = plimsoll.run("check", "graph.txt", "p.json", "--json").document
        assert report["is_right"]

    def test_the_text_names_the_slowest_stage(self, plimsoll):
        assert "  slowest stage  2 ms " in plimsoll.run("partition", "graph.txt", "--devices", "3").out

    def test_an_edited_plan_is_found_out(self, plimsoll):
        answer = plimsoll.plan("--devices", "2", "--straight")
        answer["slowest_ms"] = 2.5
        plimsoll.write("p.json", answer)
        report = plimsoll.run("check", "graph.txt", "p.json", "--json", code=5).document
        assert [v["code"] for v in report["violations"]] == ["value_mismatch"]

    def test_the_profile_is_written_with_its_stages(self, plimsoll):
        text = plimsoll.run("partition", "graph.txt", "--devices", "2", "--straight", "--export", "pipedream").out
        assert [line.rsplit("stage_id=", 1)[1] for line in text.splitlines() if "stage_id=" in line] == [
            "0",
            "0",
            "0",
            "1",
        ]

    def test_plans_of_other_programs_are_judged_and_converted(self, plimsoll):
        plimsoll.run("partition", "graph.txt", "--devices", "2", "--straight", "-o", "p.json")
        staged = plimsoll.run("convert", "graph.txt", "p.json", "--to", "pipedream").out
        plimsoll.write("staged.txt", staged)
        report = plimsoll.run("check", "graph.txt", "staged.txt", "--json").document
        assert (report["violations"], report["num_devices"]) == ([], 2)
        assert report["slowest_ms"] == pytest.approx(3, abs=5e-8)
        ours = plimsoll.run("convert", "graph.txt", "staged.txt", "--to", "plimsoll", "--json").document
        assert ours["stages"] == json.loads(plimsoll.read("p.json"))["stages"]
        plimsoll.write("staged.txt", staged.replace("stage_id=1", "stage_id=7").replace("stage_id=0", "stage_id=9"))
        codes = [
            v["code"] for v in plimsoll.run("check", "graph.txt", "staged.txt", "--json", code=5).document["violations"]
        ]
        assert codes == ["backward_edge", "too_many_devices"][: len(codes)]
        plimsoll.run("check", "graph.txt", "staged.txt", "--devices", "1", code=5)
        plimsoll.write("staged.txt", staged.replace(" -- stage_id=1", ""))
        error = plimsoll.run("check", "graph.txt", "staged.txt", "--json", code=1).error
        assert "'node3' has no stage" in error["message"]
        plimsoll.run("convert", "graph.txt", "p.json", "--to", "piper", code=1)
        assert plimsoll.run("check", "bert24-inference", "staged.txt", "--json", code=1).error["code"] == "usage"

    def test_pipers_plans_are_judged_and_converted(self, plimsoll):
        def entry(i):
            return {
                "id": 10 + i,
                "TMPCs": {
                    "1": [
                        {
                            "id": "vanilla",
                            "timePerSample": 1e-3,
                            "parameterSize": 0,
                            "memoryUsageA": 10,
                            "memoryUsageB": 0,
                            "syncTimeFw": {str(9 + i): 0} if i else {},
                            "syncTimeBw": {str(11 + i): 0} if i < 3 else {},
                        }
                    ]
                },
            }

        plimsoll.write(
            "g.json",
            {
                "maxMemoryPerDevice": 100,
                "maxDevices": 2,
                "bandwidth": 1,
                "mbsInBatch": 8,
                "nodes": [entry(i) for i in range(4)],
                "edges": [{"sourceId": 10 + i, "destId": 11 + i, "communicationCost": 0} for i in range(3)],
            },
        )
        stages = plimsoll.run("partition", "g.json", "--straight", "--export", "piper", "-o", "p.json").out
        plimsoll.write("stages.json", stages)
        report = plimsoll.run("check", "g.json", "stages.json", "--json").document
        assert report["violations"] == []
        assert report["slowest_ms"] == pytest.approx(2, abs=5e-8)
        assert plimsoll.run("convert", "g.json", "p.json", "--to", "piper").out == stages
        ours = plimsoll.run("convert", "g.json", "stages.json", "--to", "plimsoll", "--json").document
        assert ours["stages"] == json.loads(plimsoll.read("p.json"))["stages"]
        # Four operators of 10 bytes a microbatch, two of them in flight in the first stage: 40 bytes.
        plimsoll.run("check", "g.json", "stages.json", "--memory", "40B")
        codes = [
            v["code"]
            for v in plimsoll.run("check", "g.json", "stages.json", "--memory", "39B", "--json", code=5).document[
                "violations"
            ]
        ]
        assert codes == ["over_memory"]
        wrong = json.loads(stages)
        wrong["stages"][0]["nodes"].append(99)
        plimsoll.write("stages.json", wrong)
        assert (
            plimsoll.run("check", "g.json", "stages.json", "--json", code=1).error["place"]
            == "stages.json#/stages/0/nodes/2"
        )

    @pytest.mark.parametrize(
        ("arguments", "place"),
        [
            ((), "--devices"),
            (("--devices", "0"), "--devices"),
            (("--devices", "cpu=2"), "--devices"),
            (("--devices", "2", "--general"), "--general"),
            (("--devices", "2", "--objective", "latency"), "--objective"),
            (("--devices", "2", "--objective", "pipeline"), "--microbatches"),
            (("--devices", "2", "--bandwidth", "-1"), "--bandwidth"),
            (("--devices", "2", "--search", "contiguous"), "--search"),
            (("--devices", "2", "--pin", "node0=0"), "--pin"),
        ],
    )
    def test_bad_usage(self, plimsoll, arguments, place):
        assert plimsoll.plan(*arguments, code=1)["error"]["place"] == place

    def test_straight_wants_a_profile(self, plimsoll):
        error = plimsoll.run("partition", "bert24-inference", "--straight", "--json", code=1).error
        assert error["place"] == "--straight"


class Batches(Plimsoll):
    # n microbatches on accelerators of 1 ms a node, links free: d replicas of everything take n * 4 / d.
    def place(self, *arguments, code=0):
        answer = self.run("partition", *arguments, "--objective", "pipeline", "--json", code=code).document
        if code == 0:
            self.write("p.json", answer)
            report = self.run("check", arguments[0], "p.json", "--json").document
            assert report["violations"] == []
            assert report["batch_ms"] == pytest.approx(answer["certificate"]["objective"], abs=1e-9)
        return answer


class TestBatches:
    """Objective pipeline of graphs that are not profiles."""

    @pytest.fixture
    def plimsoll(self, program_path, tmp_path):
        return Batches(program_path, tmp_path)

    @pytest.mark.parametrize("name", ["g.json", "bert24-inference", "bert24-training"])
    def test_every_cost_graph_is_planned_and_judged(self, plimsoll, name):
        plimsoll.write("g.json", chain())
        answer = plimsoll.place(name, "--microbatches", "8")
        assert (answer["objective"], answer["status"]) == ("pipeline", "optimal")
        assert answer["provenance"]["options"]["microbatches"] == "8"

    @pytest.mark.parametrize("name", TRACED_FILES)
    def test_every_format_is_planned_and_judged(self, plimsoll, name):
        answer = plimsoll.place(DATA / "graphs" / name, "--on", "2xh100-sxm", "--microbatches", "8")
        assert answer["status"] in ("optimal", "feasible")
        assert answer["certificate"]["lower_bound"] > 0

    @pytest.mark.parametrize(
        ("arguments", "value", "devices"),
        [
            (("--microbatches", "8"), 8 * 2, [[0, 1]]),
            (("--microbatches", "8", "--straight"), 2 * 2 + 7 * 2, [[0], [1]]),
            (("--microbatches", "3"), 2 * 2 + 2 * 2, [[0], [1]]),
        ],
    )
    def test_batches_by_hand(self, plimsoll, arguments, value, devices):
        plimsoll.write("g.json", graph([node(i) for i in range(4)], [edge(i, i + 1, cost=0) for i in range(3)]))
        answer = plimsoll.place("g.json", *arguments)
        assert answer["certificate"]["objective"] == pytest.approx(value, abs=1e-9)
        assert [stage["devices"] for stage in answer["stages"]] == devices

    def test_the_text_names_batches(self, plimsoll):
        plimsoll.write("g.json", graph([node(i) for i in range(4)], [edge(i, i + 1, cost=0) for i in range(3)]))
        text = plimsoll.run("partition", "g.json", "--objective", "pipeline", "--microbatches", "8").out
        assert "  one batch      16 ms" in text
        assert "in flight" in text

    def test_an_edited_plan_is_found_out(self, plimsoll):
        good = plimsoll.place("bert24-training", "--microbatches", "8", "--straight")

        def codes(edit, *flags):
            edited = json.loads(json.dumps(good))
            edit(edited)
            plimsoll.write("edited.json", edited)
            answer = plimsoll.run("check", "bert24-training", "edited.json", *flags, "--json", code=5).document
            return {violation["code"] for violation in answer["violations"]}

        def claim(plan):
            plan["certificate"] = {"objective": 1.0, "proof": ""}

        assert codes(claim) == {"batch_mismatch"}
        assert "not_contiguous" in codes(lambda p: p["stages"].reverse())
        assert "device_twice" in codes(lambda p: p["stages"][1].update(devices=p["stages"][0]["devices"]))
        assert "empty_stage" in codes(lambda p: p["stages"][1].update(devices=[]))
        assert "unpriced_replicas" in codes(lambda p: p["stages"][0]["devices"].append(7), "--devices", "8")
        assert "not_placed" in codes(lambda p: p["stages"][0]["nodes"].pop())
        assert codes(lambda p: p["stages"][0].update(in_flight=77)) == {"in_flight_mismatch"}
        assert codes(lambda p: p["stages"][0].update(sync_ms=7)) == {"time_mismatch"}
        assert "over_memory" in codes(lambda p: None, "--memory", "1MiB")

    @pytest.mark.parametrize(
        ("arguments", "place"),
        [
            (("bert24-inference",), "--microbatches"),
            (("bert24-inference", "--microbatches", "8", "--general"), "--search"),
            (("bert24-inference", "--microbatches", "8", "--bandwidth", "1GB/s"), "--bandwidth"),
            (("bert24-inference", "--microbatches", "0"), "--microbatches"),
        ],
    )
    def test_bad_usage(self, plimsoll, arguments, place):
        assert plimsoll.place(*arguments, code=1)["error"]["place"] == place

    def test_microbatches_want_a_pipeline(self, plimsoll):
        error = plimsoll.run("partition", "bert24-inference", "--microbatches", "8", "--json", code=1).error
        assert error["place"] == "--microbatches"

    def test_a_stopped_search_stops_there_again(self, plimsoll):
        search = ("partition", "bert-l3-inference", "--objective", "pipeline", "--microbatches", "6")
        first = plimsoll.run_cut(*search).document
        effort = first["provenance"]["stopped_at"]
        again = plimsoll.run(*search, "--effort", effort, "--json", code=None).document
        assert first["stages"] == again["stages"]


class Advice(Plimsoll):
    def lines(self, *arguments):
        answer = self.run("partition", *arguments, "--json", code=2).document
        return answer["explanation"], answer["explanation"]["lines"][-1]

    def classes(self, caps, *arguments, code=2):
        """Two nodes that run on one class each, of 100 and 50 bytes."""
        graph = {
            "schema": "plimsoll.cost_graph/1",
            "classes": [
                {"name": "big", "count": 1, "memory_cap": caps[0]},
                {"name": "small", "count": 1, "memory_cap": caps[1]},
            ],
            "nodes": [
                {"name": "a", "time_ms": {"big": 1}, "memory_bytes": 100},
                {"name": "b", "time_ms": {"small": 1}, "memory_bytes": 50},
            ],
            "nets": [{"producer": "a", "consumers": ["b"], "amount": 1}],
        }
        self.write("g.json", graph)
        return self.run("partition", "g.json", *arguments, "--json", code=code).document


class TestAdvice:
    """What would fit, where nothing does."""

    @pytest.fixture
    def plimsoll(self, program_path, tmp_path):
        return Advice(program_path, tmp_path)

    @pytest.mark.parametrize("more", [(), ("--objective", "pipeline", "--microbatches", "2")])
    def test_the_smallest_memory_is_named_and_right(self, plimsoll, more):
        # Eight nodes of 10 bytes in a line on three devices: 30 bytes hold 3 of them.
        plimsoll.write("g.json", chain(length=8, accelerators=3))
        explanation, line = plimsoll.lines("g.json", "--memory", "29B", *more)
        assert (explanation["binding"], explanation["missing"]) == ("memory", 1)
        assert "30 bytes" in line
        assert "1 more than now; one byte less would not (proved)" in line
        plimsoll.run("partition", "g.json", "--memory", "30B", *more)

    def test_what_is_not_proved_is_a_note(self, plimsoll):
        # Nobody packs 35 pieces of 10 bytes into three devices of 119, but no bound says so.
        plimsoll.write("g.json", chain(length=35, accelerators=3))
        answer = plimsoll.run("partition", "g.json", "--memory", "119B", "--general", "--effort", "300000", code=4)
        assert "note: 120 bytes" in answer.err
        plimsoll.run("partition", "g.json", "--memory", "120B", "--general", "--effort", "300000")

    def test_small_placements_are_searched_to_the_end(self, plimsoll):
        plimsoll.write("g.json", chain(length=8, accelerators=3))
        explanation, line = plimsoll.lines("g.json", "--memory", "29B", "--general")
        assert (explanation["binding"], explanation["missing"]) == ("memory", 1)
        assert "1 more than now; one byte less would not (proved)" in line
        answer = plimsoll.run("partition", "g.json", "--memory", "30B", "--general", "--json").document
        assert answer["status"] == "optimal"

    @pytest.mark.parametrize(
        "more",
        [
            (),
            ("--general",),
            ("--objective", "latency"),
            ("--objective", "pipeline", "--microbatches", "2"),
        ],
    )
    def test_one_byte_of_one_node(self, plimsoll, more):
        plimsoll.write("g.json", chain(length=1, size=100, accelerators=1))
        explanation, line = plimsoll.lines("g.json", "--memory", "99B", *more)
        assert (explanation["binding"], explanation["missing"]) == ("memory", 1)
        assert "100 bytes" in line
        assert "one byte less would not (proved)" in line

    def test_a_profile_says_it_too(self, plimsoll):
        # Four operators of 10 bytes a microbatch on two devices, one behind the other: {0} holds two
        # microbatches in flight, {1 2 3} one; or {0 1 2 3} holds one.
        def entry(i):
            return {
                "id": i,
                "TMPCs": {
                    "1": [
                        {
                            "id": "vanilla",
                            "timePerSample": 1,
                            "parameterSize": 0,
                            "memoryUsageA": 10,
                            "memoryUsageB": 0,
                            "syncTimeFw": {str(i - 1): 0} if i else {},
                            "syncTimeBw": {str(i + 1): 0} if i < 3 else {},
                        }
                    ]
                },
            }

        plimsoll.write(
            "g.json",
            {
                "maxMemoryPerDevice": 29,
                "maxDevices": 2,
                "bandwidth": 1,
                "mbsInBatch": 8,
                "nodes": [entry(i) for i in range(4)],
                "edges": [{"sourceId": i, "destId": i + 1, "communicationCost": 0} for i in range(3)],
            },
        )
        explanation, line = plimsoll.lines("g.json")
        assert (explanation["binding"], explanation["missing"]) == ("memory", 1)
        assert "30 bytes" in line
        plimsoll.run("partition", "g.json", "--memory", "30B")

    def test_the_class_that_lacks_memory_is_named_and_several_are(self, plimsoll):
        answer = plimsoll.classes((100, 43))
        assert answer["explanation"]["missing"] == 7
        assert "try --memory small=50B" in answer["explanation"]["lines"][-1]
        plimsoll.classes((100, 43), "--memory", "small=50B", code=0)
        # Neither class alone is enough: the first lacks 30, the second 7.
        answer = plimsoll.classes((70, 43))
        assert answer["explanation"]["missing"] == 30
        assert "30 bytes" in answer["explanation"]["lines"][-1]
        assert "one class alone would not" in answer["explanation"]["lines"][-1]
        plimsoll.classes((100, 73), code=0)
        plimsoll.classes((99, 72), code=2)

    def test_pins_are_named_where_they_are_the_cause(self, plimsoll):
        plimsoll.write("g.json", chain(length=4, accelerators=2))
        pins = ("--memory", "20B", "--pin", "0=0", "--pin", "1=0", "--pin", "2=0")
        lines = plimsoll.run("partition", "g.json", *pins, "--json", code=2).document["explanation"]["lines"]
        named = [line for line in lines if "pinned or forbidden devices are the cause" in line]
        assert len(named) == 1
        assert named[0].count(",") == 0  # one of the three may go
        plimsoll.run("partition", "g.json", *pins[:-2])
        plimsoll.write("g.json", chain(length=5, accelerators=2))
        lines = plimsoll.run("partition", "g.json", *pins, "--json", code=2).document["explanation"]["lines"]
        assert not [line for line in lines if "the cause" in line]

    def test_what_is_missing_is_what_every_device_needs(self, plimsoll):
        # Five nodes of 10 on four devices of 12: together they lack 2, but one must hold two nodes.
        plimsoll.write("g.json", chain(length=5, accelerators=4))
        explanation, line = plimsoll.lines("g.json", "--memory", "12B")
        assert explanation["missing"] == 8
        assert "try --memory accelerator=20B" in line
        plimsoll.run("partition", "g.json", "--memory", "accelerator=20B")
        plimsoll.run("partition", "g.json", "--memory", "19B", code=2)

    def test_torchs_graphs_say_it_too(self, plimsoll):
        plimsoll.write(
            "g.json",
            {
                "nodes": [
                    {"name": "a", "op": "call_function", "args": [], "output_size": 4, "total_size": 4},
                    {"name": "output", "op": "output", "args": ["a"]},
                ],
                "devices": [{"name": "d", "mem": 3, "id": 0}],
                "mode": "cost_aware",
                "latency": {"a": [1, 1]},
                "transfer_rate": 1,
            },
        )
        explanation, line = plimsoll.lines("g.json", "--objective", "fx")
        assert (explanation["binding"], explanation["missing"]) == ("memory", 1)
        assert "4 bytes" in line


class ClassesOfTracedModels(Plimsoll):
    def place(self, *arguments, code=0):
        return self.run("partition", DATA / "graphs" / "dlrm-forward.json", *arguments, "--json", code=code)


class TestClassesOfTracedModels:
    @pytest.fixture
    def plimsoll(self, program_path, tmp_path):
        return ClassesOfTracedModels(program_path, tmp_path)

    def test_devices_of_the_class_that_the_costs_name(self, plimsoll):
        by_preset = plimsoll.place("--on", "2xh100-sxm").document
        by_class = plimsoll.place("--devices", "h100=2").document
        assert by_class["stages"] == by_preset["stages"]
        assert by_class["classes"] == by_preset["classes"]
        assert plimsoll.place("--devices", "2", "--times", "h100").document["stages"] == by_preset["stages"]
        plimsoll.write("p.json", by_class)
        checked = plimsoll.run("check", DATA / "graphs" / "dlrm-forward.json", "p.json", "--json").document
        assert checked["violations"] == []

    def test_what_is_not_clear_names_the_remedy(self, plimsoll):
        error = plimsoll.place("--devices", "2", code=1).error
        assert error["place"] == "--devices"
        assert "a100, h100" in error["message"]
        assert "--devices h100=" in error["remedy"]
        error = plimsoll.place("--devices", "tpu=2", code=1).error
        assert "--on" in error["remedy"]
        error = plimsoll.place(code=1).error
        assert "--devices h100=4" in error["remedy"]
        error = plimsoll.run("partition", DATA / "graphs" / "tiny-conv.pt2", "--devices", "2", "--json", code=1).error
        assert "--on" in error["remedy"]


class TestTorchResults:
    """Partition results of torch's, judged and converted."""

    def test_recorded_results_are_judged(self, plimsoll):
        num_right = num_wrong = 0
        for case in torch_cases()[::3]:
            if "error" in case["expected"]:
                continue
            plimsoll.write("g.json", case["input"])
            plimsoll.write("r.json", case["expected"])
            done = subprocess.run(
                [plimsoll.path, "check", "g.json", "r.json", "--json"],
                cwd=plimsoll.folder,
                capture_output=True,
                text=True,
                check=False,
            )
            document = program.parse(done.stdout)
            plimsoll.check_document(document)
            assert done.returncode == (0 if document["is_right"] else 5), done.stdout
            codes = {violation["code"] for violation in document["violations"]}
            # What torch does wrong: no memory check under aot_based, a mapping that kl_based left
            # behind, partitions that wait for each other.
            assert codes <= {"over_memory", "mapping_mismatch", "path_mismatch", "partitions_wait", "missing_source"}
            num_right += document["is_right"]
            num_wrong += not document["is_right"]
            if not document["is_right"]:
                refused = plimsoll.run("convert", "g.json", "r.json", "--to", "plimsoll", "--json", code=1)
                assert refused.error["code"] == "conflict"
            ours = plimsoll.run("convert", "g.json", "r.json", "--to", "plimsoll", "--force", "--json").document
            plimsoll.write("ours.json", ours)
            again = subprocess.run(
                [plimsoll.path, "check", "g.json", "ours.json", "--json"],
                cwd=plimsoll.folder,
                capture_output=True,
                text=True,
                check=False,
            )
            assert program.parse(again.stdout)["violations"] == document["violations"]
            callback = json.loads(plimsoll.run("convert", "g.json", "r.json", "--to", "callback", "--force").out)
            assert callback == {
                name: number for name, number in case["expected"]["node_to_partition"].items() if name in callback
            }
        assert num_right > 20

    def test_our_own_answers_are_judged(self, plimsoll):
        case = next(
            c for c in torch_cases() if c["input"].get("latency") and len(c["expected"].get("partitions", [])) > 2
        )
        plimsoll.write("g.json", case["input"])
        answer = plimsoll.run("partition", "g.json", "--objective", "fx", "--json").document
        plimsoll.write("p.json", answer)
        judged = plimsoll.run("check", "g.json", "p.json", "--json").document
        assert judged["critical_path_ms"] == pytest.approx(answer["certificate"]["objective"], abs=5e-7)
        assert "critical path" in plimsoll.run("check", "g.json", "p.json").out

        def codes(edit):
            edited = json.loads(json.dumps(answer))
            edit(edited)
            plimsoll.write("edited.json", edited)
            report = plimsoll.run("check", "g.json", "edited.json", "--json", code=5).document
            return {violation["code"] for violation in report["violations"]}

        def claim(placement):
            placement["certificate"] = {"objective": 1e-3, "proof": ""}

        assert codes(claim) == {"path_mismatch"}
        assert "unknown_device" in codes(lambda p: p["stages"][0].update(devices=[99]))
        assert "not_placed" in codes(lambda p: p["stages"][0].update(nodes=[]))
        assert "mapping_mismatch" in codes(lambda p: p["stages"][0].update(id=55))

    @pytest.mark.parametrize(
        ("result", "place"),
        [
            ({"partitions": 1}, "r.json#/partitions"),
            ({"partitions": [{"id": "x"}]}, "r.json#/partitions/0/id"),
            ({"partitions": [{"id": 0, "nodes": ["nobody"], "logical_device_ids": [0]}]}, "r.json#/stages/0/nodes"),
            (
                {"partitions": [{"id": 0, "nodes": [], "logical_device_ids": [0.5]}]},
                "r.json#/partitions/0/logical_device_ids/0",
            ),
            ({"partitions": [], "node_to_partition": {"a": "b"}}, "r.json#/node_to_partition"),
        ],
    )
    def test_results_of_another_graph_are_refused(self, plimsoll, result, place):
        case = next(c for c in torch_cases() if "error" not in c["expected"])
        plimsoll.write("g.json", case["input"])
        plimsoll.write("r.json", result)
        assert plimsoll.run("check", "g.json", "r.json", "--json", code=1).error["place"] == place

    def test_another_graph_has_a_remedy(self, plimsoll):
        case = next(c for c in torch_cases() if "error" not in c["expected"])
        plimsoll.write("g.json", case["input"])
        plimsoll.write("r.json", case["expected"])
        error = plimsoll.run("check", "bert24-inference", "r.json", "--json", code=1).error
        assert error["remedy"] == "give the graph that they partition"
        plimsoll.run("partition", "bert24-inference", "-o", "p.json")
        error = plimsoll.run("check", "g.json", "p.json", "--json", code=1).error
        assert error["remedy"] == "give the graph that it places"


class TestNamesOfFormats:
    def test_two_names_that_are_easily_mixed_up(self, plimsoll):
        traced = json.loads((DATA / "graphs" / "dlrm-forward.json").read_text(encoding="utf-8"))
        case = next(c for c in torch_cases() if "error" not in c["expected"])
        plimsoll.write("g.json", traced | {"format": "plimsoll.fx_graph/1"})
        error = plimsoll.run("partition", "g.json", "--on", "2xh100-sxm", "--json", code=1).error
        assert '"format": "plimsoll-fx-graph"' in error["remedy"]
        plimsoll.write("g.json", {"schema": "plimsoll-fx-graph"} | case["input"])
        error = plimsoll.run("partition", "g.json", "--json", code=1).error
        assert '"schema": "plimsoll.fx_graph/1"' in error["remedy"]
        plimsoll.write("g.json", {"format": "plimsoll-fx-graph"})
        assert plimsoll.run("partition", "g.json", "--on", "2xh100-sxm", "--json", code=1).error["code"] == "schema"


class TestInterrupt:
    def test_ctrl_c_returns_the_best_placement_so_far(self, plimsoll, terminal):
        # Four independent chains: their pairs of downsets take many seconds.
        chains = [(c, i) for c in range(4) for i in range(22)]
        number = {key: n for n, key in enumerate(chains)}
        big = graph(
            [node(number[c, i], accelerator=1 + 0.1 * ((7 * c + 3 * i) % 11)) for c, i in chains],
            [edge(number[c, i], number[c, i + 1], cost=0.15 * (1 + (5 * c + 3 * i) % 7)) for c, i in chains if i < 21],
            accelerators=7,
            memory=10**6,
        )
        plimsoll.write("g.json", big)
        document, _ = plimsoll.interrupt(terminal, "partition", "g.json", told=rb"effort \d+: [\d.]+ ms")
        assert document["certificate"]["gap"] > 0
        assert "stopped_at" in document["provenance"]
