"""Mutations of one plan, each judged by `plimsoll check`: what the tests of this folder share.

A test names its cases; main() runs every mutation of each, or with --stride N every N-th.
"""

import collections
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import typing
import unittest

import mutate

PROGRAM = os.path.abspath(sys.argv[1])
STRIDE = 1


class Case(typing.NamedTuple):
    verb: str
    model: typing.Any  # a document, or text
    flags: tuple = ()
    code: int = 0  # of the planner
    status: str = "proved"  # of the genuine plan's certificate
    allowed: tuple = ()  # (path, change) patterns of this plan alone that are no lies


class Mutations(unittest.TestCase):
    maxDiff = None
    families: tuple = ()
    allowed: tuple = ()  # (path, change) patterns of every plan

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_program(self, *arguments):
        return subprocess.run(
            [PROGRAM, *arguments], cwd=self.folder, capture_output=True, text=True, timeout=300, check=False
        )

    def judge(self, document, number="plan"):
        path = self.folder / f"judged_{number}.json"
        path.write_text(json.dumps(document))
        done = self.run_program("check", "model.json", path.name, "--json")
        path.unlink()
        self.assertIn(done.returncode, (0, 1, 5), done.stderr)
        report = json.loads(done.stdout)
        return done.returncode, report.get("certificate_status"), report

    @staticmethod
    def statuses(status, report):
        """Of the certificate and of the explanation, where there is one."""
        return status, report.get("explanation_status")

    def make_plan(self, case):
        text = case.model if isinstance(case.model, str) else json.dumps(case.model)
        (self.folder / "model.json").write_text(text)
        done = self.run_program(case.verb, "model.json", *case.flags, "--json", "-q")
        if case.code is not None:
            self.assertEqual(done.returncode, case.code, done.stderr)
        return json.loads(done.stdout)

    def check_case(self, name, case):
        plan = self.make_plan(case)
        code, status, report = self.judge(plan)
        self.assertEqual((code, status), (0, case.status), report)
        genuine = self.statuses(status, report)
        self.assertIn(genuine[1], (None, "proved"), report)
        begin = sum(map(ord, name)) % STRIDE  # another part of every plan
        chosen = list(mutate.mutations(plan, self.families))[begin::STRIDE]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            verdicts = list(pool.map(lambda i: self.judge(chosen[i].document, i), range(len(chosen))))
        lived = collections.Counter()
        num_refused = 0
        for mutation, (code, status, report) in zip(chosen, verdicts):
            num_refused += code != 0
            if code != 0 or self.statuses(status, report) != genuine:
                continue
            allowed = any(
                mutate.matches(mutation.path, [path]) and mutate.matches(mutation.change, [change])
                for path, change in mutate.SAYS_LESS + self.allowed + case.allowed
            )
            if not allowed:
                lived[f"{mutation.path}: {mutation.change}"] += 1
        self.assertEqual(dict(lived), {})
        if len(chosen) >= 40:  # else a part may hold what claims nothing alone
            self.assertGreater(num_refused, len(chosen) / 8)

    def check_widened(self, name, model, verb, flags, wide_flags, options):
        """A plan that was made under more rules than it says: right, and optimal only where the rules cost nothing."""
        narrow, wide = (
            self.make_plan(Case(verb, model, flags, None)),
            self.make_plan(Case(verb, model, wide_flags, None)),
        )
        if "optimal" != narrow.get("status") or "optimal" != wide.get("status"):
            return "none"
        recorded = narrow["provenance"]["options"]
        for key in [key for key in recorded if key.split("/")[0] in options]:
            del recorded[key]
        is_best = narrow["certificate"]["objective"] <= wide["certificate"]["objective"] * (1 + 1e-6) + 1e-12
        code, status, report = self.judge(narrow)
        if is_best:
            self.assertEqual((code, status), (0, "proved"), (name, report))
            return "best"
        self.assertEqual((code, status), (5, "refuted"), (name, narrow["certificate"], wide["certificate"], report))
        code, status, report = self.judge(wide)
        self.assertEqual((code, status), (0, "proved"), (name, report))
        return "worse"


def add_cases(test, cases):
    for name, case in cases.items():
        setattr(test, f"test_{name}", lambda self, name=name, case=case: self.check_case(name, case))


def main():
    global STRIDE
    if "--stride" in sys.argv:
        place = sys.argv.index("--stride")
        STRIDE = int(sys.argv[place + 1])
        del sys.argv[place : place + 2]
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
