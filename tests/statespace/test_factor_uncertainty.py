"""Intervals of factors: dense expected information; frames, lists and saved models."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from probsfa import BilinearSFA, ProbabilisticSFA, load
from probsfa.datasets import make_slow_mixture
from probsfa.statespace.factor_uncertainty import covariances_of_fit

X = make_slow_mixture(120, 3, decay=[0.9], noise_variance=0.4, random_state=3).data


def dense_information(decay, loadings, noise, n_rows, mask):
    """Return the expected information of (a, C, r, mu), from the joint Gaussian of all observed values."""
    d = len(loadings)
    theta = np.concatenate([[decay], loadings, noise])

    def covariance(parameters):
        a, c, r = parameters[0], parameters[1 : 1 + d], parameters[1 + d :]
        times = np.arange(n_rows)
        joint = np.kron(a ** np.abs(times[:, None] - times), np.outer(c, c)) + np.diag(np.tile(r, n_rows))
        return joint[np.ix_(mask.ravel(), mask.ravel())]

    inverse = np.linalg.inv(covariance(theta))
    slopes = []
    for i in range(len(theta)):
        step = np.zeros(len(theta))
        step[i] = 1e-5
        slopes.append(inverse @ (covariance(theta + step) - covariance(theta - step)) / 2e-5)
    size = len(theta)
    information = np.zeros((size + d, size + d))
    information[:size, :size] = [[0.5 * np.sum(one * other.T) for other in slopes] for one in slopes]
    design = np.tile(np.eye(d), (n_rows, 1))[mask.ravel()]
    information[size:, size:] = design.T @ inverse @ design
    return information


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_covariances_are_those_of_the_dense_information(missing):
    mask = np.random.default_rng(0).random(X.shape) >= missing
    model = ProbabilisticSFA(1).fit(np.where(mask, X, np.nan))
    fitted = model._model.fitted
    params = fitted.standardized_params
    c, r = params.loadings[:, 0], params.noise_variance
    inverse = np.linalg.inv(dense_information(params.decay[0], c, r, len(X), mask))
    row = (c / r) / np.sum(c**2 / r)
    directions = np.zeros((2, len(inverse)))
    directions[0, 1:4] = directions[1, 7:] = row
    expected = directions @ inverse @ directions.T
    found = covariances_of_fit(fitted, evenly_sampled=True)
    assert found.shape == (1, 2, 2)
    # Whittle's formula neglects the ends of the series, and assumes evenly distributed missing values.
    np.testing.assert_allclose(np.diag(found[0]), np.diag(expected), rtol=0.15)
    mean, std = np.asarray(model.transform(X))[:, 0], model.posterior(X).std[:, 0]
    lower, upper = (one[:, 0] for one in model.factor_interval(X, 0.9))
    added = ((upper - lower) / 2 / 1.6448536269514722) ** 2 - std**2
    quadratic = mean**2 * found[0, 0, 0] + 2.0 * mean * found[0, 0, 1] + found[0, 1, 1]
    np.testing.assert_allclose(added, quadratic, rtol=1e-6)
    np.testing.assert_allclose(0.5 * (lower + upper), mean, atol=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {"n_components": 2},
        {"n_components": 1, "noise": "ar1"},
        {"n_components": 1, "rhythms": 1},
        {"n_components": 1, "smooth": 1, "smoothness": 2.5},
        {"n_components": 1, "robust": True},
        {"n_components": 1, "transforms": "log"},
    ],
)
def test_intervals_are_wider_than_those_of_the_posterior(options):
    model = ProbabilisticSFA(**options).fit(X - X.min() + 1.0)
    posterior = model.posterior(X - X.min() + 1.0)
    lower, upper = model.factor_interval(X - X.min() + 1.0)
    assert lower.shape == posterior.means.shape
    assert np.all(upper - lower > 2.0 * 1.6448 * posterior.std)
    assert np.all(upper - lower < 2.0 * 1.6449 * np.sqrt(posterior.std**2 + 1.0 + np.sum(posterior.means**2)))


def test_intervals_of_trends_are_those_of_the_posterior():
    walk = np.cumsum(np.random.default_rng(1).normal(size=(80, 1)), axis=0) + X[:80]
    model = ProbabilisticSFA(0, trend="level", noise="diagonal").fit(walk)
    lower, upper = model.factor_interval(walk)
    np.testing.assert_allclose(upper - lower, 2.0 * 1.6448536 * model.posterior(walk).std, rtol=1e-6)


def test_frames_lists_and_saved_models(tmp_path):
    frame = pd.DataFrame(X, index=pd.date_range("2020-01-01", periods=len(X), freq="h"), columns=list("abc"))
    model = ProbabilisticSFA(1).fit(frame)
    lower, upper = model.factor_interval(frame)
    assert lower.index.equals(frame.index) and list(upper.columns) == list(model.get_feature_names_out())
    first, second = model.factor_interval([frame[:50], frame[50:]])
    assert second.upper.index.equals(frame.index[50:])
    np.testing.assert_allclose(first.lower, model.factor_interval(frame[:50]).lower)
    model.save(tmp_path / "model.npz")
    np.testing.assert_allclose(load(tmp_path / "model.npz").factor_interval(frame).upper, upper)
    # Files of earlier versions do not contain the number of values.
    older = dataclasses.replace(model._model, fitted=dataclasses.replace(model._model.fitted, n_values=None))
    model._model = older
    np.testing.assert_allclose(
        model.factor_interval(frame).upper,
        model.posterior(frame).means + 1.6448536269514722 * model.posterior(frame).std,
    )


def test_errors_name_the_argument_and_the_alternative():
    model = ProbabilisticSFA(1).fit(X)
    with pytest.raises(ValueError, match=r"level.*got 1\.0"):
        model.factor_interval(X, 1.0)
    with pytest.raises(AttributeError, match="posterior"):
        _ = BilinearSFA(1).factor_interval
    with pytest.raises(ValueError, match="factor_interval requires observation noise"):
        ProbabilisticSFA(1, noise=0.0).fit(X).factor_interval(X)
