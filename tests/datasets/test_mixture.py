"""The generator draws from the model: moments, shapes, and errors."""

import numpy as np
import pytest

from probsfa.datasets import make_slow_mixture

N = 40_000


def lagged_product(z, lag):
    return (z[lag:] * z[: len(z) - lag]).mean(axis=0)


def six_errors(a):
    """Return six standard errors of the mean of z_t z_t-l of an AR(1) process of unit variance (Bartlett)."""
    return 6.0 * np.sqrt(2.0 * (1.0 + a**2) / (1.0 - a**2) / N)


@pytest.mark.parametrize("lag", [0, 1, 5])
def test_factors_have_the_autocovariance_of_the_model(lag):
    a = np.array([0.95, 0.5, -0.7])
    factors = make_slow_mixture(N, 3, decay=a, random_state=0).latents
    assert np.all(np.abs(lagged_product(factors, lag) - a**lag) < six_errors(a))


def test_factors_are_uncorrelated():
    a = np.array([0.9, 0.9])
    z = make_slow_mixture(N, 2, decay=a, random_state=1).latents
    assert abs((z[:, 0] * z[:, 1]).mean()) < six_errors(a)[0]


def test_first_row_has_the_stationary_distribution():
    first = make_slow_mixture(decay=[0.999], lengths=[2] * 5000, random_state=2).latents[::2]
    assert abs(first.mean()) < 6.0 / np.sqrt(5000)
    assert abs((first**2).mean() - 1.0) < 6.0 * np.sqrt(2.0 / 5000)


def test_sequences_are_independent():
    z = make_slow_mixture(decay=[0.999], lengths=[2] * 5000, random_state=3).latents[:, 0]
    across = z[1:-1:2] * z[2::2]
    assert abs(across.mean()) < 6.0 / np.sqrt(across.size)
    within = z[::2] * z[1::2]
    assert abs(within.mean() - 0.999) < 6.0 * np.sqrt(2.0 / within.size)


def test_observations_are_offset_plus_mixture_plus_noise():
    loadings = np.array([[1.0, -2.0], [0.0, 3.0], [0.5, 0.5]])
    noise, offset = np.array([0.1, 1.0, 4.0]), np.array([5.0, -1e3, 0.0])
    drawn = make_slow_mixture(
        N, decay=[0.9, 0.2], loadings=loadings, noise_variance=noise, offset=offset, random_state=4
    )
    residuals = drawn.complete - offset - drawn.latents @ loadings.T
    assert np.all(np.abs(residuals.mean(axis=0)) < 6.0 * np.sqrt(noise / N))
    assert np.all(np.abs(residuals.var(axis=0) / noise - 1.0) < 6.0 * np.sqrt(2.0 / N))


def test_without_noise_data_are_the_mixture():
    drawn = make_slow_mixture(50, 3, noise_variance=0.0, random_state=0)
    np.testing.assert_allclose(drawn.data, drawn.latents @ drawn.loadings.T, rtol=1e-12)


@pytest.mark.parametrize("block", [None, 20])
def test_missing_values(block):
    drawn = make_slow_mixture(2000, 6, missing_fraction=0.25, missing_block=block, random_state=5)
    np.testing.assert_array_equal(np.isnan(drawn.data), ~drawn.mask)
    np.testing.assert_array_equal(drawn.data[drawn.mask], drawn.complete[drawn.mask])
    assert abs((~drawn.mask).mean() - 0.25) < 0.03
    if block:
        # At least one of the adjacent rows of each missing value is missing, too.
        alone = ~drawn.mask[1:-1] & drawn.mask[2:] & drawn.mask[:-2]
        assert not alone.any()


def test_timescales_and_decay_are_equivalent():
    by_scale = make_slow_mixture(100, 4, timescales=[50.0, 2.0], random_state=6)
    by_decay = make_slow_mixture(100, 4, decay=np.exp([-1 / 50, -1 / 2]), random_state=6)
    np.testing.assert_array_equal(by_scale.data, by_decay.data)
    np.testing.assert_allclose(by_decay.timescales, [50.0, 2.0])
    assert np.isnan(make_slow_mixture(10, 2, decay=[-0.5, 0.0], random_state=0).timescales[0])


def test_lengths_are_numbers_of_rows():
    drawn = make_slow_mixture(lengths=[3, 1, 7], random_state=7)
    assert drawn.data.shape == (11, 8)
    assert drawn.lengths == (3, 1, 7)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"decay": [0.9], "timescales": [3.0]}, "not both"),
        ({"decay": [1.0]}, "decay"),
        ({"decay": []}, "decay"),
        ({"decay": [np.nan]}, "decay"),
        ({"timescales": [0.0]}, "timescales"),
        ({"loadings": np.zeros((4, 2))}, r"loadings.*\(D, 3\)"),
        ({"noise_variance": -1.0}, "noise_variance"),
        ({"noise_variance": [1.0, 2.0]}, "8 numbers"),
        ({"missing_fraction": 1.0}, "missing_fraction"),
        ({"missing_fraction": 0.1, "missing_block": 2000}, "missing_block.*1"),
        ({"lengths": [3, 0]}, "lengths"),
        ({"lengths": []}, "lengths"),
        ({"n_steps": 0}, "n_steps"),
        ({"n_features": 0}, "n_features.*1"),
    ],
)
def test_invalid_arguments_are_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_slow_mixture(random_state=0, **arguments)
