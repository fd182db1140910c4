"""Shrinkage of GraphSFA: definition, regularized discriminant analysis, and accuracy with few samples."""

import pickle

import numpy as np
import pytest
import scipy.linalg
from sklearn.covariance import ledoit_wolf as peer_ledoit_wolf
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from probsfa import graphs
from probsfa.metrics import principal_angles
from probsfa.sfa import GraphSFA
from tests.oracles import graphs as oracle
from tests.sampling import parametrize_with_checks
from tests.tolerances import EXACT, SPECTRAL


@parametrize_with_checks(
    [GraphSFA(graph="clustered", shrinkage="auto"), GraphSFA(graph="serial", shrinkage=0.1)]
)
@pytest.mark.filterwarnings("ignore:The serial graph of . groups:UserWarning", "ignore:.*SCIPY_ARRAY_API")
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def classes(rng, n=60, d=6):
    y = np.arange(n) % 3
    return 2 * rng.standard_normal((3, d))[y] + rng.standard_normal((n, d)) @ rng.standard_normal((d, d)), y


@pytest.mark.parametrize("target", ["diagonal", "identity"])
def test_equals_the_definition(rng, target):
    X, y = classes(rng)
    W = graphs.mixed(y.astype(float)).to_sparse().toarray()
    v = rng.uniform(0.1, 2.0, len(X))
    mean, B, A = oracle.moments(W, v, X)
    T = np.diag(np.diag(A)) / 2 if target == "diagonal" else np.eye(6) * np.trace(A) / 12
    deltas, _ = scipy.linalg.eigh(0.7 * A + 0.6 * T, 0.7 * B + 0.3 * T)
    gsfa = GraphSFA(graph=graphs.from_sparse(W, v), shrinkage=0.3, shrinkage_target=target).fit(X)
    np.testing.assert_allclose(gsfa.delta_values_, deltas, rtol=SPECTRAL)
    np.testing.assert_allclose(gsfa.inverse_transform(gsfa.transform(X)), X, atol=SPECTRAL)
    assert gsfa.shrinkage_ == 0.3


def test_clustered_with_shrinkage_is_the_shrunken_fisher_discriminant(rng):
    """Solver lsqr applies the inverse of (1 - s) S_w + s tr(S_w) / D I to the means of the classes."""
    X, y = classes(rng, d=5)
    lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.2).fit(X, y)
    gsfa = GraphSFA(2, graph="clustered", shrinkage=0.2, shrinkage_target="identity").fit(X, y)
    differences = (lda.coef_ - lda.coef_.mean(axis=0)).T
    span = np.linalg.svd(differences)[0][:, :2]
    assert principal_angles(gsfa.components_.T, span)[-1] < SPECTRAL


def test_automatic_intensity_is_that_of_ledoit_and_wolf_within_classes(rng):
    X, y = classes(rng, 30, 5)
    X = X * np.geomspace(0.1, 10, 5)
    within = X - np.array([X[y == c].mean(axis=0) for c in range(3)])[y]
    options = {"graph": "clustered", "shrinkage": "auto"}
    gsfa = GraphSFA(shrinkage_target="identity", **options).fit(X, y)
    assert gsfa.shrinkage_ == pytest.approx(peer_ledoit_wolf(within, assume_centered=True)[1], rel=EXACT)
    gsfa = GraphSFA(**options).fit(X, y)
    within /= within.std(axis=0)
    assert gsfa.shrinkage_ == pytest.approx(peer_ledoit_wolf(within, assume_centered=True)[1], rel=EXACT)


def test_automatic_intensity_on_any_graph(rng):
    X = np.cumsum(rng.standard_normal((12, 3)), axis=0)
    W = np.triu(rng.uniform(0, 1, (12, 12)), 1)
    W += W.T
    p = W.sum(axis=1) / W.sum()
    e = [X[n] - sum(W[n, m] * X[m] for m in range(12)) / W[n].sum() for n in range(12)]
    S = sum(p[n] * np.outer(e[n], e[n]) for n in range(12))
    error = sum(p[n] ** 2 * np.sum((np.outer(e[n], e[n]) - S) ** 2) for n in range(12))
    distance = np.sum((S - np.eye(3) * np.trace(S) / 3) ** 2)
    gsfa = GraphSFA(graph=graphs.from_sparse(W), shrinkage="auto", shrinkage_target="identity").fit(X)
    assert gsfa.shrinkage_ == pytest.approx(min(error / distance, 0.99), rel=EXACT)


