"""Regularized sparse kernel SFA: the algorithm of the paper, regularization, and input validation."""

import contextlib
import re
import warnings

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import pairwise_kernels

from probsfa._validation import Sequences
from probsfa.graphs import GraphMoments, clustered, from_sparse
from probsfa.sfa import SFA, GraphSFA
from probsfa.sfa._expand import noise_delta, split_into_folds
from probsfa.sfa.kernel import estimator as kernel
from probsfa.sfa.kernel import problem
from probsfa.sfa.kernel.estimator import KernelSFA, PreImage
from probsfa.sfa.kernel.held_out import HeldOutPath, graph_splits
from probsfa.sfa.kernel.problem import KernelColumns, KernelFunctions
from tests.oracles import graphs as graph_oracle
from tests.oracles import kernel_sfa as oracle
from tests.oracles import sfa
from tests.sampling import parametrize_with_checks
from tests.tolerances import EXACT, SPECTRAL

KERNELS = ["additive_chi2", "chi2", "linear", "poly", "polynomial", "rbf", "laplacian", "cosine"]


def series(rng, n, d=3, fast=0.5):
    """Slow waves mixed with noise."""
    t = np.arange(n)[:, None]
    slow = np.sin(2 * np.pi * t / np.array([n / 2, n / 5, n / 9])[:d] + np.arange(d))
    return slow @ rng.standard_normal((d, d)) + fast * rng.standard_normal((n, d))


@parametrize_with_checks(
    [
        KernelSFA(),
        KernelSFA(n_support=4, regularization=1e-3),
        KernelSFA(1, kernel="linear", regularization=0.1),
    ]
)
@pytest.mark.filterwarnings("ignore:Only [0-9]* of n_support")
@pytest.mark.filterwarnings("ignore:Output [0-9]* .* on held-out rows")
@pytest.mark.filterwarnings("ignore:The [0-9]* rows are too few")
@pytest.mark.filterwarnings("ignore:Rounding of the kernel values hides")
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("regularization", [0.0, 1e-3, 10.0])
@pytest.mark.parametrize(
    ("n_support", "gamma", "lengths"),
    [(8, 0.7, (60,)), (8, 0.7, (25, 1, 34)), (60, 5.0, (60,))],
)
@pytest.mark.filterwarnings("ignore:The kernel functions vary in 59 directions over 60 rows")
def test_algorithm_1(rng, regularization, lengths, n_support, gamma):
    X = series(rng, 60)
    model = KernelSFA(3, gamma=gamma, n_support=n_support, regularization=regularization)
    y = model.fit(X, lengths=lengths).transform(X)
    Z = X[model.support_]
    K, K_bar = oracle.gaussian(Z, X, gamma), oracle.gaussian(Z, Z, gamma)
    A, c, deltas = oracle.algorithm_1(K, K_bar, lengths, 3, regularization)
    assert model.rank_ == n_support - 1  # otherwise the result would depend on rank_tol
    np.testing.assert_allclose(model.delta_values_, deltas, rtol=SPECTRAL)
    np.testing.assert_allclose(np.abs(y), np.abs((A.T @ K - c[:, None]).T), atol=SPECTRAL)


def test_linear_kernel_on_all_rows_is_linear_sfa(rng):
    X = series(rng, 150)
    pieces = [X[:70], X[70:]]
    model, linear = KernelSFA(3, kernel="linear", regularization=0).fit(pieces), SFA(3).fit(pieces)
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
def test_moments_in_blocks_equal_those_of_all_rows(rng, monkeypatch, rows, offset):
    monkeypatch.setattr(problem, "rows_at_a_time", lambda m: rows)
    X = series(rng, 100) + offset
    lengths = (30, 1, 1, 68)
    support = np.array([5, 80, 31, 2])
    functions = KernelFunctions(KernelColumns(X, "poly", {"degree": 2}), support)
    ours = problem.kernel_moments(functions, Sequences(X, lengths))
    G = pairwise_kernels(X, X[support], metric="poly", degree=2)
    n, mean, B, n_pairs, A = sfa.moments(np.split(G, np.cumsum(lengths)[:-1]))
    assert (ours.n_rows, ours.n_differences) == (n, n_pairs)
    np.testing.assert_allclose(ours.mean, mean, rtol=EXACT)
    np.testing.assert_allclose(ours.covariance, B, rtol=EXACT, atol=EXACT * np.abs(B).max())
    np.testing.assert_allclose(ours.difference_moment, A, rtol=EXACT, atol=EXACT * np.abs(A).max())


