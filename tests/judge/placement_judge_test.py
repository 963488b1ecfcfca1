"""No field of a placement, of torch.fx's partitions or of a plan of a profile can be changed into a lie: every mutation
is refused, or proved no longer, or claims nothing.

placement_judge_test.py PROGRAM [--stride N]: every N-th mutation of every plan (1, all of them,  by default).
"""

import collections
import random

import judged


def cost_graph(**more):
    """Two chains that meet, on three accelerators and a CPU."""
    nodes = [
        {"name": name, "time_ms": {"gpu": gpu, "cpu": 8 * gpu}, "memory_bytes": size}
        for name, gpu, size in (("a", 1.0, 10), ("b", 2.0, 20), ("c", 1.5, 5), ("d", 2.5, 15), ("e", 0.75, 8))
    ]
    return {
        "schema": "plimsoll.cost_graph/1",
        "classes": [
            {"name": "gpu", "count": 3, "memory_cap": 40, "link_rate": 4.0},
            {"name": "cpu", "count": 1},
        ],
        "nodes": nodes,
        "nets": [
            {"producer": "a", "consumers": ["b", "c"], "amount": 1.0},
            {"producer": "b", "consumers": ["d"], "amount": 2.0},
            {"producer": "c", "consumers": ["d"], "amount": 0.5},
            {"producer": "d", "consumers": ["e"], "amount": 1.5},
        ],
        "weights": [{"name": "w", "bytes": 6, "readers": ["b", "d"]}],
    } | more


def tight():
    graph = cost_graph()
    graph["classes"] = [{"name": "gpu", "count": 2, "memory_cap": 12, "link_rate": 4.0}]
    for node in graph["nodes"]:
        node["time_ms"].pop("cpu")
    return graph


def fx_graph():
    def operator(name, args, latency):
        return {"name": name, "op": "call_function", "target": "t", "args": args, "output_size": 4, "total_size": 10}

    names = (("p", ["x"]), ("q", ["p"]), ("r", ["p"]), ("s", ["q", "r"]))
    return {
        "schema": "plimsoll.fx_graph/1",
        "nodes": [
            {"name": "x", "op": "placeholder", "target": "x", "output_size": 2, "total_size": 2},
            *(operator(name, args, 1) for name, args in names),
            {"name": "output", "op": "output", "target": "output", "args": ["s"], "output_size": 4, "total_size": 4},
        ],
        "devices": [{"name": "d0", "mem": 28, "id": 0}, {"name": "d1", "mem": 30, "id": 1}],
        "mode": "cost_aware",
        "transfer_rate": 8.0,
        "latency": {"p": [1.0, 2.0], "q": [2.0, 1.0], "r": [1.5, 1.0], "s": [0.5, 0.25]},
    }


GRAPH_TXT = "\n".join(
    [
        *(
            f"node{i} -- Layer{i}() -- forward_compute_time={f:.3f}, backward_compute_time={2 * f:.3f}, "
            f"activation_size={a:.1f}, parameter_size={p:.3f}"
            for i, (f, a, p) in enumerate(
                ((0.0, 64.0, 0.0), (2.0, 96.0, 500.0), (3.0, 48.0, 800.0), (1.5, 32.0, 90.0)), 1
            )
        ),
        *(f"\tnode{i} -- node{i + 1}" for i in (1, 2, 3)),
        "",
    ]
)

