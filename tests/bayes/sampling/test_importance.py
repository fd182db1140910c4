"""Importance weights of known distributions."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from probsfa.bayes.sampling.importance import resample, smoothed_weights


def log_normal_tail(n, scale, rng):
    """Return log ratios of normal densities, at draws of the narrower one, and their tail index."""
    draws = rng.standard_normal(n)
    return stats.norm.logpdf(draws, 0.0, scale) - stats.norm.logpdf(draws), 1.0 - 1.0 / scale**2


@pytest.mark.parametrize("scale", [1.2, 1.5, 2.5])
def test_the_tail_index_is_that_of_the_ratios(rng, scale):
    ratios, wanted = log_normal_tail(200_000, scale, rng)
    assert abs(smoothed_weights(ratios + 1000.0)[1] - wanted) < 0.15


def test_only_the_largest_weights_are_smoothed(rng):
    ratios, _ = log_normal_tail(2500, 1.5, rng)
    weights = smoothed_weights(ratios)[0]
    order = np.argsort(ratios)
    exact = np.exp(ratios[order])
    smoothed, n_tail = weights[order], 150  # three square roots of the number of draws
    np.testing.assert_allclose(smoothed[:-n_tail] / smoothed[0], exact[:-n_tail] / exact[0], rtol=1e-9)
    assert np.all(np.diff(smoothed[-n_tail:]) >= 0.0)
    assert not np.allclose(smoothed[-n_tail:] / smoothed[0], exact[-n_tail:] / exact[0])


def test_weighted_moments_are_those_of_the_target(rng):
    """Draws of N(0, 1) weighted to N(0.3, 0.8^2)."""
    draws = rng.standard_normal(40_000)
    weights, pareto_k = smoothed_weights(stats.norm.logpdf(draws, 0.3, 0.8) - stats.norm.logpdf(draws))
    assert pareto_k < 0.5
    kept = draws[resample(weights, len(draws), rng)]
    assert abs(np.mean(kept) - 0.3) < 0.02
    assert abs(np.std(kept) - 0.8) < 0.02


@pytest.mark.parametrize("old", [False, True])
def test_both_major_versions_of_arviz_are_supported(rng, monkeypatch, old):
    """ArviZ 1 has the function in arviz-stats; its argument is log-likelihoods, minus the log ratios."""
    calls = []

    def psislw(logs):
        calls.append(logs)
        return (logs if old else -logs), 0.3

    if old:
        monkeypatch.setitem(sys.modules, "arviz_stats.base", None)
        monkeypatch.setitem(sys.modules, "arviz", SimpleNamespace(psislw=psislw))
    else:
        base = SimpleNamespace(array_stats=SimpleNamespace(psislw=psislw))
        monkeypatch.setitem(sys.modules, "arviz_stats", SimpleNamespace(base=base))
        monkeypatch.setitem(sys.modules, "arviz_stats.base", base)
    ratios = rng.standard_normal(100)
    weights, pareto_k = smoothed_weights(ratios)
    np.testing.assert_allclose(weights, np.exp(ratios) / np.sum(np.exp(ratios)))
    assert pareto_k == 0.3 and len(calls) == 1


def test_tail_index_of_a_poor_proposal_exceeds_its_limit(rng):
    draws = rng.standard_normal(2000)
    ratios = stats.norm.logpdf(draws, 0.0, 5.0) - stats.norm.logpdf(draws)
    assert smoothed_weights(ratios)[1] > 0.7


@pytest.mark.parametrize("n", [1, 3, 10])
def test_tail_index_of_few_draws_is_infinite(rng, n):
    weights, pareto_k = smoothed_weights(rng.standard_normal(n))
    assert abs(weights.sum() - 1.0) < 1e-12
    assert pareto_k == np.inf


def test_weights_of_non_finite_ratios_are_zero(rng):
    ratios = np.zeros(200)
    ratios[:3] = np.nan, -np.inf, np.inf
    weights, pareto_k = smoothed_weights(ratios)
    np.testing.assert_array_equal(weights[:3], 0.0)
    np.testing.assert_allclose(weights[3:], 1.0 / 197)
    assert pareto_k == -np.inf
    assert smoothed_weights(np.full(10, np.nan))[1] == np.inf


def test_indices_are_drawn_in_proportion_to_their_weights(rng):
    weights = np.array([0.5, 0.25, 0.25, 0.0])
    np.testing.assert_array_equal(np.bincount(resample(weights, 8, rng), minlength=4), [4, 2, 2, 0])