def test_a_wide_kernel_does_not_lose_precision(rng):
    # k = 1 - 1e-9 d^2 / 2: the sum of squares is 1e17 times the variance of a kernel function
    X = series(rng, 400)
    support = np.arange(0, 400, 40)
    functions = KernelFunctions(KernelColumns(X, "rbf", {"gamma": 0.5e-9}), support)
    B = problem.kernel_moments(functions, Sequences(X, (400,))).covariance
    distances = -0.5e-9 * np.array([np.sum((X - z) ** 2, axis=1) for z in X[support]]).T
    G = np.expm1(distances)  # the kernel minus one, without the loss
    expected = np.cov(G, rowvar=False, ddof=0)
    # the kernel itself has rounding errors of 1e-16 in values that vary by 1e-8
    np.testing.assert_allclose(B, expected, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_kernel_of_scikit_learn(rng, kernel):
    X = np.abs(series(rng, 80)) + 0.1  # the chi-squared kernels require positive rows
    model = KernelSFA(2, kernel=kernel, n_support=20, regularization=1e-3, rank_tol=1e-6)
    if kernel in ("linear", "cosine", "additive_chi2"):  # of low rank, or positive once it is centred
        model.set_params(n_support=None)
    y = model.fit(X).transform(X)
    Z = X[model.support_]
    K, K_bar = pairwise_kernels(Z, X, metric=kernel), pairwise_kernels(Z, Z, metric=kernel)
    _, _, deltas = oracle.algorithm_1(K, K_bar, (80,), 2, 1e-3, rank_tol=1e-10)
    np.testing.assert_allclose(y.T @ y / 80, np.eye(2), atol=1e-5)
    np.testing.assert_allclose(np.mean(np.diff(y, axis=0) ** 2, axis=0), model.delta_values_, rtol=1e-5)
    assert (model.delta_values_ >= deltas * (1 - 1e-3)).all()  # fewer directions here


def test_precomputed_and_callable_kernels_equal_the_named_kernel(rng):
    X = series(rng, 70)
    named = KernelSFA(2, gamma=0.4, n_support=15, regularization=0).fit(X)
    K = pairwise_kernels(X, metric="rbf", gamma=0.4)
    precomputed = KernelSFA(2, kernel="precomputed", n_support=15, regularization=0).fit(K)
    from_function = KernelSFA(
        2,
        regularization=0,
        kernel=lambda x, y, width: np.exp(-np.sum((x - y) ** 2) / width),
        kernel_params={"width": 2.5},
    ).set_params(n_support=15)
    np.testing.assert_array_equal(precomputed.support_, named.support_)
    np.testing.assert_array_equal(from_function.fit(X).support_, named.support_)
    np.testing.assert_allclose(precomputed.transform(K), named.transform(X), atol=SPECTRAL)
    np.testing.assert_allclose(from_function.transform(X), named.transform(X), atol=SPECTRAL)


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
    # With this rank_tol, rounding errors are treated as variance, as if only exact zeros were removed.
    model = KernelSFA(3, gamma=0.1, rank_tol=1e-16)
    path = model.regularization_path(X)
    assert path.regularizations[0] == 0 and np.abs(path.variances[0] - 1).max() > 0.01
    assert path.chosen > 0
    at = int(np.flatnonzero(path.regularizations == path.chosen)[0])
    assert np.abs(path.variances[at] - 1).max() <= 0.01 < np.abs(path.variances[:at] - 1).max(axis=1).min()
    assert (np.diff(path.delta_values.sum(axis=1)[at:]) >= -1e-9).all()  # smoother in norm is never slower
    # At the selected penalty, rounding changes variances by some percent, which depend on the processor.
    largest = path.regularizations[-1]
    fitted = KernelSFA(3, gamma=0.1, rank_tol=1e-16, regularization=largest).fit(X)
    np.testing.assert_allclose(np.var(fitted.transform(X), axis=0), path.variances[-1], atol=1e-3)
    np.testing.assert_allclose(path.variances[-1], 1, atol=1e-3)


def test_unit_variance_without_regularization(rng):
    X = series(rng, 200)
    for gamma in (1e-1, 1e-3, 1e-5):
        assert KernelSFA(3, gamma=gamma).regularization_path(X, tolerance=1e-4).chosen == 0


def test_a_stable_problem_needs_no_regularization(rng):
    X = series(rng, 200)
    model = KernelSFA(2, gamma=1.0, n_support=20)
    path = model.regularization_path(X, regularizations=[1e-2, 0.0])
    assert path.regularizations.tolist() == [0.0, 1e-2] and path.chosen == 0
    np.testing.assert_allclose(path.variances, 1, atol=1e-6)


def test_regularization_reduces_overfitting(rng):
    angle = np.cumsum(rng.standard_normal(600)) / 8  # a slow angle, observed with noise
    X = np.column_stack([np.cos(angle), np.sin(angle)]) + 0.2 * rng.standard_normal((600, 2))
    train, test = X[:300], X[300:]
    with pytest.warns(UserWarning, match="300 rows"):
        loose = KernelSFA(2, gamma=20.0, regularization=0).fit(train)
    tight = KernelSFA(2, gamma=20.0, regularization=0.1).fit(train)

    def slowness(model):
        y = model.transform(test)
        return np.mean(np.diff(y, axis=0) ** 2 / y.var(axis=0))

    assert loose.delta_values_.mean() < tight.delta_values_.mean()
    assert slowness(tight) < slowness(loose)
    chosen = KernelSFA(2, gamma=20.0).fit(train)
    assert chosen.regularization_ > 0 and slowness(chosen) < 0.6 * slowness(loose)


def test_there_are_no_differences_between_sequences(rng):
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


def test_messages_name_the_rank(rng):
    X = series(rng, 50)
    with pytest.raises(ValueError, match="n_components=4 is more than"):
        KernelSFA(4, kernel="linear").fit(X)
    with pytest.warns(UserWarning, match="3.*n_support=10 support"):
        found = KernelSFA(2, kernel="linear", n_support=10).fit(X)
    assert found.rank_ == 2  # centring the functions on each other takes one dimension


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 0}, "n_components.*1"),
        ({"kernel": "gauss"}, "kernel.*'?rbf"),
        ({"selection": "best"}, "selection.*'mp_mah', 'online_mah', 'mp_kpca', 'random'"),
        ({"regularization": -1.0}, "regularization.*0.*'auto'.*-1.0"),
        ({"regularization": "some"}, "regularization"),
        ({"gamma": 0.0}, "gamma.*0.0"),
        ({"threshold": -1.0}, "threshold"),
        ({"n_support": 41}, "n_support=41.*40"),
        ({"n_support": 1}, "n_support.*2"),
        ({"rank_tol": 2.0}, "rank_tol must be"),
        ({"threshold": 1.5}, "threshold=1.5"),
        ({"selection": "random", "threshold": 0.1}, "threshold.*selection='random'"),
        ({"selection": "online_mah", "n_support": 5}, "threshold"),
        ({"kernel": "precomputed"}, r"\bX\b.*kernel='precomputed'.*\(40, 3\)"),
    ],
)
def test_errors_name_the_argument(rng, options, message):
    with pytest.raises(ValueError, match=message):
        KernelSFA(**options).fit(series(rng, 40))


