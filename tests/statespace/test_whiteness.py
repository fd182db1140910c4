"""Tests of prediction errors: values by definition, and rates of false alarms."""

import numpy as np
import pytest
import scipy.stats
from scipy.signal import lfilter

from probsfa.statespace.columns import autocorrelation
from probsfa.statespace.whiteness import (
    compare_parts,
    heavy_tails,
    highest_peak,
    ljung_box,
    remove_cycle,
    split_into_parts,
)


def with_missing(rng, errors, share=0.2):
    return np.where(rng.random(errors.shape) < share, np.nan, errors)


def sinusoid(n, period):
    return np.sin(2.0 * np.pi * np.arange(n) / period + 1.0)


def test_autocorrelation_is_the_mean_product_of_the_pairs_that_are_observed(rng):
    errors = with_missing(rng, rng.standard_normal((30, 3)))
    estimate = autocorrelation(errors, [18, 12], np.array([1, 4]))
    for j in range(3):
        x = errors[:, j] - np.nanmean(errors[:, j])
        for i, lag in enumerate((1, 4)):
            pairs = [
                x[t] * x[t + lag]
                for t in range(30 - lag)
                if (t < 18) == (t + lag < 18) and not np.isnan(x[t] * x[t + lag])
            ]
            assert estimate.n_pairs[i, j] == len(pairs)
            assert estimate.values[i, j] == pytest.approx(np.mean(pairs) / np.nanmean(x**2), rel=1e-12)


def test_ljung_box_is_that_of_statsmodels_without_missing_values(rng):
    diagnostic = pytest.importorskip("statsmodels.stats.diagnostic")
    x = rng.standard_normal((200, 1))
    expected = diagnostic.acorr_ljungbox(x[:, 0], lags=[10]).lb_pvalue.iloc[0]
    p_values = ljung_box(autocorrelation(x, [200], np.arange(1, 11)))
    assert p_values[0] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_ljung_box_is_uniform_for_white_noise_with_missing_values(share):
    rng = np.random.default_rng(3)
    errors = with_missing(rng, rng.standard_normal((400, 300)), share)
    p = ljung_box(autocorrelation(errors, [250, 150], np.array([*range(1, 11), 24])))
    assert scipy.stats.kstest(p, "uniform").pvalue > 0.01


def test_tails_are_those_of_the_best_t(rng):
    x = rng.standard_t(4.0, (800, 1)) * 2.0
    tails = heavy_tails(with_missing(rng, x, 0.1))
    nu, _, _ = scipy.stats.t.fit(x[:, 0] - np.median(x), floc=0.0)
    assert tails.degrees_of_freedom[0] == pytest.approx(nu, rel=0.25)
    assert tails.p_values[0] < 1e-6 and tails.excess_kurtosis[0] > 1.0
    assert heavy_tails(rng.standard_normal((800, 1))).p_values[0] > 0.01
    assert np.isnan(heavy_tails(np.full((20, 1), np.nan)).p_values).all()


@pytest.mark.parametrize("decay", [0.0, 0.6, 0.95])
def test_ar1_noise_is_not_reported_as_a_cycle(decay):
    rng = np.random.default_rng(5)
    x = lfilter([1.0], [1.0, -decay], rng.standard_normal((1000, 150)), axis=0)
    p = highest_peak(with_missing(rng, x), [600, 400], np.arange(1000.0)).p_values
    assert np.mean(p < 0.05) < 0.12 and np.mean(p < 1e-3) < 0.02


@pytest.mark.parametrize("lengths", [(900,), (300, 350, 250)])
def test_a_cycle_is_found_with_its_period_and_share(lengths):
    rng = np.random.default_rng(7)
    x = rng.standard_normal((900, 40)) + 0.6 * sinusoid(900, 24.5)[:, None]
    # Rows are half an hour apart, so that a period of 24.5 rows is 12.25 hours.
    peaks = highest_peak(with_missing(rng, x), lengths, 0.5 * np.arange(900.0))
    assert np.all(peaks.p_values < 1e-3)
    assert np.all(np.abs(1.0 / peaks.periods - 1.0 / 12.25) < 0.5 * peaks.resolution)
    assert np.median(peaks.shares) == pytest.approx(0.18 / 1.18, rel=0.2)


def test_errors_without_a_cycle_are_orthogonal_to_it(rng):
    x = with_missing(rng, rng.standard_normal((200, 2)) + sinusoid(200, 20.0)[:, None])
    out = remove_cycle(x, [200], np.arange(200.0), np.array([20.0, np.nan]))
    observed = ~np.isnan(x[:, 0])
    angle = 2.0 * np.pi * np.arange(200)[observed] / 20.0
    left = out[observed, 0] - out[observed, 0].mean()
    for wave in (np.cos(angle), np.sin(angle)):
        assert abs(left @ (wave - wave.mean())) < 1e-9
    np.testing.assert_array_equal(out[:, 1], x[:, 1])


@pytest.mark.parametrize("decay", [0.0, 0.6])
def test_only_a_step_causes_different_means_of_parts(decay):
    rng = np.random.default_rng(9)
    x = lfilter([1.0], [1.0, -decay], rng.standard_normal((1200, 150)), axis=0)
    x = with_missing(rng, x)
    p = compare_parts(x, split_into_parts(1200)).p_values
    assert np.mean(p < 0.05) < 0.14 and np.mean(p < 1e-3) < 0.03
    x[700:] += 3.0 * np.nanstd(x)
    stepped = compare_parts(x, split_into_parts(1200))
    assert np.all(stepped.p_values < 1e-4)
    assert stepped.means.shape == (8, 150)
