"""A sweep in one process, or in parts over an executor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, Future, as_completed
from typing import Any, Union

from plimsoll._command import Document, Progress, call

Numbers = Union[int, str, Sequence[int]]

PARTS = 8


def _text(numbers: Numbers | None) -> str | None:
    """As the command line reads them."""
    if numbers is None or isinstance(numbers, str):
        return numbers
    return str(numbers) if isinstance(numbers, int) else ",".join(str(int(number)) for number in numbers)


def plan_part(model: Document, flags: Mapping[str, object]) -> dict[str, Any]:
    """One part, in whatever process it runs."""
    return call("whatif", {"model": model}, flags)


def sweep(
    model: Document,
    flags: Mapping[str, object],
    ranks: Numbers | None,
    batch_size: Numbers | None,
    threads: int | None,
    executor: Executor | None,
    parts: int | None,
    progress: Progress | None,
) -> dict[str, Any]:
    """The document of the whole sweep; arguments as of `plimsoll.whatif`."""
    asked = {**flags, "ranks": _text(ranks), "batch_size": _text(batch_size)}
    if executor is None:
        return call("whatif", {"model": model}, {**asked, "threads": threads}, progress)
    count = PARTS if parts is None else parts
    asked["resume"] = getattr(asked["resume"], "document", asked["resume"])
    futures: list[Future[dict[str, Any]]] = [
        executor.submit(plan_part, model, {**asked, "threads": threads or 1, "part": f"{part}/{count}"})
        for part in range(1, count + 1)
    ]
    for done, future in enumerate(as_completed(futures), 1):
        future.result()
        if progress is not None:
            progress(done, None, None)
    answers = [future.result() for future in futures]
    rows = [row for answer in answers for row in answer["rows"]]
    whole = {**answers[0], "rows": rows}
    # The order of the points, and the front. What a cut part lacks is not planned here.
    asked["resume"] = whole
    merged = call("whatif", {"model": model}, {**asked, "threads": 1, "time_limit": "0.001ms"})
    cut = [answer["stop"] for answer in answers if answer["stop"] != "finished"]
    return {**merged, "stop": cut[0]} if cut else merged
