"""Posterior draws: units, means, and thinning."""

import numpy as np
import pytest

from probsfa.bayes.draws import (
    Draws,
    in_data_units,
    parameters_of_draw,
    posterior_mean,
    thinned_indices,
    timescales,
)


def make_draws(rng, n_sequences=None, chains=2, n=7, d=3, k=2):
    noise = (d,) if n_sequences is None else (n_sequences, d)
    return Draws(
        rng.uniform(0.1, 0.9, (chains, n, k)),
        rng.standard_normal((chains, n, d, k)),
        rng.uniform(0.1, 1.0, (chains, n, *noise)),
        rng.standard_normal((chains, n, d)),
    )


@pytest.mark.parametrize("n_sequences", [None, 4])
def test_in_data_units_mean_and_covariance_are_those_of_scaled_observations(rng, n_sequences):
    draws = make_draws(rng, n_sequences)
    shift, scale = rng.standard_normal(3), rng.uniform(0.5, 2.0, 3)
    out = in_data_units(draws, shift, scale)
    scaling = np.diag(scale)
    for chain, draw in np.ndindex(2, 7):
        plain = parameters_of_draw(draws, chain, draw, n_sequences or 1)
        scaled = parameters_of_draw(out, chain, draw, n_sequences or 1)
        assert len(plain) == len(scaled) == (n_sequences or 1)
        for one, other in zip(plain, scaled, strict=True):
            covariance = one.loadings @ one.loadings.T + np.diag(one.noise_variance)
            got = other.loadings @ other.loadings.T + np.diag(other.noise_variance)
            np.testing.assert_allclose(got, scaling @ covariance @ scaling, rtol=1e-12)
            np.testing.assert_allclose(other.offset, shift + scale * one.offset, rtol=1e-12)
            np.testing.assert_array_equal(other.decay, one.decay)


def test_autocorrelations_decrease_by_a_factor_e_in_a_time_scale():
    draws = Draws(np.exp([[[-0.1, -2.0]]]), *(np.zeros((1, 1, 1)),) * 3)
    np.testing.assert_allclose(timescales(draws, 3.0), [[[30.0, 1.5]]])


def test_mean_is_over_chains_draws_and_sequences(rng):
    draws = make_draws(rng, n_sequences=4)
    mean = posterior_mean(draws)
    np.testing.assert_allclose(mean.noise_variance, draws.noise_variance.reshape(-1, 3).mean(axis=0))
    np.testing.assert_allclose(mean.loadings, draws.loadings.reshape(-1, 3, 2).mean(axis=0))


@pytest.mark.parametrize(("wanted", "each"), [(1, 1), (2, 1), (5, 3), (14, 7), (1000, 7)])
def test_thinned_draws_are_spread_over_the_chain(rng, wanted, each):
    chosen = thinned_indices(make_draws(rng), wanted)
    assert len(chosen) == each and np.all(np.diff(chosen) > 0)
    if each > 1:
        assert chosen[0] == 0 and chosen[-1] == 6


def test_draws_for_covariates_in_other_units_have_the_same_means(rng):
    u, shift, scale = rng.standard_normal((5, 2)), np.array([3.0, -1.0, 0.5]), np.array([2.0, 0.1, 7.0])
    origin, unit = np.array([100.0, -3.0]), np.array([10.0, 0.2])
    draws = make_draws(rng)._replace(exog_coef=rng.standard_normal((2, 7, 3, 2)))
    got = in_data_units(draws, shift, scale, origin, unit)
    inside = draws.offset[..., None, :] + u @ np.swapaxes(draws.exog_coef, 2, 3)
    means = got.offset[..., None, :] + (origin + unit * u) @ np.swapaxes(got.exog_coef, 2, 3)
    np.testing.assert_allclose(means, shift + scale * inside, rtol=1e-12, atol=1e-10)
