"""Any input to any estimator: results without NaN and with unchanged observed values, or a clear error.

Cases are drawn from seeds, so that each is reproducible: the seed determines the estimator, the shape, the
type, the scales and the errors in the data.
"""

import re
import warnings

import numpy as np
import pandas as pd
import pytest

from probsfa import (
    SFA,
    BayesianSFA,
    GraphSFA,
    GraphSFAClassifier,
    GraphSFARegressor,
    KernelSFA,
    LaplacianEigenmaps,
    ProbabilisticSFA,
    SpectralClustering,
)

# Few shapes, so that programs are compiled once for many cases.
SHAPES = [(0, 3), (1, 3), (2, 3), (3, 3), (7, 1), *[(12, 3)] * 2, *[(30, 3)] * 5]
SCALES = [1e-300, 1e-200, 1e-145, 1e-135, 1e-100, 1e-12, 1.0, 1.0, 1e8, 1e100, 1e145, 1e151, 1e200, 1e300]
EXTREME_VALUES = [np.inf, -np.inf, 1e155, -1e200, 1e308, 1e149, 1e20, 1e-320, 0.0, -0.0, np.nan]


@np.errstate(over="ignore", invalid="ignore")
def values(rng):
    """Return a table of numbers with a few errors."""
    n, d = pick(rng, SHAPES)
    X = np.cumsum(rng.standard_normal((n, d)), axis=0) + 0.1 * rng.standard_normal((n, d))
    for problem in rng.choice(10, size=rng.integers(0, 3), replace=False):
        if X.size == 0:
            break
        column, row = rng.integers(d), rng.integers(n)
        if problem == 0:
            X *= pick(rng, SCALES)
        elif problem == 1:
            X[:, column] *= pick(rng, SCALES)
        elif problem == 2:
            X[row, column] = pick(rng, EXTREME_VALUES)
        elif problem == 3:
            X[:, column] = rng.choice([0.0, 20.0, -1e8, 1e-310, np.nan])
        elif problem == 4:
            with np.errstate(over="ignore"):
                X[:, column] = 1.8 * X[:, 0] + 32.0
        elif problem == 5:
            X += rng.choice([1e3, 1e8, 1e15])
        elif problem == 6:
            X[row] = np.nan
        elif problem == 7:
            X = X[rng.integers(n, size=n)]
        elif problem == 8:
            X = np.rint(X)
        else:
            X[:, column] = np.where(np.arange(n) == row, 1.0, 0.0)
    if rng.random() < 0.35 and X.size:
        X = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    return X


