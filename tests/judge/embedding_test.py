"""No field of an embedding plan can be changed into a lie: every mutation is refused, or claims nothing.

embedding_test.py PROGRAM [--stride N]: every N-th mutation of every plan (1, all of them,  by default).
"""

import collections
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "app"))
import mutate
import program

PROGRAM = os.path.abspath(sys.argv[1])
STRIDE = 1
FAMILIES = (
    ("optimal", "feasible", "infeasible", "limit"),
    ("finished", "effort", "deadline", "cancelled"),
    ("rating", "step", "time"),
    ("data_parallel", "table_wise", "column_wise", "row_wise", "table_row_wise", "table_column_wise", "grid_shard"),
    ("dense", "fused", "fused_uvm", "fused_uvm_caching", "key_value"),
    (
        "none",
        "average",
        "filtered",
        "windows",
        "patterns",
        "branched_patterns",
        "branched_choices",
        "barriers",
        "barrier_patterns",
        "memory",
    ),
    ("balanced", "torchrec"),
    ("perf", "storage"),
    ("cuda", "cpu"),
    ("torchrec-1.4", "torchrec-1.8", "torchrec-1.9"),
    ("greedy_perf", "memory_balanced"),
    ("heuristical", "fixed_percentage"),
    ("assumed", "given"),
    ("fatal", "warning", "ignore", "none"),
    ("fp32", "fp16", "bf16"),
)

# What says nothing that could be false of the plan: how the run went and what it was called.
HISTORY = (
    "stop",
    "provenance.version",
    "provenance.seed",
    "provenance.options.effort",
    "provenance.options.on",  # a file's name; the topology is known by its hash
    "provenance.options.search",  # every claim is judged whatever search is named
    "provenance.options.tolerance",  # what its maker counts as optimal; the judge has a tolerance of its own
)
# Prose; claims stand in fields of their own.
TEXT = (
    "warnings*",
    "failure*",
    "certificate.proof",
    "certificate.bound.binding_resource",  # what to change where nothing fits; that nothing fits is judged
    "certificate.bound.missing",
    "certificate.bound.stuck_unit",
)
# A witness is whatever the judge's own arithmetic accepts: one that is changed and still proves the bound is a proof.
WITNESS = (
    "certificate.bound.kind_of_rank*",
    "certificate.bound.cases.*.paid",
    "certificate.bound.cases.*.forbidden",
    "certificate.bound.cases.*.method",
    "certificate.bound.cases.*.prices*",
    "certificate.bound.cases.*.windows*",
    "certificate.bound.cases.*.choices*",
    *(
        f"frontier_proofs.*.bound.{part}"
        for part in (
            "kind_of_rank*",
            "cases.*.paid",
            "cases.*.forbidden",
            "cases.*.method",
            "cases.*.prices*",
            "cases.*.windows*",
            "cases.*.choices*",
            "binding_resource",
            "missing",
            "stuck_unit",
        )
    ),
)
# Who leaves out a whole claim claims less, and all that is left is judged as before.
LEFT_OUT = (
    "schema",
    "rating",
    "objective",  # stands among the options, too
    "times",
    "reference",
    "bill",
    "certificate",
    "certificate.gap",  # follows from the other two
    "certificate.lower_bound",
    "certificate.bound",
    "frontier",
    "frontier_bound",
    "frontier_proofs",  # judged without them as every bound without prices is
    "frontier_proofs.*.bound",
    "provenance",
    "provenance.*",  # counts as its default, and everything is judged with that
    "options.*.storage_hash",
    "options.*.shards",
)
# The same said in more runs or fewer, or what the reader takes for granted.
SAME = (
    ("plan.compute_device", "delete"),
    ("*.count", "delete"),
    ("*.row_stride", "*"),  # of one shard
    ("provenance.options.step_model", "word 6 becomes *"),  # whether anything was measured
    ("certificate.bound.*_*", "delete"),  # of what is missing where nothing is
    ("certificate.bound.cases.*.value", "a number"),  # a case without a plan is not below any number
    ("certificate.bound.cases.*", "repeat"),  # a case that is another's copy
    ("frontier_proofs.*.bound.cases.*", "repeat"),
    ("*bound.method", "becomes *"),  # of several cases that have the least value
    ("provenance.options.max_column_blocks", "*"),  # proved of more options than were searched
    ("provenance.options.keeps_reference_rating", "flip"),  # what was asked for; cap and figures are judged
    ("provenance.options.uses_reference", "flip"),
    # One column block is one group of hosts; of one host all ranks are of a host. The plan is right, and as fast.
    ("*plan*.tables.*.sharding_type", "becomes grid_shard"),
    ("*plan*.tables.*.sharding_type", "becomes table_column_wise"),
    ("provenance.options.pools_ddr", "flip"),  # plan and bound hold with pools, too, or are refused
    ("certificate.gap", "times *"),  # below what the sums of both may be rounded by; else an error
    ("options.*.shards", "empty"),  # as if left out
    ("options.*.shards.*", "delete"),  # of bytes that are 0, or all shards of a table
    ("frontier*.*", "delete"),  # of a slope and of what is exact the defaults
    ("frontier_proofs", "empty"),  # as if left out
    # A curve that claims less: bounds that begin later, or are lower.
    ("frontier_bound.*.bytes", "plus 1"),  # the judge's own prices may prove more than the search's
    *((f"frontier_bound.*.{key}", change) for key in ("bytes", "ms") for change in ("times 0.5", "minus 1")),
)
# Of a dump: how the reference searches; its figures are judged where they are stated.
REFERENCE = tuple(f"provenance.options.{key}" for key in ("partitioner", "proposers", "balance_modules", "perf_model"))
# Of an answer without a plan: how times would be counted.
TIMES = tuple(f"provenance.options.{key}" for key in ("step_model", "objective"))


