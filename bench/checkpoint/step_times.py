"""Steps of models on one thread: measured, predicted by measured operators, and by a machine document.

Usage: PYTHONPATH=build/python build/python-env/bin/python bench/checkpoint/step_times.py [MACHINE] [--quick]

MACHINE is a document of `plimsoll calibrate`; without it, dense operators are measured first. The models are those of
the examples. Each runs without a plan and within 90, 70 and 50 % of its peak; the plans are made by measured times. In
each of five rounds all of them run, and operators are measured anew. Printed are processor milliseconds of a step (the
second least of 15; the median of the rounds), the median and the range of predictions over measurements of one round
without a plan, and over all plans the range and the rank correlation of the rounds' medians. With --quick one model and
one round.
"""

from __future__ import annotations

import contextlib
import io
import json
import pathlib
import statistics
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

RUNS, ROUNDS = 15, 5


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


def run_round(
    model: Any, batch: Any, loss: Any, machine: dict[str, Any], plans: list[Any]
) -> tuple[list[float], dict[str, list[float]]]:
    """(ms of a step without and with each plan, the same by each kind of prediction); makes `plans` if it is empty."""

    def step() -> None:
        model.zero_grad(set_to_none=True)
        loss(model(batch)).backward()

    spent = [processor_ms(step)]
    by = {
        "measured": ck.profile(model, batch, loss=loss, times="measured"),
        "machine": ck.profile(model, batch, loss=loss, times=machine),
    }
    if not plans:
        for share in (0.9, 0.7, 0.5):
            with contextlib.suppress(ck.InfeasibleBudget):
                plans.append(ck.plan(by["measured"], share))
    told = {kind: [stats.step_ms] for kind, stats in by.items()}
    for plan in plans:
        units = {unit.fqn: frozenset(unit.keep) for unit in plan.units}
        ck.apply(model, plan)
        spent.append(processor_ms(step))
        ck.remove(model)
        for kind, stats in by.items():
            told[kind].append(stats.step_ms + stats.replay.step(units).recompute_ms)
    return spent, told


def summary(rounds: list[tuple[list[float], dict[str, list[float]]]], kind: str) -> tuple[str, str, str]:
    """(without a plan, over all plans, rank correlation) of predictions over measurements."""
    first = [told[kind][0] / spent[0] for spent, told in rounds]
    spent = [statistics.median(ms) for ms in zip(*(spent for spent, _ in rounds))]
    told = [statistics.median(ms) for ms in zip(*(told[kind] for _, told in rounds))]
    ratios = [t / s for t, s in zip(told, spent)]
    return (
        f"{statistics.median(first):.2f} ({min(first):.2f} to {max(first):.2f})",
        f"{min(ratios):.2f} to {max(ratios):.2f}",
        f"{spearmanr(told, spent).statistic:.2f}" if len(told) > 2 else "-",
    )


def main() -> None:
    torch.set_num_threads(1)
    arguments = [word for word in sys.argv[1:] if word != "--quick"]
    is_quick = "--quick" in sys.argv
    machine = json.loads(pathlib.Path(arguments[0]).read_text()) if arguments else measured_machine()
    print({key: value for key, value in machine["operators"].items() if key not in ("points", "held_out")})
    print("| model | step ms | measured operators | machine | over all plans | rank correlation |")
    print("|---|---|---|---|---|---|")
    for name, model, batch, loss in list(models())[: 1 if is_quick else None]:
        model.train()
        plans: list[Any] = []
        rounds = [run_round(model, batch, loss, machine, plans) for _ in range(1 if is_quick else ROUNDS)]
        step_ms = statistics.median(spent[0] for spent, _ in rounds)
        columns = zip(summary(rounds, "measured"), summary(rounds, "machine"))
        first, worst, order = (list(column) for column in columns)
        print(
            f"| {name} | {step_ms:.2f} | {' | '.join(first)} | {' / '.join(worst)} | {' / '.join(order)} |", flush=True
        )


if __name__ == "__main__":
    main()
