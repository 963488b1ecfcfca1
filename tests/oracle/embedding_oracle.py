"""Tables over few ranks: rating, step, time and time under the reference's rating; models and dumps.

Every plan is tried (embedding_case.py). Of a dump everything follows from the documentation; of a model the options and
what their shards take come from plimsoll-model-options, the third argument after the program: see model_options.cc.
"""

import json
import os
import subprocess
import sys

from campaign import is_near, judge_answer, main, require
from embedding_case import Case
from embedding_problems import DumpMaker, ModelMaker, random_rules, random_step_model
from machine_case import MachineTimes, random_machine

EFFORT = 20000  # small instances with a gap would use the default up
MANY_PLANS = 4000  # instances with more are left out
CAP_LEEWAY = 1e-9  # relative, of the reference's rating


def read_options(program, flags):
    """Of a model, as a dump with more keys; None where the tables have no option or nothing is left to reserve."""
    command = [os.path.abspath(sys.argv[4]), *flags]
    done = subprocess.run(command, cwd=program.folder, capture_output=True, text=True, timeout=60)
    if done.returncode == 1:
        return None
    require(done.returncode == 0, "options of the model", done.returncode, done.stderr)
    dump = json.loads(done.stdout)
    return dump if dump["room"] else None


class Instance:
    """Documents in the program's folder, and the case that they mean."""

    def __init__(self, program, random):
        self.random, self.program = random, program
        self.objective = random.choice(["rating", "step", "time", None, None])
        self.is_model = random.randrange(2) == 0
        has_hazards, has_key_values = random.randrange(3) == 0, random.randrange(3) == 0
        self.speeds = None
        self.is_wide = self.has_replicas = False
        self.command = ["model.json", "--on", "topology.json"] if self.is_model else ["dump.json"]
        if self.is_model:
            dump = self.make_model(has_hazards, has_key_values)
        else:
            dump = DumpMaker(random, has_hazards=has_hazards, has_key_values=has_key_values).make()
            program.write("dump.json", dump)
        self.case = None
        if dump is not None:
            self.add_settings(dump)

    def make_model(self, has_hazards, has_key_values):
        random = self.random
        has_speeds = random.randrange(5) == 0
        self.has_machine = random.randrange(3) > 0
        has_replicas = self.has_machine and random.randrange(3) > 0
        if has_replicas:
            self.objective = random.choice(["time", None])
        maker = ModelMaker(random, has_hazards=has_hazards, has_key_values=has_key_values, has_speeds=has_speeds)
        model, topology = maker.make()
        if has_replicas and not has_key_values:
            maker.allow_replicas(model)
        self.speeds = topology.get("device_speeds")
        self.program.write("model.json", model)
        self.program.write("topology.json", topology)
        batch_size = random.choice([1, 64, 4096, 30000])  # of the last, tables are small
        self.described = model, topology, batch_size
        self.command += ["--batch-size", str(batch_size)]
        self.command += ["--reservation", random.choice(["fixed_percentage:0", "fixed_percentage:0.25"])]
        self.command += [
            "--cost-model",
            random.choice(["torchrec-1.4", "torchrec-1.8", "torchrec-1.9", "torchrec-1.9"]),
        ]
        self.is_wide = random.randrange(2 if has_hazards else 3) == 0
        return read_options(self.program, [*self.command, *(["--widths-all"] if self.is_wide else [])])

    def add_settings(self, dump):
        random, program = self.random, self.program
        rules, step_model = {}, None
        self.flags = ["--effort", str(EFFORT)]
        if self.objective is not None:
            self.flags += ["--objective", self.objective]
        if self.is_wide:
            self.flags += ["--widths", "all"]
        if random.randrange(3) == 0:
            rules = random_rules(random, list(dict.fromkeys(o["fqn"] for o in dump["options"])), dump["world_size"])
            program.write("rules.json", rules)
            self.flags += ["--rules", "rules.json"]
        if self.objective in ("time", None) and random.randrange(2):
            step_model = random_step_model(random, has_output_bytes=self.is_model)
            program.write("step.json", step_model)
            self.flags += ["--step-model", "step.json"]
        pools_ddr = random.randrange(6) == 0
        if pools_ddr:
            self.flags += ["--pool-ddr"]
        machine = self.make_machine(dump) if self.is_model and self.has_machine else None
        self.case = Case(
            dump, rules=rules, step_model=step_model, pools_ddr=pools_ddr, speeds=self.speeds, machine=machine
        )

    def make_machine(self, dump):
        model, topology, batch_size = self.described
        document = random_machine(self.random, per_domain=dump["group_size"], optimizer=model["optimizer"])
        self.program.write("machine.json", document)
        self.command += ["--machine", "machine.json"]
        return MachineTimes(document, model, topology, batch_size, dump)

    def chosen(self, answer):
        """(option, ranks in shard order) of every table."""
        dump = self.case.dump
        if not self.is_model:
            for entry in answer["options"]:
                require(dump["options"][entry["option"]]["fqn"] == entry["fqn"], "another table's option:", entry)
            return [(dump["options"][entry["option"]], entry["ranks"]) for entry in answer["options"]]
        found = []
        for entry in answer["plan"]["tables"]:
            fqn = f"{entry['module_path']}.{entry['table']}"
            sizes = [[s["rows"], s["columns"]] for s in entry["shards"] for _ in range(s["count"])]
            ranks = [run["first"] + i for run in entry["ranks"] for i in range(run["count"])]
            key = (fqn, entry["sharding_type"], entry["compute_kernel"], sizes)
            options = [
                o for o in dump["options"] if (o["fqn"], o["sharding_type"], o["compute_kernel"], o["sizes"]) == key
            ]
            require(len(options) == 1, "no such option, or several:", key)
            found.append((options[0], ranks))
            self.has_replicas |= entry["sharding_type"] == "data_parallel"
        return found

    def check(self):
        words = ["model.json" if self.is_model else "dump.json", "answer.json"]
        if self.is_model:
            words += ["--on", "topology.json"]
        if self.case.machine is not None:
            words += ["--machine", "machine.json"]
        code, report = self.program.run("check", *words)
        require(code == 0 and report["is_right"], "check:", report)
        require(report["certificate_status"] in ("proved", "not_repeated"), "check:", report)


