"""Steps of models on one thread: measured, predicted by measured operators, and by a machine document.

Usage: PYTHONPATH=build/python build/python-env/bin/python bench/checkpoint/step_times.py [MACHINE] [--quick]

MACHINE is a document of `plimsoll calibrate`; without it, dense operators are measured first. The models are those of
the examples. Each runs without a plan, within 90, 70 and 50 % of its peak, and with every block recomputed; the plans
are made by measured times. Printed are processor milliseconds of a step (the second least of 15), predictions over
measurements without a plan, and the largest and the rank correlation over all plans.
"""

from __future__ import annotations

import contextlib
import io
import json
import pathlib
import sys
import time
from typing import Any

import torch
import torch.nn.functional as F
from scipy.stats import spearmanr

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples"))
with contextlib.redirect_stdout(io.StringIO()):
    import checkpointing_loop
import pipeline_stages

from plimsoll import checkpointing as ck
from plimsoll.calibration._operators import fit_operators, measure_operator, operator_designs

RUNS = 15


def processor_ms(step: Any) -> float:
    step()
    spent = []
    for _ in range(RUNS):
        begin = time.thread_time()
        step()
        spent.append(time.thread_time() - begin)
    return 1000 * sorted(spent)[1]


def measured_machine() -> dict[str, Any]:
    points = [measure_operator(*design, "cpu", 0.1) for design in operator_designs("cpu")]
    return {"schema": "plimsoll.machine/1", "name": "here", "operators": fit_operators(points, True)}


def encoder(dropout: float) -> torch.nn.Module:
    layer = torch.nn.TransformerEncoderLayer(64, 4, 256, batch_first=True, dropout=dropout)
    return torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)


def models() -> Any:
    """(name, model, batch, loss)."""
    tokens = torch.randint(0, 256, (8, 64))
    for width in (64, 256, 512):
        model = checkpointing_loop.GPT(width=width)
        yield f"checkpointing_loop.py, width {width}", model, tokens, lambda out: checkpointing_loop_loss(out, tokens)
    square = lambda out: out.square().mean()  # noqa: E731
    yield "memory-budget.md", encoder(0.1), torch.randn(8, 64, 64), square
    yield "the same without dropout", encoder(0.0), torch.randn(8, 64, 64), square
    ids, target = pipeline_stages.make_batch(0)
    ids, target = ids[: pipeline_stages.ROWS], target[: pipeline_stages.ROWS]
    cross = lambda out: F.cross_entropy(out.flatten(0, 1), target.flatten())  # noqa: E731
    yield "pipeline_stages.py, a microbatch", pipeline_stages.Gpt(), ids, cross


def checkpointing_loop_loss(logits: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), batch[:, 1:].flatten())


def main() -> None:
    torch.set_num_threads(1)
    arguments = [word for word in sys.argv[1:] if word != "--quick"]
    machine = json.loads(pathlib.Path(arguments[0]).read_text()) if arguments else measured_machine()
    print({key: value for key, value in machine["operators"].items() if key not in ("points", "held_out")})
    print("| model | step ms | measured operators | machine | over all plans | rank correlation |")
    print("|---|---|---|---|---|---|")
    for name, model, batch, loss in list(models())[: 1 if "--quick" in sys.argv else None]:
        model.train()

        def step(model: Any = model, batch: Any = batch, loss: Any = loss) -> None:
            model.zero_grad(set_to_none=True)
            loss(model(batch)).backward()

        by = {"measured": ck.profile(model, batch, loss=loss, times="measured")}
        by["machine"] = ck.profile(model, batch, loss=loss, times=machine)
        spent, told = [processor_ms(step)], {kind: [stats.step_ms] for kind, stats in by.items()}
        for share in (0.9, 0.7, 0.5):
            try:
                plan = ck.plan(by["measured"], share)
            except ck.InfeasibleBudget:
                continue
            units = {unit.fqn: frozenset(unit.keep) for unit in plan.units}
            ck.apply(model, plan)
            spent.append(processor_ms(step))
            ck.remove(model)
            for kind, stats in by.items():
                told[kind].append(stats.step_ms + stats.replay.step(units).recompute_ms)
        first = [f"{told[kind][0] / spent[0]:.2f}" for kind in by]
        worst = " / ".join(f"{min(t / s for t, s in zip(told[k], spent)):.2f} to "
                           f"{max(t / s for t, s in zip(told[k], spent)):.2f}" for k in by)  # fmt: skip
        order = " / ".join(f"{spearmanr(told[k], spent).statistic:.2f}" for k in by)
        print(f"| {name} | {spent[0]:.2f} | {first[0]} | {first[1]} | {worst} | {order} |", flush=True)


if __name__ == "__main__":
    main()