def test_bad_values_are_refused(rng):
    X = series(rng, 40)
    with pytest.raises(ValueError, match="two complete rows"):
        KernelSFA(1).fit([X[:1], X[1:2]])
    with pytest.raises(ValueError, match="not finite"):
        KernelSFA(1, kernel="poly", degree=200).fit(X * 1e5)
    with pytest.raises(ValueError, match=r"regularizations.*got \[-1\.0\]"):
        KernelSFA(1).regularization_path(X, regularizations=[-1.0])
    with pytest.raises(ValueError, match="tolerance.*got 0"):
        KernelSFA(1).regularization_path(X, tolerance=0)


# ------------------------------------------------------------------ held-out rows


def held_out_by_hand(X, lengths, folds, n_components, gamma, regularizations, lag=1):
    """Fit to all rows but one segment, with support vectors among them, and measure slowness on it."""
    start = np.repeat(np.cumsum([0, *lengths])[:-1], lengths)
    number = np.repeat(np.arange(len(lengths)), lengths)
    found = np.zeros((len(folds), len(regularizations), n_components))
    for f, fold in enumerate(folds):
        out = np.zeros(len(X), dtype=bool)
        out[fold] = True
        keys = [(int(number[t]), bool(t >= fold.stop)) for t in np.flatnonzero(~out)]
        cuts = [i for i in range(1, len(keys)) if keys[i] != keys[i - 1]]
        rest = np.split(X[~out], cuts)
        for p, value in enumerate(regularizations):
            model = KernelSFA(n_components, gamma=gamma, regularization=value, lag=lag).fit(rest)
            y = model.transform(X[out])
            first = start[out]
            rows = np.flatnonzero(out)
            pairs = [i for i in range(lag, len(rows)) if rows[i] - lag >= first[i]]
            change = np.mean([(y[i] - y[i - lag]) ** 2 for i in pairs], axis=0)
            square = np.mean(y**2, axis=0)  # about zero, the mean over the training rows
            added_variance = np.maximum(0.1 - square, 0)
            found[f, p] = (change + 2 * added_variance) / (square + added_variance)
    return found.mean(axis=0)