def has_warning(answer, code):
    return any(warning["code"] == code for warning in answer.get("warnings", []))


def judge_reference(instance, answer):
    """The reference's rating, None where it found no plan; its search is run by itself."""
    code, reference = instance.program.run("shard", *instance.command, "--search", "torchrec")
    stated = answer.get("reference", {}).get("rating")
    if code != 0:
        require(stated is None, "the reference found nothing, and is said to rate", stated)
        return None
    require(stated is not None and is_near(stated, reference["rating"]), "reference", stated, reference["rating"])
    return reference["rating"]


def judge_default(instance, answer, plans, hazards, times):
    """The least time among the plans whose rating is at most the reference's."""
    fewest = min((h for h, _, _ in plans), default=0)
    cap = judge_reference(instance, answer)
    if cap is None:
        return plans, "without cap"
    kept = [plan for plan in plans if plan[0] == fewest and plan[1]["rating"] <= cap * (1 + CAP_LEEWAY)]
    if hazards is None:
        return kept or plans, "with cap"
    is_kept = times["rating"] <= cap * (1 + 2 * CAP_LEEWAY)
    require(
        is_kept != has_warning(answer, "rating_cap_dropped"),
        "rates",
        times["rating"],
        "cap",
        cap,
        answer.get("warnings"),
    )
    may_miss = instance.case.sees_fewer_plans() or hazards > fewest
    require(is_kept or not kept or may_miss, "the cap is dropped, and", len(kept), "plans keep it")
    return kept if is_kept else plans, "with cap" if is_kept else "cap dropped"


def judge_times(instance, answer, times):
    for name, ms in times.items():
        if name != "time" or instance.objective in ("time", None):
            require(is_near(answer["times"][name], ms), name, "is", ms, "not", answer["times"])


def judge_more_hazards(answer, plans, objective, found, hazards, fewest):
    """First the hazards, then the objective; where plans of as few are not found, the bound is of all plans."""
    bound = answer["certificate"]["lower_bound"] or 0
    least = min(times[objective] for _, times, _ in plans)
    require(answer["status"] == "feasible", answer["status"], "with", hazards, "hazards,", fewest, "would do")
    require(is_near(answer["certificate"]["objective"], found), "objective", answer["certificate"], "not", found)
    require(bound <= least * (1 + 1e-9), "bound", bound, "above the least of all plans", least)


def value_on(curve, size):
    """Of a curve of memory against time; None left of it."""
    at = [point for point in curve if point["bytes"] <= size]
    return at[-1]["ms"] + at[-1].get("ms_per_byte", 0) * (size - at[-1]["bytes"]) if at else None


