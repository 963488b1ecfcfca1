"""No field of a checkpointing plan can be changed into a lie: every mutation is refused, or proved no longer, or
claims nothing.

checkpoint_judge_test.py PROGRAM [--stride N]: every N-th mutation of every plan (1, all of them,  by default).
"""

import collections
import random

import judged


def module(fqn, is_leaf, kept, total, **more):
    record = {
        "fqn": fqn,
        "is_leaf": is_leaf,
        "param_per_module": 5,
        "grad_total": 3,
        "act_fw_per_module": kept,
        "act_grad_per_module": 4,
        "act_total": total,
        "output_per_module": 1,
        "fw_runtime_per_module": 1.0,
        "bw_runtime_per_module": 2.0,
        "sac_runtime": 0.0,
        "sac_memory": 0,
        "n_segments": 0,
        "slopes": [],
        "intercepts": [],
        "breakpoints": [],
        "total_peak_fw": total + 9,
        "total_post_fw": total + 6,
        "total_pre_bw": total + 9,
        "total_peak_bw": total + 14,
    }
    return record | more


def inner(fqn, kept, total, memory, runtime):
    fit = {"n_segments": 2, "slopes": [0.5, 2.0], "intercepts": [0.0, -1.0], "breakpoints": [0.0, 0.6, 1.0]}
    return module(fqn, False, kept, total, sac_memory=memory, sac_runtime=runtime, **fit)


def table(runtimes, memory, **more):
    return {
        "func_names": [f"op{i % 2}" for i in range(len(runtimes))],
        "runtimes": runtimes,
        "memory": memory,
        "view_like_ops": [],
        "rand_ops": [],
        "saved_autograd_ops": [],
        "inplace_ops": [],
        "force_store_random": False,
    } | more


def stats(post_order=("R.a.x", "R.a", "R.b.x", "R.b", "R.c", "R"), scale=1):
    modules = [
        inner("R", 62, 70, 75, 9.0),
        inner("R.a", 24, 26, 30, 4.0),
        module("R.a.x", True, 9, 11),
        inner("R.b", 30, 60, 36, 3.5),
        module("R.b.x", True, 8, 38),
        module("R.c", True, 6, 69),
    ]
    for record in modules:
        for key, value in record.items():
            if isinstance(value, int) and not isinstance(value, bool) and key != "n_segments":
                record[key] = value * scale
    tables = [
        table([1.0, 0.5, 2.0, 0.5], [8 * scale, 4 * scale, 12 * scale, 0], rand_ops=[1], saved_autograd_ops=[0, 2]),
        table([0.75, 0.25, 1.5, 1.0], [9 * scale, 3 * scale, 18 * scale, 0], saved_autograd_ops=[1, 2]),
    ]
    return {
        "schema": "plimsoll.module_stats/1",
        "name": "toy",
        "torch": "2.13.0",
        "total_step_peak": 90 * scale,
        "total_before_root_bw": 80 * scale,
        "mod_order": {"fw_pre_order": [m["fqn"] for m in modules], "fw_post_order": list(post_order)},
        "mod_stats": modules,
        "sac_stats": tables,
        "sac_stats_of": {"R.a": 0, "R.b": 1},
    }


# Of a fitted price the operators are a way to keep the stated share, which is what is judged.
ADVICE = (("units.*.ops.*.save", "flip"), ("units.*.kind", "becomes *"))
PRICES = (("provenance.options.costs", "becomes *"),)  # nothing fits at any price
NO_BOUND = (("certificate", "delete"), ("certificate.lower_bound", "delete"))  # an infeasible answer has none
TORCH = ("--peak", "torch")
# b.x returns before a does.
CROSSED = stats(("R.a.x", "R.b.x", "R.a", "R.b", "R.c", "R"))
CASES = {
    "exact": judged.Case("checkpoint", stats(), ("--budget", "70B")),
    "torch_peak": judged.Case("checkpoint", stats(), ("--budget", "70B", *TORCH, "--world-size", "2")),
    "repairs": judged.Case(
        "checkpoint",
        stats(),
        ("--budget", "85B", "--repair", "saved_copies", "--repair", "recompute_working_set", "--repair", "early_stop"),
    ),
    "own_backward": judged.Case(
        "checkpoint",
        stats(),
        ("--budget", "75B", "--repair", "unit_own_backward", "--unit-overhead-ms", "0.5"),
        allowed=(("provenance.options.repairs", "delete"),),  # without it the same plan is the best
    ),
    "in_flight": judged.Case("checkpoint", stats(), ("--budget", "150B", "--in-flight", "3")),
    "milp": judged.Case("checkpoint", stats(), ("--budget", "70B", "--search", "milp")),
    "crossed": judged.Case("checkpoint", CROSSED, ("--budget", "72B")),
    "fit": judged.Case("checkpoint", stats(scale=10**6), ("--budget", "70MB", "--costs", "fit"), allowed=ADVICE),
    "overhead": judged.Case("checkpoint", stats(), ("--overhead", "3")),
    "knee": judged.Case("checkpoint", stats(), ("--knee",)),
    "frontier": judged.Case(
        "checkpoint",
        stats(),
        ("--frontier",),
        allowed=(("frontier.2.ms_per_byte", "minus 1"),),  # no byte lies between this point and the next
    ),
    "infeasible": judged.Case("checkpoint", stats(), ("--budget", "20B"), code=2, allowed=(*PRICES, *NO_BOUND)),
    "torch": judged.Case(
        "checkpoint",
        stats(scale=10**8),
        ("--budget", "8GB", "--search", "torch", "--variant", "torch-2.13"),
        status="not_repeated",
        # Nothing is proved, a byte is slack, prices are torch's own, and both peaks of this plan are one.
        allowed=(
            *ADVICE,
            ("status", "becomes feasible"),
            ("provenance.options.peak", "becomes torch"),
            ("provenance.options.costs", "becomes *"),
            ("*", "delete"),
            ("profile", "empty"),
            ("predicted.peak_bytes", "plus *"),
        ),
    ),
}


