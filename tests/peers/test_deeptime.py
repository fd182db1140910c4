"""Time-lagged independent components and VAMP of deeptime compared with slow feature analysis.

With covariances symmetric in time both solve the eigenproblem of slow feature analysis: the eigenvalue
``lambda`` of deeptime corresponds to ``delta = 2 (1 - lambda)``. Only the weights of rows differ: deeptime
averages over pairs of rows, so rows at an end have half the weight. A training graph whose node weights are
sums of its edge weights reproduces them.
"""

import numpy as np
import pytest
import scipy.sparse

from probsfa.graphs import from_sparse
from probsfa.graphs.moments import temporal_moments
from probsfa.linalg import slow_directions
from probsfa.metrics import timescale
from probsfa.sfa import SFA, GraphSFA
from tests.oracles import statespace as oracle
from tests.peers.adapters import match_signs
from tests.tolerances import SPECTRAL

REASON = "deeptime, of the peers extra, is not installed"
decomposition = pytest.importorskip("deeptime.decomposition", reason=REASON)
covariances = pytest.importorskip("deeptime.covariance", reason=REASON)

D = 4
lags = pytest.mark.parametrize("lag", [1, 3])


@pytest.fixture
def X(rng):
    """Four columns mixed from processes with four time scales and a little noise."""
    decay = np.array([0.97, 0.8, 0.6, 0.4])
    model = oracle.Model(decay, rng.standard_normal((D, D)), np.full(D, 1e-2), rng.standard_normal(D))
    return oracle.simulate(rng, model, [400])[0]


def reversible(X, lag):
    """Return covariances of deeptime that are symmetric in time."""
    options = dict(compute_c0t=True, remove_data_mean=True, bessels_correction=False)
    return covariances.Covariance(lag, reversible=True, **options).fit(X).fetch_model()


def tica(X, lag):
    """Return TICA of deeptime with outputs of unit variance, from symmetric covariances."""
    estimator = decomposition.TICA(lagtime=lag, scaling=None, epsilon=1e-12)
    return estimator.fit_from_covariances(reversible(X, lag)).fetch_model()


def slowest_first(model):
    """Return the order of components by eigenvalue; deeptime orders them by absolute value."""
    return np.argsort(-model.singular_values)


def half_ends(n_rows, lag):
    """Return the temporal graph with node weights that are sums of its edge weights."""
    edges = scipy.sparse.diags_array(np.ones(n_rows - lag), offsets=lag, shape=(n_rows, n_rows))
    return from_sparse(edges + edges.T, node_weights="degree")


@lags
def test_eigenvalues_are_delta_values(X, lag):
    eigenvalues = np.sort(tica(X, lag).singular_values)[::-1]
    ours = GraphSFA(graph=half_ends(len(X), lag)).fit(X)
    np.testing.assert_allclose(ours.delta_values_, 2 * (1 - eigenvalues), rtol=SPECTRAL)
    # By the moments of the series, with rows at the ends counted half in the covariance.
    A = temporal_moments(X, lag=lag).difference_moment
    B = temporal_moments(X[:-lag]).merge(temporal_moments(X[lag:])).covariance
    np.testing.assert_allclose(slow_directions(A, B).delta_values, 2 * (1 - eigenvalues), rtol=SPECTRAL)


@lags
def test_plain_slow_feature_analysis_differs_at_the_ends(X, lag):
    eigenvalues = np.sort(tica(X, lag).singular_values)[::-1]
    deltas = SFA(lag=lag).fit(X).delta_values_
    np.testing.assert_allclose(deltas, 2 * (1 - eigenvalues), rtol=10 * lag / len(X))
    assert not np.allclose(deltas, 2 * (1 - eigenvalues), rtol=SPECTRAL)


@lags
def test_outputs(X, lag):
    """Outputs are the same, slowest first, with unit covariance under the weights of the pairs."""
    ours = GraphSFA(graph=half_ends(len(X), lag)).fit(X)
    outputs = ours.transform(X)
    model = tica(X, lag)
    peer = np.asarray(model.transform(X))[:, slowest_first(model)]
    assert outputs.shape == peer.shape == (len(X), D)
    for projections in (outputs, peer):
        pairs = np.concatenate([projections[:-lag], projections[lag:]])
        np.testing.assert_allclose(pairs.T @ pairs / len(pairs), np.eye(D), atol=1e-6)
        np.testing.assert_allclose(pairs.mean(axis=0), 0.0, atol=1e-6)
    np.testing.assert_allclose(match_signs(peer, outputs), outputs, atol=1e-6)


@lags
def test_time_scales(X, lag):
    """Time scales are -lag / log of the eigenvalue, equal to -lag / log(1 - delta / 2)."""
    model = tica(X, lag)
    ours = timescale(2 * (1 - np.sort(model.singular_values)[::-1]), lag=lag)
    positive = np.isfinite(ours)
    assert positive.sum() >= 2
    peer = model.timescales()[slowest_first(model)]
    np.testing.assert_allclose(peer[positive], ours[positive], rtol=1e-6)


@lags
def test_vamp_with_symmetric_covariances(X, lag):
    """Singular values are absolute eigenvalues; the VAMP-2 score is one plus the sum of their squares."""
    vamp = decomposition.VAMP(lagtime=lag, scaling=None, epsilon=1e-12)
    model = vamp.fit_from_covariances(reversible(X, lag)).fetch_model()
    ours = GraphSFA(graph=half_ends(len(X), lag)).fit(X)
    correlations = np.sort(np.abs(1 - ours.delta_values_ / 2))[::-1]
    np.testing.assert_allclose(model.singular_values, correlations, rtol=1e-6)
    np.testing.assert_allclose(model.score(2), 1 + np.sum(correlations**2), rtol=1e-6)