def judge_frontier(instance, plans):
    """The least objective where no rank's shards take more HBM, for every size."""
    objective = instance.objective or "time"
    code, answer = instance.program.run("shard", *instance.command, *instance.flags, "--frontier")
    require(code in (0, 2, 4), "exit code", code, answer)
    if code == 2:
        require(not plans, "infeasible, and there are", len(plans), "plans")
    achieved, proved = answer.get("frontier", []), answer.get("frontier_bound", [])
    sizes = {hbm for _, _, hbm in plans} | {point["bytes"] for point in achieved}
    for size in sorted(sizes):
        best = min((times[objective] for _, times, hbm in plans if hbm <= size), default=None)
        ms, bound = value_on(achieved, size), value_on(proved, size)
        require(ms is None or best is not None, "at", size, "bytes a plan, and there is none")
        if best is None:
            continue
        require(ms is None or ms >= best * (1 - 1e-8), "at", size, "bytes", ms, "below the least", best)
        require(not proved or bound is not None, "at", size, "bytes nothing is said to fit")
        require(bound is None or bound <= best * (1 + 1e-8) + 1e-12, "at", size, "bytes bound", bound, "above", best)
    return "frontier"


def has_machine(instance):
    return instance.case.machine is not None and instance.objective in ("time", None)


KINDS = {
    "every width": lambda instance, case: instance.is_wide,
    "unequal speeds": lambda instance, case: case.speeds != [1] * case.world,
    "unequal room": lambda instance, case: any(room != case.dump["room"][0] for room in case.dump["room"]),
    "several hosts": lambda instance, case: case.world > case.per_domain,
    "towers": lambda instance, case: any(o.get("group", o["fqn"]) != o["fqn"] for o in case.dump["options"]),
    "distinct ranks": lambda instance, case: any(map(case.wants_distinct_ranks, case.dump["options"])),
    "pooled ddr": lambda instance, case: case.pools_ddr,
    "step model": lambda instance, case: "--step-model" in instance.flags,
    "machine": lambda instance, case: has_machine(instance),
    "machine, replicas": lambda instance, case: has_machine(instance) and instance.has_replicas,
    "allowed_ranks": lambda instance, case: "allowed_ranks" in case.rules,
    "forbidden_ranks": lambda instance, case: "forbidden_ranks" in case.rules,
    "together": lambda instance, case: "together" in case.rules,
    "apart": lambda instance, case: "apart" in case.rules,
}


def words_of(instance, answer, hazards, how):
    """What is counted: the kinds that a campaign must meet."""
    yield f"{instance.objective or 'default'} {answer['status']}"
    yield f"{'model' if instance.is_model else 'dump'} {answer['status']}"
    if how:
        yield how
    if hazards:
        yield "hazards, every width" if instance.is_wide else "hazards"
    if answer["status"] != "infeasible":
        yield from (kind for kind, is_met in KINDS.items() if is_met(instance, instance.case))


def oracle(program, random):
    instance = Instance(program, random)
    case = instance.case
    if case is None:
        return ["no options"]
    if case.num_plans() > MANY_PLANS:
        return ["too many plans"]
    plans = list(case.plans())
    code, answer = program.run("shard", *instance.command, *instance.flags, "-o", "answer.json")
    if code == 1 and answer["error"]["code"] == "conflict":
        require(not plans and case.rules, "a conflict, though", len(plans), "plans keep the rules:", answer["error"])
        return ["rules leave nothing"]
    require(code != 1, "an error:", answer)
    objective = instance.objective or "time"
    found, hazards, times = None, None, None
    if "plan" in answer:
        hazards, times = case.judge_plan(instance.chosen(answer))
        found = times[objective]
        require(answer["objective"] == objective, "another objective")
        judge_times(instance, answer, times)
        instance.check()
    fewest = min((h for h, _, _ in plans), default=0)
    candidates, how = plans, None
    if instance.objective is None:
        candidates, how = judge_default(instance, answer, plans, hazards, times)
    if found is not None and hazards > fewest:
        judge_more_hazards(answer, plans, objective, found, hazards, fewest)
        return ["more hazards than need be"]
    best = min((times[objective] for h, times, _ in candidates if h == fewest), default=None)
    judge_answer(code, answer, value_of_plan=found, optimum=best, is_complete=False)
    words = list(words_of(instance, answer, hazards, how))
    if random.randrange(8) == 0 and all(h == 0 for h, _, _ in plans):
        words.append(judge_frontier(instance, plans))
    return words


if __name__ == "__main__":
    asked = [f"{word} optimal" for word in ("rating", "step", "time", "default", "model", "dump")]
    met = ["with cap", "cap dropped", "hazards", "hazards, every width", "frontier", "rules leave nothing"]
    main(oracle, [*asked, *met, "model infeasible", "dump infeasible", *KINDS])