class CheckpointMutations(judged.Mutations):
    families = (
        ("optimal", "feasible", "infeasible", "limit"),
        ("finished", "effort", "deadline", "cancelled"),
        ("full", "selective"),
        ("save", "recompute"),
        ("exact", "milp", "torch"),
        ("step", "torch"),
        ("operators", "fit"),
        ("torch-2.13", "reference"),
    )
    allowed = (
        # How the run went and what it was called.
        ("stop", "*"),
        ("provenance.version", "*"),
        ("provenance.seed", "*"),
        ("provenance.options.search", "becomes *"),  # of exact and milp the same is judged
        ("provenance.options.variant", "*"),
        # Prose; claims stand in fields of their own.
        ("certificate.proof", "*"),
        ("warnings*", "*"),
        # An estimate of what another GiB would save; no plan is claimed for it.
        ("predicted.price_ms_per_gib", "*"),
        # Follows from other fields, or is the reader's default.
        ("schema", "delete"),
        ("certificate.gap", "delete"),
        ("units.*.memory_budget", "delete"),
        ("units.*.ops", "delete"),
        ("units.*.ops", "empty"),
        ("units.*.rng", "delete"),
        ("predicted.binding", "delete"),
        ("world_size", "delete"),
        ("torch", "delete"),
        ("certificate.gap", "times *"),  # of rounding alone
        ("frontier*.is_exact", "delete"),
        ("frontier*.ms_per_byte", "delete"),  # of a step, the default
        # The certificate is of the budget that is stated, or of the plan's own peak, and may hold there.
        ("budget_bytes", "*"),
    )

    def test_plans_that_a_rule_made_worse(self):
        """Statistics drawn at random, planned with few units allowed, which the plan then does not say."""
        seen = collections.Counter()
        for seed in range(400 if judged.STRIDE == 1 else 40):
            model = drawn(random.Random(seed))
            budget = ("--budget", f"{60 + seed % 40}B")
            more = ((), ("--in-flight", "2"), ("--search", "milp"), ("--peak", "torch"))[seed % 4]
            if "--in-flight" in more:
                budget = ("--budget", f"{120 + seed % 60}B")
            narrow = (*budget, *more, "--ac-unit", ("R", "R.a", "R.b")[seed % 3])
            seen[self.check_widened(f"seed {seed}", model, "checkpoint", narrow, (*budget, *more), ("ac_units",))] += 1
        self.assertGreater(seen["worse"], 3, seen)
        self.assertGreater(seen["best"], 3, seen)


def drawn(draw):
    model = stats(
        ("R.a.x", "R.b.x", "R.a", "R.b", "R.c", "R")
        if draw.random() < 0.3
        else ("R.a.x", "R.a", "R.b.x", "R.b", "R.c", "R")
    )
    for record in model["mod_stats"]:
        record["total_peak_bw"] += draw.randrange(12)
        record["act_grad_per_module"] = draw.randrange(9)
    for operators in model["sac_stats"]:
        count = len(operators["runtimes"])
        operators["runtimes"] = [draw.choice((0.0, 0.25, 1.0, draw.random())) for _ in range(count)]
        operators["memory"] = [draw.randrange(10) for _ in range(count)]
        operators["rand_ops"] = [i for i in range(count) if draw.random() < 0.3]
        operators["force_store_random"] = draw.random() < 0.5
        operators["view_like_ops"] = [i for i in range(count) if draw.random() < 0.1]
        operators["inplace_ops"] = [[i, draw.randrange(i + 1)] for i in range(1, count) if draw.random() < 0.15]
    return model


judged.add_cases(CheckpointMutations, CASES)

if __name__ == "__main__":
    judged.main()