BATCH = ("--objective", "pipeline", "--microbatches", "4")
# The claim is judged under the rules and for the search that the plan names, and may hold there.
RULES = (("provenance.options.pin*", "*"), ("provenance.options.forbid*", "*"))
SEARCH = (("provenance.options.search", "becomes *"),)
# A bound of all placements is one of the contiguous ones.
NARROWER = (("provenance.options.search", "becomes contiguous"),)
# An infeasible answer's certificate says nothing more.
NO_BOUND = (("certificate", "delete"), ("certificate.lower_bound", "delete"))
# What PipeDream's own optimizer minimizes is its own estimate.
PIPEDREAM = (*SEARCH, ("certificate.objective", "*"))
CASES = {
    "contiguous": judged.Case("partition", cost_graph()),
    "general": judged.Case("partition", cost_graph(), ("--general",), allowed=NARROWER),
    "pins": judged.Case("partition", cost_graph(), ("--pin", "b=1", "--forbid", "d=0"), allowed=RULES),
    "pairs": judged.Case(
        "partition",
        cost_graph(pair_rates=[[0, 2, 3, 4], [2, 0, 1, 4], [3, 1, 0, 4], [4, 4, 4, 0]]),
        ("--general",),
        allowed=NARROWER,
    ),
    "latency": judged.Case("partition", cost_graph(), ("--objective", "latency")),
    "pipeline": judged.Case("partition", cost_graph(), BATCH),
    "straight": judged.Case("partition", cost_graph(), (*BATCH, "--straight")),
    "infeasible": judged.Case("partition", tight(), code=2, allowed=(*SEARCH, *NO_BOUND)),
    "fx": judged.Case("partition", fx_graph(), ("--objective", "fx")),
    # No bound is claimed, so that whatever is left out claims less.
    "torch": judged.Case("partition", fx_graph(), (), status="absent", allowed=(("*", "delete"),)),
    "profile": judged.Case("partition", GRAPH_TXT, ("--devices", "3", "--bandwidth", "1MB/s")),
    "profile_batch": judged.Case("partition", GRAPH_TXT, ("--devices", "3", "--bandwidth", "1MB/s", *BATCH)),
    "pipedream": judged.Case(
        "partition",
        GRAPH_TXT,
        ("--devices", "3", "--search", "pipedream"),
        status="absent",
        allowed=(("*", "delete"), *PIPEDREAM),
    ),
}


class PlacementMutations(judged.Mutations):
    families = (
        ("optimal", "feasible", "infeasible", "limit"),
        ("finished", "effort", "deadline", "cancelled"),
        ("throughput", "latency", "pipeline", "fx"),
        ("slowest_stage", "batch"),
        ("contiguous", "general", "latency", "replicated", "critical_path", "pipedream"),
        ("gpu", "cpu"),
        ("torch-1.13", "torch-2.13"),
    )
    allowed = (
        # How the run went and what it was called.
        ("stop", "*"),
        ("provenance.version", "*"),
        ("provenance.seed", "*"),
        ("provenance.options.effort", "*"),
        ("provenance.options.tolerance", "*"),
        ("provenance.options.variant", "*"),
        # Prose; claims stand in fields of their own.
        ("certificate.proof", "*"),
        ("warnings*", "*"),
        ("failure*", "*"),
        # Follows from other fields, or is the reader's default.
        ("schema", "delete"),
        ("certificate.gap", "delete"),
        # Figures of a stage that are left out claim nothing; those of all devices are computed.
        ("stages.*.class", "delete"),
        ("stages.*.*_ms", "delete"),
        ("stages.*.in_flight", "delete"),
        ("stages.*.memory_cap", "delete"),
        ("stages.*.id", "delete"),  # by default its place
        ("certificate.gap", "times *"),  # of rounding alone
        ("calls.*.devices.*", "repeat"),  # torch names a device twice
        ("calls", "delete"),
        ("calls", "empty"),
        ("node_to_partition", "delete"),
    )

    def test_plans_that_a_rule_made_worse(self):
        """Graphs drawn at random, planned with pins, which the plan then does not say."""
        seen = collections.Counter()
        for seed in range(200 if judged.STRIDE == 1 else 24):
            draw = random.Random(seed)
            graph = cost_graph()
            for node in graph["nodes"]:
                node["time_ms"]["gpu"] = draw.choice((0.5, 1.0, 2.0, 3.0))
            for net in graph["nets"]:
                net["amount"] = draw.choice((0.0, 0.5, 2.0))
            more = ((), ("--general",), ("--objective", "latency"))[seed % 3]
            pins = ("--pin", f"{draw.choice('abc')}=3")  # the CPU
            seen[self.check_widened(f"seed {seed}", graph, "partition", (*more, *pins), more, ("pin",))] += 1
        self.assertGreater(seen["worse"], 3, seen)

    def test_batches_on_more_stages_than_the_plan_says(self):
        seen = collections.Counter()
        for seed in range(60 if judged.STRIDE == 1 else 8):
            draw = random.Random(seed)
            graph = cost_graph()
            for node in graph["nodes"]:
                node["time_ms"]["gpu"] = draw.choice((0.5, 1.0, 2.0, 3.0))
            for net in graph["nets"]:
                net["amount"] = draw.choice((0.0, 0.25, 0.5))
            flags = ("--objective", "pipeline", "--microbatches", "4")
            seen[
                self.check_widened(f"seed {seed}", graph, "partition", (*flags, "--straight"), flags, ("straight",))
            ] += 1
        self.assertGreater(seen["worse"], 1, seen)


judged.add_cases(PlacementMutations, CASES)

if __name__ == "__main__":
    judged.main()