@pytest.mark.filterwarnings("ignore:The kernel functions vary in")
@pytest.mark.parametrize(("lengths", "lag"), [((60,), 1), ((17, 25, 18), 1), ((60,), 3)])
def test_held_out_slowness_equals_that_of_separate_fits(rng, lengths, lag):
    X = series(rng, 60)
    values = [1e-4, 1e-2, 1e-1]
    folds = split_into_folds(lengths, 5)
    assert folds[0].start == 0 and folds[-1].stop == 60 and len(folds) == 5
    path = KernelSFA(2, gamma=0.8, lag=lag).regularization_path(X, regularizations=values, lengths=lengths)
    expected = held_out_by_hand(X, lengths, folds, 2, 0.8, values, lag)
    np.testing.assert_allclose(path.held_out_delta_values, expected, rtol=1e-5)


@pytest.mark.parametrize("lag", [1, 3, 20])
def test_merged_moments_of_folds_equal_those_of_all_rows(rng, lag):
    X, lengths = series(rng, 90), (30, 1, 59)
    functions = KernelFunctions(KernelColumns(X, "rbf", {"gamma": 0.3}), np.array([3, 50, 71]))
    sequences = Sequences(X, lengths)
    folds = [slice(0, 20), slice(20, 32), slice(32, 33), slice(33, 90)]
    parts = problem.fold_moments(functions, sequences, folds, lag=lag)
    borders = problem.fold_border_differences(functions, sequences, folds, lag=lag)
    joined = problem.merge_folds(parts, borders)
    G = functions(slice(None))
    n, mean, B, n_pairs, A = sfa.moments(np.split(G, np.cumsum(lengths)[:-1]), lag)
    assert (joined.n_rows, joined.n_differences) == (n, n_pairs)
    np.testing.assert_allclose(joined.mean, mean, rtol=EXACT)
    np.testing.assert_allclose(joined.covariance, B, rtol=EXACT)
    np.testing.assert_allclose(joined.difference_moment, A, rtol=EXACT)


@pytest.mark.parametrize("gamma", [None, 20.0])
def test_noise_causes_a_warning(gamma):
    rng = np.random.default_rng(0)
    X, new = rng.standard_normal((2, 150, 10))
    with pytest.warns(UserWarning, match="Output 0.*noise"):
        model = KernelSFA(gamma=gamma).fit(X)
    assert (model.held_out_delta_values_ > noise_delta(150)).all()
    assert gamma == 20.0 or (model.delta_values_ > 1.2).all()  # outputs do not appear slow
    y = model.transform(new)
    assert (np.mean(np.diff(y, axis=0) ** 2, axis=0) > 1.8 * y.var(axis=0)).all()


def test_the_default_is_near_the_best_regularization(rng):
    latent = np.zeros(600)
    for t in range(1, 600):
        latent[t] = 0.98 * latent[t - 1] + 0.2 * rng.standard_normal()
    fast = rng.standard_normal((600, 2))
    X = np.column_stack([fast[:, 0], fast[:, 0] ** 2 + latent, fast[:, 1]])

    def slowness(model):
        y = model.fit(X[:300]).transform(X[300:])
        return np.mean(np.diff(y, axis=0) ** 2 / y.var(axis=0))

    chosen = slowness(KernelSFA(1, gamma=0.1))
    given = {value: slowness(KernelSFA(1, gamma=0.1, regularization=value)) for value in (1e-10, 1e-4, 10.0)}
    assert chosen < 1.3 * min(given.values())
    assert chosen < 0.7 * max(given.values())


def test_a_linear_kernel_of_many_rows_is_linear_sfa_by_default(rng):
    X = series(rng, 400)
    model = KernelSFA(2, kernel="linear").fit(X)
    assert model.regularization_ == 0
    np.testing.assert_allclose(model.delta_values_, SFA(2).fit(X).delta_values_, rtol=SPECTRAL)


def test_few_rows_have_no_held_out_delta_values(rng):
    with pytest.warns(UserWarning, match="4 rows.*0.001"):
        model = KernelSFA(2).fit(series(rng, 4))
    assert model.held_out_delta_values_ is None and model.regularization_ == pytest.approx(1e-3)


