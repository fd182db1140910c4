"""What a fit says of its columns, and what it makes of those that do not vary."""

import dask
import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import probsfa
from probsfa import GraphSFA, GraphSFAClassifier, ProbabilisticSFA
from probsfa.datasets import make_slow_mixture

NAMES = ["wind", "rain", "sun"]


@pytest.fixture(scope="module")
def data():
    return np.asarray(make_slow_mixture(80, 3, decay=[0.97], noise_variance=0.3, random_state=3).data)


def heywood():
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.standard_normal((80, 2)), axis=0)
    noisy = walk[:, :1] + 5.0 * rng.standard_normal((80, 4))
    return np.column_stack([noisy[:, :2], walk[:, 1], noisy[:, 2:]])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("fit", ["fit", "fit_stream"])
def test_a_noise_at_its_floor_is_told_by_the_name_of_its_column(fit):
    X = heywood()
    model = ProbabilisticSFA(2, noise_floor=1e-3)
    bare = getattr(model, fit)(X).status_
    named = getattr(model, fit)(pd.DataFrame(X, columns=list("abcde"))).status_
    assert "noise variance of 1 of 5 features is at its floor (2)" in bare
    assert named == bare.replace("(2)", "('c')")


def test_a_noise_that_is_given_too_small_is_told_by_the_names_of_its_columns(data):
    frame = pd.DataFrame(data, columns=NAMES)
    status = ProbabilisticSFA(1, noise=[0.3, 1e-20, 1e-30]).fit(frame).status_
    assert "given for features 'rain', 'sun' is less than" in status


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array, scipy.sparse.coo_matrix])
def test_a_matrix_in_the_place_of_a_graph_says_what_makes_one_of_it(data, kind):
    edges = kind(np.ones((80, 80)))
    with pytest.raises(ValueError, match=r"shape \(80, 80\).*graphs.from_sparse\(W\)"):
        GraphSFA(graph=edges).fit(data)
    with pytest.raises(ValueError, match="graphs.from_sparse"):
        GraphSFAClassifier(graph=edges).fit(data, np.arange(80) % 2)


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("constant", [20.0, 0.0, -0.1])
def test_a_hole_in_a_constant_column_is_the_constant_whatever_the_unit(data, tmp_path, constant, unit):
    X = data.copy()
    X[:, 1] = constant
    X[5:9, 1] = X[5:9, 0] = np.nan
    model = ProbabilisticSFA(1).fit(X * unit)
    assert "Feature 1 is constant, which tells no spread" in model.status_
    model.save(tmp_path / "model.npz")
    for fitted in (model, probsfa.load(tmp_path / "model.npz")):
        filled, std = fitted.impute(X * unit, return_std=True)
        np.testing.assert_array_equal(filled[:, 1], constant * unit)
        np.testing.assert_array_equal(std[:, 1], 0.0)
        assert (std[5:9, 0] > 0.1 * unit).all()
        ahead = fitted.forecast(X * unit, 3)
        np.testing.assert_array_equal(ahead.means[:, 1], constant * unit)
        np.testing.assert_array_equal(ahead.std[:, 1], 0.0)
        np.testing.assert_array_equal(fitted.sample(5, random_state=0)[0][:, 1], constant * unit)
    assert (model.noise_variance_ > 0.0).all() and np.isfinite(model.log_likelihood(X * unit))


def test_noise_that_is_given_is_the_spread_of_a_constant_column(data):
    X = data.copy()
    X[:, 1] = 20.0
    X[5:9, 1] = np.nan
    model = ProbabilisticSFA(1, noise=[0.3, 0.04, 0.3]).fit(X)
    np.testing.assert_allclose(model.impute(X, return_std=True)[1][5:9, 1], 0.2, rtol=0.02)
    assert "constant" not in model.status_


def test_constant_columns_are_told_by_their_names_and_do_not_change_the_others(data):
    X = np.column_stack([data, np.full(80, 7.0)])
    X[3:6] = np.nan
    with_constant = ProbabilisticSFA(1).fit(pd.DataFrame(X, columns=[*NAMES, "battery"]))
    assert "Feature 'battery' is constant" in with_constant.status_
    without = ProbabilisticSFA(1).fit(X[:, :3])
    filled = with_constant.impute(pd.DataFrame(X, columns=[*NAMES, "battery"])).to_numpy()
    np.testing.assert_allclose(filled[:, :3], without.impute(X[:, :3]), atol=1e-3)


def test_a_stream_and_a_cluster_tell_of_constant_columns_too(data):
    X = data.copy()
    X[:, 1] = 20.0
    X[5:9, 1] = np.nan
    streamed = ProbabilisticSFA(1).fit_stream(X)
    with dask.config.set(scheduler="synchronous"):
        spread = probsfa.distributed.fit(ProbabilisticSFA(1), [dask.delayed(X)])
    for model in (streamed, spread):
        assert "Feature 1 is constant" in model.status_
        assert (model.impute(X, return_std=True)[1][:, 1] == 0.0).all()
