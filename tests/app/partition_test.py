"""plimsoll partition, and check and convert of its placements: graphs, devices, searches, exit codes, bad input."""

import json
import math
import pathlib
import signal
import subprocess
import time

import program
from program import ProgramTest

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
GOLDEN = DATA / "golden"
GRAPHS = ("bert-l3-inference", "bert24-inference", "bert24-training")
# The contiguous optima of the placement benchmark's graphs that come along, in ms.
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


class Placements(ProgramTest):
    def place(self, *arguments, code=0):
        return self.run_program("partition", *arguments, "--json", code=code).document

    def test_real_graphs_reach_their_known_optima(self):
        for name, optimum in OPTIMA.items():
            with self.subTest(name):
                answer = self.place(name)
                self.assertEqual(answer["status"], "optimal")
                self.assertTrue(answer["is_contiguous"])
                self.assertAlmostEqual(answer["certificate"]["objective"], optimum, delta=1e-6 * optimum)
                self.assertLessEqual(answer["certificate"]["gap"], 1e-6)
                loads = [stage["load_ms"] for stage in answer["stages"]]
                self.assertEqual(max(loads), answer["certificate"]["objective"])

    def test_the_text_says_what_the_document_says(self):
        text = self.run_program("partition", "bert24-inference").out
        self.assertIn("6 x accelerator of 16.005 GiB, 1 x cpu", text)
        self.assertRegex(text, r"(?m)^optimal  .*, \d+\.\d{3} s$")
        self.assertIn("largest load 17.7899 ms, on device 4; none is below 17.7899 ms (gap 0 %)", text)
        self.assertIn("6 values move between devices", text)
        self.assertNotIn("stage 0:", text)
        self.assertIn("\nstage 0: 1 3 2 5 4 6 7 8\n", self.run_program("partition", "bert24-inference", "-v").out)

    def test_the_same_bytes_twice(self):
        for name in GRAPHS:
            first = self.run_program("partition", name, "--json").out
            self.assertEqual(first, self.run_program("partition", name, "--json").out)
            self.run_program("partition", name, "-o", "p.json")
            self.assertEqual(first, self.read("p.json"))
            self.assertEqual(first, self.run_program("partition", name, "-o", "-").out)

    def test_standard_input(self):
        text = self.run_program("models", "bert24-inference").out
        answer = self.run_program("partition", "-", "--json", stdin=text).document
        self.assertEqual(answer, self.place("bert24-inference"))

    def test_devices_and_memory(self):
        four = self.place("bert24-inference", "--devices", "4")
        self.assertEqual([c["count"] for c in four["classes"]], [4, 1])
        self.assertGreater(four["certificate"]["objective"], OPTIMA["bert24-inference"])
        self.assertEqual(four["provenance"]["options"], {"devices": "4", "search": "contiguous"})
        some = self.place(
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
        self.assertEqual(
            some["classes"],
            [
                {"name": "accelerator", "count": 4, "memory_cap": 1 << 30, "link_rate": 1.0},
                {"name": "cpu", "count": 0, "memory_cap": 2 << 30},
            ],
        )

    def test_hardware(self):
        answer = self.run_program("partition", "bert24-inference", "--on", "4xh100-sxm", "--json")
        self.assertEqual(
            answer.document["classes"][0],
            {"name": "accelerator", "count": 4, "memory_cap": 80 * 10**9, "link_rate": 1.0},
        )
        self.assertEqual([w["code"] for w in answer.document["warnings"]], ["measured_costs"])
        self.assertIn("warning: --on", answer.err)
        self.write("topology.json", {"world_size": 2, "hbm_cap": "5 GiB"})
        two = self.place("bert24-inference", "--on", "topology.json")["classes"][0]
        self.assertEqual((two["count"], two["memory_cap"]), (2, 5 << 30))
        three = self.place("bert24-inference", "--on", "topology.json", "--devices", "3")["classes"][0]
        self.assertEqual((three["count"], three["memory_cap"]), (3, 5 << 30))
        self.write("topology.json", {"world_size": 2, "hbm_caps": [1, 2]})
        for arguments in (("topology.json",), ("4xh1000",), ("cpu-server-none:2",)):
            self.assertEqual(
                self.run_program("partition", "bert24-inference", "--on", *arguments, "--json", code=1).error["place"],
                "--on",
            )

    def test_pins_and_forbidden_devices(self):
        self.write("g.json", chain())
        pinned = self.place("g.json", "--pin", "0=1")
        self.assertEqual([stage["devices"] for stage in pinned["stages"]], [[1], [0]])
        self.assertEqual(pinned["stages"][0]["nodes"], ["0", "1"])
        forbidden = self.place("g.json", "--forbid", "0=0", "--forbid", "3=1")
        self.assertEqual([stage["devices"] for stage in forbidden["stages"]], [[1], [0]])
        self.write("g.json", chain(cpus=1))
        cpu = self.place("g.json", "--pin", "3=cpu")
        self.assertEqual((cpu["stages"][-1]["class"], cpu["stages"][-1]["nodes"]), ("cpu", ["3"]))
        self.assertEqual(
            self.place("g.json", "--pin", "3=0", "--pin", "2=1", "--pin", "1=0", code=2)["status"], "infeasible"
        )
        named = chain()
        named["nodes"][2]["name"] = "head"
        self.write("g.json", named)
        self.assertIn("2", self.place("g.json", "--pin", "head=1")["stages"][-1]["nodes"])

    def test_the_judge_accepts_what_is_planned(self):
        self.write("g.json", chain(cpus=1))
        for arguments in (
            ("bert24-inference",),
            ("bert24-training", "--devices", "3", "--memory", "3GiB"),
            ("bert-l3-inference", "--on", "2xh100-sxm"),
            ("g.json", "--pin", "0=cpu", "--forbid", "3=1"),
            ("g.json", "--forbid", "0=0", "--forbid", "0=1", "--devices", "cpu=2"),
        ):
            with self.subTest(arguments):
                self.run_program("partition", *arguments, "-o", "p.json")
                checked = self.run_program("check", arguments[0], "p.json", "--json").document
                self.assertEqual(checked["violations"], [])
                placement = json.loads(self.read("p.json"))
                self.assertAlmostEqual(checked["max_load_ms"], placement["certificate"]["objective"], delta=1e-9)

    def test_the_judge_finds_what_was_edited(self):
        self.run_program("partition", "bert24-inference", "-o", "p.json")
        good = json.loads(self.read("p.json"))

        def codes(edit, *flags):
            placement = json.loads(json.dumps(good))
            edit(placement)
            self.write("edited.json", placement)
            answer = self.run_program("check", "bert24-inference", "edited.json", *flags, "--json", code=5)
            return {violation["code"] for violation in answer.document["violations"]}

        def move(placement):
            placement["stages"][1]["nodes"].append(placement["stages"][0]["nodes"].pop())

        def swap(placement):
            one, two = placement["stages"][0]["nodes"], placement["stages"][2]["nodes"]
            one[3], two[3] = two[3], one[3]

        def claim(placement):
            placement["certificate"]["objective"] = placement["certificate"]["lower_bound"] = 10
            placement["certificate"]["gap"] = 0

        self.assertIn("time_mismatch", codes(move))
        self.assertIn("not_contiguous", codes(swap))
        self.assertEqual(codes(claim), {"load_mismatch"})
        self.assertEqual(codes(lambda p: p["stages"][3].update(memory_bytes=1)), {"memory_mismatch"})
        self.assertEqual(codes(lambda p: p["stages"][3].update(transfer_ms=1)), {"time_mismatch"})
        self.assertEqual(codes(lambda p: p["classes"][0].update(memory_cap=1)), {"wrong_devices"})
        self.assertIn("unknown_device", codes(lambda p: p["stages"][0].update(devices=[9])))
        self.assertEqual(codes(lambda p: None, "--memory", "1MiB"), {"over_memory", "stated_mismatch", "wrong_devices"})
        self.assertEqual(codes(lambda p: None, "--pin", "1=5"), {"pin_broken"})
        self.assertEqual(codes(lambda p: None, "--forbid", "1=0"), {"forbidden_device"})
        self.assertIn(
            "violation", self.run_program("check", "bert24-inference", "edited.json", "--memory", "1MiB", code=5).out
        )

    def test_placements_of_another_graph(self):
        self.run_program("partition", "bert24-inference", "-o", "p.json")
        refused = self.run_program("check", "bert24-training", "p.json", "--json", code=1)
        self.assertIn("has no device", refused.error["message"])
        other = json.loads(self.run_program("models", "bert24-inference").out)
        other["nodes"][0]["size"] = 8.0
        self.write("g.json", other)
        answer = self.run_program("check", "g.json", "p.json", code=5)
        self.assertIn("another graph", answer.out)
        self.assertIn("memory_mismatch", answer.out)

    def test_splits_of_the_benchmark(self):
        split = self.run_program("partition", "bert24-training", "--export", "dnn_partitioning", "-o", "p.json").out
        self.write("split.json", split)
        self.assertAlmostEqual(json.loads(split)["maxLoad"], OPTIMA["bert24-training"], delta=1e-4)
        self.assertIn("right", self.run_program("check", "bert24-training", "split.json", "--contiguous").out)
        self.assertEqual(
            split, self.run_program("convert", "bert24-training", "p.json", "--to", "dnn_partitioning").out
        )
        back = self.run_program("convert", "bert24-training", "split.json", "--to", "plimsoll", "--json").document
        self.assertEqual(back["stages"], json.loads(self.read("p.json"))["stages"])
        moved = json.loads(split)
        first, last = moved["fpgas"][0]["nodes"], moved["fpgas"][5]["nodes"]
        first[3], last[3] = last[3], first[3]
        self.write("split.json", moved)
        self.run_program("check", "bert24-training", "split.json", "--contiguous", code=5)
        self.run_program("convert", "bert24-training", "p.json", "--to", "torchrec", code=1)
        self.run_program("partition", "bert24-training", "--export", "dnn_partitioning", "--json", code=1)

    def test_2_where_a_byte_is_missing(self):
        exact = chain(length=1, size=100, accelerators=1)
        self.write("g.json", exact)
        self.assertEqual(self.place("g.json")["status"], "optimal")
        for arguments in ((), ("--memory", "99")):
            self.write("g.json", exact if arguments else exact | {"maxSizePerFPGA": 99})
            answer = self.place("g.json", *arguments, code=2)
            self.assertEqual(answer["status"], "infeasible")
            self.assertEqual((answer["explanation"]["binding"], answer["explanation"]["missing"]), ("memory", 1))
            self.assertNotIn("stages", answer)
            self.assertIsNone(answer["certificate"]["objective"])
        text = self.run_program("partition", "g.json", "--memory", "99", code=2)
        self.assertIn("proved infeasible", text.err)
        self.assertIn("1 bytes are missing", text.err)

    def test_empty_graphs_and_single_nodes(self):
        self.write("g.json", graph([]))
        self.assertEqual(self.place("g.json")["stages"], [])
        self.write("g.json", chain(length=1))
        answer = self.place("g.json")
        self.assertEqual(answer["certificate"]["objective"], 1)
        self.assertEqual([stage["nodes"] for stage in answer["stages"]], [["0"]])

    def test_limits(self):
        answer = self.place("bert-l3-inference", "--effort", "0", code=4)
        self.assertEqual((answer["status"], answer["stop"]), ("limit", "effort"))
        self.assertLessEqual(answer["certificate"]["lower_bound"], OPTIMA["bert-l3-inference"])
        answer = self.place("bert-l3-inference", "--time-limit", "1us", code=4)
        self.assertEqual(answer["stop"], "deadline")
        self.assertIn("stopped_at", answer["provenance"])


class General(ProgramTest):
    def test_any_placement_is_no_worse_than_a_contiguous_one(self):
        for name, best in (("bert24-training", 39.789539), ("bert-l3-inference", 21.908376)):
            answer = self.run_program("partition", name, "--general", "--effort", "2000000", "--json").document
            self.assertLessEqual(answer["certificate"]["objective"], OPTIMA[name])
            self.assertGreaterEqual(answer["certificate"]["objective"], best * (1 - 1e-6))
            self.assertLessEqual(answer["certificate"]["lower_bound"], best * (1 + 1e-6))
            again = self.run_program("partition", name, "--search", "general", "--effort", "2000000", "--json").document
            self.assertEqual(again["stages"], answer["stages"])
            self.write("p.json", answer)
            self.assertEqual(self.run_program("check", name, "p.json", "--json").document["violations"], [])
            self.run_program("check", name, "p.json", "--contiguous", code=0 if answer["is_contiguous"] else 5)

    def test_flags_that_contradict_each_other(self):
        self.run_program("partition", "bert24-training", "--general", "--contiguous", "--json", code=1)
        self.run_program("partition", "bert24-training", "--general", "--search", "contiguous", "--json", code=1)


class TracedModels(ProgramTest):
    FILES = ("dlrm-forward.json", "tiny-attention.pt2", "tiny-attention.onnx", "tiny-conv.pt2", "tiny-conv.onnx")

    def place(self, name, *arguments, code=0):
        return self.run_program("partition", DATA / "graphs" / name, *arguments, "--json", code=code)

    def test_every_format_is_placed_and_judged(self):
        for name in self.FILES:
            with self.subTest(name):
                answer = self.place(name, "--on", "2xh100-sxm").document
                self.assertEqual(answer["classes"][0]["count"], 2)
                self.write("p.json", answer)
                checked = self.run_program("check", DATA / "graphs" / name, "p.json", "--json").document
                self.assertEqual(checked["violations"], [])
                again = self.place(name, "--on", "2xh100-sxm").document
                self.assertEqual(answer, again)

    def test_times(self):
        known = self.place("dlrm-forward.json", "--on", "2xh100-sxm").document
        self.assertEqual(known["classes"][0]["name"], "h100")
        other = self.place("dlrm-forward.json", "--on", "2xh100-sxm", "--times", "a100").document
        self.assertGreater(other["certificate"]["objective"], known["certificate"]["objective"])
        roofline = self.place("dlrm-forward.json", "--on", "2xh100-sxm", "--times", "roofline").document
        self.assertEqual(roofline["classes"][0]["name"], "h100-sxm5-80gb")
        floored = self.place("dlrm-forward.json", "--on", "2xh100-sxm", "--launch-floor", "5us").document
        self.assertGreater(floored["certificate"]["objective"], known["certificate"]["objective"])
        with_cpu = self.place("dlrm-forward.json", "--on", "2xh100-sxm", "--devices", "cpu=1").document
        self.assertEqual([c["name"] for c in with_cpu["classes"]], ["h100", "cpu"])
        for arguments, place in (
            (("--times", "v100"), "--times"),
            (("--devices", "tpu=1"), "--devices"),
            (("--launch-floor", "-1"), "--launch-floor"),
        ):
            error = self.place("dlrm-forward.json", "--on", "2xh100-sxm", *arguments, code=1).error
            self.assertEqual(error["place"], place)
        self.assertEqual(self.place("dlrm-forward.json", code=1).error["place"], "--on")
        self.assertEqual(self.place("tiny-conv.pt2", "--on", "2x40GiB", code=1).error["place"], "--on")

    def test_measured_costs(self):
        free = self.place("tiny-conv.pt2", "--on", "2xh100-sxm").document
        name = free["stages"][0]["nodes"][0]
        self.write("costs.csv", f"node,device_class,time_ms,mem_bytes\n{name},gpu,7.5,\n")
        measured = self.place(
            "tiny-conv.pt2", "--on", "2xh100-sxm", "--cost-overlay", "costs.csv", "--times", "gpu"
        ).document
        self.assertGreaterEqual(measured["certificate"]["objective"], 7.5)
        self.assertLess(measured["certificate"]["objective"], 7.5 + free["certificate"]["objective"])
        self.assertEqual([w["code"] for w in measured["warnings"]], ["unmeasured"])  # all others: the roofline's
        self.write("p.json", measured)
        graph = DATA / "graphs" / "tiny-conv.pt2"
        self.assertEqual(self.run_program("check", graph, "p.json", "--json").document["violations"], [])
        error = self.place(
            "tiny-conv.pt2", "--on", "2x40GiB", "--cost-overlay", "costs.csv", "--times", "gpu", code=1
        ).error
        self.assertEqual(error["code"], "not_found")  # of nameless devices there is no roofline

    def test_measured_costs_of_a_graph_that_states_its_own(self):
        self.write("g.json", chain(length=2))
        self.write("costs.csv", "node,device_class,time_ms,mem_bytes\n1,accelerator,5,\n")
        answer = self.run_program("partition", "g.json", "--cost-overlay", "costs.csv", "--json").document
        self.assertEqual(answer["certificate"]["objective"], 5.5)
        self.write("p.json", answer)
        self.assertTrue(self.run_program("check", "g.json", "p.json", "--json").document["is_right"])
        for rows, place in (
            ("2,accelerator,5,", "costs.csv:2"),
            ("1,gpu,5,", "costs.csv:2"),
            ("1,accelerator,-1,", "costs.csv:2"),
            ("1,accelerator,nan,", "costs.csv:2"),
        ):
            self.write("costs.csv", f"node,device_class,time_ms,mem_bytes\n{rows}\n")
            error = self.run_program("partition", "g.json", "--cost-overlay", "costs.csv", "--json", code=1).error
            self.assertEqual(error["place"], place)

    def test_exports(self):
        name = "tiny-attention.pt2"
        graph = DATA / "graphs" / name
        asked = ("partition", graph, "--on", "2xh100-sxm", "--devices", "1")
        callback = json.loads(self.run_program(*asked, "--export", "callback").out)
        self.assertEqual(set(callback.values()), {0})
        self.assertEqual(json.loads(self.run_program(*asked, "--export", "device_map").out), {"": 0})
        self.assertEqual(json.loads(self.run_program(*asked, "--export", "split_spec").out), {})
        dot = self.run_program(*asked, "--export", "dot", "-o", "p.json").out
        self.assertTrue(dot.startswith("digraph"))
        self.assertEqual(dot, self.run_program("convert", graph, "p.json", "--to", "dot").out)
        self.run_program(*asked, "--export", "dnn_partitioning", code=1)
        self.run_program("partition", "bert24-inference", "--export", "dot", code=1)

    def test_the_passes_of_a_joint_graph_are_partitions_of_their_own(self):
        graph = DATA / "graphs" / "gpt2-joint.json"
        callback = json.loads(self.run_program("partition", graph, "--on", "2xh100-sxm", "--export", "callback").out)
        self.assertEqual(set(callback.values()), {0, 1, 2, 3})

    def test_damaged_archives(self):
        for name in ("tiny-conv.pt2", "tiny-conv.onnx"):
            whole = (DATA / "graphs" / name).read_bytes()
            for part in (whole[:100], whole[: len(whole) // 2], b""):
                (self.folder / name).write_bytes(part)
                self.run_program("partition", name, "--on", "2xh100-sxm", "--json", code=1)


class CostGraphs(ProgramTest):
    """plimsoll.cost_graph/1: classes, rates between pairs, weights, pins, all stated."""

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
        answer = self.run_program("partition", "g.json", *arguments, "-o", "p.json", "--json").document
        report = self.run_program("check", "g.json", "p.json", "--json").document
        self.assertEqual(report["violations"], [])
        if is_proved:
            self.assertEqual(answer["status"], "optimal")
        self.assertLessEqual(answer["certificate"]["lower_bound"], answer["certificate"]["objective"])
        return answer["certificate"]["objective"]

    def test_by_hand(self):
        # Middle on one fast device: 4 + 1 + 1; the others 5 and, on the slow one, 7.
        self.assertEqual(self.value(self.graph()), 7)
        self.assertEqual(self.value(self.graph(), "--devices", "slow=0"), 9)  # two together, and one transfer
        slow_pairs = [[0, 1, 2], [1, 0, 2], [2, 2, 0]]  # the two fast ones talk at half the rate
        self.assertEqual(self.value(self.graph(pair_rates=slow_pairs)), 7)
        self.assertEqual(
            self.value(
                self.graph(pair_rates=slow_pairs),
                "--forbid",
                "a=slow",
                "--forbid",
                "b=slow",
                "--forbid",
                "c=slow",
                is_proved=False,
            ),
            10,
        )  # bound by each one's fastest rate
        # Two copies of a weight of 60 do not stop three nodes on three devices; of one with its node's 50 they do.
        weights = [{"name": "w", "bytes": 60, "readers": ["a", "b"]}]
        self.assertEqual(self.value(self.graph(weights=weights)), 7)
        heavy = [{"name": name, "time_ms": {"fast": 4, "slow": 6}, "memory_bytes": 50} for name in "abc"]
        self.assertEqual(self.value(self.graph(weights=weights, nodes=heavy)), 13)  # a and b on the slow one

    def test_every_objective(self):
        for arguments in (
            (),
            ("--general",),
            ("--objective", "latency"),
            ("--objective", "pipeline", "--microbatches", "4"),
        ):
            with self.subTest(arguments):
                self.value(self.graph(), *arguments, is_proved="--general" not in arguments)
        self.assertEqual(self.value(self.graph(), "--objective", "latency"), 12)

    def test_rules_that_contradict_each_other(self):
        def infeasible(content, *arguments):
            self.write("g.json", content)
            for more in (
                (),
                ("--general",),
                ("--objective", "latency"),
                ("--objective", "pipeline", "--microbatches", "4"),
            ):
                with self.subTest((arguments, more)):
                    answer = self.run_program("partition", "g.json", *arguments, *more, "--json", code=2).document
                    self.assertEqual(answer["status"], "infeasible")
                    self.assertTrue(answer["certificate"]["proof"])
                    self.assertTrue(answer["explanation"]["lines"])

        infeasible(self.graph(), "--pin", "a=0", "--forbid", "a=0")
        infeasible(self.graph(), "--forbid", "b=fast", "--forbid", "b=slow")
        infeasible(
            self.graph(
                nodes=[
                    {"name": name, "time_ms": {"fast": 1}, "colour": 1, "pinned_device": i}
                    for i, name in enumerate("abc")
                ]
            )
        )
        infeasible(self.graph(nodes=[{"name": name, "time_ms": {}} for name in "abc"]))
        infeasible(self.graph(nodes=[{"name": name, "time_ms": {"fast": 1}, "memory_bytes": 101} for name in "abc"]))
        infeasible(
            self.graph(
                nodes=[{"name": name, "time_ms": {"fast": 1}} for name in "abc"],
                weights=[{"bytes": 101, "readers": ["b"]}],
            )
        )

    def test_bad_documents(self):
        for content, place in (
            (self.graph(pair_rates=[[0, 1], [1, 0]]), "g.json#"),
            (self.graph(nets=[{"producer": "a", "consumers": ["z"], "amount": 1}]), "g.json#/nets/0/consumers/0"),
            (self.graph(classes=[]), "g.json#/nodes/0/time_ms/fast"),
            ({"schema": "plimsoll.cost_graph/1"}, "g.json#"),
            (self.graph() | {"schema": "plimsoll.fx_graph/1"}, "g.json"),
        ):
            self.write("g.json", content)
            self.assertEqual(self.run_program("partition", "g.json", "--json", code=1).error["place"], place)
        self.write("g.json", self.graph(pair_rates=[[0, 1, 1], [1, 0, 1], [1, 1, 0]]))
        error = self.run_program("partition", "g.json", "--devices", "fast=1", "--json", code=1).error
        self.assertEqual(error["place"], "pair_rates")


class BadInput(ProgramTest):
    def error(self, content, *arguments):
        self.write("g.json", content)
        return self.run_program("partition", "g.json", *arguments, "--json", code=1).error

    def test_bad_graphs(self):
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
            with self.subTest(str(content)[:200]):
                error = self.error(content)
                self.assertEqual(error["code"], code, error)
                if place is not None:
                    self.assertEqual(error["place"], place)

    def test_bad_flags(self):
        for line in (
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
        ):
            arguments = line.split()
            with self.subTest(line):
                self.assertEqual(self.error(chain(), *arguments)["place"], arguments[-2])
        self.assertIn("contiguous", self.error(chain(), "--search", "contigous")["remedy"])

    def test_unknown_names(self):
        error = self.run_program("partition", "bert24-inferense", "--json", code=1).error
        self.assertIn("bert24-inference", error["remedy"])
        for name in ("missing.json", "missing.pt2", "missing.onnx", "missing.txt"):
            error = self.run_program("partition", name, "--on", "2xh100-sxm", "--json", code=1).error
            self.assertEqual((error["code"], error["place"]), ("not_found", name))
        (self.folder / "folder.pt2").mkdir()
        self.assertEqual(
            self.run_program("partition", "folder.pt2", "--on", "2xh100-sxm", "--json", code=1).error["code"], "io"
        )


class Torch(ProgramTest):
    """torch.fx's partitioner: the recorded cases hold what the program must answer."""

    @staticmethod
    def cases():
        return json.loads((GOLDEN / "graph-partition.json").read_text(encoding="utf-8"))["cases"]

    def test_recorded_cases(self):
        num_plans = num_failures = 0
        for case in self.cases()[::4]:
            expected = case.get("expected_torch_2_13", case["expected"])
            self.write("g.json", case["input"])
            with self.subTest(case["id"]):
                done = subprocess.run(
                    [program.PROGRAM, "partition", "g.json", "--json"],
                    cwd=self.folder,
                    capture_output=True,
                    text=True,
                    check=False,
                )
                document = program.parse(done.stdout)
                self.check_document(document)
                if "error" in expected:
                    num_failures += 1
                    self.assertIn(done.returncode, (1, 4))
                    said = (document["error"] if done.returncode == 1 else document["failure"])["message"]
                    self.assertIn(said, expected["error"])
                    continue
                num_plans += 1
                self.assertEqual(done.returncode, 0)
                self.assertEqual(document["objective"], "fx")
                self.assertEqual(
                    [(s["id"], s["nodes"], s["memory_bytes"], s["devices"]) for s in document["stages"]],
                    [
                        (p["id"], p["nodes"], p["used_mem_bytes"], list(dict.fromkeys(p["logical_device_ids"])))
                        for p in expected["partitions"]
                    ],
                )
                self.assertEqual(document["node_to_partition"], expected["node_to_partition"])
                self.assertEqual([c["submodule"] for c in document["calls"]], [c["name"] for c in expected["dag"]])
                if "critical_path_latency" in expected:
                    self.assertAlmostEqual(
                        document["certificate"]["objective"], 1000 * expected["critical_path_latency"], places=6
                    )
        self.assertGreater(num_plans, 20)
        self.assertGreater(num_failures, 3)

    def test_modes_and_releases(self):
        case = next(
            c
            for c in self.cases()
            if c["input"].get("mode") == "cost_aware"
            and c["input"].get("latency")
            and len(c["expected"].get("partitions", [])) > 2
        )
        self.write("g.json", case["input"])
        asked = self.run_program("partition", "g.json", "--json").document
        named = self.run_program("partition", "g.json", "--search", "torch_cost_aware", "--json").document
        self.assertEqual(asked["stages"], named["stages"])
        size = self.run_program("partition", "g.json", "--search", "torch_size_based", "--json").document
        self.assertNotEqual(asked["stages"], size["stages"])
        self.assertEqual(size["provenance"]["options"], {"search": "torch_size_based", "variant": "torch-2.13"})
        text = self.run_program("partition", "g.json").out
        self.assertIn("critical path", text)
        self.assertIn("submod_0", text)

        small = case["input"] | {"devices": [{"name": "d", "mem": 1, "id": 0}]}
        self.write("small.json", small)
        new = self.run_program("partition", "small.json", code=4)
        old = self.run_program("partition", "small.json", "--variant", "torch-1.13", code=4)
        self.assertIn("RuntimeError: Devices do not have enough memory for the module", new.err)
        self.assertIn("RuntimeError: Devices have no enough memory for the module", old.err)
        failure = self.run_program("partition", "small.json", "--json", code=4).document
        self.assertEqual((failure["status"], failure["failure"]["kind"]), ("limit", "RuntimeError"))
        self.run_program("partition", "small.json", "--variant", "torch-3", "--json", code=1)

    def test_devices(self):
        case = next(c for c in self.cases() if len(c["input"]["devices"]) > 1)
        self.write("g.json", case["input"])
        answer = self.run_program("partition", "g.json", "--devices", "1", "--memory", "1GiB", "--json").document
        self.assertEqual([s["devices"] for s in answer["stages"]], [[0]])
        self.assertEqual(answer["stages"][0]["memory_cap"], 1 << 30)
        answer = self.run_program("partition", "g.json", "--on", "2x40GiB", "--json").document
        self.assertEqual(answer["stages"][0]["memory_cap"], 40 << 30)
        for arguments, place in (
            (("--pin", "a=0"), "--pin"),
            (("--devices", "cpu=1"), "--devices"),
            (("--objective", "throughput"), "--objective"),
            (("--search", "contiguous"), "--search"),
        ):
            error = self.run_program("partition", "g.json", *arguments, "--json", code=1).error
            self.assertEqual(error["place"], place)


class OtherObjectives(ProgramTest):
    def test_latency_is_placed_and_judged(self):
        document = self.run_program(
            "partition", "bert24-inference", "--objective", "latency", "-o", "p.json", "--json"
        ).document
        self.assertEqual((document["objective"], document["status"]), ("latency", "optimal"))
        self.assertAlmostEqual(document["certificate"]["objective"], 92.411, delta=0.01)  # all on one accelerator
        self.assertTrue(self.run_program("check", "bert24-inference", "p.json", "--json").document["is_right"])
        document["certificate"]["objective"] *= 0.9
        document["certificate"].pop("lower_bound")
        document["certificate"].pop("gap")
        self.write("wrong.json", document)
        codes = [
            v["code"]
            for v in self.run_program("check", "bert24-inference", "wrong.json", "--json", code=5).document[
                "violations"
            ]
        ]
        self.assertEqual(codes, ["latency_mismatch"])

    def test_our_critical_path_is_never_longer_than_torchs(self):
        cases = json.loads((GOLDEN / "graph-partition.json").read_text(encoding="utf-8"))["cases"]
        num_better = 0
        for case in cases:
            if case["input"].get("mode") != "cost_aware" or "error" in case["expected"]:
                continue
            if not case["input"].get("latency"):
                continue
            self.write("g.json", case["input"])
            theirs = self.run_program("partition", "g.json", "--json").document["certificate"]["objective"]
            ours = self.run_program("partition", "g.json", "--objective", "fx", "--json").document
            self.assertEqual(ours["provenance"]["options"]["search"], "critical_path")
            self.assertLessEqual(ours["certificate"]["objective"], theirs * (1 + 1e-9))
            self.assertLessEqual(ours["certificate"]["lower_bound"], ours["certificate"]["objective"])
            num_better += ours["certificate"]["objective"] < theirs * (1 - 1e-9)
        self.assertGreater(num_better, 0)


class Pipelines(ProgramTest):
    """Profiles whose stages may be replicated."""

    # Four operators of 1, 1, 1 and 3 ms, nothing to agree on.
    PROFILE = "".join(
        f"node{i} -- Linear({i}) -- forward_compute_time={ms}, backward_compute_time=0, activation_size=8, "
        "parameter_size=0\n"
        for i, ms in enumerate((1, 1, 1, 3))
    ) + "".join(f"\tnode{i} -- node{i + 1}\n" for i in range(3))

    def setUp(self):
        super().setUp()
        self.write("graph.txt", self.PROFILE)

    def plan(self, *arguments, code=0):
        return self.run_program("partition", "graph.txt", *arguments, "--json", code=code).document

    def test_stages_are_replicated_unless_straight(self):
        for arguments, value in (
            (("--devices", "3"), 2),
            (("--devices", "3", "--straight"), 3),
            (("--devices", "2", "--straight"), 3),
            (("--devices", "1"), 6),
            (("--devices", "3", "--search", "pipedream"), 2),
            (("--devices", "3", "--objective", "pipeline", "--microbatches", "12"), 2 + 11 * 2),
        ):
            with self.subTest(arguments):
                answer = self.plan(*arguments, "-o", "p.json")
                self.assertAlmostEqual(answer["certificate"]["objective"], value, delta=1e-9)
                report = self.run_program("check", "graph.txt", "p.json", "--json").document
                self.assertTrue(report["is_right"])
        self.assertIn("slowest stage 2 ms", self.run_program("partition", "graph.txt", "--devices", "3").out)

    def test_an_edited_plan_is_found_out(self):
        answer = self.plan("--devices", "2", "--straight")
        answer["slowest_ms"] = 2.5
        self.write("p.json", answer)
        report = self.run_program("check", "graph.txt", "p.json", "--json", code=5).document
        self.assertEqual([v["code"] for v in report["violations"]], ["value_mismatch"])

    def test_the_profile_is_written_with_its_stages(self):
        text = self.run_program("partition", "graph.txt", "--devices", "2", "--straight", "--export", "pipedream").out
        self.assertEqual(
            [line.rsplit("stage_id=", 1)[1] for line in text.splitlines() if "stage_id=" in line], ["0", "0", "0", "1"]
        )

    def test_plans_of_other_programs_are_judged_and_converted(self):
        self.run_program("partition", "graph.txt", "--devices", "2", "--straight", "-o", "p.json")
        staged = self.run_program("convert", "graph.txt", "p.json", "--to", "pipedream").out
        self.write("staged.txt", staged)
        report = self.run_program("check", "graph.txt", "staged.txt", "--json").document
        self.assertEqual((report["violations"], report["num_devices"]), ([], 2))
        self.assertAlmostEqual(report["slowest_ms"], 3)
        ours = self.run_program("convert", "graph.txt", "staged.txt", "--to", "plimsoll", "--json").document
        self.assertEqual(ours["stages"], json.loads(self.read("p.json"))["stages"])
        self.write("staged.txt", staged.replace("stage_id=1", "stage_id=7").replace("stage_id=0", "stage_id=9"))
        codes = [
            v["code"]
            for v in self.run_program("check", "graph.txt", "staged.txt", "--json", code=5).document["violations"]
        ]
        self.assertEqual(codes, ["backward_edge", "too_many_devices"][: len(codes)])
        self.run_program("check", "graph.txt", "staged.txt", "--devices", "1", code=5)
        self.write("staged.txt", staged.replace(" -- stage_id=1", ""))
        error = self.run_program("check", "graph.txt", "staged.txt", "--json", code=1).error
        self.assertIn("'node3' has no stage", error["message"])
        self.run_program("convert", "graph.txt", "p.json", "--to", "piper", code=1)
        self.assertEqual(
            self.run_program("check", "bert24-inference", "staged.txt", "--json", code=1).error["code"], "usage"
        )

    def test_pipers_plans_are_judged_and_converted(self):
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

        self.write(
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
        stages = self.run_program("partition", "g.json", "--straight", "--export", "piper", "-o", "p.json").out
        self.write("stages.json", stages)
        report = self.run_program("check", "g.json", "stages.json", "--json").document
        self.assertEqual(report["violations"], [])
        self.assertAlmostEqual(report["slowest_ms"], 2)
        self.assertEqual(self.run_program("convert", "g.json", "p.json", "--to", "piper").out, stages)
        ours = self.run_program("convert", "g.json", "stages.json", "--to", "plimsoll", "--json").document
        self.assertEqual(ours["stages"], json.loads(self.read("p.json"))["stages"])
        # Four operators of 10 bytes a microbatch, two of them in flight in the first stage: 40 bytes.
        self.run_program("check", "g.json", "stages.json", "--memory", "40")
        codes = [
            v["code"]
            for v in self.run_program("check", "g.json", "stages.json", "--memory", "39", "--json", code=5).document[
                "violations"
            ]
        ]
        self.assertEqual(codes, ["over_memory"])
        wrong = json.loads(stages)
        wrong["stages"][0]["nodes"].append(99)
        self.write("stages.json", wrong)
        self.assertEqual(
            self.run_program("check", "g.json", "stages.json", "--json", code=1).error["place"],
            "stages.json#/stages/0/nodes/2",
        )

    def test_bad_usage(self):
        for arguments, place in (
            ((), "--devices"),
            (("--devices", "0"), "--devices"),
            (("--devices", "cpu=2"), "--devices"),
            (("--devices", "2", "--general"), "--general"),
            (("--devices", "2", "--objective", "latency"), "--objective"),
            (("--devices", "2", "--objective", "pipeline"), "--microbatches"),
            (("--devices", "2", "--bandwidth", "-1"), "--bandwidth"),
            (("--devices", "2", "--search", "contiguous"), "--search"),
            (("--devices", "2", "--pin", "node0=0"), "--pin"),
        ):
            with self.subTest(arguments):
                self.assertEqual(self.plan(*arguments, code=1)["error"]["place"], place)
        error = self.run_program("partition", "bert24-inference", "--straight", "--json", code=1).error
        self.assertEqual(error["place"], "--straight")


class Batches(ProgramTest):
    """Objective pipeline of graphs that are no profiles."""

    # n microbatches on accelerators of 1 ms a node, links free: d replicas of everything take n * 4 / d.
    def place(self, *arguments, code=0):
        answer = self.run_program("partition", *arguments, "--objective", "pipeline", "--json", code=code).document
        if code == 0:
            self.write("p.json", answer)
            report = self.run_program("check", arguments[0], "p.json", "--json").document
            self.assertEqual(report["violations"], [])
            self.assertAlmostEqual(report["batch_ms"], answer["certificate"]["objective"], delta=1e-9)
        return answer

    def test_every_format_is_planned_and_judged(self):
        self.write("g.json", chain())
        graphs = ["g.json", "bert24-inference", "bert24-training"]
        for name in graphs:
            with self.subTest(name):
                answer = self.place(name, "--microbatches", "8")
                self.assertEqual((answer["objective"], answer["status"]), ("pipeline", "optimal"))
                self.assertEqual(answer["provenance"]["options"]["microbatches"], "8")
        for name in TracedModels.FILES:
            with self.subTest(name):
                answer = self.place(DATA / "graphs" / name, "--on", "2xh100-sxm", "--microbatches", "8")
                self.assertIn(answer["status"], ("optimal", "feasible"))
                self.assertGreater(answer["certificate"]["lower_bound"], 0)

    def test_batches_by_hand(self):
        self.write("g.json", graph([node(i) for i in range(4)], [edge(i, i + 1, cost=0) for i in range(3)]))
        for arguments, value, devices in (
            (("--microbatches", "8"), 8 * 2, [[0, 1]]),
            (("--microbatches", "8", "--straight"), 2 * 2 + 7 * 2, [[0], [1]]),
            (("--microbatches", "3"), 2 * 2 + 2 * 2, [[0], [1]]),
        ):
            with self.subTest(arguments):
                answer = self.place("g.json", *arguments)
                self.assertAlmostEqual(answer["certificate"]["objective"], value, delta=1e-9)
                self.assertEqual([stage["devices"] for stage in answer["stages"]], devices)
        text = self.run_program("partition", "g.json", "--objective", "pipeline", "--microbatches", "8").out
        self.assertIn("a batch takes 16 ms", text)
        self.assertIn("in flight", text)

    def test_an_edited_plan_is_found_out(self):
        good = self.place("bert24-training", "--microbatches", "8", "--straight")

        def codes(edit, *flags):
            edited = json.loads(json.dumps(good))
            edit(edited)
            self.write("edited.json", edited)
            answer = self.run_program("check", "bert24-training", "edited.json", *flags, "--json", code=5).document
            return {violation["code"] for violation in answer["violations"]}

        def claim(plan):
            plan["certificate"] = {"objective": 1.0, "proof": ""}

        self.assertEqual(codes(claim), {"batch_mismatch"})
        self.assertIn("not_contiguous", codes(lambda p: p["stages"].reverse()))
        self.assertIn("device_twice", codes(lambda p: p["stages"][1].update(devices=p["stages"][0]["devices"])))
        self.assertIn("empty_stage", codes(lambda p: p["stages"][1].update(devices=[])))
        self.assertIn("unpriced_replicas", codes(lambda p: p["stages"][0]["devices"].append(7), "--devices", "8"))
        self.assertIn("not_placed", codes(lambda p: p["stages"][0]["nodes"].pop()))
        self.assertEqual(codes(lambda p: p["stages"][0].update(in_flight=77)), {"in_flight_mismatch"})
        self.assertEqual(codes(lambda p: p["stages"][0].update(sync_ms=7)), {"time_mismatch"})
        self.assertIn("over_memory", codes(lambda p: None, "--memory", "1MiB"))

    def test_bad_usage(self):
        for arguments, place in (
            (("bert24-inference",), "--microbatches"),
            (("bert24-inference", "--microbatches", "8", "--general"), "--search"),
            (("bert24-inference", "--microbatches", "8", "--bandwidth", "1GB/s"), "--bandwidth"),
            (("bert24-inference", "--microbatches", "0"), "--microbatches"),
        ):
            with self.subTest(arguments):
                self.assertEqual(self.place(*arguments, code=1)["error"]["place"], place)
        error = self.run_program("partition", "bert24-inference", "--microbatches", "8", "--json", code=1).error
        self.assertEqual(error["place"], "--microbatches")

    def test_a_stopped_search_stops_there_again(self):
        first = self.run_program(
            "partition",
            "bert-l3-inference",
            "--objective",
            "pipeline",
            "--microbatches",
            "6",
            "--time-limit",
            "20ms",
            "--json",
            code=None,
        ).document
        if first["stop"] != "deadline" or "stages" not in first:
            self.skipTest("the machine was too fast or too slow for the clock")
        again = self.run_program(
            "partition",
            "bert-l3-inference",
            "--objective",
            "pipeline",
            "--microbatches",
            "6",
            "--effort",
            first["provenance"]["stopped_at"],
            "--json",
            code=None,
        ).document
        self.assertEqual(first["stages"], again["stages"])


class Advice(ProgramTest):
    """What would fit, where nothing does."""

    def lines(self, *arguments):
        answer = self.run_program("partition", *arguments, "--json", code=2).document
        return answer["explanation"], answer["explanation"]["lines"][-1]

    def test_the_smallest_memory_is_named_and_right(self):
        # Eight nodes of 10 bytes in a line on three devices: 30 bytes hold 3 of them.
        self.write("g.json", chain(length=8, accelerators=3))
        for more in ((), ("--objective", "pipeline", "--microbatches", "2")):
            with self.subTest(more):
                explanation, line = self.lines("g.json", "--memory", "29", *more)
                self.assertEqual((explanation["binding"], explanation["missing"]), ("memory", 1))
                self.assertIn("30 bytes", line)
                self.assertIn("1 more than now; one byte less would not, proved", line)
                self.run_program("partition", "g.json", "--memory", "30", *more)

    def test_what_is_not_proved_is_a_note(self):
        # Nobody packs 35 pieces of 10 bytes into three devices of 119, but no bound says so.
        self.write("g.json", chain(length=35, accelerators=3))
        answer = self.run_program("partition", "g.json", "--memory", "119", "--general", "--effort", "300000", code=4)
        self.assertIn("note: 120 bytes", answer.err)
        self.run_program("partition", "g.json", "--memory", "120", "--general", "--effort", "300000")

    def test_small_placements_are_searched_to_the_end(self):
        self.write("g.json", chain(length=8, accelerators=3))
        explanation, line = self.lines("g.json", "--memory", "29", "--general")
        self.assertEqual((explanation["binding"], explanation["missing"]), ("memory", 1))
        self.assertIn("1 more than now; one byte less would not, proved", line)
        answer = self.run_program("partition", "g.json", "--memory", "30", "--general", "--json").document
        self.assertEqual(answer["status"], "optimal")

    def test_one_byte_of_one_node(self):
        self.write("g.json", chain(length=1, size=100, accelerators=1))
        for more in (
            (),
            ("--general",),
            ("--objective", "latency"),
            ("--objective", "pipeline", "--microbatches", "2"),
        ):
            with self.subTest(more):
                explanation, line = self.lines("g.json", "--memory", "99", *more)
                self.assertEqual((explanation["binding"], explanation["missing"]), ("memory", 1))
                self.assertIn("100 bytes", line)
                self.assertIn("one byte less would not, proved", line)

    def test_a_profile_says_it_too(self):
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

        self.write(
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
        explanation, line = self.lines("g.json")
        self.assertEqual((explanation["binding"], explanation["missing"]), ("memory", 1))
        self.assertIn("30 bytes", line)
        self.run_program("partition", "g.json", "--memory", "30")

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
        return self.run_program("partition", "g.json", *arguments, "--json", code=code).document

    def test_the_class_that_lacks_memory_is_named_and_several_are(self):
        answer = self.classes((100, 43))
        self.assertEqual(answer["explanation"]["missing"], 7)
        self.assertIn("try --memory small=50", answer["explanation"]["lines"][-1])
        self.classes((100, 43), "--memory", "small=50", code=0)
        # Neither class alone is enough: the first lacks 30, the second 7.
        answer = self.classes((70, 43))
        self.assertEqual(answer["explanation"]["missing"], 30)
        self.assertIn("30 bytes", answer["explanation"]["lines"][-1])
        self.assertIn("one class alone would not", answer["explanation"]["lines"][-1])
        self.classes((100, 73), code=0)
        self.classes((99, 72), code=2)

    def test_pins_are_named_where_they_are_the_cause(self):
        self.write("g.json", chain(length=4, accelerators=2))
        pins = ("--memory", "20", "--pin", "0=0", "--pin", "1=0", "--pin", "2=0")
        lines = self.run_program("partition", "g.json", *pins, "--json", code=2).document["explanation"]["lines"]
        named = [line for line in lines if "pinned or forbidden devices are the cause" in line]
        self.assertEqual(len(named), 1)
        self.assertEqual(named[0].count(","), 0)  # one of the three may go
        self.run_program("partition", "g.json", *pins[:-2])
        self.write("g.json", chain(length=5, accelerators=2))
        lines = self.run_program("partition", "g.json", *pins, "--json", code=2).document["explanation"]["lines"]
        self.assertFalse([line for line in lines if "the cause" in line])

    def test_what_is_missing_is_what_every_device_needs(self):
        # Five nodes of 10 on four devices of 12: together they lack 2, but one must hold two nodes.
        self.write("g.json", chain(length=5, accelerators=4))
        explanation, line = self.lines("g.json", "--memory", "12")
        self.assertEqual(explanation["missing"], 8)
        self.assertIn("try --memory accelerator=20", line)
        self.run_program("partition", "g.json", "--memory", "accelerator=20")
        self.run_program("partition", "g.json", "--memory", "19", code=2)

    def test_torchs_graphs_say_it_too(self):
        self.write(
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
        explanation, line = self.lines("g.json", "--objective", "fx")
        self.assertEqual((explanation["binding"], explanation["missing"]), ("memory", 1))
        self.assertIn("4 bytes", line)


class ClassesOfTracedModels(ProgramTest):
    def place(self, *arguments, code=0):
        return self.run_program("partition", DATA / "graphs" / "dlrm-forward.json", *arguments, "--json", code=code)

    def test_devices_of_the_class_that_the_costs_name(self):
        by_preset = self.place("--on", "2xh100-sxm").document
        by_class = self.place("--devices", "h100=2").document
        self.assertEqual(by_class["stages"], by_preset["stages"])
        self.assertEqual(by_class["classes"], by_preset["classes"])
        self.assertEqual(self.place("--devices", "2", "--times", "h100").document["stages"], by_preset["stages"])
        self.write("p.json", by_class)
        checked = self.run_program("check", DATA / "graphs" / "dlrm-forward.json", "p.json", "--json").document
        self.assertEqual(checked["violations"], [])

    def test_what_is_not_clear_names_the_remedy(self):
        error = self.place("--devices", "2", code=1).error
        self.assertEqual(error["place"], "--devices")
        self.assertIn("a100, h100", error["message"])
        self.assertIn("--devices h100=", error["remedy"])
        error = self.place("--devices", "tpu=2", code=1).error
        self.assertIn("--on", error["remedy"])
        error = self.place(code=1).error
        self.assertIn("--devices h100=4", error["remedy"])
        error = self.run_program(
            "partition", DATA / "graphs" / "tiny-conv.pt2", "--devices", "2", "--json", code=1
        ).error
        self.assertIn("--on", error["remedy"])


class TorchResults(ProgramTest):
    """Partition results of torch's, judged and converted."""

    def test_recorded_results_are_judged(self):
        num_right = num_wrong = 0
        for case in Torch.cases()[::3]:
            if "error" in case["expected"]:
                continue
            self.write("g.json", case["input"])
            self.write("r.json", case["expected"])
            with self.subTest(case["id"]):
                done = subprocess.run(
                    [program.PROGRAM, "check", "g.json", "r.json", "--json"],
                    cwd=self.folder,
                    capture_output=True,
                    text=True,
                    check=False,
                )
                document = program.parse(done.stdout)
                self.check_document(document)
                self.assertEqual(done.returncode, 0 if document["is_right"] else 5, done.stdout)
                codes = {violation["code"] for violation in document["violations"]}
                # What torch does wrong: no memory check under aot_based, a mapping that kl_based left
                # behind, partitions that wait for each other.
                self.assertLessEqual(
                    codes, {"over_memory", "mapping_mismatch", "path_mismatch", "partitions_wait", "missing_source"}
                )
                num_right += document["is_right"]
                num_wrong += not document["is_right"]
                ours = self.run_program("convert", "g.json", "r.json", "--to", "plimsoll", "--json").document
                self.write("ours.json", ours)
                again = subprocess.run(
                    [program.PROGRAM, "check", "g.json", "ours.json", "--json"],
                    cwd=self.folder,
                    capture_output=True,
                    text=True,
                    check=False,
                )
                self.assertEqual(program.parse(again.stdout)["violations"], document["violations"])
                callback = json.loads(self.run_program("convert", "g.json", "r.json", "--to", "callback").out)
                self.assertEqual(
                    callback,
                    {
                        name: number
                        for name, number in case["expected"]["node_to_partition"].items()
                        if name in callback
                    },
                )
        self.assertGreater(num_right, 20)

    def test_our_own_answers_are_judged(self):
        case = next(
            c for c in Torch.cases() if c["input"].get("latency") and len(c["expected"].get("partitions", [])) > 2
        )
        self.write("g.json", case["input"])
        answer = self.run_program("partition", "g.json", "--objective", "fx", "--json").document
        self.write("p.json", answer)
        judged = self.run_program("check", "g.json", "p.json", "--json").document
        self.assertAlmostEqual(judged["critical_path_ms"], answer["certificate"]["objective"], places=6)
        self.assertIn("critical path", self.run_program("check", "g.json", "p.json").out)

        def codes(edit):
            edited = json.loads(json.dumps(answer))
            edit(edited)
            self.write("edited.json", edited)
            report = self.run_program("check", "g.json", "edited.json", "--json", code=5).document
            return {violation["code"] for violation in report["violations"]}

        def claim(placement):
            placement["certificate"] = {"objective": 1e-3, "proof": ""}

        self.assertEqual(codes(claim), {"path_mismatch"})
        self.assertIn("unknown_device", codes(lambda p: p["stages"][0].update(devices=[99])))
        self.assertIn("not_placed", codes(lambda p: p["stages"][0].update(nodes=[])))
        self.assertIn("mapping_mismatch", codes(lambda p: p["stages"][0].update(id=55)))

    def test_results_of_another_graph_are_refused(self):
        case = next(c for c in Torch.cases() if "error" not in c["expected"])
        self.write("g.json", case["input"])
        for result, place in (
            ({"partitions": 1}, "r.json#/partitions"),
            ({"partitions": [{"id": "x"}]}, "r.json#/partitions/0/id"),
            ({"partitions": [{"id": 0, "nodes": ["nobody"], "logical_device_ids": [0]}]}, "r.json#/stages/0/nodes"),
            (
                {"partitions": [{"id": 0, "nodes": [], "logical_device_ids": [0.5]}]},
                "r.json#/partitions/0/logical_device_ids/0",
            ),
            ({"partitions": [], "node_to_partition": {"a": "b"}}, "r.json#/node_to_partition"),
        ):
            with self.subTest(result):
                self.write("r.json", result)
                self.assertEqual(self.run_program("check", "g.json", "r.json", "--json", code=1).error["place"], place)
        self.write("r.json", case["expected"])
        error = self.run_program("check", "bert24-inference", "r.json", "--json", code=1).error
        self.assertEqual(error["remedy"], "give the graph that they partition")
        self.run_program("partition", "bert24-inference", "-o", "p.json")
        error = self.run_program("check", "g.json", "p.json", "--json", code=1).error
        self.assertEqual(error["remedy"], "give the graph that it places")


class NamesOfFormats(ProgramTest):
    def test_two_names_that_are_easily_mixed_up(self):
        traced = json.loads((DATA / "graphs" / "dlrm-forward.json").read_text(encoding="utf-8"))
        case = next(c for c in Torch.cases() if "error" not in c["expected"])
        self.write("g.json", traced | {"format": "plimsoll.fx_graph/1"})
        error = self.run_program("partition", "g.json", "--on", "2xh100-sxm", "--json", code=1).error
        self.assertIn('"format": "plimsoll-fx-graph"', error["remedy"])
        self.write("g.json", {"schema": "plimsoll-fx-graph"} | case["input"])
        error = self.run_program("partition", "g.json", "--json", code=1).error
        self.assertIn('"schema": "plimsoll.fx_graph/1"', error["remedy"])
        self.write("g.json", {"format": "plimsoll-fx-graph"})
        self.assertEqual(
            self.run_program("partition", "g.json", "--on", "2xh100-sxm", "--json", code=1).error["code"], "schema"
        )


class Interrupt(ProgramTest):
    def test_ctrl_c_returns_the_best_placement_so_far(self):
        # Four independent chains: their pairs of downsets take many seconds.
        chains = [(c, i) for c in range(4) for i in range(22)]
        number = {key: n for n, key in enumerate(chains)}
        big = graph(
            [node(number[c, i], accelerator=1 + 0.1 * ((7 * c + 3 * i) % 11)) for c, i in chains],
            [edge(number[c, i], number[c, i + 1], cost=0.15 * (1 + (5 * c + 3 * i) % 7)) for c, i in chains if i < 21],
            accelerators=7,
            memory=10**6,
        )
        self.write("g.json", big)
        with subprocess.Popen(
            [program.PROGRAM, "partition", "g.json", "--json"],
            cwd=self.folder,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as running:
            time.sleep(0.3)
            running.send_signal(signal.SIGINT)
            out, _ = running.communicate(timeout=program.TIMEOUT_S)
        document = program.parse(out)
        self.assertEqual((document["stop"], running.returncode), ("cancelled", 3))
        self.assertGreater(document["certificate"]["gap"], 0)
        self.assertIn("stopped_at", document["provenance"])


if __name__ == "__main__":
    program.main()