def test_the_regularization_is_the_first_of_nearly_the_slowest_held_out_outputs():
    """And the last one if all outputs change as much as white noise."""
    squares, changes = np.ones((1, 4, 2)), np.array([[[1.9, 1.9], [1.0, 1.24], [0.5, 1.5], [1.5, 1.9]]])
    assert HeldOutPath(changes, squares).choose(1000) == 2
    assert HeldOutPath(changes[:, ::-1], squares).choose(1000) == 1
    assert HeldOutPath(changes + 1.0, squares).choose(1000) == 3


def textbook(n):
    """One period of a sine, with the square of a fast cosine added."""
    t = np.linspace(0, 2 * np.pi, n)
    return np.column_stack([np.sin(t) + np.cos(11 * t) ** 2, np.cos(11 * t)]), np.sin(t)


def test_a_source_slower_than_a_fold_is_found():
    X, slow = textbook(200)
    model = KernelSFA(1).fit(X)
    assert abs(np.corrcoef(model.transform(X)[:, 0], slow)[0, 1]) > 0.99
    assert model.held_out_delta_values_[0] < 0.01


def test_outputs_slow_only_on_training_rows_cause_a_warning():
    rng = np.random.default_rng(0)
    X = np.cumsum(rng.standard_normal((150, 10)), axis=0)  # held-out rows of a random walk have other values
    with pytest.warns(UserWarning, match="Output 0.*regularization_path"):
        KernelSFA().fit(X)


def images_of_rotating_blobs(seed, n_views=72, size=16, n_blobs=12):
    """Return images of blobs at angles about the vertical axis, and the sine and cosine of the angles."""
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((n_blobs, 3)) * [0.5, 0.4, 0.5]
    brightness, width = rng.uniform(0.3, 1, n_blobs), rng.uniform(0.1, 0.25, n_blobs)
    rows, columns = np.mgrid[-1.5 : 1.5 : size * 1j, -1.5 : 1.5 : size * 1j]
    angles = 2 * np.pi * np.arange(n_views) / n_views
    images = np.zeros((n_views, size, size))
    for image, angle in zip(images, angles, strict=True):
        x = np.cos(angle) * points[:, 0] + np.sin(angle) * points[:, 2]
        depth = np.cos(angle) * points[:, 2] - np.sin(angle) * points[:, 0]
        for i in np.argsort(depth):
            squares = (columns - x[i]) ** 2 + (rows - points[i, 1]) ** 2
            cover = np.exp(-squares / (2 * width[i] ** 2))
            image[:] = image * (1 - cover) + brightness[i] * cover
    flat = images.reshape(n_views, -1)
    return (flat - flat.mean(axis=0)) / flat.std(), np.column_stack([np.sin(angles), np.cos(angles)])


def explained(model, X, sources):
    """Return the smallest share of the variance of a source that the outputs explain linearly."""
    Y = np.column_stack([np.ones(len(X)), model.transform(X)])
    rest = sources - Y @ np.linalg.lstsq(Y, sources, rcond=None)[0]
    return float((1 - rest.var(axis=0) / sources.var(axis=0)).min())


@pytest.mark.parametrize("seed", [200, 206])
def test_a_slower_solution_with_similar_held_out_slowness_is_reported(seed):
    X, angle_coordinates = images_of_rotating_blobs(seed)
    with pytest.warns(UserWarning, match="these rows cannot distinguish the two") as caught:
        model = KernelSFA().fit(X)
    assert explained(model, X, angle_coordinates) < 0.2
    suggested = float(re.search(r"With regularization=(\S+) they", str(caught[0].message))[1])
    assert explained(KernelSFA(regularization=suggested).fit(X), X, angle_coordinates) > 0.9


@pytest.mark.filterwarnings("error")
def test_no_other_solution_is_reported_if_its_held_out_slowness_is_worse(rng):
    X, angle_coordinates = images_of_rotating_blobs(204)
    assert explained(KernelSFA().fit(X), X, angle_coordinates) > 0.9
    KernelSFA(1).fit(series(rng, 300))


def test_the_default_support_is_limited(rng, monkeypatch):
    monkeypatch.setattr(kernel, "_MAX_SUPPORT", 30)
    X = series(rng, 80)
    for selection in ("mp_mah", "mp_kpca", "random"):
        model = KernelSFA(2, gamma=0.5, selection=selection, random_state=0, regularization=1e-3).fit(X)
        assert len(np.unique(model.support_)) == 30
    of_all = KernelSFA(2, gamma=0.5, selection="online_mah", regularization=1e-3).fit(X)
    assert len(of_all.support_) == 80
    # Three rows span a linear kernel of three columns, but only two dimensions once they are centred.
    linear = KernelSFA(3, kernel="linear", regularization=0).fit(X)
    np.testing.assert_allclose(linear.delta_values_, SFA(3).fit(X).delta_values_, rtol=SPECTRAL)


