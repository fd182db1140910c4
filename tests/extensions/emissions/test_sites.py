"""Inference with sites: exact cases, bounds below the log-likelihood, and monotone updates."""

import numpy as np
import pytest

from probsfa._validation import Sequences
from probsfa.extensions.emissions.families import FAMILIES
from probsfa.extensions.emissions.sites import infer
from probsfa.statespace.engine.posterior import smooth
from probsfa.statespace.panel import make_panel
from tests.extensions.emissions.support import draw, observations_of, parameters, shape_of
from tests.oracles import emissions as oracle
from tests.sampling import parametrize
from tests.tolerances import EXACT

NAMES = list(FAMILIES)


def test_posterior_of_gaussian_values_is_exact():
    params = parameters()
    X, _ = draw("gaussian", params, 60, missing=0.3)
    inferred, _ = infer(params, observations_of("gaussian", X), (shape_of("gaussian", 4),))
    expected = smooth(params.replace(noise_variance=np.full(4, 0.4)), make_panel(Sequences(X, (60,))))
    assert inferred.bound == pytest.approx(expected.log_likelihood, abs=1e-8)
    np.testing.assert_allclose(inferred.row_bounds, expected.row_log_likelihoods, atol=1e-8)
    np.testing.assert_allclose(inferred.means, expected.means, atol=1e-8)
    np.testing.assert_allclose(inferred.covariances, expected.covariances, atol=1e-8)
    np.testing.assert_allclose(inferred.lag_one_covariances, expected.lag_one_covariances, atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_bound_is_below_the_log_likelihood_and_close(name):
    params = parameters(n_features=2, decay=(0.8,))
    X, _ = draw(name, params, 3, seed=1)
    X[1, 0] = np.nan
    shape = shape_of(name, 2)
    inferred, _ = infer(params, observations_of(name, X), (shape,), tol=1e-12)
    exact = oracle.log_likelihood(name, X, params.decay, params.loadings, params.offset, shape[:, 0])
    assert inferred.bound < exact + 1e-8
    assert inferred.bound > exact - 0.05


@pytest.mark.parametrize("name", NAMES)
def test_no_other_gaussian_has_a_higher_bound(name):
    """Compare with a direct search over all means and covariances, which does not use sites."""
    params = parameters(n_features=2, decay=(0.8,))
    X, _ = draw(name, params, 3, seed=1)
    shape = shape_of(name, 2)
    family = FAMILIES[name]

    def expected(mean, variance):
        return float(np.sum(family.expectation(X, mean, variance, shape).value + family.constant(X)))

    bound, means, covariance = oracle.best_gaussian(expected, params.decay, params.loadings, params.offset, 3)
    inferred, _ = infer(params, observations_of(name, X), (shape,), tol=1e-13)
    assert inferred.bound == pytest.approx(bound, abs=1e-7)
    np.testing.assert_allclose(inferred.means, means, atol=1e-4)
    np.testing.assert_allclose(inferred.covariances[:, 0, 0], np.diag(covariance), atol=1e-4)
    np.testing.assert_allclose(inferred.lag_one_covariances[:, 0, 0], np.diag(covariance, 1), atol=1e-4)


@parametrize("name", NAMES, quick=["poisson"])
@parametrize(
    "n_rows, n_features, decay", [(2, 1, (0.9,)), (20, 1, (0.95, 0.6, 0.1)), (40, 6, (0.99, -0.5))], quick=2
)
def test_bound_of_sites_never_decreases(name, n_rows, n_features, decay):
    """Parameters far from those of the data, and rows and columns without observations."""
    params = parameters(n_features, decay)
    for seed in range(6):
        X, _ = draw(name, params, n_rows, seed, missing=0.3)
        X[seed % n_rows] = np.nan
        if seed % 2:
            X[:, 0] = np.nan
        far = params.replace(
            loadings=(1.0 + 2.0 * seed) * params.loadings, offset=params.offset + (-1.0) ** seed * seed
        )
        inferred, history = infer(far, observations_of(name, X), (shape_of(name, n_features),), tol=1e-9)
        assert np.all(np.diff(history) >= 0.0)
        assert np.isfinite(inferred.bound) and history[-1] == inferred.bound
        if name == "quadratic":  # not concave: optimal precisions may be below the minimum precision
            continue
        # The iteration ended at a fixed point of the sites, not because steps became too short.
        step = np.abs(inferred.optimal_sites.information - inferred.sites.information)
        assert np.max(step) < 1e-3 * (1.0 + np.max(np.abs(inferred.sites.information)))


def test_nothing_observed_is_the_prior():
    params = parameters()
    X = np.full((20, 4), np.nan)
    inferred, _ = infer(params, observations_of("poisson", X), (shape_of("poisson", 4),))
    assert inferred.bound == 0.0
    np.testing.assert_allclose(inferred.means, 0.0, atol=EXACT)
    np.testing.assert_allclose(inferred.covariances, np.broadcast_to(np.eye(2), (20, 2, 2)), atol=EXACT)


def test_sequences_are_independent_and_missing_rows_equal_larger_time_steps():
    params = parameters(decay=(0.95, 0.6))
    X, _ = draw("poisson", params, 40)
    shape = (shape_of("poisson", 4),)
    joint, _ = infer(params, observations_of("poisson", X, (15, 25)), shape, tol=1e-12)
    parts = [
        infer(params, observations_of("poisson", part), shape, tol=1e-12)[0] for part in (X[:15], X[15:])
    ]
    np.testing.assert_allclose(joint.means, np.concatenate([part.means for part in parts]), atol=1e-5)
    assert joint.bound == pytest.approx(sum(part.bound for part in parts), abs=1e-8)
    times = np.delete(np.arange(40.0), [5, 6, 20])
    incomplete = X.copy()
    incomplete[[5, 6, 20]] = np.nan
    even, _ = infer(params, observations_of("poisson", incomplete), shape, tol=1e-12)
    uneven, _ = infer(params, observations_of("poisson", X[times.astype(int)], times=times), shape, tol=1e-12)
    assert uneven.bound == pytest.approx(even.bound, abs=1e-8)
    np.testing.assert_allclose(uneven.means, even.means[times.astype(int)], atol=1e-5)


@pytest.mark.parametrize("core", ["0", "1"])
def test_many_factors_of_few_columns_agree_with_the_dense_posterior(monkeypatch, core):
    """With the compiled engine and with JAX; unlike a mask, precisions of sites take any positive value."""
    monkeypatch.setenv("PROBSFA_CORE", core)
    params = parameters(n_features=1, decay=tuple(np.linspace(0.95, 0.1, 12)))
    X, _ = draw("poisson", params, 20)
    inferred, _ = infer(params, observations_of("poisson", X), (shape_of("poisson", 1),), tol=1e-12)
    prior = oracle.prior_covariance(params.decay, 20)
    sites = inferred.sites
    mapping = np.kron(np.eye(20), params.loadings)
    precision = np.linalg.inv(prior) + mapping.T @ np.diag(sites.precision[:, 0]) @ mapping
    shifted = sites.information[:, 0] - sites.precision[:, 0] * params.offset[0]
    np.testing.assert_allclose(
        inferred.means.ravel(), np.linalg.solve(precision, mapping.T @ shifted), atol=1e-8
    )
