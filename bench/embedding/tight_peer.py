"""Our search and HiGHS on the same problems in the same run, where memory is tight.

    python bench/embedding/tight_peer.py build/bench/bin/tight_bench [--seconds S] [--random COUNT | --quick]

HiGHS solves a plain mixed-integer program of the same choices, which `tight_bench --dump` writes, on one thread; the
Python that runs this script has highspy (PyPI). One row a case: the slowest rank's rating in ms, the bound, processor
seconds, of both.
"""

import argparse
import json
import pathlib
import re
import subprocess
import tempfile
import time

import highspy
import numpy as np


class Program:
    def __init__(self):
        self.cost, self.upper, self.is_integer, self.rows = [], [], [], []

    def add_column(self, upper, cost=0.0, is_integer=True):
        self.cost.append(cost)
        self.upper.append(upper)
        self.is_integer.append(is_integer)
        return len(self.cost) - 1

    def solve(self, seconds):
        starts, indices, values = [0], [], []
        for _, terms, _ in self.rows:
            indices += [column for column, _ in terms]
            values += [value for _, value in terms]
            starts.append(len(indices))
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(self.cost), len(self.rows)
        lp.col_cost_ = np.array(self.cost)
        lp.col_lower_ = np.zeros(len(self.cost))
        lp.col_upper_ = np.array(self.upper)
        lp.row_lower_ = np.array([row[0] for row in self.rows])
        lp.row_upper_ = np.array([row[2] for row in self.rows])
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.array(starts)
        lp.a_matrix_.index_ = np.array(indices)
        lp.a_matrix_.value_ = np.array(values)
        kinds = highspy.HighsVarType
        lp.integrality_ = [kinds.kInteger if is_integer else kinds.kContinuous for is_integer in self.is_integer]
        solver = highspy.Highs()
        for name, value in (("output_flag", False), ("threads", 1), ("time_limit", seconds)):
            solver.setOptionValue(name, value)
        solver.passModel(lp)
        solver.run()
        return solver


def make_program(problem):
    """A binary for each choice, a count for each place of its pieces or blocks; column 0 is the slowest rank's load."""
    num_ranks, width = problem["num_ranks"], problem["ranks_per_host"]
    infinity = highspy.kHighsInf
    program = Program()
    program.add_column(infinity, cost=1.0, is_integer=False)
    loads = [[(0, -1.0)] for _ in range(num_ranks)]
    needs = [[[] for _ in range(num_ranks)] for _ in problem["caps"]]

    def put(column, piece, ranks):
        for rank in ranks:
            loads[rank].append((column, piece[0]))
            for tier, cap in enumerate(problem["caps"]):
                if piece[1 + tier]:
                    needs[tier][rank].append((column, piece[1 + tier] / max(cap, 1)))

    for unit in problem["units"]:
        taken = []
        for choice in unit:
            x = program.add_column(1.0)
            taken.append((x, 1.0))
            pieces, count = choice["pieces"], choice["num_pieces"]
            if choice["spread"] == "uniform":
                put(x, pieces[0], range(num_ranks))
                continue
            is_host = choice["spread"] == "host"
            for piece in pieces:
                times = count if len(pieces) == 1 else 1
                placed = [(x, -float(times))]
                for place in range(num_ranks // width if is_host else num_ranks):
                    y = program.add_column(float(times))
                    placed.append((y, 1.0))
                    put(y, piece, range(place * width, (place + 1) * width) if is_host else [place])
                program.rows.append((0.0, placed, 0.0))
        program.rows.append((1.0, taken, 1.0))
    program.rows += [(-infinity, terms, 0.0) for terms in loads]
    for tier, cap in enumerate(problem["caps"]):
        room = 1.0 if cap > 0 else 0.0
        program.rows += [(-infinity, terms, room) for terms in needs[tier] if terms]
    return program


def run_ours(bench, words):
    """What tight_bench prints of one case: value, bound, gap, processor seconds."""
    line = subprocess.run([bench, *words], check=True, capture_output=True, text=True).stdout
    ours = re.search(r"value (\S+) bound (\S+) gap (\S+) .*processor (\S+) s", line).groups()
    return ["no plan" if ours[0] == "nan" else ours[0], *ours[1:]]


def run_peer(file, seconds):
    begin = time.process_time()
    solver = make_program(json.loads(file.read_text())).solve(seconds)
    info = solver.getInfo()
    has_plan = info.primal_solution_status == 2  # a feasible point
    value = f"{info.objective_function_value:.4f}" if has_plan else "no plan"
    return value, info.mip_dual_bound, time.process_time() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench", help="build/bench/bin/tight_bench")
    parser.add_argument("--seconds", type=float, default=60, help="of HiGHS, for each case")
    parser.add_argument("--random", type=int, help="so many drawn cases instead of those of docs/benchmarks.md")
    parser.add_argument("--quick", action="store_true", help="one small case, a second of HiGHS")
    chosen = parser.parse_args()
    how = ["--effort", "100000"] if chosen.quick else ["--random", str(chosen.random)] if chosen.random else []
    cases = ["40x8_0.8_0.4_2"] if chosen.quick else []
    print("| case | ours | bound | gap | s | HiGHS | its bound | s |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([chosen.bench, "--dump", folder, *how, *cases], check=True)
        for file in sorted(pathlib.Path(folder).glob("*.json")):
            ours = run_ours(chosen.bench, [*how, file.stem])
            value, bound, seconds = run_peer(file, 1 if chosen.quick else chosen.seconds)
            print("|", " | ".join([file.stem, *ours, value, f"{bound:.4f}", f"{seconds:.1f}"]), "|", flush=True)


if __name__ == "__main__":
    main()
