"""Initial values: interpolation, lagged covariances, and properties of each start."""

import numpy as np
import pytest
import scipy.linalg

from probsfa.statespace.learning.starts import interpolate, lagged_covariance, starts
from probsfa.statespace.parameters import StateLayout
from tests.oracles import statespace as oracle
from tests.statespace.support import mask_values, to_panel
from tests.tolerances import EXACT

LENGTHS = (40, 1, 25)


def centred_data(rng, n_features=4, n_components=2):
    """Return complete, centred sequences of a model with slow factors, and their mean."""
    model = oracle.random_model(rng, n_features, n_components)
    model = model._replace(decay=np.linspace(0.9, 0.4, n_components))
    data = oracle.simulate(rng, model, [900, 600])
    offset = np.concatenate(data).mean(axis=0)
    return [x - offset for x in data], offset


def test_gaps_are_interpolated_linearly(rng):
    """Linear between observations, constant at the ends, and the mean for columns without observations."""
    model = oracle.random_model(rng, 3, 2)
    data = mask_values(rng, oracle.simulate(rng, model, LENGTHS), "scattered")
    data[0][:3, 0] = data[0][-2:, 0] = np.nan
    data[1][0, 1] = np.nan
    found = interpolate(to_panel(data))
    assert [x.shape for x in found] == [x.shape for x in data]
    means = np.nanmean(np.concatenate(data), axis=0)
    for x, filled in zip(data, found, strict=True):
        for t, d in np.ndindex(x.shape):
            observed = np.flatnonzero(~np.isnan(x[:, d]))
            before, after = observed[observed <= t], observed[observed >= t]
            if not observed.size:
                wanted = means[d]
            elif not before.size or not after.size:
                wanted = x[observed[0] if not before.size else observed[-1], d]
            else:
                first, last = before[-1], after[0]
                share = (t - first) / max(last - first, 1)
                wanted = (1.0 - share) * x[first, d] + share * x[last, d]
            assert filled[t, d] == pytest.approx(wanted, rel=EXACT, abs=1e-14)


@pytest.mark.parametrize("lag", [0, 1, 30])
def test_lagged_covariances_are_means_over_pairs_of_rows(rng, lag):
    sequences = [rng.standard_normal((n, 3)) for n in LENGTHS]
    pairs = [np.outer(x[t + lag], x[t]) for x in sequences for t in range(len(x) - lag)]
    wanted = np.mean(pairs, axis=0)
    np.testing.assert_allclose(lagged_covariance(sequences, lag), (wanted + wanted.T) / 2, atol=1e-13)


def test_without_pairs_of_rows_lagged_covariances_are_zero(rng):
    np.testing.assert_array_equal(lagged_covariance([rng.standard_normal((2, 3))], 5), np.zeros((3, 3)))


def test_the_first_start_is_slow_feature_analysis(rng):
    """Compare with SciPy's generalized eigenproblem: directions and decays."""
    sequences, offset = centred_data(rng)
    covariance, lagged = (lagged_covariance(sequences, lag) for lag in (0, 1))
    deltas, directions = scipy.linalg.eigh(2.0 * (covariance - lagged), covariance)
    first = next(starts(sequences, offset, StateLayout(2)))
    np.testing.assert_allclose(first.decay, 1.0 - 0.5 * deltas[:2], rtol=1e-9)
    loadings = covariance @ directions[:, :2]
    for k in range(2):
        np.testing.assert_allclose(
            np.outer(first.loadings[:, k], first.loadings[:, k]),
            np.outer(loadings[:, k], loadings[:, k]),
            rtol=1e-8,
            atol=1e-10,
        )
    wanted = np.maximum(np.diag(covariance) - np.sum(loadings**2, axis=1), 0.1 * np.diag(covariance))
    np.testing.assert_allclose(first.noise_variance, wanted, rtol=1e-9)
    np.testing.assert_array_equal(first.offset, offset)


def test_the_second_start_reproduces_the_covariances_at_two_lags(rng):
    """Lagged covariances are ``C diag(a) C'`` at lag one and ``C diag(a^2) C'`` at lag two."""
    sequences, offset = centred_data(rng)
    once, twice = (lagged_covariance(sequences, lag) for lag in (1, 2))
    second = list(starts(sequences, offset, StateLayout(2)))[1]
    decay, loadings = second.decay, second.loadings
    assert np.all(np.diff(decay) < 0.0)
    u, s, _ = scipy.linalg.svd(once)
    np.testing.assert_allclose((loadings * decay) @ loadings.T, (u[:, :2] * s[:2]) @ u[:, :2].T, atol=1e-10)
    within = u[:, :2] @ u[:, :2].T
    np.testing.assert_allclose((loadings * decay**2) @ loadings.T, within @ twice @ within, atol=1e-10)


def test_more_factors_than_directions_share_the_variance(rng):
    """Split factors have the same covariance of columns, and the requested number."""
    sequences, offset = centred_data(rng, n_features=2)
    full, split = (next(starts(sequences, offset, StateLayout(k))) for k in (2, 5))
    assert split.decay.shape == (5,) and split.loadings.shape == (2, 5)
    assert np.all((split.decay > 0.0) & (split.decay < 1.0)) and split.decay[0] > full.decay[0]
    for total in (lambda p: p.loadings @ p.loadings.T, lambda p: p.noise_variance):
        np.testing.assert_allclose(total(split), total(full), rtol=1e-10)


def test_data_with_alternating_signs_have_starting_points():
    """Lagged covariances have no positive eigenvalue, so that the other start is used."""
    x = np.tile([[1.0, 0.5], [-1.0, -0.4]], (50, 1))
    for start in starts([x - x.mean(axis=0)], x.mean(axis=0), StateLayout(2)):
        assert all(np.all(np.isfinite(part)) for part in start.to_arrays().values())
        assert np.all(np.abs(start.decay) < 1.0) and np.all(start.noise_variance > 0.0)


def test_starts_of_more_columns_than_rows_are_slow_feature_analysis(rng):
    """They equal those from covariances of all columns, which are not computed."""
    x = rng.standard_normal((12, 40)).cumsum(axis=0)
    x -= x.mean(axis=0)
    first = next(starts([x], np.zeros(40), StateLayout(2)))
    covariance, lagged = x.T @ x / 12, x[1:].T @ x[:-1] / 11
    values, vectors = np.linalg.eigh(covariance)
    whitener = vectors[:, -11:] / np.sqrt(values[-11:])
    decay, rotation = np.linalg.eigh(whitener.T @ (lagged + lagged.T) @ whitener / 2)
    loadings = covariance @ whitener @ rotation[:, :-3:-1]
    np.testing.assert_allclose(first.decay, np.clip(decay[:-3:-1], -1 + 1e-4, 1 - 1e-4), rtol=1e-9)
    np.testing.assert_allclose(np.abs(first.loadings), np.abs(loadings), rtol=1e-6)


def test_starts_of_very_many_columns_need_no_matrix_of_their_size(rng):
    x = rng.standard_normal((3, 200_000))
    for params in starts([x], np.zeros(200_000), StateLayout(1)):
        assert params.loadings.shape == (200_000, 1)
