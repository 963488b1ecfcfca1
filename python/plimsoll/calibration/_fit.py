"""Fits of times: non-negative least squares on relative errors, with what is known of the coefficients.

A form is a list of terms that is fixed before anything is measured: time = sum of coefficient times variable, each
coefficient at least 0. A term whose bootstrap's 10 % quantile is 0 is left out and named (docs/calibrate.md#the-fits).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

RESAMPLES = 200
FOLDS = 10


def nnls(factors: Array, values: Array) -> Array:
    """The x >= 0 with the least |factors x - values|.

    Method: the active sets of C. L. Lawson and R. J. Hanson, "Solving Least Squares Problems", chapter 23 (SIAM, 1995).
    """
    num_terms = factors.shape[1]
    x = np.zeros(num_terms)
    is_free = np.zeros(num_terms, dtype=bool)
    tolerance = 1e-10 * float(np.abs(factors.T @ values).max(initial=0.0))
    for _ in range(30 * num_terms):
        slope = factors.T @ (values - factors @ x)
        slope[is_free] = -np.inf
        if is_free.all() or slope.max() <= tolerance:
            break
        is_free[int(slope.argmax())] = True
        while is_free.any():
            trial = np.zeros(num_terms)
            trial[is_free] = np.linalg.lstsq(factors[:, is_free], values, rcond=None)[0]
            is_bad = is_free & (trial <= 0)
            if not is_bad.any():
                x = trial
                break
            gap = np.where(x[is_bad] == trial[is_bad], 1.0, x[is_bad] - trial[is_bad])
            x = x + float((x[is_bad] / gap).min()) * (trial - x)
            is_free &= x > 1e-15 * float(np.abs(x).max())
            x[~is_free] = 0
    return x


def fit_relative(factors: Array, times: Array) -> Array:
    """Coefficients with the least sum of squared relative errors; columns are scaled."""
    scale = factors.max(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    return nnls(factors / scale / times[:, None], np.ones(len(times))) / scale


def _bootstrap(factors: Array, times: Array, resamples: int, seed: int) -> Array:
    draw = np.random.default_rng(seed)
    drawn = draw.integers(len(times), size=(resamples, len(times)))
    return np.array([fit_relative(factors[rows], times[rows]) for rows in drawn])


def kept_terms(factors: Array, times: Array, resamples: int = RESAMPLES, seed: int = 0) -> list[int]:
    """Terms whose bootstrap's 10 % quantile is above 0; they are left out one at a time, at least one remains."""
    kept = list(range(factors.shape[1]))
    while len(kept) > 1:
        values = _bootstrap(factors[:, kept], times, resamples, seed)
        is_zero = np.quantile(values, 0.1, axis=0) <= 0
        if not is_zero.any():
            break
        zeros = np.where(is_zero, (values <= 0).mean(axis=0), -1.0)
        kept.pop(len(kept) - 1 - int(zeros[::-1].argmax()))  # ties: the later term
    return kept


@dataclass
class Fit:
    """Coefficients of a form.

    Attributes:
        terms: Coefficient by name; 0 of one that was left out.
        intervals: [10 %, 90 %] of the bootstrap.
        dropped: Terms that were left out.
        held_out: Errors of cross-validation, as `errors_of`.
        predicted: What each point is predicted to take by a fit without it.
    """

    terms: dict[str, float]
    intervals: dict[str, list[float]]
    dropped: list[str]
    held_out: dict[str, float | int]
    predicted: list[float] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        return {"terms": self.terms, "intervals": self.intervals, "dropped": self.dropped, "held_out": self.held_out}


def errors_of(predicted: Sequence[float] | Array, times: Sequence[float] | Array) -> dict[str, float | int]:
    """Summary of the relative errors."""
    errors = np.abs(np.asarray(predicted) / np.asarray(times) - 1)
    if not len(errors):
        return {"count": 0}
    return {
        "mean": float(errors.mean()),
        "p90": float(np.quantile(errors, 0.9)),
        "worst": float(errors.max()),
        "count": len(errors),
        "within_15": float((errors <= 0.15).mean()),
        "within_25": float((errors <= 0.25).mean()),
    }


def cross_validate(groups: Sequence[int], fit: Callable[[Array], Callable[[Array], Array]]) -> Array:
    """What every point is predicted to take by `fit(rows of the other groups)(rows of its group)`."""
    group = np.asarray(groups)
    predicted = np.zeros(len(group))
    for number in np.unique(group):
        (out,) = np.nonzero(group == number)
        (rest,) = np.nonzero(group != number)
        predicted[out] = fit(rest)(out)
    return predicted


def fit_form(
    names: Sequence[str],
    factors: Array,
    times: Array,
    *,
    seed: int = 0,
    groups: Sequence[int] | None = None,
    resamples: int = RESAMPLES,
) -> Fit:
    """The form's fit, its intervals, and its errors on groups that are left out.

    Args:
        names: Of the terms.
        factors: [point, term] variables.
        times: Of every point, above 0.
        seed: Of the bootstrap and of the folds.
        groups: Points of one number are left out together; ten random folds where not given. The terms are chosen again
            without them.
        resamples: Of the bootstrap; a quarter in cross-validation.
    """
    if groups is None:
        groups = list(np.random.default_rng(seed).permutation(len(times)) % min(FOLDS, len(times)))

    def fit_rest(rows: Array) -> Callable[[Array], Array]:
        kept = kept_terms(factors[rows], times[rows], max(resamples // 4, 20), seed)
        values = fit_relative(factors[rows][:, kept], times[rows])
        return lambda out: factors[out][:, kept] @ values

    predicted = cross_validate(groups, fit_rest)
    kept = kept_terms(factors, times, resamples, seed)
    values = fit_relative(factors[:, kept], times)
    drawn = _bootstrap(factors[:, kept], times, resamples, seed)
    low, high = np.quantile(drawn, [0.1, 0.9], axis=0)
    terms = dict.fromkeys(names, 0.0)
    terms |= {names[term]: float(value) for term, value in zip(kept, values)}
    return Fit(
        terms=terms,
        intervals={names[term]: [float(a), float(b)] for term, a, b in zip(kept, low, high)},
        dropped=[name for i, name in enumerate(names) if i not in kept],
        held_out=errors_of(predicted, times),
        predicted=[float(value) for value in predicted],
    )


def rank_correlation(first: Sequence[float] | Array, second: Sequence[float] | Array) -> float:
    """Spearman's; equal values share their mean rank. 0 where one side has a single value."""
    ranks = [_mean_ranks(np.asarray(values, dtype=float)) for values in (first, second)]
    if any(np.ptp(rank) == 0 for rank in ranks):
        return 0.0
    return float(np.corrcoef(*ranks)[0, 1])


def _mean_ranks(values: Array) -> Array:
    order = np.sort(values)
    return (np.searchsorted(order, values, "left") + np.searchsorted(order, values, "right") - 1) / 2
