"""Many small random instances, each planned, checked and held against brute force.

An oracle script makes instances from seeds, and tries everything by rules that are written from the documentation
alone (docs, and the comments of public headers), not from the sources. What every answer must keep is here:

- the plan passes `plimsoll check`, and the stated objective is the oracle's value of that plan;
- lower bound <= the oracle's optimum <= objective; `optimal` means equal, `infeasible` that there is no plan;
- where a search is complete by its documentation, there is a plan whenever one exists.

Usage of a script: python SCRIPT PROGRAM COUNT [FIRST_SEED]. A failure names its seed and leaves the inputs in a folder.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

ROUNDING = 1e-9  # relative: sums in another order
TOLERANCE = 1e-6  # relative: what `optimal` allows by default
ENOUGH = 100  # instances that must meet every kind of answer


class Mismatch(Exception):
    pass


def require(condition, *message):
    if not condition:
        raise Mismatch(" ".join(str(part) for part in message))


def is_near(a, b, relative=ROUNDING):
    return a == b or abs(a - b) <= relative * max(abs(a), abs(b)) + 1e-12


class Program:
    """The built program in a folder of its own."""

    def __init__(self, path, folder):
        self.path = os.path.abspath(path)
        self.folder = folder

    def write(self, name, document):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            json.dump(document, file, indent=1)

    def run(self, *arguments):
        """Exit code and document."""
        command = [self.path, *arguments, "--json", "-q"]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=300)
        try:
            return done.returncode, json.loads(done.stdout)
        except json.JSONDecodeError as error:
            raise Mismatch(" ".join(arguments), done.returncode, done.stdout, done.stderr) from error


def judge_answer(code, answer, *, value_of_plan, optimum, is_complete=True):
    """`value_of_plan`: the oracle's, None without a plan; `optimum`: None where nothing is legal."""
    status = answer.get("status")
    certificate = answer.get("certificate", {})
    bound, objective = certificate.get("lower_bound"), certificate.get("objective")
    require(code in (0, 2, 4), "exit code", code, answer)
    if status == "infeasible":
        require(code == 2 and optimum is None, "infeasible, but a plan takes", optimum)
        require(value_of_plan is None, "infeasible, with a plan")
        return
    if bound is not None and optimum is not None:
        require(bound <= optimum * (1 + ROUNDING) + 1e-12, "bound", bound, "above the optimum", optimum)
    if value_of_plan is None:
        require(status == "limit" and code == 4, "no plan, status", status)
        require(not is_complete, "no plan, and no proof; the optimum is", optimum)
        return
    require(code == 0 and status in ("optimal", "feasible"), "a plan, status", status, "code", code)
    require(optimum is not None, "a plan where the oracle knows none")
    require(is_near(objective, value_of_plan), "objective", objective, "but the plan takes", value_of_plan)
    require(value_of_plan >= optimum * (1 - ROUNDING) - 1e-12, "plan", value_of_plan, "below the optimum", optimum)
    if status == "optimal":
        require(is_near(value_of_plan, optimum, 2 * TOLERANCE), "optimal", value_of_plan, "the optimum is", optimum)
        require(bound is not None, "optimal without a bound")


def run_campaign(oracle):
    """`oracle(program, random)` makes and judges one instance; returns words to be counted."""
    program_path, count = sys.argv[1], int(sys.argv[2])
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    counts = {}
    failures = 0
    for seed in range(first, first + count):
        folder = tempfile.mkdtemp(prefix="plimsoll-oracle-")
        try:
            for word in oracle(Program(program_path, folder), random.Random(seed)):
                counts[word] = counts.get(word, 0) + 1
        except (Mismatch, subprocess.TimeoutExpired) as error:
            failures += 1
            print(f"seed {seed}, inputs in {folder}: {error}", flush=True)
            if failures == 10:
                break
            continue
        shutil.rmtree(folder)
    print(", ".join(f"{word} {counts[word]}" for word in sorted(counts)))
    return counts, 1 if failures else 0


def main(oracle, needed=()):
    """`needed`: words that must come up, lest the instances say nothing."""
    counts, code = run_campaign(oracle)
    missing = [word for word in needed if word not in counts] if int(sys.argv[2]) >= ENOUGH else []
    if missing:
        print("never met:", ", ".join(missing))
    sys.exit(1 if missing else code)
