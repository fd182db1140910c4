"""Limits with a nominal rate of exceedances, and held-out segments."""

import tracemalloc

import numpy as np
import pytest
from scipy import stats
from scipy.signal import lfilter

from probsfa.monitoring.limits import (
    contiguous_folds,
    control_limits,
    empirical_limits,
    tail_limits,
    trailing_means,
)
from tests.oracles import monitoring as oracle


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.3])
def test_rates_are_as_large_as_alpha_allows(rng, joint, alpha):
    values = rng.exponential(size=(500, 3)) @ np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 2.0]])
    values[rng.random(values.shape) < 0.02] = np.nan
    limits, beyond = empirical_limits(values, alpha, joint=joint)
    each, together = oracle.rates(values, limits)
    np.testing.assert_array_equal(np.sum(values > limits, axis=0), beyond)
    # All charts have the same rate, except for missing values.
    assert np.ptp(each) <= 0.0
    rate = together if joint else each[0]
    assert rate <= alpha
    # With limits at the next lower value of each chart, the rate is larger than alpha.
    lower = np.array([np.max(v[v < limit]) for v, limit in zip(values.T, limits, strict=True)])
    each, together = oracle.rates(values, np.nextafter(lower, -np.inf))
    assert (together if joint else each.max()) > alpha


def test_too_few_rows_are_reported():
    with pytest.warns(UserWarning, match="20.*alpha=0.01"):
        limits = control_limits(np.arange(40.0).reshape(20, 2), 0.01, joint=True)
    np.testing.assert_array_equal(limits, [38.0, 39.0])


@pytest.mark.parametrize("joint", [True, False])
def test_limits_are_quantiles_if_many_exceedances_are_expected(rng, joint):
    values = rng.exponential(size=(2000, 3))
    values[5, 1] = np.nan
    np.testing.assert_array_equal(
        control_limits(values, 0.01, joint=joint), empirical_limits(values, 0.01, joint=joint)[0]
    )


def test_overlapping_averages_count_once_per_window(rng):
    """3,000 rows have 59 independent averages over 50; their quantiles are exceeded too often."""
    rates, rates_of_quantiles = [], []
    for _ in range(40):
        held_out = trailing_means(rng.exponential(size=(3000, 3)), 50)
        new = trailing_means(rng.exponential(size=(20_000, 3)), 50)
        with pytest.warns(UserWarning, match="59 independent averages over window=50 rows"):
            limits = control_limits(held_out, 0.01, joint=True, window=50)
        rates.append(oracle.rates(new[49:], limits)[1])
        rates_of_quantiles.append(oracle.rates(new[49:], empirical_limits(held_out, 0.01, joint=True)[0])[1])
    assert np.mean(rates) < 0.7 * np.mean(rates_of_quantiles) and np.mean(rates_of_quantiles) > 0.017


def test_joint_limits_of_few_rows_have_the_nominal_rate(rng):
    """For independent exponential statistics, whose exceedance rates are known."""
    rates = []
    for _ in range(200):
        limits = control_limits(rng.exponential(size=(500, 3)), 0.01, joint=True)
        rates.append(1.0 - np.prod(-np.expm1(-limits)))
    assert 0.007 < np.mean(rates) < 0.0105  # 0.0113 or more with separate rates


@pytest.mark.exhaustive  # 200 simulations; tests/monitoring/test_monitor.py has the rate of a monitor
def test_false_alarm_rate_is_nominal_with_few_rows(rng):
    """1 % of 500 correlated rows are five, of fewer independent events; quantiles are then too low."""
    decay, n_rows = 0.7, 500
    rates_of_quantiles, rates_of_limits = [], []
    for _ in range(200):
        noise = rng.standard_normal((5500, 6))
        factors = lfilter([np.sqrt(1.0 - decay**2)], [1.0, -decay], noise, axis=0)
        values = np.stack([np.sum(factors[:, :3] ** 2, axis=1), np.sum(factors[:, 3:] ** 2, axis=1)], axis=1)
        normal, new = values[:n_rows], values[n_rows + 100 :]
        rates_of_quantiles.append(oracle.rates(new, empirical_limits(normal, 0.01, joint=True)[0])[1])
        rates_of_limits.append(oracle.rates(new, control_limits(normal, 0.01, joint=True))[1])
    assert np.mean(rates_of_quantiles) > 0.013
    assert np.mean(rates_of_limits) == pytest.approx(0.01, abs=0.0025)


