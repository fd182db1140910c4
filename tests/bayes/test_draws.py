"""Posterior draws: units, means, and which of them are used."""

import numpy as np
import pytest

from probsfa.bayes.draws import (
    Draws,
    in_data_units,
    parameters_of_draw,
    parameters_of_draws,
    posterior_mean,
    thinned,
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
    stretch = np.diag(scale)
    for chain, draw in np.ndindex(2, 7):
        plain = parameters_of_draw(draws, chain, draw, n_sequences or 1)
        scaled = parameters_of_draw(out, chain, draw, n_sequences or 1)
        assert len(plain) == len(scaled) == (n_sequences or 1)
        for one, other in zip(plain, scaled, strict=True):
            covariance = one.loadings @ one.loadings.T + np.diag(one.noise_variance)
            got = other.loadings @ other.loadings.T + np.diag(other.noise_variance)
            np.testing.assert_allclose(got, stretch @ covariance @ stretch, rtol=1e-12)
            np.testing.assert_allclose(other.offset, shift + scale * one.offset, rtol=1e-12)
            np.testing.assert_array_equal(other.decay, one.decay)


def test_time_scales_are_those_in_which_correlations_fall_by_e():
    draws = Draws(np.exp([[[-0.1, -2.0]]]), *(np.zeros((1, 1, 1)),) * 3)
    np.testing.assert_allclose(timescales(draws, 3.0), [[[30.0, 1.5]]])


def test_mean_is_over_chains_draws_and_sequences(rng):
    draws = make_draws(rng, n_sequences=4)
    mean = posterior_mean(draws)
    np.testing.assert_allclose(mean.noise_variance, draws.noise_variance.reshape(-1, 3).mean(axis=0))
    np.testing.assert_allclose(mean.loadings, draws.loadings.reshape(-1, 3, 2).mean(axis=0))


@pytest.mark.parametrize(("wanted", "each"), [(1, 1), (2, 1), (5, 3), (14, 7), (1000, 7)])
def test_thinned_draws_are_spread_over_the_chain(rng, wanted, each):
    chosen = thinned(make_draws(rng), wanted)
    assert len(chosen) == each and np.all(np.diff(chosen) > 0)
    if each > 1:
        assert chosen[0] == 0 and chosen[-1] == 6


def test_parameters_come_chain_after_chain(rng):
    draws = make_draws(rng)
    drawn = list(parameters_of_draws(draws, 2, np.array([1, 4])))
    assert len(drawn) == 4 and all(len(panels) == 2 for panels in drawn)
    np.testing.assert_array_equal(drawn[2][0].decay, draws.decay[1, 1])
    np.testing.assert_array_equal(drawn[1][1].offset, draws.offset[0, 4])