def test_verbose_prints_the_cost(rng, capsys):
    X = series(rng, 40)
    KernelSFA(2, verbose=True, regularization=1e-3).fit(X)
    assert re.fullmatch(r"KernelSFA: 40 rows, 40 support vectors; .* took \S+ s\.\n", capsys.readouterr().err)
    KernelSFA(2, kernel="linear", verbose=True).fit(X)
    assert re.search(r"selecting the regularization .* about \S+ s; .* n_support", capsys.readouterr().err)
    KernelSFA(2, regularization=1e-3).fit(X)
    assert capsys.readouterr().err == ""


# ------------------------------------------------------------------ rounding, offsets, invalid kernels


@pytest.mark.parametrize("scale", [1e-7, 1e-6])
def test_rounding_errors_do_not_increase_the_rank(rng, scale):
    X = scale * rng.standard_normal((150, 10))
    with pytest.warns(UserWarning, match="Rounding"):
        tiny = KernelSFA(2, gamma=1.0, regularization=0.0).fit(X)
    with pytest.warns(UserWarning, match="Rounding"):
        wide = KernelSFA(2, gamma=scale**2, regularization=0.0).fit(X / scale)
    linear = SFA(2).fit(X)
    for model in (tiny, wide):
        assert model.rank_ == 10  # a Gaussian kernel of this width is nearly linear
        np.testing.assert_allclose(model.delta_values_, linear.delta_values_, rtol=1e-4)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "linear"])
def test_a_large_offset_does_not_affect_results(rng, kernel):
    X = np.round(series(rng, 120), 5)  # so that the offset loses no digit of the rows
    offset = np.array([1e8, -1e8, 3e8])
    model = KernelSFA(2, kernel=kernel, regularization=1e-3).fit(X)
    moved = KernelSFA(2, kernel=kernel, regularization=1e-3).fit(X + offset)
    np.testing.assert_allclose(moved.delta_values_, model.delta_values_, rtol=1e-5)
    np.testing.assert_allclose(moved.transform(X + offset), model.transform(X), atol=1e-5)
    assert moved.rank_ == model.rank_
    np.testing.assert_allclose(moved.support_vectors_, X + offset)


def test_a_large_offset_of_another_kernel_is_reported(rng):
    X = series(rng, 120) + 1e8
    # Rounding errors depend on the processor: two directions remain, with a warning, or fewer, with an error.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            KernelSFA(2, kernel="poly", regularization=1e-3).fit(X)
        except ValueError as error:
            sentence = str(error)
        else:
            [sentence] = [str(warning.message) for warning in caught]
    assert re.search("Rounding of the kernel values hides .* subtract (its|their) mean", sentence)


def test_kernels_that_are_not_positive_semidefinite_are_refused(rng):
    X = series(rng, 60)
    with pytest.raises(ValueError, match="kernel='sigmoid' is not positive"):
        KernelSFA(2, kernel="sigmoid", gamma=1.0, regularization=1e-3).fit(X)
    K = rng.standard_normal((60, 60))
    with pytest.raises(ValueError, match="kernel.*symmetric"):
        KernelSFA(2, kernel="precomputed", regularization=1e-3).fit(K)
    S = K @ K.T
    S[40, 7] += 5.0
    pair = [f"{S[7, 40]:.6g}", f"{S[40, 7]:.6g}"]
    with pytest.raises(ValueError, match=f"{'.*'.join(pair)}|{'.*'.join(pair[::-1])}"):
        KernelSFA(2, kernel="precomputed", regularization=1e-3).fit(S)
    with pytest.raises(ValueError, match="kernel.*positive"):
        KernelSFA(2, kernel="precomputed", regularization=1e-3).fit(K + K.T)
    single = pairwise_kernels(X, metric="rbf").astype(np.float32)  # rounding is no reason
    assert KernelSFA(2, kernel="precomputed", regularization=1e-3).fit(single).rank_ > 10


# ------------------------------------------------------------------ support, lag, graphs, pre-images


