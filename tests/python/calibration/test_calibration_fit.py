"""Fits: known coefficients come back, what has no part is left out, errors are those of points left out."""

import numpy as np
import pytest
from scipy import optimize, stats

from plimsoll import calibration
from plimsoll.calibration import _fit
from plimsoll.calibration._forms import interpolate


def points(seed, count, coefficients, noise):
    """[point, term] variables over several orders of magnitude, and times with relative noise."""
    draw = np.random.default_rng(seed)
    factors = np.exp(draw.uniform(0, 6, size=(count, len(coefficients))))
    return factors, factors @ np.array(coefficients) * np.exp(draw.normal(0, noise, count))


@pytest.mark.parametrize("seed", range(20))
def test_nnls_is_scipys(seed):
    draw = np.random.default_rng(seed)
    factors, values = draw.normal(size=(12, 5)), draw.normal(size=12)
    expected, _ = optimize.nnls(factors, values)
    assert _fit.nnls(factors, values) == pytest.approx(expected, abs=1e-9)


def test_exact_times_give_the_coefficients():
    factors, times = points(1, 30, [3.0, 0.25, 7.0], noise=0)
    assert _fit.fit_relative(factors, times) == pytest.approx([3.0, 0.25, 7.0], rel=1e-9)


def test_a_form_finds_what_made_noisy_times():
    factors, times = points(2, 200, [3.0, 0.25, 0.0, 7.0], noise=0.1)
    fit = _fit.fit_form(["a", "b", "none", "c"], factors, times, resamples=60)
    assert fit.dropped == ["none"] and fit.terms["none"] == 0
    for name, value in (("a", 3.0), ("b", 0.25), ("c", 7.0)):
        assert fit.terms[name] == pytest.approx(value, rel=0.1)
        low, high = fit.intervals[name]
        assert low <= fit.terms[name] <= high
    assert 0.05 < fit.held_out["mean"] < 0.12 and fit.held_out["count"] == 200


def test_errors_are_of_points_that_the_fit_did_not_see():
    """One point that no other explains: the fit with it is right there, the one without is not."""
    factors = np.array([[1.0, 0.0]] * 9 + [[1.0, 1.0]])
    times = np.array([2.0] * 9 + [10.0])
    fit = _fit.fit_form(["a", "b"], factors, times, resamples=20)
    assert fit.predicted[-1] == pytest.approx(2.0)
    assert fit.held_out["worst"] == pytest.approx(0.8)


def test_points_of_a_group_are_left_out_together():
    seen = []

    def fit(rows):
        seen.append(sorted(rows.tolist()))
        return lambda out: np.zeros(len(out))

    _fit.cross_validate([0, 1, 0, 2], fit)
    assert seen == [[1, 3], [0, 2, 3], [0, 1, 2]]


def test_errors_of():
    errors = _fit.errors_of([1.1, 0.8, 2.0, 1.0], [1.0, 1.0, 1.0, 1.0])
    assert errors["mean"] == pytest.approx(0.325) and errors["worst"] == pytest.approx(1.0)
    assert (errors["count"], errors["within_15"], errors["within_25"]) == (4, 0.5, 0.75)
    assert _fit.errors_of([], []) == {"count": 0}


@pytest.mark.parametrize("seed", range(5))
def test_rank_correlation_is_spearmans(seed):
    draw = np.random.default_rng(seed)
    first, second = draw.integers(0, 6, 12), draw.integers(0, 6, 12)
    assert _fit.rank_correlation(first, second) == pytest.approx(stats.spearmanr(first, second).statistic)
    assert _fit.rank_correlation([1, 1, 1], [1, 2, 3]) == 0


def test_a_table_of_one_size():
    """As the planner reads it: a latency up to its size, a bandwidth beyond."""
    document = {"collectives": [{"operation": "all_gather", "group": "host", "ranks": 2, "bytes": [1000], "ms": [2.0]}]}
    assert [calibration.collective_ms(document, "all_gather", size) for size in (10, 1000, 3000)] == [2.0, 2.0, 6.0]


def test_a_falling_end_of_a_table_goes_on_level():
    sizes, times = [1024, 2048, 4096], [0.4, 0.2, 0.1]
    assert interpolate(sizes, times, 3000) == pytest.approx(0.2 * 2048 / 3000)
    assert interpolate(sizes, times, 1 << 20) == pytest.approx(0.1)
    assert interpolate(sizes, times, 16) == pytest.approx(0.4)
    assert interpolate(sizes, times[::-1], 8192) == pytest.approx(0.8)
