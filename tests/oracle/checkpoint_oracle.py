"""Activation checkpointing of small trees of modules: budget, overhead, frontier, pipeline stages.

Both costs, both peaks, all repairs, runs of modules and nested units. Every plan is tried (checkpoint_case.py).
"""

from campaign import is_near, judge_answer, main, require
from checkpoint_case import Case
from checkpoint_problems import REPAIRS, Maker, random_flags


def least_ms(plans, budget):
    return min((ms for peak, ms in plans if peak <= budget), default=None)


def judge_check(program):
    code, report = program.run("check", "stats.json", "policy.json")
    require(code == 0 and report["is_right"], "check:", report)


def judge_budget(program, random, case, words):
    plans = case.peaks()
    most = max(*case.base, case.end or 0) + (case.in_flight - 1) * case.root["act_total"]
    budget = max(0, random.randint(min(p for p, _ in plans) - 2, most + 1))  # a size
    words = [*words, "--budget", f"{budget}B"]
    search = "exact"
    if case.flags["segments"] == 1 and not case.flags["nested"] and random.randrange(4) == 0:
        search = "milp"
    code, answer = program.run("checkpoint", "stats.json", *words, "--search", search, "-o", "policy.json")
    ms = None
    if "units" in answer:
        peak, ms = case.judge_plan(answer)
        require(peak <= budget, "peak", peak, "above the budget", budget)
        require(answer["predicted"]["peak_bytes"] == peak, "peak", peak, "not", answer["predicted"])
    judge_answer(code, answer, value_of_plan=ms, optimum=least_ms(plans, budget))
    if ms is not None:
        judge_check(program)
    if search == "exact":
        require(answer["status"] in ("optimal", "infeasible"), "the exact search says", answer["status"])
    return f"{search} {answer['status']}"


def judge_overhead(program, random, case, words):
    """The least memory whose recomputation takes at most this."""
    plans = case.peaks()
    allowed = random.randint(0, 24) / 8 + 1 / 64
    code, answer = program.run("checkpoint", "stats.json", *words, "--overhead", str(allowed), "-o", "policy.json")
    require(code == 0, "exit code", code, answer)
    peak, ms = case.judge_plan(answer)
    require(ms <= allowed * (1 + 1e-9), "takes", ms, "more than", allowed)
    best = min(p for p, t in plans if t <= allowed)
    require(peak == best, "peak", peak, "the least is", best)
    judge_check(program)
    return "overhead"


def judge_frontier(program, random, case, words):
    plans = case.peaks()
    code, answer = program.run("checkpoint", "stats.json", *words, "--frontier", "-o", "policy.json")
    require(code == 0, "exit code", code, answer)
    points = answer["frontier"]
    least = min(p for p, _ in plans)
    require(points[0]["bytes"] == least, "begins at", points[0], "the least budget is", least)
    for budget in range(least, max(p for p, _ in plans) + 3):
        point = [p for p in points if p["bytes"] <= budget][-1]
        ms = point["ms"] + point.get("ms_per_byte", 0) * (budget - point["bytes"])
        best = least_ms(plans, budget)
        require(is_near(ms, best, 1e-8), "at", budget, "bytes", ms, "not", best)
    judge_check(program)
    return "frontier"


def oracle(program, random):
    costs = random.choice(["operators", "fit"])
    document = Maker(random, costs).make()
    flags, words = random_flags(random, document, costs)
    judge = random.choice([judge_budget, judge_budget, judge_overhead, judge_frontier])
    in_flight = random.choice([1, 1, 2, 3, 5]) if judge is judge_budget else 1
    case = Case(document, flags, in_flight)
    if in_flight > 1:
        words += ["--in-flight", str(in_flight)]
    program.write("stats.json", document)
    word = judge(program, random, case, words)
    words = [f"{costs} {word}", *flags["repairs"]]
    for kind in ("segments", "nested", "in flight", "fsdp buffers"):
        value = in_flight if kind == "in flight" else flags[kind.replace(" ", "_")]
        words += [f"{kind} {word}"] if value > (kind in ("segments", "in flight")) else []
    return words


if __name__ == "__main__":
    needed = [f"{costs} {word}" for costs in ("fit", "operators") for word in ("exact optimal", "frontier", "overhead")]
    kinds = ("segments", "nested", "in flight", "fsdp buffers")
    main(oracle, [*needed, *REPAIRS, *(f"{kind} exact optimal" for kind in kinds)])