@pytest.mark.parametrize("shape", [0.0, 0.2])
def test_tail_limits_of_generalized_pareto_distributions_are_accurate(rng, shape):
    values = stats.genpareto(shape, scale=3.0).rvs((200_000, 1), random_state=rng)
    expected = stats.genpareto(shape, scale=3.0).isf(1e-4)
    np.testing.assert_allclose(tail_limits(values, 1e-4), expected, rtol=0.05)
    # For any data, tails are unbounded, and lower rates have higher limits.
    ended = tail_limits(rng.random((300, 1)), 1e-3)
    assert ended > 1.0
    assert tail_limits(values[:300], 1e-3) > tail_limits(values[:300], 1e-2)


@pytest.mark.parametrize(("n", "n_above"), [(60, 20), (204, 20), (260, 26)])
def test_the_tail_has_a_tenth_of_the_rows_or_twenty_rows(rng, n, n_above):
    """The threshold is the largest value outside the tail; the moments are those of the tail."""
    values = rng.lognormal(size=(n, 1))
    ordered = np.sort(values[:, 0])
    threshold, tail = ordered[-n_above - 1], ordered[-n_above:]
    mean, variance = (tail - threshold).mean(), (tail - threshold).var()
    shape = (1.0 - mean**2 / variance) / 2.0
    assert shape > 0.0
    tail_distribution = stats.genpareto(shape, loc=threshold, scale=(1.0 - shape) * mean)
    np.testing.assert_allclose(
        tail_limits(values, 1e-3), tail_distribution.isf(1e-3 * n / n_above), rtol=1e-9
    )


@pytest.mark.parametrize(("n_exceedances", "has_limit"), [(19.9, True), (20.0, False)])
def test_no_tail_limit_for_rates_above_the_share_of_the_tail(rng, n_exceedances, has_limit):
    assert np.isfinite(tail_limits(rng.random((100, 1)), n_exceedances / 100))[0] == has_limit


def test_no_tail_limit_from_few_rows_or_for_high_rates(rng):
    values = rng.exponential(size=(100, 2))
    assert np.all(np.isneginf(tail_limits(values, 0.3)))
    assert np.all(np.isneginf(tail_limits(values[:39], 0.01)))
    np.testing.assert_array_equal(tail_limits(np.ones((100, 1)), 0.01), 1.0)


def test_the_limit_of_a_statistic_without_values_is_infinite():
    values = np.stack([np.arange(200.0), np.full(200, np.nan)], axis=1)
    assert control_limits(values, 0.1, joint=True)[1] == np.inf


@pytest.mark.parametrize(("lengths", "n_folds"), [((100,), 5), ((30, 7, 50), 4), ((3, 3, 3), 2)])
def test_folds_are_segments_that_cover_every_row_once(lengths, n_folds):
    rows = [(i, t) for i, n in enumerate(lengths) for t in range(n)]
    folds = contiguous_folds(lengths, n_folds)
    covered = [(i, t) for fold in folds for i, a, b in fold for t in range(a, b)]
    assert covered == rows
    sizes = [sum(b - a for _, a, b in fold) for fold in folds]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("window", [1, 3, 12])
def test_trailing_means_by_a_loop(rng, window):
    values = rng.standard_normal((10, 2))
    values[rng.random(values.shape) < 0.3] = np.nan
    values[4:8, 1] = np.nan
    means = trailing_means(values, window)
    for t in range(10):
        for s in range(2):
            last = values[max(t - window + 1, 0) : t + 1, s]
            last = last[~np.isnan(last)]
            expected = np.nan if t < window - 1 or last.size == 0 else last.sum() / last.size
            np.testing.assert_allclose(means[t, s], expected, rtol=1e-12)


def test_an_extreme_value_does_not_change_later_means():
    values = np.ones((20, 1))
    values[5] = 1e15
    np.testing.assert_array_equal(trailing_means(values, 4)[9:], 1.0)


def test_memory_does_not_depend_on_the_window(rng):
    values = rng.standard_normal((4000, 2))
    tracemalloc.start()
    try:
        trailing_means(values, 500)
        assert tracemalloc.get_traced_memory()[1] < 10 * values.nbytes
    finally:
        tracemalloc.stop()
