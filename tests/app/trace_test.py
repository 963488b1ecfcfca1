"""plimsoll trace: the predicted step as trace events, alone and beside a recorded trace."""

import json

import pytest
from program import constrained

HARDWARE = ("--on", "4x40GiB", "--local-world-size", "2")
PHASES = (
    ("prefetch", "prefetch_compute"),
    ("look-up (forward)", "fwd_compute"),
    ("output distribution (forward)", "fwd_comms"),
    ("gradient distribution (backward)", "bwd_comms"),
    ("update (backward)", "bwd_compute"),
)


class Trace:
    """A trace read back: spans and counters by the names of processes and threads, times in ms."""

    def __init__(self, document):
        self.processes, self.threads = {}, {}
        self.spans, self.counters = [], []
        events = document["traceEvents"]
        for event in events:
            if event["ph"] == "M" and event["name"] == "process_name":
                assert event["pid"] not in self.processes
                self.processes[event["pid"]] = event["args"]["name"]
            elif event["ph"] == "M" and event["name"] == "thread_name":
                self.threads[event["pid"], event["tid"]] = event["args"]["name"]
        for event in events:
            if event["ph"] == "X":
                place = (self.processes[event["pid"]], self.threads.get((event["pid"], event["tid"])))
                assert event["ts"] >= 0 and event["dur"] >= 0
                self.spans.append((*place, event["name"], event["ts"] / 1000, event["dur"] / 1000))
            elif event["ph"] == "C":
                assert all(isinstance(value, int) for value in event["args"].values())
                self.counters.append((self.processes[event["pid"]], event["name"], event["ts"] / 1000, event["args"]))
        self.check_nesting()

    def check_nesting(self):
        """On a thread, spans follow each other or lie within each other, as Perfetto wants them."""
        for place in {span[:2] for span in self.spans}:
            open_ends = []
            for span in sorted((s for s in self.spans if s[:2] == place), key=lambda s: (s[3], -s[4])):
                start, end = span[3], span[3] + span[4]
                while open_ends and open_ends[-1] <= start + 1e-9:
                    open_ends.pop()
                assert not open_ends or end <= open_ends[-1] + 1e-6, span
                open_ends.append(end)

    def of(self, process, thread=None):
        return [span for span in self.spans if span[0] == process and thread in (None, span[1])]

    @property
    def end(self):
        return max(start + duration for _, _, _, start, duration in self.spans)


@pytest.fixture
def sharded(plimsoll):
    tables = [
        constrained("tw", "table_wise", rows=500_000),
        constrained("rw", "row_wise", rows=400_000),
        constrained(
            "cached",
            "table_wise",
            rows=2_000_000,
            kernel="fused_uvm_caching",
            cache_params={
                "load_factor": 0.2,
                "prefetch_pipeline": True,
                "stats": {"expected_lookups": 1000, "cacheability": 0.2, "constant_miss_rate": 0.1},
            },
        ),
    ]
    plimsoll.write("model.json", {"tables": tables})
    flags = ("--batch-size", "256", "--pipeline-type", "train_prefetch_sparse_dist", "-o", "plan.json", "--json")
    return plimsoll.run("shard", "model.json", *HARDWARE, *flags).document


class TestSharding:
    def test_phases_wait_for_the_slowest_rank(self, plimsoll, sharded):
        trace = Trace(plimsoll.run("trace", "plan.json", "--json").document)
        ms = sharded["bill"]["ms"]
        assert max(ms["prefetch_compute"]) > 0  # every phase occurs
        start = 0
        for name, cause in PHASES:
            spans = {span[0]: span for span in trace.spans if span[2] == name}
            for rank, expected in enumerate(ms[cause]):
                if expected == 0:
                    assert f"rank {rank}" not in spans
                    continue
                _, _, _, begin, duration = spans[f"rank {rank}"]
                assert (begin, duration) == pytest.approx((start, expected), rel=1e-9)
            start += max(ms[cause])
        assert start == pytest.approx(sharded["times"]["step"])

    def test_memory_is_the_bills(self, plimsoll, sharded):
        trace = Trace(plimsoll.run("trace", "plan.json", "--json").document)
        bill = sharded["bill"]["bytes"]
        for rank in range(4):
            for tier, key in (("HBM (bytes)", "hbm"), ("DDR (bytes)", "ddr")):
                counters = [c for c in trace.counters if c[0] == f"rank {rank}" and c[1] == tier]
                held = [sum(v for k, v in c[3].items() if k not in ("dense", "kjt")) for c in counters]
                io = bill.get(f"{key}_input_output", [0] * 4)[rank]
                assert max(held) == bill[key][rank]
                assert held[-1] == bill[key][rank] - io

    def test_a_plan_of_another_program_with_its_model(self, plimsoll, sharded):
        plimsoll.run("convert", "model.json", "plan.json", *HARDWARE, "--to", "torchrec", "-o", "torchrec.json")
        assert plimsoll.run("trace", "torchrec.json", "--json", code=1).error["place"] == "--model"
        flags = ("--model", "model.json", *HARDWARE, "--batch-size", "256", "--json")
        more = ("--pipeline-type", "train_prefetch_sparse_dist")
        ours = plimsoll.run("trace", "plan.json", "--json").document
        theirs = plimsoll.run("trace", "torchrec.json", *flags, *more).document
        spans = [[e for e in d["traceEvents"] if e["ph"] == "X"] for d in (ours, theirs)]
        assert spans[0] == spans[1]

    def test_a_bare_plan_has_no_times(self, plimsoll, sharded):
        plimsoll.write("bare.json", sharded["plan"])
        error = plimsoll.run("trace", "bare.json", "--json", code=1).error
        assert (error["place"], error["message"]) == ("bare.json", "the plan states no times")


