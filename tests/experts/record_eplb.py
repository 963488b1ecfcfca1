"""Records what DeepSeek's eplb.py answers, for eplb_test.cc.

python record_eplb.py EPLB.PY > tests/data/experts/eplb.json

EPLB.PY is the file of https://github.com/deepseek-ai/EPLB (commit d52c72d was recorded). Loads are token counts, whose
sums are exact in any order; where one host takes all, which sums no groups, also fractions. In which order torch sorts
equal loads depends on processor and release, so the sort is made stable; of loads without ties it must change nothing.
"""

import importlib.util
import json
import random
import sys

import torch

EXAMPLE = [
    [90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86],
    [20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27],
]
SHAPES = [  # experts, slots, groups, hosts, ranks
    (12, 16, 4, 2, 8),
    (12, 16, 3, 2, 8),
    (8, 8, 1, 1, 8),
    (8, 16, 4, 4, 16),
    (16, 24, 4, 2, 4),
    (16, 32, 8, 2, 8),
    (24, 24, 8, 4, 8),
    (32, 48, 8, 4, 8),
    (64, 80, 8, 2, 16),
    (64, 72, 8, 3, 9),
]


def main() -> None:
    spec = importlib.util.spec_from_file_location("eplb", sys.argv[1])
    eplb = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(eplb)
    draw = random.Random(20)
    cases = []

    sort = torch.Tensor.sort

    def record(loads, slots, groups, hosts, ranks, has_ties=True):
        def plan():
            return eplb.rebalance_experts(torch.tensor(loads), slots, groups, hosts, ranks)[0]

        as_it_is = plan()
        torch.Tensor.sort = lambda tensor, dim, descending: sort(tensor, dim=dim, descending=descending, stable=True)
        answer = plan()
        torch.Tensor.sort = sort
        if not has_ties and not torch.equal(answer, as_it_is):
            raise SystemExit("a stable sort has changed the plan of loads without ties")
        case = {"num_slots": slots, "num_groups": groups, "num_hosts": hosts, "num_ranks": ranks}
        cases.append({"loads": loads, **case, "slots": answer.tolist()})

    record(EXAMPLE, 16, 4, 2, 8, has_ties=False)
    record(EXAMPLE, 16, 1, 2, 8, has_ties=False)
    for experts, slots, groups, hosts, ranks in SHAPES:
        for kind in ("distinct", "skewed", "ties", "fractions"):
            if kind == "fractions" and groups % hosts == 0 and groups > 1:
                continue
            value = {
                "distinct": lambda: draw.randrange(1, 90000),
                "skewed": lambda: int(2000 * draw.random() ** 6),
                "ties": lambda: draw.randrange(0, 4),
                "fractions": lambda: draw.random(),
            }[kind]
            record(
                [[value() for _ in range(experts)] for _ in range(2)],
                slots,
                groups,
                hosts,
                ranks,
                kind in ("skewed", "ties"),
            )
    lines = ",\n".join(json.dumps(case) for case in cases)
    print(f'{{"source": "https://github.com/deepseek-ai/EPLB, commit d52c72d", "cases": [\n{lines}\n]}}')


if __name__ == "__main__":
    main()