def table(name, rows, columns, **constraints):
    return program.table(name, rows, columns, constraints=constraints)


def model_of(count, **more):
    rows = (4000000, 1000000, 200000, 4096)
    tables = [table(f"t{i}", rows[i], 128 if i % 2 == 0 else 64, pooling_factors=[3 + 7 * i]) for i in range(count)]
    return {"modules": [{"path": "ebc", "tables": tables}], **more}


def dump():
    classes, options = [], []
    for i, (rows, ms) in enumerate(((1000, 1.0), (64, 2.0), (4096, 5.0))):
        for kind, count, share, size in (
            ("table_wise", 1, 1, [rows, 64]),
            ("column_wise", 2, 2, [rows, 32]),
            ("row_wise", 4, 4, [rows // 4, 64]),
            ("table_row_wise", 2, 2, [rows // 2, 64]),
        ):
            parts = [ms / share / 5] * 5
            classes.append([rows * 256 // share, 0, 0, sum(parts), *parts])
            options.append(
                {
                    "fqn": f"m.t{i}",
                    "sharding_type": kind,
                    "compute_kernel": "fused",
                    "rows": rows,
                    "columns": 64,
                    "shards": [len(classes) - 1] * count,
                    "sizes": [size] * count,
                    "storage_hash": 2**50 + len(options),
                }
            )
    return {
        "schema": "plimsoll.torchrec_options/1",
        "torchrec": "1.8.0",
        "world_size": 4,
        "local_world_size": 2,
        "room": [[2**29, 0, 0]] * 4,
        "context_hash": "abc",
        "shard_classes": classes,
        "options": options,
    }


def constrained():
    """What the runtime is told beside the cut."""
    model = model_of(2)
    model["modules"][0]["tables"][0]["constraints"] |= {
        "enforce_hbm": True,
        "stochastic_rounding": False,
        "bounds_check_mode": "warning",
        "output_dtype": "fp16",
        "compute_kernels": ["fused_uvm_caching"],
        "cache_params": {"load_factor": 0.25, "reserved_memory": 8.0, "precision": "fp16", "prefetch_pipeline": True},
    }
    return model


ON = ("--on", "4x8GiB", "--local-world-size", "2")
SMALL = ("--on", "2x1GiB", "--ddr-cap", "0.01GiB")
RULES = {"allowed_ranks": {"ebc.t0": [1, 2]}, "apart": [["ebc.t1", "ebc.t2"]]}
CASES = {  # model, hardware, flags of the search, exit code
    "default": (model_of(4), ON, (), 0),
    "rating": (model_of(3), ON, ("--objective", "rating"), 0),
    "step": (model_of(3), ON, ("--objective", "step"), 0),
    "time": (model_of(3), ON, ("--objective", "time", "--pool-ddr"), 0),
    "machine": (model_of(3), (*ON, "--machine", "h100-sxm5-80gb"), (), 0),
    "widths": (model_of(2), ON, ("--objective", "rating", "--widths", "all"), 0),
    "rules": (model_of(3), ON, ("--objective", "rating", "--rules", "rules.json"), 0),
    "frontier": (model_of(2), ON, ("--objective", "rating", "--frontier"), 0),
    "frontier_time": (model_of(3), ON, ("--objective", "time", "--frontier"), 0),
    "dump_frontier": (dump(), (), ("--frontier",), 0),
    "constraints": (constrained(), ON, ("--objective", "rating"), 0),
    "torchrec": (model_of(3, optimizer="adam"), ON, ("--search", "torchrec", "--batch-size", "64"), 0),
    "storage": (model_of(2), ON, ("--search", "torchrec", "--perf-model", "storage"), 0),
    "infeasible": (model_of(3), SMALL, (), 2),
    "infeasible_torchrec": (model_of(3), SMALL, ("--search", "torchrec"), 2),
    "dump": (dump(), (), (), 0),
    "dump_torchrec": (dump(), (), ("--search", "torchrec"), 0),
    "dump_infeasible": (dump() | {"room": [[1, 1, 0]] * 4}, (), (), 2),
}


def is_whole(mutation):
    """Is the table of this sharding type one shard, as which all types but those of rows are charged alike?"""
    table = mutation.document
    for word in mutation.path.split(".")[:-1]:
        table = table[int(word) if word.isdigit() else word]
    return sum(run.get("count", 1) for run in table["shards"]) == 1


def is_refuted_by_a_plan(mutation):
    """Does the curve of bounds, one of which begins later, deny a plan of the curve beside it?"""
    number = int(mutation.path.split(".")[1])
    bounds = mutation.document["frontier_bound"]
    floor = bounds[number - 1]["ms"] if number > 0 else float("inf")
    return any(
        plan["bytes"] < bounds[number]["bytes"] and plan["ms"] < floor * (1 - 1e-9)
        for plan in mutation.document["frontier"]
    )


def may_stand(mutation, name):
    """Is what the mutated plan says no lie?"""
    path, change, _ = mutation
    if mutate.matches(path, ["*plan*.tables.*.sharding_type"]) and change == "becomes column_wise":
        return is_whole(mutation)
    if mutate.matches(path, ["frontier_bound.*.bytes"]) and mutate.matches(change, ["times 1.5", "times 2"]):
        return not is_refuted_by_a_plan(mutation)  # the judge's own prices may prove more than the search's
    if name == "dump_torchrec" and (path, change) == ("status", "becomes feasible"):
        return True  # the plan is the reference's, and its bound is stated beside it
    of_case = (REFERENCE if "dump" in name else ()) + (TIMES if "infeasible" in name else ())
    if mutate.matches(path, HISTORY + TEXT + WITNESS + of_case):
        return True
    if change == "delete" and mutate.matches(path, LEFT_OUT):
        return True
    return any(mutate.matches(path, [p]) and mutate.matches(change, [c]) for p, c in SAME + mutate.SAYS_LESS)


class Mutations(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_program(self, *arguments):
        return subprocess.run(
            [PROGRAM, *arguments], cwd=self.folder, capture_output=True, text=True, timeout=300, check=False
        )

    def judge(self, name, on):
        done = self.run_program("check", "model.json", name, *on, "--json")
        report = json.loads(done.stdout)
        return done.returncode, report.get("certificate_status"), report

    def judge_mutation(self, number, mutation, on):
        name = f"mutation_{number}.json"
        (self.folder / name).write_text(json.dumps(mutation.document))
        try:
            return self.judge(name, on)
        finally:
            (self.folder / name).unlink()

    def check_case(self, name):
        model, on, flags, code = CASES[name]
        (self.folder / "model.json").write_text(json.dumps(model))
        (self.folder / "rules.json").write_text(json.dumps(RULES))
        done = self.run_program("shard", "model.json", *on, *flags, "--effort", "20000", "-o", "plan.json")
        self.assertEqual(done.returncode, code, done.stderr)
        exit_code, status, report = self.judge("plan.json", on)
        self.assertEqual((exit_code, status), (0, "proved"), report)
        explained = report.get("explanation_status")
        self.assertEqual(explained, "proved" if "infeasible" in name else None, report)
        plan = json.loads((self.folder / "plan.json").read_text())
        begin = sum(map(ord, name)) % STRIDE  # another part of every plan
        chosen = list(mutate.mutations(plan, FAMILIES))[begin::STRIDE]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            verdicts = list(pool.map(lambda i: self.judge_mutation(i, chosen[i], on), range(len(chosen))))
        lived = collections.Counter()
        num_refused = 0
        for mutation, (exit_code, status, report) in zip(chosen, verdicts):
            self.assertIn(exit_code, (0, 1, 5), mutation[:2])
            num_refused += exit_code != 0
            if exit_code == 0 and status == "proved" and report.get("explanation_status") == explained:
                if not may_stand(mutation, name):
                    lived[f"{mutation.path}: {mutation.change}"] += 1
        self.assertEqual(dict(lived), {})
        self.assertGreater(num_refused, len(chosen) / 6)


for case in CASES:
    setattr(Mutations, f"test_{case}", lambda self, case=case: self.check_case(case))

if __name__ == "__main__":
    if "--stride" in sys.argv:
        place = sys.argv.index("--stride")
        STRIDE = int(sys.argv[place + 1])
        del sys.argv[place : place + 2]
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