class TestCheckpointing:
    def test_the_step_of_llama(self, plimsoll):
        plimsoll.run("checkpoint", "llama-3-8b", "--budget", "70%", "-o", "policy.json")
        policy = json.loads(plimsoll.read("policy.json"))
        stats = json.loads(plimsoll.run("models", "llama-3-8b").out)
        trace = Trace(plimsoll.run("trace", "policy.json", "--model", "llama-3-8b", "--json").document)
        root = stats["mod_stats"][0]
        step = root["fw_runtime_per_module"] + root["bw_runtime_per_module"] + policy["predicted"]["recompute_ms"]
        assert trace.end == pytest.approx(step)
        again = [span for span in trace.spans if span[2].endswith(" (run again)")]
        assert {span[2][: -len(" (run again)")] for span in again} == {unit["fqn"] for unit in policy["units"]}
        assert sum(span[4] for span in again) == pytest.approx(policy["predicted"]["recompute_ms"])
        values = [counter[3]["needed"] for counter in trace.counters]
        assert max(values) == policy["predicted"]["peak_bytes"]
        starts = {span[2]: span[3] for span in trace.spans}
        # The backward pass is the forward pass reversed.
        names = [f"LlamaForCausalLM.model.layers.{i}" for i in range(32)]
        assert sorted(names, key=lambda n: starts[n + " (forward)"]) == names
        assert sorted(names, key=lambda n: starts[n + " (backward)"]) == names[::-1]

    def test_it_needs_the_statistics(self, plimsoll):
        plimsoll.run("checkpoint", "llama-3-8b", "--budget", "70%", "-o", "policy.json")
        assert plimsoll.run("trace", "policy.json", "--json", code=1).error["place"] == "--model"
        error = plimsoll.run("trace", "policy.json", "--model", "dlrm-deep-towers", "--json", code=1).error
        assert "no module" in error["message"]


class TestPlacements:
    def test_a_batch_through_a_pipeline(self, plimsoll):
        flags = ("--objective", "pipeline", "--microbatches", "8", "-o", "pipeline.json", "--json")
        answer = plimsoll.run("partition", "bert24-training", *flags).document
        trace = Trace(plimsoll.run("trace", "pipeline.json", "--json").document)
        assert trace.end == pytest.approx(answer["certificate"]["objective"])
        for stage in answer["stages"]:
            for device in stage["devices"]:
                spans = trace.of(f"device {device}", "compute")
                assert [span[2] for span in spans] == [f"microbatch {i}" for i in range(8)]
                assert {round(span[4], 9) for span in spans} == {round(stage["compute_ms"], 9)}

    def test_samples_through_a_line(self, plimsoll):
        answer = plimsoll.run("partition", "bert24-training", "-o", "line.json", "--json").document
        trace = Trace(plimsoll.run("trace", "line.json", "--json").document)
        loads = [stage["load_ms"] for stage in answer["stages"]]
        assert trace.end == pytest.approx(sum(loads) + (2 * len(loads) - 1) * max(loads))

    def test_the_steady_state_of_a_general_placement(self, plimsoll):
        flags = ("--general", "-o", "general.json", "--json")
        answer = plimsoll.run("partition", "bert24-training", *flags).document
        trace = Trace(plimsoll.run("trace", "general.json", "--json").document)
        assert trace.end == pytest.approx(answer["certificate"]["objective"])
        assert {span[2] for span in trace.spans} == {"sample 0"}

    def test_one_sample_needs_the_graph(self, plimsoll):
        flags = ("--objective", "latency", "-o", "latency.json", "--json")
        answer = plimsoll.run("partition", "bert-l3-inference", *flags).document
        assert plimsoll.run("trace", "latency.json", "--json", code=1).error["place"] == "--model"
        trace = Trace(plimsoll.run("trace", "latency.json", "--model", "bert-l3-inference", "--json").document)
        assert trace.end == pytest.approx(answer["certificate"]["objective"])

    def test_torch_fx_has_no_schedule(self, plimsoll):
        stages = [{"devices": [0], "memory_bytes": 8, "nodes": ["a"]}]
        plimsoll.write("fx.json", {"objective": "fx", "stages": stages})
        assert "no schedule" in plimsoll.run("trace", "fx.json", "--json", code=1).error["message"]

    def test_stages_of_a_profile(self, plimsoll):
        stage = {"choices": ["c"], "tensor_parallel": 1, "data_parallel": 1}
        stages = [stage | {"operators": [0], "time_ms": 2.0}, stage | {"operators": [1], "time_ms": 3.0}]
        document = {"schema": "plimsoll.pipeline_plan/1", "stages": stages}
        document["provenance"] = {"version": "0", "options": {"microbatches": "4"}, "inputs": {}, "seed": 0}
        plimsoll.write("plan.json", document)
        trace = Trace(plimsoll.run("trace", "plan.json", "--json").document)
        assert trace.end == pytest.approx(2 + 3 + 3 * 3)
        document["provenance"]["options"]["microbatches"] = str(10**9)
        plimsoll.write("plan.json", document)
        assert "events" in plimsoll.run("trace", "plan.json", "--json", code=1).error["message"]


