"""EmissionSFA: methods, input validation, and the contract of scikit-learn."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

import probsfa
from probsfa import EmissionSFA
from probsfa.extensions.emissions import learning
from probsfa.extensions.emissions.prediction import log_predictive
from probsfa.extensions.emissions.sites import infer
from tests.extensions.emissions.support import draw, observations_of, parameters, shape_of
from tests.oracles import emissions as oracle
from tests.tolerances import EXACT, mc_tolerance

N = 120


def table():
    """A column of each kind, driven by one latent factor, with missing values."""
    params = parameters(6, (0.95,)).replace(loadings=np.ones((6, 1)))
    kinds = ["bernoulli", "poisson", "negative_binomial", "gaussian", "student_t"]
    columns = {kind: draw(kind, params, N, seed=5)[0][:, j] for j, kind in enumerate(kinds)}
    columns["gaussian"] = 100.0 + 5.0 * columns["gaussian"]
    columns["categorical"] = 10.0 * np.digitize(draw("gaussian", params, N, seed=5)[0][:, 5], [-0.5, 0.8])
    frame = pd.DataFrame(columns, index=pd.date_range("2024", periods=N, freq="h"))
    missing = np.random.default_rng(0).random(frame.shape) < 0.15
    return frame.mask(missing), {"poisson": "poisson", "student_t": "student_t", "categorical": "categorical"}


@pytest.fixture(scope="module")
def fitted():
    frame, emission = table()
    return frame, EmissionSFA(1, emission=emission).fit(frame)


def test_attributes(fitted):
    frame, model = fitted
    assert model.emissions_ == tuple(frame.columns)
    assert model.loadings_.shape == (7, 1) and model.mean_.shape == (7,)
    assert model.predictor_columns_.tolist() == [0, 1, 2, 3, 4, 5, 5]
    np.testing.assert_array_equal(model.levels_[5], [0.0, 10.0, 20.0])
    assert np.flatnonzero(np.isfinite(model.noise_variance_)).tolist() == [3, 4]
    assert np.flatnonzero(np.isfinite(model.degrees_of_freedom_)).tolist() == [4]
    assert np.flatnonzero(np.isfinite(model.size_)).tolist() == [2]
    assert model.time_unit_seconds_ == 3600.0 and "index of X" in model.status_
    assert model.converged_ and np.all(np.diff(model.history_) >= 0.0)
    assert model.history_[-1] == pytest.approx(model.lower_bound_)
    assert model.lower_bound(frame) == pytest.approx(model.lower_bound_, abs=1e-2)
    assert model.score(frame) == pytest.approx(model.lower_bound(frame) / N)


def test_imputed_values_are_in_the_domain_of_the_column(fitted):
    frame, model = fitted
    filled, std, lower, upper = model.impute(frame, return_std=True, interval=0.9)
    observed = frame.notna().to_numpy()
    for result in (filled, lower, upper):
        assert isinstance(result, pd.DataFrame) and result.index.equals(frame.index)
        np.testing.assert_array_equal(result.to_numpy()[observed], frame.to_numpy()[observed])
    assert np.all(std.to_numpy()[observed] == 0.0) and np.all(std.to_numpy()[~observed] > 0.0)
    assert filled["bernoulli"].between(0.0, 1.0).all() and (filled.iloc[:, :3] >= 0.0).all(axis=None)
    assert set(filled["categorical"]) <= {0.0, 10.0, 20.0}
    counts = ["bernoulli", "poisson", "negative_binomial"]
    for ends in (lower, upper):
        assert np.all(ends[counts] == np.rint(ends[counts])) and ends["bernoulli"].isin([0.0, 1.0]).all()
        assert np.all(np.isnan(ends["categorical"].to_numpy()[~observed[:, 5]]))
    inside = filled.columns[:-1]
    assert np.all(lower[inside] <= upper[inside])
    gaussian = ~observed[:, 3]
    wide = (upper["gaussian"] - lower["gaussian"])[gaussian]
    np.testing.assert_allclose(wide, 2 * 1.6448536 * std["gaussian"][gaussian], rtol=1e-6)


def test_draws_have_the_moments_of_imputed_values(fitted):
    frame, model = fitted
    n_draws = 3000
    draws = model.sample_posterior(frame, n_draws, of="values", n_steps=2, random_state=0)
    assert draws.shape == (n_draws, N + 2, 6)
    observed = frame.notna().to_numpy()
    np.testing.assert_array_equal(draws[0, :N][observed], frame.to_numpy()[observed])
    filled, std = model.impute(frame, return_std=True)
    for j in (0, 1, 2, 3):
        mean, column_std = draws[:, :N, j].mean(axis=0), std.to_numpy()[:, j]
        np.testing.assert_array_less(
            np.abs(mean - filled.to_numpy()[:, j])[~observed[:, j]],
            mc_tolerance(1.0, n_draws) * column_std[~observed[:, j]],
        )
    ahead = model.forecast(frame, 2)
    np.testing.assert_allclose(
        draws[:, N:, 3].mean(axis=0),
        ahead.means["gaussian"],
        atol=mc_tolerance(1.0, n_draws) * ahead.std["gaussian"].max(),
    )
    assert model.sample_posterior(frame, 2, random_state=0).shape == (2, N, 1)


def test_probabilities_of_levels(fitted):
    frame, model = fitted
    p = model.level_probabilities(frame)
    assert set(p) == {"bernoulli", "categorical"}
    missing = frame["bernoulli"].isna().to_numpy()
    np.testing.assert_allclose(
        p["bernoulli"][missing, 1], model.impute(frame)["bernoulli"][missing], atol=EXACT
    )
    assert all(np.allclose(part.sum(axis=1), 1.0) for part in p.values())
    best = model.levels_[5][np.argmax(p["categorical"], axis=1)]
    gap = frame["categorical"].isna().to_numpy()
    np.testing.assert_array_equal(best[gap], model.impute(frame)["categorical"][gap])
    with pytest.raises(ValueError, match="levels"):
        EmissionSFA(1, emission="gaussian").fit(frame[["gaussian", "student_t"]]).level_probabilities(
            frame[["gaussian", "student_t"]]
        )


def test_forecasts_continue_the_index(fitted):
    frame, model = fitted
    ahead = model.forecast(frame, 5, interval=0.8)
    assert ahead.means.index[0] == frame.index[-1] + pd.Timedelta("1h") and ahead.means.shape == (5, 6)
    assert list(ahead.latent_means.columns) == ["emissionsfa0"]
    assert np.all(ahead.lower.iloc[:, :5] <= ahead.upper.iloc[:, :5])
    last = model.posterior(frame).means.to_numpy()[-1]
    expected = model.decay_[0] ** np.arange(1, 6) * last[0]
    np.testing.assert_allclose(ahead.latent_means["emissionsfa0"], expected, atol=1e-8)
    far = model.forecast(frame, fh=[1.0, 5.0])
    np.testing.assert_allclose(far.means.to_numpy(), ahead.means.to_numpy()[[0, 4]], rtol=1e-8)


def test_predictive_probabilities_sum_to_one(fitted):
    """Probabilities sum to one; the peak of a Gaussian density follows from its standard deviation."""
    frame, model = fitted
    fitted_model = model._model
    posterior = model.posterior(frame)

    def density(column, value):
        values = np.full((N, 6), np.nan)
        values[:, column] = value
        parts = (
            fitted_model.params,
            fitted_model.columns,
            fitted_model.shapes,
            posterior.means.to_numpy(),
            posterior.covariances,
        )
        return np.exp(log_predictive(*parts, values)[:, column])

    np.testing.assert_allclose(sum(density(0, k) for k in (0, 1)), 1.0, atol=1e-8)
    np.testing.assert_allclose(sum(density(1, k) for k in range(200)), 1.0, atol=1e-6)
    np.testing.assert_allclose(sum(density(5, k) for k in (0.0, 10.0, 20.0)), 1.0, atol=1e-8)
    missing = np.flatnonzero(frame["gaussian"].isna())[0]
    filled, std = model.impute(frame, return_std=True)
    at = filled["gaussian"].iloc[missing]
    peak = 1.0 / np.sqrt(2.0 * np.pi) / std["gaussian"].iloc[missing]
    assert density(3, at)[missing] == pytest.approx(peak, rel=1e-8)


def test_lists_lengths_and_names(fitted):
    frame, model = fitted
    parts = [frame.iloc[:50], frame.iloc[50:]]
    results = model.transform(parts)
    assert [len(part) for part in results] == [50, N - 50]
    np.testing.assert_allclose(
        np.concatenate(results), model.transform(frame, lengths=[50, N - 50]), atol=1e-8
    )
    assert [p["bernoulli"].shape for p in model.level_probabilities(parts)] == [(50, 2), (N - 50, 2)]
    assert [len(part) for part in model.impute(parts)] == [50, N - 50]
    assert sum(part.log_likelihood for part in model.posterior(parts)) == pytest.approx(
        model.lower_bound(parts)
    )
    named = clone(model).set_output(transform="pandas")
    named._model, named.n_features_in_, named.feature_names_in_ = (
        model._model,
        model.n_features_in_,
        model.feature_names_in_,
    )
    assert list(named.transform(frame).columns) == ["emissionsfa0"]
    assert [list(one.columns) for one in named.transform(parts)] == [["emissionsfa0"]] * 2


def test_sample_is_drawn_from_the_model(fitted):
    _, model = fitted
    X, factors = model.sample(4000, random_state=1)
    assert X.shape == (4000, 6) and factors.shape == (4000, 1)
    assert set(np.unique(X[:, 0])) == {0.0, 1.0} and set(np.unique(X[:, 5])) <= {0.0, 10.0, 20.0}
    again = model.sample(4000, random_state=1)[0]
    np.testing.assert_array_equal(X, again)
    lag_one = np.corrcoef(factors[1:, 0], factors[:-1, 0])[0, 1]
    assert lag_one == pytest.approx(model.decay_[0], abs=6 * np.sqrt((1 - model.decay_[0] ** 2) / 4000))


def test_saved_and_loaded_model_has_equal_results(fitted, tmp_path):
    frame, model = fitted
    path = tmp_path / "model.npz"
    model.save(path)
    loaded = probsfa.load(path)
    assert isinstance(loaded, EmissionSFA) and loaded.status_ == model.status_
    np.testing.assert_array_equal(loaded.transform(frame), model.transform(frame))
    np.testing.assert_array_equal(loaded.impute(frame), model.impute(frame))
    assert loaded.forecast(frame, 2).means.equals(model.forecast(frame, 2).means)


# ---------------------------------------------------------------- input validation


def with_value(kind, value):
    X = draw(kind, parameters(3, (0.9,)), 60)[0]
    X[7, 1] = value
    return X


@pytest.mark.parametrize(
    "emission, value, reason",
    [
        (
            "poisson",
            -1.0,
            r"\bX\b.*-1.*column 1, row 7.*emission='poisson'",
        ),
        ("negative_binomial", 2.5, r"2\.5.*column 1, row 7"),
        (
            "bernoulli",
            2.0,
            r"\bX\b.*2.*column 1, row 7.*emission='bernoulli'",
        ),
        ("poisson", np.inf, r"infinity.*row 7, column 1"),
        ("poisson", 1e17, r"1e\+17.*column 1, row 7"),
    ],
)
def test_errors_name_column_and_value(emission, value, reason):
    X = with_value(emission, value)
    with pytest.raises(ValueError, match=reason):
        EmissionSFA(1, emission=emission).fit(X)
    if np.isfinite(value):
        frame = pd.DataFrame(X, columns=["a", "b", "c"])
        with pytest.raises(ValueError, match=r"column 1 \('b'\)"):
            EmissionSFA(1, emission=emission).fit(frame)
        with pytest.raises(ValueError, match=r"row 2 of X\[1\]"):
            EmissionSFA(1, emission=emission).fit([X[:5], X[5:]])


@pytest.mark.parametrize(
    "options, reason",
    [
        ({"emission": "gamma"}, "emission.*'auto'"),
        ({"emission": ["poisson"]}, "emission.*1.*X.*3"),
        ({"emission": {"wind": "poisson"}}, "column 'wind'"),
        ({"emission": 3}, "emission"),
        ({"n_components": 0}, "n_components"),
        ({"max_iter": 0}, "max_iter"),
        ({"tol": -1.0}, "tol"),
    ],
)
def test_parameters_are_checked(options, reason):
    X = draw("poisson", parameters(3, (0.9,)), 60)[0]
    with pytest.raises(ValueError, match=reason):
        EmissionSFA(**options).fit(X)


def test_errors_of_new_levels_empty_columns_and_unfitted_models(fitted):
    frame, model = fitted
    with pytest.raises(ValueError, match="column 5"):
        model.transform(frame.assign(categorical=7.0))
    with pytest.raises(ValueError, match="column 1"):
        EmissionSFA(1).fit(frame.assign(poisson=np.nan))
    with pytest.raises(NotFittedError):
        EmissionSFA(1).transform(frame)
    with pytest.raises(ValueError, match=r"interval.*got 1\.5"):
        model.impute(frame, interval=1.5)
    # A fitted model infers rows and columns without observations.
    unknown = frame.astype(float).copy()
    unknown.iloc[:, 1], unknown.iloc[30:40] = np.nan, np.nan
    assert np.all(np.isfinite(model.transform(unknown)))
    assert np.all(np.isfinite(model.impute(unknown)))


def test_booleans_are_zeros_and_ones():
    X = draw("bernoulli", parameters(3, (0.9,)), 60)[0]
    booleans = EmissionSFA(1, emission="bernoulli").fit(X.astype(bool))
    numbers = EmissionSFA(1, emission="bernoulli").fit(X)
    np.testing.assert_array_equal(booleans.transform(X.astype(bool)), numbers.transform(X))


def test_extreme_values_have_finite_posteriors(fitted):
    frame, model = fitted
    far = frame.copy()
    far.iloc[3, 1], far.iloc[50, 2], far.iloc[90, 3] = 1e6, 1e7, 1e5
    assert np.all(np.isfinite(model.transform(far)))


# ---------------------------------------------------------------- how fits end


def test_an_interrupted_fit_has_the_best_parameters(monkeypatch):
    X = draw("poisson", parameters(3, (0.9,)), 60)[0]
    evaluate, calls = learning.BoundObjective.__call__, []

    def interrupted(self, vector):
        calls.append(vector)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return evaluate(self, vector)

    monkeypatch.setattr(learning.BoundObjective, "__call__", interrupted)
    with pytest.warns(ConvergenceWarning, match="Interrupted"):
        model = EmissionSFA(1, emission="poisson", tol=1e-6).fit(X)
    assert not model.converged_ and np.all(np.isfinite(model.transform(X)))
    assert len(model.history_) >= 1 and model.history_[-1] == pytest.approx(model.lower_bound_)


def test_max_iter_is_reported():
    X = draw("poisson", parameters(3, (0.9,)), 60)[0]
    with pytest.warns(ConvergenceWarning, match="Raise max_iter"):
        model = EmissionSFA(2, emission="poisson", max_iter=2, tol=1e-9).fit(X)
    assert not model.converged_ and model.n_evaluations_ == 2


def test_progress_is_shown(capsys):
    X = draw("poisson", parameters(3, (0.9,)), 60)[0]
    EmissionSFA(1, emission="poisson", verbose=True).fit(X)
    assert "log-likelihood" in capsys.readouterr().err


def test_default_number_of_factors():
    X = draw("poisson", parameters(3, (0.9,)), 60)[0]
    model = EmissionSFA(emission="poisson").fit(X)
    assert model.transform(X).shape == (60, 3)
    assert "n_components=None selected 3 latent factors" in model.status_


EXPECTED = {
    "check_methods_subset_invariance": "rows are a time series: a posterior depends on all rows",
    "check_methods_sample_order_invariance": "rows are a time series: the model describes their order",
}


@parametrize_with_checks([EmissionSFA(1)], expected_failed_checks=lambda estimator: EXPECTED)
@pytest.mark.exhaustive
def test_scikit_learn_contract(estimator, check):
    check(estimator)


# ---------------------------------------------------------------- comparison with a sampler


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["bernoulli", "poisson"])
def test_posterior_agrees_with_a_sampler(kind):
    """Means of NUTS draws of the factors, at the same parameters, agree within 0.1 standard deviations."""
    params = parameters(4, (0.9,))
    X, _ = draw(kind, params, 30, seed=2, missing=0.1)
    means, std = oracle.sampled_factors(kind, X, params.decay, params.loadings, params.offset)
    inferred, _ = infer(params, observations_of(kind, X), (shape_of(kind, 4),), tol=1e-10)
    inferred_std = np.sqrt(inferred.covariances[:, 0, 0])
    assert np.max(np.abs(inferred.means[:, 0] - means) / std) < 0.1
    np.testing.assert_allclose(inferred_std, std, rtol=0.1)