def in_some_form(X, rng):
    """Return the table in one of the supported types, and a function that converts it back to an array."""
    form = rng.integers(9)
    with np.errstate(over="ignore", invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if form == 0:
            return pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])
        if form == 1:
            return X.astype(np.float32)
        if form == 2:
            return np.asfortranarray(X)[::1]
        if form == 3 and len(X) > 3:
            return [X[: len(X) // 2], X[len(X) // 2 :]]
        if form == 4:
            return np.ma.masked_invalid(X)
        if form == 5 and np.isfinite(X).all():
            return np.clip(X, -1e9, 1e9).astype(np.int64)
        if form == 6:
            return X.astype(object)
        if form == 7:
            return X[::-1].copy()[::-1]
    return X


def as_array(X):
    """Return values as floats, NaN where missing."""
    if isinstance(X, list):
        return np.concatenate([as_array(x) for x in X])
    if isinstance(X, np.ma.MaskedArray):
        return np.ma.filled(X.astype(np.float64), np.nan)
    return np.asarray(X, dtype=np.float64)


NOISES = [
    "diagonal",
    "diagonal",
    "isotropic",
    0.0,
    0.0,
    0.3,
    1e-20,
    1e-300,
    1e300,
    [0.1, 0.2, 0.3],
    -1.0,
    None,
]


def pick(rng, options):
    return options[rng.integers(len(options))]


def estimator(rng, kinds):
    """Return an estimator with parameters that a user may choose."""
    kind, k = pick(rng, kinds), pick(rng, [None, 1, 2, 3, 4])
    if kind is ProbabilisticSFA:
        return ProbabilisticSFA(pick(rng, [1, 1, 4]), noise=pick(rng, NOISES), max_iter=8)
    if kind is BayesianSFA:
        few = {"n_steps_svi": 2, "n_draws": 5, "n_chains": 2, "n_predictive": 3, "verbose": False}
        noise = pick(rng, ["diagonal", "isotropic", 0.3, 1e-300])
        return BayesianSFA(1, noise=noise, inference="svi", random_state=0, **few)
    if kind is SFA:
        return SFA(k, lag=pick(rng, [1, 2]), missing=pick(rng, ["raise", "skip"]))
    if kind in (GraphSFAClassifier, GraphSFARegressor):
        return kind(n_components=pick(rng, [None, 1]))
    if kind is GraphSFA:
        return GraphSFA(k, graph=pick(rng, ["temporal", "nearest_neighbors", "serial"]))
    if kind is KernelSFA:
        kernel = pick(rng, ["rbf", "linear", "poly", "sigmoid"])
        return KernelSFA(1, kernel=kernel, regularization=pick(rng, [0.0, 1e-6, "auto"]))
    affinity = pick(rng, ["nearest_neighbors", "rbf"])
    if kind is LaplacianEigenmaps:
        normalization = pick(rng, ["random_walk", "symmetric", "unnormalized"])
        return LaplacianEigenmaps(k or 2, affinity=affinity, normalization=normalization)
    return SpectralClustering(min(k or 2, 3), affinity=affinity, random_state=0)


CHEAP = [
    ProbabilisticSFA,
    ProbabilisticSFA,
    ProbabilisticSFA,
    SFA,
    GraphSFA,
    GraphSFAClassifier,
    GraphSFARegressor,
    KernelSFA,
    LaplacianEigenmaps,
    SpectralClustering,
]


def is_sentence(error):
    """Whether a message is a complete sentence of this package or of scikit-learn."""
    message = str(error)
    internal = "zero-size|operand|broadcast|ambiguous|empty sequence|LinAlg|Traceback|NoneType|object has no"
    return len(message.split()) >= 5 and re.search(internal, message) is None


def check_case(seed, kinds=CHEAP):
    """Fit, compute results and check them; return whether there were any results."""
    rng = np.random.default_rng([7, seed])
    X = in_some_form(values(rng), rng)
    model = estimator(rng, kinds)
    y = rng.integers(0, 3, size=sum(map(len, X)) if isinstance(X, list) else len(X))
    array = as_array(X)
    before = array.copy()
    context = f"seed {seed}: {model!r} on {type(X).__name__} {array.shape}\n{array[:5]}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            labels = [y[: len(X[0])], y[len(X[0]) :]] if isinstance(X, list) else y
            model.fit(X, labels)
        except (ValueError, TypeError) as error:
            assert is_sentence(error), f"{context}\n{error!r}"
            return False
        np.testing.assert_array_equal(as_array(X), before, err_msg=context)
        try:
            if isinstance(model, (ProbabilisticSFA, BayesianSFA)):
                filled, std = (as_array(part) for part in model.impute(X, return_std=True))
                assert np.isfinite(filled).all(), f"{context}\n{model.status_}"
                assert np.isfinite(std).all() and (std >= 0.0).all(), f"{context}\n{model.status_}"
                observed = ~np.isnan(array)
                np.testing.assert_array_equal(filled[observed], array[observed], err_msg=context)
                assert np.isfinite(model.log_likelihood(X)), context
            elif isinstance(model, SpectralClustering):
                assert np.isfinite(model.embedding_).all() and len(model.labels_) == len(array), context
            elif isinstance(model, (GraphSFAClassifier, GraphSFARegressor)):
                predicted = model.predict(X)
                predicted = np.concatenate(predicted) if isinstance(X, list) else np.asarray(predicted)
                assert np.isfinite(predicted).all(), context
            else:
                outputs = as_array(model.transform(X))
                complete = ~np.isnan(array).any(axis=1)
                assert np.isfinite(outputs[complete]).all(), context
        except (ValueError, TypeError) as error:
            assert is_sentence(error), f"{context}\n{error!r}"
            return False
    return True


@pytest.mark.parametrize("part", range(3))
def test_no_input_gives_nan_or_a_traceback(part):
    has_results = [check_case(seed) for seed in range(20 * part, 20 * (part + 1))]
    assert 3 <= sum(has_results) < 20


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(75))
def test_no_input_of_many_gives_nan_or_a_traceback(part):
    for seed in range(1000 + 20 * part, 1000 + 20 * (part + 1)):
        check_case(seed)


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(5))
def test_no_input_to_a_posterior_gives_nan_or_a_traceback(part):
    for seed in range(5000 + 8 * part, 5000 + 8 * (part + 1)):
        check_case(seed, [BayesianSFA])