def test_support_vectors_by_index_and_by_value(rng):
    X = series(rng, 80)
    chosen = KernelSFA(2, n_support=12, regularization=1e-3).fit(X)
    by_number = KernelSFA(2, support=chosen.support_, regularization=1e-3).fit(X)
    by_point = KernelSFA(2, support=X[chosen.support_], regularization=1e-3).fit(X)
    np.testing.assert_array_equal(by_number.coefficients_, chosen.coefficients_)
    np.testing.assert_allclose(by_point.transform(X), chosen.transform(X), atol=SPECTRAL)
    assert by_point.support_ is None and by_point.support_vectors_.shape == (12, 3)
    points = rng.standard_normal((9, 3))
    at_new_points = KernelSFA(2, gamma=0.4, support=points, regularization=0.01).fit(X)
    _, _, deltas = oracle.algorithm_1(
        oracle.gaussian(points, X, 0.4), oracle.gaussian(points, points, 0.4), (80,), 2, 0.01
    )
    np.testing.assert_allclose(at_new_points.delta_values_, deltas, rtol=SPECTRAL)
    precomputed = KernelSFA(2, kernel="precomputed", support=chosen.support_, regularization=1e-3)
    K = pairwise_kernels(X, metric="rbf")
    np.testing.assert_allclose(precomputed.fit(K).transform(K), chosen.transform(X), atol=SPECTRAL)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"support": [0, 40]}, "support.*0.*39"),
        ({"support": [3, 3]}, "support.*twice"),
        ({"support": [[0.0, 1.0]]}, "support.*3"),
        ({"support": [[0.0, 1.0, np.nan], [0, 0, 0]]}, "support.*finite"),
        ({"support": [0, 1], "n_support": 2}, "n_support"),
        ({"lag": 0}, "lag"),
        ({"lag": 2, "graph": "nearest_neighbors"}, "lag=2.*graph"),
        ({"graph": "clustered"}, "graph='clustered' requires y"),
    ],
)
def test_errors_of_support_lag_and_graph(rng, options, message):
    with pytest.raises(ValueError, match=message):
        KernelSFA(**options).fit(series(rng, 40))


@pytest.mark.parametrize("lag", [2, 5])
def test_lag_of_a_linear_kernel_equals_that_of_sfa(rng, lag):
    X = series(rng, 150)
    pieces = [X[:70], X[70:73], X[73:]]
    with pytest.warns(UserWarning, match="lag") if lag == 5 else contextlib.nullcontext():
        linear = SFA(3, lag=lag).fit(pieces)
    model = KernelSFA(3, kernel="linear", lag=lag, regularization=0).fit(pieces)
    np.testing.assert_allclose(model.delta_values_, linear.delta_values_, rtol=SPECTRAL)
    np.testing.assert_allclose(model.timescales_, linear.timescales_, rtol=SPECTRAL)


@pytest.mark.parametrize("named", ["clustered", "serial", "nearest_neighbors"])
def test_linear_kernel_on_a_graph_is_graph_sfa(rng, named):
    X = series(rng, 60)
    y = np.repeat(np.arange(3), 20) if named == "clustered" else np.linspace(0, 1, 60)
    linear = GraphSFA(2, graph=named).fit(X, y)
    model = KernelSFA(2, kernel="linear", graph=named, regularization=0).fit(X, y)
    np.testing.assert_allclose(model.delta_values_, linear.delta_values_, rtol=SPECTRAL)
    np.testing.assert_allclose(np.abs(model.transform(X)), np.abs(linear.transform(X)), atol=1e-6)
    assert model.graph_.n_vertices == 60


def test_a_kernel_on_a_graph_is_graph_sfa_on_kernel_functions(rng):
    X = series(rng, 90)
    y = np.linspace(0, 1, 90)
    model = KernelSFA(2, gamma=0.5, n_support=10, graph="serial", regularization=0).fit(X, y)
    G = oracle.gaussian(X, X[model.support_], 0.5)
    centred = G - G.mean(axis=1)[:, None]  # coefficients that sum to zero
    expected = GraphSFA(2, graph="serial").fit(centred, y)
    np.testing.assert_allclose(model.delta_values_, expected.delta_values_, rtol=1e-6)


@pytest.mark.parametrize("given", ["name", "function", "graph"])
def test_regularization_on_a_graph_is_chosen_on_rows_left_out(given):
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, 150)
    X = np.column_stack([np.cos(2 * y), np.sin(2 * y)]) + 0.6 * rng.standard_normal((150, 2))
    graph = {"name": "clustered", "function": lambda X, y: clustered(y), "graph": clustered(y)}[given]
    with pytest.warns(UserWarning, match="nearly any"):
        loose = KernelSFA(2, gamma=5.0, graph=graph, regularization=0).fit(X, y)
    model = KernelSFA(2, gamma=5.0, graph=graph).fit(X, y)
    assert model.regularization_ > 0
    assert model.held_out_delta_values_.mean() < 1.8
    y_new = rng.integers(0, 3, 300)
    new = np.column_stack([np.cos(2 * y_new), np.sin(2 * y_new)]) + 0.6 * rng.standard_normal((300, 2))

    def spread_within(model):
        out = model.transform(new)
        return sum(out[y_new == k].var(axis=0) for k in range(3)).sum() / out.var(axis=0).sum()

    assert spread_within(model) < 0.8 * spread_within(loose)


