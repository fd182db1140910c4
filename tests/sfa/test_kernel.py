"""Regularised sparse kernel SFA: the paper's algorithm, its limits, its remedies, the border."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.utils.estimator_checks import parametrize_with_checks

from probsfa.sfa import SFA, kernel_moments
from probsfa.sfa.kernel import KernelSFA
from tests.oracles import kernel_sfa as oracle
from tests.oracles import sfa
from tests.tolerances import EXACT, SPECTRAL

KERNELS = ["additive_chi2", "chi2", "linear", "poly", "polynomial", "rbf", "laplacian", "sigmoid", "cosine"]


def series(rng, n, d=3, fast=0.5):
    """Slow waves mixed with noise."""
    t = np.arange(n)[:, None]
    slow = np.sin(2 * np.pi * t / np.array([n / 2, n / 5, n / 9])[:d] + np.arange(d))
    return slow @ rng.standard_normal((d, d)) + fast * rng.standard_normal((n, d))


@parametrize_with_checks(
    [KernelSFA(), KernelSFA(n_support=4, regularization=1e-3), KernelSFA(1, kernel="linear")]
)
@pytest.mark.filterwarnings("ignore:Only [0-9]* of n_support")
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("regularization", [0.0, 1e-3, 10.0])
@pytest.mark.parametrize(
    ("n_support", "gamma", "lengths"),
    [(8, 0.7, (60,)), (8, 0.7, (25, 1, 34)), (60, 5.0, (60,))],
)
def test_algorithm_1(rng, regularization, lengths, n_support, gamma):
    X = series(rng, 60)
    model = KernelSFA(3, gamma=gamma, n_support=n_support, regularization=regularization)
    y = model.fit(X, lengths=lengths).transform(X)
    Z = X[model.support_]
    K, K_bar = oracle.gaussian(Z, X, gamma), oracle.gaussian(Z, Z, gamma)
    A, c, deltas = oracle.algorithm_1(K, K_bar, lengths, 3, regularization)
    assert model.rank_ == n_support - 1  # or the answer would depend on what counts as zero
    np.testing.assert_allclose(model.delta_values_, deltas, rtol=SPECTRAL)
    np.testing.assert_allclose(np.abs(y), np.abs((A.T @ K - c[:, None]).T), atol=SPECTRAL)


def test_linear_kernel_on_all_rows_is_linear_sfa(rng):
    X = series(rng, 150)
    pieces = [X[:70], X[70:]]
    model, linear = KernelSFA(3, kernel="linear").fit(pieces), SFA(3).fit(pieces)
    deltas, outputs, _ = sfa.slow_features(pieces)
    np.testing.assert_allclose(model.delta_values_, linear.delta_values_, rtol=SPECTRAL)
    np.testing.assert_allclose(model.delta_values_, deltas, rtol=SPECTRAL)
    for ours, other, literal in zip(model.transform(pieces), linear.transform(pieces), outputs, strict=True):
        np.testing.assert_allclose(np.abs(ours), np.abs(other), atol=SPECTRAL)
        np.testing.assert_allclose(np.abs(ours), np.abs(literal), atol=SPECTRAL)
    assert model.rank_ == 3


def test_outputs_fulfil_the_constraints(rng):
    X = series(rng, 300)
    model = KernelSFA(4, gamma=0.3, n_support=60, regularization=1e-4).fit(X)
    y = model.transform(X)
    np.testing.assert_allclose(y.mean(axis=0), 0, atol=1e-8)
    np.testing.assert_allclose(y.T @ y / 300, np.eye(4), atol=SPECTRAL)
    np.testing.assert_allclose(np.mean(np.diff(y, axis=0) ** 2, axis=0), model.delta_values_, rtol=SPECTRAL)
    np.testing.assert_allclose(model.coefficients_.sum(axis=0), 0, atol=1e-6)
    K_bar = oracle.gaussian(model.support_vectors_, model.support_vectors_, 0.3)
    A = model.coefficients_
    np.testing.assert_allclose(model.norms_, np.diag(A.T @ K_bar @ A), rtol=SPECTRAL)


@pytest.mark.parametrize("offset", [0.0, 3.0])
@pytest.mark.parametrize("rows", [1, 7, 64, 10_000])
def test_streamed_moments_are_those_of_the_whole(rng, monkeypatch, rows, offset):
    monkeypatch.setattr(kernel_moments, "rows_at_a_time", lambda m: rows)
    X = series(rng, 100) + offset
    lengths = (30, 1, 1, 68)
    support = np.array([5, 80, 31, 2])
    found = kernel_moments.Sequences(X, lengths)
    kernel = kernel_moments.KernelColumns(X, "poly", {"degree": 2})
    ours = kernel_moments.kernel_moments(kernel, support, found)
    G = pairwise_kernels(X, X[support], metric="poly", degree=2)
    n, mean, B, n_pairs, A = sfa.moments(np.split(G, np.cumsum(lengths)[:-1]))
    assert (ours.n_rows, ours.n_differences) == (n, n_pairs)
    np.testing.assert_allclose(ours.mean, mean, rtol=EXACT)
    np.testing.assert_allclose(ours.covariance, B, rtol=EXACT, atol=EXACT * np.abs(B).max())
    np.testing.assert_allclose(ours.difference_moment, A, rtol=EXACT, atol=EXACT * np.abs(A).max())


def test_a_wide_kernel_keeps_its_digits(rng):
    # k = 1 - 1e-9 d^2 / 2: the sum of squares is 1e17 times the variance of a kernel function
    X = series(rng, 400)
    support = np.arange(0, 400, 40)
    kernel = kernel_moments.KernelColumns(X, "rbf", {"gamma": 0.5e-9})
    found = kernel_moments.Sequences(X, (400,))
    B = kernel_moments.kernel_moments(kernel, support, found).covariance
    distances = -0.5e-9 * np.array([np.sum((X - z) ** 2, axis=1) for z in X[support]]).T
    G = np.expm1(distances)  # the kernel minus one, without the loss
    expected = np.cov(G, rowvar=False, ddof=0)
    # what is lost is lost in the kernel: 1e-16 in values that vary by 1e-8
    np.testing.assert_allclose(B, expected, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_kernel_of_scikit_learn(rng, kernel):
    X = np.abs(series(rng, 80)) + 0.1  # the chi-squared kernels want positive rows
    model = KernelSFA(2, kernel=kernel, n_support=20, regularization=1e-3, rank_tol=1e-6)
    if kernel in ("linear", "cosine", "sigmoid", "additive_chi2"):  # of low rank, or not positive
        model.set_params(n_support=None)
    y = model.fit(X).transform(X)
    Z = X[model.support_]
    K, K_bar = pairwise_kernels(Z, X, metric=kernel), pairwise_kernels(Z, Z, metric=kernel)
    _, _, deltas = oracle.algorithm_1(K, K_bar, (80,), 2, 1e-3, rank_tol=1e-10)
    np.testing.assert_allclose(y.T @ y / 80, np.eye(2), atol=1e-5)
    np.testing.assert_allclose(np.mean(np.diff(y, axis=0) ** 2, axis=0), model.delta_values_, rtol=1e-5)
    assert (model.delta_values_ >= deltas * (1 - 1e-3)).all() or kernel == "sigmoid"  # fewer directions here


def test_precomputed_and_callable_kernels_are_the_same(rng):
    X = series(rng, 70)
    named = KernelSFA(2, gamma=0.4, n_support=15).fit(X)
    K = pairwise_kernels(X, metric="rbf", gamma=0.4)
    ready = KernelSFA(2, kernel="precomputed", n_support=15).fit(K)
    own = KernelSFA(
        2, kernel=lambda x, y, width: np.exp(-np.sum((x - y) ** 2) / width), kernel_params={"width": 2.5}
    ).set_params(n_support=15)
    np.testing.assert_array_equal(ready.support_, named.support_)
    np.testing.assert_array_equal(own.fit(X).support_, named.support_)
    np.testing.assert_allclose(ready.transform(K), named.transform(X), atol=SPECTRAL)
    np.testing.assert_allclose(own.transform(X), named.transform(X), atol=SPECTRAL)


@pytest.mark.parametrize("selection", ["mp_mah", "mp_kpca", "random"])
def test_selection_by_size(rng, selection):
    X = series(rng, 120)
    small = KernelSFA(2, n_support=20, selection=selection, random_state=7).fit(X)
    large = KernelSFA(2, n_support=45, selection=selection, random_state=7).fit(X)
    np.testing.assert_array_equal(small.support_, large.support_[:20])
    np.testing.assert_array_equal(small.support_vectors_, X[small.support_])


@pytest.mark.parametrize("selection", ["mp_mah", "mp_kpca", "online_mah"])
def test_selection_by_threshold(rng, selection):
    X = series(rng, 120)
    model = KernelSFA(2, gamma=0.5, threshold=0.1, selection=selection).fit(X)
    assert oracle.errors(oracle.gaussian(X, X, 0.5), model.support_).max() <= 0.1
    assert 3 < len(model.support_) < 120


def test_mp_mah_and_online_mah_beat_random_at_equal_size(rng):
    X = series(rng, 400, fast=0.1)
    X[100:] *= 0.2  # most rows are alike, and a random support misses the rest
    online = KernelSFA(2, gamma=2.0, threshold=0.02, selection="online_mah", regularization=1e-6).fit(X)
    size = len(online.support_)
    pursuit = KernelSFA(2, gamma=2.0, n_support=size, regularization=1e-6).fit(X)
    K = oracle.gaussian(X, X, 2.0)
    blind = [
        oracle.errors(K, np.random.default_rng(seed).permutation(400)[:size]).max() for seed in range(10)
    ]
    assert oracle.errors(K, pursuit.support_).max() <= 0.02 * 1.5
    assert oracle.errors(K, online.support_).max() <= 0.02
    assert min(blind) > 0.1


def test_regularization_path_restores_unit_variance(rng):
    X = series(rng, 200)
    # rounding counts as variance at this rank_tol, as where only exact zeros are removed
    model = KernelSFA(3, gamma=0.1, rank_tol=1e-16)
    path = model.regularization_path(X)
    assert path.regularizations[0] == 0 and np.abs(path.variances[0] - 1).max() > 0.01
    assert path.chosen > 0
    at = int(np.flatnonzero(path.regularizations == path.chosen)[0])
    assert np.abs(path.variances[at] - 1).max() <= 0.01 < np.abs(path.variances[:at] - 1).max(axis=1).min()
    assert (np.diff(path.delta_values.sum(axis=1)[at:]) >= -1e-9).all()  # smoother in norm is never slower
    chosen = KernelSFA(3, gamma=0.1, rank_tol=1e-16, regularization="auto").fit(X)
    assert chosen.regularization_ == path.chosen
    np.testing.assert_allclose(np.var(chosen.transform(X), axis=0), 1, atol=0.011)


def test_the_rank_rule_alone_keeps_unit_variance(rng):
    X = series(rng, 200)
    for gamma in (1e-1, 1e-3, 1e-5):
        assert KernelSFA(3, gamma=gamma).regularization_path(X, tolerance=1e-4).chosen == 0


def test_a_stable_problem_needs_no_regularization(rng):
    X = series(rng, 200)
    model = KernelSFA(2, gamma=1.0, n_support=20, regularization="auto").fit(X)
    assert model.regularization_ == 0
    path = model.regularization_path(X, regularizations=[1e-2, 0.0])
    assert path.regularizations.tolist() == [0.0, 1e-2] and path.chosen == 0
    np.testing.assert_allclose(path.variances, 1, atol=1e-6)


def test_regularization_cures_overfitting(rng):
    angle = np.cumsum(rng.standard_normal(600)) / 8  # a slow angle, seen through noise
    X = np.column_stack([np.cos(angle), np.sin(angle)]) + 0.2 * rng.standard_normal((600, 2))
    train, test = X[:300], X[300:]
    loose = KernelSFA(2, gamma=20.0).fit(train)
    tight = KernelSFA(2, gamma=20.0, regularization=0.1).fit(train)

    def slowness(model):
        y = model.transform(test)
        return np.mean(np.diff(y, axis=0) ** 2 / y.var(axis=0))

    assert loose.delta_values_.mean() < tight.delta_values_.mean()
    assert slowness(tight) < slowness(loose)


def test_sequences_are_not_differenced_across_borders(rng):
    X = series(rng, 90)
    pieces = [X[:30], X[30:] + 5]
    as_list = KernelSFA(2, n_support=20).fit(pieces)
    as_lengths = KernelSFA(2, n_support=20).fit(np.concatenate(pieces), lengths=[30, 60])
    np.testing.assert_array_equal(as_list.coefficients_, as_lengths.coefficients_)
    out = as_list.transform(pieces)
    changes = np.concatenate([np.diff(y, axis=0) for y in out])
    np.testing.assert_allclose(np.mean(changes**2, axis=0), as_list.delta_values_, rtol=1e-5)


def test_rows_are_mapped_one_by_one(rng):
    X = series(rng, 60)
    model = KernelSFA(2, n_support=15, regularization=1e-4).fit(X)
    whole = model.transform(X)
    np.testing.assert_allclose(np.vstack([model.transform(x[None]) for x in X]), whole, atol=1e-8)


def test_the_rank_is_said(rng):
    X = series(rng, 50)
    with pytest.raises(
        ValueError, match="n_components=4 is more than the 3 dimensions .* 50 support vectors"
    ):
        KernelSFA(4, kernel="linear").fit(X)
    with pytest.warns(UserWarning, match="Only 3 of n_support=10 support vectors"):
        found = KernelSFA(2, kernel="linear", n_support=10).fit(X)
    assert found.rank_ == 2  # centring the functions on each other takes one dimension


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 0}, "n_components must be an integer of at least 1"),
        ({"kernel": "gauss"}, "kernel must be callable or one of .*'?rbf"),
        ({"selection": "best"}, "selection must be one of 'mp_mah', 'online_mah', 'mp_kpca', 'random'"),
        ({"regularization": -1.0}, "regularization must be a number of at least 0, or 'auto'; got -1.0"),
        ({"regularization": "some"}, "regularization must be a number"),
        ({"gamma": 0.0}, "gamma must be a positive number or None; got 0.0"),
        ({"threshold": -1.0}, "threshold must be a positive number or None"),
        ({"n_support": 41}, "n_support=41 is more than the 40 rows"),
        ({"n_support": 1}, "n_support must be an integer of at least 2"),
        ({"rank_tol": 2.0}, "rank_tol must be"),
        ({"threshold": 1.5}, "No row has an approximation error above threshold=1.5"),
        ({"selection": "random", "threshold": 0.1}, "threshold means nothing to selection='random'"),
        ({"selection": "online_mah", "n_support": 5}, "needs a threshold"),
        ({"kernel": "precomputed"}, "X must be square with kernel='precomputed'.*\\(40, 3\\)"),
    ],
)
def test_errors_name_the_argument(rng, options, message):
    with pytest.raises(ValueError, match=message):
        KernelSFA(**options).fit(series(rng, 40))


def test_bad_values_are_refused(rng):
    X = series(rng, 40)
    with pytest.raises(ValueError, match="no two complete rows"):
        KernelSFA(1).fit([X[:1], X[1:2]])
    with pytest.raises(ValueError, match="not finite"):
        KernelSFA(1, kernel="poly", degree=200).fit(X * 1e5)
    with pytest.raises(ValueError, match="regularizations must be finite and not negative"):
        KernelSFA(1).regularization_path(X, regularizations=[-1.0])
    with pytest.raises(ValueError, match="tolerance must be positive"):
        KernelSFA(1).regularization_path(X, tolerance=0)
