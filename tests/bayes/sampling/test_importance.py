"""Importance weights: against ArviZ, and against distributions that are known."""

import warnings

import numpy as np
import pytest
from scipy import stats

from probsfa.bayes.sampling.importance import fit_tail, resample, smoothed_weights


def arviz_weights(log_ratios):
    """Smoothed log weights and tail index by ArviZ, old or new."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import arviz

        if hasattr(arviz, "psislw"):
            logs, pareto_k = arviz.psislw(log_ratios.copy())
        else:
            from arviz_stats.base import array_stats

            logs, pareto_k = array_stats.psislw(-log_ratios)  # of log-likelihoods that are left out
    return np.asarray(logs), float(pareto_k)


@pytest.mark.parametrize("scale", [0.1, 0.5, 1.5])
@pytest.mark.parametrize("n", [400, 2500])  # whose tails are as long by every rule of rounding
def test_weights_are_those_of_arviz(rng, n, scale):
    ratios = scale * rng.standard_normal(n) + 1000.0
    weights, pareto_k = smoothed_weights(ratios)
    logs, expected_k = arviz_weights(ratios)
    expected = np.exp(logs - logs.max())
    assert abs(pareto_k - expected_k) < 1e-8
    np.testing.assert_allclose(weights, expected / expected.sum(), rtol=1e-7)


@pytest.mark.parametrize("shape", [-0.3, 0.2, 0.8])
def test_the_tail_of_a_pareto_distribution_is_estimated(rng, shape):
    draws = np.sort(stats.genpareto.rvs(shape, scale=3.0, size=20_000, random_state=rng))
    estimate, scale = fit_tail(draws)
    assert abs(estimate - shape) < 0.03
    assert abs(scale / 3.0 - 1.0) < 0.05


def test_moments_of_another_distribution_are_mended(rng):
    """Draws of N(0, 1) weighted to N(0.3, 0.8^2)."""
    draws = rng.standard_normal(40_000)
    weights, pareto_k = smoothed_weights(stats.norm.logpdf(draws, 0.3, 0.8) - stats.norm.logpdf(draws))
    assert pareto_k < 0.5
    kept = draws[resample(weights, len(draws), rng)]
    assert abs(np.mean(kept) - 0.3) < 0.02
    assert abs(np.std(kept) - 0.8) < 0.02


def test_a_hopeless_proposal_is_called_so(rng):
    draws = rng.standard_normal(2000)
    ratios = stats.norm.logpdf(draws, 0.0, 5.0) - stats.norm.logpdf(draws)
    assert smoothed_weights(ratios)[1] > 0.7


@pytest.mark.parametrize("n", [1, 3, 10])
def test_few_draws_cannot_tell(rng, n):
    weights, pareto_k = smoothed_weights(rng.standard_normal(n))
    assert abs(weights.sum() - 1.0) < 1e-12
    assert pareto_k == np.inf


def test_what_is_not_finite_has_no_weight(rng):
    ratios = np.zeros(200)
    ratios[:3] = np.nan, -np.inf, np.inf
    weights, pareto_k = smoothed_weights(ratios)
    np.testing.assert_array_equal(weights[:3], 0.0)
    np.testing.assert_allclose(weights[3:], 1.0 / 197)
    assert pareto_k == -np.inf
    assert smoothed_weights(np.full(10, np.nan))[1] == np.inf


def test_indices_come_as_often_as_their_weights_ask(rng):
    weights = np.array([0.5, 0.25, 0.25, 0.0])
    np.testing.assert_array_equal(np.bincount(resample(weights, 8, rng), minlength=4), [4, 2, 2, 0])