def test_units_of_columns_do_not_matter_for_the_diagonal_target(rng):
    X, y = classes(rng)
    scales = np.geomspace(1e-8, 1e8, 6)
    first, second = (GraphSFA(2, graph="clustered", shrinkage="auto").fit(Z, y) for Z in (X, X * scales))
    np.testing.assert_allclose(first.transform(X), second.transform(X * scales), atol=SPECTRAL)


def test_few_digits_of_each_class():
    """Held-out accuracy is lower without shrinkage."""
    X, y = load_digits(return_X_y=True)
    train = np.concatenate([np.flatnonzero(y == c)[:8] for c in range(10)])
    test = np.setdiff1d(np.arange(len(y)), train)

    def accuracy(**options):
        gsfa = GraphSFA(9, graph="clustered", **options).fit(X[train], y[train])
        top = LinearDiscriminantAnalysis().fit(gsfa.transform(X[train]), y[train])
        return top.score(gsfa.transform(X[test]), y[test])

    assert accuracy(shrinkage="auto") > accuracy() + 0.1
    assert accuracy(shrinkage="auto", shrinkage_target="identity") > 0.76


def test_constant_columns_have_no_weight(rng):
    X, y = classes(rng)
    X[:, 2] = 1e8
    gsfa = GraphSFA(graph="clustered", shrinkage=0.2, shrinkage_target="identity").fit(X, y)
    assert gsfa.rank_ == 5
    np.testing.assert_array_equal(gsfa.components_[:, 2], 0)


def test_a_pickled_model_does_not_contain_the_graph(rng):
    X = rng.standard_normal((20_000, 3))
    gsfa = GraphSFA(2, graph="sliding_window").fit(X, X[:, 0])
    data = pickle.dumps(gsfa)
    assert len(data) < 5_000
    np.testing.assert_array_equal(pickle.loads(data).transform(X[:5]), gsfa.transform(X[:5]))


@pytest.mark.parametrize("wrong", [-0.1, 1.0, "some", True])
def test_shrinkage_is_checked(rng, wrong):
    X, y = classes(rng)
    with pytest.raises(ValueError, match="shrinkage must.*got"):
        GraphSFA(graph="clustered", shrinkage=wrong).fit(X, y)
    with pytest.raises(ValueError, match="shrinkage_target.*got 'columns'"):
        GraphSFA(graph="clustered", shrinkage_target="columns").fit(X, y)


@pytest.mark.parametrize("d", [30, 13])
@pytest.mark.parametrize("target", ["diagonal", "identity"])
def test_shrunk_directions_are_those_in_which_the_samples_vary(rng, target, d):
    # Directions without samples have the delta value 2, which is not the largest. As many samples as columns
    # vary in one direction less.
    X, y = rng.standard_normal((12, d)) * np.linspace(1, 3, d), np.arange(12.0)
    X[:, 4] = 1.5  # a constant column
    gsfa = GraphSFA(graph="reordering", shrinkage=0.3, shrinkage_target=target).fit(X, y)
    assert gsfa.rank_ == len(gsfa.delta_values_) == 11
    outputs = gsfa.transform(X)
    assert outputs.std(axis=0).min() > 1e-3
    differences, vertices = np.diff(X, axis=0), gsfa.graph_.node_weights / gsfa.graph_.node_weights.sum()
    centred = X - vertices @ X
    A, B = differences.T @ differences / 11, (centred.T * vertices) @ centred
    varying = np.arange(d) != 4
    half = np.diag(A) / 2
    T = np.diag(np.where(varying, half if target == "diagonal" else half[varying].mean(), 0.0))
    A, B = 0.7 * A + 2 * 0.3 * T, 0.7 * B + 0.3 * T
    W = gsfa.components_.T
    np.testing.assert_allclose(A @ W, B @ W * gsfa.delta_values_, atol=1e-9)
    np.testing.assert_allclose(W.T @ B @ W, np.eye(11), atol=1e-9)
    deltas = scipy.linalg.eigh(A[np.ix_(varying, varying)], B[np.ix_(varying, varying)], eigvals_only=True)
    np.testing.assert_allclose(
        deltas[np.argsort(-np.abs(deltas - 2))[:11]].sum(), gsfa.delta_values_.sum(), atol=1e-9
    )
    with pytest.raises(ValueError, match="n_components=12 exceeds the numerical rank 11"):
        GraphSFA(12, graph="reordering", shrinkage=0.3, shrinkage_target=target).fit(X, y)
    permuted = GraphSFA(graph="reordering", shrinkage=0.3, shrinkage_target=target).fit(X[:, ::-1], y)
    np.testing.assert_allclose(permuted.transform(X[:, ::-1]), outputs, atol=1e-9)
