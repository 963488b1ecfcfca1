"""HiGHS on the problems that tight_bench writes: a plain mixed-integer program of the same choices, one thread.

Usage: python bench/embedding/tight_peer.py SECONDS FILE...

FILE is of `tight_bench --dump FOLDER`; the Python that runs this script has highspy (PyPI). Prints one row per file:
the slowest rank's rating of HiGHS's plan, its bound, nodes and processor seconds.
"""

import json
import pathlib
import sys
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


def main():
    seconds = float(sys.argv[1])
    print("| case | status | rating | bound | nodes | s |")
    print("|---|---|---|---|---|---|")
    for file in sys.argv[2:]:
        program = make_program(json.loads(pathlib.Path(file).read_text()))
        begin = time.process_time()
        solver = program.solve(seconds)
        info = solver.getInfo()
        status = solver.modelStatusToString(solver.getModelStatus())
        has_plan = info.primal_solution_status == 2  # a feasible point
        rating = f"{info.objective_function_value:.4f}" if has_plan else "no plan"
        print(
            f"| {pathlib.Path(file).stem} | {status} | {rating} | {info.mip_dual_bound:.4f} | {info.mip_node_count} | "
            f"{time.process_time() - begin:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