def test_splits_of_a_graph_have_the_weights_of_its_vertices(rng):
    W, v, features = rng.uniform(0.1, 1.0, (12, 12)), rng.uniform(0.5, 2.0, 12), rng.standard_normal((12, 3))
    W += W.T
    graph = from_sparse(W, node_weights=v)
    splits = list(graph_splits(graph, graph, features, None, features, features[:3], 3))
    assert len(splits) == 3
    for fold, split in enumerate(splits):
        is_held_out = np.arange(12) % 3 == fold
        for found, rows in ((split.train, ~is_held_out), (split.test, is_held_out)):
            mean, B, A = graph_oracle.moments(W[np.ix_(rows, rows)], v[rows], features[rows])
            np.testing.assert_allclose(found.mean, mean, atol=EXACT)
            np.testing.assert_allclose(found.covariance, B, atol=EXACT)
            np.testing.assert_allclose(found.difference_moment, A, atol=EXACT)


def test_pre_images_are_kernel_ridge_regressions_with_leave_one_out_selection(rng):
    Y = rng.standard_normal((30, 2))
    points = np.column_stack([np.sin(Y[:, 0]), Y[:, 0] * Y[:, 1], Y[:, 1]]) + 0.05 * rng.standard_normal(
        (30, 3)
    )
    model = PreImage.fit(Y, points)

    def error(gamma, ridge):
        total = 0.0
        for i in range(30):
            rest = np.arange(30) != i
            mean = points.mean(axis=0)
            other = KernelRidge(alpha=ridge, kernel="rbf", gamma=gamma).fit(Y[rest], points[rest] - mean)
            total += np.sum((other.predict(Y[i : i + 1]) + mean - points[i]) ** 2)
        return total

    errors = {(g / 2, r): error(g / 2, r) for g in (0.1, 1.0, 10.0) for r in 10.0 ** np.arange(-10, 1)}
    assert (model.gamma, model.ridge) == min(errors, key=errors.get)
    new = rng.standard_normal((5, 2))
    expected = KernelRidge(alpha=model.ridge, kernel="rbf", gamma=model.gamma)
    expected = expected.fit(Y, points - points.mean(axis=0)).predict(new) + points.mean(axis=0)
    np.testing.assert_allclose(model(new), expected, rtol=1e-6)


def test_pre_images_of_a_curve_lie_on_it():
    angle = np.linspace(0, 4 * np.pi, 400)
    curve = np.column_stack([np.cos(angle), np.sin(angle), np.cos(2 * angle)]) + 1e3
    model = KernelSFA(2, gamma=1.0, support=np.arange(0, 400, 7)).fit(curve)
    back = model.inverse_transform(model.transform(curve))
    assert np.sqrt(np.mean((back - curve) ** 2)) < 0.02
    linear = SFA(2).fit(curve)
    assert np.sqrt(np.mean((linear.inverse_transform(linear.transform(curve)) - curve) ** 2)) > 0.3
    first, second = model.inverse_transform([model.transform(curve[:9]), model.transform(curve[9:])])
    np.testing.assert_allclose(np.vstack([first, second]), back)
    with pytest.raises(ValueError, match="3.*inverse_transform.*2"):
        model.inverse_transform(curve)
    K = pairwise_kernels(curve, metric="rbf")
    precomputed = KernelSFA(2, kernel="precomputed", support=np.arange(0, 400, 7), regularization=1e-3).fit(K)
    with pytest.raises(ValueError, match="kernel='precomputed'"):
        precomputed.inverse_transform(precomputed.transform(K))


def test_directions_within_the_largest_rounding_error_are_discarded():
    """Errors of one function of large values count for all combinations of functions."""
    first, second = np.array([1.0, -1.0, 0.0]) / np.sqrt(2.0), np.array([1.0, 1.0, -2.0]) / np.sqrt(6.0)
    covariance = np.outer(first, first) + 1e-3 * np.outer(second, second)
    moments = GraphMoments(np.array([1e14, 0.0, 0.0]), covariance, covariance, np.array([1e-2, 0.0, 0.0]))
    exact = moments._replace(variance_floor=np.zeros(3))
    found = [problem.make_problem(each, np.eye(3)) for each in (moments, exact)]
    assert [each.n_rounded for each in found] == [1, 0]
    assert [each.basis.shape[1] for each in found] == [1, 2]
