"""Peaks of compiled steps beside the predicted ones: a small GPT, eager plans for 95 to 60 % of its peak.

Usage: PYTHONPATH=build/python build/python-env/bin/python bench/checkpoint/compiled_peaks.py [--quick]

For each backend of torch.compile the predicted peak of each plan, the measured one of the compiled step, and their
ratio; then what `fit(compile=...)` makes of 70 %. With --quick two plans and aot_eager alone.
"""

from __future__ import annotations

import contextlib
import pathlib
import sys
import warnings

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/python/checkpointing"))
import live_models

from plimsoll import checkpointing as ck

SHARES = (0.95, 0.9, 0.8, 0.75, 0.7, 0.68, 0.66, 0.64, 0.62, 0.6)


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    is_quick = "--quick" in sys.argv
    model, batch = live_models.GPT(layers=2, dropout=0.0), live_models.ids()
    stats = ck.profile(model, batch)
    for backend in ("aot_eager", *(() if is_quick else ("inductor",))):
        ratios = []
        for share in SHARES[: 2 if is_quick else None]:
            with contextlib.suppress(ck.InfeasibleBudget):
                plan = ck.plan(stats, share)
                report = ck.verify(model, plan, batch, compile=backend)
                ratios.append(report.measured_bytes / plan.peak_bytes)
                print(f"{backend} {share:.0%}: {plan.peak_bytes} B predicted, {report.measured_bytes} measured")
        print(f"{backend}: {min(ratios):.3f} to {max(ratios):.3f} of the predicted peak", flush=True)
        plan = ck.fit(model, batch, 0.7, compile=backend)
        ck.remove(model)
        print(f"{backend} fitted to 70%: {plan.compiled_bytes} B of {plan.budget_bytes}, {plan.overhead:.1%} more time")


if __name__ == "__main__":
    main()
