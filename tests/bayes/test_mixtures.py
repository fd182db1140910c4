"""Moments and quantiles of mixtures over draws."""

import numpy as np
import scipy.stats

from probsfa.bayes.conditional import PanelGivenDraw
from probsfa.bayes.mixtures import (
    MixtureMoments,
    make_value_mixture,
    mixture_posteriors,
    mixture_quantile,
    value_mixtures,
)
from probsfa.statespace.engine.posterior import observation_moments, smooth
from tests.oracles import statespace as oracle
from tests.statespace.support import mask_values, to_panel, to_parameters
from tests.tolerances import EXACT, mc_tolerance


def test_moments_follow_from_the_law_of_total_variance(rng):
    means, stds = 1e8 + rng.standard_normal((7, 3)), rng.uniform(0.5, 2.0, (7, 3))
    moments = MixtureMoments()
    for mean, std in zip(means, stds, strict=True):
        moments.add(mean, std**2)
    np.testing.assert_allclose(moments.mean, means.mean(0), rtol=1e-15)
    np.testing.assert_allclose(moments.variance, np.mean(stds**2, axis=0) + np.var(means, axis=0), rtol=1e-6)


def test_quantile_of_one_draw_is_the_normal_quantile():
    means, stds = np.array([[2.0, -1e6]]), np.array([[3.0, 1e-3]])
    for p in (0.025, 0.5, 0.9):
        np.testing.assert_allclose(
            mixture_quantile(means, stds, p), scipy.stats.norm.ppf(p, means[0], stds[0]), rtol=1e-12
        )


def test_quantile_of_a_mixture_has_that_probability_below_it(rng):
    means, stds = 5.0 * rng.standard_normal((40, 6)), rng.uniform(0.1, 3.0, (40, 6))
    for p in (0.05, 0.3, 0.95):
        at = mixture_quantile(means, stds, p)
        np.testing.assert_allclose(scipy.stats.norm.cdf(at, means, stds).mean(0), p, atol=1e-8)


def test_the_mixture_of_equal_draws_is_one_model(rng):
    model = oracle.random_model(rng, 3, 2)
    panel = to_panel(mask_values(rng, oracle.simulate(rng, model, [12]), "scattered"))
    params = to_parameters(model)
    one = smooth(params, panel)
    (mixture,) = mixture_posteriors([[PanelGivenDraw(params, panel)]] * 5)
    for got, wanted in zip(mixture, one, strict=True):
        np.testing.assert_allclose(got, wanted, atol=EXACT)
    chosen = rng.random((12, 3)) < 0.4
    (values,) = value_mixtures([[PanelGivenDraw(params, panel)]] * 5, [chosen])
    mean, variance = observation_moments(params, one.means, one.covariances)
    np.testing.assert_allclose(values.mean, mean[chosen], atol=EXACT)
    np.testing.assert_allclose(values.std, np.sqrt(variance[chosen]), atol=EXACT)


def test_mixed_posterior_has_the_moments_of_the_mixture(rng):
    models = [oracle.random_model(rng, 3, 2) for _ in range(6)]
    xs = mask_values(rng, oracle.simulate(rng, models[0], [8]), "scattered")
    panel = to_panel(xs)
    dense = [oracle.joint_posterior(model, xs) for model in models]
    (mixture,) = mixture_posteriors([[PanelGivenDraw(to_parameters(model), panel)] for model in models])
    means = np.array([d.means for d in dense])
    np.testing.assert_allclose(mixture.means, means.mean(0), atol=EXACT)
    gap = means - means.mean(0)
    total = np.mean([d.covariances for d in dense], axis=0) + np.einsum("nti,ntj->tij", gap, gap) / 6
    np.testing.assert_allclose(mixture.covariances, total, atol=EXACT)
    lags = (
        np.mean([d.lag_one for d in dense], axis=0) + np.einsum("nti,ntj->tij", gap[:, 1:], gap[:, :-1]) / 6
    )
    np.testing.assert_allclose(mixture.lag_one_covariances, lags, atol=EXACT)
    wanted = scipy.special.logsumexp([d.log_likelihood for d in dense]) - np.log(6)
    assert abs(mixture.log_likelihood - wanted) < EXACT * abs(wanted)


def test_draws_are_weighted_by_the_likelihood_of_all_earlier_sequences(rng):
    first = [oracle.random_model(rng, 3, 2) for _ in range(5)]
    second = [model._replace(noise=2.0 * model.noise) for model in first]
    xs = mask_values(rng, oracle.simulate(rng, first[0], [7, 5]), "scattered")
    panels = to_panel(xs[:1]), to_panel(xs[1:])
    draws = [
        [PanelGivenDraw(to_parameters(model), panel) for model, panel in zip(pair, panels, strict=True)]
        for pair in zip(first, second, strict=True)
    ]
    parts = mixture_posteriors(draws)
    of_first = [oracle.log_likelihood(model, xs[:1]) for model in first]
    of_second = [oracle.log_likelihood(model, xs[1:]) for model in second]
    wanted = scipy.special.logsumexp(np.add(of_first, of_second)) - np.log(5)
    assert abs(sum(part.log_likelihood for part in parts) - wanted) < EXACT * abs(wanted)
    alone = scipy.special.logsumexp(of_first) - np.log(5)
    assert abs(parts[0].log_likelihood - alone) < EXACT * abs(alone)


def test_mixtures_of_values_have_the_moments_and_quantiles_of_draws(rng):
    means, stds = rng.standard_normal((30, 4)), rng.uniform(0.2, 1.0, (30, 4))
    values = make_value_mixture(means, stds)
    which = rng.integers(30, size=100_000)
    drawn = means[which] + stds[which] * rng.standard_normal((100_000, 4))
    np.testing.assert_allclose(values.mean, drawn.mean(0), atol=mc_tolerance(np.max(values.std) ** 2, 1e5))
    inside = np.mean((drawn > values.quantile(0.1)) & (drawn < values.quantile(0.9)), axis=0)
    np.testing.assert_allclose(inside, 0.8, atol=mc_tolerance(0.16, 1e5))
