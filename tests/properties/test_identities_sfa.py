"""Exact relations between SFA in this package and other implementations, and values known in closed form."""

import numpy as np
import pytest
from sklearn.preprocessing import PolynomialFeatures

from probsfa.graphs.moments import temporal_moments
from probsfa.linalg import slow_directions
from probsfa.metrics import eta_value
from probsfa.sfa import SFA
from tests.oracles import sfa as oracle
from tests.tolerances import SPECTRAL, mc_tolerance


def ar1(rng, decays, T):
    """Draw independent AR(1) processes with unit variance."""
    a = np.asarray(decays)
    noise = rng.standard_normal((T, len(a)))
    z = np.empty_like(noise)
    z[0] = noise[0]
    for t in range(1, T):
        z[t] = a * z[t - 1] + np.sqrt(1 - a**2) * noise[t]
    return z


@pytest.fixture
def X(rng):
    return ar1(rng, [0.95, 0.8, 0.3, -0.4], 200) @ np.linalg.qr(rng.standard_normal((4, 4)))[0]


def test_mdp_divides_both_moments_by_one_less(X):
    T = len(X)
    factor = (T - 1) ** 2 / (T * (T - 2))
    np.testing.assert_allclose(oracle.mdp_deltas(X), SFA().fit(X).delta_values_ * factor, rtol=SPECTRAL)


def test_mdp_pools_two_sequences(X):
    pieces = [X[:80], X[80:]]
    G = sum(np.diff(x, axis=0).T @ np.diff(x, axis=0) for x in pieces)
    n, T = 198, 200
    mdp = oracle.eigenproblem(G / (n - 1), np.cov(X, rowvar=False))[0]
    ours = SFA().fit(pieces).delta_values_ * n / (n - 1) * (T - 1) / T
    np.testing.assert_allclose(mdp, ours, rtol=SPECTRAL)


def test_sklearn_sfa_and_tsdr_subtract_the_mean_difference(X):
    moments, T = SFA().fit(X).moments_, len(X)
    drift = (X[-1] - X[0]) / (T - 1)
    A = (moments.difference_scatter - (T - 1) * np.outer(drift, drift)) / (T - 2)
    B = moments.scatter / (T - 1)
    np.testing.assert_allclose(oracle.centred_deltas(X), slow_directions(A, B).delta_values, rtol=SPECTRAL)


def test_reversible_tica_is_sfa_with_half_weight_at_the_ends(X):
    A = temporal_moments(X).difference_moment
    B = temporal_moments(X[:-1]).merge(temporal_moments(X[1:])).covariance
    deltas = slow_directions(A, B).delta_values
    np.testing.assert_allclose(deltas, 2 * (1 - oracle.reversible_tica(X)), rtol=SPECTRAL)


def test_delta_and_timescale_of_an_ar1_mixture(rng):
    decays, T = np.array([0.99, 0.9, 0.5]), 40_000
    mixed = ar1(rng, decays, T) @ rng.standard_normal((3, 3))
    sfa = SFA().fit(mixed)
    # an estimated AR(1) coefficient has the variance (1 - a^2) / T, and delta is 2 (1 - a)
    for delta, a in zip(sfa.delta_values_, decays, strict=True):
        assert abs(delta - 2 * (1 - a)) < 2 * mc_tolerance(1 - a**2, T)
    np.testing.assert_allclose(sfa.timescales_[1:], (-1 / np.log(decays))[1:], rtol=0.2)


def test_eta_values_of_cosines():
    t = np.linspace(0, 2 * np.pi, 1000)
    waves = np.column_stack([np.cos(8 * t), np.cos(4 * t)])
    Y = SFA().fit_transform(waves @ [[1.0, 2.0], [0.5, -1.0]])
    np.testing.assert_allclose(eta_value(Y), [4.0019, 8.0032], atol=2e-4)