RECORDED = {
    "schemaVersion": 1,
    "distributedInfo": {"rank": 0},
    "traceEvents": [
        {"ph": "M", "name": "process_name", "pid": 77, "tid": 0, "ts": 1000.0, "args": {"name": "python"}},
        {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 77, "tid": 77, "ts": 1000, "dur": 500},
        {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#2", "pid": 77, "tid": 77, "ts": 1600, "dur": 400.5},
        {"ph": "X", "cat": "gpu_user_annotation", "name": "ProfilerStep#2", "pid": 0, "tid": 7, "ts": 1700, "dur": 390},
        {"ph": "X", "cat": "kernel", "name": "gather", "pid": 0, "tid": 7, "ts": 1701.25, "dur": 100, "args": {"a": 1}},
        {
            "ph": "X",
            "cat": "Trace",
            "name": "PyTorch Profiler (0)",
            "pid": "Spans",
            "tid": "s",
            "ts": 1000,
            "dur": 1100,
        },
        {"ph": "i", "name": "Record Window End", "pid": "", "tid": "", "ts": 2100.0},
    ],
}


class TestBeside:
    def test_both_on_one_axis(self, plimsoll, sharded):
        plimsoll.write("recorded.json", RECORDED)
        document = plimsoll.run("trace", "plan.json", "--beside", "recorded.json", "--json").document
        trace = Trace(document)
        # The predicted step begins where the last recorded one does, 0.6 ms after the first event.
        first = min(span[3] for span in trace.spans if span[0].startswith("predicted: rank"))
        assert first == pytest.approx(0.6)
        kernel = next(event for event in document["traceEvents"] if event["name"] == "gather")
        assert (kernel["ts"], kernel["dur"], kernel["args"]) == (701.25, 100, {"a": 1})
        assert {"recorded: python", 'recorded: "Spans"', "recorded: 0"} <= set(trace.processes.values())
        assert sum(event["ph"] == "i" for event in document["traceEvents"]) == 1

    def test_another_step(self, plimsoll, sharded):
        plimsoll.write("recorded.json", RECORDED["traceEvents"])  # the list alone is a trace, too
        flags = ("--beside", "recorded.json", "--step")
        text = plimsoll.run("trace", "plan.json", *flags, "1", "-o", "out.json").out
        assert "ProfilerStep#1: 0.5 ms recorded" in text
        trace = Trace(json.loads(plimsoll.read("out.json")))
        assert min(span[3] for span in trace.spans if span[0].startswith("predicted")) == 0
        error = plimsoll.run("trace", "plan.json", *flags, "3", "--json", code=1).error
        assert "no ProfilerStep#3" in error["message"]

    def test_without_steps_the_whole_trace_counts(self, plimsoll, sharded):
        plimsoll.write("recorded.json", {"traceEvents": RECORDED["traceEvents"][4:5]})
        text = plimsoll.run("trace", "plan.json", "--beside", "recorded.json", "-o", "out.json").out
        assert "the trace: 0.1 ms recorded" in text

    @pytest.mark.parametrize("content", ["{", "{}", '{"traceEvents": 3}', '{"traceEvents": []}', "[1, null, {}]"])
    def test_no_trace(self, plimsoll, sharded, content):
        plimsoll.write("recorded.json", content)
        error = plimsoll.run("trace", "plan.json", "--beside", "recorded.json", "--json", code=1).error
        assert error["place"].startswith("recorded.json")

    def test_compressed_traces_are_named(self, plimsoll, sharded):
        error = plimsoll.run("trace", "plan.json", "--beside", "r.json.gz", "--json", code=1).error
        assert "gunzip" in error["remedy"]

    def test_a_step_needs_a_recorded_trace(self, plimsoll, sharded):
        plimsoll.run("trace", "plan.json", "--step", "1", code=1)


class TestOutput:
    def test_a_file_is_written_and_a_line_printed(self, plimsoll, sharded):
        answer = plimsoll.run("trace", "plan.json", "-o", "trace.json")
        assert answer.out.startswith("step: ") and "4 processes" in answer.out and "perfetto" in answer.out
        assert json.loads(plimsoll.read("trace.json")) == json.loads(plimsoll.run("trace", "plan.json").out)

    def test_nothing_is_written_where_it_fails(self, plimsoll):
        plimsoll.write("none.json", {"schema": "plimsoll.plan/1", "status": "limit"})
        plimsoll.run("trace", "none.json", "-o", "trace.json", code=1)
        assert not (plimsoll.folder / "trace.json").exists()