def test_optimal_free_responses_are_cosines():
    T = 12
    with pytest.warns(UserWarning, match="12.*rank 11"):
        sfa = SFA().fit(np.eye(T))
    free, deltas = oracle.free_responses(T, T - 1)
    np.testing.assert_allclose(sfa.delta_values_, deltas, rtol=SPECTRAL)
    np.testing.assert_allclose(np.abs(sfa.transform(np.eye(T)).T @ free) / T, np.eye(T - 1), atol=SPECTRAL)


def test_example_of_wiskott_and_sejnowski_2002():
    """Wiskott & Sejnowski (2002), section 3: x1 = sin t + cos^2 11t and x2 = cos 11t."""
    t = np.arange(0, 2 * np.pi, 0.01)
    x = np.column_stack([np.sin(t) + np.cos(11 * t) ** 2, np.cos(11 * t)])
    sfa = SFA(1, expansion=PolynomialFeatures(2, include_bias=False)).fit(x)
    assert abs(np.corrcoef(sfa.transform(x)[:, 0], np.sin(t))[0, 1]) > 1 - 1e-9
    # The published numbers of the breze library are a direction of unit length in whitened principal
    # components of the quadratic monomials. The signs of principal components are arbitrary.
    Z = PolynomialFeatures(2, include_bias=False).fit_transform(x)
    variances, axes = np.linalg.eigh(np.cov(Z, rowvar=False, ddof=0))
    direction = (np.sqrt(variances) * (axes.T @ sfa.components_[0]))[::-1]
    np.testing.assert_allclose(np.abs(direction), [0.8032, 0.0012, 0.2219, 0.0006, 0.5528], atol=5e-5)
    assert np.linalg.norm(direction) == pytest.approx(1, rel=SPECTRAL)


def test_eigenvalues_are_mean_squared_frequencies(X):
    """Turner & Sahani (2007), eq. 5, with 4 sin(w/2)^2 for w^2, of a sequence continued periodically."""
    T = len(X)
    sfa = SFA().fit(X)
    y = sfa.transform(X)
    power = np.abs(np.fft.fft(y, axis=0)) ** 2
    squared = 4 * np.sin(np.pi * np.fft.fftfreq(T)) ** 2
    expected = squared @ power / power.sum(axis=0)
    closing = (y[0] - y[-1]) ** 2
    np.testing.assert_allclose(((T - 1) * sfa.delta_values_ + closing) / T, expected, rtol=SPECTRAL)


@pytest.mark.parametrize("cycles", [1, 10, 50])
def test_eigenvalue_of_a_sinusoid_is_its_squared_frequency(cycles):
    """Delta values have T - 1 differences; whole cycles also require that from the last row to the first."""
    T = 200
    w = 2 * np.pi * cycles / T
    y = np.sqrt(2) * np.sin(w * np.arange(T))
    delta = SFA().fit(y[:, None]).delta_values_[0]
    exact = 4 * np.sin(w / 2) ** 2
    np.testing.assert_allclose(((T - 1) * delta + (y[0] - y[-1]) ** 2) / T, exact, rtol=SPECTRAL)
    assert abs(exact - w**2) < w**4 / 12  # w^2 of the paper is an approximation for low frequencies


def test_directions_are_a_rotation_of_sphered_data(X):
    """Turner & Sahani (2007), eqs. 3-4: W = R B^-1/2, R the eigenvectors of sphered differences."""
    x = X - X.mean(axis=0)
    steps = np.diff(x, axis=0)
    A, B = steps.T @ steps / len(steps), x.T @ x / len(x)
    sizes, axes = np.linalg.eigh(B)
    root = axes / np.sqrt(sizes) @ axes.T
    sfa = SFA().fit(X)
    R = sfa.components_ @ np.linalg.inv(root)
    np.testing.assert_allclose(R @ R.T, np.eye(4), atol=SPECTRAL)
    np.testing.assert_allclose(R @ root @ A @ root, sfa.delta_values_[:, None] * R, atol=SPECTRAL)
